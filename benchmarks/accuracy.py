"""How accurate is a configuration on a treebank, and how long does it train and parse?

Trains on DIR/train.conllu, chooses the checkpoint by DIR/dev.conllu, parses DIR/test.conllu from its words and tags,
and prints one row of a table. For example:

    python benchmarks/accuracy.py ../treebanks/Greek-GDT --config configs/small_tagged.yaml --run runs/greek

Options that are not listed here go to `arbora train`, as in `--seed_everything 2 --data.seed 2`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from arbora.data.conll import read_conll


def arbora(*arguments: str | Path) -> tuple[str, float]:
    """Run a command; what it printed, and its seconds."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "arbora.cli", *map(str, arguments)]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return printed, time.perf_counter() - started


def revision() -> str:
    """The commit of this checkout, marked where there are changes."""
    command = ["git", "describe", "--always", "--dirty"]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent)
    return found.stdout.strip() or "unknown"


def main() -> None:
    """Train, parse, evaluate, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("treebank", type=Path, help="folder with train.conllu, dev.conllu and test.conllu")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--run", type=Path, required=True, help="new folder for checkpoints and figures")
    options, more = parser.parse_known_args()
    train, dev, test = (options.treebank / f"{part}.conllu" for part in ("train", "dev", "test"))
    files = ("--data.train", train, "--data.dev", dev, "--data.test", test)

    _, training = arbora("train", "--config", options.config, *files, "--run", options.run, *more)
    parsed = options.run / "test.conllu"
    _, parsing = arbora("predict", options.run / "best.ckpt", test, "-o", parsed)
    figures = json.loads(arbora("evaluate", test, parsed, "--json")[0])
    words = sum(len(sentence) for sentence in read_conll(test))
    summary = {
        "treebank": options.treebank.name,
        "config": options.config.name,
        "more": more,
        "revision": revision(),
        "training_seconds": round(training),
        "parsing_seconds": round(parsing, 1),
        "words": words,
        "figures": figures,
    }
    (options.run / "figures.json").write_text(json.dumps(summary, indent=1), encoding="utf-8")
    print("| treebank | configuration | UAS | LAS | LAS, full labels | CLAS | training | revision |")
    print("|---|---|---|---|---|---|---|---|")
    scores = " | ".join(f"{figures[name]:.2f}" for name in ("uas", "las", "las_full", "clas"))
    what = " ".join([options.config.name, *more])
    print(f"| {options.treebank.name} | {what} | {scores} | {training / 60:.0f} min | {summary['revision']} |")


if __name__ == "__main__":
    main()
