"""Gain of each head by the kinds of `Wide`: further parts of third order, and tree features.

For hill-climbing, whose state these kernels read: `arc`, `place` and `head` of each word, the sets `chosen` of ranks of
the modifiers of each side and `below` of the words below each word, and room for `gain`, `memo`, `path`, `crossed` and
`stack`.

To weigh the heads of a word m, m is taken out of the tree with all that is below it. What a head h then adds is found
next to that forest, so that no two changes are ever in each other's way. By tree features it is

- what m and its arc add themselves: `neighbours` and `crossing` of the arc, `valency` of h, and `coordination`
  and `conjunct` of m, its modifiers and theirs,
- for each word above m, that is, for h and the words above it, what changes because the words below m come to those
  below it, which does not depend on h: sums from the root downward are made once, for the words above some candidate,
- for each arc that m is between, whether h is outside: these are added up once, for all positions of h,
- the last path, if h is on it and m becomes its last modifier.

For a word m with D modifiers a candidate head takes O(D) steps for parts, and for tree features O(D) and those between
the ends of its arc; the words above it take O(1) each once, and the arcs that m is between O(n) each.
"""

from __future__ import annotations

import numba
import numpy as np

from arbora.decoders.hill_climbing.state import attach, detach, side_of
from arbora.decoders.kernels import bitsets as sets
from arbora.decoders.kernels.bitsets import ONE, ZERO
from arbora.decoders.kernels.options import CALLED, HELPER
from arbora.decoders.parts.layout import grand_grandparents_at, inner_grandchildren_at, outer_grandchildren_at
from arbora.decoders.parts.tree_features import (
    CONJUNCTION,
    PUNCTUATION,
    crossing_at,
    neighbours_at,
    pair_at,
    span_at,
    tags_around,
    tail_of,
    valency_at,
)


@numba.njit(**CALLED)
def weigh_wide(layout, wide, state, sentence, m, root_only):
    """Add to gain what each candidate head of m that is not below m adds by the kinds of `Wide`.

    With `root_only` only the present head and the root are looked at.
    """
    n, before, node, W = sentence
    detach(layout, state, sentence, m, True)
    start = np.int64(layout.modifier_offsets[before + m])
    K = np.int64(layout.modifier_offsets[before + m + ONE]) - start
    for w in range(n + ONE):
        state.memo[w] = np.nan
        state.path[w] = -1
    state.memo[0] = 0.0
    path = tail = 0
    if len(wide.right_branching) > 0:
        path = _follow_path(layout, wide, state, sentence, ZERO)
        tail = _count_path(layout, wide, state, sentence, m)
    if len(wide.crossing) > 0:
        _weigh_crossed_arcs(wide, state, sentence, m)
    if len(wide.grand_grandparent) > 0:
        add_upper_grand_grandparents(layout, wide, state, sentence, m, K)
    for i in range(K):
        h = np.uint64(layout.head[start + i])
        if sets.has(state.below, m * W, h):
            continue
        if root_only and h != ZERO and np.uint64(i) != state.place[m]:
            continue
        total = _parts_gain(layout, wide, state, sentence, m, h, start + i)
        total += _features_gain(layout, wide, state, sentence, m, h, start + i)
        if len(wide.right_branching) > 0:
            length = path
            if tail > 0 and state.path[h] >= 0 and m > _last_modifier(layout, wide, state, sentence, h):
                length = state.path[h] + tail
            total += wide.right_branching[node + np.uint64(length)]
        state.gain[i] += total
    attach(layout, state, sentence, m, True)


