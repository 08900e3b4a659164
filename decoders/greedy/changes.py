"""Adding an arc to a forest of the greedy search, or deleting one.

The arcs that change are the arc itself and the lost arcs L(e). Each tells the parts that hold it: the expected weight
of their other arcs changes, and these are marked to be valued again.
"""

import numba
import numpy as np

from arbora.decoders.greedy.chains import change_chains
from arbora.decoders.greedy.state import (
    ARC_HEAD,
    ARC_MODIFIER,
    ARC_OUTWARD,
    ARC_PLACE,
    CHANGED_HEADS,
    CHANGED_SIDES,
    CHANGED_WORDS,
    DEAD,
    FOREST_NEXT,
    FOREST_SIZE,
    FOREST_TOP,
    FOREST_TREE,
    FREE,
    MARK_QUEUE,
    ROOT_ANY,
    SUM_ALONE,
    SUM_BELOW,
    TAKEN,
    add,
    touch,
)
from arbora.decoders.kernels.options import CALLED, HELPER
from arbora.decoders.parts.layout import any_sibling_at


@numba.njit(**CALLED)
def change(layout, chains, b, adding, e, single_root, sentence, forest, scratch, s):
    """Add arc e to state s, or delete it."""
    arcs, weight = sentence.arcs, sentence.weight
    top, free, reach = forest.words[s, FOREST_TOP], forest.state[s], forest.reach[s]
    changed, queue = scratch.changed, scratch.marks[MARK_QUEUE]
    rows = weight.shape[1]
    sides = len(layout.sibling) > 0 or len(layout.tri_sibling) > 0 or len(layout.grand_sibling) > 0
    queue[0] = e
    count = 1
    added = np.int64(0)
    if adding:
        added = np.int64(arcs[ARC_MODIFIER, e])
        count = _queue_lost_arcs(e, single_root, sentence, forest, scratch, s)
        _join(layout.lengths[b], e, sentence, forest, scratch, s)
    if chains is not None:
        first = layout.sentence_offsets[b]
        for place in range(count):
            change_chains(chains, first, sentence, forest, scratch, s, np.int64(queue[place]), adding and place == 0)
    for place in range(count):
        k = queue[place]
        free[k] = TAKEN if adding and place == 0 else DEAD
        h, m = np.int64(arcs[ARC_HEAD, k]), np.int64(arcs[ARC_MODIFIER, k])
        if sides:
            add(changed, CHANGED_SIDES, 2 * h + (m > h))
            add(changed, CHANGED_HEADS, m)
        if m != added:
            touch(k, arcs, top, reach, changed)
    for place in range(count):
        k = queue[place]
        for i in range(rows):
            # d times the weight of each part of two arcs, one of them k, is added to what is expected of the other
            d = (free[k] == TAKEN) - weight[0, i, k]
            if d != 0.0:
                if len(layout.grandparent) > 0:
                    _tell_grandparents(layout, b, k, d, added, sentence, forest, scratch, s, i)
                if len(layout.any_sibling) > 0:
                    _tell_any_siblings(layout, b, k, d, sentence, forest, scratch, s, i)
                if len(layout.head_bigram) > 0:
                    _tell_head_bigrams(layout, b, k, d, sentence, forest, scratch, s, i)
    if added > 0 and len(layout.grandparent) > 0:
        _settle_grandparents(layout, b, e, sentence, forest, scratch, s)


@numba.njit(**HELPER)
def _queue_lost_arcs(e, single_root, sentence, forest, scratch, s):
    """Queue the lost arcs L(e) behind e; the number of arcs in the queue."""
    start, arcs = sentence.start, sentence.arcs
    top, free, queue = forest.words[s, FOREST_TOP], forest.state[s], scratch.marks[MARK_QUEUE]
    u, v = np.int64(arcs[ARC_HEAD, e]), np.int64(arcs[ARC_MODIFIER, e])
    r = np.int64(top[u])
    count = 1
    for k in range(start[v], start[v + 1]):
        if free[k] == FREE and k != e:
            queue[count] = k
            count += 1
    if r > 0:
        for k in range(start[r], start[r + 1]):
            if free[k] == FREE and top[arcs[ARC_HEAD, k]] == v:
                queue[count] = k
                count += 1
    if single_root and u == 0:
        for place in range(sentence.side[1], sentence.side[2]):
            k = arcs[ARC_OUTWARD, place]
            if k != e and free[k] == FREE and arcs[ARC_MODIFIER, k] != v:
                queue[count] = k
                count += 1
    return count


