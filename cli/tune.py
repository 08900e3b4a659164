"""`arbora tune`: find a decoder's settings on a development part.

The part is scored once; a trial only decodes. Optuna's TPE (Bergstra et al., 2011, "Algorithms for hyper-parameter
optimization") chooses the next trial.
"""

from __future__ import annotations

import re
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np
import yaml
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import TextColumn
from rich.table import Table

from arbora.cli.console import counting_bar, plain_console
from arbora.cli.ensembles import parse_gamma, with_trees
from arbora.cli.options import check_least
from arbora.cli.options.tune import parser
from arbora.data.conll import Sentence, conll_entries, open_output, read_conll, valid
from arbora.decoders import Decoder, Parts
from arbora.decoders.ensemble import favour_trees
from arbora.decoders.names import OWN, find_decoder, kinds_of, setting_of
from arbora.decoders.parts.kinds import KINDS
from arbora.decoders.settings import ANY
from arbora.evaluation.table import plain_table
from arbora.extras import importing_extra
from arbora.model.inference.batch_parser import BatchParser, ParsingSettings
from arbora.model.inference.results import naming_sentences
from arbora.model.inference.stream import score_sentences
from arbora.model.loading import find_device, load_backend, load_network

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

SHOWN = 10
"""Trials in the table."""

FIXED = {"single_root", "seed", "seconds", "fractional", "tolerance"}
"""Settings that are searched only when they are named: they say what is looked for, or how exactly."""

BEST = TextColumn("{task.fields[best]}")

GAMMAS = ("gamma_1", "gamma_2", "gamma_3")
"""Names of the scores that an ensemble adds to parts of first, second and third order."""

Objective = Literal["uas", "score"]


@dataclass(frozen=True)
class Setup:
    """Settings of a trial."""

    decoder: Decoder  # with all its settings
    # scores that an ensemble adds to parts of first, second and third order in the other parser's trees.
    gamma: tuple[float, ...] = ()

    def __getitem__(self, name: str) -> Any:
        """A setting by its name."""
        return self.gamma[GAMMAS.index(name)] if name in GAMMAS else getattr(self.decoder, name)

    def with_settings(self, settings: Mapping[str, Any]) -> Setup:
        """The same with other values of some settings."""
        gamma = tuple(settings.get(name, value) for name, value in zip(GAMMAS, self.gamma))
        others = {name: value for name, value in settings.items() if name not in GAMMAS}
        return Setup(replace(self.decoder, **others), gamma)  # type: ignore[type-var]


@dataclass(frozen=True)
class Trial:
    """A setup and its results."""

    number: int  # 0 for the setup as given, or for the best of the stage before
    setup: Setup  # what was tried
    uas: float  # share of words with the right head, in percent
    score: float  # mean model score of a tree, without the scores that an ensemble adds
    seconds: float  # time for decoding


def main(arguments: Sequence[str]) -> None:
    """Run `arbora tune` with these arguments."""
    options = _options(arguments)
    if options.pruner is not None:
        _tune_pruner(options)
        return
    model = load_backend(options.model, device=options.device)
    decoder = find_decoder(options.decoder, model.decoder, options.decoder_settings)
    setup = Setup(decoder, () if options.ensemble is None else parse_gamma(options.ensemble_gamma))
    spaces = [
        search_space(stage, setup, pruned=model.pruner is not None)
        for stage in [options.search or [], *(stage.split() for stage in options.then or [])]
    ]
    console = plain_console(stderr=True, quiet=options.quiet)
    printed = console if options.output in (None, "-") else plain_console(quiet=options.quiet)
    with open_output(options.output) as output:
        sentences = list(read_conll(options.dev))
        guides = None if options.ensemble is None else _trees_of(options.ensemble, sentences)
        # The pruner keeps a tree for the decoder, and heads that another parser found if there are gammas, even of 0.
        settings = ParsingSettings(options.max_tokens, gamma=() if guides is None else (0.0,))
        batches = score_dev(BatchParser(model, decoder, settings), sentences, guides, console)
        stages = []
        for space in spaces:
            trials = tune(batches, setup, space, options.trials, options.objective, options.seed, console)
            stages.append(trials)
            setup = trials[0].setup
        output.write(_file(stages, options, sentences))
    for space, trials in zip(spaces, stages):
        printed.print(_table(trials, space, sum(map(len, sentences))))


