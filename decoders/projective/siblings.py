"""Charts of projective trees under arcs, or arcs and consecutive siblings, on candidate arcs only.

Eisner (2000), "Bilexical grammars and their cubic-time parsing algorithms"; with siblings McDonald and Pereira (2006),
"Online learning of approximate dependency parsing algorithms". The chart serves the best tree, the best score of a tree
with each arc, and sums over all trees (log-partition and marginals). Items, of which left sides have the mirror image:

    C(h, e)  half-tree of head h that ends at e, complete
    I(h, m)  words from h to m with the arc from h to m, whose far side is open
    S(s, m)  words from s to m, right half of s and left half of m, for siblings

With W(h, s, m) the score of siblings, 0 without them, and + for max or log-sum:

    first order    I(h, m) = arc(h, m) . +_r C(h, r) . C(m, r+1)
    siblings       I(h, m) = arc(h, m) . (C(m, h+1) . W(h, START, m)  +  +_s I(h, s) . S(s, m) . W(h, s, m))
                   S(s, m) = +_r C(s, r) . C(m, r+1)
    both           C(h, e) = +_m I(h, m) . W(h, m, END) . C(m, e),    C(h, h) = W(h, START, END)

Each tree has one derivation. An incomplete item exists only for a candidate arc, and a row of complete items C(h, .)
reaches no further than candidate arcs lead from h. Time O(A w) for A arcs and w the mean length of a row, at most n,
and with siblings O(A J) more for J modifiers of a head on a side; memory O(n w), with siblings O(n^2). All arcs: O(n^3)
and O(n^2).

Differs from the papers: items are built by left ends, the last first, so that right halves are filled a row at a time,
by SIMD. A single root is enforced in the last step. The way down computes marginals of items, as `semirings` says.
"""

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from arbora.decoders.kernels.options import ALLOCATING, CALLED, HELPER, KERNEL
from arbora.decoders.parts.layout import sibling_at
from arbora.decoders.projective.semirings import (
    REDUCTION,
    gather,
    offer,
    plus,
    share,
    share_row,
    share_splits,
    total_sum,
)


class Chart(NamedTuple):
    """Items of one sentence. C(h, e) is at `right[right_base[h] + e]` for h <= e, at `left[left_base[h] + e]` else."""

    low: NDArray[np.int64]  # (N,) a left half ends here at the furthest, by candidate arcs ...
    high: NDArray[np.int64]  # (N,) ... and a right half here
    left_base: NDArray[np.int64]
    right_base: NDArray[np.int64]
    left_end: NDArray[np.int64]  # (N,) the furthest end of those built
    right_end: NDArray[np.int64]
    top: NDArray[np.int64]  # (N,) of each left end, the last right end of an item
    row: NDArray[np.float64]  # (N,) C(h, i) by h, for the present i ...
    row_total: NDArray[np.float64]  # (N,) ... and its marginals
    left: NDArray[np.float64]
    right: NDArray[np.float64]
    left_total: NDArray[np.float64]  # marginals of items, as long as the items
    right_total: NDArray[np.float64]
    spans: NDArray[np.float64]  # (N N) S(s, m) at s N + m and m N + s, where it is needed
    needed: NDArray[np.uint8]  # (N+1 N) whether S(s, m) is, for two modifiers of a side: at both places ...
    last_needed: NDArray[np.int64]  # (N,) ... and of each s, the last m
    words: NDArray[np.int64]  # (A,) modifiers of sides, by places in `outward` ...
    beside: NDArray[np.float64]  # (A,) ... and I(h, s) to them
    span_totals: NDArray[np.float64]  # (N N)
    inner: NDArray[np.float64]  # (A,) I(h, m) without the score of the arc, by arcs of the sentence
    open: NDArray[np.float64]  # (A,) I(h, m)
    closed: NDArray[np.float64]  # (A,) I(h, m) . W(h, m, END)


