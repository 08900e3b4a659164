"""What heads add to the score of a tree by the types of `Wide`: further parts of third order, and features of the tree.

For hill-climbing, whose state these kernels read: `arc`, `place` and `head` of each word, the sets `chosen` of ranks of
the modifiers of each side and `below` of the words below each word, and room for `gain`, `memo`, `path` and `stack`.

To weigh the heads of a word m, m is taken out of the tree with all that is below it. What a head h then adds is found
beside that forest, so that no two changes are ever in each other's way. By features it is

- what m and its arc add themselves: `crossing` of the arc, `valency` of h, `coordination` of m and of its modifiers,
- for each word above m, that is, for h and the words above it, what changes because the words below m come to those
  below it. This change does not depend on h but for `coordination`, where it does not happen with the word by which the
  way from h comes: what that word would change is taken off its own sum. So sums from the root downward are made once,
  for the words above some candidate head,
- the last path, if h is on it and m becomes its last modifier.

For a word m with D modifiers a candidate head takes O(D) steps for parts, and O(1 + modifiers and their modifiers) once
for each word above it, by features.
"""

from __future__ import annotations

import numba
import numpy as np

from arbora.decoders.hill_climbing.state import attach, detach, side_of
from arbora.decoders.kernels import bitsets as sets
from arbora.decoders.kernels.bitsets import ONE, ZERO
from arbora.decoders.kernels.options import CALLED, INNER
from arbora.decoders.parts.layout import grand_grandparents_at, inner_grandchildren_at, outer_grandchildren_at
from arbora.decoders.parts.tree_features import coordination_at, neighbour_at, right_branching_at, span_at, valency_at


