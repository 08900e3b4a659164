"""What are given heads worth, several trees, unique labels, calibration, and half of the heads in training?

`parser` takes a trained parser and a part with gold trees, and prints

- UAS and CPU time where 0, 10, 25 and 50 % of the gold heads are given: random words, or those of which the parser is
  the least sure. UAS is that of the words whose head is not given; the parser predicts them.
- LAS with labels of which a head has one at most;
- then `arbora compare` with minimum risk and k best trees, and `arbora analyse doubt`.

`partial` trains small parsers of arcs on a folder with `train.conllu` and `dev.conllu`: on half of the sentences, and
on all sentences with half of their heads, for the same number of epochs; then on half of the heads with as many steps
as on half of the sentences, in batches of the same size, and in batches with as many annotated words.

    python benchmarks/known.py parser runs/mine/best.ckpt TREEBANK/dev.conllu
    python benchmarks/known.py partial examples/treebank --words 20 --sentences 400
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from statistics import mean, median

import numpy as np
from numpy.typing import NDArray

from arbora.cli import main as arbora
from arbora.data.batch import batch_of, cut
from arbora.data.conll import Sentence, read_conll
from arbora.decoders.kernels.threads import set_num_threads
from arbora.evaluation import Evaluation
from arbora.model import load
from arbora.model.inference.batch_parser import BatchParser, ParsingSettings
from arbora.model.inference.results import ParsedSentence
from arbora.model.inference.stream import parse_directly
from arbora.model.parser import Parser

Mask = NDArray[np.bool_]
QUIET = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}


def some_heads(sentences: Sequence[Sentence], given: Mask) -> list[Sentence]:
    """Sentences that know the heads and labels of some words only, counted over all sentences."""
    known, found = iter(given.tolist()), []
    for sentence in sentences:
        mask = [next(known) for _ in sentence.head]
        head = [h if k else -1 for h, k in zip(sentence.head, mask)]
        deprel = [label if k else "_" for label, k in zip(sentence.deprel, mask)]
        found.append(replace(sentence, head=head, deprel=deprel))
    return found


def parse(
    parser: Parser, sentences: Sequence[Sentence], repeats: int = 1, **settings: object
) -> tuple[list[ParsedSentence], float]:
    """Trees, and CPU milliseconds per sentence: the median of several runs."""
    batch_parser = BatchParser(parser.backend, parser.decoder, ParsingSettings(tags="keep", **settings))  # type: ignore[arg-type]
    seconds = []
    for _ in range(repeats):
        started = time.process_time()
        found = [entry for window in parse_directly(batch_parser, sentences) for entry in window]
        seconds.append(time.process_time() - started)
    failures = [entry for entry in found if not isinstance(entry, ParsedSentence)]
    assert not failures, failures[0]
    return found, 1000 * median(seconds) / len(sentences)  # type: ignore[return-value]


def heads_of(found: Sequence[Sentence] | Sequence[ParsedSentence]) -> NDArray[np.int64]:
    """Heads of all words."""
    return np.concatenate([np.array(one.head if isinstance(one, Sentence) else one.heads) for one in found])


def given_heads(parser: Parser, sentences: Sequence[Sentence], options: argparse.Namespace) -> Iterator[str]:
    """Rows of a table."""
    gold, bare = heads_of(sentences), [replace(s, head=[-1] * len(s), deprel=["_"] * len(s)) for s in sentences]
    parse(parser, bare[:20], keep_heads=True)  # compiles
    free, _ = parse(parser, bare, probabilities=True)
    sure = np.concatenate([one.arc_probability for one in free])  # type: ignore[misc]
    orders = {
        "random": np.random.default_rng(options.seed).permutation(len(gold)),
        "doubt": np.argsort(sure, kind="stable"),
    }
    yield "| given | words | UAS of the others | UAS | CPU ms per sentence |\n|---|---|---|---|---|"
    for share in (0.0, 0.1, 0.25, 0.5):
        for how, order in (
            orders.items() if share else (("not constrained", orders["random"]), ("none", orders["random"]))
        ):
            given = np.zeros(len(gold), np.bool_)
            given[order[: round(share * len(gold))]] = True
            found, ms = parse(
                parser, some_heads(sentences, given), options.repeats, keep_heads=how != "not constrained"
            )
            right = heads_of(found) == gold
            assert right[given].all()
            yield f"| {share:.0%} | {how} | {100 * right[~given].mean():.2f} | {100 * right.mean():.2f} | {ms:.2f} |"


def unique(parser: Parser, sentences: Sequence[Sentence], options: argparse.Namespace) -> Iterator[str]:
    """Rows of a table."""
    yield "| labels that are unique | LAS | CPU ms per sentence |\n|---|---|---|"
    for names in ((), ("nsubj", "obj")):
        found, ms = parse(parser, sentences, options.repeats, unique=names)
        evaluation = Evaluation()
        for gold, one in zip(sentences, found, strict=True):
            evaluation.add(gold, one.heads.tolist(), one.labels)
        yield f"| {', '.join(names) or 'none'} | {evaluation.figures()['las']:.3f} | {ms:.2f} |"


def of_parser(options: argparse.Namespace) -> None:
    """Print the figures of a trained parser."""
    set_num_threads(1)
    parser, sentences = load(options.model, threads=1), list(read_conll(options.file))
    name = type(parser.decoder).__name__.lower()
    print(f"{options.model} on {options.file}: {len(sentences):,} sentences, seed {options.seed}\n")
    for row in chain(given_heads(parser, sentences, options), [""], unique(parser, sentences, options)):
        print(row, flush=True)
    compare = ["compare", options.model, options.file, "--quiet", "--repeats", "1"]
    risk = f"{name},minimum_risk,minimum_risk(decoder={type(parser.decoder).__name__})"
    middle = ["--k-best", "10", "--words", "23-27"]
    for command in (
        ["analyse", "doubt", options.model, options.file, "--top", "0"],
        [*compare, "--first-order", "--decoders", "mst,projective", "--k-best", "50"],
        [*compare, "--decoders", f"{name},projective", "--k-best", "50", "--limit", str(options.limit)],
        [*compare, "--first-order", "--decoders", "mst,projective", *middle],
        [*compare, "--decoders", f"{name},projective,branch_and_bound", *middle],
        [*compare, "--decoders", risk, "--limit", str(options.limit)],
    ):
        print(f"\narbora {' '.join(command)}", flush=True)
        arbora(command)


def trained(
    train: Sequence[Sentence], dev: Sequence[Sentence], loss: str, epochs: int, tokens: int, seed: int
) -> tuple[float, int]:
    """UAS of a small parser, and its steps."""
    import pytorch_lightning as pl
    import torch

    from arbora.data.vocabulary import Vocabulary
    from arbora.model.encoders.embeddings import Embeddings
    from arbora.model.encoders.sru import SRU
    from arbora.model.scorers.biaffine import Biaffine
    from arbora.model.training import LightningParser, Optimization

    pl.seed_everything(seed, verbose=False)
    vocabulary = Vocabulary.of(train, min_frequency=1)
    encoder = SRU(Embeddings(words=30, characters=20, upos=10), size=40, layers=1)
    learnt = LightningParser(
        vocabulary,
        encoder,
        Biaffine(40, 20),
        loss=[loss],
        optimization=Optimization(lr=1e-2),  # type: ignore[list-item]
    )
    batches = [batch_of([train[i] for i in some], vocabulary) for some in cut(list(map(len, train)), tokens)]
    trainer = pl.Trainer(max_epochs=epochs, accelerator="cpu", **QUIET)  # type: ignore[arg-type]
    trainer.fit(learnt, torch.utils.data.DataLoader(batches, batch_size=None, shuffle=True))  # type: ignore[arg-type]
    found, _ = parse(Parser(learnt.eval(), learnt.decoder), dev)
    return 100 * float((heads_of(found) == heads_of(dev)).mean()), trainer.global_step


def of_training(options: argparse.Namespace) -> None:
    """Print what half of the heads are worth."""
    warnings.filterwarnings("ignore")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    set_num_threads(1)
    train, dev = (list(read_conll(options.folder / f"{part}.conllu")) for part in ("train", "dev"))
    train = [sentence for sentence in train if len(sentence) <= options.words][: options.sentences]
    dev = dev[: options.dev]
    tokens, epochs = 600, options.epochs
    rows = {
        f"half of the sentences, {epochs} epochs": (True, epochs, tokens),
        f"half of the heads, {epochs} epochs": (False, epochs, tokens),
        "half of the heads, as many steps": (False, epochs // 2, tokens),
        "half of the heads, as many steps and annotated words": (False, epochs, 2 * tokens),
    }
    print(f"{options.folder}: {len(train):,} sentences, {options.seeds} seeds\n")
    print(f"| annotated | steps | {' | '.join(options.losses)} |\n|---|---|" + "---|" * len(options.losses))
    for what, (by_sentence, rounds, size) in rows.items():
        cells = []
        for loss in options.losses:
            found = []
            for seed in range(options.seeds):
                half = np.random.default_rng(seed).random(sum(map(len, train))) < 0.5
                part = train[::2] if by_sentence else some_heads(train, half)
                found.append(trained(part, dev, loss, rounds, size, seed))
            cells.append(f"{mean(uas for uas, _ in found):.2f} ({', '.join(f'{uas:.2f}' for uas, _ in found)})")
        print(f"| {what} | {found[-1][1]} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print the tables that are asked for."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = asked.add_subparsers(required=True)
    parser = kinds.add_parser("parser")
    parser.add_argument("model")
    parser.add_argument("file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=3, help="of what is timed")
    parser.add_argument(
        "--limit", type=int, default=400, help="sentences that 50 trees and those of least risk are found of"
    )
    parser.set_defaults(run=of_parser)
    partial = kinds.add_parser("partial")
    partial.add_argument("folder", type=Path)
    partial.add_argument("--epochs", type=int, default=12)
    partial.add_argument("--seeds", type=int, default=3)
    partial.add_argument("--words", type=int, default=100, help="longest sentence")
    partial.add_argument("--sentences", type=int, default=100_000, help="the first of the training part")
    partial.add_argument("--dev", type=int, default=200, help="sentences of the development part")
    partial.add_argument("--losses", nargs="+", default=["cross_entropy", "crf", "hinge"])
    partial.set_defaults(run=of_training)
    options = asked.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
