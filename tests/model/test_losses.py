from dataclasses import dataclass

import brute_force
import numpy as np
import pytest
import torch

from arbora.decoders import AD3, MST, BranchAndBound, Decoder, Eisner, Parts, RelaxedTrees, Trees
from arbora.decoders.parts.kinds import COMMON
from arbora.decoders.trees import is_projective
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


def parts_of(arc: torch.Tensor, **higher: np.ndarray) -> Parts:
    return Parts.from_dense(arc.detach().numpy(), **higher)


@dataclass(frozen=True)
class Exhaustive(Decoder):
    """Tries every tree."""

    single_root: bool = True

    def decode(self, parts: Parts) -> Trees:
        every = np.array(brute_force.trees(int(parts.lengths[0]), self.single_root), np.int32)
        score = np.stack([parts.score(np.broadcast_to(tree, (len(parts.lengths), len(tree)))) for tree in every])
        best = score.max(0)
        return Trees(every[score.argmax(0)], best, best, np.ones(len(best), np.bool_))


@dataclass(frozen=True)
class Fixed(Decoder):
    """Returns the same trees whatever the scores."""

    heads: tuple[tuple[int, ...], ...]
    single_root: bool = True

    def decode(self, parts: Parts) -> Trees:
        heads = np.array(self.heads, np.int32)
        return Trees(heads, parts.score(heads), None, np.zeros(len(heads), np.bool_))


def test_hinge_is_the_margin_to_the_worst_tree() -> None:
    arc = scores(1)
    expected = 0.0
    for b in range(3):
        gold = tuple(HEADS[b].tolist())
        costs = {t: sum(a != g for a, g in zip(t, gold)) for t in brute_force.trees(4, single_root=True)}
        worst = max(brute_force.tree_score(tree, arc[b].numpy()) + cost for tree, cost in costs.items())
        expected += worst - brute_force.tree_score(gold, arc[b].numpy())
    loss, violations = losses.hinge(arc.float(), HEADS, parts_of(arc), MST())
    assert loss.item() == pytest.approx(expected, abs=1e-4)
    assert violations.item() == 3


def test_hinge_of_a_separated_tree_is_zero() -> None:
    arc = scores(2).float()
    arc.scatter_add_(2, HEADS.clamp(min=0)[..., None], torch.full((3, 5, 1), 50.0))
    loss, violations = losses.hinge(arc.requires_grad_(), HEADS, parts_of(arc), MST())
    loss.backward()
    assert (loss.item(), violations.item()) == (0.0, 0)
    assert arc.grad is not None
    assert not arc.grad.nan_to_num().any()


def test_hinge_of_a_tree_the_decoder_cannot_reach_is_never_negative() -> None:
    crossing = torch.tensor([[-1, 3, 4, 4, 0]])
    arc = scores(3, size=1).float()
    arc.scatter_add_(2, crossing.clamp(min=0)[..., None], torch.full((1, 5, 1), 50.0))
    loss, violations = losses.hinge(arc, crossing, parts_of(arc), Eisner())
    assert (loss.item(), violations.item()) == (0.0, 0)


def test_hinge_gradient() -> None:
    arc = scores(4)

    def loss(free: torch.Tensor) -> torch.Tensor:
        full = arc.masked_scatter(arc.isfinite(), free)
        return losses.hinge(full, HEADS, parts_of(full), MST())[0]

    assert torch.autograd.gradcheck(loss, arc[arc.isfinite()].requires_grad_())


class Higher:
    """Random scores of kinds of parts, as leaves of a graph."""

    def __init__(self, arc: torch.Tensor, kinds: tuple[str, ...] = COMMON) -> None:
        parts = parts_of(arc)
        generator = torch.Generator().manual_seed(7)
        self.scores = {
            kind: torch.randn(int(parts.part_offsets(kind)[-1]), dtype=arc.dtype, generator=generator) for kind in kinds
        }

    def parts(self, arc: torch.Tensor) -> Parts:
        return parts_of(arc).with_scores(**{kind: score.detach().numpy() for kind, score in self.scores.items()})

    def some(self, kind: str, entries: torch.Tensor) -> torch.Tensor:
        return self.scores[kind][entries]


def test_higher_order_hinge_is_the_margin_to_the_worst_tree() -> None:
    arc = scores(8).float()
    higher = Higher(arc)
    parts = higher.parts(arc)
    every = brute_force.trees(4, single_root=True)
    score = np.stack([parts.score([tree] * 3) for tree in every])
    cost = np.array([[sum(a != g for a, g in zip(t, gold)) for gold in HEADS.tolist()] for t in every])
    expected = (score + cost).max(0) - parts.score(HEADS.numpy())
    loss, violations = losses.hinge(arc, HEADS, parts, Exhaustive(), higher.some)
    assert loss.item() == pytest.approx(expected.sum(), abs=1e-3)
    assert violations.item() == (expected > 0).sum()


