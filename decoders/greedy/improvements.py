"""Improvement of trees by swaps of arcs, each time the best one.

Tchernowitz, Yedidsion and Reichart (2016), "Effective greedy inference for graph-based non-projective dependency
parsing", where it follows the greedy search; here it takes trees of whichever decoder.

Differs from the paper: with a single root, swaps that would change the number of the root's modifiers are left out. A
swap of two arcs is scored as two changes, one after the other, so that parts which hold both count once.

Complexity for K candidate heads a word and J candidate modifiers a side: a round takes O(n K J), with `grand_sibling`
too, and O(K J) more for each word with a candidate head below itself. After a good search the first round is mostly the
last, so nothing is kept between rounds.
"""

from typing import Any

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from arbora.decoders.kernels.options import HELPER
from arbora.decoders.kernels.threads import over_sentences
from arbora.decoders.parts.batch import Parts
from arbora.decoders.parts.kinds import COMMON
from arbora.decoders.parts.layout import any_sibling_at, sibling_at, tri_sibling_at
from arbora.decoders.trees import Trees

KERNEL: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}
"""Options of a kernel that is called once a step; like `HELPER` it must not allocate."""


def improve(parts: Parts, heads: ArrayLike, rounds: int = 5, single_root: bool = True) -> Trees:
    """Improve trees, of whichever decoder, by swaps of arcs: in each round the one that raises the score most is made.

    A word v with head u takes another candidate u'. Where u' is below v, the child w of v above u' takes u with it.
    Each swap leaves a tree. With a single root the first kind of swap never touches the root's arc, the second may.

    Args:
        parts: arcs and higher-order parts of the batch.
        heads: (B, N) as in `Trees.heads`; trees of candidate arcs, with one root if `single_root`.
        rounds: at most so many swaps for each sentence.
        single_root: keep exactly one modifier of the root.

    Raises:
        ValueError: when a tree uses an arc that is no candidate, or there are kinds of parts that swaps do not look at.
    """
    if others := [kind for kind in parts.kinds if kind not in COMMON]:
        raise ValueError(f"swaps do not look at {', '.join(others)}")
    candidates = np.isfinite(parts.only().score(heads))
    if not candidates.all():
        b = int(np.argmin(candidates))
        raise ValueError(f"sentence {b}: the tree to be improved has an arc that is no candidate")
    trees = np.array(heads, dtype=np.int32)[:, : parts.empty_trees().shape[1]].copy()
    if single_root and (wrong := ((trees == 0).sum(1) != 1)).any():
        raise ValueError(f"sentence {int(np.argmax(wrong))}: the tree to be improved must have a single root")
    swaps = improve_in_place(parts.penalised(), trees, rounds, single_root)
    return scored(parts, trees, {"swaps": swaps})


def improve_in_place(parts: Parts, heads: NDArray[np.int32], rounds: int, single_root: bool) -> NDArray[np.int64]:
    """Improve trees in place; the number of swaps for each sentence."""
    swaps = np.zeros(len(parts.lengths), dtype=np.int64)
    if rounds > 0:
        layout = parts.layout
        over_sentences(
            lambda sentences: _improve(sentences, layout, rounds, single_root, heads, swaps),
            np.diff(parts.sentence_offsets) * 40.0,
        )
    return swaps


def scored(parts: Parts, heads: NDArray[np.int32], counters: dict[str, NDArray[np.int64]]) -> Trees:
    """Trees with exact scores. Proved best are those of first order in which each word has its best head."""
    score = parts.score(heads)
    certified = np.zeros(len(score), dtype=np.bool_)
    if not parts.kinds and len(parts.head):
        best = np.maximum.reduceat(parts.arc_score, parts.modifier_offsets[:-1])  # (W,)
        has_best = parts.arc_score[parts.active(heads)["arc"]] == best
        certified = np.logical_and.reduceat(has_best, parts.word_offsets[:-1])
    return Trees(heads, score, bound=None, certified=certified, counters=counters)


