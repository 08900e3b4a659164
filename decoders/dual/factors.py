"""The factors of a sentence: how its parts are divided into searches that must agree.

Martins, Almeida and Smith (2013), "Turning on the Turbo: Fast Third-Order Non-Projective Turbo Parsers". A factor sees
some arcs and scores each of its configurations; arcs that several factors see must agree. Factors are:

- the tree, over all arcs, without a score of its own;
- for each side of a head an automaton over its modifiers outward and the incoming arcs of the head, which holds
  `sibling`, `grandparent` and `grand_sibling`; without the last two it sees no incoming arcs;
- for each side of a head an automaton that remembers two modifiers, which holds `tri_sibling`;
- a sequence over neighbouring words, which holds `head_bigram`;
- a pair of arcs for each `any_sibling`.

A link is a factor's copy of an arc. The score of an arc is split over its links: `share` of all links of an arc adds up
to its score, whatever the multipliers, so that the sum of the factors' maxima is always a bound. Multipliers are thus
never kept by themselves.

Differs from the paper:
- A part all but one of whose arcs are decided scores that one arc, and goes into the arc's score. So a factor is there
  only where two of its arcs are open, and a graph in which few words are open is small.
- A root that takes a single modifier needs no automaton: what its siblings score goes into the arcs' scores.
- A word with a single candidate head is decided: automata never pass it over, which tightens the relaxation.
- An automaton never takes a modifier that is its own grandparent, and a sequence never two words that head each other.
- `grandparent` has no entry for END: the printed sum over modifiers runs to p + 1 and so includes sigma_GP(g, h, END).
  With `grand_sibling` the entry of the last modifier and END scores the same pair of arcs; without it nothing does.
- The paper does not say how arc scores are divided among factors at first: see `start`.

`oracles` searches the best configuration of each.
"""

from __future__ import annotations

import numba
import numpy as np

from arbora.decoders.dual.graph import (
    ALIVE,
    BARRED,
    CELL,
    CHANGED,
    CONSTANT,
    COPY,
    DECIDED,
    DEGREE,
    FACTOR_ACTIVE,
    FACTOR_BAR,
    FACTOR_CONFIG,
    FACTOR_DIRTY,
    FACTOR_HEADS,
    FACTOR_INCOMING,
    FACTOR_KIND,
    FACTOR_LINK,
    FACTOR_LINKS,
    FACTOR_PLACE,
    FACTOR_ROOM,
    FACTOR_SIDE,
    FACTOR_SIZE,
    FACTOR_SLOT,
    FACTOR_SQUARE,
    FACTOR_STRIDE,
    FACTOR_TABLE,
    FACTOR_TOP,
    FACTOR_UP,
    FACTOR_WIDTH,
    FLOOR,
    INCUMBENT,
    KEPT,
    KIND_CHAIN,
    KIND_SEQUENCE,
    KIND_TREE,
    KIND_TRIPLE,
    LINK_ARC,
    LINK_OF,
    LINK_PLACE,
    LIVE_ARC,
    LIVE_HEAD,
    LIVE_LINK,
    LIVE_START,
    MEAN,
    ONLY,
    ORIGIN,
    PAIR_SCORE,
    PICKED,
    RANK,
    ROLE_IN_LEFT,
    ROLE_IN_RIGHT,
    ROLE_IN_SEQUENCE,
    ROLE_OUT,
    ROLE_OUT_TRIPLE,
    ROLES,
    SCALE,
    SCORE,
    SHARE,
    SHARE_GRAND_SIBLING,
    SHARE_GRANDPARENT,
    SHARE_SIBLING,
    SHARE_TRI_SIBLING,
    SIDE_ARC,
    SIZE_ARCS,
    SIZE_BARS,
    SIZE_CAPACITY,
    SIZE_CELLS,
    SIZE_FACTORS,
    SIZE_FULL,
    SIZE_LINKS,
    SIZE_OPEN_ARCS,
    SIZE_PAIR_LINK,
    SIZE_PAIRS,
    SIZE_PLACES,
    SIZE_UP_CELLS,
    SIZE_WORDS,
    TOTAL,
    UP_CELL,
)
from arbora.decoders.dual.normalisation import lead, measure, normalised, set_floor
from arbora.decoders.kernels.options import CALLED
from arbora.decoders.parts.layout import any_sibling_at, sibling_at, tri_sibling_at


