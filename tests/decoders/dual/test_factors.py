"""Factors and the quadratic step against enumeration of each factor's configurations."""

from itertools import chain, combinations, pairwise

import numba
import numpy as np
import pytest
from brute_force import KINDS, scores, trees

from arbora.decoders import AD3, Parts
from arbora.decoders.dual import factors, oracles, quadratic
from arbora.decoders.dual import graph as fac

FOUR_WORDS = ("grand_sibling", "tri_sibling")


@numba.njit(cache=True)
def prepare(graph, layout, single_root):
    factors.start(graph, layout, 0)
    graph.floats[graph.at[fac.SCALE]] = 1.0
    feasible = factors.restrict(graph, layout, 0, single_root)
    if feasible:
        factors.build(graph, layout, 0, single_root)
    return feasible


@numba.njit(cache=True)
def call_oracle(graph, s, single_root):
    return oracles.oracle(graph, s, single_root)


@numba.njit(cache=True)
def call_project(graph, s, rho, single_root):
    quadratic.project(graph, s, rho, single_root)


@numba.njit(cache=True)
def call_bound(graph, layout, single_root):
    return oracles.bound(graph, layout, 0, single_root)


@numba.njit
def call_pair(one, two, both):
    return quadratic.project_pair(one, two, both)


class Instance:
    """One sentence with random scores, and the factor graph of it."""

    def __init__(self, seed: int, n: int, kinds: tuple[str, ...], density: float = 1.0, single_root: bool = True):
        rng = np.random.default_rng(seed)
        self.n, self.kinds, self.single_root = n, kinds, single_root
        self.arc = rng.normal(size=(n + 1, n + 1)).astype(np.float32)
        self.mask = rng.random((n + 1, n + 1)) < density
        self.mask[np.arange(1, n + 1), np.arange(n)] = True
        np.fill_diagonal(self.mask, False)
        self.mask[0] = False
        self.higher = {
            kind: rng.normal(size=(n + 1,) * (4 if kind in FOUR_WORDS else 3)).astype(np.float32) for kind in kinds
        }
        self.parts = Parts.from_dense(self.arc, mask=self.mask, **self.higher)
        self.graph = fac.allocate(self.parts, np.arange(1))
        self.feasible = prepare(self.graph, self.parts.layout, single_root)
        self.origin = float(self.array(fac.ORIGIN)[1 : n + 1].sum())  # which all trees lack

    def array(self, name: int) -> np.ndarray:
        whole = name >= len(fac.FLOATS)
        return (self.graph.ints if whole else self.graph.floats)[self.graph.at[name] :]

    def links(self, s: int) -> slice:
        first = self.graph.factor[s, fac.FACTOR_LINK]
        return slice(first, first + self.graph.factor[s, fac.FACTOR_LINKS])

    def slots(self, s: int) -> slice:
        """Places of the active configurations of a factor."""
        first = self.graph.factor[s, fac.FACTOR_SLOT]
        return slice(first, first + self.graph.factor[s, fac.FACTOR_ACTIVE])

    def arcs(self, s: int) -> list[tuple[int, int]]:
        """(head, modifier) of each link."""
        return [(int(self.parts.head[a]), int(self.parts.modifier[a])) for a in self.array(fac.LINK_ARC)[self.links(s)]]

    def heads_of(self, m: int) -> list[int]:
        return np.flatnonzero(self.alive()[m]).tolist()

    def alive(self) -> np.ndarray:
        alive = np.zeros_like(self.mask)
        alive[self.parts.modifier, self.parts.head] = self.array(fac.ALIVE)[: len(self.parts.head)]
        return alive

    def configurations(self, s: int) -> tuple[np.ndarray, np.ndarray]:
        """(C, links) all of a factor, and (C,) the factor's own score of each."""
        arcs = self.arcs(s)
        place = {arc: e for e, arc in enumerate(arcs)}
        kind = self.graph.factor[s, fac.FACTOR_KIND]
        found: list[tuple[list[tuple[int, int]], float]] = []
        if kind == fac.KIND_TREE:
            alive = self.alive()
            for tree in trees(self.n, self.single_root):
                arcs_of_tree = [(h, m) for m, h in enumerate(tree) if m > 0]
                if all(alive[m, h] for h, m in arcs_of_tree):
                    found += [([arc for arc in arcs_of_tree if arc in place], 0.0)]
        elif kind == fac.KIND_SEQUENCE:
            words = sorted({m for _, m in arcs})
            choices: list[list[int]] = [[]]
            for m in words:
                choices = [[*choice, h] for choice in choices for h in self.heads_of(m)]
            for choice in choices:
                if any(choice[i] == words[i - 1] and choice[i - 1] == words[i] for i in range(1, len(words))):
                    continue
                own = sum(
                    float(self.higher["head_bigram"][words[i], choice[i], choice[i - 1]]) for i in range(1, len(words))
                )
                found.append((list(zip(choice, words)), own))
        else:
            found = self.automaton(kind, arcs, int(self.graph.factor[s, fac.FACTOR_INCOMING]))
        rows = np.zeros((len(found), len(arcs)))
        for row, (chosen, _) in zip(rows, found):
            row[[place[arc] for arc in chosen]] = 1
        return rows, np.array([own for _, own in found])

    def automaton(
        self, kind: int, arcs: list[tuple[int, int]], incoming: int
    ) -> list[tuple[list[tuple[int, int]], float]]:
        h = arcs[-1][0]
        outs = [m for _, m in arcs[incoming:]]
        ups = [g for g, _ in arcs[:incoming]]
        right = outs[0] > h
        decided = [m for m in range(1, self.n + 1) if self.heads_of(m) == [h] and (m > h) == right]
        higher = self.higher
        above: list[int | None] = [*ups] or [None]
        if not ups and h > 0 and len(self.heads_of(h)) == 1:
            above = [self.heads_of(h)[0]]
        found = []
        for g in above:
            for chosen in chain.from_iterable(combinations(outs, size) for size in range(len(outs) + 1)):
                if g in chosen or g in decided:
                    continue
                side = sorted([*chosen, *decided], key=lambda m: abs(m - h))
                path = [h, *side, h]
                own = 0.0
                if kind == fac.KIND_TRIPLE:
                    own += sum(float(higher["tri_sibling"][h, a, b, c]) for a, b, c in zip(path, path[1:], path[2:]))
                else:
                    for a, b in pairwise(path):
                        if "sibling" in higher:
                            own += float(higher["sibling"][h, a, b])
                        if "grand_sibling" in higher and g is not None:
                            own += float(higher["grand_sibling"][g, h, a, b])
                    if "grandparent" in higher and g is not None:
                        own += sum(float(higher["grandparent"][m, h, g]) for m in side)
                found.append(([(h, m) for m in chosen] + ([(g, h)] if ups else []), own))
        return found


