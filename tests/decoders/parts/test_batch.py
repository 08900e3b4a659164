"""Parts against plain definitions."""

import re
from dataclasses import replace

import numpy as np
import pytest
from brute_force import CONJUNCTION, FEATURES, PARTS, dense_shape, trees

from arbora.decoders import Parts

LENGTHS = [3, 1, 4, 2]


@pytest.fixture
def arc() -> np.ndarray:
    """(4, 5, 5) scores with some arcs left out; what must never be read is NaN."""
    rng = np.random.default_rng(0)
    arc = rng.normal(size=(4, 5, 5)).astype(np.float32)
    arc[rng.random(arc.shape) < 0.3] = -np.inf
    arc[:, 0] = np.nan
    for b, n in enumerate(LENGTHS):
        np.fill_diagonal(arc[b], np.nan)
        arc[b, n + 1 :] = arc[b, :, n + 1 :] = np.nan
    return arc


def listed(arc: np.ndarray, lengths: list[int]) -> list[tuple[int, int, int]]:
    """Candidate arcs as (sentence, modifier, head), in order."""
    return [
        (b, m, h)
        for b, n in enumerate(lengths)
        for m in range(1, n + 1)
        for h in range(n + 1)
        if h != m and arc[b, m, h] != -np.inf
    ]


def unpacked(parts: Parts) -> list[tuple[int, int, int]]:
    sentence = np.repeat(np.arange(len(parts.lengths)), np.diff(parts.sentence_offsets))
    return list(zip(sentence.tolist(), parts.modifier.tolist(), parts.head.tolist()))


def test_from_dense(arc):
    parts = Parts.from_dense(arc, LENGTHS)
    arcs = listed(arc, LENGTHS)
    assert unpacked(parts) == arcs
    assert parts.arc_score.tolist() == [arc[a] for a in arcs]
    assert parts.lengths.tolist() == LENGTHS
    for b, n in enumerate(LENGTHS):
        for m in range(1, n + 1):
            w = parts.word_offsets[b] + m - 1
            here = range(parts.modifier_offsets[w], parts.modifier_offsets[w + 1])
            assert [arcs[k] for k in here] == [a for a in arcs if a[:2] == (b, m)]
    dtypes = [parts.lengths.dtype, parts.head.dtype, parts.modifier.dtype, parts.arc_score.dtype]
    assert dtypes == [np.int32, np.int32, np.int32, np.float32]
    assert parts.sentence_offsets.dtype == parts.modifier_offsets.dtype == np.int64


def test_complete_beside_pruned():
    lengths = [20, 40, 33]
    arc = np.random.default_rng(3).normal(size=(3, 41, 41)).astype(np.float32)
    arc[1, 5, 3:30] = arc[1, 6, 40] = -np.inf
    arc[:, 0] = arc[:, np.arange(41), np.arange(41)] = np.nan
    for b, n in enumerate(lengths):
        arc[b, n + 1 :] = arc[b, :, n + 1 :] = np.nan
    for kept in ([0, 1, 2], [0, 2]):
        parts = Parts.from_dense(arc[kept], [lengths[b] for b in kept])
        arcs = listed(arc[kept], [lengths[b] for b in kept])
        assert unpacked(parts) == arcs
        assert parts.arc_score.tolist() == [arc[kept][a] for a in arcs]


def test_matrices_of_several_sizes(arc):
    parts = Parts.from_dense([arc[b, : n + 1, : n + 1] for b, n in enumerate(LENGTHS)])
    assert unpacked(parts) == listed(arc, LENGTHS)
    assert parts.lengths.tolist() == LENGTHS


def test_one_matrix(arc):
    assert unpacked(Parts.from_dense(arc[2])) == listed(arc[2:3], LENGTHS[2:3])
    assert unpacked(Parts.from_dense([arc[2]])) == listed(arc[2:3], LENGTHS[2:3])


def test_mask(arc):
    mask = np.random.default_rng(1).random(arc.shape) < 0.5
    assert unpacked(Parts.from_dense(arc, LENGTHS, mask)) == listed(np.where(mask, arc, -np.inf), LENGTHS)


