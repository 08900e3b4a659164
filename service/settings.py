"""Limits of the service, and its models."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

from arbora.model.parser import Parser


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
                raise ValueError(f"limits: {name} must be a positive number, got {value}")
        if self.queue < self.words:
            raise ValueError(f"limits: a request of {self.words} words does not fit into a queue of {self.queue}")


class Models:
    """The models that requests can name.

    Args:
        parsers: by name; the first one is taken where a request names none.
    """

    def __init__(self, parsers: Mapping[str, Parser]) -> None:
        if not parsers:
            raise ValueError("a service needs at least one model")
        self.parsers = dict(parsers)
        self.default = next(iter(self.parsers))

    def find(self, name: str | None) -> tuple[str, Parser]:
        """A model and its name; where `name` is None, the default.

        Raises:
            KeyError: there is none of that name.
        """
        name = name or self.default
        if name not in self.parsers:
            raise KeyError(f"there is no model {name[:80]!r}, but {', '.join(self.parsers)}")
        return name, self.parsers[name]
