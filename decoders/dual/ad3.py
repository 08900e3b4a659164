"""AD3, alternating directions dual decomposition: a bound for all trees, and in most cases the best tree with a proof.

Martins, Almeida and Smith (2013), "Turning on the Turbo: Fast Third-Order Non-Projective Turbo Parsers"; the active-set
method for the quadratic steps is that of Martins et al. (2012), arXiv:1212.6550. `factors` has the factors,
`oracles` what they cost, `quadratic` the quadratic steps, `iterations` the iterations.

With u the agreed arcs, z_s a factor's copy of them, w_s its share of their scores with the multipliers, each iteration

    z_s = argmax over conv(Y_s) of f_s(z) + w_s z - rho/2 |z - u|^2
    u   = mean of the copies
    w_s = w_s - rho (z_s - u)

and at all times  sum_s max over Y_s of f_s(y) + w_s y  is no less than the score of any tree.

Differs from the paper:
- The quadratic step solves its linear systems by the Cholesky factor of (y_i . y_j + 1) over the active configurations,
  which is regular just when these are affinely independent. Entries are integers, and a factor is never updated by a
  difference, so nothing drifts. A configuration that is an affine combination of the active ones takes the place of
  one of them.
- A factor is solved again only if one of its arcs changed.
- Arcs are removed as soon as the bound proves that they are in no better tree than the best known one, and factors
  shrink with them (`oracles.bound`). Most words of a sentence are decided early, and later iterations concern the
  others.
- `certified` does not depend on u: a tree is certified if the bound reaches its exact score.
- rho is changed by a factor of two whenever one residual is ten times the other, every 5 of the first 100 iterations.
  It starts at half of the unit of the scores (`normalisation`). The paper keeps it at 0.05 in the unit of its scores,
  which is `AD3(rho=0.05, adaptive=False)`.
- A quadratic step calls its oracle at most 10 times and leaves the rest to the next iteration, as the authors' program
  does. There is no limit to the number of active configurations but affine independence.
- At first u is 1 for the best head of each word and 0 for the others, not 1/2, and the scores of arcs are not divided
  equally among the factors: automata get more, counted from midway between the two best heads (`factors.start`).
- Bounds are computed every 3 to 10 iterations, and trees of the tree factor are scored exactly in each.

A parser can be trained with this solution, fractional or not (`fractional`): the value of the relaxation is a convex
function of the scores and at least the score of any tree, and the share of each part is its derivative (Martins, Smith
and Xing, 2009, "Polyhedral outer approximations with application to natural language parsing").
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from arbora.decoders.dual.factors import start
from arbora.decoders.dual.graph import (
    ALIVE,
    BEST_HEAD,
    FACTOR_ACTIVE,
    FIRST_CAPACITY,
    INCUMBENT,
    LINK_ARC,
    MEAN,
    SCALE,
    SIZE_ARCS,
    SIZE_FULL,
    SIZE_OPEN_ARCS,
    allocate,
    steps,
)
from arbora.decoders.dual.iterations import maximise
from arbora.decoders.dual.normalisation import is_open
from arbora.decoders.dual.solutions import add_shares, solution_value
from arbora.decoders.kernels.options import CALLED, FILLING
from arbora.decoders.kernels.threads import over_sentences
from arbora.decoders.mst import MST
from arbora.decoders.parts.batch import Parts
from arbora.decoders.parts.kinds import COMMON
from arbora.decoders.settings import numeric
from arbora.decoders.trees import Decoder, Trees, scatter

MOST_WAITING = 512
"""Maximum number of open nodes in branch and bound."""

WHOLE = 0.01
"""An arc whose share is this close to 0 or 1 counts as decided."""

LEAST_SHARE = 1e-9
"""Parts with a smaller share are ignored."""


@dataclass(frozen=True, eq=False, repr=False)
class RelaxedTrees(Trees):
    """Trees from a linear relaxation.

    Args:
        arcs: (A,) share of each candidate arc in the solution of the relaxation, 0..1, in the order of the arcs in
            `Parts`; the shares of the arcs into a word add up to 1. Where a sentence is integral they are the tree.
        integral: (B,) whether this solution is a tree: all shares of arcs are 0 or 1, up to 0.01. If not, no number of
            iterations proves a tree to be the best, but `BranchAndBound` does. Certified sentences are always integral.
            A sentence that is integral but not certified needs more iterations, or the proof failed because of
            rounding.
        primal_residual: (B,) disagreement of factors, root mean square over copies of arcs; 0 if certified.
        dual_residual: (B,) change of the solution in the last iteration; 0 if certified.
        seconds: wall-clock time to decode the whole batch.
        shares: for `arc` and each kind of part, the parts in the solution, ascending, as in `Parts.active`, and the
            share of each, above 0 and up to 1. For an integral sentence, or if the iterations ended before the solution
            scored as much as the tree, these are the parts of the tree, with share 1. So the sum of share times score
            is never less than the score of the tree and, up to the residuals, never more than the bound. Empty unless
            asked for.
    """

    arcs: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    integral: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=np.bool_))
    primal_residual: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    dual_residual: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    seconds: float = 0.0
    shares: Mapping[str, tuple[NDArray[np.int64], NDArray[np.float64]]] = field(default_factory=dict)

    def _placed(self, parts: Parts, rows: NDArray[np.int64]) -> dict[str, Any]:
        size, arcs = len(parts.lengths), parts.entries("arc", rows)
        return super()._placed(parts, rows) | {
            "arcs": scatter(self.arcs, arcs, len(parts.head), 0.0),
            "integral": scatter(self.integral, rows, size, False),
            "primal_residual": scatter(self.primal_residual, rows, size, 0.0),
            "dual_residual": scatter(self.dual_residual, rows, size, 0.0),
            "shares": {
                kind: (parts.entries(kind, rows)[entries], share) for kind, (entries, share) in self.shares.items()
            },
        }


@dataclass(frozen=True)
class AD3(Decoder):
    """Best tree under any kinds of parts by dual decomposition, with crossing arcs; `certified` if this is proved.

    Args:
        single_root: allow exactly one modifier of the root.
        rho: initial weight of the quadratic term, in the unit of the scores: use larger values for larger scores. None
            for the typical difference between the two best heads of a word, which makes the result independent of the
            unit. It is kept between a millionth and a thousand times that difference.
        max_iterations: number of iterations after which the best tree found so far is returned.
        adaptive: change rho during the search, so that primal and dual residual fall equally fast.
        tolerance: stop when both residuals are below this value; the relaxation is then solved.
        drop_arcs: remove arcs that are proved to be in no better tree than the best known one. This is much faster; the
            fractional solution is then that of a tighter relaxation.
        fractional: also return the share of each part in the solution (`RelaxedTrees.shares`), so that a parser can be
            trained with the solution of the relaxation instead of the tree.
    """

    single_root: bool = True
    rho: float | None = numeric(None, above=0)
    max_iterations: int = numeric(500, least=0)
    adaptive: bool = True
    tolerance: float = numeric(1e-4, least=0)
    drop_arcs: bool = True
    fractional: bool = False

    def decode(self, parts: Parts) -> RelaxedTrees:
        rho = 0.0 if self.rho is None else self.rho
        settings = Settings(self.single_root, rho, self.max_iterations, self.adaptive, self.tolerance, self.drop_arcs)
        return decode(parts, settings, Limits(1, np.inf), fractional=self.fractional)


class Settings(NamedTuple):
    """Those of `AD3` that kernels read; `rho` is 0 for that of None."""

    single_root: bool
    rho: float
    max_iterations: int
    adaptive: bool
    tolerance: float
    drop_arcs: bool


class Nodes(NamedTuple):
    """Open nodes of branch and bound."""

    alive: NDArray[np.bool_]  # (D, A) their arcs
    bound: NDArray[np.float64]  # (D,)


class Found(NamedTuple):
    """Results of a search, filled for each sentence."""

    heads: NDArray[np.int32]  # (B, N)
    start: NDArray[np.float64]  # (B,) by the clock, NaN before that
    gap: NDArray[np.float64]  # (B,) between bound and score, -inf if there is no tree
    certified: NDArray[np.bool_]  # (B,)
    residuals: NDArray[np.float64]  # (B, 2)
    arcs: NDArray[np.float64]  # (A,) solution of the relaxation
    counters: NDArray[np.int64]  # (B, 2) iterations and nodes
    integral: NDArray[np.bool_]  # (B,)
    whole_tree: NDArray[np.bool_]  # (B,) whether the shares are those of the tree
    shares: NDArray[np.float64]  # of all parts, or empty
    starts: NDArray[np.int64]  # of each kind in `shares`


class Limits(NamedTuple):
    """Limits of branch and bound: nodes and seconds per sentence."""

    max_nodes: int
    seconds: float


def decode(
    parts: Parts,
    settings: Settings,
    limits: Limits,
    clock: NDArray[np.float64] | None = None,
    fractional: bool = False,
) -> RelaxedTrees:
    """Search the best trees by branch and bound.

    Args:
        parts: the sentences.
        settings: settings of AD3 at each node.
        limits: 1 node is AD3 without branching.
        clock: (1,) seconds, updated by another thread if there is a time limit.
        fractional: return the shares of all parts.
    """
    began = time.perf_counter()
    size = len(parts.lengths)
    heads = parts.empty_trees()
    gap, relaxed = np.empty(size), np.zeros((size, 2))
    certified = np.zeros(size, dtype=np.bool_)
    arcs = np.empty(len(parts.head))
    counters = np.zeros((size, 2), dtype=np.int64)
    integral, whole_tree = np.ones((2, size), dtype=np.bool_)
    scores = [parts.arc_score, *(getattr(parts, kind) for kind in COMMON)]
    starts = np.cumsum([0, *(0 if score is None else len(score) for score in scores)])
    shares = np.zeros(starts[-1] if fractional else 0)
    clock = np.zeros(1) if clock is None else clock
    layout = parts.layout

    found = Found(
        heads, np.full(size, np.nan), gap, certified, relaxed, arcs, counters, integral, whole_tree, shares, starts
    )

    def run(sentences: NDArray[np.int64]) -> None:
        most = np.diff(parts.sentence_offsets)[sentences].max(initial=1)
        depth = 1 if limits.max_nodes == 1 else min(int(most) + 2, MOST_WAITING)
        nodes = Nodes(np.empty((depth, most), dtype=np.bool_), np.empty(depth))
        capacity = FIRST_CAPACITY
        while len(sentences) > 0:
            graph = allocate(parts, sentences, capacity)
            done = search(sentences, graph, layout, settings, limits, clock, nodes, found)
            sentences, capacity = sentences[done:], 2 * capacity

    over_sentences(run, 10 * steps(parts))
    if (gap == -np.inf).any():
        MST(settings.single_root)(parts)  # raises an error that names sentences without a tree
        raise AssertionError("a sentence has a tree that the search did not see")
    score = parts.score(heads)
    names = ("iterations",) if limits.max_nodes == 1 else ("iterations", "nodes")
    return RelaxedTrees(
        heads,
        score,
        bound=score + gap,
        certified=certified,
        counters={name: counters[:, i].copy() for i, name in enumerate(names)},
        arcs=arcs,
        integral=integral,
        primal_residual=relaxed[:, 0].copy(),
        dual_residual=relaxed[:, 1].copy(),
        seconds=time.perf_counter() - began,
        shares=_collect(parts, heads, whole_tree, shares, starts) if fractional else {},
    )


def _collect(
    parts: Parts,
    heads: NDArray[np.int32],
    whole_tree: NDArray[np.bool_],
    shares: NDArray[np.float64],
    starts: NDArray[np.int64],
) -> dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Shares that are not 0 by kind, with those of the tree for sentences of which this is the solution."""
    found = {}
    for kind, active in parts.active(heads).items():
        place = ("arc", *COMMON).index(kind)
        dense = shares[starts[place] : starts[place + 1]]
        offsets = parts.sentence_offsets if kind == "arc" else parts.part_offsets(kind)
        dense[active[whole_tree[np.searchsorted(offsets, active, side="right") - 1]]] = 1
        entries = np.flatnonzero(dense > LEAST_SHARE)
        found[kind] = entries, np.minimum(dense[entries], 1.0)
    return found


