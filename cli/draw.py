"""`arbora draw`: draw the trees of a treebank as text, SVG or HTML."""

import argparse
import os
import re
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from arbora.cli.options import CommandParser
from arbora.cli.svg_drawing import WIDTH, Picture, Tree, draw_svg, html_end, html_sentence, html_start, svg_document
from arbora.cli.text_drawing import Token, draw, printable
from arbora.data.conll import Format, Sentence, conll_entries, open_output, valid
from arbora.evaluation.figures import different_words

DESCRIPTION = """\
Draw the trees of a treebank as text, SVG or HTML.

  arbora draw test.conllu | less                        # text, as wide as the terminal
  arbora draw test.conllu --sentences 3,10-12           # some sentences, counted from 1
  arbora draw test.conllu --sentences weblog-07 --tags -o tree.svg
  arbora draw test.conllu -o trees/                     # a folder: an SVG for each sentence, 0001.svg and so on
  arbora predict runs/mine/best.ckpt test.conllu | arbora draw --format html -o trees.html

Show how the heads and labels of two files with the same sentences differ:

  arbora draw parsed.conllu --against test.conllu --differing -o errors.html

Arcs that differ are dashed and orange above the words for the first file, and blue below the words for the second. As
text, both trees are drawn one after the other, and labels that differ are marked with *. If a sentence does not fit the
width, its words are written one per line. Multiword tokens are drawn next to their words; empty nodes and the enhanced
graph are not drawn. SVG and HTML files are self-contained and follow the reader's light or dark colour scheme.
"""

ENDINGS = {".svg": "svg", ".html": "html", ".htm": "html", ".txt": "text"}
FILES = {"text": "txt", "svg": "svg", "html": "html"}
FIRST, SECOND = "33", "36"
"""Terminal colours for differences, in the first file and in the second."""


class Chosen(NamedTuple):
    """The sentences to draw: ranges of numbers, from 1, with None for an open end, and names."""

    ranges: list[tuple[int, int | None]]
    names: list[str]

    @classmethod
    def of(cls, text: str | None) -> "Chosen | None":
        """Read a list such as `3,10-12,20-,weblog-07`. None means all sentences.

        Raises:
            ValueError: with one line that says what is wrong.
        """
        if text is None:
            return None
        chosen = cls([], [])
        for item in filter(None, (item.strip() for item in text.split(","))):
            if not (match := re.fullmatch(r"([0-9]+)(-([0-9]*))?", item)):
                chosen.names.append(item.removeprefix("id:"))
                continue
            first = int(match[1])
            last = first if match[2] is None else int(match[3]) if match[3] else None
            if first < 1 or (last is not None and last < first):
                raise ValueError(f"--sentences {item}: give numbers from 1, such as 3 or 10-12 or 20-")
            chosen.ranges.append((first, last))
        if not chosen.ranges and not chosen.names:
            raise ValueError("--sentences is empty: give numbers or names, such as 3,10-12,weblog-07")
        return chosen

    def has(self, number: int, name: str) -> bool:
        """Return whether a sentence is one of them."""
        return name in self.names or any(first <= number and (last or number) >= number for first, last in self.ranges)

    def done(self, number: int, seen: set[str]) -> bool:
        """Return whether no later sentence can be one of them."""
        ends = [last for _, last in self.ranges]
        return seen.issuperset(self.names) and all(last is not None and last <= number for last in ends)

    def missing(self, number: int, seen: set[str]) -> str | None:
        """Describe the first one that a file with this number of sentences does not have."""
        for first, last in self.ranges:
            if (last or first) > number:
                return f"there is no sentence {last or first} among {number:,}"
        return next((f"there is no sentence {name}" for name in self.names if name not in seen), None)


class Drawn(NamedTuple):
    """A sentence to draw, with its number in the file and, where two files are compared, that of the other."""

    number: int
    sentence: Sentence
    other: Sentence | None

    @property
    def heading(self) -> str:
        """Number and name."""
        return " · ".join(filter(None, [str(self.number), comment(self.sentence.lines, "sent_id")]))

    @property
    def text(self) -> str:
        """Text of the sentence."""
        return comment(self.sentence.lines, "text") or " ".join(self.sentence.form)

    @property
    def facts(self) -> dict[str, str]:
        """Labels and tags of the sentence, and labels of the second file's words that differ in the first."""
        sentence, other = self.sentence, self.other
        facts = {"labels": {label.partition(":")[0] for label in sentence.deprel}, "upos": set(sentence.upos) - {"_"}}
        if other is not None:
            pairs = zip(sentence.head, sentence.deprel, other.head, other.deprel)
            facts["differs"] = {label for head, own, second, label in pairs if (head, own) != (second, label)}
        return {name: " ".join(sorted(values)) for name, values in facts.items()}

    def tree(self, labels: bool, tags: bool) -> Tree:
        """The tree to draw."""
        sentence, other = self.sentence, self.other
        return Tree(
            sentence.form,
            sentence.head,
            sentence.deprel if labels else None,
            sentence.upos if tags else None,
            tokens(sentence),
            None if other is None else (other.head, other.deprel),
        )


