"""Hill-climbing beside enumeration: starting trees, single changes, local optima, and what must not change a tree."""

from collections import Counter

import brute_force
import numba
import numpy as np
import pytest
from brute_force import FEATURES, KINDS, PARTS, Tree, dense_shape, is_single_root, reaches_root
from hypothesis import given, settings
from hypothesis import strategies as st

from arbora.decoders import MST, Parts
from arbora.decoders.hill_climbing.climb import weigh_root
from arbora.decoders.hill_climbing.decoder import HillClimbing
from arbora.decoders.hill_climbing.gains import join, weigh
from arbora.decoders.hill_climbing.random_trees import LAWS, Starts, sample, take_tree
from arbora.decoders.hill_climbing.state import locate, make_state, plant, survey
from arbora.decoders.hill_climbing.wide_gains import weigh_wide
from arbora.decoders.kernels.options import KERNEL

SECOND = ("grandparent", "sibling")
EVERY_KIND = (*PARTS, *FEATURES)
KIND_SETS = [*[(kind,) for kind in EVERY_KIND], SECOND, KINDS, FEATURES, EVERY_KIND]
both_modes = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
every_kind = pytest.mark.parametrize(
    "kinds", KIND_SETS, ids=lambda kinds: "all" if kinds == EVERY_KIND else "+".join(kinds)
)


def draw_tags(rng: np.random.Generator, count: int) -> np.ndarray:
    """Tags at random, half of them conjunctions and punctuation."""
    special = rng.choice([brute_force.CONJUNCTION, brute_force.PUNCTUATION], size=count)
    return np.where(rng.random(count) < 0.5, special, rng.integers(0, 18, size=count))


class Instance:
    """A sentence with random dense scores, as the enumeration and as the decoder take it."""

    def __init__(self, seed: int, n: int, kinds=KINDS, density: float = 1.0, scale: float = 1.0):
        rng = np.random.default_rng(seed)
        self.n = n
        self.mask = rng.random((n + 1, n + 1)) < density
        self.mask[np.arange(1, n + 1), np.arange(n)] = True  # 0 -> 1 -> ... -> n is never left out
        np.fill_diagonal(self.mask, False)
        self.arc = rng.normal(size=(n + 1, n + 1)).astype(np.float32)
        self.higher = {kind: scale * rng.normal(size=dense_shape(kind, n + 1)) for kind in kinds}
        self.higher = {kind: dense.astype(np.float32) for kind, dense in self.higher.items()}
        self.tags = tuple(draw_tags(rng, n + 1).tolist())
        self.parts = Parts.from_dense(self.arc, mask=self.mask, tags=self.tags, **self.higher)

    def scores(self, trees: list[Tree]) -> np.ndarray:
        """(T,) by enumeration up to seven words."""
        return brute_force.scores(trees, self.mask, self.arc, self.tags, **self.higher)

    def trees(self, single_root: bool) -> list[Tree]:
        """All trees of candidate arcs."""
        found = brute_force.trees(self.n, single_root)
        return [tree for tree in found if all(self.mask[m, h] for m, h in enumerate(tree) if m > 0)]


def neighbours(tree: Tree, mask: np.ndarray, single_root: bool) -> list[Tree]:
    """Trees that differ by one head, and with a single root those that the root move makes."""
    n = len(tree) - 1
    changes = [{m: h} for m in range(1, n + 1) for h in range(n + 1) if mask[m, h] and h != tree[m]]
    if single_root:
        r = tree.index(0)
        moves = [(w, x) for w in range(1, n + 1) for x in range(1, n + 1) if w != r and mask[w, 0] and mask[r, x]]
        changes += [{w: 0, r: x} for w, x in moves]
    found = [tuple(change.get(m, h) for m, h in enumerate(tree)) for change in changes]
    return [new for new in found if reaches_root(new) and (is_single_root(new) or not single_root)]


def batch_of(lengths: np.ndarray, kinds=SECOND, heads: int = 5, seed: int = 0) -> Parts:
    """Sentences with few candidate heads per word, among which a tree is sure to be."""
    rng = np.random.default_rng(seed)
    N = lengths.max() + 1
    arc = 2 * rng.normal(size=(len(lengths), N, N))
    mask = rng.random(arc.shape) < heads / N
    mask[:, np.arange(1, N), np.arange(N - 1)] = True
    parts = Parts.from_dense(arc, lengths, mask)
    parts = parts.with_tags(draw_tags(rng, parts.word_offsets[-1]))
    return parts.with_scores(**{kind: rng.normal(size=parts.part_offsets(kind)[-1]) for kind in kinds})


