"""The iterations of AD3 on the factor graph of one sentence."""

from __future__ import annotations

import numba
import numpy as np

from arbora.decoders.dual.factors import build, keep_shares, restrict
from arbora.decoders.dual.graph import (
    ALIVE,
    CHANGED,
    CONFIG_LINK,
    CONFIG_NEW,
    CONFIG_SIZE,
    COPY,
    DEGREE,
    FACTOR_ACTIVE,
    FACTOR_DIRTY,
    FACTOR_LINK,
    FACTOR_LINKS,
    INCUMBENT,
    LINK_ARC,
    LIVE_ARC,
    LIVE_START,
    LOSS,
    MEAN,
    ONLY,
    SCALE,
    SCORE,
    SHARE,
    SIZE_FACTORS,
    SIZE_FULL,
    SIZE_LINKS,
    SIZE_OPEN_ARCS,
    SIZE_WORDS,
    TOTAL,
    TREE_HEAD,
    WEIGHT,
)
from arbora.decoders.dual.normalisation import is_low, is_open, rounding, tolerance
from arbora.decoders.dual.oracles import best_tree, bound
from arbora.decoders.dual.quadratic import project, project_pairs
from arbora.decoders.dual.solutions import offer
from arbora.decoders.kernels.options import CALLED

FIRST_PERIOD, LAST_PERIOD = 3, 10
"""Iterations between two bounds, at first and in the end. The first bound of all is worth little."""

SAME = 1e-12
"""Arcs that moved by less are unchanged."""

ADAPT, LAST_CHANGE = 5, 100
"""Iterations between two changes of rho, and after which it stays: if rho never comes to rest, residuals may not."""

RHO = 0.5
"""Weight of the quadratic term, in units, unless the user gives one."""

LEAST_RHO, MOST_RHO = 2.0**-20, 2.0**10
"""In units; beyond these, rounding would hide the steps or the scores."""


@numba.njit(**CALLED)
def maximise(graph, layout, b, settings, clock, deadline):
    """Search among the arcs that are alive until the best known tree is proved, or the relaxation is solved.

    Writes to `graph.figures` the bound, -inf if there is no tree, and both residuals; returns the number of iterations.
    """
    at, floats = graph.at, graph.floats
    count, incumbent = graph.sizes, at[INCUMBENT]
    single_root, first_rho = settings.single_root, _first_rho(graph, settings.rho)
    rho = first_rho
    graph.figures[0], graph.figures[1], graph.figures[2] = np.inf, 0.0, 0.0
    iterations = 0
    period = FIRST_PERIOD
    fresh, done = True, False
    while True:
        if fresh:
            if not restrict(graph, layout, b, single_root):
                graph.figures[0] = floats[incumbent]  # nothing is better
                break
            build(graph, layout, b, single_root)
        upper = np.inf
        first = floats[incumbent] == -np.inf
        if first and not _offer_first(graph, layout, b, single_root):
            graph.figures[0] = -np.inf
            break
        late = clock[0] > deadline
        if not late and is_low(graph):
            keep_shares(graph)
            fresh, graph.figures[0] = True, np.inf
            continue
        if not first or late or count[SIZE_FACTORS] == 1 or settings.max_iterations == 0:
            upper = bound(graph, layout, b, single_root) + rounding(graph)
        if count[SIZE_OPEN_ARCS] == 0:
            upper = floats[incumbent]  # there is only one tree, and it has been offered
        graph.figures[0] = min(graph.figures[0], upper)
        keep_shares(graph)
        if not is_open(graph, graph.figures[0]) or late:
            break
        dropped = _drop(graph, upper) if settings.drop_arcs else 0
        fresh = 10 * dropped > count[SIZE_OPEN_ARCS] or (done and dropped > 0)
        if fresh:
            done = False
            continue
        if done or iterations >= settings.max_iterations:
            break
        for _ in range(period):
            iterations += 1
            _iterate(graph, layout, b, rho, single_root)
            done = graph.figures[1] < settings.tolerance and graph.figures[2] < settings.tolerance
            if done or iterations >= settings.max_iterations or clock[0] > deadline or count[SIZE_FULL]:
                break
            if settings.adaptive and iterations % ADAPT == 0 and iterations <= LAST_CHANGE:
                rho = _adapt(graph, rho, first_rho)
        if count[SIZE_FULL]:
            break
        period = min(period + 2, LAST_PERIOD)
    return iterations


@numba.njit(**CALLED)
def _first_rho(graph, rho):
    """The weight of the quadratic term in units."""
    if rho == 0:
        return RHO
    return min(max(rho * graph.floats[graph.at[SCALE]], LEAST_RHO), MOST_RHO)


@numba.njit(**CALLED)
def _adapt(graph, rho, first_rho):
    """Change rho by a factor of two where one residual is ten times the other."""
    change = 1.0
    if graph.figures[1] > 10 * graph.figures[2] and rho < min(1000 * first_rho, MOST_RHO):
        change = 2.0
    elif graph.figures[2] > 10 * graph.figures[1] and rho > max(0.001 * first_rho, LEAST_RHO):
        change = 0.5
    if change != 1:
        for s in range(graph.sizes[SIZE_FACTORS]):
            graph.factor[s, FACTOR_DIRTY] = 1
    return rho * change


