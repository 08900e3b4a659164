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
that hold it: O(n K^2) in all. Values are kept from step to step. Valued again, in O(K) and O(K) more for each word with
which it could make a cycle, are words into which an arc leads that has a part with a changed one, or that comes from a
word with a new top: O(K J) words a step, however long the sentence. A word gets a new top at most as often as it is
deep. Then one number a word is looked at, O(n^2) in all but with a tiny constant. Siblings: a side is summed again when
one of its arcs changes, O(n K J^2), J falling as arcs get lost; `tri_sibling` O(n K J^3), `grand_sibling`
O(n K^2 J^2). So time is near linear in n as long as K is fixed; where all arcs are candidates, it grows with about the
third power. All this is done for each state of the beam. A state with several children is copied, which takes O(n K),
with `grand_sibling` O(n K^2), for words without a head, and in long sentences about a tenth of the time. Memory: O(n K)
for each state, with `grand_sibling` O(n K^2), and O(n^2).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from arbora.decoders.greedy.improvements import KERNEL, improve, improve_in_place, scored
from arbora.decoders.kernels.options import HELPER
from arbora.decoders.kernels.threads import over_sentences
from arbora.decoders.parts.batch import Parts
from arbora.decoders.parts.kinds import KINDS
from arbora.decoders.parts.layout import any_sibling_at, sibling_at, tri_sibling_at
from arbora.decoders.settings import numeric
from arbora.decoders.trees import Decoder, NoTreeError, Trees

__all__ = ["Beam", "Greedy", "improve", "lean"]

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
        alpha: sharpness of the arc probabilities, the softmax of `alpha` times the arc scores of a word; 0 makes all
            heads equally likely. Scores that were trained with cross-entropy are sharp, and 0.1 to 0.5 did better than
            1 on development parts.
        beta: weight of what an arc loses, against 1 - beta of what it gains; in 0..1.
        beam: how many forests are extended side by side.
        improvements: how many times at most the best swap of arcs is made after the search.
        partial: count parts that may come (Algorithm 2); otherwise only those complete or lost (Algorithm 1), which
            reads neither `alpha` nor `beta`.
        absent: let the search see parts that need arcs to be absent. Scores and improvements always do.
        single_root: allow exactly one modifier of the root.
    """

    alpha: float = numeric(0.25, least=0)
    beta: float = numeric(0.6, least=0, most=1)
    beam: int = numeric(3, least=1, most=10_000)
    improvements: int = numeric(5, least=0)
    partial: bool = True
    absent: bool = True
    single_root: bool = True

    def decode(self, parts: Parts) -> Trees:
        beam = self.search(parts)
        heads = beam.heads[0]
        score = parts.score(heads)
        for other in beam.heads[1:]:
            found = other[:, 1] >= 0 if other.shape[1] > 1 else np.zeros(len(score), dtype=np.bool_)
            rival = np.where(found, parts.score(np.where(found[:, None], other, heads)), -np.inf)
            better = rival > score
            heads = np.where(better[:, None], other, heads)
            score = np.where(better, rival, score)
        swaps = improve_in_place(parts, heads, self.improvements, self.single_root)
        return scored(parts, heads, {**beam.counters, "swaps": swaps})

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

        Raises:
            ValueError: when the forest has another shape, an arc that is no candidate, a cycle, or with a single root
                two modifiers of the root.
        """
        heads = np.ascontiguousarray(forest, dtype=np.int32)
        shape = parts.empty_trees().shape
        if heads.shape != shape:
            raise ValueError(f"forest must be {shape}, got {heads.shape}")
        sentence = np.repeat(np.arange(len(parts.lengths)), np.diff(parts.sentence_offsets))
        known = np.bincount(sentence[heads[sentence, parts.modifier] == parts.head], minlength=len(parts.lengths))
        if (wrong := known != (heads >= 0).sum(1)).any():
            raise ValueError(f"sentence {int(np.argmax(wrong))}: the forest has an arc that is no candidate")
        above = np.maximum(heads, 0)
        for _ in range(heads.shape[1].bit_length()):  # twice as far up each time
            above = np.take_along_axis(above, above, axis=1)
        if (wrong := above.any(1)).any():
            raise ValueError(f"sentence {int(np.argmax(wrong))}: the forest has a cycle")
        if self.single_root and (wrong := (heads == 0).sum(1) > 1).any():
            raise ValueError(f"sentence {int(np.argmax(wrong))}: the forest has several modifiers of the root")
        values = np.full(len(parts.head), np.inf)
        self._run(parts, heads, values)
        return values

    def _run(self, parts: Parts, forest: NDArray[np.int32], values: NDArray[np.float64]) -> Beam:
        self.check(parts)
        layout = parts.penalised().layout
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
            raise NoTreeError({b: _why_no_tree(parts.subset([b])) for b in np.flatnonzero(status).tolist()})
        names = ("steps", "repairs", "deleted", "duplicates")
        return Beam(heads, value, dict(zip(names, counters, strict=True)))


def lean(parts: Parts, heads: ArrayLike, gamma: Sequence[float]) -> Parts:
    """Make parts score more that are in given trees, those of another parser: the paper's ensemble.

    Args:
        parts: arcs and higher-order parts of the batch.
        heads: (B, N) as in `Trees.heads`; arcs that are no candidates count as not being there.
        gamma: what is added to parts of first order (arcs), of second, and of third; orders beyond its length and
            features of whole trees get 0.

    Returns:
        The same parts with other scores. The score of a tree under these is not its score under `parts`.
    """
    scores = {}
    for kind, entries in parts.active(heads).items():
        order = 1 if kind == "arc" else KINDS[kind].order
        if 0 < order <= len(gamma) and gamma[order - 1] != 0:
            name = "arc_score" if kind == "arc" else kind
            scores[name] = getattr(parts, name).copy()
            scores[name][entries] += np.float32(gamma[order - 1])
    return parts.with_scores(**scores) if scores else parts


def _steps(parts: Parts) -> NDArray[np.float64]:
    """About how many innermost steps the search takes for each sentence."""
    arcs = np.diff(parts.sentence_offsets).astype(np.float64)
    steps = arcs * 40
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
TREE, TOP, NEXT, SIZE, WITNESS = range(5)  # rows of `_Forest.words`
ALONE, BELOW, CREDIT, CROSSING, BASE, VALUE, HOLD, BROKEN = range(8)  # rows of `_Forest.table` ...
ABOVE4, BELOW4, BROKEN4, TOTAL4 = range(8, 12)  # ... of which the last is two
ROOT_KEPT, ROOT_ANY = range(2)  # rows of `_Forest.root`
WORDS, SIDES, HEADS, ARCS = range(4)  # of `_Scratch.changed`
ARC, RANK, TAKEN_ARC, QUEUE, SEEN = range(5)  # rows of `_Scratch.marks`
WEIGHT, LACK, HELD, BROKE, RIGHT, INNER, OUTER = range(7)  # rows of `_Scratch.sums`
TOTAL, CROSS, PAIRED, BIGRAM = range(4)  # rows of `_Scratch.table`, of which the last is two


