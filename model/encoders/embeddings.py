"""Embeddings of words, the input of recurrent encoders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from arbora.data.batch import Batch
from arbora.data.vocabulary import PAD, ROOT, SPECIAL, UNKNOWN, Vocabulary
from arbora.model.encoders.recurrence import FastLSTM, Packed


@dataclass(frozen=True)
class Embeddings:
    """Settings of the input layer. A size of 0 turns a column off.

    Pretrained word vectors (`data.vectors`) are used in addition to these columns, and are not trained.

    Args:
        words: size of word embeddings.
        characters: size of the vector that a network computes from the characters of a word.
        character_network: type of this network: convolutions (`cnn`), or a bidirectional LSTM (`lstm`).
        upos: size of embeddings of universal tags.
        xpos: size of embeddings of language-specific tags.
        feats: size of embeddings of morphological features; the features of a word are summed.
        lemmas: size of embeddings of lemmas.
        treebanks: size of embeddings of treebanks, if there are several.
        word_dropout: share of words and lemmas that are replaced by the unknown word in training.
        column_dropout: share of words for which a column is dropped in training, independently for each column; the
            other columns are scaled up.
    """

    words: int = 100
    characters: int = 100
    character_network: Literal["cnn", "lstm"] = "cnn"
    upos: int = 0
    xpos: int = 0
    feats: int = 0
    lemmas: int = 0
    treebanks: int = 32
    word_dropout: float = 0.15
    column_dropout: float = 0.0

    @property
    def tags(self) -> tuple[str, ...]:
        """Columns that the input must have."""
        return tuple(column for column in ("upos", "xpos", "feats", "lemmas") if getattr(self, column))


class CharacterCNN(nn.Module):
    """Kim (2014): convolutions of two widths over a word's characters, maximum over positions."""

    def __init__(self, characters: int, size: int, embedding: int = 32) -> None:
        super().__init__()
        self.size = size
        self.embedding = nn.Embedding(characters, embedding, padding_idx=PAD)
        self.narrow = nn.Conv1d(embedding, size // 2, kernel_size=3, padding=1)
        self.wide = nn.Conv1d(embedding, size - size // 2, kernel_size=5, padding=2)

    def forward(self, characters: Tensor, _: NDArray[np.integer]) -> Tensor:
        """(U, C) indices of characters to (U, size)."""
        letters = self.embedding(characters).transpose(1, 2)  # (U, embedding, C)
        windows = torch.cat([self.narrow(letters), self.wide(letters)], 1)  # (U, size, C)
        outside = (characters == PAD)[:, None]
        return F.relu(windows.masked_fill(outside, -torch.inf).amax(2))


class CharacterLSTM(nn.Module):
    """Ling et al. (2015): the last states of an LSTM from either end of a word."""

    def __init__(self, characters: int, size: int, embedding: int = 32) -> None:
        super().__init__()
        if size % 2:
            raise ValueError(f"the size of a character LSTM must be even, half of it for each direction, got {size}")
        self.size = size
        self.embedding = nn.Embedding(characters, embedding, padding_idx=PAD)
        self.lstm = FastLSTM(embedding, size // 2, batch_first=True, bidirectional=True)

    def forward(self, characters: Tensor, on_host: NDArray[np.integer]) -> Tensor:
        """(U, C) indices of characters to (U, size)."""
        lengths = (characters != PAD).sum(1)
        packed = Packed.of(self.embedding(characters), lengths, (on_host != PAD).sum(1))
        return self.lstm.last_states(packed, lengths)


CHARACTER_NETWORKS: dict[str, type[CharacterCNN | CharacterLSTM]] = {"cnn": CharacterCNN, "lstm": CharacterLSTM}


class InputLayer(nn.Module):
    """Concatenates the embeddings of the columns of a word."""

    def __init__(self, settings: Embeddings, vocabulary: Vocabulary) -> None:
        super().__init__()
        for name in ("word_dropout", "column_dropout"):
            if not 0 <= getattr(settings, name) <= 1:
                raise ValueError(f"{name} must be between 0 and 1, got {getattr(settings, name)}")
        self.word_dropout = settings.word_dropout
        self.column_dropout = settings.column_dropout
        sizes = {"words": settings.words, "upos": settings.upos, "xpos": settings.xpos, "lemmas": settings.lemmas}
        self.columns = nn.ModuleDict(
            {
                column: nn.Embedding(vocabulary.size(column), size, padding_idx=PAD)
                for column, size in sizes.items()
                if size
            }
        )
        self.feats = (
            nn.EmbeddingBag(vocabulary.size("feats"), settings.feats, mode="sum", padding_idx=PAD)
            if settings.feats
            else None
        )
        self.characters: CharacterCNN | CharacterLSTM | None = (
            CHARACTER_NETWORKS[settings.character_network](vocabulary.size("characters"), settings.characters)
            if settings.characters
            else None
        )
        self.vectors = (
            nn.Embedding(vocabulary.size("pretrained"), vocabulary.vector_size) if vocabulary.pretrained else None
        )
        if self.vectors is not None:
            nn.init.zeros_(self.vectors.weight)
            self.vectors.requires_grad_(False)
            if vocabulary.vectors is not None:
                self.vectors.weight[SPECIAL:] = torch.from_numpy(vocabulary.vectors)
        # Last, so that the weights of a parser of one treebank fit one of several.
        self.treebanks = (
            nn.Embedding(vocabulary.size("treebanks"), settings.treebanks)
            if settings.treebanks and vocabulary.treebanks
            else None
        )
        self.size = sum(sizes.values()) + settings.feats + settings.characters + vocabulary.vector_size
        if not self.size:
            raise ValueError("the input layer reads nothing: set a size (words, characters, upos, ...) above 0")
        self.size += settings.treebanks if self.treebanks is not None else 0

    def forward(self, batch: Batch[Tensor]) -> Tensor:
        """(B, N, size)."""
        read = {column: getattr(batch, column) for column in self.columns}
        for column in ("words", "lemmas"):
            if column in read and self.training and self.word_dropout:
                dropped = torch.rand(read[column].shape, device=read[column].device) < self.word_dropout
                read[column] = read[column].masked_fill(dropped & (read[column] > ROOT), UNKNOWN)
        vectors = [table(read[column]) for column, table in self.columns.items()]
        if self.feats is not None:
            shape = batch.feats.shape
            vectors.append(self.feats(batch.feats.flatten(0, 1)).view(shape[0], shape[1], -1))
        if self.characters is not None:
            vectors.append(F.embedding(batch.spelling, self.characters(batch.characters, batch.on_host.characters)))
        if self.vectors is not None:
            vectors.append(self.vectors(batch.pretrained))
        if self.training and self.column_dropout:
            vectors = self._drop_columns(vectors)
        if self.treebanks is not None:
            vectors.append(self.treebanks(batch.treebanks))
        return torch.cat(vectors, -1)

    def _drop_columns(self, vectors: list[Tensor]) -> list[Tensor]:
        """Dozat and Manning (2017), section 3.3: scale the remaining columns of a word to make up for the others."""
        shape = (len(vectors), *vectors[0].shape[:2])
        kept = (torch.rand(shape, device=vectors[0].device) >= self.column_dropout).to(vectors[0].dtype)
        kept = kept * len(vectors) / kept.sum(0).clamp(min=1)
        return [vector * factor[..., None] for vector, factor in zip(vectors, kept)]
