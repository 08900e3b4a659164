"""Pruners: what leaves a few candidate heads for each word before parts are scored.

Koo and Collins (2010) prune by the marginals of a first-order model; here they come from a small scorer on the parser's
own encoder, or from a parser that was trained before. `arbora.model.pruners.vine` has a pruner of several stages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from arbora.data.batch import Batch
from arbora.data.vocabulary import Vocabulary
from arbora.decoders import Decoder, Parts
from arbora.decoders.pruning import prune
from arbora.model import losses
from arbora.model.encoders.lstm import Encoder
from arbora.model.scorers.biaffine import ArcScorer, ArcScores, Biaffine
from arbora.model.storage.folder import read_parser

Reduce = Callable[[Tensor, str], Tensor]
"""Takes the `sum` or the `mean` of a tensor over devices."""


class Pruning(nn.Module, ABC):
    """A pruner of a parser, as `Pruner.build` makes it."""

    learns = False  # beside the parser, by `loss`
    tunes = False  # by `tune`

    def save_files(self, folder: Path) -> None:
        """Write what the pruner needs beside its weights into a folder, which it makes; `Pruner.build` reads it."""

    def is_sparse(self, decoder: Decoder) -> bool:
        """Whether it leaves so few arcs for a decoder that a parser should score these alone, and never all of them."""
        return False

    @abstractmethod
    def prepare(self, vectors: Tensor, batch: Batch, own: ArcScores) -> Any:
        """What other methods take as scores.

        Args:
            vectors: (B, N, size) a parser's, of words.
            batch: of sentences.
            own: the parser's own scores of arcs, and vectors of words as it has them for these.
        """

    @abstractmethod
    def candidates(
        self, scores: Any, lengths: NDArray[np.integer], decoder: Decoder, keep: NDArray[np.integer] | None = None
    ) -> Parts:
        """Candidate arcs for a decoder, a tree among them; their scores do not matter.

        Args:
            scores: from `prepare`.
            lengths: (B,) words of each sentence.
            decoder: says whether trees have one root, and whether they may cross.
            keep: (B, N) heads that are kept too.
        """

    def loss(self, scores: Any, batch: Batch, decoder: Decoder) -> Tensor:
        """What a pruner learns by, summed over words; 0 if it does not.

        Args:
            scores: from `prepare`.
            batch: with gold heads.
            decoder: the one for which it prunes.
        """
        return batch.lengths.new_zeros((), dtype=torch.float32)

    def tune(self, batches: Sequence[Any], decoder: Decoder, reduce: Reduce) -> None:
        """Set what is set without training, by the development part.

        Args:
            batches: what `prepare` gave for each of them.
            decoder: the one for which it prunes.
            reduce: over devices.
        """

    def watch(self) -> None:
        """Start to look at what is pruned of a treebank's part; pruners with nothing to tell do not."""

    def figures(self, reduce: Reduce) -> dict[str, float]:
        """What was seen since `watch`, by names for a log.

        Args:
            reduce: over devices.
        """
        return {}


class MarginalPruning(Pruning):
    """Prunes by the marginals of scores of all arcs."""

    learns = True

    def __init__(self, settings: MarginalPruner) -> None:
        super().__init__()
        self.max_heads = settings.max_heads
        self.ratio = settings.ratio

    @abstractmethod
    def forward(self, vectors: Tensor, batch: Batch) -> Tensor:
        """Scores of arcs, (B, N, N), from a parser's vectors of words or from the batch itself."""

    def prepare(self, vectors: Tensor, batch: Batch, own: ArcScores) -> Any:
        return self(vectors, batch)

    def candidates(
        self, scores: Any, lengths: NDArray[np.integer], decoder: Decoder, keep: NDArray[np.integer] | None = None
    ) -> Parts:
        dense = scores.detach().cpu().numpy()
        mask = prune(dense, lengths, self.max_heads, self.ratio, decoder.single_root, decoder.projective, keep)
        return Parts.from_dense(dense, lengths, mask)

    def loss(self, scores: Any, batch: Batch, decoder: Decoder) -> Tensor:
        return losses.head_cross_entropy(scores, batch.heads)


class Pruner(ABC):
    """Settings of a pruner."""

    @abstractmethod
    def build(self, vocabulary: Vocabulary, inputs: int, files: Path | None = None) -> Pruning:
        """The pruner for a parser with this vocabulary and with word vectors of this size.

        Args:
            vocabulary: of the training part.
            inputs: size of the parser's word vectors.
            files: folder that `Pruning.save_files` wrote, if the weights are loaded afterwards.
        """

    def portable(self) -> Pruner:
        """The same settings without anything that is read from elsewhere, for a checkpoint that has the weights."""
        return self


