"""Training of a parser: losses, steps and the optimizer, as a Lightning module."""

from __future__ import annotations

import ctypes
import math
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import pytorch_lightning as pl
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from arbora.data.batch import Batch
from arbora.data.vocabulary import NOT_ANNOTATED, TAGS, Vocabulary
from arbora.decoders import MST, Constraints, Decoder
from arbora.decoders.pruning import oracle
from arbora.model import losses
from arbora.model.catalogue import find_model
from arbora.model.encoders.encoder import Encoder
from arbora.model.encoders.lstm import LSTM
from arbora.model.inference.batch_parser import BatchParser, LabelledTrees
from arbora.model.network import Network, NetworkScores, ScoredParts, check_search
from arbora.model.pruners.marginal import Pruner
from arbora.model.pruners.settings import PrunerSettings
from arbora.model.scorers.biaffine import Biaffine
from arbora.model.scorers.multilinear import Multilinear
from arbora.model.scorers.taggers import Taggers
from arbora.model.scorers.tree_features import TreeFeatures
from arbora.model.storage.checkpoint import FILES, KEY, describe, pack_files, pack_tokenizer, understand
from arbora.model.storage.files import naming_file
from arbora.model.storage.weights import read_parser
from arbora.model.tensors import to_tensors

TUNED_WORDS = 100_000
"""Maximum number of words on which a pruner is tuned after each epoch; their vectors are kept in memory."""

STEPS_BETWEEN_TRIMS = 100
"""Steps of training after which freed memory goes back to the system."""

TAG_FIGURES = {"upos": "UPOS", "xpos": "XPOS", "feats": "UFeats", "lemmas": "Lemmas"}
"""Names of the accuracy of tags in logs, by column."""

Loss = Literal["cross_entropy", "crf", "projective_crf", "hinge"]


@dataclass(frozen=True)
class Optimization:
    """Settings of AdamW (Loshchilov and Hutter, 2019) with warm-up and linear decay.

    Args:
        lr: learning rate at its peak.
        pretrained_lr: peak learning rate of pretrained weights (transformers).
        layer_decay: factor between the learning rate of a pretrained layer and that of the layer above it.
        betas: decay of the running averages.
        weight_decay: decay of matrices; vectors and embeddings do not decay.
        warmup: share of all steps in which the rate rises from zero.
        decay: lower the rate linearly to zero at the last step; otherwise, keep it constant.
    """

    lr: float = 2e-3
    pretrained_lr: float = 5e-5
    layer_decay: float = 1.0
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.01
    warmup: float = 0.05
    decay: bool = True