def test_masked_scores_are_not_read():
    arc = np.zeros((3, 3))
    arc[1, 2] = np.nan
    assert len(Parts.from_dense(arc, mask=np.isfinite(arc)).head) == 3


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("pruned", [False, True])
def test_refuses_nan_and_infinity(value, pruned):
    arc = np.zeros((3, 4, 4))
    arc[1, 2, 3] = value
    if pruned:
        arc[:, 1, 2] = arc[:, 2, 0] = -np.inf
    with pytest.raises(ValueError, match=f"sentence 1: the arc from head 3 to modifier 2 scores {value}"):
        Parts.from_dense(arc)


@pytest.mark.parametrize(("m", "h"), [(1, 0), (1, 2), (20, 19), (20, 21), (40, 0), (40, 39)])
def test_finds_nan_anywhere_in_a_row(m, h):
    arc = np.zeros((41, 41))
    arc[m, h] = np.nan
    with pytest.raises(ValueError, match=f"sentence 0: the arc from head {h} to modifier {m} scores nan"):
        Parts.from_dense(arc)


def test_refuses_wrong_shapes():
    with pytest.raises(ValueError, match=r"must be square, got \(4, 5\)"):
        Parts.from_dense(np.zeros((4, 5)))
    with pytest.raises(ValueError, match=r"must be square, got \(2, 3\)"):
        Parts.from_dense([np.zeros((3, 3)), np.zeros((2, 3))])
    with pytest.raises(ValueError, match="one entry for each of 2 sentences"):
        Parts.from_dense(np.zeros((2, 3, 3)), [2])
    with pytest.raises(ValueError, match="sentence 1: 3 words and the root do not fit a matrix of 3 x 3"):
        Parts.from_dense(np.zeros((2, 3, 3)), [2, 3])
    with pytest.raises(ValueError, match="sentence 0: 0 words"):
        Parts.from_dense(np.zeros((1, 1)))
    with pytest.raises(ValueError, match="mask must have the shape of arc"):
        Parts.from_dense(np.zeros((2, 3, 3)), mask=np.ones((3, 3), dtype=bool))
    parts = Parts.from_dense(np.zeros((2, 3, 3)))
    with pytest.raises(ValueError, match=r"heads must be \(2, 3\), got \(1, 3\)"):
        parts.score([[-1, 0, 1]])


def test_scores_can_be_replaced(arc):
    """As a loss does that adds its cost: other dtypes are converted, other lengths refused."""
    parts = Parts.from_dense(arc, LENGTHS)
    doubled = replace(parts, arc_score=2.0 * parts.arc_score.astype(np.float64))
    assert doubled.arc_score.dtype == np.float32
    np.testing.assert_array_equal(doubled.arc_score, 2 * parts.arc_score)
    with pytest.raises(ValueError, match="arc_score must have one score for each of"):
        replace(parts, arc_score=parts.arc_score[:-1])
    with pytest.raises(ValueError, match="must describe the same arcs"):
        replace(parts, lengths=parts.lengths[::-1])


def test_score_and_active(arc):
    parts = Parts.from_dense(arc, LENGTHS)
    arcs = listed(arc, LENGTHS)
    rng = np.random.default_rng(2)
    finite = 0
    for _ in range(200):
        heads = np.full((4, 6), -1)
        for b, n in enumerate(LENGTHS):
            tree = trees(n)[rng.integers(len(trees(n)))]
            heads[b, : n + 1] = tree
        used = {(b, m, heads[b, m]) for b, n in enumerate(LENGTHS) for m in range(1, n + 1)}
        expected = [sum(float(arc[a]) for a in sorted(used) if a[0] == b) for b in range(4)]
        assert parts.score(heads).tolist() == expected
        assert parts.active(heads)["arc"].tolist() == [k for k, a in enumerate(arcs) if a in used]
        finite += np.isfinite(expected).sum()
    assert 0 < finite < 800


def test_score_adds_up_in_float64():
    arc = np.full((3, 3), 1.0, dtype=np.float32)
    arc[1, 0] = 2.0**30
    assert Parts.from_dense(arc).score([[-1, 0, 1]])[0] == 2.0**30 + 1


