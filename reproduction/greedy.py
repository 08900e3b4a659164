"""Tchernowitz, Yedidsion and Reichart (2016), "Effective greedy inference for graph-based non-projective dependency
parsing": tables 1 and 2.

As in the paper, each parser learns through its own search. `exact` stands for TurboParser: `MST` at first order, and
AD3 at second order, with grandparents and siblings. Parsers with greedy search learn from the same sentences; at second
order they have grandparents only, since siblings need arcs to be absent. That is what is left of TurboParser's second
order without nextSibling. BGI learns with Algorithm 1, the others with Algorithm 2; improvements and the beam come
after training. Alpha and beta, and the gammas of ensembles, are tuned on the development part with a beam of one and
without improvements; then come the five improvements and the beam of three that the paper found.

An ensemble is biased towards the trees of `exact`, the parser of the same order. SARC and gold compare with these
trees, too. "Exact" SARC compares with the best trees under the greedy parser's own scores: it shows search errors only.

Table 1 (b) is the same for parsers that learn from samples of 500 sentences; alpha, beta and gammas are tuned once for
all samples of a seed.

Differs from the paper: the first order of networks learns by cross-entropy and hinge, linear models by MIRA as in the
paper; second-order networks learn through hill-climbing where the paper has AD3; beta and the gammas are searched in
wider ranges, because scores differ in scale; the paper tunes table 1 (b) on English for all languages.

Besides the paper's tables, all decoders search by the same scores, those of `exact`. Shared arcs and scores then show
search errors only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from statistics import fmean, median
from typing import Any

from arbora.cli.tune import DevBatch, Setup, heads_of, search_space, tune
from arbora.decoders import MST, Decoder, Greedy
from arbora.decoders.dual.ad3 import AD3
from arbora.decoders.dual.branch_and_bound import BranchAndBound
from arbora.decoders.ensemble import favour_trees
from arbora.evaluation import comparison, trials
from arbora.evaluation.saved import ScoredTreebank
from arbora.evaluation.trials import Found, Variant
from arbora.reproduction import parsers, published
from arbora.reproduction.report import NOTHING, Table, cited, number, over
from arbora.reproduction.run import Paper, Run, padded

BASIC = {
    "BGI": Greedy(partial=False, beam=1, improvements=0),
    "BGI + i": Greedy(partial=False, beam=1),
    "BGI + i + b": Greedy(partial=False),
}
PARTIAL = {
    "BGI-PP": Greedy(beam=1, improvements=0),
    "BGI-PP + i": Greedy(beam=1),
    "BGI-PP + i + b": Greedy(),
}
"""`i` makes up to five improvements after the search, `b` has a beam of three."""

UNSEEN = {f"{name}, absent arcs unseen": replace(decoder, absent=False) for name, decoder in PARTIAL.items()}

ORDERS: dict[str, dict[str, Decoder]] = {
    "first": {"exact": MST(), **BASIC, **PARTIAL},
    "second": {"exact": BranchAndBound(), "AD3": AD3(), "MST, arcs only": MST(), **BASIC, **PARTIAL, **UNSEEN},
}
"""Decoders on the same scores of each order, the exact one first."""

TURBO: dict[str, Decoder] = {"first": MST(), "second": AD3()}
"""Search of TurboParser."""

SEARCHED = ["alpha=0:2.5", "beta=0.2:0.9"]
GAMMAS = {"first": ["gamma_1=0.01:5:log"], "second": ["gamma_1=0.01:5:log", "gamma_2=0.01:2:log"]}
"""Ranges of settings. The paper has 0 to 2.5, 0.2 to 0.5, 0.5 to 1.5 and 0.2 to 0.3."""

GAMMA = (0.1, 0.1)
"""Gammas of the first trial: added to the scores of parts of first and second order in the other parser's trees."""

KINDS: dict[str, list[str]] = {"first": [], "second": ["grandparent"]}
"""Parts of greedy parsers, besides arcs."""

