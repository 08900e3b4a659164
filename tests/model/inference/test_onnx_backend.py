"""Parsing by graphs: the same scores as torch gives, without torch, whatever else is in the batch."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from untrained import random_network

from arbora.cli import main
from arbora.cli.export import largest_difference
from arbora.data.batch import Batch, batch_of
from arbora.data.conll import Sentence
from arbora.data.vocabulary import Vocabulary
from arbora.decoders import AD3, HillClimbing
from arbora.decoders.parts.kinds import HIGHER_ORDER
from arbora.model.encoders.embeddings import Embeddings
from arbora.model.encoders.lstm import LSTM
from arbora.model.encoders.sru import SRU
from arbora.model.encoders.transformer import Transformer
from arbora.model.inference import onnx_backend
from arbora.model.inference.onnx_backend import OnnxBackend
from arbora.model.loading import load
from arbora.model.network import Network
from arbora.model.parser import Parser
from arbora.model.pruners.settings import Frozen, Shared, Vine
from arbora.model.scorers.multilinear import Multilinear
from arbora.model.scorers.taggers import Taggers
from arbora.model.scorers.tree_features import TreeFeatures
from arbora.model.storage.checkpoint import KEY, describe
from arbora.model.storage.folder import FILES, GRAPHS, Config, Precision, plain_settings, write_folder
from arbora.model.storage.onnx import Unsupported, export_graphs, facts_for_graphs, sample_batch

pytest.importorskip("onnx", reason="ONNX is an extra")

EVERYTHING = Embeddings(words=8, characters=6, upos=4, xpos=3, feats=5, lemmas=7)
SHAPES = ((1,), (2, 1), (5, 20, 3), (40,))
WORDS = ["A", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dogs", "again", "."]
KINDS = (
    *("first order", "lstm", "all parts", "attachment", "character lstm", "treebanks", "narrow", "frozen pruner"),
    *("taggers", "taggers of the last layer", "transformer", "rich transformer"),
)


def save(parser: Network, path: Path) -> Path:
    description = describe(parser.settings, parser.vocabulary.as_dict())
    torch.save({"state_dict": parser.state_dict(), KEY: description}, path)
    return path


def write(parser: Network, folder: Path, precision: Precision = "int8") -> Path:
    """The folder of a parser with graphs only."""
    folder.mkdir()
    parser.save_files(folder / FILES)
    config = Config(plain_settings(parser.settings), precision, onnx=facts_for_graphs(parser))
    graphs = {f"{GRAPHS}{name}.onnx": graph for name, graph in export_graphs(parser, precision).items()}
    write_folder(folder, config, parser.vocabulary.as_dict(), graphs)
    return folder


@pytest.fixture(params=KINDS)
def parser(request: pytest.FixtureRequest, vocabulary: Vocabulary, tmp_path: Path) -> Network:
    kind, lstm, sru = request.param, LSTM(EVERYTHING, size=9), SRU(EVERYTHING, size=9, layers=2)
    if kind == "first order":
        return random_network(vocabulary, sru)
    if kind == "lstm":
        return random_network(vocabulary, lstm, pruner=Shared(max_heads=3))
    if kind == "all parts":
        return random_network(vocabulary, lstm, parts=Multilinear(tuple(HIGHER_ORDER), rank=6), decoder=HillClimbing())
    if kind == "attachment":
        parts = Multilinear(("grandparent", "sibling"), rank=6, attachment=4)
        return random_network(vocabulary, lstm, parts=parts, decoder=AD3())
    if kind == "character lstm":
        return random_network(vocabulary, replace(lstm, embeddings=replace(EVERYTHING, character_network="lstm")))
    if kind.startswith("taggers"):
        return random_network(
            vocabulary, replace(lstm, output=7), taggers=Taggers(size=5, layer=1 if kind == "taggers" else 2)
        )
    if kind == "treebanks":
        return random_network(replace(vocabulary, treebanks=["one", "two"]), lstm)
    if kind == "narrow":
        return random_network(vocabulary, replace(lstm, output=7), parts=Multilinear(rank=6), decoder=AD3())
    if kind == "transformer":
        return random_network(vocabulary, Transformer(request.getfixturevalue("bert"), output=7))
    if kind == "rich transformer":
        encoder = Transformer(request.getfixturevalue("bert"), mix=True, case=True, embeddings=EVERYTHING)
        return random_network(vocabulary, encoder, taggers=Taggers(size=5))
    frozen = Frozen(max_heads=3, checkpoint=str(save(random_network(vocabulary, sru), tmp_path / "first.ckpt")))
    return random_network(vocabulary, lstm, parts=Multilinear(rank=6), pruner=frozen, decoder=AD3())


def test_graphs_score_as_torch_does(
    parser: Network, batch: Batch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_backend, "LABELLED", 4)
    differences = {}
    for precision in ("fp32", "fp16", "int8"):
        other = load(write(parser, tmp_path / precision, precision)).backend  # type: ignore[arg-type]
        assert isinstance(other, OnnxBackend)
        each = sample_batch(parser.vocabulary, (5, 20, 3))
        differences[precision] = _difference(parser, other, each)
        if precision != "fp32":
            continue
        for lengths in SHAPES:
            each = sample_batch(parser.vocabulary, lengths)
            assert _difference(parser, other, each) < 1e-4
            found, expected = other.score(each), parser.score(each)
            parts = expected.parts(parser.decoder)
            assert found.arc_labels(parts).tolist() == expected.arc_labels(parts).tolist()
            heads = np.where(each.is_word, 0, -1)
            of_labels = [scores.label_scores(heads, each.is_word) for scores in (found, expected)]
            np.testing.assert_allclose(*of_labels, rtol=1e-4, atol=1e-4)
            for name, of_column in expected.tags().items():
                assert found.tags()[name].classes.tolist() == of_column.classes.tolist()
            assert (found.pruner_arcs() is None) == (expected.pruner_arcs() is None)
            if len(lengths) == 1:
                rows = [np.concatenate([block for _, block in scores.arc_rows()]) for scores in (found, expected)]
                np.testing.assert_allclose(*rows, rtol=1e-4, atol=1e-4)
    assert differences["fp32"] < 1e-4
    assert differences["fp16"] < 0.02
    assert differences["int8"] < 0.6


def _difference(parser: Network, other: OnnxBackend, batch: Batch) -> float:
    """With all arcs as candidates, as rounded scores may prune others."""
    if other.pruner is not None:
        other.pruner = onnx_backend.PrunerFacts(max_heads=1000, ratio=0.0)
        parser.pruner.max_heads, parser.pruner.ratio = 1000, 0.0  # type: ignore[union-attr, assignment]
    return largest_difference(parser.score(batch), other.score(batch), batch, parser.decoder)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_result_does_not_depend_on_the_batch(parser: Network, precision: Precision, tmp_path: Path) -> None:
    """Sentences one by one, all at once, in another order, and several batches at a time: the same bytes."""
    folder = write(parser, tmp_path / "folder", precision)
    backends = {threads: load(folder, threads=threads).backend for threads in (1, 3)}
    rng = np.random.default_rng(0)
    sentences = [Sentence.from_words(rng.choice(WORDS, size).tolist()) for size in (1, 9, 3, 30, 4, 12, 2)]
    written = []
    for max_tokens, order, threads in ((1, 1, 1), (20, 1, 1), (1000, 1, 1), (40, -1, 1), (1, 1, 3), (20, -1, 3)):
        model = Parser(backends[threads], parser.decoder)
        model.settings = replace(model.settings, max_tokens=max_tokens)
        written.append([tree.as_text(scores=False) for tree in model.parse(sentences[::order])][::order])
    assert all(each == written[0] for each in written)


def test_forms_are_forgotten_when_there_are_many(
    vocabulary: Vocabulary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parser = random_network(vocabulary, LSTM(EVERYTHING, size=9))
    backend = load(write(parser, tmp_path / "folder", "fp32")).backend
    monkeypatch.setattr(onnx_backend, "KEPT_FORMS", 6)
    for start in (0, 4, 8, 0, 2):
        each = batch_of([Sentence.from_words(WORDS[start : start + 3])], vocabulary)
        assert largest_difference(parser.score(each), backend.score(each), each, parser.decoder) < 1e-4


def test_what_only_torch_runs_is_named(vocabulary: Vocabulary, tmp_path: Path) -> None:
    with_features = random_network(
        vocabulary, LSTM(EVERYTHING, size=9), features=TreeFeatures(rank=4), decoder=HillClimbing()
    )
    with pytest.raises(Unsupported, match="tree features"):
        export_graphs(with_features)
    with pytest.raises(Unsupported, match="the pruner Vine"):
        export_graphs(random_network(vocabulary, LSTM(EVERYTHING, size=9), pruner=Vine()))
    save(with_features, tmp_path / "model.ckpt")
    main(["export", str(tmp_path / "model.ckpt"), "-o", str(tmp_path / "folder"), "--torch", "--quiet"])
    assert isinstance(load(tmp_path / "folder").backend, Network)


def test_damaged_graphs_are_named(vocabulary: Vocabulary, tmp_path: Path) -> None:
    folder = write(random_network(vocabulary, LSTM(EVERYTHING, size=9)), tmp_path / "folder")
    path = folder / GRAPHS / "arcs.onnx"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"arcs\.onnx: damaged or changed"):
        load(folder)
    with pytest.raises(ValueError, match="has no weights for torch"):
        load(folder, "torch")


def test_torch_is_not_imported(vocabulary: Vocabulary, tmp_path: Path, bert: str) -> None:
    folders = [
        write(
            random_network(vocabulary, LSTM(EVERYTHING, size=9), parts=Multilinear(rank=6), decoder=AD3()),
            tmp_path / "lstm",
        ),
        write(random_network(vocabulary, Transformer(bert)), tmp_path / "transformer"),
    ]
    (tmp_path / "in").write_text("A quick fox\n")
    code = f"""
import sys
import arbora
from arbora.cli import main
for folder in {[str(folder) for folder in folders]!r}:
    main(["predict", folder, {str(tmp_path / "in")!r}, "--input", "text", "-o", {str(tmp_path / "out")!r}, "--quiet"])
    assert len(arbora.load(folder).parse(["a", "b"]).heads) == 2
heavy = ("torch", "pytorch_lightning", "transformers", "onnx")
assert [name for name in sys.modules if name.partition(".")[0] in heavy] == []
"""
    subprocess.run([sys.executable, "-c", code], check=True)
