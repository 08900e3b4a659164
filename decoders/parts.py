"""Parts: the one structure between scoring and decoding.

Orientation, root and padding are written down here and nowhere else: words are 1..n, 0 is the root, and `arc[m, h]` is
the score of head h for modifier m.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from arbora.decoders.threads import over_sentences

HELPER: dict[str, Any] = {"cache": True, "nogil": True, "forceinline": True, "_nrt": False}
"""Options of a kernel that others call in their loops. It must not allocate: `_nrt` switches off the counting of
references, which at each call takes an atomic instruction for each array, often longer than what the helper does."""


@dataclass(frozen=True, eq=False)
class Parts:
    """Candidate arcs of a batch of B sentences with W words in all, packed into flat arrays.

    Arcs are sorted by (sentence, modifier, head). An arc that is not listed is forbidden; those listed score finitely.

    Args:
        lengths: (B,) number of words of each sentence, at least 1; the root is not counted.
        head: (A,) head of each arc, 0..n.
        arc_score: (A,) score of each arc.
        sentence_offsets: (B+1,) arcs of sentence b are `sentence_offsets[b]:sentence_offsets[b + 1]`.
        modifier_offsets: (W+1,) one entry a word, sentence after sentence, root left out: arcs into word m of sentence
            b are `modifier_offsets[w]:modifier_offsets[w + 1]` with `w = word_offsets[b] + m - 1`.
    """

    lengths: NDArray[np.int32]
    head: NDArray[np.int32]
    arc_score: NDArray[np.float32]
    sentence_offsets: NDArray[np.int64]
    modifier_offsets: NDArray[np.int64]

    def __post_init__(self) -> None:
        dtypes: dict[str, type[np.generic]] = {"lengths": np.int32, "head": np.int32, "arc_score": np.float32}
        dtypes |= {"sentence_offsets": np.int64, "modifier_offsets": np.int64}
        for name, dtype in dtypes.items():  # kernels are compiled for these, and read without checking bounds
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=dtype))
        arcs = {len(self.head), len(self.arc_score), int(self.modifier_offsets[-1])}
        if len(arcs) > 1 or not np.array_equal(self.modifier_offsets[self.word_offsets], self.sentence_offsets):
            raise ValueError("head, arc_score and the offsets must describe the same arcs")
        words = np.repeat(np.arange(self.word_offsets[-1]), np.diff(self.modifier_offsets).clip(min=0))
        most = np.repeat(self.lengths, self.lengths)[words] if len(words) == len(self.head) else None
        if (
            most is None
            or ((self.head < 0) | (self.head > most) | (self.head == self.modifier)).any()
            or ((np.diff(words) == 0) & (np.diff(self.head) <= 0)).any()
        ):
            raise ValueError("the heads of each word must ascend, lie in 0..n, and leave the word itself out")
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
                head h for modifier m, and -inf forbids the arc. Scores are kept as float32, and added up in float64.
            lengths: (B,) number of words of each sentence, N - 1 unless given.
            mask: like `arc`, False forbids the arc.

        Raises:
            ValueError: on NaN or +inf, naming the sentence and the arc; on shapes that do not fit.
        """
        score, start, stride = _flatten(arc, np.float32)
        n = stride - 1 if lengths is None else np.asarray(lengths, dtype=np.int64)
        if n.shape != stride.shape:
            raise ValueError(f"lengths must have one entry for each of {len(stride)} sentences, got shape {n.shape}")
        if np.count_nonzero(wrong := (n < 1) | (n >= stride)):
            b = np.argmax(wrong)
            raise ValueError(
                f"sentence {b}: {n[b]} words and the root do not fit a matrix of {stride[b]} x {stride[b]}"
            )
        if mask is None:
            allowed = np.empty(0, dtype=np.bool_)
        else:
            allowed, _, mask_stride = _flatten(mask, np.bool_)
            if not np.array_equal(mask_stride, stride):
                raise ValueError("mask must have the shape of arc")

        # Each sentence gets room for all arcs. Where some are left out, the gaps are closed in a second pass.
        steps = n * n
        word_offsets, room = _offsets(n), _offsets(steps)
        counts = np.zeros(word_offsets[-1] + 1, dtype=np.int64)  # (W+1,), the first 0
        finite = np.ones(len(n), dtype=np.bool_)
        head = np.empty(room[-1], dtype=np.int32)
        arc_score = np.empty(room[-1], dtype=np.float32)
        bits, arc_bits = score.view(np.int32), arc_score.view(np.int32)
        over_sentences(
            lambda bs: _fill(bs, n, start, stride, bits, allowed, word_offsets, room, counts, finite, head, arc_bits),
            steps,
        )
        modifier_offsets = np.cumsum(counts)  # (W+1,)
        sentence_offsets = modifier_offsets[word_offsets]
        if sentence_offsets[-1] < room[-1]:
            loose_head, loose_score = head, arc_score
            head, arc_score = (
                np.empty_like(head[: sentence_offsets[-1]]),
                np.empty_like(arc_score[: sentence_offsets[-1]]),
            )
            _close_gaps(room, sentence_offsets, loose_head, loose_score, head, arc_score)
        fields = (n.astype(np.int32), head, arc_score, sentence_offsets, modifier_offsets)
        return cls._unchecked(*fields, word_offsets) if np.count_nonzero(finite) == len(n) else cls(*fields)

    @classmethod
    def _unchecked(
        cls,
        lengths: NDArray[np.int32],
        head: NDArray[np.int32],
        arc_score: NDArray[np.float32],
        sentence_offsets: NDArray[np.int64],
        modifier_offsets: NDArray[np.int64],
        word_offsets: NDArray[np.int64],
    ) -> Parts:
        """Parts of arrays that are known to pass the checks, which read all scores."""
        parts = object.__new__(cls)
        parts.__dict__.update(
            lengths=lengths,
            head=head,
            arc_score=arc_score,
            sentence_offsets=sentence_offsets,
            modifier_offsets=modifier_offsets,
            word_offsets=word_offsets,
        )
        return parts

    @cached_property
    def modifier(self) -> NDArray[np.int32]:
        """(A,) modifier of each arc, 1..n."""
        modifiers = 1 + _ranges(np.zeros_like(self.word_offsets[:-1]), self.lengths)  # (W,)
        return np.repeat(modifiers, np.diff(self.modifier_offsets)).astype(np.int32)

    @cached_property
    def word_offsets(self) -> NDArray[np.int64]:
        """(B+1,) words of sentence b are `word_offsets[b]:word_offsets[b + 1]` among the batch's words."""
        return _offsets(self.lengths)

    @cached_property
    def _longest(self) -> int:
        return int(self.lengths.max(initial=0))

    def empty_trees(self) -> NDArray[np.int32]:
        """Heads of the batch for a decoder to fill: (B, max n + 1), all -1."""
        return np.full((len(self.lengths), self._longest + 1), -1, dtype=np.int32)

    def score(self, heads: ArrayLike) -> NDArray[np.float64]:
        """Exact score of one tree for each sentence.

        Args:
            heads: (B, N) as in `Trees.heads`.

        Returns:
            (B,) sums in float64, -inf where a tree uses an arc that is not a candidate.
        """
        trees = self._checked_trees(heads)
        total = np.empty(len(self.lengths))
        _score(self.lengths, self.word_offsets, self.modifier_offsets, self.head, self.arc_score, trees, total)
        return total

    def active(self, heads: ArrayLike) -> dict[str, NDArray[np.int64]]:
        """Which parts fire in one tree for each sentence.

        Args:
            heads: (B, N) as in `Trees.heads`.

        Returns:
            For each type of part (`arc`) the indices of those that fire, ascending.
        """
        trees = self._checked_trees(heads)
        arcs = np.empty(self.word_offsets[-1], dtype=np.int64)
        _find_arcs(self.lengths, self.word_offsets, self.modifier_offsets, self.head, trees, arcs)
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
        word_offsets, modifier_offsets = _offsets(lengths), _offsets(counts)
        return self._unchecked(
            lengths,
            self.head[arcs],
            self.arc_score[arcs],
            modifier_offsets[word_offsets],
            modifier_offsets,
            word_offsets,
        )

    def _checked_trees(self, heads: ArrayLike) -> NDArray[np.int32]:
        trees = np.ascontiguousarray(heads, dtype=np.int32)
        shape = (len(self.lengths), self._longest + 1)
        if trees.ndim != 2 or trees.shape[0] != shape[0] or trees.shape[1] < shape[1]:
            raise ValueError(f"heads must be {shape}, got {trees.shape}")
        return trees


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
    size = dense.shape[1]
    return dense.reshape(-1), np.arange(len(dense)) * size**2, np.full(len(dense), size)


