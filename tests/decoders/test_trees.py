"""The interface that all decoders share: sentences without a tree."""

import pickle

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
    VineCascade,
)

DECODERS = [
    MST(),
    Eisner(),
    Projective(),
    VineCascade(few=1),
    HillClimbing(restarts=3),
    Greedy(),
    Subgradient(max_iterations=20),
    AD3(fractional=True),
    BranchAndBound(),
]


def batch_with_failures() -> tuple[Parts, list[int]]:
    """Five sentences, of which 1 has a word without a head and 3 a word that the root does not reach."""
    rng = np.random.default_rng(0)
    arc = rng.normal(size=(5, 6, 6))
    arc[1, 2, :] = -np.inf
    arc[3, 4, :5] = -np.inf
    arc[3, 5, [0, 1, 2, 3]] = -np.inf
    grandparent = rng.normal(size=(5, 6, 6, 6))
    return Parts.from_dense(arc, lengths=[3, 4, 5, 5, 2], grandparent=grandparent), [1, 3]


@pytest.mark.parametrize("decoder", DECODERS, ids=lambda decoder: type(decoder).__name__)
def test_sentences_without_a_tree(decoder: Decoder) -> None:
    parts, failing = batch_with_failures()
    with pytest.raises(NoTreeError, match=r"^sentence 1: no tree: word 2 has no candidate head \(1 more") as caught:
        decoder(parts)
    assert list(caught.value.reasons) == failing
    trees = decoder(parts, on_error="skip")
    assert list(trees.failures) == failing
    assert trees.failures[1] == "no tree: word 2 has no candidate head"
    fine = np.setdiff1d(np.arange(5), failing)
    alone = decoder(parts.subset(fine))
    np.testing.assert_array_equal(trees.heads[fine], alone.heads)
    np.testing.assert_array_equal(trees.score[fine], alone.score)
    np.testing.assert_array_equal(trees.certified[fine], alone.certified)
    np.testing.assert_array_equal(trees.score[fine], parts.score(np.maximum(trees.heads, -1))[fine])
    assert (trees.heads[failing] == -1).all()
    assert (trees.score[failing] == -np.inf).all()
    assert not trees.certified[failing].any()
    assert trees.counters.keys() == alone.counters.keys()
    assert all(len(counts) == 5 for counts in trees.counters.values())
    if trees.bound is not None:
        assert (trees.bound[failing] == -np.inf).all()


@pytest.mark.parametrize("decoder", DECODERS, ids=lambda decoder: type(decoder).__name__)
def test_no_sentence_has_a_tree(decoder: Decoder) -> None:
    parts, failing = batch_with_failures()
    trees = decoder(parts.subset(failing), on_error="skip")
    assert list(trees.failures) == [0, 1]
    assert (trees.heads == -1).all()
    none = decoder(parts.subset([]))
    assert none.heads.shape[0] == 0


def test_shares_of_parts_keep_their_numbers() -> None:
    parts, failing = batch_with_failures()
    trees = AD3(fractional=True)(parts, on_error="skip")
    fine = np.setdiff1d(np.arange(5), failing)
    for kind, (entries, share) in trees.shares.items():
        scores = parts.arc_score if kind == "arc" else getattr(parts, kind)
        alone, shares = AD3(fractional=True)(parts.subset(fine)).shares[kind]
        there = parts.subset(fine)
        np.testing.assert_array_equal(scores[entries], (there.arc_score if kind == "arc" else there.grandparent)[alone])
        np.testing.assert_array_equal(share, shares)
    assert len(trees.arcs) == len(parts.head)
    assert trees.arcs[parts.entries("arc", np.array(failing))].sum() == 0


def test_skipping_where_all_have_trees() -> None:
    parts, _ = batch_with_failures()
    trees = MST()(parts.subset([0, 2, 4]), on_error="skip")
    assert trees.failures == {}


def test_on_error_is_checked() -> None:
    parts, _ = batch_with_failures()
    with pytest.raises(ValueError, match="on_error must be raise or skip, got ignore"):
        MST()(parts, on_error="ignore")  # type: ignore[arg-type]


def test_the_error_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(NoTreeError({3: "no tree", 1: "no projective tree"})))
    assert str(error) == "sentence 1: no projective tree (1 more in the batch)"
    assert error.reasons == {1: "no projective tree", 3: "no tree"}