def tuples(parts: Parts) -> tuple:
    """Arguments of the kernels, as the decoder passes them."""
    return parts.layout, None if set(parts.kinds) <= set(KINDS) else parts.wide


def draw(parts: Parts, start: str, single_root: bool, count: int, temperature: float = 1.0) -> np.ndarray:
    """(count, n+1) trees from which climbs of the first sentence start."""
    trees = np.full((count, parts.lengths[0] + 1), -1, dtype=np.int32)
    best = MST(single_root)(parts).heads
    sample(parts.layout, best, 0, Starts(LAWS[start], False, temperature, 0, single_root), trees)
    return trees


@numba.njit(**KERNEL)
def head_gains(layout, wide, trees, b, m, gains):
    """Set gains to what each candidate head of word m of sentence b adds to the score, the rest of the tree given.

    Only differences mean something, and those of heads below m nothing.
    """
    sentence, state = locate(layout, b), planted(layout, trees, b)
    m = np.uint64(m)
    weigh(layout, state, sentence, m)
    if wide is not None:
        weigh_wide(layout, wide, state, sentence, m, False)
    start = np.uint64(layout.modifier_offsets[sentence.before + m])
    for i in range(np.uint64(len(gains))):
        h = np.uint64(layout.head[start + i])
        gains[i] = state.gain[i] + join(layout, state, sentence, m, h, start + i)


@numba.njit(**KERNEL)
def root_gains(layout, wide, trees, b, gains, heads):
    """Set gains[w] to the change of the score if w becomes the root word of sentence b, -inf if it cannot.

    The old root word then takes the best head below w, heads[w]. The tree must have a single root.
    """
    sentence, state = locate(layout, b), planted(layout, trees, b)
    state.bound[:] = np.inf
    for w in range(np.uint64(1), sentence.n + np.uint64(1)):
        gains[w], _, k = weigh_root(layout, wide, state, sentence, w)
        heads[w] = layout.head[k]


@numba.njit(**KERNEL)
def planted(layout, trees, b):
    """The state of a tree."""
    sentence = locate(layout, b)
    state = make_state(layout.lengths[b] + 1, layout.sentence_offsets[b + 1] - layout.sentence_offsets[b])
    survey(layout, state, sentence)
    take_tree(layout, b, trees, state.arc)
    plant(layout, state, sentence)
    return state


@both_modes
@pytest.mark.parametrize("density", [1.0, 0.6])
@pytest.mark.parametrize(("start", "temperature"), [("uniform", 1.0), ("first_order", 1.0), ("first_order", 3.0)])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_starting_trees_have_the_right_distribution(n, start, temperature, density, single_root):
    instance = Instance(n, n, (), density)
    trees = instance.trees(single_root)
    expected = instance.scores(trees) / temperature if start == "first_order" else np.zeros(len(trees))
    expected = 40_000 * np.exp(expected) / np.exp(expected).sum()
    counts = Counter(map(tuple, draw(instance.parts, start, single_root, 40_000, temperature).tolist()))
    assert counts.keys() <= set(trees)
    chi_square = sum((counts[tree] - e) ** 2 / e for tree, e in zip(trees, expected))
    # the 1 - 1e-6 quantile, by Wilson and Hilferty
    df = len(trees) - 1
    assert df == 0 or chi_square < df * (1 - 2 / (9 * df) + 4.75 * (2 / (9 * df)) ** 0.5) ** 3


@both_modes
def test_walks_that_never_end_are_cut_off(single_root):
    """Words 1 and 2 want each other as heads: a walk leaves them once in e^30 steps."""
    arc = np.zeros((6, 6))
    arc[1, 2] = arc[2, 1] = 1000
    trees = draw(Parts.from_dense(arc), "first_order", single_root, 200)
    assert all(reaches_root(tree) for tree in map(tuple, trees.tolist()))
    assert len(np.unique(trees, axis=0)) > 50


