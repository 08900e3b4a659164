"""Reading and writing treebanks: CoNLL-U, and CoNLL-X of the 2006 and 2007 shared tasks.

Formats: https://universaldependencies.org/format.html; Buchholz and Marsi (2006), "CoNLL-X shared task on multilingual
dependency parsing". A sentence keeps its raw lines, so that writing replaces two columns and leaves the rest as it was.
"""

import functools
import io
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, NamedTuple, TextIO, cast

from arbora.data.compression import CompressingWriter, InputText, is_damage, new_compressor

Format = Literal["auto", "conllu", "conllx"]
FileFormat = Literal["conllu", "conllx"]

logger = logging.getLogger("arbora")

# ID of a multiword range (3-4) or of an empty node (3.1)
_EXTRA_ID = re.compile(r"(0|[1-9][0-9]{0,8})([-.])([1-9][0-9]{0,8})")


class ConllError(ValueError):
    """A file that cannot be read. The message is one line: where, what is wrong, and what to do."""


class EmptyError(ConllError):
    """A file without a sentence."""


@dataclass(slots=True)
class Sentence:
    """One sentence of n words; every column has n entries, and entry i belongs to word i + 1.

    Args:
        form: FORM; like all columns, exactly as in the file.
        lemma: LEMMA.
        upos: UPOS; CPOSTAG in CoNLL-X.
        xpos: XPOS; POSTAG in CoNLL-X.
        feats: FEATS.
        head: HEAD, 0 to n; -1 where the file has `_` or no such column.
        deprel: DEPREL; `_` where the file has no such column.
        lines: the raw lines without line ends: comments, multiword ranges, empty nodes, words.
        word_line: index in `lines` of each word.
        source: name of the file.
        line_number: number of the first line in the file, counted from 1.
        format: of the lines. CoNLL-X has neither comments nor MISC.
        forbidden: arcs that its tree must not have, each as (word, head); they are not part of a file.
    """

    form: list[str]
    lemma: list[str]
    upos: list[str]
    xpos: list[str]
    feats: list[str]
    head: list[int]
    deprel: list[str]
    lines: list[str]
    word_line: list[int]
    source: str
    line_number: int
    format: FileFormat = "conllu"
    forbidden: tuple[tuple[int, int], ...] = ()

    def __len__(self) -> int:
        return len(self.form)

    @classmethod
    def from_words(cls, words: Sequence[str], source: str = "<text>", line_number: int = 1) -> "Sentence":
        """Make a sentence without annotation.

        Args:
            words: the forms, at least one; none is empty or has a tab or a line end in it.
            source: where they come from, for messages.
            line_number: likewise.
        """
        if not words:
            raise ValueError("a sentence needs at least one word, got none")
        n, text = len(words), "".join(words)
        if "" in words or "\t" in text or "\n" in text or "\r" in text:
            word = next(word for word in words if not word or set(word) & set("\t\n\r"))
            raise ValueError(f"a word must not be empty or have a tab or a line end in it, got {word!r}")
        return cls(
            form=list(words),
            lemma=["_"] * n,
            upos=["_"] * n,
            xpos=["_"] * n,
            feats=["_"] * n,
            head=[-1] * n,
            deprel=["_"] * n,
            lines=[f"{i}\t{word}\t_\t_\t_\t_\t_\t_\t_\t_" for i, word in enumerate(words, 1)],
            word_line=list(range(n)),
            source=source,
            line_number=line_number,
        )

    def where(self, word: int | None = None) -> str:
        """Return the place for a message, as `file.conllu:12`.

        Args:
            word: a word of a treebank, from 1 to n; if not given, the place is the sentence's first line.
        """
        return f"{self.source}:{self.line_number + (0 if word is None else self.word_line[word - 1])}"

    def with_tree(
        self,
        heads: Sequence[int],
        labels: Sequence[str],
        comments: Mapping[str, str] | None = None,
        misc: Sequence[Mapping[str, str]] | None = None,
        tags: Mapping[str, Sequence[str]] | None = None,
    ) -> str:
        """Return the sentence as text, a blank line at its end, with only HEAD, DEPREL and given tags replaced.

        In a sentence with six columns (a blind test file), HEAD and DEPREL become columns seven and eight.

        Args:
            heads: the head of each of the n words, without an entry for the root.
            labels: the label of each of the n words.
            comments: added after the sentence's comments, as `# name = value`; they replace comments of the same name.
            misc: for each word, what is added to its MISC, as `name=value`; it replaces entries of the same name.
            tags: other columns to replace, with n entries each: `lemma`, `upos`, `xpos`, `feats`.

        Raises:
            ValueError: a sentence of CoNLL-X cannot have comments or MISC.
        """
        if (comments or misc is not None) and self.format == "conllx":
            raise ValueError(f"{self.where()}: CoNLL-X has no comments and no MISC; read and write CoNLL-U")
        lines, tags = self.lines.copy(), tags or {}
        others = [tags.get(name, getattr(self, name)) for name in ("lemma", "upos", "xpos", "feats")]
        for i, *entries in zip(self.word_line, *others, map(str, heads), labels, strict=True):
            columns = lines[i].split("\t", 8)
            columns[2:8] = entries
            lines[i] = "\t".join(columns)
        if misc is not None:
            for i, values in zip(self.word_line, misc, strict=True):
                line, tab, before = lines[i].rpartition("\t")
                kept = [entry for entry in before.split("|") if entry not in ("", "_") and _name(entry) not in values]
                lines[i] = line + tab + "|".join([*kept, *(f"{name}={value}" for name, value in values.items())])
        if comments:
            stale = tuple(f"# {name} = " for name in comments)
            first = next(i for i, line in enumerate(lines) if line[0] != "#")
            kept = [line for line in lines[:first] if not line.startswith(stale)]
            lines[:first] = [*kept, *(f"# {name} = {value}" for name, value in comments.items())]
        lines.append("\n")
        return "\n".join(lines)


