"""The enumeration itself, against known counts."""

import numpy as np
import pytest
from brute_force import best_score, is_projective, is_single_root, reaches_root, tree_score, trees


@pytest.mark.parametrize("n", range(1, 6))
def test_counts_of_trees(n):
    assert len(trees(n)) == (n + 1) ** (n - 1)
    assert len(trees(n, single_root=True)) == n ** (n - 1)
    assert len(trees(n, projective=True)) == [1, 3, 12, 55, 273][n - 1]
    assert len(trees(n, single_root=True, projective=True)) == [1, 2, 7, 30, 143][n - 1]
    assert len(set(trees(n))) == len(trees(n))


def test_predicates():
    assert reaches_root((-1, 0, 1))
    assert not reaches_root((-1, 2, 1))
    assert not reaches_root((-1, 1))
    assert is_single_root((-1, 0, 1))
    assert not is_single_root((-1, 0, 0))
    assert is_projective((-1, 2, 0, 2))
    assert not is_projective((-1, 3, 0, 2))  # 3 -> 1 covers word 2, which hangs from the root


def test_scores():
    arc = np.array([[9, 9, 9], [1, 9, 4], [2, 8, 9]])
    assert tree_score((-1, 0, 1), arc) == 9
    assert best_score(arc) == 9
    assert best_score(np.array([[0, 0], [-np.inf, 0]])) == -np.inf