def test_higher_order_hinge_gradient() -> None:
    arc = scores(9, n=3)
    heads = torch.tensor([[-1, 2, 0, 2], [-1, 0, 1, 1], [-1, 3, 3, 0]])
    higher = Higher(arc)
    sizes = [len(score) for score in higher.scores.values()]

    def loss(free: torch.Tensor, flat: torch.Tensor) -> torch.Tensor:
        full = arc.masked_scatter(arc.isfinite(), free)
        higher.scores = dict(zip(COMMON, flat.split(sizes)))
        return losses.hinge(full, heads, higher.parts(full), Exhaustive(), higher.some)[0]

    flat = torch.cat(list(higher.scores.values())).requires_grad_()
    assert torch.autograd.gradcheck(loss, (arc[arc.isfinite()].requires_grad_(), flat))


def test_a_decoder_that_finds_no_violation_teaches_nothing() -> None:
    arc = scores(10).float()
    arc.scatter_add_(2, HEADS.clamp(min=0)[..., None], torch.full((3, 5, 1), 20.0))
    higher = Higher(arc)
    parts = higher.parts(arc)
    flat = [score.requires_grad_() for score in higher.scores.values()]
    for found in ((-1, 4, 1, 1, 0), tuple(HEADS[0].tolist())):  # a poor tree, and for the first sentence the gold one
        loss, violations = losses.hinge(arc, HEADS, parts, Fixed((found,) * 3), higher.some)
        assert (loss.item(), violations.item()) == (0.0, 0)
        assert not any(gradient.any() for gradient in torch.autograd.grad(loss, flat))


def test_hinge_of_integral_solutions_is_that_of_trees() -> None:
    arc = 5 * scores(11).float()
    higher = Higher(arc, COMMON)
    parts = higher.parts(arc)
    flat = [arc.requires_grad_(), *(score.requires_grad_() for score in higher.scores.values())]
    found = [losses.hinge(arc, HEADS, parts, decoder, higher.some) for decoder in (AD3(), AD3(fractional=True))]
    assert found[0][0].item() == pytest.approx(found[1][0].item(), rel=1e-6)
    assert found[0][0].item() > 1
    assert found[0][1] == found[1][1]
    for one, two in zip(*(torch.autograd.grad(loss, flat) for loss, _ in found)):
        torch.testing.assert_close(one, two)


def fractional_instance() -> tuple[torch.Tensor, Higher]:
    """Scores of which the relaxation has a fractional solution."""
    for seed in range(100):
        arc = scores(100 + seed)
        higher = Higher(arc, COMMON)
        if not AD3(fractional=True)(higher.parts(arc)).integral.any():
            return arc, higher
    raise AssertionError("all are integral")


def test_fractional_hinge_is_no_less_than_that_of_the_worst_tree() -> None:
    arc, higher = fractional_instance()
    parts = higher.parts(arc)
    worst, _ = losses.hinge(arc, HEADS, parts, Exhaustive(), higher.some)
    relaxed, violations = losses.hinge(arc, HEADS, parts, AD3(fractional=True, tolerance=1e-7), higher.some)
    wrong = HEADS.numpy()[np.repeat(np.arange(3), np.diff(parts.sentence_offsets)), parts.modifier] != parts.head
    costly = parts.with_scores(arc_score=parts.arc_score + wrong)
    bound = AD3(drop_arcs=False, tolerance=1e-7, max_iterations=3000)(costly).bound
    assert bound is not None
    assert worst.item() - 1e-4 <= relaxed.item() <= (bound - parts.score(HEADS.numpy())).sum() + 1e-3
    assert violations == 3


def test_fractional_hinge_gradient() -> None:
    """The loss is piecewise linear, so that differences over a short way are the gradient up to convergence."""
    arc, higher = fractional_instance()
    decoder = AD3(fractional=True, drop_arcs=False, tolerance=1e-8, max_iterations=3000)

    def loss() -> torch.Tensor:
        return losses.hinge(arc, HEADS, higher.parts(arc), decoder, higher.some)[0]

    leaves = {"arc": arc.requires_grad_()} | {kind: score.requires_grad_() for kind, score in higher.scores.items()}
    gradients = dict(zip(leaves, torch.autograd.grad(loss(), list(leaves.values()))))
    fractional = 0
    for kind, leaf in leaves.items():
        gradient = gradients[kind].flatten()
        some = [int(gradient.abs().argmax()), *gradient.nonzero()[:4, 0].tolist()]
        for e in some:
            flat = leaf.detach().view(-1)
            before, step = flat[e].item(), 1e-3
            flat[e] = before + step
            above = loss().item()
            flat[e] = before - step
            below = loss().item()
            flat[e] = before
            slopes = [gradient[e].item(), (above - below) / (2 * step)]
            assert slopes[0] == pytest.approx(slopes[1], abs=2e-2), kind
            fractional += abs(slopes[0] - round(slopes[0])) > 0.1
    assert fractional > 3


