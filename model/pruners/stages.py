"""Stages of a cascade: light scorers of arcs, and their losses.

`arbora.model.pruners.vine` puts stages after one another. A stage has either the arcs of a vine (`VineScorer`) or
candidate arcs (`CandidateScorer`); `arbora.decoders.vine.searches` says what an arc is worth by these scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from arbora.decoders import Parts
from arbora.decoders.vine.searches import Search
from arbora.model import losses
from arbora.model.layers import Projection
from arbora.model.scorers.biaffine import ArcScorer, Biaffine, Nodes
from arbora.model.scorers.multilinear import Multilinear, PartScorer, Vectors
from arbora.model.scorers.products import score_near
from arbora.model.tensors import numbers, upload

StageName = Literal["dictionary", "local_short", "vine", "local", "first", "own", "second"]
STAGES: tuple[StageName, ...] = ("dictionary", "local_short", "vine", "local", "first", "own", "second")


class VineScorer(nn.Module):
    """Scores of a vine: for a word m and its close head h = m + d,  x_m U x_h + u x_h + v_d x_m,  and outer arcs by the
    vector of the one word that is known. Words are given as heads and modifiers, or else projected to these.
    """

    def __init__(self, inputs: int, band: int, size: int, dropout: float, projected: bool = False) -> None:
        super().__init__()
        self.band = band
        if not projected:
            self.head = Projection(inputs, size, dropout)
            self.modifier = Projection(inputs, size, dropout)
        self.weight = nn.Parameter(torch.zeros(size + 1, size))
        self.of_modifier = nn.Linear(size, 2 * band + 2)  # distances of close heads, and outer heads of both sides
        self.of_head = nn.Linear(size, 2)  # outer modifiers of both sides
        nn.init.zeros_(self.of_modifier.weight)
        nn.init.zeros_(self.of_head.weight)

    def forward(
        self, nodes: Nodes, lengths: NDArray[np.integer], words: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Scores as `Indices` has them, of sentences of these lengths (B,); nothing here is larger than B N size.

        Args:
            nodes: of the sentences.
            lengths: (B,) words of each.
            words: nodes as modifiers and as heads, if they are projected already.
        """
        b = self.band
        modifier, head = words or (self.modifier(nodes.vectors), self.head(nodes.vectors))  # (B, N, size)
        N, rows = head.shape[1], F.linear(modifier, self.weight[:-1].t(), self.weight[-1])
        if rows.requires_grad or rows.device.type != "cpu":
            near = F.pad(head, (0, 0, b, b))
            nearby = [near[:, b + d : b + d + N] for d in (*range(-b, 0), *range(1, b + 1))]  # (B, N, size) each
            products = torch.stack([(rows * heads).sum(-1) for heads in nearby], -1)  # (B, N, 2b)
        else:  # words beyond the end of a sentence are never heads
            products = torch.from_numpy(score_near(numbers(rows), numbers(head), b)).view(*head.shape[:2], 2 * b)
        distances, outer_head = self.of_modifier(modifier).split([2 * b, 2], -1)
        count = lengths + np.int64(1)
        first = np.cumsum(count) - count  # of nodes, sentence after sentence
        scores = [score.flatten(0, 1) for score in (products + distances, outer_head, self.of_head(head))]
        every = np.arange(count.sum())
        place, at = upload([every + np.repeat(nodes.starts - first, count), np.delete(every, first)], rows.device)
        if len(place) < len(scores[0]):  # there is padding
            scores = [score.index_select(0, place) for score in scores]
        close, outer = (score.index_select(0, at).float() for score in scores[:2])
        return close, outer, scores[2].float()


class Roles(NamedTuple):
    """Words in the roles of a stage with candidate arcs."""

    arc: tuple[Tensor, Tensor]  # as `ArcScorer.roles` gives them
    siblings: Vectors | None


class CandidateScorer(nn.Module):
    """Scores only candidate arcs, as `ArcScorer` does, and their siblings if asked for."""

    def __init__(
        self, inputs: int, size: int, dropout: float, sibling_rank: int | None = None, projected: bool = False
    ) -> None:
        super().__init__()
        self.arc = ArcScorer(inputs, Biaffine(arc=size, dropout=dropout), projected)
        siblings = None if sibling_rank is None else Multilinear(("sibling",), sibling_rank, dropout)
        self.siblings = None if siblings is None else PartScorer(inputs, siblings)

    def forward(self, vectors: Tensor, words: tuple[Tensor, Tensor] | None = None) -> Roles:
        """Words (B, N, inputs), or (1, W + B, inputs) without padding, in their roles.

        Args:
            vectors: of the words.
            words: the same as modifiers and as heads, if they are projected already.
        """
        arc = self.arc.roles(vectors) if words is None else (self.arc.weigh(words[0]), words[1])
        return Roles(arc, None if self.siblings is None else self.siblings(vectors))

    def score(self, roles: Roles, starts: NDArray[np.int64], parts: Parts) -> tuple[Tensor, ...]:
        """Scores of candidate arcs, (A,), and of siblings; (B,) `starts` are those of the nodes."""
        arcs = self.arc.score_candidates(roles.arc, starts, parts)
        if self.siblings is None or roles.siblings is None:
            return (arcs,)
        scores = self.siblings.score(roles.siblings, self.siblings.places(parts, arcs.device))
        return arcs, scores["sibling"].float()


def stage_loss(search: Search, scores: Sequence[Tensor], trees: NDArray[np.integer]) -> Tensor:
    """Filter loss, negative log-likelihood or logistic loss of projective trees (B, N), summed over sentences.

    Args:
        search: with these scores.
        scores: that take gradients.
        trees: gold.
    """
    assert search.judgement != "heads"
    if search.judgement == "classifier":
        found = []
        for score, there, fires in zip(scores, search.there, search.fires(trees)):
            some, target = upload([np.flatnonzero(there), fires[there]], score.device)
            judged = score.flatten()[some]
            found.append(F.binary_cross_entropy_with_logits(judged, target.to(judged), reduction="sum"))
        return torch.stack(found).sum()
    margin = 1.0 if search.judgement == "max_marginal" else 0.0
    return losses.margins(scores, search.sentences, search.fires(trees), search.threshold, margin)
