"""Limits of the service."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Limits:
    """What a request may ask for, and how much is accepted at a time.

    Args:
        body: bytes of a request.
        words: of a request, times its decoders, times the trees that each is to find.
        sentence: words of a sentence.
        decoders: of a request.
        k_best: trees of each sentence.
        seconds: of the decoder BranchAndBound, for each sentence.
        iterations: of decoders that iterate, and restarts of HillClimbing.
        queue: words, counted as above, that are accepted and not yet parsed; beyond it, requests are refused with 503.
        connections: at a time.
        batch: positions of a padded batch.
        gather: milliseconds for which a request waits for others to be in its batch.
        transfer: seconds in which a client must send its request, and take each piece of the answer.
        shutdown: seconds in which requests that were accepted are finished when the service is stopped.
    """

    body: int = 8_000_000
    words: int = 100_000
    sentence: int = 1_000
    decoders: int = 9
    k_best: int = 20
    seconds: float = 1.0
    iterations: int = 2_000
    queue: int = 200_000
    connections: int = 1_000
    batch: int = 2_000
    gather: float = 3.0
    transfer: float = 60.0
    shutdown: float = 30.0

    def __post_init__(self) -> None:
        for name, value in ((field.name, getattr(self, field.name)) for field in fields(self)):
            if not (0 < value < math.inf or (name == "gather" and value == 0)):
                raise ValueError(f"--max-{name.replace('_', '-')} must be a positive number, got {value}")
        if self.queue < self.words:
            raise ValueError(f"--max-queue must be at least --max-words, {self.words}, got {self.queue}")
