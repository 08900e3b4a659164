"""Exact first-order decoding over all trees, projective or not: maximum spanning arborescence.

Chu and Liu (1965) and Edmonds (1967), in the form of Tarjan (1977) for dense graphs; for parsing, McDonald et al.
(2005). Time and memory O(n^2) a sentence, in both root modes.

Differs from the papers:
- The source of an arc stays a word: contracting a cycle merges rows of incoming arcs and no columns. Every inner loop
  runs over contiguous memory, and the arc that enters a contracted cycle is known without a search.
- A row is written out only when its word is on a cycle. Where the best heads make a tree at once, that is all.
- A single root is enforced by an infinite penalty on the root's arcs, kept symbolic. An arc of the root lies on no
  cycle, so contraction never mixes the penalty with scores, and it comes to one rule: the root is chosen only by a node
  that has no other arc left. Exact at any magnitude of scores, and O(n^2), where trying all roots is O(n^3). What was
  contracted while the root was free stays valid, since an arc that is the best beside the root's is the best without.
"""

from dataclasses import dataclass

import numba
import numpy as np

from arbora.decoders.parts import Parts
from arbora.decoders.threads import over_sentences
from arbora.decoders.trees import Decoder, Trees

SEVERAL_ROOTS = -1
FRESH, OPEN, DONE, REPLACED = 0, 1, 2, 3


@dataclass(frozen=True)
class MST(Decoder):
    """Best tree under arc scores, crossing arcs allowed (Chu-Liu-Edmonds).

    Args:
        single_root: allow exactly one modifier of the root.
    """

    single_root: bool = True

    def __call__(self, parts: Parts) -> Trees:
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
            3.0 * np.diff(parts.sentence_offsets),
        )
        for b in np.flatnonzero(status)[:1]:
            m = int(status[b])
            w = parts.word_offsets[b] + m - 1
            if m == SEVERAL_ROOTS:
                reason = "no tree with a single root"
            elif parts.modifier_offsets[w] == parts.modifier_offsets[w + 1]:
                reason = f"no tree: word {m} has no candidate head"
            else:
                reason = f"no tree: no candidate arcs lead from the root to word {m}"
            raise ValueError(f"sentence {b}: {reason}")
        return Trees.exact(parts, heads)


