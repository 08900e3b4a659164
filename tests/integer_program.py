"""The best tree of a sentence by an integer program, and AD3's relaxation of it by a linear one.

Answers beyond the reach of enumeration. They share no code with the decoders but the order of parts in `Parts`, and
need scipy, whose `milp` is the solver HiGHS.

In the integer program arcs are bits; each word has one head, and a flow that leaves the root and is used up by one at
each word keeps arcs from making cycles. The neighbours on each side of a head are a path from START to END through its
modifiers. Every other part is a conjunction of two bits that are there already.

In the linear program each factor of AD3 has its exact polytope. That of trees is a flow from the root to each word that
only arcs of the tree carry. Those of automata and of sequences are paths through their states.
"""

from collections.abc import Iterator
from itertools import combinations, product

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from arbora.decoders import Parts


class Program:
    """Variables with scores, and rows of constraints."""

    def __init__(self) -> None:
        self.score: list[float] = []
        self.rows: list[dict[int, float]] = []
        self.low: list[float] = []
        self.high: list[float] = []

    def variable(self, score: float = 0.0) -> int:
        self.score.append(float(score))
        return len(self.score) - 1

    def constrain(self, row: dict[int, float], low: float, high: float) -> None:
        self.rows.append(row)
        self.low.append(low)
        self.high.append(high)

    def both(self, one: int, two: int, score: float) -> int:
        """A variable that is the conjunction of two others."""
        z = self.variable(score)
        self.constrain({z: 1, one: -1}, -np.inf, 0)
        self.constrain({z: 1, two: -1}, -np.inf, 0)
        self.constrain({z: 1, one: -1, two: -1}, -1, np.inf)
        return z

    def solve(self, upper: np.ndarray, integral: np.ndarray, seconds: float = np.inf) -> tuple[float, bool]:
        """Largest score of variables from 0 to `upper`, and whether it was proved in time."""
        places = [(i, j, value) for i, row in enumerate(self.rows) for j, value in row.items()]
        rows, columns, values = zip(*places, strict=True)
        result = milp(
            -np.array(self.score),
            integrality=integral,
            bounds=Bounds(0, upper),
            constraints=LinearConstraint(
                csr_array((values, (rows, columns)), shape=(len(self.rows), len(upper))), self.low, self.high
            ),
            options={"time_limit": seconds, "mip_rel_gap": 1e-9},
        )
        return (-np.inf if result.x is None else -float(result.fun)), bool(result.status == 0)


