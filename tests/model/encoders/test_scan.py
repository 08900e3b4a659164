import pytest
import torch

from arbora.model.encoders.scan import linear_scan


def test_scan_follows_the_recurrence() -> None:
    inputs, forget = torch.randn(7, 2, 3), torch.rand(7, 2, 3)
    state = torch.zeros(2, 3)
    for t, found in enumerate(linear_scan(inputs, forget)):
        state = forget[t] * state + (1 - forget[t]) * inputs[t]
        torch.testing.assert_close(found, state)


@pytest.mark.parametrize("length", [1, 2, 5])
def test_gradient(length: int) -> None:
    inputs = torch.randn(length, 2, dtype=torch.float64, requires_grad=True)
    forget = torch.rand(length, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(linear_scan, (inputs, forget))
