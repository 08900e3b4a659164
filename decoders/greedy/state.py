"""State of the greedy search: the arcs of one sentence, the forests of the beam, and the sums kept for each forest.

A tuple of many arrays is slow to compile wherever a kernel reads one of its fields. So there are few arrays, each with
several rows, and the constants that name a row begin with the name of their table.
"""

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from arbora.decoders.kernels.options import CALLED, HELPER
from arbora.decoders.parts.batch import Parts
from arbora.decoders.parts.layout import Layout, any_sibling_at

DEAD, FREE, TAKEN = 0, 1, 2  # state of an arc: lost, in G, in T
SURE = 1.0 - 1e-6  # a larger probability counts as 1

ARC_HEAD, ARC_MODIFIER, ARC_OUTWARD, ARC_PLACE = range(4)  # rows of `Sentence.arcs`
FOREST_TREE, FOREST_TOP, FOREST_NEXT, FOREST_SIZE, FOREST_WITNESS = range(5)  # rows of `Forest.words`
SUM_ALONE, SUM_BELOW, SUM_CREDIT, SUM_CROSSING, SUM_BASE, SUM_VALUE, SUM_HELD, SUM_BROKEN = range(8)  # of `Forest.sums`
SUM_ABOVE_3, SUM_BELOW_3, SUM_BROKEN_3, SUM_SIDE_3 = range(8, 12)  # ... of grand-siblings; the last takes two rows
SUM_CHAIN_ABOVE, SUM_CHAIN_BELOW = range(13, 15)  # ... of grand-grandparents
PAIR_HELD, PAIR_BROKEN, PAIR_CHAIN = range(3)  # rows of `Forest.pairs`
ROOT_KEPT, ROOT_ANY = range(2)  # rows of `Forest.root`
CHANGED_WORDS, CHANGED_SIDES, CHANGED_HEADS, CHANGED_ARCS = range(4)  # rows of `Scratch.changed`
MARK_ARC, MARK_RANK, MARK_TAKEN, MARK_QUEUE, MARK_SEEN = range(5)  # rows of `Scratch.marks`
SIDE_PRESENT, SIDE_ABSENT, SIDE_HELD, SIDE_BROKEN, SIDE_RIGHT, SIDE_INNER, SIDE_OUTER = range(7)  # of `Scratch.side`
WORD_CREDIT, WORD_CROSS, WORD_STAMP, WORD_JOINT, WORD_NEW_JOINT = range(5)  # rows of `Scratch.words`


class Settings(NamedTuple):
    """Settings of `Greedy` as kernels take them."""

    alpha: float
    beta: float
    partial: bool
    single_root: bool
    beam: int


class Chains(NamedTuple):
    """Grand-grandparents, addressed as in `arbora.decoders.parts.layout`."""

    offsets: NDArray[np.int64]
    score: NDArray[np.float32]
    grandparent_offsets: NDArray[np.int64]


def chains_of(parts: Parts) -> Chains | None:
    """Grand-grandparents of a batch; None if there are none, so that nothing is compiled for them."""
    if "grand_grandparent" not in parts.kinds:
        return None
    wide = parts.wide
    return Chains(wide.grand_grandparent_offsets, wide.grand_grandparent, parts.layout.grandparent_offsets)


class Sentence(NamedTuple):
    """Candidate arcs of one sentence, numbered from 0.

    Arcs in G may have two weightings: the first for losses, the last for gains. Algorithm 2 has one, p and 1 - p.
    Algorithm 1 has 1 and 1 for losses, so that every part that is alive counts, and 0 and 0 for gains, so that only
    complete parts do. In both, arcs in T weigh 1 and 0, lost arcs 0 and 1.
    """

    start: NDArray[np.int64]  # arcs into word m are start[m]:start[m + 1]
    side: NDArray[np.int64]  # arcs of a side are ARC_OUTWARD[side[2 * h + right]:side[2 * h + right + 1]]
    # (4, A) head and modifier of each arc, the arcs by (head, side, distance), and where each arc stands among these.
    # Unsigned, because an index that is never negative takes fewer instructions.
    arcs: NDArray[np.uint32]
    arc: NDArray[np.uint32]  # [h, m] number of the arc; if it is no candidate, that of an arc which is always lost
    weight: NDArray[np.float64]  # (2, weightings, A) of an arc in G as a present one, and as an absent one


