"""Values of the arcs that can be added to a forest of the greedy search: loss and gain of each.

An arc e = (u, v) below r has the value beta loss(e) - (1 - beta) gain(e), in Algorithm 1 loss(e) - gain(e). It is
computed as base(e) + total(v) + cross(r, v) and what e has with single arcs: base is what changes with e itself, total
sums the credit of all arcs into v, cross that of all arcs from below v into r, less what is then counted twice. Credit
of an arc is what losing it adds to a value. Values are kept from step to step, and computed again only where a part of
them has changed.
"""

import numba
import numpy as np

from arbora.decoders.greedy.chains import lost_from_root, outer_arcs
from arbora.decoders.greedy.changes import bigram
from arbora.decoders.greedy.state import (
    ARC_HEAD,
    ARC_MODIFIER,
    ARC_OUTWARD,
    ARC_PLACE,
    CHANGED_ARCS,
    CHANGED_WORDS,
    FOREST_NEXT,
    FOREST_SIZE,
    FOREST_TOP,
    FOREST_TREE,
    FREE,
    PAIR_BROKEN,
    PAIR_CHAIN,
    PAIR_HELD,
    ROOT_ANY,
    ROOT_KEPT,
    SUM_ABOVE_3,
    SUM_ALONE,
    SUM_BASE,
    SUM_BELOW,
    SUM_BELOW_3,
    SUM_BROKEN,
    SUM_BROKEN_3,
    SUM_CHAIN_ABOVE,
    SUM_CHAIN_BELOW,
    SUM_CREDIT,
    SUM_CROSSING,
    SUM_HELD,
    SUM_VALUE,
    WORD_CREDIT,
    WORD_CROSS,
    WORD_JOINT,
    WORD_NEW_JOINT,
    WORD_STAMP,
    reaches,
)
from arbora.decoders.kernels.options import CALLED, HELPER
from arbora.decoders.parts.layout import sibling_at, tri_sibling_at


@numba.njit(**CALLED)
def evaluate(layout, chains, b, settings, sentence, forest, scratch, s):
    """Value the arcs into all words that have changed; what is to be added to the values of a single root's arcs."""
    start, arcs, arc, weight = sentence.start, sentence.arcs, sentence.arc, sentence.weight
    tree, top, size = forest.words[s, FOREST_TREE], forest.words[s, FOREST_TOP], forest.words[s, FOREST_SIZE]
    free, changed, credit_of = forest.state[s], scratch.changed, scratch.words[WORD_CREDIT]
    rows = weight.shape[1]
    down = rows * s
    base, value, crossing = forest.sums[down, SUM_BASE], forest.sums[down, SUM_VALUE], forest.sums[down, SUM_CROSSING]
    head, chance, least_of = arcs[ARC_HEAD], weight[0, 0], forest.least[s]
    grandparent, first = layout.grandparent, layout.sentence_offsets[b]
    pairs = len(grandparent) > 0
    single_root = settings.single_root
    only_pairs = len(layout.grand_sibling) == 0 and len(layout.head_bigram) == 0 and chains is None
    factors = (settings.beta, 1.0 - settings.beta) if settings.partial else (1.0, 1.0)  # of loss and gain
    keep, win = factors
    gaining = win if rows == 1 else 0.0  # in Algorithm 1, a part that is not complete gains nothing
    _move_values(single_root, keep, win, sentence, forest, scratch, s)
    _sum_credits(keep, win, sentence, forest, scratch, s)
    for number in range(1, changed[CHANGED_WORDS, 1, 0] + 1):
        v = np.int64(changed[CHANGED_WORDS, 1, number])
        changed[CHANGED_WORDS, 0, v] = 0
        if tree[v] >= 0:
            continue
        begin, end = start[v], start[v + 1]
        total = credit_of[v]
        if single_root and begin < end and head[begin] == 0:
            _value_root_arc(layout, chains, b, factors, sentence, forest, scratch, s, begin)
            begin += 1
        least = np.inf
        if only_pairs and size[v] == 1:
            # The most frequent case: of the arcs into r, at most the one from v gets lost.
            for e in range(begin, end):
                r = top[head[e]]
                back = arc[v, r]
                x = base[e] + total + crossing[back]
                if head[e] != r and pairs and free[back] == FREE:
                    mine = np.float64(grandparent[layout.grandparent_offsets[first + back] + e - start[v]])
                    x += (keep * chance[e] + gaining) * chance[back] * mine
                value[e] = x if free[e] == FREE else np.inf
                least = value[e] if value[e] < least else least
        else:
            _value_arcs(layout, chains, b, factors, sentence, forest, scratch, s, v, begin)
            for e in range(begin, end):
                least = value[e] if value[e] < least else least
        least_of[v] = least
    changed[CHANGED_WORDS, 1, 0] = 0
    return keep * _root_loss(layout, chains, b, sentence, forest, s) if single_root else 0.0


