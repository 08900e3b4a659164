"""MST and Eisner against enumeration, against each other, and against what must not change them."""

import warnings

import numpy as np
import pytest
from brute_force import best_score, is_projective, is_single_root, reaches_root
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arbora.decoders import MST, Decoder, Eisner, Parts

DECODERS = [MST(single_root=False), MST(), Eisner(single_root=False), Eisner()]
every_decoder = pytest.mark.parametrize("decoder", DECODERS, ids=repr)


def scores(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, width=32)


LAWS = st.sampled_from(
    [
        scores(-8, 8),
        st.integers(-2, 2).map(float),  # ties
        st.just(1.0),
        scores(-(2.0**100), 2.0**100),
        st.sampled_from([-(2.0**127), -1.0, 0.0, 2.0**-100, 1.0, 2.0**127]),
        st.one_of(scores(-4, 4), st.just(-np.inf)),
        st.sampled_from([-np.inf, -np.inf, -np.inf, 0.0, 1.0]),  # mostly infeasible
    ]
)


@st.composite
def matrices(draw, max_n: int = 5) -> np.ndarray:
    """(n+1, n+1) arc scores; what must never be read is NaN."""
    n = draw(st.integers(1, max_n))
    law = draw(LAWS)
    arc = np.array(draw(st.lists(law, min_size=(n + 1) ** 2, max_size=(n + 1) ** 2)), dtype=np.float32)
    arc = arc.reshape(n + 1, n + 1)
    if draw(st.booleans()) and n > 1:  # the best heads of words 1 and 2 make a cycle
        arc[1, 2] = arc[2, 1] = 1.0 + np.nan_to_num(arc, neginf=0).max()
    arc[0] = np.nan
    np.fill_diagonal(arc, np.nan)
    return arc


def gaussian(seed: int, batch: int, n: int, density: float = 1.0) -> np.ndarray:
    """(B, n+1, n+1) random scores, in which the chain 0 -> 1 -> ... -> n is never left out."""
    rng = np.random.default_rng(seed)
    arc = rng.normal(size=(batch, n + 1, n + 1)).astype(np.float32)
    absent = rng.random(arc.shape) > density
    absent[:, np.arange(1, n + 1), np.arange(n)] = False
    arc[absent] = -np.inf
    return arc


def check_tree(heads: np.ndarray, decoder: Decoder) -> None:
    tree = tuple(int(h) for h in heads)
    assert tree[0] == -1
    assert all(0 <= h < len(tree) for h in tree[1:])
    assert reaches_root(tree)
    assert is_single_root(tree) or not decoder.single_root
    assert is_projective(tree) or not isinstance(decoder, Eisner)


@every_decoder
@settings(max_examples=250, suppress_health_check=[HealthCheck.too_slow])
@given(arc=matrices())
def test_equals_enumeration(decoder, arc):
    best = best_score(arc, decoder.single_root, isinstance(decoder, Eisner))
    parts = Parts.from_dense(arc)
    if best == -np.inf:
        with pytest.raises(ValueError, match=r"sentence 0: no .*tree"):
            decoder(parts)
        return
    trees = decoder(parts)
    check_tree(trees.heads[0], decoder)
    magnitude = np.abs(parts.arc_score).max(initial=0)
    assert trees.score[0] == pytest.approx(best, rel=1e-12, abs=1e-12 * float(magnitude))
    assert trees.score[0] == parts.score(trees.heads)[0]
    assert trees.bound[0] == trees.score[0]
    assert trees.certified.all()


@every_decoder
def test_five_words_pruned_at_random(decoder):
    arc = np.random.default_rng(3).normal(size=(150, 6, 6)).astype(np.float32)
    mask = np.random.default_rng(4).random(arc.shape) < 0.6
    feasible = 0
    for matrix, kept in zip(arc, mask):
        best = best_score(np.where(kept, matrix, -np.inf), decoder.single_root, isinstance(decoder, Eisner))
        parts = Parts.from_dense(matrix, mask=kept)
        if best == -np.inf:
            with pytest.raises(ValueError, match=r"sentence 0: no .*tree"):
                decoder(parts)
        else:
            feasible += 1
            trees = decoder(parts)
            assert trees.score[0] == pytest.approx(best)
            assert all(kept[m, h] for m, h in enumerate(trees.heads[0]) if m > 0)
    assert 10 < feasible < 150


