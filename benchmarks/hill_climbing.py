"""How long is a climb, and how many words per second does hill-climbing decode?

Times one restart at four lengths with at most K candidate heads per word, from trees drawn uniformly and from the
first-order distribution, and whole decoding by how long the best tree must stand. Scores are synthetic: arcs are
Gaussian, and a random projective tree stands above the rest by a margin; higher-order parts are Gaussian. Times are CPU
time of the thread, the least of several repetitions: other work on the machine only ever adds to it. A restart is what
many restarts take beyond a single one, so that packing, the first-order tree and the tables of a sentence are left out;
decoding counts all of it.
"""

import argparse
import os
import platform
import time
from importlib.metadata import version
from typing import Literal

import numpy as np
from random_trees import projective_tree

from arbora.decoders import MST, HillClimbing, Parts
from arbora.decoders.kernels.threads import set_num_threads
from arbora.decoders.parts.kinds import COMMON

LENGTHS = (10, 25, 50, 100)
PATIENCE = (300, 100, 30, 10)
TYPES: dict[str, tuple[str, ...]] = {"second order": ("grandparent", "sibling"), "all types": COMMON}
STARTS: tuple[Literal["uniform", "first_order"], ...] = ("uniform", "first_order")


def draw(
    batch: int, n: int, K: int, kinds: tuple[str, ...], margin: float, scale: float, rng: np.random.Generator
) -> Parts:
    """A batch of sentences with the K best heads of each word, and those of the first-order tree."""
    arc = rng.normal(size=(batch, n + 1, n + 1)).astype(np.float32)
    for matrix in arc:
        matrix[np.arange(1, n + 1), projective_tree(n, rng)[1:]] += margin
    arc[:, np.arange(n + 1), np.arange(n + 1)] = -np.inf
    mask = arc >= np.sort(arc, axis=2)[:, :, [-min(K, n)]]
    trees = MST()(Parts.from_dense(arc)).heads
    mask[np.arange(batch)[:, None], np.arange(1, n + 1), trees[:, 1:]] = True
    parts = Parts.from_dense(arc, mask=mask)
    return parts.with_scores(**{kind: scale * rng.normal(size=parts.part_offsets(kind)[-1]) for kind in kinds})


def least(decoder: HillClimbing, parts: Parts, repeats: int) -> float:
    """Seconds of CPU that decoding takes, the least of some repetitions."""
    decoder(parts)  # compiles
    times = []
    for _ in range(repeats):
        start = time.thread_time()
        decoder(parts)
        times.append(time.thread_time() - start)
    return min(times)


def time_restarts(options: argparse.Namespace) -> None:
    """Print the microseconds of one restart."""
    print(f"\nMicroseconds a restart, K = {options.heads}, one thread (moves, passes a restart)")
    print(f"{'':30}" + "".join(f"{f'n = {n}':>24}" for n in LENGTHS))
    for name, kinds in TYPES.items():
        for start in STARTS:
            print(f"{f'{name}, {start}':30}", end="", flush=True)
            for n in LENGTHS:
                batch, rng = max(4, 200 // n), np.random.default_rng(options.seed)
                parts = draw(batch, n, options.heads, kinds, options.margin, options.scale, rng)
                count = 41
                many, one = (HillClimbing(restarts=restarts, start=start) for restarts in (count, 1))
                seconds = least(many, parts, options.repeats) - least(one, parts, options.repeats)
                counters = many(parts).counters
                moves, passes = (counters[counter].mean() / count for counter in ("moves", "passes"))
                print(f"{f'{1e6 * seconds / batch / (count - 1):.1f} ({moves:.0f}, {passes:.1f})':>24}", end="")
            print()


def time_decoding(options: argparse.Namespace) -> None:
    """Print words per second, and how often the best score that any patience has found is reached."""
    print("\nWords per second by patience, one thread (restarts per sentence; share of the best scores found by any)")
    print(f"{'':36}" + "".join(f"{p:>24}" for p in PATIENCE) + f"{'from the best tree only':>28}")
    for name, kinds in TYPES.items():
        for n in LENGTHS:
            batch, rng = max(2, options.words // n), np.random.default_rng(options.seed)
            parts = draw(batch, n, options.heads, kinds, options.margin, options.scale, rng)
            best = np.full(batch, -np.inf)
            rows = []
            for start in STARTS:
                decoders = [HillClimbing(patience=patience, start=start) for patience in PATIENCE]
                decoders.append(HillClimbing(start="best"))
                row = [(least(decoder, parts, 1 + options.repeats // 4), decoder(parts)) for decoder in decoders]
                rows.append((start, row))
                best = np.maximum(best, np.max([trees.score for _, trees in row], axis=0))
            for start, row in rows:
                print(f"{f'{name}, n = {n}, {start}':36}", end="", flush=True)
                for (seconds, trees), width in zip(row, [24] * len(PATIENCE) + [28]):
                    share = np.mean(trees.score >= best - 1e-6)
                    text = f"{batch * n / seconds:,.0f} ({trees.counters['restarts'].mean():.0f}; {100 * share:.0f}%)"
                    print(f"{text:>{width}}", end="")
                print()


def main() -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heads", type=int, default=10, help="candidate heads per word (default: 10)")
    parser.add_argument("--margin", type=float, default=6.0, help="of the peaked tree over the rest (default: 6)")
    parser.add_argument("--scale", type=float, default=0.5, help="deviation of higher-order scores (default: 0.5)")
    parser.add_argument("--words", type=int, default=1000, help="in a batch that is decoded (default: 1000)")
    parser.add_argument("--repeats", type=int, default=15, help="timed repetitions (default: 15)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the scores (default: 0)")
    options = parser.parse_args()
    set_num_threads(1)
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", end=", "
    )
    print(f"Python {platform.python_version()}, numpy {version('numpy')}, numba {version('numba')}")
    time_restarts(options)
    time_decoding(options)


if __name__ == "__main__":
    main()
