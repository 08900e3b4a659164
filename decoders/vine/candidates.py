"""Candidate arcs between the stages of a pruning cascade: from the vine to arcs, and from arcs to fewer of them.

A stage leaves some arcs of the vine (`expand` lists the arcs that they stand for) or some candidate arcs (`restrict`).
Differs from the paper: the best structure of a vine need not be a tree, so a sentence may be left without a projective
tree; `restore` then adds a few arcs that make one.
"""

from __future__ import annotations

from collections.abc import Collection

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from arbora.decoders.kernels.options import FILLING, HELPER
from arbora.decoders.kernels.threads import over_sentences
from arbora.decoders.parts.batch import Parts
from arbora.decoders.parts.layout import LEFT, RIGHT, sibling_at
from arbora.decoders.projective.decoder import Projective
from arbora.decoders.projective.feasibility import has_tree
from arbora.decoders.vine.dictionary import LengthDictionary
from arbora.decoders.vine.structures import Indices


def sentence_of_arcs(parts: Parts) -> NDArray[np.int64]:
    """(A,) the sentence of each candidate arc."""
    return np.repeat(np.arange(len(parts.lengths)), np.diff(parts.sentence_offsets))


def restrict(
    parts: Parts,
    keep: NDArray[np.bool_],
    kinds: Collection[str] = (),
) -> Parts:
    """Some of the candidate arcs with their scores, and parts of some kinds: those made of these arcs only.

    A tree of these arcs scores by them what it scored before.

    Args:
        parts: candidate arcs, with parts of these kinds.
        keep: (A,) which arcs to keep.
        kinds: kinds of parts to keep, of those that `Projective` searches by.
    """
    if others := set(kinds) - Projective.takes:
        raise ValueError(f"restrict is for {', '.join(sorted(Projective.takes))}, not for {', '.join(sorted(others))}")
    places = np.concatenate([[0], np.cumsum(keep)])
    arcs = np.flatnonzero(keep)
    offsets = places[parts.sentence_offsets], places[parts.modifier_offsets]
    left = Parts(parts.lengths, parts.head[arcs], parts.arc_score[arcs], *offsets)
    if not kinds:
        return left
    layout, left_layout = parts.layout, left.layout
    ranks = layout.rank[arcs[left_layout.outward]]
    scores = {kind: np.empty(left.part_offsets(kind)[-1], dtype=np.float32) for kind in kinds}
    for kind, score in scores.items():
        if kind == "grandparent":
            _take_grandparents(layout, left_layout, arcs, score)
        else:
            _take_siblings(layout, left_layout, arcs, ranks, kind == "grand_sibling", score)
    return left.with_scores(**scores)


def expand(
    kept: Indices,
    lengths: ArrayLike,
    dictionary: LengthDictionary | None = None,
    tags: NDArray[np.integer] | None = None,
    single_root: bool = True,
) -> Parts:
    """Candidate arcs of the stage after the vine, with scores 0; there is a projective tree among them.

    A close arc is a candidate if it survived. A longer one is if it is an outer head of its modifier that survived, it
    is an outer modifier of its head that survived, and the dictionary allows its length.

    Args:
        kept: which arcs of the vine survived.
        lengths: (B,) words of each sentence.
        dictionary: of lengths; without it, heads at any distance.
        tags: (W+B,) tag of each node, for the dictionary.
        single_root: whether trees have exactly one modifier of the root.
    """
    n = np.asarray(lengths, dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(n)])
    if dictionary is None or tags is None:
        longest, tags = np.full((1, 1, 2), n.max(initial=1), dtype=np.int32), np.zeros(offsets[-1] + len(n), np.int64)
    else:
        longest, tags = dictionary.longest, np.ascontiguousarray(tags, dtype=np.int64)
    words = np.ones(len(tags), dtype=np.bool_)
    words[offsets[:-1] + np.arange(len(n))] = False
    reach = longest[np.unique(tags[words])].max(0)  # (T, 2) from a word to its modifier
    counts = np.zeros(offsets[-1] + 1, dtype=np.int64)
    none = np.empty(0, dtype=np.int32)
    steps = 1.0 * n * n
    over_sentences(lambda bs: _expand(bs, n, offsets, kept, longest, reach, tags, counts, none), steps)
    modifier_offsets = np.cumsum(counts)
    head = np.empty(modifier_offsets[-1], dtype=np.int32)
    over_sentences(lambda bs: _expand(bs, n, offsets, kept, longest, reach, tags, modifier_offsets, head), steps)
    scores = np.zeros(len(head), dtype=np.float32)
    parts = Parts(n.astype(np.int32), head, scores, modifier_offsets[offsets], modifier_offsets)
    return restore(parts, single_root)


