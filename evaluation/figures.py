"""Attachment scores and similar figures, from gold and system trees over the same words.

UAS, LAS and CLAS are computed as in the official Universal Dependencies evaluation (Zeman et al. 2018, "CoNLL 2018
shared task: multilingual parsing from raw text to Universal Dependencies"): labels are compared without their subtypes,
so `acl:relcl` counts as `acl`. `las_full` compares full labels, as in the evaluation of the CoNLL-X shared task.

An arc from h to m is called non-projective if some word strictly between them does not descend from h.

Sentences are counted in blocks with numpy; memory does not grow with their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arbora.data.conll import ConllError, Format, Sentence, read_conll

# Relations that CLAS leaves out are the functional ones, punctuation, and labels that UD does not have.
# fmt: off
CONTENT = {
    "acl", "advcl", "advmod", "amod", "appos", "ccomp", "compound", "conj", "csubj", "dep", "discourse", "dislocated",
    "expl", "fixed", "flat", "goeswith", "iobj", "list", "nmod", "nsubj", "nummod", "obj", "obl", "orphan",
    "parataxis", "reparandum", "root", "vocative", "xcomp",
}
# fmt: on

_PUNCTUATION = ("all", "without_punct_upos", "without_punct_form")
_SENTENCE_LENGTHS = {"1-10": 1, "11-20": 11, "21-30": 21, "31-40": 31, "41-50": 41, "51+": 51}  # first length in each
_ARC_LENGTHS = {"root": 0, "1": 1, "2": 2, "3-6": 3, "7-10": 7, "11+": 11}

_COUNTS = np.dtype(
    [
        # words; those with the right head; with the right label too; with the right whole label too
        ("attachment", np.int64, (len(_PUNCTUATION), 4)),
        ("sentence_length", np.int64, (len(_SENTENCE_LENGTHS), 4)),
        ("arc_length", np.int64, (len(_ARC_LENGTHS), 4)),
        ("content", np.int64, 3),  # content words in gold, in system, gold ones with head and label right
        ("undirected", np.int64),
        ("root", np.int64, 2),  # in gold, found
        ("tree", np.int64, 3),  # sentences, all heads right, all labels right too
        ("non_projective", np.int64, 4),  # in gold, in system, of gold found, of system right
    ]
)

_PENDING = 512  # sentences counted at a time
_CELLS = 1 << 20  # of the descendant matrices built at a time


class DifferentWordsError(ConllError):
    """Two files that do not have the same sentences and words."""


class Evaluation:
    """Counts over pairs of trees, and the figures computed from them.

    Evaluations of several processes can be added: `a + b`, or the sum of their `counts`.

    Args:
        counts: the `counts` of another evaluation, to continue from.

    Example:
        >>> evaluation = Evaluation()
        >>> evaluation.add(sentence, heads, labels)  # doctest: +SKIP
        >>> evaluation.figures()["uas"]  # doctest: +SKIP
    """

    def __init__(self, counts: ArrayLike | None = None) -> None:
        self._counts = np.zeros(1, _COUNTS)
        if counts is not None:
            self._counts.view(np.int64)[:] = counts
        self._pending: list[tuple[Sentence, Sequence[int], Sequence[str]]] = []

    @property
    def counts(self) -> NDArray[np.int64]:
        """All counts as one vector, which has the same length for every evaluation."""
        self._flush()
        return self._counts.view(np.int64).copy()

    def __add__(self, other: Evaluation) -> Evaluation:
        return Evaluation(self.counts + other.counts)

    def add(self, gold: Sentence, heads: Sequence[int], labels: Sequence[str]) -> None:
        """Count one sentence.

        Args:
            gold: the sentence with its gold tree.
            heads: the system's head of each of the n words, without an entry for the root; they must be a tree.
            labels: the system's label of each of the n words.

        Raises:
            ValueError: the numbers of words differ, or a head lies outside the sentence.
        """
        n = len(gold.form)
        if not len(heads) == len(labels) == n:
            raise ValueError(f"{gold.where()}: {n} words, but {len(heads)} heads and {len(labels)} labels")
        if n and not 0 <= min(heads) <= max(heads) <= n:
            raise ValueError(f"{gold.where()}: heads must lie in 0..{n}, got {min(heads)}..{max(heads)}")
        self._pending.append((gold, heads, labels))
        if len(self._pending) == _PENDING:
            self._flush()

    def figures(self) -> dict[str, Any]:
        """Return all figures, ready for JSON.

        Accuracies are percentages; None if there is nothing to count.

        - `uas`, `las`, `las_full` with all words; the same in `without_punct_upos` (words whose gold UPOS is not PUNCT)
          and `without_punct_form` (words with a letter or a digit).
        - `clas`: F1 over words with a content relation.
        - `undirected_uas`: gold arcs that the system has in any direction.
        - `root`: gold root words that are root words in the system.
        - `tree_unlabelled`, `tree_labelled`: sentences without an error, labels compared as in `las`.
        - `non_projective`: recall is the share of the gold's non-projective arcs that the system has, precision the
          share of the system's that the gold has.
        - `sentence_length`, `arc_length`: scores by the length of the sentence, and by the distance of a word from its
          gold head.
        """
        self._flush()
        counts = self._counts[0]
        words = int(counts["attachment"][0, 0])
        sentences = int(counts["tree"][0])
        gold_content, system_content, content = counts["content"]
        gold, system, found, right = (int(count) for count in counts["non_projective"])
        recall, precision = _percent(found, gold), _percent(right, system)
        f1 = None
        if recall is not None and precision is not None:
            f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        scopes = {name: _scores(row) for name, row in zip(_PUNCTUATION, counts["attachment"])}
        return {
            "sentences": sentences,
            **scopes.pop("all"),
            "clas": _percent(2 * content, gold_content + system_content),
            "undirected_uas": _percent(counts["undirected"], words),
            "root": _percent(counts["root"][1], counts["root"][0]),
            "tree_unlabelled": _percent(counts["tree"][1], sentences),
            "tree_labelled": _percent(counts["tree"][2], sentences),
            **scopes,
            "non_projective": {"gold": gold, "system": system, "precision": precision, "recall": recall, "f1": f1},
            "sentence_length": {k: _scores(row) for k, row in zip(_SENTENCE_LENGTHS, counts["sentence_length"])},
            "arc_length": {k: _scores(row) for k, row in zip(_ARC_LENGTHS, counts["arc_length"])},
        }

    def _flush(self) -> None:
        if self._pending:
            _count(self._counts[0], *zip(*self._pending, strict=True))
            self._pending.clear()


def evaluate_files(gold: str | Path, system: str | Path, *, format: Format = "auto") -> Evaluation:
    """Compare a parsed file with its gold standard.

    Args:
        gold: treebank with the gold trees.
        system: the same sentences with other trees.
        format: of both files, as for `read_conll`.

    Raises:
        ConllError: a file cannot be read.
        DifferentWordsError: the files do not have the same sentences and words.
    """
    evaluation = Evaluation()
    pairs = zip_longest(read_conll(gold, format=format), read_conll(system, format=format))
    for count, (expected, found) in enumerate(pairs):
        if expected is None or found is None:
            longer, ended = (expected, system) if found is None else (found, gold)
            raise DifferentWordsError(
                f"{longer.where()}: {ended} ends before this sentence, after {count}; give files of the same text"
            )
        if expected.form != found.form:
            raise DifferentWordsError(different_words(expected, found))
        evaluation.add(expected, found.head, found.deprel)
    return evaluation


def non_projective_arcs(heads: NDArray[np.integer], lengths: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Return for each word whether its arc is non-projective.

    The arc from h to m is non-projective if some word strictly between them does not descend from h. A sentence of n
    words takes O(n²) time and memory.

    Args:
        heads: the heads of all words of all sentences, one after the other, without entries for roots.
        lengths: the number of words in each sentence.

    Returns:
        An array like `heads`.

    Raises:
        ValueError: the heads of a sentence have a cycle.
    """
    crossing = np.zeros(len(heads), np.bool_)
    starts = np.cumsum(lengths) - lengths
    order = np.argsort(lengths, kind="stable")
    while order.size:  # sentences of similar length together, the longest first
        n = int(lengths[order[-1]])
        order, block = np.split(order, [max(0, order.size - max(1, _CELLS // (n + 1) ** 2))])
        inside = np.arange(n) < lengths[block, None]  # (B, n)
        flat = (starts[block, None] + np.arange(n))[inside]
        tree = np.zeros((len(block), n + 1), np.intp)
        tree[:, 1:][inside] = heads[flat]
        crossing[flat] = _non_projective_block(tree)[inside]
    return crossing


def _non_projective_block(tree: NDArray[np.intp]) -> NDArray[np.bool_]:
    """The same for sentences padded with words under the root to (B, n + 1); column 0 is the root. Returns (B, n)."""
    sentences, size = tree.shape
    row = np.arange(sentences)[:, None]
    word = np.arange(size)
    descends = np.zeros((sentences, size, size), np.bool_)  # [b, a, k]: k descends from a
    ancestor = np.broadcast_to(word, tree.shape)
    for _ in range(size):
        descends[row, ancestor, word] = True
        if not ancestor.any():
            break
        ancestor = tree[row, ancestor]
    else:
        raise ValueError("no tree: the heads have a cycle")
    head, modifier = tree[:, 1:, None], word[1:, None]
    between = (np.minimum(head, modifier) < word) & (word < np.maximum(head, modifier))  # (B, n, n+1)
    crossed: NDArray[np.bool_] = np.any(between & ~descends[row, tree[:, 1:]], axis=2)
    return crossed


def _count(
    counts: np.void,
    gold: Sequence[Sentence],
    system_heads: Sequence[Sequence[int]],
    system_labels: Sequence[Sequence[str]],
) -> None:
    """Add a block of sentences to the counts."""
    lengths = np.array([len(sentence.form) for sentence in gold])
    total = int(lengths.sum())
    head = np.fromiter(chain.from_iterable(sentence.head for sentence in gold), np.intp, total)
    guess = np.fromiter(chain.from_iterable(system_heads), np.intp, total)
    number: dict[str, int] = {}
    label = _numbered((sentence.deprel for sentence in gold), number, total)
    guess_label = _numbered(system_labels, number, total)
    universal_number: dict[str, int] = {}
    bare = [name.split(":")[0] for name in number]
    universal = np.array([universal_number.setdefault(name, len(universal_number)) for name in bare], np.intp)
    content = np.array([name in CONTENT for name in bare], np.bool_)

    sentence_of = np.repeat(np.arange(len(gold)), lengths)
    start = np.repeat(np.cumsum(lengths) - lengths, lengths)
    word = np.arange(total) - start + 1

    right = head == guess
    labelled = right & (universal[label] == universal[guess_label])
    columns = np.stack([np.ones(total, np.bool_), right, labelled, right & (label == guess_label)])

    no_upos = np.fromiter((upos != "PUNCT" for sentence in gold for upos in sentence.upos), np.bool_, total)
    no_form = np.fromiter((_has_alphanumeric(form) for sentence in gold for form in sentence.form), np.bool_, total)
    for scope, kept in enumerate((columns[0], no_upos, no_form)):
        counts["attachment"][scope] += columns[:, kept].sum(axis=1)
    arc_length = np.where(head == 0, 0, np.abs(head - word))
    for name, buckets, value in (
        ("sentence_length", _SENTENCE_LENGTHS, lengths[sentence_of]),
        ("arc_length", _ARC_LENGTHS, arc_length),
    ):
        bucket = np.searchsorted(list(buckets.values()), value, side="right") - 1
        for column, values in enumerate(columns):
            counts[name][:, column] += np.bincount(bucket[values], minlength=len(buckets))

    gold_content = content[label]
    counts["content"] += [gold_content.sum(), content[guess_label].sum(), (gold_content & labelled).sum()]
    reverse = (head > 0) & (guess[np.maximum(start + head - 1, 0)] == word)
    counts["undirected"] += (right | reverse).sum()
    counts["root"] += [(head == 0).sum(), ((head == 0) & right).sum()]
    errors = [np.bincount(sentence_of[~good], minlength=len(gold)) for good in (right, labelled)]
    counts["tree"] += [len(gold), *((error == 0).sum() for error in errors)]
    crossing, guess_crossing = non_projective_arcs(head, lengths), non_projective_arcs(guess, lengths)
    counts["non_projective"] += [
        mask.sum() for mask in (crossing, guess_crossing, crossing & right, guess_crossing & right)
    ]


def _numbered(labels: Iterable[Iterable[str]], number: dict[str, int], total: int) -> NDArray[np.intp]:
    """Labels as numbers, new ones taken up into `number`."""
    return np.fromiter((number.setdefault(label, len(number)) for label in chain.from_iterable(labels)), np.intp, total)


@lru_cache(maxsize=1 << 16)
def _has_alphanumeric(form: str) -> bool:
    return any(character.isalnum() for character in form)


def _percent(part: int, whole: int) -> float | None:
    return 100 * int(part) / int(whole) if whole else None


def _scores(row: NDArray[np.int64]) -> dict[str, Any]:
    words = int(row[0])
    scores = {name: _percent(count, words) for name, count in zip(("uas", "las", "las_full"), row[1:], strict=True)}
    return {"words": words, **scores}


def different_words(gold: Sentence, system: Sentence) -> str:
    """Say where two sentences do not have the same words."""
    pairs = enumerate(zip(gold.form, system.form), 1)
    word = next((word for word, (expected, found) in pairs if expected != found), None)
    what = f"{len(gold.form)} words and {len(system.form)} words"
    if word is not None:
        what = f"word {word} is {gold.form[word - 1]!r} and {system.form[word - 1]!r}"
    return f"{gold.where(word)} and {system.where(word)}: {what}; give files of the same words"