@numba.njit(**HELPER)
def _move_values(single_root, keep, win, sentence, forest, scratch, s):
    """If only the siblings of one arc into a word have changed, add the arc's contribution to all values."""
    start, arcs = sentence.start, sentence.arcs
    tree, changed = forest.words[s, FOREST_TREE], scratch.changed
    down = sentence.weight.shape[1] * s
    base, value = forest.sums[down, SUM_BASE], forest.sums[down, SUM_VALUE]
    credit, crossing = forest.sums[down, SUM_CREDIT], forest.sums[down, SUM_CROSSING]
    for number in range(1, changed[CHANGED_ARCS, 1, 0] + 1):
        k = np.int64(changed[CHANGED_ARCS, 1, number])
        changed[CHANGED_ARCS, 0, k] = 0
        v = arcs[ARC_MODIFIER, k]
        if changed[CHANGED_WORDS, 0, v] != 0 or tree[v] >= 0:
            continue
        mine, own = _weigh_arc(forest.sums, sentence.weight, s, keep, win, k)
        more = mine - credit[k]
        value[k] += own - mine - base[k]
        base[k] = own - mine
        credit[k] = mine
        crossing[k] += more
        least = np.inf
        for e in range(start[v], start[v + 1]):
            value[e] += more
            if not single_root or arcs[ARC_HEAD, e] != 0:
                least = value[e] if value[e] < least else least
        forest.least[s, v] = least
    changed[CHANGED_ARCS, 1, 0] = 0


@numba.njit(**HELPER)
def _sum_credits(keep, win, sentence, forest, scratch, s):
    """Sum for all words that have changed what their arcs add to values, each by itself."""
    start, changed = sentence.start, scratch.changed
    tree, free, chance = forest.words[s, FOREST_TREE], forest.state[s], sentence.weight[0, 0]
    down = sentence.weight.shape[1] * s
    below, base = forest.sums[down, SUM_BELOW], forest.sums[down, SUM_BASE]
    credit, crossing = forest.sums[down, SUM_CREDIT], forest.sums[down, SUM_CROSSING]
    for number in range(1, changed[CHANGED_WORDS, 1, 0] + 1):
        v = changed[CHANGED_WORDS, 1, number]
        if tree[v] >= 0:
            continue
        total = 0.0
        for k in range(start[v], start[v + 1]):
            mine, own = _weigh_arc(forest.sums, sentence.weight, s, keep, win, k)
            if free[k] != FREE:
                mine = 0.0
            credit[k] = mine
            crossing[k] = mine - (keep * chance[k] * below[k] if free[k] == FREE else 0.0)
            base[k] = own - mine
            total += mine
        scratch.words[WORD_CREDIT, v] = total


