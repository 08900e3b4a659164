"""Calibration of probabilities, and temperatures."""

import numpy as np
import pytest

from arbora.decoders.marginals import arc_marginals
from arbora.evaluation.calibration import Scores, calibration, fit_temperature, helpful_temperatures


def test_calibration() -> None:
    probability = np.repeat([0.95, 0.55], 1000)
    right = np.random.default_rng(0).random(2000) < probability
    figures = calibration(probability, right)
    assert figures.ece < 3
    assert [round(mean) for mean, _, _ in figures.curve] == [55, 95]
    assert calibration(probability, np.zeros(2000, bool)).ece == pytest.approx(75)
    doubtful = np.arange(100) / 100
    assert calibration(doubtful, np.arange(100) >= 20).top == pytest.approx(50)
    assert fit_temperature(lambda t: (np.log(t) - np.log(3)) ** 2) == pytest.approx(3, rel=0.02)


def drawn(seed: int, of_arc: float, of_label: float) -> Scores:
    """Most probable heads and labels of sentences of two words, and gold ones, drawn at temperatures."""
    rng = np.random.default_rng(seed)
    size = 300
    arcs = 4 * rng.normal(size=(size, 3, 3)).astype(np.float32)
    lengths = np.full(size, 2)
    trees = np.array([[-1, 0, 1], [-1, 2, 0]])
    first = arc_marginals(arcs, lengths)[:, 1, 0] > 0.5
    drawn_first = rng.random(size) < arc_marginals(arcs / of_arc, lengths)[:, 1, 0]
    scores = 4 * rng.normal(size=(2 * size, 5))
    weights = np.exp(scores / of_label)
    labels = (weights.cumsum(1) < rng.random(2 * size)[:, None] * weights.sum(1, keepdims=True)).sum(1)
    found, gold = trees[np.where(first, 0, 1)], trees[np.where(drawn_first, 0, 1)]
    return Scores(arcs, lengths, found, gold, scores, scores.argmax(1), labels, True)


def test_temperatures_are_found_again() -> None:
    arc, label = helpful_temperatures([drawn(seed, 3.0, 0.5) for seed in range(4)])
    assert arc == pytest.approx(3, rel=0.2)
    assert label == pytest.approx(0.5, rel=0.2)


def test_a_temperature_that_does_not_help_is_left_out() -> None:
    """Each half is far from the other, so that the temperature of one is bad for the other."""
    arc, label = helpful_temperatures([drawn(0, 0.2, 8.0), drawn(1, 5.0, 0.2)])
    assert arc == 1.0
    assert label == 1.0


def test_a_temperature_of_arcs_that_spoils_the_probabilities_of_the_trees_is_left_out() -> None:
    """Trees that were found by more than arc scores are right more often than the arcs' probabilities say."""
    every = [drawn(seed, 3.0, 0.5) for seed in range(4)]
    for scores in every:
        better = np.random.default_rng(len(scores.heads)).random(len(scores.heads)) < 0.8
        scores.heads = np.where(better[:, None], scores.gold, scores.heads)
    assert fit_temperature(lambda t: sum(scores.arc_loss(t) for scores in every)) > 2
    arc, label = helpful_temperatures(every)
    assert arc == 1.0
    assert label == pytest.approx(0.5, rel=0.2)
