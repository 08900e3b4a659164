"""Pruners of linear models: a first-order model by its marginals, or a vine cascade.

The first one maximises the log-likelihood of gold trees among all trees (Koo et al., 2007). The second one is that of
Rush and Petrov (2012), "Vine pruning for efficient multi-pass dependency parsing": a vine, first order, and arcs with
siblings, each with weights of its own, as `arbora.decoders.vine.searches` judges arcs by them. A stage learns

    min_w  penalty / 2 |w|^2 + mean of max(0, 1 + t(w) - w f*),   t = alpha max + (1 - alpha) mean of max-marginals

over what the stages before it leave, is tuned on the development part so that it takes a gold arc from no more than a
given share of the sentences, and then stays as it is while the next one learns.

Both are learnt by AdaGrad (Duchi, Hazan and Singer, 2011), and the weights are the mean of those after each epoch.

Differs from the papers: the cascade has no dictionary of lengths; the penalty is taken off every `PERIOD` sentences;
gold trees that cross are replaced by the projective trees that have most of their arcs; the second order judges arcs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from arbora.data.batch import IndexedSentence, collate
from arbora.decoders import Parts
from arbora.decoders.marginals import arc_marginals
from arbora.decoders.vine.candidates import expand, with_trees
from arbora.decoders.vine.searches import (
    ArcSearch,
    Criterion,
    Search,
    VineSearch,
    largest_alpha,
    projectivise,
    weakest,
)
from arbora.decoders.vine.structures import existing
from arbora.model.linear.hashing import (
    Arcs,
    Ints,
    PartFeatures,
    Rows,
    arc_places,
    arcs_of,
    climb,
    part_places,
    score_arcs,
    score_parts,
)

if TYPE_CHECKING:
    from arbora.model.linear.backend import LinearModel, LinearScores
    from arbora.model.linear.mira import Learning

StageName = Literal["vine", "first", "second"]
STAGES: tuple[StageName, ...] = ("vine", "first", "second")
TOLERANCE = 1e-6
"""Arcs weaker than alpha by this share of it are kept."""

PERIOD = 256
"""Sentences between two steps down the penalty."""

Report = Callable[[str, int, float], None]
"""Told after each epoch what was learnt, the number of the epoch, and the mean of what is maximised or minimised."""


@dataclass
class LinearPruner:
    """A first-order model that leaves a few candidate heads for each word, by its marginals.

    Args:
        weights: of its features.
        max_heads: heads per word.
        ratio: to the most probable head.
    """

    weights: NDArray[np.float32]
    max_heads: int
    ratio: float


@dataclass
class LinearCascade:
    """Stages that prune, one after the other; a projective tree is always left.

    Args:
        weights: (S, size) of the features of each stage.
        alphas: (S,) the least strength of an arc that a stage keeps.
        stages: some of vine, first and second.
        band: of the vine.
        siblings: features of the second order.
    """

    weights: NDArray[np.float32]
    alphas: NDArray[np.float64]
    stages: tuple[StageName, ...]
    band: int
    siblings: PartFeatures

    def search(self, number: int, scores: LinearScores, left: Parts, alpha: float, single_root: bool) -> Search:
        """The search of a stage over the candidates that those before it left."""
        weights, lengths = self.weights[number], scores.words.lengths
        found = [score_arcs(scores.pruner_hashes, *arcs, weights) for arcs in self.arcs(number, left)]
        if self.stages[number] == "vine":
            allowed = existing(lengths, self.band)
            shaped = tuple(score.reshape(there.shape) for score, there in zip(found, allowed))
            return VineSearch(shaped, lengths, allowed, alpha, "max_marginal", single_root)
        if self.stages[number] == "second":
            hashes = self.siblings.hash(scores.words, left, Rows(left))
            found.append(score_parts(hashes, scores.words, weights))
        return ArcSearch(tuple(found), left, alpha, "max_marginal", single_root)

    def arcs(self, number: int, left: Parts) -> list[Arcs]:
        """The arcs that a stage scores."""
        return vine_arcs(left.lengths, self.band) if self.stages[number] == "vine" else [arcs_of(left)]

    def candidates(
        self, scores: LinearScores, single_root: bool, keep: NDArray[np.integer] | None = None, until: int | None = None
    ) -> Parts:
        """Candidate arcs, without scores of their own.

        Args:
            scores: of a batch.
            single_root: whether trees have exactly one modifier of the root.
            keep: (B, N) heads to keep.
            until: the number of stages to run; all unless given.
        """
        parts = scores.every_arc
        for number, alpha in enumerate(self.alphas[:until].tolist()):
            search = self.search(number, scores, parts, 0.0, single_root)
            cut = alpha - TOLERANCE * abs(alpha)
            if isinstance(search, VineSearch):
                kept = type(search.strengths)(*(strength >= cut for strength in search.strengths))
                parts = with_trees(expand(kept, search.lengths, single_root=single_root), keep)
            elif isinstance(search, ArcSearch):
                parts = with_trees(search.supported(cut).only(), keep)
        return parts


def vine_arcs(lengths: NDArray[np.integer], band: int) -> list[Arcs]:
    """The arcs of a vine as `Indices` has them; the other end of an outer one is behind the words of the sentence.

    Close heads that would be beyond the sentence are given as the root; they are not read.
    """
    n = lengths.astype(np.int64)
    words, nodes = (np.concatenate([[0], np.cumsum(count)]) for count in (n, n + 1))
    h = (np.arange(nodes[-1]) - np.repeat(nodes[:-1], n + 1))[:, None]
    m, far = h[h[:, 0] > 0], 1 + np.arange(2)
    close = m + np.concatenate([np.arange(-band, 0), np.arange(1, band + 1)])
    close[(close < 0) | (close > np.repeat(n, n)[:, None])] = 0
    ends, ends_of_nodes = (np.repeat(n, count)[:, None] + far for count in (n, n + 1))

    def listed(offsets: Ints, head: Ints, modifier: Ints) -> Arcs:
        pairs = [np.ascontiguousarray(each, np.int32) for each in np.broadcast_arrays(head, modifier)]
        return offsets * pairs[0].shape[1], pairs[0].ravel(), pairs[1].ravel()

    return [listed(words, close, m), listed(words, ends, m), listed(nodes, h, ends_of_nodes)]


def train_pruner(
    model: LinearModel,
    sentences: Sequence[IndexedSentence],
    settings: Learning,
    dev: Sequence[IndexedSentence] = (),
    report: Report | None = None,
) -> LinearPruner | LinearCascade:
    """Train a pruner like that of a model; partly annotated sentences are left out, and those with too many roots.

    Args:
        model: has the features, and the pruner whose settings are taken.
        sentences: with heads.
        settings: of learning.
        dev: sentences to tune a cascade on; without any, its stages keep the alphas that they have.
        report: called after each epoch.
    """
    single_root = model.decoder.single_root
    whole = [s for s in sentences if (s.heads[1:] >= 0).all() and (not single_root or (s.heads == 0).sum() == 1)]
    pruner = model.pruner
    if isinstance(pruner, LinearCascade):
        pruner = replace(pruner, weights=np.zeros_like(pruner.weights), alphas=pruner.alphas.copy())
        for number in range(len(pruner.stages)):
            _train_stage(model, pruner, number, whole, settings, report)
            if dev:
                pruner.alphas[number] = tune_stage(model, pruner, number, dev, settings.error)
        return pruner
    assert pruner is not None
    weights = np.zeros_like(pruner.weights)

    def step(i: int, squares: NDArray[np.float32]) -> float:
        scores = model.score(collate([whole[i]], model.vocabulary))
        every = scores.every_arc
        arcs = scores.as_matrix(score_arcs(scores.pruner_hashes, *arcs_of(every), weights))
        marginals = arc_marginals(arcs, scores.words.lengths, single_root)[0, every.modifier, every.head]
        gold = whole[i].heads[every.modifier] == every.head
        gradient = np.where(np.abs(gold - marginals) < 1e-3, 0, gold - marginals)
        climb(*_of_arcs(scores, arcs_of(every), gradient, len(weights)), settings.pruner_rate, squares, weights)
        return float(np.log(np.maximum(marginals[gold], 1e-30)).mean())

    _learn(step, len(whole), weights, settings, 0.0, "pruner, log-likelihood of a word", report)
    return replace(pruner, weights=weights)


def jackknife(model: LinearModel, sentences: Sequence[IndexedSentence], settings: Learning) -> list[Parts]:
    """Candidate arcs of each sentence, gold arcs among them, from pruners that have not seen the sentence.

    What a pruner leaves of its own training sentences is cleaner than what it leaves of others.
    """
    fold = np.random.default_rng([settings.seed, len(sentences)]).permutation(len(sentences)) % settings.folds
    own = model.pruner
    found: dict[int, Parts] = {}
    for number in range(settings.folds):
        if own is not None:
            model.pruner = train_pruner(model, [s for i, s in enumerate(sentences) if fold[i] != number], settings)
        for i in np.flatnonzero(fold == number).tolist():
            scores = model.score(collate([sentences[i]], model.vocabulary))
            found[i] = scores.candidates(model.decoder, sentences[i].heads[None]).only()
    model.pruner = own
    return [found[i] for i in range(len(sentences))]


def _train_stage(
    model: LinearModel,
    pruner: LinearCascade,
    number: int,
    sentences: Sequence[IndexedSentence],
    settings: Learning,
    report: Report | None,
) -> None:
    """Learn the weights of one stage from what the stages before it leave."""
    weights, single_root = pruner.weights[number], model.decoder.single_root
    trees = [_projective_tree(sentence, single_root) for sentence in sentences]
    left: dict[int, Parts] = {}

    def step(i: int, squares: NDArray[np.float32]) -> float:
        scores = model.score(collate([sentences[i]], model.vocabulary))
        if i not in left:
            left[i] = pruner.candidates(scores, single_root, trees[i], number)
        search = pruner.search(number, scores, left[i], settings.alpha, single_root)
        thresholds, gradients = search.threshold(*search.scores)
        fires = search.fires(trees[i])
        loss = 1 + float(thresholds[0]) - sum(float(score[gold].sum()) for score, gold in zip(search.scores, fires))
        if loss <= 0:
            return 0.0
        for arcs, gold, gradient in zip(pruner.arcs(number, left[i]), fires, gradients):
            places = _of_arcs(scores, arcs, (gold - gradient).ravel(), len(weights))
            climb(*places, settings.pruner_rate, squares, weights)
        if len(fires) > 1 and isinstance(search, ArcSearch):
            gradient = fires[1] - gradients[1]
            chosen = np.flatnonzero(gradient)
            hashes = pruner.siblings.hash(scores.words, left[i], Rows(left[i]))
            features = part_places(scores.words, hashes, chosen, len(weights))
            of_features = np.repeat(gradient[chosen], features.shape[1])
            climb(features.ravel(), of_features, settings.pruner_rate, squares, weights)
        return loss

    _learn(step, len(sentences), weights, settings, settings.penalty, f"{pruner.stages[number]}, filter loss", report)


def _learn(
    step: Callable[[int, NDArray[np.float32]], float],
    count: int,
    weights: NDArray[np.float32],
    settings: Learning,
    penalty: float,
    name: str,
    report: Report | None,
) -> None:
    """Take steps over all sentences in each epoch, and set the weights to the mean of those after each."""
    squares, total = np.zeros_like(weights), np.zeros_like(weights)
    for epoch in range(settings.pruner_epochs):
        value = 0.0
        for done, i in enumerate(np.random.default_rng([settings.seed, epoch]).permutation(count).tolist()):
            value += step(i, squares)
            if penalty and done % PERIOD == PERIOD - 1:
                weights -= settings.pruner_rate * penalty * PERIOD * weights / np.sqrt(np.maximum(squares, 1e-10))
        total += weights
        if report is not None:
            report(name, epoch, value / max(count, 1))
    weights[:] = total / np.float32(settings.pruner_epochs)


def tune_stage(
    model: LinearModel,
    pruner: LinearCascade,
    number: int,
    dev: Sequence[IndexedSentence],
    error: float,
    criterion: Criterion = "sentences",
) -> float:
    """The largest alpha at which a stage takes at most a share of the gold arcs, or one from that share of sentences.

    Args:
        model: has the features.
        pruner: the stages before this one are tuned.
        number: of the stage.
        dev: sentences to tune on.
        error: the share.
        criterion: what is counted: gold arcs, or sentences that lose one.
    """
    single_root, found = model.decoder.single_root, [np.empty(0)]
    for sentence in dev:
        scores, tree = model.score(collate([sentence], model.vocabulary)), _projective_tree(sentence, single_root)
        left = pruner.candidates(scores, single_root, until=number)
        strength = pruner.search(number, scores, left, 0.0, single_root).strength(tree)
        found.append(weakest(strength, tree == sentence.heads[None], criterion))
    return largest_alpha(np.concatenate(found), error, float(pruner.alphas[number]))


def _projective_tree(sentence: IndexedSentence, single_root: bool) -> NDArray[np.int64]:
    """(1, n+1) the gold tree, or the projective one that has most of its arcs."""
    n = len(sentence)
    return projectivise(sentence.heads[None], np.array([n]), single_root, lambda: np.zeros((1, n + 1, n + 1)))


def _of_arcs(
    scores: LinearScores, arcs: Arcs, gradient: NDArray[np.floating], size: int
) -> tuple[Ints, NDArray[np.floating]]:
    """Places of the features of arcs that have a gradient, and the gradient of each."""
    chosen = np.flatnonzero(gradient)
    places, counts = arc_places(scores.pruner_hashes, arcs[1][chosen], arcs[2][chosen], size)
    return places, np.repeat(gradient[chosen], counts)
