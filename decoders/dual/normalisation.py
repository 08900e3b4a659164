"""Origin and unit of the scores of a sentence, so that nothing in the search depends on either.

Scores are normalised when they are read, so that nothing depends on their origin or unit: each word's best arc score is
subtracted from its arcs, and everything is divided by UNIT, a power of two near the typical difference between the two
best heads of a word, or near the typical positive part where that is larger (`measure`). Both are exact, so that scores
that differ by a power of two, or by a constant for all heads of a word, give the same graph bit for bit.

A tree is proved to be the best where the bound exceeds its score by no more than a millionth of the unit, and what
rounding may add. That tolerance does not depend on the score, which depends on the origin.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from arbora.decoders.dual.graph import EXPONENTS, FLOOR, HIGHEST, INCUMBENT, LOWEST, ORIGIN, REACH, SCALE, SIZE_WORDS
from arbora.decoders.kernels.options import CALLED, HELPER

GAP = 1e-6
"""A tree is proved to be the best where the bound exceeds its score by no more than this, in units, and rounding."""

ROUNDING = 2.0**-46
"""Rounding error of a bound per word, relative to the largest score."""

DEPTH, FIRST_DEPTH = 1024.0, 2.0**20
"""A score is raised if it is this many times as low as would be enough to rule a tree out, as far as is known."""


@numba.njit(**CALLED)
def lead(layout, w):
    """Score of the best arc into a word less that of the second best, 0 if there is one arc only."""
    top, second = -np.inf, -np.inf
    for k in range(layout.modifier_offsets[w], layout.modifier_offsets[w + 1]):
        value = np.float64(layout.arc_score[k])
        if value > top:
            top, second = value, top
        elif value > second:
            second = value
    return top - second if second > -np.inf else 0.0


@numba.njit(**CALLED)
def _exponent(value):
    """The least integer e such that |value| < 2^e."""
    return math.frexp(value)[1]


@numba.njit(**CALLED)
def _median(counts):
    """Exponent such that half of the numbers counted have no larger one; the counts are set to 0 again."""
    total, seen, median = 0, 0, -EXPONENTS
    for i in range(len(counts)):
        total += counts[i]
    for i in range(len(counts)):
        if seen < (total + 1) // 2 <= seen + counts[i]:
            median = i - EXPONENTS
        seen += counts[i]
        counts[i] = 0
    return median


@numba.njit(**CALLED)
def _survey(score, counts, sign):
    """Count the exponents of the scores of one sign; the lowest and highest of all scores, and 0."""
    low, high = 0.0, 0.0
    for i in range(len(score)):
        value = np.float64(score[i])
        low, high = min(low, value), max(high, value)
        if sign * value > 0:
            counts[_exponent(value) + EXPONENTS] += 1
    return low, high


@numba.njit(**CALLED)
def measure(graph, layout, b):
    """Find the origin of each word's arc scores, the unit of all scores, and how low and high these go.

    The unit is the median, as a power of two, of the differences that are not 0 between the best and the second best
    head of a word, or of the parts that score above 0, whichever is larger. Medians are not moved by a few scores that
    are there to force or forbid something; nor are they by many parts that are forbidden by a low score. Negative parts
    count only where there is nothing else, and where there are none either, the lowest arc does.
    """
    at, floats, counts = graph.at, graph.floats, graph.exponents
    first, last, n = layout.sentence_offsets[b], layout.sentence_offsets[b + 1], layout.lengths[b]
    words, node = layout.word_offsets[b], layout.word_offsets[b] + b
    low, high, reach = 0.0, 0.0, 0.0
    for m in range(1, n + 1):
        w = words + m - 1
        top = -np.inf
        for k in range(layout.modifier_offsets[w], layout.modifier_offsets[w + 1]):
            top = max(top, np.float64(layout.arc_score[k]))
        for k in range(layout.modifier_offsets[w], layout.modifier_offsets[w + 1]):
            low = min(low, layout.arc_score[k] - top)
        floats[at[ORIGIN] + m] = top
        gap = lead(layout, w)
        if gap > 0:
            counts[_exponent(gap) + EXPONENTS] += 1
    arcs = _median(counts)
    unit = -EXPONENTS
    for sign in (1, -1):
        for kind in range(6):
            # How many parts of each kind can fire in a tree, at most.
            if kind == 0:
                begin, end, most = layout.grandparent_offsets[first], layout.grandparent_offsets[last], n
                score = layout.grandparent
            elif kind == 1:
                begin, end = layout.sibling_offsets[2 * node], layout.sibling_offsets[2 * (node + n + 1)]
                score, most = layout.sibling, 3 * n + 1
            elif kind == 2:
                begin, end = layout.any_sibling_offsets[node], layout.any_sibling_offsets[node + n + 1]
                score, most = layout.any_sibling, n * (n - 1) // 2
            elif kind == 3:
                begin, end, most = layout.head_bigram_offsets[words], layout.head_bigram_offsets[words + n], n - 1
                score = layout.head_bigram
            elif kind == 4:
                begin, end = layout.grand_sibling_offsets[2 * first], layout.grand_sibling_offsets[2 * last]
                score, most = layout.grand_sibling, 3 * n
            else:
                begin, end = layout.tri_sibling_offsets[2 * node], layout.tri_sibling_offsets[2 * (node + n + 1)]
                score, most = layout.tri_sibling, n
            if len(score) > 0:
                least, largest = _survey(score[begin:end], counts, sign)
                if sign == 1:
                    low, high = min(low, least), max(high, largest)
                    reach += most * largest
        unit = max(unit, arcs, _median(counts))
        if unit > -EXPONENTS:
            break
    if unit == -EXPONENTS and low < 0.0:  # every word has several best heads, and no part scores anything
        unit = _exponent(low)
    scale = math.ldexp(1.0, -unit) if unit > -EXPONENTS else 1.0
    floats[at[SCALE]], floats[at[REACH]] = scale, scale * reach
    floats[at[LOWEST]], floats[at[HIGHEST]], floats[at[FLOOR]] = scale * low, scale * high, -np.inf


@numba.njit(**HELPER)
def _bottom(graph):
    """A score so low that no tree with it is better than the best known; -inf if none is known."""
    at, floats = graph.at, graph.floats
    return DEPTH * (floats[at[INCUMBENT]] - floats[at[REACH]] - 1)


@numba.njit(**CALLED)
def set_floor(graph):
    """Set FLOOR, to which lower scores are raised.

    To forbid a part users give it a large negative score, next to which the others would be lost to rounding. Raising
    scores raises the bound if anything, and the best tree is always scored as it is. The floor is far lower than it
    could be, so that ordinary scores stay as they are. Before a tree is known that avoids such parts, it is low enough
    for all but these.
    """
    at, floats = graph.at, graph.floats
    first = -FIRST_DEPTH * (floats[at[REACH]] + graph.sizes[SIZE_WORDS])
    floats[at[FLOOR]] = max(floats[at[FLOOR]], first, _bottom(graph))


@numba.njit(**CALLED)
def is_low(graph):
    """Return whether the graph was built with scores much lower than the current floor."""
    return max(graph.floats[graph.at[LOWEST]], graph.floats[graph.at[FLOOR]]) < 2 * _bottom(graph) - 1


@numba.njit(**CALLED)
def rounding(graph):
    """What rounding may take from a bound where scores were raised to the floor; without such scores it is too little
    to matter."""
    at, floats = graph.at, graph.floats
    if floats[at[LOWEST]] >= floats[at[FLOOR]]:
        return 0.0
    return 4 * ROUNDING * graph.sizes[SIZE_WORDS] * max(floats[at[HIGHEST]], -floats[at[FLOOR]])


@numba.njit(**HELPER)
def tolerance(graph):
    """By how much a bound may exceed the score of the best known tree where this is proved to be the best."""
    at, floats = graph.at, graph.floats
    largest = max(floats[at[HIGHEST]], -max(floats[at[LOWEST]], _bottom(graph)))
    return GAP + ROUNDING * graph.sizes[SIZE_WORDS] * largest


@numba.njit(**HELPER)
def normalised(graph, score):
    """The score of a part in units, not below the floor."""
    return max(graph.floats[graph.at[SCALE]] * score, graph.floats[graph.at[FLOOR]])


@numba.njit(**HELPER)
def is_open(graph, upper):
    """Return whether a bound allows a better tree than the best known one."""
    score = graph.floats[graph.at[INCUMBENT]]
    return upper > score and (score == -np.inf or upper - score > tolerance(graph))
