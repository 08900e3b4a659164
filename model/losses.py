"""First-order losses of a batch, each summed over its sentences.

All take `arc` (B, N, N), `[b, m, h]`, the gold `heads` (B, N) and the `lengths` (B,) of the sentences.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from arbora.decoders import Decoder, Parts
from arbora.model.crf import log_partition


def head_cross_entropy(arc: Tensor, heads: Tensor) -> Tensor:
    """Negative log-likelihood of each word's head by itself."""
    annotated = heads >= 0
    return F.cross_entropy(arc[annotated], heads[annotated], reduction="sum")


def crf(arc: Tensor, heads: Tensor, lengths: Tensor, single_root: bool, projective: bool) -> tuple[Tensor, Tensor]:
    """Negative log-likelihood of the gold tree among all (projective) trees.

    A gold tree outside of the set that is summed over (one that crosses, or has several roots) has no likelihood: such
    sentences add nothing.

    Returns:
        The loss, and the number of sentences whose gold tree is outside.
    """
    inside = torch.ones_like(lengths, dtype=torch.bool)
    if single_root:
        inside &= (heads == 0).sum(1) == 1
    if projective:
        inside &= is_projective(heads)
    outside = (~inside).sum()
    if not inside.any():
        return (arc[:, 1:, 0] * 0).sum(), outside
    arc, heads, lengths = arc[inside], heads[inside], lengths[inside]
    likelihood = tree_score(arc.double(), heads) - log_partition(arc, lengths, single_root, projective)
    return -likelihood.sum().float(), outside


def hinge(arc: Tensor, heads: Tensor, lengths: Tensor, decoder: Decoder) -> tuple[Tensor, Tensor]:
    """Structured hinge, max_y [s(y) + cost(y)] - s(gold), where cost counts wrong heads (Taskar et al., 2004).

    Any decoder may search the best tree. One that returns a tree which scores below the gold tree has found no
    violation, and that sentence adds nothing. A gold tree that the decoder cannot return (one that crosses, for a
    projective decoder) still pulls its arcs up wherever another tree comes within the margin.

    Returns:
        The loss, and the number of sentences with a violation.
    """
    gold = F.one_hot(heads.clamp(min=0), arc.shape[2]).bool()
    augmented = arc + (~gold).to(arc.dtype)
    trees = decoder(Parts.from_dense(augmented.detach().cpu().numpy(), lengths.cpu().numpy()))
    found = torch.from_numpy(trees.heads).long().to(arc.device)
    margin = tree_score(augmented, found) - tree_score(arc, heads)
    return margin.clamp(min=0).sum(), (margin > 0).sum()


def tree_score(arc: Tensor, heads: Tensor) -> Tensor:
    """(B,) first-order scores of trees; differentiable."""
    picked = arc.gather(2, heads.clamp(min=0)[..., None]).squeeze(2)
    return picked.where(heads >= 0, 0.0).sum(1)


def is_projective(heads: Tensor) -> Tensor:
    """(B,) whether no two arcs of a tree cross, arcs from the root included; -1 stands for no head."""
    position = torch.arange(heads.shape[1], device=heads.device)
    left, right = torch.minimum(heads, position), torch.maximum(heads, position)
    starts_inside = (left[:, :, None] < left[:, None]) & (left[:, None] < right[:, :, None])
    crosses = starts_inside & (right[:, :, None] < right[:, None])
    both = (heads >= 0)[:, :, None] & (heads >= 0)[:, None]
    return ~(crosses & both).any(2).any(1)
