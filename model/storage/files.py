"""Helpers for reading and writing stored parsers in all formats."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path, PurePosixPath

WEIGHTS_FILE = "model.safetensors"
LINEAR = "arbora_linear"
"""Entry in the header of a file with a linear model, which comes first in it."""


def is_inside(name: str) -> bool:
    """Return whether a relative path, written with slashes, stays inside of its folder."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and not set(name) & {"\\", ":", "\0"}


def is_linear(path: str | Path) -> bool:
    """Return whether a file, or the weights in a folder of `arbora export`, are those of a linear model."""
    file = Path(path) / WEIGHTS_FILE if Path(path).is_dir() else Path(path)
    header = b'{"__metadata__":{"' + LINEAR.encode()
    try:
        with open(file, "rb") as contents:
            return contents.read(8 + len(header))[8:] == header  # after the size of the header
    except OSError:
        return False


def check_format(found: object, readable: tuple[int, ...]) -> None:
    """Raise an error if this version does not know the format of a file."""
    if found not in readable:
        known = " and ".join(map(str, readable))
        raise ValueError(
            f"has format {str(found)[:20]}, this version of arbora reads {known}; "
            "use the version that wrote it, or train or export it again"
        )


@cache
def made_with() -> dict[str, str]:
    """Return the version of arbora, and the revision of its source in a checkout."""
    made = {"version": version("arbora")}
    root = Path(__file__).resolve().parents[2]
    if (root / ".git").exists():
        command = ["git", "-C", str(root), "rev-parse", "--short", "HEAD"]
        with suppress(OSError, subprocess.SubprocessError):
            made["revision"] = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    return made


@contextmanager
def naming_file(path: str | Path) -> Iterator[None]:
    """Turn errors that a damaged file causes in the block into one line that names the file."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, RuntimeError, ArithmeticError, MemoryError) as error:
        reason = " ".join(str(error).split())
        if isinstance(error, KeyError):
            reason = f"not a parser, or damaged: it has no entry {reason}"
        raise ValueError(f"{path}: {reason if len(reason) < 300 else reason[:300] + '...'}") from None
