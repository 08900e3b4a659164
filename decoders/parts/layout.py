"""Layout of the flat arrays of `Parts`: the place of each part, and the parts that fire in a tree.

The candidate arcs say which parts there are, so no part lists its arcs: an address is computed in O(1), and whatever
walks the parts of an arc walks a slice. With K candidate heads per word and J candidate modifiers on one side of a
head, arcs numbered by (modifier, head) and the modifiers of a side 1..J outward, 0 for START and J+1 for END:

| kind            | one block for each            | entry                              | size of the block |
|-----------------|-------------------------------|------------------------------------|-------------------|
| `grandparent`   | arc (h, m), h not the root    | incoming arc of h                  | K                 |
| `sibling`       | side of a head                | pair i < j, triangular             | (J+1)(J+2)/2      |
| `any_sibling`   | head, left side before right  | pair i < j, triangular             | J(J-1)/2          |
| `head_bigram`   | word m >= 2                   | arc into m - 1, arc into m         | K K               |
| `grand_sibling` | arc (g, h) and side of h      | as `sibling`                       | (J+1)(J+2)/2      |
| `tri_sibling`   | side of a head                | triple a < b < c, 1 <= b <= J      | J(J+1)(J+2)/6     |

A side without modifiers fires `sibling(START, END)`. The root has no left side, no grandparent and no grand-sibling. A
few entries fire in no tree, those of two arcs that make a cycle (g is m in a grandparent, g is one of the siblings in a
grand-sibling, two neighbours that head each other in a head bigram): a decoder that looks at single parts skips them.

These are in `Layout`. `Wide` holds the kinds that only some decoders search by: tree features, of which
`tree_features` has the table, and parts of third order that are built on those of second order. D is the number of
candidate modifiers of a word, on both sides:

| kind                       | one block for each                    | entry                 | size of the block |
|----------------------------|---------------------------------------|-----------------------|-------------------|
| `grand_grandparent`        | grandparent (g, h, m), g not the root | incoming arc of g     | K                 |
| `inner_sibling_grandchild` | sibling of two words                  | modifier of the inner | D                 |
| `outer_sibling_grandchild` | sibling of two words                  | modifier of the outer | D                 |

Blocks are in the order of the parts that they are built on, the modifiers of a word in that of `outward`. So the blocks
of an arc (h, m) are, one after the other, the entries of `grandparent` whose modifier is h, and those of an inner
sibling follow each other. The grandchild of a part that fires is neither the head nor the other sibling.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from arbora.decoders.kernels.options import FILLING, HELPER, KERNEL

LEFT, RIGHT = 0, 1


class Layout(NamedTuple):
    """Arrays of `Parts` for kernels: arcs, addresses and scores. Arrays of missing kinds are empty.

    Nodes are the root and the words of each sentence, sentence after sentence; a side is `2 * node + LEFT` or `RIGHT`.
    """

    lengths: NDArray[np.int32]  # (B,)
    word_offsets: NDArray[np.int64]  # (B+1,); node_offsets[b] is word_offsets[b] + b
    sentence_offsets: NDArray[np.int64]  # (B+1,) arcs of each sentence
    modifier_offsets: NDArray[np.int64]  # (W+1,) arcs into each word
    head: NDArray[np.int32]  # (A,)
    modifier: NDArray[np.int32]  # (A,)
    outward: NDArray[np.int32]  # (A,) arcs sorted by (sentence, head, side, distance)
    side_offsets: NDArray[np.int64]  # (2(W+B)+1,) those of each side in `outward`
    rank: NDArray[np.int32]  # (A,) place of each arc on its side, 1..J
    grandparent_offsets: NDArray[np.int64]  # (A+1,)
    sibling_offsets: NDArray[np.int64]  # (2(W+B)+1,)
    any_sibling_offsets: NDArray[np.int64]  # (W+B+1,)
    head_bigram_offsets: NDArray[np.int64]  # (W+1,)
    grand_sibling_offsets: NDArray[np.int64]  # (2A+1,), by `2 * arc + side`
    tri_sibling_offsets: NDArray[np.int64]  # (2(W+B)+1,)
    arc_score: NDArray[np.float32]  # (A,)
    grandparent: NDArray[np.float32]
    sibling: NDArray[np.float32]
    any_sibling: NDArray[np.float32]
    head_bigram: NDArray[np.float32]
    grand_sibling: NDArray[np.float32]
    tri_sibling: NDArray[np.float32]


class Wide(NamedTuple):
    """Arrays for kernels of the kinds that are not in `Layout`. Arrays of missing kinds are empty.

    Offsets of siblings with a grandchild are by the place in `outward` of the arc to the inner sibling, and hold where
    the blocks start of which it is the inner one.
    """

    grand_grandparent_offsets: NDArray[np.int64]  # (A+1,) by arc (h, m)
    inner_sibling_grandchild_offsets: NDArray[np.int64]  # (A+1,)
    outer_sibling_grandchild_offsets: NDArray[np.int64]  # (A+1,)
    grandchild_offsets: NDArray[np.int64]  # (A+1,) sums of D over the modifiers of the arcs in `outward`
    coordination_offsets: NDArray[np.int64]  # (W+1,)
    conjunct_offsets: NDArray[np.int64]  # (W+1,)
    tags: NDArray[np.uint8]  # (W,)
    grand_grandparent: NDArray[np.float32]
    inner_sibling_grandchild: NDArray[np.float32]
    outer_sibling_grandchild: NDArray[np.float32]
    valency: NDArray[np.float32]
    span: NDArray[np.float32]
    neighbours: NDArray[np.float32]
    crossing: NDArray[np.float32]
    right_branching: NDArray[np.float32]
    coordination: NDArray[np.float32]
    conjunct: NDArray[np.float32]


@numba.njit(**HELPER)
def sibling_at(J, i, j):
    """Entry of the siblings i < j among J modifiers of a side, 0 for START and J + 1 for END."""
    return i * (J + 1) - i * (i - 1) // 2 + j - i - 1


@numba.njit(**HELPER)
def any_sibling_at(J, i, j):
    """Entry of the modifiers i < j, counted from 0, among J modifiers of a head."""
    return i * (J - 1) - i * (i - 1) // 2 + j - i - 1


@numba.njit(**HELPER)
def tri_sibling_at(J, a, b, c):
    """Entry of the siblings a < b < c among J modifiers of a side, where b is none of START and END."""
    return (J + 1) * b * (b - 1) // 2 - (b - 1) * b * (2 * b - 1) // 6 + a * (J + 1 - b) + c - b - 1


@numba.njit(**HELPER)
def grand_grandparents_at(layout, wide, first, k, up):
    """Return the start of the entries whose last arcs are k, from h to m, and up, from g to h; g must be a word.

    Word m is word `first + m` of the batch.
    """
    before = layout.modifier_offsets[first + layout.modifier[up]]
    return wide.grand_grandparent_offsets[k] + layout.grandparent_offsets[up] - layout.grandparent_offsets[before]


@numba.njit(**HELPER)
def inner_grandchildren_at(wide, start, i, j):
    """Return the start of entries of siblings i < j of a side and a modifier of i; the side's arcs start at `start`."""
    place = start + i - 1
    D = wide.grandchild_offsets[place + 1] - wide.grandchild_offsets[place]
    return wide.inner_sibling_grandchild_offsets[place] + (j - i - 1) * D