def _options(arguments: Sequence[str]) -> Namespace:
    options = parser().parse(list(_grouped(arguments)))
    check_least(options, trials=1, max_tokens=1)
    if not 0 <= options.seed < 2**32:
        raise ValueError(f"--seed must lie in 0..{2**32 - 1}, got {options.seed}")
    return options


class DevBatch(NamedTuple):
    """Sentences of one batch, their scores and trees."""

    sentences: list[Sentence]
    parts: Parts
    gold: NDArray[np.int32]  # (B, N) right heads, -2 at the root and at padding, so that these are never right
    guide: NDArray[np.int32] | None  # (B, N) heads that another parser found, in an ensemble


def _tune_pruner(options: Namespace) -> None:
    from arbora.cli.tune_pruner import parse_criterion, tune_pruner, write_tuned  # imports torch

    criterion, error = parse_criterion(options.pruner)
    if options.search or options.then or options.ensemble is not None or options.decoder != OWN:
        raise ValueError("--pruner tunes the pruner only: leave out --search, --then, --ensemble and --decoder")
    if options.output in (None, "-"):
        raise ValueError("--pruner writes a checkpoint: name it with --output")
    model = load_network(options.model).to(find_device(options.device))
    table = tune_pruner(model, list(read_conll(options.dev)), criterion, error, options.max_tokens)
    write_tuned(options.model, model, Path(options.output))
    plain_console(quiet=options.quiet).print(table)