@numba.njit(**CALLED)
def start(graph, layout, b):
    """Begin a sentence: all arcs are candidates, and each factor gets a share of their scores.

    What a factor gets of an arc's score is counted from midway between the two best heads of the word. Automata may
    leave a modifier out, so that they take at first just the arcs that are likely. They get the most, since a single
    arc is worth little there unless it outweighs the parts; the tree gets what is left.
    """
    at, floats, ints = graph.at, graph.floats, graph.ints
    alive, mean, kept, total = at[ALIVE], at[MEAN], at[KEPT], at[TOTAL]
    first = layout.sentence_offsets[b]
    n, arcs = layout.lengths[b], layout.sentence_offsets[b + 1] - first
    graph.sizes[SIZE_WORDS], graph.sizes[SIZE_ARCS] = n, arcs
    floats[at[INCUMBENT]] = -np.inf
    measure(graph, layout, b)
    scale, origin = floats[at[SCALE]], at[ORIGIN]
    has_up = len(layout.grandparent) > 0 or len(layout.grand_sibling) > 0
    has_out = has_up or len(layout.sibling) > 0
    whole = 0.5 + 3 * has_out + 2 * has_up + 3 * (len(layout.tri_sibling) > 0) + 2 * (len(layout.head_bigram) > 0)
    whole += 3 * (len(layout.any_sibling) > 0)
    node = layout.word_offsets[b] + b
    for w in range(layout.word_offsets[b], layout.word_offsets[b + 1]):
        top = floats[origin + w - layout.word_offsets[b] + 1]
        gap = lead(layout, w)
        for k in range(layout.modifier_offsets[w], layout.modifier_offsets[w + 1]):
            a = k - first
            part = scale * (layout.arc_score[k] - top + gap / 2) / whole
            ints[alive + a] = True
            floats[mean + a] = layout.arc_score[k] == top
            floats[kept + ROLE_OUT * arcs + a] = 3 * part
            floats[kept + ROLE_IN_LEFT * arcs + a] = floats[kept + ROLE_IN_RIGHT * arcs + a] = part
            floats[kept + ROLE_OUT_TRIPLE * arcs + a] = 3 * part
            floats[kept + ROLE_IN_SEQUENCE * arcs + a] = 2 * part
            h = node + layout.head[k]
            floats[total + a] = 3 * part / max(1, layout.side_offsets[2 * h + 2] - layout.side_offsets[2 * h] - 1)
    if len(layout.any_sibling) > 0:
        e = ROLES * arcs
        for h in range(node, node + n + 1):
            begin, end = layout.side_offsets[2 * h], layout.side_offsets[2 * h + 2]
            for i in range(begin, end):
                for j in range(i + 1, end):
                    floats[kept + e] = floats[total + layout.outward[i] - first]
                    floats[kept + e + 1] = floats[total + layout.outward[j] - first]
                    e += 2


@numba.njit(**CALLED)
def restrict(graph, layout, b, single_root):
    """Take away arcs that close a cycle with decided ones or make a second root; False if a word is left without head.

    True does not say that there is a tree: some words may still reach the root only by way of each other.
    """
    at, ints = graph.at, graph.ints
    alive, only = at[ALIVE], at[ONLY]
    first, before, n = layout.sentence_offsets[b], layout.word_offsets[b] - 1, layout.lengths[b]
    again = True
    while again:
        again = False
        roots, last_root, decided_root = 0, 0, 0
        for m in range(1, n + 1):
            heads, root = 0, False
            for k in range(layout.modifier_offsets[before + m], layout.modifier_offsets[before + m + 1]):
                if ints[alive + k - first]:
                    heads += 1
                    ints[only + m] = layout.head[k]
                    root |= layout.head[k] == 0
            if heads == 0:
                return False
            if heads > 1:
                ints[only + m] = -1
            if root:
                roots += 1
                last_root = m
                if heads == 1:
                    if single_root and decided_root > 0:
                        return False
                    decided_root = m
        if roots == 0:
            return False
        for m in range(1, n + 1):
            for k in range(layout.modifier_offsets[before + m], layout.modifier_offsets[before + m + 1]):
                if not ints[alive + k - first]:
                    continue
                h = layout.head[k]
                v = h
                climbed = 0
                while v > 0 and v != m and ints[only + v] >= 0:
                    v = ints[only + v]
                    climbed += 1
                    if climbed > n:
                        return False
                drop = v == m
                if single_root:
                    drop |= h == 0 and decided_root > 0 and decided_root != m
                    drop |= h != 0 and roots == 1 and m == last_root
                if drop:
                    if ints[only + m] >= 0:
                        return False
                    ints[alive + k - first] = False
                    again = True
    return True


