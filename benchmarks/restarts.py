"""How many restarts does hill-climbing need, from which trees, and how fast is it then?

Scores a part of a treebank once with a trained parser, all types of parts that it has, and prints what Zhang, Lei,
Barzilay and Jaakkola (2014), "Greed is Good if Randomized: New Inference for Dependency Parsing", show in their tables
5 and 6 and figures 5 and 6:

- Starting trees: UAS of the trees from which climbs start, and UAS, score and number of restarts at a given patience.
- Convergence: share of sentences whose best tree among the most restarts is found within a tenth of them.
- Restarts: score relative to the best tree that any run found, and UAS, after 1, 2, 5, ... restarts.
- Speed: UAS and words a second by patience, by number of threads, medians of repeated runs after a first; and words a
  second of CPU on one thread, on which other work on the machine has less influence.

The paper climbs from random trees alone. Here a first climb from the best tree under arc scores is the default, so all
figures are there without it, as in the paper, and with it ("+ best"). UAS counts all words, where the paper leaves
punctuation out. Sentences whose candidate arcs make only one tree are in all figures; their share is printed.

For example:

    python benchmarks/restarts.py runs/second/best.ckpt ../treebanks/Greek-GDT/test.conllu --csv restarts.csv
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import version
from typing import Literal, NamedTuple

import numpy as np

from arbora.data.conll import open_output, read_conll
from arbora.decoders import MST, HillClimbing, Parts
from arbora.decoders.hill_climbing import LAWS, sample
from arbora.decoders.threads import get_num_threads, set_num_threads
from arbora.model import load
from arbora.model.parsing import score

STARTS: tuple[Literal["uniform", "first_order"], ...] = ("uniform", "first_order")
RESTARTS = (1, 2, 5, 10, 20, 50, 100, 200, 300, 1000, 3000)
PATIENCE = (300, 100, 30, 10)
DRAWN = 20
"""Random trees of a sentence of which the UAS is taken."""

TOLERANCE = 1e-9
"""Scores that differ by less, relative to the score, differ by rounding."""


class Scored(NamedTuple):
    """A part of a treebank: sentences of batches, one after the other, (S,) each."""

    batches: list[Parts]
    gold: list[np.ndarray]  # (B, N) heads of each batch, -2 where a tree has no head
    words: np.ndarray

    def right(self, heads: list[np.ndarray]) -> np.ndarray:
        """(S,) words with the right head."""
        return np.concatenate([(tree == gold).sum(1) for tree, gold in zip(heads, self.gold)])


class Found(NamedTuple):
    """What a decoder found, (S,) each."""

    score: np.ndarray
    right: np.ndarray
    restarts: np.ndarray


def read(model: str, file: str, single_root: bool) -> Scored:
    """Score the sentences of a file."""
    parser = load(model)
    if parser.decoder.single_root != single_root:
        parser.decoder = HillClimbing(single_root=single_root)
    batches, gold = [], []
    for sentences, parts in score(parser, read_conll(file)):
        heads = np.full(parts.empty_trees().shape, -2)
        for row, sentence in zip(heads, sentences):
            row[1 : len(sentence) + 1] = sentence.head
        batches.append(parts)
        gold.append(heads)
    return Scored(batches, gold, np.concatenate([parts.lengths for parts in batches]))


def decode(decoder: HillClimbing, scored: Scored) -> Found:
    """Decode all sentences."""
    trees = [decoder(parts) for parts in scored.batches]
    restarts = np.concatenate([t.counters["restarts"] for t in trees])
    return Found(np.concatenate([t.score for t in trees]), scored.right([t.heads for t in trees]), restarts)


def converge(decoder: HillClimbing, scored: Scored, counts: list[int]) -> dict[int, Found]:
    """What is found after each number of restarts, the most last.

    The first restarts of a long run are those of a short one, so a sentence that has the score of the longest run is
    not decoded again.
    """
    last = decode(replace(decoder, restarts=counts[-1]), scored)
    found: dict[int, Found] = {}
    edges = np.cumsum([0, *(len(parts.lengths) for parts in scored.batches)])
    open_ = np.ones(len(last.score), dtype=bool)
    for count in counts[:-1]:
        now = Found(last.score.copy(), last.right.copy(), np.full(len(open_), count))
        for start, end, parts, gold in zip(edges, edges[1:], scored.batches, scored.gold):
            chosen = np.flatnonzero(open_[start:end])
            if len(chosen):
                some = parts.subset(chosen)
                trees = replace(decoder, restarts=count)(some)
                now.score[start + chosen] = trees.score
                now.right[start + chosen] = (trees.heads == gold[chosen, : trees.heads.shape[1]]).sum(1)
        open_ = now.score < last.score
        found[count] = now
    return found | {counts[-1]: last}


def starting_uas(start: str, scored: Scored, single_root: bool) -> float:
    """UAS of the trees from which climbs start."""
    right = 0.0
    for parts, gold in zip(scored.batches, scored.gold):
        best = MST(single_root)(parts).heads
        if start == "best":
            right += (best == gold).sum()
            continue
        for b in range(len(best)):
            trees = np.full((DRAWN, best.shape[1]), -1, dtype=np.int32)
            bits = parts.arc_score.view(np.uint32)
            sample(parts.layout, bits, best, b, LAWS[start], 1.0, 0, single_root, trees)
            right += (trees == gold[b]).sum() / DRAWN
    return 100 * right / scored.words.sum()


def one_tree(parts: Parts, single_root: bool) -> Iterator[bool]:
    """Whether the arcs of each sentence make one tree alone: their number is a determinant (Koo et al., 2007)."""
    for b, n in enumerate(parts.lengths):
        arcs = slice(*parts.sentence_offsets[b : b + 2])
        there = np.zeros((n + 1, n + 1))
        there[parts.modifier[arcs], parts.head[arcs]] = 1
        words = there[1:, 1:]
        laplacian = np.diag(words.sum(1) + (0 if single_root else there[1:, 0])) - words
        if single_root:
            laplacian[:, 0] = there[1:, 0]
        yield np.linalg.slogdet(laplacian)[1] < np.log(1.5)


def speed(
    decoder: HillClimbing, scored: Scored, threads: int, repeats: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Words a second, the median of some runs."""
    set_num_threads(threads)
    times = []
    for _ in range(repeats):
        started = clock()
        for parts in scored.batches:
            decoder(parts)
        times.append(clock() - started)
    return float(scored.words.sum() / statistics.median(times))


