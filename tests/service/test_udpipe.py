"""UDPipe's interface, by requests such as its clients send."""

from __future__ import annotations

import io
import json
from email import policy
from email.mime.multipart import MIMEMultipart
from email.mime.nonmultipart import MIMENonMultipart
from urllib.parse import urlencode

from serving import Server

from arbora.data.conll import read_conll
from arbora.model.parser import Parser

TEXT = "The old dog barked. Nobody saw it."


def multipart(**fields: str) -> tuple[bytes, dict[str, str]]:
    """A body as Python's `email` makes it, which is how UDPipe's own client sends its requests."""
    message = MIMEMultipart("form-data", policy=policy.HTTP)
    for name, value in fields.items():
        part = MIMENonMultipart("text", "plain")
        part.add_header("Content-Disposition", f'form-data; name="{name}"')
        part.add_header("Content-Transfer-Encoding", "8bit")
        part.set_payload(value, charset="utf-8")
        message.attach(part)
    return message.as_bytes().split(b"\r\n\r\n", maxsplit=1)[1], {"content-type": message["Content-Type"]}


def process(server: Server, **fields: str) -> str:
    status, headers, found = server.ask("POST", "/process", *multipart(**fields))
    if status != 200:
        assert headers["content-type"].startswith("text/plain")
        return f"{status} {found.decode()}"
    answer = json.loads(found)
    assert answer.keys() == {"model", "acknowledgements", "result"}
    result: str = answer["result"]
    return result


def test_models(server: Server) -> None:
    answer = json.loads(server.ask("GET", "/models")[2])
    assert answer == {"models": {"tiny": ["tokenizer", "tagger", "parser"]}, "default_model": "tiny"}


def test_all_ways_of_sending_give_the_trees_of_predict(server: Server, parser: Parser) -> None:
    fields = {"data": TEXT, "tokenizer": "", "tagger": "", "parser": ""}
    expected = "".join(tree.text for tree in parser(TEXT))
    result = process(server, **fields)
    assert result.startswith("# generator = Arbora ")
    assert result.endswith(expected)
    form = {"content-type": "application/x-www-form-urlencoded"}
    for method, path, body in (
        ("POST", "/process", urlencode(fields).encode()),
        ("GET", f"/process?{urlencode(fields)}", None),
    ):
        _, headers, found = server.ask(method, path, body, form if body else {})
        assert headers["content-type"] == "application/json"
        assert json.loads(found)["result"] == result
    assert process(server, **fields, data2="ä", model="tiny", input="conllu", output="conllu") == result


def test_steps_act_by_presence(server: Server, parser: Parser) -> None:
    only_words = process(server, data=TEXT, tokenizer="")
    assert "1\tThe\t_\t_\t_\t_\t_\t_\t_" in only_words
    assert "# text = The old dog barked." in only_words
    tree, *_ = parser(TEXT)
    tagged = process(server, data=only_words, tagger="")
    assert f"1\tThe\t{tree.lemmas[0]}\t{tree.upos[0]}\t{tree.xpos[0]}\t{tree.feats[0]}\t_\t_\t_" in tagged
    parsed = process(server, data=only_words, parser="")
    assert f"1\tThe\t_\t_\t_\t_\t{tree.heads[0]}\t{tree.labels[0]}\t_" in parsed
    both = process(server, data=tagged, parser="", tagger="")
    assert both.count("\n") == process(server, data=TEXT, tokenizer="", tagger="", parser="").count("\n")


def test_formats(server: Server) -> None:
    assert process(server, data=TEXT, tokenizer="", output="horizontal") == "The old dog barked .\nNobody saw it .\n"
    assert process(server, data=TEXT, tokenizer="", output="vertical").startswith("The\nold\ndog\n")
    assert process(server, data=TEXT, tokenizer="", output="plaintext") == "The old dog barked.\nNobody saw it.\n"
    for data, kind in (("The dog\n\nIt barked\n", "horizontal"), ("The\ndog\n\nIt\nbarked\n", "vertical")):
        result = process(server, data=data, input=kind, parser="")
        sentences = list(read_conll(io.StringIO(result)))
        assert [sentence.form for sentence in sentences] == [["The", "dog"], ["It", "barked"]]
    assert (
        process(server, data="A dog barked. Again.\nNo.", tokenizer="presegmented", output="horizontal").count("\n")
        == 2
    )


def test_errors_are_plain_text(server: Server) -> None:
    assert process(server, tokenizer="") == "400 The parameter 'data' is required.\n"
    assert process(server, data="x", model="none", parser="").startswith("400 unknown model 'none'")
    assert process(server, data="x", output="epe", parser="").startswith("400 The output format 'epe' is unknown")
    assert process(server, data="x", input="pdf", parser="").startswith("400 The input format 'pdf' is unknown")
    assert process(server, data="no columns", parser="").startswith("400 conllu:1: ")
    status, headers, _ = server.ask("POST", "/process", b"--no", {"content-type": "multipart/form-data; boundary=x"})
    assert (status, headers["content-type"]) == (400, "text/plain; charset=utf-8")
