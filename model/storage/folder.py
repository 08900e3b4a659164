"""Exported parsers: a folder of graphs and JSON that needs nothing else. Reading one runs nothing that is in it.

    onnx/               the network as graphs, which run without torch
    vocabulary.json     words, characters, tags and labels
    config.json         settings, facts about training, figures, and size and checksum of every other file that is read
    tokenizer.npz       the tokenizer, where there is one
    files/              what an encoder needs besides its weights, such as the tokenizer of a transformer
    model.safetensors   weights for torch, where they were asked for
    README.md           the model card, for people

Weights are kept in one of three ways. `fp16` halves their size. `int8` keeps matrices as whole numbers of one byte, in
a quarter of it, and the graphs multiply whole numbers; torch computes with what they stand for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Any, Literal, get_args

from arbora.model.storage.files import WEIGHTS_FILE, check_format, is_inside, naming_file
from arbora.model.storage.settings import to_plain
from arbora.model.tokenizer.tokenizer import Tokenizer

CONFIG, WEIGHTS, VOCABULARY, CARD = "config.json", WEIGHTS_FILE, "vocabulary.json", "README.md"
FILES, GRAPHS = "files/", "onnx/"
TOKENIZER = "tokenizer.npz"

KIND = "arbora parser"
FORMAT = 4
"""Version of the folder."""

READABLE = (1, 2, 3, 4)
"""Formats that can still be read; docs/formats.md lists them."""

Precision = Literal["fp32", "fp16", "int8"]

CHECKSUM = "sha256"
"""Entry of `config.json` with the checksum of all its other entries; format 1 has none."""


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
        onnx: what runs the graphs has to know besides them: `tags` that the parser reads, `kinds` of higher-order parts
            that it scores, and `pruning`, the settings of a pruner by marginals. None where there are no such graphs.
        temperature: by which scores of arcs and of labels are divided to have probabilities. Folders of parsers that
            were not calibrated have no such entry.
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
    onnx: dict[str, Any] | None = None
    temperature: list[float] | None = None
    kind: str = KIND
    format: int = FORMAT

    def graphs(self) -> list[str]:
        """Names of the graphs that run without torch."""
        names = (name.removeprefix(GRAPHS) for name in self.files if name.startswith(GRAPHS))
        return [name.removesuffix(".onnx") for name in names] if self.onnx is not None else []


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
            raise ValueError("not written by `arbora export`")
        check_format(saved.get("format"), READABLE)
        if saved["format"] > 1 and saved.pop(CHECKSUM, None) != _checksum(saved):
            raise ValueError("damaged or changed: its checksum does not match; export the parser again")
        if saved["format"] < FORMAT:
            saved["onnx"] = None  # their graphs are others
        expected = {item.name for item in fields(Config)}
        if different := (set(saved) ^ expected) - {"temperature"}:
            names = ", ".join(sorted(map(str, different)))
            raise ValueError(f"entries are missing or unknown: {names}")
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
    if config.temperature is not None and not _are_temperatures(config.temperature):
        raise ValueError("temperature must be two positive numbers")
    if not isinstance(config.onnx, dict | None):
        raise ValueError("onnx has the wrong type")
    if VOCABULARY not in config.files:
        raise ValueError(f"files does not list {VOCABULARY}")
    if WEIGHTS not in config.files and "words" not in config.graphs():
        earlier = " of this version: export the parser again" if config.format < FORMAT else ""
        raise ValueError(f"files lists neither {WEIGHTS} nor graphs{earlier}")


def _are_temperatures(values: object) -> bool:
    return isinstance(values, list) and len(values) == 2 and all(isinstance(t, float) and 0 < t < inf for t in values)


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


def write_folder(folder: Path, config: Config, vocabulary: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    """Write a parser into a folder, which may hold `files/` already, and list everything in `config.json`.

    Args:
        folder: an existing folder.
        config: what to write; its list of files is filled in.
        vocabulary: as `Vocabulary.as_dict` gives it.
        files: graphs, weights and the like, by path.
    """
    for name, contents in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(contents)
    (folder / VOCABULARY).write_text(
        json.dumps(vocabulary, ensure_ascii=False, separators=(",", ":")), encoding="utf-8"
    )
    config.files = {
        path.relative_to(folder).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": sha256(path.read_bytes()).hexdigest(),
        }
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path not in (folder / CONFIG, folder / CARD)
    }
    write_config(folder, config)


def read_tokenizer(folder: Path, config: Config) -> Tokenizer | None:
    """Read the tokenizer of an exported parser, if it has one."""
    if TOKENIZER not in config.files:
        return None
    with naming_file(folder / TOKENIZER):
        return Tokenizer.from_contents(read_file(folder, TOKENIZER, config))


def read_vocabulary(folder: Path, config: Config) -> dict[str, Any]:
    """Read the vocabulary of an exported parser, as `Vocabulary.as_dict` gave it."""
    with naming_file(folder / VOCABULARY):
        vocabulary = json.loads(read_file(folder, VOCABULARY, config))
        if not isinstance(vocabulary, dict):
            raise ValueError("not a vocabulary")
    return vocabulary


def write_config(folder: Path, config: Config) -> None:
    """Write `config.json`, with a checksum of its own contents."""
    contents = {name: value for name, value in asdict(config).items() if name != "temperature" or value is not None}
    text = json.dumps({**contents, CHECKSUM: _checksum(contents)}, ensure_ascii=False, indent=2)
    (folder / CONFIG).write_text(text + "\n", encoding="utf-8")


def _checksum(contents: Mapping[str, Any]) -> str:
    return sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a parser for `Config`."""
    return {name: to_plain(value) for name, value in settings.items()}
