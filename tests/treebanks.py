"""Folder of treebanks for some tests: `ARBORA_TREEBANKS`, or `shared/treebanks` next to the checkout."""

import os
from pathlib import Path

FOLDER = Path(os.environ.get("ARBORA_TREEBANKS") or Path(__file__).resolve().parents[2] / "shared" / "treebanks")


def development_parts() -> list[Path]:
    """The development part of each treebank; none if there are no treebanks."""
    return sorted(FOLDER.glob("*/dev.conllu"))
