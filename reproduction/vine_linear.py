"""Rush and Petrov (2012), "Vine pruning for efficient multi-pass dependency parsing", with linear features and the
filter loss as in the paper: tables 1 to 3, figures 1 and 6.

A projective parser of each order learns with MIRA: the first order from all arcs, others from those that are left by
marginals of a first-order model, which learns the likelihood of trees. Every way to prune is then learnt for it, while
its own weights stay as they are, so that set-ups of one order differ by their pruner only. Stages are tuned so that
each takes a gold arc from at most 20 % of the sentences of the development part; each set-up appears twice, the second
time tuned so that a stage takes at most 0.2 % of the gold arcs.

Time is that of everything from indexed sentences to trees: features, pruning, scores and decoding, as CPU time if there
is one thread. Speeds are relative to the unpruned parser of first order on the same sentences.

Differs from the paper: there is no dictionary of lengths, and parsers do not learn behind the cascade. Above first
order, a parser has not learnt to refuse arcs that marginals prune, so without pruning its accuracy says little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from arbora.data.batch import Batch, batch_of, cut, index_sentences
from arbora.data.conll import Sentence, read_conll
from arbora.model.linear.backend import LinearModel
from arbora.model.linear.mira import Learning
from arbora.model.linear.pruners import LinearCascade, StageName, train_pruner, tune_stage
from arbora.model.linear.storage import read_linear, to_bytes, write_linear
from arbora.reproduction import parsers, published
from arbora.reproduction.report import Table, cited, number, over
from arbora.reproduction.run import Paper, Run, Settings
from arbora.reproduction.vine import (
    BATCHES,
    DENSE_BATCHES,
    LENGTHS,
    NOPRUNE,
    ORDERS,
    PIECES,
    STRICTER,
    UNPRUNED,
    VINECASCADE,
    best_batches,
    exponent,
    figure_1,
    figure_6,
    pieces,
    stricter,
    summary,
)
from arbora.reproduction.vine_setups import (
    DENSE_TOKENS,
    MAX_TOKENS,
    NO_LIMIT,
    Decoded,
    figures,
    groups,
    now,
    time_in_turn,
)

MARGINALS = "marginals"

ERROR = 0.2
"""Share of the development sentences from which each stage may take a gold arc, as in the paper."""

PROJECTIVE = {"class_path": "Projective"}

MODELS = {
    "first": parsers.linear([], PROJECTIVE),
    "second": parsers.linear(["sibling"], PROJECTIVE),
    "third": parsers.linear(["grandparent", "sibling", "grand_sibling"], PROJECTIVE),
}

LEARNT: dict[str, dict[str, tuple[StageName, ...]]] = {
    "first": {"FIRSTONLY": ("first",), VINECASCADE: ("vine",)},
    "second": {"FIRSTONLY": ("first",), VINECASCADE: ("vine", "first")},
    "third": {
        "FIRSTONLY": ("first",),
        "FIRSTANDSECOND": ("first", "second"),
        VINECASCADE: ("vine", "first", "second"),
    },
}
"""Stages of the pruners that are learnt for the parser of an order."""


@dataclass
class Setup:
    """A parser with a pruner, and sentences to parse."""

    name: str
    model: LinearModel
    batches: list[tuple[list[int], Batch[Any]]]

    def seconds(self) -> float:
        """Time from sentences to trees."""
        decoder, started = self.model.decoder, now()
        for _, batch in self.batches:
            decoder(self.model.score(batch).parts(decoder))
        return now() - started

    def decoded(self) -> Iterator[Decoded]:
        """Parse all batches."""
        decoder = self.model.decoder
        for places, batch in self.batches:
            parts = self.model.score(batch).parts(decoder)
            yield places, np.asarray(batch.heads), parts, decoder(parts)

    def stages(self, repeats: int) -> dict[str, float]:
        """Seconds of each stage of a cascade, of scores and of decoding: medians of some runs.

        The time of a stage is that of a cascade that ends with it, less that of one that ends before it.
        """
        decoder, cascade = self.model.decoder, self.model.pruner
        assert isinstance(cascade, LinearCascade)
        runs: dict[str, list[float]] = {name: [] for name in (*cascade.stages, "scores", "decoding")}
        for _ in range(repeats + 1):
            found = dict.fromkeys(runs, 0.0)
            for _, batch in self.batches:
                before = 0.0
                for count, stage in enumerate(cascade.stages, 1):
                    started = now()
                    cascade.candidates(self.model.score(batch), decoder.single_root, until=count)
                    seconds = now() - started
                    found[stage] += seconds - before
                    before = seconds
                started = now()
                parts = self.model.score(batch).parts(decoder)
                scored = now()
                decoder(parts)
                found["decoding"] += now() - scored
                found["scores"] += scored - started - before
            for name, seconds in found.items():
                runs[name].append(seconds)
        return {name: max(0.0, median(seconds[1:])) for name, seconds in runs.items()}


def unpruned(model: LinearModel) -> LinearModel:
    """The same parser without its pruner."""
    found = LinearModel(model.vocabulary, model.settings, model.decoder, model.weights)
    found.pruner = None
    return found


def with_pruner(run: Run, seed: int, name: str, parser: Path, stages: tuple[StageName, ...]) -> Path:
    """The checkpoint of a trained parser with another pruner, which is learnt for it unless that is done.

    Args:
        run: has the sentences, and a folder for the checkpoint.
        seed: of learning.
        name: of the new parser.
        parser: the trained one.
        stages: of the pruner.
    """
    path = run.folder / "models" / f"{name}-{seed}" / "best.ckpt"
    if not path.exists():
        run.say(f"pruner of {name}, seed {seed}")
        trained = read_linear(parser).model
        settings = replace(trained.settings, stages=stages)
        model = LinearModel(trained.vocabulary, settings, trained.decoder, trained.weights)
        train, dev = (index_sentences(list(read_conll(run.file(part))), model.vocabulary) for part in ("train", "dev"))
        learning = Learning(pruner_epochs=run.settings.budget.pruner_epochs, error=ERROR, seed=seed)
        model.pruner = train_pruner(model, train, learning, dev)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_linear(path, to_bytes(model, {"trained": str(parser), "seed": seed}))
    return path


def by_both_criteria(run: Run, name: str, path: Path) -> dict[str, LinearModel]:
    """A parser with a cascade as it was tuned, and with one that is tuned by gold arcs."""
    one, other = (read_linear(path).model for _ in range(2))
    if not isinstance(other.pruner, LinearCascade):
        return {name: one}
    dev = index_sentences(list(read_conll(run.file("dev"))), other.vocabulary)
    for stage in range(len(other.pruner.stages)):
        other.pruner.alphas[stage] = tune_stage(other, other.pruner, stage, dev, STRICTER, "arcs")
    return {name: one, stricter(name): other}


def batches(
    model: LinearModel,
    sentences: Sequence[Sentence],
    longest: int = NO_LIMIT,
    dense: bool = False,
    max_tokens: int = MAX_TOKENS,
) -> list[tuple[list[int], Batch[Any]]]:
    """Sentences up to a length as batches, with their positions; small ones if no arc of higher order is pruned."""
    found = []
    for chosen, size in groups(sentences, longest, dense, max_tokens):
        for places in cut([len(sentences[i]) for i in chosen], size):
            positions = [chosen[place] for place in places]
            found.append((positions, batch_of([sentences[i] for i in positions], model.vocabulary)))
    return found


def measure(run: Run, seed: int, models: Mapping[str, Path]) -> dict[str, Any]:
    """Learn pruners, and time them."""
    found: dict[str, Any] = {}
    for order, parser in models.items():
        checkpoints = {} if order == "first" else {MARGINALS: parser}
        for name, stages in LEARNT[order].items():
            checkpoints[name] = with_pruner(run, seed, f"{order}-{name.lower()}", parser, stages)
        found[order] = run.step(f"setups-{order}", seed, compare, models, order, checkpoints)
        found[f"lengths-{order}"] = run.step(f"growth-{order}", seed, by_length, order, checkpoints[VINECASCADE])
    found["batches"] = run.step("batches", seed, by_batch, models, checkpoints[VINECASCADE])  # of third order
    return found


def compare(run: Run, models: Mapping[str, Path], order: str, checkpoints: Mapping[str, Path]) -> dict[str, Any]:
    """Tables 1 and 2 for an order."""
    dense = ORDERS[order] > 1
    longest = run.settings.longest if dense else NO_LIMIT
    limited = longest < max(map(len, run.test))
    with run.threads():
        first, dense_model = (unpruned(read_linear(models[name]).model) for name in ("first", order))
        setups = [Setup(NOPRUNE, dense_model, batches(dense_model, run.test, longest, dense))]
        for name, path in checkpoints.items():
            for row, model in by_both_criteria(run, name, path).items():
                setups.append(Setup(row, model, batches(model, run.test)))
        rows: dict[str, dict[str, Any]] = {setup.name: figures(setup.decoded(), run.test) for setup in setups}
        for setup in setups:
            most = longest if setup.name == NOPRUNE else NO_LIMIT
            baseline = Setup("", first, batches(first, run.test, most))
            seconds, baselines = [], []
            for _ in range(run.settings.budget.repeats):  # in turn
                baselines.append(baseline.seconds())
                seconds.append(setup.seconds())
            own = {"longest": longest if limited and setup.name == NOPRUNE else None}
            rows[setup.name] |= own | {"seconds": seconds, "baseline": baselines}
        cascades = [setup for setup in setups if setup.name.startswith(VINECASCADE)]
        stages = {setup.name: setup.stages(run.settings.budget.repeats) for setup in cascades}
        return {"setups": rows, "stages": stages}


def by_length(run: Run, order: str, parser: Path) -> dict[str, Any]:
    """Figure 6: milliseconds per sentence by its length, without pruning and with the cascade."""
    found: dict[str, Any] = {}
    with run.threads():
        models = by_both_criteria(run, VINECASCADE, parser)
        for name, its in {NOPRUNE: unpruned(models[VINECASCADE]), **models}.items():
            dense, points = ORDERS[order] > 1 and name == NOPRUNE, []
            for n in LENGTHS:
                several = pieces(run.test, DENSE_TOKENS if dense else PIECES, n)
                if several and not (dense and n > run.settings.longest):
                    setup = Setup(name, its, batches(its, several, dense=dense))
                    seconds = median([setup.seconds() for _ in range(run.settings.budget.repeats + 1)][1:])
                    milliseconds = 1000 * seconds / len(several)
                    points.append({"words": n, "sentences": len(several), "milliseconds": milliseconds})
            found[name] = {"points": points, "exponent": exponent(points)}
    return found


def by_batch(run: Run, models: Mapping[str, Path], cascade: Path) -> dict[str, Any]:
    """Seconds by the size of batches, of unpruned parsers and of third order with the cascade."""
    longest = run.settings.longest
    with run.threads():
        sides = {UNPRUNED[name]: unpruned(read_linear(models[name]).model) for name in ("first", "third")}
        sides |= by_both_criteria(run, VINECASCADE, cascade)
        timers: dict[str, dict[str, Callable[[], float]]] = {}
        for name, model in sides.items():
            dense, timers[name] = name == UNPRUNED["third"], {}
            for size in DENSE_BATCHES if dense else BATCHES:
                timers[name][str(size)] = Setup(name, model, batches(model, run.test, longest, dense, size)).seconds
        seconds = time_in_turn(timers, run.settings.budget.repeats)
    return {"seconds": seconds, "words": sum(n for n in map(len, run.test) if n <= longest), "longest": longest}


def tables(results: Sequence[dict[str, Any]], run: Run) -> list[Table]:
    """Tables 1 to 3, figures 1 and 6, and time by the size of batches."""
    what = "with features and scores"
    ones = [_table_1([result[order] for result in results], order, run.settings) for order in MODELS]
    threes = summary({Path(run.settings.treebank).name: results})
    figures_ = [figure_1(results, run), figure_6(results, what)]
    return [*ones, _table_2(results), *threes, *figures_, best_batches(results, what)]


def _table_1(found: Sequence[dict[str, Any]], order: str, settings: Settings) -> Table:
    paper = published.VINE_TABLE_1[ORDERS[order]]
    rows = []
    for name in found[0]["setups"]:
        entries = [result["setups"][name] for result in found]
        its = paper.get(name, {})
        seconds = [median(entry["seconds"]) for entry in entries]
        speeds = [median(entry["baseline"]) / s for entry, s in zip(entries, seconds)]
        cells = [number(speeds), cited(its.get("speed"))]
        cells.append(number([entry["words"] / s for entry, s in zip(entries, seconds)], 0))
        cells += [over(entries, "arcs_per_word"), over(entries, "efficiency", digits=1)]
        cells += [cited(its.get("efficiency"), 1), over(entries, "oracle_uas"), cited(its.get("oracle_uas"), 1)]
        cells += [over(entries, "oracle_uas_of_all_trees"), over(entries, "uas"), cited(its.get("uas"), 1)]
        longest = entries[0]["longest"]
        rows.append([name if longest is None else f"{name}, ≤ {longest} words", *cells])
    columns = ["", "speed", "(paper)", "words/s", "arcs per word", "PE", "(paper)"]
    columns += ["oracle", "(paper)", "oracle, all trees", "UAS", "(paper)"]
    notes = [
        "speed: relative to the unpruned linear model of first order on the same sentences, from indexed sentences to "
        "trees; words/s likewise",
        "PE: pruning efficiency, 100 (1 - |A| / n²); oracle: UAS of the projective tree among the arcs that are left "
        "with most gold arcs, below 100 without pruning where gold arcs cross",
        "marginals: those of a first-order model, behind which the parser learnt; without pruning, the UAS of higher "
        "orders says little, since the parser has not learnt to refuse arcs that marginals prune",
        published.VINE.note,
    ]
    return Table(f"Table 1: ways to prune, {order} order", columns, rows, notes)


def _table_2(results: Sequence[dict[str, Any]]) -> Table:
    names = {"vine": "vine", "first": "first", "second": "second"}
    names |= {"scores": "last pass, scores", "decoding": "last pass, decoding"}
    rows = []
    for order, name in product(MODELS, (VINECASCADE, stricter(VINECASCADE))):
        found = [result[order]["stages"][name] for result in results]
        shares = [{stage: 100 * s / sum(stages.values()) for stage, s in stages.items()} for stages in found]
        words = [result[order]["setups"][name]["words"] for result in results]
        rates = [words_ / sum(stages.values()) for words_, stages in zip(words, found)]
        rows.append([f"{order} order, {name}", *(over(shares, stage, digits=1) for stage in names), number(rates, 0)])
    notes = [
        "shares in % of the time from indexed sentences to trees; the vine has the features of words, too",
        f"the paper in words: {published.VINE_SECTION_6[1]}; the text at hand has no figures of its table 2",
    ]
    return Table("Table 2: time of each stage of the cascade", ["", *names.values(), "words/s"], rows, notes)


PAPER = Paper("vine", published.VINE, MODELS, measure, tables, summary)
