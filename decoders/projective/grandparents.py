"""Charts of projective trees under arcs, grandparents, siblings and grand-siblings, on candidate arcs only.

Koo and Collins (2010), "Efficient third-order dependency parsers", Model 1: items of head h also know the head g of h,
which stands outside of them. With W(g, h, s, m) the score of siblings and grand-siblings, 0 where there are none, and +
for max or log-sum:

    I_g(h, m) = arc(h, m) . gp(g, h, m) . (C_h(m, h+1) . W(g, h, START, m) + +_s I_g(h, s) . S_h(s, m) . W(g, h, s, m))
    S_h(s, m) = +_r C_h(s, r) . C_h(m, r+1)
    C_g(h, e) = +_m I_g(h, m) . W(g, h, m, END) . C_h(m, e),    C_g(h, h) = W(g, h, START, END)

and their mirror images. Each tree has one derivation. Kinds that are absent score 0: grandparents only (Model 0)
are searched by the same rules, in the same order of time.

The pair of g and h is a candidate arc, the context of an item. An item I_g(h, m) exists for two candidate arcs, and
S_h(s, m) for two modifiers of a side; a row C_g(h, .) reaches no further than candidate arcs lead from h, and not past
g. With K heads of a word, J modifiers on a side and w the mean length of a row, at most n, time is O(n J (J w + K w +
K J)) and memory O(n (K w + K J + J^2)). All arcs: O(n^4) and O(n^3).

Differs from the paper: as in `siblings`.
"""

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from arbora.decoders.kernels.options import CALLED, HELPER, KERNEL
from arbora.decoders.parts.layout import sibling_at
from arbora.decoders.projective.semirings import gather, offer, plus, share, share_row, share_splits, total_sum
from arbora.decoders.projective.siblings import heads_behind, last_end


class Chart(NamedTuple):
    """Items of one sentence. Contexts are its arcs, and behind them that of the root, which has no head.

    With x the context of g and h, C_g(h, e) is at `right[right_base[x] + e]` for h <= e, else at
    `left[left_base[x] + e]`; I_g(h, m) is at `first[a] + p` with a the arc from h to m, and g the p-th head of h.
    """

    low: NDArray[np.int64]  # (X,) a left half ends here at the furthest, by candidate arcs ...
    high: NDArray[np.int64]  # (X,) ... and a right half here
    left_base: NDArray[np.int64]
    right_base: NDArray[np.int64]
    left_end: NDArray[np.int64]  # (X,) the furthest end of those built
    right_end: NDArray[np.int64]
    top: NDArray[np.int64]  # (N,) of each left end, the last right end of an item
    reached: NDArray[np.bool_]  # (N,) heads of left halves that end at the present i ...
    row: NDArray[np.float64]  # (X,) ... and C_g(h, i) by context
    first: NDArray[np.int64]  # (X,)
    left: NDArray[np.float64]
    right: NDArray[np.float64]
    inner: NDArray[np.float64]  # I_g(h, m) without the scores of its arc
    open: NDArray[np.float64]  # I_g(h, m)
    closed: NDArray[np.float64]  # I_g(h, m) . W(g, h, m, END)
    spans: NDArray[np.float64]  # S_h(s, m), at the entries of siblings
    left_total: NDArray[np.float64]  # marginals of items, as long as the items
    right_total: NDArray[np.float64]
    open_total: NDArray[np.float64]
    span_total: NDArray[np.float64]


class Place(NamedTuple):
    """Offsets of a sentence in the batch: node h is `node + h`, word m is `words + m`, its arcs start at `arc0`."""

    n: int
    node: int
    words: int
    arc0: int
    arcs: int


