import io
import json
import os
import pickle
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from fitting import fit
from parsing import parse, parse_batch

from arbora.data.batch import Batch, batch_of
from arbora.data.conll import Sentence
from arbora.data.vocabulary import Vocabulary
from arbora.decoders import MST, Eisner
from arbora.model.encoders.embeddings import Embeddings
from arbora.model.encoders.lstm import LSTM
from arbora.model.encoders.sru import SRU
from arbora.model.loading import load_network
from arbora.model.scorers import biaffine
from arbora.model.scorers.biaffine import ArcScorer, Biaffine, LabelScorer
from arbora.model.storage.checkpoint import KEY
from arbora.model.storage.settings import from_plain, to_plain
from arbora.model.training import LightningParser, Loss, Optimization

SMALL = SRU(Embeddings(words=20, characters=10, upos=5), size=16, layers=1, dropout=0.1)


@pytest.fixture
def parser(vocabulary: Vocabulary) -> LightningParser:
    pl.seed_everything(0, verbose=False)
    return LightningParser(vocabulary, SMALL, Biaffine(20, 10))


@pytest.fixture
def checkpoint(parser: LightningParser, tmp_path: Path) -> Path:
    contents: dict[str, object] = {"state_dict": parser.state_dict()}
    parser.on_save_checkpoint(contents)
    torch.save(contents, tmp_path / "model.ckpt")
    return tmp_path / "model.ckpt"


@pytest.mark.parametrize("loss", [["cross_entropy"], ["crf"], ["projective_crf"], ["cross_entropy", "hinge"]])
def test_ten_sentences_are_learnt(loss: list[Loss], vocabulary: Vocabulary, batch: Batch) -> None:
    pl.seed_everything(1, verbose=False)
    optimization = Optimization(lr=1e-2, warmup=0, decay=False)
    parser = LightningParser(vocabulary, SMALL, Biaffine(30, 20, dropout=0), loss=loss, optimization=optimization)
    fit(parser, batch, 60)
    found = parse_batch(parser.eval(), batch)
    word = batch.is_word
    projective = "projective_crf" in loss
    assert (torch.from_numpy(found.heads) == batch.heads)[word].float().mean() > (0.85 if projective else 0.99)
    assert (torch.from_numpy(found.labels) == batch.labels)[word].float().mean() > 0.9


def test_arc_scores_forbid_padding_and_loops() -> None:
    arc = ArcScorer(6, Biaffine(4, 3))(torch.randn(2, 5, 6), torch.tensor([4, 2]))
    forbidden = torch.zeros(2, 5, 5, dtype=torch.bool)
    forbidden |= torch.eye(5, dtype=torch.bool)
    forbidden[1, :, 3:] = True
    assert (arc.isneginf() == forbidden).all()


def test_labels_are_scored_by_the_formula() -> None:
    scorer = LabelScorer(6, 7, Biaffine(4, 3)).eval()
    torch.nn.init.normal_(scorer.weight)
    vectors, heads = torch.randn(1, 5, 6), torch.tensor([[0, 2, 0, 2, 3]])
    found = scorer(vectors, heads)
    weight = scorer.weight.unflatten(1, (7, 4))
    one = torch.ones(1)
    for m in range(5):
        modifier = torch.cat([scorer.modifier(vectors)[0, m], one])
        head = torch.cat([scorer.head(vectors)[0, heads[0, m]], one])
        torch.testing.assert_close(found[0, m], torch.einsum("i,ilj,j->l", modifier, weight, head))


@pytest.mark.parametrize("words", [1, 4, 100])
def test_labels_of_words_alone_are_those_of_all_positions(monkeypatch: pytest.MonkeyPatch, words: int) -> None:
    monkeypatch.setitem(biaffine.LABELLED, "cpu", words)
    scorer = LabelScorer(6, 7, Biaffine(4, 3)).eval()
    torch.nn.init.normal_(scorer.weight)
    vectors, heads = torch.randn(2, 5, 6), torch.tensor([[0, 2, 0, 2, 3], [0, 0, 1, 0, 0]])
    sentence, m = torch.tensor([0, 0, 0, 0, 1, 1]), torch.tensor([1, 2, 3, 4, 1, 2])
    found = scorer.score_words(vectors, 5 * sentence + m, 5 * sentence + heads[sentence, m])
    torch.testing.assert_close(found, scorer(vectors, heads)[sentence, m])


