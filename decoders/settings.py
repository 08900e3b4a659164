"""Check of the ranges of numeric settings of decoders.

A setting is a field of a decoder, a frozen dataclass; `numeric` gives it a default and a range:

    max_iterations: int = numeric(500, least=0)

`check_settings`, which `Decoder` calls, checks type and range for decoders from Python, YAML and the command line.
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
"""Default for the largest allowed integer; kernels count in 64 bits."""

T = TypeVar("T")


@dataclass(frozen=True)
class Range:
    """Numbers from `least` to `most`, both included unless `above` excludes the lower end."""

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
    """Return a dataclass field for a number.

    Args:
        default: default of the setting. None is allowed if the type of the field allows it.
        least: the smallest number allowed.
        most: the largest number allowed; 2**31 - 1 for integers unless given.
        above: instead of `least`, the largest number that is too small.
    """
    allowed = Range(least, most) if above is None else Range(above, most, above=True)
    return field(default=default, metadata={"range": allowed})


def check_settings(settings: Any) -> None:
    """Check types and ranges of settings, and convert numbers to plain `int` and `float`.

    Args:
        settings: a frozen dataclass; its fields of type bool, int and float are checked.

    Raises:
        ValueError: a value is not allowed; the message has the class, the setting, its allowed values and the value.
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
    """The values that a setting allows."""

    kind: type
    range: Range
    none: bool

    def __str__(self) -> str:
        nouns = {bool: "True or False", int: f"an integer{self.range}", float: f"a finite number{self.range}"}
        return nouns[self.kind] + (", or None" if self.none else "")


@cache
def _taken(settings: Any, name: str) -> _Taken | None:
    """Return the values that a setting allows; None if it is neither a number nor a boolean."""
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
    """Return the value as a plain bool, int or float; None if it has another type."""
    if isinstance(value, bool | np.bool_):
        return bool(value) if kind is bool else None
    if kind is bool or not isinstance(value, Integral if kind is int else Real):
        return None
    try:
        return kind(value)
    except OverflowError:  # an integer beyond all floats
        return math.inf


def shown(value: Any) -> str:
    """Return the value as Python prints it, cut to fit a line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
