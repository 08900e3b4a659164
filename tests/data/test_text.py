import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arbora.data.conll import ConllError, read_conll
from arbora.data.text import Token, read_text, sentence_of, tokens_of, unescape

WHITE = [chr(code) for code in range(0x3001) if chr(code).isspace()]


def test_one_sentence_per_line() -> None:
    sentences = list(read_text(io.StringIO("\ufeffA b  c\r\n\n \n\td e # f"), name="x"))
    assert [sentence.form for sentence in sentences] == [["A", "b", "c"], ["d", "e", "#", "f"]]
    assert [sentence.where() for sentence in sentences] == ["x:1", "x:4"]


@pytest.mark.parametrize("text", ["", " \n\n", "\ufeff"])
def test_no_words(text: str) -> None:
    with pytest.raises(ConllError, match="x:1: the text is empty"):
        list(read_text(io.StringIO(text), name="x"))


def test_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes("one\ncafé\n".encode("latin-1"))
    with pytest.raises(ConllError, match=r"latin\.txt:2: byte 0xe9 is not UTF-8"):
        list(read_text(path))


def test_first_sentence_comes_before_the_end_is_read() -> None:
    lines = (line for _ in iter(int, 1) for line in ("One sentence.\n", "\n"))
    sentences = read_text(lines, name="x")  # type: ignore[arg-type]
    assert [next(sentences).form[0] for _ in range(3)] == ["One"] * 3


def test_the_text_of_a_sentence_in_conllu() -> None:
    tokens = [Token("Don't", ["Do", "n't"], " "), Token("go", ["go"], ""), Token("!", ["!"], " \n\u2028")]
    sentence = sentence_of(tokens, ["# newpar"], "x", 3, before="\t")
    rest = "\t_" * 7
    assert sentence.lines == [
        "# newpar",
        "# text = Don't go!",
        f"1-2\tDon't{rest}\tSpacesBefore=\\t",
        f"1\tDo{rest}\t_",
        f"2\tn't{rest}\t_",
        f"3\tgo{rest}\tSpaceAfter=No",
        f"4\t!{rest}\tSpacesAfter=\\s\\n\\u2028",
    ]
    assert sentence.form == ["Do", "n't", "go", "!"]
    assert [sentence.lines[i].split("\t")[1] for i in sentence.word_line] == sentence.form


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "_", "#", "\\s", "日本", "1-2"]),
            st.lists(st.sampled_from(["x", "\\n", "|"]), max_size=3),
            st.text(st.sampled_from(WHITE), max_size=3),
        ),
        min_size=1,
    )
)
def test_tokens_are_read_back(drawn: list[tuple[str, list[str], str]]) -> None:
    tokens = [Token(form, words if len(words) > 1 else [form], space) for form, words, space in drawn]
    sentence = sentence_of(tokens, [], "x", 1)
    assert list(tokens_of(sentence)) == tokens
    (read,) = read_conll(io.StringIO(sentence.with_tree(range(len(sentence)), sentence.deprel), newline="\n"))
    assert list(tokens_of(read)) == tokens


def test_unknown_escapes_are_left_out() -> None:
    assert unescape(r"\s\q\t\u00a0\u00A0") == " \t\xa0\xa0"
