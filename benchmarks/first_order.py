"""How fast are the first-order decoders, next to the packages people use for the same search?

Times MST and ufal.chu_liu_edmonds (C++), Eisner and torch-struct's DependencyCRF.argmax, from dense scores to heads,
one thread against one thread, on random scores (Gaussian) and on peaked ones (Gaussian, and a random projective
tree far above the rest). Every tree is checked against the other package's score. Both packages allow several roots;
our single-root mode, a harder search, is compared with the same times. "From Parts" is decoding only, "from dense" also
counts the packing of the score matrices (Parts.from_dense); the other packages are given arrays that they read as is.

Times are CPU time of the thread, which other work on the machine disturbs least. Two threads are timed by the clock,
and to be compared with one thread by the clock; they need two idle cores to gain anything.
"""

import argparse
import json
import os
import platform
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from random_trees import projective_tree
from torch_struct import DependencyCRF
from ufal.chu_liu_edmonds import chu_liu_edmonds

from arbora.decoders import MST, Eisner, Parts
from arbora.decoders.kernels.threads import set_num_threads

LENGTHS = (10, 25, 50, 100)
MARGIN = 12.0
WARM = 2
COMPARED = {"ufal": ("MST multi", "MST single"), "torch-struct": ("Eisner multi", "Eisner single")}


class Run(NamedTuple):
    """Something to be timed."""

    call: Callable[[], object]
    batch: int
    clock: Callable[[], float] = time.thread_time
    threads: int = 1


