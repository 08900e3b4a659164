"""Lemmas as classes: rules that make a lemma out of a form.

Straka (2018), "UDPipe 2.0 prototype at CoNLL 2018 UD shared task". A rule has two scripts. The edit script turns the
lower-cased form into the lower-cased lemma: their longest common substring stays, and what comes before and after it is
edited by as few steps as possible, counted from the start and from the end. The casing script then says from which
characters on the lemma is in upper or lower case. Where form and lemma share nothing, the rule is the lemma itself.

    Walked -> walk     :|--            delete the last two characters
    nyc -> NYC         U0:|            change the case only
    paris -> Paris     U0L1:|          lower case from the second character on
    went -> go         =go

Rules are strings, so that a vocabulary can list them. `>` keeps a character, `-` deletes one, `+x` inserts x; `|` is
what stays in the middle.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import lru_cache

LONGEST = 100
"""Longest form or lemma; beyond this, the rule is the lemma itself."""

_CASING = re.compile(r"([UL])(-?\d+)")


@lru_cache(maxsize=1 << 16)
def lemma_rule(form: str, lemma: str) -> str:
    """Return the rule that turns this form into this lemma; `apply_rule` is its inverse for every pair."""
    if max(len(form), len(lemma)) <= LONGEST:
        source, target = _lower(form), _lower(lemma)
        shared = SequenceMatcher(None, source, target, autojunk=False).find_longest_match()
        if shared.size:
            before = _edits(source[: shared.a], target[: shared.b])
            after = _edits(source[shared.a + shared.size :], target[shared.b + shared.size :])
            rule = f"{_casing(lemma)}:{before}|{after}"
            if apply_rule(form, rule) == lemma:
                return rule
    return f"={lemma}"


@lru_cache(maxsize=1 << 15)
def apply_rule(form: str, rule: str) -> str | None:
    """Apply a rule to a form; None if the form is too short for it, or nothing would be left."""
    if rule.startswith("="):
        return rule[1:]
    casing, _, script = rule.partition(":")
    before, after = _split(script)
    start, end = _consumed(before), len(form) - _consumed(after)
    if start > end:
        return None
    source = _lower(form)
    lemma = _edit(source[:start], before) + source[start:end] + _edit(source[end:], after)
    runs = [(case, at if at >= 0 else max(len(lemma) + at, 0)) for case, at in _runs(casing)]
    for (case, at), (_, end) in zip(runs, [*runs[1:], ("", len(lemma))]):
        if case == "U":
            lemma = lemma[:at] + _upper(lemma[at:end]) + lemma[max(at, end) :]
    return lemma or None


@lru_cache(maxsize=1 << 10)
def _runs(casing: str) -> tuple[tuple[str, int], ...]:
    """Return the places at which upper and lower case begin."""
    return tuple((case, int(place)) for case, place in _CASING.findall(casing))


def _lower(text: str) -> str:
    """Lower case, one character for each: those that become several, such as `İ`, stay."""
    return "".join(lower if len(lower := character.lower()) == 1 else character for character in text)


def _upper(text: str) -> str:
    return "".join(upper if len(upper := character.upper()) == 1 else character for character in text)


def _casing(lemma: str) -> str:
    """Return the casing script: where upper and lower case begin, counted from the end in the second half."""
    script, previous = "", "L"
    for i, character in enumerate(lemma):
        case = "U" if _lower(character) != character else "L"
        if case == "L" and previous == "U" and _upper(character) == character:
            continue  # a digit or a hyphen inside of upper case
        if case != previous:
            script += f"{case}{i if 2 * i <= len(lemma) else i - len(lemma)}"
        previous = case
    return script


def _edits(source: str, target: str) -> str:
    """Return the smallest number of deletions and insertions that turn one string into another."""
    # cost[i][j]: steps from source[i:] to target[j:]
    cost = [[0] * (len(target) + 1) for _ in range(len(source) + 1)]
    for i in range(len(source), -1, -1):
        for j in range(len(target), -1, -1):
            if i == len(source) or j == len(target):
                cost[i][j] = len(source) - i + len(target) - j
            elif source[i] == target[j]:
                cost[i][j] = cost[i + 1][j + 1]
            else:
                cost[i][j] = 1 + min(cost[i + 1][j], cost[i][j + 1])
    script, i, j = "", 0, 0
    while i < len(source) or j < len(target):
        if i < len(source) and j < len(target) and source[i] == target[j]:
            script, i, j = script + ">", i + 1, j + 1
        elif i < len(source) and cost[i][j] == 1 + cost[i + 1][j]:
            script, i = script + "-", i + 1
        else:
            script, j = script + "+" + target[j], j + 1
    return script


def _steps(script: str) -> list[str]:
    """`>`, `-`, `|` or `+x` each."""
    return re.findall(r"\+.|[>|-]", script, re.DOTALL)


@lru_cache(maxsize=1 << 14)
def _split(script: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Steps before and after what stays."""
    steps = _steps(script)
    middle = steps.index("|")
    return tuple(steps[:middle]), tuple(steps[middle + 1 :])


def _consumed(steps: tuple[str, ...]) -> int:
    return sum(step in (">", "-") for step in steps)


def _edit(source: str, steps: tuple[str, ...]) -> str:
    left, edited = iter(source), ""
    for step in steps:
        if step == ">":
            edited += next(left)
        elif step == "-":
            next(left)
        else:
            edited += step[1]
    return edited
