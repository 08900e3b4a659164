"""Deep biaffine scorers of arcs and labels: Dozat and Manning (2017), "Deep biaffine attention"."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from arbora.model.encoders import SharedDropout
from arbora.model.products import numbers, score_pairs

MANY = 3
"""Where more than one arc in so many is wanted, all are scored: products of matrices are that much faster."""

MANY_WITH_GRADIENTS = 8
"""The same where vectors of arcs have to be fetched first."""


@dataclass(frozen=True)
class Biaffine:
    """Settings of the first-order scorers.

    Args:
        arc: size of the vectors of a head and of a modifier that score an arc.
        label: size of those that score its label.
        dropout: on these vectors; one mask for all words of a sentence.
    """

    arc: int = 300
    label: int = 100
    dropout: float = 0.33


class Projection(nn.Sequential):
    """A vector of a word in one role, such as head or modifier."""

    def __init__(self, inputs: int, size: int, dropout: float) -> None:
        linear = nn.Linear(inputs, size)
        nn.init.orthogonal_(linear.weight)
        nn.init.zeros_(linear.bias)
        super().__init__(linear, nn.LeakyReLU(0.1, inplace=True), SharedDropout(dropout))


class ArcScorer(nn.Module):
    """arc[m, h] = x_m U x_h + u x_h, for all pairs of words."""

    def __init__(self, inputs: int, settings: Biaffine) -> None:
        super().__init__()
        self.head = Projection(inputs, settings.arc, settings.dropout)
        self.modifier = Projection(inputs, settings.arc, settings.dropout)
        self.weight = nn.Parameter(torch.zeros(settings.arc + 1, settings.arc))

    def forward(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """Scores of all arcs.

        Args:
            vectors: (B, N, inputs).
            lengths: (B,) words of each sentence.

        Returns:
            (B, N, N), `[b, m, h]` for head h of modifier m; -inf where h is m or padding.
        """
        modifier, head = self.roles(vectors)
        scores = modifier @ head.transpose(1, 2)  # (B, N, N)
        position = torch.arange(vectors.shape[1], device=vectors.device)
        absent = (position[:, None] == position) | (position > lengths[:, None, None])
        return scores.float().masked_fill(absent, -torch.inf)

    def roles(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Words as modifiers and as heads, (B, N, arc) each, whose products are the scores."""
        return self.modifier(vectors) @ self.weight[:-1] + self.weight[-1], self.head(vectors)

    @staticmethod
    def score_some(roles: tuple[Tensor, Tensor], modifier: Tensor, head: Tensor) -> Tensor:
        """(A,) scores of some arcs, in time and memory for these alone unless they are many.

        Args:
            roles: from `roles`.
            modifier: (A,) place b N + m of each arc's modifier.
            head: (A,) place b N + h of its head.
        """
        B, N, _ = roles[0].shape
        alone = roles[0].device.type == "cpu" and not (torch.is_grad_enabled() and roles[0].requires_grad)
        if (MANY if alone else MANY_WITH_GRADIENTS) * len(modifier) > B * N * N:
            return (roles[0] @ roles[1].transpose(1, 2)).flatten().index_select(0, modifier * N + head % N).float()
        if alone:
            return torch.from_numpy(score_pairs(modifier.numpy(), head.numpy(), *map(numbers, roles))).float()
        modifiers, heads = (role.flatten(0, 1) for role in roles)
        return (modifiers.index_select(0, modifier) * heads.index_select(0, head)).sum(-1).float()


class LabelScorer(nn.Module):
    """label[m, l] = x_m U_l x_h + v_l [x_m; x_h] + b_l, for one head h of each word m.

    Labels are scored for given heads alone, which takes n·L scores in place of n²·L.
    """

    def __init__(self, inputs: int, labels: int, settings: Biaffine) -> None:
        super().__init__()
        self.head = Projection(inputs, settings.label, settings.dropout)
        self.modifier = Projection(inputs, settings.label, settings.dropout)
        self.weight = nn.Parameter(torch.zeros(settings.label + 1, labels * (settings.label + 1)))
        self.labels = labels

    def forward(self, vectors: Tensor, heads: Tensor) -> Tensor:
        """Scores of all labels.

        Args:
            vectors: (B, N, inputs).
            heads: (B, N) head of each word; what stands at the root and at padding does not matter, if it is an index.

        Returns:
            (B, N, L).
        """
        head = self.head(vectors)
        head = head.gather(1, heads[..., None].expand(-1, -1, head.shape[-1]))
        modifier = self.modifier(vectors)
        one = torch.ones_like(head[..., :1])
        head, modifier = torch.cat([head, one], -1), torch.cat([modifier, one], -1)
        weighted = (modifier @ self.weight).unflatten(-1, (self.labels, -1))  # (B, N, L, label + 1)
        return (weighted @ head[..., None]).squeeze(-1).float()
