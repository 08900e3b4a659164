"""Improvement of trees by swaps of arcs, the best one each time.

Tchernowitz, Yedidsion and Reichart (2016), "Effective greedy inference for graph-based non-projective dependency
parsing", section 6, where it follows the greedy search; here it takes the trees of any decoder.

Differs from the paper: with a single root, swaps that would change the number of the root's modifiers are left out. A
swap of two arcs is scored as two changes, one after the other, so that parts which hold both count once. What a head
adds to the score is found as in hill-climbing (`hill_climbing.gains`).

Complexity for K candidate heads per word and J candidate modifiers per side: a round takes O(n K J), also with
`grand_sibling`, and O(K J) more for each word with a candidate head below itself. `grand_grandparent` adds O(K) for
each word with three words above it. After a good search the first round is mostly the last, so nothing is kept between
rounds.
"""

import numba
import numpy as np
from numpy.typing import NDArray

from arbora.decoders.hill_climbing.gains import join, weigh
from arbora.decoders.hill_climbing.state import attach, detach, locate, make_state, plant, survey
from arbora.decoders.hill_climbing.wide_gains import add_upper_grand_grandparents, grand_grandparents_gain
from arbora.decoders.kernels import bitsets as sets
from arbora.decoders.kernels.bitsets import ONE, ZERO
from arbora.decoders.kernels.options import HELPER, KERNEL
from arbora.decoders.kernels.threads import over_sentences
from arbora.decoders.parts.batch import Parts
from arbora.decoders.parts.kinds import COMMON
from arbora.decoders.trees import Trees

SWAPPED: frozenset[str] = frozenset((*COMMON, "grand_grandparent"))
"""Kinds of parts that swaps look at."""


def improve_in_place(parts: Parts, heads: NDArray[np.int32], rounds: int, single_root: bool) -> NDArray[np.int64]:
    """Improve trees by swaps of arcs: each round makes the one that raises the score most.

    A word v with head u takes another candidate head u'. If u' is below v, the child w of v above u' takes u as head.
    Each swap leaves a tree. With a single root, swaps of the first kind never touch the root's arc, others may.

    Args:
        parts: arcs and higher-order parts of the batch, of kinds in `SWAPPED`, with finite scores.
        heads: (B, N) as in `Trees.heads`, changed in place; trees of candidate arcs, with one root if `single_root`.
        rounds: maximum number of swaps for each sentence.
        single_root: keep exactly one modifier of the root.

    Returns:
        (B,) number of swaps.
    """
    swaps = np.zeros(len(parts.lengths), dtype=np.int64)
    if rounds > 0:
        # None without such parts: numba then compiles a kernel that does not know of them.
        layout, wide = parts.layout, parts.wide if "grand_grandparent" in parts.kinds else None
        over_sentences(
            lambda sentences: _improve(sentences, layout, wide, rounds, single_root, heads, swaps),
            np.diff(parts.sentence_offsets) * 40.0,
        )
    return swaps


def scored(parts: Parts, heads: NDArray[np.int32], counters: dict[str, NDArray[np.int64]]) -> Trees:
    """Trees with exact scores; certified are those of first order in which each word has its best head."""
    score = parts.score(heads)
    certified = np.zeros(len(score), dtype=np.bool_)
    if not parts.kinds and len(parts.head):
        best = np.maximum.reduceat(parts.arc_score, parts.modifier_offsets[:-1])  # (W,)
        has_best = parts.arc_score[parts.active(heads)["arc"]] == best
        certified = np.logical_and.reduceat(has_best, parts.word_offsets[:-1])
    return Trees(heads, score, bound=None, certified=certified, counters=counters)


@numba.njit(**KERNEL)
def _improve(sentences, layout, wide, rounds, single_root, heads, swaps):
    """Make up to so many swaps in each tree, the best one each time."""
    size, arcs = 1, 1
    for b in sentences:
        size = max(size, layout.lengths[b] + 1)
        arcs = max(arcs, layout.sentence_offsets[b + 1] - layout.sentence_offsets[b])
    state = make_state(size, arcs)
    worth, again, child = np.empty(arcs), np.empty(arcs), np.empty(size, np.uint64)
    for b in sentences:
        sentence = locate(layout, b)
        survey(layout, state, sentence)
        for m in range(ONE, sentence.n + ONE):
            start, end = _arcs_into(layout, sentence, m)
            for k in range(start, end):
                if layout.head[k] == heads[b, m]:
                    state.arc[m] = k
        for _ in range(rounds):
            plant(layout, state, sentence)
            found, move, other = _best_swap(layout, wide, state, sentence, single_root, worth, again, child)
            if not found:
                break
            state.arc[layout.modifier[move]] = move
            state.arc[layout.modifier[other]] = other
            swaps[b] += 1
        for m in range(ONE, sentence.n + ONE):
            heads[b, m] = layout.head[state.arc[m]]


