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
    ACTIVE,
    ALIVE,
    ALL_LINKS,
    ARCS,
    BAR,
    BARRED,
    BARS,
    CAPACITY,
    CELL,
    CELLS,
    CHAIN,
    CHANGED,
    CONFIG,
    CONSTANT,
    COPY,
    DECIDED,
    DEGREE,
    DIRTY,
    FACTORS,
    FLOOR,
    FULL,
    GRAND_SIBLING,
    GRANDPARENT,
    HEADS,
    IN_LEFT,
    IN_RIGHT,
    IN_SEQUENCE,
    INCOMING,
    INCUMBENT,
    KEPT,
    KIND,
    LINK,
    LINK_ARC,
    LINK_OF,
    LINK_PLACE,
    LINKS,
    LIVE_ARC,
    LIVE_HEAD,
    LIVE_LINK,
    LIVE_START,
    MEAN,
    ONLY,
    OPEN_ARCS,
    ORIGIN,
    OUT,
    OUT_TRIPLE,
    PAIR_LINK,
    PAIR_SCORE,
    PAIRS,
    PICKED,
    PLACE,
    PLACES,
    RANK,
    ROLES,
    ROOM,
    SCALE,
    SCORE,
    SEQUENCE,
    SHARE,
    SIBLING,
    SIDE,
    SIDE_ARC,
    SIZE,
    SLOT,
    SQUARE,
    STRIDE,
    TABLE,
    TOP,
    TOTAL,
    TREE,
    TRI_SIBLING,
    TRIPLE,
    UP,
    UP_CELL,
    UP_CELLS,
    WIDTH,
    N,
)
from arbora.decoders.dual.normalisation import lead, measure, normalised, set_floor
from arbora.decoders.kernels.options import CALLED, INLINED
from arbora.decoders.parts.layout import any_sibling_at, sibling_at, tri_sibling_at


@numba.njit(**CALLED)
def start(graph, layout, b):
    """Begin a sentence: all arcs are candidates, and each factor gets a share of their scores.

    What a factor gets of an arc's score is counted from midway between the two best heads of the word. Automata may
    leave a modifier out, so that they take at first just the arcs that are likely. They get the most, since a single
    arc is worth little there unless it outweighs the parts; the tree gets what is left.
    """
    at, reals, wholes = graph.at, graph.real, graph.whole
    alive, mean, kept, total = at[ALIVE], at[MEAN], at[KEPT], at[TOTAL]
    first = layout.sentence_offsets[b]
    n, arcs = layout.lengths[b], layout.sentence_offsets[b + 1] - first
    graph.sizes[N], graph.sizes[ARCS] = n, arcs
    reals[at[INCUMBENT]] = -np.inf
    measure(graph, layout, b)
    scale, origin = reals[at[SCALE]], at[ORIGIN]
    has_up = len(layout.grandparent) > 0 or len(layout.grand_sibling) > 0
    has_out = has_up or len(layout.sibling) > 0
    whole = 0.5 + 3 * has_out + 2 * has_up + 3 * (len(layout.tri_sibling) > 0) + 2 * (len(layout.head_bigram) > 0)
    whole += 3 * (len(layout.any_sibling) > 0)
    node = layout.word_offsets[b] + b
    for w in range(layout.word_offsets[b], layout.word_offsets[b + 1]):
        top = reals[origin + w - layout.word_offsets[b] + 1]
        gap = lead(layout, w)
        for k in range(layout.modifier_offsets[w], layout.modifier_offsets[w + 1]):
            a = k - first
            part = scale * (layout.arc_score[k] - top + gap / 2) / whole
            wholes[alive + a] = True
            reals[mean + a] = layout.arc_score[k] == top
            reals[kept + OUT * arcs + a] = 3 * part
            reals[kept + IN_LEFT * arcs + a] = reals[kept + IN_RIGHT * arcs + a] = part
            reals[kept + OUT_TRIPLE * arcs + a] = 3 * part
            reals[kept + IN_SEQUENCE * arcs + a] = 2 * part
            h = node + layout.head[k]
            reals[total + a] = 3 * part / max(1, layout.side_offsets[2 * h + 2] - layout.side_offsets[2 * h] - 1)
    if len(layout.any_sibling) > 0:
        e = ROLES * arcs
        for h in range(node, node + n + 1):
            begin, end = layout.side_offsets[2 * h], layout.side_offsets[2 * h + 2]
            for i in range(begin, end):
                for j in range(i + 1, end):
                    reals[kept + e] = reals[total + layout.outward[i] - first]
                    reals[kept + e + 1] = reals[total + layout.outward[j] - first]
                    e += 2


