"""Settings of pruners, for `model.pruner` in configurations. Each class builds the module that prunes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from arbora.data.vocabulary import Vocabulary
from arbora.decoders.vine.searches import Criterion, Filter, Index, Judgement
from arbora.model.encoders.encoder import Encoder
from arbora.model.pruners.marginal import FrozenPruner, KeepEverything, Pruner, SharedPruner
from arbora.model.pruners.stages import STAGES, StageName
from arbora.model.pruners.vine import CascadePruner
from arbora.model.scorers.biaffine import Biaffine
from arbora.model.storage.weights import read_parser

PARSER = Biaffine()
"""Scorer of a parser whose settings name no other."""


class PrunerSettings(ABC):
    """Settings of a pruner."""

    @abstractmethod
    def build(
        self, vocabulary: Vocabulary, inputs: int, files: Path | None = None, scorer: Biaffine = PARSER
    ) -> Pruner:
        """Return the pruner for a parser with this vocabulary and word vectors of this size.

        Args:
            vocabulary: of the training part.
            inputs: size of the parser's word vectors.
            files: folder written by `Pruner.save_files`, if the weights are loaded afterwards.
            scorer: the parser's own.
        """

    def portable(self) -> PrunerSettings:
        """Return the settings without references to other files, for a checkpoint that has the weights."""
        return self


@dataclass(frozen=True)
class NoPruning(PrunerSettings):
    """Keeps all arcs. A sentence of n words then has about n^3 parts of second order and n^4 parts of third order."""

    def build(
        self, vocabulary: Vocabulary, inputs: int, files: Path | None = None, scorer: Biaffine = PARSER
    ) -> Pruner:
        return KeepEverything()


@dataclass(frozen=True)
class MarginalSettings(PrunerSettings):
    """Settings of pruning by marginals.

    Args:
        max_heads: maximum number of candidate heads of a word, besides its head in the pruner's best tree.
        ratio: drop heads whose probability is below this fraction of the probability of the word's best head.
    """

    max_heads: int = 10
    ratio: float = 1e-4

    def __post_init__(self) -> None:
        if self.max_heads < 1 or not 0 <= self.ratio <= 1:
            raise ValueError(
                f"pruner.max_heads must be at least 1 and pruner.ratio in 0..1, got {self.max_heads} and {self.ratio}"
            )


@dataclass(frozen=True)
class Shared(MarginalSettings):
    """A small arc scorer on the parser's own encoder, trained next to it.

    Gradients of its loss do not reach the encoder, so the pruner does not change the rest of the parser.

    Args:
        max_heads: maximum number of candidate heads of a word, besides its head in the pruner's best tree.
        ratio: drop heads whose probability is below this fraction of the probability of the word's best head.
        scorer: size of the arc scorer; labels are not scored.
        loss: `cross_entropy`, which predicts each head separately, or `matrix_tree`, the likelihood of the tree among
            all trees, as in Martins et al. (2013).
    """

    scorer: Biaffine = Biaffine(arc=100)  # noqa: RUF009 - settings are frozen
    loss: Literal["cross_entropy", "matrix_tree"] = "cross_entropy"

    def build(
        self, vocabulary: Vocabulary, inputs: int, files: Path | None = None, scorer: Biaffine = PARSER
    ) -> Pruner:
        return SharedPruner(self, inputs)


@dataclass(frozen=True)
class Frozen(MarginalSettings):
    """Prunes by a parser that was trained before on the same training part, and does not change.

    Args:
        max_heads: maximum number of candidate heads of a word, besides its head in the pruner's best tree.
        ratio: drop heads whose probability is below this fraction of the probability of the word's best head.
        checkpoint: file of the trained parser. It is read only in training; later checkpoints contain its weights.
        encoder: encoder of the trained parser; taken from the checkpoint.
        scorer: scorer of the trained parser; taken from the checkpoint.
    """

    checkpoint: str | None = None
    encoder: Encoder | None = None
    scorer: Biaffine | None = None

    def build(
        self, vocabulary: Vocabulary, inputs: int, files: Path | None = None, scorer: Biaffine = PARSER
    ) -> Pruner:
        if self.checkpoint is None:
            return FrozenPruner(self, vocabulary, files)
        checkpoint = read_parser(self.checkpoint)
        if not vocabulary.matches(checkpoint.vocabulary):
            raise ValueError(
                f"{self.checkpoint}: trained on another training part than --data.train: use the same file"
            )
        with checkpoint.unpacked() as folder:
            pruner = FrozenPruner(self.portable(), vocabulary, folder and folder / "encoder")
        weights = {name: weight for name, weight in checkpoint.weights.items() if name.startswith(("encoder.", "arc."))}
        pruner.load_state_dict(weights)
        return pruner

    def portable(self) -> Frozen:
        if self.checkpoint is None:
            return self
        settings = read_parser(self.checkpoint).settings
        return replace(self, checkpoint=None, encoder=settings["encoder"], scorer=settings["scorer"])


@dataclass(frozen=True)
class Vine(MarginalSettings):
    """A cascade of pruning stages, such as vine, first and second order by max-marginals (Rush and Petrov, 2012).

    Gradients of its losses do not reach the encoder, so the pruner does not change the rest of the parser. The
    candidates always contain a projective tree. A projective cascade loses crossing arcs; therefore, non-projective
    decoders get additional heads, by the marginals of a scorer as in `Shared`.

    Args:
        max_heads: maximum number of heads of a word that this scorer adds for non-projective decoders, besides the head
            in its best tree.
        ratio: drop added heads whose probability is below this fraction of the probability of the word's best head.
        stages: some of dictionary, local_short, vine, local, first, own, second, in this order. `own` has no scorer: it
            drops heads that are unlikely compared with the word's best head, by the parser's own scores.
        band: maximum distance between a close head and its modifier, in words; also the maximum length of arcs between
            tags that were not seen together.
        filter: how vine, first and second are trained and prune. `max_marginal` is the paper's filter loss, `posterior`
            the paper's alternative, by probabilities. `odds` is trained like `posterior` and prunes by the likelihood
            of the best tree with an arc, which is faster and almost as good.
        alpha: threshold of each stage except the dictionary, for the filter loss and, until it is tuned, for pruning.
            With max-marginals, 0 prunes arcs below the mean and 1 everything but the best tree; otherwise, it is the
            lowest probability, or odds, of an arc that is kept. Defaults: 0.6; 0.001 with `posterior` and `odds` and
            for own; 0.01 for local_short and local.
        error: tune alpha so that each stage loses at most this share of the development part, as counted by
            `criterion`; null turns tuning off.
        criterion: `sentences` counts sentences that lose a gold arc in a stage, `arcs` counts lost gold arcs. Only gold
            arcs that are projective and reach the stage count; an arc is also lost if no projective tree with it is
            left. The paper's "pruning error of no more than 0.2" agrees with its other figures if it means 20 % of the
            sentences.
        stagewise: train the stages one after the other, as in the paper, each for the same number of epochs and with
            the earlier stages frozen and tuned. Otherwise, train all stages together.
        second_filters: what `second` filters with `max_marginal`: candidate `arcs`, or pairs of `siblings`, as in the
            paper. Threshold and loss are computed over these. An arc is kept if one of its pairs is.
        tags: tags that the dictionary uses. It does not prune sentences with unknown tags.
        directed: the dictionary has lengths for each side of the head, instead of one for both sides as in the paper.
        vectors: vectors of heads and modifiers by which stages score arcs: `own` vectors for each stage, or those of
            the arc scorer of the `parser`, computed once for all stages; each stage has its own weights.
        vine_size: size of own vectors that score close and outer arcs.
        arc_size: size of own vectors that score candidate arcs.
        sibling_rank: size of the vectors that score siblings in `second`.
        dropout: dropout on all of these; one mask for all words of a sentence.
        scorer: scorer of the additional heads for non-projective decoders; labels are not scored.
    """

    max_heads: int = 3
    ratio: float = 1e-3
    stages: tuple[StageName, ...] = ("dictionary", "vine", "first", "second")
    band: int = 3
    filter: Filter = "max_marginal"
    alpha: tuple[float, ...] | None = None
    error: float | None = 0.002
    criterion: Criterion = "arcs"
    stagewise: bool = False
    second_filters: Index = "arcs"
    tags: Literal["upos", "xpos"] = "upos"
    directed: bool = True
    vectors: Literal["own", "parser"] = "own"
    vine_size: int = 32
    arc_size: int = 50
    sibling_rank: int = 16
    dropout: float = 0.2
    scorer: Biaffine = Biaffine(arc=100)  # noqa: RUF009 - settings are frozen

    def __post_init__(self) -> None:
        super().__post_init__()
        stages = tuple(self.stages)
        if not stages or stages != tuple(stage for stage in STAGES if stage in stages):
            raise ValueError(f"pruner.stages must be some of {', '.join(STAGES)}, in this order, got {stages}")
        object.__setattr__(self, "stages", stages)
        if self.band < 1:
            raise ValueError(f"pruner.band must be at least 1, got {self.band}")
        if self.alpha is not None and len(self.alpha) != len(self.learnt):
            raise ValueError(f"pruner.alpha must be one number for each of {', '.join(self.learnt)}, got {self.alpha}")
        shares = [*(self.alpha or ()), *(() if self.error is None else (self.error,))]
        if not all(0 <= share <= 1 for share in shares):
            raise ValueError(f"pruner.alpha and pruner.error must be in 0..1, got {self.alpha} and {self.error}")

    @property
    def learnt(self) -> tuple[StageName, ...]:
        """The stages except the dictionary."""
        return tuple(stage for stage in self.stages if stage != "dictionary")

    def judgement(self, stage: StageName) -> Judgement:
        """Return how a stage is trained and judges arcs."""
        return "heads" if stage == "own" else "classifier" if stage in ("local_short", "local") else self.filter

    def build(
        self, vocabulary: Vocabulary, inputs: int, files: Path | None = None, scorer: Biaffine = PARSER
    ) -> Pruner:
        return CascadePruner(self, vocabulary, inputs, scorer)
