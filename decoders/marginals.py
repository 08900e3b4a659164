"""Marginals of arcs over all trees, projective or not.

The sum over trees is that of the matrix-tree theorem (Koo et al., 2007), but no determinant is taken: words are
eliminated one after the other, as states of a Markov chain are (Grassmann, Taksar and Heyman, 1985), which subtracts
nothing and so holds at any distance between scores up to `WIDEST`, where determinants break at 25 (float64) or 10
(float32). Marginals are the gradient of the sum's logarithm. Time O(n^3) and memory O(n^2) per sentence.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from arbora.decoders.kernels.options import KERNEL
from arbora.decoders.kernels.threads import over_sentences

WIDEST = 300.0
"""Scores further than this below the best head of a word count as being this far: exp of twice as much is finite."""


def arc_marginals(arc: ArrayLike, lengths: ArrayLike, single_root: bool = True) -> NDArray[np.float64]:
    """Probability of each arc, where a tree has a probability proportional to exp(score).

    Args:
        arc: (B, N, N), `[b, m, h]`, finite for all pairs of words and for the root as head.
        lengths: (B,) words of each sentence.
        single_root: among trees with exactly one modifier of the root.

    Returns:
        (B, N, N), 0 on the diagonal, in row 0 and at padding.
    """
    scores = np.ascontiguousarray(arc, dtype=np.float32)
    n = np.asarray(lengths, dtype=np.int64)
    marginals = np.zeros(scores.shape)
    finite = np.ones(len(n), dtype=np.bool_)
    over_sentences(lambda bs: _marginals(bs, n, scores, single_root, marginals, finite), 2.0 * n**3)
    if not finite.all():
        raise ValueError(f"sentence {int(np.argmin(finite))}: scores must be finite to have marginals")
    return marginals


@numba.njit(**KERNEL)
def _marginals(sentences, lengths, arc, single_root, marginals, finite):
    """Fill marginals[b]; finite[b] is False where a score is not finite."""
    size = 1
    for b in sentences:
        size = max(size, lengths[b] + 1)
    weight = np.empty((size, size))  # [m, h], h = 0 for the root
    gradient = np.empty((size, size))
    d = np.empty(size)
    share = np.empty(size)
    carried = np.empty(size)
    for b in sentences:
        n = lengths[b]
        for m in range(1, n + 1):
            best = -np.inf
            for h in range(n + 1):
                if h != m:
                    best = max(best, arc[b, m, h])
                    if not np.isfinite(arc[b, m, h]):
                        finite[b] = False
            for h in range(n + 1):
                weight[m, h] = np.exp(max(np.float64(arc[b, m, h]) - best, -WIDEST)) if h != m else 0.0
                marginals[b, m, h] = weight[m, h]
        if not finite[b]:
            continue

        # d_v = sum_h w(h, v);   w(h, m) += w(h, v) w(v, m) / d_v,   for v = n..2, over heads and modifiers below v.
        # Where a single root is asked for, it is no head in d_v: w(0, v) is what it would take to hang v from the root.
        for v in range(n, 1, -1):
            d[v] = 0.0 if single_root else weight[v, 0]
            for h in range(1, v):
                d[v] += weight[v, h]
            for m in range(1, v):
                c = weight[m, v] / d[v]
                own = weight[m, m]
                for h in range(v):
                    weight[m, h] += weight[v, h] * c
                weight[m, m] = own

        # The same backwards: the gradient of log Z = sum_v log d_v + log w(0, 1).
        gradient[1, 0] = 1.0 / weight[1, 0]
        gradient[1, 1] = 0.0
        for v in range(2, n + 1):
            rest = 1.0
            for h in range(v):
                carried[h] = 0.0
            for m in range(1, v):
                total = 0.0
                share[m] = weight[m, v] / d[v]
                for h in range(v):
                    total += gradient[m, h] * weight[v, h]
                    carried[h] += gradient[m, h] * share[m]
                gradient[m, v] = total / d[v]
                rest -= total * share[m]
            for h in range(v):
                gradient[v, h] = carried[h] + (rest / d[v] if h > 0 or not single_root else 0.0)
            gradient[v, v] = 0.0
        for m in range(1, n + 1):
            for h in range(n + 1):
                marginals[b, m, h] = max(marginals[b, m, h] * gradient[m, h], 0.0)
