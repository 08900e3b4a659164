"""Gradients of max-marginals of arcs, with or without siblings: which parts the best tree with each arc is made of.

The max-marginal of an arc is the score of the best tree with it, so its gradient by the scores of parts is that tree.
For a weighted sum of max-marginals, as in the threshold of a pruning stage, trees need not be found one by one: two
sweeps over the chart of `siblings` carry weights instead. On the way up a weight goes from an item to the
item above it in the best tree with it, and what is next to it on the way is needed below; on the way down what is
needed goes to the tails of the best rule. The rule that gave an item its value, or its marginal, is the first that
gives it again.

Time as for the marginals, with no SIMD: a few times as long.
"""

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from arbora.decoders.kernels.options import CALLED, HELPER, KERNEL
from arbora.decoders.parts.layout import sibling_at
from arbora.decoders.projective.siblings import (
    allocate,
    finish,
    heads_behind,
    inside,
    outside,
    place_rows,
    splits,
)


class Weights(NamedTuple):
    """Inside and outside values of items, at their places in the chart."""

    up_left: NDArray[np.float64]
    up_right: NDArray[np.float64]
    up_arc: NDArray[np.float64]
    up_span: NDArray[np.float64]
    left: NDArray[np.float64]
    right: NDArray[np.float64]
    arc: NDArray[np.float64]
    span: NDArray[np.float64]
    pair: NDArray[np.float64]  # of siblings of the batch, by their entries; empty for none


@numba.njit(**KERNEL)
def run(sentences, layout, single_root, weights, pair_weights, goal, marginals, arc_gradient, sibling_gradient):
    """Fill goal[b], -inf without a tree, max-marginals, and the gradient of their weighted sum.

    weights: (A,) of the max-marginals of arcs.
    pair_weights: (P,) of those of siblings, 0 for those of no tree and for those with END; empty for none.
    """
    chart = allocate(sentences, layout, single_root, True)
    lefts, rights, arcs, spans = len(chart.left), len(chart.right), len(chart.open), len(chart.spans)
    flow = Weights(
        np.empty(lefts),
        np.empty(rights),
        np.empty(arcs),
        np.empty(spans),
        np.empty(lefts),
        np.empty(rights),
        np.empty(arcs),
        np.empty(spans),
        pair_weights,
    )
    no_pairs = np.empty(0)
    for b in sentences:
        sizes = place_rows(layout, b, single_root, chart.low, chart.high, chart.left_base, chart.right_base)
        inside(layout, b, chart, single_root, False)
        goal[b] = finish(layout, b, chart, single_root, False)
        if goal[b] > -np.inf:
            outside(layout, b, chart, single_root, False, goal[b], marginals, no_pairs)
            flow.up_left[: sizes[0]] = flow.left[: sizes[0]] = 0.0
            flow.up_right[: sizes[1]] = flow.right[: sizes[1]] = 0.0
            if len(layout.sibling) > 0:
                size = (layout.lengths[b] + 1) ** 2
                flow.up_span[:size] = flow.span[:size] = 0.0
            arc0 = layout.sentence_offsets[b]
            for k in range(arc0, layout.sentence_offsets[b + 1]):
                flow.up_arc[k - arc0] = flow.arc[k - arc0] = weights[k] if marginals[k] > -np.inf else 0.0
                arc_gradient[k] = 0.0
            if len(layout.sibling) > 0:
                node = layout.word_offsets[b] + b
                last = layout.sibling_offsets[2 * (node + layout.lengths[b] + 1)]
                sibling_gradient[layout.sibling_offsets[2 * node] : last] = 0.0
            _climb(layout, b, chart, flow, single_root, marginals, arc_gradient, sibling_gradient)
            _descend(layout, b, chart, flow, single_root, arc_gradient, sibling_gradient)


@numba.njit(**HELPER)
def take(up, place, marginal, part):
    """The weight that goes up by a rule, from an item with this marginal to which the rule gives `part`."""
    weight = 0.0
    if up[place] != 0.0 and marginal == part and part > -np.inf:
        weight = up[place]
        up[place] = 0.0
    return weight


@numba.njit(**HELPER)
def _pair_weight(layout, flow, side, i, j):
    """Weight of the max-marginal of the neighbours i < j of a side by rank."""
    if len(flow.pair) == 0:
        return 0.0
    J = layout.side_offsets[side + 1] - layout.side_offsets[side]
    return flow.pair[layout.sibling_offsets[side] + sibling_at(J, i, j)]


