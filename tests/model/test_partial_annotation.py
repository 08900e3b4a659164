"""Training on trees of which some heads are missing."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from fitting import fit

from arbora.data.batch import Batch, batch_of, cut
from arbora.data.conll import Sentence, read_conll
from arbora.data.vocabulary import Vocabulary
from arbora.decoders import AD3, MST
from arbora.model.encoders.embeddings import Embeddings
from arbora.model.encoders.sru import SRU
from arbora.model.inference.batch_parser import BatchParser
from arbora.model.scorers.biaffine import Biaffine
from arbora.model.scorers.multilinear import Multilinear
from arbora.model.training import LightningParser, Loss, Optimization

EXAMPLES = Path(__file__).parents[2] / "examples" / "treebank"


def without_half_of_the_heads(sentences: list[Sentence]) -> list[Sentence]:
    rng = np.random.default_rng(0)
    partial = []
    for sentence in sentences:
        known = rng.random(len(sentence)) < 0.5
        head = [h if k else -1 for h, k in zip(sentence.head, known)]
        deprel = [label if k else "_" for label, k in zip(sentence.deprel, known)]
        partial.append(replace(sentence, head=head, deprel=deprel))
    return partial


def attachment(train: list[Sentence], dev: list[Sentence], loss: Loss, epochs: int) -> float:
    """UAS after training."""
    pl.seed_everything(0, verbose=False)
    vocabulary = Vocabulary.of(train, min_frequency=1)
    assert "_" not in vocabulary.labels
    parser = LightningParser(
        vocabulary,
        SRU(Embeddings(words=30, characters=20, upos=10), size=40, layers=1),
        Biaffine(40, 20),
        loss=[loss],
        optimization=Optimization(lr=1e-2),
    )
    batches: list[Batch] = [batch_of([train[i] for i in some], vocabulary) for some in cut(list(map(len, train)), 600)]
    fit(parser, batches, epochs=epochs)
    batch = batch_of(dev, vocabulary)
    found = BatchParser(parser.eval(), MST())(batch)
    return float((found.heads == batch.heads)[batch.is_word].mean())


@pytest.mark.parametrize("loss", ["cross_entropy", "crf", "hinge"])
def test_half_of_the_heads_is_worth_more_than_half_of_the_sentences(loss: Loss) -> None:
    train = [sentence for sentence in read_conll(EXAMPLES / "train.conllu") if len(sentence) <= 20][:400]
    dev = [sentence for sentence in read_conll(EXAMPLES / "dev.conllu") if len(sentence) <= 20][:100]
    heads = attachment(without_half_of_the_heads(train), dev, loss, 12)
    assert heads > attachment(train[::2], dev, loss, 12)


def test_higher_orders_learn_from_partial_trees(sentences: list[Sentence], vocabulary: Vocabulary) -> None:
    pl.seed_everything(0, verbose=False)
    parser = LightningParser(
        vocabulary,
        SRU(Embeddings(words=10, characters=10, upos=5), size=8, layers=1),
        Biaffine(8, 8),
        parts=Multilinear(("grandparent", "sibling"), rank=4),
        decoder=AD3(),
        loss=("hinge", "crf"),
    )
    batch = batch_of(without_half_of_the_heads(sentences), vocabulary)
    parser.log = parser.log_dict = lambda *_, **__: None  # type: ignore[method-assign,assignment]
    loss = parser.training_step(batch, 0)
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(p.grad).all() for p in parser.parameters() if p.grad is not None)
    assert parser.parts is not None
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in parser.parts.parameters())
