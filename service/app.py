"""The application: the API, the page, and endpoints for monitoring."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict
from importlib.resources import files
from typing import Any, cast

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp

from arbora import __version__
from arbora.data.conll import Sentence
from arbora.decoders import Decoder
from arbora.decoders.names import OWN, name_of
from arbora.model.inference.batch_parser import ParsingSettings
from arbora.model.parser import Parser
from arbora.service.answers import Answer, Render, as_conllu, as_json
from arbora.service.batching import Job, Overloaded, Scheduler
from arbora.service.decoders import find_decoder, list_decoders
from arbora.service.http import Guard, Problem, Stream, problem_response
from arbora.service.limits import Limits
from arbora.service.metrics import Metrics
from arbora.service.reading import Format, ParseRequest, check_lengths, check_words, warnings
from arbora.service.udpipe import add_udpipe

STATIC = {
    "/": ("arbora.service", "page.html", "text/html"),
    "/page.js": ("arbora.service", "page.js", "text/javascript"),
    "/page.css": ("arbora.service", "page.css", "text/css"),
    "/trees.js": ("arbora.evaluation", "trees.js", "text/javascript"),
    "/trees.css": ("arbora.evaluation", "trees.css", "text/css"),
}
"""Files of the page, and the packages that they are in."""

MEDIA = {"json": "application/json", "jsonl": "application/x-ndjson", "conllu": "text/x-conllu; charset=utf-8"}
"""Types of answers, by format."""

ACCEPTED = {"application/x-ndjson": "jsonl", "application/jsonl": "jsonl", "text/x-conllu": "conllu"}
ACCEPTED |= {"application/x-conllu": "conllu", "text/plain": "conllu"}
"""Formats that the header Accept can ask for; anything else is JSON."""


AT_ONCE = 200
"""Words that are read in less time than another thread takes to begin."""


class Service:
    """What the endpoints share.

    Args:
        models: that requests can name; the first is taken where a request names none.
        limits: of requests.
        log_text: write the beginning of texts to the log.
    """

    def __init__(self, models: Mapping[str, Parser], limits: Limits, log_text: bool) -> None:
        self.models, self.limits, self.log_text = models, limits, log_text
        self.metrics = Metrics()
        threads = min(parser.backend.at_once for parser in models.values())
        self.scheduler = Scheduler(limits, self.metrics, threads)
        self._readers = ThreadPoolExecutor(2, "arbora-reading")

    def model(self, name: str | None) -> tuple[str, Parser]:
        """A model that a request names.

        Raises:
            Problem: there is none.
        """
        name = name or next(iter(self.models))
        if name not in self.models:
            raise Problem(404, f"unknown model {name[:80]!r}; choose from {', '.join(self.models)}")
        return name, self.models[name]

    async def begin(
        self,
        model: tuple[str, Parser],
        decoders: tuple[Decoder, ...],
        settings: ParsingSettings,
        words: int,
        read: Callable[[], list[Sentence]],
    ) -> Job:
        """Read the sentences of a request, once the queue has room for them.

        Args:
            model: that parses them.
            decoders: for them.
            settings: of parsing.
            words: about how many there are.
            read: finds the sentences; called in another thread if they are many.

        Raises:
            Problem: there is no room, or they are malformed or too many.
        """
        job = Job(*model, decoders, settings, [], lambda *_: None)
        if words > 4 * self.limits.words:  # too many to look for them at all
            check_words(words, job.factor, self.limits)
        try:
            self.scheduler.reserve(job, min(words * job.factor, self.limits.words))
            few = words <= AT_ONCE
            job.read(read() if few else await asyncio.get_running_loop().run_in_executor(self._readers, read))
            count = sum(job.lengths)
            check_words(count, job.factor, self.limits)
            check_lengths(job.lengths, self.limits)
            self.scheduler.reserve(job, count * job.factor)
        except Overloaded as error:
            self.scheduler.cancel(job)
            self.metrics.add("arbora_rejected_total")
            raise Problem(503, str(error), {"retry-after": str(error.seconds)}) from None
        except ValueError as error:
            self.scheduler.cancel(job)
            raise Problem(422, str(error)) from None
        except BaseException:
            self.scheduler.cancel(job)
            raise
        return job

    async def whole(self, request: Request, job: Job, render: Render) -> bytes:
        """Parse a job, unless the client goes away before.

        Raises:
            OSError: it did.
        """
        answer = Answer(render, stream=False)
        job.deliver = answer.deliver
        self.scheduler.start(job)
        done = asyncio.ensure_future(answer.whole(job, self.scheduler))
        gone = asyncio.ensure_future(_disconnected(request))
        try:
            await asyncio.wait({done, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not done.done():
                raise ConnectionError("the client went away")
            return done.result()
        finally:
            self.scheduler.cancel(job)
            done.cancel()
            gone.cancel()

    async def stream(self, request: Request, job: Job, render: Render, media_type: str) -> Response:
        """Parse a job, and give the answer as it is found, or whole if it is one batch.

        The job is dropped if the client stops reading.
        """
        if sum(job.lengths) <= self.limits.batch:
            return Response(await self.whole(request, job, render), media_type=media_type)
        answer = Answer(render, stream=True)
        job.deliver = answer.deliver
        self.scheduler.start(job)
        return Stream(answer.pieces(job, self.scheduler), lambda: self.scheduler.cancel(job), media_type)

    def note(self, request: Request, job: Job, text: str) -> None:
        """Add to the request's log line."""
        sizes = f"{sum(job.lengths)} words in {len(job.lengths)} sentences"
        request.scope["arbora.note"] = sizes + (f", {text[:200]!r}" if self.log_text else "")


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def create_app(
    models: Mapping[str, Parser],
    limits: Limits = Limits(),  # noqa: B008 - limits are frozen
    origins: Sequence[str] = (),
    hosts: Sequence[str] = ("*",),
    log_text: bool = False,
) -> ASGIApp:
    """Make the application.

    Args:
        models: that requests can name, at least one; the first is taken where a request names none.
        limits: of requests.
        origins: of pages elsewhere that may call the API.
        hosts: names under which the service may be called; `*` for any.
        log_text: write the beginning of texts to the log.
    """
    service = Service(models, limits, log_text)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.scheduler.close)

    about = "Parses text into dependency trees. Errors are problem details (RFC 9457)."
    app = FastAPI(
        title="Arbora", version=__version__, description=about, docs_url=None, redoc_url=None, lifespan=lifespan
    )
    app.state.service = service
    for error in (HTTPException, RequestValidationError):
        app.add_exception_handler(error, problem_response)
    _add_parsing(app, service)
    _add_monitoring(app, service)
    add_udpipe(app, service)
    for path, (package, name, kind) in STATIC.items():
        content = files(package).joinpath(name).read_bytes()
        app.add_api_route(path, _static(content, kind), methods=["GET"], include_in_schema=False)
    if origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=list(origins), allow_methods=["GET", "POST"], allow_headers=["*"]
        )
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
    return Guard(app, limits, service.metrics)