@numba.njit(**KERNEL)
def run(sentences, layout, single_root, log, with_marginals, goal, heads, marginals):
    """Fill goal[b], -inf without a tree, and marginals of the arcs of b if they are asked for, or else heads[b]."""
    size, contexts, spans = 1, 1, 1
    for b in sentences:
        node, n = layout.word_offsets[b] + b, layout.lengths[b]
        size = max(size, n + 1)
        contexts = max(contexts, layout.sentence_offsets[b + 1] - layout.sentence_offsets[b] + 1)
        spans = max(spans, layout.sibling_offsets[2 * (node + n + 1)] - layout.sibling_offsets[2 * node])
    low, high = np.empty(contexts, np.int64), np.empty(contexts, np.int64)
    left_base, right_base = np.empty(contexts, np.int64), np.empty(contexts, np.int64)
    first = np.empty(contexts, np.int64)
    ends = np.empty((2, size), np.int64)
    lefts, rights, items = 1, 1, 1
    for b in sentences:
        x, y, z = _place_rows(layout, b, ends, low, high, left_base, right_base, first)
        lefts, rights, items = max(lefts, x), max(rights, y), max(items, z)
    below = 1 if with_marginals else 0
    chart = Chart(
        low,
        high,
        left_base,
        right_base,
        np.empty(contexts, np.int64),
        np.empty(contexts, np.int64),
        np.empty(size, np.int64),
        np.zeros(size, np.bool_),
        np.full(contexts, -np.inf),
        first,
        np.empty(lefts),
        np.empty(rights),
        np.empty(items),
        np.empty(items),
        np.empty(items),
        np.empty(spans),
        np.empty(lefts * below),
        np.empty(rights * below),
        np.empty(items * below),
        np.empty(spans * below),
    )
    stack = np.empty((4 * size, 2), np.int64)
    for b in sentences:
        sizes = _place_rows(layout, b, ends, low, high, left_base, right_base, first)
        arc0 = layout.sentence_offsets[b]
        arcs = layout.sentence_offsets[b + 1] - arc0
        at = Place(layout.lengths[b], layout.word_offsets[b] + b, layout.word_offsets[b] - 1, arc0, arcs)
        _inside(layout, at, chart, 1 if single_root else 0, log)
        goal[b] = _finish(layout, at, chart, single_root, log)
        if goal[b] > -np.inf:
            if not with_marginals:
                _trace(layout, at, chart, single_root, goal[b], stack, heads[b])
            else:
                nothing = 0.0 if log else -np.inf
                chart.left_total[: sizes[0]] = nothing
                chart.right_total[: sizes[1]] = nothing
                chart.open_total[: sizes[2]] = nothing
                marginals[arc0 : arc0 + arcs] = nothing
                _outside(layout, at, chart, single_root, log, goal[b], marginals)


@numba.njit(**CALLED)
def _place_rows(layout, b, ends, low, high, left_base, right_base, first):
    """Set the reach of halves and the places of items. Returns the numbers of left halves, right halves, and I."""
    n = layout.lengths[b]
    node, words, arc0 = layout.word_offsets[b] + b, layout.word_offsets[b] - 1, layout.sentence_offsets[b]
    arcs = layout.sentence_offsets[b + 1] - arc0
    for h in range(n, -1, -1):
        ends[1, h] = h
        side = 2 * (node + h) + 1
        for p in range(layout.side_offsets[side], layout.side_offsets[side + 1]):
            ends[1, h] = max(ends[1, h], ends[1, layout.modifier[layout.outward[p]]])
    for h in range(n + 1):
        ends[0, h] = h
        side = 2 * (node + h)
        for p in range(layout.side_offsets[side], layout.side_offsets[side + 1]):
            ends[0, h] = min(ends[0, h], ends[0, layout.modifier[layout.outward[p]]])
    lefts, rights, items = 0, 0, 0
    for x in range(arcs + 1):
        h, g = 0, -1
        if x < arcs:
            h, g = layout.modifier[arc0 + x], layout.head[arc0 + x]
            first[x] = items
            items += layout.modifier_offsets[words + g + 1] - layout.modifier_offsets[words + g] if g > 0 else 1
        low[x], high[x] = ends[0, h], ends[1, h]
        if g > h:
            high[x] = min(high[x], g - 1)
        else:
            low[x] = max(low[x], g + 1)
        left_base[x], right_base[x] = lefts - low[x], rights - h
        lefts += h - low[x] + 1
        rights += high[x] - h + 1
    return lefts, rights, items


@numba.njit(**HELPER)
def _contexts(layout, at, h):
    """The first context of head h, and the end."""
    if h == 0:
        return at.arcs, at.arcs + 1
    return layout.modifier_offsets[at.words + h] - at.arc0, layout.modifier_offsets[at.words + h + 1] - at.arc0


@numba.njit(**HELPER)
def _pair(layout, at, side, J, x, i, j):
    """W(g, h, i, j) for the neighbours i < j of a side with J modifiers, by rank, in the context x of h."""
    score = 0.0
    entry = sibling_at(J, i, j)
    if len(layout.sibling) > 0:
        score += layout.sibling[layout.sibling_offsets[side] + entry]
    if len(layout.grand_sibling) > 0 and x < at.arcs:
        score += layout.grand_sibling[layout.grand_sibling_offsets[2 * (at.arc0 + x) + side % 2] + entry]
    return score