@numba.njit(**FILLING)
def search(sentences, graph, layout, settings, limits, clock, nodes, found):
    """Search sentence after sentence by branch and bound, of which AD3 is the first node; fills `found`.

    Returns how many sentences are done: fewer than given if a factor needs more room than the graph has.
    """
    for i in range(len(sentences)):
        b = sentences[i]
        start(graph, layout, b)
        if np.isnan(found.start[b]):
            found.start[b] = clock[0]
        deadline = found.start[b] + limits.seconds
        upper = _branch(graph, layout, b, settings, limits.max_nodes, clock, deadline, nodes, found.counters)
        if graph.sizes[SIZE_FULL]:
            return i
        _report(graph, layout, b, upper, settings.single_root, found)
    return len(sentences)


@numba.njit(**CALLED)
def _branch(graph, layout, b, settings, max_nodes, clock, deadline, nodes, counters):
    """Search one sentence; returns the bound, -inf if there is no tree."""
    alive, size = graph.at[ALIVE], graph.sizes[SIZE_ARCS]
    for a in range(size):
        nodes.alive[0, a] = True
    nodes.bound[0] = np.inf
    counters[b, 0] = counters[b, 1] = 0
    upper, top = -np.inf, 1
    while top > 0 and not graph.sizes[SIZE_FULL]:
        top -= 1
        bound = nodes.bound[top]
        tried = is_open(graph, bound)
        if counters[b, 1] > 0:
            tried &= counters[b, 1] < max_nodes and clock[0] <= deadline
        if tried:
            for a in range(size):
                graph.ints[alive + a] = nodes.alive[top, a]
            counters[b, 1] += 1
            counters[b, 0] += maximise(graph, layout, b, settings, clock, deadline)
            bound = min(bound, graph.figures[0])
            tried = counters[b, 1] < max_nodes and top + 2 <= len(nodes.bound)
        if tried and is_open(graph, bound):
            top = _split(graph, layout, b, nodes, top, bound)
        else:
            upper = max(upper, bound)
    return max(upper, graph.floats[graph.at[INCUMBENT]])


