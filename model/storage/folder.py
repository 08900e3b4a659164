"""Exported parsers: a folder of tensors and JSON that needs nothing else. Reading one runs nothing that is in it.

    model.safetensors   weights
    vocabulary.json     words, characters, tags and labels
    config.json         settings, facts about training, figures, and size and checksum of every other file that is read
    files/              what an encoder needs besides its weights, such as a tokenizer
    onnx/               the network as graphs, one per module, where they were asked for
    README.md           the model card, for people

Weights are kept in one of three ways. `fp16` halves their size; `int8` keeps matrices as whole numbers of one byte,
with one scale a row, in a quarter of it. Both are turned back into numbers of four bytes when they are read, so that
weights are rounded and everything is computed as before. Graphs of `int8` multiply whole numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from arbora.model.storage.checkpoint import Checkpoint, check_format, is_inside, naming_file, read_checkpoint
from arbora.model.storage.settings import from_plain, to_plain

CONFIG, WEIGHTS, VOCABULARY, CARD = "config.json", "model.safetensors", "vocabulary.json", "README.md"
FILES, GRAPHS = "files/", "onnx/"

KIND = "arbora parser"
FORMAT = 2
"""Version of the folder."""

READABLE = (1, 2)
"""Formats that can still be read; docs/formats.md lists them."""

Precision = Literal["fp32", "fp16", "int8"]

CHECKSUM = "sha256"
"""Entry of `config.json` with the checksum of all its other entries; format 1 has none."""

SCALE = ".scale"
"""Ending of the names of scales, which are stored next to their matrices."""


@dataclass
class Config:
    """Contents of `config.json`.

    Args:
        settings: of the parser and its decoder, as `to_plain` gives them.
        precision: of the weights.
        training: facts about training.
        made_with: version of arbora, and revision of its source where that is known.
        license: of the model, as its author names it.
        figures: accuracy and speed, one entry for each way of running the parser that was tried.
        files: size and checksum of all files that are read, by path.
        kind: what this is.
        format: of the folder.
    """

    settings: dict[str, Any]
    precision: Precision = "fp32"
    training: dict[str, Any] = field(default_factory=dict)
    made_with: dict[str, Any] = field(default_factory=dict)
    license: str | None = None
    figures: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    kind: str = KIND
    format: int = FORMAT


def read_parser(path: str | Path) -> Checkpoint:
    """Read a stored parser: a checkpoint of `arbora train`, or a folder of `arbora export`."""
    return read_folder(Path(path)) if Path(path).is_dir() else read_checkpoint(path)


def read_folder(folder: Path) -> Checkpoint:
    """Read an exported parser, every file of it checked."""
    config = read_config(folder)
    weights = _weights(folder, config)
    with naming_file(folder / VOCABULARY):
        vocabulary = json.loads(read_file(folder, VOCABULARY, config))
        if not isinstance(vocabulary, dict):
            raise ValueError("not a vocabulary")
    with naming_file(folder / CONFIG):
        settings = {name: from_plain(value) for name, value in config.settings.items()}
    files = {
        name.removeprefix(FILES): read_file(folder, name, config) for name in config.files if name.startswith(FILES)
    }
    return Checkpoint(settings, vocabulary, config.training, weights, files)


def read_config(folder: Path) -> Config:
    """Read and check `config.json`."""
    path = folder / CONFIG
    if not path.is_file():
        raise ValueError(f"{folder}: neither a checkpoint nor a folder of `arbora export`: it has no {CONFIG}")
    with naming_file(path):
        try:
            saved = json.loads(path.read_bytes())
        except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
            raise ValueError("not JSON, or damaged") from None
        if not isinstance(saved, dict) or saved.get("kind") != KIND:
            raise ValueError("not of a folder that `arbora export` wrote")
        check_format(saved.get("format"), READABLE)
        if saved["format"] > 1 and saved.pop(CHECKSUM, None) != _checksum(saved):
            raise ValueError("damaged or changed: its checksum does not fit; export the parser again")
        expected = {item.name for item in fields(Config)}
        if set(saved) != expected:
            different = ", ".join(sorted(map(str, set(saved) ^ expected)))
            raise ValueError(f"these entries are missing, or not expected: {different}")
        config = Config(**saved)
        _check_shape(config)
    return config


def _check_shape(config: Config) -> None:
    for name, kind in (("settings", dict), ("training", dict), ("made_with", dict), ("figures", list), ("files", dict)):
        if not isinstance(getattr(config, name), kind):
            raise ValueError(f"{name} has the wrong type")
    if config.precision not in get_args(Precision):
        raise ValueError(f"precision must be one of {', '.join(get_args(Precision))}")
    if not isinstance(config.license, str | None):
        raise ValueError("license has the wrong type")
    for name, entry in config.files.items():
        if not is_inside(name):
            raise ValueError(f"names the file {name}, which is not inside of the folder")
        if not (
            isinstance(entry, dict)
            and set(entry) == {"bytes", "sha256"}
            and type(entry["bytes"]) is int
            and isinstance(entry["sha256"], str)
        ):
            raise ValueError(f"files: {name} must have its bytes and sha256")
    for name in (WEIGHTS, VOCABULARY):
        if name not in config.files:
            raise ValueError(f"files does not list {name}")


def read_file(folder: Path, name: str, config: Config) -> bytes:
    """A file of the folder, which must be as it was when `config.json` was written."""
    path, entry = folder / name, config.files[name]
    if not path.is_file():
        raise ValueError(f"{path}: missing; {CONFIG} lists it")
    size = path.stat().st_size
    if size != entry["bytes"]:
        raise ValueError(f"{path}: damaged or changed: {size} bytes, where {CONFIG} says {entry['bytes']}")
    contents = path.read_bytes()
    if sha256(contents).hexdigest() != entry["sha256"]:
        raise ValueError(f"{path}: damaged or changed: its checksum is not the one in {CONFIG}")
    return contents


def write_folder(
    folder: Path,
    config: Config,
    vocabulary: Mapping[str, Any],
    weights: Mapping[str, Tensor],
    graphs: Mapping[str, bytes] | None = None,
) -> None:
    """Write a parser into a folder, which may hold `files/` already, and list everything in `config.json`.

    Args:
        folder: an existing folder.
        config: what to write; its list of files is filled in.
        vocabulary: as `Vocabulary.as_dict` gives it.
        weights: the parser's `state_dict`.
        graphs: the network as ONNX, by module.
    """
    (folder / WEIGHTS).write_bytes(save_tensors(pack(weights, config.precision), {"format": "pt"}))
    (folder / VOCABULARY).write_text(json.dumps(vocabulary, ensure_ascii=False, indent=0), encoding="utf-8")
    for name, graph in (graphs or {}).items():
        (folder / GRAPHS).mkdir(exist_ok=True)
        (folder / GRAPHS / f"{name}.onnx").write_bytes(graph)
    config.files = {
        path.relative_to(folder).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": sha256(path.read_bytes()).hexdigest(),
        }
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path not in (folder / CONFIG, folder / CARD)
    }
    write_config(folder, config)


def write_config(folder: Path, config: Config) -> None:
    """Write `config.json`, with a checksum of its own contents."""
    contents = asdict(config)
    text = json.dumps({**contents, CHECKSUM: _checksum(contents)}, ensure_ascii=False, indent=2)
    (folder / CONFIG).write_text(text + "\n", encoding="utf-8")


def _checksum(contents: Mapping[str, Any]) -> str:
    return sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a parser for `Config`."""
    return {name: to_plain(value) for name, value in settings.items()}


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
    contents = read_file(folder, WEIGHTS, config)
    with naming_file(folder / WEIGHTS):
        try:
            return unpack(load_tensors(contents))
        except SafetensorError as error:
            raise ValueError(f"not a file of safetensors, or a damaged one: {error}") from None
