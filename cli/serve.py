"""`arbora serve`: an HTTP service, and a page to look at trees."""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from arbora.cli.options.serve import parser
from arbora.decoders.kernels.threads import set_num_threads
from arbora.extras import importing_extra
from arbora.model.loading import load
from arbora.model.parser import Parser
from arbora.service.limits import Limits


def main(arguments: Sequence[str]) -> None:
    """Run `arbora serve` with these arguments."""
    options = parser().parse(arguments)
    limits = Limits(**{field.name: getattr(options, f"max_{field.name}") for field in fields(Limits)})
    with importing_extra():
        import uvicorn

        from arbora.service.app import create_app
    if options.threads is not None:
        set_num_threads(options.threads)
    named = [_named(entry) for entry in options.models]
    if twice := {name for name, _ in named if [other for other, _ in named].count(name) > 1}:
        raise ValueError(f"two models are called {min(twice)}: write NAME=PATH")
    parsers = {name: _ready(path, options.device, options.threads) for name, path in named}
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("arbora").setLevel(logging.INFO)
    app = create_app(parsers, limits, _list(options.origins), _hosts(options.host, options.hosts), options.log_text)
    with socket.create_server((options.host, options.port)) as listener:
        shown = f"[{options.host}]" if ":" in options.host else options.host
        print(f"arbora serve: http://{shown}:{listener.getsockname()[1]}/ ({', '.join(parsers)})", flush=True)
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=limits.connections,
            timeout_graceful_shutdown=int(limits.shutdown),
            proxy_headers=False,
        )
        signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn sends it again when it has stopped
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])
    print("arbora serve: stopped", flush=True)


def _named(entry: str) -> tuple[str, str]:
    """The name of a model and its path: `runs/mine/best.ckpt` is `mine`."""
    name, equals, path = entry.partition("=")
    if equals and name and path:
        return name, path
    place = Path(entry)
    generic = place.stem in ("best", "last") and place.parent.name
    return (place.parent.name if generic else place.stem if place.suffix == ".ckpt" else place.name), entry


def _ready(path: str, device: str, threads: int | None) -> Parser:
    """A model that has parsed a word, so that the first request does not wait for kernels."""
    parser = load(path, device=device, threads=threads)
    parser.check()
    return parser


def _list(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _hosts(host: str, given: str) -> list[str]:
    """Host names that requests may use. Others are refused, so that other web sites cannot reach it (DNS rebinding)."""
    anywhere = host in ("0.0.0.0", "::", "")
    return _list(given) or (["*"] if anywhere else ["localhost", "127.0.0.1", "[::1]", host])
