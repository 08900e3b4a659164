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

from collections.abc import Callable
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arbora.decoders.parts.batch import Parts
from arbora.decoders.parts.kinds import HIGHER_ORDER
from arbora.decoders.parts.restriction import Restriction
from arbora.decoders.trees import Decoder, Trees

ROUNDING = 1e-9
"""Scores that differ by less than this share of the spread of all trees' scores count as equal."""

SEVERAL = ("any_sibling", "inner_sibling_grandchild", "outer_sibling_grandchild")
"""Kinds of which several parts may fire in one row of `Parts.places`, not exactly one."""


def k_best(decoder: Decoder, parts: Parts, k: int, on_error: Literal["raise", "skip"] = "raise") -> list[Trees]:
    """Return the k best distinct trees of each sentence, in the order of the decoder's own objective.

    Args:
        decoder: decoder that searches. If it maximises something other than the score of all parts
            (`Decoder.ranking`), scores need not be in falling order, and no tree is certified.
        parts: arcs and other parts of a batch.
        k: number of trees, at least 1.
        on_error: how to handle sentences without a tree, as for a decoder.

    Returns:
        The trees of all sentences for each rank. `certified` says whether the rank of a tree is proved, and `bound` is
        an upper bound on the score of every tree without a better rank. If a sentence has fewer trees, or the decoder
        finds fewer, later ranks have heads of -1, a score of -inf, and an entry in `failures`. The counter `decodings`
        of the first rank has the number of spaces that were decoded.

    Raises:
        ValueError: k is below 1, or the decoder raises an error.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    first = decoder(parts, on_error)
    if k == 1:
        return [first]
    if first.failures:
        rows = np.delete(np.arange(len(parts.lengths)), list(first.failures))
        ranked = k_best(decoder, parts.subset(rows), k)
        missing = ({**first.failures, **{int(rows[b]): why for b, why in trees.failures.items()}} for trees in ranked)
        return [
            replace(trees.among(parts, rows), failures=dict(sorted(failures.items())))
            for trees, failures in zip(ranked, missing)
        ]
    search, by = decoder.ranking(parts)
    trees = first if by is parts else search(by)
    gains, constant = _gains(by)
    restriction = Restriction(by)
    queues = [_Queue(by, b, gains, float(constant[b]), trees, k) for b in range(len(by.lengths))]
    while spaces := [(queue, space) for queue in queues for space in queue.advance()]:
        sentences = np.array([queue.sentence for queue, _ in spaces])
        arcs = [space.arcs() for _, space in spaces]
        trees = search(restriction(np.concatenate(arcs), sentences), on_error="skip")
        for row, (queue, _) in enumerate(spaces):
            queue.add(arcs[row], trees, row)
    ranked = _ranked(parts, queues, k)
    if by is not parts:
        unknown = np.zeros(len(queues), np.bool_)
        ranked = [replace(one, score=parts.score(one.heads), bound=None, certified=unknown) for one in ranked]
    ranked[0] = replace(ranked[0], certified=ranked[0].certified | first.certified)
    return ranked


def _ranked(parts: Parts, queues: list[_Queue], k: int) -> list[Trees]:
    size = len(queues)
    heads = [parts.empty_trees() for _ in range(k)]
    score, bound = np.full((k, size), -np.inf), np.full((k, size), np.inf)
    certified = np.zeros((k, size), dtype=np.bool_)
    failures: list[dict[int, str]] = [{} for _ in range(k)]
    for b, queue in enumerate(queues):
        slack, ceiling = ROUNDING * float(parts.spread[b]), queue.ceiling()
        for rank, (value, tree) in enumerate(sorted(queue.found, key=lambda answer: -answer[0])):
            heads[rank][b, : len(tree)] = tree
            score[rank, b] = value
            bound[rank, b] = max(value, ceiling)
            certified[rank, b] = value >= ceiling - slack
        for rank in range(len(queue.found), k):
            failures[rank][b] = f"only {len(queue.found)} trees were found"
    bounded = np.isfinite(bound[0]).any()
    ranked = [
        Trees(heads[r], score[r], bound[r] if bounded else None, certified[r], failures=failures[r]) for r in range(k)
    ]
    ranked[0] = replace(ranked[0], counters={"decodings": np.array([queue.decodings for queue in queues], np.int64)})
    return ranked


class _Space(NamedTuple):
    """Some of the candidate arcs of a sentence, with their best tree, or not decoded yet."""

    order: float  # negated score of the tree, or bound
    is_open: bool  # not decoded
    number: int  # settles ties
    bound: float  # of the scores of its trees
    arcs: Callable[[], NDArray[np.bool_]]  # (A,)
    tree: NDArray[np.int32] | None


class _Queue:
    """Queue of the spaces of one sentence.

    Args:
        parts: of the batch.
        b: the sentence.
        gains: (A,) most that each arc of the batch adds to a tree.
        constant: most that is added whatever the arcs are.
        trees: best trees of the batch.
        k: how many trees to find.
    """

    def __init__(self, parts: Parts, b: int, gains: NDArray[np.float64], constant: float, trees: Trees, k: int) -> None:
        arcs = slice(parts.sentence_offsets[b], parts.sentence_offsets[b + 1])
        words = slice(parts.word_offsets[b], parts.word_offsets[b + 1])
        self.sentence, self.missing = b, k
        self.head = parts.head[arcs]
        self.word = parts.modifier[arcs].astype(np.int64) - 1
        self.starts = parts.modifier_offsets[words] - parts.sentence_offsets[b]  # (n,) first arc of each word
        self.gain, self.constant = gains[arcs], constant
        self.found = list[tuple[float, NDArray[np.int32]]]()
        self.spaces = list[_Space]()  # a heap
        self.highest = -np.inf  # bound of spaces that are not in the heap any more
        self.decodings = 0
        self.numbers = count()
        self.add(np.ones(len(self.head), dtype=np.bool_), trees, b)

    def add(self, arcs: NDArray[np.bool_], trees: Trees, row: int) -> None:
        """Note the best tree of a space."""
        self.decodings += 1
        if row in trees.failures:
            return
        score, certified = float(trees.score[row]), bool(trees.certified[row])
        bound = score if certified else np.inf if trees.bound is None else float(trees.bound[row])
        if score == -np.inf:
            self.highest = max(self.highest, bound)
        else:
            tree = trees.heads[row, : len(self.starts) + 1].copy()
            heappush(self.spaces, _Space(-score, False, next(self.numbers), bound, lambda: arcs, tree))

    def advance(self) -> list[_Space]:
        """Take answers while the best space has a tree. Then return the spaces to decode; none when finished."""
        while self.missing and self.spaces:
            if self.spaces[0].is_open:
                return self._promising()
            best = heappop(self.spaces)
            assert best.tree is not None
            self.found.append((-best.order, best.tree))
            self.missing -= 1
            if self.missing:
                self._split(best.arcs(), best.tree, best.bound)
            else:
                self.highest = max(self.highest, best.bound)
        return []

    def _promising(self) -> list[_Space]:
        """Take the spaces with the highest bounds, as many as answers are missing, that may hold one."""
        chosen, others, trees = list[_Space](), list[_Space](), 0
        for space in sorted(self.spaces):
            trees += not space.is_open
            promising = space.is_open and trees < self.missing and len(chosen) < self.missing
            (chosen if promising else others).append(space)
        self.spaces = others
        return chosen

    def _split(self, inside: NDArray[np.bool_], tree: NDArray[np.int32], bound: float) -> None:
        """Split the rest of a space into parts, and put them into the heap."""
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
        for i, upper in enumerate(np.minimum(bounds, bound).tolist()):

            def arcs(i: int = i) -> NDArray[np.bool_]:
                kept: NDArray[np.bool_] = inside & ((place > i) | (agrees != (place == i)))
                return kept

            heappush(self.spaces, _Space(-upper, True, next(self.numbers), upper, arcs, None))

    def ceiling(self) -> float:
        """Upper bound on the score of any tree that is not among the answers."""
        return max([self.highest, *(space.bound for space in self.spaces)])


def _gains(parts: Parts) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the maximum that each arc can add to the score of a tree, and the maximum of all other contributions.

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
