"""Parsers with pruners on word vectors computed in advance: only what comes after the encoder is timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from arbora.data.batch import Batch, batch_of, cut
from arbora.data.conll import Sentence
from arbora.decoders import Parts, Trees
from arbora.decoders.kernels.threads import get_num_threads
from arbora.decoders.pruning import oracle
from arbora.decoders.vine.searches import Criterion
from arbora.evaluation import Evaluation
from arbora.model.encoders.encoder import Between
from arbora.model.network import Network, NetworkScores
from arbora.model.pruners.vine import CascadePruner
from arbora.model.tensors import to_tensors

NO_LIMIT = 1 << 30

MAX_TOKENS = 4000
"""Positions of a batch."""

DENSE_TOKENS = 500
"""The same where all arcs of second or third order are scored: their parts take much memory."""

DENSE_ALONE = 40
"""Words from which sentences are then batches of their own."""

DISTANCES = {"root": 0, "1": 1, "2": 2, "3": 3, "4 to 7": 4, "8 to 15": 8, "16 and more": 16}
"""Groups of arcs by the distance of their words, by the least of each; arcs of the root are a group of their own."""

Decoded = tuple[list[int], NDArray[np.integer], Parts, Trees]
"""A batch: positions of its sentences in the file, gold heads, candidates, and trees."""


def now() -> float:
    """Seconds of CPU time if there is one thread, of time as it passes if there are several."""
    return time.process_time() if get_num_threads() == 1 else time.perf_counter()


class PrecomputedVectors(nn.Module):
    """Stands in the place of an encoder, and has vectors that were made before; the last layer makes them narrow.

    That layer sees words only, and no padding, as in an encoder.
    """

    def __init__(self, narrow: nn.Module) -> None:
        super().__init__()
        self.narrow = narrow
        self.vectors = self.words = self.places = torch.empty(0)

    def take(self, vectors: Tensor, batch: Batch[Tensor]) -> None:
        """Vectors (B, N, size) to give."""
        there = torch.arange(vectors.shape[1]) <= batch.lengths[:, None]
        self.vectors, self.words, self.places = vectors, vectors[there], there.flatten().nonzero().squeeze(1)

    def forward(self, batch: Batch[Tensor], between: Between | None = None) -> Tensor:
        """The vectors, whatever the batch; there are no layers."""
        if isinstance(self.narrow, nn.Identity):
            return self.vectors
        B, N, _ = self.vectors.shape
        words: Tensor = self.narrow(self.words)
        return words.new_zeros(B * N, words.shape[-1]).index_copy_(0, self.places, words).view(B, N, -1)


@dataclass
class Encoded:
    """Sentences as an encoder has read them: positions, batches, and vectors of words."""

    batches: list[tuple[list[int], Batch[Tensor], Tensor]]

    @property
    def words(self) -> int:
        """In all batches."""
        return sum(int(batch.lengths.sum()) for _, batch, _ in self.batches)


def groups(
    sentences: Sequence[Sentence], longest: int = NO_LIMIT, dense: bool = False, max_tokens: int = MAX_TOKENS
) -> Iterator[tuple[list[int], int]]:
    """Positions of the sentences up to a length, with the size of their batches.

    If all arcs of higher order are scored, this is at most `DENSE_TOKENS`, and long sentences are batches of their own.
    """
    for least, most in ((0, DENSE_ALONE), (DENSE_ALONE, NO_LIMIT)) if dense else ((0, NO_LIMIT),):
        chosen = [i for i, sentence in enumerate(sentences) if least < len(sentence) <= min(most, longest)]
        yield chosen, max_tokens if not dense else 1 if least else min(max_tokens, DENSE_TOKENS)


@dataclass
class Reader:
    """Encodes sentences with the encoder of a trained parser, but for the last layer, which is part of what is timed.

    Args:
        parser: whose; its encoder loses that layer.
        sentences: of the test part.
    """

    parser: Network
    sentences: Sequence[Sentence]
    _kept: dict[tuple[int, bool, int], Encoded] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.parser.encoder.narrow = nn.Identity()

    def read(self, longest: int = NO_LIMIT, dense: bool = False, max_tokens: int = MAX_TOKENS) -> Encoded:
        """All sentences up to a length, in batches; of at most `DENSE_TOKENS` if all higher-order parts are scored."""
        key = longest, dense, max_tokens
        if key not in self._kept:
            batches = []
            for chosen, size in groups(self.sentences, longest, dense, max_tokens):
                batches += self._read(chosen, size)
            self._kept[key] = Encoded(batches)
        return self._kept[key]

    @torch.no_grad()
    def _read(self, chosen: Sequence[int], max_tokens: int) -> list[tuple[list[int], Batch[Tensor], Tensor]]:
        """Some sentences, by their positions."""
        vocabulary = self.parser.vocabulary
        batches = []
        for places in cut([len(self.sentences[i]) for i in chosen], max_tokens):
            batch = to_tensors(batch_of([self.sentences[chosen[place]] for place in places], vocabulary))
            batches.append(([chosen[place] for place in places], batch, self.parser.encoder(batch)))
        return batches

    @torch.no_grad()
    def tune(self, parser: Network, criterion: Criterion, error: float) -> None:
        """Tune the alpha of a parser's cascade to another criterion by these sentences."""
        cascade = parser.pruner
        assert isinstance(cascade, CascadePruner)
        cascade.settings = replace(cascade.settings, criterion=criterion, error=error)
        batches = []
        for _, batch, wide in self.read().batches:
            vectors = parser.encoder.narrow(wide)
            batches.append(cascade.prepare(vectors, batch, NetworkScores(parser, batch, vectors).arc_scores))
        cascade.tune(batches, parser.decoder, lambda value, _: value)

    @torch.no_grad()
    def seconds(self, encoded: Encoded) -> float:
        """Time of the encoder only."""
        started = now()
        for _, batch, _ in encoded.batches:
            self.parser.encoder(batch)
        return now() - started


