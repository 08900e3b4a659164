"""Sentences as arrays: looked up in the vocabulary once, cut into batches of similar length, padded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from arbora.data.conll import Sentence
from arbora.data.vocabulary import NOT_ANNOTATED, PAD, ROOT, TAGS, Vocabulary, feature_names

Array = TypeVar("Array")


COLUMNS = {"words": "form", "upos": "upos", "xpos": "xpos", "lemmas": "lemma", "pretrained": "form"}
"""Attributes of sentences with the entries of columns, by their names in a batch."""


@dataclass(slots=True)
class IndexedSentence:
    """Indices of one sentence; position 0 of every array is the root."""

    forms: list[str]
    columns: NDArray[np.int64]  # (6, n+1): words, upos, xpos, lemmas, pretrained, treebanks
    feats: NDArray[np.int64]  # (n+1, F) features of each word, padded
    heads: NDArray[np.int64]  # (n+1,), -1 at the root and where not annotated
    labels: NDArray[np.int64]  # (n+1,), -1 at the root; negative where not in the vocabulary, see `label_code`
    tags: NDArray[np.int64]  # (4, n+1) classes of tags, as `Vocabulary.tag_targets` gives them, if asked for
    forbidden: tuple[tuple[int, int], ...] = ()  # arcs, each as (word, head)

    def __len__(self) -> int:
        return len(self.forms)


def index_sentences(
    sentences: Sequence[Sentence], vocabulary: Vocabulary, targets: bool = False, treebank: str | None = None
) -> list[IndexedSentence]:
    """Look up the columns of sentences.

    Args:
        sentences: of words, with what else they have.
        vocabulary: of the training part.
        targets: look up what taggers learn, too, which parsing does not need.
        treebank: the one that they are read as, of those that the vocabulary has; unless given, the first.
    """
    sizes = np.array([len(sentence) + 1 for sentence in sentences], np.int64)
    ends = np.cumsum(sizes)
    is_word = np.ones(sizes.sum(), np.bool_)
    is_word[ends - sizes] = False

    def look_up(index: Callable[[Any], int], column: str) -> NDArray[np.int64]:
        """Indices of the entries of all words; different ones are looked up once."""
        entries = list(chain.from_iterable(getattr(sentence, column) for sentence in sentences))
        found = {entry: index(entry) for entry in set(entries)}
        return np.fromiter(map(found.__getitem__, entries), np.int64, len(entries))

    columns = np.full((len(COLUMNS) + 1, len(is_word)), ROOT)
    columns[-1] = vocabulary.treebank_index(treebank)
    for row, (name, column) in zip(columns, COLUMNS.items()):
        row[is_word] = look_up(partial(vocabulary.look_up, name), column)
    sets: dict[str, int] = {}
    which = look_up(lambda feats: sets.setdefault(feats, len(sets)), "feats")
    names = [[vocabulary.look_up("feats", name) for name in feature_names(feats)] for feats in sets]
    feats = np.full((len(is_word), max(map(len, names), default=0)), PAD)
    feats[is_word] = np.array([row + [PAD] * (feats.shape[1] - len(row)) for row in names], np.int64)[which]
    heads, labels = np.full((2, len(is_word)), -1)
    heads[is_word] = list(chain.from_iterable(sentence.head for sentence in sentences))
    labels[is_word] = look_up(vocabulary.label_code, "deprel")
    tags = np.full((len(TAGS), len(is_word)), NOT_ANNOTATED)
    if targets and sentences:
        tags[:, is_word] = np.concatenate([vocabulary.tag_targets(sentence) for sentence in sentences], 1)
    return [
        IndexedSentence(
            sentence.form,
            columns[:, start:end],
            feats[start:end],
            heads[start:end],
            labels[start:end],
            tags[:, start:end],
            sentence.forbidden,
        )
        for sentence, start, end in zip(sentences, (ends - sizes).tolist(), ends.tolist())
    ]


@dataclass
class Batch(Generic[Array]):
    """A padded batch of B sentences; N is the longest length plus one, position 0 is the root.

    Its arrays are numpy's, as `collate` makes them, or those that a backend turned them into.
    """

    lengths: Array  # (B,) words n of each sentence
    is_word: Array  # (B, N), false at the root and at padding
    places: Array  # (W,) of the words among all B N positions
    words: Array  # (B, N)
    upos: Array  # (B, N)
    xpos: Array  # (B, N)
    lemmas: Array  # (B, N)
    pretrained: Array  # (B, N)
    treebanks: Array  # (B, N)
    feats: Array  # (B, N, F), padded to the most features of a word
    characters: Array  # (U, C) of each distinct form; row 0 is the root's
    spelling: Array  # (B, N) row of `characters`
    heads: Array  # (B, N), -1 where there is none
    labels: Array  # (B, N), negative where there is none
    tags: Array  # (4, B, N) classes of tags to learn, negative where there is none
    forbidden: Array  # (F, 3) arcs that are not in the tree: sentence, word, head
    forms: list[list[str]]
    distinct_forms: list[str]  # those of `characters`, but for the root's
    numpy: Batch[NDArray[Any]] | None = None  # the same as arrays of numpy, where these are not

    @property
    def on_host(self) -> Batch[NDArray[Any]]:
        """The batch as it was made, which need not be copied from a device."""
        found: Batch[Any] = self if self.numpy is None else self.numpy
        return found

    def rows(self, start: int, stop: int) -> Batch[NDArray[Any]]:
        """Some sentences of a batch of numpy arrays, as a batch."""
        batch: Batch[NDArray[Any]] = self.on_host
        lengths = batch.lengths[start:stop]
        width = int(lengths.max(initial=0)) + 1
        names = ("is_word", "words", "upos", "xpos", "lemmas", "pretrained", "treebanks", "feats", "spelling")
        of_words: dict[str, Any] = {
            name: getattr(batch, name)[start:stop, :width] for name in (*names, "heads", "labels")
        }
        there = (batch.forbidden[:, 0] >= start) & (batch.forbidden[:, 0] < stop)
        return replace(
            batch,
            **of_words,
            lengths=lengths,
            places=np.flatnonzero(of_words["is_word"]),
            tags=batch.tags[:, start:stop, :width],
            forbidden=batch.forbidden[there] - np.array([start, 0, 0]),
            forms=batch.forms[start:stop],
        )


def collate(sentences: Sequence[IndexedSentence], vocabulary: Vocabulary) -> Batch[NDArray[Any]]:
    """Pad sentences to one batch."""
    lengths = np.array([len(sentence) for sentence in sentences], np.int64)
    size, longest = len(sentences), int(lengths.max(initial=0)) + 1
    inside = np.arange(longest) <= lengths[:, None]
    is_word = inside & (np.arange(longest) > 0)

    def pad(value: int, rows: Sequence[NDArray[np.int64]], shape: tuple[int, ...] = ()) -> NDArray[np.int64]:
        """(..., B, N) from arrays (..., n+1)."""
        padded = np.full((*shape, size, longest), value)
        if rows:
            padded[..., inside] = np.concatenate(rows, -1)
        return padded

    widest = max((sentence.feats.shape[1] for sentence in sentences), default=0)
    feats = np.full((size, longest, max(widest, 1)), PAD)
    for b, sentence in enumerate(sentences if widest else ()):
        feats[b, : len(sentence) + 1, : sentence.feats.shape[1]] = sentence.feats
    forms = list(chain.from_iterable(sentence.forms for sentence in sentences))
    row = {form: number for number, form in enumerate(dict.fromkeys(forms), 1)}
    spelling = np.zeros((size, longest), np.int64)
    spelling[is_word] = np.fromiter(map(row.__getitem__, forms), np.int64, len(forms))
    columns = pad(PAD, [sentence.columns for sentence in sentences], (len(COLUMNS) + 1,))
    tags = pad(NOT_ANNOTATED, [sentence.tags for sentence in sentences], (len(TAGS),))
    words, upos, xpos, lemmas, pretrained, treebanks = columns
    return Batch(
        lengths=lengths,
        is_word=is_word,
        places=np.flatnonzero(is_word),
        words=words,
        upos=upos,
        xpos=xpos,
        lemmas=lemmas,
        pretrained=pretrained,
        treebanks=treebanks,
        feats=feats,
        characters=vocabulary.spellings(list(row)),
        spelling=spelling,
        heads=pad(-1, [sentence.heads for sentence in sentences]),
        labels=pad(-1, [sentence.labels for sentence in sentences]),
        tags=tags,
        forbidden=np.array(
            [(b, *arc) for b, sentence in enumerate(sentences) for arc in sentence.forbidden], np.int64
        ).reshape(-1, 3),
        forms=[sentence.forms for sentence in sentences],
        distinct_forms=list(row),
    )


def batch_of(
    sentences: Sequence[Sentence], vocabulary: Vocabulary, targets: bool = False, treebank: str | None = None
) -> Batch[NDArray[Any]]:
    """Look up sentences, as `index_sentences` does, and pad them to one batch."""
    return collate(index_sentences(sentences, vocabulary, targets, treebank), vocabulary)


def cut(lengths: Sequence[int], max_tokens: int, rng: np.random.Generator | None = None) -> list[list[int]]:
    """Cut sentences into batches of similar length.

    Where the cuts fall depends only on the lengths, so every epoch has the same number of batches.

    Args:
        lengths: words of each sentence.
        max_tokens: positions of a padded batch, the root's included; a longer sentence is a batch of its own.
        rng: shuffles sentences of equal length among each other, and the order of the batches. Without it, the longest
            come first.

    Returns:
        Positions of the sentences of each batch.
    """
    order = np.arange(len(lengths)) if rng is None else rng.permutation(len(lengths))
    order = order[np.argsort(-np.asarray(lengths)[order], kind="stable")] if len(lengths) else order
    batches: list[list[int]] = []
    width = 0
    for i in order.tolist():
        if not batches or (len(batches[-1]) + 1) * width > max_tokens:
            batches.append([])
            width = lengths[i] + 1
        batches[-1].append(i)
    if rng is not None:
        batches = [batches[i] for i in rng.permutation(len(batches)).tolist()]
    return batches


def groups(lengths: NDArray[np.integer], most: int, padding: float = np.inf) -> Iterator[NDArray[np.int64]]:
    """Group sequences of similar length.

    Args:
        lengths: of sequences.
        most: positions of a padded group; a longer sequence is a group of its own.
        padding: positions of padding after which a new group begins.

    Yields:
        Numbers of the sequences of each group, the longest first.
    """
    order = np.argsort(-lengths, kind="stable")
    while len(order):
        sizes = lengths[order]
        size = max(1, most // max(1, int(sizes[0])))
        size = min(size, 1 + int(np.searchsorted(np.cumsum(sizes[0] - sizes[1:size]), padding, "right")))
        yield order[:size]
        order = order[size:]


def share(batches: list[list[int]], rank: int, ranks: int, repeat: bool) -> list[list[int]]:
    """The batches of one of several devices, the same number on each of them.

    Args:
        batches: all batches.
        rank: which device.
        ranks: how many devices.
        repeat: fill up with batches from the start (training); otherwise halve the largest batches until they come out
            even, so that every sentence is seen exactly once (evaluation). Where there are fewer sentences than
            devices, the last ones get an empty batch.
    """
    batches = list(batches)
    while batches and len(batches) % ranks:
        if repeat:
            batches.append(batches[len(batches) % ranks - 1])
            continue
        largest = max(range(len(batches)), key=lambda i: len(batches[i]))
        half = (len(batches[largest]) + 1) // 2
        batches[largest : largest + 1] = [batches[largest][:half], batches[largest][half:]]
    return batches[rank::ranks]