# Indices of inner loops that do not start at 0 are unsigned: numba lets signed ones count from the end of an array, and
# that test keeps a loop out of SIMD.


NO_ARC = np.float32(-np.inf).view(np.int32)


@numba.njit(cache=True, nogil=True)
def _fill(sentences, lengths, start, stride, bits, allowed, word_offsets, room, counts, finite, head, arc_bits):
    """Write the candidate arcs of each sentence from room[b] on, count those of each word, and look for NaN and +inf.

    Scores are read and written as the bits of their float32, so that one test of the exponent finds all of -inf, NaN
    and +inf, and it takes part in SIMD.
    """
    one = np.uint64(1)
    exponent = np.int32(0x7F800000)
    for b in sentences:
        n = np.uint64(lengths[b])
        k = np.uint64(room[b])
        for m in range(one, n + one):
            row = np.uint64(start[b]) + m * np.uint64(stride[b])
            largest = exponent
            if len(allowed) == 0:  # most often only the word itself is left out
                largest = np.int32(0)
                for place in range(n):
                    left, right = bits[row + place], bits[row + place + one]  # both, so that the choice needs no branch
                    value = left if place < m else right
                    head[k + place] = place + (place >= m)
                    arc_bits[k + place] = value
                    largest = max(largest, value & exponent)
            count = n
            if largest == exponent:
                count = np.uint64(0)
                wrong = False
                for h in range(n + one):  # write every head, and step past candidates: no branch to mispredict
                    if count == n:
                        break
                    value = bits[row + h]
                    allows = True if len(allowed) == 0 else allowed[row + h]
                    candidate = (h != m) & (value != NO_ARC) & allows
                    head[k + count] = h
                    arc_bits[k + count] = value
                    count += np.uint64(candidate)
                    wrong |= candidate & ((value & exponent) == exponent)
                if wrong:
                    finite[b] = False
            counts[np.uint64(word_offsets[b]) + m] = count
            k += count


