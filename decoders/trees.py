"""Trees, the result of decoding, and Decoder, what makes them out of Parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arbora.decoders.parts.batch import COMMON, Parts
from arbora.decoders.settings import check_settings


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
    """Searches the best tree of each sentence.

    Subclasses are frozen dataclasses of their settings, numbers among them with a range (`settings.numeric`).
    """

    single_root: bool
    projective: ClassVar[bool] = False
    """Whether it finds projective trees alone, so that candidates must have one."""
    takes: ClassVar[frozenset[str]] = frozenset(COMMON)
    """Types of parts and features that it searches by; none if it does not look at more than arcs."""

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def arcs_alone(self) -> bool:
        """Whether it searches by arcs and does not look at other parts."""
        return not self.takes

    def check(self, parts: Parts) -> None:
        """Refuse types that it does not search by: without them, what it finds would be the best of something else.

        Raises:
            ValueError: naming the types.
        """
        if others := [kind for kind in parts.kinds if kind not in self.takes]:
            raise ValueError(f"{type(self).__name__} does not search by {', '.join(others)}: HillClimbing does")

    @abstractmethod
    def __call__(self, parts: Parts) -> Trees:
        """Decode a batch.

        Raises:
            ValueError: when a sentence has no tree among its candidate arcs, naming the sentence and the reason; when
                there are parts of types that the decoder does not search by, unless it looks at arcs alone.
        """


def rerank(parts: Parts, trees: Sequence[Trees | ArrayLike]) -> Trees:
    """Of several trees of each sentence take the one that scores best with all parts and features, or the first.

    So a decoder that cannot search by some types can still be led by them, if it is run in several ways.

    Args:
        parts: what trees are scored by.
        trees: from whichever decoders, as `Trees` or as heads (B, N); a tree with arcs that are no candidates is taken
            only if all are such.

    Returns:
        Trees without a bound. The counter `choice` says which was taken.
    """
    if not trees:
        raise ValueError("there are no trees to choose from")
    several = [np.asarray(one.heads if isinstance(one, Trees) else one, dtype=np.int32) for one in trees]
    scores = np.stack([parts.score(heads) for heads in several])  # (T, B)
    choice = scores.argmax(0)
    heads = parts.empty_trees()
    for number, one in enumerate(several):
        chosen = choice == number
        heads[chosen] = one[chosen, : heads.shape[1]]
    return Trees(heads, scores.max(0), None, np.zeros(len(heads), dtype=np.bool_), {"choice": choice})
