import brute_force
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from arbora.decoders.marginals import arc_marginals
from arbora.model import crf

KINDS = [(single_root, projective) for single_root in (True, False) for projective in (True, False)]


def padded(sentences: list[np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
    """A batch in which padding and row 0 hold what must never be read."""
    longest = max(len(arc) for arc in sentences)
    batch = torch.full((len(sentences), longest, longest), 7.0, dtype=torch.float64)
    for b, arc in enumerate(sentences):
        n = len(arc)
        batch[b, :n, :n] = torch.from_numpy(arc)
        batch[b, :, n:] = -torch.inf
        batch[b].fill_diagonal_(-torch.inf)
    return batch.requires_grad_(), torch.tensor([len(arc) - 1 for arc in sentences])


def by_enumeration(arc: np.ndarray, single_root: bool, projective: bool) -> float:
    scores = [brute_force.tree_score(tree, arc) for tree in brute_force.trees(len(arc) - 1, single_root, projective)]
    return float(torch.tensor(scores, dtype=torch.float64).logsumexp(0))


@pytest.mark.parametrize(("single_root", "projective"), KINDS)
@given(seed=st.integers(0, 2**32 - 1), lengths=st.lists(st.integers(1, 4), min_size=1, max_size=3))
@settings(max_examples=20)
def test_log_partition_equals_enumeration(single_root: bool, projective: bool, seed: int, lengths: list[int]) -> None:
    rng = np.random.default_rng(seed)
    sentences = [rng.normal(0, 3, (n + 1, n + 1)) for n in lengths]
    logz = crf.log_partition(*padded(sentences), single_root, projective)
    expected = [by_enumeration(arc, single_root, projective) for arc in sentences]
    torch.testing.assert_close(logz, torch.tensor(expected, dtype=torch.float64), atol=1e-7, rtol=1e-7)


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("scale", [1.0, 20.0, 300.0])
def test_sums_and_marginals_hold_at_any_scale(single_root: bool, scale: float) -> None:
    rng = np.random.default_rng(0)
    sentences = [rng.normal(0, scale, (n + 1, n + 1)) for n in (4, 1, 3)]
    arc, lengths = padded(sentences)
    logz = crf.log_partition(arc, lengths, single_root)
    expected = [by_enumeration(scores, single_root, False) for scores in sentences]
    torch.testing.assert_close(logz, torch.tensor(expected, dtype=torch.float64), atol=1e-7, rtol=1e-9)
    (marginals,) = torch.autograd.grad(logz.sum(), arc)
    position = torch.arange(arc.shape[1])
    is_word = ((position > 0) & (position <= lengths[:, None])).double()
    torch.testing.assert_close(marginals.sum(2), is_word, atol=1e-7, rtol=0)
    if single_root:
        torch.testing.assert_close(marginals[:, :, 0].sum(1), torch.ones(3).double(), atol=1e-7, rtol=0)


@pytest.mark.parametrize("single_root", [True, False])
def test_both_ways_of_summing_agree_on_a_long_sentence(single_root: bool) -> None:
    arc, lengths = padded([np.random.default_rng(1).normal(0, 2, (41, 41))])
    determinant = crf._determinant(arc, lengths, single_root)
    elimination = crf._elimination(arc, lengths, single_root)
    torch.testing.assert_close(determinant, elimination, atol=1e-8, rtol=1e-10)


@pytest.mark.parametrize("spread", [1.0, 2 * crf.WIDEST])
@pytest.mark.parametrize(("single_root", "projective"), KINDS)
def test_gradient(single_root: bool, projective: bool, spread: float) -> None:
    arc = torch.randn(1, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    arc[0, 1, 2] = spread
    arc[0].fill_diagonal_(-torch.inf)

    def logz(free: torch.Tensor) -> torch.Tensor:
        return crf.log_partition(arc.masked_scatter(arc.isfinite(), free), torch.tensor([3]), single_root, projective)

    assert torch.autograd.gradcheck(logz, arc[arc.isfinite()].requires_grad_())


def test_layout_of_torch_struct() -> None:
    arc = torch.arange(9.0).view(1, 3, 3)
    assert crf.to_torch_struct(arc)[0].tolist() == [[3.0, 7.0], [5.0, 6.0]]


@pytest.mark.parametrize("scale", [1.0, 20.0, 60.0])
@pytest.mark.parametrize("single_root", [True, False])
def test_marginals_of_the_pruner_are_the_gradient(scale: float, single_root: bool) -> None:
    rng = np.random.default_rng(5)
    arc, lengths = padded([(scale * rng.normal(size=(n + 1, n + 1))).astype(np.float32) for n in (1, 7, 20)])
    crf.log_partition(arc, lengths, single_root).sum().backward()
    assert arc.grad is not None
    found = arc_marginals(arc.detach().nan_to_num(neginf=0.0).numpy(), lengths.numpy(), single_root)
    for b, n in enumerate(lengths.tolist()):
        np.testing.assert_allclose(found[b, 1 : n + 1], arc.grad[b, 1 : n + 1].numpy(), atol=1e-9)


@pytest.mark.parametrize(("single_root", "projective"), KINDS)
def test_marginals_are_shares_of_all_trees(single_root: bool, projective: bool) -> None:
    rng = np.random.default_rng(3)
    sentences = [rng.normal(0, 2, (n + 1, n + 1)) for n in (4, 2)]
    arc, lengths = padded(sentences)
    (found,) = torch.autograd.grad(crf.log_partition(arc, lengths, single_root, projective).sum(), arc)
    for b, scores in enumerate(sentences):
        n = len(scores) - 1
        trees = list(brute_force.trees(n, single_root, projective))
        weights = torch.tensor([brute_force.tree_score(tree, scores) for tree in trees]).softmax(0)
        expected = np.zeros((n + 1, n + 1))
        for tree, weight in zip(trees, weights.tolist()):
            for m in range(1, n + 1):
                expected[m, tree[m]] += weight
        np.testing.assert_allclose(found[b, 1 : n + 1, : n + 1], expected[1:], atol=1e-6)
