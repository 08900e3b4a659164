"""Parts: the one structure between scoring and decoding.

Orientation, root and padding are written down here and nowhere else: words are 1..n, 0 is the root, and `arc[m, h]` is
the score of head h for modifier m.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from arbora.decoders.threads import over_sentences


@dataclass(frozen=True, eq=False)
class Parts:
    """Candidate arcs of a batch of B sentences with W words in all, packed into flat arrays.

    Arcs are sorted by (sentence, modifier, head). An arc that is not listed is forbidden; those listed score finitely.

    Args:
        lengths: (B,) number of words of each sentence, at least 1; the root is not counted.
        head: (A,) head of each arc, 0..n.
        modifier: (A,) modifier of each arc, 1..n.
        arc_score: (A,) score of each arc.
        sentence_offsets: (B+1,) arcs of sentence b are `sentence_offsets[b]:sentence_offsets[b + 1]`.
        modifier_offsets: (W+1,) one entry a word, sentence after sentence, root left out: arcs into word m of sentence
            b are `modifier_offsets[w]:modifier_offsets[w + 1]` with `w = word_offsets[b] + m - 1`.
    """

    lengths: NDArray[np.int32]
    head: NDArray[np.int32]
    modifier: NDArray[np.int32]
    arc_score: NDArray[np.float32]
    sentence_offsets: NDArray[np.int64]
    modifier_offsets: NDArray[np.int64]

    def __post_init__(self) -> None:
        dtypes: dict[str, type[np.generic]] = dict.fromkeys(("lengths", "head", "modifier"), np.int32)
        dtypes |= {"arc_score": np.float32, "sentence_offsets": np.int64, "modifier_offsets": np.int64}
        for name, dtype in dtypes.items():  # kernels are compiled for these, and read without checking bounds
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=dtype))
        arcs = {len(self.head), len(self.modifier), len(self.arc_score), int(self.modifier_offsets[-1])}
        if len(arcs) > 1 or not np.array_equal(self.modifier_offsets[self.word_offsets], self.sentence_offsets):
            raise ValueError("head, modifier, arc_score and the offsets must describe the same arcs")
        finite = np.isfinite(self.arc_score)
        if not finite.all():
            k = int(np.argmin(finite))
            b = int(np.searchsorted(self.sentence_offsets, k, side="right")) - 1
            raise ValueError(
                f"sentence {b}: the arc from head {self.head[k]} to modifier {self.modifier[k]} scores"
                f" {self.arc_score[k]}; scores must be finite, or -inf in a dense matrix to leave an arc out"
            )

    @classmethod
    def from_dense(
        cls,
        arc: ArrayLike | Sequence[ArrayLike],
        lengths: ArrayLike | None = None,
        mask: ArrayLike | Sequence[ArrayLike] | None = None,
    ) -> Parts:
        """Pack dense score matrices, keeping the arcs that are neither -inf nor masked out.

        Row 0, the diagonal, and rows and columns beyond a sentence's length are never read.

        Args:
            arc: (B, N, N), or (N, N) for one sentence, or a list of square matrices; `arc[b, m, h]` is the score of
                head h for modifier m, and -inf forbids the arc.
            lengths: (B,) number of words of each sentence, N - 1 unless given.
            mask: like `arc`, False forbids the arc.

        Raises:
            ValueError: on NaN or +inf, naming the sentence and the arc; on shapes that do not fit.
        """
        score, start, stride = _flatten(arc, np.float32)
        n = stride - 1 if lengths is None else np.asarray(lengths, dtype=np.int64)
        if n.shape != stride.shape:
            raise ValueError(f"lengths must have one entry for each of {len(stride)} sentences, got shape {n.shape}")
        if (wrong := np.flatnonzero((n < 1) | (n >= stride))).size:
            b = wrong[0]
            raise ValueError(
                f"sentence {b}: {n[b]} words and the root do not fit a matrix of {stride[b]} x {stride[b]}"
            )
        if mask is None:
            allowed = np.empty(0, dtype=np.bool_)
        else:
            allowed, _, mask_stride = _flatten(mask, np.bool_)
            if not np.array_equal(mask_stride, stride):
                raise ValueError("mask must have the shape of arc")

        word_offsets = _offsets(n)
        counts = np.empty(word_offsets[-1], dtype=np.int64)  # (W,)
        steps = np.square(n, dtype=np.float64)
        over_sentences(lambda bs: _count(bs, n, start, stride, score, allowed, word_offsets, counts), steps)
        modifier_offsets = _offsets(counts)  # (W+1,)
        head, modifier = np.empty((2, modifier_offsets[-1]), dtype=np.int32)  # (A,) each
        arc_score = np.empty(modifier_offsets[-1], dtype=np.float32)  # (A,)
        over_sentences(
            lambda bs: _fill(
                bs, n, start, stride, score, allowed, word_offsets, modifier_offsets, head, modifier, arc_score
            ),
            steps,
        )
        return cls(n.astype(np.int32), head, modifier, arc_score, modifier_offsets[word_offsets], modifier_offsets)

    @cached_property
    def word_offsets(self) -> NDArray[np.int64]:
        """(B+1,) words of sentence b are `word_offsets[b]:word_offsets[b + 1]` among the batch's words."""
        return _offsets(self.lengths)

    def empty_trees(self) -> NDArray[np.int32]:
        """Heads of the batch for a decoder to fill: (B, max n + 1), all -1."""
        return np.full((len(self.lengths), int(self.lengths.max(initial=0)) + 1), -1, dtype=np.int32)

    def score(self, heads: ArrayLike) -> NDArray[np.float64]:
        """Exact score of one tree for each sentence.

        Args:
            heads: (B, N) as in `Trees.heads`.

        Returns:
            (B,) sums in float64, -inf where a tree uses an arc that is not a candidate.
        """
        arcs = self._arc_of_word(heads)
        used = np.where(arcs >= 0, self.arc_score[arcs] if len(self.arc_score) else 0.0, -np.inf).astype(np.float64)
        return np.add.reduceat(used, self.word_offsets[:-1]) if len(self.lengths) else np.zeros(0)

    def active(self, heads: ArrayLike) -> dict[str, NDArray[np.int64]]:
        """Which parts fire in one tree for each sentence.

        Args:
            heads: (B, N) as in `Trees.heads`.

        Returns:
            For each type of part (`arc`) the indices of those that fire, ascending.
        """
        arcs = self._arc_of_word(heads)
        return {"arc": arcs[arcs >= 0]}

    def subset(self, sentences: ArrayLike) -> Parts:
        """Parts of some of the sentences, in the order given.

        Args:
            sentences: (b,) sentence numbers, or (B,) booleans.
        """
        chosen = np.arange(len(self.lengths))[np.asarray(sentences)]
        lengths = self.lengths[chosen]
        words = _ranges(self.word_offsets[chosen], lengths)
        counts = np.diff(self.modifier_offsets)[words]
        arcs = _ranges(self.modifier_offsets[words], counts)
        modifier_offsets = _offsets(counts)
        return Parts(
            lengths,
            self.head[arcs],
            self.modifier[arcs],
            self.arc_score[arcs],
            modifier_offsets[_offsets(lengths)],
            modifier_offsets,
        )

    def _arc_of_word(self, heads: ArrayLike) -> NDArray[np.int64]:
        """(W,) the arc from each word's head in the trees, -1 where it is no candidate."""
        trees = np.ascontiguousarray(heads, dtype=np.int32)
        shape = (len(self.lengths), int(self.lengths.max(initial=0)) + 1)
        if trees.ndim != 2 or trees.shape[0] != shape[0] or trees.shape[1] < shape[1]:
            raise ValueError(f"heads must be {shape}, got {trees.shape}")
        arcs = np.empty(self.word_offsets[-1], dtype=np.int64)
        _find_arcs(self.lengths, self.word_offsets, self.modifier_offsets, self.head, trees, arcs)
        return arcs


