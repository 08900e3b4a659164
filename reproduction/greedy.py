"""Tchernowitz, Yedidsion and Reichart (2016), "Effective greedy inference for graph-based non-projective dependency
parsing": table 1 (a), first and second order, individual models and ensembles.

All decoders use exactly the same scores, from one trained parser for each order, while the paper trains a parser for
each kind of inference. So shared arcs and scores show only search errors. The reference is the best tree, which `MST`
finds at first order and branch and bound proves at second order; the paper uses AD3. The paper ignores parts that need
arcs to be absent; here greedy search counts them, or ignores them as in the paper ("absent arcs unseen"). Scores are
relative to those of the best trees, with all parts.

Ensembles prefer the trees of the first-order parser; in the paper, those of TurboParser of the same order. They are
scored as by `arbora predict --ensemble`: the other parser's heads are always among the candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from arbora.decoders import MST, Greedy
from arbora.decoders.dual.ad3 import AD3
from arbora.decoders.dual.branch_and_bound import BranchAndBound
from arbora.evaluation import comparison, trials
from arbora.evaluation.trials import Variant
from arbora.reproduction import parsers, published
from arbora.reproduction.report import NOTHING, Table, cited, number, over
from arbora.reproduction.run import Paper, Run

GREEDY = {
    "BGI": Greedy(partial=False, beam=1, improvements=0),
    "BGI + i": Greedy(partial=False, beam=1),
    "BGI + i + b": Greedy(partial=False),
    "BGI-PP": Greedy(beam=1, improvements=0),
    "BGI-PP + i": Greedy(beam=1),
    "BGI-PP + i + b": Greedy(),
}
"""`i` makes up to five improvements after the search, `b` has a beam of three."""

UNSEEN = {
    "BGI-PP, absent arcs unseen": Greedy(beam=1, improvements=0, absent=False),
    "BGI-PP + i, absent arcs unseen": Greedy(beam=1, absent=False),
    "BGI-PP + i + b, absent arcs unseen": Greedy(absent=False),
}

ORDERS: dict[str, dict[str, Any]] = {
    "first": {"exact": MST(), **GREEDY},
    "second": {"exact": BranchAndBound(), "AD3": AD3(), "MST, arcs only": MST(), **GREEDY, **UNSEEN},
}
"""Decoders of each order, the exact one first."""

ENSEMBLE = ("BGI-PP", "BGI-PP + i", "BGI-PP + i + b")
GAMMA = (1.0, 0.25)
"""Added to the scores of parts of first and second order that are in the other parser's trees; the paper's ranges are
0.5 to 1.5 and 0.2 to 0.3."""

MODELS = {"first": parsers.first_order(), "second": parsers.higher_order(["grandparent", "sibling"])}
LINEAR = {"first": parsers.linear([]), "second": parsers.linear(["grandparent", "sibling"])}


def measure(run: Run, seed: int, models: Mapping[str, Path]) -> dict[str, Any]:
    """Compare decoders on the scores of the parser of each order."""
    found = {name: run.step(f"order-{name}", seed, compare, models[name], name) for name in ORDERS}
    found["ensemble"] = run.step("ensemble", seed, ensemble, models["second"], models["first"])
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


def ensemble(run: Run, model: Path, other: Path) -> dict[str, Any]:
    """Search at second order with scores that prefer the best trees of the first-order parser."""
    scored = run.score(model)
    guide = trials.decode(MST(), run.score(other))
    favoured = run.score_ensemble(model, guide.heads, GAMMA)
    variants = [Variant("exact", BranchAndBound())]
    variants += [Variant(name, GREEDY[name]) for name in ENSEMBLE]
    gold = comparison.Gold(scored)
    with run.threads():
        reference = trials.decode(variants[0].decoder, scored)
        rows = {}
        for variant in variants:
            found = trials.decode(variant.decoder, favoured)
            accuracy = gold.evaluation(found)
            rows[variant.name] = {
                "uas": accuracy["uas"],
                "undirected_uas": accuracy["undirected_uas"],
                "sarc": 100 * float((found.heads == reference.heads).mean()),
            }
    return {"guide_uas": gold.evaluation(guide)["uas"], "alone_uas": gold.evaluation(reference)["uas"], "rows": rows}


def tables(results: Sequence[dict[str, Any]], run: Run) -> list[Table]:
    """Table 1 (a), with accuracy and search in separate tables."""
    made = []
    for order, name in enumerate(ORDERS, 1):
        found = [result[name]["decoders"] for result in results]
        made += [_accuracy_table(found, name, order), _search_table(found, name, order)]
    return [*made, _ensemble_table([result["ensemble"] for result in results])]


def _accuracy_table(found: Sequence[dict[str, Any]], name: str, order: int) -> Table:
    rows = []
    for row in ORDERS[name]:
        entries = [decoders[row] for decoders in found]
        gold = [over(entries, "against_reference", k) for k in ("gold_here_alone", "gold_there_alone")]
        theirs = published.GREEDY_TABLE_1A[order].get(row, {})
        their_gold = published.GREEDY_GOLD.get(order, {}).get(row)
        rows.append(
            [
                row,
                over(entries, "accuracy", "uas"),
                cited(theirs.get("uas")),
                over(entries, "accuracy", "undirected_uas"),
                cited(theirs.get("undirected_uas")),
                over(entries, "against_reference", "shared_arcs"),
                cited(theirs.get("sarc")),
                " / ".join(gold),
                NOTHING if their_gold is None else " / ".join(cited(figure, 1) for figure in their_gold),
            ]
        )
    columns = ["", "UAS", "(paper)", "undirected", "(paper)", "SARC", "(paper)", "gold", "(paper)"]
    notes = [
        "exact: " + ("MST" if order == 1 else "branch and bound; TurboParser's AD3 in the paper"),
        "SARC: arcs shared with the exact trees; gold: words correct only here / only in the exact tree",
        published.GREEDY.note,
    ]
    return Table(f"Table 1 (a), {name} order, individual models: accuracy", columns, rows, notes)


def _search_table(found: Sequence[dict[str, Any]], name: str, order: int) -> Table:
    paper = published.GREEDY_TABLE_1A[order]
    rows = []
    for row in ORDERS[name]:
        entries = [decoders[row] for decoders in found]
        share = [100 * e["search"]["mean_score"] / d["exact"]["search"]["mean_score"] for e, d in zip(entries, found)]
        theirs = paper.get(row, {})
        rows.append(
            [
                row,
                number(share, 3),
                over(entries, "search", "best", digits=1),
                over(entries, "search", "certified", digits=1),
                number([_rate(entry) for entry in entries], 0),
                over(entries, "speed", "with_scoring", digits=0),
                cited(theirs.get("words_per_second"), 0),
                number([_rate(e) / _rate(d["exact"]) for e, d in zip(entries, found)], 3),
                cited(_ratio(theirs, paper["exact"]), 3),
            ]
        )
    columns = ["", "score, %", "best, %", "proved, %", "words/s, decoding", "words/s, all", "(paper)"]
    columns += ["times exact", "(paper)"]
    notes = [
        "score: of the trees, relative to the exact ones; best: sentences with a tree of the best score; proved: trees "
        "that are provably the best",
        "times exact: decoding speed relative to the exact decoder; in the paper, speed of the whole parser",
        published.GREEDY.note,
    ]
    return Table(f"Table 1 (a), {name} order, individual models: search and speed", columns, rows, notes)


def _ratio(theirs: dict[str, float], exact: dict[str, float]) -> float | None:
    rate = theirs.get("words_per_second")
    return None if rate is None else rate / exact["words_per_second"]


def _rate(entry: dict[str, Any]) -> float:
    return float(entry["speed"]["words_per_second"]["median"])


def _ensemble_table(found: Sequence[dict[str, Any]]) -> Table:
    paper = published.GREEDY_TABLE_1A_ENSEMBLE[2]
    rows = [["exact, without the other parser", over(found, "alone_uas"), *[""] * 5]]
    rows.append(["the other parser, first order", over(found, "guide_uas"), *[""] * 5])
    for row in ("exact", *ENSEMBLE):
        theirs = paper.get(row, {})
        cells = [f"{row}, ensemble"]
        for name in ("uas", "undirected_uas", "sarc"):
            cells += [over(found, "rows", row, name), cited(theirs.get(name))]
        rows.append(cells)
    columns = ["", "UAS", "(paper)", "undirected", "(paper)", "SARC", "(paper)"]
    notes = [
        f"parts of first and second order in the other parser's trees score {GAMMA[0]} and {GAMMA[1]} more",
        "SARC: arcs shared with the exact trees of the second-order parser by itself. The paper's other parser is "
        "TurboParser of second order, a better one than ours of first order",
        published.GREEDY.note,
    ]
    return Table("Table 1 (a), second order, ensembles", columns, rows, notes)


PAPER = Paper("greedy", published.GREEDY, MODELS, measure, tables)
LINEAR_PAPER = replace(PAPER, models=LINEAR)
