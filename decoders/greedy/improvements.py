"""Improvement of trees by swaps of arcs, the best one each time.

Tchernowitz, Yedidsion and Reichart (2016), "Effective greedy inference for graph-based non-projective dependency
parsing", section 6, where it follows the greedy search; here it takes the trees of any decoder.

Differs from the paper: with a single root, swaps that would change the number of the root's modifiers are left out. A
swap of two arcs is scored as two changes, one after the other, so that parts which hold both count once.

Complexity for K candidate heads per word and J candidate modifiers per side: a round takes O(n K J), also with
`grand_sibling`, and O(K J) more for each word with a candidate head below itself. `grand_grandparent` adds O(K) for
each word with three words above it. After a good search the first round is mostly the last, so nothing is kept between
rounds.
"""

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from arbora.decoders.greedy.state import chains_of
from arbora.decoders.kernels.options import CALLED, FILLING, HELPER
from arbora.decoders.kernels.threads import over_sentences
from arbora.decoders.parts.batch import Parts
from arbora.decoders.parts.kinds import COMMON
from arbora.decoders.parts.layout import any_sibling_at, sibling_at, tri_sibling_at
from arbora.decoders.trees import Trees

SWAPPED: frozenset[str] = frozenset((*COMMON, "grand_grandparent"))
"""Kinds of parts that swaps look at."""


def improve(parts: Parts, heads: ArrayLike, rounds: int = 5, single_root: bool = True) -> Trees:
    """Improve trees of any decoder by swaps of arcs: each round makes the one that raises the score most.

    A word v with head u takes another candidate head u'. If u' is below v, the child w of v above u' takes u as head.
    Each swap leaves a tree. With a single root, swaps of the first kind never touch the root's arc, others may.

    Args:
        parts: arcs and higher-order parts of the batch.
        heads: (B, N) as in `Trees.heads`; trees of candidate arcs, with one root if `single_root`.
        rounds: maximum number of swaps for each sentence.
        single_root: keep exactly one modifier of the root.

    Raises:
        ValueError: a tree has an arc that is not a candidate, or there are kinds of parts that swaps ignore.
    """
    if others := [kind for kind in parts.kinds if kind not in SWAPPED]:
        raise ValueError(f"improvements do not support parts of the kinds {', '.join(others)}")
    candidates = np.isfinite(parts.only().score(heads))
    if not candidates.all():
        b = int(np.argmin(candidates))
        raise ValueError(f"sentence {b}: the tree to be improved has an arc that is not a candidate")
    trees = np.array(heads, dtype=np.int32)[:, : parts.empty_trees().shape[1]].copy()
    if single_root and (wrong := ((trees == 0).sum(1) != 1)).any():
        raise ValueError(f"sentence {int(np.argmax(wrong))}: the tree to be improved must have a single root")
    swaps = improve_in_place(parts.penalised(), trees, rounds, single_root)
    return scored(parts, trees, {"swaps": swaps})


def improve_in_place(parts: Parts, heads: NDArray[np.int32], rounds: int, single_root: bool) -> NDArray[np.int64]:
    """Improve trees in place; returns the number of swaps for each sentence."""
    swaps = np.zeros(len(parts.lengths), dtype=np.int64)
    if rounds > 0:
        layout, chains = parts.layout, chains_of(parts)
        arcs = np.diff(parts.sentence_offsets)
        N, A = heads.shape[1], int(arcs.max(initial=1))

        def run(sentences: NDArray[np.int64]) -> None:
            arc, child, following, enter, leave = np.empty((5, N), np.int64)
            tree = _Tree(arc, child, following, enter, leave, np.empty(A), np.empty(A), np.empty(N, np.int32))
            _improve(sentences, layout, chains, rounds, single_root, tree, heads, swaps)

        over_sentences(run, arcs * 40.0)
    return swaps


