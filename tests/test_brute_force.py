"""The enumeration itself, against known counts, worked examples, and a second way to the same answer."""

from collections import Counter

import numpy as np
import pytest
from brute_force import (
    KINDS,
    best_score,
    can_fire,
    fired,
    fires,
    is_projective,
    is_single_root,
    parts,
    reaches_root,
    score,
    scores,
    tree_score,
    trees,
)


@pytest.mark.parametrize("n", range(1, 6))
def test_counts_of_trees(n):
    assert len(trees(n)) == (n + 1) ** (n - 1)
    assert len(trees(n, single_root=True)) == n ** (n - 1)
    assert len(trees(n, projective=True)) == [1, 3, 12, 55, 273][n - 1]
    assert len(trees(n, single_root=True, projective=True)) == [1, 2, 7, 30, 143][n - 1]
    assert len(set(trees(n))) == len(trees(n))


def test_predicates():
    assert reaches_root((-1, 0, 1))
    assert not reaches_root((-1, 2, 1))
    assert not reaches_root((-1, 1))
    assert is_single_root((-1, 0, 1))
    assert not is_single_root((-1, 0, 0))
    assert is_projective((-1, 2, 0, 2))
    assert not is_projective((-1, 3, 0, 2))  # 3 -> 1 covers word 2, which hangs from the root


def test_scores():
    arc = np.array([[9, 9, 9], [1, 9, 4], [2, 8, 9]])
    assert tree_score((-1, 0, 1), arc) == 9
    assert best_score(arc) == 9
    assert best_score(arc, mask=arc != 8) == 6
    assert best_score(np.array([[0, 0], [-np.inf, 0]])) == -np.inf


