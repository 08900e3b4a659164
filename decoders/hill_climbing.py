"""Hill-climbing over trees with parts of any order.

Zhang, Lei, Barzilay and Jaakkola (2014), "Greed is Good if Randomized: New Inference for Dependency Parsing".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from arbora.decoders.layout import HELPER, any_sibling_at, find_arc, sibling_at, tri_sibling_at
from arbora.decoders.mst import MST
from arbora.decoders.parts import Parts
from arbora.decoders.threads import over_sentences
from arbora.decoders.trees import Decoder, Trees

TOLERANCE = 1e-9


@dataclass(frozen=True)
class HillClimbing(Decoder):
    """Best tree that single changes of heads lead to.

    Args:
        start: the tree to start from.
        restarts: number of climbs.
        single_root: allow exactly one modifier of the root.
    """

    start: Literal["best", "first_order_best"] = "best"
    restarts: int = 1
    single_root: bool = True

    def __call__(self, parts: Parts) -> Trees:
        first_order = MST(self.single_root)(parts)
        if not parts.kinds:
            return first_order
        heads = parts.empty_trees()
        layout = parts.layout
        passes, moves = np.zeros((2, len(parts.lengths)), dtype=np.int64)
        over_sentences(
            lambda sentences: _decode(layout, sentences, first_order.heads, self.single_root, heads, passes, moves),
            60.0 * np.diff(parts.sentence_offsets),
        )
        certified = np.zeros(len(heads), dtype=np.bool_)
        return Trees(heads, parts.score(heads), None, certified, {"passes": passes, "moves": moves})


class _State(NamedTuple):
    """A tree on the way up, and scratch. A set is W words of 64 bits."""

    arc: NDArray[np.int64]  # (n+1,) arc into each word
    head: NDArray[np.int64]  # (n+1,)
    chosen: NDArray[np.uint64]  # (2(n+1) W) for each side the ranks of its modifiers, with START and END
    below: NDArray[np.uint64]  # (n+1) W) the words below each word, and itself
    candidates: NDArray[np.uint64]  # (2(n+1) W) the candidate modifiers of each side, as words
    dirty: NDArray[np.uint64]  # (W) words whose heads are to be looked at
    order: NDArray[np.int64]  # (n,) words from the top down
    first: NDArray[np.int64]  # (n+1,) first modifier, 0 for none ...
    following: NDArray[np.int64]  # (n+1,) ... and the next
    gain: NDArray[np.float64]  # (n,) of each candidate head of a word


@intrinsic
def _lowest(typing: Any, word: Any) -> Any:
    """Place of the lowest 1 of a word of 64 bits that is not 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@intrinsic
