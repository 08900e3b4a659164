"""What a kind of parts brings to a linear model, and what it costs AD3.

Linear models that differ only by their kinds of parts learn from the first sentences of a treebank, and parse the first
sentences of its development part: accuracy, share of certified trees, iterations of AD3, and CPU time of learning and
decoding. For example:

    python benchmarks/linear_kinds.py UD_Turkish-IMST --train 400 --dev 400 --epochs 5
"""

from __future__ import annotations

import argparse
import time
from itertools import islice
from pathlib import Path

import numpy as np

from arbora.cli.train_linear import evaluate
from arbora.data.batch import collate, index_sentences
from arbora.data.conll import read_conll
from arbora.data.vocabulary import Vocabulary
from arbora.decoders import AD3
from arbora.model.linear.backend import Linear, LinearModel
from arbora.model.linear.mira import Learning, Mira
from arbora.model.linear.pruners import train_pruner

KINDS = ("grandparent,sibling", "grandparent,sibling,any_sibling")
LIMITS = (50, 1000)
"""Iterations of AD3, at most; models learn with the first."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("treebank", type=Path, help="folder with train.conllu and dev.conllu")
    parser.add_argument("--train", type=int, default=400, help="sentences to learn from (default: 400)")
    parser.add_argument("--dev", type=int, default=400, help="sentences to parse (default: 400)")
    parser.add_argument("--epochs", type=int, default=5, help="of MIRA (default: 5)")
    parser.add_argument("--seed", type=int, default=1, help="of learning (default: 1)")
    parser.add_argument(
        "--kinds", nargs="+", default=KINDS, help=f"of parts of each model (default: {' '.join(KINDS)})"
    )
    options = parser.parse_args()
    parts = {"train": options.train, "dev": options.dev}
    train, dev = (list(islice(read_conll(options.treebank / f"{name}.conllu"), n)) for name, n in parts.items())
    vocabulary = Vocabulary.of(train)
    learnt, parsed = (index_sentences(sentences, vocabulary) for sentences in (train, dev))
    settings = Learning(epochs=options.epochs, pruner_epochs=2, folds=2, seed=options.seed)
    for kinds in options.kinds:
        model = LinearModel(vocabulary, Linear(kinds=tuple(kinds.split(","))), AD3(max_iterations=LIMITS[0]))
        model.pruner = train_pruner(model, learnt, settings)
        mira = Mira(model, learnt, model.decoder, settings)
        mira.learn(0)  # compiles
        started = time.process_time()
        for epoch in range(settings.epochs):
            mira.train_epoch(epoch)
        seconds = (time.process_time() - started) / settings.epochs
        averaged = mira.averaged()
        figures = evaluate(averaged, dev)
        print(f"{kinds}: UAS {figures['uas']:.2f}, LAS {figures['las']:.2f}; {seconds:.1f} CPU seconds per epoch")
        for limit in LIMITS:
            decoder, iterations, certified, spent = AD3(max_iterations=limit), [], 0, 0.0
            for sentence in parsed:
                scored = averaged.score(collate([sentence], vocabulary)).parts(decoder)
                started = time.process_time()
                trees = decoder(scored)
                spent += time.process_time() - started
                iterations.append(int(trees.counters["iterations"][0]))
                certified += int(trees.certified[0])  # type: ignore[index]
            mean, share = np.mean(iterations), 100 * certified / len(dev)
            print(f"  {limit:5,} iterations: {mean:.1f} on average, {share:.1f} % certified, {spent:.2f} CPU seconds")


if __name__ == "__main__":
    main()
