"""Parsing one shard of a corpus, and committing it.

The output of a shard is written to a temporary file, which is renamed when it is complete; then a record is written
next to it. A shard is committed when both files exist. Any worker that parses it again writes the same bytes, so a
worker that was considered lost and commits later does no harm.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import platform
import socket
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from arbora.data.conll import Sentence, Unparsed
from arbora.decoders import Decoder
from arbora.decoders.kernels.threads import set_num_threads
from arbora.model.corpus.folder import RUN, SHARDS, Folder
from arbora.model.corpus.pieces import PARSED, DigestFile, PieceEnd, Row, RowGroup, read_piece
from arbora.model.corpus.plan import DIGEST, OUTPUTS, Task
from arbora.model.inference.batch_parser import ParsingSettings
from arbora.model.inference.results import ParsedSentence
from arbora.model.inference.stream import parse_directly, parse_windows
from arbora.model.parser import Parser
from arbora.model.storage.digest import digest_of_model
from arbora.model.storage.folder import GRAPHS

SHOWN = 5
"""Maximum number of messages about sentences in the record of a shard."""

Message = tuple[Literal["ready", "broken", "words", "committed", "failed"], Any]
"""Message of a worker: its machine once the model is loaded, or why loading failed; the number of words parsed so far;
the record of a committed shard; why a shard failed, and whether all others will fail as well."""


@dataclass(frozen=True)
class WorkerSettings:
    """Settings of a worker."""

    model: str  # a checkpoint or an exported folder
    digest: str  # of the model
    run: str  # digest of everything that the output depends on
    output: str  # folder
    runtime: Literal["torch", "onnx"] | None = None  # if not what fits the model
    device: str = "cpu"
    decoder: Decoder | None = None  # another than the model's own
    settings: ParsingSettings = ParsingSettings()  # noqa: RUF009 - settings are frozen
    scores: bool = False  # whether comments say them
    on_error: Literal["copy", "skip"] = "copy"  # sentences that cannot be parsed
    column: str = "text"  # of rows
    cpus: int = 1  # threads for scoring, and for decoding


def can_share(settings: WorkerSettings) -> bool:
    """Return whether workers can share the memory of the model: on a CPU, without ONNX, whose threads forks lose."""
    return (
        settings.device in ("auto", "cpu") and settings.runtime != "onnx" and not Path(settings.model, GRAPHS).is_dir()
    )


@lru_cache(maxsize=1)
def load_on_cpu(model: str, digest: str) -> Parser:
    """Load a parser once per digest; processes that are forked afterwards share its memory."""
    from arbora.model.loading import load, set_scoring_threads
    from arbora.model.storage.files import is_linear

    if not is_linear(model):
        set_scoring_threads(1)  # start no threads: a forked process would lack them
    return load(model)


class ShardParser:
    """Parses shards, one after the other, in the process of a worker."""

    def __init__(self, settings: WorkerSettings) -> None:
        self.settings = settings
        self.folder = Folder(settings.output)
        self.place = f"{socket.gethostname()}:{os.getpid()}"
        self.warnings: deque[str] = deque(maxlen=SHOWN)
        logger = logging.getLogger("arbora")
        logger.addHandler(handler := _Kept(logging.WARNING))
        handler.kept = self.warnings
        logger.propagate = False

    def load(self) -> Message:
        """Load the model. Report the machine, or why the model cannot be loaded."""
        try:
            self.parser = self._load()
            self.parser.check()
        except (ValueError, OSError, ModuleNotFoundError) as error:
            return "broken", f"{self.place}: {error}"
        return "ready", self.place

    def _load(self) -> Parser:
        from arbora.model.loading import find_device, load, set_scoring_threads
        from arbora.model.storage.files import is_linear

        settings = self.settings
        if digest_of_model(settings.model) != settings.digest:
            raise ValueError(f"{settings.model} is not the model of this run; put the same one on all machines")
        if is_linear(settings.model):
            parser = load_on_cpu(settings.model, settings.digest)
        elif can_share(settings) and find_device(settings.device).type == "cpu":
            parser = load_on_cpu(settings.model, settings.digest)
            set_scoring_threads(settings.cpus)
        else:
            parser = load(settings.model, settings.runtime, settings.device, settings.cpus)
        set_num_threads(settings.cpus)
        parser.decoder = settings.decoder or parser.decoder
        parser.settings = settings.settings
        return parser

    def run(self, task: Task) -> Iterator[Message]:
        """Parse a shard and commit it."""
        self.warnings.clear()
        try:
            for words in (parsing := _Parsing(self, task)):
                yield "words", words
            yield "committed", parsing.record | {"warnings": list(self.warnings)}
        except Exception as error:
            full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
            kind = "" if isinstance(error, ValueError | OSError) else f"{type(error).__name__}: "
            yield "failed", (f"{kind}{' '.join(str(error).split())}", full)


class _Parsing:
    """A shard that is being parsed, and its output: sentences, or rows with sentences in a column."""

    def __init__(self, worker: ShardParser, task: Task) -> None:
        self.worker, self.task, self.settings = worker, task, worker.settings
        self.ends: deque[tuple[int, Row | RowGroup | PieceEnd]] = deque()  # each after a number of sentences
        self.done = 0  # sentences that are written, parsed or not
        self.written = 0  # bytes of the pieces that have ended
        self.rows = task.inputs[0][0].format in OUTPUTS
        self.texts: list[str] = []  # of the row
        self.column: list[str | None] = []  # of the row group
        self.parquet: Any = None  # writer
        self.record: dict[str, Any] = {"shard": task.shard, "run": worker.settings.run, "pieces": []}
        self.record |= {"sentences": 0, "words": 0, "unparsed": 0, "errors": []}

    def __iter__(self) -> Iterator[int]:
        """Parse, and yield the number of words from time to time."""
        started, cpu_started = time.perf_counter(), time.process_time()
        folder, settings = self.worker.folder, self.settings
        input = blake2b(digest_size=DIGEST)
        run = parse_directly if settings.cpus == 1 else parse_windows
        with folder.create(f"{SHARDS}/{self.task.output}") as file:
            self.output = DigestFile(file, blake2b(digest_size=DIGEST))
            with closing(run(self.worker.parser.batch_parser(), self._entries(input))) as windows:
                for window in windows:
                    for entry in window:
                        self._end_items()
                        self._add(entry)
                    yield self.record["words"]
            self._end_items()
            if (folder.read_json(RUN) or {}).get("run") != settings.run:
                raise ValueError(f"{folder.url}: another run has begun in this folder, so this run stops")
        self.record |= {
            "input": input.hexdigest(),
            "output": self.output.digest.hexdigest(),
            "bytes": self.output.size,
            "seconds": round(time.perf_counter() - started, 3),
            "cpu_seconds": round(time.process_time() - cpu_started, 3),
            "worker": self.worker.place,
            "versions": _versions(),
        }
        folder.write_json(f"{SHARDS}/{self.task.shard:07}.json", self.record)

    def _entries(self, input: Any) -> Iterator[Sentence | Unparsed]:
        """Read the sentences of all pieces, and note in `ends` after how many of them a row or piece ends."""
        read = 0
        for source, piece in self.task.inputs:
            for item in read_piece(source, piece, self.settings.column, input, self.worker.parser):
                if isinstance(item, Sentence | Unparsed):
                    read += 1
                    yield item
                else:
                    self.ends.append((read, item))

    def _add(self, entry: ParsedSentence | Unparsed) -> None:
        self.done += 1
        if isinstance(entry, Unparsed):
            text = self._report(str(entry.error), entry.text)
        else:
            self.record["sentences"] += 1
            self.record["words"] += len(entry.sentence)
            text = entry.as_text(self.settings.scores)
        if self.rows:
            self.texts.append(text)
        else:
            self._write(text)

    def _report(self, error: str, text: str) -> str:
        """Count a sentence or row that cannot be parsed, and return the text to write for it."""
        self.record["unparsed"] += 1
        if len(self.record["errors"]) < SHOWN:
            self.record["errors"].append(" ".join(error.split()))
        return text if self.settings.on_error == "copy" else ""

    def _write(self, text: str) -> None:
        self.output.write(text.encode("utf-8", "surrogateescape"))

    def _end_items(self) -> None:
        """Write the ends of rows, row groups and pieces that follow the sentences so far."""
        while self.ends and self.ends[0][0] <= self.done:
            item = self.ends.popleft()[1]
            if isinstance(item, RowGroup):
                self._write_group(item.table)
            elif isinstance(item, PieceEnd):
                if self.parquet is not None:
                    self.parquet.close()
                size, self.written = self.output.size - self.written, self.output.size
                piece = {"input": item.url, "start": item.start, "end": item.end, "bytes": size}
                self.record["pieces"].append(piece)
            elif item.error:
                self._write(self._report(item.error, item.line))
            else:
                parsed, self.texts = "".join(self.texts), []
                if item.kept:
                    self.output.write(_json_line(item.kept | {PARSED: parsed}))
                else:
                    self.column.append(parsed if item.kept is not None else None)

    def _write_group(self, table: Any) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = table.append_column(PARSED, pa.array(self.column, pa.large_string()))
        self.column = []
        if self.parquet is None:  # the first one is empty
            self.parquet = pq.ParquetWriter(pa.PythonFile(self.output, "w"), table.schema)
        else:
            self.parquet.write_table(table)


def _json_line(row: dict[str, Any]) -> bytes:
    try:
        return (json.dumps(row, ensure_ascii=False) + "\n").encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can write and UTF-8 cannot
        return (json.dumps(row) + "\n").encode()


class _Kept(logging.Handler):
    """Keeps warnings of the library for the driver."""

    kept: deque[str]

    def emit(self, record: logging.LogRecord) -> None:
        self.kept.append(record.getMessage())


@lru_cache(maxsize=1)
def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("arbora", "torch", "onnxruntime", "numpy", "numba"):
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
