"""Sets of small numbers as bits, many of them in one array, for kernels that look at a set at every step.

A set takes W numbers of 64 bits from `start` on. Numbers of words, ranks, arcs and places in arrays are unsigned in all
that is done often: numba lets signed ones count from the end of an array, and tests for that at every access. 64 bits,
since 32 would be made signed by sums.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from arbora.decoders.kernels.options import HELPER

ZERO: Any = np.uint64(0)
ONE: Any = np.uint64(1)
TWO: Any = np.uint64(2)
SIX: Any = np.uint64(6)
LAST: Any = np.uint64(63)


def _count_trailing(typing: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


def _count_leading(typing: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


def _count_ones(typing: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


# Zeros below the lowest and above the highest 1 of 64 bits that are not all 0, and the number of ones: one instruction
# each, or few.
_trailing: Any = intrinsic(_count_trailing)
_leading: Any = intrinsic(_count_leading)
_ones: Any = intrinsic(_count_ones)


@numba.njit(**HELPER)
def words(n):
    """W for the numbers 0..n + 1: a side may have n modifiers, and START and END."""
    return ((n + ONE) >> SIX) + ONE


@numba.njit(**HELPER)
def _bit(i):
    return ONE << (i & LAST)


@numba.njit(**HELPER)
def has(sets, start, i):
    """Return whether i is a member."""
    return (sets[start + (i >> SIX)] >> (i & LAST)) & ONE != ZERO


@numba.njit(**HELPER)
def add(sets, start, i):
    """Make i a member."""
    sets[start + (i >> SIX)] |= _bit(i)


@numba.njit(**HELPER)
def remove(sets, start, i):
    """Make i no member."""
    sets[start + (i >> SIX)] &= ~_bit(i)


@numba.njit(**HELPER)
def unite(sets, start, others, other, i, W):
    """Make the members of another set members; none of them is below i."""
    for w in range(i >> SIX, W):
        sets[start + w] |= others[other + w]


@numba.njit(**HELPER)
def lowest(word):
    """The least of the 64 that a word has, of which there must be one."""
    return _trailing(word)


@numba.njit(**HELPER)
def above(word, i):
    """Those of a word that come after i, which is one of its 64."""
    return word & ~((_bit(i) << ONE) - ONE)


@numba.njit(**HELPER)
def previous(sets, start, i):
    """The greatest member below i, of which there must be one."""
    w = start + (i >> SIX)
    word = sets[w] & (_bit(i) - ONE)
    while word == ZERO:
        w -= ONE
        word = sets[w]
    return ((w - start) << SIX) + (LAST - _leading(word))


@numba.njit(**HELPER)
def following(sets, start, i):
    """The least member above i, of which there must be one."""
    w = start + (i >> SIX)
    word = above(sets[w], i)
    while word == ZERO:
        w += ONE
        word = sets[w]
    return ((w - start) << SIX) + _trailing(word)


@numba.njit(**HELPER)
def count(sets, start, W):
    """Number of members."""
    total = ZERO
    for w in range(start, start + W):
        total += _ones(sets[w])
    return total


@numba.njit(**HELPER)
def first(sets, start):
    """The least member, of which there must be one."""
    w = start
    while sets[w] == ZERO:
        w += ONE
    return ((w - start) << SIX) + _trailing(sets[w])


@numba.njit(**HELPER)
def last(sets, start, W):
    """The greatest member, of which there must be one."""
    w = start + W - ONE
    while sets[w] == ZERO:
        w -= ONE
    return ((w - start) << SIX) + (LAST - _leading(sets[w]))
