"""Exact decoding over projective trees under arc scores, fastest where most arcs are candidates.

Eisner (2000), "Bilexical grammars and their cubic-time parsing algorithms". Time O(n^3), memory O(n^2) per sentence.

With C and I the complete and incomplete items of the paper, and G(i, j) = max_r C(i -> r) + C(r+1 <- j), for i < j:

    I(i -> j) = G(i, j) + arc(i, j)          G(i, j) = max C(i+1 <- j), max_{i < m < j} I(i -> m) + G(m, j)
    I(i <- j) = G(i, j) + arc(j, i)     C(i <- j) = max_{i < m <= j} I(i <- m) + C(m <- j),    C(i <- i) = 0

Differs from the paper:
- Where the best heads of all words make a projective tree, that tree is the best, and there is no chart.
- G is built from itself, and C(i <- j) from the head of i instead of the last modifier of j. So right halves are not
  needed, and of three maxima over all triples of words two remain. The word n+1, which takes no head and no modifier,
  stands for the end of the sentence: G(i, n+1) = C(i -> n).
- Items are filled by blocks of 8 right ends, which are in registers while the maximum over m is taken.
- No back-pointers: the chart holds maxima only, and the choices on the best tree are searched again, in O(n^2).
- One root: the chart leaves the root out, and the last step hangs the words from the best of them.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from arbora.decoders.kernels.lanes import LANES, add, aligned, fill, lane, larger, load, store
from arbora.decoders.kernels.options import CALLED, HELPER, KERNEL
from arbora.decoders.kernels.threads import over_sentences
from arbora.decoders.mst import best_arc
from arbora.decoders.parts.batch import Parts
from arbora.decoders.trees import Decoder, NoTreeError, Trees


@dataclass(frozen=True)
class Eisner(Decoder):
    """Best projective tree under arc scores (Eisner).

    Args:
        single_root: allow exactly one modifier of the root.
    """

    projective: ClassVar[bool] = True
    takes: ClassVar[frozenset[str]] = frozenset()
    single_root: bool = True

    def decode(self, parts: Parts) -> Trees:
        heads = parts.empty_trees()
        found = np.zeros(len(parts.lengths), dtype=np.bool_)
        take_best_heads(parts, self.single_root, heads, found)
        remaining = np.flatnonzero(~found)
        over_sentences(
            lambda places: _decode(
                remaining[places],
                parts.lengths,
                parts.word_offsets,
                parts.modifier_offsets,
                parts.head,
                parts.arc_score,
                self.single_root,
                heads,
                found,
            ),
            parts.lengths[remaining].astype(np.float64) ** 3 / 4,
        )
        check_found(parts, found, self.single_root)
        return Trees.exact(parts, heads)


def take_best_heads(parts: Parts, single_root: bool, heads: NDArray[np.int32], taken: NDArray[np.bool_]) -> None:
    """Take the best head of each word, the lowest of equals, where these make a projective tree.

    Args:
        parts: candidate arcs, with no other parts.
        single_root: only trees with exactly one modifier of the root.
        heads: (B, N) trees, filled where there is one.
        taken: (B,) filled with whether there is.
    """
    bits = parts.arc_score.view(np.int32)
    over_sentences(
        lambda bs: _take_best_heads(
            bs,
            parts.lengths,
            parts.word_offsets,
            parts.modifier_offsets,
            parts.head,
            bits,
            single_root,
            heads,
            taken,
        ),
        1.0 * np.diff(parts.sentence_offsets),
    )


def check_found(parts: Parts, found: NDArray[np.bool_], single_root: bool) -> None:
    """Raise an error that names the sentences without a tree."""
    if not found.all():
        raise NoTreeError({b: _why_no_tree(parts, b, single_root) for b in np.flatnonzero(~found).tolist()})


def _why_no_tree(parts: Parts, b: int, single_root: bool) -> str:
    """Why sentence b has no projective tree."""
    counts = np.diff(parts.modifier_offsets[parts.word_offsets[b] : parts.word_offsets[b + 1] + 1])
    if counts.min() == 0:
        return f"no tree: word {np.argmin(counts) + 1} has no candidate head"
    return "no projective tree with a single root" if single_root else "no projective tree"


@numba.njit(**KERNEL)
def _take_best_heads(sentences, lengths, word_offsets, modifier_offsets, head, bits, single_root, heads, taken):
    size = 1
    for b in sentences:
        size = max(size, lengths[b] + 1)
    best = np.empty(size, np.int32)
    mark = np.empty(size, np.int32)
    for b in sentences:
        n = lengths[b]
        taken[b] = True
        roots = 0
        for m in range(1, n + 1):
            w = word_offsets[b] + m - 1
            if modifier_offsets[w] == modifier_offsets[w + 1]:
                taken[b] = False
                break
            best[m] = head[best_arc(bits, modifier_offsets[w], modifier_offsets[w + 1])]
            roots += best[m] == 0
        if taken[b] and (roots == 1 or not single_root):
            taken[b] = _is_projective_tree(n, best, mark)
        else:
            taken[b] = False
        if taken[b]:
            for m in range(1, n + 1):  # one slice from another would compile the message that shapes differ
                heads[b, m] = best[m]


@numba.njit(**HELPER)
def _is_projective_tree(n, heads, mark):
    """Return whether all words lead to the root, and heads of words between a head and its modifier are there, too."""
    mark[: n + 1] = 0
    for m in range(1, n + 1):
        v = m
        while v != 0 and mark[v] == 0:
            mark[v] = m
            v = heads[v]
        if v != 0 and mark[v] == m:
            return False
    for m in range(1, n + 1):
        first, last = min(m, heads[m]), max(m, heads[m])
        for k in range(first + 1, last):
            if heads[k] < first or heads[k] > last:
                return False
    return True


class Chart(NamedTuple):
    """Items of one sentence between words i < j, in blocks of `LANES` right ends, and what arcs score.

    Items that are read by their left end, and scores, are at [i * size + j]; items that are read by blocks of right
    ends are at `place(i, j, size)`.
    """

    right_score: NDArray[np.float64]  # of the arc i -> j
    left_score: NDArray[np.float64]  # of the arc i <- j
    right_arc: NDArray[np.float64]  # I(i -> j)
    left_arc: NDArray[np.float64]  # I(i <- j)
    inner: NDArray[np.float64]  # G(i, j), by blocks
    left: NDArray[np.float64]  # C(i <- j), by blocks


@numba.njit(**HELPER)
def place(i, j, size):
    """Return the place of an item in blocks of right ends with size + 1 rows each."""
    lane = j & (LANES - 1)
    return (j - lane) * (size + 1) + i * LANES + lane


@numba.njit(**KERNEL)
def _decode(sentences, lengths, word_offsets, modifier_offsets, head, score, single_root, heads, found):
    """Fill heads[b] for each sentence, and found[b] with whether there is a tree."""
    longest = 1
    for b in sentences:
        longest = max(longest, lengths[b])
    width = _width(longest)
    chart = Chart(
        aligned(width * width),
        aligned(width * width),
        aligned(width * width),
        aligned(width * width),
        aligned(width * (width + 1)),
        aligned(width * (width + 1)),
    )
    stack = np.empty((2 * longest + 2, 2), np.int64)
    for b in sentences:
        n = lengths[b]
        size, end = _width(n), n + 1
        first = 1 if single_root else 0
        _scatter(n, word_offsets[b] - 1, modifier_offsets, head, score, size, chart)
        for block in range(0, n + 2, LANES):
            _fill_block(block, first, n, size, chart)

        # One root: max_m arc(0, m) + C(1 <- m) + C(m -> n). Several: C(0 -> n).
        root = 0
        total = -np.inf if single_root else chart.inner[place(0, end, size)]
        if single_root:
            for m in range(1, n + 1):
                value = chart.right_score[m] + chart.left[place(1, m, size)] + chart.inner[place(m, end, size)]
                if value > total:
                    total, root = value, m
        found[b] = total > -np.inf
        if found[b]:
            if single_root:
                heads[b, root] = 0
            _trace(root, end, size, chart, stack, heads[b])


@numba.njit(**HELPER)
def _width(n):
    """Nodes 0..n and the end of the sentence, filled up to whole blocks."""
    return (n + 2 + LANES - 1) // LANES * LANES


@numba.njit(**CALLED)
def _scatter(n, words, modifier_offsets, head, score, size, chart):
    """Scores of arcs by their left and right ends, -inf where there is no arc."""
    nothing = fill(-np.inf)
    for i in range(n + 1):
        for j in range(i - i % LANES, size, LANES):
            store(chart.right_score, i * size + j, nothing)
            store(chart.left_score, i * size + j, nothing)
    for m in range(1, n + 1):
        start, end = np.uint64(modifier_offsets[words + m]), np.uint64(modifier_offsets[words + m + 1])
        middle = start + np.uint64(m)
        if end - start != n:
            middle = start
            while middle < end and head[middle] < m:
                middle += np.uint64(1)
        for k in range(start, middle):
            chart.right_score[np.uint64(head[k]) * np.uint64(size) + np.uint64(m)] = score[k]
        for k in range(middle, end):
            chart.left_score[np.uint64(m * size) + np.uint64(head[k])] = score[k]


@numba.njit(**CALLED)
def _fill_block(block, first, n, size, chart):
    """Fill the items that end in block..block + LANES - 1, by left ends from the last."""
    nothing = fill(-np.inf)
    for i in range(block, block + LANES + 1):
        store(chart.inner, place(i, block, size), nothing)
        store(chart.left, place(i, block, size), nothing)
    for i in range(block, block + LANES):
        chart.left[place(i, i, size)] = 0.0  # C(i <- i)
    for i in range(min(n, block + LANES - 1), first - 1, -1):
        _fill_row(i, block, size, chart)


@numba.njit(**HELPER)
def _fill_row(i, block, size, chart):
    """Fill the items from i to each word of a block: over middle words before the block, then over those in it."""
    row, base = i * size, block * (size + 1)
    inner, left = fill(-np.inf), fill(-np.inf)
    if i >= block:
        left = load(chart.left, base + i * LANES)
    for m in range(i + 2, block):  # without i + 1, whose row has only just been filled: this need not wait for it
        x, y = load(chart.inner, base + m * LANES), load(chart.left, base + m * LANES)
        inner = larger(inner, add(fill(chart.right_arc[np.uint64(row + m)]), x))
        left = larger(left, add(fill(chart.left_arc[np.uint64(row + m)]), y))
    x, y = load(chart.inner, base + (i + 1) * LANES), load(chart.left, base + (i + 1) * LANES)
    inner = larger(inner, y)
    if i + 1 < block:
        inner = larger(inner, add(fill(chart.right_arc[np.uint64(row + i + 1)]), x))
        left = larger(left, add(fill(chart.left_arc[np.uint64(row + i + 1)]), y))

    at = row + block
    for t in range(LANES):  # each lane of `inner` is complete when its turn comes
        x, y = load(chart.inner, base + (block + t) * LANES), load(chart.left, base + (block + t) * LANES)
        below = lane(inner, t)
        if t < LANES - 1:
            inner = larger(inner, add(below, add(fill(chart.right_score[np.uint64(at + t)]), x)))
        left = larger(left, add(below, add(fill(chart.left_score[np.uint64(at + t)]), y)))
    store(chart.inner, base + i * LANES, inner)
    store(chart.left, base + i * LANES, left)
    store(chart.right_arc, at, add(inner, load(chart.right_score, at)))
    store(chart.left_arc, at, add(inner, load(chart.left_score, at)))


@numba.njit(**CALLED)
def _trace(root, end, size, chart, stack, heads):
    """Walk down from C(1 <- root) and C(root -> n), and take the first of the best choices for each item."""
    stack[0, 0], stack[0, 1] = root, end
    top = 1
    if root > 0:
        top = _trace_left(1, root, size, chart, stack, top, heads)
    while top > 0:
        top -= 1
        i, j = stack[top, 0], stack[top, 1]
        m, best = _best_middle(chart.right_arc, i, j, chart.inner, size)
        while best > chart.left[place(i + 1, j, size)]:  # G(i, j) = max C(i+1 <- j), I(i -> m) + G(m, j)
            heads[m] = i
            stack[top, 0], stack[top, 1] = i, m
            top += 1
            i = m
            m, best = _best_middle(chart.right_arc, i, j, chart.inner, size)
        top = _trace_left(i + 1, j, size, chart, stack, top, heads)


@numba.njit(**CALLED)
def _trace_left(i, j, size, chart, stack, top, heads):
    """Find the heads of i and its ancestors below j, and put what is below them on the stack. Returns the new top."""
    while i < j:  # C(i <- j) = max_m I(i <- m) + C(m <- j)
        m, _ = _best_middle(chart.left_arc, i, j, chart.left, size)
        heads[i] = m
        stack[top, 0], stack[top, 1] = i, m
        top += 1
        i = m
    return top


@numba.njit(**HELPER)
def _best_middle(arcs, i, j, items, size):
    """The first m in i+1..j with the largest I(i, m) + item(m, j), and this sum."""
    middle, best = -1, -np.inf
    at = place(0, j, size)
    for m in range(i + 1, j + 1):
        value = arcs[np.uint64(i * size + m)] + items[np.uint64(at + m * LANES)]
        if value > best:
            middle, best = m, value
    return middle, best
