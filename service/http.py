"""What all requests share: limits, headers, errors by RFC 9457, and log lines without text."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from arbora.service.limits import Limits
from arbora.service.metrics import Metrics

logger = logging.getLogger("arbora.service")

POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
POLICY += "form-action 'none'; frame-ancestors 'none'"

HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


PLAIN = ("/process", "/models")
"""Paths of UDPipe's interface, whose errors are plain text."""


class Problem(HTTPException):
    """An error of a request.

    Args:
        status: of HTTP.
        detail: what is wrong and what to do, in one line.
        headers: of the answer.
        more: members of the answer.
    """

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(status, " ".join(detail.split()), headers)
        self.more = more

    def response(self, plain: bool = False) -> Response:
        """The answer: as plain text, or as `application/problem+json`."""
        if plain:
            return Response(self.detail + "\n", self.status_code, self.headers, "text/plain")
        content = {"type": "about:blank", "title": HTTPStatus(self.status_code).phrase, "status": self.status_code}
        text = json.dumps(content | {"detail": self.detail} | self.more, ensure_ascii=False)
        return Response(text.encode("utf-8", "replace"), self.status_code, self.headers, "application/problem+json")


async def problem_response(request: Request, error: Exception) -> Response:
    """The answer to a request that raised an error; UDPipe's paths answer in plain text."""
    plain = request.url.path in PLAIN
    if isinstance(error, Problem):
        return error.response(plain)
    if isinstance(error, HTTPException):
        return Problem(error.status_code, str(error.detail), error.headers).response(plain)
    assert isinstance(error, RequestValidationError)
    if any(one["loc"] == ("body",) or one["type"] == "json_invalid" for one in error.errors()):
        detail = "the body must be a JSON object, sent with the header content-type: application/json"
        return Problem(422, detail).response()
    places = [(".".join(map(str, one["loc"])), one["msg"]) for one in error.errors()]
    detail = "; ".join(f"{place}: {message}" for place, message in places[:3])
    return Problem(422, detail, errors=[{"place": one, "message": why} for one, why in places[:20]]).response()


class Stream(StreamingResponse):
    """A streamed answer.

    Args:
        pieces: of the answer.
        close: called when it is sent, or cannot be sent any further.
        media_type: of the answer.
    """

    def __init__(self, pieces: AsyncIterator[bytes], close: Callable[[], None], media_type: str) -> None:
        super().__init__(pieces, media_type=media_type)
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._close()


class Guard:
    """Wraps the application: bounds bodies, connections and waiting, adds headers, logs and counts.

    Args:
        app: to be wrapped.
        limits: of bodies and waiting.
        metrics: counts requests.
    """

    def __init__(self, app: ASGIApp, limits: Limits, metrics: Metrics) -> None:
        self.app, self.limits, self.metrics = app, limits, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self.limits)
        try:
            size = int(dict(scope["headers"]).get(b"content-length", b"0"))
            if size > self.limits.body:
                if size <= 4 * self.limits.body:  # many clients read the answer only when they have sent everything
                    async with asyncio.timeout(self.limits.transfer):
                        await _discard(receive)
                raise exchange.too_large()
            await self.app(scope, exchange.receive, exchange.send)
        except Exception as error:
            gone = isinstance(error, TimeoutError | OSError)
            if gone:
                exchange.note = "the client was too slow, or went away"
                self.metrics.add("arbora_dropped_total")
            elif not isinstance(error, Problem):
                logger.error("%s in answering %s", type(error).__name__, scope["path"][:80], exc_info=error)
            # Of an answer that was begun, uvicorn closes the connection, so that it does not look whole.
            if not exchange.status and not gone:
                problem = error if isinstance(error, Problem) else Problem(500, "the service failed; its log says why")
                await problem.response(scope["path"] in PLAIN)(scope, receive, exchange.send)
        finally:
            self._record(scope, exchange)

    def _record(self, scope: Scope, exchange: _Exchange) -> None:
        seconds = time.perf_counter() - exchange.started
        route = scope.get("route")
        path = str(getattr(route, "path", "other"))
        self.metrics.add("arbora_requests_total", path=path, status=str(exchange.status))
        self.metrics.observe("arbora_request_seconds", seconds, path=path)
        # The query may hold text, so only the path is logged.
        note = exchange.note or scope.get("arbora.note", "")
        shown = "".join(c if c.isprintable() else "?" for c in scope["path"][:80])
        logger.info("%s %s %s %.1f ms%s", scope["method"], shown, exchange.status, 1000 * seconds, note and f": {note}")


async def _discard(receive: Receive) -> None:
    """Read a request to its end."""
    while (await receive()).get("more_body"):
        pass


class _Exchange:
    """One request and its answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, limits: Limits) -> None:
        self._scope, self._receive, self._send, self._limits = scope, receive, send, limits
        self._left = limits.body
        self._complete = False
        self.started = time.perf_counter()
        self.status = 0
        self.note = ""

    def too_large(self) -> Problem:
        """The error of a body that is too large."""
        closing = {"connection": "close"}
        return Problem(413, f"the request is too large: at most {self._limits.body} bytes", closing)

    async def receive(self) -> Message:
        """A piece of the request, which must arrive in time."""
        if self._complete:
            return await self._receive()
        left = self.started + self._limits.transfer - time.perf_counter()
        try:
            async with asyncio.timeout(max(0.001, left)):
                message = await self._receive()
        except TimeoutError:
            raise Problem(408, "the request did not arrive in time", {"connection": "close"}) from None
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise self.too_large()
        self._complete = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Send a piece of the answer, which the client must take in time."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            there = {name for name, _ in message["headers"]}
            more = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in there]
            message["headers"] = [*message["headers"], *more]
        async with asyncio.timeout(self._limits.transfer):
            await self._send(message)
