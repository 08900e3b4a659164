"""The best tree of a sentence by an integer program: an answer beyond the reach of enumeration.

Shares no code with the decoders but the order of parts in `Parts`. Needs scipy, whose `milp` is the solver HiGHS.

Arcs are bits; each word has one head, and a flow that leaves the root and is used up by one at each word keeps arcs
from making cycles. The neighbours on each side of a head are a path from START to END through its modifiers. Every
other part is a conjunction of two bits that are there already.
"""

from itertools import combinations

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
                triples = ((a, b, c) for b in range(1, J + 1) for a in range(b) for c in range(b + 1, J + 2))
                for e, (a, b, c) in enumerate(triples, int(layout.tri_sibling_offsets[side])):
                    program.both(step[a, b], step[b, c], parts.tri_sibling[e])

    size = len(program.score)
    places = [(i, j, value) for i, row in enumerate(program.rows) for j, value in row.items()]
    rows, columns, values = zip(*places, strict=True)
    matrix = csr_array((values, (rows, columns)), shape=(len(program.rows), size))
    upper = np.ones(size)
    upper[flow] = n
    integral = np.zeros(size)
    integral[arcs] = 1  # the rest follows
    result = milp(
        -np.array(program.score),
        integrality=integral,
        bounds=Bounds(0, upper),
        constraints=LinearConstraint(matrix, program.low, program.high),
        options={"time_limit": seconds, "mip_rel_gap": 1e-9},
    )
    return (-np.inf if result.x is None else -float(result.fun)), bool(result.status == 0)
