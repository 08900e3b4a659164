"""How accurate is a configuration after 100, 500, 1,000 and 5,000 sentences?

    python benchmarks/learning_curve.py ../treebanks/English-EWT --config small --run runs/curve

Trains on random sentences of the training part, those of a smaller sample being among those of a larger one. Every
parser sees about as many words (`--words`), but no sentence more than `--most-epochs` times. Prints UAS and LAS on the
development and test parts. Options that are not listed go to `arbora train`.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

from accuracy import arbora, revision


def main() -> None:
    """Train a parser for each size and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("treebank", type=Path, help="folder with train.conllu, dev.conllu and test.conllu")
    parser.add_argument("--sentences", type=int, nargs="+", default=[100, 500, 1000, 5000])
    parser.add_argument("--words", type=int, default=1_500_000, help="words that a parser reads in training, repeated")
    parser.add_argument("--most-epochs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1, help="of the sample and of training")
    parser.add_argument("--config", default="small")
    parser.add_argument("--run", type=Path, required=True, help="new folder for parsers and figures")
    options, more = parser.parse_known_args()
    options.run.mkdir(parents=True)
    train, dev, test = (options.treebank / f"{part}.conllu" for part in ("train", "dev", "test"))
    blocks = train.read_text(encoding="utf-8").strip().split("\n\n")
    random.Random(options.seed).shuffle(blocks)

    print(f"| sentences, revision {revision()} | words | epochs | dev UAS / LAS | test UAS / LAS |")
    print("|---|---|---|---|---|")
    for size in options.sentences:
        sample, run = options.run / f"{size}.conllu", options.run / str(size)
        sample.write_text("\n\n".join(blocks[:size]) + "\n\n", encoding="utf-8")
        words = sum(line.split("\t", 1)[0].isdigit() for block in blocks[:size] for line in block.split("\n"))
        epochs = max(1, min(options.most_epochs, round(options.words / words)))
        seeds = ("--seed_everything", options.seed, "--trainer.max_epochs", epochs)
        files = ("--data.train", sample, "--data.dev", dev, "--run", run)
        arbora("train", "--config", options.config, *files, *map(str, seeds), *more)
        cells = []
        for gold in (dev, test):
            parsed = run / gold.name
            arbora("predict", run / "best.ckpt", gold, "--tags", "replace", "-o", parsed)
            figures = json.loads(arbora("evaluate", gold, parsed, "--json")[0])
            cells.append(f"{figures['uas']:.2f} / {figures['las']:.2f}")
        print(f"| {min(size, len(blocks)):,} | {words:,} | {epochs} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
