"""Layers that encoders and scorers share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class SharedDropout(nn.Module):
    """Dropout with one mask for all positions of a sentence (Gal and Ghahramani, 2016)."""

    def __init__(self, share: float) -> None:
        super().__init__()
        if not 0 <= share < 1:
            raise ValueError(f"dropout must be at least 0 and less than 1, got {share}")
        self.share = share

    def forward(self, vectors: Tensor) -> Tensor:
        if not self.training or not self.share:
            return vectors
        mask = torch.empty_like(vectors[:, :1]).bernoulli_(1 - self.share).div_(1 - self.share)
        return vectors * mask


GROUP_CELLS = 250_000
"""Numbers of words that `by_groups` processes at once. On a CPU, groups that fit the cache took two thirds of the time
of a whole batch."""


def by_groups(layer: nn.Module, compute: Callable[[Tensor], Tensor], vectors: Tensor) -> Tensor:
    """Apply a layer to each word, (..., inputs) to (..., size); when parsing on a CPU, group by group.

    Args:
        layer: module of the layer; in training, its dropout needs whole sentences.
        compute: applies the layer to any number of words.
        vectors: (..., inputs).
    """
    alone = not layer.training and not torch.is_grad_enabled() and vectors.device.type == "cpu"
    if not alone or vectors.numel() <= 2 * GROUP_CELLS:
        return compute(vectors)
    words, size = vectors.flatten(0, -2), max(1, GROUP_CELLS // vectors.shape[-1])
    first = compute(words[:size])
    found = first.new_empty(len(words), first.shape[-1])
    found[:size] = first
    for start in range(size, len(words), size):
        found[start : start + size] = compute(words[start : start + size])
    whole: Tensor = found.unflatten(0, vectors.shape[:-1])
    return whole


WIDE = torch.backends.mkldnn.is_available() and torch.backends.cpu.get_cpu_capability() == "AVX512"
"""Whether products on the CPU go to oneDNN. Torch gives those of single precision to MKL, which uses half of the width
of such a CPU if it is not Intel's."""


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x @ weight.t() + bias as `torch.nn.functional.linear` computes it, to rounding, and faster on some CPUs.

    Args:
        x: (..., inputs).
        weight: (outputs, inputs).
        bias: (outputs,).
    """
    plain = x.device.type != "cpu" or x.dtype != torch.float32 or not x.numel()
    if plain or not WIDE or torch.compiler.is_exporting():
        return F.linear(x, weight, bias)
    rows = x.flatten(0, -2)
    compute = _Product.apply if torch.is_grad_enabled() else multiply
    found: Tensor = compute(_whole(rows), weight, bias)[: len(rows)]
    return found.view(*x.shape[:-1], -1)


def sum_of_products(x: Tensor, y: Tensor) -> Tensor:
    """x.t() @ y, without gradients, (P, n) and (P, m) to (n, m): the gradient of weights over P positions."""
    left, right = factor(_whole(x)), factor(_whole(y))
    if left.dtype == torch.bfloat16:  # torch gives it to oneDNN, without the copies that `multiply` needs
        return torch.mm(left.t(), right).float()
    return multiply(left.t(), right.t())


def whole(count: int) -> int:
    """Round up to one of eight numbers of rows between powers of two. oneDNN compiles a kernel for each number."""
    step = 1 << max(0, (count - 1).bit_length() - 4)
    return -(-count // step) * step


def _whole(x: Tensor) -> Tensor:
    """Add rows of zeros."""
    more = whole(len(x)) - len(x)
    return F.pad(x, (0, 0, 0, more)) if more else x


def multiply(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`product` without gradients, of numbers in single precision on the CPU, for a `whole` number of rows."""
    if not WIDE:
        return F.linear(x, weight, bias)
    factors = factor(x), factor(weight), None if bias is None else factor(bias)
    found: Tensor = torch.ops.mkldnn._linear_pointwise(*factors, "none", [], "")
    return found.float()


def factor(x: Tensor) -> Tensor:
    """Round the factor of a product to bfloat16 where autocast is enabled. All other numbers keep single precision."""
    return x.bfloat16() if WIDE and torch.is_autocast_enabled("cpu") else x


class _Product(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")  # type: ignore[untyped-decorator]
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return multiply(x, weight, bias)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        gradient = gradients[0].contiguous()
        of_x = multiply(gradient, weight.t()) if ctx.needs_input_grad[0] else None
        of_weight = sum_of_products(gradient, x) if ctx.needs_input_grad[1] else None
        return of_x, of_weight, gradient.sum(0) if ctx.needs_input_grad[2] else None


class Linear(nn.Linear):
    """A linear layer by `product`."""

    def forward(self, vectors: Tensor) -> Tensor:
        return product(vectors, self.weight, self.bias)


SLOPE = 0.1
"""Slope of the nonlinearity of projections below zero."""


class Projection(nn.Sequential):
    """A vector of a word in one role, such as head or modifier."""

    def __init__(self, inputs: int, size: int, dropout: float) -> None:
        linear = Linear(inputs, size)
        nn.init.orthogonal_(linear.weight)
        nn.init.zeros_(linear.bias)
        super().__init__(linear, nn.LeakyReLU(SLOPE, inplace=True), SharedDropout(dropout))

    def forward(self, vectors: Tensor) -> Tensor:
        """Words (..., inputs) in this role, (..., size)."""
        return by_groups(self, super().forward, vectors)
