"""How fast is greedy decoding, how does its time grow with length, and what does each of its steps bring?

Scores are Gaussian, and peaked: the arcs of a random projective tree get a bonus, as those of a trained model would,
and so do the parts of that tree. Each word keeps its K best heads, and the heads of the best first-order tree. First
order has arcs alone, second order grandparents and siblings too, third order also grand-siblings and tri-siblings.

Three tables: the ways of greedy decoding at 25 words and K = 10, with the mean score of their trees; growth from 10 to
160 words at K = 10; growth from 10 to 60 words where all arcs are candidates. One thread; times are CPU time of the
thread, which other work on the machine disturbs least, and the median of several runs is shown with the fastest and the
slowest. Compilation is not counted.
"""

import argparse
import json
import os
import platform
import statistics
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
from random_trees import projective_tree

from arbora.decoders import MST, Decoder, Parts
from arbora.decoders.greedy import Greedy
from arbora.decoders.threads import set_num_threads

ORDERS: dict[int, tuple[str, ...]] = {
    1: (),
    2: ("grandparent", "sibling"),
    3: ("grandparent", "sibling", "grand_sibling", "tri_sibling"),
}
WAYS: dict[str, Decoder] = {
    "MST (first order only)": MST(),
    "BGI": Greedy(partial=False, beam=1, improvements=0),
    "BGI-PP": Greedy(beam=1, improvements=0),
    "BGI-PP, absent=False": Greedy(beam=1, improvements=0, absent=False),
    "BGI-PP, improvements=5": Greedy(beam=1, improvements=5),
    "BGI-PP, beam=3": Greedy(beam=3, improvements=0),
    "BGI-PP, beam=3, improvements=5": Greedy(beam=3, improvements=5),
    "the same, several roots": Greedy(beam=3, improvements=5, single_root=False),
    "BGI-PP, beam=8, improvements=5": Greedy(beam=8, improvements=5),
}
ARC_BONUS, PART_BONUS = 4.0, 1.0


def draw(batch: int, n: int, K: int | None, kinds: tuple[str, ...], rng: np.random.Generator) -> Parts:
    """Peaked scores; each word keeps its K best heads, all unless given, and that of the best first-order tree."""
    arc = rng.normal(size=(batch, n + 1, n + 1)).astype(np.float32)
    gold = np.array([projective_tree(n, rng) for _ in range(batch)])
    words = np.arange(1, n + 1)
    arc[np.arange(batch)[:, None], words, gold[:, 1:]] += ARC_BONUS
    arc[:, np.arange(n + 1), np.arange(n + 1)] = -np.inf
    if K is not None and n > K:
        best = MST()(Parts.from_dense(arc)).heads
        kept = arc >= np.partition(arc, n + 1 - K, axis=2)[:, :, n + 1 - K, None]
        kept[np.arange(batch)[:, None], words, best[:, 1:]] = True
        arc[~kept] = -np.inf
    parts = Parts.from_dense(arc)
    scores = {}
    for kind in kinds:
        scores[kind] = 0.5 * rng.standard_normal(parts.part_offsets(kind)[-1], dtype=np.float32)
    parts = parts.with_scores(**scores)
    for kind, entries in parts.active(gold).items():
        if kind != "arc":
            getattr(parts, kind)[entries] += PART_BONUS
    return parts


def measure(decoder: Decoder, parts: Parts, repeats: int) -> list[float]:
    """Microseconds a sentence, of each of several runs after the first."""
    decoder(parts)
    times = []
    for _ in range(repeats):
        start = time.thread_time()
        decoder(parts)
        times.append(1e6 * (time.thread_time() - start) / len(parts.lengths))
    return times


def shown(times: list[float]) -> str:
    """Median with the least and the greatest."""
    return f"{statistics.median(times):.0f} ({min(times):.0f}-{max(times):.0f})"


def growth(results: dict[int, list[float]]) -> str:
    """Exponent p of the least-squares fit time ~ n^p, over all lengths and over the last two."""
    lengths, medians = list(results), [statistics.median(times) for times in results.values()]
    slopes = [np.polyfit(np.log(lengths[i:]), np.log(medians[i:]), 1)[0] for i in (0, -2)]
    return f"{slopes[0]:.2f} ({slopes[1]:.2f})"


def main() -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="timed repetitions of each run (default: 5)")
    parser.add_argument("--words", type=int, default=10_000, help="words in a batch (default: 10000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the scores (default: 0)")
    parser.add_argument("--json", type=Path, help="write all times, in microseconds a sentence, to this file")
    options = parser.parse_args()
    set_num_threads(1)
    rng = np.random.default_rng(options.seed)
    results: dict[str, dict] = {}

    cores, load = os.cpu_count(), os.getloadavg()[0]
    print(f"{platform.processor() or platform.machine()}, {cores} cores, load {load:.1f}, one thread", end=", ")
    print(f"Python {platform.python_version()}, numpy {version('numpy')}, numba {version('numba')}")
    for order, kinds in ORDERS.items():
        parts = draw(max(4, options.words // 25), 25, 10, kinds, rng)
        print(f"\nOrder {order}, 25 words, K = 10: microseconds a sentence (min-max), sentences a second, mean score")
        for name, decoder in WAYS.items():
            times = measure(decoder, parts, options.repeats)
            trees = decoder(parts)
            rate = 1e6 / statistics.median(times)
            print(f"  {name:34}{shown(times):>24}{rate:>10,.0f}{trees.score.mean():>12.3f}", flush=True)
            results.setdefault(f"order {order}", {})[name] = times

    for K, lengths in ((10, (10, 20, 40, 80, 160)), (None, (10, 20, 40, 60))):
        what = f"K = {K}" if K else "all arcs"
        print(f"\n{what}: microseconds a sentence by the number of words, and the power of n with which they grow")
        print(f"  {'':34}" + "".join(f"{n:>20}" for n in lengths) + f"{'all (last two)':>20}")
        for order in (1, 2):
            for name in ("BGI-PP", "BGI-PP, beam=3, improvements=5"):
                row = {}
                for n in lengths:
                    batch = max(4, options.words // (n if K else n * max(1, n // 10)))
                    parts = draw(batch, n, K, ORDERS[order], rng)
                    row[n] = measure(WAYS[name], parts, options.repeats)
                cells = "".join(f"{shown(times):>20}" for times in row.values())
                print(f"  {f'{name}, order {order}':34}{cells}{growth(row):>20}", flush=True)
                results.setdefault(what, {})[f"{name}, order {order}"] = row
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
