"""Parts that score -inf, in all decoders, against the list of all trees."""

from collections.abc import Iterator

import brute_force
import numpy as np
import pytest

from arbora.decoders import (
    AD3,
    MST,
    BranchAndBound,
    Decoder,
    Eisner,
    Greedy,
    HillClimbing,
    NoTreeError,
    Parts,
    Projective,
    Subgradient,
    Trees,
    VineCascade,
)
from arbora.decoders.greedy.improvements import improve_in_place
from arbora.decoders.parts.kinds import KINDS
from arbora.decoders.projective.marginals import log_marginals, max_marginals

EXACT = [BranchAndBound(), Projective()]
SEARCHES = [AD3(), Subgradient(max_iterations=50), VineCascade(few=1), Greedy(), HillClimbing()]


def name_of(decoder: Decoder) -> str:
    return type(decoder).__name__


def draw(decoder: Decoder, count: int, share: float) -> Iterator[tuple[Parts, float, str]]:
    """Sentences with parts of one kind or all, a share of them forbidden, and the score of the best tree."""
    kinds = [kind for kind in KINDS if kind in decoder.takes]
    for seed in range(count):
        rng = np.random.default_rng(seed)
        chosen = kinds if seed % 3 == 0 else [kinds[seed % len(kinds)]]
        n = int(rng.integers(1, 5))
        arc = rng.normal(size=(n + 1, n + 1)).astype(np.float32)
        higher = {}
        for kind in chosen:
            scores = rng.normal(size=brute_force.dense_shape(kind, n + 1)).astype(np.float32)
            scores[rng.random(scores.shape) < share / len(chosen)] = -np.inf
            higher[kind] = scores
        parts = Parts.from_dense(arc, **higher)
        best = max(
            parts.score(np.array([tree], dtype=np.int32))[0]
            for tree in brute_force.trees(n, decoder.single_root, decoder.projective)
        )
        yield parts, best, f"seed {seed}"


def assert_tree(trees: Trees, decoder: Decoder) -> None:
    heads = tuple(trees.heads[0].tolist())
    assert brute_force.reaches_root(heads)
    assert brute_force.is_single_root(heads)
    assert brute_force.is_projective(heads) or not decoder.projective


@pytest.mark.parametrize("share", [0.1, 0.3])
@pytest.mark.parametrize("decoder", EXACT, ids=name_of)
def test_exact_decoders_find_the_best_tree_without_them(decoder: Decoder, share: float) -> None:
    possible = 0
    for parts, best, case in draw(decoder, 60, share):
        if best == -np.inf:
            with pytest.raises(NoTreeError, match="^sentence 0: no tree without forbidden parts$"):
                decoder(parts)
            assert decoder(parts, on_error="skip").failures == {0: "no tree without forbidden parts"}
            continue
        trees = decoder(parts)
        assert_tree(trees, decoder)
        assert trees.score[0] == pytest.approx(best, abs=1e-5), case
        assert trees.score[0] == pytest.approx(parts.score(trees.heads)[0]), case
        assert trees.certified[0], case
        possible += 1
    assert possible > 8


@pytest.mark.parametrize("share", [0.1, 0.3])
@pytest.mark.parametrize("decoder", SEARCHES, ids=name_of)
def test_other_decoders_never_hide_them(decoder: Decoder, share: float) -> None:
    found = possible = 0
    for parts, best, case in draw(decoder, 60, share):
        trees = decoder(parts, on_error="skip")
        if trees.failures:
            assert best == -np.inf, case
            continue
        assert_tree(trees, decoder)
        true = parts.score(trees.heads)[0]
        assert trees.score[0] == pytest.approx(true), case
        if trees.certified[0]:
            assert true == pytest.approx(best, abs=1e-5), case
        if trees.bound is not None:
            assert trees.bound[0] >= best - 1e-5, case
        found += true > -np.inf
        possible += best > -np.inf
    assert found >= 0.5 * possible > 4


@pytest.mark.parametrize("decoder", [MST(), Eisner()], ids=name_of)
def test_decoders_of_arcs_do_not_see_them(decoder: Decoder) -> None:
    rng = np.random.default_rng(0)
    arc = rng.normal(size=(5, 5))
    plain = decoder(Parts.from_dense(arc))
    trees = decoder(Parts.from_dense(arc, sibling=np.full((5, 5, 5), -np.inf)))
    np.testing.assert_array_equal(trees.heads, plain.heads)
    assert trees.score[0] == -np.inf
    assert not trees.certified[0]


@pytest.mark.parametrize("decoder", [*EXACT, *SEARCHES], ids=name_of)
def test_other_sentences_of_the_batch_are_not_touched(decoder: Decoder) -> None:
    rng = np.random.default_rng(1)
    arc, grandparent = rng.normal(size=(3, 6, 6)), rng.normal(size=(3, 6, 6, 6))
    plain = decoder(Parts.from_dense(arc, grandparent=grandparent))
    grandparent[1, rng.random((6, 6, 6)) < 0.2] = -np.inf
    trees = decoder(Parts.from_dense(arc, grandparent=grandparent))
    for b in (0, 2):
        np.testing.assert_array_equal(trees.heads[b], plain.heads[b])
        assert trees.score[b] == plain.score[b]
        assert trees.certified[b] == plain.certified[b]


@pytest.mark.parametrize("scale", [2.0**-60, 2.0**60])
def test_any_magnitude(scale: float) -> None:
    rng = np.random.default_rng(2)
    arc, grandparent = rng.normal(size=(20, 5, 5)), rng.normal(size=(20, 5, 5, 5))
    grandparent[rng.random(grandparent.shape) < 0.2] = -np.inf
    for decoder in (Projective(), HillClimbing()):
        plain = decoder(Parts.from_dense(arc, grandparent=grandparent), on_error="skip")
        scaled = decoder(Parts.from_dense(scale * arc, grandparent=scale * grandparent), on_error="skip")
        np.testing.assert_array_equal(scaled.heads, plain.heads)
        np.testing.assert_array_equal(scaled.score, scale * plain.score)
        assert scaled.failures == plain.failures


def test_improvements_lead_away_from_them() -> None:
    rng = np.random.default_rng(3)
    grandparent = np.zeros((5, 5, 5))
    heads = np.array([[-1, 0, 1, 2, 3]], np.int32)
    grandparent[3, 2, 1] = -np.inf
    parts = Parts.from_dense(rng.normal(size=(5, 5)), grandparent=grandparent)
    assert parts.score(heads)[0] == -np.inf
    improve_in_place(parts.penalised(), heads, 5, True)
    assert parts.score(heads)[0] > -np.inf


def test_sums_over_trees_refuse_them() -> None:
    parts = Parts.from_dense(np.zeros((4, 4)), sibling=np.full((4, 4, 4), -np.inf))
    for function in (max_marginals, log_marginals):
        with pytest.raises(ValueError, match="cannot handle scores of -inf, which sibling has"):
            function(parts)
