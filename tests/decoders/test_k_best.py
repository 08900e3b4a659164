"""k best trees against enumeration, for every order and root mode."""

import brute_force
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_greedy import Instance, both_modes, random_batch

from arbora.decoders import AD3, MST, BranchAndBound, Eisner, Greedy, HillClimbing, NoTreeError, Parts, Projective
from arbora.decoders.k_best import k_best

ORDERS = {
    "arcs": (),
    "siblings": ("sibling",),
    "second": ("grandparent", "sibling"),
    "third": ("grandparent", "sibling", "grand_sibling", "tri_sibling"),
    "all": brute_force.KINDS,
    "any siblings": ("any_sibling", "head_bigram"),
}
EXACT = [
    *(("arcs", kind) for kind in (MST, Eisner, Projective, BranchAndBound)),
    *((order, Projective) for order in ("siblings", "second")),
    *((order, BranchAndBound) for order in ("siblings", "second", "third", "all", "any siblings")),
]


@pytest.mark.parametrize(("order", "kind"), EXACT, ids=lambda value: getattr(value, "__name__", value))
@both_modes
def test_as_by_enumeration(order, kind, single_root):
    decoder = kind(single_root=single_root)
    for seed in range(4):
        instance = Instance(seed, 4, ORDERS[order], 0.8)
        trees = brute_force.trees(4, single_root, decoder.projective)
        expected = np.sort(brute_force.scores(trees, instance.mask, instance.arc, **instance.higher))[::-1]
        expected = expected[expected > -np.inf]
        k = 12
        ranked = k_best(decoder, instance.parts, k)
        found = [trees for trees in ranked if not trees.failures]
        assert len(found) == min(k, len(expected))
        np.testing.assert_allclose([trees.score[0] for trees in found], expected[:k], atol=1e-4)
        assert len({trees.heads.tobytes() for trees in found}) == len(found)
        assert all(trees.certified[0] for trees in found)
        for one in found:
            assert tuple(one.heads[0].tolist()) in trees
            assert one.score[0] == pytest.approx(instance.parts.score(one.heads)[0])
        for missing in ranked[len(found) :]:
            assert (missing.heads == -1).all()
            assert missing.score[0] == -np.inf
            assert not missing.certified[0]


@given(st.integers(0, 10_000), st.integers(1, 5), st.sampled_from(["arcs", "second"]), st.booleans(), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_ties_and_short_sentences(seed, n, order, single_root, k):
    rng = np.random.default_rng(seed)
    shape = (n + 1, n + 1)
    higher = {kind: rng.integers(-1, 2, (*shape, n + 1)).astype(np.float32) for kind in ORDERS[order]}
    arc = rng.integers(-2, 3, shape).astype(np.float32)
    parts = Parts.from_dense(arc, **higher)
    trees = brute_force.trees(n, single_root)
    expected = np.sort(brute_force.scores(trees, np.ones(shape, bool), arc, **higher))[::-1][:k]
    found = [trees for trees in k_best(BranchAndBound(single_root=single_root), parts, k) if not trees.failures]
    np.testing.assert_allclose([trees.score[0] for trees in found], expected, atol=1e-4)
    assert len({trees.heads.tobytes() for trees in found}) == len(found)


@pytest.mark.parametrize("decoder", [MST(), Greedy(), HillClimbing(), AD3(), BranchAndBound(), Projective()], ids=repr)
def test_the_first_is_that_of_the_decoder(decoder):
    parts = random_batch(3, 4, 12, lengths=[6, 9, 4, 12])
    expected = decoder(parts)
    for k in (1, 4):
        first = k_best(decoder, parts, k)[0]
        same = expected.score >= first.score - 1e-9  # an inexact search may find a better tree in a smaller space
        np.testing.assert_array_equal(first.heads[same], expected.heads[same])
        assert k > 1 or same.all()
        assert (first.certified >= expected.certified).all()


def test_a_certificate_means_that_nothing_else_scores_more():
    """With few iterations, AD3 proves some ranks and not others."""
    proved = 0
    for seed in range(30):
        instance = Instance(seed, 4, ORDERS["all"], scale=2.0)
        trees = brute_force.trees(4, True)
        expected = np.sort(brute_force.scores(trees, instance.mask, instance.arc, **instance.higher))[::-1]
        ranked = k_best(AD3(max_iterations=15), instance.parts, 5)
        scores = [trees.score[0] for trees in ranked]
        assert scores == sorted(scores, reverse=True)
        for rank, one in enumerate(ranked):
            assert one.score[0] <= expected[rank] + 1e-4
            assert one.bound[0] >= expected[rank] - 1e-4
            if one.certified[0]:
                proved += 1
                assert one.score[0] == pytest.approx(expected[rank], abs=1e-4)
    assert 0 < proved < 150


def test_arcs_rank_where_a_decoder_looks_at_nothing_else():
    instance = Instance(0, 4, ("grandparent",))
    ranked = k_best(MST(), instance.parts, 6)
    by_arcs = k_best(MST(), instance.parts.only(), 6)
    for one, other in zip(ranked, by_arcs, strict=True):
        np.testing.assert_array_equal(one.heads, other.heads)
        assert one.score[0] == pytest.approx(instance.parts.score(one.heads)[0])
        assert not one.certified[0]
        assert other.certified[0]


def test_bounds_leave_most_spaces_alone():
    """If scores are clear, only few words are worth another head."""
    rng = np.random.default_rng(0)
    arc = rng.normal(size=(20, 21, 21)).astype(np.float32)
    arc[:, np.arange(1, 21), np.arange(20)] += 20 * rng.random((20, 20)).astype(np.float32)
    ranked = k_best(MST(), Parts.from_dense(arc), 5)
    assert ranked[0].counters["decodings"].mean() < 20  # 1 + 4 * 20 without bounds
    assert all(trees.certified.all() for trees in ranked)


def test_ranks_do_not_depend_on_threads_or_the_batch(same_for_any_threads):
    parts = random_batch(5, 4, 12, lengths=[8, 3, 12, 5])
    ranked = same_for_any_threads(lambda: k_best(AD3(), parts, 4))
    for b in range(4):
        alone = k_best(AD3(), parts.subset([b]), 4)
        for one, other in zip(alone, ranked, strict=True):
            np.testing.assert_array_equal(one.heads[0], other.heads[b, : one.heads.shape[1]])


def test_sentences_without_a_tree():
    arc = np.zeros((2, 3, 3))
    arc[1, 2] = -np.inf
    parts = Parts.from_dense(arc)
    with pytest.raises(NoTreeError):
        k_best(MST(), parts, 2)
    ranked = k_best(MST(), parts, 3, on_error="skip")
    assert [sorted(trees.failures) for trees in ranked] == [[1], [1], [0, 1]]
    with pytest.raises(ValueError, match="at least 1, got 0"):
        k_best(MST(), parts, 0)
