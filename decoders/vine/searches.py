"""Searches of the stages of a pruning cascade: the strength of each arc under the scores of a stage.

A stage has the arcs of a vine (`VineSearch`) or candidate arcs (`ArcSearch`), and a method of training and judging:

    max_marginal    filter loss max(0, 1 + t - s(gold)) with t = alpha max + (1 - alpha) mean of max-marginals M; the
                    strength of an arc is (M - mean) / (max - mean) (Rush and Petrov, 2012, section 4)
    posterior       likelihood of the tree among projective ones, by sums over trees; the strength is the probability
    odds            likelihood, too; the strength is exp(M - max), the likelihood of the best tree with the arc relative
                    to the best tree: prunes almost as well as probabilities, with the search of max-marginals
    classifier      each arc separately: logistic loss; the strength is the probability (after Bergsma and Cherry, 2010)
    heads           each word separately, without search and training: the strength is exp(s - max) by the parser's own
                    scores; if these are trained with cross-entropy, the likelihood of a head relative to the best one

A strength is at most 1, and an arc is kept if its strength is at least the alpha of the stage.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from arbora.decoders.parts.batch import Parts
from arbora.decoders.projective.eisner import Eisner
from arbora.decoders.projective.marginals import (
    log_marginals,
    log_partition_gradient,
    max_marginals,
    sibling_max_marginals,
)
from arbora.decoders.trees import is_projective
from arbora.decoders.vine.candidates import restrict
from arbora.decoders.vine.structures import Indices, VineScores, image, slot, vine_log_marginals, vine_max_marginals
from arbora.decoders.vine.thresholds import (
    arc_thresholds,
    sentences_of_vine,
    sibling_indices,
    sibling_thresholds,
    thresholds,
    vine_thresholds,
)

Filter = Literal["max_marginal", "posterior", "odds"]
Criterion = Literal["sentences", "arcs"]
Index = Literal["arcs", "siblings"]
Judgement = Literal["max_marginal", "posterior", "odds", "classifier", "heads"]


class Search(ABC):
    """The search of one stage over a batch."""

    scores: tuple[NDArray[np.float32], ...]
    judgement: Judgement

    @property
    @abstractmethod
    def sentences(self) -> Sequence[NDArray[np.int64]]:
        """Return the sentence of each score, in the shapes of `scores`."""

    @abstractmethod
    def fires(self, trees: NDArray[np.integer]) -> Sequence[NDArray[np.bool_]]:
        """Return masks of the scores that belong to projective trees (B, N), in the shapes of `scores`."""

    @property
    @abstractmethod
    def there(self) -> Sequence[NDArray[np.bool_]]:
        """Return masks of the arcs or pairs to be judged, in the shapes of `scores`."""

    @abstractmethod
    def threshold(self, *scores: NDArray[np.floating]) -> tuple[NDArray[np.float64], Sequence[NDArray[np.float64]]]:
        """(B,) thresholds, or log-partitions, and their gradients."""

    @abstractmethod
    def strength(self, trees: NDArray[np.integer]) -> NDArray[np.float64]:
        """(B, N) strengths of the arcs of trees; -inf where no projective tree has them, NaN where there is no arc."""


@dataclass
class VineSearch(Search):
    """A search over the arcs of a vine."""

    scores: tuple[NDArray[np.float32], ...]  # as `Indices` has them
    lengths: NDArray[np.int64]
    allowed: Indices  # arcs that earlier stages left
    alpha: float  # of the filter loss
    judgement: Judgement
    single_root: bool

    @cached_property
    def strengths(self) -> Indices:
        """Strength of each arc of the vine."""
        if self.judgement == "classifier":
            pairs = zip(self.scores, self.allowed)
            return Indices(*(np.where(allowed, _probability(score), -np.inf) for score, allowed in pairs))
        vine = self._vine(*self.scores)
        if self.judgement == "posterior":
            return Indices(*map(_possible, vine_log_marginals(vine, self.single_root)[1]))
        best, marginals = vine_max_marginals(vine, self.single_root)
        if self.judgement == "odds":
            n = self.lengths
            return Indices(
                *(_possible(np.exp(m - np.repeat(best, k)[:, None])) for m, k in zip(marginals, (n, n, n + 1)))
            )
        means = thresholds(_flat(marginals), _flat(self.sentences), best, 0.0)
        return Indices(*(_strength(m, best[s], means[s]) for m, s in zip(marginals, self.sentences)))

    @cached_property
    def sentences(self) -> Indices:
        return sentences_of_vine(self.lengths, self.allowed)

    @property
    def there(self) -> Indices:
        return self.allowed

    def fires(self, trees: NDArray[np.integer]) -> Indices:
        return image(trees, self.lengths, self._band)

    def threshold(self, *scores: NDArray[np.floating]) -> tuple[NDArray[np.float64], Indices]:
        if self.judgement != "max_marginal":
            return vine_log_marginals(self._vine(*scores), self.single_root)
        return vine_thresholds(self._vine(*scores), self.alpha, self.single_root)

    def strength(self, trees: NDArray[np.integer]) -> NDArray[np.float64]:
        """An arc beyond the band is as strong as the weaker of its outer arcs."""
        n = self.lengths
        sentence, m = np.nonzero(np.arange(trees.shape[1]) <= n[:, None])
        w, node = np.arange(len(m) - len(n)), np.flatnonzero(m > 0)
        sentence, m = sentence[node], m[node]
        h = trees[sentence, m]
        right = (h > m).astype(np.int64)
        near = np.abs(h - m) <= self._band
        head = node - m + np.maximum(h, 0)
        strengths = Indices(*(np.where(there, s, np.nan) for there, s in zip(self.allowed, self.strengths)))
        close = strengths.close[w, np.where(near, slot(h - m, self._band), 0)]
        far = np.minimum(strengths.outer_head[w, right], strengths.outer_modifier[head, 1 - right])
        found = np.full(trees.shape, np.nan)
        found[sentence, m] = np.where(h < 0, np.nan, np.where(near, close, far))
        return found

    @property
    def _band(self) -> int:
        return int(self.allowed.close.shape[1]) // 2

    def _vine(self, *scores: NDArray[np.floating]) -> VineScores:
        limited = (np.where(allowed, score, -np.inf) for score, allowed in zip(scores, self.allowed))
        return VineScores(self.lengths.astype(np.int32), *(score.astype(np.float32, copy=False) for score in limited))


@dataclass
class ArcSearch(Search):
    """A search over candidate arcs."""

    scores: tuple[NDArray[np.float32], ...]  # of arcs, and of siblings if there are two
    parts: Parts
    alpha: float  # of the filter loss
    judgement: Judgement
    single_root: bool
    filters: Index = "arcs"

    @cached_property
    def strengths(self) -> NDArray[np.float64]:
        """(A,) strength of each arc; if pairs of siblings are judged, of the best in which it is the outer one."""
        if self.judgement == "classifier":
            return _probability(self.scores[0])
        if self.judgement == "heads":
            scores, starts = self.scores[0].astype(np.float64), self.parts.modifier_offsets
            best = np.maximum.reduceat(scores, starts[:-1])  # there is a tree, so every word has a head
            relative: NDArray[np.float64] = np.exp(scores - np.repeat(best, np.diff(starts)))
            return relative
        if self.judgement == "posterior":
            return _possible(log_marginals(self._candidates, self.single_root)[1])
        sentence = self.sentences[0]
        if self._by_pairs:
            marginals, _, best, means = self._marginals_of_pairs
            return _strength(marginals, best[sentence], means[sentence])
        marginals = max_marginals(self._candidates, self.single_root)
        best = np.full(len(self.parts.lengths), -np.inf)
        np.maximum.at(best, sentence, marginals)
        if self.judgement == "odds":
            return _possible(np.exp(marginals - best[sentence]))
        return _strength(marginals, best[sentence], thresholds(marginals, sentence, best, 0.0)[sentence])

    def supported(self, cut: float) -> Parts:
        """Candidate arcs of at least this strength, and by `sibling` -inf for those of their pairs that are weaker.

        Siblings are there only if pairs are judged. Those that end a side are supported by their arc.
        """
        keep, scored = self.strengths >= cut, self._scored(self.scores[0])
        if not self._by_pairs:
            return restrict(scored, keep)
        lost = np.zeros(len(self._candidates.layout.sibling), dtype=np.float32)
        counted, sentence = self._judged_pairs
        _, pairs, best, means = self._marginals_of_pairs
        strengths = _strength(pairs[counted], best[sentence], means[sentence])
        lost[counted] = np.where(strengths >= cut, 0.0, -np.inf)
        return restrict(scored.with_scores(sibling=lost), keep, ("sibling",))

    @cached_property
    def _marginals_of_pairs(self) -> tuple[NDArray[np.float64], ...]:
        """Max-marginals of arcs and of siblings, and (B,) the best and the mean of those that are judged."""
        marginals, pairs = sibling_max_marginals(self._candidates, self.single_root)
        counted, sentence = self._judged_pairs
        best = np.full(len(self.parts.lengths), -np.inf)
        np.maximum.at(best, self.sentences[0], marginals)
        return marginals, pairs, best, thresholds(pairs[counted], sentence, best, 0.0)

    @cached_property
    def _judged_pairs(self) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        return sibling_indices(self._candidates)

    @cached_property
    def sentences(self) -> list[NDArray[np.int64]]:
        offsets = [self.parts.sentence_offsets, *(self.parts.part_offsets(kind) for kind in self._kinds)]
        return [np.repeat(np.arange(len(starts) - 1), np.diff(starts)) for starts in offsets]

    @property
    def there(self) -> list[NDArray[np.bool_]]:
        return [np.ones(len(score), dtype=np.bool_) for score in self.scores]

    def fires(self, trees: NDArray[np.integer]) -> list[NDArray[np.bool_]]:
        active = self._candidates.active(trees)
        fires = [np.zeros(len(score), dtype=np.bool_) for score in self.scores]
        for array, kind in zip(fires, ("arc", *self._kinds)):
            array[active[kind]] = True
        return fires

    def threshold(self, *scores: NDArray[np.floating]) -> tuple[NDArray[np.float64], Sequence[NDArray[np.float64]]]:
        parts = self._scored(*scores)
        if self.judgement != "max_marginal":
            values, gradients = log_partition_gradient(parts, self.single_root)
        else:
            over = sibling_thresholds if self._by_pairs else arc_thresholds
            values, gradients = over(parts, self.alpha, self.single_root)
        return values, [gradients[kind] for kind in ("arc", *self._kinds)]

    def strength(self, trees: NDArray[np.integer]) -> NDArray[np.float64]:
        found = np.full(trees.shape, np.nan)
        arcs = self.parts.active(trees)["arc"]
        found[self.sentences[0][arcs], self.parts.modifier[arcs]] = self.strengths[arcs]
        return found

    @property
    def _by_pairs(self) -> bool:
        return self.filters == "siblings" and self.judgement == "max_marginal" and bool(self._kinds)

    @property
    def _kinds(self) -> tuple[Literal["sibling"], ...]:
        return ("sibling",) if len(self.scores) > 1 else ()

    @cached_property
    def _candidates(self) -> Parts:
        return self._scored(*self.scores)

    def _scored(self, *scores: NDArray[np.floating]) -> Parts:
        return self.parts.with_scores(**dict(zip(("arc_score", *self._kinds), scores)))


def _strength(
    marginals: NDArray[np.float64], best: NDArray[np.float64], mean: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(M - mean) / (max - mean), and exactly 1 for M = max, also where all are equal but for rounding."""
    spread = np.maximum(best - mean, 1e-9 * np.abs(best))
    return 1 - np.divide(best - marginals, spread, out=np.zeros_like(marginals), where=spread > 0)


