"""Learning of linear models: MIRA through any decoder, and the likelihood of trees for the pruner.

Crammer and Singer (2003), as McDonald, Crammer and Pereira (2005) use it: of the best tree under scores and cost, with
f its features and f* those of the gold tree,

    loss = w f + cost - w f*,   step = min(C, loss / |f* - f|^2),   w = w + step (f* - f),

one sentence after the other, and the model is the mean of w over all sentences. Cost counts words with a wrong head or
a wrong label. The pruner maximises the log-likelihood of gold trees among all trees (Koo et al., 2007), by AdaGrad
(Duchi, Hazan and Singer, 2011).

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
from arbora.decoders.marginals import arc_marginals
from arbora.decoders.settings import check_settings, numeric
from arbora.model.linear.backend import LinearModel, LinearScores, arcs_of
from arbora.model.linear.hashing import (
    ArcHashes,
    Ints,
    hash_arc,
    list_arc_features,
    list_part_features,
    most_hashes,
    place_of,
    score_arcs,
    score_parts,
)


@dataclass(frozen=True)
class Learning:
    """Settings of learning.

    Args:
        epochs: of MIRA.
        step: C, the largest step.
        label_cost: cost of a wrong label on the right head, where a wrong head costs 1.
        pruner_epochs: of the pruner.
        pruner_rate: of AdaGrad.
        folds: into which sentences are divided, so that MIRA sees of each what a pruner of the others leaves.
        seed: of the order of sentences.
    """

    epochs: int = numeric(10, least=1)
    step: float = numeric(0.003, above=0)
    label_cost: float = numeric(0.5, least=0)
    pruner_epochs: int = numeric(3, least=1)
    pruner_rate: float = numeric(0.03, above=0)
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
        self._candidates = jackknife(model, self.sentences, decoder, settings)

    def averaged(self) -> LinearModel:
        """A model with the mean of the weights over all steps."""
        model = self.model
        mean = (model.weights - self.weighted / max(self.steps, 1)).astype(np.float32)
        pruner = None if model.pruner is None else model.pruner.weights
        return LinearModel(model.vocabulary, model.settings, model.decoder, mean, pruner)

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
            features,
            sign,
            loss,
            self.settings.step,
            float(self.steps - 1),
            self._change,
            model.weights,
            self.weighted,
        )
        return loss

    def _complete(self, target: Parts, heads: NDArray[np.int64]) -> NDArray[np.int64]:
        """The gold tree, or the best tree that agrees with the heads that there are."""
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
                    features, _ = _arc_features(scores.arc_hashes, parts, only, size)
                    places.append(features)
                    same = entries[~np.isin(entries, only)]
                    only = np.concatenate([only, same[label[same] != other_label[same]]])
                    features, counts = _arc_features(scores.label_hashes, parts, only, size - labels)
                    signs += [sign] * len(places[-1])
                    places.append(features + np.repeat(label[only], counts))
                else:
                    features = np.empty((len(only), hashes[kind].columns.shape[1]), np.int64)
                    list_part_features(scores.words, hashes[kind], only, size, features)
                    places.append(features.ravel())
                signs += [sign] * len(places[-1])
        return np.concatenate(places), np.array(signs, np.float32)


def _arc_features(arcs: ArcHashes, parts: Parts, entries: Ints, size: int) -> tuple[Ints, Ints]:
    """Places of the features of some arcs, and how many each of them has."""
    features = np.empty(len(entries) * most_hashes.py_func(arcs), np.int64)
    offsets = np.zeros(len(entries) + 1, np.int64)
    list_arc_features(arcs, parts.head[entries], parts.modifier[entries], size, features, offsets)
    return features[: offsets[-1]], np.diff(offsets)


def train_pruner(
    model: LinearModel,
    sentences: Sequence[IndexedSentence],
    single_root: bool,
    settings: Learning,
    report: Callable[[int, float], None] | None = None,
) -> NDArray[np.float32]:
    """Weights of a pruner, trained by the likelihood of gold trees; partly annotated sentences are left out.

    Args:
        model: has the features.
        sentences: with heads.
        single_root: among trees with exactly one modifier of the root; sentences with more are left out.
        settings: of learning.
        report: called after each epoch with the mean log-likelihood of a word.
    """
    whole = [s for s in sentences if (s.heads[1:] >= 0).all() and (not single_root or (s.heads == 0).sum() == 1)]
    assert model.pruner is not None
    weights, squares, total = (np.zeros(len(model.pruner.weights), np.float32) for _ in range(3))
    for epoch in range(settings.pruner_epochs):
        likelihood, words = 0.0, 0
        for i in np.random.default_rng([settings.seed, epoch]).permutation(len(whole)).tolist():
            sentence = whole[i]
            scores = model.score(collate([sentence], model.vocabulary))
            every, hashes = scores.every_arc, model.pruner_features.hash(scores.words)
            arcs = scores.as_matrix(score_arcs(hashes, *arcs_of(every), weights))
            marginals = arc_marginals(arcs, scores.words.lengths, single_root)[0, every.modifier, every.head]
            gold = sentence.heads[every.modifier] == every.head
            likelihood += float(np.log(np.maximum(marginals[gold], 1e-30)).sum())
            words += len(sentence)
            _ascend(hashes, every.head, every.modifier, gold - marginals, settings.pruner_rate, squares, weights)
        total += weights
        if report is not None:
            report(epoch, likelihood / max(words, 1))
    return total / np.float32(settings.pruner_epochs)


def jackknife(
    model: LinearModel, sentences: Sequence[IndexedSentence], decoder: Decoder, settings: Learning
) -> list[Parts]:
    """Candidate arcs of each sentence, gold arcs among them, from pruners that have not seen the sentence.

    What a pruner leaves of its own training sentences is cleaner than what it leaves of others.
    """
    fold = np.random.default_rng([settings.seed, len(sentences)]).permutation(len(sentences)) % settings.folds
    pruner = model.pruner
    kept = None if pruner is None else pruner.weights
    found: dict[int, Parts] = {}
    for number in range(settings.folds):
        if pruner is not None:
            others = [sentence for i, sentence in enumerate(sentences) if fold[i] != number]
            pruner.weights = train_pruner(model, others, decoder.single_root, settings)
        for i in np.flatnonzero(fold == number).tolist():
            scores = model.score(collate([sentences[i]], model.vocabulary))
            found[i] = scores.candidates(decoder, sentences[i].heads[None]).only()
    if pruner is not None and kept is not None:
        pruner.weights = kept
    return [found[i] for i in range(len(sentences))]


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


@numba.njit(**KERNEL)
def _ascend(arcs, head, modifier, gradient, rate, squares, weights):
    """One step of AdaGrad on the arcs of a sentence."""
    hashes = np.empty(most_hashes(arcs), np.uint32)
    size = len(weights)
    for k in range(len(head)):
        g = gradient[k]
        if abs(g) < 1e-3:
            continue
        count = hash_arc(arcs, 0, head[k], modifier[k], hashes)
        for f in range(count):
            place = place_of(hashes[f], size)
            squares[place] += g * g
            weights[place] += rate * g / np.sqrt(squares[place])