def _static(content: bytes, kind: str) -> Callable[[], Response]:
    return lambda: Response(content, media_type=kind, headers={"cache-control": "no-cache"})


def _add_parsing(app: FastAPI, service: Service) -> None:
    problem = {"content": {"application/problem+json": {"schema": {"type": "object"}}}}
    errors = {code: problem | {"description": what} for code, what in ERRORS.items()}
    ok = {"description": "The trees.", "content": {kind.partition(";")[0]: {} for kind in MEDIA.values()}}

    @app.post("/v1/parse", response_class=Response, responses=cast("Any", {200: ok, **errors}))
    async def parse(body: ParseRequest, request: Request) -> Response:
        """Parse text or sentences, with one or several decoders on the same scores.

        The answer has each sentence's words and tags, and for each decoder its trees: `heads` and `labels` of words,
        counted from 1, with 0 as the root; `score`, `bound` where the decoder has one, `certified` if the tree is
        proved to be the best. If a decoder finds no tree, there is an `error` instead.
        """
        started = time.perf_counter()
        model = name, parser = service.model(body.model)
        shown, decoders = _decoders(body, parser, service.limits)
        kind = body.format or _accepted(request)
        if kind == "conllu" and len(decoders) > 1:
            raise Problem(422, "CoNLL-U holds the trees of one decoder only; name one, or choose another format")
        _check_labels(body, parser)
        job = await service.begin(model, decoders, body.settings(), body.estimate(), lambda: body.read(parser))
        service.note(request, job, body.text or "")
        if kind == "conllu":
            return await service.stream(request, job, as_conllu(scores=True), MEDIA[kind])
        render = as_json(shown, job.sentences, body.with_conllu, "\n" if kind == "jsonl" else ",")
        if kind == "jsonl":
            return await service.stream(request, job, render, MEDIA[kind])
        found = await service.whole(request, job, render)
        head: dict[str, Any] = {"model": name, "decoders": shown, "warnings": warnings(parser, job.sentences)}
        head["milliseconds"] = round(1000 * (time.perf_counter() - started), 1)
        before = json.dumps(head, ensure_ascii=False)[:-1].encode()
        return Response(before + b', "sentences": [' + found.rstrip(b",") + b"]}", media_type=MEDIA[kind])

    @app.get("/v1/models")
    async def list_models() -> list[dict[str, Any]]:
        """The models, the default one first: what they read and predict, their decoder and labels."""
        return [_about(name, parser) for name, parser in service.models.items()]

    @app.get("/v1/decoders")
    async def show_decoders() -> dict[str, Any]:
        """The decoders with their settings and defaults, and the limits of requests."""
        return {"decoders": list_decoders(service.limits), "limits": asdict(service.limits)}


