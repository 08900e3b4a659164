"""A short run of each fuzzer, always with the same inputs; `python -m tests.fuzz` runs for as long as one likes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("what", "rounds"), [("decoders", 4), ("reader", 10), ("cli", 3)])
def test_fuzz(what: str, rounds: int) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.fuzz",
        "--what",
        what,
        "--rounds",
        str(rounds),
        "--minutes",
        "60",
        "--seed",
        "7",
    ]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"{what}: {rounds} rounds, 0 failed" in done.stdout
