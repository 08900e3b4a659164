"""Greedy next to a naive version of its definition, enumeration, and what must not change it."""

import brute_force
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_greedy import (
    KIND_SETS,
    KINDS,
    SECOND,
    AmbiguousError,
    Instance,
    both_modes,
    check_tree,
    completable,
    free_arcs,
    naive_search,
    naive_values,
    random_batch,
    random_forest,
)

from arbora.decoders import MST, Parts
from arbora.decoders.greedy.decoder import ABSENT_ARCS, Greedy


@both_modes
@pytest.mark.parametrize("partial", [False, True], ids=["basic", "partial"])
@pytest.mark.parametrize("kinds", KIND_SETS, ids="+".join)
def test_values_are_those_of_the_definition(kinds, partial, single_root):
    rng = np.random.default_rng(1)
    for seed in range(12):
        instance = Instance(seed, int(rng.integers(1, 7)), kinds, rng.choice([0.3, 0.6, 1.0]))
        decoder = Greedy(float(rng.choice([0, 0.5, 1, 20])), 0.3, partial=partial, single_root=single_root)
        forest = random_forest(instance, rng, single_root)
        expected = naive_values(instance, forest, decoder)
        values = decoder.values(instance.parts, [forest])
        np.testing.assert_allclose(values, [expected.get(a, np.inf) for a in instance.candidates], 1e-7, 1e-7)


@both_modes
@pytest.mark.parametrize("n", [9, 14])
def test_values_of_longer_sentences(n, single_root):
    rng = np.random.default_rng(n)
    kinds = KINDS if n < 10 else (*SECOND, "any_sibling", "head_bigram")
    instance = Instance(n, n, kinds, 0.6)
    decoder = Greedy(beta=0.4, single_root=single_root)
    for _ in range(3):
        forest = random_forest(instance, rng, single_root)
        expected = naive_values(instance, forest, decoder)
        values = decoder.values(instance.parts, [forest])
        np.testing.assert_allclose(values, [expected.get(a, np.inf) for a in instance.candidates], 1e-7, 1e-7)


def test_absent_arcs_left_out():
    """Without them, the search, the choice of a tree and the swaps are those of parts without such kinds."""
    kinds = (*KINDS, "inner_sibling_grandchild", "outer_sibling_grandchild")
    for seed in range(10):
        parts = Instance(seed, 5, kinds, 0.7).parts
        others = parts.only(*(kind for kind in kinds if kind not in ABSENT_ARCS))
        blind = Greedy(absent=False)
        np.testing.assert_array_equal(blind.search(parts).value, Greedy().search(others).value)
        trees, expected = blind(parts), Greedy()(others)
        np.testing.assert_array_equal(trees.heads, expected.heads)
        np.testing.assert_array_equal(trees.counters["swaps"], expected.counters["swaps"])
        assert trees.score[0] == parts.score(trees.heads)[0]
    parts = random_batch(3, 100, 12, kinds=("sibling",))
    assert Greedy(beam=1)(parts).score.mean() > Greedy(beam=1, absent=False)(parts).score.mean() + 0.1


def test_accepts_every_kind_without_absent_arcs():
    assert set(brute_force.PARTS) - ABSENT_ARCS <= Greedy.takes
    for kind in brute_force.PARTS:
        entries = brute_force.parts(np.ones((6, 6), dtype=bool), [kind])[kind]
        assert (kind in ABSENT_ARCS) == any(B for _, _, B in entries)
    parts = Parts.from_dense(np.zeros((4, 4)), inner_sibling_grandchild=np.zeros((4, 4, 4, 4)))
    with pytest.raises(ValueError, match="Greedy does not search by inner_sibling_grandchild"):
        Greedy()(parts)
    Greedy(absent=False)(parts)


