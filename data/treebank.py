"""A treebank as a Lightning data module: files in, batches out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytorch_lightning as pl
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, IterableDataset

from arbora.data.batch import Batch, IndexedSentence, collate, cut, index_sentences, share
from arbora.data.conll import Sentence, read_conll
from arbora.data.vectors import read_vectors
from arbora.data.vocabulary import Vocabulary

Part = Literal["train", "dev", "test"]
logger = logging.getLogger("arbora")


class Treebank(pl.LightningDataModule):
    """Training, development and test part of a treebank.

    Args:
        train: file to train on, CoNLL-U or CoNLL-X. The vocabulary is built from it. If there are several files, each
            is a treebank with its own embedding, named after the file, or after the folder if files have the same name.
        dev: file that chooses the best checkpoint.
        test: file for `arbora train test`.
        treebank: treebank of `dev` and `test`, if there are several; by default, the first.
        format: format of the files; `auto` decides by their content.
        single_root: refuse sentences that do not have exactly one word attached to the root.
        skip_invalid: skip malformed sentences, with a warning that counts them, instead of stopping.
        max_tokens: size of a training batch, in padded positions.
        max_eval_tokens: size of a batch in evaluation, which needs no memory for gradients.
        min_frequency: words, lemmas and lemma rules that occur less often in training are unknown.
        vectors: file of pretrained word vectors, in word2vec's text or binary (`.bin`) or GloVe's text format.
        max_vectors: maximum number of vectors to read.
        sample: train on a random sample of this many sentences instead of all.
        fold: number of the sample; fold i of the same seed is always the same set of sentences.
        max_length: exclude longer sentences from training (never from evaluation).
        seed: seed of the samples and of the order of batches.
    """

    def __init__(
        self,
        train: str | list[str] | None = None,
        dev: str | None = None,
        test: str | None = None,
        treebank: str | None = None,
        format: Literal["auto", "conllu", "conllx"] = "auto",
        single_root: bool = False,
        skip_invalid: bool = False,
        max_tokens: int = 1500,
        max_eval_tokens: int = 4000,
        min_frequency: int = 2,
        vectors: str | None = None,
        max_vectors: int = 200_000,
        sample: int | None = None,
        fold: int = 0,
        max_length: int | None = None,
        seed: int = 1,
    ) -> None:
        super().__init__()
        least = {
            "max_tokens": (max_tokens, 1),
            "max_eval_tokens": (max_eval_tokens, 1),
            "max_vectors": (max_vectors, 1),
        }
        least |= {"fold": (fold, 0), "seed": (seed, 0)}
        least |= {name: (n, 1) for name, n in (("sample", sample), ("max_length", max_length)) if n is not None}
        for name, (value, bound) in least.items():
            if value < bound:
                raise ValueError(f"data.{name} must be at least {bound}, got {value}")
        given: dict[Part, str | None] = {"dev": dev, "test": test}
        self.files: dict[Part, list[str]] = {part: [] if file is None else [file] for part, file in given.items()}
        self.files["train"] = [train] if isinstance(train, str) else train or []
        self.names = _names(self.files["train"]) if len(self.files["train"]) > 1 else {}
        self.treebank = treebank
        self.format: Literal["auto", "conllu", "conllx"] = format
        self.single_root = single_root
        self.skip_invalid = skip_invalid
        self.max_tokens = max_tokens
        self.max_eval_tokens = max_eval_tokens
        self.min_frequency = min_frequency
        self.vectors = vectors
        self.max_vectors = max_vectors
        self.sample = sample
        self.fold = fold
        self.max_length = max_length
        self.seed = seed
        self._sentences: dict[Part, list[Sentence]] = {}

    def sentences(self, part: Part) -> list[Sentence]:
        """Return the sentences of a part; for the training part, only those to train on."""
        if part not in self._sentences:
            if not self.files[part]:
                raise ValueError(f"no {part} file: give one with --data.{part} FILE")
            options: Any = {"format": self.format, "single_root": self.single_root, "skip_invalid": self.skip_invalid}
            options["partial"] = part == "train"
            found = [sentence for file in self.files[part] for sentence in read_conll(file, **options)]
            self._sentences[part] = self._selected(found) if part == "train" else found
        return self._sentences[part]

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Vocabulary of the training sentences. Set it to the vocabulary of an existing model."""
        pretrained = read_vectors(self.vectors, self.max_vectors) if self.vectors is not None else None
        return Vocabulary.of(self.sentences("train"), self.min_frequency, pretrained, list(self.names.values()))

    def train_dataloader(self) -> DataLoader[Batch[NDArray[Any]]]:
        return self._loader("train")

    def val_dataloader(self) -> DataLoader[Batch[NDArray[Any]]]:
        return self._loader("dev")

    def test_dataloader(self) -> DataLoader[Batch[NDArray[Any]]]:
        return self._loader("test")

    def _loader(self, part: Part) -> DataLoader[Batch[NDArray[Any]]]:
        training = part == "train"
        name = self.treebank if self.treebank is not None else next(iter(self.names.values()), None)
        indexed = [
            sentence
            for source, some in groupby(self.sentences(part), lambda sentence: sentence.source)
            for sentence in index_sentences(
                list(some), self.vocabulary, True, self.names.get(source, name) if training else name
            )
        ]
        batches = Batches(
            indexed,
            self.vocabulary,
            self.max_tokens if training else self.max_eval_tokens,
            seed=self.seed if training else None,
            epoch=lambda: self.trainer.current_epoch if self.trainer is not None else 0,
        )
        return DataLoader(batches, batch_size=None)

    def _selected(self, sentences: list[Sentence]) -> list[Sentence]:
        if self.max_length is not None:
            kept = [sentence for sentence in sentences if len(sentence) <= self.max_length]
            logger.info("%d of %d training sentences have up to %d words", len(kept), len(sentences), self.max_length)
            sentences = kept
        if self.sample is None:
            return sentences
        if self.sample > len(sentences):
            raise ValueError(
                f"data.sample is {self.sample}, but {', '.join(self.files['train'])} has {len(sentences)} sentences"
            )
        rng = np.random.default_rng([self.seed, self.fold])
        drawn = rng.choice(len(sentences), self.sample, replace=False)
        return [sentences[i] for i in sorted(drawn.tolist())]