def processor() -> str:
    """Name of the processor, as far as the system tells it."""
    if (info := Path("/proc/cpuinfo")).exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def draw(kind: str, batch: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """(B, n+1, n+1) arc scores."""
    arc = rng.normal(size=(batch, n + 1, n + 1)).astype(np.float32)
    if kind == "peaked":
        for matrix in arc:
            matrix[np.arange(1, n + 1), projective_tree(n, rng)[1:]] += MARGIN
    return arc


def run_ufal(matrices: np.ndarray) -> list[tuple[list[int], float]]:
    """Heads and score of each (n+1, n+1) float64 matrix; row 0 must be NaN."""
    return [chu_liu_edmonds(matrix) for matrix in matrices]


def to_torch_struct(arc: np.ndarray) -> torch.Tensor:
    """(B, n, n) scores as torch-struct wants them: [head, modifier], the root on the diagonal."""
    scores = torch.from_numpy(arc[:, 1:, 1:].transpose(0, 2, 1).copy())
    diagonal = torch.arange(scores.shape[1])
    scores[:, diagonal, diagonal] = torch.from_numpy(arc[:, 1:, 0].copy())
    return scores


def run_torch_struct(scores: torch.Tensor) -> torch.Tensor:
    """(B, n, n) indicators of the arcs of each best tree."""
    return DependencyCRF(scores.clone().requires_grad_(True), multiroot=True).argmax.detach()


def measure(runs: dict[str, Run], repeats: int) -> dict[str, list[float]]:
    """Microseconds a sentence of each run; runs take turns, so that a busy moment of the machine hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            set_num_threads(run.threads)
            for _ in range(WARM):  # compiles, and drives out of the caches what the run before left there
                run.call()
            start = run.clock()
            run.call()
            times[name].append(1e6 * (run.clock() - start) / run.batch)
    set_num_threads(1)
    return times


def growth(lengths: Sequence[int], times: list[float]) -> float:
    """Exponent p of the least-squares fit time ~ n^p."""
    return float(np.polyfit(np.log(lengths), np.log(times), 1)[0])


def spread(times: list[float]) -> str:
    """Median, and the least and greatest, in microseconds."""
    return f"{statistics.median(times):10.2f} ({min(times):.2f}-{max(times):.2f})"


def print_ratios(results: dict[str, dict[int, dict[str, list[float]]]]) -> None:
    """How many times as fast as the other package, a row for each decoder and a column for each kind and length."""
    print("\nTimes as fast as the other package, one thread: ratio of medians (of minima)")
    columns = [(kind, n) for kind in results for n in LENGTHS]
    print(" " * 40 + "".join(f"{f'{kind} {n}':>15}" for kind, n in columns))
    for theirs, ours in COMPARED.items():
        for name in ours:
            for start, runs in (("Parts", [name]), ("dense", ["from_dense", name])):
                print(f"{f'{name} / {theirs}, from {start}':40}", end="")
                for kind, n in columns:
                    times = results[kind][n]
                    median, least = (
                        of(times[theirs]) / sum(of(times[run]) for run in runs) for of in (statistics.median, min)
                    )
                    print(f"{f'{median:.1f} ({least:.1f})':>15}", end="")
                print()


def print_growth(results: dict[str, dict[int, dict[str, list[float]]]]) -> None:
    """Exponents of the growth with length."""
    print(f"\nTime grows as n to the power of, fitted to medians at n = {LENGTHS} (to the last two)")
    names = ["from_dense", *(name for theirs, ours in COMPARED.items() for name in (*ours, theirs))]
    print(" " * 40 + "".join(f"{kind:>15}" for kind in results))
    for name in names:
        print(f"{name:40}", end="")
        for of_length in results.values():
            medians = [statistics.median(of_length[n][name]) for n in LENGTHS]
            print(f"{f'{growth(LENGTHS, medians):.2f} ({growth(LENGTHS[-2:], medians[-2:]):.2f})':>15}", end="")
        print()


def benchmark(kind: str, n: int, arcs: int, repeats: int, rng: np.random.Generator) -> dict[str, list[float]]:
    """Microseconds a sentence of everything that is compared, and a check that all find trees of the same score."""
    batch = max(8, arcs // n**2)
    arc = draw(kind, batch, n, rng)
    few = min(batch, max(16, 100_000 // n**2))  # torch-struct gains no more from larger batches, only memory grows
    ufal_scores = arc.astype(np.float64)
    ufal_scores[:, 0] = np.nan
    struct_scores = to_torch_struct(arc[:few])

    parts = Parts.from_dense(arc)
    runs = {"from_dense": Run(partial(Parts.from_dense, arc), batch)}
    for decoder in (MST(single_root=False), MST(), Eisner(single_root=False), Eisner()):
        name = f"{type(decoder).__name__} {'single' if decoder.single_root else 'multi'}"
        runs[name] = Run(partial(decoder, parts), batch)
        runs[f"{name}, clock"] = Run(partial(decoder, parts), batch, time.perf_counter)
        runs[f"{name}, clock, 2 threads"] = Run(partial(decoder, parts), batch, time.perf_counter, threads=2)
    runs["ufal"] = Run(partial(run_ufal, ufal_scores), batch)
    runs["torch-struct"] = Run(partial(run_torch_struct, struct_scores), few)
    times = measure(runs, repeats)

    mst, eisner = MST(single_root=False)(parts), Eisner(single_root=False)(parts)
    ufal = parts.score(np.array([heads for heads, _ in run_ufal(ufal_scores)]))
    struct = (run_torch_struct(struct_scores).double() * struct_scores.double()).sum(dim=(1, 2)).numpy()
    np.testing.assert_allclose(mst.score, ufal, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(eisner.score[:few], struct, rtol=1e-5, atol=1e-5)
    assert (MST()(parts).score <= mst.score + 1e-9).all()
    assert (Eisner()(parts).score <= eisner.score + 1e-9).all()
    return times


def main() -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9, help="timed repetitions of each run (default: 9)")
    parser.add_argument("--arcs", type=int, default=150_000, help="arcs in a batch (default: 150000, as in training)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the scores (default: 0)")
    parser.add_argument("--json", type=Path, help="write all times, in microseconds per sentence, to this file")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", module="torch")
    torch.set_num_threads(1)

    print(f"{processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}")
    print(", ".join(f"{name} {version(name)}" for name in ("numpy", "numba", "torch", "torch-struct")), end=", ")
    print(f"ufal.chu-liu-edmonds {version('ufal.chu-liu-edmonds')}")
    rng = np.random.default_rng(options.seed)
    results: dict[str, dict[int, dict[str, list[float]]]] = {}
    for kind in ("random", "peaked"):
        results[kind] = {}
        for n in LENGTHS:
            print(
                f"\n{kind} scores, n = {n}: microseconds per sentence, median (min-max); sentences per second",
                flush=True,
            )
            times = results[kind][n] = benchmark(kind, n, options.arcs, options.repeats, rng)
            for name, values in times.items():
                print(f"  {name:32}{spread(values):34}{1e6 / statistics.median(values):12,.0f}")
    print_ratios(results)
    print_growth(results)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
