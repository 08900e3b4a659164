"""Behaviour of all commands: one-line errors, exit codes, interrupts."""

import os
import signal
import subprocess
import sys

import pytest

from arbora.cli import _errors_in_one_line


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("two\nlines"), "arbora x: two lines"),
        (MemoryError(), "arbora x: not enough memory: choose a smaller model"),
        (RuntimeError("can't allocate memory: you tried to allocate 16 bytes."), "(tried to allocate 16 bytes)"),
        (RuntimeError("Storage size calculation overflowed with sizes=[9]"), "arbora x: not enough memory: choose"),
    ],
)
def test_a_mistake_is_one_line(error: Exception, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped, _errors_in_one_line("arbora x"):
        raise error
    assert stopped.value.code == 1
    printed = capsys.readouterr().err
    assert line in printed
    assert printed.count("\n") == 1


def test_a_fault_of_the_program_keeps_its_traceback() -> None:
    with pytest.raises(RuntimeError, match="a bug"), _errors_in_one_line("arbora x"):
        raise RuntimeError("a bug")


def test_standard_output_may_be_closed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdout", None)
    with _errors_in_one_line("arbora x"):
        pass
    with pytest.raises(SystemExit), _errors_in_one_line("arbora x"):
        raise ValueError("standard output is closed")
    assert "closed" in capsys.readouterr().err


def test_two_interrupts_at_once_let_the_first_clean_up() -> None:
    code = """
import time
from arbora.cli import _errors_in_one_line
with _errors_in_one_line("arbora x"):
    try:
        print("ready", flush=True)
        time.sleep(60)
    finally:
        time.sleep(0.3)
        print("cleaned up", flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    for _ in range(2):
        os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert (out, err) == ("cleaned up\n", "arbora x: interrupted\n")
