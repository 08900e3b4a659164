"""The pruning cascade: what survives, that a projective tree always does, and what the next stage may choose from."""

import numpy as np
import pytest
from brute_force import trees
from hypothesis import given
from hypothesis import strategies as st

from arbora.decoders import MST, Parts
from arbora.decoders.projective.decoder import Projective
from arbora.decoders.projective.feasibility import has_tree
from arbora.decoders.projective.marginals import max_marginals, sibling_max_marginals
from arbora.decoders.vine.candidates import expand, restore, restrict, sentence_of_arcs
from arbora.decoders.vine.dictionary import LengthDictionary
from arbora.decoders.vine.structures import Indices, VineScores, existing, image, slot, vine_max_marginals
from arbora.decoders.vine.thresholds import (
    arc_thresholds,
    sentences_of_vine,
    sibling_indices,
    sibling_thresholds,
    surviving_arcs,
    thresholds,
    vine_thresholds,
)

both_roots = pytest.mark.parametrize("single_root", [False, True], ids=["several roots", "single root"])


def random_vine(lengths: np.ndarray, band: int, rng: np.random.Generator) -> VineScores:
    words, nodes = lengths.sum(), lengths.sum() + len(lengths)
    return VineScores(lengths, *(rng.normal(size=shape) for shape in ((words, 2 * band), (words, 2), (nodes, 2))))


def surviving_vine(vine: VineScores, alpha: float, single_root: bool = True) -> Indices:
    best, marginals = vine_max_marginals(vine, single_root)
    sentences = sentences_of_vine(vine.lengths, marginals)
    flat, sentence = (np.concatenate([array.ravel() for array in arrays]) for arrays in (marginals, sentences))
    cut = thresholds(flat, sentence, best, alpha)
    return Indices(*(array >= cut[s] - 1e-9 for array, s in zip(marginals, sentences)))


def dense_mask(parts: Parts) -> np.ndarray:
    """(B, N, N) which arcs are candidates."""
    size = int(parts.lengths.max()) + 1
    mask = np.zeros((len(parts.lengths), size, size), dtype=bool)
    mask[sentence_of_arcs(parts), parts.modifier, parts.head] = True
    return mask


def test_threshold():
    marginals = np.array([3.0, 1.0, -np.inf, 2.0, 7.0, -np.inf])
    sentence = np.array([0, 0, 0, 0, 1, 1])
    best = np.array([3.0, 7.0])
    np.testing.assert_allclose(thresholds(marginals, sentence, best, 0.0), [2, 7])
    np.testing.assert_allclose(thresholds(marginals, sentence, best, 0.5), [2.5, 7])
    np.testing.assert_allclose(thresholds(marginals, sentence, best, 1.0), [3, 7])
    np.testing.assert_allclose(thresholds(marginals, sentence, best, -1.0), [1, 7])
    nothing = thresholds(np.full(2, -np.inf), np.array([0, 0]), np.array([-np.inf]), 0.0)
    assert nothing.tolist() == [-np.inf]


@both_roots
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 5), alpha=st.sampled_from([0.0, 0.3, 0.6, 1.0]))
def test_trees_above_the_threshold_lose_no_arc(single_root, seed, n, alpha):
    rng = np.random.default_rng(seed)
    arc = rng.normal(size=(n + 1, n + 1)).astype(np.float32)
    parts = Parts.from_dense(arc)
    marginals = max_marginals(parts, single_root)
    cut = thresholds(marginals, sentence_of_arcs(parts), marginals.max(keepdims=True), alpha)[0]
    kept = dense_mask(restrict(parts, surviving_arcs(parts, marginals, alpha)))[0]
    words = np.arange(1, n + 1)
    above = 0
    for tree in trees(n, single_root, projective=True):
        heads = np.array(tree[1:])
        if arc[words, heads].astype(np.float64).sum() >= cut - 1e-10:
            above += 1
            assert kept[words, heads].all()
    assert above > 0
    if alpha == 1:
        assert kept.sum() == n