def best_tree(parts: Parts, single_root: bool, seconds: float = 60.0) -> tuple[float, bool]:
    """Score of the best tree of the only sentence, and whether it was proved in time."""
    assert len(parts.lengths) == 1
    n, layout, program = int(parts.lengths[0]), parts.layout, Program()
    head, modifier = parts.head.tolist(), parts.modifier.tolist()
    arcs = [program.variable(score) for score in parts.arc_score]
    into = [[k for k in arcs if modifier[k] == m] for m in range(n + 1)]
    out = [[k for k in arcs if head[k] == h] for h in range(n + 1)]
    flow = [program.variable() for _ in arcs]
    for k in arcs:
        program.constrain({flow[k]: 1, arcs[k]: -n}, -np.inf, 0)
    for m in range(1, n + 1):
        program.constrain(dict.fromkeys(into[m], 1.0), 1, 1)
        program.constrain({flow[k]: 1.0 for k in into[m]} | {flow[k]: -1.0 for k in out[m]}, 1, 1)
    if single_root:
        program.constrain(dict.fromkeys(out[0], 1.0), 1, 1)

    if parts.grandparent is not None:
        for k in arcs:
            for place, up in enumerate(into[head[k]]):
                if head[up] != modifier[k]:
                    program.both(k, up, parts.grandparent[layout.grandparent_offsets[k] + place])
    if parts.head_bigram is not None:
        for m in range(2, n + 1):
            for i, before in enumerate(into[m - 1]):
                for j, k in enumerate(into[m]):
                    entry = layout.head_bigram_offsets[m - 1] + i * len(into[m]) + j
                    program.both(before, k, parts.head_bigram[entry])
    for h in range(n + 1):
        both_sides = layout.outward[layout.side_offsets[2 * h] : layout.side_offsets[2 * h + 2]].tolist()
        if parts.any_sibling is not None:
            for e, (one, two) in enumerate(combinations(both_sides, 2), int(layout.any_sibling_offsets[h])):
                program.both(one, two, parts.any_sibling[e])
        for side in range(2 * h + (h == 0), 2 * h + 2):
            chain = layout.outward[layout.side_offsets[side] : layout.side_offsets[side + 1]].tolist()
            J = len(chain)
            step = {}
            for e, (i, j) in enumerate(combinations(range(J + 2), 2)):
                score = 0.0 if parts.sibling is None else parts.sibling[layout.sibling_offsets[side] + e]
                step[i, j] = program.variable(score)
                if parts.grand_sibling is not None and h > 0:
                    for up in into[h]:
                        entry = layout.grand_sibling_offsets[2 * up + side % 2] + e
                        program.both(step[i, j], up, parts.grand_sibling[entry])
            program.constrain({step[0, j]: 1.0 for j in range(1, J + 2)}, 1, 1)
            for j, k in enumerate(chain, 1):
                program.constrain({step[i, j]: 1.0 for i in range(j)} | {k: -1.0}, 0, 0)
                program.constrain({step[j, c]: 1.0 for c in range(j + 1, J + 2)} | {k: -1.0}, 0, 0)
            if parts.tri_sibling is not None:
                for e, (a, b, c) in enumerate(_triples(J), int(layout.tri_sibling_offsets[side])):
                    program.both(step[a, b], step[b, c], parts.tri_sibling[e])

    upper = np.ones(len(program.score))
    upper[flow] = n
    integral = np.zeros(len(program.score))
    integral[arcs] = 1  # the rest follows
    return program.solve(upper, integral, seconds)


def relaxation(parts: Parts, single_root: bool) -> float:
    """Value of AD3's relaxation of the only sentence, in which every word has at least two candidate heads."""
    assert len(parts.lengths) == 1
    n, layout, program = int(parts.lengths[0]), parts.layout, Program()
    head, modifier = parts.head.tolist(), parts.modifier.tolist()
    arcs = [program.variable(score) for score in parts.arc_score]
    into = [[k for k in arcs if modifier[k] == m] for m in range(n + 1)]
    out = [[k for k in arcs if head[k] == h] for h in range(n + 1)]
    assert min(map(len, [*into[1:], out[0]])) > 1
    for m in range(1, n + 1):
        program.constrain(dict.fromkeys(into[m], 1.0), 1, 1)
        flow = [program.variable() for _ in arcs]  # from the root to m
        for v in range(1, n + 1):
            used = float(v == m)
            balance = {flow[k]: 1.0 for k in into[v]} | {flow[k]: -1.0 for k in out[v]}
            program.constrain(balance, used, used)
        for k in arcs:
            program.constrain({flow[k]: 1, arcs[k]: -1}, -np.inf, 0)
    if single_root:
        program.constrain(dict.fromkeys(out[0], 1.0), 1, 1)

    if parts.head_bigram is not None:
        for m in range(2, n + 1):
            both = {}
            for e, (one, two) in enumerate(product(into[m - 1], into[m]), int(layout.head_bigram_offsets[m - 1])):
                if (head[one], head[two]) != (m, m - 1):
                    both[one, two] = program.variable(parts.head_bigram[e])
            for place, words in enumerate((into[m - 1], into[m])):
                for k in words:
                    row = {variable: 1.0 for pair, variable in both.items() if pair[place] == k}
                    program.constrain(row | {k: -1.0}, 0, 0)
    for h in range(n + 1):
        both_sides = layout.outward[layout.side_offsets[2 * h] : layout.side_offsets[2 * h + 2]].tolist()
        if parts.any_sibling is not None and not (h == 0 and single_root):
            for e, (one, two) in enumerate(combinations(both_sides, 2), int(layout.any_sibling_offsets[h])):
                program.both(one, two, parts.any_sibling[e])
        for side in range(2 * h + (h == 0), 2 * h + 2):
            chain = layout.outward[layout.side_offsets[side] : layout.side_offsets[side + 1]].tolist()
            if h == 0 and single_root:
                _score_single_roots(parts, program, side, chain)
                continue
            _add_chain(parts, program, side, chain, into[h])
            if parts.tri_sibling is not None and chain:
                _add_triple(parts, program, side, chain)
    value, _ = program.solve(np.ones(len(program.score)), np.zeros(len(program.score)))
    return value