@numba.njit(**HELPER)
def outer_grandchildren_at(wide, start, i, j):
    """Return the start of entries of siblings i < j of a side and a modifier of j; the side's arcs start at `start`."""
    before = wide.grandchild_offsets[start + j - 1] - wide.grandchild_offsets[start + i]
    return wide.outer_sibling_grandchild_offsets[start + i - 1] + before


@numba.njit(**HELPER)
def find_arc(start, end, head, h, m, n):
    """Find the arc from h to m among start..end - 1, by bisection unless all heads are candidates; -1 if not there."""
    found = -1
    if end - start == n:
        if 0 <= h <= n and h != m:
            found = start + h - (h > m)
    else:
        low, high = start, end
        while low < high:
            middle = (low + high) // 2
            if head[middle] < h:
                low = middle + 1
            else:
                high = middle
        if low < end and head[low] == h:
            found = low
    return found


@numba.njit(**KERNEL)
def sort_outward(lengths, word_offsets, modifier_offsets, head, modifier, outward, side_offsets, rank):
    """Sort arcs by (sentence, head, side, distance). O(A)."""
    # Count, add up, then fill: arcs come by ascending modifier, which on the right is outward, on the left inward.
    for b in range(len(lengths)):
        node = word_offsets[b] + b
        for k in range(modifier_offsets[word_offsets[b]], modifier_offsets[word_offsets[b + 1]]):
            side_offsets[2 * (node + head[k]) + (modifier[k] > head[k]) + 1] += 1
    for side in range(len(side_offsets) - 1):
        side_offsets[side + 1] += side_offsets[side]
    filled = np.zeros(len(side_offsets) - 1, dtype=np.int32)
    for b in range(len(lengths)):
        node = word_offsets[b] + b
        for k in range(modifier_offsets[word_offsets[b]], modifier_offsets[word_offsets[b + 1]]):
            right = modifier[k] > head[k]
            side = 2 * (node + head[k]) + right
            J = np.int32(side_offsets[side + 1] - side_offsets[side])
            place = filled[side] if right else J - 1 - filled[side]
            filled[side] += 1
            outward[side_offsets[side] + place] = k
            rank[k] = place + 1


