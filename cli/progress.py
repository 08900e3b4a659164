"""Progress of `arbora predict`: how much of the input is read, how much is parsed, and how long the rest takes."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from arbora.data.compression import InputText
from arbora.data.conll import EmptyError, Sentence, Unparsed, open_input

SECONDS_BETWEEN_LINES = 60.0
"""Seconds between two lines if standard error is not a terminal."""


@dataclass
class Reading:
    """Input files, and how much of them has been read."""

    files: Sequence[str]
    read: Callable[..., Iterator[Sentence | Unparsed]]
    words: int = 0
    bytes: int = 0
    size: int | None = field(init=False)  # None where it is not known

    def __post_init__(self) -> None:
        sizes = [_size(file) for file in self.files]
        self.size = None if None in sizes else sum(size or 0 for size in sizes)

    def __iter__(self) -> Iterator[Sentence | Unparsed]:
        before = 0
        for file in self.files:
            with open_input(file) as (stream, name):
                try:
                    for entry in self.read(stream, name=name):
                        self.words += len(entry)
                        self.bytes = before + _position(stream)
                        yield entry
                except EmptyError as error:
                    if len(self.files) == 1:
                        raise
                    yield Unparsed([], name, 1, error)
                before += _position(stream)

    def words_in_all(self) -> float | None:
        """An estimate, from the words per byte so far."""
        return self.words * self.size / self.bytes if self.size and self.bytes else None


def _size(file: str) -> int | None:
    """Bytes of a file; those of standard input too, if it is a file.

    Raises:
        OSError: there is no such file.
    """
    if file == "-":
        try:
            found = os.fstat(sys.stdin.fileno())
        except (OSError, ValueError, AttributeError):  # AttributeError: it is closed
            return None
    else:
        found = os.stat(file)
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _position(stream: TextIO) -> int:
    """Bytes read so far from the file of a stream, compressed or not; 0 if unknown."""
    if isinstance(stream, InputText):
        return stream.position
    try:
        return stream.buffer.tell()
    except (OSError, ValueError, AttributeError):  # a pipe, or a stream that is not a file
        return 0


class Display:
    """Progress: a bar in a terminal, otherwise a line from time to time."""

    def __init__(
        self, console: Console, words_in_all: Callable[[], float | None], words_before: int, quiet: bool
    ) -> None:
        self.console, self.words_in_all, self.quiet = console, words_in_all, quiet
        self.words = self.words_before = words_before
        self.started = self.printed = time.perf_counter()
        columns = (TextColumn("parsing"), BarColumn(), TextColumn("{task.fields[done]}"))
        self.hidden = quiet or not console.is_terminal
        self.bar = Progress(*columns, console=console, transient=True, disable=self.hidden)
        self.task = self.bar.add_task("parsing", total=None, done="")

    def __enter__(self) -> Display:
        if not self.hidden:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self.hidden:  # some versions of rich end a bar that was never shown with an empty line
            self.bar.stop()

    def advance(self, words: int) -> None:
        """Add words that were parsed."""
        self.words += words
        now = time.perf_counter()
        total = self.words_in_all()
        text = progress_text(self.words, self.words - self.words_before, now - self.started, total)
        self.bar.update(self.task, completed=self.words, total=total and max(total, self.words), done=text)
        if not self.quiet and not self.console.is_terminal and now - self.printed >= SECONDS_BETWEEN_LINES:
            self.printed = now
            self.console.print(text)


def progress_text(words: int, words_now: int, seconds: float, total: float | None) -> str:
    """Format the progress of a run: words, speed, and time left.

    Args:
        words: parsed so far, by all runs.
        words_now: parsed by this run.
        seconds: time that this run took.
        total: number of words in the input, if known.
    """
    rate = words_now / seconds if seconds else 0.0
    text = f"{words:,} words, {rate:,.0f} words/s"
    if total is None or not rate:
        return text
    left = round(max(0.0, total - words) / rate)
    return f"{text}, {left // 3600}:{left // 60 % 60:02}:{left % 60:02} left"
