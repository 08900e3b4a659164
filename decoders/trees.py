"""Trees, the result of decoding, and Decoder, what makes them out of Parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from arbora.decoders.parts import Parts


@dataclass(frozen=True, eq=False)
class Trees:
    """One tree for each of B sentences.

    Args:
        heads: (B, N) `heads[b, m]` in 0..n is the head of word m; -1 at the root's place and beyond the sentence's end.
        score: (B,) exact score of each tree.
        bound: (B,) no tree of the sentence scores more, or None where the method has no such bound.
        certified: (B,) True where the tree is proved to be the best.
        counters: what the decoder counted on the way, (B,) each, by name.
    """

    heads: NDArray[np.int32]
    score: NDArray[np.float64]
    bound: NDArray[np.float64] | None
    certified: NDArray[np.bool_]
    counters: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)

    @classmethod
    def exact(cls, parts: Parts, heads: NDArray[np.int32]) -> Trees:
        """Best trees under arc scores: each is its own bound, unless other parts are scored too."""
        score = parts.score(heads)
        exact = not parts.kinds
        return cls(heads, score, bound=score if exact else None, certified=np.full(len(score), exact))


class Decoder(ABC):
    """Searches the best tree of each sentence. Subclasses are frozen dataclasses of their settings."""

    single_root: bool
    projective: ClassVar[bool] = False
    """Whether it finds projective trees alone, so that candidates must have one."""
    arcs_alone: ClassVar[bool] = False
    """Whether it searches by arcs and does not look at other parts."""

    @abstractmethod
    def __call__(self, parts: Parts) -> Trees:
        """Decode a batch.

        Raises:
            ValueError: when a sentence has no tree among its candidate arcs, naming the sentence and the reason.
        """