@numba.njit(**KERNEL)
def run(sentences, layout, single_root, log, with_marginals, goal, heads, marginals):
    """Fill goal[b], -inf without a tree, and marginals of the arcs of b if they are asked for, or else heads[b]."""
    chart = allocate(sentences, layout, single_root, with_marginals)
    stack = np.empty((3 * len(chart.low), 2), np.int64)
    no_pairs = np.empty(0)
    for b in sentences:
        place_rows(layout, b, single_root, chart.low, chart.high, chart.left_base, chart.right_base)
        inside(layout, b, chart, single_root, log)
        goal[b] = finish(layout, b, chart, single_root, log)
        if goal[b] > -np.inf:
            if with_marginals:
                outside(layout, b, chart, single_root, log, goal[b], marginals, no_pairs)
            else:
                _trace(layout, b, chart, single_root, goal[b], stack, heads[b])


@numba.njit(**KERNEL)
def run_marginals(sentences, layout, single_root, log, goal, marginals, pairs):
    """Fill goal[b], -inf without a tree, and marginals of the arcs of b and of its siblings, `pairs`."""
    chart = allocate(sentences, layout, single_root, True)
    for b in sentences:
        place_rows(layout, b, single_root, chart.low, chart.high, chart.left_base, chart.right_base)
        inside(layout, b, chart, single_root, log)
        goal[b] = finish(layout, b, chart, single_root, log)
        if goal[b] > -np.inf:
            outside(layout, b, chart, single_root, log, goal[b], marginals, pairs)


@numba.njit(**ALLOCATING)
def allocate(sentences, layout, single_root, with_totals):
    """A chart with room for each of the sentences."""
    size, arcs, lefts, rights = 1, 1, 1, 1
    for b in sentences:
        size = max(size, layout.lengths[b] + 1)
        arcs = max(arcs, layout.sentence_offsets[b + 1] - layout.sentence_offsets[b])
    low, high = np.empty(size, np.int64), np.empty(size, np.int64)
    left_base, right_base = np.empty(size, np.int64), np.empty(size, np.int64)
    for b in sentences:
        some = place_rows(layout, b, single_root, low, high, left_base, right_base)
        lefts, rights = max(lefts, some[0]), max(rights, some[1])
    spans = size * (size + 1) if len(layout.sibling) > 0 else 0
    totals = 1 if with_totals else 0
    return Chart(
        low,
        high,
        left_base,
        right_base,
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.full(size, -np.inf),
        np.empty(size),
        np.empty(lefts),
        np.empty(rights),
        np.empty(lefts * totals),
        np.empty(rights * totals),
        np.empty(spans),
        np.empty(spans, np.uint8),
        np.empty(size, np.int64),
        np.empty(arcs if spans > 0 else 0, np.int64),
        np.empty(arcs if spans > 0 else 0),
        np.empty(spans * totals),
        np.empty(arcs),
        np.empty(arcs),
        np.empty(arcs),
    )


@numba.njit(**CALLED)
def place_rows(layout, b, single_root, low, high, left_base, right_base):
    """Set the reach of halves and the places of their rows. Returns the length of all left rows and all right rows."""
    n, first = layout.lengths[b], 1 if single_root else 0
    node = layout.word_offsets[b] + b
    lefts, rights = 0, 0
    for h in range(n, first - 1, -1):
        high[h] = h
        side = 2 * (node + h) + 1
        for p in range(layout.side_offsets[side], layout.side_offsets[side + 1]):
            high[h] = max(high[h], high[layout.modifier[layout.outward[p]]])
        right_base[h] = rights - h
        rights += high[h] - h + 1
    for h in range(first, n + 1):
        low[h] = h
        side = 2 * (node + h)
        for p in range(layout.side_offsets[side], layout.side_offsets[side + 1]):
            low[h] = min(low[h], low[layout.modifier[layout.outward[p]]])
        left_base[h] = lefts - low[h]
        lefts += h - low[h] + 1
    return lefts, rights


@numba.njit(**HELPER)
def heads_behind(layout, words, m):
    """Return start and end of the arcs into m from heads behind it; word 1 is words + 1 in the batch."""
    if m == 0:
        return 0, 0
    start, end = layout.modifier_offsets[words + m], layout.modifier_offsets[words + m + 1]
    k = end
    while k > start and layout.head[k - 1] > m:
        k -= 1
    return k, end


