"""Configurations that come with Arbora: `arbora train --config small` reads `small.yaml` in this folder."""

import re
from collections.abc import Sequence
from pathlib import Path

_FOLDER = Path(__file__).parent


def config_names() -> list[str]:
    """Names of all configurations, such as `small` and `pruners/local`."""
    return sorted(path.relative_to(_FOLDER).with_suffix("").as_posix() for path in _FOLDER.rglob("*.yaml"))


def find_config(name: str) -> Path:
    """Find a configuration by its name, or by the path of a file; a file takes precedence.

    Raises:
        ValueError: there is neither.
    """
    if Path(name).is_file():
        return Path(name)
    if name not in config_names():
        raise ValueError(f"no configuration {name!r}: give the path of a file, or one of {', '.join(config_names())}")
    return _FOLDER / f"{name}.yaml"


def is_linear_asked_for(arguments: Sequence[str]) -> bool:
    """Return whether arguments of `arbora train` name the linear model, directly or in a configuration file."""
    for before, argument in zip(["", *arguments], arguments):
        name, _, value = argument.partition("=") if argument.startswith("--") else (before, "", argument)
        if name == "--model" and value == "linear":
            return True
        config = Path(value).read_text(encoding="utf-8") if value and name in ("-c", "--config") else ""
        if re.search(r"^model: *linear\b", config, re.M):
            return True
    return False
