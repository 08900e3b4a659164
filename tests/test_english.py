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
FOLDER = PACKAGE / "arbora_english" / "english"


@pytest.fixture(scope="module")
def english() -> Parser:
    return load(FOLDER, threads=1)


def test_text_becomes_trees_and_tags(english: Parser) -> None:
    first, second = english("The dog didn't bark. Mary saw it!")
    assert first.sentence.form == ["The", "dog", "did", "n't", "bark", "."]
    assert first.heads.tolist() == [2, 5, 5, 5, 0, 5]
    assert first.labels == ["det", "nsubj", "aux", "advmod", "root", "punct"]
    assert list(first.upos) == ["DET", "NOUN", "AUX", "PART", "VERB", "PUNCT"]
    assert second.lemmas[1] == "see"
    assert second.upos[0] == "PROPN"


def test_every_file_is_as_it_was_written() -> None:
    config = read_config(FOLDER)
    for name in config.files:
        read_file(FOLDER, name, config)
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) <= 26_000_000
    assert config.license == "CC-BY-SA-4.0"
    assert not re.search(r"/(work|home|root)/", (FOLDER / "config.json").read_text(encoding="utf-8"))


def test_the_package_names_what_it_has() -> None:
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["license"] == "CC-BY-SA-4.0"
    assert project["entry-points"][GROUP] == {"english": "arbora_english"}


def test_torch_is_not_imported() -> None:
    code = f"""
import sys
import arbora
assert len(arbora.load({str(FOLDER)!r})("A dog barked.")) == 1
assert not {{"torch", "transformers"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
