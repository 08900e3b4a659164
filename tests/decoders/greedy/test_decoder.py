"""Greedy beside a naive version of its definition, enumeration, and what must not change it."""

from functools import cached_property
from math import exp, prod

import brute_force
import numpy as np
import pytest
from brute_force import Arc, can_fire, is_single_root, reaches_root
from hypothesis import given, settings
from hypothesis import strategies as st

from arbora.decoders import MST, Parts
from arbora.decoders.greedy.search import Greedy, improve, lean
from arbora.decoders.kernels.threads import get_num_threads, set_num_threads
from arbora.decoders.parts.kinds import COMMON, HIGHER_ORDER

ABSENT = ("sibling", "grand_sibling", "tri_sibling")
SECOND = ("grandparent", "sibling")
KIND_SETS = [(), *[(kind,) for kind in COMMON], SECOND, ("grandparent", "grand_sibling", "tri_sibling"), COMMON]
both_modes = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])

Part = tuple[float, frozenset[Arc], frozenset[Arc]]


class Instance:
    """A sentence with random dense scores, as the enumeration and as the decoders take it."""

    def __init__(self, seed: int, n: int, kinds=COMMON, density: float = 1.0, scale: float = 1.0, chain: bool = True):
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
        for kind, entries in brute_force.parts(self.mask).items():
            if kind in self.higher:
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


@both_modes
@pytest.mark.parametrize("partial", [False, True], ids=["basic", "partial"])
@pytest.mark.parametrize("kinds", KIND_SETS, ids="+".join)
def test_values_are_those_of_the_definition(kinds, partial, single_root):
    rng = np.random.default_rng(1)
    for seed in range(12):
        instance = Instance(seed, int(rng.integers(1, 7)), kinds, rng.choice([0.3, 0.6, 1.0]))
        decoder = Greedy(float(rng.choice([0, 0.5, 1, 20])), 0.3, partial=partial, single_root=single_root)
        forest = random_forest(instance, rng, single_root)
        expected = naive_values(instance, forest, decoder)
        values = decoder.values(instance.parts, [forest])
        np.testing.assert_allclose(values, [expected.get(a, np.inf) for a in instance.candidates], 1e-7, 1e-7)


@both_modes
@pytest.mark.parametrize("n", [9, 14])
def test_values_of_longer_sentences(n, single_root):
    rng = np.random.default_rng(n)
    kinds = COMMON if n < 10 else (*SECOND, "any_sibling", "head_bigram")
    instance = Instance(n, n, kinds, 0.6)
    decoder = Greedy(beta=0.4, single_root=single_root)
    for _ in range(3):
        forest = random_forest(instance, rng, single_root)
        expected = naive_values(instance, forest, decoder)
        values = decoder.values(instance.parts, [forest])
        np.testing.assert_allclose(values, [expected.get(a, np.inf) for a in instance.candidates], 1e-7, 1e-7)


def test_absent_arcs_left_out():
    """Without them, the search sees the other types alone; scores count all."""
    for seed in range(10):
        instance = Instance(seed, 5, COMMON, 0.7)
        others = instance.parts
        for kind in ABSENT:
            others = others.with_scores(**{kind: np.zeros_like(getattr(others, kind))})
        blind = Greedy(absent=False, improvements=0)
        np.testing.assert_array_equal(blind.search(instance.parts).value, Greedy(absent=False).search(others).value)
        np.testing.assert_allclose(blind.search(instance.parts).value, Greedy().search(others).value, 1e-9, 1e-9)
        trees = blind(instance.parts)
        assert trees.score[0] == instance.parts.score(trees.heads)[0]
    parts = random_batch(3, 100, 12, kinds=("sibling",))
    assert Greedy(beam=1)(parts).score.mean() > Greedy(beam=1, absent=False)(parts).score.mean() + 0.1


def figure_1() -> tuple[Parts, list[int]]:
    arc = np.full((4, 4), -np.inf)
    arc[2, 0] = arc[1, 2] = 0.0
    arc[3, :3] = 2, 1, 1.5
    grandparent = np.zeros((4, 4, 4))  # [m, h, g]
    grandparent[3, 2, 0], grandparent[3, 1, 2] = 2, -1
    return Parts.from_dense(arc, grandparent=grandparent), [-1, 2, 0, -1]


