"""The factor graph of one sentence: what AD3, the subgradient method and branch and bound search in.

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
- An automaton never takes a modifier that is its own grandparent.
- `bound` gives for each arc how much is lost at least by every tree with that arc: the sum over factors of the best
  configuration less the best with the arc. An arc which loses more than the gap between bound and best known tree is
  in no better tree. For the tree, that loss is the reduced cost in the dual of Edmonds' linear program, which
  contraction computes on the way.

One look at all factors takes O(n K J^2) for the automata with incoming arcs, O(n J^3) for those with two modifiers,
O(n K^2) for the sequence, O(n^2) for the tree; the memory is that of the parts of one sentence, in float64.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from arbora.decoders.layout import HELPER, any_sibling_at, find_arc, sibling_at, tri_sibling_at
from arbora.decoders.mst import DONE, FRESH, INNER, OPEN, REPLACED, _best_source, _weigh, _weight
from arbora.decoders.parts import Kind, Parts

CALLED: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}
CALLED |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of kernels that only other kernels call, too long to be inlined everywhere. They must not allocate. Python
cannot call them: to unpack a `Graph` and a `Layout` for Python takes longer to compile than most of them."""

INLINED: dict[str, Any] = {"inline": "always"}
"""Options of kernels that become part of the one that calls them. Each level of calls has all that is below compiled
once more, so that only the innermost kernels stand by themselves."""

TREE, CHAIN, TRIPLE, SEQUENCE = range(4)
"""Kinds of factors besides pairs: automata over one modifier (and the grandparent) and over two."""

KIND, LINK, LINKS, SIZE, HEADS, INCOMING, TABLE, STRIDE, TOP, UP, PLACE, BAR, CONFIG, WIDTH, ACTIVE, DIRTY = range(16)
"""Columns of `Graph.factor`: kind; first link and number of links; modifiers, or words of a sequence; candidate heads;
how many of the links are incoming arcs; where its scores start, how far those of two heads are apart, and where the
largest over all heads start; where scores of grandparents, places and barred modifiers start; where its configurations
start, and how long they may be; how many are active; whether an arc of it changed."""

N, ARCS, FACTORS, ALL_LINKS, OPEN_ARCS, PAIRS, PAIR_LINK, CELLS, UP_CELLS, PLACES, BARS, CONFIGS, COUNTS = range(13)
"""Places in `Graph.sizes`: words, arcs, factors, links, undecided arcs, pairs, first link of a pair; how much of the
arrays of the same names is taken."""

OUT, IN_LEFT, IN_RIGHT, OUT_TRIPLE, IN_SEQUENCE, ROLES = range(6)
"""Roles in which factors see an arc, besides the tree and the pairs."""

GAP = 1e-6
"""A tree is proved to be the best where the bound exceeds its score by no more than this times (1 + |score|)."""

CAPACITY = 32
"""Most active configurations of a factor; few factors ever need ten."""

REALS: dict[str, str] = {
    "constant": "score of what is decided",
    "incumbent": "score of the best tree known",
    "score": "of each arc, with the parts that depend on it alone",
    "mean": "u, the agreed share of each arc in the tree, 0..1",
    "loss": "least loss of a tree with this arc",
    "total": "scratch, by arc",
    "weight": "by live arc, for the search of the best tree",
    "share": "of each link in the score of its arc, with the multiplier",
    "copy": "z, a factor's opinion of the arc, by link",
    "kept": "shares by arc and role and by pair, while the graph is built anew",
    "cell": "scores of the factors",
    "up_cell": "scores of grandparents, by head and modifier",
    "pair_score": "by pair",
    "own": "what the factor scores an active configuration",
    "mass": "weight of each active configuration",
    "matrix": "by factor, CAPACITY x CAPACITY",
    "rows": "4 x CAPACITY",
    "input": "score of each link of a factor, from its first: what an oracle reads",
    "reward": "input of each modifier",
    "forward": "best value up to a state",
    "backward": "best value from a state on",
    "best_with": "best value of a configuration with a link",
    "top_with": "no less than that of a modifier with any grandparent",
    "best": "weight of the arc chosen for a node of the tree's search",
    "prefix": "sum of `best` over the nodes inside",
}
"""Arrays in `Graph.real`."""