@numba.njit(**HELPER)
def _weigh_arc(sums, weight, s, keep, win, k):
    """Return what an arc in G adds to the values of others when lost, and what it loses and gains when added."""
    rows = weight.shape[1]
    down, up = rows * s, rows * s + rows - 1
    absent, third, chained = sums.shape[1] > SUM_HELD, sums.shape[1] > SUM_ABOVE_3, sums.shape[1] > SUM_CHAIN_ABOVE
    expected = sums[down, SUM_ALONE, k] + sums[down, SUM_BELOW, k]
    if absent:
        expected += sums[down, SUM_HELD, k]
    if third:
        expected += sums[down, SUM_ABOVE_3, k] + sums[down, SUM_BELOW_3, k]
    if chained:
        expected += sums[down, SUM_CHAIN_ABOVE, k] + sums[down, SUM_CHAIN_BELOW, k]
    gain = expected
    if up != down:
        gain = sums[up, SUM_ALONE, k] + sums[up, SUM_BELOW, k]
        if absent:
            gain += sums[up, SUM_HELD, k]
        if third:
            gain += sums[up, SUM_ABOVE_3, k] + sums[up, SUM_BELOW_3, k]
        if chained:
            gain += sums[up, SUM_CHAIN_ABOVE, k] + sums[up, SUM_CHAIN_BELOW, k]
    credit = keep * weight[0, 0, k] * expected
    own = -win * gain
    if absent:
        freed, lost = sums[up, SUM_BROKEN, k], sums[down, SUM_BROKEN, k]
        if third:
            freed += sums[up, SUM_BROKEN_3, k]
            lost += sums[down, SUM_BROKEN_3, k]
        credit -= win * (1.0 - weight[1, up - down, k]) * freed
        own += keep * weight[1, 0, k] * lost
    return credit, own


@numba.njit(**HELPER)
def _value_root_arc(layout, chains, b, factors, sentence, forest, scratch, s, e):
    """Value the arc e = (0, v) of a single root, with which all other arcs of the root get lost.

    Parts of e and another arc of the root are part of what is lost with all of them, those of e by itself are not
    lost. Arcs of the root are never the lower ones of a grandparent, a grand-sibling or a grand-grandparent.
    """
    keep, win = factors
    start, arcs, arc, weight = sentence.start, sentence.arcs, sentence.arc, sentence.weight
    free, sums, root = forest.state[s], forest.sums, forest.root
    rows = weight.shape[1]
    down, up, last = rows * s, rows * s + rows - 1, rows - 1
    two, tri, four = len(layout.sibling) > 0, len(layout.tri_sibling) > 0, len(layout.grand_sibling) > 0
    chained = chains is not None
    chance, lack = weight[0, 0], weight[1, 0]
    value = sums[down, SUM_VALUE]
    grandparent, offsets, first = layout.grandparent, layout.grandparent_offsets, layout.sentence_offsets[b]
    bigram_offsets = layout.head_bigram_offsets[layout.word_offsets[b] :]
    v = np.int64(arcs[ARC_MODIFIER, e])
    if free[e] != FREE:
        value[e] = np.inf
    else:
        lost = chance[e] * root[down, ROOT_ANY, v]
        won = -root[up, ROOT_ANY, v]
        lost -= chance[e] * (sums[down, SUM_ALONE, e] + (sums[down, SUM_ABOVE_3, e] if four else 0.0))
        if chained:
            lost -= chance[e] * sums[down, SUM_CHAIN_ABOVE, e]
        if two or tri or four:
            lost -= lack[e] * sums[down, SUM_BROKEN, e]
        if two or tri:
            lost -= root[down, ROOT_KEPT, v]
            won -= sums[up, SUM_HELD, e]
            won += _only_modifier(layout, b, sentence, e)
        if len(layout.grandparent) > 0 or four or chained:
            for k in range(e + 1, start[v + 1]):
                g = np.int64(arc[0, arcs[ARC_HEAD, k]])
                if free[k] == FREE and free[g] == FREE:
                    lost -= (
                        chance[k] * chance[g] * _pair(grandparent, offsets, first, sentence, forest.pairs, down, g, k)
                    )
                    if four:
                        w = _pair_broken(offsets, first, sentence, forest.pairs, up, g, k)
                        won -= (1.0 - weight[1, last, k]) * weight[0, last, g] * w
                if chains is not None and free[k] == FREE:
                    lost -= chance[k] * lost_from_root(chains, first, sentence, free, k)
        if len(layout.head_bigram) > 0:
            for m in range(v - 1, v + 2, 2):
                if m < 1 or m > layout.lengths[b] or free[arc[0, m]] != FREE:
                    continue
                other = np.int64(arc[0, m])
                w = bigram(layout.head_bigram, bigram_offsets, start, arcs, other, e)
                lost += chance[e] * chance[other] * w
                won -= weight[0, last, other] * w
                for k in range(e + 1, start[v + 1]):
                    if free[k] == FREE:
                        lost -= (
                            chance[k]
                            * chance[other]
                            * bigram(layout.head_bigram, bigram_offsets, start, arcs, other, k)
                        )
        value[e] = sums[down, SUM_BASE, e] + scratch.words[WORD_CREDIT, v] + keep * lost - win * won


