"""Ensembles: a parser, and the trees of another one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import zip_longest

from arbora.cli.options.ensembles import GAMMA
from arbora.data.conll import Sentence, Unparsed


def parse_gamma(text: str) -> tuple[float, ...]:
    """Read the value of `--ensemble-gamma`."""
    try:
        gamma = tuple(float(number) for number in text.split(","))
    except ValueError:
        gamma = ()
    if not 1 <= len(gamma) <= 3 or not all(map(math.isfinite, gamma)):
        raise ValueError(f"--ensemble.gamma must be one to three numbers, such as {GAMMA}, got {text}")
    return gamma


def with_trees(
    entries: Iterable[Sentence | Unparsed], others: Iterable[Sentence | Unparsed]
) -> Iterator[Sentence | Unparsed]:
    """Yield sentences with their heads in another file."""
    for entry, other in zip_longest(entries, others):
        if entry is None or other is None:
            last, more = (other, "more") if entry is None else (entry, "fewer")
            place = f"{last.source}:{last.line_number}"
            raise ValueError(f"{place}: the file of --ensemble has {more} sentences than the input")
        if isinstance(entry, Unparsed):
            yield entry
        elif isinstance(other, Unparsed):
            yield replace(other, lines=entry.lines)
        elif entry.form != other.form:
            raise ValueError(
                f"{other.where()}: the words differ from those at {entry.where()}; give a parse of the same input"
            )
        else:
            yield replace(entry, head=other.head)