@every_decoder
def test_one_word(decoder):
    trees = decoder(Parts.from_dense(np.array([[0, 0], [-2.5, 0]])))
    assert trees.heads.tolist() == [[-1, 0]]
    assert trees.heads.dtype == np.int32
    assert trees.score.tolist() == [-2.5]


@every_decoder
def test_no_sentences(decoder):
    trees = decoder(Parts.from_dense(np.empty((0, 4, 4))))
    assert len(trees.heads) == len(trees.score) == len(trees.certified) == 0


@every_decoder
def test_equal_scores(decoder):
    trees = decoder(Parts.from_dense(np.zeros((2, 31, 31))))
    for heads in trees.heads:
        check_tree(heads, decoder)


def test_ties_take_the_lowest_head():
    assert MST(single_root=False)(Parts.from_dense(np.zeros((5, 5)))).heads.tolist() == [[-1, 0, 0, 0, 0]]


@every_decoder
def test_large_beside_small(decoder):
    """A penalty on the root as large as these scores would drown the small ones."""
    arc = gaussian(5, 40, 5)
    arc[:, :, 0] += 1e6
    best = [best_score(matrix, decoder.single_root, isinstance(decoder, Eisner)) for matrix in arc]
    np.testing.assert_allclose(decoder(Parts.from_dense(arc)).score, best, rtol=1e-14)


@pytest.mark.parametrize("single_root", [False, True])
def test_eisner_beside_mst(single_root):
    arc = np.concatenate([gaussian(6, 20, 40), gaussian(7, 20, 40, density=0.2), gaussian(7, 20, 40)])
    arc[40:] -= 4 * np.abs(np.subtract.outer(np.arange(41), np.arange(41)))  # near heads: often projective
    parts = Parts.from_dense(arc)
    mst, eisner = MST(single_root)(parts), Eisner(single_root)(parts)
    projective = np.array([is_projective(tuple(heads)) for heads in mst.heads])
    assert projective.any()
    assert not projective.all()
    for trees, decoder in (mst, MST(single_root)), (eisner, Eisner(single_root)):
        for heads in trees.heads:
            check_tree(heads, decoder)
    assert (eisner.score <= mst.score + 1e-9).all()
    np.testing.assert_allclose(eisner.score[projective], mst.score[projective], rtol=1e-12)
    assert (eisner.score[~projective] < mst.score[~projective]).all()


@pytest.mark.parametrize("decoder", [MST, Eisner])
@pytest.mark.parametrize("root_bonus", [-3.0, 0.0, 3.0])
def test_single_root_tries_all_roots(decoder, root_bonus):
    n = 30
    arc = np.concatenate([gaussian(8, 10, n), gaussian(9, 10, n, density=0.3)])
    arc[:, :, 0] += root_bonus
    best = np.full(len(arc), -np.inf)
    for root in range(1, n + 1):
        mask = np.ones_like(arc, dtype=bool)
        mask[:, 1:root, 0] = mask[:, root + 1 :, 0] = False
        for b in range(len(arc)):
            try:
                score = decoder(single_root=False)(Parts.from_dense(arc[b], mask=mask[b])).score[0]
            except ValueError:
                continue
            best[b] = max(best[b], score)
    np.testing.assert_allclose(decoder(single_root=True)(Parts.from_dense(arc)).score, best, rtol=1e-12)


@pytest.mark.parametrize("n", [2, 3, 60])
@pytest.mark.parametrize("single_root", [False, True])
def test_nested_cycles(n, single_root):
    """Word m and all words before it, contracted, prefer each other, so that n - 1 cycles are contracted."""
    arc = np.full((n + 1, n + 1), -np.inf, dtype=np.float32)
    for m in range(2, n + 1):
        arc[m, m - 1] = 4.0 * n - m
        arc[m - 1, m] = 2.0 * n - m
    arc[1:, 0] = -3.0 * n * n - np.arange(n)
    trees = MST(single_root)(Parts.from_dense(arc))
    assert trees.heads[0].tolist() == list(range(-1, n))
    assert trees.score[0] == sum(4.0 * n - m for m in range(2, n + 1)) - 3.0 * n * n