def test_score_of_no_tree():
    """Heads out of range are arcs that do not exist, whether rows are full or pruned."""
    arc = np.zeros((2, 4, 4))
    arc[1, 1:, 3] = -np.inf
    assert Parts.from_dense(arc).score([[-1, 4, 0, 0], [-1, -1, 0, 0]]).tolist() == [-np.inf, -np.inf]
    assert Parts.from_dense(arc).score([[-1, 0, 2, 0], [-1, 3, 0, 0]]).tolist() == [-np.inf, -np.inf]


def test_no_candidates_at_all():
    parts = Parts.from_dense(np.full((2, 3, 3), -np.inf))
    assert parts.score([[-1, 0, 0], [-1, 2, 0]]).tolist() == [-np.inf, -np.inf]
    assert len(parts.active([[-1, 0, 0], [-1, 2, 0]])["arc"]) == 0


@pytest.mark.parametrize("sentences", [[2, 0], [1, 1, 3], [], [False, True, True, False]])
def test_subset(arc, sentences):
    part = Parts.from_dense(arc, LENGTHS).subset(np.array(sentences, dtype=None if sentences else int))
    numbers = np.arange(4)[sentences] if sentences else []
    expected = Parts.from_dense(arc[numbers].reshape(-1, 5, 5), [LENGTHS[b] for b in numbers])
    for field in ("lengths", "head", "modifier", "arc_score", "sentence_offsets", "modifier_offsets"):
        np.testing.assert_array_equal(getattr(part, field), getattr(expected, field))
        assert getattr(part, field).dtype == getattr(expected, field).dtype


@pytest.mark.parametrize(
    ("head", "modifier_offsets"),
    [
        ([0, 2, 0, 3], [0, 2, 4]),  # beyond the last word
        ([0, 2, -1, 1], [0, 2, 4]),
        ([0, 1, 0, 1], [0, 2, 4]),  # word 1 under itself
        ([2, 0, 0, 1], [0, 2, 4]),  # not ascending
        ([0, 0, 0, 1], [0, 2, 4]),  # twice the same
        ([0, 2, 0, 1], [0, 6, 4]),  # offsets that go back
    ],
)
def test_heads_that_kernels_could_not_read_are_refused(head, modifier_offsets):
    with pytest.raises(ValueError, match="must be sorted, lie in 0..n"):
        Parts([2], head, np.zeros(4), [0, 4], modifier_offsets)
    assert Parts([2], [0, 2, 0, 1], np.zeros(4), [0, 4], [0, 2, 4]).modifier.tolist() == [1, 1, 2, 2]


# Higher-order parts and features: what they are is tested in test_layout and test_features.

KINDS = (*PARTS, *FEATURES)
SHAPES = {kind: (4, *dense_shape(kind, 5)) for kind in KINDS}
CONJUNCTIONS = np.full((4, 5), CONJUNCTION)
"""Tags with which all kinds have parts."""

every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
def test_higher_order_from_dense(arc, kind):
    dense = np.random.default_rng(5).normal(size=SHAPES[kind])
    parts = Parts.from_dense(arc, LENGTHS, tags=CONJUNCTIONS, **{kind: dense})
    assert parts.kinds == (kind,)
    score = getattr(parts, kind)
    assert score.dtype == np.float32
    offsets, words = parts.part_offsets(kind), parts.words(kind)
    assert len(score) == len(words) == offsets[-1] > 0
    for b, n in enumerate(LENGTHS):
        for e in range(offsets[b], offsets[b + 1]):
            assert words[e].max() <= n or kind in FEATURES
            assert score[e] == np.float32(dense[(b, *words[e])])
    padded = np.pad(dense, [(0, 0), *[(0, 2 * (size in (5, 6))) for size in dense.shape[1:]]], constant_values=np.nan)
    other = Parts.from_dense(arc, LENGTHS, tags=CONJUNCTIONS, **{kind: padded})
    np.testing.assert_array_equal(getattr(other, kind), score)
    alone = Parts.from_dense(arc[2], tags=CONJUNCTIONS[2], **{kind: dense[2]})
    np.testing.assert_array_equal(getattr(alone, kind), score[offsets[2] : offsets[3]])


