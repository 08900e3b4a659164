from pathlib import Path

import pytest

from arbora.data.treebank import Treebank

EXAMPLES = Path(__file__).parents[2] / "examples" / "treebank"
TRAIN, DEV = str(EXAMPLES / "train.conllu"), str(EXAMPLES / "dev.conllu")


def forms(treebank: Treebank) -> list[tuple[str, ...]]:
    return [tuple(sentence.form) for sentence in treebank.sentences("train")]


def test_samples_follow_seed_and_fold() -> None:
    first, again = Treebank(TRAIN, sample=50, fold=1), Treebank(TRAIN, sample=50, fold=1)
    assert len(forms(first)) == 50
    assert forms(first) == forms(again)
    assert forms(first) != forms(Treebank(TRAIN, sample=50, fold=2))
    assert forms(first) != forms(Treebank(TRAIN, sample=50, fold=1, seed=2))


def test_vocabulary_is_that_of_the_sample() -> None:
    assert len(Treebank(TRAIN, sample=20).vocabulary.words) < len(Treebank(TRAIN).vocabulary.words)


def test_long_sentences_are_left_out_of_training_alone() -> None:
    treebank = Treebank(TRAIN, DEV, max_length=10)
    assert max(map(len, forms(treebank))) <= 10
    assert max(len(sentence) for sentence in treebank.sentences("dev")) > 10


def test_epochs_are_shuffled_and_evaluation_is_not() -> None:
    treebank = Treebank(TRAIN, DEV, sample=200, max_tokens=300)
    training, dev = treebank.train_dataloader().dataset, treebank.val_dataloader().dataset
    assert training.positions(0) == training.positions(0)
    assert training.positions(0) != training.positions(1)
    assert len(training) == len(list(training)) == len(training.positions(1))
    assert dev.positions(0) == dev.positions(1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "no train file: give one with --data.train"),
        ({"train": TRAIN, "sample": 10**6}, "data.sample is 1000000, but .* has .* sentences"),
        ({"train": TRAIN, "sample": 0}, "data.sample must be at least 1"),
        ({"train": TRAIN, "max_tokens": 0}, "data.max_tokens must be at least 1"),
    ],
)
def test_errors(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Treebank(**settings).sentences("train")  # type: ignore[arg-type]


def test_an_absent_file_is_named() -> None:
    with pytest.raises(FileNotFoundError, match="absent.conllu"):
        Treebank("absent.conllu").sentences("train")


def test_several_files_are_treebanks_with_names(tmp_path: Path) -> None:
    one, two = tmp_path / "one" / "train.conllu", tmp_path / "two" / "train.conllu"
    for path, source in ((one, TRAIN), (two, DEV)):
        path.parent.mkdir()
        path.write_text(Path(source).read_text(encoding="utf-8"), encoding="utf-8")
    both = Treebank([str(one), str(two)], DEV)
    assert len(forms(both)) == len(forms(Treebank(TRAIN))) + len(forms(Treebank(DEV)))
    assert both.vocabulary.treebanks == ["one", "two"]
    assert Treebank([str(one), DEV]).vocabulary.treebanks == ["train", "dev"]
    trained = {int(i) for batch in both.train_dataloader() for i in batch.treebanks[batch.is_word]}
    assert trained == {3, 4}
    for chosen, expected in ((None, 3), ("two", 4)):
        batches = Treebank([str(one), str(two)], DEV, treebank=chosen).val_dataloader()
        assert all((batch.treebanks[batch.is_word] == expected).all() for batch in batches)
    assert Treebank(TRAIN).vocabulary.treebanks == Treebank([TRAIN]).vocabulary.treebanks == []
    with pytest.raises(ValueError, match="have the same name and folder name"):
        Treebank([TRAIN, TRAIN])
    with pytest.raises(ValueError, match="no treebank three: it has one, two"):
        Treebank([str(one), str(two)], DEV, treebank="three").val_dataloader()
