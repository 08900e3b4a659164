"""Labels that must not repeat, against enumeration."""

from itertools import product

import numpy as np
import pytest

from arbora.decoders.unique_labels import unique_labels

GROUP = np.array([-1, 0, 0, 1, -1, 2])
"""Labels 1 and 2 are of one group."""


def value(labels: tuple[int, ...], heads: np.ndarray, scores: np.ndarray) -> float:
    used = [(h, GROUP[label]) for h, label in zip(heads, labels) if GROUP[label] >= 0]
    if len(set(used)) < len(used):
        return -np.inf
    return float(scores[np.arange(len(labels)), list(labels)].sum())


@pytest.mark.parametrize("seed", range(25))
def test_the_best_labels_by_enumeration(seed):
    rng = np.random.default_rng(seed)
    heads = np.array([[-1, 0, 1, 1, 1, 1], [-1, 2, 0, 2, 3, -1]])
    scores = rng.normal(size=(2, 6, 6))
    scores[:, :, 1:4] += 1.5 * rng.random()
    scores[rng.random(scores.shape) < 0.1] = -np.inf
    scores[..., 0] = rng.normal(size=(2, 6))
    fixed = np.zeros(heads.shape, dtype=bool)
    labels = scores.argmax(-1)
    if seed % 2:
        fixed[0, 3] = True
        labels[0, 3] = 1
    asked = []
    found = unique_labels(labels, heads, GROUP, lambda mask: asked.append(mask) or scores[mask], fixed)
    for b, n in enumerate((5, 4)):
        words = slice(1, n + 1)
        choices = [[1] if fixed[b, m] else range(6) for m in range(1, n + 1)]
        best = max(value(one, heads[b, words], scores[b, words]) for one in product(*choices))
        assert value(tuple(found[b, words]), heads[b, words], scores[b, words]) == pytest.approx(best)
    if not asked:
        np.testing.assert_array_equal(found, labels)


def test_a_word_without_another_label_keeps_its_own():
    scores = np.full((1, 3, 6), -np.inf)
    scores[..., 1] = 0.0
    labels = np.ones((1, 3), np.int64)
    heads = np.array([[-1, 0, 0]])
    found = unique_labels(labels, heads, GROUP, lambda mask: scores[mask], np.zeros((1, 3), bool))
    np.testing.assert_array_equal(found, labels)