def test_higher_order_of_one_word():
    """The arc of the root, and the sides of both that are empty or have that one modifier."""
    parts = Parts.from_dense(np.zeros((2, 2)), tags=[0, CONJUNCTION])
    assert {kind: parts.words(kind).tolist() for kind in KINDS} == {
        "grandparent": [],
        "sibling": [[0, 0, 1], [0, 0, 0], [0, 1, 0], [1, 1, 1], [1, 1, 1]],
        "any_sibling": [],
        "head_bigram": [],
        "grand_sibling": [[0, 1, 1, 1], [0, 1, 1, 1]],
        "tri_sibling": [[0, 0, 1, 0]],
        "grand_grandparent": [],
        "inner_sibling_grandchild": [],
        "outer_sibling_grandchild": [],
        "valency": [[1, left, right] for left in range(6) for right in range(6)],
        "span": [[1, length, tail] for length in range(5) for tail in range(3)],
        "neighbours": [[1, 0, left, right] for left in range(20) for right in range(20)],
        "crossing": [[1, 0, number] for number in range(7)],
        "right_branching": [[0], [1]],
        "coordination": [[1, x, y] for x in range(2) for y in range(2)],
        "conjunct": [[1, x, y] for x in range(2) for y in range(2)],
    }
    scored = parts.with_scores(sibling=[1, 2, 4, 8, 16], tri_sibling=[32], grand_sibling=[64, 128], any_sibling=[])
    assert scored.score([[-1, 0]]).tolist() == [1 + 4 + 8 + 16 + 32 + 64 + 128]
    assert scored.active([[-1, 0]])["sibling"].tolist() == [0, 2, 3, 4]


def test_higher_order_score_adds_up_in_float64():
    grandparent = np.zeros((4, 4, 4), dtype=np.float32)
    grandparent[2, 1, 0], grandparent[3, 2, 1] = 2.0**30, 1.0
    assert Parts.from_dense(np.zeros((4, 4)), grandparent=grandparent).score([[-1, 0, 1, 2]])[0] == 2.0**30 + 1


@every_kind
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e39, -1e39])
@pytest.mark.parametrize("sentence", [0, 3])
def test_refuses_nan_and_infinity_among_parts(arc, kind, value, sentence):
    parts = Parts.from_dense(np.nan_to_num(arc), LENGTHS, tags=CONJUNCTIONS)
    e = parts.part_offsets(kind)[sentence + 1] - 1
    words = parts.words(kind)[e].tolist()
    message = re.escape(f"sentence {sentence}: the {kind} of words {words} scores {value}")
    score = np.zeros(parts.part_offsets(kind)[-1])
    score[e] = value
    with pytest.raises(ValueError, match=message):
        parts.with_scores(**{kind: score})
    with pytest.raises(ValueError, match=message):
        replace(parts, **{kind: score})
    dense = np.zeros(SHAPES[kind])
    dense[(sentence, *words)] = value
    with pytest.raises(ValueError, match=message):
        Parts.from_dense(np.nan_to_num(arc), LENGTHS, tags=CONJUNCTIONS, **{kind: dense})


@every_kind
def test_refuses_another_number_of_scores(arc, kind):
    parts = Parts.from_dense(arc, LENGTHS, tags=CONJUNCTIONS)
    count = int(parts.part_offsets(kind)[-1])
    for shape in [(count - 1,), (count + 1,), (count, 1), (0,)]:
        message = re.escape(f"{kind} must have one score for each of {count} parts, got shape {shape}")
        with pytest.raises(ValueError, match=message):
            parts.with_scores(**{kind: np.zeros(shape)})
        with pytest.raises(ValueError, match=message):
            replace(parts, **{kind: np.zeros(shape)})
    with pytest.raises(ValueError, match=f"arc_score must have one score for each of {len(parts.head)} parts"):
        parts.with_scores(arc_score=np.zeros(len(parts.head) + 1))


