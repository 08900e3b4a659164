"""Training for tests of what a parser can learn."""

import pytorch_lightning as pl
import torch

from arbora.data.batch import Batch
from arbora.model.training import LightningParser


def fit(parser: LightningParser, data: Batch | list[Batch], steps: int = -1, epochs: int | None = None) -> pl.Trainer:
    """Make so many steps on one batch, which is the development part too, or go so many times over several batches."""
    trainer = pl.Trainer(
        max_steps=steps,
        max_epochs=epochs,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        gradient_clip_val=5.0,
    )
    several = isinstance(data, list)
    loader = torch.utils.data.DataLoader(data if several else [data] * 10, batch_size=None, shuffle=several)
    trainer.fit(parser, loader, None if several else loader)
    return trainer
