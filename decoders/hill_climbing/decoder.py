"""Hill-climbing from random trees, with parts of any order: it has no bound, but is fast and seldom misses.

Zhang, Lei, Barzilay and Jaakkola (2014), "Greed is Good if Randomized: New Inference for Dependency Parsing"; starting
trees by Wilson (1996), "Generating random spanning trees more quickly than the cover time". A climb goes through the
words of the tree from the bottom up (post-order, lower words first) and gives each the head that raises the score most,
until no change of a single head does. The best tree of many climbs is returned.

Differs from the papers:
- The first climb starts from the best tree under arc scores alone. That tree is needed anyway, to know that there is
  one, and on scores where arcs say most it ends at the best tree or close to it.
- With a single root no change of one head moves the root. Where no other change helps, a climb also tries to hang
  another word w from the root, and the old root word from a word below w.
- A word is looked at again only when what its choice depends on has changed: modifiers or head of a candidate head, its
  own modifiers, words below it, and for head bigrams the heads of its neighbours. A candidate head is weighed only if a
  bound on the parts it may add does not rule it out. Neither changes a climb. With types of `Wide`, such as features of
  whole trees, all words are looked at again after any change, and no head is ruled out.
- With a single root, the root word is drawn from its exact distribution (Markov chain tree theorem, O(n^3) once a
  sentence), and Wilson's walks end at that word. Walks that are too long, as where two words strongly want each other
  as heads, are cut off and begun again with equal probabilities, and if these are too long, the climb starts from the
  best tree under arc scores.
- Random numbers are counted, not taken from a stream: those of restart j depend on the seed, on the sentence's arcs and
  their scores, and on j. So neither threads nor the rest of the batch change a tree; of equal scores the lower j wins.

A pass takes O(n K) steps for grandparents, neighbouring siblings and head bigrams, plus one for each modifier of a head
(`any_sibling`) or of a word (`grand_sibling`); `wide_gains` tells of the other types. Memory O(n^2 / 64 + n K) a
thread, O(n^2) with a single root.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from arbora.decoders.hill_climbing.wide_gains import lift, put_back, weigh_wide, wide_score
from arbora.decoders.kernels import bitsets as sets
from arbora.decoders.kernels import threads
from arbora.decoders.kernels.bitsets import ONE, TWO, ZERO
from arbora.decoders.kernels.options import INNER, KERNEL
from arbora.decoders.kernels.threads import over_sentences
from arbora.decoders.mst import MST
from arbora.decoders.parts.batch import COMMON, EVERY_KIND, Parts
from arbora.decoders.parts.layout import any_sibling_at, find_arc, sibling_at, tri_sibling_at
from arbora.decoders.settings import numeric
from arbora.decoders.trees import Decoder, Trees

TOLERANCE = 1e-9
"""A change must raise the score by more than this, relative to what it changes: less may be rounding."""

WALK = 50
"""Steps of Wilson's walks for each word of a sentence, after which they begin again with equal probabilities."""

FLOOR = -30.0
"""Log-probability, relative to a word's best head, below which no head is held: what is drawn so rarely is not missed,
and sums stay within the range of floats."""

UNIFORM, FIRST_ORDER, BEST = 0, 1, 2
LAWS = {"uniform": UNIFORM, "first_order": FIRST_ORDER, "best": BEST}
NEVER = 2**62
STEPS = 40.0
"""Steps of a climb for each arc and type of parts, about, from which the threads that repay are told."""

CHUNK = 16
"""Restarts of a sentence that are one piece of work, where restarts are spread over threads."""

COUNTERS = ("restarts", "passes", "moves")
FOUND, RESTARTS, PASSES, MOVES = 0, 1, 2, 3


