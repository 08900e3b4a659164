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


HEAD, MODIFIER, COLUMN = 0, 1, 2


def score_parts(
    flat: NDArray[np.int64],
    offsets: NDArray[np.int64],
    shape: tuple[int, int],
    rows: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    roles: tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.floating]],
    columns: NDArray[np.floating],
    varies: int,
) -> NDArray[np.floating]:
    """(P,) scores of the parts of one type: a row, which is the product of two or three vectors, times a column.

    Args:
        flat: (P,) `(b * rows + row) * width + column` of each part.
        offsets: (B+1,) parts of each sentence.
        shape: width, and the first column of the type.
        rows: (R,) places of a row's vectors among those of each role; the last are empty where rows have two vectors.
        roles: vectors (positions, rank) in each role; no last ones where rows have two.
        columns: (B positions, rank) vectors of the type's columns.
        varies: the word that most often differs between one part and the next, HEAD, MODIFIER or COLUMN. The product of
            the others is made when they differ.
    """
    scores = np.empty(len(flat), dtype=columns.dtype)
    steps = 2.0 * columns.shape[1] * np.diff(offsets)
    over_sentences(lambda bs: _score(bs, flat, offsets, *shape, *rows, *roles, columns, varies, scores), steps)
    return scores


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def _score(sentences, flat, offsets, width, start, at_one, at_two, at_three, one, two, three, columns, varies, scores):
    rank, positions = np.uint64(columns.shape[1]), columns.shape[0] // (len(offsets) - 1)
    fixed = np.empty(rank, dtype=columns.dtype)
    varying = one if varies == HEAD else two if varies == MODIFIER else columns
    first = two if varies == HEAD else one
    second = two if varies == COLUMN else columns
    triples = len(at_three) > 0
    for b in sentences:
        x = y = z = np.uint64(0)
        new = True
        row, last = 0, -1 - width
        for part in range(np.uint64(offsets[b]), np.uint64(offsets[b + 1])):
            place = flat[part] - row * width
            if place == last + width:  # a division takes as long as the product
                row, place = row + 1, last
            elif not 0 <= place < width:
                row, place = flat[part] // width, flat[part] % width
            last = place
            r, column = np.uint64(row), np.uint64(b * positions + place - start)
            h, m = np.uint64(at_one[r]), np.uint64(at_two[r])
            third = np.uint64(at_three[r]) if triples else np.uint64(0)
            i, j, k = (m, column, h) if varies == HEAD else (h, column, m) if varies == MODIFIER else (h, m, column)
            if new or i != x or j != y or third != z:
                x, y, z, new = i, j, third, False
                for d in range(rank):
                    fixed[d] = first[i, d] * second[j, d]
                if triples:
                    for d in range(rank):
                        fixed[d] *= three[third, d]
            total = scores.dtype.type(0)
            for d in range(rank):
                total += fixed[d] * varying[k, d]
            scores[part] = total
