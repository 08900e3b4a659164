"""A naive version of the greedy search, every sum taken afresh from the definition, and instances to try it on."""

from functools import cached_property
from math import exp, prod

import brute_force
import numpy as np
import pytest
from brute_force import Arc, can_fire, is_single_root, reaches_root

from arbora.decoders import MST, Parts
from arbora.decoders.greedy.decoder import Greedy
from arbora.decoders.parts.kinds import HIGHER_ORDER

KINDS = (*brute_force.KINDS, "grand_grandparent")
SECOND = ("grandparent", "sibling")
KIND_SETS = [
    (),
    *[(kind,) for kind in KINDS],
    SECOND,
    ("grandparent", "grand_sibling", "tri_sibling"),
    ("grand_sibling", "grand_grandparent"),
    KINDS,
]
both_modes = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])

Part = tuple[float, frozenset[Arc], frozenset[Arc]]


class Instance:
    """A sentence with random dense scores, as the enumeration and as the decoders take it."""

    def __init__(self, seed: int, n: int, kinds=KINDS, density: float = 1.0, scale: float = 1.0, chain: bool = True):
        rng = np.random.default_rng(seed)
        N = n + 1
        self.n = n
        self.mask = rng.random((N, N)) < density
        if chain:  # 0 -> 1 -> ... -> n is never left out
            self.mask[np.arange(1, N), np.arange(n)] = True
        self.mask[0] = False
        np.fill_diagonal(self.mask, False)
        self.arc = (2 * rng.normal(size=(N, N))).astype(np.float32)
        shapes = {kind: [N] * (4 if HIGHER_ORDER[kind].order == 3 else 3) for kind in kinds}
        self.higher = {kind: (scale * rng.normal(size=shape)).astype(np.float32) for kind, shape in shapes.items()}
        self.candidates = [(h, m) for m in range(1, N) for h in range(N) if self.mask[m, h]]

    @cached_property
    def parts(self) -> Parts:
        return Parts.from_dense(self.arc, mask=self.mask, **self.higher)

    @cached_property
    def listed(self) -> list[Part]:
        """Weight, present and absent arcs of each part that can fire."""
        found = [(float(self.arc[m, h]), frozenset([(h, m)]), frozenset()) for h, m in self.candidates]
        for kind, entries in brute_force.parts(self.mask, self.higher).items():
            dense = self.higher[kind]
            found += [(float(dense[words]), P, B) for words, P, B in entries if can_fire(P)]
        return found

    def trees(self, single_root: bool) -> list[brute_force.Tree]:
        found = brute_force.trees(self.n, single_root)
        return [tree for tree in found if all(self.mask[m, h] for m, h in enumerate(tree) if m > 0)]

    def best(self, single_root: bool) -> float:
        return brute_force.best_score(self.arc, single_root, mask=self.mask, **self.higher)


def top(heads: list[int], x: int) -> int:
    while heads[x] >= 0:
        x = heads[x]
    return x


def free_arcs(instance: Instance, heads: list[int], single_root: bool) -> list[Arc]:
    """Candidate arcs that can still be added to a forest."""
    rooted = single_root and 0 in heads
    return [(h, m) for h, m in instance.candidates if heads[m] < 0 and top(heads, h) != m and not (rooted and h == 0)]


def naive_values(instance: Instance, heads: list[int], decoder: Greedy, deleted=frozenset()) -> dict[Arc, float]:
    """Value of each arc that can be added to a forest, every sum taken afresh from the definition."""
    p = {}
    for m in range(1, instance.n + 1):
        scores = {h: float(instance.arc[m, h]) for h, word in instance.candidates if word == m}
        powers = {h: exp(decoder.alpha * (w - max(scores.values()))) for h, w in scores.items()}
        for h, power in powers.items():
            share = power / sum(powers.values())
            p[h, m] = 1.0 if share > 1 - 1e-6 else share

    T = {(h, m) for m, h in enumerate(heads) if h >= 0}
    G = set(free_arcs(instance, heads, decoder.single_root)) - deleted
    alive = [(w, P, B) for w, P, B in instance.listed if P <= T | G and not B & T]
    if not decoder.absent:
        alive = [(w, P, B) for w, P, B in alive if not B]

    def chance(P, B, T, G):
        return prod(p[a] for a in P - T) * prod(1 - p[a] for a in B & G)

    values = {}
    for e in G:
        u, v = e
        r = top(heads, u)
        lost = {a for a in G if a != e and a[1] == v}
        lost |= {a for a in G if r != 0 and a[1] == r and top(heads, a[0]) == v}
        if decoder.single_root and u == 0:
            lost |= {a for a in G if a != e and a[0] == 0}
        after, left = T | {e}, G - lost - {e}
        loss = gain = 0.0
        for w, P, B in alive:
            gone = bool(P & lost) or e in B
            if not decoder.partial:
                loss += w * gone
                gain += w * (not gone and after >= P and not B & left and not (P <= T and not B & G))
            elif gone:
                loss += w * chance(P, B, T, G)
            elif e in P:
                gain += w * chance(P, B, after, left)
            elif B & lost:
                gain += w * (chance(P, B, after, left) - chance(P, B, T, G))
        values[e] = decoder.beta * loss - (1 - decoder.beta) * gain if decoder.partial else loss - gain
    return values