@numba.njit(**HELPER)
def sibling(layout, side, i, j):
    """Score of the neighbours i < j of a side by rank, where j = -1 stands for END."""
    if len(layout.sibling) == 0:
        return 0.0
    J = layout.side_offsets[side + 1] - layout.side_offsets[side]
    return np.float64(layout.sibling[layout.sibling_offsets[side] + sibling_at(J, i, j if j >= 0 else J + 1)])


@numba.njit(**CALLED)
def inside(layout, b, chart, single_root, log):
    """Build all items, by left ends i from the last, and for each of them by right ends j."""
    n, first = layout.lengths[b], 1 if single_root else 0
    node, words, arc0 = layout.word_offsets[b] + b, layout.word_offsets[b] - 1, layout.sentence_offsets[b]
    siblings = len(layout.sibling) > 0
    left, right, row = chart.left, chart.right, chart.row
    if siblings:
        _mark_spans(layout, b, chart, first)
    for i in range(n, first - 1, -1):
        right[chart.right_base[i] + i : chart.right_base[i] + chart.high[i] + 1] = -np.inf
        left[chart.left_base[i] + chart.low[i] : chart.left_base[i] + i + 1] = -np.inf
        side = 2 * (node + i) + 1
        right[chart.right_base[i] + i] = sibling(layout, side, 0, -1)
        left[chart.left_base[i] + i] = sibling(layout, side - 1, 0, -1) if i > 0 else 0.0
        chart.left_end[i] = chart.right_end[i] = i
        p, p_end = layout.side_offsets[side], layout.side_offsets[side + 1]
        q, q_end = heads_behind(layout, words, i)
        top = last_end(layout, i, p, p_end, q, q_end)
        if siblings:
            top = max(top, chart.last_needed[i])
        j = i + 1
        while j <= top:
            if siblings and chart.needed[i * (n + 1) + j]:
                span = _split(chart, i, j, log)
                chart.spans[i * (n + 1) + j] = chart.spans[j * (n + 1) + i] = span
            from_left = p < p_end and layout.modifier[layout.outward[p]] == j
            from_right = q < q_end and layout.head[q] == j
            total = -np.inf
            if not siblings and (from_left or from_right):  # +_r C(i, r) . C(j, r+1)
                total = _split(chart, i, j, log)
            if from_left:
                k = layout.outward[p]
                if siblings:
                    nearest = left[chart.left_base[j] + i + 1] if chart.left_end[j] <= i + 1 else -np.inf
                    total = _inner_siblings(layout, n, arc0, chart, side, k, nearest, log)
                value = _attach(layout, arc0, chart, side, k, total)
                if value > -np.inf:  # C(i, e) = + I(i, j) . W(i, j, END) . C(j, e)
                    count = chart.right_end[j] - j + 1
                    offer(value, right, chart.right_base[j] + j, right, chart.right_base[i] + j, count, log)
                    chart.right_end[i] = max(chart.right_end[i], chart.right_end[j])
                p += 1
            if from_right:
                if siblings:
                    nearest = right[chart.right_base[i] + j - 1] if chart.right_end[i] >= j - 1 else -np.inf
                    total = _inner_siblings(layout, n, arc0, chart, 2 * (node + j), q, nearest, log)
                value = _attach(layout, arc0, chart, 2 * (node + j), q, total)
                row[j] = plus(row[j], value + left[chart.left_base[i] + i], log)
                q += 1
            value = row[j]
            row[j] = -np.inf
            if value > -np.inf:  # C(h, i) = + I(h, j) . W(h, j, END) . C(j, i)
                left[chart.left_base[j] + i] = value
                chart.left_end[j] = i
                k, k_end = heads_behind(layout, words, j)
                if k < k_end:
                    top = max(top, layout.head[k_end - 1])
                    _offer_to_heads(value, layout.head, chart.closed, k, k_end, arc0, n, row, log)
            j += 1
        chart.top[i] = top


@numba.njit(**HELPER)
def last_end(layout, i, p, p_end, q, q_end):
    """The last word to which i has an arc, or from which, behind it."""
    top = i
    if p < p_end:
        top = layout.modifier[layout.outward[p_end - 1]]
    if q < q_end:
        top = max(top, layout.head[q_end - 1])
    return top


