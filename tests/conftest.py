from pathlib import Path

import pytest
from hypothesis import settings

import arbora

# Kernels compile inside of some examples, and machines are busy: time is not what is tested.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples" / "treebank"


def pytest_configure() -> None:
    installed = Path(next(iter(arbora.__path__), "nowhere")).resolve()
    if installed != ROOT / "package":
        raise pytest.UsageError(f"arbora is imported from {installed}, not from this tree: pip install -e {ROOT}")


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A parser that was never trained, but parses."""
    import pytorch_lightning as pl  # only here: the tests of decoders and data run without torch
    import torch

    from arbora.data.conll import read_conll
    from arbora.data.vocabulary import Vocabulary
    from arbora.model.encoders.embeddings import Embeddings
    from arbora.model.encoders.lstm import SRU
    from arbora.model.scorers.biaffine import Biaffine
    from arbora.model.training import LightningParser

    pl.seed_everything(0, verbose=False)
    encoder = SRU(Embeddings(words=8, characters=8, upos=4), size=8, layers=1)
    parser = LightningParser(Vocabulary.of(read_conll(EXAMPLES / "dev.conllu")), encoder, Biaffine(8, 8))
    torch.nn.init.normal_(parser.arc.weight)
    torch.nn.init.normal_(parser.label.weight)
    contents: dict[str, object] = {"state_dict": parser.state_dict()}
    parser.on_save_checkpoint(contents)
    path = tmp_path_factory.mktemp("model") / "untrained.ckpt"
    torch.save(contents, path)
    return path
