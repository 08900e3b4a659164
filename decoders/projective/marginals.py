"""Marginals of arcs and parts among projective trees, and their gradients.

Trees are scored by whatever is there of `grandparent`, `sibling` and `grand_sibling`, in the charts of `siblings` and
`grandparents`; gradients are for arcs and siblings.
"""

import numpy as np
from numpy.typing import NDArray

from arbora.decoders.kernels.threads import over_sentences
from arbora.decoders.parts.batch import Parts
from arbora.decoders.projective import gradients, siblings
from arbora.decoders.projective.decoder import search
from arbora.decoders.projective.eisner import check_found


def max_marginals(parts: Parts, single_root: bool = True) -> NDArray[np.float64]:
    """Score of the best projective tree with each candidate arc, -inf for arcs of no such tree.

    Trees score by arcs and by whatever is there of `grandparent`, `sibling` and `grand_sibling`. The arcs of the best
    tree have exactly the largest value of their sentence.

    Args:
        parts: candidate arcs and scores.
        single_root: among trees with exactly one modifier of the root.

    Returns:
        (A,) by arcs.

    Raises:
        ValueError: when a sentence has no projective tree among its candidate arcs; on parts of other kinds.
    """
    return search(parts, single_root, False, True)[2]


def log_marginals(parts: Parts, single_root: bool = True) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Log-partition and probability of each candidate arc, where projective trees are as likely as exp(score).

    Args:
        parts: candidate arcs and scores, of the kinds that `max_marginals` names.
        single_root: among trees with exactly one modifier of the root.

    Returns:
        (B,) logarithm of the sum over trees, and (A,) probabilities, which for each word sum to 1. They are also the
        gradient of the former by the scores of arcs.

    Raises:
        ValueError: when a sentence has no projective tree among its candidate arcs; on parts of other kinds.
    """
    _, log_partition, marginals = search(parts, single_root, True, True)
    return log_partition, marginals


def log_partition_gradient(
    parts: Parts, single_root: bool = True
) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
    """Log-partition, and its gradient by the scores of arcs and siblings: the probability of each part.

    Time and memory as for `log_marginals`, which does not ask for siblings.

    Args:
        parts: arcs, with siblings or without.
        single_root: among trees with exactly one modifier of the root.

    Returns:
        (B,) logarithm of the sum over trees of exp(score), and by `arc` and, where they are there, `sibling`, the share
        of that sum which trees with each part have; 0 for parts of no tree.

    Raises:
        ValueError: when a sentence has no projective tree among its candidate arcs; on parts of other kinds.
    """
    _check_gradient(parts, "the log-partition")
    layout = parts.layout
    goal, arc, sibling = np.empty(len(parts.lengths)), np.empty(len(parts.head)), np.empty(len(layout.sibling))
    over_sentences(
        lambda bs: siblings.run_marginals(bs, layout, single_root, True, goal, arc, sibling),
        10.0 * np.diff(parts.sentence_offsets) * parts.lengths,
    )
    check_found(parts, goal > -np.inf, single_root)
    return goal, {"arc": arc} | ({} if parts.sibling is None else {"sibling": sibling})


def sibling_max_marginals(parts: Parts, single_root: bool = True) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Score of the best projective tree with each candidate arc, (A,), and with each pair of siblings, -inf for none.

    Args:
        parts: arcs and siblings.
        single_root: among trees with exactly one modifier of the root.

    Raises:
        ValueError: when a sentence has no projective tree among its candidate arcs; on parts of other kinds.
    """
    _check_gradient(parts, "max-marginals")
    layout = parts.layout
    goal, arc, sibling = np.empty(len(parts.lengths)), np.empty(len(parts.head)), np.empty(len(layout.sibling))
    over_sentences(
        lambda bs: siblings.run_marginals(bs, layout, single_root, False, goal, arc, sibling),
        10.0 * np.diff(parts.sentence_offsets) * parts.lengths,
    )
    check_found(parts, goal > -np.inf, single_root)
    return arc, sibling


def max_marginals_gradient(
    parts: Parts,
    weights: NDArray[np.floating],
    single_root: bool = True,
    sibling_weights: NDArray[np.floating] | None = None,
) -> dict[str, NDArray[np.float64]]:
    """Gradient of a weighted sum of max-marginals, those of arcs and of siblings, by the scores of both.

    The gradient of one max-marginal is the tree that attains it: 1 for each part that fires in it. Of several such
    trees one is taken.

    Args:
        parts: arcs, with siblings or without.
        weights: (A,) of each arc's max-marginal; those of arcs in no tree do not count.
        single_root: among trees with exactly one modifier of the root.
        sibling_weights: (P,) of the max-marginal of each pair of siblings; must be 0 for pairs in no tree, and for
            those that END a side.

    Returns:
        By `arc` and, where they are there, `sibling`, the gradient for each part.

    Raises:
        ValueError: when a sentence has no projective tree among its candidate arcs; on parts of other kinds.
    """
    _check_gradient(parts, "max-marginals")
    if np.shape(weights) != parts.head.shape:
        raise ValueError(f"weights must be {parts.head.shape}, got {np.shape(weights)}")
    layout = parts.layout
    amounts = np.ascontiguousarray(weights, dtype=np.float64)
    pairs = np.empty(0) if sibling_weights is None else np.ascontiguousarray(sibling_weights, dtype=np.float64)
    if sibling_weights is not None and pairs.shape != layout.sibling.shape:
        raise ValueError(f"sibling_weights must be {layout.sibling.shape}, got {pairs.shape}")
    goal, marginals = np.empty(len(parts.lengths)), np.empty(len(parts.head))
    arc, sibling = np.empty(len(parts.head)), np.empty(len(layout.sibling))
    over_sentences(
        lambda bs: gradients.run(bs, layout, single_root, amounts, pairs, goal, marginals, arc, sibling),
        10.0 * np.diff(parts.sentence_offsets) * parts.lengths,
    )
    check_found(parts, goal > -np.inf, single_root)
    return {"arc": arc} | ({} if parts.sibling is None else {"sibling": sibling})


def _check_gradient(parts: Parts, what: str) -> None:
    """Refuse parts by which there are no gradients."""
    if others := set(parts.kinds) - {"sibling"}:
        raise ValueError(f"gradients of {what} are for arcs and siblings, not for {', '.join(sorted(others))}")
    parts.require_finite(f"the gradient of {what}")
