"""MIRA and the pruner against numpy, and what they learn."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from arbora.data.batch import collate, index_sentences
from arbora.data.conll import read_conll
from arbora.data.vocabulary import Vocabulary
from arbora.decoders import AD3, MST, Decoder, Eisner, HillClimbing, Parts
from arbora.model.linear.backend import Linear, LinearModel
from arbora.model.linear.mira import Learning, Mira, Shares, _step, best_arcs
from arbora.model.linear.pruners import train_pruner

SENTENCES = list(read_conll(Path(__file__).parents[3] / "examples" / "treebank" / "dev.conllu"))[:12]
SMALL = Learning(epochs=8, step=0.1, folds=2)


def model(order: int = 2, decoder: Decoder | None = None, **settings: object) -> LinearModel:
    linear = Linear(order=order, bits=16, pruner_bits=16, **settings)
    return LinearModel(Vocabulary.of(SENTENCES, 1), linear, decoder)


def learner(linear: LinearModel, settings: Learning = SMALL) -> Mira:
    indexed = index_sentences(SENTENCES, linear.vocabulary)
    if linear.pruner is not None:
        linear.pruner = train_pruner(linear, indexed, settings, indexed)
    return Mira(linear, indexed, linear.decoder, settings)


@pytest.mark.parametrize("most", [1e-3, 10.0])
def test_step(most: float) -> None:
    rng = np.random.default_rng(3)
    features, sign = rng.integers(20, size=60), rng.choice([-1.0, 1.0], size=60).astype(np.float32)
    weights, weighted = rng.normal(size=20).astype(np.float32), rng.normal(size=20)
    difference = np.zeros(20)
    np.add.at(difference, features, sign)
    step = min(most, 2.5 / (difference @ difference))
    expected = weights + step * difference, weighted + 7 * step * difference
    change = np.zeros(20, np.float32)
    _step(features, sign, 2.5, most, 7.0, change, weights, weighted)
    np.testing.assert_allclose(weights, expected[0], rtol=1e-5)
    np.testing.assert_allclose(weighted, expected[1], rtol=1e-5)
    assert not change.any()


@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_full_step_ends_the_violation(order: int) -> None:
    """The features that differ are those by which the two trees score differently."""
    mira = learner(model(order), replace(SMALL, step=1e9, label_cost=1.0))
    for i in range(3):
        mira.learn(i)
    before = mira.model.weights.copy()
    assert mira.learn(3) > 0
    changed = mira.model.weights - before
    assert changed.any()
    # With a step that is not cut off, |change|^2 = loss^2 / |f* - f|^2 and change (f* - f) = loss.
    mira.model.weights[:] = before
    again = mira.learn(3)
    np.testing.assert_allclose(mira.model.weights, before + changed, atol=1e-5)
    step = np.abs(changed[changed != 0]).min()  # a feature that differs by one
    np.testing.assert_allclose((changed.astype(np.float64) ** 2).sum() / step, again, rtol=1e-2)


def test_a_full_step_ends_the_violation_of_a_fractional_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a single label, the score of this solution is linear in the weights, and after the step that of the tree."""
    unlabelled = [replace(sentence, deprel=["dep"] * len(sentence)) for sentence in SENTENCES]
    monkeypatch.setitem(globals(), "SENTENCES", unlabelled)
    mira = learner(model(3, AD3(fractional=True, max_iterations=300)), replace(SMALL, step=1e9))
    fractional = 0
    for i in range(len(mira.sentences)):
        found: list[tuple[Shares, float]] = []
        monkeypatch.setattr(mira, "_best", lambda parts, found=found: found.append(Mira._best(mira, parts)) or found[0])
        loss = mira.learn(i)
        ((shares, value),) = found
        share = np.concatenate([some for _, some in shares.values()])
        fractional += bool(((share > 0.1) & (share < 0.9)).any())
        if loss > 0:
            monkeypatch.setattr(mira, "_best", lambda parts, shares=shares: (shares, value_of(parts, shares)))
            assert mira.learn(i) == pytest.approx(0, abs=1e-3 * (1 + abs(value)))
    assert fractional > 0