@both_roots
@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.6, 1.0])
def test_a_tree_survives_every_stage(single_root, alpha):
    """Random scores, with which the best structure of the vine is most often no tree."""
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 30, size=60)
    vine = random_vine(lengths, 3, rng)
    parts = expand(surviving_vine(vine, alpha, single_root), lengths, single_root=single_root)
    assert has_tree(parts, single_root).all()
    assert (parts.arc_score == 0).all()
    for kinds in ((), ("sibling",), ("grandparent", "sibling", "grand_sibling")):
        scores = {kind: rng.standard_normal(parts.part_offsets(kind)[-1], np.float32) for kind in kinds}
        parts = parts.with_scores(arc_score=rng.standard_normal(len(parts.head), np.float32), **scores)
        expected = Projective(single_root)(parts)
        parts = restrict(parts, surviving_arcs(parts, max_marginals(parts, single_root), alpha))
        assert has_tree(parts, single_root).all()
        assert (parts.score(expected.heads) > -np.inf).all()  # the best tree of the stage is among the survivors


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_worst_scores_for_the_vine(alpha):
    """All words want outer heads, and no word outer modifiers: no tree does that."""
    lengths = np.array([1, 5, 20, 41])
    words, nodes = lengths.sum(), lengths.sum() + 4
    vine = VineScores(lengths, np.full((words, 6), -9.0), np.full((words, 2), 9.0), np.full((nodes, 2), -99.0))
    parts = expand(surviving_vine(vine, alpha), lengths)
    assert has_tree(parts).all()


def test_nothing_survives():
    lengths = np.array([1, 2, 9])
    nothing = Indices(*(np.zeros_like(there) for there in existing(lengths, 2)))
    parts = expand(nothing, lengths)
    assert has_tree(parts).all()
    assert len(parts.head) == lengths.sum()


def test_everything_survives():
    lengths = np.array([1, 2, 9, 4])
    parts = expand(existing(lengths, 2), lengths)
    np.testing.assert_array_equal(parts.head, Parts.from_dense(np.zeros((4, 10, 10)), lengths).head)


@given(seed=st.integers(0, 2**32 - 1), band=st.integers(1, 3), limited=st.booleans())
def test_expand_by_the_definition(seed, band, limited):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 10, size=3)
    kept = Indices(*(there & (rng.random(there.shape) < 0.7) for there in existing(lengths, band)))
    tags = rng.integers(0, 3, size=lengths.sum() + 3)
    dictionary = LengthDictionary(rng.integers(1, 9, size=(3, 3, 2)).astype(np.int32))
    parts = expand(kept, lengths, dictionary, tags) if limited else expand(kept, lengths)
    got = dense_mask(parts)
    expected = np.zeros_like(got)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    for b, n in enumerate(lengths):
        for m in range(1, n + 1):
            w, node = offsets[b] + m - 1, offsets[b] + b
            for h in set(range(n + 1)) - {m}:
                if abs(h - m) <= band:
                    expected[b, m, h] = kept.close[w, slot(h - m, band)]
                else:
                    right = int(h > m)
                    expected[b, m, h] = kept.outer_head[w, right] and kept.outer_modifier[node + h, 1 - right]
                    if limited and abs(h - m) > dictionary.longest[tags[node + h], tags[node + m], 1 - right]:
                        expected[b, m, h] = False
    added = got & ~expected
    assert not (expected & ~got).any()
    for b, n in enumerate(lengths):
        alone = Parts.from_dense(np.zeros((n + 1, n + 1)), mask=expected[b, : n + 1, : n + 1])
        assert added[b].any() == (not has_tree(alone)[0])


