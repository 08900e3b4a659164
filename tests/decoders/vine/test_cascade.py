"""The cascade as a decoder: no stage scores a tree too low, so what it proves holds, and it always finds a tree."""

from itertools import chain, combinations, pairwise

import numpy as np
import pytest
from brute_force import is_projective, is_single_root, reaches_root, trees
from brute_force import scores as tree_scores
from hypothesis import given, settings
from hypothesis import strategies as st

from arbora.decoders import Eisner, Parts, Projective, VineCascade
from arbora.decoders.projective.marginals import max_marginals
from arbora.decoders.vine.candidates import sentence_of_arcs
from arbora.decoders.vine.cascade import optimistic_arcs, optimistic_siblings, vine_bounds, vine_of
from arbora.decoders.vine.structures import vine_max_marginals

KINDS = ("grandparent", "sibling", "grand_sibling")
SETS = list(chain.from_iterable(combinations(KINDS, size) for size in range(4)))
ALPHAS = (None, -2.0, 0.0, 0.4, 0.9, 1.0)

every_set = pytest.mark.parametrize("kinds", SETS, ids=lambda kinds: "+".join(kinds) or "arcs")
both_roots = pytest.mark.parametrize("single_root", [False, True], ids=["several roots", "single root"])


def dense(seed: int, n: int, kinds: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Mask, scores of arcs and of parts of one sentence: with ties, huge ones, all arcs or few."""
    rng = np.random.default_rng(seed)
    scale = rng.choice([1.0, 1.0, 0.0, 2.0**20])
    drawn = [rng.normal(size=(n + 1,) * (4 if kind == "grand_sibling" else 3 if kind else 2)) for kind in ("", *kinds)]
    if rng.random() < 0.3:
        drawn = [np.round(score) for score in drawn]
    arc, *higher = (np.float32(scale) * score.astype(np.float32) for score in drawn)
    mask = rng.random((n + 1, n + 1)) < rng.choice([0.4, 0.7, 1.0])
    return mask, arc, dict(zip(kinds, higher))


def batch(
    seed: int, kinds: tuple[str, ...], count: int = 40, longest: int = 24, lean: float = 0.0, spread: float = 1.0
) -> Parts:
    """Sentences with many candidates or few, a projective tree among them, which scores `lean` more an arc.

    Scores of parts other than arcs are spread as told.
    """
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest, size=count)
    arc = rng.normal(size=(count, longest, longest))
    best = Eisner()(Parts.from_dense(rng.normal(size=arc.shape), lengths)).heads
    sentence, m = np.nonzero(best >= 0)
    arc[sentence, m, best[sentence, m]] += lean
    mask = rng.random(arc.shape) < rng.choice([0.1, 0.5, 1.0], size=count)[:, None, None]
    mask[sentence, m, best[sentence, m]] = True
    parts = Parts.from_dense(arc, lengths, mask=mask)
    scores = {kind: rng.normal(0, spread, parts.part_offsets(kind)[-1]).astype(np.float32) for kind in kinds}
    return parts.with_scores(**scores)


def check_trees(parts: Parts, heads: np.ndarray, single_root: bool) -> None:
    assert heads.shape == parts.empty_trees().shape
    for tree, n in zip(heads, parts.lengths):
        assert (tree[n + 1 :] == -1).all()
        tree = tuple(int(h) for h in tree[: n + 1])
        assert reaches_root(tree)
        assert is_projective(tree)
        assert is_single_root(tree) or not single_root


@every_set
@both_roots
@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 5), band=st.integers(1, 3))
def test_no_stage_scores_a_tree_too_low(kinds, single_root, seed, n, band):
    mask, arc, higher = dense(seed, n, kinds)
    parts = Parts.from_dense(arc, mask=mask, **higher)
    every = trees(n, single_root, projective=True)
    total = tree_scores(every, mask, arc, **higher)
    heads, score = np.array(every)[total > -np.inf], total[total > -np.inf]
    low = score - 1e-9 * (1 + np.abs(score))
    siblings = optimistic_siblings(parts)
    assert siblings.kinds == (("sibling",) if {"sibling", "grand_sibling"} & set(kinds) else ())
    arcs, rest = optimistic_arcs(parts)
    assert not arcs.kinds
    again = np.zeros(len(heads), dtype=int)  # the sentence once for each tree
    assert (siblings.subset(again).score(heads) >= low).all()
    assert (arcs.subset(again).score(heads) + rest[0] >= low).all()
    vine = vine_of(arcs, band)
    bounds = vine_bounds(arcs, vine, vine_max_marginals(vine, single_root, required=False)[1]) + rest[0]
    uses = heads[:, parts.modifier] == parts.head  # (T, A)
    assert (np.where(uses, bounds, np.inf) >= low[:, None]).all()


def test_optimistic_scores_are_no_higher_than_they_need_be():
    """The best parts of each arc, by enumeration of all parts."""
    rng = np.random.default_rng(1)
    mask = rng.random((8, 8)) < 0.6
    mask[np.arange(1, 8), np.arange(7)] = True
    np.fill_diagonal(mask, False)
    arc, grandparent, sibling = (rng.normal(size=(8,) * rank).astype(np.float32) for rank in (2, 3, 3))
    grand_sibling = rng.normal(size=(8,) * 4).astype(np.float32)
    parts = Parts.from_dense(arc, mask=mask, grandparent=grandparent, sibling=sibling, grand_sibling=grand_sibling)
    raised = optimistic_siblings(parts)
    heads = {m: np.flatnonzero(mask[m]) for m in range(1, 8)}
    for k, (m, h) in enumerate(zip(parts.modifier, parts.head)):
        best = max((grandparent[m, h, g] for g in heads[h] if g != m), default=0.0) if h > 0 else 0.0
        assert raised.arc_score[k] == pytest.approx(arc[m, h] + best, rel=1e-6)
    for e, (h, inner, outer) in enumerate(parts.words("sibling")):
        best = max(grand_sibling[g, h, inner, outer] for g in heads[h]) if h > 0 else 0.0
        assert raised.sibling[e] == pytest.approx(sibling[h, inner, outer] + best, rel=1e-5, abs=1e-6)
    arcs, rest = optimistic_arcs(parts)
    words = parts.words("sibling")
    for k, (m, h) in enumerate(zip(parts.modifier, parts.head)):
        best = max(raised.sibling[(words[:, 0] == h) & (words[:, 2] == m)])
        assert arcs.arc_score[k] == pytest.approx(raised.arc_score[k] + best, rel=1e-5, abs=1e-6)
    sides = parts.layout.sibling_offsets
    ends = [
        max(raised.sibling[e] for e in range(start, end) if words[e, 2] == words[e, 0])
        for start, end in pairwise(sides)
        if start < end
    ]
    assert rest[0] == pytest.approx(sum(ends), rel=1e-5)


@both_roots
def test_a_vine_as_wide_as_the_sentence_is_the_first_order(single_root):
    arcs = batch(2, ())
    vine = vine_of(arcs, 24)
    bounds = vine_bounds(arcs, vine, vine_max_marginals(vine, single_root)[1])
    np.testing.assert_allclose(bounds, max_marginals(arcs, single_root))


@both_roots
def test_long_arcs_are_told_apart(single_root):
    """The vine has a single outer head for all long arcs of a word, with the score of the best."""
    arcs = batch(3, ())
    vine = vine_of(arcs, 2)
    _, marginals = vine_max_marginals(vine, single_root)
    bounds = vine_bounds(arcs, vine, marginals)
    word = arcs.word_offsets[sentence_of_arcs(arcs)] + arcs.modifier - 1
    far = (arcs.head > arcs.modifier).astype(int)
    long = np.abs(arcs.head - arcs.modifier) > 2
    below = vine.outer_head[word, far][long].astype(np.float64) - arcs.arc_score[long]
    assert (bounds[long] <= marginals.outer_head[word, far][long] - below + 1e-9).all()
    assert (bounds >= max_marginals(arcs, single_root) - 1e-9).all()


@every_set
@both_roots
@settings(max_examples=50)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 5), data=st.data())
def test_what_is_certified_is_the_best(kinds, single_root, seed, n, data):
    mask, arc, higher = dense(seed, n, kinds)
    parts = Parts.from_dense(arc, mask=mask, **higher)
    best = tree_scores(trees(n, single_root, projective=True), mask, arc, **higher).max()
    alphas = {f"{stage}_alpha": data.draw(st.sampled_from(ALPHAS)) for stage in ("vine", "first", "second")}
    decoder = VineCascade(single_root, few=0, band=data.draw(st.integers(1, 3)), **alphas)
    if best == -np.inf:
        with pytest.raises(ValueError, match=r"sentence 0: no .*tree"):
            decoder(parts)
        return
    result = decoder(parts)
    check_trees(parts, result.heads, single_root)
    np.testing.assert_array_equal(result.score, parts.score(result.heads))
    slack = 1e-9 * (1 + abs(best))
    assert result.score[0] <= best + slack
    assert result.bound[0] >= best - slack
    assert result.bound[0] >= result.score[0]
    np.testing.assert_array_equal(result.certified, result.bound == result.score)
    if result.certified[0]:
        assert result.score[0] >= best - slack


@every_set
@both_roots
@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 5), alpha=st.sampled_from([None, -1e9]))
def test_where_nothing_is_dropped_it_is_the_best(kinds, single_root, seed, n, alpha):
    mask, arc, higher = dense(seed, n, kinds)
    best = tree_scores(trees(n, single_root, projective=True), mask, arc, **higher).max()
    if best > -np.inf:
        decoder = VineCascade(single_root, few=0, band=2, vine_alpha=alpha, first_alpha=alpha, second_alpha=alpha)
        result = decoder(Parts.from_dense(arc, mask=mask, **higher))
        np.testing.assert_allclose(result.score, best, rtol=1e-9, atol=1e-9)


@every_set
@both_roots
def test_where_nothing_is_dropped_it_is_projective(kinds, single_root):
    parts = batch(4, kinds)
    for decoder in (
        VineCascade(single_root, few=0, vine_alpha=-1e9, first_alpha=-1e9, second_alpha=-1e9),
        VineCascade(single_root, few=0, vine_alpha=None, first_alpha=None, second_alpha=None),
        VineCascade(single_root, few=1e9, vine_alpha=1.0, first_alpha=1.0, second_alpha=1.0),
    ):
        result = decoder(parts)
        np.testing.assert_array_equal(result.heads, Projective(single_root)(parts).heads)
        assert result.certified.all()


@pytest.mark.parametrize("stage", ["vine", "first", "second"])
@both_roots
def test_each_stage_drops_arcs(stage, single_root):
    parts = batch(5, KINDS, lean=6.0, spread=0.3)
    alphas = {f"{name}_alpha": 0.5 if name == stage else None for name in ("vine", "first", "second")}
    result = VineCascade(single_root, few=0, **alphas)(parts)
    assert (result.counters["stages"] == 1).all()
    before = np.diff(parts.sentence_offsets)
    assert (result.counters["arcs"] <= before).all()
    assert result.counters["arcs"].sum() < 0.7 * before.sum()
    assert (result.counters["arcs"] >= parts.lengths).all()


@both_roots
def test_the_best_tree_of_arcs_survives_the_first_order(single_root):
    """With arcs alone the stage has true scores: even the sharpest threshold leaves the best tree, and proves it."""
    parts = batch(6, ())
    result = VineCascade(single_root, few=0, vine_alpha=None, first_alpha=1.0)(parts)
    np.testing.assert_allclose(result.score, Projective(single_root)(parts).score)
    assert result.certified.all()
    np.testing.assert_array_equal(result.counters["arcs"], parts.lengths)


def test_the_second_order_is_for_grandparents_beside_siblings():
    for kinds in SETS:
        result = VineCascade(few=0, vine_alpha=None, first_alpha=None, second_alpha=0.5)(batch(7, kinds))
        both = {"grandparent", "grand_sibling"} & set(kinds) and {"sibling", "grand_sibling"} & set(kinds)
        assert (result.counters["stages"] == bool(both)).all()


@every_set
@both_roots
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_a_tree_is_found_whatever_the_scores(kinds, single_root, alpha):
    """Random scores, with which a vine most often leaves no tree."""
    parts = batch(8, kinds)
    decoder = VineCascade(single_root, few=0, band=2, vine_alpha=alpha, first_alpha=alpha, second_alpha=alpha)
    result, best = decoder(parts), Projective(single_root)(parts)
    check_trees(parts, result.heads, single_root)
    np.testing.assert_array_equal(result.score, parts.score(result.heads))
    slack = 1e-9 * (1 + np.abs(best.score))
    assert (result.score <= best.score + slack).all()
    assert (result.bound >= best.score - slack).all()
    assert (result.score >= best.score - slack)[result.certified].all()


def test_a_vine_that_leaves_no_tree():
    """Words want heads far off on a side where a tree has none; the sentence goes on with all its arcs."""
    n = 12
    arc = np.full((n + 1, n + 1), -1.0)
    arc[1:7, 7:] = arc[7:, 1:7] = 9.0
    parts = Parts.from_dense(arc)
    result = VineCascade(few=0, band=2, vine_alpha=1.0, first_alpha=None)(parts)
    assert result.counters["arcs"][0] == len(parts.head)
    assert result.certified.all()
    np.testing.assert_allclose(result.score, Projective()(parts).score)


def test_scores_that_lean_to_a_tree():
    """As trained ones do: the best trees survive, most arcs do not, and the second order alone proves most of it."""
    parts = batch(9, KINDS, count=60, longest=40, lean=8.0, spread=0.1)
    best = Projective()(parts)
    result = VineCascade(vine_alpha=0.8)(parts)
    assert (result.score >= best.score - 1e-6).mean() > 0.95
    assert result.counters["arcs"].sum() < 0.2 * len(parts.head)
    fine = VineCascade(vine_alpha=None, first_alpha=None, second_alpha=0.4)(parts)
    assert fine.certified.mean() > 0.6
    assert fine.counters["arcs"].sum() < 0.4 * len(parts.head)


def test_sentences_with_few_arcs_are_searched_at_once():
    parts = batch(10, KINDS)
    heads_a_word = np.diff(parts.sentence_offsets) / parts.lengths
    result = VineCascade(few=4.0, vine_alpha=0.5, first_alpha=0.5, second_alpha=0.5)(parts)
    few = heads_a_word <= 4
    assert 5 < few.sum() < 35
    assert (result.counters["stages"][few] == 0).all()
    assert (result.counters["stages"][~few] > 0).all()
    assert (result.counters["arcs"][few] == np.diff(parts.sentence_offsets)[few]).all()
    best = Projective()(parts)
    np.testing.assert_array_equal(result.heads[few], best.heads[few])
    assert result.certified[few].all()


@pytest.mark.parametrize("kinds", [(), ("sibling",), KINDS], ids=str)
def test_threads_and_composition_of_the_batch_do_not_matter(kinds, same_for_any_threads):
    parts = batch(11, kinds, lean=3.0)
    decoder = VineCascade(few=2.0)
    together = same_for_any_threads(lambda: decoder(parts))
    for b in range(0, 40, 7):
        alone, n = decoder(parts.subset([b])), parts.lengths[b]
        np.testing.assert_array_equal(alone.heads[0], together.heads[b, : n + 1])
        assert alone.bound[0] == together.bound[b]
        assert alone.counters["arcs"][0] == together.counters["arcs"][b]


@pytest.mark.parametrize("kinds", [(), KINDS], ids=str)
@pytest.mark.parametrize("few", [0.0, 1.5, 1e9])
@pytest.mark.parametrize("vine_alpha", [None, 0.5])
def test_no_tree(kinds, few, vine_alpha):
    """The sentence is named by its place in the batch, whichever sentences were searched with it."""
    rng = np.random.default_rng(12)
    crossing = np.full((4, 4), -np.inf)
    crossing[[1, 2, 3], [3, 0, 2]] = 1.0  # word 2 hangs from the root, below the arc from 3 to 1
    roots = np.full((3, 3), -np.inf)
    roots[1:, 0] = 1.0
    headless = np.zeros((3, 3))
    headless[2] = -np.inf
    for bad, reason in (
        (crossing, "no projective tree with a single root"),
        (roots, "no projective tree with a single root"),
        (headless, "no tree: word 2 has no candidate head"),
    ):
        parts = Parts.from_dense([np.zeros((9, 9)), np.zeros((2, 2)), bad, np.zeros((7, 7))])
        scores = {kind: rng.standard_normal(parts.part_offsets(kind)[-1], np.float32) for kind in kinds}
        with pytest.raises(ValueError, match=f"sentence 2: {reason}"):
            VineCascade(few=few, vine_alpha=vine_alpha)(parts.with_scores(**scores))
    parts = Parts.from_dense(roots)
    assert VineCascade(single_root=False, few=few, vine_alpha=vine_alpha)(parts).heads.tolist() == [[-1, 0, 0]]


@every_set
def test_no_sentences_and_one_word(kinds):
    nothing = Parts.from_dense(np.empty((0, 4, 4)))
    nothing = nothing.with_scores(**{kind: np.empty(0, np.float32) for kind in kinds})
    one = Parts.from_dense(np.ones((2, 2)))
    one = one.with_scores(**{kind: np.ones(one.part_offsets(kind)[-1], np.float32) for kind in kinds})
    for few in (0.0, 4.0):
        assert len(VineCascade(few=few)(nothing).heads) == 0
        assert VineCascade(few=few)(one).heads.tolist() == [[-1, 0]]


def test_scores_near_the_largest_float32():
    """Optimistic scores do not overflow."""
    rng = np.random.default_rng(13)
    parts = Parts.from_dense(3e38 * rng.uniform(-1, 1, size=(8, 8)))
    scores = {kind: 3e38 * rng.uniform(-1, 1, size=parts.part_offsets(kind)[-1]) for kind in KINDS}
    parts = parts.with_scores(**{kind: score.astype(np.float32) for kind, score in scores.items()})
    check_trees(parts, VineCascade(few=0)(parts).heads, True)


def test_scores_are_left_alone():
    parts = batch(14, KINDS)
    before = {name: getattr(parts, name).copy() for name in ("arc_score", *KINDS)}
    VineCascade(few=0)(parts)
    for name, score in before.items():
        np.testing.assert_array_equal(getattr(parts, name), score)


def test_refuses_what_it_does_not_search_by():
    parts = Parts.from_dense(np.zeros((4, 4)))
    parts = parts.with_scores(tri_sibling=np.zeros(parts.part_offsets("tri_sibling")[-1], np.float32))
    with pytest.raises(ValueError, match="VineCascade does not search by tri_sibling"):
        VineCascade()(parts)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"band": 0}, "band must be an integer from 1 to 1000000, got 0"),
        ({"few": -1.0}, "few must be a finite number of at least 0, got -1.0"),
        ({"vine_alpha": 1.1}, "vine_alpha must be a finite number of at most 1, or None, got 1.1"),
        ({"first_alpha": float("nan")}, "first_alpha must be a finite number of at most 1, or None, got nan"),
        ({"second_alpha": -np.inf}, "second_alpha must be a finite number of at most 1, or None, got -inf"),
    ],
)
def test_settings_that_make_no_sense(wrong, message):
    with pytest.raises(ValueError, match=message):
        VineCascade(**wrong)
