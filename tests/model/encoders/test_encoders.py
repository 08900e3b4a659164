from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from arbora.data.batch import Batch, batch_of
from arbora.data.conll import Sentence
from arbora.data.vocabulary import ROOT, SPECIAL, UNKNOWN, Vocabulary
from arbora.model import layers
from arbora.model.encoders.embeddings import Embeddings, InputLayer
from arbora.model.encoders.encoder import Encoder
from arbora.model.encoders.lstm import LSTM
from arbora.model.encoders.sru import SRU
from arbora.model.encoders.transformer import Transformer
from arbora.model.layers import Projection, SharedDropout
from arbora.model.tensors import to_tensors

EVERYTHING = Embeddings(words=8, characters=6, upos=4, xpos=3, feats=5, lemmas=7)


KINDS = "sru", "lstm", "character lstm", "transformer", "narrow", "narrow sru", "narrow transformer", "rich transformer"


@pytest.fixture(params=KINDS)
def encoder(request: pytest.FixtureRequest) -> Encoder:
    if request.param == "rich transformer":
        return Transformer(request.getfixturevalue("bert"), mix=True, case=True, embeddings=EVERYTHING)
    if request.param == "transformer":
        return Transformer(request.getfixturevalue("bert"))
    if request.param == "sru":
        return SRU(EVERYTHING, size=9, layers=2)
    if request.param == "narrow":
        return LSTM(EVERYTHING, size=9, layers=2, output=7)
    if request.param == "narrow sru":
        return SRU(EVERYTHING, size=9, layers=2, output=7)
    if request.param == "narrow transformer":
        return Transformer(request.getfixturevalue("bert"), output=7)
    network = "lstm" if request.param == "character lstm" else "cnn"
    return LSTM(replace(EVERYTHING, character_network=network), size=9, layers=2)


def test_a_sentence_has_the_same_vectors_alone_and_in_a_batch(
    encoder: Encoder, sentences: list[Sentence], vocabulary: Vocabulary, batch: Batch
) -> None:
    module = encoder.build(vocabulary).eval()
    together = module(batch)
    assert together.shape == (*batch.words.shape, module.size)
    for b, sentence in enumerate(sentences):
        alone = module(to_tensors(batch_of([sentence], vocabulary)))[0]
        torch.testing.assert_close(together[b, : len(sentence) + 1], alone, atol=1e-5, rtol=1e-4)


def test_every_word_sees_the_whole_sentence(encoder: Encoder, vocabulary: Vocabulary) -> None:
    module = encoder.build(vocabulary).eval()

    def vectors(words: list[str]) -> torch.Tensor:
        return module(to_tensors(batch_of([Sentence.from_words(words)], vocabulary)))[0]

    first, second = vectors(list("abcdef")), vectors(list("abcdeg"))
    assert (first[1:] - second[1:]).abs().amax(1).gt(1e-7).all()


