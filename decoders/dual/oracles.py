"""Oracles of the factors: the best configuration of each, a bound for all trees, and what each arc loses.

`bound` gives for each arc how much is lost at least by every tree with that arc: the sum over factors of the best
configuration less the best with the arc. An arc which loses more than the gap between bound and best known tree is in
no better tree. For the tree, that loss is the reduced cost in the dual of Edmonds' linear program, which contraction
computes on the way.

One look at all factors takes

    O(n K J^2) for the automata with incoming arcs, O(n J^3) for those with two modifiers,
    O(n K^2) for the sequence, O(n^2) for the tree.
"""

from __future__ import annotations

import numba
import numpy as np

from arbora.decoders.dual.graph import (
    BACK,
    BACKWARD,
    BARRED,
    BEST,
    BEST_WITH,
    CELL,
    CHOSEN,
    CONSTANT,
    DECIDED,
    FACTOR_BAR,
    FACTOR_HEADS,
    FACTOR_INCOMING,
    FACTOR_KIND,
    FACTOR_LINK,
    FACTOR_LINKS,
    FACTOR_PLACE,
    FACTOR_SIZE,
    FACTOR_STRIDE,
    FACTOR_TABLE,
    FACTOR_TOP,
    FACTOR_UP,
    FIRST_MEMBER,
    FORWARD,
    FOUND,
    INCUMBENT,
    INPUT,
    KIND_CHAIN,
    KIND_SEQUENCE,
    KIND_TRIPLE,
    LINK_ARC,
    LINK_OF,
    LIVE_ARC,
    LIVE_HEAD,
    LIVE_LINK,
    LIVE_START,
    LOSS,
    MARK,
    MEAN,
    MEMBER,
    NEXT_WORD,
    NODE_OF,
    ONLY,
    OUTER,
    PAIR_SCORE,
    PATH,
    PREFIX,
    REWARD,
    SCORE,
    SHARE,
    SIZE_FACTORS,
    SIZE_PAIR_LINK,
    SIZE_PAIRS,
    SIZE_WORDS,
    SOURCE,
    STATE,
    TOP_WITH,
    TREE_HEAD,
    UP_CELL,
    WEIGHT,
    WORD_OF,
)
from arbora.decoders.dual.normalisation import is_open
from arbora.decoders.dual.solutions import offer
from arbora.decoders.kernels.options import CALLED, HELPER
from arbora.decoders.mst import NODE_DONE, NODE_FRESH, NODE_INNER, Forest, best_source, contract, count_roots, expand
from arbora.decoders.parts.layout import tri_sibling_at

# Each oracle reads INPUT, the score of each of the factor's links, writes the links of the best configuration to
# FOUND, and gives its value, the number of its links, and what the factor itself scores.


@numba.njit(**CALLED)
def oracle(graph, s, single_root):
    """Best configuration of a factor under the scores in INPUT: its value, size, and score of its own."""
    at, floats, ints = graph.at, graph.floats, graph.ints
    kind = graph.factor[s, FACTOR_KIND]
    if kind == KIND_CHAIN:
        return _best_chain(graph, s)
    if kind == KIND_TRIPLE:
        return _best_triple(graph, s)
    if kind == KIND_SEQUENCE:
        return _best_sequence(graph, s)
    weight, inputs, found = at[WEIGHT], at[INPUT], at[FOUND]
    live_start, live_link, chosen = at[LIVE_START], at[LIVE_LINK], at[CHOSEN]
    n = graph.sizes[SIZE_WORDS]
    for p in range(ints[live_start + 1], ints[live_start + n + 1]):
        e = ints[live_link + p]
        floats[weight + p] = floats[inputs + e] if e >= 0 else 0.0
    best_tree(graph, single_root)
    size = 0
    value = 0.0
    for m in range(1, n + 1):
        e = ints[live_link + ints[chosen + m]]
        if e >= 0:
            ints[found + size] = e
            value += floats[inputs + e]
            size += 1
    return value, size, 0.0


