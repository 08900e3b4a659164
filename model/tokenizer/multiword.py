"""Splitting multiword tokens into words: a dictionary of the training part, and rules for other tokens.

A rule describes each word by a piece of the token with something before and behind it, so that *dog's* and *Bill's*
share one. A token that is not in the dictionary is split by the rule that most tokens with the same beginning and
ending have.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

Rule = tuple[tuple[str, int, int, str], ...]
"""For each word: what stands before a piece of the token, where the piece begins and ends, and what stands behind it.
Places are counted from the start of the token, or if negative from its end, which is -1."""

LONGEST_AFFIX = 6
"""Most characters of a beginning or an ending by which tokens are compared."""


def find_rule(token: str, words: Sequence[str], from_end: bool) -> Rule:
    """The rule that makes these words of a token.

    Args:
        token: the token.
        words: its words, in order.
        from_end: count places inside the token from its end.
    """
    rule, used, size = [], 0, len(token)

    def place(i: int) -> int:
        return i - size - 1 if i == size or (from_end and i) else i

    for word in words:
        start, begin, length = _longest_common(token.lower(), word.lower(), used)
        if not length:
            rule.append((word, 0, 0, ""))
            continue
        used = start + length
        rule.append((word[:begin].lower(), place(start), place(used), word[begin + length :].lower()))
    return tuple(rule)


def _longest_common(token: str, word: str, used: int) -> tuple[int, int, int]:
    """Place in a token from `used` on, place in a word, and length of the longest string that both have."""
    best = (used, 0, 0)
    for start in range(used, len(token)):
        for begin in range(len(word)):
            length = 0
            while token[start + length : start + length + 1] == word[begin + length : begin + length + 1] != "":
                length += 1
            if length > best[2]:
                best = (start, begin, length)
    return best


def apply_rule(rule: Rule, token: str) -> list[str] | None:
    """The words of a token; None if the rule does not fit it."""
    words, size = [], len(token)
    for before, first, last, behind in rule:
        start, end = (place if place >= 0 else size + 1 + place for place in (first, last))
        word = before + token[max(start, 0) : end] + behind
        if not 0 <= start <= end <= size or not word:
            return None
        words.append(word)
    return words


class MultiwordTokens:
    """The multiword tokens of a treebank, and how others are split.

    Args:
        rules: by frequency.
        dictionary: for each token in lower case, the number of its rule.
    """

    def __init__(self, rules: Sequence[Rule], dictionary: Mapping[str, int]) -> None:
        self.rules = rules
        self.dictionary = dictionary

    @classmethod
    def of(cls, tokens: Iterable[tuple[str, Sequence[str]]]) -> MultiwordTokens:
        """Learn from tokens and their words."""
        found: dict[str, Counter[tuple[str, tuple[str, ...]]]] = defaultdict(Counter)
        for token, words in tokens:
            found[token.lower()][token, tuple(words)] += 1
        usual = {lower: max(seen, key=lambda key: (seen[key], key)) for lower, seen in sorted(found.items())}
        possible = {lower: [find_rule(*pair, end) for end in (True, False)] for lower, pair in usual.items()}
        counts = Counter(rule for both in possible.values() for rule in set(both))
        chosen = {lower: max(both, key=lambda rule: counts[rule]) for lower, both in possible.items()}
        rules = [rule for rule, _ in Counter(chosen.values()).most_common()]
        number = {rule: i for i, rule in enumerate(rules)}
        return cls(rules, {lower: number[rule] for lower, rule in chosen.items()})

    def split(self, token: str) -> list[str] | None:
        """The words of a multiword token; None if no rule fits."""
        lower = token.lower()
        if (known := self.dictionary.get(lower)) is not None and (words := apply_rule(self.rules[known], token)):
            return words
        votes: dict[int, float] = defaultdict(float)
        for affix in _affixes(lower):
            seen = self._rules_of_affix.get(affix) or Counter[int]()
            for rule, count in seen.items():
                votes[rule] += len(affix[1]) * count / seen.total()
        for rule, _ in sorted(votes.items(), key=lambda vote: (-vote[1], vote[0])):
            if (words := apply_rule(self.rules[rule], token)) is not None:
                return words
        return None

    @cached_property
    def _rules_of_affix(self) -> Mapping[tuple[bool, str], Counter[int]]:
        counts: dict[tuple[bool, str], Counter[int]] = defaultdict(Counter)
        for token, rule in self.dictionary.items():
            for affix in _affixes(token):
                counts[affix][rule] += 1
        return counts

    def as_json(self) -> str:
        """Rules and dictionary as JSON."""
        return json.dumps({"rules": self.rules, "dictionary": self.dictionary}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> MultiwordTokens:
        """The inverse of `as_json`.

        Raises:
            ValueError: it is not of this form.
        """
        saved = json.loads(text)
        rules = [tuple((str(a), int(i), int(j), str(b)) for a, i, j, b in rule) for rule in saved["rules"]]
        dictionary = {str(token): int(rule) for token, rule in saved["dictionary"].items()}
        if dictionary and not 0 <= min(dictionary.values()) <= max(dictionary.values()) < len(rules):
            raise ValueError("the dictionary of multiword tokens names unknown rules")
        return cls(rules, dictionary)


def _affixes(token: str) -> list[tuple[bool, str]]:
    """Beginnings and endings of a token, and which of the two each is."""
    sizes = range(1, min(LONGEST_AFFIX, len(token)) + 1)
    return [(True, token[-size:]) for size in sizes] + [(False, token[:size]) for size in sizes]
