"""The linear backend: weights of hashed features, and the scores that they give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arbora.data.batch import Batch
from arbora.data.vocabulary import Vocabulary
from arbora.decoders import AD3, MST, Decoder, Parts, Projective
from arbora.decoders.parts.kinds import HIGHER_ORDER, KINDS
from arbora.decoders.parts.tree_features import TAG_NUMBERS
from arbora.decoders.pruning import prune
from arbora.decoders.settings import check_settings, numeric
from arbora.model.inference.backend import Tags
from arbora.model.linear.hashing import (
    ArcFeatures,
    ArcHashes,
    Ints,
    PartFeatures,
    PartHashes,
    Rows,
    Words,
    arcs_of,
    read_words,
    score_arcs,
    score_labels,
    score_parts,
)
from arbora.model.linear.pruners import STAGES, LinearCascade, LinearPruner, StageName
from arbora.model.linear.templates import ARC, LABEL, PRUNER_ARC
from arbora.model.tokenizer.tokenizer import Tokenizer

TAGS = ("upos", "xpos", "feats", "lemmas")

ORDERS = {
    1: (),
    2: ("grandparent", "sibling"),
    3: ("grandparent", "sibling", "head_bigram", "grand_sibling", "tri_sibling"),
}
"""Kinds of parts of models of each order."""

BLOCK_CELLS = 4_000_000
"""Scores of labels of a long sentence that are held at a time."""


@dataclass(frozen=True)
class Linear:
    """Settings of a linear model.

    Args:
        order: of the parts that are scored: 1 for arcs, 2 for grandparents and siblings too, 3 for head bigrams,
            grand-siblings and tri-siblings as well.
        kinds: kinds of parts and tree features to score besides arcs, instead of those of the order.
        bits: the table has 2 ** bits weights.
        pruner_bits: likewise, of the pruner.
        max_heads: heads per word that the pruner leaves, besides that of its best tree.
        ratio: heads less probable than this times the most probable one are pruned.
        stages: some of vine, first and second: a cascade that prunes instead of the marginals. It leaves a projective
            tree, and is meant for projective decoders.
        band: words from a close head to its modifier in the vine, at most.
    """

    order: int = numeric(2, least=1, most=3)
    kinds: tuple[str, ...] | None = None
    bits: int = numeric(22, least=10, most=28)
    pruner_bits: int = numeric(22, least=10, most=28)
    max_heads: int = numeric(10, least=1)
    ratio: float = numeric(0.01, least=0, most=1)
    stages: tuple[StageName, ...] = ()
    band: int = numeric(3, least=1, most=1000)

    def __post_init__(self) -> None:
        check_settings(self)
        kinds = ORDERS[self.order] if self.kinds is None else self.kinds
        if unknown := [kind for kind in kinds if kind not in KINDS]:
            raise ValueError(f"kinds: unknown kind {unknown[0]}; choose from {', '.join(KINDS)}")
        object.__setattr__(self, "kinds", tuple(kind for kind in KINDS if kind in kinds))
        if tuple(self.stages) != tuple(stage for stage in STAGES if stage in self.stages):
            raise ValueError(f"stages must be some of {', '.join(STAGES)}, in this order, got {', '.join(self.stages)}")


class LinearModel:
    """Weights of hashed features, as a backend.

    Args:
        vocabulary: of the training part.
        settings: of the model.
        decoder: from scores to trees; unless given, `Projective` behind a cascade, else MST for arcs, and AD3 of 50
            iterations for parts of higher order.
        weights: of the features of arcs, labels and parts; zeros unless given.
        pruner: weights of the pruner, which models with more than arcs have; of a cascade, those of all stages.
        alphas: of the stages of a cascade.
    """

    device = "cpu"
    tags: tuple[str, ...] = TAGS
    predicts: tuple[str, ...] = ()
    at_once = 1
    temperature = (1.0, 1.0)

    def __init__(
        self,
        vocabulary: Vocabulary,
        settings: Linear = Linear(),  # noqa: B008 - settings are frozen
        decoder: Decoder | None = None,
        weights: NDArray[np.float32] | None = None,
        pruner: NDArray[np.float32] | None = None,
        alphas: NDArray[np.float64] | None = None,
    ) -> None:
        if not vocabulary.labels:
            raise ValueError("the vocabulary has no labels: the training part must be annotated")
        self.vocabulary = vocabulary
        self.tokenizer: Tokenizer | None = None  # stored in an exported folder
        self.settings = settings
        own = Projective() if settings.stages else AD3(max_iterations=50) if settings.kinds else MST()
        self.decoder = decoder or own
        if others := [kind for kind in settings.kinds or () if kind not in self.decoder.takes]:
            name = type(self.decoder).__name__
            raise ValueError(f"{name} does not search by {', '.join(others)}; choose another decoder or other kinds")
        size = (1 << settings.bits) + len(vocabulary.labels)
        self.weights = np.zeros(size, np.float32) if weights is None else weights
        if self.weights.shape != (size,):
            raise ValueError(f"there must be {size} weights, got {self.weights.shape}")
        self.pruner: LinearPruner | LinearCascade | None = None
        if settings.kinds or settings.stages:
            stages = settings.stages
            size = max(1, len(stages)) << settings.pruner_bits
            pruner = np.zeros(size, np.float32) if pruner is None else pruner
            if pruner.shape != (size,):
                raise ValueError(f"there must be {size} weights of the pruner, got {pruner.shape}")
            self.pruner = LinearPruner(pruner, settings.max_heads, settings.ratio)
            if stages:
                alphas = np.full(len(stages), 0.6) if alphas is None else alphas
                of_stages = pruner.reshape(len(stages), -1)
                self.pruner = LinearCascade(of_stages, alphas, stages, settings.band, PartFeatures("sibling"))
        self.arc_features = ArcFeatures("arc", ARC)
        self.label_features = ArcFeatures("label", LABEL, more=False)
        self.pruner_features = ArcFeatures("pruner", PRUNER_ARC)
        self.part_features = {kind: PartFeatures(kind) for kind in settings.kinds or ()}
        self.tag_numbers = np.zeros(vocabulary.size("upos"), np.uint8)
        for tag, index in vocabulary.index["upos"].items():
            self.tag_numbers[index] = TAG_NUMBERS.get(tag, 0)

    def score_only_arcs(self) -> None:
        """Leave parts of higher order out."""
        self.part_features = {}

    def score(self, batch: Batch[Any]) -> LinearScores:
        """Read a batch; scores are computed when they are asked for."""
        return LinearScores(self, read_words(batch, self.tag_numbers))


class LinearScores:
    """Scores of one batch; implements `BatchScores`.

    Args:
        model: has the weights.
        words: of the batch.
    """

    def __init__(self, model: LinearModel, words: Words) -> None:
        self.model = model
        self.words = words
        self._dense: NDArray[np.float32] | None = None

    @cached_property
    def arc_hashes(self) -> ArcHashes:
        """Hashes of the words as heads and modifiers."""
        return self.model.arc_features.hash(self.words)

    @cached_property
    def label_hashes(self) -> ArcHashes:
        """Likewise, for the features of labels."""
        return self.model.label_features.hash(self.words)

    @cached_property
    def pruner_hashes(self) -> ArcHashes:
        """Likewise, for the features of arcs in the pruner."""
        return self.model.pruner_features.hash(self.words)

    @cached_property
    def every_arc(self) -> Parts:
        """All arcs, without scores."""
        N = int(self.words.lengths.max()) + 1
        return Parts.from_dense(np.zeros((len(self.words.lengths), N, N), np.float32), self.words.lengths)

    def score_labels(self, offsets: Ints, head: NDArray[np.int32], modifier: NDArray[np.int32]) -> NDArray[np.float32]:
        """(A, L) scores of the labels of arcs, -inf for labels that are not seen on such arcs in training.

        Args:
            offsets: (B+1,) where the arcs of each sentence start.
            head: (A,)
            modifier: (A,)
        """
        vocabulary, weights = self.model.vocabulary, self.model.weights
        scores = score_labels(self.label_hashes, offsets, head, modifier, weights, len(vocabulary.labels))
        scores[~vocabulary.allowed_labels[(head == 0).astype(np.int64)]] = -np.inf
        return scores

    def score_arcs(self, offsets: Ints, head: NDArray[np.int32], modifier: NDArray[np.int32]) -> NDArray[np.float32]:
        """(A,) scores of arcs, each with that of its best label."""
        best: NDArray[np.float32] = self.score_labels(offsets, head, modifier).max(1)
        return best + score_arcs(self.arc_hashes, offsets, head, modifier, self.model.weights)

    def part_hashes(self, parts: Parts) -> dict[str, PartHashes]:
        """Hashes of the words in the parts of each kind."""
        rows = Rows(parts)
        return {kind: features.hash(self.words, parts, rows) for kind, features in self.model.part_features.items()}

    def candidates(self, decoder: Decoder, keep: NDArray[np.integer] | None = None) -> Parts:
        """Candidate arcs without scores; arguments as in `parts`."""
        pruner = self.model.pruner
        if isinstance(pruner, LinearCascade):
            parts = pruner.candidates(self, decoder.single_root, keep)
        elif pruner is not None:
            arcs, lengths = self.pruner_arcs(), self.words.lengths
            assert arcs is not None
            limits = pruner.max_heads, pruner.ratio, decoder.single_root, decoder.projective
            parts = Parts.from_dense(arcs, lengths, prune(arcs, lengths, *limits, keep))
        else:
            parts = self.every_arc
        has_features = any(kind not in HIGHER_ORDER for kind in self.model.part_features)
        return parts.with_tags(self.words.tags) if has_features else parts

    def parts(self, decoder: Decoder, keep: NDArray[np.integer] | None = None) -> Parts:
        candidates = self.candidates(decoder, keep)
        scores = {
            kind: score_parts(h, self.words, self.model.weights) for kind, h in self.part_hashes(candidates).items()
        }
        return candidates.with_scores(arc_score=self.score_arcs(*arcs_of(candidates)), **scores)

    def arcs(self) -> NDArray[np.float32]:
        if self._dense is None:
            self._dense = self.as_matrix(self.score_arcs(*arcs_of(self.every_arc)))
        return self._dense

    def as_matrix(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """(B, N, N) scores of all arcs."""
        every, N = self.every_arc, int(self.words.lengths.max()) + 1
        dense = np.full((len(self.words.lengths), N, N), -np.inf, np.float32)
        dense[np.repeat(np.arange(len(dense)), np.diff(every.sentence_offsets)), every.modifier, every.head] = scores
        return dense

    def arc_rows(self) -> Iterator[tuple[int, NDArray[np.float32]]]:
        N = int(self.words.lengths[0]) + 1
        step = max(1, BLOCK_CELLS // (N * len(self.model.vocabulary.labels)))
        for start in range(1, N, step):
            modifier, head = np.divmod(np.arange(min(step, N - start) * N, dtype=np.int32), N)
            modifier += start
            block = np.full(len(head), -np.inf, np.float32)
            real = head != modifier
            block[real] = self.score_arcs(np.array([0, np.count_nonzero(real)]), head[real], modifier[real])
            yield start, block.reshape(-1, N)

    def labels(self, heads: NDArray[np.integer]) -> NDArray[np.int64]:
        words, label = heads >= 0, np.zeros(heads.shape, np.int64)
        label[words] = self._label_scores(heads, words).argmax(1)
        return label

    def label_scores(self, heads: NDArray[np.integer], words: NDArray[np.bool_]) -> NDArray[np.float64]:
        scores = self._label_scores(heads, words)
        scores -= scores.max(1, keepdims=True)
        scores -= np.log(np.exp(scores).sum(1, keepdims=True))
        return scores

    def _label_scores(self, heads: NDArray[np.integer], words: NDArray[np.bool_]) -> NDArray[np.float64]:
        """(words, L) scores of labels of some words' arcs."""
        sentence, modifier = np.nonzero(words)
        offsets = np.searchsorted(sentence, np.arange(len(heads) + 1))
        head = heads[sentence, modifier].astype(np.int32)
        return self.score_labels(offsets, head, modifier.astype(np.int32)).astype(np.float64)

    def tags(self, probabilities: bool = False) -> dict[str, Tags]:
        return {}

    def arc_labels(self, parts: Parts) -> NDArray[np.int32]:
        best: NDArray[np.int32] = self.score_labels(*arcs_of(parts)).argmax(1).astype(np.int32)
        return best

    def pruner_arcs(self) -> NDArray[np.float32] | None:
        if not isinstance(self.model.pruner, LinearPruner):
            return None
        return self.as_matrix(score_arcs(self.pruner_hashes, *arcs_of(self.every_arc), self.model.pruner.weights))
