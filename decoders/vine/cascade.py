"""Projective search from coarse to fine: a vine, first order, second order, and the whole model on what they leave.

Rush and Petrov (2012), "Vine pruning for efficient multi-pass dependency parsing". Each stage takes the arcs that those
before it left, finds for each of them the best score of a tree with it, and drops those below a threshold, as `cascade`
has it. The last one is `Projective` with all parts.

Differs from the paper: stages have no models of their own, but see a tree better than it is. The second order has arcs
and siblings, to which the best is added that grandparents could give; the first order has arcs, to which the best is
added that siblings could; in the vine an outer head scores as the best of the arcs that it stands for, and outer
modifiers score nothing. So no stage scores a tree below its true score, and a bound on the trees that were lost comes
for free: a tree is lost with one of its arcs, and scores no more than the best tree with that arc did in the stage that
dropped it. Where the tree that is found scores as much as any arc that was dropped, it is the best of all projective
trees.

Further: the threshold of the vine is one of candidate arcs, not of its own. A long arc of m is worth what the best
structure with an outer head of m is, less the distance of the arc to the one which that outer head scores as; or what
the best structure is in which its head has an outer modifier, if that is less. The best structure of a vine need not be
a tree: a sentence that is left without one goes on with all its arcs. The threshold follows the mean, so it cuts into
candidates that are few and good already, where there is no time to save either: such sentences skip the stages (`few`).

Stages see arc scores relative to the best one of each word, and thresholds are relative to the distance from the mean
to the best, so that neither trees nor certificates depend on the origin or the unit of the scores.

Time: one step for each part for the optimistic scores, O(n b^2) for a vine of band b, then as in `projective_siblings`
and `projective_grandparents` for the arcs that are left. Memory as for these, and for the parts that are left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numba
import numpy as np
from numpy.typing import NDArray

from arbora.decoders.kernels.options import FILLING, HELPER, KERNEL
from arbora.decoders.kernels.threads import over_sentences
from arbora.decoders.parts.batch import Parts
from arbora.decoders.parts.layout import sibling_at
from arbora.decoders.projective.decoder import Projective
from arbora.decoders.projective.feasibility import has_tree, require_tree
from arbora.decoders.projective.marginals import max_marginals
from arbora.decoders.settings import numeric
from arbora.decoders.trees import Decoder, NoTreeError, Trees
from arbora.decoders.vine.candidates import restrict, sentence_of_arcs
from arbora.decoders.vine.structures import Indices, VineScores, vine_max_marginals
from arbora.decoders.vine.thresholds import surviving_arcs

Stage = Callable[[Parts], NDArray[np.float64]]
"""From what is left to (A,), the most that a projective tree with each arc scores."""


LARGEST = np.float32(np.finfo(np.float32).max)


@dataclass(frozen=True)
class VineCascade(Decoder):
    """Projective tree under arcs, siblings, grandparents and grand-siblings by a pruning cascade; usually the best one.

    `bound` and `certified` of its trees refer to projective trees. Counters: `arcs` (candidate arcs of the last search)
    and `stages` (stages before it).

    Args:
        single_root: allow exactly one modifier of the root.
        few: a sentence with at most this many candidate arcs per word skips the stages.
        band: length up to which the vine scores arcs one by one; it treats longer arcs as outer arcs.
        vine_alpha: threshold of the vine stage: 0 removes the arcs below the mean of its bounds, 1 all arcs outside of
            its best structure, and values below 0 fewer arcs; null leaves the stage out.
        first_alpha: the same for the first-order stage.
        second_alpha: the same for the second-order stage, which runs only if there are grandparents, and siblings or
            grand-siblings.
    """

    projective: ClassVar[bool] = True
    takes: ClassVar[frozenset[str]] = Projective.takes
    single_root: bool = True
    few: float = numeric(8.0, least=0)
    band: int = numeric(5, least=1, most=1_000_000)
    vine_alpha: float | None = numeric(0.0, most=1)
    first_alpha: float | None = numeric(0.4, most=1)
    second_alpha: float | None = numeric(0.7, most=1)

    def decode(self, parts: Parts) -> Trees:
        try:
            return self._search(parts)
        except NoTreeError:
            require_tree(parts, self.single_root)  # names the sentence by its place in the batch
            raise

    def _search(self, parts: Parts) -> Trees:
        count = len(parts.lengths)
        heads, score, lost = parts.empty_trees(), np.empty(count), np.full(count, -np.inf)
        counters = {name: np.zeros(count, dtype=np.int64) for name in ("arcs", "stages")}
        left, rows = parts, np.arange(count)  # sentences that have not been searched yet
        peak: NDArray[np.float32] | None = None
        for stage, alpha in self._stages(parts):
            wide = np.diff(left.sentence_offsets) > self.few * left.lengths
            if not wide.all():
                self._finish(left if not wide.any() else left.subset(~wide), rows[~wide], heads, score, counters)
                if not wide.any():
                    break
                if peak is not None:
                    peak = peak[np.repeat(wide, left.lengths)]
                left, rows = left.subset(wide), rows[wide]
            if peak is None:
                peak = _peaks(left)  # before any arcs are pruned
            bounds = stage(left.with_scores(arc_score=_below_peaks(left, peak)))
            left, lost[rows] = self._prune(left, bounds, alpha, lost[rows], always=stage != self._vine)
            counters["stages"][rows] += 1
        else:
            self._finish(left, rows, heads, score, counters)
        certified, bound = _compare(parts, heads, score, lost)
        return Trees(heads, score, bound, certified, counters)

    def _stages(self, parts: Parts) -> list[tuple[Stage, float]]:
        """The stages that are there, each with its alpha."""
        grand = parts.grandparent is not None or parts.grand_sibling is not None
        siblings = parts.sibling is not None or parts.grand_sibling is not None
        second_alpha = self.second_alpha if grand and siblings else None
        alphas = (self._vine, self.vine_alpha), (self._first, self.first_alpha), (self._second, second_alpha)
        return [(stage, alpha) for stage, alpha in alphas if alpha is not None]

    def _finish(
        self,
        left: Parts,
        rows: NDArray[np.int64],
        heads: NDArray[np.int32],
        score: NDArray[np.float64],
        counters: dict[str, NDArray[np.int64]],
    ) -> None:
        """Search by all parts, and write what is found to the rows of these sentences."""
        trees = Projective(self.single_root)(left)
        heads[rows, : trees.heads.shape[1]] = trees.heads
        score[rows] = trees.score
        counters["arcs"][rows] = np.diff(left.sentence_offsets)

    def _vine(self, parts: Parts) -> NDArray[np.float64]:
        arcs, rest = optimistic_arcs(parts)
        vine = vine_of(arcs, self.band)
        _, marginals = vine_max_marginals(vine, self.single_root, required=False)
        return vine_bounds(arcs, vine, marginals) + rest[sentence_of_arcs(parts)]

    def _first(self, parts: Parts) -> NDArray[np.float64]:
        arcs, rest = optimistic_arcs(parts)
        return max_marginals(arcs, self.single_root) + rest[sentence_of_arcs(parts)]

    def _second(self, parts: Parts) -> NDArray[np.float64]:
        return max_marginals(optimistic_siblings(parts), self.single_root)

    def _prune(
        self, parts: Parts, bounds: NDArray[np.float64], alpha: float, lost: NDArray[np.float64], always: bool
    ) -> tuple[Parts, NDArray[np.float64]]:
        """The arcs that a stage leaves, and the best that a tree can score that it drops, or that was lost before.

        Unless a tree is always left, sentences that would be left without one keep all their arcs.
        """
        sentence = sentence_of_arcs(parts)
        keep = surviving_arcs(parts, bounds, alpha)
        if keep.all():
            return parts, lost
        left = restrict(parts, keep, parts.kinds)
        if not always and not (found := has_tree(left, self.single_root)).all():
            keep |= ~found[sentence]
            left = restrict(parts, keep, parts.kinds)
        lost = lost.copy()
        np.maximum.at(lost, sentence[~keep], bounds[~keep])
        return left, lost


def _peaks(parts: Parts) -> NDArray[np.float32]:
    """(W,) the best arc score of each word, which stages take for the origin of its scores."""
    scores = np.append(parts.arc_score, np.float32(-np.inf))  # behind the last arc, for words without any
    return np.maximum.reduceat(scores, parts.modifier_offsets[:-1])


def _below_peaks(parts: Parts, peak: NDArray[np.float32]) -> NDArray[np.float32]:
    """(A,) arc scores less the best ones of their words, rounded up so that they stay bounds."""
    exact = parts.arc_score.astype(np.float64) - np.repeat(peak.astype(np.float64), np.diff(parts.modifier_offsets))
    rounded = exact.clip(-LARGEST, 0).astype(np.float32)
    return np.where(rounded < exact, np.nextafter(rounded, np.float32(0)), rounded)


def _compare(
    parts: Parts, heads: NDArray[np.int32], score: NDArray[np.float64], lost: NDArray[np.float64]
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return whether trees score at least as much as lost trees, (B,), and bounds.

    What lost trees score at most is relative to each word's best arc. Trees are compared at that origin, so that the
    result does not depend on the origin of the scores.
    """
    if not (lost > -np.inf).any():
        return np.ones(len(score), np.bool_), score
    peak = _peaks(parts).astype(np.float64)
    sentence = np.repeat(np.arange(len(parts.lengths)), parts.lengths)
    chosen = parts.head == heads[sentence_of_arcs(parts), parts.modifier]
    found = np.zeros(len(parts.lengths))
    np.add.at(found, sentence, parts.arc_score[chosen] - peak)
    if parts.kinds:
        found += parts.with_scores(arc_score=np.zeros(len(parts.head), np.float32)).score(heads)
    certified = lost <= found
    bound = lost + np.bincount(sentence, peak, minlength=len(parts.lengths))
    return certified, np.where(certified, score, np.maximum(bound, score))


