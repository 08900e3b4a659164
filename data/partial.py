"""Output of a resumable run: a partial file next to the output, and a journal that says how much of it is valid.

A run writes `NAME.partial`, and renames it to `NAME` when it is complete. The caller sets marks at which a run can be
resumed. At a mark, the file is flushed to disk, and then `NAME.partial.json` is replaced. Whatever happens afterwards,
even SIGKILL or a power failure, the file is valid up to the size in the journal; the rest is cut off when resuming.

If `NAME` is a compressed file (`arbora.data.compression`), each mark ends a compressed stream, and another one begins.
Marks depend on time, so two runs may differ in the compressed bytes, but never in the text.
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
"""Byte to lock on Windows, where locks also prevent reading: the last one that its C library can lock."""


@dataclass(frozen=True)
class Mark:
    """Progress of a run."""

    entries: int = 0  # number of finished sentences of the input, valid or not
    words: int = 0  # number of words in parsed sentences
    parsed: int = 0  # number of parsed sentences
    unparsed: int = 0  # number of sentences that could not be parsed
    input: str = ""  # digest of these sentences
    size: int = 0  # bytes of the output
    output: str = ""  # digest of these bytes


class Output(Protocol):
    """Output file of a run, with marks."""

    done: Mark  # progress of an earlier run

    def write(self, text: str) -> None:
        """Write text; lone surrogates are written as the bytes that they represent (PEP 383)."""

    def mark(self, entries: int, words: int, parsed: int, unparsed: int, input: str) -> None:
        """Record that everything up to here is written; the arguments are those of `Mark`."""


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
    """Open a file for writing that appears only when complete, and whose run can be resumed.

    If the block ends without an error, the file is renamed to `path`, and the journal is removed. Otherwise both are
    kept, if any sentence was parsed before the last mark.

    Args:
        path: the file to write; if it is a symbolic link, the file to which it points.
        settings: everything that the output depends on besides the input, of strings, numbers, lists and dictionaries.
            A run with other settings is not resumed.
        resume: resume the run of an existing partial file. Otherwise, or if there is none, `done` is empty.

    Raises:
        OSError: the folder does not exist or cannot be written to.
        ValueError: another run is writing the file; the partial file comes from another run, or was changed.
    """
    path = writable_path(path)
    new_compressor(path)  # fail now if its package is missing
    partial, journal = path.with_name(path.name + ".partial"), path.with_name(path.name + ".partial.json")
    settings = json.loads(json.dumps(settings))
    with open(partial, "a+b") as file:
        lock(file, partial, f"another run is writing {path}; wait until it ends, or give another file")
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
        refusal: error message.

    Raises:
        ValueError: another process holds the lock, or has just renamed the file.
    """
    try:
        if sys.platform == "win32":
            file.seek(_LOCKED_BYTE)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        own = os.path.samestat(os.fstat(file.fileno()), path.stat())  # not a file that was just renamed
    except OSError:
        own = False
    if not own:
        raise ValueError(refusal)


def _release_on_windows(file: IO[bytes]) -> None:
    """Close a file before it is renamed or removed, on systems that require this. On others, keep its lock."""
    if sys.platform == "win32":
        file.close()


def _read(journal: Path, path: Path, settings: Mapping[str, Any]) -> Mark:
    """Read the progress of a run from its journal."""
    anew = "start again without --resume"
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
    """Read the existing output, check its digest, and continue the digest."""
    output.file.seek(0)
    while output.size < output.done.size:
        data = output.file.read(min(1 << 20, output.done.size - output.size))
        if not data:
            break
        output.digest.update(data)
        output.size += len(data)
    if output.done.size and (output.size, output.digest.hexdigest()) != (output.done.size, output.done.output):
        raise ValueError(f"cannot resume {path}: {output.file.name} was changed; start again without --resume")
