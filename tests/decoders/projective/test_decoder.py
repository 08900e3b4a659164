"""Projective trees of every order: the best, max-marginals and sums, against enumeration and against each other."""

from itertools import chain, combinations
from math import comb, log

import numpy as np
import pytest
from brute_force import is_projective, is_single_root, reaches_root, trees
from brute_force import scores as tree_scores
from hypothesis import given
from hypothesis import strategies as st

from arbora.decoders import Eisner, Parts
from arbora.decoders.projective.decoder import Projective
from arbora.decoders.projective.decoder import search as search_chart
from arbora.decoders.projective.feasibility import has_tree
from arbora.decoders.projective.marginals import log_marginals, log_partition_gradient, max_marginals
from arbora.decoders.vine.candidates import restrict

KINDS = ("grandparent", "sibling", "grand_sibling")
SETS = list(chain.from_iterable(combinations(KINDS, size) for size in range(4)))

every_set = pytest.mark.parametrize("kinds", SETS, ids=lambda kinds: "+".join(kinds) or "arcs")
both_roots = pytest.mark.parametrize("single_root", [False, True], ids=["several roots", "single root"])


def dense(seed: int, n: int, kinds: tuple[str, ...], whole: bool = False) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Random scores of one sentence; whole numbers make ties."""
    rng = np.random.default_rng(seed)
    ranks = {"arc": 2, **{kind: 4 if kind == "grand_sibling" else 3 for kind in kinds}}
    drawn = {name: rng.normal(size=(n + 1,) * rank).astype(np.float32) for name, rank in ranks.items()}
    if whole:
        drawn = {name: np.round(score) for name, score in drawn.items()}
    return drawn.pop("arc"), drawn


def pruned(seed: int, batch: int, n: int, K: int, kinds: tuple[str, ...] = ()) -> Parts:
    """About K random heads per word, more often near ones, and those of a random projective tree."""
    rng = np.random.default_rng(seed)
    arc = rng.normal(size=(batch, n + 1, n + 1)).astype(np.float32)
    distance = np.abs(np.subtract.outer(np.arange(n + 1), np.arange(n + 1)))
    mask = rng.random(arc.shape) < np.minimum(1, K / (2 * np.maximum(distance, 1)))
    best = Eisner()(Parts.from_dense(rng.normal(size=arc.shape))).heads
    mask[np.arange(batch)[:, None], np.arange(1, n + 1), best[:, 1:]] = True
    return with_kinds(Parts.from_dense(arc, mask=mask), kinds, rng)


def with_kinds(parts: Parts, kinds: tuple[str, ...], rng: np.random.Generator) -> Parts:
    return parts.with_scores(**{kind: rng.standard_normal(parts.part_offsets(kind)[-1], np.float32) for kind in kinds})


def count_trees(n: int, single_root: bool) -> int:
    """Projective trees of n words."""
    return comb(3 * n - 2, n - 1) // n if single_root else comb(3 * n, n) // (2 * n + 1)


@every_set
@both_roots
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 5),
    density=st.sampled_from([0.4, 0.7, 1.0]),
    whole=st.booleans(),
    scale=st.sampled_from([1.0, 1.0, 0.0, 2.0**30]),
    faint=st.sampled_from([1.0, 1.0, 2.0**-30]),
)
def test_equals_enumeration(kinds, single_root, seed, n, density, whole, scale, faint):
    arc, higher = dense(seed, n, kinds, whole)
    higher = {kind: score * np.float32(scale * faint) for kind, score in higher.items()}
    arc = arc * np.float32(scale)
    mask = np.random.default_rng(seed + 1).random(arc.shape) < density
    every = trees(n, single_root, projective=True)
    total = tree_scores(every, mask, arc, **higher)
    parts = Parts.from_dense(arc, mask=mask, **higher)
    best = total.max()
    assert has_tree(parts, single_root)[0] == (best > -np.inf)
    if best == -np.inf:
        for search in (Projective(single_root), lambda p: max_marginals(p, single_root)):
            with pytest.raises(ValueError, match=r"sentence 0: no .*tree"):
                search(parts)
        return

    close = {"rtol": 1e-11, "atol": 1e-11 * (1 + scale)}
    result = Projective(single_root)(parts)
    heads = tuple(int(h) for h in result.heads[0])
    assert reaches_root(heads)
    assert is_projective(heads)
    assert is_single_root(heads) or not single_root
    np.testing.assert_allclose(result.score, best, **close)
    np.testing.assert_array_equal(result.bound, result.score)
    assert result.certified.all()

    marginals = max_marginals(parts, single_root)
    log_partition, probabilities = log_marginals(parts, single_root)
    sum_total = np.log(np.exp(total - best).sum()) + best
    np.testing.assert_allclose(log_partition, sum_total, **close)
    uses = np.array(every)[:, parts.modifier] == parts.head  # (T, A)
    np.testing.assert_allclose(marginals, np.where(uses, total[:, None], -np.inf).max(0), **close)
    rounding = 1e-9 if scale <= 1 else 1e-4  # of scores near 2^33, the exponential of whose differences is taken
    np.testing.assert_allclose(probabilities, uses.T @ np.exp(total - sum_total), atol=rounding)
    in_best = result.heads[0, parts.modifier] == parts.head
    assert (marginals[in_best] == marginals.max()).all()


@both_roots
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("density", [0.15, 0.5, 1.0])
def test_both_charts_of_arcs_agree(single_root, whole, density):
    """Sentences of all lengths around the blocks in which `Eisner` fills its chart, in one batch and alone."""
    rng = np.random.default_rng(5)
    lengths = np.array([*range(1, 27), 41, 64])
    arc = np.full((len(lengths), 65, 65), -np.inf, dtype=np.float32)
    for matrix, n in zip(arc, lengths):
        drawn = rng.normal(size=(n + 1, n + 1)).astype(np.float32)
        drawn[rng.random(drawn.shape) > density] = -np.inf
        drawn[np.arange(1, n + 1), np.arange(n)] = -1.0  # a chain, so that there is a tree
        matrix[: n + 1, : n + 1] = np.round(drawn) if whole else drawn
    parts = Parts.from_dense(arc, lengths)
    trees = Eisner(single_root)(parts)
    np.testing.assert_allclose(trees.score, search_chart(parts, single_root, False, False)[1], rtol=1e-12, atol=1e-12)
    for b, n in enumerate(lengths):
        heads = tuple(int(h) for h in trees.heads[b, : n + 1])
        assert is_projective(heads)
        assert reaches_root(heads)
        assert is_single_root(heads) or not single_root
        np.testing.assert_array_equal(Eisner(single_root)(parts.subset(np.array([b]))).heads[0, : n + 1], heads)


@every_set
@both_roots
def test_parts_that_hardly_count_beside_arcs(kinds, single_root):
    """As in a model that has just begun to learn them: sums round, and must do so alike on the way up and down."""
    rng = np.random.default_rng(3)
    parts = Parts.from_dense(5 * rng.standard_normal((20, 21, 21), np.float32))
    faint = {kind: 1e-8 * rng.standard_normal(parts.part_offsets(kind)[-1], np.float32) for kind in kinds}
    parts = parts.with_scores(**faint)
    best = np.full(20, -np.inf)
    np.maximum.at(best, np.repeat(np.arange(20), np.diff(parts.sentence_offsets)), max_marginals(parts, single_root))
    np.testing.assert_allclose(Projective(single_root)(parts).score, best, rtol=1e-12)


@every_set
@both_roots
@pytest.mark.parametrize("n", [1, 2, 3, 6, 17])
def test_one_derivation_a_tree(kinds, single_root, n):
    parts = Parts.from_dense(np.zeros((n + 1, n + 1)))
    parts = parts.with_scores(**{kind: np.zeros(parts.part_offsets(kind)[-1], np.float32) for kind in kinds})
    log_partition, probabilities = log_marginals(parts, single_root)
    assert log_partition[0] == pytest.approx(log(count_trees(n, single_root)), rel=1e-12, abs=1e-12)
    into = np.add.reduceat(probabilities, parts.modifier_offsets[:-1])
    np.testing.assert_allclose(into, 1, rtol=1e-10)
    if single_root:
        assert probabilities[parts.head == 0].sum() == pytest.approx(1, rel=1e-10)


@every_set
@both_roots
@pytest.mark.parametrize("K", [1, 3, 100])
def test_arcs_that_are_forced(kinds, single_root, K):
    """The max-marginal of an arc is the best score where its modifier has no other candidate head."""
    arc, higher = dense(1, 11, kinds)
    mask = np.zeros(arc.shape, dtype=bool)
    candidates = pruned(2, 1, 11, K)
    mask[candidates.modifier, candidates.head] = True
    parts = Parts.from_dense(arc, mask=mask, **higher)
    marginals = max_marginals(parts, single_root)
    for k in range(0, len(marginals), 3):
        alone = mask.copy()
        alone[parts.modifier[k]] = False
        alone[parts.modifier[k], parts.head[k]] = True
        forced = Parts.from_dense(arc, mask=alone, **higher)
        if marginals[k] == -np.inf:
            assert not has_tree(forced, single_root).any()
        else:
            assert Projective(single_root)(forced).score[0] == pytest.approx(marginals[k], rel=1e-9)


@both_roots
@pytest.mark.parametrize("K", [1, 3, 10, 100])
def test_orders_agree_where_parts_score_nothing(single_root, K):
    first = pruned(2, 6, 30, K)
    expected = max_marginals(first, single_root)
    log_partition, probabilities = log_marginals(first, single_root)
    for kinds in SETS[1:]:
        zeros = {kind: np.zeros(first.part_offsets(kind)[-1], np.float32) for kind in kinds}
        parts = first.with_scores(**zeros)
        np.testing.assert_allclose(max_marginals(parts, single_root), expected, rtol=1e-10)
        np.testing.assert_allclose(Projective(single_root)(parts).score, Eisner(single_root)(first).score, rtol=1e-10)
        again, probable = log_marginals(parts, single_root)
        np.testing.assert_allclose(again, log_partition, rtol=1e-10)
        np.testing.assert_allclose(probable, probabilities, atol=1e-9)


@both_roots
def test_siblings_agree_with_grand_siblings_of_no_weight(single_root):
    parts = pruned(3, 6, 25, 6, ("sibling",))
    grand = parts.with_scores(grandparent=np.zeros(parts.part_offsets("grandparent")[-1], np.float32))
    np.testing.assert_allclose(max_marginals(grand, single_root), max_marginals(parts, single_root), rtol=1e-10)
    np.testing.assert_allclose(log_marginals(grand, single_root)[1], log_marginals(parts, single_root)[1], atol=1e-9)
    np.testing.assert_allclose(Projective(single_root)(grand).score, Projective(single_root)(parts).score, rtol=1e-10)


@every_set
@both_roots
def test_best_tree_and_its_arcs(kinds, single_root):
    parts = pruned(4, 20, 40, 4, kinds)
    result = Projective(single_root)(parts)
    marginals = max_marginals(parts, single_root)
    sentence = np.repeat(np.arange(20), np.diff(parts.sentence_offsets))
    best = np.full(20, -np.inf)
    np.maximum.at(best, sentence, marginals)
    np.testing.assert_allclose(best, result.score, rtol=1e-9)
    in_best = result.heads[sentence, parts.modifier] == parts.head
    assert in_best.sum() == 20 * 40
    np.testing.assert_array_equal(marginals[in_best], best[sentence][in_best])
    for heads in result.heads:
        tree = tuple(int(h) for h in heads)
        assert reaches_root(tree)
        assert is_projective(tree)
        assert is_single_root(tree) or not single_root


@both_roots
def test_first_order_is_eisner(single_root):
    for parts in (pruned(5, 20, 40, 3), pruned(6, 10, 40, 100)):
        np.testing.assert_allclose(Projective(single_root)(parts).score, Eisner(single_root)(parts).score, rtol=1e-12)


def test_sums_at_large_scores():
    """A tree that outweighs all others has all the probability."""
    parts = pruned(7, 10, 30, 10, KINDS)
    parts = parts.with_scores(**{name: 1e4 * getattr(parts, name) for name in ("arc_score", *KINDS)})
    result = Projective()(parts)
    log_partition, probabilities = log_marginals(parts)
    np.testing.assert_allclose(log_partition, result.score, rtol=1e-6)
    sentence = np.repeat(np.arange(10), np.diff(parts.sentence_offsets))
    np.testing.assert_allclose(probabilities, result.heads[sentence, parts.modifier] == parts.head, atol=1e-3)


@every_set
def test_gradient_of_the_log_partition(kinds):
    parts = pruned(8, 2, 8, 4, kinds)
    _, probabilities = log_marginals(parts)
    step = np.float32(2.0**-8)
    for k in range(0, len(parts.head), 5):
        ways = []
        for sign in (1, -1):
            arc_score = parts.arc_score.copy()
            arc_score[k] += sign * step
            ways.append(log_marginals(parts.with_scores(arc_score=arc_score))[0].sum())
        assert (ways[0] - ways[1]) / (2 * step) == pytest.approx(probabilities[k], abs=1e-4)


@both_roots
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 5),
    density=st.sampled_from([0.4, 0.7, 1.0]),
    scale=st.sampled_from([1.0, 0.0, 2.0**30]),
)
def test_probabilities_of_siblings_equal_enumeration(single_root, seed, n, density, scale):
    arc, higher = dense(seed, n, ("sibling",))
    arc, sibling = arc * np.float32(scale), higher["sibling"] * np.float32(scale)
    mask = np.random.default_rng(seed + 1).random(arc.shape) < density
    every = trees(n, single_root, projective=True)
    total = tree_scores(every, mask, arc, sibling=sibling)
    parts = Parts.from_dense(arc, mask=mask, sibling=sibling)
    if total.max() == -np.inf:
        with pytest.raises(ValueError, match=r"sentence 0: no .*tree"):
            log_partition_gradient(parts, single_root)
        return
    possible = total > -np.inf
    batch = np.broadcast_to(arc, (possible.sum(), *arc.shape))  # one sentence for each tree
    repeated = Parts.from_dense(
        batch, mask=np.broadcast_to(mask, batch.shape), sibling=np.stack([sibling] * len(batch))
    )
    log_partition, gradient = log_partition_gradient(parts, single_root)
    expected = np.log(np.exp(total - total.max()).sum()) + total.max()
    np.testing.assert_allclose(log_partition, expected, rtol=1e-11, atol=1e-11)
    assert gradient.keys() == {"arc", "sibling"}
    active = repeated.active(np.array(every)[possible])
    probability = np.exp(total - expected)[possible]
    for kind, offsets in (("arc", repeated.sentence_offsets), ("sibling", repeated.part_offsets("sibling"))):
        fires = np.zeros(offsets[-1])
        fires[active[kind]] = 1
        rounding = 1e-9 if scale <= 1 else 1e-4
        np.testing.assert_allclose(gradient[kind], probability @ fires.reshape(len(batch), -1), atol=rounding)
        assert (gradient[kind][~fires.reshape(len(batch), -1).any(0)] == 0).all()  # exactly, for parts of no tree


@both_roots
@pytest.mark.parametrize("K", [1, 3, 100])
def test_gradient_of_the_log_partition_by_siblings(single_root, K):
    parts = pruned(16, 2, 9, K, ("sibling",))
    log_partition, gradient = log_partition_gradient(parts, single_root)
    expected, probabilities = log_marginals(parts, single_root)
    np.testing.assert_array_equal(log_partition, expected)
    np.testing.assert_array_equal(gradient["arc"], probabilities)
    step = np.float32(2.0**-8)
    for k in range(0, len(gradient["sibling"]), max(1, len(gradient["sibling"]) // 60)):
        ways = []
        for sign in (1, -1):
            sibling = parts.sibling.copy()
            sibling[k] += sign * step
            ways.append(log_marginals(parts.with_scores(sibling=sibling), single_root)[0].sum())
        assert (ways[0] - ways[1]) / (2 * step) == pytest.approx(gradient["sibling"][k], abs=1e-4)


@both_roots
def test_a_side_has_one_nearest_and_one_farthest_modifier(single_root):
    """Neighbours on one side of a head make a chain from START to END, so as many lead to a modifier as away from it.

    None of both on the left of the root.
    """
    parts = pruned(17, 5, 30, 6, ("sibling",))
    _, gradient = log_partition_gradient(parts, single_root)
    layout = parts.layout
    for side in range(len(layout.side_offsets) - 1):
        block = gradient["sibling"][layout.sibling_offsets[side] : layout.sibling_offsets[side + 1]]
        if len(block) == 0:
            continue
        J = layout.side_offsets[side + 1] - layout.side_offsets[side]
        square = np.zeros((J + 2, J + 2))
        square[np.triu_indices(J + 2, 1)] = block
        arcs = gradient["arc"][layout.outward[layout.side_offsets[side] : layout.side_offsets[side + 1]]]
        np.testing.assert_allclose(square.sum(0), [0, *arcs, 1], atol=1e-9)
        np.testing.assert_allclose(square.sum(1), [1, *arcs, 0], atol=1e-9)


def test_gradient_of_the_log_partition_without_siblings():
    parts = pruned(18, 3, 12, 4)
    log_partition, gradient = log_partition_gradient(parts)
    expected, probabilities = log_marginals(parts)
    np.testing.assert_array_equal(log_partition, expected)
    assert gradient.keys() == {"arc"}
    np.testing.assert_array_equal(gradient["arc"], probabilities)
    with pytest.raises(ValueError, match="the log-partition are for arcs and siblings, not for grandparent"):
        log_partition_gradient(pruned(18, 3, 12, 4, ("sibling", "grandparent")))


@every_set
def test_mask_of_ones_is_no_mask(kinds):
    arc, higher = dense(9, 9, kinds)
    plain, masked = (Parts.from_dense(arc, mask=mask, **higher) for mask in (None, np.ones(arc.shape, dtype=bool)))
    np.testing.assert_array_equal(max_marginals(plain), max_marginals(masked))
    np.testing.assert_array_equal(log_marginals(plain)[1], log_marginals(masked)[1])
    np.testing.assert_array_equal(Projective()(plain).heads, Projective()(masked).heads)


@every_set
@both_roots
def test_one_word(kinds, single_root):
    arc, higher = dense(10, 1, kinds)
    parts = Parts.from_dense(arc, **higher)
    expected = parts.score([[-1, 0]])
    np.testing.assert_allclose(Projective(single_root)(parts).score, expected)
    np.testing.assert_allclose(max_marginals(parts, single_root), expected)
    np.testing.assert_allclose(log_marginals(parts, single_root)[0], expected)
    np.testing.assert_allclose(log_marginals(parts, single_root)[1], 1)


@every_set
def test_no_sentences(kinds):
    parts = Parts.from_dense(np.empty((0, 4, 4)))
    parts = parts.with_scores(**{kind: np.empty(0, np.float32) for kind in kinds})
    assert len(Projective()(parts).heads) == len(max_marginals(parts)) == len(log_marginals(parts)[0]) == 0


@pytest.mark.parametrize("kinds", [(), ("sibling",), KINDS], ids=str)
def test_threads_and_composition_of_the_batch_do_not_matter(kinds, same_for_any_threads):
    rng = np.random.default_rng(11)
    lengths = rng.integers(1, 25, size=60)
    arc = rng.normal(size=(60, 25, 25))
    mask = rng.random(arc.shape) < 0.3
    mask[:, np.arange(1, 25), np.arange(24)] = True
    parts = with_kinds(Parts.from_dense(arc, lengths, mask=mask), kinds, rng)

    def several():
        found = [Projective()(parts).heads, max_marginals(parts), *log_marginals(parts)]
        return [*found, log_partition_gradient(parts)[1]["sibling"]] if kinds == ("sibling",) else found

    together = same_for_any_threads(several)
    for b in range(0, 60, 9):
        alone = parts.subset([b])
        start, end = parts.sentence_offsets[b : b + 2]
        np.testing.assert_array_equal(max_marginals(alone), together[1][start:end])
        np.testing.assert_array_equal(log_marginals(alone)[1], together[3][start:end])
        np.testing.assert_array_equal(Projective()(alone).heads[0], together[0][b, : lengths[b] + 1])
        if kinds == ("sibling",):
            start, end = parts.part_offsets("sibling")[b : b + 2]
            np.testing.assert_array_equal(log_partition_gradient(alone)[1]["sibling"], together[4][start:end])


@both_roots
@pytest.mark.parametrize("n", [62, 63, 64, 65, 127, 128, 150])
def test_there_is_a_tree_where_one_is_found(n, single_root):
    parts = pruned(n, 40, n, 1)
    rng = np.random.default_rng(n)
    parts = restrict(parts, rng.random(len(parts.head)) < rng.choice([1, 0.999, 0.98], len(parts.head)))
    expected = []
    for b in range(40):
        try:
            Eisner(single_root)(parts.subset([b]))
            expected.append(True)
        except ValueError:
            expected.append(False)
    assert has_tree(parts, single_root).tolist() == expected
    assert 0 < sum(expected) < 40


@pytest.mark.parametrize("kinds", [(), ("sibling",), ("grandparent",)], ids=str)
def test_no_tree(kinds):
    rng = np.random.default_rng(12)
    crossing = np.full((4, 4), -np.inf)
    crossing[[1, 2, 3], [3, 0, 2]] = 1.0  # word 2 hangs from the root, below the arc from 3 to 1
    parts = with_kinds(Parts.from_dense([np.zeros((4, 4)), crossing]), kinds, rng)
    roots = np.full((3, 3), -np.inf)
    roots[1:, 0] = 1.0
    headless = np.zeros((3, 3))
    headless[2] = -np.inf
    assert has_tree(parts).tolist() == [True, False]
    for search in (Projective(), max_marginals, log_marginals):
        with pytest.raises(ValueError, match="sentence 1: no projective tree with a single root"):
            search(parts)
        with pytest.raises(ValueError, match="sentence 0: no projective tree with a single root"):
            search(with_kinds(Parts.from_dense(roots), kinds, rng))
        with pytest.raises(ValueError, match="sentence 0: no tree: word 2 has no candidate head"):
            search(with_kinds(Parts.from_dense(headless), kinds, rng))
    assert len(max_marginals(with_kinds(Parts.from_dense(roots), kinds, rng), single_root=False)) == 2


def test_refuses_what_it_does_not_search_by():
    parts = with_kinds(Parts.from_dense(np.zeros((4, 4))), ("any_sibling",), np.random.default_rng(13))
    for search in (Projective(), max_marginals, log_marginals):
        with pytest.raises(ValueError, match="any_sibling"):
            search(parts)


def test_one_candidate_a_word():
    parts = pruned(14, 10, 30, 100)
    heads = Projective()(parts).heads
    sentence = np.repeat(np.arange(10), np.diff(parts.sentence_offsets))
    alone = restrict(parts, heads[sentence, parts.modifier] == parts.head)
    np.testing.assert_array_equal(Projective()(alone).heads, heads)
    np.testing.assert_allclose(log_marginals(alone)[1], 1)


@every_set
def test_scores_are_left_alone(kinds):
    parts = pruned(15, 4, 12, 4, kinds)
    before = {name: getattr(parts, name).copy() for name in ("arc_score", *kinds)}
    Projective()(parts), max_marginals(parts), log_marginals(parts)
    for name, score in before.items():
        np.testing.assert_array_equal(getattr(parts, name), score)
