"""The indices of words, characters, tags, features and labels, built from the training part of a treebank."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arbora.data.conll import Sentence
from arbora.data.lemma_rules import lemma_rule

PAD, UNKNOWN, ROOT = 0, 1, 2
SPECIAL = 3
"""Index of the first entry of every list, after padding, unknown and the root."""

LONGEST_FORM = 24
"""Maximum number of characters read from a form; of longer forms, the first and the last twelve."""


TAGS = ("upos", "xpos", "feats", "lemmas")
"""Columns that taggers predict, by the names that settings have for them."""

NOT_ANNOTATED, NO_CLASS = -1, -2
"""Class of words without annotation, or with an annotation that is not among the classes."""


def feature_names(feats: str) -> list[str]:
    """The single features of a FEATS column: `Case=Nom|Number=Sing` has two, `_` none."""
    return [] if feats == "_" else feats.split("|")


def tag_names(sentence: Sentence) -> dict[str, list[str | None]]:
    """Names of the classes of a sentence's tags, features and lemmas, by column; None where there is no annotation.

    A word that has a tag but no features is annotated: it has none.
    """
    tagged = [upos != "_" or xpos != "_" for upos, xpos in zip(sentence.upos, sentence.xpos)]
    return {
        "upos": [None if tag == "_" else tag for tag in sentence.upos],
        "xpos": [None if tag == "_" else tag for tag in sentence.xpos],
        "feats": [feats if has_tag or feats != "_" else None for feats, has_tag in zip(sentence.feats, tagged)],
        "lemmas": [
            None if lemma == "_" != form else lemma_rule(form, lemma)
            for form, lemma in zip(sentence.form, sentence.lemma)
        ],
    }


LATER = {"feature_sets", "known_lemmas", "lemma_rules", "treebanks"}
"""Entries that are missing in vocabularies of earlier versions."""


@dataclass
class Vocabulary:
    """Entries for which a model has an embedding or an output.

    Indices 0, 1 and 2 of every list but the labels are padding, unknown and the root; labels start at 0.

    Args:
        words: lower-cased forms.
        characters: characters of forms, case kept.
        upos: universal tags.
        xpos: language-specific tags.
        feats: single features, such as `Case=Nom`.
        lemmas: lemmas.
        feature_sets: whole FEATS columns, such as `Case=Nom|Number=Sing` or `_`, the classes of a tagger.
        lemma_rules: from forms to lemmas, the classes of a lemmatizer.
        known_lemmas: forms with a universal tag that had one lemma in training, each as `form TAG lemma` with tabs;
            no lemma stands for one that is the form.
        treebanks: names of the treebanks of the training part, where there are several.
        labels: relations.
        root_labels: those of the labels that were seen on an arc from the root.
        inner_labels: those of the labels that were seen on an arc from a word.
        pretrained: words that have a pretrained vector.
        vector_size: size of these vectors.
        vectors: the vectors, (words, size); None once they are part of a model's weights.
    """

    words: list[str] = field(default_factory=list)
    characters: list[str] = field(default_factory=list)
    upos: list[str] = field(default_factory=list)
    xpos: list[str] = field(default_factory=list)
    feats: list[str] = field(default_factory=list)
    lemmas: list[str] = field(default_factory=list)
    feature_sets: list[str] = field(default_factory=list)
    lemma_rules: list[str] = field(default_factory=list)
    known_lemmas: list[str] = field(default_factory=list)
    treebanks: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    root_labels: list[str] = field(default_factory=list)
    inner_labels: list[str] = field(default_factory=list)
    pretrained: list[str] = field(default_factory=list)
    vector_size: int = 0
    vectors: NDArray[np.float32] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        sentences: Iterable[Sentence],
        min_frequency: int = 2,
        pretrained: tuple[list[str], NDArray[np.float32]] | None = None,
        treebanks: Sequence[str] = (),
    ) -> Vocabulary:
        """Count the sentences' columns.

        Args:
            sentences: the training part.
            min_frequency: words, lemmas and lemma rules seen less often are unknown. Everything else is kept from the
                first time on.
            pretrained: words and their vectors, from `read_vectors`.
            treebanks: names of treebanks, where there are several.
        """
        words, characters, upos, xpos, feats, lemmas, sets, rules = (Counter[str]() for _ in range(8))
        root_labels, inner_labels = set[str](), set[str]()
        sentences = list(sentences)
        for sentence in sentences:
            words.update(form.lower() for form in sentence.form)
            characters.update("".join(sentence.form))
            upos.update(sentence.upos)
            xpos.update(sentence.xpos)
            lemmas.update(sentence.lemma)
            for column in sentence.feats:
                feats.update(feature_names(column))
            found = tag_names(sentence)
            sets.update(name for name in found["feats"] if name is not None)
            rules.update(name for name in found["lemmas"] if name is not None)
            for head, label in zip(sentence.head, sentence.deprel):
                if head >= 0:
                    (root_labels if head == 0 else inner_labels).add(label)
        if root_labels | inner_labels != {"_"}:  # some words are annotated, and others are not
            root_labels.discard("_")
            inner_labels.discard("_")
        return cls(
            words=_frequent(words, min_frequency),
            characters=_frequent(characters, 1),
            upos=_frequent(upos, 1),
            xpos=_frequent(xpos, 1),
            feats=_frequent(feats, 1),
            lemmas=_frequent(lemmas, min_frequency),
            feature_sets=_frequent(sets, 1) if feats else [],
            lemma_rules=_frequent(rules, min_frequency),
            known_lemmas=known_lemmas(sentences),
            treebanks=list(treebanks),
            labels=sorted(root_labels | inner_labels),
            root_labels=sorted(root_labels),
            inner_labels=sorted(inner_labels),
            pretrained=pretrained[0] if pretrained else [],
            vector_size=pretrained[1].shape[1] if pretrained else 0,
            vectors=pretrained[1] if pretrained else None,
        )

    def size(self, column: str) -> int:
        """Number of indices of a column (`words`, `upos`, ...), the special ones included."""
        return len(getattr(self, column)) + SPECIAL

    def as_dict(self) -> dict[str, list[str] | int]:
        """Return everything except the vectors, for JSON."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name != "vectors"}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Vocabulary:
        """The inverse of `as_dict`; refuses anything but lists of strings and the size of vectors."""
        expected = {item.name for item in fields(cls)} - {"vectors"}
        if set(values) | LATER != expected:
            raise ValueError(f"vocabulary: expected the entries {sorted(expected)}, got {sorted(values)}")
        for name, value in values.items():
            strings = isinstance(value, list) and all(isinstance(entry, str) for entry in value)
            if not (type(value) is int if name == "vector_size" else strings):
                raise ValueError(f"vocabulary: {name} has the wrong type")
        if any(entry.count("\t") != 2 for entry in values.get("known_lemmas", [])):
            raise ValueError("vocabulary: entries of known_lemmas must be a form, a tag and a lemma")
        return cls(**values)

    def extended(self, other: Vocabulary) -> Vocabulary:
        """Return this vocabulary with the entries of another appended, so that its own indices do not change.

        Pretrained words are those of this vocabulary.
        """
        own, more = self.as_dict(), other.as_dict()
        for name, entries in own.items():
            if isinstance(entries, list) and name != "pretrained":
                own[name] = list(dict.fromkeys([*entries, *more[name]]))  # type: ignore[misc]
        return Vocabulary.from_dict(own)

    def treebank_index(self, name: str | None) -> int:
        """Return the index of a treebank, by default of the first.

        Raises:
            ValueError: there is no such treebank.
        """
        if name is None:
            return SPECIAL if self.treebanks else UNKNOWN
        if name not in self.treebanks:
            known = f"it has {', '.join(self.treebanks)}" if self.treebanks else "it was trained on one without a name"
            raise ValueError(f"the parser has no treebank {name}: {known}")
        return SPECIAL + self.treebanks.index(name)

    def matches(self, stored: dict[str, Any]) -> bool:
        """Return whether a stored vocabulary is from the same training part; it may lack later kinds of entries."""
        own = self.as_dict()
        return set(own) == set(stored) | LATER and all(own[name] == value for name, value in stored.items())

    @cached_property
    def tag_classes(self) -> dict[str, list[str]]:
        """Classes of taggers by column: tags, whole FEATS, lemma rules."""
        listed = {"upos": self.upos, "xpos": self.xpos, "feats": self.feature_sets, "lemmas": self.lemma_rules}
        return {name: [entry for entry in found if entry != "_" or name == "feats"] for name, found in listed.items()}

    @cached_property
    def _lemma_of(self) -> dict[tuple[str, str], str]:
        """Known lemmas by form and universal tag; of two for the same, the later one."""
        entries = (entry.split("\t") for entry in self.known_lemmas)
        return {(form, upos): lemma or form for form, upos, lemma in entries}

    def known_lemma(self, form: str, upos: str) -> str | None:
        """Lemma that a form with this tag, or its lower-cased form, always had in training."""
        return self._lemma_of.get((form, upos)) or self._lemma_of.get((form.lower(), upos))

    @cached_property
    def _class_index(self) -> dict[str, dict[str | None, int]]:
        classes = self.tag_classes.items()
        return {name: {None: NOT_ANNOTATED, **{entry: i for i, entry in enumerate(found)}} for name, found in classes}

    def tag_targets(self, sentence: Sentence) -> NDArray[np.int64]:
        """(4, n) classes of the words of an annotated sentence, in the order of `TAGS`."""
        found = tag_names(sentence)
        rows = [[self._class_index[name].get(entry, NO_CLASS) for entry in found[name]] for name in TAGS]
        return np.array(rows, np.int64)

    @cached_property
    def index(self) -> dict[str, dict[str, int]]:
        """Index of each entry, by column."""
        columns = ("words", "characters", "upos", "xpos", "feats", "lemmas", "pretrained")
        return {name: {entry: i for i, entry in enumerate(getattr(self, name), SPECIAL)} for name in columns}

    @cached_property
    def label_index(self) -> dict[str, int]:
        """Index of each label."""
        return {label: i for i, label in enumerate(self.labels)}

    @cached_property
    def _label_of_base(self) -> dict[str, int]:
        """Index of the first label with each base, the label without its subtype."""
        return {label.partition(":")[0]: i for i, label in reversed(list(enumerate(self.labels)))}

    def label_code(self, label: str) -> int:
        """The index of a label; -2 - i for an unknown one with the base of label i; -1 for any other."""
        index = self.label_index.get(label)
        if index is None:
            return -2 - self._label_of_base.get(label.partition(":")[0], -1)
        return index

    def base_labels(self, codes: NDArray[Any]) -> NDArray[np.int64]:
        """Labels without their subtypes, as numbers, of labels by their codes; -1 where there is none."""
        base = np.array([self._label_of_base[label.partition(":")[0]] for label in self.labels] + [-1])
        return base[np.where(codes < -1, -2 - codes, codes)]

    @cached_property
    def allowed_labels(self) -> NDArray[np.bool_]:
        """(2, L): labels seen on an arc from a word, and on an arc from the root."""
        seen = (set(self.inner_labels), set(self.root_labels))
        return np.array([[label in kind for label in self.labels] for kind in seen])

    def look_up(self, column: str, entry: str) -> int:
        """Index of an entry of a column."""
        index = self.index[column]
        if column == "words":
            return index.get(entry.lower(), UNKNOWN)
        if column == "pretrained" and entry not in index:
            return index.get(entry.lower(), UNKNOWN)
        return index.get(entry, UNKNOWN)

    @cached_property
    def _letters(self) -> NDArray[np.int32]:
        """Index of each character, by its code point."""
        letters = np.full(sys.maxunicode + 1, UNKNOWN, np.int32)
        letters[[ord(character) for character in self.characters]] = np.arange(SPECIAL, self.size("characters"))
        return letters

    def spellings(self, forms: Sequence[str]) -> NDArray[np.int64]:
        """(1 + U, C) character indices of the root and of forms, padded."""
        half = LONGEST_FORM // 2
        read = [form if len(form) <= LONGEST_FORM else form[:half] + form[-half:] for form in forms]
        lengths = np.array([1, *map(len, read)])
        codes = np.frombuffer("".join(read).encode("utf-32-le", "surrogatepass"), np.uint32)
        found = np.full((len(lengths), lengths.max()), PAD, np.int64)
        found[np.arange(found.shape[1]) < lengths[:, None]] = np.concatenate([[ROOT], self._letters[codes]])
        return found


def known_lemmas(sentences: Iterable[Sentence]) -> list[str]:
    """Entries of `Vocabulary.known_lemmas`."""
    found: dict[tuple[str, str], str | None] = {}
    for sentence in sentences:
        for form, upos, lemma in zip(sentence.form, sentence.upos, sentence.lemma):
            if lemma != "_" or form == "_":
                found[form, upos] = lemma if found.get((form, upos), lemma) == lemma else None
    return [
        f"{form}\t{upos}\t{'' if lemma == form else lemma}"
        for (form, upos), lemma in sorted(found.items())
        if lemma is not None and (form == form.lower() or found.get((form.lower(), upos)) != lemma)
    ]


def _frequent(counts: Counter[str], at_least: int) -> list[str]:
    """Entries by falling frequency, ties in alphabetical order."""
    return sorted((entry for entry, n in counts.items() if n >= at_least), key=lambda entry: (-counts[entry], entry))
