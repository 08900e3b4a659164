"""AD3, the subgradient method and branch and bound against enumeration, and against what must not change them."""

import numpy as np
import pytest
from brute_force import KINDS, best_score, is_single_root, reaches_root
from brute_force import trees as all_trees
from hypothesis import given, settings
from hypothesis import strategies as st
from integer_program import relaxation

from arbora.decoders import MST, Decoder, Parts, Trees
from arbora.decoders.dual import graph as fac
from arbora.decoders.dual.ad3 import AD3, RelaxedTrees
from arbora.decoders.dual.branch_and_bound import BranchAndBound
from arbora.decoders.dual.subgradient import Subgradient

FOUR_WORDS = ("grand_sibling", "tri_sibling")
SECOND = ("grandparent", "sibling")
THIRD = ("grandparent", "sibling", "grand_sibling", "tri_sibling")

DECODERS = [AD3(), AD3(drop_arcs=False), Subgradient(max_iterations=100), BranchAndBound()]
every_decoder = pytest.mark.parametrize("decoder", DECODERS, ids=repr)
both_root_modes = pytest.mark.parametrize("single_root", [False, True])


def with_root(decoder: Decoder, single_root: bool) -> Decoder:
    return type(decoder)(**{**decoder.__dict__, "single_root": single_root})


