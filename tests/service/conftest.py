from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import Gate, Server, serving

import arbora
from arbora.model.parser import Parser


@pytest.fixture(scope="session")
def parser(tagger: Path) -> Parser:
    return arbora.load(tagger)


@pytest.fixture(scope="session")
def server(parser: Parser) -> Iterator[Server]:
    with serving(parser) as running:
        yield running


@pytest.fixture
def gated(parser: Parser) -> Parser:
    return Parser(Gate(parser.backend), parser.decoder, tokenizer=parser.tokenizer)