@numba.njit(cache=True, nogil=True)
def _decode(sentences, lengths, word_offsets, modifier_offsets, head, score, bits, single_root, heads, status):
    """Fill heads[b] for each sentence; status[b] is 0, a word that the root does not reach, or SEVERAL_ROOTS."""
    size = 1
    for b in sentences:
        size = max(size, lengths[b] + 1)
    # Nodes: 0 is the root, 1..n are words, from n + 1 on contracted cycles, which take over the row of a member.
    weight = np.empty((size, size))  # [row, u]: of the best arc from word u into the row's node
    entered = np.empty((size, size), np.int32)  # [row, u]: the word which that arc enters
    row = np.empty(2 * size, np.int32)  # row of a node
    best = np.empty(2 * size)  # weight of the arc chosen for a node ...
    source = np.empty(2 * size, np.int32)  # ... the word where it starts ...
    target = np.empty(2 * size, np.int32)  # ... and the word of the node that it enters
    cycle = np.empty(2 * size, np.int32)  # the contracted cycle that a node lies on, 0 if none
    state = np.empty(2 * size, np.int8)
    node_of = np.empty(size, np.int32)  # outermost node that holds a word
    path = np.empty(size, np.int32)

    for b in sentences:
        n = lengths[b]
        offsets = modifier_offsets[word_offsets[b] : word_offsets[b] + n + 1]
        node_of[0] = 0
        state[0] = DONE
        cycle[0] = 0
        for m in range(1, n + 1):
            start, end = offsets[m - 1], offsets[m]
            if start == end:
                status[b] = m
                break
            k = _best_arc(bits, start, end)
            best[m], source[m], target[m] = score[k], head[k], m
            row[m] = m
            cycle[m] = 0
            state[m] = FRESH
            node_of[m] = m
        if status[b] != 0:
            continue

        free = n + 1
        root_last = False
        while True:
            # Follow the chosen arcs from each word back to the root, contracting every cycle met on the way.
            for v in range(1, n + 1):
                node = node_of[v]
                top = 0
                while state[node] != DONE:
                    if state[node] == FRESH:
                        state[node] = OPEN
                        path[top] = node
                        top += 1
                    else:
                        bottom = top - 1
                        while path[bottom] != node:
                            bottom -= 1
                        _contract(
                            path[bottom:top], free, n, offsets, head, score, weight, entered, row, best, cycle, node_of
                        )
                        node = free
                        free += 1
                        _choose(node, n, root_last, weight, entered, row, best, source, target)
                        if best[node] == -np.inf:
                            status[b] = target[node]
                            break
                        state[node] = OPEN
                        path[bottom] = node
                        top = bottom + 1
                    node = node_of[source[node]]
                if status[b] != 0:
                    break
                for i in range(top):
                    state[path[i]] = DONE
            if status[b] != 0 or not single_root:
                break

            roots = 0
            for node in range(1, free):
                roots += cycle[node] == 0 and source[node] == 0
            if roots == 1:
                break
            if root_last:
                status[b] = SEVERAL_ROOTS
                break
            root_last = True
            for node in range(1, free):
                if cycle[node] == 0:
                    state[node] = FRESH
                    if source[node] == 0 and node > n:
                        _choose(node, n, root_last, weight, entered, row, best, source, target)
                    elif source[node] == 0 and offsets[node] - offsets[node - 1] > 1:
                        start = offsets[node - 1] + 1
                        k = _best_arc(bits, start, offsets[node])
                        best[node], source[node] = score[k], head[k]
        if status[b] != 0:
            continue

        # Expand, the outermost first: the arc into a node replaces those chosen for what it enters inside the node.
        for node in range(free - 1, 0, -1):
            if state[node] != REPLACED:
                m = target[node]
                heads[b, m] = source[node]
                while m != node:
                    state[m] = REPLACED
                    m = cycle[m]


@numba.njit(cache=True, nogil=True)
def _best_arc(bits, start, end):
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


@numba.njit(cache=True, nogil=True)
def _contract(members, node, n, offsets, head, score, weight, entered, row, best, cycle, node_of):
    """Make one node of a cycle: weight(u, C) = max_{c in C} weight(u, c) - best(c)."""
    kept = row[node] = row[members[0]]
    cycle[node] = 0
    for i in range(len(members)):
        c = members[i]
        r = row[c]
        chosen = best[c]
        cycle[c] = node
        if c <= n:
            for u in range(n + 1):
                weight[r, u] = -np.inf
                entered[r, u] = c
            for k in range(np.uint64(offsets[c - 1]), np.uint64(offsets[c])):
                weight[r, np.uint64(head[k])] = score[k]
        if i == 0:
            for u in range(n + 1):
                weight[kept, u] -= chosen
        else:
            for u in range(n + 1):
                candidate = weight[r, u] - chosen
                better = candidate > weight[kept, u]
                weight[kept, u] = candidate if better else weight[kept, u]
                entered[kept, u] = entered[r, u] if better else entered[kept, u]
    for u in range(1, n + 1):
        if cycle[node_of[u]] == node:
            node_of[u] = node
            weight[kept, u] = -np.inf


@numba.njit(cache=True, nogil=True)
def _choose(node, n, root_last, weight, entered, row, best, source, target):
    """Choose the best arc into a contracted cycle; the root's only if it is the best or, with `root_last`, the last."""
    r = row[node]
    h = 0
    largest = -np.inf if root_last else weight[r, 0]
    for u in range(1, n + 1):
        if weight[r, u] > largest:
            largest = weight[r, u]
            h = u
    best[node] = weight[r, h]
    source[node] = h
    target[node] = entered[r, h]
