"""Labels that a head gives to one of its modifiers at most, such as its subject.

Given a tree, the labels of the modifiers of a head are an assignment: each modifier takes one label, each unique label
goes to one modifier at most, and the sum of log-probabilities is the highest. The Hungarian algorithm, in the form with
shortest augmenting paths (Jonker and Volgenant, 1987), finds it exactly; it is run only where the best label of each
modifier by itself repeats a unique one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def unique_labels(
    labels: Ints,
    heads: NDArray[np.integer],
    group: Ints,
    score: Callable[[NDArray[np.bool_]], NDArray[np.floating]],
    fixed: NDArray[np.bool_],
) -> Ints:
    """The best labels of trees in which no head has two modifiers with labels of the same group.

    A modifier that could have no label of another kind keeps its own, even if that is taken.

    Args:
        labels: (B, N) the best label of each word by itself.
        heads: (B, N) as in `Trees.heads`.
        group: (L,) number of the group of each label, -1 for labels that may repeat.
        score: gives log-probabilities (words, L) of the words that it is given a mask of, sentence after sentence.
        fixed: (B, N) words whose label is known, and stays.

    Returns:
        (B, N) labels.
    """
    b, m = np.nonzero((heads >= 0) & (group[labels] >= 0))
    node = b * heads.shape[1] + heads[b, m]
    keys, counts = np.unique(np.stack([node, group[labels[b, m]]]), axis=1, return_counts=True)
    if not (counts > 1).any():
        return labels
    clashing = np.unique(keys[0, counts > 1])
    nodes = np.where(heads >= 0, np.arange(len(heads))[:, None] * heads.shape[1] + heads, -1)
    chosen = np.isin(nodes, clashing)
    b, m = np.nonzero(chosen)
    scores = np.asarray(score(chosen), dtype=np.float64)
    result = labels.copy()
    for node in clashing.tolist():
        here = nodes[b, m] == node
        known = fixed[b, m] & here
        taken = group[labels[b[known], m[known]]]
        free = here & ~known
        result[b[free], m[free]] = _best(scores[free], group, taken)
    return result


def _best(scores: NDArray[np.float64], group: Ints, taken: Ints) -> Ints:
    """(d,) best labels of the modifiers of one head, given log-probabilities (d, L) and groups in use."""
    common = np.where(group < 0, scores, -np.inf)
    own: Ints = common.argmax(1)
    alone = common.max(1) == -np.inf  # nothing but unique labels is possible
    own[alone] = scores[alone].argmax(1)
    rows = np.arange(len(scores))
    groups = np.setdiff1d(group, [-1, *taken])
    within = np.stack([np.where(group == g, scores, -np.inf).argmax(1) for g in groups], 1) if len(groups) else None
    if within is None:
        return own
    gain = scores[rows[:, None], within] - scores[rows, own][:, None]  # (d, G)
    found = _assign(np.concatenate([np.where(np.isnan(gain), 0.0, gain), np.zeros((len(rows), len(rows)))], 1))
    special = found < len(groups)
    own[special] = within[rows[special], found[special]]
    return own


def _assign(gain: NDArray[np.float64]) -> Ints:
    """(d,) a column for each of d rows, none twice, of the highest sum; -inf is never taken where 0 is possible."""
    cost = -np.maximum(gain, -1e300)
    rows, columns = cost.shape
    u, v = np.zeros(rows + 1), np.zeros(columns + 1)
    row_of = np.full(columns + 1, -1)  # the last is where a path starts
    for row in range(rows):
        row_of[columns], j = row, columns
        least, before = np.full(columns, np.inf), np.full(columns, columns)
        done = np.zeros(columns + 1, dtype=np.bool_)
        while row_of[j] >= 0:
            done[j] = True
            open_ = ~done[:columns]
            reduced = cost[row_of[j]] - u[row_of[j]] - v[:columns]
            better = open_ & (reduced < least)
            least[better], before[better] = reduced[better], j
            nearest = int(np.where(open_, least, np.inf).argmin())
            step = least[nearest]
            u[row_of[done]] += step
            v[done] -= step
            least[open_] -= step
            j = nearest
        while j != columns:
            row_of[j], j = row_of[before[j]], before[j]
    found = np.empty(rows, dtype=np.int64)
    taken = np.flatnonzero(row_of[:columns] >= 0)
    found[row_of[taken]] = taken
    return found