SEARCHES = {
    f"{order}_{name}": (KINDS[order], parsers.greedy_search(partial))
    for order in ORDERS
    for name, partial in (("basic", False), ("greedy", True))
}
"""Parts of greedy parsers, and the search through which they learn: Algorithm 1 or 2."""

MODELS = {
    "first": parsers.searched([], {"class_path": "MST"}),
    "second": parsers.higher_order(["grandparent", "sibling"]),
    **{name: parsers.searched(*settings) for name, settings in SEARCHES.items()},
}
LINEAR = {
    "first": parsers.linear([]),
    "second": parsers.linear(["grandparent", "sibling"]),
    **{name: parsers.linear(*settings) for name, settings in SEARCHES.items()},
}


def measure(run: Run, seed: int, models: Mapping[str, Path]) -> dict[str, Any]:
    """Compare parsers of each order, and decoders on the scores of the same parser."""
    settings = LINEAR if run.settings.scores == "linear" else MODELS
    found = {}
    for order in ORDERS:
        found[f"same-{order}"] = run.step(f"same-{order}", seed, compare, models[order], order)
        found[f"own-{order}"] = run.step(f"own-{order}", seed, parsing, order, [models])
        folds = 0 if set(settings) <= set(run.settings.models) else run.settings.budget.folds  # 0: nothing is trained
        samples = [
            {
                name: run.model(f"{name}_sample{fold}", seed, settings[name], run.sample(seed, fold))
                for name in (order, f"{order}_greedy")
            }
            for fold in range(folds)
        ]
        if samples:
            found[f"samples-{order}"] = run.step(f"samples-{order}", seed, parsing, order, samples)
    return found


def compare(run: Run, model: Path, order: str) -> dict[str, Any]:
    """Compare the decoders of an order as `arbora compare` does."""
    scored = run.score(model)
    variants = [Variant(name, decoder) for name, decoder in ORDERS[order].items()]
    with run.threads():
        found = [trials.decode(variant.decoder, scored) for variant in variants]
        times = trials.measure(variants, found, scored, run.settings.budget.repeats)
    figures = comparison.report(variants, found, times, scored)
    return {"decoders": {entry["name"]: entry for entry in figures["decoders"]}, "warnings": figures["warnings"]}


def parsing(run: Run, order: str, several: Sequence[Mapping[str, Path]]) -> dict[str, Any]:
    """Tune greedy parsers and ensembles together, then measure each next to the parser with exact search.

    Args:
        run: has the sentences.
        order: of the parsers.
        several: parsers by name, of each training.
    """
    alone: list[DevBatch] = []
    together: list[DevBatch] = []
    with run.threads():
        for paths in several:
            scored = run.score(paths[f"{order}_greedy"], "dev")
            guide = trials.decode(TURBO[order], run.score(paths[order], "dev")).heads
            alone += _dev_batches(scored)
            together += _dev_batches(run.score_with_trees(paths[f"{order}_greedy"], guide, scored), guide)
        tuned = {}
        start = Setup(PARTIAL["BGI-PP"])
        for name, batches in (("alone", alone), ("ensemble", together)):
            gammas = GAMMAS[order] if name == "ensemble" else []
            start = replace(start, gamma=GAMMA[: len(gammas)])
            tried = tune(batches, start, search_space([*SEARCHED, *gammas], start), run.settings.budget.trials)
            before = next(trial.uas for trial in tried if trial.number == 0)
            best = start = tried[0].setup
            tuned[name] = {key: best[key] for key in ("alpha", "beta")} | {"gamma": list(best.gamma)}
            tuned[name] |= {"uas_before": before, "uas": tried[0].uas}
        return {"tuned": tuned, "parsers": [_measure(run, order, paths, tuned) for paths in several]}


