"""Drawings are read back: each gives the tree that was drawn, whatever the tree."""

import re
import unicodedata

import pytest
from drawn_trees import trees
from hypothesis import given
from hypothesis import strategies as st

from arbora.cli.text_drawing import Token, draw, reads_leftwards

WIDE = 10_000


def columns(text: str) -> int:
    return sum(1 + (unicodedata.east_asian_width(character) in "WF") for character in text)


def read_above(drawing: str, forms: list[str]) -> list[int]:
    """Follow each arrow up, along the arc, and down to its head."""
    *rows, line = drawing.split("\n")
    width = max(map(len, [*rows, line])) + 2
    rows = [row.ljust(width) for row in rows]
    owner = {}  # column to word: the columns of the arrows and their neighbours
    arrows = [column for column, character in enumerate(rows[-1]) if character == "▼"]
    assert len(arrows) == len(forms)
    for word, column in enumerate(arrows, 1):
        owner[column] = word
        if rows[-1][column - 1] == "│":
            owner.setdefault(column - 1, word)
        if rows[-1][column + 1] == "│":
            owner.setdefault(column + 1, word)
    heads = []
    for column in arrows:
        level = len(rows) - 2
        while rows[level][column] == "│":
            level -= 1
        corner = rows[level][column]
        if corner not in "╭╮":
            assert level == 0
            heads.append(0)
            continue
        step, ends = (1, "╮┤") if corner == "╭" else (-1, "╭├")
        column += step
        while rows[level][column] not in ends:
            assert rows[level][column] in "─│" or rows[level][column].isalpha()
            column += step
        assert all(row[column] in "│├┤" for row in rows[level + 1 :])
        heads.append(owner[column])
    return heads


def read_beside(drawing: str) -> list[int]:
    """Follow each row left to its branch, and the branch's line to the row where it begins."""
    rows = [row.split("►")[0] for row in drawing.split("\n")]
    heads = []
    for row in range(len(rows)):
        column = len(rows[row]) - 1
        while column and rows[row][column] not in "╭├╰":
            assert rows[row][column] in "─│┬┴┼"
            column -= 1
        lines = [row]
        if rows[row][column] in "╭├":
            lines.append(row + 1)
            while rows[lines[-1]][column] not in "╰┴":
                lines.append(lines[-1] + 1)
        if rows[row][column] in "╰├":
            lines.append(row - 1)
            while rows[lines[-1]][column] not in "╭┬":
                lines.append(lines[-1] - 1)
        heads.append(next((line + 1 for line in lines if rows[line][column] in "┬┴┼"), 0))
    return heads


@given(trees(), st.data())
def test_arcs_above_are_the_tree(heads: list[int], data: st.DataObject) -> None:
    n = len(heads)
    forms = data.draw(st.lists(st.sampled_from(["a", "bb", "ccc", "dddddd", "eeeeeeeee"]), min_size=n, max_size=n))
    labels = data.draw(st.lists(st.sampled_from(["x", "obj", "nsubj", "parataxis"]), min_size=n, max_size=n))
    drawing = draw(forms, heads, labels, WIDE)
    assert drawing.split("\n")[-1].split() == forms
    for label in set(labels):
        assert drawing.count(label) >= labels.count(label)
    assert read_above(drawing, forms) == heads


@given(trees())
def test_lines_beside_are_the_tree(heads: list[int]) -> None:
    forms = [f"word{i}" for i in range(len(heads))]
    labels = [f"label{i}" for i in range(len(heads))]
    drawing = draw(forms, heads, labels, 5)
    for row, form, label in zip(drawing.split("\n"), forms, labels, strict=True):
        assert row.split("► ")[1].split() == [form, label]
    assert read_beside(drawing) == heads


@given(trees(), st.integers(1, 200), st.data())
def test_colour_tags_and_tokens_leave_the_tree_alone(heads: list[int], width: int, data: st.DataObject) -> None:
    n = len(heads)
    forms, labels = [f"word{i}" for i in range(n)], ["dep"] * n
    first = data.draw(st.integers(1, n))
    tokens = [Token(first, data.draw(st.integers(first, n)), "token")]
    marked = data.draw(st.sets(st.integers(1, n)))
    more = {"tags": ["TAG"] * n, "tokens": tokens}
    plain = draw(forms, heads, labels, width, **more)
    coloured = draw(forms, heads, labels, width, marked=marked, style="33", **more)
    assert re.sub(r"\x1b\[[0-9]+m", "", coloured) == plain
    assert len(re.findall(r"\x1b\[33m", coloured)) == len(re.findall(r"\x1b\[0m", coloured)) >= len(marked)
    if "▼" in plain:
        *rows, line, tags, brackets = plain.split("\n")
        assert (line.split(), tags.split()) == (forms, ["TAG"] * n)
        assert brackets.strip(" ╰─╯") == "token"
        heads_read = read_above("\n".join([*rows, line]), forms)
    else:
        heads_read = read_beside(plain)
        assert plain.count("token") == 1
        assert plain.split("\n")[first - 1].endswith(" token")
    assert heads_read == heads


