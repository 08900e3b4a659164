"""The REST interface of UDPipe: clients and scripts for its service work by changing the address.

https://lindat.mff.cuni.cz/services/udpipe/api-reference.php. `tokenizer`, `tagger` and `parser` turn a step on if they
are present, errors are plain text with status 400. Differs: options of the tokenizer other than `presegmented` and
`normalized_spaces` are ignored, as are those of tagger and parser; and the formats `epe` and `matxin` are not written.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from arbora import __version__
from arbora.data.conll import EmptyError, Sentence, Unparsed
from arbora.data.text import read_text
from arbora.model.inference.batch_parser import ParsingSettings
from arbora.model.inference.results import ParsedSentence
from arbora.model.parser import Parser
from arbora.service.answers import Render
from arbora.service.batching import Outcome
from arbora.service.http import Problem
from arbora.service.reading import estimate_words, read_conllu

if TYPE_CHECKING:
    from arbora.service.app import Service

Parameters = Mapping[str, str]


def add_udpipe(app: FastAPI, service: Service) -> None:
    """Add the endpoints."""

    @app.get("/models", include_in_schema=False)
    async def models() -> JSONResponse:
        names = {name: _abilities(parser) for name, parser in service.models.items()}
        return JSONResponse({"models": names, "default_model": next(iter(service.models))})

    @app.api_route("/process", methods=["GET", "POST"], include_in_schema=False)
    async def process(request: Request) -> JSONResponse:
        parameters = dict(request.query_params)
        try:
            async with request.form(max_fields=50, max_part_size=service.limits.body) as form:
                for name, value in form.items():
                    parameters[name] = (await value.read()).decode() if isinstance(value, UploadFile) else value
        except UnicodeDecodeError:
            raise Problem(400, "The parameter 'data' is not UTF-8.") from None
        except HTTPException as error:
            raise error if isinstance(error, Problem) else Problem(400, str(error.detail)) from None
        try:
            return await _process(request, service, parameters)
        except Problem as problem:
            status = 400 if problem.status_code in (404, 413, 422) else problem.status_code
            raise Problem(status, str(problem.detail), problem.headers) from None


def _abilities(parser: Parser) -> list[str]:
    return ["tokenizer"] * parser.has_tokenizer + ["tagger"] * bool(parser.predicts) + ["parser"]


async def _process(request: Request, service: Service, parameters: Parameters) -> JSONResponse:
    if "data" not in parameters:
        raise Problem(400, "The parameter 'data' is required.")
    tag, parse = "tagger" in parameters, "parser" in parameters
    written = parameters.get("output", "conllu").partition("=")[0]
    if written not in WRITERS:
        raise Problem(400, f"The output format '{written}' is unknown; there are {', '.join(WRITERS)}.")
    name, parser = service.model(parameters.get("model") or None)
    settings = ParsingSettings(tags="replace" if tag else "keep")
    data = re.sub(r"^# (generator|arbora_model) = .*\n", "", parameters["data"].replace("\r\n", "\n"), flags=re.M)
    read = _reader(parser, data, parameters)
    job = await service.begin((name, parser), (parser.decoder,), settings, estimate_words(data), read)
    service.note(request, job, data)
    render = _render(tag, parse, WRITERS[written], job.sentences)
    if tag or parse:
        found = await service.whole(request, job, render)
    else:
        service.scheduler.cancel(job)
        found = b"".join([render(i, []) for i in range(len(job.sentences))])
    head = f"# generator = Arbora {__version__}\n# arbora_model = {name}\n" if written == "conllu" else ""
    result = head + found.decode()
    return JSONResponse({"model": name, "acknowledgements": [], "result": result})


def _reader(parser: Parser, data: str, parameters: Parameters) -> Callable[[], list[Sentence]]:
    """Finds the sentences of a request.

    Raises:
        Problem: the format is unknown.
    """
    options = parameters.get("tokenizer")
    kind = parameters.get("input", "conllu").partition("=")[0]
    if options is not None or kind in ("generic_tokenizer", "tokenizer"):
        tokenizer = parser.tokenizer
        if "presegmented" in (options or ""):
            lines = [line for line in data.split("\n") if line.strip()]
            return lambda: [_joined(tokenizer.split_text(line)) for line in lines]
        return lambda: tokenizer.split_text(data)
    if kind == "horizontal":
        return lambda: _none_if_empty(lambda: list(read_text(io.StringIO(data, newline="\n"), name="data")))
    if kind == "vertical":
        blocks = [[line.strip() for line in block.split("\n") if line.strip()] for block in data.split("\n\n")]
        return lambda: [Sentence.from_words(words, "data") for words in blocks if words]
    if kind != "conllu":
        raise Problem(400, f"The input format '{kind}' is unknown; there are conllu, horizontal and vertical.")
    return lambda: _none_if_empty(lambda: read_conllu(data))


def _none_if_empty(read: Callable[[], list[Sentence]]) -> list[Sentence]:
    try:
        return read()
    except EmptyError:
        return []


def _joined(sentences: list[Sentence]) -> Sentence:
    """Join sentences into one that the tokenizer has split."""
    words = [word for sentence in sentences for word in sentence.form]
    return sentences[0] if len(sentences) == 1 else Sentence.from_words(words, "data")


Writer = Callable[[Sentence, str], str]
"""Makes the text of a sentence, given also as CoNLL-U."""


def _horizontal(sentence: Sentence, _: str) -> str:
    return " ".join(word.replace(" ", "\u00a0") for word in sentence.form) + "\n"


def _vertical(sentence: Sentence, _: str) -> str:
    return "\n".join(sentence.form) + "\n\n"


def _plaintext(sentence: Sentence, _: str) -> str:
    text = next((line[9:] for line in sentence.lines if line.startswith("# text = ")), None)
    return (text or " ".join(sentence.form)) + "\n"


WRITERS: dict[str, Writer] = {
    "conllu": lambda _, text: text,
    "horizontal": _horizontal,
    "vertical": _vertical,
    "plaintext": _plaintext,
}


def _render(tag: bool, parse: bool, write: Writer, sentences: Any) -> Render:
    def render(i: int, outcomes: list[Outcome]) -> bytes:
        sentence: Sentence = sentences[i]
        found = outcomes[0].parsed if outcomes else None
        if isinstance(found, Unparsed):
            return f"# arbora_error = {found.error}\n{found.text}".encode("utf-8", "replace")
        text = _conllu(sentence, found, parse)
        return write(sentence, text).encode("utf-8", "replace")

    return render


def _conllu(sentence: Sentence, found: ParsedSentence | None, parse: bool) -> str:
    """The sentence with what was asked for: the tree or the one that it had, and tags that were predicted."""
    if found is None:
        return "\n".join([*sentence.lines, "\n"])
    if parse:
        return found.text
    heads: list[Any] = ["_" if head < 0 else head for head in sentence.head]
    return sentence.with_tree(heads, sentence.deprel, tags=found.tags)
