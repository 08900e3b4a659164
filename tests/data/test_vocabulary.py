import json
from pathlib import Path

import numpy as np
import pytest

from arbora.data.conll import read_conll
from arbora.data.vocabulary import LONGEST_FORM, SPECIAL, UNKNOWN, Vocabulary

FIXTURE = Path(__file__).parents[1] / "fixtures" / "treebank.conllu"


@pytest.fixture
def vocabulary() -> Vocabulary:
    return Vocabulary.of(read_conll(FIXTURE), min_frequency=2)


def test_rare_words_are_unknown_and_rare_tags_are_not(vocabulary: Vocabulary) -> None:
    assert vocabulary.words == [".", "the"]
    assert vocabulary.lemmas == [".", "the"]
    assert "ADV" in vocabulary.upos
    assert "Definite=Def" in vocabulary.feats
    assert "_" not in vocabulary.feats
    assert {"B", "b", "Ž"} <= set(vocabulary.characters)


def test_frequent_entries_come_first_and_ties_by_name(vocabulary: Vocabulary) -> None:
    assert vocabulary.upos[:2] == ["NOUN", "DET"]
    assert vocabulary.index["upos"]["NOUN"] == SPECIAL
    assert vocabulary.size("upos") == SPECIAL + len(vocabulary.upos)


def test_root_has_labels_of_its_own(vocabulary: Vocabulary) -> None:
    assert vocabulary.root_labels == ["root"]
    root = vocabulary.label_index["root"]
    inner, from_root = vocabulary.allowed_labels
    assert not inner[root]
    assert from_root.tolist() == [label == "root" for label in vocabulary.labels]
    assert inner.sum() == len(vocabulary.labels) - 1


def test_a_long_form_keeps_its_two_ends(vocabulary: Vocabulary) -> None:
    spelling = vocabulary.spelling("d" * 100 + "Ω" + "s" * 100)
    assert len(spelling) == LONGEST_FORM
    index = vocabulary.index["characters"]
    assert set(spelling[: LONGEST_FORM // 2]) == {index["d"]}
    assert set(spelling[LONGEST_FORM // 2 :]) == {index["s"]}
    assert vocabulary.spelling("Ω") == [UNKNOWN]


def test_json_round_trip(vocabulary: Vocabulary) -> None:
    assert Vocabulary.from_dict(json.loads(json.dumps(vocabulary.as_dict()))) == vocabulary


def test_pretrained_vectors_stay_out_of_json() -> None:
    table = np.ones((2, 5), np.float32)
    vocabulary = Vocabulary.of(read_conll(FIXTURE), pretrained=(["cake", "harp"], table))
    assert (vocabulary.pretrained, vocabulary.vector_size) == (["cake", "harp"], 5)
    assert "vectors" not in vocabulary.as_dict()
    again = Vocabulary.from_dict(vocabulary.as_dict())
    assert again.vectors is None
    assert again == vocabulary


@pytest.mark.parametrize("damage", [{"words": "abc"}, {"labels": [1]}, {"vector_size": "3"}, {"more": []}])
def test_damaged_json_is_refused(vocabulary: Vocabulary, damage: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="vocabulary: "):
        Vocabulary.from_dict(vocabulary.as_dict() | damage)
