"""Calibration of the probabilities of arcs and labels, and temperatures that improve it.

Scores are divided by a temperature before they become probabilities, one for arcs and one for labels (Guo et al., 2017,
"On calibration of modern neural networks"). It changes no tree and no label.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arbora.decoders.marginals import arc_marginals

BINS = 10
"""Number of bins of the calibration curve, of equal width."""

TOP = 0.1
"""Share of the most doubtful words."""

LEAST = 1e-12
"""Lower limit of probabilities whose logarithm is taken."""

Probabilities = NDArray[np.float64]
Temperature = tuple[float, float]
"""Temperatures of arcs and of labels."""


@dataclass
class Scores:
    """Scores of a batch of W words, from which probabilities are computed at any temperature."""

    arcs: NDArray[np.float32]  # (B, N, N)
    lengths: NDArray[np.integer]
    heads: NDArray[np.int64]  # (B, N) of the trees that were found
    gold: NDArray[np.int64]  # (B, N)
    label_scores: Probabilities  # (W, L) log-probabilities, sentence after sentence
    labels: NDArray[np.int64]  # (W,) of the trees that were found
    gold_labels: NDArray[np.int64]  # (W,) -1 for those that the parser does not know
    single_root: bool

    @property
    def right(self) -> NDArray[np.bool_]:
        """(W,) whether the head is the gold head."""
        right: NDArray[np.bool_] = (self.heads == self.gold)[self.heads >= 0]
        return right

    def arc(self, temperature: float, heads: NDArray[np.int64]) -> Probabilities:
        """(W,) probabilities of heads."""
        marginals = arc_marginals(self.arcs / temperature, self.lengths, self.single_root)
        found: Probabilities = np.take_along_axis(marginals, heads.clip(min=0)[..., None], 2)[self.heads >= 0][:, 0]
        return found

    def label(self, temperature: float, labels: NDArray[np.int64]) -> Probabilities:
        """(W,) probabilities of labels, given the heads that were found."""
        weights = np.exp((self.label_scores - self.label_scores.max(1, keepdims=True)) / temperature)
        found: Probabilities = weights[np.arange(len(labels)), labels] / weights.sum(1)
        return found

    def arc_loss(self, temperature: float) -> float:
        """Negative log-likelihood of gold heads."""
        return -float(np.log(self.arc(temperature, self.gold).clip(min=LEAST)).sum())

    def label_loss(self, temperature: float) -> float:
        """Negative log-likelihood of gold labels of words with their gold head."""
        probability = self.label(temperature, self.gold_labels.clip(min=0))[self.right & (self.gold_labels >= 0)]
        return -float(np.log(probability.clip(min=LEAST)).sum())


class Calibration(NamedTuple):
    """Figures of calibration."""

    ece: float  # percent
    top: float  # percent of all errors that are among the most doubtful words
    curve: list[tuple[float, float, int]]  # mean probability, share that is right, words, both in percent


def calibration(probability: Probabilities, right: NDArray[np.bool_]) -> Calibration:
    """Compare probabilities (W,) with correctness (W,)."""
    number = np.minimum((probability * BINS).astype(np.int64), BINS - 1)
    curve, gap = [], 0.0
    for k in np.unique(number).tolist():
        here = number == k
        mean, share, words = float(probability[here].mean()), float(right[here].mean()), int(here.sum())
        curve.append((100 * mean, 100 * share, words))
        gap += words * abs(mean - share)
    doubtful = np.argsort(probability, kind="stable")[: max(1, round(TOP * len(right)))]
    wrong = int(np.count_nonzero(~right))
    return Calibration(100 * gap / len(right), 100 * int(np.count_nonzero(~right[doubtful])) / max(1, wrong), curve)


def fit_temperature(loss: Callable[[float], float]) -> float:
    """Find the temperature from 1/16 to 16 with the least loss, by golden-section search over its logarithm."""
    low, high, ratio = -np.log(16), np.log(16), (np.sqrt(5) - 1) / 2
    points = [high - ratio * (high - low), low + ratio * (high - low)]
    values = [loss(float(np.exp(point))) for point in points]
    while high - low > 0.02:
        if values[0] < values[1]:
            high, points = points[1], [points[1] - ratio * (points[1] - low), points[0]]
            values = [loss(float(np.exp(points[0]))), values[0]]
        else:
            low, points = points[0], [points[1], points[0] + ratio * (high - points[0])]
            values = [values[1], loss(float(np.exp(points[1])))]
    return float(np.exp((low + high) / 2))


def fit_temperatures(every: Sequence[Scores]) -> Temperature:
    """Find the temperatures that maximize the likelihood of gold heads and labels."""
    return (
        fit_temperature(lambda t: sum(scores.arc_loss(t) for scores in every)),
        fit_temperature(lambda t: sum(scores.label_loss(t) for scores in every)),
    )


def helpful_temperatures(every: Sequence[Scores]) -> Temperature:
    """Find these temperatures, but 1 if those fitted to each half of the batches do not lower the ECE of the other."""
    crossed: list[tuple[Scores, Temperature]] = []
    for fitted_to, other in ((every[::2], every[1::2]), (every[1::2], every[::2])):
        found = fit_temperatures(fitted_to)
        crossed += [(scores, found) for scores in other]
    right = np.concatenate([scores.right for scores, _ in crossed])
    right_labels = np.concatenate([(scores.labels == scores.gold_labels)[scores.right] for scores, _ in crossed])

    def of_arcs(fitted: bool) -> float:
        found = [scores.arc(arc if fitted else 1.0, scores.heads) for scores, (arc, _) in crossed]
        return calibration(np.concatenate(found), right).ece

    def of_labels(fitted: bool) -> float:
        found = [scores.label(label if fitted else 1.0, scores.labels)[scores.right] for scores, (_, label) in crossed]
        return calibration(np.concatenate(found), right_labels).ece

    arc, label = fit_temperatures(every)
    return (arc if of_arcs(True) < of_arcs(False) else 1.0), (label if of_labels(True) < of_labels(False) else 1.0)


def compare_with_gold(every: Sequence[Scores], own: Temperature) -> dict[str, dict[str, Any]]:
    """Return the calibration of arcs, and of arcs with labels, at given temperatures and at fitted ones."""
    right = np.concatenate([scores.right for scores in every])
    both = right & np.concatenate([scores.labels == scores.gold_labels for scores in every])
    report = {}
    for when, (of_arc, of_label) in {"before": own, "after": fit_temperatures(every)}.items():
        arc = np.concatenate([scores.arc(of_arc, scores.heads) for scores in every])
        label = np.concatenate([scores.label(of_label, scores.labels) for scores in every])
        report[when] = {
            "temperature": {"arc": of_arc, "label": of_label},
            "arcs": calibration(arc, right)._asdict(),
            "arcs and labels": calibration(arc * label, both)._asdict(),
        }
    return report
