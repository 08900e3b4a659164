"""Parts: the one structure between scoring and decoding.

Orientation, root and padding are written down here and nowhere else: words are 1..n, 0 is the root, and `arc[m, h]` is
the score of head h for modifier m. A part is a set of arcs that are in the tree and a set of candidate arcs that are
not; it fires in a tree of which both hold, and a tree scores the sum of the parts that fire. Features of whole trees
are more entries that fire in some trees. `layout` and `features` say how they are packed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, cast

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from arbora.decoders.kernels.threads import over_sentences
from arbora.decoders.parts import layout as lay
from arbora.decoders.parts import tree_features as features
from arbora.decoders.parts.layout import Layout, Wide
from arbora.decoders.parts.tree_features import FEATURES, Feature

Kind = Literal[
    "grandparent",
    "sibling",
    "any_sibling",
    "head_bigram",
    "grand_sibling",
    "tri_sibling",
    "grand_grandparent",
    "inner_sibling_grandchild",
    "outer_sibling_grandchild",
]

ROWS: dict[Kind, Literal["arc", "sibling", "grandparent"]] = {
    "grandparent": "arc",
    "sibling": "arc",
    "any_sibling": "arc",
    "head_bigram": "arc",
    "grand_sibling": "sibling",
    "tri_sibling": "sibling",
    "grand_grandparent": "grandparent",
    "inner_sibling_grandchild": "sibling",
    "outer_sibling_grandchild": "sibling",
}
"""Of what the parts of each type are made by one more word: what the rows of `Parts.places` are."""

KINDS: tuple[Kind, ...] = tuple(ROWS)
"""Types of parts beyond arcs, by the names of their fields in `Parts`."""

FOUR_WORDS: tuple[Kind, ...] = tuple(kind for kind in KINDS if ROWS[kind] != "arc")
"""Those of third order."""

COMMON: tuple[Kind, ...] = tuple(kind for kind in KINDS if kind in Layout._fields)
"""Those in `Layout`: all decoders that look at more than arcs search by them."""

EVERY_KIND: tuple[Kind | Feature, ...] = (*KINDS, *FEATURES)
"""Types of parts beyond arcs, and features of whole trees."""


@dataclass(frozen=True, eq=False)
class Parts:
    """Candidate arcs and higher-order parts of a batch of B sentences with W words in all, packed into flat arrays.

    Arcs are sorted by (sentence, modifier, head). An arc that is not listed is forbidden; those listed score finitely.
    Types of higher-order parts are optional, and hold scores alone: the arcs say which parts there are, and
    `arbora.decoders.parts.layout` where each of them stands. So are features, of which
    `arbora.decoders.parts.tree_features` tells.

    Args:
        lengths: (B,) number of words of each sentence, at least 1; the root is not counted.
        head: (A,) head of each arc, 0..n.
        arc_score: (A,) score of each arc.
        sentence_offsets: (B+1,) arcs of sentence b are `sentence_offsets[b]:sentence_offsets[b + 1]`.
        modifier_offsets: (W+1,) one entry a word, sentence after sentence, root left out: arcs into word m of sentence
            b are `modifier_offsets[w]:modifier_offsets[w + 1]` with `w = word_offsets[b] + m - 1`.
        grandparent: scores of (g, h) with (h, m).
        sibling: of neighbours among START, the modifiers of one side of a head outward, and END.
        any_sibling: of two modifiers of a head, neighbours or not, on whichever side.
        head_bigram: of the heads of two neighbouring words.
        grand_sibling: of (g, h) with two neighbours as in `sibling`.
        tri_sibling: of three neighbours as in `sibling`, the second of which is a word.
        grand_grandparent: of (gg, g) with (g, h) and (h, m).
        inner_sibling_grandchild: of two neighbours as in `sibling`, both words, with a modifier of the inner one.
        outer_sibling_grandchild: the same with a modifier of the outer one.
        valency: of a word with a number of modifiers on one side.
        span: of a word and the number of words from the first to the last below it.
        neighbours: of a word and the word just outside of its span, on each side.
        crossing: of an arc that is not projective.
        right_branching: of the share of a sentence's words that are last modifiers of last modifiers of the root.
        coordination: of a word and the sizes of the conjuncts that it is between, if it is a conjunction.
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

    def __post_init__(self) -> None:
        dtypes: dict[str, type[np.generic]] = {"lengths": np.int32, "head": np.int32, "arc_score": np.float32}
        dtypes |= {"sentence_offsets": np.int64, "modifier_offsets": np.int64}
        dtypes |= dict.fromkeys(self.kinds, np.float32)
        for name, dtype in dtypes.items():  # kernels are compiled for these, and read without checking bounds
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=dtype))
        arcs = {len(self.head), len(self.arc_score), int(self.modifier_offsets[-1])}
        if (
            len(arcs) > 1
            or len(self.modifier_offsets) != self.word_offsets[-1] + 1
            or not np.array_equal(self.modifier_offsets[self.word_offsets], self.sentence_offsets)
        ):
            raise ValueError("head, arc_score and the offsets must describe the same arcs")
        if not _in_order(self.lengths, self.word_offsets, self.modifier_offsets, self.head):
            raise ValueError("the heads of each word must ascend, lie in 0..n, and leave the word itself out")
        for name in ("arc_score", *self.kinds):
            self._check_scores(name)

    def _check_scores(self, name: str) -> None:
        """Refuse a number of scores other than that of the parts, and NaN and infinity."""
        score: NDArray[np.float32] = getattr(self, name)
        offsets = self.sentence_offsets if name == "arc_score" else self.part_offsets(name)  # type: ignore[arg-type]
        if score.shape != (offsets[-1],):
            raise ValueError(f"{name} must have one score for each of {offsets[-1]} parts, got shape {score.shape}")
        if _all_finite(score.view(np.int32)):
            return
        e = int(np.argmin(np.isfinite(score)))
        b = int(np.searchsorted(offsets, e, side="right")) - 1
        if name == "arc_score":
            what = f"the arc from head {self.head[e]} to modifier {self.modifier[e]}"
            hint = ", or -inf in a dense matrix to leave an arc out"
        else:
            what = f"the {name} of words {self.words(name)[e].tolist()}"  # type: ignore[arg-type]
            hint = "; leave parts out by leaving out their arcs"
        raise ValueError(f"sentence {b}: {what} scores {score[e]}; scores must be finite{hint}")

    @classmethod
    def from_dense(
        cls,
        arc: ArrayLike | Sequence[ArrayLike],
        lengths: ArrayLike | None = None,
        mask: ArrayLike | Sequence[ArrayLike] | None = None,
        **higher: NDArray[np.floating],
    ) -> Parts:
        """Pack dense score matrices, keeping the arcs that are neither -inf nor masked out.

        Row 0, the diagonal, and rows and columns beyond a sentence's length are never read.

        Args:
            arc: (B, N, N), or (N, N) for one sentence, or a list of square matrices; `arc[b, m, h]` is the score of
                head h for modifier m, and -inf forbids the arc. Scores are kept as float32, and added up in float64.
            lengths: (B,) number of words of each sentence, N - 1 unless given.
            mask: like `arc`, False forbids the arc.
            higher: scores of higher-order parts by type, such as `grandparent` (B, N, N, N), or `valency` (B, N, 2, 6),
                indexed by the sentence and by what `words` lists for the type; (N, N, N) for one sentence.

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
        parts = cls._unchecked(*fields, word_offsets) if np.count_nonzero(finite) == len(n) else cls(*fields)
        return (
            parts.with_scores(**{kind: parts._pick(kind, dense) for kind, dense in higher.items()}) if higher else parts
        )

    def _pick(self, kind: str, dense: ArrayLike) -> NDArray[np.float32]:
        """Scores of a type of parts out of a dense array."""
        if kind not in EVERY_KIND:
            raise TypeError(f"no type of parts is called {kind}: there are {', '.join(EVERY_KIND)}")
        words = self.words(kind)
        if kind in FEATURES:
            sizes = (len(self.lengths), *features.dense_shape(kind, self._longest))
        else:
            sizes = (len(self.lengths), *[self._longest + 1] * words.shape[1])
        scores = np.asarray(dense)
        if scores.ndim == words.shape[1] and len(self.lengths) == 1:
            scores = scores[None]
        fits = scores.ndim == len(sizes) and scores.shape[0] == sizes[0]
        if not fits or any(got < size for got, size in zip(scores.shape, sizes, strict=True)):
            raise ValueError(f"{kind} must be {sizes}, got {scores.shape}")
        sentence = np.repeat(np.arange(len(self.lengths)), np.diff(self.part_offsets(kind)))
        return scores[(sentence, *words.T)].astype(np.float32)

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
            **dict.fromkeys(EVERY_KIND),
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
        arcs = self._tree_arcs(heads)
        total = np.zeros(len(self.lengths))
        there = arcs >= 0
        lay.add_up(self.arc_score, arcs[there], _offsets(there.astype(np.int64))[self.word_offsets], total)
        for kind in self.kinds:
            lay.add_up(getattr(self, kind), *self._active(kind, arcs), total)
        absent = np.flatnonzero(~there)
        total[np.searchsorted(self.word_offsets, absent, side="right") - 1] = -np.inf
        return total

    def active(self, heads: ArrayLike) -> dict[str, NDArray[np.int64]]:
        """Which parts fire in one tree for each sentence.

        Args:
            heads: (B, N) as in `Trees.heads`.

        Returns:
            For `arc` and each type of part that is there, the indices of those that fire, ascending. Arcs of a tree
            that are no candidates count as not being there.
        """
        arcs = self._tree_arcs(heads)
        return {"arc": arcs[arcs >= 0], **{kind: self._active(kind, arcs)[0] for kind in self.kinds}}

    def _active(self, kind: Kind | Feature, arcs: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Entries of a type that fire, and where those of each sentence start and end among them."""
        layout = self.layout
        B, W = len(self.lengths), len(arcs)
        most = {"sibling": 3 * W + B, "grand_sibling": 3 * W, "valency": 2 * W, "neighbours": 2 * W}.get(kind, W)
        if kind == "any_sibling":
            most = lay.count_sibling_pairs(layout, arcs)
        entries = np.empty(most, dtype=np.int64)
        offsets = np.zeros(len(self.lengths) + 1, dtype=np.int64)
        if kind == "grandparent":
            lay.active_grandparents(layout, arcs, entries, offsets)
        elif kind == "head_bigram":
            lay.active_head_bigrams(layout, arcs, entries, offsets)
        elif kind == "any_sibling":
            lay.active_any_siblings(layout, arcs, entries, offsets)
        elif kind == "tri_sibling":
            lay.active_tri_siblings(layout, arcs, entries, offsets)
        elif kind == "grand_grandparent":
            lay.active_grand_grandparents(layout, self.wide, arcs, entries, offsets)
        elif kind in ("inner_sibling_grandchild", "outer_sibling_grandchild"):
            outer = kind == "outer_sibling_grandchild"
            lay.active_grandchildren(layout, self.wide, arcs, outer, entries, offsets)
        elif kind == "valency":
            features.active_valencies(layout, arcs, entries, offsets)
        elif kind == "span":
            features.active_spans(layout, arcs, entries, offsets)
        elif kind == "neighbours":
            features.active_neighbours(layout, self.wide, arcs, entries, offsets)
        elif kind == "crossing":
            features.active_crossings(layout, arcs, entries, offsets)
        elif kind == "right_branching":
            features.active_right_branching(layout, arcs, entries, offsets)
        elif kind == "coordination":
            features.active_coordinations(layout, arcs, entries, offsets)
        else:
            lay.active_siblings(layout, arcs, kind == "grand_sibling", entries, offsets)
        return entries[: offsets[-1]], offsets

    def places(self, kind: Kind, base: NDArray[np.int64], stride: int, start: int) -> NDArray[np.int64]:
        """Where a scorer that multiplies matrices finds the score of each part, in the order of the parts.

        For each sentence the scorer has a matrix of rows and columns. Rows of types with three words are the arcs of
        the sentence and, behind them, the END of each side (`arcs + 2 * h + side`): (h, m) for `grandparent`, whose
        columns are g; (h, outer sibling) for `sibling` and `any_sibling`, whose columns are the inner sibling; (h, m)
        for `head_bigram`, whose columns are the head of m - 1. Rows of types with four words are the entries of
        `sibling` of the sentence: `grand_sibling` has g in columns, `tri_sibling` the innermost of three,
        `inner_sibling_grandchild` and `outer_sibling_grandchild` the grandchild. Those of `grand_grandparent` are the
        entries of `grandparent`, with the head of g in columns. Columns are the positions 0..n, and `start + side` for
        START. Features have no such places.

        Args:
            kind: type of parts.
            base: (B,) where the matrix of each sentence starts.
            stride: columns of a matrix.
            start: column of the START of left sides; that of right sides is the next.
        """
        if kind not in KINDS:
            raise ValueError(f"{kind} has no places in matrices: those that have are {', '.join(KINDS)}")
        layout = self.layout
        offsets = self.part_offsets(kind)
        places = np.empty(offsets[-1], dtype=np.int64)

        def fill(sentences: NDArray[np.int64]) -> None:
            if kind == "grandparent":
                lay.grandparent_places(layout, sentences, base, stride, places)
            elif kind == "head_bigram":
                lay.head_bigram_places(layout, sentences, base, stride, places)
            elif kind == "any_sibling":
                lay.any_sibling_places(layout, sentences, base, stride, places)
            elif kind == "grand_sibling":
                lay.grand_sibling_places(layout, sentences, base, stride, places)
            elif kind == "sibling":
                lay.sibling_places(layout, sentences, base, stride, start, places)
            elif kind == "grand_grandparent":
                lay.grand_grandparent_places(layout, sentences, offsets, base, stride, places)
            elif kind in ("inner_sibling_grandchild", "outer_sibling_grandchild"):
                outer = kind == "outer_sibling_grandchild"
                lay.grandchild_places(layout, sentences, outer, offsets, base, stride, places)
            else:
                lay.tri_sibling_places(layout, sentences, base, stride, start, places)

        over_sentences(fill, np.diff(offsets))
        return places

    def words(self, kind: Kind | Feature) -> NDArray[np.int64]:
        """The words of each part of a type, (P, 3) or (P, 4), in the order of the parts; other columns for features.

        `grandparent`: m, h, g. `sibling`: h, inner, outer. `any_sibling`: h, first, second. `head_bigram`: m, head of
        m, head of m - 1. `grand_sibling`: g, h, inner, outer. `tri_sibling`: h, innermost, middle, outermost. The head
        itself stands for START and END. `grand_grandparent`: m, h, g, head of g. `inner_sibling_grandchild` and
        `outer_sibling_grandchild`: h, inner, outer, grandchild.

        Features are by words, and the numbers that index their tables. `valency`: word, side, modifiers up to 5.
        `span`: word, number of the range, 0..8. `neighbours`: word, position beside its span, 0..n + 1. `crossing`: m,
        h. `right_branching`: tenth, 0..9. `coordination`: word, number of the ratio, 0..6.
        """
        if kind == "crossing":
            return np.stack([self.modifier, self.head], 1).astype(np.int64)
        if kind in FEATURES:
            return features.words(kind, self.lengths)
        self._offsets_of(kind)  # refuses types that do not exist
        return self._part_words(cast(Kind, kind))

    def _part_words(self, kind: Kind) -> NDArray[np.int64]:
        longest, rows_are = self._longest, ROWS[kind]
        row_offsets = self.sentence_offsets if rows_are == "arc" else self.part_offsets(rows_are)
        rows = np.diff(row_offsets)
        most = int(rows.max(initial=0)) + 2 * longest + 2
        stride = longest + 3
        base = np.arange(len(self.lengths)) * most * stride
        place = self.places(kind, base, stride, longest + 1)
        sentence, row, column = place // (most * stride), place // stride % most, place % stride
        if rows_are != "arc":
            row_words = self._part_words(rows_are)[row_offsets[sentence] + row]
            if kind == "grand_sibling":
                return np.concatenate([column[:, None], row_words], 1)
            if kind == "tri_sibling":
                h, inner, outer = row_words.T
                return np.stack([h, np.where(column > longest, h, column), inner, outer], 1)
            return np.concatenate([row_words, column[:, None]], 1)
        end = row - rows[sentence]
        h, m = end // 2, end // 2
        real = end < 0
        arc = (row + row_offsets[sentence])[real]
        h[real], m[real] = self.head[arc], self.modifier[arc]
        column = np.where(column > longest, h, column)
        return np.stack([m, h, column] if kind in ("grandparent", "head_bigram") else [h, column, m], 1)

    def part_offsets(self, kind: Kind | Feature) -> NDArray[np.int64]:
        """(B+1,) parts of a type of sentence b are `part_offsets(kind)[b]:part_offsets(kind)[b + 1]`."""
        offsets = self._offsets_of(kind)
        if kind in FEATURES:
            return offsets
        if kind in ("grandparent", "grand_grandparent", "inner_sibling_grandchild", "outer_sibling_grandchild"):
            return offsets[self.sentence_offsets]
        if kind == "grand_sibling":
            return offsets[2 * self.sentence_offsets]
        if kind == "head_bigram":
            return offsets[self.word_offsets]
        nodes = self.word_offsets + np.arange(len(self.word_offsets))
        return offsets[nodes if kind == "any_sibling" else 2 * nodes]

    def _offsets_of(self, kind: Kind | Feature) -> NDArray[np.int64]:
        """Where the blocks of a type start, and where the last ends; for features the entries of each sentence."""
        if kind not in EVERY_KIND:
            raise ValueError(f"no type of parts is called {kind}: there are {', '.join(EVERY_KIND)}")
        if kind in COMMON:
            return self._common_offsets[cast(Kind, kind)]
        if kind not in self._other_offsets:
            self._other_offsets[kind] = _offsets(self._block_sizes(kind))
        return self._other_offsets[kind]

    @cached_property
    def _common_offsets(self) -> dict[Kind, NDArray[np.int64]]:
        W, A, side_offsets = len(self.modifier_offsets), len(self.head), self._outward[1]
        sides = len(side_offsets)
        sizes: dict[Kind, int] = {"grandparent": A + 1, "sibling": sides, "any_sibling": sides // 2 + 1}
        sizes |= {"head_bigram": W, "grand_sibling": 2 * A + 1, "tri_sibling": sides}
        offsets = {kind: np.empty(sizes[kind], dtype=np.int64) for kind in COMMON}
        arrays = (self.lengths, self.word_offsets, self.modifier_offsets, self.head, side_offsets)
        lay.find_blocks(*arrays, *offsets.values())
        return offsets

    def _block_sizes(self, kind: Kind | Feature) -> NDArray[np.int64]:
        if kind in FEATURES:
            return features.counts(kind, self.lengths, np.diff(self.sentence_offsets))
        if kind == "grand_grandparent":
            before = np.repeat(self.word_offsets[:-1] - 1, np.diff(self.sentence_offsets))
            grandparents = np.diff(self._offsets_of("grandparent")[self.modifier_offsets])  # by their modifier
            return np.where(self.head > 0, grandparents[np.maximum(before + self.head, 0)], 0)
        outward, side_offsets, rank = self._outward
        sides: NDArray[np.int64] = np.diff(side_offsets)
        if kind == "inner_sibling_grandchild":
            return (np.repeat(sides, sides) - rank[outward]) * np.diff(self._grandchild_offsets)
        ends = np.repeat(self._grandchild_offsets[side_offsets[1:]], sides)
        return ends - self._grandchild_offsets[1:]

    @cached_property
    def _other_offsets(self) -> dict[Kind | Feature, NDArray[np.int64]]:
        return {}

    @cached_property
    def _grandchild_offsets(self) -> NDArray[np.int64]:
        """(A+1,) sums of the numbers of candidate modifiers that the modifiers of arcs have, in the order outward."""
        outward, side_offsets, _ = self._outward
        nodes = self.word_offsets[:-1] + np.arange(len(self.lengths))
        node = np.repeat(nodes, np.diff(self.sentence_offsets)) + self.modifier[outward]
        return _offsets(np.diff(side_offsets[::2])[node])

    @cached_property
    def _outward(self) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]:
        """Arcs by (sentence, head, side, distance), offsets of the sides, and the rank of each arc on its side."""
        outward, rank = np.empty_like(self.head), np.empty_like(self.head)
        side_offsets = np.zeros(2 * (self.word_offsets[-1] + len(self.lengths)) + 1, dtype=np.int64)
        arrays = (self.lengths, self.word_offsets, self.modifier_offsets, self.head, self.modifier)
        lay.sort_outward(*arrays, outward, side_offsets, rank)
        return outward, side_offsets, rank

    @cached_property
    def layout(self) -> Layout:
        """All that most kernels read, in one tuple."""
        outward, side_offsets, rank = self._outward
        offsets: dict[str, Any] = {f"{kind}_offsets": self._offsets_of(kind) for kind in COMMON}
        return Layout(
            lengths=self.lengths,
            word_offsets=self.word_offsets,
            sentence_offsets=self.sentence_offsets,
            modifier_offsets=self.modifier_offsets,
            head=self.head,
            modifier=self.modifier,
            outward=outward,
            side_offsets=side_offsets,
            rank=rank,
            arc_score=self.arc_score,
            **offsets,
            **self._scores(COMMON),
        )

    @cached_property
    def wide(self) -> Wide:
        """What kernels read of the types that are not in `layout`, in one tuple."""
        others = tuple(kind for kind in EVERY_KIND if kind not in COMMON)
        offsets: dict[str, Any] = {
            f"{kind}_offsets": self._offsets_of(kind) for kind in others if f"{kind}_offsets" in Wide._fields
        }
        return Wide(grandchild_offsets=self._grandchild_offsets, **offsets, **self._scores(others))

    def _scores(self, kinds: tuple[Kind | Feature, ...]) -> dict[str, Any]:
        """Scores of some types, none of those that are not there."""
        none = np.empty(0, dtype=np.float32)
        return {kind: none if getattr(self, kind) is None else getattr(self, kind) for kind in kinds}

    @property
    def kinds(self) -> tuple[Kind | Feature, ...]:
        """Types of higher-order parts that are there, and features."""
        return tuple(kind for kind in EVERY_KIND if getattr(self, kind) is not None)

    def with_scores(self, **scores: NDArray[np.float32]) -> Parts:
        """The same arcs with other scores of some types, `arc_score` among them.

        Args:
            scores: by field, one for each part of the type.

        Raises:
            ValueError: when there is another number of parts, or a score is not finite.
        """
        if unknown := scores.keys() - {"arc_score", *EVERY_KIND}:
            raise TypeError(f"no type of parts is called {min(unknown)}: there are arc_score, {', '.join(EVERY_KIND)}")
        arrays: dict[str, Any] = {name: np.ascontiguousarray(score, dtype=np.float32) for name, score in scores.items()}
        parts = object.__new__(type(self))
        parts.__dict__.update(self.__dict__)
        parts.__dict__.update(arrays)
        for name in {"layout", "wide"} & self.__dict__.keys():
            fields = self.__dict__[name]
            new = {kind: array for kind, array in arrays.items() if kind in fields._fields}
            parts.__dict__[name] = fields._replace(**new)
        for name in scores:
            parts._check_scores(name)
        return parts

    def only(self, *kinds: Kind | Feature) -> Parts:
        """The same arcs with parts of these types alone, as far as they are there. Nothing is copied."""
        parts = object.__new__(type(self))
        parts.__dict__.update(self.__dict__)
        parts.__dict__.update(dict.fromkeys(set(EVERY_KIND) - set(kinds)))
        none = np.empty(0, dtype=np.float32)
        for name in {"layout", "wide"} & self.__dict__.keys():
            fields = self.__dict__[name]
            away = {kind: none for kind in EVERY_KIND if kind in fields._fields and kind not in kinds}
            parts.__dict__[name] = fields._replace(**away)
        return parts

    def subset(self, sentences: ArrayLike) -> Parts:
        """Parts of some of the sentences, in the order given.

        Args:
            sentences: (b,) sentence numbers, or (B,) booleans.
        """
        numbers = np.asarray(sentences)
        chosen = np.arange(len(self.lengths))[numbers if numbers.size else numbers.astype(np.int64)]
        lengths = self.lengths[chosen]
        words = _ranges(self.word_offsets[chosen], lengths)
        counts = np.diff(self.modifier_offsets)[words]
        arcs = _ranges(self.modifier_offsets[words], counts)
        word_offsets, modifier_offsets = _offsets(lengths), _offsets(counts)
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
        return parts

    def entries(self, kind: str, sentences: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers of the parts of a kind, or of `arc`, that belong to some sentences, sentence after sentence."""
        starts = self.sentence_offsets if kind == "arc" else self.part_offsets(kind)  # type: ignore[arg-type]
        return _ranges(starts[sentences], np.diff(starts)[sentences])

    def _tree_arcs(self, heads: ArrayLike) -> NDArray[np.int64]:
        """(W,) the arc from each word's head, -1 where it is no candidate."""
        arcs = np.empty(self.word_offsets[-1], dtype=np.int64)
        trees = self._checked_trees(heads)
        lay.find_tree_arcs(self.lengths, self.word_offsets, self.modifier_offsets, self.head, trees, arcs)
        return arcs

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
def _fill_modifiers(lengths, word_offsets, modifier_offsets, modifier):
    for b in range(len(lengths)):
        for m in range(1, lengths[b] + 1):
            w = word_offsets[b] + m - 1
            modifier[modifier_offsets[w] : modifier_offsets[w + 1]] = m


@numba.njit(cache=True, nogil=True)
def _in_order(lengths, word_offsets, modifier_offsets, head):
    """Whether the heads of each word ascend, lie in 0..n, and leave the word itself out; offsets ascend, too."""
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


@numba.njit(cache=True, nogil=True)
def _close_gaps(room, sentence_offsets, loose_head, loose_score, head, arc_score):
    """Move the arcs of each sentence from room[b] to sentence_offsets[b]."""
    for b in range(len(room) - 1):
        gap = np.uint64(room[b] - sentence_offsets[b])
        for k in range(np.uint64(sentence_offsets[b]), np.uint64(sentence_offsets[b + 1])):
            head[k] = loose_head[k + gap]
            arc_score[k] = loose_score[k + gap]


@numba.njit(cache=True, nogil=True)
def _all_finite(bits):
    """Whether no float32 is NaN or infinite, of which the bits are given."""
    largest = np.int32(0)
    for k in range(len(bits)):
        largest = max(largest, bits[k] & np.int32(0x7F800000))
    return largest < np.int32(0x7F800000)