def _score_single_roots(parts: Parts, program: Program, side: int, chain: list[int]) -> None:
    """Give the arcs of a root with one modifier what its siblings score."""
    layout, J = parts.layout, len(chain)
    pairs = {pair: e for e, pair in enumerate(combinations(range(J + 2), 2))}
    triples = {triple: e for e, triple in enumerate(_triples(J))}
    for j, k in enumerate(chain, 1):
        if parts.sibling is not None:
            block = layout.sibling_offsets[side]
            program.score[k] += float(parts.sibling[block + pairs[0, j]]) + float(
                parts.sibling[block + pairs[j, J + 1]]
            )
        if parts.tri_sibling is not None:
            program.score[k] += float(parts.tri_sibling[layout.tri_sibling_offsets[side] + triples[0, j, J + 1]])


def _triples(J: int) -> Iterator[tuple[int, int, int]]:
    """Three neighbours on a side in the order of `tri_sibling`."""
    return ((a, b, c) for b in range(1, J + 1) for a in range(b) for c in range(b + 1, J + 2))


def _add_chain(parts: Parts, program: Program, side: int, chain: list[int], into: list[int]) -> None:
    """Add paths through the modifiers of a side, one for each incoming arc if these matter."""
    layout, J, h = parts.layout, len(chain), side // 2
    has_up = h > 0 and (parts.grandparent is not None or parts.grand_sibling is not None)
    through: list[dict[int, float]] = [{} for _ in range(J + 1)]
    for place, up in enumerate(into if has_up else [None]):
        barred = [j for j, k in enumerate(chain, 1) if up is not None and parts.modifier[k] == parts.head[up]]
        step = {}
        for e, (i, j) in enumerate(combinations(range(J + 2), 2)):
            if i in barred or j in barred:
                continue
            score = 0.0 if parts.sibling is None else float(parts.sibling[layout.sibling_offsets[side] + e])
            if up is not None and parts.grand_sibling is not None:
                score += float(parts.grand_sibling[layout.grand_sibling_offsets[2 * up + side % 2] + e])
            if up is not None and parts.grandparent is not None and j <= J:
                score += float(parts.grandparent[layout.grandparent_offsets[chain[j - 1]] + place])
            step[i, j] = program.variable(score)
        first = {variable: 1.0 for (i, _), variable in step.items() if i == 0}
        program.constrain(first if up is None else first | {up: -1.0}, float(up is None), float(up is None))
        for j in range(1, J + 1):
            enter = {variable: 1.0 for (_, c), variable in step.items() if c == j}
            leave = {variable: -1.0 for (i, _), variable in step.items() if i == j}
            program.constrain(enter | leave, 0, 0)
            through[j] |= enter
    for j, k in enumerate(chain, 1):
        program.constrain(through[j] | {k: -1.0}, 0, 0)


def _add_triple(parts: Parts, program: Program, side: int, chain: list[int]) -> None:
    """Add paths through pairs of neighbouring modifiers of a side."""
    assert parts.tri_sibling is not None
    J, block = len(chain), int(parts.layout.tri_sibling_offsets[side])
    step = {triple: program.variable(parts.tri_sibling[e]) for e, triple in enumerate(_triples(J), block)}
    empty = program.variable()
    begin = {variable: 1.0 for (a, _, _), variable in step.items() if a == 0}
    program.constrain(begin | {empty: 1.0}, 1, 1)
    for b, c in combinations(range(1, J + 1), 2):
        enter = {variable: 1.0 for triple, variable in step.items() if triple[1:] == (b, c)}
        leave = {variable: -1.0 for triple, variable in step.items() if triple[:2] == (b, c)}
        program.constrain(enter | leave, 0, 0)
    for j, k in enumerate(chain, 1):
        program.constrain({variable: 1.0 for (_, b, _), variable in step.items() if b == j} | {k: -1.0}, 0, 0)