@numba.njit(**HELPER)
def _only_modifier(layout, b, sentence, e):
    """Weight of the siblings and tri-siblings that arc e has as the only arc of the root."""
    node = layout.word_offsets[b] + b
    J = sentence.side[2] - sentence.side[1]
    rank = np.int64(sentence.arcs[ARC_PLACE, e]) - sentence.side[1] + 1
    w = 0.0
    if len(layout.sibling) > 0:
        block = layout.sibling_offsets[2 * node + 1]
        w += np.float64(layout.sibling[block + sibling_at(J, 0, rank)])
        w += np.float64(layout.sibling[block + sibling_at(J, rank, J + 1)])
    if len(layout.tri_sibling) > 0:
        block = layout.tri_sibling_offsets[2 * node + 1]
        w += np.float64(layout.tri_sibling[block + tri_sibling_at(J, 0, rank, J + 1)])
    return w


@numba.njit(**HELPER)
def _value_arcs(layout, chains, b, factors, sentence, forest, scratch, s, v, begin):
    """Value the arcs into v from `begin` on, which are not those of a single root."""
    keep, win = factors
    start, arcs, arc, weight = sentence.start, sentence.arcs, sentence.arc, sentence.weight
    top, free, reach = forest.words[s, FOREST_TOP], forest.state[s], forest.reach[s]
    rows = weight.shape[1]
    down, up, last = rows * s, rows * s + rows - 1, rows - 1
    base, value = forest.sums[down, SUM_BASE], forest.sums[down, SUM_VALUE]
    four, chained, bigrams = len(layout.grand_sibling) > 0, chains is not None, len(layout.head_bigram) > 0
    pairs = len(layout.grandparent) > 0 or four or chained
    gaining = win if rows == 1 else 0.0
    head, chance = arcs[ARC_HEAD], weight[0, 0]
    grandparent, offsets, first = layout.grandparent, layout.grandparent_offsets, layout.sentence_offsets[b]
    end = start[v + 1]
    total = scratch.words[WORD_CREDIT, v]
    stamp = scratch.words[WORD_STAMP, 0] = scratch.words[WORD_STAMP, 0] + 1.0
    for e in range(begin, end):
        value[e] = base[e] + total if free[e] == FREE else np.inf
    for e in range(begin, end):
        r = np.int64(top[head[e]])
        if r == 0 or free[e] != FREE or not reaches(reach, v, r):
            continue
        back = np.int64(arc[v, r])
        joint = chained or (bigrams and (v == r - 1 or v == r + 1))
        if scratch.words[WORD_STAMP, r] != stamp:
            scratch.words[WORD_STAMP, r] = stamp
            cross = _cross(layout, chains, b, factors, sentence, forest, scratch, s, v, r)
            scratch.words[WORD_CROSS, r] = cross
        w = 0.0
        if pairs and free[back] == FREE and (four or head[e] != r):
            w += chance[back] * _pair(grandparent, offsets, first, sentence, forest.pairs, down, e, back)
            if four:
                more = _pair_broken(offsets, first, sentence, forest.pairs, up, e, back)
                value[e] -= win * (1.0 - weight[1, last, back]) * more
        if joint:
            w += scratch.words[WORD_JOINT, e]
        value[e] += scratch.words[WORD_CROSS, r] + (keep * chance[e] + gaining) * w


