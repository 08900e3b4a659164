"""The quadratic step of AD3: the point of a factor's polytope nearest to what it is drawn to.

The active-set method of Martins et al. (2012), arXiv:1212.6550, and for pairs a closed form. Of the active
configurations y_i of a factor, MATRIX has the Cholesky factor of y_i . y_j + 1 in and below the diagonal, and
y_i . y_j + 1 itself above. It is regular just when the configurations are affinely independent.
"""

from __future__ import annotations

import numba
import numpy as np

from arbora.decoders.dual.graph import (
    CONFIG_LINK,
    CONFIG_NEW,
    CONFIG_SIZE,
    COPY,
    FACTOR_ACTIVE,
    FACTOR_CONFIG,
    FACTOR_KIND,
    FACTOR_LINK,
    FACTOR_LINKS,
    FACTOR_ROOM,
    FACTOR_SLOT,
    FACTOR_SQUARE,
    FACTOR_WIDTH,
    FOUND,
    INPUT,
    KIND_TREE,
    LINK_ARC,
    MASS,
    MATRIX,
    MEAN,
    OWN,
    PAIR_SCORE,
    ROWS,
    SHARE,
    SIZE_FULL,
    SIZE_PAIR_LINK,
    SIZE_PAIRS,
)
from arbora.decoders.dual.oracles import oracle
from arbora.decoders.kernels.options import CALLED, HELPER

INNER_STEPS = 10
"""Most oracle calls in one quadratic step."""


