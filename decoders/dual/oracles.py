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
    BAR,
    BARRED,
    BEST,
    BEST_WITH,
    CELL,
    CHAIN,
    CHOSEN,
    CONSTANT,
    DECIDED,
    FACTORS,
    FIRST_MEMBER,
    FORWARD,
    FOUND,
    HEADS,
    INCOMING,
    INCUMBENT,
    INPUT,
    KIND,
    LINK,
    LINK_ARC,
    LINK_OF,
    LINKS,
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
    PAIR_LINK,
    PAIR_SCORE,
    PAIRS,
    PATH,
    PLACE,
    PREFIX,
    REWARD,
    SCORE,
    SEQUENCE,
    SHARE,
    SIZE,
    SOURCE,
    STATE,
    STRIDE,
    TABLE,
    TOP,
    TOP_WITH,
    TREE_HEAD,
    TRIPLE,
    UP,
    UP_CELL,
    WEIGHT,
    WORD_OF,
    N,
)
from arbora.decoders.dual.normalisation import is_open
from arbora.decoders.dual.solutions import offer
from arbora.decoders.kernels.options import CALLED, HELPER, INLINED
from arbora.decoders.mst import NODE_DONE, NODE_FRESH, NODE_INNER, Forest, best_source, contract, count_roots, expand
from arbora.decoders.parts.layout import tri_sibling_at

# Each oracle reads INPUT, the score of each of the factor's links, writes the links of the best configuration to
# FOUND, and gives its value, the number of its links, and what the factor itself scores.


@numba.njit(**INLINED)
def oracle(graph, s, single_root):
    """Best configuration of a factor under the scores in INPUT: its value, size, and score of its own."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    kind = graph.factor[s, KIND]
    if kind == CHAIN:
        return _best_chain(graph, s)
    if kind == TRIPLE:
        return _best_triple(graph, s)
    if kind == SEQUENCE:
        return _best_sequence(graph, s)
    weight, inputs, found = at[WEIGHT], at[INPUT], at[FOUND]
    live_start, live_link, chosen = at[LIVE_START], at[LIVE_LINK], at[CHOSEN]
    n = graph.sizes[N]
    for p in range(wholes[live_start + 1], wholes[live_start + n + 1]):
        e = wholes[live_link + p]
        reals[weight + p] = reals[inputs + e] if e >= 0 else 0.0
    best_tree(graph, single_root)
    size = 0
    value = 0.0
    for m in range(1, n + 1):
        e = wholes[live_link + wholes[chosen + m]]
        if e >= 0:
            wholes[found + size] = e
            value += reals[inputs + e]
            size += 1
    return value, size, 0.0


@numba.njit(**CALLED)
def _read_rewards(graph, s):
    """Copy the inputs of an automaton's modifiers to REWARD; decided ones get 0. Returns the likeliest grandparent."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    reward, inputs, link_of = at[REWARD], at[INPUT], at[LINK_OF]
    size, place = graph.factor[s, SIZE], graph.factor[s, PLACE]
    for j in range(1, size + 1):
        e = wholes[link_of + place + j]
        reals[reward + j] = reals[inputs + e] if e >= 0 else 0.0
    reals[reward + size + 1] = 0.0
    first = 0
    for g in range(1, graph.factor[s, INCOMING]):
        if reals[inputs + g] > reals[inputs + first]:
            first = g
    return first


