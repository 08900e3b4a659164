"""Beam search over forests: in each step the arc of least value is added, until the forest is a tree.

Forests of the beam are extended side by side. Each proposes its best arcs, and of all proposals as many as the beam has
places are carried out. A forest with several children is copied, the first child stays in its place.
"""

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from arbora.decoders.greedy.chains import fill_chains
from arbora.decoders.greedy.changes import change
from arbora.decoders.greedy.sides import sum_sides
from arbora.decoders.greedy.state import (
    ARC_HEAD,
    ARC_MODIFIER,
    ARC_OUTWARD,
    FOREST_TREE,
    FOREST_WITNESS,
    FREE,
    SUM_VALUE,
    copy,
    fill_sums,
    read,
)
from arbora.decoders.greedy.values import evaluate
from arbora.decoders.greedy.witness import completes, fits
from arbora.decoders.kernels.options import FILLING, HELPER

COUNTERS = ("steps", "repairs", "deleted", "duplicates")
COUNTER_STEPS, COUNTER_REPAIRS, COUNTER_DELETED, COUNTER_DUPLICATES = range(4)  # rows of `Found.counters`
CHILD_STATE, CHILD_ARC, CHILD_REPAIRED = range(3)  # rows of `Pool.child`


class Found(NamedTuple):
    """Room for what the search finds."""

    heads: NDArray[np.int32]  # (beam, B, N)
    value: NDArray[np.float64]  # (beam, B)
    counters: NDArray[np.int64]  # (4, B)
    no_tree: NDArray[np.bool_]  # (B,) sentences without a tree


class Pool(NamedTuple):
    """States of the beam, and their possible children."""

    value: NDArray[np.float64]  # (beam,) of each state
    code: NDArray[np.uint64]  # (beam,) exclusive or of the random codes of its arcs
    arc: NDArray[np.int32]  # (beam,) arc that is to be added to it, -1 if there is none
    best: NDArray[np.int32]  # (beam,) best arcs of one state; later, the child in each place
    best_value: NDArray[np.float64]
    child: NDArray[np.int32]  # (3, beam beam) STATE: parent, -1 when dealt with; ARC; REPAIRED: has another witness
    child_value: NDArray[np.float64]
    child_code: NDArray[np.uint64]
    child_witness: NDArray[np.int32]  # (beam beam, N)
    chosen: NDArray[np.int32]  # (beam,) children that go on
    parent: NDArray[np.int32]  # (beam,) their parents


def allocate_pool(beam: int, N: int) -> Pool:
    """Make room for the children of `beam` states with N positions."""
    return Pool(
        np.empty(beam),
        np.empty(beam, np.uint64),
        np.empty(beam, np.int32),
        np.empty(beam, np.int32),
        np.empty(beam),
        np.empty((3, beam * beam), np.int32),
        np.empty(beam * beam),
        np.empty(beam * beam, np.uint64),
        np.empty((beam * beam, N), np.int32),
        np.empty(beam, np.int32),
        np.empty(beam, np.int32),
    )


@numba.njit(**FILLING)
def search(sentences, layout, chains, settings, sentence, forest, scratch, pool, found):
    """Search the trees of some sentences, best value first."""
    single_root, beam = settings.single_root, settings.beam
    no_arc, empty = np.int64(-1), np.int64(0)  # a constant in a call would be compiled separately
    for b in sentences:
        n = np.int64(layout.lengths[b])
        read(layout, b, settings, sentence, forest)
        witness = forest.words[0, FOREST_WITNESS]
        if not completes(n, no_arc, single_root, sentence, forest, scratch, empty, witness):
            found.no_tree[b] = True
            continue
        fill_sums(layout, b, sentence, forest, scratch)
        if chains is not None:
            fill_chains(chains, layout.sentence_offsets[b], sentence, forest)
        pool.value[0], pool.code[0], pool.arc[0] = 0.0, np.uint64(0), -1
        live = 1
        for _ in range(n):
            children = 0
            for s in range(live):
                e, adding = np.int64(pool.arc[s]), True
                while True:
                    if e >= 0:
                        change(layout, chains, b, adding, e, single_root, sentence, forest, scratch, s)
                    shared = _revalue(layout, chains, b, settings, sentence, forest, scratch, s)
                    count = _best_arcs(n, settings, shared, sentence, forest, pool, s)
                    found.counters[COUNTER_STEPS, b] += 1
                    counters = found.counters[:, b]
                    e = _propose(n, single_root, count, children, sentence, forest, scratch, pool, s, counters)
                    if e < 0:
                        break
                    adding = False  # no tree would be left after e: delete it
                    counters[COUNTER_DELETED] += 1
                children += count
            live, duplicates = _choose(n, beam, children, sentence, forest, pool)
            found.counters[COUNTER_DUPLICATES, b] += duplicates
            _arrange(layout, b, beam, live, sentence, forest, pool)
        _write(n, b, live, sentence, forest, pool, found)


