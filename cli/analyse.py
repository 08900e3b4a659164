"""`arbora analyse`: analyse the scores of a trained parser.

`arbora analyse optima` computes table 2 of Zhang, Lei, Barzilay and Jaakkola (2014), "Greed is Good if Randomized: New
Inference for Dependency Parsing", for a parser and a file.
"""

from __future__ import annotations

import csv
import json
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Literal, NamedTuple, TextIO

import numpy as np
from rich.table import Table

from arbora.cli.console import counting_bar, plain_console
from arbora.cli.doubt import doubt
from arbora.cli.options import check_least
from arbora.cli.options.analyse import optima_parser
from arbora.data.conll import open_output, read_conll
from arbora.decoders import MST, HillClimbing
from arbora.decoders.hill_climbing.optima import count_optima
from arbora.evaluation.table import plain_table
from arbora.model.inference.backend import Backend
from arbora.model.inference.batch_parser import BatchParser, ParsingSettings
from arbora.model.inference.results import naming_sentences
from arbora.model.inference.stream import Candidates, score_sentences
from arbora.model.loading import load_backend

PERCENTILES = (50, 70, 90, 95, 99)
LENGTHS = ((1, None), (1, 15), (16, None), (1, 5), (6, 10), (11, 15), (16, 20), (21, 30), (31, 50), (51, None))
"""First and last length of each group of sentences: all, the paper's groups, and finer ones."""

Start = Literal["uniform", "first_order"]
STARTS: tuple[Start, ...] = ("uniform", "first_order")
TOLERANCE = 1e-9
"""Smaller relative differences of scores count as rounding errors."""


class Measured(NamedTuple):
    """Figures of one sentence."""

    line: int  # where it starts in the file
    words: int  # its length
    arcs: int  # candidate arcs
    optima: int  # number of local optima, or the limit if counting stopped there
    best: float  # score of the best tree
    uniform: float  # best score among the climbs from uniformly drawn trees
    uniform_restarts: int  # how many these were
    first_order: float  # best score among the climbs from trees drawn by their arc scores
    first_order_restarts: int  # how many these were

    def found(self, start: str) -> bool:
        """Return whether climbing from these trees found the best one."""
        return bool(getattr(self, start) >= self.best - TOLERANCE * (1 + abs(self.best)))


class Group(NamedTuple):
    """Figures of the sentences of some length."""

    length: str  # as it is printed
    sentences: int  # how many
    mean_length: float  # in words
    arcs: float  # candidate arcs of a word
    one: float  # share of sentences with a single local optimum, in percent
    # local optima at each percentile, then the maximum; numbers above the limit are given as the limit.
    optima: dict[str, int]
    several: int  # sentences with several local optima
    found: dict[str, float]  # share of sentences whose best tree was found, in percent, by kind of starting tree
    # the same for sentences with several local optima; None if there are none.
    found_of_several: dict[str, float | None]
    restarts: dict[str, float]  # mean number of climbs


def main(arguments: Sequence[str]) -> None:
    """Run `arbora analyse` with these arguments."""
    arguments = list(arguments)
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: arbora analyse WHAT ...\n\nAnalyse the scores of a trained parser.\n")
        print("\n".join(f"  {name:10} {what}" for name, (_, what) in ANALYSES.items()))
        print("\n`arbora analyse WHAT --help` explains an analysis.")
        sys.exit(0 if arguments else 2)
    if arguments[0] not in ANALYSES:
        print(f"arbora analyse: unknown analysis {arguments[0]!r}; choose from {', '.join(ANALYSES)}", file=sys.stderr)
        sys.exit(2)
    ANALYSES[arguments[0]][0](arguments[1:])