def table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """Print a table in Markdown."""
    print(f"\n{title}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    print("\n".join(f"| {' | '.join(row)} |" for row in rows), flush=True)


def main() -> None:
    """Score, climb, print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model", help="checkpoint")
    options.add_argument("file", help="CoNLL-U file with gold trees")
    options.add_argument("--csv", help="file for the figures by number of restarts")
    options.add_argument("--patience", type=int, default=300, help="of the table of starting trees (default: 300)")
    options.add_argument("--most", type=int, default=RESTARTS[-1], help="most restarts (default: 3000)")
    options.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="that are timed (default: 1 2)")
    options.add_argument("--repeats", type=int, default=3, help="timed runs, after a first (default: 3)")
    options.add_argument("--seed", type=int, default=0, help="of the random trees (default: 0)")
    options.add_argument("--multi-root", action="store_true", help="several words at the root, as in the paper")
    asked = options.parse_args()
    single_root = not asked.multi_root
    scored = read(asked.model, asked.file, single_root)
    words = int(scored.words.sum())
    arcs = sum(len(parts.head) for parts in scored.batches) / words
    trivial = np.concatenate([list(one_tree(parts, single_root)) for parts in scored.batches])
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", end=", "
    )
    print(f"Python {platform.python_version()}, numpy {version('numpy')}, numba {version('numba')}")
    kinds = ", ".join(("arc", *scored.batches[0].kinds))
    print(
        f"{len(scored.words):,} sentences, {words:,} words, {arcs:.1f} arcs a word; {kinds}; single root: {single_root}"
    )
    print(f"one tree alone: {100 * trivial.mean():.1f} % of the sentences", end="")
    print(f", {scored.words[trivial].mean():.1f} words each on average" if trivial.any() else "")

    settings = {
        f"{start}{' + best' * best_first}": HillClimbing(
            start=start, best_first=best_first, seed=asked.seed, single_root=single_root
        )
        for start in STARTS
        for best_first in (False, True)
    }
    only_best = HillClimbing(start="best", single_root=single_root)
    counts = [count for count in RESTARTS if count < asked.most] + [asked.most]
    curves = {name: converge(decoder, scored, counts) for name, decoder in settings.items()}
    patient = {"best alone": decode(only_best, scored)}
    patient |= {name: decode(replace(d, patience=asked.patience), scored) for name, d in settings.items()}
    runs = [found for curve in curves.values() for found in curve.values()] + list(patient.values())
    best = np.max([found.score for found in runs], axis=0)

    def figures(found: Found, chosen: np.ndarray) -> dict[str, float]:
        """Those of some sentences. Scores are relative to the sum of the best ones: single ones may be near 0."""
        gap = (best - found.score)[chosen]
        return {
            "score": 100 * found.score[chosen].sum() / best[chosen].sum(),
            "gap": gap.mean(),
            "best": 100 * (gap <= TOLERANCE * (1 + np.abs(best[chosen]))).mean(),
            "uas": 100 * found.right[chosen].sum() / scored.words[chosen].sum(),
        }

    groups = {"all": scored.words > 0, "1-15": scored.words <= 15, "16 and more": scored.words > 15}
    groups = {name: chosen for name, chosen in groups.items() if chosen.any()}
    rows = []
    for name, found in patient.items():
        start = {"best alone": "best"}.get(name, name.removesuffix(" + best"))
        of = figures(found, groups["all"])
        row = [name, f"{starting_uas(start, scored, single_root):.2f}", f"{of['uas']:.2f}", f"{found.score.mean():.4f}"]
        rows.append([*row, f"{of['gap']:.4f}", f"{of['best']:.1f}", f"{found.restarts.mean():.0f}"])
    columns = ["climbs from", "UAS of starts", "UAS", "mean score", "below best known", "best known (%)", "restarts"]
    table(f"Starting trees, patience {asked.patience} (table 5)", columns, rows)

    within = max((count for count in counts if count <= asked.most // 10), default=counts[0])
    rows = []
    for name, curve in curves.items():
        same = curve[within].score == curve[asked.most].score
        hard = [same[chosen & ~trivial] for chosen in groups.values()]
        shares = [*(same[chosen] for chosen in groups.values()), *hard]
        rows.append([name, *(f"{100 * share.mean():.2f}" if len(share) else "-" for share in shares)])
    names = [f"{name} ({chosen.sum():,})" for name, chosen in groups.items()]
    names += [f"{name}, several trees ({(chosen & ~trivial).sum():,})" for name, chosen in groups.items()]
    title = f"Sentences (%) whose best tree of {asked.most} restarts is found within {within} (table 6), by length"
    table(title, ["climbs from", *names], rows)

    by_count = {name: {c: figures(f, groups["all"]) for c, f in curve.items()} for name, curve in curves.items()}
    for what, title in {
        "score": "Score (%) relative to the best known trees (figure 5)",
        "best": "Sentences (%) with the best known tree",
        "uas": "UAS",
    }.items():
        digits = 4 if what == "score" else 2
        rows = [[str(count), *(f"{by_count[name][count][what]:.{digits}f}" for name in curves)] for count in counts]
        table(f"{title}, by number of restarts", ["restarts", *curves], rows)
    if asked.csv is not None:
        with open_output(asked.csv) as output:
            writer = csv.writer(output, lineterminator="\n")
            writer.writerow(["start", "best_first", "restarts", "length", "score", "gap", "best", "uas"])
            for name, curve in curves.items():
                for count, found in curve.items():
                    for length, chosen in groups.items():
                        decoder = settings[name]
                        key = (decoder.start, int(decoder.best_first), count, length)
                        writer.writerow([*key, *(f"{value:.6f}" for value in figures(found, chosen).values())])

    threads = get_num_threads()
    rows = []
    for name, decoder in {"best alone": only_best, **settings}.items():
        for patience in PATIENCE if name != "best alone" else [1]:
            timed = replace(decoder, patience=patience)
            of = figures(decode(timed, scored), groups["all"])
            rates = [f"{speed(timed, scored, 1, asked.repeats, time.process_time):,.0f}"]
            rates += [f"{speed(timed, scored, count, asked.repeats):,.0f}" for count in asked.threads]
            rows.append([name, "-" if name == "best alone" else str(patience), f"{of['uas']:.2f}"])
            rows[-1] += [f"{of['best']:.1f}", *rates]
            set_num_threads(threads)
    columns = ["climbs from", "patience", "UAS", "best known (%)", "words/s of CPU"]
    columns += [f"words/s, {count} thread{'s' * (count > 1)}" for count in asked.threads]
    table(f"Decoding speed (figure 6), load {os.getloadavg()[0]:.1f}", columns, rows)


if __name__ == "__main__":
    main()
