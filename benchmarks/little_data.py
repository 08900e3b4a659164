"""How much does another domain help where there are only 500 annotated sentences?

Takes a treebank whose `sent_id` begins with the domain, as in English-EWT (`answers-2011...`), and compares four
parsers on one domain: trained on 500 of its sentences; on the other domains; on the 500 sentences, starting from the
parser of the other domains; and on both, with an embedding of the domain. For example:

    python benchmarks/little_data.py ../treebanks/English-EWT --domain answers --run runs/little

Prints UAS and LAS on the domain's development and test sentences. Options that are not listed go to `arbora train`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from accuracy import arbora, revision

SENTENCES = 500


def select(source: Path, target: Path, chosen: Callable[[str], bool], most: int | None = None) -> Path:
    """Copy the sentences whose `sent_id` is chosen, the first `most` of them."""
    found = []
    for block in source.read_text(encoding="utf-8").strip().split("\n\n"):
        name = block.partition("# sent_id = ")[2].split("\n", 1)[0]
        if chosen(name):
            found.append(block)
    target.write_text("\n\n".join(found[:most]) + "\n\n", encoding="utf-8")
    return target


def main() -> None:
    """Train four parsers and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("treebank", type=Path, help="folder with train.conllu, dev.conllu and test.conllu")
    parser.add_argument("--domain", default="answers", help="beginning of `sent_id`, up to the first hyphen")
    parser.add_argument("--epochs", type=int, default=30, help="over the small sample")
    parser.add_argument("--other-epochs", type=int, default=6, help="over the other domains")
    parser.add_argument("--config", default="small")
    parser.add_argument("--run", type=Path, required=True, help="new folder for parsers and figures")
    options, more = parser.parse_known_args()
    options.run.mkdir(parents=True)

    def is_ours(name: str) -> bool:
        return name.startswith(f"{options.domain}-")

    parts = {name: options.treebank / f"{name}.conllu" for name in ("train", "dev", "test")}
    sample = select(parts["train"], options.run / f"{options.domain}.conllu", is_ours, SENTENCES)
    others = select(parts["train"], options.run / "others.conllu", lambda name: not is_ours(name))
    dev, test = (select(parts[name], options.run / f"{name}.conllu", is_ours) for name in ("dev", "test"))

    def train(name: str, epochs: int, *arguments: str | Path) -> None:
        files = ("--data.dev", dev, "--run", options.run / name, "--trainer.max_epochs", str(epochs))
        arbora("train", *arguments, *files, *more)

    def report(title: str, name: str) -> None:
        row = [title]
        for part, gold in (("dev", dev), ("test", test)):
            parsed = options.run / name / f"{part}.conllu"
            arbora("predict", options.run / name / "best.ckpt", gold, "--tags", "replace", "-o", parsed)
            figures = json.loads(arbora("evaluate", gold, parsed, "--json")[0])
            row.append(f"{figures['uas']:.2f} / {figures['las']:.2f}")
        print(f"| {' | '.join(row)} |", flush=True)

    print(f"| {options.domain}, {SENTENCES} sentences, revision {revision()} | dev UAS / LAS | test UAS / LAS |")
    print("|---|---|---|")
    config = ("--config", options.config)
    train("sample", options.epochs, *config, "--data.train", sample)
    report("the sample only", "sample")
    train("others", options.other_epochs, *config, "--data.train", others)
    report("the other domains only", "others")
    start = options.run / "others" / "best.ckpt"
    train("further", options.epochs // 3, "--from", start, "--data.train", sample, "--model.optimization.lr", "1e-3")
    report("the sample, from the parser of the others", "further")
    train("both", options.other_epochs, *config, "--data.train", sample, others)
    report("both, with an embedding of the domain", "both")


if __name__ == "__main__":
    main()
