"""Dependency trees as text.

There are two layouts: arcs above a line of words, if it fits the width, and otherwise one word per line with the tree
on the left. If two lines cross, the vertical one passes in front of the horizontal one. Words of right-to-left scripts
are always written one per line, because only some terminals reverse a line of them.
"""

import shutil
import unicodedata
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple


class Token(NamedTuple):
    """A token of the text that consists of several words."""

    first: int  # word, from 1
    last: int
    form: str


def draw(
    forms: Sequence[str],
    heads: Sequence[int],
    labels: Sequence[str],
    width: int | None = None,
    *,
    tags: Sequence[str] | None = None,
    tokens: Sequence[Token] = (),
    marked: Collection[int] = (),
    style: str = "",
) -> str:
    """Draw a dependency tree with Unicode box characters.

    Args:
        forms: the n words.
        heads: the head of each word, 0 for the root, without an entry for the root itself.
        labels: the label of each word.
        width: maximum number of columns, by default those of the terminal. Only deep trees of long words exceed it.
        tags: of the words, drawn next to them.
        tokens: multiword tokens, drawn next to their words.
        marked: words, from 1, whose arcs are coloured.
        style: the colour, as the number of a terminal style; none if empty.

    Returns:
        Lines without a line break at the end.

    Raises:
        ValueError: the numbers of forms, heads and labels differ, or the heads do not form a tree.
    """
    if not len(forms) == len(heads) == len(labels):
        raise ValueError(f"{len(forms)} forms, {len(heads)} heads and {len(labels)} labels; the numbers must be equal")
    if not forms:
        return ""
    _check_tree(heads)
    width = width or shutil.get_terminal_size().columns
    drawing = _Drawing(
        [_cells(form) for form in forms],
        heads,
        [_cells(label) for label in labels],
        [_cells(tag) for tag in tags or ()],
        [(token.first - 1, token.last - 1, _cells(token.form)) for token in tokens],
        frozenset(word - 1 for word in marked) if style else frozenset(),
        f"\x1b[{style}m",
    )
    lines = None if reads_leftwards(forms) else _lines_above(drawing, width)
    text = "\n".join("".join(line).rstrip() for line in lines or _lines_beside(drawing, width))
    return text.replace(_PLAIN + drawing.style, "")  # one colour from its first cell to its last


def reads_leftwards(forms: Sequence[str]) -> bool:
    """Return whether words are written from right to left, by the majority of their letters."""
    kinds = [unicodedata.bidirectional(character) for form in forms for character in form]
    return sum(kind in ("R", "AL") for kind in kinds) > kinds.count("L")


_PLAIN = "\x1b[0m"


class _Drawing(NamedTuple):
    """Contents of a drawing as cells; words are numbered from 0."""

    words: list[list[str]]
    heads: Sequence[int]
    labels: list[list[str]]
    tags: list[list[str]]  # none, or as many as words
    tokens: list[tuple[int, int, list[str]]]
    marked: frozenset[int]
    style: str

    def paint(self, cell: str) -> str:
        return self.style + cell + _PLAIN if cell else cell


def _check_tree(heads: Sequence[int]) -> None:
    n = len(heads)
    if any(not 0 <= head <= n for head in heads):
        raise ValueError(f"heads must lie in 0..{n}, got {list(heads)}")
    reached = {0}
    for start in range(1, n + 1):
        path: set[int] = set()
        word = start
        while word not in reached:
            if word in path:
                raise ValueError(f"no tree: word {word} is on a cycle")
            path.add(word)
            word = heads[word - 1]
        reached |= path


def printable(text: str) -> str:
    """Replace characters that would control a terminal or end a line, such as escape sequences."""
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") else character
        for character in text
    )


def _cells(text: str) -> list[str]:
    """Split text into terminal columns; a wide character is followed by an empty cell."""
    cells: list[str] = []
    for character in printable(text):
        category = unicodedata.category(character)
        if category in ("Mn", "Me", "Cf") and cells:
            cells[-1 if cells[-1] else -2] += character
        elif unicodedata.east_asian_width(character) in "WF":
            cells += [character, ""]
        else:
            cells.append(character)
    return cells


# Arcs above the words. Words are numbered from 0 here, in the order of the line.