@every_kind
def test_refuses_dense_parts_of_other_shapes(arc, kind):
    shape = SHAPES[kind]
    less = shape[1] - 1
    wrong = [shape[1:], shape[:-1], (*shape, 5), (*shape[:-1], shape[-1] - 1), (4, less, *shape[2:])]
    for other in [*wrong, (3, *shape[1:]), (5, *shape[1:])]:
        with pytest.raises(ValueError, match=re.escape(f"{kind} must be {shape}, got {other}")):
            Parts.from_dense(arc, LENGTHS, **{kind: np.zeros(other)})


def test_refuses_unknown_types(arc):
    with pytest.raises(TypeError, match="no kind of parts is called uncle: choose from grandparent, sibling"):
        Parts.from_dense(arc, LENGTHS, uncle=np.zeros((4, 5, 5, 5)))
    parts = Parts.from_dense(arc, LENGTHS)
    with pytest.raises(
        TypeError, match="no kind of parts is called uncle: choose from arc_score, grandparent, sibling"
    ):
        parts.with_scores(uncle=np.zeros(3))
    for method in (parts.words, parts.part_offsets):
        with pytest.raises(ValueError, match="no kind of parts is called uncle: choose from grandparent, sibling"):
            method("uncle")
    for kind in ("uncle", "valency"):
        with pytest.raises(ValueError, match=f"{kind} cannot be placed in matrices; choose from grandparent, "):
            parts.places(kind, np.zeros(4, dtype=np.int64), 7, 5)  # type: ignore[arg-type]


def test_with_scores_leaves_the_rest(arc):
    parts = Parts.from_dense(arc, LENGTHS, grandparent=np.ones(SHAPES["grandparent"]))
    siblings = np.arange(parts.part_offsets("sibling")[-1])
    other = parts.with_scores(arc_score=2 * parts.arc_score, sibling=siblings)
    assert other.kinds == ("grandparent", "sibling")
    assert parts.kinds == ("grandparent",)
    for scored, arc_score in (parts, parts.arc_score), (other, 2 * parts.arc_score):
        np.testing.assert_array_equal(scored.arc_score, arc_score)
        assert scored.layout.arc_score is scored.arc_score  # what kernels read
        assert scored.layout.grandparent is scored.grandparent
    assert len(parts.layout.sibling) == 0
    np.testing.assert_array_equal(other.layout.sibling, siblings.astype(np.float32), strict=True)
    np.testing.assert_array_equal(other.head, parts.head)


def test_with_scores_of_features_leaves_the_rest(arc):
    parts = Parts.from_dense(arc, LENGTHS, span=np.ones(SHAPES["span"]), sibling=np.ones(SHAPES["sibling"]))
    chains = np.arange(parts.part_offsets("grand_grandparent")[-1])
    other = parts.with_scores(grand_grandparent=chains, sibling=2 * parts.sibling)
    assert other.kinds == ("sibling", "grand_grandparent", "span")
    assert parts.kinds == ("sibling", "span")
    assert len(parts.wide.grand_grandparent) == 0
    assert other.wide.span is parts.wide.span is parts.span  # what kernels read
    np.testing.assert_array_equal(other.wide.grand_grandparent, chains.astype(np.float32), strict=True)
    assert other.with_scores(arc_score=2 * parts.arc_score).wide.grand_grandparent is other.grand_grandparent


def test_replaced_arcs_keep_their_parts(arc):
    """As a loss does that adds its cost to the arcs."""
    parts = Parts.from_dense(arc, LENGTHS, **{kind: np.ones(SHAPES[kind]) for kind in KINDS})
    doubled = replace(parts, arc_score=2 * parts.arc_score)
    assert doubled.kinds == KINDS
    np.testing.assert_array_equal(doubled.layout.arc_score, 2 * parts.arc_score)
    np.testing.assert_array_equal(doubled.layout.tri_sibling, parts.tri_sibling)


