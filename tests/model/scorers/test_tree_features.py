"""Scores of features of whole trees."""

import numpy as np
import pytest
import torch

from arbora.decoders import Parts
from arbora.decoders.parts.kinds import TREE_FEATURES
from arbora.decoders.pruning import prune
from arbora.model.scorers.tree_features import FeatureScorer, TreeFeatures

RANK, INPUTS = 4, 6
LENGTHS = [5, 1, 7, 2]


@pytest.fixture
def parts() -> Parts:
    arc = np.random.default_rng(0).normal(size=(len(LENGTHS), max(LENGTHS) + 1, max(LENGTHS) + 1))
    return Parts.from_dense(arc, LENGTHS, prune(arc, LENGTHS, 4, 0.0))


@pytest.fixture
def vectors() -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn((len(LENGTHS), max(LENGTHS) + 1, INPUTS), generator=generator, dtype=torch.float64)


def scorer_of(kinds: tuple[str, ...], zero: bool = False) -> FeatureScorer:
    torch.manual_seed(0)
    scorer = FeatureScorer(INPUTS, TreeFeatures(kinds, RANK, dropout=0)).double()
    if not zero:
        for weight in scorer.parameters():
            torch.nn.init.normal_(weight)
    return scorer


def by_definition(scorer: FeatureScorer, vectors: torch.Tensor, parts: Parts, kind: str) -> list[float]:
    """Scores of all entries of a feature, one after the other."""
    roles = scorer.project(vectors).split(scorer.sizes, -1)[scorer.kinds.index(kind)].unflatten(-1, (-1, RANK))
    offsets = parts.part_offsets(kind)
    found = []
    for entry, index in enumerate(parts.words(kind).tolist()):
        b = int(np.searchsorted(offsets, entry, side="right")) - 1
        if kind == "crossing":
            m, h = index
            score = (roles[b, m, 0] * roles[b, h, 1] * scorer.weight[kind]).sum()
        elif kind == "neighbours":
            h, position = index
            beside = scorer.end if position > parts.lengths[b] else roles[b, position, 2]
            score = (roles[b, h, int(position > h)] * beside * scorer.weight[kind]).sum()
        elif kind == "right_branching":
            score = scorer.table[kind](roles[b, 0, 0])[index[0]]
        elif kind == "valency":
            word, side, number = index
            score = scorer.table[kind](roles[b, word, 0]).unflatten(0, (2, -1))[side, number]
        else:
            word, number = index
            score = scorer.table[kind](roles[b, word, 0])[number]
        found.append(score.item())
    return found


@pytest.mark.parametrize("kinds", [*[(kind,) for kind in TREE_FEATURES], TREE_FEATURES], ids=len)
def test_scores_follow_the_definition(kinds: tuple[str, ...], parts: Parts, vectors: torch.Tensor) -> None:
    scorer = scorer_of(kinds)
    scores = scorer(vectors, parts)
    assert tuple(scores) == kinds
    for kind, score in scores.items():
        np.testing.assert_allclose(score.detach().numpy(), by_definition(scorer, vectors, parts, kind), atol=1e-9)


def test_a_new_scorer_changes_nothing_and_can_learn(parts: Parts, vectors: torch.Tensor) -> None:
    scorer = scorer_of(TREE_FEATURES, zero=True)
    scores = scorer(vectors, parts)
    assert not any(score.any() for score in scores.values())
    torch.stack([(score * torch.arange(len(score))).sum() for score in scores.values()]).sum().backward()
    for kind in TREE_FEATURES:
        weight = scorer.weight[kind] if kind in scorer.weight else scorer.table[kind].weight
        assert weight.grad is not None
        assert weight.grad.abs().max() > 0


@pytest.mark.parametrize("kinds", [(), ("cousins",), ("span", "span")])
def test_unknown_features_are_refused(kinds: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="some of valency"):
        TreeFeatures(kinds)
