"""Sums of products of vectors, only for existing arcs and parts, on a CPU."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from arbora.decoders.kernels.options import HELPER, KERNEL
from arbora.decoders.kernels.threads import over_sentences
from arbora.decoders.parts.batch import Parts
from arbora.decoders.parts.layout import sibling_at

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


@numba.njit(**KERNEL, fastmath=FAST)
def _score_pairs(at_one, at_two, one, two, scores):
    size = np.uint64(one.shape[1])
    for pair in range(len(at_one)):
        first, second = np.uint64(at_one[pair]), np.uint64(at_two[pair])
        total = scores.dtype.type(0)
        for i in range(size):
            total += one[first, i] * two[second, i]
        scores[pair] = total


def score_near(one: NDArray[np.floating], two: NDArray[np.floating], band: int) -> NDArray[np.floating]:
    """(P, 2 band) products of each vector with those of the positions around, from `band` before it to `band` behind.

    Args:
        one: (P, size) vectors.
        two: (P, size) vectors to multiply them with; those before the first and behind the last are 0.
        band: positions on each side.
    """
    scores = np.zeros((len(one), 2 * band), dtype=one.dtype)
    _score_near(one, two, band, scores)
    return scores


class Spots(NamedTuple):
    """Places of the words of each sentence among vectors in some role, (B,) arrays."""

    start: NDArray[np.int64]  # of roots
    start_with_ends: NDArray[np.int64]  # the same in roles that also have START, or END, of both sides
    ends: NDArray[np.int64]  # of START, or END, of left sides; that of right sides is the next


def score_parts(
    kind: str,
    parts: Parts,
    spots: Spots,
    head: NDArray[np.floating],
    modifier: NDArray[np.floating],
    third: NDArray[np.floating] | None,
    column: NDArray[np.floating],
) -> NDArray[np.floating]:
    """(P,) sums of products, of all parts of one type.

    Args:
        kind: the type.
        parts: candidate arcs.
        spots: where the words of each sentence are.
        head: (2 positions, rank) vectors of heads, left side and right side of each.
        modifier: (positions, rank) of modifiers, with END.
        third: (positions, rank) of the third word, for types with four.
        column: (positions, rank) of the word that `Parts.places` has in columns.
    """
    layout, offsets = parts.layout, parts.part_offsets(kind)
    scores = np.empty(offsets[-1], dtype=column.dtype)

    def fill(sentences: NDArray[np.int64]) -> None:
        if kind == "grandparent":
            _grandparents(sentences, layout, spots, head, modifier, column, scores)
        elif kind == "sibling":
            _siblings(sentences, layout, spots, head, modifier, column, scores)
        elif kind == "any_sibling":
            _any_siblings(sentences, layout, spots, head, modifier, column, scores)
        elif kind == "head_bigram":
            _head_bigrams(sentences, layout, spots, head, modifier, column, scores)
        elif kind == "grand_sibling":
            _grand_siblings(sentences, layout, spots, head, modifier, third, column, scores)
        elif kind == "tri_sibling":
            _tri_siblings(sentences, layout, spots, head, modifier, third, column, scores)
        elif kind == "grand_grandparent":
            _grand_grandparents(sentences, layout, offsets, spots, head, modifier, third, column, scores)
        else:
            outer = kind == "outer_sibling_grandchild"
            _grandchildren(sentences, layout, offsets, outer, spots, head, modifier, third, column, scores)

    over_sentences(fill, 2.0 * column.shape[1] * np.diff(offsets))
    return scores


# Entries are written in the order of `arbora.decoders.parts.layout`. What stays the same in a row of entries is
# multiplied once.


@numba.njit(**HELPER, fastmath=FAST)
def _multiply(one, i, two, j, product):
    """product = one[i] * two[j]."""
    first, second = np.uint64(i), np.uint64(j)
    for d in range(np.uint64(len(product))):
        product[d] = one[first, d] * two[second, d]


@numba.njit(**HELPER, fastmath=FAST)
def _multiply_more(factor, one, i, product):
    """product = factor * one[i]."""
    place = np.uint64(i)
    for d in range(np.uint64(len(product))):
        product[d] = factor[d] * one[place, d]


@numba.njit(**HELPER)
def _copy(one, i, two, j):
    """two[j] = one[i]."""
    source, target = np.uint64(i), np.uint64(j)
    for d in range(np.uint64(one.shape[1])):
        two[target, d] = one[source, d]


@numba.njit(**HELPER, fastmath=FAST)
def _dot(product, vectors, i):
    """Sum of product * vectors[i]."""
    place = np.uint64(i)
    total = product.dtype.type(0)
    for d in range(np.uint64(len(product))):
        total += product[d] * vectors[place, d]
    return total


@numba.njit(**KERNEL)
def _score_near(one, two, band, scores):
    for p in range(len(one)):
        for k in range(2 * band):
            q = p + k - band + (k >= band)
            if 0 <= q < len(two):
                scores[p, k] = _dot(one[p], two, q)


@numba.njit(**KERNEL)
def _grandparents(sentences, layout, spots, head, modifier, column, scores):
    pair = np.empty(column.shape[1], dtype=column.dtype)
    for b in sentences:
        start, first = spots.start[b], layout.word_offsets[b] - 1
        for k in range(layout.sentence_offsets[b], layout.sentence_offsets[b + 1]):
            h, m = layout.head[k], layout.modifier[k]
            if h > 0:
                _multiply(head, 2 * (start + h) + (m > h), modifier, spots.start_with_ends[b] + m, pair)
                e = layout.grandparent_offsets[k]
                for up in range(layout.modifier_offsets[first + h], layout.modifier_offsets[first + h + 1]):
                    scores[e] = _dot(pair, column, start + layout.head[up])
                    e += 1


@numba.njit(**KERNEL)
def _head_bigrams(sentences, layout, spots, head, modifier, column, scores):
    pair = np.empty(column.shape[1], dtype=column.dtype)
    for b in sentences:
        start = spots.start[b]
        for m in range(2, layout.lengths[b] + 1):
            w = layout.word_offsets[b] + m - 1
            e = layout.head_bigram_offsets[w]
            for before in range(layout.modifier_offsets[w - 1], layout.modifier_offsets[w]):
                _multiply(modifier, spots.start_with_ends[b] + m, column, start + layout.head[before], pair)
                for k in range(layout.modifier_offsets[w], layout.modifier_offsets[w + 1]):
                    h = layout.head[k]
                    scores[e] = _dot(pair, head, 2 * (start + h) + (m > h))
                    e += 1


@numba.njit(**HELPER)
def _place(layout, spots, b, side, j):
    """Return the place of the j-th modifier of a side in a role with START and END; START for j = 0."""
    if j == 0:
        return spots.ends[b] + side % 2
    return spots.start_with_ends[b] + layout.modifier[layout.outward[layout.side_offsets[side] + j - 1]]


@numba.njit(**HELPER)
def _score_outer(layout, spots, b, side, i, factor, modifier, e, scores):
    """Write the scores of the i-th modifier of a side with all further ones and END, from e on. Returns their end."""
    J = layout.side_offsets[side + 1] - layout.side_offsets[side]
    for j in range(i + 1, J + 1):
        scores[e] = _dot(factor, modifier, _place(layout, spots, b, side, j))
        e += 1
    scores[e] = _dot(factor, modifier, spots.ends[b] + side % 2)
    return e + 1


@numba.njit(**KERNEL)
def _siblings(sentences, layout, spots, head, modifier, column, scores):
    pair = np.empty(column.shape[1], dtype=column.dtype)
    for b in sentences:
        node = layout.word_offsets[b] + b
        for side in range(2 * node + 1, 2 * (node + layout.lengths[b] + 1)):  # the root has no left side
            J = layout.side_offsets[side + 1] - layout.side_offsets[side]
            e = layout.sibling_offsets[side]
            for i in range(J + 1):
                _multiply(head, 2 * spots.start[b] + side - 2 * node, column, _place(layout, spots, b, side, i), pair)
                e = _score_outer(layout, spots, b, side, i, pair, modifier, e, scores)


@numba.njit(**KERNEL)
def _any_siblings(sentences, layout, spots, head, modifier, column, scores):
    pair = np.empty(column.shape[1], dtype=column.dtype)
    for b in sentences:
        start, first = spots.start[b], layout.word_offsets[b] + b
        for node in range(first, first + layout.lengths[b] + 1):
            e = layout.any_sibling_offsets[node]
            for i in range(layout.side_offsets[2 * node], layout.side_offsets[2 * node + 2]):
                inner = start + layout.modifier[layout.outward[i]]
                for side in range(2 * node, 2 * node + 2):  # of the other one
                    _multiply(head, 2 * (start - first) + side, column, inner, pair)
                    for j in range(max(i + 1, layout.side_offsets[side]), layout.side_offsets[side + 1]):
                        m = layout.modifier[layout.outward[j]]
                        scores[e] = _dot(pair, modifier, spots.start_with_ends[b] + m)
                        e += 1


@numba.njit(**KERNEL)
def _grand_siblings(sentences, layout, spots, head, modifier, inner, column, scores):
    rank = column.shape[1]
    pair, triple = np.empty(rank, dtype=column.dtype), np.empty(rank, dtype=column.dtype)
    size = 0
    for b in sentences:
        size = max(size, layout.lengths[b])
    outer = np.empty((size + 1, rank), dtype=column.dtype)  # the modifiers of a side, and END
    for b in sentences:
        start, node, first = spots.start[b], layout.word_offsets[b] + b, layout.word_offsets[b] - 1
        for h in range(1, layout.lengths[b] + 1):
            for right in range(2):
                side = 2 * (node + h) + right
                J = layout.side_offsets[side + 1] - layout.side_offsets[side]
                for j in range(J):
                    _copy(modifier, _place(layout, spots, b, side, j + 1), outer, j)
                _copy(modifier, spots.ends[b] + right, outer, J)
                for i in range(J + 1):
                    _multiply(head, 2 * (start + h) + right, inner, _place(layout, spots, b, side, i), pair)
                    for k in range(layout.modifier_offsets[first + h], layout.modifier_offsets[first + h + 1]):
                        _multiply_more(pair, column, start + layout.head[k], triple)
                        e = np.uint64(layout.grand_sibling_offsets[2 * k + right] + sibling_at(J, i, i + 1))
                        for j in range(np.uint64(i), np.uint64(J + 1)):
                            scores[e] = _dot(triple, outer, j)
                            e += np.uint64(1)


@numba.njit(**KERNEL)
def _tri_siblings(sentences, layout, spots, head, modifier, inner, column, scores):
    pair, triple = np.empty(column.shape[1], dtype=column.dtype), np.empty(column.shape[1], dtype=column.dtype)
    for b in sentences:
        node = layout.word_offsets[b] + b
        for side in range(2 * node, 2 * (node + layout.lengths[b] + 1)):
            J = layout.side_offsets[side + 1] - layout.side_offsets[side]
            e = layout.tri_sibling_offsets[side]
            for j in range(1, J + 1):
                _multiply(head, 2 * spots.start[b] + side - 2 * node, inner, _place(layout, spots, b, side, j), pair)
                for i in range(j):
                    _multiply_more(pair, column, _place(layout, spots, b, side, i), triple)
                    e = _score_outer(layout, spots, b, side, j, triple, modifier, e, scores)


@numba.njit(**KERNEL)
def _grand_grandparents(sentences, layout, offsets, spots, head, modifier, above, column, scores):
    pair, triple = np.empty(column.shape[1], dtype=column.dtype), np.empty(column.shape[1], dtype=column.dtype)
    for b in sentences:
        start, first = spots.start[b], layout.word_offsets[b] - 1
        e = offsets[b]
        for k in range(layout.sentence_offsets[b], layout.sentence_offsets[b + 1]):
            h, m = layout.head[k], layout.modifier[k]
            if h > 0:
                _multiply(head, 2 * (start + h) + (m > h), modifier, spots.start_with_ends[b] + m, pair)
                for up in range(layout.modifier_offsets[first + h], layout.modifier_offsets[first + h + 1]):
                    g = layout.head[up]
                    if g > 0:
                        _multiply_more(pair, above, start + g, triple)
                        for top in range(layout.modifier_offsets[first + g], layout.modifier_offsets[first + g + 1]):
                            scores[e] = _dot(triple, column, start + layout.head[top])
                            e += 1


@numba.njit(**KERNEL)
def _grandchildren(sentences, layout, offsets, outer, spots, head, modifier, inner, column, scores):
    pair, triple = np.empty(column.shape[1], dtype=column.dtype), np.empty(column.shape[1], dtype=column.dtype)
    for b in sentences:
        node = layout.word_offsets[b] + b
        e = offsets[b]
        for side in range(2 * node, 2 * (node + layout.lengths[b] + 1)):
            first, J = layout.side_offsets[side], layout.side_offsets[side + 1] - layout.side_offsets[side]
            for i in range(1, J + 1):
                _multiply(head, 2 * spots.start[b] + side - 2 * node, inner, _place(layout, spots, b, side, i), pair)
                for j in range(i + 1, J + 1):
                    _multiply_more(pair, modifier, _place(layout, spots, b, side, j), triple)
                    s = layout.modifier[layout.outward[first + (j if outer else i) - 1]]
                    for place in range(layout.side_offsets[2 * (node + s)], layout.side_offsets[2 * (node + s) + 2]):
                        scores[e] = _dot(triple, column, spots.start[b] + layout.modifier[layout.outward[place]])
                        e += 1
