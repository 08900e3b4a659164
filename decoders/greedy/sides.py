"""Siblings, tri-siblings and grand-siblings in the greedy search: parts that need arcs to be absent.

A side is the list of arcs from a head to one side, lost arcs left out, between START and END. It is summed again when
one of its arcs changes: O(J^2) for J arcs, O(J^3) with tri-siblings, O(K J^2) with grand-siblings and K grandparents.
"""

import numba
import numpy as np

from arbora.decoders.greedy.state import (
    ARC_HEAD,
    ARC_MODIFIER,
    ARC_OUTWARD,
    CHANGED_ARCS,
    CHANGED_HEADS,
    CHANGED_SIDES,
    DEAD,
    FOREST_TOP,
    FOREST_TREE,
    FREE,
    MARK_ARC,
    MARK_RANK,
    MARK_TAKEN,
    PAIR_BROKEN,
    PAIR_HELD,
    ROOT_KEPT,
    SIDE_ABSENT,
    SIDE_BROKEN,
    SIDE_HELD,
    SIDE_INNER,
    SIDE_OUTER,
    SIDE_PRESENT,
    SIDE_RIGHT,
    SUM_ABOVE_3,
    SUM_BELOW_3,
    SUM_BROKEN,
    SUM_BROKEN_3,
    SUM_HELD,
    SUM_SIDE_3,
    TAKEN,
    add,
    opposed,
    touch,
)
from arbora.decoders.kernels.options import CALLED, HELPER
from arbora.decoders.parts.layout import sibling_at, tri_sibling_at


@numba.njit(**CALLED)
def sum_sides(layout, b, single_root, sentence, forest, scratch, s):
    """Sum the parts again for the sides, and the heads, of which an arc has changed."""
    changed = scratch.changed
    weight = sentence.weight
    rows = weight.shape[1]
    node = layout.word_offsets[b] + b
    tri, four = len(layout.tri_sibling) > 0, len(layout.grand_sibling) > 0
    two_or_tri = len(layout.sibling) > 0 or tri
    tree = forest.words[s, FOREST_TREE]
    for number in range(changed[CHANGED_SIDES, 1, 0]):
        side = np.int64(changed[CHANGED_SIDES, 1, number + 1])
        changed[CHANGED_SIDES, 0, side] = 0
        h = side >> 1
        J = sentence.side[side + 1] - sentence.side[side]
        L, free = _list_arcs(side, sentence, forest, scratch, s)
        if free == 0 and (not four or tree[h] >= 0):
            continue
        for i in range(rows):
            _weigh_arcs(L, weight, i, scratch)
            if tri:
                block = layout.tri_sibling_offsets[2 * node + side]
                _sum_triples(layout.tri_sibling, block, J, L, scratch.marks, scratch.side, scratch.triples)
            if h == 0 and single_root:
                _sum_single_root(layout, node, L, sentence, forest, scratch, rows * s + i)
            if two_or_tri:
                _sum_siblings(layout, node, side, L, sentence, forest, scratch, s, i)
            if four and h > 0:
                add(changed, CHANGED_HEADS, h)
                _sum_grand_siblings(layout, b, side, L, sentence, forest, scratch, s, i)
    changed[CHANGED_SIDES, 1, 0] = 0
    if four:
        _sum_heads(layout, b, sentence, forest, scratch, s)
    else:
        for number in range(changed[CHANGED_HEADS, 1, 0]):
            changed[CHANGED_HEADS, 0, changed[CHANGED_HEADS, 1, number + 1]] = 0
    changed[CHANGED_HEADS, 1, 0] = 0