def _short(text: str) -> str:
    """Return a value of a file for a message, cut if it is long."""
    return text if len(text) <= 40 else text[:40] + "..."


def _name(entry: str) -> str:
    return entry.partition("=")[0]


@dataclass(frozen=True, slots=True)
class Unparsed:
    """An entry of a file that cannot be read or parsed as a sentence.

    Args:
        lines: as in the file, or as CoNLL-U for text files; bytes that are not UTF-8 are lone surrogates.
        source: name of the file.
        line_number: number of the first line in the file, counted from 1.
        error: the error; its message has the place.
    """

    lines: list[str]
    source: str
    line_number: int
    error: Exception

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def text(self) -> str:
        """Return the lines with a blank line at the end; empty for an empty file."""
        return "\n".join([*self.lines, "\n"]) if self.lines else ""


def read_conll(
    source: str | Path | TextIO,
    *,
    format: Format = "auto",
    trees: bool = True,
    partial: bool = False,
    single_root: bool = False,
    skip_invalid: bool = False,
    name: str | None = None,
) -> Iterator[Sentence]:
    """Read sentences one at a time; memory does not grow with the file.

    Lines may end in LF or CRLF, and `Sentence.with_tree` writes LF; a byte order mark is dropped, and several blank
    lines between sentences become one. Everything else survives byte for byte.

    Args:
        source: a file (decompressed if its name ends like `.gz`), `-` for standard input, or an open text stream.
        format: `conllu`, `conllx`, or `auto` to decide by the first sentence.
        trees: require a valid tree for each sentence. Otherwise `_` is a legal head, and cycles and roots are not
            checked.
        partial: with `trees`, `_` is also a legal head, and the other heads must be part of a tree.
        single_root: require exactly one word with head 0.
        skip_invalid: skip invalid sentences and log their number at the end, instead of raising an error.
        name: what to call the source in messages.

    Raises:
        ConllError: a sentence is invalid, or there is no sentence at all.
    """
    found = invalid = 0
    first_error: Exception | None = None
    for entry in conll_entries(source, format=format, trees=trees, partial=partial, single_root=single_root, name=name):
        if isinstance(entry, Sentence):
            found += 1
            yield entry
        elif skip_invalid:
            first_error = first_error or entry.error
            invalid += 1
        else:
            raise entry.error
    if first_error and not found:
        raise ConllError(f"{first_error} (none of the {invalid} sentences is valid)") from first_error
    if first_error:
        logger.warning("skipped %d of %d sentences as invalid; the first: %s", invalid, invalid + found, first_error)


