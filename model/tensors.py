"""Batches as torch tensors on a device."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from arbora.data.batch import Batch


def to_tensors(batch: Batch[Any], device: torch.device | str = "cpu") -> Batch[Tensor]:
    """Copy a batch to a device; on the CPU its arrays are shared."""
    names = (item.name for item in fields(batch) if item.name != "forms")
    arrays: dict[str, Any] = {name: torch.as_tensor(getattr(batch, name), device=device) for name in names}
    return Batch(**arrays, forms=batch.forms)
