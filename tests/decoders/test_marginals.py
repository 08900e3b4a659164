import brute_force
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arbora.decoders.marginals import WIDEST, arc_marginals


def enumerated(arc: np.ndarray, single_root: bool) -> np.ndarray:
    """Marginals by adding up all trees."""
    trees = brute_force.trees(len(arc) - 1, single_root)
    score = np.array([brute_force.tree_score(tree, arc) for tree in trees])
    weight = np.exp(score - np.logaddexp.reduce(score))
    marginals = np.zeros(arc.shape)
    for tree, p in zip(trees, weight, strict=True):
        for m, h in enumerate(tree[1:], 1):
            marginals[m, h] += p
    return marginals


@given(
    n=st.integers(1, 5),
    scale=st.sampled_from([0.0, 1.0, 10.0, 60.0]),
    single_root=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_marginals_are_those_of_all_trees(n: int, scale: float, single_root: bool, seed: int) -> None:
    arc = (scale * np.random.default_rng(seed).normal(size=(n + 1, n + 1))).astype(np.float32)
    padded = np.full((2, n + 3, n + 3), np.nan, np.float32)
    padded[:, : n + 1, : n + 1] = arc
    found = arc_marginals(padded, [n, n], single_root)
    assert not found[:, n + 1 :].any()
    assert not found[:, :, n + 1 :].any()
    for b in range(2):
        np.testing.assert_allclose(found[b, : n + 1, : n + 1], enumerated(arc, single_root), atol=1e-9)


@pytest.mark.parametrize("scale", [1, 30, 100])
@pytest.mark.parametrize("single_root", [True, False])
def test_marginals_of_long_sentences_add_up_at_any_scale(scale: float, single_root: bool) -> None:
    lengths = np.array([60, 35, 1])
    arc = scale * np.random.default_rng(1).normal(size=(3, 61, 61))
    found = arc_marginals(arc, lengths, single_root)
    for b, n in enumerate(lengths):
        np.testing.assert_allclose(found[b, 1 : n + 1].sum(1), 1, atol=1e-9)
        if single_root:
            assert found[b, :, 0].sum() == pytest.approx(1, abs=1e-9)
    assert (found >= 0).all()


def test_scores_further_apart_than_can_be_told_count_as_that_far() -> None:
    arc = np.array([[[0, 0, 0], [0, 0, 9e9], [0, -9e9, 0]]], np.float32)
    found = arc_marginals(arc, [2], single_root=True)
    np.testing.assert_allclose(found[0, 1:], [[0, 0, 1], [1, 0, 0]], atol=np.exp(-WIDEST / 2))


def test_marginals_refuse_what_is_not_finite() -> None:
    arc = np.zeros((2, 3, 3), np.float32)
    arc[1, 1, 2] = np.nan
    with pytest.raises(ValueError, match="sentence 1"):
        arc_marginals(arc, [2, 2])


def test_number_of_threads_does_not_matter(same_for_any_threads) -> None:
    arc = np.random.default_rng(3).normal(size=(40, 61, 61))
    same_for_any_threads(lambda: arc_marginals(arc, np.full(40, 60)))
