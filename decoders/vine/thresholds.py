"""Thresholds of a pruning cascade: which arcs survive a stage by max-marginals.

Rush and Petrov (2012), "Vine pruning for efficient multi-pass dependency parsing", after the structured prediction
cascades of Weiss and Taskar (2010). A stage keeps the arcs whose best tree scores at least

    t = alpha max + (1 - alpha) mean of max-marginals

so that the trees that score at least t lose no arc, the best tree among them. The stages: a dictionary of lengths; the
vine, linear in the length of a sentence; then max-marginals of first order, and of second order, on the arcs that are
left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arbora.decoders.parts.batch import Parts
from arbora.decoders.parts.layout import sibling_at
from arbora.decoders.projective.marginals import max_marginals, max_marginals_gradient, sibling_max_marginals
from arbora.decoders.vine.candidates import sentence_of_arcs
from arbora.decoders.vine.gradients import vine_max_marginals_gradient
from arbora.decoders.vine.structures import Indices, VineScores, vine_max_marginals

TOLERANCE = 1e-9
"""Arcs below the threshold by this share of the distance from the mean to the best are kept."""


def thresholds(
    marginals: NDArray[np.float64], sentence: NDArray[np.integer], best: NDArray[np.float64], alpha: float
) -> NDArray[np.float64]:
    """(B,) alpha max + (1 - alpha) mean of max-marginals, of those that are finite; -inf if none are.

    Args:
        marginals: (P,) max-marginals.
        sentence: (P,) the sentence of each.
        best: (B,) score of the best structure of each sentence.
        alpha: between 0, where what is below the mean goes, and 1, where only best structures stay.
    """
    finite = np.isfinite(marginals)
    sums = np.bincount(sentence[finite], marginals[finite], minlength=len(best))
    counts = np.bincount(sentence[finite], minlength=len(best))
    mean = sums / np.maximum(counts, 1)
    return np.where(counts > 0, mean + alpha * (np.where(counts > 0, best, 0.0) - mean), -np.inf)


def arc_thresholds(
    parts: Parts, alpha: float, single_root: bool = True
) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
    """Threshold of each sentence and its gradient, for the filter loss of a stage: max(0, 1 + threshold - gold score).

    Args:
        parts: candidate arcs of a stage, with siblings or without.
        alpha: as in `thresholds`.
        single_root: whether trees have exactly one modifier of the root.

    Returns:
        (B,) thresholds, and by `arc` and `sibling` the gradient of each sentence's threshold by its scores: alpha times
        the best tree, and 1 - alpha times the mean of the best trees with each arc.
    """
    marginals = max_marginals(parts, single_root)
    values, weights = _weigh(marginals, sentence_of_arcs(parts), len(parts.lengths), alpha)
    return values, max_marginals_gradient(parts, weights, single_root)


def sibling_thresholds(
    parts: Parts, alpha: float, single_root: bool = True
) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
    """Threshold of each sentence and its gradient, as `arc_thresholds` has them, over pairs of siblings.

    These are the indices (h, s, m) of the paper's second order, where s is START for the first modifier of a side.

    Args:
        parts: candidate arcs of a stage with siblings.
        alpha: as in `thresholds`.
        single_root: whether trees have exactly one modifier of the root.
    """
    _, pairs = sibling_max_marginals(parts, single_root)
    counted, sentence = sibling_indices(parts)
    weights = np.zeros(len(pairs))
    values, weights[counted] = _weigh(pairs[counted], sentence, len(parts.lengths), alpha)
    return values, max_marginals_gradient(parts, np.zeros(len(parts.head)), single_root, weights)


def sibling_indices(parts: Parts) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """(P,) which pairs of siblings do not END a side, and the sentence of each of these."""
    layout = parts.layout
    counted = np.ones(len(layout.sibling), dtype=np.bool_)
    J = np.diff(layout.side_offsets)
    side = np.repeat(np.arange(len(J)), J + 1)  # one row for each inner sibling, START among them; END comes last
    row = np.arange(len(side)) - np.repeat(np.cumsum(J + 1) - (J + 1), J + 1)
    last = layout.sibling_offsets[side] + sibling_at.py_func(J[side], row, J[side] + 1)
    counted[last[np.diff(layout.sibling_offsets)[side] > 0]] = False
    of_sentence = np.diff(parts.part_offsets("sibling"))
    return counted, np.repeat(np.arange(len(parts.lengths)), of_sentence)[counted]


def vine_thresholds(vine: VineScores, alpha: float, single_root: bool = True) -> tuple[NDArray[np.float64], Indices]:
    """Threshold of each sentence and its gradient, as `arc_thresholds` has them, for the vine.

    Args:
        vine: scores.
        alpha: as in `thresholds`.
        single_root: whether the root has one modifier.
    """
    _, marginals = vine_max_marginals(vine, single_root)
    sentences = sentences_of_vine(vine.lengths, marginals)
    flat = np.concatenate([array.ravel() for array in marginals])
    sentence = np.concatenate([array.ravel() for array in sentences])
    values, weights = _weigh(flat, sentence, len(vine.lengths), alpha)
    ends = np.cumsum([array.size for array in marginals])[:-1]
    shaped = (part.reshape(array.shape) for part, array in zip(np.split(weights, ends), marginals))
    return values, vine_max_marginals_gradient(vine, Indices(*shaped), single_root)


def _weigh(
    marginals: NDArray[np.float64], sentence: NDArray[np.integer], count: int, alpha: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Thresholds (B,), and the weights of max-marginals (P,) of which they are the sums."""
    best = np.full(count, -np.inf)
    np.maximum.at(best, sentence, marginals)
    finite = np.isfinite(marginals)
    counts = np.bincount(sentence[finite], minlength=count)
    weights = np.where(finite, (1 - alpha) / np.maximum(counts, 1)[sentence], 0.0)
    attains = np.flatnonzero(marginals == best[sentence])  # those of the best structure are among them
    weights[attains[np.unique(sentence[attains], return_index=True)[1]]] += alpha
    return thresholds(marginals, sentence, best, alpha), weights


def surviving_arcs(parts: Parts, marginals: NDArray[np.float64], alpha: float) -> NDArray[np.bool_]:
    """(A,) which candidate arcs survive a stage; the best projective tree is always among them.

    Args:
        parts: candidate arcs of the stage.
        marginals: (A,) their max-marginals.
        alpha: as in `thresholds`.
    """
    sentence = sentence_of_arcs(parts)
    best = np.full(len(parts.lengths), -np.inf)
    np.maximum.at(best, sentence, marginals)
    mean = thresholds(marginals, sentence, best, 0.0)
    spread = np.where(mean > -np.inf, best, 0.0) - np.where(mean > -np.inf, mean, 0.0)
    cut = np.minimum(mean + (alpha - TOLERANCE) * spread, best)  # rounding must not lift it above the best
    survives: NDArray[np.bool_] = marginals >= cut[sentence]
    return survives


def sentences_of_vine(lengths: ArrayLike, indices: Indices) -> Indices:
    """The sentence of each arc of the vine, in the shapes of `indices`."""
    n = np.asarray(lengths, dtype=np.int64)
    words, nodes = np.repeat(np.arange(len(n)), n), np.repeat(np.arange(len(n)), n + 1)
    by = (words, words, nodes)
    return Indices(*(np.repeat(s, array.shape[1]).reshape(array.shape) for s, array in zip(by, indices)))
