"""Zhang, Lei, Barzilay and Jaakkola (2014), "Greed is good if randomized: new inference for dependency parsing": tables
1 to 6 and figures 4 to 6.

- Table 1, separate heads and trees, compares a classifier of each word's head with a first-order parser that is trained
  with exact search. As networks, the former learns by cross-entropy and the latter by hinge; linear models learn both
  with MIRA.
- Table 2, local optima under arc scores, uses a first-order parser that is trained with hill-climbing. It keeps all
  arcs, as `arbora analyse optima --dense` does, and allows several root words as in the paper.
- Table 3, hill-climbing and dual decomposition, uses second-order parsers, one trained with either.
- Table 4 and figure 4 compare orders, each trained with hill-climbing, with kinds of parts as in the paper.
- Tables 5 and 6 and figures 5 and 6 use the full model with a single root, pruned to at most 10 heads per word.

Training with hill-climbing is that of the paper: with hinge loss only, with climbs from trees drawn by a first-order
distribution, until 300 climbs have found no better tree (`configs/hill_climbing_paper.yaml`). As in the paper, all
climbs start from random trees; by default, the first climb of `HillClimbing` starts from the best tree under arc
scores. UAS counts all words unless a column says otherwise.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arbora.cli import analyse
from arbora.decoders import MST, Decoder, HillClimbing, Parts
from arbora.decoders.dual.ad3 import AD3
from arbora.decoders.dual.subgradient import Subgradient
from arbora.decoders.hill_climbing.random_trees import LAWS, Starts, sample
from arbora.evaluation import comparison, trials
from arbora.evaluation.saved import ScoredTreebank
from arbora.model.inference.batch_parser import BatchParser
from arbora.model.inference.stream import score_sentences
from arbora.model.linear.mira import best_arcs
from arbora.model.loading import load_backend
from arbora.reproduction import parsers, published
from arbora.reproduction.report import NOTHING, Table, cited, number, over
from arbora.reproduction.run import Paper, Run, padded

Start = Literal["uniform", "first_order"]
STARTS: tuple[Start, ...] = ("uniform", "first_order")
NAMES = {"best": "the best tree by arcs, one climb", "uniform": "uniform trees", "first_order": "trees drawn by arcs"}
SHORT = 15
"""Words of the sentences that the paper calls short."""

OPTIMA_RESTARTS = 300
OPTIMA_LIMIT = 10_000
"""Limit for counting local optima, as in the paper's table."""

RESTARTS = (1, 2, 5, 10, 20, 50, 100, 200, 300, 1000, 3000)
SPEED_RESTARTS = (1, 3, 10, 30, 100, 300)
SPEED_PATIENCE = (300, 30)
DRAWN = 20
"""Number of random trees of a sentence for measuring their UAS."""

TOLERANCE = 1e-9
"""Smaller relative differences of scores count as rounding errors."""

SECOND_ORDER = ["grandparent", "sibling"]
MODELS = {
    "heads": parsers.first_order(),
    "exact": parsers.hinged([], {"class_path": "MST"}),
    "climbed": parsers.hinged([], parsers.CLIMBING),
    "second": parsers.hinged(SECOND_ORDER, parsers.CLIMBING),
    "dual": parsers.hinged(SECOND_ORDER, parsers.SUBGRADIENT),
    "third": parsers.hinged(parsers.THIRD_ORDER, parsers.CLIMBING),
    "full": parsers.hinged(parsers.ALL_KINDS, parsers.CLIMBING, parsers.TREE_FEATURES),
}
LINEAR = {
    "heads": parsers.linear([]) | {"learning": {"separate_heads": True}},
    "exact": parsers.linear([]),
    "climbed": parsers.linear([], parsers.CLIMBING),
    "second": parsers.linear(SECOND_ORDER, parsers.CLIMBING),
    "dual": parsers.linear(SECOND_ORDER, parsers.SUBGRADIENT),
    "third": parsers.linear(parsers.THIRD_ORDER, parsers.CLIMBING),
    "full": parsers.linear([*parsers.ALL_KINDS, *parsers.TREE_FEATURES], parsers.CLIMBING),
}


