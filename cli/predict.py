"""`arbora predict`: parse files or text with a trained parser."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from typing import TextIO

import torch
from jsonargparse import Namespace
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from arbora.cli.arguments import CommandParser
from arbora.cli.draw import draw
from arbora.data.conll import Sentence, open_output, read_conll
from arbora.data.text import read_raw_text, read_text
from arbora.decoders import Decoder
from arbora.model import load
from arbora.model.parsing import Parsed, parse

DESCRIPTION = """\
Parse files, standard input or a sentence with a trained parser.

Everything in the input survives in the output; only HEAD and DEPREL change. For example:

  arbora predict runs/mine/best.ckpt test.conllu -o parsed.conllu
  arbora predict runs/mine/best.ckpt --sentence "The cat sat on the mat ."
  echo "The cat sat on the mat ." | arbora predict runs/mine/best.ckpt --input text --draw
"""


def main(arguments: Sequence[str]) -> None:
    """Run `arbora predict` with these arguments."""
    parser = CommandParser(prog="arbora predict", description=DESCRIPTION)
    parser.add_argument("model", help="checkpoint that `arbora train` wrote")
    parser.add_argument("files", nargs="*", help="files to parse; standard input where there are none, or for -")
    parser.add_argument("-o", "--output", help="file to write; standard output where it is not given")
    parser.add_argument("--sentence", help="parse this sentence, its words apart by blanks, and draw it")
    parser.add_argument(
        "--input",
        choices=["auto", "conllu", "conllx", "text", "raw"],
        default="auto",
        help="auto: CoNLL-U or CoNLL-X, by content; text: one sentence a line, words apart by blanks; "
        'raw: running text, split into sentences and words (needs pip install "arbora[text]")',
    )
    parser.add_argument(
        "--decoder",
        type=Decoder | None,
        sub_configs=True,
        help="another decoder than the one trained with, e.g. Eisner, or a file of `arbora tune`",
    )
    parser.add_argument(
        "--ensemble",
        help="file with the same sentences, as another parser parsed them: parts of its trees score more",
    )
    parser.add_argument(
        "--ensemble-gamma",
        "--ensemble.gamma",
        default="1.0,0.25",
        help="how much more, for parts of first, second and third order (default: 1.0,0.25)",
    )
    parser.add_argument("--draw", action="store_true", help="draw trees in place of writing CoNLL-U")
    parser.add_argument("--skip-invalid", action="store_true", help="leave malformed sentences out, with a warning")
    parser.add_argument("--max-tokens", type=int, default=4000, help="size of a batch, in positions when padded")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    options = parser.instantiate(parser.parse_args(parser.positionals_first(arguments)))
    if options.sentence is not None and options.files:
        raise ValueError("give either files or --sentence, not both")
    if options.max_tokens < 1:
        raise ValueError(f"--max-tokens must be positive, got {options.max_tokens}")

    model = load(options.model)
    if options.decoder is not None:
        model.decoder = options.decoder
    model.to(find_device(options.device))
    console = Console(stderr=True, quiet=options.quiet)
    if model.tags and (options.sentence is not None or options.input in ("text", "raw")):
        console.print(f"warning: this parser was trained with {', '.join(model.tags)}, which plain text does not have")
    sentences: Iterable[Sentence] = _sentences(options)
    gamma: tuple[float, ...] = ()
    if options.ensemble is not None:
        sentences, gamma = _with_trees(sentences, read_conll(options.ensemble)), _gamma(options.ensemble_gamma)
    parsed = parse(model, sentences, options.max_tokens, gamma)
    drawn = options.draw or options.sentence is not None
    with open_output(options.output) as output:
        _write(parsed, output, drawn, console if options.sentence is None else Console(quiet=True))


def _sentences(options: Namespace) -> Iterable[Sentence]:
    if options.sentence is not None:
        words = options.sentence.split()
        if not words:
            raise ValueError("--sentence has no words")
        return [Sentence.from_words(words, source="--sentence")]
    return chain.from_iterable(_read(file, options) for file in options.files or ["-"])


def _read(file: str, options: Namespace) -> Iterator[Sentence]:
    if options.input == "text":
        return read_text(file)
    if options.input == "raw":
        return read_raw_text(file)
    return read_conll(file, format=options.input, trees=False, skip_invalid=options.skip_invalid)


def _gamma(text: str) -> tuple[float, ...]:
    try:
        gamma = tuple(float(number) for number in text.split(","))
    except ValueError:
        gamma = ()
    if not 1 <= len(gamma) <= 3 or not all(map(math.isfinite, gamma)):
        raise ValueError(f"--ensemble.gamma must be one to three numbers, such as 1.0,0.25, got {text}")
    return gamma


def _with_trees(sentences: Iterable[Sentence], others: Iterable[Sentence]) -> Iterator[Sentence]:
    """Sentences with the heads that they have in another file."""
    for sentence, other in zip_longest(sentences, others):
        if sentence is None or other is None:
            last, more = (other, "more") if sentence is None else (sentence, "fewer")
            raise ValueError(f"{last.where()}: the file of --ensemble has {more} sentences than the input")
        if sentence.form != other.form:
            raise ValueError(f"{other.where()}: other words than {sentence.where()}, of which it should be a parse")
        yield replace(sentence, head=other.head)


def _write(parsed: Iterable[Parsed], output: TextIO, drawn: bool, console: Console) -> None:
    """Write parsed sentences as they come, and say how many on the console."""
    sentences = words = 0
    started = time.perf_counter()
    columns = (TextColumn("parsing"), BarColumn(), TextColumn("{task.fields[done]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("parsing", total=None, done="")
        for entry in parsed:
            if drawn:
                output.write(draw(entry.sentence.form, entry.heads.tolist(), entry.labels) + "\n")
            else:
                output.write(entry.text)
            sentences += 1
            words += len(entry.sentence)
            progress.update(task, done=f"{sentences:,} sentences, {words:,} words")
    seconds = time.perf_counter() - started
    console.print(
        f"parsed {sentences:,} sentences, {words:,} words in {seconds:.1f} s ({words / seconds:,.0f} words/s)"
    )


def find_device(name: str) -> torch.device:
    """A device by its name; `auto` is the accelerator of the machine, if it has one."""
    if name == "auto":
        return torch.accelerator.current_accelerator() or torch.device("cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"--device {name}: {str(error).splitlines()[0]}") from None