def optima(arguments: Sequence[str]) -> None:
    """Run `arbora analyse optima` with these arguments."""
    options = optima_parser().parse(arguments)
    check_least(options, limit=1, max_tokens=1)
    if options.csv is not None and options.csv == options.json:
        raise ValueError(f"--csv and --json cannot both be {options.csv}")
    restarts = options.restarts if options.patience is None else None
    climbs = {
        start: HillClimbing(
            restarts=restarts,
            patience=1 if options.patience is None else options.patience,
            start=start,
            best_first=False,
            seed=options.seed,
            single_root=options.single_root,
        )
        for start in STARTS
    }

    model = load_backend(options.model, device=options.device)
    score_only_arcs(model, options.dense, options.single_root)
    console = plain_console(stderr=True, quiet=options.quiet)
    with ExitStack() as files:
        csv_file, json_file = (
            None if path is None else files.enter_context(open_output(path)) for path in (options.csv, options.json)
        )
        sentences = list(read_conll(options.file, trees=False))
        if not sentences:
            raise ValueError(f"{options.file}: no sentences")
        measured: list[Measured] = []
        started = time.perf_counter()
        with counting_bar(console) as progress:
            task = progress.add_task("counting", total=len(sentences))
            scorer = BatchParser(model, model.decoder, ParsingSettings(options.max_tokens))
            for batch in score_sentences(scorer, sentences):
                measured += measure(batch, climbs, options.limit)
                progress.update(task, advance=len(batch.sentences))
        console.print(f"analysed {len(sentences):,} sentences in {time.perf_counter() - started:.1f} s")
        measured.sort()
        groups = list(summarise(measured))
        if csv_file is not None:
            _write_csv(measured, csv_file)
        if json_file is not None:
            _write_json(measured, groups, options, json_file)
    out = plain_console(stderr="-" in (options.csv, options.json))
    out.print(_header(options, measured))
    for table in _tables(groups, options):
        out.print()
        out.print(table)
    if options.patience is not None:
        means = (f"{mean:.1f} {start.replace('_', '-')}" for start, mean in groups[0].restarts.items())
        out.print(f"\nClimbs of a sentence: {', '.join(means)}")


def capped(count: int, limit: int) -> str:
    """Format a number of optima; counting stops at the limit."""
    return f"≥ {limit:,}" if count >= limit else f"{count:,}"


def score_only_arcs(model: Backend, dense: bool, single_root: bool) -> None:
    """Reduce a parser to its arc scores.

    Args:
        model: the backend of the parser.
        dense: turn pruning off.
        single_root: if it prunes, let it keep at least one tree with a single root word.
    """
    model.score_only_arcs()
    if dense:
        model.pruner = None
    if single_root and not model.decoder.single_root:
        model.decoder = MST()


def measure(batch: Candidates, climbs: Mapping[Start, HillClimbing], limit: int) -> Iterator[Measured]:
    """Count the optima of each sentence of a batch, and climb.

    Args:
        batch: scored sentences, with arcs only.
        climbs: settings of the climbs, for each of `STARTS`.
        limit: where to stop counting.
    """
    with naming_sentences(batch.sentences):
        counts = count_optima(batch.parts, limit)
        best = MST(climbs[STARTS[0]].single_root)(batch.parts).score
        climbed = [climbs[start](batch.parts) for start in STARTS]
    arcs = np.diff(batch.parts.sentence_offsets)
    for b, sentence in enumerate(batch.sentences):
        figures: list[Any] = [sentence.line_number, len(sentence), int(arcs[b]), int(counts[b]), float(best[b])]
        for trees in climbed:
            figures += [float(trees.score[b]), int(trees.counters["restarts"][b])]
        yield Measured(*figures)


