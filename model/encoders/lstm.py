"""Bidirectional LSTM encoder."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
from torch import Tensor, nn

from arbora.data.batch import Batch
from arbora.data.vocabulary import Vocabulary
from arbora.model.encoders.embeddings import Embeddings, InputLayer
from arbora.model.encoders.encoder import Between, Encoder, EncoderModule, narrowing
from arbora.model.encoders.recurrence import FastLSTM, Packed
from arbora.model.layers import SharedDropout


@dataclass(frozen=True)
class LSTM(Encoder):
    """Bidirectional LSTM over embeddings, as in Dozat and Manning (2017).

    Args:
        embeddings: the columns to read.
        size: size of the hidden state of each direction.
        layers: number of layers.
        dropout: dropout on the input of each layer and on the output, before the layer `output`; one mask for all words
            of a sentence.
        output: size of an additional last layer; by default, there is none. Smaller vectors make all scorers faster.
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
        return LSTMModule(self, vocabulary)


class LSTMModule(EncoderModule):
    def __init__(self, settings: LSTM, vocabulary: Vocabulary) -> None:
        super().__init__()
        wide = 2 * settings.size
        self.size = settings.output or wide
        self.lower_sizes = (wide,) * (settings.layers - 1)
        self.input = InputLayer(settings.embeddings, vocabulary)
        sizes = [self.input.size] + [wide] * (settings.layers - 1)
        self.layers = nn.ModuleList(
            FastLSTM(size, settings.size, batch_first=True, bidirectional=True) for size in sizes
        )
        self.dropout = SharedDropout(settings.dropout)
        self.narrow = narrowing(wide, settings.output)

    def forward(self, batch: Batch[Tensor], between: Between | None = None) -> Tensor:
        vectors = self.dropout(self.input(batch))
        lengths, on_host = batch.lengths + 1, np.asarray(batch.on_host.lengths) + 1
        for number, layer in enumerate(self.layers, 1):
            packed = Packed.of(vectors, lengths, on_host)
            states = cast(FastLSTM, layer).states(packed.sequences)
            if number == len(self.layers) and not self.training:  # without dropout in between, padding is left out
                states = states._replace(data=self.narrow(states.data))
            vectors = self.dropout(packed._replace(sequences=states).padded(vectors.shape[1]))
            if between is not None and number < len(self.layers):
                vectors = between(number, vectors)
        output: Tensor = self.narrow(vectors) if self.training else vectors
        return output