@numba.njit(**HELPER)
def _split(chart, i, j, log):
    """+_r C(i, r) . C(j, r+1)."""
    start, count = splits(chart, i, j)
    r, e = chart.right_base[i] + start, chart.left_base[j] + start + 1
    return total_sum(chart.right, r, chart.left, e, count, log)


@numba.njit(**HELPER)
def splits(chart, i, j):
    """The first r with C(i, r) and C(j, r+1), and how many there may be."""
    start = max(i, chart.left_end[j] - 1)
    return start, min(j - 1, chart.right_end[i]) - start + 1


@numba.njit(**HELPER)
def _attach(layout, arc0, chart, side, k, total):
    """Make the arc k over what is below it. Returns I(h, m) . W(h, m, END)."""
    chart.inner[k - arc0] = total
    chart.open[k - arc0] = total + layout.arc_score[k]
    if len(layout.sibling) > 0:
        chart.beside[layout.side_offsets[side] - arc0 + layout.rank[k] - 1] = chart.open[k - arc0]
    chart.closed[k - arc0] = chart.open[k - arc0] + sibling(layout, side, layout.rank[k], -1)
    return chart.closed[k - arc0]


@numba.njit(**HELPER)
def _offer_to_heads(value, head, closed, k, k_end, arc0, n, row, log):
    """row[h] = row[h] + value . closed, for the heads h of arcs k..k_end - 1; by SIMD if these are all up to n."""
    if k_end - k == n + 1 - head[k] and not log:
        offer(value, closed, k - arc0, row, head[k], k_end - k, False)
    else:
        for x in range(k, k_end):
            row[head[x]] = plus(row[head[x]], value + closed[x - arc0], log)


@numba.njit(**CALLED)
def _mark_spans(layout, b, chart, first):
    """Mark the pairs of modifiers of a side, between which spans are needed."""
    n, arc0 = layout.lengths[b], layout.sentence_offsets[b]
    node, size = layout.word_offsets[b] + b, n + 1
    chart.needed[: size * (size + 1)] = 0
    chart.last_needed[:size] = 0
    scratch = size * size  # a row behind the others: the modifiers of the present side
    for side in range(2 * (node + first), 2 * (node + n + 1)):
        start, end = layout.side_offsets[side] - arc0, layout.side_offsets[side + 1] - arc0
        for x in range(start, end):
            chart.words[x] = layout.modifier[layout.outward[arc0 + x]]
            chart.needed[scratch + chart.words[x]] = 1
        if end > start:
            low = min(chart.words[start], chart.words[end - 1])
            high = max(chart.words[start], chart.words[end - 1])
            for x in range(start, end):
                m = chart.words[x]
                chart.last_needed[m] = max(chart.last_needed[m], high)
                for t in range(np.uint64(low), np.uint64(high + 1)):
                    chart.needed[np.uint64(m * size) + t] |= chart.needed[np.uint64(scratch) + t]
            chart.needed[scratch + low : scratch + high + 1] = 0


@numba.njit(**HELPER)
def _inner_siblings(layout, n, arc0, chart, side, k, nearest, log):
    """Return what is below the arc k from h to m: `nearest`, which is C(m, h+1), or a sibling s and S(s, m)."""
    start, rank, row = layout.side_offsets[side], layout.rank[k], layout.modifier[k] * (n + 1)
    J = layout.side_offsets[side + 1] - start
    block = layout.sibling_offsets[side]
    total = nearest + layout.sibling[block + sibling_at(J, 0, rank)]
    start -= arc0
    if not log:
        return max(total, _best_sibling(chart, start, row, layout.sibling, block + rank - 1, J, rank - 1))
    for x in range(1, rank):
        value = chart.beside[start + x - 1] + chart.spans[row + chart.words[start + x - 1]]
        total = plus(total, value + layout.sibling[block + sibling_at(J, x, rank)], log)
    return total


@numba.njit(**REDUCTION)
def _best_sibling(chart, start, row, scores, entry, J, count):
    """The largest I(h, s) + S(s, m) + W(h, s, m), for the first `count` modifiers s of a side with J."""
    best = -np.inf
    start, row, entry, J = np.uint64(start), np.uint64(row), np.uint64(entry), np.uint64(J)
    for t in range(np.uint64(count)):
        x = t + np.uint64(1)
        value = chart.beside[start + t] + chart.spans[row + np.uint64(chart.words[start + t])]
        value += scores[entry + x * J - ((x * t) >> np.uint64(1))]
        best = value if value > best else best
    return best


