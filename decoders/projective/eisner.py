"""Exact decoding over projective trees: by arcs, with siblings, and with grandparents; marginals of arcs among trees.

`Projective`, `max_marginals` and `log_marginals` search by whatever is there of `grandparent`, `sibling` and
`grand_sibling`, in the charts of `projective_siblings` and `projective_grandparents`, whose time and memory follow the
candidate arcs. `Eisner` is for arcs alone, and fastest where most arcs are candidates:

Eisner (2000), "Bilexical grammars and their cubic-time parsing algorithms". Time O(n^3), memory O(n^2) a sentence.

Differs from the paper:
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

from arbora.decoders.kernels import bitsets
from arbora.decoders.kernels.options import KERNEL
from arbora.decoders.kernels.threads import over_sentences
from arbora.decoders.parts.batch import Parts
from arbora.decoders.projective import gradients as projective_gradients
from arbora.decoders.projective import grandparents as projective_grandparents
from arbora.decoders.projective import siblings as projective_siblings
from arbora.decoders.projective.semirings import ALONE
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
        over_sentences(
            lambda sentences: _decode(
                sentences,
                parts.lengths,
                parts.word_offsets,
                parts.modifier_offsets,
                parts.head,
                parts.arc_score,
                self.single_root,
                heads,
                found,
            ),
            parts.lengths.astype(np.float64) ** 3 / 4,
        )
        _check_found(parts, found, self.single_root)
        return Trees.exact(parts, heads)


DENSE = 0.2
"""Share of arcs that are candidates from which the chart of all arcs is the faster one, for arcs alone."""


@dataclass(frozen=True)
class Projective(Decoder):
    """Best projective tree under arcs, siblings, grandparents and grand-siblings, as many of them as there are.

    `bound` and `certified` of its trees speak of projective trees: none of these scores more. Parts of other types are
    refused.

    Args:
        single_root: allow exactly one modifier of the root.
    """

    projective: ClassVar[bool] = True
    takes: ClassVar[frozenset[str]] = frozenset({"grandparent", "sibling", "grand_sibling"})
    single_root: bool = True

    def decode(self, parts: Parts) -> Trees:
        if not parts.kinds and len(parts.head) > DENSE * np.square(parts.lengths, dtype=np.int64).sum():
            return Eisner(self.single_root)(parts)
        heads, score, _ = _search(parts, self.single_root, False, False)
        return Trees(heads, score, bound=score, certified=np.ones(len(score), dtype=np.bool_))


def max_marginals(parts: Parts, single_root: bool = True) -> NDArray[np.float64]:
    """Score of the best projective tree with each candidate arc, -inf for arcs of no such tree.

    Trees score by arcs and by whatever is there of `grandparent`, `sibling` and `grand_sibling`. The arcs of the best
    tree have exactly the largest value of their sentence.

    Args:
        parts: candidate arcs and scores.
        single_root: among trees with exactly one modifier of the root.

    Returns:
        (A,) by arcs.

    Raises:
        ValueError: when a sentence has no projective tree among its candidate arcs; on parts of other types.
    """
    return _search(parts, single_root, False, True)[2]


def log_marginals(parts: Parts, single_root: bool = True) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Log-partition and probability of each candidate arc, where projective trees are as likely as exp(score).

    Args:
        parts: candidate arcs and scores, of the types that `max_marginals` names.
        single_root: among trees with exactly one modifier of the root.

    Returns:
        (B,) logarithm of the sum over trees, and (A,) probabilities, which for each word sum to 1. They are also the
        gradient of the former by the scores of arcs.

    Raises:
        ValueError: when a sentence has no projective tree among its candidate arcs; on parts of other types.
    """
    _, log_partition, marginals = _search(parts, single_root, True, True)
    return log_partition, marginals


