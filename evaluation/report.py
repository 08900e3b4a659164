"""A comparison of decoders as a table for the terminal, as JSON and CSV, and as a page that needs no network."""

from __future__ import annotations

import csv
import html
import json
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from arbora.evaluation.saved import new_folder
from arbora.evaluation.table import number_text, plain_table

MARK = "report.json"
WHAT = "arbora comparison"


def write_report(report: Mapping[str, Any], rows: Iterable[Mapping[str, Any]], folder: str | Path) -> None:
    """Write a report to a folder, which replaces an existing report only when it is complete.

    Args:
        report: all figures.
        rows: of each sentence and decoder.
        folder: where to.

    Raises:
        ValueError: the folder contains something else.
    """
    with new_folder(folder, MARK, WHAT) as place:
        text = as_json(report)
        (place / MARK).write_text(text + "\n", encoding="utf-8")
        (place / "index.html").write_text(page(text), encoding="utf-8")
        write_csv(place / "report.csv", (_flat(decoder, report["about"]) for decoder in report["decoders"]))
        write_csv(place / "lengths.csv", _length_rows(report))
        write_csv(place / "sentences.csv", rows)


def as_json(report: Mapping[str, Any]) -> str:
    """Return the report as JSON, without NaN or infinity."""
    return json.dumps(report, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def page(report: str) -> str:
    """Return the page with its style, its script and the report.

    Args:
        report: as JSON.
    """
    # In a script element nothing is escaped but the element must not end: with < written as \u003c, no word can end it.
    safe = report.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    safe = safe.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    template = read_resource("report.html")
    style, script = (read_resource(f"trees.{kind}") + read_resource(f"report.{kind}") for kind in ("css", "js"))
    about = json.loads(report)["about"]
    title = html.escape(f"{Path(str(about.get('file'))).name}: decoders compared")
    for name, text in {"title": title, "style": style, "script": script, "report": safe}.items():
        before, mark, after = template.partition(f"<!-- {name} -->")
        assert mark, f"report.html has no place for {name}"
        template = before + text + after
    return template


def read_resource(name: str) -> str:
    return files("arbora.evaluation").joinpath(name).read_text(encoding="utf-8")


def _length_rows(report: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Return figures of each decoder on each group of sentences, except for groups without a tree."""
    for decoder in report["decoders"]:
        for group, row in zip(report["lengths"], decoder["by_length"], strict=True):
            if row is not None:
                yield {"decoder": decoder["name"], "length": group["name"], **row}


def _flat(decoder: Mapping[str, Any], about: Mapping[str, Any]) -> dict[str, Any]:
    """Figures of one decoder as one row."""
    accuracy, search, against, speed = (decoder[name] for name in ("accuracy", "search", "against_reference", "speed"))
    crossing = accuracy["non_projective"]
    rate = speed["words_per_second"] or {}
    return {
        "name": decoder["name"],
        "decoder": decoder["decoder"],
        "settings": json.dumps(decoder["settings"]),
        "sentences": decoder["sentences"],
        "failures": decoder["failures"]["count"],
        **{name: accuracy[name] for name in ("uas", "las", "las_full", "clas", "undirected_uas", "root")},
        **{name: accuracy[name] for name in ("tree_unlabelled", "tree_labelled")},
        "non_projective_precision": crossing["precision"],
        "non_projective_recall": crossing["recall"],
        **{name: search[name] for name in search},
        "shared_arcs": against["shared_arcs"],
        "gold_here_alone": against["gold_here_alone"],
        "gold_there_alone": against["gold_there_alone"],
        "scores_more": against["scores_more"],
        "scores_less": against["scores_less"],
        **{f"{key}_{end}": against[key][end] for key in ("uas", "las") for end in ("difference", "low", "high")},
        "words_per_second": rate.get("median"),
        "words_per_second_low": rate.get("low"),
        "words_per_second_high": rate.get("high"),
        "words_per_second_with_scoring": speed["with_scoring"],
        "words_per_second_scoring_alone": _scoring(about).get("median"),
        "median_ms": speed["median_ms"],
        "p99_ms": speed["p99_ms"],
        "memory_mb": speed["memory_mb"],
        "timing_failures": speed["failures"]["count"],
    }


def _scoring(about: Mapping[str, Any]) -> Mapping[str, float]:
    """Return words per second for scoring only; nothing if it was not timed."""
    return (about.get("scoring") or {}).get("words_per_second") or {}


def write_csv(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer: csv.DictWriter[str] | None = None
        for row in rows:
            if writer is None:
                writer = csv.DictWriter(file, list(row), lineterminator="\n")
                writer.writeheader()
            writer.writerow({key: "" if value is None else value for key, value in row.items()})


def comparison_table(report: Mapping[str, Any]) -> RenderableType:
    """Return a short version of the figures, for the terminal."""
    decoders, about = report["decoders"], report["about"]
    accuracy = _table("UAS", "LAS", "undirected", "whole trees", "crossing P", "crossing R")
    differences = _table("±UAS", "±LAS", "SARC", "gold")
    relaxed = any(decoder["search"]["integral"] is not None for decoder in decoders)
    search = _table("score", "best", "gap to bound", "certified", *["integral"] * relaxed, "gold higher")
    speed = _table("words/s", "spread", "with scoring", "ms median", "99 %", "MB")
    for decoder in decoders:
        name, figures, found = decoder["name"], decoder["accuracy"], decoder["search"]
        against, rate = decoder["against_reference"], decoder["speed"]["words_per_second"] or {}
        crossing, times = figures["non_projective"], decoder["speed"]
        accuracy.add_row(
            name,
            *(number_text(figures[key]) for key in ("uas", "las", "undirected_uas", "tree_unlabelled")),
            number_text(crossing["precision"]),
            number_text(crossing["recall"]),
        )
        if name != report["reference"]:
            differences.add_row(
                name,
                *(_interval(against[key]) for key in ("uas", "las")),
                number_text(against["shared_arcs"]),
                f"{number_text(against['gold_here_alone'])} / {number_text(against['gold_there_alone'])}",
            )
        search.add_row(
            name,
            number_text(found["mean_score"], 3),
            number_text(found["best"], 1),
            number_text(found["gap_to_bound"], 4),
            number_text(found["certified"], 1),
            *[number_text(found["integral"], 1)] * relaxed,
            number_text(found["gold_scores_more"], 1),
        )
        speed.add_row(
            name,
            number_text(rate.get("median"), 0),
            f"{_short(rate.get('low'))}–{_short(rate.get('high'))}",
            number_text(times["with_scoring"], 0),
            number_text(times["median_ms"]),
            number_text(times["p99_ms"]),
            number_text(times["memory_mb"], 1),
        )
    head = f"{about['file']}: {about['sentences']:,} sentences, {about['words']:,} words, "
    head += f"{about['arcs_per_word']:.1f} candidate arcs per word; parts: {', '.join(['arcs', *about['parts']])}"
    blocks: list[RenderableType] = [head, "", accuracy, "", search, "", speed]
    if rate := _scoring(about):
        each = f"{_short(rate['low'])}–{_short(rate['high'])}"
        blocks += [
            "",
            f"scoring only: {number_text(rate['median'], 0)} words per second ({each}), {about['scoring']['device']}",
        ]
    if differences.row_count:
        blocks[4:4] = [f"against {report['reference']}, the reference:", differences, ""]
    for decoder in decoders:
        failures = decoder["failures"]
        if failures["count"]:
            first = failures["first"][0]
            text = (
                f"{decoder['name']}: figures on {decoder['sentences']:,} sentences; it failed on {failures['count']:,}"
            )
            blocks += ["", f"{text}, first on {first['where']}: {first['why']}"]
        timing = decoder["speed"]["failures"]
        if timing["count"]:
            text = f"{decoder['name']} failed in {timing['count']:,} timing runs, which are left out of its speed"
            blocks += ["", f"{text}; the first: {timing['first']}"]
    if ranked := report["analyses"].get("k_best"):
        counts = sorted({row["k"] for row in ranked})
        table = _table(*(f"k = {k}" for k in counts), "certified", "CPU ms per sentence")
        for name in dict.fromkeys(row["name"] for row in ranked):
            own = [row for row in ranked if row["name"] == name]
            last = (number_text(own[-1]["certified"], 1), number_text(own[-1]["milliseconds"]))
            table.add_row(name, *(number_text(row["oracle_uas"]) for row in own), *last)
        blocks += ["", "UAS of the best tree among the k best:", table]
    blocks += [f"\nwarning: {message}" for message in report["warnings"]]
    return Group(*blocks)


def _table(*columns: str) -> Table:
    table = plain_table("decoder", *columns)
    table.columns[0].overflow, table.columns[0].min_width = "fold", 10
    for column in table.columns[1:]:
        column.no_wrap = True
    return table


def _short(value: float | None) -> str:
    """Format three digits, with k for thousands and M for millions."""
    if value is None:
        return "–"
    unit, name = (1e6, "M") if value >= 1e6 else (1e3, "k") if value >= 1e3 else (1, "")
    return f"{float(f'{value / unit:.3g}'):g}{name}"


def _interval(figures: Mapping[str, float | None]) -> str:
    if figures["difference"] is None or figures["low"] is None:
        return "–"
    return f"{figures['difference']:+.2f} [{figures['low']:+.2f}, {figures['high']:+.2f}]"
