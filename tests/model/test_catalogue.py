import json
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from hub import local_hub

import arbora
from arbora.cli import main
from arbora.model import catalogue
from arbora.model.catalogue import find_model, is_model, known_models
from arbora.model.loading import load

FIXTURE = Path(__file__).parents[1] / "fixtures" / "treebank.conllu"


@pytest.fixture(scope="module")
def tiny(tagger: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    main(["export", str(tagger), "-o", str(folder), "--license", "CC0-1.0", "--language", "en", "--quiet"])
    return folder


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(catalogue, "entry_points", lambda group: [])
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ARBORA_MODELS", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def named(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ARBORA_MODELS", str(tiny.parent))
    return tiny


def failure(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        main(list(map(str, arguments)))
    assert stopped.value.code == 1
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    return message


def test_a_name_is_as_good_as_a_path(named: Path, tmp_path: Path) -> None:
    assert arbora.load("tiny").parse(["A", "dog"]).heads.tolist() == load(named).parse(["A", "dog"]).heads.tolist()
    outputs = []
    for model in ("tiny", str(named)):
        main(["predict", model, str(FIXTURE), "-o", str(tmp_path / "out"), "--quiet"])
        outputs.append((tmp_path / "out").read_text(encoding="utf-8"))
    assert outputs[0] == outputs[1]


def test_models_are_listed(named: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["models"])
    line = capsys.readouterr().out.splitlines()[1]
    assert all(fact in line.split() for fact in ("tiny", "en", "CC0-1.0", "$ARBORA_MODELS"))
    main(["models", "--json"])
    (found,) = json.loads(capsys.readouterr().out)
    assert found["MB"] == round(sum(path.stat().st_size for path in named.rglob("*") if path.is_file()) / 1e6, 1)
    assert found["LAS"] is None


def test_a_damaged_model_does_not_hide_the_others(
    named: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "more" / "bad").mkdir(parents=True)
    (tmp_path / "more" / "bad" / "config.json").write_text("{")
    monkeypatch.setenv("ARBORA_MODELS", f"{tmp_path / 'more'}{catalogue.os.pathsep}{named.parent}")
    main(["models", "--json"])
    bad, tiny = json.loads(capsys.readouterr().out)
    assert "not JSON" in bad["from"]
    assert tiny["language"] == "en"


def test_the_users_folder_is_searched(tiny: Path) -> None:
    assert known_models() == {}
    catalogue.user_folder().mkdir(parents=True)
    (catalogue.user_folder() / "mine").symlink_to(tiny, target_is_directory=True)
    assert find_model("mine").samefile(tiny)


def test_without_a_model_the_first_one_parses_and_is_named(
    named: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["predict", str(FIXTURE), "-o", str(tmp_path / "default")])
    assert "parsing with tiny ($ARBORA_MODELS)" in capsys.readouterr().err
    main(["predict", "tiny", str(FIXTURE), "-o", str(tmp_path / "named"), "--quiet"])
    assert capsys.readouterr().err == ""
    assert (tmp_path / "default").read_bytes() == (tmp_path / "named").read_bytes()
    main(["predict", "--sentence", "A dog barked .", "--quiet"])
    assert "barked" in capsys.readouterr().out


def test_an_unknown_name_lists_the_names(named: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = failure(capsys, "predict", "tinny", FIXTURE)
    assert "no model, file or folder tinny" in message
    assert "models tiny (" in message
    with pytest.raises(ValueError, match="no model, file or folder x"):
        arbora.load("x")


def test_without_any_model_the_command_says_how_to_get_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert "No models are installed" in failure(capsys, "predict", FIXTURE)
    main(["models"])
    assert "no models" in capsys.readouterr().out


def test_a_name_that_is_also_a_model_here_is_refused(
    named: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tiny").mkdir()
    assert find_model("tiny") == named  # a folder, but no model
    (tmp_path / "tiny" / "config.json").write_text("{}")
    assert "write ./tiny" in failure(capsys, "predict", "tiny", FIXTURE)
    assert find_model("./tiny") == Path("tiny")


def test_files_to_parse_are_told_from_models(named: Path, checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").write_bytes(checkpoint.read_bytes())
    models = ["tiny", "tinny", str(named), str(checkpoint), str(tmp_path / "copy"), "hf:owner/name", "missing.conllu"]
    assert all(map(is_model, models))
    assert not any(map(is_model, ["-", str(FIXTURE), "/dev/stdin"]))


def test_a_package_of_models_is_found_without_importing_it(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = tmp_path / "arbora-toys"
    for name in ("small-toy", "toy"):
        options = ["--package", name, "--license", "CC-BY-SA-4.0", "--language", "en", "--quiet"]
        main(["export", str(checkpoint), "-o", str(package), *options])
    assert "already exists" in failure(capsys, "export", checkpoint, "-o", package, "--package", "toy")
    for name, license, message in (("Toy", "CC0-1.0", "lower-case"), ("tin", "CC BY SA", "SPDX")):
        assert message in failure(capsys, "export", checkpoint, "-o", package, "--package", name, "--license", license)
    arguments = ["export", checkpoint, "-o", tmp_path / "arbora-new", "--package", "toy", "--scripts", "latin"]
    assert "a parser with a transformer" in failure(capsys, *arguments)
    assert not (tmp_path / "arbora-new").exists()
    (package / "arbora_toys" / "__init__.py").write_text("raise SystemExit('imported')\n")
    installed = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", installed]
    subprocess.run([*pip, package], check=True)
    code = f"""
import sys
sys.path.insert(0, {str(installed)!r})
import arbora
from arbora.cli import main
main(["models", "--json"])
print(len(arbora.load("small-toy").parse(["a", "b"]).heads))
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    printed, _, words = done.stdout.strip().rpartition("\n")
    listed = {facts["model"]: facts for facts in json.loads(printed)}
    assert {"small-toy", "toy"} <= set(listed)
    assert (listed["toy"]["language"], listed["toy"]["licence"]) == ("en", "CC-BY-SA-4.0")
    assert listed["toy"]["from"] == "arbora-toys 0.1.0"
    assert words == "2"


def test_an_entry_point_into_nothing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [EntryPoint("one", value, catalogue.GROUP) for value in ("no_such_module", "json", "a.b", "sys")]
    monkeypatch.setattr(catalogue, "entry_points", lambda group: entries)
    assert known_models() == {}


HUB = """
import sys
from arbora.cli import main
for arguments in {commands!r}:
    main(arguments)
"""


def run(commands: list[list[str]], home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run commands in another process, as the hub's library reads its settings when it is imported."""
    given = catalogue.os.environ | {"HF_HOME": str(home), "HF_TOKEN": "hf_none", "HF_HUB_DISABLE_XET": "1"}
    command = [sys.executable, "-c", HUB.format(commands=commands)]
    return subprocess.run(command, capture_output=True, text=True, env=given | environment)


def test_a_model_goes_to_the_hub_and_comes_back(tiny: Path, tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    sentence = ["--sentence", "A dog barked ."]
    with local_hub() as hub:
        done = run([["push", str(tiny), "owner/toy"]], tmp_path / "one", HF_ENDPOINT=hub.address)
        assert done.returncode == 0, done.stderr
        assert done.stdout == "hf:owner/toy\n"
        sent = {path: contents for path, contents in hub.repositories["owner/toy"].items() if path != ".gitattributes"}
        assert sent == {
            path.relative_to(tiny).as_posix(): path.read_bytes() for path in tiny.rglob("*") if path.is_file()
        }
        commands = [["predict", str(tiny), *sentence], ["predict", "hf:owner/toy", *sentence]]
        done = run(commands, tmp_path / "two", HF_ENDPOINT=hub.address)
        assert done.returncode == 0, done.stderr
        half = len(done.stdout) // 2
        assert done.stdout[:half] == done.stdout[half:]
        missing = run([["predict", "hf:owner/other", *sentence]], tmp_path / "two", HF_ENDPOINT=hub.address)
    assert missing.returncode == 1
    assert missing.stderr.startswith("arbora predict: hf:owner/other: ")
    assert missing.stderr.count("\n") == 1
    offline = run([["predict", "hf:owner/toy", *sentence]], tmp_path / "two", HF_HUB_OFFLINE="1")
    assert offline.stdout == done.stdout[half:], offline.stderr
    absent = run([["predict", "hf:owner/toy", *sentence]], tmp_path / "three", HF_HUB_OFFLINE="1")
    assert absent.returncode == 1
    assert absent.stderr.count("\n") == 1
    wrong = run([["push", str(tmp_path), "owner/toy"]], tmp_path / "three", HF_HUB_OFFLINE="1")
    assert "no config.json" in wrong.stderr


@pytest.mark.parametrize("config", ["transformer", "transformer_second_order", "transformer_third_order"])
def test_a_transformer_of_any_language_becomes_a_package(
    config: str, bert: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ["--data.train", str(FIXTURE), "--data.dev", str(FIXTURE), "--trainer.max_epochs", "1"]
    main(["train", "--config", config, "--model.encoder.init_args.name", bert, "--run", str(tmp_path / "run"), *files])
    package = tmp_path / "arbora-german"
    about = ["--package", "german", "--language", "de", "--license", "CC-BY-SA-4.0", "--quiet"]
    main(["export", str(tmp_path / "run" / "best.ckpt"), "-o", str(package), *about])
    monkeypatch.setenv("ARBORA_MODELS", str(package / "arbora_german"))
    assert known_models()["german"].config().license == "CC-BY-SA-4.0"
    assert len(arbora.load("german", "onnx")("The cat slept.")[0].heads) == 4
