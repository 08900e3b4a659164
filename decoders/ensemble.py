"""Ensembles of parsers: search for a tree that is biased towards the trees of another parser.

Tchernowitz, Yedidsion and Reichart (2016), "Effective greedy inference for graph-based non-projective dependency
parsing", section 7: W(part) + gamma_j for every part of order j in the other parser's tree. Order j means j arcs, so a
consecutive sibling with START or END, which holds one arc, is no part of second order and gets nothing.

Differs from the paper: any decoder can search by the new scores, not only the greedy one.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arbora.decoders.parts.batch import Parts
from arbora.decoders.parts.kinds import KINDS

BETWEEN_ENDS = ("sibling", "grand_sibling", "tri_sibling")
"""Kinds whose parts may have START or END in place of words."""


def favour_trees(parts: Parts, heads: ArrayLike, gamma: Sequence[float]) -> Parts:
    """Raise the scores of the parts that are in given trees, those of another parser.

    Args:
        parts: arcs and higher-order parts of the batch.
        heads: (B, N) as in `Trees.heads`; arcs that are not candidates are ignored.
        gamma: what is added to parts of first order (arcs), of second, and of third; orders beyond its length and tree
            features get 0.

    Returns:
        The same parts with other scores. The score of a tree under these is not its score under `parts`.
    """
    scores = {}
    for kind, entries in parts.active(heads).items():
        order = 1 if kind == "arc" else KINDS[kind].order
        if 0 < order <= len(gamma) and gamma[order - 1] != 0:
            name = "arc_score" if kind == "arc" else kind
            if kind in BETWEEN_ENDS:
                entries = _without_ends(entries, getattr(parts.layout, f"{kind}_offsets"))
            scores[name] = getattr(parts, name).copy()
            scores[name][entries] += np.float32(gamma[order - 1])
    return parts.with_scores(**scores) if scores else parts


def _without_ends(entries: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Leave out parts with START or END: the first and the last of a tree in the block of each side."""
    block = np.searchsorted(offsets, entries, side="right")
    same: NDArray[np.bool_] = np.concatenate([[False], block[1:] == block[:-1], [False]])
    return entries[same[1:] & same[:-1]]
