"""Constraints: the best tree among those that agree, by enumeration, for every decoder, order and root mode."""

import brute_force
import numpy as np
import pytest
from naive_greedy import Instance, both_modes

from arbora.decoders import AD3, MST, BranchAndBound, Decoder, Eisner, Greedy, HillClimbing, NoTreeError, Projective
from arbora.decoders.constraints import Constraints

ORDERS = {
    "arcs": (),
    "second": ("grandparent", "sibling"),
    "third": ("grandparent", "sibling", "grand_sibling", "tri_sibling"),
    "all": brute_force.KINDS,
}
DECODERS = {
    "arcs": [MST, Eisner, Projective, AD3, BranchAndBound, HillClimbing, Greedy],
    "second": [Projective, AD3, BranchAndBound, HillClimbing, Greedy],
    "third": [AD3, BranchAndBound, HillClimbing, Greedy],
    "all": [AD3, BranchAndBound, HillClimbing, Greedy],
}


def agreeing(instance: Instance, constraints: Constraints, decoder: Decoder) -> list[brute_force.Tree]:
    allowed = constraints.mask()[0]
    trees = brute_force.trees(instance.n, decoder.single_root, decoder.projective)
    return [tree for tree in trees if all((instance.mask & allowed)[m, h] for m, h in enumerate(tree) if m > 0)]


@pytest.mark.parametrize("order", ORDERS)
@both_modes
def test_the_best_tree_that_agrees(order, single_root):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        instance = Instance(seed, 4, ORDERS[order], 0.9)
        tree = rng.choice(np.array(brute_force.trees(4, single_root, True)))
        for kind in DECODERS[order]:
            decoder = kind(single_root=single_root)
            required = np.where(rng.random(5) < 0.3, tree, -1)
            required[0] = -1
            forbidden = np.array([[0, *arc] for arc in rng.integers(1, 5, (3, 2)) if tree[arc[0]] != arc[1]])
            constraints = Constraints(required[None], forbidden.reshape(-1, 3))
            trees = agreeing(instance, constraints, decoder)
            parts = constraints.apply(instance.parts)
            if not trees:
                with pytest.raises(NoTreeError):
                    decoder(parts)
                continue
            found = decoder(parts)
            scores = brute_force.scores(trees, instance.mask, instance.arc, **instance.higher)
            heads = tuple(found.heads[0].tolist())
            assert heads in trees
            assert found.score[0] == pytest.approx(scores[trees.index(heads)], abs=1e-4)
            if found.certified[0]:
                assert found.score[0] == pytest.approx(scores.max(), abs=1e-4)
            assert found.certified[0] or kind in (AD3, HillClimbing, Greedy)


@pytest.mark.parametrize("kind", [MST, Projective, AD3, BranchAndBound, HillClimbing, Greedy])
def test_the_constraint_of_the_best_tree_changes_nothing(kind):
    for seed in range(10):
        instance = Instance(seed, 7, ("grandparent", "sibling") if kind is not MST else (), 0.8)
        free = kind()(instance.parts)
        known = np.where(np.random.default_rng(seed).random(free.heads.shape) < 0.5, free.heads, -1)
        found = kind()(Constraints(known).apply(instance.parts))
        if free.certified[0]:
            np.testing.assert_array_equal(found.heads, free.heads)
            assert found.certified[0]
        assert found.score[0] >= free.score[0] - 1e-6


@both_modes
def test_completion_agrees_and_is_the_best_by_arcs(single_root):
    for seed in range(10):
        instance = Instance(seed, 5, ())
        tree = np.array(brute_force.trees(5, single_root, True)[seed])
        required = np.where(np.arange(6) % 2 == seed % 2, tree, -1)
        required[0] = -1
        for projective in (False, True):
            heads = Constraints(required[None]).complete(instance.arc[None], np.array([5]), single_root, projective)
            assert (heads[0] == required)[required >= 0].all()
            trees = [
                other
                for other in brute_force.trees(5, single_root, projective)
                if all(r in (-1, h) for r, h in zip(required[1:], other[1:]))
            ]
            best = max(brute_force.tree_score(other, instance.arc) for other in trees)
            assert brute_force.tree_score(tuple(heads[0]), instance.arc) == pytest.approx(best)


@pytest.mark.parametrize(
    ("required", "forbidden", "reason"),
    [
        ({2: 3, 3: 2}, [], "the heads given to words 2, 3 make a cycle"),
        ({1: 0, 3: 0}, [], "words 1 and 3 both have the required head 0"),
        ({}, [(2, h) for h in (0, 1, 3, 4)], "word 2 has no head left: all of its heads are forbidden"),
        ({2: 1}, [(2, 1)], "word 2 has no head left: its head 1 is forbidden too"),
        ({1: 3, 2: 4}, [], "no projective tree agrees with head 3 of word 1"),
        ({}, [(m, 0) for m in (1, 2, 3, 4)], "no projective tree is left without the arc from 0 to word 1"),
    ],
)
def test_contradictions_are_named(required, forbidden, reason):
    heads = np.full((2, 5), -1)
    for word, head in required.items():
        heads[1, word] = head
    arcs = np.array([(1, *arc) for arc in forbidden]).reshape(-1, 3)
    with pytest.raises(NoTreeError, match=reason) as raised:
        Constraints(heads, arcs).complete(np.zeros((2, 5, 5)), np.array([4, 4]), True, projective=True)
    assert list(raised.value.reasons) == [1]
