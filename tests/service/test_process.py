"""The service as a process of its own: load, signals, a very long request."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from serving import JSON

pytestmark = pytest.mark.slow

SENTENCES = [["The", "old", "dog", "barked", "."]] * 400
WORDS = [["word"] * 20] * 50_000


class Process:
    """`arbora serve` in another process."""

    def __init__(self, model: Path, *options: str) -> None:
        command = [sys.executable, "-m", "arbora.cli", "serve", str(model), *options]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().split("/")[2].rsplit(":", 1)[1])

    def heads(self, sentences: list[list[str]]) -> list[list[int]] | int | None:
        """Heads of sentences; the status if they are refused, None if the connection breaks."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        body = json.dumps({"sentences": sentences, "format": "jsonl"}).encode()
        try:
            connection.request("POST", "/v1/parse", body, JSON)
            answer = connection.getresponse()
            lines = answer.read().splitlines()
        except (OSError, http.client.HTTPException):
            return None
        if answer.status != 200:
            return answer.status
        return [json.loads(line)["trees"][0]["heads"] for line in lines if line]


@contextmanager
def process(model: Path, *options: str) -> Iterator[Process]:
    running = Process(model, *options)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.wait()


def test_kill_during_load_and_a_start_on_the_same_port(tagger: Path) -> None:
    with process(tagger, "--port", "0") as service, ThreadPoolExecutor(8) as clients:
        expected = service.heads(SENTENCES[:1])
        waiting = [clients.submit(service.heads, SENTENCES) for _ in range(8)]
        service.process.kill()
        answers = [one.result() for one in waiting]
        assert all(one is None or one == expected * 400 for one in answers)  # type: ignore[operator]
        assert None in answers
    with process(tagger, "--port", str(service.port)) as again:
        assert again.port == service.port
        assert again.heads(SENTENCES[:1]) == expected


def test_a_stop_finishes_what_was_accepted(tagger: Path) -> None:
    with process(tagger, "--port", "0") as service, ThreadPoolExecutor(8) as clients:
        expected = service.heads(SENTENCES[:1])
        waiting = [clients.submit(service.heads, SENTENCES) for _ in range(8)]
        waiting[0].result()
        service.process.send_signal(signal.SIGTERM)
        answers = [one.result() for one in waiting]
        assert all(one is None or one == expected * 400 for one in answers)  # type: ignore[operator]
        assert service.process.wait(60) == 0


def test_a_million_words(tagger: Path) -> None:
    with process(tagger, "--port", "0") as service:
        assert service.heads(WORDS) == 413
        assert service.process.poll() is None
    limits = ["--max-words", "2000000", "--max-queue", "3000000", "--max-body", "100000000"]
    with process(tagger, "--port", "0", *limits) as service, ThreadPoolExecutor(1) as clients:
        expected = service.heads(WORDS[:1])
        waiting = clients.submit(service.heads, WORDS)
        short = [service.heads(SENTENCES[:1]) for _ in range(10)]
        assert not waiting.done()  # short requests do not wait for the long one
        assert all(one == short[0] for one in short)
        assert waiting.result() == expected * 50_000  # type: ignore[operator]
