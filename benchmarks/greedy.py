"""How fast is greedy decoding, how does its time grow with length, which steps take it, and what does each bring?

Scores are Gaussian, and peaked: the arcs of a random projective tree get a bonus, as those of a trained model would,
and so do the parts of that tree. Each word keeps its K best heads, and the heads of the best first-order tree. First
order has only arcs, second order also grandparents and siblings, third order also grand-siblings and tri-siblings.

Four tables: variants of greedy decoding at 25 words and K = 10, with the mean score of their trees; growth from 10 to
160 words at K = 10; growth from 10 to 60 words where all arcs are candidates; share of time of each step. One thread;
times are CPU time of the thread, which other work on the machine disturbs least, and the median of several runs is
shown with the fastest and the slowest. Growth is fitted to the fastest runs. Compilation is not counted. The shares
come from a copy of the search whose kernels count the processor's cycles, which costs a few per cent.
"""

import argparse
import importlib.util
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic
from random_trees import projective_tree

from arbora.decoders import MST, Decoder, Parts
from arbora.decoders.greedy import decoder as greedy
from arbora.decoders.greedy import search
from arbora.decoders.greedy.decoder import Greedy
from arbora.decoders.kernels.threads import set_num_threads

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
PHASES: dict[str, tuple[str, ...]] = {
    "set-up": ("read", "fill_sums"),
    "change": ("change",),
    "sides": ("sum_sides",),
    "values": ("evaluate",),
    "witness": ("completes",),
    "copies": ("copy",),
    "improvements": (),
}
"""Kernels of the search by what they do; the rest is called choice, which includes scoring the trees."""

CYCLES = np.zeros(len(PHASES), dtype=np.int64)


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


def measure(decoder: Callable[[Parts], object], parts: Parts, repeats: int) -> list[float]:
    """Microseconds per sentence of each of several runs after the first."""
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
    lengths, fastest = list(results), [min(times) for times in results.values()]
    slopes = [np.polyfit(np.log(lengths[i:]), np.log(fastest[i:]), 1)[0] for i in (0, -2)]
    return f"{slopes[0]:.2f} ({slopes[1]:.2f})"


@intrinsic
def cycle(context: Any) -> Any:
    """Read the processor's counter of cycles."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(64), [])
        return builder.call(builder.module.declare_intrinsic("llvm.readcyclecounter", (), kind), [])

    return numba.int64(), generate


@intrinsic
def count(context: Any, phase: Any, cycles: Any) -> Any:
    """Add to the cycles of a phase; the array itself would be a constant in compiled code."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        address = context.get_constant(numba.int64, CYCLES.ctypes.data)
        place = builder.gep(builder.inttoptr(address, ir.IntType(64).as_pointer()), [arguments[0]])
        builder.store(builder.add(builder.load(place), arguments[1]), place)
        return context.get_dummy_value()

    return numba.void(numba.int64, numba.int64), generate


@numba.njit
def now() -> int:
    """Cycles so far."""
    return cycle()


def counting() -> tuple[Callable[..., None], Callable[..., Any]]:
    """A search and improvements that count their cycles: the search is that of a second copy of its module."""
    spec = importlib.util.spec_from_file_location("counting_search", search.__file__)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for phase, kernels in enumerate(PHASES.values()):
        for name in kernels:
            kernel = getattr(module, name)
            code = kernel.py_func.__code__
            arguments = ", ".join(code.co_varnames[: code.co_argcount])
            source = f"def counted({arguments}):\n    start = cycle()\n    found = kernel({arguments})\n"
            source += f"    count({phase}, cycle() - start)\n    return found\n"
            scope = {"kernel": kernel, "cycle": cycle, "count": count}
            exec(source, scope)
            setattr(module, name, numba.njit(nogil=True, _nrt=False)(scope["counted"]))
    improve = greedy.improve_in_place

    def improve_in_place(*arguments: Any) -> Any:
        start = now()
        swaps = improve(*arguments)
        CYCLES[-1] += now() - start
        return swaps

    return numba.njit(nogil=True)(module.search.py_func), improve_in_place  # not cached: the cache has the other copy's