WHOLES: dict[str, str] = {
    "alive": "whether each arc is still a candidate",
    "degree": "links of each arc",
    "changed": "whether an arc's input to its factors changed",
    "live_start": "of the live arcs into each word",
    "live_arc": "numbers of live arcs by (modifier, head)",
    "live_head": "their heads",
    "live_link": "their links in the tree factor, -1 if decided",
    "link_arc": "arc of each link",
    "link_place": "its place in `kept`, -1 for the tree's",
    "link_of": "of each modifier from 1 on, -1 if decided; in a sequence, first link of each word",
    "decided": "last decided modifier before each; in a sequence, first cell of each word",
    "barred": "by grandparent, the modifier that it is itself, 0 if none",
    "config_link": "links of each active configuration",
    "config_size": "how many",
    "config_new": "trees not yet scored",
    "found": "links of the best configuration: what an oracle writes",
    "back": "state before each",
    "rank": "of the live modifiers of a side among all candidates",
    "side_arc": "their arcs",
    "tree_head": "the tree that was found last",
    "chosen": "its arcs",
    "only": "head of a decided word, -1 of others",
    "best_head": "best tree known",
    "source": "as in `mst`, like the next seven",
    "member": "",
    "first_member": "",
    "state": "",
    "node_of": "",
    "word_of": "",
    "next_word": "",
    "path": "",
    "outer": "contracted node that holds a node, 0 if none",
    "mark": "scratch, by node",
}
"""Arrays in `Graph.whole`."""

(
    CONSTANT,
    INCUMBENT,
    SCORE,
    MEAN,
    LOSS,
    TOTAL,
    WEIGHT,
    SHARE,
    COPY,
    KEPT,
    CELL,
    UP_CELL,
    PAIR_SCORE,
    OWN,
    MASS,
    MATRIX,
    ROWS,
    INPUT,
    REWARD,
    FORWARD,
    BACKWARD,
    BEST_WITH,
    TOP_WITH,
    BEST,
    PREFIX,
) = range(len(REALS))
(
    ALIVE,
    DEGREE,
    CHANGED,
    LIVE_START,
    LIVE_ARC,
    LIVE_HEAD,
    LIVE_LINK,
    LINK_ARC,
    LINK_PLACE,
    LINK_OF,
    DECIDED,
    BARRED,
    CONFIG_LINK,
    CONFIG_SIZE,
    CONFIG_NEW,
    FOUND,
    BACK,
    RANK,
    SIDE_ARC,
    TREE_HEAD,
    CHOSEN,
    ONLY,
    BEST_HEAD,
    SOURCE,
    MEMBER,
    FIRST_MEMBER,
    STATE,
    NODE_OF,
    WORD_OF,
    NEXT_WORD,
    PATH,
    OUTER,
    MARK,
) = range(len(REALS), len(REALS) + len(WHOLES))


class Graph(NamedTuple):
    """Factors of one sentence, and all that a search in them writes.

    Two arrays hold many, and entry i of MEAN is `real[at[MEAN] + i]`: kernels hand a graph on at each call, each array
    of a tuple takes seven arguments, and dozens of them took minutes to compile. Arcs are counted from the sentence's
    first.
    """

    sizes: NDArray[np.int64]  # (COUNTS,)
    factor: NDArray[np.int64]  # (F, DIRTY + 1)
    at: NDArray[np.int64]  # where each array of REALS and WHOLES starts in `real` or `whole`
    real: NDArray[np.float64]
    whole: NDArray[np.int32]
    row: NDArray[np.float64]  # (n+1, n+1) weights of arcs into contracted nodes, as in `mst`