@numba.njit(**CALLED)
def project_pairs(graph, rho):
    """Quadratic step of the pairs, in closed form."""
    at, floats, ints = graph.at, graph.floats, graph.ints
    mean, copy, share = at[MEAN], at[COPY], at[SHARE]
    pair_score, link_arc = at[PAIR_SCORE], at[LINK_ARC]
    e = graph.sizes[SIZE_PAIR_LINK]
    for i in range(graph.sizes[SIZE_PAIRS]):
        floats[copy + e], floats[copy + e + 1] = project_pair(
            floats[mean + ints[link_arc + e]] + floats[share + e] / rho,
            floats[mean + ints[link_arc + e + 1]] + floats[share + e + 1] / rho,
            floats[pair_score + i] / rho,
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


@numba.njit(**CALLED)
def project(graph, s, rho, single_root):
    """Set the copies of a factor to argmax over conv(Y) of f(z) + w z - rho/2 |z - u|^2."""
    at, floats, ints = graph.at, graph.floats, graph.ints
    factor, link_arc = graph.factor, at[LINK_ARC]
    mean, copy, share, inputs = at[MEAN], at[COPY], at[SHARE], at[INPUT]
    mass, rows = at[MASS], at[ROWS]
    link, links, slot, room = (
        factor[s, FACTOR_LINK],
        factor[s, FACTOR_LINKS],
        factor[s, FACTOR_SLOT],
        factor[s, FACTOR_ROOM],
    )
    target, solved, ones = rows, rows + room, rows + 2 * room
    for i in range(factor[s, FACTOR_ACTIVE]):
        floats[target + i] = _linear(graph, s, i, rho)

    # Each pass removes a configuration or calls the oracle, whose calls are counted and each add at most one.
    calls = 0
    while True:
        active = factor[s, FACTOR_ACTIVE]
        tau = -np.inf
        if active > 0:
            tau, step, blocking = _weigh(graph, s, target, solved, ones)
            if blocking >= 0:
                for i in range(active):
                    floats[mass + slot + i] += step * (floats[solved + i] - floats[mass + slot + i])
                _remove(graph, s, blocking, target)
                continue
            _mix(graph, s, solved)
            if calls >= INNER_STEPS:
                return
        calls += 1
        for e in range(links):
            a = ints[link_arc + link + e]
            floats[inputs + e] = floats[share + link + e] + (
                rho * (floats[mean + a] - floats[copy + link + e]) if active > 0 else 0.0
            )
        value, size, own = oracle(graph, s, single_root)
        if value <= rho * tau + 1e-9 * (1 + abs(rho * tau)):
            return
        weight = 1.0 if active == 0 else 0.0
        inserted = _insert(graph, s, size, own, weight, solved)
        if not inserted:
            # An affine combination of the active ones takes over as much weight as it can: z stays, f grows.
            least, blocking = np.inf, np.int64(-1)
            for i in range(0 if graph.sizes[SIZE_FULL] else active):
                if floats[solved + i] > 1e-9 and floats[mass + slot + i] < least * floats[solved + i]:
                    least, blocking = floats[mass + slot + i] / floats[solved + i], np.int64(i)
            if blocking < 0:
                return
            for i in range(active):
                floats[mass + slot + i] -= least * floats[solved + i]
            _remove(graph, s, blocking, target)
            inserted = _insert(graph, s, size, own, max(least, 1e-300), solved)
        if inserted:
            floats[target + factor[s, FACTOR_ACTIVE] - 1] = _linear(graph, s, factor[s, FACTOR_ACTIVE] - 1, rho)


@numba.njit(**CALLED)
def _weigh(graph, s, target, solved, ones):
    """Solve y_i . z + tau = target_i for all active i, with weights that add up to 1, written to `solved`.

    Returns tau; how far the present weights can be moved there until one of them is 0, and which, -1 if none is.
    """
    floats, active = graph.floats, graph.factor[s, FACTOR_ACTIVE]
    present = graph.at[MASS] + graph.factor[s, FACTOR_SLOT]
    base = floats[target]  # the weights depend on the differences of targets only, and those may be small next to them
    for i in range(1, active):
        base = max(base, floats[target + i])
    _solve(graph, s, target, base, solved, ones)
    total, of_ones = 0.0, 0.0
    for i in range(active):
        total += floats[solved + i]
        of_ones += floats[ones + i]
    tau = (total - 1) / of_ones
    step, blocking = 1.0, np.int64(-1)
    for i in range(active):
        floats[solved + i] -= tau * floats[ones + i]
        if active > 1 and floats[solved + i] < -1e-12:
            weight = max(floats[present + i], 0.0)
            first = weight / (weight - floats[solved + i])
            if first < step:
                step, blocking = first, np.int64(i)
    if active == 1:
        floats[solved] = 1.0
    return base + tau + 1, step, blocking


@numba.njit(**CALLED)
def _mix(graph, s, solved):
    """Take the weights in `solved`, and set the copies of the factor to the mean of its configurations."""
    floats, ints, factor = graph.floats, graph.ints, graph.factor
    copy, config_link = graph.at[COPY] + factor[s, FACTOR_LINK], graph.at[CONFIG_LINK]
    mass, size = graph.at[MASS] + factor[s, FACTOR_SLOT], graph.at[CONFIG_SIZE] + factor[s, FACTOR_SLOT]
    for e in range(factor[s, FACTOR_LINKS]):
        floats[copy + e] = 0.0
    for i in range(factor[s, FACTOR_ACTIVE]):
        floats[mass + i] = max(floats[solved + i], 0.0)
        config = factor[s, FACTOR_CONFIG] + i * factor[s, FACTOR_WIDTH]
        for c in range(config, config + ints[size + i]):
            floats[copy + ints[config_link + c]] += floats[mass + i]


@numba.njit(**CALLED)
def _linear(graph, s, i, rho):
    """(u + w / rho) y_i + f(y_i) / rho."""
    at, floats, ints = graph.at, graph.floats, graph.ints
    mean, share, own = at[MEAN], at[SHARE], at[OWN]
    link_arc, config_link = at[LINK_ARC], at[CONFIG_LINK]
    config = graph.factor[s, FACTOR_CONFIG] + i * graph.factor[s, FACTOR_WIDTH]
    value = floats[own + graph.factor[s, FACTOR_SLOT] + i]
    agreed = 0.0
    for c in range(config, config + ints[at[CONFIG_SIZE] + graph.factor[s, FACTOR_SLOT] + i]):
        e = graph.factor[s, FACTOR_LINK] + ints[config_link + c]
        value += floats[share + e]
        agreed += floats[mean + ints[link_arc + e]]
    return agreed + value / rho


@numba.njit(**CALLED)
def _solve(graph, s, target, base, solved, ones):
    """Solve for two right sides at once, `target` less `base` and ones, by the Cholesky factor."""
    at, floats = graph.at, graph.floats
    matrix = at[MATRIX]
    first, room = graph.factor[s, FACTOR_SQUARE], graph.factor[s, FACTOR_ROOM]
    active = graph.factor[s, FACTOR_ACTIVE]
    for i in range(active):
        row = first + i * room
        value, one = floats[target + i] - base, 1.0
        for j in range(i):
            value -= floats[matrix + row + j] * floats[solved + j]
            one -= floats[matrix + row + j] * floats[ones + j]
        floats[solved + i] = value / floats[matrix + row + i]
        floats[ones + i] = one / floats[matrix + row + i]
    for i in range(active - 1, -1, -1):
        value, one = floats[solved + i], floats[ones + i]
        for j in range(i + 1, active):
            value -= floats[matrix + first + j * room + i] * floats[solved + j]
            one -= floats[matrix + first + j * room + i] * floats[ones + j]
        floats[solved + i] = value / floats[matrix + first + i * room + i]
        floats[ones + i] = one / floats[matrix + first + i * room + i]


@numba.njit(**CALLED)
def _insert(graph, s, size, own, weight, combination):
    """Make FOUND active. If it is an affine combination of the active ones, give that, and False."""
    at, floats, ints = graph.at, graph.floats, graph.ints
    factor, matrix, inputs, found = graph.factor, at[MATRIX], at[INPUT], at[FOUND]
    config_size, config_link = at[CONFIG_SIZE], at[CONFIG_LINK]
    active, width, config = factor[s, FACTOR_ACTIVE], factor[s, FACTOR_WIDTH], factor[s, FACTOR_CONFIG]
    slot, first, room = factor[s, FACTOR_SLOT], factor[s, FACTOR_SQUARE], factor[s, FACTOR_ROOM]
    row = at[ROWS] + 3 * room
    # Its links are marked in INPUT, which nobody needs any more.
    for e in range(factor[s, FACTOR_LINKS]):
        floats[inputs + e] = 0.0
    for c in range(size):
        floats[inputs + ints[found + c]] = 1.0
    left = size + 1.0
    for i in range(active):
        shared = 1.0
        for c in range(config + i * width, config + i * width + ints[config_size + slot + i]):
            shared += floats[inputs + ints[config_link + c]]
        floats[row + i] = shared
        for j in range(i):
            shared -= floats[matrix + first + i * room + j] * floats[combination + j]
        floats[combination + i] = shared / floats[matrix + first + i * room + i]
        left -= floats[combination + i] * floats[combination + i]
    if left < 1e-7 or active > factor[s, FACTOR_LINKS]:
        for i in range(active - 1, -1, -1):
            value = floats[combination + i]
            for j in range(i + 1, active):
                value -= floats[matrix + first + j * room + i] * floats[combination + j]
            floats[combination + i] = value / floats[matrix + first + i * room + i]
        return False
    if active == room:
        graph.sizes[SIZE_FULL] = True
        return False
    for i in range(active):
        floats[matrix + first + active * room + i] = floats[combination + i]
        floats[matrix + first + i * room + active] = floats[row + i]
    floats[matrix + first + active * room + active] = np.sqrt(left)
    for c in range(size):
        ints[config_link + config + active * width + c] = ints[found + c]
    ints[config_size + slot + active] = size
    floats[at[OWN] + slot + active] = own
    floats[at[MASS] + slot + active] = weight
    if factor[s, FACTOR_KIND] == KIND_TREE:
        ints[at[CONFIG_NEW] + active] = True
    factor[s, FACTOR_ACTIVE] = active + 1
    return True


@numba.njit(**CALLED)
def _remove(graph, s, gone, target):
    """Take a configuration out of the active ones, and factorise again from there on."""
    at, floats, ints = graph.at, graph.floats, graph.ints
    factor, matrix, own, mass = graph.factor, at[MATRIX], at[OWN], at[MASS]
    config_size, config_link = at[CONFIG_SIZE], at[CONFIG_LINK]
    config_new = at[CONFIG_NEW]
    active, width, config = factor[s, FACTOR_ACTIVE], factor[s, FACTOR_WIDTH], factor[s, FACTOR_CONFIG]
    slot, first, room = factor[s, FACTOR_SLOT], factor[s, FACTOR_SQUARE], factor[s, FACTOR_ROOM]
    for i in range(gone, active - 1):
        for c in range(ints[config_size + slot + i + 1]):
            ints[config_link + config + i * width + c] = ints[config_link + config + (i + 1) * width + c]
        ints[config_size + slot + i] = ints[config_size + slot + i + 1]
        floats[own + slot + i], floats[mass + slot + i] = floats[own + slot + i + 1], floats[mass + slot + i + 1]
        if factor[s, FACTOR_KIND] == KIND_TREE:
            ints[config_new + i] = ints[config_new + i + 1]
        floats[target + i] = floats[target + i + 1]
        for j in range(i):  # above the diagonal, with row and column `gone` left out
            floats[matrix + first + j * room + i] = floats[matrix + first + (j + (j >= gone)) * room + i + 1]
    for i in range(gone, active - 1):
        row = first + i * room
        left = ints[config_size + slot + i] + 1.0
        for j in range(i):
            value = floats[matrix + first + j * room + i]
            for c in range(j):
                value -= floats[matrix + row + c] * floats[matrix + first + j * room + c]
            floats[matrix + row + j] = value / floats[matrix + first + j * room + j]
            left -= floats[matrix + row + j] * floats[matrix + row + j]
        floats[matrix + row + i] = np.sqrt(max(left, 1e-12))
    factor[s, FACTOR_ACTIVE] = active - 1