class Forest(NamedTuple):
    """States of the beam, one per row; with two weightings, rows 2 s and 2 s + 1 of the sums belong to state s."""

    # (beam, 5, N) TREE: arc into each word, -1 if it has none; TOP: ancestor without a head, 0 below the root; NEXT:
    # another word with the same top, in a circle; SIZE: number of words in that circle, stored at the top; WITNESS: arc
    # into each word in some tree that extends the forest, and at 0 a modifier of the root in that tree.
    words: NDArray[np.int32]
    state: NDArray[np.int8]  # (beam, A) of each arc: DEAD, FREE or TAKEN
    reach: NDArray[np.int64]  # (beam, N, N / 64) bits: words into which there were arcs from a word or from below it
    least: NDArray[np.float64]  # (beam, N) least VALUE among the arcs into a word, without arcs of a single root
    # (rows, 6, 8, 13 or 15, A) Expected weight of the parts that hold an arc, given that it is in the tree. ALONE: the
    # arc, any siblings, head bigrams, and grandparents with it as the upper arc; BELOW: grandparents with it as the
    # lower arc; HELD: siblings and tri-siblings; ABOVE_3, BELOW_3: grand-siblings with it as the upper arc, as a lower
    # one; SIDE_3: those of the upper arc, left and right; CHAIN_ABOVE, CHAIN_BELOW: grand-grandparents with it as the
    # uppermost arc, as another one. Expected weight of the parts that need the arc to be absent, given that it is.
    # BROKEN: siblings and tri-siblings; BROKEN_3: grand-siblings. Only in the first row of a state: CREDIT: what losing
    # the arc adds to the value of another one; CROSSING: the same without grandparents in which it is the lower arc;
    # BASE: what the arc adds to its own value; VALUE: of the arc, inf if it cannot be added. Sums of arcs into words
    # that have a head are not kept up to date.
    sums: NDArray[np.float64]
    # (rows, 2 or 3, P) for an upper arc and a lower arc just below it, addressed as grandparents. HELD: expected weight
    # of the grand-siblings that hold both; BROKEN: of those of the upper arc that the lower one would break; CHAIN: of
    # the grand-grandparents that hold both
    pairs: NDArray[np.float64]
    # (rows, 2, N) for a single root: KEPT: siblings of a word as the only modifier of the root, and at 0 all siblings
    # of the root; ANY: any siblings of a word as a modifier of the root
    root: NDArray[np.float64]


class Scratch(NamedTuple):
    """Memory used for a short time."""

    # (4, 2, max(2N, A) + 1) sets: WORDS whose arcs must all be valued again, SIDES and HEADS with a changed arc, ARCS
    # of which only siblings have changed. Line 0 marks the members, line 1 has their number and then lists them.
    changed: NDArray[np.int32]
    # (5, max(J, N, A)) ARC, RANK, TAKEN: of a side from START to END, without lost arcs; QUEUE, SEEN: words or arcs
    marks: NDArray[np.int32]
    side: NDArray[np.float64]  # (7, J) of such a side: weights of arcs as present and absent, and sums over pairs
    triples: NDArray[np.float64]  # (2, J J)
    # (5, max(A, N)) CREDIT: sum over all arcs into a word; CROSS: what the arcs from below v into a word r add to the
    # value of arcs from below r into v, valid if STAMP has the number that stands at its place 0; JOINT: of an arc from
    # below r into v, expected weight of the head bigrams and of the grand-grandparents, as their first and last arc,
    # that it forms with the arcs from below v into r; NEW_JOINT: the same of all arcs into v, for the present r
    words: NDArray[np.float64]