@numba.njit(**FILLING)
def value_forests(sentences, layout, chains, settings, sentence, forest, scratch, heads, values):
    """Value all arcs that can be added to given forests, adding and valuing one arc after the other as in a search."""
    arcs, start = sentence.arcs, sentence.start
    first_state, adding = np.int64(0), np.bool_(True)  # a constant in a call would be compiled separately
    for b in sentences:
        n = np.int64(layout.lengths[b])
        read(layout, b, settings, sentence, forest)
        fill_sums(layout, b, sentence, forest, scratch)
        if chains is not None:
            fill_chains(chains, layout.sentence_offsets[b], sentence, forest)
        shared = _revalue(layout, chains, b, settings, sentence, forest, scratch, first_state)
        for m in range(1, n + 1):
            if heads[b, m] >= 0:
                added = np.int64(sentence.arc[heads[b, m], m])
                change(layout, chains, b, adding, added, settings.single_root, sentence, forest, scratch, first_state)
                shared = _revalue(layout, chains, b, settings, sentence, forest, scratch, first_state)
        for m in range(1, n + 1):
            if heads[b, m] < 0:
                for e in range(start[m], start[m + 1]):
                    more = shared if settings.single_root and arcs[ARC_HEAD, e] == 0 else 0.0
                    values[layout.sentence_offsets[b] + e] = forest.sums[0, SUM_VALUE, e] + more


@numba.njit(**HELPER)
def _revalue(layout, chains, b, settings, sentence, forest, scratch, s):
    """Bring the values of state s up to date; what is to be added to the values of a single root's arcs."""
    if len(layout.sibling) > 0 or len(layout.tri_sibling) > 0 or len(layout.grand_sibling) > 0:
        sum_sides(layout, b, settings.single_root, sentence, forest, scratch, s)
    return evaluate(layout, chains, b, settings, sentence, forest, scratch, s)


@numba.njit(**HELPER)
def _best_arcs(n, settings, shared, sentence, forest, pool, s):
    """Find the best arcs of state s, the lowest number first among equals; how many there are, `beam` at most."""
    single_root, beam = settings.single_root, settings.beam
    start, arcs, state, least = sentence.start, sentence.arcs, forest.state, forest.least
    value = forest.sums[sentence.weight.shape[1] * s, SUM_VALUE]
    best, best_value = pool.best, pool.best_value
    count = 0
    for m in range(n + 1):
        if m == 0:  # arcs of a single root, of which the least value of a word does not know
            first, end = (sentence.side[1], sentence.side[2]) if single_root else (0, 0)
        elif least[s, m] == np.inf or (count == beam and least[s, m] > best_value[beam - 1]):
            continue
        else:
            first, end = start[m], start[m + 1]
        for place in range(first, end):
            e = arcs[ARC_OUTWARD, place] if m == 0 else place
            if state[s, e] != FREE or (m > 0 and single_root and arcs[ARC_HEAD, e] == 0):
                continue
            v = value[e] + (shared if m == 0 else 0.0)
            i = count
            while i > 0 and (v < best_value[i - 1] or (v == best_value[i - 1] and e < best[i - 1])):
                if i < beam:
                    best[i], best_value[i] = best[i - 1], best_value[i - 1]
                i -= 1
            if i < beam:
                best[i], best_value[i] = e, v
                count = min(count + 1, beam)
    return count