@numba.njit(**HELPER)
def _list_arcs(side, sentence, forest, scratch, s):
    """List the arcs of a side that are not lost, from 1 outward; the number of them, and of those in G."""
    arcs, state, marks = sentence.arcs, forest.state[s], scratch.marks
    base, J = sentence.side[side], sentence.side[side + 1] - sentence.side[side]
    free, L = 0, 1
    for rank in range(1, J + 1):  # without a branch, which would be guessed wrong half the time
        k = arcs[ARC_OUTWARD, base + rank - 1]
        marks[MARK_ARC, L], marks[MARK_RANK, L], marks[MARK_TAKEN, L] = k, rank, state[k] == TAKEN
        L += state[k] != DEAD
        free += state[k] == FREE
    L -= 1
    marks[MARK_RANK, 0], marks[MARK_RANK, L + 1] = 0, J + 1
    return L, free


@numba.njit(**HELPER)
def _weigh_arcs(L, weight, i, scratch):
    """Look up the weights of the arcs of a side, as present and as absent ones."""
    marks, sums = scratch.marks, scratch.side
    sums[SIDE_PRESENT, 0] = sums[SIDE_PRESENT, L + 1] = 1.0
    sums[SIDE_ABSENT, L + 1] = 0.0
    for j in range(1, L + 1):
        k, taken = marks[MARK_ARC, j], marks[MARK_TAKEN, j]
        sums[SIDE_PRESENT, j] = 1.0 if taken else weight[0, i, k]
        sums[SIDE_ABSENT, j] = 0.0 if taken else weight[1, i, k]


@numba.njit(**HELPER)
def _sum_single_root(layout, node, L, sentence, forest, scratch, row):
    """Sum for each modifier of the root its siblings without any other modifier."""
    marks, sums = scratch.marks, scratch.side
    J = sentence.side[2] - sentence.side[1]
    block, tri_block = layout.sibling_offsets[2 * node + 1], layout.tri_sibling_offsets[2 * node + 1]
    product = 1.0
    for j in range(1, L + 1):
        sums[SIDE_INNER, j] = product
        product *= sums[SIDE_ABSENT, j]
    product = 1.0
    for j in range(L, 0, -1):
        at = np.int64(marks[MARK_RANK, j])
        w = 0.0
        if len(layout.sibling) > 0:
            w += sums[SIDE_INNER, j] * layout.sibling[block + sibling_at(J, 0, at)]
            w += product * layout.sibling[block + sibling_at(J, at, J + 1)]
        if len(layout.tri_sibling) > 0:
            w += sums[SIDE_INNER, j] * product * layout.tri_sibling[tri_block + tri_sibling_at(J, 0, at, J + 1)]
        forest.root[row, ROOT_KEPT, sentence.arcs[ARC_MODIFIER, marks[MARK_ARC, j]]] = w * sums[SIDE_PRESENT, j]
        product *= sums[SIDE_ABSENT, j]


@numba.njit(**HELPER)
def _sum_siblings(layout, node, side, L, sentence, forest, scratch, s, i):
    """Sum siblings and tri-siblings of a side, and note the arcs of which the sums have changed."""
    arcs, marks, sums, changed = sentence.arcs, scratch.marks, scratch.side, scratch.changed
    top, state, reach = forest.words[s, FOREST_TOP], forest.state[s], forest.reach[s]
    row = sentence.weight.shape[1] * s + i
    J = sentence.side[side + 1] - sentence.side[side]
    two, tri = len(layout.sibling) > 0, len(layout.tri_sibling) > 0
    block = layout.sibling_offsets[2 * node + side]
    total = _sum_pairs(layout.sibling, two, tri, block, J, L, marks, sums, scratch.triples)
    of_root = side == 1
    if of_root:
        forest.root[row, ROOT_KEPT, 0] = total
    held, broken = forest.sums[row, SUM_HELD], forest.sums[row, SUM_BROKEN]
    for j in range(1, L + 1):
        k = marks[MARK_ARC, j]
        if state[k] == FREE and (of_root or held[k] != sums[SIDE_HELD, j] or broken[k] != sums[SIDE_BROKEN, j]):
            held[k] = sums[SIDE_HELD, j]
            broken[k] = sums[SIDE_BROKEN, j]
            if not of_root and not opposed(k, arcs, top, reach):
                add(changed, CHANGED_ARCS, np.int64(k))
            else:
                touch(k, arcs, top, reach, changed)


