"""Ensembles: parts of another parser's trees score more."""

import brute_force
import numpy as np
import pytest
from naive_greedy import KINDS, Instance, random_batch

from arbora.decoders import MST, Greedy, Parts
from arbora.decoders.ensemble import favour_trees
from arbora.decoders.parts.kinds import HIGHER_ORDER


def test_only_parts_with_as_many_arcs_as_their_order_gain():
    """The arcs that each part holds come from the enumeration; START and END are no arcs."""
    for seed in range(5):
        instance = Instance(seed, 5, KINDS, 0.8)
        parts = instance.parts
        other = MST()(parts).heads
        tree = {(int(h), m) for m, h in enumerate(other[0]) if m > 0}
        gamma = (0.5, 0.25, 2.0)
        favoured = favour_trees(parts, other, gamma)
        expected = sum(
            gamma[len(P) - 1]
            for kind in KINDS
            for _, P, B in brute_force.parts(instance.mask, [kind])[kind]
            if tree >= P and not B & tree and len(P) == HIGHER_ORDER[kind].order
        )
        expected += gamma[0] * instance.n
        assert favoured.score(other)[0] - parts.score(other)[0] == pytest.approx(expected, abs=1e-4)


def test_a_chain_has_no_consecutive_siblings():
    parts = Parts.from_dense(np.zeros((7, 7)), sibling=np.zeros((7, 7, 7)), grandparent=np.zeros((7, 7, 7)))
    favoured = favour_trees(parts, [[-1, 0, 1, 2, 3, 4, 5]], (0.0, 1.0))
    assert not favoured.sibling.any()
    assert favoured.grandparent.sum() == 5
    favoured = favour_trees(parts, [[-1, 0, 1, 1, 1, 1, 1]], (0.0, 1.0))
    assert favoured.sibling.sum() == 4


def test_leans_towards_other_trees():
    parts = random_batch(11, 20, 10, kinds=KINDS)
    other = MST()(parts).heads
    favoured = favour_trees(parts, other, (0.5, 0.25, 2.0))
    fired = parts.active(other)
    for name, field in [("arc", "arc_score"), *[(kind, kind) for kind in KINDS]]:
        changed = np.flatnonzero(getattr(favoured, field) != getattr(parts, field))
        assert len(changed) > 0
        assert set(changed) <= set(fired[name])
    np.testing.assert_array_equal(favour_trees(parts, other, (1.0,)).sibling, parts.sibling)
    assert favour_trees(parts, other, ()) is parts
    np.testing.assert_array_equal(Greedy()(favour_trees(parts, other, (100.0,))).heads, other)
