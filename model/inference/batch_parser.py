"""Parsing of a batch in three steps: score, decode, label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from arbora.data.batch import Batch, batch_of
from arbora.data.conll import Sentence
from arbora.decoders import Decoder, Parts, Trees
from arbora.decoders.constraints import Constraints
from arbora.decoders.ensemble import favour_trees
from arbora.decoders.k_best import k_best
from arbora.decoders.marginals import arc_marginals
from arbora.decoders.minimum_risk import ABSENT
from arbora.decoders.unique_labels import unique_labels
from arbora.model.inference import long_sentences
from arbora.model.inference.backend import Backend, BatchScores, Tags
from arbora.model.inference.missing_tags import MissingTags

TagPolicy = Literal["fill", "replace", "keep"]
"""Tags of the input that are replaced by predicted ones: those that are `_`, all, or none."""


@dataclass(frozen=True)
class ParsingSettings:
    """Settings of parsing.

    Args:
        max_tokens: size of a batch, in positions of the padded batch.
        max_length: number of words above which a sentence is parsed in a cheaper way, by arc scores only.
        gamma: for ensembles, scores added to parts of first, second and third order in the existing trees of the
            sentences, which are from another parser. By default, existing trees are ignored.
        probabilities: compute the probabilities of tags, the marginal probability of each word's arc among all trees
            (with one root word if the decoder requires it), and the probability of its label, given the arc. They are
            computed from arc scores only, without higher-order parts; in sentences above `max_length`, separately for
            each word instead of over trees.
        strict: refuse sentences without the tags that the parser reads, instead of giving a warning.
        tags: if the parser has taggers, predict the tags, features and lemmas that are missing in the input (`fill`),
            all of them (`replace`), or none (`keep`).
        keep_heads: keep existing heads and labels, and predict the missing ones. Probabilities of arcs then refer to
            the trees with these heads.
        k_best: number of trees to find for each sentence.
        unique: labels that a head has at most once, including subtypes: with `nsubj`, a head has at most one of `nsubj`
            and `nsubj:pass`. The labels of all modifiers of a head are then chosen together.
        treebank: if the parser was trained on several treebanks, parse as in this one; by default, as in the first.
    """

    max_tokens: int = 2000
    max_length: int = 500
    gamma: tuple[float, ...] = ()
    probabilities: bool = False
    strict: bool = False
    tags: TagPolicy = "fill"
    keep_heads: bool = False
    k_best: int = 1
    unique: tuple[str, ...] = ()
    treebank: str | None = None

    def __post_init__(self) -> None:
        if self.tags not in get_args(TagPolicy):
            raise ValueError(f"tags must be one of {', '.join(get_args(TagPolicy))}, got {self.tags!r}")
        for name in ("max_tokens", "max_length", "k_best"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        if self.keep_heads and self.gamma:
            raise ValueError("give either keep_heads or gamma (an ensemble), which both use existing heads")


class CandidateTrees(NamedTuple):
    """A scored batch, the input of a decoder."""

    scores: BatchScores
    parts: Parts
    arcs: NDArray[np.float32] | None  # (B, N, N), if marginals are asked for
    is_long: bool
    known: Constraints | None


class BestTrees(NamedTuple):
    """A decoded batch."""

    scores: BatchScores
    parts: Parts
    trees: Trees
    arc_probability: NDArray[np.float64] | None  # (B, N), if asked for
    known: Constraints | None
    others: tuple[BestTrees, ...] = ()  # of the ranks below, if several trees are asked for


class LabelledTrees(NamedTuple):
    """A parsed batch."""

    trees: Trees
    parts: Parts  # among which the trees were found
    labels: NDArray[np.int64]  # (B, N), 0 at the root and at padding
    arc_probability: NDArray[np.float64] | None  # (B, N), if asked for
    label_probability: NDArray[np.float64] | None  # (B, N), given the arc, if asked for
    tags: dict[str, Tags]  # of all words, by column, where the parser has taggers
    keeps_labels: bool = False  # those that sentences have
    others: tuple[LabelledTrees, ...] = ()  # of the ranks below, if several trees are asked for

    @property
    def heads(self) -> NDArray[np.int32]:
        """(B, N), -1 at the root and at padding."""
        return self.trees.heads


@dataclass(frozen=True)
class BatchParser:
    """Parser of batches: a backend scores, a decoder searches.

    Calling it runs all three steps. They can also be run one by one, as in a stream, where they run in different
    threads.

    Args:
        backend: computes scores.
        decoder: finds trees.
        settings: of parsing.
        missing_tags: checks for input without the tags that the parser reads.
    """

    backend: Backend
    decoder: Decoder
    settings: ParsingSettings = ParsingSettings()
    missing_tags: MissingTags | None = None

    def batch_of(self, sentences: Sequence[Sentence]) -> Batch[Any]:
        """Look up sentences and pad them to one batch."""
        return batch_of(sentences, self.backend.vocabulary, treebank=self.settings.treebank)

    def __call__(self, batch: Batch[Any]) -> LabelledTrees:
        """Parse a batch."""
        return self.label(self.decode(self.score(batch)))

    def score(self, batch: Batch[Any], is_long: bool = False) -> CandidateTrees:
        """Score the candidate parts of a batch.

        Args:
            batch: of sentences. With `gamma`, existing heads stay among the candidates; with `keep_heads`, they are the
                only candidates.
            is_long: score a single sentence by arcs only, with few heads for each word.
        """
        scores = self.backend.score(batch)
        settings, arcs = self.settings, None
        guide = np.asarray(batch.heads) if settings.gamma else None
        known = self._known(batch)
        if is_long:
            keep = guide if known is None else long_sentences.skeleton(known)
            parts = long_sentences.parts_of(scores.arc_rows(), batch.words.shape[1], None if keep is None else keep[0])
        else:
            arcs = scores.arcs() if settings.probabilities or known is not None else None
            keep = guide if arcs is None or known is None else self._agreeing(known, arcs, np.asarray(batch.lengths))
            parts = scores.parts(self.decoder, keep)
        if guide is not None:
            parts = favour_trees(parts, guide, settings.gamma)
        if known is not None:
            parts = known.apply(parts)
        return CandidateTrees(scores, parts, arcs, is_long, known)

    def _known(self, batch: Batch[Any]) -> Constraints | None:
        """Return the constraints of a batch, which may be empty; None if constraints are turned off."""
        if not self.settings.keep_heads:
            return None
        heads, labels, forbidden = (np.asarray(array) for array in (batch.heads, batch.labels, batch.forbidden))
        return Constraints(heads, forbidden, labels)

    def _agreeing(self, known: Constraints, arcs: NDArray[np.float32], lengths: NDArray[np.int64]) -> NDArray[np.int32]:
        """(B, N) best tree that satisfies the constraints, which pruning must leave; -1 in other sentences."""
        heads = known.complete(arcs, lengths, self.decoder.single_root, self.decoder.projective)
        heads[~np.isin(np.arange(len(heads)), known.rows)] = -1
        return heads

    def decode(self, candidates: CandidateTrees) -> BestTrees:
        """Find the best trees, and the probabilities of their arcs if asked for."""
        scores, parts, arcs, is_long, known = candidates
        single_root, k = self.decoder.single_root, self.settings.k_best
        temperature, _ = self.backend.temperature
        if is_long:
            ranked = long_sentences.decode(parts, single_root, k)
        else:
            ranked = k_best(self.decoder, parts, k) if k > 1 else [self.decoder(parts)]
        probability: list[NDArray[np.float64] | None] = [None] * k
        if self.settings.probabilities and is_long:
            scaled = parts.with_scores(arc_score=parts.arc_score / temperature)
            probability = [long_sentences.head_probabilities(scaled, trees.heads) for trees in ranked]
        elif self.settings.probabilities and arcs is not None:
            if known is not None:
                arcs = np.where(known.mask(), arcs, np.float32(ABSENT))
            marginals = arc_marginals(arcs / temperature, parts.lengths, single_root)
            places = (trees.heads.clip(min=0)[..., None].astype(np.int64) for trees in ranked)
            probability = [np.take_along_axis(marginals, place, 2)[..., 0] for place in places]
        best, *others = (BestTrees(scores, parts, *one, known) for one in zip(ranked, probability, strict=True))
        return best._replace(others=tuple(others))

    def label(self, best: BestTrees) -> LabelledTrees:
        """Find the best label of each arc, and tags."""
        tags = best.scores.tags(self.settings.probabilities) if self.settings.tags != "keep" else {}
        return self._label(best, tags)

    def _label(self, best: BestTrees, tags: dict[str, Tags]) -> LabelledTrees:
        heads, known = best.trees.heads, best.known
        words, scores, probability = heads >= 0, None, None
        if self.settings.probabilities:
            label, scores = np.zeros(heads.shape, np.int64), best.scores.label_scores(heads, words)
            label[words] = scores.argmax(1)
        else:
            label = best.scores.labels(heads)
        if known is not None and known.labels is not None:
            label = np.where(known.labels >= 0, known.labels, label)
        if self.settings.unique:
            fixed = np.zeros(heads.shape, np.bool_) if known is None or known.labels is None else known.labels >= 0
            label = unique_labels(label, heads, self._groups(), partial(best.scores.label_scores, heads), fixed)
        if scores is not None:
            probability, scores = np.ones(heads.shape), scores / self.backend.temperature[1]
            weights = np.exp(scores - scores.max(1, keepdims=True))
            probability[words] = weights[np.arange(len(weights)), label[words]] / weights.sum(1)
        others = tuple(self._label(other, tags) for other in best.others)
        keeps = known is not None
        return LabelledTrees(best.trees, best.parts, label, best.arc_probability, probability, tags, keeps, others)

    def _groups(self) -> NDArray[np.int64]:
        """(L,) number of the unique label for each label that is this label or a subtype of it; -1 for others."""
        names = {name: number for number, name in enumerate(self.settings.unique)}
        labels = self.backend.vocabulary.labels
        found = [names.get(label, names.get(label.partition(":")[0], -1)) for label in labels]
        if missing := names.keys() - {name for label in labels for name in (label, label.partition(":")[0])}:
            raise ValueError(f"unique: the parser has no label {min(missing)}; its labels are {', '.join(labels)}")
        return np.array(found)