def _dev_batches(scored: ScoredTreebank, guide: Any = None) -> Iterator[DevBatch]:
    trees = repeat(None) if guide is None else padded(guide, scored)
    for parts, places, tree in zip(scored.batches, scored.places(), trees):
        sentences = [scored.sentences[place] for place in places]
        yield DevBatch(sentences, parts, heads_of(sentences, -2), tree)


def _measure(run: Run, order: str, paths: Mapping[str, Path], tuned: Mapping[str, Any]) -> dict[str, Any]:
    """Figures of the parsers of one training, and of ensembles with that of exact search."""
    scored = run.score(paths[order])
    turbo, rows, seconds = _rows(run, scored, {"exact": TURBO[order]})
    alone = rows
    if f"{order}_basic" in paths:
        alone |= _rows(run, run.score(paths[f"{order}_basic"]), {"BGI": BASIC["BGI"]}, turbo, ORDERS[order]["exact"])[1]

    def searches(name: str) -> dict[str, Decoder]:
        settings = {key: tuned[name][key] for key in ("alpha", "beta")}
        return {row: replace(decoder, **settings) for row, decoder in PARTIAL.items()}

    scored = run.score(paths[f"{order}_greedy"])
    exact = trials.decode(ORDERS[order]["exact"], scored)
    alone |= _rows(run, scored, searches("alone"), turbo, exact)[1]
    guided = run.score_with_trees(paths[f"{order}_greedy"], turbo.heads, scored)
    started = time.perf_counter()
    trees = padded(turbo.heads, guided)
    parts = [favour_trees(batch, tree, tuned["ensemble"]["gamma"]) for batch, tree in zip(guided.batches, trees)]
    seconds += time.perf_counter() - started
    decoders = {"exact": ORDERS[order]["exact"], **searches("ensemble")}
    ensemble = _rows(run, replace(guided, batches=parts), decoders, turbo, exact, seconds)[1]
    return {"alone": alone, "ensemble": ensemble}


def _rows(
    run: Run,
    scored: ScoredTreebank,
    decoders: Mapping[str, Decoder],
    turbo: Found | None = None,
    exact: Found | Decoder | None = None,
    before: float = 0.0,
) -> tuple[Found, dict[str, Any], float]:
    """Trees of the last decoder, figures of all, and the time of the last one with scoring.

    Args:
        run: has the budget.
        scored: the sentences.
        decoders: by the names of their rows.
        turbo: trees of the parser with exact search; those of the decoder itself unless given.
        exact: trees of exact search on the same scores, or the decoder that finds them.
        before: seconds that are spent on the sentences before they are scored.
    """
    if isinstance(exact, Decoder):
        exact = trials.decode(exact, scored)
    variants = [Variant(name, decoder) for name, decoder in decoders.items()]
    found = [trials.decode(variant.decoder, scored) for variant in variants]
    times = trials.measure(variants, found, scored, run.settings.budget.repeats)
    gold, rows, seconds = comparison.Gold(scored), {}, 0.0
    for variant, one, time_ in zip(variants, found, times, strict=True):
        accuracy, other = gold.evaluation(one), one if turbo is None else turbo
        right, other_right = one.heads == gold.heads, other.heads == gold.heads
        seconds = median(time_.total) + median(scored.about["scoring"]["seconds"]) + before
        rows[variant.name] = {
            "uas": accuracy["uas"],
            "undirected_uas": accuracy["undirected_uas"],
            "sarc": 100 * float((one.heads == other.heads).mean()),
            "exact_sarc": None if exact is None else 100 * float((one.heads == exact.heads).mean()),
            "gold_here_alone": 100 * float((right & ~other_right).mean()),
            "gold_there_alone": 100 * float((~right & other_right).mean()),
            "words_per_second": scored.words / seconds,
        }
    return found[-1], rows, seconds


