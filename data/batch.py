"""Sentences as tensors: encoded once, cut into batches of similar length, padded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from arbora.data.conll import Sentence
from arbora.data.vocabulary import PAD, ROOT, UNKNOWN, Vocabulary, feature_names


@dataclass(slots=True)
class Encoded:
    """Indices of one sentence; position 0 of every array is the root."""

    forms: list[str]
    columns: NDArray[np.int64]  # (5, n+1): words, upos, xpos, lemmas, pretrained
    feats: list[list[int]]  # features of each of the n words
    heads: NDArray[np.int64]  # (n+1,), -1 at the root and where not annotated
    labels: NDArray[np.int64]  # (n+1,), -1 at the root and where not in the vocabulary

    def __len__(self) -> int:
        return len(self.forms)


def encode(sentence: Sentence, vocabulary: Vocabulary) -> Encoded:
    """Look the columns of a sentence up."""
    index, feats = vocabulary.index, vocabulary.index["feats"]
    words, upos, xpos, lemmas = index["words"], index["upos"], index["xpos"], index["lemmas"]
    pretrained = index["pretrained"]
    columns = [
        [ROOT, *(words.get(form.lower(), UNKNOWN) for form in sentence.form)],
        [ROOT, *(upos.get(tag, UNKNOWN) for tag in sentence.upos)],
        [ROOT, *(xpos.get(tag, UNKNOWN) for tag in sentence.xpos)],
        [ROOT, *(lemmas.get(lemma, UNKNOWN) for lemma in sentence.lemma)],
        [ROOT, *(pretrained.get(form, pretrained.get(form.lower(), UNKNOWN)) for form in sentence.form)],
    ]
    return Encoded(
        forms=sentence.form,
        columns=np.array(columns, np.int64),
        feats=[[feats.get(name, UNKNOWN) for name in feature_names(column)] for column in sentence.feats],
        heads=np.array([-1, *sentence.head], np.int64),
        labels=np.array([-1, *(vocabulary.label_index.get(label, -1) for label in sentence.deprel)], np.int64),
    )


@dataclass
class Batch:
    """A padded batch of B sentences; N is the longest length plus one, position 0 is the root."""

    positions: Tensor  # (B,) of the sentences in what the batch was cut from
    lengths: Tensor  # (B,) words n of each sentence
    words: Tensor  # (B, N)
    upos: Tensor  # (B, N)
    xpos: Tensor  # (B, N)
    lemmas: Tensor  # (B, N)
    pretrained: Tensor  # (B, N)
    feats: Tensor  # (B, N, F), padded to the most features of a word
    characters: Tensor  # (U, C) of each distinct form; row 0 is the root's
    spelling: Tensor  # (B, N) row of `characters`
    heads: Tensor  # (B, N), -1 where there is none
    labels: Tensor  # (B, N), -1 where there is none
    forms: list[list[str]]

    def to(self, device: torch.device, non_blocking: bool = False) -> Batch:
        """The batch on another device."""
        moved: dict[str, Any] = {
            item.name: value.to(device, non_blocking=non_blocking)
            for item in fields(self)
            if isinstance(value := getattr(self, item.name), Tensor)
        }
        return replace(self, **moved)

    @property
    def is_word(self) -> Tensor:
        """(B, N), false at the root and at padding."""
        position = torch.arange(self.words.shape[1], device=self.words.device)
        return (position > 0) & (position <= self.lengths[:, None])


def collate(encoded: Sequence[Encoded], positions: Sequence[int], vocabulary: Vocabulary) -> Batch:
    """Pad sentences to one batch; `positions` say which of `encoded` go into it."""
    chosen = [encoded[i] for i in positions]
    lengths = np.array([len(sentence) for sentence in chosen], np.int64)
    size, longest = len(chosen), int(lengths.max(initial=0)) + 1
    columns = np.full((5, size, longest), PAD, np.int64)
    heads = np.full((size, longest), -1, np.int64)
    labels = np.full((size, longest), -1, np.int64)
    spelling = np.zeros((size, longest), np.int64)
    row: dict[str, int] = {}
    most_feats = max((len(names) for sentence in chosen for names in sentence.feats), default=0)
    feats = np.full((size, longest, max(most_feats, 1)), PAD, np.int64)
    for b, sentence in enumerate(chosen):
        n = len(sentence)
        columns[:, b, : n + 1] = sentence.columns
        heads[b, : n + 1] = sentence.heads
        labels[b, : n + 1] = sentence.labels
        spelling[b, 1 : n + 1] = [row.setdefault(form, len(row) + 1) for form in sentence.forms]
        for m, names in enumerate(sentence.feats, 1):
            feats[b, m, : len(names)] = names
    spellings = [[ROOT], *(vocabulary.spelling(form) for form in row)]
    characters = np.full((len(spellings), max(map(len, spellings))), PAD, np.int64)
    for r, letters in enumerate(spellings):
        characters[r, : len(letters)] = letters
    words, upos, xpos, lemmas, pretrained = (torch.from_numpy(column) for column in columns)
    return Batch(
        positions=torch.tensor(positions, dtype=torch.long),
        lengths=torch.from_numpy(lengths),
        words=words,
        upos=upos,
        xpos=xpos,
        lemmas=lemmas,
        pretrained=pretrained,
        feats=torch.from_numpy(feats),
        characters=torch.from_numpy(characters),
        spelling=torch.from_numpy(spelling),
        heads=torch.from_numpy(heads),
        labels=torch.from_numpy(labels),
        forms=[sentence.forms for sentence in chosen],
    )


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
