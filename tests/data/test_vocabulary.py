import json
from pathlib import Path

import numpy as np
import pytest

from arbora.data.conll import Sentence, read_conll
from arbora.data.vocabulary import LATER, LONGEST_FORM, NO_CLASS, NOT_ANNOTATED, PAD, SPECIAL, UNKNOWN, Vocabulary

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
    spelling = vocabulary.spellings(["d" * 100 + "Ω" + "s" * 100])[1].tolist()
    assert len(spelling) == LONGEST_FORM
    index = vocabulary.index["characters"]
    assert set(spelling[: LONGEST_FORM // 2]) == {index["d"]}
    assert set(spelling[LONGEST_FORM // 2 :]) == {index["s"]}
    assert vocabulary.spellings(["Ω", "\ud800s"]).tolist()[1:] == [
        [UNKNOWN, PAD],
        [UNKNOWN, index["s"]],
    ]


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


@pytest.mark.parametrize(
    "damage", [{"words": "abc"}, {"labels": [1]}, {"vector_size": "3"}, {"more": []}, {"known_lemmas": ["a\tX"]}]
)
def test_damaged_json_is_refused(vocabulary: Vocabulary, damage: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="vocabulary: "):
        Vocabulary.from_dict(vocabulary.as_dict() | damage)


def annotated(*rows: str) -> Sentence:
    """A sentence with form, lemma, UPOS, XPOS and FEATS of each word, separated by spaces."""
    columns = list(zip(*(row.split() for row in rows)))
    sentence = Sentence.from_words(columns[0])
    sentence.lemma, sentence.upos, sentence.xpos, sentence.feats = map(list, columns[1:])
    sentence.head, sentence.deprel = list(range(len(rows))), ["x"] * len(rows)
    return sentence


def test_classes_of_taggers_are_what_is_annotated() -> None:
    train = annotated("dogs dog NOUN _ Number=Plur", "cats cat NOUN _ Number=Plur", ". . PUNCT _ _", "x _ _ _ _")
    vocabulary = Vocabulary.of([train], min_frequency=1)
    classes = vocabulary.tag_classes
    assert classes == {
        "upos": ["NOUN", "PUNCT"],
        "xpos": [],
        "feats": ["Number=Plur", "_"],
        "lemmas": [":|-", ":|"],
    }
    other = annotated("birds bird NOUN NNS Case=Nom", "_ _ _ _ _", "went go VERB _ _", "x _ _ _ Number=Plur")
    targets = dict(zip(classes, vocabulary.tag_targets(other).tolist()))
    assert targets == {
        "upos": [0, NOT_ANNOTATED, NO_CLASS, NOT_ANNOTATED],
        "xpos": [NO_CLASS, NOT_ANNOTATED, NOT_ANNOTATED, NOT_ANNOTATED],
        "feats": [NO_CLASS, NOT_ANNOTATED, 1, 0],
        "lemmas": [0, 1, NO_CLASS, NOT_ANNOTATED],  # the lemma of the word _ may be _
    }


def test_lemmas_are_known_where_training_has_only_one() -> None:
    first = annotated("saw see VERB _ _", "saw saw NOUN _ _", "dogs dog NOUN _ _", "left leave VERB _ _", "x _ X _ _")
    second = annotated("left left VERB _ _", "dogs dog NOUN _ _", "_ _ SYM _ _")
    vocabulary = Vocabulary.of([first, second])
    for form, upos, lemma in (
        ("saw", "VERB", "see"),
        ("Saw", "NOUN", "saw"),  # as in lower case
        ("saw", "ADJ", None),
        ("dogs", "NOUN", "dog"),
        ("left", "VERB", None),  # two lemmas
        ("x", "X", None),  # no annotation
        ("_", "SYM", "_"),
    ):
        assert vocabulary.known_lemma(form, upos) == lemma
    further = vocabulary.extended(Vocabulary.of([annotated("saw sag VERB _ _", "left leave VERB _ _")]))
    assert further.known_lemma("saw", "VERB") == "sag"
    assert further.known_lemma("left", "VERB") == "leave"
    assert further.known_lemma("dogs", "NOUN") == "dog"


def test_a_column_without_features_has_no_classes() -> None:
    assert Vocabulary.of([annotated("a a X _ _")]).tag_classes["feats"] == []


def test_vocabularies_of_earlier_versions_are_read(vocabulary: Vocabulary) -> None:
    earlier = {name: value for name, value in vocabulary.as_dict().items() if name not in LATER}
    read = Vocabulary.from_dict(earlier)
    assert read.words == vocabulary.words
    assert read.lemma_rules == []
    assert vocabulary.matches(earlier)
    assert not vocabulary.matches(earlier | {"words": ["another"]})
