"""Decoders as requests name them: only those of the package, with bounded settings of plain values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import Field, fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from arbora.decoders import Decoder
from arbora.decoders.names import OWN, decoder_classes, named_decoders
from arbora.decoders.settings import expected
from arbora.service.limits import Limits

SettingValue = bool | int | float | str | None

OTHER_LIMITS = {"max_nodes": 10_000, "beam": 64, "improvements": 100, "patience": 1_000, "band": 1_000}
"""Largest values of settings whose cost grows with them; others are in `Limits`."""


def largest(name: str, limits: Limits) -> float | None:
    """The largest value of a setting, None where nothing bounds it."""
    own = {"seconds": limits.seconds, "max_iterations": limits.iterations, "restarts": limits.iterations}
    return {**OTHER_LIMITS, **own, "k": limits.k_best}.get(name)


def find_decoder(name: str, settings: Mapping[str, SettingValue], own: Decoder, limits: Limits) -> tuple[str, Decoder]:
    """A decoder and its name.

    Args:
        name: as `ad3` or, with settings, `ad3(max_iterations=50)`; `own` is the model's.
        settings: more of them, by name.
        own: the model's decoder.
        limits: of their values.

    Raises:
        ValueError: there is no such decoder or setting, or a value is not allowed.
    """
    match = re.fullmatch(r"([\w\-]+)\s*(?:\(([^()]*)\))?", name.strip())
    given = [*(match[2] or "").split(","), *(f"{key}={value}" for key, value in settings.items())] if match else []
    given = [entry.strip() for entry in ",".join(given).split(",") if entry.strip()]
    if match is None or re.search(r"[()\[\]{}]", "".join(given)):
        raise ValueError(f"write a decoder as mst or ad3(max_iterations=50), not {name[:80]}")
    keys = [entry.partition("=")[0].strip() for entry in given]
    classes = {known.replace("_", ""): kind for known, kind in decoder_classes().items()} | {OWN: type(own)}
    if kind := classes.get(re.sub(r"[_\-]", "", match[1]).lower()):  # before anything is built of the settings
        known = sorted(item.name for item in settings_of(kind))
        if other := sorted(set(keys) - set(known)):
            raise ValueError(f"{match[1]}: unknown setting {other[0]}; choose from {', '.join(known)}")
    ((label, decoder),) = named_decoders(f"{match[1]}({', '.join(given)})", own).items()
    for key in keys:
        value, most = getattr(decoder, key), largest(key, limits)
        if most is not None and value is not None and value > most:
            raise ValueError(f"{label}: {key} is at most {most:g} in this service, got {value}")
    return label, decoder if decoder is own else bounded(decoder, limits)


def bounded(decoder: Decoder, limits: Limits) -> Decoder:
    """The decoder, but with a limit to its seconds if it has none."""
    seconds: Any = getattr(decoder, "seconds", 0.0)
    return replace(decoder, seconds=limits.seconds) if seconds is None else decoder  # type: ignore[type-var]


def settings_of(kind: type[Decoder]) -> list[Field[Any]]:
    """The settings of a decoder that requests can give: numbers, truth values, and one of several words."""
    hints = get_type_hints(kind)
    plain = (item for item in fields(kind) if item.init)  # type: ignore[arg-type]
    return [item for item in plain if expected(kind, item.name) or get_origin(hints[item.name]) is Literal]


def list_decoders(limits: Limits) -> list[dict[str, Any]]:
    """All decoders, and what their settings take."""
    listed = []
    for name, kind in sorted(decoder_classes().items()):
        hints, settings = get_type_hints(kind), []
        for item in settings_of(kind):
            takes = expected(kind, item.name) or "one of " + ", ".join(map(str, get_args(hints[item.name])))
            entry = {"name": item.name, "takes": takes, "default": item.default}
            settings.append(entry | {"largest": largest(item.name, limits)})
        about = (kind.__doc__ or "").partition("\n")[0]
        projective = kind.projective is True
        listed.append({"name": name, "about": about, "projective": projective, "settings": settings})
    return listed
