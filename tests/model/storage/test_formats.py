"""Files of earlier formats: they load, and their parsers give the trees that they gave when they were written.

`tests/fixtures/formats/first_format*` were written by the last revision that stored class paths: a checkpoint and an
exported folder with random weights, whose vocabulary is three sentences of `examples/treebank`; what that revision
parsed with each; and the default settings of every class that it could store. The tree features of the folder
were taken out afterwards, since they have to be trained again, and that revision parsed with what was left.

`second_format` and `third_format` are folders of that checkpoint, written by the last revisions with these formats. The
comparison of graphs with torch was left out for the third: padding has random weights in this checkpoint.
"""

import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from arbora.data.conll import read_conll
from arbora.decoders import AD3, Decoder, HillClimbing
from arbora.model import load
from arbora.model.encoders.encoder import Encoder
from arbora.model.network import Network
from arbora.model.pruners.settings import PrunerSettings
from arbora.model.storage.checkpoint import READABLE, read_checkpoint
from arbora.model.storage.folder import READABLE as READABLE_FOLDERS
from arbora.model.storage.names import CLASS_PATHS, TYPES, class_of, name_of
from arbora.model.storage.settings import from_plain, to_plain

FORMATS = Path(__file__).parents[2] / "fixtures" / "formats"
DOCS = Path(__file__).parents[3] / "docs" / "formats.md"


@pytest.mark.parametrize(
    ("stored", "parsed", "decoder"),
    [
        ("first_format.ckpt", "first_format_checkpoint.conllu", AD3(max_iterations=200, rho=1.0)),
        ("first_format", "first_format_folder.conllu", HillClimbing(patience=30)),
        ("second_format", "first_format_checkpoint.conllu", AD3(max_iterations=200, rho=1.0)),
        ("third_format", "first_format_checkpoint.conllu", AD3(max_iterations=200, rho=1.0)),
    ],
)
def test_earlier_formats_give_the_same_trees(stored: str, parsed: str, decoder: Decoder) -> None:
    parser = load(FORMATS / stored)
    assert parser.decoder == decoder
    assert isinstance(parser.backend, Network)
    found = parser.parse(read_conll(FORMATS / parsed))
    assert [entry.heads.tolist() for entry in found] == [entry.sentence.head for entry in found]
    assert [entry.labels for entry in found] == [entry.sentence.deprel for entry in found]
    for entry in found:
        score = next(line for line in entry.sentence.lines if line.startswith("# arbora_score = "))
        assert entry.score == pytest.approx(float(score.rpartition(" ")[2]), abs=1e-3)


def test_facts_about_training_survive() -> None:
    training = read_checkpoint(FORMATS / "first_format.ckpt").training
    assert (training["epochs"], training["steps"], training["loss"]) == (4, 40, ["hinge"])


def test_every_class_path_of_the_first_format_is_read() -> None:
    stored = json.loads((FORMATS / "first_format_settings.json").read_text())
    assert {entry["class_path"] for entry in stored} == set(CLASS_PATHS)
    kinds = ("valency", "span", "neighbours", "crossing", "right_branching", "coordination")
    defaults_then: dict[str, dict[str, Any]] = {"TreeFeatures": {"kinds": kinds}}
    defaults_then |= {"AD3": {"rho": 1.0}, "BranchAndBound": {"rho": 1.0}, "Subgradient": {"step": 1.0}}
    for entry in stored:
        settings = from_plain(entry)
        assert settings == type(settings)(**defaults_then.get(type(settings).__name__, {}))
        assert from_plain(json.loads(json.dumps(to_plain(settings)))) == settings


def test_every_type_has_one_name() -> None:
    for name in TYPES:
        kind = class_of(name)
        assert is_dataclass(kind)
        assert name_of(kind) == name
        assert "type" not in {item.name for item in fields(kind)}
    stored = {class_of(name) for name in TYPES}
    for base in (Encoder, PrunerSettings, Decoder):
        modules = ("arbora.decoders.", "arbora.model.")
        assert {kind for kind in _leaves(base) if kind.__module__.startswith(modules)} <= stored


def _leaves(kind: type) -> set[type]:
    children = kind.__subclasses__()
    return set().union(*map(_leaves, children)) if children else {kind}


def test_every_format_has_a_file() -> None:
    folders = {json.loads(path.read_text())["format"] for path in FORMATS.glob("*/config.json")}
    assert folders == set(READABLE_FOLDERS[:-1])


def test_the_documentation_lists_the_formats() -> None:
    rows = [line.split("|")[1].strip() for line in DOCS.read_text(encoding="utf-8").splitlines() if "|" in line]
    assert [int(row) for row in rows if row.isdigit()] == list(READABLE_FOLDERS)
    assert set(READABLE) <= set(READABLE_FOLDERS)
