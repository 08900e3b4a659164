"""Branch and bound on AD3: the best tree under any parts, with proof.

Das, Martins and Smith (2012), "An exact dual decomposition algorithm for shallow semantic parsing with constraints",
gave AD3 this search. A node is a set of candidate arcs; AD3 bounds it and finds trees in it. Where bound and best tree
do not meet, the search goes on with the arc that is the least decided: once with it, so that its modifier has no other
head, once without. Nodes that cannot beat the best tree are left out.

Differs from the paper:
- Arcs are taken from the list of candidates, not priced out of it, so that the bounds of a node are exact.
- What a node proves about single arcs holds below it (`oracles.bound`), and multipliers carry over from node to node.

The search is exponential at worst. With K = 10 heads per word and scores as trained parsers give them, most sentences
take one node, and few take more than ten.
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
    """Best tree under any parts, crossing arcs allowed, with proof unless a limit is met: see `certified`.

    Where a sentence is certified, `arcs` and `integral` tell of the tree that is proved, however many nodes it took,
    and residuals are 0; where a limit was met, they tell of the last node that was looked at. There are no `shares`.

    Args:
        single_root: allow exactly one modifier of the root.
        max_nodes: most nodes per sentence.
        seconds: most time per sentence, checked in every iteration; None for no limit. With one, what is found depends
            on the machine.
        max_iterations: of AD3 at each node.
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
    """An array whose one entry is the time, for kernels to read: they have no clock of their own."""
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
