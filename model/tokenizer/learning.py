"""Learning a tokenizer from a treebank, in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from arbora.data.conll import Sentence
from arbora.data.text import Token, tokens_of
from arbora.model.tokenizer import kernel
from arbora.model.tokenizer.characters import SPACE, Characters
from arbora.model.tokenizer.multiword import MultiwordTokens
from arbora.model.tokenizer.tokenizer import Tokenizer

BITS = (20, 20, 18)
"""Binary logarithms of the sizes of the three tables of weights."""

EPOCHS = 5
RATE = 0.2

DROPPED = 0.01
"""Share of the spaces between sentences that are left out in training: not every writer puts them."""

JOINED = 1_000
"""Pairs of characters of two kinds after which no token is ever expected to end between such, if none of them did."""

THRESHOLDS = sorted(np.arange(-2, 1.25, 0.25), key=abs)
"""Thresholds that are tried on the development part."""


class AnnotatedText:
    """The text of a treebank, with what ends where.

    Args:
        sentences: of CoNLL-U.
    """

    def __init__(self, sentences: Sequence[Sentence]) -> None:
        pieces, last, paragraphs, several = list[str](), list[int](), list[int](), list[int]()
        self.multiword = list[Token]()
        self.sentences = [0]  # first characters
        size = 0
        for sentence in sentences:
            if pieces and any(line.startswith(("# newpar", "# newdoc")) for line in sentence.lines):
                paragraphs += [size] * (len(self.sentences) - 1 - len(paragraphs))
            for token in tokens_of(sentence):
                pieces += token.form, token.space
                size += len("".join(token.form.split()))
                last.append(size - 1)
                if len(token.words) > 1:
                    several.append(size - 1)
                    self.multiword.append(token)
            self.sentences.append(size)
        paragraphs += [size] * (len(self.sentences) - 1 - len(paragraphs))
        self.characters = Characters.of("".join(pieces))
        self.paragraphs = np.array(paragraphs)  # end of the one that each sentence is in
        self.is_multiword, self.ends = (np.zeros(size, np.uint8) for _ in range(2))
        self.is_multiword[several] = 1
        self.ends[last] = kernel.TOKEN
        self.ends[np.array(self.sentences[1:]) - 1] = kernel.SENTENCE


def has_text(sentences: Sequence[Sentence]) -> bool:
    """Return whether the text of sentences is known: they are CoNLL-U, and most have the comment `# text`."""
    with_text = sum(any(line.startswith("# text =") for line in sentence.lines) for sentence in sentences)
    return 2 * with_text > len(sentences)


def learn_tokenizer(train: Sequence[Sentence], dev: Sequence[Sentence]) -> Tokenizer:
    """Learn a tokenizer.

    Args:
        train: sentences to learn from, in the order of the text.
        dev: sentences by which the thresholds of sentences and multiword tokens are chosen.
    """
    text = AnnotatedText(train)
    _, _, kind, gap = text.characters
    inside = text.ends[:-1] == kernel.INSIDE
    spaces = bool((gap[1:][inside] == 1).any())
    pairs = np.zeros((2, SPACE, SPACE), np.int64)  # of characters without a space between them
    np.add.at(pairs, (inside.astype(int), kind[:-1], kind[1:]), gap[1:] <= spaces)
    joined = (pairs[0] == 0) & (pairs[1] >= JOINED)
    tables = tuple(tuple(np.zeros(1 << bits, np.float32) for _ in range(3)) for bits in BITS)
    rng = np.random.default_rng(0)
    between = np.array(text.sentences[1:-1])
    for epoch in range(EPOCHS):
        spaced = text.characters._replace(gap=gap.copy())
        spaced.gap[between[rng.random(len(between)) < DROPPED]] = 0
        order = rng.permutation(len(train))
        known = text.paragraphs, np.array(text.sentences), text.ends, text.is_multiword
        kernel.learn(spaced, known, joined, spaces, order, tables, epoch, np.float32(RATE))
    averages = [weights + sums / EPOCHS for weights, _, sums in tables]
    weights = tuple(average.astype(np.float16).astype(np.float32) for average in averages)
    multiword = MultiwordTokens.of((token.form, token.words) for token in text.multiword)
    tokenizer = Tokenizer(weights, np.zeros(3, np.float32), joined, spaces, multiword)
    return _tuned(tokenizer, AnnotatedText(dev))


def _tuned(tokenizer: Tokenizer, text: AnnotatedText) -> Tokenizer:
    """The tokenizer with the thresholds that find most sentences and multiword tokens of a text."""
    best, thresholds = [-1.0, -float("inf")], np.zeros(3, np.float32)
    for threshold in THRESHOLDS:
        trial = replace(tokenizer, thresholds=np.array([0, threshold, threshold], np.float32))
        ends, multiword = _split(trial, text)
        wrong = np.count_nonzero(multiword != text.is_multiword)
        scores = _f1(text.ends, ends, kernel.SENTENCE), -float(wrong)
        for i, score in enumerate(scores):
            if score > best[i]:
                best[i], thresholds[i + 1] = score, threshold
    return replace(tokenizer, thresholds=thresholds)


def figures_of(tokenizer: Tokenizer, sentences: Sequence[Sentence]) -> tuple[float, float]:
    """F1 of the tokens and of the sentences that a tokenizer finds in the text of sentences, in percent."""
    text = AnnotatedText(sentences)
    ends, _ = _split(tokenizer, text)
    return _f1(text.ends, ends, kernel.TOKEN), _f1(text.ends, ends, kernel.SENTENCE)


def _split(tokenizer: Tokenizer, text: AnnotatedText) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the tokenizer's boundary after each character, and which tokens are multiword tokens."""
    ends, multiword = (np.zeros_like(text.ends) for _ in range(2))
    start = 0
    for end in np.unique(text.paragraphs).tolist():
        of_paragraph = tokenizer.split(text.characters.part(start, end), is_end=True)
        ends[start:end], multiword[start:end] = of_paragraph
        start = end
    return ends, multiword


def _f1(gold: NDArray[np.uint8], found: NDArray[np.uint8], kind: int) -> float:
    """F1 of what ends by two annotations, tokens or sentences, in percent."""
    last = [np.flatnonzero(ends >= kind) for ends in (gold, found)]
    one, two = (np.append(-1, ends[:-1]) * len(gold) + ends for ends in last)  # first and last character as one number
    return 200 * len(np.intersect1d(one, two)) / (len(one) + len(two))
