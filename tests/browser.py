"""Chromium for tests of pages; the fixture `browser` skips them where there is none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
START = """
import fcntl, os, sys
read, write = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Starts a program with the two pipes in the places where it expects them."""


class Browser:
    """Chromium, driven through its two pipes (file descriptors 3 and 4), so that no package is needed.

    Args:
        profile: folder for what it writes.
        arguments: more of its options.
    """

    def __init__(self, profile: Path, *arguments: str) -> None:
        assert BROWSER is not None
        (read, self._write), (self._read, write) = os.pipe(), os.pipe()
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={profile}",
            "--remote-debugging-pipe",
        ]
        self._process = subprocess.Popen(
            [sys.executable, "-c", START, str(read), str(write), BROWSER, *options, *arguments],
            pass_fds=(read, write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read)
        os.close(write)
        self._buffer = b""
        self._count = 0
        self._session: str | None = None
        self.messages: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                assert "error" not in answer, answer
                return answer["result"]
            self.messages.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            piece = os.read(self._read, 1 << 16)
            assert piece, "the browser is gone"
            self._buffer += piece
        first, self._buffer = self._buffer.split(b"\0", 1)
        answer: dict[str, Any] = json.loads(first)
        return answer

    def open(self, url: str) -> None:
        self.messages.clear()
        self.call("Page.navigate", url=url)
        address = url.partition("#")[0]  # what follows may be rewritten by the page as soon as it runs
        for _ in range(1200):
            if self.run("document.readyState") == "complete" and self.run("location.href").startswith(address):
                return
            time.sleep(0.05)
        raise AssertionError(f"{url} was not loaded")

    def run(self, script: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def click(self, selector: str) -> None:
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def key(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, text=key if len(key) == 1 and kind == "keyDown" else ""
            )

    def choose(self, selector: str, value: str, event: str = "change") -> None:
        element = f"document.querySelector({json.dumps(selector)})"
        self.run(
            f"{element}.value = {json.dumps(value)}; {element}.dispatchEvent(new Event('{event}', {{bubbles: true}}))"
        )

    def texts(self, selector: str) -> list[str]:
        found: list[str] = self.run(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)")
        return found

    def close(self) -> None:
        os.write(self._write, b'{"id": 0, "method": "Browser.close"}\0')
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
        os.close(self._write)
        os.close(self._read)


def errors(browser: Browser) -> list[Any]:
    """Return errors of scripts, and violations of the page's policy."""
    bad = [m for m in browser.messages if m["method"] == "Runtime.exceptionThrown"]
    return bad + [
        m for m in browser.messages if m["method"] == "Log.entryAdded" and m["params"]["entry"]["level"] == "error"
    ]