def tune(
    batches: Sequence[DevBatch],
    start: Setup,
    space: Mapping[str, BaseDistribution],
    count: int,
    objective: Objective = "uas",
    seed: int = 0,
    console: Console | None = None,
) -> list[Trial]:
    """Try settings on scores.

    Args:
        batches: scored sentences with their right heads.
        start: the first trial.
        space: what to search, from `search_space`.
        count: number of trials.
        objective: the figure to maximize.
        seed: of the search.
        console: for progress.

    Returns:
        Trials without duplicates, the best first. An interrupt ends the search and keeps the finished trials.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    _compile(start, batches[0])
    first = _try(0, start, batches)
    try:
        settings = {name: start[name] for name in space}
        value = getattr(first, objective)
        study.add_trial(optuna.create_trial(params=settings, distributions=dict(space), value=value))
    except ValueError:
        pass  # the first trial is outside the search space, so the sampler cannot learn from it
    done = {start: first}
    with counting_bar(console, BEST) as progress:
        task = progress.add_task("tuning", total=count, completed=1, best=_percent(first, objective))
        try:
            for number in range(1, count):
                asked = study.ask(dict(space))
                setup = start.with_settings(asked.params)
                if setup not in done:
                    done[setup] = _try(number, setup, batches)
                study.tell(asked, getattr(done[setup], objective))
                best = max(done.values(), key=lambda trial: getattr(trial, objective))
                progress.update(task, advance=1, best=_percent(best, objective))
        except KeyboardInterrupt:
            if console is not None:
                console.print(f"stopped; {len(done)} different settings were tried")

    def rank(trial: Trial) -> tuple[float, ...]:
        values = (trial.setup[name] for name in space)
        work = (inf if value is None else value if type(value) is int else 0 for value in values)
        return (-getattr(trial, objective), *work, trial.number)

    return sorted(done.values(), key=rank)


def search_space(specifications: Sequence[str], setup: Setup, pruned: bool = False) -> dict[str, BaseDistribution]:
    """Read the search space from the user's specifications.

    Args:
        specifications: `name=low:high`, `name=low:high:log` or `name=a,b,c` each.
        setup: whose settings they are.
        pruned: whether the scores depend on `single_root`, as a pruner's candidates do.

    Raises:
        ValueError: a name, a range or a value is not one of the setup's.
        ModuleNotFoundError: the extra `tune` is not installed.
    """
    with importing_extra():
        import optuna  # noqa: F401
    space: dict[str, BaseDistribution]
    hints = _tunable(setup)
    if pruned:
        hints.pop("single_root", None)
    kind = type(setup.decoder).__name__
    known = ", ".join(f"{name}={_plain(setup[name])}" for name in hints)
    if not specifications:
        order = max((KINDS[kind].order for kind in setup.decoder.takes), default=1)
        idle = {*FIXED, *GAMMAS[order:]}
        space = {name: _default_range(name, hint, setup) for name, hint in hints.items() if name not in idle}
        if not space:
            raise ValueError(
                f"{kind} has no settings that are searched by default; name some with --search: {known or 'none'}"
            )
        return space
    space = {}
    for specification in specifications:
        name, equals, text = specification.partition("=")
        if pruned and name == "single_root":
            raise ValueError("--search single_root: the pruner's candidates depend on it; give it with --decoder")
        if not equals:
            raise ValueError(f"--search {specification}: write name=low:high, name=low:high:log or name=a,b,c")
        if name in GAMMAS and name not in hints:
            why = f"--ensemble.gamma has {len(setup.gamma)} numbers" if setup.gamma else "no --ensemble is given"
            raise ValueError(f"--search {name}: {why}")
        if name not in hints:
            raise ValueError(f"--search {name}: {kind} has no such setting; choose from {known or 'none'}")
        if name in space:
            raise ValueError(f"--search {name} is given twice")
        try:
            space[name] = _range(name, text, hints[name], setup) if ":" in text else _choice(name, text, setup)
        except ValueError as error:
            raise ValueError(f"--search {specification}: {error}") from None
    return space


def _default_range(name: str, hint: Any, setup: Setup) -> BaseDistribution:
    """Values to search where none are named: around the one that the setup has, within what the setting takes."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    number, value = _number(hint), setup[name]
    allowed = {item.name: item.metadata.get("range", ANY) for item in fields(setup.decoder)}.get(name, ANY)  # type: ignore[arg-type]
    if number is None:
        literals = next((get_args(kind) for kind in kinds_of(hint) if get_origin(kind) is Literal), (True, False))
        return CategoricalDistribution(literals)
    if value is None:
        others = (10, 30, 100) if number is int else (0.01, 0.1, 1.0, 10.0)
        return CategoricalDistribution([None, *(each for each in others if each in allowed)])
    around = sorted((value / 4, value * 4)) if value else (0, 4 if number is int else 1)
    low, high = (number(min(max(end, allowed.least), allowed.most)) for end in around)
    if number is int:
        return IntDistribution(int(low), int(high), log=low > 0)
    return FloatDistribution(low, high, log=low > 0)


def _range(name: str, text: str, hint: Any, setup: Setup) -> BaseDistribution:
    from optuna.distributions import FloatDistribution, IntDistribution

    number = _number(hint)
    if number is None:
        values = next((get_args(kind) for kind in kinds_of(hint) if get_origin(kind) is Literal), ("true", "false"))
        raise ValueError(f"{name} is not a number; list its values, as {name}={','.join(map(str, values))}")
    low_text, high_text, *scale = text.split(":")
    if scale not in ([], ["log"]):
        raise ValueError("give a range as low:high or low:high:log")
    try:
        low, high = number(low_text), number(high_text)
    except ValueError:
        what = "whole numbers" if number is int else "numbers"
        raise ValueError(f"{name} takes {what}, got {low_text} and {high_text}") from None
    if not (isfinite(low) and isfinite(high) and low < high):
        raise ValueError("the range is empty; both numbers must be finite and the first below the second")
    if scale and low <= 0:
        raise ValueError(f"a logarithm needs numbers above 0, got {low_text}")
    for end in (low, high):
        setup.with_settings({name: end})  # raises an error that names the wrong value
    log = bool(scale)
    if number is int:
        return IntDistribution(int(low), int(high), log=log)
    return FloatDistribution(low, high, log=log)


