"""Batches as torch tensors on a device."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from arbora.data.batch import Batch


def to_tensors(batch: Batch[Any], device: torch.device | str = "cpu") -> Batch[Tensor]:
    """Copy a batch to a device; on the CPU, tensors share the memory of its arrays."""
    names = (item.name for item in fields(batch) if "forms" not in item.name)
    arrays: dict[str, Any] = {name: torch.as_tensor(getattr(batch, name), device=device) for name in names}
    return Batch(**arrays, forms=batch.forms, distinct_forms=batch.distinct_forms)


def numbers(vectors: Tensor) -> NDArray[np.floating]:
    """Prepare vectors (..., size) on a CPU for kernels: (positions, size), without gradients, at least float32."""
    vectors = vectors.detach().reshape(-1, vectors.shape[-1])
    return (vectors if vectors.dtype == torch.float64 else vectors.float()).contiguous().numpy()
