"""Several comparisons in one report: a matrix of decoders and treebanks, with the averages that papers print."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from rich.console import Group
from rich.table import Table

from arbora.evaluation.report import MARK, WHAT, read_resource, write_csv
from arbora.evaluation.table import number_text, plain_table

FIGURES = {"uas": "UAS", "las": "LAS", "words_per_second": "words/s"}


class Compared(NamedTuple):
    """One comparison: of decoders on the scores of a model for a treebank."""

    model: str  # name; empty if each treebank has one model only
    treebank: str
    folder: str  # of its own report, within that of all
    report: dict[str, Any]


def rows_of(compared: Sequence[Compared]) -> list[dict[str, Any]]:
    """Figures by model and decoder: one per treebank, None where there is none, and the mean where there are all."""
    treebanks = list(dict.fromkeys(each.treebank for each in compared))
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for each in compared:
        for decoder in each.report["decoders"]:
            row = rows.setdefault((each.model, decoder["name"]), {"model": each.model, "decoder": decoder["name"]})
            rate = decoder["speed"]["words_per_second"] or {}
            figures = {
                **{key: decoder["accuracy"][key] for key in ("uas", "las")},
                "words_per_second": rate.get("median"),
            }
            for key, value in figures.items():
                row.setdefault(key, dict.fromkeys(treebanks))[each.treebank] = value
    for row in rows.values():
        for key in FIGURES:
            values = list(row[key].values())
            row[key]["mean"] = None if None in values else sum(values) / len(values)
    return list(rows.values())


def write_matrix(compared: Sequence[Compared], folder: Path) -> None:
    """Write the page, JSON and CSV of several comparisons to a folder that has their own reports."""
    rows = rows_of(compared)
    runs = [{**each._asdict(), "report": f"{each.folder}/{MARK}"} for each in compared]
    content = {"what": WHAT, "runs": runs, "matrix": rows}
    (folder / MARK).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    flat = [
        {"model": row["model"], "decoder": row["decoder"]}
        | {f"{treebank} {FIGURES[key]}": value for key in FIGURES for treebank, value in row[key].items()}
        for row in rows
    ]
    write_csv(folder / "matrix.csv", flat)
    links = [(f"{each.folder}/index.html", " · ".join(filter(None, (each.model, each.treebank)))) for each in compared]
    listed = "".join(f'<li><a href="{html.escape(place)}">{html.escape(name)}</a></li>' for place, name in links)
    tables = [f"<h2>{title}</h2>\n{_html_table(rows, key)}" for key, title in FIGURES.items()]
    tables.append(f"<h2>Reports</h2>\n<ul>{listed}</ul>")
    note = (
        "Labels without their subtypes, as in the official evaluation. Means are over treebanks. Best figures are bold."
    )
    style = read_resource("trees.css") + read_resource("report.css")
    page = Template(read_resource("matrix.html")).substitute(style=style, note=note, tables="\n".join(tables))
    (folder / "index.html").write_text(page, encoding="utf-8")


def _html_table(rows: Sequence[dict[str, Any]], key: str) -> str:
    columns = list(rows[0][key])
    best = {name: max((row[key][name] for row in rows if row[key][name] is not None), default=None) for name in columns}
    heads = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in ("decoder", *columns))
    lines = []
    for row in rows:
        cells = []
        for name in columns:
            value = row[key][name]
            top = ' class="top"' if value is not None and value == best[name] and len(rows) > 1 else ""
            cells.append(f"<td{top}>{_shown(key, value)}</td>")
        name = " · ".join(filter(None, (row["model"], row["decoder"])))
        lines.append(f'<tr><th scope="row">{html.escape(name)}</th>{"".join(cells)}</tr>')
    body = "\n".join(lines)
    return f'<div class="scroll"><table><thead><tr>{heads}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def matrix_table(compared: Sequence[Compared]) -> Group:
    """The matrix for the terminal."""
    rows = rows_of(compared)
    blocks: list[Table | str] = []
    for key, title in FIGURES.items():
        table = plain_table("decoder", *rows[0][key])
        for row in rows:
            name = " · ".join(filter(None, (row["model"], row["decoder"])))
            table.add_row(name, *(_shown(key, value) for value in row[key].values()))
        blocks += [title, table, ""]
    return Group(*blocks)


def _shown(key: str, value: float | None) -> str:
    return number_text(value, 0 if key == "words_per_second" else 2)
