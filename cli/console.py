"""Terminal output of the commands."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


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


def counting_bar(console: Console | None, *more: Any) -> Progress:
    """Return a progress bar that counts, shown only on a terminal; `more` are columns before that of the time."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), *more, TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=console is None or not console.is_terminal)
