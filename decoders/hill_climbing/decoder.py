"""Hill-climbing from random trees, with parts of any order. It is fast and rarely misses the best tree, but has no
bound.

Zhang, Lei, Barzilay and Jaakkola (2014), "Greed is Good if Randomized: New Inference for Dependency Parsing". A climb
visits the words of the tree from the bottom up and gives each word the head that raises the score most, until no change
of a single head raises it. The best tree of many climbs is returned. The search is in `climb`, starting trees are drawn
in `random_trees`, and the gain of each head is computed in `gains` and `wide_gains`.

Differs from the paper:
- The first climb starts from the best tree under arc scores, unless `best_first` is off. This tree is computed anyway,
  to check that there is a tree; if arc scores dominate, its climb ends at or close to the best tree.
- A pass visits the words in post-order, lower words first, as the paper's released system (RBGParser) does. In the
  paper, the word furthest from the root comes first. Both orders visit a word after all words below it, as the paper's
  argument requires.
- A change must raise the score by more than a relative 1e-9; smaller differences may be rounding errors.
- With a single root, changing one head never moves the root. If no other change helps, a climb also tries to attach
  another word w to the root, and the old root word to w or a word below w.
- A word is visited again only if something changed that its choice depends on: modifiers or head of a candidate head,
  its own modifiers, words below it, and for head bigrams the heads of its neighbours. A candidate head is evaluated
  only if a bound on its parts does not rule it out. Neither changes the result of a climb. With kinds of `Wide`, such
  as tree features, all words are visited again after any change, and no head is ruled out.
- Restarts are independent of each other. In RBGParser, threads share a counter of restarts, so trees depend on timing.
  Here, neither threads nor the other sentences of the batch change a tree; of equal scores, the first restart wins.

A pass takes O(n K) steps for grandparents, neighbouring siblings and head bigrams, plus one for each modifier of a head
(`any_sibling`) or of a word (`grand_sibling`); `wide_gains` describes the other kinds. Memory O(n^2 / 64 + n K) per
thread, O(n^2) with a single root.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from arbora.decoders.hill_climbing.climb import COUNTERS, FOUND, RESTARTS, Results, Work, search
from arbora.decoders.hill_climbing.random_trees import BEST, LAWS, Starts
from arbora.decoders.kernels import threads
from arbora.decoders.kernels.threads import over_sentences
from arbora.decoders.mst import MST
from arbora.decoders.parts.batch import Parts
from arbora.decoders.parts.kinds import COMMON, KINDS
from arbora.decoders.settings import numeric
from arbora.decoders.trees import Decoder, Trees

NEVER = 2**62
STEPS = 40.0
"""Approximate number of steps of a climb for each arc and kind of part, for choosing the number of threads."""

CHUNK = 16
"""Number of restarts of a sentence in one piece of work, if restarts are distributed over threads."""


@dataclass(frozen=True)
class HillClimbing(Decoder):
    """Best tree of many climbs, each of which changes one head at a time. It is not always the best tree.

    Args:
        restarts: number of climbs; None to stop after `patience` climbs without a better tree.
        patience: number of climbs without a better tree after which to stop, if `restarts` is None. The paper uses 300;
            on scores of trained parsers, 30 found the same trees.
        start: starting trees of the climbs: drawn with equal probabilities (uniform), with probabilities proportional
            to the exponential of their arc scores (first_order), or the best tree under arc scores (best), for a single
            climb.
        best_first: start the first climb from the best tree under arc scores. This costs almost nothing, since this
            tree is computed anyway.
        temperature: divides arc scores before trees are drawn; values above 1 give more diverse trees.
        seed: seed of the random numbers.
        single_root: allow exactly one modifier of the root.
    """

    takes: ClassVar[frozenset[str]] = frozenset(KINDS)
    restarts: int | None = numeric(None, least=1)
    patience: int = numeric(30, least=1)
    start: Literal["uniform", "first_order", "best"] = "uniform"
    best_first: bool = True
    temperature: float = numeric(1.0, above=0)
    seed: int = numeric(0, least=-(2**63), most=2**63 - 1)
    single_root: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start not in LAWS:
            raise ValueError(f"start must be one of {', '.join(LAWS)}, got {self.start}")

    def decode(self, parts: Parts) -> Trees:
        first_order = MST(self.single_root)(parts)  # also finds the sentences without a tree
        count = len(parts.lengths)
        if not parts.kinds and (self.best_first or self.start == "best"):
            return replace(first_order, counters={name: np.zeros(count, dtype=np.int64) for name in COUNTERS})
        restarts = 1 if self.start == "best" else self.restarts
        climbs = restarts or self.patience + 1
        steps = STEPS * (1.0 + len(parts.kinds)) * np.diff(parts.sentence_offsets)  # of one climb
        workers = min(threads.get_num_threads(), int(climbs * steps.sum() // threads.STEPS_PER_THREAD))
        if climbs == 1 or count >= workers:
            firsts, lasts = np.zeros(count, dtype=np.int64), np.full(count, restarts or NEVER)
            work = Work(np.arange(count), firsts, lasts, NEVER if restarts else self.patience)
            heads, _, counts = self._run(parts, first_order.heads, work, climbs * steps)
        else:
            heads, counts = self._run_in_pieces(parts, first_order.heads, steps)
        counters = dict(zip(COUNTERS, counts.T[RESTARTS:]))
        return Trees(heads, parts.score(heads), None, np.zeros(count, dtype=np.bool_), counters)

    def _run(self, parts: Parts, best_trees: NDArray[np.int32], work: Work, steps: NDArray[np.float64]) -> Results:
        """Run pieces of work with these approximate numbers of steps."""
        count = len(work.sentences)
        results = Results(
            np.full((count, best_trees.shape[1]), -1, dtype=np.int32),
            np.empty(count),
            np.zeros((count, 1 + len(COUNTERS)), dtype=np.int64),
        )
        layout, law = parts.layout, LAWS[self.start]
        # None without such kinds: numba then compiles a kernel that does not know of them.
        wide = None if set(parts.kinds) <= set(COMMON) else parts.wide
        starts = Starts(law, law == BEST or self.best_first, self.temperature, self.seed % 2**63, self.single_root)

        def run(pieces: NDArray[np.int64]) -> None:
            search(layout, wide, best_trees, starts, work, pieces, results)

        over_sentences(run, steps)
        return results

    def _run_in_pieces(
        self, parts: Parts, best_trees: NDArray[np.int32], steps: NDArray[np.float64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Distribute the restarts of a few sentences over threads, with the same result as without threads.

        A restart is run only if the search cannot have stopped before it, and of equal trees the first is kept.
        """
        count = len(parts.lengths)
        heads = parts.empty_trees()
        score = np.full(count, -np.inf)
        counts = np.zeros((count, 1 + len(COUNTERS)), dtype=np.int64)
        while True:
            last = np.full(count, self.restarts) if self.restarts else counts[:, FOUND] + self.patience + 1
            pieces = [(b, j) for b in range(count) for j in range(counts[b, RESTARTS], last[b], CHUNK)]
            if not pieces:
                return heads, counts
            sentences, firsts = np.array(pieces).T.copy()
            work = Work(sentences, firsts, np.minimum(firsts + CHUNK, last[sentences]), NEVER)
            results = self._run(parts, best_trees, work, steps[sentences] * (work.lasts - firsts))
            for b, tree, value, new in zip(sentences, *results):
                counts[b, RESTARTS:] += new[RESTARTS:]
                if value > score[b]:
                    score[b], heads[b], counts[b, FOUND] = value, tree, new[FOUND]