def log_partition_gradient(
    parts: Parts, single_root: bool = True
) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
    """Log-partition, and its gradient by the scores of arcs and siblings: the probability of each part.

    Time and memory as for `log_marginals`, which does not ask for siblings.

    Args:
        parts: arcs, with siblings or without.
        single_root: among trees with exactly one modifier of the root.

    Returns:
        (B,) logarithm of the sum over trees of exp(score), and by `arc` and, where they are there, `sibling`, the share
        of that sum which trees with each part have; 0 for parts of no tree.

    Raises:
        ValueError: when a sentence has no projective tree among its candidate arcs; on parts of other types.
    """
    _check_gradient(parts, "the log-partition")
    layout = parts.layout
    goal, arc, sibling = np.empty(len(parts.lengths)), np.empty(len(parts.head)), np.empty(len(layout.sibling))
    over_sentences(
        lambda bs: projective_siblings.run_marginals(bs, layout, single_root, True, goal, arc, sibling),
        10.0 * np.diff(parts.sentence_offsets) * parts.lengths,
    )
    _check_found(parts, goal > -np.inf, single_root)
    return goal, {"arc": arc} | ({} if parts.sibling is None else {"sibling": sibling})


def max_marginals_gradient(
    parts: Parts, weights: NDArray[np.floating], single_root: bool = True
) -> dict[str, NDArray[np.float64]]:
    """Gradient of `sum(weights * max_marginals)` by the scores of arcs and siblings.

    The gradient of one max-marginal is the tree that attains it: 1 for each part that fires in it. Of several such
    trees one is taken.

    Args:
        parts: arcs, with siblings or without.
        weights: (A,) of each arc's max-marginal; those of arcs in no tree do not count.
        single_root: among trees with exactly one modifier of the root.

    Returns:
        By `arc` and, where they are there, `sibling`, the gradient for each part.

    Raises:
        ValueError: when a sentence has no projective tree among its candidate arcs; on parts of other types.
    """
    _check_gradient(parts, "max-marginals")
    if np.shape(weights) != parts.head.shape:
        raise ValueError(f"weights must be {parts.head.shape}, got {np.shape(weights)}")
    layout = parts.layout
    amounts = np.ascontiguousarray(weights, dtype=np.float64)
    goal, marginals = np.empty(len(parts.lengths)), np.empty(len(parts.head))
    arc, sibling = np.empty(len(parts.head)), np.empty(len(layout.sibling))
    over_sentences(
        lambda bs: projective_gradients.run(bs, layout, single_root, amounts, goal, marginals, arc, sibling),
        10.0 * np.diff(parts.sentence_offsets) * parts.lengths,
    )
    _check_found(parts, goal > -np.inf, single_root)
    return {"arc": arc} | ({} if parts.sibling is None else {"sibling": sibling})


def _check_gradient(parts: Parts, what: str) -> None:
    """Refuse parts by which there are no gradients."""
    if others := set(parts.kinds) - {"sibling"}:
        raise ValueError(f"gradients of {what} are for arcs and siblings, not for {', '.join(sorted(others))}")
    parts.require_finite(f"the gradient of {what}")


def has_tree(parts: Parts, single_root: bool = True) -> NDArray[np.bool_]:
    """(B,) whether each sentence has a projective tree among its candidate arcs; scores do not matter.

    This is the chart of `Eisner` with sets of right ends in place of scores: O(n^2) steps of n / 64 each.
    """
    found = np.empty(len(parts.lengths), dtype=np.bool_)
    n = parts.lengths.astype(np.float64)
    over_sentences(
        lambda sentences: _has_tree(
            sentences,
            parts.lengths,
            parts.word_offsets,
            parts.modifier_offsets,
            parts.head,
            single_root,
            found,
        ),
        n * n * (1 + n / 64),
    )
    return found


def require_tree(parts: Parts, single_root: bool = True) -> None:
    """Check that each sentence has a projective tree among its candidate arcs.

    Raises:
        ValueError: naming the first sentence that has none.
    """
    _check_found(parts, has_tree(parts, single_root), single_root)