CASES = [
    (4, ("sibling",), 1.0),
    (4, ("grandparent",), 1.0),
    (4, ("grandparent", "sibling"), 1.0),
    (4, ("grand_sibling",), 1.0),
    (4, ("tri_sibling",), 1.0),
    (4, ("head_bigram",), 1.0),
    (5, ("grandparent", "sibling", "grand_sibling", "tri_sibling", "head_bigram"), 0.5),
    (5, ("grandparent", "sibling", "grand_sibling", "tri_sibling", "head_bigram"), 0.35),
]


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize(("n", "kinds", "density"), CASES)
def test_oracles(n, kinds, density, single_root):
    rng = np.random.default_rng(0)
    seen = set()
    for seed in range(6):
        instance = Instance(seed, n, kinds, density, single_root)
        if not instance.feasible:
            continue
        for s in range(instance.graph.sizes[fac.SIZE_FACTORS]):
            rows, own = instance.configurations(s)
            if len(rows) == 0:
                continue  # no tree
            seen.add(int(instance.graph.factor[s, fac.FACTOR_KIND]))
            for scale in (0.1, 1.0, 10.0):
                inputs = scale * rng.normal(size=rows.shape[1])
                instance.array(fac.INPUT)[: len(inputs)] = inputs
                value, size, score = call_oracle(instance.graph, s, single_root)
                y = np.zeros(len(inputs))
                y[instance.array(fac.FOUND)[:size]] = 1
                assert value == pytest.approx((rows @ inputs + own).max(), abs=1e-9)
                assert inputs @ y + score == pytest.approx(value, abs=1e-9)
                assert y.sum() == size
                assert any((row == y).all() for row in rows)
    assert len(seen) > 1


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize(("n", "kinds", "density"), [*CASES, (4, KINDS, 1.0), (4, ("any_sibling",), 0.8)])
def test_bound_and_losses(n, kinds, density, single_root):
    """No tree scores more than the bound, and no tree with an arc more than the bound less the arc's loss."""
    rng = np.random.default_rng(1)
    checked = 0
    for seed in range(12):
        instance = Instance(seed, n, kinds, density, single_root)
        graph, parts = instance.graph, instance.parts
        several = trees(n, single_root)
        total = scores(several, instance.mask, instance.arc, **instance.higher) - instance.origin
        if total.max() == -np.inf:
            assert not instance.feasible or call_bound(graph, parts.layout, single_root) == -np.inf
            continue
        opened = graph.sizes[fac.SIZE_OPEN_ARCS]
        links = graph.sizes[fac.SIZE_LINKS]
        link_arc, share = instance.array(fac.LINK_ARC)[:links], instance.array(fac.SHARE)
        for _ in range(3):
            upper = call_bound(graph, parts.layout, single_root)
            assert upper >= total.max() - 1e-6
            assert instance.array(fac.INCUMBENT)[0] <= total.max() + 1e-6
            if upper > total.max() + 1e-4:
                checked += 1
                for e in range(opened):
                    a = link_arc[e]
                    h, m = parts.head[a], parts.modifier[a]
                    best = max((t for t, tree in zip(total, several) if tree[m] == h), default=-np.inf)
                    assert best <= upper - instance.array(fac.LOSS)[a] + 1e-6
            move = rng.normal(size=links)  # other multipliers, that add up to 0 for each arc
            mean = np.bincount(link_arc, move, len(parts.head)) / np.maximum(
                np.bincount(link_arc, None, len(parts.head)), 1
            )
            share[:links] += move - mean[link_arc]
    assert checked > 0


