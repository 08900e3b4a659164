"""A service on loopback, for tests."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from arbora.model.parser import Parser
from arbora.service.app import Service, create_app
from arbora.service.limits import Limits


class Server:
    """A running service, and its parts."""

    def __init__(self, parser: Parser, limits: Limits, **options: Any) -> None:
        self.app: Any = create_app({"tiny": parser}, limits, **options)
        self.service: Service = self.app.app.state.service
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        config = uvicorn.Config(self.app, log_level="error", access_log=False, timeout_graceful_shutdown=5)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self.socket],))
        self._thread.start()
        until(lambda: self._server.started)

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(30)

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        connection.close()
        return found

    def parse(self, **body: Any) -> Any:
        status, headers, found = self.ask("POST", "/v1/parse", json.dumps(body).encode(), JSON)
        answer = json.loads(found)
        assert headers["content-type"].startswith("application/json" if status == 200 else "application/problem+json")
        assert status == 200 or answer["status"] == status
        return answer

    def start(self, **body: Any) -> socket.socket:
        """Send a request, and leave its answer where it is."""
        text = json.dumps(body).encode()
        connection = socket.create_connection(("127.0.0.1", self.port))
        head = f"POST /v1/parse HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(text)}\r\n"
        connection.sendall(head.encode() + b"content-type: application/json\r\n\r\n" + text)
        return connection


JSON = {"content-type": "application/json"}


def until(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    """Wait for something that happens in another thread."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


@contextmanager
def serving(parser: Parser, limits: Limits | None = None, **options: Any) -> Iterator[Server]:
    server = Server(parser, limits or Limits(), **options)
    try:
        yield server
    finally:
        server.close()


class Gate:
    """A backend that scores a batch only when it is let, and notes the words of each.

    Args:
        backend: that scores.
        at_once: batches that may be scored at a time.
    """

    def __init__(self, backend: Any, at_once: int = 1) -> None:
        self._backend = backend
        self.at_once = at_once
        self.permits = threading.Semaphore(0)
        self.batches: list[list[list[str]]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def score(self, batch: Any) -> Any:
        self.batches.append(batch.forms)
        assert self.permits.acquire(timeout=60)
        return self._backend.score(batch)