def figure_1() -> tuple[Parts, list[int]]:
    arc = np.full((4, 4), -np.inf)
    arc[2, 0] = arc[1, 2] = 0.0
    arc[3, :3] = 2, 1, 1.5
    grandparent = np.zeros((4, 4, 4))  # [m, h, g]
    grandparent[3, 2, 0], grandparent[3, 1, 2] = 2, -1
    return Parts.from_dense(arc, grandparent=grandparent), [-1, 2, 0, -1]


def test_figure_1():
    parts, forest = figure_1()
    values = Greedy(partial=False, single_root=False).values(parts, [forest])
    assert values[-3:].tolist() == [1.5, 5.5, -1.5]
    assert np.isinf(values[:-3]).all()
    assert Greedy(partial=False, single_root=False, beam=1, improvements=0)(parts).heads.tolist() == [[-1, 2, 0, 2]]


def test_figure_1_losses_and_gains():
    """With a uniform p = 1/3 for the heads of word 3, each part of which one arc is missing counts a third."""
    parts, forest = figure_1()
    losses = Greedy(alpha=0, beta=1, single_root=False).values(parts, [forest])[-3:]
    gains = -Greedy(alpha=0, beta=0, single_root=False).values(parts, [forest])[-3:]
    np.testing.assert_allclose(losses, [3.5 / 3, 5.5 / 3, 2 / 3])
    np.testing.assert_allclose(gains, [2, 0, 3.5], atol=1e-12)


@both_modes
def test_values_of_the_basic_search_telescope(single_root):
    """Each part is lost or gained exactly once: the sum of values is what is lost less what is gained."""
    for seed, kinds in enumerate(KIND_SETS):
        for beam in (1, 3):
            instance = Instance(seed, 6, kinds)
            found = Greedy(partial=False, beam=beam, single_root=single_root).search(instance.parts)
            assert found.counters["deleted"][0] == 0
            for heads, value in zip(found.heads[:, 0], found.value[:, 0]):
                if value == np.inf:  # fewer states than places
                    continue
                tree = {(int(h), m) for m, h in enumerate(heads) if m > 0}
                signs = [(w, -1 if tree >= P and not B & tree else 1) for w, P, B in instance.listed if P | B]
                assert value == pytest.approx(sum(w * sign for w, sign in signs))


@both_modes
@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("density", [0.35, 1.0])
def test_search_is_the_naive_search(single_root, beam, density):
    deleted = duplicates = 0
    for seed in range(15):
        instance = Instance(seed, 4, KINDS, density)
        if not instance.trees(single_root):
            continue
        decoder = Greedy(beta=0.4, beam=beam, single_root=single_root)
        expected, found = naive_search(instance, decoder), decoder.search(instance.parts)
        count = int(np.isfinite(found.value).sum())
        assert count == len(expected)
        for (value, heads), got, got_value in zip(expected, found.heads[:, 0], found.value[:, 0]):
            assert got.tolist() == heads
            assert got_value == pytest.approx(value)
        deleted += int(found.counters["deleted"][0])
        duplicates += int(found.counters["duplicates"][0])
    assert deleted > 0 or density == 1
    assert duplicates > 0 or beam == 1


@both_modes
def test_forests_that_can_become_trees(single_root):
    """The naive search asks what is reached; here that is compared with all trees."""
    found = {True: 0, False: 0}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        instance = Instance(seed, int(rng.integers(1, 5)), (), 0.4, chain=False)
        forest = random_forest(instance, rng, single_root)
        fits = any(all(h in (-1, x) for h, x in zip(forest, tree)) for tree in instance.trees(single_root))
        assert completable(instance.mask, forest, single_root) == fits
        found[fits] += 1
    assert min(found.values()) > 5


@st.composite
def pruned(draw, most: int) -> Instance:
    """About three candidate heads per word; the longer, the fewer types, as the naive version is slow."""
    n = draw(st.integers(5, most))
    kinds = draw(st.sets(st.sampled_from(KINDS), max_size=6 if n < 7 else 3 if n < 9 else 2))
    return Instance(draw(st.integers(0, 2**32 - 1)), n, tuple(sorted(kinds)), draw(st.sampled_from([2.0, 3.0])) / n)