@numba.njit(**CALLED)
def wide_score(layout, wide, state, sentence):
    """Score of the tree by the kinds of `Wide`."""
    n, before, node, W = sentence
    first = np.int64(before)
    total = 0.0
    for m in range(ONE, n + ONE):
        h = state.head[m]
        k = np.int64(state.arc[m])
        g = state.head[h] if h > ZERO else ZERO
        if len(wide.grand_grandparent) > 0 and g > ZERO:
            block = grand_grandparents_at(layout, wide, first, k, np.int64(state.arc[h]))
            total += wide.grand_grandparent[block + np.int64(state.place[g])]
        if len(wide.span) > 0 or len(wide.neighbours) > 0:
            start, end = _span(state, sentence, m)
            total += _span_score(wide, sentence, m, k, start, end)
        if len(wide.crossing) > 0:
            count = _count_crossings(state, h, m, ZERO)
            if count > 0:
                total += wide.crossing[crossing_at(k, count)]
        if len(wide.valency) > 0:
            left, right = _valency(layout, wide, state, sentence, m)
            total += wide.valency[valency_at(first + np.int64(m), left, right)]
        total += _conjunction_score(wide, state, sentence, m, h)
    if len(wide.inner_sibling_grandchild) > 0 or len(wide.outer_sibling_grandchild) > 0:
        for side in range(ONE, np.uint64(2) * (n + ONE)):
            offset, J = _side(layout, sentence, side)
            i = np.int64(sets.following(state.chosen, side * W, ZERO))
            while i <= J:
                j = np.int64(sets.following(state.chosen, side * W, np.uint64(i)))
                if j <= J:
                    total += _pair_gain(layout, wide, state, sentence, offset, i, j)
                i = j
    if len(wide.right_branching) > 0:
        length = _follow_path(layout, wide, state, sentence, ZERO)
        total += wide.right_branching[node + np.uint64(length)]
    return total


# Modifiers.


@numba.njit(**HELPER)
def _side(layout, sentence, side):
    """Return the start of the arcs of a side in `outward`, and their number."""
    node = sentence.node
    i = node + node + side
    return np.int64(layout.side_offsets[i]), np.int64(layout.side_offsets[i + ONE] - layout.side_offsets[i])


@numba.njit(**HELPER)
def _next_modifier(layout, state, sentence, side, rank):
    """Step to the next modifier of a word, from `side` and `rank`, at first its left side and 0.

    Returns its side, its rank, and the place of its arc in `outward`, -1 behind the last.
    """
    W = sentence.W
    place = np.int64(-1)
    while True:
        rank = sets.following(state.chosen, side * W, rank)
        offset, J = _side(layout, sentence, side)
        if np.int64(rank) <= J:
            place = offset + np.int64(rank) - 1
            break
        if side & ONE:
            break
        side += ONE
        rank = ZERO
    return side, rank, place


@numba.njit(**HELPER)
def _is_punctuation(wide, sentence, m):
    return wide.tags[sentence.before + m] == PUNCTUATION


@numba.njit(**HELPER)
def _last_modifier(layout, wide, state, sentence, h):
    """The modifier of h with the highest number that is not punctuation, 0 for none."""
    W = sentence.W
    right = h + h + ONE
    offset, J = _side(layout, sentence, right)
    rank = sets.previous(state.chosen, right * W, np.uint64(J + 1))
    while rank > ZERO:
        m = np.uint64(layout.modifier[layout.outward[offset + np.int64(rank) - 1]])
        if not _is_punctuation(wide, sentence, m):
            return m
        rank = sets.previous(state.chosen, right * W, rank)
    # On the left ranks go down to the first word, so that the nearest modifier is the last.
    left = h + h
    offset, J = _side(layout, sentence, left)
    rank = sets.following(state.chosen, left * W, ZERO)
    while np.int64(rank) <= J:
        m = np.uint64(layout.modifier[layout.outward[offset + np.int64(rank) - 1]])
        if not _is_punctuation(wide, sentence, m):
            return m
        rank = sets.following(state.chosen, left * W, rank)
    return ZERO


@numba.njit(**HELPER)
def _follow_path(layout, wide, state, sentence, h):
    """Number the words of the last path in `path`, and return how many there are."""
    length = 0
    while True:
        state.path[h] = length
        h = _last_modifier(layout, wide, state, sentence, h)
        if h == ZERO:
            break
        length += 1
    return length


