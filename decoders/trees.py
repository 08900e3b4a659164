"""Decoder, the interface of all decoders, and Trees, their result."""

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
        heads: (B, N) `heads[b, m]` in 0..n is the head of word m; -1 for the root and beyond the sentence's end.
        score: (B,) exact score of each tree.
        bound: (B,) upper bound on the score of any tree of the sentence, or None if the method has no bound.
        certified: (B,) True if the tree is proved to be the best.
        counters: counters of the search, (B,) each, by name.
        failures: reason for each sentence without a tree, by its number; only with `on_error="skip"`.
    """

    heads: NDArray[np.int32]
    score: NDArray[np.float64]
    bound: NDArray[np.float64] | None
    certified: NDArray[np.bool_]
    counters: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    failures: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def exact(cls, parts: Parts, heads: NDArray[np.int32]) -> Trees:
        """Return best trees under arc scores. Each score is also a bound, unless other parts are scored, too."""
        score = parts.score(heads)
        exact = not parts.kinds
        return cls(heads, score, bound=score if exact else None, certified=np.full(len(score), exact))

    def __repr__(self) -> str:
        words = int((self.heads >= 0).sum())
        counts = [f"{len(self.score)} sentences", f"{words} words", f"{int(self.certified.sum())} certified"]
        counts += [f"{len(self.failures)} without a tree"] if self.failures else []
        return f"{type(self).__name__}({', '.join(counts)})"

    def among(self, parts: Parts, rows: NDArray[np.int64]) -> Trees:
        """Place the trees in a larger batch whose other sentences have no tree.

        These get heads of -1, a score and a bound of -inf, no certificate, and counters of 0.

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
    """Return an array of `size` entries with values at some places and `fill` at the others."""
    all_values = np.full(size, fill, dtype=values.dtype)
    all_values[rows] = values
    return all_values


class NoTreeError(ValueError):
    """Some sentences of a batch have no tree that the decoder may return.

    Args:
        reasons: reason for each, by the number of the sentence in the batch.
    """

    def __init__(self, reasons: Mapping[int, str]) -> None:
        super().__init__(reasons)
        self.reasons = dict(sorted(reasons.items()))

    def __str__(self) -> str:
        b, reason = next(iter(self.reasons.items()))
        others = len(self.reasons) - 1
        return f"sentence {b}: {reason}" + (f" ({others} more in the batch)" if others else "")


class Decoder(ABC):
    """Searches for the best tree of each sentence.

    Subclasses implement `decode`. They are frozen dataclasses of their settings; numeric settings have a range
    (`settings.numeric`).
    """

    single_root: bool
    projective: ClassVar[bool] = False
    """True if it finds only projective trees, so the candidates must contain one."""
    takes: ClassVar[frozenset[str]] = frozenset(COMMON)
    """Kinds of parts that it searches by; empty if it uses only arcs."""

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def first_order_only(self) -> bool:
        """True if it searches by arcs only and ignores other parts."""
        return not self.takes

    def ranking(self, parts: Parts) -> tuple[Decoder, Parts]:
        """Return a decoder and parts for which its trees are the trees with the best score."""
        return self, parts.only() if self.first_order_only and parts.kinds else parts

    def check(self, parts: Parts) -> None:
        """Raise an error for kinds that it does not search by, since its tree would be the best of another problem.

        Decoders that look only at arcs ignore the other kinds instead.

        Raises:
            ValueError: naming the kinds.
        """
        if self.takes and (others := [kind for kind in parts.kinds if kind not in self.takes]):
            raise ValueError(f"{type(self).__name__} does not search by {', '.join(others)}: HillClimbing does")

    def __call__(self, parts: Parts, on_error: Literal["raise", "skip"] = "raise") -> Trees:
        """Decode a batch.

        A tree has forbidden parts (with a score of -inf) only if the decoder finds no other tree. If it proves that
        there is no other, the sentence counts as a sentence without a tree; otherwise, the tree scores -inf and has no
        certificate. Decoders that use only arcs ignore forbidden parts, so their trees may contain some.

        Args:
            parts: candidate arcs and higher-order parts.
            on_error: how to handle sentences without a tree. With `skip`, they get heads of -1, a score of -inf and no
                certificate, `Trees.failures` has the reasons, and the other sentences are decoded as usual.

        Raises:
            NoTreeError: sentences have no tree among their candidate arcs, or none without forbidden parts, and are not
                skipped.
            ValueError: there are parts of kinds that the decoder does not search by, unless it uses only arcs.
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
        """Decode a batch with forbidden parts, which get a penalty that outweighs all other scores."""
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
            NoTreeError: some sentences have no tree; the error names all of them.
        """


def rerank(parts: Parts, trees: Sequence[Trees | ArrayLike]) -> Trees:
    """Choose among several trees of each sentence the one with the best score by parts of all kinds; of equals, the
    first.

    This makes use of kinds by which a decoder cannot search: run it with several settings, and choose among its trees.

    Args:
        parts: scores of the trees.
        trees: from any decoders, as `Trees` or as heads (B, N); a tree with arcs that are not candidates is chosen only
            if there is no other.

    Returns:
        Trees without a bound. The counter `choice` has the index of the chosen tree.
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


def is_projective(heads: NDArray[np.integer]) -> NDArray[np.bool_]:
    """(B,) whether no two arcs of a tree (B, N) cross, arcs from the root included; -1 stands for no head."""
    position = np.arange(heads.shape[1])
    left, right = np.minimum(heads, position), np.maximum(heads, position)
    starts_inside = (left[:, :, None] < left[:, None]) & (left[:, None] < right[:, :, None])
    crosses = starts_inside & (right[:, :, None] < right[:, None])
    both = (heads >= 0)[:, :, None] & (heads >= 0)[:, None]
    projective: NDArray[np.bool_] = ~(crosses & both).any((1, 2))
    return projective
