"""Minimum risk against enumeration: probabilities of all trees, and the most expected correct heads."""

import brute_force
import numpy as np
import pytest
from naive_greedy import Instance, both_modes

from arbora.decoders import MST, BranchAndBound, MinimumRisk, NoTreeError, Parts, Projective
from arbora.decoders.k_best import k_best


def expected_correct(instance: Instance, trees: list[brute_force.Tree], temperature: float = 1.0, k: int | None = None):
    """(T,) of each tree, if trees have probabilities by their scores; those beyond the k best have none."""
    scores = brute_force.scores(trees, instance.mask, instance.arc, **instance.higher)
    weight = np.exp((scores - scores.max()) / temperature)
    if k is not None:
        weight[scores < np.sort(scores)[::-1][:k].min()] = 0
    weight /= weight.sum()
    heads = np.array(trees)[:, 1:]
    return ((heads[:, None] == heads[None]).sum(-1) * weight).sum(1)


@both_modes
def test_matrix_tree_marginals(single_root):
    for seed in range(10):
        instance = Instance(seed, 4, (), 0.8)
        trees = instance.trees(single_root)
        found = MinimumRisk(single_root=single_root, temperature=2.0)(instance.parts)
        value = expected_correct(instance, trees, 2.0)
        assert value[trees.index(tuple(found.heads[0].tolist()))] == pytest.approx(value.max(), abs=1e-6)
        assert found.score[0] == pytest.approx(instance.parts.score(found.heads)[0])
        assert not found.certified[0]


@pytest.mark.parametrize(
    ("kind", "kinds"), [(MST, ()), (BranchAndBound, ("grandparent", "sibling")), (Projective, ("sibling",))]
)
@both_modes
def test_k_best_of_any_order(kind, kinds, single_root):

    for seed in range(10):
        instance = Instance(seed, 4, kinds, 0.9)
        decoder = kind(single_root=single_root)
        trees = [
            tree
            for tree in instance.trees(single_root)
            if tree in brute_force.trees(4, single_root, decoder.projective)
        ]
        for k in (5, 1000):
            found = MinimumRisk(single_root, decoder, k=k, temperature=4.0)(instance.parts)
            value = expected_correct(instance, trees, 4.0, min(k, len(trees)))
            assert value[trees.index(tuple(found.heads[0].tolist()))] == pytest.approx(value.max(), abs=1e-5)


def test_risk_is_not_score():
    """Some most probable tree has heads that are less probable than others."""
    found = [
        (MinimumRisk(temperature=4.0)(parts).heads != MST()(parts).heads).any()
        for parts in (Instance(seed, 5, ()).parts for seed in range(20))
    ]
    assert any(found)


def test_one_tree_is_that_of_the_decoder():
    instance = Instance(3, 6, ("grandparent",))
    found = MinimumRisk(decoder=BranchAndBound(), k=1)(instance.parts)
    np.testing.assert_array_equal(found.heads, BranchAndBound()(instance.parts).heads)


def test_kinds_are_those_of_the_decoder():
    assert MinimumRisk().takes == frozenset()
    assert MinimumRisk(decoder=Projective()).takes == Projective.takes
    assert MinimumRisk(decoder=Projective()).projective


def test_no_tree():
    arc = np.zeros((2, 3, 3))
    arc[1, 2] = -np.inf
    with pytest.raises(NoTreeError):
        MinimumRisk()(Parts.from_dense(arc))
    assert sorted(MinimumRisk(decoder=MST())(Parts.from_dense(arc), on_error="skip").failures) == [1]


@pytest.mark.parametrize("decoder", [None, BranchAndBound()], ids=repr)
def test_trees_of_least_risk_are_ranked(decoder):
    for seed in range(5):
        instance = Instance(seed, 4, () if decoder is None else ("sibling",), 0.9)
        trees = instance.trees(True)
        value = expected_correct(instance, trees, 2.0)
        ranked = k_best(MinimumRisk(decoder=decoder, k=1000, temperature=2.0), instance.parts, 6)
        places = [trees.index(tuple(one.heads[0].tolist())) for one in ranked if not one.failures]
        assert len(set(places)) == min(6, len(trees))
        np.testing.assert_allclose(value[places], np.sort(value)[::-1][:6], atol=1e-5)
        scores = [instance.parts.score(one.heads)[0] for one in ranked]
        np.testing.assert_allclose([one.score[0] for one in ranked], scores)
        assert not any(one.certified.any() for one in ranked)


def test_ranks_of_sentences_without_a_tree():
    arc = np.zeros((2, 4, 4))
    arc[0, 2] = -np.inf
    ranked = k_best(MinimumRisk(decoder=MST()), Parts.from_dense(arc), 12, on_error="skip")
    assert [sorted(one.failures) for one in ranked] == [[0]] * 9 + [[0, 1]] * 3
