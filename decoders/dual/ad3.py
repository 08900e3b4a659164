"""AD3, alternating directions dual decomposition: a bound for all trees, and most often the best tree with proof.

Martins, Almeida and Smith (2013), "Turning on the Turbo: Fast Third-Order Non-Projective Turbo Parsers"; the active-set
method for the quadratic steps is that of Martins et al. (2012), arXiv:1212.6550. `factors` has the factors,
`oracles` what they cost.

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
- A factor none of whose arcs changed is not solved again.
- Arcs are taken away as soon as bound and best known tree prove them to be in no better tree, and factors shrink with
  them (`oracles.bound`). Most words of a sentence are soon decided, and iterations concern the few that are not.
- `certified` is never read off u: a tree is certified where the bound comes down to its exact score.
- rho is changed by a factor of two whenever one residual is ten times the other.

A parser may learn from the solution as it is, fractional or not (`fractional`): the value of the relaxation is a convex
function of the scores, no less than that of any tree, and the share of each part is its derivative (Martins, Smith and
Xing, 2009, "Polyhedral outer approximations with application to natural language parsing").
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from arbora.decoders.dual import factors as fac
from arbora.decoders.dual import oracles
from arbora.decoders.dual.factors import (
    ACTIVE,
    ALL_LINKS,
    CAPACITY,
    CONFIG,
    DIRTY,
    FACTORS,
    GAP,
    LINK,
    LINKS,
    OPEN_ARCS,
    PAIR_LINK,
    PAIRS,
    TREE,
    WIDTH,
    N,
    is_open,
)
from arbora.decoders.kernels.options import CALLED, HELPER, INLINED, KERNEL
from arbora.decoders.kernels.threads import over_sentences
from arbora.decoders.mst import MST
from arbora.decoders.parts.batch import Parts
from arbora.decoders.parts.kinds import COMMON
from arbora.decoders.settings import numeric
from arbora.decoders.trees import Decoder, Trees, scatter

INNER_STEPS = 10
"""Most oracle calls in one quadratic step."""

FIRST_PERIOD, LAST_PERIOD = 3, 10
"""Iterations between two bounds, at first and in the end. The first bound of all is worth little."""

SAME = 1e-12
"""Arcs that moved by less are unchanged."""

DEPTH = 512
"""Most nodes that wait in branch and bound."""

ADAPT, LAST_CHANGE = 5, 100
"""Iterations between two changes of rho, and after which it stays: if rho never comes to rest, residuals may not."""

WHOLE = 0.01
"""An arc whose share is so near to 0 or 1 is decided, as far as an iterative solution can tell."""

LEAST_SHARE = 1e-9
"""Parts with a smaller share are left out."""


@dataclass(frozen=True, eq=False, repr=False)
class RelaxedTrees(Trees):
    """Trees out of a linear relaxation.

    Args:
        arcs: (A,) share of each candidate arc in the solution of the relaxation, 0..1, in the order of the arcs in
            `Parts`; the shares of the arcs into a word add up to 1. Where a sentence is integral they are the tree.
        integral: (B,) whether that solution is a tree: all shares of arcs are 0 or 1, up to 0.01. Of the sentences that
            are not, no number of iterations proves a tree to be the best; `BranchAndBound` does. All that are
            certified are integral. One that is integral without being certified needs more iterations, or lost the
            proof to rounding.
        primal_residual: (B,) how far factors disagree, root mean square over copies of arcs; 0 where certified.
        dual_residual: (B,) how far the solution moved in the last iteration; 0 where certified.
        seconds: it took to decode the whole batch, by the clock.
        shares: for `arc` and each type of part that is there, the parts in the solution, ascending, as in
            `Parts.active`, and the share of each, above 0 and up to 1. In a sentence that is integral these are the
            parts of the tree, with share 1; so they are where the iterations ended before the solution scored as much
            as the tree. The sum of share times score is thus never less than the score of the tree, and no more than
            the bound up to the residuals. Empty unless asked for.
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
    """Best tree under any parts by dual decomposition, crossing arcs allowed; `certified` says where it is proved.

    Args:
        single_root: allow exactly one modifier of the root.
        rho: weight of the quadratic term at the start; larger steps for larger scores.
        max_iterations: after so many, the best tree found is taken.
        adaptive: change rho on the way, so that the primal and the dual residual fall alike.
        tolerance: stop when both residuals are below; the relaxation is then solved.
        drop_arcs: take away arcs that are proved to be in no better tree than the best known one. Quicker by far; the
            fractional solution is then that of a tighter relaxation.
        fractional: give the share of each part in the solution too (`RelaxedTrees.shares`), so that a parser which is
            trained with this decoder learns from the solution of the relaxation instead of the tree.
    """

    single_root: bool = True
    rho: float = numeric(1.0, above=0)
    max_iterations: int = numeric(500, least=0)
    adaptive: bool = True
    tolerance: float = numeric(1e-4, least=0)
    drop_arcs: bool = True
    fractional: bool = False

    def decode(self, parts: Parts) -> RelaxedTrees:
        settings = Settings(*(getattr(self, name) for name in Settings._fields))
        return decode(parts, settings, Limits(1, np.inf), fractional=self.fractional)