def draw(
    seed: int, n: int, kinds: tuple[str, ...], density: float = 1.0, scale: float = 1.0
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Mask and arc scores (N, N), and dense scores of higher-order parts; the chain 0 -> 1 -> ... is never left out."""
    rng = np.random.default_rng(seed)
    mask = rng.random((n + 1, n + 1)) < density
    mask[np.arange(1, n + 1), np.arange(n)] = True
    arc = rng.normal(size=(n + 1, n + 1)).astype(np.float32)
    higher = {
        kind: (scale * rng.normal(size=(n + 1,) * (4 if kind in FOUR_WORDS else 3))).astype(np.float32)
        for kind in kinds
    }
    return mask, arc, higher


def random_parts(seed: int, lengths: list[int], kinds: tuple[str, ...], heads: int, scale: float = 0.5) -> Parts:
    """Sentences of which each word has up to so many candidate heads, the chain and the best tree among them."""
    rng = np.random.default_rng(seed)
    size = max(lengths) + 1
    arc = (2 * rng.normal(size=(len(lengths), size, size))).astype(np.float32)
    mask = rng.random(arc.shape) < heads / size
    mask[:, np.arange(1, size), np.arange(size - 1)] = True
    parts = Parts.from_dense(arc, lengths, mask)
    return parts.with_scores(
        **{kind: (scale * rng.normal(size=parts.part_offsets(kind)[-1])).astype(np.float32) for kind in kinds}
    )


def check(trees: Trees, parts: Parts, best: float, single_root: bool) -> None:
    """Check a result for a single sentence whose best score is known."""
    heads = tuple(int(h) for h in trees.heads[0])
    slack = 1e-5 * (1 + abs(best))
    assert heads[0] == -1
    assert reaches_root(heads)
    assert is_single_root(heads) or not single_root
    assert trees.score[0] == parts.score(trees.heads)[0]
    assert np.isfinite(trees.score[0])
    assert trees.score[0] <= best + slack
    assert trees.bound is not None
    assert trees.bound[0] >= best - slack
    if trees.certified[0]:
        assert trees.score[0] == pytest.approx(best, abs=slack)


@both_root_modes
@every_decoder
def test_every_set_of_types(decoder, single_root):
    certified = optimal = 0
    for code in range(2 ** len(KINDS)):
        kinds = tuple(kind for i, kind in enumerate(KINDS) if code >> i & 1)
        n = 1 + code % 4
        mask, arc, higher = draw(code, n, kinds, density=0.7 if code % 3 else 1.0)
        parts = Parts.from_dense(arc, mask=mask, **higher)
        best = best_score(arc, single_root, mask=mask, **higher)
        trees = with_root(decoder, single_root)(parts)
        check(trees, parts, best, single_root)
        certified += trees.certified[0]
        optimal += trees.score[0] >= best - 1e-5
    assert certified >= (64 if isinstance(decoder, BranchAndBound) else 32)
    assert optimal >= (64 if isinstance(decoder, BranchAndBound) else 45)


@both_root_modes
@pytest.mark.parametrize("kinds", [SECOND, THIRD, KINDS], ids=["second", "third", "all"])
@every_decoder
def test_five_words(decoder, kinds, single_root):
    for seed in range(12):
        mask, arc, higher = draw(seed, 5, kinds, density=(0.5, 0.8, 1.0)[seed % 3], scale=(0.3, 1.0, 3.0)[seed % 3])
        parts = Parts.from_dense(arc, mask=mask, **higher)
        best = best_score(arc, single_root, mask=mask, **higher)
        trees = with_root(decoder, single_root)(parts)
        check(trees, parts, best, single_root)
        if isinstance(decoder, BranchAndBound):
            assert trees.certified[0]


@settings(max_examples=60)
@given(data=st.data())
def test_any_scores(data):
    """Ties, zeros and magnitudes far apart."""
    n = data.draw(st.integers(1, 4))
    kinds = tuple(data.draw(st.lists(st.sampled_from(KINDS), unique=True)))
    law = data.draw(
        st.sampled_from([(-1.0, 0.0, 1.0), (0.0,), (-1e4, 1e-3, 0.0, 1e4), tuple(np.linspace(-2, 2, 41).tolist())])
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    single_root = data.draw(st.booleans())
    arc = rng.choice(law, size=(n + 1, n + 1)).astype(np.float32)
    mask = rng.random((n + 1, n + 1)) < data.draw(st.sampled_from([0.4, 0.7, 1.0]))
    higher = {
        kind: rng.choice(law, size=(n + 1,) * (4 if kind in FOUR_WORDS else 3)).astype(np.float32) for kind in kinds
    }
    best = best_score(arc, single_root, mask=mask, **higher)
    parts = Parts.from_dense(arc, mask=mask, **higher)
    for decoder in (AD3(single_root), BranchAndBound(single_root)):
        if best == -np.inf:
            with pytest.raises(ValueError, match=r"sentence 0: no tree"):
                decoder(parts)
        else:
            trees = decoder(parts)
            check(trees, parts, best, single_root)
            assert trees.certified[0] or isinstance(decoder, AD3)


@both_root_modes
@every_decoder
def test_arcs_alone_stop_at_once(decoder, single_root):
    parts = random_parts(0, [1, 5, 20, 40], (), 10)
    trees = with_root(decoder, single_root)(parts)
    exact = MST(single_root)(parts)
    np.testing.assert_array_equal(trees.heads, exact.heads)
    np.testing.assert_allclose(trees.bound, exact.score, rtol=1e-9)
    assert trees.certified.all()
    assert (trees.counters["iterations"] == 0).all()


@every_decoder
def test_one_word(decoder):
    arc = np.array([[0, 0], [-2.5, 0]])
    higher = {kind: np.full((2,) * (4 if kind in FOUR_WORDS else 3), 0.25) for kind in KINDS}
    trees = decoder(Parts.from_dense(arc, **higher))
    assert trees.heads.tolist() == [[-1, 0]]
    # START and END of the root's side with the word between, both sides of the word with and without grandparent
    assert trees.score.tolist() == [-2.5 + 0.25 * (4 + 2 + 1)]
    assert trees.certified.all()


@every_decoder
def test_no_sentences(decoder):
    trees = decoder(Parts.from_dense(np.empty((0, 4, 4))))
    assert len(trees.heads) == len(trees.score) == len(trees.certified) == 0


@every_decoder
def test_says_why_there_is_no_tree(decoder):
    arc = np.zeros((3, 5, 5))
    arc[1, 2:4, [0, 1, 4]] = -np.inf  # words 2 and 3 have only each other
    sibling = np.zeros((3, 5, 5, 5))
    with pytest.raises(ValueError, match=r"sentence 1: no tree: no candidate arcs lead from the root to word [23]"):
        decoder(Parts.from_dense(arc, sibling=sibling))
    arc[1, 2:4] = 0
    arc[2, 4] = -np.inf
    with pytest.raises(ValueError, match="sentence 2: no tree: word 4 has no candidate head"):
        decoder(Parts.from_dense(arc, sibling=sibling))
    two_roots = np.full((3, 3), -np.inf)
    two_roots[1:, 0] = 1.0
    parts = Parts.from_dense(two_roots, sibling=np.ones((3, 3, 3)))
    assert with_root(decoder, False)(parts).heads.tolist() == [[-1, 0, 0]]
    with pytest.raises(ValueError, match="sentence 0: no tree with a single root"):
        decoder(parts)


@every_decoder
def test_composition_of_the_batch_does_not_matter(decoder):
    lengths = [12, 1, 7, 20, 3, 15, 9]
    parts = random_parts(3, lengths, KINDS, 5, scale=0.2)
    together = decoder(parts)
    backwards = decoder(parts.subset(np.arange(len(lengths))[::-1]))
    for b, n in enumerate(lengths):
        alone = decoder(parts.subset([b]))
        for other, place in (alone, 0), (backwards, len(lengths) - 1 - b):
            np.testing.assert_array_equal(other.heads[place, : n + 1], together.heads[b, : n + 1])
            assert other.score[place] == together.score[b]
            assert other.bound[place] == together.bound[b]
            assert other.counters["iterations"][place] == together.counters["iterations"][b]


@every_decoder
def test_number_of_threads_does_not_matter(decoder, same_for_any_threads):
    parts = random_parts(4, [int(n) for n in np.random.default_rng(5).integers(1, 20, size=40)], THIRD, 5, scale=0.25)
    same_for_any_threads(lambda: decoder(parts))


@every_decoder
def test_scores_are_left_alone(decoder):
    parts = random_parts(6, [8, 9], KINDS, 5)
    before = {kind: getattr(parts, kind).copy() for kind in ("arc_score", *KINDS)}
    decoder(parts)
    for kind, score in before.items():
        np.testing.assert_array_equal(getattr(parts, kind), score)


@pytest.mark.parametrize("kinds", [(), SECOND, THIRD, ("any_sibling",), ("head_bigram", "tri_sibling"), KINDS], ids=len)
@every_decoder
def test_arrays_keep_apart(decoder, kinds, monkeypatch):
    """A graph packs its arrays one after the other. With gaps between them nothing is written there, and what was never
    written before, NaN and a number out of range, is not read."""
    parts = random_parts(11, [12, 1, 7, 2, 16, 9, 3, 5], kinds, 5, scale=0.3)
    dense = random_parts(12, [6, 1, 8, 3], kinds, 100, scale=0.2)
    expected = decoder(parts)
    gap, unset = 8, -(2**30)
    pools: list[tuple[np.ndarray, np.ndarray]] = []
    allocate = fac.allocate

    def with_gaps(parts: Parts, sentences: np.ndarray, *capacity: int) -> fac.Graph:
        graph = allocate(parts, sentences, *capacity)
        at = graph.at.copy()
        arrays = []
        for pool, names, fill in (
            (graph.floats, slice(None, len(fac.FLOATS)), np.nan),
            (
                graph.ints,
                slice(len(fac.FLOATS), None),
                unset,
            ),
        ):
            count = len(at[names])
            array = np.full(len(pool) + (count + 1) * gap, fill, dtype=pool.dtype)
            between = np.zeros(len(array), dtype=bool)
            for i, start in enumerate([*at[names], len(pool)]):
                between[start + i * gap : start + (i + 1) * gap] = True
            at[names] += gap * np.arange(1, count + 1)
            arrays.append(array)
            pools.append((array, between))
        graph.factor[:] = unset
        graph.row[:] = np.nan
        return graph._replace(at=at, floats=arrays[0], ints=arrays[1])

    for module in ("ad3", "subgradient"):
        monkeypatch.setattr(f"arbora.decoders.dual.{module}.allocate", with_gaps)
    for some in (dense, parts.subset([4]), parts.subset([1]), parts.subset([3, 7])):
        decoder(some)
    trees = decoder(parts)
    np.testing.assert_array_equal(trees.heads, expected.heads)
    np.testing.assert_array_equal(trees.bound, expected.bound)
    for array, between in pools:
        assert (np.isnan(array[between]) if array.dtype == np.float64 else array[between] == unset).all()


def test_bounds_order():
    """Branch and bound is at least as good as AD3, and AD3's bound no worse than that of the subgradient method."""
    parts = random_parts(7, [15] * 20, SECOND, 6, scale=1.0)
    relaxed, slow, exact = AD3(drop_arcs=False)(parts), Subgradient(max_iterations=200)(parts), BranchAndBound()(parts)
    assert exact.certified.all()
    assert (exact.score >= relaxed.score - 1e-6).all()
    assert (exact.score <= relaxed.bound + 1e-6).all()
    assert (exact.score <= slow.bound + 1e-6).all()
    assert relaxed.bound.mean() <= slow.bound.mean() + 1e-6
    assert (exact.counters["nodes"] >= 1).all()
    for trees in (relaxed, slow):
        np.testing.assert_allclose(trees.score[trees.certified], exact.score[trees.certified], rtol=1e-5)


@pytest.mark.parametrize("drop_arcs", [False, True])
def test_fractional_solutions(drop_arcs):
    """Shares of arcs lie in 0..1, add up to 1 for each word, and are the tree where it is certified."""
    parts = random_parts(8, [10] * 30, THIRD, 5, scale=0.4)
    trees = AD3(drop_arcs=drop_arcs, max_iterations=1000)(parts)
    assert isinstance(trees, RelaxedTrees)
    assert not trees.certified.all()
    assert trees.certified.any()
    assert trees.arcs.shape == parts.head.shape
    assert ((trees.arcs >= -1e-9) & (trees.arcs <= 1 + 1e-9)).all()
    sums = np.add.reduceat(trees.arcs, parts.modifier_offsets[:-1])
    np.testing.assert_allclose(sums, 1, atol=0.05)
    sentence = np.repeat(np.arange(30), np.diff(parts.sentence_offsets))
    in_tree = trees.heads[sentence, parts.modifier] == parts.head
    certain = trees.certified[sentence]
    np.testing.assert_array_equal(trees.arcs[certain], in_tree[certain])
    assert (trees.primal_residual[trees.certified] == 0).all()
    assert (trees.primal_residual >= 0).all()


def objective(trees: RelaxedTrees, parts: Parts) -> np.ndarray:
    """(B,) sum of share times score."""
    total = np.zeros(len(parts.lengths))
    for kind, (entries, share) in trees.shares.items():
        offsets = parts.sentence_offsets if kind == "arc" else parts.part_offsets(kind)
        score = parts.arc_score if kind == "arc" else getattr(parts, kind)
        sentence = np.searchsorted(offsets, entries, side="right") - 1
        np.add.at(total, sentence, share * score[entries].astype(np.float64))
    return total


def dense_shares(trees: RelaxedTrees, parts: Parts, kind: str) -> np.ndarray:
    entries, share = trees.shares[kind]
    dense = np.zeros(len(parts.head) if kind == "arc" else parts.part_offsets(kind)[-1])
    dense[entries] = share
    return dense


@both_root_modes
def test_shares_reach_the_bound(single_root):
    """For every set of types: between tree and bound at all times, and at the bound once the relaxation is solved."""
    decoder = AD3(single_root, fractional=True, drop_arcs=False, tolerance=1e-8, max_iterations=2000)
    reached = 0
    for code in range(2 ** len(KINDS)):
        kinds = tuple(kind for i, kind in enumerate(KINDS) if code >> i & 1)
        parts = random_parts(code, [1, 2, 3, 5, 8], kinds, 6, scale=1.0)
        for trees in (decoder(parts), AD3(single_root, fractional=True, max_iterations=20)(parts)):
            value = objective(trees, parts)
            residual = np.maximum(trees.primal_residual, trees.dual_residual)
            links = np.diff(parts.sentence_offsets)
            assert (value >= trees.score - 1e-9).all()
            assert (value <= trees.bound + 1e-6 + 10 * links * residual).all()
            solved = (residual < 1e-8) & ~trees.certified
            np.testing.assert_allclose(value[solved], trees.bound[solved], atol=1e-4)
            reached += solved.sum()
            for kind, (entries, share) in trees.shares.items():
                assert (np.diff(entries) > 0).all(), kind
                assert (share > 0).all()
                assert (share <= 1 + 1e-9).all()
    assert reached > 64


@pytest.mark.parametrize("drop_arcs", [False, True])
@both_root_modes
def test_shares_of_parts_agree_with_those_of_arcs(single_root, drop_arcs):
    """Parts that differ in one word add up to the arcs which they have in common."""
    decoder = AD3(single_root, fractional=True, drop_arcs=drop_arcs, tolerance=1e-7, max_iterations=3000)
    parts = random_parts(21, [2, 5, 8, 8, 8, 8, 10, 10, 10], KINDS, 6, scale=0.7)
    trees = decoder(parts)
    size = len(parts.lengths)
    solved = trees.primal_residual < 1e-6
    assert (~trees.integral & solved).sum() >= 2
    arcs = np.zeros((size, *trees.heads.shape[1:], *trees.heads.shape[1:]))
    sentence = np.repeat(np.arange(size), np.diff(parts.sentence_offsets))
    arcs[sentence, parts.modifier, parts.head] = dense_shares(trees, parts, "arc")
    for kind in KINDS:
        share = dense_shares(trees, parts, kind)
        sentence = np.repeat(np.arange(size), np.diff(parts.part_offsets(kind)))
        words = parts.words(kind)
        found = np.zeros_like(arcs)
        expected = arcs.copy()
        if kind == "any_sibling":
            h, first, second = words.T
            one, two = arcs[sentence, first, h], arcs[sentence, second, h]
            least, most = np.maximum(one + two - 1, 0), np.minimum(one, two)
            expected_share = np.where(parts.any_sibling > 0, most, least)
            if single_root:
                expected_share[h == 0] = 0
            np.testing.assert_allclose(share[solved[sentence]], expected_share[solved[sentence]], atol=1e-3)
            continue
        if kind in ("grandparent", "head_bigram"):
            np.add.at(found, (sentence, words[:, 0], words[:, 1]), share)
            if kind == "grandparent":
                expected[:, :, 0] = 0
            else:
                expected[:, 1] = 0
        elif kind == "tri_sibling":
            np.add.at(found, (sentence, words[:, 2], words[:, 0]), share)
        else:
            h, _, outer = words[:, -3:].T
            real = outer != h
            np.add.at(found, (sentence[real], outer[real], h[real]), share[real])
            if kind == "grand_sibling":
                expected[:, :, 0] = 0
                ends = np.zeros_like(arcs)
                np.add.at(ends, (sentence[~real], h[~real], words[~real, 0]), share[~real])
                np.testing.assert_allclose(ends[solved], 2 * arcs[solved], atol=1e-3)  # one END on each side
        np.testing.assert_allclose(found[solved], expected[solved], atol=1e-3, err_msg=kind)


def test_shares_of_a_tree_are_its_parts():
    parts = random_parts(22, [12, 1, 7, 20, 3], KINDS, 5, scale=0.1)
    trees = AD3(fractional=True)(parts)
    whole = trees.integral
    assert whole.sum() >= 3
    for kind, active in parts.active(trees.heads).items():
        entries, share = trees.shares[kind]
        offsets = parts.sentence_offsets if kind == "arc" else parts.part_offsets(kind)
        found, expected = (whole[np.searchsorted(offsets, e, side="right") - 1] for e in (entries, active))
        np.testing.assert_array_equal(entries[found], active[expected])
        assert (share[found] == 1).all()


def test_shares_do_not_depend_on_the_batch_and_change_nothing_else():
    parts = random_parts(23, [8, 1, 10, 9], KINDS, 6, scale=1.0)
    trees, plain = AD3(fractional=True)(parts), AD3()(parts)
    assert not plain.shares
    assert not trees.integral.all()
    np.testing.assert_array_equal(plain.heads, trees.heads)
    np.testing.assert_array_equal(plain.bound, trees.bound)
    np.testing.assert_array_equal(plain.integral, trees.integral)
    for b in range(4):
        alone = AD3(fractional=True)(parts.subset([b]))
        for kind in ("arc", *KINDS):
            offsets = parts.sentence_offsets if kind == "arc" else parts.part_offsets(kind)
            here = dense_shares(trees, parts, kind)[offsets[b] : offsets[b + 1]]
            np.testing.assert_array_equal(dense_shares(alone, parts.subset([b]), kind), here)


def test_a_search_that_has_not_begun_shares_the_tree():
    parts = random_parts(24, [8, 9], KINDS, 6, scale=1.0)
    trees = AD3(fractional=True, max_iterations=0)(parts)
    assert not trees.certified.any()
    for kind, active in parts.active(trees.heads).items():
        np.testing.assert_array_equal(trees.shares[kind][0], active)


@pytest.mark.parametrize("decoder", [AD3(), BranchAndBound()], ids=repr)
def test_integral_solutions(decoder):
    parts = random_parts(8, [10] * 30, THIRD, 5, scale=0.4)
    trees = decoder(parts)
    assert trees.integral[trees.certified].all()
    assert trees.integral.all() == isinstance(decoder, BranchAndBound)
    away = np.minimum(trees.arcs, 1 - trees.arcs)
    np.testing.assert_array_equal(np.maximum.reduceat(away, parts.sentence_offsets[:-1]) < 0.01, trees.integral)
    assert trees.seconds > 0


def test_iterations_are_limited():
    parts = random_parts(9, [20] * 10, KINDS, 8, scale=2.0)
    for limit in (0, 1, 7):
        trees = AD3(max_iterations=limit)(parts)
        assert (trees.counters["iterations"] <= limit).all()
        assert (trees.bound >= trees.score).all()
        for heads in trees.heads:
            assert reaches_root(tuple(heads))


def test_steps_of_any_length():
    parts = random_parts(10, [8] * 10, SECOND, 5)
    exact = BranchAndBound()(parts)
    for decoder in (AD3(rho=0.01), AD3(rho=100.0), AD3(adaptive=False), Subgradient(step=0.1), Subgradient(step=30.0)):
        trees = decoder(parts)
        assert (trees.bound >= exact.score - 1e-6).all()
        np.testing.assert_allclose(trees.score[trees.certified], exact.score[trees.certified], rtol=1e-5)
        assert trees.certified.sum() >= 3


def drawn(seed: int, n: int, heads: int) -> Parts:
    """All kinds of parts with random scores, at least two candidate heads per word and two for the root's modifier."""
    rng = np.random.default_rng(seed)
    mask = np.zeros((n + 1, n + 1), dtype=bool)
    for m in range(1, n + 1):
        mask[m, rng.choice([h for h in range(n + 1) if h != m], size=heads, replace=False)] = True
        mask[m, [m - 1, 0]] |= [True, m < 3]
    parts = Parts.from_dense(rng.normal(size=(n + 1, n + 1)), mask=mask)
    return parts.with_scores(
        **{kind: rng.normal(size=parts.part_offsets(kind)[-1]).astype(np.float32) for kind in KINDS}
    )


@both_root_modes
@pytest.mark.parametrize(("n", "heads"), [(8, 8), (10, 5), (12, 4), (14, 4)])
def test_bound_comes_down_to_the_linear_program(n, heads, single_root):
    """More than 32 configurations are active in the tree factor and the sequence of most of these."""
    decoder = AD3(single_root, drop_arcs=False, max_iterations=3000, tolerance=1e-5)
    for seed in range(2):
        parts = drawn(seed, n, heads)
        trees, value = decoder(parts), relaxation(parts, single_root)
        assert value - 1e-6 <= trees.bound[0] <= value + 5e-3


def test_the_limit_of_configurations_does_not_show(monkeypatch):
    parts = random_parts(25, [12, 5, 14, 3], KINDS, 6, scale=1.0)
    expected = AD3(max_iterations=100)(parts)
    monkeypatch.setattr("arbora.decoders.dual.ad3.FIRST_CAPACITY", 2)
    trees = AD3(max_iterations=100)(parts)
    np.testing.assert_array_equal(trees.heads, expected.heads)
    np.testing.assert_array_equal(trees.bound, expected.bound)
    np.testing.assert_array_equal(trees.counters["iterations"], expected.counters["iterations"])


def test_the_weight_of_the_paper():
    """Martins et al. keep rho at 0.05 throughout, in the unit of their scores."""
    parts = random_parts(26, [15] * 20, SECOND, 6, scale=0.3)
    exact = BranchAndBound()(parts)
    trees = AD3(rho=0.05, adaptive=False, drop_arcs=False, max_iterations=2000)(parts)
    assert trees.certified.mean() > 0.5
    np.testing.assert_allclose(trees.score[trees.certified], exact.score[trees.certified], atol=1e-6)
    assert (trees.bound >= exact.score - 1e-6).all()


@pytest.mark.parametrize("magnitude", [1e17, 1e22, 1e30, 1e37, 1e-30])
@every_decoder
def test_any_magnitude(decoder, magnitude):
    """The search ends, and says the same of the tree, whatever the unit."""
    rng = np.random.default_rng(2)
    arc, grandparent = rng.normal(size=(1, 4, 4)), rng.normal(size=(1, 4, 4, 4))
    plain = decoder(Parts.from_dense(arc, grandparent=grandparent))
    trees = decoder(Parts.from_dense(magnitude * arc, grandparent=magnitude * grandparent))
    np.testing.assert_array_equal(trees.heads, plain.heads)
    np.testing.assert_array_equal(trees.certified, plain.certified)


@pytest.mark.parametrize("low", [-1e6, -1e12, -1e30])
@pytest.mark.parametrize("kind", KINDS)
def test_parts_forbidden_by_a_low_score(kind, low):
    """A large negative score leaves the other scores their say: the best tree is that without such parts."""
    proved = 0
    for seed in range(6):
        mask, arc, higher = draw(seed, 4, KINDS, scale=0.5)
        rng = np.random.default_rng(seed)
        higher[kind][rng.random(higher[kind].shape) < 0.15] = low
        parts = Parts.from_dense(arc, mask=mask, **higher)
        several = np.array(list(all_trees(4, True)))
        scored = np.array([parts.score(tree[None])[0] for tree in several])
        for decoder in (AD3(), BranchAndBound(max_nodes=200)):
            trees = decoder(parts)
            assert trees.bound[0] >= scored.max() - 1e-6 - 1e-12 * abs(scored.max())
            if trees.certified[0]:
                assert trees.score[0] == pytest.approx(scored.max(), rel=1e-9, abs=1e-6)
        if scored.max() > low / 2:
            proved += 1
            assert trees.certified[0]
    assert proved > 0


@pytest.mark.parametrize("rho", [1e-22, 1e-9, 1e9, 1e300])
def test_weights_beyond_reason(rho):
    parts = random_parts(27, [8] * 10, SECOND, 5)
    exact = BranchAndBound()(parts)
    for decoder in (AD3(rho=rho, max_iterations=50), BranchAndBound(rho=rho, max_nodes=5, max_iterations=50)):
        trees = decoder(parts)
        assert (trees.bound >= exact.score - 1e-6).all()
        np.testing.assert_allclose(trees.score[trees.certified], exact.score[trees.certified], atol=1e-6)
        for heads in trees.heads:
            assert reaches_root(tuple(heads))