@numba.njit(**CALLED)
def _read_rewards(graph, s):
    """Copy the inputs of an automaton's modifiers to REWARD; decided ones get 0. Returns the likeliest grandparent."""
    at, floats, ints = graph.at, graph.floats, graph.ints
    reward, inputs, link_of = at[REWARD], at[INPUT], at[LINK_OF]
    size, place = graph.factor[s, FACTOR_SIZE], graph.factor[s, FACTOR_PLACE]
    for j in range(1, size + 1):
        e = ints[link_of + place + j]
        floats[reward + j] = floats[inputs + e] if e >= 0 else 0.0
    floats[reward + size + 1] = 0.0
    first = 0
    for g in range(1, graph.factor[s, FACTOR_INCOMING]):
        if floats[inputs + g] > floats[inputs + first]:
            first = g
    return first


@numba.njit(**HELPER)
def _in_turn(turn, first, incoming):
    """Return the grandparent of each turn from -2 on: all at once (-1), the likeliest, then others; -2 for none."""
    if turn == -2:
        return -1 if incoming > 0 else -2
    if turn == -1:
        return first
    return turn if turn != first else -2


@numba.njit(**CALLED)
def _chain_forward(graph, s, g):
    """F(j) = input_j + grandparent(g, j) + max_i F(i) + sibling(i, j) + grand_sibling(g, i, j); value at END.

    With g = -1 each score is the largest over all g, so that the value is no less than that of any of them.
    """
    at, floats, ints = graph.at, graph.floats, graph.ints
    factor = graph.factor
    forward, back, reward = at[FORWARD], at[BACK], at[REWARD]
    cell, up_cell, decided = at[CELL], at[UP_CELL], at[DECIDED]
    size, place = factor[s, FACTOR_SIZE], factor[s, FACTOR_PLACE]
    column = factor[s, FACTOR_TABLE] + g * factor[s, FACTOR_STRIDE] if g >= 0 else factor[s, FACTOR_TOP]
    up = factor[s, FACTOR_UP] + g * size - 1
    has_up = g >= 0 and factor[s, FACTOR_UP] >= 0
    barred = ints[at[BARRED] + factor[s, FACTOR_BAR] + g] if g >= 0 else 0
    floats[forward] = 0.0
    for j in range(1, size + 2):
        best, before = -np.inf, 0
        for i in range(ints[decided + place + j], j):
            value = floats[forward + i] + floats[cell + column + i]
            if value > best:
                best, before = value, i
        column += j
        best += floats[reward + j]
        if has_up and j <= size:
            best += floats[up_cell + up + j]
        floats[forward + j] = -np.inf if j == barred else best
        ints[back + j] = before
    return floats[forward + size + 1]


