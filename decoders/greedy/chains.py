"""Grand-grandparents in the greedy search: chains of an upper arc (x, g), a middle (g, h) and a lower one (h, m).

Kept up to date are, for each arc, the expected weight of the chains that hold it, and for two arcs that touch that of
the chains which hold both. Each chain changes three times at most, whenever one of its arcs is added or lost: O(n K^3)
in all for K candidate heads per word.
"""

import numba
import numpy as np

from arbora.decoders.greedy.state import (
    ARC_HEAD,
    ARC_MODIFIER,
    ARC_OUTWARD,
    DEAD,
    FOREST_TOP,
    FREE,
    PAIR_CHAIN,
    SUM_CHAIN_ABOVE,
    SUM_CHAIN_BELOW,
    TAKEN,
    touch,
)
from arbora.decoders.kernels.options import CALLED, HELPER


@numba.njit(**HELPER)
def _weight(chains, first, sentence, a, c, k):
    """Weight of a chain, 0 if its arcs make a cycle."""
    arcs, start = sentence.arcs, sentence.start
    x, g, h, m = arcs[ARC_HEAD, a], arcs[ARC_HEAD, c], arcs[ARC_HEAD, k], arcs[ARC_MODIFIER, k]
    w = 0.0
    if g != m and x != h and x != m:
        e = chains.offsets[first + k] + a - start[g]
        e += chains.grandparent_offsets[first + c] - chains.grandparent_offsets[first + start[h]]
        w += chains.score[e]
    return w


@numba.njit(**HELPER)
def _present(weight, state, k):
    """Weight of an arc that is to be present: 1 in T, and that of its weighting in G."""
    return 1.0 if state[k] == TAKEN else weight[k] if state[k] == FREE else 0.0


@numba.njit(**HELPER)
def _pair_at(chains, first, sentence, g, k):
    """Place of arc g and arc k just below it among the pairs."""
    e = chains.grandparent_offsets[first + k] + g - sentence.start[sentence.arcs[ARC_MODIFIER, g]]
    return e - chains.grandparent_offsets[first]


@numba.njit(**CALLED)
def fill_chains(chains, first, sentence, forest):
    """Sum the chains in the empty forest, state 0."""
    start, arcs, weight = sentence.start, sentence.arcs, sentence.weight
    A = start[0]
    size = chains.grandparent_offsets[first + A] - chains.grandparent_offsets[first]
    for i in range(weight.shape[1]):
        above, below = forest.sums[i, SUM_CHAIN_ABOVE], forest.sums[i, SUM_CHAIN_BELOW]
        pairs, p = forest.pairs[i, PAIR_CHAIN], weight[0, i]
        for e in range(size):
            pairs[e] = 0.0
        for k in range(A):
            h = arcs[ARC_HEAD, k]
            if h == 0:
                continue
            for c in range(start[h], start[h + 1]):
                g = arcs[ARC_HEAD, c]
                if g == 0:
                    continue
                for a in range(start[g], start[g + 1]):
                    w = _weight(chains, first, sentence, a, c, k)
                    above[a] += p[c] * p[k] * w
                    below[c] += p[a] * p[k] * w
                    below[k] += p[a] * p[c] * w
                    pairs[_pair_at(chains, first, sentence, a, c)] += p[k] * w
                    pairs[_pair_at(chains, first, sentence, c, k)] += p[a] * w


@numba.njit(**CALLED)
def change_chains(chains, first, sentence, forest, scratch, s, j, taken):
    """Add arc j to state s, or lose it, and tell the chains that hold it; arcs to come are as before."""
    weight, state = sentence.weight, forest.state[s]
    rows = weight.shape[1]
    for i in range(rows):
        d = taken - weight[0, i, j]
        if d != 0.0:
            _change_upper(chains, first, sentence, forest, scratch, s, i, j, d)
            _change_middle(chains, first, sentence, forest, scratch, s, i, j, d)
            _change_lower(chains, first, sentence, forest, scratch, s, i, j, d)
    state[j] = TAKEN if taken else DEAD


@numba.njit(**HELPER)
def _change_upper(chains, first, sentence, forest, scratch, s, i, a, d):
    """Tell the chains that have arc a on top that its weight changes by d."""
    side, arcs, weight = sentence.side, sentence.arcs, sentence.weight[0, i]
    top, state, reach = forest.words[s, FOREST_TOP], forest.state[s], forest.reach[s]
    row = sentence.weight.shape[1] * s + i
    below, pairs = forest.sums[row, SUM_CHAIN_BELOW], forest.pairs[row, PAIR_CHAIN]
    g = np.int64(arcs[ARC_MODIFIER, a])
    for place in range(side[2 * g], side[2 * g + 2]):
        c = np.int64(arcs[ARC_OUTWARD, place])
        if state[c] == DEAD:
            continue
        h = np.int64(arcs[ARC_MODIFIER, c])
        for lower in range(side[2 * h], side[2 * h + 2]):
            k = np.int64(arcs[ARC_OUTWARD, lower])
            if state[k] == DEAD:
                continue
            w = d * _weight(chains, first, sentence, a, c, k)
            below[c] += w * _present(weight, state, k)
            below[k] += w * _present(weight, state, c)
            pairs[_pair_at(chains, first, sentence, c, k)] += w
            touch(k, arcs, top, reach, scratch.changed)
        touch(c, arcs, top, reach, scratch.changed)