@numba.njit(**HELPER)
def _in_turn(turn, first, incoming):
    """Which grandparent comes in turns from -2 on: all at once (-1), the likeliest, then the others; -2 for none."""
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
    at, reals, wholes = graph.at, graph.real, graph.whole
    factor = graph.factor
    forward, back, reward = at[FORWARD], at[BACK], at[REWARD]
    cell, up_cell, decided = at[CELL], at[UP_CELL], at[DECIDED]
    size, place = factor[s, SIZE], factor[s, PLACE]
    column = factor[s, TABLE] + g * factor[s, STRIDE] if g >= 0 else factor[s, TOP]
    up = factor[s, UP] + g * size - 1
    has_up = g >= 0 and factor[s, UP] >= 0
    barred = wholes[at[BARRED] + factor[s, BAR] + g] if g >= 0 else 0
    reals[forward] = 0.0
    for j in range(1, size + 2):
        best, before = -np.inf, 0
        for i in range(wholes[decided + place + j], j):
            value = reals[forward + i] + reals[cell + column + i]
            if value > best:
                best, before = value, i
        column += j
        best += reals[reward + j]
        if has_up and j <= size:
            best += reals[up_cell + up + j]
        reals[forward + j] = -np.inf if j == barred else best
        wholes[back + j] = before
    return reals[forward + size + 1]


