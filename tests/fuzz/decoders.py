"""All decoders on random scores of short sentences, against every tree that there is.

Scores have every magnitude, ties, forbidden arcs, and large shifts. A decoder must return a tree of candidate arcs with
its exact score, never more than the best one; the exact ones must return the best; bounds and certificates must hold;
and neither another order of the sentences, nor a factor of 2^k, nor a constant added to the arcs of a word may change a
tree or a certificate. Sentences without a tree must be named, all of them and no others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache

import numpy as np

from arbora.decoders import (
    AD3,
    MST,
    BranchAndBound,
    Decoder,
    Eisner,
    Greedy,
    HillClimbing,
    Parts,
    Projective,
    Subgradient,
    Trees,
    VineCascade,
)
from tests import brute_force
from tests.units import rescaled

LONGEST = 5
SENTENCES = 24
ROUNDING = 1e-12
"""Error of a sum of scores in float64, relative to their largest."""

CERTIFIED = 1e-6
"""Tolerance of certificates, relative to the spread of the scores."""

Generator = np.random.Generator
Law = Callable[[Generator, tuple[int, ...]], np.ndarray]


def _grid(rng: Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(-2048, 2049, shape) / 256


def _wild(rng: Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.choice([-1.0, 1.0], shape) * 2.0 ** rng.uniform(-90, 90, shape)


def _forbidding(rng: Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.where(rng.random(shape) < 0.2, -1e30, rng.normal(size=shape))


LAWS: dict[str, Law] = {
    "grid": _grid,  # leaves room in float32 to add constants exactly
    "gaussian": lambda rng, shape: rng.normal(size=shape),
    "ties": lambda rng, shape: rng.integers(-2, 3, shape).astype(float),
    "equal": lambda rng, shape: np.full(shape, rng.normal()),
    "sparse": lambda rng, shape: rng.normal(size=shape) * (rng.random(shape) < 0.1),
    "tiny": lambda rng, shape: 2.0**-60 * rng.normal(size=shape),
    "huge": lambda rng, shape: 1e22 * rng.normal(size=shape),
    "wild": _wild,
    "forbidding": _forbidding,
}


class Problem:
    """Scores of a batch, and every tree of its sentences with its score.

    Args:
        lengths: (B,) words of each sentence.
        arc: (B, N, N), -inf where forbidden.
        higher: scores of parts, by kind.
    """

    def __init__(self, lengths: np.ndarray, arc: np.ndarray, higher: dict[str, np.ndarray]) -> None:
        self.lengths, self.arc, self.higher = lengths, arc, higher
        self.parts = Parts.from_dense(arc, lengths, **higher)
        self.totals = []  # (T,) score of each tree of each sentence
        self.largest = np.zeros(len(lengths))  # absolute score
        self.spread = np.zeros(len(lengths))
        for b, n in enumerate(lengths):
            inner = np.s_[b, : n + 1, : n + 1]
            cut = {kind: dense[b][tuple([slice(n + 1)] * (dense.ndim - 1))] for kind, dense in higher.items()}
            every = np.ones((n + 1, n + 1), bool)
            self.totals.append(brute_force.scores(brute_force.trees(n), every, arc[inner], **cut))
            finite = arc[inner][1:][np.isfinite(arc[inner][1:])].astype(float)
            others = [np.abs(dense.astype(float)).max() for dense in cut.values()]
            self.largest[b] = max([np.abs(finite).max(initial=0), *others])
            rows = [row[np.isfinite(row)].astype(float) for row in arc[inner][1:]]
            self.spread[b] = sum(row.max() - row.min() for row in rows if len(row)) + 3 * n * sum(others)

    def only(self, kinds: frozenset[str]) -> Problem:
        """The same with some kinds of parts."""
        return Problem(self.lengths, self.arc, {kind: dense for kind, dense in self.higher.items() if kind in kinds})


@cache
def _allowed(n: int, single_root: bool, projective: bool) -> np.ndarray:
    """(T,) which trees of n words have these properties."""
    return np.array(
        [
            (not single_root or brute_force.is_single_root(tree))
            and (not projective or brute_force.is_projective(tree))
            for tree in brute_force.trees(n)
        ]
    )


@cache
def _numbers(n: int) -> dict[tuple[int, ...], int]:
    return {tree: number for number, tree in enumerate(brute_force.trees(n))}


def draw_problem(rng: Generator) -> tuple[Problem, str]:
    """Scores of a batch, and the name of the law of its arcs."""
    lengths = rng.choice(np.arange(1, LONGEST + 1), SENTENCES, p=_shares())
    N = int(lengths.max()) + 1
    law = str(rng.choice(list(LAWS)))
    arc = LAWS[law](rng, (SENTENCES, N, N)).astype(np.float32)
    if rng.random() < 0.5:
        arc[rng.random(arc.shape) < rng.choice([0.1, 0.3, 0.6])] = -np.inf
    kinds = [kind for kind in brute_force.KINDS if rng.random() < rng.choice([0.2, 0.6])]
    other = law if rng.random() < 0.6 else str(rng.choice(list(LAWS)))
    higher = {
        kind: LAWS[other](rng, (SENTENCES, *brute_force.dense_shape(kind, N))).astype(np.float32) for kind in kinds
    }
    return Problem(lengths, arc, higher), law


def _shares() -> list[float]:
    """Frequencies of sentences of 1, 2, ... words; the longest have many trees."""
    return [0.05, 0.15, 0.3, 0.45, 0.05]


def draw_decoders(rng: Generator) -> list[Decoder]:
    """One decoder of each class, with random settings."""
    one = bool(rng.random() < 0.7)

    def pick(*values: object) -> object:
        return values[rng.integers(len(values))]

    def alpha() -> float | None:
        return None if rng.random() < 0.2 else float(rng.uniform(-1, 1))

    settings: list[tuple[type[Decoder], dict[str, object]]] = [
        (MST, {}),
        (Eisner, {}),
        (Projective, {}),
        (VineCascade, {"few": pick(0.0, 8.0), "band": pick(1, 2, 5), "vine_alpha": alpha(), "first_alpha": alpha()}),
        (Greedy, {"beam": pick(1, 2, 5), "improvements": pick(0, 1, 5), "partial": pick(True, False)}),
        (HillClimbing, {"patience": pick(1, 5), "start": pick("uniform", "first_order", "best")}),
        (AD3, {"max_iterations": pick(1, 10, 100), "drop_arcs": pick(True, False), "rho": pick(None, 0.1, 10.0)}),
        (Subgradient, {"max_iterations": pick(1, 20)}),
        (BranchAndBound, {"max_nodes": pick(1, 20, 1000), "max_iterations": pick(5, 100)}),
    ]
    return [kind(single_root=one, **own) for kind, own in settings]  # type: ignore[arg-type]


def check(decoder: Decoder, problem: Problem) -> Trees:
    """Decode, and check all that holds for one decoder by itself."""
    trees = decoder(problem.parts, on_error="skip")
    exact = isinstance(decoder, MST | Eisner | Projective)
    failures = set(getattr(trees, "failures", None) or {})
    for b, n in enumerate(problem.lengths):
        totals = np.where(_allowed(n, decoder.single_root, decoder.projective), problem.totals[b], -np.inf)
        best = totals.max()
        where = f"{decoder}, sentence {b} of {n} words"
        assert (best == -np.inf) == (b in failures), f"{where}: failures {failures}, best tree {best}"
        if best == -np.inf:
            continue
        tree = tuple(int(h) for h in trees.heads[b, : n + 1])
        number = _numbers(n).get(tree)
        assert number is not None, f"{where}: no tree, {tree}"
        assert totals[number] > -np.inf, f"{where}: {tree} has a forbidden arc, several roots or crossing arcs"
        error = ROUNDING * problem.largest[b]
        score = trees.score[b]
        assert abs(score - totals[number]) <= error, f"{where}: {tree} scores {totals[number]}, not {score}"
        if exact:
            assert score >= best - error, f"{where}: {tree} scores {score}, the best {best}"
        slack = error + CERTIFIED * problem.spread[b]
        assert not trees.certified[b] or score >= best - slack, f"{where}: certified {score}, the best is {best}"
        if trees.bound is not None:
            assert trees.bound[b] >= best - slack, f"{where}: bound {trees.bound[b]} below the best, {best}"
    return trees


def check_unchanged(decoder: Decoder, trees: Trees, parts: Parts, what: str, order: np.ndarray | None = None) -> None:
    """Decode scores that must give the same trees and certificates, sentences in another order if one is given."""
    other = decoder(parts, on_error="skip")
    order = np.arange(len(trees.score)) if order is None else order
    width = min(other.heads.shape[1], trees.heads.shape[1])
    same = (other.heads[:, :width] == trees.heads[order, :width]).all(1) & (other.certified == trees.certified[order])
    assert same.all(), (
        f"{decoder}, sentence {order[np.argmin(same)]}: {what} makes "
        f"{trees.heads[order][~same][0]} ({trees.certified[order][~same][0]}) "
        f"{other.heads[~same][0]} ({other.certified[~same][0]})"
    )


def run_round(rng: Generator, counts: Counter[str]) -> None:
    """Decode one batch by all decoders, and count the decodings."""
    whole, law = draw_problem(rng)
    problems = {whole.parts.kinds: whole}
    order = rng.permutation(SENTENCES)[: rng.integers(1, SENTENCES + 1)]
    factor = np.float32(2.0 ** rng.integers(-60, 61))
    shift = rng.integers(-8192, 8193, (SENTENCES, whole.arc.shape[1], 1))
    counts["sentences"] += SENTENCES
    failures = []
    for decoder in draw_decoders(rng):
        kinds = tuple(kind for kind in whole.parts.kinds if kind in decoder.takes)
        if kinds not in problems:
            problems[kinds] = whole.only(frozenset(kinds))
        problem = problems[kinds]
        try:
            trees = check(decoder, problem)
            check_unchanged(decoder, trees, problem.parts.subset(order), "another order of the batch", order)
            counts["decodings"] += SENTENCES + len(order)
            if _can_scale(problem) and getattr(decoder, "rho", None) is None:  # equal scores have no unit to compare
                scaled = {kind: dense * factor for kind, dense in problem.higher.items()}
                parts = Parts.from_dense(problem.arc * factor, problem.lengths, **scaled)
                check_unchanged(rescaled(decoder, float(factor)), trees, parts, f"a factor of {factor}")
                counts["decodings"] += SENTENCES
            if law == "grid" and not isinstance(decoder, Greedy):  # what an arc loses depends on the origin
                arc = (problem.arc + shift).astype(np.float32)
                check_unchanged(
                    decoder, trees, Parts.from_dense(arc, problem.lengths, **problem.higher), f"adding {shift[..., 0]}"
                )
                counts["decodings"] += SENTENCES
        except AssertionError as error:
            failures.append(str(error))
    assert not failures, "\n".join(failures)


def _can_scale(problem: Problem) -> bool:
    """Return whether float32 holds all scores times 2^-60 and 2^60 exactly."""
    sizes = [np.abs(dense[np.isfinite(dense) & (dense != 0)]) for dense in (problem.arc, *problem.higher.values())]
    return all(((size > 2.0**-40) & (size < 2.0**60)).all() for size in sizes)
