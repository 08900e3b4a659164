from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from arbora.cli import main


def failure(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as left:
        main(["serve", *map(str, arguments)])
    assert left.value.code in (1, 2)
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    return line


def test_it_serves_until_it_is_told_to_stop(tagger: Path) -> None:
    command = [sys.executable, "-m", "arbora.cli", "serve", f"tiny={tagger}", "--port", "0", "--max-k-best", "3"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.fullmatch(r"arbora serve: (http://127\.0\.0\.1:\d+/) \(tiny\)\n", line)
    assert found, line
    with urllib.request.urlopen(f"{found[1]}models") as answer:
        assert json.load(answer)["default_model"] == "tiny"
    with urllib.request.urlopen(f"{found[1]}v1/decoders") as answer:
        assert json.load(answer)["limits"]["k_best"] == 3
    process.send_signal(signal.SIGTERM)
    printed, log = process.communicate(timeout=60)
    assert (process.returncode, printed) == (0, "arbora serve: stopped\n")
    assert "INFO GET /models 200" in log
    assert "Traceback" not in log


def test_mistakes_are_one_line(tagger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "two models are called a: write NAME=PATH" in failure(capsys, f"a={tagger}", "a=other")
    assert "--max-queue must be at least --max-words, 100000, got 5" in failure(capsys, tagger, "--max-queue", 5)
    assert "--max-body must be a positive number, got 0" in failure(capsys, tagger, "--max-body", 0)
    assert "nowhere" in failure(capsys, "nowhere")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "address already in use" in failure(capsys, tagger, "--port", taken.getsockname()[1]).lower()
