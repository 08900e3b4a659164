from pathlib import Path

import pytest
import torch

from arbora.data.batch import Batch, batch_of
from arbora.data.conll import Sentence, read_conll
from arbora.data.vocabulary import Vocabulary
from arbora.model.tensors import to_tensors

EXAMPLES = Path(__file__).parents[2] / "examples" / "treebank"


@pytest.fixture(scope="session")
def sentences() -> list[Sentence]:
    """Ten short sentences of the bundled treebank."""
    return [s for s in read_conll(EXAMPLES / "train.conllu") if 3 <= len(s) <= 12][:10]


@pytest.fixture(scope="session")
def vocabulary(sentences: list[Sentence]) -> Vocabulary:
    return Vocabulary.of(sentences, min_frequency=1)


@pytest.fixture
def batch(sentences: list[Sentence], vocabulary: Vocabulary) -> Batch[torch.Tensor]:
    return to_tensors(batch_of(sentences, vocabulary))


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny transformer with random weights and pieces of one or two letters, in a folder."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("bert")
    letters = "abcdefghijklmnopqrstuvwxyz.,?!'-0123456789"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{letter}" for letter in letters), "th", "##ing"]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    transformers.BertTokenizerFast(
        vocab={piece: i for i, piece in enumerate(pieces)}, model_max_length=40
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(pieces),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=20,
        max_position_embeddings=42,
    )
    transformers.BertModel(config).save_pretrained(folder)
    return str(folder)