def value_of(parts: Parts, shares: Shares) -> float:
    scores = {"arc": parts.arc_score, **{kind: getattr(parts, kind) for kind in parts.kinds}}
    return float(sum(share @ scores[kind][entries] for kind, (entries, share) in shares.items()))


def test_separate_heads_are_those_of_a_classifier() -> None:
    mira = learner(model(1), replace(SMALL, separate_heads=True))
    losses = [mira.train_epoch(epoch) for epoch in range(SMALL.epochs)]
    assert losses[-1] < 0.1 * losses[0]
    parts = mira.model.score(collate(mira.sentences, mira.model.vocabulary)).parts(mira.decoder)
    arcs = best_arcs(parts)
    assert len(arcs) == parts.lengths.sum()
    start = 0
    for end in parts.modifier_offsets[1:]:
        score = parts.arc_score[start:end]
        assert start + score.argmax() in arcs
        start = end
    with pytest.raises(ValueError, match="separate_heads is for arcs only, not for grandparent, sibling"):
        learner(model(2), replace(SMALL, separate_heads=True))


@pytest.mark.parametrize(
    "decoder",
    [MST(), Eisner(), AD3(max_iterations=50), AD3(max_iterations=50, fractional=True), HillClimbing()],
    ids=lambda d: type(d).__name__ + " fractional" * getattr(d, "fractional", False),
)
def test_learns_its_sentences_with_any_decoder(decoder: Decoder) -> None:
    linear = model(1 if decoder.first_order_only else 2, decoder)
    mira = learner(linear)
    losses = [mira.train_epoch(epoch) for epoch in range(SMALL.epochs)]
    assert losses[-1] < 0.1 * losses[0]
    scores = mira.averaged().score(collate(mira.sentences, linear.vocabulary))
    trees = decoder(scores.parts(decoder))
    gold = collate(mira.sentences, linear.vocabulary)
    words = gold.heads >= 0
    assert (trees.heads[words] == gold.heads[words]).mean() > 0.95  # some trees cross
    labels = scores.labels(gold.heads)
    assert (labels[words] == gold.labels[words]).mean() > 0.97


def test_tree_features_are_learnt() -> None:
    kinds = ("grandparent", "valency", "neighbours", "right_branching", "coordination")
    mira = learner(model(2, HillClimbing(), kinds=kinds))
    losses = [mira.train_epoch(epoch) for epoch in range(3)]
    assert losses[-1] < losses[0]


def test_follows_from_the_seed() -> None:
    def trained(seed: int) -> np.ndarray:
        mira = learner(model(2), replace(SMALL, seed=seed))
        mira.train_epoch(0)
        return mira.averaged().weights

    np.testing.assert_array_equal(trained(1), trained(1))
    assert (trained(1) != trained(2)).any()


def test_average() -> None:
    mira = learner(model(1))
    total = np.zeros(len(mira.model.weights))
    for i in range(6):
        mira.learn(i)
        total += mira.model.weights
    np.testing.assert_allclose(mira.averaged().weights, total / 6, atol=1e-5)


def test_words_without_heads_cost_nothing() -> None:
    linear = model(2)
    mira = learner(linear)
    sentence = mira.sentences[0]
    partial = replace(sentence, heads=sentence.heads.copy(), labels=sentence.labels.copy())
    partial.heads[1], partial.labels[1] = -1, -1
    mira = Mira(linear, [partial], linear.decoder, SMALL)
    for epoch in range(20):
        loss = mira.train_epoch(epoch)
    assert loss == 0
    parts = linear.score(collate([partial], linear.vocabulary)).parts(linear.decoder)
    np.testing.assert_array_equal(linear.decoder(parts).heads[0, 2:], sentence.heads[2:])


def test_pruner_raises_the_likelihood() -> None:
    linear = model(2)
    indexed = index_sentences(SENTENCES, linear.vocabulary)
    found: list[float] = []
    train_pruner(linear, indexed, SMALL, report=lambda what, epoch, likelihood: found.append(likelihood))
    assert found == sorted(found)
    assert found[0] < found[-1] < 0
