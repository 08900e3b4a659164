"""`arbora compare`: run many decoders on the same scores of a trained parser, and write a report.

If a folder of scores is given instead of a parser, torch and the model are not imported.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from arbora.cli.console import plain_console
from arbora.data.conll import Sentence, read_conll
from arbora.decoders.kernels.threads import set_num_threads
from arbora.evaluation import comparison, saved
from arbora.evaluation.comparison import Variant
from arbora.evaluation.report import MARK, WHAT, comparison_table, write_report
from arbora.evaluation.saved import ScoredTreebank
from arbora.evaluation.variants import parse_decoders, read_variants

if TYPE_CHECKING:
    from arbora.cli.scoring import Pass

DESCRIPTION = """\
Run many decoders on exactly the same scores, and write a report: accuracy, model score, certificates, speed, memory,
confidence intervals of differences, and drawings of the sentences on which decoders disagree.

  arbora compare runs/mine/best.ckpt dev.conllu --decoders mst,eisner,greedy,hill_climbing,ad3 -o report
  arbora compare runs/mine/best.ckpt dev.conllu --decoders "ad3,ad3(max_iterations=50),hill_climbing(patience=300)"

The report is a folder. Open index.html, which needs no network. report.json has all figures, report.csv the table,
lengths.csv a line for each decoder and sentence length, and sentences.csv a line for each sentence and decoder.
Scores can be saved and used again without the model:

  arbora compare runs/mine/best.ckpt dev.conllu --save-parts scores
  arbora compare scores --decoders branch_and_bound,ad3 -o report

Give the settings of decoders in brackets, or in a YAML file with a name for each decoder (--variants):

  - name: patient
    class_path: HillClimbing
    init_args: {patience: 300}

Columns:
  best       sentences (%) with the best score that any of the decoders found
  gap        mean distance of a tree's score to the lowest upper bound that any of the decoders found
  certified  sentences (%) whose tree is proved to be the best in the decoder's search space
  integral   sentences (%) for which the solution of AD3's relaxation is a tree
  SARC       arcs (%) shared with the reference decoder: the first one, unless --reference names another
  gold       words (%) with the gold head from this decoder only / from the reference only
  higher     gold higher: sentences (%) whose gold tree scores more than the tree found
  ±UAS       difference to the reference, with a 95 % confidence interval (paired bootstrap over sentences)
"""

DECODERS = "mst,eisner,greedy,hill_climbing,ad3"


class _Parser(argparse.ArgumentParser):
    """Ends with one line that says what is wrong."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; `{self.prog} --help` lists the options\n")


