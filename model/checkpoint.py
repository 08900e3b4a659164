"""Trained parsers from checkpoint files, without running anything that is in the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from arbora.data.vocabulary import Vocabulary
from arbora.model.parser import CHECKPOINT_KEY, FORMAT, Parser
from arbora.model.settings import from_plain


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """What a checkpoint of arbora holds: tensors, and settings and vocabulary as JSON. Anything else is refused."""
    with open(path, "rb") as file:
        try:
            checkpoint = torch.load(file, map_location="cpu", weights_only=True)
        except Exception:  # what a damaged file makes the reader raise is not documented
            what = "not a checkpoint, or a damaged one, or one with code in it"
            raise ValueError(f"{path}: {what}; nothing was run") from None
    if not isinstance(checkpoint, dict) or not isinstance(checkpoint.get(CHECKPOINT_KEY), str):
        raise ValueError(f"{path}: a checkpoint, but not one of arbora: it has no settings and vocabulary")
    return checkpoint


def load(path: str | Path) -> Parser:
    """A parser as it was trained, on the CPU and ready to parse.

    Args:
        path: a checkpoint that `arbora train` wrote.
    """
    checkpoint = read_checkpoint(path)
    try:
        saved = json.loads(checkpoint[CHECKPOINT_KEY])
        if saved["format"] != FORMAT:
            raise ValueError(
                f"has format {saved['format']}, this version of arbora reads {FORMAT}; train or export it anew"
            )
        settings = {name: from_plain(value) for name, value in saved["settings"].items()}
        parser = Parser(Vocabulary.from_dict(saved["vocabulary"]), **settings)
        parser.load_state_dict(checkpoint["state_dict"])
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path}: {reason if len(reason) < 300 else reason[:300] + '...'}") from None
    return parser.eval()
