"""Maximum and log-sum over derivations: what the dynamic programs of trees compute, in one of two semirings.

A rule X <- Y, Z has the value Y . Z, where . adds scores, and an item X is the + of its rules: the largest, or the
logarithm of the sum of their exponentials. In place of outside scores the way down computes marginals of items,

    max:  M(Y) = max M(X) + (Y . Z - X)          log:  p(Y) = sum p(X) exp(Y . Z - X)

M is the score of the best derivation with an item, p its probability. So the items of the best derivation have exactly
its score, and probabilities are sums of positive terms. An item that cannot be built is -inf; its marginal is -inf or
0.
"""

import numba
import numpy as np

from arbora.decoders.kernels.options import HELPER

ALONE = None
"""In place of False for `log` where trees are searched: a kernel is then compiled without the branches for sums. Not
for marginals: numba 0.68 then leaves out filling arrays with `0.0 if log else -inf`."""

REDUCTION = {**HELPER, "fastmath": {"nnan", "nsz"}}
"""Lets a maximum be taken in SIMD: no scores are NaN here, and -inf stays legal."""


@numba.njit(**HELPER)
def plus(x, y, log):
    """The larger, or the logarithm of the sum of both."""
    above, below = (x, y) if x > y else (y, x)
    if log and below > -np.inf:
        above += np.log1p(np.exp(below - above))
    return above


@numba.njit(**HELPER)
def share(total, value, whole, log):
    """Return the share of an item's marginal that the tails of a rule get. `whole` must be finite."""
    return total * np.exp(value - whole) if log else total + (value - whole)


@numba.njit(**HELPER)
def gather(x, y, log):
    """Marginal of an item by one more rule."""
    if log:
        return x + y
    return x if x > y else y


@numba.njit(**REDUCTION)
def best_sum(x, i, y, j, count):
    """The largest x[i + t] + y[j + t] for t below count."""
    best = -np.inf
    i, j = np.uint64(i), np.uint64(j)
    for t in range(np.uint64(count)):
        value = x[i + t] + y[j + t]
        best = value if value > best else best
    return best


@numba.njit(**HELPER)
def total_sum(x, i, y, j, count, log):
    """The largest x[i + t] + y[j + t] for t below count, or their log-sum."""
    best = best_sum(x, i, y, j, count) if count > 0 else -np.inf
    if log and best > -np.inf:
        total = 0.0
        for t in range(count):
            total += np.exp(x[i + t] + y[j + t] - best)
        best += np.log(total)
    return best


@numba.njit(**HELPER)
def offer(value, x, i, y, j, count, log):
    """y[j + t] = y[j + t] + value . x[i + t], for t below count."""
    if log:
        for t in range(count):
            if x[i + t] > -np.inf:
                y[j + t] = plus(y[j + t], value + x[i + t], True)
    else:
        i, j = np.uint64(i), np.uint64(j)
        for t in range(np.uint64(count)):
            new = value + x[i + t]
            y[j + t] = new if new > y[j + t] else y[j + t]


@numba.njit(**HELPER)
def share_splits(total, whole, x, i, x_total, y, j, y_total, count, log):
    """Marginals of the tails of +_t x[i + t] . y[j + t], which is `whole` and finite."""
    if log:
        for t in range(count):
            part = total * np.exp(x[i + t] + y[j + t] - whole)
            x_total[i + t] += part
            y_total[j + t] += part
    else:
        i, j = np.uint64(i), np.uint64(j)
        for t in range(np.uint64(count)):
            part = total + (x[i + t] + y[j + t] - whole)
            x_total[i + t] = part if part > x_total[i + t] else x_total[i + t]
            y_total[j + t] = part if part > y_total[j + t] else y_total[j + t]


@numba.njit(**HELPER)
def share_row(value, x, x_total, i, j, count, log):
    """Marginals of the tails of x[j + t] + value . x[i + t], for t below count: those of x[i + t], and of value."""
    best = 0.0 if log else -np.inf
    if log:
        for t in range(count):
            if x_total[j + t] > 0 and x[i + t] > -np.inf:
                part = x_total[j + t] * np.exp(value + x[i + t] - x[j + t])
                x_total[i + t] += part
                best += part
    else:
        for t in range(count):
            whole = x[j + t] if x[j + t] > -np.inf else 0.0  # -inf - -inf is NaN
            part = x_total[j + t] + (value + x[i + t] - whole)
            x_total[i + t] = part if part > x_total[i + t] else x_total[i + t]
            best = part if part > best else best
    return best
