"""Counts of local optima against enumeration, and on the paper's own example."""

import brute_force
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arbora.decoders import MST, HillClimbing, Parts
from arbora.decoders.hill_climbing.optima import count_optima


def enumerate_optima(arc: np.ndarray) -> int:
    """Trees of which no change of one head makes a tree that scores more; -inf forbids an arc."""
    n = len(arc) - 1
    allowed = [t for t in brute_force.trees(n) if all(arc[m, t[m]] > -np.inf for m in range(1, n + 1))]
    there = set(allowed)
    return sum(
        not any(
            arc[m, h] > arc[m, tree[m]] and (*tree[:m], h, *tree[m + 1 :]) in there
            for m in range(1, n + 1)
            for h in range(n + 1)
            if h != m
        )
        for tree in allowed
    )


def random_arcs(seed: int, n: int, density: float) -> np.ndarray:
    """Scores of which no two are equal."""
    rng = np.random.default_rng(seed)
    arc = rng.permutation((n + 1) ** 2).reshape(n + 1, n + 1).astype(np.float32)
    return np.where(rng.random(arc.shape) < density, arc, -np.inf)


def from_the_appendix(n: int, noise: float = 0.0, seed: int = 0) -> np.ndarray:
    """e_ij = e_ji = i for i < j, and noise that makes them differ."""
    words = np.arange(n + 1.0)
    return np.minimum.outer(words, words) + noise * np.random.default_rng(seed).random((n + 1, n + 1))


def batch(seed: int, lengths: np.ndarray, heads: int) -> Parts:
    """Sentences with few candidate heads per word, among which a tree is sure to be."""
    rng = np.random.default_rng(seed)
    N = lengths.max() + 1
    mask = rng.random((len(lengths), N, N)) < heads / N
    mask[:, np.arange(1, N), np.arange(N - 1)] = True
    return Parts.from_dense(rng.normal(size=mask.shape), lengths, mask)


@settings(max_examples=600)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 5), density=st.sampled_from([1.0, 0.8, 0.6, 0.4, 0.2]))
def test_equals_enumeration(seed, n, density):
    arc = random_arcs(seed, n, density)
    assert count_optima(Parts.from_dense(arc)).tolist() == [enumerate_optima(arc)]


def test_the_random_graphs_are_of_all_kinds():
    """The property above covers graphs without a tree, with one optimum, and with many."""
    counts = np.array([enumerate_optima(random_arcs(seed, 5, (1.0, 0.5)[seed % 2])) for seed in range(200)])
    assert (counts == 0).sum() > 10
    assert (counts == 1).sum() > 10
    assert (counts > 2).sum() > 10


def test_six_words():
    for seed in range(4):
        arc = random_arcs(seed, 6, 0.8)
        assert count_optima(Parts.from_dense(arc)).tolist() == [enumerate_optima(arc)]


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 5))
def test_of_equal_heads_the_lower_is_better(seed, n):
    rng = np.random.default_rng(seed)
    arc = rng.integers(0, 3, size=(n + 1, n + 1)).astype(np.float32)
    arc[rng.random(arc.shape) < 0.2] = -np.inf
    count = count_optima(Parts.from_dense(arc)).item()
    assert count == enumerate_optima(arc - 0.01 * np.arange(n + 1))
    assert count <= enumerate_optima(arc)


@pytest.mark.parametrize("n", range(1, 15))
def test_the_bound_is_reached(n):
    for seed in range(3):
        assert count_optima(Parts.from_dense(from_the_appendix(n, 1e-3, seed))).tolist() == [2 ** (n - 1)]
    assert count_optima(Parts.from_dense(from_the_appendix(n))).tolist() == [2 ** (n - 1)]


def test_enumeration_of_the_appendix():
    assert [enumerate_optima(from_the_appendix(n, 1e-3)) for n in range(1, 6)] == [1, 2, 4, 8, 16]
    assert [enumerate_optima(from_the_appendix(n)) for n in range(1, 6)] == [1, 2, 6, 24, 120]  # without noise


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(6, 30), density=st.sampled_from([1.0, 0.5, 0.2]))
def test_there_is_one_where_there_is_a_tree(seed, n, density):
    parts = Parts.from_dense(random_arcs(seed, n, density))
    count = count_optima(parts, limit=500).item()
    try:
        MST(single_root=False)(parts)
    except ValueError:
        assert count == 0
    else:
        assert 1 <= count <= 500


def test_climbs_end_in_all_of_them():
    """Beyond what can be enumerated: many climbs end in as many trees as are counted."""
    for seed in range(5):
        parts = batch(seed, np.array([9]), heads=4)
        ends = {
            tuple(HillClimbing(restarts=1, best_first=False, single_root=False, seed=s)(parts).heads[0].tolist())
            for s in range(600)
        }
        assert len(ends) == count_optima(parts).item()


def test_other_parts_do_not_count():
    parts = batch(0, np.array([5, 9, 3]), heads=4)
    higher = parts.with_scores(sibling=np.random.default_rng(0).normal(size=parts.part_offsets("sibling")[-1]))
    assert count_optima(higher).tolist() == count_optima(parts).tolist()


@pytest.mark.parametrize("limit", [1, 2, 100, 511, 512, 513, 10_000])
def test_counting_ends_at_the_limit(limit):
    assert count_optima(Parts.from_dense(from_the_appendix(10, 1e-3)), limit).tolist() == [min(limit, 512)]


def test_the_limit_bounds_the_work():
    """2^299 optima, and as many ways into a pair of words that the root does not reach."""
    arc = from_the_appendix(300, 1e-3)
    assert count_optima(Parts.from_dense(arc)).tolist() == [10_000]
    mask = np.ones_like(arc, dtype=bool)
    mask[[1, 2]] = False
    mask[1, 2] = mask[2, 1] = True
    assert count_optima(Parts.from_dense(arc, mask=mask)).tolist() == [0]


def test_a_cycle_is_entered_where_it_can_be():
    """The best heads of 40 pairs of words are inside of the pairs; one word of each may hang from the root, or both."""
    arc = np.full((81, 81), -np.inf)
    first = np.arange(1, 81, 2)
    arc[first, first + 1] = arc[first + 1, first] = 2.0
    arc[first, 0] = 1.0
    assert count_optima(Parts.from_dense(arc)).tolist() == [1]
    arc[first[:5] + 1, 0] = 1.0
    assert count_optima(Parts.from_dense(arc)).tolist() == [2**5]


def test_limit_must_be_positive():
    with pytest.raises(ValueError, match="limit must be at least 1, got 0"):
        count_optima(Parts.from_dense(np.zeros((2, 2))), limit=0)


def test_no_sentences_and_one_word():
    assert count_optima(Parts.from_dense(np.empty((0, 4, 4)))).shape == (0,)
    found = count_optima(Parts.from_dense(np.zeros((3, 2, 2))))
    assert found.tolist() == [1, 1, 1]
    assert found.dtype == np.int64


def test_neither_threads_nor_the_batch_change_a_count(same_for_any_threads):
    lengths = np.random.default_rng(0).integers(1, 40, size=400)
    parts = batch(1, lengths, heads=6)
    alone = same_for_any_threads(lambda: count_optima(parts))
    some = [7, 3, 399, 3]
    assert count_optima(parts.subset(some)).tolist() == alone[some].tolist()
    assert len(set(alone.tolist())) > 20
