"""Reading text that is no treebank: a tokenized sentence a line, or raw text to be split into sentences and words."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

from arbora.data.conll import ConllError, EmptyError, Sentence, Unparsed, check_utf8, open_input, read_lines, valid
from arbora.extras import importing_extra

LONGEST_PARAGRAPH = 100_000
"""Characters of raw text that are held at a time: a longer paragraph is taken in pieces that end with a sentence."""


def read_text(source: str | Path | TextIO, *, name: str | None = None) -> Iterator[Sentence]:
    """Read one sentence a line, with white space between the words; blank lines are skipped.

    Args:
        source: a file (decompressed if its name ends like `.gz`), `-` for standard input, or an open text stream.
        name: what to call the source in messages.

    Raises:
        ConllError: the source is not UTF-8, or has no words.
    """
    return valid(text_entries(source, name=name))


def text_entries(source: str | Path | TextIO, *, name: str | None = None) -> Iterator[Sentence | Unparsed]:
    """Read as `read_text` does, and give lines that are not UTF-8 in their place, with the reason.

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


def read_raw_text(source: str | Path | TextIO, *, name: str | None = None) -> Iterator[Sentence]:
    """Read raw text, split into sentences and words by syntok (English, Spanish, German, and what is written alike).

    A blank line ends a paragraph, a line end does not end a sentence, and memory holds one paragraph, or a piece of it
    where it has more than `LONGEST_PARAGRAPH` characters. `# newpar`, `# text` and `SpaceAfter=No` record the text: the
    words joined by them give it back, with each run of white space as one space, and without zero-width spaces.

    Args:
        source: a file (decompressed if its name ends like `.gz`), `-` for standard input, or an open text stream.
        name: what to call the source in messages.

    Raises:
        ConllError: the source is not UTF-8, or has no words.
        ModuleNotFoundError: the extra `text` is not installed.
    """
    return valid(raw_text_entries(source, name=name))


def raw_text_entries(source: str | Path | TextIO, *, name: str | None = None) -> Iterator[Sentence | Unparsed]:
    """Read as `read_raw_text` does, and give paragraphs that are not UTF-8 in their place, with the reason.

    Args:
        source: a file (decompressed if its name ends like `.gz`), `-` for standard input, or an open text stream.
        name: what to call the source in messages.

    Raises:
        EmptyError: the source has no words.
        ModuleNotFoundError: the extra `text` is not installed.
    """
    with importing_extra():
        from syntok.segmenter import segment
        from syntok.tokenizer import Tokenizer
    # Nothing may be hidden or rewritten: by default, the hyphens inside words are left out and n't becomes not.
    tokenizer = Tokenizer(emit_hyphen_or_underscore_sep=True, replace_not_contraction=False)
    with open_input(source, name) as (stream, name):
        rest = ""
        for piece in _pieces(stream, name):
            text = rest + piece.text
            first_line = piece.line_number - rest.count("\n")
            rest = ""
            comments = ["# newpar"] if piece.starts else []
            try:
                check_utf8(text, name, first_line)
            except ConllError as error:
                yield Unparsed(Sentence.from_words(text.split()).lines, name, first_line, error)
                continue
            sentences = [
                [(token.offset, token.offset + len(token.value)) for token in tokens if token.value]
                for tokens in segment(tokenizer.tokenize(text))
            ]
            sentences = [spans for spans in sentences if spans]
            if not piece.ends and len(sentences) > 1:  # the last one may go on in the next piece
                rest = text[sentences.pop()[0][0] :]
            for spans in sentences:
                yield _annotated(text, spans, comments, name, first_line + text.count("\n", 0, spans[0][0]))
                comments = []


class _Piece(NamedTuple):
    text: str
    line_number: int
    starts: bool  # a paragraph
    ends: bool  # a paragraph


def _pieces(stream: TextIO, source: str) -> Iterator[_Piece]:
    """Group the lines between blank lines, and cut such groups where they get long."""
    start, lines, size, starts = 1, list[str](), 0, True
    for number, line in _written_lines(stream, source):
        blank = line.isspace()
        if lines and (blank or size > LONGEST_PARAGRAPH):
            yield _Piece("".join(lines), start, starts, ends=blank)
            lines, size, starts = [], 0, blank
        if blank:
            starts = True
            continue
        start = start if lines else number
        lines.append(line)
        size += len(line)
    if lines:
        yield _Piece("".join(lines), start, starts, ends=True)


def _annotated(
    paragraph: str, spans: list[tuple[int, int]], comments: list[str], source: str, line_number: int
) -> Sentence:
    """Make a sentence of words given by their places in a paragraph, and write down where spaces were between them."""
    sentence = Sentence.from_words([paragraph[start:end] for start, end in spans], source, line_number)
    text = ""
    for i, (word, (_, end)) in enumerate(zip(sentence.form, spans)):
        spaced = end == len(paragraph) or paragraph[end].isspace()
        text += word + " " * spaced
        if not spaced:
            sentence.lines[i] = sentence.lines[i].removesuffix("_") + "SpaceAfter=No"
    comments = [*comments, f"# text = {text.rstrip()}"]
    sentence.lines = comments + sentence.lines
    sentence.word_line = [len(comments) + i for i in range(len(sentence))]
    return sentence


def _checked(sentence: Sentence) -> Sentence | Unparsed:
    """The sentence, unless it is not UTF-8."""
    try:
        for word in sentence.form:
            check_utf8(word, sentence.source, sentence.line_number)
    except ConllError as error:
        return Unparsed(sentence.lines, sentence.source, sentence.line_number, error)
    return sentence


def _written_lines(stream: TextIO, source: str) -> Iterator[tuple[int, str]]:
    """Give the numbered lines of a stream; refuse one that has no words at all."""
    empty = True
    for line_number, line in read_lines(stream, source):
        empty = empty and line.isspace()
        yield line_number, line
    if empty:
        raise EmptyError(f"{source}:1: the text is empty; give at least one sentence")