@pytest.mark.parametrize("n", range(1, 6))
def test_counts_of_parts(n):
    """With all arcs, each kind of part as often as its words can be chosen."""
    found = parts(np.ones((n + 1, n + 1)))
    sides = [n] + [J for h in range(1, n + 1) for J in (h - 1, n - h)]
    pairs = [(J + 1) * (J + 2) // 2 for J in sides]
    assert {kind: len(listed) for kind, listed in found.items()} == {
        "grandparent": n * (n - 1) * n,
        "sibling": sum(pairs),
        "any_sibling": n * (n - 1) // 2 + n * (n - 1) * (n - 2) // 2,
        "head_bigram": (n - 1) * n * n,
        "grand_sibling": n * sum(pairs[1:]),
        "tri_sibling": sum(J * (J + 1) * (J + 2) // 6 for J in sides),
    }
    # Not to fire: the grandparents (m, h, m), and the pairs of neighbours that head each other.
    assert sum(not can_fire(present) for _, present, _ in found["grandparent"]) == n * (n - 1)
    assert sum(not can_fire(present) for _, present, _ in found["head_bigram"]) == n - 1
    for kind in ("sibling", "any_sibling", "tri_sibling"):
        assert all(can_fire(present) for _, present, _ in found[kind])


def test_parts_of_two_words():
    found = {kind: [part[0] for part in listed] for kind, listed in parts(np.ones((3, 3))).items()}
    assert sorted(found["grandparent"]) == [(1, 2, 0), (1, 2, 1), (2, 1, 0), (2, 1, 2)]
    assert sorted(found["head_bigram"]) == [(2, 0, 0), (2, 0, 2), (2, 1, 0), (2, 1, 2)]
    assert sorted(found["any_sibling"]) == [(0, 1, 2)]
    of_root = [(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 0), (0, 1, 2), (0, 2, 0)]
    of_one = [(1, 1, 1), (1, 1, 1), (1, 1, 2), (1, 2, 1)]  # START and END of the left side, of the right, and word 2
    of_two = [(2, 1, 2), (2, 2, 1), (2, 2, 2), (2, 2, 2)]
    assert sorted(found["sibling"]) == of_root + of_one + of_two
    assert sorted(found["grand_sibling"]) == sorted(
        [(g, *words) for g in (0, 2) for words in of_one] + [(g, *words) for g in (0, 1) for words in of_two]
    )
    assert sorted(found["tri_sibling"]) == sorted(
        [(0, 0, 1, 0), (0, 0, 1, 2), (0, 0, 2, 0), (0, 1, 2, 0), (1, 1, 2, 1), (2, 2, 1, 2)]
    )


def test_present_and_absent_arcs():
    """Word 3 with candidate modifiers 2 and 1 on its left and 5 on its right, but not 4."""
    mask = np.ones((6, 6), dtype=bool)
    mask[4, 3] = False
    found = parts(mask)

    def sets(kind: str, *words: int) -> list[tuple[set, set]]:
        return [(set(present), set(absent)) for listed, present, absent in found[kind] if listed == words]

    assert sets("sibling", 3, 2, 1) == [({(3, 2), (3, 1)}, set())]
    assert sets("sibling", 3, 3, 1) == [({(3, 1)}, {(3, 2)})]
    assert sets("sibling", 3, 3, 5) == [({(3, 5)}, set())]
    assert sets("sibling", 3, 3, 3) == [(set(), {(3, 1), (3, 2)}), (set(), {(3, 5)})]
    assert sets("sibling", 3, 1, 2) == sets("sibling", 3, 2, 5) == sets("sibling", 3, 3, 4) == []
    assert sets("any_sibling", 3, 2, 1) == [({(3, 2), (3, 1)}, set())]
    assert sets("any_sibling", 3, 1, 5) == [({(3, 5), (3, 1)}, set())]
    assert sets("any_sibling", 3, 5, 1) == sets("any_sibling", 3, 1, 2) == []
    assert sets("grand_sibling", 4, 3, 2, 3) == [({(4, 3), (3, 2)}, {(3, 1)})]
    assert sets("tri_sibling", 3, 3, 1, 3) == [({(3, 1)}, {(3, 2)})]
    assert sets("tri_sibling", 0, 1, 3, 5) == [({(0, 1), (0, 3), (0, 5)}, {(0, 2), (0, 4)})]
    assert sets("head_bigram", 4, 2, 0) == [({(0, 3), (2, 4)}, set())]
    assert sets("head_bigram", 4, 3, 0) == []
    assert sets("grandparent", 4, 5, 0) == [({(0, 5), (5, 4)}, set())]


@pytest.mark.parametrize("n", range(1, 5))
@pytest.mark.parametrize("density", [1.0, 0.5])
def test_parts_that_fire_are_those_read_off_the_tree(n, density):
    mask = np.random.default_rng(n).random((n + 1, n + 1)) < density
    for tree in trees(n):
        found = fired(tree, mask)
        for kind, listed in parts(mask).items():
            assert Counter(found[kind]) == Counter(words for words, *arcs in listed if fires(*arcs, tree))


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("density", [1.0, 0.6])
def test_scores_of_parts(n, density):
    rng = np.random.default_rng(n)
    N = n + 1
    mask, arc = rng.random((N, N)) < density, rng.normal(size=(N, N))
    higher = {kind: rng.normal(size=(N,) * (4 if kind in ("grand_sibling", "tri_sibling") else 3)) for kind in KINDS}
    expected = []
    for tree in trees(n):
        possible = all(mask[m, h] for m, h in enumerate(tree) if m > 0)
        total = tree_score(tree, arc) if possible else -np.inf
        for kind, found in fired(tree, mask).items():
            total += sum(higher[kind][words] for words in found)
        expected.append(total)
    np.testing.assert_allclose(scores(trees(n), mask, arc, **higher), expected)
    assert score(trees(n)[-1], mask, arc, **higher) == pytest.approx(expected[-1])
    assert score(trees(n)[-1], mask, arc) == (tree_score(trees(n)[-1], arc) if expected[-1] > -np.inf else -np.inf)
    assert best_score(arc, mask=mask, **higher) == pytest.approx(max(expected))
    single = [total for tree, total in zip(trees(n), expected) if is_single_root(tree)]
    assert best_score(np.where(mask, arc, -np.inf), True, **higher) == pytest.approx(max(single))
