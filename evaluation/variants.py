"""Decoders as a user names them: `ad3(max_iterations=50)`, or entries of a YAML file."""

from __future__ import annotations

import re
from argparse import ArgumentError
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from inspect import isabstract
from pathlib import Path
from typing import Any, get_type_hints

import yaml
from jsonargparse import ArgumentParser

from arbora.decoders import Decoder
from arbora.decoders.settings import expected, shown
from arbora.evaluation.comparison import Variant


def decoder_classes() -> dict[str, type[Decoder]]:
    """All decoders by their names in snake case, as `hill_climbing`."""
    found: dict[str, type[Decoder]] = {}
    for kind in _subclasses(Decoder):  # type: ignore[type-abstract]
        if is_dataclass(kind) and not isabstract(kind):
            found[_snake(kind.__name__)] = kind
    return found


def _subclasses(kind: type[Decoder]) -> Iterator[type[Decoder]]:
    for below in kind.__subclasses__():
        yield below
        yield from _subclasses(below)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def parse_decoders(text: str) -> list[Variant]:
    """Decoders out of a list such as `mst,ad3(max_iterations=50, rho=0.5)`.

    Raises:
        ValueError: with one line that says what is wrong.
    """
    variants = []
    for item in _split(text):
        match = re.fullmatch(r"([\w.\-]+)\s*(?:\((.*)\))?", item, re.DOTALL)
        if not match:
            raise ValueError(f"--decoders {text}: write names separated by commas, as mst,ad3(max_iterations=50)")
        name, inside = match.groups()
        settings: dict[str, str] = {}
        for setting in _split(inside or ""):
            key, equals, value = (part.strip() for part in setting.partition("="))
            if not equals or not value:
                raise ValueError(f"{item}: write settings as name=value, not {setting}")
            if key in settings:
                raise ValueError(f"{item}: {key} is there twice")
            settings[key] = value
        kind = _find(name)
        shown = ", ".join(f"{key}={value}" for key, value in settings.items())
        label = _snake(kind.__name__) + (f"({shown})" if shown else "")
        variants.append(Variant(label, _build(kind, settings, label)))
    if not variants:
        raise ValueError("--decoders is empty: name at least one")
    return variants


def read_variants(path: str | Path) -> list[Variant]:
    """Decoders out of a YAML file: a list of entries with `class_path`, `init_args` and `name`, or one such entry.

    Raises:
        ValueError: with one line that says what is wrong.
    """
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not YAML: {error}") from None
    entries = [content] if isinstance(content, dict) else content
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError(f"{path}: must be a list of decoders, each with name, class_path and init_args")
    variants = []
    for number, entry in enumerate(entries, 1):
        if other := sorted(str(key) for key in entry.keys() - {"name", "class_path", "init_args"}):
            raise ValueError(f"{path}: entry {number} has {other[0]}; it takes name, class_path and init_args")
        kind_name, settings = entry.get("class_path"), entry.get("init_args") or {}
        if not isinstance(kind_name, str) or not isinstance(settings, dict):
            raise ValueError(f"{path}: entry {number} must have a class_path, and init_args by name")
        try:
            kind = _find(kind_name)
            name = str(entry.get("name") or _snake(kind.__name__))
            variants.append(Variant(name, _build(kind, settings, name)))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    return variants


def _split(text: str) -> list[str]:
    """Pieces separated by commas outside of brackets, without spaces around them and without empty ones."""
    pieces, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += character
    return [piece.strip() for piece in pieces if piece.strip()]


def _find(name: str) -> type[Decoder]:
    """A decoder's class by its name in any spelling, or by its path. Nothing is imported."""
    classes = decoder_classes()
    if "." in name:
        for kind in classes.values():
            if name in (f"{kind.__module__}.{kind.__qualname__}", f"arbora.decoders.{kind.__qualname__}"):
                return kind
    plain = re.sub(r"[_\-]", "", name).lower()
    for known, kind in classes.items():
        if known.replace("_", "") == plain:
            return kind
    raise ValueError(f"there is no decoder {name}, but {', '.join(sorted(classes))}")


def _build(kind: type[Decoder], settings: Mapping[str, Any], name: str) -> Decoder:
    """A decoder with these settings, given as text or as values of YAML."""
    hints = get_type_hints(kind)
    known = [item.name for item in fields(kind) if item.init]  # type: ignore[arg-type]
    values = {}
    for key, value in settings.items():
        if key not in known:
            raise ValueError(f"{name}: {kind.__name__} has no setting {key}, but {', '.join(known)}")
        parser = ArgumentParser(exit_on_error=False)
        parser.add_argument("--value", type=hints[key])
        try:
            given = parser.parse_args([f"--value={value}"]) if isinstance(value, str) else None
            values[key] = parser.instantiate(given or parser.parse_object({"value": value})).value
        except (ArgumentError, OverflowError):
            takes = expected(kind, key) or f"another value, of type {hints[key]}"
            raise ValueError(f"{name}: {key} must be {takes}, got {shown(value)}") from None
    try:
        return kind(**values)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