def restore(parts: Parts, single_root: bool = True, among: Parts | None = None) -> Parts:
    """Candidate arcs with a projective tree in every sentence: where there is none, arcs are added that make one.

    Other parts than arcs are left out. Time follows the arcs that are there, as in `projective`.

    Args:
        parts: candidate arcs.
        single_root: whether trees have exactly one modifier of the root.
        among: more candidate arcs of the same sentences, which have such trees: those of their best trees are added,
            with their scores. Unless given, as few arcs as can be of those between neighbours and from the root are,
            and short ones of as few, with scores of 0.
    """
    without = np.flatnonzero(~has_tree(parts, single_root))
    if len(without) == 0:
        return parts
    candidates = _with_neighbours(parts.subset(without).only()) if among is None else among.subset(without).only()
    trees = Projective(single_root)(candidates).heads
    sentence, m = np.nonzero(trees >= 0)
    score = None if among is None else candidates.arc_score[candidates.active(trees)["arc"]]
    return add_arcs(parts, without[sentence], m, trees[sentence, m], score)


def _with_neighbours(parts: Parts) -> Parts:
    """Candidate arcs at no cost, and those between neighbours and from the root at a cost that grows with length."""
    n = parts.lengths.astype(np.int64)
    sentence = np.repeat(np.arange(len(n)), n)
    m = np.arange(len(sentence)) - parts.word_offsets[sentence] + 1
    heads = np.stack([m - 1, np.where(m < n[sentence], m + 1, m - 1), np.zeros_like(m)], 1).ravel()
    sentence, m = np.repeat(sentence, 3), np.repeat(m, 3)
    cost = -1 - np.abs(heads - m) / (n.max() + 1.0) ** 2
    free = parts.with_scores(arc_score=np.zeros(len(parts.head), dtype=np.float32))
    return add_arcs(free, sentence, m, heads, cost.astype(np.float32))


def add_arcs(
    parts: Parts,
    sentence: NDArray[np.integer],
    modifier: NDArray[np.integer],
    head: NDArray[np.integer],
    score: NDArray[np.float32] | None = None,
) -> Parts:
    """Candidate arcs, and more of them; those that are there already keep their scores. Other parts are left out.

    Args:
        parts: candidate arcs.
        sentence: (M,) of each arc to add; one may be there several times.
        modifier: (M,) likewise.
        head: (M,) likewise.
        score: (M,) scores, 0 unless given; of an arc that is there several times, the first counts.
    """
    size = int(parts.lengths.max(initial=0)) + 1
    old = (parts.word_offsets[sentence_of_arcs(parts)] + parts.modifier - 1) * size + parts.head
    new = (parts.word_offsets[sentence] + modifier - 1) * size + head
    added = np.zeros(len(new), dtype=np.float32) if score is None else score
    keys, first = np.unique(np.concatenate([old, new]), return_index=True)
    scores = np.concatenate([parts.arc_score, added])[first]
    offsets = np.searchsorted(keys, np.arange(parts.word_offsets[-1] + 1) * size)
    return Parts(parts.lengths, (keys % size).astype(np.int32), scores, offsets[parts.word_offsets], offsets)


def with_trees(parts: Parts, heads: NDArray[np.integer] | None) -> Parts:
    """Candidate arcs with those of trees (B, N) among them."""
    if heads is None:
        return parts
    sentence, m = np.nonzero(heads >= 0)
    return add_arcs(parts, sentence, m, heads[sentence, m])


