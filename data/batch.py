"""Sentences as arrays: looked up in the vocabulary once, cut into batches of similar length, padded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from arbora.data.conll import Sentence
from arbora.data.vocabulary import NOT_ANNOTATED, PAD, ROOT, TAGS, UNKNOWN, Vocabulary, feature_names

Array = TypeVar("Array")


@dataclass(slots=True)
class IndexedSentence:
    """Indices of one sentence; position 0 of every array is the root."""

    forms: list[str]
    columns: NDArray[np.int64]  # (6, n+1): words, upos, xpos, lemmas, pretrained, treebanks
    feats: list[list[int]]  # features of each of the n words
    heads: NDArray[np.int64]  # (n+1,), -1 at the root and where not annotated
    labels: NDArray[np.int64]  # (n+1,), -1 at the root; negative where not in the vocabulary, see `label_code`
    tags: NDArray[np.int64]  # (4, n+1) classes of tags, as `Vocabulary.tag_targets` gives them, if asked for
    forbidden: tuple[tuple[int, int], ...] = ()  # arcs, each as (word, head)

    def __len__(self) -> int:
        return len(self.forms)


def index_sentence(
    sentence: Sentence, vocabulary: Vocabulary, targets: bool = False, treebank: str | None = None
) -> IndexedSentence:
    """Look up the columns of a sentence.

    Args:
        sentence: of words, with what else it has.
        vocabulary: of the training part.
        targets: look up what taggers learn, too, which parsing does not need.
        treebank: the one that it is read as, of those that the vocabulary has; unless given, the first.
    """
    index, feats = vocabulary.index, vocabulary.index["feats"]
    words, upos, xpos, lemmas = index["words"], index["upos"], index["xpos"], index["lemmas"]
    pretrained = index["pretrained"]
    columns = [
        [ROOT, *(words.get(form.lower(), UNKNOWN) for form in sentence.form)],
        [ROOT, *(upos.get(tag, UNKNOWN) for tag in sentence.upos)],
        [ROOT, *(xpos.get(tag, UNKNOWN) for tag in sentence.xpos)],
        [ROOT, *(lemmas.get(lemma, UNKNOWN) for lemma in sentence.lemma)],
        [ROOT, *(pretrained.get(form, pretrained.get(form.lower(), UNKNOWN)) for form in sentence.form)],
        [vocabulary.treebank_index(treebank)] * (len(sentence) + 1),
    ]
    tags = np.full((len(TAGS), len(sentence) + 1), NOT_ANNOTATED)
    if targets:
        tags[:, 1:] = vocabulary.tag_targets(sentence)
    return IndexedSentence(
        forms=sentence.form,
        columns=np.array(columns, np.int64),
        feats=[[feats.get(name, UNKNOWN) for name in feature_names(column)] for column in sentence.feats],
        heads=np.array([-1, *sentence.head], np.int64),
        labels=np.array([-1, *map(vocabulary.label_code, sentence.deprel)], np.int64),
        tags=tags,
        forbidden=sentence.forbidden,
    )


@dataclass
class Batch(Generic[Array]):
    """A padded batch of B sentences; N is the longest length plus one, position 0 is the root.

    Its arrays are numpy's, as `collate` makes them, or those that a backend turned them into.
    """

    lengths: Array  # (B,) words n of each sentence
    is_word: Array  # (B, N), false at the root and at padding
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


def collate(sentences: Sequence[IndexedSentence], vocabulary: Vocabulary) -> Batch[NDArray[Any]]:
    """Pad sentences to one batch."""
    lengths = np.array([len(sentence) for sentence in sentences], np.int64)
    size, longest = len(sentences), int(lengths.max(initial=0)) + 1
    columns = np.full((6, size, longest), PAD, np.int64)
    heads = np.full((size, longest), -1, np.int64)
    labels = np.full((size, longest), -1, np.int64)
    tags = np.full((len(TAGS), size, longest), NOT_ANNOTATED, np.int64)
    spelling = np.zeros((size, longest), np.int64)
    row: dict[str, int] = {}
    most_feats = max((len(names) for sentence in sentences for names in sentence.feats), default=0)
    feats = np.full((size, longest, max(most_feats, 1)), PAD, np.int64)
    for b, sentence in enumerate(sentences):
        n = len(sentence)
        columns[:, b, : n + 1] = sentence.columns
        heads[b, : n + 1] = sentence.heads
        labels[b, : n + 1] = sentence.labels
        tags[:, b, : n + 1] = sentence.tags
        spelling[b, 1 : n + 1] = [row.setdefault(form, len(row) + 1) for form in sentence.forms]
        for m, names in enumerate(sentence.feats, 1):
            feats[b, m, : len(names)] = names
    spellings = [[ROOT], *(vocabulary.spelling(form) for form in row)]
    characters = np.full((len(spellings), max(map(len, spellings))), PAD, np.int64)
    for r, letters in enumerate(spellings):
        characters[r, : len(letters)] = letters
    words, upos, xpos, lemmas, pretrained, treebanks = columns
    position = np.arange(longest)
    return Batch(
        lengths=lengths,
        is_word=(position > 0) & (position <= lengths[:, None]),
        words=words,
        upos=upos,
        xpos=xpos,
        lemmas=lemmas,
        pretrained=pretrained,
        treebanks=treebanks,
        feats=feats,
        characters=characters,
        spelling=spelling,
        heads=heads,
        labels=labels,
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
    """Look up sentences, as `index_sentence` does, and pad them to one batch."""
    return collate([index_sentence(sentence, vocabulary, targets, treebank) for sentence in sentences], vocabulary)


def cut(lengths: Sequence[int], max_tokens: int, rng: np.random.Generator | None = None) -> list[list[int]]:
    """Cut sentences into batches of similar length.

    Where the cuts fall depends on the lengths alone, so every epoch has the same number of batches.

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