@both_modes
def test_walks_in_a_maze_are_cut_off(single_root):
    """Heads of m are m - 1, and n, where all begins again: a walk with equal probabilities takes about 2^n steps."""
    n = 60
    mask = np.zeros((n + 1, n + 1), dtype=bool)
    mask[np.arange(1, n + 1), np.arange(n)] = mask[1:n, n] = True
    parts = Parts.from_dense(np.zeros((n + 1, n + 1)), mask=mask)
    for tree in map(tuple, draw(parts, "uniform", single_root, 20).tolist()):
        assert reaches_root(tree)
        assert is_single_root(tree) or not single_root


@every_kind
@pytest.mark.parametrize("density", [1.0, 0.5])
def test_gains_equal_recomputation(kinds, density):
    """Every legal change of one head, in random trees."""
    checked = 0
    for seed in range(10):
        instance = Instance(seed, 6, kinds, density)
        parts = instance.parts
        tree = tuple(draw(parts, "uniform", False, 1)[0].tolist())
        for m in range(1, 7):
            heads = parts.head[parts.modifier_offsets[m - 1] : parts.modifier_offsets[m]].tolist()
            gains = np.empty(len(heads))
            head_gains(*tuples(parts), np.array([tree], dtype=np.int32), 0, m, gains)
            legal = [new for h in heads if reaches_root(new := (*tree[:m], h, *tree[m + 1 :]))]
            kept = gains[[heads.index(new[m]) for new in legal]]
            expected = instance.scores([tree, *legal])
            now = gains[heads.index(tree[m])]
            np.testing.assert_allclose(kept - now, expected[1:] - expected[0], atol=1e-5)
            checked += len(legal)
    assert checked > 60


@every_kind
@pytest.mark.parametrize("density", [1.0, 0.5])
def test_gains_of_root_moves_equal_recomputation(kinds, density):
    """Try every possible root word, with the best head for the old root word."""
    checked = 0
    for seed in range(20):
        n = 1 + seed % 6
        instance = Instance(seed, n, kinds, density)
        tree = tuple(draw(instance.parts, "uniform", True, 1)[0].tolist())
        gains, heads = np.empty(n + 1), np.empty(n + 1, dtype=np.int32)
        root_gains(*tuples(instance.parts), np.array([tree], dtype=np.int32), 0, gains, heads)
        r = tree.index(0)
        for w in range(1, n + 1):
            moved = [new for new in neighbours(tree, instance.mask, True) if w != r and new.index(0) == w]
            assert np.isneginf(gains[w]) == (not moved)
            if moved:
                scores = instance.scores([tree, *moved])
                assert gains[w] == pytest.approx(scores[1:].max() - scores[0], abs=1e-5)
                assert moved[int(scores[1:].argmax())][r] == heads[w]
                checked += len(moved)
    assert checked > 20


@pytest.mark.parametrize("n", [61, 62, 63, 64, 127, 140])
def test_gains_in_longer_sentences(n):
    """Sets that need one or several 64-bit numbers, with all kinds of parts; trees of a second sentence."""
    parts = batch_of(np.array([5, n]), EVERY_KIND, heads=4, seed=n)
    for start in ("uniform", "first_order"):
        trees = np.full((2, n + 1), -1, dtype=np.int32)
        trees[1] = draw(parts.subset([1]), start, False, 1)[0]
        for m in np.random.default_rng(n).integers(1, n + 1, size=25):
            w = int(parts.word_offsets[1]) + m - 1
            candidates = parts.head[parts.modifier_offsets[w] : parts.modifier_offsets[w + 1]].tolist()
            gains = np.empty(len(candidates))
            head_gains(*tuples(parts), trees, 1, m, gains)
            changed = np.repeat(trees[1:], len(candidates), 0)
            changed[:, m] = candidates
            legal = np.array([reaches_root(tuple(tree.tolist())) for tree in changed])
            scores = parts.subset(np.ones(len(candidates), dtype=int)).score(changed)
            now = candidates.index(trees[1, m])
            np.testing.assert_allclose(gains[legal] - gains[now], (scores - scores[now])[legal], atol=1e-6)


