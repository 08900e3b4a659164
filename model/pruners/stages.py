"""Stages of a cascade: what scores arcs lightly, and what an arc is worth by these scores.

`arbora.model.pruners.vine` puts stages after one another. A stage has either the arcs of a vine (`VineScorer`,
`VineSearch`) or candidate arcs (`CandidateScorer`, `ArcSearch`), and a way to learn and to judge arcs:

    max_marginal    filter loss max(0, 1 + t - s(gold)) with t = alpha max + (1 - alpha) mean of max-marginals M; the
                    strength of an arc is (M - mean) / (max - mean) (Rush and Petrov, 2012, section 4)
    posterior       likelihood of the tree among projective ones, by sums over trees; the strength is the probability
    odds            likelihood, too; the strength is exp(M - max), how likely the best tree with the arc is against the
                    best of all: prunes almost as well as probabilities, and searches as max-marginals do
    classifier      each arc by itself: logistic loss, the strength is the probability (after Bergsma and Cherry, 2010)
    heads           each word by itself, without a search and with nothing to learn: the strength is exp(s - max) by the
                    parser's own scores; if it learns them by cross-entropy, how likely a head is against the best one

A strength is at most 1, and an arc is kept if its strength is at least the alpha of the stage.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from arbora.decoders import Parts
from arbora.decoders.projective.marginals import (
    log_marginals,
    log_partition_gradient,
    max_marginals,
    sibling_max_marginals,
)
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
from arbora.model import losses
from arbora.model.layers import Projection
from arbora.model.scorers.biaffine import ArcScorer, Biaffine, Nodes
from arbora.model.scorers.multilinear import Multilinear, PartScorer, Vectors
from arbora.model.scorers.products import score_near
from arbora.model.tensors import numbers

StageName = Literal["dictionary", "local_short", "vine", "local", "first", "own", "second"]
STAGES: tuple[StageName, ...] = ("dictionary", "local_short", "vine", "local", "first", "own", "second")

Filter = Literal["max_marginal", "posterior", "odds"]
Criterion = Literal["sentences", "arcs"]
Index = Literal["arcs", "siblings"]
Judgement = Literal["max_marginal", "posterior", "odds", "classifier", "heads"]


class VineScorer(nn.Module):
    """Scores of a vine: for a word m and its close head h = m + d,  x_m U x_h + u x_h + v_d x_m,  and outer arcs by the
    vector of the one word that is known. Words are given as heads and modifiers, or else projected to these.
    """

    def __init__(self, inputs: int, band: int, size: int, dropout: float, projected: bool = False) -> None:
        super().__init__()
        self.band = band
        if not projected:
            self.head = Projection(inputs, size, dropout)
            self.modifier = Projection(inputs, size, dropout)
        self.weight = nn.Parameter(torch.zeros(size + 1, size))
        self.of_modifier = nn.Linear(size, 2 * band + 2)  # distances of close heads, and outer heads of both sides
        self.of_head = nn.Linear(size, 2)  # outer modifiers of both sides
        nn.init.zeros_(self.of_modifier.weight)
        nn.init.zeros_(self.of_head.weight)

    def forward(
        self, nodes: Nodes, lengths: Tensor, words: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Scores as `Indices` has them, of sentences of these lengths (B,); nothing here is larger than B N size.

        Args:
            nodes: of the sentences.
            lengths: (B,) words of each.
            words: nodes as modifiers and as heads, if they are projected already.
        """
        b, device = self.band, lengths.device
        modifier, head = words or (self.modifier(nodes.vectors), self.head(nodes.vectors))  # (B, N, size)
        N, rows = head.shape[1], F.linear(modifier, self.weight[:-1].t(), self.weight[-1])
        if rows.requires_grad or device.type != "cpu":
            near = F.pad(head, (0, 0, b, b))
            nearby = [near[:, b + d : b + d + N] for d in (*range(-b, 0), *range(1, b + 1))]  # (B, N, size) each
            products = torch.stack([(rows * heads).sum(-1) for heads in nearby], -1)  # (B, N, 2b)
        else:  # what is beyond a sentence is no head of its words, whatever the scores
            products = torch.from_numpy(score_near(numbers(rows), numbers(head), b)).view(*head.shape[:2], 2 * b)
        distances, outer_head = self.of_modifier(modifier).split([2 * b, 2], -1)
        count = lengths + 1
        first = torch.cumsum(count, 0) - count  # of nodes, sentence after sentence
        scores = [score.flatten(0, 1) for score in (products + distances, outer_head, self.of_head(head))]
        place = torch.arange(int(count.sum()), device=device)
        word = torch.ones_like(place, dtype=torch.bool)
        word[first] = False
        if len(place) < len(scores[0]):  # there is padding
            place = place + torch.repeat_interleave(torch.from_numpy(nodes.starts).to(device) - first, count)
            scores = [score.index_select(0, place) for score in scores]
        at = word.nonzero().squeeze(1)
        close, outer = (score.index_select(0, at).float() for score in scores[:2])
        return close, outer, scores[2].float()


class Roles(NamedTuple):
    """Words as a stage with candidate arcs has them."""

    arc: tuple[Tensor, Tensor]  # as `ArcScorer.roles` gives them
    siblings: Vectors | None


