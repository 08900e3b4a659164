"""Dependency trees as text.

Two layouts: arcs above the words of one line, where they fit the width, and otherwise one word a line with the tree at
its left. In both, where two lines cross, the vertical one passes in front of the horizontal one.
"""

import shutil
import unicodedata
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple


def draw(forms: Sequence[str], heads: Sequence[int], labels: Sequence[str], width: int | None = None) -> str:
    """Draw a dependency tree with Unicode box characters.

    Args:
        forms: the n words.
        heads: the head of each word, 0 for the root, without an entry for the root itself.
        labels: the label of each word.
        width: columns to fit into; those of the terminal if not given. Only a deep tree of long words exceeds them.

    Returns:
        Lines without a line break at the end.

    Raises:
        ValueError: the numbers of forms, heads and labels differ, or the heads are not a tree.
    """
    if not len(forms) == len(heads) == len(labels):
        raise ValueError(f"{len(forms)} forms, {len(heads)} heads and {len(labels)} labels; they must be as many")
    if not forms:
        return ""
    _check_tree(heads)
    width = width or shutil.get_terminal_size().columns
    words, tags = [_cells(form) for form in forms], [_cells(label) for label in labels]
    lines = _lines_above(words, heads, tags, width) or _lines_beside(words, heads, tags, width)
    return "\n".join("".join(line).rstrip() for line in lines)


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


def _cells(text: str) -> list[str]:
    """Split text into the columns it takes on a terminal; a wide character is followed by an empty cell."""
    cells: list[str] = []
    for character in text:
        category = unicodedata.category(character)
        if category in ("Cc", "Cs", "Zl", "Zp"):
            cells.append("\N{REPLACEMENT CHARACTER}")
        elif category in ("Mn", "Me", "Cf") and cells:
            cells[-1 if cells[-1] else -2] += character
        elif unicodedata.east_asian_width(character) in "WF":
            cells += [character, ""]
        else:
            cells.append(character)
    return cells


# Arcs above the words. Words are numbered from 0 here, as they stand in the line.


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

    A word has up to three, side by side: for all arcs to its modifiers at the left, for the arc from its head, and for
    all arcs to its modifiers at the right. In this order the arcs of a projective tree do not cross.
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
    """Where words and ports stand in the line; spaces between words grow as labels need them.

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
        """The longest stretch of an arc's line that no other line crosses.

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

    def root_label(self, root: int, length: int) -> int:
        """The first column of a root's label, which stands over the word's middle port."""
        return max(0, self.centre[root] - max(0, length - 1) // 2)


def _levels(heads: Sequence[int]) -> list[_Arc]:
    """All arcs between words, each on the lowest level above the shorter ones that it overlaps."""
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


def _lines_above(
    words: Sequence[list[str]], heads: Sequence[int], labels: Sequence[list[str]], width: int
) -> list[list[str]] | None:
    """The drawing as lines of cells, None if it does not fit the width."""
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
        if max(line.end, taken - 1) <= width:
            return _render_above(words, labels, line, arcs, roots, max(line.end, taken - 1))
    return None


def _render_above(
    words: Sequence[list[str]],
    labels: Sequence[list[str]],
    line: _Line,
    arcs: Sequence[_Arc],
    roots: Sequence[int],
    width: int,
) -> list[list[str]]:
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
    for start, cells in zip(line.start, words, strict=True):
        rows[0][start : start + len(cells)] = cells
    return rows[::-1]


# One word a line. A head has one vertical line, to the right of the one on which it hangs itself, and its modifiers
# hang on it: on a word's row the leftmost branch leads to its head, and a second one to its modifiers.


def _lines_beside(
    words: Sequence[list[str]], heads: Sequence[int], labels: Sequence[list[str]], width: int
) -> list[list[str]]:
    """The drawing as lines of cells, narrower if it would not fit the width otherwise."""
    modifiers: dict[int, list[int]] = {}
    for modifier, head in enumerate(heads, 1):
        modifiers.setdefault(head, []).append(modifier)
    columns = _columns(modifiers)
    form_width = max(map(len, words))
    label_width = max(map(len, labels))
    depth = 1 + max(columns.values())
    step = 2 if 2 * depth + 2 + form_width + 2 + label_width <= width else 1
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
    padding = [[" "] * (form_width - len(word) + 2) for word in words]
    return [
        [*tree, "►", " ", *word, *space, *label]
        for tree, word, space, label in zip(canvas, words, padding, labels, strict=True)
    ]


def _columns(modifiers: dict[int, list[int]]) -> dict[int, int]:
    """The column of each head's line: right of that on which the head hangs itself, and free where the line runs."""
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
    """The first and the last row of a head's line; the root has no row of its own."""
    rows = [head, *modifiers] if head else modifiers
    return min(rows), max(rows)
