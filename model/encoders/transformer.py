"""A pretrained transformer as an encoder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from arbora.data.batch import Batch
from arbora.data.vocabulary import Vocabulary
from arbora.extras import importing_extra
from arbora.model.encoders.encoder import Between, Encoder, EncoderModule, narrowing
from arbora.model.layers import SharedDropout


@dataclass(frozen=True)
class Transformer(Encoder):
    """Any encoder model of Hugging Face's `transformers` (`pip install "arbora[transformer]"`).

    The vector of a word is the mean of the vectors of its pieces, or zero if it has no pieces. If a sentence has too
    many pieces for the model, it is read in consecutive stretches that fit. The weights are trained with the learning
    rate `model.optimization.pretrained_lr`.

    Args:
        name: name of a model on the hub, or a local folder.
        dropout: dropout on the word vectors, before the layer `output`; one mask for all words of a sentence.
        frozen: do not train the pretrained weights.
        output: size of an additional last layer; by default, there is none. Smaller vectors make all scorers faster.
    """

    name: str = "xlm-roberta-base"
    dropout: float = 0.33
    frozen: bool = False
    output: int | None = None

    def build(self, vocabulary: Vocabulary, files: Path | None = None) -> EncoderModule:
        return TransformerModule(self, files)


class TransformerModule(EncoderModule):
    """Runs a transformer on the pieces of words, and averages them for each word."""

    def __init__(self, settings: Transformer, files: Path | None) -> None:
        super().__init__()
        with importing_extra():
            from transformers import AutoConfig, AutoModel, AutoTokenizer
        source = settings.name if files is None else str(files)
        safe = {"trust_remote_code": False, "local_files_only": files is not None}
        try:
            self.tokenizer = AutoTokenizer.from_pretrained(source, use_fast=True, add_prefix_space=True, **safe)
            if files is None:
                self.model = AutoModel.from_pretrained(source, **safe)
            else:
                config = AutoConfig.from_pretrained(source, **safe)
                self.model = AutoModel.from_config(config, trust_remote_code=False)
        except (OSError, ValueError) as error:
            raise ValueError(f"cannot load the transformer {settings.name!r}: {str(error).splitlines()[0]}") from None
        self.model.requires_grad_(not settings.frozen).train(not settings.frozen)  # it comes in evaluation mode
        wide = self.model.config.hidden_size
        self.size = settings.output or wide
        # RoBERTa counts positions from two; models without a table of positions take any length.
        positions = getattr(self.model.config, "max_position_embeddings", self.tokenizer.model_max_length)
        self.longest = min(self.tokenizer.model_max_length, positions - 2)
        self.root = nn.Parameter(torch.randn(wide) * 0.02)
        self.dropout = SharedDropout(settings.dropout)
        self.narrow = narrowing(wide, settings.output)

    def pretrained_parameters(self) -> Iterator[nn.Parameter]:
        parameters: Iterator[nn.Parameter] = self.model.parameters()
        return parameters

    def save_files(self, folder: Path) -> None:
        self.tokenizer.save_pretrained(folder)
        self.model.config.save_pretrained(folder)

    def cut(self, forms: list[list[str]]) -> Any:
        """Split sentences into pieces, and long sentences into several stretches."""
        return self.tokenizer(
            forms,
            is_split_into_words=True,
            truncation=True,
            max_length=self.longest,
            return_overflowing_tokens=True,
            padding=True,
            return_tensors="pt",
        )

    def forward(self, batch: Batch[Tensor], between: Between | None = None) -> Tensor:
        device = batch.words.device
        pieces = self.cut(batch.forms)
        sentence_of_stretch = pieces.pop("overflow_to_sample_mapping").tolist()
        hidden = self.model(**pieces.to(device)).last_hidden_state  # (stretches, pieces, size)
        rows, columns = batch.words.shape
        # Special pieces and padding are added up at the root's place, which has a vector of its own.
        word_of_piece = [
            b * columns + (0 if word is None else word + 1)
            for stretch, b in enumerate(sentence_of_stretch)
            for word in pieces.word_ids(stretch)
        ]
        place = torch.tensor(word_of_piece, device=device)
        sums = hidden.new_zeros(rows * columns, hidden.shape[-1]).index_add(0, place, hidden.flatten(0, 1))
        counts = torch.bincount(place, minlength=rows * columns).clamp(min=1)
        vectors = (sums / counts[:, None]).view(rows, columns, -1)
        vectors = torch.cat([self.root.to(vectors.dtype).expand(rows, 1, -1), vectors[:, 1:]], 1)
        output: Tensor = self.narrow(self.dropout(vectors))
        return output