@numba.njit(**CALLED)
def finish(layout, b, chart, single_root, log):
    """Score of the best tree, or log-sum over trees."""
    n = layout.lengths[b]
    if not single_root:
        return chart.right[chart.right_base[0] + n] if chart.right_end[0] == n else -np.inf
    total = -np.inf
    side = 2 * (layout.word_offsets[b] + b) + 1
    for p in range(layout.side_offsets[side], layout.side_offsets[side + 1]):
        total = plus(total, root_score(layout, n, chart, side, layout.outward[p]), log)
    return total


@numba.njit(**HELPER)
def root_score(layout, n, chart, side, k):
    """arc(0, m) . C(m, 1) . C(m, n), for the arc k from the root to m."""
    m = layout.modifier[k]
    if chart.left_end[m] > 1 or chart.right_end[m] < n:
        return -np.inf
    score = layout.arc_score[k] + sibling(layout, side, 0, layout.rank[k]) + sibling(layout, side, layout.rank[k], -1)
    return score + chart.left[chart.left_base[m] + 1] + chart.right[chart.right_base[m] + n]


@numba.njit(**CALLED)
def outside(layout, b, chart, single_root, log, goal, marginals, pairs):
    """Marginals of all items, from the goal down: by left ends i from the first, and right ends j from the last.

    Those of siblings go to `pairs`, unless it is empty.
    """
    n = layout.lengths[b]
    node, words, arc0 = layout.word_offsets[b] + b, layout.word_offsets[b] - 1, layout.sentence_offsets[b]
    siblings = len(layout.sibling) > 0
    left, right, left_total, right_total = chart.left, chart.right, chart.left_total, chart.right_total
    first = 1 if single_root else 0
    nothing = 0.0 if log else -np.inf
    marginals[arc0 : layout.sentence_offsets[b + 1]] = nothing
    left_total[: chart.left_base[n] + n + 1] = nothing
    right_total[: chart.right_base[first] + chart.high[first] + 1] = nothing
    chart.row_total[: n + 1] = nothing
    chart.row[: n + 1] = 0.0
    if siblings:
        for i in range(first, n + 1):
            chart.span_totals[i * (n + 1) + i : i * (n + 1) + chart.top[i] + 1] = nothing
    if len(pairs) > 0:
        pairs[layout.sibling_offsets[2 * node] : layout.sibling_offsets[2 * (node + n + 1)]] = nothing
    if single_root:
        side = 2 * node + 1
        for p in range(layout.side_offsets[side], layout.side_offsets[side + 1]):
            k = layout.outward[p]
            value = root_score(layout, n, chart, side, k)
            if value > -np.inf:
                m = layout.modifier[k]
                marginals[k] = share(1.0 if log else goal, value, goal, log)
                left_total[chart.left_base[m] + 1] = marginals[k]
                right_total[chart.right_base[m] + n] = marginals[k]
                _gather_pair(layout, pairs, side, 0, layout.rank[k], marginals[k], log)
                _gather_pair(layout, pairs, side, layout.rank[k], -1, marginals[k], log)
    else:
        right_total[chart.right_base[0] + n] = 1.0 if log else goal

    for i in range(first, n + 1):
        side = 2 * (node + i) + 1
        p_end, p = layout.side_offsets[side], layout.side_offsets[side + 1] - 1
        q_end, q = heads_behind(layout, words, i)
        q -= 1
        for j in range(chart.top[i], i, -1):
            if i >= chart.low[j] and left[chart.left_base[j] + i] > -np.inf:
                value, total = left[chart.left_base[j] + i], left_total[chart.left_base[j] + i]
                k_start, k_end = heads_behind(layout, words, j)
                for k in range(k_start, k_end):
                    h = layout.head[k]
                    part = share(chart.row_total[h], value + chart.closed[k - arc0], chart.row[h], log)
                    marginals[k] = gather(marginals[k], part, log)
                    total = gather(total, part, log)
                    _gather_pair(layout, pairs, 2 * (node + h), layout.rank[k], -1, part, log)
                chart.row[j], chart.row_total[j] = value, total
                left_total[chart.left_base[j] + i] = total
            inner, total = -np.inf, nothing
            if q >= q_end and layout.head[q] == j:
                value = chart.closed[q - arc0]
                if value > -np.inf:
                    part = share(chart.row_total[j], value + left[chart.left_base[i] + i], chart.row[j], log)
                    marginals[q] = gather(marginals[q], part, log)
                    left_total[chart.left_base[i] + i] = gather(left_total[chart.left_base[i] + i], part, log)
                    _gather_pair(layout, pairs, 2 * (node + j), layout.rank[q], -1, part, log)
                    inner, total = chart.inner[q - arc0], marginals[q]
                    if siblings and total > nothing:
                        near = chart.right_base[i] + j - 1 if chart.right_end[i] >= j - 1 else -1
                        _share_siblings(
                            layout, n, arc0, chart, 2 * (node + j), q, right, right_total, near, log, marginals, pairs
                        )
                q -= 1
            if p >= p_end and layout.modifier[layout.outward[p]] == j:
                k = layout.outward[p]
                value = chart.closed[k - arc0]
                if value > -np.inf:
                    at, count = chart.right_base[i] + j, chart.right_end[j] - j + 1
                    part = share_row(value, right, right_total, chart.right_base[j] + j, at, count, log)
                    marginals[k] = gather(marginals[k], part, log)
                    _gather_pair(layout, pairs, side, layout.rank[k], -1, part, log)
                    inner, total = chart.inner[k - arc0], gather(total, marginals[k], log)
                    if siblings and marginals[k] > nothing:
                        near = chart.left_base[j] + i + 1 if chart.left_end[j] <= i + 1 else -1
                        _share_siblings(layout, n, arc0, chart, side, k, left, left_total, near, log, marginals, pairs)
                p -= 1
            if siblings:
                inner, total = chart.spans[i * (n + 1) + j], chart.span_totals[i * (n + 1) + j]
            if total > nothing:
                _share_split(chart, i, j, inner, total, log)
        chart.row_total[i : chart.top[i] + 1] = nothing
        chart.row[i : chart.top[i] + 1] = 0.0
    chart.row[: n + 1] = -np.inf
    if len(pairs) > 0:
        for h in range(first, n + 1):  # C(h, h) = W(h, START, END)
            if h > 0:
                _gather_pair(layout, pairs, 2 * (node + h), 0, -1, left_total[chart.left_base[h] + h], log)
            _gather_pair(layout, pairs, 2 * (node + h) + 1, 0, -1, right_total[chart.right_base[h] + h], log)


