"""Reading text that is no treebank: a tokenized sentence a line, or raw text to be split into sentences and words."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import TextIO

from arbora.data.conll import ConllError, Sentence, check_utf8, open_input, read_lines


def read_text(source: str | Path | TextIO, *, name: str | None = None) -> Iterator[Sentence]:
    """Read one sentence a line, with white space between the words; blank lines are skipped.

    Args:
        source: a file (`.gz` is decompressed), `-` for standard input, or an open text stream.
        name: what to call the source in messages.

    Raises:
        ConllError: the source is not UTF-8, or has no words.
    """
    with open_input(source, name) as (stream, name):
        for line_number, line in _written_lines(stream, name):
            if not line.isspace():
                yield Sentence.from_words(line.split(), name, line_number)


def read_raw_text(source: str | Path | TextIO, *, name: str | None = None) -> Iterator[Sentence]:
    """Read raw text, split into sentences and words by syntok (English, Spanish, German, and what is written alike).

    A blank line ends a paragraph, a line end does not end a sentence, and memory holds one paragraph. `# newpar`,
    `# text` and `SpaceAfter=No` record the text: the words joined by them give it back, with each run of white space as
    one space, and without zero-width spaces.

    Args:
        source: a file (`.gz` is decompressed), `-` for standard input, or an open text stream.
        name: what to call the source in messages.

    Raises:
        ConllError: the source is not UTF-8, or has no words.
        ValueError: syntok is not installed.
    """
    try:
        from syntok.segmenter import segment
        from syntok.tokenizer import Tokenizer
    except ModuleNotFoundError as error:
        raise ValueError('raw text needs the package syntok: pip install "arbora[text]"') from error
    # Nothing may be hidden or rewritten: by default, the hyphens inside words are left out and n't becomes not.
    tokenizer = Tokenizer(emit_hyphen_or_underscore_sep=True, replace_not_contraction=False)
    with open_input(source, name) as (stream, name):
        for blank, lines in groupby(_written_lines(stream, name), key=lambda numbered: numbered[1].isspace()):
            if blank:
                continue
            numbers, texts = zip(*lines)
            paragraph = "".join(texts)
            comments = ["# newpar"]
            for tokens in segment(tokenizer.tokenize(paragraph)):
                spans = [(token.offset, token.offset + len(token.value)) for token in tokens if token.value]
                if spans:
                    line_number = numbers[0] + paragraph.count("\n", 0, spans[0][0])
                    yield _annotated(paragraph, spans, comments, name, line_number)
                    comments = []


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


def _written_lines(stream: TextIO, source: str) -> Iterator[tuple[int, str]]:
    """Give the numbered lines of a stream; refuse what is not UTF-8 and what has no words at all."""
    empty = True
    for line_number, line in read_lines(stream, source):
        check_utf8(line, source, line_number)
        empty = empty and line.isspace()
        yield line_number, line
    if empty:
        raise ConllError(f"{source}:1: the text is empty; give at least one sentence")