def conll_entries(
    source: str | Path | TextIO,
    *,
    format: Format = "auto",
    trees: bool = True,
    partial: bool = False,
    single_root: bool = False,
    name: str | None = None,
) -> Iterator[Sentence | Unparsed]:
    """Read sentences as `read_conll` does; invalid ones are returned in their place, with the reason.

    Args:
        source: a file (decompressed if its name ends like `.gz`), `-` for standard input, or an open text stream.
        format: `conllu`, `conllx`, or `auto` to decide by the first valid sentence.
        trees: require a valid tree for each sentence.
        partial: with `trees`, require only that the heads that are not `_` are part of a tree.
        single_root: require exactly one word with head 0.
        name: what to call the source in messages.

    Raises:
        EmptyError: the file is empty.
        ConllError: a compressed file is damaged.
    """
    layout: _Layout | None = None
    empty = True
    with open_input(source, name) as (stream, name):
        for line_number, lines in _blocks(stream, name):
            empty = False
            try:
                tried = layout or _Layout.of(format, lines)
                sentence = _parse(lines, name, line_number, tried, trees and not partial)
                if trees:
                    _check_tree(sentence, single_root)
            except ConllError as error:
                yield Unparsed(lines, name, line_number, error)
            else:
                layout = tried
                yield sentence
    if empty:
        raise EmptyError(f"{name}:1: the file is empty; give a file with at least one sentence")


def valid(entries: Iterable[Sentence | Unparsed]) -> Iterator[Sentence]:
    """Yield sentences, and raise the error of the first entry that is not a sentence."""
    for entry in entries:
        if isinstance(entry, Unparsed):
            raise entry.error
        yield entry


@contextmanager
def open_input(source: str | Path | TextIO, name: str | None = None) -> Iterator[tuple[TextIO, str]]:
    """Open a source of UTF-8 text; gives the stream and its name for messages.

    Bytes that are not UTF-8 come as lone surrogates (PEP 383): `check_utf8` finds them, and the lines after them can
    still be read. A stream that is passed in is left open.

    Args:
        source: a file (decompressed if its name ends like `.gz`), `-` for standard input, or an open text stream.
        name: what to call the source.
    """
    if not isinstance(source, str | Path):
        yield source, name or str(getattr(source, "name", "<stream>"))
    elif str(source) == "-":
        if sys.stdin is None:
            raise ValueError("standard input is closed; name a file, or pipe one in")
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")
        yield sys.stdin, name or "<stdin>"
    else:
        with InputText(source) as stream:
            yield stream, name or str(source)


def read_lines(stream: TextIO, source: str, longest: int | None = None) -> Iterator[tuple[int, str]]:
    """Yield the lines of a stream with their numbers from 1, without a byte order mark; lines are never empty strings.

    Args:
        stream: from `open_input`.
        source: its name.
        longest: split longer lines into pieces of this many characters.

    Raises:
        ConllError: the stream cannot be decoded or decompressed any further.
    """
    number, first = 1, True
    try:
        for line in stream if longest is None else iter(functools.partial(stream.readline, longest), ""):
            yield number, (line.removeprefix("\ufeff") or "\n") if first else line
            number, first = number + line.endswith("\n"), False
    except UnicodeDecodeError as error:
        raise ConllError(f"{source}:{number}: not UTF-8 ({error.reason}); convert the file to UTF-8") from error
    except Exception as error:
        if not is_damage(error):
            raise
        raise ConllError(f"{source}:{number}: damaged file ({error}); fetch or compress it again") from error