def main(arguments: Sequence[str]) -> None:
    """Run `arbora compare` with these arguments."""
    options = _options(arguments)
    variants = _variants(options)
    names = [variant.name for variant in variants]
    if options.reference is not None and options.reference not in names:
        raise ValueError(f"--reference {options.reference} is not one of the decoders: {', '.join(names)}")
    reference = names.index(options.reference) if options.reference is not None else 0
    if options.output is not None:
        saved.check_replaceable(options.output, MARK, WHAT)
    if options.save_parts is not None:
        saved.check_replaceable(options.save_parts, saved.ABOUT, saved.KIND)
    set_num_threads(options.threads)
    console = plain_console(stderr=True, quiet=options.quiet)
    started = time.perf_counter()
    with _Steps(console) as steps:
        scored = _scored(options, variants, steps)
        if options.first_order:
            scored = scored.first_order()
        report, rows = _compare(scored, variants, reference, options, steps)
    if options.output is not None:
        write_report(report, rows, options.output)
        console.print(f"wrote {Path(options.output) / 'index.html'} after {time.perf_counter() - started:.0f} s")
    wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 200  # a file has room for whole tables
    plain_console(width=wide).print(comparison_table(report))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(
        prog="arbora compare", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="trained parser, or a folder written by --save-parts")
    parser.add_argument("file", nargs="?", help="treebank with gold trees; leave it out with a folder of scores")
    parser.add_argument("-o", "--output", help="folder for the report; an existing report is replaced")
    parser.add_argument("--decoders", metavar="LIST", help=f"decoders, separated by commas (default: {DECODERS})")
    parser.add_argument("--variants", metavar="FILE", help="YAML file with further decoders")
    parser.add_argument("--reference", metavar="NAME", help="decoder with which the others are compared")
    parser.add_argument("--save-parts", metavar="DIR", help="save the scores in this folder")
    parser.add_argument(
        "--full",
        action="store_true",
        help="also compare numbers of restarts of hill-climbing, AD3 with the subgradient method, and settings of "
        "the pruner; takes several times as long",
    )
    parser.add_argument("--k-best", type=int, help="find the k best trees with each decoder; report the best UAS")
    parser.add_argument("--repeats", type=int, default=3, help="timed runs, after one untimed run (default: 3)")
    parser.add_argument("--draws", type=int, default=1000, help="samples of the bootstrap (default: 1000)")
    parser.add_argument("--limit", type=int, help="use only the first N sentences")
    parser.add_argument("--words", metavar="MIN-MAX", help="use only sentences of this length, such as 20-30 or 40-")
    parser.add_argument("--first-order", action="store_true", help="decode by arc scores only")
    parser.add_argument("--max-heads", type=int, help="change this setting of the model's pruner")
    parser.add_argument("--ratio", type=float, help="change this setting of the model's pruner; 0 turns it off")
    parser.add_argument("--threads", type=int, default=1, help="threads for scoring and decoding (default: 1)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the bootstrap (default: 0)")
    parser.add_argument(
        "--max-tokens", type=int, default=4000, help="size of a batch in padded positions (default: 4000)"
    )
    parser.add_argument("--device", default="auto", help="device for scoring: auto, cpu, cuda, cuda:1, mps")
    parser.add_argument("--quiet", action="store_true", help="print no progress on standard error")
    options = parser.parse_intermixed_args(list(arguments))
    for name in ("repeats", "draws", "limit", "k_best", "threads", "max_tokens", "max_heads"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            raise ValueError(f"--{name.replace('_', '-')} must be positive, got {getattr(options, name)}")
    if options.seed < 0:
        raise ValueError(f"--seed must not be negative, got {options.seed}")
    if options.ratio is not None and not 0 <= options.ratio <= 1:
        raise ValueError(f"--ratio must lie in 0..1, got {options.ratio}")
    options.lengths = _lengths(options.words)
    if saved.is_saved(options.model):
        if options.file is not None or options.save_parts is not None:
            raise ValueError(f"{options.model} is a folder of scores: leave out the treebank and --save-parts")
        if options.max_heads is not None or options.ratio is not None:
            raise ValueError(f"{options.model} is a folder of scores: --max-heads and --ratio need the model")
    elif options.file is None:
        raise ValueError(f"{options.model} is not a folder of scores: give a treebank after it")
    return options


def _lengths(text: str | None) -> tuple[int, float]:
    """Fewest and most words of a sentence."""
    if text is None:
        return 1, float("inf")
    match = re.fullmatch(r"([0-9]+)(-([0-9]*))?", text)
    if match:
        first = int(match[1])
        last = first if match[2] is None else int(match[3]) if match[3] else float("inf")
        if 1 <= first <= last:
            return first, last
    raise ValueError(f"--words {text}: give a range of lengths, such as 20-30 or 40-")


def _variants(options: argparse.Namespace) -> list[Variant]:
    written = options.decoders
    if written is None and options.variants is None:
        written = DECODERS
    variants = parse_decoders(written) if written is not None else []
    if options.variants is not None:
        variants += read_variants(options.variants)
    names = [variant.name for variant in variants]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"two decoders are named {twice}; rename one of them in --variants")
    return variants


def _scored(options: argparse.Namespace, variants: Sequence[Variant], steps: _Steps) -> ScoredTreebank:
    """Load scores from the folder, or compute them with the model and save them if --save-parts is given."""
    if options.file is None:
        scored = saved.load(options.model)
        low, high = options.lengths
        chosen = (scored.lengths >= low) & (scored.lengths <= high)
        chosen &= np.cumsum(chosen) <= (options.limit or len(chosen))
        if not chosen.any():
            raise ValueError(f"{options.model}: no sentences{_of_words(options)}")
        return scored if chosen.all() else scored.subset(chosen)
    from arbora.cli.scoring import Pass

    low, high = options.lengths
    asked = (sentence for sentence in read_conll(options.file) if low <= len(sentence) <= high)
    sentences = list(islice(asked, options.limit))
    if not sentences:
        raise ValueError(f"{options.file}: no sentences{_of_words(options)}")
    run = Pass.of(
        options.model,
        device=options.device,
        threads=options.threads,
        max_tokens=options.max_tokens,
        single_root=any(variant.decoder.single_root for variant in variants),
        projective=options.save_parts is not None or any(variant.decoder.projective for variant in variants),
        pruning=options.full or options.save_parts is not None,
    )
    _set_pruner(run, options)
    if options.save_parts is None:
        return _score(run, sentences, options, steps)
    with saved.new_folder(options.save_parts, saved.ABOUT, saved.KIND) as place:
        writer = saved.Writer(place)
        with steps("scoring", len(sentences)) as advance:
            for batch in run(sentences):
                writer.add(*batch)
                advance(len(batch.position))
        about = _about(run, sentences, options, steps)
        writer.finish(sentences, run.labels, about)
    return saved.load(options.save_parts)


