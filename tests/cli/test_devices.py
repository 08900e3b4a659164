"""Training with several processes, each with a device of its own; here the devices are CPUs."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from arbora.cli import main
from arbora.data import treebank as treebank_module
from arbora.data.batch import share
from arbora.data.treebank import Treebank

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "treebank"
DATA = {"train": str(EXAMPLES / "train.conllu"), "dev": str(EXAMPLES / "dev.conllu"), "sample": 140, "max_tokens": 60}
SETTINGS = [
    *(f"--data.{name}={value}" for name, value in DATA.items()),
    "--model.encoder=SRU",
    "--model.encoder.size=10",
    "--model.encoder.layers=1",
    "--model.encoder.dropout=0",  # since processes draw different numbers
    "--model.encoder.embeddings.words=8",
    "--model.encoder.embeddings.characters=6",
    "--model.encoder.embeddings.word_dropout=0",
    "--model.scorer.arc=10",
    "--model.scorer.label=10",
    "--model.scorer.dropout=0",
    "--model.taggers.dropout=0",
    "--model.loss=[crf, hinge]",
    "--trainer.accelerator=cpu",
]
pytestmark = pytest.mark.slow


def train_two(run: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Train with two processes."""
    two = ["--trainer.devices=2", "--trainer.strategy=ddp", f"--run={run}"]
    command = [sys.executable, "-m", "arbora.cli", "train", *SETTINGS, *two, *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "tests")}
    return subprocess.run(command, cwd=run.parent, env=environment, timeout=900, capture_output=True, text=True)


def watched(file: Path) -> list[str]:
    return ["--trainer.callbacks=watching.WriteLosses", f"--trainer.callbacks.file={file}"]


def figures(run: Path) -> dict[str, list[float]]:
    """Logged figures of all epochs on the development part."""
    with open(next(run.glob("logs/*/metrics.csv")), encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {name: [float(row[name]) for row in rows if row[name]] for name in rows[0] if name.startswith("dev/")}


def test_two_devices_take_the_steps_of_one_with_their_batches_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    epochs = "--trainer.max_epochs=3"
    batches = list(Treebank(**DATA).train_dataloader())
    assert len(batches) % 2 == 1  # one is repeated
    found = train_two(tmp_path / "two", epochs, *watched(tmp_path / "two.txt"))
    assert found.returncode == 0, found.stderr

    def together(batches: list[list[int]], rank: int, ranks: int, repeat: bool) -> list[list[int]]:
        if not repeat:
            return batches
        return [one + other for one, other in zip(share(batches, 0, 2, True), share(batches, 1, 2, True), strict=True)]

    monkeypatch.setattr(treebank_module, "share", together)
    main(["train", *SETTINGS, epochs, f"--run={tmp_path / 'one'}", *watched(tmp_path / "one.txt")])
    one, two = (np.loadtxt(tmp_path / f"{name}.txt") for name in ("one", "two"))
    assert len(one) == len(two) >= 50
    assert abs(one - two)[:50].max() < 1e-4
    expected = figures(tmp_path / "one")
    assert {"dev/UAS", "dev/LAS", "dev/UPOS"} <= expected.keys()
    for name, values in figures(tmp_path / "two").items():
        assert values == pytest.approx(expected[name], abs=0.05), name


def test_a_run_is_resumed_after_one_of_its_processes_was_killed(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    epochs = "--trainer.max_epochs=3"
    assert train_two(whole, epochs).returncode == 0
    die = ["--trainer.callbacks=watching.Die", "--trainer.callbacks.rank=1", "--trainer.callbacks.epoch=1"]
    assert train_two(parts, epochs, *die).returncode != 0
    resumed = train_two(parts, epochs, "--ckpt_path=last")
    assert resumed.returncode == 0, resumed.stderr
    expected, found = (torch.load(run / "last.ckpt", weights_only=True) for run in (whole, parts))
    assert expected["epoch"] == found["epoch"] == 2
    for name, weight in expected["state_dict"].items():
        assert torch.equal(weight, found["state_dict"][name]), name
