"""`arbora predict`: parse files or text with a trained parser."""

from __future__ import annotations

import logging
import math
import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path
from typing import Any, TextIO, get_args

import torch
from jsonargparse import Namespace
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from arbora.cli.arguments import CommandParser
from arbora.cli.console import plain_console
from arbora.cli.text_drawing import draw
from arbora.data.conll import EmptyError, Sentence, Unparsed, conll_entries, open_input, open_output
from arbora.data.partial import Mark, Output, open_partial
from arbora.data.text import raw_text_entries, text_entries
from arbora.decoders import Decoder
from arbora.model import load
from arbora.model.inference.stream import Parsed, Parsing, parse, parse_windows
from arbora.model.parser import Parser, Runtime
from arbora.model.storage.settings import to_plain

DESCRIPTION = """\
Parse files, standard input or a sentence with a trained parser.

Everything in the input survives in the output; only HEAD and DEPREL change. For example:

  arbora predict runs/mine/best.ckpt test.conllu -o parsed.conllu
  arbora predict runs/mine/best.ckpt --sentence "The cat sat on the mat ."
  echo "The cat sat on the mat ." | arbora predict runs/mine/best.ckpt --input text --draw

A sentence that is malformed or cannot be parsed is reported with its file and line, and the exit code is 1 in the end.
A run that was interrupted goes on with --resume.
"""

SHOWN_ERRORS = 20
"""Sentences that could not be parsed which are reported one by one; of more, the number is."""

SECONDS_BETWEEN_LINES = 60.0
"""How often a line is printed where standard error is no terminal."""


