"""`arbora train --model linear`, and what the other commands do with the result."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from arbora.cli import main
from arbora.configs import find_config
from arbora.model.linear.storage import read_linear

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("data")
    sentences = (ROOT / "examples" / "treebank" / "dev.conllu").read_text().split("\n\n")
    for name, part in (("train", sentences[:25]), ("dev", sentences[25:35])):
        (folder / f"{name}.conllu").write_text("\n\n".join(part) + "\n\n")
    return ["--data.train", str(folder / "train.conllu"), "--data.dev", str(folder / "dev.conllu")]


@pytest.fixture(scope="module")
def run(files: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "linear"
    main(["train", "--model", "linear", *files, "--run", str(folder), *SMALL, "--learning.epochs", "2"])
    return folder


SMALL = ["--linear.bits", "16", "--linear.pruner_bits", "16", "--learning.folds", "2"]


def test_resumes_where_it_stopped(
    run: Path, files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "again"
    command = ["train", "--config", str(find_config("linear")), *files, "--run", str(folder), *SMALL]
    main([*command, "--learning.epochs", "1"])
    with pytest.raises(SystemExit):
        main([*command, "--learning.epochs", "2"])
    assert "already has a run" in capsys.readouterr().err
    resume = ["train", "--config", str(folder / "config.yaml"), "--ckpt_path", "last", "--learning.epochs", "2"]
    main(resume)
    assert "epoch 2" in capsys.readouterr().out
    for name in ("best.ckpt", "last.ckpt"):
        one, two = read_linear(run / name), read_linear(folder / name)
        np.testing.assert_array_equal(one.model.weights, two.model.weights)
    with pytest.raises(SystemExit):
        main([*resume, "--linear.order", "3"])
    assert "its own model settings" in capsys.readouterr().err


def test_predict_export_and_compare(run: Path, files: list[str], tmp_path: Path) -> None:
    dev, folder = files[-1], tmp_path / "small"
    main(["predict", str(run / "best.ckpt"), dev, "-o", str(tmp_path / "one.conllu"), "--quiet"])
    export = ["export", str(run / "best.ckpt"), "-o", str(folder), "--evaluate", dev, "--quiet"]
    main([*export, "--precision", "fp16"])
    main(["predict", str(folder), dev, "-o", str(tmp_path / "two.conllu"), "--quiet"])
    one, two = ((tmp_path / name).read_text().splitlines() for name in ("one.conllu", "two.conllu"))
    assert len(one) == len(two)
    assert sum(a != b for a, b in zip(one, two, strict=True)) < 0.03 * len(one)
    assert "arcs and parts of several (grandparent, sibling)" in (folder / "README.md").read_text()
    report = tmp_path / "report"
    main(
        [
            "compare",
            str(run / "best.ckpt"),
            dev,
            "-o",
            str(report),
            "--decoders",
            "AD3,MST",
            "--max-heads",
            "4",
            "--quiet",
        ]
    )
    assert "AD3" in "".join(path.read_text() for path in report.iterdir() if path.suffix in (".csv", ".json", ".html"))


WITHOUT_TORCH = """
import sys
from importlib.abc import MetaPathFinder

class Without(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "pytorch_lightning", "lightning_fabric", "onnx", "onnxruntime"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Without())
if __name__ == "__main__":  # and not in the workers of parse-corpus
    from arbora.cli import main

    for line in open(sys.argv[1]):
        main(line.split())
"""


def test_every_command_works_without_torch(files: list[str], tmp_path: Path) -> None:
    dev, search = files[-1], ["--decoder", "HillClimbing", "--search", "patience=1:9"]
    commands = [
        ["train", "--config", "linear", *files, "--run", "run", *SMALL, "--learning.epochs", "1", "--quiet", "true"],
        ["predict", "run/best.ckpt", dev, "-o", "parsed.conllu", "--k-best", "2", "--quiet"],
        ["export", "run/best.ckpt", "-o", "folder", "--evaluate", dev, "--quiet"],
        ["predict", "folder", dev, "-o", "kept.conllu", "--keep", "heads", "--quiet"],
        ["compare", "folder", dev, "-o", "report", "--decoders", "ad3,greedy,vine_cascade", "--quiet"],
        ["tune", "folder", dev, *search, "--trials", "2", "-o", "tuned.yaml"],
        ["analyse", "optima", "folder", dev, "--quiet"],
        ["parse-corpus", "folder", dev, "-o", "corpus", "--workers", "1", "--quiet"],
    ]
    (tmp_path / "commands").write_text("".join(" ".join(command) + "\n" for command in commands))
    (tmp_path / "run.py").write_text(WITHOUT_TORCH)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "run.py", "commands"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    gold = [line.split("\t")[6:8] for line in Path(dev).read_text().splitlines() if line[:1].isdigit()]
    kept = [line.split("\t")[6:8] for line in (tmp_path / "kept.conllu").read_text().splitlines() if line[:1].isdigit()]
    assert kept == gold
    assert list((tmp_path / "corpus").iterdir())


def test_no_runtime(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["predict", str(run / "best.ckpt"), "--runtime", "onnx", "--sentence", "a b"])
    assert "always runs on the CPU" in capsys.readouterr().err
