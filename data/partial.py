"""Output that a later run can go on with: a partial file beside the output, and a journal of how far it is right.

A run writes `NAME.partial`, and renames it to `NAME` when it is whole. At marks, which a caller sets where he could go
on, the file is flushed to disk, and then `NAME.partial.json` is replaced. Whatever happens afterwards, up to an end by
SIGKILL or a lost power supply, the file is right as far as the journal says, and what stands behind is cut off.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, Protocol

try:
    import fcntl
except ImportError:  # on Windows two runs can write to one file unnoticed
    fcntl = None  # type: ignore[assignment]

FORMAT = 1
"""Version of the journal."""


@dataclass(frozen=True)
class Mark:
    """How far a run has come.

    Args:
        entries: sentences of the input that are done, valid or not.
        words: words of those that were parsed.
        parsed: how many were.
        unparsed: how many were not.
        input: digest of these sentences.
        size: bytes of the output.
        output: digest of these bytes.
    """

    entries: int = 0
    words: int = 0
    parsed: int = 0
    unparsed: int = 0
    input: str = ""
    size: int = 0
    output: str = ""


class Output(Protocol):
    """What is written to, with marks."""

    done: Mark  # what an earlier run has done

    def write(self, text: str) -> None:
        """Write text; lone surrogates become the bytes that they stand for (PEP 383)."""

    def mark(self, entries: int, words: int, parsed: int, unparsed: int, input: str) -> None:
        """Note that all of this is written; the arguments are those of `Mark`."""


@dataclass
class _Partial:
    file: IO[bytes]
    journal: Path
    settings: Mapping[str, Any]
    done: Mark
    digest: Any = field(default_factory=blake2b)
    size: int = 0

    def write(self, text: str) -> None:
        data = text.encode("utf-8", "surrogateescape")
        self.file.write(data)
        self.digest.update(data)
        self.size += len(data)

    def mark(self, entries: int, words: int, parsed: int, unparsed: int, input: str) -> None:
        self.file.flush()
        os.fsync(self.file.fileno())
        self.done = Mark(entries, words, parsed, unparsed, input, self.size, self.digest.hexdigest())
        contents = json.dumps({"format": FORMAT, "settings": self.settings, "done": asdict(self.done)}, indent=1)
        temporary = self.journal.with_name(self.journal.name + ".tmp")
        temporary.write_text(contents + "\n", encoding="utf-8")
        temporary.replace(self.journal)


@contextmanager
def open_partial(path: str | Path, settings: Mapping[str, Any], resume: bool = False) -> Iterator[Output]:
    """Open a file for writing that appears whole or not at all, and that can be gone on with.

    When the block ends well, the file takes its place, and the journal is removed. When it raises an error, both stay
    if something was parsed up to the last mark.

    Args:
        path: the file to write.
        settings: all that the output depends on beside the input, of strings, numbers, lists and dictionaries. A run
            with others is not gone on with.
        resume: go on with what is there. Otherwise, and where there is nothing, `done` is empty.

    Raises:
        OSError: the folder does not exist or cannot be written to.
        ValueError: another run writes to the file; what is there comes from another run, or was changed.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {path.parent}; create it first")
    partial, journal = path.with_name(path.name + ".partial"), path.with_name(path.name + ".partial.json")
    settings = json.loads(json.dumps(settings))
    with open(partial, "a+b") as file:
        _lock(file, partial, path)
        output = _Partial(file, journal, settings, Mark())
        refused = True
        try:
            if resume:
                output.done = _read(journal, path, settings)
                _check(output, path)
            else:
                journal.unlink(missing_ok=True)
            file.truncate(output.done.size)
            refused = False
            yield output
            file.flush()
            os.fsync(file.fileno())
            partial.replace(path)
            journal.unlink(missing_ok=True)
        except BaseException:
            if not output.done.parsed and not refused:
                partial.unlink(missing_ok=True)
                journal.unlink(missing_ok=True)
            raise


def _lock(file: IO[bytes], partial: Path, path: Path) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        own = os.path.samestat(os.fstat(file.fileno()), partial.stat())  # not one that was renamed just now
    except OSError:
        own = False
    if not own:
        raise ValueError(f"another run is writing {path}; wait for it, or give another file")


def _read(journal: Path, path: Path, settings: Mapping[str, Any]) -> Mark:
    """How far the run has come that wrote a journal."""
    anew = "start anew without resuming"
    try:
        contents = json.loads(journal.read_text(encoding="utf-8"))
        done, before = Mark(**contents["done"]), dict(contents["settings"])
        known = contents["format"] == FORMAT
    except FileNotFoundError:
        return Mark()
    except (ValueError, TypeError, KeyError):
        known = False
    if not known:
        raise ValueError(f"cannot resume {path}: {journal} is not a journal of this version; {anew}")
    for name in settings.keys() | before.keys():
        if settings.get(name) != before.get(name):
            raise ValueError(f"cannot resume {path}: the interrupted run had another {name}; {anew}")
    return done


def _check(output: _Partial, path: Path) -> None:
    """Read what is there, so that its digest can be gone on with, and compare."""
    output.file.seek(0)
    while output.size < output.done.size:
        data = output.file.read(min(1 << 20, output.done.size - output.size))
        if not data:
            break
        output.digest.update(data)
        output.size += len(data)
    if output.done.size and (output.size, output.digest.hexdigest()) != (output.done.size, output.done.output):
        raise ValueError(f"cannot resume {path}: {output.file.name} was changed; start anew without resuming")
