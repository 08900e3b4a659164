"""Vine parsing with outer arcs: the first stage of a pruning cascade, linear in the length of a sentence.

Rush and Petrov (2012), "Vine pruning for efficient multi-pass dependency parsing"; vine parsing by Eisner and Smith
(2005). A word takes a close head, at most b words away, or an outer head: somewhere further to its left, or to its
right. A word may also take outer modifiers on either side. Nothing matches outer heads with outer modifiers, so this is
a relaxation, but it holds the image of every projective tree. Items, of which only those within b words exist:

    C(h, e)   half-tree of head h that ends at e, by close arcs; width below b
    I(h, m)   words from h to m with a close arc from h to m; width up to b
    L(e)      words 0..e, where e has all its left modifiers and no close head to its left
    R(e)      words 0..e, where e has its head, and its right side is open
    V(e)      words 0..e, complete

    (a) I(h, m) <- C(h, r), C(m, r+1)       with the arc       (b) C(h, e) <- I(h, m), C(m, e)
    (c) L(e) <- V(e-1)                      maybe (e, left)    (d) L(e) <- L(m), I(e, m)        maybe (e, left)
    (e) R(e) <- L(e)                        one outer head     (f) R(e) <- R(m), I(m, e)        maybe (m, right)
    (g) V(e) <- R(e)                        maybe (e, right)

from R(0) to V(n). Each structure has one derivation. Time O(n b^2) and memory O(n b).

Differs from the paper: (c) and (g) offer outer modifiers too, without which images of trees would be lost; V(e) is kept
apart from C(0, e), which may stand below an arc where V(e) may not, since it may hold words with outer heads. Single
root: an arc from the root has no modifier of the root below it; a root with a close modifier takes no outer one, and
without one it must.

`thresholds` says what survives, and `candidates` has the candidate arcs of the next stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from arbora.decoders.kernels.options import ALLOCATING, CALLED, FILLING, HELPER, KERNEL
from arbora.decoders.kernels.threads import over_sentences
from arbora.decoders.parts.layout import LEFT, RIGHT
from arbora.decoders.projective.semirings import gather, plus, share


class Indices(NamedTuple):
    """One value for each arc of the vine, over a batch of B sentences with W words in all.

    Word m of sentence b is `word_offsets[b] + m - 1`, and node h, the root being 0, is `word_offsets[b] + b + h`. A
    close head d words to the right of m, to the left if d is negative, is at `slot(d, band)`.
    """

    close: NDArray[Any]  # (W, 2 band) heads of each word at the distances -band..-1, 1..band
    outer_head: NDArray[Any]  # (W, 2) the head is beyond the band, to the left or to the right
    outer_modifier: NDArray[Any]  # (W+B, 2) a node has modifiers beyond the band, to the left or to the right


def slot(distance: ArrayLike, band: int) -> NDArray[np.int64]:
    """Place among close heads of those that are so many words to the right; negative to the left."""
    d = np.asarray(distance)
    return d + band - (d > 0)


def existing(lengths: ArrayLike, band: int) -> Indices:
    """Mark the arcs of the vine: close heads within the sentence, and outer heads if some word is that far away."""
    n = np.asarray(lengths, dtype=np.int64)
    words = int(n.sum())
    there = Indices(*(np.empty(shape, np.bool_) for shape in ((words, 2 * band), (words, 2), (words + len(n), 2))))
    _exist(n, band, *there)
    return there


def image(heads: NDArray[np.integer], lengths: ArrayLike, band: int) -> Indices:
    """Return the arcs of the vine in a projective tree of each sentence.

    Args:
        heads: (B, N) as in `Trees.heads`.
        lengths: (B,) words of each sentence.
        band: of the vine.
    """
    n = np.asarray(lengths, dtype=np.int64)
    sentence, m = np.repeat(np.arange(len(n)), n), _counting(n) + 1
    h = np.asarray(heads)[sentence, m]
    near = np.abs(h - m) <= band
    fires = Indices(*(np.zeros_like(there) for there in existing(n, band)))
    w = np.arange(len(m))
    fires.close[w[near], slot(h - m, band)[near]] = True
    far, to_the_right = ~near, (h > m).astype(np.int64)
    fires.outer_head[w[far], to_the_right[far]] = True
    fires.outer_modifier[(_offsets(n)[sentence] + sentence + h)[far], 1 - to_the_right[far]] = True
    return fires


@dataclass(frozen=True, eq=False)
class VineScores:
    """Scores of a vine parser for a batch of sentences. -inf forbids an arc; arcs that do not exist are not read."""

    lengths: NDArray[np.int32]  # (B,) words of each sentence
    close: NDArray[np.float32]  # (W, 2 band) scores of close heads, as in `Indices`
    outer_head: NDArray[np.float32]  # (W, 2) of outer heads
    outer_modifier: NDArray[np.float32]  # (W+B, 2) of outer modifiers

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengths", np.ascontiguousarray(self.lengths, dtype=np.int32))
        there = existing(self.lengths, self.band)
        for name, exists in there._asdict().items():
            score = np.array(getattr(self, name), dtype=np.float32)
            if score.shape != exists.shape:
                raise ValueError(f"{name} must be {exists.shape}, got {score.shape}")
            if not _forbid(exists, score):
                raise ValueError(f"{name} must be finite, or -inf to leave an arc out")
            object.__setattr__(self, name, score)

    @property
    def band(self) -> int:
        """Words between a close head and its modifier, at most."""
        return int(np.shape(self.close)[1]) // 2

    @property
    def scores(self) -> Indices:
        """All scores, -inf for what does not exist or is forbidden."""
        return Indices(self.close, self.outer_head, self.outer_modifier)


def vine_max_marginals(
    vine: VineScores, single_root: bool = True, required: bool = True
) -> tuple[NDArray[np.float64], Indices]:
    """Score of the best structure of each sentence, (B,), and of the best one with each arc, -inf if there is none.

    Args:
        vine: scores.
        single_root: whether the root has one modifier.
        required: refuse sentences without a structure; otherwise all their values are -inf.

    Raises:
        ValueError: when a sentence has no structure and it is required.
    """
    goal, totals = _run_all(vine, single_root, False, required)
    without = goal == -np.inf
    if without.any():
        n = vine.lengths
        for array, counts in zip(totals, (n, n, n + 1)):
            array[np.repeat(without, counts)] = -np.inf
    return goal, totals


def vine_log_marginals(vine: VineScores, single_root: bool = True) -> tuple[NDArray[np.float64], Indices]:
    """Log-partition of each sentence, (B,), and probability of each arc, where structures are as likely as exp(score).

    Raises:
        ValueError: when a sentence has no structure.
    """
    return _run_all(vine, single_root, True, True)


def _run_all(vine: VineScores, single_root: bool, log: bool, required: bool) -> tuple[NDArray[np.float64], Indices]:
    """Goal and marginals of each sentence; without a structure the goal is -inf, which `required` makes an error."""
    if vine.band < 1:
        raise ValueError(f"band must be at least 1, got {vine.band}")
    lengths = vine.lengths.astype(np.int64)
    goal = np.empty(len(lengths))
    totals = Indices(*(np.empty(score.shape) for score in vine.scores))
    over_sentences(
        lambda bs: _run(bs, lengths, _offsets(lengths), vine.scores, single_root, log, goal, totals),
        lengths * vine.band**2 * (20.0 if log else 4.0),
    )
    if required and not (goal > -np.inf).all():
        raise ValueError(f"sentence {int(np.argmin(goal > -np.inf))}: no vine structure consists of allowed arcs only")
    return goal, totals


@numba.njit(**FILLING)
def _exist(lengths, band, close, outer_head, outer_modifier):
    """Fill in what `existing` gives."""
    w = node = 0
    for n in lengths:
        for h in range(n + 1):
            outer_modifier[node, 0], outer_modifier[node, 1] = h > band + 1, h + band < n
            node += 1
            if h > 0:
                outer_head[w, 0], outer_head[w, 1] = h > band, h + band < n
                for d in range(1, band + 1):
                    close[w, band - d], close[w, band + d - 1] = d <= h, h + d <= n
                w += 1


@numba.njit(**FILLING)
def _forbid(there, scores):
    """Set the scores of arcs that do not exist to -inf. Returns whether the others are less than inf."""
    fine = True
    for w in range(there.shape[0]):
        for k in range(there.shape[1]):
            scores[w, k] = scores[w, k] if there[w, k] else -np.inf
            fine &= scores[w, k] < np.inf
    return fine


def _offsets(counts: NDArray[np.integer]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def _counting(counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """0..count - 1 for each count."""
    offsets = _offsets(counts)
    return np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)


class Sentence(NamedTuple):
    """Offsets of a sentence in a batch, and its structures: word m is `word + m`, node h is `node + h`."""

    n: int
    band: int
    word: int
    node: int
    single_root: bool


class Chart(NamedTuple):
    """Items of one sentence, where those of two words stand at [first word, distance]."""

    right: NDArray[np.float64]  # (N, b) C(i, i + t)
    left: NDArray[np.float64]  # (N, b) C(i + t, i)
    inner: NDArray[np.float64]  # (N, b+1) I without the score of the arc, the same for both directions
    right_arc: NDArray[np.float64]  # (N, b+1) I(i, i + t)
    left_arc: NDArray[np.float64]  # (N, b+1) I(i + t, i)
    headless: NDArray[np.float64]  # (N,) L(e) without the choice of an outer modifier
    headed: NDArray[np.float64]  # (N,) R(e)
    whole: NDArray[np.float64]  # (N,) V(e)


@numba.njit(**KERNEL)
def _run(sentences, lengths, offsets, scores, single_root, log, goal, totals):
    """Fill goal[b] and, where there is a structure, the marginals."""
    size, b = 1, scores.close.shape[1] // 2
    for s in sentences:
        size = max(size, lengths[s] + 1)
    chart, chart_totals = allocate(size, b), allocate(size, b)
    for s in sentences:
        sentence = Sentence(lengths[s], b, offsets[s] - 1, offsets[s] + s, single_root)
        goal[s] = inside(sentence, scores, log, chart)
        if goal[s] > -np.inf:
            outside(sentence, scores, log, chart, chart_totals, goal[s], totals)


@numba.njit(**CALLED)
def inside(sentence, scores, log, chart):
    """Fill the chart. Returns the value of the goal."""
    _close_inside(sentence, scores, log, chart)
    return _vine_inside(sentence, scores, log, chart)


@numba.njit(**CALLED)
def outside(sentence, scores, log, chart, totals, goal, marginals):
    """Fill the marginals of the arcs of one sentence; `totals` has those of items, as the chart has their values."""
    n, w, node = sentence.n, sentence.word, sentence.node
    nothing = 0.0 if log else -np.inf
    marginals.close[w + 1 : w + n + 1] = marginals.outer_head[w + 1 : w + n + 1] = nothing
    marginals.outer_modifier[node : node + n + 1] = nothing
    clear(totals, n, nothing)
    _vine_outside(sentence, scores, log, chart, totals, goal, marginals)
    _close_outside(sentence, log, chart, totals, marginals)


@numba.njit(**ALLOCATING)
def allocate(size, b):
    pairs, words = (size, b + 1), size
    return Chart(
        np.empty((size, b)),
        np.empty((size, b)),
        np.empty(pairs),
        np.empty(pairs),
        np.empty(pairs),
        np.empty(words),
        np.empty(words),
        np.empty(words),
    )


@numba.njit(**CALLED)
def clear(chart, n, value):
    chart.right[: n + 1] = chart.left[: n + 1] = value
    chart.right_arc[: n + 1] = chart.left_arc[: n + 1] = value
    chart.headless[: n + 1] = chart.headed[: n + 1] = chart.whole[: n + 1] = value


@numba.njit(**HELPER)
def maybe(score, log):
    """An outer modifier or none."""
    return plus(0.0, np.float64(score), log)


@numba.njit(**CALLED)
def _close_inside(sentence, scores, log, chart):
    """Rules (a) and (b), by first words from the last, and for each of them by distance."""
    n, b, w, _, single_root = sentence
    right, left, right_arc, left_arc = chart.right, chart.left, chart.right_arc, chart.left_arc
    for i in range(n, -1, -1):
        right[i, 0] = left[i, 0] = 0.0
        for t in range(1, min(b, n - i) + 1):
            j = i + t
            # I(h, m) = arc(h, m) . +_r C(i, r) . C(j, r+1)
            inner = -np.inf
            for r in range(i, i + 1 if i == 0 and single_root else j):
                inner = plus(inner, right[i, r - i] + left[r + 1, j - r - 1], log)
            chart.inner[i, t] = inner
            right_arc[i, t] = inner + scores.close[w + j, b - t]
            left_arc[i, t] = inner + scores.close[w + i, b + t - 1] if i > 0 else -np.inf
            if t < b:  # C(h, e) = +_m I(h, m) . C(m, e)
                total = -np.inf
                for m in range(i + 1, j + 1):
                    total = plus(total, right_arc[i, m - i] + right[m, j - m], log)
                right[i, t] = total
                total = -np.inf
                if i > 0:
                    for m in range(i, j):
                        total = plus(total, left[i, m - i] + left_arc[m, j - m], log)
                left[i, t] = total


@numba.njit(**CALLED)
def _vine_inside(sentence, scores, log, chart):
    """Rules (c) to (g). Returns V(n)."""
    n, b, w, node, _ = sentence
    headless, headed, whole = chart.headless, chart.headed, chart.whole
    headed[0] = 0.0
    whole[0] = _finished(0, sentence, scores, log, chart)
    for e in range(1, n + 1):
        total = whole[e - 1]
        for m in range(max(1, e - b), e):
            value = headless[m] + maybe(scores.outer_modifier[node + m, LEFT], log) + chart.left_arc[m, e - m]
            total = plus(total, value, log)
        headless[e] = total
        outer = plus(np.float64(scores.outer_head[w + e, LEFT]), np.float64(scores.outer_head[w + e, RIGHT]), log)
        total = total + maybe(scores.outer_modifier[node + e, LEFT], log) + outer
        for m in range(max(0, e - b), e):
            total = plus(total, extended(m, sentence, scores, log, chart) + chart.right_arc[m, e - m], log)
        headed[e] = total
        whole[e] = _finished(e, sentence, scores, log, chart)
    return whole[n]


@numba.njit(**HELPER)
def extended(m, sentence, scores, log, chart):
    """R(m) in rule (f), where m takes its last close modifier and may take outer ones."""
    if m == 0 and sentence.single_root:
        return chart.headed[0]
    return chart.headed[m] + maybe(scores.outer_modifier[sentence.node + m, RIGHT], log)


@numba.njit(**HELPER)
def _finished(e, sentence, scores, log, chart):
    """V(e): rule (g)."""
    score = np.float64(scores.outer_modifier[sentence.node + e, RIGHT])
    return chart.headed[e] + (score if e == 0 and sentence.single_root else maybe(score, log))


@numba.njit(**CALLED)
def _vine_outside(sentence, scores, log, chart, totals, goal, marginals):
    """Marginals of L, R, V, of outer arcs, and what they give to I."""
    n, b, w, node, single_root = sentence
    nothing = 0.0 if log else -np.inf
    outer_modifier, outer_head = marginals.outer_modifier, marginals.outer_head
    totals.whole[n] = 1.0 if log else goal
    for e in range(n, -1, -1):
        if totals.whole[e] > nothing:  # (g)
            totals.headed[e] = gather(totals.headed[e], totals.whole[e], log)
            value = chart.headed[e] + scores.outer_modifier[node + e, RIGHT]
            part = share(totals.whole[e], value, chart.whole[e], log)
            outer_modifier[node + e, RIGHT] = gather(outer_modifier[node + e, RIGHT], part, log)
        if e == 0:
            break
        total, value = totals.headed[e], chart.headed[e]
        if total > nothing:
            for m in range(max(0, e - b), e):  # (f)
                arc = chart.right_arc[m, e - m]
                part = share(total, extended(m, sentence, scores, log, chart) + arc, value, log)
                totals.headed[m] = gather(totals.headed[m], part, log)
                totals.right_arc[m, e - m] = gather(totals.right_arc[m, e - m], part, log)
                if m > 0 or not single_root:
                    part = share(total, chart.headed[m] + scores.outer_modifier[node + m, RIGHT] + arc, value, log)
                    outer_modifier[node + m, RIGHT] = gather(outer_modifier[node + m, RIGHT], part, log)
            below = chart.headless[e] + maybe(scores.outer_modifier[node + e, LEFT], log)
            for side in range(2):  # (e)
                part = share(total, below + scores.outer_head[w + e, side], value, log)
                outer_head[w + e, side] = part
                totals.headless[e] = gather(totals.headless[e], part, log)
        total, value = totals.headless[e], chart.headless[e]
        if total > nothing:
            score = scores.outer_modifier[node + e, LEFT]
            outer_modifier[node + e, LEFT] = share(total, np.float64(score), maybe(score, log), log)
            totals.whole[e - 1] = gather(totals.whole[e - 1], share(total, chart.whole[e - 1], value, log), log)  # (c)
            for m in range(max(1, e - b), e):  # (d)
                below = chart.headless[m] + maybe(scores.outer_modifier[node + m, LEFT], log)
                part = share(total, below + chart.left_arc[m, e - m], value, log)
                totals.headless[m] = gather(totals.headless[m], part, log)
                totals.left_arc[m, e - m] = gather(totals.left_arc[m, e - m], part, log)


@numba.njit(**CALLED)
def _close_outside(sentence, log, chart, totals, marginals):
    """Marginals of C and I, where those of I are the marginals of close arcs."""
    n, b, w, _, single_root = sentence
    nothing = 0.0 if log else -np.inf
    right, left, right_arc, left_arc = chart.right, chart.left, chart.right_arc, chart.left_arc
    for i in range(n + 1):
        for t in range(min(b, n - i), 0, -1):
            j = i + t
            if t < b and totals.right[i, t] > nothing:
                for m in range(i + 1, j + 1):
                    value = right_arc[i, m - i] + right[m, j - m]
                    part = share(totals.right[i, t], value, right[i, t], log)
                    totals.right_arc[i, m - i] = gather(totals.right_arc[i, m - i], part, log)
                    totals.right[m, j - m] = gather(totals.right[m, j - m], part, log)
            if t < b and totals.left[i, t] > nothing:
                for m in range(i, j):
                    value = left[i, m - i] + left_arc[m, j - m]
                    part = share(totals.left[i, t], value, left[i, t], log)
                    totals.left[i, m - i] = gather(totals.left[i, m - i], part, log)
                    totals.left_arc[m, j - m] = gather(totals.left_arc[m, j - m], part, log)
            marginals.close[w + j, b - t] = totals.right_arc[i, t]
            if i > 0:
                marginals.close[w + i, b + t - 1] = totals.left_arc[i, t]
            total = gather(totals.right_arc[i, t], totals.left_arc[i, t], log)
            if total > nothing:
                for r in range(i, i + 1 if i == 0 and single_root else j):
                    value = right[i, r - i] + left[r + 1, j - r - 1]
                    part = share(total, value, chart.inner[i, t], log)
                    totals.right[i, r - i] = gather(totals.right[i, r - i], part, log)
                    totals.left[r + 1, j - r - 1] = gather(totals.left[r + 1, j - r - 1], part, log)