@numba.njit(cache=True, nogil=True)
def _close_gaps(room, sentence_offsets, loose_head, loose_score, head, arc_score):
    """Move the arcs of each sentence from room[b] to sentence_offsets[b]."""
    for b in range(len(room) - 1):
        gap = np.uint64(room[b] - sentence_offsets[b])
        for k in range(np.uint64(sentence_offsets[b]), np.uint64(sentence_offsets[b + 1])):
            head[k] = loose_head[k + gap]
            arc_score[k] = loose_score[k + gap]


@numba.njit(cache=True, nogil=True)
def _score(lengths, word_offsets, modifier_offsets, head, arc_score, trees, totals):
    """Add up the scores of each tree's arcs."""
    for b in range(len(lengths)):
        n = lengths[b]
        total = 0.0
        for m in range(1, n + 1):
            w = word_offsets[b] + m - 1
            k = _find_arc(modifier_offsets[w], modifier_offsets[w + 1], head, trees[b, m], m, n)
            total += arc_score[k] if k >= 0 else -np.inf
        totals[b] = total


@numba.njit(cache=True, nogil=True)
def _find_arcs(lengths, word_offsets, modifier_offsets, head, trees, arcs):
    """Find the arc from each word's head, -1 where it is no candidate."""
    for b in range(len(lengths)):
        for m in range(1, lengths[b] + 1):
            w = word_offsets[b] + m - 1
            arcs[w] = _find_arc(modifier_offsets[w], modifier_offsets[w + 1], head, trees[b, m], m, lengths[b])


@numba.njit(**HELPER)
def _find_arc(start, end, head, h, m, n):
    """Find the arc from h to m among start..end - 1, by bisection unless all heads are candidates; -1 if not there."""
    found = -1
    if end - start == n:
        if 0 <= h <= n and h != m:
            found = start + h - (h > m)
    else:
        low, high = start, end
        while low < high:
            middle = (low + high) // 2
            if head[middle] < h:
                low = middle + 1
            else:
                high = middle
        if low < end and head[low] == h:
            found = low
    return found
