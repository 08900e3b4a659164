"""Reading a piece of an input: sentences, and where rows end."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, NamedTuple, cast

import fsspec

from arbora.data.compression import decompressed, is_compressed
from arbora.data.conll import EmptyError, Format, Sentence, Unparsed, conll_entries, read_lines
from arbora.data.text import text_entries
from arbora.extras import importing_extra
from arbora.model.corpus.plan import Input, Piece
from arbora.model.parser import Parser

PARSED = "conllu"
"""Column of rows to which parsed sentences are written, as CoNLL-U."""


class Row(NamedTuple):
    """The end of a row, whose sentences came before it."""

    kept: dict[str, Any] | None  # its other columns; None if it has no text that could be parsed
    line: str = ""  # of a file of JSON lines
    error: str = ""  # why it has no text


class RowGroup(NamedTuple):
    """The end of a row group of Parquet, whose rows came before it."""

    table: Any


class PieceEnd(NamedTuple):
    """The end of a piece, with the range that it had after all."""

    url: str
    start: int
    end: int


Item = Sentence | Unparsed | Row | RowGroup | PieceEnd


def read_piece(source: Input, piece: Piece, column: str, digest: Any, parser: Parser) -> Iterator[Item]:
    """Read the sentences of a piece.

    Args:
        source: the input, which must not have changed since the plan was made.
        piece: which part of it.
        column: where rows of JSON lines and Parquet have their text.
        digest: updated with the decompressed bytes that are read, or with the texts of Parquet.
        parser: has the tokenizer of raw text, if there is any.

    Raises:
        ValueError: the input has changed, is damaged, or has no such column.
    """
    source.check_unchanged()
    if source.format == "parquet":
        yield from _parquet_rows(source, piece, column, digest, parser)
        return
    with fsspec.open(source.url, "rb") as file:
        start, end = piece.start, piece.end
        if is_compressed(source.url):
            contents = DigestFile(decompressed(file, source.url), digest)
        else:
            by_paragraph = source.format not in ("text", "jsonl")
            start, end = (boundary(file, position, by_paragraph) for position in (start, end))
            file.seek(start)
            contents = DigestFile(file, digest, end - start)
        buffered = io.BufferedReader(contents, 1 << 20)
        name = f"{source.url}@{start}" if start else source.url  # lines are counted from there
        stream = io.TextIOWrapper(buffered, encoding="utf-8", errors="surrogateescape", newline="\n")
        with stream, suppress(EmptyError):  # a file without a sentence, or a piece inside of a long one
            if source.format == "jsonl":
                yield from _json_rows(stream, name, column, parser)
            elif source.format == "raw":
                yield from parser.tokenizer.read(stream, name=name)
            elif source.format == "text":
                yield from text_entries(stream, name=name)
            else:
                yield from conll_entries(stream, format=cast(Format, source.format), trees=False, name=name)
    yield PieceEnd(source.url, start, end)


def boundary(file: IO[bytes], position: int, by_paragraph: bool) -> int:
    """Return the boundary of two pieces that are cut at a position.

    Args:
        file: open for reading.
        position: of the cut, in bytes.
        by_paragraph: cut only after blank lines instead of after any line.
    """
    if position == 0:
        return 0
    file.seek(position - 1)
    line = file.readline()  # the rest of one
    while by_paragraph and (line := file.readline()) and not line.isspace():
        pass
    return file.tell()


@contextmanager
def open_parquet(source: Input) -> Iterator[Any]:
    """Open a Parquet file.

    Raises:
        ModuleNotFoundError: the extra `parquet` is not installed.
        ValueError: it is not a Parquet file.
    """
    with importing_extra():
        import pyarrow as pa
        import pyarrow.parquet as pq
    with fsspec.open(source.url, "rb") as file:
        try:
            opened = pq.ParquetFile(file)
        except pa.ArrowInvalid as error:
            raise ValueError(f"{source.url}: not a Parquet file, or damaged: {error}") from None
        yield opened


def _sentences(text: str, name: str, parser: Parser) -> Iterator[Sentence | Unparsed]:
    """Split the text of a row."""
    with suppress(EmptyError):
        yield from parser.tokenizer.read(io.StringIO(text, newline="\n"), name=name)


def _json_rows(stream: io.TextIOWrapper, name: str, column: str, parser: Parser) -> Iterator[Sentence | Unparsed | Row]:
    for number, line in read_lines(stream, name):
        if line.isspace():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            row, problem = None, f"not JSON ({error})"
        else:
            problem = _problem(row, column)
        if problem:
            yield Row(None, line, f"{name}:{number}: {problem}")
        else:
            yield from _sentences(row[column], f"{name}:{number}", parser)
            yield Row(row)


def _problem(row: Any, column: str) -> str:
    """Say why a row cannot be parsed; an empty string if it can be."""
    if not isinstance(row, dict):
        return "not an object; write one object per line"
    if not isinstance(row.get(column), str):
        return f"no text in {column!r}; name the column with --column"
    return f"there already is a column {PARSED!r}; rename it" if PARSED in row else ""


def _parquet_rows(source: Input, piece: Piece, column: str, digest: Any, parser: Parser) -> Iterator[Item]:
    with open_parquet(source) as file:
        names = file.schema_arrow.names
        if column not in names or PARSED in names:
            what = f"there is a column {PARSED!r} already" if PARSED in names else f"there is no column {column!r}"
            raise ValueError(f"{source.url}: {what}; there are {', '.join(names)}")
        number = sum(file.metadata.row_group(group).num_rows for group in range(piece.start))
        yield RowGroup(file.schema_arrow.empty_table())
        for group in range(piece.start, piece.end):
            table = file.read_row_group(group)
            for text in table.column(column).to_pylist():
                number += 1
                if text is not None and not isinstance(text, str):
                    raise ValueError(f"{source.url}: the column {column!r} has no text; name another with --column")
                digest.update(b"\0" if text is None else text.encode("utf-8", "surrogatepass") + b"\1")
                if text is not None:
                    yield from _sentences(text, f"{source.url}:{number}", parser)
                yield Row({} if text is not None else None)
            yield RowGroup(table)
    yield PieceEnd(source.url, piece.start, piece.end)


class DigestFile(io.RawIOBase):
    """A file from its current position, or some of its bytes, with the digest and number of bytes read or written."""

    def __init__(self, file: IO[bytes], digest: Any, left: int | None = None) -> None:
        self.file, self.digest, self.left, self.size = file, digest, left, 0

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def _count(self, data: Any) -> int:
        self.digest.update(data)
        self.size += len(data)
        return len(data)

    def readinto(self, buffer: Any) -> int:
        wanted = len(buffer) if self.left is None else min(len(buffer), self.left - self.size)
        data = self.file.read(wanted)
        buffer[: len(data)] = data
        return self._count(data)

    def write(self, data: Any) -> int:
        self.file.write(data)
        return self._count(data)