def optimistic_arcs(parts: Parts) -> tuple[Parts, NDArray[np.float64]]:
    """Arcs that score at least what they and the parts score of which they are the last arc.

    A part is an arc's if the arc is its modifier's, or its outer sibling's. Parts that end a side are nobody's.

    Returns:
        Parts, and (B,) the most that the parts of nobody score; the sum of both is at least the score of a tree.
    """
    raised = optimistic_siblings(parts)
    score, rest = raised.arc_score.copy(), np.zeros(len(parts.lengths))
    if raised.sibling is None:
        return raised, rest
    layout = raised.layout
    over_sentences(
        lambda bs: _add_siblings(bs, layout, score, rest), np.diff(raised.part_offsets("sibling")).astype(np.float64)
    )
    return raised.only().with_scores(arc_score=score), rest


def optimistic_siblings(parts: Parts) -> Parts:
    """Arcs and siblings that score at least what they and the parts score that also have a grandparent."""
    raised, layout = parts.only("sibling"), parts.layout
    if parts.grandparent is not None:
        arc_score = parts.arc_score.copy()
        steps = np.diff(parts.part_offsets("grandparent")).astype(np.float64)
        over_sentences(lambda bs: _add_grandparents(bs, layout, arc_score), steps)
        raised = raised.with_scores(arc_score=arc_score)
    if parts.grand_sibling is not None:
        sibling = parts.sibling
        sibling = np.zeros(parts.part_offsets("sibling")[-1], np.float32) if sibling is None else sibling.copy()
        steps = np.diff(parts.part_offsets("grand_sibling")).astype(np.float64)
        over_sentences(lambda bs: _add_grand_siblings(bs, layout, sibling), steps)
        raised = raised.with_scores(sibling=sibling)
    return raised


