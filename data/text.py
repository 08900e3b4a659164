"""Text with one tokenized sentence per line, and the text of sentences in CoNLL-U."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

from arbora.data.conll import ConllError, EmptyError, Sentence, Unparsed, check_utf8, open_input, read_lines, valid


def read_text(source: str | Path | TextIO, *, name: str | None = None) -> Iterator[Sentence]:
    """Read one sentence per line, with white space between words; blank lines are skipped.

    Args:
        source: a file (decompressed if its name ends like `.gz`), `-` for standard input, or an open text stream.
        name: what to call the source in messages.

    Raises:
        ConllError: the source is not UTF-8, or has no words.
    """
    return valid(text_entries(source, name=name))


def text_entries(source: str | Path | TextIO, *, name: str | None = None) -> Iterator[Sentence | Unparsed]:
    """Read as `read_text` does, but yield lines that are not UTF-8 in their place, with the reason.

    Args:
        source: a file (decompressed if its name ends like `.gz`), `-` for standard input, or an open text stream.
        name: what to call the source in messages.

    Raises:
        EmptyError: the source has no words.
    """
    with open_input(source, name) as (stream, name):
        for line_number, line in _written_lines(stream, name):
            if not line.isspace():
                yield _checked(Sentence.from_words(line.split(), name, line_number))


class Token(NamedTuple):
    """A token of a text."""

    form: str
    words: list[str]  # several for a multiword token
    space: str  # the white space after it


def sentence_of(
    tokens: Sequence[Token], comments: Sequence[str], source: str, line_number: int, before: str = ""
) -> Sentence:
    """Make a sentence without annotation that records its text exactly, in `# text` and MISC.

    Args:
        tokens: at least one.
        comments: written first.
        source: where they come from, for messages.
        line_number: likewise.
        before: white space before the first token.
    """
    text = "".join([token.form + " " * bool(token.space) for token in tokens]).rstrip(" ")
    lines = [*comments, f"# text = {text}"]
    forms, word_line = list[str](), list[int]()
    for form, words, space in tokens:
        misc = "_" if space == " " else "SpaceAfter=No" if not space else f"SpacesAfter={_escape(space)}"
        if before:
            misc, before = "|".join([*([] if misc == "_" else [misc]), f"SpacesBefore={_escape(before)}"]), ""
        n = len(forms)
        if len(words) > 1:
            lines.append(f"{n + 1}-{n + len(words)}\t{form}{_BLANK}{misc}")
            misc = "_"
        for i, word in enumerate(words, n + 1):
            word_line.append(len(lines))
            lines.append(f"{i}\t{word}{_BLANK}{misc}")
        forms += words
    blank, n = ["_"], len(forms)
    columns = blank * n, blank * n, blank * n, blank * n, [-1] * n, blank * n
    return Sentence(forms, *columns, lines, word_line, source, line_number)


def tokens_of(sentence: Sentence) -> Iterator[Token]:
    """Return the tokens of a CoNLL-U sentence."""
    covered = 0
    for line in sentence.lines:
        number, form, *_, misc = ("#", "", "") if line[0] == "#" else line.split("\t")
        first, _, last = number.partition("-")
        if not last and (not number.isdigit() or int(number) <= covered):
            continue
        covered = int(last or first)
        entries = dict(entry.partition("=")[::2] for entry in misc.split("|"))
        space = "" if entries.get("SpaceAfter") == "No" else " "
        if "SpacesAfter" in entries:
            space = unescape(entries["SpacesAfter"])
        yield Token(form, sentence.form[int(first) - 1 : covered], space)


def text_of(sentences: Iterable[Sentence]) -> str:
    """The running text of sentences of CoNLL-U, with an empty line between paragraphs."""
    pieces: list[str] = []
    for sentence in sentences:
        if pieces and any(line.startswith(("# newpar", "# newdoc")) for line in sentence.lines):
            pieces.append("\n\n")
        pieces += [part for token in tokens_of(sentence) for part in (token.form, token.space)]
    return "".join(pieces) + "\n"


_BLANK = "\t_" * 7 + "\t"
_ESCAPES = {" ": r"\s", "\t": r"\t", "\n": r"\n", "\r": r"\r"}


def _escape(space: str) -> str:
    """Encode white space for MISC, as UDPipe does, or else by code points."""
    return "".join([_ESCAPES.get(c) or f"\\u{ord(c):04X}" for c in space])


def unescape(space: str) -> str:
    """Decode white space of `SpacesAfter` or `SpacesBefore` in MISC."""
    names = {escape: c for c, escape in _ESCAPES.items()}
    return re.sub(
        r"\\(?:u([0-9A-Fa-f]{4})|.)",
        lambda found: chr(int(found[1], 16)) if found[1] else names.get(found[0], ""),
        space,
    )


def _checked(sentence: Sentence) -> Sentence | Unparsed:
    """Return the sentence, or an `Unparsed` entry if it is not UTF-8."""
    try:
        for word in sentence.form:
            check_utf8(word, sentence.source, sentence.line_number)
    except ConllError as error:
        return Unparsed(sentence.lines, sentence.source, sentence.line_number, error)
    return sentence


def _written_lines(stream: TextIO, source: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a stream; raise an error if it has no words at all."""
    empty = True
    for line_number, line in read_lines(stream, source):
        empty = empty and line.isspace()
        yield line_number, line
    if empty:
        raise EmptyError(f"{source}:1: the text is empty; give at least one sentence")
