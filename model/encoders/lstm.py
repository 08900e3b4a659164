"""Encoders: from a batch to one vector a word, its context taken in.

An encoder is a frozen dataclass of its settings, chosen by class path on the command line, whose `build` makes the
module. Every module maps a `Batch` to (B, N, size), position 0 for the root, and has that `size` as an attribute.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from arbora.data.batch import Batch
from arbora.data.vocabulary import Vocabulary
from arbora.model.encoders.embeddings import Embeddings, InputLayer
from arbora.model.encoders.scan import linear_scan


class EncoderModule(nn.Module, ABC):
    """From a batch to vectors."""

    size: int
    narrow: nn.Module  # the last layer

    @abstractmethod
    def forward(self, batch: Batch) -> Tensor:
        """(B, N, size)."""

    def pretrained_parameters(self) -> Iterator[nn.Parameter]:
        """Weights that are trained on with a learning rate of their own."""
        return iter(())

    def save_files(self, folder: Path) -> None:
        """Write what the module needs beside its weights into a folder, which it makes; `Encoder.build` reads it."""


class Encoder(ABC):
    """Settings of an encoder."""

    @property
    def tags(self) -> tuple[str, ...]:
        """Columns beside the words that it reads, so that text without them is parsed worse."""
        return ()

    @abstractmethod
    def build(self, vocabulary: Vocabulary, files: Path | None = None) -> EncoderModule:
        """The module, with fresh weights.

        Args:
            vocabulary: of the training part.
            files: folder that `EncoderModule.save_files` wrote. Where it is given, nothing else is read, and weights
                that would come pretrained are fresh too.
        """


class SharedDropout(nn.Module):
    """Dropout with one mask for all positions of a sentence (Gal and Ghahramani, 2016)."""

    def __init__(self, share: float) -> None:
        super().__init__()
        if not 0 <= share < 1:
            raise ValueError(f"dropout must be at least 0 and less than 1, got {share}")
        self.share = share

    def forward(self, vectors: Tensor) -> Tensor:
        if not self.training or not self.share:
            return vectors
        mask = torch.empty_like(vectors[:, :1]).bernoulli_(1 - self.share).div_(1 - self.share)
        return vectors * mask


GROUP_CELLS = 250_000
"""Numbers of words that `by_groups` takes at a time. What stays in a CPU's cache took two thirds of the time of a whole
batch."""


def by_groups(layer: nn.Module, compute: Callable[[Tensor], Tensor], vectors: Tensor) -> Tensor:
    """What a layer computes of each word by itself, (..., size) of (..., inputs): in parsing on a CPU, group by group.

    Args:
        layer: whose dropout, in training, wants whole sentences.
        compute: of any number of words.
        vectors: (..., inputs).
    """
    alone = not layer.training and not torch.is_grad_enabled() and vectors.device.type == "cpu"
    if not alone or vectors.numel() <= 2 * GROUP_CELLS or torch.onnx.is_in_onnx_export():
        return compute(vectors)
    words, size = vectors.flatten(0, -2), max(1, GROUP_CELLS // vectors.shape[-1])
    first = compute(words[:size])
    found = first.new_empty(len(words), first.shape[-1])
    found[:size] = first
    for start in range(size, len(words), size):
        found[start : start + size] = compute(words[start : start + size])
    return found.unflatten(0, vectors.shape[:-1])


class Projection(nn.Sequential):
    """A vector of a word in one role, such as head or modifier."""

    def __init__(self, inputs: int, size: int, dropout: float) -> None:
        linear = nn.Linear(inputs, size)
        nn.init.orthogonal_(linear.weight)
        nn.init.zeros_(linear.bias)
        super().__init__(linear, nn.LeakyReLU(0.1, inplace=True), SharedDropout(dropout))

    def forward(self, vectors: Tensor) -> Tensor:
        """Words (..., inputs) in this role, (..., size)."""
        return by_groups(self, super().forward, vectors)


def narrowing(inputs: int, output: int | None) -> nn.Module:
    """The last layer of an encoder, linear: what scores words in some role then starts from fewer numbers."""
    if output is None:
        return nn.Identity()
    if output < 1:
        raise ValueError(f"encoder.output must be at least 1, got {output}")
    linear = nn.Linear(inputs, output, bias=False)
    nn.init.orthogonal_(linear.weight)
    return linear


@dataclass(frozen=True)
class LSTM(Encoder):
    """Bidirectional LSTM over embeddings, as in Dozat and Manning (2017).

    Args:
        embeddings: the columns to read.
        size: of the hidden state of one direction.
        layers: how many.
        dropout: on the input of each layer and on the output, before it is narrowed; one mask for all words of a
            sentence.
        output: size of the vectors that come out, by one more layer; unless given, there is none. Smaller vectors make
            all scorers faster.
    """

    embeddings: Embeddings = field(default_factory=Embeddings)
    size: int = 200
    layers: int = 2
    dropout: float = 0.33
    output: int | None = None

    @property
    def tags(self) -> tuple[str, ...]:
        return self.embeddings.tags

    def build(self, vocabulary: Vocabulary, files: Path | None = None) -> EncoderModule:
        return _LSTM(self, vocabulary)


class _LSTM(EncoderModule):
    def __init__(self, settings: LSTM, vocabulary: Vocabulary) -> None:
        super().__init__()
        wide = 2 * settings.size
        self.size = settings.output or wide
        self.input = InputLayer(settings.embeddings, vocabulary)
        sizes = [self.input.size] + [wide] * (settings.layers - 1)
        self.layers = nn.ModuleList(
            nn.LSTM(size, settings.size, batch_first=True, bidirectional=True) for size in sizes
        )
        self.dropout = SharedDropout(settings.dropout)
        self.narrow = narrowing(wide, settings.output)

    def forward(self, batch: Batch) -> Tensor:
        vectors = self.dropout(self.input(batch))
        lengths = (batch.lengths + 1).cpu()
        # Without dropout in between, padding need not be narrowed; ONNX knows no layer of packed vectors.
        padded = self.training or torch.onnx.is_in_onnx_export()
        for layer in self.layers:
            packed = layer(pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False))[0]
            if layer is self.layers[-1] and not padded:
                packed = packed._replace(data=self.narrow(packed.data))
            vectors = self.dropout(pad_packed_sequence(packed, batch_first=True, total_length=vectors.shape[1])[0])
        output: Tensor = self.narrow(vectors) if padded else vectors
        return output


@dataclass(frozen=True)
class SRU(Encoder):
    """Bidirectional simple recurrent units over embeddings: no product with a matrix inside the recurrence.

    Lei et al. (2018). Differs from the paper: no peephole from the state into the gates, so that all gates come from
    one matrix product; they see a word's two neighbours through a convolution of each dimension; layers are normalised.

    Args:
        embeddings: the columns to read.
        size: of the state of one direction.
        layers: how many.
        dropout: on the input of each layer and on the output, before it is narrowed; one mask for all words of a
            sentence.
        output: size of the vectors that come out, by one more layer; unless given, there is none. Smaller vectors make
            all scorers faster.
    """

    embeddings: Embeddings = field(default_factory=Embeddings)
    size: int = 200
    layers: int = 3
    dropout: float = 0.33
    output: int | None = None

    @property
    def tags(self) -> tuple[str, ...]:
        return self.embeddings.tags

    def build(self, vocabulary: Vocabulary, files: Path | None = None) -> EncoderModule:
        return _SRU(self, vocabulary)


class _SRU(EncoderModule):
    def __init__(self, settings: SRU, vocabulary: Vocabulary) -> None:
        super().__init__()
        wide = 2 * settings.size
        self.size = settings.output or wide
        self.input = InputLayer(settings.embeddings, vocabulary)
        sizes = [self.input.size] + [wide] * (settings.layers - 1)
        self.layers = nn.ModuleList(_SRULayer(size, settings.size) for size in sizes)
        self.dropout = SharedDropout(settings.dropout)
        self.narrow = narrowing(wide, settings.output)

    def forward(self, batch: Batch) -> Tensor:
        inside = torch.arange(batch.words.shape[1], device=batch.words.device) <= batch.lengths[:, None]
        vectors = self.input(batch)
        for layer in self.layers:
            vectors = layer(self.dropout(vectors), inside)
        output: Tensor = self.narrow(self.dropout(vectors))
        return output


class _SRULayer(nn.Module):
    def __init__(self, inputs: int, size: int) -> None:
        super().__init__()
        self.window = nn.Conv1d(inputs, inputs, kernel_size=3, padding=1, groups=inputs)
        self.gates = nn.Linear(inputs, 6 * size)
        self.highway = nn.Linear(inputs, 2 * size, bias=False) if inputs != 2 * size else nn.Identity()
        self.norm = nn.LayerNorm(2 * size)
        spread = (3 / inputs) ** 0.5
        nn.init.uniform_(self.gates.weight, -spread, spread)
        nn.init.zeros_(self.gates.bias)
        nn.init.ones_(self.gates.bias[2 * size : 4 * size])  # remember at first

    def forward(self, vectors: Tensor, inside: Tensor) -> Tensor:
        """(B, N, inputs) and which positions are no padding, (B, N), to (B, N, 2 size)."""
        vectors = vectors * inside[..., None]
        seen = vectors + self.window(vectors.transpose(1, 2)).transpose(1, 2)
        states, forget, reset = self.gates(seen.transpose(0, 1)).chunk(3, -1)  # (N, B, 2 size) each
        # Padding keeps the state at zero, from which the right-to-left direction then starts.
        states = states * inside.t()[..., None]
        states, forget = (torch.stack(_reversed_second(x)) for x in (states, forget.sigmoid()))
        left_to_right, right_to_left = linear_scan(states.transpose(0, 1), forget.transpose(0, 1)).unbind(1)
        context = torch.cat([left_to_right, right_to_left.flip(0)], -1)
        reset = reset.sigmoid()
        output = reset * context + (1 - reset) * self.highway(vectors.transpose(0, 1))
        return self.norm(output).transpose(0, 1)


def _reversed_second(both: Tensor) -> tuple[Tensor, Tensor]:
    """The halves of the last axis, the second one from right to left."""
    left_to_right, right_to_left = both.chunk(2, -1)
    return left_to_right, right_to_left.flip(0)