def test_figure_1():
    parts, forest = figure_1()
    values = Greedy(partial=False, single_root=False).values(parts, [forest])
    assert values[-3:].tolist() == [1.5, 5.5, -1.5]
    assert np.isinf(values[:-3]).all()
    assert Greedy(partial=False, single_root=False, beam=1, improvements=0)(parts).heads.tolist() == [[-1, 2, 0, 2]]


def test_figure_1_losses_and_gains():
    """With a uniform p = 1/3 for the heads of word 3, each part of which one arc is missing counts a third."""
    parts, forest = figure_1()
    losses = Greedy(alpha=0, beta=1, single_root=False).values(parts, [forest])[-3:]
    gains = -Greedy(alpha=0, beta=0, single_root=False).values(parts, [forest])[-3:]
    np.testing.assert_allclose(losses, [3.5 / 3, 5.5 / 3, 2 / 3])
    np.testing.assert_allclose(gains, [2, 0, 3.5], atol=1e-12)


@both_modes
def test_values_of_the_basic_search_telescope(single_root):
    """Each part is lost or gained exactly once: the sum of values is what is lost less what is gained."""
    for seed, kinds in enumerate(KIND_SETS):
        for beam in (1, 3):
            instance = Instance(seed, 6, kinds)
            found = Greedy(partial=False, beam=beam, single_root=single_root).search(instance.parts)
            assert found.counters["deleted"][0] == 0
            for heads, value in zip(found.heads[:, 0], found.value[:, 0]):
                if value == np.inf:  # fewer states than places
                    continue
                tree = {(int(h), m) for m, h in enumerate(heads) if m > 0}
                signs = [(w, -1 if tree >= P and not B & tree else 1) for w, P, B in instance.listed if P | B]
                assert value == pytest.approx(sum(w * sign for w, sign in signs))


@both_modes
@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("density", [0.35, 1.0])
def test_search_is_the_naive_search(single_root, beam, density):
    deleted = duplicates = 0
    for seed in range(15):
        instance = Instance(seed, 4, COMMON, density)
        if not instance.trees(single_root):
            continue
        decoder = Greedy(beta=0.4, beam=beam, single_root=single_root)
        expected, found = naive_search(instance, decoder), decoder.search(instance.parts)
        count = int(np.isfinite(found.value).sum())
        assert count == len(expected)
        for (value, heads), got, got_value in zip(expected, found.heads[:, 0], found.value[:, 0]):
            assert got.tolist() == heads
            assert got_value == pytest.approx(value)
        deleted += int(found.counters["deleted"][0])
        duplicates += int(found.counters["duplicates"][0])
    assert deleted > 0 or density == 1
    assert duplicates > 0 or beam == 1


@both_modes
def test_forests_that_can_become_trees(single_root):
    """The naive search asks what is reached; here that is compared with all trees."""
    found = {True: 0, False: 0}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        instance = Instance(seed, int(rng.integers(1, 5)), (), 0.4, chain=False)
        forest = random_forest(instance, rng, single_root)
        fits = any(all(h in (-1, x) for h, x in zip(forest, tree)) for tree in instance.trees(single_root))
        assert completable(instance.mask, forest, single_root) == fits
        found[fits] += 1
    assert min(found.values()) > 5


@st.composite
def pruned(draw, most: int) -> Instance:
    """About three candidate heads a word; the longer, the fewer types, as the naive version is slow."""
    n = draw(st.integers(5, most))
    kinds = draw(st.sets(st.sampled_from(COMMON), max_size=6 if n < 7 else 3 if n < 9 else 2))
    return Instance(draw(st.integers(0, 2**32 - 1)), n, tuple(sorted(kinds)), draw(st.sampled_from([2.0, 3.0])) / n)