class Settings(NamedTuple):
    """Those of `AD3` that kernels read."""

    single_root: bool
    rho: float
    max_iterations: int
    adaptive: bool
    tolerance: float
    drop_arcs: bool


class Limits(NamedTuple):
    """Of branch and bound: how many nodes, and how long, for a sentence."""

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
        settings: of AD3 at each node.
        limits: 1 node is AD3 alone.
        clock: (1,) seconds, to be kept up to date by another thread if there is a limit of time.
        fractional: give the shares of all parts.
    """
    began = time.perf_counter()
    size = len(parts.lengths)
    heads = parts.empty_trees()
    upper, relaxed = np.empty(size), np.zeros((size, 2))
    arcs = np.empty(len(parts.head))
    counters = np.zeros((size, 2), dtype=np.int64)
    integral, whole_tree = np.ones((2, size), dtype=np.bool_)
    ends = [parts.sentence_offsets[-1], *(parts.part_offsets(kind)[-1] * (kind in parts.kinds) for kind in COMMON)]
    starts = np.concatenate([[0], np.cumsum(ends)])
    shares = np.zeros(starts[-1] if fractional else 0)
    clock = np.zeros(1) if clock is None else clock
    layout = parts.layout

    def run(sentences: NDArray[np.int64]) -> None:
        graph = fac.allocate(parts, sentences)
        most = np.diff(parts.sentence_offsets)[sentences].max(initial=1)
        depth = 1 if limits.max_nodes == 1 else min(int(most) + 2, DEPTH)
        stack, bounds = np.empty((depth, most), dtype=np.bool_), np.empty(depth)
        search(
            sentences,
            graph,
            layout,
            settings,
            limits,
            clock,
            stack,
            bounds,
            heads,
            upper,
            relaxed,
            arcs,
            counters,
            integral,
            whole_tree,
            shares,
            starts,
        )

    over_sentences(run, 10 * fac.steps(parts))
    if (upper == -np.inf).any():
        MST(settings.single_root)(parts)  # says which sentence has no tree, and why
        raise AssertionError("a sentence has a tree that the search did not see")
    score = parts.score(heads)
    upper = np.maximum(upper, score)
    names = ("iterations",) if limits.max_nodes == 1 else ("iterations", "nodes")
    found = _collect(parts, heads, whole_tree, shares, starts) if fractional else {}
    return RelaxedTrees(
        heads,
        score,
        bound=upper,
        certified=upper - score <= GAP * (1 + np.abs(score)),
        counters={name: counters[:, i].copy() for i, name in enumerate(names)},
        arcs=arcs,
        integral=integral,
        primal_residual=relaxed[:, 0].copy(),
        dual_residual=relaxed[:, 1].copy(),
        seconds=time.perf_counter() - began,
        shares=found,
    )


def _collect(
    parts: Parts,
    heads: NDArray[np.int32],
    whole_tree: NDArray[np.bool_],
    shares: NDArray[np.float64],
    starts: NDArray[np.int64],
) -> dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Shares that are not 0 by type, with those of the tree for sentences of which this is the solution."""
    found = {}
    for kind, active in parts.active(heads).items():
        place = ("arc", *COMMON).index(kind)
        dense = shares[starts[place] : starts[place + 1]]
        offsets = parts.sentence_offsets if kind == "arc" else parts.part_offsets(kind)
        dense[active[whole_tree[np.searchsorted(offsets, active, side="right") - 1]]] = 1
        entries = np.flatnonzero(dense > LEAST_SHARE)
        found[kind] = entries, np.minimum(dense[entries], 1.0)
    return found