@numba.njit(**HELPER)
def _gather_pair(layout, pairs, side, i, j, part, log):
    """Marginal of the neighbours i < j of a side by rank, where j = -1 stands for END, by one more rule."""
    if len(pairs) > 0:
        J = layout.side_offsets[side + 1] - layout.side_offsets[side]
        entry = layout.sibling_offsets[side] + sibling_at(J, i, j if j >= 0 else J + 1)
        pairs[entry] = gather(pairs[entry], part, log)


@numba.njit(**HELPER)
def _share_split(chart, i, j, whole, total, log):
    """Marginals of the tails of +_r C(i, r) . C(j, r+1)."""
    start, count = splits(chart, i, j)
    r, e = chart.right_base[i] + start, chart.left_base[j] + start + 1
    share_splits(total, whole, chart.right, r, chart.right_total, chart.left, e, chart.left_total, count, log)


# Both sides of a head come here with arrays of their own, which is why there are twelve parameters.
@numba.njit(**HELPER)
def _share_siblings(layout, n, arc0, chart, side, k, half, half_total, nearest, log, marginals, pairs):
    """Marginals of what is below the arc k as in `_inner_siblings`; C(m, h+1) is half[nearest]."""
    start, rank, m = layout.side_offsets[side], layout.rank[k], layout.modifier[k]
    J = layout.side_offsets[side + 1] - start
    block = layout.sibling_offsets[side]
    whole, total = chart.inner[k - arc0], marginals[k]
    if nearest >= 0:
        part = share(total, half[nearest] + layout.sibling[block + sibling_at(J, 0, rank)], whole, log)
        half_total[nearest] = gather(half_total[nearest], part, log)
        _gather_pair(layout, pairs, side, 0, rank, part, log)
    for x in range(1, rank):
        arc = layout.outward[start + x - 1]
        if chart.open[arc - arc0] > -np.inf:
            s = layout.modifier[arc]
            at = min(s, m) * (n + 1) + max(s, m)
            value = chart.open[arc - arc0] + chart.spans[at] + layout.sibling[block + sibling_at(J, x, rank)]
            part = share(total, value, whole, log)
            marginals[arc] = gather(marginals[arc], part, log)
            chart.span_totals[at] = gather(chart.span_totals[at], part, log)
            _gather_pair(layout, pairs, side, x, rank, part, log)