class Climbed(NamedTuple):
    """Results of climbing, (S,) each, in the order of the file."""

    score: NDArray[np.float64]
    right: NDArray[np.int64]
    restarts: NDArray[np.int64]


def measure(run: Run, seed: int, models: Mapping[str, Path]) -> dict[str, Any]:
    """Count optima, and climb."""
    return {
        "heads": run.step("heads", seed, heads, models["heads"], models["exact"]),
        "optima": run.step("optima-climbed", seed, optima, models["climbed"]),
        "orders": run.step("accuracy", seed, orders, models),
        "climbing": run.step("beside-dual-second", seed, beside_dual, models["second"]),
        "dual": run.step("beside-dual-dual", seed, beside_dual, models["dual"]),
        "starts": run.step("starts", seed, starts, models["full"]),
        "restarts": run.step("restarts", seed, restarts, models["full"]),
        "speed": run.step("speed-restarts", seed, speed, models["full"]),
    }


def optima(run: Run, model: Path) -> list[dict[str, Any]]:
    """Table 2: local optima under arc scores, and how often climbing finds the best tree."""
    climbs: dict[analyse.Start, HillClimbing] = {
        start: HillClimbing(restarts=OPTIMA_RESTARTS, start=start, best_first=False, single_root=False)
        for start in analyse.STARTS
    }
    backend = load_backend(model, device=run.settings.device)
    analyse.score_only_arcs(backend, dense=True, single_root=False)
    with run.threads():
        batches = score_sentences(BatchParser(backend, backend.decoder), run.test)
        measured = [entry for batch in batches for entry in analyse.measure(batch, climbs, limit=OPTIMA_LIMIT)]
    return [group._asdict() for group in analyse.summarise(measured)]


def paper_climbing(run: Run) -> HillClimbing:
    """Hill-climbing with the paper's settings."""
    return HillClimbing(patience=run.settings.budget.patience, start="first_order", best_first=False)


def orders(run: Run, models: Mapping[str, Path]) -> dict[str, dict[str, float]]:
    """Table 4 and figure 4: UAS by order, and of exact search at first order."""
    climbing = paper_climbing(run)
    rows: dict[str, tuple[Decoder, str]] = {
        "climbing, first order": (climbing, "climbed"),
        "exact, first order": (MST(), "exact"),
        "climbing, second order": (climbing, "second"),
        "climbing, third order": (climbing, "third"),
        "climbing, full": (climbing, "full"),
    }
    figures = {}
    with run.threads():
        for name, (decoder, model) in rows.items():
            scored = run.score(models[model])
            found = trials.decode(decoder, scored)
            right = comparison.Gold(scored).counts(found)[0]
            figures[name] = _accuracy(found, scored) | {
                group: 100 * float(right[chosen].sum() / scored.lengths[chosen].sum())
                for group, chosen in _groups(scored).items()
                if chosen.any()
            }
    return figures


def _groups(scored: ScoredTreebank) -> dict[str, NDArray[np.bool_]]:
    """(S,) sentences of each group by length."""
    return {"all": scored.lengths > 0, "short": scored.lengths <= SHORT, "long": scored.lengths > SHORT}


def heads(run: Run, classifier: Path, parser: Path) -> dict[str, float]:
    """Table 1: UAS of the best head of each word, chosen separately, and of best trees under arc scores."""
    scored = run.score(classifier)
    right = 0
    for parts, gold in zip(scored.batches, padded(comparison.Gold(scored).heads, scored)):
        right += int((parts.head[best_arcs(parts)] == gold[:, 1:][gold[:, 1:] >= 0]).sum())
    with run.threads():
        trees, exact = (_accuracy(trials.decode(MST(), one), one)["uas"] for one in (scored, run.score(parser)))
    return {"heads": 100 * right / scored.words, "their_trees": trees, "trees": exact}


def _accuracy(found: trials.Found, scored: ScoredTreebank) -> dict[str, float]:
    figures = comparison.Gold(scored).evaluation(found)
    return {"uas": figures["uas"], "without_punctuation": figures["without_punct_upos"]["uas"]}


