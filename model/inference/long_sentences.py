"""Parsing of very long sentences, by arc scores only, among a few heads of each word, with `MST`.

Arcs are scored for a few words at a time, so memory grows with n instead of n², except for the cycles that `MST`
contracts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from arbora.decoders import MST, Parts, Trees
from arbora.decoders.constraints import Constraints
from arbora.decoders.k_best import k_best

HEADS = 64
"""Number of heads to keep for each word, besides the root and the word before."""

LONGEST = 20_000
"""Maximum number of words in a sentence; cycles may take 8 n² bytes."""


def parts_of(
    rows: Iterable[tuple[int, NDArray[np.float32]]], size: int, keep: NDArray[np.integer] | None = None
) -> Parts:
    """Return the arcs of one sentence: the best heads of each word, the root, the word before, and a head to keep.

    The root and the words before form a chain, so there is always a tree, even with a single root word.

    Args:
        rows: scores of arcs, as `BatchScores.arc_rows` gives them.
        size: positions of the sentence, the root included.
        keep: (N,) heads to keep, -1 where there is none.
    """
    heads, scores, counts = list[NDArray[np.int32]](), list[NDArray[np.float32]](), list[NDArray[np.int64]]()
    for start, block in rows:
        row = np.arange(len(block))
        words = start + row
        kept = np.zeros(block.shape, np.bool_)
        if size - 1 > HEADS:
            best = np.argpartition(block, size - HEADS, axis=1)[:, size - HEADS :]
            np.put_along_axis(kept, best, True, axis=1)
        else:
            kept[:] = True
        kept[:, 0] = True
        kept[row, words - 1] = True
        if keep is not None:
            there = keep[words]
            kept[row[there >= 0], there[there >= 0]] = True
        kept[row, words] = False
        heads.append(np.nonzero(kept)[1].astype(np.int32))
        scores.append(block[kept])
        counts.append(kept.sum(1))
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    return Parts(
        lengths=np.array([size - 1], np.int32),
        head=np.concatenate(heads),
        arc_score=np.concatenate(scores),
        sentence_offsets=offsets[[0, -1]],
        modifier_offsets=offsets,
    )


def skeleton(known: Constraints) -> NDArray[np.integer]:
    """(1, N) heads to keep for a tree with a single root word: the known heads, and one for all other words.

    The latter is the known root word, or else the first word that may be the root word. Forbidden arcs are otherwise
    ignored, since a long sentence has many other candidates.
    """
    heads = known.required.copy()
    words = np.arange(1, heads.shape[1])
    roots = words[heads[0, 1:] == 0]
    free = words[heads[0, 1:] < 0]
    if not len(roots):
        roots = free[known.allows(0, free, 0)]
    if len(roots):
        heads[0, free[free != roots[0]]] = roots[0]
    return heads


def decode(parts: Parts, single_root: bool, k: int = 1) -> list[Trees]:
    """Return the k best trees among the kept arcs, without certificates because of the other arcs."""
    return [
        replace(trees, bound=None, certified=np.zeros(1, dtype=np.bool_))
        for trees in k_best(MST(single_root=single_root), parts, k)
    ]


def head_probabilities(parts: Parts, heads: NDArray[np.int32]) -> NDArray[np.float64]:
    """(1, N) probability of each word's head among its candidates, separately for each word."""
    starts = parts.modifier_offsets[:-1]
    score = parts.arc_score.astype(np.float64)
    word = parts.modifier - 1
    weight = np.exp(score - np.maximum.reduceat(score, starts)[word])
    share = weight / np.add.reduceat(weight, starts)[word]
    found = np.zeros(heads.shape)
    chosen = parts.head == heads[0, parts.modifier]
    found[0, parts.modifier[chosen]] = share[chosen]
    return found