def _choice(name: str, text: str, setup: Setup) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution

    values = [setting_of(_tunable(setup)[name], word) for word in text.split(",")]
    for word, value in zip(text.split(","), values):
        if value is MISSING:
            raise ValueError(f"{name} does not take {word!r}")
        setup.with_settings({name: value})  # says what it does not take
    if len(set(values)) < max(2, len(values)):
        raise ValueError("nothing to search; give a range low:high, or several different values")
    return CategoricalDistribution(values)


def _tunable(setup: Setup) -> dict[str, Any]:
    """Types of those settings that are numbers, booleans or one of a few names."""
    decoder = setup.decoder
    if not is_dataclass(decoder):
        raise ValueError(f"{type(decoder).__name__} is not a dataclass of settings, so it cannot be tuned")
    hints = get_type_hints(type(decoder))
    found = {
        item.name: hints[item.name]
        for item in fields(decoder)
        if item.init
        and any(kind in (int, float, bool) or get_origin(kind) is Literal for kind in kinds_of(hints[item.name]))
    }
    return found | dict.fromkeys(GAMMAS[: len(setup.gamma)], float)


def _number(hint: Any) -> type[int] | type[float] | None:
    kinds = kinds_of(hint)
    return float if float in kinds else int if int in kinds else None


def _trees_of(path: str, sentences: Sequence[Sentence]) -> list[Sentence]:
    """Return the sentences with their trees in another file."""
    return list(valid(with_trees(sentences, conll_entries(path))))


def score_dev(
    scorer: BatchParser, sentences: list[Sentence], guides: list[Sentence] | None, console: Console
) -> list[DevBatch]:
    """Score sentences; in an ensemble, these with the trees of another parser."""
    started = time.perf_counter()
    gold = {sentence.line_number: sentence for sentence in sentences}
    batches = []
    with counting_bar(console, BEST) as progress:
        task = progress.add_task("scoring", total=len(sentences), best="")
        for scored in score_sentences(scorer, guides or sentences):
            chosen = [gold[sentence.line_number] for sentence in scored.sentences]
            guide = None if guides is None else heads_of(scored.sentences, -1)
            batches.append(DevBatch(chosen, scored.parts, heads_of(chosen, -2), guide))
            progress.update(task, advance=len(chosen))
    size = sum(
        value.nbytes
        for batch in batches
        for item in fields(batch.parts)
        if isinstance(value := getattr(batch.parts, item.name), np.ndarray)
    )
    seconds = time.perf_counter() - started
    console.print(f"scored {len(sentences):,} sentences in {seconds:.1f} s; the scores take {size / 1e6:,.1f} MB")
    return batches


def _compile(setup: Setup, batch: DevBatch) -> None:
    """Run everything once that trials are timed for."""
    parts = batch.parts.subset([0])
    if batch.guide is not None:
        parts = favour_trees(parts, batch.guide[:1, : parts.empty_trees().shape[1]], setup.gamma)
    parts.score(setup.decoder(parts).heads)


def _try(number: int, setup: Setup, batches: Sequence[DevBatch]) -> Trial:
    right = words = sentences = 0
    total = seconds = 0.0
    for batch in batches:
        started = time.perf_counter()
        parts = batch.parts if batch.guide is None else favour_trees(batch.parts, batch.guide, setup.gamma)
        with naming_sentences(batch.sentences):
            trees = setup.decoder(parts)
        seconds += time.perf_counter() - started
        right += int(np.count_nonzero(trees.heads == batch.gold))
        words += int(parts.lengths.sum())
        sentences += len(parts.lengths)
        total += float((trees.score if parts is batch.parts else batch.parts.score(trees.heads)).sum())
    return Trial(number, setup, 100 * right / words, total / sentences, seconds)