@numba.njit(**HELPER)
def _empty_side(layout, at, side, x):
    """W(g, h, START, END)."""
    J = layout.side_offsets[side + 1] - layout.side_offsets[side]
    return _pair(layout, at, side, J, x, 0, J + 1)


@numba.njit(**HELPER)
def _arc_score(layout, k, place):
    """arc(h, m) . gp(g, h, m) for the arc k and the place of g among the heads of h."""
    score = np.float64(layout.arc_score[k])
    if len(layout.grandparent) > 0 and layout.head[k] > 0:
        score += layout.grandparent[layout.grandparent_offsets[k] + place]
    return score


@numba.njit(**CALLED)
def _inside(layout, at, chart, start, log):
    """Build all items, by left ends i from the last, and for each of them by right ends j."""
    left, right = chart.left, chart.right
    for i in range(at.n, start - 1, -1):
        side = 2 * (at.node + i) + 1
        x_start, x_end = _contexts(layout, at, i)
        for x in range(x_start, x_end):
            right[chart.right_base[x] + i : chart.right_base[x] + chart.high[x] + 1] = -np.inf
            left[chart.left_base[x] + chart.low[x] : chart.left_base[x] + i + 1] = -np.inf
            right[chart.right_base[x] + i] = _empty_side(layout, at, side, x)
            if i > 0:
                left[chart.left_base[x] + i] = _empty_side(layout, at, side - 1, x)
            chart.left_end[x] = chart.right_end[x] = i
        p, p_end = layout.side_offsets[side], layout.side_offsets[side + 1]
        q, q_end = heads_behind(layout, at.words, i)
        top = last_end(layout, i, p, p_end, q, q_end)
        j = i + 1
        while j <= top:
            if p < p_end and layout.modifier[layout.outward[p]] == j:
                k = layout.outward[p]
                a = k - at.arc0
                nearest = left[chart.left_base[a] + i + 1] if chart.left_end[a] <= i + 1 else -np.inf
                _attach(layout, at, chart, side, k, nearest, log)
                # C_g(i, e) = + I_g(i, j) . W(g, i, j, END) . C_i(j, e)
                for x in range(x_start, x_end):
                    value = chart.closed[chart.first[a] + x - x_start]
                    if value > -np.inf:
                        end = min(chart.right_end[a], chart.high[x])
                        offer(value, right, chart.right_base[a] + j, right, chart.right_base[x] + j, end - j + 1, log)
                        chart.right_end[x] = max(chart.right_end[x], end)
                p += 1
            if q < q_end and layout.head[q] == j:
                a = q - at.arc0
                nearest = right[chart.right_base[a] + j - 1] if chart.right_end[a] >= j - 1 else -np.inf
                _attach(layout, at, chart, 2 * (at.node + j), q, nearest, log)
                _offer_left(layout, at, chart, q, left[chart.left_base[a] + i], log)
                q += 1
            if chart.reached[j]:  # C_g(h, i) = + I_g(h, j) . W(g, h, j, END) . C_h(j, i)
                chart.reached[j] = False
                y_start, y_end = _contexts(layout, at, j)
                for y in range(y_start, y_end):
                    value = chart.row[y]
                    chart.row[y] = -np.inf
                    if i >= chart.low[y] and value > -np.inf:
                        left[chart.left_base[y] + i] = value
                        chart.left_end[y] = i
                        if layout.head[at.arc0 + y] > j:
                            top = max(top, layout.head[at.arc0 + y])
                            _offer_left(layout, at, chart, at.arc0 + y, value, log)
            j += 1
        chart.top[i] = top


@numba.njit(**HELPER)
def _offer_left(layout, at, chart, k, value, log):
    """Offer C_h(m, i), which is `value`, to the left halves of h over the arc k from h to m, in all contexts of h."""
    h = layout.head[k]
    x_start, x_end = _contexts(layout, at, h)
    offer(value, chart.closed, chart.first[k - at.arc0], chart.row, x_start, x_end - x_start, log)
    chart.reached[h] = True


@numba.njit(**HELPER)
def _split_places(layout, at, chart, k, s):
    """Return the first pair of C_h(i, r) and C_h(j, r+1), and the maximum number of pairs; the arcs k and s of h lead
    to i and j in any order."""
    if layout.modifier[k] < layout.modifier[s]:
        k, s = s, k
    a, b = s - at.arc0, k - at.arc0
    start = max(layout.modifier[s], chart.left_end[b] - 1)
    count = min(layout.modifier[k] - 1, chart.right_end[a]) - start + 1
    return chart.right_base[a] + start, chart.left_base[b] + start + 1, count


