"""Scores of features of whole trees."""

import numpy as np
import pytest
import torch

from arbora.decoders import Parts
from arbora.decoders.parts.kinds import TREE_FEATURES
from arbora.decoders.parts.tree_features import CONJUNCTION
from arbora.decoders.pruning import prune
from arbora.model.scorers.tree_features import FeatureScorer, TreeFeatures

RANK, INPUTS = 4, 6
LENGTHS = [5, 1, 7, 2]


@pytest.fixture
def parts() -> Parts:
    arc = np.random.default_rng(0).normal(size=(len(LENGTHS), max(LENGTHS) + 1, max(LENGTHS) + 1))
    tags = np.random.default_rng(2).choice([0, CONJUNCTION], size=arc.shape[:2])
    return Parts.from_dense(arc, LENGTHS, prune(arc, LENGTHS, 4, 0.0), tags)


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
            m, h, number = index
            score = scorer.table[kind](roles[b, m, 0] * roles[b, h, 1])[number]
        elif kind == "neighbours":
            m, h, left, right = index
            arc = roles[b, m, 0] * roles[b, h, 1] + roles[b, m, 2]
            score = (arc * scorer.left[left] * scorer.right[right]).sum()
        elif kind == "right_branching":
            score = scorer.table[kind](roles[b, 0, 0])[0] * (1 + index[0]) / (1 + parts.lengths[b])
        elif kind in ("coordination", "conjunct"):
            score = (roles[b, index[0], 0] * roles[b, index[1], 1] * roles[b, index[2], 2] * scorer.weight[kind]).sum()
        else:
            word, *cell = index
            shape = {"valency": (6, 6), "span": (5, 3)}[kind]
            score = scorer.table[kind](roles[b, word, 0]).unflatten(0, shape)[tuple(cell)]
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
        layer = scorer.table[kind].weight if kind in scorer.table else scorer.right
        weight = scorer.weight.get(kind, layer)
        assert weight.grad is not None
        assert weight.grad.abs().max() > 0


@pytest.mark.parametrize("kinds", [(), ("cousins",), ("span", "span")])
def test_unknown_features_are_refused(kinds: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="some of valency"):
        TreeFeatures(kinds)


def test_weights_of_earlier_features_are_refused() -> None:
    scorer = scorer_of(("valency", "span"))
    weights = scorer.state_dict()
    scorer.load_state_dict(weights)
    weights["table.span.weight"] = torch.zeros(9, RANK)
    with pytest.raises(ValueError, match="earlier version of arbora: train the parser again"):
        scorer.load_state_dict(weights)