def scored(parts: Parts, heads: NDArray[np.int32], counters: dict[str, NDArray[np.int64]]) -> Trees:
    """Trees with exact scores; certified are those of first order in which each word has its best head."""
    score = parts.score(heads)
    certified = np.zeros(len(score), dtype=np.bool_)
    if not parts.kinds and len(parts.head):
        best = np.maximum.reduceat(parts.arc_score, parts.modifier_offsets[:-1])  # (W,)
        has_best = parts.arc_score[parts.active(heads)["arc"]] == best
        certified = np.logical_and.reduceat(has_best, parts.word_offsets[:-1])
    return Trees(heads, score, bound=None, certified=certified, counters=counters)


class _Tree(NamedTuple):
    """A tree that is improved, and what is known of its words and arcs."""

    arc: NDArray[np.int64]  # (N,) arc into each word, numbered as in the layout
    child: NDArray[np.int64]  # (N,) first modifier of each word ...
    following: NDArray[np.int64]  # (N,) ... and the next with the same head, 0 if there is none
    enter: NDArray[np.int64]  # (N,) place of each word in an order in which heads come before their modifiers ...
    leave: NDArray[np.int64]  # (N,) ... and the first place after all words below it
    worth: NDArray[np.float64]  # (A,) what a word brings under each of its heads, all others staying where they are
    again: NDArray[np.float64]  # (A,) the same after another word has moved
    below: NDArray[np.int32]  # (N,) for each arc into v, the child of v above, or at, its head, if that is below v


@numba.njit(**FILLING)
def _improve(sentences, layout, chains, rounds, single_root, tree, heads, swaps):
    """Make up to so many swaps in each tree, the best one each time."""
    for b in sentences:
        n = layout.lengths[b]
        words = layout.word_offsets[b] - 1
        tree.arc[0] = -1
        for m in range(1, n + 1):
            for k in range(layout.modifier_offsets[words + m], layout.modifier_offsets[words + m + 1]):
                if layout.head[k] == heads[b, m]:
                    tree.arc[m] = k
        for _ in range(rounds):
            move, other = _best_swap(layout, chains, b, single_root, tree)
            if move < 0:
                break
            tree.arc[layout.modifier[move]] = move
            if other >= 0:
                tree.arc[layout.modifier[other]] = other
            swaps[b] += 1
        for m in range(1, n + 1):
            heads[b, m] = layout.head[tree.arc[m]]


@numba.njit(**HELPER)
def _best_swap(layout, chains, b, single_root, tree):
    """Find the swap that raises the score most: the arc, and a second one or -1; both -1 if no swap raises it."""
    n = layout.lengths[b]
    words, first = layout.word_offsets[b] - 1, layout.sentence_offsets[b]
    score = 0.0
    for m in range(1, n + 1):
        _attach(layout, chains, b, tree.arc, m, tree.worth)
        score += abs(tree.worth[tree.arc[m] - first])
    _number(layout.head, n, tree)
    best, move, other = 1e-10 * score, -1, -1  # relative, so that the unit of the scores does not matter
    for v in range(1, n + 1):
        old = tree.arc[v]
        u = layout.head[old]
        start, end = layout.modifier_offsets[words + v], layout.modifier_offsets[words + v + 1]
        inside = False
        for k in range(start, end):
            w = _child_above(layout.head, tree, v, layout.head[k])
            inside |= w > 0
            tree.below[k - start] = w
            if w == 0 and not (single_root and (u == 0 or layout.head[k] == 0)):
                delta = tree.worth[k - first] - tree.worth[old - first]
                if delta > best:
                    best, move, other = delta, k, -1
        if inside:
            for k in range(start, end):
                if tree.below[k - start] > 0:
                    best, move, other = _best_swap_of_two(layout, chains, b, tree, k, end, (best, move, other))
    return move, other


@numba.njit(**HELPER)
def _child_above(head, tree, v, x):
    """The child of v that x is, or is below; 0 if x is not below v."""
    w = 0
    if tree.enter[v] < tree.enter[x] < tree.leave[v]:
        while x != v:
            w = x
            x = head[tree.arc[x]]
    return w


