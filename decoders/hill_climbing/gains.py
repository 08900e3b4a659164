"""Gain of each head: what it adds to the score of a tree by arcs and by the kinds of `Layout`.

What a candidate head h of a word m adds is the sum of two terms, neither of which depends on the present head of m:
`weigh` finds for all heads at once what depends on m and the words below and next to it, `join` for one head what
depends on the modifiers and the head of h. `wide_gains` has the kinds of `Wide`.

Arcs count by how far they are below the best arc of their word. A constant that is added to all arcs of a word then
changes no sum, not even by rounding, and sums that are compared have no digits in common to lose.

For a word m, `weigh` takes O(K) for each modifier of m, and `join` O(1) for a head, and one step for each of its
modifiers with `any_sibling`.
"""

import numba
import numpy as np

from arbora.decoders.hill_climbing.state import side_of, side_size
from arbora.decoders.kernels import bitsets as sets
from arbora.decoders.kernels.bitsets import ONE, TWO, ZERO
from arbora.decoders.kernels.options import HELPER
from arbora.decoders.parts.layout import any_sibling_at, tri_sibling_at


@numba.njit(**HELPER)
def weigh(layout, state, sentence, m):
    """Set gain to what each candidate head of m adds by its arc, as a grandparent below, and as a neighbour's head."""
    n, before, node, W = sentence
    gain = state.gain
    word = before + m
    start = np.uint64(layout.modifier_offsets[word])
    K = np.uint64(layout.modifier_offsets[word + ONE]) - start
    for i in range(K):
        gain[i] = layout.arc_score[start + i] - state.best_arc[m]
    if len(layout.grandparent) > 0 or len(layout.grand_sibling) > 0:
        for right in range(2):
            side = m + m + np.uint64(right)
            first = np.uint64(layout.side_offsets[node + node + side]) - ONE
            end = side_size(layout, sentence, side) + ONE
            a = ZERO
            while a < end:
                c = sets.following(state.chosen, side * W, a)
                if len(layout.grand_sibling) > 0:
                    entry = state.row[state.row_offsets[side] + a] + c
                    for i in range(K):
                        block = np.uint64(layout.grand_sibling_offsets[(start + i) * TWO + np.uint64(right)])
                        gain[i] += layout.grand_sibling[block + entry]
                if len(layout.grandparent) > 0 and c < end:
                    block = np.uint64(layout.grandparent_offsets[np.uint64(layout.outward[first + c])])
                    for i in range(K):
                        gain[i] += layout.grandparent[block + i]
                a = c
    if len(layout.head_bigram) > 0:
        if m > ONE:
            block = np.uint64(layout.head_bigram_offsets[word]) + state.place[m - ONE] * K
            for i in range(K):
                gain[i] += layout.head_bigram[block + i]
        if m < n:
            stride = np.uint64(layout.modifier_offsets[word + TWO] - layout.modifier_offsets[word + ONE])
            block = np.uint64(layout.head_bigram_offsets[word + ONE]) + state.place[m + ONE]
            for i in range(K):
                gain[i] += layout.head_bigram[block + i * stride]


@numba.njit(**HELPER)
def join(layout, state, sentence, m, h, k):
    """Return the score that arc k from h to m adds by grandparents and siblings, even if it is not in the tree."""
    node, W = sentence.node, sentence.W
    side = side_of(h, m)
    b = np.uint64(layout.rank[k])
    a = sets.previous(state.chosen, side * W, b)
    c = sets.following(state.chosen, side * W, b)
    row_a = state.row[state.row_offsets[side] + a]
    row_b = state.row[state.row_offsets[side] + b]
    total = 0.0
    if len(layout.grandparent) > 0 and h > ZERO:
        total += layout.grandparent[np.uint64(layout.grandparent_offsets[k]) + state.place[h]]
    if len(layout.sibling) > 0:
        block = np.uint64(layout.sibling_offsets[node + node + side])
        total += layout.sibling[block + row_a + b]
        total += layout.sibling[block + row_b + c]
        total -= layout.sibling[block + row_a + c]
    if len(layout.grand_sibling) > 0 and h > ZERO:
        block = np.uint64(layout.grand_sibling_offsets[state.arc[h] * TWO + (side & ONE)])
        total += layout.grand_sibling[block + row_a + b]
        total += layout.grand_sibling[block + row_b + c]
        total -= layout.grand_sibling[block + row_a + c]
    if len(layout.tri_sibling) > 0:
        total += _tri_sibling_gain(layout, state, sentence, side, a, b, c)
    if len(layout.any_sibling) > 0:
        total += _any_sibling_gain(layout, state, sentence, h, side, b)
    return total