def _offsets(counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """(k+1,) where each of k runs starts, and where the last ends."""
    offsets = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def _ranges(starts: NDArray[np.int64], counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """The numbers start..start + count - 1 of each run, one run after the other."""
    offsets = _offsets(counts)
    return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], counts)


def _flatten(
    matrices: ArrayLike | Sequence[ArrayLike], dtype: type[np.generic]
) -> tuple[NDArray, NDArray[np.int64], NDArray[np.int64]]:
    """Square matrices as one flat array, with the place where each starts and the length of its rows."""
    if isinstance(matrices, (list, tuple)) and len({np.shape(matrix) for matrix in matrices}) > 1:
        blocks = [np.asarray(matrix, dtype=dtype) for matrix in matrices]
        for block in blocks:
            if block.ndim != 2 or block.shape[0] != block.shape[1]:
                raise ValueError(f"arc must be square, got {block.shape}")
        stride = np.array([len(block) for block in blocks], dtype=np.int64)
        return np.concatenate([block.ravel() for block in blocks]), _offsets(np.square(stride))[:-1], stride
    dense = np.ascontiguousarray(matrices, dtype=dtype)
    if dense.ndim not in (2, 3) or dense.shape[-1] != dense.shape[-2]:
        raise ValueError(f"arc must be square, got {dense.shape}")
    if dense.ndim == 2:
        dense = dense[None]
    stride = np.full(len(dense), dense.shape[1], dtype=np.int64)
    return dense.reshape(-1), _offsets(np.square(stride))[:-1], stride