def steps(parts: Parts) -> NDArray[np.float64]:
    """(B,) about how many innermost steps it takes to look at all factors once."""
    total = 3.0 * np.diff(parts.sentence_offsets)
    for kind in parts.kinds:
        total += np.diff(parts.part_offsets("grand_sibling" if kind == "grandparent" else kind))
    return total


def allocate(parts: Parts, sentences: NDArray[np.int64]) -> Graph:
    """A graph with room for any of the sentences."""

    def most(counts: NDArray[np.integer]) -> int:
        return int(counts[sentences].max(initial=0))

    def parts_of(kind: Kind) -> NDArray[np.int64]:
        return np.diff(parts.part_offsets(kind)) * (getattr(parts, kind) is not None)

    n = most(parts.lengths)
    arcs = most(np.diff(parts.sentence_offsets))
    sides = 2 * (n + 1)
    pairs = most(parts_of("any_sibling"))
    cells = 2 * np.diff(parts.part_offsets("sibling")) + parts_of("grand_sibling")
    cells += parts_of("tri_sibling") + parts_of("head_bigram")
    has_triple = parts.tri_sibling is not None
    has_up = parts.grandparent is not None or parts.grand_sibling is not None
    factors = 1 + sides * (1 + has_triple) + n
    links = (3 + 2 * has_up + has_triple) * arcs + 2 * pairs
    states = max(n + 2, arcs, (n + 2) * (n + 1) // 2 if has_triple else 0)
    places = 2 * (arcs + 2 * sides) + 2 * n + 2
    active = CAPACITY * factors
    sizes: dict[str, int] = dict.fromkeys(("score", "mean", "loss", "total", "weight", "input", "best_with"), arcs)
    sizes |= dict.fromkeys(("alive", "degree", "changed", "live_arc", "live_head", "live_link"), arcs)
    sizes |= dict.fromkeys(("share", "copy", "link_arc", "link_place"), links)
    sizes |= dict.fromkeys(("forward", "backward", "back"), states)
    sizes |= dict.fromkeys(("link_of", "decided"), places)
    sizes |= dict.fromkeys(("own", "mass", "config_size"), active)
    sizes |= dict.fromkeys(("found", "rank", "side_arc", "tree_head", "chosen", "only", "best_head"), n + 1)
    sizes |= dict.fromkeys(("node_of", "next_word", "path"), n + 1)
    sizes |= dict.fromkeys(("best", "prefix", "source", "member", "state", "word_of", "outer", "mark"), sides)
    sizes |= {"constant": 1, "incumbent": 1, "kept": ROLES * arcs + 2 * pairs, "pair_score": pairs}
    sizes |= {"cell": most(cells), "up_cell": most(parts_of("grandparent")), "barred": sides + 2 * arcs}
    sizes |= {
        "matrix": CAPACITY * active,
        "rows": 4 * CAPACITY,
        "reward": n + 2,
        "top_with": n + 2,
        "live_start": n + 2,
    }
    sizes |= {"config_link": CAPACITY * (2 * n + sides + 2 * arcs), "config_new": CAPACITY, "first_member": n + 2}

    offsets = [np.concatenate([[0], np.cumsum([sizes[name] for name in names])]) for names in (REALS, WHOLES)]
    return Graph(
        np.zeros(COUNTS, dtype=np.int64),
        np.zeros((factors, DIRTY + 1), dtype=np.int64),
        np.concatenate([starts[:-1] for starts in offsets]),
        np.empty(offsets[0][-1]),
        np.empty(offsets[1][-1], dtype=np.int32),
        np.empty((n + 1, n + 1)),
    )


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
    has_up = len(layout.grandparent) > 0 or len(layout.grand_sibling) > 0
    has_out = has_up or len(layout.sibling) > 0
    whole = 0.5 + 3 * has_out + 2 * has_up + 3 * (len(layout.tri_sibling) > 0) + 2 * (len(layout.head_bigram) > 0)
    whole += 3 * (len(layout.any_sibling) > 0)
    node = layout.word_offsets[b] + b
    for w in range(layout.word_offsets[b], layout.word_offsets[b + 1]):
        top, second = -np.inf, -np.inf
        for k in range(layout.modifier_offsets[w], layout.modifier_offsets[w + 1]):
            value = np.float64(layout.arc_score[k])
            if value > top:
                top, second = value, top
            elif value > second:
                second = value
        middle = (top + second) / 2 if second > -np.inf else top
        for k in range(layout.modifier_offsets[w], layout.modifier_offsets[w + 1]):
            a = k - first
            part = (layout.arc_score[k] - middle) / whole
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
    alive, only, degree, changed = at[ALIVE], at[ONLY], at[DEGREE], at[CHANGED]
    live_start, live_arc, live_head = at[LIVE_START], at[LIVE_ARC], at[LIVE_HEAD]
    live_link, link_arc, link_place = at[LIVE_LINK], at[LINK_ARC], at[LINK_PLACE]
    rank, side_arc = at[RANK], at[SIDE_ARC]
    first, before, n = layout.sentence_offsets[b], layout.word_offsets[b] - 1, layout.lengths[b]
    node = layout.word_offsets[b] + b
    reals[constant] = 0.0
    p = 0
    links = 0
    for m in range(1, n + 1):
        wholes[live_start + m] = p
        for k in range(layout.modifier_offsets[before + m], layout.modifier_offsets[before + m + 1]):
            a = k - first
            reals[score + a] = layout.arc_score[k]
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
    factor[0, CONFIG], factor[0, WIDTH] = 0, n
    count[FACTORS], count[ALL_LINKS], count[OPEN_ARCS], count[CONFIGS] = 1, links, links, CAPACITY * n
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
            reals[share + e] = reals[kept + wholes[link_place + e]]
            reals[total + a] -= reals[share + e]
    for e in range(links):
        reals[share + e] = reals[total + wholes[link_arc + e]]
    for s in range(count[FACTORS]):
        factor[s, ACTIVE], factor[s, DIRTY] = 0, 1


@numba.njit(**CALLED)
def _fold_root(graph, layout, side, size):
    """Add what siblings score to the arcs of a root with a single modifier."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    score, rank, side_arc = at[SCORE], at[RANK], at[SIDE_ARC]
    J = layout.side_offsets[side + 1] - layout.side_offsets[side]
    for j in range(1, size + 1):
        value = 0.0
        if len(layout.sibling) > 0:
            value += layout.sibling[layout.sibling_offsets[side] + sibling_at(J, 0, wholes[rank + j])]
            value += layout.sibling[layout.sibling_offsets[side] + sibling_at(J, wholes[rank + j], J + 1)]
        if len(layout.tri_sibling) > 0:
            value += layout.tri_sibling[
                layout.tri_sibling_offsets[side] + tri_sibling_at(J, 0, wholes[rank + j], J + 1)
            ]
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
    only, rank, side_arc, barred = at[ONLY], at[RANK], at[SIDE_ARC], at[BARRED]
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
            without = 0.0
            for extra in range(size + 1):  # none, then each undecided one
                a = wholes[side_arc + extra] if extra > 0 else 0
                if extra > 0 and wholes[only + layout.modifier[first + a]] >= 0:
                    continue
                value = _chain_score(graph, layout, b, side, size, up, extra)
                if extra > 0:
                    reals[score + a] += value - without
                else:
                    without = value
            if incoming > 0:
                reals[score + up - first] += without
            else:
                reals[constant] += without
        return

    s, e = count[FACTORS], count[ALL_LINKS]
    bar, here, ups = count[BARS], count[CELLS], count[UP_CELLS]
    factor[s, KIND], factor[s, LINK], factor[s, SIZE], factor[s, HEADS] = CHAIN, e, size, heads
    factor[s, INCOMING], factor[s, TABLE], factor[s, UP], factor[s, BAR] = incoming, here, -1, bar
    factor[s, CONFIG], factor[s, WIDTH] = count[CONFIGS], 1 + size
    factor[s, STRIDE] = (size + 1) * (size + 2) // 2 if has_grand else 0
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
                own = layout.grandparent[layout.grandparent_offsets[k] + up - layout.modifier_offsets[before + h]]
            for i in range(j):
                entry = sibling_at(J, wholes[rank + i] if i > 0 else 0, outer)
                value = own
                if len(layout.sibling) > 0:
                    value += layout.sibling[layout.sibling_offsets[side] + entry]
                if has_grand:
                    value += layout.grand_sibling[grand + entry]
                reals[cell + here] = value
                here += 1
    if has_up and not has_grand:
        factor[s, UP] = ups
        for g in range(heads):
            up = wholes[live_arc + live + g] + first - layout.modifier_offsets[before + h]
            for j in range(1, size + 1):
                reals[up_cell + ups] = layout.grandparent[layout.grandparent_offsets[first + wholes[side_arc + j]] + up]
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
    count[CONFIGS] += CAPACITY * (1 + size)


@numba.njit(**CALLED)
def _chain_score(graph, layout, b, side, size, up, extra):
    """Score of the automaton with the decided modifiers and one more; `up` is the arc into the head, -1 if unseen."""
    at, wholes = graph.at, graph.whole
    only, rank, side_arc = at[ONLY], at[RANK], at[SIDE_ARC]
    first, before = layout.sentence_offsets[b], layout.word_offsets[b] - 1
    J = layout.side_offsets[side + 1] - layout.side_offsets[side]
    value = 0.0
    i = 0
    for j in range(1, size + 2):
        outer = J + 1
        if j <= size:
            outer = np.int64(wholes[rank + j])
            k = first + wholes[side_arc + j]
            if wholes[only + layout.modifier[k]] < 0 and j != extra:
                continue
            if up >= 0 and len(layout.grandparent) > 0:
                place = up - layout.modifier_offsets[before + layout.head[k]]
                value += layout.grandparent[layout.grandparent_offsets[k] + place]
        if len(layout.sibling) > 0:
            value += layout.sibling[layout.sibling_offsets[side] + sibling_at(J, i, outer)]
        if up >= 0 and len(layout.grand_sibling) > 0:
            block = layout.grand_sibling_offsets[2 * up + side % 2]
            value += layout.grand_sibling[block + sibling_at(J, i, outer)]
        i = outer
    return value


@numba.njit(**CALLED)
def _add_triple(graph, layout, b, side, size, undecided):
    """Add the automaton of one side of a head that remembers two modifiers, or fold it into scores of arcs."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    count, factor = graph.sizes, graph.factor
    score, constant, cell = at[SCORE], at[CONSTANT], at[CELL]
    only, rank, side_arc = at[ONLY], at[RANK], at[SIDE_ARC]
    first = layout.sentence_offsets[b]
    J = layout.side_offsets[side + 1] - layout.side_offsets[side]
    block = layout.tri_sibling_offsets[side]
    if undecided <= 1:
        without = 0.0
        for extra in range(size + 1):  # none, then each undecided one
            a = wholes[side_arc + extra] if extra > 0 else 0
            if extra > 0 and wholes[only + layout.modifier[first + a]] >= 0:
                continue
            value = 0.0
            i, j = 0, 0
            for place in range(1, size + 2):
                outer = J + 1
                if place <= size:
                    if wholes[only + layout.modifier[first + wholes[side_arc + place]]] < 0 and place != extra:
                        continue
                    outer = np.int64(wholes[rank + place])
                if j > 0:
                    value += layout.tri_sibling[block + tri_sibling_at(J, i, j, outer)]
                i, j = j, outer
            if extra > 0:
                reals[score + a] += value - without
            else:
                without = value
        reals[constant] += without
        return

    s, here = count[FACTORS], count[CELLS]
    factor[s, KIND], factor[s, LINK], factor[s, SIZE], factor[s, HEADS] = TRIPLE, count[ALL_LINKS], size, 1
    factor[s, INCOMING], factor[s, TABLE] = 0, here
    factor[s, CONFIG], factor[s, WIDTH] = count[CONFIGS], size
    _add_modifiers(graph, layout, first, s, size, np.int64(OUT_TRIPLE))
    for j in range(1, size + 1):
        for i in range(j):
            for c in range(j + 1, size + 2):
                outer = wholes[rank + c] if c <= size else J + 1
                entry = tri_sibling_at(J, wholes[rank + i] if i > 0 else 0, wholes[rank + j], outer)
                reals[cell + here] = layout.tri_sibling[block + entry]
                here += 1
    count[CELLS] = here
    count[CONFIGS] += CAPACITY * size


@numba.njit(**CALLED)
def _add_sequences(graph, layout, b):
    """Add a sequence for each run of undecided words; where a neighbour is decided, the bigram scores one arc."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    count, factor = graph.sizes, graph.factor
    score, cell, only = at[SCORE], at[CELL], at[ONLY]
    live_start, live_arc, link_of = at[LIVE_START], at[LIVE_ARC], at[LINK_OF]
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
            factor[s, TABLE], factor[s, PLACE] = here, place
            factor[s, CONFIG], factor[s, WIDTH] = count[CONFIGS], last - m + 1
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
                    value = layout.head_bigram[row + wholes[live_arc + p]]
                    if v > m:
                        reals[cell + here] = value
                        here += 1
                    elif wholes[only + v] >= 0:
                        reals[score + wholes[live_arc + q]] += value
                    else:
                        reals[score + wholes[live_arc + p]] += value
        if last > m:
            count[FACTORS], count[ALL_LINKS], count[PLACES], count[CELLS] = s + 1, e, place + last - m + 2, here
            count[CONFIGS] += CAPACITY * (last - m + 1)
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
                value = layout.any_sibling[entry]
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


# Oracles. Each reads INPUT, the score of each of the factor's links, writes the links of the best configuration to
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
    """Copy the inputs of an automaton's modifiers to REWARD; decided ones get 0."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    reward, inputs, link_of = at[REWARD], at[INPUT], at[LINK_OF]
    size, place = graph.factor[s, SIZE], graph.factor[s, PLACE]
    for j in range(1, size + 1):
        e = wholes[link_of + place + j]
        reals[reward + j] = reals[inputs + e] if e >= 0 else 0.0
    reals[reward + size + 1] = 0.0


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
    _read_rewards(graph, s)
    # The likeliest g first; those that cannot reach it are left out; at last the best once more, for its traces.
    first = 0
    for g in range(1, incoming):
        if reals[inputs + g] > reals[inputs + first]:
            first = g
    best, best_g, last, most = -np.inf, 0, -1, np.inf
    for turn in range(-2, heads + 1):
        if turn == -2:
            g = -1
            if incoming == 0:
                continue
        elif turn == -1:
            g = first
        elif turn < heads:
            g = turn
            if g == first or reals[inputs + g] + most <= best:
                continue
        else:
            g = best_g
            if g == last:
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
    node_of[0] = 0
    state[0] = DONE
    for m in range(1, n + 1):
        state[m] = FRESH
        outer[m] = 0
        node_of[m] = word_of[m] = next_word[m] = m
        source[m] = -1

    free = n + 1
    first_member[0] = 0
    root_last = False
    while True:
        for node in range(1, free):  # choose for all, then again for those that must leave the root
            if state[node] == FRESH and source[node] <= 0 and node <= n:
                p = live_start[node]
                if root_last and live_head[p] == 0 and p + 1 < live_start[node + 1]:
                    p += 1
                chosen[node] = p
                for q in range(p + 1, live_start[node + 1]):
                    if weight[q] > weight[chosen[node]]:
                        chosen[node] = q
                best[node], source[node] = weight[chosen[node]], live_head[chosen[node]]
            elif state[node] == FRESH and source[node] == 0:
                source[node] = _best_source(row, node - n - 1, n, True)
                best[node] = row[node - n - 1, source[node]]
        for v in range(1, n + 1):
            node = node_of[v]
            top = 0
            while state[node] != DONE:
                if state[node] == FRESH:
                    state[node] = OPEN
                    path[top] = node
                    top += 1
                else:
                    bottom = top - 1
                    while path[bottom] != node:
                        bottom -= 1
                    node = free
                    free += 1
                    first = first_member[node - n - 1]
                    first_member[node - n] = first + top - bottom
                    word_of[node] = word_of[path[bottom]]
                    outer[node] = 0
                    for i in range(bottom, top):
                        c = path[i]
                        member[first + i - bottom] = c
                        state[c] = INNER
                        outer[c] = node
                        if i > bottom:
                            u, w = word_of[node], word_of[c]
                            next_word[u], next_word[w] = next_word[w], next_word[u]
                    _weigh(node, n, member, first_member, 0, live_start, live_head, weight, best, row)
                    u = word_of[node]
                    while node_of[u] != node:
                        node_of[u] = node
                        row[node - n - 1, u] = -np.inf
                        u = next_word[u]
                    source[node] = _best_source(row, node - n - 1, n, root_last)
                    best[node] = row[node - n - 1, source[node]]
                    if best[node] == -np.inf:
                        return 0
                    state[node] = OPEN
                    path[bottom] = node
                    top = bottom + 1
                node = node_of[source[node]]
            for i in range(top):
                state[path[i]] = DONE
        if not single_root:
            break
        roots = 0
        for node in range(1, free):
            roots += state[node] != INNER and source[node] == 0
        if roots == 1:
            break
        if root_last:
            return 0
        root_last = True
        for node in range(1, free):
            if state[node] != INNER:
                state[node] = FRESH

    for node in range(free - 1, 0, -1):
        if state[node] != REPLACED:
            h = np.int64(source[node])
            inner = np.int64(node)
            while inner > n:
                i = first_member[inner - n - 1]
                while True:  # weight(h, c) - best(c) = weight(h, C)
                    c = member[i]
                    value = _weight(h, c, n, 0, live_start, live_head, weight, row)
                    if value - best[c] == row[inner - n - 1, h]:
                        break
                    i += 1
                state[c] = REPLACED
                inner = np.int64(c)
            tree_head[inner] = h
            if inner != node:
                p = live_start[inner]
                while live_head[p] != h:
                    p += 1
                chosen[inner] = p
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
            if not is_open(total, reals[at[INCUMBENT]]):
                return total
            _other_losses(graph, total - reals[at[INCUMBENT]])
    return total


@numba.njit(**HELPER)
def is_open(upper, score):
    """Whether a bound leaves room for a better tree than one of this score, -inf if there is none."""
    return upper > score and (score == -np.inf or upper - score > GAP * (1 + abs(score)))


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
    _read_rewards(graph, s)
    first = 0
    for g in range(1, incoming):
        if reals[inputs + g] > reals[inputs + first]:
            first = g
    best, most, passed = -np.inf, np.inf, -np.inf
    for turn in range(-2, factor[s, HEADS]):
        if turn == -2:
            g = -1
            if incoming == 0:
                continue
        elif turn == -1:
            g = first
        else:
            g = turn
            if g == first:
                continue
            if reals[inputs + g] + most < best - margin:
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


# Trees.


@numba.njit(**CALLED)
def tree_score(graph, layout, b):
    """Score of the tree in TREE_HEAD, all of its parts counted."""
    at, wholes = graph.at, graph.whole
    heads, arc, rank = at[TREE_HEAD], at[CHOSEN], at[RANK]
    before, n = layout.word_offsets[b] - 1, layout.lengths[b]
    node = layout.word_offsets[b] + b
    total = 0.0
    for m in range(1, n + 1):
        w = before + m
        wholes[arc + m] = find_arc(
            layout.modifier_offsets[w], layout.modifier_offsets[w + 1], layout.head, wholes[heads + m], m, n
        )
        total += layout.arc_score[wholes[arc + m]]
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
        return total
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
    return total


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