@numba.njit(**HELPER)
def _tri_sibling_gain(layout, state, sentence, side, a, b, c):
    """Return the score that b adds between a and c."""
    node, W = sentence.node, sentence.W
    block = layout.tri_sibling_offsets[node + node + side]
    J = np.int64(side_size(layout, sentence, side))
    i, j, k = np.int64(a), np.int64(b), np.int64(c)
    total = np.float64(layout.tri_sibling[block + tri_sibling_at(J, i, j, k)])
    if i > 0:
        z = np.int64(sets.previous(state.chosen, side * W, a))
        total += layout.tri_sibling[block + tri_sibling_at(J, z, i, j)]
        total -= layout.tri_sibling[block + tri_sibling_at(J, z, i, k)]
    if k <= J:
        d = np.int64(sets.following(state.chosen, side * W, c))
        total += layout.tri_sibling[block + tri_sibling_at(J, j, k, d)]
        total -= layout.tri_sibling[block + tri_sibling_at(J, i, k, d)]
    return total


@numba.njit(**HELPER)
def _any_sibling_gain(layout, state, sentence, h, side, b):
    """Return the score that the modifier of rank b adds with the modifiers of h, on both sides."""
    block = layout.any_sibling_offsets[sentence.node + h]
    left = np.int64(side_size(layout, sentence, h + h))
    J = left + np.int64(side_size(layout, sentence, h + h + ONE))
    i = np.int64(b) - 1 + (left if side & ONE else 0)
    total = 0.0
    for right in range(2):
        start = (h + h + np.uint64(right)) * sentence.W
        size = J - left if right else left
        s = sets.following(state.chosen, start, ZERO)
        while np.int64(s) <= size:
            j = np.int64(s) - 1 + right * left
            if i != j:
                total += layout.any_sibling[block + any_sibling_at(J, min(i, j), max(i, j))]
            s = sets.following(state.chosen, start, s)
    return total


@numba.njit(**HELPER)
def score(layout, state, sentence):
    """Score of the tree by arcs and by the kinds of `Layout`, less the best arcs of all words."""
    n, before, node, W = sentence
    total = 0.0
    for m in range(ONE, n + ONE):
        k, h = state.arc[m], state.head[m]
        total += layout.arc_score[k] - state.best_arc[m]
        if len(layout.grandparent) > 0 and h > ZERO:
            total += layout.grandparent[np.uint64(layout.grandparent_offsets[k]) + state.place[h]]
        if len(layout.head_bigram) > 0 and m > ONE:
            word = before + m
            K = np.uint64(layout.modifier_offsets[word + ONE] - layout.modifier_offsets[word])
            block = np.uint64(layout.head_bigram_offsets[word])
            total += layout.head_bigram[block + state.place[m - ONE] * K + state.place[m]]
        if len(layout.any_sibling) > 0:
            rank = np.uint64(layout.rank[k])
            total += 0.5 * _any_sibling_gain(layout, state, sentence, h, side_of(h, m), rank)
    for side in range(ONE, TWO * (n + ONE)):  # the root has no left side
        h = side >> ONE
        J = side_size(layout, sentence, side)
        sibling = np.uint64(layout.sibling_offsets[node + node + side])
        z, a = ZERO, ZERO
        while a <= J:
            c = sets.following(state.chosen, side * W, a)
            entry = state.row[state.row_offsets[side] + a] + c
            if len(layout.sibling) > 0:
                total += layout.sibling[sibling + entry]
            if len(layout.grand_sibling) > 0 and h > ZERO:
                block = np.uint64(layout.grand_sibling_offsets[state.arc[h] * TWO + (side & ONE)])
                total += layout.grand_sibling[block + entry]
            if len(layout.tri_sibling) > 0 and a > ZERO:
                at = tri_sibling_at(np.int64(J), np.int64(z), np.int64(a), np.int64(c))
                total += layout.tri_sibling[layout.tri_sibling_offsets[node + node + side] + at]
            z, a = a, c
    return total


# Bounds on what `join` adds.


@numba.njit(**HELPER)
def bound_joins(layout, state, sentence):
    """Fill bound, from the largest parts that an arc may add and the least that it may undo."""
    n, before, _, _ = sentence
    zero = np.uint64(layout.modifier_offsets[before + ONE])
    for i in range(np.uint64(layout.modifier_offsets[before + n + ONE]) - zero):
        state.bound[i] = 0.0
    for side in range(ONE, TWO * (n + ONE)):  # the root has no left side
        if len(layout.grandparent) > 0 and side > ONE:
            _bound_grandparents(layout, state, sentence, side)
        if len(layout.sibling) > 0:
            _bound_siblings(layout, state, sentence, side, False)
        if len(layout.grand_sibling) > 0 and side > ONE:
            _bound_siblings(layout, state, sentence, side, True)
        if len(layout.tri_sibling) > 0:
            _bound_tri_siblings(layout, state, sentence, side)
    if len(layout.any_sibling) > 0:
        _bound_any_siblings(layout, state, sentence)


