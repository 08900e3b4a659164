"""Deep biaffine scorers of arcs and labels: Dozat and Manning (2017), "Deep biaffine attention"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from arbora.decoders.parts.batch import Parts
from arbora.decoders.vine.candidates import sentence_of_arcs
from arbora.model.layers import Projection, by_groups, product
from arbora.model.scorers.products import score_pairs
from arbora.model.tensors import numbers, upload

MANY = 3
"""All arcs are scored if more than one in this many is wanted: matrix products are that much faster."""

MANY_WITH_GRADIENTS = 8
"""The same if the vectors of arcs must be gathered first."""

LABELLED = {"cpu": 64, "cuda": 2048}
"""Words whose labels are scored at once. On a CPU, groups that fit the cache took half the time of a whole batch; a GPU
needs larger groups."""


@dataclass(frozen=True)
class Biaffine:
    """Settings of the first-order scorers.

    Args:
        arc: size of the vectors of heads and modifiers that score arcs.
        label: size of the vectors that score labels.
        dropout: dropout on these vectors; one mask for all words of a sentence.
    """

    arc: int = 300
    label: int = 100
    dropout: float = 0.33


class Nodes(NamedTuple):
    """Vectors of the root and the words of each sentence of a batch."""

    vectors: Tensor  # (B, N, size), or (1, W + B, size) without padding
    starts: NDArray[np.int64]  # (B,) places of the roots among all positions

    @classmethod
    def padded(cls, vectors: Tensor) -> Nodes:
        """Return nodes with the vectors (B, N, size), padding included."""
        B, N, _ = vectors.shape
        return cls(vectors, np.arange(B) * N)

    @classmethod
    def packed(cls, vectors: Tensor, lengths: Tensor) -> Nodes:
        """Those of B sentences of these lengths (B,), out of (B, N, size)."""
        there = torch.arange(vectors.shape[1], device=vectors.device) <= lengths[:, None]
        nodes = vectors.flatten(0, 1).index_select(0, there.flatten().nonzero().squeeze(1))
        return cls(nodes[None], (torch.cumsum(lengths + 1, 0) - lengths - 1).cpu().numpy())


class ArcScorer(nn.Module):
    """arc[m, h] = x_m U x_h + u x_h, for all pairs of words.

    Args:
        inputs: size of the words' vectors.
        settings: of the scorer.
        projected: the vectors x are given to `weigh`, so there are no layers that compute them.
    """

    def __init__(self, inputs: int, settings: Biaffine, projected: bool = False) -> None:
        super().__init__()
        if not projected:
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
        return by_groups(self, self._modifiers, vectors), self.head(vectors)

    def _modifiers(self, vectors: Tensor) -> Tensor:
        return self.weigh(self.modifier(vectors))

    def weigh(self, modifier: Tensor) -> Tensor:
        """(..., arc) factors for the vectors of heads, from the vectors of modifiers."""
        return product(modifier, self.weight[:-1].t(), self.weight[-1])

    def score_candidates(self, roles: tuple[Tensor, Tensor], starts: NDArray[np.int64], parts: Parts) -> Tensor:
        """(A,) scores of candidate arcs, from `roles` of nodes whose sentences start at `starts`."""
        first, device = starts[sentence_of_arcs(parts)], roles[0].device
        return self.score_some(roles, *upload([first + w for w in (parts.modifier, parts.head)], device))

    @staticmethod
    def score_some(roles: tuple[Tensor, Tensor], modifier: Tensor, head: Tensor) -> Tensor:
        """(A,) scores of some arcs. Time and memory depend only on these arcs, unless they are many.

        Args:
            roles: from `roles`.
            modifier: (A,) place of each arc's modifier among all positions.
            head: (A,) place of its head.
        """
        B, N, _ = roles[0].shape
        alone = roles[0].device.type == "cpu" and not (torch.is_grad_enabled() and roles[0].requires_grad)
        if (MANY if alone else MANY_WITH_GRADIENTS) * len(modifier) > B * N * N:
            return (roles[0] @ roles[1].transpose(1, 2)).flatten().index_select(0, modifier * N + head % N).float()
        if alone:
            return torch.from_numpy(score_pairs(modifier.numpy(), head.numpy(), *map(numbers, roles))).float()
        exact = torch.promote_types(roles[0].dtype, torch.float32)  # of products, too
        modifiers, heads = (role.flatten(0, 1).to(exact) for role in roles)
        return (modifiers.index_select(0, modifier) * heads.index_select(0, head)).sum(-1).float()


class ArcScores:
    """A parser's own scores of candidate arcs, gathered from the dense matrix if there is one.

    Args:
        scorer: of arcs.
        nodes: vectors of words.
        dense: gives the (B, N, N) scores of all arcs, if they are computed anyway.
    """

    def __init__(self, scorer: ArcScorer, nodes: Nodes, dense: Callable[[], NDArray[np.float32]] | None) -> None:
        self.scorer = scorer
        self.nodes = nodes
        self.dense = dense

    @cached_property
    @torch.no_grad()
    def words(self) -> tuple[Tensor, Tensor]:
        """Nodes as modifiers and as heads, without gradients."""
        return self.scorer.modifier(self.nodes.vectors), self.scorer.head(self.nodes.vectors)

    @cached_property
    def _roles(self) -> tuple[Tensor, Tensor]:
        if "words" in self.__dict__:
            return self.scorer.weigh(self.words[0]), self.words[1]
        return self.scorer.roles(self.nodes.vectors)

    @torch.no_grad()
    def __call__(self, parts: Parts) -> NDArray[np.float32]:
        """(A,) scores of the candidate arcs of parts, without gradients."""
        if self.dense is not None:
            return self.dense()[sentence_of_arcs(parts), parts.modifier, parts.head]
        return self.scorer.score_candidates(self._roles, self.nodes.starts, parts).cpu().numpy()


class LabelScorer(nn.Module):
    """label[m, l] = x_m U_l x_h + v_l [x_m; x_h] + b_l, for one head h of each word m.

    Labels are scored only for given heads, which takes n·L scores instead of n²·L.
    """

    def __init__(self, inputs: int, labels: int, settings: Biaffine) -> None:
        super().__init__()
        self.head = Projection(inputs, settings.label, settings.dropout)
        self.modifier = Projection(inputs, settings.label, settings.dropout)
        self.weight = nn.Parameter(torch.zeros(settings.label + 1, labels * (settings.label + 1)))
        self.labels = labels

    def forward(self, vectors: Tensor, heads: Tensor, words: Tensor | None = None) -> Tensor:
        """Scores of all labels.

        Args:
            vectors: (B, N, inputs).
            heads: (B, N) head of each word; any index at the root and at padding.
            words: (W,) positions to score, among all of them.

        Returns:
            (B, N, L), or (W, L) for W words if these are given.
        """
        head, modifier = self.head(vectors), self.modifier(vectors)
        head = head.gather(1, heads[..., None].expand(-1, -1, head.shape[-1]))
        if words is not None:
            head, modifier = (role.flatten(0, 1).index_select(0, words) for role in (head, modifier))
        weighted = self.weigh(modifier)
        return (
            (weighted * with_one(head).unsqueeze(-2)).sum(-1).float()
        )  # a product of matrices takes four times as long

    @torch.no_grad()
    def score_words(self, vectors: Tensor, modifier: Tensor, head: Tensor) -> Tensor:
        """(W, L) scores of the labels of some words, without gradients.

        Arrays that are L times as large as a vector are computed for one group of words after the other.

        Args:
            vectors: (B, N, inputs).
            modifier: (W,) place of each word among all positions.
            head: (W,) place of its head.
        """
        flat = vectors.flatten(0, 1)
        modifiers, heads = (flat.index_select(0, places)[None] for places in (modifier, head))
        modifiers, heads = self.modifier(modifiers)[0], with_one(self.head(heads)[0])
        scores: Tensor = modifiers.new_empty(len(modifiers), self.labels)
        words = LABELLED.get(vectors.device.type, LABELLED["cuda"])
        for some in zip(*(array.split(words) for array in (scores, modifiers, heads))):
            torch.sum(self.weigh(some[1]).mul_(some[2][:, None]), -1, out=some[0])
        return scores.float()

    def weigh(self, modifier: Tensor) -> Tensor:
        """(..., L, label + 1) factors for the vectors of heads, from the vectors (..., label) of modifiers."""
        weighed: Tensor = product(with_one(modifier), self.weight.t()).unflatten(-1, (self.labels, -1))
        return weighed


def with_one(vectors: Tensor) -> Tensor:
    """Append a 1 to each of the vectors (..., size)."""
    return torch.cat([vectors, torch.ones_like(vectors[..., :1])], -1)
