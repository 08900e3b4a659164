"""How fast does a trained parser parse a file, where does the time go, and what does overlap bring?

Parses a file of a given number of words, made by repeating the sentences of another, in two ways, each in a process of
its own: as `arbora predict` does, reading, scoring, decoding and writing side by side; and one thing after the other,
window by window, with the processor's seconds of each stage: reading, batching, scoring (encoder, arcs, pruning, and
parts of higher order), decoding, labelling and tagging, writing. Prints words per second, by the clock and by the
processor, which tells more on a machine that others use, and the most memory that the process took. A third way parses
the sentences of 20 words one by one and prints the milliseconds of the median and of the 99th percentile. With `--raw`,
the file is running text, and reading includes splitting it into words. For example:

    python benchmarks/parsing.py runs/demo/best.ckpt examples/treebank/test.conllu --words 1000000 --threads 1
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path

import numpy as np

import arbora
from arbora.data.batch import batch_of, cut
from arbora.data.conll import Sentence, open_output, read_conll, valid
from arbora.data.text import text_of
from arbora.model import load
from arbora.model.inference.batch_parser import BatchParser, ParsingSettings
from arbora.model.inference.results import ParsedSentence, parsed_sentences
from arbora.model.inference.stream import WINDOW, parse_windows
from arbora.model.parser import Parser

LATENCY_WORDS = 20
STAGES = ("reading", "batching", "scoring", "decoding", "labelling", "writing")


class Stopwatch:
    """The processor's seconds of this thread, in each stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        started = time.thread_time()
        yield
        self.seconds[stage] += time.thread_time() - started


Source = Iterator[Sentence]


def one_after_the_other(parser: BatchParser, left: Source, target: str) -> tuple[int, dict[str, float]]:
    """Number of words, and seconds of each stage."""
    watch = Stopwatch()
    words = 0
    vocabulary, max_tokens = parser.backend.vocabulary, parser.settings.max_tokens
    with open_output(target) as output:
        while True:
            with watch("reading"):
                window, size = [], 0
                while size < WINDOW * max_tokens and (found := list(islice(left, 1))):
                    window += found
                    size += len(found[0])
            if not window:
                return words, dict(watch.seconds)
            words += size
            texts = [""] * len(window)
            for positions in cut([len(sentence) for sentence in window], max_tokens):
                chosen = [window[i] for i in positions]
                with watch("batching"):
                    batch = batch_of(chosen, vocabulary)
                with watch("scoring"):
                    candidates = parser.score(batch)
                with watch("decoding"):
                    best = parser.decode(candidates)
                with watch("labelling"):
                    labelled = parser.label(best)
                with watch("writing"):
                    for i, parsed in zip(positions, parsed_sentences(chosen, labelled, vocabulary)):
                        texts[i] = parsed.text
            with watch("writing"):
                output.writelines(texts)


def side_by_side(parser: BatchParser, sentences: Source, target: str) -> tuple[int, dict[str, float]]:
    """Number of words; stages have no seconds of their own."""
    words = 0
    with open_output(target) as output:
        for window in parse_windows(parser, sentences):
            output.writelines(entry.text for entry in window)
            words += sum(len(entry.sentence) for entry in window if isinstance(entry, ParsedSentence))
    return words, {}


def one_by_one(parser: Parser, path: str) -> None:
    """Print how long single sentences take, once everything is loaded and compiled."""
    sentences = [sentence.form for sentence in read_conll(path, trees=False) if len(sentence) == LATENCY_WORDS]
    seconds = []
    for turn in range(4):
        for words in sentences[:200]:
            started = time.perf_counter(), time.process_time()
            parser.parse(words)
            if turn:
                seconds.append((time.perf_counter() - started[0], time.process_time() - started[1]))
    for what, taken in zip(("clock", "processor"), 1000 * np.array(seconds).reshape(-1, 2).T):
        median, most = np.percentile(taken, [50, 99]) if len(taken) else (np.nan, np.nan)
        print(
            f"one by one, {LATENCY_WORDS} words, by the {what}: median {median:.2f} ms, 99th percentile {most:.2f} ms"
        )


WAYS: dict[str, Callable[[BatchParser, Source, str], tuple[int, dict[str, float]]]] = {
    "side by side": side_by_side,
    "one after the other": one_after_the_other,
}