@both_roots
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 5))
def test_restores_the_fewest_arcs(single_root, seed, n):
    rng = np.random.default_rng(seed)
    mask = rng.random((n + 1, n + 1)) < 0.3
    np.fill_diagonal(mask, False)
    mask[0] = False
    parts = Parts.from_dense(rng.normal(size=mask.shape), mask=mask)
    restored = restore(parts, single_root)
    got = dense_mask(restored)[0]
    words = np.arange(1, n + 1)
    addable = np.abs(np.subtract.outer(np.arange(n + 1), np.arange(n + 1))) == 1
    addable[:, 0] = True
    possible = [tree for tree in trees(n, single_root, projective=True) if (mask | addable)[words, tree[1:]].all()]
    missing = min((~mask[words, tree[1:]]).sum() for tree in possible)
    assert (got & ~mask).sum() == missing
    assert not (mask & ~got).any()
    old = mask[restored.modifier, restored.head]
    np.testing.assert_array_equal(restored.arc_score[old], parts.arc_score)
    assert (restored.arc_score[~old] == 0).all()


@both_roots
@pytest.mark.parametrize("seed", range(5))
def test_restores_the_best_trees_of_more_arcs(single_root, seed):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(30, 8, 8))
    among = Parts.from_dense(scores, rng.integers(1, 8, 30))
    parts = restrict(among, rng.random(len(among.head)) < 0.3)
    without = ~has_tree(parts, single_root)
    assert without.any()
    assert not without.all()
    restored, best = restore(parts, single_root, among), Projective(single_root)(among).heads
    assert has_tree(restored, single_root).all()
    for b in range(30):
        old, new = (dense_mask(some.subset([b]))[0] for some in (parts, restored))
        expected = old.copy()
        if without[b]:
            m = np.arange(1, among.lengths[b] + 1)
            expected[m, best[b, m]] = True
        np.testing.assert_array_equal(new, expected)
    arcs = sentence_of_arcs(restored), restored.modifier, restored.head
    np.testing.assert_array_equal(restored.arc_score, scores.astype(np.float32)[arcs])


def test_restrict():
    rng = np.random.default_rng(2)
    parts = Parts.from_dense(rng.normal(size=(4, 8, 8)), [7, 1, 4, 6])
    keep = rng.random(len(parts.head)) < 0.6
    kept = restrict(parts, keep)
    mask = np.zeros((4, 8, 8), dtype=bool)
    mask[sentence_of_arcs(parts)[keep], parts.modifier[keep], parts.head[keep]] = True
    np.testing.assert_array_equal(dense_mask(kept), mask)
    np.testing.assert_array_equal(kept.arc_score, parts.arc_score[keep])


