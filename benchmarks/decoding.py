"""How do decoders compare on exactly the same scores of a trained parser?

Scores a part of a treebank once, runs a family of decoders on it, and prints one row for each:

- UAS and undirected UAS; `best`: share of sentences whose tree scores as much as the best tree that any row found;
  `gap`: mean distance to that best score; `certified`: share proved to be the best.
- `SARC`: arcs shared with the reference, the first row; `gold`: words (%) that this row has right and the reference has
  wrong / the other way round.
- words a second of decoding alone, on one thread and on two, medians of repeated runs after a first.

For example:

    python benchmarks/decoding.py runs/second/best.ckpt ../treebanks/Greek-GDT/test.conllu --family greedy
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from dataclasses import replace

import numpy as np

from arbora.data.conll import read_conll
from arbora.decoders import Decoder, HillClimbing, Parts
from arbora.decoders.ad3 import AD3
from arbora.decoders.branch_and_bound import BranchAndBound
from arbora.decoders.greedy import Greedy
from arbora.decoders.mst import MST
from arbora.decoders.parts import KINDS
from arbora.decoders.subgradient import Subgradient
from arbora.decoders.threads import set_num_threads
from arbora.model import load
from arbora.model.parsing import score

FAMILIES: dict[str, dict[str, Decoder]] = {
    "greedy": {
        "branch and bound": BranchAndBound(),
        "MST": MST(),
        "BGI": Greedy(partial=False, beam=1, improvements=0),
        "BGI-PP": Greedy(beam=1, improvements=0),
        "BGI-PP, absent arcs unseen": Greedy(beam=1, improvements=0, absent=False),
        "BGI-PP + i": Greedy(beam=1),
        "BGI-PP + i + b": Greedy(),
        "hill-climbing, patience 300": HillClimbing(patience=300),
    },
    "hill_climbing": {
        "branch and bound": BranchAndBound(),
        "from the best tree alone": HillClimbing(start="best"),
        **{
            f"{start}, patience {p}": HillClimbing(patience=p, start=start)
            for start in ("uniform", "first_order")
            for p in (10, 30, 100, 300)
        },
    },
    "ad3": {
        "branch and bound": BranchAndBound(),
        "AD3": AD3(),
        "AD3, 50 iterations": AD3(max_iterations=50),
        "subgradient": Subgradient(),
        "hill-climbing, patience 300": HillClimbing(patience=300),
    },
}


def decode(decoder: Decoder, batches: list[Parts]) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Heads of each batch, and scores and certificates of all sentences."""
    found = [decoder(parts) for parts in batches]
    return (
        [t.heads for t in found],
        np.concatenate([t.score for t in found]),
        np.concatenate([t.certified for t in found]),
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


def main() -> None:
    """Score, decode, print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model", help="checkpoint")
    options.add_argument("file", help="CoNLL-U file with gold trees")
    options.add_argument("--family", choices=FAMILIES, default="greedy")
    options.add_argument("--first-order", action="store_true", help="arcs alone")
    options.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    options.add_argument("--repeats", type=int, default=3)
    asked = options.parse_args()
    scored = list(score(load(asked.model), read_conll(asked.file)))
    batches = [entry.parts for entry in scored]
    if asked.first_order:
        batches = [replace(parts, **dict.fromkeys(KINDS)) for parts in batches]
    gold = [np.concatenate([sentence.head for sentence in entry.sentences]) for entry in scored]
    words = sum(map(len, gold))

    def flat(heads: list[np.ndarray]) -> np.ndarray:
        return np.concatenate([tree[1:][tree[1:] >= 0] for batch in heads for tree in batch])

    gold_heads = np.concatenate(gold)
    rows, best = {}, np.full(sum(len(parts.lengths) for parts in batches), -np.inf)
    for name, decoder in FAMILIES[asked.family].items():
        heads, scores, certified = decode(decoder, batches)
        rows[name] = (flat(heads), scores, certified)
        best = np.maximum(best, scores)
    reference = next(iter(rows.values()))[0]
    position = np.concatenate([np.arange(1, n + 1) for parts in batches for n in parts.lengths])
    first = np.concatenate([np.full(n, i) for i, n in enumerate(n for parts in batches for n in parts.lengths)])
    start = np.concatenate([[0], np.cumsum([n for parts in batches for n in parts.lengths])[:-1]])[first]
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {len(best):,} sentences, {words:,} words; ", end="")
    print(
        f"{sum(len(parts.head) for parts in batches) / words:.1f} arcs a word; {', '.join(batches[0].kinds) or 'arcs'}"
    )
    speeds = " | ".join(f"words/s, {threads} thread{'s' * (threads > 1)}" for threads in asked.threads)
    print(f"| decoder | UAS | undirected | best | gap | certified | SARC | gold | {speeds} |")
    print("|---|---|---|---|---|---|---|---|" + "---|" * len(asked.threads))
    for name, (heads, scores, certified) in rows.items():
        right = heads == gold_heads
        # An arc is right without its direction too where the gold head of its head is the word itself.
        turned = (heads > 0) & (gold_heads[np.maximum(start + heads - 1, 0)] == position)
        shared = reference == heads
        near = best - scores <= 1e-6 * (1 + np.abs(best))
        figures = [100 * right.mean(), 100 * (right | turned).mean(), 100 * near.mean()]
        only = (100 * (right & (reference != gold_heads)).mean(), 100 * (~right & (reference == gold_heads)).mean())
        decoder = FAMILIES[asked.family][name]
        rates = [f"{speed(decoder, batches, words, t, asked.repeats):,.0f}" for t in asked.threads]
        print(
            f"| {name} | {figures[0]:.2f} | {figures[1]:.2f} | {figures[2]:.1f} % | {(best - scores).mean():.4f} |"
            f" {100 * certified.mean():.1f} % | {100 * shared.mean():.2f} | {only[0]:.2f} / {only[1]:.2f} |"
            f" {' | '.join(rates)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
