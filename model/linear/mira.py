"""Learning of linear models: MIRA through any decoder.

Crammer and Singer (2003), as McDonald, Crammer and Pereira (2005) use it: of the best tree under scores and cost, with
f its features and f* those of the gold tree,

    loss = w f + cost - w f*,   step = min(C, loss / |f* - f|^2),   w = w + step (f* - f),

one sentence after the other, and the model is the mean of w over all sentences. Cost counts words with a wrong head or
a wrong label.

Differs from the papers: labels are chosen with the arcs, whose score has that of the best label in it. A tree from a
search that failed, with a score below the gold tree's, changes nothing. Where words are not annotated, the best tree
that agrees with the others stands in for the gold tree, and these words cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from arbora.data.batch import IndexedSentence, collate
from arbora.decoders import Decoder, Parts
from arbora.decoders.kernels.options import KERNEL
from arbora.decoders.settings import check_settings, numeric
from arbora.model.linear.backend import LinearModel, LinearScores
from arbora.model.linear.hashing import Ints, arc_places, arcs_of, part_places, score_arcs, score_parts
from arbora.model.linear.pruners import jackknife


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
        error: share of the development sentences from which a stage may take a gold arc.
        folds: into which sentences are divided, so that MIRA sees of each what a pruner of the others leaves.
        seed: of the order of sentences.
    """

    epochs: int = numeric(10, least=1)
    step: float = numeric(0.003, above=0)
    label_cost: float = numeric(0.5, least=0)
    pruner_epochs: int = numeric(3, least=1)
    pruner_rate: float = numeric(0.03, above=0)
    alpha: float = numeric(0.6, least=0, most=1)
    penalty: float = numeric(1e-6, least=0)
    error: float = numeric(0.2, least=0, most=1)
    folds: int = numeric(4, least=2)
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
        tree = self.decoder(found)

        right = labels.argmax(1)  # of the gold tree
        right[known] = gold_label[known]
        allowed = np.isfinite(labels[every, right])
        target = scored.with_scores(arc_score=arcs + np.where(allowed, labels[every, right], 0))
        gold = self._complete(target, heads)
        loss = float(found.score(tree.heads)[0] - target.score(gold)[0])
        self.steps += 1
        if loss <= 0:
            return 0.0
        features, sign = self._difference(scores, parts, hashes, (found, tree.heads, label), (target, gold, right))
        _step(
            features, sign, loss, self.settings.step, float(self.steps - 1), self._change, model.weights, self.weighted
        )
        return loss

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
        found: tuple[Parts, NDArray[Any], Ints],
        target: tuple[Parts, NDArray[Any], Ints],
    ) -> tuple[Ints, NDArray[np.float32]]:
        """Places of features that only one of two trees has, and their signs: 1 for those of the target."""
        size, labels = len(self.model.weights), len(self.model.vocabulary.labels)
        places: list[Ints] = []
        signs: list[float] = []
        active = [one[0].active(one[1]) for one in (found, target)]
        for sign, (own, other) in ((-1.0, active), (1.0, active[::-1])):
            label, other_label = (found[2], target[2]) if sign < 0 else (target[2], found[2])
            for kind, entries in own.items():
                only = np.setdiff1d(entries, other[kind], assume_unique=True)
                if kind == "arc":
                    features, _ = arc_places(scores.arc_hashes, parts.head[only], parts.modifier[only], size)
                    places.append(features)
                    same = entries[~np.isin(entries, only)]
                    only = np.concatenate([only, same[label[same] != other_label[same]]])
                    arcs = parts.head[only], parts.modifier[only]
                    features, counts = arc_places(scores.label_hashes, *arcs, size - labels)
                    signs += [sign] * len(places[-1])
                    places.append(features + np.repeat(label[only], counts))
                else:
                    places.append(part_places(scores.words, hashes[kind], only, size).ravel())
                signs += [sign] * len(places[-1])
        return np.concatenate(places), np.array(signs, np.float32)


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