@settings(max_examples=150)
@given(
    instance=pruned(most=12),
    single_root=st.booleans(),
    partial=st.booleans(),
    alpha=st.sampled_from([0.0, 1.0, 5.0]),
    beta=st.sampled_from([0.2, 0.5]),
    seed=st.integers(0, 2**32 - 1),
)
def test_values_after_each_step(instance, single_root, partial, alpha, beta, seed):
    """Only what has changed is valued again, so nothing that has may be forgotten."""
    decoder = Greedy(alpha, beta, partial=partial, single_root=single_root)
    rng = np.random.default_rng(seed)
    heads = [-1] * (instance.n + 1)
    while arcs := free_arcs(instance, heads, single_root):
        h, m = arcs[rng.integers(len(arcs))]
        heads[m] = h
        expected = naive_values(instance, heads, decoder)
        values = decoder.values(instance.parts, [heads])
        np.testing.assert_allclose(values, [expected.get(a, np.inf) for a in instance.candidates], 1e-7, 1e-7)


@settings(max_examples=150)
@given(
    instance=pruned(most=12),
    single_root=st.booleans(),
    partial=st.booleans(),
    beam=st.integers(1, 3),
    beta=st.sampled_from([0.2, 0.5]),
)
def test_long_searches_are_the_naive_search(instance, single_root, partial, beam, beta):
    decoder = Greedy(beta=beta, beam=beam, partial=partial, single_root=single_root)
    found = decoder.search(instance.parts)
    try:
        expected = naive_search(instance, decoder)
    except AmbiguousError:
        return
    assert np.isfinite(found.value).sum() == len(expected)
    np.testing.assert_allclose(found.value[: len(expected), 0], [value for value, _ in expected], 1e-7, 1e-7)
    assert found.heads[: len(expected), 0].tolist() == [heads for _, heads in expected]


@both_modes
def test_values_beyond_64_words(single_root):
    rng = np.random.default_rng(19)
    instance = Instance(20, 70, ("grandparent",), 3 / 70)
    decoder = Greedy(single_root=single_root)
    for _ in range(3):
        forest = random_forest(instance, rng, single_root)
        expected = naive_values(instance, forest, decoder)
        values = decoder.values(instance.parts, [forest])
        np.testing.assert_allclose(values, [expected.get(a, np.inf) for a in instance.candidates], 1e-7, 1e-7)


@st.composite
def instances(draw) -> Instance:
    kinds = draw(st.sets(st.sampled_from(COMMON)))
    n, density = draw(st.integers(1, 5)), draw(st.sampled_from([0.25, 0.4, 0.7, 1.0]))
    instance = Instance(draw(st.integers(0, 2**32 - 1)), n, tuple(kinds), density, chain=False)
    law = draw(st.sampled_from(["normal", "ties", "equal", "large"]))
    for scores in (instance.arc, *instance.higher.values()):
        if law == "ties":
            np.round(scores, out=scores)
        elif law == "equal":
            scores[:] = 1
        elif law == "large":
            scores *= 1e6
    return instance


@settings(max_examples=250)
@given(
    instance=instances(),
    single_root=st.booleans(),
    alpha=st.sampled_from([0.0, 1.0, 50.0]),
    beta=st.sampled_from([0.0, 0.3, 1.0]),
    beam=st.integers(1, 3),
    partial=st.booleans(),
    improvements=st.sampled_from([0, 1, 5]),
)
def test_a_tree_whenever_there_is_one(instance, single_root, alpha, beta, beam, partial, improvements):
    decoder = Greedy(alpha, beta, beam, improvements, partial, single_root=single_root)
    best = instance.best(single_root)
    if best == -np.inf:
        with pytest.raises(ValueError, match=r"sentence 0: no tree"):
            decoder(instance.parts)
        return
    trees = decoder(instance.parts)
    check_tree(trees.heads[0], single_root)
    assert all(instance.mask[m, h] for m, h in enumerate(trees.heads[0]) if m > 0)
    score = brute_force.score(tuple(trees.heads[0].tolist()), instance.mask, instance.arc, **instance.higher)
    assert trees.score[0] == pytest.approx(score, rel=1e-6, abs=1e-6)
    assert trees.score[0] <= best + 1e-6 * abs(best) + 1e-6
    assert trees.bound is None
    assert not trees.certified[0] or (not instance.higher and score == pytest.approx(best, rel=1e-6))


