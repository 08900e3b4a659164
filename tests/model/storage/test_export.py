"""Exported folders with weights for torch: the same parser again, and nothing else."""

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from parsing import parse_batch
from safetensors.torch import save_file
from untrained import random_network

from arbora.cli.export import largest_difference
from arbora.data.batch import Batch
from arbora.data.vocabulary import Vocabulary
from arbora.decoders import AD3, HillClimbing
from arbora.decoders.parts.kinds import HIGHER_ORDER
from arbora.model.encoders.embeddings import Embeddings
from arbora.model.encoders.encoder import Encoder
from arbora.model.encoders.lstm import LSTM
from arbora.model.encoders.sru import SRU
from arbora.model.encoders.transformer import Transformer
from arbora.model.loading import load_network
from arbora.model.network import Network
from arbora.model.pruners.settings import Frozen, Shared
from arbora.model.scorers.biaffine import Biaffine
from arbora.model.scorers.multilinear import Multilinear
from arbora.model.storage.checkpoint import KEY, describe
from arbora.model.storage.folder import (
    CONFIG,
    FILES,
    WEIGHTS,
    Config,
    Precision,
    plain_settings,
    write_folder,
)
from arbora.model.storage.weights import pack, packed_file, unpack
from arbora.model.training import LightningParser

KINDS = tuple(HIGHER_ORDER)

EVERYTHING = Embeddings(words=8, characters=6, upos=4, xpos=3, feats=5, lemmas=7)
SHAPES = ((1,), (2, 1), (5, 20, 3), (40,))


def higher_order(vocabulary: Vocabulary, encoder: Encoder | None = None) -> Network:
    parts = Multilinear(("grandparent", "sibling"), rank=6)
    return random_network(vocabulary, encoder or SRU(EVERYTHING, size=9, layers=2), parts=parts, decoder=AD3())


def write(parser: Network, folder: Path, precision: Precision = "fp32") -> Path:
    folder.mkdir()
    parser.save_files(folder / FILES)
    config = Config(plain_settings(parser.settings), precision)
    files = {WEIGHTS: packed_file(parser.state_dict(), precision)}
    write_folder(folder, config, parser.vocabulary.as_dict(), files)
    return folder


def save(parser: Network, path: Path) -> Path:
    description = describe(parser.settings, parser.vocabulary.as_dict())
    torch.save({"state_dict": parser.state_dict(), KEY: description}, path)
    return path


def assert_same(one: Network, two: Network, batch: Batch) -> None:
    found, expected = parse_batch(one, batch), parse_batch(two, batch)
    assert found.parts.kinds == expected.parts.kinds
    for kind in ("arc_score", *found.parts.kinds):
        np.testing.assert_array_equal(getattr(found.parts, kind), getattr(expected.parts, kind))
    np.testing.assert_array_equal(found.trees.heads, expected.trees.heads)
    np.testing.assert_array_equal(found.labels, expected.labels)
    assert set(found.tags) == set(expected.tags)
    for name, tags in found.tags.items():
        np.testing.assert_array_equal(tags.classes, expected.tags[name].classes)


