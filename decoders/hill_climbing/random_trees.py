"""Random trees from which climbs start.

Wilson (1996), "Generating random spanning trees more quickly than the cover time": from each word that is not yet in
the tree, a random walk goes from modifier to head until it meets the tree, and what is left of it without its loops is
added to the tree. Heads are drawn with equal probabilities, or in proportion to the exponential of their arc scores.

Differs from the paper:
- With a single root, the root word is drawn from its exact distribution, and walks end at that word.
- Walks that are too long, as where two words strongly want each other as heads, are cut off and begun again with equal
  probabilities. If these are too long as well, the tree is the best one under arc scores.

Random numbers are counted, not taken from a stream: those of a tree depend only on a key, which depends on the seed, on
the sentence's arcs and their scores, and on the number of the tree. Neither a constant added to all arcs of a word nor
a power of two that multiplies all scores changes the key; with equal probabilities they change no tree.

Preparing a sentence takes O(A), and O(n^3) with a single root. Memory O(A), and O(n^2) with a single root.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from arbora.decoders.kernels.bitsets import ONE, ZERO
from arbora.decoders.kernels.options import ALLOCATING, HELPER, KERNEL
from arbora.decoders.parts.layout import find_arc

WALK = 50
"""Steps of Wilson's walks for each word of a sentence, after which they begin again with equal probabilities."""

FLOOR = -30.0
"""Log-probability, relative to a word's best head, below which no head is held: what is drawn so rarely is not missed,
and sums stay within the range of floats."""

UNIFORM, FIRST_ORDER, BEST = 0, 1, 2
LAWS = {"uniform": UNIFORM, "first_order": FIRST_ORDER, "best": BEST}
"""Kinds of starting trees, by their names in the settings of `HillClimbing`."""


class Starts(NamedTuple):
    """Settings for drawing starting trees."""

    law: int  # UNIFORM, FIRST_ORDER or BEST
    best_first: bool  # the first tree is the best one under arc scores
    temperature: float
    seed: int
    single_root: bool


class Walks(NamedTuple):
    """Tables of a sentence from which trees are drawn, and room to work in."""

    keep: NDArray[np.float32]  # (A,) probability to keep an arc that is drawn ...
    alias: NDArray[np.uint32]  # (A,) ... and the place of the one to take instead
    root_weight: NDArray[np.float64]  # (n+1,) weight of the trees of which a word up to m is the only root word
    chain: NDArray[np.float64]  # (n, n) probabilities of steps between words
    weight: NDArray[np.float64]  # (n+1,) of the heads of a word
    stack: NDArray[np.int64]  # (n+1,) heads
    rooted: NDArray[np.bool_]  # (n+1,) words from which there is a way to the root


@numba.njit(**ALLOCATING)
def make_walks(size, arcs, with_chain):
    """Room for sentences of up to size - 1 words and the given number of arcs."""
    square = size if with_chain else 1
    return Walks(
        np.empty(arcs, np.float32),
        np.empty(arcs, np.uint32),
        np.empty(size, np.float64),
        np.empty((square, square), np.float64),
        np.empty(size, np.float64),
        np.empty(size, np.int64),
        np.empty(size, np.bool_),
    )


@numba.njit(**KERNEL)
def sample(layout, best_trees, b, starts, trees):
    """Draw the trees from which restarts 1, 2, ... of sentence b climb; best_trees must hold a tree of it."""
    n = layout.lengths[b]
    walks = make_walks(n + 1, layout.sentence_offsets[b + 1] - layout.sentence_offsets[b], starts.single_root)
    prepare_walks(layout, walks, b, starts, best_trees)
    best_arc = np.full(n + 1, -np.inf)
    for k in range(layout.sentence_offsets[b], layout.sentence_offsets[b + 1]):
        m = layout.modifier[k]
        best_arc[m] = max(best_arc[m], layout.arc_score[k])
    key = sentence_key(layout, best_arc, b, starts.seed)
    arc = np.empty(n + 1, np.uint64)
    for j in range(len(trees)):
        draw(layout, walks, b, mix(key + np.uint64(j + 1)), starts.single_root, best_trees, arc)
        for m in range(1, n + 1):
            trees[j, m] = layout.head[arc[m]]


@numba.njit(**HELPER)
def mix(x):
    """64 bits well scrambled: the output of splitmix64 (Steele, Lea and Flood, 2014) for the state x."""
    x += np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@numba.njit(**HELPER)