@numba.njit(**CALLED)
def restrict(graph, layout, b, single_root):
    """Take away arcs that close a cycle with decided ones or make a second root; False if a word is left without head.

    True does not say that there is a tree: some words may still reach the root only by way of each other.
    """
    at, wholes = graph.at, graph.whole
    alive, only = at[ALIVE], at[ONLY]
    first, before, n = layout.sentence_offsets[b], layout.word_offsets[b] - 1, layout.lengths[b]
    again = True
    while again:
        again = False
        roots, last_root, decided_root = 0, 0, 0
        for m in range(1, n + 1):
            heads, root = 0, False
            for k in range(layout.modifier_offsets[before + m], layout.modifier_offsets[before + m + 1]):
                if wholes[alive + k - first]:
                    heads += 1
                    wholes[only + m] = layout.head[k]
                    root |= layout.head[k] == 0
            if heads == 0:
                return False
            if heads > 1:
                wholes[only + m] = -1
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
                if not wholes[alive + k - first]:
                    continue
                h = layout.head[k]
                v = h
                climbed = 0
                while v > 0 and v != m and wholes[only + v] >= 0:
                    v = wholes[only + v]
                    climbed += 1
                    if climbed > n:
                        return False
                drop = v == m
                if single_root:
                    drop |= h == 0 and decided_root > 0 and decided_root != m
                    drop |= h != 0 and roots == 1 and m == last_root
                if drop:
                    if wholes[only + m] >= 0:
                        return False
                    wholes[alive + k - first] = False
                    again = True
    return True


