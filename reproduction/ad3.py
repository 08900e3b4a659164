"""Martins, Almeida and Smith (2013), "Turning on the Turbo: fast third-order non-projective Turbo parsers": tables 2
and 3, figure 2, and how often solutions are integral.

Parsers of first, second and third order, and of second order with arbitrary siblings and head bigrams, each with its
own training. The third order is trained twice: as quickly as possible, and through AD3 with fractional solutions as in
the paper. On the scores of each parser, AD3 is compared with AD3 on the plain relaxation (all arcs kept), with AD3 as
published (rho fixed at 0.05 besides), and with branch and bound, which proves the best tree within a second per
sentence. The subgradient method solves the plain relaxation too; its step is tuned on the development part, or the most
favourable one for each sentence as in figure 2 of the paper. Table 1 is theory only; instead, `factors` measures what
each kind of part costs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arbora.decoders import MST, Decoder
from arbora.decoders.dual.ad3 import AD3
from arbora.decoders.dual.branch_and_bound import BranchAndBound
from arbora.decoders.dual.subgradient import Subgradient
from arbora.evaluation import comparison, trials
from arbora.evaluation.saved import ScoredTreebank
from arbora.evaluation.trials import Found, Times, Variant
from arbora.reproduction import parsers, published
from arbora.reproduction.report import NOTHING, Table, cited, number, over
from arbora.reproduction.run import Paper, Run

MODELS = {
    "first": parsers.first_order(),
    "second": parsers.higher_order(["grandparent", "sibling"]),
    "second_all": parsers.higher_order(["grandparent", "sibling", "any_sibling", "head_bigram"]),
    "third": parsers.higher_order(parsers.THIRD_ORDER),
    "relaxed": parsers.higher_order(parsers.THIRD_ORDER) | {"training_decoder": parsers.RELAXATION},
}

LINEAR = {
    "first": parsers.linear([]),
    "second": parsers.linear(["grandparent", "sibling"]),
    "second_all": parsers.linear(["grandparent", "sibling", "any_sibling", "head_bigram"]),
    "third": parsers.linear(parsers.THIRD_ORDER),
    "relaxed": parsers.linear(parsers.THIRD_ORDER, parsers.RELAXATION),
}

NAMES = {
    "first": "first order",
    "second": "second order",
    "second_all": "second order, + ASIB, + HB",
    "third": "third order",
    "relaxed": "learnt from fractional solutions, third order",
}

STEPS = (None, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""First steps of the subgradient method, in the unit of the scores; None for its default."""

KEPT, AS_PUBLISHED, EXACT = "AD3, all arcs kept", "AD3 as published", "branch and bound"
TUNED, BEST_STEP = "subgradient, tuned step", "subgradient, best steps"
DECODERS = {
    "AD3": AD3(),
    KEPT: AD3(drop_arcs=False),
    AS_PUBLISHED: AD3(rho=0.05, adaptive=False, drop_arcs=False),
    EXACT: BranchAndBound(seconds=1.0),
}
METHODS = ("AD3", KEPT, AS_PUBLISHED, TUNED, BEST_STEP, EXACT)

FACTORS = {
    "arcs": [],
    "+ grandparents, siblings": parsers.THIRD_ORDER[:2],
    "+ arbitrary siblings (ASIB)": parsers.THIRD_ORDER[:3],
    "+ head bigrams (HB)": parsers.THIRD_ORDER[:4],
    "+ grand-siblings": parsers.THIRD_ORDER[:5],
    "+ tri-siblings": parsers.THIRD_ORDER,
}
"""Kinds of parts, each row with those of the rows before."""


def measure(run: Run, seed: int, models: Mapping[str, Path]) -> dict[str, Any]:
    """Decode with each method on the scores of each parser."""
    found = {}
    for name in MODELS:
        step = None if name == "first" else run.step(f"step-{name}", seed, tune, models[name])["best"]
        found[name] = run.step(f"methods-{name}", seed, compare, models[name], name, step)
    return found | {"factors": run.step("factors", seed, factors, models["third"])}