def _of_words(options: argparse.Namespace) -> str:
    return "" if options.words is None else f" of {options.words} words"


def _set_pruner(run: Pass, options: argparse.Namespace) -> None:
    """Change the settings of the parser's pruner."""
    pruner = run.network.pruner
    for name in ("max_heads", "ratio"):
        value = getattr(options, name)
        if value is None:
            continue
        if not hasattr(pruner, name):
            raise ValueError(f"--{name.replace('_', '-')}: the pruner of {options.model} has no such setting")
        setattr(pruner, name, value)


def _score(run: Pass, sentences: list[Sentence], options: argparse.Namespace, steps: _Steps) -> ScoredTreebank:
    batches = []
    with steps("scoring", len(sentences)) as advance:
        for batch in run(sentences):
            batches.append(batch)
            advance(len(batch.position))
    return ScoredTreebank(
        sentences,
        [batch.parts for batch in batches],
        np.concatenate([batch.position for batch in batches]),
        [batch.label for batch in batches],
        run.labels,
        _about(run, sentences, options, steps),
    )


def _about(run: Pass, sentences: list[Sentence], options: argparse.Namespace, steps: _Steps) -> dict[str, Any]:
    with steps("timing scores", options.repeats * len(sentences)) as advance:
        seconds = run.seconds(sentences, options.repeats, advance)
    return {
        "model": str(options.model),
        "file": str(options.file),
        "scoring": {
            "seconds": seconds,
            "words": sum(map(len, sentences)),
            "device": run.device,
            "threads": options.threads,
        },
        "pruner": run.pruner,
        "pruning": run.pruning_rows(),
    }


def _compare(
    scored: ScoredTreebank, variants: Sequence[Variant], reference: int, options: argparse.Namespace, steps: _Steps
) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """Return the report, and the rows of a table with one row for each sentence and decoder."""
    total = len(scored.sentences)
    found = []
    for variant in variants:
        with steps(variant.name, total) as advance:
            found.append(comparison.decode(variant.decoder, scored, advance))
    with steps("timing", len(variants) * total * (options.repeats + 1)) as advance:
        times = comparison.measure(variants, found, scored, options.repeats, options.seed, advance)
    analyses: dict[str, Any] = {"restarts": None, "dual": None, "pruning": scored.about.get("pruning"), "k_best": None}
    if options.k_best is not None:
        with steps("k best", len(variants) * total) as advance:
            analyses["k_best"] = comparison.k_best_rows(variants, scored, options.k_best, advance)
    if options.full:
        best = comparison.Best.known(variants, found, single_root=True).score
        with steps("restarts", 2 * len(comparison.RESTARTS) * total) as advance:
            analyses["restarts"] = comparison.restarts(scored, best, advance)
        with steps("AD3 and subgradient", 2 * total * (options.repeats + 2)) as advance:
            analyses["dual"] = comparison.dual_decomposition(scored, options.repeats, advance)
    figures = comparison.report(variants, found, times, scored, reference, options.draws, options.seed)
    about = {
        "model": scored.about.get("model"),
        "file": scored.about.get("file"),
        "sentences": total,
        "lengths": options.words,
        "words": scored.words,
        "arcs_per_word": scored.arcs / scored.words,
        "parts": list(scored.batches[0].kinds),
        "scoring": _scoring(scored),
        "pruner": scored.about.get("pruner"),
        "threads": options.threads,
        "repeats": options.repeats,
        "draws": options.draws,
        "seed": options.seed,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "system": f"{platform.system()} {platform.machine()}",
            "cores": os.cpu_count(),
            "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
            "python": platform.python_version(),
            **{package: version(package) for package in ("arbora", "numpy", "numba")},
        },
    }
    report = {"what": WHAT, "about": about, **figures, "analyses": analyses}
    return report, comparison.sentence_rows(variants, found, times, scored)


def _scoring(scored: ScoredTreebank) -> dict[str, Any] | None:
    """Time that scoring took, and words per second."""
    scoring = scored.about.get("scoring")
    if not scoring:
        return None
    return {**scoring, "words_per_second": comparison.spread([scoring["words"] / each for each in scoring["seconds"]])}


class _Steps:
    """Progress bars, one for each step."""

    def __init__(self, console: Console) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._stack = ExitStack()

    def __enter__(self) -> _Steps:
        self._stack.enter_context(self._progress)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @contextmanager
    def __call__(self, what: str, total: int) -> Iterator[Callable[[int], None]]:
        task = self._progress.add_task(what, total=total)
        yield lambda count: self._progress.advance(task, count)
        self._progress.remove_task(task)
