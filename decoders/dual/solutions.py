"""What a search has found: trees with their exact scores, and the solution of the relaxation, part by part."""

from __future__ import annotations

import numba
import numpy as np

from arbora.decoders.dual.factors import walk
from arbora.decoders.dual.graph import (
    ACTIVE,
    ANY_SIBLING,
    BEST_HEAD,
    CHAIN,
    CHOSEN,
    CONFIG,
    CONFIG_LINK,
    CONFIG_SIZE,
    CONSTANT,
    DEGREE,
    FACTORS,
    HEAD_BIGRAM,
    INCOMING,
    INCUMBENT,
    KIND,
    LINK,
    LINK_ARC,
    LIVE_ARC,
    LIVE_START,
    MASS,
    MEAN,
    OPEN_ARCS,
    ORIGIN,
    OWN,
    PAIR_LINK,
    PAIR_SCORE,
    PAIRS,
    PICKED,
    RANK,
    SCALE,
    SCORE,
    SIDE,
    SIZE,
    SLOT,
    TREE_HEAD,
    TRIPLE,
    WIDTH,
    N,
)
from arbora.decoders.kernels.options import CALLED, HELPER
from arbora.decoders.parts.layout import any_sibling_at, find_arc, sibling_at, tri_sibling_at


@numba.njit(**CALLED)
def solution_value(graph):
    """Score of the solution, by u and the weights of the active configurations.

    The shares of a word's arcs may not yet add up to 1. What they lack or exceed counts by the arcs' full scores.
    """
    at, reals, wholes = graph.at, graph.real, graph.whole
    live_start, live_arc = at[LIVE_START], at[LIVE_ARC]
    score, mean, own, mass = at[SCORE], at[MEAN], at[OWN], at[MASS]
    link_arc, pair_score = at[LINK_ARC], at[PAIR_SCORE]
    value = reals[at[CONSTANT]]
    for m in range(1, graph.sizes[N] + 1):
        excess = -1.0
        for p in range(wholes[live_start + m], wholes[live_start + m + 1]):
            excess += reals[mean + wholes[live_arc + p]]
        value += excess * reals[at[SCALE]] * reals[at[ORIGIN] + m]
    for e in range(graph.sizes[OPEN_ARCS]):
        a = wholes[link_arc + e]
        value += reals[score + a] * reals[mean + a]
    for s in range(graph.sizes[FACTORS]):
        for i in range(graph.factor[s, SLOT], graph.factor[s, SLOT] + graph.factor[s, ACTIVE]):
            value += reals[own + i] * reals[mass + i]
    e = graph.sizes[PAIR_LINK]
    for i in range(graph.sizes[PAIRS]):
        one, two = reals[mean + wholes[link_arc + e]], reals[mean + wholes[link_arc + e + 1]]
        value += reals[pair_score + i] * overlap(one, two, reals[pair_score + i])
        e += 2
    return value


@numba.njit(**HELPER)
def overlap(one, two, score):
    """Share of two arcs together, by the shares of each: as large as can be if that scores, or else as small."""
    return min(one, two) if score > 0 else max(one + two - 1, 0.0)