def allocate(
    sentences: NDArray[np.int64], layout: Layout, chains: Chains | None, settings: Settings
) -> tuple[Sentence, Forest, Scratch]:
    """Make room for the longest of some sentences.

    Not in a kernel, which could then not do without reference counting.
    """
    chained = chains is not None
    third = len(layout.grand_sibling) > 0 or chained
    tri = len(layout.tri_sibling) > 0
    sides = len(layout.sibling) > 0 or tri or third
    N, A, P = 2, 1, 1
    if len(sentences):
        first, end = layout.sentence_offsets[sentences], layout.sentence_offsets[sentences + 1]
        N = max(N, int(layout.lengths[sentences].max()) + 1)
        A = max(A, int((end - first).max()))
        if third:  # never 1
            P += int((layout.grandparent_offsets[end] - layout.grandparent_offsets[first]).max())
    J = int(np.diff(layout.side_offsets).max(initial=1)) + 2
    beam, rows = settings.beam, 1 if settings.partial else 2
    sentence = Sentence(
        np.zeros(N + 2, np.int64),
        np.zeros(2 * N + 1, np.int64),
        np.zeros((4, A), np.uint32),
        np.full((N, N), A, np.uint32),
        np.zeros((2, rows, A + 1)),
    )
    forest = Forest(
        np.zeros((beam, 5, N), np.int32),
        np.zeros((beam, A + 1), np.int8),
        np.zeros((beam, N, (N + 63) // 64), np.int64),
        np.zeros((beam, N)),
        np.zeros((rows * beam, 15 if chained else 13 if third else 8 if sides else 6, A + 1)),
        np.zeros((rows * beam, 3 if chained else 2, P)),
        np.zeros((rows * beam, 2, N)),
    )
    scratch = Scratch(
        np.zeros((4, 2, max(2 * N, A) + 1), np.int32),
        np.zeros((5, max(J, N, A)), np.int32),
        np.zeros((7, J)),
        np.zeros((2, J * J if tri else 1)),
        np.zeros((5, max(A, N))),
    )
    return sentence, forest, scratch


@numba.njit(**HELPER)
def add(changed, which, x):
    """Add x to a set of what has changed."""
    if changed[which, 0, x] == 0:
        changed[which, 0, x] = 1
        changed[which, 1, 0] += 1
        changed[which, 1, changed[which, 1, 0]] = x


@numba.njit(**HELPER)
def reaches(reach, r, v):
    """Return whether there was an arc from r, or from below r, into v."""
    return (reach[r, v >> 6] >> (v & 63)) & 1 == 1


@numba.njit(**HELPER)
def opposed(k, arcs, top, reach):
    """Return whether there was an arc from m, or from below m, into the top of h, where k = (h, m)."""
    v = np.int64(top[arcs[ARC_HEAD, k]])
    return v > 0 and reaches(reach, np.int64(arcs[ARC_MODIFIER, k]), v)


@numba.njit(**HELPER)
def touch(k, arcs, top, reach, changed):
    """Note that the sums of arc k = (h, m) in G have changed.

    To be valued again are the arcs into m, and those from below m into the top of h, with which k would be lost.
    """
    add(changed, CHANGED_WORDS, np.int64(arcs[ARC_MODIFIER, k]))
    if opposed(k, arcs, top, reach):
        add(changed, CHANGED_WORDS, np.int64(top[arcs[ARC_HEAD, k]]))


@numba.njit(**CALLED)
def read(layout, b, settings, sentence, forest):
    """Number the arcs of a sentence from 0, weigh them, and make state 0 the empty forest."""
    start, side_start, arcs, arc, weight = sentence
    words, state, reach, sums = forest.words, forest.state, forest.reach, forest.sums
    n = layout.lengths[b]
    first = layout.sentence_offsets[b]
    word = layout.word_offsets[b]
    for k in range(start[0]):  # arcs of the sentence before
        arc[arcs[ARC_HEAD, k], arcs[ARC_MODIFIER, k]] = state.shape[1] - 1
    A = layout.sentence_offsets[b + 1] - first
    start[0] = A
    for m in range(1, n + 2):
        start[m] = layout.modifier_offsets[word + m - 1] - first
    for k in range(A):
        arcs[ARC_HEAD, k] = layout.head[first + k]
        arcs[ARC_MODIFIER, k] = layout.modifier[first + k]
    for side in range(2 * n + 3):
        side_start[side] = layout.side_offsets[2 * (word + b) + side] - first
    for i in range(A):
        k = layout.outward[first + i] - first
        arcs[ARC_OUTWARD, i] = k
        arcs[ARC_PLACE, k] = i

    for m in range(n + 1):
        words[0, FOREST_TREE, m] = -1
        words[0, FOREST_TOP, m] = words[0, FOREST_NEXT, m] = m
        words[0, FOREST_SIZE, m] = 1
        for i in range(n // 64 + 1):
            reach[0, m, i] = 0
    for k in range(A):
        u, v = np.int64(arcs[ARC_HEAD, k]), np.int64(arcs[ARC_MODIFIER, k])
        arc[u, v] = k
        reach[0, u, v >> 6] |= np.int64(1) << (v & 63)
        state[0, k] = FREE
    for i in range(weight.shape[1]):
        for k in range(A):
            sums[i, SUM_ALONE, k] = layout.arc_score[first + k]
            weight[0, i, k] = weight[1, i, k] = 1.0 - i
    if settings.partial:
        for m in range(1, n + 1):
            _softmax(settings.alpha, sums[0, SUM_ALONE], start[m], start[m + 1], weight)


@numba.njit(**HELPER)
def _softmax(alpha, score, begin, end, weight):
    """p_e = exp(alpha W_e) / sum over e' into the same word of exp(alpha W_e')."""
    most = -np.inf
    for k in range(begin, end):
        most = max(most, score[k])
    total = 0.0
    for k in range(begin, end):
        weight[0, 0, k] = np.exp(alpha * (score[k] - most))
        total += weight[0, 0, k]
    for k in range(begin, end):
        p = weight[0, 0, k] / total
        weight[0, 0, k] = 1.0 if p > SURE else p
        weight[1, 0, k] = 0.0 if p > SURE else 1.0 - p


@numba.njit(**CALLED)
def fill_sums(layout, b, sentence, forest, scratch):
    """Sum parts of two arcs in the empty forest, state 0, and mark all sides and words as changed."""
    start, side_start, arcs, _, weight = sentence
    sums, root, changed = forest.sums, forest.root, scratch.changed
    n = np.int64(layout.lengths[b])
    first, word = layout.sentence_offsets[b], layout.word_offsets[b]
    for side in range(1, 2 * (n + 1)):
        add(changed, CHANGED_SIDES, side)
    for h in range(1, n + 1):
        add(changed, CHANGED_HEADS, h)
        add(changed, CHANGED_WORDS, h)
    for i in range(weight.shape[1]):
        chance, alone, below = weight[0, i], sums[i, SUM_ALONE], sums[i, SUM_BELOW]
        for field in range(SUM_BELOW, sums.shape[1]):  # the root's arcs have no grand-siblings, and are never written
            for k in range(start[n + 1]):
                sums[i, field, k] = 0.0
        for m in range(n + 1):
            root[i, ROOT_ANY, m] = 0.0
        if len(layout.grandparent) > 0:
            for k in range(start[n + 1]):
                h, m = arcs[ARC_HEAD, k], arcs[ARC_MODIFIER, k]
                if h == 0:
                    continue
                block = layout.grandparent_offsets[first + k] - start[h]
                total = 0.0
                for g in range(start[h], start[h + 1]):
                    w = np.float64(layout.grandparent[block + g]) if arcs[ARC_HEAD, g] != m else 0.0
                    total += chance[g] * w
                    alone[g] += chance[k] * w
                below[k] = total
        if len(layout.any_sibling) > 0:
            for h in range(n + 1):
                base, J = side_start[2 * h], side_start[2 * h + 2] - side_start[2 * h]
                block = layout.any_sibling_offsets[word + b + h]
                for x in range(J):
                    j = arcs[ARC_OUTWARD, base + x]
                    for y in range(x + 1, J):
                        k = arcs[ARC_OUTWARD, base + y]
                        w = np.float64(layout.any_sibling[block + any_sibling_at(J, x, y)])
                        alone[j] += chance[k] * w
                        alone[k] += chance[j] * w
                        if h == 0:
                            root[i, ROOT_ANY, arcs[ARC_MODIFIER, j]] += chance[k] * w
                            root[i, ROOT_ANY, arcs[ARC_MODIFIER, k]] += chance[j] * w
        if len(layout.head_bigram) > 0:
            for m in range(2, n + 1):
                e = layout.head_bigram_offsets[word + m - 1]
                for j in range(start[m - 1], start[m]):
                    for k in range(start[m], start[m + 1]):
                        if arcs[ARC_HEAD, j] != m or arcs[ARC_HEAD, k] != m - 1:
                            alone[j] += chance[k] * layout.head_bigram[e]
                            alone[k] += chance[j] * layout.head_bigram[e]
                        e += 1


@numba.njit(**CALLED)
def copy(layout, b, sentence, forest, s, t):
    """Copy state s to t; sums only of arcs into words without a head."""
    words, state, reach, least, sums, pairs, root = forest
    start = sentence.start
    rows = len(sums) // len(words)
    n = layout.lengths[b]
    first = layout.sentence_offsets[b]
    base = layout.grandparent_offsets[first]
    for row in range(5):
        for m in range(n + 1):
            words[t, row, m] = words[s, row, m]
    for k in range(start[n + 1]):
        state[t, k] = state[s, k]
    for m in range(n + 1):
        least[t, m] = least[s, m]
    for i in range(rows):
        x, y = rows * s + i, rows * t + i
        for field in range(2):
            for m in range(n + 1):
                root[y, field, m] = root[x, field, m]
    m = 1
    while m <= n:
        if words[s, FOREST_TREE, m] >= 0:
            m += 1
            continue
        begin = start[m]
        while m <= n and words[s, FOREST_TREE, m] < 0:  # a run of words, to copy many arcs at once
            for i in range(n // 64 + 1):
                reach[t, m, i] = reach[s, m, i]
            m += 1
        for i in range(rows):
            x, y = rows * s + i, rows * t + i
            for field in range(sums.shape[1]):
                for k in range(begin, start[m]):
                    sums[y, field, k] = sums[x, field, k]
            if pairs.shape[2] > 1:
                low = layout.grandparent_offsets[first + begin] - base
                high = layout.grandparent_offsets[first + start[m]] - base
                for field in range(pairs.shape[1]):
                    for e in range(low, high):
                        pairs[y, field, e] = pairs[x, field, e]
