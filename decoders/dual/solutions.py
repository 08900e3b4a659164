"""Results of a search: trees with their exact scores, and the solution of the relaxation, part by part."""

from __future__ import annotations

import numba
import numpy as np

from arbora.decoders.dual.factors import walk
from arbora.decoders.dual.graph import (
    BEST_HEAD,
    CHOSEN,
    CONFIG_LINK,
    CONFIG_SIZE,
    CONSTANT,
    DEGREE,
    FACTOR_ACTIVE,
    FACTOR_CONFIG,
    FACTOR_INCOMING,
    FACTOR_KIND,
    FACTOR_LINK,
    FACTOR_SIDE,
    FACTOR_SIZE,
    FACTOR_SLOT,
    FACTOR_WIDTH,
    INCUMBENT,
    KIND_CHAIN,
    KIND_TRIPLE,
    LINK_ARC,
    LIVE_ARC,
    LIVE_START,
    MASS,
    MEAN,
    ORIGIN,
    OWN,
    PAIR_SCORE,
    PICKED,
    RANK,
    SCALE,
    SCORE,
    SHARE_ANY_SIBLING,
    SHARE_HEAD_BIGRAM,
    SIZE_FACTORS,
    SIZE_OPEN_ARCS,
    SIZE_PAIR_LINK,
    SIZE_PAIRS,
    SIZE_WORDS,
    TREE_HEAD,
)
from arbora.decoders.kernels.options import CALLED, HELPER
from arbora.decoders.parts.layout import any_sibling_at, find_arc, sibling_at, tri_sibling_at


@numba.njit(**CALLED)
def solution_value(graph):
    """Score of the solution, by u and the weights of the active configurations.

    The shares of a word's arcs may not yet add up to 1. What they lack or exceed counts by the arcs' full scores.
    """
    at, floats, ints = graph.at, graph.floats, graph.ints
    live_start, live_arc = at[LIVE_START], at[LIVE_ARC]
    score, mean, own, mass = at[SCORE], at[MEAN], at[OWN], at[MASS]
    link_arc, pair_score = at[LINK_ARC], at[PAIR_SCORE]
    value = floats[at[CONSTANT]]
    for m in range(1, graph.sizes[SIZE_WORDS] + 1):
        excess = -1.0
        for p in range(ints[live_start + m], ints[live_start + m + 1]):
            excess += floats[mean + ints[live_arc + p]]
        value += excess * floats[at[SCALE]] * floats[at[ORIGIN] + m]
    for e in range(graph.sizes[SIZE_OPEN_ARCS]):
        a = ints[link_arc + e]
        value += floats[score + a] * floats[mean + a]
    for s in range(graph.sizes[SIZE_FACTORS]):
        for i in range(graph.factor[s, FACTOR_SLOT], graph.factor[s, FACTOR_SLOT] + graph.factor[s, FACTOR_ACTIVE]):
            value += floats[own + i] * floats[mass + i]
    e = graph.sizes[SIZE_PAIR_LINK]
    for i in range(graph.sizes[SIZE_PAIRS]):
        one, two = floats[mean + ints[link_arc + e]], floats[mean + ints[link_arc + e + 1]]
        value += floats[pair_score + i] * overlap(one, two, floats[pair_score + i])
        e += 2
    return value


@numba.njit(**HELPER)
def overlap(one, two, score):
    """Share of two arcs together, by the shares of each: as large as can be if that scores, or else as small."""
    return min(one, two) if score > 0 else max(one + two - 1, 0.0)