@numba.njit(**HELPER)
def _best_swap_of_two(layout, chains, b, tree, k, end, best_so_far):
    """Try arcs into v from k on whose heads are below the same child w of v as that of k, and mark them as tried.

    First w goes to the head of v, then v below w: two changes, one after the other, each of which leaves a tree.
    """
    best, move, other = best_so_far
    words, first = layout.word_offsets[b] - 1, layout.sentence_offsets[b]
    v = np.int64(layout.modifier[k])
    start, old = layout.modifier_offsets[words + v], tree.arc[v]
    w = tree.below[k - start]
    up = -1
    for i in range(layout.modifier_offsets[words + w], layout.modifier_offsets[words + w + 1]):
        if layout.head[i] == layout.head[old]:
            up = i
    if up >= 0:
        kept = tree.arc[w]
        delta = tree.worth[up - first] - tree.worth[kept - first]
        tree.arc[w] = up
        _attach(layout, chains, b, tree.arc, v, tree.again)
        tree.arc[w] = kept
        for i in range(k, end):
            change = delta + tree.again[i - first] - tree.again[old - first]
            if tree.below[i - start] == w and change > best:
                best, move, other = change, i, up
    for i in range(k, end):
        if tree.below[i - start] == w:
            tree.below[i - start] = 0
    return best, move, other


@numba.njit(**HELPER)
def _number(head, n, tree):
    """Number the words of a tree from 0, the root, each before those below it."""
    arc, child, following, enter, leave = tree.arc, tree.child, tree.following, tree.enter, tree.leave
    for m in range(n + 1):
        child[m] = following[m] = 0
    for m in range(n, 0, -1):
        h = head[arc[m]]
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
                x = np.int64(head[arc[x]])
                leave[x] = count
            x = following[x]


@numba.njit(**CALLED)
def _attach(layout, chains, b, tree, m, worth):
    """Compute how much the score of a tree, without the arc into m, rises with each arc into m."""
    words, first = layout.word_offsets[b] - 1, layout.sentence_offsets[b]
    start, end = layout.modifier_offsets[words + m], layout.modifier_offsets[words + m + 1]
    sides = len(layout.sibling) > 0 or len(layout.tri_sibling) > 0 or len(layout.grand_sibling) > 0
    for k in range(start, end):
        worth[k - first] = layout.arc_score[k]

    # m as head: its modifiers stay, and their grandparent changes
    if len(layout.grandparent) > 0:
        _add_below(layout, b, tree, m, worth)
    if len(layout.grand_sibling) > 0:
        _add_grand_siblings_below(layout, b, tree, m, worth)
    if chains is not None:
        _add_chains_below(layout, chains, b, tree, m, worth)

    # m as modifier
    for k in range(start, end):
        h = layout.head[k]
        w = 0.0
        if h > 0 and len(layout.grandparent) > 0:
            w += layout.grandparent[layout.grandparent_offsets[k] + tree[h] - layout.modifier_offsets[words + h]]
        if sides:
            w = _add_siblings(layout, b, tree, k, w)
        if len(layout.any_sibling) > 0:
            w = _add_any_siblings(layout, b, tree, k, w)
        if len(layout.head_bigram) > 0:
            w = _add_head_bigrams(layout, b, tree, k, w)
        if chains is not None and h > 0 and layout.head[tree[h]] > 0:
            w += _chain(layout, chains, words, tree, tree[h], k)
        worth[k - first] += w


@numba.njit(**HELPER)
def _add_below(layout, b, tree, m, worth):
    words, first = layout.word_offsets[b] - 1, layout.sentence_offsets[b]
    node = words + 1 + b
    start, end = layout.modifier_offsets[words + m], layout.modifier_offsets[words + m + 1]
    for place in range(layout.side_offsets[2 * (node + m)], layout.side_offsets[2 * (node + m) + 2]):
        low = layout.outward[place]
        if tree[layout.modifier[low]] == low:
            block = layout.grandparent_offsets[low] - start
            for k in range(start, end):
                worth[k - first] += layout.grandparent[block + k]