@pytest.mark.parametrize("kind", ["sru", "lstm", "transformer"])
def test_a_folder_gives_the_same_scores_and_trees(
    kind: str, vocabulary: Vocabulary, batch: Batch, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    encoder: Encoder = SRU(EVERYTHING, size=9) if kind == "sru" else LSTM(EVERYTHING, size=9)
    if kind == "transformer":
        encoder = Transformer(request.getfixturevalue("bert"))
    parser = higher_order(vocabulary, encoder)
    again = load_network(write(parser, tmp_path / "folder"))
    assert again.settings == parser.settings
    assert_same(again, parser, batch)


def test_the_decoder_is_that_of_the_folder(vocabulary: Vocabulary, tmp_path: Path) -> None:
    parser = higher_order(vocabulary)
    parser.settings["decoder"] = HillClimbing(patience=7)
    assert load_network(write(parser, tmp_path / "folder")).decoder == HillClimbing(patience=7)


def test_a_transformer_needs_neither_its_folder_nor_the_hub(
    vocabulary: Vocabulary, batch: Batch, tmp_path: Path, bert: str
) -> None:
    shutil.copytree(bert, tmp_path / "bert")
    parser = LightningParser(vocabulary, Transformer(str(tmp_path / "bert")), Biaffine(10, 8)).eval()
    folder = write(parser, tmp_path / "folder")
    contents: dict[str, Any] = {"state_dict": parser.state_dict()}
    parser.on_save_checkpoint(contents)
    torch.save(contents, tmp_path / "model.ckpt")
    shutil.rmtree(tmp_path / "bert")
    assert_same(load_network(folder), parser, batch)
    assert_same(load_network(tmp_path / "model.ckpt"), parser, batch)
    weights = [path for path in (folder / FILES).rglob("*") if path.suffix in (".safetensors", ".bin", ".pt")]
    assert weights == []

    # Where Python code is named in the model's configuration, it is not fetched.
    config = folder / FILES / "encoder" / "config.json"
    plain = json.loads(config.read_text())
    config.write_text(json.dumps(plain | {"model_type": "mine", "auto_map": {"AutoConfig": "code.Config"}}))
    (config.parent / "code.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'harm')!r})\nclass Config: ...\n")
    relist(folder)
    with pytest.raises(ValueError, match=r"config\.json: cannot load the transformer"):
        load_network(folder)
    assert not (tmp_path / "harm").exists()


def test_a_frozen_pruner_may_come_out_of_a_folder(
    vocabulary: Vocabulary, batch: Batch, tmp_path: Path, bert: str
) -> None:
    first_order = random_network(vocabulary, Transformer(bert))
    pruner = Frozen(max_heads=3, checkpoint=str(write(first_order, tmp_path / "first")))
    parser = random_network(vocabulary, SRU(EVERYTHING, size=9), pruner=pruner)
    assert parser.pruner is not None
    torch.testing.assert_close(parser.pruner(torch.zeros(0), batch), first_order(batch)[1])
    assert_same(load_network(write(parser, tmp_path / "second")), parser, batch)


def test_smaller_weights_are_close(vocabulary: Vocabulary, batch: Batch, tmp_path: Path) -> None:
    parser = random_network(vocabulary, LSTM(EVERYTHING, size=30))
    sizes, differences = [], []
    for precision in ("fp32", "fp16", "int8"):
        folder = write(parser, tmp_path / precision, precision)  # type: ignore[arg-type]
        sizes.append((folder / WEIGHTS).stat().st_size)
        again = load_network(folder)
        assert {weight.dtype for weight in again.parameters()} == {torch.float32}
        assert (parse_batch(again, batch).heads[:, 1:] >= -1).all()
        differences.append(largest_difference(parser.score(batch), again.score(batch), batch.on_host, parser.decoder))
    assert sizes[0] > 1.7 * sizes[1] > 1.7 * 1.3 * sizes[2]
    assert differences[0] == 0
    assert 0 < differences[1] < 0.002 < differences[2] < 0.3


def test_whole_numbers_are_within_half_a_step() -> None:
    weights = {"matrix": torch.randn(5, 7, 3), "zeros": torch.zeros(2, 4), "bias": torch.randn(7)}
    weights["large"] = torch.full((2, 2), 1e6)  # more than a float of two bytes can be
    weights["count"] = torch.tensor([3])
    found = unpack(pack(weights, "int8"))
    step = weights["matrix"].flatten(1).abs().amax(1) / 127
    assert ((found["matrix"] - weights["matrix"]).abs() <= step[:, None, None] * 0.501).all()
    assert set(found) == set(weights)
    for name in ("zeros", "bias", "large", "count"):
        torch.testing.assert_close(found[name], weights[name])
    found = unpack(pack(weights, "fp16"))
    torch.testing.assert_close(found["matrix"], weights["matrix"], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(found["large"], weights["large"])


def relist(folder: Path) -> None:
    """Write sizes and checksums anew, as someone would who changes a folder on purpose."""
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    for path in folder.rglob("*"):
        if path.is_file() and path != folder / CONFIG:
            contents = path.read_bytes()
            entry = {"bytes": len(contents), "sha256": sha256(contents).hexdigest()}
            config["files"][path.relative_to(folder).as_posix()] = entry
    write_changed(folder, config)


def write_changed(folder: Path, config: dict[str, Any]) -> None:
    """Write `config.json` with the checksum that it should have."""
    config.pop("sha256")
    config["sha256"] = sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()
    (folder / CONFIG).write_text(json.dumps(config), encoding="utf-8")


class _Malicious:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):  # type: ignore[no-untyped-def]
        return os.mkdir, (str(self.target),)


def test_pickles_are_not_read(vocabulary: Vocabulary, tmp_path: Path) -> None:
    folder, harm = write(higher_order(vocabulary), tmp_path / "folder"), tmp_path / "harm"
    for name in (WEIGHTS, "vocabulary.json"):
        before = (folder / name).read_bytes()
        for contents in (pickle.dumps(_Malicious(harm)), _saved(_Malicious(harm), tmp_path)):
            (folder / name).write_bytes(contents)
            relist(folder)
            with pytest.raises(ValueError, match=name):
                load_network(folder)
        (folder / name).write_bytes(before)
    (folder / CONFIG).write_bytes(pickle.dumps(_Malicious(harm)))
    with pytest.raises(ValueError, match="not JSON"):
        load_network(folder)
    assert not harm.exists()


def _saved(value: object, folder: Path) -> bytes:
    torch.save({"state_dict": value}, folder / "saved.pt")
    return (folder / "saved.pt").read_bytes()


def in_config(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        change(config)
        write_changed(folder, config)

    return apply


def flip_a_digit_of_the_config(folder: Path) -> None:
    text = (folder / CONFIG).read_text(encoding="utf-8")
    changed = re.sub(r'("arc": )(\d)', lambda match: match[1] + str(9 - int(match[2])), text, count=1)
    assert changed != text
    (folder / CONFIG).write_text(changed, encoding="utf-8")


def in_vocabulary(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / "vocabulary.json"
        vocabulary = json.loads(path.read_text(encoding="utf-8"))
        vocabulary = change(vocabulary) or vocabulary
        path.write_text(json.dumps(vocabulary), encoding="utf-8")
        relist(folder)

    return apply


def truncate(folder: Path) -> None:
    whole = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(whole[: len(whole) // 2])


def flip_a_bit(folder: Path) -> None:
    contents = bytearray((folder / WEIGHTS).read_bytes())
    contents[-3] ^= 1
    (folder / WEIGHTS).write_bytes(contents)


def truncate_and_relist(folder: Path) -> None:
    truncate(folder)
    relist(folder)


def other_weights(folder: Path) -> None:
    save_file({"arc.weight": torch.zeros(3)}, folder / WEIGHTS)
    relist(folder)


def half_a_quantised_matrix(folder: Path) -> None:
    save_file({"arc.weight": torch.zeros(3, 4, dtype=torch.int8)}, folder / WEIGHTS)
    relist(folder)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no config": (lambda folder: (folder / CONFIG).unlink(), "no config.json"),
    "empty config": (lambda folder: (folder / CONFIG).write_text(""), r"config\.json: not JSON"),
    "half a config": (lambda folder: (folder / CONFIG).write_text('{"kind": "arb'), r"config\.json: not JSON"),
    "a list": (lambda folder: (folder / CONFIG).write_text("[1, 2]"), r"config\.json: not written by"),
    "nested": (lambda folder: (folder / CONFIG).write_text("[" * 100_000), r"config\.json: not JSON"),
    "another model": (
        lambda folder: (folder / CONFIG).write_text('{"model_type": "bert"}'),
        r"config\.json: not written",
    ),
    "one digit": (flip_a_digit_of_the_config, r"config\.json: damaged or changed: its checksum"),
    "format": (in_config(lambda c: c.update(format=99)), r"config\.json: has format 99"),
    "more entries": (in_config(lambda c: c.update(code="x")), r"config\.json: .*unknown: code"),
    "fewer entries": (in_config(lambda c: c.pop("settings")), r"config\.json: .*missing.*: settings"),
    "settings": (in_config(lambda c: c.update(settings=[])), r"config\.json: settings has the wrong type"),
    "precision": (in_config(lambda c: c.update(precision="fp8")), r"config\.json: precision must"),
    "license": (in_config(lambda c: c.update(license=5)), r"config\.json: license"),
    "files": (
        in_config(lambda c: c["files"].pop(WEIGHTS)),
        r"config\.json: files lists neither model\.",
    ),
    "entry": (in_config(lambda c: c["files"].update({WEIGHTS: 3})), r"config\.json: files: model\.safetensors"),
    "outside": (in_config(lambda c: c["files"].update({"../x": {}})), r"config\.json: .*not inside"),
    "absolute": (in_config(lambda c: c["files"].update({"/etc/passwd": {}})), r"config\.json: .*not inside"),
    "code": (in_config(lambda c: c["settings"]["encoder"].update(type="os.system")), r"config\.json: .*os\.sys"),
    "class": (in_config(lambda c: c["settings"].update(decoder=c["settings"]["scorer"])), r"config\.json: .*decoder"),
    "no class": (in_config(lambda c: c["settings"].update(decoder="MST")), r"config\.json: .*decoder"),
    "setting": (in_config(lambda c: c["settings"].update(extra=None)), r"config\.json: .*extra"),
    "value": (in_config(lambda c: c["settings"]["encoder"].update(size="x")), r"config\.json: "),
    "size": (in_config(lambda c: c["settings"]["scorer"].update(arc=11)), r"model\.safetensors: .*arc"),
    "no weights": (lambda folder: (folder / WEIGHTS).unlink(), r"model\.safetensors: missing"),
    "half the weights": (truncate, r"model\.safetensors: damaged or changed: \d+ bytes"),
    "one bit": (flip_a_bit, r"model\.safetensors: damaged or changed: its checksum"),
    "half the weights, relisted": (truncate_and_relist, r"model\.safetensors: not a file of safetensors"),
    "other weights": (other_weights, r"model\.safetensors: "),
    "no scales": (half_a_quantised_matrix, r"model\.safetensors: arc\.weight has no scale"),
    "no words": (in_vocabulary(lambda v: v.pop("words") and None), r"vocabulary\.json: .*expected the entries"),
    "numbers": (in_vocabulary(lambda v: v.update(words=[1])), r"vocabulary\.json: .*words"),
    "vocabulary": (in_vocabulary(lambda v: [1]), r"vocabulary\.json: not a vocabulary"),
    "fewer labels": (in_vocabulary(lambda v: v["labels"].pop() and None), r"model\.safetensors: .*label\.weight"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named(damage: str, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    change, message = DAMAGES[damage]
    change(tmp_path / "copy")
    with pytest.raises(ValueError, match=message) as raised:
        load_network(tmp_path / "copy")
    assert "\n" not in str(raised.value)


@pytest.fixture(scope="module")
def folder(vocabulary: Vocabulary, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(higher_order(vocabulary), tmp_path_factory.mktemp("export") / "folder")


def test_loading_and_parsing_do_without_lightning(folder: Path) -> None:
    code = f"""
import sys
import arbora.model
parser = arbora.model.load({str(folder)!r})
assert len(parser.parse(["a", "b"]).heads) == 2
assert [name for name in sys.modules if "lightning" in name or name == "torch_struct"] == []
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_pruners_are_kept(folder: Path, vocabulary: Vocabulary, tmp_path: Path) -> None:
    pruner = Shared(max_heads=2, ratio=0.01)
    parser = random_network(vocabulary, SRU(EVERYTHING, size=9), pruner=pruner)
    again = load_network(write(parser, tmp_path / "folder"))
    assert again.settings["pruner"] == pruner
    assert again.pruner is not None
    assert (again.pruner.max_heads, again.pruner.ratio) == (2, 0.01)
