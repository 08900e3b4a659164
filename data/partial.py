"""Output of a run that can be resumed: a partial file next to the output, and a journal of how much of it is valid.

A run writes `NAME.partial`, and renames it to `NAME` when it is complete. At marks, which the caller sets where a run
could be resumed, the file is flushed to disk, and then `NAME.partial.json` is replaced. Whatever happens afterwards, up
to SIGKILL or a power failure, the file is valid as far as the journal says, and the rest is cut off on resuming.

If `NAME` ends like a compressed file (`arbora.data.compression`), each mark ends a compressed stream, and the next one
begins behind it. Where the marks are depends on time, so two runs may differ in the compressed bytes, not in the text.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial as partial_function
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, Protocol

from arbora.data.compression import Compressor, new_compressor
from arbora.data.conll import writable_path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

FORMAT = 1
"""Version of the journal."""

_LOCKED_BYTE = 2**31 - 2
"""Windows locks ranges of bytes, against reading too: this is the last one that its C library can lock."""


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
    new_compressor: Callable[[], Compressor | None]
    digest: Any = field(default_factory=blake2b)
    size: int = 0
    compressor: Compressor | None = None  # of the stream that is being written

    def write(self, text: str) -> None:
        data = text.encode("utf-8", "surrogateescape")
        if self.compressor is None:
            self.compressor = self.new_compressor()
        self._add(data if self.compressor is None else self.compressor.compress(data))

    def _add(self, data: bytes) -> None:
        self.file.write(data)
        self.digest.update(data)
        self.size += len(data)

    def flush(self) -> None:
        """Write everything to disk; a compressed stream ends here."""
        if self.compressor is not None:
            self._add(self.compressor.flush())
            self.compressor = None
        self.file.flush()
        os.fsync(self.file.fileno())

    def mark(self, entries: int, words: int, parsed: int, unparsed: int, input: str) -> None:
        self.flush()
        self.done = Mark(entries, words, parsed, unparsed, input, self.size, self.digest.hexdigest())
        contents = json.dumps({"format": FORMAT, "settings": self.settings, "done": asdict(self.done)}, indent=1)
        temporary = self.journal.with_name(self.journal.name + ".tmp")
        temporary.write_text(contents + "\n", encoding="utf-8")
        temporary.replace(self.journal)


@contextmanager
def open_partial(path: str | Path, settings: Mapping[str, Any], resume: bool = False) -> Iterator[Output]:
    """Open a file for writing that appears whole or not at all, and whose run can be resumed.

    When the block ends well, the file is renamed to `path`, and the journal is removed. When it raises an error, both
    stay if any sentence was parsed by the last mark.

    Args:
        path: the file to write; if it is a symbolic link, the file to which it points.
        settings: everything that the output depends on besides the input, of strings, numbers, lists and dictionaries.
            A run with other settings is not resumed.
        resume: continue the run whose partial file is there. Otherwise, and if there is none, `done` is empty.

    Raises:
        OSError: the folder does not exist or cannot be written to.
        ValueError: another run is writing the file; the partial file comes from another run, or was changed.
    """
    path = writable_path(path)
    new_compressor(path)  # an error now if the package for it is missing
    partial, journal = path.with_name(path.name + ".partial"), path.with_name(path.name + ".partial.json")
    settings = json.loads(json.dumps(settings))
    with open(partial, "a+b") as file:
        lock(file, partial, f"another run is writing {path}; wait for it, or give another file")
        output = _Partial(file, journal, settings, Mark(), partial_function(new_compressor, path))
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
            output.flush()
            _release_on_windows(file)
            partial.replace(path)
            journal.unlink(missing_ok=True)
        except BaseException:
            if not output.done.parsed and not refused:
                _release_on_windows(file)
                partial.unlink(missing_ok=True)
                journal.unlink(missing_ok=True)
            raise


def lock(file: IO[bytes], path: Path, refusal: str) -> None:
    """Lock an open file until it is closed, against other processes.

    Args:
        file: open for writing.
        path: where it is.
        refusal: message of the error.

    Raises:
        ValueError: another process holds the lock, or has just renamed the file.
    """
    try:
        if sys.platform == "win32":
            file.seek(_LOCKED_BYTE)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        own = os.path.samestat(os.fstat(file.fileno()), path.stat())  # not one that was renamed just now
    except OSError:
        own = False
    if not own:
        raise ValueError(refusal)


def _release_on_windows(file: IO[bytes]) -> None:
    """Close a file that is to be renamed or removed, where an open one cannot be. Elsewhere its lock is kept."""
    if sys.platform == "win32":
        file.close()


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
