"""The quadratic step of AD3: the point of a factor's polytope nearest to what it is drawn to.

The active-set method of Martins et al. (2012), arXiv:1212.6550, and for pairs a closed form. Of the active
configurations y_i of a factor, MATRIX has the Cholesky factor of y_i . y_j + 1 in and below the diagonal, and
y_i . y_j + 1 itself above. It is regular just when the configurations are affinely independent.
"""

from __future__ import annotations

import numba
import numpy as np

from arbora.decoders.dual.graph import (
    ACTIVE,
    CONFIG,
    CONFIG_LINK,
    CONFIG_NEW,
    CONFIG_SIZE,
    COPY,
    FOUND,
    FULL,
    INPUT,
    KIND,
    LINK,
    LINK_ARC,
    LINKS,
    MASS,
    MATRIX,
    MEAN,
    OWN,
    PAIR_LINK,
    PAIR_SCORE,
    PAIRS,
    ROOM,
    ROWS,
    SHARE,
    SLOT,
    SQUARE,
    TREE,
    WIDTH,
)
from arbora.decoders.dual.oracles import oracle
from arbora.decoders.kernels.options import CALLED, HELPER, INLINED

INNER_STEPS = 10
"""Most oracle calls in one quadratic step."""


@numba.njit(**CALLED)
def project_pairs(graph, rho):
    """Quadratic step of the pairs, in closed form."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    mean, copy, share = at[MEAN], at[COPY], at[SHARE]
    pair_score, link_arc = at[PAIR_SCORE], at[LINK_ARC]
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


@numba.njit(**INLINED)
def project(graph, s, rho, single_root):
    """Set the copies of a factor to argmax over conv(Y) of f(z) + w z - rho/2 |z - u|^2."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    factor, link_arc = graph.factor, at[LINK_ARC]
    mean, copy, share, inputs = at[MEAN], at[COPY], at[SHARE], at[INPUT]
    mass, rows = at[MASS], at[ROWS]
    link, links, slot, room = factor[s, LINK], factor[s, LINKS], factor[s, SLOT], factor[s, ROOM]
    target, solved, ones = rows, rows + room, rows + 2 * room
    for i in range(factor[s, ACTIVE]):
        reals[target + i] = _linear(graph, s, i, rho)

    # Each pass removes a configuration or calls the oracle, whose calls are counted and each add at most one.
    calls = 0
    while True:
        active = factor[s, ACTIVE]
        tau = -np.inf
        if active > 0:
            tau, step, blocking = _weigh(graph, s, target, solved, ones)
            if blocking >= 0:
                for i in range(active):
                    reals[mass + slot + i] += step * (reals[solved + i] - reals[mass + slot + i])
                _remove(graph, s, blocking, target)
                continue
            _mix(graph, s, solved)
            if calls >= INNER_STEPS:
                return
        calls += 1
        for e in range(links):
            a = wholes[link_arc + link + e]
            reals[inputs + e] = reals[share + link + e] + (
                rho * (reals[mean + a] - reals[copy + link + e]) if active > 0 else 0.0
            )
        value, size, own = oracle(graph, s, single_root)
        if value <= rho * tau + 1e-9 * (1 + abs(rho * tau)):
            return
        weight = 1.0 if active == 0 else 0.0
        inserted = _insert(graph, s, size, own, weight, solved)
        if not inserted:
            # An affine combination of the active ones takes over as much weight as it can: z stays, f grows.
            least, blocking = np.inf, np.int64(-1)
            for i in range(0 if graph.sizes[FULL] else active):
                if reals[solved + i] > 1e-9 and reals[mass + slot + i] < least * reals[solved + i]:
                    least, blocking = reals[mass + slot + i] / reals[solved + i], np.int64(i)
            if blocking < 0:
                return
            for i in range(active):
                reals[mass + slot + i] -= least * reals[solved + i]
            _remove(graph, s, blocking, target)
            inserted = _insert(graph, s, size, own, max(least, 1e-300), solved)
        if inserted:
            reals[target + factor[s, ACTIVE] - 1] = _linear(graph, s, factor[s, ACTIVE] - 1, rho)