@numba.njit(**HELPER)
def _attach(layout, at, chart, side, k, nearest, log):
    """I_g(h, m) for the arc k and all heads g of h, with S_h(s, m) for the siblings s; `nearest` is C_h(m, h+1)."""
    start, rank, m = layout.side_offsets[side], layout.rank[k], layout.modifier[k]
    J = layout.side_offsets[side + 1] - start
    siblings = layout.sibling_offsets[side]
    block = siblings - layout.sibling_offsets[2 * at.node]
    first = sibling_at(
        J, 1, rank
    )  # of the pair with the innermost sibling; that of the next is J - 1 further, and so on
    entry = first
    for y in range(1, rank):
        r, e, count = _split_places(layout, at, chart, k, layout.outward[start + y - 1])
        chart.spans[block + entry] = total_sum(chart.right, r, chart.left, e, count, log)
        entry += J - y
    x_start, x_end = _contexts(layout, at, layout.head[k])
    item = chart.first[k - at.arc0]
    for place in range(x_end - x_start):
        chart.inner[item + place] = nearest + _pair(layout, at, side, J, x_start + place, 0, rank)
    if log or len(layout.grand_sibling) > 0:
        for place in range(x_end - x_start):
            x, total, entry = x_start + place, chart.inner[item + place], first
            if not chart.low[x] <= m <= chart.high[x]:
                continue
            grand = len(layout.grand_sibling) > 0 and x < at.arcs
            grand_siblings = layout.grand_sibling_offsets[2 * (at.arc0 + x) + side % 2] if grand else 0
            for y in range(1, rank):
                s = layout.outward[start + y - 1]
                value = chart.open[chart.first[s - at.arc0] + place] + chart.spans[block + entry]
                pair = 0.0  # W(g, h, s, m), added up as in `_pair`: `_trace` looks for exactly this sum
                if len(layout.sibling) > 0:
                    pair += layout.sibling[siblings + entry]
                if grand:
                    pair += layout.grand_sibling[grand_siblings + entry]
                total = plus(total, value + pair, log)
                entry += J - y
            chart.inner[item + place] = total
    else:
        entry = first
        for y in range(1, rank):
            inner = chart.first[layout.outward[start + y - 1] - at.arc0]
            pair = np.float64(layout.sibling[siblings + entry]) if len(layout.sibling) > 0 else 0.0
            _raise(chart.inner, item, chart.open, inner, x_end - x_start, chart.spans[block + entry], pair)
            entry += J - y
    for place in range(x_end - x_start):
        x = x_start + place
        if not chart.low[x] <= m <= chart.high[x]:  # g is not outside
            chart.inner[item + place] = -np.inf
        chart.open[item + place] = chart.inner[item + place] + _arc_score(layout, k, place)
        chart.closed[item + place] = chart.open[item + place] + _pair(layout, at, side, J, x, rank, J + 1)


@numba.njit(**HELPER)
def _raise(x, i, y, j, count, span, pair):
    """x[i + t] = max(x[i + t], y[j + t] + span + pair), for t below count: by SIMD."""
    i, j = np.uint64(i), np.uint64(j)
    for t in range(np.uint64(count)):
        value = y[j + t] + span + pair
        x[i + t] = value if value > x[i + t] else x[i + t]


@numba.njit(**CALLED)
def _finish(layout, at, chart, single_root, log):
    """Score of the best tree, or log-sum over trees."""
    if not single_root:
        x = at.arcs
        return chart.right[chart.right_base[x] + at.n] if chart.right_end[x] == at.n else -np.inf
    total = -np.inf
    side = 2 * at.node + 1
    for p in range(layout.side_offsets[side], layout.side_offsets[side + 1]):
        total = plus(total, _root_score(layout, at, chart, layout.outward[p]), log)
    return total


@numba.njit(**HELPER)
def _root_score(layout, at, chart, k):
    """arc(0, m) . W(0, START, m) . W(0, m, END) . C_0(m, 1) . C_0(m, n), for the arc k from the root to m."""
    a, side = k - at.arc0, 2 * at.node + 1
    if chart.left_end[a] > 1 or chart.right_end[a] < at.n:
        return -np.inf
    J, rank = layout.side_offsets[side + 1] - layout.side_offsets[side], layout.rank[k]
    score = layout.arc_score[k] + _pair(layout, at, side, J, at.arcs, 0, rank)
    score += _pair(layout, at, side, J, at.arcs, rank, J + 1)
    return score + chart.left[chart.left_base[a] + 1] + chart.right[chart.right_base[a] + at.n]


