"""Settings of pruners, as a configuration names them under `model.pruner`; each builds the module that prunes."""

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
"""The parser's scorer unless its settings say otherwise."""


class PrunerSettings(ABC):
    """Settings of a pruner."""

    @abstractmethod
    def build(
        self, vocabulary: Vocabulary, inputs: int, files: Path | None = None, scorer: Biaffine = PARSER
    ) -> Pruner:
        """The pruner for a parser with this vocabulary and with word vectors of this size.

        Args:
            vocabulary: of the training part.
            inputs: size of the parser's word vectors.
            files: folder that `Pruner.save_files` wrote, if the weights are loaded afterwards.
            scorer: the parser's own.
        """

    def portable(self) -> PrunerSettings:
        """The same settings without anything that is read from elsewhere, for a checkpoint that has the weights."""
        return self


@dataclass(frozen=True)
class NoPruning(PrunerSettings):
    """Keeps all arcs. Parts of second order are then some n^3 a sentence, those of third order some n^4."""

    def build(
        self, vocabulary: Vocabulary, inputs: int, files: Path | None = None, scorer: Biaffine = PARSER
    ) -> Pruner:
        return KeepEverything()


@dataclass(frozen=True)
class MarginalSettings(PrunerSettings):
    """Settings of pruning by marginals.

    Args:
        max_heads: most candidate heads of a word, besides that in the pruner's best tree.
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
class Shared(MarginalSettings):
    """A small arc scorer on the parser's own encoder, trained next to it.

    Its loss does not reach the encoder, so that a pruner changes nothing else in the parser.

    Args:
        max_heads: most candidate heads of a word, besides that in the pruner's best tree.
        ratio: heads less probable than this times the word's most probable one are left out.
        scorer: its size; labels are not scored.
        loss: `cross_entropy` of each word's head by itself, or `matrix_tree`, the likelihood of the tree among all
            trees, as in Martins et al. (2013).
    """

    scorer: Biaffine = Biaffine(arc=100)  # noqa: RUF009 - settings are frozen
    loss: Literal["cross_entropy", "matrix_tree"] = "cross_entropy"

    def build(
        self, vocabulary: Vocabulary, inputs: int, files: Path | None = None, scorer: Biaffine = PARSER
    ) -> Pruner:
        return SharedPruner(self, inputs)


@dataclass(frozen=True)
class Frozen(MarginalSettings):
    """A parser that was trained before, on the same training part, and does not change any more.

    Args:
        max_heads: most candidate heads of a word, besides that in the pruner's best tree.
        ratio: heads less probable than this times the word's most probable one are left out.
        checkpoint: file of the trained parser. The new parser's checkpoints hold its weights: only training reads it.
        encoder: that of the trained parser; taken from the checkpoint.
        scorer: likewise.
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
            raise ValueError(f"{self.checkpoint}: trained on another training part than --data.train: use the same")
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

    Its losses do not reach the encoder, so that a pruner changes nothing else in the parser. A projective tree is
    always left. Decoders that are not projective get more heads, by the marginals of a scorer as `Shared` has it: what
    crosses is what a projective cascade loses.

    Args:
        max_heads: for decoders that are not projective, most heads of a word by this scorer, besides that in its best
            tree; projective ones do not get them.
        ratio: of these, heads less probable than this times the word's most probable one are left out.
        stages: some of dictionary, local_short, vine, local, first, own, second, in this order. `own` has no scorer: by
            the parser's own scores it drops the heads that are unlikely next to a word's best one.
        band: words from a close head to its modifier, at most; arcs of tags that were not seen together go as far too.
        filter: what vine, first and second learn and prune by: `max_marginal` is the paper's filter loss, `posterior`
            its other way, by probabilities; `odds` learns as the latter, and prunes by the likelihood of the best tree
            with an arc, in less time and almost as well.
        alpha: of each stage but the dictionary, in the filter loss, and in pruning until it is tuned. By max-marginals,
            0 prunes arcs below the mean, 1 all but the best tree; else it is the least probability, or odds, of an arc.
            Unless given, 0.6 each, 0.001 with `posterior` and `odds` and for own, 0.01 for local_short and local.
        error: alpha is tuned so that each stage loses at most this share of the development part, by `criterion`; null
            leaves alpha as it is.
        criterion: `sentences` counts the sentences that lose a gold arc in a stage, `arcs` the gold arcs. Gold arcs
            count if they are projective and got as far; those that no projective tree has any more are lost. The
            paper's "pruning error of no more than 0.2" fits its other figures if it is 20 % of the sentences.
        stagewise: train the stages one after the other, as the paper does, each for an equal number of epochs, with the
            stages before it frozen and tuned. Otherwise all learn at once.
        second_filters: what `second` judges with `max_marginal`: candidate `arcs`, or pairs of `siblings` as in the
            paper, over which its threshold and its loss then are; an arc is kept with one of its pairs.
        tags: those that the dictionary knows words by. Sentences with unknown tags are left alone by it.
        directed: keep lengths in the dictionary for each side of the head, not one for both as the paper does.
        vectors: of heads and modifiers, by which stages score arcs: `own` ones of each stage, or those of the `parser`,
            as its scorer of arcs has them, with weights of each stage; these are computed once for all of them.
        vine_size: size of own vectors that score close arcs and outer ones.
        arc_size: size of own vectors that score candidate arcs.
        sibling_rank: size of those that score siblings in `second`.
        dropout: on all of these; one mask for all words of a sentence.
        scorer: of the heads for decoders that are not projective; labels are not scored.
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
        """The stages but the dictionary."""
        return tuple(stage for stage in self.stages if stage != "dictionary")

    def judgement(self, stage: StageName) -> Judgement:
        """How a stage learns, and judges arcs."""
        return "heads" if stage == "own" else "classifier" if stage in ("local_short", "local") else self.filter

    def build(
        self, vocabulary: Vocabulary, inputs: int, files: Path | None = None, scorer: Biaffine = PARSER
    ) -> Pruner:
        return CascadePruner(self, vocabulary, inputs, scorer)
