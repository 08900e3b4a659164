"""Constraints on trees: heads that words must have, and arcs that must not be in the tree.

Constraints act on candidate arcs. A required head removes the other candidate heads of its word, a forbidden arc is
removed itself, and all parts with removed arcs are removed, too. Decoders do not see constraints, and their
certificates refer to the remaining trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arbora.decoders.mst import MST
from arbora.decoders.parts.batch import Parts
from arbora.decoders.parts.restriction import Restriction
from arbora.decoders.projective.eisner import Eisner
from arbora.decoders.trees import Decoder, NoTreeError


@dataclass(frozen=True, eq=False)
class Constraints:
    """Constraints on the trees of a batch.

    Args:
        required: (B, N) the head of each word, -1 if it is not constrained.
        forbidden: (F, 3) arcs that no tree has: sentence, word, head.
        labels: (B, N) the label of each word, -1 if it is not constrained; decoders ignore them.
    """

    required: NDArray[np.integer]
    forbidden: NDArray[np.integer] = field(default_factory=lambda: np.empty((0, 3), np.int64))
    labels: NDArray[np.integer] | None = None

    @property
    def rows(self) -> NDArray[np.int64]:
        """Return the sentences with a required head or a forbidden arc."""
        return np.union1d(np.flatnonzero((self.required >= 0).any(1)), self.forbidden[:, 0]).astype(np.int64)

    def allows(self, sentence: Any, word: Any, head: Any) -> NDArray[np.bool_]:
        """Return whether trees may have arcs, given by arrays of indices."""
        known = self.required[sentence, word]
        allowed: NDArray[np.bool_] = (known < 0) | (known == head)
        if len(self.forbidden):
            size = self.required.shape[1]
            banned = (self.forbidden[:, 0] * size + self.forbidden[:, 1]) * size + self.forbidden[:, 2]
            allowed &= ~np.isin((sentence * size + word) * size + head, banned)
        return allowed

    def apply(self, parts: Parts) -> Parts:
        """Return the remaining candidates, with all parts that consist of them."""
        sentence = np.repeat(np.arange(len(parts.lengths)), np.diff(parts.sentence_offsets))
        keep = self.allows(sentence, parts.modifier, parts.head)
        return parts if keep.all() else Restriction(parts)(keep)

    def mask(self) -> NDArray[np.bool_]:
        """(B, N, N) the arcs that trees may have, `[b, m, h]`."""
        size = self.required.shape[1]
        sentence, word, head = np.ogrid[: len(self.required), :size, :size]
        return self.allows(sentence, word, head)

    def complete(
        self, arc: NDArray[np.floating], lengths: NDArray[np.integer], single_root: bool, projective: bool = False
    ) -> NDArray[np.int32]:
        """Return the best trees that satisfy the constraints, by arc scores.

        Args:
            arc: (B, N, N) scores, `[b, m, h]`.
            lengths: (B,) words of each sentence.
            single_root: among trees with exactly one modifier of the root.
            projective: among projective trees.

        Returns:
            (B, N) heads.

        Raises:
            NoTreeError: some sentences have no such tree; the reasons name the constraint that causes this.
        """
        decoder: Decoder = (Eisner if projective else MST)(single_root=single_root)
        trees = decoder(Parts.from_dense(arc, lengths, self.mask()), on_error="skip")
        if trees.failures:
            raise NoTreeError({b: self._culprit(b, int(lengths[b]), decoder) for b in trees.failures})
        heads = np.full(self.required.shape, -1, np.int32)
        heads[:, : trees.heads.shape[1]] = trees.heads
        return heads

    def _culprit(self, b: int, n: int, decoder: Decoder) -> str:
        """Name the constraint because of which sentence b has no tree: the first without which there is one."""
        required = self.required[b, : n + 1]
        if cycle := _cycle(required):
            return f"the heads given to words {', '.join(map(str, cycle))} make a cycle; give one of them another head"
        roots = np.flatnonzero(required == 0).tolist()
        if decoder.single_root and len(roots) > 1:
            words = " and ".join(map(str, roots))
            return f"words {words} both have the required head 0, but only one root word is allowed; change one of them"
        free = self.mask()[b, : n + 1, : n + 1]
        np.fill_diagonal(free, False)
        if len(empty := np.flatnonzero(~free[1:].any(1))):
            m = int(empty[0]) + 1
            head = required[m]
            why = f"its head {head} is forbidden too" if head >= 0 else "all of its heads are forbidden"
            return f"word {m} has no head left: {why}"
        arcs = self.forbidden[self.forbidden[:, 0] == b, 1:].tolist()
        kind = "projective " if decoder.projective else ""
        fewer = [
            (np.where(np.arange(n + 1) == m, -1, required), arcs, f"agrees with head {required[m]} of word {m}")
            for m in np.flatnonzero(required >= 0).tolist()
        ]
        fewer += [
            (required, arcs[:i] + arcs[i + 1 :], f"is left without the arc from {h} to word {m}")
            for i, (m, h) in enumerate(arcs)
        ]
        for heads, forbidden, what in fewer:
            if _has_tree(heads, forbidden, decoder):
                return f"no {kind}tree {what}, given the other constraints"
        return f"no {kind}tree agrees with all constraints, and no single one of them is to blame"


def _has_tree(required: NDArray[np.integer], arcs: Sequence[Sequence[int]], decoder: Decoder) -> bool:
    forbidden = np.array([[0, m, h] for m, h in arcs], np.int64).reshape(-1, 3)
    mask = Constraints(required[None], forbidden).mask()
    return not decoder(Parts.from_dense(np.zeros(mask.shape), mask=mask), on_error="skip").failures


def _cycle(heads: NDArray[np.integer]) -> list[int]:
    """Return the words on a cycle of heads (-1 for none); empty if there is no cycle."""
    for start in range(1, len(heads)):
        seen, m = list[int](), start
        while m > 0 and m not in seen:
            seen.append(m)
            m = int(heads[m])
        if m > 0:
            return sorted(seen[seen.index(m) :])
    return []