def test_only():
    rng = np.random.default_rng(5)
    parts = Parts.from_dense(rng.normal(size=(2, 5, 5)), [4, 3])
    kinds = ("grandparent", "sibling", "grand_grandparent", "valency")
    scores = {kind: rng.standard_normal(parts.part_offsets(kind)[-1], np.float32) for kind in kinds}
    trees_of_both = np.array([[-1, 2, 0, 2, 3], [-1, 0, 1, 1, -1]])
    for warm in (False, True):
        whole = parts.with_scores(**scores)
        if not warm:  # as it is before anything was asked of it
            whole = Parts(
                parts.lengths, parts.head, parts.arc_score, parts.sentence_offsets, parts.modifier_offsets, **scores
            )
        before = whole.score(trees_of_both) if warm else None
        for left in ((), ("sibling",), ("grandparent", "valency", "tri_sibling"), ("grand_grandparent",)):
            some = whole.only(*left)
            there = tuple(kind for kind in kinds if kind in left)
            assert set(some.kinds) == set(there)
            expected = parts.with_scores(**{kind: scores[kind] for kind in there})
            np.testing.assert_array_equal(some.score(trees_of_both), expected.score(trees_of_both))
            for kind in kinds:
                array = getattr(some.layout if kind in some.layout._fields else some.wide, kind)
                assert len(array) == (len(scores[kind]) if kind in there else 0)
        assert set(whole.kinds) == set(kinds)
        if warm:
            np.testing.assert_array_equal(whole.score(trees_of_both), before)


@every_kind
def test_forbidden_parts(arc, kind):
    parts = Parts.from_dense(np.nan_to_num(arc), LENGTHS, tags=CONJUNCTIONS)
    scores = np.zeros(parts.part_offsets(kind)[-1])
    assert parts.with_scores(**{kind: scores}).forbidden == frozenset()
    scores[-1] = -np.inf
    forbidding = parts.with_scores(**{kind: scores})
    assert forbidding.forbidden == {kind}
    assert forbidding.subset([3, 0]).forbidden == {kind}
    assert forbidding.only().forbidden == frozenset()
    assert forbidding.with_scores(**{kind: 0 * parts.words(kind)[:, 0]}).forbidden == frozenset()
    assert replace(parts, **{kind: scores}).forbidden == {kind}
    dense = np.zeros(SHAPES[kind])
    dense[(3, *parts.words(kind)[-1])] = -np.inf
    assert Parts.from_dense(np.nan_to_num(arc), LENGTHS, tags=CONJUNCTIONS, **{kind: dense}).forbidden == {kind}
    with pytest.raises(ValueError, match=f"^sums cannot handle scores of -inf, which {kind} has"):
        forbidding.require_finite("sums")


@every_kind
def test_penalties_outweigh_all_else(kind):
    """Against all trees: one with forbidden parts scores less than any without."""
    rng = np.random.default_rng(len(kind))
    arc, dense = 3 * rng.normal(size=(5, 5)), rng.normal(size=dense_shape(kind, 5))
    parts = Parts.from_dense(arc, tags=np.full(5, CONJUNCTION), **{kind: dense})
    every = np.array(trees(4), dtype=np.int32)
    fires = [set(parts.active(tree[None])[kind].tolist()) for tree in every]
    forbidden = rng.permutation(sorted(set().union(*fires)))[:2]
    scores = getattr(parts, kind).copy()
    scores[forbidden] = -np.inf
    forbidding = parts.with_scores(**{kind: scores})
    finite = forbidding.penalised()
    assert finite.forbidden == frozenset()
    true = np.array([forbidding.score(tree[None])[0] for tree in every])
    found = np.array([finite.score(tree[None])[0] for tree in every])
    assert ((true == -np.inf) == [bool(set(forbidden) & fired) for fired in fires]).all()
    allowed = np.isfinite(true)
    np.testing.assert_array_equal(found[allowed], true[allowed])
    assert np.ptp(true[allowed], axis=0) <= forbidding.spread[0] if allowed.any() else True
    assert found[~allowed].max(initial=-np.inf) < found[allowed].min(initial=np.inf)
    np.testing.assert_array_equal(finite.spread, forbidding.spread)