@numba.njit(**CALLED)
def _best_chain(graph, s):
    at, floats, ints = graph.at, graph.floats, graph.ints
    factor = graph.factor
    cell, up_cell, inputs = at[CELL], at[UP_CELL], at[INPUT]
    back, found, link_of = at[BACK], at[FOUND], at[LINK_OF]
    size, place, incoming, heads = (
        factor[s, FACTOR_SIZE],
        factor[s, FACTOR_PLACE],
        factor[s, FACTOR_INCOMING],
        factor[s, FACTOR_HEADS],
    )
    first = _read_rewards(graph, s)
    # Grandparents that cannot reach the best are left out; at last the best comes once more, for its traces.
    best, best_g, last, most = -np.inf, 0, -2, np.inf
    for turn in range(-2, heads + 1):
        g = best_g if turn == heads else _in_turn(turn, first, incoming)
        if g == -2 or g == last or (0 <= turn < heads and floats[inputs + g] + most <= best):
            continue
        value = _chain_forward(graph, s, g)
        last = g
        if g < 0:
            most = value
            continue
        if incoming > 0:
            value += floats[inputs + g]
        if value > best:
            best, best_g = value, g
    count = 0
    if incoming > 0:
        ints[found] = best_g
        count = 1
    own = 0.0
    table = factor[s, FACTOR_TABLE] + best_g * factor[s, FACTOR_STRIDE]
    j = size + 1
    while j > 0:
        i = np.int64(ints[back + j])
        own += floats[cell + table + j * (j - 1) // 2 + i]
        if i > 0:
            if factor[s, FACTOR_UP] >= 0:
                own += floats[up_cell + factor[s, FACTOR_UP] + best_g * size + i - 1]
            if ints[link_of + place + i] >= 0:
                ints[found + count] = ints[link_of + place + i]
                count += 1
        j = i
    return best, count, own


@numba.njit(**CALLED)
def _triple_forward(graph, s):
    """F(i, j) = input_j + max_q F(q, i) + tri_sibling(q, i, j); the value at END, and the last state, -1 if none."""
    at, floats, ints = graph.at, graph.floats, graph.ints
    factor = graph.factor
    forward, back, reward = at[FORWARD], at[BACK], at[REWARD]
    cell, decided = at[CELL], at[DECIDED]
    size, place, table = factor[s, FACTOR_SIZE], factor[s, FACTOR_PLACE], factor[s, FACTOR_TABLE]
    last, last_state = -np.inf, -1
    if ints[decided + place + size + 1] == 0:
        last = 0.0
    for j in range(1, size + 2):
        if j <= size:
            floats[forward + j * (j - 1) // 2] = floats[reward + j] if ints[decided + place + j] == 0 else -np.inf
            ints[back + j * (j - 1) // 2] = -1
        for i in range(1, j):
            best, before = -np.inf, -1
            if i >= ints[decided + place + j]:
                for q in range(i):
                    value = (
                        floats[forward + i * (i - 1) // 2 + q] + floats[cell + table + tri_sibling_at(size, q, i, j)]
                    )
                    if value > best:
                        best, before = value, i * (i - 1) // 2 + q
            if j <= size:
                floats[forward + j * (j - 1) // 2 + i] = best + floats[reward + j]
                ints[back + j * (j - 1) // 2 + i] = before
            elif best > last:
                last, last_state = best, before
    return last, last_state


@numba.njit(**CALLED)
def _best_triple(graph, s):
    at, floats, ints = graph.at, graph.floats, graph.ints
    factor = graph.factor
    cell, back, found, link_of = at[CELL], at[BACK], at[FOUND], at[LINK_OF]
    size, place, table = factor[s, FACTOR_SIZE], factor[s, FACTOR_PLACE], factor[s, FACTOR_TABLE]
    _read_rewards(graph, s)
    best, state = _triple_forward(graph, s)
    count = 0
    own = 0.0
    outer = size + 1
    while state >= 0:
        j = 1
        while j * (j + 1) // 2 <= state:
            j += 1
        own += floats[cell + table + tri_sibling_at(size, state - j * (j - 1) // 2, j, outer)]
        if ints[link_of + place + j] >= 0:
            ints[found + count] = ints[link_of + place + j]
            count += 1
        outer = j
        state = np.int64(ints[back + state])
    return best, count, own


@numba.njit(**CALLED)
def _sequence_forward(graph, s):
    """F(m, h) = input + max_h' F(m - 1, h') + head_bigram(m, h', h), for all links."""
    at, floats, ints = graph.at, graph.floats, graph.ints
    factor = graph.factor
    forward, back, inputs = at[FORWARD], at[BACK], at[INPUT]
    cell, decided, link_of = at[CELL], at[DECIDED], at[LINK_OF]
    place, table = factor[s, FACTOR_PLACE], factor[s, FACTOR_TABLE]
    for e in range(ints[link_of + place + 1]):
        floats[forward + e] = floats[inputs + e]
    for i in range(1, factor[s, FACTOR_SIZE]):
        begin, end, stop = ints[link_of + place + i - 1], ints[link_of + place + i], ints[link_of + place + i + 1]
        block = table + ints[decided + place + i]
        for e in range(end, stop):
            best, before = -np.inf, np.int64(begin)
            entry = block + e - end
            for q in range(begin, end):
                value = floats[forward + q] + floats[cell + entry]
                entry += stop - end
                if value > best:
                    best, before = value, np.int64(q)
            floats[forward + e] = best + floats[inputs + e]
            ints[back + e] = before


@numba.njit(**CALLED)
def _best_sequence(graph, s):
    at, floats, ints = graph.at, graph.floats, graph.ints
    factor = graph.factor
    forward, back, cell = at[FORWARD], at[BACK], at[CELL]
    decided, link_of, found = at[DECIDED], at[LINK_OF], at[FOUND]
    place, table, size = factor[s, FACTOR_PLACE], factor[s, FACTOR_TABLE], factor[s, FACTOR_SIZE]
    _sequence_forward(graph, s)
    best, e = -np.inf, np.int64(0)
    for q in range(ints[link_of + place + size - 1], ints[link_of + place + size]):
        if floats[forward + q] > best:
            best, e = floats[forward + q], np.int64(q)
    own = 0.0
    for i in range(size - 1, -1, -1):
        ints[found + size - 1 - i] = e
        if i > 0:
            before = ints[back + e]
            begin, end, stop = (
                ints[link_of + place + i - 1],
                ints[link_of + place + i],
                ints[link_of + place + i + 1],
            )
            own += floats[cell + table + ints[decided + place + i] + (before - begin) * (stop - end) + e - end]
            e = before
    return best, size, own


@numba.njit(**CALLED)
def best_tree(graph, single_root):
    """Best tree under WEIGHT: its heads, and CHOSEN, the place of each word's arc among the live ones.

    Chu-Liu-Edmonds as in `mst`, for one sentence and float64 weights. `best` and `outer` are left as the dual solution,
    from which `_tree_losses` reads reduced costs. Returns 0 if there is no tree, 1, or 2 where the root's arcs had to
    be put last to get a single root.
    """
    n, row = graph.sizes[SIZE_WORDS], graph.row
    weight, best, chosen, tree_head = (
        graph.floats[graph.at[WEIGHT] :],
        graph.floats[graph.at[BEST] :],
        graph.ints[graph.at[CHOSEN] :],
        graph.ints[graph.at[TREE_HEAD] :],
    )
    live_start, live_head, source = (
        graph.ints[graph.at[LIVE_START] :],
        graph.ints[graph.at[LIVE_HEAD] :],
        graph.ints[graph.at[SOURCE] :],
    )
    member, first_member, state = (
        graph.ints[graph.at[MEMBER] :],
        graph.ints[graph.at[FIRST_MEMBER] :],
        graph.ints[graph.at[STATE] :],
    )
    node_of, word_of, next_word = (
        graph.ints[graph.at[NODE_OF] :],
        graph.ints[graph.at[WORD_OF] :],
        graph.ints[graph.at[NEXT_WORD] :],
    )
    path, outer = graph.ints[graph.at[PATH] :], graph.ints[graph.at[OUTER] :]
    forest = Forest(row, best, source, member, first_member, state, node_of, word_of, next_word, outer, path)
    node_of[0] = 0
    state[0] = NODE_DONE
    for m in range(1, n + 1):
        state[m] = NODE_FRESH
        outer[m] = 0
        node_of[m] = word_of[m] = next_word[m] = m
        source[m] = -1

    free = n + 1
    first_member[0] = 0
    root_last = False
    while True:
        for node in range(1, free):  # choose for all, then again for those that must leave the root
            if state[node] == NODE_FRESH and source[node] <= 0 and node <= n:
                p = live_start[node]
                if root_last and live_head[p] == 0 and p + 1 < live_start[node + 1]:
                    p += 1
                chosen[node] = p
                for q in range(p + 1, live_start[node + 1]):
                    if weight[q] > weight[chosen[node]]:
                        chosen[node] = q
                best[node], source[node] = weight[chosen[node]], live_head[chosen[node]]
            elif state[node] == NODE_FRESH and source[node] == 0:
                source[node] = best_source(row, node - n - 1, n, True)
                best[node] = row[node - n - 1, source[node]]
        free, unreached = contract(n, 0, live_start, live_head, weight, root_last, free, forest)
        if unreached != 0:
            return 0
        if not single_root:
            break
        if count_roots(free, forest) == 1:
            break
        if root_last:
            return 0
        root_last = True
        for node in range(1, free):
            if state[node] != NODE_INNER:
                state[node] = NODE_FRESH

    expand(n, 0, live_start, live_head, weight, free, forest, tree_head)
    for m in range(1, n + 1):
        if live_head[chosen[m]] != tree_head[m]:
            chosen[m] = live_start[m]
            while live_head[chosen[m]] != tree_head[m]:
                chosen[m] += 1
    return 2 if root_last else 1


# Bounds: the best of each factor, and what each arc loses in it.


@numba.njit(**CALLED)
def bound(graph, layout, b, single_root):
    """Sum of all factors' maxima under their shares, no less than any tree, -inf if there is none.

    Unless this meets the best tree known, LOSS then has for each arc how much less than the bound the trees with this
    arc score, at least. On the way trees are offered: the best one of the tree factor, that of the least losses, and
    that nearest to u.
    """
    at, floats, ints = graph.at, graph.floats, graph.ints
    loss, weight, share, mean = at[LOSS], at[WEIGHT], at[SHARE], at[MEAN]
    live_start, live_arc, live_link = at[LIVE_START], at[LIVE_ARC], at[LIVE_LINK]
    score, chosen, n = at[SCORE], at[CHOSEN], graph.sizes[SIZE_WORDS]
    total = 0.0
    for way in range(3):
        for p in range(ints[live_start + 1], ints[live_start + n + 1]):
            a, e = ints[live_arc + p], ints[live_link + p]
            if e < 0:
                floats[weight + p] = 0.0
            elif way == 0:
                floats[weight + p] = floats[share + e]
            elif way == 1:
                floats[weight + p] = max(-floats[loss + a], -1e100)
            else:
                floats[weight + p] = floats[mean + a] + 1e-9 * floats[score + a]
        status = best_tree(graph, single_root)
        if status == 0:
            return -np.inf
        if way == 0:
            total = floats[at[CONSTANT]] + _other_maxima(graph)
            for m in range(1, n + 1):
                total += floats[weight + ints[chosen + m]]
            _tree_losses(graph, status == 2)
        offer(graph, layout, b)
        if way == 0:
            if not is_open(graph, total):
                return total
            _other_losses(graph, total - floats[at[INCUMBENT]])
    return total


@numba.njit(**CALLED)
def _other_maxima(graph):
    """Sum of the maxima of all factors but the tree."""
    at, floats, factor = graph.at, graph.floats, graph.factor
    share, inputs, pair_score = at[SHARE], at[INPUT], at[PAIR_SCORE]
    total = 0.0
    for s in range(1, graph.sizes[SIZE_FACTORS]):
        for e in range(factor[s, FACTOR_LINKS]):
            floats[inputs + e] = floats[share + factor[s, FACTOR_LINK] + e]
        if factor[s, FACTOR_KIND] == KIND_CHAIN:
            value, _, _ = _best_chain(graph, s)
        elif factor[s, FACTOR_KIND] == KIND_TRIPLE:
            value, _, _ = _best_triple(graph, s)
        else:
            value, _, _ = _best_sequence(graph, s)
        total += value
    e = graph.sizes[SIZE_PAIR_LINK]
    for i in range(graph.sizes[SIZE_PAIRS]):
        one, two = floats[share + e], floats[share + e + 1]
        total += max(0.0, max(one, two), one + two + floats[pair_score + i])
        e += 2
    return total


@numba.njit(**CALLED)
def _tree_losses(graph, root_last):
    """Set the loss of each arc to its reduced cost: `best` summed over nodes that hold m but not h, less its weight.

    Where the root's arcs had to be put last, a root's arc into another node than the one that needs it makes two roots.
    """
    at, floats, ints = graph.at, graph.floats, graph.ints
    n = graph.sizes[SIZE_WORDS]
    loss, weight, best, prefix = at[LOSS], at[WEIGHT], at[BEST], at[PREFIX]
    live_start, live_arc, live_head = at[LIVE_START], at[LIVE_ARC], at[LIVE_HEAD]
    only, outer, mark, source = at[ONLY], at[OUTER], at[MARK], at[SOURCE]
    for node in range(2 * n + 1):
        ints[mark + node] = 0
    for m in range(1, n + 1):
        if ints[only + m] >= 0:
            continue
        total = 0.0
        node, top = m, m
        while node > 0:
            ints[mark + node] = m
            floats[prefix + node] = total  # of the nodes inside
            total += floats[best + node]
            top = node
            node = ints[outer + node]
        for p in range(ints[live_start + m], ints[live_start + m + 1]):
            nodes = total
            node = ints[live_head + p]
            while node > 0 and ints[mark + node] != m:
                node = ints[outer + node]
            if node > 0:
                nodes = floats[prefix + node]
            floats[loss + ints[live_arc + p]] = max(nodes - floats[weight + p], 0.0)
            if ints[live_head + p] == 0 and root_last and ints[source + top] != 0:
                floats[loss + ints[live_arc + p]] = np.inf


@numba.njit(**CALLED)
def _other_losses(graph, margin):
    """Add what arcs lose in all factors but the tree; losses beyond the margin may be taken for smaller ones."""
    at, floats, ints = graph.at, graph.floats, graph.ints
    factor = graph.factor
    loss, share, inputs = at[LOSS], at[SHARE], at[INPUT]
    best_with, pair_score, link_arc = at[BEST_WITH], at[PAIR_SCORE], at[LINK_ARC]
    for s in range(1, graph.sizes[SIZE_FACTORS]):
        link = factor[s, FACTOR_LINK]
        for e in range(factor[s, FACTOR_LINKS]):
            floats[inputs + e] = floats[share + link + e]
            floats[best_with + e] = -np.inf
        if factor[s, FACTOR_KIND] == KIND_CHAIN:
            value = _chain_maxima(graph, s, margin)
        elif factor[s, FACTOR_KIND] == KIND_TRIPLE:
            value = _triple_maxima(graph, s)
        else:
            value = _sequence_maxima(graph, s)
        for e in range(factor[s, FACTOR_LINKS]):
            floats[loss + ints[link_arc + link + e]] += value - floats[best_with + e]
    e = graph.sizes[SIZE_PAIR_LINK]
    for i in range(graph.sizes[SIZE_PAIRS]):
        one, two = floats[share + e], floats[share + e + 1]
        both = one + two + floats[pair_score + i]
        value = max(0.0, max(one, two), both)
        floats[loss + ints[link_arc + e]] += value - max(one, both)
        floats[loss + ints[link_arc + e + 1]] += value - max(two, both)
        e += 2


@numba.njit(**CALLED)
def _chain_maxima(graph, s, margin):
    """Best value, and for each link the best of a configuration with it.

    Grandparents that lose more than the margin are not looked at one by one: what they allow at most is enough.
    """
    at, floats, ints = graph.at, graph.floats, graph.ints
    factor = graph.factor
    forward, backward, best_with = at[FORWARD], at[BACKWARD], at[BEST_WITH]
    cell, up_cell, inputs, reward = at[CELL], at[UP_CELL], at[INPUT], at[REWARD]
    link_of, decided, top_with = at[LINK_OF], at[DECIDED], at[TOP_WITH]
    size, place, incoming = factor[s, FACTOR_SIZE], factor[s, FACTOR_PLACE], factor[s, FACTOR_INCOMING]
    first = _read_rewards(graph, s)
    best, most, passed = -np.inf, np.inf, -np.inf
    for turn in range(-2, factor[s, FACTOR_HEADS]):
        g = _in_turn(turn, first, incoming)
        if g == -2:
            continue
        if turn >= 0 and floats[inputs + g] + most < best - margin:
            floats[best_with + g] = floats[inputs + g] + most
            passed = max(passed, floats[inputs + g])
            continue
        value = _chain_forward(graph, s, g)
        own = 0.0
        if g < 0:
            most = value
        else:
            own = floats[inputs + g] if incoming > 0 else 0.0
            value += own
            if incoming > 0:
                floats[best_with + g] = value
            best = max(best, value)
        table = factor[s, FACTOR_TABLE] + g * factor[s, FACTOR_STRIDE] if g >= 0 else factor[s, FACTOR_TOP]
        up = factor[s, FACTOR_UP] + g * size - 1
        barred = ints[at[BARRED] + factor[s, FACTOR_BAR] + g] if g >= 0 else 0
        floats[backward + size + 1] = own
        for i in range(size + 1):
            floats[backward + i] = -np.inf
        for j in range(size + 1, 0, -1):
            if j == barred:
                continue
            after = floats[backward + j]
            if j <= size:
                e = ints[link_of + place + j]
                if g < 0:
                    floats[top_with + j] = floats[forward + j] + after
                elif e >= 0:
                    floats[best_with + e] = max(floats[best_with + e], floats[forward + j] + after)
                after += floats[reward + j]
                if g >= 0 and factor[s, FACTOR_UP] >= 0:
                    after += floats[up_cell + up + j]
            column = cell + table + j * (j - 1) // 2
            for i in range(ints[decided + place + j], j):
                value = after + floats[column + i]
                if value > floats[backward + i]:
                    floats[backward + i] = value
    if passed > -np.inf:
        for j in range(1, size + 1):
            e = ints[link_of + place + j]
            if e >= 0:
                floats[best_with + e] = max(floats[best_with + e], passed + floats[top_with + j])
    return best


@numba.njit(**CALLED)
def _triple_maxima(graph, s):
    at, floats, ints = graph.at, graph.floats, graph.ints
    factor = graph.factor
    forward, backward, best_with = at[FORWARD], at[BACKWARD], at[BEST_WITH]
    cell, reward, link_of, decided = at[CELL], at[REWARD], at[LINK_OF], at[DECIDED]
    size, place, table = factor[s, FACTOR_SIZE], factor[s, FACTOR_PLACE], factor[s, FACTOR_TABLE]
    _read_rewards(graph, s)
    best, _ = _triple_forward(graph, s)
    for j in range(size, 0, -1):  # B(i, j) = max_c tri_sibling(i, j, c) + input_c + B(j, c)
        e = ints[link_of + place + j]
        for i in range(j):
            after = -np.inf
            for c in range(j + 1, size + 2):
                if j >= ints[decided + place + c]:
                    value = floats[cell + table + tri_sibling_at(size, i, j, c)]
                    if c <= size:
                        value += floats[reward + c] + floats[backward + c * (c - 1) // 2 + j]
                    if value > after:
                        after = value
            floats[backward + j * (j - 1) // 2 + i] = after
            if e >= 0:
                floats[best_with + e] = max(floats[best_with + e], floats[forward + j * (j - 1) // 2 + i] + after)
    return best


@numba.njit(**CALLED)
def _sequence_maxima(graph, s):
    at, floats, ints = graph.at, graph.floats, graph.ints
    factor = graph.factor
    forward, backward, best_with = at[FORWARD], at[BACKWARD], at[BEST_WITH]
    cell, inputs, link_of, decided = at[CELL], at[INPUT], at[LINK_OF], at[DECIDED]
    place, table, size = factor[s, FACTOR_PLACE], factor[s, FACTOR_TABLE], factor[s, FACTOR_SIZE]
    _sequence_forward(graph, s)
    best = -np.inf
    for e in range(ints[link_of + place + size - 1], ints[link_of + place + size]):
        floats[backward + e] = 0.0
        floats[best_with + e] = floats[forward + e]
        best = max(best, floats[forward + e])
    for i in range(size - 1, 0, -1):
        begin, end, stop = ints[link_of + place + i - 1], ints[link_of + place + i], ints[link_of + place + i + 1]
        entry = table + ints[decided + place + i]
        for q in range(begin, end):
            after = -np.inf
            for e in range(end, stop):
                value = floats[cell + entry] + floats[inputs + e] + floats[backward + e]
                entry += 1
                if value > after:
                    after = value
            floats[backward + q] = after
            floats[best_with + q] = floats[forward + q] + after
    return best
