"""Limits of the service."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Limits:
    """What a request may ask for, and how much is accepted at a time.

    Args:
        body: bytes of a request.
        words: words of a request, each counted once per decoder and tree.
        sentence: words of a sentence.
        decoders: decoders of a request.
        k_best: trees per sentence and decoder.
        seconds: time limit of BranchAndBound for each sentence.
        iterations: iterations of a decoder, and restarts of HillClimbing.
        queue: words, counted as above, that are accepted but not yet parsed; if there are more, requests are refused
            with status 503.
        connections: number of connections at the same time.
        batch: size of a batch, in padded positions.
        gather: milliseconds for which a request waits for others to share its batch.
        transfer: seconds that a client has to send its request, and to read each piece of the answer.
        shutdown: seconds that accepted requests have to finish when the service is stopped.
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
