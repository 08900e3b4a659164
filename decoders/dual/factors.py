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

`oracles` searches the best configuration of each. The memory is that of the parts of one sentence, in float64.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from arbora.decoders.kernels.options import CALLED, HELPER, INLINED
from arbora.decoders.parts.batch import Parts
from arbora.decoders.parts.kinds import COMMON
from arbora.decoders.parts.layout import any_sibling_at, find_arc, sibling_at, tri_sibling_at

TREE, CHAIN, TRIPLE, SEQUENCE = range(4)
"""Kinds of factors besides pairs: automata over one modifier (and the grandparent) and over two."""

KIND, SIDE, LINK, LINKS, SIZE, HEADS, INCOMING, TABLE, STRIDE, TOP, UP, PLACE, BAR, CONFIG, WIDTH = range(15)
ACTIVE, DIRTY, COLUMNS = range(15, 18)
"""Columns of `Graph.factor`: kind; side of a head, or first word of a sequence; first link and number of links;
modifiers, or words of a sequence; candidate heads; how many of the links are incoming arcs; where its scores start, how
far those of two heads are apart, and where the largest over all heads start; where scores of grandparents, places and
barred modifiers start; where its configurations start, and how long they may be; how many are active; whether an arc of
it changed."""

N, ARCS, FACTORS, ALL_LINKS, OPEN_ARCS, PAIRS, PAIR_LINK, CELLS, UP_CELLS, PLACES, BARS, CONFIGS, COUNTS = range(13)
"""Places in `Graph.sizes`: words, arcs, factors, links, undecided arcs, pairs, first link of a pair; how much of the
arrays of the same names is taken."""

GRANDPARENT, SIBLING = 1 + COMMON.index("grandparent"), 1 + COMMON.index("sibling")
ANY_SIBLING, HEAD_BIGRAM = 1 + COMMON.index("any_sibling"), 1 + COMMON.index("head_bigram")
GRAND_SIBLING, TRI_SIBLING = 1 + COMMON.index("grand_sibling"), 1 + COMMON.index("tri_sibling")
"""Places of types among the shares of parts; those of arcs come first."""

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
    "picked": "the same, but for words that are tried",
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
    PICKED,
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
    factor: NDArray[np.int64]  # (F, COLUMNS)
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

    def parts_of(kind: str) -> NDArray[np.int64]:
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
    sizes |= dict.fromkeys(("found", "rank", "side_arc", "tree_head", "chosen", "only", "picked"), n + 1)
    sizes |= dict.fromkeys(("best_head", "node_of", "next_word", "path"), n + 1)
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
        np.zeros((factors, COLUMNS), dtype=np.int64),
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
    alive, only, picked, degree, changed = at[ALIVE], at[ONLY], at[PICKED], at[DEGREE], at[CHANGED]
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
        wholes[picked + m] = wholes[only + m]
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
def _walk(graph, layout, b, side, up, kind, mass, shares, starts):
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
                value += layout.grandparent[entry]
                if added:
                    shares[starts[GRANDPARENT] + entry] += mass
        if kind == TRIPLE:
            if i > 0:
                entry = layout.tri_sibling_offsets[side] + tri_sibling_at(J, q, i, j)
                value += layout.tri_sibling[entry]
                if added:
                    shares[starts[TRI_SIBLING] + entry] += mass
        else:
            entry = sibling_at(J, i, j)
            if has_sibling:
                value += layout.sibling[layout.sibling_offsets[side] + entry]
                if added:
                    shares[starts[SIBLING] + layout.sibling_offsets[side] + entry] += mass
            if grand >= 0:
                value += layout.grand_sibling[grand + entry]
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
    without = _walk(graph, layout, b, side, up, kind, 0.0, none, at)
    for j in range(1, size + 1):
        a = wholes[side_arc + j]
        m = layout.modifier[first + a]
        if wholes[only + m] < 0:
            wholes[picked + m] = layout.head[first + a]
            reals[score + a] += _walk(graph, layout, b, side, up, kind, 0.0, none, at) - without
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
    factor[s, CONFIG], factor[s, WIDTH] = count[CONFIGS], 1 + size
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
            factor[s, TABLE], factor[s, PLACE], factor[s, SIDE] = here, place, m
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


# The solution of the relaxation.


@numba.njit(**CALLED)
def solution_value(graph):
    """Score of the solution, by u and the weights of the active configurations."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    score, mean, own, mass = at[SCORE], at[MEAN], at[OWN], at[MASS]
    link_arc, pair_score = at[LINK_ARC], at[PAIR_SCORE]
    value = reals[at[CONSTANT]]
    for e in range(graph.sizes[OPEN_ARCS]):
        a = wholes[link_arc + e]
        value += reals[score + a] * reals[mean + a]
    for s in range(graph.sizes[FACTORS]):
        for i in range(s * CAPACITY, s * CAPACITY + graph.factor[s, ACTIVE]):
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
                        _walk(graph, layout, b, side, np.int64(-1), kind, reals[mean + k - first], shares, starts)
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
                    size = wholes[config_size + s * CAPACITY + i]
                    for c in range(config, config + size):
                        k = first + wholes[link_arc + factor[s, LINK] + wholes[config_link + c]]
                        if wholes[config_link + c] < factor[s, INCOMING]:
                            up = k
                        else:
                            wholes[picked + layout.modifier[k]] = h
                    _walk(graph, layout, b, side, up, kind, reals[mass + s * CAPACITY + i], shares, starts)
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
                    _walk(graph, layout, b, side, up, kind, part, shares, starts)
                    wholes[picked + layout.modifier[single]] = -1
                    left -= part
                _walk(graph, layout, b, side, up, kind, left, shares, starts)

    if len(layout.head_bigram) > 0:
        bigrams = starts[HEAD_BIGRAM]
        for t in range(s, graph.sizes[FACTORS]):
            for i in range(factor[t, ACTIVE]):
                config = factor[t, CONFIG] + i * factor[t, WIDTH]
                w = before + factor[t, SIDE] + factor[t, SIZE] - 1
                for c in range(config, config + factor[t, SIZE] - 1):  # the last word comes first
                    k = first + wholes[link_arc + factor[t, LINK] + wholes[config_link + c]]
                    q = first + wholes[link_arc + factor[t, LINK] + wholes[config_link + c + 1]]
                    shares[bigrams + _bigram_at(layout, w, q, k)] += reals[mass + t * CAPACITY + i]
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


@numba.njit(**HELPER)
def is_open(upper, score):
    """Whether a bound leaves room for a better tree than one of this score, -inf if there is none."""
    return upper > score and (score == -np.inf or upper - score > GAP * (1 + abs(score)))
