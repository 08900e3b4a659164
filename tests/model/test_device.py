"""Parsing and training on a simulated device: the same results as on the CPU, and few copies."""

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from simulated_device import DEVICE, Crossings, OnDevice, SimulatedDevice
from untrained import random_network

from arbora.data.batch import batch_of
from arbora.data.conll import Sentence, Unparsed
from arbora.data.vocabulary import Vocabulary
from arbora.decoders import AD3, MST, HillClimbing, Projective
from arbora.model.encoders.embeddings import Embeddings
from arbora.model.encoders.lstm import LSTM
from arbora.model.encoders.sru import SRU
from arbora.model.encoders.transformer import Transformer
from arbora.model.inference import stream
from arbora.model.inference.batch_parser import BatchParser, ParsingSettings
from arbora.model.inference.results import ParsedSentence
from arbora.model.inference.stream import parse_directly, parse_windows
from arbora.model.pruners.settings import Frozen, Shared, Vine
from arbora.model.pruners.vine import CascadePruner
from arbora.model.scorers.biaffine import Biaffine
from arbora.model.scorers.multilinear import Multilinear
from arbora.model.scorers.taggers import Taggers
from arbora.model.scorers.tree_features import TreeFeatures
from arbora.model.training import LightningParser

EMBEDDINGS = Embeddings(words=8, characters=8, upos=4, character_network="lstm")
SECOND = Multilinear(("grandparent", "sibling"), rank=4)
THIRD = Multilinear(("grandparent", "sibling", "grand_sibling", "tri_sibling"), rank=4)
FROZEN = Frozen(encoder=SRU(EMBEDDINGS, size=8, layers=1), scorer=Biaffine(8, 8))
PARSERS: dict[str, dict[str, Any]] = {
    "LSTM": {"loss": ["cross_entropy"], "taggers": Taggers(size=8)},
    "SRU": {"encoder": SRU(EMBEDDINGS, size=8, layers=1), "loss": ["crf", "projective_crf"]},
    "arcs": {"loss": ["hinge"]},
    "second": {"parts": SECOND, "decoder": AD3(), "loss": ["hinge", "cross_entropy"], "taggers": Taggers(size=8)},
    "third": {"parts": THIRD, "decoder": AD3(fractional=True), "loss": ["hinge"]},
    "likelihood": {"parts": SECOND, "decoder": AD3(), "loss": ["hinge"], "pruner": Shared(loss="matrix_tree")},
    "frozen": {"parts": SECOND, "decoder": AD3(), "loss": ["hinge"], "pruner": FROZEN},
    "vine": {"parts": SECOND, "decoder": Projective(), "loss": ["hinge"], "pruner": Vine()},
    "features": {"features": TreeFeatures(rank=4), "decoder": HillClimbing(start="best"), "loss": ["hinge"]},
    "transformer": {"loss": ["cross_entropy"], "taggers": Taggers(size=8)},
}
COUNTS = {
    "LSTM": ((1, 0, 0, 0), (2, 3, 0, 1)),
    "SRU": ((3, 1, 1, 0), (2, 2, 0, 1)),
    "arcs": ((2, 1, 0, 1), (2, 2, 0, 1)),
    "second": ((3, 2, 0, 2), (3, 4, 0, 2)),
    "third": ((4, 2, 0, 2), (4, 3, 0, 2)),
    "likelihood": ((4, 2, 1, 2), (3, 3, 0, 2)),
    "frozen": ((3, 2, 0, 2), (3, 3, 0, 2)),
    "vine": ((13, 18, 1, 8), (8, 9, 0, 5)),
    "features": ((3, 2, 0, 2), (3, 3, 0, 2)),
    "transformer": ((2, 0, 1, 0), (3, 3, 1, 1)),
}
"""Copies up, copies down, waits and rounds (see `Crossings`), first of a training step, then of a parsed batch. The
likelihood of trees waits, since it is computed in a way that depends on the scores."""

STEPS_OF_SCALING = 12
"""Steps in which fp16 finds the scale at which gradients do not overflow."""


@pytest.fixture(params=PARSERS)
def build(request: pytest.FixtureRequest, vocabulary: Vocabulary, bert: str) -> Callable[[], LightningParser]:
    """Make the same parser each time, with random weights."""

    def make() -> LightningParser:
        pl.seed_everything(0, verbose=False)
        encoder = Transformer(bert) if request.param == "transformer" else LSTM(EMBEDDINGS, size=8, layers=1)
        parser = LightningParser(vocabulary, scorer=Biaffine(8, 8), **{"encoder": encoder, **PARSERS[request.param]})
        parser.log = parser.log_dict = lambda *_, **__: None  # type: ignore[method-assign,assignment]
        for weight in parser.parameters():
            if weight.requires_grad and not weight.any():
                torch.nn.init.normal_(weight)
        return parser

    return make


