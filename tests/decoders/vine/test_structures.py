"""Vine parsing against enumeration of the structures that it is said to have, and against trees."""

from functools import cache
from itertools import chain, combinations, product

import numpy as np
import pytest
from brute_force import Tree, reaches_root, trees
from hypothesis import given, settings
from hypothesis import strategies as st

from arbora.decoders import Parts
from arbora.decoders.projective.decoder import Projective
from arbora.decoders.projective.marginals import log_marginals, max_marginals
from arbora.decoders.vine.structures import (
    Indices,
    VineScores,
    existing,
    image,
    slot,
    vine_log_marginals,
    vine_max_marginals,
)

Structure = tuple[Tree, frozenset[tuple[int, int]]]  # heads, and outer modifiers as (head, side)
OUTER_LEFT, OUTER_RIGHT = -2, -3  # heads of words that have an outer one

both_roots = pytest.mark.parametrize("single_root", [False, True], ids=["several roots", "single root"])


@cache
def structures(n: int, b: int, single_root: bool) -> list[Structure]:
    """All structures of n words in a band b, by what they are, not by how they are built.

    Each word has one close head or one outer direction. Close arcs make no cycle, and a word below one descends from
    its head by close arcs. A word that is below no arc may take outer modifiers on a side where it has no close head.
    With a single root, the root has one close modifier, or outer ones.
    """
    found: list[Structure] = []
    choices = []
    for m in range(1, n + 1):
        close = [h for h in range(max(0, m - b), min(n, m + b) + 1) if h != m]
        choices.append(close + [OUTER_LEFT] * (m > b) + [OUTER_RIGHT] * (m + b < n))
    for choice in product(*choices):
        heads = (-1, *choice)
        if not reaches_root(tuple(max(h, 0) for h in heads)):
            continue
        covers = [(h, x) for m, h in enumerate(heads) if m > 0 and h >= 0 for x in range(min(h, m) + 1, max(h, m))]
        if not all(descends(x, h, heads) for h, x in covers):
            continue
        covered = {x for _, x in covers}
        optional = []
        for x in set(range(n + 1)) - covered:
            if x > b + 1 and not 0 <= heads[x] < x:
                optional.append((x, 0))
            if x + b < n and not heads[x] > x:
                optional.append((x, 1))
        subsets = chain.from_iterable(combinations(optional, size) for size in range(len(optional) + 1))
        rooted = (some for some in subsets if not single_root or heads.count(0) + ((0, 1) in some) == 1)
        found += [(heads, frozenset(some)) for some in rooted]
    return found


def descends(x: int, h: int, heads: Tree) -> bool:
    while x > 0 and x != h:
        x = heads[x]
    return x == h


def tree_image(heads: Tree, b: int) -> Structure:
    """Return the structure of a tree in a vine with this band."""
    near = [h if abs(h - m) <= b else OUTER_LEFT if h < m else OUTER_RIGHT for m, h in enumerate(heads) if m > 0]
    return (-1, *near), frozenset((h, int(h < m)) for m, h in enumerate(heads) if m > 0 and abs(h - m) > b)


def fires(structure: Structure, b: int) -> Indices:
    """Arcs of a structure of a single sentence."""
    heads, modifiers = structure
    n = len(heads) - 1
    found = Indices(*(np.zeros(shape, dtype=bool) for shape in ((n, 2 * b), (n, 2), (n + 1, 2))))
    for m, h in enumerate(heads):
        if m > 0 and h >= 0:
            found.close[m - 1, slot(h - m, b)] = True
        elif m > 0:
            found.outer_head[m - 1, int(h == OUTER_RIGHT)] = True
    for x, side in modifiers:
        found.outer_modifier[x, side] = True
    return found


def flat(indices: Indices) -> np.ndarray:
    return np.concatenate([array.ravel() for array in indices])


@cache
def fired(n: int, b: int, single_root: bool) -> np.ndarray:
    """(structures, arcs) which arcs each structure has."""
    return np.array([flat(fires(structure, b)) for structure in structures(n, b, single_root)])


def draw(lengths: list[int], b: int, rng: np.random.Generator, density: float = 1.0, scale: float = 1.0) -> VineScores:
    """Gaussian scores, some of which are forbidden."""
    words, nodes = sum(lengths), sum(lengths) + len(lengths)
    scores = [scale * rng.normal(size=shape) for shape in ((words, 2 * b), (words, 2), (nodes, 2))]
    return VineScores(np.array(lengths), *(np.where(rng.random(s.shape) < density, s, -np.inf) for s in scores))


@both_roots
@pytest.mark.parametrize("b", [1, 2, 3])
@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 4),
    density=st.sampled_from([0.6, 0.9, 1.0, 1.0]),
    scale=st.sampled_from([1.0, 1.0, 10.0, 0.0]),
)
def test_equals_enumeration(single_root, b, seed, n, density, scale):
    vine = draw([n], b, np.random.default_rng(seed), density, scale)
    check_against_enumeration(vine, n, b, single_root)