def check_utf8(text: str, source: str, line_number: int) -> None:
    """Raise an error for text that was not UTF-8 in its file.

    Args:
        text: what was read from a stream of `open_input`.
        source: name of the file.
        line_number: the line in which `text` begins.

    Raises:
        ConllError: with the line of the first byte that is not UTF-8.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        line_number += text.count("\n", 0, error.start)
        byte = ord(text[error.start]) & 0xFF
        raise ConllError(f"{source}:{line_number}: byte 0x{byte:02x} is not UTF-8; convert the file to UTF-8") from None


@contextmanager
def open_output(path: str | Path | None) -> Iterator[TextIO]:
    """Open a text file for writing that appears only when complete.

    The text is written to a temporary file in the same folder, which is renamed to `path` if the block succeeds, and
    removed if it raises an error. A symbolic link is followed: the file that it points to is replaced. The name's
    ending says whether to compress, as in `open_input`. A device or a pipe is written to directly. Lone surrogates, as
    which `open_input` gives bytes that are not UTF-8, become those bytes again.

    Args:
        path: the file to write; None or `-` for standard output.

    Raises:
        OSError: the folder does not exist or cannot be written to.
    """
    if path is None or str(path) == "-":
        if sys.stdout is None:
            raise ValueError("standard output is closed; name a file to write")
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")
        yield sys.stdout
        sys.stdout.flush()
        return
    path = writable_path(path)
    compressor = new_compressor(path)
    if path.exists() and not path.is_file():
        with open(path, "w", encoding="utf-8", errors="surrogateescape", newline="\n") as stream:
            yield stream
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        file: IO[bytes] = open(temporary, "wb")  # noqa: SIM115 - closed by the stream around it
        if compressor is not None:
            file = cast(IO[bytes], io.BufferedWriter(CompressingWriter(file, compressor), 1 << 16))
        with io.TextIOWrapper(file, encoding="utf-8", errors="surrogateescape", newline="\n") as stream:
            yield stream
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def writable_path(path: str | Path) -> Path:
    """Return the file to write for a path: the one it points to, if it is a symbolic link to a file.

    Raises:
        OSError: there is no such folder.
    """
    path = Path(path)
    if path.is_symlink() and (path.is_file() or not path.exists()):
        path = Path(os.path.realpath(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {path.parent}; create it first")
    return path


class _Layout(NamedTuple):
    format: FileFormat
    width: int  # number of columns

    @classmethod
    def of(cls, format: Format, lines: Sequence[str]) -> "_Layout":
        """Decide the format `auto` by the lines of the first sentence."""
        width = 0 if lines[0].startswith("#") else 1 + lines[0].count("\t")
        match format:
            case "conllu":
                return cls("conllu", 10)
            case "conllx":
                return cls("conllx", width if width in (6, 8) else 10)
            case "auto":  # ten columns are read as CoNLL-U, where all that CoNLL-X allows is legal too
                return cls("conllx", width) if width in (6, 8) else cls("conllu", 10)
        raise ValueError(f"format must be auto, conllu or conllx, got {format!r}")


def _blocks(stream: TextIO, source: str) -> Iterator[tuple[int, list[str]]]:
    """Group lines without their ends into the runs between blank lines, each with the number of its first line."""
    start, lines = 1, list[str]()
    for number, line in read_lines(stream, source):
        if not line.isspace():
            lines.append(line.rstrip("\r\n"))
            continue
        if lines:
            yield start, lines
        start, lines = number + 1, []
    if lines:
        yield start, lines


@functools.lru_cache(maxsize=256)
def _numbers(n: int) -> dict[str, int]:
    """Map the numerals of 0..n to numbers: one lookup reads a head and checks its range."""
    return {str(i): i for i in range(n + 1)}


def _parse(lines: list[str], source: str, line_number: int, layout: _Layout, trees: bool) -> Sentence:
    """Make a sentence from its lines; check columns, ids and the range of heads."""
    check_utf8("\n".join(lines), source, line_number)
    rows: list[list[str]] = []
    word_line: list[int] = []
    extras: list[tuple[int, int, str]] = []  # line, number of words before it, id
    comments = layout.format == "conllu"
    for i, line in enumerate(lines):
        if comments and line[0] == "#":
            continue
        columns = line.split("\t")
        if len(columns) != layout.width:
            raise _width_error(line, f"{source}:{line_number + i}", layout)
        if not columns[1]:
            raise ConllError(f"{source}:{line_number + i}: FORM is empty; write the word, or _ if it is unknown")
        if columns[0].isdigit():
            rows.append(columns)
            word_line.append(i)
        else:
            extras.append((i, len(rows), columns[0]))
    if not rows and not extras:
        raise ConllError(f"{source}:{line_number}: comments without words; remove them or the blank line after them")
    n = len(rows)
    if layout.width == 6:
        rows = [[*columns, "_", "_"] for columns in rows]
    ids, form, lemma, upos, xpos, feats, heads, deprel, *_ = map(list, zip(*rows)) if rows else [[]] * 8
    sentence = Sentence(form, lemma, upos, xpos, feats, [], deprel, lines, word_line, source, line_number)
    sentence.format = layout.format
    if extras:
        _check_extras(sentence, extras, layout)
    numbers = _numbers(n)
    if ids != list(numbers)[1:]:
        raise _id_error(sentence, ids)
    try:
        sentence.head = [-1 if head == "_" and not trees else numbers[head] for head in heads]
    except KeyError:
        raise _head_error(sentence, heads, trees) from None
    return sentence


def _check_extras(sentence: Sentence, extras: list[tuple[int, int, str]], layout: _Layout) -> None:
    """Check the other ids: a range must be before its first word, and empty node i.1 after word i."""
    n = len(sentence)
    covered = 0  # last word of the ranges so far
    node = (0, 0)  # last empty node so far
    for i, words, extra in extras:
        where = f"{sentence.source}:{sentence.line_number + i}"
        match = _EXTRA_ID.fullmatch(extra)
        if not match:
            raise ConllError(f"{where}: ID {_short(extra)!r} is not an integer; expected {words + 1}")
        if layout.format == "conllx":
            raise ConllError(f"{where}: ID {_short(extra)} is not legal in CoNLL-X; read the file as CoNLL-U")
        first, last = int(match[1]), int(match[3])
        if match[2] == "-":
            if first != words + 1 or not covered < first <= last <= n:
                raise ConllError(
                    f"{where}: range {extra} does not fit; put it before its first word, ending by word {n}"
                )
            covered = last
        else:
            expected = (words, node[1] + 1 if node[0] == words else 1)
            if (first, last) != expected:
                raise ConllError(f"{where}: empty node {extra} is out of order; expected {expected[0]}.{expected[1]}")
            node = expected
    if not n:
        raise ConllError(f"{sentence.where()}: a sentence without words; remove it or add the words")


def _check_tree(sentence: Sentence, single_root: bool) -> None:
    """Check that the heads are a tree, or part of one, in O(n): every word is walked over once."""
    heads = sentence.head
    roots = [word for word, head in enumerate(heads, 1) if head == 0]
    if not roots and -1 not in heads:
        raise ConllError(f"{sentence.where()}: no root; give one word the head 0")
    if single_root and len(roots) > 1:
        words = ", ".join(map(str, roots))
        raise ConllError(
            f"{sentence.where(roots[1])}: {len(roots)} roots (words {words}), but only one is allowed; "
            "attach all but one, or allow several roots"
        )
    if "" in sentence.deprel:
        word = sentence.deprel.index("") + 1
        raise ConllError(f"{sentence.where(word)}: DEPREL is empty; write the label, or _ if it is unknown")
    walk = [-1] + [0] * len(heads)  # the word whose walk to the root visited this word first
    for start in range(1, len(heads) + 1):
        word = start
        while not walk[word]:
            walk[word] = start
            word = max(heads[word - 1], 0)
        if walk[word] == start:
            raise _cycle_error(sentence, word)


def _width_error(line: str, where: str, layout: _Layout) -> ConllError:
    if layout.format == "conllx" and line[0] == "#":
        return ConllError(f"{where}: comments are not legal in CoNLL-X; read the file as CoNLL-U")
    if "\t" not in line and len(line.split()) > 1:
        return ConllError(f"{where}: spaces where tabs are expected; separate the {layout.width} columns by tabs")
    found = 1 + line.count("\t")
    return ConllError(f"{where}: {found} columns where {layout.width} are expected; separate them by single tabs")


def _id_error(sentence: Sentence, ids: list[str]) -> ConllError:
    word, found = next((word, found) for word, found in enumerate(ids, 1) if found != str(word))
    return ConllError(
        f"{sentence.where(word)}: ID {_short(found)} where {word} is expected; "
        "number the words from 1, and put a blank line between sentences"
    )


def _head_error(sentence: Sentence, heads: list[str], trees: bool) -> ConllError:
    n = len(sentence)
    legal = _numbers(n).keys() | (set() if trees else {"_"})
    word, found = next((word, found) for word, found in enumerate(heads, 1) if found not in legal)
    where = sentence.where(word)
    if found == "_":
        return ConllError(f"{where}: word {word} has no head; trees are required here, so give every word a head")
    fault = "out of range" if re.fullmatch("-?[1-9][0-9]*", found) else "not an integer"
    return ConllError(f"{where}: head {_short(found)!r} of word {word} is {fault}; expected 0 to {n}")


def _cycle_error(sentence: Sentence, word: int) -> ConllError:
    cycle = [word]
    while (head := sentence.head[cycle[-1] - 1]) != word:
        cycle.append(head)
    where = sentence.where(min(cycle))
    if len(cycle) == 1:
        return ConllError(f"{where}: word {word} is its own head; give it another")
    return ConllError(
        f"{where}: words {', '.join(map(str, sorted(cycle)))} form a cycle; give one of them another head"
    )
