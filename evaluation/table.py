"""Figures as tables for the terminal."""

from typing import Any

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table

_PUNCTUATION = {
    "all words": None,
    "without UPOS PUNCT": "without_punct_upos",
    "without forms lacking letters and digits": "without_punct_form",
}
_SINGLE = {
    "CLAS": "clas",
    "undirected UAS": "undirected_uas",
    "root": "root",
    "whole tree, unlabelled": "tree_unlabelled",
    "whole tree, labelled": "tree_labelled",
}


def figures_table(figures: dict[str, Any]) -> RenderableType:
    """Lay out the figures of an evaluation, in fewer than 80 columns.

    The score on whole labels is left out where it is no other than LAS.

    Args:
        figures: from `Evaluation.figures`.
    """
    full = figures["las_full"] != figures["las"]
    attachment = plain_table("", "words", "UAS", "LAS", *(["LAS (full labels)"] if full else []))
    for title, key in _PUNCTUATION.items():
        scores = figures if key is None else figures[key]
        names = ["uas", "las", "las_full"] if full else ["uas", "las"]
        attachment.add_row(title, f"{scores['words']:,}", *(number_text(scores[name]) for name in names))

    single = plain_table("", "%")
    for title, key in _SINGLE.items():
        single.add_row(title, number_text(figures[key]))
    crossing = figures["non_projective"]
    arcs = plain_table("non-projective arcs", "")
    arcs.add_row("in gold, in system", f"{crossing['gold']:,}, {crossing['system']:,}")
    for name in ("precision", "recall", "f1"):
        arcs.add_row(name.capitalize(), number_text(crossing[name]))

    lengths = [
        _length_table("sentence length", figures["sentence_length"]),
        _length_table("arc length", figures["arc_length"]),
    ]
    return Group(attachment, "", Columns([single, arcs], padding=(0, 4)), "", Columns(lengths, padding=(0, 4)))


_ALIGNED = {"upos": "UPOS", "xpos": "XPOS", "ufeats": "UFeats", "alltags": "AllTags"}
_ALIGNED |= {name: name.upper() for name in ("uas", "las", "clas", "mlas", "blex")}


def aligned_table(scores: dict[str, dict[str, Any]]) -> Table:
    """Lay out the scores of `aligned_scores`."""
    table = plain_table("", "F1", "precision", "recall")
    for name, score in scores.items():
        numbers = (number_text(score[column]) for column in ("f1", "precision", "recall"))
        table.add_row(_ALIGNED.get(name, name.capitalize()), *numbers)
    return table


def _length_table(title: str, buckets: dict[str, dict[str, Any]]) -> Table:
    table = plain_table(title, "words", "UAS", "LAS")
    for bucket, scores in buckets.items():
        if scores["words"]:
            table.add_row(bucket, f"{scores['words']:,}", number_text(scores["uas"]), number_text(scores["las"]))
    return table


def plain_table(*columns: str, title: str | None = None, left: int = 1) -> Table:
    """Return a table without lines; its columns are right-aligned but for the first ones, as many as `left`."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="bold")
    table.padding = (0, 2, 0, 0)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < left else "right")
    return table


def number_text(value: float | None, digits: int = 2) -> str:
    """Format a figure; a dash if it is missing."""
    return "–" if value is None else f"{value:,.{digits}f}"
