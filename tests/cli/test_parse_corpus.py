import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from corpora import EXAMPLES

from arbora.cli import main
from arbora.data.conll import read_conll

INPUTS = [str(EXAMPLES / "dev.conllu"), str(EXAMPLES / "test.conllu")]


def parse_corpus(*arguments: str | Path) -> None:
    main(["parse-corpus", *map(str, arguments)])


def failure(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    with pytest.raises(SystemExit) as stopped:
        parse_corpus(*arguments)
    assert stopped.value.code == 1
    return capsys.readouterr().err


@pytest.fixture(scope="module")
def predicted(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    folder = tmp_path_factory.mktemp("predicted")
    for path in map(Path, INPUTS):
        main(["predict", str(checkpoint), str(path), "-o", str(folder / path.name), "--quiet"])
    return [(folder / Path(path).name).read_bytes() for path in INPUTS]


def merged(out: Path) -> list[bytes]:
    return [(out / "merged" / Path(path).name).read_bytes() for path in INPUTS]


def shards(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((out / "shards").glob("*.conllu"))}


def test_a_corpus_is_parsed_and_resumed(
    checkpoint: Path, tmp_path: Path, predicted: list[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    run = (checkpoint, *INPUTS, "-o", out, "--shard-size", "40kB", "--workers", "2")
    parse_corpus(*run, "--merge")
    assert merged(out) == predicted
    words = sum(len(s) for path in INPUTS for s in read_conll(path))
    summary = capsys.readouterr().err
    assert "merged 2 files" in summary
    assert f"all shards are committed: {words:,} words" in summary
    status = json.loads((out / "status.json").read_text(encoding="utf-8"))
    assert (status["state"], status["words"], len(status["workers"])) == ("done", words, 2)
    assert not (out / "temporary").exists()

    before = shards(out)
    victim = out / "shards" / sorted(before)[3]
    kept = {path: path.stat().st_mtime_ns for path in (out / "shards").glob("*.conllu") if path != victim}
    victim.unlink()
    parse_corpus(*run)
    assert f"{len(before) - 1} of {len(before)} shards are committed already" in capsys.readouterr().err
    assert shards(out) == before
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    parse_corpus(*run, "--quiet")
    assert capsys.readouterr().err == ""


def test_shares_of_a_plan_make_the_whole(checkpoint: Path, tmp_path: Path, predicted: list[bytes]) -> None:
    out = tmp_path / "out"
    run = (checkpoint, *INPUTS, "-o", out, "--shard-size", "40kB", "--workers", "1", "--quiet")
    for share in ("2/3", "3/3"):
        parse_corpus(*run, "--shard", share)
    assert not (out / "manifest.jsonl").exists()
    parse_corpus(*run, "--shard", "1/3", "--merge")
    assert merged(out) == predicted
    assert (out / "status-2-of-3.json").exists()


def test_another_model_input_or_setting_is_refused(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, text, out = tmp_path / "model.ckpt", tmp_path / "a.txt", tmp_path / "out"
    model.write_bytes(checkpoint.read_bytes())
    text.write_text("A dog barked .\n", encoding="utf-8")
    run = (model, text, "-o", out, "--input", "text", "--workers", "1")
    parse_corpus(*run)
    capsys.readouterr()
    assert "it was begun with another max_length; give another folder, or --replace" in failure(
        capsys, *run, "--max-length", "9"
    )
    text.write_text("A dog barked again .\n", encoding="utf-8")
    assert f"the input {text} was changed" in failure(capsys, *run)
    with model.open("ab") as file:
        file.write(b"\0")
    assert "has the output of another run" in failure(capsys, *run)
    (out / "mine").write_text("kept", encoding="utf-8")
    model.write_bytes(checkpoint.read_bytes())
    parse_corpus(*run, "--replace")
    assert [s.form for s in read_conll(next((out / "shards").glob("*.conllu")))] == [
        ["A", "dog", "barked", "again", "."]
    ]
    assert (out / "mine").exists()


def test_sentences_that_cannot_be_parsed_are_reported(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = (EXAMPLES / "dev.conllu").read_text(encoding="utf-8").split("\n\n")[0]
    (tmp_path / "a.conllu").write_text(f"{good}\n\n1\tbad\n\n{good}\n\n", encoding="utf-8")
    run = (checkpoint, tmp_path / "a.conllu", "--workers", "1", "--quiet", "-o")
    message = failure(capsys, *run, tmp_path / "copied")
    assert "a.conllu:" in message
    assert "2 columns where 10 are expected" in message
    assert "1 sentences could not be parsed" in message
    assert "\n\n1\tbad\n\n" in next((tmp_path / "copied").glob("shards/*.conllu")).read_text(encoding="utf-8")
    failure(capsys, *run, tmp_path / "skipped", "--on-error", "skip")
    assert len(list(read_conll(next((tmp_path / "skipped").glob("shards/*.conllu"))))) == 2


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--shard", "0/3"], "--shard must be I/N with I from 1 to N, such as 3/100, got 0/3"),
        (["--shard-size", "much"], "--shard-size must be a number of bytes, kB, MB or GB"),
        (["--workers", "-1"], "--workers must not be negative, got -1"),
        (["--tries", "0"], "--tries must be positive, got 0"),
        (["--address", "auto"], "--address needs a Ray cluster: add --engine ray"),
        (["--engine", "ray", "--shard", "1/2"], "cannot be used with --engine ray"),
    ],
)
def test_options_that_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], error: str
) -> None:
    assert error in failure(capsys, "model", *INPUTS, "-o", tmp_path / "out", *arguments)


def test_a_model_that_does_not_load_ends_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model").write_bytes(b"none")
    message = failure(capsys, tmp_path / "model", *INPUTS, "-o", tmp_path / "out", "--workers", "1")
    assert "0 of 1 shards are committed; run the same command again to resume" in message
    assert f"{tmp_path}/model" in message


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_killed_driver_is_started_again_and_two_refuse_each_other(
    checkpoint: Path, tmp_path: Path, predicted: list[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    run = (checkpoint, *INPUTS, "-o", out, "--shard-size", "5kB", "--workers", "1", "--quiet")
    command = [sys.executable, "-m", "arbora.cli", "parse-corpus", *map(str, run)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as driver:
        while not list((out / "shards").glob("*.json")):
            assert driver.poll() is None
            time.sleep(0.02)
        message = failure(capsys, *run)
        driver.send_signal(signal.SIGKILL)
    assert "another run is writing" in message
    assert 0 < len(list((out / "shards").glob("*.json"))) < len(json.loads((out / "plan.json").read_bytes())["shards"])
    parse_corpus(*run, "--merge")
    assert merged(out) == predicted


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT")
def test_an_interrupted_run_says_how_to_resume(checkpoint: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = (checkpoint, *INPUTS, "-o", out, "--shard-size", "2kB", "--workers", "2")
    command = [sys.executable, "-m", "arbora.cli", "parse-corpus", *map(str, run)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as driver:
        while not list((out / "shards").glob("*.json")):
            assert driver.poll() is None
            time.sleep(0.02)
        os.killpg(driver.pid, signal.SIGINT)
        _, message = driver.communicate()
    assert driver.returncode == 130
    assert "shards are committed; run the same command again to resume" in message
    assert message.endswith("arbora parse-corpus: interrupted\n")
    assert json.loads((out / "status.json").read_text(encoding="utf-8"))["state"] == "interrupted"
