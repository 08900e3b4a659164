from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import BROWSER, Browser
from hypothesis import settings

import arbora

# Kernels compile inside of some examples, and machines are busy: time is not what is tested.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

ROOT = Path(__file__).parents[1]


def pytest_configure() -> None:
    installed = Path(next(iter(arbora.__path__), "nowhere")).resolve()
    if installed != ROOT / "package":
        raise pytest.UsageError(f"arbora is imported from {installed}, not from this tree: pip install -e {ROOT}")


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A parser that was never trained, but parses."""
    from untrained import save_untrained  # only here: the tests of decoders and data run without torch

    return save_untrained(tmp_path_factory.mktemp("model") / "untrained.ckpt")


@pytest.fixture(scope="session")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with taggers."""
    from untrained import save_untrained

    from arbora.model.scorers.taggers import Taggers

    return save_untrained(tmp_path_factory.mktemp("model") / "tagger.ckpt", Taggers(size=8))


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if BROWSER is None:
        pytest.skip("there is no Chromium to open pages with")
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()