@numba.njit(**CALLED)
def keep_shares(graph):
    """Write down the share of each link, for the graph to be built anew with fewer arcs."""
    at, floats, ints = graph.at, graph.floats, graph.ints
    kept, share, link_place = at[KEPT], at[SHARE], at[LINK_PLACE]
    for e in range(graph.sizes[SIZE_LINKS]):
        if ints[link_place + e] >= 0:
            floats[kept + ints[link_place + e]] = floats[share + e]


@numba.njit(**CALLED)
def build(graph, layout, b, single_root):
    """Make the factors of what is alive. `restrict` must have left every word a head."""
    at, floats, ints = graph.at, graph.floats, graph.ints
    count, factor = graph.sizes, graph.factor
    score, mean, constant = at[SCORE], at[MEAN], at[CONSTANT]
    share, copy, kept, total = at[SHARE], at[COPY], at[KEPT], at[TOTAL]
    alive, only, picked, degree, changed = at[ALIVE], at[ONLY], at[PICKED], at[DEGREE], at[CHANGED]
    live_start, live_arc, live_head = at[LIVE_START], at[LIVE_ARC], at[LIVE_HEAD]
    live_link, link_arc, link_place = at[LIVE_LINK], at[LINK_ARC], at[LINK_PLACE]
    rank, side_arc = at[RANK], at[SIDE_ARC]
    first, before, n = layout.sentence_offsets[b], layout.word_offsets[b] - 1, layout.lengths[b]
    node = layout.word_offsets[b] + b
    set_floor(graph)
    scale, floor = floats[at[SCALE]], floats[at[FLOOR]]
    floats[constant] = 0.0
    p, links = 0, 0
    for m in range(1, n + 1):
        ints[live_start + m] = p
        ints[picked + m] = ints[only + m]
        for k in range(layout.modifier_offsets[before + m], layout.modifier_offsets[before + m + 1]):
            a = k - first
            floats[score + a] = max(scale * (layout.arc_score[k] - floats[at[ORIGIN] + m]), floor)
            ints[degree + a] = 0
            ints[changed + a] = True
            if ints[alive + a]:
                ints[live_arc + p], ints[live_head + p] = a, layout.head[k]
                ints[live_link + p] = -1
                if ints[only + m] < 0:
                    ints[live_link + p] = links
                    ints[link_arc + links], ints[link_place + links] = a, -1
                    links += 1
                else:
                    floats[mean + a] = 1.0
                p += 1
            else:
                floats[mean + a] = 0.0
    ints[live_start + n + 1] = p
    factor[0, FACTOR_KIND], factor[0, FACTOR_LINK], factor[0, FACTOR_LINKS], factor[0, FACTOR_SIZE] = (
        KIND_TREE,
        0,
        links,
        n,
    )
    factor[0, FACTOR_WIDTH] = n
    count[SIZE_FACTORS], count[SIZE_LINKS], count[SIZE_OPEN_ARCS] = 1, links, links
    count[SIZE_CELLS] = count[SIZE_UP_CELLS] = count[SIZE_PLACES] = count[SIZE_BARS] = 0

    has_chain = len(layout.sibling) > 0 or len(layout.grandparent) > 0 or len(layout.grand_sibling) > 0
    if has_chain or len(layout.tri_sibling) > 0:
        for side in range(2 * node + 1, 2 * (node + n + 1)):
            h = side // 2 - node
            size, undecided = np.int64(0), np.int64(0)
            for i in range(layout.side_offsets[side], layout.side_offsets[side + 1]):
                k = layout.outward[i]
                if ints[alive + k - first]:
                    size += 1
                    ints[rank + size] = i - layout.side_offsets[side] + 1
                    ints[side_arc + size] = k - first
                    undecided += ints[only + layout.modifier[k]] < 0
            if h == 0 and single_root:
                _fold_root(graph, layout, side, size)
                continue
            if has_chain:
                _add_chain(graph, layout, b, side, size, undecided)
            if len(layout.tri_sibling) > 0 and size > 0:
                _add_triple(graph, layout, b, side, size, undecided)
    if len(layout.head_bigram) > 0:
        _add_sequences(graph, layout, b)
    count[SIZE_PAIRS] = 0
    count[SIZE_PAIR_LINK] = count[SIZE_LINKS]
    if len(layout.any_sibling) > 0:
        _add_pairs(graph, layout, b, single_root)

    # The tree has what the others leave it.
    for p in range(ints[live_start + 1], ints[live_start + n + 1]):
        a = ints[live_arc + p]
        floats[total + a] = floats[score + a]
        if ints[live_link + p] < 0:
            floats[constant] += floats[score + a]
    for e in range(count[SIZE_LINKS]):
        a = ints[link_arc + e]
        ints[degree + a] += 1
        floats[copy + e] = floats[mean + a]
        if ints[link_place + e] >= 0:
            floats[share + e] = max(floats[kept + ints[link_place + e]], floor)
            floats[total + a] -= floats[share + e]
    for e in range(links):
        floats[share + e] = floats[total + ints[link_arc + e]]
    slot, square, config = 0, 0, 0
    for s in range(count[SIZE_FACTORS]):
        room = min(count[SIZE_CAPACITY], factor[s, FACTOR_LINKS] + 1)
        factor[s, FACTOR_ROOM], factor[s, FACTOR_SLOT], factor[s, FACTOR_SQUARE], factor[s, FACTOR_CONFIG] = (
            room,
            slot,
            square,
            config,
        )
        slot, square, config = slot + room, square + room * room, config + room * factor[s, FACTOR_WIDTH]
        factor[s, FACTOR_ACTIVE], factor[s, FACTOR_DIRTY] = 0, 1
    count[SIZE_FULL] = False


