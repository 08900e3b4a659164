import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arbora.data.batch import batch_of, collate, cut, groups, index_sentences, share
from arbora.data.conll import Sentence, read_conll
from arbora.data.vocabulary import PAD, ROOT, UNKNOWN, Vocabulary

FIXTURE = Path(__file__).parents[1] / "fixtures" / "treebank.conllu"
LENGTHS = st.lists(st.integers(1, 30), min_size=1, max_size=60)


def test_a_batch_holds_what_the_file_says() -> None:
    sentences = list(read_conll(FIXTURE))
    vocabulary = Vocabulary.of(sentences, min_frequency=1)
    batch = batch_of([sentences[4], sentences[0]], vocabulary)
    assert batch.lengths.tolist() == [2, 11]
    assert batch.words.shape == (2, 12)
    assert batch.is_word.sum(1).tolist() == [2, 11]
    assert batch.heads[0].tolist() == [-1, 0, 1] + [-1] * 9
    assert batch.heads[1, 1:].tolist() == sentences[0].head
    assert [vocabulary.labels[i] for i in batch.labels[1, 1:]] == sentences[0].deprel
    assert batch.words[:, 0].tolist() == [ROOT, ROOT]
    assert set(batch.words[0, 3:].tolist()) == {PAD}
    names = {i: name for name, i in vocabulary.index["feats"].items()}
    assert {names[i] for i in batch.feats[1, 1].tolist() if i} == {"Definite=Def", "PronType=Art"}
    letters = {i: letter for letter, i in vocabulary.index["characters"].items()}
    spelt = ["".join(letters.get(i, "") for i in row) for row in batch.characters.tolist()]
    assert [spelt[i] for i in batch.spelling[1, 1:].tolist()] == sentences[0].form
    assert len(set(sentences[0].form + sentences[4].form)) == len(batch.characters) - 1


def test_rows_of_a_batch_are_a_batch() -> None:
    sentences = sorted(read_conll(FIXTURE), key=len)
    sentences = [replace(sentence, forbidden=((1, 0),)) for sentence in sentences]
    vocabulary = Vocabulary.of(sentences, min_frequency=1)
    rows, alone = batch_of(sentences, vocabulary).rows(1, 3), batch_of(sentences[1:3], vocabulary)
    for item in fields(alone):
        found, expected = getattr(rows, item.name), getattr(alone, item.name)
        if item.name == "spelling":
            spelt = rows.characters[found]
            np.testing.assert_array_equal(spelt[..., : alone.characters.shape[1]], alone.characters[expected])
        elif item.name == "feats":  # wider, since other sentences have more
            np.testing.assert_array_equal(found[..., : expected.shape[2]], expected)
        elif item.name == "forms":
            assert found == expected
        elif item.name not in ("characters", "distinct_forms"):
            np.testing.assert_array_equal(found, expected, item.name)


def test_unseen_entries_are_unknown() -> None:
    vocabulary = Vocabulary.of(read_conll(FIXTURE))
    (indexed,) = index_sentences([Sentence.from_words(["xyzzy", "THE"])], vocabulary)
    assert indexed.columns[0].tolist() == [ROOT, UNKNOWN, vocabulary.index["words"]["the"]]
    assert indexed.labels.tolist() == [-1, -1, -1]
    assert indexed.heads.tolist() == [-1, -1, -1]


def test_batches_need_no_torch() -> None:
    code = "import sys, arbora.data.batch; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@given(lengths=LENGTHS, max_tokens=st.integers(1, 100), seed=st.none() | st.integers(0, 9))
def test_cut_holds_every_sentence_once_within_the_limit(lengths: list[int], max_tokens: int, seed: int | None) -> None:
    batches = cut(lengths, max_tokens, None if seed is None else np.random.default_rng(seed))
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    assert all(len(b) == 1 or len(b) * (max(lengths[i] for i in b) + 1) <= max_tokens for b in batches)
    assert len(batches) == len(cut(lengths, max_tokens))


def test_cut_without_sentences() -> None:
    assert cut([], 100) == []


def test_order_follows_the_seed() -> None:
    lengths = [3, 4, 5] * 20

    def order(seed: int) -> list[list[int]]:
        return cut(lengths, 20, np.random.default_rng(seed))

    assert order(1) == order(1)
    assert order(1) != order(2)


@given(lengths=LENGTHS, ranks=st.integers(1, 5), max_tokens=st.integers(10, 200))
def test_devices_evaluate_every_sentence_exactly_once(lengths: list[int], ranks: int, max_tokens: int) -> None:
    shares = [share(cut(lengths, max_tokens), rank, ranks, repeat=False) for rank in range(ranks)]
    assert sorted(i for part in shares for batch in part for i in batch) == list(range(len(lengths)))
    assert len({len(part) for part in shares}) == 1


@given(lengths=LENGTHS, ranks=st.integers(1, 5))
def test_devices_train_on_the_same_number_of_batches(lengths: list[int], ranks: int) -> None:
    batches = cut(lengths, 40)
    shares = [share(batches, rank, ranks, repeat=True) for rank in range(ranks)]
    assert len({len(part) for part in shares}) == 1
    assert {i for part in shares for batch in part for i in batch} == set(range(len(lengths)))
    assert all(batch for part in shares for batch in part)


def test_an_empty_batch_can_be_made() -> None:
    vocabulary = Vocabulary.of(read_conll(FIXTURE))
    assert collate([], vocabulary).words.shape == (0, 1)


@pytest.mark.parametrize("ranks", [2, 3])
def test_more_devices_than_sentences(ranks: int) -> None:
    assert [share([[0]], rank, ranks, repeat=False) for rank in range(ranks)] == [[[0]]] + [[[]]] * (ranks - 1)


@given(LENGTHS, st.integers(1, 100), st.integers(0, 40))
def test_groups_are_small_and_of_similar_length(lengths: list[int], most: int, padding: int) -> None:
    sizes = np.array(lengths)
    found = [sizes[group] for group in groups(sizes, most, padding)]
    assert np.concatenate(found).tolist() == sorted(lengths, reverse=True)
    for group, following in zip(found, [*found[1:], None], strict=True):
        assert len(group) == 1 or group.size * group[0] <= most
        assert np.sum(group[0] - group) <= padding
        if following is not None:  # the next one did not fit
            larger = np.append(group, following[0])
            assert larger.size * larger[0] > most or np.sum(larger[0] - larger) > padding


def test_groups_without_a_limit_of_padding() -> None:
    assert [group.tolist() for group in groups(np.array([1, 9, 9, 8]), 27)] == [[1, 2, 3], [0]]
