"""`arbora reproduce`: reproduce the tables of a paper on a treebank, next to the published figures."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from arbora.cli.console import plain_console
from arbora.cli.options import CommandParser
from arbora.model.loading import load
from arbora.model.pruners.settings import Vine
from arbora.model.storage.files import is_linear
from arbora.reproduction import BUDGETS, LINEAR_PAPERS, PAPERS, Paper, Run, Settings, reproduce
from arbora.reproduction.parsers import LINEAR_EPOCHS
from arbora.reproduction.report import Table, read_json

DESCRIPTION = """\
Reproduce the tables of a paper: train the parsers that they need on a treebank, measure, and print each table next to
the published figures. The published figures are from the paper's own data and machine.

  greedy         Tchernowitz et al. 2016: greedy search with partial parts, against exact search
  hill-climbing  Zhang et al. 2014: local optima, restarts, where climbs start
  ad3            Martins et al. 2013: dual decomposition up to third order, against the subgradient method
  vine           Rush and Petrov 2012: pruning by a cascade that starts with a vine parser

The treebank is a folder with train.conllu, dev.conllu and test.conllu. For example:

  arbora reproduce greedy --treebank examples/treebank --budget quick
  arbora reproduce ad3 --treebank UD_Greek-GDT --run runs/ad3-greek
  arbora reproduce ad3 --treebank UD_Greek-GDT --scores linear
  arbora reproduce greedy --treebank UD_Greek-GDT --model first=runs/first/best.ckpt second=runs/second/best.ckpt
  arbora reproduce greedy --summary runs/reproduce/greedy-*-full      # tables over treebanks, of finished runs