@settings(max_examples=150)
@given(
    instance=pruned(most=12),
    single_root=st.booleans(),
    partial=st.booleans(),
    alpha=st.sampled_from([0.0, 1.0, 5.0]),
    beta=st.sampled_from([0.2, 0.5]),
    seed=st.integers(0, 2**32 - 1),
)
def test_values_after_each_step(instance, single_root, partial, alpha, beta, seed):
    """Only what has changed is valued again, so nothing that has may be forgotten."""
    decoder = Greedy(alpha, beta, partial=partial, single_root=single_root)
    rng = np.random.default_rng(seed)
    heads = [-1] * (instance.n + 1)
    while arcs := free_arcs(instance, heads, single_root):
        h, m = arcs[rng.integers(len(arcs))]
        heads[m] = h
        expected = naive_values(instance, heads, decoder)
        values = decoder.values(instance.parts, [heads])
        np.testing.assert_allclose(values, [expected.get(a, np.inf) for a in instance.candidates], 1e-7, 1e-7)


@settings(max_examples=150)
@given(
    instance=pruned(most=12),
    single_root=st.booleans(),
    partial=st.booleans(),
    beam=st.integers(1, 3),
    beta=st.sampled_from([0.2, 0.5]),
)
def test_long_searches_are_the_naive_search(instance, single_root, partial, beam, beta):
    decoder = Greedy(beta=beta, beam=beam, partial=partial, single_root=single_root)
    found = decoder.search(instance.parts)
    try:
        expected = naive_search(instance, decoder)
    except AmbiguousError:
        return
    assert np.isfinite(found.value).sum() == len(expected)
    np.testing.assert_allclose(found.value[: len(expected), 0], [value for value, _ in expected], 1e-7, 1e-7)
    assert found.heads[: len(expected), 0].tolist() == [heads for _, heads in expected]


@both_modes
def test_values_beyond_64_words(single_root):
    rng = np.random.default_rng(19)
    instance = Instance(20, 70, ("grandparent",), 3 / 70)
    decoder = Greedy(single_root=single_root)
    for _ in range(3):
        forest = random_forest(instance, rng, single_root)
        expected = naive_values(instance, forest, decoder)
        values = decoder.values(instance.parts, [forest])
        np.testing.assert_allclose(values, [expected.get(a, np.inf) for a in instance.candidates], 1e-7, 1e-7)


@st.composite
def instances(draw) -> Instance:
    kinds = draw(st.sets(st.sampled_from(KINDS)))
    n, density = draw(st.integers(1, 5)), draw(st.sampled_from([0.25, 0.4, 0.7, 1.0]))
    instance = Instance(draw(st.integers(0, 2**32 - 1)), n, tuple(kinds), density, chain=False)
    law = draw(st.sampled_from(["normal", "ties", "equal", "large"]))
    for scores in (instance.arc, *instance.higher.values()):
        if law == "ties":
            np.round(scores, out=scores)
        elif law == "equal":
            scores[:] = 1
        elif law == "large":
            scores *= 1e6
    return instance


@settings(max_examples=250)
@given(
    instance=instances(),
    single_root=st.booleans(),
    alpha=st.sampled_from([0.0, 1.0, 50.0]),
    beta=st.sampled_from([0.0, 0.3, 1.0]),
    beam=st.integers(1, 3),
    partial=st.booleans(),
    improvements=st.sampled_from([0, 1, 5]),
)
def test_a_tree_whenever_there_is_one(instance, single_root, alpha, beta, beam, partial, improvements):
    decoder = Greedy(alpha, beta, beam, improvements, partial, single_root=single_root)
    best = instance.best(single_root)
    if best == -np.inf:
        with pytest.raises(ValueError, match=r"sentence 0: no tree"):
            decoder(instance.parts)
        return
    trees = decoder(instance.parts)
    check_tree(trees.heads[0], single_root)
    assert all(instance.mask[m, h] for m, h in enumerate(trees.heads[0]) if m > 0)
    score = brute_force.score(tuple(trees.heads[0].tolist()), instance.mask, instance.arc, **instance.higher)
    assert trees.score[0] == pytest.approx(score, rel=1e-6, abs=1e-6)
    assert trees.score[0] <= best + 1e-6 * abs(best) + 1e-6
    assert trees.bound is None
    assert not trees.certified[0] or (not instance.higher and score == pytest.approx(best, rel=1e-6))


