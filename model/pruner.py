"""Pruners: first-order scores of their own that leave a few candidate heads for each word.

Koo and Collins (2010) prune by the marginals of a first-order model; here they come from a small scorer on the parser's
own encoder, or from a parser that was trained before. `arbora.model.cascade` has a pruner of several stages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from arbora.data.batch import Batch
from arbora.data.vocabulary import Vocabulary
from arbora.decoders import Decoder
from arbora.decoders.pruning import prune
from arbora.model import losses
from arbora.model.biaffine import ArcScorer, Biaffine
from arbora.model.encoders import Encoder
from arbora.model.folder import read_parser


class Pruning(nn.Module, ABC):
    """A pruner of a parser, as `Pruner.build` makes it."""

    learns: bool  # beside the parser, by `loss`

    def __init__(self, settings: Pruner) -> None:
        super().__init__()
        self.max_heads = settings.max_heads
        self.ratio = settings.ratio

    @abstractmethod
    def forward(self, vectors: Tensor, batch: Batch) -> Tensor:
        """Scores of arcs, (B, N, N), from a parser's vectors of words or from the batch itself."""

    def save_files(self, folder: Path) -> None:
        """Write what the pruner needs beside its weights into a folder, which it makes; `Pruner.build` reads it."""

    def prepare(self, vectors: Tensor, batch: Batch) -> Any:
        """What `mask` and `loss` take as scores: those of all arcs, unless a pruner has more than these."""
        return self(vectors, batch)

    def mask(
        self, scores: Any, lengths: NDArray[np.integer], decoder: Decoder, keep: NDArray[np.integer] | None = None
    ) -> NDArray[np.bool_]:
        """Candidate arcs (B, N, N) for a decoder, by the marginals of `scores`; `keep` (B, N) heads are kept too."""
        dense = scores.detach().cpu().numpy()
        return prune(dense, lengths, self.max_heads, self.ratio, decoder.single_root, decoder.projective, keep)

    def loss(self, scores: Any, batch: Batch, decoder: Decoder) -> Tensor:
        """What a pruner learns by, summed over words; by cross-entropy unless it says otherwise.

        Args:
            scores: from `prepare`.
            batch: with gold heads.
            decoder: the one for which it prunes.
        """
        return losses.head_cross_entropy(scores, batch.heads)

    def watch(self) -> None:
        """Start to look at what is pruned of a treebank's part; pruners with nothing to tell do not."""

    def figures(self, reduce: Callable[[Tensor, str], Tensor], tune: bool) -> dict[str, float]:
        """What was seen since `watch`, by names for a log.

        Args:
            reduce: takes the `sum` or the `mean` of a tensor over devices.
            tune: set by it what can be set without training.
        """
        return {}


@dataclass(frozen=True)
class Pruner(ABC):
    """Settings of what all pruners share.

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
class Shared(Pruner):
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


class _SharedPruning(Pruning):
    learns = True

    def __init__(self, settings: Shared, inputs: int) -> None:
        super().__init__(settings)
        self.arc = ArcScorer(inputs, settings.scorer)

    def forward(self, vectors: Tensor, batch: Batch) -> Tensor:
        scores: Tensor = self.arc(vectors.detach(), batch.lengths)
        return scores


@dataclass(frozen=True)
class Frozen(Pruner):
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


class _FrozenPruning(Pruning):
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