def _possible(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities as strengths: -inf for arcs of no tree."""
    return np.where(probability > 0, probability, -np.inf)


def _flat(indices: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate([array.ravel() for array in indices])


def _probability(scores: NDArray[np.float32]) -> NDArray[np.float64]:
    return 0.5 * (1 + np.tanh(0.5 * scores.astype(np.float64)))


def weakest(strength: NDArray[np.float64], counted: NDArray[np.bool_], criterion: Criterion) -> NDArray[np.float64]:
    """Strengths of what a criterion counts: each gold arc, or the weakest gold arc of each sentence.

    Args:
        strength: (B, N) of gold arcs, NaN where an earlier stage has lost them.
        counted: (B, N) which of them count.
        criterion: what is counted.
    """
    given = counted & ~np.isnan(strength)
    if criterion == "arcs":
        return strength[given]
    weakest_of_sentence: NDArray[np.float64] = np.where(given, strength, np.inf).min(1)
    return weakest_of_sentence[given.any(1)]


def largest_alpha(strengths: NDArray[np.float64], error: float, otherwise: float) -> float:
    """The largest alpha, up to 1, at which a stage loses at most a share of some arcs or sentences.

    Where more than that share is lost at any alpha, it is the largest one that loses no more.

    Args:
        strengths: of arcs, or of the weakest arc of each sentence; -inf for what is lost at any alpha.
        error: the share.
        otherwise: alpha if there is nothing to lose.
    """
    ascending = np.sort(strengths)
    lost = int(np.searchsorted(ascending, -np.inf, side="right"))
    if lost == len(ascending):
        return otherwise
    return float(ascending[min(max(int(error * len(ascending)), lost), len(ascending) - 1)].clip(max=1))


def projectivise(
    heads: NDArray[np.int64],
    lengths: NDArray[np.int64],
    single_root: bool,
    score: Callable[[], NDArray[np.floating]],
) -> NDArray[np.int64]:
    """Projective trees with as many of the arcs of other trees as there can be; of such trees the likeliest.

    Args:
        heads: (B, N) trees, or parts of trees, where -1 stands for no head.
        lengths: (B,) words of each sentence.
        single_root: whether trees have exactly one modifier of the root.
        score: gives scores of arcs (B, N, N), -inf where there is none; called only if there are such trees.
    """
    annotated = (heads >= 0).sum(1) == lengths
    proper = annotated & is_projective(heads)
    if single_root:
        proper &= (heads == 0).sum(1) == 1
    rest = np.flatnonzero(~proper)
    if len(rest) == 0:
        return heads
    scores = score()[rest]
    likely = np.exp(scores - scores.max(-1, keepdims=True))
    arcs = likely / likely.sum(-1, keepdims=True) / (2 * heads.shape[1])  # less than one arc, all words together
    sentence, m = np.nonzero(heads[rest] >= 0)
    arcs[sentence, m, heads[rest][sentence, m]] += 1
    trees = heads.copy()
    found = Eisner(single_root)(Parts.from_dense(arcs, lengths[rest])).heads
    trees[rest, : found.shape[1]] = found
    return trees
