"""The output folder of a corpus, on any file system of fsspec. Files appear complete, and only one driver writes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from arbora.data.partial import lock

RUN, PLAN, MANIFEST = "run.json", "plan.json", "manifest.jsonl"
SHARDS, MERGED, TEMPORARY = "shards", "merged", "temporary"
WRITTEN = (RUN, SHARDS, MERGED, TEMPORARY, PLAN, MANIFEST)
"""All files of a run; the first marks a folder as the output of a run."""

SECONDS_OF_SILENCE = 120.0
"""If files cannot be locked, a driver counts as dead after so long without a new status."""


class Folder:
    """An output folder.

    Args:
        url: a local path, or a URL of fsspec.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.fs, self.root = url_to_fs(url)
        self.is_local = isinstance(self.fs, LocalFileSystem)

    def path(self, name: str) -> str:
        """Return the path of a file of the folder on its file system."""
        return f"{self.root}/{name}"

    @contextmanager
    def create(self, name: str) -> Iterator[IO[bytes]]:
        """Open a file that gets its name when the block ends without an error, and is removed otherwise."""
        temporary, path = self.path(f"{TEMPORARY}/{uuid4().hex}"), self.path(name)
        self.fs.makedirs(os.path.dirname(temporary), exist_ok=True)
        self.fs.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            with self.fs.open(temporary, "wb") as file:
                yield file
                file.flush()
                if self.is_local:
                    os.fsync(file.fileno())
            if self.is_local:
                os.replace(temporary, path)
            else:
                self.fs.mv(temporary, path)
        except BaseException:
            with suppress(Exception):
                self.fs.rm_file(temporary)
            raise

    def write_json(self, name: str, contents: Any) -> None:
        """Write a small file."""
        with self.create(name) as file:
            file.write((json.dumps(contents, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace"))

    def read_json(self, name: str) -> Any:
        """Read a small file; None if there is none."""
        try:
            return json.loads(self.fs.cat_file(self.path(name)))
        except FileNotFoundError:
            return None
        except ValueError:
            raise ValueError(f"{self.url}/{name}: damaged; give --replace to start again") from None

    def committed(self) -> dict[int, str]:
        """Return the names of the outputs of committed shards (those with a record), by number."""
        try:
            listed = self.fs.ls(self.path(SHARDS), detail=False, refresh=True)
        except FileNotFoundError:
            return {}
        names = [os.path.basename(path) for path in listed]
        recorded = {name.removesuffix(".json") for name in names if name.endswith(".json")}
        outputs = {name.partition(".")[0]: name for name in names if not name.endswith(".json")}
        return {int(number): name for number, name in outputs.items() if number in recorded}

    def remove(self, *names: str) -> None:
        """Remove files and folders: leftovers of lost workers, or everything that a run has written."""
        for name in names:
            with suppress(FileNotFoundError):
                self.fs.rm(self.path(name), recursive=True)

    @contextmanager
    def one_driver(self, status: str) -> Iterator[None]:
        """Refuse a second driver of the same shards while the block runs.

        Args:
            status: name of its status file, which the driver writes every few seconds.

        Raises:
            ValueError: there is another driver.
        """
        refusal = f"another run is writing {self.url}; wait for it, or give another folder"
        self.fs.makedirs(self.root, exist_ok=True)
        if self.is_local:
            path = Path(self.path(f".{status}.lock"))
            with open(path, "a+b") as file:
                lock(file, path, refusal)
                yield
            return
        before = self.read_json(status) or {}
        if before.get("state") == "running" and time.time() - before["updated"] < SECONDS_OF_SILENCE:
            raise ValueError(f"{refusal} (its status was written {time.time() - before['updated']:.0f} s ago)")
        yield
