"""Layers that encoders and scorers share."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


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


SLOPE = 0.1
"""Slope of the nonlinearity of projections below zero."""


class Projection(nn.Sequential):
    """A vector of a word in one role, such as head or modifier."""

    def __init__(self, inputs: int, size: int, dropout: float) -> None:
        linear = nn.Linear(inputs, size)
        nn.init.orthogonal_(linear.weight)
        nn.init.zeros_(linear.bias)
        super().__init__(linear, nn.LeakyReLU(SLOPE, inplace=True), SharedDropout(dropout))

    def forward(self, vectors: Tensor) -> Tensor:
        """Words (..., inputs) in this role, (..., size)."""
        return by_groups(self, super().forward, vectors)