@dataclass
class _Arc:
    head: int
    modifier: int
    level: int = 0  # height above the words, from 1

    @property
    def left(self) -> int:
        return min(self.head, self.modifier)

    @property
    def right(self) -> int:
        return max(self.head, self.modifier)


class _Port(NamedTuple):
    """A column in which an arc comes down to a word.

    A word has up to three columns side by side: for all arcs to its modifiers on the left, for the arc from its head,
    and for all arcs to its modifiers on the right. In this order, the arcs of a projective tree do not cross.
    """

    word: int
    side: int  # -1, 0, 1

    @staticmethod
    def of(arc: _Arc) -> "tuple[_Port, _Port]":
        """The ports where the arc begins and ends, from left to right."""
        if arc.head < arc.modifier:
            return _Port(arc.head, 1), _Port(arc.modifier, 0)
        return _Port(arc.modifier, 0), _Port(arc.head, -1)


class _Line:
    """Positions of words and ports in the line; spaces between words grow if labels need them.

    Args:
        words: the cells of each word.
        arcs: all arcs but those from the root.
        roots: the words without an arc.
    """

    def __init__(self, words: Sequence[list[str]], arcs: Sequence[_Arc], roots: Sequence[int]) -> None:
        self.top = 1 + max((arc.level for arc in arcs), default=0)  # where the labels of the roots stand
        self.height = {_Port(root, 0): self.top for root in roots}
        for arc in arcs:
            for port in _Port.of(arc):
                self.height[port] = max(arc.level, self.height.get(port, 0))
        self.start: list[int] = []  # first column of each word
        self.centre: list[int] = []  # column of its middle port
        self.end = -1  # first column after the line
        for word, cells in enumerate(words):
            middle = max(0, len(cells) - 1) // 2
            self.start.append(self.end + 1 + max(0, (_Port(word, -1) in self.height) - middle))
            self.centre.append(self.start[-1] + middle)
            ports_end = self.centre[-1] + 1 + (_Port(word, 1) in self.height)
            self.end = max(self.start[-1] + len(cells), ports_end)

    def column(self, port: _Port) -> int:
        return self.centre[port.word] + port.side

    def widen(self, word: int, by: int) -> None:
        """Put more space after the word."""
        for i in range(word + 1, len(self.start)):
            self.start[i] += by
            self.centre[i] += by
        self.end += by

    def room(self, arc: _Arc) -> tuple[int, int, int]:
        """Return the longest stretch of an arc's line that no other line crosses.

        Returns:
            Its first column, its end, and a word within the arc after which more space makes it longer.
        """
        first, last = _Port.of(arc)
        crossing = [port for port in self.height if first < port < last and self.height[port] > arc.level]
        stops = [first, *sorted(crossing), last]
        rooms = [
            (self.column(left) + 1, self.column(right), left.word)
            for left, right in pairwise(stops)
            if left.word < right.word
        ]
        return max(rooms, key=lambda room: room[1] - room[0])

    def row(self, words: Sequence[list[str]], width: int) -> list[str]:
        """Return the cells of the line, with given contents for each word."""
        cells = [" "] * width
        for start, word in zip(self.start, words, strict=True):
            cells[start : start + len(word)] = word
        return cells

    def root_label(self, root: int, length: int) -> int:
        """Return the first column of a root's label, which is above the middle port of the word."""
        return max(0, self.centre[root] - max(0, length - 1) // 2)


def _levels(heads: Sequence[int]) -> list[_Arc]:
    """Return all arcs between words, each on the lowest level above all shorter arcs that it overlaps."""
    arcs = [_Arc(head - 1, modifier) for modifier, head in enumerate(heads) if head]
    arcs.sort(key=lambda arc: arc.right - arc.left)
    for i, arc in enumerate(arcs):
        first, last = _Port.of(arc)
        for other in arcs[:i]:
            other_first, other_last = _Port.of(other)
            if first <= other_last and other_first <= last:
                arc.level = max(arc.level, other.level)
        arc.level += 1
    return arcs


def _lines_above(drawing: _Drawing, width: int) -> list[list[str]] | None:
    """Return the drawing as lines of cells; None if it does not fit the width."""
    heads, labels = drawing.heads, drawing.labels
    widths = [max(map(len, pair)) for pair in zip(drawing.words, drawing.tags or drawing.words, strict=True)]
    words = [_centred(cells, wide) for cells, wide in zip(drawing.words, widths, strict=True)]
    tags = [_centred(cells, wide) for cells, wide in zip(drawing.tags, widths)]
    if sum(map(len, words)) + len(words) - 1 > width:
        return None
    arcs = _levels(heads)
    roots = [word for word, head in enumerate(heads) if head == 0]
    for margin in (1, 0):  # columns between a label and the ends of its line
        line = _Line(words, arcs, roots)
        for arc in arcs:
            start, end, word = line.room(arc)
            line.widen(word, max(0, len(labels[arc.modifier]) + 2 * margin - (end - start)))
        taken = 0
        for root in roots:
            while (start := line.root_label(root, len(labels[root]))) < taken:
                line.widen(root - 1, taken - start)
            taken = start + len(labels[root]) + 1
        for first, last, token in drawing.tokens:
            line.widen(first, max(0, line.start[first] + len(token) + 2 - line.start[last] - len(words[last])))
        whole = max(line.end, taken - 1)
        if whole <= width:
            below = [line.row(tags, whole)] if tags else []
            if drawing.tokens:
                below.append(_brackets(drawing.tokens, words, line, whole))
            return _render_above(drawing, words, line, arcs, roots, whole) + below
    return None


def _centred(cells: list[str], width: int) -> list[str]:
    before = (width - len(cells)) // 2
    return [" "] * before + cells + [" "] * (width - len(cells) - before)


def _brackets(
    tokens: Sequence[tuple[int, int, list[str]]], words: Sequence[list[str]], line: _Line, width: int
) -> list[str]:
    """Return a row with multiword tokens under their words."""
    row = [" "] * width
    for first, last, token in tokens:
        start = line.start[first]
        end = max(line.start[last] + len(words[last]), start + len(token) + 2)
        row[start:end] = ["╰", *("─" * (end - start - 2)), "╯"]
        place = start + (end - start - len(token)) // 2
        row[place : place + len(token)] = token
    return row


def _render_above(
    drawing: _Drawing,
    words: Sequence[list[str]],
    line: _Line,
    arcs: Sequence[_Arc],
    roots: Sequence[int],
    width: int,
) -> list[list[str]]:
    labels = drawing.labels
    rows = [[" "] * width for _ in range(line.top + 2)]  # from the words upwards; level l is row l + 1
    for arc in arcs:
        left, right = (line.column(port) for port in _Port.of(arc))
        rows[arc.level + 1][left:right] = "─" * (right - left)
    for port, height in line.height.items():
        for row in rows[1 : height + 1]:
            row[line.column(port)] = "│"
        if port.side == 0:
            rows[1][line.column(port)] = "▼"
    for arc in arcs:
        for port, corner, branch in zip(_Port.of(arc), "╭╮", "├┤", strict=True):
            rows[arc.level + 1][line.column(port)] = corner if line.height[port] == arc.level else branch
        start, end, _ = line.room(arc)
        label = labels[arc.modifier]
        place = start + (end - start - len(label)) // 2
        rows[arc.level + 1][place : place + len(label)] = label
    for root in roots:
        place = line.root_label(root, len(labels[root]))
        rows[line.top + 1][place : place + len(labels[root])] = labels[root]
    for arc in arcs:
        if arc.modifier in drawing.marked:
            _paint_arc(drawing, line, arc, rows)
    for root in drawing.marked.intersection(roots):
        place = line.root_label(root, len(labels[root]))
        _paint(drawing, rows[line.top + 1], place, place + len(labels[root]))
        for row in rows[1 : line.top + 1]:
            _paint(drawing, row, line.centre[root], line.centre[root] + 1)
    rows[0] = line.row(words, width)
    return rows[::-1]


def _paint_arc(drawing: _Drawing, line: _Line, arc: _Arc, rows: list[list[str]]) -> None:
    """Colour an arc, except for cells in which other arcs pass in front of it or begin."""
    left, right = (line.column(port) for port in _Port.of(arc))
    row = rows[arc.level + 1]
    for column in range(left, right + 1):
        if row[column] not in ("│", "├", "┤"):
            _paint(drawing, row, column, column + 1)
    own = line.centre[arc.modifier]
    for row in rows[1 : arc.level + 1]:
        _paint(drawing, row, own, own + 1)


def _paint(drawing: _Drawing, row: list[str], start: int, end: int) -> None:
    row[start:end] = [drawing.paint(cell) for cell in row[start:end]]


# One word per line. A head has a vertical line for its modifiers, to the right of the line of its own head: in the row
# of a word, the leftmost branch leads to its head, and a second one to its modifiers.


def _lines_beside(drawing: _Drawing, width: int) -> list[list[str]]:
    """Return the drawing as lines of cells, with less space if it would not fit the width otherwise."""
    words, heads, labels = drawing.words, drawing.heads, drawing.labels
    texts = _texts(drawing)
    modifiers: dict[int, list[int]] = {}
    for modifier, head in enumerate(heads, 1):
        modifiers.setdefault(head, []).append(modifier)
    columns = _columns(modifiers)
    depth = 1 + max(columns.values())
    step = 2 if 2 * depth + 2 + max(map(len, texts)) <= width else 1
    canvas = [[" "] * (step * depth) for _ in words]
    for modifier, head in enumerate(heads, 1):
        start = step * columns[head]
        canvas[modifier - 1][start:] = "─" * (step * depth - start)
    for head, column in columns.items():
        first, last = _span(head, modifiers[head])
        for row in range(first, last + 1):
            canvas[row - 1][step * column] = "│"
        for row in modifiers[head]:
            branch = "─" if first == last else "╭" if row == first else "╰" if row == last else "├"
            canvas[row - 1][step * column] = branch
        if head:
            canvas[head - 1][step * column] = "┬" if head == first else "┴" if head == last else "┼"
    lines = [[*tree, "►", " ", *text] for tree, text in zip(canvas, texts, strict=True)]
    for modifier in drawing.marked:
        line = lines[modifier]
        for column in range(step * columns[heads[modifier]], step * depth + 1):
            if line[column] in "─►╭╰├":
                _paint(drawing, line, column, column + 1)
        _paint(drawing, line, step * depth + 2 + len(texts[modifier]) - len(labels[modifier]), len(line))
    return [[*line, *note] for line, note in zip(lines, _notes(drawing, texts), strict=True)]


def _texts(drawing: _Drawing) -> list[list[str]]:
    """Return words, tags and labels in columns, one word per line."""
    kinds = [kind for kind in (drawing.words, drawing.tags) if kind]
    lines: list[list[str]] = [[] for _ in drawing.words]
    for kind in kinds:
        wide = max(map(len, kind)) + 2
        for line, cells in zip(lines, kind, strict=True):
            line += [*cells, *[" "] * (wide - len(cells))]
    return [[*line, *label] for line, label in zip(lines, drawing.labels, strict=True)]


def _notes(drawing: _Drawing, texts: Sequence[list[str]]) -> list[list[str]]:
    """Return multiword tokens next to the lines of their words."""
    notes: list[list[str]] = [[] for _ in drawing.words]
    wide = max(map(len, texts)) + 2
    for first, last, token in drawing.tokens:
        for word in range(first, last + 1):
            bracket = "─" if first == last else "╮" if word == first else "╯" if word == last else "│"
            notes[word] = [*[" "] * (wide - len(texts[word])), bracket, *([" ", *token] if word == first else [])]
    return notes


def _columns(modifiers: dict[int, list[int]]) -> dict[int, int]:
    """Return the column of each head's line: to the right of its own head's line, and free in all its rows."""
    columns: dict[int, int] = {}
    taken: dict[int, list[tuple[int, int]]] = {}  # rows by column
    waiting = deque([(0, 0)])  # heads, each with its lowest column
    while waiting:
        head, column = waiting.popleft()
        first, last = _span(head, modifiers[head])
        while any(first <= end and start <= last for start, end in taken.get(column, [])):
            column += 1
        columns[head] = column
        taken.setdefault(column, []).append((first, last))
        waiting.extend((modifier, column + 1) for modifier in modifiers[head] if modifier in modifiers)
    return columns


def _span(head: int, modifiers: Sequence[int]) -> tuple[int, int]:
    """Return the first and the last row of a head's line; the root has no row of its own."""
    rows = [head, *modifiers] if head else modifiers
    return min(rows), max(rows)