@numba.njit(**HELPER)
def _cross(layout, chains, b, factors, sentence, forest, scratch, s, v, r):
    """Add the loss of the arcs from below v into r to the values of all arcs from below r into v.

    Parts of two lost arcs are lost once, and those of e and a lost arc are not gained.
    """
    keep, win = factors
    start, arcs, arc, weight = sentence.start, sentence.arcs, sentence.arc, sentence.weight
    top, following, size = forest.words[s, FOREST_TOP], forest.words[s, FOREST_NEXT], forest.words[s, FOREST_SIZE]
    free, sums = forest.state[s], forest.sums
    rows = weight.shape[1]
    down, up, last = rows * s, rows * s + rows - 1, rows - 1
    four, chained = len(layout.grand_sibling) > 0, chains is not None
    pairs = len(layout.grandparent) > 0 or four or chained
    gaining = win if rows == 1 else 0.0
    head, chance, lack = arcs[ARC_HEAD], weight[0, 0], weight[1, 0]
    credit, value = sums[down, SUM_CREDIT], sums[down, SUM_VALUE]
    joint = chained or (len(layout.head_bigram) > 0 and (v == r - 1 or v == r + 1))
    new_joint, end = scratch.words[WORD_NEW_JOINT], start[v + 1]
    grandparent, offsets, first = layout.grandparent, layout.grandparent_offsets, layout.sentence_offsets[b]
    straight, back = np.int64(arc[r, v]), np.int64(arc[v, r])
    doubled = pairs and free[straight] == FREE
    total = twice = twice_broken = 0.0
    if joint:
        for k in range(start[v], end):
            new_joint[k] = 0.0
    fewer = size[v] < start[r + 1] - start[r]  # to walk over the words below v, or over the arcs into r
    x = v
    for i in range(min(np.int64(size[v]), start[r + 1] - start[r])):
        if fewer:
            into = np.int64(arc[x, r])
            x = np.int64(following[x])
            if free[into] != FREE:
                continue
        else:
            into = start[r] + i
            if free[into] != FREE or top[head[into]] != v:
                continue
        total += credit[into]
        if doubled and (four or head[into] != v):
            twice += chance[into] * _pair(grandparent, offsets, first, sentence, forest.pairs, down, into, straight)
            if four:
                twice_broken += chance[into] * _pair_broken(
                    offsets, first, sentence, forest.pairs, down, into, straight
                )
        if joint:
            _join_arcs(layout, chains, b, sentence, forest, s, into, v, new_joint)
    if doubled:
        w = -keep * chance[straight] * twice
        if four:
            w += gaining * (1.0 - weight[1, last, straight]) * twice_broken
        value[straight] += gaining * twice - keep * lack[straight] * twice_broken - w
        total += w
    if pairs and free[back] == FREE:
        of_third = (sums[down, SUM_BELOW_3, back] if four else 0.0) + (
            sums[down, SUM_CHAIN_BELOW, back] if chained else 0.0
        )
        total -= keep * chance[back] * (sums[down, SUM_BELOW, back] + of_third)
        if four:
            total += win * (1.0 - weight[1, last, back]) * sums[up, SUM_BROKEN_3, back]
    if joint:
        for k in range(start[v], end):
            if free[k] == FREE:
                total -= keep * chance[k] * new_joint[k]
            if top[head[k]] == r:
                scratch.words[WORD_JOINT, k] = new_joint[k]
    return total