@numba.njit(**HELPER)
def _side_arcs(layout, sentence, side):
    """Return the place in `outward` of the arc of rank 0 of a side, and the number of the sentence's first arc."""
    place = np.uint64(layout.side_offsets[sentence.node + sentence.node + side]) - ONE
    return place, np.uint64(layout.modifier_offsets[sentence.before + ONE])


@numba.njit(**HELPER)
def _bound_grandparents(layout, state, sentence, side):
    """Add the largest grandparent of each arc."""
    place, zero = _side_arcs(layout, sentence, side)
    for b in range(ONE, side_size(layout, sentence, side) + ONE):
        k = np.uint64(layout.outward[place + b])
        most = -np.inf
        block, end = layout.grandparent_offsets[k], layout.grandparent_offsets[k + ONE]
        for i in range(np.uint64(block), np.uint64(end)):
            most = max(most, np.float64(layout.grandparent[i]))
        state.bound[k - zero] += most


@numba.njit(**HELPER)
def _bound_siblings(layout, state, sentence, side, with_grandparent):
    """Add the largest part with a nearer sibling and with a farther one, less the least, which may be undone."""
    h = side >> ONE
    J = side_size(layout, sentence, side)
    place, zero = _side_arcs(layout, sentence, side)
    score = layout.grand_sibling if with_grandparent else layout.sibling
    first, last = ZERO, ONE
    if with_grandparent:
        first = np.uint64(layout.modifier_offsets[sentence.before + h])
        last = np.uint64(layout.modifier_offsets[sentence.before + h + ONE])
    inner, outer = state.gain, state.memo
    for b in range(ONE, J + ONE):
        inner[b] = outer[b] = -np.inf
    least = np.inf
    for g in range(first, last):
        block = np.uint64(layout.sibling_offsets[sentence.node + sentence.node + side])
        if with_grandparent:
            block = np.uint64(layout.grand_sibling_offsets[TWO * g + (side & ONE)])
        for a in range(J + ONE):
            for c in range(a + ONE, J + TWO):
                value = np.float64(score[block + state.row[state.row_offsets[side] + a] + c])
                least = min(least, value)
                if a > ZERO:
                    outer[a] = max(outer[a], value)
                if c <= J:
                    inner[c] = max(inner[c], value)
    for b in range(ONE, J + ONE):
        state.bound[np.uint64(layout.outward[place + b]) - zero] += inner[b] + outer[b] - least


@numba.njit(**HELPER)
def _bound_tri_siblings(layout, state, sentence, side):
    """Add the largest part in each of the three places, less what may be undone."""
    J = side_size(layout, sentence, side)
    place, zero = _side_arcs(layout, sentence, side)
    inner, outer = state.gain, state.memo
    for b in range(ONE, J + ONE):
        inner[b] = outer[b] = -np.inf
    least = np.inf
    e = np.uint64(layout.tri_sibling_offsets[sentence.node + sentence.node + side])
    for b in range(ONE, J + ONE):  # in the order of the entries
        most = -np.inf
        for a in range(b):
            for c in range(b + ONE, J + TWO):
                value = np.float64(layout.tri_sibling[e])
                e += ONE
                most = max(most, value)
                least = min(least, value)
                if a > ZERO:
                    outer[a] = max(outer[a], value)
                if c <= J:
                    inner[c] = max(inner[c], value)
        state.bound[np.uint64(layout.outward[place + b]) - zero] += most
    for b in range(ONE, J + ONE):
        more = max(inner[b] - least, 0.0) + max(outer[b] - least, 0.0)
        state.bound[np.uint64(layout.outward[place + b]) - zero] += more


@numba.njit(**HELPER)
def _bound_any_siblings(layout, state, sentence):
    """Add all positive parts of each arc."""
    n, before, node, _ = sentence
    zero = np.uint64(layout.modifier_offsets[before + ONE])
    for h in range(n + ONE):
        first = np.uint64(layout.side_offsets[node + node + h + h])
        last = np.uint64(layout.side_offsets[node + node + h + h + TWO])
        e = np.uint64(layout.any_sibling_offsets[node + h])
        for i in range(first, last):
            for j in range(i + ONE, last):
                more = max(np.float64(layout.any_sibling[e]), 0.0)
                e += ONE
                state.bound[np.uint64(layout.outward[i]) - zero] += more
                state.bound[np.uint64(layout.outward[j]) - zero] += more
