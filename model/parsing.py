"""Sentences in, parsed sentences out, in order and with bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arbora.data.batch import collate, cut, encode
from arbora.data.conll import Sentence
from arbora.model.parser import Parser

WINDOW = 20
"""Batches that are read ahead, so that sentences of similar length come together."""


class Parsed(NamedTuple):
    """A sentence of n words with what the parser found."""

    sentence: Sentence
    heads: NDArray[np.int32]  # (n,) 0..n
    labels: list[str]
    score: float

    @property
    def text(self) -> str:
        """The sentence in the format in which it was read, HEAD and DEPREL replaced."""
        return self.sentence.with_tree(self.heads.tolist(), self.labels)


def parse(parser: Parser, sentences: Iterable[Sentence], max_tokens: int = 4000) -> Iterator[Parsed]:
    """Parse a stream of sentences.

    Args:
        parser: a trained parser; it is used on the device where it is.
        sentences: read as far as a window of batches needs, so memory does not grow with their number.
        max_tokens: size of a batch, in positions of the padded batch.
    """
    parser.eval()
    window: list[Sentence] = []
    words = 0
    for sentence in sentences:
        window.append(sentence)
        words += len(sentence)
        if words >= WINDOW * max_tokens:
            yield from _parse_window(parser, window, max_tokens)
            window, words = [], 0
    yield from _parse_window(parser, window, max_tokens)


def _parse_window(parser: Parser, window: list[Sentence], max_tokens: int) -> Iterator[Parsed]:
    encoded = [encode(sentence, parser.vocabulary) for sentence in window]
    parsed: list[Parsed | None] = [None] * len(window)
    names = np.array(parser.vocabulary.labels, object)
    for positions in cut([len(sentence) for sentence in window], max_tokens):
        batch = collate(encoded, positions, parser.vocabulary).to(parser.device)
        try:
            found = parser.parse(batch)
        except ValueError as error:
            where = ", ".join(window[i].where() for i in positions[:3])
            raise ValueError(f"{where}{', ...' if len(positions) > 3 else ''}: {error}") from error
        labels = names[found.labels.numpy()]
        for b, i in enumerate(positions):
            words = slice(1, len(window[i]) + 1)
            score = float(found.trees.score[b])
            parsed[i] = Parsed(window[i], found.trees.heads[b, words], labels[b, words].tolist(), score)
    yield from (entry for entry in parsed if entry is not None)
