"""Taggers: classifiers of UPOS, XPOS, FEATS and lemma rules on the parser's own encoder.

All columns share one hidden layer and have one softmax each. Whole FEATS columns are classes, as in UDPipe 2 (Straka,
2018), and so are lemma rules (`arbora.data.lemma_rules`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from arbora.data.vocabulary import TAGS, Vocabulary
from arbora.model.layers import Linear, Projection


@dataclass(frozen=True)
class Taggers:
    """Settings of the taggers. Each column has a weight for its loss, relative to the loss of trees; 0 leaves it out.

    Columns that the training part does not have are left out, too.

    Args:
        upos: weight of universal tags.
        xpos: weight of language-specific tags.
        feats: weight of morphological features.
        lemmas: weight of lemmas.
        size: size of the hidden layer.
        dropout: dropout on the hidden layer; one mask for all words of a sentence.
        layer: layer of a recurrent encoder that the taggers read, from 1; by default, the last.
    """

    upos: float = 1.0
    xpos: float = 0.5
    feats: float = 1.0
    lemmas: float = 0.5
    size: int = 200
    dropout: float = 0.33
    layer: int | None = None

    def __post_init__(self) -> None:
        for name in TAGS:
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"taggers.{name} must be a weight of 0 or more, got {getattr(self, name)}")


class Predicted(NamedTuple):
    """Tags of one column."""

    classes: Tensor  # (W,) best class of each word
    probability: Tensor | None  # (W,) of each, if asked for


class TagScorer(nn.Module):
    """Scores of the classes of each column."""

    def __init__(self, inputs: int, settings: Taggers, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.weights = {name: weight for name in TAGS if (weight := getattr(settings, name))}
        self.sizes = {name: size for name in self.weights if (size := len(vocabulary.tag_classes[name]))}
        self.layer = settings.layer
        self.project = Projection(inputs, settings.size, settings.dropout)
        self.classify = nn.ModuleDict({name: Linear(settings.size, size) for name, size in self.sizes.items()})

    def forward(self, hidden: Tensor) -> dict[str, Tensor]:
        """(..., classes) scores of each column, from (..., size) of `project`."""
        return {name: layer(hidden) for name, layer in self.classify.items()}

    def losses(self, vectors: Tensor, targets: Tensor, places: Tensor) -> dict[str, Tensor]:
        """Cross-entropy of each column, weighted and summed over the words that have a class.

        Args:
            vectors: (B, N, inputs).
            targets: (4, B, N) classes, negative where there is none.
            places: (W,) of the words among all positions.
        """
        scores = self(self.project(vectors).flatten(0, 1).index_select(0, places))
        of_words = targets.flatten(1).index_select(1, places).clamp(min=-1)
        found = {}
        for name, of_column in scores.items():
            target = of_words[TAGS.index(name)]
            loss = F.cross_entropy(of_column.float(), target, ignore_index=-1, reduction="sum")
            found[name] = self.weights[name] * loss
        return found

    @torch.no_grad()
    def predict(self, vectors: Tensor, probabilities: bool = False) -> dict[str, Predicted]:
        """Best classes of words, by column.

        Args:
            vectors: (W, inputs).
            probabilities: compute these too.
        """
        found = {}
        for name, scores in self(self.project(vectors)).items():
            best = scores.float().max(-1)
            probability = (best.values - scores.float().logsumexp(-1)).exp() if probabilities else None
            found[name] = Predicted(best.indices, probability)
        return found