def sentence_key(layout, best_arc, b, seed):
    """A number made of the seed, the arcs of a sentence, and their scores, given the best score of each word's arcs.

    Of a score only the digits of its distance from the best are used, without the exponent.
    """
    key = mix(np.uint64(seed))
    for m in range(1, layout.lengths[b] + 1):
        w = layout.word_offsets[b] + m - 1
        start, end = layout.modifier_offsets[w], layout.modifier_offsets[w + 1]
        key = mix(key ^ np.uint64(end - start))
        for k in range(start, end):
            digits, _ = math.frexp(best_arc[m] - layout.arc_score[k])
            key = mix(key ^ (np.uint64(layout.head[k]) << np.uint64(53)) ^ np.uint64(digits * 2.0**53))
    return key


@numba.njit(**HELPER)
def _steps(layout, b, m, single_root):
    """Arcs start..end - 1 into m that a walk takes: with a single root not the root's, which is the first."""
    w = layout.word_offsets[b] + m - 1
    start, end = layout.modifier_offsets[w], layout.modifier_offsets[w + 1]
    if single_root and start < end and layout.head[start] == 0:
        start += 1
    return start, end


@numba.njit(**HELPER)
def _weigh_steps(layout, start, end, starts, weight):
    """Weigh each arc of start..end - 1 relative to the heaviest; return the sum, and the score of the heaviest."""
    largest = -np.inf
    for k in range(start, end):
        largest = max(largest, np.float64(layout.arc_score[k]))
    total = 0.0
    for k in range(start, end):
        weight[k - start] = 1.0
        if starts.law == FIRST_ORDER:
            weight[k - start] = np.exp(max((layout.arc_score[k] - largest) / starts.temperature, FLOOR))
        total += weight[k - start]
    return total, largest


@numba.njit(**HELPER)
def prepare_walks(layout, walks, b, starts, best_trees):
    """Make the tables from which steps of walks are drawn, and with a single root its word."""
    n = layout.lengths[b]
    first_arc = layout.sentence_offsets[b]
    # Walker's alias method in the form of Vose (1991): of K arcs each is drawn alike, and then kept or exchanged.
    p, stack = walks.weight, walks.stack
    for m in range(1, n + 1):
        start, end = _steps(layout, b, m, starts.single_root)
        K = end - start
        total, _ = _weigh_steps(layout, start, end, starts, p)
        small, large = 0, K  # those with less than 1/K are stacked from the bottom, the others from the top
        for i in range(K):
            p[i] *= K / total
            walks.keep[start - first_arc + i] = 1.0
            walks.alias[start - first_arc + i] = i
            if p[i] < 1.0:
                stack[small] = i
                small += 1
            else:
                large -= 1
                stack[large] = i
        while small > 0 and large < K:
            small -= 1
            poor, rich = stack[small], stack[large]
            walks.keep[start - first_arc + poor] = p[poor]
            walks.alias[start - first_arc + poor] = rich
            p[rich] -= 1.0 - p[poor]
            if p[rich] < 1.0:
                large += 1
                stack[small] = rich
                small += 1
    if starts.single_root:
        _weigh_roots(layout, walks, b, starts, best_trees)


@numba.njit(**HELPER)
def _weigh_roots(layout, walks, b, starts, best_trees):
    """Fill root_weight for trees with a single root.

    Steps from modifier to head, the root left out, make a Markov chain. By the Markov chain tree theorem the trees
    of the words below m weigh in proportion to the stationary probability of m, each head over the sum of its word's.
    One word after the other is taken out of the chain. The last must be one that all walks reach, such as the root word
    of any tree: it changes places with word 1.
    """
    n = layout.lengths[b]
    root_weight, stationary = walks.root_weight, walks.weight
    root = 1
    while best_trees[b, root] != 0:
        root += 1
    start, end = _steps(layout, b, root, True)
    largest = -np.inf
    if start < end:  # else no other word can be the root's
        _fill_chain(layout, walks, b, starts, root)
        if _find_stationary(walks.chain, n, stationary):
            for m in range(1, n + 1):
                i = _chain_place(m, root)
                root_weight[m] = root_weight[m] + np.log(stationary[i]) if stationary[i] > 0.0 else -np.inf
                largest = max(largest, root_weight[m])
    root_weight[0] = 0.0
    for m in range(1, n + 1):
        if largest > -np.inf:
            root_weight[m] = root_weight[m - 1] + np.exp(root_weight[m] - largest)
        else:  # no other root word, or none that floats can tell from never
            root_weight[m] = np.float64(m >= root)