def beside_dual(run: Run, model: Path) -> dict[str, dict[str, float | None]]:
    """Table 3: which of dual decomposition and hill-climbing finds the better tree."""
    scored = run.score(model)
    rows = {}
    with run.threads():
        other = trials.decode(paper_climbing(run), scored).score
        for name, decoder in {"subgradient": Subgradient(), "AD3": AD3()}.items():
            found = trials.decode(decoder, scored)
            same = trials.SAME * (1 + np.abs(other))
            rows[name] = {
                "certified": _share(found.certified),
                "above": _share(found.score > other + same),
                "equal": _share(np.abs(found.score - other) <= same),
                "below": _share(found.score < other - same),
                "equal_if_certified": _share((np.abs(found.score - other) <= same)[found.certified]),
            }
    return rows


def climb(decoder: HillClimbing, scored: ScoredTreebank) -> Climbed:
    """Decode all sentences."""
    found = trials.decode(decoder, scored)
    if found.failures:
        failure = found.failures[0]
        raise ValueError(f"{scored.sentences[failure.sentence].where()}: {failure.reason}")
    return Climbed(found.score, comparison.Gold(scored).counts(found)[0], found.counters["restarts"])


def converge(decoder: HillClimbing, scored: ScoredTreebank, counts: Sequence[int]) -> dict[int, Climbed]:
    """Return the results after each number of restarts, the largest last.

    The first restarts of a long run are those of a short one, so a sentence that has the score of the longest run is
    not decoded again.
    """
    last = climb(replace(decoder, restarts=counts[-1]), scored)
    found: dict[int, Climbed] = {}
    gold = padded(comparison.Gold(scored).heads, scored)
    unsettled = np.ones(len(last.score), dtype=bool)
    for count in counts[:-1]:
        now = Climbed(last.score.copy(), last.right.copy(), np.full(len(unsettled), count))
        for places, parts, trees in zip(scored.places(), scored.batches, gold):
            chosen = np.flatnonzero(unsettled[places])
            if len(chosen):
                some = replace(decoder, restarts=count)(parts.subset(chosen))
                now.score[places[chosen]] = some.score
                right = (some.heads == trees[chosen, : some.heads.shape[1]])[:, 1:] & (some.heads[:, 1:] >= 0)
                now.right[places[chosen]] = right.sum(1)
        unsettled = now.score < last.score
        found[count] = now
    return found | {counts[-1]: last}


def starting_uas(start: str, scored: ScoredTreebank) -> float:
    """UAS of the trees with a single root from which climbs start, in percent."""
    right = 0.0
    for parts, gold in zip(scored.batches, padded(comparison.Gold(scored).heads, scored)):
        best = MST()(parts).heads
        word = gold >= 0
        if start == "best":
            right += ((best == gold) & word).sum()
            continue
        for b in range(len(best)):
            trees = np.full((DRAWN, best.shape[1]), -1, dtype=np.int32)
            starts = Starts(LAWS[start], False, 1.0, 0, True)
            sample(parts.layout, best, b, starts, trees)
            right += ((trees == gold[b]) & word[b]).sum() / DRAWN
    return 100 * right / scored.words


def one_tree(parts: Parts) -> Iterator[bool]:
    """Return whether the arcs form exactly one tree with a single root, by a determinant (Koo et al., 2007)."""
    for b, n in enumerate(parts.lengths):
        arcs = slice(*parts.sentence_offsets[b : b + 2])
        there = np.zeros((n + 1, n + 1))
        there[parts.modifier[arcs], parts.head[arcs]] = 1
        words = there[1:, 1:]
        laplacian = np.diag(words.sum(1)) - words
        laplacian[:, 0] = there[1:, 0]
        yield bool(np.linalg.slogdet(laplacian)[1] < np.log(1.5))


def starts(run: Run, model: Path) -> dict[str, dict[str, float]]:
    """Table 5: UAS of starting trees, and of the results from them."""
    scored = run.score(model)
    rows = {}
    with run.threads():
        for start in ("best", *STARTS):
            decoder = HillClimbing(patience=run.settings.budget.patience, start=start, best_first=False)  # type: ignore[arg-type]
            found = trials.decode(decoder, scored)
            initial = starting_uas(start, scored)
            mean = float(found.counters["restarts"].mean())
            rows[start] = {**_accuracy(found, scored), "initial_uas": initial, "restarts": mean}
    return rows


