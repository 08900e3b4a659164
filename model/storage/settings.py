"""Conversion of settings to plain data and back, so that files contain JSON and no code.

Settings are frozen dataclasses. Their JSON is an object of their fields, and `type` names the class:

    {"type": "lstm", "embeddings": {"type": "embeddings", "words": 100, ...}, "size": 200, ...}

Files of the first format have `class_path` and `init_args` instead. Only classes in `names.TYPES` are ever imported.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from arbora.model.storage.names import CLASS_PATHS, class_of, name_of


def to_plain(value: Any) -> Any:
    """Convert settings, which may be nested, to dictionaries, lists, strings and numbers."""
    if is_dataclass(value) and not isinstance(value, type):
        arguments = {item.name: to_plain(getattr(value, item.name)) for item in fields(value)}
        return {"type": name_of(type(value))} | arguments
    if isinstance(value, (list, tuple)):
        return [to_plain(entry) for entry in value]
    return value


def from_plain(value: Any) -> Any:
    """The inverse of `to_plain`; lists become tuples.

    Raises:
        ValueError: it does not have this form, or has an unknown type.
    """
    if isinstance(value, list):
        return tuple(from_plain(entry) for entry in value)
    if not isinstance(value, dict):
        return value
    name, arguments = _by_class_path(value) if "class_path" in value else _by_type(value)
    try:
        return class_of(name)(**{key: from_plain(argument) for key, argument in arguments.items()})
    except TypeError as error:
        raise ValueError(f"settings of {name}: {error}") from None


def _by_type(value: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    name = value.get("type")
    if not isinstance(name, str):
        raise ValueError("settings must have a type")
    return name, {key: argument for key, argument in value.items() if key != "type"}


def _by_class_path(value: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Type name and arguments of settings in the first format."""
    path, arguments = value["class_path"], value.get("init_args")
    if not isinstance(path, str) or not isinstance(arguments, dict):
        raise ValueError("settings must have a class_path and init_args")
    if path not in CLASS_PATHS:
        raise ValueError(f"settings name {path[:100]}, which is not a class of settings of arbora")
    return CLASS_PATHS[path], arguments