def tune(run: Run, model: Path) -> dict[str, Any]:
    """Choose the step of the subgradient method with the fewest iterations on the development part."""
    scored = run.score(model, "dev")
    with run.threads():
        found = [trials.decode(Subgradient(step=step), scored) for step in STEPS]
    iterations = [float(one.counters["iterations"].mean()) for one in found]
    return {"steps": STEPS, "iterations": iterations, "best": STEPS[int(np.argmin(iterations))]}


def compare(run: Run, model: Path, order: str, step: float | None) -> dict[str, Any]:
    """Return figures of `arbora compare` for the methods on a parser's scores, and figures that it does not have.

    Args:
        run: the reproduction.
        model: the parser.
        order: its name in `MODELS`.
        step: of the subgradient method, tuned.
    """
    scored = run.score(model)
    decoders: dict[str, Decoder] = {"MST": MST()} if order == "first" else dict(DECODERS)
    steps = [] if order == "first" else [Variant(f"subgradient, {step}", Subgradient(step=step)) for step in STEPS]
    variants = [*(Variant(name, decoder) for name, decoder in decoders.items()), *steps]
    clock = time.process_time if run.settings.threads == 1 else time.perf_counter
    with run.threads():
        found = [trials.decode(variant.decoder, scored) for variant in variants]
        times = trials.measure(variants, found, scored, run.settings.budget.repeats, clock=clock)
    if steps:
        first, tuned = len(decoders), len(decoders) + STEPS.index(step)
        best = favourable(found[first:], times[first:], scored)
        variants = [*variants[:first], replace(variants[tuned], name=TUNED), Variant(BEST_STEP, Subgradient())]
        found, times = [*found[:first], found[tuned], best[0]], [*times[:first], times[tuned], best[1]]
    figures = comparison.report(variants, found, times, scored)
    score = np.fmax.reduce([one.score for one in found])
    entries = {}
    for entry, one, timed in zip(figures["decoders"], found, times):
        iterations = one.counters.get("iterations")
        every = {"iterations": entry["counters"].get("iterations"), "certified": entry["search"]["certified"]}
        every |= {"mean_ms": 1000 * float(np.nanmean(timed.alone)), "mean_length": float(scored.lengths.mean())}
        entry["by_length"].append(every)
        entries[entry["name"]] = entry | {
            "median_iterations": None if iterations is None else float(np.median(iterations)),
            "score": 100 * float(np.nansum(one.score) / score.sum()),
        }
    lengths = [*figures["lengths"], {"name": "all", "sentences": len(scored.sentences)}]
    return {"decoders": entries, "lengths": lengths, "warnings": figures["warnings"]}


def favourable(found: Sequence[Found], times: Sequence[Times], scored: ScoredTreebank) -> tuple[Found, Times]:
    """Return results and times of the step that proves each sentence soonest, or else leaves the smallest gap."""

    def every(name: str) -> NDArray[Any]:
        return np.array([getattr(one, name) for one in found])

    iterations = np.array([one.counters["iterations"] for one in found])
    certified, gap = every("certified"), every("bound") - every("score")
    best = np.lexsort((gap, np.where(certified, iterations, 0), ~certified), axis=0)[0]
    sentence, word = (best, np.arange(len(best))), (np.repeat(best, scored.lengths), np.arange(scored.words))
    return Found(
        every("heads")[word],
        every("label")[word],
        every("score")[sentence],
        every("bound")[sentence],
        certified[sentence],
        {"iterations": iterations[sentence]},
    ), Times([], scored.words, np.array([one.alone for one in times])[sentence], None)


def factors(run: Run, model: Path) -> dict[str, dict[str, Any]]:
    """Decode by more and more kinds of parts of a third-order parser, all arcs kept."""
    scored = run.score(model)
    rows = {}
    for name, kinds in FACTORS.items():
        some = replace(scored, batches=[parts.only(*kinds) for parts in scored.batches])
        variant = Variant(name, DECODERS[KEPT])
        with run.threads():
            found = trials.decode(variant.decoder, some)
            times = trials.measure([variant], [found], some, run.settings.budget.repeats)[0]
        rows[name] = {
            "parts": sum(len(getattr(parts, kind)) for parts in some.batches for kind in kinds) / some.words,
            "certified": 100 * float(found.certified.mean()),
            "iterations": float(found.counters["iterations"].mean()),
            "microseconds": 1e6 * float(np.median(times.total)) / some.words,
        }
    return rows


