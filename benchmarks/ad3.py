"""How fast does AD3 find and prove the best tree, next to the subgradient method and an integer program?

Scores are drawn to be as peaked as those of a trained parser: arcs are Gaussian with a bonus for the arcs of a random
projective tree, such that the best head of a word is right about nine times in ten; each word keeps its K best heads;
parts of higher order spread a third as far as arcs, with a small bonus in the tree. Prints sentences per second (CPU
time of one thread, packing not counted), the share of trees that are certified, and iterations:

1. AD3 and branch and bound with the parts of second and of third order and with all of them;
2. AD3 next to the subgradient method, by length of the sentence;
3. AD3 and branch and bound next to HiGHS, the integer programming solver of scipy, on the same scores; left out where
   scipy is not installed. All that finish must agree.

With `--relaxation COUNT` it prints only how near AD3's bound comes to the value of its relaxation as HiGHS finds it: on
random scores of all kinds, the hardest there are, for 8 to 14 words and 4 to 6 candidate heads each.
"""

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from random_trees import projective_tree

from arbora.decoders import MST, Decoder, Parts, Trees
from arbora.decoders.dual.ad3 import AD3
from arbora.decoders.dual.branch_and_bound import BranchAndBound
from arbora.decoders.dual.subgradient import Subgradient
from arbora.decoders.kernels.threads import set_num_threads

LENGTHS = (10, 25, 50)
ORDERS: dict[str, tuple[str, ...]] = {
    "second": ("grandparent", "sibling"),
    "third": ("grandparent", "sibling", "grand_sibling", "tri_sibling"),
    "all": ("grandparent", "sibling", "grand_sibling", "tri_sibling", "any_sibling", "head_bigram"),
}
SPREAD = 1.5
BONUS = 5.3
PART_BONUS = 0.5


def draw(
    kinds: tuple[str, ...], batch: int, n: int, k: int, rng: np.random.Generator, bonus: float
) -> tuple[Parts, float]:
    """Peaked scores, and the share of words whose best head is that of the tree."""
    arc = (SPREAD * rng.normal(size=(batch, n + 1, n + 1))).astype(np.float32)
    gold = np.array([projective_tree(n, rng) for _ in range(batch)])
    sentence, word = np.arange(batch)[:, None], np.arange(1, n + 1)
    arc[sentence, word, gold[:, 1:]] += bonus
    arc[:, np.arange(n + 1), np.arange(n + 1)] = -np.inf
    mask = arc >= np.sort(arc, axis=2)[:, :, -min(k, n), None]
    for heads in (gold, MST()(Parts.from_dense(arc)).heads):
        mask[sentence, word, heads[:, 1:]] = True
    parts = Parts.from_dense(arc, mask=mask)
    active = parts.with_scores(
        **{kind: np.zeros(parts.part_offsets(kind)[-1], dtype=np.float32) for kind in kinds}
    ).active(gold)
    scores = {}
    for kind in kinds:
        scores[kind] = (SPREAD / 3 * rng.normal(size=parts.part_offsets(kind)[-1])).astype(np.float32)
        scores[kind][active[kind]] += PART_BONUS
    return parts.with_scores(**scores), float((arc[:, 1:].argmax(2) == gold[:, 1:]).mean())


def timed(call: Callable[[], Trees], repeats: int) -> tuple[float, Trees]:
    """Least CPU time of some runs, after one that compiles."""
    trees = call()
    times = []
    for _ in range(repeats):
        start = time.thread_time()
        trees = call()
        times.append(time.thread_time() - start)
    return min(times), trees


def row(name: str, decoder: Decoder, parts: Parts, repeats: int) -> Trees:
    """Time a decoder and print a line."""
    seconds, trees = timed(lambda: decoder(parts), repeats)
    iterations = trees.counters["iterations"]
    line = f"  {name:28}{len(parts.lengths) / seconds:12,.0f}{100 * trees.certified.mean():11.1f}%"
    line += f"{iterations.mean():11.1f}{np.median(iterations):9.0f}{iterations.max():9}"
    if "nodes" in trees.counters:
        line += f"{trees.counters['nodes'].mean():9.2f}{trees.counters['nodes'].max():7}"
    print(line, flush=True)
    return trees


def header(title: str) -> None:
    """Print what the columns are."""
    print(f"\n{title}")
    columns = {"sentences/s": 40, "certified": 12, "iterations": 11, "median": 9, "most": 9, "nodes": 9, "most ": 7}
    print("".join(f"{name:>{width}}" for name, width in columns.items()))


