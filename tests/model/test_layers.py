"""Products on the CPU, against those of torch."""

import pytest
import torch
from torch.nn import functional as F

from arbora.model import layers


@pytest.mark.parametrize("wide", [False, layers.WIDE])
@pytest.mark.parametrize("shape", [(1, 7), (37, 7), (3, 11, 7), (70, 7), (0, 7)])
@pytest.mark.parametrize("with_bias", [False, True])
def test_products_and_gradients_are_those_of_torch(
    shape: tuple[int, ...], with_bias: bool, wide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layers, "WIDE", wide)
    torch.manual_seed(0)
    x, weight, bias = torch.randn(shape), torch.randn(5, 7), torch.randn(5) if with_bias else None
    given = [tensor.requires_grad_() for tensor in (x, weight, bias) if tensor is not None]
    of_result = torch.randn(*shape[:-1], 5)

    found, expected = layers.product(x, weight, bias), F.linear(x, weight, bias)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    gradients = (torch.autograd.grad(result, given, of_result) for result in (found, expected))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(layers.product(x, weight, bias), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not layers.WIDE, reason="products are torch's own on this CPU")
@pytest.mark.parametrize("shape", [(37, 7), (3, 11, 7)])
def test_autocast_rounds_the_factors_of_products(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    given = [tensor.requires_grad_() for tensor in (torch.randn(shape), torch.randn(5, 7), torch.randn(5))]
    of_result = torch.randn(*shape[:-1], 5)
    expected = layers.product(*given)
    with torch.autocast("cpu", torch.bfloat16):
        found = layers.product(*given)
    pairs = [(found, expected)]
    pairs += zip(*(torch.autograd.grad(result, given, of_result) for result in (found, expected)), strict=True)
    for one, other in pairs[:-1]:
        assert one.dtype == torch.float32
        assert not torch.allclose(one, other, rtol=1e-5)
        torch.testing.assert_close(one, other, rtol=0.02, atol=0.1)
    torch.testing.assert_close(*pairs[-1])  # of the bias, a sum


def test_few_numbers_of_rows_are_distinct() -> None:
    counts = range(1, 5000)
    assert all(count <= layers.whole(count) <= 1.13 * count for count in counts)
    assert len({layers.whole(count) for count in counts}) < 90
