"""Trees that extend a forest of the greedy search, so that it never ends without one.

Each state of the beam keeps a witness, a tree of arcs that are in T or G. An arc of the witness can always be added.
For another arc the witness is changed in place if that leaves a tree; otherwise a new one is searched, in O(n K).
"""

import numba
import numpy as np

from arbora.decoders.greedy.state import (
    ARC_HEAD,
    ARC_MODIFIER,
    ARC_OUTWARD,
    DEAD,
    FOREST_WITNESS,
    MARK_QUEUE,
    MARK_SEEN,
    TAKEN,
)
from arbora.decoders.kernels.options import CALLED, HELPER


@numba.njit(**HELPER)
def fits(single_root, arcs, witness, e):
    """Return whether the witness is a tree with arc e in place of its own."""
    u, v = np.int64(arcs[ARC_HEAD, e]), np.int64(arcs[ARC_MODIFIER, e])
    is_tree = witness[v] == e
    if not is_tree and (not single_root or (u != 0 and witness[0] != v)):
        x = u
        while x != 0 and x != v:
            x = np.int64(arcs[ARC_HEAD, witness[x]])
        is_tree = x == 0
    return is_tree


@numba.njit(**CALLED)
def completes(n, e, single_root, sentence, forest, scratch, s, found):
    """Return whether state s can become a tree, with arc e added unless e is -1. Writes such a tree to `found`.

    There is a tree exactly if every word can be reached over the arcs that are left: those of T, and of G into words
    without a head.
    """
    start, side, arcs, arc = sentence.start, sentence.side, sentence.arcs, sentence.arc
    states, marks = forest.state, scratch.marks
    once = np.int64(0)
    u, v, root = np.int64(-1), np.int64(0), np.int64(0)
    if e >= 0:
        u, v = np.int64(arcs[ARC_HEAD, e]), np.int64(arcs[ARC_MODIFIER, e])
        root = v if single_root and u == 0 else np.int64(forest.words[s, FOREST_WITNESS, 0])
    elif side[1] < side[2]:  # a guess, which is mostly right
        root = np.int64(arcs[ARC_MODIFIER, arcs[ARC_OUTWARD, side[1]]])
    # Three ways to a tree, tried in this order: all words are reached from the root; from the only modifier that it may
    # have, or has in the witness; or from some other word (a mother vertex). If there is one, it is the last word from
    # which a search over all words that are not yet reached starts, and every word that reaches it will do, too.
    if not single_root:
        return _reach(n, np.int64(0), e, once, sentence, forest, scratch, s, found) == n
    if root > 0 and (root != v or u == 0):
        found[0], found[root] = root, arc[0, root]
        if _reach(n, root, e, once, sentence, forest, scratch, s, found) == n:
            return True
        if root == v or states[s, arc[0, root]] == TAKEN:
            return False
    mother = np.int64(0)
    for m in range(1, n + 1):
        if m == 1 or marks[MARK_SEEN, m] == 0:
            mother = np.int64(m)
            _reach(n, m, e, np.int64(m > 1), sentence, forest, scratch, s, found)
    if _reach(n, mother, e, once, sentence, forest, scratch, s, found) < n:
        return False
    for m in range(1, n + 1):
        marks[MARK_SEEN, m] = m == mother
    marks[MARK_QUEUE, 0] = mother
    first, end = 0, 1
    while first < end:
        w = np.int64(marks[MARK_QUEUE, first])
        first += 1
        if w != v and states[s, arc[0, w]] != DEAD:
            found[0], found[w] = w, arc[0, w]
            _reach(n, w, e, once, sentence, forest, scratch, s, found)
            return True
        for k in range(start[w], start[w + 1]):
            h = arcs[ARC_HEAD, k]
            if h > 0 and states[s, k] != DEAD and marks[MARK_SEEN, h] == 0 and (w != v or k == e):
                marks[MARK_SEEN, h] = 1
                marks[MARK_QUEUE, end] = h
                end += 1
    return False


@numba.njit(**CALLED)
def _reach(n, source, e, more, sentence, forest, scratch, s, found):
    """Count the words that are reached from the source over arcs left; of those into the modifier of e, only over e.

    The arcs are written to `found`. With `more`, words that were reached before are not reached again.
    """
    side, arcs, states, marks = sentence.side, sentence.arcs, forest.state, scratch.marks
    v = np.int64(arcs[ARC_MODIFIER, e]) if e >= 0 else np.int64(0)
    if more == 0:
        for m in range(n + 1):
            marks[MARK_SEEN, m] = 0
    marks[MARK_SEEN, 0] = marks[MARK_SEEN, source] = 1
    marks[MARK_QUEUE, 0] = source
    first, end = 0, 1
    while first < end:
        h = marks[MARK_QUEUE, first]
        first += 1
        for place in range(side[2 * h], side[2 * h + 2]):
            k = arcs[ARC_OUTWARD, place]
            m = arcs[ARC_MODIFIER, k]
            if states[s, k] != DEAD and marks[MARK_SEEN, m] == 0 and (m != v or k == e):
                marks[MARK_SEEN, m] = 1
                found[m] = k
                marks[MARK_QUEUE, end] = m
                end += 1
    return end - (source == 0)