@numba.njit(**CALLED)
def _weigh(graph, s, target, solved, ones):
    """Solve y_i . z + tau = target_i for all active i, with weights that add up to 1, written to `solved`.

    Returns tau; how far the present weights can be moved there until one of them is 0, and which, -1 if none is.
    """
    reals, active = graph.real, graph.factor[s, ACTIVE]
    present = graph.at[MASS] + graph.factor[s, SLOT]
    base = reals[target]  # the weights depend on the differences of targets only, and those may be small next to them
    for i in range(1, active):
        base = max(base, reals[target + i])
    _solve(graph, s, target, base, solved, ones)
    total, of_ones = 0.0, 0.0
    for i in range(active):
        total += reals[solved + i]
        of_ones += reals[ones + i]
    tau = (total - 1) / of_ones
    step, blocking = 1.0, np.int64(-1)
    for i in range(active):
        reals[solved + i] -= tau * reals[ones + i]
        if active > 1 and reals[solved + i] < -1e-12:
            weight = max(reals[present + i], 0.0)
            first = weight / (weight - reals[solved + i])
            if first < step:
                step, blocking = first, np.int64(i)
    if active == 1:
        reals[solved] = 1.0
    return base + tau + 1, step, blocking


@numba.njit(**CALLED)
def _mix(graph, s, solved):
    """Take the weights in `solved`, and set the copies of the factor to the mean of its configurations."""
    reals, wholes, factor = graph.real, graph.whole, graph.factor
    copy, config_link = graph.at[COPY] + factor[s, LINK], graph.at[CONFIG_LINK]
    mass, size = graph.at[MASS] + factor[s, SLOT], graph.at[CONFIG_SIZE] + factor[s, SLOT]
    for e in range(factor[s, LINKS]):
        reals[copy + e] = 0.0
    for i in range(factor[s, ACTIVE]):
        reals[mass + i] = max(reals[solved + i], 0.0)
        config = factor[s, CONFIG] + i * factor[s, WIDTH]
        for c in range(config, config + wholes[size + i]):
            reals[copy + wholes[config_link + c]] += reals[mass + i]


