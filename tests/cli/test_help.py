"""Help imports neither numba nor torch, so that it comes at once."""

import subprocess
import sys

import pytest

from arbora.cli import main

COMMANDS = [
    "predict",
    "parse-corpus",
    "export",
    "tune",
    "compare",
    "warmup",
    "analyse optima",
    "analyse doubt",
    "train",
]


def test_help_imports_little() -> None:
    calls = "; ".join(f"run({command.split()})" for command in COMMANDS)
    code = f"""
import sys
from arbora.cli import main
def run(command):
    try:
        main([*command, "--help"])
    except SystemExit as stop:
        assert stop.code == 0
{calls}
print(sorted({{"numba", "torch", "jsonargparse", "numpy"}} & sys.modules.keys()), file=sys.stderr)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stderr.strip() == "[]"
    for command in COMMANDS:
        assert f"usage: arbora {command}" in run.stdout


def test_no_default_is_printed_twice(capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        with pytest.raises(SystemExit):
            main([*command.split(), "--help"])
        text = " ".join(capsys.readouterr().out.split())
        for option in text.split(" --"):
            assert option.count("(default") <= 1, option


def test_training_names_its_own_options_first(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    text = capsys.readouterr().out
    assert text.index("--run") < text.index("--data ") < text.index("--model.encoder") < text.index("--trainer.max")
    assert "(required)" not in text


def test_the_options_in_the_help_of_training_exist() -> None:
    from arbora.cli.options.train import parser

    shown = parser("--help")
    assert shown is not None
    names = {name for action in shown._actions for name in action.option_strings} - {"-h", "-c", "--from", "--data"}
    run = subprocess.run(
        [sys.executable, "-m", "arbora.cli", "train", "fit", "--help"], capture_output=True, text=True, check=True
    )
    assert [name for name in names if name not in run.stdout] == []
    assert run.stdout.startswith("usage: arbora train fit [options]\n")
    ours = [run.stdout.index(name) for name in ("--run RUN", "--model.encoder ENCODER", "--data.train TRAIN")]
    assert max(ours) < run.stdout.index("--trainer.accelerator ACCELERATOR")