@numba.njit(cache=True, nogil=True)
def _improve(sentences, layout, rounds, single_root, heads, swaps):
    """Make up to so many swaps in each tree, each time the best."""
    N, A = 2, 1
    for b in sentences:
        N = max(N, layout.lengths[b] + 1)
        A = max(A, layout.sentence_offsets[b + 1] - layout.sentence_offsets[b])
    tree = np.empty(N, np.int64)  # arc into each word, numbered as in the layout
    worth = np.empty(A)  # what a word brings under each of its heads, all others staying where they are
    again = np.empty(A)
    below = np.empty(N, np.int32)  # for each arc into v, the child of v above, or at, its head, if that is below v
    child = np.empty(N, np.int64)  # the first modifier of each word ...
    following = np.empty(N, np.int64)  # ... and the next with the same head, 0 if there is none
    enter = np.empty(N, np.int64)  # place of each word in the order in which heads come before their modifiers ...
    leave = np.empty(N, np.int64)  # ... and the first place after all words below it

    for b in sentences:
        n = layout.lengths[b]
        words, first = layout.word_offsets[b] - 1, layout.sentence_offsets[b]
        tree[0] = -1
        score = 0.0
        for m in range(1, n + 1):
            for k in range(layout.modifier_offsets[words + m], layout.modifier_offsets[words + m + 1]):
                if layout.head[k] == heads[b, m]:
                    tree[m] = k
        for _ in range(rounds):
            score = 0.0
            for m in range(1, n + 1):
                _attach(layout, b, tree, m, worth)
                score += abs(worth[tree[m] - first])
            _number(layout.head, n, tree, child, following, enter, leave)
            best, move, other = 1e-10 * (1.0 + score), -1, -1
            for v in range(1, n + 1):
                old = tree[v]
                u = layout.head[old]
                start, end = layout.modifier_offsets[words + v], layout.modifier_offsets[words + v + 1]
                inside = False
                for k in range(start, end):
                    x = layout.head[k]
                    w = 0
                    if enter[v] < enter[x] < leave[v]:
                        while x != v:
                            w = x
                            x = layout.head[tree[x]]
                        inside = True
                    below[k - start] = w
                    if w == 0 and not (single_root and (u == 0 or layout.head[k] == 0)):
                        delta = worth[k - first] - worth[old - first]
                        if delta > best:
                            best, move, other = delta, k, -1
                if not inside:
                    continue
                for k in range(start, end):
                    w = below[k - start]
                    if w == 0:
                        continue
                    # w goes to u first, then v below w: two changes, one after the other, each of them leaves a tree
                    up = -1
                    for i in range(layout.modifier_offsets[words + w], layout.modifier_offsets[words + w + 1]):
                        if layout.head[i] == u:
                            up = i
                    if up >= 0:
                        kept = tree[w]
                        delta = worth[up - first] - worth[kept - first]
                        tree[w] = up
                        _attach(layout, b, tree, v, again)
                        tree[w] = kept
                        for i in range(k, end):
                            if below[i - start] == w:
                                change = delta + again[i - first] - again[old - first]
                                if change > best:
                                    best, move, other = change, i, up
                    for i in range(k, end):
                        if below[i - start] == w:
                            below[i - start] = 0
            if move < 0:
                break
            tree[layout.modifier[move]] = move
            if other >= 0:
                tree[layout.modifier[other]] = other
            swaps[b] += 1
        for m in range(1, n + 1):
            heads[b, m] = layout.head[tree[m]]


@numba.njit(**HELPER)
def _number(head, n, tree, child, following, enter, leave):
    """Number the words of a tree from 0, the root, each before those below it."""
    for m in range(n + 1):
        child[m] = following[m] = 0
    for m in range(n, 0, -1):
        h = head[tree[m]]
        following[m] = child[h]
        child[h] = m
    enter[0] = 0
    count = 1
    x = child[0]
    while x > 0:
        enter[x] = count
        count += 1
        if child[x] > 0:
            x = child[x]
        else:
            leave[x] = count
            while x > 0 and following[x] == 0:
                x = np.int64(head[tree[x]])
                leave[x] = count
            x = following[x]


