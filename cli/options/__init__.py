"""Options of commands, in modules of their own: `--help` imports nothing else."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

DECODER = "a name such as mst or ad3, with settings as ad3(max_iterations=50), a file of `arbora tune`, or own"


class HelpFormat(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of a description, and adds defaults to the help of options that do not name theirs."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text = action.help
        if text and action.option_strings and action.default not in (None, False, argparse.SUPPRESS):
            text += "" if "(default" in text else " (default: %(default)s)"
        return text


class CommandParser(argparse.ArgumentParser):
    """Arguments of a command, which may stand in any order; ends with one line that says what is wrong."""

    def __init__(self, name: str, description: str, **options: Any) -> None:
        super().__init__(
            prog=f"arbora {name}", description=description, formatter_class=HelpFormat, allow_abbrev=False, **options
        )

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {' '.join(message.split())}; `{self.prog} --help` lists the options\n")

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse the arguments; `--decoder.NAME VALUE` go to `decoder_settings`, by name."""
        left: list[str] = []
        settings: dict[str, str] = {}
        given = iter(arguments)
        for argument in given:
            name, equals, value = argument.partition("=")
            if name.startswith("--decoder."):
                settings[name.removeprefix("--decoder.")] = value if equals else next(given, "")
            else:
                left.append(argument)
        if settings and "--decoder" not in self._option_string_actions:
            self.error(f"unrecognized arguments: --decoder.{next(iter(settings))}")
        options = self.parse_intermixed_args(left)
        options.decoder_settings = settings
        return options


def check_least(options: argparse.Namespace, **least: int) -> None:
    """Refuse options below the least value that they take; those that are not given are None."""
    for name, value in least.items():
        given = getattr(options, name)
        if given is not None and given < value:
            what = "be positive" if value == 1 else "not be negative" if value == 0 else f"be at least {value}"
            raise ValueError(f"--{name.replace('_', '-')} must {what}, got {given}")