ERRORS = {
    404: "There is no such model.",
    408: "The request did not arrive in time.",
    413: "The request has too many bytes or words.",
    422: "The request is malformed, or asks for what there is not.",
    503: "Too many words are waiting; `Retry-After` says when to try again.",
}


def _decoders(body: ParseRequest, parser: Parser, limits: Limits) -> tuple[list[str], tuple[Decoder, ...]]:
    """The decoders of a request, and their names."""
    if len(body.decoders) > limits.decoders:
        raise Problem(422, f"at most {limits.decoders} decoders are allowed, got {len(body.decoders)}")
    if body.k_best > limits.k_best:
        raise Problem(422, f"k_best is at most {limits.k_best} in this service, got {body.k_best}")
    if not body.decoders:
        return [OWN], (parser.decoder,)
    try:
        found = [
            find_decoder(*((one, {}) if isinstance(one, str) else (one.name, one.settings)), parser.decoder, limits)
            for one in body.decoders
        ]
    except ValueError as error:
        raise Problem(422, f"decoders: {error}") from None
    names, decoders = zip(*found, strict=True)
    return list(names), decoders


def _check_labels(body: ParseRequest, parser: Parser) -> None:
    """Refuse labels that the model does not have."""
    if not body.unique:
        return
    labels = set(parser.vocabulary.labels)
    kinds = labels | {label.partition(":")[0] for label in labels}
    if other := [label for label in body.unique if label not in kinds]:
        raise Problem(422, f"unique: the model has no label {other[0]!r}")


def _accepted(request: Request) -> Format:
    """The format that the header Accept asks for first."""
    for entry in request.headers.get("accept", "").split(","):
        kind = entry.partition(";")[0].strip().lower()
        if kind in ACCEPTED:
            return cast("Format", ACCEPTED[kind])
        if kind in ("application/json", "*/*"):
            break
    return "json"


def _about(name: str, parser: Parser) -> dict[str, Any]:
    return {
        "name": name,
        "tokenizer": parser.has_tokenizer,
        "reads": list(parser.tags),
        "predicts": list(parser.predicts),
        "decoder": name_of(parser.decoder),
        "labels": list(parser.vocabulary.labels),
    }


def _add_monitoring(app: FastAPI, service: Service) -> None:
    @app.get("/healthz", response_class=Response, include_in_schema=False)
    async def healthy() -> Response:
        return Response("ok\n", media_type="text/plain")

    @app.get("/readyz", response_class=Response, include_in_schema=False)
    async def ready() -> Response:
        works = service.scheduler.works
        return Response("ok\n" if works else "stopping\n", 200 if works else 503, media_type="text/plain")

    @app.get("/metrics", response_class=Response, include_in_schema=False)
    async def metrics() -> Response:
        text = service.metrics.text(arbora_queue_words=service.scheduler.queued)
        return Response(text, media_type="text/plain; version=0.0.4")