@numba.njit(**CALLED)
def keep_shares(graph):
    """Write down the share of each link, for the graph to be built anew with fewer arcs."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    kept, share, link_place = at[KEPT], at[SHARE], at[LINK_PLACE]
    for e in range(graph.sizes[ALL_LINKS]):
        if wholes[link_place + e] >= 0:
            reals[kept + wholes[link_place + e]] = reals[share + e]


@numba.njit(**INLINED)
def build(graph, layout, b, single_root):
    """Make the factors of what is alive. `restrict` must have left every word a head."""
    at, reals, wholes = graph.at, graph.real, graph.whole
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
    scale, floor = reals[at[SCALE]], reals[at[FLOOR]]
    reals[constant] = 0.0
    p = 0
    links = 0
    for m in range(1, n + 1):
        wholes[live_start + m] = p
        wholes[picked + m] = wholes[only + m]
        for k in range(layout.modifier_offsets[before + m], layout.modifier_offsets[before + m + 1]):
            a = k - first
            reals[score + a] = max(scale * (layout.arc_score[k] - reals[at[ORIGIN] + m]), floor)
            wholes[degree + a] = 0
            wholes[changed + a] = True
            if wholes[alive + a]:
                wholes[live_arc + p], wholes[live_head + p] = a, layout.head[k]
                wholes[live_link + p] = -1
                if wholes[only + m] < 0:
                    wholes[live_link + p] = links
                    wholes[link_arc + links], wholes[link_place + links] = a, -1
                    links += 1
                else:
                    reals[mean + a] = 1.0
                p += 1
            else:
                reals[mean + a] = 0.0
    wholes[live_start + n + 1] = p
    factor[0, KIND], factor[0, LINK], factor[0, LINKS], factor[0, SIZE] = TREE, 0, links, n
    factor[0, WIDTH] = n
    count[FACTORS], count[ALL_LINKS], count[OPEN_ARCS] = 1, links, links
    count[CELLS] = count[UP_CELLS] = count[PLACES] = count[BARS] = 0

    has_chain = len(layout.sibling) > 0 or len(layout.grandparent) > 0 or len(layout.grand_sibling) > 0
    if has_chain or len(layout.tri_sibling) > 0:
        for side in range(2 * node + 1, 2 * (node + n + 1)):
            h = side // 2 - node
            size, undecided = np.int64(0), np.int64(0)
            for i in range(layout.side_offsets[side], layout.side_offsets[side + 1]):
                k = layout.outward[i]
                if wholes[alive + k - first]:
                    size += 1
                    wholes[rank + size] = i - layout.side_offsets[side] + 1
                    wholes[side_arc + size] = k - first
                    undecided += wholes[only + layout.modifier[k]] < 0
            if h == 0 and single_root:
                _fold_root(graph, layout, side, size)
                continue
            if has_chain:
                _add_chain(graph, layout, b, side, size, undecided)
            if len(layout.tri_sibling) > 0 and size > 0:
                _add_triple(graph, layout, b, side, size, undecided)
    if len(layout.head_bigram) > 0:
        _add_sequences(graph, layout, b)
    count[PAIRS] = 0
    count[PAIR_LINK] = count[ALL_LINKS]
    if len(layout.any_sibling) > 0:
        _add_pairs(graph, layout, b, single_root)

    # The tree has what the others leave it.
    for p in range(wholes[live_start + 1], wholes[live_start + n + 1]):
        a = wholes[live_arc + p]
        reals[total + a] = reals[score + a]
        if wholes[live_link + p] < 0:
            reals[constant] += reals[score + a]
    for e in range(count[ALL_LINKS]):
        a = wholes[link_arc + e]
        wholes[degree + a] += 1
        reals[copy + e] = reals[mean + a]
        if wholes[link_place + e] >= 0:
            reals[share + e] = max(reals[kept + wholes[link_place + e]], floor)
            reals[total + a] -= reals[share + e]
    for e in range(links):
        reals[share + e] = reals[total + wholes[link_arc + e]]
    slot, square, config = 0, 0, 0
    for s in range(count[FACTORS]):
        room = min(count[CAPACITY], factor[s, LINKS] + 1)
        factor[s, ROOM], factor[s, SLOT], factor[s, SQUARE], factor[s, CONFIG] = room, slot, square, config
        slot, square, config = slot + room, square + room * room, config + room * factor[s, WIDTH]
        factor[s, ACTIVE], factor[s, DIRTY] = 0, 1
    count[FULL] = False


@numba.njit(**CALLED)
def walk(graph, layout, b, side, up, kind, mass, shares, starts):
    """Score of an automaton's parts that fire with the modifiers in PICKED on one side of a head.

    Args:
        graph: of the sentence.
        layout: of the batch.
        b: the sentence.
        side: of the head.
        up: the arc into the head, -1 if unseen.
        kind: of the automaton, CHAIN or TRIPLE.
        mass: is added to the share of each of these parts.
        shares: by type and part; empty if only the score is asked for.
        starts: where the types start in `shares`.
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
            if graph.whole[picked + layout.modifier[k]] != h:
                continue
            if has_up and kind == CHAIN:
                entry = layout.grandparent_offsets[k] + place
                value += normalised(graph, layout.grandparent[entry])
                if added:
                    shares[starts[GRANDPARENT] + entry] += mass
        if kind == TRIPLE:
            if i > 0:
                entry = layout.tri_sibling_offsets[side] + tri_sibling_at(J, q, i, j)
                value += normalised(graph, layout.tri_sibling[entry])
                if added:
                    shares[starts[TRI_SIBLING] + entry] += mass
        else:
            entry = sibling_at(J, i, j)
            if has_sibling:
                value += normalised(graph, layout.sibling[layout.sibling_offsets[side] + entry])
                if added:
                    shares[starts[SIBLING] + layout.sibling_offsets[side] + entry] += mass
            if grand >= 0:
                value += normalised(graph, layout.grand_sibling[grand + entry])
                if added:
                    shares[starts[GRAND_SIBLING] + grand + entry] += mass
        q, i = i, j
    return value


