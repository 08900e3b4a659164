"""The tree of a climb as kernels hold it, and how it changes.

The words below each word and the modifiers of each side are bitsets, so that the test whether a head is legal and the
search for neighbouring siblings take a few instructions. Memory O(n^2 / 64 + n K) per thread.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from arbora.decoders.kernels import bitsets as sets
from arbora.decoders.kernels.bitsets import ONE, TWO, ZERO
from arbora.decoders.kernels.options import ALLOCATING, HELPER
from arbora.decoders.parts.layout import sibling_at


class Sentence(NamedTuple):
    """Offsets of a sentence in the batch."""

    n: np.uint64  # words
    before: np.uint64  # word m is word `before + m` of the batch
    node: np.uint64  # number of its root among the nodes of the batch
    W: np.uint64  # numbers of 64 bits that a set takes


class State(NamedTuple):
    """A tree on its way up, and what is known of its sentence.

    The modifiers on a side are held by their ranks, with START and END among them, so that the neighbours of any rank
    are found in a few instructions.
    """

    arc: NDArray[np.uint64]  # (n+1,) arc into each word
    place: NDArray[np.uint64]  # (n+1,) its place among the candidates of the word
    head: NDArray[np.uint64]  # (n+1,)
    chosen: NDArray[np.uint64]  # (2(n+1) W,) set of ranks for each side
    below: NDArray[np.uint64]  # ((n+1) W,) set of words below each word, itself included
    dirty: NDArray[np.uint64]  # (W,) set of words whose heads are to be looked at
    order: NDArray[np.uint64]  # (n,) words from the top down
    modifier: NDArray[np.uint64]  # (n+1,) last modifier of each word, 0 for none ...
    following: NDArray[np.uint64]  # (n+1,) ... and the one before it
    gain: NDArray[np.float64]  # (n+1,) what each candidate head of a word adds to the score
    candidates: NDArray[np.uint64]  # (2(n+1) W,) set of candidate modifiers of each side
    bound: NDArray[np.float64]  # (A,) `gains.join` of an arc is never more
    row_offsets: NDArray[np.uint64]  # (2(n+1),) where in `row` those of a side start
    row: NDArray[np.uint64]  # (A+2(n+1),) for a side and a rank a, entry of the siblings (a, b) less b
    best_arc: NDArray[np.float64]  # (n+1,) score of the best arc into each word
    memo: NDArray[np.float64]  # (n+1,) what `wide_gains` knows of the words above candidate heads ...
    path: NDArray[np.int64]  # (n+1,) ... number of each word on the last path, -1 if it is not there ...
    crossed: NDArray[np.float64]  # (n+1,) ... what a head at each position adds by arcs around its word ...
    stack: NDArray[np.uint64]  # (n+1,) ... and words on the way to the root


@numba.njit(**ALLOCATING)
def make_state(size, arcs):
    """Room for sentences of up to size - 1 words and the given number of arcs."""
    words = size // 64 + 1
    return State(
        np.empty(size, np.uint64),
        np.empty(size, np.uint64),
        np.empty(size, np.uint64),
        np.empty(2 * size * words, np.uint64),
        np.empty(size * words, np.uint64),
        np.empty(words, np.uint64),
        np.empty(size, np.uint64),
        np.empty(size, np.uint64),
        np.empty(size, np.uint64),
        np.empty(size, np.float64),
        np.empty(2 * size * words, np.uint64),
        np.empty(arcs, np.float64),
        np.empty(2 * size, np.uint64),
        np.empty(arcs + 2 * size, np.uint64),
        np.empty(size, np.float64),
        np.empty(size, np.float64),
        np.empty(size, np.int64),
        np.empty(size, np.float64),
        np.empty(size, np.uint64),
    )


@numba.njit(**HELPER)
def locate(layout, b):
    """Return the offsets of sentence b."""
    n = np.uint64(layout.lengths[b])
    return Sentence(n, np.uint64(layout.word_offsets[b] - 1), np.uint64(layout.word_offsets[b] + b), sets.words(n))


@numba.njit(**HELPER)
def side_of(h, m):
    """Number, within the sentence, of the side of h on which m is."""
    return h + h + np.uint64(m > h)


@numba.njit(**HELPER)
def side_size(layout, sentence, side):
    """J, the number of candidate modifiers on a side."""
    i = sentence.node + sentence.node + side
    return np.uint64(layout.side_offsets[i + ONE] - layout.side_offsets[i])


@numba.njit(**HELPER)
def survey(layout, state, sentence):
    """Fill what depends on the sentence only, not on the tree."""
    n, before, _, W = sentence
    for i in range(TWO * (n + ONE) * W):
        state.candidates[i] = ZERO
    first, end = layout.modifier_offsets[before + ONE], layout.modifier_offsets[before + n + ONE]
    state.best_arc[:] = -np.inf
    for k in range(np.uint64(first), np.uint64(end)):
        m = np.uint64(layout.modifier[k])
        sets.add(state.candidates, side_of(np.uint64(layout.head[k]), m) * W, m)
        state.best_arc[m] = max(state.best_arc[m], np.float64(layout.arc_score[k]))
    start = ZERO
    for side in range(TWO * (n + ONE)):
        J = side_size(layout, sentence, side)
        state.row_offsets[side] = start
        for a in range(J + ONE):  # may wrap below 0; sums with b wrap back
            state.row[start + a] = np.uint64(sibling_at(np.int64(J), np.int64(a), 0))
        start += J + ONE


@numba.njit(**HELPER)
def plant(layout, state, sentence):
    """Set up the tree whose arcs are given."""
    n, before, _, W = sentence
    for i in range((n + ONE) * W):
        state.below[i] = ZERO
        state.chosen[i] = ZERO
        state.chosen[(n + ONE) * W + i] = ZERO
    for side in range(TWO * (n + ONE)):
        sets.add(state.chosen, side * W, ZERO)
        sets.add(state.chosen, side * W, side_size(layout, sentence, side) + ONE)
    for w in range(W):
        state.dirty[w] = ~ZERO
    for m in range(ONE, n + ONE):
        k = state.arc[m]
        state.head[m] = np.uint64(layout.head[k])
        state.place[m] = k - np.uint64(layout.modifier_offsets[before + m])
        attach(layout, state, sentence, m, False)
        sets.add(state.below, m * W, m)
    sort(state, n)
    for i in range(n):
        m = state.order[n - ONE - i]
        for w in range(W):
            state.below[state.head[m] * W + w] |= state.below[m * W + w]


@numba.njit(**HELPER)
def sort(state, n):
    """List the words from the top down, higher modifiers first: backwards it is the post-order, lower ones first."""
    for h in range(n + ONE):
        state.modifier[h] = ZERO
    for m in range(ONE, n + ONE):
        h = state.head[m]
        state.following[m] = state.modifier[h]
        state.modifier[h] = m
    m = state.modifier[0]
    for i in range(n):
        state.order[i] = m
        if state.modifier[m] != ZERO:
            m = state.modifier[m]
        else:
            while m != ZERO and state.following[m] == ZERO:
                m = state.head[m]
            m = state.following[m] if m != ZERO else ZERO


@numba.njit(**HELPER)
def attach(layout, state, sentence, m, with_below):
    """Count m among the modifiers of its head, and on request the words below m among those below the words above."""
    W = sentence.W
    h = state.head[m]
    sets.add(state.chosen, side_of(h, m) * W, np.uint64(layout.rank[state.arc[m]]))
    while with_below and h != ZERO:
        for w in range(W):
            state.below[h * W + w] |= state.below[m * W + w]
        h = state.head[h]


@numba.njit(**HELPER)
def detach(layout, state, sentence, m, with_below):
    """Undo `attach`."""
    W = sentence.W
    h = state.head[m]
    sets.remove(state.chosen, side_of(h, m) * W, np.uint64(layout.rank[state.arc[m]]))
    while with_below and h != ZERO:
        for w in range(W):
            state.below[h * W + w] &= ~state.below[m * W + w]
        h = state.head[h]


@numba.njit(**HELPER)
def move(layout, state, sentence, m, k, with_features):
    """Give m the head of arc k, and list the words whose best heads may be others now: with features all words."""
    before, W = sentence.before, sentence.W
    old, new = state.head[m], np.uint64(layout.head[k])
    detach(layout, state, sentence, m, False)
    state.arc[m], state.head[m] = k, new
    state.place[m] = k - np.uint64(layout.modifier_offsets[before + m])
    attach(layout, state, sentence, m, False)
    a = old
    while a != ZERO and not sets.has(state.below, a * W, new):  # up to where the ways from old and new meet
        for w in range(W):
            state.below[a * W + w] &= ~state.below[m * W + w]
        sets.add(state.dirty, ZERO, a)  # may now take heads below m
        a = state.head[a]
    top = a
    a = new
    while a != top:
        for w in range(W):
            state.below[a * W + w] |= state.below[m * W + w]
        a = state.head[a]
    if with_features:
        for w in range(W):
            state.dirty[w] = ~ZERO
    _mark(state, W, side_of(old, m))
    _mark(state, W, side_of(new, m))
    if len(layout.any_sibling) > 0:
        _mark(state, W, side_of(old, m) ^ ONE)
        _mark(state, W, side_of(new, m) ^ ONE)
    if len(layout.grandparent) > 0 or len(layout.grand_sibling) > 0:
        _mark(state, W, m + m)
        _mark(state, W, m + m + ONE)
        sets.add(state.dirty, ZERO, old)
        sets.add(state.dirty, ZERO, new)
    if len(layout.head_bigram) > 0:
        sets.add(state.dirty, ZERO, m - ONE)
        sets.add(state.dirty, ZERO, m + ONE)


@numba.njit(**HELPER)
def _mark(state, W, side):
    """List the candidate modifiers of a side."""
    for w in range(W):
        state.dirty[w] |= state.candidates[side * W + w]