@both_modes
def test_never_a_dead_end_in_sparse_graphs(single_root):
    refused = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(5, 15))
        mask = np.zeros((n + 1, n + 1), dtype=bool)
        order = rng.permutation(np.arange(1, n + 1))
        mask[order[0], 0] = True
        for i in range(1, n):
            mask[order[i], order[rng.integers(i)]] = True
        mask |= rng.random(mask.shape) < 0.1
        trees = Greedy(beam=1 + seed % 3, single_root=single_root)(
            Parts.from_dense(rng.normal(size=mask.shape), mask=mask)
        )
        check_tree(trees.heads[0], single_root)
        refused += int(trees.counters["deleted"][0])
    assert refused > 20


def test_beam_is_better_on_average():
    parts = random_batch(4, 200, 15)
    scores = [Greedy(beam=beam, improvements=0)(parts).score.mean() for beam in (1, 3, 8)]
    assert scores[0] < scores[1] < scores[2]


def test_states_of_the_beam_differ():
    parts = random_batch(5, 50, 8)
    found = Greedy(beam=6).search(parts)
    assert (found.counters["duplicates"] > 0).all()
    assert np.isfinite(found.value).all()
    assert (np.diff(found.value, axis=0) >= 0).all()
    for b in range(50):
        assert len({tuple(heads) for heads in found.heads[:, b].tolist()}) == 6


def test_fewer_trees_than_states():
    parts = Parts.from_dense(np.random.default_rng(6).normal(size=(3, 3, 3)))
    decoder = Greedy(beam=5)
    found = decoder.search(parts)
    assert np.isfinite(found.value).sum(0).tolist() == [2, 2, 2]
    np.testing.assert_allclose(decoder(parts).score, MST()(parts).score)


def test_certified_are_trees_of_best_heads():
    parts = random_batch(7, 60, 10, kinds=())
    trees, best = Greedy()(parts), MST()(parts)
    assert 10 < trees.certified.sum() < 60
    np.testing.assert_allclose(trees.score[trees.certified], best.score[trees.certified], rtol=1e-12)
    assert not Greedy()(random_batch(7, 60, 10)).certified.any()


def test_loss_under_uniform_probabilities():
    """Return the first-order losses of an arc: the other arcs into its word, and the reverse arc, each with 1/n."""
    instance = Instance(8, 4, ())
    values = Greedy(alpha=0, beta=1, single_root=False).values(instance.parts, [[-1] * 5])
    own = instance.parts.arc_score
    back = np.array([instance.arc[h, m] if h > 0 else 0.0 for h, m in instance.candidates])
    total = np.repeat(np.add.reduceat(own, instance.parts.modifier_offsets[:-1]), 4)
    np.testing.assert_allclose(values, (total - own + back) / 4, rtol=1e-5)


def test_one_word():
    for kinds in ((), KINDS):
        instance = Instance(12, 1, kinds)
        trees = Greedy()(instance.parts)
        assert trees.heads.tolist() == [[-1, 0]]
        assert trees.heads.dtype == np.int32
        assert trees.score[0] == pytest.approx(instance.best(True))


def test_no_sentences():
    trees = Greedy()(Parts.from_dense(np.empty((0, 4, 4))))
    assert len(trees.heads) == len(trees.score) == len(trees.certified) == 0