@both_modes
@settings(max_examples=120)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 7),
    kinds=st.sampled_from(KIND_SETS),
    density=st.sampled_from([1.0, 0.6, 0.2]),
    start=st.sampled_from(["uniform", "first_order", "best"]),
)
def test_results_are_local_optima(single_root, seed, n, kinds, density, start):
    instance = Instance(seed, n, kinds, density)
    trees = HillClimbing(restarts=1, start=start, best_first=False, single_root=single_root)(instance.parts)
    tree = tuple(trees.heads[0].tolist())
    assert reaches_root(tree)
    assert is_single_root(tree) or not single_root
    assert trees.score[0] == instance.parts.score(trees.heads)[0] == pytest.approx(instance.scores([tree])[0], abs=1e-4)
    assert trees.bound is None
    assert not trees.certified.any()
    if others := neighbours(tree, instance.mask, single_root):
        assert instance.scores(others).max() <= trees.score[0] + 1e-4


@both_modes
@pytest.mark.parametrize("start", ["uniform", "first_order"])
@pytest.mark.parametrize("kinds", [SECOND, KINDS, FEATURES, EVERY_KIND], ids=["second", "third", "features", "all"])
def test_many_restarts_find_the_best_tree(kinds, start, single_root):
    found = 0
    for seed in range(40):
        instance = Instance(seed, 1 + seed % (4 if "span" in kinds else 5), kinds, density=0.5 if seed % 2 else 1.0)
        best = instance.scores(instance.trees(single_root)).max()
        score = HillClimbing(patience=200, start=start, single_root=single_root)(instance.parts).score[0]
        assert score <= best + 1e-4
        found += score >= best - 1e-4
    assert found >= 39


@both_modes
def test_longer_sentences_are_local_optima(single_root):
    """Above 62 words sets take more than one number of 64 bits."""
    lengths = np.array([62, 63, 64, 130])
    for kinds in (SECOND, KINDS, EVERY_KIND):
        parts = batch_of(lengths, kinds, heads=4)
        trees = HillClimbing(restarts=2, single_root=single_root)(parts)
        for b, n in enumerate(lengths):
            tree = tuple(trees.heads[b, : n + 1].tolist())
            assert reaches_root(tree)
            assert is_single_root(tree) or not single_root
            mask = np.zeros((n + 1, n + 1), dtype=bool)
            arcs = slice(parts.sentence_offsets[b], parts.sentence_offsets[b + 1])
            mask[parts.modifier[arcs], parts.head[arcs]] = True
            others = neighbours(tree, mask, single_root)
            alone = parts.subset(np.full(len(others), b))
            assert alone.score(np.array(others)).max() <= trees.score[b] + 1e-6


def test_climbs_from_the_best_tree_under_arc_scores():
    parts = batch_of(np.full(30, 20))
    first_order = MST()(parts)
    best = HillClimbing(start="best")(parts)
    assert (best.score >= parts.score(first_order.heads) - 1e-9).all()
    assert (best.counters["restarts"] == 1).all()
    for start in ("uniform", "first_order"):
        once = HillClimbing(restarts=1, start=start)(parts)
        np.testing.assert_array_equal(once.heads, best.heads)
        many = HillClimbing(restarts=30, start=start)(parts)
        assert (many.score >= best.score).all()
        assert (many.score > best.score).any()
        assert (many.counters["restarts"] == 30).all()
    elsewhere = HillClimbing(restarts=1, best_first=False)(parts)
    assert (elsewhere.heads != best.heads).any()


@pytest.mark.parametrize("kinds", [SECOND, EVERY_KIND], ids=["second", "all"])
def test_stops_when_the_best_tree_has_stood(kinds):
    parts = batch_of(np.full(40, 15), kinds)
    for patience in (1, 7, 30):
        trees = HillClimbing(patience=patience, best_first=False)(parts)
        restarts = trees.counters["restarts"]
        assert (restarts > patience).all()
        assert len(np.unique(restarts)) > 2
        for b in range(5):
            alone = parts.subset([b])
            count = int(restarts[b])
            scores = [HillClimbing(restarts=r, best_first=False)(alone).score[0] for r in range(1, count + 20)]
            found = 1 + next(r for r in range(count) if scores[r] == scores[count - 1])
            assert count == found + patience
            assert trees.score[b] == scores[count - 1]


