"""Decoders as a user names them: `ad3`, `AD3`, `ad3(max_iterations=50)`, or a file of settings.

Names are read in any spelling: `hill_climbing`, `HillClimbing` and `hill-climbing` are the same. A file is YAML: an
entry with `class_path`, `init_args` and a `name`, as `arbora tune` writes it, or a list of such entries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from inspect import isabstract
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import arbora.decoders
from arbora.decoders.settings import expected, shown
from arbora.decoders.trees import Decoder

OWN = "own"
"""Name of the decoder that a parser was trained with, with its settings."""

TRUTH = {"true": True, "yes": True, "false": False, "no": False}


def find_decoder(text: str, own: Decoder | None = None, settings: Mapping[str, str] | None = None) -> Decoder:
    """Return the decoder that a user names.

    Args:
        text: a name, a name with settings in brackets, a YAML file with one decoder, or `own`.
        own: the decoder that `own` stands for.
        settings: further settings, by name.

    Raises:
        ValueError: with one line that says what is wrong.
    """
    if text.endswith((".yaml", ".yml")) or Path(text).is_file():
        found = read_decoders(text)
    else:
        found = named_decoders(text, own)
    if len(found) != 1:
        raise ValueError(f"{text} names {len(found)} decoders, where one is needed")
    ((name, decoder),) = found.items()
    return _build(type(decoder), _written(decoder) | dict(settings), name) if settings else decoder


def named_decoders(text: str, own: Decoder | None = None) -> dict[str, Decoder]:
    """Decoders out of a list such as `own,mst,ad3(max_iterations=50, rho=0.5)`, by name and settings.

    Raises:
        ValueError: with one line that says what is wrong.
    """
    decoders: dict[str, Decoder] = {}
    for item in _split(text):
        match = re.fullmatch(r"([\w.\-]+)\s*(?:\((.*)\))?", item, re.DOTALL)
        if not match:
            raise ValueError(f"{text}: write names separated by commas, as mst,ad3(max_iterations=50)")
        name, inside = match.groups()
        settings: dict[str, Any] = {}
        for setting in _split(inside or ""):
            key, equals, value = (part.strip() for part in setting.partition("="))
            if not equals or not value:
                raise ValueError(f"{item}: write settings as name=value, not {setting}")
            if key in settings:
                raise ValueError(f"{item}: {key} is there twice")
            settings[key] = value
        given = ", ".join(f"{key}={value}" for key, value in settings.items())
        label = (OWN if name.lower() == OWN else _snake(_find(name).__name__)) + (f"({given})" if given else "")
        if label in decoders:
            raise ValueError(f"two decoders are named {label}; give one another name in --variants")
        if name.lower() == OWN:
            if own is None:
                raise ValueError("own is the decoder of a trained parser, and there is none here")
            decoders[label] = _build(type(own), _written(own) | settings, label) if settings else own
        else:
            decoders[label] = _build(_find(name), settings, label)
    if not decoders:
        raise ValueError("the list of decoders is empty: name at least one")
    return decoders


def read_decoders(path: str | Path) -> dict[str, Decoder]:
    """Decoders out of a YAML file, by name.

    Raises:
        ValueError: with one line that says what is wrong.
    """
    import yaml

    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not YAML: {error}") from None
    entries = [content] if isinstance(content, dict) else content
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError(f"{path}: must be a list of decoders, each with name, class_path and init_args")
    decoders: dict[str, Decoder] = {}
    for number, entry in enumerate(entries, 1):
        if other := sorted(str(key) for key in entry.keys() - {"name", "class_path", "init_args"}):
            raise ValueError(f"{path}: entry {number} has {other[0]}; it takes name, class_path and init_args")
        kind_name, settings = entry.get("class_path"), entry.get("init_args") or {}
        if not isinstance(kind_name, str) or not isinstance(settings, dict):
            raise ValueError(f"{path}: entry {number} must have a class_path, and init_args by name")
        try:
            kind = _find(kind_name)
            name = str(entry.get("name") or _snake(kind.__name__))
            if name in decoders:
                raise ValueError(f"two decoders are named {name}")
            decoders[name] = _build(kind, settings, name)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    return decoders


def name_of(decoder: Decoder) -> str:
    """Name a decoder, with those settings that are not the default, as `find_decoder` reads it."""
    written = _written(decoder)
    defaults = {item.name: item.default for item in fields(decoder)}  # type: ignore[arg-type]
    changed = [f"{key}={value}" for key, value in written.items() if getattr(decoder, key) != defaults[key]]
    return _snake(type(decoder).__name__) + (f"({', '.join(changed)})" if changed else "")


def decoder_classes() -> dict[str, type[Decoder]]:
    """All decoders by their names in snake case, as `hill_climbing`."""
    for name in arbora.decoders.__all__:
        getattr(arbora.decoders, name)
    found: dict[str, type[Decoder]] = {}
    for kind in _subclasses(Decoder):  # type: ignore[type-abstract]
        if is_dataclass(kind) and not isabstract(kind):
            found[_snake(kind.__name__)] = kind
    return found


def _written(decoder: Decoder) -> dict[str, str]:
    """Settings as text."""
    values = {item.name: getattr(decoder, item.name) for item in fields(decoder) if item.init}  # type: ignore[arg-type]
    return {key: name_of(value) if isinstance(value, Decoder) else str(value) for key, value in values.items()}


def _subclasses(kind: type[Decoder]) -> Iterator[type[Decoder]]:
    for below in kind.__subclasses__():
        yield below
        yield from _subclasses(below)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


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
    """A decoder's class by its name in any spelling, or by its path; only modules of decoders are imported."""
    plain = re.sub(r"[_\-]", "", name.removeprefix("arbora.decoders.") if "." in name else name).lower()
    for exported in arbora.decoders.__all__:
        if exported.lower() == plain:
            found = getattr(arbora.decoders, exported)
            if isinstance(found, type) and issubclass(found, Decoder) and is_dataclass(found):
                return found
    classes = decoder_classes()
    for known, kind in classes.items():
        if known.replace("_", "") == plain or name == f"{kind.__module__}.{kind.__qualname__}":
            return kind
    raise ValueError(f"unknown decoder {name}; choose from {', '.join(sorted(classes))}")