def test_penalties_that_float32_cannot_hold():
    parts = Parts.from_dense(np.full((3, 3), 1e38) * [[0], [1], [-1]], sibling=np.full((3, 3, 3), 1e38))
    scores = parts.sibling.copy()
    scores[0] = -np.inf
    with pytest.raises(ValueError, match="sentence 0: scores are too large to forbid parts"):
        parts.with_scores(sibling=scores).penalised()


def test_spread_scales_and_knows_no_origin(arc):
    rng = np.random.default_rng(3)
    grandparent = rng.normal(size=SHAPES["grandparent"]).astype(np.float32)
    parts = Parts.from_dense(np.round(arc * 64) / 64, LENGTHS, grandparent=grandparent)
    shifted = parts.with_scores(arc_score=parts.arc_score + np.float32(1024))
    np.testing.assert_array_equal(shifted.spread, parts.spread)
    scaled = parts.with_scores(arc_score=parts.arc_score / 256, grandparent=parts.grandparent / 256)
    np.testing.assert_array_equal(scaled.spread, parts.spread / 256)


def test_masked_entries_are_forbidden():
    rng = np.random.default_rng(0)
    arc, hidden = rng.normal(size=(2, 4, 4)), rng.random((2, 4, 4)) < 0.3
    expected = Parts.from_dense(np.where(hidden, -np.inf, arc))
    assert unpacked(Parts.from_dense(np.ma.masked_array(arc, hidden))) == unpacked(expected)
    several = [np.ma.masked_array(one, where) for one, where in zip(arc, hidden)]
    assert unpacked(Parts.from_dense(several)) == unpacked(expected)
    whole = np.ma.masked_array(rng.integers(0, 9, size=(2, 4, 4)), hidden)
    assert unpacked(Parts.from_dense(whole)) == unpacked(Parts.from_dense(np.where(hidden, -np.inf, whole.data)))
    masked_mask = np.ma.masked_array(np.ones((2, 4, 4), dtype=bool), hidden)
    assert unpacked(Parts.from_dense(arc, mask=masked_mask)) == unpacked(expected)
    grandparent = np.ma.masked_array(np.zeros((2, 4, 4, 4)), rng.random((2, 4, 4, 4)) < 0.3)
    np.testing.assert_array_equal(
        Parts.from_dense(arc, grandparent=grandparent).grandparent,
        Parts.from_dense(arc, grandparent=grandparent.filled(-np.inf)).grandparent,
    )
    with pytest.raises(ValueError, match="must not have masked entries"):
        Parts.from_dense(arc, np.ma.masked_array([3, 3], [True, False]))


@pytest.mark.parametrize("value", [1e39, -1e39, np.float64(-3.5e38)])
def test_refuses_what_float32_cannot_hold(value):
    arc = np.zeros((2, 4, 4))
    arc[1, 2, 3] = value
    with pytest.raises(ValueError, match="^sentence 1: the arc from head 3 to modifier 2 scores .*float32 cannot hold"):
        Parts.from_dense(arc)
    with pytest.raises(ValueError, match="^sentence 1: the arc from head 3 to modifier 2 scores .*float32 cannot hold"):
        Parts.from_dense([np.zeros((2, 2)), arc[1]])
    parts = Parts.from_dense(np.zeros((2, 4, 4)))
    scores = np.zeros(len(parts.head))
    scores[-1] = value
    with pytest.raises(ValueError, match="^sentence 1: the arc from head 2 to modifier 3 scores .*float32 cannot hold"):
        parts.with_scores(arc_score=scores)
    assert len(Parts.from_dense(arc, mask=arc == 0).head) == 17
    arc[1, 2, 3] = 0
    arc[:, 0] = arc[:, [1, 2, 3], [1, 2, 3]] = arc[0, 3] = arc[0, :, 3] = value  # never read
    assert len(Parts.from_dense(arc, [2, 3]).head) == 4 + 9


