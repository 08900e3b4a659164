"""`arbora predict`: parse files or text with a trained parser."""

from __future__ import annotations

import logging
import re
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from itertools import count, islice

from arbora.cli.console import plain_console
from arbora.cli.ensembles import parse_gamma, with_trees
from arbora.cli.options.predict import parser
from arbora.cli.parsing_options import chosen_decoder, parsing_settings
from arbora.cli.progress import Display, Reading
from arbora.cli.resuming import InputDigest, identity_of_run, is_regular, open_target
from arbora.cli.text_drawing import draw
from arbora.data.conll import Sentence, Unparsed, conll_entries, open_input, open_output
from arbora.data.partial import Mark, Output
from arbora.data.text import text_entries
from arbora.decoders.kernels.threads import set_num_threads
from arbora.model.catalogue import default_model, find_model, is_model
from arbora.model.inference.batch_parser import ParsingSettings
from arbora.model.inference.results import ParsedSentence
from arbora.model.inference.stream import parse_windows
from arbora.model.loading import load
from arbora.model.parser import Parser

SHOWN_ERRORS = 20
"""Most sentences that are reported one by one if they cannot be parsed; further ones are counted."""


def main(arguments: Sequence[str]) -> None:
    """Run `arbora predict` with these arguments."""
    options = parser().parse(arguments)
    options.model = _take_model(options)
    settings = _check(options)

    if options.threads is not None:
        set_num_threads(options.threads)
    model = load(options.model, options.runtime, options.device, options.threads)
    model.decoder = chosen_decoder(options, model.decoder) or model.decoder
    model.settings = settings
    if options.tags == "replace" and not model.predicts:
        raise ValueError(f"--tags replace: {options.model} predicts no tags; train it with --model.taggers")
    if options.sentence is not None:
        parsed = _parse_sentence(model, options.sentence)
        with open_output(options.output) as output:
            output.write(_drawn(parsed) + "\n")
        return
    if not options.files and options.input in ("auto", "text", "raw") and sys.stdin and sys.stdin.isatty():
        _answer(model, sys.stdin, options.input == "text")
        return
    model.check()
    run = _Run(model, options)
    with run.log_to_console(), run.open() as target:
        run.write_to(target)
    if run.done.unparsed:
        sys.exit(1)


def _take_model(options: Namespace) -> str:
    """The model: the first of the files, if it is one, or else the default."""
    if options.files and is_model(options.files[0]):
        return str(find_model(options.files.pop(0)))
    model = default_model()
    if not options.quiet:
        plain_console(stderr=True).print(f"parsing with {model.name} ({model.source}); `arbora models` lists others")
    return str(model.folder)


def _check(options: Namespace) -> ParsingSettings:
    """Return the settings of parsing, if the options can be combined."""
    if options.sentence is not None and options.files:
        raise ValueError("give either files or --sentence, not both")
    if options.k_best < 1:
        raise ValueError(f"--k-best must be positive, got {options.k_best}")
    if options.draw and (options.confidence or options.scores):
        raise ValueError("--confidence and --scores need CoNLL-U output: leave out --draw")
    if options.resume and not is_regular(options.output):
        raise ValueError("--resume needs the output file of the interrupted run: give --output")
    if options.keep is not None and options.ensemble is not None:
        raise ValueError("--keep heads keeps the trees of the input, and --ensemble replaces them: give one of them")
    return replace(
        parsing_settings(options),
        gamma=parse_gamma(options.ensemble_gamma) if options.ensemble is not None else (),
        keep_heads=options.keep is not None,
        k_best=options.k_best,
        unique=tuple(filter(None, (name.strip() for name in (options.unique or "").split(",")))),
    )


def _parse_sentence(model: Parser, text: str) -> ParsedSentence:
    words = text.split()
    if not words:
        raise ValueError("--sentence has no words")
    return model.parse(Sentence.from_words(words, source="--sentence"), k_best=model.settings.k_best)


def _answer(model: Parser, lines: Iterable[str], words: bool) -> None:
    """Draw the trees of each line that a user types, until the input ends.

    Args:
        model: parses.
        lines: what is typed.
        words: whether words are separated by spaces; they are in any case for a parser without a tokenizer.
    """
    words = words or not model.has_tokenizer
    how = "one sentence per line, words separated by spaces" if words else "text"
    print(f"type {how}; Ctrl-D ends", file=sys.stderr)
    for line in filter(str.strip, lines):
        try:
            for parsed in [model.parse(line.split())] if words else model(line):
                print(_drawn(parsed), flush=True)
        except ValueError as error:
            print(f"arbora predict: {error}", file=sys.stderr)


def _input_of(files: Sequence[str], model: Parser) -> str:
    """The format of files that are not said to have another: text if they are named and look like it."""
    for file in files:
        if not re.search(r"\.txt(\.\w+)?$", file):
            return "auto"
        with open_input(file) as (stream, _):
            if any("\t" in line for line in islice(stream, 200)):
                return "auto"
    return "auto" if not files else "raw" if model.has_tokenizer else "text"


def _drawn(parsed: ParsedSentence) -> str:
    """Draw the tree, or the k best trees, where labels with a * differ from the first tree."""
    if not parsed.alternatives:
        return draw(parsed.sentence.form, parsed.heads.tolist(), parsed.labels)
    pictures = []
    for tree in (parsed, *parsed.alternatives):
        pairs = zip(tree.heads, tree.labels, parsed.heads, parsed.labels)
        differs = [(head, label) != (first, name) for head, label, first, name in pairs]
        labels = [label + "*" * other for label, other in zip(tree.labels, differs)]
        marked = [word for word, other in enumerate(differs, 1) if other]
        title = f"# rank {tree.rank} · score {tree.score:.4f} · probability {tree.probability:.4f}"
        pictures.append(f"{title}\n{draw(tree.sentence.form, tree.heads.tolist(), labels, marked=marked)}")
    return "\n\n".join(pictures)


