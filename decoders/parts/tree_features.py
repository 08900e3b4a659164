"""Tree features: kinds of `Parts` that look at more than a few arcs.

The global features of Zhang, Lei, Barzilay and Jaakkola (2014), "Greed is Good if Randomized: New Inference for
Dependency Parsing", as tables of scores: where a feature counts something, each count or range of counts has an entry.
A word is below another if it is that word or its head is below it, and all words are below the root. The span of a word
goes from the first to the last word below it. With n words in a sentence:

| kind              | one block for each | entry                                                     | block |
|-------------------|--------------------|-----------------------------------------------------------|-------|
| `valency`         | word and side      | number of its modifiers: 0, 1, 2, 3, 4, 5+                | 6     |
| `span`            | word               | words of its span: 1, 2, 3, 4, 5-6, 7-10, 11-20, 21-40, + | 9     |
| `neighbours`      | word h             | position next to its span: 0..h - 1, then h + 1..n + 1     | n+1   |
| `crossing`        | arc (h, m)         | a word between h and m is not below h                     | 1     |
| `right_branching` | sentence           | tenth of its words that are on the last path              | 10    |
| `coordination`    | word               | ratio of conjuncts: 1/8, 1/4, 1/2, 1, 2, 4, 8             | 7     |

Only words have tree features, not the root, and no arc of the root crosses. A word fires two neighbours: the one left
of its span, of which 0 says that there is none, and the one right of it, where n + 1 does. The last path goes from the
root to its last modifier, from there to the last modifier of that, and so on; with l words on it, 0 < l <= n, the entry
is l / n in tenths, rounded up. `coordination` fires for a word c whose head h and grandparent g are words: where c is a
conjunction, it hangs from the second conjunct, h, and that from the first, g. Their ratio is the number of words below
g and not below h, over the number of those below h and not below c, rounded to a power of 2.

Trees with arcs that are no candidates are read without these: their words have no head, and nothing is below them but
what hangs from them. Where heads make a cycle, the words of the cycle and those below fire at most `valency`.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from arbora.decoders.kernels.options import HELPER, INNER, KERNEL

VALENCIES, SPANS, TENTHS, RATIOS = 6, 9, 10, 7


# Where each feature of a sentence is stored; w is the number of a word in the batch.


@numba.njit(**HELPER)
def valency_at(w, side, modifiers):
    """Entry of a word with some modifiers on a side."""
    return (2 * w + side) * VALENCIES + min(modifiers, VALENCIES - 1)


@numba.njit(**HELPER)
def span_at(w, size):
    """Entry of a word whose span has `size` words."""
    longer = (size > 1) + (size > 2) + (size > 3) + (size > 4) + (size > 6) + (size > 10) + (size > 20) + (size > 40)
    return w * SPANS + longer


@numba.njit(**HELPER)
def neighbour_at(start, n, h, position):
    """Entry of word h next to whose span is a position, 0..n + 1; the sentence's entries begin at `start`."""
    return start + (h - 1) * (n + 1) + position - (position > h)


@numba.njit(**HELPER)
def right_branching_at(b, n, path):
    """Entry of sentence b of n words whose last path has `path` words, at least one."""
    return b * TENTHS + (TENTHS * path - 1) // n


@numba.njit(**HELPER)
def coordination_at(w, one, two):
    """Entry of a word between conjuncts of two sizes. Rounding log2(one / two) is comparing squares, free of errors."""
    a, b = one * one, two * two
    more = (a > 2 * b) + (a > 8 * b) + (a > 32 * b)
    less = (b > 2 * a) + (b > 8 * a) + (b > 32 * a)
    return w * RATIOS + 3 + more - less


# Which features fire. Each kernel takes and fills what those of `layout` do.


class _Tree(NamedTuple):
    """A tree of up to N - 1 words, by position."""

    head: NDArray[np.int64]  # (N,) -1 for none
    last: NDArray[np.int64]  # (N,) last modifier of each word, 0 for none ...
    previous: NDArray[np.int64]  # (N,) ... and the one before it
    order: NDArray[np.int64]  # (N,) words, each before those below it
    number: NDArray[np.int64]  # (N,) place of each word in the order; right after it come those below it
    size: NDArray[np.int64]  # (N,) number of words below each word, 0 where heads lead into a cycle
    start: NDArray[np.int64]  # (N,) first word below
    end: NDArray[np.int64]  # (N,) last word below


@numba.njit(**KERNEL)
def _room(layout):
    N = layout.lengths.max() + 1 if len(layout.lengths) else 1
    room = np.empty((8, N), np.int64)
    return _Tree(room[0], room[1], room[2], room[3], room[4], room[5], room[6], room[7])