@numba.njit(**CALLED)
def add_shares(graph, layout, b, single_root, shares, starts):
    """Add the share of each arc and part in the solution to `shares`, of which `starts` says where each type starts."""
    at, floats, ints = graph.at, graph.floats, graph.ints
    factor, mean, mass, picked = graph.factor, at[MEAN], at[MASS], at[PICKED]
    live_start, live_arc, degree = at[LIVE_START], at[LIVE_ARC], at[DEGREE]
    link_arc, config_link, config_size = at[LINK_ARC], at[CONFIG_LINK], at[CONFIG_SIZE]
    first, before, n = layout.sentence_offsets[b], layout.word_offsets[b] - 1, layout.lengths[b]
    node = layout.word_offsets[b] + b
    has_up = len(layout.grandparent) > 0 or len(layout.grand_sibling) > 0
    has_chain = has_up or len(layout.sibling) > 0
    for k in range(first, layout.sentence_offsets[b + 1]):
        shares[k] = floats[mean + k - first]

    # Automata: the weights of active configurations, or what follows from the one arc that is not decided.
    s = np.int64(1)
    for side in range(2 * node + 1, 2 * (node + n + 1)):
        h = side // 2 - node
        for kind in (KIND_CHAIN, KIND_TRIPLE):
            if not (has_chain if kind == KIND_CHAIN else len(layout.tri_sibling) > 0):
                continue
            if h == 0 and single_root:
                for i in range(layout.side_offsets[side], layout.side_offsets[side + 1]):
                    k = layout.outward[i]
                    m = layout.modifier[k]
                    decided = ints[picked + m]
                    ints[picked + m] = 0
                    if floats[mean + k - first] > 0:
                        walk(graph, layout, b, side, np.int64(-1), kind, floats[mean + k - first], shares, starts)
                    ints[picked + m] = decided
                continue
            sees_up = h > 0 and has_up and kind == KIND_CHAIN
            begin, end = np.int64(0), np.int64(1)
            if sees_up:
                begin, end = np.int64(ints[live_start + h]), np.int64(ints[live_start + h + 1])
            if s < graph.sizes[SIZE_FACTORS] and factor[s, FACTOR_KIND] == kind and factor[s, FACTOR_SIDE] == side:
                for i in range(factor[s, FACTOR_ACTIVE]):
                    up = first + ints[live_arc + begin] if sees_up else np.int64(-1)
                    config = factor[s, FACTOR_CONFIG] + i * factor[s, FACTOR_WIDTH]
                    size = ints[config_size + factor[s, FACTOR_SLOT] + i]
                    for c in range(config, config + size):
                        k = first + ints[link_arc + factor[s, FACTOR_LINK] + ints[config_link + c]]
                        if ints[config_link + c] < factor[s, FACTOR_INCOMING]:
                            up = k
                        else:
                            ints[picked + layout.modifier[k]] = h
                    walk(graph, layout, b, side, up, kind, floats[mass + factor[s, FACTOR_SLOT] + i], shares, starts)
                    for c in range(config, config + size):
                        k = first + ints[link_arc + factor[s, FACTOR_LINK] + ints[config_link + c]]
                        if ints[config_link + c] >= factor[s, FACTOR_INCOMING]:
                            ints[picked + layout.modifier[k]] = -1
                s += 1
                continue
            single = np.int64(-1)
            for i in range(layout.side_offsets[side], layout.side_offsets[side + 1]):
                if ints[degree + layout.outward[i] - first] > 0:
                    single = np.int64(layout.outward[i])
            for p in range(begin, end):
                up = first + ints[live_arc + p] if sees_up else np.int64(-1)
                left = floats[mean + up - first] if sees_up else 1.0
                if single >= 0:
                    part = left * floats[mean + single - first]
                    ints[picked + layout.modifier[single]] = h
                    walk(graph, layout, b, side, up, kind, part, shares, starts)
                    ints[picked + layout.modifier[single]] = -1
                    left -= part
                walk(graph, layout, b, side, up, kind, left, shares, starts)

    if len(layout.head_bigram) > 0:
        bigrams = starts[SHARE_HEAD_BIGRAM]
        for t in range(s, graph.sizes[SIZE_FACTORS]):
            for i in range(factor[t, FACTOR_ACTIVE]):
                config = factor[t, FACTOR_CONFIG] + i * factor[t, FACTOR_WIDTH]
                w = before + factor[t, FACTOR_SIDE] + factor[t, FACTOR_SIZE] - 1
                for c in range(config, config + factor[t, FACTOR_SIZE] - 1):  # the last word comes first
                    k = first + ints[link_arc + factor[t, FACTOR_LINK] + ints[config_link + c]]
                    q = first + ints[link_arc + factor[t, FACTOR_LINK] + ints[config_link + c + 1]]
                    shares[bigrams + _bigram_at(layout, w, q, k)] += floats[mass + factor[t, FACTOR_SLOT] + i]
                    w -= 1
        for m in range(2, n + 1):
            if ints[picked + m] < 0 and ints[picked + m - 1] < 0:
                continue
            for q in range(ints[live_start + m - 1], ints[live_start + m]):
                for p in range(ints[live_start + m], ints[live_start + m + 1]):
                    entry = _bigram_at(layout, before + m, first + ints[live_arc + q], first + ints[live_arc + p])
                    shares[bigrams + entry] += floats[mean + ints[live_arc + q]] * floats[mean + ints[live_arc + p]]

    if len(layout.any_sibling) > 0:
        for h in range(node + single_root, node + n + 1):
            begin, end = layout.side_offsets[2 * h], layout.side_offsets[2 * h + 2]
            for i in range(end - begin):
                one = floats[mean + layout.outward[begin + i] - first]
                if one > 0:
                    for j in range(i + 1, end - begin):
                        two = floats[mean + layout.outward[begin + j] - first]
                        entry = layout.any_sibling_offsets[h] + any_sibling_at(end - begin, i, j)
                        shares[starts[SHARE_ANY_SIBLING] + entry] = overlap(one, two, layout.any_sibling[entry])