class _ToConsole(logging.Handler):
    """Print warnings of the library as lines of the command."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self.say = say

    def emit(self, record: logging.LogRecord) -> None:
        self.say(f"{record.levelname.lower()}: {record.getMessage()}")


class _Run:
    """One run over an input."""

    def __init__(self, model: Parser, options: Namespace) -> None:
        self.model, self.options = model, options
        self.console = plain_console(stderr=True)
        read: Callable[..., Iterator[Sentence | Unparsed]]
        if options.input == "auto":
            options.input = _input_of(options.files, model)
            if options.input != "auto":
                kind = "running text" if options.input == "raw" else "one sentence per line, words separated by spaces"
                self.say(f"{options.files[0]} is not CoNLL; it is read as {kind} (--input {options.input})")
        if options.input == "raw":
            read = partial(model.tokenizer.read, numbers=count(1))
        elif options.input == "text":
            read = text_entries
        else:
            read = partial(conll_entries, format=options.input, trees=False)
        self.reading = Reading(options.files or ["-"], read)
        self.done = Mark()
        self.began = False

    def say(self, text: str, always: bool = False) -> None:
        """Print a line on standard error."""
        if always or not self.options.quiet:
            self.console.print(text)

    @contextmanager
    def log_to_console(self) -> Iterator[None]:
        """Print warnings without breaking the progress bar."""
        handler = _ToConsole(partial(self.say, always=True))
        logging.getLogger("arbora").addHandler(handler)
        try:
            yield
        finally:
            logging.getLogger("arbora").removeHandler(handler)

    @contextmanager
    def open(self) -> Iterator[Output]:
        """Open the output. If the run fails after it parsed a part, say how to resume."""
        options = self.options
        names = "input draw confidence scores tags treebank on_error max_tokens max_length runtime keep k_best unique"
        given = {f"--{name.replace('_', '-')}": getattr(options, name) for name in names.split()}
        identity = identity_of_run(options.model, self.model.decoder, self.model.settings.gamma, given)
        with open_target(options.output, identity, options.resume) as output:
            try:
                yield output
            except BaseException:
                if self.began and is_regular(options.output) and output.done.parsed:
                    self.say(f"{output.done.entries:,} sentences are done; --resume continues after them", always=True)
                raise

    def write_to(self, output: Output) -> None:
        """Parse the rest of the input, write it, and print a summary."""
        self.done = output.done
        digest = InputDigest(with_heads=bool(self.model.settings.gamma))
        entries = iter(self._entries())
        if self.done.entries:
            digest.skip(entries, self.done, self.options.output)
            self.say(f"resuming after the first {self.done.entries:,} sentences")
        self.began = True
        started, words_before = time.perf_counter(), self.done.words
        with (
            Display(self.console, self.reading.words_in_all, words_before, self.options.quiet) as display,
            closing(parse_windows(self.model.batch_parser(), entries, display.advance)) as windows,
        ):
            for window in windows:
                for entry in window:
                    self._write_entry(entry, output, digest)
                done = self.done
                output.mark(done.entries, done.words, done.parsed, done.unparsed, digest.hexdigest())
        self._summarize(time.perf_counter() - started, words_before)

    def _entries(self) -> Iterable[Sentence | Unparsed]:
        if self.options.ensemble is None:
            return self.reading
        return with_trees(self.reading, conll_entries(self.options.ensemble))

    def _write_entry(self, entry: ParsedSentence | Unparsed, output: Output, digest: InputDigest) -> None:
        done, options = self.done, self.options
        if isinstance(entry, Unparsed):
            if options.on_error == "stop":
                raise entry.error
            if options.on_error == "copy":
                output.write(entry.text)
            if done.unparsed < SHOWN_ERRORS:
                what = {"copy": "copied unchanged", "skip": "left out"}[options.on_error]
                self.say(f"arbora predict: {' '.join(str(entry.error).split())} ({what})", always=True)
            elif done.unparsed == SHOWN_ERRORS:
                self.say("arbora predict: further sentences are counted, not shown", always=True)
            self.done = replace(done, entries=done.entries + 1, unparsed=done.unparsed + 1)
        else:
            comments = options.scores or options.confidence or (options.k_best > 1 and not options.draw)
            if comments and entry.sentence.format == "conllx":
                raise ValueError(
                    "--scores, --confidence and --k-best need CoNLL-U: CoNLL-X has no comments and no MISC"
                )
            if options.draw:
                output.write(_drawn(entry) + "\n")
            else:
                for tree in (entry, *entry.alternatives):
                    output.write(tree.as_text(options.scores))
            words, parsed = done.words + len(entry.sentence), done.parsed + 1
            self.done = replace(done, entries=done.entries + 1, words=words, parsed=parsed)
        digest.add(entry)

    def _summarize(self, seconds: float, words_before: int) -> None:
        done = self.done
        rate = (done.words - words_before) / seconds
        self.say(f"parsed {done.parsed:,} sentences, {done.words:,} words in {seconds:.1f} s ({rate:,.0f} words/s)")
        if done.unparsed:
            what = "copied unchanged" if self.options.on_error == "copy" else "left out"
            which = f"{done.unparsed:,} sentences" if done.parsed else f"none of the {done.unparsed:,} sentences"
            fate = f"could not be parsed and were {what}" if done.parsed else f"could be parsed; they were {what}"
            self.say(f"arbora predict: {which} {fate}", always=True)