@numba.njit(**HELPER)
def _count(layout, gradient, side, i, j, weight):
    """Count the neighbours i < j of a side by rank, where j = -1 stands for END."""
    if len(layout.sibling) > 0:
        J = layout.side_offsets[side + 1] - layout.side_offsets[side]
        gradient[layout.sibling_offsets[side] + sibling_at(J, i, j if j >= 0 else J + 1)] += weight


@numba.njit(**CALLED)
def _climb(layout, b, chart, flow, single_root, marginals, arc_gradient, sibling_gradient):
    """Carry weights up, in the order in which items were built."""
    n, first = layout.lengths[b], 1 if single_root else 0
    node, words, arc0 = layout.word_offsets[b] + b, layout.word_offsets[b] - 1, layout.sentence_offsets[b]
    siblings = len(layout.sibling) > 0
    left, right, left_total, right_total = chart.left, chart.right, chart.left_total, chart.right_total
    for i in range(n, first - 1, -1):
        side = 2 * (node + i) + 1
        p, p_end = layout.side_offsets[side], layout.side_offsets[side + 1]
        q, q_end = heads_behind(layout, words, i)
        for j in range(i + 1, chart.top[i] + 1):
            to_right, to_left = -1, -1
            if p < p_end and layout.modifier[layout.outward[p]] == j:
                to_right = layout.outward[p]
                p += 1
            if q < q_end and layout.head[q] == j:
                to_left = q
                q += 1
            if siblings:
                place = i * (n + 1) + j
                total = chart.span_totals[place]
                if total > -np.inf:
                    flow.up_span[place] += _climb_split(chart, flow, i, j, total, chart.spans[place])
                if to_right >= 0:
                    near = chart.left_base[j] + i + 1 if chart.left_end[j] <= i + 1 else -1
                    halves = (left, left_total, flow.up_left, flow.left)
                    _climb_siblings(
                        layout,
                        n,
                        arc0,
                        chart,
                        flow,
                        side,
                        to_right,
                        near,
                        halves,
                        marginals,
                        arc_gradient,
                        sibling_gradient,
                    )
                if to_left >= 0:
                    near = chart.right_base[i] + j - 1 if chart.right_end[i] >= j - 1 else -1
                    halves = (right, right_total, flow.up_right, flow.right)
                    _climb_siblings(
                        layout,
                        n,
                        arc0,
                        chart,
                        flow,
                        2 * (node + j),
                        to_left,
                        near,
                        halves,
                        marginals,
                        arc_gradient,
                        sibling_gradient,
                    )
            else:
                k = to_right
                if k < 0 or (to_left >= 0 and marginals[to_left] > marginals[k]):
                    k = to_left
                if k >= 0 and marginals[k] > -np.inf:
                    moved = _climb_split(chart, flow, i, j, marginals[k], chart.inner[k - arc0])
                    flow.up_arc[k - arc0] += moved
                    arc_gradient[k] += moved
            if to_right >= 0 and marginals[to_right] > -np.inf:
                k, value = to_right, chart.closed[to_right - arc0]
                for e in range(j, chart.right_end[j] + 1):
                    x, y = chart.right_base[i] + e, chart.right_base[j] + e
                    if right_total[x] > -np.inf:
                        part = right_total[x] + (value + right[y] - right[x])
                        own = take(flow.up_arc, k - arc0, marginals[k], part)
                        other = take(flow.up_right, y, right_total[y], part)
                        flow.up_right[x] += own + other
                        flow.right[y] += own
                        flow.arc[k - arc0] += other
                        _count(layout, sibling_gradient, side, layout.rank[k], -1, own + other)
            x = chart.left_base[j] + i
            if i >= chart.low[j] and left_total[x] > -np.inf:
                if to_left >= 0 and chart.closed[to_left - arc0] > -np.inf:
                    k, y = to_left, chart.left_base[i] + i
                    part = left_total[x] + (chart.closed[k - arc0] + left[y] - left[x])
                    own = take(flow.up_arc, k - arc0, marginals[k], part)
                    flow.up_left[x] += own
                    flow.left[y] += own
                    _count(layout, sibling_gradient, 2 * (node + j), layout.rank[k], -1, own)
                k_start, k_end = heads_behind(layout, words, j)
                for k in range(k_start, k_end):
                    h = layout.head[k]
                    y = chart.left_base[h] + i
                    if i >= chart.low[h] and left_total[y] > -np.inf:
                        part = left_total[y] + (left[x] + chart.closed[k - arc0] - left[y])
                        own = take(flow.up_arc, k - arc0, marginals[k], part)
                        other = take(flow.up_left, x, left_total[x], part)
                        flow.up_left[y] += own + other
                        flow.left[x] += own
                        flow.arc[k - arc0] += other
                        _count(layout, sibling_gradient, 2 * (node + h), layout.rank[k], -1, own + other)
    if single_root:
        _climb_to_root(layout, b, chart, flow, marginals, arc_gradient, sibling_gradient)


