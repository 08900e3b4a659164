"""Inputs that are accepted instead of numpy arrays of the right type."""

import numpy as np
import pytest

from arbora.decoders import Parts
from arbora.decoders.parts.conversion import as_array, as_float32, as_integers

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("learning", [False, True])
def test_tensors_are_detached_and_cast(dtype: str, learning: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    arc = torch.randn(2, 4, 4, generator=generator).to(getattr(torch, dtype)).requires_grad_(learning)
    sibling = torch.randn(2, 4, 4, 4, generator=generator).to(getattr(torch, dtype)).requires_grad_(learning)
    lengths, mask = torch.tensor([3, 2]), torch.ones(2, 4, 4, dtype=torch.bool)
    parts = Parts.from_dense(arc, lengths, mask, sibling=sibling)
    plain = [tensor.detach().double().numpy() for tensor in (arc, sibling)]
    expected = Parts.from_dense(plain[0], [3, 2], sibling=plain[1])
    np.testing.assert_array_equal(parts.arc_score, expected.arc_score)
    np.testing.assert_array_equal(parts.sibling, expected.sibling)
    assert parts.arc_score.dtype == np.float32
    listed = Parts.from_dense([arc[0], arc[1][:3, :3]])
    np.testing.assert_array_equal(listed.arc_score, expected.arc_score)
    doubled = parts.with_scores(arc_score=torch.from_numpy(parts.arc_score).requires_grad_(learning) * 2)
    np.testing.assert_array_equal(doubled.arc_score, 2 * parts.arc_score)


def test_scores_are_copied_from_a_dense_tensor() -> None:
    arc = torch.zeros(3, 3)
    parts = Parts.from_dense(arc)
    arc += 1
    assert parts.arc_score.tolist() == [0, 0, 0, 0]


def test_floats() -> None:
    scores, overflow = as_float32(np.array([1.0, -np.inf]))
    assert scores.dtype == np.float32
    assert overflow is None
    scores, overflow = as_float32(np.array([1e39, -1e39, np.inf, -np.inf, np.nan, 3.4e38]))
    assert overflow is not None
    assert overflow.tolist() == [True, True, False, False, False, False]


def test_integers() -> None:
    assert as_integers("n", [1, 2], np.int32).dtype == np.int32
    assert as_integers("n", [], np.int64).tolist() == []
    assert as_integers("n", np.array([3], dtype=np.uint64), np.int32).tolist() == [3]
    for wrong in (1.0, np.nan, "1", True):
        with pytest.raises(ValueError, match="^n must be integers, got "):
            as_integers("n", [wrong], np.int64)
    with pytest.raises(ValueError, match=f"^n must fit int32, got {2**31}$"):
        as_integers("n", [1, 2**31], np.int32)


def test_masked_arrays() -> None:
    masked = np.ma.masked_array([1, 2, 3], [False, True, False])
    assert as_array(masked, -np.inf).tolist() == [1, -np.inf, 3]
    assert as_array(np.ma.masked_array([True, True], [True, False]), False).tolist() == [False, True]
    assert as_array(np.ma.masked_array([1, 2])).tolist() == [1, 2]
    with pytest.raises(ValueError, match="must not have masked entries"):
        as_array(masked)