@numba.njit(**FILLING)
def add_by_head(word_offsets, sentence_offsets, head, counts, offsets):
    """Fill offsets (A+1,) with the sums of the counts of arcs' heads, 0 for the root, given those of words. O(A)."""
    total = 0
    offsets[0] = 0
    for b in range(len(word_offsets) - 1):
        first = word_offsets[b] - 1
        for k in range(sentence_offsets[b], sentence_offsets[b + 1]):
            if head[k] > 0:
                total += counts[first + head[k]]
            offsets[k + 1] = total


@numba.njit(**FILLING)
def find_blocks(lengths, word_offsets, modifier_offsets, head, side_offsets, offsets):
    """Fill in where the blocks of the kinds in `Layout` start, and where the last ends; all start with 0. O(A)."""
    grandparent, sibling, any_sibling, head_bigram, grand_sibling, tri_sibling = offsets
    for b in range(len(lengths)):
        first = word_offsets[b]
        root = first + b
        for node in range(root, root + lengths[b] + 1):
            D = side_offsets[2 * node + 2] - side_offsets[2 * node]
            any_sibling[node + 1] = any_sibling[node] + D * (D - 1) // 2
            for side in range(2 * node, 2 * node + 2):
                J = side_offsets[side + 1] - side_offsets[side]
                pairs = (J + 1) * (J + 2) // 2 if side != 2 * root else 0  # the root has no left side
                sibling[side + 1] = sibling[side] + pairs
                tri_sibling[side + 1] = tri_sibling[side] + J * pairs // 3
        before = 0
        for w in range(first, first + lengths[b]):
            side = 2 * (w + b + 1)
            left, right = sibling[side + 1] - sibling[side], sibling[side + 2] - sibling[side + 1]
            start, end = modifier_offsets[w], modifier_offsets[w + 1]
            head_bigram[w + 1] = head_bigram[w] + before * (end - start)
            before = end - start
            for k in range(start, end):
                above = first + head[k] - 1
                K = modifier_offsets[above + 1] - modifier_offsets[above] if head[k] > 0 else 0
                grandparent[k + 1] = grandparent[k] + K
                grand_sibling[2 * k + 1] = grand_sibling[2 * k] + left
                grand_sibling[2 * k + 2] = grand_sibling[2 * k + 1] + right