class LightningParser(Network, pl.LightningModule):
    """A graph-based parser that can be trained.

    Args:
        vocabulary: of the training part.
        encoder: turns words into vectors.
        scorer: scores arcs and labels.
        parts: scores higher-order parts. Without it, the parser is of first order.
        features: scores tree features, by which only hill-climbing can search.
        pruner: keeps a few candidate heads for each word, as higher-order parts require. By default, a small scorer on
            the parser's own encoder if there are higher-order parts, and none in a first-order parser.
        taggers: predict tags, features and lemmas. Without it, the parser predicts none of them.
        decoder: searches for the best tree.
        training_decoder: decoder for losses that decode, by default `decoder`. A fast search is good enough for
            training, such as hill-climbing with few restarts.
        trained: checkpoint or folder of a trained parser. Only `pruner` is trained for it; the parser does not change,
            and all other settings of the model are taken from it.
        start: checkpoint or folder of a parser to start from (`--from`). Its settings are kept, except for those of
            training. New words, characters, labels and tags of the training part are added to its vocabulary.
        loss: losses of trees; their mean has the same weight as the loss of labels. `cross_entropy` predicts each head
            separately, `crf` uses the likelihood of the tree among all trees, and `projective_crf` among projective
            trees, all with arc scores only. `hinge` uses the margin to the best other tree, with all parts.
        halves: with `hinge`, compute the loss of a batch in two halves, so that a GPU encodes one half while the
            decoder searches for the trees of the other. The loss is the same.
        optimization: settings of the optimizer.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        encoder: Encoder = LSTM(),  # noqa: B008 - settings are frozen
        scorer: Biaffine = Biaffine(),  # noqa: B008
        parts: Multilinear | None = None,
        features: TreeFeatures | None = None,
        pruner: PrunerSettings | None = None,
        taggers: Taggers | None = None,
        decoder: Decoder = MST(),  # noqa: B008
        training_decoder: Decoder | None = None,
        trained: str | None = None,
        start: str | None = None,
        loss: Sequence[Loss] = ("cross_entropy",),
        halves: bool = False,
        optimization: Optimization = Optimization(),  # noqa: B008
    ) -> None:
        if not loss:
            raise ValueError("model.loss is empty: name at least one of cross_entropy, crf, projective_crf, hinge")
        if trained is not None and start is not None:
            raise ValueError("give either model.trained or a parser to start from, not both")
        if start is not None:
            self._start_from(start, vocabulary)
            parts, features = self.settings["parts"], self.settings["features"]
        if trained is None:
            if (parts or features) is not None and "hinge" not in loss:
                raise ValueError("model.parts and model.features are trained only with hinge: add it to model.loss")
            if training_decoder is not None:
                check_search("training_decoder", training_decoder, parts, features)
            if start is None:
                super().__init__(vocabulary, encoder, scorer, parts, features, pruner, decoder, taggers)
        else:
            self._take_over(trained, vocabulary, pruner)
        self.only_pruner = trained is not None
        self.train()
        self.training_settings = {
            "training_decoder": training_decoder,
            "loss": tuple(loss),
            "optimization": optimization,
        }
        self.training_decoder = training_decoder if training_decoder and trained is None else self.decoder
        self.losses = tuple(loss)
        self.halves = halves
        self.optimization = optimization
        # Of one pass over the development or test part, see `_count`
        self._counts = torch.zeros(6 + 2 * len(TAGS), dtype=torch.long)

    def _start_from(self, start: str, vocabulary: Vocabulary) -> None:
        """Take over a trained parser, with a larger vocabulary.

        New entries of the vocabulary, and their weights, are added after the existing ones.
        """
        if vocabulary.pretrained:
            raise ValueError("data.vectors cannot be used with --from: the parser keeps its own vectors")
        stored = read_parser(find_model(start))
        with naming_file(start), stored.unpacked() as files:
            merged = Vocabulary.from_dict(stored.vocabulary).extended(vocabulary)
            super().__init__(merged, **stored.settings, files=files)
            with torch.no_grad():
                for name, weight in self.state_dict().items():
                    if name in stored.weights:
                        old = stored.weights[name]
                        weight[tuple(slice(size) for size in old.shape)] = old

    def _take_over(self, trained: str, vocabulary: Vocabulary, pruner: PrunerSettings | None) -> None:
        """Take over a trained parser, except for its pruner."""
        if pruner is None:
            raise ValueError("model.trained trains only a pruner: give one as model.pruner")
        stored = read_parser(trained)
        if not vocabulary.matches(stored.vocabulary):
            raise ValueError(f"{trained}: trained on another training part than --data.train: use the same file")
        with stored.unpacked() as files:
            super().__init__(vocabulary, **{**stored.settings, "pruner": pruner}, files=files)
        weights = {name: weight for name, weight in stored.weights.items() if not name.startswith("pruner.")}
        own = {name: weight for name, weight in self.state_dict().items() if name.startswith("pruner.")}
        with naming_file(trained):
            self.load_state_dict(weights | own)
        self.tokenizer = stored.tokenizer
        assert self.pruner is not None
        if not self.pruner.learns:
            raise ValueError(f"model.trained: {type(pruner).__name__} has no weights to train; choose another pruner")
        self.requires_grad_(False)
        self.pruner.requires_grad_(True)

    def train(self, mode: bool = True) -> LightningParser:
        super().train(mode)
        if self.only_pruner:  # nothing else changes: no dropout there
            for name, module in self.named_children():
                module.train(mode and name == "pruner")
        return self

    def transfer_batch_to_device(self, batch: Batch[Any], device: torch.device, dataloader_idx: int) -> Batch[Any]:
        """Return the batch unchanged: steps take numpy batches, as parsing does."""
        return batch

    def training_step(self, arrays: Batch[Any], _: int) -> Tensor:
        if self.only_pruner:
            return self._learn_pruner(to_tensors(arrays, self.device))
        words, annotated = self._per_device(arrays)
        size, half = len(arrays.lengths), -(-len(arrays.lengths) // 2)
        halves = self.halves and "hinge" in self.losses and size > 1
        pieces = [arrays.rows(0, half), arrays.rows(half, size)] if halves else [arrays]
        sums: dict[str, Tensor] = {}
        for found in _interleaved([self._sums(piece) for piece in pieces]):
            sums = {name: loss + sums.get(name, 0.0) for name, loss in found.items()}
        of_tree = {name: sums[name] / annotated for name in self.losses}
        others = {
            name: loss / (annotated if name == "label" else words) for name, loss in sums.items() if name not in of_tree
        }
        total = torch.stack(list(of_tree.values())).mean() + torch.stack(list(others.values())).sum()
        self.log_dict(
            {f"train/{name}": value.detach() for name, value in (of_tree | others).items()},
            on_step=False,
            on_epoch=True,
            batch_size=size,
            sync_dist=True,
        )
        self.log("loss", total.detach(), prog_bar=True, logger=False, batch_size=size)
        return total

    def _sums(self, arrays: Batch[Any]) -> Iterator[dict[str, Tensor]]:
        """Losses of a batch, each summed over its words, in three steps; the first two give nothing.

        In the first, the host only tells a device what to compute. In the second, it waits for scores of parts. In the
        third, a decoder searches.
        """
        batch = to_tensors(arrays, self.device)
        vectors, for_tags = self.encode(batch)
        arc = self.arc(vectors, batch.lengths)
        yield {}
        scores = NetworkScores(self, batch, vectors, arc, for_tags)
        scored = completion = None
        if "hinge" in self.losses:
            completion = self._completion(arc, batch.on_host)
            keep = batch.on_host.heads if completion is None else completion
            scored = scores.scored_parts(self.training_decoder, keep=keep)
        yield {}
        labels = batch.labels.where(batch.heads >= 0, -1).clamp(min=-1).flatten()[batch.places]
        label_scores = self.label(vectors, batch.heads.clamp(min=0), batch.places)
        sums = {"label": F.cross_entropy(label_scores, labels, ignore_index=-1, reduction="sum")}
        if self.taggers is not None:
            sums |= self.taggers.losses(for_tags, batch.tags, batch.places)
        if self.pruner is not None and self.pruner.learns:
            sums["pruner"] = self.pruner.loss(scores.pruner_scores, batch, self.training_decoder)
        sums |= {name: self._arc_loss(name, arc, batch) for name in self.losses if name != "hinge"}
        if scored is not None:  # last, so that a device computes the other losses while the decoder searches
            sums["hinge"] = self._hinge(arc, scored, batch.on_host.heads, completion)
        yield sums

    def _learn_pruner(self, batch: Batch[Tensor]) -> Tensor:
        assert self.pruner is not None
        with torch.no_grad():
            vectors, for_tags = self.encode(batch)
        scores = NetworkScores(self, batch, vectors, for_tags=for_tags).pruner_scores
        loss = self.pruner.loss(scores, batch, self.decoder) / self._per_device(batch.on_host)[0]
        size = len(batch.lengths)
        self.log("train/pruner", loss.detach(), on_step=False, on_epoch=True, batch_size=size, sync_dist=True)
        self.log("loss", loss.detach(), prog_bar=True, logger=False, batch_size=size)
        return loss

    def _per_device(self, batch: Batch[NDArray[Any]]) -> tuple[Tensor | int, Tensor | int]:
        """Words and annotated words of a step, at least one; of several devices, the means.

        Gradients are means over devices, so all words of a step have the same weight, wherever they are.
        """
        words, annotated = int(batch.lengths.sum()), int((batch.heads >= 0).sum())
        devices = self._trainer.world_size if self._trainer is not None else 1
        if devices == 1:
            return max(1, words), max(1, annotated)
        both = torch.stack([torch.full((), float(count), device=self.device) for count in (words, annotated)])
        words_there, annotated_there = self.trainer.strategy.reduce(both, reduce_op="mean").clamp(min=1 / devices)
        return words_there, annotated_there

    def _arc_loss(self, name: Loss, arc: Tensor, batch: Batch[Tensor]) -> Tensor:
        if name == "cross_entropy":
            return losses.head_cross_entropy(arc, batch.heads)
        heads, lengths = (torch.from_numpy(array) for array in (batch.on_host.heads, batch.on_host.lengths))
        single_root, projective = self.training_decoder.single_root, name == "projective_crf"
        loss, outside = losses.crf(arc, heads, lengths, single_root, projective)
        self._log_share("train/outside", outside, len(lengths))
        return loss

    def _completion(self, arc: Tensor, batch: Batch[NDArray[Any]]) -> NDArray[np.int32] | None:
        """(B, N) best trees that agree with gold heads, by arcs; None if all words have these."""
        if (batch.heads >= 0).sum() == batch.lengths.sum():
            return None
        several = ((batch.heads == 0).sum(1) > 1).any()
        single_root = self.training_decoder.single_root and not several
        return Constraints(batch.heads).complete(arc.detach().float().cpu().numpy(), batch.lengths, single_root)

    def _hinge(
        self, arc: Tensor, scored: ScoredParts, heads: NDArray[np.int64], completion: NDArray[np.int32] | None
    ) -> Tensor:
        loss, violations = losses.hinge(
            arc, torch.from_numpy(heads), scored.parts, self.training_decoder, scored.score_some, completion
        )
        self._log_share("train/violations", violations, len(heads))
        return loss

    def _log_share(self, name: str, count: Tensor, size: int) -> None:
        """Log the share of a batch's sentences."""
        self.log(name, count / size, on_step=False, on_epoch=True, batch_size=size, sync_dist=True)

    def on_train_epoch_start(self) -> None:
        if self.pruner is not None and self.pruner.phases > 1:
            phases, epochs = self.pruner.phases, self.trainer.max_epochs or 0
            if epochs < phases:
                raise ValueError(
                    f"pruner.stagewise trains {phases} stages one after the other: set trainer.max_epochs to at least "
                    f"{phases}, got {epochs}"
                )
            self.pruner.start_phase(self.current_epoch * phases // epochs)

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        if (batch_idx + 1) % STEPS_BETWEEN_TRIMS == 0:
            _return_memory()

    def on_validation_epoch_start(self) -> None:
        self._counts.zero_()
        if self.pruner is not None:
            if self.pruner.tunes and self.trainer.state.fn == "fit" and not self.trainer.sanity_checking:
                self._tune_pruner(self.pruner)
            self.pruner.watch()

    @torch.no_grad()
    def _tune_pruner(self, pruner: Pruner) -> None:
        """Let the pruner see the development part, or the first `TUNED_WORDS` of it, before it is evaluated on it."""
        batches, words = [], 0
        for batch in self.trainer.val_dataloaders or ():
            if len(batch.lengths):
                batches.append(self.score(batch).pruner_scores)
                words += int(batch.lengths.sum())
            if words > TUNED_WORDS:
                break
        reduce = self.trainer.strategy.reduce
        pruner.tune(batches, self.decoder, lambda value, how: reduce(value, reduce_op=how))

    def validation_step(self, batch: Batch[Any], _: int) -> None:
        if len(batch.lengths):
            self._counts += self._count(batch, BatchParser(self, self.decoder)(batch))

    def _count(self, batch: Batch[Any], found: LabelledTrees) -> Tensor:
        """(14,) words with the right head; with right head and label, without subtypes; with right head and full label.

        Then words that could have the right head, words, and arcs.

        Then, for each of `TAGS`, words with the gold class, and annotated words.
        """
        word, gold = np.asarray(batch.is_word), np.asarray(batch.heads)
        head = word & (gold == found.heads)
        labels = np.asarray(batch.labels)
        both = head & (labels == found.labels)
        official = head & (self.vocabulary.base_labels(labels) == self.vocabulary.base_labels(found.labels))
        possible = 0
        if self.pruner is not None:
            possible = int(oracle(found.parts, gold, self.decoder.single_root, self.decoder.projective).sum())
        counts = [head.sum(), official.sum(), both.sum(), possible, word.sum(), len(found.parts.head)]
        for column, name in enumerate(TAGS):
            gold = np.asarray(batch.tags)[column][word]
            right = gold == found.tags[name].classes if name in found.tags else np.zeros(len(gold))
            counts += [right.sum(), (gold != NOT_ANNOTATED).sum()]
        return torch.tensor([int(count) for count in counts])

    def on_validation_epoch_end(self) -> None:
        self._log_attachment("dev")

    def on_test_epoch_start(self) -> None:
        self.on_validation_epoch_start()

    def test_step(self, batch: Batch[Any], index: int) -> None:
        self.validation_step(batch, index)

    def on_test_epoch_end(self) -> None:
        self._log_attachment("test")

    def _log_attachment(self, part: str) -> None:
        """Log UAS, LAS without and with subtypes, accuracy of tags, and what the pruner leaves, over all devices."""
        counts = self.trainer.strategy.reduce(self._counts.to(self.device), reduce_op="sum")
        words = counts[4].clamp(min=1)
        uas, las, full, possible = (100 * counts[:4] / words).tolist()
        figures = {f"{part}/UAS": uas, f"{part}/LAS": las, f"{part}/LAS_full": full}
        self.log_dict(figures, prog_bar=True, sync_dist=True)
        of_tags = dict(zip(TAGS, counts[6:].view(-1, 2).tolist()))
        accuracy = {TAG_FIGURES[name]: 100 * of_tags[name][0] / max(of_tags[name][1], 1) for name in self.predicts}
        self.log_dict({f"{part}/{name}": share for name, share in accuracy.items()}, sync_dist=True)
        if self.pruner is not None:
            arcs = (counts[5] / words).item()
            self.log_dict({f"{part}/oracle_UAS": possible, f"{part}/arcs_per_word": arcs}, sync_dist=True)
            reduce = self.trainer.strategy.reduce
            figures = self.pruner.figures(lambda value, how: reduce(value, reduce_op=how))
            self.log_dict({f"{part}/pruner/{name}": value for name, value in figures.items()}, sync_dist=True)

    def configure_optimizers(self) -> Any:
        settings = self.optimization
        pretrained = {
            id(weight): settings.pretrained_lr * settings.layer_decay**above
            for weight, above in self.encoder.pretrained_parameters()
        }
        embedded = {
            id(weight)
            for module in self.modules()
            if isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag))
            for weight in module.parameters()
        }
        groups: dict[tuple[float, float], list[Tensor]] = {}
        for weight in self.parameters():
            if weight.requires_grad:
                lr = pretrained.get(id(weight), settings.lr)
                decays = weight.dim() > 1 and id(weight) not in embedded
                groups.setdefault((lr, settings.weight_decay if decays else 0.0), []).append(weight)
        optimizer = torch.optim.AdamW(
            [{"params": weights, "lr": lr, "weight_decay": decay} for (lr, decay), weights in groups.items()],
            betas=settings.betas,
            fused=self._fused,
        )
        total, epochs = self.trainer.estimated_stepping_batches, max(1, self.trainer.max_epochs or 1)
        phases = self.pruner.phases if self.only_pruner and self.pruner is not None else 1
        starts = [
            total * -(-phase * epochs // phases) / epochs for phase in range(phases + 1)
        ]  # at the start of epochs
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: self._rate(step, starts))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    @property
    def _fused(self) -> bool:
        """Whether the optimizer takes one pass over the weights; with fp16 it would undo the scaling by itself."""
        return self.trainer.scaler is None

    def configure_gradient_clipping(
        self, optimizer: Any, gradient_clip_val: float | None = None, gradient_clip_algorithm: str | None = None
    ) -> None:
        if self._fused and gradient_clip_val and gradient_clip_algorithm != "value":
            # Lightning refuses this for every fused optimizer in mixed precision.
            torch.nn.utils.clip_grad_norm_(self.parameters(), gradient_clip_val)
        else:
            super().configure_gradient_clipping(optimizer, gradient_clip_val, gradient_clip_algorithm)

    def _rate(self, step: int, starts: Sequence[float]) -> float:
        """Share of the peak learning rate at a step; it rises and falls once in each phase of training.

        Args:
            step: of training.
            starts: the first step of each phase, and the last of all.
        """
        if not math.isfinite(starts[-1]):
            return 1.0
        phase = min(max(bisect_right(starts, step) - 1, 0), len(starts) - 2)
        done, total = step - starts[phase], starts[phase + 1] - starts[phase]
        warmup = self.optimization.warmup * total
        if done < warmup:
            return (done + 1) / (warmup + 1)
        return max(0.0, (total - done) / max(1.0, total - warmup)) if self.optimization.decay else 1.0

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint[KEY] = describe(self.settings | self.training_settings, self.vocabulary.as_dict())
        with TemporaryDirectory() as folder:
            self.save_files(Path(folder))
            if files := pack_files(Path(folder)):
                checkpoint[FILES] = files
        checkpoint.update(pack_tokenizer(self.tokenizer))

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        settings, vocabulary, _ = understand(checkpoint[KEY])
        for name in ("encoder", "scorer", "parts", "features", "pruner", "taggers"):
            if settings.get(name) != self.settings[name]:
                raise ValueError(f"--model.{name} differs from the checkpoint: use the config.yaml of its run")
        if not self.vocabulary.matches(vocabulary):
            raise ValueError(
                "the checkpoint was trained on another training part than --data.train: resume with the same file"
            )


def _interleaved(batches: Sequence[Iterator[dict[str, Tensor]]]) -> Iterator[dict[str, Tensor]]:
    """Losses of batches, whose steps are taken so that a device encodes a batch while a decoder searches the last."""
    before: Iterator[dict[str, Tensor]] | None = None
    for batch in batches:
        next(batch)
        if before is not None:
            yield next(before)
        next(batch)
        before = batch
    if before is not None:
        yield next(before)


def _return_memory() -> None:
    """Give freed memory back to the system. Batches differ in shape, and glibc keeps pieces of all of their sizes."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
