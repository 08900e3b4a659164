"""Decoder, the interface of all decoders, and Trees, what a decoder returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arbora.decoders.parts.batch import Parts
from arbora.decoders.parts.kinds import COMMON
from arbora.decoders.settings import check_settings


@dataclass(frozen=True, eq=False, repr=False)
class Trees:
    """One tree for each of B sentences.

    Args:
        heads: (B, N) `heads[b, m]` in 0..n is the head of word m; -1 at the root's place and beyond the sentence's end.
        score: (B,) exact score of each tree.
        bound: (B,) no tree of the sentence scores more, or None where the method has no such bound.
        certified: (B,) True where the tree is proved to be the best.
        counters: what the decoder counted on the way, (B,) each, by name.
        failures: reason for each sentence that has no tree, by its number; only a decoder told to skip these has any.
    """

    heads: NDArray[np.int32]
    score: NDArray[np.float64]
    bound: NDArray[np.float64] | None
    certified: NDArray[np.bool_]
    counters: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    failures: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def exact(cls, parts: Parts, heads: NDArray[np.int32]) -> Trees:
        """Best trees under arc scores: each is its own bound, unless other parts are scored too."""
        score = parts.score(heads)
        exact = not parts.kinds
        return cls(heads, score, bound=score if exact else None, certified=np.full(len(score), exact))

    def __repr__(self) -> str:
        words = int((self.heads >= 0).sum())
        counts = [f"{len(self.score)} sentences", f"{words} words", f"{int(self.certified.sum())} certified"]
        counts += [f"{len(self.failures)} without a tree"] if self.failures else []
        return f"{type(self).__name__}({', '.join(counts)})"

    def among(self, parts: Parts, rows: NDArray[np.int64]) -> Trees:
        """Place the trees in a larger batch, the other sentences of which have no tree.

        Those have heads of -1, a score and a bound of -inf, no certificate, and counters of 0.

        Args:
            parts: of the larger batch.
            rows: (b,) place of each tree in it.
        """
        return replace(self, **self._placed(parts, rows))

    def _placed(self, parts: Parts, rows: NDArray[np.int64]) -> dict[str, Any]:
        """Fields of `among`; subclasses add their own."""
        heads = parts.empty_trees()
        heads[rows, : self.heads.shape[1]] = self.heads
        size = len(heads)
        return {
            "heads": heads,
            "score": scatter(self.score, rows, size, -np.inf),
            "bound": None if self.bound is None else scatter(self.bound, rows, size, -np.inf),
            "certified": scatter(self.certified, rows, size, False),
            "counters": {name: scatter(counts, rows, size, 0) for name, counts in self.counters.items()},
        }


def scatter(values: NDArray[Any], rows: NDArray[np.int64], size: int, fill: float | bool) -> NDArray[Any]:
    """An array of `size` entries with the values at some of them and `fill` at the others."""
    all_values = np.full(size, fill, dtype=values.dtype)
    all_values[rows] = values
    return all_values


class NoTreeError(ValueError):
    """Some sentences of a batch have no tree that the decoder may return.

    Args:
        reasons: why there is none, by the number of the sentence in the batch.
    """

    def __init__(self, reasons: Mapping[int, str]) -> None:
        super().__init__(reasons)
        self.reasons = dict(sorted(reasons.items()))

    def __str__(self) -> str:
        b, reason = next(iter(self.reasons.items()))
        others = len(self.reasons) - 1
        return f"sentence {b}: {reason}" + (f" ({others} more of the batch without a tree)" if others else "")


class Decoder(ABC):
    """Searches for the best tree of each sentence.

    Subclasses implement `decode`. They are frozen dataclasses of their settings, numbers among them with a range
    (`settings.numeric`).
    """

    single_root: bool
    projective: ClassVar[bool] = False
    """Whether it finds only projective trees, so that the candidates must have one."""
    takes: ClassVar[frozenset[str]] = frozenset(COMMON)
    """Kinds of parts that it searches by; none if it looks only at arcs."""

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def arcs_alone(self) -> bool:
        """Whether it searches by arcs and does not look at other parts."""
        return not self.takes

    def ranking(self, parts: Parts) -> tuple[Decoder, Parts]:
        """The decoder that finds its trees as those that score most, and the parts by which they do."""
        return self, parts.only() if self.arcs_alone and parts.kinds else parts

    def check(self, parts: Parts) -> None:
        """Refuse kinds that it does not search by: its tree would be the best one of another problem.

        Decoders that look only at arcs ignore the other kinds instead.

        Raises:
            ValueError: naming the kinds.
        """
        if self.takes and (others := [kind for kind in parts.kinds if kind not in self.takes]):
            raise ValueError(f"{type(self).__name__} does not search by {', '.join(others)}: HillClimbing does")

    def __call__(self, parts: Parts, on_error: Literal["raise", "skip"] = "raise") -> Trees:
        """Decode a batch.

        No part that scores -inf is in a tree if there is a tree without. Where the decoder proves that there is none,
        the sentence counts as one without a tree; where it only finds none, its tree scores -inf and has no
        certificate. Decoders that look only at arcs do not see forbidden parts, so that their trees may have some.

        Args:
            parts: candidate arcs and higher-order parts.
            on_error: what to do about sentences without a tree. With `skip`, they get heads of -1, a score of -inf and
                no certificate, `Trees.failures` has the reasons, and the other sentences are decoded as usual.

        Raises:
            NoTreeError: when sentences have no tree among their candidate arcs, or none without forbidden parts, unless
                they are skipped.
            ValueError: when there are parts of kinds that the decoder does not search by, unless it looks only at arcs.
        """
        if on_error not in ("raise", "skip"):
            raise ValueError(f"on_error must be raise or skip, got {on_error}")
        self.check(parts)
        if on_error == "raise":
            return self._decode(parts)
        rows = np.arange(len(parts.lengths))
        failures: dict[int, str] = {}
        while True:
            try:
                trees = self._decode(parts.subset(rows) if failures else parts)
                break
            except NoTreeError as error:
                failures |= {int(rows[b]): reason for b, reason in error.reasons.items()}
                rows = np.delete(rows, list(error.reasons))
        return replace(trees.among(parts, rows), failures=dict(sorted(failures.items()))) if failures else trees

    def _decode(self, parts: Parts) -> Trees:
        """Decode a batch in which parts may be forbidden: they get a penalty that outweighs all other scores."""
        if not parts.forbidden or not self.takes:
            return self.decode(parts)
        trees = self.decode(parts.penalised())
        forbidden = parts.score(trees.heads) == -np.inf
        if proved := np.flatnonzero(forbidden & trees.certified).tolist():
            raise NoTreeError(dict.fromkeys(proved, "no tree without forbidden parts"))
        score = np.where(forbidden, -np.inf, trees.score)
        return replace(trees, score=score, certified=trees.certified & ~forbidden)

    @abstractmethod
    def decode(self, parts: Parts) -> Trees:
        """Decode a batch of checked parts with finite scores; users call the decoder itself.

        Raises:
            NoTreeError: when sentences have no tree, naming all of them.
        """


def rerank(parts: Parts, trees: Sequence[Trees | ArrayLike]) -> Trees:
    """Of several trees of each sentence take the one that scores best with parts of all kinds, or the first.

    So a decoder that cannot search by some kinds can still be led by them, if it is run in several ways.

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