@numba.njit(**CALLED)
def _best_chain(graph, s):
    at, reals, wholes = graph.at, graph.real, graph.whole
    factor = graph.factor
    cell, up_cell, inputs = at[CELL], at[UP_CELL], at[INPUT]
    back, found, link_of = at[BACK], at[FOUND], at[LINK_OF]
    size, place, incoming, heads = factor[s, SIZE], factor[s, PLACE], factor[s, INCOMING], factor[s, HEADS]
    first = _read_rewards(graph, s)
    # Grandparents that cannot reach the best are left out; at last the best comes once more, for its traces.
    best, best_g, last, most = -np.inf, 0, -2, np.inf
    for turn in range(-2, heads + 1):
        g = best_g if turn == heads else _in_turn(turn, first, incoming)
        if g == -2 or g == last or (0 <= turn < heads and reals[inputs + g] + most <= best):
            continue
        value = _chain_forward(graph, s, g)
        last = g
        if g < 0:
            most = value
            continue
        if incoming > 0:
            value += reals[inputs + g]
        if value > best:
            best, best_g = value, g
    count = 0
    if incoming > 0:
        wholes[found] = best_g
        count = 1
    own = 0.0
    table = factor[s, TABLE] + best_g * factor[s, STRIDE]
    j = size + 1
    while j > 0:
        i = np.int64(wholes[back + j])
        own += reals[cell + table + j * (j - 1) // 2 + i]
        if i > 0:
            if factor[s, UP] >= 0:
                own += reals[up_cell + factor[s, UP] + best_g * size + i - 1]
            if wholes[link_of + place + i] >= 0:
                wholes[found + count] = wholes[link_of + place + i]
                count += 1
        j = i
    return best, count, own


@numba.njit(**CALLED)
def _triple_forward(graph, s):
    """F(i, j) = input_j + max_q F(q, i) + tri_sibling(q, i, j); the value at END, and the last state, -1 if none."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    factor = graph.factor
    forward, back, reward = at[FORWARD], at[BACK], at[REWARD]
    cell, decided = at[CELL], at[DECIDED]
    size, place, table = factor[s, SIZE], factor[s, PLACE], factor[s, TABLE]
    last, last_state = -np.inf, -1
    if wholes[decided + place + size + 1] == 0:
        last = 0.0
    for j in range(1, size + 2):
        if j <= size:
            reals[forward + j * (j - 1) // 2] = reals[reward + j] if wholes[decided + place + j] == 0 else -np.inf
            wholes[back + j * (j - 1) // 2] = -1
        for i in range(1, j):
            best, before = -np.inf, -1
            if i >= wholes[decided + place + j]:
                for q in range(i):
                    value = reals[forward + i * (i - 1) // 2 + q] + reals[cell + table + tri_sibling_at(size, q, i, j)]
                    if value > best:
                        best, before = value, i * (i - 1) // 2 + q
            if j <= size:
                reals[forward + j * (j - 1) // 2 + i] = best + reals[reward + j]
                wholes[back + j * (j - 1) // 2 + i] = before
            elif best > last:
                last, last_state = best, before
    return last, last_state


@numba.njit(**CALLED)
def _best_triple(graph, s):
    at, reals, wholes = graph.at, graph.real, graph.whole
    factor = graph.factor
    cell, back, found, link_of = at[CELL], at[BACK], at[FOUND], at[LINK_OF]
    size, place, table = factor[s, SIZE], factor[s, PLACE], factor[s, TABLE]
    _read_rewards(graph, s)
    best, state = _triple_forward(graph, s)
    count = 0
    own = 0.0
    outer = size + 1
    while state >= 0:
        j = 1
        while j * (j + 1) // 2 <= state:
            j += 1
        own += reals[cell + table + tri_sibling_at(size, state - j * (j - 1) // 2, j, outer)]
        if wholes[link_of + place + j] >= 0:
            wholes[found + count] = wholes[link_of + place + j]
            count += 1
        outer = j
        state = np.int64(wholes[back + state])
    return best, count, own


@numba.njit(**CALLED)
def _sequence_forward(graph, s):
    """F(m, h) = input + max_h' F(m - 1, h') + head_bigram(m, h', h), for all links."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    factor = graph.factor
    forward, back, inputs = at[FORWARD], at[BACK], at[INPUT]
    cell, decided, link_of = at[CELL], at[DECIDED], at[LINK_OF]
    place, table = factor[s, PLACE], factor[s, TABLE]
    for e in range(wholes[link_of + place + 1]):
        reals[forward + e] = reals[inputs + e]
    for i in range(1, factor[s, SIZE]):
        begin, end, stop = wholes[link_of + place + i - 1], wholes[link_of + place + i], wholes[link_of + place + i + 1]
        block = table + wholes[decided + place + i]
        for e in range(end, stop):
            best, before = -np.inf, np.int64(begin)
            entry = block + e - end
            for q in range(begin, end):
                value = reals[forward + q] + reals[cell + entry]
                entry += stop - end
                if value > best:
                    best, before = value, np.int64(q)
            reals[forward + e] = best + reals[inputs + e]
            wholes[back + e] = before


@numba.njit(**CALLED)
def _best_sequence(graph, s):
    at, reals, wholes = graph.at, graph.real, graph.whole
    factor = graph.factor
    forward, back, cell = at[FORWARD], at[BACK], at[CELL]
    decided, link_of, found = at[DECIDED], at[LINK_OF], at[FOUND]
    place, table, size = factor[s, PLACE], factor[s, TABLE], factor[s, SIZE]
    _sequence_forward(graph, s)
    best, e = -np.inf, np.int64(0)
    for q in range(wholes[link_of + place + size - 1], wholes[link_of + place + size]):
        if reals[forward + q] > best:
            best, e = reals[forward + q], np.int64(q)
    own = 0.0
    for i in range(size - 1, -1, -1):
        wholes[found + size - 1 - i] = e
        if i > 0:
            before = wholes[back + e]
            begin, end, stop = (
                wholes[link_of + place + i - 1],
                wholes[link_of + place + i],
                wholes[link_of + place + i + 1],
            )
            own += reals[cell + table + wholes[decided + place + i] + (before - begin) * (stop - end) + e - end]
            e = before
    return best, size, own


@numba.njit(**CALLED)
def best_tree(graph, single_root):
    """Best tree under WEIGHT: its heads, and CHOSEN, the place of each word's arc among the live ones.

    Chu-Liu-Edmonds as in `mst`, for one sentence and float64 weights. `best` and `outer` are left as the dual solution,
    from which `_tree_losses` reads reduced costs. Returns 0 if there is no tree, 1, or 2 where the root's arcs had to
    be put last to get a single root.
    """
    n, row = graph.sizes[N], graph.row
    weight, best, chosen, tree_head = (
        graph.real[graph.at[WEIGHT] :],
        graph.real[graph.at[BEST] :],
        graph.whole[graph.at[CHOSEN] :],
        graph.whole[graph.at[TREE_HEAD] :],
    )
    live_start, live_head, source = (
        graph.whole[graph.at[LIVE_START] :],
        graph.whole[graph.at[LIVE_HEAD] :],
        graph.whole[graph.at[SOURCE] :],
    )
    member, first_member, state = (
        graph.whole[graph.at[MEMBER] :],
        graph.whole[graph.at[FIRST_MEMBER] :],
        graph.whole[graph.at[STATE] :],
    )
    node_of, word_of, next_word = (
        graph.whole[graph.at[NODE_OF] :],
        graph.whole[graph.at[WORD_OF] :],
        graph.whole[graph.at[NEXT_WORD] :],
    )
    path, outer = graph.whole[graph.at[PATH] :], graph.whole[graph.at[OUTER] :]
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


@numba.njit(**INLINED)
def bound(graph, layout, b, single_root):
    """Sum of all factors' maxima under their shares, no less than any tree, -inf if there is none.

    Unless this meets the best tree known, LOSS then has for each arc how much less than the bound the trees with this
    arc score, at least. On the way trees are offered: the best one of the tree factor, that of the least losses, and
    that nearest to u.
    """
    at, reals, wholes = graph.at, graph.real, graph.whole
    loss, weight, share, mean = at[LOSS], at[WEIGHT], at[SHARE], at[MEAN]
    live_start, live_arc, live_link = at[LIVE_START], at[LIVE_ARC], at[LIVE_LINK]
    score, chosen, n = at[SCORE], at[CHOSEN], graph.sizes[N]
    total = 0.0
    for way in range(3):
        for p in range(wholes[live_start + 1], wholes[live_start + n + 1]):
            a, e = wholes[live_arc + p], wholes[live_link + p]
            if e < 0:
                reals[weight + p] = 0.0
            elif way == 0:
                reals[weight + p] = reals[share + e]
            elif way == 1:
                reals[weight + p] = max(-reals[loss + a], -1e100)
            else:
                reals[weight + p] = reals[mean + a] + 1e-9 * reals[score + a]
        status = best_tree(graph, single_root)
        if status == 0:
            return -np.inf
        if way == 0:
            total = reals[at[CONSTANT]] + _other_maxima(graph)
            for m in range(1, n + 1):
                total += reals[weight + wholes[chosen + m]]
            _tree_losses(graph, status == 2)
        offer(graph, layout, b)
        if way == 0:
            if not is_open(graph, total):
                return total
            _other_losses(graph, total - reals[at[INCUMBENT]])
    return total


@numba.njit(**INLINED)
def _other_maxima(graph):
    """Sum of the maxima of all factors but the tree."""
    at, reals, factor = graph.at, graph.real, graph.factor
    share, inputs, pair_score = at[SHARE], at[INPUT], at[PAIR_SCORE]
    total = 0.0
    for s in range(1, graph.sizes[FACTORS]):
        for e in range(factor[s, LINKS]):
            reals[inputs + e] = reals[share + factor[s, LINK] + e]
        if factor[s, KIND] == CHAIN:
            value, _, _ = _best_chain(graph, s)
        elif factor[s, KIND] == TRIPLE:
            value, _, _ = _best_triple(graph, s)
        else:
            value, _, _ = _best_sequence(graph, s)
        total += value
    e = graph.sizes[PAIR_LINK]
    for i in range(graph.sizes[PAIRS]):
        one, two = reals[share + e], reals[share + e + 1]
        total += max(0.0, max(one, two), one + two + reals[pair_score + i])
        e += 2
    return total


@numba.njit(**CALLED)
def _tree_losses(graph, root_last):
    """Set the loss of each arc to its reduced cost: `best` summed over nodes that hold m but not h, less its weight.

    Where the root's arcs had to be put last, a root's arc into another node than the one that needs it makes two roots.
    """
    at, reals, wholes = graph.at, graph.real, graph.whole
    n = graph.sizes[N]
    loss, weight, best, prefix = at[LOSS], at[WEIGHT], at[BEST], at[PREFIX]
    live_start, live_arc, live_head = at[LIVE_START], at[LIVE_ARC], at[LIVE_HEAD]
    only, outer, mark, source = at[ONLY], at[OUTER], at[MARK], at[SOURCE]
    for node in range(2 * n + 1):
        wholes[mark + node] = 0
    for m in range(1, n + 1):
        if wholes[only + m] >= 0:
            continue
        total = 0.0
        node, top = m, m
        while node > 0:
            wholes[mark + node] = m
            reals[prefix + node] = total  # of the nodes inside
            total += reals[best + node]
            top = node
            node = wholes[outer + node]
        for p in range(wholes[live_start + m], wholes[live_start + m + 1]):
            nodes = total
            node = wholes[live_head + p]
            while node > 0 and wholes[mark + node] != m:
                node = wholes[outer + node]
            if node > 0:
                nodes = reals[prefix + node]
            reals[loss + wholes[live_arc + p]] = max(nodes - reals[weight + p], 0.0)
            if wholes[live_head + p] == 0 and root_last and wholes[source + top] != 0:
                reals[loss + wholes[live_arc + p]] = np.inf


@numba.njit(**INLINED)
def _other_losses(graph, margin):
    """Add what arcs lose in all factors but the tree; losses beyond the margin may be taken for smaller ones."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    factor = graph.factor
    loss, share, inputs = at[LOSS], at[SHARE], at[INPUT]
    best_with, pair_score, link_arc = at[BEST_WITH], at[PAIR_SCORE], at[LINK_ARC]
    for s in range(1, graph.sizes[FACTORS]):
        link = factor[s, LINK]
        for e in range(factor[s, LINKS]):
            reals[inputs + e] = reals[share + link + e]
            reals[best_with + e] = -np.inf
        if factor[s, KIND] == CHAIN:
            value = _chain_maxima(graph, s, margin)
        elif factor[s, KIND] == TRIPLE:
            value = _triple_maxima(graph, s)
        else:
            value = _sequence_maxima(graph, s)
        for e in range(factor[s, LINKS]):
            reals[loss + wholes[link_arc + link + e]] += value - reals[best_with + e]
    e = graph.sizes[PAIR_LINK]
    for i in range(graph.sizes[PAIRS]):
        one, two = reals[share + e], reals[share + e + 1]
        both = one + two + reals[pair_score + i]
        value = max(0.0, max(one, two), both)
        reals[loss + wholes[link_arc + e]] += value - max(one, both)
        reals[loss + wholes[link_arc + e + 1]] += value - max(two, both)
        e += 2


@numba.njit(**CALLED)
def _chain_maxima(graph, s, margin):
    """Best value, and for each link the best of a configuration with it.

    Grandparents that lose more than the margin are not looked at one by one: what they allow at most is enough.
    """
    at, reals, wholes = graph.at, graph.real, graph.whole
    factor = graph.factor
    forward, backward, best_with = at[FORWARD], at[BACKWARD], at[BEST_WITH]
    cell, up_cell, inputs, reward = at[CELL], at[UP_CELL], at[INPUT], at[REWARD]
    link_of, decided, top_with = at[LINK_OF], at[DECIDED], at[TOP_WITH]
    size, place, incoming = factor[s, SIZE], factor[s, PLACE], factor[s, INCOMING]
    first = _read_rewards(graph, s)
    best, most, passed = -np.inf, np.inf, -np.inf
    for turn in range(-2, factor[s, HEADS]):
        g = _in_turn(turn, first, incoming)
        if g == -2:
            continue
        if turn >= 0 and reals[inputs + g] + most < best - margin:
            reals[best_with + g] = reals[inputs + g] + most
            passed = max(passed, reals[inputs + g])
            continue
        value = _chain_forward(graph, s, g)
        own = 0.0
        if g < 0:
            most = value
        else:
            own = reals[inputs + g] if incoming > 0 else 0.0
            value += own
            if incoming > 0:
                reals[best_with + g] = value
            best = max(best, value)
        table = factor[s, TABLE] + g * factor[s, STRIDE] if g >= 0 else factor[s, TOP]
        up = factor[s, UP] + g * size - 1
        barred = wholes[at[BARRED] + factor[s, BAR] + g] if g >= 0 else 0
        reals[backward + size + 1] = own
        for i in range(size + 1):
            reals[backward + i] = -np.inf
        for j in range(size + 1, 0, -1):
            if j == barred:
                continue
            after = reals[backward + j]
            if j <= size:
                e = wholes[link_of + place + j]
                if g < 0:
                    reals[top_with + j] = reals[forward + j] + after
                elif e >= 0:
                    reals[best_with + e] = max(reals[best_with + e], reals[forward + j] + after)
                after += reals[reward + j]
                if g >= 0 and factor[s, UP] >= 0:
                    after += reals[up_cell + up + j]
            column = cell + table + j * (j - 1) // 2
            for i in range(wholes[decided + place + j], j):
                value = after + reals[column + i]
                if value > reals[backward + i]:
                    reals[backward + i] = value
    if passed > -np.inf:
        for j in range(1, size + 1):
            e = wholes[link_of + place + j]
            if e >= 0:
                reals[best_with + e] = max(reals[best_with + e], passed + reals[top_with + j])
    return best


@numba.njit(**CALLED)
def _triple_maxima(graph, s):
    at, reals, wholes = graph.at, graph.real, graph.whole
    factor = graph.factor
    forward, backward, best_with = at[FORWARD], at[BACKWARD], at[BEST_WITH]
    cell, reward, link_of, decided = at[CELL], at[REWARD], at[LINK_OF], at[DECIDED]
    size, place, table = factor[s, SIZE], factor[s, PLACE], factor[s, TABLE]
    _read_rewards(graph, s)
    best, _ = _triple_forward(graph, s)
    for j in range(size, 0, -1):  # B(i, j) = max_c tri_sibling(i, j, c) + input_c + B(j, c)
        e = wholes[link_of + place + j]
        for i in range(j):
            after = -np.inf
            for c in range(j + 1, size + 2):
                if j >= wholes[decided + place + c]:
                    value = reals[cell + table + tri_sibling_at(size, i, j, c)]
                    if c <= size:
                        value += reals[reward + c] + reals[backward + c * (c - 1) // 2 + j]
                    if value > after:
                        after = value
            reals[backward + j * (j - 1) // 2 + i] = after
            if e >= 0:
                reals[best_with + e] = max(reals[best_with + e], reals[forward + j * (j - 1) // 2 + i] + after)
    return best


@numba.njit(**CALLED)
def _sequence_maxima(graph, s):
    at, reals, wholes = graph.at, graph.real, graph.whole
    factor = graph.factor
    forward, backward, best_with = at[FORWARD], at[BACKWARD], at[BEST_WITH]
    cell, inputs, link_of, decided = at[CELL], at[INPUT], at[LINK_OF], at[DECIDED]
    place, table, size = factor[s, PLACE], factor[s, TABLE], factor[s, SIZE]
    _sequence_forward(graph, s)
    best = -np.inf
    for e in range(wholes[link_of + place + size - 1], wholes[link_of + place + size]):
        reals[backward + e] = 0.0
        reals[best_with + e] = reals[forward + e]
        best = max(best, reals[forward + e])
    for i in range(size - 1, 0, -1):
        begin, end, stop = wholes[link_of + place + i - 1], wholes[link_of + place + i], wholes[link_of + place + i + 1]
        entry = table + wholes[decided + place + i]
        for q in range(begin, end):
            after = -np.inf
            for e in range(end, stop):
                value = reals[cell + entry] + reals[inputs + e] + reals[backward + e]
                entry += 1
                if value > after:
                    after = value
            reals[backward + q] = after
            reals[best_with + q] = reals[forward + q] + after
    return best
