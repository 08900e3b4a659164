"""Pruners by marginals, which keep a few candidate heads for each word before parts are scored.

Koo and Collins (2010) prune by the marginals of a first-order model. Here the model is a small scorer on the parser's
own encoder, or a parser that was trained before. `arbora.model.pruners.vine` has a pruner of several stages, and
`arbora.model.pruners.settings` the settings of all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from arbora.data.batch import Batch
from arbora.data.vocabulary import Vocabulary
from arbora.decoders import Decoder, Parts
from arbora.decoders.pruning import prune
from arbora.model import losses
from arbora.model.scorers.biaffine import ArcScorer, ArcScores

if TYPE_CHECKING:  # settings build these modules, and so import them
    from arbora.model.pruners.settings import Frozen, MarginalSettings, Shared

Reduce = Callable[[Tensor, str], Tensor]
"""Takes the `sum` or the `mean` of a tensor over devices."""


class Pruner(nn.Module, ABC):
    """A pruner of a parser, as `PrunerSettings.build` makes it."""

    learns = False  # next to the parser, by `loss`
    tunes = False  # by `tune`
    phases = 1  # of training, each with an equal number of epochs
    reads_tags = False  # of the words of a batch

    def save_files(self, folder: Path) -> None:
        """Write files that the pruner needs besides its weights into a new folder; `PrunerSettings.build` reads it."""

    def is_sparse(self, decoder: Decoder) -> bool:
        """Return whether it leaves so few arcs for a decoder that a parser should score only these."""
        return False

    @abstractmethod
    def prepare(self, vectors: Tensor, batch: Batch[Tensor], arc_scores: ArcScores) -> Any:
        """Compute the argument `scores` of the other methods.

        Args:
            vectors: (B, N, size) of words, from the parser.
            batch: of sentences.
            arc_scores: the parser's own scores of arcs, and the vectors of words behind them.
        """

    def scores_candidates(self, decoder: Decoder, keep: NDArray[np.integer] | None = None) -> bool:
        """Return whether the arcs from `candidates` with these arguments already have the parser's own scores."""
        return False

    @abstractmethod
    def candidates(
        self, scores: Any, lengths: NDArray[np.integer], decoder: Decoder, keep: NDArray[np.integer] | None = None
    ) -> Parts:
        """Return candidate arcs for a decoder, which contain a tree; their scores matter only if `scores_candidates`.

        A pruner may also forbid pairs of siblings, by -inf in `sibling`; the other pairs are 0.

        Args:
            scores: from `prepare`; if that is a tensor, its array.
            lengths: (B,) words of each sentence.
            decoder: its settings decide whether trees have one root word, and whether arcs may cross.
            keep: (B, N) heads that are also kept.
        """

    def loss(self, scores: Any, batch: Batch[Tensor], decoder: Decoder) -> Tensor:
        """Compute the loss of the pruner, summed over words; 0 if it is not trained.

        Args:
            scores: from `prepare`.
            batch: with gold heads.
            decoder: the decoder for which it prunes.
        """
        return batch.lengths.new_zeros((), dtype=torch.float32)

    def start_phase(self, phase: int) -> None:
        """Prepare for a phase of training, counted from 0."""

    def tune(self, batches: Sequence[Any], decoder: Decoder, reduce: Reduce) -> None:
        """Tune thresholds on the development part, without training.

        Args:
            batches: the results of `prepare` for each batch.
            decoder: the decoder for which it prunes.
            reduce: over devices.
        """

    def watch(self) -> None:
        """Start to collect figures of the arcs that are pruned, if the pruner reports any."""

    def figures(self, reduce: Reduce) -> dict[str, float]:
        """Return the figures collected since `watch`, by their names in the log.

        Args:
            reduce: over devices.
        """
        return {}


class MarginalPruner(Pruner):
    """Prunes by the marginals of scores of all arcs."""

    learns = True

    def __init__(self, settings: MarginalSettings) -> None:
        super().__init__()
        self.max_heads = settings.max_heads
        self.ratio = settings.ratio

    @abstractmethod
    def forward(self, vectors: Tensor, batch: Batch[Tensor]) -> Tensor:
        """Scores of arcs, (B, N, N), from a parser's vectors of words or from the batch itself."""

    def prepare(self, vectors: Tensor, batch: Batch[Tensor], arc_scores: ArcScores) -> Any:
        return self(vectors, batch)

    def candidates(
        self, scores: Any, lengths: NDArray[np.integer], decoder: Decoder, keep: NDArray[np.integer] | None = None
    ) -> Parts:
        mask = prune(scores, lengths, self.max_heads, self.ratio, decoder.single_root, decoder.projective, keep)
        return Parts.from_dense(scores, lengths, mask)

    def loss(self, scores: Any, batch: Batch[Tensor], decoder: Decoder) -> Tensor:
        return losses.head_cross_entropy(scores, batch.heads)


class KeepEverything(Pruner):
    def prepare(self, vectors: Tensor, batch: Batch[Tensor], arc_scores: ArcScores) -> int:
        return vectors.shape[1]

    def candidates(
        self, scores: Any, lengths: NDArray[np.integer], decoder: Decoder, keep: NDArray[np.integer] | None = None
    ) -> Parts:
        return Parts.from_dense(np.zeros((len(lengths), scores, scores), dtype=np.float32), lengths)


class SharedPruner(MarginalPruner):
    def __init__(self, settings: Shared, inputs: int) -> None:
        super().__init__(settings)
        self.arc = ArcScorer(inputs, settings.scorer)
        self.matrix_tree = settings.loss == "matrix_tree"

    def loss(self, scores: Any, batch: Batch[Tensor], decoder: Decoder) -> Tensor:
        if not self.matrix_tree:
            return super().loss(scores, batch, decoder)
        heads, lengths = (torch.from_numpy(array) for array in (batch.on_host.heads, batch.on_host.lengths))
        return losses.crf(scores, heads, lengths, decoder.single_root, projective=False)[0]

    def forward(self, vectors: Tensor, batch: Batch[Tensor]) -> Tensor:
        scores: Tensor = self.arc(vectors.detach(), batch.lengths)
        return scores


class FrozenPruner(MarginalPruner):
    learns = False

    def __init__(self, settings: Frozen, vocabulary: Vocabulary, files: Path | None) -> None:
        super().__init__(settings)
        if settings.encoder is None or settings.scorer is None:
            raise ValueError("pruner.checkpoint must name a trained parser")
        self.encoder = settings.encoder.build(vocabulary, files)
        self.arc = ArcScorer(self.encoder.size, settings.scorer)
        self.requires_grad_(False).eval()

    def train(self, mode: bool = True) -> FrozenPruner:
        super().train(False)  # frozen, so without dropout even when the parser is trained
        return self

    def save_files(self, folder: Path) -> None:
        self.encoder.save_files(folder)

    def forward(self, vectors: Tensor, batch: Batch[Tensor]) -> Tensor:
        scores: Tensor = self.arc(self.encoder(batch), batch.lengths)
        return scores