@dataclass(frozen=True)
class FixedShares(Decoder):
    """Returns the same shares of random parts whatever the scores."""

    single_root: bool = True

    def decode(self, parts: Parts) -> RelaxedTrees:
        rng = np.random.default_rng(0)
        shares = {}
        for kind in ("arc", *parts.kinds):
            size = len(parts.head) if kind == "arc" else int(parts.part_offsets(kind)[-1])
            entries = np.sort(rng.choice(size, size // 2, replace=False))
            shares[kind] = entries, rng.random(len(entries))
        trees = MST()(parts)
        return RelaxedTrees(trees.heads, trees.score, None, np.zeros(len(trees.heads), np.bool_), shares=shares)


def test_fractional_hinge_passes_gradcheck() -> None:
    arc = 3 + scores(9, n=3)  # so that there is a violation
    heads = torch.tensor([[-1, 2, 0, 2], [-1, 0, 1, 1], [-1, 3, 3, 0]])
    higher = Higher(arc, ("grandparent", "sibling"))
    sizes = [len(score) for score in higher.scores.values()]

    def loss(free: torch.Tensor, flat: torch.Tensor) -> torch.Tensor:
        full = arc.masked_scatter(arc.isfinite(), free)
        higher.scores = dict(zip(higher.scores, flat.split(sizes)))
        return losses.hinge(full, heads, higher.parts(full), FixedShares(), higher.some)[0]

    flat = torch.cat(list(higher.scores.values())).requires_grad_()
    assert loss(arc[arc.isfinite()], flat) > 0
    assert torch.autograd.gradcheck(loss, (arc[arc.isfinite()].requires_grad_(), flat))


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
    found = is_projective(np.array(trees))
    assert found.tolist() == [brute_force.is_projective(tree) for tree in trees]


def agreeing(heads: torch.Tensor, single_root: bool, projective: bool = False) -> list[brute_force.Tree]:
    """All trees that agree with the heads that are there."""
    trees = brute_force.trees(len(heads) - 1, single_root, projective)
    return [tree for tree in trees if all(h in (-1, t) for h, t in zip(heads.tolist()[1:], tree[1:]))]


@pytest.mark.parametrize("projective", [False, True])
@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_crf_of_partial_trees_equals_enumeration(single_root: bool, projective: bool, scale: float) -> None:
    """At the larger scale, the sum over trees is by elimination."""
    for seed in range(8):
        arc = (scale * scores(seed)).requires_grad_()
        partly = HEADS.masked_fill(torch.rand(HEADS.shape, generator=torch.Generator().manual_seed(seed)) < 0.5, -1)
        expected = torch.zeros((), dtype=torch.float64)
        outside = 0
        for b, heads in enumerate(partly):
            trees = agreeing(heads, single_root, projective)
            every = brute_force.trees(4, single_root, projective)
            summed = [
                torch.stack([arc[b, range(1, 5), tree[1:]].sum() for tree in some]) for some in (trees, every) if some
            ]
            outside += not trees
            if trees:
                expected = expected + summed[1].logsumexp(0) - summed[0].logsumexp(0)
        loss, found_outside = losses.crf(arc, partly, LENGTHS, single_root, projective)
        assert int(found_outside) == outside
        assert float(loss) == pytest.approx(float(expected), rel=1e-4, abs=1e-4)
        (gradient,) = torch.autograd.grad(loss, arc)
        (by_hand,) = torch.autograd.grad(expected, arc) if expected.requires_grad else (torch.zeros_like(arc),)
        torch.testing.assert_close(gradient, by_hand, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("single_root", [False, True])
def test_hinge_of_partial_trees_equals_enumeration(single_root: bool) -> None:
    rng = np.random.default_rng(0)
    for seed in range(6):
        arc = scores(seed)
        higher = {"grandparent": rng.normal(size=(3, 5, 5, 5)).astype(np.float32)}
        parts = parts_of(arc, **higher)
        partly = HEADS.masked_fill(torch.rand(HEADS.shape, generator=torch.Generator().manual_seed(seed)) < 0.5, -1)
        expected = 0.0
        for b, heads in enumerate(partly):

            def value(tree: brute_force.Tree, parts: Parts = parts.subset([b])) -> float:  # noqa: B008
                return float(parts.score(np.array([tree]))[0])

            def cost(tree: brute_force.Tree, heads: torch.Tensor = heads) -> int:
                return sum(h not in (-1, t) for h, t in zip(heads.tolist()[1:], tree[1:]))

            best = max(value(tree) + cost(tree) for tree in brute_force.trees(4, single_root))
            expected += best - max(map(value, agreeing(heads, single_root)))
        completion = np.array([agreeing(heads, single_root)[0] for heads in partly])
        loss, _ = losses.hinge(
            arc,
            partly,
            parts,
            BranchAndBound(single_root=single_root),
            lambda kind, entries, parts=parts: torch.from_numpy(getattr(parts, kind))[entries],
            completion,
        )
        assert float(loss) == pytest.approx(expected, abs=1e-4)
