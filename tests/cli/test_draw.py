"""`arbora draw`, as it is typed."""

from __future__ import annotations

import io
import os
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from arbora.cli import main
from arbora.cli.draw import Chosen, draw, tokens
from arbora.cli.text_drawing import Token
from arbora.data.conll import read_conll

FIXTURE = Path(__file__).parents[1] / "fixtures" / "treebank.conllu"
SENTENCES = list(read_conll(FIXTURE))
NAMES = [re.findall("# sent_id = (.*)", "\n".join(sentence.lines))[0] for sentence in SENTENCES]


def run(*arguments: str | Path) -> None:
    main(["draw", *map(str, arguments)])


def failure(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[object, str]:
    with pytest.raises(SystemExit) as stopped:
        run(*arguments)
    return stopped.value.code, capsys.readouterr().err


def words(svg: ElementTree.Element) -> list[str | None]:
    return [element.text for element in svg.iter() if element.get("class") == "word"]


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """The fixture with one head and one label changed, both in the third sentence."""
    text = FIXTURE.read_text(encoding="utf-8")
    text = text.replace("\t4\taux\t_\t_\n3\t", "\t1\taux\t_\t_\n3\t").replace("\t4\tadvmod\t_", "\t4\tneg\t_")
    path = tmp_path / "changed.conllu"
    path.write_text(text, encoding="utf-8")
    assert [one.head for one in read_conll(path)] != [one.head for one in SENTENCES]
    return path


def test_all_sentences_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    run(FIXTURE, "--width", "100")
    blocks = capsys.readouterr().out.removesuffix("\n\n").split("\n\n")
    assert len(blocks) == len(SENTENCES)
    for i, (block, sentence, name) in enumerate(zip(blocks, SENTENCES, NAMES, strict=True), 1):
        title, drawing = block.split("\n", 1)
        assert title.startswith(f"# {i} · {name} · ")
        assert drawing == draw(sentence.form, sentence.head, sentence.deprel, 100, tokens=tokens(sentence))


def test_standard_input_is_read(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    run(FIXTURE, "--tags")
    expected = capsys.readouterr().out
    assert "PROPN" in expected
    for given in ([], ["-"]):
        monkeypatch.setattr(sys, "stdin", io.StringIO(FIXTURE.read_text(encoding="utf-8")))
        run(*given, "--tags")
        assert capsys.readouterr().out == expected
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    assert "give a file, or pipe one in" in failure(capsys)[1]


@pytest.mark.parametrize(
    ("written", "numbers"),
    [("2", [2]), ("1,3-4", [1, 3, 4]), (" 4-5, 2 ", [2, 4, 5]), ("4-", None), (f"{NAMES[2]},1", [1, 3])],
)
def test_some_sentences(capsys: pytest.CaptureFixture[str], written: str, numbers: list[int] | None) -> None:
    run(FIXTURE, "--sentences", written)
    found = [int(number) for number in re.findall(r"^# (\d+) ·", capsys.readouterr().out, re.MULTILINE)]
    assert found == (numbers or list(range(4, len(SENTENCES) + 1)))


def test_reading_ends_with_the_last_sentence_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = FIXTURE.read_text(encoding="utf-8").split("\n\n")
    path = tmp_path / "partly.conllu"
    path.write_text("\n\n".join([good[0], "# sent_id = bad\n1\tx", *good[1:]]), encoding="utf-8")
    run(path, "--sentences", "1,3")
    assert capsys.readouterr().out.count("# ") == 2
    code, message = failure(capsys, path)
    assert (code, message.count("\n")) == (1, 1)
    bad_line = good[0].count("\n") + 4
    assert f"{path}:{bad_line}: 2 columns where 10 are expected" in message
    assert "2 columns" in failure(capsys, path, "--sentences", "bad")[1]


def test_a_sentence_that_is_called_by_a_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "numbers.conllu"
    path.write_text(FIXTURE.read_text(encoding="utf-8").replace(f"= {NAMES[3]}\n", "= 1\n"), encoding="utf-8")
    run(path, "--sentences", "id:1")
    assert capsys.readouterr().out.startswith("# 4 · 1 · ")
    assert Chosen.of("id:3,4") == Chosen([(4, 4)], ["3"])


def test_svg_and_html_by_the_name_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("trees.svg", "trees.html", "trees.txt", "trees.HTM"):
        run(FIXTURE, "-o", tmp_path / name)
    assert capsys.readouterr().out == ""
    every = [form for sentence in SENTENCES for form in sentence.form]
    svg = ElementTree.parse(tmp_path / "trees.svg").getroot()
    assert words(svg) == every
    assert sum(element.get("class") == "arc" for element in svg.iter()) == len(every)
    page = (tmp_path / "trees.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert page.count("<svg") == page.count("</svg>") == len(SENTENCES)
    assert (tmp_path / "trees.HTM").read_text(encoding="utf-8") == page
    run(FIXTURE)
    assert (tmp_path / "trees.txt").read_text(encoding="utf-8") == capsys.readouterr().out
    run(FIXTURE, "--format", "svg")
    assert capsys.readouterr().out == (tmp_path / "trees.svg").read_text(encoding="utf-8")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trees.HTM", "trees.html", "trees.svg", "trees.txt"]


def test_a_folder_has_a_file_for_each_sentence(tmp_path: Path) -> None:
    run(FIXTURE, "-o", f"{tmp_path / 'trees'}/", "--sentences", "2-3")
    assert sorted(path.name for path in (tmp_path / "trees").iterdir()) == ["0002.svg", "0003.svg"]
    svg = ElementTree.parse(tmp_path / "trees" / "0003.svg").getroot()
    assert words(svg) == SENTENCES[2].form
    run(FIXTURE, "-o", tmp_path / "trees", "--sentences", "1", "--format", "text")
    assert (tmp_path / "trees" / "0001.txt").is_file()


def test_labels_tags_and_tokens(tmp_path: Path) -> None:
    assert tokens(SENTENCES[2]) == [Token(2, 3, "didn't")]
    run(FIXTURE, "--sentences", "3", "--tags", "--no-labels", "-o", tmp_path / "tree.svg")
    found: dict[str, list[str | None]] = {}
    for element in ElementTree.parse(tmp_path / "tree.svg").getroot().iter():
        found.setdefault(element.get("class", ""), []).append(element.text)
    assert found["tag"] == SENTENCES[2].upos
    assert found["token"] == ["didn't"]
    assert "label" not in found


def test_empty_nodes_are_not_drawn(tmp_path: Path) -> None:
    run(FIXTURE, "--sentences", "empty-node", "-o", tmp_path / "tree.svg")
    assert words(ElementTree.parse(tmp_path / "tree.svg").getroot()) == SENTENCES[NAMES.index("empty-node")].form


def test_what_differs_between_files(changed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(changed, "--against", FIXTURE, "--differing", "-o", tmp_path / "both.svg")
    svg = ElementTree.parse(tmp_path / "both.svg").getroot()
    assert words(svg) == SENTENCES[2].form
    arcs = [(e.get("class"), e.get("data-head"), e.get("data-modifier")) for e in svg.iter() if e.get("data-head")]
    assert [arc for arc in arcs if arc[0] != "arc"] == [
        ("arc differs", "1", "2"),
        ("arc relabelled", "4", "3"),
        ("arc against", "4", "3"),
        ("arc against", "4", "2"),
    ]
    headings = [element.text for element in svg.iter() if element.get("class") == "heading"]
    assert headings == ["changed.conllu", "treebank.conllu"]

    run(changed, "--against", FIXTURE, "--width", "100")
    blocks = capsys.readouterr().out.removesuffix("\n\n").split("\n\n")
    assert ["# the same tree in both" in block for block in blocks] == [i != 2 for i in range(len(SENTENCES))]
    first, second = blocks[2].split("\n# treebank.conllu\n")
    assert (first.count("aux*"), first.count("neg*"), second.count("aux*"), second.count("advmod*")) == (1, 1, 1, 1)
    assert first.count("*") == second.count("*") == 2
    assert "\x1b" not in first


def test_colour_is_for_terminals(
    changed: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = [changed, "--against", FIXTURE, "--differing"]
    run(*options, "--color", "always")
    coloured = capsys.readouterr().out
    assert "\x1b[33m" in coloured.split("# treebank.conllu")[0]
    assert "\x1b[36m" in coloured.split("# treebank.conllu")[1]
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True)
    run(*options)
    assert capsys.readouterr().out == coloured
    monkeypatch.setenv("NO_COLOR", "1")
    run(*options)
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sentences", "400"], f"there is no sentence 400 among {len(SENTENCES)}"),
        (["--sentences", "2-400"], "there is no sentence 400"),
        (["--sentences", "nobody"], "there is no sentence nobody"),
        (["--sentences", "0"], "--sentences 0: give numbers from 1"),
        (["--sentences", "5-3"], "--sentences 5-3: give numbers"),
        (["--sentences", ","], "--sentences is empty"),
        (["--width", "0"], "--width must be positive"),
        (["--differing"], "--differing needs a second file"),
        (["-o", "tree.png"], "use a name that ends in .svg, .html or .txt"),
        (["--against", "absent.conllu"], "absent.conllu: No such file"),
    ],
)
def test_mistakes_end_in_a_line(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    code, printed = failure(capsys, FIXTURE, *arguments)
    assert code == 1
    assert message in printed
    assert printed.count("\n") == 1


def test_files_that_cannot_be_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "absent.conllu: No such file" in failure(capsys, tmp_path / "absent.conllu")[1]
    (tmp_path / "empty.conllu").write_text("")
    assert "the file is empty" in failure(capsys, tmp_path / "empty.conllu")[1]
    row = "{0}\tw\t_\t_\t_\t_\t{1}\tx\t_\t_\n"
    (tmp_path / "cycle.conllu").write_text(row.format(1, 0) + row.format(2, 3) + row.format(3, 2))
    assert "cycle.conllu:2: words 2, 3 form a cycle" in failure(capsys, tmp_path / "cycle.conllu")[1]
    assert failure(capsys, FIXTURE, "--fly")[0] == 2
    assert "there is no folder" in failure(capsys, FIXTURE, "-o", tmp_path / "no" / "tree.svg")[1]
    assert "there is no folder" in failure(capsys, FIXTURE, "-o", f"{tmp_path / 'no' / 'trees'}/")[1]


def test_nothing_is_written_where_drawing_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tree.svg").write_text("mine")
    assert failure(capsys, FIXTURE, "--sentences", "1,400", "-o", tmp_path / "tree.svg")[0] == 1
    assert (tmp_path / "tree.svg").read_text() == "mine"
    assert os.listdir(tmp_path) == ["tree.svg"]


def test_two_files_of_other_words(changed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.conllu"
    other.write_text(changed.read_text(encoding="utf-8").replace("\tferry\t", "\tboat\t", 1), encoding="utf-8")
    message = failure(capsys, FIXTURE, "--against", other)[1]
    assert "word 6 is 'ferry' and 'boat'; give files of the same words" in message
    short = tmp_path / "short.conllu"
    short.write_text("\n\n".join(FIXTURE.read_text(encoding="utf-8").split("\n\n")[:2]) + "\n\n", encoding="utf-8")
    assert f"{FIXTURE} has more sentences than {short}, which has 2" in failure(capsys, FIXTURE, "--against", short)[1]
    assert f"{FIXTURE} has more sentences than {short}, which has 2" in failure(capsys, short, "--against", FIXTURE)[1]


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "draw the trees of a file" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["draw", "--help"])
    printed = capsys.readouterr().out
    for text in ("--against", "--sentences 3,10-12", "-o trees/", "--no-labels", "--differing"):
        assert text in printed


def test_no_escape_sequence_reaches_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "in.conllu"
    word = "\x1b[31mred"
    path.write_text(f"# text = {word}\n# sent_id = \x1b]0;title\x07\n1\t{word}\t_\t_\t_\t_\t0\t\x1b[2Jroot\t_\t_\n\n")
    main(["draw", str(path), "--color", "never"])
    printed = capsys.readouterr().out
    assert "red" in printed
    assert "\x1b" not in printed
    assert "\x07" not in printed
