"""How fast does a trained parser parse a file, and where does the time go?

Runs the stages of `arbora predict` one after the other on one file, warmed up, several times, and prints words a second
and the share of each stage: reading, batching, scoring (encoder, arcs, labels), parts (pruning, and scoring parts of
higher order), decoding, writing. For example:

    python benchmarks/parsing.py runs/demo/best.ckpt examples/treebank/test.conllu --threads 1
"""

from __future__ import annotations

import argparse
import io
import os
import platform
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from arbora.data.batch import collate, cut, encode
from arbora.data.conll import read_conll
from arbora.decoders.threads import set_num_threads
from arbora.model import Parser, load


class Stopwatch:
    """Seconds spent in each stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[stage] += time.perf_counter() - started


@torch.no_grad()
def run(parser: Parser, path: str, max_tokens: int) -> tuple[dict[str, float], int]:
    """Seconds of each stage, and the number of words."""
    watch = Stopwatch()
    output = io.StringIO()
    with watch("reading"):
        sentences = list(read_conll(path, trees=False))
    with watch("batching"):
        encoded = [encode(sentence, parser.vocabulary) for sentence in sentences]
        batches = cut([len(sentence) for sentence in sentences], max_tokens)
    for positions in batches:
        with watch("batching"):
            batch = collate(encoded, positions, parser.vocabulary)
        with watch("scoring"):
            vectors, arc = parser(batch)
        with watch("parts"):
            parts = parser.candidates(vectors, arc, batch)
        with watch("decoding"):
            trees = parser.decoder(parts)
        with watch("scoring"):
            labels = parser.best_labels(vectors, torch.from_numpy(trees.heads).long()).tolist()
        with watch("writing"):
            for b, i in enumerate(positions):
                n = len(sentences[i])
                names = [parser.vocabulary.labels[label] for label in labels[b][1 : n + 1]]
                output.write(sentences[i].with_tree(trees.heads[b, 1 : n + 1].tolist(), names))
    return dict(watch.seconds), sum(len(sentence) for sentence in sentences)


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model", help="checkpoint")
    options.add_argument("file", help="CoNLL-U file to parse")
    options.add_argument("--threads", type=int, default=1, help="threads of torch and of decoders (default: 1)")
    options.add_argument("--max-tokens", type=int, default=4000, help="size of a batch (default: 4000)")
    options.add_argument("--repeats", type=int, default=5, help="timed runs (default: 5)")
    asked = options.parse_args()
    torch.set_num_threads(asked.threads)
    set_num_threads(asked.threads)
    parser = load(asked.model)
    run(parser, asked.file, asked.max_tokens)
    runs = [run(parser, asked.file, asked.max_tokens) for _ in range(asked.repeats)]
    words = runs[0][1]
    speeds = [words / sum(seconds.values()) for seconds, _ in runs]
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, torch {torch.__version__}")
    print(f"{words:,} words, {asked.threads} thread(s): {statistics.median(speeds):,.0f} words/s", end=" ")
    print(f"({min(speeds):,.0f} to {max(speeds):,.0f})")
    for stage in ("reading", "batching", "scoring", "parts", "decoding", "writing"):
        share = statistics.median(seconds[stage] / sum(seconds.values()) for seconds, _ in runs)
        print(f"  {stage:10}{100 * share:6.1f} %{words / statistics.median(s[stage] for s, _ in runs):14,.0f} words/s")


if __name__ == "__main__":
    main()