@numba.njit(**HELPER)
def _propose(n, single_root, count, children, sentence, forest, scratch, pool, s, counters):
    """Make children of state s out of its best arcs; an arc after which no tree is left, or -1 if there is none."""
    arcs, witness = sentence.arcs, forest.words[s, FOREST_WITNESS]
    dead_end = np.int64(-1)
    for i in range(count):
        e, child = np.int64(pool.best[i]), children + i
        counters[COUNTER_REPAIRS] += witness[arcs[ARC_MODIFIER, e]] != e
        repaired = not fits(single_root, arcs, witness, e)
        if repaired and not completes(n, e, single_root, sentence, forest, scratch, s, pool.child_witness[child]):
            dead_end = e
            break
        pool.child[CHILD_STATE, child] = s
        pool.child[CHILD_ARC, child] = e
        pool.child[CHILD_REPAIRED, child] = repaired
        pool.child_value[child] = pool.value[s] + pool.best_value[i]
        pool.child_code[child] = pool.code[s] ^ _random_code(e)
    return dead_end


@numba.njit(**HELPER)
def _random_code(k):
    """Random bits for arc k (splitmix64)."""
    z = np.uint64(k + 1) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@numba.njit(**HELPER)
def _choose(n, beam, children, sentence, forest, pool):
    """Choose the best children, one for each set of arcs; how many, and how many duplicates were passed over."""
    live = duplicates = 0
    while live < beam:
        first = -1
        for i in range(children):
            better = first < 0 or pool.child_value[i] < pool.child_value[first]
            if pool.child[CHILD_STATE, i] >= 0 and better:
                first = i
        if first < 0:
            break
        same = False
        for j in range(live):
            if pool.child_code[pool.chosen[j]] == pool.child_code[first]:  # most likely the same, but look
                same |= _same_arcs(n, pool.chosen[j], pool.parent[j], first, sentence, forest, pool)
        if same:
            duplicates += 1
        else:
            pool.chosen[live] = first
            pool.parent[live] = pool.child[CHILD_STATE, first]
            live += 1
        pool.child[CHILD_STATE, first] = -1
    return live, duplicates


@numba.njit(**HELPER)
def _same_arcs(n, one, parent, other, sentence, forest, pool):
    """Return whether two children have the same arcs; `parent` is that of the first."""
    arcs, words = sentence.arcs, forest.words
    e, f = pool.child[CHILD_ARC, one], pool.child[CHILD_ARC, other]
    same = True
    for m in range(1, n + 1):
        k = e if arcs[ARC_MODIFIER, e] == m else words[parent, FOREST_TREE, m]
        same &= k == (f if arcs[ARC_MODIFIER, f] == m else words[pool.child[CHILD_STATE, other], FOREST_TREE, m])
    return same


@numba.njit(**HELPER)
def _arrange(layout, b, beam, live, sentence, forest, pool):
    """Give each chosen child a place: the first of each state its parent's, others one of a state without children."""
    arcs, place_of = sentence.arcs, pool.best
    for s in range(beam):
        place_of[s] = -1
    for j in range(live):
        if place_of[pool.parent[j]] < 0:
            place_of[pool.parent[j]] = pool.chosen[j]
            pool.chosen[j] = -1
    place = 0
    for j in range(live):
        if pool.chosen[j] >= 0:
            while place_of[place] >= 0:
                place += 1
            copy(layout, b, sentence, forest, np.int64(pool.parent[j]), np.int64(place))
            place_of[place] = pool.chosen[j]
    place = 0
    for s in range(beam):
        i = place_of[s]
        if i >= 0:
            if place < s:
                copy(layout, b, sentence, forest, np.int64(s), np.int64(place))
            e = pool.child[CHILD_ARC, i]
            pool.arc[place], pool.value[place], pool.code[place] = e, pool.child_value[i], pool.child_code[i]
            if pool.child[CHILD_REPAIRED, i]:
                for m in range(layout.lengths[b] + 1):
                    forest.words[place, FOREST_WITNESS, m] = pool.child_witness[i, m]
            else:
                forest.words[place, FOREST_WITNESS, arcs[ARC_MODIFIER, e]] = e
            place += 1


@numba.njit(**HELPER)
def _write(n, b, live, sentence, forest, pool, found):
    """Add the last arcs, and write the trees, best value first."""
    arcs = sentence.arcs
    for place in range(live):
        first = -1
        for j in range(live):
            if pool.arc[j] >= 0 and (first < 0 or pool.value[j] < pool.value[first]):
                first = j
        tree, e = forest.words[first, FOREST_TREE], pool.arc[first]
        tree[arcs[ARC_MODIFIER, e]] = e
        pool.arc[first] = -1
        found.value[place, b] = pool.value[first]
        for m in range(1, n + 1):
            found.heads[place, b, m] = arcs[ARC_HEAD, tree[m]]
