"""Parsers that start from trained ones, and parsers of several treebanks."""

from pathlib import Path

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from parsing import parse_batch

from arbora.cli import main
from arbora.data.batch import batch_of
from arbora.data.conll import Sentence, read_conll
from arbora.data.vocabulary import Vocabulary
from arbora.decoders import AD3
from arbora.model.encoders.embeddings import Embeddings
from arbora.model.encoders.encoder import Encoder
from arbora.model.encoders.lstm import LSTM
from arbora.model.encoders.sru import SRU
from arbora.model.loading import load
from arbora.model.scorers.biaffine import Biaffine
from arbora.model.scorers.multilinear import Multilinear
from arbora.model.scorers.taggers import Taggers
from arbora.model.tensors import to_tensors
from arbora.model.training import LightningParser

EXAMPLES = Path(__file__).parents[2] / "examples" / "treebank"
EMBEDDINGS = Embeddings(words=6, characters=6, upos=3, xpos=3, feats=4, lemmas=5)
HINGE = ("cross_entropy", "hinge")


def save(parser: LightningParser, path: Path) -> str:
    contents: dict[str, object] = {"state_dict": parser.state_dict()}
    parser.on_save_checkpoint(contents)
    torch.save(contents, path)
    return str(path)


def base_parser(sentences: list[Sentence], encoder: Encoder) -> LightningParser:
    pl.seed_everything(0, verbose=False)
    parser = LightningParser(
        Vocabulary.of(sentences, min_frequency=1),
        encoder,
        Biaffine(6, 5),
        parts=Multilinear(("grandparent",), rank=4),
        taggers=Taggers(size=7),
        decoder=AD3(),
        loss=HINGE,
    )
    for weight in parser.parameters():
        if not weight.any():
            torch.nn.init.normal_(weight)
    return parser.eval()


@pytest.fixture
def others() -> list[Sentence]:
    """Sentences with words, tags and a label that the others do not have."""
    found = [s for s in read_conll(EXAMPLES / "train.conllu") if len(s) < 20][200:230]
    found[0].deprel[0], found[0].upos[0], found[0].form[0] = "parataxis", "X", "Žluťoučký"
    return found


@pytest.mark.parametrize("encoder", [LSTM(EMBEDDINGS, 5, 2), SRU(EMBEDDINGS, 5, 2)])
@pytest.mark.parametrize("treebanks", [[], ["one", "two"]])
def test_what_is_known_scores_as_before(
    encoder: Encoder, treebanks: list[str], sentences: list[Sentence], others: list[Sentence], tmp_path: Path
) -> None:
    base = base_parser(sentences, encoder)
    new = Vocabulary.of(others, min_frequency=1, treebanks=treebanks)
    assert set(new.labels) - set(base.vocabulary.labels)
    parser = LightningParser(new, start=save(base, tmp_path / "base.ckpt"), loss=HINGE).eval()
    assert {"žluťoučký", *base.vocabulary.words} <= set(parser.vocabulary.words)
    assert parser.vocabulary.labels[: len(base.vocabulary.labels)] == base.vocabulary.labels
    for name in ("encoder", "scorer", "parts", "taggers", "decoder"):
        assert parser.settings[name] == base.settings[name]
    if treebanks:
        with torch.no_grad():
            parser.encoder.input.treebanks.weight.zero_()  # type: ignore[union-attr, operator]
    if treebanks and isinstance(encoder, SRU):
        return  # its convolutions have a bias for each input
    with torch.no_grad():  # new classes must not win for this comparison
        for name, layer in parser.taggers.classify.items():  # type: ignore[union-attr]
            layer.bias[base.taggers.sizes[name] :] = -100  # type: ignore[union-attr, index, operator]
    found = parse_batch(parser, batch_of(sentences, parser.vocabulary))
    expected = parse_batch(base, batch_of(sentences, base.vocabulary))
    np.testing.assert_allclose(found.parts.arc_score, expected.parts.arc_score, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(found.heads, expected.heads)
    for name, tags in expected.tags.items():
        np.testing.assert_array_equal(found.tags[name].classes, tags.classes)
    scores = []
    for each in (parser, base):
        batch = to_tensors(batch_of(sentences, each.vocabulary))
        with torch.no_grad():
            scores.append(each.label(each(batch)[0], batch.heads.clamp(min=0)))
    torch.testing.assert_close(scores[0][..., : base.label.labels], scores[1])


def test_what_does_not_go_together_is_named(sentences: list[Sentence], tmp_path: Path) -> None:
    base = save(base_parser(sentences, LSTM(EMBEDDINGS, 5, 1)), tmp_path / "base.ckpt")
    vocabulary = Vocabulary.of(sentences)
    with pytest.raises(ValueError, match="trained only with hinge"):
        LightningParser(vocabulary, start=base)
    with_vectors = Vocabulary.of(sentences, pretrained=(["a"], np.zeros((1, 3), np.float32)))
    with pytest.raises(ValueError, match="the parser keeps its own vectors"):
        LightningParser(with_vectors, start=base, loss=HINGE)
    with pytest.raises(ValueError, match="not both"):
        LightningParser(vocabulary, start=base, trained=base, loss=HINGE)


def test_commands(tagger: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, start in (("one", 0), ("two", 40)):
        text = (EXAMPLES / "train.conllu").read_text(encoding="utf-8").split("\n\n")[start : start + 40]
        (tmp_path / f"{name}.conllu").write_text("\n\n".join(text) + "\n\n", encoding="utf-8")
    files = [str(tmp_path / "one.conllu"), str(tmp_path / "two.conllu")]
    dev = str(EXAMPLES / "dev.conllu")
    options = ["--trainer.max_epochs=1", "--trainer.accelerator=cpu", "--trainer.enable_progress_bar=false"]
    main(["train", "--from", str(tagger), "--data.train", *files, "--data.dev", dev, *options, f"--run={tmp_path}/run"])
    parser = load(tmp_path / "run" / "best.ckpt")
    before = load(tagger).vocabulary
    assert parser.vocabulary.treebanks == ["one", "two"]
    assert parser.vocabulary.words[: len(before.words)] == before.words
    assert parser.predicts == ("upos", "xpos", "feats", "lemmas")
    capsys.readouterr()
    model = str(tmp_path / "run" / "best.ckpt")
    for treebank in ("one", "two"):
        main(
            [
                "predict",
                model,
                files[0],
                "--treebank",
                treebank,
                "--confidence",
                "--quiet",
                "-o",
                f"{tmp_path}/{treebank}",
            ]
        )
    assert (tmp_path / "one").read_text(encoding="utf-8") != (tmp_path / "two").read_text(encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["predict", model, files[0], "--treebank", "three"])
    assert "the parser has no treebank three: it has one, two" in capsys.readouterr().err