def test_refuses_what_is_not_an_integer():
    with pytest.raises(ValueError, match="lengths must be integers, got float64"):
        Parts.from_dense(np.zeros((2, 5, 5)), [2.7, 4])
    parts = Parts.from_dense(np.zeros((1, 3, 3)))
    with pytest.raises(ValueError, match="heads must be integers, got float64"):
        parts.score([[-1.0, 0.0, 1.0]])
    with pytest.raises(ValueError, match="lengths must be integers, got bool"):
        replace(parts, lengths=[True])
    with pytest.raises(ValueError, match=f"head must fit int32, got {2**40}"):
        replace(parts, head=np.array([0, 2**40, 0, 1]))


def test_takes_no_sentences():
    parts = Parts.from_dense(np.zeros((2, 3, 3)), sibling=np.zeros((2, 3, 3, 3)))
    for none in ([], np.zeros(2, dtype=bool), np.arange(0)):
        empty = parts.subset(none)
        assert (len(empty.lengths), len(empty.head), len(empty.sibling)) == (0, 0, 0)
        assert empty.score(empty.empty_trees()).shape == (0,)


def test_says_in_one_line_what_it_holds():
    parts = Parts.from_dense(np.zeros((2, 4, 4)), [3, 2], grandparent=np.zeros((2, 4, 4, 4)))
    assert repr(parts) == f"Parts(2 sentences, 5 words, 13 arcs, {len(parts.grandparent)} grandparent)"
    assert repr(parts.only()) == "Parts(2 sentences, 5 words, 13 arcs)"


def test_tags(arc):
    plain = Parts.from_dense(arc, LENGTHS)
    assert not plain.tags.any()
    parts = Parts.from_dense(arc, LENGTHS, tags=np.arange(20).reshape(4, 5) % 18)
    expected = np.concatenate([(5 * b + np.arange(1, n + 1)) % 18 for b, n in enumerate(LENGTHS)])
    np.testing.assert_array_equal(parts.tags, expected)
    np.testing.assert_array_equal(plain.with_tags(expected).tags, expected)
    np.testing.assert_array_equal(parts.subset([2]).tags, parts.tags[parts.word_offsets[2] : parts.word_offsets[3]])
    scored = parts.with_scores(right_branching=np.zeros(parts.part_offsets("right_branching")[-1]))
    with pytest.raises(ValueError, match="tags must be given before tree features are scored: there are right_branch"):
        scored.with_tags(expected)
    for wrong in (expected[1:], np.full_like(expected, 18), np.full_like(expected, -1)):
        with pytest.raises(ValueError, match=r"tags must be one number in 0\.\.17 for each of"):
            plain.with_tags(wrong)
    with pytest.raises(ValueError, match=r"tags must be \(4, 5\), got \(4, 2\)"):
        Parts.from_dense(arc, LENGTHS, tags=np.zeros((4, 2), dtype=int))


def test_a_list_of_arcs_in_any_order_is_the_dense_matrix(arc: np.ndarray) -> None:
    dense = Parts.from_dense(arc, LENGTHS)
    arcs = np.array(listed(arc, LENGTHS))
    shuffled = np.random.default_rng(1).permutation(len(arcs))
    sentence, modifier, head = arcs[shuffled].T
    parts = Parts.from_arcs(LENGTHS, arcs[shuffled], arc[sentence, modifier, head])
    for name in ("lengths", "head", "arc_score", "sentence_offsets", "modifier_offsets", "modifier"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(dense, name))


@pytest.mark.parametrize(
    ("arcs", "message"),
    [
        ([(0, 4, 0)], r"arcs: \[0, 4, 0\] \(sentence, modifier, head\) names a word that does not exist"),
        ([(4, 1, 0)], r"\[4, 1, 0\] .* does not exist"),
        ([(0, 0, 1)], r"\[0, 0, 1\] .* does not exist"),
        ([(0, 1, 1)], "not include the word itself"),
        ([(0, 1, 0), (0, 1, 0)], "the heads of each word must be sorted"),
        ([(0, 1)], r"arcs must be \(A, 3\): sentence, modifier, head"),
    ],
)
def test_arcs_that_are_refused(arcs: list[tuple[int, ...]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Parts.from_arcs(LENGTHS, arcs, np.zeros(len(arcs)))
