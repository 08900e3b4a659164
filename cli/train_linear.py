"""`arbora train --model linear`: linear models, without torch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jsonargparse import ActionConfigFile, Namespace  # type: ignore[attr-defined]
from rich.console import Console

from arbora.cli.arguments import OneLineErrors
from arbora.cli.console import plain_console
from arbora.data.batch import index_sentences
from arbora.data.conll import Sentence, read_conll
from arbora.data.vocabulary import Vocabulary
from arbora.decoders import Decoder
from arbora.decoders.names import decoder_classes
from arbora.evaluation import Evaluation
from arbora.model.inference.batch_parser import BatchParser
from arbora.model.inference.stream import parse_sentences
from arbora.model.linear.backend import Linear, LinearModel
from arbora.model.linear.mira import Learning, Mira
from arbora.model.linear.pruners import LinearCascade, train_pruner
from arbora.model.linear.storage import LinearFile, read_linear, to_bytes, write_linear

DESCRIPTION = """\
Train a linear model with MIRA, in minutes on a CPU and without torch. For example:

  arbora train --model linear --data.train train.conllu --data.dev dev.conllu --run runs/linear
  arbora train --model linear --linear.order 3 --config runs/linear/config.yaml --run runs/third
  arbora train --config runs/linear/config.yaml --ckpt_path last      # resume after a stop

It reads forms, lemmas, UPOS, XPOS and FEATS. To parse text with predicted tags, train it on predicted tags.
"""


def main(arguments: Sequence[str]) -> None:
    """Run `arbora train --model linear` with these arguments."""
    decoder_classes()  # imports all of them, since a configuration may name any
    parser = OneLineErrors(prog="arbora train", description=DESCRIPTION)
    parser.add_argument("-c", "--config", action=ActionConfigFile, help="YAML file, or the name of a configuration")
    parser.add_argument("--model", choices=["linear"], help="`linear`, the model that this help describes")
    parser.add_argument("--data.train", type=str, required=True, help="file to train on, CoNLL-U or CoNLL-X")
    parser.add_argument("--data.dev", type=str, required=True, help="development part, which chooses the best epoch")
    parser.add_argument("--run", type=str, default="runs/linear", help="folder of checkpoints and configuration")
    parser.add_argument("--ckpt_path", choices=["last"], help="`last` resumes an interrupted run")
    parser.add_argument("--quiet", type=bool, default=False, help="print nothing")
    parser.add_class_arguments(Linear, "linear")
    parser.add_class_arguments(Learning, "learning")
    parser.add_argument(
        "--decoder",
        type=Decoder | None,
        sub_configs=True,
        help="decoder for learning and parsing (default: MST for arcs only, otherwise AD3)",
    )
    config = parser.parse_args([argument for argument in arguments if argument != "fit"])
    options, run = parser.instantiate(config), Path(config.run)
    if options.ckpt_path is None and (run / "last.ckpt").exists():
        raise ValueError(
            f"{run} already has a run: give another --run, remove the folder, or resume it with --ckpt_path last"
        )
    train, dev = list(read_conll(options.data.train)), list(read_conll(options.data.dev))
    run.mkdir(parents=True, exist_ok=True)
    parser.save(config, run / "config.yaml", overwrite=True, skip_unset=False)
    _train(options, run, train, dev, plain_console(quiet=options.quiet))


def _train(options: Namespace, run: Path, train: list[Sentence], dev: list[Sentence], console: Console) -> None:
    settings: Learning = options.learning
    last = read_linear(run / "last.ckpt") if options.ckpt_path else None
    if last is not None:
        model = last.model
        if model.settings != options.linear:
            raise ValueError(
                f"{run}: a run must be resumed with its own model settings: give --config {run}/config.yaml"
            )
    else:
        model = LinearModel(Vocabulary.of(train), options.linear, options.decoder)
    indexed = index_sentences(train, model.vocabulary)
    started = time.perf_counter()
    if last is None and model.pruner is not None:
        tuning = index_sentences(dev, model.vocabulary)

        def report(what: str, epoch: int, value: float) -> None:
            console.print(f"{what}: epoch {epoch + 1}, {value:.3f}")

        model.pruner = train_pruner(model, indexed, settings, tuning, report)
        if isinstance(model.pruner, LinearCascade):
            console.print(f"alpha of {', '.join(model.pruner.stages)}: {np.round(model.pruner.alphas, 3).tolist()}")
    mira = Mira(model, indexed, model.decoder, settings)
    done, facts = 0, _facts(options, settings)
    best: dict[str, Any] = {"dev_las": -1.0}
    if last is not None:
        done, best = _restore(mira, last)
    for epoch in range(done, settings.epochs):
        loss = mira.train_epoch(epoch)
        averaged = mira.averaged()
        figures = evaluate(averaged, dev)
        better = figures["las_full"] > best["dev_las"]
        if better:
            best = {"epochs": epoch + 1, "dev_las": round(figures["las_full"], 2)}
            write_linear(run / "best.ckpt", to_bytes(averaged, facts | best))
        state = {"done": epoch + 1, "steps": mira.steps, "best": best}
        write_linear(run / "last.ckpt", to_bytes(model, facts | {"state": state}, weighted=mira.weighted))
        console.print(
            f"epoch {epoch + 1}: loss {loss:.3f} per word, dev UAS {figures['uas']:.2f} LAS {figures['las']:.2f}"
            f"{' (best)' if better else ''}, {time.perf_counter() - started:.0f} s"
        )
    console.print(f"best dev LAS (full labels) {best['dev_las']:.2f}: {run / 'best.ckpt'}")


def _facts(options: Namespace, settings: Learning) -> dict[str, Any]:
    files = {name: "/".join(Path(options.data[name]).parts[-2:]).lstrip("/") for name in ("train", "dev")}
    return {**files, "seed": settings.seed, "loss": ["mira"]}


def _restore(mira: Mira, last: LinearFile) -> tuple[int, dict[str, Any]]:
    """Restore the state of an interrupted run. Returns the number of finished epochs, and facts about the best one."""
    state = last.training["state"]
    mira.steps, mira.weighted = state["steps"], last.tables["weighted"]
    return state["done"], state["best"]


def evaluate(model: LinearModel, gold: Sequence[Sentence]) -> dict[str, Any]:
    """Evaluate a model on sentences with gold trees."""
    evaluation = Evaluation()
    for found in parse_sentences(BatchParser(model, model.decoder), gold):
        evaluation.add(found.sentence, found.heads.tolist(), found.labels)
    return evaluation.figures()
