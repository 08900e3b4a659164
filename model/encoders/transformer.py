"""A pretrained transformer as an encoder."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from arbora.data.batch import Batch, groups
from arbora.data.vocabulary import Vocabulary
from arbora.extras import importing_extra
from arbora.model.encoders.embeddings import Embeddings, InputLayer
from arbora.model.encoders.encoder import Between, Encoder, EncoderModule, narrowing
from arbora.model.layers import SharedDropout
from arbora.model.tensors import upload

TOKENIZER = "tokenizer.json"

PIECES = 16_384
"""Pieces of words, with padding, that are read at a time: a word of many does not lengthen a whole batch."""

NOTHING = Embeddings(words=0, characters=0, treebanks=0)
"""No columns next to the pieces."""


@dataclass(frozen=True)
class Transformer(Encoder):
    """Any encoder model of Hugging Face's `transformers` (`pip install "arbora[transformer]"`).

    The vector of a word is the mean of the vectors of its pieces, or zero if it has no pieces. If a sentence has too
    many pieces for the model, it is read in consecutive stretches that fit. The weights are trained with the learning
    rate `model.optimization.pretrained_lr`, lower layers more slowly with `layer_decay`.

    Args:
        name: name of a model on the hub, or a local folder.
        dropout: dropout on the word vectors, before the layer `output`; one mask for all words of a sentence.
        frozen: do not train the pretrained weights.
        output: size of an additional last layer; by default, there is none. Smaller vectors make all scorers faster.
        mix: use a learnt weighted mean of all layers' vectors instead of the last ones.
        case: mark words with upper case by the model's second type of pieces; for a model that knows lower case only.
        embeddings: columns to read next to the pieces, such as characters.
    """

    name: str = "xlm-roberta-base"
    dropout: float = 0.33
    frozen: bool = False
    output: int | None = None
    mix: bool = False
    case: bool = False
    embeddings: Embeddings = NOTHING

    @property
    def tags(self) -> tuple[str, ...]:
        return self.embeddings.tags

    def build(self, vocabulary: Vocabulary, files: Path | None = None) -> EncoderModule:
        return TransformerModule(self, vocabulary, files)


class TransformerModule(EncoderModule):
    """Runs a transformer on the pieces of words, and averages them for each word."""

    def __init__(self, settings: Transformer, vocabulary: Vocabulary, files: Path | None) -> None:
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
        if getattr(self.model, "pooler", None) is not None:
            self.model.pooler.requires_grad_(False)  # not used: several devices would wait for its gradients
        wide = self.model.config.hidden_size
        self.input = InputLayer(settings.embeddings, vocabulary) if settings.embeddings != NOTHING else None
        read = wide + (self.input.size if self.input else 0)
        self.size = settings.output or read
        # RoBERTa counts positions from two; models without a table of positions take any length.
        positions = getattr(self.model.config, "max_position_embeddings", self.tokenizer.model_max_length)
        self.longest = min(self.tokenizer.model_max_length, positions - 2)
        self.root = nn.Parameter(torch.randn(wide) * 0.02)
        self.dropout = SharedDropout(settings.dropout)
        self.narrow = narrowing(read, settings.output)
        self.case = settings.case
        if settings.case and getattr(self.model.config, "type_vocab_size", 0) < 2:
            raise ValueError(f"encoder.case: {settings.name} has no second type of pieces")
        layers = self.model.config.num_hidden_layers
        self.mix = nn.Parameter(torch.zeros(layers + 1)) if settings.mix else None

    def pretrained_parameters(self) -> Iterator[tuple[nn.Parameter, int]]:
        # In the order of the model: what comes before the first layer with a number is embeddings.
        layer = -1
        numbered = []
        for name, weight in self.model.named_parameters():
            if number := re.search(r"\.(\d+)\.", name):
                layer = int(number[1])
            numbered.append((weight, layer))
        yield from ((weight, layer - of_weight) for weight, of_weight in numbered)

    def save_files(self, folder: Path) -> None:
        self.tokenizer.save_pretrained(folder)
        file = folder / TOKENIZER  # written with a line for each piece
        contents = json.loads(file.read_text(encoding="utf-8"))
        file.write_text(json.dumps(contents, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
        self.model.config.save_pretrained(folder)

    def keep_scripts(self, scripts: Sequence[str]) -> None:
        """Leave out pieces with letters of other scripts, and those that stand for nothing; they are then unknown.

        Args:
            scripts: as Unicode names them, such as latin.

        Raises:
            ValueError: the tokenizer is of another kind than WordPiece.
        """
        names = [script.upper() for script in scripts]

        def is_kept(piece: str) -> bool:
            letters = (unicodedata.name(c, "") for c in piece if c.isalpha())
            return not piece.startswith("[unused") and all(any(name in of for name in names) for of in letters)

        with TemporaryDirectory() as folder:
            self.save_files(Path(folder))
            file = Path(folder, TOKENIZER)
            contents = json.loads(file.read_text(encoding="utf-8"))
            numbers = contents["model"]["vocab"]
            if contents["model"]["type"] != "WordPiece":
                raise ValueError(f"scripts: {contents['model']['type']} is not WordPiece, whose pieces can be left out")
            special = [entry["content"] for entry in contents["added_tokens"]]
            kept = [piece for piece in sorted(numbers, key=numbers.__getitem__) if piece in special or is_kept(piece)]
            contents["model"]["vocab"] = {piece: number for number, piece in enumerate(kept)}
            outside = [piece for piece in special if piece not in numbers]  # without a vector
            new = {piece: number for number, piece in enumerate([*kept, *outside])}
            for entry in contents["added_tokens"]:
                entry["id"] = new[entry["content"]]
            for entry in contents["post_processor"]["special_tokens"].values():
                entry["ids"] = [new[token] for token in entry["tokens"]]
            file.write_text(json.dumps(contents, ensure_ascii=False), encoding="utf-8")
            self.tokenizer = type(self.tokenizer).from_pretrained(folder)
        old = self.model.get_input_embeddings().weight.detach()
        config = self.model.config
        config.vocab_size, config.pad_token_id = len(kept), self.tokenizer.pad_token_id
        rows = nn.Embedding(len(kept), old.shape[1], padding_idx=config.pad_token_id)
        rows.weight.data.copy_(old[[numbers[piece] for piece in kept]])
        self.model.set_input_embeddings(rows)

    def cut(self, forms: list[list[str]]) -> Any:
        """Split sentences into pieces, and long sentences into several stretches."""
        pieces = self.tokenizer(
            forms,
            is_split_into_words=True,
            truncation=True,
            max_length=self.longest,
            return_overflowing_tokens=True,
            padding=True,
            return_tensors="pt",
        )
        if self.case:
            sentences = pieces["overflow_to_sample_mapping"].tolist()
            upper = [
                [word is not None and forms[b][word] != forms[b][word].lower() for word in pieces.word_ids(stretch)]
                for stretch, b in enumerate(sentences)
            ]
            pieces["token_type_ids"] = torch.tensor(upper).long()
        return pieces

    def of_pieces(self, **pieces: Tensor) -> Tensor:
        """Vectors of pieces, (stretches, pieces, size), from what `cut` gives."""
        found = self.model(**pieces, output_hidden_states=self.mix is not None)
        if self.mix is None:
            last: Tensor = found.last_hidden_state
            return last
        return torch.stack(found.hidden_states, -1) @ self.mix.softmax(0).to(found.last_hidden_state.dtype)

    def forward(self, batch: Batch[Tensor], between: Between | None = None) -> Tensor:
        pieces = self.cut(batch.forms)
        sentence_of_stretch = pieces.pop("overflow_to_sample_mapping").tolist()
        rows, columns = batch.words.shape
        # Special pieces and padding are added up at the root's place, which has a vector of its own.
        word_of_piece = [
            [b * columns + (0 if word is None else word + 1) for word in pieces.word_ids(stretch)]
            for stretch, b in enumerate(sentence_of_stretch)
        ]
        places = np.array(word_of_piece)  # (stretches, pieces)
        lengths = pieces["attention_mask"].sum(1).numpy()
        counts = np.bincount(places.ravel(), minlength=rows * columns).clip(min=1)
        together = list(groups(lengths, PIECES))
        arrays = [counts, places, *(values.numpy() for values in pieces.values()), *together]
        count, place, *there = upload(arrays, batch.words.device)
        of_pieces = dict(zip(pieces, there))
        sums = torch.zeros(rows * columns, self.root.shape[0], device=count.device)
        for group, some in zip(together, there[len(of_pieces) :]):
            width = int(lengths[group[0]])
            hidden = self.of_pieces(**{name: values[some, :width] for name, values in of_pieces.items()})
            sums = sums.to(hidden.dtype).index_add(0, place[some, :width].flatten(), hidden.flatten(0, 1))
        vectors = (sums / count[:, None]).view(rows, columns, -1)
        vectors = torch.cat([self.root.to(vectors.dtype).expand(rows, 1, -1), vectors[:, 1:]], 1)
        if self.input is not None:
            vectors = torch.cat([vectors, self.input(batch)], -1)
        output: Tensor = self.narrow(self.dropout(vectors))
        return output
