"""The parser: an encoder, scorers and a decoder, as a Lightning module."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.nn import functional as F

from arbora.data.batch import Batch
from arbora.data.vocabulary import Vocabulary
from arbora.decoders import MST, Decoder, Parts, Trees
from arbora.model import losses
from arbora.model.biaffine import ArcScorer, Biaffine, LabelScorer
from arbora.model.encoders import LSTM, Encoder
from arbora.model.settings import from_plain, to_plain

Loss = Literal["cross_entropy", "crf", "projective_crf", "hinge"]
CHECKPOINT_KEY = "arbora"
FORMAT = 1
"""Version of what stands under `CHECKPOINT_KEY`."""


@dataclass(frozen=True)
class Optimization:
    """Settings of AdamW (Loshchilov and Hutter, 2019) with warm-up and linear decay.

    Args:
        lr: learning rate at its peak.
        pretrained_lr: the same for weights that come pretrained (transformers).
        betas: decay of the running averages.
        weight_decay: of matrices; vectors and embeddings do not decay.
        warmup: share of all steps over which the rate rises from zero.
        decay: lower the rate linearly to zero at the last step. Without it, it stays.
    """

    lr: float = 2e-3
    pretrained_lr: float = 5e-5
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.01
    warmup: float = 0.05
    decay: bool = True


@dataclass
class Parses:
    """Trees of a batch with their labels."""

    trees: Trees
    labels: Tensor  # (B, N) label of each word's arc; 0 at the root and at padding

    @property
    def heads(self) -> Tensor:
        """(B, N), -1 at the root and at padding."""
        return torch.from_numpy(self.trees.heads).long()


def _right(batch: Batch, parses: Parses) -> Tensor:
    """(3,) words with the right head, with the right head and label, and all words."""
    word = batch.is_word.cpu()
    head = word & (batch.heads.cpu() == parses.heads)
    both = head & (batch.labels.cpu() == parses.labels)
    return torch.stack([head.sum(), both.sum(), word.sum()])


class Parser(pl.LightningModule):
    """A first-order graph-based parser.

    Args:
        vocabulary: of the training part.
        encoder: from words to vectors.
        scorer: from vectors to scores of arcs and labels.
        decoder: from scores to trees; in training too, where a loss decodes.
        loss: losses of arcs, added up. `cross_entropy` takes each word's head by itself, `crf` the likelihood of the
            tree among all trees, `projective_crf` among projective ones, `hinge` the margin to the best other tree.
        optimization: settings of the optimizer.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        encoder: Encoder = LSTM(),  # noqa: B008 - settings are frozen
        scorer: Biaffine = Biaffine(),  # noqa: B008
        decoder: Decoder = MST(),  # noqa: B008
        loss: Sequence[Loss] = ("cross_entropy",),
        optimization: Optimization = Optimization(),  # noqa: B008
    ) -> None:
        super().__init__()
        if not loss:
            raise ValueError("model.loss is empty: name at least one of cross_entropy, crf, projective_crf, hinge")
        if not vocabulary.labels:
            raise ValueError("the vocabulary has no labels: the training part must be annotated")
        self.vocabulary = vocabulary
        self.settings = {
            "encoder": encoder,
            "scorer": scorer,
            "decoder": decoder,
            "loss": tuple(loss),
            "optimization": optimization,
        }
        self.tags = encoder.tags
        self.decoder = decoder
        self.losses = tuple(loss)
        self.optimization = optimization
        self.encoder = encoder.build(vocabulary)
        self.arc = ArcScorer(self.encoder.size, scorer)
        self.label = LabelScorer(self.encoder.size, len(vocabulary.labels), scorer)
        allowed = torch.from_numpy(vocabulary.allowed_labels)
        self.register_buffer("label_allowed", allowed, persistent=False)
        self.label_allowed: Tensor  # (2, L)
        self._counts = torch.zeros(3, dtype=torch.long)  # of one pass over the development or test part

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Vectors of words (B, N, size) and scores of arcs (B, N, N)."""
        vectors = self.encoder(batch)
        return vectors, self.arc(vectors, batch.lengths)

    @torch.no_grad()
    def parse(self, batch: Batch) -> Parses:
        """The best trees of a batch, labelled."""
        vectors, arc = self(batch)
        trees = self.decoder(Parts.from_dense(arc.cpu().numpy(), batch.lengths.cpu().numpy()))
        heads = torch.from_numpy(trees.heads).long().to(vectors.device)
        return Parses(trees, self.best_labels(vectors, heads).cpu())

    def best_labels(self, vectors: Tensor, heads: Tensor) -> Tensor:
        """(B, N) best label of each arc among those seen in training on arcs from the root, or from words."""
        scores = self.label(vectors, heads.clamp(min=0))
        allowed = self.label_allowed[(heads == 0).long()]
        return scores.masked_fill(~allowed, -torch.inf).argmax(-1)

    def training_step(self, batch: Batch, _: int) -> Tensor:
        vectors, arc = self(batch)
        words = batch.lengths.sum()
        parts: dict[str, Tensor] = {name: self._arc_loss(name, arc, batch) / words for name in self.losses}
        labelled = batch.labels >= 0
        label_scores = self.label(vectors, batch.heads.clamp(min=0))[labelled]
        parts["label"] = F.cross_entropy(label_scores, batch.labels[labelled], reduction="sum") / words
        total = torch.stack(list(parts.values())).sum()
        size = len(batch.lengths)
        self.log_dict(
            {f"train/{name}": value.detach() for name, value in parts.items()},
            on_step=False,
            on_epoch=True,
            batch_size=size,
        )
        self.log("loss", total.detach(), prog_bar=True, logger=False, batch_size=size)
        return total

    def _arc_loss(self, name: Loss, arc: Tensor, batch: Batch) -> Tensor:
        heads, lengths = batch.heads, batch.lengths
        if name == "cross_entropy":
            return losses.head_cross_entropy(arc, heads)
        if name == "hinge":
            loss, violations = losses.hinge(arc, heads, lengths, self.decoder)
            share = violations / len(lengths)
            self.log("train/violations", share, on_step=False, on_epoch=True, batch_size=len(lengths))
            return loss
        single_root, projective = self.decoder.single_root, name == "projective_crf"
        loss, outside = losses.crf(arc, heads, lengths, single_root, projective)
        self.log("train/outside", outside / len(lengths), on_step=False, on_epoch=True, batch_size=len(lengths))
        return loss

    def on_validation_epoch_start(self) -> None:
        self._counts.zero_()

    def validation_step(self, batch: Batch, _: int) -> None:
        if len(batch.lengths):
            self._counts += _right(batch, self.parse(batch))

    def on_validation_epoch_end(self) -> None:
        self._log_attachment("dev")

    def on_test_epoch_start(self) -> None:
        self._counts.zero_()

    def test_step(self, batch: Batch, index: int) -> None:
        self.validation_step(batch, index)

    def on_test_epoch_end(self) -> None:
        self._log_attachment("test")

    def _log_attachment(self, part: str) -> None:
        """Log UAS and LAS (whole labels, all tokens); counts of several devices are added up first."""
        counts = self.trainer.strategy.reduce(self._counts.to(self.device), reduce_op="sum")
        uas, las = (100 * counts[:2] / counts[2].clamp(min=1)).tolist()
        self.log_dict({f"{part}/UAS": uas, f"{part}/LAS": las}, prog_bar=True, sync_dist=True)

    def configure_optimizers(self) -> Any:
        settings = self.optimization
        pretrained = {id(weight) for weight in self.encoder.pretrained_parameters()}
        embedded = {
            id(weight)
            for module in self.modules()
            if isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag))
            for weight in module.parameters()
        }
        groups: dict[tuple[float, float], list[Tensor]] = {}
        for weight in self.parameters():
            if weight.requires_grad:
                lr = settings.pretrained_lr if id(weight) in pretrained else settings.lr
                decays = weight.dim() > 1 and id(weight) not in embedded
                groups.setdefault((lr, settings.weight_decay if decays else 0.0), []).append(weight)
        optimizer = torch.optim.AdamW(
            [{"params": weights, "lr": lr, "weight_decay": decay} for (lr, decay), weights in groups.items()],
            betas=settings.betas,
        )
        total = self.trainer.estimated_stepping_batches
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: self._rate(step, total))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def _rate(self, step: int, total: float) -> float:
        """Share of the peak learning rate at a step."""
        if not math.isfinite(total):
            return 1.0
        warmup = self.optimization.warmup * total
        if step < warmup:
            return (step + 1) / (warmup + 1)
        return max(0.0, (total - step) / max(1.0, total - warmup)) if self.optimization.decay else 1.0

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint[CHECKPOINT_KEY] = json.dumps(
            {
                "format": FORMAT,
                "settings": {name: to_plain(value) for name, value in self.settings.items()},
                "vocabulary": self.vocabulary.as_dict(),
            },
            ensure_ascii=False,
        )

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        saved = json.loads(checkpoint[CHECKPOINT_KEY])
        for name in ("encoder", "scorer"):
            if from_plain(saved["settings"][name]) != self.settings[name]:
                raise ValueError(f"the checkpoint has another --model.{name}: use the config.yaml of its run")
        if saved["vocabulary"] != self.vocabulary.as_dict():
            raise ValueError(
                "the checkpoint was trained on another training part than --data.train: resume with the same"
            )
