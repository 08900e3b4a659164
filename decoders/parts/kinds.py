"""Kinds of parts: one record for each, from which `Parts` knows all that it knows about a kind.

A record says what the parts of its kind are made of, how many there are, where each is stored, and which of them fire
in a tree. To add a kind, add its kernels to `layout` or `tree_features` (and to `Layout` or `Wide` what kernels read of
it), its record here, and its field in `Parts`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from arbora.decoders.parts import layout as lay
from arbora.decoders.parts import tree_features
from arbora.decoders.parts.layout import Layout
from arbora.decoders.parts.tree_features import CONJUNCTION, CROSSINGS, LENGTHS, NEIGHBOURS, TAILS, VALENCIES

if TYPE_CHECKING:
    from arbora.decoders.parts.batch import Parts

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Kind:
    """Common properties of the kinds of higher-order parts and of tree features.

    Entries are stored in blocks, one block after the other, and the blocks of a sentence follow each other.
    """

    name: str  # of the kind, and of its field in `Parts`
    order: int  # number of arcs that a part is made of; 0 for tree features
    roles: tuple[str, ...]  # what each column of `Parts.words` holds
    most: Callable[[Ints], Ints]  # (B,) how many entries fire in a tree at most, given the numbers of words (B,)
    block_offsets: Callable[[Parts], Ints]  # where each block starts, and where the last ends
    blocks: Callable[[Parts], Ints]  # (B+1,) number of the first block of each sentence, and the number of all blocks
    # kernel that takes the arcs (W,) of one tree per sentence, writes the entries that fire in ascending order, and
    # where those of each sentence end.
    active: Callable[[Parts, Ints, Ints, Ints], None]

    def dense_shape(self, N: int) -> tuple[int, ...]:
        """Shape of the scores of one sentence as a dense array, which `Parts.words` indexes, for N positions."""
        raise NotImplementedError

    def words(self, parts: Parts) -> Ints:
        """(P, roles) words of each entry, and for tree features the numbers that index their tables."""
        raise NotImplementedError


@dataclass(frozen=True)
class HigherOrder(Kind):
    """A kind of parts that are made of a few arcs.

    Each is made of an arc, or of a part of another kind, and one more word. A scorer that multiplies matrices has one
    of these in rows and the other in columns; `Parts.places` says where each part is found in the product.
    """

    rows: str  # what the rows are: `arc`, `sibling` or `grandparent`
    # roles of the words of a row, in the order of that kind; head and modifier for arcs. The role that they lack is
    # that of the column.
    row_roles: tuple[str, ...]
    places: Callable[[Parts, Ints, Ints, int, int, Ints], None]  # kernel that fills in where each part is found

    def dense_shape(self, N: int) -> tuple[int, ...]:
        return (N,) * len(self.roles)

    def words(self, parts: Parts) -> Ints:
        longest = int(parts.lengths.max(initial=0))
        row_offsets = parts.sentence_offsets if self.rows == "arc" else parts.part_offsets(self.rows)
        rows = np.diff(row_offsets)
        most, stride = int(rows.max(initial=0)) + 2 * longest + 2, longest + 3
        place = parts.places(self.name, np.arange(len(rows)) * most * stride, stride, longest + 1)
        sentence, row, column = place // (most * stride), place // stride % most, place % stride
        if self.rows == "arc":
            end = row - rows[sentence]  # beyond the arcs: END of a side, for which the head itself stands
            h, m = end // 2, end // 2
            real = end < 0
            arc = (row + row_offsets[sentence])[real]
            h[real], m[real] = parts.head[arc], parts.modifier[arc]
            row_words = np.stack([h, m])
        else:
            row_words = parts.words(self.rows)[row_offsets[sentence] + row].T
        words = dict(zip(self.row_roles, row_words, strict=True))
        start = column > longest  # only kinds with a head among the words of a row have START in columns
        column = np.where(start, words["head"], column) if start.any() else column
        return np.stack([words.get(role, column) for role in self.roles], 1)


@dataclass(frozen=True)
class TreeFeature(Kind):
    """A kind whose entries depend on more than a few arcs; `tree_features` describes each."""

    table: Callable[[int], tuple[int, ...]]  # shape of the scores of one sentence for N positions
    entries: Callable[[Parts], Ints]  # words of each entry, and the numbers that index its table

    def dense_shape(self, N: int) -> tuple[int, ...]:
        return self.table(N)

    def words(self, parts: Parts) -> Ints:
        return self.entries(parts)


def offsets_of(counts: NDArray[np.integer]) -> Ints:
    """(k+1,) where each of k runs starts, and where the last ends."""
    offsets = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def ranges_of(starts: Ints, counts: NDArray[np.integer]) -> Ints:
    """The numbers start..start + count - 1 of each run, one run after the other."""
    offsets = offsets_of(counts)
    return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], counts)


# Numbers of the first block of each sentence.


def _sentences(parts: Parts) -> Ints:
    return np.arange(len(parts.lengths) + 1)


def _words(parts: Parts) -> Ints:
    return parts.word_offsets


def _arcs(parts: Parts) -> Ints:
    return parts.sentence_offsets


def _nodes(parts: Parts) -> Ints:
    return parts.word_offsets + np.arange(len(parts.word_offsets))


# Where blocks start. With K candidate heads per word, J candidate modifiers per side and D per head: see `layout`.


def _common(kind: str) -> Callable[[Parts], Ints]:
    """Those of a kind in `Layout`."""
    return lambda parts: parts.common_offsets[kind]


def _grand_grandparents(parts: Parts) -> Ints:
    """Sums of the numbers of grandparents that arcs' heads have, none for the root."""
    counts = np.diff(parts.block_offsets("grandparent")[parts.modifier_offsets])
    offsets = np.empty(len(parts.head) + 1, dtype=np.int64)
    lay.add_by_head(parts.word_offsets, parts.sentence_offsets, parts.head, counts, offsets)
    return offsets