class _Sentence(NamedTuple):
    """Candidate arcs of one sentence, numbered from 0.

    Two weightings of arcs in G may be at work: the first for losses, the last for gains. Algorithm 2 has one, p and
    1 - p. Algorithm 1 counts 1 and 1 for losses, so that all parts alive count, and 0 and 0 for gains, so that only
    complete ones do. In both, arcs in T weigh 1 and 0, lost arcs 0 and 1.
    """

    start: NDArray[np.int64]  # arcs into word m are start[m]:start[m + 1]
    side: NDArray[np.int64]  # arcs of a side are OUT[side[2 * h + right]:side[2 * h + right + 1]]
    # An index that is never negative takes fewer instructions.
    arcs: NDArray[np.uint32]  # (4, A) HEAD, MODIFIER, OUT: arcs by (head, side, distance), PLACE: of each arc in OUT
    arc: NDArray[np.uint32]  # [h, m] number of the arc; if it is no candidate, that of an arc which is always lost
    weight: NDArray[np.float64]  # (2, weightings, A) of an arc in G that is to be present, or absent


class _Forest(NamedTuple):
    """States of the beam, one a row; where there are two weightings, rows 2 s and 2 s + 1 of floating numbers."""

    # (beam, 5, N) TREE: arc into each word, -1 where it has none; TOP: ancestor without a head, 0 below the root;
    # NEXT: another word with the same top, round in a circle; SIZE: how many are in it, at the place of its top;
    # WITNESS: arc into each word in some tree that extends the forest, and at 0 a modifier of the root in it
    words: NDArray[np.int32]
    state: NDArray[np.int8]  # (beam, A) of each arc: DEAD, FREE or TAKEN
    reach: NDArray[np.int64]  # (beam, N, N / 64) bits: words into which there were arcs from below a word, or from it
    least: NDArray[np.float64]  # (beam, N) of VALUE among the arcs into a word, those of a single root left out
    # (rows, 6, 8 or 13, A) Expected weight of the parts that hold an arc, given that it is there: ALONE: itself, any
    # siblings, head bigrams, and grandparents in which it is the upper arc; BELOW: grandparents in which it is the
    # lower; HOLD: siblings and tri-siblings; ABOVE4, BELOW4: grand-siblings in which it is the upper arc, a lower one;
    # TOTAL4: those of the upper arc, left and right. Expected weight of the parts that need it to be absent, given that
    # it is: BROKEN: siblings and tri-siblings; BROKEN4: grand-siblings. In the first row of a state, CREDIT: what
    # losing the arc adds to the value of another; CROSSING: the same without grandparents in which it is the lower;
    # BASE: what the arc adds to its own value; VALUE: of the arc, inf if it cannot be added. Of arcs into words that
    # have a head, nothing is kept.
    table: NDArray[np.float64]
    # (rows, 2, P) the same of grand-siblings for pairs of upper and lower arc, addressed as grandparents: those that
    # hold both, and those of the upper that the lower would break
    pair: NDArray[np.float64]
    # (rows, 2, N) of the root's side, for a single root: ROOT_KEPT: what a word has of its siblings without any other
    # modifier, and at 0 all siblings; ROOT_ANY: any siblings of a word as modifier
    root: NDArray[np.float64]