def test_only_words_have_labels(parser: LightningParser, batch: Batch) -> None:
    scores, heads = parser.eval().score(batch), np.asarray(batch.heads)
    words = np.asarray(batch.is_word)
    found = scores.labels(heads)
    assert (found[~words] == 0).all()
    np.testing.assert_array_equal(found[words], scores.label_scores(heads, words).argmax(1))
    assert (scores.labels(np.full_like(heads, -1)) == 0).all()


def test_root_label_is_for_the_root_alone(parser: LightningParser, batch: Batch) -> None:
    found = parse_batch(parser.eval(), batch)
    is_root = np.array([label in parser.vocabulary.root_labels for label in parser.vocabulary.labels])
    word = batch.is_word
    assert (is_root[found.labels] == (found.heads == 0))[word].all()


def test_parses_do_not_depend_on_batches(parser: LightningParser, sentences: list[Sentence]) -> None:
    together = list(parse(parser, sentences, max_tokens=10_000))
    alone = list(parse(parser, iter(sentences), max_tokens=1))
    assert [entry.sentence for entry in together] == sentences
    assert [entry.text for entry in together] == [entry.text for entry in alone]
    assert [entry.score for entry in together] == pytest.approx([entry.score for entry in alone], abs=1e-4)


def test_parsing_reads_a_window_at_a_time(parser: LightningParser, sentences: list[Sentence]) -> None:
    taken = 0

    def endless():  # type: ignore[no-untyped-def]
        nonlocal taken
        while True:
            taken += 1
            yield sentences[taken % len(sentences)]

    stream = parse(parser, endless(), max_tokens=40)
    assert next(stream).sentence is sentences[1]
    assert taken < 400


def test_scores_that_are_not_numbers_name_the_sentence(parser: LightningParser, sentences: list[Sentence]) -> None:
    parser.arc.weight.data.fill_(torch.nan)
    with pytest.raises(ValueError, match=r"train.conllu:\d+.*(NaN|nan)"):
        list(parse(parser, sentences))


def test_any_decoder_serves(parser: LightningParser, batch: Batch) -> None:
    exact = parse_batch(parser.eval(), batch).trees
    parser.decoder = Eisner()
    projective = parse_batch(parser, batch).trees
    assert (projective.score <= exact.score + 1e-6).all()


def test_checkpoint_round_trip(parser: LightningParser, checkpoint: Path, batch: Batch) -> None:
    again = load_network(checkpoint)
    assert again.settings == parser.settings
    assert again.vocabulary == parser.vocabulary
    assert not again.training
    expected, found = parse_batch(parser.eval(), batch), parse_batch(again, batch)
    np.testing.assert_array_equal(found.trees.heads, expected.trees.heads)
    assert (found.labels == expected.labels).all()


