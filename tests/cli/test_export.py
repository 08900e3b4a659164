import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from huggingface_hub import ModelCard

from arbora.cli import main
from arbora.cli.card import _head
from arbora.data.conll import read_conll
from arbora.decoders import AD3, MST, Eisner
from arbora.model.loading import load, load_network
from arbora.model.network import Network
from arbora.model.parser import Parser
from arbora.model.scorers.multilinear import Multilinear
from arbora.model.storage.checkpoint import KEY, TOKENIZER, describe
from arbora.model.storage.folder import Config

ROOT = Path(__file__).parents[2]
DEV = ROOT / "examples" / "treebank" / "dev.conllu"
FIXTURE = ROOT / "tests" / "fixtures" / "treebank.conllu"


def export(*arguments: str | Path) -> None:
    main(["export", *map(str, arguments)])


def failure(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[object, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        main(list(map(str, arguments)))
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    return stopped.value.code, message


def parsed(model: Path, output: Path, *arguments: str) -> str:
    main(["predict", str(model), str(FIXTURE), "-o", str(output), "--quiet", *arguments])
    return output.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def folder(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("export") / "folder"
    export(checkpoint, "-o", target, "--precision", "fp32", "--torch", "--quiet")
    return target


def test_a_folder_parses_as_the_checkpoint_does(folder: Path, checkpoint: Path, tmp_path: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {
        "model.safetensors",
        "onnx",
        "config.json",
        "vocabulary.json",
        "tokenizer.npz",
        "README.md",
    }
    assert [s.lines for s in load(folder).tokenizer.split_text("It rained. A dog slept.")] == [
        s.lines for s in load(checkpoint).tokenizer.split_text("It rained. A dog slept.")
    ]
    assert [path.name for path in folder.parent.iterdir()] == ["folder"]
    expected = parsed(checkpoint, tmp_path / "b")
    assert parsed(folder, tmp_path / "a") == expected
    assert parsed(folder, tmp_path / "c", "--runtime", "torch") == expected


def test_sizes_are_printed(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export(checkpoint, "-o", tmp_path / "folder")
    size = (tmp_path / "folder" / "onnx" / "words.onnx").stat().st_size
    captured = capsys.readouterr()
    assert re.search(rf"{size:,} +onnx/words\.onnx", captured.out)
    assert captured.err == ""


def test_a_tokenizer_is_added(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    contents = torch.load(checkpoint, weights_only=True)
    del contents[TOKENIZER]
    torch.save(contents, tmp_path / "words.ckpt")
    text = tmp_path / "text"
    text.write_text("A dog barked. It rained.", encoding="utf-8")
    raw = ("--input", "raw", "--quiet", "-o", tmp_path / "parsed")
    assert "no tokenizer" in failure(capsys, "predict", tmp_path / "words.ckpt", text, *raw)[1]

    # A treebank of its own: every "s" at the end of a token is a word, and sentences end with "/".
    lines = []
    for i, noun in enumerate(["dog", "cat", "tree", "house", "boat", "idea"] * 20):
        lines += [f"# sent_id = {i}", f"# text = the {noun}s /", "1\tthe" + "\t_" * 8, f"2-3\t{noun}s" + "\t_" * 8]
        lines += [f"2\t{noun}" + "\t_" * 8, "3\ts" + "\t_" * 8, "4\t/" + "\t_" * 8, ""]
    treebank = tmp_path / "treebank.conllu"
    treebank.write_text("\n".join(lines) + "\n", encoding="utf-8")
    export(tmp_path / "words.ckpt", "-o", tmp_path / "folder", "--tokenizer", treebank, treebank, "--torch", "--quiet")
    text.write_text("the mouses / the dogs /", encoding="utf-8")
    main(["predict", *map(str, (tmp_path / "folder", text, *raw))])
    found = list(read_conll(tmp_path / "parsed"))
    assert [sentence.form for sentence in found] == [["the", "mouse", "s", "/"], ["the", "dog", "s", "/"]]


def test_the_card_says_where_the_parser_comes_from(checkpoint: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    contents = torch.load(checkpoint, weights_only=True)
    state = {"monitor": "dev/LAS", "current_score": torch.tensor(81.237)}
    torch.save(contents | {"epoch": 6, "global_step": 140, "callbacks": {"best": state}}, run / "best.ckpt")
    data = {"train": "/home/me/Latin-X/train.conllu", "dev": "Latin-X/dev.conllu", "sample": None, "fold": 0}
    (run / "config.yaml").write_text(yaml.safe_dump({"seed_everything": 17, "data": data}))
    export(
        run / "best.ckpt",
        "-o",
        tmp_path / "latin",
        "--license",
        "CC BY-SA 4.0",
        "--evaluate",
        DEV,
        "--torch",
        "--quiet",
    )
    card = (tmp_path / "latin" / "README.md").read_text(encoding="utf-8")
    for fact in (
        "# latin\n",
        "| training part | Latin-X/train.conllu |",
        "| development part | Latin-X/dev.conllu |",
        "| epochs | 7 |",
        "| steps | 140 |",
        "| seed | 17 |",
        "| LAS on the development part (full labels) | 81.24 |",
        "upos",
        "CC BY-SA 4.0",
    ):
        assert fact in card
    assert "/home" not in card
    head = yaml.safe_load(card.split("---")[1])
    assert head["license"] == "cc-by-sa-4.0"
    assert {"dependency-parsing", "universal-dependencies"} <= set(head["tags"])
    config = json.loads((tmp_path / "latin" / "config.json").read_text(encoding="utf-8"))
    figures = config["figures"][0]
    main(["predict", str(run / "best.ckpt"), str(DEV), "-o", str(tmp_path / "parsed"), "--quiet"])
    from arbora.evaluation import evaluate_files

    expected = evaluate_files(DEV, tmp_path / "parsed").figures()
    assert all(figures[name] == expected[name] for name in ("uas", "las", "clas", "words"))
    assert f"| {expected['las']:.2f} |" in card
    assert config["training"]["seed"] == 17
    metrics = {result.metric_type: result.metric_value for result in ModelCard(card).data.eval_results}
    assert metrics == {name: round(config["figures"][-1][name], 2) for name in ("uas", "las", "clas")}

    # What is known goes along when a folder is exported again.
    export(tmp_path / "latin", "-o", tmp_path / "again", "--precision", "fp16", "--quiet")
    again = (tmp_path / "again" / "README.md").read_text(encoding="utf-8")
    assert "| seed | 17 |" in again
    assert "CC BY-SA 4.0" in again


def test_licences_and_languages_are_those_of_hugging_face() -> None:
    def head(license: str | None, treebank: str) -> dict[str, Any]:
        config = Config(settings={}, precision="fp32", training={"train": treebank}, license=license)
        found: dict[str, Any] = yaml.safe_load(_head("x", config).strip("-"))
        return found

    greek = head("CC BY-NC-SA 4.0", "UD_Greek-GDT/el_gdt-ud-train.conllu")
    assert (greek["license"], greek["language"]) == ("cc-by-nc-sa-4.0", "el")
    other = head("ask me", "mine/train.conllu")
    assert (other["license"], other["license_name"], "language" in other) == ("other", "ask me", False)
    assert "license" not in head(None, "train.conllu")


def test_a_strange_config_beside_the_checkpoint_is_no_obstacle(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(checkpoint, tmp_path / "best.ckpt")
    for number, text in enumerate(("a: [", "- 1", "data: 5", "data: {train: [x], sample: y}", "\x00")):
        (tmp_path / "config.yaml").write_text(text)
        export(tmp_path / "best.ckpt", "-o", tmp_path / f"folder{number}")
        assert ("is not YAML" in capsys.readouterr().out) == (number in (0, 4))


def test_a_parser_gets_another_tokenizer(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    contents = torch.load(checkpoint, weights_only=True)
    without = {name: value for name, value in contents.items() if "tokenizer" not in name}
    torch.save(without, tmp_path / "without.ckpt")
    text = tmp_path / "text.txt"
    text.write_text("We quote those books. She should assemble a wheelbarrow.\n", encoding="utf-8")
    code, message = failure(capsys, "predict", tmp_path / "without.ckpt", text, "--input", "raw")
    assert code == 1
    assert "tokenizer" in message
    export(tmp_path / "without.ckpt", "-o", tmp_path / "with", "--tokenizer", DEV, DEV, "--quiet")
    main(["predict", str(tmp_path / "with"), str(text), "--input", "raw", "-o", str(tmp_path / "out"), "--quiet"])
    written = (tmp_path / "out").read_text(encoding="utf-8")
    assert "# text = We quote those books." in written
    assert "\tbooks\t" in written


def test_a_parser_gets_a_list_of_lemmas(
    tagger: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = tmp_path / "words.conllu"
    words.write_text("1\tdog\thound\tNOUN" + "\t_" * 6 + "\n\n", encoding="utf-8")
    export(tagger, "-o", tmp_path / "folder", "--lemmas", words, "--quiet")
    text = tmp_path / "text.conllu"
    text.write_text("1\tdog\t_\tNOUN" + "\t_" * 6 + "\n\n", encoding="utf-8")
    main(["predict", str(tmp_path / "folder"), str(text), "-o", str(tmp_path / "parsed.conllu"), "--quiet"])
    assert next(iter(read_conll(tmp_path / "parsed.conllu"))).lemma == ["hound"]
    assert "predicts lemmas" in failure(capsys, "export", checkpoint, "-o", tmp_path / "no", "--lemmas", words)[1]


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_what_precision_costs_is_said(
    checkpoint: Path, tmp_path: Path, precision: str, capsys: pytest.CaptureFixture[str]
) -> None:
    export(checkpoint, "-o", tmp_path / "folder", "--precision", precision, "--evaluate", FIXTURE)
    printed = capsys.readouterr().out
    assert "LAS lost" in printed
    assert re.search(rf"as trained +torch +fp32 .*\n *exported +onnx +{precision} ", printed)
    config = json.loads((tmp_path / "folder" / "config.json").read_text())
    assert [row["precision"] for row in config["figures"]] == ["fp32", precision]


def test_another_decoder_is_kept(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export(checkpoint, "-o", tmp_path / "name", "--decoder", "Eisner", "--decoder.single_root", "false", "--quiet")
    assert load(tmp_path / "name").decoder == Eisner(single_root=False)
    tuned = tmp_path / "tuned.yaml"
    tuned.write_text("# found by tuning\nclass_path: arbora.decoders.mst.MST\ninit_args:\n  single_root: false\n")
    export(checkpoint, "-o", tmp_path / "file", "--decoder", tuned, "--quiet")
    assert load(tmp_path / "file").decoder == MST(single_root=False)

    plain = load_network(checkpoint)
    settings = plain.settings | {"parts": Multilinear(rank=4), "decoder": AD3()}
    parser = Network(plain.vocabulary, **settings)
    contents = {"state_dict": parser.state_dict(), KEY: describe(parser.settings, plain.vocabulary.as_dict())}
    torch.save(contents, tmp_path / "parts.ckpt")
    code, message = failure(capsys, "export", tmp_path / "parts.ckpt", "-o", tmp_path / "x", "--decoder", "MST")
    assert code == 1
    assert "--decoder MST does not look at the higher-order parts" in message


def test_what_fails_leaves_nothing(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious").write_text("x")
    before = sorted(tmp_path.rglob("*"))
    for arguments, message in (
        ([checkpoint, "-o", tmp_path / "full"], "already exists"),
        ([checkpoint, "-o", tmp_path / "absent" / "folder"], "there is no folder"),
        ([checkpoint, "-o", tmp_path / "new", "--evaluate", "absent.conllu"], "absent.conllu"),
        ([FIXTURE, "-o", tmp_path / "new"], "not a checkpoint"),
        ([tmp_path / "full", "-o", tmp_path / "new"], "no config.json"),
        ([tmp_path / "absent.ckpt", "-o", tmp_path / "new"], "absent.ckpt"),
    ):
        code, printed = failure(capsys, "export", *arguments)
        assert code == 1
        assert message in printed
        assert sorted(tmp_path.rglob("*")) == before
    (tmp_path / "empty").mkdir()
    export(checkpoint, "-o", tmp_path / "empty", "--quiet")
    assert load(tmp_path / "empty")


@pytest.mark.parametrize("name", ["config.json", "vocabulary.json", "onnx/words.onnx", "tokenizer.npz"])
def test_damaged_files_end_in_one_line(
    folder: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for change in (bytes.upper, lambda whole: whole[:-9], lambda whole: b"", lambda whole: b"\x80\x04" + whole):
        shutil.copytree(folder, tmp_path / "copy")
        path = tmp_path / "copy" / name
        path.write_bytes(change(path.read_bytes()))
        code, message = failure(capsys, "predict", tmp_path / "copy", FIXTURE)
        assert code == 1
        assert message.startswith(f"arbora predict: {path}: ")
        shutil.rmtree(tmp_path / "copy")


def test_graphs_that_are_not_there(checkpoint: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed = failure(capsys, "predict", checkpoint, FIXTURE, "--runtime", "onnx")
    assert code == 1
    assert "a checkpoint has no ONNX graphs" in printed
    code, printed = failure(capsys, "predict", folder, FIXTURE, "--runtime", "onnx", "--device", "cuda")
    assert code == 1
    assert "--runtime onnx runs on the CPU" in printed


def test_parsing_does_without_lightning(folder: Path, tmp_path: Path) -> None:
    code = f"""
import sys
from arbora.cli import main
main(["predict", {str(folder)!r}, {str(FIXTURE)!r}, "-o", {str(tmp_path / "out")!r}, "--quiet"])
assert [name for name in sys.modules if "lightning" in name] == []
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (tmp_path / "out").read_text(encoding="utf-8")


def test_calibrated_probabilities(folder: Path, checkpoint: Path, tmp_path: Path) -> None:
    """Random weights say nothing about gold trees, so that the best temperature is a high one."""
    target = tmp_path / "calibrated"
    export(checkpoint, "-o", target, "--precision", "fp32", "--calibrate", DEV, "--torch", "--quiet")
    arc, label = json.loads((target / "config.json").read_text())["temperature"]
    assert arc > 1
    words = "The dog that barked saw a cat .".split()
    plain = load(checkpoint).parse(words, probabilities=True)
    backend = load(checkpoint).backend
    backend.temperature = arc, label
    assert "temperature" not in json.loads((folder / "config.json").read_text())
    for runtime in ("onnx", "torch"):
        found = load(target, runtime).parse(words, probabilities=True)
        assert found.arc_probability.mean() < plain.arc_probability.mean()
        expected = Parser(backend, load(checkpoint).decoder).parse(words, probabilities=True)
        np.testing.assert_array_equal(found.heads, plain.heads)
        np.testing.assert_allclose(found.arc_probability, expected.arc_probability, atol=1e-5)
        np.testing.assert_allclose(found.label_probability, expected.label_probability, atol=1e-5)
    again = tmp_path / "again"
    export(target, "-o", again, "--quiet")
    assert load(again).backend.temperature == (arc, label)
    assert "temperatures of arcs and labels" in (again / "README.md").read_text(encoding="utf-8")
