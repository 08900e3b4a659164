"""Ranges of the numeric settings of decoders, checked in one place.

A setting is a field of a decoder, a frozen dataclass; `numeric` gives it a default and a range:

    max_iterations: int = numeric(500, least=0)

`check_settings`, which `Decoder` calls, compares type and range however the decoder was made: from Python, YAML or the
command line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

MOST = 2**31 - 1
"""Largest integer that a setting takes unless it says otherwise: kernels count in 64 bits."""

T = TypeVar("T")


@dataclass(frozen=True)
class Range:
    """Numbers from `least` to `most`, both included unless `above` leaves the lower end out."""

    least: float
    most: float
    above: bool = False

    def __contains__(self, value: float) -> bool:
        return math.isfinite(value) and self.least <= value <= self.most and not (self.above and value == self.least)

    def __str__(self) -> str:
        if self.most == math.inf:
            return "" if self.least == -math.inf else f" {'above' if self.above else 'of at least'} {self.least:g}"
        if self.least == -math.inf:
            return f" of at most {self.most:g}"
        low, high = (str(int(end)) if end == int(end) else str(end) for end in (self.least, self.most))
        return f" above {low}, up to {high}" if self.above else f" from {low} to {high}"


ANY = Range(-math.inf, math.inf)


def numeric(default: T, least: float = -math.inf, most: float = math.inf, above: float | None = None) -> T:
    """A field for a number.

    Args:
        default: of the setting. None is allowed where the type of the field has it.
        least: the smallest number allowed.
        most: the largest number allowed; 2**31 - 1 for integers unless given.
        above: in place of `least`, a number that is just too small.
    """
    allowed = Range(least, most) if above is None else Range(above, most, above=True)
    return field(default=default, metadata={"range": allowed})


def check_settings(settings: Any) -> None:
    """Refuse values of the wrong type or out of range, and make numbers the plain `int` and `float` of their fields.

    Args:
        settings: a frozen dataclass; its fields of type bool, int and float are checked.

    Raises:
        ValueError: naming the class, the setting, what it takes and the value.
    """
    kind: Any = type(settings)
    for item in fields(settings):
        value, taken = getattr(settings, item.name), _taken(kind, item.name)
        if taken is None or (value is None and taken.none):
            continue
        plain = _plain(value, taken.kind)
        if plain is None or (taken.kind is not bool and plain not in taken.range):
            what = f"{kind.__name__}: {item.name} must be {taken}"
            raise ValueError(f"{what}, got {shown(value)}")
        object.__setattr__(settings, item.name, plain)


def expected(kind: type, name: str) -> str:
    """Describe the values of a setting of a dataclass, as in "an integer from 0 to 2147483647"; "" if unknown."""
    return str(_taken(kind, name) or "")


@dataclass(frozen=True)
class _Taken:
    """What a setting takes."""

    kind: type
    range: Range
    none: bool

    def __str__(self) -> str:
        nouns = {bool: "True or False", int: f"an integer{self.range}", float: f"a finite number{self.range}"}
        return nouns[self.kind] + (", or None" if self.none else "")


@cache
def _taken(settings: Any, name: str) -> _Taken | None:
    """What a setting takes, None if it is neither a number nor a truth value."""
    hint = get_type_hints(settings)[name]
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    kind = next((kind for kind in kinds if kind in (bool, int, float)), None)
    if kind is None:
        return None
    allowed = next(item for item in fields(settings) if item.name == name).metadata.get("range", ANY)
    if kind is int and allowed.most == math.inf:
        allowed = Range(allowed.least, MOST, allowed.above)
    return _Taken(kind, allowed, NoneType in kinds)


def _plain(value: Any, kind: type) -> Any:
    """The value as a plain bool, int or float, None if it is of another type."""
    if isinstance(value, bool | np.bool_):
        return bool(value) if kind is bool else None
    if kind is bool or not isinstance(value, Integral if kind is int else Real):
        return None
    try:
        return kind(value)
    except OverflowError:  # an integer beyond all floats
        return math.inf


def shown(value: Any) -> str:
    """The value as Python writes it, cut to fit a line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