def test_all_weights_learn(encoder: Encoder, vocabulary: Vocabulary, batch: Batch) -> None:
    module = encoder.build(vocabulary).train()
    module(batch).square().sum().backward()
    without = [name for name, weight in module.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert [name for name in without if "pooler" not in name and "key.bias" not in name] == []


def test_transformer_reads_a_long_sentence_in_stretches(bert: str, vocabulary: Vocabulary) -> None:
    module = Transformer(bert).build(vocabulary).eval()
    words = ["something"] * 30 + ["x" * 100]
    vectors = module(to_tensors(batch_of([Sentence.from_words(words)], vocabulary)))
    assert vectors.shape == (1, 32, 16)
    assert vectors.isfinite().all()


def test_transformer_has_pretrained_weights_and_a_root_of_its_own(bert: str, vocabulary: Vocabulary) -> None:
    module = Transformer(bert).build(vocabulary)
    pretrained = {id(weight) for weight, _ in module.pretrained_parameters()}
    assert [name for name, weight in module.named_parameters() if id(weight) not in pretrained] == ["root"]
    frozen = Transformer(bert, frozen=True).build(vocabulary)
    assert [name for name, weight in frozen.named_parameters() if weight.requires_grad] == ["root"]


def test_transformer_tells_upper_case_if_it_is_asked_to(bert: str, vocabulary: Vocabulary) -> None:
    for case in (False, True):
        module = Transformer(bert, case=case).build(vocabulary).eval()
        lower, upper = (
            module(to_tensors(batch_of([Sentence.from_words(words)], vocabulary))) for words in (["a", "b"], ["A", "b"])
        )
        assert torch.equal(lower, upper) is not case


def test_pieces_of_other_scripts_become_unknown(bert: str, vocabulary: Vocabulary, tmp_path: Path) -> None:
    words = to_tensors(batch_of([Sentence.from_words(["the", "cat", "-", "1"])], vocabulary))
    settings = Transformer(bert)
    module = settings.build(vocabulary).eval()
    before, pieces = module(words), len(module.tokenizer)
    module.keep_scripts(["latin"])
    assert len(module.tokenizer) == pieces
    assert torch.equal(module(words), before)
    module.keep_scripts(["greek"])
    left = module.tokenizer.get_vocab()
    assert not any(letter in left for letter in "abc")
    assert len(left) < pieces
    unknown = module.cut([["the"], ["-"]])["input_ids"][:, 1]
    assert (unknown == left["[UNK]"]).tolist() == [True, False]
    module.save_files(tmp_path)
    again = settings.build(vocabulary, tmp_path).eval()
    again.load_state_dict(module.state_dict())
    assert torch.equal(again(words), module(words))


def test_layers_of_a_transformer_are_counted_from_above(bert: str, vocabulary: Vocabulary) -> None:
    module = Transformer(bert).build(vocabulary)
    above = {id(weight): number for weight, number in module.pretrained_parameters()}
    found = {name: above[id(weight)] for name, weight in module.model.named_parameters()}  # type: ignore[union-attr, operator]
    assert found["embeddings.word_embeddings.weight"] == 2
    assert found["encoder.layer.0.output.dense.weight"] == 1
    assert found["encoder.layer.1.output.dense.weight"] == 0


def test_an_absent_transformer_is_named(vocabulary: Vocabulary, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    with pytest.raises(ValueError, match="cannot load the transformer .*nothing-here"):
        Transformer(str(tmp_path / "nothing-here")).build(vocabulary)


def test_word_dropout_spares_the_root_and_characters(vocabulary: Vocabulary, batch: Batch) -> None:
    layer = InputLayer(Embeddings(words=4, characters=0, word_dropout=1.0), vocabulary).train()
    table = layer.columns["words"].weight
    vectors = layer(batch)
    torch.testing.assert_close(vectors[:, 0], table[ROOT].expand(len(vectors), -1))
    words = vectors[batch.is_word]
    torch.testing.assert_close(words, table[UNKNOWN].expand(len(words), -1))


def test_dropped_columns_are_made_up_for(vocabulary: Vocabulary, batch: Batch) -> None:
    layer = InputLayer(Embeddings(words=4, characters=4, word_dropout=0, column_dropout=0.5), vocabulary)
    whole = layer.eval()(batch)[batch.is_word]
    dropped = layer.train()(batch)[batch.is_word]
    for part in (slice(0, 4), slice(4, 8)):
        gone = (dropped[:, part] == 0).all(1)
        doubled = torch.isclose(dropped[:, part], 2 * whole[:, part]).all(1)
        same = torch.isclose(dropped[:, part], whole[:, part]).all(1)
        assert (gone | doubled | same).all()
        assert gone.any()
        assert doubled.any()


def test_pretrained_vectors_are_read_and_stay(sentences: list[Sentence]) -> None:
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    vocabulary = Vocabulary.of(sentences, pretrained=(["xyzzy", "plugh"], table))
    layer = InputLayer(Embeddings(words=2, characters=0), vocabulary)
    vectors = layer(to_tensors(batch_of([Sentence.from_words(["Plugh", "other"])], vocabulary)))[0]
    assert vectors[:, 2:].tolist() == [[0, 0, 0], [3, 4, 5], [0, 0, 0]]
    assert layer.vectors is not None
    assert not layer.vectors.weight.requires_grad
    assert len(layer.vectors.weight) == SPECIAL + 2


def test_nothing_to_read_is_an_error(vocabulary: Vocabulary) -> None:
    with pytest.raises(ValueError, match="reads nothing"):
        InputLayer(Embeddings(words=0, characters=0), vocabulary)


def test_shared_dropout_has_one_mask_for_a_sentence() -> None:
    vectors = SharedDropout(0.5).train()(torch.ones(3, 5, 40))
    assert set(vectors.unique().tolist()) == {0.0, 2.0}
    assert (vectors == vectors[:, :1]).all()
    assert not (vectors[0] == vectors[1]).all()


@pytest.mark.parametrize("cells", [1, 30, 47])
def test_words_are_projected_group_by_group_in_parsing_alone(monkeypatch: pytest.MonkeyPatch, cells: int) -> None:
    monkeypatch.setattr(layers, "GROUP_CELLS", cells)
    projection, vectors = Projection(10, 4, dropout=0.5), torch.randn(3, 8, 10)
    groups = []
    projection[0].register_forward_hook(lambda module, inputs, output: groups.append(len(inputs[0])))
    expected = projection.eval()(vectors)
    with torch.no_grad():
        found = projection(vectors)
    torch.testing.assert_close(found, expected)
    assert groups[0] == 3  # sentences, as there are gradients
    assert sum(groups[1:]) == 24
    assert max(groups[1:]) == max(1, cells // 10)
    groups.clear()
    with torch.no_grad():
        dropped = projection.train()(vectors) == 0
    assert groups == [3]
    assert (dropped.all(1) == dropped.any(1)).all()  # one mask for a sentence