@numba.njit(**HELPER)
def _change_middle(chains, first, sentence, forest, scratch, s, i, c, d):
    """Tell the chains that have arc c in the middle that its weight changes by d."""
    start, side, arcs, weight = sentence.start, sentence.side, sentence.arcs, sentence.weight[0, i]
    top, state, reach = forest.words[s, FOREST_TOP], forest.state[s], forest.reach[s]
    row = sentence.weight.shape[1] * s + i
    above, below = forest.sums[row, SUM_CHAIN_ABOVE], forest.sums[row, SUM_CHAIN_BELOW]
    g, h = np.int64(arcs[ARC_HEAD, c]), np.int64(arcs[ARC_MODIFIER, c])
    if g > 0:
        for a in range(start[g], start[g + 1]):
            if state[a] == DEAD:
                continue
            for place in range(side[2 * h], side[2 * h + 2]):
                k = np.int64(arcs[ARC_OUTWARD, place])
                if state[k] != DEAD:
                    w = d * _weight(chains, first, sentence, a, c, k)
                    above[a] += w * _present(weight, state, k)
                    below[k] += w * _present(weight, state, a)
                    touch(k, arcs, top, reach, scratch.changed)
            touch(a, arcs, top, reach, scratch.changed)


@numba.njit(**HELPER)
def _change_lower(chains, first, sentence, forest, scratch, s, i, k, d):
    """Tell the chains that end with arc k that its weight changes by d."""
    start, arcs, weight = sentence.start, sentence.arcs, sentence.weight[0, i]
    top, state, reach = forest.words[s, FOREST_TOP], forest.state[s], forest.reach[s]
    row = sentence.weight.shape[1] * s + i
    above, below = forest.sums[row, SUM_CHAIN_ABOVE], forest.sums[row, SUM_CHAIN_BELOW]
    pairs = forest.pairs[row, PAIR_CHAIN]
    h = np.int64(arcs[ARC_HEAD, k])
    if h > 0:
        for c in range(start[h], start[h + 1]):
            g = np.int64(arcs[ARC_HEAD, c])
            if state[c] == DEAD or g == 0:
                continue
            for a in range(start[g], start[g + 1]):
                if state[a] != DEAD:
                    w = d * _weight(chains, first, sentence, a, c, k)
                    above[a] += w * _present(weight, state, c)
                    below[c] += w * _present(weight, state, a)
                    pairs[_pair_at(chains, first, sentence, a, c)] += w
                    touch(a, arcs, top, reach, scratch.changed)
            touch(c, arcs, top, reach, scratch.changed)


@numba.njit(**CALLED)
def outer_arcs(chains, first, sentence, tree, state, into, k):
    """Expected weight of the chain in which arc `into`, from below v into r, and arc k into v are not neighbours.

    Either r is the head of the middle arc, or it is v; the middle arc is then in T, since it leads below v.
    """
    arcs, arc, weight = sentence.arcs, sentence.arc, sentence.weight[0, 0]
    v, r, x = arcs[ARC_MODIFIER, k], arcs[ARC_MODIFIER, into], arcs[ARC_HEAD, into]
    w = 0.0
    c = np.int64(arc[r, arcs[ARC_HEAD, k]])
    if state[c] != DEAD:
        w += _present(weight, state, c) * _weight(chains, first, sentence, into, c, k)
    if x != v:
        c = np.int64(arc[v, x])
        if tree[x] == c:
            w += _weight(chains, first, sentence, k, c, into)
    return w


@numba.njit(**CALLED)
def lost_from_root(chains, first, sentence, state, k):
    """Expected weight of the chains that end with arc k and begin with an arc of the root in G."""
    start, arcs, arc, weight = sentence.start, sentence.arcs, sentence.arc, sentence.weight[0, 0]
    h = np.int64(arcs[ARC_HEAD, k])
    total = 0.0
    for c in range(start[h], start[h + 1]):
        g = np.int64(arcs[ARC_HEAD, c])
        if g > 0 and state[c] != DEAD and state[arc[0, g]] == FREE:
            w = _weight(chains, first, sentence, np.int64(arc[0, g]), c, k)
            total += _present(weight, state, c) * weight[arc[0, g]] * w
    return total
