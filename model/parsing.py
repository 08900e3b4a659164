"""Sentences in, parsed or scored sentences out, with bounded memory; parsed ones in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from arbora.data.batch import Batch, collate, cut, encode
from arbora.data.conll import Sentence
from arbora.decoders import Parts, Trees
from arbora.decoders.greedy import lean
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


class Candidates(NamedTuple):
    """Sentences of one batch, and what a decoder finds their trees among."""

    sentences: list[Sentence]
    parts: Parts


def parse(
    parser: Parser, sentences: Iterable[Sentence], max_tokens: int = 4000, gamma: Sequence[float] = ()
) -> Iterator[Parsed]:
    """Parse a stream of sentences. While a batch is decoded, the next one is scored.

    Args:
        parser: a trained parser; it is used on the device where it is.
        sentences: read as far as a window of batches needs, so memory does not grow with their number.
        max_tokens: size of a batch, in positions of the padded batch.
        gamma: how much more parts of first, second and third order score that are in the trees which the sentences have
            already, those of another parser (an ensemble). Unless given, these trees are not looked at.
    """
    parser.eval()
    names = np.array(parser.vocabulary.labels, object)
    with ThreadPoolExecutor(1) as decoding:
        for window in _windows(sentences, max_tokens):
            parsed: list[Parsed | None] = [None] * len(window)
            for positions, vectors, trees in _decoded(parser, window, max_tokens, gamma, decoding):
                labels = names[parser.best_labels(vectors, _heads(trees, vectors.device)).cpu().numpy()]
                for b, i in enumerate(positions):
                    words = slice(1, len(window[i]) + 1)
                    entry = Parsed(window[i], trees.heads[b, words], labels[b, words].tolist(), float(trees.score[b]))
                    parsed[i] = entry
            yield from (entry for entry in parsed if entry is not None)


@torch.no_grad()
def _decoded(
    parser: Parser, window: list[Sentence], max_tokens: int, gamma: Sequence[float], decoding: ThreadPoolExecutor
) -> Iterator[tuple[list[int], Tensor, Trees]]:
    """Positions, word vectors and trees of each batch of a window."""
    waiting: tuple[list[int], Tensor, Future[Trees]] | None = None
    for positions, batch in _batches(parser, window, max_tokens):
        with naming([window[i] for i in positions]):
            vectors, arc = parser(batch)
            parts = parser.candidates(vectors, arc, batch, keep_heads=bool(gamma))
        if gamma:
            parts = lean(parts, batch.heads.cpu().numpy(), gamma)
        trees = decoding.submit(parser.decoder, parts)
        if waiting is not None:
            yield _wait(waiting, window)
        waiting = positions, vectors, trees
    if waiting is not None:
        yield _wait(waiting, window)


def _wait(waiting: tuple[list[int], Tensor, Future[Trees]], window: list[Sentence]) -> tuple[list[int], Tensor, Trees]:
    positions, vectors, trees = waiting
    with naming([window[i] for i in positions]):
        return positions, vectors, trees.result()


def _heads(trees: Trees, device: torch.device) -> Tensor:
    return torch.from_numpy(trees.heads).long().to(device)


def score(parser: Parser, sentences: Iterable[Sentence], max_tokens: int = 4000) -> Iterator[Candidates]:
    """Score a stream of sentences without decoding, so that decoders can be tried on the same scores.

    Args:
        parser: a trained parser; where it prunes, it keeps a tree for the decoder that it has.
        sentences: read as far as a window of batches needs. Within a window, the longest come first.
        max_tokens: size of a batch, in positions of the padded batch.
    """
    parser.eval()
    for window in _windows(sentences, max_tokens):
        for positions, batch in _batches(parser, window, max_tokens):
            chosen = [window[i] for i in positions]
            with naming(chosen):
                parts = parser.score(batch)
            yield Candidates(chosen, parts)


@contextmanager
def naming(sentences: Sequence[Sentence]) -> Iterator[None]:
    """Say in what file a batch stands of which something is wrong."""
    try:
        yield
    except ValueError as error:
        where = ", ".join(sentence.where() for sentence in sentences[:3])
        raise ValueError(f"{where}{', ...' if len(sentences) > 3 else ''}: {error}") from error


def _windows(sentences: Iterable[Sentence], max_tokens: int) -> Iterator[list[Sentence]]:
    window: list[Sentence] = []
    words = 0
    for sentence in sentences:
        window.append(sentence)
        words += len(sentence)
        if words >= WINDOW * max_tokens:
            yield window
            window, words = [], 0
    yield window


def _batches(parser: Parser, window: list[Sentence], max_tokens: int) -> Iterator[tuple[list[int], Batch]]:
    """Batches of a window on the parser's device, each with the positions of its sentences."""
    encoded = [encode(sentence, parser.vocabulary) for sentence in window]
    for positions in cut([len(sentence) for sentence in window], max_tokens):
        yield positions, collate(encoded, positions, parser.vocabulary).to(parser.device)