def _inner_grandchildren(parts: Parts) -> Ints:
    outward, side_offsets, rank = parts.sides
    J = np.diff(side_offsets)
    later = np.repeat(J, J) - rank[outward].astype(np.int64)  # modifiers of a side beyond each
    return offsets_of(later * np.diff(parts.grandchild_offsets))


def _outer_grandchildren(parts: Parts) -> Ints:
    side_offsets = parts.sides.side_offsets
    ends = np.repeat(parts.grandchild_offsets[side_offsets[1:]], np.diff(side_offsets))
    return offsets_of(ends - parts.grandchild_offsets[1:])


def _per_word(count: int) -> Callable[[Parts], Ints]:
    """One block per word, all alike."""
    return lambda parts: count * np.arange(parts.word_offsets[-1] + 1)


def _per_arc(count: int) -> Callable[[Parts], Ints]:
    """One block per arc, all alike."""
    return lambda parts: count * np.arange(len(parts.head) + 1)


def _per_conjunction(parts: Parts) -> Ints:
    """Sizes of one block per word: that of a conjunction has all pairs of positions."""
    pairs = (parts.lengths.astype(np.int64) + 1) ** 2
    return np.where(parts.tags == CONJUNCTION, np.repeat(pairs, parts.lengths), 0)


# Words of the entries of tree features.


def _positions(parts: Parts) -> Ints:
    """(W,) position of each word in its sentence."""
    return 1 + np.arange(parts.word_offsets[-1]) - np.repeat(parts.word_offsets[:-1], parts.lengths)


def _table_of_words(*shape: int) -> Callable[[Parts], Ints]:
    """Entries of a table of this shape for each word."""

    def words(parts: Parts) -> Ints:
        cells = np.indices(shape).reshape(len(shape), -1)
        position = _positions(parts)
        return np.stack([np.repeat(position, cells.shape[1]), *np.tile(cells, len(position))], 1)

    return words


def _table_of_arcs(*shape: int) -> Callable[[Parts], Ints]:
    """Entries of a table of this shape for each arc."""

    def words(parts: Parts) -> Ints:
        cells = np.indices(shape).reshape(len(shape), -1)
        arcs = (np.repeat(position, cells.shape[1]) for position in (parts.modifier, parts.head))
        return np.stack([*arcs, *np.tile(cells, len(parts.head))], 1)

    return words


def _path_lengths(parts: Parts) -> Ints:
    """Entries of the last paths of 0..n words."""
    return (
        np.arange(parts.word_offsets[-1] + len(parts.lengths))[:, None]
        - np.repeat(_nodes(parts)[:-1], parts.lengths + 1)[:, None]
    )