@numba.njit(**FILLING)
def find_tree_arcs(lengths, word_offsets, modifier_offsets, head, trees, arcs):
    """Find the arc from each word's head, -1 where it is no candidate. arcs (W,)."""
    for b in range(len(lengths)):
        for m in range(1, lengths[b] + 1):
            w = word_offsets[b] + m - 1
            arcs[w] = find_arc(modifier_offsets[w], modifier_offsets[w + 1], head, trees[b, m], m, lengths[b])


@numba.njit(**FILLING)
def add_up(score, entries, entry_offsets, totals):
    """Add the scores of each sentence's entries to its total, in float64."""
    for b in range(len(totals)):
        total = 0.0
        for e in range(entry_offsets[b], entry_offsets[b + 1]):
            total += score[entries[e]]
        totals[b] += total


# Which parts fire. Each kernel takes the arcs of one tree per sentence, as `find_tree_arcs` found them, writes the
# entries that fire in ascending order, and where those of each sentence end.


@numba.njit(**FILLING)
def active_grandparents(layout, arcs, entries, entry_offsets):
    """One entry for each word whose head is a word. entries (W,)."""
    e = 0
    for b in range(len(layout.lengths)):
        first = layout.word_offsets[b] - 1
        for m in range(1, layout.lengths[b] + 1):
            k = arcs[first + m]
            h = layout.head[k] if k >= 0 else 0
            if h > 0 and arcs[first + h] >= 0:
                entries[e] = layout.grandparent_offsets[k] + arcs[first + h] - layout.modifier_offsets[first + h]
                e += 1
        entry_offsets[b + 1] = e


@numba.njit(**FILLING)
def active_head_bigrams(layout, arcs, entries, entry_offsets):
    """One entry for each pair of neighbouring words. entries (W,)."""
    e = 0
    for b in range(len(layout.lengths)):
        for w in range(layout.word_offsets[b] + 1, layout.word_offsets[b + 1]):
            if arcs[w - 1] >= 0 and arcs[w] >= 0:
                K = layout.modifier_offsets[w + 1] - layout.modifier_offsets[w]
                i = arcs[w - 1] - layout.modifier_offsets[w - 1]
                entries[e] = layout.head_bigram_offsets[w] + i * K + arcs[w] - layout.modifier_offsets[w]
                e += 1
        entry_offsets[b + 1] = e


@numba.njit(**FILLING)
def active_siblings(layout, arcs, with_grandparent, entries, entry_offsets):
    """One entry for each pair of neighbours among START, the modifiers of a side, and END. entries (3W+B,).

    With a grandparent, entries of `grand_sibling`: the root's are left out, and those of words without a head.
    """
    e = 0
    for b in range(len(layout.lengths)):
        first = layout.word_offsets[b] - 1
        for h in range(layout.lengths[b] + 1):
            if with_grandparent and (h == 0 or arcs[first + h] < 0):
                continue
            for right in range(h == 0, 2):
                side = 2 * (first + 1 + b + h) + right
                start, J = layout.side_offsets[side], layout.side_offsets[side + 1] - layout.side_offsets[side]
                if with_grandparent:
                    block = layout.grand_sibling_offsets[2 * arcs[first + h] + right]
                else:
                    block = layout.sibling_offsets[side]
                i = 0
                for j in range(1, J + 1):
                    k = layout.outward[start + j - 1]
                    if arcs[first + layout.modifier[k]] == k:
                        entries[e] = block + sibling_at(J, i, j)
                        e += 1
                        i = j
                entries[e] = block + sibling_at(J, i, J + 1)
                e += 1
        entry_offsets[b + 1] = e


