"""The k best trees of each sentence, by any decoder.

Lawler (1972), "A procedure for computing the k best solutions to discrete optimization problems and its application to
the shortest path problem". Trees are searched for in spaces: sets of candidate arcs. The best space is taken off a
queue, and its best tree y is the next answer. What is left of it is split: with its undecided words in some order, part
i has the arcs of y for the words before the i-th, and any arc but that of y for the i-th. So no tree comes twice, and
none is lost. An exact decoder gives exact answers, with proof; one that is not gives the best that it finds.

Differs from the paper:
- A part has an upper bound before it is decoded, the sum of the best that each of its words could add to a tree, and is
  decoded only when it comes up. Words that the scores leave in the least doubt come first: parts with low bounds are
  then the large ones, and those that are decoded are small.
- Parts of all sentences are decoded together, in one call of the decoder for each round.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from arbora.decoders.parts.batch import Parts
from arbora.decoders.parts.kinds import HIGHER_ORDER
from arbora.decoders.parts.restriction import Restriction
from arbora.decoders.trees import Decoder, Trees

ROUNDING = 1e-9
"""Scores that differ by less than this share of the spread of all trees' scores are the same."""

SEVERAL = ("any_sibling", "inner_sibling_grandchild", "outer_sibling_grandchild")
"""Kinds of which several parts may fire in one row of `Parts.places`, not exactly one."""


