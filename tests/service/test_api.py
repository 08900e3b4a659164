from __future__ import annotations

import json
import logging
from typing import Any

import numpy as np
import pytest
from serving import JSON, Server, serving

from arbora.decoders import MST, Eisner
from arbora.model.inference.batch_parser import BatchParser
from arbora.model.parser import Parser
from arbora.service.limits import Limits

TEXT = "The old dog barked loudly. Nobody saw it. A painter sold the clock."
CONLLU = "1\tThe\t_\t_\t_\t_\t2\tdet\t_\t_\n2\tdog\t_\t_\t_\t_\t0\troot\t_\t_\n3\tbarked\t_\t_\t_\t_\t_\t_\t_\t_\n\n"


def test_text_is_parsed_as_in_python(server: Server, parser: Parser) -> None:
    found = server.parse(text=TEXT, confidence=True)
    expected = parser(TEXT, probabilities=True)
    assert len(found["sentences"]) == len(expected) == 3
    for sentence, tree in zip(found["sentences"], expected, strict=True):
        assert sentence["words"] == tree.sentence.form
        for column in ("upos", "xpos", "feats", "lemmas"):
            assert sentence[column] == getattr(tree, column)
        (got,) = sentence["trees"]
        assert got["heads"] == tree.heads.tolist()
        assert got["labels"] == tree.labels
        assert got["certified"] == tree.certified
        assert got["score"] == pytest.approx(tree.score)
        assert tree.arc_probability is not None
        assert np.allclose(got["arc_probabilities"], tree.arc_probability, atol=1e-5)


def test_words_conllu_and_known_arcs(server: Server, parser: Parser) -> None:
    words = ["The", "dog", "barked"]
    found = server.parse(
        sentences=[words, ["No"]], known=[{"heads": {"1": 3}, "labels": {"1": "obl"}, "forbid": [[2, 3]]}]
    )
    tree = found["sentences"][0]["trees"][0]
    expected = parser.parse(words, heads={1: 3}, labels={1: "obl"}, forbid=[(2, 3)])
    assert tree["heads"] == expected.heads.tolist()
    assert (tree["heads"][0], tree["labels"][0]) == (3, "obl")
    assert tree["heads"][1] != 3
    assert server.parse(conllu=CONLLU, keep_heads=True)["sentences"][0]["trees"][0]["heads"][:2] == [2, 0]
    bad = server.parse(sentences=[words], known=[{"heads": {"1": 2, "2": 1}}])["sentences"][0]["trees"][0]
    assert "make a cycle" in bad["error"]