@numba.njit(**HELPER)
def _bigram_at(layout, w, q, k):
    """Entry of the arcs q into word w - 1 and k into word w."""
    width = layout.modifier_offsets[w + 1] - layout.modifier_offsets[w]
    return layout.head_bigram_offsets[w] + (q - layout.modifier_offsets[w - 1]) * width + k - layout.modifier_offsets[w]


@numba.njit(**CALLED)
def tree_score(graph, layout, b):
    """Score of the tree in TREE_HEAD in units, all of its parts counted, none raised to the floor."""
    at, ints = graph.at, graph.ints
    scale, origin = graph.floats[at[SCALE]], at[ORIGIN]
    heads, arc, rank = at[TREE_HEAD], at[CHOSEN], at[RANK]
    before, n = layout.word_offsets[b] - 1, layout.lengths[b]
    node = layout.word_offsets[b] + b
    total = 0.0
    for m in range(1, n + 1):
        w = before + m
        ints[arc + m] = find_arc(
            layout.modifier_offsets[w], layout.modifier_offsets[w + 1], layout.head, ints[heads + m], m, n
        )
        total += layout.arc_score[ints[arc + m]] - graph.floats[origin + m]
    if len(layout.grandparent) > 0:
        for m in range(1, n + 1):
            h = ints[heads + m]
            if h > 0:
                place = layout.grandparent_offsets[ints[arc + m]] + ints[arc + h] - layout.modifier_offsets[before + h]
                total += layout.grandparent[place]
    if len(layout.head_bigram) > 0:
        for w in range(before + 2, before + n + 1):
            width = layout.modifier_offsets[w + 1] - layout.modifier_offsets[w]
            row = layout.head_bigram_offsets[w] + (ints[arc + w - before - 1] - layout.modifier_offsets[w - 1]) * width
            total += layout.head_bigram[row + ints[arc + w - before] - layout.modifier_offsets[w]]
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
                    if ints[arc + layout.modifier[k]] != k:
                        continue
                    if has_any:
                        place = begin + j - 1 - layout.side_offsets[2 * (node + h)]
                        for other in range(count):
                            entry = any_sibling_at(both, ints[rank + other], place)
                            total += layout.any_sibling[layout.any_sibling_offsets[node + h] + entry]
                        ints[rank + count] = place
                        count += 1
                if has_sibling:
                    total += layout.sibling[layout.sibling_offsets[side] + sibling_at(J, i, j)]
                if has_grand and h > 0:
                    block = layout.grand_sibling_offsets[2 * ints[arc + h] + right]
                    total += layout.grand_sibling[block + sibling_at(J, i, j)]
                if has_triple and i > 0:
                    total += layout.tri_sibling[layout.tri_sibling_offsets[side] + tri_sibling_at(J, q, i, j)]
                q, i = i, j
    return scale * total


@numba.njit(**CALLED)
def offer(graph, layout, b):
    """Keep the tree in TREE_HEAD if it is the best so far."""
    at, floats, ints = graph.at, graph.floats, graph.ints
    incumbent, tree_head, best_head = at[INCUMBENT], at[TREE_HEAD], at[BEST_HEAD]
    score = tree_score(graph, layout, b)
    if score > floats[incumbent]:
        floats[incumbent] = score
        for m in range(1, layout.lengths[b] + 1):
            ints[best_head + m] = ints[tree_head + m]