@numba.njit(**INNER)
def _grow(layout, arcs, b, tree):
    """Set up the tree of sentence b. O(n)."""
    first = layout.word_offsets[b] - 1
    n = layout.lengths[b]
    for m in range(n + 1):
        k = arcs[first + m] if m > 0 else -1
        tree.head[m] = layout.head[k] if k >= 0 else -1
        tree.last[m] = tree.size[m] = 0
    for m in range(1, n + 1):
        h = tree.head[m]
        if h >= 0:
            tree.previous[m] = tree.last[h]
            tree.last[h] = m
    found = 0
    for top in range(1, n + 1):
        if tree.head[top] > 0:
            continue
        m = top
        while True:
            tree.order[found] = m
            tree.number[m] = found
            tree.size[m] = 1
            tree.start[m] = tree.end[m] = m
            found += 1
            if tree.last[m] > 0:
                m = tree.last[m]
                continue
            while m != top and tree.previous[m] == 0:
                m = tree.head[m]
            if m == top:
                break
            m = tree.previous[m]
    for i in range(found - 1, -1, -1):
        m = tree.order[i]
        h = tree.head[m]
        if h > 0:
            tree.size[h] += tree.size[m]
            tree.start[h] = min(tree.start[h], tree.start[m])
            tree.end[h] = max(tree.end[h], tree.end[m])


@numba.njit(**KERNEL)
def active_valencies(layout, arcs, entries, entry_offsets):
    """One entry for each side of a word. entries (2W,)."""
    e = 0
    for b in range(len(layout.lengths)):
        first = layout.word_offsets[b] - 1
        for h in range(1, layout.lengths[b] + 1):
            for right in range(2):
                side = 2 * (layout.word_offsets[b] + b + h) + right
                modifiers = 0
                for place in range(layout.side_offsets[side], layout.side_offsets[side + 1]):
                    k = layout.outward[place]
                    modifiers += arcs[first + layout.modifier[k]] == k
                entries[e] = valency_at(first + h, right, modifiers)
                e += 1
        entry_offsets[b + 1] = e


@numba.njit(**KERNEL)
def active_spans(layout, arcs, entries, entry_offsets):
    """One entry for each word. entries (W,)."""
    e = 0
    tree = _room(layout)
    for b in range(len(layout.lengths)):
        _grow(layout, arcs, b, tree)
        for m in range(1, layout.lengths[b] + 1):
            if tree.size[m] > 0:
                entries[e] = span_at(layout.word_offsets[b] + m - 1, tree.end[m] - tree.start[m] + 1)
                e += 1
        entry_offsets[b + 1] = e


@numba.njit(**KERNEL)
def active_neighbours(layout, wide, arcs, entries, entry_offsets):
    """Two entries for each word. entries (2W,)."""
    e = 0
    tree = _room(layout)
    for b in range(len(layout.lengths)):
        n = layout.lengths[b]
        start = wide.neighbours_offsets[b]
        _grow(layout, arcs, b, tree)
        for m in range(1, n + 1):
            if tree.size[m] > 0:
                entries[e] = neighbour_at(start, n, m, tree.start[m] - 1)
                entries[e + 1] = neighbour_at(start, n, m, tree.end[m] + 1)
                e += 2
        entry_offsets[b + 1] = e


@numba.njit(**KERNEL)
def active_crossings(layout, arcs, entries, entry_offsets):
    """One entry for each arc of the tree that crosses. entries (W,)."""
    e = 0
    tree = _room(layout)
    for b in range(len(layout.lengths)):
        _grow(layout, arcs, b, tree)
        for m in range(1, layout.lengths[b] + 1):
            h = tree.head[m]
            if h <= 0 or tree.size[m] == 0:
                continue
            for between in range(min(h, m) + 1, max(h, m)):
                place = tree.number[between] - tree.number[h]
                if tree.size[between] == 0 or place < 0 or place >= tree.size[h]:
                    entries[e] = arcs[layout.word_offsets[b] + m - 1]
                    e += 1
                    break
        entry_offsets[b + 1] = e


@numba.njit(**KERNEL)
def active_right_branching(layout, arcs, entries, entry_offsets):
    """One entry for each sentence, unless the root has no modifier. entries (B,)."""
    e = 0
    tree = _room(layout)
    for b in range(len(layout.lengths)):
        _grow(layout, arcs, b, tree)
        path = 0
        m = tree.last[0]
        while m > 0:
            path += 1
            m = tree.last[m]
        if path > 0:
            entries[e] = right_branching_at(b, layout.lengths[b], path)
            e += 1
        entry_offsets[b + 1] = e


@numba.njit(**KERNEL)
def active_coordinations(layout, arcs, entries, entry_offsets):
    """One entry for each word whose head and grandparent are words. entries (W,)."""
    e = 0
    tree = _room(layout)
    for b in range(len(layout.lengths)):
        _grow(layout, arcs, b, tree)
        for c in range(1, layout.lengths[b] + 1):
            h = tree.head[c]
            g = tree.head[h] if h > 0 else 0
            if g > 0 and tree.size[c] > 0:
                one, two = tree.size[g] - tree.size[h], tree.size[h] - tree.size[c]
                entries[e] = coordination_at(layout.word_offsets[b] + c - 1, one, two)
                e += 1
        entry_offsets[b + 1] = e