def tables(results: Sequence[dict[str, Any]], run: Run) -> list[Table]:
    """Table 1, settings, and search on the same scores; table 2 for this treebank only."""
    made = []
    parts = [("a", "own", published.GREEDY_TABLE_1A, published.GREEDY_TABLE_1A_ENSEMBLE)]
    if "samples-first" in results[0]:
        parts.append(("b", "samples", published.GREEDY_TABLE_1B, published.GREEDY_TABLE_1B_ENSEMBLE))
    for part, step, alone, ensemble in parts:
        made.append(_table_1(results, part, step, "alone", alone, run))
        made.append(_table_1(results, part, step, "ensemble", ensemble, run))
    made.append(_settings_table(results, [step for _, step, *_ in parts]))
    return [
        *made,
        *(_same_scores(results, order) for order in ORDERS),
        *summary({Path(run.settings.treebank).name: results}),
    ]


def _table_1(
    results: Sequence[dict[str, Any]],
    part: str,
    step: str,
    kind: str,
    paper: Mapping[str, Mapping[str, Mapping[str, float]]],
    run: Run,
) -> Table:
    rows = []
    for order in ORDERS:
        found = [one for result in results for one in result[f"{step}-{order}"]["parsers"]]
        for row in found[0][kind]:
            entries = [one[kind][row] for one in found]
            theirs = paper[order].get(row, {})
            cells = [f"{order} order, {row}"]
            for name in ("uas", "undirected_uas", "sarc"):
                itself = name == "sarc" and row == "exact" and kind == "alone"
                cells += [NOTHING if itself else over(entries, name), cited(theirs.get(name))]
            gold = published.GREEDY_GOLD[part].get(order) if (kind, row) == ("alone", "BGI-PP + i + b") else None
            cells += [over(entries, "exact_sarc")]
            cells += [" / ".join(over(entries, name) for name in ("gold_here_alone", "gold_there_alone"))]
            cells += [NOTHING if gold is None else " / ".join(cited(figure) for figure in gold)]
            cells += [over(entries, "words_per_second", digits=0), cited(theirs.get("words_per_second"), 0)]
            rates = [one[kind][row]["words_per_second"] / one["alone"]["exact"]["words_per_second"] for one in found]
            rate = theirs.get("words_per_second")
            turbo = (published.GREEDY_TABLE_1A if part == "a" else published.GREEDY_TABLE_1B)[order]["exact"]
            cells += [number(rates), cited(None if rate is None else rate / turbo["words_per_second"])]
            rows.append(cells)
    columns = ["", "UAS", "(paper)", "undirected", "(paper)", "SARC", "(paper)", "exact", "gold", "(paper)"]
    columns += ["words/s", "(paper)", "times exact", "(paper)"]
    notes = [
        "exact: TurboParser in the paper; MST, or AD3 with siblings, in a parser of its own. All parsers learn through "
        "their own search; greedy ones have no siblings",
        "SARC: arcs shared with the trees of that parser; exact: with the best trees by the greedy parser's own "
        "scores; gold: words correct only here / only in that parser's trees",
        "words/s: scoring and decoding" + "; with those of the other parser" * (kind == "ensemble"),
        published.GREEDY.note,
    ]
    if part == "b":
        budget = run.settings.budget
        notes[-1:] = [
            f"each parser learns from {budget.sample} random sentences; samples for each seed: {budget.folds}",
            f"paper: means over 17 languages and 20 samples of 500 sentences; {published.GREEDY.machine}",
        ]
    title = "individual models" if kind == "alone" else "ensembles with the parser of the same order"
    return Table(f"Table 1 ({part}), {title}", columns, rows, notes)


