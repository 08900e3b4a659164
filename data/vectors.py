"""Pretrained word vectors, in the formats of word2vec (text, binary) and GloVe (text)."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from io import BufferedIOBase
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def read_vectors(path: str | Path, most: int) -> tuple[list[str], NDArray[np.float32]]:
    """Read words and their vectors, and scale these to a standard deviation of one.

    Only the first `most` words are read: files of vectors list the frequent words first.

    Args:
        path: file of vectors, which may be compressed (`.gz`). The suffix `.bin` means word2vec's binary format.
        most: maximum number of words to read.

    Returns:
        The words, and (words, d) their vectors.
    """
    name = str(path)
    vectors: dict[str, NDArray[np.float32]] = {}
    with gzip.open(path) if name.endswith(".gz") else open(path, "rb") as file:
        binary = name.removesuffix(".gz").endswith(".bin")
        entries = _binary(file, name) if binary else _text(file, name)
        for word, vector in islice(entries, most):
            vectors.setdefault(word, vector)
    if not vectors:
        raise ValueError(f"{name}: no vectors in it")
    table = np.stack(list(vectors.values()))
    if not np.isfinite(table).all():
        word = list(vectors)[int(np.argmin(np.isfinite(table).all(1)))]
        raise ValueError(f"{name}: the vector of {word!r} has entries that are not finite numbers")
    return list(vectors), table / max(float(table.std()), 1e-12)


def _text(file: BufferedIOBase, name: str) -> Iterator[tuple[str, NDArray[np.float32]]]:
    size = None
    for number, line in enumerate(file, 1):
        fields = line.decode("utf-8", "replace").rstrip().replace("\t", " ").split(" ")
        if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
            continue
        size = size or max(1, len(fields) - 1)
        if len(fields) <= size:
            raise ValueError(f"{name}:{number}: {len(fields) - 1} numbers, but earlier vectors have {size}")
        try:
            vector = np.array(fields[-size:], dtype=np.float32)
        except ValueError:
            raise ValueError(f"{name}:{number}: not a word and {size} numbers; is this a file of vectors?") from None
        yield " ".join(fields[:-size]), vector


def _binary(file: BufferedIOBase, name: str) -> Iterator[tuple[str, NDArray[np.float32]]]:
    header = file.readline().split()
    if len(header) != 2 or not all(field.isdigit() for field in header):
        raise ValueError(f"{name}: does not start with the number of words and their size, as word2vec files do")
    count, size = map(int, header)
    if size < 1:
        raise ValueError(f"{name}: the size of the vectors must be at least 1, got {size}")
    for i in range(count):
        word = bytearray()
        while (byte := file.read(1)) not in (b" ", b""):
            if byte != b"\n":
                word += byte
        data = file.read(4 * size)
        if len(data) < 4 * size:
            raise ValueError(f"{name}: ends at word {i + 1} of {count}; the file seems truncated")
        yield word.decode("utf-8", "replace"), np.frombuffer(data, np.float32)