@numba.njit(**HELPER)
def _count_path(layout, wide, state, sentence, m):
    """Number of words on the last path if it comes to m, with m; 0 if m is punctuation."""
    length = 0
    if not _is_punctuation(wide, sentence, m):
        while m != ZERO:
            length += 1
            m = _last_modifier(layout, wide, state, sentence, m)
    return length


# Parts.


@numba.njit(**HELPER)
def add_upper_grand_grandparents(layout, wide, state, sentence, m, K):
    """Add what each head of m adds above its modifiers and theirs, two arcs below."""
    first = np.int64(sentence.before)
    side, rank, place = _next_modifier(layout, state, sentence, m + m, ZERO)
    while place >= 0:
        up = np.int64(layout.outward[place])
        c = np.uint64(layout.modifier[up])
        below_side, below_rank, below = _next_modifier(layout, state, sentence, c + c, ZERO)
        while below >= 0:
            block = grand_grandparents_at(layout, wide, first, np.int64(layout.outward[below]), up)
            for i in range(K):
                state.gain[i] += wide.grand_grandparent[block + i]
            below_side, below_rank, below = _next_modifier(layout, state, sentence, below_side, below_rank)
        side, rank, place = _next_modifier(layout, state, sentence, side, rank)


@numba.njit(**HELPER)
def _pair_gain(layout, wide, state, sentence, offset, i, j):
    """Return the score that neighbours of ranks i and j add by their modifiers; their side's arcs start at `offset`."""
    node = sentence.node
    total = 0.0
    for outer in range(2):
        score = wide.outer_sibling_grandchild if outer else wide.inner_sibling_grandchild
        if len(score) == 0:
            continue
        block = outer_grandchildren_at(wide, offset, i, j) if outer else inner_grandchildren_at(wide, offset, i, j)
        s = np.uint64(layout.modifier[layout.outward[offset + (j if outer else i) - 1]])
        block -= np.int64(layout.side_offsets[(node + s) * np.uint64(2)])
        side, rank, place = _next_modifier(layout, state, sentence, s + s, ZERO)
        while place >= 0:
            total += score[block + place]
            side, rank, place = _next_modifier(layout, state, sentence, side, rank)
    return total


@numba.njit(**HELPER)
def grand_grandparents_gain(layout, wide, state, sentence, m, h, k):
    """Return the score of the grand-grandparents with arc k from h, a word, to m as the last or the middle one."""
    first = np.int64(sentence.before)
    total = 0.0
    g = state.head[h]
    if g > ZERO:
        block = grand_grandparents_at(layout, wide, first, k, np.int64(state.arc[h]))
        total += wide.grand_grandparent[block + np.int64(state.place[g])]
    side, rank, place = _next_modifier(layout, state, sentence, m + m, ZERO)
    while place >= 0:
        block = grand_grandparents_at(layout, wide, first, np.int64(layout.outward[place]), k)
        total += wide.grand_grandparent[block + np.int64(state.place[h])]
        side, rank, place = _next_modifier(layout, state, sentence, side, rank)
    return total


@numba.njit(**HELPER)
def _parts_gain(layout, wide, state, sentence, m, h, k):
    """Return the score that arc k from h to m adds by parts, without those of `add_upper_grand_grandparents`."""
    node = sentence.node
    W = sentence.W
    total = 0.0
    if len(wide.grand_grandparent) > 0 and h > ZERO:
        total += grand_grandparents_gain(layout, wide, state, sentence, m, h, k)
    if len(wide.inner_sibling_grandchild) > 0 or len(wide.outer_sibling_grandchild) > 0:
        # m between its siblings a and c
        side = side_of(h, m)
        offset, J = _side(layout, sentence, side)
        b = np.int64(layout.rank[k])
        a = np.int64(sets.previous(state.chosen, side * W, np.uint64(b)))
        c = np.int64(sets.following(state.chosen, side * W, np.uint64(b)))
        for pair in range(3):
            i, j = (b, c) if pair == 0 else (a, b) if pair == 1 else (a, c)
            if i > 0 and j <= J:
                gain = _pair_gain(layout, wide, state, sentence, offset, i, j)
                total += gain if pair < 2 else -gain
        # m below h, between its siblings
        if h > ZERO:
            place = offset + b - 1 - np.int64(layout.side_offsets[(node + h) * np.uint64(2)])
            g = state.head[h]
            side = side_of(g, h)
            offset, J = _side(layout, sentence, side)
            b = np.int64(layout.rank[state.arc[h]])
            a = np.int64(sets.previous(state.chosen, side * W, np.uint64(b)))
            c = np.int64(sets.following(state.chosen, side * W, np.uint64(b)))
            if len(wide.inner_sibling_grandchild) > 0 and c <= J:
                total += wide.inner_sibling_grandchild[inner_grandchildren_at(wide, offset, b, c) + place]
            if len(wide.outer_sibling_grandchild) > 0 and a > 0:
                total += wide.outer_sibling_grandchild[outer_grandchildren_at(wide, offset, a, b) + place]
    return total