@both_modes
def test_never_a_dead_end_in_sparse_graphs(single_root):
    refused = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(5, 15))
        mask = np.zeros((n + 1, n + 1), dtype=bool)
        order = rng.permutation(np.arange(1, n + 1))
        mask[order[0], 0] = True
        for i in range(1, n):
            mask[order[i], order[rng.integers(i)]] = True
        mask |= rng.random(mask.shape) < 0.1
        trees = Greedy(beam=1 + seed % 3, single_root=single_root)(
            Parts.from_dense(rng.normal(size=mask.shape), mask=mask)
        )
        check_tree(trees.heads[0], single_root)
        refused += int(trees.counters["deleted"][0])
    assert refused > 20


def test_beam_is_better_on_average():
    parts = random_batch(4, 200, 15)
    scores = [Greedy(beam=beam, improvements=0)(parts).score.mean() for beam in (1, 3, 8)]
    assert scores[0] < scores[1] < scores[2]


def test_states_of_the_beam_differ():
    parts = random_batch(5, 50, 8)
    found = Greedy(beam=6).search(parts)
    assert (found.counters["duplicates"] > 0).all()
    assert np.isfinite(found.value).all()
    assert (np.diff(found.value, axis=0) >= 0).all()
    for b in range(50):
        assert len({tuple(heads) for heads in found.heads[:, b].tolist()}) == 6


def test_fewer_trees_than_states():
    parts = Parts.from_dense(np.random.default_rng(6).normal(size=(3, 3, 3)))
    decoder = Greedy(beam=5)
    found = decoder.search(parts)
    assert np.isfinite(found.value).sum(0).tolist() == [2, 2, 2]
    np.testing.assert_allclose(decoder(parts).score, MST()(parts).score)


def test_certified_are_trees_of_best_heads():
    parts = random_batch(7, 60, 10, kinds=())
    trees, best = Greedy()(parts), MST()(parts)
    assert 10 < trees.certified.sum() < 60
    np.testing.assert_allclose(trees.score[trees.certified], best.score[trees.certified], rtol=1e-12)
    assert not Greedy()(random_batch(7, 60, 10)).certified.any()


def test_loss_under_uniform_probabilities():
    """What is lost with an arc of first order: the other arcs into its word, and the arc back, each with 1/n."""
    instance = Instance(8, 4, ())
    values = Greedy(alpha=0, beta=1, single_root=False).values(instance.parts, [[-1] * 5])
    own = instance.parts.arc_score
    back = np.array([instance.arc[h, m] if h > 0 else 0.0 for h, m in instance.candidates])
    total = np.repeat(np.add.reduceat(own, instance.parts.modifier_offsets[:-1]), 4)
    np.testing.assert_allclose(values, (total - own + back) / 4, rtol=1e-5)


def swaps(heads: list[int], mask: np.ndarray, single_root: bool) -> list[list[int]]:
    """Trees that one swap makes, by the paper's two cases."""
    found = []
    for v in range(1, len(heads)):
        u = heads[v]
        for new in range(len(heads)):
            if new in (u, v) or not mask[v, new]:
                continue
            x, w = new, 0
            while x not in (0, v):
                x, w = heads[x], x
            tree = list(heads)
            tree[v] = new
            if x == v:
                if not mask[w, u]:
                    continue
                tree[w] = u
            elif single_root and 0 in (u, new):
                continue
            found.append(tree)
    return found


@both_modes
@pytest.mark.parametrize("kinds", KIND_SETS, ids="+".join)
def test_each_swap_is_the_best(kinds, single_root):
    made = 0
    for seed in range(15):
        rng = np.random.default_rng(seed)
        instance = Instance(seed, int(rng.integers(2, 8)), kinds, 0.8)
        parts = instance.parts
        start = MST(single_root)(parts.with_scores(arc_score=rng.normal(size=len(parts.head)))).heads
        heads = start[0].tolist()
        for rounds in range(5):
            trees = improve(parts, start, rounds, single_root)
            check_tree(trees.heads[0], single_root)
            assert trees.heads[0].tolist() == heads
            assert trees.score[0] == parts.score([heads])[0]
            options = swaps(heads, instance.mask, single_root)
            for tree in options:
                check_tree(tree, single_root)
            scores = [parts.score([tree])[0] for tree in options]
            if not scores or max(scores) <= trees.score[0]:
                assert improve(parts, start, 100, single_root).heads[0].tolist() == heads
                break
            heads = options[int(np.argmax(scores))]
            made += 1
    assert made > 15