@both_modes
@pytest.mark.parametrize("kinds", [KINDS, EVERY_KIND], ids=["third", "all"])
def test_number_of_threads_does_not_matter(kinds, single_root, same_for_any_threads):
    lengths = np.random.default_rng(1).integers(1, 25, size=30)
    every = batch_of(lengths, kinds, seed=2)
    few = every.subset([0, 1, 2])  # fewer sentences than threads: restarts are spread
    patient = HillClimbing(patience=20, single_root=single_root)
    fixed = HillClimbing(restarts=41, start="first_order", single_root=single_root)
    for decoder, parts in ((patient, every), (patient, few), (fixed, every), (fixed, few)):

        def found(decoder=decoder, parts=parts):
            trees = decoder(parts)
            return trees.heads, trees.score, trees.counters["restarts"], trees.counters["moves"]

        same_for_any_threads(found)


@pytest.mark.parametrize("kinds", [KINDS, EVERY_KIND], ids=["third", "all"])
def test_composition_of_the_batch_does_not_matter(kinds):
    parts = batch_of(np.random.default_rng(3).integers(1, 25, size=20), kinds, seed=4)
    decoder = HillClimbing(patience=5)
    together = decoder(parts)
    for sentences in (np.arange(20)[::-1], np.array([7]), np.array([3, 3, 11])):
        trees = decoder(parts.subset(sentences))
        for heads, score, b in zip(trees.heads, trees.score, sentences):
            n = parts.lengths[b]
            np.testing.assert_array_equal(heads[: n + 1], together.heads[b, : n + 1])
            assert (heads[n + 1 :] == -1).all()
            assert score == together.score[b]


def test_seed_matters_and_nothing_else_does():
    parts = batch_of(np.full(30, 20), seed=5)
    decoder = HillClimbing(restarts=2, best_first=False)
    first, again = decoder(parts), decoder(parts)
    other = HillClimbing(restarts=2, best_first=False, seed=1)(parts)
    np.testing.assert_array_equal(first.heads, again.heads)
    assert (first.heads != other.heads).any()


@both_modes
def test_arcs_alone_are_decoded_exactly(single_root):
    parts = Parts.from_dense(np.random.default_rng(6).normal(size=(5, 9, 9)))
    exact = MST(single_root)(parts)
    trees = HillClimbing(single_root=single_root)(parts)
    np.testing.assert_array_equal(trees.heads, exact.heads)
    assert trees.certified.all()
    np.testing.assert_array_equal(trees.bound, trees.score)
    climbed = HillClimbing(best_first=False, patience=100, single_root=single_root)(parts)
    assert not climbed.certified.any()
    np.testing.assert_allclose(climbed.score, exact.score, rtol=1e-6)


@both_modes
def test_one_word(single_root):
    parts = Parts.from_dense(np.array([[0, 0], [-2.5, 0]]), **{kind: np.ones([2] * 3) for kind in SECOND})
    for start in LAWS:
        trees = HillClimbing(start=start, patience=3, single_root=single_root)(parts)  # type: ignore[arg-type]
        assert trees.heads.tolist() == [[-1, 0]]
        assert trees.score.tolist() == [1.5]  # four siblings: two on the side of the root, one on each of the word's


def test_one_word_with_features():
    parts = Parts.from_dense(np.zeros((2, 2)), **{kind: np.ones(dense_shape(kind, 2)) for kind in FEATURES})
    for start in LAWS:
        for single_root in (False, True):
            trees = HillClimbing(start=start, patience=3, single_root=single_root)(parts)  # type: ignore[arg-type]
            assert trees.heads.tolist() == [[-1, 0]]
            assert trees.score.tolist() == [4]  # valency, span, neighbours, right branching


@pytest.mark.parametrize("kind", ["sibling", "valency"])
def test_no_sentences(kind):
    parts = Parts.from_dense(np.empty((0, 4, 4)), **{kind: np.empty((0, *dense_shape(kind, 4)))})
    trees = HillClimbing()(parts)
    assert len(trees.heads) == len(trees.score) == len(trees.counters["restarts"]) == 0


