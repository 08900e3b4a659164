"""`arbora tune`: find a decoder's settings on a development part.

The part is scored once; a trial only decodes. Optuna's TPE (Bergstra et al., 2011, "Algorithms for hyper-parameter
optimization") says what to try next.
"""

from __future__ import annotations

import re
import time
from argparse import ArgumentError
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from math import inf, isfinite
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import yaml
from jsonargparse import ArgumentParser, Namespace
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from arbora.cli.arguments import CommandParser
from arbora.cli.console import plain_console
from arbora.data.conll import Sentence, open_output, read_conll
from arbora.decoders import Decoder
from arbora.extras import importing_extra
from arbora.model.inference.batch_parser import BatchParser, ParsingSettings
from arbora.model.inference.results import naming_sentences
from arbora.model.inference.stream import Candidates, score_sentences
from arbora.model.loading import find_device, load_network

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

DESCRIPTION = """\
Find a decoder's settings on a development part, and write them to a file that `arbora predict --decoder` takes.

The part is scored once, and the scores of the whole part are held in memory; each trial only decodes. The first trial
is the decoder as given, so the result is never worse than that. Of equal trials the one with lower whole numbers is
taken, which is most often the faster, then the earlier one. Ctrl-C ends the search early. For example:

  arbora tune runs/mine/best.ckpt dev.conllu --decoder HillClimbing \\
      --search patience=1:300:log start=uniform,first_order --trials 60 -o tuned.yaml
  arbora predict runs/mine/best.ckpt test.conllu --decoder tuned.yaml -o parsed.conllu

The figures on the development part are then too good to be reported: use another part for that.
"""

SHOWN = 10
"""Trials in the table."""

Objective = Literal["uas", "score"]


@dataclass(frozen=True)
class Trial:
    """A decoder and what it came to.

    Args:
        number: 0 is the decoder as given.
        decoder: with all its settings.
        uas: share of words with the right head, in percent.
        score: mean model score of a tree.
        seconds: that decoding took.
    """

    number: int
    decoder: Decoder
    uas: float
    score: float
    seconds: float


