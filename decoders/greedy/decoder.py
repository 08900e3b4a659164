"""Greedy decoding of arcs and higher-order parts over all trees, projective or not.

Tchernowitz, Yedidsion and Reichart (2016), "Effective greedy inference for graph-based non-projective dependency
parsing". Arcs are added one by one to a forest T, the best first, until it is a tree. An arc e = (u, v) makes others
impossible, the lost arcs L(e): the other arcs into v, and those from below v into r, the top of u. G holds the arcs
that are left.

- BGI, Algorithm 1 (`partial=False`): loss(e) is the weight of all parts that are lost with e, gain(e) that of the parts
  which e completes, and the arc with the least `loss - gain` is added.
- BGI-PP, Algorithm 2: each part counts with the probability that it will be in the tree, p(part | T) = product of p_e
  over its arcs that are not in T, where p_e is the softmax of alpha times the arc scores of a word. loss(e) sums over
  the lost parts, gain(e) over those which hold e, given T and e; the arc with the least `beta loss - (1 - beta) gain`
  is added.
- Beam search, and improvements after the search (`improve`). `arbora.decoders.ensemble` has the paper's ensembles.

Differs from the paper:
- Gain: a part that holds both e and a lost arc is lost, and is not gained. Lines 4 and 5 of Algorithm 2 read as if it
  were counted in both.
- Parts count only while they are alive, that is, while all their arcs are in T or G, even if these make a cycle with T.
- Probabilities are those of all candidates; they are not normalised again as arcs get lost. p > 1 - 1e-6 counts as 1.
- States of the beam with the same arcs are merged; the one with the lower value stays.
- The final tree is the state of the beam with the best score, not the one with the lowest value.
- With a single root, all other arcs of the root are lost with the first.
- Parts that need arcs to be absent (`sibling`, `grand_sibling`, `tri_sibling`), which the paper leaves out, count
  unless `absent=False`: p(part | T, G) = product of p_e over present arcs not in T, and of 1 - p_e over absent ones in
  G. A part is lost when a present arc is lost or e is one of the absent arcs. The gain also counts what parts without e
  win in probability as absent arcs get lost: W (p(part | T, G \\ L) - p(part | T, G)). In Algorithm 1 such a part is
  complete when its arcs are in T and none of the absent ones is in G. All this is exact, not an estimate: no two arcs
  of one side change at once (except those of the root, which have a closed form), so two numbers per arc are enough,
  the expected weight of the parts that hold it and of those it would break. They are sums over pairs of modifiers.
- An arc after which no tree is left is deleted instead of added. A tree that extends T is kept as a witness, so that
  another one rarely needs to be searched. The search never ends without a tree.

Complexity for K candidate heads per word and J candidate modifiers per side. Each arc changes once, and tells the parts
that hold it: O(n K^2) in all, O(n K^3) with `grand_grandparent`. Values are kept from step to step. Valued again, in
O(K) and O(K) more for each word with which it could make a cycle, are words with a candidate arc that shares a part
with a changed one, or that comes from a word with a new top: O(K J) words per step, however long the sentence. A word
gets a new top at most as often as it is deep. Then one number per word is looked at, O(n^2) in all but with a tiny
constant. Siblings: a side is summed again when one of its arcs changes, O(n K J^2), J falling as arcs get lost;
`tri_sibling` O(n K J^3), `grand_sibling` O(n K^2 J^2). So time is near linear in n as long as K is fixed; where all
arcs are candidates, it grows with about the third power. All this is done for each state of the beam. A state with
several children is copied, which takes O(n K), with parts of third order O(n K^2), for words without a head, and about
a tenth of the time in long sentences. Memory: O(n K) for each state, O(n K^2) with parts of third order, and O(n^2).
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arbora.decoders.greedy.improvements import SWAPPED, improve_in_place, scored
from arbora.decoders.greedy.search import COUNTERS, Found, allocate_pool, search, value_forests
from arbora.decoders.greedy.state import Settings, allocate, chains_of
from arbora.decoders.kernels.threads import over_sentences
from arbora.decoders.mst import MST
from arbora.decoders.parts.batch import Parts
from arbora.decoders.settings import numeric
from arbora.decoders.trees import Decoder, Trees, rerank

ABSENT_ARCS = frozenset(
    ("sibling", "grand_sibling", "tri_sibling", "inner_sibling_grandchild", "outer_sibling_grandchild")
)
"""Kinds of parts that need some arcs to be absent."""


class Beam(NamedTuple):
    """Result of the search: up to `beam` trees for each of B sentences, best value first."""

    heads: NDArray[np.int32]  # (beam, B, N) as in `Trees.heads`; rows of -1 where the beam had fewer states
    value: NDArray[np.float64]  # (beam, B) sum of the values of the arcs when they were added, inf if there is no tree
    counters: dict[str, NDArray[np.int64]]  # as in `Trees.counters`


@dataclass(frozen=True)
class Greedy(Decoder):
    """Greedy search: adds the best arc to a forest until it is a tree. Fast for parts of any order, but without a
    bound.

    Counters: `steps` (forests whose arcs were all valued), `repairs` (arcs for which the witness had to change),
    `deleted` (arcs that left no tree), `duplicates` (forests found twice), `swaps` (improvements made).
    Only first-order trees in which each word has its best head are certified.

    Args:
        alpha: sharpness of the arc probabilities, which are the softmax of `alpha` times the arc scores of a word; 0
            makes all heads equally likely. Scores trained with cross-entropy are already sharp: 0.1 to 0.5 were better
            than 1 on development data.
        beta: weight of the losses of an arc, in 0..1; its gains have the weight 1 - beta.
        beam: number of forests that are extended in parallel.
        improvements: maximum number of arcs that are replaced after the search, always by the best replacement.
        partial: count parts that may still become complete (Algorithm 2); otherwise, only complete and lost parts
            (Algorithm 1), without `alpha` and `beta`.
        absent: count parts that need arcs to be absent. If False, as in the paper, such parts are ignored by the
            search, the choice among the trees of the beam, and the improvements. `Trees.score` always includes all
            parts.
        single_root: allow exactly one modifier of the root.
    """

    alpha: float = numeric(0.25, least=0)
    beta: float = numeric(0.6, least=0, most=1)
    beam: int = numeric(3, least=1, most=10_000)
    improvements: int = numeric(5, least=0)
    partial: bool = True
    absent: bool = True
    single_root: bool = True
    takes: ClassVar[frozenset[str]] = SWAPPED

    def check(self, parts: Parts) -> None:
        super().check(self._seen(parts))

    def decode(self, parts: Parts) -> Trees:
        seen = self._seen(parts)
        beam = self._search(seen)
        heads = rerank(seen, list(beam.heads)).heads
        swaps = improve_in_place(seen, heads, self.improvements, self.single_root)
        return scored(parts, heads, {**beam.counters, "swaps": swaps})

    def search(self, parts: Parts) -> Beam:
        """Run only the search, without improvements.

        Raises:
            NoTreeError: some sentences have no tree among their candidate arcs.
        """
        self.check(parts)
        return self._search(self._seen(parts).penalised())

    def _search(self, parts: Parts) -> Beam:
        layout, chains, settings = parts.layout, chains_of(parts), self._settings()
        B, N = parts.empty_trees().shape
        found = Found(
            np.full((self.beam, B, N), -1, dtype=np.int32),
            np.full((self.beam, B), np.inf),
            np.zeros((len(COUNTERS), B), dtype=np.int64),
            np.zeros(B, dtype=np.bool_),
        )

        def run(sentences: NDArray[np.int64]) -> None:
            room = allocate(sentences, layout, chains, settings)
            search(sentences, layout, chains, settings, *room, allocate_pool(self.beam, N), found)

        over_sentences(run, _steps(parts) * self.beam)
        if found.no_tree.any():
            MST(self.single_root)(parts)  # raises an error with the reasons
        return Beam(found.heads, found.value, dict(zip(COUNTERS, found.counters, strict=True)))

    def values(self, parts: Parts, forest: ArrayLike) -> NDArray[np.float64]:
        """Return the value of each arc that could be added to a forest; the search adds an arc with the lowest value.

        Args:
            parts: arcs and higher-order parts of a batch.
            forest: (B, N) as in `Trees.heads`, but -1 also for words without a head. Its arcs must be candidates.

        Returns:
            (A,) values; inf for arcs that are already in the forest, or with which it would be no forest.

        Raises:
            ValueError: the forest has a wrong shape, an arc that is not a candidate, a cycle, or, with a single root,
                several modifiers of the root.
        """
        self.check(parts)
        heads = np.ascontiguousarray(forest, dtype=np.int32)
        shape = parts.empty_trees().shape
        if heads.shape != shape:
            raise ValueError(f"forest must be {shape}, got {heads.shape}")
        sentence = np.repeat(np.arange(len(parts.lengths)), np.diff(parts.sentence_offsets))
        known = np.bincount(sentence[heads[sentence, parts.modifier] == parts.head], minlength=len(parts.lengths))
        if (wrong := known != (heads >= 0).sum(1)).any():
            raise ValueError(f"sentence {int(np.argmax(wrong))}: the forest has an arc that is not a candidate")
        above = np.maximum(heads, 0)
        for _ in range(heads.shape[1].bit_length()):  # twice as far up each time
            above = np.take_along_axis(above, above, axis=1)
        if (wrong := above.any(1)).any():
            raise ValueError(f"sentence {int(np.argmax(wrong))}: the forest has a cycle")
        if self.single_root and (wrong := (heads == 0).sum(1) > 1).any():
            raise ValueError(f"sentence {int(np.argmax(wrong))}: the forest has several modifiers of the root")
        seen = self._seen(parts).penalised()
        layout, chains, settings = seen.layout, chains_of(seen), self._settings()
        values = np.full(len(parts.head), np.inf)

        def run(sentences: NDArray[np.int64]) -> None:
            room = allocate(sentences, layout, chains, settings)
            value_forests(sentences, layout, chains, settings, *room, heads, values)

        over_sentences(run, _steps(seen))
        return values

    def _seen(self, parts: Parts) -> Parts:
        """Return the parts that count: all, or those that do not need absent arcs."""
        return parts if self.absent else parts.only(*(kind for kind in parts.kinds if kind not in ABSENT_ARCS))

    def _settings(self) -> Settings:
        # Convert to fixed types, since the kernel is compiled for each combination.
        return Settings(float(self.alpha), float(self.beta), bool(self.partial), bool(self.single_root), int(self.beam))


def _steps(parts: Parts) -> NDArray[np.float64]:
    """Estimate the innermost steps of the search for each sentence."""
    arcs = np.diff(parts.sentence_offsets).astype(np.float64)
    steps = arcs * 40
    for kind in parts.kinds:
        steps += np.diff(parts.part_offsets(kind)) * (8.0 if "sibling" in kind else 2.0)
    return steps