def tables(results: Sequence[dict[str, Any]], run: Run) -> list[Table]:
    """Tables 2 and 3, what kinds of parts cost, certificates, and figure 2."""
    made = [_table_2(results), _table_3(results), _factors([result["factors"] for result in results])]
    return [*made, _certificates(results), _speed_by_length(results), *_figure_2(results)]


def _main(result: dict[str, Any], order: str) -> dict[str, Any]:
    entry: dict[str, Any] = result[order]["decoders"]["MST" if order == "first" else "AD3"]
    return entry


def _all(entry: dict[str, Any]) -> float:
    return float(entry["speed"]["with_scoring"])


def _table_2(results: Sequence[dict[str, Any]]) -> Table:
    rows = []
    paper = published.AD3_TABLE_2 | {"relaxed": published.AD3_TABLE_2["third"]}
    for order, name in NAMES.items():
        entries, first = [_main(result, order) for result in results], [_main(result, "first") for result in results]
        slower = [_all(one) / _all(entry) for one, entry in zip(first, entries)]
        rows.append(
            [
                name,
                over(entries, "accuracy", "uas"),
                over(entries, "accuracy", "without_punct_upos", "uas"),
                cited(paper[order]["uas"]),
                over(entries, "speed", "words_per_second", "median", digits=0),
                number([_all(entry) for entry in entries], 0),
                cited(paper[order]["words_per_second"], 0),
                number(slower),
                cited(paper["first"]["words_per_second"] / paper[order]["words_per_second"]),
            ]
        )
    columns = ["", "UAS", "UAS without punctuation", "(paper)", "words/s, decoding", "words/s, all", "(paper)"]
    columns += ["times the time of first order", "(paper)"]
    notes = [
        "MST at first order, AD3 above; times include encoding, scoring, pruning and decoding",
        "all orders of the paper are learnt from fractional solutions",
        published.AD3.note,
    ]
    return Table("Table 2: accuracy and speed by order", columns, rows, notes)


def _table_3(results: Sequence[dict[str, Any]]) -> Table:
    orders = ("first", "second", "third")
    row = ["ours"]
    for order in orders:
        entries = [_main(result, order) for result in results]
        row += [over(entries, "accuracy", "without_punct_upos", "uas"), number([_all(entry) for entry in entries], 0)]
    rows = [row]
    for language, figures in published.AD3_TABLE_3.items():
        cells = [text for order in orders for text in (cited(figures[order][0]), cited(figures[order][1], 0))]
        rows.append([f"{language} (paper)", *cells])
    columns = ["", *(text for order in orders for text in (f"{order} order, UAS", "words/s"))]
    notes = ["UAS without punctuation; words per second of all", "paper: CoNLL 2006 and 2008; " + published.AD3.machine]
    return Table("Table 3: other treebanks", columns, rows, notes)


def _factors(results: Sequence[Any]) -> Table:
    keys = {"parts": 1, "certified": 2, "iterations": 1, "microseconds": 1}
    rows = [[name, *(over(results, name, key, digits=digits) for key, digits in keys.items())] for name in FACTORS]
    columns = ["", "parts per word", "certified, %", "iterations", "microseconds per word"]
    notes = ["scores of the third-order parser, of which each row takes more kinds of parts; AD3, all arcs kept"]
    return Table("Factors: what kinds of parts cost", columns, rows, [*notes, "table 1 of the paper is theory"])


