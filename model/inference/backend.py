"""Interface of backends, which compute scores from numpy batches. Everything else in parsing uses numpy.

    batch (numpy) -> Backend.score -> BatchScores -> Parts -> decoder -> BatchScores.labels

`arbora.model.network.Network` is the torch backend. A backend may keep intermediate results anywhere, for example on a
GPU; `BatchScores` returns numpy arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from arbora.data.batch import Batch
from arbora.data.vocabulary import Vocabulary
from arbora.decoders import Decoder, Parts
from arbora.model.tokenizer.tokenizer import Tokenizer


class Tags(NamedTuple):
    """Tags of one column, as classes of `Vocabulary.tag_classes`."""

    classes: NDArray[np.int64]  # (W,) of the words of all sentences, one after the other
    probability: NDArray[np.float64] | None  # (W,) of each, if asked for


class BatchScores(Protocol):
    """Scores of one batch; each kind is computed when it is asked for."""

    def parts(self, decoder: Decoder, keep: NDArray[np.integer] | None = None) -> Parts:
        """Candidate parts for a decoder, scored.

        Args:
            decoder: the pruner leaves a tree that it can find.
            keep: (B, N) heads to keep among the candidates, -1 where there is none.
        """

    def arcs(self) -> NDArray[np.float32]:
        """(B, N, N) scores of all arcs. If they are computed, `parts` takes its scores from them."""

    def arc_rows(self) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Scores of all arcs of one long sentence, some words at a time: the first of them, and scores (words, N)."""

    def labels(self, heads: NDArray[np.integer]) -> NDArray[np.int64]:
        """(B, N) best label of each word's arc among those seen in training on arcs from the root, or from words.

        Args:
            heads: (B, N) as in `Trees.heads`; labels are 0 at the root and at padding.
        """

    def tags(self, probabilities: bool = False) -> dict[str, Tags]:
        """Return the best tags, features and lemma rules of words, by column; empty if the parser has no taggers."""

    def label_scores(self, heads: NDArray[np.integer], words: NDArray[np.bool_]) -> NDArray[np.float64]:
        """(words, L) log-probabilities of labels of some words' arcs, -inf for those that `labels` does not choose.

        Args:
            heads: (B, N) as in `Trees.heads`.
            words: (B, N) mask of these words.
        """

    def arc_labels(self, parts: Parts) -> NDArray[np.int32]:
        """(A,) best label of each candidate arc, chosen in the same way."""

    def pruner_arcs(self) -> NDArray[np.float32] | None:
        """(B, N, N) scores of all arcs by the pruner, if it prunes by marginals."""


class Backend(Protocol):
    """Computes the scores of batches."""

    vocabulary: Vocabulary
    tags: tuple[str, ...]  # columns read besides words
    predicts: tuple[str, ...]  # columns predicted besides heads and labels
    at_once: int  # batches that may be scored at a time
    temperature: tuple[float, float]  # temperatures of arcs and labels: divide scores to get probabilities
    decoder: Decoder  # the parser's own
    tokenizer: Tokenizer | None
    pruner: Any  # None if all arcs are candidates; has `max_heads` and `ratio` if it prunes by marginals

    @property
    def device(self) -> object:
        """Device on which scores are computed."""

    def score_only_arcs(self) -> None:
        """Leave parts of higher order out from now on."""

    def score(self, batch: Batch[Any]) -> BatchScores:
        """Read a batch of at least one sentence."""