@numba.njit(**CALLED)
def _split(graph, layout, b, nodes, top, bound):
    """Push two nodes, with and without the least decided arc; the former is searched first."""
    alive, link_arc, mean = graph.at[ALIVE], graph.at[LINK_ARC], graph.at[MEAN]
    floats, ints = graph.floats, graph.ints
    first = layout.sentence_offsets[b]
    split, nearest = -1, np.inf
    for e in range(graph.sizes[SIZE_OPEN_ARCS]):
        a = ints[link_arc + e]
        if ints[alive + a] and abs(floats[mean + a] - 0.5) < nearest:
            split, nearest = a, abs(floats[mean + a] - 0.5)
    for a in range(graph.sizes[SIZE_ARCS]):
        nodes.alive[top, a] = ints[alive + a] and a != split
        rival = a != split and layout.modifier[first + a] == layout.modifier[first + split]
        nodes.alive[top + 1, a] = ints[alive + a] and not rival
    nodes.bound[top] = nodes.bound[top + 1] = bound
    return top + 2


@numba.njit(**CALLED)
def _report(graph, layout, b, upper, single_root, found):
    """Store the results of a sentence after the search."""
    at, floats, ints = graph.at, graph.floats, graph.ints
    mean, best_head, score = at[MEAN], at[BEST_HEAD], floats[at[INCUMBENT]]
    first, size = layout.sentence_offsets[b], graph.sizes[SIZE_ARCS]
    if upper == -np.inf:
        found.gap[b] = -np.inf
        return
    found.gap[b] = (upper - score) / floats[at[SCALE]]
    found.certified[b] = not is_open(graph, upper)
    for m in range(1, layout.lengths[b] + 1):
        found.heads[b, m] = ints[best_head + m]
    if not found.certified[b]:
        found.residuals[b, 0], found.residuals[b, 1] = graph.figures[1], graph.figures[2]
        for a in range(size):
            found.integral[b] &= min(floats[mean + a], 1 - floats[mean + a]) < WHOLE
    for k in range(first, first + size):
        found.arcs[k] = ints[best_head + layout.modifier[k]] == layout.head[k]
        if not found.integral[b]:
            found.arcs[k] = floats[mean + k - first]
    has_shares = len(found.shares) > 0 and not found.integral[b] and graph.factor[0, FACTOR_ACTIVE] > 0
    if has_shares and solution_value(graph) >= score:
        found.whole_tree[b] = False
        add_shares(graph, layout, b, single_root, found.shares, found.starts)
