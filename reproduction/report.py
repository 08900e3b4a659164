"""Tables of a reproduction as Markdown, which reads well in a terminal too, and as JSON."""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from arbora.cli.compare import cpu_name
from arbora.data.conll import open_output

NOTHING = "–"
"""Stands for a missing value."""

PACKAGES = ("torch", "numba", "numpy")


@dataclass(frozen=True)
class Table:
    """A table of text.

    Args:
        title: with the number that the paper gives it.
        columns: their names; those with figures of the paper say so.
        rows: as many cells each.
        notes: lines below it.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = field(default=())

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"{self.title}: rows and columns differ")

    def plain(self) -> dict[str, Any]:
        """The table as plain data."""
        rows = [list(row) for row in self.rows]
        return {"title": self.title, "columns": list(self.columns), "rows": rows, "notes": list(self.notes)}

    def markdown(self) -> str:
        """The table with its title and notes, columns aligned."""
        widths = [max(map(len, column)) for column in zip(self.columns, *self.rows)]
        lines = [f"### {self.title}", "", _line(self.columns, widths)]
        lines.append("|" + "|".join(f"{'-' * (width + 1)}{':' if i else '-'}" for i, width in enumerate(widths)) + "|")
        lines += [_line(row, widths) for row in self.rows]
        if self.notes:
            lines += ["", *(f"- {note}" for note in self.notes)]
        return "\n".join(lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = (
        f"{cell:>{width}}" if i else f"{cell:<{width}}" for i, (cell, width) in enumerate(zip(cells, widths))
    )
    return "| " + " | ".join([first, *others]) + " |"


def number(values: float | Iterable[float | None] | None, digits: int = 2) -> str:
    """A figure, or the mean of those of several runs with the least and the greatest."""
    if values is None or isinstance(values, (int, float)):
        values = [values]
    there = [value for value in values if value is not None and math.isfinite(value)]
    if not there:
        return NOTHING
    mean = f"{statistics.fmean(there):,.{digits}f}"
    if len(there) == 1:
        return mean
    return f"{mean} ({min(there):,.{digits}f} to {max(there):,.{digits}f})"


def over(results: Sequence[Any], *path: str | int, digits: int = 2) -> str:
    """The same of what stands at a path of keys in the results of each run; nothing where a key is missing."""
    found = []
    for result in results:
        for key in path:
            if result is None or (isinstance(result, dict) and key not in result):
                result = None
                break
            result = result[key]
        found.append(result)
    return number(found, digits)


def cited(figure: float | None, digits: int = 2) -> str:
    """A figure of a paper."""
    return NOTHING if figure is None else f"{figure:,.{digits}f}"


def machine() -> str:
    """Return the machine of the figures of speed, in one line."""
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return f"{cpu_name()}, {os.cpu_count()} cores{load}; Python {platform.python_version()}, {packages}"


def arbora_version() -> str:
    """The version of this package, or `unknown` where it is not installed."""
    try:
        return version("arbora")
    except PackageNotFoundError:
        return "unknown"


@dataclass(frozen=True)
class Report:
    """The tables of a reproduction, with title and notes.

    Args:
        title: what was reproduced.
        about: lines on command, data, settings and machine.
        tables: of the paper.
        settings: as plain data.
        results: of each step, as plain data.
    """

    title: str
    about: Sequence[str]
    tables: Sequence[Table]
    settings: dict[str, Any]
    results: dict[str, Any]

    def markdown(self) -> str:
        """The whole report."""
        head = [f"# {self.title}", "", *(f"- {line}" for line in self.about)]
        return "\n".join([*head, *(f"\n{table.markdown()}" for table in self.tables)]) + "\n"

    def plain(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "title": self.title,
            "about": list(self.about),
            "settings": self.settings,
            "tables": [table.plain() for table in self.tables],
            "results": self.results,
        }

    def write(self, folder: Path) -> None:
        """Write `report.md` and `report.json`, each whole or not at all."""
        write_json(folder / "report.json", self.plain())
        with open_output(folder / "report.md") as output:
            output.write(self.markdown())


def write_json(path: Path, value: Any) -> None:
    """Write plain data to a file, whole or not at all."""
    with open_output(path) as output:
        output.write(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Read plain data.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