@numba.njit(**CALLED)
def _linear(graph, s, i, rho):
    """(u + w / rho) y_i + f(y_i) / rho."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    mean, share, own = at[MEAN], at[SHARE], at[OWN]
    link_arc, config_link = at[LINK_ARC], at[CONFIG_LINK]
    config = graph.factor[s, CONFIG] + i * graph.factor[s, WIDTH]
    value = reals[own + graph.factor[s, SLOT] + i]
    agreed = 0.0
    for c in range(config, config + wholes[at[CONFIG_SIZE] + graph.factor[s, SLOT] + i]):
        e = graph.factor[s, LINK] + wholes[config_link + c]
        value += reals[share + e]
        agreed += reals[mean + wholes[link_arc + e]]
    return agreed + value / rho


@numba.njit(**CALLED)
def _solve(graph, s, target, base, solved, ones):
    """Solve for two right sides at once, `target` less `base` and ones, by the Cholesky factor."""
    at, reals = graph.at, graph.real
    matrix = at[MATRIX]
    first, room = graph.factor[s, SQUARE], graph.factor[s, ROOM]
    active = graph.factor[s, ACTIVE]
    for i in range(active):
        row = first + i * room
        value, one = reals[target + i] - base, 1.0
        for j in range(i):
            value -= reals[matrix + row + j] * reals[solved + j]
            one -= reals[matrix + row + j] * reals[ones + j]
        reals[solved + i] = value / reals[matrix + row + i]
        reals[ones + i] = one / reals[matrix + row + i]
    for i in range(active - 1, -1, -1):
        value, one = reals[solved + i], reals[ones + i]
        for j in range(i + 1, active):
            value -= reals[matrix + first + j * room + i] * reals[solved + j]
            one -= reals[matrix + first + j * room + i] * reals[ones + j]
        reals[solved + i] = value / reals[matrix + first + i * room + i]
        reals[ones + i] = one / reals[matrix + first + i * room + i]


@numba.njit(**CALLED)
def _insert(graph, s, size, own, weight, combination):
    """Make FOUND active. If it is an affine combination of the active ones, give that, and False."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    factor, matrix, inputs, found = graph.factor, at[MATRIX], at[INPUT], at[FOUND]
    config_size, config_link = at[CONFIG_SIZE], at[CONFIG_LINK]
    active, width, config = factor[s, ACTIVE], factor[s, WIDTH], factor[s, CONFIG]
    slot, first, room = factor[s, SLOT], factor[s, SQUARE], factor[s, ROOM]
    row = at[ROWS] + 3 * room
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
            shared -= reals[matrix + first + i * room + j] * reals[combination + j]
        reals[combination + i] = shared / reals[matrix + first + i * room + i]
        left -= reals[combination + i] * reals[combination + i]
    if left < 1e-7 or active > factor[s, LINKS]:
        for i in range(active - 1, -1, -1):
            value = reals[combination + i]
            for j in range(i + 1, active):
                value -= reals[matrix + first + j * room + i] * reals[combination + j]
            reals[combination + i] = value / reals[matrix + first + i * room + i]
        return False
    if active == room:
        graph.sizes[FULL] = True
        return False
    for i in range(active):
        reals[matrix + first + active * room + i] = reals[combination + i]
        reals[matrix + first + i * room + active] = reals[row + i]
    reals[matrix + first + active * room + active] = np.sqrt(left)
    for c in range(size):
        wholes[config_link + config + active * width + c] = wholes[found + c]
    wholes[config_size + slot + active] = size
    reals[at[OWN] + slot + active] = own
    reals[at[MASS] + slot + active] = weight
    if factor[s, KIND] == TREE:
        wholes[at[CONFIG_NEW] + active] = True
    factor[s, ACTIVE] = active + 1
    return True


@numba.njit(**CALLED)
def _remove(graph, s, gone, target):
    """Take a configuration out of the active ones, and factorise again from there on."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    factor, matrix, own, mass = graph.factor, at[MATRIX], at[OWN], at[MASS]
    config_size, config_link = at[CONFIG_SIZE], at[CONFIG_LINK]
    config_new = at[CONFIG_NEW]
    active, width, config = factor[s, ACTIVE], factor[s, WIDTH], factor[s, CONFIG]
    slot, first, room = factor[s, SLOT], factor[s, SQUARE], factor[s, ROOM]
    for i in range(gone, active - 1):
        for c in range(wholes[config_size + slot + i + 1]):
            wholes[config_link + config + i * width + c] = wholes[config_link + config + (i + 1) * width + c]
        wholes[config_size + slot + i] = wholes[config_size + slot + i + 1]
        reals[own + slot + i], reals[mass + slot + i] = reals[own + slot + i + 1], reals[mass + slot + i + 1]
        if factor[s, KIND] == TREE:
            wholes[config_new + i] = wholes[config_new + i + 1]
        reals[target + i] = reals[target + i + 1]
        for j in range(i):  # above the diagonal, with row and column `gone` left out
            reals[matrix + first + j * room + i] = reals[matrix + first + (j + (j >= gone)) * room + i + 1]
    for i in range(gone, active - 1):
        row = first + i * room
        left = wholes[config_size + slot + i] + 1.0
        for j in range(i):
            value = reals[matrix + first + j * room + i]
            for c in range(j):
                value -= reals[matrix + row + c] * reals[matrix + first + j * room + c]
            reals[matrix + row + j] = value / reals[matrix + first + j * room + j]
            left -= reals[matrix + row + j] * reals[matrix + row + j]
        reals[matrix + row + i] = np.sqrt(max(left, 1e-12))
    factor[s, ACTIVE] = active - 1