# Indices of inner loops that do not start at 0 are unsigned: numba lets signed ones count from the end of an array, and
# that test keeps a loop out of SIMD.


@numba.njit(cache=True, nogil=True)
def _count(sentences, lengths, start, stride, score, allowed, word_offsets, counts):
    """Count the candidate heads of each word."""
    for b in sentences:
        n = lengths[b]
        for m in range(1, n + 1):
            row = np.uint64(start[b] + m * stride[b])
            itself = row + np.uint64(m)
            count = 0
            if len(allowed) == 0:
                for k in range(row, row + np.uint64(n + 1)):
                    count += score[k] != -np.inf
                count -= score[itself] != -np.inf
            else:
                for k in range(row, row + np.uint64(n + 1)):
                    count += (score[k] != -np.inf) & allowed[k]
                count -= (score[itself] != -np.inf) & allowed[itself]
            counts[word_offsets[b] + m - 1] = count


@numba.njit(cache=True, nogil=True)
def _fill(sentences, lengths, start, stride, score, allowed, word_offsets, modifier_offsets, head, modifier, arc_score):
    """Write the candidate arcs of each word."""
    one = np.uint64(1)
    for b in sentences:
        n = np.uint64(lengths[b])
        for m in range(one, n + one):
            row = np.uint64(start[b]) + m * np.uint64(stride[b])
            w = np.uint64(word_offsets[b]) + m - one
            k, end = np.uint64(modifier_offsets[w]), np.uint64(modifier_offsets[w + one])
            if end - k == n:  # only the word itself is left out
                for h in range(m):
                    head[k + h] = h
                    modifier[k + h] = m
                    arc_score[k + h] = score[row + h]
                for h in range(m, n):
                    head[k + h] = h + one
                    modifier[k + h] = m
                    arc_score[k + h] = score[row + h + one]
            else:
                for h in range(n + one):  # write every head, and step past candidates: no branch to mispredict
                    if k == end:
                        break
                    head[k] = h
                    modifier[k] = m
                    arc_score[k] = score[row + h]
                    allows = True if len(allowed) == 0 else allowed[row + h]
                    k += np.uint64((h != m) & (score[row + h] != -np.inf) & allows)


@numba.njit(cache=True, nogil=True)
def _find_arcs(lengths, word_offsets, modifier_offsets, head, trees, arcs):
    """Find the arc from each word's head, by bisection unless all heads are candidates."""
    for b in range(len(lengths)):
        n = lengths[b]
        for m in range(1, n + 1):
            w = word_offsets[b] + m - 1
            low, end = modifier_offsets[w], modifier_offsets[w + 1]
            h = trees[b, m]
            if end - low == n:
                low += max(h - (h > m), 0)
            else:
                high = end
                while low < high:
                    middle = (low + high) // 2
                    if head[middle] < h:
                        low = middle + 1
                    else:
                        high = middle
            arcs[w] = low if low < end and head[low] == h else -1
