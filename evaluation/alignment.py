"""Scores of files whose tokenization may differ: those of the CoNLL 2018 shared task (Zeman et al. 2018).

Tokens and sentences are spans of the text without its spaces. Words that are tokens are aligned if their spans are the
same; around multiword tokens, words are aligned by the longest common subsequence of their forms. A score is F1: twice
the number of words that are right, over the words of both files.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from arbora.data.conll import ConllError, Format, Sentence, read_conll
from arbora.data.text import tokens_of
from arbora.evaluation.figures import CONTENT

FUNCTIONAL = {"aux", "case", "cc", "clf", "cop", "det", "mark"}

# fmt: off
UNIVERSAL_FEATURES = {
    "Abbr", "Animacy", "Aspect", "Case", "Definite", "Degree", "Evident", "Foreign", "Gender", "Mood", "Number",
    "NumType", "Person", "Polarity", "Polite", "Poss", "PronType", "Reflex", "Tense", "VerbForm", "Voice",
}
# fmt: on

ROOT, UNALIGNED = -1, -2


class Word(NamedTuple):
    """A word of a file."""

    form: str
    start: int  # of its token
    end: int
    is_multiword: bool
    lemma: str
    upos: str
    xpos: str
    feats: str  # universal ones only
    head: int  # number of a word in the file
    label: str  # without its subtype


class AlignableText:
    """The text of a file and its annotation.

    Args:
        sentences: of the file.
    """

    def __init__(self, sentences: Iterable[Sentence]) -> None:
        self.tokens: list[tuple[int, int]] = []
        self.sentences: list[tuple[int, int]] = []
        self.words: list[Word] = []
        self.places: list[str] = []  # of sentences, for messages
        pieces: list[str] = []
        end = 0
        for sentence in sentences:
            first, first_word, i = end, len(self.words), 0
            for form, words, _ in tokens_of(sentence):
                visible = "".join(c for c in form if unicodedata.category(c) != "Zs")
                pieces.append(visible)
                start, end = end, end + len(visible)
                self.tokens.append((start, end))
                for word in words:
                    head, feats = sentence.head[i], sentence.feats[i].split("|")
                    self.words.append(
                        Word(
                            word if len(words) > 1 else visible,
                            start,
                            end,
                            len(words) > 1,
                            sentence.lemma[i],
                            sentence.upos[i],
                            sentence.xpos[i],
                            "|".join(sorted(each for each in feats if each.partition("=")[0] in UNIVERSAL_FEATURES)),
                            first_word + head - 1 if head else ROOT,
                            sentence.deprel[i].partition(":")[0],
                        )
                    )
                    i += 1
            self.sentences.append((first, end))
            self.places.append(sentence.where())
        self.text = "".join(pieces)
        self.functional: list[list[int]] = [[] for _ in self.words]  # functional modifiers of each word
        for i, modifier in enumerate(self.words):
            if modifier.label in FUNCTIONAL and modifier.head != ROOT:
                self.functional[modifier.head].append(i)


def aligned_scores(gold: str | Path, system: str | Path, *, format: Format = "auto") -> dict[str, dict[str, Any]]:
    """Compare a file with its gold standard. Both must have the same text.

    Args:
        gold: treebank with the gold annotation.
        system: the same text, with other sentences, words, tags and trees.
        format: of both files, as for `read_conll`.

    Returns:
        F1, precision and recall of each score in percent; 0 if there is nothing to count.

    Raises:
        ConllError: a file cannot be read, or the two do not have the same text.
    """
    one, two = (AlignableText(read_conll(file, format=format)) for file in (gold, system))
    if one.text != two.text:
        raise _difference(one, two)
    pairs = align(one.words, two.words)
    aligned = dict.fromkeys(range(len(two.words)), UNALIGNED) | {s: g for g, s in pairs} | {ROOT: ROOT}
    g, s = one.words, two.words

    def in_gold(i: int) -> int:
        return i

    def tags(word: Word) -> tuple[str, ...]:
        return word.upos, word.xpos, word.feats

    def arc(word: Word, number: Callable[[int], int]) -> tuple[int, str]:
        return number(word.head), word.label

    def morphology(text: AlignableText, i: int, number: Callable[[int], int]) -> Any:
        word = text.words[i]
        below = [(number(m), *_tagged(text.words[m])) for m in text.functional[i]]
        return arc(word, number), word.upos, word.feats, below

    def same_lemma(i: int, j: int) -> bool:
        return g[i].lemma in ("_", s[j].lemma)

    def same_arc(i: int, j: int) -> bool:
        return arc(g[i], in_gold) == arc(s[j], aligned.__getitem__)

    right: dict[str, Callable[[int, int], bool]] = {
        "words": lambda i, j: True,
        "upos": lambda i, j: g[i].upos == s[j].upos,
        "xpos": lambda i, j: g[i].xpos == s[j].xpos,
        "ufeats": lambda i, j: g[i].feats == s[j].feats,
        "alltags": lambda i, j: tags(g[i]) == tags(s[j]),
        "lemmas": same_lemma,
        "uas": lambda i, j: g[i].head == aligned[s[j].head],
        "las": same_arc,
    }
    of_content: dict[str, Callable[[int, int], bool]] = {
        "clas": same_arc,
        "mlas": lambda i, j: morphology(one, i, in_gold) == morphology(two, j, aligned.__getitem__),
        "blex": lambda i, j: same_arc(i, j) and same_lemma(i, j),
    }
    content = [sum(word.label in CONTENT for word in words) for words in (g, s)]
    content_pairs = [(i, j) for i, j in pairs if g[i].label in CONTENT]
    return {
        "tokens": _score(len(set(one.tokens) & set(two.tokens)), len(one.tokens), len(two.tokens)),
        "sentences": _score(len(set(one.sentences) & set(two.sentences)), len(one.sentences), len(two.sentences)),
        **{name: _score(sum(same(*pair) for pair in pairs), len(g), len(s)) for name, same in right.items()},
        **{name: _score(sum(same(*pair) for pair in content_pairs), *content) for name, same in of_content.items()},
    }


def align(gold: list[Word], system: list[Word]) -> list[tuple[int, int]]:
    """Return the aligned pairs of words, in order."""
    pairs, g, s = list[tuple[int, int]](), 0, 0
    while g < len(gold) and s < len(system):
        one, two = gold[g], system[s]
        if one.is_multiword or two.is_multiword:
            g, s, next_g, next_s = _multiword_span(gold, system, g, s)
            pairs += [(g + i, s + j) for i, j in _common(gold[g:next_g], system[s:next_s])]
            g, s = next_g, next_s
        elif (one.start, one.end) == (two.start, two.end):
            pairs.append((g, s))
            g, s = g + 1, s + 1
        elif one.start <= two.start:
            g += 1
        else:
            s += 1
    return pairs


def _multiword_span(gold: list[Word], system: list[Word], g: int, s: int) -> tuple[int, int, int, int]:
    """Words of both sides around multiword tokens that overlap: first gold, first system, next gold, next system."""
    one, two = gold[g], system[s]
    end = one.end if one.is_multiword else two.end
    if one.is_multiword and not two.is_multiword and two.start < one.start:
        s += 1
    elif not one.is_multiword and one.start < two.start:
        g += 1
    first_g, first_s = g, s

    def is_behind(words: list[Word], i: int) -> bool:
        if i == len(words):
            return True
        return words[i].start >= end if words[i].is_multiword else words[i].end > end

    while not (is_behind(gold, g) and is_behind(system, s)):
        if g < len(gold) and (s == len(system) or gold[g].start <= system[s].start):
            word, g = gold[g], g + 1
        else:
            word, s = system[s], s + 1
        if word.is_multiword:
            end = max(end, word.end)
    return first_g, first_s, g, s


def _common(gold: list[Word], system: list[Word]) -> list[tuple[int, int]]:
    """Return the places of the longest common subsequence of forms; of several, the one with the earliest pairs."""
    one, two = ([word.form.lower() for word in words] for words in (gold, system))
    # length[g][s] = 1 + length[g + 1][s + 1] if the forms are the same, else max(length[g + 1][s], length[g][s + 1])
    length = [[0] * (len(two) + 1) for _ in range(len(one) + 1)]
    for g in reversed(range(len(one))):
        for s in reversed(range(len(two))):
            same = 1 + length[g + 1][s + 1] if one[g] == two[s] else 0
            length[g][s] = max(same, length[g + 1][s], length[g][s + 1])
    pairs, g, s = list[tuple[int, int]](), 0, 0
    while g < len(one) and s < len(two):
        if one[g] == two[s]:
            pairs.append((g, s))
            g, s = g + 1, s + 1
        elif length[g][s] == length[g + 1][s]:
            g += 1
        else:
            s += 1
    return pairs


def _tagged(word: Word) -> tuple[str, str, str]:
    return word.label, word.upos, word.feats


def _score(right: int, gold: int, system: int) -> dict[str, float]:
    return {
        "f1": 200 * right / (gold + system) if gold + system else 0.0,
        "precision": 100 * right / system if system else 0.0,
        "recall": 100 * right / gold if gold else 0.0,
    }


def _difference(gold: AlignableText, system: AlignableText) -> ConllError:
    """Return the error for two files that do not have the same text."""
    pairs = zip(gold.text, system.text)
    at = next((i for i, (one, two) in enumerate(pairs) if one != two), min(len(gold.text), len(system.text)))
    where, what = [], []
    for side in (gold, system):
        places = zip(side.sentences, side.places)
        where.append(next((place for (_, end), place in places if at < end), side.places[-1]))
        what.append(repr(side.text[at : at + 20]))
    return ConllError(
        f"{' and '.join(where)}: the text continues with {' and '.join(what)}; give files of the same text"
    )
