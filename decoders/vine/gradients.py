"""Gradients of max-marginals of the vine: which arcs the best structure with each arc is made of.

As in `projective_gradients`: weights go up from items to what is above them in the best structure with them, and what
is needed besides them goes down to arcs. Time O(n b^2).
"""

from __future__ import annotations

import numba
import numpy as np

from arbora.decoders.kernels.options import CALLED, HELPER, KERNEL
from arbora.decoders.kernels.threads import over_sentences
from arbora.decoders.parts.layout import LEFT, RIGHT
from arbora.decoders.projective.gradients import take
from arbora.decoders.vine.structures import (
    Indices,
    Sentence,
    VineScores,
    allocate,
    clear,
    extended,
    inside,
    maybe,
    outside,
)


def vine_max_marginals_gradient(vine: VineScores, weights: Indices, single_root: bool = True) -> Indices:
    """Gradient by all scores of the sum of max-marginals, each times its weight.

    The gradient of one max-marginal is the structure that attains it: 1 for each of its arcs. Of several such
    structures one is taken.

    Args:
        vine: scores.
        weights: of each arc's max-marginal; those of arcs in no structure do not count.
        single_root: whether the root has one modifier.

    Raises:
        ValueError: when a sentence has no structure.
    """
    for weight, score in zip(weights, vine.scores):
        if np.shape(weight) != score.shape:
            raise ValueError(f"weights must be {score.shape}, got {np.shape(weight)}")
    amounts = Indices(*(np.array(weight, dtype=np.float64) for weight in weights))  # used up on the way
    lengths = vine.lengths.astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    goal = np.empty(len(lengths))
    marginals = Indices(*(np.empty(score.shape) for score in vine.scores))
    gradient = Indices(*(np.zeros(score.shape) for score in vine.scores))
    over_sentences(
        lambda bs: _run(bs, lengths, offsets, vine.scores, single_root, amounts, goal, marginals, gradient),
        lengths * vine.band**2 * 10.0,
    )
    if not (goal > -np.inf).all():
        raise ValueError(f"sentence {int(np.argmin(goal > -np.inf))}: no vine structure consists of allowed arcs only")
    return gradient


@numba.njit(**KERNEL)
def _run(sentences, lengths, offsets, scores, single_root, weights, goal, marginals, gradient):
    """Fill goal[s], and the gradient, which is 0 before."""
    size, b = 1, scores.close.shape[1] // 2
    for s in sentences:
        size = max(size, lengths[s] + 1)
    chart, totals, up, needed = allocate(size, b), allocate(size, b), allocate(size, b), allocate(size, b)
    for s in sentences:
        sentence = Sentence(lengths[s], b, offsets[s] - 1, offsets[s] + s, single_root)
        goal[s] = inside(sentence, scores, False, chart)
        if goal[s] > -np.inf:
            outside(sentence, scores, False, chart, totals, goal[s], marginals)
            clear(up, lengths[s], 0.0)
            clear(needed, lengths[s], 0.0)
            _close_climb(sentence, chart, totals, up, needed, weights, gradient)
            _vine_climb(sentence, scores, chart, totals, up, needed, weights, marginals, gradient)
            _vine_descend(sentence, scores, chart, needed, gradient)
            _close_descend(sentence, chart, needed, gradient)


