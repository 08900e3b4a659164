"""Raw text to sentences and words, in a stream."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from arbora.data.conll import ConllError, EmptyError, Sentence, Unparsed, check_utf8, open_input, read_lines, valid
from arbora.data.text import Token, sentence_of
from arbora.model.tokenizer import kernel
from arbora.model.tokenizer.characters import SPACE, Characters
from arbora.model.tokenizer.multiword import MultiwordTokens

LONGEST_TOKEN = 1_000
"""Characters after which a token is cut."""

LONGEST_SENTENCE = 1_000
"""Tokens after which a sentence is cut."""

WINDOW = 1 << 15
"""Characters of a paragraph that are read before its first sentences are given."""

LONGEST_LINE = 1 << 16
"""Characters of a line that are read at a time."""


@dataclass(frozen=True)
class Tokenizer:
    """Finds sentences, tokens and the words of multiword tokens in text."""

    # of the three models in `kernel`: ends of tokens, ends of sentences, multiword tokens.
    weights: tuple[NDArray[np.float32], ...]
    thresholds: NDArray[np.float32]  # (3,) scores above which they say yes
    joined: NDArray[np.bool_]  # (kinds, kinds) whether no token ends between two characters of these kinds
    spaces: bool  # whether there may be a space in a token
    multiword: MultiwordTokens  # splits multiword tokens

    @cached_property
    def contents(self) -> bytes:
        """Contents of a file of arrays, from which `from_contents` makes it again."""
        words = np.frombuffer(self.multiword.as_json().encode(), np.uint8)
        steps = np.array([max(float(np.abs(weights).max(initial=0)), 1e-12) / 127 for weights in self.weights])
        whole = [np.round(weights / step).astype(np.int8) for weights, step in zip(self.weights, steps)]
        arrays = dict(zip(("tokens", "sentences", "multiword"), whole, strict=True)) | {"steps": steps}
        others = {"thresholds": self.thresholds, "joined": self.joined, "spaces": np.array(self.spaces), "words": words}
        file = io.BytesIO()
        np.savez_compressed(file, allow_pickle=False, **arrays, **others)
        return file.getvalue()

    @classmethod
    def from_contents(cls, contents: bytes) -> Tokenizer:
        """The inverse of `contents`. Nothing in the file is run.

        Raises:
            ValueError: it is not such a file.
        """
        with np.load(io.BytesIO(contents), allow_pickle=False) as file:
            tables = [file[name].astype(np.float32) for name in ("tokens", "sentences", "multiword")]
            steps = file["steps"].astype(np.float32) if "steps" in file else np.ones(3, np.float32)  # of earlier files
            weights = tuple(table * step for table, step in zip(tables, steps, strict=True))
            tokenizer = cls(
                weights,
                file["thresholds"].astype(np.float32),
                file["joined"].astype(np.bool_),
                bool(file["spaces"]),
                MultiwordTokens.from_json(file["words"].tobytes().decode()),
            )
        sizes = [table.size for table in weights if table.ndim == 1 and table.size.bit_count() == 1]
        if len(sizes) != len(weights) or tokenizer.thresholds.shape != (3,) or tokenizer.joined.shape != (SPACE, SPACE):
            raise ValueError("not a tokenizer, or a damaged one")
        return tokenizer

    def read(
        self, source: str | Path | TextIO, *, name: str | None = None, numbers: Iterator[int] | None = None
    ) -> Iterator[Sentence | Unparsed]:
        """Read raw text; lines that are not UTF-8 are returned in their place, with the reason.

        A blank line ends a paragraph; a line end does not end a sentence. Memory holds one window of a paragraph, or a
        longer sentence. Results do not depend on the windows.

        Args:
            source: a file (decompressed if its name ends like `.gz`), `-` for standard input, or an open text stream.
            name: name of the source in messages.
            numbers: numbers of sentences for `sent_id`; by default, there is no `sent_id`.

        Raises:
            EmptyError: the source has no words.
        """
        empty = True
        with open_input(source, name) as (stream, name):
            text = _Text(self, name, numbers)
            for line_number, line in read_lines(stream, name, LONGEST_LINE):
                try:
                    check_utf8(line, name, line_number)
                except ConllError as error:
                    empty = False
                    yield from text.finish()
                    yield Unparsed(Sentence.from_words(line.split()).lines, name, line_number, error)
                    text = _Text(self, name, numbers)
                else:
                    for sentence in text.add(line, line_number):
                        empty = False
                        yield sentence
            for sentence in text.finish():
                empty = False
                yield sentence
        if empty:
            raise EmptyError(f"{name}:1: the text is empty; give at least one sentence")

    def split_text(self, text: str, name: str = "<text>") -> list[Sentence]:
        """Split a text into sentences; none if it has no words.

        Args:
            text: running text.
            name: name of the text in messages.

        Raises:
            ConllError: it cannot be encoded as UTF-8.
        """
        try:
            return list(valid(self.read(io.StringIO(text, newline="\n"), name=name, numbers=count(1))))
        except EmptyError:
            return []

    def split(self, characters: Characters, is_end: bool) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Return the boundary after each character of a paragraph or a piece of it, and which tokens are multiword
        tokens.

        Args:
            characters: from the start of a sentence on.
            is_end: whether the paragraph ends with them. If not, nothing is decided for the last ones.
        """
        size = len(characters.kind)
        ends, multiword = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
        stop = size if is_end else max(0, size - kernel.REACH)
        models = self.weights, self.thresholds, self.joined, self.spaces
        kernel.split(characters, stop, *models, (LONGEST_TOKEN, LONGEST_SENTENCE), ends, multiword)
        return ends, multiword