@numba.njit(**HELPER)
def _arcs_into(layout, sentence, m):
    w = sentence.before + m
    return np.uint64(layout.modifier_offsets[w]), np.uint64(layout.modifier_offsets[w + ONE])


@numba.njit(**HELPER)
def _best_swap(layout, wide, state, sentence, single_root, worth, again, child):
    """Find the swap that raises the score most: whether there is one, its arc, and a second one or the same again."""
    first, W = np.uint64(layout.modifier_offsets[sentence.before + ONE]), sentence.W
    score = 0.0
    for m in range(ONE, sentence.n + ONE):
        _weigh(layout, wide, state, sentence, m, worth)
        score += abs(worth[state.arc[m] - first])
    found, best, move, other = False, 1e-10 * score, first, first  # relative to the unit of the scores
    for v in range(ONE, sentence.n + ONE):
        old, u = state.arc[v], state.head[v]
        start, end = _arcs_into(layout, sentence, v)
        for k in range(start, end):
            x = np.uint64(layout.head[k])
            child[k - start] = _child_above(state, v, x) if sets.has(state.below, v * W, x) else ZERO
            if child[k - start] == ZERO and not (single_root and (u == ZERO or x == ZERO)):
                change = worth[k - first] - worth[old - first]
                if change > best:
                    found, best, move, other = True, change, np.uint64(k), np.uint64(k)
        for k in range(start, end):
            w = child[k - start]
            if w == ZERO:
                continue
            # First w goes to the head of v, then v below w: two changes, each of which leaves a tree.
            up = _arc_from(layout, sentence, u, w)
            if up >= 0:
                kept = state.arc[w]
                before = worth[np.uint64(up) - first] - worth[kept - first]
                _hang(layout, state, sentence, w, np.uint64(up), u)
                _weigh(layout, wide, state, sentence, v, again)
                _hang(layout, state, sentence, w, kept, v)
            for i in range(k, end):
                if child[i - start] == w:
                    child[i - start] = ZERO
                    if up >= 0:
                        change = before + again[i - first] - again[old - first]
                        if change > best:
                            found, best, move, other = True, change, np.uint64(i), np.uint64(up)
    return found, move, other


@numba.njit(**HELPER)
def _child_above(state, v, x):
    """The child of v that x, a word below v, is or is below."""
    while state.head[x] != v:
        x = state.head[x]
    return x


@numba.njit(**HELPER)
def _arc_from(layout, sentence, h, m):
    """The arc from h to m, -1 if it is no candidate."""
    found = np.int64(-1)
    start, end = _arcs_into(layout, sentence, m)
    for k in range(start, end):
        if np.uint64(layout.head[k]) == h:
            found = np.int64(k)
    return found


@numba.njit(**HELPER)
def _hang(layout, state, sentence, m, k, h):
    """Give m the head h by arc k; the sets of words below others stay as they are."""
    detach(layout, state, sentence, m, False)
    state.arc[m], state.head[m] = k, h
    state.place[m] = k - np.uint64(layout.modifier_offsets[sentence.before + m])
    attach(layout, state, sentence, m, False)


@numba.njit(**HELPER)
def _weigh(layout, wide, state, sentence, m, worth):
    """Set `worth` to what m brings under each of its heads, all others staying where they are."""
    first = np.uint64(layout.modifier_offsets[sentence.before + ONE])
    start, end = _arcs_into(layout, sentence, m)
    weigh(layout, state, sentence, m)
    if wide is not None:
        add_upper_grand_grandparents(layout, wide, state, sentence, m, end - start)
    for k in range(start, end):
        h = np.uint64(layout.head[k])
        worth[k - first] = state.gain[k - start] + join(layout, state, sentence, m, h, k)
        if wide is not None and h > ZERO:
            worth[k - first] += grand_grandparents_gain(layout, wide, state, sentence, m, h, np.int64(k))