@numba.njit(**HELPER)
def _join(n, e, sentence, forest, scratch, s):
    """Put arc e = (u, v) into the tree: v and the words below it get the top of u.

    So arcs out of these words have other values, and so have arcs into their new top.
    """
    arcs, side, changed = sentence.arcs, sentence.side, scratch.changed
    top, following = forest.words[s, FOREST_TOP], forest.words[s, FOREST_NEXT]
    free, reach = forest.state[s], forest.reach[s]
    u, v = np.int64(arcs[ARC_HEAD, e]), np.int64(arcs[ARC_MODIFIER, e])
    r = np.int64(top[u])
    forest.words[s, FOREST_TREE, v] = e
    forest.least[s, v] = np.inf
    x = v
    while True:
        top[x] = r
        for place in range(side[2 * x], side[2 * x + 2]):
            k = arcs[ARC_OUTWARD, place]
            if free[k] == FREE:
                add(changed, CHANGED_WORDS, np.int64(arcs[ARC_MODIFIER, k]))
        x = np.int64(following[x])
        if x == v:
            break
    if r > 0:
        following[r], following[v] = following[v], following[r]
        forest.words[s, FOREST_SIZE, r] += forest.words[s, FOREST_SIZE, v]
        for i in range(n // 64 + 1):
            reach[r, i] |= reach[v, i]
        add(changed, CHANGED_WORDS, r)


@numba.njit(**HELPER)
def _tell_grandparents(layout, b, k, d, added, sentence, forest, scratch, s, i):
    start, side, arcs, changed = sentence.start, sentence.side, sentence.arcs, scratch.changed
    tree, top, free, reach = forest.words[s, FOREST_TREE], forest.words[s, FOREST_TOP], forest.state[s], forest.reach[s]
    row = sentence.weight.shape[1] * s + i
    alone, below = forest.sums[row, SUM_ALONE], forest.sums[row, SUM_BELOW]
    first = layout.sentence_offsets[b]
    h, m = np.int64(arcs[ARC_HEAD, k]), np.int64(arcs[ARC_MODIFIER, k])
    if h > 0 and tree[h] < 0:
        block = layout.grandparent_offsets[first + k] - start[h]
        for g in range(start[h], start[h + 1]):
            w = np.float64(layout.grandparent[block + g])
            alone[g] += d * (w if arcs[ARC_HEAD, g] != m else 0.0)
        for g in range(start[h], start[h + 1]):
            if free[g] == FREE:
                touch(g, arcs, top, reach, changed)
    if m != added:
        for j in range(side[2 * m], side[2 * m + 2]):
            low = arcs[ARC_OUTWARD, j]
            if free[low] == FREE and arcs[ARC_MODIFIER, low] != h:
                below[low] += d * layout.grandparent[layout.grandparent_offsets[first + low] + k - start[m]]
                touch(low, arcs, top, reach, changed)


@numba.njit(**HELPER)
def _settle_grandparents(layout, b, e, sentence, forest, scratch, s):
    """Set the sums of arcs below e, now the only arc left into its modifier."""
    start, side, arcs, changed = sentence.start, sentence.side, sentence.arcs, scratch.changed
    top, free, reach = forest.words[s, FOREST_TOP], forest.state[s], forest.reach[s]
    rows = sentence.weight.shape[1]
    first = layout.sentence_offsets[b]
    v = np.int64(arcs[ARC_MODIFIER, e])
    for place in range(side[2 * v], side[2 * v + 2]):
        low = arcs[ARC_OUTWARD, place]
        if free[low] == FREE:
            for i in range(rows):
                w = layout.grandparent[layout.grandparent_offsets[first + low] + e - start[v]]
                forest.sums[rows * s + i, SUM_BELOW, low] = w
            touch(low, arcs, top, reach, changed)


@numba.njit(**HELPER)
def _tell_any_siblings(layout, b, k, d, sentence, forest, scratch, s, i):
    side, arcs, changed = sentence.side, sentence.arcs, scratch.changed
    top, free, reach = forest.words[s, FOREST_TOP], forest.state[s], forest.reach[s]
    row = sentence.weight.shape[1] * s + i
    alone = forest.sums[row, SUM_ALONE]
    h = np.int64(arcs[ARC_HEAD, k])
    block = layout.any_sibling_offsets[layout.word_offsets[b] + b + h]
    base, J = side[2 * h], side[2 * h + 2] - side[2 * h]
    mine = arcs[ARC_PLACE, k] - base
    for j in range(J):
        other = arcs[ARC_OUTWARD, base + j]
        if free[other] == FREE:
            w = d * layout.any_sibling[block + any_sibling_at(J, min(j, mine), max(j, mine))]
            alone[other] += w
            touch(other, arcs, top, reach, changed)
            if h == 0:
                forest.root[row, ROOT_ANY, arcs[ARC_MODIFIER, other]] += w


@numba.njit(**HELPER)
def _tell_head_bigrams(layout, b, k, d, sentence, forest, scratch, s, i):
    start, arcs, changed = sentence.start, sentence.arcs, scratch.changed
    tree, top, free, reach = forest.words[s, FOREST_TREE], forest.words[s, FOREST_TOP], forest.state[s], forest.reach[s]
    alone = forest.sums[sentence.weight.shape[1] * s + i, SUM_ALONE]
    offsets = layout.head_bigram_offsets[layout.word_offsets[b] :]
    m = np.int64(arcs[ARC_MODIFIER, k])
    for near in range(m - 1, m + 2, 2):
        if near < 1 or near > layout.lengths[b] or tree[near] >= 0:
            continue
        for other in range(start[near], start[near + 1]):
            if free[other] == FREE:
                alone[other] += d * bigram(layout.head_bigram, offsets, start, arcs, other, np.int64(k))
                touch(other, arcs, top, reach, changed)


@numba.njit(**HELPER)
def bigram(head_bigram, offsets, start, arcs, i, j):
    """Weight of the head bigram of arc i into a word and arc j into one of its neighbours, 0 if they make a cycle.

    `offsets` are those of the words of the sentence.
    """
    if arcs[ARC_MODIFIER, i] > arcs[ARC_MODIFIER, j]:
        i, j = j, i
    m = arcs[ARC_MODIFIER, j]
    w = 0.0
    if arcs[ARC_HEAD, i] != m or arcs[ARC_HEAD, j] != m - 1:
        K = start[m + 1] - start[m]
        w += head_bigram[offsets[m - 1] + (i - start[m - 1]) * K + j - start[m]]
    return w
