"""Compressed files, recognised by the suffix of their name: `.gz`, `.xz`, `.bz2` and `.zst`.

Each of these formats allows several streams in one file. Output relies on this: a stream can be ended at any point, so
that everything before it can be read, and another stream can follow.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Protocol, cast

DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)
"""Errors that reading a damaged file raises; those of `.bz2` and `.zst` are found by `is_damage`."""


class Compressor(Protocol):
    """Compresses one stream; the compressors of all modules used here have these methods."""

    def compress(self, data: bytes, /) -> bytes:
        """Take data, and return what is compressed so far."""

    def flush(self) -> bytes:
        """End the stream, and return the rest of it."""


def _gzip_compressor() -> Compressor:
    return zlib.compressobj(wbits=31)  # 16 + 15: with gzip's header, without a time stamp


def _zstd() -> Any:
    """Return the module for `.zst`, which Python has from version 3.14 on."""
    try:
        return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    except ModuleNotFoundError as error:
        raise ValueError(".zst files need the package backports.zstd: pip install backports.zstd") from error


_READERS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file, mode="rb"),
    ".xz": lzma.LZMAFile,
    ".bz2": bz2.BZ2File,
    ".zst": lambda file: _zstd().ZstdFile(file),
}
_COMPRESSORS: dict[str, Callable[[], Compressor]] = {
    ".gz": _gzip_compressor,
    ".xz": lzma.LZMACompressor,
    ".bz2": bz2.BZ2Compressor,
    ".zst": lambda: cast(Compressor, _zstd().ZstdCompressor()),
}


class InputText(io.TextIOWrapper):
    """UTF-8 text of a file, decompressed if its name says that it is compressed.

    Bytes that are not UTF-8 come as lone surrogates (PEP 383).

    Args:
        path: the file.
    """

    def __init__(self, path: str | Path) -> None:
        self._file = open(path, "rb")  # noqa: SIM115 - closed below
        try:
            contents = decompressed(self._file, path)
        except BaseException:
            self._file.close()
            raise
        super().__init__(contents, encoding="utf-8", errors="surrogateescape", newline="\n")

    @property
    def position(self) -> int:
        """Number of bytes of the file, compressed or not, that have been read."""
        return self._file.tell()

    def close(self) -> None:
        """Close the text and the file."""
        super().close()
        self._file.close()


def is_compressed(path: str | Path) -> bool:
    """Return whether a file name has the suffix of a compressed file."""
    return Path(path).suffix.lower() in _READERS


def decompressed(file: IO[bytes], path: str | Path) -> Any:
    """Return the contents of an open file, decompressed if its name says that it is compressed."""
    reader = _READERS.get(Path(path).suffix.lower())
    return file if reader is None else reader(file)


def new_compressor(path: str | Path) -> Compressor | None:
    """Return a compressor for a stream of a file, or None if its name does not end like that of a compressed one."""
    make = _COMPRESSORS.get(Path(path).suffix.lower())
    return None if make is None else make()


def is_damage(error: Exception) -> bool:
    """Return whether a reading error means that the compressed file is damaged."""
    if isinstance(error, DAMAGED) or type(error).__name__ == "ZstdError":
        return True
    return isinstance(error, OSError) and error.errno is None  # bz2's "Invalid data stream"


class CompressingWriter(io.RawIOBase):
    """Compresses what is written to it into a file, as one stream."""

    def __init__(self, file: IO[bytes], compressor: Compressor) -> None:
        self._file, self._compressor = file, compressor

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Compress some data."""
        self._file.write(self._compressor.compress(bytes(data)))
        return len(data)

    def close(self) -> None:
        """End the stream and close the file."""
        if not self.closed:
            try:
                self._file.write(self._compressor.flush())
            finally:
                self._file.close()
                super().close()