@numba.njit(**HELPER)
def _sum_above(x, y):
    """The sum as float32, rounded up so that it stays a bound."""
    exact = np.float64(x) + np.float64(y)
    if abs(exact) >= LARGEST:
        return LARGEST if exact > 0 else -LARGEST
    rounded = np.float32(exact)
    return rounded if rounded >= exact else np.nextafter(rounded, LARGEST)


@numba.njit(**FILLING)
def _add_grandparents(sentences, layout, score):
    """Add to the score of each arc that of its best grandparent."""
    for b in sentences:
        first = layout.word_offsets[b] - 1
        for k in range(layout.sentence_offsets[b], layout.sentence_offsets[b + 1]):
            h, m = layout.head[k], layout.modifier[k]
            best = -np.inf
            if h > 0:
                shift = layout.grandparent_offsets[k] - layout.modifier_offsets[first + h]
                for up in range(layout.modifier_offsets[first + h], layout.modifier_offsets[first + h + 1]):
                    if layout.head[up] != m:
                        best = max(best, layout.grandparent[shift + up])
            if best > -np.inf:  # else the arc starts at the root, or is in no tree
                score[k] = _sum_above(score[k], best)


@numba.njit(**KERNEL)
def _add_grand_siblings(sentences, layout, sibling):
    """Add to the score of siblings that of their best grandparent."""
    size = 1
    for b in sentences:
        node = layout.word_offsets[b] + b
        for side in range(2 * node, 2 * (node + layout.lengths[b] + 1)):
            size = max(size, layout.sibling_offsets[side + 1] - layout.sibling_offsets[side])
    best = np.empty(size, np.float32)
    for b in sentences:
        first = layout.word_offsets[b] - 1
        for h in range(1, layout.lengths[b] + 1):
            for right in range(2):
                side = 2 * (first + 1 + b + h) + right
                block = layout.sibling_offsets[side]
                count = layout.sibling_offsets[side + 1] - block
                start, end = layout.modifier_offsets[first + h], layout.modifier_offsets[first + h + 1]
                if start < end:
                    best[:count] = -np.inf
                    for up in range(start, end):
                        source = np.uint64(layout.grand_sibling_offsets[2 * up + right])
                        for x in range(np.uint64(count)):
                            value = layout.grand_sibling[source + x]
                            best[x] = value if value > best[x] else best[x]
                    for e in range(count):
                        sibling[block + e] = _sum_above(sibling[block + e], best[e])