def heads_of(sentences: Sequence[Sentence], elsewhere: int) -> NDArray[np.int32]:
    """(B, N) heads of words; another number at the root and at padding."""
    heads = np.full((len(sentences), max(map(len, sentences)) + 1), elsewhere, dtype=np.int32)
    for b, sentence in enumerate(sentences):
        heads[b, 1 : len(sentence) + 1] = sentence.head
    return heads


def _file(stages: Sequence[Sequence[Trial]], options: Namespace, sentences: Sequence[Sentence]) -> str:
    """Format the best decoder for `arbora predict`, with comments that say where it comes from."""
    best, first = stages[-1][0], next(trial for trial in stages[0] if trial.number == 0)
    words = sum(map(len, sentences))
    decoder = first.setup.decoder
    given = ", ".join(f"{item.name}={_plain(getattr(decoder, item.name))}" for item in fields(decoder))  # type: ignore[arg-type]
    notes = [
        "Found by `arbora tune`; use it with `arbora predict --decoder THIS_FILE`.",
        f"model: {options.model}",
        f"development part: {options.dev}, {len(sentences)} sentences, {words} words",
        f"search: {', then '.join([' '.join(options.search or ['default ranges']), *(options.then or [])])}",
        f"objective {options.objective}, trials {options.trials}, seed {options.seed}",
        *(f"tried: {len(trials)} different settings; the best in trial {trials[0].number + 1}" for trials in stages),
        f"before: {given}",
    ]
    if best.setup.gamma:
        before, after = (",".join(map(_plain, trial.setup.gamma)) for trial in (first, best))
        notes.append(f"ensemble: --ensemble {options.ensemble} --ensemble.gamma {after}; {before} before")
    notes += [
        f"UAS: {first.uas:.2f} before, {best.uas:.2f} after",
        f"mean score of a tree: {first.score:.4f} before, {best.score:.4f} after",
    ]
    comments = "".join(f"# {' '.join(note.splitlines())}\n" for note in notes)
    decoder = best.setup.decoder
    entry = {"class_path": type(decoder).__name__, "init_args": vars(decoder)}
    return comments + str(yaml.safe_dump(entry, sort_keys=False))


def _table(trials: Sequence[Trial], space: Mapping[str, BaseDistribution], words: int) -> Table:
    table = plain_table("trial", *space, "UAS", "score", "words/s")
    for trial in [*trials[:SHOWN], *(trial for trial in trials[SHOWN:] if trial.number == 0)]:
        table.add_row(
            str(trial.number + 1) if trial.number else "as given",
            *(_plain(trial.setup[name]) for name in space),
            f"{trial.uas:.2f}",
            f"{trial.score:.4f}",
            f"{words / trial.seconds:,.0f}",
        )
    return table


def _plain(value: Any) -> str:
    """Format a setting as on the command line, with short floats."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _percent(trial: Trial, objective: Objective) -> str:
    return f"best UAS {trial.uas:.2f}" if objective == "uas" else f"best score {trial.score:.4f}"


def _grouped(arguments: Sequence[str]) -> Iterator[str]:
    """The arguments with `--search a=1:2 b=3:4` as two options, and `--then a=1:2 b=3:4` as one.

    So files may follow these options, and each `--then` remains a single stage.
    """
    option = ""
    found: list[str] = []
    for argument in [*arguments, ""]:
        name, equals, value = argument.partition("=")
        if (option and found and re.match(r"\w+=", argument)) or (option and not found and argument):
            found.append(argument)
            continue
        if option == "--search":
            yield from (f"--search={one}" for one in found) if found else [option]
        elif option:
            yield f"--then={' '.join(found)}" if found else option
        option, found = (name, [value] if equals else []) if name in ("--search", "--then") else ("", [])
        if not option and argument:
            yield argument
