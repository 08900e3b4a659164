"""Nothing that a decoder promises depends on the origin or the unit of the scores.

Multiplying all scores by a power of two, or adding a constant that float32 holds exactly to all heads of a word,
changes neither tree nor certificate. Scores are multiples of 1/64 of moderate size, so that both are exact.

`units.rescaled` multiplies those settings along that are in the unit of the scores by definition.
"""

from collections.abc import Sequence

import numpy as np
import pytest
from units import rescaled

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

ALL: tuple[str, ...] = ("grandparent", "sibling", "any_sibling", "head_bigram", "grand_sibling", "tri_sibling")

DECODERS: dict[str, tuple[Decoder, tuple[str, ...]]] = {
    "mst": (MST(), ()),
    "eisner": (Eisner(), ()),
    "projective": (Projective(), ("grandparent", "sibling", "grand_sibling")),
    "cascade": (VineCascade(few=0), ("grandparent", "sibling", "grand_sibling")),
    "ad3": (AD3(max_iterations=60), ALL),
    "all arcs kept": (AD3(max_iterations=30, drop_arcs=False), ALL),
    "branch and bound": (BranchAndBound(max_nodes=20), ALL),
    "subgradient": (Subgradient(max_iterations=30), ALL),
    "hill-climbing": (HillClimbing(patience=5), ALL),
    "first-order starts": (HillClimbing(patience=5, start="first_order", best_first=False), ALL),
    "greedy": (Greedy(), ALL),
    "algorithm 1": (Greedy(partial=False), ALL),
}


def draw(seed: int, kinds: tuple[str, ...], lengths: Sequence[int] = (1, 3, 6, 9, 12)) -> Parts:
    rng = np.random.default_rng(seed)
    arc = np.round(64 * 2 * rng.normal(size=(len(lengths), 13, 13))) / 64
    mask = rng.random(arc.shape) < 0.6
    mask[:, np.arange(1, 13), np.arange(12)] = True
    parts = Parts.from_dense(arc, lengths, mask)
    return parts.with_scores(
        **{
            kind: (np.round(64 * rng.normal(size=parts.part_offsets(kind)[-1])) / 64).astype(np.float32)
            for kind in kinds
        }
    )


def multiplied(parts: Parts, factor: float) -> Parts:
    names = ("arc_score", *parts.kinds)
    return parts.with_scores(**{name: (getattr(parts, name) * np.float32(factor)) for name in names})


def shifted(parts: Parts, seed: int) -> Parts:
    """The same scores with a constant of up to 2^14 added to the arcs into each word."""
    words = int(parts.lengths.sum())
    constant = np.random.default_rng(seed).integers(-(2**14), 2**14, size=words).astype(np.float32)
    return parts.with_scores(arc_score=parts.arc_score + np.repeat(constant, np.diff(parts.modifier_offsets)))


@pytest.mark.parametrize("power", [-60, -31, -7, 1, 20, 60])
@pytest.mark.parametrize("name", DECODERS)
def test_unit(name, power):
    decoder, kinds = DECODERS[name]
    for seed in range(3):
        parts = draw(seed, kinds)
        plain, other = decoder(parts), rescaled(decoder, 2.0**power)(multiplied(parts, 2.0**power))
        np.testing.assert_array_equal(other.heads, plain.heads)
        np.testing.assert_array_equal(other.certified, plain.certified)
        np.testing.assert_array_equal(other.score, plain.score * 2.0**power)
        if plain.bound is not None:
            np.testing.assert_array_equal(other.bound, plain.bound * 2.0**power)


@pytest.mark.parametrize("name", [name for name in DECODERS if name not in ("greedy", "algorithm 1")])
def test_origin(name):
    """Greedy is left out: what adding an arc loses is the sum of the arcs that it excludes, whatever their origin."""
    decoder, kinds = DECODERS[name]
    for seed in range(6):
        parts = draw(seed, kinds)
        plain, other = decoder(parts), decoder(shifted(parts, seed))
        np.testing.assert_array_equal(other.heads, plain.heads)
        np.testing.assert_array_equal(other.certified, plain.certified)
        if plain.bound is not None:
            np.testing.assert_allclose(other.bound - other.score, plain.bound - plain.score, atol=1e-9)


@pytest.mark.parametrize(("factor", "shift"), [(1.0, 2**14), (2.0**-24, 0), (1e22, 0), (1e-30, 0)])
@pytest.mark.parametrize("name", ["ad3", "all arcs kept", "branch and bound", "subgradient"])
def test_certified_trees_are_the_best(name, factor, shift):
    """Nor do certificates err where scores are small next to 1, or next to their origin."""
    decoder, kinds = DECODERS[name]
    for seed in range(10):
        parts = draw(seed, kinds, (1, 3, 5, 7))
        best = BranchAndBound()(parts)
        assert best.certified.all()
        trees = decoder(multiplied(parts.with_scores(arc_score=parts.arc_score + np.float32(shift)), factor))
        reached = parts.score(trees.heads)
        np.testing.assert_allclose(reached[trees.certified], best.score[trees.certified], atol=1e-6)


@pytest.mark.parametrize("decoder", [AD3(max_iterations=1), Subgradient(max_iterations=1), BranchAndBound(max_nodes=1)])
def test_unit_of_scores_with_ties_everywhere(decoder):
    """A single arc differs from the others, and every word has several best heads."""
    arc = np.zeros((4, 4))
    arc[2, 0] = -1 / 16
    parts = Parts.from_dense(arc, grandparent=np.zeros((4, 4, 4)))
    plain = decoder(parts)
    for power in (-60, 60):
        other = decoder(multiplied(parts, 2.0**power))
        np.testing.assert_array_equal(other.heads, plain.heads)
        np.testing.assert_array_equal(other.certified, plain.certified)
