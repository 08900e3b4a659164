"""Templates of features: tables of what to conjoin, by kind of parts.

McDonald, Crammer and Pereira (2005), "Online large-margin training of dependency parsers", has those of arcs; Martins,
Almeida and Smith (2013) and Zhang, Lei, Barzilay and Jaakkola (2014), with the programs that they released, those of
parts of higher order and of trees.

A template is a string of atoms. An atom names a word of the part and a column: `h.upos` is the tag of the head,
`m.upos-1` that of the word before the modifier. `ROLES` has a letter for each word of a kind. Every template is
conjoined with the order of the words of the part; `distance` adds the distance of an arc.

Differs from the papers: columns are those of CoNLL-U, and the features of a word (FEATS) are read both as one string
and one by one (`ARC_FEATS`). Words between head and modifier count once for each tag.
"""

from __future__ import annotations

from typing import NamedTuple

COLUMNS = ("form", "lemma", "upos", "xpos", "feats", "number")
"""Columns of words. `number` is that of an entry in the table of a tree feature."""

ROLES = {
    "arc": "hm",  # head, modifier
    "grandparent": "hmg",
    "sibling": "hsi",  # head, outer sibling, inner sibling
    "any_sibling": "hsi",
    "head_bigram": "hmb",  # b is the head of the word before m
    "grand_sibling": "hisg",
    "tri_sibling": "hist",  # t is the innermost sibling
    "grand_grandparent": "mhga",  # a is the head of g
    "inner_sibling_grandchild": "hisc",
    "outer_sibling_grandchild": "hisc",
    "valency": "wn",  # a word, and the number of its entry
    "span": "wn",
    "neighbours": "mhn",
    "crossing": "mhn",
    "right_branching": "rn",
    "coordination": "cjk",  # conjunction, second conjunct, first conjunct
    "conjunct": "cjk",  # conjunction, conjunct, head of the coordination
}
"""Letters of the words of a kind: those of its rows in the order of `HigherOrder.row_roles`, then the column."""


def _listed(text: str) -> tuple[str, ...]:
    """Templates that are separated by semicolons."""
    return tuple(" ".join(template.split()) for template in text.split(";"))


ARC = _listed(
    """
    h.form h.upos; h.form; h.upos; h.lemma; h.upos h.feats; m.form m.upos; m.form; m.upos; m.lemma; m.upos m.feats;
    m.upos m.feats m.upos-1; m.upos m.feats m.upos+1; m.form m.upos-1 m.upos+1;
    h.form h.upos m.form m.upos; h.upos m.form m.upos; h.form h.upos m.upos; h.form m.form; h.upos m.upos;
    h.xpos m.xpos; h.xpos m.upos; h.upos m.xpos; h.lemma m.lemma; h.lemma h.upos m.upos; h.upos m.lemma m.upos;
    h.lemma m.upos m.feats; h.upos h.feats m.lemma; h.upos h.feats m.upos m.feats; h.upos h.feats m.upos;
    h.upos m.upos m.feats; h.form m.upos m.feats; h.upos h.feats m.form;
    h.upos h.upos+1 m.upos-1 m.upos; h.upos-1 h.upos m.upos-1 m.upos; h.upos h.upos+1 m.upos m.upos+1;
    h.upos-1 h.upos m.upos m.upos+1; h.upos h.upos+1 m.upos; h.upos-1 h.upos m.upos; h.upos m.upos-1 m.upos;
    h.upos m.upos m.upos+1; h.upos-1 h.upos h.upos+1 m.upos-1 m.upos m.upos+1; h.upos h.feats m.upos m.feats m.upos-1;
    h.upos h.feats m.upos m.feats m.upos+1; h.lemma m.upos m.lemma+1; h.upos m.upos m.lemma-1;
    h.upos m.upos h.lemma+1; h.upos m.upos h.lemma-1; h.upos m.upos m.feats+1; h.upos m.upos m.feats-1;
    distance; h.upos distance; m.upos distance; h.upos m.upos distance; h.lemma distance; m.lemma distance;
    h.upos m.upos m.feats distance; h.lemma m.upos distance; h.upos m.lemma distance; h.upos m.upos m.upos+1 distance;
    h.upos m.upos m.upos-1 distance
    """
)
"""Features of arcs."""

ARC_BETWEEN = ("h.upos m.upos",)
"""Conjoined with each tag between the two words, and with the numbers of verbs, punctuation and conjunctions there."""

ARC_FEATS = ("h.upos m.upos",)
"""Conjoined with each pair of one feature of the head and one of the modifier."""

PRUNER_ARC = tuple(
    template for template in ARC if "feats-1" not in template and "feats+1" not in template and "lemma+" not in template
)
"""Features of arcs in a pruner."""

LABEL = _listed(
    """
    h.upos; h.lemma; m.form; m.upos; m.lemma; m.lemma m.upos; m.upos m.feats; h.upos h.feats; h.upos m.upos;
    h.xpos m.xpos; h.lemma m.lemma; h.lemma m.upos; h.lemma m.upos m.feats; h.upos m.lemma; h.upos m.form;
    h.upos m.upos m.feats; h.upos h.feats m.upos m.feats; h.upos m.upos distance; h.upos m.upos m.upos-1;
    h.upos m.upos m.upos+1; h.upos m.upos h.upos-1; h.upos m.upos h.upos+1; m.upos m.upos-1 m.upos+1;
    h.upos m.upos m.lemma-1; h.upos m.upos m.lemma+1; m.upos m.feats m.upos-1 m.upos+1
    """
)
"""Features of arcs that are conjoined with their label."""