@numba.njit(**CALLED)
def walk(graph, layout, b, side, up, kind, mass, shares, starts):
    """Score of an automaton's parts that fire with the modifiers in PICKED on one side of a head.

    Args:
        graph: of the sentence.
        layout: of the batch.
        b: the sentence.
        side: of the head.
        up: the arc into the head, -1 if unseen.
        kind: of the automaton, KIND_CHAIN or KIND_TRIPLE.
        mass: is added to the share of each of these parts.
        shares: by kind and part; empty if only the score is asked for.
        starts: where the kinds start in `shares`.
    """
    picked = graph.at[PICKED]
    h = side // 2 - layout.word_offsets[b] - b
    begin = layout.side_offsets[side]
    J = layout.side_offsets[side + 1] - begin
    has_up, has_sibling = up >= 0 and len(layout.grandparent) > 0, len(layout.sibling) > 0
    grand = layout.grand_sibling_offsets[2 * up + side % 2] if up >= 0 and len(layout.grand_sibling) > 0 else -1
    place = up - layout.modifier_offsets[layout.word_offsets[b] + h - 1] if has_up else 0
    added = len(shares) > 0
    value = 0.0
    q, i = 0, 0
    for j in range(1, J + 2):
        if j <= J:
            k = layout.outward[begin + j - 1]
            if graph.ints[picked + layout.modifier[k]] != h:
                continue
            if has_up and kind == KIND_CHAIN:
                entry = layout.grandparent_offsets[k] + place
                value += normalised(graph, layout.grandparent[entry])
                if added:
                    shares[starts[SHARE_GRANDPARENT] + entry] += mass
        if kind == KIND_TRIPLE:
            if i > 0:
                entry = layout.tri_sibling_offsets[side] + tri_sibling_at(J, q, i, j)
                value += normalised(graph, layout.tri_sibling[entry])
                if added:
                    shares[starts[SHARE_TRI_SIBLING] + entry] += mass
        else:
            entry = sibling_at(J, i, j)
            if has_sibling:
                value += normalised(graph, layout.sibling[layout.sibling_offsets[side] + entry])
                if added:
                    shares[starts[SHARE_SIBLING] + layout.sibling_offsets[side] + entry] += mass
            if grand >= 0:
                value += normalised(graph, layout.grand_sibling[grand + entry])
                if added:
                    shares[starts[SHARE_GRAND_SIBLING] + grand + entry] += mass
        q, i = i, j
    return value


