"""The models that come with the repository, and the commands that show them."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from arbora.model.catalogue import GROUP
from arbora.model.loading import load
from arbora.model.parser import Parser
from arbora.model.storage.folder import read_config, read_file

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "models" / "arbora-english"
FOLDERS = PACKAGE / "arbora_english"
LARGEST = {"english": 26_000_000, "english-small": 8_000_000}  # bytes


@pytest.fixture(scope="module", params=LARGEST)
def english(request: pytest.FixtureRequest) -> Parser:
    return load(FOLDERS / request.param, threads=1)


def test_text_becomes_trees_and_tags(english: Parser) -> None:
    first, second = english("The dog didn't bark. Mary saw it!")
    assert first.sentence.form == ["The", "dog", "did", "n't", "bark", "."]
    assert first.heads.tolist() == [2, 5, 5, 5, 0, 5]
    assert first.labels == ["det", "nsubj", "aux", "advmod", "root", "punct"]
    assert list(first.upos) == ["DET", "NOUN", "AUX", "PART", "VERB", "PUNCT"]
    assert second.lemmas[1] == "see"
    assert second.upos[0] == "PROPN"


@pytest.mark.parametrize("name", LARGEST)
def test_every_file_is_as_it_was_written(name: str) -> None:
    folder = FOLDERS / name
    config = read_config(folder)
    for file in config.files:
        read_file(folder, file, config)
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= LARGEST[name]
    assert config.license == "CC-BY-SA-4.0"
    assert not re.search(r"/(work|home|root)/", (folder / "config.json").read_text(encoding="utf-8"))


def test_the_package_names_what_it_has() -> None:
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["license"] == "CC-BY-SA-4.0"
    assert project["entry-points"][GROUP] == dict.fromkeys(LARGEST, "arbora_english")


@pytest.mark.parametrize("name", LARGEST)
def test_torch_is_not_imported(name: str) -> None:
    code = f"""
import sys
import arbora
assert len(arbora.load({str(FOLDERS / name)!r})("A dog barked.")) == 1
assert not {{"torch", "transformers"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
