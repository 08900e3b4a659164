"""Learning of linear models: MIRA through any decoder.

Crammer and Singer (2003), as McDonald, Crammer and Pereira (2005) use it: of the best tree under scores and cost, with
f its features and f* those of the gold tree,

    loss = w f + cost - w f*,   step = min(C, loss / |f* - f|^2),   w = w + step (f* - f),

one sentence after the other, and the model is the mean of w over all sentences. Cost counts words with a wrong head or
a wrong label.

Where a decoder gives the solution of a relaxation (`AD3(fractional=True)`), f are the features of all parts in it, each
weighted by its share, as Martins et al. (2013) learn.

Differs from the papers: labels are chosen with the arcs, whose score has that of the best label in it. A tree from a
search that failed, with a score below the gold tree's, changes nothing. Where words are not annotated, the best tree
that agrees with the others stands in for the gold tree, and these words cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from arbora.data.batch import IndexedSentence, collate
from arbora.decoders import Decoder, Parts, RelaxedTrees
from arbora.decoders.dual.shares import share_changes
from arbora.decoders.kernels.options import KERNEL
from arbora.decoders.settings import check_settings, numeric
from arbora.model.linear.backend import LinearModel, LinearScores
from arbora.model.linear.hashing import Ints, arc_places, arcs_of, part_places, score_arcs, score_parts
from arbora.model.linear.pruners import jackknife

Shares = Mapping[str, tuple[Ints, NDArray[np.float64]]]
"""For `arc` and each kind of part, the parts of a solution, ascending, and the share of each."""


@dataclass(frozen=True)
class Learning:
    """Settings of learning.

    Args:
        epochs: of MIRA.
        step: C, the largest step.
        label_cost: cost of a wrong label on the right head, where a wrong head costs 1.
        pruner_epochs: of the pruner, or of each of its stages.
        pruner_rate: of AdaGrad.
        alpha: of the filter loss of a cascade's stages.
        penalty: of their squared weights in it.
        error: share of the development sentences from which each stage of a cascade may take a gold arc.
        folds: into which sentences are divided, so that MIRA sees of each what a pruner of the others leaves.
        separate_heads: learn a classifier: instead of a tree, MIRA sees the best head of each word, chosen separately.
            For arcs only.
        seed: of the order of sentences.
    """

    epochs: int = numeric(10, least=1)
    step: float = numeric(0.003, above=0)
    label_cost: float = numeric(0.5, least=0)
    pruner_epochs: int = numeric(3, least=1)
    pruner_rate: float = numeric(0.03, above=0)
    alpha: float = numeric(0.6, least=0, most=1)
    penalty: float = numeric(1e-6, least=0)
    error: float = numeric(0.05, least=0, most=1)
    folds: int = numeric(4, least=2)
    separate_heads: bool = False
    seed: int = numeric(1, least=0)

    def __post_init__(self) -> None:
        check_settings(self)


class Mira:
    """Learns the weights of a model from sentences, one after the other.

    Args:
        model: its `weights` change; `averaged` gives a model with their mean.
        sentences: with heads.
        decoder: finds the best tree.
        settings: of learning.
    """

    def __init__(
        self, model: LinearModel, sentences: Sequence[IndexedSentence], decoder: Decoder, settings: Learning
    ) -> None:
        if settings.separate_heads and model.part_features:
            kinds = ", ".join(model.part_features)
            raise ValueError(f"learning.separate_heads is for arcs only, not for {kinds}: set linear.order to 1")
        self.model = model
        self.sentences = [sentence for sentence in sentences if (sentence.heads[1:] >= 0).any()]
        self.decoder = decoder
        self.settings = settings
        self.steps = 0  # sentences seen
        self.weighted = np.zeros(len(model.weights))  # sum of each change times the sentences seen before
        self._change = np.zeros(len(model.weights), np.float32)
        self._candidates = jackknife(model, self.sentences, settings)

    def averaged(self) -> LinearModel:
        """A model with the mean of the weights over all steps."""
        model = self.model
        mean = (model.weights - self.weighted / max(self.steps, 1)).astype(np.float32)
        averaged = LinearModel(model.vocabulary, model.settings, model.decoder, mean)
        averaged.pruner = model.pruner
        return averaged

    def train_epoch(self, epoch: int, advance: Callable[[int], None] | None = None) -> float:
        """Go over all sentences once, in an order that follows from the seed and the epoch.

        Returns:
            The mean loss of a word.
        """
        loss = 0.0
        for i in np.random.default_rng([self.settings.seed, epoch]).permutation(len(self.sentences)).tolist():
            loss += self.learn(i)
            if advance is not None:
                advance(1)
        return loss / max(1, sum(map(len, self.sentences)))

    def learn(self, i: int) -> float:
        """Learn from one sentence, and return its loss."""
        model, sentence = self.model, self.sentences[i]
        scores = model.score(collate([sentence], model.vocabulary))
        heads = sentence.heads[None]
        parts, hashes = self._candidates[i], scores.part_hashes(self._candidates[i])
        arcs = score_arcs(scores.arc_hashes, *arcs_of(parts), model.weights)
        labels = scores.score_labels(*arcs_of(parts))
        scored = parts.with_scores(**{kind: score_parts(h, scores.words, model.weights) for kind, h in hashes.items()})

        gold_head, gold_label = sentence.heads[parts.modifier], sentence.labels[parts.modifier]
        is_gold = gold_head == parts.head
        costs = self.settings.label_cost * (is_gold & (gold_label >= 0))[:, None] * np.ones_like(labels)
        known = np.flatnonzero(is_gold & (gold_label >= 0))
        costs[known, gold_label[known]] = 0
        costs += ((gold_head >= 0) & ~is_gold)[:, None]
        label = (labels + costs).argmax(1)
        every = np.arange(len(label))
        found = scored.with_scores(arc_score=arcs + (labels + costs)[every, label])
        shares, value = self._best(found)

        right = labels.argmax(1)  # of the gold tree
        right[known] = gold_label[known]
        allowed = np.isfinite(labels[every, right])
        target = scored.with_scores(arc_score=arcs + np.where(allowed, labels[every, right], 0))
        gold = self._complete(target, heads)
        loss = value - float(target.score(gold)[0])
        self.steps += 1
        if loss <= 0:
            return 0.0
        features, sign = self._difference(scores, parts, hashes, shares, label, target.active(gold), right)
        _step(
            features, sign, loss, self.settings.step, float(self.steps - 1), self._change, model.weights, self.weighted
        )
        return loss

    def _best(self, found: Parts) -> tuple[Shares, float]:
        """The parts of the best solution with their shares, and its score."""
        if self.settings.separate_heads:
            arcs = best_arcs(found)
            return {"arc": (arcs, np.ones(len(arcs)))}, float(found.arc_score[arcs].astype(np.float64).sum())
        trees = self.decoder(found)
        if isinstance(trees, RelaxedTrees) and trees.shares:
            value = sum(
                float(share @ (found.arc_score if kind == "arc" else getattr(found, kind))[entries].astype(np.float64))
                for kind, (entries, share) in trees.shares.items()
            )
            return trees.shares, value
        active = found.active(trees.heads)
        return {kind: (entries, np.ones(len(entries))) for kind, entries in active.items()}, float(trees.score[0])

    def _complete(self, target: Parts, heads: NDArray[np.int64]) -> NDArray[np.int64]:
        """The gold tree, or the best tree that agrees with the known heads."""
        if (heads[0, 1:] >= 0).all():
            return heads
        agrees = (heads[0, target.modifier] < 0) | (heads[0, target.modifier] == target.head)
        kinds = {kind: np.asarray(getattr(target, kind)) for kind in target.kinds}
        low = np.float32(-4 * (1 + float(target.spread[0])))
        tree = self.decoder(target.with_scores(arc_score=target.arc_score + np.where(agrees, 0, low), **kinds))
        return np.where(heads < 0, tree.heads, heads)

    def _difference(
        self,
        scores: LinearScores,
        parts: Parts,
        hashes: dict[str, Any],
        found: Shares,
        label: Ints,
        gold: Mapping[str, Ints],
        right: Ints,
    ) -> tuple[Ints, NDArray[np.float32]]:
        """Places of features by which the gold tree differs from a solution, and what it has more of each.

        `label` has the labels of arcs in the solution, `right` those in the gold tree.
        """
        size, labels = len(self.model.weights), len(self.model.vocabulary.labels)
        places: list[Ints] = []
        more: list[NDArray[np.float64]] = []
        for kind, (entries, share) in found.items():
            changed, change = share_changes(entries, share, gold[kind])
            if kind != "arc":
                features = part_places(scores.words, hashes[kind], changed, size)
                places.append(features.ravel())
                more.append(np.repeat(-change, features.shape[1]))
                continue
            features, counts = arc_places(scores.arc_hashes, parts.head[changed], parts.modifier[changed], size)
            places.append(features)
            more.append(np.repeat(-change, counts))
            same, own = label[changed] == right[changed], label[entries] != right[entries]
            others = gold["arc"][label[gold["arc"]] != right[gold["arc"]]]
            for arcs, which, amount in (
                (changed[same], label, -change[same]),
                (entries[own], label, -share[own]),
                (others, right, np.ones(len(others))),
            ):
                features, counts = arc_places(
                    scores.label_hashes, parts.head[arcs], parts.modifier[arcs], size - labels
                )
                places.append(features + np.repeat(which[arcs], counts))
                more.append(np.repeat(amount, counts))
        return np.concatenate(places), np.concatenate(more).astype(np.float32)


def best_arcs(parts: Parts) -> Ints:
    """(W,) best candidate arc of each word, separately; together they need not be a tree. Of equals, the first."""
    best = np.maximum.reduceat(parts.arc_score, parts.modifier_offsets[:-1])
    places = np.flatnonzero(parts.arc_score == np.repeat(best, np.diff(parts.modifier_offsets)))
    word = np.searchsorted(parts.modifier_offsets, places, side="right") - 1
    return places[np.unique(word, return_index=True)[1]]


@numba.njit(**KERNEL)
def _step(features, sign, loss, most, before, change, weights, weighted):
    """Move weights by the closed-form step of MIRA; `change` is zero before and after."""
    for f in range(len(features)):
        change[features[f]] += sign[f]
    norm = 0.0
    for f in range(len(features)):
        d = change[features[f]]
        if d != 0:
            norm += d * d
            change[features[f]] = 0
    for f in range(len(features)):
        change[features[f]] += sign[f]
    step = min(most, loss / norm) if norm > 0 else 0.0
    for f in range(len(features)):
        place = features[f]
        d = change[place]
        if d != 0:
            weights[place] += step * d
            weighted[place] += before * step * d
            change[place] = 0
