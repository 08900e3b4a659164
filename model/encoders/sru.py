"""Encoder of simple recurrent units."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from arbora.data.batch import Batch
from arbora.data.vocabulary import Vocabulary
from arbora.model.encoders.embeddings import Embeddings, InputLayer
from arbora.model.encoders.encoder import Between, Encoder, EncoderModule, narrowing
from arbora.model.encoders.scan import linear_scan
from arbora.model.layers import SharedDropout


@dataclass(frozen=True)
class SRU(Encoder):
    """Bidirectional simple recurrent units over embeddings, without matrix products inside the recurrence.

    Lei et al. (2018). Differs from the paper: there is no peephole from the state into the gates, so all gates are
    computed by one matrix product; they see the two neighbours of a word through a convolution of each dimension;
    layers are normalised.

    Args:
        embeddings: the columns to read.
        size: size of the state of each direction.
        layers: number of layers.
        dropout: dropout on the input of each layer and on the output, before the layer `output`; one mask for all words
            of a sentence.
        output: size of an additional last layer; by default, there is none. Smaller vectors make all scorers faster.
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
        return SRUModule(self, vocabulary)


class SRUModule(EncoderModule):
    def __init__(self, settings: SRU, vocabulary: Vocabulary) -> None:
        super().__init__()
        wide = 2 * settings.size
        self.size = settings.output or wide
        self.lower_sizes = (wide,) * (settings.layers - 1)
        self.input = InputLayer(settings.embeddings, vocabulary)
        sizes = [self.input.size] + [wide] * (settings.layers - 1)
        self.layers = nn.ModuleList(SRULayer(size, settings.size) for size in sizes)
        self.dropout = SharedDropout(settings.dropout)
        self.narrow = narrowing(wide, settings.output)

    def forward(self, batch: Batch[Tensor], between: Between | None = None) -> Tensor:
        inside = torch.arange(batch.words.shape[1], device=batch.words.device) <= batch.lengths[:, None]
        vectors = self.input(batch)
        for number, layer in enumerate(self.layers, 1):
            vectors = layer(self.dropout(vectors), inside)
            if between is not None and number < len(self.layers):
                vectors = between(number, vectors)
        output: Tensor = self.narrow(self.dropout(vectors))
        return output


class SRULayer(nn.Module):
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
        normalized: Tensor = self.norm(output)
        return normalized.transpose(0, 1)


def _reversed_second(both: Tensor) -> tuple[Tensor, Tensor]:
    """The halves of the last axis, the second one from right to left."""
    left_to_right, right_to_left = both.chunk(2, -1)
    return left_to_right, right_to_left.flip(0)