@numba.njit(**FILLING)
def active_tri_siblings(layout, arcs, entries, entry_offsets):
    """One entry for each word, with its neighbours on its side of its head, START and END included. entries (W,)."""
    e = 0
    for b in range(len(layout.lengths)):
        first = layout.word_offsets[b] - 1
        for side in range(2 * (first + 1 + b), 2 * (first + 2 + b + layout.lengths[b])):
            start, J = layout.side_offsets[side], layout.side_offsets[side + 1] - layout.side_offsets[side]
            before, i = 0, 0
            for j in range(1, J + 2):
                if j <= J:
                    k = layout.outward[start + j - 1]
                    if arcs[first + layout.modifier[k]] != k:
                        continue
                if i > 0:
                    entries[e] = layout.tri_sibling_offsets[side] + tri_sibling_at(J, before, i, j)
                    e += 1
                before, i = i, j
        entry_offsets[b + 1] = e


@numba.njit(**KERNEL)
def active_any_siblings(layout, arcs, entries, entry_offsets):
    """One entry for each pair of modifiers of a head. entries (n(n-1)/2,) for each sentence."""
    e = 0
    chosen = np.empty(layout.lengths.max() if len(layout.lengths) else 0, dtype=np.int64)
    for b in range(len(layout.lengths)):
        first = layout.word_offsets[b] - 1
        for node in range(first + 1 + b, first + 2 + b + layout.lengths[b]):
            start, end = layout.side_offsets[2 * node], layout.side_offsets[2 * node + 2]
            count = 0
            for place in range(end - start):
                k = layout.outward[start + place]
                if arcs[first + layout.modifier[k]] == k:
                    chosen[count] = place
                    count += 1
            for i in range(count):
                for j in range(i + 1, count):
                    entries[e] = layout.any_sibling_offsets[node]
                    entries[e] += any_sibling_at(end - start, chosen[i], chosen[j])
                    e += 1
        entry_offsets[b + 1] = e


@numba.njit(**FILLING)
def active_grand_grandparents(layout, wide, arcs, entries, entry_offsets):
    """One entry for each word that has three words above it. entries (W,)."""
    e = 0
    for b in range(len(layout.lengths)):
        first = layout.word_offsets[b] - 1
        for m in range(1, layout.lengths[b] + 1):
            k = arcs[first + m]
            h = layout.head[k] if k >= 0 else 0
            up = arcs[first + h] if h > 0 else -1
            g = layout.head[up] if up >= 0 else 0
            if g > 0 and arcs[first + g] >= 0:
                entries[e] = grand_grandparents_at(layout, wide, first, k, up)
                entries[e] += arcs[first + g] - layout.modifier_offsets[first + g]
                e += 1
        entry_offsets[b + 1] = e


@numba.njit(**FILLING)
def active_grandchildren(layout, wide, arcs, outer, entries, entry_offsets):
    """One entry for each modifier of a sibling that is the inner, or the outer, of two neighbours. entries (W,)."""
    e = 0
    for b in range(len(layout.lengths)):
        first = layout.word_offsets[b] - 1
        node = layout.word_offsets[b] + b
        for side in range(2 * node, 2 * (node + layout.lengths[b] + 1)):
            start, J = layout.side_offsets[side], layout.side_offsets[side + 1] - layout.side_offsets[side]
            i = 0
            for j in range(1, J + 1):
                k = layout.outward[start + j - 1]
                if arcs[first + layout.modifier[k]] != k:
                    continue
                if i > 0:
                    s = layout.modifier[layout.outward[start + (j if outer else i) - 1]]
                    if outer:
                        block = outer_grandchildren_at(wide, start, i, j)
                    else:
                        block = inner_grandchildren_at(wide, start, i, j)
                    down, end = layout.side_offsets[2 * (node + s)], layout.side_offsets[2 * (node + s) + 2]
                    for place in range(end - down):
                        c = layout.outward[down + place]
                        if arcs[first + layout.modifier[c]] == c:
                            entries[e] = block + place
                            e += 1
                i = j
        entry_offsets[b + 1] = e