@numba.njit(**KERNEL)
def search(
    sentences,
    graph,
    layout,
    settings,
    limits,
    clock,
    stack,
    stack_bound,
    heads,
    upper,
    relaxed,
    arcs,
    counters,
    integral,
    whole_tree,
    shares,
    starts,
):
    """Branch and bound, of which AD3 is the first node.

    Fills for each sentence heads[b]; upper[b], -inf if there is no tree; relaxed[b] with both residuals; arcs, the
    solution of the relaxation; counters[b] with iterations and nodes; integral[b]. Unless `shares` is empty, the shares
    of all parts are added to it, and whole_tree[b] is made False where they are not just those of the tree.
    """
    at, reals, wholes = graph.at, graph.real, graph.whole
    figures = np.zeros(3)
    mean, incumbent, best_head = at[fac.MEAN], at[fac.INCUMBENT], at[fac.BEST_HEAD]
    alive, link_arc = at[fac.ALIVE], at[fac.LINK_ARC]
    for b in sentences:
        first = layout.sentence_offsets[b]
        size = layout.sentence_offsets[b + 1] - first
        fac.start(graph, layout, b)
        for a in range(size):
            stack[0, a] = True
        stack_bound[0] = np.inf
        top = 1
        began = clock[0]
        upper[b] = -np.inf
        while top > 0:
            top -= 1
            node_bound = stack_bound[top]
            tried = is_open(node_bound, reals[incumbent])
            if counters[b, 1] > 0:
                tried &= counters[b, 1] < limits.max_nodes and clock[0] - began <= limits.seconds
            if tried:
                for a in range(size):
                    wholes[alive + a] = stack[top, a]
                counters[b, 1] += 1
                counters[b, 0] += maximise(graph, layout, b, settings, figures)
                node_bound = min(node_bound, figures[0])
                tried = counters[b, 1] < limits.max_nodes and top + 2 <= len(stack)
            if not (tried and is_open(node_bound, reals[incumbent])):
                upper[b] = max(upper[b], node_bound)
                continue
            # Branch on the arc that is the least decided: first with it, then without.
            split, nearest = -1, np.inf
            for e in range(graph.sizes[OPEN_ARCS]):
                a = wholes[link_arc + e]
                if wholes[alive + a] and abs(reals[mean + a] - 0.5) < nearest:
                    split, nearest = a, abs(reals[mean + a] - 0.5)
            for a in range(size):
                stack[top, a] = wholes[alive + a] and a != split
                rival = a != split and layout.modifier[first + a] == layout.modifier[first + split]
                stack[top + 1, a] = wholes[alive + a] and not rival
            stack_bound[top] = stack_bound[top + 1] = node_bound
            top += 2
        upper[b] = max(upper[b], reals[incumbent])
        for m in range(1, layout.lengths[b] + 1):
            heads[b, m] = wholes[best_head + m]
        unproved = is_open(upper[b], reals[incumbent])
        if unproved:
            relaxed[b, 0], relaxed[b, 1] = figures[1], figures[2]
            for a in range(size):
                integral[b] &= min(reals[mean + a], 1 - reals[mean + a]) < WHOLE
        for k in range(first, first + size):
            arcs[k] = wholes[best_head + layout.modifier[k]] == layout.head[k]
            if not integral[b]:
                arcs[k] = reals[mean + k - first]
        has_shares = len(shares) > 0 and not integral[b] and graph.factor[0, ACTIVE] > 0
        if has_shares and fac.solution_value(graph) >= reals[incumbent]:
            whole_tree[b] = False
            fac.add_shares(graph, layout, b, settings.single_root, shares, starts)