def _certificates(results: Sequence[dict[str, Any]]) -> Table:
    rows = []
    for order, name in list(NAMES.items())[1:]:
        for method in METHODS:
            entries = [result[order]["decoders"][method] for result in results]
            rows.append(
                [
                    f"{name}, {method}",
                    over(entries, "search", "certified"),
                    over(entries, "search", "integral"),
                    f"≈ {published.AD3_INTEGRAL:.0f}" if method == KEPT else NOTHING,
                    over(entries, "search", "open_gap", digits=4),
                    over(entries, "counters", "iterations", digits=1),
                    over(entries, "median_iterations", digits=0),
                    over(entries, "score", digits=4),
                    over(entries, "accuracy", "uas"),
                    over(entries, "speed", "words_per_second", "median", digits=0),
                ]
            )
    columns = ["", "certified, %", "integral, %", "(paper)", "open", "iterations", "median", "score, %", "UAS"]
    columns.append("words/s, decoding")
    tuned = ", ".join(f"{name} {_step(results, name)}" for name in list(NAMES)[1:])
    notes = [
        "certified: sentences whose tree is proved to be the best; integral: the relaxed solution is a tree; open: "
        "mean distance of bound and score in the rest; score: relative to the best tree of all methods",
        "all arcs kept: the plain relaxation, which the subgradient method solves too; as published: rho fixed at 0.05 "
        "besides; AD3 and branch and bound drop arcs that are in no better tree",
        f"tuned step: that with the fewest iterations on the development part: {tuned}",
        f"best steps: for each sentence the default step or one of {', '.join(f'{step:g}' for step in STEPS if step)}",
        "paper: section 4, Penn Treebank, no order named",
    ]
    return Table("Certificates, and AD3 and the subgradient method", columns, rows, notes)


def _step(results: Sequence[dict[str, Any]], order: str) -> str:
    steps = [result[order]["decoders"][TUNED]["settings"]["step"] for result in results]
    return " and ".join(dict.fromkeys("default" if step is None else f"{step:g}" for step in steps))


def _groups(results: Sequence[dict[str, Any]], order: str, method: str, i: int) -> list[dict[str, Any]]:
    """Figures of a group of sentences of each run; none for a group without trees."""
    return [result[order]["decoders"][method]["by_length"][i] or {} for result in results]


def _speed_by_length(results: Sequence[dict[str, Any]]) -> Table:
    rows = []
    for i, group in enumerate(results[0]["first"]["lengths"]):
        row = [group["name"], f"{group['sentences']:,}"]
        for order in NAMES:
            groups = _groups(results, order, "MST" if order == "first" else "AD3", i)
            row.append(number((1000 * one["mean_length"] / one["mean_ms"] if one else None for one in groups), 0))
        rows.append(row)
    notes = [
        "words per second of decoding only, sentences one at a time, by CPU time if on one thread",
        "MST at first order, AD3 above",
    ]
    return Table("Speed by length", ["words", "sentences", *NAMES.values()], rows, notes)


def _figure_2(results: Sequence[dict[str, Any]]) -> Iterator[Table]:
    methods = (KEPT, TUNED, BEST_STEP)
    for order, name in list(NAMES.items())[1:]:
        rows = []
        for i, group in enumerate(results[0][order]["lengths"]):
            times = {method: _groups(results, order, method, i) for method in ("AD3", *methods)}
            row = [group["name"], f"{group['sentences']:,}"]
            row += [over(groups, "mean_ms", digits=3) for groups in times.values()]
            for method in (TUNED, BEST_STEP):
                pairs = zip(times[method], times[KEPT])
                row.append(
                    number([one["mean_ms"] / other["mean_ms"] if one and other else None for one, other in pairs])
                )
            row += [over(times[method], "iterations", digits=1) for method in methods]
            rows.append(row + [over(times[method], "certified", digits=1) for method in methods])
        short = ("AD3, all arcs", "tuned", "best")
        columns = ["words", "sentences", "AD3, ms", f"{short[0]}, ms", "subgradient, tuned, ms", "best, ms"]
        columns += ["tuned / AD3, all arcs", "best / AD3, all arcs"]
        columns += [f"{one}, {figure}" for figure in ("iterations", "certified, %") for one in short]
        notes = [
            "milliseconds per sentence: means of decoding one at a time, by CPU time if on one thread",
            "all arcs: the plain relaxation, on which the subgradient method works too",
            "the paper has only a graph, of section 22 of the Penn Treebank, with the best step size of the "
            "subgradient method for each sentence: best",
        ]
        yield Table(f"Figure 2: AD3 and the subgradient method by length, {name}", columns, rows, notes)


PAPER = Paper("ad3", published.AD3, MODELS, measure, tables)
LINEAR_PAPER = replace(PAPER, models=LINEAR)
