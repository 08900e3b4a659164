import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arbora.data.conll import ConllError, Sentence, read_conll
from arbora.data.text import read_raw_text, read_text

RAW = """Mr. Hall   didn’t see the well-known
ferry (the blue one). "Where is it?" he asked.

It left at 5:30 p.m.
"""


def written(sentences: Iterator[Sentence]) -> str:
    return "".join(sentence.with_tree(sentence.head, sentence.deprel) for sentence in sentences).replace(
        "\t-1\t", "\t_\t"
    )


def joined(sentence: Sentence) -> str:
    """Put the text of a sentence together from its words, with a space at its end where there was one."""
    text = ""
    for form, i in zip(sentence.form, sentence.word_line, strict=True):
        text += form + ("" if sentence.lines[i].endswith("\tSpaceAfter=No") else " ")
    return text


def test_one_sentence_a_line() -> None:
    sentences = list(read_text(io.StringIO("\ufeffA b  c\r\n\n \n\td e # f"), name="x"))
    assert [sentence.form for sentence in sentences] == [["A", "b", "c"], ["d", "e", "#", "f"]]
    assert [sentence.where() for sentence in sentences] == ["x:1", "x:4"]


@pytest.mark.parametrize("read", [read_text, read_raw_text])
@pytest.mark.parametrize("text", ["", " \n\n", "\ufeff"])
def test_no_words(read, text: str) -> None:
    with pytest.raises(ConllError, match="x:1: the text is empty"):
        list(read(io.StringIO(text), name="x"))


@pytest.mark.parametrize("read", [read_text, read_raw_text])
def test_not_utf8(read, tmp_path: Path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes("one\ncafé\n".encode("latin-1"))
    with pytest.raises(ConllError, match=r"latin\.txt:2: byte 0xe9 is not UTF-8"):
        list(read(path))


def test_sentences_and_words_of_raw_text() -> None:
    pytest.importorskip("syntok")
    sentences = list(read_raw_text(io.StringIO(RAW), name="x"))
    assert sentences[0].form[:9] == ["Mr", ".", "Hall", "did", "n’t", "see", "the", "well", "-"]
    assert [sentence.lines[:2] for sentence in sentences] == [
        ["# newpar", "# text = Mr. Hall didn’t see the well-known ferry (the blue one)."],
        ['# text = "Where is it?" he asked.', '1\t"' + "\t_" * 7 + "\tSpaceAfter=No"],
        ["# newpar", "# text = It left at 5:30 p.m."],
    ]
    assert [sentence.where() for sentence in sentences] == ["x:1", "x:2", "x:4"]


def test_raw_text_makes_valid_conllu() -> None:
    pytest.importorskip("syntok")
    text = written(read_raw_text(io.StringIO(RAW)))
    sentences = list(read_conll(io.StringIO(text), trees=False))
    assert written(iter(sentences)) == text
    assert [sentence.form for sentence in sentences] == [sentence.form for sentence in read_raw_text(io.StringIO(RAW))]


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\u200b")) | st.sampled_from(["n't. A", "x-y_Z"]))
)
def test_raw_text_is_given_back(pieces: list[str]) -> None:
    pytest.importorskip("syntok")
    text = "".join(pieces)
    try:
        sentences = list(read_raw_text(io.StringIO(text, newline="\n"), name="x"))
    except ConllError:
        assert not text.removeprefix("\ufeff").strip()
        return
    assert "".join(map(joined, sentences)).split() == text.removeprefix("\ufeff").split()
    for sentence in sentences:
        assert f"# text = {joined(sentence).rstrip()}" in sentence.lines


@pytest.mark.parametrize("longest", [1, 40, 100])
def test_a_long_paragraph_is_taken_in_pieces(longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("syntok")
    text = "A dog\nbarked at the\ngate. It\nrained all night. The\nclock stood still.\n\nNobody slept. Or\ndid they?\n"
    whole = [(s.form, s.lines, s.where()) for s in read_raw_text(io.StringIO(text), name="x")]
    assert len(whole) == 5
    monkeypatch.setattr("arbora.data.text.LONGEST_PARAGRAPH", longest)
    pieces = [(s.form, s.lines, s.where()) for s in read_raw_text(io.StringIO(text), name="x")]
    if longest > 20:
        assert pieces == whole
    assert [word for form, *_ in pieces for word in form] == [word for form, *_ in whole for word in form]
    assert sum("# newpar" in lines for _, lines, _ in pieces) == 2


@pytest.mark.parametrize("read", [read_text, read_raw_text])
def test_first_sentence_comes_before_the_end_is_read(read) -> None:
    pytest.importorskip("syntok")
    lines = (line for _ in iter(int, 1) for line in ("One sentence.\n", "\n"))
    sentences = read(lines, name="x")
    assert [next(sentences).form[0] for _ in range(3)] == ["One"] * 3
