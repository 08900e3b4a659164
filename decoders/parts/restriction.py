"""Parts with fewer candidate arcs: parts over arcs that are taken away go with them.

A part over arcs that are left is the same part as before, with the same score, but stored elsewhere. It is found by its
place in the matrices of `Parts.places`: rows are arcs, or parts of another kind, and columns are words, so that only
rows have to be renumbered. The inverse of these places is computed once for each kind.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arbora.decoders.parts.batch import Parts
from arbora.decoders.parts.kinds import HIGHER_ORDER, KINDS, offsets_of, ranges_of

Ints = NDArray[np.int64]


class Restriction:
    """Takes arcs away from the candidates of a batch, several times from the same batch.

    Args:
        parts: arcs and other parts of the batch.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self._longest = int(parts.lengths.max(initial=0))
        self._entry_at: dict[str, Ints] = {}

    def __call__(self, keep: ArrayLike, sentences: ArrayLike | None = None) -> Parts:
        """Some of the arcs, with all parts that are made of these only; a tree of them scores what it scored before.

        Args:
            keep: booleans, one for each arc of the sentences that are taken, sentence after sentence.
            sentences: (b,) numbers of the sentences to take, each as often as it is listed; all unless given.
        """
        parts = self.parts
        chosen = np.arange(len(parts.lengths)) if sentences is None else np.asarray(sentences, dtype=np.int64)
        kept = np.asarray(keep, dtype=np.bool_)
        arcs = parts.entries("arc", chosen)
        if kept.shape != arcs.shape:
            raise ValueError(f"keep must have one entry for each of {len(arcs)} arcs, got shape {kept.shape}")
        if kept.all():
            return parts.subset(chosen)
        lengths = parts.lengths[chosen]
        words = ranges_of(parts.word_offsets[chosen], lengths)
        modifier_offsets = offsets_of(kept.astype(np.int64))[offsets_of(np.diff(parts.modifier_offsets)[words])]
        sentence_offsets = modifier_offsets[offsets_of(lengths)]
        origin = arcs[kept]  # (A',) of each arc that is left
        left = Parts(lengths, parts.head[origin], parts.arc_score[origin], sentence_offsets, modifier_offsets)
        left = left.with_tags(parts.tags[words])
        origins = {"arc": origin}
        scores = {kind: getattr(parts, kind)[self._origin(kind, left, chosen, origins)] for kind in parts.kinds}
        return left.with_scores(**scores) if scores else left

    def _origin(self, kind: str, left: Parts, chosen: Ints, origins: dict[str, Ints]) -> Ints:
        """Return the previous place of each part of a kind, or of each entry of a tree feature."""
        if kind not in origins:
            find = self._part_origin if kind in HIGHER_ORDER else self._feature_origin
            origins[kind] = find(kind, left, chosen, origins)
        return origins[kind]

    def _feature_origin(self, kind: str, left: Parts, chosen: Ints, origins: dict[str, Ints]) -> Ints:
        sizes = np.diff(left.block_offsets(kind))
        if KINDS[kind].roles[:2] == ("modifier", "head"):  # a table for each arc
            return ranges_of(self.parts.block_offsets(kind)[origins["arc"]], sizes)
        return self.parts.entries(kind, chosen)

    def _part_origin(self, kind: str, left: Parts, chosen: Ints, origins: dict[str, Ints]) -> Ints:
        rows, columns = HIGHER_ORDER[kind].rows, self._longest + 3
        base = _matrices(left, rows, columns)
        place = left.places(kind, base, columns, columns - 2)
        sentence = np.repeat(np.arange(len(chosen)), np.diff(left.part_offsets(kind)))
        place -= base[sentence]
        row, column = place // columns, place % columns
        offsets, old_offsets = _rows(left, rows), _rows(self.parts, rows)
        row_origin = np.append(self._origin(rows, left, chosen, origins), 0)
        end = row - np.diff(offsets)[sentence]  # behind the arcs: END of a side
        number = row_origin[np.minimum(offsets[sentence] + row, len(row_origin) - 1)] - old_offsets[chosen][sentence]
        old_row = np.where(end < 0, number, np.diff(old_offsets)[chosen][sentence] + end)
        if kind not in self._entry_at:
            places = self.parts.places(kind, _matrices(self.parts, rows, columns), columns, columns - 2)
            self._entry_at[kind] = np.zeros(_matrices(self.parts, rows, columns, ends=True)[-1], dtype=np.int64)
            self._entry_at[kind][places] = np.arange(len(places))
        at = _matrices(self.parts, rows, columns)[chosen][sentence] + old_row * columns + column
        found: Ints = self._entry_at[kind][at]
        return found


def _rows(parts: Parts, rows: str) -> Ints:
    return parts.sentence_offsets if rows == "arc" else parts.part_offsets(rows)


def _matrices(parts: Parts, rows: str, columns: int, ends: bool = False) -> Ints:
    """(B,) where the matrix of each sentence starts; with `ends`, also where the last one ends."""
    count: Ints = np.diff(_rows(parts, rows))
    if rows == "arc":
        count = count + 2 * (parts.lengths.astype(np.int64) + 1)
    offsets = offsets_of(count * columns)
    return offsets if ends else offsets[:-1]
