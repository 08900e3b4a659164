"""What do shards and workers cost, and how far does the driver of `arbora parse-corpus` scale?

Parses files with `arbora predict`, and with `arbora parse-corpus` by one and two workers, local and on Ray, in turns.
Prints words per second of the clock from start to end and while workers parse, and per CPU second of a worker, which
tells more on a machine that others use. With `--empty N`, runs N shards without a word instead, and prints the seconds
and bytes that each costs and the most memory that the driver took. For example:

    python benchmarks/corpora.py runs/demo/best.ckpt examples/treebank/train.conllu
    python benchmarks/corpora.py runs/demo/best.ckpt --empty 100000
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
from pathlib import Path

SETUPS = {
    "predict": [],
    "local, 1 worker": ["--workers", "1"],
    "local, 2 workers": ["--workers", "2"],
    "Ray, 1 worker": ["--workers", "1", "--engine", "ray"],
    "Ray, 2 workers": ["--workers", "2", "--engine", "ray"],
}


def arbora(*arguments: str) -> float:
    """Run a command, and return its seconds."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "arbora.cli", *arguments], check=True)
    return time.perf_counter() - started


def measure(model: str, files: list[str], options: list[str], shard_size: str) -> dict[str, float]:
    """Words per second of one set-up, by the clock, while workers parse, and per CPU second; and other seconds."""
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/out"
        if not options:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds = arbora("predict", model, *files, "-o", out, "--quiet")
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            lines = Path(out).read_text(encoding="utf-8").splitlines()
            words = sum(line.partition("\t")[0].isdigit() for line in lines)
            return {"words/s": words / seconds, "words/CPU s": words / (after.ru_utime - before.ru_utime)}
        seconds = arbora("parse-corpus", model, *files, "-o", out, "--quiet", "--shard-size", shard_size, *options)
        records = [json.loads(line) for line in Path(out, "manifest.jsonl").read_text(encoding="utf-8").splitlines()]
        status = json.loads(Path(out, "status.json").read_text(encoding="utf-8"))
        words = sum(record["words"] for record in records)
        rates = [worker["words_per_second"] or 0 for worker in status["workers"]]
        waited = [
            worker["seconds"] - sum(r["seconds"] for r in records if r["worker"] == worker["worker"])
            for worker in status["workers"]
        ]
        return {
            "words/s": words / seconds,
            "words/s parsing": sum(rates),
            "words/CPU s": words / sum(record["cpu_seconds"] for record in records),
            "start and end, s": seconds - max(worker["seconds"] for worker in status["workers"]),
            "per shard, ms": 1000 * sum(waited) / len(records),
        }


def empty(model: str, shards: int, workers: int) -> None:
    """Run shards without a word."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "empty.txt").write_bytes(b"\n" * shards)
        run = ["parse-corpus", model, f"{folder}/empty.txt", "-o", f"{folder}/out", "--input", "text", "--quiet"]
        run += ["--shard-size", "1", "--workers", str(workers)]
        first = arbora(*run)
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        again = arbora(*run)
        sizes = {name: Path(folder, "out", name).stat().st_size for name in ("plan.json", "manifest.jsonl")}
    print(f"{shards:,} shards: {first:.1f} s, {1000 * first / shards:.2f} ms each; again, all committed: {again:.1f} s")
    print(f"driver: {memory / 1024:.0f} MB at most; " + ", ".join(f"{name} {size:,} B" for name, size in sizes.items()))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--empty", type=int, default=0, help="run this many shards without a word")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shard-size", default="200kB")
    options = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    if options.empty:
        empty(options.model, options.empty, os.cpu_count() or 1)
        return
    found: dict[str, list[dict[str, float]]] = {name: [] for name in SETUPS}
    for _ in range(options.rounds):
        for name, arguments in SETUPS.items():
            found[name].append(measure(options.model, options.files, arguments, options.shard_size))
    for name, rounds in found.items():
        medians = {what: statistics.median(each[what] for each in rounds) for what in rounds[0]}
        print(f"{name:18}" + ", ".join(f"{value:,.1f} {what}" for what, value in medians.items()), flush=True)


if __name__ == "__main__":
    main()