@numba.njit(**CALLED)
def _fold(graph, layout, b, side, size, up, kind):
    """Add what an automaton scores more with its undecided modifier to the arc's score; what it scores without."""
    at, floats, ints = graph.at, graph.floats, graph.ints
    score, only, picked, side_arc = at[SCORE], at[ONLY], at[PICKED], at[SIDE_ARC]
    first, none = layout.sentence_offsets[b], floats[:0]
    without = walk(graph, layout, b, side, up, kind, 0.0, none, at)
    for j in range(1, size + 1):
        a = ints[side_arc + j]
        m = layout.modifier[first + a]
        if ints[only + m] < 0:
            ints[picked + m] = layout.head[first + a]
            floats[score + a] += walk(graph, layout, b, side, up, kind, 0.0, none, at) - without
            ints[picked + m] = -1
    return without


@numba.njit(**CALLED)
def _fold_root(graph, layout, side, size):
    """Add what siblings score to the arcs of a root with a single modifier."""
    at, floats, ints = graph.at, graph.floats, graph.ints
    score, rank, side_arc = at[SCORE], at[RANK], at[SIDE_ARC]
    J = layout.side_offsets[side + 1] - layout.side_offsets[side]
    for j in range(1, size + 1):
        value = 0.0
        if len(layout.sibling) > 0:
            block = layout.sibling_offsets[side]
            value += normalised(graph, layout.sibling[block + sibling_at(J, 0, ints[rank + j])])
            value += normalised(graph, layout.sibling[block + sibling_at(J, ints[rank + j], J + 1)])
        if len(layout.tri_sibling) > 0:
            block = layout.tri_sibling_offsets[side]
            value += normalised(graph, layout.tri_sibling[block + tri_sibling_at(J, 0, ints[rank + j], J + 1)])
        floats[score + ints[side_arc + j]] += value


@numba.njit(**CALLED)
def _add_modifiers(graph, layout, first, s, size, role):
    """Link an automaton to its undecided modifiers, and note which are decided."""
    at, ints = graph.at, graph.ints
    link_arc, link_place, side_arc = at[LINK_ARC], at[LINK_PLACE], at[SIDE_ARC]
    only, link_of, decided = at[ONLY], at[LINK_OF], at[DECIDED]
    place, e = graph.sizes[SIZE_PLACES], graph.sizes[SIZE_LINKS]
    graph.factor[s, FACTOR_PLACE] = place
    last = 0
    for j in range(1, size + 2):
        ints[decided + place + j] = last
        if j <= size:
            a = ints[side_arc + j]
            if ints[only + layout.modifier[first + a]] < 0:
                ints[link_of + place + j] = e - graph.factor[s, FACTOR_LINK]
                ints[link_arc + e], ints[link_place + e] = a, role * graph.sizes[SIZE_ARCS] + a
                e += 1
            else:
                ints[link_of + place + j] = -1
                last = j
    graph.factor[s, FACTOR_LINKS] = e - graph.factor[s, FACTOR_LINK]
    graph.sizes[SIZE_LINKS] = e
    graph.sizes[SIZE_PLACES] = place + size + 2
    graph.sizes[SIZE_FACTORS] = s + 1