@both_modes
def test_composition_of_the_batch_does_not_matter(single_root):
    lengths = np.random.default_rng(13).integers(1, 16, size=30)
    parts = random_batch(14, 30, 15, K=6, kinds=KINDS, lengths=lengths)
    decoder = Greedy(single_root=single_root)
    together = decoder(parts)
    for b, n in enumerate(lengths):
        alone = decoder(parts.subset([b]))
        np.testing.assert_array_equal(alone.heads[0], together.heads[b, : n + 1])
        assert (together.heads[b, n + 1 :] == -1).all()
        assert alone.score[0] == together.score[b]
        for name, counted in alone.counters.items():
            assert counted[0] == together.counters[name][b]


def test_number_of_threads_does_not_matter(same_for_any_threads):
    lengths = np.random.default_rng(15).integers(1, 31, size=200)
    parts = random_batch(16, 200, 30, kinds=(*SECOND, "grand_sibling"), lengths=lengths, K=6)
    same_for_any_threads(lambda: Greedy()(parts))


def test_scores_are_left_alone():
    parts = random_batch(17, 5, 12, kinds=KINDS)
    before = {kind: getattr(parts, kind).copy() for kind in ("arc_score", *KINDS)}
    Greedy()(parts)
    for kind, scores in before.items():
        np.testing.assert_array_equal(getattr(parts, kind), scores)


def test_says_why_there_is_no_tree():
    arc = np.zeros((3, 5, 5))
    arc[1, 3] = -np.inf
    with pytest.raises(ValueError, match="sentence 1: no tree: word 3 has no candidate head"):
        Greedy()(Parts.from_dense(arc))
    arc = np.zeros((3, 5, 5))
    arc[2, 2:4, [0, 1, 4]] = -np.inf  # words 2 and 3 have only each other
    with pytest.raises(ValueError, match=r"sentence 2: no tree: no candidate arcs lead from the root to word 2"):
        Greedy(single_root=False)(Parts.from_dense(arc))
    arc = np.full((3, 3), -np.inf)
    arc[1:, 0] = 1.0
    parts = Parts.from_dense([np.zeros((3, 3)), arc])
    assert Greedy(single_root=False)(parts).heads[1].tolist() == [-1, 0, 0]
    with pytest.raises(ValueError, match="sentence 1: no tree with a single root"):
        Greedy()(parts)


@pytest.mark.parametrize(
    "wrong", [{"alpha": -1.0}, {"alpha": np.inf}, {"beta": 1.5}, {"beta": np.nan}, {"beam": 0}, {"improvements": -1}]
)
def test_refuses_settings_without_sense(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Greedy(**wrong)


def test_refuses_a_forest_of_another_shape():
    with pytest.raises(ValueError, match=r"forest must be \(1, 4\), got \(1, 3\)"):
        Greedy().values(Parts.from_dense(np.zeros((4, 4))), [[-1, -1, -1]])


def test_refuses_a_forest_of_other_arcs():
    arc = np.zeros((2, 4, 4))
    arc[1, 3, 2] = -np.inf
    with pytest.raises(ValueError, match="sentence 1: the forest has an arc that is not a candidate"):
        Greedy().values(Parts.from_dense(arc), [[-1, -1, -1, 2]] * 2)


def test_refuses_forests_that_are_none():
    parts = Parts.from_dense(np.zeros((3, 5, 5)))
    with pytest.raises(ValueError, match="sentence 1: the forest has a cycle"):
        Greedy().values(parts, [[-1, 2, 3, -1, 3], [-1, 2, 4, -1, 1], [-1, 2, 1, -1, -1]])
    rooted = [[-1] * 5, [-1] * 5, [-1, 0, -1, 1, 0]]
    with pytest.raises(ValueError, match="sentence 2: the forest has several modifiers of the root"):
        Greedy().values(parts, rooted)
    assert np.isfinite(Greedy(single_root=False).values(parts, rooted)).any()


def test_whole_numbers_as_settings():
    parts = random_batch(18, 5, 8)
    np.testing.assert_array_equal(Greedy(alpha=1, beta=0).search(parts).value, Greedy(1.0, 0.0).search(parts).value)