def parse(parser: LightningParser, sentences: list[Sentence]) -> list[ParsedSentence]:
    """Two trees of each sentence with probabilities, by threads that score and decode side by side."""
    steps = BatchParser(parser.eval(), parser.decoder, ParsingSettings(60, probabilities=True, k_best=2))
    found = list(chain.from_iterable(parse_windows(steps, sentences)))
    assert all(isinstance(entry, ParsedSentence) for entry in found), found
    return found  # type: ignore[return-value]


def test_parses_as_on_the_cpu(build: Callable[[], LightningParser], sentences: list[Sentence]) -> None:
    parsers = build(), build()
    expected = parse(parsers[0], sentences)
    with SimulatedDevice():
        found = parse(parsers[1].to(DEVICE), sentences)
    for one, other in zip(found, expected, strict=True):
        assert one.heads.tolist() == other.heads.tolist()
        assert one.labels == other.labels
        assert one.tags == other.tags
        np.testing.assert_allclose(one.arc_probability, other.arc_probability, rtol=1e-3, atol=1e-5)
        assert [tree.heads.tolist() for tree in one.alternatives] == [t.heads.tolist() for t in other.alternatives]


def test_learns_as_on_the_cpu(
    build: Callable[[], LightningParser], sentences: list[Sentence], request: pytest.FixtureRequest
) -> None:
    """Without dropout, which draws other numbers on another device."""
    parsers = build().eval(), build().eval()
    batch = batch_of(sentences, parsers[0].vocabulary)
    expected = parsers[0].training_step(batch, 0)
    expected.backward()
    with SimulatedDevice() as device:
        parsers[1].to(DEVICE)
        device.seen.clear()
        loss = parsers[1].training_step(batch, 0)
        loss.backward()
        assert isinstance(loss, OnDevice)
        seen = Crossings(device.seen)
        assert float(loss) == pytest.approx(float(expected), rel=1e-4)
        for (name, one), (_, other) in zip(parsers[1].named_parameters(), parsers[0].named_parameters(), strict=True):
            assert (one.grad is None) == (other.grad is None), name
            if one.grad is not None and other.grad is not None:
                torch.testing.assert_close(one.grad.cpu(), other.grad, rtol=1e-3, atol=1e-5, msg=name)
    check(seen, request.node.callspec.params["build"], training=True)


@pytest.mark.parametrize("build", ["LSTM", "second", "frozen", "vine", "transformer"], indirect=True)
def test_is_evaluated_and_tunes_its_pruner_as_on_the_cpu(
    build: Callable[[], LightningParser], sentences: list[Sentence]
) -> None:
    def evaluate(parser: LightningParser, device: str | torch.device) -> dict[str, float]:
        if isinstance(parser.pruner, CascadePruner):
            parser.pruner.settings = replace(parser.pruner.settings, error=0.1)
        batch = batch_of(sentences, parser.vocabulary, targets=True)
        figures: dict[str, float] = {}
        parser.to(device)
        parser.log_dict = lambda found, **_: figures.update(found)  # type: ignore[method-assign,assignment]
        reduce = SimpleNamespace(reduce=lambda value, reduce_op: value)
        trainer = {"strategy": reduce, "state": SimpleNamespace(fn="fit"), "sanity_checking": False}
        parser._trainer = SimpleNamespace(**trainer, val_dataloaders=[batch])  # type: ignore[assignment]
        parser.on_validation_epoch_start()
        parser.validation_step(batch, 0)
        parser.on_validation_epoch_end()
        return figures

    parsers = build().eval(), build().eval()
    expected = evaluate(parsers[0], "cpu")
    with SimulatedDevice():
        found = evaluate(parsers[1], DEVICE)
    assert found == pytest.approx(expected, rel=1e-4)
    assert ("dev/pruner/vine/alpha" in found) == isinstance(parsers[0].pruner, CascadePruner)
    assert "dev/UAS" in found


def check(seen: Crossings, name: str, training: bool) -> None:
    """Compare what crossed with what is known."""
    found = tuple(seen[what] for what in ("up", "down", "waits", "rounds"))
    assert found == COUNTS[name][not training], seen


def test_every_weight_has_a_gradient(build: Callable[[], LightningParser], sentences: list[Sentence]) -> None:
    """Training on several devices waits for the gradients of all weights."""
    parser = build()
    parser.training_step(batch_of(sentences, parser.vocabulary), 0).backward()
    assert [name for name, weight in parser.named_parameters() if weight.requires_grad and weight.grad is None] == []


