"""Terminal output of the commands."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table


def plain_console(*, stderr: bool = False, quiet: bool = False, width: int | None = None) -> Console:
    """Return a console that prints text verbatim: names of files and decoders are not interpreted as rich markup.

    Args:
        stderr: print on standard error.
        quiet: print nothing.
        width: columns, if not those of the terminal.
    """
    return Console(
        stderr=stderr, quiet=quiet, width=width, markup=False, highlight=False, emoji=False, soft_wrap=width is None
    )


def plain_table(title: str, *columns: str) -> Table:
    """Return a table without lines; all columns but the first are right-aligned."""
    look = {"box": None, "pad_edge": False, "header_style": "bold", "padding": (0, 2, 0, 0)}
    table = Table(title=title, title_justify="left", title_style="bold", **look)  # type: ignore[arg-type]
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    return table
