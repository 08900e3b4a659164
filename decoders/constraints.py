"""What is known of trees before they are searched for: heads that words have, and arcs that are not in the tree.

Constraints act on candidates: a required head takes the other candidates of its word away, a forbidden arc is taken
away itself, and parts over such arcs go with them. Decoders need not know, and what they prove holds among the trees
that are left.
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
    """What is known of the trees of a batch.

    Args:
        required: (B, N) the head of each word, -1 where it is not known.
        forbidden: (F, 3) arcs that no tree has: sentence, word, head.
        labels: (B, N) the label of each word, -1 where it is not known; decoders do not look at them.
    """

    required: NDArray[np.integer]
    forbidden: NDArray[np.integer] = field(default_factory=lambda: np.empty((0, 3), np.int64))
    labels: NDArray[np.integer] | None = None

    @property
    def rows(self) -> NDArray[np.int64]:
        """Sentences of which a head is known, or an arc forbidden."""
        return np.union1d(np.flatnonzero((self.required >= 0).any(1)), self.forbidden[:, 0]).astype(np.int64)

    def allows(self, sentence: Any, word: Any, head: Any) -> NDArray[np.bool_]:
        """Whether trees may have arcs, given as arrays that are indices together."""
        known = self.required[sentence, word]
        allowed: NDArray[np.bool_] = (known < 0) | (known == head)
        if len(self.forbidden):
            size = self.required.shape[1]
            banned = (self.forbidden[:, 0] * size + self.forbidden[:, 1]) * size + self.forbidden[:, 2]
            allowed &= ~np.isin((sentence * size + word) * size + head, banned)
        return allowed

    def apply(self, parts: Parts) -> Parts:
        """The candidates that are left, with all parts that are made of these only."""
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
        """The best trees that agree, by scores of arcs.

        Args:
            arc: (B, N, N) scores, `[b, m, h]`.
            lengths: (B,) words of each sentence.
            single_root: among trees with exactly one modifier of the root.
            projective: among projective trees.

        Returns:
            (B, N) heads.

        Raises:
            NoTreeError: some sentences have no such tree; the reasons name what is to blame.
        """
        decoder: Decoder = (Eisner if projective else MST)(single_root=single_root)
        trees = decoder(Parts.from_dense(arc, lengths, self.mask()), on_error="skip")
        if trees.failures:
            raise NoTreeError({b: self._culprit(b, int(lengths[b]), decoder) for b in trees.failures})
        heads = np.full(self.required.shape, -1, np.int32)
        heads[:, : trees.heads.shape[1]] = trees.heads
        return heads

    def _culprit(self, b: int, n: int, decoder: Decoder) -> str:
        """The constraint of sentence b to blame for there being no tree: the first without which there is one."""
        required = self.required[b, : n + 1]
        if cycle := _cycle(required):
            return f"the heads given to words {', '.join(map(str, cycle))} make a cycle; give one of them another head"
        roots = np.flatnonzero(required == 0).tolist()
        if decoder.single_root and len(roots) > 1:
            words = " and ".join(map(str, roots))
            return f"words {words} are both given the head 0, where one root is asked for; attach all but one"
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
    """Words on a cycle of heads, where -1 stands for none; empty if there is no cycle."""
    for start in range(1, len(heads)):
        seen, m = list[int](), start
        while m > 0 and m not in seen:
            seen.append(m)
            m = int(heads[m])
        if m > 0:
            return sorted(seen[seen.index(m) :])
    return []