class _Scratch(NamedTuple):
    """What a state needs for a short time."""

    # (4, 2, max(2N, A) + 1) sets: WORDS of which all arcs are to be valued again, SIDES and HEADS of which an arc has
    # changed, ARCS of which only siblings have. The first line has marks, the second the number of members, then these
    changed: NDArray[np.int32]
    # (5, max(J, N, A)) ARC, RANK, TAKEN_ARC: of a side from START to END, lost arcs left out; QUEUE, SEEN: of words
    # or arcs
    marks: NDArray[np.int32]
    # (7, J) of such a side: WEIGHT and LACK of arcs as present and as absent, and sums over pairs
    sums: NDArray[np.float64]
    triples: NDArray[np.float64]  # (2, J J)
    # (5, max(A, N)) of arcs, BIGRAM: head bigrams of an arc into v with all arcs from below v into v - 1, and v + 1. Of
    # words, TOTAL: CREDIT of all arcs into it; CROSS: what the arcs from below v into a word r add to the value of arcs
    # from below r into v, known if PAIRED has the number at its place 0
    table: NDArray[np.float64]


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
        np.zeros((4, A), np.uint32),
        np.full((N, N), A, np.uint32),
        np.zeros((2, rows, A + 1)),
    )
    words = np.zeros((beam, 5, N), np.int32)
    least = np.zeros((beam, N))
    table = np.zeros((rows * beam, 13 if four else 8 if sides else 6, A + 1))
    forest = _Forest(
        words,
        np.zeros((beam, A + 1), np.int8),
        np.zeros((beam, N, (N + 63) // 64), np.int64),
        least,
        table,
        np.zeros((rows * beam, 2, P)),
        np.zeros((rows * beam, 2, N)),
    )
    scratch = _Scratch(
        np.zeros((4, 2, max(2 * N, A) + 1), np.int32),
        np.zeros((5, max(J, N, A)), np.int32),
        np.zeros((7, J)),
        np.zeros((2, J * J if tri else 1)),
        np.zeros((5, max(A, N))),
    )
    no_arc, empty = np.int64(-1), np.int64(0)  # a constant in a call would be compiled apart
    start, arcs, arc, state = sent.start, sent.arcs, sent.arc, forest.state
    worth = np.empty(beam)  # value of each state ...
    code = np.empty(beam, np.uint64)  # ... the exclusive or of its arcs' random codes ...
    todo = np.empty(beam, np.int32)  # ... and the arc that is to be added
    pool_value = np.empty(beam * beam)  # the best arcs of all states
    pool_state = np.empty(beam * beam, np.int32)
    pool_arc = np.empty(beam * beam, np.int32)
    pool_code = np.empty(beam * beam, np.uint64)
    pool_changed = np.empty(beam * beam, np.bool_)
    pool_witness = np.empty((beam * beam, N), np.int32)
    chosen = np.empty(beam, np.int32)
    parent = np.empty(beam, np.int32)
    best = np.empty(beam, np.int32)
    best_value = np.empty(beam)

    for b in sentences:
        n = np.int64(lengths[b])
        _read(layout, b, alpha, partial, sent, forest)
        if not only_values and not _completes(n, no_arc, single_root, sent, forest, scratch, empty, words[0, WITNESS]):
            status[b] = 1
            continue
        _begin(layout, b, sent, forest, scratch)
        live = 1
        worth[0] = 0.0
        code[0] = np.uint64(0)
        for step in range(n):
            pool = 0
            for s in range(live):
                action, k = (BEGIN, -1) if step == 0 else (COMMIT, np.int64(todo[s]))
                word = 1
                while True:
                    if action != BEGIN:
                        _change(layout, b, action, k, single_root, sent, forest, scratch, s)
                    if sides:
                        _weigh_sides(layout, b, single_root, sent, forest, scratch, s)
                    shared = _evaluate(layout, b, beta, partial, single_root, sent, forest, scratch, s)
                    if only_values:
                        while word <= n and given[b, word] < 0:
                            word += 1
                        if word > n:
                            break
                        action, k = COMMIT, np.int64(arc[given[b, word], word])
                        word += 1
                        continue
                    counters[0, b] += 1
                    # The best arcs of this state, the lowest number first among equals.
                    value = table[rows * s, VALUE]
                    count = 0
                    for m in range(n + 1):
                        if m == 0:
                            first, end = (sent.side[1], sent.side[2]) if single_root else (0, 0)
                        elif least[s, m] == np.inf or (count == beam and least[s, m] > best_value[beam - 1]):
                            continue
                        else:
                            first, end = start[m], start[m + 1]
                        for place in range(first, end):
                            e = arcs[OUT, place] if m == 0 else place
                            if state[s, e] != FREE or (m > 0 and single_root and arcs[HEAD, e] == 0):
                                continue
                            v = value[e] + (shared if m == 0 else 0.0)
                            i = count
                            while i > 0 and (v < best_value[i - 1] or (v == best_value[i - 1] and e < best[i - 1])):
                                if i < beam:
                                    best[i], best_value[i] = best[i - 1], best_value[i - 1]
                                i -= 1
                            if i < beam:
                                best[i], best_value[i] = e, v
                                count = min(count + 1, beam)
                    k = -1
                    for i in range(count):
                        new = np.int64(best[i])
                        counters[1, b] += words[s, WITNESS, arcs[MODIFIER, new]] != new
                        pool_changed[pool + i] = not _fits(single_root, arcs, words[s, WITNESS], new)
                        if pool_changed[pool + i] and not _completes(
                            n, new, single_root, sent, forest, scratch, s, pool_witness[pool + i]
                        ):
                            k = new
                            break
                        pool_value[pool + i] = worth[s] + best_value[i]
                        pool_state[pool + i] = s
                        pool_arc[pool + i] = new
                        pool_code[pool + i] = code[s] ^ _random_code(new)
                    if k < 0:
                        pool += count
                        break
                    action = DELETE
                    counters[2, b] += 1
                if only_values:
                    for m in range(1, n + 1):
                        if words[0, TREE, m] < 0:
                            for e in range(start[m], start[m + 1]):
                                v = shared if single_root and arcs[HEAD, e] == 0 else 0.0
                                values[sentence_offsets[b] + e] = table[0, VALUE, e] + v
            if only_values:
                break

            # The best of the pool, one for each set of arcs.
            live = 0
            while live < beam:
                first = -1
                for i in range(pool):
                    if pool_state[i] >= 0 and (first < 0 or pool_value[i] < pool_value[first]):
                        first = i
                if first < 0:
                    break
                same = False
                for j in range(live):
                    if pool_code[chosen[j]] == pool_code[first]:  # most likely, but look
                        e, other = pool_arc[chosen[j]], pool_arc[first]
                        same = True
                        for m in range(1, n + 1):
                            one = e if arcs[MODIFIER, e] == m else words[parent[j], TREE, m]
                            two = other if arcs[MODIFIER, other] == m else words[pool_state[first], TREE, m]
                            same &= one == two
                if same:
                    counters[3, b] += 1
                else:
                    chosen[live] = first
                    parent[live] = pool_state[first]
                    live += 1
                pool_state[first] = -1

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
                    _copy(layout, b, sent, forest, np.int64(parent[j]), place)
                    best[place] = chosen[j]
            place = 0
            for s in range(beam):
                i = best[s]
                if i >= 0:
                    if place < s:
                        _copy(layout, b, sent, forest, s, place)
                    todo[place], worth[place], code[place] = pool_arc[i], pool_value[i], pool_code[i]
                    if pool_changed[i]:
                        for m in range(n + 1):
                            words[place, WITNESS, m] = pool_witness[i, m]
                    else:
                        words[place, WITNESS, arcs[MODIFIER, pool_arc[i]]] = pool_arc[i]
                    place += 1
        if only_values:
            continue

        for place in range(live):
            first = -1
            for j in range(live):
                if todo[j] >= 0 and (first < 0 or worth[j] < worth[first]):
                    first = j
            words[first, TREE, arcs[MODIFIER, todo[first]]] = todo[first]
            todo[first] = -1
            value_of[place, b] = worth[first]
            for m in range(1, n + 1):
                heads[place, b, m] = arcs[HEAD, words[first, TREE, m]]


@numba.njit(**HELPER)
def _random_code(k):
    """Random bits for arc k (splitmix64)."""
    z = np.uint64(k + 1) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@numba.njit(**HELPER)
def _add(changed, which, x):
    """Add x to a set of what has changed."""
    if changed[which, 0, x] == 0:
        changed[which, 0, x] = 1
        changed[which, 1, 0] += 1
        changed[which, 1, changed[which, 1, 0]] = x


@numba.njit(**HELPER)
def _touch(k, arcs, top, reach, changed):
    """What is expected of arc k = (h, m), in G, has changed: value again the arcs into m, and those from below m into
    the top of h, with which k would be lost."""
    _add(changed, WORDS, np.int64(arcs[MODIFIER, k]))
    if _opposed(k, arcs, top, reach):
        _add(changed, WORDS, np.int64(top[arcs[HEAD, k]]))


@numba.njit(**HELPER)
def _opposed(k, arcs, top, reach):
    """Whether there was an arc from below m, or from m, into the top of h, where k = (h, m)."""
    v = np.int64(top[arcs[HEAD, k]])
    return v > 0 and _reaches(reach, np.int64(arcs[MODIFIER, k]), v)


@numba.njit(**HELPER)
def _reaches(reach, r, v):
    """Whether there was an arc from below r, or from r, into v."""
    return (reach[r, v >> 6] >> (v & 63)) & 1 == 1


@numba.njit(**KERNEL)
def _copy(layout, b, sent, forest, s, t):
    """Copy state s to t; of what is known of arcs, that of arcs into words without a head."""
    grandparent_offsets = layout.grandparent_offsets
    words, state, reach, least, table, pair, root = forest
    start = sent.start
    rows = len(table) // len(words)
    n = layout.lengths[b]
    first = layout.sentence_offsets[b]
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
        if words[s, TREE, m] >= 0:
            m += 1
            continue
        begin = start[m]
        while m <= n and words[s, TREE, m] < 0:  # a run of words, to copy many arcs at once
            for i in range(n // 64 + 1):
                reach[t, m, i] = reach[s, m, i]
            m += 1
        for i in range(rows):
            x, y = rows * s + i, rows * t + i
            for field in range(table.shape[1]):
                for k in range(begin, start[m]):
                    table[y, field, k] = table[x, field, k]
            if pair.shape[2] > 1:
                base = grandparent_offsets[first]
                for field in range(2):
                    for e in range(
                        grandparent_offsets[first + begin] - base, grandparent_offsets[first + start[m]] - base
                    ):
                        pair[y, field, e] = pair[x, field, e]


@numba.njit(**KERNEL)
def _read(layout, b, alpha, partial, sent, forest):
    """Number the arcs of a sentence from 0, weigh them, and make state 0 the empty forest."""
    arc_score, modifier_offsets, side_offsets = layout.arc_score, layout.modifier_offsets, layout.side_offsets
    head, modifier, outward = layout.head, layout.modifier, layout.outward
    start, side_start, arcs, arc, weight = sent
    words, state, reach, _, table, _, _ = forest
    n = layout.lengths[b]
    first = layout.sentence_offsets[b]
    word = layout.word_offsets[b]
    for k in range(start[0]):  # arcs of the sentence before
        arc[arcs[HEAD, k], arcs[MODIFIER, k]] = state.shape[1] - 1
    A = layout.sentence_offsets[b + 1] - first
    start[0] = A
    for m in range(1, n + 2):
        start[m] = modifier_offsets[word + m - 1] - first
    for k in range(A):
        arcs[HEAD, k] = head[first + k]
        arcs[MODIFIER, k] = modifier[first + k]
    for side in range(2 * n + 3):
        side_start[side] = side_offsets[2 * (word + b) + side] - first
    for i in range(A):
        k = outward[first + i] - first
        arcs[OUT, i] = k
        arcs[PLACE, k] = i

    for m in range(n + 1):
        words[0, TREE, m] = -1
        words[0, TOP, m] = words[0, NEXT, m] = m
        words[0, SIZE, m] = 1
        for i in range(n // 64 + 1):
            reach[0, m, i] = 0
    for k in range(A):
        u, v = np.int64(arcs[HEAD, k]), np.int64(arcs[MODIFIER, k])
        arc[u, v] = k
        reach[0, u, v >> 6] |= np.int64(1) << (v & 63)
        state[0, k] = FREE
    for i in range(weight.shape[1]):
        for k in range(A):
            table[i, ALONE, k] = arc_score[first + k]
            weight[0, i, k] = weight[1, i, k] = 1.0 - i
    if not partial:
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
def _begin(layout, b, sent, forest, scratch):
    """Weigh parts of two arcs in the empty forest, state 0, and let all sides and words be weighed."""
    grandparent, any_sibling, head_bigram = layout.grandparent, layout.any_sibling, layout.head_bigram
    grandparent_offsets, any_sibling_offsets = layout.grandparent_offsets, layout.any_sibling_offsets
    head_bigram_offsets = layout.head_bigram_offsets
    start, side_start, arcs, _, weight = sent
    _, _, _, _, table, _, root = forest
    changed = scratch.changed
    n = np.int64(layout.lengths[b])
    first, word = layout.sentence_offsets[b], layout.word_offsets[b]
    A = start[n + 1]
    for side in range(1, 2 * (n + 1)):
        _add(changed, SIDES, side)
    for h in range(1, n + 1):
        _add(changed, HEADS, h)
        _add(changed, WORDS, h)
    for i in range(weight.shape[1]):
        chance, alone, below = weight[0, i], table[i, ALONE], table[i, BELOW]
        for field in range(BELOW, table.shape[1]):  # the root's arcs have no grand-siblings, and are never written
            for k in range(A):
                table[i, field, k] = 0.0
        for m in range(n + 1):
            root[i, ROOT_ANY, m] = 0.0
        if len(grandparent) > 0:
            for k in range(A):
                h, m = arcs[HEAD, k], arcs[MODIFIER, k]
                if h == 0:
                    continue
                block = grandparent_offsets[first + k] - start[h]
                total = 0.0
                for g in range(start[h], start[h + 1]):
                    w = np.float64(grandparent[block + g]) if arcs[HEAD, g] != m else 0.0
                    total += chance[g] * w
                    alone[g] += chance[k] * w
                below[k] = total
        if len(any_sibling) > 0:
            for h in range(n + 1):
                base, J = side_start[2 * h], side_start[2 * h + 2] - side_start[2 * h]
                block = any_sibling_offsets[word + b + h]
                for x in range(J):
                    j = arcs[OUT, base + x]
                    for y in range(x + 1, J):
                        k = arcs[OUT, base + y]
                        w = np.float64(any_sibling[block + any_sibling_at(J, x, y)])
                        alone[j] += chance[k] * w
                        alone[k] += chance[j] * w
                        if h == 0:
                            root[i, ROOT_ANY, arcs[MODIFIER, j]] += chance[k] * w
                            root[i, ROOT_ANY, arcs[MODIFIER, k]] += chance[j] * w
        if len(head_bigram) > 0:
            for m in range(2, n + 1):
                e = head_bigram_offsets[word + m - 1]
                for j in range(start[m - 1], start[m]):
                    for k in range(start[m], start[m + 1]):
                        if arcs[HEAD, j] != m or arcs[HEAD, k] != m - 1:
                            alone[j] += chance[k] * head_bigram[e]
                            alone[k] += chance[j] * head_bigram[e]
                        e += 1


@numba.njit(**KERNEL)
def _change(layout, b, action, e, single_root, sent, forest, scratch, s):
    """Add arc e to state s, or delete it; and tell the parts of all arcs that change."""
    grandparent, any_sibling, head_bigram = layout.grandparent, layout.any_sibling, layout.head_bigram
    grandparent_offsets, any_sibling_offsets = layout.grandparent_offsets, layout.any_sibling_offsets
    head_bigram_offsets = layout.head_bigram_offsets
    start, side_start, arcs, _, weight = sent
    tree, top, following = forest.words[s, TREE], forest.words[s, TOP], forest.words[s, NEXT]
    free, reach, table, root = forest.state[s], forest.reach[s], forest.table, forest.root
    changed, queue = scratch.changed, scratch.marks[QUEUE]
    rows = weight.shape[1]
    sides = table.shape[1] > HOLD
    n = layout.lengths[b]
    first, word = layout.sentence_offsets[b], layout.word_offsets[b]

    # The arcs that change, e first: added if it is to be, all others lost.
    queue[0] = e
    count = 1
    added = np.int64(0)
    if action == COMMIT:
        u, v = np.int64(arcs[HEAD, e]), np.int64(arcs[MODIFIER, e])
        added = v
        r = np.int64(top[u])
        tree[v] = e
        forest.least[s, v] = np.inf
        for k in range(start[v], start[v + 1]):
            if free[k] == FREE and k != e:
                queue[count] = k
                count += 1
        if r > 0:
            for k in range(start[r], start[r + 1]):
                if free[k] == FREE and top[arcs[HEAD, k]] == v:
                    queue[count] = k
                    count += 1
        if single_root and u == 0:
            for place in range(side_start[1], side_start[2]):
                k = arcs[OUT, place]
                if k != e and free[k] == FREE and arcs[MODIFIER, k] != v:
                    queue[count] = k
                    count += 1
        # Words below v get another top, so arcs out of them have another value, and so have arcs into r.
        x = v
        while True:
            top[x] = r
            for place in range(side_start[2 * x], side_start[2 * x + 2]):
                k = arcs[OUT, place]
                if free[k] == FREE:
                    _add(changed, WORDS, np.int64(arcs[MODIFIER, k]))
            x = np.int64(following[x])
            if x == v:
                break
        if r > 0:
            following[r], following[v] = following[v], following[r]
            forest.words[s, SIZE, r] += forest.words[s, SIZE, v]
            for i in range(n // 64 + 1):
                reach[r, i] |= reach[v, i]
            _add(changed, WORDS, r)

    for place in range(count):
        k = queue[place]
        free[k] = TAKEN if action == COMMIT and place == 0 else DEAD
        h, m = np.int64(arcs[HEAD, k]), np.int64(arcs[MODIFIER, k])
        if sides:
            _add(changed, SIDES, 2 * h + (m > h))
            _add(changed, HEADS, m)
        if m != added:
            _touch(k, arcs, top, reach, changed)
    for place in range(count):
        k = queue[place]
        h, m = np.int64(arcs[HEAD, k]), np.int64(arcs[MODIFIER, k])
        for i in range(rows):
            d = (free[k] == TAKEN) - weight[0, i, k]
            if d == 0.0:
                continue
            # d times the weight of each part of two arcs, one of them k, is added to what is expected of the other.
            alone, below = table[rows * s + i, ALONE], table[rows * s + i, BELOW]
            if len(grandparent) > 0:
                if h > 0 and tree[h] < 0:
                    block = grandparent_offsets[first + k] - start[h]
                    for g in range(start[h], start[h + 1]):
                        w = np.float64(grandparent[block + g])
                        alone[g] += d * (w if arcs[HEAD, g] != m else 0.0)
                    for g in range(start[h], start[h + 1]):
                        if free[g] == FREE:
                            _touch(g, arcs, top, reach, changed)
                if m != added:
                    for j in range(side_start[2 * m], side_start[2 * m + 2]):
                        low = arcs[OUT, j]
                        if free[low] == FREE and arcs[MODIFIER, low] != h:
                            below[low] += d * grandparent[grandparent_offsets[first + low] + k - start[m]]
                            _touch(low, arcs, top, reach, changed)
            if len(any_sibling) > 0:
                block = any_sibling_offsets[word + b + h]
                base, J = side_start[2 * h], side_start[2 * h + 2] - side_start[2 * h]
                mine = arcs[PLACE, k] - base
                for j in range(J):
                    other = arcs[OUT, base + j]
                    if free[other] == FREE:
                        w = d * any_sibling[block + any_sibling_at(J, min(j, mine), max(j, mine))]
                        alone[other] += w
                        _touch(other, arcs, top, reach, changed)
                        if h == 0:
                            root[rows * s + i, ROOT_ANY, arcs[MODIFIER, other]] += w
            if len(head_bigram) > 0:
                for near in range(m - 1, m + 2, 2):
                    if near < 1 or near > n or tree[near] >= 0:
                        continue
                    for other in range(start[near], start[near + 1]):
                        if free[other] == FREE:
                            alone[other] += d * _bigram(head_bigram, head_bigram_offsets, word, start, arcs, other, k)
                            _touch(other, arcs, top, reach, changed)
    if added > 0 and len(grandparent) > 0:  # of all arcs into v only e is left
        for place in range(side_start[2 * added], side_start[2 * added + 2]):
            low = arcs[OUT, place]
            if free[low] == FREE:
                for i in range(rows):
                    table[rows * s + i, BELOW, low] = grandparent[grandparent_offsets[first + low] + e - start[added]]
                _touch(low, arcs, top, reach, changed)


@numba.njit(**KERNEL)
def _weigh_sides(layout, b, single_root, sent, forest, scratch, s):
    """Sum siblings, tri-siblings and grand-siblings again for sides and heads of which an arc has changed."""
    sibling, tri_sibling, grand_sibling = layout.sibling, layout.tri_sibling, layout.grand_sibling
    sibling_offsets, tri_sibling_offsets = layout.sibling_offsets, layout.tri_sibling_offsets
    grand_sibling_offsets, grandparent_offsets = layout.grand_sibling_offsets, layout.grandparent_offsets
    start, side_start, arcs, _, weight = sent
    tree, top = forest.words[s, TREE], forest.words[s, TOP]
    state, reach, table, pair, root = forest.state[s], forest.reach[s], forest.table, forest.pair, forest.root
    changed, marks, sums, triples, _ = scratch
    rows = weight.shape[1]
    first, node = layout.sentence_offsets[b], layout.word_offsets[b] + b
    two, tri, four = len(sibling) > 0, len(tri_sibling) > 0, len(grand_sibling) > 0
    for number in range(changed[SIDES, 1, 0]):
        side = np.int64(changed[SIDES, 1, number + 1])
        changed[SIDES, 0, side] = 0
        h, right = side >> 1, side & 1
        base, J = side_start[side], side_start[side + 1] - side_start[side]
        free, L = 0, 1
        for rank in range(1, J + 1):  # without a branch, which would be guessed wrong half the time
            k = arcs[OUT, base + rank - 1]
            marks[ARC, L], marks[RANK, L], marks[TAKEN_ARC, L] = k, rank, state[k] == TAKEN
            L += state[k] != DEAD
            free += state[k] == FREE
        L -= 1
        if free == 0 and (not four or tree[h] >= 0):
            continue
        marks[RANK, 0], marks[RANK, L + 1] = 0, J + 1
        for i in range(rows):
            row = rows * s + i
            sums[WEIGHT, 0] = sums[WEIGHT, L + 1] = 1.0
            sums[LACK, L + 1] = 0.0
            for j in range(1, L + 1):
                k, taken = marks[ARC, j], marks[TAKEN_ARC, j]
                sums[WEIGHT, j] = 1.0 if taken else weight[0, i, k]
                sums[LACK, j] = 0.0 if taken else weight[1, i, k]
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
                        w += sums[INNER, j] * product * tri_sibling[tri_block + tri_sibling_at(J, 0, at, J + 1)]
                    m = arcs[MODIFIER, marks[ARC, j]]
                    root[row, ROOT_KEPT, m] = w * sums[WEIGHT, j]
                    product *= sums[LACK, j]
            # Siblings and tri-siblings first, then the grand-siblings of each arc g into h.
            if two or tri:
                block = sibling_offsets[2 * node + side]
                total = _sum_pairs(sibling, two, tri, block, J, L, marks, sums, triples)
                if h == 0:
                    root[row, ROOT_KEPT, 0] = total
                for j in range(1, L + 1):
                    k = marks[ARC, j]
                    if state[k] == FREE and (
                        h == 0 or table[row, HOLD, k] != sums[HELD, j] or table[row, BROKEN, k] != sums[BROKE, j]
                    ):
                        table[row, HOLD, k] = sums[HELD, j]
                        table[row, BROKEN, k] = sums[BROKE, j]
                        if h > 0 and not _opposed(k, arcs, top, reach):
                            _add(changed, ARCS, np.int64(k))
                        else:
                            _touch(k, arcs, top, reach, changed)
            if not four or h == 0:
                continue
            _add(changed, HEADS, h)
            for g in range(start[h], start[h + 1]):
                if state[g] == DEAD:
                    continue
                cycle = 0
                back = 0.0
                for j in range(1, L + 1):  # no part holds an arc and the arc back
                    if arcs[MODIFIER, marks[ARC, j]] == arcs[HEAD, g]:
                        cycle = j
                        back = sums[WEIGHT, j]
                        sums[WEIGHT, j] = 0.0
                block = grand_sibling_offsets[2 * (first + g) + right]
                total = _sum_pairs(grand_sibling, True, False, block, J, L, marks, sums, triples)
                table[row, TOTAL4 + right, g] = total
                offset = g - start[h] - grandparent_offsets[first]
                for j in range(1, L + 1):
                    e = grandparent_offsets[first + marks[ARC, j]] + offset
                    pair[row, 0, e] = sums[HELD, j] if j != cycle else 0.0
                    pair[row, 1, e] = sums[BROKE, j]
                if cycle > 0:
                    sums[WEIGHT, cycle] = back
    changed[SIDES, 1, 0] = 0
    for number in range(changed[HEADS, 1, 0]):
        h = np.int64(changed[HEADS, 1, number + 1])
        changed[HEADS, 0, h] = 0
        if not four:
            continue
        for g in range(start[h], start[h + 1]):
            if state[g] == FREE:
                for row in range(rows * s, rows * s + rows):
                    table[row, ABOVE4, g] = table[row, TOTAL4, g] + table[row, TOTAL4 + 1, g]
                _touch(g, arcs, top, reach, changed)
        for place in range(side_start[2 * h], side_start[2 * h + 2]):
            k = arcs[OUT, place]
            if state[k] != FREE:
                continue
            e = grandparent_offsets[first + k] - grandparent_offsets[first] - start[h]
            for i in range(rows):
                row = rows * s + i
                hold, broken = 0.0, 0.0
                for g in range(start[h], start[h + 1]):
                    if state[g] != DEAD:
                        p = 1.0 if state[g] == TAKEN else weight[0, i, g]
                        hold += p * pair[row, 0, e + g]
                        broken += p * pair[row, 1, e + g]
                table[row, BELOW4, k] = hold
                table[row, BROKEN4, k] = broken
            _touch(k, arcs, top, reach, changed)
    changed[HEADS, 1, 0] = 0


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


@numba.njit(**KERNEL)
def _sum_pairs(score, two, tri, block, J, L, marks, sums, triples):
    """Expected weight of the parts of a side that hold each arc, of those that each arc would break, and of all.

    With weights a of present arcs and c of absent ones, P(i, j) the product of c between i and j, and W(i, j):
    hold(k) = left(k) + right(k), left(k) = sum_{i<k} a_i P(i, k) W(i, k), right(k) = sum_{j>k} a_j P(k, j) W(k, j), and
    broken(k) = sum_{i<k<j} a_i a_j P(i, j) / c_k W(i, j), where c_k = 0 stands for a product without it. As k grows by
    one, a_{k-1} right(k-1) comes to that sum and a_k left(k) leaves it.
    """
    rank, weight, lack, left, right = marks[RANK], sums[WEIGHT], sums[LACK], sums[HELD], sums[RIGHT]
    for j in range(L + 2):
        left[j] = sums[BROKE, j] = 0.0
    total = 0.0
    for i in range(L + 1):
        product = 1.0
        mine = weight[i]
        held = all_held = 0.0
        base = block + sibling_at(J, np.int64(rank[i]), 0)
        j = i + 1
        if tri:
            while True:
                w = triples[0, i * (L + 2) + j]
                if two:
                    w += score[base + rank[j]]
                all_of = product * (w + triples[1, i * (L + 2) + j])
                left[j] += mine * all_of
                held += weight[j] * product * w
                all_held += weight[j] * all_of
                if lack[j] == 0.0:  # or the end
                    break
                product *= lack[j]
                j += 1
        else:
            while True:
                w = product * score[base + rank[j]]
                left[j] += mine * w
                held += weight[j] * w
                if lack[j] == 0.0:  # or the end
                    break
                product *= lack[j]
                j += 1
            all_held = held
        right[i] = held
        sums[OUTER, i] = mine * all_held
        total += mine * held
        if j > L or marks[TAKEN_ARC, j]:
            continue
        # An arc that weighs nothing when absent: what spans it counts for that arc alone.
        gap = j
        while j <= L:
            j += 1
            w = triples[0, i * (L + 2) + j] + triples[1, i * (L + 2) + j] if tri else 0.0
            if two:
                w += score[base + rank[j]]
            sums[BROKE, gap] += mine * weight[j] * product * w
            if j <= L:
                if lack[j] == 0.0:
                    break
                product *= lack[j]
    run = 0.0
    for j in range(1, L + 1):
        run += sums[OUTER, j - 1] - weight[j] * left[j]
        if lack[j] > 0.0:
            sums[BROKE, j] += run / lack[j]
        left[j] += right[j]
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


@numba.njit(**HELPER)
def _weigh_arc(table, weight, down, up, keep, win, absent, four, k):
    """What an arc in G adds to the values of others, as a lost arc, and what is then lost and won with it alone."""
    expected = table[down, ALONE, k] + table[down, BELOW, k]
    if absent:
        expected += table[down, HOLD, k]
    if four:
        expected += table[down, ABOVE4, k] + table[down, BELOW4, k]
    gain = expected
    if up != down:
        gain = table[up, ALONE, k] + table[up, BELOW, k]
        if absent:
            gain += table[up, HOLD, k]
        if four:
            gain += table[up, ABOVE4, k] + table[up, BELOW4, k]
    credit = keep * weight[0, 0, k] * expected
    own = -win * gain
    if absent:
        freed, lost = table[up, BROKEN, k], table[down, BROKEN, k]
        if four:
            freed += table[up, BROKEN4, k]
            lost += table[down, BROKEN4, k]
        credit -= win * (1.0 - weight[1, up - down, k]) * freed
        own += keep * weight[1, 0, k] * lost
    return credit, own


@numba.njit(**KERNEL)
def _evaluate(layout, b, beta, partial, single_root, sent, forest, scratch, s):
    """Value the arcs into all words that have changed; what is to be added to the values of a single root's arcs.

    With a weight of `beta` for losses, L, and 1 - beta for gains, an arc e = (u, v) below r has the value
    base(e) + total(v) + cross(r, v) and what e has with single arcs: base is what changes with e alone, total sums the
    CREDIT of all arcs into v, cross that of all arcs from below v into r, less what is then counted twice.
    """
    grandparent, grandparent_offsets = layout.grandparent, layout.grandparent_offsets
    head_bigram, head_bigram_offsets = layout.head_bigram, layout.head_bigram_offsets
    sibling, sibling_offsets = layout.sibling, layout.sibling_offsets
    tri_sibling, tri_sibling_offsets = layout.tri_sibling, layout.tri_sibling_offsets
    start, side_start, arcs, arc, weight = sent
    tree, top, free, reach = forest.words[s, TREE], forest.words[s, TOP], forest.state[s], forest.reach[s]
    following, size = forest.words[s, NEXT], forest.words[s, SIZE]
    table, pair, root = forest.table, forest.pair, forest.root
    changed = scratch.changed[WORDS]
    n = layout.lengths[b]
    first, word = layout.sentence_offsets[b], layout.word_offsets[b]
    bigrams = len(head_bigram) > 0
    two, tri, four = len(sibling) > 0, len(tri_sibling) > 0, len(layout.grand_sibling) > 0
    pairs = len(grandparent) > 0 or four
    absent = two or tri or four
    rows = weight.shape[1]
    down, up, last = rows * s, rows * s + rows - 1, rows - 1  # weightings for losses and gains
    keep, win = (beta, 1.0 - beta) if partial else (1.0, 1.0)
    gaining = (
        win if rows == 1 else 0.0
    )  # with the weight 0 of Algorithm 1, where a part that is not complete gains nothing
    head = arcs[HEAD]
    chance, lack = weight[0, 0], weight[1, 0]
    below, base, value = table[down, BELOW], table[down, BASE], table[down, VALUE]
    credit, crossing = table[down, CREDIT], table[down, CROSSING]
    total_of, cross = scratch.table[TOTAL], scratch.table[CROSS]
    paired, bigram = scratch.table[PAIRED], scratch.table[BIGRAM:]

    # Where siblings of one arc have changed, and nothing else of its word, values move by what it adds to them.
    for number in range(1, scratch.changed[ARCS, 1, 0] + 1):
        lone = np.int64(scratch.changed[ARCS, 1, number])
        scratch.changed[ARCS, 0, lone] = 0
        v = arcs[MODIFIER, lone]
        if changed[0, v] != 0 or tree[v] >= 0:
            continue
        mine, own = _weigh_arc(table, weight, down, up, keep, win, absent, four, lone)
        more = mine - credit[lone]
        value[lone] += own - mine - base[lone]
        base[lone] = own - mine
        credit[lone] = mine
        crossing[lone] += more
        least = np.inf
        for e in range(start[v], start[v + 1]):
            value[e] += more
            if not single_root or head[e] != 0:
                least = value[e] if value[e] < least else least
        forest.least[s, v] = least
    scratch.changed[ARCS, 1, 0] = 0

    # What arcs add to values, each alone.
    for number in range(1, changed[1, 0] + 1):
        v = changed[1, number]
        if tree[v] >= 0:
            continue
        total = 0.0
        for k in range(start[v], start[v + 1]):
            mine, own = _weigh_arc(table, weight, down, up, keep, win, absent, four, k)
            if free[k] != FREE:
                mine = 0.0
            credit[k] = mine
            crossing[k] = mine - (keep * chance[k] * below[k] if free[k] == FREE else 0.0)
            base[k] = own - mine
            total += mine
        total_of[v] = total

    for number in range(1, changed[1, 0] + 1):
        v = np.int64(changed[1, number])
        changed[0, v] = 0
        if tree[v] >= 0:
            continue
        begin, end = start[v], start[v + 1]
        total = total_of[v]
        if single_root and begin < end and head[begin] == 0:
            e = begin
            begin += 1
            if free[e] == FREE:
                # All other arcs of the root get lost. Parts of e and another stand in their total, those of e alone are
                # not lost. Arcs of the root are never the lower ones of a grandparent or a grand-sibling.
                lost = chance[e] * root[down, ROOT_ANY, v]
                won = -root[up, ROOT_ANY, v]
                lost -= chance[e] * (table[down, ALONE, e] + (table[down, ABOVE4, e] if four else 0.0))
                if absent:
                    lost -= lack[e] * table[down, BROKEN, e]
                if two or tri:
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
                    for k in range(begin, end):
                        g = arc[0, head[k]]
                        if free[k] == FREE and free[g] == FREE:
                            w = _pair(grandparent, grandparent_offsets, first, four, pair, down, start, arcs, g, k)
                            lost -= chance[k] * chance[g] * w
                            if four:
                                w = _pair_broken(grandparent_offsets, first, pair, up, start, arcs, g, k)
                                won -= (1.0 - weight[1, last, k]) * weight[0, last, g] * w
                if bigrams:
                    for m in range(v - 1, v + 2, 2):
                        if m < 1 or m > n or free[arc[0, m]] != FREE:
                            continue
                        other = arc[0, m]
                        w = _bigram(head_bigram, head_bigram_offsets, word, start, arcs, other, e)
                        lost += chance[e] * chance[other] * w
                        won -= weight[0, last, other] * w
                        for k in range(begin, end):
                            if free[k] == FREE:
                                w = _bigram(head_bigram, head_bigram_offsets, word, start, arcs, other, k)
                                lost -= chance[k] * chance[other] * w
                value[e] = base[e] + total + keep * lost - win * won
            else:
                value[e] = np.inf

        least = np.inf
        if size[v] == 1 and not four and not bigrams:
            # The most frequent case: of the arcs into r, at most the one from v gets lost.
            for e in range(begin, end):
                r = top[head[e]]
                back = arc[v, r]
                x = base[e] + total + crossing[back]
                if head[e] != r and pairs and free[back] == FREE:
                    mine = np.float64(grandparent[grandparent_offsets[first + back] + e - start[v]])
                    x += (keep * chance[e] + gaining) * chance[back] * mine
                value[e] = x if free[e] == FREE else np.inf
                least = value[e] if value[e] < least else least
            forest.least[s, v] = least
            continue
        stamp = paired[0] = paired[0] + 1.0
        for e in range(begin, end):
            value[e] = base[e] + total if free[e] == FREE else np.inf
        for e in range(begin, end):
            r = np.int64(top[head[e]])
            if r == 0 or free[e] != FREE or not _reaches(reach, v, r):
                continue
            back = arc[v, r]
            opposed = pairs and free[back] == FREE
            near = bigrams and (v == r - 1 or v == r + 1)
            right = np.int64(r > v)
            if paired[r] != stamp:
                # For all arcs from below r into v: the arcs from below v into r get lost. Parts of two lost arcs are
                # lost once, and those of e and a lost arc are not gained.
                paired[r] = stamp
                sum_of = 0.0
                twice, twice_broken = 0.0, 0.0
                straight = arc[r, v]
                doubled = pairs and free[straight] == FREE
                if near:
                    for k in range(start[v], end):
                        bigram[right, k] = 0.0
                fewer = size[v] < start[r + 1] - start[r]  # to walk over the words below v, or over the arcs into r
                x = v
                for i in range(min(np.int64(size[v]), start[r + 1] - start[r])):
                    if fewer:
                        into = np.int64(arc[x, r])
                        x = np.int64(following[x])
                        if free[into] != FREE:
                            continue
                    else:
                        into = start[r] + i
                        if free[into] != FREE or top[head[into]] != v:
                            continue
                    sum_of += credit[into]
                    if doubled and (four or head[into] != v):
                        w = _pair(
                            grandparent, grandparent_offsets, first, four, pair, down, start, arcs, into, straight
                        )
                        twice += chance[into] * w
                        if four:
                            w = _pair_broken(grandparent_offsets, first, pair, down, start, arcs, into, straight)
                            twice_broken += chance[into] * w
                    if near:
                        for j in range(start[v], end):
                            w = _bigram(head_bigram, head_bigram_offsets, word, start, arcs, j, into)
                            bigram[right, j] += chance[into] * w
                if doubled:
                    w = -keep * chance[straight] * twice
                    if four:
                        w += gaining * (1.0 - weight[1, last, straight]) * twice_broken
                    value[straight] += gaining * twice - keep * lack[straight] * twice_broken - w
                    sum_of += w
                if opposed:
                    sum_of -= keep * chance[back] * (below[back] + (table[down, BELOW4, back] if four else 0.0))
                    if four:
                        sum_of += win * (1.0 - weight[1, last, back]) * table[up, BROKEN4, back]
                if near:
                    for k in range(start[v], end):
                        if free[k] == FREE:
                            sum_of -= keep * chance[k] * bigram[right, k]
                cross[r] = sum_of
            w = 0.0
            if opposed and (four or head[e] != r):
                w += chance[back] * _pair(
                    grandparent, grandparent_offsets, first, four, pair, down, start, arcs, e, back
                )
                if four:
                    more = _pair_broken(grandparent_offsets, first, pair, up, start, arcs, e, back)
                    value[e] -= win * (1.0 - weight[1, last, back]) * more
            if near:
                w += bigram[right, e]
            value[e] += cross[r] + (keep * chance[e] + gaining) * w
        for e in range(begin, end):
            least = value[e] if value[e] < least else least
        forest.least[s, v] = least
    changed[1, 0] = 0

    shared = 0.0  # what is lost with all arcs of the root, each part once
    if single_root:
        open_root = False
        for place in range(side_start[1], side_start[2]):
            e = arcs[OUT, place]
            if free[e] != FREE:
                continue
            open_root = True
            m = arcs[MODIFIER, e]
            expected = table[down, ALONE, e] + (table[down, ABOVE4, e] if four else 0.0)
            shared += chance[e] * (expected - 0.5 * root[down, ROOT_ANY, m])
            if bigrams and m < n and free[arc[0, m + 1]] == FREE:
                other = arc[0, m + 1]
                w = _bigram(head_bigram, head_bigram_offsets, word, start, arcs, e, other)
                shared -= chance[e] * chance[other] * w
        if open_root and (two or tri):
            shared += root[down, ROOT_KEPT, 0]
    return keep * shared


@numba.njit(**HELPER)
def _fits(single_root, arcs, witness, e):
    """Whether the witness, with arc e in place of its own, is a tree."""
    u, v = np.int64(arcs[HEAD, e]), np.int64(arcs[MODIFIER, e])
    fits = witness[v] == e
    if not fits and (not single_root or (u != 0 and witness[0] != v)):
        x = u
        while x != 0 and x != v:
            x = np.int64(arcs[HEAD, witness[x]])
        fits = x == 0
    return fits


@numba.njit(**KERNEL)
def _completes(n, e, single_root, sent, forest, scratch, s, found):
    """Whether state s, with arc e added if there is one, can become a tree; such a tree goes to `found`.

    Every word is reached over the arcs left exactly if there is a tree: a word with a head has no other arc left.
    """
    start, side, arcs, arc, _ = sent
    states, marks = forest.state, scratch.marks
    once = np.int64(0)
    u, v, root = np.int64(-1), np.int64(0), np.int64(0)
    if e >= 0:
        u, v = np.int64(arcs[HEAD, e]), np.int64(arcs[MODIFIER, e])
        root = v if single_root and u == 0 else np.int64(forest.words[s, WITNESS, 0])
    elif side[1] < side[2]:  # a guess, which is mostly right
        root = np.int64(arcs[MODIFIER, arcs[OUT, side[1]]])
    # Three ways to a tree, the first that applies: all is reached from the root; from the one modifier that it must
    # have, or has in the witness; or from a word that reaches all others. If any does, then the last from which a
    # search over what is not yet reached starts, and the modifier of the root can be each word that reaches it.
    if not single_root:
        return _reach(n, np.int64(0), e, v, once, start, side, arcs, states, marks, s, found) == n
    if root > 0 and (root != v or u == 0):
        found[0], found[root] = root, arc[0, root]
        if _reach(n, root, e, v, once, start, side, arcs, states, marks, s, found) == n:
            return True
        if root == v or states[s, arc[0, root]] == TAKEN:
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
        if w != v and states[s, arc[0, w]] != DEAD:
            found[0], found[w] = w, arc[0, w]
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