# Where a scorer finds the score of each part. It multiplies a matrix of rows by a matrix of columns for each sentence.
# A row is an arc of the sentence or, behind the arcs, the END of a side (`arcs + 2 * h + side`); for kinds of four
# words it is an entry of `sibling`, or of `grandparent`. A column is a word, or START (`start + side`). An entry of
# sentence b then stands at `base[b] + row * stride + column`.


@numba.njit(**FILLING)
def grandparent_places(layout, sentences, base, stride, places):
    """Rows are arcs (h, m), columns g."""
    for b in sentences:
        for k in range(layout.sentence_offsets[b], layout.sentence_offsets[b + 1]):
            if layout.head[k] == 0:
                continue
            e = layout.grandparent_offsets[k]
            row = base[b] + (k - layout.sentence_offsets[b]) * stride
            w = layout.word_offsets[b] + layout.head[k] - 1
            for up in range(layout.modifier_offsets[w], layout.modifier_offsets[w + 1]):
                places[e] = row + layout.head[up]
                e += 1


@numba.njit(**FILLING)
def head_bigram_places(layout, sentences, base, stride, places):
    """Rows are arcs into m, columns the head of m - 1."""
    for b in sentences:
        for w in range(layout.word_offsets[b] + 1, layout.word_offsets[b + 1]):
            e = layout.head_bigram_offsets[w]
            for before in range(layout.modifier_offsets[w - 1], layout.modifier_offsets[w]):
                for k in range(layout.modifier_offsets[w], layout.modifier_offsets[w + 1]):
                    places[e] = base[b] + (k - layout.sentence_offsets[b]) * stride + layout.head[before]
                    e += 1


@numba.njit(**FILLING)
def sibling_places(layout, sentences, base, stride, start, places):
    """Rows are arcs to the outer sibling, or END; columns the inner sibling, or START."""
    for b in sentences:
        first_arc = layout.sentence_offsets[b]
        ends = layout.sentence_offsets[b + 1] - first_arc
        node = layout.word_offsets[b] + b
        for h in range(layout.lengths[b] + 1):
            for right in range(h == 0, 2):
                side = 2 * (node + h) + right
                offset, J = layout.side_offsets[side], layout.side_offsets[side + 1] - layout.side_offsets[side]
                e = layout.sibling_offsets[side]
                for i in range(J + 1):
                    column = base[b] + (layout.modifier[layout.outward[offset + i - 1]] if i > 0 else start + right)
                    for j in range(i + 1, J + 1):
                        places[e] = column + (layout.outward[offset + j - 1] - first_arc) * stride
                        e += 1
                    places[e] = column + (ends + 2 * h + right) * stride
                    e += 1


@numba.njit(**FILLING)
def any_sibling_places(layout, sentences, base, stride, places):
    """Rows are arcs to the second modifier, columns the first."""
    for b in sentences:
        for node in range(layout.word_offsets[b] + b, layout.word_offsets[b + 1] + b + 1):
            e = layout.any_sibling_offsets[node]
            start, end = layout.side_offsets[2 * node], layout.side_offsets[2 * node + 2]
            for i in range(start, end):
                column = base[b] + layout.modifier[layout.outward[i]]
                for j in range(i + 1, end):
                    places[e] = column + (layout.outward[j] - layout.sentence_offsets[b]) * stride
                    e += 1


@numba.njit(**FILLING)
def grand_sibling_places(layout, sentences, base, stride, places):
    """Rows are entries of `sibling`, columns g."""
    for b in sentences:
        node = layout.word_offsets[b] + b
        first_sibling = layout.sibling_offsets[2 * node]
        for k in range(layout.sentence_offsets[b], layout.sentence_offsets[b + 1]):
            for right in range(2):
                side = 2 * (node + layout.modifier[k]) + right
                e = layout.grand_sibling_offsets[2 * k + right]
                column = base[b] + layout.head[k]
                for s in range(layout.sibling_offsets[side], layout.sibling_offsets[side + 1]):
                    places[e] = column + (s - first_sibling) * stride
                    e += 1