def _settings_table(results: Sequence[dict[str, Any]], steps: Sequence[str]) -> Table:
    rows = []
    for order in ORDERS:
        for step in steps:
            for kind in ("alone", "ensemble"):
                found = [result[f"{step}-{order}"]["tuned"][kind] for result in results]
                gammas = [over(found, "gamma", i) if i < len(found[0]["gamma"]) else NOTHING for i in range(len(GAMMA))]
                cells = [over(found, "alpha"), over(found, "beta"), *gammas]
                what = {"own": "(a)", "samples": "(b)"}[step]
                name = f"{order} order, {'BGI-PP' if kind == 'alone' else 'ensemble'} {what}"
                rows.append([name, *cells, over(found, "uas_before"), over(found, "uas")])
    columns = ["", "alpha", "beta", "gamma 1", "gamma 2", "UAS before", "UAS"]
    notes = [
        "chosen on the development part, on which these UAS are, with a beam of one and without improvements",
        "before: alpha and beta of `Greedy`, or for ensembles those of BGI-PP, with gammas of 0.1",
    ]
    return Table("Settings of greedy search", columns, rows, notes)


def _same_scores(results: Sequence[dict[str, Any]], order: str) -> Table:
    found = [result[f"same-{order}"]["decoders"] for result in results]
    rows = []
    for row in ORDERS[order]:
        entries = [decoders[row] for decoders in found]
        share = [100 * e["search"]["mean_score"] / d["exact"]["search"]["mean_score"] for e, d in zip(entries, found)]
        gold = [over(entries, "against_reference", k) for k in ("gold_here_alone", "gold_there_alone")]
        rates = [e["speed"]["words_per_second"]["median"] for e in entries]
        exact = [decoders["exact"]["speed"]["words_per_second"]["median"] for decoders in found]
        rows.append(
            [
                row,
                over(entries, "accuracy", "uas"),
                over(entries, "against_reference", "shared_arcs"),
                " / ".join(gold),
                number(share, 3),
                over(entries, "search", "best", digits=1),
                over(entries, "search", "certified", digits=1),
                number(rates, 0),
                number([rate / its for rate, its in zip(rates, exact)], 3),
            ]
        )
    columns = ["", "UAS", "SARC", "gold", "score, %", "best, %", "proved, %", "words/s, decoding", "times exact"]
    notes = [
        "not in the paper: all decoders search by the scores of the parser with exact search, alpha and beta are the "
        "defaults; exact: " + ("MST" if order == "first" else "branch and bound, with siblings"),
        "SARC: arcs shared with the exact trees; gold: words correct only here / only in the exact tree; score: of the "
        "trees, relative to the exact ones; best: sentences with a tree of the best score; proved: provably the best",
    ]
    return Table(f"Search on the same scores, {order} order", columns, rows, notes)


def summary(treebanks: Mapping[str, Sequence[dict[str, Any]]]) -> list[Table]:
    """Table 2: UAS by treebank."""
    names = (("alone", "exact"), ("alone", "BGI-PP"), ("alone", "BGI-PP + i + b"), ("ensemble", "BGI-PP + i + b"))
    columns = [""]
    found: dict[str, list[list[float]]] = {treebank: [] for treebank in treebanks}
    for order in ORDERS:
        columns += [f"{order}: {row}{' + e' * (kind == 'ensemble')}" for kind, row in names]
        for treebank, results in treebanks.items():
            for kind, row in names:
                uas = [result[f"own-{order}"]["parsers"][0][kind][row]["uas"] for result in results]
                found[treebank].append(uas)
    rows = [[treebank, *map(number, figures)] for treebank, figures in found.items()]
    if len(rows) > 1:
        means = [fmean(map(fmean, column)) for column in zip(*found.values())]
        rows.append(["mean of these", *map(number, means)])
    for language, theirs in published.GREEDY_TABLE_2.items():
        rows.append([f"{language} (paper)", *(cited(figure) for order in ORDERS for figure in theirs[order])])
    notes = ["UAS; e: ensemble; the paper: CoNLL 2006 and 2007, test parts, with TurboParser as `exact`"]
    return [Table("Table 2: UAS by treebank", columns, rows, notes)]


PAPER = Paper("greedy", published.GREEDY, MODELS, measure, tables, summary)
LINEAR_PAPER = replace(PAPER, models=LINEAR)
