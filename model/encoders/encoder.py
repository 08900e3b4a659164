"""Interface of encoders, which compute a vector for each word in its context.

An encoder is a frozen dataclass of its settings, chosen by class path on the command line, whose `build` makes the
module. Every module maps a `Batch` to (B, N, size), position 0 for the root, and has that `size` as an attribute.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path

from torch import Tensor, nn

from arbora.data.batch import Batch
from arbora.data.vocabulary import Vocabulary
from arbora.model.layers import Linear

Between = Callable[[int, Tensor], Tensor]
"""Called with the number of a layer, from 1, and its output; returns the input of the next layer."""


class EncoderModule(nn.Module, ABC):
    """Module that computes word vectors from a batch."""

    size: int
    lower_sizes: tuple[int, ...] = ()  # of the outputs of the layers before the last
    narrow: nn.Module  # the last layer

    @abstractmethod
    def forward(self, batch: Batch[Tensor], between: Between | None = None) -> Tensor:
        """(B, N, size).

        Args:
            batch: on the module's device.
            between: called between layers, if there are several.
        """

    def pretrained_parameters(self) -> Iterator[tuple[nn.Parameter, int]]:
        """Pretrained weights, which have their own learning rate, and how many layers are above each."""
        return iter(())

    def save_files(self, folder: Path) -> None:
        """Write the files that the module needs besides its weights into a new folder; `Encoder.build` reads it."""


class Encoder(ABC):
    """Settings of an encoder."""

    @property
    def tags(self) -> tuple[str, ...]:
        """Columns that it reads besides words; input without them is parsed less accurately."""
        return ()

    @abstractmethod
    def build(self, vocabulary: Vocabulary, files: Path | None = None) -> EncoderModule:
        """The module, with fresh weights.

        Args:
            vocabulary: of the training part.
            files: folder written by `EncoderModule.save_files`. If given, nothing else is read, and pretrained weights
                are not loaded.
        """


def narrowing(inputs: int, output: int | None) -> nn.Module:
    """Return the linear last layer of an encoder, which gives scorers smaller vectors to start from."""
    if output is None:
        return nn.Identity()
    if output < 1:
        raise ValueError(f"encoder.output must be at least 1, got {output}")
    linear = Linear(inputs, output, bias=False)
    nn.init.orthogonal_(linear.weight)
    return linear
