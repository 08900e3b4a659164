"""The search: restarts, climbs, and changes of heads.

Zhang et al. (2014), figure 1. Until a pass changes nothing, go through the words from the bottom up, and set the head
of each word m to

    y(m) = argmax over candidate heads h of m that are not below m of S(y with h as the head of m)

A pass looks only at words for which something may have changed since they were last looked at.
"""

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from arbora.decoders.hill_climbing.gains import bound_joins, join, score, weigh
from arbora.decoders.hill_climbing.random_trees import (
    BEST,
    draw,
    make_walks,
    mix,
    prepare_walks,
    sentence_key,
    take_tree,
)
from arbora.decoders.hill_climbing.state import (
    attach,
    detach,
    locate,
    make_state,
    move,
    plant,
    sort,
    survey,
)
from arbora.decoders.hill_climbing.wide_gains import weigh_wide, wide_score
from arbora.decoders.kernels import bitsets as sets
from arbora.decoders.kernels.bitsets import ONE, ZERO
from arbora.decoders.kernels.options import HELPER, KERNEL

TOLERANCE = 1e-9
"""A change must raise the score by more than this, relative to the sizes of the sums compared: less may be rounding.
Sums do not change when a constant is added to all arcs of a word, and scale with the scores, so neither decides."""

COUNTERS = ("restarts", "passes", "moves")
FOUND, RESTARTS, PASSES, MOVES = 0, 1, 2, 3
"""Columns of `Results.counts`: the restart that found the tree, and the counters."""


class Work(NamedTuple):
    """Pieces of work: restarts firsts[t]..lasts[t] - 1 of sentence sentences[t]."""

    sentences: NDArray[np.int64]  # (T,)
    firsts: NDArray[np.int64]  # (T,)
    lasts: NDArray[np.int64]  # (T,)
    patience: int  # restarts without a better tree after which a piece ends


class Results(NamedTuple):
    """The best tree of each piece of work."""

    heads: NDArray[np.int32]  # (T, N)
    score: NDArray[np.float64]  # (T,)
    counts: NDArray[np.int64]  # (T, 4)


@numba.njit(**KERNEL)
def search(layout, wide, best_trees, starts, work, pieces, results):
    """Run the restarts of each piece, from the first to the last or until the best tree has stood for `patience`."""
    size, arcs = 1, 1
    for piece in pieces:
        b = work.sentences[piece]
        size = max(size, layout.lengths[b] + 1)
        arcs = max(arcs, layout.sentence_offsets[b + 1] - layout.sentence_offsets[b])
    state = make_state(size, arcs)
    walks = make_walks(size, arcs, starts.single_root and starts.law != BEST)
    for piece in pieces:
        b = work.sentences[piece]
        sentence = locate(layout, b)
        survey(layout, state, sentence)
        if starts.law == BEST or wide is not None:  # one climb would not repay the bounds, and `Wide` has none
            state.bound[:] = np.inf
        else:
            bound_joins(layout, state, sentence)
        key = sentence_key(layout, state.best_arc, b, starts.seed)
        if starts.law != BEST:
            prepare_walks(layout, walks, b, starts, best_trees)
        best = -np.inf
        heads, counts = results.heads[piece], results.counts[piece]
        found = j = work.firsts[piece]
        while j < work.lasts[piece] and j <= found + work.patience:
            if starts.best_first and (j == 0 or starts.law == BEST):
                take_tree(layout, b, best_trees, state.arc)
            else:
                draw(layout, walks, b, mix(key + np.uint64(j)), starts.single_root, best_trees, state.arc)
            plant(layout, state, sentence)
            passes, moves, again = _climb(layout, wide, state, sentence, starts.single_root, best, heads)
            counts[PASSES] += passes
            counts[MOVES] += moves
            if not again:
                value = _tree_score(layout, wide, state, sentence)
                if value > best:
                    best = value
                    found = j
                    for m in range(ONE, sentence.n + ONE):
                        heads[m] = state.head[m]
            j += 1
        results.score[piece] = best
        counts[FOUND] = found
        counts[RESTARTS] = j - work.firsts[piece]


@numba.njit(**HELPER)
def _tree_score(layout, wide, state, sentence):
    total = score(layout, state, sentence)
    if wide is not None:
        total += wide_score(layout, wide, state, sentence)
    return total


@numba.njit(**HELPER)
def _climb(layout, wide, state, sentence, single_root, best, best_heads):
    """Change heads until no change helps. Returns passes, moves, and whether it came to the best tree known before."""
    n = sentence.n
    passes = 0
    moves = 0
    reached = -np.inf
    moved = True
    while True:
        while moved:
            moved = False
            passes += 1
            if passes % 16 == 0:  # where sums lose too many digits, heads could change in circles
                value = _tree_score(layout, wide, state, sentence)
                if value <= reached:
                    return passes, moves, False
                reached = value
            for i in range(n):
                m = state.order[n - ONE - i]
                if not sets.has(state.dirty, ZERO, m):
                    continue
                sets.remove(state.dirty, ZERO, m)
                if single_root and state.head[m] == ZERO:
                    continue
                k, gain, scale = _find_head(layout, wide, state, sentence, m, single_root)
                if gain > TOLERANCE * scale:
                    move(layout, state, sentence, m, k, wide is not None)
                    sets.remove(state.dirty, ZERO, m)  # nothing has changed for itself
                    moved = True
                    moves += 1
            if moved:
                sort(state, n)
        again = best > -np.inf
        for m in range(ONE, n + ONE):
            again &= state.head[m] == np.uint64(best_heads[m])
        if again or not single_root or not _move_root(layout, wide, state, sentence):
            return passes, moves, again
        moves += 2
        moved = True
        sort(state, n)