@pytest.mark.parametrize("build", ["second"], indirect=True)
def test_a_device_encodes_one_half_while_the_decoder_searches_the_other(
    build: Callable[[], LightningParser], sentences: list[Sentence], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the loss and its gradients are those of the whole batch."""
    parsers = build().eval(), build().eval()
    batch = batch_of(sentences, parsers[0].vocabulary)
    expected = parsers[0].training_step(batch, 0)
    expected.backward()
    parsers[1].halves = True
    happened = list[str]()
    with SimulatedDevice() as device:
        parsers[1].to(DEVICE)
        encode, decode = parsers[1].encode, AD3.decode
        copied = device.seen.add

        def copy(what: str, amount: int = 0) -> None:
            if what in ("down", "waits"):
                happened.append("wait")
            copied(what, amount)

        def encoding(batch: Any) -> Any:
            happened.append("encode")
            return encode(batch)

        def search(decoder: AD3, parts: Any) -> Any:
            happened.append("search")
            return decode(decoder, parts)

        monkeypatch.setattr(device.seen, "add", copy)
        monkeypatch.setattr(parsers[1], "encode", encoding)
        monkeypatch.setattr(AD3, "decode", search)
        loss = parsers[1].training_step(batch, 0)
        loss.backward()
    order = "".join(event[0] for event in happened)
    assert re.fullmatch("ew+esw+s", order)
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=1e-4)
    for (name, one), (_, other) in zip(parsers[1].named_parameters(), parsers[0].named_parameters(), strict=True):
        assert one.grad is not None
        assert other.grad is not None
        torch.testing.assert_close(one.grad.numbers, other.grad, rtol=1e-3, atol=1e-5, msg=name)  # type: ignore[attr-defined]


def test_few_copies(
    build: Callable[[], LightningParser], sentences: list[Sentence], request: pytest.FixtureRequest
) -> None:
    parser = build().eval()
    batch = batch_of(sentences, parser.vocabulary)
    with SimulatedDevice() as device:
        parser.to(DEVICE)
        device.seen.clear()
        BatchParser(parser, parser.decoder)(batch)
    check(device.seen, request.node.callspec.params["build"], training=False)


def test_mixing_devices_is_refused() -> None:
    with SimulatedDevice() as device:
        there = torch.ones(3).to(DEVICE)
        assert there.device.type == DEVICE.type
        assert (there + 1).cpu().tolist() == [2, 2, 2]
        assert there.new_tensor([1.0, 2.0]).device.type == DEVICE.type
        with pytest.raises(RuntimeError, match="add mixes devices"):
            there + torch.ones(3)
        with pytest.raises((TypeError, RuntimeError), match="numpy"):
            there.numpy()
        device.seen.clear()
        assert there[there > 0].sum().item() == 3
        assert device.seen["waits"] == 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_mixed_precision(build: Callable[[], LightningParser], sentences: list[Sentence], dtype: torch.dtype) -> None:
    """Losses and gradients are finite and near those of fp32, and parsing works."""
    parsers = build().eval(), build().eval()
    batch = batch_of(sentences, parsers[0].vocabulary)
    expected = float(parsers[0].training_step(batch, 0).detach())
    with SimulatedDevice() as device:
        parsers[1].to(DEVICE)
        scaler = torch.amp.GradScaler("cpu", enabled=dtype == torch.float16)
        optimizer = torch.optim.SGD(parsers[1].parameters(), lr=0.1)
        for _ in range(STEPS_OF_SCALING):
            optimizer.zero_grad()
            with device.autocast(dtype):
                loss = parsers[1].training_step(batch, 0)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            assert float(loss.detach()) == pytest.approx(expected, rel=0.05)
            gradients = [weight.grad for weight in parsers[1].parameters() if weight.grad is not None]
            assert gradients
            if finite := all(bool(gradient.isfinite().all()) for gradient in gradients):
                break
            scaler.step(optimizer)  # changes nothing
            scaler.update()  # halves the scale
        assert finite
        scaler.step(optimizer)
        with device.autocast(dtype):
            parse(parsers[1], sentences)


@pytest.mark.parametrize("run", [parse_windows, parse_directly])
def test_batches_that_do_not_fit_are_halved(
    run: Any,
    sentences: list[Sentence],
    vocabulary: Vocabulary,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With one line of warning; later batches are smaller, and a sentence that does not fit takes no other with it."""
    parser = random_network(vocabulary, SRU(EMBEDDINGS, size=8, layers=1))
    others = sorted(sentences, key=len)
    longest = Sentence.from_words(list(chain.from_iterable(sentence.form for sentence in sentences)))
    tried = list[int]()
    monkeypatch.setattr(stream, "BATCHES_AHEAD", 1)

    def parse_all(sentences: list[Sentence]) -> list[Any]:
        steps = BatchParser(parser, MST(), ParsingSettings(60))
        return list(chain.from_iterable(run(steps, sentences)))

    expected = parse_all(others)
    with SimulatedDevice() as device:
        parser.to(DEVICE)
        device.largest = 0
        for sentence in others:
            parse_all([sentence])
        device.limit = device.largest
        score = parser.score

        def watch(batch: Any) -> Any:
            tried.append(batch.words.size)
            return score(batch)

        parser.score = watch  # type: ignore[method-assign]
        found = parse_all([*others * 10, longest])
    assert [entry.text for entry in found[:-1]] == [entry.text for entry in expected] * 10
    assert isinstance(found[-1], Unparsed)
    assert "out of memory" in str(found[-1].error)
    (warning,) = [record.getMessage() for record in caplog.records]
    assert warning == f"not enough memory for a batch of {tried[0]} positions: batches are halved until they fit"
    begun = sum(size > 40 for size in tried)  # before the first was found not to fit
    assert begun <= 8 < sum(len(sentence) + 1 for sentence in others) * 10 / 60
