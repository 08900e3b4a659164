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
        attachment.add_row(title, f"{scores['words']:,}", *(_number(scores[name]) for name in names))

    single = plain_table("", "%")
    for title, key in _SINGLE.items():
        single.add_row(title, _number(figures[key]))
    crossing = figures["non_projective"]
    arcs = plain_table("non-projective arcs", "")
    arcs.add_row("in gold, in system", f"{crossing['gold']:,}, {crossing['system']:,}")
    for name in ("precision", "recall", "f1"):
        arcs.add_row(name.capitalize(), _number(crossing[name]))

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
        numbers = (_number(score[column]) for column in ("f1", "precision", "recall"))
        table.add_row(_ALIGNED.get(name, name.capitalize()), *numbers)
    return table


def _length_table(title: str, buckets: dict[str, dict[str, Any]]) -> Table:
    table = plain_table(title, "words", "UAS", "LAS")
    for bucket, scores in buckets.items():
        if scores["words"]:
            table.add_row(bucket, f"{scores['words']:,}", _number(scores["uas"]), _number(scores["las"]))
    return table


def plain_table(first: str, *columns: str) -> Table:
    """Return a table without lines; all columns but the first are right-aligned."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column(first)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