@numba.njit(**CALLED)
def weigh_wide(layout, wide, state, sentence, m, root_only):
    """Add to gain what each candidate head of m that is not below m adds by the types of `Wide`.

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
        path = _follow_path(layout, state, sentence, ZERO)
        last = m
        while last != ZERO:
            tail += 1
            last = _last_modifier(layout, state, sentence, last)
    if len(wide.grand_grandparent) > 0:
        _add_upper_grand_grandparents(layout, wide, state, sentence, m, K)
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
            if state.path[h] >= 0 and m > _last_modifier(layout, state, sentence, h):
                length = state.path[h] + tail
            b = np.int64(node - before - ONE)
            total += wide.right_branching[right_branching_at(b, np.int64(n), length)]
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
        total += _own_features(layout, wide, state, sentence, m)
        if len(wide.crossing) > 0 and h > ZERO and _crosses(state, sentence, h, m, h):
            total += wide.crossing[k]
        if len(wide.coordination) > 0 and g > ZERO:
            one, two = (
                _size(state, sentence, g) - _size(state, sentence, h),
                _size(state, sentence, h) - _size(state, sentence, m),
            )
            total += wide.coordination[coordination_at(first + np.int64(m), one, two)]
        if len(wide.valency) > 0:
            for right in range(2):
                count = np.int64(sets.count(state.chosen, (m + m + np.uint64(right)) * W, W)) - 2
                total += wide.valency[valency_at(first + np.int64(m), right, count)]
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
        b = np.int64(node - before - ONE)
        length = _follow_path(layout, state, sentence, ZERO)
        total += wide.right_branching[right_branching_at(b, np.int64(n), length)]
    return total


# Modifiers.


@numba.njit(**INNER)
def _side(layout, sentence, side):
    """Where the arcs of a side start in `outward`, and how many there are."""
    node = sentence.node
    i = node + node + side
    return np.int64(layout.side_offsets[i]), np.int64(layout.side_offsets[i + ONE] - layout.side_offsets[i])


@numba.njit(**INNER)
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


@numba.njit(**INNER)
def _last_modifier(layout, state, sentence, h):
    """The modifier of h with the highest number, 0 for none."""
    W = sentence.W
    found = ZERO
    for right in range(2):
        side = h + h + np.uint64(right)
        offset, J = _side(layout, sentence, side)
        # On the left ranks go down to the first word, so that the nearest modifier is the last.
        if right:
            rank = np.int64(sets.previous(state.chosen, side * W, np.uint64(J + 1)))
        else:
            rank = np.int64(sets.following(state.chosen, side * W, ZERO))
        if 0 < rank <= J:
            found = np.uint64(layout.modifier[layout.outward[offset + rank - 1]])
    return found


@numba.njit(**INNER)
def _follow_path(layout, state, sentence, h):
    """Number the words of the last path in `path`, and return how many there are."""
    length = 0
    while True:
        state.path[h] = length
        h = _last_modifier(layout, state, sentence, h)
        if h == ZERO:
            break
        length += 1
    return length


# Parts.


@numba.njit(**INNER)
def _add_upper_grand_grandparents(layout, wide, state, sentence, m, K):
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


@numba.njit(**INNER)
def _pair_gain(layout, wide, state, sentence, offset, i, j):
    """What two neighbours of ranks i and j add by their modifiers; the arcs of their side start at `offset`."""
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


@numba.njit(**INNER)
def _parts_gain(layout, wide, state, sentence, m, h, k):
    """What arc k from h to m adds by parts, but for those that `_add_upper_grand_grandparents` adds."""
    node = sentence.node
    W = sentence.W
    first = np.int64(sentence.before)
    total = 0.0
    if len(wide.grand_grandparent) > 0 and h > ZERO:
        g = state.head[h]
        if g > ZERO:
            block = grand_grandparents_at(layout, wide, first, k, np.int64(state.arc[h]))
            total += wide.grand_grandparent[block + np.int64(state.place[g])]
        side, rank, place = _next_modifier(layout, state, sentence, m + m, ZERO)
        while place >= 0:
            block = grand_grandparents_at(layout, wide, first, np.int64(layout.outward[place]), k)
            total += wide.grand_grandparent[block + np.int64(state.place[h])]
            side, rank, place = _next_modifier(layout, state, sentence, side, rank)
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


# Features.


@numba.njit(**INNER)
def _size(state, sentence, h):
    """Number of words below h."""
    W = sentence.W
    return np.int64(sets.count(state.below, h * W, W))


@numba.njit(**INNER)
def _crosses(state, sentence, h, m, more):
    """Whether the arc from h to m crosses, where below h there are also the words below `more`."""
    W = sentence.W
    if m < h:
        return sets.gap_before(state.below, h * W, more * W, h) > m
    return sets.gap_after(state.below, h * W, more * W, h) < m


@numba.njit(**INNER)
def _own_features(layout, wide, state, sentence, h):
    """What h adds by its span and the neighbours of the span."""
    W = sentence.W
    total = 0.0
    if len(wide.span) > 0 or len(wide.neighbours) > 0:
        start = np.int64(sets.first(state.below, h * W))
        end = np.int64(sets.last(state.below, h * W, W))
        total = _span_gain(wide, sentence, h, start, end)
    return total


@numba.njit(**INNER)
def _span_gain(wide, sentence, h, start, end):
    """What h adds if its span goes from `start` to `end`."""
    n = sentence.n
    node = sentence.node
    first = np.int64(sentence.before)
    total = 0.0
    if len(wide.span) > 0:
        total += wide.span[span_at(first + np.int64(h), end - start + 1)]
    if len(wide.neighbours) > 0:
        offset = wide.neighbours_offsets[np.int64(node) - first - 1]
        total += wide.neighbours[neighbour_at(offset, np.int64(n), np.int64(h), start - 1)]
        total += wide.neighbours[neighbour_at(offset, np.int64(n), np.int64(h), end + 1)]
    return total


@numba.njit(**INNER)
def _features_gain(layout, wide, state, sentence, m, h, k):
    """What arc k from h to m adds by features, but for the last path."""
    W = sentence.W
    first = np.int64(sentence.before)
    total = 0.0
    if h > ZERO:
        if len(wide.valency) > 0:
            side = side_of(h, m)
            count = np.int64(sets.count(state.chosen, side * W, W)) - 2
            w, right = first + np.int64(h), np.int64(m > h)
            total += wide.valency[valency_at(w, right, count + 1)]
            total -= wide.valency[valency_at(w, right, count)]
        if len(wide.crossing) > 0 and _crosses(state, sentence, h, m, m):
            total += wide.crossing[k]
        if len(wide.coordination) > 0:
            size = _size(state, sentence, h)
            g = state.head[h]
            if g > ZERO:
                one = _size(state, sentence, g) - size
                total += wide.coordination[coordination_at(first + np.int64(m), one, size)]
            more = _size(state, sentence, m)
            side, rank, place = _next_modifier(layout, state, sentence, m + m, ZERO)
            while place >= 0:
                c = np.uint64(layout.modifier[layout.outward[place]])
                total += wide.coordination[coordination_at(first + np.int64(c), size, more - _size(state, sentence, c))]
                side, rank, place = _next_modifier(layout, state, sentence, side, rank)
        # Sums for the words above, from the lowest that is known.
        count = ZERO
        a = h
        while np.isnan(state.memo[a]):
            state.stack[count] = a
            count += ONE
            a = state.head[a]
        change = state.memo[a]
        while count > ZERO:
            count -= ONE
            a = state.stack[count]
            change += _change(layout, wide, state, sentence, m, a)
            state.memo[a] = change
        total += change
    return total


@numba.njit(**INNER)
def _change(layout, wide, state, sentence, m, a):
    """What changes at a word a if the words below m come to those below a."""
    W = sentence.W
    first = np.int64(sentence.before)
    total = 0.0
    if len(wide.span) > 0 or len(wide.neighbours) > 0:
        start, end = np.int64(sets.first(state.below, a * W)), np.int64(sets.last(state.below, a * W, W))
        new_start = min(start, np.int64(sets.first(state.below, m * W)))
        new_end = max(end, np.int64(sets.last(state.below, m * W, W)))
        if new_start < start or new_end > end:
            total += _span_gain(wide, sentence, a, new_start, new_end)
            total -= _span_gain(wide, sentence, a, start, end)
    if len(wide.crossing) > 0:
        # Arcs that cross end beyond a gap, and gaps are filled.
        low, high = sets.gap_before(state.below, a * W, a * W, a), sets.gap_after(state.below, a * W, a * W, a)
        new_low = sets.gap_before(state.below, a * W, m * W, a)
        new_high = sets.gap_after(state.below, a * W, m * W, a)
        if new_low < low or new_high > high:
            side, rank, place = _next_modifier(layout, state, sentence, a + a, ZERO)
            while place >= 0:
                k = layout.outward[place]
                x = np.uint64(layout.modifier[k])
                if new_low < x < low or high < x < new_high:
                    total -= wide.crossing[k]
                side, rank, place = _next_modifier(layout, state, sentence, side, rank)
    if len(wide.coordination) > 0:
        more = _size(state, sentence, m)
        size = _size(state, sentence, a)
        g = state.head[a]
        one = _size(state, sentence, g) - size if g > ZERO else 0
        side, rank, place = _next_modifier(layout, state, sentence, a + a, ZERO)
        while place >= 0:
            x = np.uint64(layout.modifier[layout.outward[place]])
            below_x = _size(state, sentence, x)
            if g > ZERO:
                # The second conjunct grows. The first does not, which was counted at g for a way that is not by a.
                w = first + np.int64(x)
                total += _grown(wide, w, one, size - below_x, 0, more) - _grown(wide, w, one, size - below_x, more, 0)
            below_side, below_rank, below = _next_modifier(layout, state, sentence, x + x, ZERO)
            while below >= 0:
                c = np.uint64(layout.modifier[layout.outward[below]])
                w = first + np.int64(c)
                total += _grown(wide, w, size - below_x, below_x - _size(state, sentence, c), more, 0)
                below_side, below_rank, below = _next_modifier(layout, state, sentence, below_side, below_rank)
            side, rank, place = _next_modifier(layout, state, sentence, side, rank)
        if g > ZERO and state.head[g] > ZERO:
            # Nor does the second where a is the conjunction, which was counted at g too.
            below_g = _size(state, sentence, g)
            total -= _grown(
                wide, first + np.int64(a), _size(state, sentence, state.head[g]) - below_g, below_g - size, 0, more
            )
    return total


@numba.njit(**INNER)
def _grown(wide, w, one, two, more_one, more_two):
    """What word w adds if the conjuncts that it is between grow."""
    grown = wide.coordination[coordination_at(w, one + more_one, two + more_two)]
    return np.float64(grown) - np.float64(wide.coordination[coordination_at(w, one, two)])
