"""Batches as torch tensors on a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from arbora.data.batch import Batch

ALIGNED = 8
"""Bytes of a number: arrays of a batch start at multiples of it when they are copied together."""


def to_tensors(batch: Batch[Any], device: torch.device | str = "cpu") -> Batch[Tensor]:
    """Copy a batch to a device, in one copy; on the CPU its arrays are shared."""
    names = [item.name for item in fields(batch) if item.name not in ("forms", "distinct_forms", "numpy")]
    arrays = [np.ascontiguousarray(getattr(batch, name)) for name in names]
    here: dict[str, Any] = dict(zip(names, arrays))
    there: dict[str, Any] = dict(zip(names, upload(arrays, device)))
    return replace(batch, **there, numpy=replace(batch, **here))


def upload(arrays: Sequence[NDArray[Any]], device: torch.device | str) -> list[Tensor]:
    """Tensors of arrays on a device, in one copy; on the CPU they share their memory."""
    device, tensors = torch.device(device), [torch.from_numpy(array) for array in arrays]
    if device.type == "cpu":
        return tensors
    sizes = [-(-tensor.nbytes // ALIGNED) * ALIGNED for tensor in tensors]
    packed = torch.zeros(sum(sizes), dtype=torch.uint8, pin_memory=device.type == "cuda")
    for piece, tensor in zip(packed.split(sizes), tensors):
        piece[: tensor.nbytes].view(tensor.dtype).copy_(tensor.reshape(-1))
    there = packed.to(device, non_blocking=True).split(sizes)
    return [piece[: tensor.nbytes].view(tensor.dtype).view(tensor.shape) for piece, tensor in zip(there, tensors)]


def download(tensors: Sequence[Tensor]) -> list[NDArray[Any]]:
    """Arrays of tensors of one type, in one copy; on the CPU they share their memory."""
    tensors = [tensor.detach() for tensor in tensors]
    if len(tensors) < 2 or tensors[0].device.type == "cpu":
        return [tensor.cpu().numpy() for tensor in tensors]
    packed = torch.cat([tensor.flatten() for tensor in tensors]).cpu().split([tensor.numel() for tensor in tensors])
    return [piece.view(tensor.shape).numpy() for piece, tensor in zip(packed, tensors)]


def numbers(vectors: Tensor) -> NDArray[np.floating]:
    """Prepare vectors (..., size) on a CPU for kernels: (positions, size), without gradients, at least float32."""
    vectors = vectors.detach().reshape(-1, vectors.shape[-1])
    return (vectors if vectors.dtype == torch.float64 else vectors.float()).contiguous().numpy()