def _build(kind: type[Decoder], settings: Mapping[str, Any], name: str) -> Decoder:
    """A decoder with these settings, given as text or as values of YAML."""
    hints = get_type_hints(kind)
    known = [item.name for item in fields(kind) if item.init]  # type: ignore[arg-type]
    values = {}
    for key, value in settings.items():
        if key not in known:
            raise ValueError(f"{name}: {kind.__name__} has no setting {key}; choose from {', '.join(known)}")
        values[key] = setting_of(hints[key], value)
        if values[key] is MISSING:
            names = next((f"one of {', '.join(get_args(each))}" for each in kinds_of(hints[key]) if get_args(each)), "")
            raise ValueError(f"{name}: {key} must be {expected(kind, key) or names}, got {shown(value)}")
    try:
        return kind(**values)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def kinds_of(hint: Any) -> tuple[Any, ...]:
    """The types of a union, or the one that is no union."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def setting_of(hint: Any, value: Any) -> Any:
    """A value of a setting from its text, `MISSING` if it is none of its type; other values than text as they are."""
    for kind in kinds_of(hint):
        if get_origin(kind) is Literal and value in get_args(kind):
            return value
        if kind is NoneType and (value is None or str(value).lower() in ("none", "null")):
            return None
        if not isinstance(value, str):
            continue
        if kind is bool and value.lower() in TRUTH:
            return TRUTH[value.lower()]
        if kind is Decoder:
            return find_decoder(value)
        if kind in (int, float):
            try:
                return kind(value)
            except (ValueError, OverflowError):
                continue
    return MISSING if isinstance(value, str) or any(get_origin(kind) is Literal for kind in kinds_of(hint)) else value
