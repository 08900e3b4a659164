"""Encoders: from a batch to one vector for each word in its context.

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

Between = Callable[[int, Tensor], Tensor]
"""Called with the number of a layer, from 1, and its output; gives what the next layer reads."""


class EncoderModule(nn.Module, ABC):
    """From a batch to vectors."""

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

    def pretrained_parameters(self) -> Iterator[nn.Parameter]:
        """Weights that are trained on with a learning rate of their own."""
        return iter(())

    def save_files(self, folder: Path) -> None:
        """Write what the module needs besides its weights into a folder, which it makes; `Encoder.build` reads it."""


class Encoder(ABC):
    """Settings of an encoder."""

    @property
    def tags(self) -> tuple[str, ...]:
        """Columns that it reads besides words, so that text without them is parsed worse."""
        return ()

    @abstractmethod
    def build(self, vocabulary: Vocabulary, files: Path | None = None) -> EncoderModule:
        """The module, with fresh weights.

        Args:
            vocabulary: of the training part.
            files: folder that `EncoderModule.save_files` wrote. Where it is given, nothing else is read, and weights
                that would come pretrained are fresh too.
        """


def narrowing(inputs: int, output: int | None) -> nn.Module:
    """The last layer of an encoder, linear: what scores words in some role then starts from fewer numbers."""
    if output is None:
        return nn.Identity()
    if output < 1:
        raise ValueError(f"encoder.output must be at least 1, got {output}")
    linear = nn.Linear(inputs, output, bias=False)
    nn.init.orthogonal_(linear.weight)
    return linear