THREE = _listed(
    """
    1.upos 2.upos 3.upos; 1.upos 3.upos; 2.upos 3.upos; 1.lemma 3.upos; 1.upos 3.lemma; 2.lemma 3.upos;
    2.upos 3.lemma; 1.lemma 3.lemma; 2.lemma 3.lemma; 1.lemma 2.upos 3.upos; 1.upos 2.lemma 3.upos;
    1.upos 2.upos 3.lemma; 1.lemma 2.lemma 3.upos; 1.lemma 2.upos 3.lemma; 1.upos 2.lemma 3.lemma;
    1.upos 2.upos 3.upos 3.feats; 1.upos 2.upos 2.feats 3.upos; 1.upos 1.feats 2.upos 3.upos;
    2.upos 2.feats 3.upos 3.feats; 1.upos 1.feats 3.upos 3.feats; 1.upos 2.upos 2.feats 3.upos 3.feats
    """
)
"""Features of parts of three words, by the numbers of their letters."""

FOUR = _listed(
    """
    1.upos 2.upos 3.upos 4.upos; 1.lemma 2.upos 3.upos 4.upos; 1.upos 2.lemma 3.upos 4.upos;
    1.upos 2.upos 3.lemma 4.upos; 1.upos 2.upos 3.upos 4.lemma; 1.upos 3.upos 4.upos; 2.upos 3.upos 4.upos;
    1.upos 2.upos 4.upos; 2.upos 3.lemma 4.upos; 1.lemma 3.upos 4.upos; 1.upos 3.upos 4.lemma;
    1.upos 2.upos 3.upos 3.feats 4.upos; 1.upos 2.upos 2.feats 3.upos 4.upos
    """
)
"""Features of parts of four words."""

PARTS = {
    "grandparent": THREE,
    "sibling": THREE,
    "any_sibling": THREE,
    "head_bigram": _listed(
        """
        1.upos 2.upos 3.upos; 1.upos 2.upos 3.upos 2.upos-1; 1.lemma 2.upos 3.upos 2.upos-1;
        1.upos 2.upos 3.lemma 2.upos-1; 1.upos 2.lemma 3.upos 2.upos-1; 1.upos 2.upos 3.upos 2.lemma-1; 1.upos 3.upos;
        1.lemma 3.lemma; 2.upos 2.upos-1
        """
    ),
    "grand_sibling": FOUR,
    "tri_sibling": FOUR,
    "grand_grandparent": FOUR,
    "inner_sibling_grandchild": FOUR,
    "outer_sibling_grandchild": FOUR,
    "valency": _listed("1.upos 2.number; 1.lemma 2.number; 1.upos 1.feats 2.number"),
    "span": _listed("1.upos 2.number; 1.lemma 2.number; 1.upos 1.feats 2.number"),
    "neighbours": _listed("1.upos 2.upos 3.number; 1.upos 3.number; 1.lemma 3.number"),
    "crossing": _listed("3.number; 1.upos 3.number; 1.upos 2.upos 3.number"),
    "right_branching": _listed("2.number"),
    "coordination": _listed(
        """
        2.upos 3.upos; 1.lemma 2.upos 3.upos; 2.upos 2.feats 3.upos 3.feats; 2.lemma 3.lemma;
        2.upos 3.upos 2.upos-1 3.upos-1; 2.upos 3.upos 2.upos+1 3.upos+1
        """
    ),
    "conjunct": _listed(
        """
        2.upos 3.upos; 1.lemma 2.upos 3.upos; 2.lemma 3.upos; 2.upos 3.lemma; 2.upos 2.feats 3.upos
        """
    ),
}
"""Features by kind, words by the numbers of their letters in `ROLES`."""


class Atom(NamedTuple):
    """A column of a word of a part, or of a word near it."""

    role: int  # place of the word's letter among those of its kind
    column: int
    offset: int


def parse(template: str, letters: str) -> tuple[list[Atom], bool]:
    """Atoms of a template, and whether it has the distance.

    Args:
        template: as in the tables above.
        letters: of the words of its kind; numbers count them from 1.

    Raises:
        ValueError: an atom names an unknown word or column.
    """
    atoms, distance = [], False
    for name in template.split():
        if name == "distance":
            distance = True
            continue
        word, _, column = name.partition(".")
        sign = "-" if "-" in column else "+"
        column, _, offset = column.partition(sign)
        role = int(word) - 1 if word.isdigit() else letters.find(word)
        if not 0 <= role < len(letters) or column not in COLUMNS or not (offset or "0").isdigit():
            raise ValueError(
                f"template {template!r}: {name} is not an atom of a part of the words {', '.join(letters)}"
            )
        atoms.append(Atom(role, COLUMNS.index(column), int(sign + (offset or "0"))))
    return atoms, distance
