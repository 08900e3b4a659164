"""The factor graph of one sentence as arrays: what AD3, the subgradient method and branch and bound search in.

`factors` builds it, `normalisation` sets the origin and unit of its scores, `oracles` searches in it, and `solutions`
reads trees and shares of parts off it. The memory is that of the parts of one sentence, in float64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arbora.decoders.parts.batch import Parts
from arbora.decoders.parts.kinds import COMMON

KIND_TREE, KIND_CHAIN, KIND_TRIPLE, KIND_SEQUENCE = range(4)
"""Kinds of factors besides pairs: automata over one modifier (and the grandparent) and over two."""

(
    FACTOR_KIND,
    FACTOR_SIDE,
    FACTOR_LINK,
    FACTOR_LINKS,
    FACTOR_SIZE,
    FACTOR_HEADS,
    FACTOR_INCOMING,
    FACTOR_TABLE,
    FACTOR_STRIDE,
    FACTOR_TOP,
    FACTOR_UP,
    FACTOR_PLACE,
    FACTOR_BAR,
    FACTOR_CONFIG,
    FACTOR_WIDTH,
) = range(15)
FACTOR_ROOM, FACTOR_SLOT, FACTOR_SQUARE, FACTOR_ACTIVE, FACTOR_DIRTY, FACTOR_COLUMNS = range(15, 21)
"""Columns of `Graph.factor`: kind; side of a head, or first word of a sequence; first link and number of links;
modifiers, or words of a sequence; candidate heads; how many of the links are incoming arcs; where its scores start, how
far those of two heads are apart, and where the largest over all heads start; where scores of grandparents, places and
barred modifiers start; where its configurations start, and how long they may be; for how many there is room, where
their weights start, and where their matrix does; how many are active; whether an arc of it changed."""

(
    SIZE_WORDS,
    SIZE_ARCS,
    SIZE_FACTORS,
    SIZE_LINKS,
    SIZE_OPEN_ARCS,
    SIZE_PAIRS,
    SIZE_PAIR_LINK,
    SIZE_CELLS,
    SIZE_UP_CELLS,
    SIZE_PLACES,
    SIZE_BARS,
) = range(11)
SIZE_CAPACITY, SIZE_FULL, SIZES = range(11, 14)
"""Places in `Graph.sizes`: words, arcs, factors, links, undecided arcs, pairs, first link of a pair; how much of the
arrays of the same names is taken; most active configurations of a factor, and whether one needed more."""

SHARE_GRANDPARENT, SHARE_SIBLING = 1 + COMMON.index("grandparent"), 1 + COMMON.index("sibling")
SHARE_ANY_SIBLING, SHARE_HEAD_BIGRAM = 1 + COMMON.index("any_sibling"), 1 + COMMON.index("head_bigram")
SHARE_GRAND_SIBLING, SHARE_TRI_SIBLING = 1 + COMMON.index("grand_sibling"), 1 + COMMON.index("tri_sibling")
"""Places of kinds among the shares of parts; those of arcs come first."""

ROLE_OUT, ROLE_IN_LEFT, ROLE_IN_RIGHT, ROLE_OUT_TRIPLE, ROLE_IN_SEQUENCE, ROLES = range(6)
"""Roles in which factors see an arc, besides the tree and the pairs."""

FIRST_CAPACITY = 32
"""Most active configurations of a factor at first; few factors ever need ten. Where one needs more, the sentence is
searched again with twice the room, so that the limit never shows in a result."""

FLOATS: dict[str, str] = {
    "scale": "1 / unit, by which scores are multiplied",
    "origin": "of the arc scores of each word, the best of them",
    "reach": "no less than what all parts of a tree can score",
    "lowest": "score of an arc or part",
    "highest": "score of a part",
    "floor": "lower scores are taken for this: no better tree has them",
    "constant": "score of what is decided",
    "incumbent": "score of the best tree known",
    "score": "of each arc, with the parts that depend only on it",
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
    "matrix": "by factor, FACTOR_ROOM x FACTOR_ROOM",
    "rows": "4 for the largest of them",
    "input": "score of each link of a factor, from its first: what an oracle reads",
    "reward": "input of each modifier",
    "forward": "best value up to a state",
    "backward": "best value from a state on",
    "best_with": "best value of a configuration with a link",
    "top_with": "no less than that of a modifier with any grandparent",
    "best": "weight of the arc chosen for a node of the tree's search",
    "prefix": "sum of `best` over the nodes inside",
}
"""Arrays in `Graph.floats`."""

INTS: dict[str, str] = {
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
"""Arrays in `Graph.ints`."""

(
    SCALE,
    ORIGIN,
    REACH,
    LOWEST,
    HIGHEST,
    FLOOR,
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
) = range(len(FLOATS))

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
) = range(len(FLOATS), len(FLOATS) + len(INTS))

EXPONENTS = 200
"""Exponents of scores lie within this of 0: they are float32, and differences of them float64."""


class Graph(NamedTuple):
    """Factors of one sentence, and all that a search in them writes.

    Two arrays hold many, and entry i of MEAN is `floats[at[MEAN] + i]`: kernels hand a graph on at each call, each
    array of a tuple takes seven arguments, and dozens of them took minutes to compile. Arcs are counted from the
    sentence's first.
    """

    sizes: NDArray[np.int64]  # (SIZES,)
    factor: NDArray[np.int64]  # (F, FACTOR_COLUMNS)
    at: NDArray[np.int64]  # where each array of FLOATS and INTS starts in `floats` or `ints`
    floats: NDArray[np.float64]
    ints: NDArray[np.int32]
    row: NDArray[np.float64]  # (n+1, n+1) weights of arcs into contracted nodes, as in `mst`
    exponents: NDArray[np.int64]  # (2 EXPONENTS + 1,) counts
    figures: NDArray[np.float64]  # (3,) bound, primal and dual residual of AD3


def steps(parts: Parts) -> NDArray[np.float64]:
    """(B,) about how many innermost steps it takes to look at all factors once."""
    total = 3.0 * np.diff(parts.sentence_offsets)
    for kind in parts.kinds:
        total += np.diff(parts.part_offsets("grand_sibling" if kind == "grandparent" else kind))
    return total


def allocate(parts: Parts, sentences: NDArray[np.int64], capacity: int = FIRST_CAPACITY) -> Graph:
    """Make a graph with room for any of the sentences.

    Active configurations are affinely independent, so that a factor has at most one more than it has links. The
    memory for those of all factors is thus proportional to capacity times links.

    Args:
        parts: the batch.
        sentences: numbers of the sentences.
        capacity: most active configurations of a factor.
    """

    def most(counts: NDArray[np.integer]) -> int:
        return int(counts[sentences].max(initial=0))

    none = np.zeros(len(parts.lengths), dtype=np.int64)

    def parts_of(kind: str) -> NDArray[np.int64]:
        return none if getattr(parts, kind) is None else np.diff(parts.part_offsets(kind))

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
    active = links + factors
    sizes: dict[str, int] = dict.fromkeys(("score", "mean", "loss", "total", "weight", "input", "best_with"), arcs)
    sizes |= dict.fromkeys(("alive", "degree", "changed", "live_arc", "live_head", "live_link"), arcs)
    sizes |= dict.fromkeys(("share", "copy", "link_arc", "link_place"), links)
    sizes |= dict.fromkeys(("forward", "backward", "back"), states)
    sizes |= dict.fromkeys(("link_of", "decided"), places)
    sizes |= dict.fromkeys(("own", "mass", "config_size"), active)
    sizes |= dict.fromkeys(("found", "rank", "side_arc", "tree_head", "chosen", "only", "picked"), n + 1)
    sizes |= dict.fromkeys(("best_head", "node_of", "next_word", "path"), n + 1)
    sizes |= dict.fromkeys(("best", "prefix", "source", "member", "state", "word_of", "outer", "mark"), sides)
    sizes |= dict.fromkeys(("scale", "reach", "lowest", "highest", "floor", "constant", "incumbent"), 1)
    sizes |= {"origin": n + 1, "kept": ROLES * arcs + 2 * pairs, "pair_score": pairs}
    sizes |= {"cell": most(cells), "up_cell": most(parts_of("grandparent")), "barred": sides + 2 * arcs}
    sizes |= {
        "matrix": capacity * active,
        "rows": 4 * min(capacity, arcs + 1),
        "reward": n + 2,
        "top_with": n + 2,
        "live_start": n + 2,
    }
    sizes |= {"config_link": capacity * (2 * n + sides + 2 * arcs), "config_new": capacity, "first_member": n + 2}

    offsets = [np.concatenate([[0], np.cumsum([sizes[name] for name in names])]) for names in (FLOATS, INTS)]
    counts = np.zeros(SIZES, dtype=np.int64)
    counts[SIZE_CAPACITY] = capacity
    return Graph(
        counts,
        np.zeros((factors, FACTOR_COLUMNS), dtype=np.int64),
        np.concatenate([starts[:-1] for starts in offsets]),
        np.empty(offsets[0][-1]),
        np.empty(offsets[1][-1], dtype=np.int32),
        np.empty((n + 1, n + 1)),
        np.zeros(2 * EXPONENTS + 1, dtype=np.int64),
        np.zeros(3),
    )