def _names(files: Sequence[str]) -> dict[str, str]:
    """Return names of treebanks by file: the file name without suffixes, or else the name of the folder."""
    for names in (
        [Path(file).name.split(".")[0] for file in files],
        [Path(file).resolve().parent.name for file in files],
    ):
        if len(set(names)) == len(files):
            return dict(zip(files, names))
    raise ValueError(f"data.train: {', '.join(files)} have the same name and folder name; rename them")


class Batches(IterableDataset[Batch[NDArray[Any]]]):
    """Indexed sentences, cut into batches and distributed over the devices of a run.

    Lightning does not add a sampler, which would repeat sentences, to an iterable data set.

    Args:
        sentences: looked up in the vocabulary.
        vocabulary: gives the spelling of words.
        max_tokens: positions of a padded batch.
        seed: seed of the order in training; None in evaluation, where every sentence is used once, longest first.
        epoch: returns the current epoch; called at the start of every epoch.
    """

    def __init__(
        self,
        sentences: Sequence[IndexedSentence],
        vocabulary: Vocabulary,
        max_tokens: int,
        seed: int | None,
        epoch: Callable[[], int],
    ) -> None:
        self.sentences = sentences
        self.vocabulary = vocabulary
        self.max_tokens = max_tokens
        self.seed = seed
        self.epoch = epoch

    def positions(self, epoch: int) -> list[list[int]]:
        """Return the indices of the sentences in each batch of this device."""
        distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        rank = torch.distributed.get_rank() if distributed else 0
        ranks = torch.distributed.get_world_size() if distributed else 1
        rng = None if self.seed is None else np.random.default_rng([self.seed, epoch])
        batches = cut([len(sentence) for sentence in self.sentences], self.max_tokens, rng)
        return share(batches, rank, ranks, repeat=self.seed is not None)

    def __len__(self) -> int:
        return len(self.positions(0))

    def __iter__(self) -> Iterator[Batch[NDArray[Any]]]:
        for positions in self.positions(self.epoch()):
            yield collate([self.sentences[i] for i in positions], self.vocabulary)