def summarise(measured: Sequence[Measured]) -> Iterator[Group]:
    """Figures of all sentences and of each group by length that is not empty."""
    for first, last in LENGTHS:
        chosen = [entry for entry in measured if first <= entry.words and (last is None or entry.words <= last)]
        several = [entry for entry in chosen if entry.optima > 1]
        if not chosen:
            continue
        counts = [entry.optima for entry in chosen]
        at = {f"{p}%": int(np.percentile(counts, p, method="inverted_cdf")) for p in PERCENTILES}
        words = sum(entry.words for entry in chosen)
        yield Group(
            length="all" if (first, last) == (1, None) else f"{first}+" if last is None else f"{first}-{last}",
            sentences=len(chosen),
            mean_length=words / len(chosen),
            arcs=sum(entry.arcs for entry in chosen) / words,
            one=_percent(entry.optima == 1 for entry in chosen) or 0.0,
            optima={**at, "most": max(counts)},
            several=len(several),
            found={start: _percent(entry.found(start) for entry in chosen) or 0.0 for start in STARTS},
            found_of_several={start: _percent(entry.found(start) for entry in several) for start in STARTS},
            restarts={
                start: float(np.mean([getattr(entry, f"{start}_restarts") for entry in chosen])) for start in STARTS
            },
        )


def _percent(values: Iterable[bool]) -> float | None:
    counted = list(values)
    return 100 * sum(counted) / len(counted) if counted else None


def _header(options: Namespace, measured: Sequence[Measured]) -> str:
    words = sum(entry.words for entry in measured)
    arcs = "all arcs" if options.dense else f"{sum(entry.arcs for entry in measured) / words:.1f} arcs per word"
    return f"{options.model} on {options.file}: {len(measured):,} sentences, {words:,} words, {arcs}"


def _tables(groups: Sequence[Group], options: Namespace) -> Iterator[Table]:
    """The two halves of the paper's table."""
    columns = ("length", "count", "mean", "1 (%)", *groups[0].optima)
    table = plain_table(*columns, title="Local optima under arc scores, at percentiles of the sentences")
    for group in groups:
        counts = (capped(count, options.limit) for count in group.optima.values())
        table.add_row(group.length, f"{group.sentences:,}", f"{group.mean_length:.1f}", f"{group.one:.1f}", *counts)
    yield table

    roots = "one word" if options.single_root else "any number of words"
    climbs = f"{options.restarts} climb{'s' * (options.restarts > 1)}"
    if options.patience is not None:
        climbs = f"climbs, patience {options.patience}"
    names = [start.replace("_", "-") for start in STARTS]
    title = f"Sentences (%) whose best tree is found by {climbs}; {roots} at the root"
    table = plain_table("length", "sentences", *names, "several", *names, title=title)
    for group in groups:
        cells = [f"{group.sentences:,}", *(f"{share:.1f}" for share in group.found.values())]
        cells.append(f"{group.several:,}")
        cells += ["-" if share is None else f"{share:.1f}" for share in group.found_of_several.values()]
        table.add_row(group.length, *cells)
    yield table


def _record(entry: Measured) -> dict[str, float]:
    return entry._asdict() | {f"{start}_found": entry.found(start) for start in STARTS}


def _write_csv(measured: Sequence[Measured], output: TextIO) -> None:
    writer = csv.DictWriter(output, _record(measured[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: int(v) if isinstance(v, bool) else v for name, v in _record(m).items()} for m in measured)


def _write_json(measured: Sequence[Measured], groups: Sequence[Group], options: Namespace, output: TextIO) -> None:
    names = ("model", "file", "dense", "limit", "restarts", "patience", "seed", "single_root")
    settings = {name: getattr(options, name) for name in names}
    lists = {"groups": [group._asdict() for group in groups], "sentences": list(map(_record, measured))}
    output.write(json.dumps({"settings": settings, **lists}, indent=1, ensure_ascii=False) + "\n")


ANALYSES: dict[str, tuple[Callable[[Sequence[str]], None], str]] = {
    "doubt": (doubt, "rank sentences and words by expected errors; with gold trees, check these expectations"),
    "optima": (optima, "count local optima under arc scores, and measure how often climbing finds the best tree"),
}
"""The analyses, each with its description."""
