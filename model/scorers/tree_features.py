"""Scores of features of whole trees, by small layers on the words' vectors.

Zhang et al. (2014), "Greed is Good if Randomized", has them as indicators with weights;
`arbora.decoders.parts.tree_features` says what each of them counts. Here a table of a word (or of a sentence, by the
vector of its root) comes out of a linear layer, whose bias is what the counts score by themselves, and pairs of words
score by low-rank products. Only hill-climbing searches by these, and `rerank` chooses by them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from arbora.decoders.parts.batch import Parts
from arbora.decoders.parts.kinds import TREE_FEATURES
from arbora.decoders.parts.tree_features import RATIOS, SPANS, TENTHS, VALENCIES
from arbora.model.layers import Projection

TABLES: dict[str, int] = {
    "valency": 2 * VALENCIES,
    "span": SPANS,
    "coordination": RATIOS,
    "right_branching": TENTHS,
}
"""Features that are a table for each word, or for each sentence, with its size."""

ROLES: dict[str, int] = {"neighbours": 3, "crossing": 2}
"""Features of two words, with how many roles these have."""


@dataclass(frozen=True)
class TreeFeatures:
    """Settings of the scorers of features of whole trees.

    Args:
        kinds: features that are scored.
        rank: size of the vectors that score them.
        dropout: on these vectors; one mask for all words of a sentence.
    """

    kinds: tuple[str, ...] = TREE_FEATURES
    rank: int = 32
    dropout: float = 0.33

    def __post_init__(self) -> None:
        kinds = tuple(kind for kind in TREE_FEATURES if kind in self.kinds)
        if not kinds or len(kinds) != len(self.kinds):
            names = ", ".join(TREE_FEATURES)
            raise ValueError(f"features.kinds must be some of {names}, each once, got {', '.join(self.kinds)}")
        object.__setattr__(self, "kinds", kinds)


class FeatureScorer(nn.Module):
    """Scores of features, in the order in which `Parts` has them."""

    def __init__(self, inputs: int, settings: TreeFeatures) -> None:
        super().__init__()
        self.kinds = settings.kinds
        self.rank = settings.rank
        sizes = [ROLES.get(kind, 1) for kind in self.kinds]
        self.project = Projection(inputs, sum(sizes) * self.rank, settings.dropout)
        self.sizes = [size * self.rank for size in sizes]
        # Zeros, so that training starts from the model without features.
        self.table = nn.ModuleDict({kind: nn.Linear(self.rank, TABLES[kind]) for kind in self.kinds if kind in TABLES})
        for layer in self.table.values():
            for weight in layer.parameters():
                nn.init.zeros_(weight)
        self.weight = nn.ParameterDict({kind: torch.zeros(self.rank) for kind in self.kinds if kind in ROLES})
        self.end = nn.Parameter(torch.randn(self.rank) * 0.1) if "neighbours" in self.kinds else None

    def forward(self, vectors: Tensor, parts: Parts) -> dict[str, Tensor]:
        """Scores of all features of the sentences of `parts`, (P,) for each type.

        Args:
            vectors: (B, N, inputs) of the root and the words.
            parts: candidate arcs of the same sentences.
        """
        hidden = dict(zip(self.kinds, self.project(vectors).split(self.sizes, -1), strict=True))
        return {kind: self._score(kind, hidden[kind], parts) for kind in self.kinds}

    def _score(self, kind: str, hidden: Tensor, parts: Parts) -> Tensor:
        N = hidden.shape[1]
        if kind == "right_branching":
            scores: Tensor = self.table[kind](hidden[:, 0])
            return scores.flatten()
        if kind in TABLES:
            words = torch.arange(N, device=hidden.device)
            lengths = torch.from_numpy(parts.lengths).to(hidden.device)
            scores = self.table[kind](hidden[(words > 0) & (words <= lengths[:, None])])
            return scores.flatten()
        sentence = np.repeat(np.arange(len(parts.lengths)), np.diff(parts.part_offsets(kind)))
        first, second = parts.words(kind).T
        if kind == "crossing":
            modifier, head = (hidden[..., : self.rank], hidden[..., self.rank :])
            product = (modifier * self.weight[kind]) @ head.transpose(1, 2)  # (B, N, N)
            flat = (sentence * N + first) * N + second
        else:
            assert self.end is not None
            left, right, beside = hidden.unflatten(-1, (3, self.rank)).unbind(2)
            beside = torch.cat([beside, self.end.to(beside.dtype).expand(len(beside), 1, -1)], 1)  # (B, N + 1, rank)
            word = torch.stack([left, right], 1) * self.weight[kind]  # (B, 2, N, rank)
            product = word @ beside[:, None].transpose(2, 3)  # (B, 2, N, N + 1)
            beside_at = np.where(second > parts.lengths[sentence], N, second)
            flat = ((sentence * 2 + (second > first)) * N + first) * (N + 1) + beside_at
        gathered: Tensor = product.flatten().index_select(0, torch.from_numpy(flat).to(hidden.device))
        return gathered