@numba.njit(**HELPER)
def _chain_place(m, root):
    """Place of word m in the chain, where the root word and word 1 change places."""
    return 0 if m == root else root - 1 if m == 1 else m - 1


@numba.njit(**HELPER)
def _fill_chain(layout, walks, b, starts, root):
    """Fill the chain, and root_weight with the log-weight of each word's root arc and of the steps from the word."""
    n = layout.lengths[b]
    for m in range(1, n + 1):
        i = _chain_place(m, root)
        for j in range(n):
            walks.chain[i, j] = 0.0
        start, end = _steps(layout, b, m, True)
        total, largest = _weigh_steps(layout, start, end, starts, walks.weight)
        for k in range(start, end):
            walks.chain[i, _chain_place(layout.head[k], root)] = walks.weight[k - start] / total
        k = layout.modifier_offsets[layout.word_offsets[b] + m - 1]
        walks.root_weight[m] = -np.inf
        if layout.head[k] == 0:
            score = (layout.arc_score[k] - largest) / starts.temperature if starts.law == FIRST_ORDER else 0.0
            walks.root_weight[m] = score - np.log(total)


@numba.njit(**HELPER)
def _find_stationary(chain, n, stationary):
    """Fill the stationary distribution of a chain, not normalized; return whether it could be found.

    Grassmann, Taksar and Heyman (1985): elimination without subtraction. The chain is overwritten.
    """
    fine = True
    for v in range(n - 1, 0, -1):
        total = 0.0
        for j in range(v):
            total += chain[v, j]
        fine &= total > 0.0
        for i in range(v):
            through = chain[i, v] / total if fine else 0.0
            chain[i, v] = through
            if through > 0.0:
                for j in range(v):
                    chain[i, j] += through * chain[v, j]
    stationary[0] = 1.0
    for v in range(1, n):
        stationary[v] = 0.0
        for i in range(v):
            stationary[v] += stationary[i] * chain[i, v]
    return fine


@numba.njit(**HELPER)
def draw(layout, walks, b, key, single_root, best_trees, arc):
    """Draw a tree with Wilson's walks, by random numbers that only the key determines; fill the arc into each word."""
    n = layout.lengths[b]
    first_arc = layout.sentence_offsets[b]
    draws = ZERO
    rooted = walks.rooted
    for even in range(2):
        rooted[: n + 1] = False
        rooted[0] = True
        if single_root:
            target = np.float64(mix(key + draws) >> np.uint64(12)) * 2.0**-52 * walks.root_weight[n]
            draws += ONE
            r = 1
            while walks.root_weight[r] <= target:
                r += 1
            arc[r] = np.uint64(layout.modifier_offsets[layout.word_offsets[b] + r - 1])
            rooted[r] = True
        left = WALK * np.int64(n)
        for v in range(1, n + 1):
            m = np.int64(v)
            while not rooted[m] and left > 0:
                start, end = _steps(layout, b, m, single_root)
                random = mix(key + draws)
                draws += ONE
                i = np.int64(((random >> np.uint64(32)) * np.uint64(end - start)) >> np.uint64(32))
                at = start - first_arc + i
                if even == 0 and np.float32(random & np.uint64(0xFFFFFF)) * np.float32(2.0**-24) >= walks.keep[at]:
                    i = np.int64(walks.alias[at])
                arc[m] = np.uint64(start + i)
                m = np.int64(layout.head[start + i])
                left -= 1
            if not rooted[m]:
                break
            m = np.int64(v)
            while not rooted[m]:
                rooted[m] = True
                m = np.int64(layout.head[arc[m]])
        if left > 0:
            return
    take_tree(layout, b, best_trees, arc)


@numba.njit(**HELPER)
def take_tree(layout, b, trees, arc):
    """Fill the arc into each word of a given tree of sentence b."""
    n = layout.lengths[b]
    for m in range(1, n + 1):
        w = layout.word_offsets[b] + m - 1
        k = find_arc(layout.modifier_offsets[w], layout.modifier_offsets[w + 1], layout.head, trees[b, m], m, n)
        arc[m] = np.uint64(k)
