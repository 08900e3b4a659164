"""Dual decomposition by the subgradient method, for comparison with AD3.

Koo, Rush, Collins, Jaakkola and Sontag (2010), "Dual decomposition for parsing with non-projective head automata", on
the factors of `factors`. Each iteration takes the best configuration of every factor and moves the shares of the arcs
on which factors disagree,

    w_s = w_s - step / (1 + t) (y_s - mean of y over the factors that see the arc)

with t the number of iterations so far in which the sum of the maxima grew.

Differs from the paper: there are factors for every kind of part, which are made to agree with their mean, instead of
two that are made to agree with each other. The tree of every iteration is scored exactly and the best is kept, so the
search may stop before all factors agree.

An iteration solves each factor once, which is faster than an iteration of AD3, but the bound falls only as O(1 /
sqrt(t)).
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from arbora.decoders.dual.factors import build, restrict, start
from arbora.decoders.dual.graph import (
    BEST_HEAD,
    CONSTANT,
    COPY,
    FACTOR_LINK,
    FACTOR_LINKS,
    FOUND,
    INCUMBENT,
    INPUT,
    PAIR_SCORE,
    SCALE,
    SHARE,
    SIZE_FACTORS,
    SIZE_OPEN_ARCS,
    SIZE_PAIR_LINK,
    SIZE_PAIRS,
    allocate,
    steps,
)
from arbora.decoders.dual.iterations import average
from arbora.decoders.dual.normalisation import is_open
from arbora.decoders.dual.oracles import oracle
from arbora.decoders.dual.solutions import offer
from arbora.decoders.kernels.options import CALLED, FILLING
from arbora.decoders.kernels.threads import over_sentences
from arbora.decoders.mst import MST
from arbora.decoders.parts.batch import Parts
from arbora.decoders.settings import numeric
from arbora.decoders.trees import Decoder, Trees

STEP = 0.5
"""Default length of the first step, in units of the scores (`normalisation`)."""


@dataclass(frozen=True)
class Subgradient(Decoder):
    """Best tree under any kinds of parts by subgradient dual decomposition; `certified` if this is proved.

    Args:
        single_root: allow exactly one modifier of the root.
        step: length of the first step, in the unit of the scores: use larger values for larger scores. None for half of
            the typical difference between the two best heads of a word, which makes the result independent of the unit.
        max_iterations: number of iterations after which the best tree found so far is returned.
    """

    single_root: bool = True
    step: float | None = numeric(None, above=0)
    max_iterations: int = numeric(500, least=0)

    def decode(self, parts: Parts) -> Trees:
        MST(self.single_root)(parts)  # raises an error that names sentences without a tree
        size = len(parts.lengths)
        heads = parts.empty_trees()
        gap, iterations = np.empty(size), np.zeros(size, dtype=np.int64)
        certified = np.zeros(size, dtype=np.bool_)
        step = 0.0 if self.step is None else self.step
        layout = parts.layout

        def run(sentences: NDArray[np.int64]) -> None:
            graph = allocate(parts, sentences)
            found = (heads, gap, certified, iterations)
            _decode(sentences, graph, layout, self.single_root, step, self.max_iterations, found)

        over_sentences(run, 10 * steps(parts))
        score = parts.score(heads)
        return Trees(heads, score, score + gap, certified, {"iterations": iterations})


@numba.njit(**FILLING)
def _decode(sentences, graph, layout, single_root, step, max_iterations, found):
    """Fill for each sentence the heads, the gap between score and bound, whether it is 0, and the iterations."""
    at, floats, ints = graph.at, graph.floats, graph.ints
    best_head, count = at[BEST_HEAD], graph.sizes
    heads, gap, certified, iterations = found
    for b in sentences:
        start(graph, layout, b)
        restrict(graph, layout, b, single_root)
        build(graph, layout, b, single_root)
        first_step = step * floats[at[SCALE]] if step > 0 else STEP
        upper, before, increases = np.inf, np.inf, 0
        while True:
            total = _best_copies(graph, layout, b, single_root)
            increases += total > before
            before = total
            upper = min(upper, total)
            if not is_open(graph, upper) or iterations[b] >= max_iterations or count[SIZE_OPEN_ARCS] == 0:
                break
            iterations[b] += 1
            average(graph, first_step / (1 + increases))
        for m in range(1, layout.lengths[b] + 1):
            heads[b, m] = ints[best_head + m]
        certified[b] = not is_open(graph, upper)
        gap[b] = max(upper - floats[at[INCUMBENT]], 0.0) / floats[at[SCALE]]


@numba.njit(**CALLED)
def _best_copies(graph, layout, b, single_root):
    """Set the copies of each factor to its best configuration, and offer the tree; the sum of the maxima."""
    at, floats, ints = graph.at, graph.floats, graph.ints
    share, copy, inputs, found = at[SHARE], at[COPY], at[INPUT], at[FOUND]
    factor, pair_score = graph.factor, at[PAIR_SCORE]
    total = floats[at[CONSTANT]]
    for s in range(graph.sizes[SIZE_FACTORS]):
        for e in range(factor[s, FACTOR_LINKS]):
            floats[inputs + e] = floats[share + factor[s, FACTOR_LINK] + e]
            floats[copy + factor[s, FACTOR_LINK] + e] = 0.0
        value, size, _ = oracle(graph, s, single_root)
        total += value
        for c in range(size):
            floats[copy + factor[s, FACTOR_LINK] + ints[found + c]] = 1.0
        if s == 0:
            offer(graph, layout, b)
    e = graph.sizes[SIZE_PAIR_LINK]
    for i in range(graph.sizes[SIZE_PAIRS]):
        one, two = floats[share + e], floats[share + e + 1]
        both = one + two + floats[pair_score + i]
        value = max(0.0, max(one, two), both)
        total += value
        floats[copy + e] = value > 0 and value in (both, one)
        floats[copy + e + 1] = value > 0 and (value == both or (value == two and value != one))
        e += 2
    return total
