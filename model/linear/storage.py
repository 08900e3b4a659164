"""Files of linear models: one of safetensors, with settings and vocabulary as JSON in its header.

Tables are kept sparse: a bit for each weight, and the values of those that are not zero, as numbers of four or two
bytes, or as whole numbers of one byte with one scale. A folder of `arbora export` has the same file, with the
vocabulary in a file of its own. Reading a file runs nothing that is in it, and does not import torch.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from arbora.data.vocabulary import Vocabulary
from arbora.decoders import Decoder
from arbora.model.linear.backend import Linear, LinearModel
from arbora.model.linear.pruners import LinearCascade
from arbora.model.storage.files import LINEAR as KEY
from arbora.model.storage.files import check_format, made_with, naming_file
from arbora.model.storage.folder import WEIGHTS, Precision, read_config, read_file, read_tokenizer, read_vocabulary
from arbora.model.storage.settings import from_plain, to_plain

FORMAT = 1
READABLE = (1,)


class LinearFile(NamedTuple):
    """A stored linear model."""

    model: LinearModel
    training: dict[str, Any]  # facts about training, as plain data
    tables: dict[str, NDArray[Any]]  # what else was stored


def to_bytes(
    model: LinearModel,
    training: dict[str, Any],
    precision: Precision = "fp32",
    vocabulary: bool = True,
    **more: NDArray[Any],
) -> bytes:
    """A model as the contents of a file.

    Args:
        model: to store.
        training: facts about training.
        precision: of weights.
        vocabulary: store this too.
        more: other tables to store with it, as they are.
    """
    arrays: dict[str, NDArray[Any]] = {}
    tables = {"weights": model.weights, **more}
    if model.pruner is not None:
        tables["pruner"] = model.pruner.weights.ravel()
    if isinstance(model.pruner, LinearCascade):
        tables["alphas"] = model.pruner.alphas
    for name, values in tables.items():
        if values.dtype == np.float32 and precision == "int8":
            scale = np.float32(np.abs(values).max(initial=0) / 127 or 1)
            values = np.rint(values / scale).astype(np.int8)
            arrays[f"{name}.scale"] = np.array([scale], np.float32)
        elif values.dtype == np.float32 and precision == "fp16":
            values = values.astype(np.float16)
        arrays[f"{name}.there"] = np.packbits(values != 0)
        arrays[f"{name}.values"] = values[values != 0]
        arrays[f"{name}.size"] = np.array([len(values)], np.int64)
    described = {
        "format": FORMAT,
        "made_with": made_with(),
        "model": to_plain(model.settings),
        "decoder": to_plain(model.decoder),
        "vocabulary": model.vocabulary.as_dict() if vocabulary else None,
        "training": training,
    }
    return save(arrays, {KEY: json.dumps(described, ensure_ascii=False)})


def write_linear(path: Path, contents: bytes) -> None:
    """Write a file by way of a temporary one, so that an interrupt leaves the old one whole."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes(contents)
    os.replace(temporary, path)


def read_linear(path: str | Path) -> LinearFile:
    """Read a linear model from a file, or from a folder of `arbora export`.

    Raises:
        ValueError: the file is damaged, or of another format.
    """
    path = Path(path)
    config = read_config(path) if path.is_dir() else None
    contents = path.read_bytes() if config is None else read_file(path, WEIGHTS, config)
    with naming_file(path):
        try:
            arrays = load(contents)
            described = json.loads(
                json.loads(contents[8 : 8 + int.from_bytes(contents[:8], "little")])["__metadata__"][KEY]
            )
        except SafetensorError as error:
            raise ValueError(f"not a linear model, or damaged: {error}") from None
        check_format(described["format"], READABLE)
        tables = {name.removesuffix(".size"): _table(arrays, name) for name in arrays if name.endswith(".size")}
        settings, decoder = from_plain(described["model"]), from_plain(described["decoder"])
        if not isinstance(settings, Linear) or not isinstance(decoder, Decoder):
            raise ValueError("its settings are not those of a linear model")
        stored = described["vocabulary"] if config is None else read_vocabulary(path, config)
        vocabulary = Vocabulary.from_dict(stored)
        of_model = (tables.pop(name, None) for name in ("weights", "pruner", "alphas"))
        model = LinearModel(vocabulary, settings, decoder, *of_model)
        model.tokenizer = None if config is None else read_tokenizer(path, config)
        training = described["training"] | {"made_with": described["made_with"]}
        return LinearFile(model, training, tables)


def _table(arrays: dict[str, NDArray[Any]], entry: str) -> NDArray[Any]:
    name, size = entry.removesuffix(".size"), int(arrays[entry][0])
    values, scale = arrays[f"{name}.values"], arrays.get(f"{name}.scale")
    there = np.unpackbits(arrays[f"{name}.there"], count=size).astype(np.bool_)
    if np.count_nonzero(there) != len(values):
        raise ValueError(f"{name} has {len(values)} values for {np.count_nonzero(there)} weights")
    table = np.zeros(size, values.dtype if values.dtype == np.float64 else np.float32)
    table[there] = values if scale is None else values * scale[0]
    return table