@dataclass
class Setup:
    """A parser with a pruner, on vectors that are there already.

    Args:
        name: in the tables.
        parser: with `PrecomputedVectors` for an encoder.
        encoded: the sentences, as the parser's own encoder has read them.
    """

    name: str
    parser: Network
    encoded: Encoded

    @classmethod
    def of(cls, name: str, parser: Network, encoded: Encoded) -> Setup:
        """Take the encoder out of a parser."""
        parser.encoder = PrecomputedVectors(parser.encoder.narrow)  # type: ignore[assignment]
        return cls(name, parser.eval(), encoded)

    def seconds(self, encoded: Encoded | None = None) -> float:
        """Time of everything after the encoder."""
        total = 0.0
        for _, batch, vectors in (encoded or self.encoded).batches:
            cast(PrecomputedVectors, self.parser.encoder).take(vectors, batch)
            started = now()
            self.parser.decoder(self.parser.score(batch).parts(self.parser.decoder))
            total += now() - started
        return total

    def figures(self, sentences: Sequence[Sentence]) -> dict[str, Any]:
        """Accuracy, and what the pruner leaves."""
        return figures(self._decoded(), sentences)

    def _decoded(self) -> Iterator[Decoded]:
        for places, batch, vectors in self.encoded.batches:
            cast(PrecomputedVectors, self.parser.encoder).take(vectors, batch)
            parts = self.parser.score(batch).parts(self.parser.decoder)
            yield places, batch.heads.numpy(), parts, self.parser.decoder(parts)


def by_distance(head: NDArray[np.integer], modifier: NDArray[np.integer]) -> NDArray[np.int64]:
    """Count arcs by the groups of `DISTANCES`."""
    distance = np.where(head == 0, 0, np.abs(head - modifier))
    return np.bincount(np.searchsorted(list(DISTANCES.values()), distance, side="right") - 1, minlength=len(DISTANCES))


def time_in_turn(
    timers: Mapping[str, Mapping[str, Callable[[], float]]], repeats: int
) -> dict[str, dict[str, list[float]]]:
    """Seconds of several sides at several sizes of batches, all in turn; the first run is not counted.

    Args:
        timers: by the side and the size.
        repeats: runs that count.
    """
    found: dict[str, dict[str, list[float]]] = {name: {size: [] for size in sizes} for name, sizes in timers.items()}
    for _ in range(repeats + 1):
        for name, sizes in timers.items():
            for size, seconds in sizes.items():
                found[name][size].append(seconds())
    return {name: {size: several[1:] for size, several in sizes.items()} for name, sizes in found.items()}


def figures(decoded: Iterable[Decoded], sentences: Sequence[Sentence]) -> dict[str, Any]:
    """Accuracy of decoded batches, and what their pruner left."""
    evaluation, arcs, squares, reachable, among_all, words, count = Evaluation(), 0, 0, 0, 0, 0, 0
    left, gold_left = np.zeros((2, len(DISTANCES)), np.int64)
    for places, gold_heads, parts, trees in decoded:
        for place, heads in zip(places, trees.heads):
            gold = sentences[place]
            evaluation.add(gold, heads[1 : len(gold) + 1].tolist(), list(gold.deprel))
        arcs += len(parts.head)
        squares += int((parts.lengths.astype(np.int64) ** 2).sum())
        reachable += int(oracle(parts, gold_heads, projective=True).sum())
        among_all += int(oracle(parts, gold_heads).sum())
        words += int(parts.lengths.sum())
        count += len(places)
        sentence = np.repeat(np.arange(len(places)), np.diff(parts.sentence_offsets))
        is_gold = gold_heads[sentence, parts.modifier] == parts.head
        left += by_distance(parts.head, parts.modifier)
        gold_left += by_distance(parts.head[is_gold], parts.modifier[is_gold])
    accuracy = evaluation.figures()
    return {
        "uas": accuracy["uas"],
        "without_punctuation": accuracy["without_punct_upos"]["uas"],
        "efficiency": 100 * (1 - arcs / squares),
        "arcs_per_word": arcs / words,
        "oracle_uas": 100 * reachable / words,
        "oracle_uas_of_all_trees": 100 * among_all / words,
        "arcs_by_distance": left.tolist(),
        "gold_by_distance": gold_left.tolist(),
        "words": words,
        "sentences": count,
    }
