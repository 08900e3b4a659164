"""Callbacks that watch a training run from inside, in each of its processes."""

import os
import signal
from pathlib import Path
from typing import Any

import pytorch_lightning as pl


class WriteLosses(pl.Callback):
    """Writes the loss of each step, as a mean over devices.

    Args:
        file: gets a line for each step.
    """

    def __init__(self, file: str) -> None:
        self.file = Path(file)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        loss = trainer.strategy.reduce(outputs["loss"].detach().clone(), reduce_op="mean").item()
        if trainer.is_global_zero:
            with self.file.open("a", encoding="utf-8") as file:
                print(loss, file=file)


class Die(pl.Callback):
    """Kills a process.

    Args:
        rank: of the process.
        epoch: in which it is killed, after the first step.
    """

    def __init__(self, rank: int, epoch: int) -> None:
        self.rank, self.epoch = rank, epoch

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if (trainer.global_rank, trainer.current_epoch) == (self.rank, self.epoch):
            os.kill(os.getpid(), signal.SIGKILL)