@numba.njit(**INLINED)
def maximise(graph, layout, b, settings, figures):
    """Search among the arcs that are alive until the best known tree is proved, or the relaxation is solved.

    Writes to figures the bound, -inf if there is no tree, and both residuals; returns the number of iterations.
    """
    at, reals = graph.at, graph.real
    count, factor, incumbent = graph.sizes, graph.factor, at[fac.INCUMBENT]
    single_root, rho = settings.single_root, settings.rho
    figures[0], figures[1], figures[2] = np.inf, 0.0, 0.0
    iterations = 0
    period = FIRST_PERIOD
    fresh, converged = True, False
    while True:
        if fresh:
            if not fac.restrict(graph, layout, b, single_root):
                figures[0] = reals[incumbent]  # nothing is better
                break
            fac.build(graph, layout, b, single_root)
        upper = np.inf
        first = reals[incumbent] == -np.inf
        if first and not _offer_first(graph, layout, b, single_root):
            figures[0] = -np.inf
            break
        if not first or count[FACTORS] == 1 or settings.max_iterations == 0:
            upper = oracles.bound(graph, layout, b, single_root)
        figures[0] = min(figures[0], upper)
        lower = reals[incumbent]
        fac.keep_shares(graph)
        if not is_open(figures[0], lower):
            break
        dropped = _drop(graph, upper, lower) if settings.drop_arcs else 0
        fresh = 10 * dropped > count[OPEN_ARCS] or (converged and dropped > 0)
        if fresh:
            converged = False
            continue
        if converged or iterations >= settings.max_iterations:
            break
        for _ in range(period):
            iterations += 1
            for s in range(count[FACTORS]):
                if factor[s, DIRTY] != 0:
                    project(graph, s, rho, single_root)
            _project_pairs(graph, rho)
            _offer_active(graph, layout, b)
            average(graph, rho, figures)
            converged = figures[1] < settings.tolerance and figures[2] < settings.tolerance
            if converged or iterations >= settings.max_iterations:
                break
            if settings.adaptive and iterations % ADAPT == 0 and iterations <= LAST_CHANGE:
                change = 1.0
                if figures[1] > 10 * figures[2] and rho < 1000 * settings.rho:
                    change = 2.0
                elif figures[2] > 10 * figures[1] and rho > 0.001 * settings.rho:
                    change = 0.5
                if change != 1:
                    rho *= change
                    for s in range(count[FACTORS]):
                        factor[s, DIRTY] = 1
        period = min(period + 2, LAST_PERIOD)
    return iterations


@numba.njit(**CALLED)
def _drop(graph, upper, lower):
    """Take away arcs that no better tree has; returns how many."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    alive, loss, link_arc = at[fac.ALIVE], at[fac.LOSS], at[fac.LINK_ARC]
    least = lower - 1e-9 * (1 + abs(lower))
    dropped = 0
    for e in range(graph.sizes[OPEN_ARCS]):
        if upper - reals[loss + wholes[link_arc + e]] < least:
            wholes[alive + wholes[link_arc + e]] = False
        dropped += not wholes[alive + wholes[link_arc + e]]
    return dropped


@numba.njit(**CALLED)
def _offer_first(graph, layout, b, single_root):
    """Offer the best tree by scores of arcs alone; False if there is none."""
    at, reals, wholes, n = graph.at, graph.real, graph.whole, graph.sizes[N]
    for p in range(wholes[at[fac.LIVE_START] + 1], wholes[at[fac.LIVE_START] + n + 1]):
        reals[at[fac.WEIGHT] + p] = reals[at[fac.SCORE] + wholes[at[fac.LIVE_ARC] + p]]
    if oracles.best_tree(graph, single_root) == 0:
        return False
    fac.offer(graph, layout, b)
    return True


@numba.njit(**CALLED)
def _offer_active(graph, layout, b):
    """Offer those trees of the tree factor that came in with the last step."""
    at, wholes = graph.at, graph.whole
    tree_head, only, config_new = at[fac.TREE_HEAD], at[fac.ONLY], at[fac.CONFIG_NEW]
    config_size, config_link = at[fac.CONFIG_SIZE], at[fac.CONFIG_LINK]
    link_arc, n = at[fac.LINK_ARC], graph.sizes[N]
    for i in range(graph.factor[0, ACTIVE]):
        if wholes[config_new + i]:
            wholes[config_new + i] = False
            for m in range(1, n + 1):
                wholes[tree_head + m] = wholes[only + m]
            for c in range(i * n, i * n + wholes[config_size + i]):
                k = layout.sentence_offsets[b] + wholes[link_arc + wholes[config_link + c]]
                wholes[tree_head + layout.modifier[k]] = layout.head[k]
            fac.offer(graph, layout, b)


@numba.njit(**CALLED)
def average(graph, rho, figures):
    """Set u to the mean of the copies and move the shares; find residuals, and which factors see a change."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    mean, copy, share = at[fac.MEAN], at[fac.COPY], at[fac.SHARE]
    total, score, link_arc = at[fac.TOTAL], at[fac.SCORE], at[fac.LINK_ARC]
    changed, degree, factor = at[fac.CHANGED], at[fac.DEGREE], graph.factor
    links = graph.sizes[ALL_LINKS]
    opened = graph.sizes[OPEN_ARCS]  # the first links are those of the tree, one for each open arc
    for e in range(opened):
        reals[total + wholes[link_arc + e]] = reals[copy + e]
    for e in range(opened, links):
        reals[total + wholes[link_arc + e]] += reals[copy + e]
    dual = 0.0
    for e in range(opened):
        a = wholes[link_arc + e]
        agreed = reals[total + a] / wholes[degree + a]
        move = agreed - reals[mean + a]
        dual += wholes[degree + a] * move * move
        wholes[changed + a] = abs(move) > SAME
        reals[mean + a] = agreed
        reals[total + a] = reals[score + a]  # less the shares of the others, below
    primal = 0.0
    for e in range(opened, links):
        a = wholes[link_arc + e]
        apart = reals[copy + e] - reals[mean + a]
        primal += apart * apart
        reals[share + e] -= rho * apart
        reals[total + a] -= reals[share + e]
        if abs(apart) > SAME:
            wholes[changed + a] = True
    for e in range(opened):
        a = wholes[link_arc + e]
        apart = reals[copy + e] - reals[mean + a]
        primal += apart * apart
        reals[share + e] = reals[total + a]  # so that shares add up, however long it runs
    for s in range(graph.sizes[FACTORS]):
        dirty = False
        for e in range(factor[s, LINK], factor[s, LINK] + factor[s, LINKS]):
            dirty |= wholes[changed + wholes[link_arc + e]] != 0
        factor[s, DIRTY] = dirty
    figures[1] = np.sqrt(primal / links)
    figures[2] = np.sqrt(dual / links)


