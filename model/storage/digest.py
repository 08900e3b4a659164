"""A digest of a stored parser, by which runs recognise that it has not changed."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path


def digest_of_model(path: str | Path) -> str:
    """Return a digest of a checkpoint, or of all files of an exported folder and their names."""
    path = Path(path)
    digest = blake2b()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            digest.update(str(file.relative_to(path)).encode())
            with open(file, "rb") as contents:
                while data := contents.read(1 << 20):
                    digest.update(data)
    return digest.hexdigest()
