"""Exact first-order decoding over all trees, projective or not: maximum spanning arborescence.

Chu and Liu (1965) and Edmonds (1967), in the form of Tarjan (1977) for dense graphs; for parsing, McDonald et al.
(2005). Time and memory O(n^2) a sentence, in both root modes.

Differs from the papers:
- The source of an arc remains a word: contracting a cycle merges rows of incoming arcs but no columns. Every inner loop
  runs over contiguous memory.
- A contracted cycle has a row of weights, a word only its arcs: if the best heads form a tree, no row is needed.
- The word at which an arc enters a contracted cycle is not stored. The expansion finds it for the arcs that are used.
- A single root is enforced by an infinite symbolic penalty on the root's arcs. An arc of the root is never on a cycle,
  so contraction never mixes the penalty with scores. In effect, a node chooses the root only if it has no other arc
  left. This is exact for scores of any magnitude, and O(n^2), while trying all roots is O(n^3). Contractions made
  before the penalty applies remain valid, since the best arc besides the root's is also the best without the root.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from arbora.decoders.kernels.options import HELPER, KERNEL
from arbora.decoders.kernels.threads import over_sentences
from arbora.decoders.parts.batch import Parts
from arbora.decoders.trees import Decoder, NoTreeError, Trees

SEVERAL_ROOTS = -1
NODE_FRESH, NODE_OPEN, NODE_DONE, NODE_INNER, NODE_REPLACED = range(5)
"""States of a node: not yet seen, on the path that is followed, known to reach the root, on a contracted cycle, and its
arc replaced by one that enters it from outside."""


@dataclass(frozen=True)
class MST(Decoder):
    """Best tree under arc scores, crossing arcs allowed (Chu-Liu-Edmonds).

    Args:
        single_root: allow exactly one modifier of the root.
    """

    takes: ClassVar[frozenset[str]] = frozenset()
    single_root: bool = True

    def decode(self, parts: Parts) -> Trees:
        heads = parts.empty_trees()
        status = np.zeros(len(parts.lengths), dtype=np.int32)
        over_sentences(
            lambda sentences: _decode(
                sentences,
                parts.lengths,
                parts.word_offsets,
                parts.modifier_offsets,
                parts.head,
                parts.arc_score,
                parts.arc_score.view(np.int32),
                self.single_root,
                heads,
                status,
            ),
            3.0 * (parts.sentence_offsets[1:] - parts.sentence_offsets[:-1]),
        )
        if np.count_nonzero(status):
            raise NoTreeError({b: _why_no_tree(parts, b, int(status[b])) for b in np.flatnonzero(status).tolist()})
        return Trees.exact(parts, heads)


def _why_no_tree(parts: Parts, b: int, status: int) -> str:
    """Return the reason why sentence b has no tree, from its status after `_decode`."""
    if status == SEVERAL_ROOTS:
        return "no tree with a single root"
    w = parts.word_offsets[b] + status - 1
    if parts.modifier_offsets[w] == parts.modifier_offsets[w + 1]:
        return f"no tree: word {status} has no candidate head"
    return f"no tree: no candidate arcs lead from the root to word {status}"


class Forest(NamedTuple):
    """The arcs chosen for the nodes of one sentence. Node 0 is the root, 1..n are words, later ones contracted cycles.

    N is n + 1 for the longest of the sentences that share the arrays.
    """

    weight: NDArray[np.float64]  # (N, N) [node - n - 1, u]: of the best arc from word u into a contracted cycle
    best: NDArray[np.float64]  # (2N,) weight of the arc chosen for a node ...
    source: NDArray[np.int32]  # (2N,) ... and the word where it starts
    members: NDArray[np.int32]  # (2N,) nodes on the contracted cycles, one cycle after the other ...
    first_member: NDArray[np.int32]  # (N+1,) ... [node - n - 1]: where those of a cycle start
    state: NDArray[np.int8]  # (2N,)
    node_of: NDArray[np.int32]  # (N,) outermost node that holds a word
    word_of: NDArray[np.int32]  # (2N,) a word that a node holds ...
    next_word: NDArray[np.int32]  # (N,) ... and the others, in a ring
    outer: NDArray[np.int32]  # (2N,) contracted cycle that holds a node, 0 if none
    path: NDArray[np.int32]  # (N,) nodes from a word towards the root


@numba.njit(**KERNEL)
def _decode(sentences, lengths, word_offsets, modifier_offsets, head, score, bits, single_root, heads, status):
    """Fill heads[b] for each sentence; status[b] is 0, a word that the root does not reach, or SEVERAL_ROOTS."""
    size = 1
    for b in sentences:
        size = max(size, lengths[b] + 1)
    forest = Forest(
        np.empty((size, size)),
        np.empty(2 * size),
        np.empty(2 * size, np.int32),
        np.empty(2 * size, np.int32),
        np.empty(size + 1, np.int32),
        np.empty(2 * size, np.int8),
        np.empty(size, np.int32),
        np.empty(2 * size, np.int32),
        np.empty(size, np.int32),
        np.empty(2 * size, np.int32),
        np.empty(size, np.int32),
    )
    for b in sentences:
        n = lengths[b]
        before = word_offsets[b] - 1  # arcs into word m: modifier_offsets[before + m]:modifier_offsets[before + m + 1]
        status[b] = _choose(n, before, modifier_offsets, head, score, bits, forest)
        if status[b] != 0:
            continue
        free = n + 1
        root_last = False
        while True:
            free, status[b] = contract(n, before, modifier_offsets, head, score, root_last, free, forest)
            if status[b] != 0 or not single_root or count_roots(free, forest) == 1:
                break
            if root_last:
                status[b] = SEVERAL_ROOTS
                break
            root_last = True
            _leave_root(n, before, modifier_offsets, head, score, bits, free, forest)
        if status[b] == 0:
            expand(n, before, modifier_offsets, head, score, free, forest, heads[b])


@numba.njit(**HELPER)
def _choose(n, before, modifier_offsets, head, score, bits, forest):
    """Choose the best arc into each word. Returns a word without any, 0 if there is none."""
    forest.node_of[0] = 0
    forest.state[0] = NODE_DONE
    forest.first_member[0] = 0
    for m in range(1, n + 1):
        start, end = modifier_offsets[before + m], modifier_offsets[before + m + 1]
        if start == end:
            return np.int32(m)
        k = best_arc(bits, start, end)
        forest.best[m], forest.source[m] = score[k], head[k]
        forest.state[m] = NODE_FRESH
        forest.node_of[m] = forest.word_of[m] = forest.next_word[m] = m
    return np.int32(0)


@numba.njit(**HELPER)
def count_roots(free, forest):
    """Count the outermost nodes that are attached to the root."""
    roots = 0
    for node in range(1, free):
        roots += forest.state[node] != NODE_INNER and forest.source[node] == 0
    return roots


@numba.njit(**HELPER)
def _leave_root(n, before, modifier_offsets, head, score, bits, free, forest):
    """Choose again for the nodes that hang from the root: another source, if they have any. All arcs are to follow."""
    for node in range(1, free):
        if forest.state[node] != NODE_INNER:
            forest.state[node] = NODE_FRESH
            if forest.source[node] == 0 and node > n:
                forest.source[node] = best_source(forest.weight, node - n - 1, n, True)
                forest.best[node] = forest.weight[node - n - 1, forest.source[node]]
            elif forest.source[node] == 0:
                start, end = modifier_offsets[before + node] + 1, modifier_offsets[before + node + 1]
                if start < end:
                    k = best_arc(bits, start, end)
                    forest.best[node], forest.source[node] = score[k], head[k]


@numba.njit(**HELPER)
def contract(n, before, modifier_offsets, head, score, root_last, free, forest):
    """Follow the chosen arcs from each word back to the root, contracting every cycle met on the way.

    Returns the first node that is free, and a word that the root does not reach, 0 if there is none.
    """
    state, node_of, path = forest.state, forest.node_of, forest.path
    for v in range(1, n + 1):
        node = node_of[v]
        top = 0
        while state[node] != NODE_DONE:
            if state[node] == NODE_FRESH:
                state[node] = NODE_OPEN
                path[top] = node
                top += 1
            else:
                bottom = top - 1
                while path[bottom] != node:
                    bottom -= 1
                node = free
                free += 1
                _merge(node, n, bottom, top, forest)
                _weigh(node, n, before, modifier_offsets, head, score, forest)
                _enclose(node, n, root_last, forest)
                if forest.best[node] == -np.inf:
                    return free, forest.word_of[node]
                path[bottom] = node
                top = bottom + 1
            node = node_of[forest.source[node]]
        for i in range(top):
            state[path[i]] = NODE_DONE
    return free, np.int32(0)


@numba.njit(**HELPER)
def _merge(node, n, bottom, top, forest):
    """Contract the nodes on the path from bottom to top - 1 to one node, with one ring of their words."""
    first = forest.first_member[node - n - 1]
    forest.first_member[node - n] = first + top - bottom
    forest.word_of[node] = forest.word_of[forest.path[bottom]]
    forest.outer[node] = 0
    for i in range(bottom, top):
        c = forest.path[i]
        forest.members[first + i - bottom] = c
        forest.state[c] = NODE_INNER
        forest.outer[c] = node
        if i > bottom:  # swapping the successors of two words makes one ring of two
            u, w = forest.word_of[node], forest.word_of[c]
            forest.next_word[u], forest.next_word[w] = forest.next_word[w], forest.next_word[u]


@numba.njit(**HELPER)
def _enclose(node, n, root_last, forest):
    """Hide the arcs inside a contracted cycle, and choose the best arc that enters it."""
    u = forest.word_of[node]
    while forest.node_of[u] != node:
        forest.node_of[u] = node
        forest.weight[node - n - 1, u] = -np.inf
        u = forest.next_word[u]
    forest.source[node] = best_source(forest.weight, node - n - 1, n, root_last)
    forest.best[node] = forest.weight[node - n - 1, forest.source[node]]
    forest.state[node] = NODE_OPEN


@numba.njit(**HELPER)
def expand(n, before, modifier_offsets, head, score, free, forest, tree):
    """Write the heads of all words: the arc into a node replaces those chosen for what it enters inside the node."""
    for outermost in range(free - 1, 0, -1):
        if forest.state[outermost] != NODE_REPLACED:
            h = np.int64(forest.source[outermost])
            node = np.int64(outermost)
            while node > n:
                i = forest.first_member[node - n - 1]
                while True:  # weight(h, c) - best(c) = weight(h, C)
                    c = forest.members[i]
                    value = _weight(h, c, n, before, modifier_offsets, head, score, forest.weight)
                    if value - forest.best[c] == forest.weight[node - n - 1, h]:
                        break
                    i += 1
                forest.state[c] = NODE_REPLACED
                node = np.int64(c)
            tree[node] = h


@numba.njit(**HELPER)
def best_arc(bits, start, end):
    """Index of the best of the arcs start..end - 1, the first of equals, by the bits of their float32 scores.

    Bits with the lower 31 flipped where negative are in the order of the scores. With the place packed below them, the
    largest key is both maximum and place, and a maximum of integers runs in SIMD, as one of floats does not.
    """
    largest = np.int64(-(2**63))
    first = np.uint64(start)
    for place in range(end - start):
        key = bits[first + np.uint64(place)]
        key ^= (key >> np.int32(31)) & np.int32(0x7FFFFFFF)
        largest = max(largest, (np.int64(key) << 32) - place)
    return start + (-largest & 0xFFFFFFFF)


@numba.njit(**HELPER)
def _weigh(node, n, before, modifier_offsets, head, score, forest):
    """Weigh the arcs into a contracted cycle: weight(u, C) = max_{c in C} weight(u, c) - best(c)."""
    one = np.uint64(1)
    weight = forest.weight
    row = node - n - 1
    for u in range(n + 1):
        weight[row, u] = -np.inf
    for i in range(forest.first_member[row], forest.first_member[row + 1]):
        c = forest.members[i]
        chosen = forest.best[c]
        if c > n:
            for u in range(n + 1):
                weight[row, u] = _larger(weight[row, u], weight[c - n - 1, u] - chosen)
            continue
        start, end = np.uint64(modifier_offsets[before + c]), np.uint64(modifier_offsets[before + c + 1])
        if end - start == np.uint64(n):  # all words but c
            weight[row, 0] = _larger(weight[row, 0], score[start] - chosen)
            for u in range(one, np.uint64(n)):
                left, right = score[start + u], score[start + u - one]  # both, so that the choice needs no branch
                weight[row, u] = _larger(weight[row, u], (left if u < np.uint64(c) else right) - chosen)
            weight[row, n] = _larger(weight[row, n], score[end - one] - chosen)
        else:
            for k in range(start, end):
                h = np.uint64(head[k])
                weight[row, h] = _larger(weight[row, h], score[k] - chosen)


@numba.njit(**HELPER)
def _larger(a, b):
    return b if b > a else a  # one instruction in SIMD, as max is not: it would look for NaN


@numba.njit(**HELPER)
def best_source(weight, row, n, root_last):
    """Return the source of the best arc into a contracted cycle; with `root_last`, the root only as a last resort."""
    h = 0
    largest = -np.inf if root_last else weight[row, 0]
    for u in range(1, n + 1):
        if weight[row, u] > largest:
            largest = weight[row, u]
            h = u
    return h


@numba.njit(**HELPER)
def _weight(h, node, n, before, modifier_offsets, head, score, weight):
    """Weight of the best arc from word h into a node, -inf if there is none."""
    if node > n:
        return weight[node - n - 1, h]
    start, end = modifier_offsets[before + node], modifier_offsets[before + node + 1]
    if end - start == n:
        return np.float64(score[start + h - (h > node)])
    for k in range(start, end):
        if head[k] == h:
            return np.float64(score[k])
    return -np.inf
