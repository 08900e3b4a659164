"""Branch and bound with AD3: the best tree under any kinds of parts, with a proof.

Das, Martins and Smith (2012), "An exact dual decomposition algorithm for shallow semantic parsing with constraints",
introduced this search for AD3. A node is a set of candidate arcs; AD3 computes its bound and finds trees in it. If the
bound does not meet the score of the best tree, the search continues with the least decided arc: once with it, so that
its modifier has no other head, and once without it. Nodes that cannot contain a better tree are skipped.

Differs from the paper:
- Arcs are removed from the list of candidates, not excluded by prices, so the bounds of a node are exact.
- Arcs that a node excludes stay excluded below it (`oracles.bound`), and nodes inherit multipliers.

The search is exponential in the worst case. With K = 10 heads per word and scores of trained parsers, most sentences
need one node, and few need more than ten.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread

import numpy as np
from numpy.typing import NDArray

from arbora.decoders.dual.ad3 import Limits, RelaxedTrees, Settings, decode
from arbora.decoders.parts.batch import Parts
from arbora.decoders.settings import numeric
from arbora.decoders.trees import Decoder

TICK = 0.005
"""Seconds between two readings of the clock."""


@dataclass(frozen=True)
class BranchAndBound(Decoder):
    """Best tree under any kinds of parts, with crossing arcs. It is proved (`certified`) unless a limit is reached.

    For certified sentences, `arcs` and `integral` describe the proved tree, and residuals are 0. If a limit was
    reached, they describe the last node of the search. There are no `shares`.

    Args:
        single_root: allow exactly one modifier of the root.
        max_nodes: maximum number of nodes per sentence.
        seconds: time limit per sentence, checked in every iteration; None for no limit. With a limit, results depend on
            the machine.
        max_iterations: maximum number of iterations of AD3 at each node.
        rho: as in AD3.
        adaptive: as in AD3.
        tolerance: as in AD3.
    """

    single_root: bool = True
    max_nodes: int = numeric(10_000, least=1)
    seconds: float | None = numeric(None, least=0)
    max_iterations: int = numeric(200, least=0)
    rho: float | None = numeric(None, above=0)
    adaptive: bool = True
    tolerance: float = numeric(1e-3, least=0)

    def decode(self, parts: Parts) -> RelaxedTrees:
        rho = 0.0 if self.rho is None else self.rho
        settings = Settings(self.single_root, rho, self.max_iterations, self.adaptive, self.tolerance, True)
        if self.seconds is None:
            return decode(parts, settings, Limits(self.max_nodes, np.inf))
        with _running_clock() as clock:
            return decode(parts, settings, Limits(self.max_nodes, self.seconds), clock)


@contextmanager
def _running_clock() -> Iterator[NDArray[np.float64]]:
    """Return an array with the current time as its only entry, for kernels, which have no clock."""
    clock = np.array([time.perf_counter()])
    done = Event()

    def tick() -> None:
        while not done.wait(TICK):
            clock[0] = time.perf_counter()

    thread = Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield clock
    finally:
        done.set()
        thread.join()
