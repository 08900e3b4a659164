"""Pictures are read back from their XML: words, arcs and where they lie."""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from drawn_trees import trees
from hypothesis import given
from hypothesis import strategies as st

from arbora.cli.svg_drawing import Tree, draw_svg, html_sentence, html_start, svg_document, text_width
from arbora.cli.text_drawing import Token

SPACE = "{http://www.w3.org/2000/svg}"
FORMS = st.sampled_from(["a", "dogs", "internationalization", "日本語", "."])
LABELS = st.sampled_from(["det", "nsubj", "acl:relcl", "parataxis:discourse"])


def parsed(tree: Tree, width: float = 1e9) -> ElementTree.Element:
    picture = draw_svg(tree, width)
    return ElementTree.fromstring(svg_document([picture], [""], "title"))


def of_kind(root: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [element for element in root.iter() if kind in element.get("class", "").split()]


def texts(root: ElementTree.Element, kind: str) -> list[str | None]:
    return [element.text for element in of_kind(root, kind)]


def points(arc: ElementTree.Element) -> list[tuple[float, float]]:
    """Corners of an arc, without the control points' letters."""
    path = arc.find(f"{SPACE}path")
    assert path is not None
    numbers = [float(number) for number in re.findall(r"-?[0-9.]+", path.get("d", ""))]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def arcs_of(root: ElementTree.Element, kind: str = "arc") -> dict[int, tuple[int, ElementTree.Element]]:
    """Head and element by modifier."""
    found = {}
    for arc in of_kind(root, kind):
        if "data-head" in arc.attrib:
            modifier = int(arc.attrib["data-modifier"])
            assert modifier not in found
            found[modifier] = (int(arc.attrib["data-head"]), arc)
    return found


@st.composite
def drawn(draw: st.DrawFn) -> Tree:
    heads = draw(trees())
    n = len(heads)
    forms = draw(st.lists(FORMS, min_size=n, max_size=n))
    labels = draw(st.lists(LABELS, min_size=n, max_size=n))
    tags = draw(st.none() | st.just(["NOUN"] * n))
    return Tree(forms, heads, labels, tags)


@given(drawn())
def test_each_word_once_and_an_arc_to_each(tree: Tree) -> None:
    root = parsed(tree)
    assert texts(root, "word") == list(tree.forms)
    assert sorted(map(str, texts(root, "label"))) == sorted(tree.labels or [])
    assert texts(root, "tag") == list(tree.tags or [])
    assert [arcs_of(root)[m][0] for m in range(1, len(tree.forms) + 1)] == list(tree.heads)


@given(drawn())
def test_arcs_begin_at_their_heads_and_end_at_their_modifiers(tree: Tree) -> None:
    root = parsed(tree)
    x = [float(word.attrib["x"]) for word in of_kind(root, "word")]
    assert x == sorted(x)
    for modifier, (head, arc) in arcs_of(root).items():
        (start, _), *_, (end, _) = points(arc)
        tip = arc.find(f"{SPACE}polygon")
        assert tip is not None
        assert end == x[modifier - 1] == float(tip.attrib["points"].split()[0])
        if head:
            assert abs(start - x[head - 1]) == pytest.approx(5, abs=0.11)  # coordinates are rounded
            assert (start > x[head - 1]) == (end > x[head - 1])  # it leaves towards its modifier


@given(drawn())
def test_an_arc_over_others_is_higher_than_they_are(tree: Tree) -> None:
    found = {
        (min(h, m), max(h, m)): min(y for _, y in points(arc)) for m, (h, arc) in arcs_of(parsed(tree)).items() if h
    }
    for (one, height), (other, other_height) in combinations(found.items(), 2):
        if one[0] < other[1] and other[0] < one[1]:  # they share more than an end
            assert abs(height - other_height) >= 20
            if one[0] <= other[0] and other[1] <= one[1]:
                assert height < other_height
            if other[0] <= one[0] and one[1] <= other[1]:
                assert height > other_height


@given(drawn())
def test_nothing_is_written_over_something_or_beyond_the_picture(tree: Tree) -> None:
    root = parsed(tree)
    rows: dict[float, list[tuple[float, float]]] = {}
    for kind, size in (("word", 15), ("label", 11), ("tag", 11)):
        for element in of_kind(root, kind):
            x, half = float(element.attrib["x"]), text_width(element.text or "", size) / 2
            assert x - half >= 0
            assert x + half <= float(root.attrib["width"])
            rows.setdefault(float(element.attrib["y"]), []).append((x - half, x + half))
    for spans in rows.values():
        for (_, end), (start, _) in pairwise(sorted(spans)):
            assert end <= start
    for _, arc in arcs_of(root).values():
        assert all(0 <= y <= float(root.attrib["height"]) for _, y in points(arc))


@given(drawn(), st.data())
def test_what_differs_is_marked_and_drawn_on_both_sides(tree: Tree, data: st.DataObject) -> None:
    n = len(tree.forms)
    heads = data.draw(trees(n))
    assert tree.labels is not None
    labels = data.draw(st.lists(LABELS, min_size=n, max_size=n))
    for width in (1e9, 1):
        root = parsed(tree._replace(against=(heads, labels)), width)
        moved = {m for m in range(1, n + 1) if heads[m - 1] != tree.heads[m - 1]}
        renamed = {m for m in range(1, n + 1) if labels[m - 1] != tree.labels[m - 1]} - moved
        assert set(arcs_of(root, "differs")) == moved
        assert set(arcs_of(root, "relabelled")) == renamed
        second = arcs_of(root, "against")
        assert {m: h for m, (h, _) in second.items()} == {m: heads[m - 1] for m in moved | renamed}
        assert len(of_kind(root, "word")) == n
        axis = 1 if width > 1 else 0  # below the words, or to the right of them
        words = [float(word.attrib["xy"[axis]]) for word in of_kind(root, "word")]
        assert all(point[axis] > max(words) for _, arc in second.values() for point in points(arc))
        first = [arc for arc in of_kind(root, "arc") if "against" not in arc.attrib["class"].split()]
        assert len(first) == n
        assert all(point[axis] < min(words) for arc in first for point in points(arc))


@given(drawn())
def test_a_long_sentence_stands_in_a_column(tree: Tree) -> None:
    root = parsed(tree, 1)
    assert texts(root, "word") == list(tree.forms)
    words = of_kind(root, "word")
    assert len({word.attrib["x"] for word in words}) == 1
    y = [float(word.attrib["y"]) for word in words]
    assert y == sorted(set(y))
    assert texts(root, "label") == list(tree.labels or [])
    for modifier, (head, arc) in arcs_of(root).items():
        (_, start), *_, (end, tip) = points(arc)
        assert tip == pytest.approx(y[modifier - 1] - 5)
        assert end < float(words[0].attrib["x"])
        assert not head or abs(start - (y[head - 1] - 5)) == pytest.approx(5)


def test_the_width_decides() -> None:
    tree = Tree(["word"] * 12, [0, *range(1, 12)], ["dep"] * 12)
    whole = draw_svg(tree, 1e9).width
    assert draw_svg(tree, whole) == draw_svg(tree, 1e9)
    assert draw_svg(tree, whole - 1).width < whole / 2
    assert draw_svg(tree._replace(labels=None), 1e9).height < draw_svg(tree, 1e9).height


def test_from_right_to_left() -> None:
    root = parsed(Tree(["يحب", "الولد", "الكتاب"], [0, 1, 1], ["root", "nsubj", "obj"]))
    x = [float(word.attrib["x"]) for word in of_kind(root, "word")]
    assert x == sorted(x, reverse=True)
    assert {word.attrib["direction"] for word in of_kind(root, "word")} == {"rtl"}
    for modifier, (head, arc) in arcs_of(root).items():
        (start, _), *_, (end, _) = points(arc)
        assert end == x[modifier - 1]
        assert not head or end < start < x[head - 1]


def test_wide_characters_have_room() -> None:
    assert text_width("日本", 10) == 20 > text_width("ab", 10)
    assert text_width("e\u0301", 10) == text_width("e", 10)
    left, right = of_kind(parsed(Tree(["日" * 30, "本" * 30], [2, 0], ["x", "root"])), "word")
    assert float(right.attrib["x"]) - float(left.attrib["x"]) > 30 * 15


@pytest.mark.parametrize("width", [1e9, 1])
def test_tokens_are_bracketed(width: float) -> None:
    tokens = [Token(2, 3, "didn't"), Token(4, 4, "a very long token over a single word")]
    root = parsed(Tree(["Ben", "did", "n't", "see"], [4, 4, 4, 0], ["x"] * 4, tokens=tokens), width)
    assert texts(root, "token") == [token.form for token in tokens]
    assert len(of_kind(root, "bracket")) == 2
    assert len(of_kind(root, "word")) == 4


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_any_text_survives(form: str, label: str) -> None:
    def legal(text: str) -> str:
        return re.sub("[^\t\u0020-\u007e\u00a0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)

    root = parsed(Tree([form, "x"], [0, 1], [label, "y"], [form, "z"], [Token(1, 2, label)]))
    assert texts(root, "word")[0] == texts(root, "tag")[0] == legal(form)
    assert legal(label) in texts(root, "label")
    assert texts(root, "token") == [legal(label)]


def test_several_pictures_stand_one_under_the_other() -> None:
    pictures = [draw_svg(Tree(["a", "b"], [0, 1], ["root", "x"])), draw_svg(Tree(["c"] * 9, [0, *[1] * 8], ["y"] * 9))]
    text = svg_document(pictures, ["1 · <one>", "2"], "a & b", ["system", "gold"])
    root = ElementTree.fromstring(text)
    assert texts(root, "heading") == ["system", "gold", "1 · <one>", "2"]
    tops = [float(re.findall(r"[0-9.]+", group.attrib["transform"])[1]) for group in of_kind(root, "sentence")]
    assert tops[1] >= tops[0] + pictures[0].height
    assert float(root.attrib["height"]) == pytest.approx(tops[1] + pictures[1].height, abs=0.1)
    assert float(root.attrib["width"]) >= max(picture.width for picture in pictures)
    assert root.find(f"{SPACE}title").text == "a & b"  # type: ignore[union-attr]
    assert svg_document(pictures, ["1 · <one>", "2"], "a & b", ["system", "gold"]) == text


def test_pictures_need_nothing_else_and_know_light_and_dark() -> None:
    picture = draw_svg(Tree(["<script>alert(1)</script>"], [0], ["root"]))
    document = svg_document([picture], [""], "x")
    page = html_start("<x>") + html_sentence(picture, "1 <i>", "<b>")
    for text in (document, page):
        assert "@media (prefers-color-scheme: dark)" in text
        assert not re.search(r"<script|<i>|<b>|href|url\(|@import|src=", text)
    assert 'class="background"' in document
    assert "<title>&lt;x&gt;</title>" in page


@pytest.mark.parametrize(("forms", "heads"), [([], []), (["a"], [])])
def test_what_cannot_be_drawn(forms: list[str], heads: list[int]) -> None:
    with pytest.raises(ValueError, match="must be equal"):
        draw_svg(Tree(forms, heads))


def test_every_colour_of_the_style_has_a_dark_one() -> None:
    """A class with a colour for light pages alone would be unreadable on dark ones."""
    style = svg_document([], [], "x").partition("<style>")[2].partition("</style>")[0]
    light, dark = style.split("@media (prefers-color-scheme: dark)")

    def coloured(rules: str) -> set[tuple[str, Any]]:
        found = set()
        for selectors, body in re.findall(r"([^{}]+)\{([^{}]*)\}", rules):
            for name in re.findall(r"(fill|stroke): #", body):
                found |= {(selector.strip(), name) for selector in selectors.split(",")}
        return found

    assert coloured(light) == coloured(dark)


def test_a_word_without_a_head_has_no_arc() -> None:
    drawn = draw_svg(Tree(["The", "dog", "barked"], [2, -1, 0])).elements
    assert re.findall(r'data-head="(\d)" data-modifier="(\d)"', drawn) == [("2", "1"), ("0", "3")]