@numba.njit(**HELPER)
def _climb_to_root(layout, b, chart, flow, marginals, arc_gradient, sibling_gradient):
    """Carry weights up to arc(0, m) . C(m, 1) . C(m, n), for the arcs from the root."""
    side = 2 * (layout.word_offsets[b] + b) + 1
    for p in range(layout.side_offsets[side], layout.side_offsets[side + 1]):
        k = layout.outward[p]
        if marginals[k] > -np.inf:
            m = layout.modifier[k]
            x, y = chart.left_base[m] + 1, chart.right_base[m] + layout.lengths[b]
            by_left = take(flow.up_left, x, chart.left_total[x], marginals[k])
            by_right = take(flow.up_right, y, chart.right_total[y], marginals[k])
            by_pair = _pair_weight(layout, flow, side, 0, layout.rank[k])
            flow.left[x] += by_right + by_pair
            flow.right[y] += by_left + by_pair
            moved = by_left + by_right + by_pair
            arc_gradient[k] += moved
            _count(layout, sibling_gradient, side, 0, layout.rank[k], moved)
            _count(layout, sibling_gradient, side, layout.rank[k], -1, moved)


@numba.njit(**HELPER)
def _climb_split(chart, flow, i, j, total, whole):
    """Carry weights up to +_r C(i, r) . C(j, r+1), which is `whole` and has the marginal `total`. Returns their sum."""
    moved = 0.0
    start, count = splits(chart, i, j)
    for r in range(start, start + count):
        x, y = chart.right_base[i] + r, chart.left_base[j] + r + 1
        part = total + (chart.right[x] + chart.left[y] - whole)
        by_right = take(flow.up_right, x, chart.right_total[x], part)
        by_left = take(flow.up_left, y, chart.left_total[y], part)
        flow.left[y] += by_right
        flow.right[x] += by_left
        moved += by_right + by_left
    return moved


# Both sides of a head come here with arrays of their own, which is why there are twelve parameters.
@numba.njit(**HELPER)
def _climb_siblings(layout, n, arc0, chart, flow, side, k, near, halves, marginals, arc_gradient, sibling_gradient):
    """Carry weights up to the arc k from h to m, from C(m, h+1), its siblings, and what is between it and them."""
    half, half_total, up_half, needed = halves
    start, rank, m = layout.side_offsets[side], layout.rank[k], layout.modifier[k]
    J = layout.side_offsets[side + 1] - start
    block = layout.sibling_offsets[side]
    total, whole = marginals[k], chart.inner[k - arc0]
    if total > -np.inf:
        if near >= 0:
            part = total + (half[near] + layout.sibling[block + sibling_at(J, 0, rank)] - whole)
            by_pair = _pair_weight(layout, flow, side, 0, rank)
            needed[near] += by_pair
            moved = take(up_half, near, half_total[near], part) + by_pair
            flow.up_arc[k - arc0] += moved
            arc_gradient[k] += moved
            sibling_gradient[block + sibling_at(J, 0, rank)] += moved
        for x in range(1, rank):
            arc = layout.outward[start + x - 1]
            if chart.open[arc - arc0] > -np.inf:
                s = layout.modifier[arc]
                place = min(s, m) * (n + 1) + max(s, m)
                entry = block + sibling_at(J, x, rank)
                part = total + (chart.open[arc - arc0] + chart.spans[place] + layout.sibling[entry] - whole)
                by_arc = take(flow.up_arc, arc - arc0, marginals[arc], part)
                by_span = take(flow.up_span, place, chart.span_totals[place], part)
                by_pair = _pair_weight(layout, flow, side, x, rank)
                moved = by_arc + by_span + by_pair
                flow.span[place] += by_arc + by_pair
                flow.arc[arc - arc0] += by_span + by_pair
                sibling_gradient[entry] += moved
                flow.up_arc[k - arc0] += moved
                arc_gradient[k] += moved