@numba.njit(**HELPER)
def _find_head(layout, wide, state, sentence, m, single_root):
    """Find the best head of m, the first of equal ones, the present one before all.

    Returns its arc, how much more it adds than the present head, and the size of what is compared.
    """
    gain = state.gain
    start = np.uint64(layout.modifier_offsets[sentence.before + m])
    K = np.uint64(layout.modifier_offsets[sentence.before + m + ONE]) - start
    zero = np.uint64(layout.modifier_offsets[sentence.before + ONE])
    weigh(layout, state, sentence, m)
    if wide is not None:
        weigh_wide(layout, wide, state, sentence, m, False)
    choice = state.place[m]
    largest = now = -np.inf
    for step in range(K + ONE):  # the present head first: most others need only their bound then
        i = step - ONE if step > ZERO else state.place[m]
        h = np.uint64(layout.head[start + i])
        if gain[i] + state.bound[start - zero + i] <= largest:
            continue
        if sets.has(state.below, m * sentence.W, h) or (single_root and h == ZERO):
            continue
        value = gain[i] + join(layout, state, sentence, m, h, start + i)
        if value > largest:
            largest = value
            choice = i
        if step == ZERO:
            now = value
    return start + choice, largest - now, abs(now) + abs(largest)


@numba.njit(**HELPER)
def _move_root(layout, wide, state, sentence):
    """Hang another word w from the root, and the old root word r from a word below w, if that raises the score.

    All such pairs are tried, and the best is taken. Returns whether there was one.
    """
    largest = 0.0
    new_root, new_arc = ZERO, ZERO
    for w in range(ONE, sentence.n + ONE):
        change, scale, choice = weigh_root(layout, wide, state, sentence, w)
        if change > TOLERANCE * scale and change > largest:
            largest = change
            new_root, new_arc = w, choice
    if new_root == ZERO:
        return False
    r = state.modifier[0]
    for m in (new_root, r):
        chosen = new_arc if m == r else np.uint64(layout.modifier_offsets[sentence.before + m])
        move(layout, state, sentence, m, chosen, wide is not None)
    sets.add(state.dirty, ZERO, r)
    return True


@numba.njit(**HELPER)
def weigh_root(layout, wide, state, sentence, w):
    """Try to hang w from the root, and the root word from the best word below w.

    Returns the change, the size of what was added up, and the arc to the old root word; -inf if there is none.
    """
    before, W = sentence.before, sentence.W
    gain = state.gain
    r = state.modifier[0]
    zero = np.uint64(layout.modifier_offsets[before + ONE])
    start = np.uint64(layout.modifier_offsets[before + r])
    end = np.uint64(layout.modifier_offsets[before + r + ONE])
    root_arc = np.uint64(layout.modifier_offsets[before + w])
    change, scale, choice = -np.inf, 0.0, start
    reached = False
    if w != r and layout.head[root_arc] == 0:
        for k in range(start + ONE, end):
            reached |= sets.has(state.below, w * W, np.uint64(layout.head[k]))
    if reached:
        # First w moves from its head to the root, next to r, then r from the root to x.
        arc, place, h = state.arc[w], state.place[w], state.head[w]
        weigh(layout, state, sentence, w)
        if wide is not None:
            weigh_wide(layout, wide, state, sentence, w, True)
        change = 0.0
        for i in (place, ZERO):
            head = h if i == place else ZERO
            value = gain[i] + join(layout, state, sentence, w, head, root_arc + i)
            change = value - change
            scale += abs(value)
        detach(layout, state, sentence, w, wide is not None)
        state.arc[w], state.place[w], state.head[w] = root_arc, ZERO, ZERO
        attach(layout, state, sentence, w, wide is not None)
        weigh(layout, state, sentence, r)
        if wide is not None:
            weigh_wide(layout, wide, state, sentence, r, False)
        best = -np.inf
        for k in range(start, end):
            x = np.uint64(layout.head[k])
            if k > start and (gain[k - start] + state.bound[k - zero] <= best or not sets.has(state.below, w * W, x)):
                continue
            value = gain[k - start] + join(layout, state, sentence, r, x, k)
            if k == start:
                change -= value
                scale += abs(value)
            elif value > best:
                best = value
                choice = np.uint64(k)
        change += best
        scale += abs(best)
        detach(layout, state, sentence, w, wide is not None)
        state.arc[w], state.place[w], state.head[w] = arc, place, h
        attach(layout, state, sentence, w, wide is not None)
    return change, scale, choice
