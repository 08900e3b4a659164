"""Parsers with higher-order parts: learning, pruning, checkpoints."""

from pathlib import Path

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from fitting import fit
from parsing import parse_batch

from arbora.data.batch import Batch
from arbora.data.vocabulary import Vocabulary
from arbora.decoders import AD3, MST, Decoder, Eisner, Greedy, HillClimbing
from arbora.decoders.parts.kinds import COMMON, HIGHER_ORDER, KINDS
from arbora.model.encoders.embeddings import Embeddings
from arbora.model.encoders.sru import SRU
from arbora.model.loading import load_network
from arbora.model.network import NetworkScores
from arbora.model.pruners.settings import Frozen, PrunerSettings, Shared
from arbora.model.scorers.biaffine import Biaffine
from arbora.model.scorers.multilinear import Multilinear
from arbora.model.scorers.tree_features import TreeFeatures
from arbora.model.training import LightningParser, Loss, Optimization

SMALL = SRU(Embeddings(words=20, characters=10, upos=5), size=16, layers=1, dropout=0.1)


def build(
    vocabulary: Vocabulary,
    kinds: tuple[str, ...] = COMMON,
    pruner: PrunerSettings | None = None,
    loss: tuple[Loss, ...] = ("cross_entropy", "hinge"),
    training_decoder: Decoder | None = None,
    features: TreeFeatures | None = None,
) -> LightningParser:
    pl.seed_everything(1, verbose=False)
    return LightningParser(
        vocabulary,
        SMALL,
        Biaffine(30, 20, dropout=0),
        parts=Multilinear(kinds, rank=8, dropout=0),
        features=features,
        pruner=pruner,
        decoder=HillClimbing(start="best"),
        training_decoder=training_decoder,
        loss=loss,
        optimization=Optimization(lr=1e-2, warmup=0, decay=False),
    )


def save(parser: LightningParser, path: Path) -> Path:
    contents: dict[str, object] = {"state_dict": parser.state_dict()}
    parser.on_save_checkpoint(contents)
    torch.save(contents, path)
    return path


@pytest.mark.parametrize("kinds", [("grandparent", "sibling"), COMMON])
def test_ten_sentences_are_learnt(kinds: tuple[str, ...], vocabulary: Vocabulary, batch: Batch) -> None:
    parser = build(vocabulary, kinds)
    trainer = fit(parser, batch, 60)
    found = parse_batch(parser.eval(), batch)
    assert (torch.from_numpy(found.heads) == batch.heads)[batch.is_word].float().mean() > 0.97
    assert found.parts.kinds == kinds
    for weight in parser.parts.weight.values():  # type: ignore[union-attr]
        assert weight.any()  # every type has learnt something
    figures = trainer.callback_metrics
    assert figures["dev/UAS"] <= figures["dev/oracle_UAS"] <= 100
    assert 1 <= figures["dev/arcs_per_word"] <= 11


def test_features_of_whole_trees_are_learnt(vocabulary: Vocabulary, batch: Batch, tmp_path: Path) -> None:
    parser = build(vocabulary, tuple(HIGHER_ORDER), features=TreeFeatures(rank=4, dropout=0))
    fit(parser, batch, 60)
    found = parse_batch(parser.eval(), batch)
    assert (torch.from_numpy(found.heads) == batch.heads)[batch.is_word].float().mean() > 0.97
    assert found.parts.kinds == tuple(KINDS)
    assert parser.features is not None
    assert all(layer.weight.any() for layer in parser.features.table.values())
    again = load_network(save(parser, tmp_path / "model.ckpt"))
    np.testing.assert_array_equal(parse_batch(again, batch).trees.heads, found.trees.heads)


@pytest.mark.parametrize(
    "decoder",
    [Greedy(), AD3(max_iterations=50), AD3(max_iterations=50, fractional=True), HillClimbing(patience=3)],
    ids=["greedy", "ad3", "fractional", "hill-climbing"],
)
def test_learnt_through_any_decoder(decoder: Decoder, vocabulary: Vocabulary, batch: Batch) -> None:
    parser = build(vocabulary, ("grandparent", "sibling"), loss=("hinge",), training_decoder=decoder)
    fit(parser, batch, 60)
    found = parse_batch(parser.eval(), batch)
    assert (torch.from_numpy(found.heads) == batch.heads)[batch.is_word].float().mean() > 0.9


def test_gold_heads_are_candidates_in_training_alone(vocabulary: Vocabulary, batch: Batch) -> None:
    parser = build(vocabulary, pruner=Shared(max_heads=1, ratio=1.0)).eval()
    vectors, arc = parser(batch)
    gold = batch.heads.numpy()
    in_training = NetworkScores(parser, batch, vectors, arc).scored_parts(parser.decoder, keep=gold).parts
    assert np.isfinite(in_training.score(gold)).all()
    assert not np.isfinite(parse_batch(parser, batch).parts.score(gold)).all()


