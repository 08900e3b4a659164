"""Dependency trees as SVG, and as a page of HTML that holds them.

Two layouts, as for text: arcs above a line of words, where they fit the width, and otherwise arcs at the left of a
column of words. Both are one geometry: an arc goes `out` from its head, `along` the words, and back to its modifier;
only the place in the picture differs. Of a second tree, only the arcs that the first one does not have are drawn, on
the other side of the words. A line of words that are written from right to left runs from right to left.

Browsers are not asked how wide a text is, so that the same tree gives the same bytes everywhere: widths are estimated,
for the fonts that browsers have, and what is written over an arc or a word is centred there.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from itertools import pairwise
from string import Template
from typing import NamedTuple

from arbora.cli.text_drawing import Token, reads_leftwards

WIDTH = 1200
"""Pixels that a line of words may take, unless told."""

_WORD, _TAG, _LABEL = 15, 11, 11  # sizes of letters
_GAP = 18  # between words
_MARGIN = 14
_CORNER = 6  # radius
_SIDE = 5  # from a word's middle to where its arcs to modifiers begin
_ROW = 23  # between words that stand one under the other

_RESOURCES = files("arbora.cli")
STYLE = _RESOURCES.joinpath("drawing.css").read_text(encoding="utf-8")


class Tree(NamedTuple):
    """A sentence to draw."""

    forms: Sequence[str]  # the n words
    heads: Sequence[int]  # the head of each, 0 for the root, -1 for none, without an entry for the root itself
    labels: Sequence[str] | None = None  # of the words, None to draw none
    tags: Sequence[str] | None = None  # of the words, None to draw none
    tokens: Sequence[Token] = ()  # that stand for several words
    against: tuple[Sequence[int], Sequence[str]] | None = None  # heads and labels of a second tree

    def mark(self, word: int) -> str:
        """Return the style class for the arc to a word, from 1: how it differs from the second tree; empty if equal."""
        if self.against is None:
            return ""
        heads, labels = self.against
        if heads[word - 1] != self.heads[word - 1]:
            return "differs"
        return "relabelled" if self.labels is not None and labels[word - 1] != self.labels[word - 1] else ""


class Picture(NamedTuple):
    """Elements of SVG, and the pixels that they take."""

    elements: str
    width: float
    height: float


class Arc(NamedTuple):
    """An arc of a picture: the modifier is a word from 1, the level its height over the words, from 1."""

    head: int
    modifier: int
    label: str
    level: int
    mark: str

    @property
    def left(self) -> int:
        """The first of its two words."""
        return min(self.head, self.modifier)

    @property
    def right(self) -> int:
        """The last of its two words."""
        return max(self.head, self.modifier)


def draw_svg(tree: Tree, width: float = WIDTH) -> Picture:
    """Draw a tree: arcs over a line of words if that fits the width, and otherwise next to a column of words.

    Raises:
        ValueError: there are no words, or not as many heads as words.
    """
    if not tree.forms or len(tree.forms) != len(tree.heads):
        raise ValueError(
            f"{len(tree.forms)} forms and {len(tree.heads)} heads; the numbers must be equal, and at least 1"
        )
    marks = [tree.mark(word) for word in range(1, len(tree.forms) + 1)]
    above = _arcs(tree.heads, tree.labels, marks, (word for word, head in enumerate(tree.heads, 1) if head >= 0))
    below: list[Arc] = []
    if tree.against is not None:
        heads, labels = tree.against
        differing = [word for word, mark in enumerate(marks, 1) if mark]
        below = _arcs(heads, None if tree.labels is None else labels, ["against"] * len(heads), differing)
    centres, whole = _spread(tree, [above, below])
    if whole <= width:
        return _line(tree, above, below, centres, whole)
    return _column(tree, above, below)


def _arcs(heads: Sequence[int], labels: Sequence[str] | None, marks: Sequence[str], words: Iterable[int]) -> list[Arc]:
    """Arcs to some words, each on the lowest level above the shorter ones that it overlaps; those of roots on top."""
    made: list[Arc] = []
    roots: list[Arc] = []
    for word in sorted(words, key=lambda word: (abs(heads[word - 1] - word), word)):
        arc = Arc(heads[word - 1], word, "" if labels is None else labels[word - 1], 1, marks[word - 1])
        if arc.head == 0:
            roots.append(arc)
            continue
        # Arcs that meet at a word without lying over each other may share a level.
        lower = [other.level for other in made if other.left < arc.right and arc.left < other.right]
        made.append(arc._replace(level=1 + max(lower, default=0)))
    top = 1 + max((arc.level for arc in made), default=0)
    return made + [arc._replace(level=top) for arc in roots]


def _spread(tree: Tree, sides: Sequence[Sequence[Arc]]) -> tuple[list[float], float]:
    """The middles of words in a line, with room for what stands over and under them, and the width of the whole."""
    wides = [
        max(text_width(form, _WORD), text_width(tag, _TAG), 2 * _SIDE + 2)
        for form, tag in zip(tree.forms, tree.tags or [""] * len(tree.forms), strict=True)
    ]
    centres: list[float] = []
    end = float(_MARGIN)
    for wide in wides:
        centres.append(end + wide / 2)
        end += wide + _GAP
    needs = [(token.first, token.last, _token_need(token, wides)) for token in tree.tokens if token.first < token.last]
    for arcs in sides:
        needs += [(arc.left, arc.right, text_width(arc.label, _LABEL) + 22) for arc in arcs if arc.head]
        roots = sorted((arc.modifier, text_width(arc.label, _LABEL)) for arc in arcs if not arc.head)
        needs += [(one, two, (wide + more) / 2 + 8) for (one, wide), (two, more) in pairwise(roots)]
        if roots:  # the first and the last may reach beyond the words
            before = roots[0][1] / 2 + _MARGIN - centres[roots[0][0] - 1]
            centres = [centre + max(0, before) for centre in centres]
            end += max(0, before)
    for left, right, need in sorted(needs, key=lambda need: (need[1], need)):
        more = need - (centres[right - 1] - centres[left - 1])
        if more > 0:
            centres[right - 1 :] = [centre + more for centre in centres[right - 1 :]]
            end += more
    ends = [end - _GAP + _MARGIN]
    ends += [
        centres[arc.modifier - 1] + text_width(arc.label, _LABEL) / 2 + _MARGIN
        for arcs in sides
        for arc in arcs
        if not arc.head
    ]
    return centres, max(ends)


def _token_need(token: Token, wides: Sequence[float]) -> float:
    """Return the distance of the first and last word of a token that it needs to fit under them."""
    return text_width(token.form, _TAG) + 8 - (wides[token.first - 1] + wides[token.last - 1]) / 2


Place = Callable[[float, float], tuple[float, float]]
"""From along the words and out from them to x and y."""


def _line(tree: Tree, above: Sequence[Arc], below: Sequence[Arc], centres: Sequence[float], width: float) -> Picture:
    """Words from left to right, or from right to left, with arcs above, and those of a second tree below."""
    leftwards = reads_leftwards(tree.forms)
    if leftwards:
        centres = [width - centre for centre in centres]
    step = 22 if tree.labels is not None else 15
    base = 8 + _height(above, step)
    elements = _draw_arcs(above, centres, lambda along, out: (along, base - out), step, -4)
    y = base + 18.0
    direction = ' direction="rtl"' if leftwards else ""
    for centre, form in zip(centres, tree.forms, strict=True):
        elements.append(_text("word", centre, y, form, f'text-anchor="middle"{direction}'))
    if tree.tags is not None:
        y += 16
        elements += [_text("tag", x, y, tag, 'text-anchor="middle"') for x, tag in zip(centres, tree.tags, strict=True)]
    if tree.tokens:
        y += 10
        for token in tree.tokens:
            covered = range(token.first - 1, token.last)
            halves = [text_width(tree.forms[i], _WORD) / 2 for i in covered]
            left = min(centres[i] - half for i, half in zip(covered, halves, strict=True))
            right = max(centres[i] + half for i, half in zip(covered, halves, strict=True))
            elements.append(f'<path class="bracket" d="M{_n(left)} {_n(y - 4)} V{_n(y)} H{_n(right)} V{_n(y - 4)}"/>')
            elements.append(_text("token", (left + right) / 2, y + 14, token.form, f'text-anchor="middle"{direction}'))
        y += 16
    y += 8
    if below:
        under = y
        elements += _draw_arcs(below, centres, lambda along, out: (along, under + out), step, 12)
        y += _height(below, step) + 8
    return Picture("\n".join(elements), width, y)


def _column(tree: Tree, above: Sequence[Arc], below: Sequence[Arc]) -> Picture:
    """One word a line, with arcs at the left, and those of a second tree at the right; labels stand next to words."""
    step = 13
    n = len(tree.forms)
    rows = [_MARGIN + _ROW * (i + 0.5) for i in range(n)]
    left = _MARGIN + _reach(above, step)
    elements = _draw_arcs(above, rows, lambda along, out: (left - out, along), step, None)
    x = left + 7.0

    def column(kind: str, texts: Sequence[str], size: int, mark: Callable[[int], str]) -> None:
        nonlocal x
        for i, (y, text) in enumerate(zip(rows, texts, strict=True)):
            if text:
                elements.append(_text(f"{kind} {mark(i + 1)}".rstrip(), x, y + size / 3, text, ""))
        x += max(text_width(text, size) for text in texts) + 14

    column("word", tree.forms, _WORD, lambda _: "")
    if tree.tags is not None:
        column("tag", tree.tags, _TAG, lambda _: "")
    if tree.labels is not None:
        column("label", tree.labels, _LABEL, tree.mark)
    for token in tree.tokens:
        top, bottom = rows[token.first - 1] - 7, rows[token.last - 1] + 7
        elements.append(f'<path class="bracket" d="M{_n(x)} {_n(top)} H{_n(x + 4)} V{_n(bottom)} H{_n(x)}"/>')
        elements.append(_text("token", x + 10, (top + bottom) / 2 + 4, token.form, ""))
    if tree.tokens:
        x += 24 + max(text_width(token.form, _TAG) for token in tree.tokens)
    if below:
        if tree.labels is not None:
            labels = {arc.modifier: arc.label for arc in below}
            column("label", [labels.get(word, "") for word in range(1, n + 1)], _LABEL, lambda _: "against")
        right = x - 7
        elements += _draw_arcs(below, rows, lambda along, out: (right + out, along), step, None)
        x = right + _reach(below, step)
    return Picture("\n".join(elements), x + _MARGIN, _ROW * n + 2 * _MARGIN)


def _out(level: int, step: float) -> float:
    return 8 + level * step


def _reach(arcs: Sequence[Arc], step: float) -> float:
    """Height of the arcs."""
    return max((_out(arc.level, step) for arc in arcs), default=0)


def _height(arcs: Sequence[Arc], step: float) -> float:
    """Height of the arcs with their labels."""
    return _reach(arcs, step) + 14


def _draw_arcs(
    arcs: Sequence[Arc], middles: Sequence[float], place: Place, step: float, shift: float | None
) -> list[str]:
    """Elements of arcs; those that differ come after the rest, and so over it, and labels over all.

    Args:
        arcs: to draw.
        middles: of the words, along them.
        place: in the picture.
        step: from level to level.
        shift: from an arc to the line on which its label stands, downwards; None for arcs without labels on them.
    """
    drawn = sorted(arcs, key=lambda arc: bool(arc.mark))
    elements = [_draw_arc(arc, middles, place, step) for arc in drawn]
    for arc in drawn:
        if shift is not None and arc.label:
            start, end = _ends(arc, middles)
            x, y = place((start + end) / 2, _out(arc.level, step))
            kind = f"label {arc.mark}".rstrip()
            elements.append(_text(kind, x, y + shift, arc.label, 'text-anchor="middle"'))
    return elements


def _ends(arc: Arc, middles: Sequence[float]) -> tuple[float, float]:
    """Return start and end of an arc along the words: next to the middle of its head, above that of its modifier."""
    end = middles[arc.modifier - 1]
    if not arc.head:
        return end, end
    start = middles[arc.head - 1]
    return start + (_SIDE if end > start else -_SIDE), end


def _draw_arc(arc: Arc, middles: Sequence[float], place: Place, step: float) -> str:
    def at(along: float, out: float) -> str:
        return " ".join(map(_n, place(along, out)))

    (start, end), out = _ends(arc, middles), _out(arc.level, step)
    path = f"M{at(end, out)} L{at(end, 6)}"
    if arc.head:
        bend = max(-_CORNER, min(_CORNER, (end - start) / 2))
        path = f"M{at(start, 0)} L{at(start, out - _CORNER)} Q{at(start, out)} {at(start + bend, out)} "
        path += f"L{at(end - bend, out)} Q{at(end, out)} {at(end, out - _CORNER)} L{at(end, 6)}"
    tip = f"{at(end, 0)} {at(end - 3.5, 7)} {at(end + 3.5, 7)}"
    kind = f"arc {arc.mark}".rstrip()
    data = f'data-head="{arc.head}" data-modifier="{arc.modifier}"'
    return f'<g class="{kind}" {data}><path d="{path}"/><polygon points="{tip}"/></g>'


# Documents.


def svg_document(pictures: Sequence[Picture], headings: Sequence[str], title: str, key: Sequence[str] = ()) -> str:
    """One SVG of pictures one under the other, which needs nothing else and follows the reader's light or dark scheme.

    Args:
        pictures: from `draw_svg`.
        headings: written over each, nothing where empty.
        title: of the document.
        key: names of the two files, if pictures show what differs between them.
    """
    elements, width, y = [], 0.0, 0.0
    if key:
        drawn = _key(key)
        elements.append(drawn.elements)
        width, y = drawn.width, drawn.height
    for picture, heading in zip(pictures, headings, strict=True):
        if heading:
            elements.append(_text("heading", _MARGIN, y + 22, heading, ""))
            width = max(width, text_width(heading, 12) + 2 * _MARGIN)
            y += 28
        elements.append(f'<g class="sentence" transform="translate(0 {_n(y)})">\n{picture.elements}\n</g>')
        width, y = max(width, picture.width), y + picture.height
    background = f'<rect class="background" width="{_n(width)}" height="{_n(y)}"/>'
    return "\n".join(
        [
            _svg_tag(width, y, title),
            f"<title>{_escape(title)}</title>",
            f"<style>\n{STYLE}</style>",
            background,
            *elements,
            "</svg>\n",
        ]
    )


def html_start(title: str, key: Sequence[str] = ()) -> str:
    """The beginning of a page of HTML, up to the first sentence.

    Args:
        title: of the page.
        key: names of the two files, if trees show what differs between them.
    """
    parts = {"title": _escape(title), "key": _inline(_key(key), "key") if key else "", "drawing": STYLE}
    parts |= {"page": _RESOURCES.joinpath("drawing_page.css").read_text(encoding="utf-8")}
    return Template(_page()[0]).substitute(parts)


def html_end() -> str:
    """The end of a page, behind the last sentence: a script that counts and filters sentences, and lists them."""
    return Template(_page()[1]).substitute(script=_RESOURCES.joinpath("drawing_page.js").read_text(encoding="utf-8"))


def _page() -> tuple[str, str]:
    """What comes before and after the sentences of a page; without its script, the page shows all of them."""
    start, _, end = _RESOURCES.joinpath("drawing_page.html").read_text(encoding="utf-8").partition("$sentences\n")
    return start, end


def html_sentence(picture: Picture, heading: str, text: str, facts: Mapping[str, str] | None = None) -> str:
    """A sentence of a page.

    Args:
        picture: from `draw_svg`.
        heading: number and name.
        text: of the sentence.
        facts: by which the page filters sentences: words separated by spaces, by name.
    """
    data = "".join(f' data-{name}="{_escape(value)}"' for name, value in (facts or {}).items())
    inside = f'<h2>{_escape(heading)}</h2>\n<p dir="auto">{_escape(text)}</p>\n{_inline(picture, text)}'
    return f"<section{data}>\n{inside}</section>\n"


def _inline(picture: Picture, title: str) -> str:
    tag = _svg_tag(picture.width, picture.height, title)
    return f'<div class="scroll">{tag}\n{picture.elements}\n</svg></div>\n'


def _svg_tag(width: float, height: float, title: str) -> str:
    size = f'width="{_n(width)}" height="{_n(height)}" viewBox="0 0 {_n(width)} {_n(height)}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{_escape(title)}">'


def _key(names: Sequence[str]) -> Picture:
    """Return the key, which says which lines belong to which file."""
    elements, x = [], float(_MARGIN)
    for kind, name in zip(("differs", "against"), names, strict=True):
        elements.append(f'<g class="arc {kind} key"><path d="M{_n(x)} 18 H{_n(x + 26)}"/></g>')
        elements.append(_text("heading", x + 33, 22, name, ""))
        x += 33 + text_width(name, 12) + 24
    return Picture("\n".join(elements), x, 32)


def _text(kind: str, x: float, y: float, text: str, more: str) -> str:
    return f'<text class="{kind}" x="{_n(x)}" y="{_n(y)}"{" " * bool(more)}{more}>{_escape(text)}</text>'


_NOT_XML = re.compile("[^\t\u0020-\u007e\u00a0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _escape(text: str) -> str:
    """Text for XML, which has no room for control characters at all."""
    return escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text))


def _n(value: float) -> str:
    """A number in tenths, written as short as it can be."""
    return f"{round(value, 1) + 0.0:g}" if abs(value) < 1e5 else f"{value:.1f}"


# Widths of letters in parts of their size, for the wider of the usual fonts without serifs.
_WIDTHS = {
    **dict.fromkeys("ijl|!'.,:;`", 0.3),
    **dict.fromkeys('It"()[]{}/\\rf*- ', 0.39),
    **dict.fromkeys("mwMW%@—…", 0.93),
}


def text_width(text: str, size: float) -> float:
    """About how wide a text is in the usual fonts, rather more than less."""
    return size * sum(map(_letter_width, text))


def _letter_width(letter: str) -> float:
    if letter in _WIDTHS:
        return _WIDTHS[letter]
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.0
    return 0.71 if letter.isupper() else 0.6