@numba.njit(**HELPER)
def _join_arcs(layout, chains, b, sentence, forest, s, into, v, new_joint):
    """Add to what each arc into v has with arc `into`, from below v, in head bigrams and grand-grandparents."""
    start, arcs, chance = sentence.start, sentence.arcs, sentence.weight[0, 0]
    tree, free = forest.words[s, FOREST_TREE], forest.state[s]
    first = layout.sentence_offsets[b]
    bigram_offsets = layout.head_bigram_offsets[layout.word_offsets[b] :]
    r = np.int64(arcs[ARC_MODIFIER, into])
    near = len(layout.head_bigram) > 0 and (v == r - 1 or v == r + 1)
    for k in range(start[v], start[v + 1]):
        if near:
            new_joint[k] += chance[into] * bigram(layout.head_bigram, bigram_offsets, start, arcs, k, into)
        if chains is not None:
            new_joint[k] += chance[into] * outer_arcs(chains, first, sentence, tree, free, into, k)


@numba.njit(**HELPER)
def _root_loss(layout, chains, b, sentence, forest, s):
    """Return the loss of all arcs of a single root, counting each part once."""
    start, arcs, arc, chance = sentence.start, sentence.arcs, sentence.arc, sentence.weight[0, 0]
    free, sums, root = forest.state[s], forest.sums, forest.root
    down = sentence.weight.shape[1] * s
    four, chained = len(layout.grand_sibling) > 0, chains is not None
    bigram_offsets = layout.head_bigram_offsets[layout.word_offsets[b] :]
    total = 0.0
    open_root = False
    for place in range(sentence.side[1], sentence.side[2]):
        e = np.int64(arcs[ARC_OUTWARD, place])
        if free[e] != FREE:
            continue
        open_root = True
        m = np.int64(arcs[ARC_MODIFIER, e])
        expected = sums[down, SUM_ALONE, e] + (sums[down, SUM_ABOVE_3, e] if four else 0.0)
        if chained:
            expected += sums[down, SUM_CHAIN_ABOVE, e]
        total += chance[e] * (expected - 0.5 * root[down, ROOT_ANY, m])
        if len(layout.head_bigram) > 0 and m < layout.lengths[b] and free[arc[0, m + 1]] == FREE:
            other = np.int64(arc[0, m + 1])
            total -= chance[e] * chance[other] * bigram(layout.head_bigram, bigram_offsets, start, arcs, e, other)
    if open_root and (len(layout.sibling) > 0 or len(layout.tri_sibling) > 0):
        total += root[down, ROOT_KEPT, 0]
    return total


@numba.njit(**HELPER)
def _pair(grandparent, offsets, first, sentence, pairs, row, g, k):
    """Expected weight of the grandparent, grand-siblings and chains of arc g and arc k just below it, given both."""
    arcs = sentence.arcs
    e = offsets[first + k] + g - sentence.start[arcs[ARC_MODIFIER, g]]
    w = 0.0
    if arcs[ARC_HEAD, g] != arcs[ARC_MODIFIER, k]:
        if len(grandparent) > 0:
            w += grandparent[e]
        if pairs.shape[2] > 1:
            w += pairs[row, PAIR_HELD, e - offsets[first]]
        if pairs.shape[1] > PAIR_CHAIN:
            w += pairs[row, PAIR_CHAIN, e - offsets[first]]
    return w


@numba.njit(**HELPER)
def _pair_broken(offsets, first, sentence, pairs, row, g, k):
    """Expected weight of the grand-siblings of arc g that arc k just below it would break."""
    e = offsets[first + k] + g - sentence.start[sentence.arcs[ARC_MODIFIER, g]]
    return pairs[row, PAIR_BROKEN, e - offsets[first]]