class CandidateScorer(nn.Module):
    """Scores only candidate arcs, as `ArcScorer` has them, and their siblings if asked for."""

    def __init__(
        self, inputs: int, size: int, dropout: float, sibling_rank: int | None = None, projected: bool = False
    ) -> None:
        super().__init__()
        self.arc = ArcScorer(inputs, Biaffine(arc=size, dropout=dropout), projected)
        siblings = None if sibling_rank is None else Multilinear(("sibling",), sibling_rank, dropout)
        self.siblings = None if siblings is None else PartScorer(inputs, siblings)

    def forward(self, vectors: Tensor, words: tuple[Tensor, Tensor] | None = None) -> Roles:
        """Words (B, N, inputs), or (1, W + B, inputs) without padding, in their roles.

        Args:
            vectors: of the words.
            words: the same as modifiers and as heads, if they are projected already.
        """
        arc = self.arc.roles(vectors) if words is None else (self.arc.weigh(words[0]), words[1])
        return Roles(arc, None if self.siblings is None else self.siblings(vectors))

    def score(self, roles: Roles, starts: NDArray[np.int64], parts: Parts) -> tuple[Tensor, ...]:
        """Scores of candidate arcs, (A,), and of siblings; (B,) `starts` are those of the nodes."""
        arcs = self.arc.score_candidates(roles.arc, starts, parts)
        if self.siblings is None or roles.siblings is None:
            return (arcs,)
        scores = self.siblings.score(roles.siblings, self.siblings.places(parts, arcs.device))
        return arcs, scores["sibling"].float()


class Search(ABC):
    """The search of one stage over a batch."""

    scores: tuple[Tensor, ...]
    judgement: Judgement

    @property
    @abstractmethod
    def sentences(self) -> Sequence[NDArray[np.int64]]:
        """The sentence of each score, in the shapes of `scores`."""

    @abstractmethod
    def fires(self, trees: NDArray[np.integer]) -> Sequence[NDArray[np.bool_]]:
        """Which scores projective trees (B, N) add up, in the shapes of `scores`."""

    @property
    @abstractmethod
    def there(self) -> Sequence[NDArray[np.bool_]]:
        """What is there to be judged, in the shapes of `scores`."""

    @abstractmethod
    def threshold(self, *scores: NDArray[np.floating]) -> tuple[NDArray[np.float64], Sequence[NDArray[np.float64]]]:
        """(B,) thresholds, or log-partitions, and their gradients."""

    @abstractmethod
    def strength(self, trees: NDArray[np.integer]) -> NDArray[np.float64]:
        """(B, N) strengths of the arcs of trees; -inf where no projective tree has them, NaN where there is no arc."""

    def loss(self, trees: NDArray[np.integer]) -> Tensor:
        """Filter loss, negative log-likelihood or logistic loss of projective trees (B, N), summed over sentences."""
        assert self.judgement != "heads"
        if self.judgement == "classifier":
            return self._logistic_loss(trees)
        margin = 1.0 if self.judgement == "max_marginal" else 0.0
        return losses.margins(self.scores, self.sentences, self.fires(trees), self.threshold, margin)

    def _logistic_loss(self, trees: NDArray[np.integer]) -> Tensor:
        found = []
        for score, there, fires in zip(self.scores, self.there, self.fires(trees)):
            judged = score[torch.from_numpy(there).to(score.device)]
            target = torch.from_numpy(fires[there]).to(judged)
            found.append(F.binary_cross_entropy_with_logits(judged, target, reduction="sum"))
        return torch.stack(found).sum()

    def numbers(self) -> list[NDArray[np.float32]]:
        """Scores without gradients."""
        return [score.detach().float().cpu().numpy() for score in self.scores]


@dataclass
class VineSearch(Search):
    """A search over the arcs of a vine."""

    scores: tuple[Tensor, ...]  # as `Indices` has them
    lengths: NDArray[np.int64]
    allowed: Indices  # arcs that earlier stages left
    alpha: float  # of the filter loss
    judgement: Judgement
    single_root: bool

    @cached_property
    def strengths(self) -> Indices:
        """Strength of each arc of the vine."""
        if self.judgement == "classifier":
            pairs = zip(self.numbers(), self.allowed)
            return Indices(*(np.where(allowed, _probability(score), -np.inf) for score, allowed in pairs))
        vine = self._vine(*self.numbers())
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

    scores: tuple[Tensor, ...]  # of arcs, and of siblings if there are two
    parts: Parts
    alpha: float  # of the filter loss
    judgement: Judgement
    single_root: bool
    filters: Index = "arcs"

    @cached_property
    def strengths(self) -> NDArray[np.float64]:
        """(A,) strength of each arc; if pairs of siblings are judged, of the best in which it is the outer one."""
        if self.judgement == "classifier":
            return _probability(self.numbers()[0])
        if self.judgement == "heads":
            scores, starts = self.numbers()[0].astype(np.float64), self.parts.modifier_offsets
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
        keep, scored = self.strengths >= cut, self._scored(self.numbers()[0])
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
        return self._scored(*self.numbers())

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