def _leading(typing: Any, word: Any) -> Any:
    """Number of 0s above the highest 1 of a word of 64 bits that is not 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@numba.njit(**HELPER)
def _bit(i):
    return np.uint64(1) << np.uint64(i & 63)


@numba.njit(**HELPER)
def _has(sets, start, i):
    return (sets[start + (i >> 6)] >> np.uint64(i & 63)) & np.uint64(1) != np.uint64(0)


@numba.njit(**HELPER)
def _inner(sets, start, i):
    """The greatest member below i; there must be one."""
    w = i >> 6
    word = sets[start + w] & (_bit(i) - np.uint64(1))
    while word == np.uint64(0):
        w -= 1
        word = sets[start + w]
    return (w << 6) + 63 - _leading(word)


@numba.njit(**HELPER)
def _outer(sets, start, i):
    """The least member above i; there must be one."""
    w = i >> 6
    word = sets[start + w] & ~((_bit(i) << np.uint64(1)) - np.uint64(1))
    while word == np.uint64(0):
        w += 1
        word = sets[start + w]
    return (w << 6) + _lowest(word)


@numba.njit(cache=True, nogil=True)
def _decode(layout, sentences, starts, single_root, heads, passes, moves):
    size = 1
    for b in sentences:
        size = max(size, layout.lengths[b] + 1)
    words = size // 64 + 1
    state = _State(
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(2 * size * words, np.uint64),
        np.empty(size * words, np.uint64),
        np.empty(2 * size * words, np.uint64),
        np.empty(words, np.uint64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.float64),
    )
    for b in sentences:
        n = np.int64(layout.lengths[b])
        before = layout.word_offsets[b] - 1
        node = layout.word_offsets[b] + b
        _list_candidates(layout, state, n, before)
        for m in range(1, n + 1):
            w = before + m
            state.arc[m] = find_arc(
                layout.modifier_offsets[w], layout.modifier_offsets[w + 1], layout.head, starts[b, m], m, n
            )
        _plant(layout, state, n, node)
        passes[b], moves[b] = _climb(layout, state, n, before, node, single_root)
        for m in range(1, n + 1):
            heads[b, m] = state.head[m]


@numba.njit(**HELPER)
def _list_candidates(layout, state, n, before):
    W = (n + 1) // 64 + 1
    for i in range(2 * (n + 1) * W):
        state.candidates[i] = np.uint64(0)
    for m in range(1, n + 1):
        for k in range(layout.modifier_offsets[before + m], layout.modifier_offsets[before + m + 1]):
            h = np.int64(layout.head[k])
            state.candidates[(2 * h + (m > h)) * W + (m >> 6)] |= _bit(m)


@numba.njit(**HELPER)
def _plant(layout, state, n, node):
    """Set up the sets of a tree of which the arcs are given."""
    W = (n + 1) // 64 + 1
    for i in range(2 * (n + 1) * W):
        state.chosen[i] = np.uint64(0)
    for i in range((n + 1) * W):
        state.below[i] = np.uint64(0)
    for side in range(2 * (n + 1)):
        J = layout.side_offsets[2 * node + side + 1] - layout.side_offsets[2 * node + side]
        state.chosen[side * W] |= np.uint64(1)
        state.chosen[side * W + ((J + 1) >> 6)] |= _bit(J + 1)
    for w in range(W):
        state.dirty[w] = ~np.uint64(0)
    for m in range(1, n + 1):
        k = state.arc[m]
        h = np.int64(layout.head[k])
        state.head[m] = h
        rank = np.int64(layout.rank[k])
        state.chosen[(2 * h + (m > h)) * W + (rank >> 6)] |= _bit(rank)
        state.below[m * W + (m >> 6)] |= _bit(m)
    _sort(state, n)
    for i in range(n - 1, -1, -1):
        m = state.order[i]
        h = state.head[m]
        for w in range(W):
            state.below[h * W + w] |= state.below[m * W + w]


@numba.njit(**HELPER)
def _sort(state, n):
    """List words from the top down; backwards it is the post-order in which modifiers ascend."""
    for h in range(n + 1):
        state.first[h] = 0
    for m in range(1, n + 1):  # the last is the first in the list
        h = state.head[m]
        state.following[m] = state.first[h]
        state.first[h] = m
    # `following` of the last modifier leads nowhere: go up until a word has one
    m = state.first[0]
    for i in range(n):
        state.order[i] = m
        if state.first[m] != 0:
            m = state.first[m]
        else:
            while m != 0 and state.following[m] == 0:
                m = state.head[m]
            if m != 0:
                m = state.following[m]


@numba.njit(**HELPER)
def _climb(layout, state, n, before, node, single_root):
    W = (n + 1) // 64 + 1
    passes = 0
    moves = 0
    score = -np.inf
    moved = True
    while True:
        while moved:
            moved = False
            passes += 1
            if passes % 16 == 0:  # where sums lose digits, a climb could go in circles
                now = _score(layout, state, n, before, node)
                if now <= score:
                    return passes, moves
                score = now
            for i in range(n - 1, -1, -1):
                m = state.order[i]
                if not _has(state.dirty, 0, m):
                    continue
                state.dirty[m >> 6] &= ~_bit(m)
                if single_root and state.head[m] == 0:
                    continue
                start = layout.modifier_offsets[before + m]
                K = layout.modifier_offsets[before + m + 1] - start
                _detach(layout, state, W, m)
                _weigh(layout, state, n, before, node, m)
                best = np.int64(single_root and layout.head[start] == 0)
                for i in range(best + 1, K):
                    if state.gain[i] > state.gain[best]:
                        best = i
                _attach(layout, state, W, m)
                now = state.gain[state.arc[m] - start]
                if state.gain[best] - now > TOLERANCE * (1 + abs(now)):
                    _move(layout, state, n, W, m, start + best, True)
                    moved = True
                    moves += 1
            if moved:
                _sort(state, n)
        if not single_root or not _move_root(layout, state, n, before, node):
            return passes, moves
        moves += 2
        moved = True
        _sort(state, n)


@numba.njit(**HELPER)
def _detach(layout, state, W, m):
    h = state.head[m]
    rank = np.int64(layout.rank[state.arc[m]])
    state.chosen[(2 * h + (m > h)) * W + (rank >> 6)] &= ~_bit(rank)


@numba.njit(**HELPER)
def _attach(layout, state, W, m):
    h = state.head[m]
    rank = np.int64(layout.rank[state.arc[m]])
    state.chosen[(2 * h + (m > h)) * W + (rank >> 6)] |= _bit(rank)


@numba.njit(**HELPER)
def _move(layout, state, n, W, m, k, mark):
    """Give m the head of arc k. With `mark`, list the words whose choice of a head may change."""
    old, new = state.head[m], np.int64(layout.head[k])
    _detach(layout, state, W, m)
    state.arc[m], state.head[m] = k, new
    _attach(layout, state, W, m)
    a = old
    while a != 0 and not _has(state.below, a * W, new):
        for w in range(W):
            state.below[a * W + w] &= ~state.below[m * W + w]
        if mark:
            state.dirty[a >> 6] |= _bit(a)  # words below m may now be its head
        a = state.head[a]
    top = a
    a = new
    while a != top:
        for w in range(W):
            state.below[a * W + w] |= state.below[m * W + w]
        a = state.head[a]
    if mark:
        state.dirty[old >> 6] |= _bit(old)
        state.dirty[new >> 6] |= _bit(new)
        for w in range(W):
            state.dirty[w] |= (
                state.candidates[2 * m * W + w]
                | state.candidates[(2 * m + 1) * W + w]
                | state.candidates[2 * old * W + w]
                | state.candidates[(2 * old + 1) * W + w]
                | state.candidates[2 * new * W + w]
                | state.candidates[(2 * new + 1) * W + w]
            )
        if m > 1:
            state.dirty[(m - 1) >> 6] |= _bit(m - 1)
        state.dirty[(m + 1) >> 6] |= _bit(m + 1)
        state.dirty[m >> 6] &= ~_bit(m)


@numba.njit(**HELPER)
def _move_root(layout, state, n, before, node):
    """Make another word w the only modifier of the root, and the old one a modifier of a word below w, if that pays."""
    W = (n + 1) // 64 + 1
    r = state.first[0]
    root_arc = state.arc[r]
    start = layout.modifier_offsets[before + r]
    end = layout.modifier_offsets[before + r + 1]
    largest = TOLERANCE
    new_root = 0
    new_arc = root_arc
    for w in range(1, n + 1):
        zero = layout.modifier_offsets[before + w]
        if w == r or layout.head[zero] != 0:
            continue
        possible = False
        for k in range(start + 1, end):
            possible |= _has(state.below, w * W, np.int64(layout.head[k]))
        if not possible:
            continue
        old = state.arc[w]
        total = 0.0
        scale = 1.0
        best = start
        for step in range(2):
            m = r if step else w
            _detach(layout, state, W, m)
            _weigh(layout, state, n, before, node, m)
            _attach(layout, state, W, m)
            if step:
                best = start + 1
                for k in range(start + 2, end):
                    if state.gain[k - start] > state.gain[best - start]:
                        best = k
                total += state.gain[best - start] - state.gain[0]
                scale += abs(state.gain[0])
            else:
                total = state.gain[0] - state.gain[old - zero]
                scale += abs(state.gain[0])
                _move(layout, state, n, W, w, zero, False)
        _move(layout, state, n, W, w, old, False)
        if total > TOLERANCE * scale and total > largest:
            largest = total
            new_root, new_arc = w, best
    if new_root == 0:
        return False
    _move(layout, state, n, W, new_root, layout.modifier_offsets[before + new_root], True)
    _move(layout, state, n, W, r, new_arc, True)
    state.dirty[r >> 6] |= _bit(r)
    return True


@numba.njit(**HELPER)
def _weigh(layout, state, n, before, node, m):
    """What each candidate head of m adds to the score, -inf for heads below m. m must be detached."""
    W = (n + 1) // 64 + 1
    word = before + m
    start = layout.modifier_offsets[word]
    K = layout.modifier_offsets[word + 1] - start
    gain = state.gain
    for i in range(K):
        gain[i] = layout.arc_score[start + i]
    if len(layout.grandparent) > 0 or len(layout.grand_sibling) > 0:  # m as the head of its own modifiers
        for right in range(2):
            side = 2 * (node + m) + right
            first = layout.side_offsets[side]
            J = layout.side_offsets[side + 1] - first
            a = 0
            while a <= J:
                c = _outer(state.chosen, (2 * m + right) * W, a)
                if len(layout.grand_sibling) > 0:
                    entry = sibling_at(J, a, c)
                    for i in range(K):
                        gain[i] += layout.grand_sibling[layout.grand_sibling_offsets[2 * (start + i) + right] + entry]
                if len(layout.grandparent) > 0 and c <= J:
                    block = layout.grandparent_offsets[layout.outward[first + c - 1]]
                    for i in range(K):
                        gain[i] += layout.grandparent[block + i]
                a = c
    if len(layout.head_bigram) > 0:
        if m > 1:
            block = layout.head_bigram_offsets[word] + (state.arc[m - 1] - layout.modifier_offsets[word - 1]) * K
            for i in range(K):
                gain[i] += layout.head_bigram[block + i]
        if m < n:
            stride = layout.modifier_offsets[word + 2] - layout.modifier_offsets[word + 1]
            block = layout.head_bigram_offsets[word + 1] + state.arc[m + 1] - layout.modifier_offsets[word + 1]
            for i in range(K):
                gain[i] += layout.head_bigram[block + i * stride]
    for i in range(K):
        k = start + i
        h = np.int64(layout.head[k])
        if _has(state.below, m * W, h):
            gain[i] = -np.inf
            continue
        right = np.int64(m > h)
        side = 2 * (node + h) + right
        chosen = (2 * h + right) * W
        J = layout.side_offsets[side + 1] - layout.side_offsets[side]
        b = np.int64(layout.rank[k])
        a = _inner(state.chosen, chosen, b)
        c = _outer(state.chosen, chosen, b)
        total = 0.0
        if len(layout.grandparent) > 0 and h > 0:
            place = state.arc[h] - layout.modifier_offsets[before + h]
            total += layout.grandparent[layout.grandparent_offsets[k] + place]
        if len(layout.sibling) > 0:
            block = layout.sibling_offsets[side]
            total += np.float64(layout.sibling[block + sibling_at(J, a, b)])
            total += np.float64(layout.sibling[block + sibling_at(J, b, c)])
            total -= np.float64(layout.sibling[block + sibling_at(J, a, c)])
        if len(layout.grand_sibling) > 0 and h > 0:
            block = layout.grand_sibling_offsets[2 * state.arc[h] + right]
            total += np.float64(layout.grand_sibling[block + sibling_at(J, a, b)])
            total += np.float64(layout.grand_sibling[block + sibling_at(J, b, c)])
            total -= np.float64(layout.grand_sibling[block + sibling_at(J, a, c)])
        if len(layout.tri_sibling) > 0:
            block = layout.tri_sibling_offsets[side]
            total += np.float64(layout.tri_sibling[block + tri_sibling_at(J, a, b, c)])
            if a > 0:
                z = _inner(state.chosen, chosen, a)
                total += np.float64(layout.tri_sibling[block + tri_sibling_at(J, z, a, b)])
                total -= np.float64(layout.tri_sibling[block + tri_sibling_at(J, z, a, c)])
            if c <= J:
                d = _outer(state.chosen, chosen, c)
                total += np.float64(layout.tri_sibling[block + tri_sibling_at(J, b, c, d)])
                total -= np.float64(layout.tri_sibling[block + tri_sibling_at(J, a, c, d)])
        if len(layout.any_sibling) > 0:
            block = layout.any_sibling_offsets[node + h]
            middle = layout.side_offsets[2 * (node + h) + 1] - layout.side_offsets[2 * (node + h)]
            both = layout.side_offsets[2 * (node + h) + 2] - layout.side_offsets[2 * (node + h)]
            place = b - 1 + right * middle
            for other in range(2):
                most = both - middle if other else middle
                s = _outer(state.chosen, (2 * h + other) * W, 0)
                while s <= most:
                    at = s - 1 + other * middle
                    total += layout.any_sibling[block + any_sibling_at(both, min(place, at), max(place, at))]
                    s = _outer(state.chosen, (2 * h + other) * W, s)
        gain[i] += total


@numba.njit(**HELPER)
def _score(layout, state, n, before, node):
    """Score of the tree."""
    W = (n + 1) // 64 + 1
    total = 0.0
    for m in range(1, n + 1):
        k = state.arc[m]
        h = state.head[m]
        total += layout.arc_score[k]
        if len(layout.grandparent) > 0 and h > 0:
            total += layout.grandparent[
                layout.grandparent_offsets[k] + state.arc[h] - layout.modifier_offsets[before + h]
            ]
        if len(layout.head_bigram) > 0 and m > 1:
            word = before + m
            K = layout.modifier_offsets[word + 1] - layout.modifier_offsets[word]
            i = state.arc[m - 1] - layout.modifier_offsets[word - 1]
            total += layout.head_bigram[layout.head_bigram_offsets[word] + i * K + k - layout.modifier_offsets[word]]
    for side in range(1, 2 * (n + 1)):  # the root has no left side
        h, right = side >> 1, side & 1
        J = layout.side_offsets[2 * node + side + 1] - layout.side_offsets[2 * node + side]
        z, a = 0, 0
        while a <= J:
            c = _outer(state.chosen, side * W, a)
            if len(layout.sibling) > 0:
                total += layout.sibling[layout.sibling_offsets[2 * node + side] + sibling_at(J, a, c)]
            if len(layout.grand_sibling) > 0 and h > 0:
                total += layout.grand_sibling[
                    layout.grand_sibling_offsets[2 * state.arc[h] + right] + sibling_at(J, a, c)
                ]
            if len(layout.tri_sibling) > 0 and a > 0:
                total += layout.tri_sibling[layout.tri_sibling_offsets[2 * node + side] + tri_sibling_at(J, z, a, c)]
            z, a = a, c
    if len(layout.any_sibling) > 0:
        for h in range(n + 1):
            block = layout.any_sibling_offsets[node + h]
            middle = layout.side_offsets[2 * (node + h) + 1] - layout.side_offsets[2 * (node + h)]
            both = layout.side_offsets[2 * (node + h) + 2] - layout.side_offsets[2 * (node + h)]
            m = state.first[h]
            while m != 0:
                i = layout.rank[state.arc[m]] - 1 + (middle if m > h else 0)
                s = state.following[m]
                while s != 0:
                    j = layout.rank[state.arc[s]] - 1 + (middle if s > h else 0)
                    total += layout.any_sibling[block + any_sibling_at(both, min(i, j), max(i, j))]
                    s = state.following[s]
                m = state.following[m]
    return total
