"""Random command lines: odd files, odd names, odd values, missing and repeated options.

A command must succeed, or end with code 1 or 2 and a message; a mistake of the user is one line, never a traceback.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
from collections import Counter
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path

import numpy as np

from arbora.cli import main
from tests.fuzz.reader import damage, draw_treebank
from tests.untrained import save_untrained

COMMANDS = 10
Generator = np.random.Generator

NAMES = ["a.conllu", "with blank.conllu", "[red].conllu", "[/x].conllu", "ünï.conllu", "-dash.conllu", "a.txt", "a.gz"]
VALUES = [
    "0",
    "1",
    "-1",
    "1.5",
    "nan",
    "inf",
    "1e308",
    "99999999999999999999",
    "",
    " ",
    "abc",
    "true",
    "null",
    "[1",
    "{",
    "é",
]
DECODERS = [
    "mst",
    "eisner",
    "ad3(max_iterations=2)",
    "hill_climbing(patience=x)",
    "greedy(beam=-1)",
    "mst,mst",
    "mst(",
    "",
]
OPTIONS = {
    "predict": ["--sentence", "--decoder", "--format", "--on-error", "--max-length", "--max-tokens", "--device", "-o"],
    "evaluate": ["--json", "--format"],
    "draw": ["--format", "-o", "--color", "--sentence"],
    "compare": ["--decoders", "--limit", "--words", "--repeats", "-o", "--first-order", "--max-heads", "--quiet"],
    "tune": ["--decoder", "--trials", "-o"],
    "export": ["-o", "--torch", "--precision"],
    "analyse": ["optima", "--restarts", "--limit"],
    "train": ["--config", "--model.encoder.size", "--model.decoder", "--trainer.max_epochs", "--data.max_tokens"],
}


@cache
def _model() -> Path:
    """A parser to call commands with, kept while this process lives."""
    folder = tempfile.TemporaryDirectory(prefix="arbora-fuzz-")
    _folders.append(folder)
    return save_untrained(Path(folder.name) / "model.ckpt")


_folders: list[tempfile.TemporaryDirectory[str]] = []


def draw_command(rng: Generator, files: list[str]) -> list[str]:
    """A command with files, options and values in any order."""
    command = str(rng.choice(list(OPTIONS)))

    def pick(values: list[str]) -> str:
        return values[rng.integers(len(values))]

    arguments = []
    if command not in ("train", "evaluate", "draw") and rng.random() < 0.7:
        arguments.append(str(_model()))
    if command != "train":  # without data, training ends at once
        arguments += [pick(files) for _ in range(rng.integers(3))]
    for _ in range(rng.integers(4)):
        option = pick(OPTIONS[command])
        value = pick(VALUES + DECODERS + files)
        arguments += [[option, value], [f"{option}={value}"], [option]][rng.integers(3)]
    if rng.random() < 0.1:
        arguments.append(pick(VALUES))
    return [command, *arguments]


def run(command: list[str], stdin: bytes) -> tuple[int, str]:
    """Exit code and stderr of a command that runs in this process."""
    errors, before = io.StringIO(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin))
    code: object = 0
    try:
        with redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")), redirect_stderr(errors):
            main(command)
    except SystemExit as stopped:
        code = stopped.code
    finally:
        sys.stdin = before
    return (code if isinstance(code, int) else 0 if code is None else 1), errors.getvalue()


def run_round(rng: Generator, counts: Counter[str]) -> None:
    """Run some commands in a folder of treebanks, whole and damaged, and count them."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        Path("[").mkdir()
        files = [str(name) for name in rng.permutation(NAMES)[:4]]
        for name in files:
            data = draw_treebank(rng)[0]
            Path(name).write_bytes(damage(data, rng) if rng.random() < 0.5 else data)
        files += ["-", "missing.conllu", folder, os.devnull]
        for _ in range(COMMANDS):
            command = draw_command(rng, files)
            code, errors = run(command, draw_treebank(rng)[0])
            counts["commands"] += 1
            assert code in (0, 1, 2), f"{command}: exit code {code}\n{errors}"
            assert "Traceback" not in errors, f"{command}\n{errors}"
            assert code == 0 or errors.strip(), f"{command}: exit code {code} without a message"
            if code == 1:
                assert errors.splitlines()[-1].startswith("arbora "), f"{command}\n{errors}"