@numba.njit(**CALLED)
def _trace(layout, b, chart, single_root, goal, stack, heads):
    """Walk down from the goal, finding for each half-tree (head, end) the first choice that gives its value."""
    n = layout.lengths[b]
    node, arc0 = layout.word_offsets[b] + b, layout.sentence_offsets[b]
    top = 1
    stack[0, 0], stack[0, 1] = 0, n
    if single_root:
        side = 2 * node + 1
        p = layout.side_offsets[side]
        while root_score(layout, n, chart, side, layout.outward[p]) != goal:
            p += 1
        m = layout.modifier[layout.outward[p]]
        heads[m] = 0
        stack[0, 0], stack[0, 1] = m, 1
        stack[1, 0], stack[1, 1] = m, n
        top = 2
    while top > 0:
        top -= 1
        h, e = stack[top, 0], stack[top, 1]
        if h == e:
            continue
        # C(h, e) = I(h, m) . W(h, m, END) . C(m, e)
        side = 2 * (node + h) + (e > h)
        half = chart.right if e > h else chart.left
        base = chart.right_base if e > h else chart.left_base
        end = chart.right_end if e > h else chart.left_end
        p = layout.side_offsets[side] - 1
        found = False
        k = m = -1
        while not found:
            p += 1
            k = layout.outward[p]
            m = layout.modifier[k]
            if (m <= e <= end[m]) if e > h else (end[m] <= e <= m):
                found = chart.closed[k - arc0] + half[base[m] + e] == half[base[h] + e]
        stack[top, 0], stack[top, 1] = m, e
        top += 1
        if len(layout.sibling) == 0:
            heads[m] = h
            top = _trace_split(chart, min(h, m), max(h, m), chart.inner[k - arc0], stack, top)
        else:
            top = _trace_siblings(layout, n, arc0, chart, side, k, stack, top, heads)


@numba.njit(**HELPER)
def _trace_split(chart, i, j, whole, stack, top):
    """Put C(i, r) and C(j, r+1) on the stack, for the first r that gives the whole. Returns the new top."""
    r = max(i, chart.left_end[j] - 1)
    while chart.right[chart.right_base[i] + r] + chart.left[chart.left_base[j] + r + 1] != whole:
        r += 1
    stack[top, 0], stack[top, 1] = i, r
    stack[top + 1, 0], stack[top + 1, 1] = j, r + 1
    return top + 2


@numba.njit(**HELPER)
def _trace_siblings(layout, n, arc0, chart, side, k, stack, top, heads):
    """Follow I(h, m) inward from sibling to sibling, and put what is between them on the stack. Returns the new top."""
    start, h = layout.side_offsets[side], layout.head[k]
    J = layout.side_offsets[side + 1] - start
    block = layout.sibling_offsets[side]
    while True:
        m, rank = layout.modifier[k], layout.rank[k]
        heads[m] = h
        whole = chart.inner[k - arc0]
        found = -1
        for x in range(1, rank):
            arc = layout.outward[start + x - 1]
            if chart.open[arc - arc0] > -np.inf:
                s = layout.modifier[arc]
                span = chart.spans[min(s, m) * (n + 1) + max(s, m)]
                if chart.open[arc - arc0] + span + layout.sibling[block + sibling_at(J, x, rank)] == whole:
                    found = arc
                    top = _trace_split(chart, min(s, m), max(s, m), span, stack, top)
                    break
        if found < 0:
            stack[top, 0], stack[top, 1] = m, h + 1 if m > h else h - 1
            return top + 1
        k = found