def compare_with_relaxation(count: int, iterations: int, seed: int) -> None:
    """Print by length how far AD3's bound stays above the linear program, and after how many iterations it stops."""
    from integer_program import relaxation

    decoder = AD3(drop_arcs=False, max_iterations=iterations, tolerance=1e-5)
    found: dict[int, list[tuple[float, float, int]]] = {n: [] for n in range(8, 15)}
    for number in range(count):
        rng = np.random.default_rng((seed, number))
        n = 8 + number % 7
        mask = np.zeros((n + 1, n + 1), dtype=bool)
        for m in range(1, n + 1):
            others = [h for h in range(n + 1) if h != m]
            mask[m, rng.choice(others, size=rng.integers(4, 7), replace=False)] = True
            mask[m, [m - 1, 0]] |= [True, m < 3]
        parts = Parts.from_dense(rng.normal(size=(n + 1, n + 1)), mask=mask)
        scores = {kind: rng.normal(size=parts.part_offsets(kind)[-1]).astype(np.float32) for kind in ORDERS["all"]}
        parts = parts.with_scores(**scores)
        trees = decoder(parts)
        assert trees.bound is not None
        value = relaxation(parts, True)
        found[n].append((trees.bound[0] - value, value, trees.counters["iterations"][0]))
        line = "instance {}, n = {}: {:.2e} above {:.4f}, {} iterations".format(number, n, *found[n][-1])
        print(line, file=sys.stderr)
    print(f"  {'n':>3}{'instances':>11}{'LP':>8}{'above: most':>14}{'median':>10}{'least':>10}", end="")
    print(f"{'iterations':>12}{'stopped by the limit':>22}")
    for n, rows in found.items():
        if rows:
            above, value, used = map(np.array, zip(*rows, strict=True))
            print(f"  {n:3}{len(rows):11}{np.median(value):8.1f}{above.max():14.2e}{np.median(above):10.1e}", end="")
            print(f"{above.min():10.1e}{np.median(used):12.0f}{(used == iterations).sum():22}")


def main() -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=200, help="sentences of each length (default: 200)")
    parser.add_argument("--repeats", type=int, default=3, help="timed repetitions of each run (default: 3)")
    parser.add_argument("--heads", type=int, default=10, help="candidate heads per word, K (default: 10)")
    parser.add_argument("--bonus", type=float, default=BONUS, help=f"of arcs in the tree (default: {BONUS})")
    parser.add_argument("--programs", type=int, default=5, help="sentences given to HiGHS (default: 5)")
    parser.add_argument("--relaxation", type=int, metavar="COUNT", help="instances of the relaxation, and nothing else")
    parser.add_argument("--iterations", type=int, default=3000, help="at most, for the relaxation (default: 3000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the scores (default: 0)")
    options = parser.parse_args()
    set_num_threads(1)
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, ", end="")
    print(f"Python {platform.python_version()}, numpy {version('numpy')}, numba {version('numba')}")
    rng = np.random.default_rng(options.seed)
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    if options.relaxation:
        compare_with_relaxation(options.relaxation, options.iterations, options.seed)
        return

    for order, kinds in ORDERS.items():
        for n in LENGTHS:
            parts, right = draw(kinds, options.batch, n, options.heads, rng, options.bonus)
            header(f"{order} order, n = {n}, best head right {100 * right:.1f} %")
            relaxed = row("AD3", AD3(), parts, options.repeats)
            exact = row("BranchAndBound", BranchAndBound(seconds=10.0), parts, options.repeats)
            proved = relaxed.certified & exact.certified
            np.testing.assert_allclose(relaxed.score[proved], exact.score[proved], rtol=1e-5)
            assert (relaxed.score <= exact.score + 1e-4).all()

    for n in (5, 10, 15, 20, 30, 40):
        parts, _ = draw(ORDERS["second"], options.batch // 4, n, options.heads, rng, options.bonus)
        header(f"second order next to the subgradient method, n = {n}")
        row("AD3", AD3(), parts, options.repeats)
        row("AD3, all arcs kept", AD3(drop_arcs=False), parts, options.repeats)
        for step in (0.3, 1.0, 3.0):
            row(f"Subgradient, step {step}", Subgradient(step=step), parts, 1)

    if find_spec("scipy") is None:
        print("\nscipy is not installed: no integer program")
        return
    from integer_program import best_tree

    print(f"\nNext to HiGHS (scipy {version('scipy')}): milliseconds per sentence, {options.programs} sentences")
    print(f"  {'':16}{'AD3':>10}{'B & B':>10}{'HiGHS':>12}{'proved by':>14}{'HiGHS':>10}")
    for order in ("second", "third"):
        for n in (10, 25):
            parts, _ = draw(ORDERS[order], options.programs, n, options.heads, rng, options.bonus)
            times = [timed(lambda d=d, p=parts: d(p), options.repeats)[0] for d in (AD3(), BranchAndBound())]
            exact = BranchAndBound()(parts)
            start = time.thread_time()
            programs = [best_tree(parts.subset([b]), True) for b in range(options.programs)]
            times.append(time.thread_time() - start)
            for b, (score, proved) in enumerate(programs):
                if proved and exact.certified[b]:
                    np.testing.assert_allclose(exact.score[b], score, rtol=1e-5)
            line = f"  {order:8}{f'n = {n}':8}" + "".join(
                f"{1e3 * t / options.programs:{10 + (i == 2) * 2}.2f}" for i, t in enumerate(times)
            )
            print(
                f"{line}{exact.certified.mean():14.2f}{np.mean([proved for _, proved in programs]):10.2f}", flush=True
            )


if __name__ == "__main__":
    main()