@numba.njit(**CALLED)
def _iterate(graph, layout, b, rho, single_root):
    """Solve the quadratic steps of all factors, agree on the mean, and move the shares."""
    for s in range(graph.sizes[SIZE_FACTORS]):
        if graph.factor[s, FACTOR_DIRTY] != 0:
            project(graph, s, rho, single_root)
    project_pairs(graph, rho)
    _offer_active(graph, layout, b)
    average(graph, rho)


@numba.njit(**CALLED)
def _drop(graph, upper):
    """Take away arcs that no better tree has; returns how many."""
    at, floats, ints = graph.at, graph.floats, graph.ints
    alive, loss, link_arc = at[ALIVE], at[LOSS], at[LINK_ARC]
    least = floats[at[INCUMBENT]] - 0.1 * tolerance(graph) - rounding(graph)
    dropped = 0
    for e in range(graph.sizes[SIZE_OPEN_ARCS]):
        if upper - floats[loss + ints[link_arc + e]] < least:
            ints[alive + ints[link_arc + e]] = False
        dropped += not ints[alive + ints[link_arc + e]]
    return dropped


@numba.njit(**CALLED)
def _offer_first(graph, layout, b, single_root):
    """Offer the best tree by arc scores only; False if there is none."""
    at, floats, ints, n = graph.at, graph.floats, graph.ints, graph.sizes[SIZE_WORDS]
    for p in range(ints[at[LIVE_START] + 1], ints[at[LIVE_START] + n + 1]):
        floats[at[WEIGHT] + p] = floats[at[SCORE] + ints[at[LIVE_ARC] + p]]
    if best_tree(graph, single_root) == 0:
        return False
    offer(graph, layout, b)
    return True


@numba.njit(**CALLED)
def _offer_active(graph, layout, b):
    """Offer those trees of the tree factor that came in with the last step."""
    at, ints = graph.at, graph.ints
    tree_head, only, config_new = at[TREE_HEAD], at[ONLY], at[CONFIG_NEW]
    config_size, config_link = at[CONFIG_SIZE], at[CONFIG_LINK]
    link_arc, n = at[LINK_ARC], graph.sizes[SIZE_WORDS]
    for i in range(graph.factor[0, FACTOR_ACTIVE]):
        if ints[config_new + i]:
            ints[config_new + i] = False
            for m in range(1, n + 1):
                ints[tree_head + m] = ints[only + m]
            for c in range(i * n, i * n + ints[config_size + i]):
                k = layout.sentence_offsets[b] + ints[link_arc + ints[config_link + c]]
                ints[tree_head + layout.modifier[k]] = layout.head[k]
            offer(graph, layout, b)


@numba.njit(**CALLED)
def average(graph, rho):
    """Set u to the mean of the copies and move the shares; find residuals, and which factors see a change."""
    at, floats, ints = graph.at, graph.floats, graph.ints
    mean, copy, share = at[MEAN], at[COPY], at[SHARE]
    total, score, link_arc = at[TOTAL], at[SCORE], at[LINK_ARC]
    changed, degree, factor = at[CHANGED], at[DEGREE], graph.factor
    links = graph.sizes[SIZE_LINKS]
    opened = graph.sizes[SIZE_OPEN_ARCS]  # the first links are those of the tree, one for each open arc
    for e in range(opened):
        floats[total + ints[link_arc + e]] = floats[copy + e]
    for e in range(opened, links):
        floats[total + ints[link_arc + e]] += floats[copy + e]
    dual = 0.0
    for e in range(opened):
        a = ints[link_arc + e]
        agreed = floats[total + a] / ints[degree + a]
        move = agreed - floats[mean + a]
        dual += ints[degree + a] * move * move
        ints[changed + a] = abs(move) > SAME
        floats[mean + a] = agreed
        floats[total + a] = floats[score + a]  # less the shares of the others, below
    primal = 0.0
    for e in range(opened, links):
        a = ints[link_arc + e]
        apart = floats[copy + e] - floats[mean + a]
        primal += apart * apart
        floats[share + e] -= rho * apart
        floats[total + a] -= floats[share + e]
        if abs(apart) > SAME:
            ints[changed + a] = True
    for e in range(opened):
        a = ints[link_arc + e]
        apart = floats[copy + e] - floats[mean + a]
        primal += apart * apart
        floats[share + e] = floats[total + a]  # so that shares add up, however long it runs
    for s in range(graph.sizes[SIZE_FACTORS]):
        dirty = False
        for e in range(factor[s, FACTOR_LINK], factor[s, FACTOR_LINK] + factor[s, FACTOR_LINKS]):
            dirty |= ints[changed + ints[link_arc + e]] != 0
        factor[s, FACTOR_DIRTY] = dirty
    graph.figures[1] = np.sqrt(primal / links)
    graph.figures[2] = np.sqrt(dual / links)
