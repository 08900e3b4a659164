"""Solutions of a relaxation next to gold trees, for training."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def share_changes(
    found: NDArray[np.int64], share: NDArray[np.float64], gold: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return parts whose share in a solution differs from the gold tree, each once, and the differences.

    Args:
        found: parts in the solution, ascending.
        share: share of each part, 1 for all parts of a tree.
        gold: parts of the gold tree.
    """
    place = np.searchsorted(found, gold)
    both = place < len(found)
    both[both] = found[place[both]] == gold[both]
    change = share.copy()
    change[place[both]] -= 1
    apart = np.abs(change) > 1e-9
    missed = gold[~both]
    return np.concatenate([found[apart], missed]), np.concatenate([change[apart], -np.ones(len(missed))])