@numba.njit(**CALLED)
def _project_pairs(graph, rho):
    """Quadratic step of the pairs, in closed form."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    mean, copy, share = at[fac.MEAN], at[fac.COPY], at[fac.SHARE]
    pair_score, link_arc = at[fac.PAIR_SCORE], at[fac.LINK_ARC]
    e = graph.sizes[PAIR_LINK]
    for i in range(graph.sizes[PAIRS]):
        reals[copy + e], reals[copy + e + 1] = project_pair(
            reals[mean + wholes[link_arc + e]] + reals[share + e] / rho,
            reals[mean + wholes[link_arc + e + 1]] + reals[share + e + 1] / rho,
            reals[pair_score + i] / rho,
        )
        e += 2


@numba.njit(**HELPER)
def project_pair(one, two, both):
    """Argmax of one z1 + two z2 + both z12 - (z1^2 + z2^2) / 2 over the hull of two bits and their conjunction."""
    flip = both < 0
    if flip:  # with z2 flipped the conjunction attracts
        one, two, both = one + both, 1 - two, -both
    if one > two + both:
        first, second = one, two + both
    elif two > one + both:
        first, second = one + both, two
    else:
        first = second = (one + two + both) / 2
    first, second = min(max(first, 0.0), 1.0), min(max(second, 0.0), 1.0)
    return first, 1 - second if flip else second


# The quadratic step. Of the active configurations y_i of a factor, MATRIX has the Cholesky factor of y_i . y_j + 1 in
# and below the diagonal, and y_i . y_j + 1 itself above.


@numba.njit(**INLINED)
def project(graph, s, rho, single_root):
    """Set the copies of a factor to argmax over conv(Y) of f(z) + w z - rho/2 |z - u|^2."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    factor, link_arc = graph.factor, at[fac.LINK_ARC]
    mean, copy, share, inputs = at[fac.MEAN], at[fac.COPY], at[fac.SHARE], at[fac.INPUT]
    mass, rows = at[fac.MASS], at[fac.ROWS]
    config_size, config_link = at[fac.CONFIG_SIZE], at[fac.CONFIG_LINK]
    link, links, slot = factor[s, LINK], factor[s, LINKS], s * CAPACITY
    target, solved, ones = rows, rows + CAPACITY, rows + 2 * CAPACITY
    for i in range(factor[s, ACTIVE]):
        reals[target + i] = _linear(graph, s, i, rho)

    calls = 0
    while True:
        # y_i . z + tau = target_i for all active i, with weights that add up to 1.
        active = factor[s, ACTIVE]
        tau = -np.inf
        if active > 0:
            _solve(graph, s, target, solved, ones)
            total, of_ones = 0.0, 0.0
            for i in range(active):
                total += reals[solved + i]
                of_ones += reals[ones + i]
            tau = (total - 1) / of_ones
            least, blocking = 1.0, np.int64(-1)
            for i in range(active):
                reals[solved + i] -= tau * reals[ones + i]
                if reals[solved + i] < -1e-12:
                    step = reals[mass + slot + i] / (reals[mass + slot + i] - reals[solved + i])
                    if step < least:
                        least, blocking = step, np.int64(i)
            tau += 1
            if blocking >= 0:
                for i in range(active):
                    reals[mass + slot + i] += least * (reals[solved + i] - reals[mass + slot + i])
                _remove(graph, s, blocking, target)
                continue
            for e in range(link, link + links):
                reals[copy + e] = 0.0
            for i in range(active):
                reals[mass + slot + i] = max(reals[solved + i], 0.0)
                config = factor[s, CONFIG] + i * factor[s, WIDTH]
                for c in range(config, config + wholes[config_size + slot + i]):
                    reals[copy + link + wholes[config_link + c]] += reals[mass + slot + i]
            if calls == INNER_STEPS:
                return
            calls += 1
        for e in range(links):
            a = wholes[link_arc + link + e]
            reals[inputs + e] = reals[share + link + e] + (
                rho * (reals[mean + a] - reals[copy + link + e]) if active > 0 else 0.0
            )
        value, size, own = oracles.oracle(graph, s, single_root)
        if value <= rho * tau + 1e-9 * (1 + abs(rho * tau)):
            return
        weight = 1.0 if active == 0 else 0.0
        while not _insert(graph, s, size, own, weight, solved):
            # An affine combination of the active ones takes over as much weight as it can: z stays, f grows.
            blocking = np.int64(-1)
            if weight == 0 and active < CAPACITY:
                least = np.inf
                for i in range(active):
                    if reals[solved + i] > 1e-9 and reals[mass + slot + i] < least * reals[solved + i]:
                        least, blocking = reals[mass + slot + i] / reals[solved + i], np.int64(i)
            if blocking < 0:
                return
            for i in range(active):
                reals[mass + slot + i] -= least * reals[solved + i]
            weight = max(least, 1e-300)
            _remove(graph, s, blocking, target)
        reals[target + factor[s, ACTIVE] - 1] = _linear(graph, s, factor[s, ACTIVE] - 1, rho)


