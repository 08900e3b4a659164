"""Checkpoint files: tensors, and settings and vocabulary as JSON. Reading one runs nothing that is in the file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from arbora.model.settings import from_plain, to_plain

KEY = "arbora"
FORMAT = 1
"""Version of what stands under `KEY`."""


class Checkpoint(NamedTuple):
    """What a checkpoint of a parser says."""

    settings: dict[str, Any]  # arguments of `Parser` by name
    vocabulary: dict[str, Any]  # as `Vocabulary.as_dict` gives it
    weights: dict[str, Tensor]


def describe(settings: dict[str, Any], vocabulary: dict[str, Any]) -> str:
    """Settings and vocabulary as JSON, to stand under `KEY` in a checkpoint."""
    plain = {name: to_plain(value) for name, value in settings.items()}
    return json.dumps({"format": FORMAT, "settings": plain, "vocabulary": vocabulary}, ensure_ascii=False)


def understand(description: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings and vocabulary out of what `describe` wrote.

    Raises:
        ValueError: when it is of another format, or names what is not a setting of arbora.
    """
    saved = json.loads(description)
    if saved["format"] != FORMAT:
        raise ValueError(
            f"has format {saved['format']}, this version of arbora reads {FORMAT}; train or export it anew"
        )
    return {name: from_plain(value) for name, value in saved["settings"].items()}, saved["vocabulary"]


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Turn whatever a strange checkpoint makes the code below raise into one line that names the file."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path}: {reason if len(reason) < 300 else reason[:300] + '...'}") from None


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Read a checkpoint that `arbora train` wrote. Anything else is refused."""
    with open(path, "rb") as file:
        try:
            checkpoint = torch.load(file, map_location="cpu", weights_only=True)
        except Exception:  # what a damaged file makes the reader raise is not documented
            what = "not a checkpoint, or a damaged one, or one with code in it"
            raise ValueError(f"{path}: {what}; nothing was run") from None
    if not isinstance(checkpoint, dict) or not isinstance(checkpoint.get(KEY), str):
        raise ValueError(f"{path}: a checkpoint, but not one of arbora: it has no settings and vocabulary")
    with naming(path):
        return Checkpoint(*understand(checkpoint[KEY]), checkpoint["state_dict"])
