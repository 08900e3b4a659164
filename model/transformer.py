"""A pretrained transformer as an encoder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from arbora.data.batch import Batch
from arbora.data.vocabulary import Vocabulary
from arbora.model.encoders import Encoder, EncoderModule, SharedDropout


@dataclass(frozen=True)
class Transformer(Encoder):
    """Any encoder model of Hugging Face's `transformers` (`pip install "arbora[transformer]"`).

    A word's vector is the mean of its pieces' vectors. A sentence with more pieces than the model takes is read in
    consecutive stretches that fit. Its weights learn at `model.optimization.pretrained_lr`.

    Args:
        name: of a model on the hub, or a local folder.
        dropout: on the words' vectors; one mask for all words of a sentence.
        frozen: leave the pretrained weights as they are.
    """

    name: str = "xlm-roberta-base"
    dropout: float = 0.33
    frozen: bool = False

    def build(self, vocabulary: Vocabulary) -> EncoderModule:
        return _Transformer(self)


class _Transformer(EncoderModule):
    def __init__(self, settings: Transformer) -> None:
        super().__init__()
        try:
            from transformers import AutoModel, AutoTokenizer
        except ImportError:
            raise ValueError('a transformer needs an extra package: pip install "arbora[transformer]"') from None
        try:
            self.tokenizer = AutoTokenizer.from_pretrained(settings.name, use_fast=True)
            self.model = AutoModel.from_pretrained(settings.name)
        except (OSError, ValueError) as error:
            raise ValueError(f"cannot load the transformer {settings.name!r}: {str(error).splitlines()[0]}") from None
        self.model.requires_grad_(not settings.frozen)
        self.size = self.model.config.hidden_size
        special = self.tokenizer.num_special_tokens_to_add()
        self.longest = min(self.tokenizer.model_max_length, self.model.config.max_position_embeddings - 2) - special
        self.root = nn.Parameter(torch.randn(self.size) * 0.02)
        self.dropout = SharedDropout(settings.dropout)

    def pretrained_parameters(self) -> Iterator[nn.Parameter]:
        return self.model.parameters()

    def forward(self, batch: Batch) -> Tensor:
        device = batch.words.device
        words = [form for forms in batch.forms for form in forms]
        pieces: list[list[int]] = self.tokenizer(words, add_special_tokens=False)["input_ids"] if words else []
        # A form the tokenizer makes nothing of (a control character, say) is an unknown piece.
        pieces = [word[: self.longest] or [self.tokenizer.unk_token_id] for word in pieces]
        stretches = self._stretches(pieces, [len(forms) for forms in batch.forms])
        inputs = [self.tokenizer.build_inputs_with_special_tokens(sum(pieces[a:b], [])) for a, b in stretches]
        padded = self.tokenizer.pad({"input_ids": inputs}, return_tensors="pt").to(device)
        hidden = self.model(**padded).last_hidden_state  # (stretches, pieces, size)
        before = self._leading()
        word_of_piece = torch.full(padded["input_ids"].shape, len(words), dtype=torch.long)
        for row, (a, b) in enumerate(stretches):
            numbers = [word for word in range(a, b) for _ in pieces[word]]
            word_of_piece[row, before : before + len(numbers)] = torch.tensor(numbers, dtype=torch.long)
        flat = word_of_piece.flatten().to(device)
        sums = hidden.new_zeros(len(words) + 1, self.size).index_add(0, flat, hidden.flatten(0, 1))
        counts = torch.bincount(flat, minlength=len(words) + 1)[:-1, None]
        vectors = hidden.new_zeros(*batch.words.shape, self.size)
        vectors[batch.is_word] = (sums[:-1] / counts).to(vectors.dtype)
        vectors[:, 0] = self.root.to(vectors.dtype)
        output: Tensor = self.dropout(vectors)
        return output

    def _leading(self) -> int:
        """Special pieces before a text's own."""
        probe = self.tokenizer.unk_token_id
        return self.tokenizer.build_inputs_with_special_tokens([probe]).index(probe)

    def _stretches(self, pieces: list[list[int]], lengths: list[int]) -> list[tuple[int, int]]:
        """Consecutive words, as ranges over the whole batch, with at most `longest` pieces each."""
        stretches = []
        start = 0
        for length in lengths:
            end, first, count = start + length, start, 0
            for word in range(start, end):
                if count + len(pieces[word]) > self.longest:
                    stretches.append((first, word))
                    first, count = word, 0
                count += len(pieces[word])
            stretches.append((first, end))
            start = end
        return stretches