def test_any_decoder_parses_with_the_scores(vocabulary: Vocabulary, batch: Batch) -> None:
    parser = build(vocabulary, pruner=Shared(max_heads=2))
    fit(parser, batch, 5)
    parser.eval()
    climbed = parse_batch(parser, batch).trees
    parser.decoder = MST()
    first_order = parse_batch(parser, batch).trees
    assert (climbed.score >= first_order.score - 1e-6).all()
    assert first_order.bound is None
    assert not first_order.certified.any()
    parser.decoder = Eisner()  # two heads per word need not have a projective tree: the pruner sees to it
    assert np.isfinite(parse_batch(parser, batch).trees.score).all()


def test_checkpoint_round_trip(vocabulary: Vocabulary, batch: Batch, tmp_path: Path) -> None:
    parser = build(vocabulary)
    fit(parser, batch, 5)
    again = load_network(save(parser, tmp_path / "model.ckpt"))
    assert again.settings == parser.settings
    np.testing.assert_array_equal(parse_batch(again, batch).trees.heads, parse_batch(parser.eval(), batch).trees.heads)


def test_frozen_pruner_is_a_trained_parser_that_stays_as_it_is(
    vocabulary: Vocabulary, batch: Batch, tmp_path: Path
) -> None:
    first_order = LightningParser(vocabulary, SMALL, Biaffine(25, 10))
    fit(first_order, batch, 5)
    path = save(first_order, tmp_path / "first.ckpt")
    parser = build(vocabulary, pruner=Frozen(max_heads=3, checkpoint=str(path)))
    assert parser.pruner is not None
    before = {name: weight.clone() for name, weight in parser.pruner.state_dict().items()}
    fit(parser, batch, 5)
    for name, weight in parser.pruner.state_dict().items():
        torch.testing.assert_close(weight, before[name])
    expected = first_order.eval()(batch)[1]
    torch.testing.assert_close(parser.pruner(torch.zeros(0), batch), expected)

    saved = save(parser, tmp_path / "second.ckpt")
    path.unlink()  # a checkpoint needs no other file
    again = load_network(saved)
    parsed = parse_batch(again, batch)
    np.testing.assert_array_equal(parsed.trees.heads, parse_batch(parser.eval(), batch).trees.heads)
    assert np.diff(parsed.parts.modifier_offsets).max() <= 4


def test_frozen_pruner_of_another_treebank_is_refused(vocabulary: Vocabulary, batch: Batch, tmp_path: Path) -> None:
    other = Vocabulary.from_dict(vocabulary.as_dict() | {"words": ["other"]})
    path = save(LightningParser(other, SMALL), tmp_path / "other.ckpt")
    with pytest.raises(ValueError, match="another training part"):
        build(vocabulary, pruner=Frozen(checkpoint=str(path)))
    with pytest.raises(ValueError, match=r"pruner\.checkpoint must name"):
        build(vocabulary, pruner=Frozen())


@pytest.mark.parametrize(("max_heads", "ratio"), [(0, 0.1), (3, -0.1), (3, 1.5)])
def test_senseless_pruners_are_refused(max_heads: int, ratio: float) -> None:
    with pytest.raises(ValueError, match="pruner"):
        Shared(max_heads, ratio)


def test_parts_need_a_loss_that_learns_them(vocabulary: Vocabulary) -> None:
    with pytest.raises(ValueError, match="hinge"):
        build(vocabulary, loss=("crf",))


def test_parts_need_a_decoder_that_looks_at_them(vocabulary: Vocabulary) -> None:
    for decoder in (MST(), Eisner()):
        with pytest.raises(ValueError, match=f"{type(decoder).__name__} does not search by grandparent.*AD3 does"):
            LightningParser(vocabulary, SMALL, parts=Multilinear(), decoder=decoder, loss=("hinge",))
        with pytest.raises(ValueError, match=r"model\.training_decoder"):
            build(vocabulary, training_decoder=decoder)
    with pytest.raises(ValueError, match=r"model\.training_decoder: AD3 does not search by span; HillClimbing does"):
        build(vocabulary, training_decoder=AD3(), features=TreeFeatures(("span",)))


def test_a_first_order_parser_may_be_pruned(vocabulary: Vocabulary, batch: Batch) -> None:
    parser = LightningParser(vocabulary, SMALL, Biaffine(30, 20), pruner=Shared(max_heads=2)).eval()
    parts = parse_batch(parser, batch).parts
    assert parts.kinds == ()
    assert np.diff(parts.modifier_offsets).max() <= 3


def test_scores_that_are_not_numbers_are_named(vocabulary: Vocabulary, batch: Batch) -> None:
    parser = build(vocabulary).eval()
    assert parser.parts is not None
    torch.nn.init.constant_(parser.parts.weight["sibling"], float("nan"))
    with pytest.raises(ValueError, match=r"sentence 0: the sibling of words \[.*scores nan"):
        parse_batch(parser, batch)