@numba.njit(**CALLED)
def _descend(layout, b, chart, flow, single_root, arc_gradient, sibling_gradient):
    """Carry what is needed of items down to arcs, in the order of the marginals."""
    n, first = layout.lengths[b], 1 if single_root else 0
    node, words, arc0 = layout.word_offsets[b] + b, layout.word_offsets[b] - 1, layout.sentence_offsets[b]
    siblings = len(layout.sibling) > 0
    if single_root:
        side = 2 * node + 1
        for p in range(layout.side_offsets[side], layout.side_offsets[side + 1]):
            k = layout.outward[p]
            weight = flow.arc[k - arc0]
            if weight != 0.0:
                flow.left[chart.left_base[layout.modifier[k]] + 1] += weight
                flow.right[chart.right_base[layout.modifier[k]] + n] += weight
                arc_gradient[k] += weight
                _count(layout, sibling_gradient, side, 0, layout.rank[k], weight)
                _count(layout, sibling_gradient, side, layout.rank[k], -1, weight)
    for i in range(first, n + 1):
        side = 2 * (node + i) + 1
        p_end, p = layout.side_offsets[side], layout.side_offsets[side + 1] - 1
        q_end, q = heads_behind(layout, words, i)
        q -= 1
        for j in range(max(chart.top[i], chart.right_end[i]), i, -1):
            if j <= chart.right_end[i]:
                halves = (chart.right, chart.right_base, chart.right_end, flow.right)
                _descend_half(layout, arc0, chart, flow, side, i, j, halves, sibling_gradient)
            if i >= chart.left_end[j]:
                halves = (chart.left, chart.left_base, chart.left_end, flow.left)
                _descend_half(layout, arc0, chart, flow, 2 * (node + j), j, i, halves, sibling_gradient)
            weight, whole = 0.0, -np.inf
            if q >= q_end and layout.head[q] == j:
                weight, whole = flow.arc[q - arc0], chart.inner[q - arc0]
                arc_gradient[q] += weight
                if siblings and weight != 0.0:
                    near = chart.right_base[i] + j - 1
                    _descend_siblings(
                        layout, n, arc0, chart, flow, 2 * (node + j), q, near, flow.right, sibling_gradient
                    )
                q -= 1
            if p >= p_end and layout.modifier[layout.outward[p]] == j:
                k = layout.outward[p]
                weight += flow.arc[k - arc0]
                arc_gradient[k] += flow.arc[k - arc0]
                whole = chart.inner[k - arc0]
                if siblings and flow.arc[k - arc0] != 0.0:
                    near = chart.left_base[j] + i + 1
                    _descend_siblings(layout, n, arc0, chart, flow, side, k, near, flow.left, sibling_gradient)
                p -= 1
            if siblings:
                weight, whole = flow.span[i * (n + 1) + j], chart.spans[i * (n + 1) + j]
            if weight != 0.0:
                r = splits(chart, i, j)[0]
                while chart.right[chart.right_base[i] + r] + chart.left[chart.left_base[j] + r + 1] != whole:
                    r += 1
                flow.right[chart.right_base[i] + r] += weight
                flow.left[chart.left_base[j] + r + 1] += weight
        _count(layout, sibling_gradient, side, 0, -1, flow.right[chart.right_base[i] + i])
        if i > 0:
            _count(layout, sibling_gradient, side - 1, 0, -1, flow.left[chart.left_base[i] + i])


@numba.njit(**HELPER)
def _descend_half(layout, arc0, chart, flow, side, h, e, halves, sibling_gradient):
    """Carry what is needed of C(h, e) down to its arc, and to the half of its modifier."""
    half, base, end, needed = halves
    weight = needed[base[h] + e]
    if weight != 0.0:
        p = layout.side_offsets[side] - 1
        found = False
        k = m = -1
        while not found:
            p += 1
            k = layout.outward[p]
            m = layout.modifier[k]
            if (m <= e <= end[m]) if e > h else (end[m] <= e <= m):
                found = chart.closed[k - arc0] + half[base[m] + e] == half[base[h] + e]
        needed[base[m] + e] += weight
        flow.arc[k - arc0] += weight
        _count(layout, sibling_gradient, side, layout.rank[k], -1, weight)


@numba.njit(**HELPER)
def _descend_siblings(layout, n, arc0, chart, flow, side, k, near, needed, sibling_gradient):
    """Carry what is needed of the arc k down to its nearest sibling and the span between, or to C(m, h+1)."""
    start, rank, m = layout.side_offsets[side], layout.rank[k], layout.modifier[k]
    J = layout.side_offsets[side + 1] - start
    block = layout.sibling_offsets[side]
    weight, whole = flow.arc[k - arc0], chart.inner[k - arc0]
    for x in range(1, rank):
        arc = layout.outward[start + x - 1]
        if chart.open[arc - arc0] > -np.inf:
            s = layout.modifier[arc]
            place = min(s, m) * (n + 1) + max(s, m)
            entry = block + sibling_at(J, x, rank)
            if chart.open[arc - arc0] + chart.spans[place] + layout.sibling[entry] == whole:
                flow.arc[arc - arc0] += weight
                flow.span[place] += weight
                sibling_gradient[entry] += weight
                return
    needed[near] += weight
    sibling_gradient[block + sibling_at(J, 0, rank)] += weight