def profile(parts: Parts, repeats: int, **settings: Any) -> dict[str, float]:
    """Share of each phase in the time of the fastest run of a decoder that counts."""
    decoder = Greedy(**settings)
    decoder(parts)
    least, shares = np.inf, {}
    for _ in range(repeats):
        CYCLES[:] = 0
        start = now()
        decoder(parts)
        whole = now() - start
        if whole < least:
            least = whole
            shares = {name: float(cycles) / whole for name, cycles in zip(PHASES, CYCLES)}
    return {**shares, "choice": 1 - sum(shares.values())}


def main() -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="timed repetitions of each run (default: 5)")
    parser.add_argument("--words", type=int, default=5_000, help="words in a batch (default: 5000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the scores (default: 0)")
    parser.add_argument("--rates", action="store_true", help="only sentences of 25 words, without growth and profile")
    parser.add_argument("--json", type=Path, help="write all times, in microseconds per sentence, to this file")
    options = parser.parse_args()
    set_num_threads(1)
    rng = np.random.default_rng(options.seed)
    results: dict[str, dict] = {}

    cores, load = os.cpu_count(), os.getloadavg()[0]
    print(f"{platform.processor() or platform.machine()}, {cores} cores, load {load:.1f}, one thread", end=", ")
    print(f"Python {platform.python_version()}, numpy {version('numpy')}, numba {version('numba')}")
    for order, kinds in ORDERS.items():
        parts = draw(max(4, options.words // 25), 25, 10, kinds, rng)
        print(
            f"\nOrder {order}, 25 words, K = 10: microseconds per sentence (min-max), sentences per second, mean score"
        )
        for name, decoder in WAYS.items():
            times = measure(decoder, parts, options.repeats)
            trees = decoder(parts)
            rate = 1e6 / statistics.median(times)
            print(f"  {name:34}{shown(times):>24}{rate:>10,.0f}{trees.score.mean():>12.3f}", flush=True)
            results.setdefault(f"order {order}", {})[name] = times
    if options.rates:
        return

    for K, lengths in ((10, (10, 20, 40, 80, 160)), (None, (10, 20, 40, 60))):
        what = f"K = {K}" if K else "all arcs"
        print(f"\n{what}: microseconds per sentence by the number of words, and the power of n with which they grow")
        print(f"  {'':40}" + "".join(f"{n:>20}" for n in lengths) + f"{'all (last two)':>20}")
        for order in (1, 2):
            for name in ("BGI-PP", "BGI-PP, beam=3, improvements=5"):
                row = {}
                for n in lengths:
                    batch = max(4, options.words // (n if K else n * max(1, n // 10)))
                    parts = draw(batch, n, K, ORDERS[order], rng)
                    row[n] = measure(WAYS[name], parts, options.repeats)
                cells = "".join(f"{shown(times):>20}" for times in row.values())
                print(f"  {f'{name}, order {order}':40}{cells}{growth(row):>20}", flush=True)
                results.setdefault(what, {})[f"{name}, order {order}"] = row

    greedy.search, greedy.improve_in_place = counting()
    print("\nK = 10: share of the time, in per cent")
    print(f"  {'':28}" + "".join(f"{name:>14}" for name in (*PHASES, "choice")))
    for n in (25, 160):
        for order in ORDERS:
            parts = draw(max(4, options.words // (2 * n)), n, 10, ORDERS[order], rng)
            for beam, improvements in ((1, 0), (3, 5)):
                shares = profile(parts, options.repeats, beam=beam, improvements=improvements)
                cells = "".join(f"{100 * share:>14.1f}" for share in shares.values())
                print(f"  {f'{n} words, order {order}, beam {beam}':28}{cells}", flush=True)
                results.setdefault("shares", {})[f"{n} words, order {order}, beam {beam}"] = shares
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