@numba.njit(**CALLED)
def _outside(layout, at, chart, single_root, log, goal, marginals):
    """Marginals of all items, from the goal down: by left ends i from the first, and right ends j from the last."""
    left, right, left_total, right_total = chart.left, chart.right, chart.left_total, chart.right_total
    if single_root:
        side = 2 * at.node + 1
        for p in range(layout.side_offsets[side], layout.side_offsets[side + 1]):
            k = layout.outward[p]
            value = _root_score(layout, at, chart, k)
            if value > -np.inf:
                marginals[k] = share(1.0 if log else goal, value, goal, log)
                left_total[chart.left_base[k - at.arc0] + 1] = marginals[k]
                right_total[chart.right_base[k - at.arc0] + at.n] = marginals[k]
    else:
        right_total[chart.right_base[at.arcs] + at.n] = 1.0 if log else goal

    for i in range(1 if single_root else 0, at.n + 1):
        side = 2 * (at.node + i) + 1
        x_start, x_end = _contexts(layout, at, i)
        p_end, p = layout.side_offsets[side], layout.side_offsets[side + 1] - 1
        q_end, q = heads_behind(layout, at.words, i)
        q -= 1
        for j in range(chart.top[i], i, -1):
            y_start, y_end = heads_behind(layout, at.words, j)
            for k in range(y_start, y_end):
                y = k - at.arc0
                if i >= chart.low[y] and left[chart.left_base[y] + i] > -np.inf:
                    place = chart.left_base[y] + i
                    part = _share_left(layout, at, chart, k, i, left[place], log)
                    left_total[place] = gather(left_total[place], part, log)
            if q >= q_end and layout.head[q] == j:
                a = q - at.arc0
                _share_left(layout, at, chart, q, i, left[chart.left_base[a] + i], log)
                nearest = chart.right_base[a] + j - 1 if chart.right_end[a] >= j - 1 else -1
                marginals[q] = _share_arc(layout, at, chart, 2 * (at.node + j), q, right, right_total, nearest, log)
                q -= 1
            if p >= p_end and layout.modifier[layout.outward[p]] == j:
                k = layout.outward[p]
                a = k - at.arc0
                for x in range(x_start, x_end):
                    item = chart.first[a] + x - x_start
                    if chart.closed[item] > -np.inf:
                        tail, whole = chart.right_base[a] + j, chart.right_base[x] + j
                        count = min(chart.right_end[a], chart.high[x]) - j + 1
                        part = share_row(chart.closed[item], right, right_total, tail, whole, count, log)
                        chart.open_total[item] = gather(chart.open_total[item], part, log)
                nearest = chart.left_base[a] + i + 1 if chart.left_end[a] <= i + 1 else -1
                marginals[k] = _share_arc(layout, at, chart, side, k, left, left_total, nearest, log)
                p -= 1


@numba.njit(**HELPER)
def _share_left(layout, at, chart, k, i, value, log):
    """Marginals of I_g(h, m) by the left halves of h that end at i, for the arc k. Returns that of C_h(m, i), whose
    value is given."""
    total = 0.0 if log else -np.inf
    x_start, x_end = _contexts(layout, at, layout.head[k])
    for x in range(x_start, x_end):
        item = chart.first[k - at.arc0] + x - x_start
        if i >= chart.low[x] and chart.closed[item] > -np.inf:
            place = chart.left_base[x] + i
            part = share(chart.left_total[place], chart.closed[item] + value, chart.left[place], log)
            chart.open_total[item] = gather(chart.open_total[item], part, log)
            total = gather(total, part, log)
    return total


