"""Swaps of arcs next to a list of all of them."""

import numpy as np
import pytest
from naive_greedy import KIND_SETS, KINDS, Instance, both_modes, check_tree, random_batch

from arbora.decoders import MST, Parts, Trees
from arbora.decoders.greedy.improvements import improve_in_place, scored


def improve(parts: Parts, heads: np.ndarray, rounds: int = 5, single_root: bool = True) -> Trees:
    trees = np.array(heads, np.int32)
    return scored(parts, trees, {"swaps": improve_in_place(parts.penalised(), trees, rounds, single_root)})


def swaps(heads: list[int], mask: np.ndarray, single_root: bool) -> list[list[int]]:
    """Trees that one swap makes, by the paper's two cases."""
    found = []
    for v in range(1, len(heads)):
        u = heads[v]
        for new in range(len(heads)):
            if new in (u, v) or not mask[v, new]:
                continue
            x, w = new, 0
            while x not in (0, v):
                x, w = heads[x], x
            tree = list(heads)
            tree[v] = new
            if x == v:
                if not mask[w, u]:
                    continue
                tree[w] = u
            elif single_root and 0 in (u, new):
                continue
            found.append(tree)
    return found


@both_modes
@pytest.mark.parametrize("kinds", KIND_SETS, ids="+".join)
def test_each_swap_is_the_best(kinds, single_root):
    made = 0
    for seed in range(15):
        rng = np.random.default_rng(seed)
        instance = Instance(seed, int(rng.integers(2, 8)), kinds, 0.8)
        parts = instance.parts
        start = MST(single_root)(parts.with_scores(arc_score=rng.normal(size=len(parts.head)))).heads
        heads = start[0].tolist()
        for rounds in range(5):
            trees = improve(parts, start, rounds, single_root)
            check_tree(trees.heads[0], single_root)
            assert trees.heads[0].tolist() == heads
            assert trees.score[0] == parts.score([heads])[0]
            options = swaps(heads, instance.mask, single_root)
            for tree in options:
                check_tree(tree, single_root)
            scores = [parts.score([tree])[0] for tree in options]
            if not scores or max(scores) <= trees.score[0]:
                assert improve(parts, start, 100, single_root).heads[0].tolist() == heads
                break
            heads = options[int(np.argmax(scores))]
            made += 1
    assert made > 15


@both_modes
def test_swaps_never_lower_the_score(single_root):
    parts = random_batch(9, 60, 20, kinds=KINDS, K=5)
    start = MST(single_root)(parts)
    before = parts.score(start.heads)
    for rounds in (1, 3, 50):
        after = improve(parts, start.heads, rounds, single_root)
        assert (after.score >= before).all()
        assert (after.counters["swaps"] <= rounds).all()
        np.testing.assert_array_equal(after.score > before, after.counters["swaps"] > 0)
        for heads in after.heads:
            check_tree(heads, single_root)
        before = after.score
    np.testing.assert_array_equal(improve(parts, start.heads, 0, single_root).heads, start.heads)