@numba.njit(**FILLING)
def tri_sibling_places(layout, sentences, base, stride, start, places):
    """Rows are entries of `sibling` for b and c, columns a, or START."""
    for b in sentences:
        node = layout.word_offsets[b] + b
        first_sibling = layout.sibling_offsets[2 * node]
        for side in range(2 * node, 2 * (node + layout.lengths[b] + 1)):
            offset, J = layout.side_offsets[side], layout.side_offsets[side + 1] - layout.side_offsets[side]
            e = layout.tri_sibling_offsets[side]
            block = layout.sibling_offsets[side] - first_sibling
            for j in range(1, J + 1):
                for i in range(j):
                    column = base[b] + (layout.modifier[layout.outward[offset + i - 1]] if i > 0 else start + side % 2)
                    for c in range(j + 1, J + 2):
                        places[e] = column + (block + sibling_at(J, j, c)) * stride
                        e += 1


@numba.njit(**FILLING)
def grand_grandparent_places(layout, sentences, offsets, base, stride, places):
    """Rows are entries of `grandparent`, columns the head of g. The entries of sentence b start at offsets[b]."""
    for b in sentences:
        first = layout.word_offsets[b] - 1
        first_grandparent = layout.grandparent_offsets[layout.sentence_offsets[b]]
        e = offsets[b]
        for k in range(layout.sentence_offsets[b], layout.sentence_offsets[b + 1]):
            h = layout.head[k]
            if h == 0:
                continue
            row = base[b] + (layout.grandparent_offsets[k] - first_grandparent) * stride
            for up in range(layout.modifier_offsets[first + h], layout.modifier_offsets[first + h + 1]):
                g = layout.head[up]
                if g > 0:
                    for top in range(layout.modifier_offsets[first + g], layout.modifier_offsets[first + g + 1]):
                        places[e] = row + layout.head[top]
                        e += 1
                row += stride


@numba.njit(**FILLING)
def grandchild_places(layout, sentences, outer, offsets, base, stride, places):
    """Rows are entries of `sibling`, columns the grandchild. The entries of sentence b start at offsets[b]."""
    for b in sentences:
        node = layout.word_offsets[b] + b
        first_sibling = layout.sibling_offsets[2 * node]
        e = offsets[b]
        for side in range(2 * node, 2 * (node + layout.lengths[b] + 1)):
            start, J = layout.side_offsets[side], layout.side_offsets[side + 1] - layout.side_offsets[side]
            block = layout.sibling_offsets[side] - first_sibling
            for i in range(1, J + 1):
                for j in range(i + 1, J + 1):
                    row = base[b] + (block + sibling_at(J, i, j)) * stride
                    s = layout.modifier[layout.outward[start + (j if outer else i) - 1]]
                    for place in range(layout.side_offsets[2 * (node + s)], layout.side_offsets[2 * (node + s) + 2]):
                        places[e] = row + layout.modifier[layout.outward[place]]
                        e += 1


@numba.njit(**FILLING)
def row_words(layout, heads, modifiers):
    """Words of the rows of each sentence, as two (B, R) matrices.

    A row's head is `2 * h + side`, its modifier m, or N + side at the END of a side with N positions in a sentence of
    the batch. Rows beyond a sentence's are left as they are.
    """
    positions = 1
    for b in range(len(layout.lengths)):  # not `max()`, which allocates
        positions = max(positions, layout.lengths[b] + 1)
    for b in range(len(layout.lengths)):
        first = layout.sentence_offsets[b]
        arcs = layout.sentence_offsets[b + 1] - first
        for k in range(first, first + arcs):
            h, m = layout.head[k], layout.modifier[k]
            heads[b, k - first] = 2 * h + (m > h)
            modifiers[b, k - first] = m
        for side in range(2 * (layout.lengths[b] + 1)):
            heads[b, arcs + side] = side
            modifiers[b, arcs + side] = positions + side % 2