@numba.njit(**CALLED)
def _fold(graph, layout, b, side, size, up, kind):
    """Add what an automaton scores more with its undecided modifier to the arc's score; what it scores without."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    score, only, picked, side_arc = at[SCORE], at[ONLY], at[PICKED], at[SIDE_ARC]
    first, none = layout.sentence_offsets[b], reals[:0]
    without = walk(graph, layout, b, side, up, kind, 0.0, none, at)
    for j in range(1, size + 1):
        a = wholes[side_arc + j]
        m = layout.modifier[first + a]
        if wholes[only + m] < 0:
            wholes[picked + m] = layout.head[first + a]
            reals[score + a] += walk(graph, layout, b, side, up, kind, 0.0, none, at) - without
            wholes[picked + m] = -1
    return without


@numba.njit(**CALLED)
def _fold_root(graph, layout, side, size):
    """Add what siblings score to the arcs of a root with a single modifier."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    score, rank, side_arc = at[SCORE], at[RANK], at[SIDE_ARC]
    J = layout.side_offsets[side + 1] - layout.side_offsets[side]
    for j in range(1, size + 1):
        value = 0.0
        if len(layout.sibling) > 0:
            block = layout.sibling_offsets[side]
            value += normalised(graph, layout.sibling[block + sibling_at(J, 0, wholes[rank + j])])
            value += normalised(graph, layout.sibling[block + sibling_at(J, wholes[rank + j], J + 1)])
        if len(layout.tri_sibling) > 0:
            block = layout.tri_sibling_offsets[side]
            value += normalised(graph, layout.tri_sibling[block + tri_sibling_at(J, 0, wholes[rank + j], J + 1)])
        reals[score + wholes[side_arc + j]] += value


@numba.njit(**CALLED)
def _add_modifiers(graph, layout, first, s, size, role):
    """Link an automaton to its undecided modifiers, and note which are decided."""
    at, wholes = graph.at, graph.whole
    link_arc, link_place, side_arc = at[LINK_ARC], at[LINK_PLACE], at[SIDE_ARC]
    only, link_of, decided = at[ONLY], at[LINK_OF], at[DECIDED]
    place, e = graph.sizes[PLACES], graph.sizes[ALL_LINKS]
    graph.factor[s, PLACE] = place
    last = 0
    for j in range(1, size + 2):
        wholes[decided + place + j] = last
        if j <= size:
            a = wholes[side_arc + j]
            if wholes[only + layout.modifier[first + a]] < 0:
                wholes[link_of + place + j] = e - graph.factor[s, LINK]
                wholes[link_arc + e], wholes[link_place + e] = a, role * graph.sizes[ARCS] + a
                e += 1
            else:
                wholes[link_of + place + j] = -1
                last = j
    graph.factor[s, LINKS] = e - graph.factor[s, LINK]
    graph.sizes[ALL_LINKS] = e
    graph.sizes[PLACES] = place + size + 2
    graph.sizes[FACTORS] = s + 1