@numba.njit(**KERNEL)
def _attach(layout, b, tree, m, worth):
    """How much the score of a tree, without the arc into m, rises with each arc into m."""
    n = layout.lengths[b]
    words, first = layout.word_offsets[b] - 1, layout.sentence_offsets[b]
    node = words + 1 + b
    start, end = layout.modifier_offsets[words + m], layout.modifier_offsets[words + m + 1]
    K = end - start
    sides = len(layout.sibling) > 0 or len(layout.tri_sibling) > 0 or len(layout.grand_sibling) > 0
    for k in range(start, end):
        worth[k - first] = layout.arc_score[k]

    # m as head: its modifiers stay, and their grandparent changes
    if len(layout.grandparent) > 0:
        for place in range(layout.side_offsets[2 * (node + m)], layout.side_offsets[2 * (node + m) + 2]):
            low = layout.outward[place]
            if tree[layout.modifier[low]] == low:
                block = layout.grandparent_offsets[low] - start
                for k in range(start, end):
                    worth[k - first] += layout.grandparent[block + k]
    if len(layout.grand_sibling) > 0:
        for right in range(2):
            side = 2 * (node + m) + right
            base, J = layout.side_offsets[side], layout.side_offsets[side + 1] - layout.side_offsets[side]
            i = 0
            for j in range(1, J + 2):
                if j <= J:
                    low = layout.outward[base + j - 1]
                    if tree[layout.modifier[low]] != low:
                        continue
                e = sibling_at(J, i, j)
                for k in range(start, end):
                    worth[k - first] += layout.grand_sibling[layout.grand_sibling_offsets[2 * k + right] + e]
                i = j

    # m as modifier
    for k in range(start, end):
        h = layout.head[k]
        w = 0.0
        if h > 0 and len(layout.grandparent) > 0:
            w += layout.grandparent[layout.grandparent_offsets[k] + tree[h] - layout.modifier_offsets[words + h]]
        if sides:
            side = 2 * (node + h) + (m > h)
            base, J = layout.side_offsets[side], layout.side_offsets[side + 1] - layout.side_offsets[side]
            rank = np.int64(layout.rank[k])
            before = _neighbour(layout, tree, base, J, rank, -1)
            after = _neighbour(layout, tree, base, J, rank, 1)
            if len(layout.sibling) > 0:
                w += _between(layout.sibling, layout.sibling_offsets[side], J, before, rank, after)
            if h > 0 and len(layout.grand_sibling) > 0:
                block = layout.grand_sibling_offsets[2 * tree[h] + (m > h)]
                w += _between(layout.grand_sibling, block, J, before, rank, after)
            if len(layout.tri_sibling) > 0:
                score, block = layout.tri_sibling, layout.tri_sibling_offsets[side]
                w += score[block + tri_sibling_at(J, before, rank, after)]
                if before > 0:
                    further = _neighbour(layout, tree, base, J, before, -1)
                    w += score[block + tri_sibling_at(J, further, before, rank)]
                    w -= score[block + tri_sibling_at(J, further, before, after)]
                if after <= J:
                    further = _neighbour(layout, tree, base, J, after, 1)
                    w += score[block + tri_sibling_at(J, rank, after, further)]
                    w -= score[block + tri_sibling_at(J, before, after, further)]
        if len(layout.any_sibling) > 0:
            base = layout.side_offsets[2 * (node + h)]
            J = layout.side_offsets[2 * (node + h) + 2] - base
            mine = layout.side_offsets[2 * (node + h) + (m > h)] - base + layout.rank[k] - 1
            for place in range(J):
                other = layout.outward[base + place]
                if place != mine and tree[layout.modifier[other]] == other:
                    e = any_sibling_at(J, min(place, mine), max(place, mine))
                    w += layout.any_sibling[layout.any_sibling_offsets[node + h] + e]
        if len(layout.head_bigram) > 0:
            if m > 1:
                i = tree[m - 1] - layout.modifier_offsets[words + m - 1]
                w += layout.head_bigram[layout.head_bigram_offsets[words + m] + i * K + k - start]
            if m < n:
                j = tree[m + 1] - end
                K_next = layout.modifier_offsets[words + m + 2] - end
                w += layout.head_bigram[layout.head_bigram_offsets[words + m + 1] + (k - start) * K_next + j]
        worth[k - first] += w


@numba.njit(**HELPER)
def _neighbour(layout, tree, base, J, rank, step):
    """Rank of the next modifier on a side that is in the tree, inward or outward: 0 is START, J + 1 END."""
    rank += step
    while 0 < rank <= J:
        k = layout.outward[base + rank - 1]
        if tree[layout.modifier[k]] == k:
            break
        rank += step
    return rank


@numba.njit(**HELPER)
def _between(score, block, J, before, rank, after):
    """What a modifier brings between its neighbours."""
    w = np.float64(score[block + sibling_at(J, before, rank)])
    w += score[block + sibling_at(J, rank, after)]
    w -= score[block + sibling_at(J, before, after)]
    return w