def comment(lines: Sequence[str], name: str) -> str:
    """Value of a comment such as `# sent_id = 3`; empty if there is none."""
    start = f"# {name} = "
    return next((line.removeprefix(start).strip() for line in lines if line.startswith(start)), "")


def tokens(sentence: Sentence) -> list[Token]:
    """Multiword tokens of a sentence."""
    matches = (re.match(r"([0-9]+)-([0-9]+)\t([^\t]+)", line) for line in sentence.lines)
    return [Token(int(match[1]), int(match[2]), match[3]) for match in matches if match]


def main(arguments: Sequence[str]) -> None:
    """Run `arbora draw` with these arguments.

    Raises:
        ValueError: a file is invalid, a sentence does not exist, or two files do not have the same words.
        OSError: a file cannot be opened or written.
    """
    options = _options(arguments)
    kind = _kind(options)
    with closing(_sentences(options)) as sentences:
        if _is_folder(options.output):
            _draw_folder(sentences, kind, options)
        else:
            with open_output(options.output) as output:
                _draw_all(sentences, kind, options, output.write)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = CommandParser("draw", DESCRIPTION)
    parser.add_argument("file", nargs="?", help="CoNLL-U or CoNLL-X; standard input if - or not given")
    parser.add_argument(
        "-o", "--output", help="file, or a folder (ending in /) with a file per sentence (default: standard output)"
    )
    parser.add_argument(
        "--format",
        choices=["text", "svg", "html"],
        help="format of the drawing (default: by the output's name, or text)",
    )
    parser.add_argument(
        "--sentences", metavar="LIST", help="numbers and sent_ids, such as 3,10-12,20-,weblog-07; id:7 is the sent_id 7"
    )
    parser.add_argument("--against", metavar="FILE", help="show the differences to the trees of this file")
    parser.add_argument("--differing", action="store_true", help="with --against, only the sentences that differ")
    parser.add_argument(
        "--width",
        type=int,
        help=f"maximum width: columns of text (default: the terminal's), or pixels of SVG and HTML (default: {WIDTH})",
    )
    parser.add_argument("--labels", action=argparse.BooleanOptionalAction, default=True, help="draw the labels of arcs")
    parser.add_argument("--tags", action="store_true", help="draw UPOS tags under the words")
    parser.add_argument(
        "--color", choices=["auto", "always", "never"], default="auto", help="colours for differences (default: auto)"
    )
    parser.add_argument(
        "--input", choices=["auto", "conllu", "conllx"], default="auto", help="format of the files (default: auto)"
    )
    options = parser.parse(arguments)
    if options.file is None:
        if sys.stdin.isatty():
            raise ValueError("give a file, or pipe one in; `arbora draw --help` has examples")
        options.file = "-"
    if options.width is not None and options.width < 1:
        raise ValueError(f"--width must be positive, got {options.width}")
    if options.differing and options.against is None:
        raise ValueError("--differing needs a second file: add --against FILE")
    if options.against == "-" == options.file:
        raise ValueError("only one of the two files can be standard input")
    return options


def _is_folder(output: str | None) -> bool:
    return output not in (None, "-") and (str(output).endswith(("/", os.sep)) or Path(str(output)).is_dir())


def _kind(options: argparse.Namespace) -> str:
    """Format of the drawing."""
    if options.format is not None:
        return str(options.format)
    if options.output in (None, "-"):
        return "text"
    if _is_folder(options.output):
        return "svg"
    ending = Path(options.output).suffix.lower()
    if ending not in ENDINGS:
        raise ValueError(f"-o {options.output}: use a name that ends in .svg, .html or .txt, or give --format")
    return ENDINGS[ending]


