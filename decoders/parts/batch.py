"""Parts: the one structure between scoring and decoding.

Orientation, root and padding are written down here and nowhere else: words are 1..n, 0 is the root, and `arc[m, h]` is
the score of head h for modifier m. A part is a set of arcs that are in the tree and a set of candidate arcs that are
not; it fires in a tree of which both hold, and a tree scores the sum of the parts that fire. Tree features are more
entries that fire in some trees. `kinds` has a record of each kind, `layout` and `tree_features` say how they are
packed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from arbora.decoders.kernels.options import FILLING
from arbora.decoders.kernels.threads import over_sentences
from arbora.decoders.parts import layout as lay
from arbora.decoders.parts.conversion import as_array, as_float32, as_integers
from arbora.decoders.parts.kinds import COMMON, HIGHER_ORDER, KINDS, kind_of, offsets_of, ranges_of
from arbora.decoders.parts.layout import Layout, Wide
from arbora.decoders.parts.tree_features import TAGS


class Sides(NamedTuple):
    """Candidate arcs by their heads."""

    outward: NDArray[np.int32]  # (A,) arcs sorted by (sentence, head, side, distance)
    side_offsets: NDArray[np.int64]  # (2(W+B)+1,) those of each side in `outward`
    rank: NDArray[np.int32]  # (A,) place of each arc on its side, 1..J


@dataclass(frozen=True, eq=False, repr=False)
class Parts:
    """Candidate arcs and higher-order parts of a batch of B sentences with W words in all, packed into flat arrays.

    Arcs are sorted by (sentence, modifier, head). An arc that is not listed is forbidden; all listed arcs have finite
    scores. Kinds of higher-order parts are optional. They hold only scores: which parts exist, and where each one is
    stored, follows from the arcs (`arbora.decoders.parts.layout`). A part that scores -inf is forbidden. Tree features,
    which `arbora.decoders.parts.tree_features` describes, are optional too.

    Args:
        lengths: (B,) number of words of each sentence, at least 1; the root is not counted.
        head: (A,) head of each arc, 0..n.
        arc_score: (A,) score of each arc.
        sentence_offsets: (B+1,) arcs of sentence b are `sentence_offsets[b]:sentence_offsets[b + 1]`.
        modifier_offsets: (W+1,) one entry per word, sentence after sentence, without the root: arcs into word m of
            sentence b are `modifier_offsets[w]:modifier_offsets[w + 1]`, where w is `word_offsets[b] + m - 1`.
        grandparent: scores of (g, h) with (h, m).
        sibling: scores of two consecutive modifiers on one side of a head. START stands before the first and END after
            the last modifier of a side.
        any_sibling: scores of any two modifiers of a head.
        head_bigram: scores of the heads of two neighbouring words.
        grand_sibling: scores of (g, h) with two modifiers of h as in `sibling`.
        tri_sibling: scores of three consecutive modifiers as in `sibling`, the second of which is a word.
        grand_grandparent: scores of (gg, g) with (g, h) and (h, m).
        inner_sibling_grandchild: scores of two consecutive modifiers, both words, with a modifier of the inner one.
        outer_sibling_grandchild: the same with a modifier of the outer one.
        valency: scores of a word and the numbers of its modifiers on both sides.
        span: scores of a word, the length of the span that it dominates, and what follows this span.
        neighbours: scores of an arc and the tags next to the span of its modifier.
        crossing: scores of an arc and the number of words between its ends whose heads are outside.
        right_branching: scores of the number of words on the path from the root along last modifiers.
        coordination: scores of a conjunction and its two conjuncts.
        conjunct: scores of a conjunction, one of its conjuncts, and the head of the coordination.
        tags: (W,) universal tags, numbered as in `arbora.decoders.parts.tree_features`, 0 for others; only tree
            features look at them.
    """

    lengths: NDArray[np.int32]
    head: NDArray[np.int32]
    arc_score: NDArray[np.float32]
    sentence_offsets: NDArray[np.int64]
    modifier_offsets: NDArray[np.int64]
    grandparent: NDArray[np.float32] | None = None
    sibling: NDArray[np.float32] | None = None
    any_sibling: NDArray[np.float32] | None = None
    head_bigram: NDArray[np.float32] | None = None
    grand_sibling: NDArray[np.float32] | None = None
    tri_sibling: NDArray[np.float32] | None = None
    grand_grandparent: NDArray[np.float32] | None = None
    inner_sibling_grandchild: NDArray[np.float32] | None = None
    outer_sibling_grandchild: NDArray[np.float32] | None = None
    valency: NDArray[np.float32] | None = None
    span: NDArray[np.float32] | None = None
    neighbours: NDArray[np.float32] | None = None
    crossing: NDArray[np.float32] | None = None
    right_branching: NDArray[np.float32] | None = None
    coordination: NDArray[np.float32] | None = None
    conjunct: NDArray[np.float32] | None = None
    tags: NDArray[np.uint8] = None  # type: ignore[assignment]
    forbidden: frozenset[str] = field(init=False, default=frozenset())
    """Kinds with forbidden parts, which score -inf."""

    def __post_init__(self) -> None:
        # Kernels are compiled for these types, and read without checking bounds.
        for name, dtype in (("lengths", np.int32), ("head", np.int32)):
            object.__setattr__(self, name, as_integers(name, getattr(self, name), dtype))
        for name in ("sentence_offsets", "modifier_offsets"):
            object.__setattr__(self, name, as_integers(name, getattr(self, name), np.int64))
        if (
            len(self.head) != self.modifier_offsets[-1]
            or len(self.modifier_offsets) != self.word_offsets[-1] + 1
            or not np.array_equal(self.modifier_offsets[self.word_offsets], self.sentence_offsets)
        ):
            raise ValueError("head and the offsets must describe the same arcs")
        if not _in_order(self.lengths, self.word_offsets, self.modifier_offsets, self.head):
            raise ValueError("the heads of each word must be sorted, lie in 0..n, and not include the word itself")
        object.__setattr__(self, "tags", self._checked_tags(self.tags))
        self._set_scores({name: getattr(self, name) for name in ("arc_score", *self.kinds)})

    def _set_scores(self, scores: dict[str, Any]) -> None:
        """Take over scores by field, as float32 arrays, and note which kinds have forbidden parts.

        Raises:
            ValueError: on another number of scores than there are parts, NaN, +inf, -inf for an arc, or a score that is
                too large for float32, naming the sentence and the part.
        """
        forbidden = set(self.forbidden)
        for name, given in scores.items():
            array = as_array(given, masked=-np.inf)
            score, overflow = as_float32(array)
            offsets = self.sentence_offsets if name == "arc_score" else self.part_offsets(name)
            if score.shape != (offsets[-1],):
                raise ValueError(f"{name} must have one score for each of {offsets[-1]} parts, got shape {score.shape}")
            self.__dict__[name] = score
            forbidden.discard(name)
            if _all_finite(score.view(np.int32)):
                continue
            if overflow is not None and overflow.any():
                e = int(np.argmax(overflow))
                self._refuse(name, e, array[e], "which float32 cannot hold")
            wrong = ~np.isfinite(score) if name == "arc_score" else ~(score < np.inf)
            if wrong.any():
                e = int(np.argmax(wrong))
                arc, part = "-inf in a dense matrix leaves an arc out", "-inf forbids the part"
                self._refuse(name, e, score[e], f"but must be finite; {arc if name == 'arc_score' else part}")
            forbidden.add(name)
        self.__dict__["forbidden"] = frozenset(forbidden)

    def _refuse(self, name: str, e: int, value: Any, why: str) -> None:
        """Raise an error about one score."""
        if name == "arc_score":
            offsets, what = self.sentence_offsets, f"the arc from head {self.head[e]} to modifier {self.modifier[e]}"
        else:
            offsets, what = self.part_offsets(name), f"the {name} of words {self.words(name)[e].tolist()}"
        b = int(np.searchsorted(offsets, e, side="right")) - 1
        raise ValueError(f"sentence {b}: {what} scores {value}, {why}")

    def __repr__(self) -> str:
        sizes = [f"{len(getattr(self, kind))} {kind}" for kind in self.kinds]
        counts = [f"{len(self.lengths)} sentences", f"{self.word_offsets[-1]} words", f"{len(self.head)} arcs", *sizes]
        return f"Parts({', '.join(counts)})"

    @classmethod
    def from_dense(
        cls,
        arc: ArrayLike | Sequence[ArrayLike],
        lengths: ArrayLike | None = None,
        mask: ArrayLike | Sequence[ArrayLike] | None = None,
        tags: ArrayLike | None = None,
        **higher: ArrayLike,
    ) -> Parts:
        """Pack dense score matrices, keeping the arcs that are neither -inf nor masked out.

        Row 0, the diagonal, and rows and columns beyond a sentence's length are never read. Arrays may be masked
        arrays, whose masked entries count as -inf, or tensors of torch, which are detached.

        Args:
            arc: (B, N, N), or (N, N) for one sentence, or a list of square matrices; `arc[b, m, h]` is the score of
                head h for modifier m, and -inf forbids the arc. Scores are kept as float32, and added up in float64.
            lengths: (B,) number of words of each sentence, N - 1 unless given.
            mask: like `arc`, False forbids the arc.
            tags: (B, N), or (N,) for one sentence: numbers of the universal tags of words, by position; only tree
                features look at them.
            higher: scores of higher-order parts by kind, such as `grandparent` (B, N, N, N), or `valency` (B, N, 6, 6),
                indexed by the sentence and by what `words` lists for the kind; (N, N, N) for one sentence. -inf forbids
                the part.

        Raises:
            ValueError: on NaN, +inf or a score that float32 cannot hold, naming the sentence and the arc or part; on
                shapes that do not fit.
        """
        _refuse_unknown(higher, *KINDS)
        given, start, stride = _flatten(arc, -np.inf)
        score, overflow = as_float32(given)
        n = stride - 1 if lengths is None else as_integers("lengths", lengths, np.int64)
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
            allowed, _, mask_stride = _flatten(mask, False)
            allowed = allowed.astype(np.bool_, copy=False)
            if not np.array_equal(mask_stride, stride):
                raise ValueError("mask must have the shape of arc")
        if overflow is not None:
            _refuse_overflow(given, overflow, allowed, n, start, stride)

        # Each sentence gets room for all arcs. Where some are left out, the gaps are closed in a second pass.
        steps = n * n
        word_offsets, room = offsets_of(n), offsets_of(steps)
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
        parts = cls._unchecked(*fields, word_offsets) if np.count_nonzero(finite) == len(n) else cls(*fields)
        if tags is not None:
            dense = np.atleast_2d(as_array(tags))
            if dense.ndim != 2 or len(dense) != len(n) or dense.shape[1] <= n.max(initial=0):
                raise ValueError(f"tags must be {(len(n), int(n.max(initial=0)) + 1)}, got {np.shape(tags)}")
            parts = parts.with_tags(np.concatenate([row[1 : 1 + k] for row, k in zip(dense, n)] or [dense[:0, 0]]))
        if not higher:
            return parts
        return parts.with_scores(**{kind: parts._pick(kind, dense) for kind, dense in higher.items()})

    @classmethod
    def from_arcs(cls, lengths: ArrayLike, arcs: ArrayLike, scores: ArrayLike) -> Parts:
        """Pack a list of candidate arcs, in any order. Other parts over them are added by `with_scores`.

        Args:
            lengths: (B,) number of words of each sentence.
            arcs: (A, 3) sentence, modifier and head of each arc: sentences count from 0, words from 1, 0 is the root.
            scores: (A,) score of each arc.

        Raises:
            ValueError: an arc is outside of its sentence or listed twice, or a score is not finite.
        """
        n, listed = as_integers("lengths", lengths, np.int64), as_integers("arcs", arcs, np.int64)
        if listed.ndim != 2 or listed.shape[1] != 3:
            raise ValueError(f"arcs must be (A, 3): sentence, modifier, head; got shape {listed.shape}")
        sentence, modifier, head = listed.T
        wrong = (sentence < 0) | (sentence >= len(n)) | (modifier < 1)
        wrong |= ~wrong & (modifier > n[sentence.clip(0, len(n) - 1)])
        if wrong.any():
            raise ValueError(
                f"arcs: {listed[wrong.argmax()].tolist()} (sentence, modifier, head) names a word that does not exist"
            )
        word_offsets = offsets_of(n)
        word = word_offsets[sentence] + modifier - 1
        order = np.lexsort((head, word))
        modifier_offsets = offsets_of(np.bincount(word, minlength=word_offsets[-1]))
        ordered = as_array(scores, masked=-np.inf)[order]
        return cls(n, head[order], ordered, modifier_offsets[word_offsets], modifier_offsets)

    def save(self, folder: str | Path, heads: ArrayLike, forms: Sequence[Sequence[str]] | None = None) -> None:
        """Save the parts to a folder that `arbora compare` takes instead of a parser.

        Args:
            folder: to write; an existing folder of scores is replaced.
            heads: (B, N) the gold trees, as in `Trees.heads`.
            forms: words of each sentence, for the report; by default, their numbers.
        """
        from arbora.evaluation.saved import save_parts  # the only step from here upwards

        save_parts(folder, self, np.asarray(as_array(heads)), forms)

    def _pick(self, kind: str, dense: ArrayLike) -> NDArray[Any]:
        """Scores of a kind of parts out of a dense array, of whatever type they are there."""
        words = self.words(kind)
        sizes = (len(self.lengths), *kind_of(kind).dense_shape(self._longest + 1))
        scores = as_array(dense, masked=-np.inf)
        if scores.ndim == words.shape[1] and len(self.lengths) == 1:
            scores = scores[None]
        fits = scores.ndim == len(sizes) and scores.shape[0] == sizes[0]
        if not fits or any(got < size for got, size in zip(scores.shape, sizes, strict=True)):
            raise ValueError(f"{kind} must be {sizes}, got {scores.shape}")
        sentence = np.repeat(np.arange(len(self.lengths)), np.diff(self.part_offsets(kind)))
        picked: NDArray[Any] = scores[(sentence, *words.T)]
        return picked

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
            forbidden=frozenset(),
            tags=np.zeros(word_offsets[-1], dtype=np.uint8),
            **dict.fromkeys(KINDS),
        )
        return parts

    @cached_property
    def modifier(self) -> NDArray[np.int32]:
        """(A,) modifier of each arc, 1..n."""
        modifier = np.empty_like(self.head)
        _fill_modifiers(self.lengths, self.word_offsets, self.modifier_offsets, modifier)
        return modifier

    @cached_property
    def word_offsets(self) -> NDArray[np.int64]:
        """(B+1,) place of the first word of each sentence among those of the batch, and the number of all words."""
        return offsets_of(self.lengths)

    @cached_property
    def _longs(self) -> NDArray[np.int64]:
        """(B,) lengths whose squares do not overflow."""
        return self.lengths.astype(np.int64)

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
            (B,) sums in float64, -inf where a tree uses an arc that is not a candidate, or a forbidden part fires.
        """
        arcs = self._tree_arcs(heads)
        total = np.zeros(len(self.lengths))
        there = arcs >= 0
        if there.all():
            lay.add_up(self.arc_score, arcs, self.word_offsets, total)
        else:
            lay.add_up(self.arc_score, arcs[there], offsets_of(there.astype(np.int64))[self.word_offsets], total)
            total[np.searchsorted(self.word_offsets, np.flatnonzero(~there), side="right") - 1] = -np.inf
        for kind in self.kinds:
            lay.add_up(getattr(self, kind), *self._active(kind, arcs), total)
        return total

    def active(self, heads: ArrayLike) -> dict[str, NDArray[np.int64]]:
        """Return the parts that fire in one tree for each sentence.

        Args:
            heads: (B, N) as in `Trees.heads`.

        Returns:
            For `arc` and each kind of parts in the batch, the sorted indices of the parts that fire. Arcs of a tree
            that are not candidates are ignored.
        """
        arcs = self._tree_arcs(heads)
        return {"arc": arcs[arcs >= 0], **{kind: self._active(kind, arcs)[0] for kind in self.kinds}}

    def _active(self, kind: str, arcs: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Entries of a kind that fire, and where those of each sentence start and end among them."""
        record = KINDS[kind]
        if kind not in self._most_active:
            self._most_active[kind] = int(record.most(self._longs).sum())
        entries = np.empty(self._most_active[kind], dtype=np.int64)
        offsets = np.zeros(len(self.lengths) + 1, dtype=np.int64)
        record.active(self, arcs, entries, offsets)
        return entries[: offsets[-1]], offsets

    def places(self, kind: str, base: NDArray[np.int64], stride: int, start: int) -> NDArray[np.int64]:
        """Return the place of each part's score in the matrix products of a scorer, in the order of the parts.

        For each sentence the scorer has a matrix of rows and columns. Rows of kinds with three words are the arcs of
        the sentence and, behind them, the END of each side (`arcs + 2 * h + side`): (h, m) for `grandparent`, whose
        columns are g; (h, outer sibling) for `sibling` and `any_sibling`, whose columns are the inner sibling; (h, m)
        for `head_bigram`, whose columns are the head of m - 1. Rows of kinds with four words are the entries of
        `sibling` of the sentence: `grand_sibling` has g in columns, `tri_sibling` the innermost of three,
        `inner_sibling_grandchild` and `outer_sibling_grandchild` the grandchild. Those of `grand_grandparent` are the
        entries of `grandparent`, with the head of g in columns. Columns are the positions 0..n, and `start + side` for
        START. Tree features have no such places.

        Args:
            kind: kind of parts.
            base: (B,) where the matrix of each sentence starts.
            stride: columns of a matrix.
            start: column of the START of left sides; that of right sides is the next.
        """
        if kind not in HIGHER_ORDER:
            raise ValueError(f"{kind} cannot be placed in matrices; choose from {', '.join(HIGHER_ORDER)}")
        offsets = self.part_offsets(kind)
        places = np.empty(offsets[-1], dtype=np.int64)
        fill = HIGHER_ORDER[kind].places
        over_sentences(lambda sentences: fill(self, sentences, base, stride, start, places), np.diff(offsets))
        return places

    def words(self, kind: str) -> NDArray[np.int64]:
        """Words of each part of a kind, (P, 3) or (P, 4), in the order of the parts; other columns for tree features.

        `grandparent`: m, h, g. `sibling`: h, inner, outer. `any_sibling`: h, first, second. `head_bigram`: m, head of
        m, head of m - 1. `grand_sibling`: g, h, inner, outer. `tri_sibling`: h, innermost, middle, outermost. The head
        itself stands for START and END. `grand_grandparent`: m, h, g, head of g. `inner_sibling_grandchild` and
        `outer_sibling_grandchild`: h, inner, outer, grandchild.

        Tree features have words, and the numbers that index their tables. `valency`: word, modifiers on the left and on
        the right, up to 5. `span`: word, length less 1, what follows. `neighbours`: m, h, tags before and after the
        span. `crossing`: m, h, range of the count. `right_branching`: words on the last path. `coordination`:
        conjunction, second conjunct, first conjunct. `conjunct`: conjunction, conjunct, head of the coordination.
        """
        return kind_of(kind).words(self)

    def part_offsets(self, kind: str) -> NDArray[np.int64]:
        """(B+1,) parts of a kind of sentence b are `part_offsets(kind)[b]:part_offsets(kind)[b + 1]`."""
        return self.block_offsets(kind)[kind_of(kind).blocks(self)]

    def block_offsets(self, kind: str) -> NDArray[np.int64]:
        """Return the starts of the blocks of a kind, and the end of the last one."""
        if kind not in self._block_offsets:
            self._block_offsets[kind] = kind_of(kind).block_offsets(self)
        return self._block_offsets[kind]

    @cached_property
    def common_offsets(self) -> dict[str, NDArray[np.int64]]:
        """`block_offsets` of the kinds in `layout`, which are found together."""
        nodes, A = self.word_offsets[-1] + len(self.lengths), len(self.head)
        blocks = A, 2 * nodes, nodes, self.word_offsets[-1], 2 * A, 2 * nodes  # in the order of COMMON
        offsets = tuple([np.zeros(count + 1, dtype=np.int64) for count in blocks])
        arrays = (self.lengths, self.word_offsets, self.modifier_offsets, self.head, self.sides.side_offsets)
        lay.find_blocks(*arrays, offsets)
        return dict(zip(COMMON, offsets, strict=True))

    @cached_property
    def _block_offsets(self) -> dict[str, NDArray[np.int64]]:
        return {}

    @cached_property
    def _most_active(self) -> dict[str, int]:
        """By kind, how many entries fire at most in one tree for each sentence."""
        return {}

    @cached_property
    def grandchild_offsets(self) -> NDArray[np.int64]:
        """(A+1,) sums of the numbers of candidate modifiers that the modifiers of arcs have, in the order outward."""
        nodes = self.word_offsets[:-1] + np.arange(len(self.lengths))
        node = np.repeat(nodes, np.diff(self.sentence_offsets)) + self.modifier[self.sides.outward]
        return offsets_of(np.diff(self.sides.side_offsets[::2])[node])

    @cached_property
    def sides(self) -> Sides:
        """Candidate arcs by their heads, each side outward."""
        outward, rank = np.empty_like(self.head), np.empty_like(self.head)
        side_offsets = np.zeros(2 * (self.word_offsets[-1] + len(self.lengths)) + 1, dtype=np.int64)
        arrays = (self.lengths, self.word_offsets, self.modifier_offsets, self.head, self.modifier)
        lay.sort_outward(*arrays, outward, side_offsets, rank)
        return Sides(outward, side_offsets, rank)

    @cached_property
    def spread(self) -> NDArray[np.float64]:
        """(B,) upper bound on the difference in score between two trees without forbidden parts.

        It does not change when a constant is added to the arcs into a word, and scales with the scores.
        """
        n = self._longs
        spread = np.zeros(len(n))
        _add_arc_ranges(self.word_offsets, self.modifier_offsets, self.arc_score, spread)
        for kind in self.kinds:
            width = np.zeros(len(n))
            _score_ranges(getattr(self, kind), self.part_offsets(kind), width)
            spread += KINDS[kind].most(n) * width
        return spread

    def penalised(self) -> Parts:
        """The same parts with finite scores: a forbidden part costs twice the `spread` of its sentence.

        Parts without forbidden ones are returned as they are. A tree with forbidden parts scores less than any tree
        without. `spread` stays that of the finite scores.

        Raises:
            ValueError: when float32 cannot hold the penalty of a sentence, naming it.
        """
        if not self.forbidden:
            return self
        penalty = np.where(self.spread > 0, 2 * self.spread, 1.0)
        if (large := penalty > np.finfo(np.float32).max).any():
            b = int(np.argmax(large))
            raise ValueError(f"sentence {b}: scores are too large to forbid parts next to them; divide all by 2**20")
        scores = {}
        for kind in sorted(self.forbidden):
            score: NDArray[np.float32] = getattr(self, kind).copy()
            entries = np.flatnonzero(score == -np.inf)
            sentence = np.searchsorted(self.part_offsets(kind), entries, side="right") - 1
            score[entries] = -penalty[sentence]
            scores[kind] = score
        parts = self.with_scores(**scores)
        parts.__dict__["spread"] = self.spread
        return parts

    def require_finite(self, what: str) -> None:
        """Refuse forbidden parts.

        Args:
            what: the computation that cannot handle them, for the message.

        Raises:
            ValueError: naming the kinds.
        """
        if self.forbidden:
            raise ValueError(f"{what} cannot handle scores of -inf, which {', '.join(sorted(self.forbidden))} has")

    @cached_property
    def layout(self) -> Layout:
        """All that most kernels read, in one tuple."""
        arrays: list[Any] = [self.lengths, self.word_offsets, self.sentence_offsets, self.modifier_offsets, self.head]
        arrays += [self.modifier, *self.sides, *self.common_offsets.values(), self.arc_score]
        return Layout(*arrays, *self._scores(COMMON).values())

    @cached_property
    def wide(self) -> Wide:
        """Arrays for kernels of the kinds that are not in `layout`, in one tuple."""
        others = [kind for kind in KINDS if kind not in COMMON]
        offsets: dict[str, Any] = {
            f"{kind}_offsets": self.block_offsets(kind) for kind in others if f"{kind}_offsets" in Wide._fields
        }
        return Wide(grandchild_offsets=self.grandchild_offsets, tags=self.tags, **offsets, **self._scores(others))

    def _scores(self, kinds: Iterable[str]) -> dict[str, Any]:
        """Scores of some kinds, empty arrays for those that are not there."""
        none = np.empty(0, dtype=np.float32)
        return {kind: none if (score := self.__dict__[kind]) is None else score for kind in kinds}

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of higher-order parts and tree features in the batch."""
        scores = self.__dict__  # looked up here, this takes a third of the time: decoders ask for each batch
        return tuple([kind for kind in KINDS if scores.get(kind) is not None])

    def with_scores(self, **scores: ArrayLike) -> Parts:
        """Return the same arcs with other scores for some kinds or for `arc_score`.

        Args:
            scores: by name of the field, with one score for each part of the kind.

        Raises:
            ValueError: the number of scores is wrong, or a score is NaN, +inf, or -inf for an arc.
        """
        _refuse_unknown(scores, "arc_score", *KINDS)
        parts = self._copy()
        parts._set_scores(scores)
        parts._renew({name: parts.__dict__[name] for name in scores})
        return parts

    def with_tags(self, tags: ArrayLike) -> Parts:
        """The same parts with other tags, before any tree features are scored.

        Args:
            tags: (W,) numbers of universal tags.

        Raises:
            ValueError: the number of tags is wrong, or the batch has tree features.
        """
        if scored := [kind for kind in self.kinds if kind not in HIGHER_ORDER]:
            raise ValueError(f"tags must be given before tree features are scored: there are {', '.join(scored)}")
        parts = self._copy()
        parts.__dict__.pop("wide", None)
        offsets = {kind: found for kind, found in self._block_offsets.items() if kind in HIGHER_ORDER}
        parts.__dict__.update(tags=self._checked_tags(tags), _block_offsets=offsets)
        return parts

    def _checked_tags(self, tags: ArrayLike | None) -> NDArray[np.uint8]:
        if tags is None:
            return np.zeros(self.word_offsets[-1], dtype=np.uint8)
        numbers = as_integers("tags", tags, np.int64)
        if numbers.shape != (self.word_offsets[-1],) or not ((numbers >= 0) & (numbers <= len(TAGS))).all():
            raise ValueError(f"tags must be one number in 0..{len(TAGS)} for each of {self.word_offsets[-1]} words")
        return numbers.astype(np.uint8)

    def only(self, *kinds: str) -> Parts:
        """Return the same arcs with only these kinds of parts. Nothing is copied."""
        parts = self._copy()
        away = KINDS.keys() - set(kinds)
        parts.__dict__.update(dict.fromkeys(away), forbidden=self.forbidden - away)
        parts._renew(dict.fromkeys(away, np.empty(0, dtype=np.float32)))
        return parts

    def _copy(self) -> Parts:
        """Parts that share all arrays, those that follow from the arcs among them, but not what follows from scores."""
        parts = object.__new__(type(self))
        parts.__dict__.update(self.__dict__)
        parts.__dict__.pop("spread", None)
        return parts

    def _renew(self, arrays: dict[str, NDArray[np.float32]]) -> None:
        """Put other scores into the tuples for kernels, if they have been made."""
        for name in {"layout", "wide"} & self.__dict__.keys():
            fields = self.__dict__[name]
            self.__dict__[name] = fields._replace(**{k: array for k, array in arrays.items() if k in fields._fields})

    def subset(self, sentences: ArrayLike) -> Parts:
        """Parts of some of the sentences, in the order given.

        Args:
            sentences: (b,) sentence numbers, or (B,) booleans.
        """
        numbers = np.asarray(sentences)
        chosen = np.arange(len(self.lengths))[numbers if numbers.size else numbers.astype(np.int64)]
        lengths = self.lengths[chosen]
        words = ranges_of(self.word_offsets[chosen], lengths)
        counts = np.diff(self.modifier_offsets)[words]
        arcs = ranges_of(self.modifier_offsets[words], counts)
        word_offsets, modifier_offsets = offsets_of(lengths), offsets_of(counts)
        parts = self._unchecked(
            lengths,
            self.head[arcs],
            self.arc_score[arcs],
            modifier_offsets[word_offsets],
            modifier_offsets,
            word_offsets,
        )
        for kind in self.kinds:
            parts.__dict__[kind] = getattr(self, kind)[self.entries(kind, chosen)]
        parts.__dict__.update(forbidden=self.forbidden, tags=self.tags[words])
        return parts

    def entries(self, kind: str, sentences: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers of the parts of a kind, or of `arc`, that belong to some sentences, sentence after sentence."""
        starts = self.sentence_offsets if kind == "arc" else self.part_offsets(kind)
        return ranges_of(starts[sentences], np.diff(starts)[sentences])

    def _tree_arcs(self, heads: ArrayLike) -> NDArray[np.int64]:
        """(W,) the arc from each word's head, -1 where it is no candidate."""
        arcs = np.empty(self.word_offsets[-1], dtype=np.int64)
        trees = self._checked_trees(heads)
        lay.find_tree_arcs(self.lengths, self.word_offsets, self.modifier_offsets, self.head, trees, arcs)
        return arcs

    def _checked_trees(self, heads: ArrayLike) -> NDArray[np.int32]:
        trees = as_integers("heads", heads, np.int32)
        shape = (len(self.lengths), self._longest + 1)
        if trees.ndim != 2 or trees.shape[0] != shape[0] or trees.shape[1] < shape[1]:
            raise ValueError(f"heads must be {shape}, got {trees.shape}")
        return trees


def _flatten(
    matrices: ArrayLike | Sequence[ArrayLike], masked: float | bool
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """Square matrices as one flat array, with the place where each starts and the length of its rows."""
    if isinstance(matrices, (list, tuple)):
        blocks = [as_array(matrix, masked) for matrix in matrices]
        if len({block.shape for block in blocks}) > 1:
            for block in blocks:
                if block.ndim != 2 or block.shape[0] != block.shape[1]:
                    raise ValueError(f"arc must be square, got {block.shape}")
            stride = np.array([len(block) for block in blocks], dtype=np.int64)
            return np.concatenate([block.ravel() for block in blocks]), offsets_of(np.square(stride))[:-1], stride
        dense: NDArray[Any] = np.stack(blocks) if blocks else np.empty(0)
    else:
        dense = as_array(matrices, masked)
    if dense.ndim not in (2, 3) or dense.shape[-1] != dense.shape[-2]:
        raise ValueError(f"arc must be square, got {dense.shape}")
    if dense.ndim == 2:
        dense = dense[None]
    size = dense.shape[1]
    return dense.reshape(-1), np.arange(len(dense)) * size**2, np.full(len(dense), size)


def _refuse_unknown(scores: Iterable[str], *names: str) -> None:
    """Refuse keyword arguments other than these."""
    if unknown := set(scores) - set(names):
        raise TypeError(f"no kind of parts is called {min(unknown)}: choose from {', '.join(names)}")


def _refuse_overflow(
    given: NDArray[Any],
    overflow: NDArray[np.bool_],
    allowed: NDArray[np.bool_],
    lengths: NDArray[np.int64],
    start: NDArray[np.int64],
    stride: NDArray[np.int64],
) -> None:
    """Refuse scores of candidate arcs that float32 cannot hold; what is never read may be as large as it likes."""
    read = overflow & allowed if len(allowed) else overflow
    for b, (n, first, size) in enumerate(zip(lengths.tolist(), start.tolist(), stride.tolist())):
        for m, h in np.argwhere(read[first : first + size * size].reshape(size, size)[: n + 1, : n + 1]).tolist():
            if m > 0 and m != h:
                value = given[first + m * size + h]
                where = f"sentence {b}: the arc from head {h} to modifier {m}"
                raise ValueError(f"{where} scores {value}, which float32 cannot hold; -inf leaves an arc out")


# Indices of inner loops that do not start at 0 are unsigned: numba lets signed ones count from the end of an array, and
# that test keeps a loop out of SIMD.


NO_ARC = np.float32(-np.inf).view(np.int32)


@numba.njit(**FILLING)
def _fill(sentences, lengths, start, stride, bits, allowed, word_offsets, room, counts, finite, head, arc_bits):
    """Write the candidate arcs of each sentence from room[b] on, count those of each word, and look for NaN and +inf.

    Scores are read and written as the bits of their float32, so that one test of the exponent finds all of -inf, NaN
    and +inf, and it takes part in SIMD. Of the twelve arguments, `start` to `allowed` are the dense scores, and those
    from `room` on are written: tuples of them would be made for each batch by the caller and read once.
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


@numba.njit(**FILLING)
def _fill_modifiers(lengths, word_offsets, modifier_offsets, modifier):
    for b in range(len(lengths)):
        for m in range(1, lengths[b] + 1):
            w = word_offsets[b] + m - 1
            modifier[modifier_offsets[w] : modifier_offsets[w + 1]] = m


@numba.njit(**FILLING)
def _in_order(lengths, word_offsets, modifier_offsets, head):
    """Return whether the heads of each word ascend, lie in 0..n and exclude the word itself, and offsets ascend."""
    fine = modifier_offsets[0] == 0
    for w in range(word_offsets[-1]):
        fine &= modifier_offsets[w] <= modifier_offsets[w + 1]
    if fine:  # else the arcs of a word may be outside of `head`
        for b in range(len(lengths)):
            for m in range(1, lengths[b] + 1):
                w, last = word_offsets[b] + m - 1, -1
                for k in range(modifier_offsets[w], modifier_offsets[w + 1]):
                    fine &= last < head[k] <= lengths[b] and head[k] != m
                    last = head[k]
    return fine


@numba.njit(**FILLING)
def _close_gaps(room, sentence_offsets, loose_head, loose_score, head, arc_score):
    """Move the arcs of each sentence from room[b] to sentence_offsets[b]."""
    for b in range(len(room) - 1):
        gap = np.uint64(room[b] - sentence_offsets[b])
        for k in range(np.uint64(sentence_offsets[b]), np.uint64(sentence_offsets[b + 1])):
            head[k] = loose_head[k + gap]
            arc_score[k] = loose_score[k + gap]


@numba.njit(**FILLING)
def _all_finite(bits):
    """Return whether none of the float32 numbers with these bits is NaN or infinite."""
    largest = np.int32(0)
    for k in range(len(bits)):
        largest = max(largest, bits[k] & np.int32(0x7F800000))
    return largest < np.int32(0x7F800000)


@numba.njit(**FILLING)
def _add_arc_ranges(word_offsets, modifier_offsets, score, spread):
    """Add the difference of the best and the worst head of each word."""
    for b in range(len(spread)):
        for w in range(word_offsets[b], word_offsets[b + 1]):
            if modifier_offsets[w] < modifier_offsets[w + 1]:
                low = high = np.float64(score[modifier_offsets[w]])
                for k in range(modifier_offsets[w], modifier_offsets[w + 1]):
                    low, high = min(low, score[k]), max(high, score[k])
                spread[b] += high - low


@numba.njit(**FILLING)
def _score_ranges(score, offsets, width):
    """Difference of the largest and the smallest score of each sentence, 0 and finite ones among them."""
    for b in range(len(width)):
        low = high = 0.0
        for e in range(offsets[b], offsets[b + 1]):
            if score[e] > -np.inf:
                low, high = min(low, score[e]), max(high, score[e])
        width[b] = high - low
