"""`arbora predict`: parse files or text with a trained parser."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from itertools import count

from jsonargparse import Namespace

from arbora.cli.arguments import CommandParser
from arbora.cli.console import plain_console
from arbora.cli.ensembles import add_ensemble_options, parse_gamma, with_trees
from arbora.cli.parsing_options import add_parsing_options, parsing_settings
from arbora.cli.progress import Display, Reading
from arbora.cli.resuming import InputDigest, identity_of_run, is_regular, open_target
from arbora.cli.text_drawing import draw
from arbora.data.conll import Sentence, Unparsed, conll_entries, open_output
from arbora.data.partial import Mark, Output
from arbora.data.text import text_entries
from arbora.decoders.kernels.threads import set_num_threads
from arbora.model.inference.batch_parser import ParsingSettings
from arbora.model.inference.results import ParsedSentence
from arbora.model.inference.stream import parse_windows
from arbora.model.loading import load
from arbora.model.parser import Parser

DESCRIPTION = """\
Parse files, standard input or a sentence with a trained parser.

HEAD and DEPREL are replaced. A parser with taggers fills in LEMMA, UPOS, XPOS and FEATS where they are `_`. Everything
else in the input is copied to the output. For example:

  arbora predict runs/mine/best.ckpt test.conllu -o parsed.conllu
  arbora predict runs/mine/best.ckpt --sentence "The cat sat on the mat ."
  echo "The cat sat on the mat ." | arbora predict runs/mine/best.ckpt --input text --draw
  arbora predict runs/mine/best.ckpt half_annotated.conllu --keep heads --k-best 5

If a sentence is malformed or cannot be parsed, its file and line are reported, and the exit code is 1 at the end.
--resume resumes an interrupted run.
"""

SHOWN_ERRORS = 20
"""Most sentences that are reported one by one if they cannot be parsed; further ones are counted."""


def main(arguments: Sequence[str]) -> None:
    """Run `arbora predict` with these arguments."""
    parser = CommandParser(prog="arbora predict", description=DESCRIPTION)
    parser.add_argument("model", help="checkpoint written by `arbora train`, or an exported folder")
    parser.add_argument("files", nargs="*", help="files to parse; standard input if - or not given")
    parser.add_argument("-o", "--output", help="file to write (default: standard output)")
    parser.add_argument("--sentence", help="parse this sentence, its words separated by spaces, and draw it")
    parser.add_argument(
        "--input",
        choices=["auto", "conllu", "conllx", "text", "raw"],
        default="auto",
        help="auto: CoNLL-U or CoNLL-X, by content; text: one sentence per line, words separated by spaces; "
        "raw: running text, split into sentences and words by the parser's own tokenizer",
    )
    add_ensemble_options(parser)
    parser.add_argument(
        "--keep",
        choices=["heads"],
        help="keep the values of HEAD and DEPREL, and fill in only `_`; report sentences that have no such tree",
    )
    parser.add_argument(
        "--k-best",
        type=int,
        default=1,
        help="write the k best trees of each sentence, one after the other; `# sent_id = s1` is `s1/2` for the second, "
        "and comments have rank, score, and probability among the k",
    )
    parser.add_argument(
        "--unique",
        metavar="LABELS",
        help="labels that a head has at most once, such as nsubj,obj, with subtypes; the others are then chosen to fit",
    )
    parser.add_argument("--draw", action="store_true", help="draw trees instead of writing CoNLL-U")
    parser.add_argument(
        "--on-error",
        choices=["copy", "skip", "stop"],
        default="copy",
        help="what to do with a sentence that is malformed or cannot be parsed: report it and copy it unchanged, "
        "report it and leave it out, or stop (default: copy); the exit code is 1 in any case",
    )
    parser.add_argument("--resume", action="store_true", help="resume an interrupted run; needs --output")
    add_parsing_options(parser)
    parser.add_argument("--threads", type=int, help="threads for scoring and decoding (default: one for each core)")
    options = parser.instantiate(parser.parse_args(parser.positionals_first(arguments)))
    settings = _check(options)

    if options.threads is not None:
        set_num_threads(options.threads)
    model = load(options.model, options.runtime, options.device, options.threads)
    if options.decoder is not None:
        model.decoder = options.decoder
    model.settings = settings
    if options.tags == "replace" and not model.predicts:
        raise ValueError(f"--tags replace: {options.model} predicts no tags; train it with --model.taggers")
    if options.sentence is not None:
        parsed = _parse_sentence(model, options.sentence)
        with open_output(options.output) as output:
            output.write(_drawn(parsed) + "\n")
        return
    model.check()
    run = _Run(model, options)
    with run.log_to_console(), run.open() as target:
        run.write_to(target)
    if run.done.unparsed:
        sys.exit(1)


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