@both_modes
def test_swaps_never_lower_the_score(single_root):
    parts = random_batch(9, 60, 20, kinds=COMMON, K=5)
    start = MST(single_root)(parts)
    before = parts.score(start.heads)
    for rounds in (1, 3, 50):
        after = improve(parts, start.heads, rounds, single_root)
        assert (after.score >= before).all()
        assert (after.counters["swaps"] <= rounds).all()
        np.testing.assert_array_equal(after.score > before, after.counters["swaps"] > 0)
        for heads in after.heads:
            check_tree(heads, single_root)
        before = after.score
    np.testing.assert_array_equal(improve(parts, start.heads, 0, single_root).heads, start.heads)


def test_improves_only_trees_of_candidates():
    parts = random_batch(10, 3, 6, K=3)
    heads = MST()(parts).heads
    wrong = heads.copy()
    h = next(h for h in range(7) if h != 4 and h not in parts.subset([1]).head[parts.subset([1]).modifier == 4])
    wrong[1, 4] = h
    with pytest.raises(ValueError, match="sentence 1: .*no candidate"):
        improve(parts, wrong)
    several = Parts.from_dense(np.zeros((2, 4, 4)))
    with pytest.raises(ValueError, match="sentence 0: .*single root"):
        improve(several, [[-1, 0, 0, 0]] * 2)
    assert improve(several, [[-1, 0, 0, 0]] * 2, single_root=False).score.tolist() == [0, 0]


def test_leans_towards_other_trees():
    parts = random_batch(11, 20, 10, kinds=COMMON)
    other = MST()(parts).heads
    count = parts.active(other)
    leaning = lean(parts, other, (0.5, 0.25, 2.0))
    gained = 0.5 * len(count["arc"]) + sum(
        (2.0 if HIGHER_ORDER[kind].order == 3 else 0.25) * len(count[kind]) for kind in COMMON
    )
    assert (leaning.score(other) - parts.score(other)).sum() == pytest.approx(gained, rel=1e-5)
    for name, field in [("arc", "arc_score"), *[(kind, kind) for kind in COMMON]]:
        changed = np.flatnonzero(getattr(leaning, field) != getattr(parts, field))
        np.testing.assert_array_equal(changed, count[name])
    np.testing.assert_array_equal(lean(parts, other, (1.0,)).sibling, parts.sibling)
    assert lean(parts, other, ()) is parts
    np.testing.assert_array_equal(Greedy()(lean(parts, other, (100.0,))).heads, other)


def test_one_word():
    for kinds in ((), COMMON):
        instance = Instance(12, 1, kinds)
        trees = Greedy()(instance.parts)
        assert trees.heads.tolist() == [[-1, 0]]
        assert trees.heads.dtype == np.int32
        assert trees.score[0] == pytest.approx(instance.best(True))


def test_no_sentences():
    trees = Greedy()(Parts.from_dense(np.empty((0, 4, 4))))
    assert len(trees.heads) == len(trees.score) == len(trees.certified) == 0


@both_modes
def test_composition_of_the_batch_does_not_matter(single_root):
    lengths = np.random.default_rng(13).integers(1, 16, size=30)
    parts = random_batch(14, 30, 15, K=6, kinds=COMMON, lengths=lengths)
    decoder = Greedy(single_root=single_root)
    together = decoder(parts)
    for b, n in enumerate(lengths):
        alone = decoder(parts.subset([b]))
        np.testing.assert_array_equal(alone.heads[0], together.heads[b, : n + 1])
        assert (together.heads[b, n + 1 :] == -1).all()
        assert alone.score[0] == together.score[b]
        for name, counted in alone.counters.items():
            assert counted[0] == together.counters[name][b]