@numba.njit(**HELPER)
def _sum_grand_siblings(layout, b, side, L, sentence, forest, scratch, s, i):
    """Sum the grand-siblings of a side for each arc g into its head."""
    start, arcs, marks, sums = sentence.start, sentence.arcs, scratch.marks, scratch.side
    state, pairs = forest.state[s], forest.pairs
    row = sentence.weight.shape[1] * s + i
    first = layout.sentence_offsets[b]
    J = sentence.side[side + 1] - sentence.side[side]
    h, right = side >> 1, side & 1
    for g in range(start[h], start[h + 1]):
        if state[g] == DEAD:
            continue
        cycle = 0
        back = 0.0
        for j in range(1, L + 1):  # no part holds an arc and the arc back
            if arcs[ARC_MODIFIER, marks[MARK_ARC, j]] == arcs[ARC_HEAD, g]:
                cycle = j
                back = sums[SIDE_PRESENT, j]
                sums[SIDE_PRESENT, j] = 0.0
        block = layout.grand_sibling_offsets[2 * (first + g) + right]
        total = _sum_pairs(layout.grand_sibling, True, False, block, J, L, marks, sums, scratch.triples)
        forest.sums[row, SUM_SIDE_3 + right, g] = total
        offset = g - start[h] - layout.grandparent_offsets[first]
        for j in range(1, L + 1):
            e = layout.grandparent_offsets[first + marks[MARK_ARC, j]] + offset
            pairs[row, PAIR_HELD, e] = sums[SIDE_HELD, j] if j != cycle else 0.0
            pairs[row, PAIR_BROKEN, e] = sums[SIDE_BROKEN, j]
        if cycle > 0:
            sums[SIDE_PRESENT, cycle] = back


@numba.njit(**HELPER)
def _sum_heads(layout, b, sentence, forest, scratch, s):
    """Add up grand-siblings for arcs into and out of the heads of which an arc has changed."""
    start, arcs, weight = sentence.start, sentence.arcs, sentence.weight
    top, state, reach = forest.words[s, FOREST_TOP], forest.state[s], forest.reach[s]
    sums, pairs, changed = forest.sums, forest.pairs, scratch.changed
    rows = weight.shape[1]
    first = layout.sentence_offsets[b]
    for number in range(changed[CHANGED_HEADS, 1, 0]):
        h = np.int64(changed[CHANGED_HEADS, 1, number + 1])
        changed[CHANGED_HEADS, 0, h] = 0
        for g in range(start[h], start[h + 1]):
            if state[g] == FREE:
                for row in range(rows * s, rows * s + rows):
                    sums[row, SUM_ABOVE_3, g] = sums[row, SUM_SIDE_3, g] + sums[row, SUM_SIDE_3 + 1, g]
                touch(g, arcs, top, reach, changed)
        for place in range(sentence.side[2 * h], sentence.side[2 * h + 2]):
            k = arcs[ARC_OUTWARD, place]
            if state[k] != FREE:
                continue
            e = layout.grandparent_offsets[first + k] - layout.grandparent_offsets[first] - start[h]
            for i in range(rows):
                row = rows * s + i
                held, broken = 0.0, 0.0
                for g in range(start[h], start[h + 1]):
                    if state[g] != DEAD:
                        p = 1.0 if state[g] == TAKEN else weight[0, i, g]
                        held += p * pairs[row, PAIR_HELD, e + g]
                        broken += p * pairs[row, PAIR_BROKEN, e + g]
                sums[row, SUM_BELOW_3, k] = held
                sums[row, SUM_BROKEN_3, k] = broken
            touch(k, arcs, top, reach, changed)