@numba.njit(**CALLED)
def _add_chain(graph, layout, b, side, size, undecided):
    """Add the automaton of one side of a head over its modifiers and incoming arcs, or fold it into scores of arcs."""
    at, reals, wholes = graph.at, graph.real, graph.whole
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
    live = wholes[live_start + h] if has_up else 0
    heads = wholes[live_start + h + 1] - live if has_up else 1
    incoming = heads if heads > 1 else 0

    if undecided == 0 or (undecided == 1 and incoming == 0):
        for g in range(heads):
            up = wholes[live_arc + live + g] + first if has_up else -1
            without = _fold(graph, layout, b, side, size, up, np.int64(CHAIN))
            if incoming > 0:
                reals[score + up - first] += without
            else:
                reals[constant] += without
        return

    s, e = count[FACTORS], count[ALL_LINKS]
    bar, here, ups = count[BARS], count[CELLS], count[UP_CELLS]
    factor[s, KIND], factor[s, LINK], factor[s, SIZE], factor[s, HEADS] = CHAIN, e, size, heads
    factor[s, INCOMING], factor[s, TABLE], factor[s, UP], factor[s, BAR] = incoming, here, -1, bar
    factor[s, WIDTH] = 1 + size
    factor[s, STRIDE], factor[s, SIDE] = (size + 1) * (size + 2) // 2 if has_grand else 0, side
    for g in range(heads):
        wholes[barred + bar + g] = 0
        if incoming > 0:
            a = wholes[live_arc + live + g]
            wholes[link_arc + e], wholes[link_place + e] = a, (IN_LEFT + side % 2) * count[ARCS] + a
            e += 1
            for j in range(1, size + 1):
                if layout.modifier[first + wholes[side_arc + j]] == layout.head[first + a]:
                    wholes[barred + bar + g] = j
    count[ALL_LINKS] = e
    _add_modifiers(graph, layout, first, s, size, np.int64(OUT))
    for g in range(heads if has_grand else 1):
        up = wholes[live_arc + live + g] + first if has_up else 0
        grand = layout.grand_sibling_offsets[2 * up + side % 2]
        for j in range(1, size + 2):
            outer = wholes[rank + j] if j <= size else J + 1
            own = 0.0
            if has_grand and j <= size and len(layout.grandparent) > 0:
                k = first + wholes[side_arc + j]
                entry = layout.grandparent_offsets[k] + up - layout.modifier_offsets[before + h]
                own = normalised(graph, layout.grandparent[entry])
            for i in range(j):
                entry = sibling_at(J, wholes[rank + i] if i > 0 else 0, outer)
                value = own
                if len(layout.sibling) > 0:
                    value += normalised(graph, layout.sibling[layout.sibling_offsets[side] + entry])
                if has_grand:
                    value += normalised(graph, layout.grand_sibling[grand + entry])
                reals[cell + here] = value
                here += 1
    if has_up and not has_grand:
        factor[s, UP] = ups
        for g in range(heads):
            up = wholes[live_arc + live + g] + first - layout.modifier_offsets[before + h]
            for j in range(1, size + 1):
                entry = layout.grandparent_offsets[first + wholes[side_arc + j]] + up
                reals[up_cell + ups] = normalised(graph, layout.grandparent[entry])
                ups += 1
    factor[s, TOP] = here
    if incoming > 0:
        table, block = cell + factor[s, TABLE], (size + 1) * (size + 2) // 2
        for j in range(1, size + 2):
            most = 0.0
            if not has_grand and j <= size:
                most = -np.inf
                for g in range(heads):
                    most = max(most, reals[up_cell + factor[s, UP] + g * size + j - 1])
            for i in range(j * (j - 1) // 2, j * (j + 1) // 2):
                value = reals[table + i]
                for g in range(1, heads if has_grand else 1):
                    value = max(value, reals[table + g * block + i])
                reals[cell + here] = value + most
                here += 1
    count[BARS], count[CELLS], count[UP_CELLS] = bar + heads, here, ups


@numba.njit(**CALLED)
def _add_triple(graph, layout, b, side, size, undecided):
    """Add the automaton of one side of a head that remembers two modifiers, or fold it into scores of arcs."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    count, factor = graph.sizes, graph.factor
    constant, cell, rank = at[CONSTANT], at[CELL], at[RANK]
    first = layout.sentence_offsets[b]
    J = layout.side_offsets[side + 1] - layout.side_offsets[side]
    block = layout.tri_sibling_offsets[side]
    if undecided <= 1:
        reals[constant] += _fold(graph, layout, b, side, size, np.int64(-1), np.int64(TRIPLE))
        return

    s, here = count[FACTORS], count[CELLS]
    factor[s, KIND], factor[s, LINK], factor[s, SIZE], factor[s, HEADS] = TRIPLE, count[ALL_LINKS], size, 1
    factor[s, INCOMING], factor[s, TABLE], factor[s, SIDE] = 0, here, side
    factor[s, WIDTH] = size
    _add_modifiers(graph, layout, first, s, size, np.int64(OUT_TRIPLE))
    for j in range(1, size + 1):
        for i in range(j):
            for c in range(j + 1, size + 2):
                outer = wholes[rank + c] if c <= size else J + 1
                entry = tri_sibling_at(J, wholes[rank + i] if i > 0 else 0, wholes[rank + j], outer)
                reals[cell + here] = normalised(graph, layout.tri_sibling[block + entry])
                here += 1
    count[CELLS] = here


@numba.njit(**CALLED)
def _add_sequences(graph, layout, b):
    """Add a sequence for each run of undecided words; where a neighbour is decided, the bigram scores one arc."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    count, factor = graph.sizes, graph.factor
    score, cell, only = at[SCORE], at[CELL], at[ONLY]
    live_start, live_arc, live_head, link_of = at[LIVE_START], at[LIVE_ARC], at[LIVE_HEAD], at[LINK_OF]
    link_arc, link_place, decided = at[LINK_ARC], at[LINK_PLACE], at[DECIDED]
    first, before, n = layout.sentence_offsets[b], layout.word_offsets[b] - 1, layout.lengths[b]
    m = 1
    while m <= n:
        last = m
        while last < n and wholes[only + m] < 0 and wholes[only + last + 1] < 0:
            last += 1
        s, e, place, here = count[FACTORS], count[ALL_LINKS], count[PLACES], count[CELLS]
        if last > m:
            factor[s, KIND], factor[s, LINK], factor[s, SIZE] = SEQUENCE, e, last - m + 1
            factor[s, TABLE], factor[s, PLACE], factor[s, SIDE] = here, place, m
            factor[s, WIDTH] = last - m + 1
            for i in range(last - m + 1):
                wholes[link_of + place + i] = e - factor[s, LINK]
                for p in range(wholes[live_start + m + i], wholes[live_start + m + i + 1]):
                    a = wholes[live_arc + p]
                    wholes[link_arc + e], wholes[link_place + e] = a, IN_SEQUENCE * count[ARCS] + a
                    e += 1
            wholes[link_of + place + last - m + 1] = e - factor[s, LINK]
            factor[s, LINKS] = e - factor[s, LINK]
        for v in range(max(m, 2), last + 1):
            if v > m:
                wholes[decided + place + v - m] = here - factor[s, TABLE]
            w = before + v
            width = layout.modifier_offsets[w + 1] - layout.modifier_offsets[w]
            for q in range(wholes[live_start + v - 1], wholes[live_start + v]):
                row = wholes[live_arc + q] + first - layout.modifier_offsets[w - 1]
                row = layout.head_bigram_offsets[w] + row * width + first - layout.modifier_offsets[w]
                for p in range(wholes[live_start + v], wholes[live_start + v + 1]):
                    value = normalised(graph, layout.head_bigram[row + wholes[live_arc + p]])
                    if v > m:
                        # Both words are open and have another head, so that every state can still be reached and left.
                        mutual = wholes[live_head + q] == v and wholes[live_head + p] == v - 1
                        reals[cell + here] = -np.inf if mutual else value
                        here += 1
                    elif wholes[only + v] >= 0:
                        reals[score + wholes[live_arc + q]] += value
                    else:
                        reals[score + wholes[live_arc + p]] += value
        if last > m:
            count[FACTORS], count[ALL_LINKS], count[PLACES], count[CELLS] = s + 1, e, place + last - m + 2, here
        m = last + 1


@numba.njit(**CALLED)
def _add_pairs(graph, layout, b, single_root):
    """Add a factor for each two undecided arcs of a head; a root with a single modifier has none."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    count = graph.sizes
    score, constant, pair_score = at[SCORE], at[CONSTANT], at[PAIR_SCORE]
    alive, only = at[ALIVE], at[ONLY]
    link_arc, link_place = at[LINK_ARC], at[LINK_PLACE]
    first = layout.sentence_offsets[b]
    node = layout.word_offsets[b] + b
    e, pairs = count[ALL_LINKS], 0
    for h in range(node + single_root, node + layout.lengths[b] + 1):
        begin, end = layout.side_offsets[2 * h], layout.side_offsets[2 * h + 2]
        for i in range(end - begin):
            one = layout.outward[begin + i] - first
            if not wholes[alive + one]:
                continue
            for j in range(i + 1, end - begin):
                two = layout.outward[begin + j] - first
                if not wholes[alive + two]:
                    continue
                entry = layout.any_sibling_offsets[h] + any_sibling_at(end - begin, i, j)
                value = normalised(graph, layout.any_sibling[entry])
                open_one, open_two = (
                    wholes[only + layout.modifier[first + one]] < 0,
                    wholes[only + layout.modifier[first + two]] < 0,
                )
                if open_one and open_two:
                    if value != 0:
                        reals[pair_score + pairs] = value
                        pairs += 1
                        place = ROLES * count[ARCS] + 2 * (entry - layout.any_sibling_offsets[node])
                        wholes[link_arc + e], wholes[link_place + e] = one, place
                        wholes[link_arc + e + 1], wholes[link_place + e + 1] = two, place + 1
                        e += 2
                elif open_one:
                    reals[score + one] += value
                elif open_two:
                    reals[score + two] += value
                else:
                    reals[constant] += value
    count[PAIRS], count[ALL_LINKS] = pairs, e
