import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from arbora.data.batch import batch_of
from arbora.data.conll import read_conll
from arbora.data.vocabulary import Vocabulary
from arbora.model.linear.backend import Linear, LinearModel
from arbora.model.linear.storage import read_linear, to_bytes, write_linear
from arbora.model.loading import load_network
from arbora.model.storage.files import is_linear

EXAMPLES = Path(__file__).parents[3] / "examples" / "treebank" / "dev.conllu"


@pytest.fixture(scope="module")
def model() -> LinearModel:
    vocabulary = Vocabulary.of(list(read_conll(EXAMPLES))[:20], 1)
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(1 << 12) + len(vocabulary.labels)).astype(np.float32)
    pruner = rng.normal(size=1 << 12).astype(np.float32)
    weights[rng.random(len(weights)) < 0.7] = 0
    return LinearModel(vocabulary, Linear(order=2, bits=12, pruner_bits=12), None, weights, pruner)


def test_round_trip(model: LinearModel, tmp_path: Path) -> None:
    path = tmp_path / "best.ckpt"
    write_linear(path, to_bytes(model, {"epochs": 3}, weighted=np.arange(5.0)))
    assert is_linear(path)
    stored = read_linear(path)
    np.testing.assert_array_equal(stored.model.weights, model.weights)
    np.testing.assert_array_equal(stored.tables["weighted"], np.arange(5.0))
    assert stored.model.settings == model.settings
    assert stored.model.decoder == model.decoder
    assert stored.training["epochs"] == 3
    batch = batch_of(list(read_conll(EXAMPLES))[:5], model.vocabulary)
    one, two = (each.score(batch).parts(model.decoder) for each in (model, stored.model))
    np.testing.assert_array_equal(one.arc_score, two.arc_score)
    np.testing.assert_array_equal(one.sibling, two.sibling)


@pytest.mark.parametrize(("precision", "most"), [("fp16", 2e-3), ("int8", 2e-2)])
def test_precision(model: LinearModel, tmp_path: Path, precision: str, most: float) -> None:
    small, large = (to_bytes(model, {}, each) for each in (precision, "fp32"))
    assert len(small) < len(large)
    write_linear(tmp_path / "a", small)
    weights = read_linear(tmp_path / "a").model.weights
    assert weights.dtype == np.float32
    assert np.abs(weights - model.weights).max() < most * np.abs(model.weights).max()
    np.testing.assert_array_equal(weights[model.weights == 0], 0)


def test_strange_files(model: LinearModel, tmp_path: Path) -> None:
    contents = to_bytes(model, {})
    path = tmp_path / "cut"
    path.write_bytes(contents[:-100])
    with pytest.raises(ValueError, match=r"cut: not a linear model, or damaged"):
        read_linear(path)
    path.write_bytes(contents.replace(b'\\"format\\": 1', b'\\"format\\": 9'))
    with pytest.raises(ValueError, match="format 9"):
        read_linear(path)
    path.write_bytes(contents)
    with pytest.raises(ValueError, match="a linear model, but a neural one is needed"):
        load_network(path)
    assert not is_linear(EXAMPLES)
    assert not is_linear(tmp_path)


def test_parses_without_torch(model: LinearModel, tmp_path: Path) -> None:
    write_linear(tmp_path / "best.ckpt", to_bytes(model, {}))
    code = (
        "import sys, arbora\n"
        "parser = arbora.load(sys.argv[1])\n"
        "assert len(parser.parse(['a', 'b', 'c']).heads) == 3\n"
        "import arbora.cli.predict\n"
        "print([name for name in ('torch', 'pytorch_lightning', 'onnxruntime') if name in sys.modules])\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "best.ckpt")]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "[]\n"
