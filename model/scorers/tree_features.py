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
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from arbora.decoders.parts.batch import Parts
from arbora.decoders.parts.kinds import TREE_FEATURES
from arbora.decoders.parts.tree_features import CROSSINGS, LENGTHS, NEIGHBOURS, TAILS, VALENCIES
from arbora.model.layers import Projection
from arbora.model.tensors import upload

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
        places = {kind: self._places(kind, parts, vectors.shape[1]) for kind in self.kinds}
        there = iter(upload([array for arrays in places.values() for array in arrays], vectors.device))
        return {kind: self._score(kind, hidden[kind], *islice(there, len(places[kind]))) for kind in self.kinds}

    def _places(self, kind: str, parts: Parts, N: int) -> list[NDArray[Any]]:
        """Return what `_score` needs to know of the parts of a kind: places among all B N positions, and others."""
        B = len(parts.lengths)
        if kind == "right_branching":
            positions = parts.lengths + 1
            path = 1 + parts.words(kind)[:, 0]  # with the root, as are the positions
            return [np.repeat(np.arange(B), positions), path, np.repeat(positions, positions)]
        if kind in TABLES:
            word = np.arange(N)
            return [np.flatnonzero((word > 0) & (word <= parts.lengths[:, None]))]
        if kind in ("crossing", "neighbours"):
            first = np.repeat(np.arange(B) * N, np.diff(parts.sentence_offsets))
            return [first + parts.modifier, first + parts.head]
        words = np.flatnonzero(np.diff(parts.block_offsets(kind)))  # that have a block
        sentence = np.searchsorted(parts.word_offsets, words, side="right") - 1
        number = np.repeat(np.arange(len(words)), np.diff(parts.block_offsets(kind))[words])
        _, one, two = parts.words(kind).T
        place = sentence * N + words - parts.word_offsets[sentence] + 1
        return [sentence, place, (number * N + one) * N + two]

    def _score(self, kind: str, hidden: Tensor, *places: Tensor) -> Tensor:
        if kind == "right_branching":
            sentence, path, positions = places
            weight: Tensor = self.table[kind](hidden[:, 0]).squeeze(1)[sentence]
            return weight * path.to(weight) / positions
        if kind in TABLES:
            scores: Tensor = self.table[kind](hidden.flatten(0, 1)[places[0]])
            return scores.flatten()
        roles = hidden.unflatten(-1, (ROLES[kind], self.rank)).unbind(2)
        if kind in ("crossing", "neighbours"):
            modifier, head, *alone = (role.flatten(0, 1) for role in roles)
            arc = modifier[places[0]] * head[places[1]]  # (A, rank)
            if kind == "crossing":
                scores = self.table[kind](arc)
                return scores.flatten()
            tags = (self.left[:, None] * self.right).flatten(0, 1).to(arc.dtype)  # (T T, rank)
            joint: Tensor = (arc + alone[0][places[0]]) @ tags.T
            return joint.flatten()
        sentence, place, entries = places
        marker, one, two = roles
        middle = marker.flatten(0, 1)[place] * self.weight[kind]  # (C, rank)
        product = (one[sentence] * middle[:, None]) @ two[sentence].transpose(1, 2)  # (C, N, N)
        gathered: Tensor = product.flatten().index_select(0, entries)
        return gathered

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *arguments: Any) -> None:
        """Raise an error for weights from versions whose features did not follow RBGParser."""
        own = self.state_dict(prefix=prefix)
        shapes = {name: weight.shape for name, weight in state_dict.items() if name.startswith(prefix)}
        if shapes != {name: weight.shape for name, weight in own.items()}:
            raise ValueError("its tree features are those of an earlier version of arbora: train the parser again")
        super()._load_from_state_dict(state_dict, prefix, *arguments)