@numba.njit(**CALLED)
def add_shares(graph, layout, b, single_root, shares, starts):
    """Add the share of each arc and part in the solution to `shares`, of which `starts` says where each type starts."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    factor, mean, mass, picked = graph.factor, at[MEAN], at[MASS], at[PICKED]
    live_start, live_arc, degree = at[LIVE_START], at[LIVE_ARC], at[DEGREE]
    link_arc, config_link, config_size = at[LINK_ARC], at[CONFIG_LINK], at[CONFIG_SIZE]
    first, before, n = layout.sentence_offsets[b], layout.word_offsets[b] - 1, layout.lengths[b]
    node = layout.word_offsets[b] + b
    has_up = len(layout.grandparent) > 0 or len(layout.grand_sibling) > 0
    has_chain = has_up or len(layout.sibling) > 0
    for k in range(first, layout.sentence_offsets[b + 1]):
        shares[k] = reals[mean + k - first]

    # Automata: the weights of active configurations, or what follows from the one arc that is not decided.
    s = np.int64(1)
    for side in range(2 * node + 1, 2 * (node + n + 1)):
        h = side // 2 - node
        for kind in (CHAIN, TRIPLE):
            if not (has_chain if kind == CHAIN else len(layout.tri_sibling) > 0):
                continue
            if h == 0 and single_root:
                for i in range(layout.side_offsets[side], layout.side_offsets[side + 1]):
                    k = layout.outward[i]
                    m = layout.modifier[k]
                    decided = wholes[picked + m]
                    wholes[picked + m] = 0
                    if reals[mean + k - first] > 0:
                        walk(graph, layout, b, side, np.int64(-1), kind, reals[mean + k - first], shares, starts)
                    wholes[picked + m] = decided
                continue
            sees_up = h > 0 and has_up and kind == CHAIN
            begin, end = np.int64(0), np.int64(1)
            if sees_up:
                begin, end = np.int64(wholes[live_start + h]), np.int64(wholes[live_start + h + 1])
            if s < graph.sizes[FACTORS] and factor[s, KIND] == kind and factor[s, SIDE] == side:
                for i in range(factor[s, ACTIVE]):
                    up = first + wholes[live_arc + begin] if sees_up else np.int64(-1)
                    config = factor[s, CONFIG] + i * factor[s, WIDTH]
                    size = wholes[config_size + factor[s, SLOT] + i]
                    for c in range(config, config + size):
                        k = first + wholes[link_arc + factor[s, LINK] + wholes[config_link + c]]
                        if wholes[config_link + c] < factor[s, INCOMING]:
                            up = k
                        else:
                            wholes[picked + layout.modifier[k]] = h
                    walk(graph, layout, b, side, up, kind, reals[mass + factor[s, SLOT] + i], shares, starts)
                    for c in range(config, config + size):
                        k = first + wholes[link_arc + factor[s, LINK] + wholes[config_link + c]]
                        if wholes[config_link + c] >= factor[s, INCOMING]:
                            wholes[picked + layout.modifier[k]] = -1
                s += 1
                continue
            single = np.int64(-1)
            for i in range(layout.side_offsets[side], layout.side_offsets[side + 1]):
                if wholes[degree + layout.outward[i] - first] > 0:
                    single = np.int64(layout.outward[i])
            for p in range(begin, end):
                up = first + wholes[live_arc + p] if sees_up else np.int64(-1)
                left = reals[mean + up - first] if sees_up else 1.0
                if single >= 0:
                    part = left * reals[mean + single - first]
                    wholes[picked + layout.modifier[single]] = h
                    walk(graph, layout, b, side, up, kind, part, shares, starts)
                    wholes[picked + layout.modifier[single]] = -1
                    left -= part
                walk(graph, layout, b, side, up, kind, left, shares, starts)

    if len(layout.head_bigram) > 0:
        bigrams = starts[HEAD_BIGRAM]
        for t in range(s, graph.sizes[FACTORS]):
            for i in range(factor[t, ACTIVE]):
                config = factor[t, CONFIG] + i * factor[t, WIDTH]
                w = before + factor[t, SIDE] + factor[t, SIZE] - 1
                for c in range(config, config + factor[t, SIZE] - 1):  # the last word comes first
                    k = first + wholes[link_arc + factor[t, LINK] + wholes[config_link + c]]
                    q = first + wholes[link_arc + factor[t, LINK] + wholes[config_link + c + 1]]
                    shares[bigrams + _bigram_at(layout, w, q, k)] += reals[mass + factor[t, SLOT] + i]
                    w -= 1
        for m in range(2, n + 1):
            if wholes[picked + m] < 0 and wholes[picked + m - 1] < 0:
                continue
            for q in range(wholes[live_start + m - 1], wholes[live_start + m]):
                for p in range(wholes[live_start + m], wholes[live_start + m + 1]):
                    entry = _bigram_at(layout, before + m, first + wholes[live_arc + q], first + wholes[live_arc + p])
                    shares[bigrams + entry] += reals[mean + wholes[live_arc + q]] * reals[mean + wholes[live_arc + p]]

    if len(layout.any_sibling) > 0:
        for h in range(node + single_root, node + n + 1):
            begin, end = layout.side_offsets[2 * h], layout.side_offsets[2 * h + 2]
            for i in range(end - begin):
                one = reals[mean + layout.outward[begin + i] - first]
                if one > 0:
                    for j in range(i + 1, end - begin):
                        two = reals[mean + layout.outward[begin + j] - first]
                        entry = layout.any_sibling_offsets[h] + any_sibling_at(end - begin, i, j)
                        shares[starts[ANY_SIBLING] + entry] = overlap(one, two, layout.any_sibling[entry])


@numba.njit(**HELPER)
def _bigram_at(layout, w, q, k):
    """Entry of the arcs q into word w - 1 and k into word w."""
    width = layout.modifier_offsets[w + 1] - layout.modifier_offsets[w]
    return layout.head_bigram_offsets[w] + (q - layout.modifier_offsets[w - 1]) * width + k - layout.modifier_offsets[w]


@numba.njit(**CALLED)
def tree_score(graph, layout, b):
    """Score of the tree in TREE_HEAD in units, all of its parts counted, none raised to the floor."""
    at, wholes = graph.at, graph.whole
    scale, origin = graph.real[at[SCALE]], at[ORIGIN]
    heads, arc, rank = at[TREE_HEAD], at[CHOSEN], at[RANK]
    before, n = layout.word_offsets[b] - 1, layout.lengths[b]
    node = layout.word_offsets[b] + b
    total = 0.0
    for m in range(1, n + 1):
        w = before + m
        wholes[arc + m] = find_arc(
            layout.modifier_offsets[w], layout.modifier_offsets[w + 1], layout.head, wholes[heads + m], m, n
        )
        total += layout.arc_score[wholes[arc + m]] - graph.real[origin + m]
    if len(layout.grandparent) > 0:
        for m in range(1, n + 1):
            h = wholes[heads + m]
            if h > 0:
                place = (
                    layout.grandparent_offsets[wholes[arc + m]] + wholes[arc + h] - layout.modifier_offsets[before + h]
                )
                total += layout.grandparent[place]
    if len(layout.head_bigram) > 0:
        for w in range(before + 2, before + n + 1):
            width = layout.modifier_offsets[w + 1] - layout.modifier_offsets[w]
            row = (
                layout.head_bigram_offsets[w] + (wholes[arc + w - before - 1] - layout.modifier_offsets[w - 1]) * width
            )
            total += layout.head_bigram[row + wholes[arc + w - before] - layout.modifier_offsets[w]]
    has_sibling, has_grand = len(layout.sibling) > 0, len(layout.grand_sibling) > 0
    has_triple, has_any = len(layout.tri_sibling) > 0, len(layout.any_sibling) > 0
    if not (has_sibling or has_grand or has_triple or has_any):
        return scale * total
    for h in range(n + 1):
        count = 0
        both = layout.side_offsets[2 * (node + h) + 2] - layout.side_offsets[2 * (node + h)]
        for right in range(h == 0, 2):
            side = 2 * (node + h) + right
            begin = layout.side_offsets[side]
            J = layout.side_offsets[side + 1] - begin
            q, i = 0, 0
            for j in range(1, J + 2):
                if j <= J:
                    k = layout.outward[begin + j - 1]
                    if wholes[arc + layout.modifier[k]] != k:
                        continue
                    if has_any:
                        place = begin + j - 1 - layout.side_offsets[2 * (node + h)]
                        for other in range(count):
                            entry = any_sibling_at(both, wholes[rank + other], place)
                            total += layout.any_sibling[layout.any_sibling_offsets[node + h] + entry]
                        wholes[rank + count] = place
                        count += 1
                if has_sibling:
                    total += layout.sibling[layout.sibling_offsets[side] + sibling_at(J, i, j)]
                if has_grand and h > 0:
                    block = layout.grand_sibling_offsets[2 * wholes[arc + h] + right]
                    total += layout.grand_sibling[block + sibling_at(J, i, j)]
                if has_triple and i > 0:
                    total += layout.tri_sibling[layout.tri_sibling_offsets[side] + tri_sibling_at(J, q, i, j)]
                q, i = i, j
    return scale * total


@numba.njit(**CALLED)
def offer(graph, layout, b):
    """Keep the tree in TREE_HEAD if it is the best so far."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    incumbent, tree_head, best_head = at[INCUMBENT], at[TREE_HEAD], at[BEST_HEAD]
    score = tree_score(graph, layout, b)
    if score > reals[incumbent]:
        reals[incumbent] = score
        for m in range(1, layout.lengths[b] + 1):
            wholes[best_head + m] = wholes[tree_head + m]
