"""Tags, features and lemmas that are learnt with the parser."""

from pathlib import Path

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from fitting import fit
from parsing import parse, parse_batch

from arbora.data.batch import Batch, batch_of
from arbora.data.conll import Sentence, read_conll
from arbora.data.vocabulary import TAGS, Vocabulary
from arbora.decoders import HillClimbing
from arbora.decoders.parts.tree_features import TAG_NUMBERS
from arbora.model.encoders.embeddings import Embeddings
from arbora.model.encoders.encoder import Encoder
from arbora.model.encoders.lstm import LSTM
from arbora.model.encoders.sru import SRU
from arbora.model.loading import load
from arbora.model.network import Network
from arbora.model.scorers.biaffine import Biaffine
from arbora.model.scorers.taggers import Taggers, TagScorer
from arbora.model.scorers.tree_features import TreeFeatures
from arbora.model.training import LightningParser, Optimization

EMBEDDINGS = Embeddings(words=20, characters=20, word_dropout=0)
FAST = Optimization(lr=1e-2)


@pytest.fixture
def annotated(sentences: list[Sentence], vocabulary: Vocabulary) -> Batch:
    return batch_of(sentences, vocabulary, targets=True)


def blind(sentence: Sentence) -> Sentence:
    return Sentence.from_words(sentence.form)


@pytest.mark.parametrize(("encoder", "layer"), [(LSTM(EMBEDDINGS, 24, 2, 0), 1), (SRU(EMBEDDINGS, 24, 1, 0), None)])
def test_ten_sentences_are_learnt(
    encoder: Encoder, layer: int | None, sentences: list[Sentence], vocabulary: Vocabulary, annotated: Batch
) -> None:
    pl.seed_everything(0, verbose=False)
    taggers = Taggers(size=40, dropout=0, layer=layer)
    parser = LightningParser(vocabulary, encoder, Biaffine(20, 10), taggers=taggers, optimization=FAST)
    trainer = fit(parser, annotated, 100)
    logged = {name: float(value) for name, value in trainer.logged_metrics.items()}
    assert all(logged[f"dev/{name}"] == 100 for name in ("UPOS", "XPOS", "UFeats", "Lemmas")), logged
    assert {f"train/{name}" for name in TAGS} <= set(logged)
    parser.eval()
    for sentence, parsed in zip(sentences, parse(parser, map(blind, sentences))):
        assert parsed.upos == sentence.upos
        assert parsed.xpos == sentence.xpos
        assert parsed.feats == sentence.feats
        assert parsed.lemmas == sentence.lemma


def test_words_without_annotation_count_for_nothing(sentences: list[Sentence], vocabulary: Vocabulary) -> None:
    torch.manual_seed(0)
    scorer = TagScorer(6, Taggers(size=8, dropout=0), vocabulary)
    batch = batch_of(sentences[:2], vocabulary, targets=True)
    targets = torch.from_numpy(batch.tags)
    vectors = torch.randn(*targets.shape[1:], 6)
    places = torch.from_numpy(batch.places)
    whole = scorer.losses(vectors, targets, places)
    half = targets.clone()
    half[:, :, ::2] = -1
    rest = targets.clone()
    rest[:, :, 1::2] = -2
    for name, loss in whole.items():
        parts = [scorer.losses(vectors, some, places)[name].item() for some in (half, rest)]
        assert sum(parts) == pytest.approx(loss.item(), rel=1e-5)
    nothing = scorer.losses(vectors, torch.full_like(targets, -1), places)
    assert all(loss == 0 for loss in nothing.values())


def test_each_column_can_be_left_out(vocabulary: Vocabulary, annotated: Batch) -> None:
    parser = Network(vocabulary, LSTM(EMBEDDINGS, 8, 1), taggers=Taggers(xpos=0, feats=0)).eval()
    assert parser.predicts == ("upos", "lemmas")
    assert set(parse_batch(parser, annotated).tags) == {"upos", "lemmas"}
    without = Vocabulary(**{**vocabulary.as_dict(), "xpos": ["_"]})
    assert Network(without, LSTM(EMBEDDINGS, 8, 1), taggers=Taggers()).predicts == ("upos", "feats", "lemmas")
    assert Network(vocabulary, LSTM(EMBEDDINGS, 8, 1)).predicts == ()


def test_wrong_settings_are_named(vocabulary: Vocabulary) -> None:
    with pytest.raises(ValueError, match=r"taggers\.feats must be a weight of 0 or more, got -1"):
        Taggers(feats=-1)
    with pytest.raises(ValueError, match=r"taggers\.layer must be from 1 to 2, got 3"):
        Network(vocabulary, LSTM(EMBEDDINGS, 8, 2), taggers=Taggers(layer=3))


def test_tree_features_read_predicted_tags(sentences: list[Sentence], vocabulary: Vocabulary, annotated: Batch) -> None:
    pl.seed_everything(0, verbose=False)
    encoder = LSTM(EMBEDDINGS, 24, 1, 0)
    parser = LightningParser(
        vocabulary,
        encoder,
        Biaffine(20, 10),
        features=TreeFeatures(("neighbours", "coordination")),
        taggers=Taggers(size=40, dropout=0),
        decoder=HillClimbing(restarts=2),
        loss=("cross_entropy", "hinge"),
        optimization=FAST,
    )
    fit(parser, annotated, 60)
    parser.eval()
    parts = parser.score(batch_of([blind(sentence) for sentence in sentences], vocabulary)).parts(parser.decoder)
    assert parts.tags is not None
    assert parts.tags.tolist() == [TAG_NUMBERS.get(tag, 0) for sentence in sentences for tag in sentence.upos]


@pytest.mark.parametrize("batch_size", [1, 40, 4000])
def test_tags_do_not_depend_on_batches(tagger: Path, sentences: list[Sentence], batch_size: int) -> None:
    network = load(tagger).backend
    assert isinstance(network, Network)
    words = [blind(sentence) for sentence in sentences]
    found = [parsed.tags for parsed in parse(network, words, max_tokens=batch_size)]
    assert found == [next(parse(network, [sentence])).tags for sentence in words]


def test_probabilities_are_those_of_a_softmax(tagger: Path, annotated: Batch) -> None:
    network = load(tagger).backend
    assert isinstance(network, Network)
    batch = batch_of(list(read_conll(Path(__file__).parents[2] / "fixtures" / "treebank.conllu")), network.vocabulary)
    scores = network.score(batch)
    with torch.no_grad():
        by_hand = network.taggers(network.taggers.project(scores.vectors[scores.batch.is_word]))  # type: ignore[misc]
    for name, tags in scores.tags(probabilities=True).items():
        expected = by_hand[name].softmax(-1).max(-1)
        assert tags.classes.tolist() == expected.indices.tolist()
        assert tags.probability is not None
        np.testing.assert_allclose(tags.probability, expected.values, rtol=1e-5)