@every_decoder
def test_constant_on_arcs_into_one_word(decoder):
    arc = gaussian(10, 20, 20, density=0.5)
    shift = np.zeros((1, 21, 1), dtype=np.float32)
    shift[0, 7] = 16.0
    before, after = decoder(Parts.from_dense(arc)), decoder(Parts.from_dense(arc + shift))
    np.testing.assert_array_equal(before.heads, after.heads)
    np.testing.assert_allclose(after.score, before.score + 16, rtol=1e-6)


@every_decoder
def test_mask_of_ones_is_no_mask(decoder):
    arc = gaussian(11, 10, 20)
    plain, masked = decoder(Parts.from_dense(arc)), decoder(Parts.from_dense(arc, mask=np.ones_like(arc, dtype=bool)))
    np.testing.assert_array_equal(plain.heads, masked.heads)
    np.testing.assert_array_equal(plain.score, masked.score)


@every_decoder
def test_composition_of_the_batch_does_not_matter(decoder):
    lengths = np.random.default_rng(12).integers(1, 31, size=40)
    arc = gaussian(13, 40, 30)
    together = decoder(Parts.from_dense(arc, lengths))
    for b, n in enumerate(lengths):
        alone = decoder(Parts.from_dense(arc[b, : n + 1, : n + 1]))
        np.testing.assert_array_equal(alone.heads[0], together.heads[b, : n + 1])
        assert (together.heads[b, n + 1 :] == -1).all()
        assert alone.score[0] == together.score[b]


@every_decoder
def test_number_of_threads_does_not_matter(decoder, same_for_any_threads):
    arc = gaussian(14, 1000, 60, density=0.7)
    lengths = np.random.default_rng(15).integers(1, 61, size=1000)
    parts = same_for_any_threads(lambda: Parts.from_dense(arc, lengths))
    same_for_any_threads(lambda: decoder(parts))


@every_decoder
def test_scores_are_left_alone(decoder):
    parts = Parts.from_dense(gaussian(16, 5, 12))
    before = parts.arc_score.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decoder(parts)
    np.testing.assert_array_equal(parts.arc_score, before)


@every_decoder
def test_names_the_word_without_a_head(decoder):
    arc = gaussian(17, 5, 6)
    arc[3, 4] = -np.inf
    with pytest.raises(ValueError, match="sentence 3: no tree: word 4 has no candidate head"):
        decoder(Parts.from_dense(arc))


def test_names_an_unreachable_word():
    arc = gaussian(18, 2, 4)
    arc[1, 2:4, [0, 1, 4]] = -np.inf  # words 2 and 3 have only each other
    with pytest.raises(ValueError, match=r"sentence 1: no tree: no candidate arcs lead from the root to word [23]"):
        MST()(Parts.from_dense(arc))
    with pytest.raises(ValueError, match="sentence 1: no projective tree"):
        Eisner(single_root=False)(Parts.from_dense(arc))


@pytest.mark.parametrize("decoder", [MST, Eisner])
def test_no_single_root(decoder):
    arc = np.full((3, 3), -np.inf)
    arc[1:, 0] = 1.0
    parts = Parts.from_dense([np.zeros((3, 3)), arc])
    assert decoder(single_root=False)(parts).heads[1].tolist() == [-1, 0, 0]
    with pytest.raises(ValueError, match=r"sentence 1: no (projective )?tree with a single root"):
        decoder(single_root=True)(parts)


def test_no_projective_tree():
    heads = [0, 3, 0, 2]  # of words 1..3, word 2 at the root, below the arc from 3 to 1
    arc = np.full((4, 4), -np.inf)
    for m in range(1, 4):
        arc[m, heads[m]] = 1.0
    assert MST()(Parts.from_dense(arc)).heads[0].tolist() == [-1, 3, 0, 2]
    for single_root in (False, True):
        with pytest.raises(ValueError, match="sentence 0: no projective tree"):
            Eisner(single_root)(Parts.from_dense(arc))
