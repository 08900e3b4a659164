"""Linear recurrence of a simple recurrent unit, as one differentiable operation.

Lei et al. (2018), "Simple recurrent units for highly parallelizable recurrence". All gates are computed in advance,
for all positions at once, so a step is one elementwise operation. The gradient runs the same recurrence backwards. O(n)
steps; memory for the states only.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, forget: Tensor) -> Tensor:
        states = torch.empty_like(inputs)
        state = torch.zeros_like(inputs[0])
        # c_t = f_t c_{t-1} + (1 - f_t) x_t
        for t in range(len(inputs)):
            state = torch.lerp(inputs[t], state, forget[t], out=states[t])
        ctx.save_for_backward(inputs, forget, states)
        return states

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        inputs, forget, states = ctx.saved_tensors
        total = grads[0].clone()
        for t in range(len(inputs) - 2, -1, -1):
            total[t].addcmul_(forget[t + 1], total[t + 1])
        previous = torch.cat([torch.zeros_like(states[:1]), states[:-1]])
        return total * (1 - forget), total * (previous - inputs)


def linear_scan(inputs: Tensor, forget: Tensor) -> Tensor:
    """States c_t = f_t c_{t-1} + (1 - f_t) x_t, starting from zero.

    Args:
        inputs: (n, ...) the x_t.
        forget: (n, ...) the f_t, in 0..1.

    Returns:
        (n, ...) the c_t.
    """
    states: Tensor = _Scan.apply(inputs.contiguous(), forget.contiguous())  # type: ignore[no-untyped-call]
    return states
