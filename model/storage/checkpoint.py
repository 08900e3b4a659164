"""Checkpoint files: tensors, and settings and vocabulary as JSON. Reading a file never runs code from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from arbora.model.storage.files import check_format, is_inside, made_with, naming_file
from arbora.model.storage.settings import from_plain, to_plain
from arbora.model.tokenizer.tokenizer import Tokenizer

KEY = "arbora"
FORMAT = 2
"""Version of what is stored under `KEY`."""

READABLE = (1, 2)
"""Formats that can still be read; docs/formats.md lists them."""

FILES = "arbora_files"
"""Key of the files that a parser needs besides its weights, as tensors of bytes."""

TOKENIZER = "arbora_tokenizer"
"""Key of the tokenizer's contents, as a tensor of bytes."""

OF_TRAINING = ("training_decoder", "loss", "optimization")
"""Settings that only training reads; they describe a parser but are not part of it."""


class Checkpoint(NamedTuple):
    """A stored parser."""

    settings: dict[str, Any]  # arguments of `Network` by name
    vocabulary: dict[str, Any]  # as `Vocabulary.as_dict` gives it
    training: dict[str, Any]  # facts about training, as plain data
    weights: dict[str, Tensor]
    files: dict[str, bytes]  # what `Network.save_files` wrote, by path
    tokenizer: Tokenizer | None = None

    @contextmanager
    def unpacked(self) -> Iterator[Path | None]:
        """Unpack the files into a temporary folder; None if there are no files."""
        if not self.files:
            yield None
            return
        with TemporaryDirectory() as folder:
            for name, contents in self.files.items():
                if not is_inside(name):
                    raise ValueError(f"contains a file with the path {name}, which is outside of the folder")
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(contents)
            yield Path(folder)


def pack_files(folder: Path) -> dict[str, Tensor]:
    """Return all files below a folder as tensors of bytes, by path, which checkpoints can store without code."""
    return {
        path.relative_to(folder).as_posix(): torch.from_numpy(np.fromfile(path, np.uint8))
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def pack_tokenizer(tokenizer: Tokenizer | None) -> dict[str, Tensor]:
    """Return the entry of a checkpoint for a tokenizer, if there is one."""
    return {} if tokenizer is None else {TOKENIZER: torch.frombuffer(bytearray(tokenizer.contents), dtype=torch.uint8)}


def describe(settings: dict[str, Any], vocabulary: dict[str, Any]) -> str:
    """Return settings and vocabulary as JSON, for `KEY` in a checkpoint."""
    plain = {name: to_plain(value) for name, value in settings.items()}
    saved = {"format": FORMAT, "made_with": made_with(), "settings": plain, "vocabulary": vocabulary}
    return json.dumps(saved, ensure_ascii=False)


class Described(NamedTuple):
    """Settings, vocabulary and facts about training, as `describe` stores them."""

    settings: dict[str, Any]
    vocabulary: dict[str, Any]
    training: dict[str, Any]


def understand(description: str) -> Described:
    """Return settings, vocabulary and facts about training from the output of `describe`.

    Raises:
        ValueError: it has another format, or unknown settings.
    """
    saved = json.loads(description)
    check_format(saved["format"], READABLE)
    plain = saved["settings"]
    settings = {name: from_plain(value) for name, value in plain.items() if name not in OF_TRAINING}
    training = {name: plain[name] for name in OF_TRAINING if name in plain}
    return Described(settings, saved["vocabulary"], training | {"made_with": saved.get("made_with")})


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Read a checkpoint written by `arbora train`. Any other file is refused."""
    with open(path, "rb") as file:
        try:
            checkpoint = torch.load(file, map_location="cpu", weights_only=True)
        except Exception:  # the errors that the reader raises for damaged files are not documented
            what = "not a checkpoint, or a damaged one, or one with code in it"
            raise ValueError(f"{path}: {what}; nothing was run") from None
    if not isinstance(checkpoint, dict) or not isinstance(checkpoint.get(KEY), str):
        raise ValueError(f"{path}: not a checkpoint of arbora: it has no settings and vocabulary")
    with naming_file(path):
        settings, vocabulary, training = understand(checkpoint[KEY])
        files = {name: contents.numpy().tobytes() for name, contents in checkpoint.get(FILES, {}).items()}
        packed = checkpoint.get(TOKENIZER)
        tokenizer = None if packed is None else Tokenizer.from_contents(packed.numpy().tobytes())
        training |= _progress(checkpoint)
        return Checkpoint(settings, vocabulary, training, checkpoint["state_dict"], files, tokenizer)


def _progress(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """Return epochs of training and LAS on the development part, as recorded by Lightning."""
    facts: dict[str, Any] = {}
    for key, name, more in (("epoch", "epochs", 1), ("global_step", "steps", 0)):
        if isinstance(value := checkpoint.get(key), int):
            facts[name] = value + more
    callbacks = checkpoint.get("callbacks")
    for state in callbacks.values() if isinstance(callbacks, dict) else ():
        if isinstance(state, dict) and state.get("monitor") in ("dev/LAS", "dev/LAS_full"):  # the former in older files
            score = state.get("current_score")
            if isinstance(score, Tensor) and score.numel() == 1:
                facts["dev_las"] = round(float(score), 2)
    return facts