@numba.njit(**HELPER)
def _add_grand_siblings_below(layout, b, tree, m, worth):
    words, first = layout.word_offsets[b] - 1, layout.sentence_offsets[b]
    start, end = layout.modifier_offsets[words + m], layout.modifier_offsets[words + m + 1]
    for right in range(2):
        side = 2 * (words + 1 + b + m) + right
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


@numba.njit(**HELPER)
def _add_chains_below(layout, chains, b, tree, m, worth):
    """Add the grand-grandparents in which an arc into m is the middle or the upper one."""
    words, first = layout.word_offsets[b] - 1, layout.sentence_offsets[b]
    node = words + 1 + b
    start, end = layout.modifier_offsets[words + m], layout.modifier_offsets[words + m + 1]
    for place in range(layout.side_offsets[2 * (node + m)], layout.side_offsets[2 * (node + m) + 2]):
        low = layout.outward[place]
        c = layout.modifier[low]
        if tree[c] != low:
            continue
        for k in range(start, end):
            if layout.head[k] > 0:
                worth[k - first] += _chain(layout, chains, words, tree, k, low)
        for deeper in range(layout.side_offsets[2 * (node + c)], layout.side_offsets[2 * (node + c) + 2]):
            lowest = layout.outward[deeper]
            if tree[layout.modifier[lowest]] == lowest:
                block = _chains_at(layout, chains, words, low, lowest) - start
                for k in range(start, end):
                    worth[k - first] += chains.score[block + k]


@numba.njit(**HELPER)
def _chains_at(layout, chains, words, up, k):
    """Return the start of the grand-grandparents with lower arc k and middle arc `up`."""
    before = layout.modifier_offsets[words + layout.modifier[up]]
    return chains.offsets[k] + layout.grandparent_offsets[up] - layout.grandparent_offsets[before]


@numba.njit(**HELPER)
def _chain(layout, chains, words, tree, up, k):
    """Weight of the grand-grandparent of arc k, arc `up` above it, and the arc of the tree above that."""
    g = layout.head[up]
    e = _chains_at(layout, chains, words, up, k) + tree[g] - layout.modifier_offsets[words + g]
    return np.float64(chains.score[e])


@numba.njit(**HELPER)
def _add_siblings(layout, b, tree, k, w):
    """Add siblings, grand-siblings and tri-siblings that arc k makes, less those that it breaks."""
    h, m = layout.head[k], layout.modifier[k]
    side = 2 * (layout.word_offsets[b] + b + h) + (m > h)
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
    return w


@numba.njit(**HELPER)
def _add_any_siblings(layout, b, tree, k, w):
    h, m = layout.head[k], layout.modifier[k]
    node = layout.word_offsets[b] + b + h
    base = layout.side_offsets[2 * node]
    J = layout.side_offsets[2 * node + 2] - base
    mine = layout.side_offsets[2 * node + (m > h)] - base + layout.rank[k] - 1
    for place in range(J):
        other = layout.outward[base + place]
        if place != mine and tree[layout.modifier[other]] == other:
            e = any_sibling_at(J, min(place, mine), max(place, mine))
            w += layout.any_sibling[layout.any_sibling_offsets[node] + e]
    return w


@numba.njit(**HELPER)
def _add_head_bigrams(layout, b, tree, k, w):
    words, m = layout.word_offsets[b] - 1, layout.modifier[k]
    start, end = layout.modifier_offsets[words + m], layout.modifier_offsets[words + m + 1]
    if m > 1:
        i = tree[m - 1] - layout.modifier_offsets[words + m - 1]
        w += layout.head_bigram[layout.head_bigram_offsets[words + m] + i * (end - start) + k - start]
    if m < layout.lengths[b]:
        j = tree[m + 1] - end
        K_next = layout.modifier_offsets[words + m + 2] - end
        w += layout.head_bigram[layout.head_bigram_offsets[words + m + 1] + (k - start) * K_next + j]
    return w


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
    """Return the score that a modifier adds between its neighbours."""
    w = np.float64(score[block + sibling_at(J, before, rank)])
    w += score[block + sibling_at(J, rank, after)]
    w -= score[block + sibling_at(J, before, after)]
    return w
