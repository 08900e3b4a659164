"""Results of parsing: sentences with trees, or with the reason why there is no tree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arbora.data.conll import Sentence, Unparsed
from arbora.data.lemma_rules import apply_rule
from arbora.data.vocabulary import Vocabulary
from arbora.extras import importing_extra
from arbora.model.inference.backend import Tags
from arbora.model.inference.batch_parser import LabelledTrees, TagPolicy
from arbora.model.inference.missing_tags import COLUMNS

if TYPE_CHECKING:
    from conllu import TokenList

TAG_PROBABILITIES = {"upos": "UposProb", "xpos": "XposProb", "feats": "FeatsProb", "lemma": "LemmaProb"}
"""Names in MISC of the probabilities of tags, by column."""


class ParsedSentence(NamedTuple):
    """A sentence of n words with its tree, and with predicted tags if the parser has taggers."""

    sentence: Sentence
    heads: NDArray[np.int32]  # (n,) 0..n
    labels: list[str]
    score: float
    certified: bool = False  # whether the tree is provably optimal within the decoder's search space
    arc_probability: NDArray[np.float64] | None = None  # (n,) of each word's arc, if asked for
    label_probability: NDArray[np.float64] | None = None  # (n,) of each word's label, given its arc
    tags: Mapping[str, list[str]] = {}  # columns of which some words have predicted entries, by name in `Sentence`
    tag_probability: Mapping[str, list[float | None]] = {}  # of the predicted entries of these, if asked for
    bound: float | None = None  # no tree scores more, where the decoder has such a bound
    rank: int = 1
    probability: float | None = None  # among the k best trees, if several were asked for
    alternatives: tuple[ParsedSentence, ...] = ()  # trees of the ranks below, if they were

    def __repr__(self) -> str:
        words = [f"{form}<-{head}:{label}" for form, head, label in zip(self.sentence.form, self.heads, self.labels)]
        shown = " ".join(words[:8]) + (" ..." if len(words) > 8 else "")
        return f"ParsedSentence({len(words)} words: {shown}; score {self.score:.4f})"

    @property
    def forms(self) -> list[str]:
        """The words."""
        return self.sentence.form

    @property
    def upos(self) -> list[str]:
        """Universal tags, predicted or from the input."""
        return self.tags.get("upos", self.sentence.upos)

    @property
    def xpos(self) -> list[str]:
        """Language-specific tags, predicted or from the input."""
        return self.tags.get("xpos", self.sentence.xpos)

    @property
    def feats(self) -> list[str]:
        """Morphological features, predicted or from the input."""
        return self.tags.get("feats", self.sentence.feats)

    @property
    def lemmas(self) -> list[str]:
        """Lemmas, predicted or from the input."""
        return self.tags.get("lemma", self.sentence.lemma)

    @property
    def text(self) -> str:
        """Return the sentence in its original format, with its tree and tags, and with probabilities in MISC."""
        return self.as_text()

    def to_conllu(self) -> TokenList:
        """Return the sentence as a token list of the package `conllu`."""
        if self.sentence.format == "conllx":
            raise ValueError(f"{self.sentence.where()}: a sentence of CoNLL-X cannot become a token list of conllu")
        with importing_extra():
            from conllu import parse
        return parse(self.text)[0]

    def as_text(self, scores: bool = False) -> str:
        """Return `text` with comments: rank, score and probability if several trees were requested, others on demand.

        Args:
            scores: write `# arbora_score` and `# arbora_certified`.
        """
        comments = {}
        if self.probability is not None:
            comments["arbora_rank"] = str(self.rank)
        if scores or self.probability is not None:
            comments["arbora_score"] = f"{self.score:.4f}"
        if self.probability is not None:
            comments["arbora_probability"] = f"{self.probability:.4f}"
        if scores:
            comments["arbora_certified"] = str(self.certified).lower()
        misc = None
        if self.arc_probability is not None and self.label_probability is not None:
            misc = [
                {"ArcProb": f"{arc:.4f}", "LabelProb": f"{label:.4f}"}
                for arc, label in zip(self.arc_probability.tolist(), self.label_probability.tolist())
            ]
            for column, values in self.tag_probability.items():
                for entry, value in zip(misc, values):
                    if value is not None:
                        entry[TAG_PROBABILITIES[column]] = f"{value:.4f}"
        return self.sentence.with_tree(self.heads.tolist(), self.labels, comments, misc, self.tags)


def parsed_sentences(
    sentences: Sequence[Sentence], found: LabelledTrees, vocabulary: Vocabulary, policy: TagPolicy = "fill"
) -> list[ParsedSentence]:
    """Return the sentences of a batch with their trees, and with predicted tags according to the policy."""
    first = 0
    ranked = (found, *found.others)
    names = [np.array(vocabulary.labels, object)[one.labels] for one in ranked]
    of_words = {name: _Predicted.of(tags, vocabulary.tag_classes[name]) for name, tags in found.tags.items()}
    parsed = []
    for b, sentence in enumerate(sentences):
        tags, probabilities = _tags_of_sentence(sentence, of_words, first, policy, vocabulary)
        trees = [
            _parsed(sentence, b, one, name, tags, probabilities)
            for one, name in zip(ranked, names)
            if one is found or one.trees.score[b] > -np.inf
        ]
        first += len(sentence)
        if found.others:
            scores = np.array([tree.score for tree in trees])
            weights = np.exp(scores - scores.max())
            trees = [
                tree._replace(sentence=_alternative(sentence, rank), rank=rank, probability=share)
                for rank, (tree, share) in enumerate(zip(trees, (weights / weights.sum()).tolist()), 1)
            ]
            trees[0] = trees[0]._replace(alternatives=tuple(trees[1:]))
        parsed.append(trees[0])
    return parsed


class _Predicted(NamedTuple):
    """Entries of a column that were predicted, of all words of a batch."""

    entries: list[str]
    probability: list[float] | None

    @classmethod
    def of(cls, tags: Tags, classes: list[str]) -> _Predicted:
        probability = None if tags.probability is None else tags.probability.tolist()
        return cls(np.array(classes, object)[tags.classes].tolist(), probability)


def _parsed(
    sentence: Sentence,
    b: int,
    found: LabelledTrees,
    names: NDArray[np.object_],
    tags: dict[str, list[str]],
    probabilities: dict[str, list[float | None]],
) -> ParsedSentence:
    """Sentence b of a batch with its tree and tags."""
    trees, words = found.trees, slice(1, len(sentence) + 1)
    labels = names[b, words].tolist()
    if found.keeps_labels:
        labels = [label if known == "_" else known for label, known in zip(labels, sentence.deprel)]
    return ParsedSentence(
        sentence,
        trees.heads[b, words],
        labels,
        float(trees.score[b]),
        bool(trees.certified[b]),
        None if found.arc_probability is None else found.arc_probability[b, words],
        None if found.label_probability is None else found.label_probability[b, words],
        tags,
        probabilities,
        None if trees.bound is None else float(trees.bound[b]),
    )


def _alternative(sentence: Sentence, rank: int) -> Sentence:
    """Return the sentence for the tree of another rank: `# sent_id = s1` becomes `# sent_id = s1/2`.

    Only the first tree begins documents and paragraphs.
    """
    if rank == 1:
        return sentence
    lines = [line for line in sentence.lines if not re.match(r"#\s*new(doc|par)\b", line)]
    dropped = len(sentence.lines) - len(lines)
    lines = [re.sub(r"^(#\s*sent_id\s*=\s*\S+)", rf"\g<1>/{rank}", line) for line in lines]
    return replace(sentence, lines=lines, word_line=[place - dropped for place in sentence.word_line])


def _tags_of_sentence(
    sentence: Sentence, found: Mapping[str, _Predicted], first: int, policy: TagPolicy, vocabulary: Vocabulary
) -> tuple[dict[str, list[str]], dict[str, list[float | None]]]:
    """Return columns with predicted entries, and their probabilities.

    If some word of a sentence has features, the sentence counts as annotated: `_` then means that a word has none.

    Args:
        sentence: as it was read.
        found: entries of the words of a batch, lemmas as rules.
        first: index of the sentence's first word among these.
        policy: which entries of the input are replaced.
        vocabulary: knows lemmas of the training part, which take precedence over rules.
    """
    columns: dict[str, list[str]] = {}
    probabilities: dict[str, list[float | None]] = {}
    words = slice(first, first + len(sentence))
    for name, (entries, probability) in found.items():
        column = COLUMNS[name]
        given: list[str] = getattr(sentence, column)
        empty = given.count("_")
        if policy == "fill" and (not empty or (name == "feats" and empty < len(given))):
            continue
        new = entries[words]
        rated = [True] * len(new)  # whether the probability is that of the entry
        if name == "lemmas":
            upos = columns.get("upos", sentence.upos)
            by_rule = [apply_rule(form, rule) or form for form, rule in zip(sentence.form, new)]
            known = (vocabulary.known_lemma(form, tag) for form, tag in zip(sentence.form, upos))
            new = [lemma or other for lemma, other in zip(known, by_rule)]
            rated = [lemma == other for lemma, other in zip(new, by_rule)]
        if policy != "replace" and empty < len(given):
            new = [entry if old == "_" else old for entry, old in zip(new, given)]
        columns[column] = new
        if probability is not None:
            gives_way = (policy == "replace" or entry == "_" for entry in given)
            probabilities[column] = [
                value if way and is_rated else None
                for value, way, is_rated in zip(probability[words], gives_way, rated)
            ]
    return columns, probabilities


def unparsed(sentence: Sentence, error: Exception | str) -> Unparsed:
    """A sentence that cannot be parsed, with an error that names it."""
    reason = re.sub(r"^sentence 0: ", "", " ".join(str(error).split()))
    if isinstance(error, Exception) and not isinstance(error, ValueError):
        reason = f"{type(error).__name__}: {reason}"
    named = ValueError(f"{sentence.where()}: {reason}")
    named.__cause__ = error if isinstance(error, Exception) else None
    return Unparsed(sentence.lines, sentence.source, sentence.line_number, named)


@contextmanager
def naming_sentences(sentences: Sequence[Sentence]) -> Iterator[None]:
    """Add the place of the sentences to errors that a batch raises."""
    try:
        yield
    except ValueError as error:
        where = ", ".join(sentence.where() for sentence in sentences[:3])
        raise ValueError(f"{where}{', ...' if len(sentences) > 3 else ''}: {error}") from error