def _conjunction_pairs(parts: Parts) -> Ints:
    """Entries of all pairs of positions for each conjunction."""
    sizes = _per_conjunction(parts)
    sides = np.repeat(np.repeat(parts.lengths + 1, parts.lengths), sizes)
    place = np.arange(len(sides)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.stack([np.repeat(_positions(parts), sizes), place // sides, place % sides], 1)


_RECORDS: tuple[Kind, ...] = (
    HigherOrder(
        "grandparent",
        order=2,
        roles=("modifier", "head", "grandparent"),
        most=lambda n: n,
        block_offsets=_common("grandparent"),
        blocks=_arcs,
        active=lambda p, *to: lay.active_grandparents(p.layout, *to),
        rows="arc",
        row_roles=("head", "modifier"),
        places=lambda p, bs, base, stride, _, to: lay.grandparent_places(p.layout, bs, base, stride, to),
    ),
    HigherOrder(
        "sibling",
        order=2,
        roles=("head", "inner", "outer"),
        most=lambda n: 3 * n + 1,
        block_offsets=_common("sibling"),
        blocks=lambda p: 2 * _nodes(p),
        active=lambda p, arcs, *to: lay.active_siblings(p.layout, arcs, False, *to),
        rows="arc",
        row_roles=("head", "outer"),
        places=lambda p, bs, base, stride, start, to: lay.sibling_places(p.layout, bs, base, stride, start, to),
    ),
    HigherOrder(
        "any_sibling",
        order=2,
        roles=("head", "first", "second"),
        most=lambda n: n * (n - 1) // 2,
        block_offsets=_common("any_sibling"),
        blocks=_nodes,
        active=lambda p, *to: lay.active_any_siblings(p.layout, *to),
        rows="arc",
        row_roles=("head", "second"),
        places=lambda p, bs, base, stride, _, to: lay.any_sibling_places(p.layout, bs, base, stride, to),
    ),
    HigherOrder(
        "head_bigram",
        order=2,
        roles=("modifier", "head", "head of the word before"),
        most=lambda n: n - 1,
        block_offsets=_common("head_bigram"),
        blocks=_words,
        active=lambda p, *to: lay.active_head_bigrams(p.layout, *to),
        rows="arc",
        row_roles=("head", "modifier"),
        places=lambda p, bs, base, stride, _, to: lay.head_bigram_places(p.layout, bs, base, stride, to),
    ),
    HigherOrder(
        "grand_sibling",
        order=3,
        roles=("grandparent", "head", "inner", "outer"),
        most=lambda n: 3 * n,
        block_offsets=_common("grand_sibling"),
        blocks=lambda p: 2 * _arcs(p),
        active=lambda p, arcs, *to: lay.active_siblings(p.layout, arcs, True, *to),
        rows="sibling",
        row_roles=("head", "inner", "outer"),
        places=lambda p, bs, base, stride, _, to: lay.grand_sibling_places(p.layout, bs, base, stride, to),
    ),
    HigherOrder(
        "tri_sibling",
        order=3,
        roles=("head", "innermost", "middle", "outermost"),
        most=lambda n: n,
        block_offsets=_common("tri_sibling"),
        blocks=lambda p: 2 * _nodes(p),
        active=lambda p, *to: lay.active_tri_siblings(p.layout, *to),
        rows="sibling",
        row_roles=("head", "middle", "outermost"),
        places=lambda p, bs, base, stride, start, to: lay.tri_sibling_places(p.layout, bs, base, stride, start, to),
    ),
    HigherOrder(
        "grand_grandparent",
        order=3,
        roles=("modifier", "head", "grandparent", "head of the grandparent"),
        most=lambda n: n,
        block_offsets=_grand_grandparents,
        blocks=_arcs,
        active=lambda p, *to: lay.active_grand_grandparents(p.layout, p.wide, *to),
        rows="grandparent",
        row_roles=("modifier", "head", "grandparent"),
        places=lambda p, bs, base, stride, _, to: lay.grand_grandparent_places(
            p.layout, bs, p.part_offsets("grand_grandparent"), base, stride, to
        ),
    ),
    HigherOrder(
        "inner_sibling_grandchild",
        order=3,
        roles=("head", "inner", "outer", "grandchild"),
        most=lambda n: n,
        block_offsets=_inner_grandchildren,
        blocks=_arcs,
        active=lambda p, arcs, *to: lay.active_grandchildren(p.layout, p.wide, arcs, False, *to),
        rows="sibling",
        row_roles=("head", "inner", "outer"),
        places=lambda p, bs, base, stride, _, to: lay.grandchild_places(
            p.layout, bs, False, p.part_offsets("inner_sibling_grandchild"), base, stride, to
        ),
    ),
    HigherOrder(
        "outer_sibling_grandchild",
        order=3,
        roles=("head", "inner", "outer", "grandchild"),
        most=lambda n: n,
        block_offsets=_outer_grandchildren,
        blocks=_arcs,
        active=lambda p, arcs, *to: lay.active_grandchildren(p.layout, p.wide, arcs, True, *to),
        rows="sibling",
        row_roles=("head", "inner", "outer"),
        places=lambda p, bs, base, stride, _, to: lay.grandchild_places(
            p.layout, bs, True, p.part_offsets("outer_sibling_grandchild"), base, stride, to
        ),
    ),
    TreeFeature(
        "valency",
        order=0,
        roles=("word", "modifiers on the left, up to 5", "on the right, up to 5"),
        most=lambda n: n,
        block_offsets=_per_word(VALENCIES * VALENCIES),
        blocks=_words,
        active=lambda p, *to: tree_features.active_valencies(p.layout, p.wide, *to),
        table=lambda N: (N, VALENCIES, VALENCIES),
        entries=_table_of_words(VALENCIES, VALENCIES),
    ),
    TreeFeature(
        "span",
        order=0,
        roles=("word", "length, 0..4", "what follows, 0..2"),
        most=lambda n: n,
        block_offsets=_per_word(LENGTHS * TAILS),
        blocks=_words,
        active=lambda p, *to: tree_features.active_spans(p.layout, p.wide, *to),
        table=lambda N: (N, LENGTHS, TAILS),
        entries=_table_of_words(LENGTHS, TAILS),
    ),
    TreeFeature(
        "neighbours",
        order=0,
        roles=("modifier", "head", "tag before the span", "tag after the span"),
        most=lambda n: n,
        block_offsets=_per_arc(NEIGHBOURS * NEIGHBOURS),
        blocks=_arcs,
        active=lambda p, *to: tree_features.active_neighbours(p.layout, p.wide, *to),
        table=lambda N: (N, N, NEIGHBOURS, NEIGHBOURS),
        entries=_table_of_arcs(NEIGHBOURS, NEIGHBOURS),
    ),
    TreeFeature(
        "crossing",
        order=0,
        roles=("modifier", "head", "range of the count, 0..6"),
        most=lambda n: n,
        block_offsets=_per_arc(CROSSINGS),
        blocks=_arcs,
        active=lambda p, *to: tree_features.active_crossings(p.layout, *to),
        table=lambda N: (N, N, CROSSINGS),
        entries=_table_of_arcs(CROSSINGS),
    ),
    TreeFeature(
        "right_branching",
        order=0,
        roles=("words on the last path",),
        most=np.ones_like,
        block_offsets=lambda p: offsets_of(p.lengths.astype(np.int64) + 1),
        blocks=_sentences,
        active=lambda p, *to: tree_features.active_right_branching(p.layout, p.wide, *to),
        table=lambda N: (N,),
        entries=_path_lengths,
    ),
    TreeFeature(
        "coordination",
        order=0,
        roles=("conjunction", "second conjunct", "first conjunct"),
        most=lambda n: n,
        block_offsets=lambda p: offsets_of(_per_conjunction(p)),
        blocks=_words,
        active=lambda p, arcs, *to: tree_features.active_coordinations(p.layout, p.wide, arcs, False, *to),
        table=lambda N: (N, N, N),
        entries=_conjunction_pairs,
    ),
    TreeFeature(
        "conjunct",
        order=0,
        roles=("conjunction", "conjunct", "head of the coordination"),
        most=lambda n: 2 * n,
        block_offsets=lambda p: offsets_of(_per_conjunction(p)),
        blocks=_words,
        active=lambda p, arcs, *to: tree_features.active_coordinations(p.layout, p.wide, arcs, True, *to),
        table=lambda N: (N, N, N),
        entries=_conjunction_pairs,
    ),
)

KINDS: dict[str, Kind] = {kind.name: kind for kind in _RECORDS}
"""All kinds by name, higher-order parts first."""

HIGHER_ORDER: dict[str, HigherOrder] = {kind.name: kind for kind in _RECORDS if isinstance(kind, HigherOrder)}
"""Kinds of parts that are made of a few arcs."""

TREE_FEATURES: tuple[str, ...] = tuple(name for name in KINDS if name not in HIGHER_ORDER)
"""Kinds that depend on more than a few arcs."""

COMMON: tuple[str, ...] = tuple(name for name in KINDS if name in Layout._fields)
"""Kinds that kernels read from `Layout`: all decoders that look at more than arcs search by them."""


def kind_of(name: str) -> Kind:
    """Record of a kind.

    Raises:
        ValueError: there is no such kind.
    """
    if name not in KINDS:
        raise ValueError(f"no kind of parts is called {name}: choose from {', '.join(KINDS)}")
    return KINDS[name]