class _Text:
    """Text that is not yet split into sentences; it begins at the start of a sentence or of the document."""

    def __init__(self, tokenizer: Tokenizer, source: str, numbers: Iterator[int] | None) -> None:
        self.tokenizer, self.source, self.numbers = tokenizer, source, numbers
        self.text = self.before = ""  # the latter is white space at the beginning of the document
        self.pieces: list[str] = []  # behind `text`
        self.size = 0  # of both
        self.wanted = WINDOW
        self.line_number = 1
        self.newlines = 0  # since the last visible character
        self.is_new = True  # whether a paragraph starts here

    def add(self, line: str, line_number: int) -> Iterator[Sentence]:
        """Add a line, and yield the complete sentences."""
        visible = line.lstrip()
        if not self.size:
            self.line_number = line_number
        if visible and self.size and self.newlines > 1:
            self.pieces.append(line[: len(line) - len(visible)])
            yield from self._sentences(is_end=True)
            line, self.line_number = visible, line_number
        self.pieces.append(line)
        self.size += len(line)
        self.newlines = line.endswith("\n") + (0 if visible else self.newlines)
        if visible and self.size > self.wanted:
            yield from self._sentences(is_end=False)

    def finish(self) -> Iterator[Sentence]:
        """Yield the remaining sentences."""
        if self.size:
            yield from self._sentences(is_end=True)

    def _sentences(self, is_end: bool) -> Iterator[Sentence]:
        """Yield the complete sentences; all of them at the end of a paragraph."""
        text, split = "".join([self.text, *self.pieces]), self.tokenizer.multiword.split
        characters = Characters.of(text)
        place = characters.place
        ends, multiword = self.tokenizer.split(characters, is_end)
        last = np.flatnonzero(ends)
        starts = np.append(place, len(text))[np.append(0, last + 1)].tolist()  # of tokens, and of what follows them
        tokens, done = list[Token](), starts[0]
        self.before += text[:done]
        self.line_number += text.count("\n", 0, done)
        found = zip((place[last] + 1).tolist(), ends[last].tolist(), multiword[last].tolist())
        for i, (end, kind, several) in enumerate(found):
            form = text[starts[i] : end]
            tokens.append(Token(form, (several and split(form)) or [form], text[end : starts[i + 1]]))
            if kind == kernel.SENTENCE:
                comments = ["# newpar"] if self.is_new else []
                if self.numbers is not None:
                    comments.append(f"# sent_id = {next(self.numbers)}")
                yield sentence_of(tokens, comments, self.source, self.line_number, self.before)
                self.before, self.is_new, tokens = "", False, []
                self.line_number += text.count("\n", done, starts[i + 1])
                done = starts[i + 1]
        self.text, self.pieces, self.size = text[done:], [], len(text) - done
        self.is_new, self.wanted = self.is_new or is_end, max(WINDOW, 2 * self.size)