# Tree features.


@numba.njit(**HELPER)
def _features_gain(layout, wide, state, sentence, m, h, k):
    """Return the score that arc k from h to m adds by tree features, without the last path."""
    total = 0.0
    if len(wide.neighbours) > 0:
        start, end = _span(state, sentence, m)
        left, right = tags_around(wide.tags, np.int64(sentence.before), np.int64(sentence.n), start, end)
        total += wide.neighbours[neighbours_at(k, left, right)]
    if len(wide.crossing) > 0:
        total += state.crossed[h]
        count = _count_crossings(state, h, m, ZERO)
        if count > 0:
            total += wide.crossing[crossing_at(k, count)]
    if len(wide.coordination) > 0 or len(wide.conjunct) > 0:
        total += _coordination_gain(layout, wide, state, sentence, m, h)
    if h > ZERO:
        if len(wide.valency) > 0 and not _is_punctuation(wide, sentence, m):
            left, right = _valency(layout, wide, state, sentence, h)
            w = np.int64(sentence.before + h)
            total += wide.valency[valency_at(w, left + (m < h), right + (m > h))]
            total -= wide.valency[valency_at(w, left, right)]
        if len(wide.span) > 0 or len(wide.neighbours) > 0:
            total += _changes_above(wide, state, sentence, m, h)
    return total


@numba.njit(**HELPER)
def _valency(layout, wide, state, sentence, h):
    """Numbers of modifiers of h on the left and on the right that are not punctuation."""
    left = right = 0
    side, rank, place = _next_modifier(layout, state, sentence, h + h, ZERO)
    while place >= 0:
        m = np.uint64(layout.modifier[layout.outward[place]])
        if not _is_punctuation(wide, sentence, m):
            left += m < h
            right += m > h
        side, rank, place = _next_modifier(layout, state, sentence, side, rank)
    return left, right


# Spans.


@numba.njit(**HELPER)
def _span(state, sentence, h):
    """First and last word below h."""
    W = sentence.W
    return np.int64(sets.first(state.below, h * W)), np.int64(sets.last(state.below, h * W, W))


@numba.njit(**HELPER)
def _span_score(wide, sentence, h, k, start, end):
    """Return the score of h and the arc k into it if the span of h goes from `start` to `end`."""
    total = 0.0
    left, right = tags_around(wide.tags, np.int64(sentence.before), np.int64(sentence.n), start, end)
    if len(wide.span) > 0:
        total += wide.span[span_at(np.int64(sentence.before + h), end - start + 1, tail_of(right))]
    if len(wide.neighbours) > 0:
        total += wide.neighbours[neighbours_at(k, left, right)]
    return total


@numba.njit(**HELPER)
def _changes_above(wide, state, sentence, m, h):
    """Return the change at h and the words above it if the words below m are added to those below h.

    `memo` has these sums; they are made from the lowest word that is known.
    """
    count = ZERO
    a = h
    while np.isnan(state.memo[a]):
        state.stack[count] = a
        count += ONE
        a = state.head[a]
    change = state.memo[a]
    m_start, m_end = _span(state, sentence, m)
    while count > ZERO:
        count -= ONE
        a = state.stack[count]
        start, end = _span(state, sentence, a)
        if m_start < start or m_end > end:
            k = np.int64(state.arc[a])
            change += _span_score(wide, sentence, a, k, min(start, m_start), max(end, m_end))
            change -= _span_score(wide, sentence, a, k, start, end)
        state.memo[a] = change
    return change