@dataclass(frozen=True)
class HillClimbing(Decoder):
    """The best tree of many climbs by single changes of heads, which need not be the best tree there is.

    Args:
        restarts: number of climbs; None to climb until the best tree has stood for `patience` climbs.
        patience: climbs without a better tree after which to stop, if `restarts` is None. The paper takes 300; on the
            scores of trained parsers 30 found the same trees.
        start: where climbs start: from trees drawn at random with equal probabilities (uniform), or in proportion to
            the exponential of their arc scores (first_order), or from the best tree under arc scores (best), where
            one climb is all.
        best_first: let the first climb start from the best tree under arc scores. It costs next to nothing, since that
            tree is needed to know that there is one.
        temperature: divides arc scores before trees are drawn; above 1 trees differ more.
        seed: of the random numbers.
        single_root: allow exactly one modifier of the root.
    """

    takes: ClassVar[frozenset[str]] = frozenset(EVERY_KIND)
    restarts: int | None = numeric(None, least=1)
    patience: int = numeric(30, least=1)
    start: Literal["uniform", "first_order", "best"] = "uniform"
    best_first: bool = True
    temperature: float = numeric(1.0, above=0)
    seed: int = numeric(0, least=-(2**63), most=2**63 - 1)
    single_root: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start not in LAWS:
            raise ValueError(f"start must be one of {', '.join(LAWS)}, got {self.start}")

    def decode(self, parts: Parts) -> Trees:
        first_order = MST(self.single_root)(parts)  # finds the sentences without a tree, too
        count = len(parts.lengths)
        if not parts.kinds and (self.best_first or self.start == "best"):
            return replace(first_order, counters={name: np.zeros(count, dtype=np.int64) for name in COUNTERS})
        restarts = 1 if self.start == "best" else self.restarts
        climbs = restarts or self.patience + 1
        steps = STEPS * (1.0 + len(parts.kinds)) * np.diff(parts.sentence_offsets)  # of one climb
        workers = min(threads.get_num_threads(), int(climbs * steps.sum() // threads.STEPS_PER_THREAD))
        if climbs == 1 or count >= workers:
            firsts, lasts = np.zeros(count, dtype=np.int64), np.full(count, restarts or NEVER)
            patience = NEVER if restarts else self.patience
            work = (np.arange(count), firsts, lasts, patience, climbs * steps)
            heads, _, counts = self._run(parts, first_order.heads, *work)
        else:
            heads, counts = self._run_in_pieces(parts, first_order.heads, steps)
        counters = dict(zip(COUNTERS, counts.T[RESTARTS:]))
        return Trees(heads, parts.score(heads), None, np.zeros(count, dtype=np.bool_), counters)

    def _run(
        self,
        parts: Parts,
        best_trees: NDArray[np.int32],
        sentences: NDArray[np.int64],
        firsts: NDArray[np.int64],
        lasts: NDArray[np.int64],
        patience: int,
        steps: NDArray[np.float64],
    ) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.int64]]:
        """Run restarts firsts[t]..lasts[t] - 1 of sentence sentences[t], for each piece t of the work.

        Returns:
            The best tree of each piece, its score, and (T, 4) counts: the restart that found it, and the counters.
        """
        heads = np.full((len(sentences), best_trees.shape[1]), -1, dtype=np.int32)
        score = np.empty(len(sentences))
        counts = np.zeros((len(sentences), 1 + len(COUNTERS)), dtype=np.int64)
        layout, bits, law = parts.layout, parts.arc_score.view(np.uint32), LAWS[self.start]
        # None without such types: numba then compiles a kernel that does not know of them.
        wide = None if set(parts.kinds) <= set(COMMON) else parts.wide
        settings = (law, law == BEST or self.best_first, self.temperature, self.seed % 2**63, self.single_root)

        def search(pieces: NDArray[np.int64]) -> None:
            work = (pieces, sentences, firsts, lasts, patience)
            _search(layout, wide, bits, best_trees, *work, *settings, heads, score, counts)

        over_sentences(search, steps)
        return heads, score, counts

    def _run_in_pieces(
        self, parts: Parts, best_trees: NDArray[np.int32], steps: NDArray[np.float64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Spread the restarts of few sentences over threads, with the result of running them one after the other.

        Only those are run before which the search cannot have stopped, and of equal trees the first is kept.
        """
        count = len(parts.lengths)
        heads = parts.empty_trees()
        score = np.full(count, -np.inf)
        counts = np.zeros((count, 1 + len(COUNTERS)), dtype=np.int64)
        while True:
            last = np.full(count, self.restarts) if self.restarts else counts[:, FOUND] + self.patience + 1
            pieces = [(b, j) for b in range(count) for j in range(counts[b, RESTARTS], last[b], CHUNK)]
            if not pieces:
                return heads, counts
            sentences, firsts = np.array(pieces).T.copy()
            lasts = np.minimum(firsts + CHUNK, last[sentences])
            work = (sentences, firsts, lasts, NEVER, steps[sentences] * (lasts - firsts))
            for b, tree, value, new in zip(sentences, *self._run(parts, best_trees, *work)):
                counts[b, RESTARTS:] += new[RESTARTS:]
                if value > score[b]:
                    score[b], heads[b], counts[b, FOUND] = value, tree, new[FOUND]


class _State(NamedTuple):
    """A tree on its way up, and what is known of its sentence.

    A set takes W numbers of 64 bits. The modifiers on a side are held by their ranks, with START and END among them, so
    that the neighbours of any rank are found in a few instructions.
    """

    arc: NDArray[np.uint64]  # (n+1,) arc into each word
    place: NDArray[np.uint64]  # (n+1,) its place among the candidates of the word
    head: NDArray[np.uint64]  # (n+1,)
    chosen: NDArray[np.uint64]  # (2(n+1) W,) set of ranks for each side
    below: NDArray[np.uint64]  # ((n+1) W,) set of words below each word, itself included
    dirty: NDArray[np.uint64]  # (W,) set of words whose heads are to be looked at
    order: NDArray[np.uint64]  # (n,) words from the top down
    modifier: NDArray[np.uint64]  # (n+1,) last modifier of each word, 0 for none ...
    following: NDArray[np.uint64]  # (n+1,) ... and the one before it
    gain: NDArray[np.float64]  # (n+1,) what each candidate head of a word adds to the score
    candidates: NDArray[np.uint64]  # (2(n+1) W,) set of candidate modifiers of each side
    bound: NDArray[np.float64]  # (A,) `_join` of an arc is never more
    row_offsets: NDArray[np.uint64]  # (2(n+1),) where in `row` those of a side start
    row: NDArray[np.uint64]  # (A+2(n+1),) for a side and a rank a, entry of the siblings (a, b) less b
    keep: NDArray[np.float32]  # (A,) probability to keep an arc that is drawn ...
    alias: NDArray[np.uint32]  # (A,) ... and the place of the one to take instead
    root_weight: NDArray[np.float64]  # (n+1,) weight of the trees of which a word up to m is the only root word
    chain: NDArray[np.float64]  # (n, n) probabilities of steps between words
    memo: NDArray[np.float64]  # (n+1,) what `wide_gains` knows of the words above candidate heads ...
    path: NDArray[np.int64]  # (n+1,) ... number of each word on the last path, -1 if it is not there ...
    stack: NDArray[np.uint64]  # (n+1,) ... and words on the way to the root


@numba.njit(**KERNEL)
def _make_state(size, arcs, with_chain):
    """Room for sentences of up to size - 1 words and the given number of arcs."""
    words = size // 64 + 1
    square = size if with_chain else 1
    return _State(
        np.empty(size, np.uint64),
        np.empty(size, np.uint64),
        np.empty(size, np.uint64),
        np.empty(2 * size * words, np.uint64),
        np.empty(size * words, np.uint64),
        np.empty(words, np.uint64),
        np.empty(size, np.uint64),
        np.empty(size, np.uint64),
        np.empty(size, np.uint64),
        np.empty(size, np.float64),
        np.empty(2 * size * words, np.uint64),
        np.empty(arcs, np.float64),
        np.empty(2 * size, np.uint64),
        np.empty(arcs + 2 * size, np.uint64),
        np.empty(arcs, np.float32),
        np.empty(arcs, np.uint32),
        np.empty(size, np.float64),
        np.empty((square, square), np.float64),
        np.empty(size, np.float64),
        np.empty(size, np.int64),
        np.empty(size, np.uint64),
    )


@numba.njit(**KERNEL)
def _search(
    layout,
    wide,
    bits,
    best_trees,
    pieces,
    sentences,
    firsts,
    lasts,
    patience,
    law,
    best_first,
    temperature,
    seed,
    single_root,
    heads,
    score,
    counts,
):
    """Run the restarts of each piece, from the first to the last or until the best tree has stood for `patience`."""
    size, arcs = 1, 1
    for piece in pieces:
        b = sentences[piece]
        size = max(size, layout.lengths[b] + 1)
        arcs = max(arcs, layout.sentence_offsets[b + 1] - layout.sentence_offsets[b])
    state = _make_state(size, arcs, single_root and law != BEST)
    for piece in pieces:
        b = sentences[piece]
        n = np.uint64(layout.lengths[b])
        before = np.uint64(layout.word_offsets[b] - 1)
        node = np.uint64(layout.word_offsets[b] + b)
        _survey(layout, state, n, before, node)
        _bound(layout, state, n, before, node, law == BEST or wide is not None)
        key = _sentence_key(layout, bits, b, seed)
        if law != BEST:
            _prepare_walks(layout, state, b, law, temperature, single_root, best_trees)
        best = -np.inf
        found = j = firsts[piece]
        while j < lasts[piece] and j <= found + patience:
            if best_first and (j == 0 or law == BEST):
                _take(layout, state, b, best_trees)
            else:
                _draw(layout, state, b, _mix(key + np.uint64(j)), single_root, best_trees)
            _plant(layout, state, n, before, node)
            passes, moves, again = _climb(layout, wide, state, n, before, node, single_root, best, heads[piece])
            counts[piece, PASSES] += passes
            counts[piece, MOVES] += moves
            if not again:
                value = _score(layout, wide, state, n, before, node)
                if value > best:
                    best = value
                    found = j
                    for m in range(ONE, n + ONE):
                        heads[piece, m] = state.head[m]
            j += 1
        score[piece] = best
        counts[piece, FOUND] = found
        counts[piece, RESTARTS] = j - firsts[piece]


# Sides.


@numba.njit(**INNER)
def _side(h, m):
    """Number, within the sentence, of the side of h on which m is."""
    return h + h + np.uint64(m > h)


@numba.njit(**INNER)
def _side_size(layout, node, side):
    """J, the number of candidate modifiers on a side."""
    i = node + node + side
    return np.uint64(layout.side_offsets[i + ONE] - layout.side_offsets[i])


# Where climbs start.


@numba.njit(**INNER)
def _mix(x):
    """64 bits well scrambled: the output of splitmix64 (Steele, Lea and Flood, 2014) for the state x."""
    x += np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@numba.njit(**INNER)
def _sentence_key(layout, bits, b, seed):
    """A number made of the seed, the arcs of a sentence, and the bits of their scores."""
    key = _mix(np.uint64(seed))
    for w in range(layout.word_offsets[b], layout.word_offsets[b + 1]):
        start, end = layout.modifier_offsets[w], layout.modifier_offsets[w + 1]
        key = _mix(key ^ np.uint64(end - start))
        for k in range(start, end):
            key = _mix(key ^ (np.uint64(layout.head[k]) << np.uint64(32)) ^ np.uint64(bits[k]))
    return key


@numba.njit(**INNER)
def _steps(layout, b, m, single_root):
    """Arcs start..end - 1 into m that a walk takes: with a single root not the root's, which is the first."""
    w = layout.word_offsets[b] + m - 1
    start, end = layout.modifier_offsets[w], layout.modifier_offsets[w + 1]
    if single_root and start < end and layout.head[start] == 0:
        start += 1
    return start, end


@numba.njit(**INNER)
def _weigh_steps(layout, start, end, law, temperature, weight):
    """Weigh each arc of start..end - 1 beside the heaviest; return the sum, and the log of the sum as it truly is."""
    largest = -np.inf
    for k in range(start, end):
        largest = max(largest, np.float64(layout.arc_score[k]))
    total = 0.0
    for k in range(start, end):
        weight[k - start] = 1.0
        if law == FIRST_ORDER:
            weight[k - start] = np.exp(max((layout.arc_score[k] - largest) / temperature, FLOOR))
        total += weight[k - start]
    return total, np.log(total) + (largest / temperature if law == FIRST_ORDER else 0.0)


@numba.njit(**INNER)
def _prepare_walks(layout, state, b, law, temperature, single_root, best_trees):
    """Make the tables from which steps of walks are drawn, and with a single root its word."""
    n = layout.lengths[b]
    first_arc = layout.sentence_offsets[b]
    # Walker's alias method in the form of Vose (1991): of K arcs each is drawn alike, and then kept or exchanged.
    p, stack = state.gain, state.order
    for m in range(1, n + 1):
        start, end = _steps(layout, b, m, single_root)
        K = end - start
        total, _ = _weigh_steps(layout, start, end, law, temperature, p)
        small, large = 0, K  # those with less than 1/K are stacked from the bottom, the others from the top
        for i in range(K):
            p[i] *= K / total
            state.keep[start - first_arc + i] = 1.0
            state.alias[start - first_arc + i] = i
            if p[i] < 1.0:
                stack[small] = i
                small += 1
            else:
                large -= 1
                stack[large] = i
        while small > 0 and large < K:
            small -= 1
            poor, rich = np.int64(stack[small]), np.int64(stack[large])
            state.keep[start - first_arc + poor] = p[poor]
            state.alias[start - first_arc + poor] = rich
            p[rich] -= 1.0 - p[poor]
            if p[rich] < 1.0:
                large += 1
                stack[small] = rich
                small += 1
    if single_root:
        _weigh_roots(layout, state, b, law, temperature, best_trees)


@numba.njit(**INNER)
def _weigh_roots(layout, state, b, law, temperature, best_trees):
    """Fill root_weight for trees with a single root.

    Steps from modifier to head, the root left out, make a Markov chain. By the Markov chain tree theorem the trees
    of the words below m weigh in proportion to the stationary probability of m, each head over the sum of its word's.
    Grassmann, Taksar and Heyman (1985) find it without subtraction, taking one word after the other out of the chain.
    The last must be one that all walks reach, such as the root word of any tree: it changes places with word 1.
    """
    n = layout.lengths[b]
    chain, weight, root_weight = state.chain, state.gain, state.root_weight
    root = 1
    while best_trees[b, root] != 0:
        root += 1
    start, end = _steps(layout, b, root, True)
    fine = start < end  # else no other word can be the root's
    if fine:
        for m in range(1, n + 1):
            i = 0 if m == root else root - 1 if m == 1 else m - 1
            for j in range(n):
                chain[i, j] = 0.0
            start, end = _steps(layout, b, m, True)
            total, log_total = _weigh_steps(layout, start, end, law, temperature, weight)
            for k in range(start, end):
                h = layout.head[k]
                j = 0 if h == root else root - 1 if h == 1 else h - 1
                chain[i, j] = weight[k - start] / total
            k = layout.modifier_offsets[layout.word_offsets[b] + m - 1]
            root_weight[m] = -np.inf
            if layout.head[k] == 0:
                root_weight[m] = (layout.arc_score[k] / temperature if law == FIRST_ORDER else 0.0) - log_total
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
    largest = -np.inf
    if fine:
        stationary = weight
        stationary[0] = 1.0
        for v in range(1, n):
            stationary[v] = 0.0
            for i in range(v):
                stationary[v] += stationary[i] * chain[i, v]
        for m in range(1, n + 1):
            i = 0 if m == root else root - 1 if m == 1 else m - 1
            root_weight[m] = root_weight[m] + np.log(stationary[i]) if stationary[i] > 0.0 else -np.inf
            largest = max(largest, root_weight[m])
    root_weight[0] = 0.0
    for m in range(1, n + 1):
        if largest > -np.inf:
            root_weight[m] = root_weight[m - 1] + np.exp(root_weight[m] - largest)
        else:  # no other root word, or none that floats can tell from never
            root_weight[m] = np.float64(m >= root)


@numba.njit(**INNER)
def _draw(layout, state, b, key, single_root, best_trees):
    """Draw a tree with Wilson's walks, by random numbers that the key alone determines."""
    n = layout.lengths[b]
    first_arc = layout.sentence_offsets[b]
    draws = ZERO
    rooted = state.modifier  # 1 for the words from which there is a way to the root
    for even in range(2):
        rooted[: n + 1] = 0
        rooted[0] = 1
        if single_root:
            target = np.float64(_mix(key + draws) >> np.uint64(12)) * 2.0**-52 * state.root_weight[n]
            draws += ONE
            r = 1
            while state.root_weight[r] <= target:
                r += 1
            state.arc[r] = np.uint64(layout.modifier_offsets[layout.word_offsets[b] + r - 1])
            rooted[r] = 1
        left = WALK * np.int64(n)
        for v in range(1, n + 1):
            m = np.int64(v)
            while rooted[m] == 0 and left > 0:
                start, end = _steps(layout, b, m, single_root)
                random = _mix(key + draws)
                draws += ONE
                i = np.int64(((random >> np.uint64(32)) * np.uint64(end - start)) >> np.uint64(32))
                at = start - first_arc + i
                if even == 0 and np.float32(random & np.uint64(0xFFFFFF)) * np.float32(2.0**-24) >= state.keep[at]:
                    i = np.int64(state.alias[at])
                state.arc[m] = np.uint64(start + i)
                m = np.int64(layout.head[start + i])
                left -= 1
            if rooted[m] == 0:
                break
            m = np.int64(v)
            while rooted[m] == 0:
                rooted[m] = 1
                m = np.int64(layout.head[state.arc[m]])
        if left > 0:
            return
    _take(layout, state, b, best_trees)


@numba.njit(**INNER)
def _take(layout, state, b, trees):
    """Take a given tree."""
    n = layout.lengths[b]
    for m in range(1, n + 1):
        w = layout.word_offsets[b] + m - 1
        k = find_arc(layout.modifier_offsets[w], layout.modifier_offsets[w + 1], layout.head, trees[b, m], m, n)
        state.arc[m] = np.uint64(k)


# The tree.


@numba.njit(**INNER)
def _survey(layout, state, n, before, node):
    """Fill what depends on the sentence alone."""
    W = sets.words(n)
    for i in range(TWO * (n + ONE) * W):
        state.candidates[i] = ZERO
    first, end = layout.modifier_offsets[before + ONE], layout.modifier_offsets[before + n + ONE]
    for k in range(np.uint64(first), np.uint64(end)):
        m = np.uint64(layout.modifier[k])
        sets.add(state.candidates, _side(np.uint64(layout.head[k]), m) * W, m)
    start = ZERO
    for side in range(TWO * (n + ONE)):
        J = _side_size(layout, node, side)
        state.row_offsets[side] = start
        for a in range(J + ONE):  # may wrap below 0; sums with b wrap back
            state.row[start + a] = np.uint64(sibling_at(np.int64(J), np.int64(a), 0))
        start += J + ONE


@numba.njit(**INNER)
def _bound(layout, state, n, before, node, without):
    """Fill bound, from the largest parts that an arc may add and the least that it may undo.

    It is infinite, and rules nothing out, for a single climb, which would not repay it, and with types of `Wide`.
    """
    zero = np.uint64(layout.modifier_offsets[before + ONE])
    for i in range(np.uint64(layout.modifier_offsets[before + n + ONE]) - zero):
        state.bound[i] = np.inf if without else 0.0
    if without:
        return
    # For each rank the largest part with a nearer sibling, and with a farther one.
    inner, outer = state.gain, state.root_weight
    for side in range(ONE, TWO * (n + ONE)):  # the root has no left side
        h = side >> ONE
        J = _side_size(layout, node, side)
        rows = state.row_offsets[side]
        start = np.uint64(layout.side_offsets[node + node + side]) - ONE
        if len(layout.grandparent) > 0 and h > ZERO:
            for b in range(ONE, J + ONE):
                k = np.uint64(layout.outward[start + b])
                most = -np.inf
                block, end = layout.grandparent_offsets[k], layout.grandparent_offsets[k + ONE]
                for i in range(np.uint64(block), np.uint64(end)):
                    most = max(most, np.float64(layout.grandparent[i]))
                state.bound[k - zero] += most
        for with_grandparent in range(2):
            score = layout.grand_sibling if with_grandparent else layout.sibling
            if len(score) == 0 or (with_grandparent and h == ZERO):
                continue
            first, last = ZERO, ONE
            if with_grandparent:
                first = np.uint64(layout.modifier_offsets[before + h])
                last = np.uint64(layout.modifier_offsets[before + h + ONE])
            for b in range(ONE, J + ONE):
                inner[b] = outer[b] = -np.inf
            least = np.inf
            for g in range(first, last):
                block = np.uint64(layout.sibling_offsets[node + node + side])
                if with_grandparent:
                    block = np.uint64(layout.grand_sibling_offsets[TWO * g + (side & ONE)])
                for a in range(J + ONE):
                    for c in range(a + ONE, J + TWO):
                        value = np.float64(score[block + state.row[rows + a] + c])
                        least = min(least, value)
                        if a > ZERO:
                            outer[a] = max(outer[a], value)
                        if c <= J:
                            inner[c] = max(inner[c], value)
            for b in range(ONE, J + ONE):
                state.bound[np.uint64(layout.outward[start + b]) - zero] += inner[b] + outer[b] - least
        if len(layout.tri_sibling) > 0:
            for b in range(ONE, J + ONE):
                inner[b] = outer[b] = -np.inf
            least = np.inf
            e = np.uint64(layout.tri_sibling_offsets[node + node + side])
            for b in range(ONE, J + ONE):  # in the order of the entries
                most = -np.inf
                for a in range(b):
                    for c in range(b + ONE, J + TWO):
                        value = np.float64(layout.tri_sibling[e])
                        e += ONE
                        most = max(most, value)
                        least = min(least, value)
                        if a > ZERO:
                            outer[a] = max(outer[a], value)
                        if c <= J:
                            inner[c] = max(inner[c], value)
                state.bound[np.uint64(layout.outward[start + b]) - zero] += most
            for b in range(ONE, J + ONE):
                more = max(inner[b] - least, 0.0) + max(outer[b] - least, 0.0)
                state.bound[np.uint64(layout.outward[start + b]) - zero] += more
    if len(layout.any_sibling) > 0:
        for h in range(n + ONE):
            first = np.uint64(layout.side_offsets[node + node + h + h])
            last = np.uint64(layout.side_offsets[node + node + h + h + TWO])
            e = np.uint64(layout.any_sibling_offsets[node + h])
            for i in range(first, last):
                for j in range(i + ONE, last):
                    more = max(np.float64(layout.any_sibling[e]), 0.0)
                    e += ONE
                    state.bound[np.uint64(layout.outward[i]) - zero] += more
                    state.bound[np.uint64(layout.outward[j]) - zero] += more


@numba.njit(**INNER)
def _plant(layout, state, n, before, node):
    """Set up the tree whose arcs are given."""
    W = sets.words(n)
    for i in range((n + ONE) * W):
        state.below[i] = ZERO
        state.chosen[i] = ZERO
        state.chosen[(n + ONE) * W + i] = ZERO
    for side in range(TWO * (n + ONE)):
        sets.add(state.chosen, side * W, ZERO)
        sets.add(state.chosen, side * W, _side_size(layout, node, side) + ONE)
    for w in range(W):
        state.dirty[w] = ~ZERO
    for m in range(ONE, n + ONE):
        k = state.arc[m]
        state.head[m] = np.uint64(layout.head[k])
        state.place[m] = k - np.uint64(layout.modifier_offsets[before + m])
        _attach(layout, None, state, W, m)
        sets.add(state.below, m * W, m)
    _sort(state, n)
    for i in range(n):
        m = state.order[n - ONE - i]
        for w in range(W):
            state.below[state.head[m] * W + w] |= state.below[m * W + w]


@numba.njit(**INNER)
def _sort(state, n):
    """List the words from the top down, higher modifiers first: backwards it is the post-order, lower ones first."""
    for h in range(n + ONE):
        state.modifier[h] = ZERO
    for m in range(ONE, n + ONE):
        h = state.head[m]
        state.following[m] = state.modifier[h]
        state.modifier[h] = m
    m = state.modifier[0]
    for i in range(n):
        state.order[i] = m
        if state.modifier[m] != ZERO:
            m = state.modifier[m]
        else:
            while m != ZERO and state.following[m] == ZERO:
                m = state.head[m]
            m = state.following[m] if m != ZERO else ZERO


@numba.njit(**INNER)
def _attach(layout, wide, state, W, m):
    """Count m among the modifiers of its head, and for types of `Wide` all below m among the words below others."""
    if wide is not None:
        put_back(layout, state, W, m)
    else:
        sets.add(state.chosen, _side(state.head[m], m) * W, np.uint64(layout.rank[state.arc[m]]))


@numba.njit(**INNER)
def _detach(layout, wide, state, W, m):
    """Leave m out of the modifiers of its head, and for types of `Wide` all below m of the words below others."""
    if wide is not None:
        lift(layout, state, W, m)
    else:
        sets.remove(state.chosen, _side(state.head[m], m) * W, np.uint64(layout.rank[state.arc[m]]))


@numba.njit(**INNER)
def _move(layout, wide, state, n, before, m, k):
    """Give m the head of arc k, and list the words whose best heads may be others now."""
    W = sets.words(n)
    old, new = state.head[m], np.uint64(layout.head[k])
    _detach(layout, None, state, W, m)
    state.arc[m], state.head[m] = k, new
    state.place[m] = k - np.uint64(layout.modifier_offsets[before + m])
    _attach(layout, None, state, W, m)
    a = old
    while a != ZERO and not sets.has(state.below, a * W, new):  # up to where the ways from old and new meet
        for w in range(W):
            state.below[a * W + w] &= ~state.below[m * W + w]
        sets.add(state.dirty, ZERO, a)  # may now take heads below m
        a = state.head[a]
    top = a
    a = new
    while a != top:
        for w in range(W):
            state.below[a * W + w] |= state.below[m * W + w]
        a = state.head[a]
    if wide is not None:  # features look far
        for w in range(W):
            state.dirty[w] = ~ZERO
    _mark(state, W, _side(old, m))
    _mark(state, W, _side(new, m))
    if len(layout.any_sibling) > 0:
        _mark(state, W, _side(old, m) ^ ONE)
        _mark(state, W, _side(new, m) ^ ONE)
    if len(layout.grandparent) > 0 or len(layout.grand_sibling) > 0:
        _mark(state, W, m + m)
        _mark(state, W, m + m + ONE)
        sets.add(state.dirty, ZERO, old)
        sets.add(state.dirty, ZERO, new)
    if len(layout.head_bigram) > 0:
        sets.add(state.dirty, ZERO, m - ONE)
        sets.add(state.dirty, ZERO, m + ONE)


@numba.njit(**INNER)
def _mark(state, W, side):
    """List the candidate modifiers of a side."""
    for w in range(W):
        state.dirty[w] |= state.candidates[side * W + w]


@numba.njit(**INNER)
def _climb(layout, wide, state, n, before, node, single_root, best, best_heads):
    """Change heads until no change helps. Returns passes, moves, and whether it came to the best tree known before."""
    W = sets.words(n)
    zero = np.uint64(layout.modifier_offsets[before + ONE])
    gain = state.gain
    passes = 0
    moves = 0
    score = -np.inf
    moved = True
    while True:
        while moved:
            moved = False
            passes += 1
            if passes % 16 == 0:  # where sums lose too many digits, heads could change in circles
                value = _score(layout, wide, state, n, before, node)
                if value <= score:
                    return passes, moves, False
                score = value
            for i in range(n):
                m = state.order[n - ONE - i]
                if not sets.has(state.dirty, ZERO, m):
                    continue
                sets.remove(state.dirty, ZERO, m)
                if single_root and state.head[m] == ZERO:
                    continue
                start = np.uint64(layout.modifier_offsets[before + m])
                K = np.uint64(layout.modifier_offsets[before + m + ONE]) - start
                _weigh(layout, state, n, before, node, m)
                if wide is not None:
                    weigh_wide(layout, wide, state, n, before, node, m, False)
                choice = state.place[m]
                largest = now = -np.inf
                for step in range(K + ONE):  # the present head first: most others need only their bound then
                    i = step - ONE if step > ZERO else state.place[m]
                    h = np.uint64(layout.head[start + i])
                    if gain[i] + state.bound[start - zero + i] <= largest:
                        continue
                    if sets.has(state.below, m * W, h) or (single_root and h == ZERO):
                        continue
                    value = gain[i] + _join(layout, state, node, W, m, h, start + i)
                    if value > largest:
                        largest = value
                        choice = i
                    if step == ZERO:
                        now = value
                if largest - now > TOLERANCE * (1.0 + abs(now)):
                    _move(layout, wide, state, n, before, m, start + choice)
                    sets.remove(state.dirty, ZERO, m)  # nothing has changed for itself
                    moved = True
                    moves += 1
            if moved:
                _sort(state, n)
        again = best > -np.inf
        for m in range(ONE, n + ONE):
            again &= state.head[m] == np.uint64(best_heads[m])
        if again or not single_root or not _move_root(layout, wide, state, n, before, node):
            return passes, moves, again
        moves += 2
        moved = True
        _sort(state, n)


@numba.njit(**INNER)
def _move_root(layout, wide, state, n, before, node):
    """Hang another word w from the root, and the old root word r from a word below w, if that raises the score.

    All such pairs are tried, and the best is taken. Returns whether there was one.
    """
    largest = 0.0
    new_root, new_arc = ZERO, ZERO
    for w in range(ONE, n + ONE):
        change, scale, choice = _weigh_root(layout, wide, state, n, before, node, w)
        if change > TOLERANCE * scale and change > largest:
            largest = change
            new_root, new_arc = w, choice
    if new_root == ZERO:
        return False
    r = state.modifier[0]
    for m in (new_root, r):
        chosen = new_arc if m == r else np.uint64(layout.modifier_offsets[before + m])
        _move(layout, wide, state, n, before, m, chosen)
    sets.add(state.dirty, ZERO, r)
    return True


@numba.njit(**INNER)
def _weigh_root(layout, wide, state, n, before, node, w):
    """Try to hang w from the root, and the root word from the best word below w.

    Returns the change, the size of what was added up, and the arc to the old root word; -inf if there is none.
    """
    W = sets.words(n)
    gain = state.gain
    r = state.modifier[0]
    zero = np.uint64(layout.modifier_offsets[before + ONE])
    start = np.uint64(layout.modifier_offsets[before + r])
    end = np.uint64(layout.modifier_offsets[before + r + ONE])
    root_arc = np.uint64(layout.modifier_offsets[before + w])
    change, scale, choice = -np.inf, 1.0, start
    reached = False
    if w != r and layout.head[root_arc] == 0:
        for k in range(start + ONE, end):
            reached |= sets.has(state.below, w * W, np.uint64(layout.head[k]))
    if reached:
        # First w moves from its head to the root, beside r, then r from the root to x.
        arc, place, h = state.arc[w], state.place[w], state.head[w]
        _weigh(layout, state, n, before, node, w)
        if wide is not None:
            weigh_wide(layout, wide, state, n, before, node, w, True)
        change = 0.0
        for i in (place, ZERO):
            head = h if i == place else ZERO
            value = gain[i] + _join(layout, state, node, W, w, head, root_arc + i)
            change = value - change
            scale += abs(value)
        _detach(layout, wide, state, W, w)
        state.arc[w], state.place[w], state.head[w] = root_arc, ZERO, ZERO
        _attach(layout, wide, state, W, w)
        _weigh(layout, state, n, before, node, r)
        if wide is not None:
            weigh_wide(layout, wide, state, n, before, node, r, False)
        best = -np.inf
        for k in range(start, end):
            x = np.uint64(layout.head[k])
            if k > start and (gain[k - start] + state.bound[k - zero] <= best or not sets.has(state.below, w * W, x)):
                continue
            value = gain[k - start] + _join(layout, state, node, W, r, x, k)
            if k == start:
                change -= value
                scale += abs(value)
            elif value > best:
                best = value
                choice = np.uint64(k)
        change += best
        _detach(layout, wide, state, W, w)
        state.arc[w], state.place[w], state.head[w] = arc, place, h
        _attach(layout, wide, state, W, w)
    return change, scale, choice


@numba.njit(**INNER)
def _weigh(layout, state, n, before, node, m):
    """Set gain to what each candidate head of m adds by its arc, as a grandparent below, and as a neighbour's head."""
    W = sets.words(n)
    gain = state.gain
    word = before + m
    start = np.uint64(layout.modifier_offsets[word])
    K = np.uint64(layout.modifier_offsets[word + ONE]) - start
    for i in range(K):
        gain[i] = layout.arc_score[start + i]
    if len(layout.grandparent) > 0 or len(layout.grand_sibling) > 0:
        for right in range(2):
            side = m + m + np.uint64(right)
            first = np.uint64(layout.side_offsets[node + node + side]) - ONE
            end = _side_size(layout, node, side) + ONE
            a = ZERO
            while a < end:
                c = sets.following(state.chosen, side * W, a)
                if len(layout.grand_sibling) > 0:
                    entry = state.row[state.row_offsets[side] + a] + c
                    for i in range(K):
                        block = np.uint64(layout.grand_sibling_offsets[(start + i) * TWO + np.uint64(right)])
                        gain[i] += layout.grand_sibling[block + entry]
                if len(layout.grandparent) > 0 and c < end:
                    block = np.uint64(layout.grandparent_offsets[np.uint64(layout.outward[first + c])])
                    for i in range(K):
                        gain[i] += layout.grandparent[block + i]
                a = c
    if len(layout.head_bigram) > 0:
        if m > ONE:
            block = np.uint64(layout.head_bigram_offsets[word]) + state.place[m - ONE] * K
            for i in range(K):
                gain[i] += layout.head_bigram[block + i]
        if m < n:
            stride = np.uint64(layout.modifier_offsets[word + TWO] - layout.modifier_offsets[word + ONE])
            block = np.uint64(layout.head_bigram_offsets[word + ONE]) + state.place[m + ONE]
            for i in range(K):
                gain[i] += layout.head_bigram[block + i * stride]


@numba.njit(**INNER)
def _join(layout, state, node, W, m, h, k):
    """What arc k from h to m adds by its head's head and by its siblings, whether m is one of them now or not."""
    side = _side(h, m)
    b = np.uint64(layout.rank[k])
    a = sets.previous(state.chosen, side * W, b)
    c = sets.following(state.chosen, side * W, b)
    row_a = state.row[state.row_offsets[side] + a]
    row_b = state.row[state.row_offsets[side] + b]
    total = 0.0
    if len(layout.grandparent) > 0 and h > ZERO:
        total += layout.grandparent[np.uint64(layout.grandparent_offsets[k]) + state.place[h]]
    if len(layout.sibling) > 0:
        block = np.uint64(layout.sibling_offsets[node + node + side])
        total += layout.sibling[block + row_a + b]
        total += layout.sibling[block + row_b + c]
        total -= layout.sibling[block + row_a + c]
    if len(layout.grand_sibling) > 0 and h > ZERO:
        block = np.uint64(layout.grand_sibling_offsets[state.arc[h] * TWO + (side & ONE)])
        total += layout.grand_sibling[block + row_a + b]
        total += layout.grand_sibling[block + row_b + c]
        total -= layout.grand_sibling[block + row_a + c]
    if len(layout.tri_sibling) > 0:
        total += _tri_sibling_gain(layout, state, node, side, W, a, b, c)
    if len(layout.any_sibling) > 0:
        total += _any_sibling_gain(layout, state, node, h, side, W, b)
    return total


@numba.njit(**INNER)
def _tri_sibling_gain(layout, state, node, side, W, a, b, c):
    """What b adds between a and c."""
    block = layout.tri_sibling_offsets[node + node + side]
    J = np.int64(_side_size(layout, node, side))
    i, j, k = np.int64(a), np.int64(b), np.int64(c)
    total = np.float64(layout.tri_sibling[block + tri_sibling_at(J, i, j, k)])
    if i > 0:
        z = np.int64(sets.previous(state.chosen, side * W, a))
        total += layout.tri_sibling[block + tri_sibling_at(J, z, i, j)]
        total -= layout.tri_sibling[block + tri_sibling_at(J, z, i, k)]
    if k <= J:
        d = np.int64(sets.following(state.chosen, side * W, c))
        total += layout.tri_sibling[block + tri_sibling_at(J, j, k, d)]
        total -= layout.tri_sibling[block + tri_sibling_at(J, i, k, d)]
    return total


@numba.njit(**INNER)
def _any_sibling_gain(layout, state, node, h, side, W, b):
    """What the modifier of rank b adds beside the modifiers of h, on both sides."""
    block = layout.any_sibling_offsets[node + h]
    left = np.int64(_side_size(layout, node, h + h))
    J = left + np.int64(_side_size(layout, node, h + h + ONE))
    i = np.int64(b) - 1 + (left if side & ONE else 0)
    total = 0.0
    for right in range(2):
        start = (h + h + np.uint64(right)) * W
        size = J - left if right else left
        s = sets.following(state.chosen, start, ZERO)
        while np.int64(s) <= size:
            j = np.int64(s) - 1 + right * left
            if i != j:
                total += layout.any_sibling[block + any_sibling_at(J, min(i, j), max(i, j))]
            s = sets.following(state.chosen, start, s)
    return total


@numba.njit(**INNER)
def _score(layout, wide, state, n, before, node):
    """Score of the tree."""
    W = sets.words(n)
    total = 0.0
    if wide is not None:
        total += wide_score(layout, wide, state, n, before, node)
    for m in range(ONE, n + ONE):
        k, h = state.arc[m], state.head[m]
        total += layout.arc_score[k]
        if len(layout.grandparent) > 0 and h > ZERO:
            total += layout.grandparent[np.uint64(layout.grandparent_offsets[k]) + state.place[h]]
        if len(layout.head_bigram) > 0 and m > ONE:
            word = before + m
            K = np.uint64(layout.modifier_offsets[word + ONE] - layout.modifier_offsets[word])
            block = np.uint64(layout.head_bigram_offsets[word])
            total += layout.head_bigram[block + state.place[m - ONE] * K + state.place[m]]
        if len(layout.any_sibling) > 0:
            side = _side(h, m)
            total += 0.5 * _any_sibling_gain(layout, state, node, h, side, W, np.uint64(layout.rank[k]))
    for side in range(ONE, TWO * (n + ONE)):  # the root has no left side
        h = side >> ONE
        J = _side_size(layout, node, side)
        sibling = np.uint64(layout.sibling_offsets[node + node + side])
        z, a = ZERO, ZERO
        while a <= J:
            c = sets.following(state.chosen, side * W, a)
            entry = state.row[state.row_offsets[side] + a] + c
            if len(layout.sibling) > 0:
                total += layout.sibling[sibling + entry]
            if len(layout.grand_sibling) > 0 and h > ZERO:
                block = np.uint64(layout.grand_sibling_offsets[state.arc[h] * np.uint64(2) + (side & ONE)])
                total += layout.grand_sibling[block + entry]
            if len(layout.tri_sibling) > 0 and a > ZERO:
                at = tri_sibling_at(np.int64(J), np.int64(z), np.int64(a), np.int64(c))
                total += layout.tri_sibling[layout.tri_sibling_offsets[node + node + side] + at]
            z, a = a, c
    return total


# What tests look at: the trees that climbs start from, and what single changes add.


@numba.njit(**KERNEL)
def sample(layout, bits, best_trees, b, law, temperature, seed, single_root, trees):
    """Draw the trees from which restarts 1, 2, ... of sentence b climb; best_trees must hold a tree of it."""
    arcs = layout.sentence_offsets[b + 1] - layout.sentence_offsets[b]
    state = _make_state(layout.lengths[b] + 1, arcs, single_root)
    _prepare_walks(layout, state, b, law, temperature, single_root, best_trees)
    key = _sentence_key(layout, bits, b, seed)
    for j in range(len(trees)):
        _draw(layout, state, b, _mix(key + np.uint64(j + 1)), single_root, best_trees)
        for m in range(1, layout.lengths[b] + 1):
            trees[j, m] = layout.head[state.arc[m]]


@numba.njit(**KERNEL)
def head_gains(layout, wide, trees, b, m, gains):
    """Set gains to what each candidate head of word m of sentence b adds to the score, the rest of the tree given.

    Differences alone mean something, and those of heads below m nothing.
    """
    n, node = np.uint64(layout.lengths[b]), np.uint64(layout.word_offsets[b] + b)
    before = np.uint64(layout.word_offsets[b] - 1)
    state = _make_state(layout.lengths[b] + 1, layout.sentence_offsets[b + 1] - layout.sentence_offsets[b], False)
    _survey(layout, state, n, before, node)
    _take(layout, state, b, trees)
    _plant(layout, state, n, before, node)
    _weigh(layout, state, n, before, node, np.uint64(m))
    if wide is not None:
        weigh_wide(layout, wide, state, n, before, node, np.uint64(m), False)
    start = np.uint64(layout.modifier_offsets[before + np.uint64(m)])
    for i in range(np.uint64(len(gains))):
        h = np.uint64(layout.head[start + i])
        gains[i] = state.gain[i] + _join(layout, state, node, sets.words(n), np.uint64(m), h, start + i)


@numba.njit(**KERNEL)
def root_gains(layout, wide, trees, b, gains, heads):
    """Set gains[w] to the change of the score if w becomes the root word of sentence b, -inf if it cannot.

    The old root word then takes the best head below w, heads[w]. The tree must have a single root.
    """
    n, node = np.uint64(layout.lengths[b]), np.uint64(layout.word_offsets[b] + b)
    before = np.uint64(layout.word_offsets[b] - 1)
    state = _make_state(layout.lengths[b] + 1, layout.sentence_offsets[b + 1] - layout.sentence_offsets[b], False)
    _survey(layout, state, n, before, node)
    _bound(layout, state, n, before, node, wide is not None)
    _take(layout, state, b, trees)
    _plant(layout, state, n, before, node)
    for w in range(ONE, n + ONE):
        gains[w], _, k = _weigh_root(layout, wide, state, n, before, node, w)
        heads[w] = layout.head[k]
