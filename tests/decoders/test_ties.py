"""Ties: of heads that are equally good, the lowest is taken, if that makes a tree (CONTRIBUTING.md, "Conventions")."""

import numpy as np
import pytest
from brute_force import is_projective, is_single_root, reaches_root, scores, trees

from arbora.decoders import (
    AD3,
    MST,
    BranchAndBound,
    Decoder,
    Eisner,
    Greedy,
    HillClimbing,
    Parts,
    Projective,
    Subgradient,
    VineCascade,
)

KINDS = [MST, Eisner, Projective, VineCascade, AD3, Subgradient, BranchAndBound, HillClimbing]


def tied(values: int, density: float, batch: int = 200, n: int = 4) -> np.ndarray:
    """(B, n+1, n+1) scores of few values; the chain 0 -> 1 -> ... -> n is never left out."""
    rng = np.random.default_rng([values, int(10 * density)])
    arc = rng.integers(0, values, (batch, n + 1, n + 1)).astype(np.float32)
    absent = rng.random(arc.shape) > density
    absent[:, np.arange(1, n + 1), np.arange(n)] = False
    arc[absent] = -np.inf
    arc[:, np.arange(n + 1), np.arange(n + 1)] = -np.inf
    return arc


def may_return(decoder: Decoder, tree: tuple[int, ...]) -> bool:
    return (
        reaches_root(tree)
        and (is_single_root(tree) or not decoder.single_root)
        and (is_projective(tree) or not decoder.projective)
    )


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_the_lowest_of_the_best_heads_is_taken(kind, single_root):
    decoder = kind(single_root=single_root)
    applied = 0
    for density in (1.0, 0.6, 0.15):
        arc = tied(2, density)
        found = decoder(Parts.from_dense(arc)).heads
        for b, lowest in enumerate(arc[:, 1:].argmax(2).tolist()):
            if may_return(decoder, (-1, *lowest)):
                applied += 1
                assert found[b, 1:].tolist() == lowest
    assert applied > 20


@pytest.mark.parametrize("kind", [*KINDS, Greedy])
def test_all_scores_equal(kind):
    """Every word hangs from the root, if it may."""
    assert kind(single_root=False)(Parts.from_dense(np.zeros((1, 6, 6)))).heads.tolist() == [[-1, 0, 0, 0, 0, 0]]


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_the_best_score_is_found_among_ties(kind, single_root):
    decoder = kind(single_root=single_root)
    for density in (1.0, 0.6):
        arc = tied(3, density)
        found = decoder(Parts.from_dense(arc))
        allowed = trees(4, single_root, decoder.projective)
        everything = np.ones((5, 5), bool)
        assert found.score.tolist() == [scores(allowed, everything, matrix).max() for matrix in arc]


@pytest.mark.parametrize("projective", [True, False])
def test_decoders_of_the_same_trees_break_ties_alike(projective):
    """Under arc scores, whether or not the lowest of the best heads make a tree."""
    parts = Parts.from_dense(tied(3, 1.0, n=6))
    found = [kind()(parts).heads.tolist() for kind in KINDS if kind.projective == projective]
    assert all(heads == found[0] for heads in found)