def test_settings_round_trip() -> None:
    for settings in (SMALL, LSTM(layers=1), MST(single_root=False), Biaffine(3), Optimization(betas=(0.8, 0.9))):
        plain = json.loads(json.dumps(to_plain(settings)))
        assert to_plain(from_plain(plain)) == to_plain(settings)


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"class_path": "subprocess.Popen", "init_args": {}}, "not a class of settings"),
        ({"class_path": "arbora.model.encoders.LSTM"}, "must have a class_path and init_args"),
        ({"type": "subprocess.Popen"}, "does not know"),
        ({"type": "sru", "depth": 3}, "settings of sru: .*unexpected keyword"),
        ({"size": 3}, "must have a type"),
    ],
)
def test_settings_name_nothing_else(plain: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_plain(plain)


@dataclass
class _Malicious:
    target: str

    def __reduce__(self):  # type: ignore[no-untyped-def]
        return os.mkdir, (self.target,)


def test_code_in_a_checkpoint_is_not_run(checkpoint: Path, tmp_path: Path) -> None:
    harm = tmp_path / "harm"
    contents = torch.load(checkpoint, weights_only=True)
    torch.save(contents | {"callbacks": _Malicious(str(harm))}, checkpoint)
    with pytest.raises(ValueError, match=r"model\.ckpt: .*nothing was run"):
        load_network(checkpoint)
    checkpoint.write_bytes(pickle.dumps(_Malicious(str(harm))))
    with pytest.raises(ValueError, match=r"model\.ckpt: .*nothing was run"):
        load_network(checkpoint)
    assert not harm.exists()


def test_damaged_and_foreign_files_are_refused(checkpoint: Path, tmp_path: Path) -> None:
    whole = checkpoint.read_bytes()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("note.txt", "no checkpoint")
    for damaged in (b"", b"text", whole[: len(whole) // 2], archive.getvalue()):
        checkpoint.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"model\.ckpt: not a checkpoint"):
            load_network(checkpoint)
    torch.save({"state_dict": {}}, checkpoint)
    with pytest.raises(ValueError, match="not a checkpoint of arbora"):
        load_network(checkpoint)
    with pytest.raises(FileNotFoundError):
        load_network(tmp_path / "absent.ckpt")


@pytest.mark.parametrize("change", ["format", "weights", "vocabulary", "settings"])
def test_what_does_not_fit_is_named(checkpoint: Path, change: str) -> None:
    contents = torch.load(checkpoint, weights_only=True)
    saved = json.loads(contents[KEY])
    if change == "format":
        saved["format"] = 99
    elif change == "weights":
        contents["state_dict"]["arc.weight"] = torch.zeros(1)
    elif change == "vocabulary":
        del saved["vocabulary"]["words"]
    else:
        saved["settings"]["encoder"]["type"] = "os.path.join"
    contents[KEY] = json.dumps(saved)
    torch.save(contents, checkpoint)
    match = {"format": "format 99", "weights": "arc.weight", "vocabulary": "vocabulary", "settings": "os.path.join"}
    with pytest.raises(ValueError, match=match[change]) as raised:
        load_network(checkpoint)
    assert "\n" not in str(raised.value)


def test_rate_rises_and_falls(parser: LightningParser) -> None:
    rates = [parser._rate(step, [0, 100]) for step in range(101)]
    assert rates.index(max(rates)) == 5
    assert max(rates) == pytest.approx(1, abs=0.2)
    assert rates[-1] == 0
    assert parser._rate(10, [0, float("inf")]) == 1
    assert [parser._rate(step, [0, 50, 150]) for step in range(50, 151)] == rates  # of the second phase


def test_pretrained_weights_have_their_own_rate(parser: LightningParser, monkeypatch: pytest.MonkeyPatch) -> None:
    weight = parser.encoder.input.columns["words"].weight  # type: ignore[union-attr]
    monkeypatch.setattr(parser.encoder, "pretrained_parameters", lambda: iter([(weight, 0)]))
    parser.trainer = pl.Trainer(max_steps=5, accelerator="cpu", logger=False, enable_checkpointing=False)
    groups = parser.configure_optimizers()["optimizer"].param_groups
    base = {id(w): group["initial_lr"] for group in groups for w in group["params"]}
    assert base[id(weight)] == parser.optimization.pretrained_lr
    assert base[id(parser.arc.weight)] == parser.optimization.lr


def test_errors_of_settings(vocabulary: Vocabulary) -> None:
    with pytest.raises(ValueError, match="model.loss is empty"):
        LightningParser(vocabulary, SMALL, loss=[])
    with pytest.raises(ValueError, match="no labels"):
        LightningParser(Vocabulary(), SMALL)


def test_collated_labels_outside_the_vocabulary_count_as_wrong(
    parser: LightningParser, sentences: list[Sentence]
) -> None:
    vocabulary = Vocabulary.of(sentences[:1], min_frequency=1)
    batch = batch_of([sentences[1]], vocabulary)
    unseen = [label not in vocabulary.labels for label in sentences[1].deprel]
    assert (batch.labels[0, 1:] == -1).tolist() == unseen