def _sentences(options: argparse.Namespace) -> Generator[Drawn]:
    """Yield the sentences to draw while reading; sentences that are not drawn may be malformed."""
    chosen = Chosen.of(options.sentences)
    format: Format = options.input
    entries = conll_entries(options.file, format=format)
    others = None if options.against is None else conll_entries(options.against, format=format)
    seen: set[str] = set()
    number = 0
    for number, entry in enumerate(entries, 1):
        other = None if others is None else next(others, None)
        if others is not None and other is None:
            raise ValueError(f"{entry.source} has more sentences than {options.against}, which has {number - 1:,}")
        name = comment(entry.lines, "sent_id")
        seen.add(name)
        if chosen is None or chosen.has(number, name):
            drawn = Drawn(number, next(valid([entry])), None if other is None else next(valid([other])))
            if drawn.other is not None and drawn.other.form != drawn.sentence.form:
                raise ValueError(different_words(drawn.sentence, drawn.other))
            if not options.differing or _differ(drawn):
                yield drawn
        if chosen is not None and chosen.done(number, seen):
            return
    if others is not None and next(others, None) is not None:
        raise ValueError(f"{options.against} has more sentences than {options.file}, which has {number:,}")
    if chosen is not None and (missing := chosen.missing(number, seen)):
        raise ValueError(f"{options.file}: {missing}")


def _differ(drawn: Drawn) -> bool:
    one, two = drawn.sentence, drawn.other
    return two is not None and (one.head != two.head or one.deprel != two.deprel)


def _draw_folder(sentences: Iterator[Drawn], kind: str, options: argparse.Namespace) -> None:
    """A file for each sentence."""
    folder = Path(options.output)
    if not folder.parent.is_dir():
        raise FileNotFoundError(f"cannot write {folder}: there is no folder {folder.parent}; create it first")
    folder.mkdir(exist_ok=True)
    for drawn in sentences:
        with open_output(folder / f"{drawn.number:04}.{FILES[kind]}") as output:
            _draw_all(iter([drawn]), kind, options, output.write)


def _draw_all(
    sentences: Iterator[Drawn], kind: str, options: argparse.Namespace, write: Callable[[str], object]
) -> None:
    """Draw all sentences, one after the other. Text and HTML are written as they are drawn."""
    width = options.width or WIDTH
    name = "standard input" if options.file == "-" else Path(options.file).name
    key = [] if options.against is None else [name, Path(options.against).name]
    if kind == "text":
        for drawn in sentences:
            write(_text(drawn, options, key) + "\n\n")
    elif kind == "html":
        write(html_start(" against ".join(key) or name, key))
        for drawn in sentences:
            picture = draw_svg(drawn.tree(options.labels, options.tags), width)
            write(html_sentence(picture, drawn.heading, drawn.text, drawn.facts))
        write(html_end())
    else:
        pictures: list[Picture] = []
        headings: list[str] = []
        title = name
        for drawn in sentences:
            pictures.append(draw_svg(drawn.tree(options.labels, options.tags), width))
            headings.append(drawn.heading)
            title = drawn.text
        several = len(pictures) > 1
        write(svg_document(pictures, headings if several else [""] * len(pictures), name if several else title, key))


def _text(drawn: Drawn, options: argparse.Namespace, names: Sequence[str]) -> str:
    """Draw one tree, or two trees that differ, under a heading."""
    sentence, other = drawn.sentence, drawn.other
    tree = drawn.tree(True, options.tags)
    marked = [word for word in range(1, len(sentence) + 1) if tree.mark(word)]
    title = printable(f"# {drawn.heading} · {drawn.text}")

    def picture(heads: Sequence[int], labels: Sequence[str], style: str) -> str:
        shown = [label if options.labels else "" for label in labels]
        for word in marked:
            shown[word - 1] += "*"
        style = style if _coloured(options) else ""
        return draw(
            sentence.form, heads, shown, options.width, tags=tree.tags, tokens=tree.tokens, marked=marked, style=style
        )

    first = picture(sentence.head, sentence.deprel, FIRST)
    if other is None:
        return f"{title}\n{first}"
    if not marked:
        return f"{title}\n# the same tree in both\n{first}"
    second = picture(other.head, other.deprel, SECOND)
    return f"{title}\n# {printable(names[0])}\n{first}\n# {printable(names[1])}\n{second}"


def _coloured(options: argparse.Namespace) -> bool:
    if options.color != "auto":
        return bool(options.color == "always")
    return options.output is None and sys.stdout.isatty() and "NO_COLOR" not in os.environ
