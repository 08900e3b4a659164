"""Output of a training run: a bar in a terminal, a line for each epoch, and a summary."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from rich.progress import BarColumn, Progress, TextColumn

from arbora.cli.console import plain_console

NAMES = {"UAS": "UAS", "LAS": "LAS", "LAS_full": "LAS (full labels)"}
"""Names of figures, by what the logs call them."""

ATTACHMENT = ("UAS", "LAS")
"""Figures of each epoch: with all of them, a line would not fit into a terminal of 80 columns."""

RISING = 0.1
"""If dev LAS of the last epochs is higher by so much than of those before, a run is still rising."""


class TrainingOutput(pl.Callback):
    """Prints how a run goes.

    Args:
        run: folder of the run.
        monitor: figure that chooses the best epoch.
    """

    def __init__(self, run: str, monitor: str) -> None:
        self.run, self.monitor = run, monitor
        self.history: list[dict[str, float]] = []  # figures on the development part, an entry for each epoch
        self.console = plain_console()
        columns = (TextColumn("{task.description}"), BarColumn(None), TextColumn("{task.fields[pace]}"))
        self.bar = Progress(*columns, console=self.console, transient=True, expand=True)
        self.task = self.bar.add_task("", pace="")

    def state_dict(self) -> dict[str, Any]:
        return {"history": self.history}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.history = state_dict["history"]

    @property
    def best(self) -> int:
        """Number of the best epoch, counted from 1."""
        return 1 + max(range(len(self.history)), key=lambda epoch: self.history[epoch].get(self.monitor, 0.0))

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.started, self.first_epoch = time.perf_counter(), trainer.current_epoch
        if trainer.is_global_zero:
            weights = sum(weight.numel() for weight in pl_module.parameters() if weight.requires_grad)
            treebank: Any = trainer.datamodule  # type: ignore[attr-defined]
            words = sum(map(len, treebank.sentences("train")))
            self.console.print(f"training {weights:,} weights on {words:,} words, on {pl_module.device}")
            if self.console.is_terminal:
                self.bar.start()

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.epoch_started, self.words, self.batches = time.perf_counter(), 0, 0
        self.loss = torch.zeros((), device=pl_module.device)
        self.bar.reset(self.task, total=trainer.num_training_batches, description=_epoch(trainer), pace="")

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.words += int(batch.lengths.sum()) * trainer.world_size
        self.batches += 1
        self.loss += outputs["loss"].detach()
        self.seconds = time.perf_counter() - self.epoch_started
        done = self.batches / trainer.num_training_batches
        self.bar.update(self.task, completed=self.batches, pace=f"{self._pace()}, {self._left(trainer, done)} left")

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        figures = {
            name.removeprefix("dev/"): value.item()
            for name, value in trainer.callback_metrics.items()
            if name.startswith("dev/")
        }
        self.history.append(figures)
        loss = trainer.strategy.reduce(self.loss, reduce_op="mean").item() / max(self.batches, 1)
        if not trainer.is_global_zero:
            return
        shown = "not evaluated"
        if figures:
            best = "best" if self.best == len(self.history) else f"best in {self.best}"
            shown = f"{_shown(figures, ATTACHMENT)} ({best})"
        line = f"{_epoch(trainer)}: loss {loss:.2f}, {shown}, {self._pace()}, {self._left(trainer, 1.0)} left"
        self.console.print(line)

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.bar.stop()
        if not trainer.is_global_zero or not self.history or not self.history[self.best - 1]:
            return
        checkpoint = Path(self.run) / "best.ckpt"
        self.console.print(f"best: epoch {self.best} of {len(self.history)}, dev {_shown(self.history[self.best - 1])}")
        self.console.print(self._trend())
        self.console.print(f"checkpoint: {checkpoint}")
        self.console.print(f'next: arbora predict {checkpoint} --sentence "..."')

    def on_test_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._say_figures(trainer, "test")

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.state.fn == "validate":
            self._say_figures(trainer, "dev")

    def _say_figures(self, trainer: pl.Trainer, part: str) -> None:
        found = {name.partition("/")[2]: value.item() for name, value in trainer.callback_metrics.items()}
        if trainer.is_global_zero:
            shown = [f"{NAMES.get(name, name)} {value:.2f}" for name, value in sorted(found.items(), key=_rank)]
            self.console.print(f"{part}: {' '.join(shown)}")

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        self.bar.stop()
        if not isinstance(exception, KeyboardInterrupt) or not trainer.is_global_zero:
            return
        how = "no epoch was complete, so there is nothing to resume"
        if (Path(self.run) / "last.ckpt").exists():
            command = f"arbora train --config {self.run}/config.yaml --ckpt_path last"
            how = f"to resume after the last complete epoch: {command}"
        print(f"\nstopped; {how}", file=sys.stderr)

    def _pace(self) -> str:
        return f"{self.words / max(self.seconds, 1e-9):,.0f} words/s"

    def _left(self, trainer: pl.Trainer, of_epoch: float) -> str:
        """Time that is left, from the time that epochs took so far, and the share of this one that is done."""
        done = trainer.current_epoch - self.first_epoch + of_epoch
        left = (trainer.max_epochs or 0) - trainer.current_epoch - of_epoch
        seconds = (time.perf_counter() - self.started) / max(done, 1e-9) * max(left, 0.0)
        return str(timedelta(seconds=round(seconds))).removeprefix("0:")

    def _trend(self) -> str:
        """Return whether the figure was still rising: the last fifth of the epochs against the fifth before."""
        values = [figures.get(self.monitor, 0.0) for figures in self.history]
        few = max(1, len(values) // 5)
        if len(values) < 2:
            return "one epoch says nothing of a trend"
        rise = sum(values[-few:]) / few - sum(values[-2 * few : -few]) / few
        last = "the last epoch" if few == 1 else f"the last {few} epochs"
        if rise > RISING:
            return f"dev LAS was still rising, by {rise:.2f} in {last}: more epochs may help"
        return f"dev LAS was not rising any more ({rise:+.2f} in {last})"


def _rank(figure: tuple[str, float]) -> tuple[int, str]:
    """Attachment scores first, in their usual order."""
    names = list(NAMES)
    return (names.index(figure[0]) if figure[0] in names else len(names), figure[0])


def _epoch(trainer: pl.Trainer) -> str:
    return f"epoch {trainer.current_epoch + 1}/{trainer.max_epochs}"


def _shown(figures: dict[str, float], names: Iterable[str] = tuple(NAMES)) -> str:
    return " ".join(f"{NAMES[key]} {figures[key]:.2f}" for key in names if key in figures)
