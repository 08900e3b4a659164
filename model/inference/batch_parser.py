"""Score, decode, label: how a batch is parsed, for everything that parses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from arbora.data.batch import Batch
from arbora.decoders import Decoder, Parts, Trees
from arbora.decoders.ensemble import favour_trees
from arbora.decoders.marginals import arc_marginals
from arbora.model.inference import long_sentences
from arbora.model.inference.backend import Backend, BatchScores, Tags
from arbora.model.inference.missing_tags import MissingTags

TagPolicy = Literal["fill", "replace", "keep"]
"""Which tags of the input give way to predicted ones: those that are `_`, all, or none."""


@dataclass(frozen=True)
class ParsingSettings:
    """Settings of parsing.

    Args:
        max_tokens: size of a batch, in positions of the padded batch.
        max_length: words of a sentence above which it is parsed in a lighter way: by arcs only.
        gamma: how much more parts of first, second and third order score that are in the trees which the sentences have
            already, those of another parser (an ensemble). Unless given, these trees are not looked at.
        probabilities: compute the probabilities of tags, the marginal probability of each word's arc, among all trees
            under the arc scores (with one root if the decoder finds such), and that of its label, given the arc. Parts
            of higher order do not count in them. In sentences above `max_length` each word's heads are taken by
            themselves, not as trees.
        strict: refuse sentences without the tags that the parser reads, in place of a warning.
        tags: where the parser has taggers: predict tags, features and lemmas that the input does not have (`fill`), all
            of them (`replace`), or none (`keep`).
    """

    max_tokens: int = 4000
    max_length: int = 500
    gamma: tuple[float, ...] = ()
    probabilities: bool = False
    strict: bool = False
    tags: TagPolicy = "fill"

    def __post_init__(self) -> None:
        if self.tags not in get_args(TagPolicy):
            raise ValueError(f"tags must be one of {', '.join(get_args(TagPolicy))}, got {self.tags!r}")
        for name in ("max_tokens", "max_length"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")


class CandidateTrees(NamedTuple):
    """A scored batch: what a decoder finds its trees among."""

    scores: BatchScores
    parts: Parts
    arcs: NDArray[np.float32] | None  # (B, N, N), if marginals are asked for
    is_long: bool


class BestTrees(NamedTuple):
    """A decoded batch."""

    scores: BatchScores
    parts: Parts
    trees: Trees
    arc_probability: NDArray[np.float64] | None  # (B, N), if asked for


class LabelledTrees(NamedTuple):
    """A parsed batch."""

    trees: Trees
    parts: Parts  # among which the trees were found
    labels: NDArray[np.int64]  # (B, N), 0 at the root and at padding
    arc_probability: NDArray[np.float64] | None  # (B, N), if asked for
    label_probability: NDArray[np.float64] | None  # (B, N), given the arc, if asked for
    tags: dict[str, Tags]  # of all words, by column, where the parser has taggers

    @property
    def heads(self) -> NDArray[np.int32]:
        """(B, N), -1 at the root and at padding."""
        return self.trees.heads


@dataclass(frozen=True)
class BatchParser:
    """Parses batches: a backend scores, a decoder searches.

    The three steps can be taken one by one, as in a stream where they run in different threads; calling it takes all.

    Args:
        backend: computes scores.
        decoder: finds trees.
        settings: of parsing.
        missing_tags: notices input without the tags that the parser reads.
    """

    backend: Backend
    decoder: Decoder
    settings: ParsingSettings = ParsingSettings()
    missing_tags: MissingTags | None = None

    def __call__(self, batch: Batch[Any]) -> LabelledTrees:
        """Parse a batch."""
        return self.label(self.decode(self.score(batch)))

    def score(self, batch: Batch[Any], is_long: bool = False) -> CandidateTrees:
        """Score the candidate parts of a batch.

        Args:
            batch: of sentences. With `gamma`, the heads that they have stay among the candidates.
            is_long: score a single sentence by arcs only, with few heads for each word.
        """
        scores = self.backend.score(batch)
        settings, arcs = self.settings, None
        guide = np.asarray(batch.heads) if settings.gamma else None
        if is_long:
            keep = None if guide is None else guide[0]
            parts = long_sentences.parts_of(scores.arc_rows(), batch.words.shape[1], keep)
        else:
            arcs = scores.arcs() if settings.probabilities else None
            parts = scores.parts(self.decoder, guide)
        if guide is not None:
            parts = favour_trees(parts, guide, settings.gamma)
        return CandidateTrees(scores, parts, arcs, is_long)

    def decode(self, candidates: CandidateTrees) -> BestTrees:
        """Find the best trees, and the probabilities of their arcs if they are asked for."""
        scores, parts, arcs, is_long = candidates
        single_root = self.decoder.single_root
        trees = long_sentences.decode(parts, single_root) if is_long else self.decoder(parts)
        probability = None
        if self.settings.probabilities and is_long:
            probability = long_sentences.head_probabilities(parts, trees.heads)
        elif arcs is not None:
            marginals = arc_marginals(arcs, parts.lengths, single_root)
            probability = np.take_along_axis(marginals, trees.heads.clip(min=0)[..., None].astype(np.int64), 2)[..., 0]
        return BestTrees(scores, parts, trees, probability)

    def label(self, best: BestTrees) -> LabelledTrees:
        """Find the best label of each arc, and tags."""
        label, probability = best.scores.labels(best.trees.heads, self.settings.probabilities)
        tags = best.scores.tags(self.settings.probabilities) if self.settings.tags != "keep" else {}
        return LabelledTrees(best.trees, best.parts, label, best.arc_probability, probability, tags)
