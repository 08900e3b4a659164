"""Sums of products of vectors, of those arcs and parts alone that there are, on a CPU."""

from __future__ import annotations

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from arbora.decoders.threads import over_sentences

FAST = {"reassoc", "contract", "nsz"}  # sums in any order; NaN stays NaN


def score_pairs(
    at_one: NDArray[np.int64], at_two: NDArray[np.int64], one: NDArray[np.floating], two: NDArray[np.floating]
) -> NDArray[np.floating]:
    """(P,) products of pairs of vectors.

    Args:
        at_one: (P,) places of the first vectors.
        at_two: (P,) places of the second ones.
        one: (positions, size) vectors that come first.
        two: (positions, size) vectors that come second.
    """
    scores = np.empty(len(at_one), dtype=one.dtype)
    _score_pairs(at_one, at_two, one, two, scores)
    return scores


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def _score_pairs(at_one, at_two, one, two, scores):
    size = np.uint64(one.shape[1])
    for pair in range(len(at_one)):
        first, second = np.uint64(at_one[pair]), np.uint64(at_two[pair])
        total = scores.dtype.type(0)
        for i in range(size):
            total += one[first, i] * two[second, i]
        scores[pair] = total


def numbers(vectors: Tensor) -> NDArray[np.floating]:
    """Vectors (..., size) on a CPU as kernels take them: (positions, size), without gradients, at least float32."""
    vectors = vectors.detach().reshape(-1, vectors.shape[-1])
    return (vectors if vectors.dtype == torch.float64 else vectors.float()).contiguous().numpy()


def score_parts(
    flat: NDArray[np.int64],
    offsets: NDArray[np.int64],
    shape: tuple[int, int, int],
    rows: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    roles: tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.floating]],
    columns: NDArray[np.floating],
) -> NDArray[np.floating]:
    """(P,) scores of the parts of one type: a row, which is the product of two or three vectors, times a column.

    Args:
        flat: (P,) `(b * rows + row) * width + column` of each part.
        offsets: (B+1,) parts of each sentence.
        shape: rows of each sentence, width, and the first column of the type.
        rows: (R,) places of a row's vectors among those of each role; the last are empty where rows have two vectors.
        roles: vectors (positions, rank) in each role; no last ones where rows have two.
        columns: (B positions, rank) vectors of the type's columns.
    """
    scores = np.empty(len(flat), dtype=columns.dtype)
    steps = 2.0 * columns.shape[1] * np.diff(offsets)
    over_sentences(lambda bs: _score(bs, flat, offsets, *shape, *rows, *roles, columns, scores), steps)
    return scores


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def _score(sentences, flat, offsets, rows, width, start, at_one, at_two, at_three, one, two, three, columns, scores):
    rank, positions = columns.shape[1], columns.shape[0] // (len(offsets) - 1)
    row = np.empty(rank, dtype=columns.dtype)
    for b in sentences:
        last = -1
        for part in range(offsets[b], offsets[b + 1]):
            r = flat[part] // width
            if r != last:
                last = r
                first, second = np.uint64(at_one[r]), np.uint64(at_two[r])
                for i in range(np.uint64(rank)):
                    row[i] = one[first, i] * two[second, i]
                if len(at_three) > 0:
                    third = np.uint64(at_three[r])
                    for i in range(np.uint64(rank)):
                        row[i] *= three[third, i]
            column = np.uint64(b * positions + flat[part] - r * width - start)
            total = scores.dtype.type(0)
            for i in range(np.uint64(rank)):
                total += row[i] * columns[column, i]
            scores[part] = total
