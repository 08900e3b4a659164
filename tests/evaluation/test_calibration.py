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
    """Gold heads and labels of sentences of two words, drawn at temperatures."""
    rng = np.random.default_rng(seed)
    size = 300
    arcs = 4 * rng.normal(size=(size, 3, 3)).astype(np.float32)
    lengths = np.full(size, 2)
    trees = np.array([[-1, 0, 1], [-1, 2, 0]])
    right = rng.random(size) < arc_marginals(arcs / of_arc, lengths)[:, 1, 0]
    scores = 4 * rng.normal(size=(2 * size, 5))
    weights = np.exp(scores / of_label)
    labels = (weights.cumsum(1) < rng.random(2 * size)[:, None] * weights.sum(1, keepdims=True)).sum(1)
    gold = trees[np.where(right, 0, 1)]
    return Scores(arcs, lengths, gold, gold, scores, scores.argmax(1), labels, True)


def test_temperatures_are_found_again() -> None:
    arc, label = helpful_temperatures([drawn(seed, 3.0, 0.5) for seed in range(4)])
    assert arc == pytest.approx(3, rel=0.2)
    assert label == pytest.approx(0.5, rel=0.2)


def test_a_temperature_that_does_not_help_is_left_out() -> None:
    """Each half is far from the other, so that the temperature of one is bad for the other."""
    arc, label = helpful_temperatures([drawn(0, 0.2, 8.0), drawn(1, 5.0, 0.2)])
    assert arc == 1.0
    assert label == 1.0
