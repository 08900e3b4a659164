from itertools import islice
from pathlib import Path

import pytest

from arbora.data.conll import read_conll

EXAMPLES = Path(__file__).parents[2] / "examples" / "treebank"
SIZES = {"train": 40, "dev": 8, "test": 12}


@pytest.fixture(scope="session")
def treebank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first sentences of the bundled treebank."""
    folder = tmp_path_factory.mktemp("treebank")
    for part, size in SIZES.items():
        sentences = islice(read_conll(EXAMPLES / f"{part}.conllu"), size)
        text = "".join(sentence.with_tree(sentence.head, sentence.deprel) for sentence in sentences)
        (folder / f"{part}.conllu").write_text(text, encoding="utf-8")
    return folder
