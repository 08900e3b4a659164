"""Check which sentences have a projective tree among their candidate arcs, for any scores."""

import numba
import numpy as np
from numpy.typing import NDArray

from arbora.decoders.kernels import bitsets
from arbora.decoders.kernels.options import KERNEL
from arbora.decoders.kernels.threads import over_sentences
from arbora.decoders.parts.batch import Parts
from arbora.decoders.projective.eisner import check_found


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
    check_found(parts, has_tree(parts, single_root), single_root)


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
            for w in range(i >> bitsets.SIX, W):  # each member adds only greater ones, so one walk upward sees all
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
