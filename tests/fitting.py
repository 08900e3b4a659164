"""Training on one batch over and over, for tests of what a parser can learn."""

import pytorch_lightning as pl
import torch

from arbora.data.batch import Batch
from arbora.model.training import LightningParser


def fit(parser: LightningParser, batch: Batch, steps: int) -> pl.Trainer:
    """Make so many steps on a batch, which is the development part too."""
    trainer = pl.Trainer(
        max_steps=steps,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        gradient_clip_val=5.0,
    )
    loader = torch.utils.data.DataLoader([batch] * 10, batch_size=None)
    trainer.fit(parser, loader, loader)
    return trainer