def objective(rows, own, weights, u, w, rho):
    z = weights @ rows
    return weights @ own + w @ z - rho / 2 * ((z - u) ** 2).sum()


@pytest.mark.parametrize(("n", "kinds", "density"), CASES)
def test_quadratic_step(n, kinds, density):
    """z is optimal iff no configuration is better under the gradient at z; warm starts from wherever it was before."""
    rng = np.random.default_rng(2)
    solved = 0
    for seed in range(3):
        instance = Instance(seed, n, kinds, density)
        if not instance.feasible:
            continue
        graph = instance.graph
        for s in range(min(graph.sizes[fac.SIZE_FACTORS], 6)):
            rows, own = instance.configurations(s)
            if len(rows) == 0:
                continue
            here = instance.links(s)
            arcs = instance.array(fac.LINK_ARC)[here]
            for turn in range(40):
                rho = float(rng.choice([0.1, 1.0, 10.0]))
                w = rng.normal(size=len(arcs)) if turn % 4 else np.zeros(len(arcs))
                u = rng.random(len(arcs))
                if turn % 3 == 0:
                    u = np.round(u)
                instance.array(fac.SHARE)[here] = w
                instance.array(fac.MEAN)[arcs] = u
                for _ in range(3):  # inner steps are bounded, and what is left is done in the next call
                    call_project(graph, s, rho, True)
                z = instance.array(fac.COPY)[here].copy()
                mass = instance.array(fac.MASS)[instance.slots(s)]
                assert mass.sum() == pytest.approx(1)
                assert (mass >= 0).all()
                scored = instance.array(fac.OWN)[instance.slots(s)]
                gradient = w + rho * (u - z)
                reached = mass @ scored + gradient @ z
                assert (rows @ gradient + own).max() <= reached + 1e-6 * (1 + abs(reached))
                solved += 1
    assert solved > 0


def test_quadratic_step_beside_a_generic_solver():
    optimize = pytest.importorskip("scipy.optimize")
    rng = np.random.default_rng(3)
    instance = Instance(0, 4, ("grandparent", "sibling"))
    for s in range(1, 5):
        rows, own = instance.configurations(s)
        here = instance.links(s)
        arcs = instance.array(fac.LINK_ARC)[here]
        for rho in (0.3, 3.0):
            w, u = rng.normal(size=len(arcs)), rng.random(len(arcs))
            instance.array(fac.SHARE)[here] = w
            instance.array(fac.MEAN)[arcs] = u
            call_project(instance.graph, s, rho, True)
            z = instance.array(fac.COPY)[here]
            result = optimize.minimize(
                lambda p, rho=rho, w=w, u=u, rows=rows, own=own: -objective(rows, own, p, u, w, rho),
                np.full(len(rows), 1 / len(rows)),
                method="SLSQP",
                bounds=[(0, 1)] * len(rows),
                constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
                options={"maxiter": 500, "ftol": 1e-12},
            )
            np.testing.assert_allclose(z, result.x @ rows, atol=1e-4)


