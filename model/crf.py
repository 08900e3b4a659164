"""Log-partition functions over dependency trees, differentiable: their gradients are marginals.

Non-projective trees by the matrix-tree theorem (Koo et al., 2007) and projective ones by the inside algorithm, both
through torch-struct in float64. Determinants lose all precision when scores are far apart; beyond `WIDEST` the same sum
is computed without a subtraction, by eliminating words one after the other in log space. O(n³) each.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch_struct.deptree import DepTree, deptree_part
from torch_struct.semirings import LogSemiring

WIDEST = 25.0
"""Largest distance between two scores of one modifier for which determinants are used."""

ABSENT = -1e30
"""Stands for -inf where a gradient goes through, since -inf - -inf has none."""


def log_partition(arc: Tensor, lengths: Tensor, single_root: bool = True, projective: bool = False) -> Tensor:
    """Logarithm of the sum of exp(score) over all trees of each sentence.

    Args:
        arc: (B, N, N), `[b, m, h]`; -inf for absent arcs. Some tree must exist.
        lengths: (B,) words of each sentence.
        single_root: sum over trees with exactly one modifier of the root.
        projective: sum over projective trees.

    Returns:
        (B,), float64.
    """
    best = _real(arc, lengths).amax(2).detach()  # (B, N)
    shifted = arc.double() - best[..., None]
    if projective:
        logz = _projective(shifted, lengths, single_root)
    else:
        finite = _real(shifted, lengths).detach()
        spread = -finite.masked_fill(finite == -torch.inf, 0).amin() if finite.numel() else finite.sum()
        logz = (_determinant if spread <= WIDEST else _elimination)(shifted, lengths, single_root)
    return logz + best.sum(1)


def _real(arc: Tensor, lengths: Tensor) -> Tensor:
    """Scores with 0 in the rows of the root and of padding."""
    position = torch.arange(arc.shape[1], device=arc.device)
    unread = (position == 0) | (position > lengths[:, None])
    return arc.double().masked_fill(unread[..., None], 0.0)


def to_torch_struct(arc: Tensor) -> Tensor:
    """(B, n+1, n+1) by modifier and head to torch-struct's (B, n, n) by head and modifier, root on the diagonal."""
    words = arc[:, 1:, 1:].transpose(1, 2)
    return torch.diagonal_scatter(words, arc[:, 1:, 0], dim1=1, dim2=2)


def _determinant(arc: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    # torch-struct's own distribution adds 1e-5 to every weight, which makes the sum inexact; the function does without.
    logz: Tensor = deptree_part(to_torch_struct(arc), multi_root=not single_root, lengths=lengths, eps=0.0)
    return logz


def _projective(arc: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    # The distribution class keeps `multiroot` on the class, where the last one built wins; an instance has its own.
    struct = DepTree(LogSemiring)
    struct.multiroot = not single_root
    with arc.device:  # where it makes its indices; it reads one length after the other
        logz: Tensor = struct.sum(to_torch_struct(arc).clamp(min=-1e9), lengths.cpu().tolist())
    return logz


def _elimination(arc: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    """Sum over trees without a subtraction; word 1 is eliminated last."""
    weight = arc[:, 1:, :].clamp(min=ABSENT)
    logz = torch.zeros(len(arc), dtype=arc.dtype, device=arc.device)
    for v in range(arc.shape[1] - 1, 1, -1):
        real = v <= lengths
        into_v = weight[:, v - 1, :v]  # (B, v): heads 0..v-1 that are left for v
        # d_v = lse_h w(h, v);   w(h, m) <- lae(w(h, m), w(h, v) + w(v, m) - d_v)
        d = into_v[:, int(single_root) :].logsumexp(1).where(real, 0.0)
        logz = logz + d
        through_v = into_v[:, None] + weight[:, : v - 1, v, None] - d[:, None, None]
        through_v = through_v.where(real[:, None, None], ABSENT)
        weight = torch.logaddexp(weight[:, : v - 1, :v], through_v)
        itself = torch.eye(v - 1, v, dtype=torch.bool, device=arc.device).roll(1, 1)
        weight = weight.masked_fill(itself, ABSENT)
    return logz + weight[:, 0, 0]