@numba.njit(**HELPER)
def _share_arc(layout, at, chart, side, k, half, half_total, nearest, log):
    """Marginals of what is below the arc k, as in `_attach`; C_h(m, h+1) is half[nearest]. Returns that of the arc."""
    start, rank = layout.side_offsets[side], layout.rank[k]
    J = layout.side_offsets[side + 1] - start
    block = layout.sibling_offsets[side] - layout.sibling_offsets[2 * at.node]
    nothing = 0.0 if log else -np.inf
    for y in range(1, rank):
        chart.span_total[block + sibling_at(J, y, rank)] = nothing
    every = nothing
    x_start, x_end = _contexts(layout, at, layout.head[k])
    for place in range(x_end - x_start):
        item = chart.first[k - at.arc0] + place
        total, whole = chart.open_total[item], chart.inner[item]
        every = gather(every, total, log)
        if total > nothing:
            x = x_start + place
            if nearest >= 0:
                part = share(total, half[nearest] + _pair(layout, at, side, J, x, 0, rank), whole, log)
                half_total[nearest] = gather(half_total[nearest], part, log)
            for y in range(1, rank):
                inner = chart.first[layout.outward[start + y - 1] - at.arc0] + place
                entry = block + sibling_at(J, y, rank)
                value = chart.open[inner] + chart.spans[entry]
                if value > -np.inf:
                    part = share(total, value + _pair(layout, at, side, J, x, y, rank), whole, log)
                    chart.open_total[inner] = gather(chart.open_total[inner], part, log)
                    chart.span_total[entry] = gather(chart.span_total[entry], part, log)
    for y in range(1, rank):
        entry = block + sibling_at(J, y, rank)
        total, whole = chart.span_total[entry], chart.spans[entry]
        if total > nothing:
            r, e, count = _split_places(layout, at, chart, k, layout.outward[start + y - 1])
            share_splits(total, whole, chart.right, r, chart.right_total, chart.left, e, chart.left_total, count, log)
    return every


@numba.njit(**CALLED)
def _trace(layout, at, chart, single_root, goal, stack, heads):
    """Walk down from the goal, finding for each half-tree (context, end) the first choice that gives its value."""
    top = 1
    stack[0, 0], stack[0, 1] = at.arcs, at.n
    if single_root:
        p = layout.side_offsets[2 * at.node + 1]
        while _root_score(layout, at, chart, layout.outward[p]) != goal:
            p += 1
        k = layout.outward[p]
        heads[layout.modifier[k]] = 0
        stack[0, 0], stack[0, 1] = k - at.arc0, 1
        stack[1, 0], stack[1, 1] = k - at.arc0, at.n
        top = 2
    while top > 0:
        top -= 1
        x, e = stack[top, 0], stack[top, 1]
        h = layout.modifier[at.arc0 + x] if x < at.arcs else 0
        if h == e:
            continue
        # C_g(h, e) = I_g(h, m) . W(g, h, m, END) . C_h(m, e)
        place = x - _contexts(layout, at, h)[0]
        side = 2 * (at.node + h) + (e > h)
        half, base = (chart.right, chart.right_base) if e > h else (chart.left, chart.left_base)
        start = layout.side_offsets[side]
        p = start - 1
        found = False
        while not found:
            p += 1
            k = layout.outward[p]
            a, m = k - at.arc0, layout.modifier[k]
            if (m <= e <= chart.right_end[a]) if e > h else (chart.left_end[a] <= e <= m):
                found = chart.closed[chart.first[a] + place] + half[base[a] + e] == half[base[x] + e]
        stack[top, 0], stack[top, 1] = k - at.arc0, e
        top += 1
        # From sibling to sibling inward.
        J = layout.side_offsets[side + 1] - start
        block = layout.sibling_offsets[side] - layout.sibling_offsets[2 * at.node]
        while k >= 0:
            heads[layout.modifier[k]] = h
            whole, rank, following = chart.inner[chart.first[k - at.arc0] + place], layout.rank[k], -1
            for y in range(1, rank):
                s = layout.outward[start + y - 1]
                span = chart.spans[block + sibling_at(J, y, rank)]
                value = chart.open[chart.first[s - at.arc0] + place] + span
                if value > -np.inf and value + _pair(layout, at, side, J, x, y, rank) == whole:
                    following = s
                    r, f, _ = _split_places(layout, at, chart, k, s)
                    while chart.right[r] + chart.left[f] != span:
                        r, f = r + 1, f + 1
                    a, b = (s, k) if layout.modifier[s] < layout.modifier[k] else (k, s)
                    stack[top, 0], stack[top, 1] = a - at.arc0, r - chart.right_base[a - at.arc0]
                    stack[top + 1, 0], stack[top + 1, 1] = b - at.arc0, f - chart.left_base[b - at.arc0]
                    top += 2
                    break
            if following < 0:
                stack[top, 0], stack[top, 1] = k - at.arc0, h + 1 if layout.modifier[k] > h else h - 1
                top += 1
            k = following