def check_against_enumeration(vine: VineScores, n: int, b: int, single_root: bool) -> None:
    uses = fired(n, b, single_root)
    total = np.where(uses, flat(vine.scores).astype(np.float64), 0).sum(1)
    best = total.max()
    if best == -np.inf:
        for search in (vine_max_marginals, vine_log_marginals):
            with pytest.raises(ValueError, match="sentence 0: no vine structure"):
                search(vine, single_root)
        top, marginals = vine_max_marginals(vine, single_root, required=False)
        assert top[0] == flat(marginals).max() == -np.inf
        return
    top, marginals = vine_max_marginals(vine, single_root)
    assert top[0] == pytest.approx(best, rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(flat(marginals), np.where(uses, total[:, None], -np.inf).max(0), rtol=1e-10, atol=1e-12)
    log_partition, probabilities = vine_log_marginals(vine, single_root)
    sum_total = np.log(np.exp(total - best).sum()) + best
    assert log_partition[0] == pytest.approx(sum_total, rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(flat(probabilities), uses.T @ np.exp(total - sum_total), atol=1e-10)


@both_roots
@pytest.mark.parametrize("b", [2, 3])
def test_five_words(single_root, b):
    for seed in range(3):
        vine = draw([5], b, np.random.default_rng(seed), density=1.0 if seed else 0.9)
        check_against_enumeration(vine, 5, b, single_root)


@both_roots
@pytest.mark.parametrize("b", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_one_derivation_a_structure_and_trees_among_them(single_root, b, n):
    zeros = VineScores(np.array([n]), np.zeros((n, 2 * b)), np.zeros((n, 2)), np.zeros((n + 1, 2)))
    every = set(structures(n, b, single_root))
    assert np.exp(vine_log_marginals(zeros, single_root)[0][0]) == pytest.approx(len(every), rel=1e-10)
    for tree in trees(n, single_root, projective=True):
        assert tree_image(tree, b) in every
        np.testing.assert_array_equal(flat(image(np.array([tree]), [n], b)), flat(fires(tree_image(tree, b), b)))


@both_roots
def test_wide_band_is_eisner(single_root):
    rng = np.random.default_rng(1)
    n, b, batch = 9, 11, 12
    parts = Parts.from_dense(rng.normal(size=(batch, n + 1, n + 1)))
    sentence = np.repeat(np.arange(batch), np.diff(parts.sentence_offsets))
    place = (sentence * n + parts.modifier - 1, slot(parts.head - parts.modifier, b))
    close = np.full((batch * n, 2 * b), 5.0)
    close[place] = parts.arc_score
    vine = VineScores(np.full(batch, n), close, np.ones((batch * n, 2)), np.ones((batch * (n + 1), 2)))
    best, marginals = vine_max_marginals(vine, single_root)
    np.testing.assert_allclose(best, Projective(single_root)(parts).score)
    np.testing.assert_allclose(marginals.close[place], max_marginals(parts, single_root))
    assert (marginals.outer_head == -np.inf).all()
    assert (marginals.outer_modifier == -np.inf).all()
    log_partition, probabilities = vine_log_marginals(vine, single_root)
    expected = log_marginals(parts, single_root)
    np.testing.assert_allclose(log_partition, expected[0])
    np.testing.assert_allclose(probabilities.close[place], expected[1], atol=1e-10)


@both_roots
def test_trees_score_no_more_than_the_best(single_root):
    """If there are too many structures to list, images of trees score as structures do."""
    rng = np.random.default_rng(2)
    batch, n, b = 30, 40, 4
    parts = Parts.from_dense(rng.normal(size=(batch, n + 1, n + 1)))
    heads = Projective(single_root)(parts).heads
    vine = draw([n] * batch, b, rng)
    best, marginals = vine_max_marginals(vine, single_root)
    inside = image(heads, vine.lengths, b)
    total = np.zeros(batch)
    for score, marginal, on in zip(vine.scores, marginals, inside):
        sentence = np.repeat(np.arange(batch), len(score) // batch)
        total += np.bincount(sentence, np.where(on, score, 0).sum(1), minlength=batch)
        assert (marginal[on] > -np.inf).all()
    assert (total <= best + 1e-9).all()
    for marginal, on in zip(marginals, inside):
        sentence = np.repeat(np.arange(batch), len(marginal) // batch)[:, None]
        assert (np.where(on, marginal - total[sentence], 0) >= -1e-9).all()


@both_roots
def test_arcs_of_the_best_structure_have_its_score(single_root):
    rng = np.random.default_rng(3)
    lengths = [1, 2, 7, 30, 12]
    best, marginals = vine_max_marginals(draw(lengths, 3, rng), single_root)
    expected = np.repeat(best, lengths)[:, None]
    heads = np.concatenate([marginals.close, marginals.outer_head], 1)
    assert (np.isclose(heads, expected, rtol=1e-12).sum(1) == 1).all()
    assert (heads <= expected + 1e-9).all()
    assert (marginals.outer_modifier <= np.repeat(best, np.add(lengths, 1))[:, None] + 1e-9).all()


def test_gradient_of_the_log_partition():
    rng = np.random.default_rng(4)
    vine = draw([8, 3], 2, rng)
    _, probabilities = vine_log_marginals(vine)
    step = np.float32(2.0**-8)
    for name, index in (("close", (3, 1)), ("close", (5, 3)), ("outer_head", (6, 0)), ("outer_modifier", (0, 1))):
        ways = []
        for sign in (1, -1):
            scores = {key: score.copy() for key, score in vine.scores._asdict().items()}
            scores[name][index] += sign * step
            ways.append(vine_log_marginals(VineScores(vine.lengths, **scores))[0].sum())
        assert (ways[0] - ways[1]) / (2 * step) == pytest.approx(getattr(probabilities, name)[index], abs=1e-4)


def test_which_arcs_exist():
    there = existing([1, 5], 2)
    assert there.close.astype(int).tolist() == [
        [0, 1, 0, 0],
        [0, 1, 1, 1],
        [1, 1, 1, 1],
        [1, 1, 1, 1],
        [1, 1, 1, 0],
        [1, 1, 0, 0],
    ]
    assert there.outer_head.astype(int).tolist() == [[0, 0], [0, 1], [0, 1], [1, 0], [1, 0], [1, 0]]
    modifiers = [[0, 0], [0, 0], [0, 1], [0, 1], [0, 1], [0, 0], [1, 0], [1, 0]]
    assert there.outer_modifier.astype(int).tolist() == modifiers


def test_arcs_that_do_not_exist_are_not_read():
    rng = np.random.default_rng(5)
    vine = draw([1, 6], 3, rng)
    scores = [np.where(there, score, np.nan) for there, score in zip(existing([1, 6], 3), vine.scores)]
    for got, expected in zip(vine_max_marginals(VineScores(vine.lengths, *scores))[1], vine_max_marginals(vine)[1]):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_refuses_scores(wrong):
    close = np.zeros((3, 4))
    close[1, 1] = wrong
    with pytest.raises(ValueError, match="close must be finite"):
        VineScores(np.array([3]), close, np.zeros((3, 2)), np.zeros((4, 2)))
    with pytest.raises(ValueError, match=r"outer_modifier must be \(4, 2\), got \(3, 2\)"):
        VineScores(np.array([3]), np.zeros((3, 4)), np.zeros((3, 2)), np.zeros((3, 2)))


def test_threads_and_composition_of_the_batch_do_not_matter(same_for_any_threads):
    rng = np.random.default_rng(6)
    lengths = rng.integers(1, 30, size=80).tolist()
    vine = draw(lengths, 3, rng)

    def several():
        best, marginals = vine_max_marginals(vine)
        log_partition, probabilities = vine_log_marginals(vine)
        return best, *marginals, log_partition, *probabilities

    together = same_for_any_threads(several)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    for s in (0, 17, 79):
        words = slice(offsets[s], offsets[s + 1])
        nodes = slice(offsets[s] + s, offsets[s + 1] + s + 1)
        alone = VineScores(
            vine.lengths[s : s + 1], vine.close[words], vine.outer_head[words], vine.outer_modifier[nodes]
        )
        best, marginals = vine_max_marginals(alone)
        assert best[0] == together[0][s]
        np.testing.assert_array_equal(marginals.close, together[1][words])
        np.testing.assert_array_equal(marginals.outer_modifier, together[3][nodes])


def test_a_sentence_without_a_structure_beside_others():
    rng = np.random.default_rng(8)
    vine = draw([6, 4, 9], 2, rng)
    close, outer = vine.close.copy(), vine.outer_head.copy()
    close[7], outer[7] = -np.inf, -np.inf  # the second word of the second sentence
    some = VineScores(vine.lengths, close, outer, vine.outer_modifier)
    best, marginals = vine_max_marginals(some, required=False)
    expected, others = vine_max_marginals(vine)
    assert best.tolist() == [expected[0], -np.inf, expected[2]]
    for got, whole, first, end in zip(marginals, others, (6, 6, 7), (10, 10, 12)):
        assert (got[first:end] == -np.inf).all()
        np.testing.assert_array_equal(got[:first], whole[:first])
        np.testing.assert_array_equal(got[end:], whole[end:])


def test_no_sentences():
    vine = draw([], 2, np.random.default_rng(7))
    assert len(vine_max_marginals(vine)[0]) == len(vine_log_marginals(vine)[0]) == 0
