"""Trees with the highest expected number of correct heads, instead of trees with the best score.

The best tree is the most probable one, but its heads are not always the most probable heads of their words. Here the
probability of each arc is computed first, and the tree has the highest sum of these: minimum Bayes risk decoding
(Goel and Byrne, 2000; for dependency trees, Titov and Henderson, 2006), where risk is the number of wrong heads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arbora.decoders.k_best import k_best
from arbora.decoders.marginals import arc_marginals
from arbora.decoders.mst import MST
from arbora.decoders.parts.batch import Parts
from arbora.decoders.projective.eisner import Eisner
from arbora.decoders.settings import numeric
from arbora.decoders.trees import Decoder, Trees

ABSENT = -1e30
"""Score of an arc that is no candidate, where marginals need a finite one; they take it as very low."""


@dataclass(frozen=True)
class MinimumRisk(Decoder):
    """Tree with the highest expected number of correct heads.

    Without `decoder`, probabilities of arcs are exact under arc scores, by the matrix-tree theorem. With a decoder,
    they are estimated from its k best trees, of any order. The trees have no bound and no certificate, since other
    trees may score more.

    Args:
        single_root: allow exactly one modifier of the root.
        decoder: finds the k best trees; its own `single_root` should be the same. None for exact probabilities under
            arc scores, without other parts.
        k: number of trees that the decoder finds.
        temperature: divides the scores; high temperatures make probabilities more even.
    """

    single_root: bool = True
    decoder: Decoder | None = None
    k: int = numeric(10, least=1)
    temperature: float = numeric(1.0, above=0)

    @property
    def takes(self) -> frozenset[str]:  # type: ignore[override]
        """Kinds of parts that it searches by."""
        return frozenset() if self.decoder is None else self.decoder.takes

    @property
    def projective(self) -> bool:  # type: ignore[override]
        """True if it finds only projective trees."""
        return self.decoder is not None and self.decoder.projective

    def ranking(self, parts: Parts) -> tuple[Decoder, Parts]:
        """Return a search by the sum of the probabilities of arcs."""
        probability = self._matrix_tree(parts) if self.decoder is None else self._of_k_best(self.decoder, parts)
        by = Eisner if self.projective else MST
        return by(single_root=self.single_root), parts.only().with_scores(arc_score=probability)

    def decode(self, parts: Parts) -> Trees:
        search, by = self.ranking(parts)
        heads = search(by).heads
        return Trees(heads, parts.score(heads), None, np.zeros(len(heads), dtype=np.bool_))

    def _matrix_tree(self, parts: Parts) -> NDArray[np.float64]:
        """(A,) exact marginals under arc scores."""
        size = int(parts.lengths.max(initial=0)) + 1
        sentence = np.repeat(np.arange(len(parts.lengths)), np.diff(parts.sentence_offsets))
        arc = np.full((len(parts.lengths), size, size), ABSENT, dtype=np.float32)
        arc[sentence, parts.modifier, parts.head] = parts.arc_score / self.temperature
        found: NDArray[np.float64] = arc_marginals(arc, parts.lengths, self.single_root)[
            sentence, parts.modifier, parts.head
        ]
        return found

    def _of_k_best(self, decoder: Decoder, parts: Parts) -> NDArray[np.float64]:
        """(A,) share of the k best trees that have each arc, weighted by exp(score / temperature)."""
        ranked = k_best(decoder, parts, self.k)
        _, by = decoder.ranking(parts)
        score = np.stack([by.score(trees.heads) for trees in ranked])  # (k, B), -inf where there is no tree
        best = score.max(0)
        weight = np.exp((score - np.where(np.isfinite(best), best, 0.0)) / self.temperature)
        weight /= np.maximum(weight.sum(0), np.finfo(np.float64).tiny)
        probability = np.zeros(len(parts.head))
        for trees, share in zip(ranked, weight, strict=True):
            fired = parts.only().active(trees.heads)["arc"]
            probability[fired] += share[np.searchsorted(parts.sentence_offsets, fired, side="right") - 1]
        return probability
