import brute_force
import numpy as np
import pytest
import torch

from arbora.decoders import MST, Eisner
from arbora.model import losses


def scores(seed: int, n: int = 4, size: int = 3) -> torch.Tensor:
    arc = torch.randn(size, n + 1, n + 1, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    arc.diagonal(dim1=1, dim2=2).fill_(-torch.inf)
    return arc


HEADS = torch.tensor([[-1, 2, 0, 2, 3], [-1, 0, 1, 1, 1], [-1, 3, 4, 4, 0]])
LENGTHS = torch.tensor([4, 4, 4])


def test_cross_entropy_ignores_words_without_a_head() -> None:
    arc = scores(0)
    partly = HEADS.clone()
    partly[0, 2:] = -1
    expected = -sum(arc[b, m].log_softmax(0)[partly[b, m]] for b, m in (partly >= 0).nonzero().tolist())
    torch.testing.assert_close(losses.head_cross_entropy(arc, partly), torch.as_tensor(expected))


def test_hinge_is_the_margin_to_the_worst_tree() -> None:
    arc = scores(1)
    expected = 0.0
    for b in range(3):
        gold = tuple(HEADS[b].tolist())
        costs = {t: sum(a != g for a, g in zip(t, gold)) for t in brute_force.trees(4, single_root=True)}
        worst = max(brute_force.tree_score(tree, arc[b].numpy()) + cost for tree, cost in costs.items())
        expected += worst - brute_force.tree_score(gold, arc[b].numpy())
    loss, violations = losses.hinge(arc.float(), HEADS, LENGTHS, MST())
    assert loss.item() == pytest.approx(expected, abs=1e-4)
    assert violations.item() == 3


def test_hinge_of_a_separated_tree_is_zero() -> None:
    arc = scores(2).float()
    arc.scatter_add_(2, HEADS.clamp(min=0)[..., None], torch.full((3, 5, 1), 50.0))
    loss, violations = losses.hinge(arc.requires_grad_(), HEADS, LENGTHS, MST())
    loss.backward()
    assert (loss.item(), violations.item()) == (0.0, 0)
    assert arc.grad is not None
    assert not arc.grad.nan_to_num().any()


def test_hinge_of_a_tree_the_decoder_cannot_reach_is_never_negative() -> None:
    crossing = torch.tensor([[-1, 3, 4, 4, 0]])
    arc = scores(3, size=1).float()
    arc.scatter_add_(2, crossing.clamp(min=0)[..., None], torch.full((1, 5, 1), 50.0))
    loss, violations = losses.hinge(arc, crossing, LENGTHS[:1], Eisner())
    assert (loss.item(), violations.item()) == (0.0, 0)


def test_hinge_gradient() -> None:
    arc = scores(4)

    def loss(free: torch.Tensor) -> torch.Tensor:
        return losses.hinge(arc.masked_scatter(arc.isfinite(), free), HEADS, LENGTHS, MST())[0]

    assert torch.autograd.gradcheck(loss, arc[arc.isfinite()].requires_grad_())


@pytest.mark.parametrize(("single_root", "projective", "inside"), [(True, False, [0, 1, 2]), (True, True, [0, 1])])
def test_crf_is_the_likelihood_of_the_tree(single_root: bool, projective: bool, inside: list[int]) -> None:
    arc = scores(5)
    expected = 0.0
    for b in inside:
        every = brute_force.trees(4, single_root, projective)
        logz = np.logaddexp.reduce([brute_force.tree_score(tree, arc[b].numpy()) for tree in every])
        expected += logz - brute_force.tree_score(tuple(HEADS[b].tolist()), arc[b].numpy())
    found, outside = losses.crf(arc.requires_grad_(), HEADS, LENGTHS, single_root, projective)
    assert outside.item() == 3 - len(inside)
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_crf_without_a_tree_inside_has_a_zero_gradient() -> None:
    arc = scores(6).requires_grad_()
    several_roots = torch.tensor([[-1, 0, 0, 2, 3]]).expand(3, -1)
    loss, outside = losses.crf(arc, several_roots, LENGTHS, single_root=True, projective=False)
    assert outside.item() == 3
    loss.backward()
    assert loss.item() == 0
    assert arc.grad is not None
    assert not arc.grad.any()


def test_is_projective_agrees_with_enumeration() -> None:
    trees = brute_force.trees(4)
    found = losses.is_projective(torch.tensor(trees))
    assert found.tolist() == [brute_force.is_projective(tree) for tree in trees]