@given(seed=st.integers(0, 2**32 - 1), kinds=st.sets(st.sampled_from(["grandparent", "sibling", "grand_sibling"])))
def test_restrict_takes_parts_along(seed, kinds):
    """As if the arcs that go had never been candidates."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 8, size=3)
    arc = rng.normal(size=(3, 8, 8))
    higher = {kind: rng.normal(size=(3, *[8] * (4 if kind == "grand_sibling" else 3))) for kind in sorted(kinds)}
    mask = rng.random(arc.shape) < rng.choice([0.4, 1.0])
    parts = Parts.from_dense(arc, lengths, mask=mask, **higher)
    keep = rng.random(len(parts.head)) < rng.choice([0.0, 0.3, 0.8, 1.0])
    kept = restrict(parts, keep, parts.kinds)
    smaller = np.zeros_like(mask)
    smaller[sentence_of_arcs(parts)[keep], parts.modifier[keep], parts.head[keep]] = True
    expected = Parts.from_dense(arc, lengths, mask=smaller, **higher)
    assert kept.kinds == expected.kinds
    for name in ("head", "arc_score", "sentence_offsets", "modifier_offsets", *kinds):
        np.testing.assert_array_equal(getattr(kept, name), getattr(expected, name), err_msg=name)
    for kind in kinds:
        np.testing.assert_array_equal(getattr(restrict(parts, keep, [kind]), kind), getattr(expected, kind))


def test_restrict_refuses_other_types():
    parts = Parts.from_dense(np.zeros((4, 4)))
    parts = parts.with_scores(head_bigram=np.zeros(parts.part_offsets("head_bigram")[-1], np.float32))
    with pytest.raises(ValueError, match="not for head_bigram"):
        restrict(parts, np.ones(len(parts.head), dtype=bool), parts.kinds)


def test_length_dictionary_and_the_vine():
    """A long arc that the dictionary allows goes through the vine, and trees that it was made of survive."""
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 25, size=30)
    size = lengths.max() + 1
    arc = rng.normal(size=(30, size, size)) - 0.3 * np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    heads = Projective()(Parts.from_dense(arc, lengths)).heads
    tags = rng.integers(1, 5, size=(30, size))
    tags[:, 0] = 0
    sentence, m = np.nonzero(heads >= 0)
    h = heads[sentence, m]
    longest = np.ones((5, 5, 2), dtype=np.int32)
    np.maximum.at(longest, (tags[sentence, h], tags[sentence, m], (m > h).astype(int)), np.abs(m - h))
    dictionary = LengthDictionary(longest)
    node_tags = np.concatenate([tags[b, : n + 1] for b, n in enumerate(lengths)])
    there = existing(lengths, 2)
    allowed = dictionary.vine(lengths, node_tags, 2)
    kept = Indices(*(exists & allows for exists, allows in zip(there, allowed)))
    for on, allows in zip(image(heads, lengths, 2), kept):
        assert not (on & ~allows).any()
    parts = expand(kept, lengths, dictionary, node_tags)
    assert (parts.score(heads) > -np.inf).all()
    m, h = parts.modifier, parts.head
    sentence = sentence_of_arcs(parts)
    limit = dictionary.longest[tags[sentence, h], tags[sentence, m], (m > h).astype(int)]
    assert (np.abs(m - h) <= limit).all()
    assert len(parts.head) < len(Parts.from_dense(arc, lengths).head)
    assert len(MST()(parts).heads) == 30


@both_roots
@pytest.mark.parametrize("siblings", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.4, 1.0])
def test_gradient_of_the_threshold(single_root, siblings, alpha):
    """The threshold is linear where no best tree changes, so differences are exact but for rounding."""
    rng = np.random.default_rng(4)
    mask = rng.random((3, 9, 9)) < 0.6
    mask[:, np.arange(1, 9), np.arange(8)] = True
    parts = Parts.from_dense(rng.normal(size=(3, 9, 9)), [8, 1, 5], mask=mask)
    if siblings:
        parts = parts.with_scores(sibling=rng.standard_normal(parts.part_offsets("sibling")[-1], np.float32))
    values, gradient = arc_thresholds(parts, alpha, single_root)
    marginals = max_marginals(parts, single_root)
    best = Projective(single_root)(parts).score
    np.testing.assert_allclose(values, thresholds(marginals, sentence_of_arcs(parts), best, alpha))
    assert gradient.keys() == ({"arc", "sibling"} if siblings else {"arc"})
    total = gradient["arc"] @ parts.arc_score
    if siblings:
        total += gradient["sibling"] @ parts.sibling
    assert total == pytest.approx(values.sum())  # scores times gradient is the score of the trees
    for name, kind in (("arc_score", "arc"), ("sibling", "sibling"))[: 1 + siblings]:
        for k in range(0, len(getattr(parts, name)), 11):
            changed = getattr(parts, name).copy()
            step = np.float32(2.0**-10)
            changed[k] += step
            above = arc_thresholds(parts.with_scores(**{name: changed}), alpha, single_root)[0].sum()
            assert (above - values.sum()) / step == pytest.approx(gradient[kind][k], abs=1e-6)


@both_roots
def test_max_marginals_of_siblings(single_root):
    n = 4
    rng = np.random.default_rng(6)
    mask = rng.random((1, n + 1, n + 1)) < 0.8
    mask[:, np.arange(1, n + 1), np.arange(n)] = True
    parts = Parts.from_dense(rng.normal(size=mask.shape), mask=mask)
    parts = parts.with_scores(sibling=rng.standard_normal(parts.part_offsets("sibling")[-1], np.float32))
    arcs, pairs = np.full(len(parts.head), -np.inf), np.full(len(parts.sibling), -np.inf)
    for tree in trees(n, single_root, projective=True):
        heads = np.array([tree])
        (score,) = parts.score(heads)
        active = parts.active(heads)
        if score > -np.inf:
            arcs[active["arc"]] = np.maximum(arcs[active["arc"]], score)
            pairs[active["sibling"]] = np.maximum(pairs[active["sibling"]], score)
    got = sibling_max_marginals(parts, single_root)
    np.testing.assert_allclose(got[0], arcs)
    np.testing.assert_allclose(got[1], pairs)
    counted, sentence = sibling_indices(parts)
    assert counted.sum() == len(sentence) == sum(parts.layout.rank)  # START or an inner sibling, for each arc
    assert np.isfinite(pairs[counted]).any()
    (value,), _ = sibling_thresholds(parts, 0.3, single_root)
    assert value == pytest.approx(0.3 * arcs.max() + 0.7 * pairs[counted & np.isfinite(pairs)].mean())


@both_roots
@pytest.mark.parametrize("alpha", [0.0, 0.4, 1.0])
def test_gradient_of_the_threshold_over_siblings(single_root, alpha):
    rng = np.random.default_rng(7)
    mask = rng.random((3, 9, 9)) < 0.6
    mask[:, np.arange(1, 9), np.arange(8)] = True
    parts = Parts.from_dense(rng.normal(size=(3, 9, 9)), [8, 1, 5], mask=mask)
    parts = parts.with_scores(sibling=rng.standard_normal(parts.part_offsets("sibling")[-1], np.float32))
    values, gradient = sibling_thresholds(parts, alpha, single_root)
    assert gradient["arc"] @ parts.arc_score + gradient["sibling"] @ parts.sibling == pytest.approx(values.sum())
    for name, kind in (("arc_score", "arc"), ("sibling", "sibling")):
        for k in range(0, len(getattr(parts, name)), 7):
            changed = getattr(parts, name).copy()
            step = np.float32(2.0**-10)
            changed[k] += step
            above = sibling_thresholds(parts.with_scores(**{name: changed}), alpha, single_root)[0].sum()
            assert (above - values.sum()) / step == pytest.approx(gradient[kind][k], abs=1e-6)


@both_roots
@pytest.mark.parametrize("alpha", [0.0, 0.4, 1.0])
def test_gradient_of_the_threshold_of_the_vine(single_root, alpha):
    rng = np.random.default_rng(5)
    vine = random_vine(np.array([9, 1, 6]), 2, rng)
    values, gradient = vine_thresholds(vine, alpha, single_root)
    best, marginals = vine_max_marginals(vine, single_root)
    finite = [np.isfinite(array) for array in marginals]
    total = sum((g[on] * score[on].astype(np.float64)).sum() for g, score, on in zip(gradient, vine.scores, finite))
    assert total == pytest.approx(values.sum())
    if alpha == 1:
        np.testing.assert_allclose(values, best)
    for name, got in gradient._asdict().items():
        for index in np.argwhere(np.isfinite(getattr(vine, name)))[::5]:
            scores = {key: score.copy() for key, score in vine.scores._asdict().items()}
            step = np.float32(2.0**-10)
            scores[name][tuple(index)] += step
            above = vine_thresholds(VineScores(vine.lengths, **scores), alpha, single_root)[0].sum()
            assert (above - values.sum()) / step == pytest.approx(got[tuple(index)], abs=1e-6)
