"""Parsers that were never trained, but parse; one of them with a tokenizer, which was."""

from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch

from arbora.data.conll import read_conll
from arbora.data.vocabulary import Vocabulary
from arbora.decoders import AD3, MST
from arbora.model.encoders.embeddings import Embeddings
from arbora.model.encoders.encoder import Encoder
from arbora.model.encoders.sru import SRU
from arbora.model.network import Network
from arbora.model.scorers.biaffine import Biaffine
from arbora.model.scorers.multilinear import Multilinear
from arbora.model.scorers.taggers import Taggers
from arbora.model.tokenizer.learning import learn_tokenizer
from arbora.model.training import LightningParser, Loss

EXAMPLES = Path(__file__).parents[1] / "examples" / "treebank"


def save_untrained(path: Path, taggers: Taggers | None = None, parts: Multilinear | None = None) -> Path:
    """Write the checkpoint of a small parser with random weights; one with taggers reads no tags."""
    pl.seed_everything(0, verbose=False)
    encoder = SRU(Embeddings(words=8, characters=8, upos=0 if taggers else 4), size=8, layers=1)
    sentences = list(read_conll(EXAMPLES / "dev.conllu"))
    loss: list[Loss] = ["hinge"] if parts else ["cross_entropy"]
    parser = LightningParser(
        Vocabulary.of(sentences),
        encoder,
        Biaffine(8, 8),
        parts=parts,
        taggers=taggers,
        decoder=AD3(max_iterations=50) if parts else MST(),
        loss=loss,
    )
    torch.nn.init.normal_(parser.arc.weight)
    torch.nn.init.normal_(parser.label.weight)
    parser.tokenizer = learn_tokenizer(sentences, sentences)
    contents: dict[str, object] = {"state_dict": parser.state_dict()}
    parser.on_save_checkpoint(contents)
    torch.save(contents, path)
    return path


def random_network(vocabulary: Vocabulary, encoder: Encoder, **settings: Any) -> Network:
    """A small network with random weights, in all places where it would start from zeros too."""
    torch.manual_seed(0)
    network = Network(vocabulary, encoder, Biaffine(10, 8), **settings).eval()
    for weight in network.parameters():
        if weight.requires_grad and not weight.any():
            torch.nn.init.normal_(weight, std=0.3)
    return network
