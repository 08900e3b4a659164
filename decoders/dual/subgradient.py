"""Dual decomposition by the subgradient method: what AD3 is compared with.

Koo, Rush, Collins, Jaakkola and Sontag (2010), "Dual decomposition for parsing with non-projective head automata", on
the factors of `factors`. Each iteration takes the best configuration of every factor and moves the shares of the arcs
on which factors disagree,

    w_s = w_s - step / (1 + t) (y_s - mean of y over the factors that see the arc)

with t the number of iterations so far in which the sum of the maxima grew.

Differs from the paper: as many factors as there are types of parts, which are made to agree with their mean instead of
two that are made to agree with each other; the tree of every iteration is scored exactly, and the best is kept, so that
the search may stop before all factors agree.

One iteration looks once at each factor, which takes less than one of AD3; but the bound falls as O(1 / sqrt(t)).
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from arbora.decoders.dual import factors as fac
from arbora.decoders.dual import oracles
from arbora.decoders.dual.ad3 import average
from arbora.decoders.dual.factors import FACTORS, GAP, LINK, LINKS, OPEN_ARCS, PAIR_LINK, PAIRS, is_open
from arbora.decoders.kernels.options import KERNEL
from arbora.decoders.kernels.threads import over_sentences
from arbora.decoders.mst import MST
from arbora.decoders.parts.batch import Parts
from arbora.decoders.settings import numeric
from arbora.decoders.trees import Decoder, Trees


@dataclass(frozen=True)
class Subgradient(Decoder):
    """Best tree under any parts by subgradient dual decomposition; `certified` says where it is proved.

    Args:
        single_root: allow exactly one modifier of the root.
        step: length of the first step; larger steps for larger scores.
        max_iterations: after so many, the best tree found is taken.
    """

    single_root: bool = True
    step: float = numeric(1.0, above=0)
    max_iterations: int = numeric(500, least=0)

    def decode(self, parts: Parts) -> Trees:
        MST(self.single_root)(parts)  # says which sentence has no tree, and why
        size = len(parts.lengths)
        heads = parts.empty_trees()
        upper, iterations = np.empty(size), np.zeros(size, dtype=np.int64)
        layout = parts.layout

        def run(sentences: NDArray[np.int64]) -> None:
            graph = fac.allocate(parts, sentences)
            _decode(
                sentences,
                graph,
                layout,
                self.single_root,
                float(self.step),
                self.max_iterations,
                heads,
                upper,
                iterations,
            )

        over_sentences(run, 10 * fac.steps(parts))
        score = parts.score(heads)
        upper = np.maximum(upper, score)
        certified = upper - score <= GAP * (1 + np.abs(score))
        return Trees(heads, score, upper, certified, {"iterations": iterations})


@numba.njit(**KERNEL)
def _decode(sentences, graph, layout, single_root, step, max_iterations, heads, upper, iterations):
    """Fill heads[b], the bound upper[b], and the number of iterations."""
    at, reals, wholes = graph.at, graph.real, graph.whole
    share, copy, inputs, incumbent = at[fac.SHARE], at[fac.COPY], at[fac.INPUT], at[fac.INCUMBENT]
    found, best_head, pair_score = at[fac.FOUND], at[fac.BEST_HEAD], at[fac.PAIR_SCORE]
    count, factor = graph.sizes, graph.factor
    figures = np.zeros(3)
    for b in sentences:
        fac.start(graph, layout, b)
        fac.restrict(graph, layout, b, single_root)
        fac.build(graph, layout, b, single_root)
        upper[b], before, increases = np.inf, np.inf, 0
        while True:
            total = reals[at[fac.CONSTANT]]
            for s in range(count[FACTORS]):
                for e in range(factor[s, LINKS]):
                    reals[inputs + e] = reals[share + factor[s, LINK] + e]
                    reals[copy + factor[s, LINK] + e] = 0.0
                value, size, _ = oracles.oracle(graph, s, single_root)
                total += value
                for c in range(size):
                    reals[copy + factor[s, LINK] + wholes[found + c]] = 1.0
                if s == 0:
                    fac.offer(graph, layout, b)
            e = count[PAIR_LINK]
            for i in range(count[PAIRS]):
                one, two = reals[share + e], reals[share + e + 1]
                both = one + two + reals[pair_score + i]
                value = max(0.0, max(one, two), both)
                total += value
                reals[copy + e] = value > 0 and value in (both, one)
                reals[copy + e + 1] = value > 0 and (value == both or (value == two and value != one))
                e += 2
            increases += total > before
            before = total
            upper[b] = min(upper[b], total)
            if not is_open(upper[b], reals[incumbent]) or iterations[b] >= max_iterations or count[OPEN_ARCS] == 0:
                break
            iterations[b] += 1
            average(graph, step / (1 + increases), figures)
        for m in range(1, layout.lengths[b] + 1):
            heads[b, m] = wholes[best_head + m]
