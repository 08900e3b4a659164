"""Studies of decoders on the scores of a parser: climbs of hill-climbing, k best trees, dual decomposition."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from arbora.decoders import AD3, HillClimbing, Subgradient
from arbora.decoders.k_best import k_best
from arbora.evaluation.comparison import Best, Gold, by_length, mean, settings_of, share, speed
from arbora.evaluation.saved import ScoredTreebank
from arbora.evaluation.trials import Advance, Found, Variant, decode, measure, seconds_of

RESTARTS = (1, 2, 5, 10, 20, 50, 100, 200)
"""Numbers of climbs for which hill-climbing is evaluated."""

RANKS = (1, 2, 5, 10, 50)
"""Values of k for which the best of the k best trees is reported."""


def restarts(scored: ScoredTreebank, best: NDArray[np.float64], advance: Advance | None = None) -> list[dict[str, Any]]:
    """Evaluate hill-climbing with growing numbers of climbs, from both kinds of random starting trees.

    Args:
        scored: the sentences.
        best: (S,) best known scores.
        advance: for progress.
    """
    rows: list[dict[str, Any]] = []
    every: list[Found] = []
    gold = Gold(scored)
    starts: tuple[Literal["uniform", "first_order"], ...] = ("uniform", "first_order")
    for start in starts:
        for count in RESTARTS:
            decoder = HillClimbing(restarts=count, start=start, best_first=False)
            found = decode(decoder, scored, advance)
            seconds = seconds_of(decoder, found, scored)
            best = np.fmax(best, found.score)
            every.append(found)
            rows.append({"start": start, "restarts": count, "sentences": int(found.ok.sum()), "seconds": seconds})
    for row, one in zip(rows, every, strict=True):
        ok = one.ok
        words = int(scored.lengths[ok].sum())
        row["mean_score"] = mean(one.score[ok])
        row["best"] = share(Best(best, best).reached(one.score)[ok])
        row["gap_to_best"] = mean((best - one.score)[ok])
        row["uas"] = 100 * int(gold.counts(one)[0].sum()) / words if words else None
    return rows


def k_best_rows(
    variants: Sequence[Variant], scored: ScoredTreebank, most: int, advance: Advance | None = None
) -> list[dict[str, Any]]:
    """Evaluate the best of the k best trees, by decoder and k.

    Args:
        variants: the decoders.
        scored: the sentences.
        most: the largest k.
        advance: for progress.

    Returns:
        For each decoder and each k of `RANKS` up to `most`: the UAS of the tree among the k best that is closest to the
        gold tree, the percentage of certified trees, and CPU milliseconds per sentence for `most` trees.
    """
    gold = Gold(scored)
    rows: list[dict[str, Any]] = []
    ranks = sorted({k for k in RANKS if k < most} | {most})
    for variant in variants:
        right = np.zeros((len(scored.sentences), most), np.int64)  # words with the right head in the tree of each rank
        there, proved = np.zeros((2, *right.shape), np.bool_)
        seconds = 0.0
        for parts, places in zip(scored.batches, scored.places(), strict=True):
            started = time.process_time()
            ranked = k_best(variant.decoder, parts, most, on_error="skip")
            seconds += time.process_time() - started
            trees = gold.trees(parts, places)
            for rank, one in enumerate(ranked):
                right[places, rank] = ((one.heads == trees) & (one.heads >= 0)).sum(1)
                there[places, rank], proved[places, rank] = one.score > -np.inf, one.certified
            if advance is not None:
                advance(len(places))
        rows += [
            {
                "name": variant.name,
                "k": k,
                "oracle_uas": 100 * int(right[:, :k].max(1).sum()) / scored.words,
                "certified": share(proved[:, :k][there[:, :k]]),
                "milliseconds": 1000 * seconds / len(scored.sentences),
            }
            for k in ranks
        ]
    return rows


def dual_decomposition(scored: ScoredTreebank, repeats: int, advance: Advance | None = None) -> dict[str, Any]:
    """Compare AD3 with the subgradient method: certified sentences, iterations, and time.

    Args:
        scored: the sentences.
        repeats: of timing.
        advance: for progress.

    Returns:
        For each method, figures by length, and the share of sentences that are certified after some numbers of
        iterations.
    """
    methods = [Variant("ad3", AD3()), Variant("subgradient", Subgradient())]
    found = [decode(method.decoder, scored, advance) for method in methods]
    times = measure(methods, found, scored, repeats, advance=advance)
    gold, best = Gold(scored), Best.known(methods, found, True)
    curves = []
    for method, one, time_ in zip(methods, found, times, strict=True):
        ok = one.ok
        iterations = one.counters.get("iterations", np.zeros(len(ok), np.int64))
        at = sorted({0, 1, 2, 5, 10, 20, 50, 100, 200, 500} | {int(iterations[ok].max(initial=0))})
        curves.append(
            {
                "name": method.name,
                "settings": settings_of(method.decoder),
                "sentences": int(ok.sum()),
                "iterations": at,
                "certified": [share((one.certified & (iterations <= most))[ok]) for most in at],
                "mean_iterations": mean(iterations[ok]),
                "words_per_second": speed(time_, {})["words_per_second"],
                "by_length": by_length(one, time_, best, gold, gold.counts(one)),
            }
        )
    return {"methods": curves}