def restarts(run: Run, model: Path) -> dict[str, Any]:
    """Table 6 and figure 5: results by number of restarts."""
    scored = run.score(model)
    most = run.settings.budget.restarts
    within = max(1, most // 10)
    counts = sorted({*(count for count in RESTARTS if count < most), within, most})
    trivial = np.zeros(len(scored.sentences), dtype=bool)
    for parts, places in zip(scored.batches, scored.places()):
        trivial[places] = list(one_tree(parts))
    with run.threads():
        curves = {start: converge(HillClimbing(start=start, best_first=False), scored, counts) for start in STARTS}
    best = np.max([found.score for curve in curves.values() for found in curve.values()], axis=0)
    groups = _groups(scored)
    result: dict[str, Any] = {"most": most, "within": within, "one_tree": 100 * float(trivial.mean())}
    for start, curve in curves.items():
        same = _reached(curve[within].score, curve[most].score)
        result[start] = {
            "within": {name: _share(same[chosen]) for name, chosen in groups.items()},
            "within_of_several": {name: _share(same[chosen & ~trivial]) for name, chosen in groups.items()},
            "curve": [
                {
                    "restarts": count,
                    "best": _share(_reached(found.score, best)),
                    "uas": 100 * int(found.right.sum()) / scored.words,
                    **{name: _relative(found.score[chosen], best[chosen]) for name, chosen in groups.items()},
                }
                for count, found in curve.items()
            ],
        }
    return result


def _reached(found: NDArray[np.float64], best: NDArray[np.float64]) -> NDArray[np.bool_]:
    return found >= best - TOLERANCE * (1 + np.abs(best))


def _share(values: NDArray[np.bool_]) -> float | None:
    return 100 * float(values.mean()) if len(values) else None


def _relative(found: NDArray[np.float64], best: NDArray[np.float64]) -> float | None:
    """Relative to the sum of the best scores: single ones may be near 0."""
    return 100 * float(found.sum() / best.sum()) if len(best) else None


def speed(run: Run, model: Path) -> list[dict[str, Any]]:
    """Figure 6: accuracy and speed by number of restarts, and by patience."""
    scored = run.score(model)
    rows: list[dict[str, Any]] = []
    settings = [("best", "1 climb", HillClimbing(start="best"))]
    for start in STARTS:
        of_start = HillClimbing(start=start, best_first=False)
        settings += [(start, f"{n} climb{'s' * (n > 1)}", replace(of_start, restarts=n)) for n in SPEED_RESTARTS]
        settings += [(start, f"patience {k}", replace(of_start, patience=k)) for k in SPEED_PATIENCE]
    with run.threads():
        for name, stop, decoder in settings:
            uas = 100 * int(climb(decoder, scored).right.sum()) / scored.words
            times = []
            for _ in range(run.settings.budget.repeats):
                started = time.perf_counter()
                for parts in scored.batches:
                    decoder(parts)
                times.append(time.perf_counter() - started)
            rate = scored.words / statistics.median(times)
            rows.append({"start": name, "stop": stop, "uas": uas, "words_per_second": rate})
    return rows


def tables(results: Sequence[dict[str, Any]], run: Run) -> list[Table]:
    """Tables 1 to 6, figures 4 to 6."""
    patience = run.settings.budget.patience
    return [
        _table_1([result["heads"] for result in results], run.settings.scores == "linear"),
        _table_2([result["optima"] for result in results]),
        *(_table_3([result[trained] for result in results], trained, patience) for trained in ("climbing", "dual")),
        _table_4([result["orders"] for result in results]),
        _figure_4([result["orders"] for result in results]),
        _table_5([result["starts"] for result in results], patience),
        _table_6([result["restarts"] for result in results]),
        *_figure_5([result["restarts"] for result in results]),
        _figure_6([result["speed"] for result in results]),
    ]


def _table_1(results: Sequence[Any], linear: bool) -> Table:
    rows = [["ours", *(over(results, key) for key in ("heads", "trees", "their_trees"))]]
    for language, figures in published.HILL_CLIMBING_TABLE_1.items():
        rows.append([f"{language} (paper)", *(cited(figure, 1) for figure in figures), NOTHING])
    ways = "both with MIRA" if linear else "the classifier by cross-entropy, the parser by hinge"
    columns = ["", "UAS of separate heads", "UAS of trees", "trees of the classifier"]
    notes = [
        f"a classifier and a parser, each trained for what it predicts; ours: {ways}",
        published.HILL_CLIMBING.note,
    ]
    return Table("Table 1: separate heads, and trees", columns, rows, notes)


def _table_2(results: Sequence[Any]) -> Table:
    by_length = [{group["length"]: group for group in groups} for groups in results]
    every = [groups["all"] for groups in by_length]

    def found(length: str) -> str:
        groups = [groups[length] for groups in by_length if length in groups]
        return over(groups, "found", "uniform", digits=1)

    row = ["ours", over(every, "mean_length", digits=1)]
    row += [_optima(group["optima"][p] for group in every) for p in ("50%", "70%", "90%", "99%")]
    rows = [[*row, found(f"1-{SHORT}"), found(f"{SHORT + 1}+")]]
    for language, entry in published.HILL_CLIMBING_TABLE_2.items():
        cells = [f"{language} (paper)", f"{entry['length']:.1f}", *entry["optima"], "–"]
        rows.append([*cells, f"{entry['short']:.1f}", f"{entry['long']:.1f}"])
    columns = ["", "mean length", "optima at 50 %", "70 %", "90 %", "99 %"]
    columns += [f"best tree found, ≤ {SHORT} words, %", f"> {SHORT} words, %"]
    notes = [
        f"trained with hill-climbing; all arcs, several roots, {OPTIMA_RESTARTS} uniform restarts; counting stops at "
        f"{OPTIMA_LIMIT:,}",
        published.HILL_CLIMBING.note,
    ]
    return Table("Table 2: local optima of the first-order model", columns, rows, notes)


def _optima(counts: Iterable[int]) -> str:
    """Numbers of optima of several runs: their mean and range, but no mean where counting stopped at the limit."""
    found = sorted(counts)
    if found[-1] < OPTIMA_LIMIT:
        return number(found, 0)
    ends = dict.fromkeys(analyse.capped(count, OPTIMA_LIMIT) for count in (found[0], found[-1]))
    return " to ".join(ends)


def _table_3(results: Sequence[Any], trained: str, patience: int) -> Table:
    names = ("certified", "above", "equal", "below", "equal_if_certified")
    rows = [[f"ours, {method}", *(over(results, method, name) for name in names)] for method in results[0]]
    for language, figures in published.HILL_CLIMBING_TABLE_3[trained].items():
        cells = [cited(figure, 1) for figure in figures]
        rows.append([f"{language} (paper)", *cells, published.HILL_CLIMBING_CERTIFIED])
    columns = ["", "certified, %", "scores above climbing, %", "the same, %", "below, %", "the same if certified, %"]
    notes = [
        f"sentences of the second-order model; climbing from trees drawn by arcs, patience {patience}",
        f"{published.HILL_CLIMBING.note}; dual decomposition by subgradients",
    ]
    way = {"climbing": "hill-climbing", "dual": "dual decomposition (subgradient)"}[trained]
    return Table(f"Table 3: dual decomposition and hill-climbing, trained with {way}", columns, rows, notes)


def _table_4(results: Sequence[Any]) -> Table:
    rows = []
    for name in results[0]:
        cells = [over(results, name, kind) for kind in ("uas", "without_punctuation")]
        paper = published.HILL_CLIMBING_TABLE_4.get(name, {})
        rows.append([name, *cells, cited(paper.get("Average")), cited(paper.get("Turkish"))])
    notes = [
        f"{published.HILL_CLIMBING.note}; means over 14 languages; its full model without tensor: 89.24, Turkish 76.13",
        "each row is trained with the search that it names; third order has the kinds of parts of TurboParser",
    ]
    columns = ["", "UAS", "UAS without punctuation", "(paper)", "Turkish (paper)"]
    return Table("Table 4: accuracy by order", columns, rows, notes)


def _figure_4(results: Sequence[Any]) -> Table:
    rows = []
    for name in ("climbing, second order", "climbing, third order", "climbing, full"):
        row = [name]
        for group in ("short", "long", "all"):
            pairs = [(result[name].get(group), result["climbing, first order"].get(group)) for result in results]
            row.append(number(more - first if first is not None else None for more, first in pairs))
        rows.append(row)
    notes = ["UAS more than that of climbing at first order; the paper has only a graph, of the full model"]
    return Table("Figure 4: gain by length", ["", f"≤ {SHORT} words", f"> {SHORT} words", "all"], rows, notes)


def _table_5(results: Sequence[Any], patience: int) -> Table:
    rows = []
    for start, name in NAMES.items():
        cells = [over(results, start, kind) for kind in ("initial_uas", "uas")]
        cells.append(over(results, start, "restarts", digits=0))
        rows.append([name, *cells])
        for entry in published.HILL_CLIMBING_TABLE_5.values():
            rows[-1].append(f"{entry[start][1]:.1f} / {entry[start][0]:.1f}")
    columns = ["climbs from", "UAS of the starts", "UAS", "restarts"]
    columns += [f"{language} (paper)" for language in published.HILL_CLIMBING_TABLE_5]
    notes = [
        f"full model, patience {patience}",
        f"paper: UAS of the starts / UAS, patience 300; {published.HILL_CLIMBING.data}",
    ]
    return Table("Table 5: where climbs start", columns, rows, notes)


def _table_6(results: Sequence[Any]) -> Table:
    rows = []
    for start in STARTS:
        for kind, what in (("within", "all sentences"), ("within_of_several", "with several trees")):
            cells = [over(results, start, kind, g) for g in ("short", "long")]
            rows.append([f"ours, {NAMES[start]}, {what}", *cells])
    for language, figures in published.HILL_CLIMBING_TABLE_6.items():
        rows.append([f"{language} (paper)", *map(cited, figures)])
    most, within = results[0]["most"], results[0]["within"]
    notes = [
        f"full model; candidate arcs form exactly one tree in {over(results, 'one_tree', digits=1)} % of the sentences",
        f"{published.HILL_CLIMBING.note}; within 300 of 3,000",
    ]
    title = f"Table 6: sentences (%) whose best tree of {most:,} restarts is found within {within:,}"
    return Table(title, ["", f"≤ {SHORT} words", f"> {SHORT} words"], rows, notes)


def _figure_5(results: Sequence[Any]) -> Iterator[Table]:
    for start in STARTS:
        curves = [result[start]["curve"] for result in results]
        rows = []
        for i, point in enumerate(curves[0]):
            cells = [over(curves, i, g, digits=4) for g in ("short", "long", "all")]
            cells += [over(curves, i, k) for k in ("best", "uas")]
            rows.append([f"{point['restarts']:,}", *cells])
        columns = ["restarts", f"score, ≤ {SHORT} words, %", f"> {SHORT} words, %", "all, %", "best tree, %", "UAS"]
        notes = ["full model; scores relative to the best that any of these runs found; the paper has only a graph"]
        yield Table(f"Figure 5: convergence, climbs from {NAMES[start]}", columns, rows, notes)


def _figure_6(results: Sequence[Any]) -> Table:
    rows = []
    for i, row in enumerate(results[0]):
        rates = [result[i]["words_per_second"] for result in results]
        uas = over(results, i, "uas")
        rows.append(
            [NAMES[row["start"]], row["stop"], uas, number(rates, 0), number([1e6 / rate for rate in rates], 1)]
        )
    columns = ["climbs from", "until", "UAS", "words/s, decoding", "microseconds per word"]
    return Table("Figure 6: accuracy and speed", columns, rows, ["full model; the paper has only a graph"])


PAPER = Paper("hill-climbing", published.HILL_CLIMBING, MODELS, measure, tables)
LINEAR_PAPER = replace(PAPER, models=LINEAR)
