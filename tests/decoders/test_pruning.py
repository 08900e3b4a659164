import brute_force
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arbora.decoders import MST, Eisner, Parts
from arbora.decoders.marginals import arc_marginals
from arbora.decoders.pruning import oracle, prune


@given(
    n=st.integers(1, 12),
    max_heads=st.integers(1, 4),
    ratio=st.sampled_from([0.0, 1e-4, 0.3, 1.0]),
    single_root=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_pruning_keeps_likely_heads_and_the_best_tree(
    n: int, max_heads: int, ratio: float, single_root: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    arc = 3 * rng.normal(size=(1, n + 1, n + 1))
    gold = np.array([[-1, *rng.permutation(n)]])
    gold[0, gold[0] == np.arange(n + 1)] = -1  # -1 for none
    marginals = arc_marginals(arc, [n], single_root)[0]
    mask = prune(arc, [n], max_heads, ratio, single_root)[0]
    with_gold = prune(arc, [n], max_heads, ratio, single_root, keep=gold)[0]
    best = MST(single_root)(Parts.from_dense(arc))
    after = MST(single_root)(Parts.from_dense(arc, mask=mask))
    assert after.score[0] == best.score[0]
    for m in range(1, n + 1):
        likely = np.sort(np.delete(marginals[m], m))[::-1]
        lowest = max(likely[: max_heads + 1][-1] if len(likely) > max_heads else -1.0, 0.0)
        for h in range(n + 1):
            expected = (
                h != m and marginals[m, h] >= ratio * likely[0] and (marginals[m] > marginals[m, h]).sum() < max_heads
            )
            tied = marginals[m, h] == lowest
            if not tied:
                assert mask[m, h] == (expected or best.heads[0, m] == h)
            assert with_gold[m, h] == (mask[m, h] or gold[0, m] == h)
        assert not mask[m, m]
    assert not mask[0].any()


@pytest.mark.parametrize("single_root", [True, False])
def test_pruning_for_projective_decoders_keeps_their_best_tree(single_root: bool) -> None:
    arc = 3 * np.random.default_rng(4).normal(size=(30, 11, 11))
    mask = prune(arc, np.full(30, 10), max_heads=1, single_root=single_root, projective=True)
    decoder = Eisner(single_root)
    np.testing.assert_array_equal(decoder(Parts.from_dense(arc, mask=mask)).score, decoder(Parts.from_dense(arc)).score)


def test_oracle_is_the_best_tree_that_is_left() -> None:
    rng = np.random.default_rng(2)
    for single_root in (True, False):
        for _ in range(20):
            arc = rng.normal(size=(5, 5))
            gold = brute_force.trees(4, single_root)[rng.integers(64)]
            parts = Parts.from_dense(arc, mask=prune(arc[None], [4], 1, 1.0, single_root)[0])
            possible = [t for t in brute_force.trees(4, single_root) if np.isfinite(parts.score([t])[0])]
            most = max(sum(a == g for a, g in zip(tree[1:], gold[1:], strict=True)) for tree in possible)
            assert oracle(parts, np.array([gold]), single_root).tolist() == [most]
