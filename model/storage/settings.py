"""Settings as plain data, and back, so that a checkpoint holds JSON and no code.

Settings are frozen dataclasses. Their JSON has the shape that the command line's configuration has: `class_path` and
`init_args`. Reading imports classes of `arbora` alone.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any


def to_plain(value: Any) -> Any:
    """Settings, nested or not, as dictionaries, lists, strings and numbers."""
    if is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        arguments = {item.name: to_plain(getattr(value, item.name)) for item in fields(value)}
        return {"class_path": f"{kind.__module__}.{kind.__qualname__}", "init_args": arguments}
    if isinstance(value, (list, tuple)):
        return [to_plain(entry) for entry in value]
    return value


def from_plain(value: Any) -> Any:
    """The inverse of `to_plain`; lists become tuples."""
    if isinstance(value, list):
        return tuple(from_plain(entry) for entry in value)
    if not isinstance(value, dict):
        return value
    path = value.get("class_path")
    arguments = value.get("init_args")
    if not isinstance(path, str) or not isinstance(arguments, dict):
        raise ValueError("settings must have a class_path and init_args")
    module, _, name = path.rpartition(".")
    if not module.startswith("arbora."):
        raise ValueError(f"settings name {path}, which is not a part of arbora")
    try:
        kind = getattr(import_module(module), name)
    except (ImportError, AttributeError):
        raise ValueError(f"settings name {path}, which this version of arbora does not have") from None
    if not (isinstance(kind, type) and is_dataclass(kind)):
        raise ValueError(f"settings name {path}, which is not a class of settings")
    try:
        return kind(**{key: from_plain(argument) for key, argument in arguments.items()})
    except TypeError as error:
        raise ValueError(f"settings of {path}: {error}") from None