Budgets: `quick` takes minutes on a laptop (500 sentences of each part, 5 epochs) and only checks that everything works;
`normal` trains on everything for 25 epochs, linear models for 10; `full` does the same with three seeds. The folder of
the run keeps all results: report.md has the tables, report.json all figures, models/ the parsers. Run the same command
again to resume an interrupted run.
"""


def main(arguments: Sequence[str]) -> None:
    """Run `arbora reproduce` with these arguments."""
    options = _options(arguments)
    linear = options.scores == "linear"
    paper = (LINEAR_PAPERS if linear else PAPERS)[options.paper]
    if options.summary:
        tables = _summary(paper, options.summary)
        plain = {"tables": [table.plain() for table in tables]}
        markdown = "\n\n".join(table.markdown() for table in tables) + "\n"
        sys.stdout.write(json.dumps(plain, indent=1, ensure_ascii=False) + "\n" if options.json else markdown)
        return
    treebank = Path(options.treebank)
    if not treebank.is_dir():
        raise ValueError(f"--treebank {treebank} is not a folder with train.conllu, dev.conllu and test.conllu")
    if linear and options.pruner:
        raise ValueError("--pruner sets the pruners of networks: leave it out with --scores linear")
    models = _models(options.model or [], paper, linear)
    budget = BUDGETS[options.budget]
    if linear:
        budget = replace(budget, epochs=min(budget.epochs, LINEAR_EPOCHS))
    changes = {
        name: getattr(options, name)
        for name in ("epochs", "pruner_epochs", "limit", "repeats")
        if getattr(options, name)
    }
    budget = replace(budget, **changes)
    if models and budget.seeds > 1:
        raise ValueError(f"--budget {options.budget} trains {budget.seeds} parsers; with --model, use --budget normal")
    settings = Settings(
        paper=paper.name,
        treebank=str(treebank),
        budget=budget,
        seeds=tuple(options.seed + i for i in range(budget.seeds)),
        models=models,
        threads=options.threads,
        device=options.device,
        longest=options.longest,
        pruner=_pruner(options.pruner or []),
        scores=options.scores,
    )
    name = f"{paper.name}-{treebank.resolve().name}-{options.budget}{'-linear' * linear}"
    folder = Path(options.run or f"runs/reproduce/{name}")
    console = plain_console(stderr=True, quiet=options.quiet)
    command = shlex.join(["arbora", "reproduce", *arguments])
    try:
        run = Run(folder, settings, say=console.print)
        report = reproduce(paper, run, command)
    except (KeyboardInterrupt, SystemExit):
        console.print(f"stopped; run the same command again to resume in {folder}")
        raise
    console.print(f"wrote {folder / 'report.md'}")
    if options.json:
        print(json.dumps(report.plain(), indent=1, ensure_ascii=False))
    else:
        sys.stdout.write(report.markdown())


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = CommandParser("reproduce", DESCRIPTION)
    parser.add_argument("paper", choices=PAPERS, metavar="PAPER", help=f"{', '.join(PAPERS)}")
    data = parser.add_mutually_exclusive_group(required=True)
    data.add_argument("--treebank", metavar="DIR", help="folder with train.conllu, dev.conllu and test.conllu")
    data.add_argument(
        "--summary", nargs="+", metavar="RUN", help="print the tables over treebanks, of the folders of finished runs"
    )
    parser.add_argument(
        "--budget", choices=BUDGETS, default="normal", help="amount of training and data (default: normal)"
    )
    parser.add_argument(
        "--scores",
        choices=("networks", "linear"),
        default="networks",
        help="train networks, or linear models with MIRA as in the papers (default: networks)",
    )
    parser.add_argument("--epochs", type=int, help="epochs of training, instead of the budget's")
    parser.add_argument("--pruner-epochs", type=int, metavar="N", help="vine only: epochs of training for each pruner")
    parser.add_argument(
        "--limit",
        type=int,
        metavar="N",
        help="use only the first N sentences of each part; with --model, of dev and test",
    )
    parser.add_argument("--repeats", type=int, metavar="N", help="timed runs, after one untimed run")
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of training; the first one if there are several (default: 1)"
    )
    parser.add_argument(
        "--run",
        metavar="DIR",
        help="folder of parsers and results (default: runs/reproduce/PAPER-TREEBANK-BUDGET[-linear])",
    )
    names = "; ".join(f"{paper.name}: {', '.join(paper.models)}" for paper in PAPERS.values())
    parser.add_argument(
        "--model",
        "--models",
        nargs="+",
        metavar="NAME=CKPT",
        help=f"use trained parsers instead of training them, by name, or without names in this order: {names}",
    )
    parser.add_argument(
        "--threads", type=int, default=1, help="threads for scoring and decoding, also when timing (default: 1)"
    )
    parser.add_argument("--device", default="auto", help="device for scoring: auto, cpu, cuda, cuda:1, mps")
    parser.add_argument(
        "--longest",
        type=int,
        default=100,
        metavar="N",
        help="vine only: without pruning, parse sentences above this length by arcs only (default: 100 words)",
    )
    parser.add_argument(
        "--pruner",
        nargs="+",
        metavar="NAME=VALUE",
        help="vine only: settings of the pruners, as in --model.pruner of `arbora train`, such as error=0.001",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--quiet", action="store_true", help="print no progress on standard error")
    options = parser.parse_args(list(arguments))
    for name in ("epochs", "pruner_epochs", "limit", "repeats", "threads", "longest"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            raise ValueError(f"--{name.replace('_', '-')} must be positive, got {getattr(options, name)}")
    if options.seed < 0:
        raise ValueError(f"--seed must not be negative, got {options.seed}")
    return options


def _summary(paper: Paper, runs: Sequence[str]) -> list[Table]:
    """Tables over treebanks, from the reports of finished runs."""
    if paper.summary is None:
        raise ValueError(f"--summary: {paper.name} has no table over treebanks")
    found = {}
    for run in runs:
        path = Path(run) / "report.json"
        if not path.exists():
            raise ValueError(f"--summary {run} has no report.json: finish the run first")
        report = read_json(path)
        settings = report["settings"]
        if settings["paper"] != paper.name:
            raise ValueError(f"--summary {run} is a run of {settings['paper']}, not of {paper.name}")
        name = Path(settings["treebank"]).name + ", linear" * (settings["scores"] == "linear")
        if name in found:
            raise ValueError(f"--summary {run}: there is another run on {name}")
        found[name] = list(report["results"].values())
    return paper.summary(found)


def _pruner(given: Sequence[str]) -> dict[str, Any]:
    """Read and check settings of pruners."""
    found: dict[str, Any] = {}
    for entry in given:
        name, equals, value = entry.partition("=")
        if not equals or name in ("stages", "filter"):
            raise ValueError(f"--pruner {entry}: give NAME=VALUE; stages and filter cannot be set")
        found[name] = yaml.safe_load(value)
    try:
        Vine(**found)
    except TypeError as error:
        raise ValueError(f"--pruner {' '.join(given)}: {error}") from None
    return found


def _models(given: Sequence[str], paper: Paper, linear: bool) -> dict[str, str]:
    """Return checkpoints by the names that the paper gives them, after checking that they load."""
    names = list(paper.models)
    if any("=" not in entry for entry in given):
        if any(entry.partition("=")[0] in names for entry in given) or len(given) != len(names):
            raise ValueError(f"--model takes NAME=CKPT, or {len(names)} files in this order: {', '.join(names)}")
        found = dict(zip(names, given))
    else:
        found = {}
        for entry in given:
            name, _, path = entry.partition("=")
            if name not in names:
                raise ValueError(
                    f"--model {name}=...: {paper.name} has no parser {name}; choose from {', '.join(names)}"
                )
            found[name] = path
    for path in found.values():
        load(path)
        if is_linear(path) != linear:
            raise ValueError(
                f"{path}: {'not ' * linear}a linear model: give --scores {'networks' if linear else 'linear'}"
            )
    return found
