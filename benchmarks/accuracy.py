"""How accurate is a configuration on a treebank, and how long does it train and parse?

Trains on DIR/train.conllu, chooses the checkpoint by DIR/dev.conllu, parses DIR/test.conllu, and prints rows of
tables. A parser with taggers replaces all tags; one with a tokenizer also parses the raw text. For example:

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
from arbora.data.text import text_of
from arbora.model.loading import load


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
    checkpoint, parsed = options.run / "best.ckpt", options.run / "test.conllu"
    parser = load(checkpoint)
    tags = ("--tags", "replace") if parser.predicts else ()
    _, parsing = arbora("predict", checkpoint, test, "-o", parsed, *tags)
    figures = json.loads(arbora("evaluate", test, parsed, "--json")[0])
    if parser.has_tokenizer:
        text, of_text = options.run / "test.txt", options.run / "raw.conllu"
        text.write_text(text_of(read_conll(test)), encoding="utf-8")
        arbora("predict", checkpoint, text, "--input", "raw", "-o", of_text)
        figures["raw"] = json.loads(arbora("evaluate", test, of_text, "--json")[0])["aligned"]
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
    for title, found in (("gold words", figures.get("aligned")), ("raw text", figures.get("raw"))):
        if found is not None:
            print(f"\n| {title} | {' | '.join(found)} |\n|---{'|---' * len(found)}|")
            cells = " | ".join(f"{score['f1']:.2f}" for score in found.values())
            print(f"| {options.treebank.name} | {cells} |")


if __name__ == "__main__":
    main()
