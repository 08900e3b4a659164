"""Scores of a treebank from a trained parser, with the best label of every candidate arc, for `arbora compare`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from arbora.cli.predict import find_device
from arbora.data.batch import Batch, collate, cut, encode
from arbora.data.conll import Sentence
from arbora.decoders import MST, Eisner, Parts
from arbora.decoders.pruning import oracle, prune
from arbora.model import Parser, load
from arbora.model.inference.stream import naming
from arbora.model.pruners.marginal import MarginalPruner
from arbora.model.scorers.biaffine import with_one

CELLS = 1 << 23
"""Most label scores held at a time."""

HEADS = (1, 2, 3, 5, 10, 20)
RATIOS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
"""Settings of a pruner that are looked at: numbers of heads, with the ratio that it has, and ratios with most heads."""


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

    Args:
        parser: on its device.
        max_tokens: size of a batch, in positions when padded.
        projective: keep the pruner's best projective tree among the candidates.
        pruning: see what other settings of the pruner would leave.
    """

    parser: Parser
    max_tokens: int = 4000
    projective: bool = False
    pruning: bool = False
    _counts: dict[tuple[int, float], NDArray[np.int64]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        checkpoint: str,
        device: str,
        threads: int,
        max_tokens: int,
        single_root: bool,
        projective: bool,
        pruning: bool,
    ) -> Pass:
        """Load a parser to score with."""
        torch.set_num_threads(threads)
        parser = load(checkpoint)
        parser.decoder = MST(single_root=single_root)  # the pruner keeps a tree for it
        parser.to(find_device(device))
        marginals = isinstance(parser.pruner, MarginalPruner)
        return cls(parser, max_tokens, projective and marginals, pruning and marginals)

    @property
    def device(self) -> torch.device:
        """Where scores are computed."""
        return self.parser.device

    @property
    def labels(self) -> list[str]:
        """Names of labels."""
        return list(self.parser.vocabulary.labels)

    @property
    def pruner(self) -> dict[str, Any] | None:
        """What the parser prunes by."""
        pruner = self.parser.pruner
        if not isinstance(pruner, MarginalPruner):
            return None
        return {"max_heads": pruner.max_heads, "ratio": pruner.ratio, "projective_kept": self.projective}

    @torch.no_grad()
    def __call__(self, sentences: Sequence[Sentence]) -> Iterator[ScoredBatch]:
        """Score sentences in batches, each of similar lengths."""
        for position, batch in self._batches(sentences):
            with naming([sentences[i] for i in position]):
                vectors, parts = self._parts(batch)
            label = best_arc_labels(self.parser, vectors, parts)
            if self.pruning:
                self._prune(vectors, batch)
            yield ScoredBatch(parts, position, label)

    @torch.no_grad()
    def seconds(self, sentences: Sequence[Sentence], repeats: int, advance: Callable[[int], None]) -> list[float]:
        """Time from sentences to scores, and labels of one tree, as parsing takes it; each of some runs."""
        runs = []
        for _ in range(repeats):
            total = 0.0
            for position, batch, before in self._timed_batches(sentences):
                started = time.perf_counter()
                vectors, _ = self._parts(batch)
                self.parser.best_labels(vectors, batch.heads).label.cpu()
                total += time.perf_counter() - started + before
                advance(len(position))
            runs.append(total)
        return runs

    def _timed_batches(self, sentences: Sequence[Sentence]) -> Iterator[tuple[list[int], Batch, float]]:
        """Batches, each with the time that it took to make."""
        started = time.perf_counter()
        for position, batch in self._batches(sentences):
            yield position, batch, time.perf_counter() - started
            started = time.perf_counter()

    def _batches(self, sentences: Sequence[Sentence]) -> Iterator[tuple[list[int], Batch]]:
        self.parser.eval()
        vocabulary = self.parser.vocabulary
        encoded = [encode(sentence, vocabulary) for sentence in sentences]
        for position in cut([len(sentence) for sentence in sentences], self.max_tokens):
            yield position, collate(encoded, position, vocabulary).to(self.parser.device)

    def _parts(self, batch: Batch) -> tuple[Tensor, Parts]:
        vectors, arc = self.parser.encode(batch)
        if not self.projective or not isinstance(self.parser.pruner, MarginalPruner):
            return vectors, self.parser.candidates(vectors, arc, batch)
        scores = self.parser.pruner(vectors, batch).cpu().numpy()
        lengths = batch.lengths.cpu().numpy()
        best = Eisner(self.parser.decoder.single_root)(Parts.from_dense(scores, lengths)).heads
        kept = replace(batch, heads=torch.from_numpy(best).long().to(batch.heads.device))
        return vectors, self.parser.candidates(vectors, arc, kept, keep_heads=True)

    def _prune(self, vectors: Tensor, batch: Batch) -> None:
        """Count arcs that settings of the pruner leave, and words that could then have their right head."""
        assert isinstance(self.parser.pruner, MarginalPruner)
        scores = self.parser.pruner(vectors, batch).cpu().numpy()
        lengths, heads = batch.lengths.cpu().numpy(), batch.heads.cpu().numpy()
        single_root = self.parser.decoder.single_root
        own = self.parser.pruner.ratio
        for setting in dict.fromkeys([*((k, own) for k in HEADS), *((HEADS[-1], ratio) for ratio in RATIOS)]):
            mask = prune(scores, lengths, *setting, single_root)
            parts = Parts.from_dense(scores, lengths, mask)
            found = [int(oracle(parts, heads, single_root).sum()), len(parts.head), int(lengths.sum())]
            self._counts[setting] = self._counts.get(setting, np.zeros(3, np.int64)) + np.array(found)

    def pruning_rows(self) -> list[dict[str, float]] | None:
        """What was counted: for each setting arcs a word, and the best UAS that is possible."""
        rows = []
        for (max_heads, ratio), (right, arcs, words) in self._counts.items():
            row = {"max_heads": max_heads, "ratio": ratio, "arcs_per_word": float(arcs / words)}
            rows.append({**row, "oracle_uas": float(100 * right / words)})
        return rows or None


def best_arc_labels(parser: Parser, vectors: Tensor, parts: Parts) -> NDArray[np.int32]:
    """(A,) best label of each candidate arc among those seen in training on arcs from the root, or from words.

    Args:
        parser: whose labels they are.
        vectors: (B, N, size) of words.
        parts: candidate arcs.
    """
    scorer = parser.label
    head, modifier = with_one(scorer.head(vectors)), scorer.modifier(vectors)
    size, longest, _ = head.shape
    best = torch.zeros(size, longest, longest, dtype=torch.int32, device=vectors.device)  # [b, m, h]
    rows = max(1, CELLS // (size * longest * scorer.labels))
    forbidden = ~parser.label_allowed  # (2, L), 1 for arcs from the root
    for start in range(0, longest, rows):
        weighted = scorer.weigh(modifier[:, start : start + rows])
        scores = (weighted @ head[:, None].transpose(-1, -2)).float()  # (B, rows, L, N)
        scores[..., :1].masked_fill_(forbidden[1, :, None], -torch.inf)
        scores[..., 1:].masked_fill_(forbidden[0, :, None], -torch.inf)
        best[:, start : start + rows] = scores.argmax(2).int()
    sentence = np.repeat(np.arange(size), np.diff(parts.sentence_offsets))
    return best.cpu().numpy()[sentence, parts.modifier, parts.head]