def measure(asked: argparse.Namespace) -> None:
    """Run one way in this process, and print what came out as JSON."""
    arbora.threads(asked.threads)
    loaded = load(asked.model, asked.runtime, threads=asked.threads)
    loaded.settings = ParsingSettings(asked.max_tokens)
    if asked.way == "one by one":
        one_by_one(loaded, asked.original)
        return
    parser = loaded.batch_parser()
    run = WAYS[asked.way]

    def sentences(path: str) -> Source:
        return valid(loaded.tokenizer.read(path, numbers=count(1)) if asked.raw else read_conll(path, trees=False))

    with tempfile.TemporaryDirectory() as folder:
        small, target = str(Path(folder, "small")), str(Path(folder, "out"))
        write_repeated(asked.original, small, 2000, asked.raw)
        run(parser, sentences(small), target)  # compiles
        started, before = time.perf_counter(), time.process_time()
        words, stages = run(parser, sentences(asked.file), target)
        seconds, cpu = time.perf_counter() - started, time.process_time() - before
        digest = hash(Path(target).read_bytes())
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 1024**2)
    figures = {"words": words, "seconds": seconds, "cpu": cpu, "memory": memory, "stages": stages, "output": digest}
    print(json.dumps(figures))


def write_repeated(source: str, target: str, words: int, raw: bool) -> None:
    """Write the sentences of a file, or their running text, repeatedly, until it has a given number of words."""
    written = 0
    with open_output(target) as output:
        while written < words:
            for sentence in read_conll(source, trees=False):
                tree = sentence.with_tree(sentence.head, sentence.deprel).replace("\t-1\t", "\t_\t")
                output.write(text_of([sentence]).rstrip("\n") + " " if raw else tree)
                written += len(sentence)
                if written >= words:
                    break


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model", help="checkpoint or exported folder")
    options.add_argument("original", help="CoNLL-U file whose sentences are repeated", metavar="file")
    options.add_argument("--words", type=int, default=100_000, help="words to parse (default: 100000)")
    options.add_argument("--threads", type=int, default=1, help="threads of torch and of decoders (default: 1)")
    options.add_argument("--max-tokens", type=int, default=2000, help="size of a batch (default: 2000)")
    options.add_argument("--repeats", type=int, default=3, help="runs of each way (default: 3)")
    options.add_argument("--way", choices=[*WAYS, "one by one"], help="only this one")
    options.add_argument("--runtime", choices=["torch", "onnx"], help="where the model has both")
    options.add_argument("--raw", action="store_true", help="parse running text, by the parser's own tokenizer")
    options.add_argument("--file", help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.file:
        measure(asked)
        return
    print(f"{platform.machine()}, {os.cpu_count()} cores, arbora {arbora.__version__}; {asked.threads} thread(s)")
    same = ["--threads", str(asked.threads), "--max-tokens", str(asked.max_tokens)]
    same += ["--runtime", asked.runtime] if asked.runtime else []
    same += ["--raw"] if asked.raw else []
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder, "repeated.conllu"))
        write_repeated(asked.original, file, asked.words, asked.raw)
        outputs = set()
        for way in [asked.way] if asked.way else [*WAYS, "one by one"]:
            command = [sys.executable, __file__, asked.model, asked.original, "--file", file, "--way", way, *same]
            if way == "one by one":
                subprocess.run(command, check=True)
                continue
            runs = []
            for _ in range(asked.repeats):
                environment = os.environ | {"PYTHONHASHSEED": "0"}
                run = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, env=environment)
                runs.append(json.loads(run.stdout))
            outputs |= {run["output"] for run in runs}
            show(way, runs)
    if outputs:
        print("all runs wrote the same" if len(outputs) == 1 else f"{len(outputs)} different outputs")


def show(way: str, runs: list[dict]) -> None:
    """Print the figures of one way."""
    words = runs[0]["words"]
    speeds = sorted(words / run["seconds"] for run in runs)
    cpu = statistics.median(run["cpu"] for run in runs)
    memory = max(run["memory"] for run in runs)
    print(
        f"{way}: {words:,} words, {statistics.median(speeds):,.0f} words/s ({speeds[0]:,.0f} to {speeds[-1]:,.0f})",
        end="",
    )
    print(f", {words / cpu:,.0f} words per CPU second, {memory:,.0f} MB, load {os.getloadavg()[0]:.1f}")
    for stage in STAGES:
        if stage in runs[0]["stages"]:
            share = statistics.median(run["stages"][stage] / sum(run["stages"].values()) for run in runs)
            seconds = statistics.median(run["stages"][stage] for run in runs)
            print(f"  {stage:10}{100 * share:6.1f} %{1e6 * seconds / words:10.2f} µs per word")


if __name__ == "__main__":
    main()