@numba.njit(**CALLED)
def _linear(graph, s, i, rho):
    """(u + w / rho) y_i + f(y_i) / rho."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    mean, share, own = at[fac.MEAN], at[fac.SHARE], at[fac.OWN]
    link_arc, config_link = at[fac.LINK_ARC], at[fac.CONFIG_LINK]
    config = graph.factor[s, CONFIG] + i * graph.factor[s, WIDTH]
    value = reals[own + s * CAPACITY + i]
    agreed = 0.0
    for c in range(config, config + wholes[at[fac.CONFIG_SIZE] + s * CAPACITY + i]):
        e = graph.factor[s, LINK] + wholes[config_link + c]
        value += reals[share + e]
        agreed += reals[mean + wholes[link_arc + e]]
    return agreed + value / rho


@numba.njit(**CALLED)
def _solve(graph, s, target, solved, ones):
    """Solve for two right sides at once, `target` and ones, by the Cholesky factor."""
    at, reals = graph.at, graph.real
    matrix = at[fac.MATRIX]
    first = s * CAPACITY * CAPACITY
    active = graph.factor[s, ACTIVE]
    for i in range(active):
        row = first + i * CAPACITY
        value, one = reals[target + i], 1.0
        for j in range(i):
            value -= reals[matrix + row + j] * reals[solved + j]
            one -= reals[matrix + row + j] * reals[ones + j]
        reals[solved + i] = value / reals[matrix + row + i]
        reals[ones + i] = one / reals[matrix + row + i]
    for i in range(active - 1, -1, -1):
        value, one = reals[solved + i], reals[ones + i]
        for j in range(i + 1, active):
            value -= reals[matrix + first + j * CAPACITY + i] * reals[solved + j]
            one -= reals[matrix + first + j * CAPACITY + i] * reals[ones + j]
        reals[solved + i] = value / reals[matrix + first + i * CAPACITY + i]
        reals[ones + i] = one / reals[matrix + first + i * CAPACITY + i]


@numba.njit(**CALLED)
def _insert(graph, s, size, own, weight, combination):
    """Make FOUND active. If it is an affine combination of the active ones, give that, and False."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    factor, matrix, inputs, found = graph.factor, at[fac.MATRIX], at[fac.INPUT], at[fac.FOUND]
    config_size, config_link = at[fac.CONFIG_SIZE], at[fac.CONFIG_LINK]
    row = at[fac.ROWS] + 3 * CAPACITY
    active, width, config = factor[s, ACTIVE], factor[s, WIDTH], factor[s, CONFIG]
    slot, first = s * CAPACITY, s * CAPACITY * CAPACITY
    if active == CAPACITY:
        return False
    # Its links are marked in INPUT, which nobody needs any more.
    for e in range(factor[s, LINKS]):
        reals[inputs + e] = 0.0
    for c in range(size):
        reals[inputs + wholes[found + c]] = 1.0
    left = size + 1.0
    for i in range(active):
        shared = 1.0
        for c in range(config + i * width, config + i * width + wholes[config_size + slot + i]):
            shared += reals[inputs + wholes[config_link + c]]
        reals[row + i] = shared
        for j in range(i):
            shared -= reals[matrix + first + i * CAPACITY + j] * reals[combination + j]
        reals[combination + i] = shared / reals[matrix + first + i * CAPACITY + i]
        left -= reals[combination + i] * reals[combination + i]
    if left < 1e-7:
        for i in range(active - 1, -1, -1):
            value = reals[combination + i]
            for j in range(i + 1, active):
                value -= reals[matrix + first + j * CAPACITY + i] * reals[combination + j]
            reals[combination + i] = value / reals[matrix + first + i * CAPACITY + i]
        return False
    for i in range(active):
        reals[matrix + first + active * CAPACITY + i] = reals[combination + i]
        reals[matrix + first + i * CAPACITY + active] = reals[row + i]
    reals[matrix + first + active * CAPACITY + active] = np.sqrt(left)
    for c in range(size):
        wholes[config_link + config + active * width + c] = wholes[found + c]
    wholes[config_size + slot + active] = size
    reals[at[fac.OWN] + slot + active] = own
    reals[at[fac.MASS] + slot + active] = weight
    if factor[s, fac.KIND] == TREE:
        wholes[at[fac.CONFIG_NEW] + active] = True
    factor[s, ACTIVE] = active + 1
    return True


