"""`arbora jackknife`: a treebank with predicted tags, each sentence tagged by a parser that has not seen it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from arbora.cli.options import CommandParser

DESCRIPTION = """\
Write a training and a development part with predicted tags, features and lemmas, and with their gold trees. If the
input of a parser will have predicted tags, it should be trained on predicted tags, too. For example, with the taggers
of `small`:

  arbora jackknife --config small --data.train train.conllu --data.dev dev.conllu --run runs/tags
  arbora train --model linear --data.train runs/tags/train.conllu --data.dev runs/tags/dev.conllu --run runs/linear
  arbora predict runs/tags/whole/best.ckpt new.conllu -o tagged.conllu --tags replace
  arbora predict runs/linear/best.ckpt tagged.conllu -o parsed.conllu

The training part is divided into folds of consecutive sentences. Each fold is tagged by a parser that is trained on the
other folds. The development part, and later any text, is tagged by a parser that is trained on all folds (`whole`).
Other options are passed on to `arbora train`. Run the same command again to resume an interrupted run.
"""


def main(arguments: Sequence[str]) -> None:
    """Run `arbora jackknife` with these arguments."""
    parser = CommandParser("jackknife", DESCRIPTION)
    parser.add_argument("--data.train", dest="train", required=True, help="file to train on, with gold trees")
    parser.add_argument("--data.dev", dest="dev", required=True, help="development part, with gold trees")
    parser.add_argument("--run", type=Path, required=True, help="folder for the parsers and the two files")
    parser.add_argument("--folds", type=int, default=4, help="number of folds of the training part (default: 4)")
    options, others = parser.parse_known_args(arguments)
    sentences = re.split(r"\n\s*\n", Path(options.train).read_text(encoding="utf-8").strip("\n"))
    if not 2 <= options.folds <= len(sentences):
        raise ValueError(f"--folds must lie in 2..{len(sentences)}, the sentences of {options.train}")
    bounds = [len(sentences) * fold // options.folds for fold in range(options.folds + 1)]
    tagged = ""
    for fold, (start, end) in enumerate(pairwise(bounds), 1):
        run = options.run / f"fold{fold}"
        run.mkdir(parents=True, exist_ok=True)
        parts = {"others": sentences[:start] + sentences[end:], "held_out": sentences[start:end]}
        for name, part in parts.items():
            (run / f"{name}.conllu").write_text("\n\n".join(part) + "\n\n", encoding="utf-8")
        train_and_tag(run, str(run / "others.conllu"), options.dev, str(run / "held_out.conllu"), others)
        tagged += (run / "tagged.conllu").read_text(encoding="utf-8")
    (options.run / "train.conllu").write_text(tagged, encoding="utf-8")
    train_and_tag(options.run / "whole", options.train, options.dev, options.dev, others)
    (options.run / "dev.conllu").write_bytes((options.run / "whole" / "tagged.conllu").read_bytes())


def train_and_tag(run: Path, train: str, dev: str, file: str, others: Sequence[str]) -> None:
    """Train a parser and write the tags that it predicts for a file to `tagged.conllu`, unless that is done already."""
    tagged, partial = run / "tagged.conllu", run / ".tagged.tmp"
    if tagged.exists():
        return
    if (run / "last.ckpt").exists():
        arbora("train", "--config", f"{run}/config.yaml", "--ckpt_path", "last")
    else:
        arbora("train", *others, "--data.train", train, "--data.dev", dev, "--run", str(run))
    arbora("predict", f"{run}/best.ckpt", file, "-o", str(partial), "--keep", "heads", "--tags", "replace")
    partial.replace(tagged)


def arbora(*arguments: str) -> None:
    """Run a command in a process of its own, which leaves no memory behind."""
    code = subprocess.run([sys.executable, "-m", "arbora.cli", *arguments], check=False).returncode
    if code != 0:
        raise ValueError(f"arbora {arguments[0]} ended with code {code}; the same command resumes")
