"""Sums of products of vectors, of those parts alone that there are, on a CPU."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from arbora.decoders.threads import over_sentences

FAST = {"reassoc", "contract", "nsz"}  # sums in any order; NaN stays NaN


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
        columns: (B, positions, rank) vectors of the type's columns.
    """
    scores = np.empty(len(flat), dtype=columns.dtype)
    steps = 2.0 * columns.shape[2] * np.diff(offsets)
    over_sentences(lambda bs: _score(bs, flat, offsets, *shape, *rows, *roles, columns, scores), steps)
    return scores


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def _score(sentences, flat, offsets, rows, width, start, at_one, at_two, at_three, one, two, three, columns, scores):
    rank = columns.shape[2]
    row = np.empty(rank, dtype=columns.dtype)
    for b in sentences:
        last = -1
        for part in range(offsets[b], offsets[b + 1]):
            r = flat[part] // width
            if r != last:
                last = r
                first, second = one[at_one[r]], two[at_two[r]]
                for i in range(rank):
                    row[i] = first[i] * second[i]
                if len(at_three) > 0:
                    third = three[at_three[r]]
                    for i in range(rank):
                        row[i] *= third[i]
            column = columns[b, flat[part] - r * width - start]
            total = row[0] * 0
            for i in range(rank):
                total += row[i] * column[i]
            scores[part] = total
