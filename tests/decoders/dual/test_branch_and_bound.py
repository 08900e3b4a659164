"""Branch and bound against an integer program, and what it says when a limit is met."""

import numpy as np
import pytest
from brute_force import KINDS, reaches_root
from integer_program import best_tree

from arbora.decoders import Parts
from arbora.decoders.dual.ad3 import AD3
from arbora.decoders.dual.branch_and_bound import BranchAndBound

THIRD = ("grandparent", "sibling", "grand_sibling", "tri_sibling")


def random_parts(seed: int, n: int, kinds: tuple[str, ...], heads: int, scale: float) -> Parts:
    rng = np.random.default_rng(seed)
    arc = rng.normal(size=(n + 1, n + 1)).astype(np.float32)
    mask = rng.random(arc.shape) < heads / (n + 1)
    mask[np.arange(1, n + 1), np.arange(n)] = True
    parts = Parts.from_dense(arc, mask=mask)
    return parts.with_scores(
        **{kind: (scale * rng.normal(size=parts.part_offsets(kind)[-1])).astype(np.float32) for kind in kinds}
    )


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize(
    ("kinds", "heads", "sizes"),
    [(("grandparent", "sibling"), 4, (8, 9, 10, 11, 12)), (THIRD, 3, (8, 9)), (KINDS, 3, (7, 8))],
    ids=["second", "third", "all"],
)
def test_equals_an_integer_program(kinds, heads, sizes, single_root):
    compared = 0
    for n in sizes:
        parts = random_parts(n, n, kinds, heads, scale=0.7)
        best, proved = best_tree(parts, single_root)
        trees = BranchAndBound(single_root)(parts)
        assert trees.certified.all()
        if proved:
            compared += 1
            assert trees.score[0] == pytest.approx(best, rel=1e-6, abs=1e-5)
    assert compared > 0


def hard_parts() -> Parts:
    """A sentence which AD3 alone does not solve."""
    for seed in range(100):
        parts = random_parts(seed, 10, KINDS, 6, scale=2.0)
        if not AD3()(parts).certified[0] and BranchAndBound()(parts).counters["nodes"][0] > 3:
            return parts
    raise AssertionError("all are easy")


def test_limits_are_honest():
    parts = hard_parts()
    exact = BranchAndBound()(parts)
    assert exact.certified[0]
    nodes = int(exact.counters["nodes"][0])
    for decoder in (
        BranchAndBound(max_nodes=1),
        BranchAndBound(max_nodes=nodes - 1),
        BranchAndBound(seconds=0.0),
    ):
        trees = decoder(parts)
        assert trees.bound[0] >= exact.score[0] - 1e-6
        assert trees.score[0] <= exact.score[0] + 1e-6
        assert reaches_root(tuple(trees.heads[0]))
        if trees.certified[0]:
            assert trees.score[0] == pytest.approx(exact.score[0], rel=1e-5)
    assert not BranchAndBound(max_nodes=1)(parts).certified[0]
    assert BranchAndBound(max_nodes=nodes)(parts).certified[0]


def test_time_without_a_limit_met():
    parts = hard_parts()
    trees = BranchAndBound(seconds=3600.0)(parts)
    assert trees.certified[0]
    assert trees.score[0] == BranchAndBound()(parts).score[0]


def test_time_is_limited_within_a_node():
    """One node of this sentence takes far longer than the limit, however many iterations are allowed."""
    parts = random_parts(3, 40, KINDS, 12, scale=2.0)
    BranchAndBound(max_nodes=1, max_iterations=1)(parts)  # compiles
    trees = BranchAndBound(seconds=0.0, max_iterations=10**9, tolerance=0.0)(parts)
    assert trees.counters["nodes"][0] == 1
    assert trees.counters["iterations"][0] < 100
    assert trees.bound[0] >= trees.score[0]
    assert reaches_root(tuple(trees.heads[0]))
