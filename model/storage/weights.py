"""Stored parsers with weights for torch: checkpoints, and exported folders that have them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from arbora.model.storage.checkpoint import Checkpoint, read_checkpoint
from arbora.model.storage.files import naming_file
from arbora.model.storage.folder import (
    CONFIG,
    FILES,
    WEIGHTS,
    Config,
    Precision,
    read_config,
    read_file,
    read_tokenizer,
    read_vocabulary,
)
from arbora.model.storage.settings import from_plain

SCALE = ".scale"
"""Ending of the names of scales, which are stored next to their matrices."""


def read_parser(path: str | Path) -> Checkpoint:
    """Read a stored parser: a checkpoint of `arbora train`, or a folder of `arbora export`."""
    return read_folder(Path(path)) if Path(path).is_dir() else read_checkpoint(path)


def read_folder(folder: Path) -> Checkpoint:
    """Read an exported parser, every file of it checked."""
    config = read_config(folder)
    weights = _weights(folder, config)
    vocabulary = read_vocabulary(folder, config)
    with naming_file(folder / CONFIG):
        settings = {name: from_plain(value) for name, value in config.settings.items()}
    files = {
        name.removeprefix(FILES): read_file(folder, name, config) for name in config.files if name.startswith(FILES)
    }
    return Checkpoint(settings, vocabulary, config.training, weights, files, read_tokenizer(folder, config))


def pack(weights: Mapping[str, Tensor], precision: Precision) -> dict[str, Tensor]:
    """Weights as they are kept on disk."""
    packed = {}
    for name, weight in weights.items():
        weight = weight.detach().cpu().contiguous()
        if precision == "fp32" or not weight.is_floating_point():
            packed[name] = weight.clone()  # safetensors wants no shared memory
        elif precision == "int8" and weight.dim() > 1:
            packed[name], packed[name + SCALE] = _quantise(weight.float())
        elif precision == "fp16" and weight.dim() > 1 and weight.abs().max() < torch.finfo(torch.float16).max:
            packed[name] = weight.half()
        else:
            packed[name] = weight.float()
    return packed


def _quantise(weight: Tensor) -> tuple[Tensor, Tensor]:
    """A matrix as whole numbers in -127..127 and what each of its rows (first axis) is to be multiplied by."""
    largest = weight.flatten(1).abs().amax(1)
    scale = torch.where(largest > 0, largest / 127, 1.0)
    shape = (-1, *(1 for _ in weight.shape[1:]))
    return (weight / scale.view(shape)).round().to(torch.int8), scale


def unpack(packed: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of `pack`, but for rounding."""
    weights = {}
    for name, weight in packed.items():
        if name.endswith(SCALE) and name.removesuffix(SCALE) in packed:
            continue
        if weight.dtype == torch.int8:
            scale = packed.get(name + SCALE)
            if scale is None or scale.shape != weight.shape[:1]:
                raise ValueError(f"{name} has no scale for each row")
            weights[name] = weight.float() * scale.view(-1, *(1 for _ in weight.shape[1:]))
        else:
            weights[name] = weight.float() if weight.dtype == torch.float16 else weight
    return weights


def _weights(folder: Path, config: Config) -> dict[str, Tensor]:
    if WEIGHTS not in config.files:
        raise ValueError(
            f"{folder}: has no weights for torch: give the checkpoint that it was made of, or export that with --torch"
        )
    contents = read_file(folder, WEIGHTS, config)
    with naming_file(folder / WEIGHTS):
        try:
            return unpack(load_tensors(contents))
        except SafetensorError as error:
            raise ValueError(f"not a file of safetensors, or a damaged one: {error}") from None


def packed_file(weights: Mapping[str, Tensor], precision: Precision) -> bytes:
    """Weights as a file of safetensors."""
    return save_tensors(pack(weights, precision), {"format": "pt"})
