from collections.abc import Iterator

import pytest
from serving import Gate, Server, serving

import arbora
from arbora.model.parser import Parser


@pytest.fixture(scope="session")
def parser() -> Parser:  # SERVICE_DEV
    return arbora.load("/work/runs/service/tiny")


@pytest.fixture(scope="session")
def server(parser: Parser) -> Iterator[Server]:
    with serving(parser) as running:
        yield running


@pytest.fixture
def gated(parser: Parser) -> Parser:
    return Parser(Gate(parser.backend), parser.decoder, tokenizer=parser.tokenizer)
