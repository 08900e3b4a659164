"""Scores of tree features, by small layers on the words' vectors.

In Zhang et al. (2014), "Greed is Good if Randomized", tree features are indicators with weights;
`arbora.decoders.parts.tree_features` describes each of them. Here a linear layer computes the scores of a word's table;
its bias holds the scores that do not depend on the word. Features of several words are scored by low-rank products of
their vectors, and the tags next to a span by embeddings. Right-branching has a single weight, computed from the vector
of the root, which is multiplied by the share of words on the last path. Only hill-climbing searches by tree features;
`rerank` chooses by them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from arbora.decoders.parts.batch import Parts
from arbora.decoders.parts.kinds import TREE_FEATURES
from arbora.decoders.parts.tree_features import CROSSINGS, LENGTHS, NEIGHBOURS, TAILS, VALENCIES
from arbora.model.layers import Projection

TABLES: dict[str, int] = {"valency": VALENCIES * VALENCIES, "span": LENGTHS * TAILS}
"""Kinds that are a table for each word, with its size."""

LAYERS: dict[str, int] = {**TABLES, "crossing": CROSSINGS, "right_branching": 1}
"""Kinds that end in a linear layer, with its size."""

ROLES: dict[str, int] = {"neighbours": 3, "crossing": 2, "coordination": 3, "conjunct": 3}
"""Kinds of several words, with how many roles these have."""


@dataclass(frozen=True)
class TreeFeatures:
    """Settings of the scorers of tree features.

    Args:
        kinds: tree features to score.
        rank: size of the vectors that score them.
        dropout: dropout on these vectors; one mask for all words of a sentence.
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
    """Scores of tree features, in the order in which `Parts` has them."""

    def __init__(self, inputs: int, settings: TreeFeatures) -> None:
        super().__init__()
        self.kinds = settings.kinds
        self.rank = rank = settings.rank
        self.sizes = [ROLES.get(kind, 1) * rank for kind in self.kinds]
        self.project = Projection(inputs, sum(self.sizes), settings.dropout)
        # Weights that make all scores 0, so that training starts from the model without features.
        self.table = nn.ModuleDict({kind: nn.Linear(rank, LAYERS[kind]) for kind in self.kinds if kind in LAYERS})
        for layer in self.table.values():
            for parameter in layer.parameters():
                nn.init.zeros_(parameter)
        pairs = ("coordination", "conjunct")
        self.weight = nn.ParameterDict({kind: torch.zeros(rank) for kind in self.kinds if kind in pairs})
        if "neighbours" in self.kinds:
            self.left = nn.Parameter(torch.randn(NEIGHBOURS, rank) * 0.1)
            self.right = nn.Parameter(torch.zeros(NEIGHBOURS, rank))

    def forward(self, vectors: Tensor, parts: Parts) -> dict[str, Tensor]:
        """Scores of all features of the sentences of `parts`, (P,) for each kind.

        Args:
            vectors: (B, N, inputs) of the root and the words.
            parts: candidate arcs of the same sentences, with tags.
        """
        hidden = dict(zip(self.kinds, self.project(vectors).split(self.sizes, -1), strict=True))
        return {kind: self._score(kind, hidden[kind], parts) for kind in self.kinds}

    def _score(self, kind: str, hidden: Tensor, parts: Parts) -> Tensor:
        N = hidden.shape[1]
        if kind == "right_branching":
            positions = torch.from_numpy(parts.lengths + 1).to(hidden.device)
            weight: Tensor = self.table[kind](hidden[:, 0]).squeeze(1).repeat_interleave(positions)
            path = torch.from_numpy(1 + parts.words(kind)[:, 0]).to(weight)  # with the root, as are the positions
            shares: Tensor = weight * path / positions.repeat_interleave(positions)
            return shares
        if kind in TABLES:
            words = torch.arange(N, device=hidden.device)
            lengths = torch.from_numpy(parts.lengths).to(hidden.device)
            scores: Tensor = self.table[kind](hidden[(words > 0) & (words <= lengths[:, None])])
            return scores.flatten()
        roles = hidden.unflatten(-1, (ROLES[kind], self.rank)).unbind(2)
        if kind in ("crossing", "neighbours"):
            first = np.repeat(np.arange(len(parts.lengths)) * N, np.diff(parts.sentence_offsets))
            at = [torch.from_numpy(first + position).to(hidden.device) for position in (parts.modifier, parts.head)]
            modifier, head, *alone = (role.flatten(0, 1) for role in roles)
            arc = modifier[at[0]] * head[at[1]]  # (A, rank)
            if kind == "crossing":
                scores = self.table[kind](arc)
                return scores.flatten()
            tags = (self.left[:, None] * self.right).flatten(0, 1).to(arc.dtype)  # (T T, rank)
            joint: Tensor = (arc + alone[0][at[0]]) @ tags.T
            return joint.flatten()
        sentence, word, number, first, second = self._blocks(kind, parts)
        marker, one, two = roles
        middle = marker[sentence, word] * self.weight[kind]  # (C, rank)
        product = (one[sentence] * middle[:, None]) @ two[sentence].transpose(1, 2)  # (C, N, N)
        places = torch.from_numpy((number * N + first) * N + second).to(hidden.device)
        gathered: Tensor = product.flatten().index_select(0, places)
        return gathered

    def _blocks(self, kind: str, parts: Parts) -> tuple[NDArray[np.int64], ...]:
        """Sentence and position of each word that has a block, then the block and the two positions of each entry."""
        words = np.flatnonzero(np.diff(parts.block_offsets(kind)))
        sentence = np.searchsorted(parts.word_offsets, words, side="right") - 1
        number = np.repeat(np.arange(len(words)), np.diff(parts.block_offsets(kind))[words])
        _, first, second = parts.words(kind).T
        return sentence, words - parts.word_offsets[sentence] + 1, number, first, second

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *arguments: Any) -> None:
        """Raise an error for weights from versions whose features did not follow RBGParser."""
        own = self.state_dict(prefix=prefix)
        shapes = {name: weight.shape for name, weight in state_dict.items() if name.startswith(prefix)}
        if shapes != {name: weight.shape for name, weight in own.items()}:
            raise ValueError("its tree features are those of an earlier version of arbora: train the parser again")
        super()._load_from_state_dict(state_dict, prefix, *arguments)
