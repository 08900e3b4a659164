"""Terminal output of the commands."""

from __future__ import annotations

from rich.console import Console


def plain_console(*, stderr: bool = False, quiet: bool = False, width: int | None = None) -> Console:
    """Return a console that prints text as it is: names of files and decoders are not read as rich's markup.

    Args:
        stderr: print on standard error.
        quiet: print nothing.
        width: columns, if not those of the terminal.
    """
    return Console(
        stderr=stderr, quiet=quiet, width=width, markup=False, highlight=False, emoji=False, soft_wrap=width is None
    )
