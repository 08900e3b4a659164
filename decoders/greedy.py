"""Greedy decoding of arcs and higher-order parts over all trees, projective or not.

Tchernowitz, Yedidsion and Reichart (2016), "Effective greedy inference for graph-based non-projective dependency
parsing". Arcs are added one by one to a forest T, the best first, until it is a tree. An arc e = (u, v) makes others
impossible, the lost arcs L(e): the other arcs into v, and those from below v into r, the top of u. G is what is left.

- Algorithm 1 (`partial=False`): loss(e) is the weight of all parts that are lost with e, gain(e) of those that e
  completes, and e with the least `loss - gain` is added.
- Algorithm 2: each part counts with the probability that it will be there, p(part | T) = product of p_e over its arcs
  that are not in T, where p_e is the softmax of alpha times the arc scores of a word. loss(e) sums over the lost parts,
  gain(e) over those which hold e, given T and e; the arc with the least `beta loss - (1 - beta) gain` is added.
- Beam search, improvements after the search (`improve`), and a bias towards the trees of another parser (`lean`).

Where the paper is silent, or left:
- A part counts while its arcs are in T or G, even if they make a cycle with T. One that holds e and a lost arc is lost.
  Probabilities are those of all candidates; they are not normalised again as arcs get lost. p > 1 - 1e-6 counts as 1.
- With a single root, all other arcs of the root are lost with the first.
- Parts that need arcs to be absent (`sibling`, `grand_sibling`, `tri_sibling`), which the paper leaves out, are in
  (`absent=True`): p(part | T, G) = product of p_e over present arcs not in T, and of 1 - p_e over absent ones in G. A
  part is lost when a present arc is lost or e is one of the absent. The gain also counts what parts without e win, in
  probability, as absent arcs get lost: W (p(part | T, G \\ L) - p(part | T, G)). In Algorithm 1 such a part is
  complete when its arcs are in T and none of the absent is in G. All this is exact, not an estimate: no two arcs of one
  side change at once (but those of the root, where one closed form is left), so two numbers for each arc are enough,
  the expected weight of the parts that hold it and of those it would break. They are sums over pairs of modifiers.
- An arc after which no tree is left is deleted instead of added. A tree that extends T is kept as a witness, so that
  a look for another is seldom needed. The search never ends without a tree.
- States of the beam with the same arcs are merged. The final tree is the one that scores best.

Complexity for K candidate heads a word and J candidate modifiers a side. Each arc changes once, and tells the parts
that hold it: O(n K^2) in all. Values are found afresh at each step from sums over arcs, O(n K) a step, so O(n^2 K) in
all, with a small constant; O(n^3) where all arcs are candidates. Siblings: a side is summed again when one of its arcs
changes, O(n K J^2), J falling as arcs get lost; `tri_sibling` O(n K J^3), `grand_sibling` O(n K^2 J^2). All this is
done for each state of the beam, which is copied in O(n K), with `grand_sibling` in O(n K^2). A round of improvements
takes O(n K (J + depth of the tree)). Memory: O(n K) for each state, with `grand_sibling` O(n K^2), and O(n^2).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from arbora.decoders.layout import HELPER, any_sibling_at, sibling_at, tri_sibling_at
from arbora.decoders.parts import FOUR_WORDS, Parts
from arbora.decoders.threads import over_sentences
from arbora.decoders.trees import Decoder, Trees

KERNEL: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}
"""Options of a kernel that is called once a step; like `HELPER` it must not allocate."""

DEAD, FREE, TAKEN = 0, 1, 2  # of an arc: lost, in G, in T
BEGIN, COMMIT, DELETE = 0, 1, 2
SURE = 1.0 - 1e-6


class Beam(NamedTuple):
    """Where the search ended: up to `beam` trees for each of B sentences, the best value first.

    Args:
        heads: (beam, B, N) as in `Trees.heads`; rows of -1 where the beam had fewer states.
        value: (beam, B) sum of the values of the arcs at the time they were added, inf where there is no tree.
        counters: as in `Trees.counters`.
    """

    heads: NDArray[np.int32]
    value: NDArray[np.float64]
    counters: dict[str, NDArray[np.int64]]


@dataclass(frozen=True)
class Greedy(Decoder):
    """Adds the best arc to a forest until it is a tree; no bound, no proof, but fast at any order.

    Counters: `steps` (forests of which all arcs were valued), `repairs` (arcs for which the witness had to change),
    `deleted` (arcs after which no tree was left), `duplicates` (forests found twice), `swaps` (improvements made).
    Certified are only trees of first order in which each word has its best head.

    Args:
        alpha: sharpness of the arc probabilities, the softmax of `alpha` times the arc scores of a word. 1 suits scores
            that were trained with cross-entropy, 0 makes all heads equally likely.
        beta: weight of what an arc loses, against 1 - beta of what it gains; in 0..1.
        beam: how many forests are extended side by side.
        improvements: how many times at most the best swap of arcs is made after the search.
        partial: count parts that may come (Algorithm 2); otherwise only those complete or lost (Algorithm 1), which
            reads neither `alpha` nor `beta`.
        absent: let the search see parts that need arcs to be absent. Scores and improvements always do.
        single_root: allow exactly one modifier of the root.
    """

    alpha: float = 1.0
    beta: float = 0.5
    beam: int = 3
    improvements: int = 5
    partial: bool = True
    absent: bool = True
    single_root: bool = True

    def __post_init__(self) -> None:
        if not (np.isfinite(self.alpha) and self.alpha >= 0):
            raise ValueError(f"alpha must be finite and not negative, got {self.alpha}")
        if not 0 <= self.beta <= 1:
            raise ValueError(f"beta must lie in 0..1, got {self.beta}")
        if self.beam < 1:
            raise ValueError(f"beam must be at least 1, got {self.beam}")
        if self.improvements < 0:
            raise ValueError(f"improvements must not be negative, got {self.improvements}")

    def __call__(self, parts: Parts) -> Trees:
        beam = self.search(parts)
        heads = beam.heads[0]
        score = parts.score(heads)
        for other in beam.heads[1:]:
            found = other[:, 1] >= 0 if other.shape[1] > 1 else np.zeros(len(score), dtype=np.bool_)
            rival = np.where(found, parts.score(np.where(found[:, None], other, heads)), -np.inf)
            better = rival > score
            heads = np.where(better[:, None], other, heads)
            score = np.where(better, rival, score)
        swaps = _improve_all(parts, heads, self.improvements, self.single_root)
        return _trees(parts, heads, {**beam.counters, "swaps": swaps})

    def search(self, parts: Parts) -> Beam:
        """Run the search alone, without improvements.

        Raises:
            ValueError: when a sentence has no tree among its candidate arcs, naming the sentence and the reason.
        """
        none = np.empty((0, 0), dtype=np.int32)
        return self._run(parts, none, np.empty(0))

    def values(self, parts: Parts, forest: ArrayLike) -> NDArray[np.float64]:
        """Value of each arc that could be added to a forest; the search adds one with the least.

        Args:
            parts: arcs and higher-order parts of a batch.
            forest: (B, N) as in `Trees.heads`, but -1 also for words without a head. Its arcs must be candidates.

        Returns:
            (A,) inf for arcs that are in the forest already or would not leave it a forest.
        """
        heads = np.ascontiguousarray(forest, dtype=np.int32)
        shape = parts.empty_trees().shape
        if heads.shape != shape:
            raise ValueError(f"forest must be {shape}, got {heads.shape}")
        sentence = np.repeat(np.arange(len(parts.lengths)), np.diff(parts.sentence_offsets))
        known = np.bincount(sentence[heads[sentence, parts.modifier] == parts.head], minlength=len(parts.lengths))
        if (wrong := known != (heads >= 0).sum(1)).any():
            raise ValueError(f"sentence {int(np.argmax(wrong))}: the forest has an arc that is no candidate")
        values = np.full(len(parts.head), np.inf)
        self._run(parts, heads, values)
        return values

    def _run(self, parts: Parts, forest: NDArray[np.int32], values: NDArray[np.float64]) -> Beam:
        layout = parts.layout
        if not self.absent:
            none = np.empty(0, dtype=np.float32)
            layout = layout._replace(sibling=none, grand_sibling=none, tri_sibling=none)
        B, N = parts.empty_trees().shape
        heads = np.full((self.beam, B, N), -1, dtype=np.int32)
        value = np.full((self.beam, B), np.inf)
        counters = np.zeros((4, B), dtype=np.int64)
        status = np.zeros(B, dtype=np.int32)
        # Of these types whatever the user gave, as the kernel is compiled for each.
        settings = (float(self.alpha), float(self.beta), bool(self.partial), bool(self.single_root), int(self.beam))
        over_sentences(
            lambda sentences: _search(sentences, layout, settings, forest, values, heads, value, counters, status),
            _steps(parts) * self.beam,
        )
        if np.count_nonzero(status):
            b = int(np.flatnonzero(status)[0])
            raise ValueError(f"sentence {b}: {_why_no_tree(parts.subset([b]))}")
        names = ("steps", "repairs", "deleted", "duplicates")
        return Beam(heads, value, dict(zip(names, counters, strict=True)))


def improve(parts: Parts, heads: ArrayLike, rounds: int = 5, single_root: bool = True) -> Trees:
    """Improve trees, of whichever decoder, by swaps of arcs: in each round the one that raises the score most is made.

    A word v with head u takes another candidate u'. Where u' is below v, the child w of v above u' takes u with it.
    Each swap leaves a tree. With a single root the first kind of swap never touches the root's arc, the second may.

    Args:
        parts: arcs and higher-order parts of the batch.
        heads: (B, N) as in `Trees.heads`; trees of candidate arcs, with one root if `single_root`.
        rounds: at most so many swaps for each sentence.
        single_root: keep exactly one modifier of the root.

    Raises:
        ValueError: when a tree uses an arc that is no candidate.
    """
    score = parts.score(heads)
    if not np.isfinite(score).all():
        b = int(np.argmin(np.isfinite(score)))
        raise ValueError(f"sentence {b}: the tree to be improved has an arc that is no candidate")
    trees = np.array(heads, dtype=np.int32)[:, : parts.empty_trees().shape[1]].copy()
    if single_root and (wrong := ((trees == 0).sum(1) != 1)).any():
        raise ValueError(f"sentence {int(np.argmax(wrong))}: the tree to be improved must have a single root")
    swaps = _improve_all(parts, trees, rounds, single_root)
    return _trees(parts, trees, {"swaps": swaps})


def lean(parts: Parts, heads: ArrayLike, gamma: Sequence[float]) -> Parts:
    """Make parts score more that are in given trees, those of another parser: the paper's ensemble.

    Args:
        parts: arcs and higher-order parts of the batch.
        heads: (B, N) as in `Trees.heads`; arcs that are no candidates count as not being there.
        gamma: what is added to parts of first order (arcs), of second, and of third; orders beyond its length get 0.

    Returns:
        The same parts with other scores. The score of a tree under these is not its score under `parts`.
    """
    scores = {}
    for kind, entries in parts.active(heads).items():
        order = 1 if kind == "arc" else 3 if kind in FOUR_WORDS else 2
        if order <= len(gamma) and gamma[order - 1] != 0:
            name = "arc_score" if kind == "arc" else kind
            scores[name] = getattr(parts, name).copy()
            scores[name][entries] += np.float32(gamma[order - 1])
    return parts.with_scores(**scores) if scores else parts


def _improve_all(parts: Parts, heads: NDArray[np.int32], rounds: int, single_root: bool) -> NDArray[np.int64]:
    """Improve trees in place; the number of swaps for each sentence."""
    swaps = np.zeros(len(parts.lengths), dtype=np.int64)
    if rounds > 0:
        layout = parts.layout
        over_sentences(
            lambda sentences: _improve(sentences, layout, rounds, single_root, heads, swaps),
            _steps(parts) * 0.5,
        )
    return swaps


def _trees(parts: Parts, heads: NDArray[np.int32], counters: dict[str, NDArray[np.int64]]) -> Trees:
    """Trees with exact scores. Proved best are those of first order in which each word has its best head."""
    score = parts.score(heads)
    certified = np.zeros(len(score), dtype=np.bool_)
    if not parts.kinds and len(parts.head):
        best = np.maximum.reduceat(parts.arc_score, parts.modifier_offsets[:-1])  # (W,)
        has_best = parts.arc_score[parts.active(heads)["arc"]] == best
        certified = np.logical_and.reduceat(has_best, parts.word_offsets[:-1])
    return Trees(heads, score, bound=None, certified=certified, counters=counters)


def _steps(parts: Parts) -> NDArray[np.float64]:
    """About how many innermost steps the search takes for each sentence."""
    arcs = np.diff(parts.sentence_offsets).astype(np.float64)
    steps = arcs * parts.lengths * 4
    for kind in parts.kinds:
        steps += np.diff(parts.part_offsets(kind)) * (8.0 if "sibling" in kind else 2.0)
    return steps


def _why_no_tree(parts: Parts) -> str:
    """Why the one sentence of `parts` has no tree."""
    n = int(parts.lengths[0])
    for m in range(1, n + 1):
        if parts.modifier_offsets[m - 1] == parts.modifier_offsets[m]:
            return f"no tree: word {m} has no candidate head"
    reached = np.zeros(n + 1, dtype=np.bool_)
    reached[0] = True
    for _ in range(n):
        reached[parts.modifier[reached[parts.head]]] = True
    if not reached.all():
        return f"no tree: no candidate arcs lead from the root to word {int(np.argmin(reached))}"
    return "no tree with a single root"


# A tuple of many arrays is slow to compile wherever a kernel reads a field of it. So there are few arrays, each of
# several rows, and kernels take the tuples apart once, at the top.

HEAD, MODIFIER, OUT, PLACE = range(4)  # rows of `_Sentence.arcs`
RANK, TAKEN_ARC, QUEUE, SEEN, TOPS = range(5)  # rows of `_Scratch.marks`
WEIGHT, LACK, HELD, BROKE, CHANGE, INNER, OUTER = range(7)  # rows of `_Scratch.sums`
VALUE, LOSS, GAIN, FREED, CHANCE = range(5)  # rows of `_Scratch.table` ...
TWICE, TWICE_BROKEN, BIGRAM = 5, 7, 9  # ... two of each, and four of the last
ALONE, BELOW, HOLD, BROKEN, ABOVE4, BELOW4, BROKEN4, TOTAL4 = range(8)  # of `_Forest.table`; TOTAL4 has two
TREE, TOP, WITNESS = range(3)  # rows of `_Forest.words`
ROOT_KEPT, ROOT_ANY = range(2)  # rows of `_Forest.root`


class _Sentence(NamedTuple):
    """Candidate arcs of one sentence, numbered from 0.

    Two weightings of arcs in G may be at work: the first for losses, the last for gains. Algorithm 2 has one, p and
    1 - p. Algorithm 1 counts 1 and 1 for losses, so that all parts alive count, and 0 and 0 for gains, so that only
    complete ones do. In both, arcs in T weigh 1 and 0, lost arcs 0 and 1.
    """

    start: NDArray[np.int64]  # arcs into word m are start[m]:start[m + 1]
    side: NDArray[np.int64]  # arcs of a side are OUT[side[2 * h + right]:side[2 * h + right + 1]]
    arcs: NDArray[np.int32]  # (4, A) HEAD, MODIFIER, OUT: arcs by (head, side, distance), PLACE: of each arc in OUT
    arc: NDArray[np.int32]  # [h * (n + 1) + m] number of the arc, -1 if it is no candidate
    weight: NDArray[np.float64]  # (2, weightings, A) of an arc in G that is to be present, or absent


class _Forest(NamedTuple):
    """States of the beam, one a row; where there are two weightings, rows 2 s and 2 s + 1 of floating numbers."""

    # (beam, 3, N) TREE: arc into each word, -1 where it has none; TOP: ancestor without a head, 0 below the root;
    # WITNESS: arc into each word in some tree that extends the forest
    words: NDArray[np.int32]
    state: NDArray[np.int8]  # (beam, A) of each arc: DEAD, FREE or TAKEN
    # (rows, 4 or 9, A) Expected weight of the parts that hold an arc, given that it is there: ALONE: itself, any
    # siblings, head bigrams, and grandparents in which it is the upper arc; BELOW: grandparents in which it is the
    # lower; HOLD: siblings and tri-siblings; ABOVE4, BELOW4: grand-siblings in which it is the upper arc, a lower one;
    # TOTAL4: those of the upper arc, left and right. Expected weight of the parts that need it to be absent, given that
    # it is: BROKEN: siblings and tri-siblings; BROKEN4: grand-siblings
    table: NDArray[np.float64]
    # (rows, 2, P) the same of grand-siblings for pairs of upper and lower arc, addressed as grandparents: those that
    # hold both, and those of the upper that the lower would break
    pair: NDArray[np.float64]
    # (rows, 2, N) of the root's side, for a single root: ROOT_KEPT: what a word has of its siblings without any other
    # modifier, and at 0 all siblings; ROOT_ANY: any siblings of a word as modifier
    root: NDArray[np.float64]


class _Scratch(NamedTuple):
    """What a state needs for a short time."""

    # (2, 2N) sides, and heads, of which an arc has changed
    dirty: NDArray[np.bool_]
    # (5, max(J, N, A)) RANK, TAKEN_ARC: of a side from START to END, lost arcs left out; QUEUE, SEEN: of words or arcs;
    # TOPS: of the head of each arc
    marks: NDArray[np.int32]
    # (7, J) of such a side: WEIGHT and LACK of arcs as present and as absent, and sums over pairs
    sums: NDArray[np.float64]
    triples: NDArray[np.float64]  # (2, J J)
    # (13, A) VALUE; LOSS: what is lost with an arc; GAIN: what is gained with it; FREED: what parts win that need it to
    # be absent, when it is lost; CHANCE: its weight, 0 if lost. Of an arc (r, v) with all arcs (a, r), a below v,
    # TWICE: what they are in together (for losses, for gains), TWICE_BROKEN: what it would break of theirs. BIGRAM:
    # head bigrams of an arc into v with all arcs from below v into v - 1 (losses, gains) and into v + 1
    table: NDArray[np.float64]
    below: NDArray[np.float64]  # (2, N N) [r * (n + 1) + v] LOSS and FREED of all arcs into r from below v
    totals: NDArray[np.float64]  # (2, N) LOSS and FREED of all arcs into a word


@numba.njit(cache=True, nogil=True)
def _search(sentences, layout, settings, given, values, heads, value_of, counters, status):
    """Fill heads[:, b] and value_of[:, b]; or, where `given` holds forests, only `values` of the arcs."""
    alpha, beta, partial, single_root, beam = settings
    lengths, sentence_offsets, grandparent_offsets = layout.lengths, layout.sentence_offsets, layout.grandparent_offsets
    word_offsets, side_offsets = layout.word_offsets, layout.side_offsets
    only_values = len(values) > 0
    four = len(layout.grand_sibling) > 0
    tri = len(layout.tri_sibling) > 0
    sides = len(layout.sibling) > 0 or tri or four
    N, A, P, J = np.int64(2), np.int64(1), np.int64(1), np.int64(1)
    for b in sentences:
        N = max(N, lengths[b] + 1)
        A = max(A, sentence_offsets[b + 1] - sentence_offsets[b])
        if four:
            P = max(P, grandparent_offsets[sentence_offsets[b + 1]] - grandparent_offsets[sentence_offsets[b]])
        node = word_offsets[b] + b
        for side in range(2 * node, 2 * (node + lengths[b] + 1)):
            J = max(J, side_offsets[side + 1] - side_offsets[side])
    J += 2
    rows = 1 if partial else 2
    sent = _Sentence(
        np.zeros(N + 2, np.int64),
        np.zeros(2 * N + 1, np.int64),
        np.zeros((4, A), np.int32),
        np.zeros(N * N, np.int32),
        np.zeros((2, rows, A)),
    )
    words = np.zeros((beam, 3, N), np.int32)
    forest = _Forest(
        words,
        np.zeros((beam, A), np.int8),
        np.zeros((rows * beam, 9 if four else 4, A)),
        np.zeros((rows * beam, 2, P)),
        np.zeros((rows * beam, 2, N)),
    )
    scratch = _Scratch(
        np.zeros((2, 2 * N), np.bool_),
        np.zeros((5, max(J, N, A)), np.int32),
        np.zeros((7, J)),
        np.zeros((2, J * J if tri else 1)),
        np.zeros((13, A)),
        np.zeros((2, N * N)),
        np.zeros((2, N)),
    )
    no_arc, empty = np.int64(-1), np.int64(0)  # a constant in a call would be compiled apart
    start, arcs, arc, value = sent.start, sent.arcs, sent.arc, scratch.table
    worth = np.empty(beam)  # value of each state ...
    code = np.empty(beam, np.uint64)  # ... the exclusive or of its arcs' random codes ...
    todo = np.empty(beam, np.int32)  # ... and the arc that is to be added
    pool_value = np.empty(beam * beam)  # the best arcs of all states
    pool_state = np.empty(beam * beam, np.int32)
    pool_arc = np.empty(beam * beam, np.int32)
    pool_code = np.empty(beam * beam, np.uint64)
    pool_witness = np.empty((beam * beam, N), np.int32)
    chosen = np.empty(beam, np.int32)
    parent = np.empty(beam, np.int32)
    best = np.empty(beam, np.int32)

    for b in sentences:
        n = np.int64(lengths[b])
        _read(layout, b, alpha, partial, sent, forest)
        if not only_values and not _completes(n, no_arc, single_root, sent, forest, scratch, empty, words[0, WITNESS]):
            status[b] = 1
            continue
        live = 1
        worth[0] = 0.0
        code[0] = np.uint64(0)
        for step in range(n):
            pool = 0
            for s in range(live):
                action, k = (BEGIN, -1) if step == 0 else (COMMIT, np.int64(todo[s]))
                word = 1
                while True:
                    _change(layout, b, action, k, single_root, sent, forest, scratch, s)
                    if sides:
                        _weigh_sides(layout, b, single_root, sent, forest, scratch, s)
                    if only_values:
                        while word <= n and given[b, word] < 0:
                            word += 1
                        if word <= n:
                            action, k = COMMIT, np.int64(arc[given[b, word] * (n + 1) + word])
                            word += 1
                            continue
                    _evaluate(layout, b, beta, partial, single_root, sent, forest, scratch, s)
                    if only_values:
                        break
                    counters[0, b] += 1
                    # The best arcs of this state, the lowest number first among equals.
                    count = 0
                    for m in range(1, n + 1):
                        if words[s, TREE, m] < 0:
                            for e in range(start[m], start[m + 1]):
                                v = value[VALUE, e]
                                if v < np.inf and (count < beam or v < value[VALUE, best[count - 1]]):
                                    count = min(count + 1, beam)
                                    i = count - 1
                                    while i > 0 and v < value[VALUE, best[i - 1]]:
                                        best[i] = best[i - 1]
                                        i -= 1
                                    best[i] = e
                    k = -1
                    for i in range(count):
                        new = np.int64(best[i])
                        counters[1, b] += words[s, WITNESS, arcs[MODIFIER, new]] != new
                        if not _completes(n, new, single_root, sent, forest, scratch, s, pool_witness[pool + i]):
                            k = new
                            break
                        pool_value[pool + i] = worth[s] + value[VALUE, new]
                        pool_state[pool + i] = s
                        pool_arc[pool + i] = new
                        pool_code[pool + i] = code[s] ^ _random_code(new)
                    if k < 0:
                        pool += count
                        break
                    action = DELETE
                    counters[2, b] += 1
                if only_values:
                    break
            if only_values:
                for e in range(start[n + 1]):
                    if words[0, TREE, arcs[MODIFIER, e]] < 0:
                        values[sentence_offsets[b] + e] = value[VALUE, e]
                break

            # The best of the pool, one for each set of arcs.
            live = 0
            while live < beam:
                least = -1
                for i in range(pool):
                    if pool_state[i] >= 0 and (least < 0 or pool_value[i] < pool_value[least]):
                        least = i
                if least < 0:
                    break
                same = False
                for j in range(live):
                    if pool_code[chosen[j]] == pool_code[least]:  # most likely, but look
                        e, other = pool_arc[chosen[j]], pool_arc[least]
                        same = True
                        for m in range(1, n + 1):
                            one = e if arcs[MODIFIER, e] == m else words[parent[j], TREE, m]
                            two = other if arcs[MODIFIER, other] == m else words[pool_state[least], TREE, m]
                            same &= one == two
                if same:
                    counters[3, b] += 1
                else:
                    chosen[live] = least
                    parent[live] = pool_state[least]
                    live += 1
                pool_state[least] = -1

            # The first child of each state stays in its place, others go where no state has children.
            for s in range(beam):
                best[s] = -1
            for j in range(live):
                if best[parent[j]] < 0:
                    best[parent[j]] = chosen[j]
                    chosen[j] = -1
            place = 0
            for j in range(live):
                if chosen[j] >= 0:
                    while best[place] >= 0:
                        place += 1
                    _copy(n, sent, forest, np.int64(parent[j]), place)
                    best[place] = chosen[j]
            place = 0
            for s in range(beam):
                i = best[s]
                if i >= 0:
                    if place < s:
                        _copy(n, sent, forest, s, place)
                    todo[place], worth[place], code[place] = pool_arc[i], pool_value[i], pool_code[i]
                    for m in range(1, n + 1):
                        words[place, WITNESS, m] = pool_witness[i, m]
                    place += 1
        if only_values:
            continue

        for place in range(live):
            least = -1
            for j in range(live):
                if todo[j] >= 0 and (least < 0 or worth[j] < worth[least]):
                    least = j
            words[least, TREE, arcs[MODIFIER, todo[least]]] = todo[least]
            todo[least] = -1
            value_of[place, b] = worth[least]
            for m in range(1, n + 1):
                heads[place, b, m] = arcs[HEAD, words[least, TREE, m]]


@numba.njit(**HELPER)
def _random_code(k):
    """Random bits for arc k (splitmix64)."""
    z = np.uint64(k + 1) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@numba.njit(**KERNEL)
def _copy(n, sent, forest, s, t):
    """Copy state s to t, all but the witness."""
    A = sent.start[n + 1]
    words, state, table, pair, root = forest
    rows = len(table) // len(words)
    for m in range(n + 1):
        words[t, TREE, m] = words[s, TREE, m]
        words[t, TOP, m] = words[s, TOP, m]
    for k in range(A):
        state[t, k] = state[s, k]
    for i in range(rows):
        x, y = rows * s + i, rows * t + i
        for field in range(table.shape[1]):
            for k in range(A):
                table[y, field, k] = table[x, field, k]
        for field in range(2):
            if pair.shape[2] > 1:
                for e in range(pair.shape[2]):
                    pair[y, field, e] = pair[x, field, e]
            for m in range(n + 1):
                root[y, field, m] = root[x, field, m]


@numba.njit(**KERNEL)
def _read(layout, b, alpha, partial, sent, forest):
    """Number the arcs of a sentence from 0, weigh them, and make state 0 the empty forest."""
    arc_score, modifier_offsets, side_offsets = layout.arc_score, layout.modifier_offsets, layout.side_offsets
    head, modifier, outward = layout.head, layout.modifier, layout.outward
    start, side_start, arcs, arc, weight = sent
    words, state, table, _, root = forest
    rows = weight.shape[1]
    n = layout.lengths[b]
    first = layout.sentence_offsets[b]
    word = layout.word_offsets[b]
    start[0] = 0
    for m in range(1, n + 2):
        start[m] = modifier_offsets[word + m - 1] - first
    A = start[n + 1]
    for i in range((n + 1) * (n + 1)):
        arc[i] = -1
    for k in range(A):
        arcs[HEAD, k] = head[first + k]
        arcs[MODIFIER, k] = modifier[first + k]
        arc[arcs[HEAD, k] * (n + 1) + arcs[MODIFIER, k]] = k
    for side in range(2 * n + 3):
        side_start[side] = side_offsets[2 * (word + b) + side] - first
    for i in range(A):
        k = outward[first + i] - first
        arcs[OUT, i] = k
        arcs[PLACE, k] = i

    for m in range(n + 1):
        words[0, TREE, m] = -1
        words[0, TOP, m] = m
    for k in range(A):
        state[0, k] = FREE
    for i in range(rows):
        for k in range(A):
            table[i, ALONE, k] = arc_score[first + k]
            table[i, BELOW, k] = 0.0
        for field in range(ABOVE4, table.shape[1]):  # the root's arcs have no grand-siblings, and are never written
            for k in range(A):
                table[i, field, k] = 0.0
        for m in range(n + 1):
            root[i, ROOT_ANY, m] = 0.0
    if not partial:
        for k in range(A):
            weight[0, 0, k] = weight[1, 0, k] = 1.0
            weight[0, 1, k] = weight[1, 1, k] = 0.0
        return
    for m in range(1, n + 1):
        most = -np.inf
        for k in range(start[m], start[m + 1]):
            most = max(most, table[0, ALONE, k])
        total = 0.0
        for k in range(start[m], start[m + 1]):
            weight[0, 0, k] = np.exp(alpha * (table[0, ALONE, k] - most))
            total += weight[0, 0, k]
        for k in range(start[m], start[m + 1]):
            p = weight[0, 0, k] / total
            weight[0, 0, k] = 1.0 if p > SURE else p
            weight[1, 0, k] = 0.0 if p > SURE else 1.0 - p


@numba.njit(**KERNEL)
def _change(layout, b, action, e, single_root, sent, forest, scratch, s):
    """Begin with all arcs, add arc e to state s, or delete it; and tell the parts of all arcs that change."""
    grandparent, any_sibling, head_bigram = layout.grandparent, layout.any_sibling, layout.head_bigram
    grandparent_offsets, any_sibling_offsets = layout.grandparent_offsets, layout.any_sibling_offsets
    head_bigram_offsets = layout.head_bigram_offsets
    start, side_start, arcs, arc, weight = sent
    words, state, table, _, root = forest
    dirty, queue = scratch.dirty, scratch.marks
    rows = weight.shape[1]
    n = layout.lengths[b]
    first, word = layout.sentence_offsets[b], layout.word_offsets[b]

    # The arcs that change, e first: added if it is to be, all others lost.
    count = 0
    if action == BEGIN:
        for k in range(start[n + 1]):
            queue[QUEUE, k] = k
        count = start[n + 1]
        for side in range(2 * (n + 1)):
            dirty[0, side] = True
        for h in range(n + 1):
            dirty[1, h] = True
    else:
        queue[QUEUE, 0] = e
        count = 1
    if action == COMMIT:
        u, v = arcs[HEAD, e], arcs[MODIFIER, e]
        r = words[s, TOP, u]
        words[s, TREE, v] = e
        for k in range(start[v], start[v + 1]):
            if state[s, k] == FREE and k != e:
                queue[QUEUE, count] = k
                count += 1
        if r > 0:
            for k in range(start[r], start[r + 1]):
                if state[s, k] == FREE and words[s, TOP, arcs[HEAD, k]] == v:
                    queue[QUEUE, count] = k
                    count += 1
        if single_root and u == 0:
            for m in range(1, n + 1):
                if arc[m] >= 0 and m != v and state[s, arc[m]] == FREE:
                    queue[QUEUE, count] = arc[m]
                    count += 1
        for x in range(1, n + 1):
            if words[s, TOP, x] == v:
                words[s, TOP, x] = r

    for place in range(count):
        k = queue[QUEUE, place]
        h, m = arcs[HEAD, k], arcs[MODIFIER, k]
        if action != BEGIN:
            state[s, k] = TAKEN if action == COMMIT and place == 0 else DEAD
            dirty[0, 2 * h + (m > h)] = True
            dirty[1, m] = True
        for i in range(rows):
            d = weight[0, i, k] if action == BEGIN else (state[s, k] == TAKEN) - weight[0, i, k]
            if d == 0.0:
                continue
            # d times the weight of each part of two arcs, one of them k, is added to what is expected of the other.
            row = rows * s + i
            if len(grandparent) > 0:
                if h > 0 and words[s, TREE, h] < 0:
                    block = grandparent_offsets[first + k] - start[h]
                    for g in range(start[h], start[h + 1]):
                        w = np.float64(grandparent[block + g])
                        table[row, ALONE, g] += d * (w if arcs[HEAD, g] != m else 0.0)
                for j in range(side_start[2 * m], side_start[2 * m + 2]):
                    low = arcs[OUT, j]
                    if arcs[MODIFIER, low] != h:
                        table[row, BELOW, low] += d * grandparent[grandparent_offsets[first + low] + k - start[m]]
            if len(any_sibling) > 0:
                block = any_sibling_offsets[word + b + h]
                base, J = side_start[2 * h], side_start[2 * h + 2] - side_start[2 * h]
                mine = arcs[PLACE, k] - base
                for j in range(J):
                    if j != mine:
                        w = d * any_sibling[block + any_sibling_at(J, min(j, mine), max(j, mine))]
                        other = arcs[OUT, base + j]
                        table[row, ALONE, other] += w
                        if h == 0:
                            root[row, ROOT_ANY, arcs[MODIFIER, other]] += w
            if len(head_bigram) > 0:
                if m > 1 and words[s, TREE, m - 1] < 0:
                    K = start[m + 1] - start[m]
                    block = head_bigram_offsets[word + m - 1] + k - start[m]
                    for other in range(start[m - 1], start[m]):
                        if h != m - 1 or arcs[HEAD, other] != m:
                            table[row, ALONE, other] += d * head_bigram[block + (other - start[m - 1]) * K]
                if m < n and words[s, TREE, m + 1] < 0:
                    K = start[m + 2] - start[m + 1]
                    block = head_bigram_offsets[word + m] + (k - start[m]) * K - start[m + 1]
                    for other in range(start[m + 1], start[m + 2]):
                        if h != m + 1 or arcs[HEAD, other] != m:
                            table[row, ALONE, other] += d * head_bigram[block + other]


@numba.njit(**KERNEL)
def _weigh_sides(layout, b, single_root, sent, forest, scratch, s):
    """Sum siblings, tri-siblings and grand-siblings again for sides and heads of which an arc has changed."""
    sibling, tri_sibling, grand_sibling = layout.sibling, layout.tri_sibling, layout.grand_sibling
    sibling_offsets, tri_sibling_offsets = layout.sibling_offsets, layout.tri_sibling_offsets
    grand_sibling_offsets, grandparent_offsets = layout.grand_sibling_offsets, layout.grandparent_offsets
    start, side_start, arcs, _, weight = sent
    words, state, table, pair, root = forest
    dirty, marks, sums, triples, _, _, _ = scratch
    n = np.int64(layout.lengths[b])
    rows = weight.shape[1]
    first, node = layout.sentence_offsets[b], layout.word_offsets[b] + b
    two, tri, four = len(sibling) > 0, len(tri_sibling) > 0, len(grand_sibling) > 0
    for h in range(n + 1):
        for right in range(h == 0, 2):
            side = 2 * h + right
            if not dirty[0, side]:
                continue
            dirty[0, side] = False
            dirty[1, h] = True
            base, J = side_start[side], side_start[side + 1] - side_start[side]
            free, L = 0, 0
            for rank in range(1, J + 1):
                now = state[s, arcs[OUT, base + rank - 1]]
                if now != DEAD:
                    L += 1
                    marks[RANK, L] = rank
                    marks[TAKEN_ARC, L] = now == TAKEN
                    free += now == FREE
            if free == 0 and (not four or words[s, TREE, h] >= 0):
                continue
            marks[RANK, 0], marks[RANK, L + 1] = 0, J + 1
            for i in range(rows):
                row = rows * s + i
                sums[WEIGHT, 0] = sums[WEIGHT, L + 1] = 1.0
                for j in range(1, L + 1):
                    k = arcs[OUT, base + marks[RANK, j] - 1]
                    sums[WEIGHT, j] = 1.0 if marks[TAKEN_ARC, j] else weight[0, i, k]
                    sums[LACK, j] = 0.0 if marks[TAKEN_ARC, j] else weight[1, i, k]
                if tri:
                    _sum_triples(tri_sibling, tri_sibling_offsets[2 * node + side], J, L, marks, sums, triples)
                if h == 0 and single_root:
                    block, tri_block = sibling_offsets[2 * node + 1], tri_sibling_offsets[2 * node + 1]
                    product = 1.0
                    for j in range(1, L + 1):
                        sums[INNER, j] = product
                        product *= sums[LACK, j]
                    product = 1.0
                    for j in range(L, 0, -1):
                        at = np.int64(marks[RANK, j])
                        w = 0.0
                        if two:
                            w += sums[INNER, j] * sibling[block + sibling_at(J, 0, at)]
                            w += product * sibling[block + sibling_at(J, at, J + 1)]
                        if tri:
                            e = tri_block + tri_sibling_at(J, 0, at, J + 1)
                            w += sums[INNER, j] * product * tri_sibling[e]
                        m = arcs[MODIFIER, arcs[OUT, base + at - 1]]
                        root[row, ROOT_KEPT, m] = w * sums[WEIGHT, j]
                        product *= sums[LACK, j]
                # Siblings and tri-siblings first, then the grand-siblings of each arc g into h.
                last = start[h + 1] if four and h > 0 else start[h]
                for g in range(start[h] - 1, last):
                    upper = g >= start[h]
                    cycle = 0
                    back = 0.0
                    if upper:
                        if state[s, g] == DEAD:
                            continue
                        for j in range(1, L + 1):  # no part holds an arc and the arc back
                            if arcs[MODIFIER, arcs[OUT, base + marks[RANK, j] - 1]] == arcs[HEAD, g]:
                                cycle = j
                                back = sums[WEIGHT, j]
                                sums[WEIGHT, j] = 0.0
                        score, block = grand_sibling, grand_sibling_offsets[2 * (first + g) + right]
                    elif two or tri:
                        score, block = sibling, sibling_offsets[2 * node + side]
                    else:
                        continue
                    total = _sum_pairs(score, upper or two, tri and not upper, block, J, L, marks, sums, triples)
                    if upper:
                        table[row, TOTAL4 + right, g] = total
                        offset = g - start[h] - grandparent_offsets[first]
                        for j in range(1, L + 1):
                            e = grandparent_offsets[first + arcs[OUT, base + marks[RANK, j] - 1]] + offset
                            pair[row, 0, e] = sums[HELD, j] if j != cycle else 0.0
                            pair[row, 1, e] = sums[BROKE, j]
                        if cycle > 0:
                            sums[WEIGHT, cycle] = back
                    else:
                        if h == 0:
                            root[row, ROOT_KEPT, 0] = total
                        for j in range(1, L + 1):
                            k = arcs[OUT, base + marks[RANK, j] - 1]
                            table[row, HOLD, k] = sums[HELD, j]
                            table[row, BROKEN, k] = sums[BROKE, j]
        if four and h > 0 and dirty[1, h]:
            for i in range(rows):
                row = rows * s + i
                for g in range(start[h], start[h + 1]):
                    table[row, ABOVE4, g] = table[row, TOTAL4, g] + table[row, TOTAL4 + 1, g]
                for place in range(side_start[2 * h], side_start[2 * h + 2]):
                    k = arcs[OUT, place]
                    if state[s, k] != FREE:
                        continue
                    e = grandparent_offsets[first + k] - grandparent_offsets[first] - start[h]
                    hold, broken = 0.0, 0.0
                    for g in range(start[h], start[h + 1]):
                        if state[s, g] != DEAD:
                            p = 1.0 if state[s, g] == TAKEN else weight[0, i, g]
                            hold += p * pair[row, 0, e + g]
                            broken += p * pair[row, 1, e + g]
                    table[row, BELOW4, k] = hold
                    table[row, BROKEN4, k] = broken
        dirty[1, h] = False


@numba.njit(**HELPER)
def _sum_triples(score, block, J, L, marks, sums, triples):
    """For pairs (a, b) and (b, c) the expected weight of the triples (a, b, c), given the pair: over c, and over a."""
    size = L + 2
    for i in range(size * size):
        triples[0, i] = triples[1, i] = 0.0
    for b in range(1, L + 1):
        product = 1.0
        for a in range(b - 1, -1, -1):
            sums[INNER, a] = sums[WEIGHT, a] * product
            if a > 0:
                product *= sums[LACK, a]
        product = 1.0
        for c in range(b + 1, L + 2):
            sums[OUTER, c] = sums[WEIGHT, c] * product
            if c <= L:
                product *= sums[LACK, c]
        rank = np.int64(marks[RANK, b])
        for a in range(b):
            for c in range(b + 1, L + 2):
                w = score[block + tri_sibling_at(J, np.int64(marks[RANK, a]), rank, np.int64(marks[RANK, c]))]
                triples[0, a * size + b] += sums[OUTER, c] * w
                triples[1, b * size + c] += sums[INNER, a] * w


@numba.njit(**HELPER)
def _sum_pairs(score, two, tri, block, J, L, marks, sums, triples):
    """Expected weight of the parts of a side that hold each arc, of those that each arc would break, and of all.

    With weights a of present arcs and c of absent ones, P(i, j) the product of c between i and j, and W(i, j):
    hold(k) = sum_{i<k} a_i P(i, k) W(i, k) + sum_{j>k} a_j P(k, j) W(k, j), and
    broken(k) = sum_{i<k<j} a_i a_j P(i, j) / c_k W(i, j), where c_k = 0 stands for a product without it.
    """
    for j in range(L + 2):
        sums[HELD, j] = sums[BROKE, j] = sums[CHANGE, j] = 0.0
    total = 0.0
    for i in range(L + 1):
        product = 1.0
        gap = 0  # an arc that weighs nothing when absent: what spans it counts for that arc alone
        mine = sums[WEIGHT, i]
        held = 0.0
        base = block + sibling_at(J, np.int64(marks[RANK, i]), 0)
        for j in range(i + 1, L + 2):
            w = np.float64(score[base + marks[RANK, j]]) if two else 0.0
            all_of = w
            if tri:
                w += triples[0, i * (L + 2) + j]
                all_of = w + triples[1, i * (L + 2) + j]
            other = sums[WEIGHT, j]
            if gap == 0:
                sums[HELD, j] += mine * product * all_of
                held += other * product * w
                sums[CHANGE, i + 1] += mine * other * product * all_of
                sums[CHANGE, j] -= mine * other * product * all_of
            else:
                sums[BROKE, gap] += mine * other * product * all_of
            if j <= L:
                lack = sums[LACK, j]
                if lack == 0.0:
                    if gap > 0 or marks[TAKEN_ARC, j]:
                        break
                    gap = j
                else:
                    product *= lack
        sums[HELD, i] += held
        total += mine * held
    run = 0.0
    for j in range(1, L + 1):
        run += sums[CHANGE, j]
        if sums[LACK, j] > 0.0:
            sums[BROKE, j] += run / sums[LACK, j]
    return total


@numba.njit(**HELPER)
def _pair(grandparent, grandparent_offsets, first, four, pair, row, start, arcs, g, k):
    """Expected weight of the grandparent and the grand-siblings of arc g and arc k below it, given both."""
    e = grandparent_offsets[first + k] + g - start[arcs[MODIFIER, g]]
    w = 0.0
    if arcs[HEAD, g] != arcs[MODIFIER, k]:
        if len(grandparent) > 0:
            w += grandparent[e]
        if four:
            w += pair[row, 0, e - grandparent_offsets[first]]
    return w


@numba.njit(**HELPER)
def _pair_broken(grandparent_offsets, first, pair, row, start, arcs, g, k):
    """Expected weight of the grand-siblings of arc g that arc k below it would break."""
    e = grandparent_offsets[first + k] + g - start[arcs[MODIFIER, g]]
    return pair[row, 1, e - grandparent_offsets[first]]


@numba.njit(**HELPER)
def _bigram(head_bigram, head_bigram_offsets, word, start, arcs, i, j):
    """Head bigram of arc i into a word and arc j into one of its neighbours."""
    if arcs[MODIFIER, i] > arcs[MODIFIER, j]:
        i, j = j, i
    m = arcs[MODIFIER, j]
    w = 0.0
    if arcs[HEAD, i] != m or arcs[HEAD, j] != m - 1:
        K = start[m + 1] - start[m]
        w += head_bigram[head_bigram_offsets[word + m - 1] + (i - start[m - 1]) * K + j - start[m]]
    return w


@numba.njit(**KERNEL)
def _evaluate(layout, b, beta, partial, single_root, sent, forest, scratch, s):
    """Value of each arc into a word without a head, inf if it cannot be added to state s."""
    grandparent, grandparent_offsets = layout.grandparent, layout.grandparent_offsets
    head_bigram, head_bigram_offsets = layout.head_bigram, layout.head_bigram_offsets
    sibling, sibling_offsets = layout.sibling, layout.sibling_offsets
    tri_sibling, tri_sibling_offsets = layout.tri_sibling, layout.tri_sibling_offsets
    start, side_start, arcs, arc, weight = sent
    words, state, table, pair, root = forest
    _, marks, _, _, of_arc, below, totals = scratch
    n = layout.lengths[b]
    first, word = layout.sentence_offsets[b], layout.word_offsets[b]
    bigrams = len(head_bigram) > 0
    two, tri, four = len(sibling) > 0, len(tri_sibling) > 0, len(layout.grand_sibling) > 0
    pairs = len(grandparent) > 0 or four
    sides = two or tri
    rows = weight.shape[1]
    down, up, last = rows * s, rows * s + rows - 1, rows - 1  # weightings for losses and gains
    keep, win = (beta, 1.0 - beta) if partial else (1.0, 1.0)

    absent = sides or four
    tree, top, free = words[s, TREE], words[s, TOP], state[s]
    head, tops = arcs[HEAD], marks[TOPS]
    value, loss, gain, freed, chance = of_arc[VALUE], of_arc[LOSS], of_arc[GAIN], of_arc[FREED], of_arc[CHANCE]
    lost_below, freed_below = below[0], below[1]
    lower, hold, broken = table[down, BELOW], table[down, HOLD], table[down, BROKEN]
    A = start[n + 1]

    # What is lost and gained with each arc alone. These loops run over all arcs, so as to run in SIMD.
    for k in range(A):
        gain[k] = table[down, ALONE, k] + lower[k]
        chance[k] = weight[0, 0, k] if free[k] == FREE else 0.0
    if absent:
        for k in range(A):
            gain[k] += hold[k]
            freed[k] = table[up, BROKEN, k]
    if four:
        for k in range(A):
            gain[k] += table[down, ABOVE4, k] + table[down, BELOW4, k]
            freed[k] += table[up, BROKEN4, k]
    for k in range(A):
        loss[k] = chance[k] * gain[k]
    if rows > 1:
        for k in range(A):
            gain[k] = table[up, ALONE, k] + table[up, BELOW, k] + table[up, HOLD, k]
            if four:
                gain[k] += table[up, ABOVE4, k] + table[up, BELOW4, k]
    if absent:
        for k in range(A):
            freed[k] = (1.0 - weight[1, last, k]) * freed[k] if free[k] == FREE else 0.0
    for k in range(A):
        tops[k] = top[head[k]]
    for x in range(n + 1):
        marks[QUEUE, x] = 0
    for x in range(1, n + 1):
        marks[QUEUE, top[x]] += 1  # how many words are below v, v among them
    if pairs:
        for i in range(TWICE, TWICE + (4 if four else 2)):
            for k in range(A):
                of_arc[i, k] = 0.0
    if bigrams:
        for i in range(BIGRAM, BIGRAM + 4):
            for k in range(A):
                of_arc[i, k] = 0.0

    # With all arcs into r, and with those from below each v. Parts of two lost arcs, or of one and the arc itself: sums
    # over (a, r) for all a below v.
    for r in range(1, n + 1):
        if tree[r] >= 0:
            continue
        line = r * (n + 1)
        total = 0.0
        for k in range(start[r], start[r + 1]):
            total += loss[k]
            lost_below[line + tops[k]] += loss[k]
        totals[0, r] = total
        total = 0.0
        if absent:
            for k in range(start[r], start[r + 1]):
                total += freed[k]
                freed_below[line + tops[k]] += freed[k]
        totals[1, r] = total
        if pairs:
            for k in range(start[r], start[r + 1]):
                v = tops[k]
                if v == 0 or free[k] != FREE or (head[k] == v and not four):
                    continue
                e = arc[line + v]
                if e >= 0 and free[e] == FREE:
                    for i in range(2):
                        row = up if i else down
                        p = weight[0, i * last, k]
                        of_arc[TWICE + i, e] += p * _pair(
                            grandparent, grandparent_offsets, first, four, pair, row, start, arcs, k, e
                        )
                        if four:
                            of_arc[TWICE_BROKEN + i, e] += p * _pair_broken(
                                grandparent_offsets, first, pair, row, start, arcs, k, e
                            )
        if bigrams:
            for k in range(start[r], start[r + 1]):
                v = tops[k]
                if (v == r - 1 or v == r + 1) and v > 0 and free[k] == FREE:
                    side = BIGRAM + (2 if v < r else 0)
                    for e in range(start[v], start[v + 1]):
                        w = _bigram(head_bigram, head_bigram_offsets, word, start, arcs, e, k)
                        of_arc[side, e] += weight[0, 0, k] * w
                        of_arc[side + 1, e] += weight[0, last, k] * w

    root_total = 0.0  # what is lost with all arcs of the root, each part once
    if single_root:
        open_root = False
        for m in range(1, n + 1):
            e = arc[m]
            if e < 0 or free[e] != FREE:
                continue
            open_root = True
            root_total += loss[e] - chance[e] * (0.5 * root[down, ROOT_ANY, m] + hold[e])
            other = arc[m + 1] if m < n else -1
            if bigrams and other >= 0:
                root_total -= (
                    chance[e] * chance[other] * _bigram(head_bigram, head_bigram_offsets, word, start, arcs, e, other)
                )
        if sides and open_root:
            root_total += root[down, ROOT_KEPT, 0]

    for v in range(1, n + 1):
        if tree[v] >= 0:
            continue
        total_loss, total_freed = totals[0, v], totals[1, v]
        begin = start[v]
        if single_root and begin < start[v + 1] and head[begin] == 0:
            # All but one arc of the root get lost. Parts of e and another stand in the total, those of e alone are not
            # lost.
            e = begin
            begin += 1
            lost = total_loss - 2.0 * loss[e] + root_total + chance[e] * (root[down, ROOT_ANY, v] + hold[e])
            won = gain[e] + total_freed - root[up, ROOT_ANY, v]
            if absent:
                won -= freed[e]
            if sides:
                J, rank = side_start[2] - side_start[1], np.int64(arcs[PLACE, e]) - side_start[1] + 1
                lost -= root[down, ROOT_KEPT, v]
                won -= table[up, HOLD, e]
                if two:
                    block = sibling_offsets[2 * (word + b) + 1]
                    won += np.float64(sibling[block + sibling_at(J, 0, rank)])
                    won += np.float64(sibling[block + sibling_at(J, rank, J + 1)])
                if tri:
                    block = tri_sibling_offsets[2 * (word + b) + 1]
                    won += np.float64(tri_sibling[block + tri_sibling_at(J, 0, rank, J + 1)])
            if pairs:
                for k in range(begin, start[v + 1]):
                    g = arc[head[k]]
                    if g >= 0 and free[k] == FREE and free[g] == FREE:
                        w = _pair(grandparent, grandparent_offsets, first, four, pair, down, start, arcs, g, k)
                        lost -= chance[k] * chance[g] * w
                        if four:
                            w = _pair_broken(grandparent_offsets, first, pair, up, start, arcs, g, k)
                            won -= (1.0 - weight[1, last, k]) * weight[0, last, g] * w
            if bigrams:
                for m in range(v - 1, v + 2, 2):
                    other = arc[m] if 1 <= m <= n else -1
                    if other < 0 or free[other] != FREE:
                        continue
                    w = _bigram(head_bigram, head_bigram_offsets, word, start, arcs, other, e)
                    lost += chance[e] * chance[other] * w
                    won -= weight[0, last, other] * w
                    for k in range(begin, start[v + 1]):
                        w = _bigram(head_bigram, head_bigram_offsets, word, start, arcs, other, k)
                        lost -= chance[k] * chance[other] * w
            value[e] = keep * lost - win * won if free[e] == FREE else np.inf

        several = four or marks[QUEUE, v] > 1
        for e in range(begin, start[v + 1]):
            # Where u is below the root, so that r = 0, nothing of the following applies, and all sums that it reads
            # are 0; free of branches, it takes half the time.
            r = tops[e]
            lost = total_loss - loss[e] + lost_below[r * (n + 1) + v]
            won = gain[e]
            if absent:
                won += total_freed - freed[e] + freed_below[r * (n + 1) + v]
                lost += weight[1, 0, e] * broken[e]
            if four:
                lost += weight[1, 0, e] * table[down, BROKEN4, e]
            if pairs:
                if several:
                    k = arc[r * (n + 1) + v]
                    if k == e:
                        won -= of_arc[TWICE + 1, e]
                        if four:
                            lost -= weight[1, 0, e] * of_arc[TWICE_BROKEN, e]
                    elif k >= 0:
                        lost -= chance[k] * of_arc[TWICE, k]
                        if four and free[k] == FREE:
                            won -= (1.0 - weight[1, last, k]) * of_arc[TWICE_BROKEN + 1, k]
                k = arc[v * (n + 1) + r]  # is lost, and its parts with each arc into v, e among them
                there = k >= 0
                k = max(k, 0)
                p = chance[k] if there else 0.0
                q = p if last == 0 else 0.0
                if four:
                    if there and free[k] == FREE:
                        mine = _pair(grandparent, grandparent_offsets, first, four, pair, down, start, arcs, e, k)
                        more = _pair_broken(grandparent_offsets, first, pair, up, start, arcs, e, k)
                        won += (1.0 - weight[1, last, k]) * (more - table[up, BROKEN4, k]) - q * mine
                        lost -= p * (lower[k] + table[down, BELOW4, k] - chance[e] * mine)
                else:
                    place = grandparent_offsets[first + k] + e - start[v] if there else 0
                    mine = np.float64(grandparent[place]) if head[e] != r else 0.0
                    lost -= p * (lower[k] - chance[e] * mine)
                    won -= q * mine
            if bigrams and (v == r - 1 or v == r + 1):
                side = BIGRAM + (2 if v < r else 0)
                total = 0.0
                for k in range(start[v], start[v + 1]):
                    if k != e:
                        total += chance[k] * of_arc[side, k]
                lost -= total
                won -= of_arc[side + 1, e]
            value[e] = keep * lost - win * won if free[e] == FREE else np.inf
    for r in range(1, n + 1):  # leave the sums over a below v as they were found, all 0
        if tree[r] < 0:
            for k in range(start[r], start[r + 1]):
                lost_below[r * (n + 1) + tops[k]] = 0.0
                freed_below[r * (n + 1) + tops[k]] = 0.0


@numba.njit(**KERNEL)
def _completes(n, e, single_root, sent, forest, scratch, s, found):
    """Whether state s, with arc e added if there is one, can become a tree; such a tree goes to `found`.

    Every word is reached over the arcs left exactly if there is a tree: a word with a head has no other arc left.
    """
    start, side, arcs, arc, _ = sent
    words, states, _, _, _ = forest
    marks = scratch.marks
    once = np.int64(0)
    u, v, root = np.int64(-1), np.int64(0), np.int64(0)
    if e >= 0:
        u, v = np.int64(arcs[HEAD, e]), np.int64(arcs[MODIFIER, e])
        for m in range(1, n + 1):
            found[m] = words[s, WITNESS, m]
            if arcs[HEAD, found[m]] == 0:
                root = np.int64(m)
        if found[v] == e:
            return True
        # The witness takes e in place of its own arc, if that leaves a tree.
        if not single_root or (u != 0 and root != v):
            x = u
            while x != 0 and x != v:
                x = np.int64(arcs[HEAD, found[x]])
            if x == 0:
                found[v] = e
                return True
        if single_root and u == 0:
            root = v
    # Three ways to a tree, the first that applies: all is reached from the root; from the one modifier that it must
    # have, or has in the witness; or from a word that reaches all others. If any does, then the last from which a
    # search over what is not yet reached starts, and the modifier of the root can be each word that reaches it.
    if not single_root:
        return _reach(n, np.int64(0), e, v, once, start, side, arcs, states, marks, s, found) == n
    if root > 0 and (root != v or u == 0):
        found[root] = arc[root]
        if _reach(n, root, e, v, once, start, side, arcs, states, marks, s, found) == n:
            return True
        if root == v or states[s, arc[root]] == TAKEN:
            return False
    mother = np.int64(0)
    for m in range(1, n + 1):
        if m == 1 or marks[SEEN, m] == 0:
            mother = np.int64(m)
            _reach(n, m, e, v, np.int64(m > 1), start, side, arcs, states, marks, s, found)
    if _reach(n, mother, e, v, once, start, side, arcs, states, marks, s, found) < n:
        return False
    for m in range(1, n + 1):
        marks[SEEN, m] = m == mother
    marks[QUEUE, 0] = mother
    first, end = 0, 1
    while first < end:
        w = np.int64(marks[QUEUE, first])
        first += 1
        if w != v and arc[w] >= 0 and states[s, arc[w]] != DEAD:
            found[w] = arc[w]
            _reach(n, w, e, v, once, start, side, arcs, states, marks, s, found)
            return True
        for k in range(start[w], start[w + 1]):
            h = arcs[HEAD, k]
            if h > 0 and states[s, k] != DEAD and marks[SEEN, h] == 0 and (w != v or k == e):
                marks[SEEN, h] = 1
                marks[QUEUE, end] = h
                end += 1
    return False


@numba.njit(**KERNEL)
def _reach(n, source, e, v, more, start, side, arcs, states, marks, s, found):
    """How many words are reached from the source over arcs left, of those into v only e; the arcs go to `found`.

    With `more`, words that were reached before are not reached again.
    """
    if more == 0:
        for m in range(n + 1):
            marks[SEEN, m] = 0
    marks[SEEN, 0] = marks[SEEN, source] = 1
    marks[QUEUE, 0] = source
    first, end = 0, 1
    while first < end:
        h = marks[QUEUE, first]
        first += 1
        for place in range(side[2 * h], side[2 * h + 2]):
            k = arcs[OUT, place]
            m = arcs[MODIFIER, k]
            if states[s, k] != DEAD and marks[SEEN, m] == 0 and (m != v or k == e):
                marks[SEEN, m] = 1
                found[m] = k
                marks[QUEUE, end] = m
                end += 1
    return end - (source == 0)


@numba.njit(cache=True, nogil=True)
def _improve(sentences, layout, rounds, single_root, heads, swaps):
    """Make up to so many swaps in each tree, each time the best."""
    N, A = 2, 1
    for b in sentences:
        N = max(N, layout.lengths[b] + 1)
        A = max(A, layout.sentence_offsets[b + 1] - layout.sentence_offsets[b])
    tree = np.empty(N, np.int64)  # arc into each word, numbered as in the layout
    worth = np.empty(A)  # what a word brings under each of its heads, all others staying where they are
    again = np.empty(A)
    below = np.empty(N, np.int32)  # the child of v above, or at, each word below v

    for b in sentences:
        n = layout.lengths[b]
        words, first = layout.word_offsets[b] - 1, layout.sentence_offsets[b]
        tree[0] = -1
        score = 0.0
        for m in range(1, n + 1):
            for k in range(layout.modifier_offsets[words + m], layout.modifier_offsets[words + m + 1]):
                if layout.head[k] == heads[b, m]:
                    tree[m] = k
        for _ in range(rounds):
            score = 0.0
            for m in range(1, n + 1):
                _attach(layout, b, tree, m, worth)
                score += abs(worth[tree[m] - first])
            best, move, other = 1e-10 * (1.0 + score), -1, -1
            for v in range(1, n + 1):
                old = tree[v]
                u = layout.head[old]
                start, end = layout.modifier_offsets[words + v], layout.modifier_offsets[words + v + 1]
                inside = False
                for k in range(start, end):
                    x = layout.head[k]
                    w = 0
                    while x != 0 and x != v:
                        w = x
                        x = layout.head[tree[x]]
                    below[k - start] = w if x == v else 0
                    if x == v:
                        inside = True
                    elif not (single_root and (u == 0 or layout.head[k] == 0)):
                        delta = worth[k - first] - worth[old - first]
                        if delta > best:
                            best, move, other = delta, k, -1
                if not inside:
                    continue
                for k in range(start, end):
                    w = below[k - start]
                    if w == 0:
                        continue
                    # w goes to u first, then v below w: two changes, one after the other, each of them leaves a tree
                    up = -1
                    for i in range(layout.modifier_offsets[words + w], layout.modifier_offsets[words + w + 1]):
                        if layout.head[i] == u:
                            up = i
                    if up >= 0:
                        kept = tree[w]
                        delta = worth[up - first] - worth[kept - first]
                        tree[w] = up
                        _attach(layout, b, tree, v, again)
                        tree[w] = kept
                        for i in range(k, end):
                            if below[i - start] == w:
                                change = delta + again[i - first] - again[old - first]
                                if change > best:
                                    best, move, other = change, i, up
                    for i in range(k, end):
                        if below[i - start] == w:
                            below[i - start] = 0
            if move < 0:
                break
            tree[layout.modifier[move]] = move
            if other >= 0:
                tree[layout.modifier[other]] = other
            swaps[b] += 1
        for m in range(1, n + 1):
            heads[b, m] = layout.head[tree[m]]


@numba.njit(**KERNEL)
def _attach(layout, b, tree, m, worth):
    """How much the score of a tree, without the arc into m, rises with each arc into m."""
    n = layout.lengths[b]
    words, first = layout.word_offsets[b] - 1, layout.sentence_offsets[b]
    node = words + 1 + b
    start, end = layout.modifier_offsets[words + m], layout.modifier_offsets[words + m + 1]
    K = end - start
    sides = len(layout.sibling) > 0 or len(layout.tri_sibling) > 0 or len(layout.grand_sibling) > 0
    for k in range(start, end):
        worth[k - first] = layout.arc_score[k]

    # m as head: its modifiers stay, and their grandparent changes
    if len(layout.grandparent) > 0:
        for place in range(layout.side_offsets[2 * (node + m)], layout.side_offsets[2 * (node + m) + 2]):
            low = layout.outward[place]
            if tree[layout.modifier[low]] == low:
                block = layout.grandparent_offsets[low] - start
                for k in range(start, end):
                    worth[k - first] += layout.grandparent[block + k]
    if len(layout.grand_sibling) > 0:
        for right in range(2):
            side = 2 * (node + m) + right
            base, J = layout.side_offsets[side], layout.side_offsets[side + 1] - layout.side_offsets[side]
            i = 0
            for j in range(1, J + 2):
                if j <= J:
                    low = layout.outward[base + j - 1]
                    if tree[layout.modifier[low]] != low:
                        continue
                e = sibling_at(J, i, j)
                for k in range(start, end):
                    worth[k - first] += layout.grand_sibling[layout.grand_sibling_offsets[2 * k + right] + e]
                i = j

    # m as modifier
    for k in range(start, end):
        h = layout.head[k]
        w = 0.0
        if h > 0 and len(layout.grandparent) > 0:
            w += layout.grandparent[layout.grandparent_offsets[k] + tree[h] - layout.modifier_offsets[words + h]]
        if sides:
            side = 2 * (node + h) + (m > h)
            base, J = layout.side_offsets[side], layout.side_offsets[side + 1] - layout.side_offsets[side]
            rank = np.int64(layout.rank[k])
            before = _neighbour(layout, tree, base, J, rank, -1)
            after = _neighbour(layout, tree, base, J, rank, 1)
            if len(layout.sibling) > 0:
                w += _between(layout.sibling, layout.sibling_offsets[side], J, before, rank, after)
            if h > 0 and len(layout.grand_sibling) > 0:
                block = layout.grand_sibling_offsets[2 * tree[h] + (m > h)]
                w += _between(layout.grand_sibling, block, J, before, rank, after)
            if len(layout.tri_sibling) > 0:
                score, block = layout.tri_sibling, layout.tri_sibling_offsets[side]
                w += score[block + tri_sibling_at(J, before, rank, after)]
                if before > 0:
                    further = _neighbour(layout, tree, base, J, before, -1)
                    w += score[block + tri_sibling_at(J, further, before, rank)]
                    w -= score[block + tri_sibling_at(J, further, before, after)]
                if after <= J:
                    further = _neighbour(layout, tree, base, J, after, 1)
                    w += score[block + tri_sibling_at(J, rank, after, further)]
                    w -= score[block + tri_sibling_at(J, before, after, further)]
        if len(layout.any_sibling) > 0:
            base = layout.side_offsets[2 * (node + h)]
            J = layout.side_offsets[2 * (node + h) + 2] - base
            mine = layout.side_offsets[2 * (node + h) + (m > h)] - base + layout.rank[k] - 1
            for place in range(J):
                other = layout.outward[base + place]
                if place != mine and tree[layout.modifier[other]] == other:
                    e = any_sibling_at(J, min(place, mine), max(place, mine))
                    w += layout.any_sibling[layout.any_sibling_offsets[node + h] + e]
        if len(layout.head_bigram) > 0:
            if m > 1:
                i = tree[m - 1] - layout.modifier_offsets[words + m - 1]
                w += layout.head_bigram[layout.head_bigram_offsets[words + m] + i * K + k - start]
            if m < n:
                j = tree[m + 1] - end
                K_next = layout.modifier_offsets[words + m + 2] - end
                w += layout.head_bigram[layout.head_bigram_offsets[words + m + 1] + (k - start) * K_next + j]
        worth[k - first] += w


@numba.njit(**HELPER)
def _neighbour(layout, tree, base, J, rank, step):
    """Rank of the next modifier on a side that is in the tree, inward or outward: 0 is START, J + 1 END."""
    rank += step
    while 0 < rank <= J:
        k = layout.outward[base + rank - 1]
        if tree[layout.modifier[k]] == k:
            break
        rank += step
    return rank


@numba.njit(**HELPER)
def _between(score, block, J, before, rank, after):
    """What a modifier brings between its neighbours."""
    w = np.float64(score[block + sibling_at(J, before, rank)])
    w += score[block + sibling_at(J, rank, after)]
    w -= score[block + sibling_at(J, before, after)]
    return w
