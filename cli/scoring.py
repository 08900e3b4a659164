"""Scores of a treebank from a trained parser, with the best label of every candidate arc, for `arbora compare`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arbora.data.batch import Batch, collate, cut, index_sentences
from arbora.data.conll import Sentence
from arbora.decoders import MST, Decoder, Eisner, Parts
from arbora.decoders.pruning import oracle, prune
from arbora.model.inference.backend import Backend, BatchScores
from arbora.model.inference.results import naming_sentences

HEADS = (1, 2, 3, 5, 10, 20)
RATIOS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
"""Settings of a pruner to try: numbers of heads with its own ratio, and ratios with the largest number of heads."""


class ScoredBatch(NamedTuple):
    """A batch of sentences with scores."""

    parts: Parts
    position: list[int]  # of its sentences in the treebank
    label: NDArray[np.int32]  # (A,) best label of each candidate arc


@dataclass
class Pass:
    """Scores sentences once for all decoders.

    Where the parser prunes, a tree with one root is kept if a decoder asks for one, and the best projective tree too,
    if there is a projective decoder, so that every decoder has a tree to find among the same candidates.
    """

    backend: Backend  # of the parser
    decoder: Decoder  # the pruner keeps a tree for it
    max_tokens: int = 4000  # size of a batch, in padded positions
    projective: bool = False  # keep the pruner's best projective tree among the candidates
    pruning: bool = False  # count the arcs that other settings of the pruner would keep
    _counts: dict[tuple[int, float], NDArray[np.int64]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        backend: Backend,
        max_tokens: int,
        single_root: bool,
        projective: bool,
        pruning: bool,
    ) -> Pass:
        """Score with a parser that is loaded."""
        marginals = hasattr(backend.pruner, "ratio")
        return cls(backend, MST(single_root=single_root), max_tokens, projective and marginals, pruning and marginals)

    @property
    def device(self) -> str:
        """Device on which scores are computed."""
        return str(self.backend.device)

    @property
    def labels(self) -> list[str]:
        """Names of labels."""
        return list(self.backend.vocabulary.labels)

    @property
    def pruner(self) -> dict[str, Any] | None:
        """Settings of the parser's pruner."""
        pruner: Any = self.backend.pruner
        if not hasattr(pruner, "ratio"):
            return None
        return {"max_heads": pruner.max_heads, "ratio": pruner.ratio, "projective_kept": self.projective}

    def __call__(self, sentences: Sequence[Sentence]) -> Iterator[ScoredBatch]:
        """Score sentences in batches, each of similar lengths."""
        for position, batch in self._batches(sentences):
            with naming_sentences([sentences[i] for i in position]):
                scores, parts = self._score(batch)
            if self.pruning:
                self._prune(scores, batch)
            yield ScoredBatch(parts, position, scores.arc_labels(parts))

    def seconds(self, sentences: Sequence[Sentence], repeats: int, advance: Callable[[int], None]) -> list[float]:
        """Seconds from sentences to scores and the labels of one tree, as in parsing; one figure for each run."""
        runs = []
        for _ in range(repeats):
            total = 0.0
            for position, batch, before in self._timed_batches(sentences):
                started = time.perf_counter()
                self._score(batch)[0].labels(batch.heads)
                total += time.perf_counter() - started + before
                advance(len(position))
            runs.append(total)
        return runs

    def _timed_batches(self, sentences: Sequence[Sentence]) -> Iterator[tuple[list[int], Batch[Any], float]]:
        """Yield batches, each with the seconds that it took to make it."""
        started = time.perf_counter()
        for position, batch in self._batches(sentences):
            yield position, batch, time.perf_counter() - started
            started = time.perf_counter()

    def _batches(self, sentences: Sequence[Sentence]) -> Iterator[tuple[list[int], Batch[Any]]]:
        vocabulary = self.backend.vocabulary
        indexed = index_sentences(sentences, vocabulary)
        for position in cut([len(sentence) for sentence in sentences], self.max_tokens):
            yield position, collate([indexed[i] for i in position], vocabulary)

    def _score(self, batch: Batch[Any]) -> tuple[BatchScores, Parts]:
        scores, keep = self.backend.score(batch), None
        if self.projective:
            arcs = scores.pruner_arcs()
            assert arcs is not None
            keep = Eisner(self.decoder.single_root)(Parts.from_dense(arcs, batch.lengths)).heads
        return scores, scores.parts(self.decoder, keep)

    def _prune(self, scores: BatchScores, batch: Batch[Any]) -> None:
        """Count the arcs that settings of the pruner keep, and the words whose gold head is kept."""
        arcs = scores.pruner_arcs()
        assert arcs is not None
        pruner: Any = self.backend.pruner
        single_root, present = self.decoder.single_root, pruner.ratio
        for setting in dict.fromkeys([*((k, present) for k in HEADS), *((HEADS[-1], ratio) for ratio in RATIOS)]):
            parts = Parts.from_dense(arcs, batch.lengths, prune(arcs, batch.lengths, *setting, single_root))
            right = int(oracle(parts, batch.heads, single_root).sum())
            found = np.array([right, len(parts.head), batch.lengths.sum()])
            self._counts[setting] = self._counts.get(setting, np.zeros(3, np.int64)) + found

    def pruning_rows(self) -> list[dict[str, float]] | None:
        """Return arcs per word and the best possible UAS for each setting."""
        rows = []
        for (max_heads, ratio), (right, arcs, words) in self._counts.items():
            row = {"max_heads": max_heads, "ratio": ratio, "arcs_per_word": float(arcs / words)}
            rows.append({**row, "oracle_uas": float(100 * right / words)})
        return rows or None