def relaxation(instance: Instance) -> float:
    """Value of the relaxation as a linear program: weights of all configurations, that agree on all arcs."""
    optimize = pytest.importorskip("scipy.optimize")
    graph, arcs = instance.graph, len(instance.parts.head)
    blocks = [
        (instance.array(fac.LINK_ARC)[instance.links(s)], *instance.configurations(s))
        for s in range(graph.sizes[fac.SIZE_FACTORS])
    ]
    square = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    for i in range(graph.sizes[fac.SIZE_PAIRS]):
        e = graph.sizes[fac.SIZE_PAIR_LINK] + 2 * i
        own = np.array([0, 0, 0, instance.array(fac.PAIR_SCORE)[i]])
        blocks.append((instance.array(fac.LINK_ARC)[e : e + 2], square, own))
    size = arcs + sum(len(own) for _, _, own in blocks)
    opened = instance.array(fac.LINK_ARC)[: graph.sizes[fac.SIZE_OPEN_ARCS]]
    score = np.zeros(size)
    score[opened] = instance.array(fac.SCORE)[opened]
    rows, right = [], []
    first = arcs
    for link_arc, configurations, own in blocks:
        score[first : first + len(own)] = own
        for a, with_arc in zip(link_arc, configurations.T):
            row = np.zeros(size)
            row[first : first + len(own)] = with_arc
            row[a] = -1
            rows.append(row)
            right.append(0.0)
        rows.append(np.zeros(size))
        rows[-1][first : first + len(own)] = 1
        right.append(1.0)
        first += len(own)
    result = optimize.linprog(-score, A_eq=np.array(rows), b_eq=right, bounds=(0, 1))
    assert result.status == 0
    return float(instance.array(fac.CONSTANT)[0] - result.fun) + instance.origin


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize(("n", "kinds", "density"), [*CASES, (4, KINDS, 1.0), (4, ("any_sibling",), 1.0)])
def test_solution_is_that_of_the_linear_program(n, kinds, density, single_root):
    decoder = AD3(single_root, drop_arcs=False, fractional=True, tolerance=1e-8, max_iterations=3000)
    for seed in range(4):
        instance = Instance(seed, n, kinds, density, single_root)
        parts = instance.parts
        if not instance.feasible or len(instance.configurations(0)[0]) == 0:
            continue
        trees = decoder(parts)
        value = sum(
            float((parts.arc_score if kind == "arc" else getattr(parts, kind))[entries].astype(np.float64) @ share)
            for kind, (entries, share) in trees.shares.items()
        )
        expected = relaxation(instance)
        assert value == pytest.approx(expected, abs=1e-4)
        assert trees.bound[0] == pytest.approx(expected, abs=1e-4)


def test_corners_of_a_square():
    """Two modifiers of a side, all four configurations: any three of them say all of the fourth but its score."""
    found = set()
    for seed in range(30):
        instance = Instance(seed, 3, ("sibling",), single_root=True)
        for s in range(1, instance.graph.sizes[fac.SIZE_FACTORS]):
            rows, own = instance.configurations(s)
            if len(rows) != 4:
                continue
            here = instance.links(s)
            arcs = instance.array(fac.LINK_ARC)[here]
            instance.array(fac.MEAN)[arcs] = 0.5
            for corner in range(4):  # drawn to each corner in turn, then to the middle
                instance.array(fac.SHARE)[here] = 30 * (rows[corner] - 0.5)
                call_project(instance.graph, s, 1.0, True)
                np.testing.assert_allclose(instance.array(fac.COPY)[here], rows[corner], atol=1e-9)
            instance.array(fac.SHARE)[here] = 0
            call_project(instance.graph, s, 100.0, True)
            z = instance.array(fac.COPY)[here]
            gradient = 100.0 * (0.5 - z)
            active = instance.graph.factor[s, fac.FACTOR_ACTIVE]
            assert active <= 3
            mass = instance.array(fac.MASS)[instance.slots(s)]
            reached = mass @ instance.array(fac.OWN)[instance.slots(s)] + gradient @ z
            assert (rows @ gradient + own).max() <= reached + 1e-7
            found.add(int(active))
    assert 3 in found


def test_pairs():
    """Against the KKT conditions over the four configurations, whose weights follow from z and the best overlap."""
    rng = np.random.default_rng(4)
    rows = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    for _ in range(2000):
        c = 2 * rng.normal(size=2)
        both = float(2 * rng.normal())
        z = np.array(call_pair(c[0], c[1], both))
        assert ((z >= 0) & (z <= 1)).all()
        overlap = min(z) if both > 0 else max(0.0, z.sum() - 1)
        gradient = c - z
        reached = gradient @ z + both * overlap
        assert (rows @ gradient + both * np.array([0, 0, 0, 1])).max() <= reached + 1e-9
