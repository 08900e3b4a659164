"""Tree features: kinds of `Parts` that look at more than a few arcs, or at the tags of words.

The global features of Zhang, Lei, Barzilay and Jaakkola (2014), "Greed is Good if Randomized: New Inference for
Dependency Parsing", as their released system (RBGParser) computes them, in tables of scores. A word is below another if
it is that word or its head is below it. The span of a word goes from the first to the last word below it. Tags are
universal part-of-speech tags, which `Parts.tags` holds; T counts them with those for unknown tags and for positions
before and after the sentence. With n words in a sentence:

| kind              | one block for each | entry                                                           | block  |
|-------------------|--------------------|-----------------------------------------------------------------|--------|
| `valency`         | word               | numbers of its modifiers on the left and on the right: 0..4, 5+ | 36     |
| `span`            | word               | words of its span: 1..4, 5+; what follows the span              | 15     |
| `neighbours`      | arc                | tags of the words before and after the span of the modifier     | T T    |
| `crossing`        | arc                | words between its ends with heads outside: 1..5, 6-10, 11+      | 7      |
| `right_branching` | sentence           | words on the last path, 0..n                                    | n+1    |
| `coordination`    | conjunction        | its conjuncts                                                   | (n+1)² |
| `conjunct`        | conjunction        | a conjunct and the head of the coordination                     | (n+1)² |

`valency` does not count punctuation. What follows a span is another word, punctuation, or the end of the sentence. An
arc whose ends have no such words between them fires no `crossing`. The last path goes from the root to its last
modifier, from there to the last modifier of that, and so on, without punctuation. A conjunction c hangs from the second
conjunct h, on its right, and that from the first conjunct g, on its left, which may be the root; if g is a word, each
of the two fires a `conjunct` with the head of g.

Differs from the paper:
- Scores come from vectors of words, not from weights of tags, lemmas and words, so that a table needs no templates.
- RBGParser knows six styles of coordination; here it is that of Universal Dependencies. Attachment of prepositions,
  where these hang from nouns as in Universal Dependencies, is a grandparent, and a setting of the scorer of these.
- An arc with no word of another head between its ends fires nothing: the score of the arc says as much.
- Left out are the strings of the tags of a word's modifiers, which have no table, and brackets and quotes that share a
  head. The paper does not name the latter; of the former `any_sibling` and `tri_sibling` tell all but the longest.
- Universal tags are the coarse tags, and the position before a sentence has a tag of its own, not that of the root.

Trees with arcs that are no candidates are read without these: their words have no head, and nothing is below them but
what hangs from them. Where heads make a cycle, the words of the cycle and those below fire no `span` or `neighbours`.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from arbora.decoders.kernels.options import ALLOCATING, HELPER, KERNEL

TAGS = tuple("ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split())
"""Universal tags. The number of a tag is its place counted from 1; 0 is any other."""

TAG_NUMBERS = {tag: number for number, tag in enumerate(TAGS, 1)}
CONJUNCTION, PUNCTUATION = TAG_NUMBERS["CCONJ"], TAG_NUMBERS["PUNCT"]
BEFORE, AFTER = len(TAGS) + 1, len(TAGS) + 2
"""Tags of the positions before and after a sentence."""

VALENCIES, LENGTHS, TAILS, NEIGHBOURS, CROSSINGS = 6, 5, 3, len(TAGS) + 3, 7
INSIDE, BEFORE_PUNCTUATION, AT_END = 0, 1, 2
"""Classes of what follows a span."""


# Where each feature is stored; w is the number of a word in the batch, k of an arc.


@numba.njit(**HELPER)
def valency_at(w, left, right):
    """Entry of a word with some modifiers on the left and on the right."""
    return (w * VALENCIES + min(left, VALENCIES - 1)) * VALENCIES + min(right, VALENCIES - 1)


@numba.njit(**HELPER)
def span_at(w, size, tail):
    """Entry of a word whose span has `size` words, and what follows it."""
    return (w * LENGTHS + min(size, LENGTHS) - 1) * TAILS + tail


@numba.njit(**HELPER)
def neighbours_at(k, left, right):
    """Entry of an arc, by the tags next to the span of its modifier."""
    return (k * NEIGHBOURS + left) * NEIGHBOURS + right


@numba.njit(**HELPER)
def crossing_at(k, count):
    """Entry of an arc with so many words between its ends whose heads are outside, at least one."""
    return k * CROSSINGS + min(count, 5) + (count > 5) + (count > 10) - 1


@numba.njit(**HELPER)
def pair_at(start, n, i, j):
    """Entry of the positions i and j in a block of all pairs that begins at `start`."""
    return start + i * (n + 1) + j


@numba.njit(**HELPER)
def tags_around(tags, before, n, start, end):
    """Tags of the positions before and after a span; word m has the tag `tags[before + m]`."""
    left = np.int64(tags[before + start - 1]) if start > 1 else BEFORE
    right = np.int64(tags[before + end + 1]) if end < n else AFTER
    return left, right


@numba.njit(**HELPER)
def tail_of(right):
    """Return the class of what follows a span, from the tag after it."""
    return AT_END if right == AFTER else BEFORE_PUNCTUATION if right == PUNCTUATION else INSIDE


# Which features fire. Each kernel takes and fills what those of `layout` do.


class _Tree(NamedTuple):
    """A tree of up to N - 1 words, by position."""

    head: NDArray[np.int64]  # (N,) -1 for none
    last: NDArray[np.int64]  # (N,) last modifier of each word, 0 for none ...
    previous: NDArray[np.int64]  # (N,) ... and the one before it
    order: NDArray[np.int64]  # (N,) words, each before those below it
    start: NDArray[np.int64]  # (N,) first word below, 0 where heads lead into a cycle
    end: NDArray[np.int64]  # (N,) last word below


@numba.njit(**ALLOCATING)
def _room(layout):
    N = layout.lengths.max() + 1 if len(layout.lengths) else 1
    room = np.empty((6, N), np.int64)
    return _Tree(room[0], room[1], room[2], room[3], room[4], room[5])


@numba.njit(**HELPER)
def _read_heads(layout, arcs, b, head):
    """Set the head of each word of sentence b, -1 where its arc is no candidate."""
    first = layout.word_offsets[b] - 1
    head[0] = -1
    for m in range(1, layout.lengths[b] + 1):
        k = arcs[first + m]
        head[m] = layout.head[k] if k >= 0 else -1


@numba.njit(**HELPER)
def _find_spans(layout, arcs, b, tree):
    """Set up the tree of sentence b. O(n)."""
    n = layout.lengths[b]
    _read_heads(layout, arcs, b, tree.head)
    for m in range(n + 1):
        tree.last[m] = tree.start[m] = 0
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
            tree.start[h] = min(tree.start[h], tree.start[m])
            tree.end[h] = max(tree.end[h], tree.end[m])


@numba.njit(**KERNEL)
def active_valencies(layout, wide, arcs, entries, entry_offsets):
    """One entry for each word. entries (W,)."""
    e = 0
    tree = _room(layout)
    left, right = tree.start, tree.end
    for b in range(len(layout.lengths)):
        n, first = layout.lengths[b], layout.word_offsets[b] - 1
        _read_heads(layout, arcs, b, tree.head)
        left[: n + 1] = right[: n + 1] = 0
        for m in range(1, n + 1):
            h = tree.head[m]
            if h > 0 and wide.tags[first + m] != PUNCTUATION:
                left[h] += m < h
                right[h] += m > h
        for h in range(1, n + 1):
            entries[e] = valency_at(first + h, left[h], right[h])
            e += 1
        entry_offsets[b + 1] = e


@numba.njit(**KERNEL)
def active_spans(layout, wide, arcs, entries, entry_offsets):
    """One entry for each word. entries (W,)."""
    e = 0
    tree = _room(layout)
    for b in range(len(layout.lengths)):
        n, first = layout.lengths[b], layout.word_offsets[b] - 1
        _find_spans(layout, arcs, b, tree)
        for m in range(1, n + 1):
            if tree.start[m] > 0:
                _, right = tags_around(wide.tags, first, n, tree.start[m], tree.end[m])
                entries[e] = span_at(first + m, tree.end[m] - tree.start[m] + 1, tail_of(right))
                e += 1
        entry_offsets[b + 1] = e


@numba.njit(**KERNEL)
def active_neighbours(layout, wide, arcs, entries, entry_offsets):
    """One entry for each arc of the tree. entries (W,)."""
    e = 0
    tree = _room(layout)
    for b in range(len(layout.lengths)):
        n, first = layout.lengths[b], layout.word_offsets[b] - 1
        _find_spans(layout, arcs, b, tree)
        for m in range(1, n + 1):
            if tree.start[m] > 0 and tree.head[m] >= 0:
                left, right = tags_around(wide.tags, first, n, tree.start[m], tree.end[m])
                entries[e] = neighbours_at(arcs[first + m], left, right)
                e += 1
        entry_offsets[b + 1] = e


@numba.njit(**KERNEL)
def active_crossings(layout, arcs, entries, entry_offsets):
    """One entry for each arc of the tree that has words with heads outside between its ends. entries (W,)."""
    e = 0
    head = _room(layout).head
    for b in range(len(layout.lengths)):
        first = layout.word_offsets[b] - 1
        _read_heads(layout, arcs, b, head)
        for m in range(1, layout.lengths[b] + 1):
            low, high = min(head[m], m), max(head[m], m)
            count = 0
            if head[m] >= 0:
                for between in range(low + 1, high):
                    count += head[between] >= 0 and (head[between] < low or head[between] > high)
            if count > 0:
                entries[e] = crossing_at(arcs[first + m], count)
                e += 1
        entry_offsets[b + 1] = e


@numba.njit(**KERNEL)
def active_right_branching(layout, wide, arcs, entries, entry_offsets):
    """One entry for each sentence. entries (B,)."""
    tree = _room(layout)
    for b in range(len(layout.lengths)):
        n, first = layout.lengths[b], layout.word_offsets[b] - 1
        _read_heads(layout, arcs, b, tree.head)
        tree.last[: n + 1] = 0
        for m in range(1, n + 1):
            if tree.head[m] >= 0 and wide.tags[first + m] != PUNCTUATION:
                tree.last[tree.head[m]] = m
        path = 0
        m = tree.last[0]
        while m > 0:
            path += 1
            m = tree.last[m]
        entries[b] = layout.word_offsets[b] + b + path
        entry_offsets[b + 1] = b + 1


@numba.njit(**KERNEL)
def active_coordinations(layout, wide, arcs, conjuncts, entries, entry_offsets):
    """One entry for each conjunction between its conjuncts, or two for `conjunct`. entries (2W,)."""
    e = 0
    head = _room(layout).head
    for b in range(len(layout.lengths)):
        n, first = layout.lengths[b], layout.word_offsets[b] - 1
        _read_heads(layout, arcs, b, head)
        for c in range(1, n + 1):
            h = head[c]
            if wide.tags[first + c] != CONJUNCTION or h < c or head[h] < 0 or head[h] > c:
                continue
            g = head[h]
            if not conjuncts:
                entries[e] = pair_at(wide.coordination_offsets[first + c], n, h, g)
                e += 1
            elif g > 0 and head[g] >= 0:
                entries[e] = pair_at(wide.conjunct_offsets[first + c], n, g, head[g])
                entries[e + 1] = pair_at(wide.conjunct_offsets[first + c], n, h, head[g])
                e += 2
        entry_offsets[b + 1] = e