def test_several_decoders_share_the_scores(parser: Parser, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    score = BatchParser.score
    monkeypatch.setattr(BatchParser, "score", lambda self, *given: calls.append(1) or score(self, *given))
    with serving(parser) as server:
        found = server.parse(
            text=TEXT, decoders=["mst", {"name": "eisner", "settings": {"single_root": False}}], k_best=3
        )
    assert len(calls) == 1
    assert found["decoders"] == ["mst", "eisner(single_root=False)"]
    for decoder, name in ((MST(), "mst"), (Eisner(single_root=False), "eisner(single_root=False)")):
        own = Parser(parser.backend, decoder, tokenizer=parser.tokenizer)
        for sentence in found["sentences"]:
            best = own.parse(sentence["words"], k_best=3)
            trees = [tree for tree in sentence["trees"] if tree["decoder"] == name]
            assert [tree["heads"] for tree in trees] == [one.heads.tolist() for one in (best, *best.alternatives)]
            assert [tree["rank"] for tree in trees] == list(range(1, len(trees) + 1))
            assert sum(tree["share"] for tree in trees) == pytest.approx(1, abs=1e-4)


def test_formats(server: Server, parser: Parser) -> None:
    body = json.dumps({"text": TEXT}).encode()
    _, headers, text = server.ask("POST", "/v1/parse", body, JSON | {"accept": "text/x-conllu"})
    assert headers["content-type"] == "text/x-conllu; charset=utf-8"
    assert text.decode() == "".join(tree.as_text(scores=True) for tree in parser(TEXT))
    assert server.ask("POST", "/v1/parse", json.dumps({"text": TEXT, "format": "conllu"}).encode(), JSON)[2] == text
    _, headers, lines = server.ask("POST", "/v1/parse", body, JSON | {"accept": "application/x-ndjson"})
    assert headers["content-type"] == "application/x-ndjson"
    whole = server.parse(text=TEXT)["sentences"]
    for line, sentence in zip(map(json.loads, lines.splitlines()), whole, strict=True):
        for tree in (*line["trees"], *sentence["trees"]):
            del tree["milliseconds"]
        assert line == sentence
    assert server.parse(text=TEXT, format="conllu", decoders=["mst", "eisner"])["status"] == 422


def test_models_and_decoders(server: Server, parser: Parser) -> None:
    (model,) = json.loads(server.ask("GET", "/v1/models")[2])
    assert (model["name"], model["tokenizer"], model["predicts"]) == ("tiny", True, list(parser.predicts))
    found = {one["name"]: one for one in json.loads(server.ask("GET", "/v1/decoders")[2])["decoders"]}
    assert found["eisner"]["projective"]
    settings = {setting["name"]: setting for setting in found["branch_and_bound"]["settings"]}
    assert settings["seconds"]["largest"] == 1.0
    assert "decoder" not in {setting["name"] for setting in found["minimum_risk"]["settings"]}


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({}, 422, "give one of text, sentences and conllu, got none"),
        ({"text": "a", "sentences": [["a"]]}, 422, "got text and sentences"),
        ({"text": "  "}, 422, "contains no words"),
        ({"text": "a", "model": "../../etc/passwd"}, 404, "unknown model"),
        ({"text": "a", "colour": 1}, 422, "body.colour"),
        ({"text": "a", "k_best": 21}, 422, "k_best is at most 20"),
        ({"text": "a", "decoders": ["mst"] * 10}, 422, "at most 9 decoders"),
        ({"text": "a", "decoders": ["os.system"]}, 422, "write a decoder as mst"),
        ({"text": "a", "decoders": ["simplex"]}, 422, "unknown decoder simplex"),
        ({"text": "a", "decoders": [str(__file__)]}, 422, "write a decoder as mst"),
        (
            {"text": "a", "decoders": [{"name": "mst", "settings": {"single_root": "no, x=1"}}]},
            422,
            "unknown setting x",
        ),
        ({"text": "a", "decoders": ["minimum_risk(decoder=os.system)"]}, 422, "unknown setting decoder"),
        (
            {"text": "a", "decoders": [{"name": "mst", "settings": {"class_path": "os"}}]},
            422,
            "unknown setting class_path",
        ),
        ({"text": "a", "decoders": ["branch_and_bound(seconds=60)"]}, 422, "seconds is at most 1 in this service"),
        ({"text": "a", "decoders": ["ad3(max_iterations=100000)"]}, 422, "max_iterations is at most 2000"),
        ({"text": "a", "decoders": ["ad3(rho=no)"]}, 422, "rho must be"),
        ({"text": "a", "unique": ["nothing"]}, 422, "no label 'nothing'"),
        ({"text": "a", "known": [{"sentence": 9}]}, 422, "sentence 9 does not exist"),
        ({"text": "a", "known": [{"heads": {"1": 7}}]}, 422, "the sentence has words 1 to 1"),
        ({"sentences": [["a", "b\tc"]]}, 422, "must not be empty or have a tab"),
        ({"sentences": [[]]}, 422, "at least one word"),
        ({"conllu": "1\ta"}, 422, "columns"),
        ({"sentences": [["a"] * 1001]}, 422, "sentence 1 has 1001 words"),
        ({"sentences": [["a"] * 1000] * 11, "k_best": 10}, 413, "are too many: at most 100000"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    server: Server, body: dict[str, Any], status: int, message: str
) -> None:
    found = server.parse(**body)
    assert found["status"] == status
    assert message in found["detail"]
    assert "\n" not in found["detail"]


@pytest.mark.parametrize(
    ("body", "kind"), [(b"{", "application/json"), (b'"a"', "application/json"), (b"text=a", "text/plain")]
)
def test_a_body_that_is_no_json_object(server: Server, body: bytes, kind: str) -> None:
    status, headers, found = server.ask("POST", "/v1/parse", body, {"content-type": kind})
    assert (status, headers["content-type"]) == (422, "application/problem+json")
    assert json.loads(found)["detail"].startswith("the body must be a JSON object")


def test_bodies_are_bounded(parser: Parser) -> None:
    with serving(parser, Limits(body=1000)) as server:
        status, _, found = server.ask("POST", "/v1/parse", json.dumps({"text": "a" * 1000}).encode(), JSON)
        assert (status, json.loads(found)["detail"]) == (413, "the request is too large: at most 1000 bytes")
        chunks: Any = iter([b'{"text": "', b"a" * 600, b"a" * 600, b'"}'])
        assert server.ask("POST", "/v1/parse", chunks, JSON)[0] == 413
        assert server.ask("POST", "/process", b"data=" + b"a" * 1000)[0] == 413
    with serving(parser, Limits(body=2_000_000)) as server:
        assert server.ask("POST", "/v1/parse", b" " * 7_999_999, JSON)[0] == 413
        assert len(server.parse(text="Still there.")["sentences"]) == 1


def test_nothing_is_open_that_was_not_asked_for(parser: Parser, server: Server) -> None:
    status, headers, page = server.ask("GET", "/", headers={"origin": "https://elsewhere.org"})
    assert status == 200
    assert "default-src 'none'; script-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers
    assert b"//" not in page.replace(b"https://arbora", b"").replace(b"<!doctype html>", b"")
    assert server.ask("GET", "/../settings.py")[0] == 404
    assert server.ask("GET", "/docs")[0] == 404
    with serving(parser, origins=["https://here.org"], hosts=["localhost"]) as careful:
        assert careful.ask("GET", "/healthz")[0] == 400  # called by another name
        _, headers, _ = careful.ask("GET", "/healthz", headers={"origin": "https://here.org", "host": "localhost"})
        assert headers["access-control-allow-origin"] == "https://here.org"


def test_log_lines_have_no_text(server: Server, parser: Parser, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "arbora.service"):
        server.parse(text="A secret sentence.")
        server.ask("GET", "/process?data=secret&tokenizer=&parser=")
        server.ask("GET", "/process?data=secret&output=none")
    assert "4 words in 1 sentences" in caplog.text
    assert "secret" not in caplog.text
    with caplog.at_level(logging.INFO, "arbora.service"), serving(parser, log_text=True) as other:
        other.parse(text="A secret sentence.")
    assert "'A secret sentence.'" in caplog.text


def test_monitoring(server: Server) -> None:
    server.parse(text=TEXT)
    assert server.ask("GET", "/healthz")[::2] == (200, b"ok\n")
    assert server.ask("GET", "/readyz")[0] == 200
    lines = server.ask("GET", "/metrics")[2].decode().splitlines()
    values = {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}
    assert values["arbora_queue_words"] == 0
    assert values['arbora_requests_total{path="/v1/parse",status="200"}'] >= 1
    assert values['arbora_words_total{model="tiny"}'] >= 15
    buckets = [value for name, value in values.items() if name.startswith("arbora_batch_words_bucket")]
    assert buckets == sorted(buckets)
    assert buckets[-1] == values["arbora_batch_words_count"]