@numba.njit(**CALLED)
def _add_chain(graph, layout, b, side, size, undecided):
    """Add the automaton of one side of a head over its modifiers and incoming arcs, or fold it into scores of arcs."""
    at, floats, ints = graph.at, graph.floats, graph.ints
    count, factor = graph.sizes, graph.factor
    score, constant, cell, up_cell = at[SCORE], at[CONSTANT], at[CELL], at[UP_CELL]
    rank, side_arc, barred = at[RANK], at[SIDE_ARC], at[BARRED]
    live_start, live_arc = at[LIVE_START], at[LIVE_ARC]
    link_arc, link_place = at[LINK_ARC], at[LINK_PLACE]
    first, before = layout.sentence_offsets[b], layout.word_offsets[b] - 1
    h = side // 2 - layout.word_offsets[b] - b
    J = layout.side_offsets[side + 1] - layout.side_offsets[side]
    has_grand = h > 0 and len(layout.grand_sibling) > 0
    has_up = h > 0 and (len(layout.grandparent) > 0 or has_grand)
    live = ints[live_start + h] if has_up else 0
    heads = ints[live_start + h + 1] - live if has_up else 1
    incoming = heads if heads > 1 else 0

    if undecided == 0 or (undecided == 1 and incoming == 0):
        for g in range(heads):
            up = ints[live_arc + live + g] + first if has_up else -1
            without = _fold(graph, layout, b, side, size, up, np.int64(KIND_CHAIN))
            if incoming > 0:
                floats[score + up - first] += without
            else:
                floats[constant] += without
        return

    s, e = count[SIZE_FACTORS], count[SIZE_LINKS]
    bar, here, ups = count[SIZE_BARS], count[SIZE_CELLS], count[SIZE_UP_CELLS]
    factor[s, FACTOR_KIND], factor[s, FACTOR_LINK], factor[s, FACTOR_SIZE], factor[s, FACTOR_HEADS] = (
        KIND_CHAIN,
        e,
        size,
        heads,
    )
    factor[s, FACTOR_INCOMING], factor[s, FACTOR_TABLE], factor[s, FACTOR_UP], factor[s, FACTOR_BAR] = (
        incoming,
        here,
        -1,
        bar,
    )
    factor[s, FACTOR_WIDTH] = 1 + size
    factor[s, FACTOR_STRIDE], factor[s, FACTOR_SIDE] = (size + 1) * (size + 2) // 2 if has_grand else 0, side
    for g in range(heads):
        ints[barred + bar + g] = 0
        if incoming > 0:
            a = ints[live_arc + live + g]
            ints[link_arc + e], ints[link_place + e] = a, (ROLE_IN_LEFT + side % 2) * count[SIZE_ARCS] + a
            e += 1
            for j in range(1, size + 1):
                if layout.modifier[first + ints[side_arc + j]] == layout.head[first + a]:
                    ints[barred + bar + g] = j
    count[SIZE_LINKS] = e
    _add_modifiers(graph, layout, first, s, size, np.int64(ROLE_OUT))
    for g in range(heads if has_grand else 1):
        up = ints[live_arc + live + g] + first if has_up else 0
        grand = layout.grand_sibling_offsets[2 * up + side % 2]
        for j in range(1, size + 2):
            outer = ints[rank + j] if j <= size else J + 1
            own = 0.0
            if has_grand and j <= size and len(layout.grandparent) > 0:
                k = first + ints[side_arc + j]
                entry = layout.grandparent_offsets[k] + up - layout.modifier_offsets[before + h]
                own = normalised(graph, layout.grandparent[entry])
            for i in range(j):
                entry = sibling_at(J, ints[rank + i] if i > 0 else 0, outer)
                value = own
                if len(layout.sibling) > 0:
                    value += normalised(graph, layout.sibling[layout.sibling_offsets[side] + entry])
                if has_grand:
                    value += normalised(graph, layout.grand_sibling[grand + entry])
                floats[cell + here] = value
                here += 1
    if has_up and not has_grand:
        factor[s, FACTOR_UP] = ups
        for g in range(heads):
            up = ints[live_arc + live + g] + first - layout.modifier_offsets[before + h]
            for j in range(1, size + 1):
                entry = layout.grandparent_offsets[first + ints[side_arc + j]] + up
                floats[up_cell + ups] = normalised(graph, layout.grandparent[entry])
                ups += 1
    factor[s, FACTOR_TOP] = here
    if incoming > 0:
        table, block = cell + factor[s, FACTOR_TABLE], (size + 1) * (size + 2) // 2
        for j in range(1, size + 2):
            most = 0.0
            if not has_grand and j <= size:
                most = -np.inf
                for g in range(heads):
                    most = max(most, floats[up_cell + factor[s, FACTOR_UP] + g * size + j - 1])
            for i in range(j * (j - 1) // 2, j * (j + 1) // 2):
                value = floats[table + i]
                for g in range(1, heads if has_grand else 1):
                    value = max(value, floats[table + g * block + i])
                floats[cell + here] = value + most
                here += 1
    count[SIZE_BARS], count[SIZE_CELLS], count[SIZE_UP_CELLS] = bar + heads, here, ups


@numba.njit(**CALLED)
def _add_triple(graph, layout, b, side, size, undecided):
    """Add the automaton of one side of a head that remembers two modifiers, or fold it into scores of arcs."""
    at, floats, ints = graph.at, graph.floats, graph.ints
    count, factor = graph.sizes, graph.factor
    constant, cell, rank = at[CONSTANT], at[CELL], at[RANK]
    first = layout.sentence_offsets[b]
    J = layout.side_offsets[side + 1] - layout.side_offsets[side]
    block = layout.tri_sibling_offsets[side]
    if undecided <= 1:
        floats[constant] += _fold(graph, layout, b, side, size, np.int64(-1), np.int64(KIND_TRIPLE))
        return

    s, here = count[SIZE_FACTORS], count[SIZE_CELLS]
    factor[s, FACTOR_KIND], factor[s, FACTOR_LINK], factor[s, FACTOR_SIZE], factor[s, FACTOR_HEADS] = (
        KIND_TRIPLE,
        count[SIZE_LINKS],
        size,
        1,
    )
    factor[s, FACTOR_INCOMING], factor[s, FACTOR_TABLE], factor[s, FACTOR_SIDE] = 0, here, side
    factor[s, FACTOR_WIDTH] = size
    _add_modifiers(graph, layout, first, s, size, np.int64(ROLE_OUT_TRIPLE))
    for j in range(1, size + 1):
        for i in range(j):
            for c in range(j + 1, size + 2):
                outer = ints[rank + c] if c <= size else J + 1
                entry = tri_sibling_at(J, ints[rank + i] if i > 0 else 0, ints[rank + j], outer)
                floats[cell + here] = normalised(graph, layout.tri_sibling[block + entry])
                here += 1
    count[SIZE_CELLS] = here


@numba.njit(**CALLED)
def _add_sequences(graph, layout, b):
    """Add a sequence for each run of undecided words; where a neighbour is decided, the bigram scores one arc."""
    at, floats, ints = graph.at, graph.floats, graph.ints
    count, factor = graph.sizes, graph.factor
    score, cell, only = at[SCORE], at[CELL], at[ONLY]
    live_start, live_arc, live_head, link_of = at[LIVE_START], at[LIVE_ARC], at[LIVE_HEAD], at[LINK_OF]
    link_arc, link_place, decided = at[LINK_ARC], at[LINK_PLACE], at[DECIDED]
    first, before, n = layout.sentence_offsets[b], layout.word_offsets[b] - 1, layout.lengths[b]
    m = 1
    while m <= n:
        last = m
        while last < n and ints[only + m] < 0 and ints[only + last + 1] < 0:
            last += 1
        s, e, place, here = count[SIZE_FACTORS], count[SIZE_LINKS], count[SIZE_PLACES], count[SIZE_CELLS]
        if last > m:
            factor[s, FACTOR_KIND], factor[s, FACTOR_LINK], factor[s, FACTOR_SIZE] = KIND_SEQUENCE, e, last - m + 1
            factor[s, FACTOR_TABLE], factor[s, FACTOR_PLACE], factor[s, FACTOR_SIDE] = here, place, m
            factor[s, FACTOR_WIDTH] = last - m + 1
            for i in range(last - m + 1):
                ints[link_of + place + i] = e - factor[s, FACTOR_LINK]
                for p in range(ints[live_start + m + i], ints[live_start + m + i + 1]):
                    a = ints[live_arc + p]
                    ints[link_arc + e], ints[link_place + e] = a, ROLE_IN_SEQUENCE * count[SIZE_ARCS] + a
                    e += 1
            ints[link_of + place + last - m + 1] = e - factor[s, FACTOR_LINK]
            factor[s, FACTOR_LINKS] = e - factor[s, FACTOR_LINK]
        for v in range(max(m, 2), last + 1):
            if v > m:
                ints[decided + place + v - m] = here - factor[s, FACTOR_TABLE]
            w = before + v
            width = layout.modifier_offsets[w + 1] - layout.modifier_offsets[w]
            for q in range(ints[live_start + v - 1], ints[live_start + v]):
                row = ints[live_arc + q] + first - layout.modifier_offsets[w - 1]
                row = layout.head_bigram_offsets[w] + row * width + first - layout.modifier_offsets[w]
                for p in range(ints[live_start + v], ints[live_start + v + 1]):
                    value = normalised(graph, layout.head_bigram[row + ints[live_arc + p]])
                    if v > m:
                        # Both words are open and have another head, so that every state can still be reached and left.
                        mutual = ints[live_head + q] == v and ints[live_head + p] == v - 1
                        floats[cell + here] = -np.inf if mutual else value
                        here += 1
                    elif ints[only + v] >= 0:
                        floats[score + ints[live_arc + q]] += value
                    else:
                        floats[score + ints[live_arc + p]] += value
        if last > m:
            count[SIZE_FACTORS], count[SIZE_LINKS], count[SIZE_PLACES], count[SIZE_CELLS] = (
                s + 1,
                e,
                place + last - m + 2,
                here,
            )
        m = last + 1


@numba.njit(**CALLED)
def _add_pairs(graph, layout, b, single_root):
    """Add a factor for each two undecided arcs of a head; a root with a single modifier has none."""
    at, floats, ints = graph.at, graph.floats, graph.ints
    count = graph.sizes
    score, constant, pair_score = at[SCORE], at[CONSTANT], at[PAIR_SCORE]
    alive, only = at[ALIVE], at[ONLY]
    link_arc, link_place = at[LINK_ARC], at[LINK_PLACE]
    first = layout.sentence_offsets[b]
    node = layout.word_offsets[b] + b
    e, pairs = count[SIZE_LINKS], 0
    for h in range(node + single_root, node + layout.lengths[b] + 1):
        begin, end = layout.side_offsets[2 * h], layout.side_offsets[2 * h + 2]
        for i in range(end - begin):
            one = layout.outward[begin + i] - first
            if not ints[alive + one]:
                continue
            for j in range(i + 1, end - begin):
                two = layout.outward[begin + j] - first
                if not ints[alive + two]:
                    continue
                entry = layout.any_sibling_offsets[h] + any_sibling_at(end - begin, i, j)
                value = normalised(graph, layout.any_sibling[entry])
                open_one, open_two = (
                    ints[only + layout.modifier[first + one]] < 0,
                    ints[only + layout.modifier[first + two]] < 0,
                )
                if open_one and open_two:
                    if value != 0:
                        floats[pair_score + pairs] = value
                        pairs += 1
                        place = ROLES * count[SIZE_ARCS] + 2 * (entry - layout.any_sibling_offsets[node])
                        ints[link_arc + e], ints[link_place + e] = one, place
                        ints[link_arc + e + 1], ints[link_place + e + 1] = two, place + 1
                        e += 2
                elif open_one:
                    floats[score + one] += value
                elif open_two:
                    floats[score + two] += value
                else:
                    floats[constant] += value
    count[SIZE_PAIRS], count[SIZE_LINKS] = pairs, e