@both_modes
def test_equal_scores(single_root):
    plain = Parts.from_dense(np.zeros((2, 31, 31)))
    for kinds in (["sibling"], FEATURES):
        parts = plain.with_scores(**{kind: np.zeros(plain.part_offsets(kind)[-1]) for kind in kinds})
        trees = HillClimbing(patience=3, single_root=single_root)(parts)
        np.testing.assert_array_equal(trees.heads, MST(single_root)(parts).heads)  # no move where none helps
        assert (trees.counters["restarts"] == 4).all()
        assert (trees.counters["moves"] == 0).all()


@both_modes
@pytest.mark.parametrize("size", [1e-30, 1e6, 2.0**100])
def test_extreme_scores(size, single_root):
    """Ends, and keeps its promise of a tree, whatever digits the sums lose."""
    parts = batch_of(np.full(10, 12), EVERY_KIND, seed=7)
    higher = {kind: getattr(parts, kind) * (size if kind in ("sibling", "span") else 1) for kind in EVERY_KIND}
    trees = HillClimbing(patience=5, single_root=single_root, start="first_order")(
        parts.with_scores(arc_score=parts.arc_score * size, **higher)
    )
    for heads in trees.heads:
        assert reaches_root(tuple(heads.tolist()))
    assert np.isfinite(trees.score).all()


def test_a_single_tree_is_found():
    """So few arcs that but one tree is left, and walks have one way."""
    mask = np.zeros((8, 8), dtype=bool)
    mask[np.arange(1, 8), [3, 1, 0, 3, 4, 7, 3]] = True
    parts = Parts.from_dense(np.zeros((8, 8)), mask=mask, sibling=np.ones((8, 8, 8)))
    for start in LAWS:
        trees = HillClimbing(start=start, patience=2)(parts)  # type: ignore[arg-type]
        assert trees.heads[0].tolist() == [-1, 3, 1, 0, 3, 4, 7, 3]


def test_sentences_without_a_tree():
    arc = np.zeros((3, 5, 5))
    arc[1, 2:4, [0, 1, 4]] = -np.inf  # words 2 and 3 have only each other
    with pytest.raises(ValueError, match=r"sentence 1: no tree: no candidate arcs lead from the root to word [23]"):
        HillClimbing()(Parts.from_dense(arc, sibling=np.zeros((3, 5, 5, 5))))
    arc = np.full((3, 3), -np.inf)
    arc[1:, 0] = 1.0
    parts = Parts.from_dense(arc, sibling=np.zeros((3, 3, 3)))
    assert HillClimbing(single_root=False)(parts).heads[0].tolist() == [-1, 0, 0]
    with pytest.raises(ValueError, match="sentence 0: no tree with a single root"):
        HillClimbing()(parts)


def test_refuses_a_start_that_does_not_exist():
    with pytest.raises(ValueError, match="start must be one of uniform, first_order, best, got first"):
        HillClimbing(start="first")  # type: ignore[arg-type]


@both_modes
@pytest.mark.parametrize("kinds", [KINDS, EVERY_KIND], ids=["third", "all"])
def test_neither_origin_nor_unit_of_scores_matters(kinds, single_root):
    """Constants that are added to all arcs of a word, and powers of two that multiply all scores."""
    plain = batch_of(np.full(20, 12), kinds, seed=8)
    parts = plain.with_scores(arc_score=np.round(plain.arc_score * 256) / 256)  # float32 holds the sums exactly
    word = np.repeat(np.arange(parts.word_offsets[-1]), np.diff(parts.modifier_offsets))
    shifts = np.random.default_rng(9).integers(-9000, 9000, size=parts.word_offsets[-1])
    for start in ("uniform", "first_order", "best"):
        decoder = HillClimbing(patience=5, start=start, best_first=False, single_root=single_root)
        expected = decoder(parts)
        others = [parts.with_scores(arc_score=parts.arc_score + shifts[word])]
        if start != "first_order":  # where the probabilities of trees depend on the unit, as they should
            scores = {"arc_score": parts.arc_score, **{kind: getattr(parts, kind) for kind in kinds}}
            others += [
                parts.with_scores(**{name: score * 2.0**k for name, score in scores.items()}) for k in (-60, -13, 7, 60)
            ]
        for other in others:
            trees = decoder(other)
            np.testing.assert_array_equal(trees.heads, expected.heads)
            for name, counts in trees.counters.items():
                np.testing.assert_array_equal(counts, expected.counters[name])
