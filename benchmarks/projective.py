"""How fast are projective dynamic programs and the vine, and how does their time grow with the length of sentences?

Best tree, max-marginals and log-marginals, by arcs, with siblings, with grandparents, and with grand-siblings (third
order), where all arcs are candidates and where each word keeps its K best heads and those of the best tree; and the
vine in a band of 3 and of 10. Scores are Gaussian with a preference for near heads, and the arcs of a random projective
tree get a bonus, as those of a trained model would. All programs run in turn, several times, Eisner over all arcs among
them: the table has microseconds per sentence by length, each also as a multiple of Eisner's, and the power of n with
which they grow, over all lengths and over the last two.

One thread; times are CPU time of the thread, which other work on the machine disturbs least, and medians are shown.
What `Parts.layout` takes, once for each `Parts`, is in a row of its own. Compilation is not counted.
"""

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
from random_trees import projective_tree

from arbora.decoders import Eisner, Parts
from arbora.decoders.kernels.threads import set_num_threads
from arbora.decoders.projective.decoder import Projective
from arbora.decoders.projective.marginals import log_marginals, max_marginals
from arbora.decoders.vine import structures as vines

ORDERS: dict[str, tuple[str, ...]] = {
    "arcs": (),
    "sibling": ("sibling",),
    "grandparent": ("grandparent",),
    "grand-sibling": ("grandparent", "sibling", "grand_sibling"),
}
LENGTHS = (10, 25, 50, 100, 200)
LONGEST_DENSE = {"arcs": 200, "sibling": 100, "grandparent": 50, "grand-sibling": 50}
BONUS, DECAY = 4.0, 1.5
BANDS = (3, 10)


def draw(batch: int, n: int, K: int | None, rng: np.random.Generator) -> Parts:
    """Arc scores of random sentences; each word keeps its K best heads, all unless given, and that of the best tree."""
    arc = rng.normal(size=(batch, n + 1, n + 1)).astype(np.float32)
    distance = np.abs(np.subtract.outer(np.arange(n + 1), np.arange(n + 1)))
    arc -= DECAY * np.log(np.maximum(distance, 1)).astype(np.float32)
    gold = np.array([projective_tree(n, rng) for _ in range(batch)])
    words = np.arange(1, n + 1)
    arc[np.arange(batch)[:, None], words, gold[:, 1:]] += BONUS
    arc[:, np.arange(n + 1), np.arange(n + 1)] = -np.inf
    if K is not None and n > K:
        best = Eisner()(Parts.from_dense(arc)).heads
        kept = arc >= np.partition(arc, n + 1 - K, axis=2)[:, :, n + 1 - K, None]
        kept[np.arange(batch)[:, None], words, best[:, 1:]] = True
        arc[~kept] = -np.inf
    return Parts.from_dense(arc)


def with_kinds(parts: Parts, kinds: tuple[str, ...], rng: np.random.Generator) -> Parts:
    """The same arcs with random scores of other parts."""
    scores = {kind: 0.5 * rng.standard_normal(parts.part_offsets(kind)[-1], np.float32) for kind in kinds}
    return parts.with_scores(**scores)


def make_layout(parts: Parts) -> None:
    """What a kernel reads of parts, which `Parts` makes once."""
    arcs = Parts(parts.lengths, parts.head, parts.arc_score, parts.sentence_offsets, parts.modifier_offsets)
    assert len(arcs.layout.head) == len(parts.head)


def programs(n: int, words: int, rng: np.random.Generator) -> dict[str, tuple[Callable[[], object], int]]:
    """What is timed at a length: calls by name, with their numbers of sentences."""
    found: dict[str, tuple[Callable[[], object], int]] = {}
    batch = max(2, words // n)
    few = max(2, 10 * words // n**2)
    everything = draw(few, n, None, rng)
    found["Eisner, all arcs"] = partial(Eisner(), everything), few
    for K in (None, 10, 3):
        arcs = everything if K is None else draw(batch, n, K, rng)
        what = f"K = {K}" if K else "all arcs"
        for order, kinds in ORDERS.items():
            if K is None and n > LONGEST_DENSE[order]:
                continue
            count = min(len(arcs.lengths), 2 if K is None and kinds and n > 25 else len(arcs.lengths))
            parts = with_kinds(arcs.subset(np.arange(count)), kinds, rng)
            found[f"{order}, {what}: tree"] = partial(Projective(), parts), count
            found[f"{order}, {what}: max-marginals"] = partial(max_marginals, parts), count
            found[f"{order}, {what}: log-marginals"] = partial(log_marginals, parts), count
        found[f"layout, {what}"] = partial(make_layout, arcs), len(arcs.lengths)
    for band in BANDS:
        lengths = np.full(batch, n)
        shapes = ((batch * n, 2 * band), (batch * n, 2), (batch * (n + 1), 2))
        vine = vines.VineScores(lengths, *(rng.normal(size=shape) for shape in shapes))
        found[f"vine, band {band}: max-marginals"] = partial(vines.vine_max_marginals, vine), batch
        found[f"vine, band {band}: log-marginals"] = partial(vines.vine_log_marginals, vine), batch
    return found


def measure(runs: dict[str, tuple[Callable[[], object], int]], repeats: int) -> dict[str, list[float]]:
    """Microseconds a sentence of each program, in several rounds in which all run in turn; a first one is not kept."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for kept in (False, *[True] * repeats):
        for name, (run, sentences) in runs.items():
            start = time.thread_time()
            run()
            if kept:
                times[name].append(1e6 * (time.thread_time() - start) / sentences)
    return times


def growth(medians: dict[int, float]) -> str:
    """Exponent p of the least-squares fit time ~ n^p, over all lengths and over the last two."""
    n, t = np.log(list(medians)), np.log(list(medians.values()))
    return f"{np.polyfit(n, t, 1)[0]:.2f} ({np.polyfit(n[-2:], t[-2:], 1)[0]:.2f})"


def main() -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="timed rounds (default: 5)")
    parser.add_argument("--words", type=int, default=2_000, help="words in a batch (default: 2000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the scores (default: 0)")
    parser.add_argument("--json", type=Path, help="write all times, in microseconds per sentence, to this file")
    options = parser.parse_args()
    set_num_threads(1)
    rng = np.random.default_rng(options.seed)
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", end=", "
    )
    print(f"one thread, Python {platform.python_version()}, numpy {version('numpy')}, numba {version('numba')}")

    times: dict[str, dict[int, list[float]]] = {}
    for n in LENGTHS:
        for name, values in measure(programs(n, options.words, rng), options.repeats).items():
            times.setdefault(name, {})[n] = values
    medians = {name: {n: statistics.median(values) for n, values in by_n.items()} for name, by_n in times.items()}
    base = medians["Eisner, all arcs"]
    print("\nMicroseconds a sentence by the number of words (times Eisner over all arcs), and the power of n")
    print(f"{'':38}" + "".join(f"{n:>18}" for n in LENGTHS) + f"{'all (last two)':>16}")
    for name, by_n in medians.items():
        cells = (f"{by_n[n]:.1f} ({by_n[n] / base[n]:.2f})" if n in by_n else "-" for n in LENGTHS)
        print(f"{name:38}" + "".join(f"{cell:>18}" for cell in cells) + f"{growth(by_n):>16}")
    if options.json:
        options.json.write_text(json.dumps(times, indent=1))


if __name__ == "__main__":
    main()