@numba.njit(**CALLED)
def _remove(graph, s, gone, target):
    """Take a configuration out of the active ones, and factorise again from there on."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    factor, matrix, own, mass = graph.factor, at[fac.MATRIX], at[fac.OWN], at[fac.MASS]
    config_size, config_link = at[fac.CONFIG_SIZE], at[fac.CONFIG_LINK]
    config_new = at[fac.CONFIG_NEW]
    active, width, config = factor[s, ACTIVE], factor[s, WIDTH], factor[s, CONFIG]
    slot, first = s * CAPACITY, s * CAPACITY * CAPACITY
    for i in range(gone, active - 1):
        for c in range(wholes[config_size + slot + i + 1]):
            wholes[config_link + config + i * width + c] = wholes[config_link + config + (i + 1) * width + c]
        wholes[config_size + slot + i] = wholes[config_size + slot + i + 1]
        reals[own + slot + i], reals[mass + slot + i] = reals[own + slot + i + 1], reals[mass + slot + i + 1]
        if factor[s, fac.KIND] == TREE:
            wholes[config_new + i] = wholes[config_new + i + 1]
        reals[target + i] = reals[target + i + 1]
        for j in range(i):  # above the diagonal, with row and column `gone` left out
            reals[matrix + first + j * CAPACITY + i] = reals[matrix + first + (j + (j >= gone)) * CAPACITY + i + 1]
    for i in range(gone, active - 1):
        row = first + i * CAPACITY
        left = wholes[config_size + slot + i] + 1.0
        for j in range(i):
            value = reals[matrix + first + j * CAPACITY + i]
            for c in range(j):
                value -= reals[matrix + row + c] * reals[matrix + first + j * CAPACITY + c]
            reals[matrix + row + j] = value / reals[matrix + first + j * CAPACITY + j]
            left -= reals[matrix + row + j] * reals[matrix + row + j]
        reals[matrix + row + i] = np.sqrt(max(left, 1e-12))
    factor[s, ACTIVE] = active - 1
