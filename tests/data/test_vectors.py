import gzip
from pathlib import Path

import numpy as np
import pytest

from arbora.data.vectors import read_vectors

WORDS = ["the", "kočka", "of_the"]
TABLE = np.array([[1, 2, 3], [4, -5, 6], [0.5, 0, -1]], np.float32)


def text(header: bool) -> bytes:
    lines = [f"{word} " + " ".join(f"{x:g}" for x in row) for word, row in zip(WORDS, TABLE)]
    return "\n".join(["3 3"] * header + lines).encode() + b"\n"


def binary() -> bytes:
    return b"3 3\n" + b"".join(word.encode() + b" " + row.tobytes() + b"\n" for word, row in zip(WORDS, TABLE))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("glove.txt", text(False)),
        ("w2v.vec", text(True)),
        ("w2v.bin", binary()),
        ("g.txt.gz", gzip.compress(text(True), mtime=0)),
    ],
    ids=["glove", "text", "binary", "gzip"],
)
def test_all_formats_give_the_same_vectors(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    words, table = read_vectors(tmp_path / name, most=100)
    assert words == WORDS
    np.testing.assert_allclose(table, TABLE / TABLE.std(), rtol=1e-6)


def test_most_limits_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_bytes(text(True))
    assert read_vectors(tmp_path / "v.txt", most=2)[0] == WORDS[:2]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.txt", b"a 1 2\nb 1\n", "v.txt:2: 1 numbers"),
        ("v.txt", b"a 1 2\nb x y\n", "v.txt:2: not a word and 2 numbers"),
        ("v.txt", b"", "no vectors"),
        ("v.txt", b"a 1 2\nb nan 2\n", "the vector of 'b' has entries"),
        ("v.bin", b"3 0\n", "must be at least 1, got 0"),
        ("v.bin", b"no header\n", "does not start with"),
        ("v.bin", binary()[:-9], "ends at word 3 of 3"),
    ],
)
def test_errors_name_the_file_and_the_place(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_vectors(tmp_path / name, most=100)


def test_one_dimension_and_tabs(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_bytes(b"a\t0.5\nb\t-0.5\n")
    words, table = read_vectors(tmp_path / "v.txt", most=100)
    assert words == ["a", "b"]
    assert table.tolist() == [[1.0], [-1.0]]