@numba.njit(**CALLED)
def _close_climb(sentence, chart, totals, up, needed, weights, gradient):
    """Carry weights up to close arcs and halves."""
    n, b, w, _, single_root = sentence
    right, left, right_arc, left_arc = chart.right, chart.left, chart.right_arc, chart.left_arc
    for i in range(n, -1, -1):
        for t in range(1, min(b, n - i) + 1):
            j = i + t
            total = max(totals.right_arc[i, t], totals.left_arc[i, t])
            if total > -np.inf:
                moved = 0.0
                for r in range(i, i + 1 if i == 0 and single_root else j):
                    x, y = (i, r - i), (r + 1, j - r - 1)
                    part = total + (right[x] + left[y] - chart.inner[i, t])
                    by_right = take(up.right, x, totals.right[x], part)
                    by_left = take(up.left, y, totals.left[y], part)
                    needed.left[y] += by_right
                    needed.right[x] += by_left
                    moved += by_right + by_left
                if totals.right_arc[i, t] == total:
                    up.right_arc[i, t] += moved
                    gradient.close[w + j, b - t] += moved
                else:
                    up.left_arc[i, t] += moved
                    gradient.close[w + i, b + t - 1] += moved
            if totals.right_arc[i, t] > -np.inf:
                up.right_arc[i, t] += weights.close[w + j, b - t]
                needed.right_arc[i, t] += weights.close[w + j, b - t]
            if totals.left_arc[i, t] > -np.inf:
                up.left_arc[i, t] += weights.close[w + i, b + t - 1]
                needed.left_arc[i, t] += weights.close[w + i, b + t - 1]
            if t < b and totals.right[i, t] > -np.inf:
                for m in range(i + 1, j + 1):
                    x, y = (i, m - i), (m, j - m)
                    part = totals.right[i, t] + (right_arc[x] + right[y] - right[i, t])
                    by_arc = take(up.right_arc, x, totals.right_arc[x], part)
                    by_half = take(up.right, y, totals.right[y], part)
                    needed.right[y] += by_arc
                    needed.right_arc[x] += by_half
                    up.right[i, t] += by_arc + by_half
            if t < b and totals.left[i, t] > -np.inf:
                for m in range(i, j):
                    x, y = (m, j - m), (i, m - i)
                    part = totals.left[i, t] + (left[y] + left_arc[x] - left[i, t])
                    by_arc = take(up.left_arc, x, totals.left_arc[x], part)
                    by_half = take(up.left, y, totals.left[y], part)
                    needed.left[y] += by_arc
                    needed.left_arc[x] += by_half
                    up.left[i, t] += by_arc + by_half


@numba.njit(**HELPER)
def _choose(scores, node, side, weight, gradient):
    """Count an outer modifier, if it is better than none."""
    if scores.outer_modifier[node, side] > 0:
        gradient.outer_modifier[node, side] += weight


@numba.njit(**CALLED)
def _vine_climb(sentence, scores, chart, totals, up, needed, weights, marginals, gradient):
    """Carry weights up to the goal. Of L(e), what goes up has yet to choose its outer modifier."""
    n, b, w, node, single_root = sentence
    headless, headed, whole = chart.headless, chart.headed, chart.whole
    for e in range(n + 1):
        score = scores.outer_modifier[node + e, LEFT]
        if e > 0 and totals.headless[e] > -np.inf:
            total, value = totals.headless[e], headless[e]
            part = total + (whole[e - 1] - value)  # (c)
            up.headless[e] += take(up.whole, e - 1, totals.whole[e - 1], part)
            for m in range(max(1, e - b), e):  # (d)
                x = (m, e - m)
                below = headless[m] + maybe(scores.outer_modifier[node + m, LEFT], False)
                part = total + (below + chart.left_arc[x] - value)
                by_vine = take(up.headless, m, totals.headless[m], part)
                by_arc = take(up.left_arc, x, totals.left_arc[x], part)
                needed.left_arc[x] += by_vine
                needed.headless[m] += by_arc
                up.headless[e] += by_vine + by_arc
                _choose(scores, node + m, LEFT, by_vine + by_arc, gradient)
            if marginals.outer_modifier[node + e, LEFT] > -np.inf:
                weight = weights.outer_modifier[node + e, LEFT]
                up.headless[e] += weight
                needed.headless[e] += weight
                if not score > 0:
                    gradient.outer_modifier[node + e, LEFT] += weight
        if e > 0 and totals.headed[e] > -np.inf:
            total, value = totals.headed[e], headed[e]
            for m in range(max(0, e - b), e):  # (f)
                x = (m, e - m)
                part = total + (extended(m, sentence, scores, False, chart) + chart.right_arc[x] - value)
                by_vine = take(up.headed, m, totals.headed[m], part)
                by_arc = take(up.right_arc, x, totals.right_arc[x], part)
                needed.right_arc[x] += by_vine
                needed.headed[m] += by_arc
                up.headed[e] += by_vine + by_arc
                if m > 0 or not single_root:
                    _choose(scores, node + m, RIGHT, by_vine + by_arc, gradient)
                    part = total + (headed[m] + scores.outer_modifier[node + m, RIGHT] + chart.right_arc[x] - value)
                    place = (node + m, RIGHT)
                    by_choice = take(weights.outer_modifier, place, marginals.outer_modifier[place], part)
                    needed.right_arc[x] += by_choice
                    needed.headed[m] += by_choice
                    up.headed[e] += by_choice
                    gradient.outer_modifier[place] += by_choice
            below = headless[e] + maybe(score, False)
            for side in range(2):  # (e)
                part = total + (below + scores.outer_head[w + e, side] - value)
                by_vine = take(up.headless, e, totals.headless[e], part)
                by_choice = weights.outer_head[w + e, side] if part > -np.inf else 0.0
                needed.headless[e] += by_choice
                up.headed[e] += by_vine + by_choice
                gradient.outer_head[w + e, side] += by_vine + by_choice
                _choose(scores, node + e, LEFT, by_vine + by_choice, gradient)
        if totals.whole[e] > -np.inf:  # (g)
            place = (node + e, RIGHT)
            by_vine = take(up.headed, e, totals.headed[e], totals.whole[e])
            if e == 0 and single_root:
                gradient.outer_modifier[place] += by_vine
            else:
                _choose(scores, node + e, RIGHT, by_vine, gradient)
            part = totals.whole[e] + (headed[e] + scores.outer_modifier[place] - whole[e])
            by_choice = take(weights.outer_modifier, place, marginals.outer_modifier[place], part)
            needed.headed[e] += by_choice
            gradient.outer_modifier[place] += by_choice
            up.whole[e] += by_vine + by_choice