def main(arguments: Sequence[str]) -> None:
    """Run `arbora predict` with these arguments."""
    parser = CommandParser(prog="arbora predict", description=DESCRIPTION)
    parser.add_argument("model", help="checkpoint that `arbora train` wrote, or a folder that was exported")
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
    parser.add_argument(
        "--confidence",
        action="store_true",
        help="write ArcProb and LabelProb to MISC: the probability of a word's arc among all trees, by the scores of "
        "arcs alone, whatever else the model scores, and that of its label, given the arc",
    )
    parser.add_argument(
        "--scores",
        action="store_true",
        help="write comments: arbora_score, the tree's score, and arbora_certified, whether no tree that the"
        " decoder looks among scores more: of the candidate arcs, and projective where the decoder is",
    )
    parser.add_argument(
        "--on-error",
        choices=["copy", "skip", "stop"],
        default="copy",
        help="what to do with a sentence that is malformed or cannot be parsed: report it and copy it as it stood, "
        "report it and leave it out, or stop (default: copy); the exit code is 1 in any case",
    )
    parser.add_argument("--resume", action="store_true", help="go on with a run that was interrupted; needs --output")
    parser.add_argument("--max-tokens", type=int, default=4000, help="size of a batch, in positions when padded")
    parser.add_argument(
        "--max-length",
        type=int,
        default=500,
        help="words of a sentence above which it is parsed in a lighter way, with a warning: by arcs alone, with MST "
        "on the best 64 heads of each word; probabilities are then of each word's heads by themselves (default: 500)",
    )
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps")
    parser.add_argument(
        "--runtime",
        choices=get_args(Runtime),
        default="torch",
        help="what computes the scores: torch, or onnx for a folder of `arbora export --onnx`, on the CPU alone",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error; errors are still there")
    options = parser.instantiate(parser.parse_args(parser.positionals_first(arguments)))
    settings = _check(options)

    model = load(options.model, options.runtime)
    if options.decoder is not None:
        model.decoder = options.decoder
    model.to(find_device(options.device if options.runtime == "torch" else "cpu"))
    if options.sentence is not None:
        parsed = _parse_sentence(model, options.sentence, settings)
        with open_output(options.output) as output:
            output.write(_drawn(parsed) + "\n")
        return
    _try_out(model, settings)
    run = _Run(model, settings, options)
    if model.tags and options.input in ("text", "raw"):
        run.say(f"warning: this parser was trained with {', '.join(model.tags)}, which plain text does not have")
    with run.log_to_console(), run.open() as target:
        run.write_to(target)
    if run.done.unparsed:
        sys.exit(1)


def _check(options: Namespace) -> Parsing:
    """Settings of parsing, if the options go together."""
    if options.sentence is not None and options.files:
        raise ValueError("give either files or --sentence, not both")
    for name in ("max_tokens", "max_length"):
        if getattr(options, name) < 1:
            raise ValueError(f"--{name.replace('_', '-')} must be positive, got {getattr(options, name)}")
    if options.draw and (options.confidence or options.scores):
        raise ValueError("--confidence and --scores are written to CoNLL-U, which --draw does not write")
    if options.runtime == "onnx" and options.device not in ("auto", "cpu"):
        raise ValueError(f"--runtime onnx runs on the CPU, not on --device {options.device}")
    if options.resume and not _is_regular(options.output):
        raise ValueError("--resume needs --output with the file of the interrupted run")
    gamma = _gamma(options.ensemble_gamma) if options.ensemble is not None else ()
    return Parsing(options.max_tokens, options.max_length, gamma, options.confidence)


def _gamma(text: str) -> tuple[float, ...]:
    try:
        gamma = tuple(float(number) for number in text.split(","))
    except ValueError:
        gamma = ()
    if not 1 <= len(gamma) <= 3 or not all(map(math.isfinite, gamma)):
        raise ValueError(f"--ensemble.gamma must be one to three numbers, such as 1.0,0.25, got {text}")
    return gamma


def _is_regular(output: str | None) -> bool:
    """Whether an output is a file, or will be; a pipe or a device is written to directly."""
    return output not in (None, "-") and (not os.path.exists(output) or os.path.isfile(output))


def _parse_sentence(model: Parser, text: str, settings: Parsing) -> Parsed:
    words = text.split()
    if not words:
        raise ValueError("--sentence has no words")
    return next(parse(model, [Sentence.from_words(words, source="--sentence")], settings.max_tokens))


def _drawn(parsed: Parsed) -> str:
    return draw(parsed.sentence.form, parsed.heads.tolist(), parsed.labels)


def _try_out(model: Parser, settings: Parsing) -> None:
    """Refuse a parser that cannot parse one word, in place of reporting every sentence of the input."""
    try:
        list(parse(model, [Sentence.from_words(["."], source="a sentence of one word")], settings.max_tokens))
    except ValueError as error:
        raise ValueError(f"this parser does not work with these settings: {error}") from error


@dataclass
class _Reading:
    """What is read, and how much of it has been."""

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
        """An estimate, from how many words the bytes so far had."""
        return self.words * self.size / self.bytes if self.size and self.bytes else None


def _size(file: str) -> int | None:
    """Bytes of a file; those of standard input too, if it is a file.

    Raises:
        OSError: there is no such file.
    """
    if file == "-":
        try:
            found = os.fstat(sys.stdin.fileno())
        except (OSError, ValueError):
            return None
    else:
        found = os.stat(file)
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _position(stream: TextIO) -> int:
    """Bytes that were read of the file behind a stream, compressed or not; 0 where that is not known."""
    buffer = getattr(stream, "buffer", None)
    try:
        return int(getattr(buffer, "fileobj", buffer).tell())  # type: ignore[union-attr]
    except (OSError, ValueError, AttributeError):
        return 0


class _ToConsole(logging.Handler):
    """Warnings of the library as lines of the command."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self.say = say

    def emit(self, record: logging.LogRecord) -> None:
        self.say(f"{record.levelname.lower()}: {record.getMessage()}")


class _Run:
    """One run over an input."""

    def __init__(self, model: Parser, settings: Parsing, options: Namespace) -> None:
        self.model, self.settings, self.options = model, settings, options
        self.console = plain_console(stderr=True)
        read = {"text": text_entries, "raw": raw_text_entries}.get(
            options.input, partial(conll_entries, format=options.input, trees=False)
        )
        self.reading = _Reading(options.files or ["-"], read)
        self.done = Mark()
        self.began = False
        self.first_error: Exception | None = None

    def say(self, text: str, always: bool = False) -> None:
        """Print a line on standard error."""
        if always or not self.options.quiet:
            self.console.print(text)

    @contextmanager
    def log_to_console(self) -> Iterator[None]:
        """Print warnings in a way that leaves the progress bar whole."""
        handler = _ToConsole(partial(self.say, always=True))
        logging.getLogger("arbora").addHandler(handler)
        try:
            yield
        finally:
            logging.getLogger("arbora").removeHandler(handler)

    @contextmanager
    def open(self) -> Iterator[Output]:
        """What to write to; if something goes wrong after a part is done, say how to go on."""
        if not _is_regular(self.options.output):
            with open_output(self.options.output) as stream:
                yield _Direct(stream)
            return
        with open_partial(self.options.output, self._identity(), self.options.resume) as output:
            try:
                yield output
            except BaseException:
                if self.began and output.done.parsed:
                    self.say(f"{output.done.entries:,} sentences are done; --resume goes on behind them", always=True)
                raise

    def _identity(self) -> dict[str, Any]:
        """All that the output depends on, beside the input."""
        options = self.options
        names = ("input", "draw", "confidence", "scores", "on_error", "max_tokens", "max_length", "runtime")
        return {
            "version of arbora": version("arbora"),
            "model": _digest_of_model(Path(options.model)),
            "decoder": to_plain(self.model.decoder),
            "ensemble": self.settings.gamma,
            **{f"--{name.replace('_', '-')}": getattr(options, name) for name in names},
        }

    def write_to(self, output: Output) -> None:
        """Parse what is left of the input, write it, and say how many."""
        self.done = output.done
        digest = blake2b()
        entries = iter(self._entries())
        if self.done.entries:
            self._skip_what_is_done(entries, digest)
        self.began = True
        started, words_before = time.perf_counter(), self.done.words
        with (
            _Display(self.console, self.reading, words_before, self.options.quiet) as display,
            closing(parse_windows(self.model, entries, self.settings, display.advance)) as windows,
        ):
            for window in windows:
                for entry in window:
                    self._write_entry(entry, output, digest)
                done = self.done
                output.mark(done.entries, done.words, done.parsed, done.unparsed, digest.hexdigest())
        if self.first_error and not self.done.parsed:
            raise ValueError(f"{self.first_error} (none of the {self.done.unparsed} sentences could be parsed)")
        self._summarize(time.perf_counter() - started, words_before)

    def _entries(self) -> Iterable[Sentence | Unparsed]:
        if self.options.ensemble is None:
            return self.reading
        return _with_trees(self.reading, conll_entries(self.options.ensemble))

    def _skip_what_is_done(self, entries: Iterator[Sentence | Unparsed], digest: Any) -> None:
        skipped = 0
        for skipped, entry in enumerate(entries, 1):
            digest.update(_bytes(entry, bool(self.settings.gamma)))
            if skipped == self.done.entries:
                break
        if skipped < self.done.entries or digest.hexdigest() != self.done.input:
            raise ValueError(
                f"cannot resume {self.options.output}: the input is not that of the interrupted run, which had read "
                f"{self.done.entries:,} sentences; start anew without --resume"
            )
        self.say(f"resuming behind {skipped:,} sentences that are done")

    def _write_entry(self, entry: Parsed | Unparsed, output: Output, digest: Any) -> None:
        done, options = self.done, self.options
        if isinstance(entry, Unparsed):
            if options.on_error == "stop":
                raise entry.error
            self.first_error = self.first_error or entry.error
            if options.on_error == "copy":
                output.write(entry.text)
            if done.unparsed < SHOWN_ERRORS:
                what = {"copy": "copied as it stood", "skip": "left out"}[options.on_error]
                self.say(f"arbora predict: {' '.join(str(entry.error).split())} ({what})", always=True)
            elif done.unparsed == SHOWN_ERRORS:
                self.say("arbora predict: more sentences like these are counted, not shown", always=True)
            self.done = replace(done, entries=done.entries + 1, unparsed=done.unparsed + 1)
        else:
            if (options.scores or options.confidence) and entry.sentence.format == "conllx":
                raise ValueError("--scores and --confidence need CoNLL-U: CoNLL-X has no comments and no MISC")
            output.write(_drawn(entry) + "\n" if options.draw else entry.as_text(options.scores))
            words, parsed = done.words + len(entry.sentence), done.parsed + 1
            self.done = replace(done, entries=done.entries + 1, words=words, parsed=parsed)
        digest.update(_bytes(entry, bool(self.settings.gamma)))

    def _summarize(self, seconds: float, words_before: int) -> None:
        done = self.done
        rate = (done.words - words_before) / seconds
        self.say(f"parsed {done.parsed:,} sentences, {done.words:,} words in {seconds:.1f} s ({rate:,.0f} words/s)")
        if done.unparsed:
            what = "copied as they stood" if self.options.on_error == "copy" else "left out"
            self.say(f"arbora predict: {done.unparsed:,} sentences could not be parsed and were {what}", always=True)


def _bytes(entry: Sentence | Parsed | Unparsed, with_heads: bool) -> bytes:
    """What says whether an entry is the same: its lines, and the heads of another parser."""
    read = entry.sentence if isinstance(entry, Parsed) else entry
    heads = f"{read.head}\n" if with_heads and isinstance(read, Sentence) else ""
    return ("\n".join(read.lines) + "\n\n" + heads).encode("utf-8", "surrogateescape")


def _digest_of_model(path: Path) -> str:
    digest = blake2b()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            digest.update(str(file.relative_to(path)).encode())
            with open(file, "rb") as contents:
                while data := contents.read(1 << 20):
                    digest.update(data)
    return digest.hexdigest()


def _with_trees(
    entries: Iterable[Sentence | Unparsed], others: Iterable[Sentence | Unparsed]
) -> Iterator[Sentence | Unparsed]:
    """Sentences with the heads that they have in another file."""
    for entry, other in zip_longest(entries, others):
        if entry is None or other is None:
            last, more = (other, "more") if entry is None else (entry, "fewer")
            place = f"{last.source}:{last.line_number}"
            raise ValueError(f"{place}: the file of --ensemble has {more} sentences than the input")
        if isinstance(entry, Unparsed):
            yield entry
        elif isinstance(other, Unparsed):
            yield replace(other, lines=entry.lines)
        elif entry.form != other.form:
            raise ValueError(f"{other.where()}: other words than {entry.where()}, of which it should be a parse")
        else:
            yield replace(entry, head=other.head)


@dataclass
class _Direct:
    """An output that nothing can be resumed of."""

    stream: TextIO
    done: Mark = field(default_factory=Mark)

    def write(self, text: str) -> None:
        self.stream.write(text)

    def mark(self, entries: int, words: int, parsed: int, unparsed: int, input: str) -> None:
        self.stream.flush()


class _Display:
    """Progress: a bar in a terminal, otherwise a line from time to time."""

    def __init__(self, console: Console, reading: _Reading, words_before: int, quiet: bool) -> None:
        self.console, self.reading, self.quiet = console, reading, quiet
        self.words = self.words_before = words_before
        self.started = self.printed = time.perf_counter()
        columns = (TextColumn("parsing"), BarColumn(), TextColumn("{task.fields[done]}"))
        hidden = quiet or not console.is_terminal
        self.bar = Progress(*columns, console=console, transient=True, disable=hidden)
        self.task = self.bar.add_task("parsing", total=None, done="")

    def __enter__(self) -> _Display:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def advance(self, words: int) -> None:
        """Show that so many more words are done."""
        self.words += words
        now = time.perf_counter()
        total = self.reading.words_in_all()
        text = progress_text(self.words, self.words - self.words_before, now - self.started, total)
        self.bar.update(self.task, completed=self.words, total=total and max(total, self.words), done=text)
        if not self.quiet and not self.console.is_terminal and now - self.printed >= SECONDS_BETWEEN_LINES:
            self.printed = now
            self.console.print(text)


def progress_text(words: int, words_now: int, seconds: float, total: float | None) -> str:
    """How far a run has come, how fast it is, and how long it will take.

    Args:
        words: done in all.
        words_now: those done by this run.
        seconds: that it took for these.
        total: words that there are, if that is known.
    """
    rate = words_now / seconds if seconds else 0.0
    text = f"{words:,} words, {rate:,.0f} words/s"
    if total is None or not rate:
        return text
    left = round(max(0.0, total - words) / rate)
    return f"{text}, {left // 3600}:{left // 60 % 60:02}:{left % 60:02} left"


def find_device(name: str) -> torch.device:
    """A device by its name; `auto` is the accelerator of the machine, if it has one."""
    if name == "auto":
        return torch.accelerator.current_accelerator() or torch.device("cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"--device {name}: {str(error).splitlines()[0]}") from None