@numba.njit(**FILLING)
def _expand(sentences, lengths, offsets, kept, longest, reach, tags, places, head):
    """Count the arcs into each word w at places[w + 1], or write their heads from places[w] on."""
    close, outer_head, outer_modifier = kept
    band = close.shape[1] // 2
    write = len(head) > 0
    for b in sentences:
        n, node = lengths[b], offsets[b] + b
        for m in range(1, n + 1):
            w, tag = offsets[b] + m - 1, tags[node + m]
            k = places[w] if write else 0
            if m > band and outer_head[w, LEFT]:  # the root, which comes first, is as far as any
                first = max(1, m - reach[tag, RIGHT])
                k = _add_far(node, 0, 1, m, RIGHT, outer_modifier, longest, tags, k, head)
                k = _add_far(node, first, m - band, m, RIGHT, outer_modifier, longest, tags, k, head)
            for slot in range(2 * band):
                h = m + slot - band + (slot >= band)
                if close[w, slot] and 0 <= h <= n:
                    if write:
                        head[k] = h
                    k += 1
            if outer_head[w, RIGHT]:
                last = min(n, m + reach[tag, LEFT])
                k = _add_far(node, m + band + 1, last + 1, m, LEFT, outer_modifier, longest, tags, k, head)
            if not write:
                places[w + 1] = k


@numba.njit(**HELPER)
def _add_far(node, start, stop, m, side, outer_modifier, longest, tags, k, head):
    """Count the words in start..stop - 1 that may be heads of m, or write them from k on. Returns their end."""
    for h in range(start, stop):
        if outer_modifier[node + h, side] and abs(h - m) <= longest[tags[node + h], tags[node + m], side]:
            if len(head) > 0:
                head[k] = h
            k += 1
    return k


@numba.njit(**FILLING)
def _take_grandparents(layout, left, arcs, score):
    """Scores of the grandparents of which both arcs are left; arc k of `left` was arcs[k]."""
    e = 0
    for b in range(len(left.lengths)):
        first = left.word_offsets[b] - 1
        for k in range(left.sentence_offsets[b], left.sentence_offsets[b + 1]):
            h = left.head[k]
            if h > 0:
                block = layout.grandparent_offsets[arcs[k]] - layout.modifier_offsets[first + h]
                for up in range(left.modifier_offsets[first + h], left.modifier_offsets[first + h + 1]):
                    score[e] = layout.grandparent[block + arcs[up]]
                    e += 1


@numba.njit(**FILLING)
def _take_siblings(layout, left, arcs, ranks, with_grandparent, score):
    """Scores of the siblings of which all arcs are left, or of the grand-siblings; arc k of `left` was arcs[k].

    ranks: (A,) the rank that arcs had before, in the order outward of those that are left.
    """
    e = 0
    for b in range(len(left.lengths)):
        node = left.word_offsets[b] + b
        if with_grandparent:
            for k in range(left.sentence_offsets[b], left.sentence_offsets[b + 1]):
                for right in range(2):
                    side, block = (
                        2 * (node + left.modifier[k]) + right,
                        layout.grand_sibling_offsets[2 * arcs[k] + right],
                    )
                    e = _take_block(layout, left, ranks, side, layout.grand_sibling, block, score, e)
        else:
            for side in range(2 * node + 1, 2 * (node + left.lengths[b] + 1)):
                e = _take_block(layout, left, ranks, side, layout.sibling, layout.sibling_offsets[side], score, e)


@numba.njit(**HELPER)
def _take_block(layout, left, ranks, side, source, block, score, e):
    """Write what is left of a block of siblings from e on. Returns where it ends."""
    J = layout.side_offsets[side + 1] - layout.side_offsets[side]
    start, end = left.side_offsets[side], left.side_offsets[side + 1]
    for i in range(start - 1, end):
        rank = ranks[i] if i >= start else 0
        row = block + sibling_at(J, rank, rank + 1) - rank - 1
        for j in range(i + 1, end):
            score[e] = source[row + ranks[j]]
            e += 1
        score[e] = source[row + J + 1]
        e += 1
    return e
