from pathlib import Path

import pytest

from arbora.data.batch import Batch, collate, encode
from arbora.data.conll import Sentence, read_conll
from arbora.data.vocabulary import Vocabulary

EXAMPLES = Path(__file__).parents[2] / "examples" / "treebank"


@pytest.fixture(scope="session")
def sentences() -> list[Sentence]:
    """Ten short sentences of the bundled treebank."""
    return [s for s in read_conll(EXAMPLES / "train.conllu") if 3 <= len(s) <= 12][:10]


@pytest.fixture(scope="session")
def vocabulary(sentences: list[Sentence]) -> Vocabulary:
    return Vocabulary.of(sentences, min_frequency=1)


@pytest.fixture
def batch(sentences: list[Sentence], vocabulary: Vocabulary) -> Batch:
    return collate([encode(sentence, vocabulary) for sentence in sentences], range(len(sentences)), vocabulary)