def test_number_of_threads_does_not_matter(monkeypatch):
    monkeypatch.setattr("arbora.decoders.kernels.threads.STEPS_PER_THREAD", 1000)  # threads even for little work
    lengths = np.random.default_rng(15).integers(1, 31, size=200)
    parts = random_batch(16, 200, 30, kinds=(*SECOND, "grand_sibling"), lengths=lengths, K=6)
    before = get_num_threads()
    results = []
    try:
        for threads in (1, 2, 8):
            set_num_threads(threads)
            results.append(Greedy()(parts))
    finally:
        set_num_threads(before)
    for trees in results[1:]:
        np.testing.assert_array_equal(trees.heads, results[0].heads)
        np.testing.assert_array_equal(trees.score, results[0].score)
        for name, counted in trees.counters.items():
            np.testing.assert_array_equal(counted, results[0].counters[name])


def test_scores_are_left_alone():
    parts = random_batch(17, 5, 12, kinds=COMMON)
    before = {kind: getattr(parts, kind).copy() for kind in ("arc_score", *COMMON)}
    Greedy()(parts)
    for kind, scores in before.items():
        np.testing.assert_array_equal(getattr(parts, kind), scores)


def test_says_why_there_is_no_tree():
    arc = np.zeros((3, 5, 5))
    arc[1, 3] = -np.inf
    with pytest.raises(ValueError, match="sentence 1: no tree: word 3 has no candidate head"):
        Greedy()(Parts.from_dense(arc))
    arc = np.zeros((3, 5, 5))
    arc[2, 2:4, [0, 1, 4]] = -np.inf  # words 2 and 3 have only each other
    with pytest.raises(ValueError, match=r"sentence 2: no tree: no candidate arcs lead from the root to word 2"):
        Greedy(single_root=False)(Parts.from_dense(arc))
    arc = np.full((3, 3), -np.inf)
    arc[1:, 0] = 1.0
    parts = Parts.from_dense([np.zeros((3, 3)), arc])
    assert Greedy(single_root=False)(parts).heads[1].tolist() == [-1, 0, 0]
    with pytest.raises(ValueError, match="sentence 1: no tree with a single root"):
        Greedy()(parts)


@pytest.mark.parametrize(
    "wrong", [{"alpha": -1.0}, {"alpha": np.inf}, {"beta": 1.5}, {"beta": np.nan}, {"beam": 0}, {"improvements": -1}]
)
def test_refuses_settings_without_sense(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Greedy(**wrong)


def test_refuses_a_forest_of_another_shape():
    with pytest.raises(ValueError, match=r"forest must be \(1, 4\), got \(1, 3\)"):
        Greedy().values(Parts.from_dense(np.zeros((4, 4))), [[-1, -1, -1]])


def test_refuses_a_forest_of_other_arcs():
    arc = np.zeros((2, 4, 4))
    arc[1, 3, 2] = -np.inf
    with pytest.raises(ValueError, match="sentence 1: the forest has an arc that is no candidate"):
        Greedy().values(Parts.from_dense(arc), [[-1, -1, -1, 2]] * 2)


def test_refuses_forests_that_are_none():
    parts = Parts.from_dense(np.zeros((3, 5, 5)))
    with pytest.raises(ValueError, match="sentence 1: the forest has a cycle"):
        Greedy().values(parts, [[-1, 2, 3, -1, 3], [-1, 2, 4, -1, 1], [-1, 2, 1, -1, -1]])
    rooted = [[-1] * 5, [-1] * 5, [-1, 0, -1, 1, 0]]
    with pytest.raises(ValueError, match="sentence 2: the forest has several modifiers of the root"):
        Greedy().values(parts, rooted)
    assert np.isfinite(Greedy(single_root=False).values(parts, rooted)).any()


def test_swaps_refuse_what_they_do_not_look_at():
    parts = Parts.from_dense(np.zeros((4, 4)), grand_grandparent=np.zeros((4, 4, 4, 4)))
    with pytest.raises(ValueError, match="swaps do not look at grand_grandparent"):
        improve(parts, [[-1, 0, 1, 2]])
    with pytest.raises(ValueError, match="Greedy does not search by grand_grandparent"):
        Greedy()(parts)


def test_whole_numbers_as_settings():
    parts = random_batch(18, 5, 8)
    np.testing.assert_array_equal(Greedy(alpha=1, beta=0).search(parts).value, Greedy(1.0, 0.0).search(parts).value)
