"""Exact decoding over projective trees under arc scores, fastest where most arcs are candidates.

Eisner (2000), "Bilexical grammars and their cubic-time parsing algorithms". Time O(n^3), memory O(n^2) per sentence.

Differs from the paper:
- Where the best heads of all words make a projective tree, that tree is the best, and there is no chart.
- No back-pointers: the chart holds maxima only, and the choices on the best tree are searched again, in O(n^2).
- The chart is filled by left ends, not by widths, and an item pushes its value to those that hold it. All inner loops
  are then elementwise over contiguous rows and run in SIMD. Without a tree an item pushes nothing, which makes pruned
  arcs cheaper.
- One root: the chart leaves the root out, and the last step hangs the words from the best of them.
"""

from dataclasses import dataclass
from typing import ClassVar

import numba
import numpy as np
from numpy.typing import NDArray

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
            heads[b, 1 : n + 1] = best[1 : n + 1]


@numba.njit(**HELPER)
def _is_projective_tree(n, heads, mark):
    """Whether every word leads to the root, and the head of every word between a head and its modifier is there too."""
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


@numba.njit(**KERNEL)
def _decode(sentences, lengths, word_offsets, modifier_offsets, head, score, single_root, heads, found):
    """Fill heads[b] for each sentence, and found[b] with whether there is a tree."""
    size = 1
    for b in sentences:
        size = max(size, lengths[b] + 1)
    arc = np.empty((size, size))  # [m, h]
    right = np.empty((size, size))  # C(i -> j) at [i, j], i <= j: head i, ends at j
    left = np.empty((size, size))  # C(i <- j) at [i, j]: head j, ends at i
    right_arc = np.empty((size, size))  # I(i -> j) at [i, j], i < j: the words i..j with the arc from i to j
    left_arc = np.empty((size, size))  # I(i <- j) at [i, j]: the same with the arc from j to i
    inner = np.empty((1, size))  # max_r C(i -> r) + C(r+1 <- j) at [0, j], for the present i
    stack = np.empty((3 * size, 2), np.int32)
    arc[0] = -np.inf

    for b in sentences:
        n = lengths[b]
        for m in range(1, n + 1):
            for h in range(n + 1):
                arc[m, h] = -np.inf
            w = word_offsets[b] + m - 1
            for k in range(np.uint64(modifier_offsets[w]), np.uint64(modifier_offsets[w + 1])):
                arc[m, np.uint64(head[k])] = score[k]
        _inside(n, 1 if single_root else 0, arc, right, left, right_arc, left_arc, inner)

        # One root: max_m arc(0, m) + C(1 <- m) + C(m -> n). Several: C(0 -> n).
        root = 0
        total = -np.inf if single_root else right[0, n]
        if single_root:
            for m in range(1, n + 1):
                value = arc[m, 0] + left[1, m] + right[m, n]
                if value > total:
                    total = value
                    root = m
        found[b] = total > -np.inf
        if found[b]:
            if single_root:
                heads[b, root] = 0
            _trace(n, root, arc, right, left, right_arc, left_arc, stack, heads[b])


@numba.njit(**CALLED)
def _inside(n, first, arc, right, left, right_arc, left_arc, inner):
    """Fill the chart, one left end after the other from the last word.

    Maxima are taken a row at a time, so that the innermost loop is elementwise over contiguous memory: as soon as an
    item is complete, it is offered to all longer items that may hold it.
    """
    for i in range(n, first - 1, -1):
        for k in range(np.uint64(i), np.uint64(n + 1)):
            right[i, k] = left[i, k] = inner[0, k] = -np.inf
        right[i, i] = left[i, i] = 0.0
        for j in range(i + 1, n + 1):
            # I(i -> j) = arc(i, j) + max_{i <= r < j} C(i -> r) + C(r+1 <- j);   I(i <- j) with arc(j, i)
            _offer(right[i, j - 1], left, j, inner, 0, j, n)
            right_arc[i, j] = inner[0, j] + arc[j, i]
            left_arc[i, j] = inner[0, j] + arc[i, j]
            # C(i -> j) = max_{i < m <= j} I(i -> m) + C(m -> j)
            _offer(right_arc[i, j], right, j, right, i, j, n)
            # C(i <- j) = max_{i <= m < j} C(i <- m) + I(m <- j)
            left[i, j] = max(left[i, j], left_arc[i, j])
            _offer(left[i, j], left_arc, j, left, i, j + 1, n)


@numba.njit(**CALLED)
def _offer(value, others, row, totals, total_row, first, last):
    """totals[total_row, k] = max(totals[total_row, k], value + others[row, k]) for k in first..last."""
    if value > -np.inf:
        for k in range(np.uint64(first), np.uint64(last + 1)):
            total = value + others[row, k]
            totals[total_row, k] = total if total > totals[total_row, k] else totals[total_row, k]


@numba.njit(**CALLED)
def _trace(n, root, arc, right, left, right_arc, left_arc, stack, heads):
    """Walk down from the goal, finding for each half-tree (head, end) the first split that gives its value."""
    stack[0, 0], stack[0, 1] = root, n
    stack[1, 0], stack[1, 1] = root, min(root, 1)
    top = 2
    while top > 0:
        top -= 1
        h, e = stack[top, 0], stack[top, 1]
        if h == e:
            continue
        if h < e:
            m = h + 1
            while right_arc[h, m] + right[m, e] != right[h, e]:
                m += 1
            i, j, value = h, m, right_arc[h, m]
        else:
            m = e
            while left[e, m] + left_arc[m, h] != left[e, h]:
                m += 1
            i, j, value = m, h, left_arc[m, h]
        heads[m] = h
        r = i
        while right[i, r] + left[r + 1, j] + arc[m, h] != value:
            r += 1
        stack[top, 0], stack[top, 1] = m, e
        stack[top + 1, 0], stack[top + 1, 1] = i, r
        stack[top + 2, 0], stack[top + 2, 1] = j, r + 1
        top += 3