@numba.njit(**HELPER)
def _sum_triples(score, block, J, L, marks, side, triples):
    """Sum the expected weight of triples (a, b, c), given (a, b), over c, and given (b, c), over a."""
    size = L + 2
    for i in range(size * size):
        triples[0, i] = triples[1, i] = 0.0
    for b in range(1, L + 1):
        product = 1.0
        for a in range(b - 1, -1, -1):
            side[SIDE_INNER, a] = side[SIDE_PRESENT, a] * product
            if a > 0:
                product *= side[SIDE_ABSENT, a]
        product = 1.0
        for c in range(b + 1, L + 2):
            side[SIDE_OUTER, c] = side[SIDE_PRESENT, c] * product
            if c <= L:
                product *= side[SIDE_ABSENT, c]
        rank = np.int64(marks[MARK_RANK, b])
        for a in range(b):
            for c in range(b + 1, L + 2):
                w = score[block + tri_sibling_at(J, np.int64(marks[MARK_RANK, a]), rank, np.int64(marks[MARK_RANK, c]))]
                triples[0, a * size + b] += side[SIDE_OUTER, c] * w
                triples[1, b * size + c] += side[SIDE_INNER, a] * w


@numba.njit(**CALLED)
def _sum_pairs(score, two, tri, block, J, L, marks, side, triples):
    """Sum the expected weight of the parts of a side that hold each arc, of those that it would break, and of all.

    With weights a of present arcs and c of absent ones, P(i, j) the product of c between i and j, and W(i, j):
    held(k) = left(k) + right(k), left(k) = sum_{i<k} a_i P(i, k) W(i, k), right(k) = sum_{j>k} a_j P(k, j) W(k, j), and
    broken(k) = sum_{i<k<j} a_i a_j P(i, j) / c_k W(i, j), where c_k = 0 stands for a product without it. As k grows by
    one, a_{k-1} right(k-1) comes to that sum and a_k left(k) leaves it.
    """
    rank, weight, lack = marks[MARK_RANK], side[SIDE_PRESENT], side[SIDE_ABSENT]
    left, right = side[SIDE_HELD], side[SIDE_RIGHT]
    for j in range(L + 2):
        left[j] = side[SIDE_BROKEN, j] = 0.0
    total = 0.0
    for i in range(L + 1):
        product = 1.0
        mine = weight[i]
        held = all_held = 0.0
        base = block + sibling_at(J, np.int64(rank[i]), 0)
        j = i + 1
        if tri:
            while True:
                w = triples[0, i * (L + 2) + j]
                if two:
                    w += score[base + rank[j]]
                all_of = product * (w + triples[1, i * (L + 2) + j])
                left[j] += mine * all_of
                held += weight[j] * product * w
                all_held += weight[j] * all_of
                if lack[j] == 0.0:  # or the end
                    break
                product *= lack[j]
                j += 1
        else:
            while True:
                w = product * score[base + rank[j]]
                left[j] += mine * w
                held += weight[j] * w
                if lack[j] == 0.0:  # or the end
                    break
                product *= lack[j]
                j += 1
            all_held = held
        right[i] = held
        side[SIDE_OUTER, i] = mine * all_held
        total += mine * held
        if j > L or marks[MARK_TAKEN, j]:
            continue
        # An arc that weighs nothing when absent: parts that span it count only for that arc.
        gap = j
        while j <= L:
            j += 1
            w = triples[0, i * (L + 2) + j] + triples[1, i * (L + 2) + j] if tri else 0.0
            if two:
                w += score[base + rank[j]]
            side[SIDE_BROKEN, gap] += mine * weight[j] * product * w
            if j <= L:
                if lack[j] == 0.0:
                    break
                product *= lack[j]
    run = 0.0
    for j in range(1, L + 1):
        run += side[SIDE_OUTER, j - 1] - weight[j] * left[j]
        if lack[j] > 0.0:
            side[SIDE_BROKEN, j] += run / lack[j]
        left[j] += right[j]
    return total