# Crossing arcs.


@numba.njit(**HELPER)
def _count_crossings(state, h, m, without):
    """Number of words between h and m whose heads are outside, without one of them."""
    low, high = min(h, m), max(h, m)
    count = 0
    for between in range(low + ONE, high):
        outside = state.head[between] < low or state.head[between] > high
        count += outside and between != without
    return count


@numba.njit(**HELPER)
def _weigh_crossed_arcs(wide, state, sentence, m):
    """Set `crossed` to what a head of m at each position adds by the arcs that m is between."""
    n = sentence.n
    crossed = state.crossed
    for h in range(n + ONE):
        crossed[h] = 0.0
    everywhere = 0.0
    for x in range(ONE, n + ONE):
        low, high = min(state.head[x], x), max(state.head[x], x)
        if x == m or m <= low or m >= high:
            continue
        k = np.int64(state.arc[x])
        count = _count_crossings(state, state.head[x], x, m)
        change = np.float64(wide.crossing[crossing_at(k, count + 1)])
        if count > 0:
            change -= wide.crossing[crossing_at(k, count)]
        everywhere += change  # but for the positions low..high
        crossed[low] -= change
        if high < n:
            crossed[high + ONE] += change
    inside = 0.0
    for h in range(n + ONE):
        inside += crossed[h]
        crossed[h] = everywhere + inside


# Coordination. Positions are signed, as the words of entries are.


@numba.njit(**HELPER)
def _conjuncts_score(wide, sentence, c, g, h, gg):
    """Return the score that the conjunction c adds by each of its conjuncts g and h, below the head gg."""
    start, n = wide.conjunct_offsets[sentence.before + c], np.int64(sentence.n)
    total = np.float64(wide.conjunct[pair_at(start, n, np.int64(g), np.int64(gg))])
    return total + wide.conjunct[pair_at(start, n, np.int64(h), np.int64(gg))]


@numba.njit(**HELPER)
def _conjunction_score(wide, state, sentence, c, h):
    """Return the score of c as a conjunction below h: 0 unless it is one, between h and the head of h."""
    total = 0.0
    if wide.tags[sentence.before + c] == CONJUNCTION and h > c:
        g = state.head[h]
        if g < c:
            if len(wide.coordination) > 0:
                start = wide.coordination_offsets[sentence.before + c]
                total += wide.coordination[pair_at(start, np.int64(sentence.n), np.int64(h), np.int64(g))]
            if len(wide.conjunct) > 0 and g > ZERO:
                total += _conjuncts_score(wide, sentence, c, g, h, state.head[g])
    return total


@numba.njit(**HELPER)
def _coordination_gain(layout, wide, state, sentence, m, h):
    """Return the score of m below h as a conjunction, as a second conjunct, and as a first conjunct."""
    present = state.head[m]
    state.head[m] = h
    total = _conjunction_score(wide, state, sentence, m, h)
    side, rank, place = _next_modifier(layout, state, sentence, m + m, ZERO)
    while place >= 0:
        x = np.uint64(layout.modifier[layout.outward[place]])
        total += _conjunction_score(wide, state, sentence, x, m)
        if len(wide.conjunct) > 0 and x > m:
            below_side, below_rank, below = _next_modifier(layout, state, sentence, x + x, ZERO)
            while below >= 0:
                c = np.uint64(layout.modifier[layout.outward[below]])
                if m < c < x and wide.tags[sentence.before + c] == CONJUNCTION:
                    total += _conjuncts_score(wide, sentence, c, m, x, h)
                below_side, below_rank, below = _next_modifier(layout, state, sentence, below_side, below_rank)
        side, rank, place = _next_modifier(layout, state, sentence, side, rank)
    state.head[m] = present
    return total
