"""Makes the pictures of the pages on decoders, docs/decoders/*.svg. Run it in the top folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from arbora.cli.svg_drawing import Picture, Tree, draw_svg, svg_document
from arbora.decoders import MST, Parts

FOLDER = Path("docs/decoders")


def draw(
    forms: Sequence[str], heads: Sequence[int], labels: Sequence[str] | None = None, against: Sequence[int] = ()
) -> Picture:
    """Draw a tree, and below it the arcs in which a second one differs."""
    second = (against, [""] * len(forms)) if against else None
    return draw_svg(Tree(forms, heads, labels or [""] * len(forms), against=second))


def mst() -> tuple[list[Picture], list[str]]:
    """Best heads with a cycle, and the best tree, with scores as labels."""
    forms = ["dogs", "chase", "cats"]
    arc = np.full((1, 4, 4), -np.inf)
    arc[0, 1, [0, 2, 3]] = 1, 5, 2
    arc[0, 2, [0, 1, 3]] = 4, 1, 6
    arc[0, 3, [0, 1, 2]] = 3, 1, 7
    best = arc[0, 1:].argmax(1)
    tree = MST()(Parts.from_dense(arc)).heads[0, 1:]

    def scores(heads: np.ndarray) -> list[str]:
        return [f"{arc[0, m, h]:g}" for m, h in enumerate(heads, 1)]

    total = sum(arc[0, m, h] for m, h in enumerate(tree, 1))
    return (
        [draw(forms, best.tolist(), scores(best)), draw(forms, tree.tolist(), scores(tree))],
        ["The best head of each word, with its score: a cycle", f"The best tree, of score {total:g}"],
    )


def projective() -> tuple[list[Picture], list[str]]:
    """A tree without and one with crossing arcs."""
    forms = ["A", "hearing", "is", "scheduled", "on", "the", "issue", "today"]
    return (
        [draw(forms[:4] + forms[7:], [2, 4, 4, 0, 4]), draw(forms, [2, 4, 4, 0, 7, 7, 2, 4])],
        ["Projective", "Not projective: the arc from “hearing” to “issue” crosses the one from “scheduled” to “today”"],
    )


def vine() -> tuple[list[Picture], list[str]]:
    """What a vine scores one by one, and the whole tree."""
    forms = ["The", "painter", "who", "lived", "here", "sold", "two", "of", "her", "pictures"]
    heads = [2, 6, 4, 2, 4, 0, 6, 10, 10, 7]
    short = [head if abs(head - word) <= 2 and head else -1 for word, head in enumerate(heads, 1)]
    return (
        [draw(forms, short), draw(forms, heads)],
        ["Arcs of at most two words: the vine scores each. Of longer ones, it knows only the side", "The tree"],
    )


def greedy() -> tuple[list[Picture], list[str]]:
    """A forest after each arc."""
    forms = ["The", "dog", "barked"]
    steps = [[2, -1, -1], [2, 3, -1], [2, 3, 0]]
    return [draw(forms, heads) for heads in steps], [f"Step {number}" for number in (1, 2, 3)]


def hill_climbing() -> tuple[list[Picture], list[str]]:
    """Trees of a climb."""
    forms = ["They", "ate", "pizza", "with", "anchovies"]
    trees = [[2, 0, 2, 5, 2], [2, 0, 2, 5, 3]]
    return (
        [
            draw(forms, [3, 0, 2, 3, 2], against=trees[0]),
            draw(forms, trees[0], against=trees[1]),
            draw(forms, trees[1]),
        ],
        [
            "Start, score 2.1; below, what the next step changes",
            "After two changes, score 4.4",
            "Score 5.0: no change of one head helps any more, a local optimum",
        ],
    )


def dual_decomposition() -> tuple[list[Picture], list[str]]:
    """Two factors, before and after they agree."""
    forms = ["They", "ate", "pizza", "with", "anchovies"]
    tree = [2, 0, 2, 5, 3]
    return (
        [draw(forms, [2, 0, 2, 5, 2], against=tree), draw(forms, tree)],
        [
            "Above, the heads that the factor of trees prefers; below, where a factor of grandparents disagrees",
            "After some iterations all factors agree: this tree is the best",
        ],
    )


def minimum_risk() -> tuple[list[Picture], list[str]]:
    """Three trees, and the tree with the most heads expected to be correct."""
    forms = ["old", "men", "and", "women"]
    trees = [[2, 0, 4, 2], [2, 4, 4, 0], [4, 4, 2, 0]]
    shares = [0.4, 0.35, 0.25]
    likely = np.zeros((1, 5, 5))
    for heads, share in zip(trees, shares):
        likely[0, range(1, 5), heads] += share
    best = MST()(Parts.from_dense(np.where(likely > 0, likely, -np.inf))).heads[0, 1:].tolist()
    headings = [f"Probability {share:.0%}" for share in shares]
    return [draw(forms, heads) for heads in [*trees, best]], [*headings, "The most heads expected to be correct"]


def main() -> None:
    """Write all pictures."""
    for picture in (mst, projective, vine, greedy, hill_climbing, dual_decomposition, minimum_risk):
        pictures, headings = picture()
        name = picture.__name__
        (FOLDER / f"{name}.svg").write_text(svg_document(pictures, headings, name.replace("_", " ")), encoding="utf-8")


if __name__ == "__main__":
    main()