@numba.njit(**CALLED)
def _vine_descend(sentence, scores, chart, needed, gradient):
    """Carry what is needed down to close arcs, by the rules that give the values."""
    n, _, w, node, single_root = sentence
    whole, headless, headed = chart.whole, chart.headless, chart.headed
    for e in range(n, -1, -1):
        weight = needed.whole[e]
        needed.headed[e] += weight  # (g)
        if e == 0 and single_root:
            gradient.outer_modifier[node, RIGHT] += weight
        else:
            _choose(scores, node + e, RIGHT, weight, gradient)
        if e == 0:
            break
        weight = needed.headed[e]
        if weight != 0.0:
            below = headless[e] + maybe(scores.outer_modifier[node + e, LEFT], False)
            outer = scores.outer_head[w + e]
            if below + max(np.float64(outer[LEFT]), np.float64(outer[RIGHT])) == headed[e]:  # (e)
                gradient.outer_head[w + e, LEFT if outer[LEFT] >= outer[RIGHT] else RIGHT] += weight
                _choose(scores, node + e, LEFT, weight, gradient)
                needed.headless[e] += weight
            else:  # (f)
                m = e - 1
                while extended(m, sentence, scores, False, chart) + chart.right_arc[m, e - m] != headed[e]:
                    m -= 1
                if m > 0 or not single_root:
                    _choose(scores, node + m, RIGHT, weight, gradient)
                needed.right_arc[m, e - m] += weight
                needed.headed[m] += weight
        weight = needed.headless[e]
        if weight != 0.0:
            if whole[e - 1] == headless[e]:  # (c)
                needed.whole[e - 1] += weight
            else:  # (d)
                m = e - 1
                while True:
                    below = headless[m] + maybe(scores.outer_modifier[node + m, LEFT], False)
                    if below + chart.left_arc[m, e - m] == headless[e]:
                        break
                    m -= 1
                _choose(scores, node + m, LEFT, weight, gradient)
                needed.left_arc[m, e - m] += weight
                needed.headless[m] += weight


@numba.njit(**CALLED)
def _close_descend(sentence, chart, needed, gradient):
    """Carry what is needed of halves and close arcs down to the arcs below."""
    n, b, w, _, _ = sentence
    right, left, right_arc, left_arc = chart.right, chart.left, chart.right_arc, chart.left_arc
    for i in range(n + 1):
        for t in range(min(b, n - i), 0, -1):
            j = i + t
            if t < b and needed.right[i, t] != 0.0:
                m = i + 1
                while right_arc[i, m - i] + right[m, j - m] != right[i, t]:
                    m += 1
                needed.right_arc[i, m - i] += needed.right[i, t]
                needed.right[m, j - m] += needed.right[i, t]
            if t < b and needed.left[i, t] != 0.0:
                m = i
                while left[i, m - i] + left_arc[m, j - m] != left[i, t]:
                    m += 1
                needed.left_arc[m, j - m] += needed.left[i, t]
                needed.left[i, m - i] += needed.left[i, t]
            weight = needed.right_arc[i, t] + needed.left_arc[i, t]
            gradient.close[w + j, b - t] += needed.right_arc[i, t]
            if i > 0:
                gradient.close[w + i, b + t - 1] += needed.left_arc[i, t]
            if weight != 0.0:
                r = i
                while right[i, r - i] + left[r + 1, j - r - 1] != chart.inner[i, t]:
                    r += 1
                needed.right[i, r - i] += weight
                needed.left[r + 1, j - r - 1] += weight
