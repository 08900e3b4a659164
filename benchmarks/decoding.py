"""How do decoders compare on exactly the same scores of a trained parser?

Scores a part of a treebank once, runs a family of decoders on it, and prints one row for each:

- UAS and undirected UAS; `score`: mean score of the trees, in percent of that of the best trees that any row found;
  `best`: share of sentences whose tree scores as much as the best; `gap`: mean distance to the best score.
- `higher / lower`: share of sentences in which this row scores more, or less, than the last row.
- `SARC`: arcs shared with the reference, the first row; `gold`: words (%) that this row has right and the reference has
  wrong / the other way round.
- For decoders with a bound, `certified`: share of sentences proved; `integral`: share whose relaxation is solved by a
  tree; `open`: mean distance of bound and score where they do not meet; mean iterations.
- Words a second of decoding alone, on one thread and on two, medians of repeated runs after a first.

For example:

    python benchmarks/decoding.py runs/second/best.ckpt ../treebanks/Greek-GDT/test.conllu --family greedy
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arbora.data.conll import Sentence, read_conll
from arbora.decoders import MST, Decoder, HillClimbing, Parts, Trees
from arbora.decoders.ad3 import AD3, RelaxedTrees
from arbora.decoders.branch_and_bound import BranchAndBound
from arbora.decoders.greedy import Greedy
from arbora.decoders.parts import COMMON
from arbora.decoders.subgradient import Subgradient
from arbora.decoders.threads import set_num_threads
from arbora.model import load
from arbora.model.parsing import score

FAMILIES: dict[str, dict[str, Decoder]] = {
    "greedy": {
        "branch and bound": BranchAndBound(),
        "MST": MST(),
        "BGI": Greedy(partial=False, beam=1, improvements=0),
        "BGI + i": Greedy(partial=False, beam=1),
        "BGI + i + b": Greedy(partial=False),
        "BGI-PP": Greedy(beam=1, improvements=0),
        "BGI-PP + i": Greedy(beam=1),
        "BGI-PP + i + b": Greedy(),
        "BGI-PP, absent arcs unseen": Greedy(beam=1, improvements=0, absent=False),
        "BGI-PP + i, absent arcs unseen": Greedy(beam=1, absent=False),
        "BGI-PP + i + b, absent arcs unseen": Greedy(absent=False),
        "hill-climbing, patience 300": HillClimbing(patience=300),
    },
    "ad3": {
        "branch and bound, 1 s": BranchAndBound(seconds=1.0),
        "AD3": AD3(),
        "AD3, 50 iterations": AD3(max_iterations=50),
        "AD3, all arcs kept": AD3(drop_arcs=False),
        "subgradient": Subgradient(),
        "hill-climbing, patience 300": HillClimbing(patience=300),
    },
}


class Found(NamedTuple):
    """What a decoder made of all sentences."""

    heads: NDArray[np.int32]  # (W,)
    score: NDArray[np.float64]  # (S,)
    certified: NDArray[np.bool_]  # (S,)
    bound: NDArray[np.float64] | None  # (S,)
    integral: NDArray[np.bool_] | None  # (S,)
    iterations: NDArray[np.int64] | None  # (S,)


def decode(decoder: Decoder, batches: list[Parts]) -> Found:
    """Trees of all sentences of all batches."""
    found: list[Trees] = [decoder(parts) for parts in batches]
    heads = [tree[1:][tree[1:] >= 0] for trees in found for tree in trees.heads]
    bounds = [trees.bound for trees in found if trees.bound is not None]
    integral = [trees.integral for trees in found if isinstance(trees, RelaxedTrees)]
    iterations = [trees.counters["iterations"] for trees in found if "iterations" in trees.counters]
    return Found(
        np.concatenate(heads),
        np.concatenate([trees.score for trees in found]),
        np.concatenate([trees.certified for trees in found]),
        np.concatenate(bounds) if bounds else None,
        np.concatenate(integral) if integral else None,
        np.concatenate(iterations) if iterations else None,
    )


def speed(decoder: Decoder, batches: list[Parts], words: int, threads: int, repeats: int) -> float:
    """Words a second, the median of some runs."""
    set_num_threads(threads)
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        for parts in batches:
            decoder(parts)
        times.append(time.perf_counter() - started)
    return words / statistics.median(times)


def of_length(sentences: Iterator[Sentence], shortest: int, longest: int) -> Iterator[Sentence]:
    """Sentences with so many words."""
    return (sentence for sentence in sentences if shortest <= len(sentence) <= longest)


def main() -> None:
    """Score, decode, print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model", help="checkpoint")
    options.add_argument("file", help="CoNLL-U file with gold trees")
    options.add_argument("--family", choices=FAMILIES, default="greedy")
    options.add_argument("--first-order", action="store_true", help="arcs alone")
    options.add_argument("--words", type=int, nargs=2, default=[1, 10_000], help="shortest and longest sentence")
    options.add_argument("--ratio", type=float, help="of the pruner; 0 leaves each word all of its K heads")
    options.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--csv", type=Path, help="where to write length, score, bound, ... of each sentence")
    asked = options.parse_args()
    parser = load(asked.model)
    if asked.ratio is not None and parser.pruner is not None:
        parser.pruner.ratio = asked.ratio
    scored = list(score(parser, of_length(read_conll(asked.file), *asked.words)))
    batches = [entry.parts for entry in scored]
    if asked.first_order:
        batches = [replace(parts, **dict.fromkeys(COMMON)) for parts in batches]
    lengths = np.concatenate([parts.lengths for parts in batches])
    gold = np.concatenate([sentence.head for entry in scored for sentence in entry.sentences])
    family = FAMILIES[asked.family]
    rows = {name: decode(decoder, batches) for name, decoder in family.items()}
    best = np.max([row.score for row in rows.values()], axis=0)
    print(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {len(best):,} sentences, {len(gold):,} words; ", end=""
    )
    arcs = sum(len(parts.head) for parts in batches) / len(gold)
    print(f"{arcs:.1f} arcs a word; {', '.join(batches[0].kinds) or 'arcs'}\n")
    with_bounds = asked.family == "ad3"
    columns = ["decoder", "UAS", "undirected", "score", "best", "gap", "higher / lower", "SARC", "gold"]
    columns += ["certified", "integral", "open", "iterations"] * with_bounds
    columns += [f"words/s, {threads} thread{'s' * (threads > 1)}" for threads in asked.threads]
    print("| " + " | ".join(columns) + " |")
    print("|---" * len(columns) + "|")
    start = np.repeat(np.cumsum(lengths) - lengths, lengths)
    position = np.arange(len(gold)) - start + 1
    reference, last = next(iter(rows.values())).heads, list(rows.values())[-1].score
    for name, row in rows.items():
        right = row.heads == gold
        # An arc is right without its direction too where the gold head of its head is the word itself.
        turned = (row.heads > 0) & (gold[np.maximum(start + row.heads - 1, 0)] == position)
        same = 1e-6 * (1 + np.abs(best))
        near = best - row.score <= same
        shares = [(row.score > last + same).mean(), (row.score < last - same).mean()]
        only = [(right & (reference != gold)).mean(), (~right & (reference == gold)).mean()]
        cells = [name, f"{100 * right.mean():.2f}", f"{100 * (right | turned).mean():.2f}"]
        cells += [f"{100 * row.score.sum() / best.sum():.3f} %", f"{100 * near.mean():.1f} %"]
        cells += [f"{(best - row.score).mean():.4f}", " / ".join(f"{100 * share:.2f}" for share in shares)]
        cells += [f"{100 * (reference == row.heads).mean():.2f}", " / ".join(f"{100 * share:.2f}" for share in only)]
        if with_bounds:
            cells += [f"{100 * row.certified.mean():.2f} %" if row.bound is not None else ""]
            cells += [f"{100 * row.integral.mean():.2f} %" if row.integral is not None else ""]
            unproved = ~row.certified
            meets = row.bound is None or not unproved.any()
            cells += ["" if meets else f"{(row.bound - row.score)[unproved].mean():.4f}"]
            cells += ["" if row.iterations is None else f"{row.iterations.mean():.1f}"]
        cells += [f"{speed(family[name], batches, len(gold), t, asked.repeats):,.0f}" for t in asked.threads]
        print("| " + " | ".join(cells) + " |", flush=True)
    if asked.csv is not None:
        write(asked.csv, lengths, rows)


def write(path: Path, lengths: NDArray[np.int32], rows: dict[str, Found]) -> None:
    """One line for each sentence and decoder."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["decoder", "sentence", "words", "score", "bound", "certified", "iterations"])
        for name, row in rows.items():
            for i, words in enumerate(lengths):
                bound = "" if row.bound is None else row.bound[i]
                iterations = "" if row.iterations is None else row.iterations[i]
                table.writerow([name, i, words, row.score[i], bound, int(row.certified[i]), iterations])


if __name__ == "__main__":
    main()