def k_best(decoder: Decoder, parts: Parts, k: int, on_error: Literal["raise", "skip"] = "raise") -> list[Trees]:
    """The k best trees of each sentence, all distinct, by falling score.

    Args:
        decoder: searches. One that looks only at arcs ranks by these, although scores are those of all parts.
        parts: arcs and other parts of a batch.
        k: how many trees, at least 1.
        on_error: what to do about sentences without a tree, as for a decoder.

    Returns:
        For each rank the trees of all sentences. `certified` says whether a tree is proved to be of its rank, and
        `bound` how much any tree that is not of a better rank scores at most. Where a sentence has fewer trees, or the
        decoder finds fewer, the later ranks have heads of -1, a score of -inf, and an entry in `failures`. The counter
        `decodings` of the first rank has the number of spaces that were decoded.

    Raises:
        ValueError: k is below 1, or the decoder does not search by score; and whatever the decoder raises.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    if k > 1 and not decoder.by_score:
        name = type(decoder).__name__
        raise ValueError(f"{name} does not look for the tree that scores most: take another decoder for the k best")
    first = decoder(parts, on_error)
    if k == 1:
        return [first]
    by = parts.only() if decoder.arcs_alone else parts
    if decoder.arcs_alone and parts.kinds:
        first = decoder(by, on_error)
    gains, constant = _gains(by)
    restriction = Restriction(by)
    searches = [
        _Search.started(by, b, gains, float(constant[b]), first, k)
        for b in range(len(by.lengths))
        if b not in first.failures
    ]
    while spaces := [(search, space) for search in searches for space in search.advance()]:
        sentences = np.array([search.sentence for search, _ in spaces])
        trees = decoder(restriction(np.concatenate([space.arcs() for _, space in spaces]), sentences), on_error="skip")
        for row, (search, space) in enumerate(spaces):
            if row not in trees.failures:
                search.add(space, trees, row)
            search.decodings += 1
    return _ranked(decoder, parts, searches, k, first)


def _ranked(decoder: Decoder, parts: Parts, searches: list[_Search], k: int, first: Trees) -> list[Trees]:
    size = len(parts.lengths)
    heads = [parts.empty_trees() for _ in range(k)]
    score, bound = np.full((k, size), -np.inf), np.full((k, size), np.inf)
    certified = np.zeros((k, size), dtype=np.bool_)
    decodings = np.zeros(size, dtype=np.int64)
    failures: list[dict[int, str]] = [dict(first.failures) for _ in range(k)]
    for search in searches:
        b, slack = search.sentence, ROUNDING * float(parts.spread[search.sentence])
        ceiling = search.ceiling()
        search.found.sort(key=lambda answer: -answer[0])
        for rank, (value, tree) in enumerate(search.found):
            heads[rank][b, : len(tree)] = tree
            score[rank, b] = value
            bound[rank, b] = max(value, ceiling)
            certified[rank, b] = value >= ceiling - slack
        for rank in range(len(search.found), k):
            failures[rank][b] = f"no more than {len(search.found)} trees were found"
        decodings[b] = search.decodings
    certified[0] |= first.certified
    if decoder.arcs_alone and parts.kinds:
        score, certified[:] = np.stack([parts.score(tree) for tree in heads]), False
    no_bound = not np.isfinite(bound[0]).any() or (decoder.arcs_alone and bool(parts.kinds))
    ranked = [
        Trees(heads[r], score[r], None if no_bound else bound[r], certified[r], failures=failures[r]) for r in range(k)
    ]
    ranked[0] = replace(ranked[0], counters={"decodings": decodings})
    return ranked


@dataclass(frozen=True, eq=False)
class _Space:
    """Some of the candidate arcs of a sentence: those of a larger space that agree with its best tree up to a word."""

    inside: NDArray[np.bool_]  # (A,) arcs of the larger space
    agrees: NDArray[np.bool_]  # (A,) arcs of its best tree
    place: NDArray[np.int64]  # (A,) of the arc's word in the order in which words were split off
    word: int  # place of the first word that does not agree

    def arcs(self) -> NDArray[np.bool_]:
        """(A,) arcs of this space."""
        kept: NDArray[np.bool_] = self.inside & ((self.place > self.word) | (self.agrees != (self.place == self.word)))
        return kept


@dataclass(eq=False)
class _Search:
    """The queue of one sentence: spaces whose best tree is known, and spaces with a bound."""

    sentence: int
    missing: int  # answers
    head: NDArray[np.int32]  # (A,) of its arcs
    word: NDArray[np.int64]  # (A,) of each arc, from 0
    starts: NDArray[np.int64]  # (n,) first arc of each word
    gain: NDArray[np.float64]  # (A,) most that an arc adds to a tree
    constant: float  # most that is added whatever the arcs are
    decodings: int = 1
    found: list[tuple[float, NDArray[np.int32]]] = field(default_factory=list)
    # Entries: negated score or bound; 0 for a tree, 1 for a space; a number that settles ties; the rest.
    queue: list[tuple[float, int, int, float, NDArray[np.bool_] | _Space, NDArray[np.int32] | None]] = field(
        default_factory=list
    )
    highest: float = -np.inf  # bound of spaces that are not in the queue any more
    numbers: Iterator[int] = field(default_factory=count)

    @classmethod
    def started(
        cls, parts: Parts, b: int, gains: NDArray[np.float64], constant: float, first: Trees, k: int
    ) -> _Search:
        arcs = slice(parts.sentence_offsets[b], parts.sentence_offsets[b + 1])
        words = slice(parts.word_offsets[b], parts.word_offsets[b + 1])
        search = cls(
            sentence=b,
            missing=k,
            head=parts.head[arcs],
            word=parts.modifier[arcs].astype(np.int64) - 1,
            starts=parts.modifier_offsets[words] - parts.sentence_offsets[b],
            gain=gains[arcs],
            constant=constant,
        )
        everything = np.ones(len(search.head), dtype=np.bool_)
        search._add(everything, first, b, int(parts.lengths[b]))
        return search

    def add(self, space: _Space, trees: Trees, row: int) -> None:
        """Note the best tree of a space."""
        self._add(space.arcs(), trees, row, len(self.starts))

    def _add(self, arcs: NDArray[np.bool_], trees: Trees, row: int, n: int) -> None:
        score, certified = float(trees.score[row]), bool(trees.certified[row])
        bound = score if certified else np.inf if trees.bound is None else float(trees.bound[row])
        if score == -np.inf:
            self.highest = max(self.highest, bound)
        else:
            tree = trees.heads[row, : n + 1].copy()
            heapq.heappush(self.queue, (-score, 0, next(self.numbers), bound, arcs, tree))

    def advance(self) -> list[_Space]:
        """Take answers as long as the best entry is a tree; then the spaces to decode, none when all is done."""
        while self.missing and self.queue:
            if self.queue[0][1]:
                return list(self._promising())
            negative, _, _, bound, arcs, tree = heapq.heappop(self.queue)
            assert isinstance(arcs, np.ndarray)
            assert tree is not None
            self.found.append((-negative, tree))
            self.missing -= 1
            if self.missing:
                self._split(arcs, tree, bound)
            else:
                self.highest = max(self.highest, bound)
        return []

    def _promising(self) -> Iterator[_Space]:
        """The spaces with the highest bounds, as many as answers are missing, that may hold one."""
        trees = [-entry[0] for entry in heapq.nsmallest(self.missing, (e for e in self.queue if not e[1]))]
        least = trees[-1] if len(trees) == self.missing else -np.inf
        chosen = heapq.nsmallest(self.missing, (entry for entry in self.queue if entry[1] and -entry[0] > least))
        numbers = {entry[2] for entry in chosen}
        self.queue = [entry for entry in self.queue if entry[2] not in numbers]
        heapq.heapify(self.queue)
        for entry in chosen:
            assert isinstance(entry[4], _Space)
            yield entry[4]

    def _split(self, inside: NDArray[np.bool_], tree: NDArray[np.int32], bound: float) -> None:
        """Put what is left of a space into the queue, part by part."""
        agrees = inside & (self.head == tree[1:][self.word])
        gain = np.where(inside, self.gain, -np.inf)
        best = np.maximum.reduceat(gain, self.starts)  # (n,)
        other = np.maximum.reduceat(np.where(agrees, -np.inf, gain), self.starts)
        of_tree = np.maximum.reduceat(np.where(agrees, gain, -np.inf), self.starts)
        several = np.logical_or.reduceat(inside & ~agrees, self.starts)  # words that are not decided yet
        order = np.flatnonzero(several)[np.argsort((other - of_tree)[several], kind="stable")]
        place = np.full(len(best), -1)
        place[order] = np.arange(len(order))
        place = place[self.word]
        # U(i) = sum of g(y) over the words before i + best other g of i + sum of the best g over the words behind i
        settled = np.append(0.0, np.cumsum((of_tree - best)[order]))[:-1]
        bounds = self.constant + best.sum() + settled + (other - best)[order]
        for i, upper in enumerate(bounds.tolist()):
            upper = min(upper, bound)
            space = _Space(inside, agrees, place, i)
            heapq.heappush(self.queue, (-upper, 1, next(self.numbers), upper, space, None))

    def ceiling(self) -> float:
        """No tree that is not among the answers scores more."""
        return max([self.highest, *(entry[3] for entry in self.queue)])


def _gains(parts: Parts) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The most that each arc can add to the score of a tree, and the most that is added besides.

    Every part counts with one of its arcs, as in `Parts.places`: in the row of an arc one part of a kind fires, or any
    number of them. Those of END fire with no arc. Tree features have no rows: with them, there is no limit.

    Returns:
        (A,) and (B,).
    """
    gains = parts.arc_score.astype(np.float64)
    if any(kind not in HIGHER_ORDER for kind in parts.kinds):
        return gains, np.full(len(parts.lengths), np.inf)
    longest = int(parts.lengths.max(initial=0))
    columns = longest + 3
    scores = {kind: getattr(parts, kind).astype(np.float64) for kind in parts.kinds}

    def highest(kind: str, offsets: NDArray[np.int64]) -> NDArray[np.float64]:
        """Most that each row adds, given where the rows of sentences start."""
        row = parts.places(kind, offsets[:-1] * columns, columns, longest + 1) // columns
        if kind in SEVERAL:
            return np.bincount(row, scores[kind].clip(min=0), minlength=int(offsets[-1])).astype(np.float64)
        most = np.full(int(offsets[-1]), -np.inf)
        np.maximum.at(most, row, scores[kind])
        return np.where(most == -np.inf, 0.0, most)

    for kind in parts.kinds:
        rows = HIGHER_ORDER[kind].rows
        if rows != "arc":
            added = highest(kind, parts.part_offsets(rows))
            scores[rows] = scores[rows] + added if rows in scores else added
    sides = 2 * (parts.word_offsets + np.arange(len(parts.word_offsets)))  # rows of END, behind those of arcs
    offsets = parts.sentence_offsets + sides
    total = np.zeros(int(offsets[-1]))
    for kind in scores:
        if HIGHER_ORDER[kind].rows == "arc":
            total += highest(kind, offsets)
    arcs = np.arange(len(gains)) + np.repeat(sides[:-1], np.diff(parts.sentence_offsets))
    gains += total[arcs]
    total[arcs] = 0.0
    return gains, np.add.reduceat(total, offsets[:-1]) if len(parts.lengths) else np.zeros(0)
