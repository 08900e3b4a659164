"""Candidate arcs: a few heads of each word, chosen by first-order marginals, and the loss that this causes."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from arbora.decoders.kernels.options import FILLING
from arbora.decoders.kernels.threads import over_sentences
from arbora.decoders.marginals import arc_marginals
from arbora.decoders.mst import MST
from arbora.decoders.parts.batch import Parts
from arbora.decoders.projective.eisner import Eisner


def prune(
    arc: ArrayLike,
    lengths: ArrayLike,
    max_heads: int = 10,
    ratio: float = 1e-4,
    single_root: bool = True,
    projective: bool = False,
    keep: NDArray[np.integer] | None = None,
) -> NDArray[np.bool_]:
    """Choose candidate arcs: the most probable heads of each word, and the arcs of the best tree, so that a tree is
    left.

    Args:
        arc: (B, N, N), `[b, m, h]`, scores of a first-order model.
        lengths: (B,) words of each sentence.
        max_heads: maximum number of heads per word, besides the head in the best tree.
        ratio: drop heads whose probability is below this fraction of the probability of the best head.
        single_root: whether trees have exactly one modifier of the root.
        projective: keep the best projective tree, not the best of all.
        keep: (B, N) heads that are also kept, such as gold heads in training; -1 for none.

    Returns:
        (B, N, N) mask of the remaining arcs.
    """
    scores = np.ascontiguousarray(arc, dtype=np.float32)
    n = np.asarray(lengths, dtype=np.int64)
    best = (Eisner if projective else MST)(single_root=single_root)(Parts.from_dense(scores, n)).heads
    marginals = arc_marginals(scores, n, single_root)
    mask = np.zeros(scores.shape, dtype=np.bool_)
    over_sentences(lambda bs: _keep_likely(bs, n, marginals, max_heads, ratio, mask), 1.0 * n * n * max_heads)
    for heads in (best, keep):
        if heads is not None:
            sentence, modifier = np.nonzero(heads >= 0)
            mask[sentence, modifier, heads[sentence, modifier]] = True
    return mask


def oracle(
    parts: Parts, heads: NDArray[np.integer], single_root: bool = True, projective: bool = False
) -> NDArray[np.int64]:
    """Count the words with their gold head in the best possible tree of candidate arcs (the oracle).

    Args:
        parts: candidate arcs; scores are not used.
        heads: (B, N) gold heads.
        single_root: among trees with exactly one modifier of the root.
        projective: among projective trees.

    Returns:
        (B,) words.
    """
    sentence = np.repeat(np.arange(len(parts.lengths)), np.diff(parts.sentence_offsets))
    right = (heads[sentence, parts.modifier] == parts.head).astype(np.float32)
    arcs = Parts(parts.lengths, parts.head, right, parts.sentence_offsets, parts.modifier_offsets)
    return (Eisner if projective else MST)(single_root=single_root)(arcs).score.astype(np.int64)


@numba.njit(**FILLING)
def _keep_likely(sentences, lengths, marginals, max_heads, ratio, mask):
    """Mark the most probable heads of each word; of equal ones the first."""
    for b in sentences:
        n = lengths[b]
        for m in range(1, n + 1):
            best = 0.0
            for h in range(n + 1):
                best = max(best, marginals[b, m, h])
            least = ratio * best
            likely = 0
            for h in range(n + 1):
                mask[b, m, h] = h != m and marginals[b, m, h] >= least
                likely += mask[b, m, h]
            if likely <= max_heads:
                continue
            mask[b, m, : n + 1] = False
            for _ in range(max_heads):
                chosen, top = 0, -1.0
                for h in range(n + 1):
                    if marginals[b, m, h] > top and h != m and not mask[b, m, h]:
                        chosen, top = h, marginals[b, m, h]
                mask[b, m, chosen] = True
