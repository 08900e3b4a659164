"""Number of local optima of hill-climbing, under arc scores.

Zhang, Lei, Barzilay and Jaakkola (2014), "Greed is Good if Randomized: New Inference for Dependency Parsing", figure 2.
A local optimum is a tree that cannot be improved by changing a single head. First, every word takes its best head. If
this is no tree, every local optimum has all arcs but one of each cycle. So a cycle is contracted once for each of its
words, as the word at which it is entered, and the optima of the remaining graphs are added up. With n words there are
at most 2^(n-1), with any number of words at the root.

Differs from the paper:
- Contraction changes no scores. What enters a contracted cycle enters it at one word, and what leaves it keeps its
  word, so a graph is told by the words that it has merged and the entry of each such set. The head of a set is the best
  head of its entry outside of it.
- A word need not have all others as candidate heads. A cycle is not contracted at a word that the root reaches only
  through the rest of the cycle, which no tree does. So every graph has an optimum, and none is searched in vain.
- The paper needs scores that differ. Of equal heads of a word the lower counts as the better, as if it scored slightly
  more. This is the number of optima of a climb that moves to an equal lower head; one that stays where nothing is
  strictly better can end in more trees (n! in place of 2^(n-1) in the paper's example, where most scores are equal).
- Counting ends at a limit, as the paper's table does.

Time O(n A limit) for A arcs at most, usually n steps for each optimum. Memory O(n^2) a thread.
"""

import numba
import numpy as np
from numpy.typing import NDArray

from arbora.decoders.kernels.options import HELPER, KERNEL
from arbora.decoders.kernels.threads import over_sentences
from arbora.decoders.parts.batch import Parts


def count_optima(parts: Parts, limit: int = 10_000) -> NDArray[np.int64]:
    """Count the local optima of each sentence under arc scores, with any number of words at the root.

    Args:
        parts: candidate arcs; other parts are ignored.
        limit: stop counting at this number.

    Returns:
        (B,) number of local optima; `limit` if there are as many or more, 0 if there is no tree.
    """
    if limit < 1:
        raise ValueError(f"limit must be at least 1, got {limit}")
    word = np.repeat(np.arange(parts.word_offsets[-1]), np.diff(parts.modifier_offsets))  # (A,)
    heads = parts.head[np.lexsort((-parts.arc_score, word))]  # best first; equal ones stay as they are, ascending
    counts = np.zeros(len(parts.lengths), dtype=np.int64)
    over_sentences(
        lambda sentences: _count(
            sentences, parts.lengths, parts.word_offsets, parts.modifier_offsets, heads, limit, counts
        ),
        parts.lengths * np.minimum(limit, 2.0 ** np.minimum(parts.lengths, 64)),
    )
    return counts


@numba.njit(**KERNEL)
def _count(sentences, lengths, word_offsets, modifier_offsets, heads, limit, counts):
    """Set counts[b] for each sentence; heads (A,) are those of each word from the best to the worst."""
    size = 1
    for b in sentences:
        size = max(size, lengths[b] + 1)
    # A graph for each depth of the search. A set of merged words goes by the word at which it is entered.
    entry_of = np.empty((size, size), np.int32)  # [depth, word]: entry of the set that holds it
    place = np.empty((size, size), np.int64)  # [depth, entry]: where in heads the best head outside of its set stands
    cycle = np.empty((size, size), np.int32)  # [depth]: a cycle, as entries of sets ...
    length = np.empty(size, np.int32)  # ... how many they are ...
    tried = np.empty(size, np.int32)  # ... and for how many of them optima are counted
    seen = np.empty(size, np.int32)
    stack = np.empty(size, np.int32)

    for b in sentences:
        n = lengths[b]
        before = word_offsets[b] - 1  # heads of word m: modifier_offsets[before + m]:modifier_offsets[before + m + 1]
        entry_of[0, 0] = 0
        for m in range(1, n + 1):
            entry_of[0, m] = m
            place[0, m] = modifier_offsets[before + m]
        there = True
        for m in range(1, n + 1):
            seen[: n + 1] = 0
            there = there and _is_reached(m, before, modifier_offsets, heads, entry_of, 0, seen, stack)
        if not there:
            continue

        # F(G) = 1 if the best heads make a tree, else the sum of F(G with C entered at i) over all i of a cycle C
        depth = 0
        tried[0] = 0
        length[0] = _find_cycle(n, heads, entry_of, place, 0, seen, cycle)
        count = 0 if length[0] > 0 else 1
        while depth >= 0 and count < limit:
            if tried[depth] == length[depth]:
                depth -= 1
                continue
            i = cycle[depth, tried[depth]]
            tried[depth] += 1
            seen[: n + 1] = 0
            for c in range(length[depth]):
                seen[cycle[depth, c]] = 1
            if not _is_reached(i, before, modifier_offsets, heads, entry_of, depth, seen, stack):
                continue
            _contract(i, n, heads, entry_of, place, depth, length[depth], seen, cycle)
            length[depth + 1] = _find_cycle(n, heads, entry_of, place, depth + 1, seen, cycle)
            if length[depth + 1] > 0:
                depth += 1
                tried[depth] = 0
            else:
                count += 1
        counts[b] = count


@numba.njit(**HELPER)
def _is_reached(i, before, modifier_offsets, heads, entry_of, depth, seen, stack):
    """Return whether the root leads to i through unseen sets, searching backwards from i."""
    seen[i] = 1
    stack[0] = i
    top = 1
    while top > 0:
        top -= 1
        m = stack[top]
        for k in range(modifier_offsets[before + m], modifier_offsets[before + m + 1]):
            h = entry_of[depth, heads[k]]
            if h == 0:
                return True
            if seen[h] == 0:
                seen[h] = 1
                stack[top] = h
                top += 1
    return False


@numba.njit(**HELPER)
def _find_cycle(n, heads, entry_of, place, depth, seen, cycle):
    """Follow best heads from each set until they lead to the root, or into a cycle: its length, 0 if there is none."""
    seen[: n + 1] = 0
    for start in range(1, n + 1):
        node = entry_of[depth, start]
        while node > 0 and seen[node] == 0:
            seen[node] = start
            node = entry_of[depth, heads[place[depth, node]]]
        if node > 0 and seen[node] == start:
            size = 0
            while size == 0 or node != cycle[depth, 0]:
                cycle[depth, size] = node
                size += 1
                node = entry_of[depth, heads[place[depth, node]]]
            return size
    return 0


@numba.njit(**HELPER)
def _contract(i, n, heads, entry_of, place, depth, size, seen, cycle):
    """Write the graph in which the cycle is one set with entry i to the next depth."""
    seen[: n + 1] = 0
    for c in range(size):
        seen[cycle[depth, c]] = 1
    for m in range(n + 1):
        entry = entry_of[depth, m]
        entry_of[depth + 1, m] = i if seen[entry] else entry
        place[depth + 1, m] = place[depth, m]
    while entry_of[depth + 1, heads[place[depth + 1, i]]] == i:
        place[depth + 1, i] += 1