@numba.njit(**KERNEL)
def _add_siblings(sentences, layout, score, rest):
    """Add to the score of each arc that of its best inner sibling, and to the rest that of the best last one."""
    size = 1
    for b in sentences:
        size = max(size, layout.lengths[b] + 2)
    best = np.empty(size, np.float32)
    for b in sentences:
        node = layout.word_offsets[b] + b
        for side in range(2 * node + 1, 2 * (node + layout.lengths[b] + 1)):
            start, J = layout.side_offsets[side], layout.side_offsets[side + 1] - layout.side_offsets[side]
            block = layout.sibling_offsets[side]
            best[: J + 2] = -np.inf
            for i in range(J + 1):
                row = block + sibling_at(J, i, i + 1)
                for x in range(np.uint64(J + 1 - i)):
                    value = layout.sibling[np.uint64(row) + x]
                    j = np.uint64(i + 1) + x
                    best[j] = value if value > best[j] else best[j]
            for rank in range(1, J + 1):
                k = layout.outward[start + rank - 1]
                score[k] = _sum_above(score[k], best[rank])
            rest[b] += best[J + 1]


def vine_of(arcs: Parts, band: int) -> VineScores:
    """A vine in which the image of a tree scores at least what the tree scores by its arcs."""
    words, nodes = int(arcs.word_offsets[-1]), int(arcs.word_offsets[-1]) + len(arcs.lengths)
    scores = Indices(*(np.full(shape, -np.inf, np.float32) for shape in ((words, 2 * band), (words, 2), (nodes, 2))))
    arrays = (arcs.lengths, arcs.word_offsets, arcs.modifier_offsets, arcs.head, arcs.arc_score)
    over_sentences(lambda bs: _fill_vine(bs, *arrays, scores), np.diff(arcs.sentence_offsets))
    return VineScores(arcs.lengths, *scores)


@numba.njit(**FILLING)
def _fill_vine(sentences, lengths, word_offsets, modifier_offsets, head, score, scores):
    """Scores of close arcs, outer heads and outer modifiers, which are -inf before."""
    band = scores.close.shape[1] // 2
    for b in sentences:
        node = word_offsets[b] + b
        for m in range(1, lengths[b] + 1):
            w = word_offsets[b] + m - 1
            for k in range(modifier_offsets[w], modifier_offsets[w + 1]):
                h = head[k]
                d = h - m
                if abs(d) <= band:
                    scores.close[w, d + band - (d > 0)] = score[k]
                else:
                    far = 1 if d > 0 else 0
                    scores.outer_head[w, far] = max(scores.outer_head[w, far], score[k])
                    scores.outer_modifier[node + h, 1 - far] = 0.0


def vine_bounds(arcs: Parts, vine: VineScores, marginals: Indices) -> NDArray[np.float64]:
    """(A,) the most that a projective tree with each arc scores, by the max-marginals of `vine_of` these arcs."""
    bounds = np.empty(len(arcs.head))
    arrays = (arcs.lengths, arcs.word_offsets, arcs.modifier_offsets, arcs.head, arcs.arc_score)
    over_sentences(
        lambda bs: _fill_bounds(bs, *arrays, vine.outer_head, marginals, bounds), np.diff(arcs.sentence_offsets)
    )
    return bounds


@numba.njit(**FILLING)
def _fill_bounds(sentences, lengths, word_offsets, modifier_offsets, head, score, outer_head, marginals, bounds):
    """M(close arc); or M(outer head) less how far the arc is below the best one, or M(outer modifier) if it is less."""
    band = marginals.close.shape[1] // 2
    for b in sentences:
        node = word_offsets[b] + b
        for m in range(1, lengths[b] + 1):
            w = word_offsets[b] + m - 1
            for k in range(modifier_offsets[w], modifier_offsets[w + 1]):
                h = head[k]
                d = h - m
                if abs(d) <= band:
                    bounds[k] = marginals.close[w, d + band - (d > 0)]
                else:
                    far = 1 if d > 0 else 0
                    below = np.float64(outer_head[w, far]) - score[k]
                    bounds[k] = min(marginals.outer_head[w, far] - below, marginals.outer_modifier[node + h, 1 - far])