def completable(mask: np.ndarray, heads: list[int], single_root: bool) -> bool:
    """Whether a forest can become a tree: whether all words are reached from the root, or from its one modifier."""
    left = mask.copy()
    for m, h in enumerate(heads):
        if h >= 0:
            left[m] = False
            left[m, h] = True

    def reached(source: int) -> int:
        seen, stack = {source}, [source]
        while stack:
            new = set(np.flatnonzero(left[:, stack.pop()]).tolist()) - seen
            seen |= new
            stack += new
        return len(seen)

    if not single_root:
        return reached(0) == len(heads)
    roots = [heads.index(0)] if 0 in heads else np.flatnonzero(left[:, 0]).tolist()
    left[:, 0] = False
    return any(reached(root) == len(heads) - 1 for root in roots)


class AmbiguousError(Exception):
    """A forest was found twice with one value, after other arcs had been deleted: rounding says which is kept."""


def naive_search(instance: Instance, decoder: Greedy) -> list[tuple[float, list[int]]]:
    """Trees and values at the end of a beam search, best first."""
    states = [(0.0, [-1] * (instance.n + 1), frozenset())]
    for _ in range(instance.n):
        pool = {}
        for value, heads, deleted in states:
            while True:
                values = naive_values(instance, heads, decoder, deleted)
                best = sorted(values, key=values.get)[: decoder.beam]
                for h, m in best:
                    if not completable(instance.mask, [*heads[:m], h, *heads[m + 1 :]], decoder.single_root):
                        deleted |= {(h, m)}
                        break
                else:
                    break
            for h, m in best:
                child = (*heads[:m], h, *heads[m + 1 :])
                old_value, _, old_deleted = pool.get(child, (np.inf, [], deleted))
                if deleted != old_deleted and value + values[h, m] == pytest.approx(old_value):
                    raise AmbiguousError
                if value + values[h, m] < old_value:
                    pool[child] = (value + values[h, m], list(child), deleted)
        states = sorted(pool.values(), key=lambda state: state[0])[: decoder.beam]
    return [(value, heads) for value, heads, _ in states]


def random_forest(instance: Instance, rng: np.random.Generator, single_root: bool) -> list[int]:
    heads = [-1] * (instance.n + 1)
    for _ in range(rng.integers(0, len(heads))):
        if arcs := free_arcs(instance, heads, single_root):
            h, m = arcs[rng.integers(len(arcs))]
            heads[m] = h
    return heads


def random_batch(seed: int, batch: int, n: int, K: int = 10, kinds=SECOND, lengths=None, margin: float = 3.0) -> Parts:
    """Scores as a trained model's: the arcs of a random tree stand out, and each word keeps its K best heads."""
    rng = np.random.default_rng(seed)
    lengths = np.full(batch, n) if lengths is None else lengths
    arc = np.full((batch, n + 1, n + 1), -np.inf)
    for matrix, size in zip(arc, lengths):
        matrix[: size + 1, : size + 1] = rng.normal(size=(size + 1, size + 1))
        order = rng.permutation(np.arange(1, size + 1))
        matrix[order[0], 0] += margin
        for i in range(1, size):
            matrix[order[i], order[rng.integers(i)]] += margin
        np.fill_diagonal(matrix, -np.inf)
        best = MST()(Parts.from_dense(matrix, [size])).heads[0]
        kept = matrix >= np.sort(matrix, axis=1)[:, -min(K, size), None]
        kept[np.arange(1, size + 1), best[1 : size + 1]] = True
        matrix[~kept] = -np.inf
    parts = Parts.from_dense(arc, lengths)
    sizes = {kind: parts.part_offsets(kind)[-1] for kind in kinds}
    return parts.with_scores(**{kind: rng.normal(size=size).astype(np.float32) for kind, size in sizes.items()})


def check_tree(heads, single_root: bool) -> None:
    tree = tuple(int(h) for h in heads)
    assert tree[0] == -1
    assert all(0 <= h < len(tree) for h in tree[1:])
    assert reaches_root(tree)
    assert is_single_root(tree) or not single_root