def main(arguments: Sequence[str]) -> None:
    """Run `arbora tune` with these arguments."""
    parser = CommandParser(prog="arbora tune", description=DESCRIPTION)
    parser.add_argument("model", help="checkpoint that `arbora train` wrote")
    parser.add_argument("dev", help="treebank to tune on, with its trees")
    parser.add_argument("-o", "--output", help="YAML file to write; standard output where it is not given")
    parser.add_argument(
        "--decoder",
        type=Decoder | None,
        sub_configs=True,
        help="where to start, e.g. HillClimbing with --decoder.patience 50, or a file of `arbora tune`; "
        "the decoder trained with, where it is not given",
    )
    parser.add_argument(
        "--search",
        action="append",
        metavar="NAME=LOW:HIGH",
        help="settings to search, one or more: name=low:high for numbers, name=low:high:log to search their logarithm, "
        "name=a,b,c for values one by one",
    )
    parser.add_argument("--trials", type=int, default=60, help="how many, that of the decoder as given included")
    parser.add_argument(
        "--objective",
        choices=get_args(Objective),
        default="uas",
        help="uas: words with the right head; score: mean model score of a tree, which needs no right heads to tell "
        "a better search",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the search")
    parser.add_argument("--max-tokens", type=int, default=4000, help="size of a batch, in positions when padded")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps; for scoring alone")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    options = parser.instantiate(parser.parse_args(parser.positionals_first(list(_one_search_each(arguments)))))
    for name in ("trials", "max_tokens"):
        if options[name] < 1:
            raise ValueError(f"--{name.replace('_', '-')} must be positive, got {options[name]}")
    if not 0 <= options.seed < 2**32:
        raise ValueError(f"--seed must lie in 0..{2**32 - 1}, got {options.seed}")

    model = load_network(options.model)
    start = model.decoder if options.decoder is None else options.decoder
    space = search_space(options.search or [], start, pruned=model.pruner is not None)
    model.to(find_device(options.device))
    console = plain_console(stderr=True, quiet=options.quiet)
    with open_output(options.output) as output:
        sentences = list(read_conll(options.dev))
        scorer = BatchParser(model, start, ParsingSettings(options.max_tokens))  # the pruner keeps a tree for it
        batches = _score(scorer, sentences, console)
        trials = tune(batches, start, space, options.trials, options.objective, options.seed, console)
        output.write(_file(trials, options, sentences))
    words = sum(map(len, sentences))
    (console if options.output in (None, "-") else plain_console(quiet=options.quiet)).print(
        _table(trials, space, words)
    )


def tune(
    batches: Sequence[Candidates],
    start: Decoder,
    space: Mapping[str, BaseDistribution],
    count: int,
    objective: Objective = "uas",
    seed: int = 0,
    console: Console | None = None,
) -> list[Trial]:
    """Try settings of a decoder on scores.

    Args:
        batches: scored sentences with their right heads.
        start: the decoder as given, which is the first trial.
        space: what to search, from `search_space`.
        count: how many trials.
        objective: what to raise.
        seed: of the search.
        console: for progress.

    Returns:
        Trials without repeated ones, the best first. An interrupt ends the search with those that are done.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    gold = [_heads(batch.sentences) for batch in batches]
    start(batches[0].parts.subset([0]))  # compiles what is then timed
    first = _try(0, start, batches, gold)
    try:
        settings = {name: getattr(start, name) for name in space}
        value = getattr(first, objective)
        study.add_trial(optuna.create_trial(params=settings, distributions=dict(space), value=value))
    except ValueError:
        pass  # the decoder as given lies outside of what is searched: nothing that the sampler could learn from
    done = {start: first}
    with _progress("tuning", console) as progress:
        task = progress.add_task("tuning", total=count, completed=1, best=_percent(first, objective))
        try:
            for number in range(1, count):
                asked = study.ask(dict(space))
                decoder = replace(start, **asked.params)  # type: ignore[type-var]
                if decoder not in done:
                    done[decoder] = _try(number, decoder, batches, gold)
                study.tell(asked, getattr(done[decoder], objective))
                best = max(done.values(), key=lambda trial: getattr(trial, objective))
                progress.update(task, advance=1, best=_percent(best, objective))
        except KeyboardInterrupt:
            if console is not None:
                console.print(f"stopped; {len(done)} different settings were tried")

    def rank(trial: Trial) -> tuple[float, ...]:
        values = (getattr(trial.decoder, name) for name in space)
        work = (inf if value is None else value if type(value) is int else 0 for value in values)
        return (-getattr(trial, objective), *work, trial.number)

    return sorted(done.values(), key=rank)


def search_space(specifications: Sequence[str], decoder: Decoder, pruned: bool = False) -> dict[str, BaseDistribution]:
    """What to search, from what a user wrote.

    Args:
        specifications: `name=low:high`, `name=low:high:log` or `name=a,b,c` each.
        decoder: whose settings they are.
        pruned: whether the scores depend on `single_root`, as a pruner's candidates do.

    Raises:
        ValueError: a name, a range or a value is not one of the decoder's.
        ModuleNotFoundError: the extra `tune` is not installed.
    """
    with importing_extra():
        import optuna  # noqa: F401
    hints = _tunable(decoder)
    if pruned:
        hints.pop("single_root", None)
    kind = type(decoder).__name__
    known = ", ".join(f"{name}={_plain(getattr(decoder, name))}" for name in hints)
    if not specifications:
        has = f"{kind} has {known}" if hints else f"{kind} has none"
        raise ValueError(f"name the settings to search, as --search name=low:high or name=a,b,c; {has}")
    space: dict[str, BaseDistribution] = {}
    for specification in specifications:
        name, equals, text = specification.partition("=")
        if pruned and name == "single_root":
            raise ValueError("--search single_root: the pruner's candidates depend on it; set --decoder.single_root")
        if not equals:
            raise ValueError(f"--search {specification}: write name=low:high, name=low:high:log or name=a,b,c")
        if name not in hints:
            raise ValueError(f"--search {name}: {kind} has no such setting to search, but {known or 'none at all'}")
        if name in space:
            raise ValueError(f"--search {name} is there twice")
        try:
            space[name] = _range(name, text, hints[name], decoder) if ":" in text else _choice(name, text, decoder)
        except ValueError as error:
            raise ValueError(f"--search {specification}: {error}") from None
    return space


def _range(name: str, text: str, hint: Any, decoder: Decoder) -> BaseDistribution:
    from optuna.distributions import FloatDistribution, IntDistribution

    number = _number(hint)
    if number is None:
        values = next((get_args(kind) for kind in _kinds(hint) if get_origin(kind) is Literal), ("true", "false"))
        raise ValueError(f"{name} is no number; list its values, as {name}={','.join(map(str, values))}")
    low_text, high_text, *scale = text.split(":")
    if scale not in ([], ["log"]):
        raise ValueError("a range is low:high or low:high:log")
    try:
        low, high = number(low_text), number(high_text)
    except ValueError:
        what = "whole numbers" if number is int else "numbers"
        raise ValueError(f"{name} takes {what}, got {low_text} and {high_text}") from None
    if not (isfinite(low) and isfinite(high) and low < high):
        raise ValueError("the range is empty; the first number must be below the second, and both finite")
    if scale and low <= 0:
        raise ValueError(f"a logarithm needs numbers above 0, got {low_text}")
    for end in (low, high):
        replace(decoder, **{name: end})  # type: ignore[type-var] # says what it does not take
    log = bool(scale)
    if number is int:
        return IntDistribution(int(low), int(high), log=log)
    return FloatDistribution(low, high, log=log)


def _choice(name: str, text: str, decoder: Decoder) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution

    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--value", type=_tunable(decoder)[name])
    values = []
    for word in text.split(","):
        try:
            values.append(parser.parse_args([f"--value={word}"]).value)
        except ArgumentError:
            raise ValueError(f"{name} does not take {word!r}") from None
        replace(decoder, **{name: values[-1]})  # type: ignore[type-var] # says what it does not take
    if len(set(values)) < max(2, len(values)):
        raise ValueError("nothing to search; give a range low:high, or several values that differ")
    return CategoricalDistribution(values)


def _tunable(decoder: Decoder) -> dict[str, Any]:
    """Types of those settings that are numbers, booleans or one of a few names."""
    if not is_dataclass(decoder):
        raise ValueError(f"{type(decoder).__name__} is not a dataclass of settings, so there is nothing to tune")
    hints = get_type_hints(type(decoder))
    return {
        item.name: hints[item.name]
        for item in fields(decoder)
        if item.init
        and any(kind in (int, float, bool) or get_origin(kind) is Literal for kind in _kinds(hints[item.name]))
    }


def _kinds(hint: Any) -> tuple[Any, ...]:
    """The types of a union, or the one that is no union."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _number(hint: Any) -> type[int] | type[float] | None:
    kinds = _kinds(hint)
    return float if float in kinds else int if int in kinds else None


def _score(scorer: BatchParser, sentences: list[Sentence], console: Console) -> list[Candidates]:
    started = time.perf_counter()
    batches = []
    with _progress("scoring", console) as progress:
        task = progress.add_task("scoring", total=len(sentences), best="")
        for batch in score_sentences(scorer, sentences):
            batches.append(batch)
            progress.update(task, advance=len(batch.sentences))
    size = sum(
        value.nbytes
        for batch in batches
        for item in fields(batch.parts)
        if isinstance(value := getattr(batch.parts, item.name), np.ndarray)
    )
    seconds = time.perf_counter() - started
    console.print(f"scored {len(sentences):,} sentences in {seconds:.1f} s; the scores take {size / 1e6:,.1f} MB")
    return batches


def _try(number: int, decoder: Decoder, batches: Sequence[Candidates], gold: Sequence[NDArray[np.int32]]) -> Trial:
    right = words = sentences = 0
    total = seconds = 0.0
    for batch, heads in zip(batches, gold, strict=True):
        started = time.perf_counter()
        with naming_sentences(batch.sentences):
            trees = decoder(batch.parts)
        seconds += time.perf_counter() - started
        right += int(np.count_nonzero(trees.heads[:, 1:] == heads))
        words += int(batch.parts.lengths.sum())
        sentences += len(heads)
        total += float(trees.score.sum())
    return Trial(number, decoder, 100 * right / words, total / sentences, seconds)


def _heads(sentences: Sequence[Sentence]) -> NDArray[np.int32]:
    """(B, N-1) right heads of words; padding is unlike that of trees, so that it is never right."""
    heads = np.full((len(sentences), max(map(len, sentences))), -2, dtype=np.int32)
    for b, sentence in enumerate(sentences):
        heads[b, : len(sentence)] = sentence.head
    return heads


def _file(trials: Sequence[Trial], options: Namespace, sentences: Sequence[Sentence]) -> str:
    """The best decoder as `arbora predict` reads it, with where it comes from."""
    best, first = trials[0], next(trial for trial in trials if trial.number == 0)
    words = sum(map(len, sentences))
    given = ", ".join(f"{item.name}={_plain(getattr(first.decoder, item.name))}" for item in fields(first.decoder))  # type: ignore[arg-type]
    notes = [
        "Found by `arbora tune`; use it with `arbora predict --decoder THIS_FILE`.",
        f"model: {options.model}",
        f"development part: {options.dev}, {len(sentences)} sentences, {words} words",
        f"search: {' '.join(options.search)}; objective {options.objective}, trials {options.trials}, "
        f"seed {options.seed}",
        f"tried: {len(trials)} different settings; the best in trial {best.number + 1}",
        f"before: {given}",
        f"UAS: {first.uas:.2f} before, {best.uas:.2f} after",
        f"mean score of a tree: {first.score:.4f} before, {best.score:.4f} after",
    ]
    comments = "".join(f"# {' '.join(note.splitlines())}\n" for note in notes)
    entry = {"class_path": type(best.decoder).__name__, "init_args": vars(best.decoder)}
    return comments + str(yaml.safe_dump(entry, sort_keys=False))


def _table(trials: Sequence[Trial], space: Mapping[str, BaseDistribution], words: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("trial")
    for name in (*space, "UAS", "score", "words/s"):
        table.add_column(name, justify="right")
    for trial in [*trials[:SHOWN], *(trial for trial in trials[SHOWN:] if trial.number == 0)]:
        table.add_row(
            str(trial.number + 1) if trial.number else "as given",
            *(_plain(getattr(trial.decoder, name)) for name in space),
            f"{trial.uas:.2f}",
            f"{trial.score:.4f}",
            f"{words / trial.seconds:,.0f}",
        )
    return table


def _plain(value: Any) -> str:
    """A setting as it is written on the command line, floats shortened."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _percent(trial: Trial, objective: Objective) -> str:
    return f"best UAS {trial.uas:.2f}" if objective == "uas" else f"best score {trial.score:.4f}"


def _progress(what: str, console: Console | None) -> Progress:
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[best]}"))
    hidden = console is None or not console.is_terminal
    return Progress(*columns, TimeElapsedColumn(), console=console, transient=True, disable=hidden)


def _one_search_each(arguments: Sequence[str]) -> Iterator[str]:
    """The arguments with `--search a=1:2 b=3:4` as two options, so that files may stand behind it."""
    before = ""
    for argument in arguments:
        if argument == "--search":
            before = argument
        elif before == "--search" or (before.startswith("--search=") and re.match(r"\w+=", argument)):
            before = f"--search={argument}"
            yield before
        else:
            before = argument
            yield argument