@dataclass(frozen=True)
class Everything(Pruner):
    """Keeps all arcs. Parts of second order are then some n^3 a sentence, those of third order some n^4."""

    def build(self, vocabulary: Vocabulary, inputs: int, files: Path | None = None) -> Pruning:
        return _NoPruning()


class _NoPruning(Pruning):
    def prepare(self, vectors: Tensor, batch: Batch, own: ArcScores) -> int:
        return vectors.shape[1]

    def candidates(
        self, scores: Any, lengths: NDArray[np.integer], decoder: Decoder, keep: NDArray[np.integer] | None = None
    ) -> Parts:
        return Parts.from_dense(np.zeros((len(lengths), scores, scores), dtype=np.float32), lengths)


@dataclass(frozen=True)
class MarginalPruner(Pruner):
    """Settings of pruning by marginals.

    Args:
        max_heads: most candidate heads of a word, beside that in the pruner's best tree.
        ratio: heads less probable than this times the word's most probable one are left out.
    """

    max_heads: int = 10
    ratio: float = 1e-4

    def __post_init__(self) -> None:
        if self.max_heads < 1 or not 0 <= self.ratio <= 1:
            raise ValueError(
                f"pruner.max_heads must be at least 1 and pruner.ratio in 0..1, got {self.max_heads} and {self.ratio}"
            )


@dataclass(frozen=True)
class Shared(MarginalPruner):
    """A small arc scorer on the parser's own encoder, trained beside it by cross-entropy.

    Its loss does not reach the encoder, so that a pruner changes nothing else in the parser.

    Args:
        max_heads: most candidate heads of a word, beside that in the pruner's best tree.
        ratio: heads less probable than this times the word's most probable one are left out.
        scorer: its size; labels are not scored.
    """

    scorer: Biaffine = Biaffine(arc=100)  # noqa: RUF009 - settings are frozen

    def build(self, vocabulary: Vocabulary, inputs: int, files: Path | None = None) -> Pruning:
        return _SharedPruning(self, inputs)


class _SharedPruning(MarginalPruning):
    def __init__(self, settings: Shared, inputs: int) -> None:
        super().__init__(settings)
        self.arc = ArcScorer(inputs, settings.scorer)

    def forward(self, vectors: Tensor, batch: Batch) -> Tensor:
        scores: Tensor = self.arc(vectors.detach(), batch.lengths)
        return scores


@dataclass(frozen=True)
class Frozen(MarginalPruner):
    """A parser that was trained before, on the same training part, and does not change any more.

    Args:
        max_heads: most candidate heads of a word, beside that in the pruner's best tree.
        ratio: heads less probable than this times the word's most probable one are left out.
        checkpoint: file of the trained parser. The new parser's checkpoints hold its weights: only training reads it.
        encoder: that of the trained parser; taken from the checkpoint.
        scorer: likewise.
    """

    checkpoint: str | None = None
    encoder: Encoder | None = None
    scorer: Biaffine | None = None

    def build(self, vocabulary: Vocabulary, inputs: int, files: Path | None = None) -> Pruning:
        if self.checkpoint is None:
            return _FrozenPruning(self, vocabulary, files)
        checkpoint = read_parser(self.checkpoint)
        if checkpoint.vocabulary != vocabulary.as_dict():
            raise ValueError(f"{self.checkpoint}: trained on another training part than --data.train: use the same")
        with checkpoint.unpacked() as folder:
            pruning = _FrozenPruning(self.portable(), vocabulary, folder and folder / "encoder")
        weights = {name: weight for name, weight in checkpoint.weights.items() if name.startswith(("encoder.", "arc."))}
        pruning.load_state_dict(weights)
        return pruning

    def portable(self) -> Frozen:
        if self.checkpoint is None:
            return self
        settings = read_parser(self.checkpoint).settings
        return replace(self, checkpoint=None, encoder=settings["encoder"], scorer=settings["scorer"])


class _FrozenPruning(MarginalPruning):
    learns = False

    def __init__(self, settings: Frozen, vocabulary: Vocabulary, files: Path | None) -> None:
        super().__init__(settings)
        if settings.encoder is None or settings.scorer is None:
            raise ValueError("pruner.checkpoint must name a trained parser")
        self.encoder = settings.encoder.build(vocabulary, files)
        self.arc = ArcScorer(self.encoder.size, settings.scorer)
        self.requires_grad_(False).eval()

    def train(self, mode: bool = True) -> _FrozenPruning:
        super().train(False)  # frozen: no dropout, whatever the parser does
        return self

    def save_files(self, folder: Path) -> None:
        self.encoder.save_files(folder)

    def forward(self, vectors: Tensor, batch: Batch) -> Tensor:
        scores: Tensor = self.arc(self.encoder(batch), batch.lengths)
        return scores