@given(trees(), st.data())
def test_any_text_at_any_width(heads: list[int], data: st.DataObject) -> None:
    n = len(heads)
    texts = st.lists(st.text(max_size=6), min_size=n, max_size=n)
    width = data.draw(st.integers(1, 120))
    drawing = draw(data.draw(texts), heads, data.draw(texts), width)
    if "▼" not in drawing:
        assert drawing.count("\n") == n - 1


@given(trees(), st.integers(30, 200), st.data())
def test_fits_the_width(heads: list[int], width: int, data: st.DataObject) -> None:
    n = len(heads)
    forms = data.draw(st.lists(st.sampled_from(["dog", "日本", "ｆ", "a"]), min_size=n, max_size=n))
    drawing = draw(forms, heads, ["dep"] * n, width)
    assert max(map(columns, drawing.split("\n"))) <= width


SENTENCE = (["Dogs", "chase", "the", "cat", "."], [2, 0, 4, 2, 2], ["nsubj", "root", "det", "obj", "punct"])


def test_a_sentence_above() -> None:
    assert draw(*SENTENCE, 80).split("\n") == [
        "         root",
        "          │╭────punct────╮",
        "          │├───obj────╮  │",
        " ╭─nsubj─╮││   ╭─det─╮│  │",
        " ▼       │▼│   ▼     │▼  ▼",
        "Dogs    chase the    cat .",
    ]


def test_a_sentence_beside() -> None:
    assert draw(*SENTENCE, 20).split("\n") == [
        "  ╭───► Dogs   nsubj",
        "──┼───► chase  root",
        "  │ ╭─► the    det",
        "  ├─┴─► cat    obj",
        "  ╰───► .      punct",
    ]


def test_wide_characters_take_two_columns() -> None:
    arrows, words = draw(["日本語", "本"], [2, 0], ["x", "root"], 80).split("\n")[-2:]
    assert words.startswith("日本語")
    assert arrows.index("▼") == 2  # in the middle of six columns


def test_tags_and_a_token_above() -> None:
    tags = ["NOUN", "VERB", "DET", "NOUN", "PUNCT"]
    assert draw(*SENTENCE, 80, tags=tags, tokens=[Token(3, 4, "thecat")]).split("\n") == [
        "         root",
        "          │╭─────punct──────╮",
        "          │├───obj────╮     │",
        " ╭─nsubj─╮││   ╭─det─╮│     │",
        " ▼       │▼│   ▼     │▼     ▼",
        "Dogs    chase the    cat    .",
        "NOUN    VERB  DET    NOUN PUNCT",
        "              ╰─thecat──╯",
    ]


def test_an_arc_has_its_colour_from_end_to_end() -> None:
    lines = draw(*SENTENCE, 80, marked=[1, 2], style="33").split("\n")
    assert lines[0] == "         \x1b[33mroot\x1b[0m"
    assert lines[3] == " \x1b[33m╭─nsubj─╮│\x1b[0m│   ╭─det─╮│  │"
    assert lines[4].startswith(" \x1b[33m▼\x1b[0m       │\x1b[33m▼\x1b[0m│")
    assert draw(*SENTENCE, 80, marked=[1]) == draw(*SENTENCE, 80)


def test_words_from_right_to_left_stand_one_a_line() -> None:
    assert draw(["שלום", "עולם"], [0, 1], ["root", "x"], 80).split("\n") == ["──┬─► שלום  root", "  ╰─► עולם  x"]
    assert reads_leftwards(["كتاب", "PDF"])
    assert not reads_leftwards(["The", "word", "كتاب"])
    assert not reads_leftwards(["1", "2"])


def test_no_words() -> None:
    assert draw([], [], []) == ""


@pytest.mark.parametrize(
    ("heads", "message"),
    [([0], "must be equal"), ([2, 1], "cycle"), ([0, 2], "cycle"), ([0, 3], r"0\.\.2"), ([0, -1], r"0\.\.2")],
)
def test_no_tree(heads: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw(["a", "b"], heads, ["x", "y"])
