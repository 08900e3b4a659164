"""Characters as numbers: code points, their kinds, and their lower case."""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

UPPER, LOWER, LETTER, DIGIT, MARK, PUNCTUATION, SYMBOL, OTHER, SPACE = range(1, 10)
"""Kinds of characters; 0 is none."""

_KIND = {"Lu": UPPER, "Lt": UPPER, "Ll": LOWER, "Lm": LETTER, "Lo": LETTER, "Nd": DIGIT}
_KIND_OF_GROUP = {"M": MARK, "P": PUNCTUATION, "S": SYMBOL, "N": DIGIT}

_kinds = np.zeros(0x110000, np.uint8)  # filled in as characters are met
_lower = np.arange(0x110000, dtype=np.uint32)


class Characters(NamedTuple):
    """The visible characters of a text, one entry for each."""

    place: NDArray[np.int64]  # in the text
    lower: NDArray[np.uint32]  # code point of the lower case
    kind: NDArray[np.uint8]
    gap: NDArray[np.uint8]  # white space before it: 0 none, 1 a single space, 2 other

    @classmethod
    def of(cls, text: str) -> Characters:
        """Look up the characters of a text."""
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        kind = _kinds[codes]
        if not kind.all():
            for code in np.unique(codes[kind == 0]).tolist():
                _kinds[code], _lower[code] = _look_up(chr(code))
            kind = _kinds[codes]
        place = np.flatnonzero(kind != SPACE)
        before = np.diff(place, prepend=0 if len(place) and place[0] == 0 else -1) - 1
        gap = np.minimum(before, 2).clip(0).astype(np.uint8)
        single = gap == 1
        gap[single] = np.where(codes[place[single] - 1] == ord(" "), 1, 2)
        return cls(place, _lower[codes[place]], kind[place], gap)

    def part(self, start: int, end: int) -> Characters:
        """Some of the characters, as if they were all."""
        return Characters(self.place[start:end], self.lower[start:end], self.kind[start:end], self.gap[start:end])


def _look_up(character: str) -> tuple[int, int]:
    """Kind and lower case of a character."""
    if character.isspace():
        return SPACE, ord(character)
    category = unicodedata.category(character)
    kind = _KIND.get(category) or _KIND_OF_GROUP.get(category[0], OTHER)
    lower = character.lower()
    return kind, ord(lower if len(lower) == 1 else character)