def _search(
    parts: Parts, single_root: bool, log: bool, with_marginals: bool
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
    """Best trees, unless marginals are asked for; their scores or log-sums (B,); marginals of arcs (A,) if they are."""
    Projective(single_root).check(parts)
    parts.require_finite("a projective chart")
    heads = parts.empty_trees()
    goal = np.empty(len(parts.lengths))
    marginals = np.empty(len(parts.head) if with_marginals else 0)
    layout = parts.layout
    higher = parts.grandparent is not None or parts.grand_sibling is not None
    run = (projective_grandparents if higher else projective_siblings).run
    arcs = np.diff(parts.sentence_offsets).astype(np.float64)
    mode = log if log or with_marginals else ALONE
    over_sentences(
        lambda bs: run(bs, layout, single_root, mode, with_marginals, goal, heads, marginals),
        arcs * parts.lengths * (10 if log else 1) * (arcs / parts.lengths if higher else 1),
    )
    _check_found(parts, goal > -np.inf, single_root)
    return heads, goal, marginals


def _check_found(parts: Parts, found: NDArray[np.bool_], single_root: bool) -> None:
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


@numba.njit(**KERNEL)
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


@numba.njit(**KERNEL)
def _offer(value, others, row, totals, total_row, first, last):
    """totals[total_row, k] = max(totals[total_row, k], value + others[row, k]) for k in first..last."""
    if value > -np.inf:
        for k in range(np.uint64(first), np.uint64(last + 1)):
            total = value + others[row, k]
            totals[total_row, k] = total if total > totals[total_row, k] else totals[total_row, k]


@numba.njit(**KERNEL)
def _has_tree(sentences, lengths, word_offsets, modifier_offsets, head, single_root, found):
    """Fill found[b] for each sentence. Each left end i has sets of nodes j, all of them at i or beyond."""
    size = np.uint64(1)
    for b in sentences:
        size = max(size, np.uint64(lengths[b] + 1))
    W = bitsets.words(size)
    modifiers = np.empty(size * W, np.uint64)  # to the right of head i
    heads = np.empty(size * W, np.uint64)  # to the right of modifier i
    right = np.empty(size * W, np.uint64)  # C(i -> j): head i, ends at j
    left = np.empty(size * W, np.uint64)  # C(i <- j): head j, ends at i
    left_arc = np.empty(size * W, np.uint64)  # I(i <- j): the words i..j with the arc from j to i
    inner = np.empty(W, np.uint64)  # C(i -> r) and C(r+1 <- j) for some r

    for b in sentences:
        n = np.uint64(lengths[b])
        W = (n >> bitsets.SIX) + bitsets.ONE
        for w in range((n + bitsets.ONE) * W):
            modifiers[w] = heads[w] = right[w] = left[w] = bitsets.ZERO
        for m in range(bitsets.ONE, n + bitsets.ONE):
            word = word_offsets[b] + m - bitsets.ONE
            for k in range(np.uint64(modifier_offsets[word]), np.uint64(modifier_offsets[word + bitsets.ONE])):
                h = np.uint64(head[k])
                if h < m:
                    bitsets.add(modifiers, h * W, m)
                else:
                    bitsets.add(heads, m * W, h)

        first = bitsets.ONE if single_root else bitsets.ZERO
        for back in range(n + bitsets.ONE - first):
            i = n - back
            start = i * W
            inner[:W] = bitsets.ZERO
            bitsets.add(right, start, i)
            bitsets.add(left, start, i)
            for w in range(i >> bitsets.SIX, W):  # each member adds greater ones alone, so one walk upward sees all
                new = right[start + w] | (inner[w] & modifiers[start + w])
                while new != bitsets.ZERO:
                    j = (w << bitsets.SIX) + bitsets.lowest(new)
                    if not bitsets.has(right, start, j):
                        bitsets.unite(right, start, right, j * W, j, W)
                    if j < n:
                        bitsets.unite(inner, bitsets.ZERO, left, (j + bitsets.ONE) * W, j, W)
                    new = bitsets.above(right[start + w] | (inner[w] & modifiers[start + w]), j)
            for w in range(W):
                left_arc[start + w] = inner[w] & heads[start + w]
            for w in range(i >> bitsets.SIX, W):
                new = left[start + w]
                while new != bitsets.ZERO:
                    m = (w << bitsets.SIX) + bitsets.lowest(new)
                    bitsets.unite(left, start, left_arc, m * W, m, W)
                    new = bitsets.above(left[start + w], m)

        found[b] = not single_root and bitsets.has(right, bitsets.ZERO, n)
        for m in range(bitsets.ONE, n + bitsets.ONE):
            if single_root and bitsets.has(modifiers, bitsets.ZERO, m):
                found[b] |= bitsets.has(left, W, m) and bitsets.has(right, m * W, n)


@numba.njit(**KERNEL)
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
