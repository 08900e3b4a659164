"""What happens to requests that come together, are long, slow, too many, or go away."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from serving import JSON, Gate, serving, until

from arbora.model.parser import Parser
from arbora.service.batching import AHEAD, UNREAD
from arbora.service.limits import Limits

LONG = [[f"word{i}", "and", "another", "one"] for i in range(400)]


def test_requests_share_batches_and_none_gets_trees_of_another(gated: Parser, parser: Parser) -> None:
    gate: Any = gated.backend
    texts = [[f"w{i}"] + ["and", "so", "on"] * (i % 5) for i in range(20)]
    with serving(gated) as server, ThreadPoolExecutor(21) as clients:
        first = clients.submit(server.parse, sentences=[["hold"]])
        until(lambda: gate.batches)
        answers = [clients.submit(server.parse, sentences=[text]) for text in texts]
        until(lambda: server.service.scheduler.waiting == len(texts))
        gate.permits.release(100)
        assert first.result()["sentences"][0]["words"] == ["hold"]
        for text, answer in zip(texts, answers, strict=True):
            (sentence,) = answer.result()["sentences"]
            assert sentence["words"] == text
            assert sentence["trees"][0]["heads"] == parser.parse(text).heads.tolist()
        assert len(gate.batches) == 2
        assert server.service.scheduler.queued == 0


def test_a_long_text_does_not_starve_a_short_one(gated: Parser) -> None:
    gate: Any = gated.backend
    with serving(gated, Limits(batch=50)) as server, ThreadPoolExecutor(2) as clients:
        long = clients.submit(server.parse, sentences=LONG)
        until(lambda: gate.batches)
        short = clients.submit(server.parse, sentences=[["short"]])
        until(lambda: server.service.scheduler.waiting == 2)
        gate.permits.release(2 + 2 * AHEAD)
        assert short.result()["sentences"][0]["words"] == ["short"]
        assert not long.done()
        gate.permits.release(1000)
        words = [sentence["words"] for sentence in long.result()["sentences"]]
        assert words == LONG
        assert [["short"]] in gate.batches[: 2 + 2 * AHEAD]


def test_two_threads_share_the_batches_of_a_long_text_and_few_words_wait(parser: Parser) -> None:
    gate: Any = Gate(parser.backend, at_once=2)
    gated = Parser(gate, parser.decoder, tokenizer=parser.tokenizer)
    with serving(gated, Limits(batch=50)) as server, ThreadPoolExecutor(4) as clients:
        long = clients.submit(server.parse, sentences=LONG)
        until(lambda: len(gate.batches) == 2)  # both are being scored
        short = clients.submit(server.parse, sentences=[["short"]])
        until(lambda: server.service.scheduler.waiting == 2)
        gate.permits.release(6 + 2 * AHEAD)
        assert short.result()["sentences"][0]["words"] == ["short"]
        gate.permits.release(1000)
        assert [sentence["words"] for sentence in long.result()["sentences"]] == LONG
        while gate.permits.acquire(blocking=False):
            pass
        gate.batches.clear()
        answers = [clients.submit(server.parse, sentences=[["first"]])]
        until(lambda: gate.batches)
        for waiting, word in enumerate(("second", "third"), 1):
            answers.append(clients.submit(server.parse, sentences=[[word]]))
            until(lambda waiting=waiting: server.service.scheduler.waiting == waiting)
        gate.permits.release(1000)
        assert [answer.result()["sentences"][0]["words"] for answer in answers] == [["first"], ["second"], ["third"]]
        assert [sorted(batch) for batch in gate.batches] == [[["first"]], [["second"], ["third"]]]


def test_a_full_queue_is_said_at_once(gated: Parser) -> None:
    gate: Any = gated.backend
    with serving(gated, Limits(words=2000, queue=2000)) as server, ThreadPoolExecutor(1) as clients:
        long = clients.submit(server.parse, sentences=LONG)
        until(lambda: gate.batches)
        body = json.dumps({"sentences": LONG}).encode()
        status, headers, found = server.ask("POST", "/v1/parse", body, JSON)
        assert (status, json.loads(found)["title"]) == (503, "Service Unavailable")
        assert int(headers["retry-after"]) >= 1
        assert server.ask("POST", "/process", b"data=" + b"word%20" * 2000 + b"&tokenizer=&parser=", FORM)[0] == 503
        assert server.service.metrics.total("arbora_rejected_total") == 2
        gate.permits.release(1000)
        assert len(long.result()["sentences"]) == len(LONG)
        assert len(server.parse(sentences=LONG)["sentences"]) == len(LONG)


FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize("kind", ["json", "jsonl"])
def test_a_client_that_goes_away_is_dropped(gated: Parser, kind: str) -> None:
    gate: Any = gated.backend
    with serving(gated, Limits(batch=50)) as server:
        connection = server.start(sentences=LONG, format=kind)
        until(lambda: gate.batches)
        connection.close()
        until(lambda: server.service.scheduler.queued == 0)
        gate.permits.release(1000)
        server.parse(sentences=[["still", "there"]])
        assert len(gate.batches) <= 3 + AHEAD  # of 40


def test_a_slow_client_holds_up_nobody(parser: Parser) -> None:
    sentences = [[f"word{i}" * 20, "and" * 20] for i in range(20_000)]
    with serving(parser, Limits(batch=200, transfer=3.0)) as server:
        service = server.service
        connection = server.start(sentences=sentences, format="jsonl", with_conllu=True)
        until(lambda: service.metrics.total("arbora_words_total") > UNREAD * 200)
        assert server.parse(sentences=[["quick"]])["sentences"][0]["words"] == ["quick"]
        until(lambda: service.scheduler.queued == 0)  # it was dropped
        assert service.metrics.total("arbora_words_total") < 40_000
        assert service.metrics.total("arbora_dropped_total") == 1
        received = b""
        while piece := connection.recv(1 << 20):
            received += piece
        assert not received.endswith(b"0\r\n\r\n")  # it does not look whole


def test_a_request_that_does_not_arrive_is_dropped(parser: Parser) -> None:
    with serving(parser, Limits(transfer=0.5)) as server:
        connection = server.start(text="Whole.")
        found = connection.recv(1 << 16)
        assert b"200 OK" in found
        while not found.endswith(b"}"):
            found += connection.recv(1 << 16)
        connection.sendall(b"POST /v1/parse HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{")
        assert b"408 Request Timeout" in connection.recv(1 << 16)


def test_what_was_accepted_is_finished_before_the_end(gated: Parser) -> None:
    gate: Any = gated.backend
    with ThreadPoolExecutor(2) as clients:
        with serving(gated) as server:
            found = clients.submit(server.parse, sentences=LONG)
            until(lambda: gate.batches)
            closing = clients.submit(server.close)
            gate.permits.release(1000)
            assert len(found.result()["sentences"]) == len(LONG)
            closing.result()
        assert not server.service.scheduler.works
        with pytest.raises(ConnectionRefusedError):
            server.ask("GET", "/healthz")
