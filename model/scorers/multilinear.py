"""Low-rank multilinear scores of parts with three and four words.

A part's score is the sum, over `rank` dimensions, of a product of vectors, one for each word in its role:

    grandparent(g, h, m)       = sum_r  head(h) modifier(m)  grandparent(g)
    sibling(h, s, m)           = sum_r  head(h) modifier(m)  sibling(s)
    grand_sibling(g, h, s, m)  = sum_r  head(h) modifier(m)  inner(s)  grand(g)
    tri_sibling(h, t, s, m)    = sum_r  head(h) modifier(m)  inner(s)  tri(t)
    grand_grandparent(m, ...)  = sum_r  head(h) modifier(m)  upper(g)  above(head of g)

and likewise for `any_sibling`, `head_bigram`, `inner_sibling_grandchild` and `outer_sibling_grandchild`. Every part has
an arc (h, m), or END instead of m. The product of the two vectors is a row, which is computed once for all parts with
this arc. Kinds of third order have rows for three words: a head with two siblings, or a word with its head and
grandparent. On a CPU, a kernel multiplies the vectors of the parts that exist (`arbora.model.scorers.products`). On
other devices, and for gradients of all scores, one matrix product per sentence multiplies the rows with the vectors of
all words, and the parts are picked from the result: this computes more than necessary, but takes a fraction of the time
of gathering vectors for every part. A head has one vector for each side, because the sum cannot tell left from right.

Attachment of prepositions, a feature of Zhang et al. (2014), looks at a preposition, its noun, and the head of the two:
a grandparent part in which the preposition is the modifier (as in UD) or the head. With `attachment`, so many
additional dimensions score grandparents. Half of them are multiplied by a gate of the modifier, half by a gate of the
head; with these gates the model learns which words are prepositions. All other kinds ignore these dimensions.

Lei et al. (2014), "Low-rank tensors for scoring dependency structures", for the form; Wang et al. (2019) for its use
with neural encoders.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from arbora.decoders.parts.batch import Parts
from arbora.decoders.parts.kinds import HIGHER_ORDER
from arbora.decoders.parts.layout import row_words
from arbora.model.layers import Projection
from arbora.model.scorers.products import Spots, score_parts
from arbora.model.tensors import numbers, upload

CELLS = {"cpu": 250_000, "cuda": 20_000_000}
"""Maximum number of cells of a matrix product; sentences are processed in groups below this size. On a CPU, groups that
fit the cache took 0.6 of the time of a whole batch; a GPU needs larger groups."""

WITH_START = ("sibling", "tri_sibling")


@dataclass(frozen=True)
class Multilinear:
    """Settings of the scorers of higher-order parts.

    Args:
        kinds: kinds of parts to score.
        rank: size of the vector of a word in each role.
        dropout: dropout on these vectors; one mask for all words of a sentence.
        attachment: number of dimensions that score the attachment of prepositions, an even number; 0 for none.
    """

    kinds: tuple[str, ...] = ("grandparent", "sibling")
    rank: int = 64
    dropout: float = 0.33
    attachment: int = 0

    def __post_init__(self) -> None:
        kinds = tuple(kind for kind in HIGHER_ORDER if kind in self.kinds)
        if not kinds or len(kinds) != len(self.kinds):
            names = ", ".join(HIGHER_ORDER)
            raise ValueError(f"parts.kinds must be some of {names}, each once, got {', '.join(self.kinds)}")
        object.__setattr__(self, "kinds", kinds)
        if self.attachment % 2 or (self.attachment and "grandparent" not in kinds):
            raise ValueError(
                f"parts.attachment must be even and needs grandparent in parts.kinds, got {self.attachment}"
            )


@dataclass
class Vectors:
    """Vectors of a batch's words in their roles; all (B, positions, rank), or (1, positions, rank) without padding."""

    head: Tensor  # 2N positions: both sides of position 0, then of 1, ...
    modifier: Tensor  # N + 2: words, then END left and right
    third: dict[str, Tensor]  # third word of a row, by what rows are: inner sibling (N + 2 with START), grandparent (N)
    columns: dict[str, Tensor]  # N, or N + 2 with START left and right

    def detach(self) -> Vectors:
        """Return the same vectors without gradients."""
        third = {kind: role.detach() for kind, role in self.third.items()}
        columns = {kind: column.detach() for kind, column in self.columns.items()}
        return Vectors(self.head.detach(), self.modifier.detach(), third, columns)

    def spots(self, lengths: NDArray[np.integer]) -> Spots:
        """Return the places of the words of sentences of these lengths (B,)."""
        rows, N, sentence = self.head.shape[0], self.head.shape[1] // 2, np.arange(len(lengths))
        if rows == len(lengths):
            return Spots(sentence * N, sentence * (N + 2), sentence * (N + 2) + N)
        start = np.cumsum(lengths + np.int64(1)) - lengths - 1
        return Spots(start, start, np.full(len(lengths), N))


@dataclass
class Table:
    """Places of parts with the same rows in the products of rows and columns; on the scorer's device."""

    rows: int  # of each sentence
    first: (
        Tensor  # (B * rows,) position of a row's head in `Vectors.head`; of three words, the row of head and modifier
    )
    second: Tensor  # (B * rows,) position of its modifier in `Vectors.modifier`; of three words, that of the third
    width: int  # columns
    column: dict[str, int]  # first column of each type
    flat: dict[str, Tensor]  # (P,) `(b * rows + row) * width + column` of each part
    offsets: dict[str, NDArray[np.int64]]  # (B+1,) parts of each sentence


@dataclass
class Places:
    """Places of the words of all parts of a batch, in tables that are computed on first use."""

    parts: Parts
    kinds: tuple[str, ...]  # to be scored
    device: torch.device

    @cached_property
    def pairs(self) -> Table:
        """Rows are arcs (h, m), and END of each side."""
        parts = self.parts
        B, N = len(parts.lengths), int(parts.lengths.max(initial=0)) + 1
        rows = int((np.diff(parts.sentence_offsets) + 2 * (parts.lengths + 1)).max(initial=0))
        head, modifier = np.zeros((2, B, rows), np.int64)
        row_words(parts.layout, head, modifier)
        head += 2 * N * np.arange(B)[:, None]
        modifier += (N + 2) * np.arange(B)[:, None]
        return self._table("arc", rows, head, modifier)

    @cached_property
    def triples(self) -> dict[str, Table]:
        """Rows are entries of `sibling`, or of `grandparent`."""
        parts = self.parts
        B, N = len(parts.lengths), int(parts.lengths.max(initial=0)) + 1
        sentence, rows = np.arange(B), self.pairs.rows
        triples = {}
        for rows_are in triples_of(self.kinds):
            width = N + 2 * (rows_are in WITH_START)
            offsets = parts.part_offsets(rows_are)
            counts = np.diff(offsets)
            most = int(counts.max(initial=0))
            row, third = np.zeros((2, B * most), np.int64)
            into = np.arange(offsets[-1]) + np.repeat(sentence * most - offsets[:-1], counts)
            place = parts.places(rows_are, sentence * rows * width, width, N)
            row[into], third[into] = np.divmod(place, width)
            third += width * np.repeat(sentence, most)
            triples[rows_are] = self._table(rows_are, most, row, third)
        return triples

    def _table(self, rows_are: str, rows: int, first: NDArray[np.int64], second: NDArray[np.int64]) -> Table:
        parts, kinds = self.parts, [kind for kind in self.kinds if HIGHER_ORDER[kind].rows == rows_are]
        N = int(parts.lengths.max(initial=0)) + 1
        column: dict[str, int] = {}
        width = 0
        for kind in kinds:
            column[kind] = width
            width += N + 2 * (kind in WITH_START)
        base = np.arange(len(parts.lengths)) * rows * width
        flat = {kind: parts.places(kind, base + column[kind], width, N) for kind in kinds}
        ones, others, *places = upload([first.reshape(-1), second.reshape(-1), *flat.values()], self.device)
        return Table(
            rows=rows,
            first=ones,
            second=others,
            width=width,
            column=column,
            flat=dict(zip(flat, places)),
            offsets={kind: parts.part_offsets(kind) for kind in kinds},
        )


def triples_of(kinds: Sequence[str]) -> tuple[str, ...]:
    """Return the kinds of rows of three words that kinds of parts with four words need."""
    both: tuple[str, ...] = ("sibling", "grandparent")
    return tuple(rows for rows in both if any(HIGHER_ORDER[kind].rows == rows for kind in kinds))


class Attachment(nn.Module):
    """More dimensions for grandparents, with gates for prepositions."""

    def __init__(self, inputs: int, settings: Multilinear) -> None:
        super().__init__()
        self.size = settings.attachment
        self.project = Projection(inputs, 4 * self.size, settings.dropout)
        self.gate = nn.Linear(inputs, 2)
        self.weight = nn.Parameter(torch.zeros(self.size))

    def forward(self, vectors: Tensor, roles: Vectors) -> Vectors:
        """Roles with more dimensions, from the words (B, N, inputs)."""
        left, right, modifier, above = self.project(vectors).split(self.size, -1)
        of_modifier, of_head = torch.sigmoid(self.gate(vectors)).split(1, -1)  # (B, N, 1)
        first_half = torch.arange(self.size, device=vectors.device) < self.size // 2
        head = torch.stack([left, right], 2) * torch.where(first_half, 1.0, of_head)[:, :, None]
        return Vectors(
            torch.cat([roles.head, head.flatten(1, 2)], -1),
            _widen(roles.modifier, modifier * torch.where(first_half, of_modifier, 1.0)),
            {kind: _widen(third, above[:, :0]) for kind, third in roles.third.items()},
            {
                kind: _widen(column, above * self.weight if kind == "grandparent" else above[:, :0])
                for kind, column in roles.columns.items()
            },
        )


class PartScorer(nn.Module):
    """Scores of the parts that candidate arcs make."""

    def __init__(self, inputs: int, settings: Multilinear) -> None:
        super().__init__()
        self.kinds = settings.kinds
        self.rank = settings.rank
        self.triples = triples_of(self.kinds)
        roles = 3 + len(self.triples) + len(self.kinds)
        self.project = Projection(inputs, roles * self.rank, settings.dropout)
        self.end = nn.Parameter(torch.randn(2, self.rank) * 0.1)
        self.inner_start = nn.Parameter(torch.randn(2, self.rank) * 0.1) if "sibling" in self.triples else None
        starts = {kind: nn.Parameter(torch.randn(2, self.rank) * 0.1) for kind in self.kinds if kind in WITH_START}
        self.start = nn.ParameterDict(starts)
        # Zeros, so that training starts from the first-order model; products of vectors near zero would hardly learn.
        self.weight = nn.ParameterDict({kind: nn.Parameter(torch.zeros(self.rank)) for kind in self.kinds})
        self.attachment = Attachment(inputs, settings) if settings.attachment else None

    def forward(self, vectors: Tensor) -> Vectors:
        """Words (B, N, inputs) in their roles."""
        B, N, _ = vectors.shape
        roles = self.project(vectors).split(self.rank, -1)
        head = torch.stack(roles[:2], 2).reshape(B, 2 * N, self.rank)
        third = dict(zip(self.triples, roles[3:]))
        if self.inner_start is not None:
            third["sibling"] = _append(third["sibling"], self.inner_start)
        columns: dict[str, Tensor] = {}
        for kind, role in zip(self.kinds, roles[3 + len(self.triples) :], strict=True):
            column = _append(role, self.start[kind]) if kind in WITH_START else role
            columns[kind] = column * self.weight[kind]
        roles_of = Vectors(head, _append(roles[2], self.end), third, columns)
        return roles_of if self.attachment is None else self.attachment(vectors, roles_of)

    def places(self, parts: Parts, device: torch.device) -> Places:
        """Return the places of the words of all parts."""
        return Places(parts, self.kinds, device)

    def score(self, vectors: Vectors, places: Places) -> dict[str, Tensor]:
        """Scores of all parts, (P,) for each type."""
        if vectors.head.device.type == "cpu" and not (torch.is_grad_enabled() and vectors.head.requires_grad):
            return self._score_alone(vectors, places.parts)
        pairs = places.pairs
        scores = _score_table(pairs, vectors, lambda rows: _pairs(vectors, pairs, rows))
        for rows_are, table in places.triples.items():
            make_rows = partial(_triples, vectors, pairs, table, vectors.third[rows_are])
            scores |= _score_table(table, vectors, make_rows)
        return {kind: scores[kind] for kind in self.kinds}

    def _score_alone(self, vectors: Vectors, parts: Parts) -> dict[str, Tensor]:
        """Scores of all parts, without the products of other words."""
        spots, head, modifier = vectors.spots(parts.lengths), numbers(vectors.head), numbers(vectors.modifier)
        third = {rows: numbers(role) for rows, role in vectors.third.items()}
        scores: dict[str, Tensor] = {}
        for kind in self.kinds:
            roles = head, modifier, third.get(HIGHER_ORDER[kind].rows), numbers(vectors.columns[kind])
            scores[kind] = torch.from_numpy(score_parts(kind, parts, spots, *roles))
        return scores

    def score_some(self, vectors: Vectors, places: Places, kind: str, entries: Tensor) -> Tensor:
        """Scores of a few parts of one type, by their numbers; equal to those of `score`."""
        rows_are = HIGHER_ORDER[kind].rows
        table = places.pairs if rows_are == "arc" else places.triples[rows_are]
        flat = table.flat[kind][entries]
        row = flat.div(table.width, rounding_mode="floor")
        column = vectors.columns[kind]
        place = row.div(table.rows, rounding_mode="floor") * column.shape[1] + flat % table.width - table.column[kind]
        if rows_are == "arc":
            rows = _pairs(vectors, table, row)
        else:
            rows = _triples(vectors, places.pairs, table, vectors.third[rows_are], row)
        return (rows * _pick(column, place)).sum(-1)


def _append(role: Tensor, more: Tensor) -> Tensor:
    """Vectors of words (B, N, rank) and, behind them, START or END of both sides."""
    return torch.cat([role, more.to(role.dtype).expand(role.shape[0], -1, -1)], 1)


def _widen(role: Tensor, more: Tensor) -> Tensor:
    """Vectors (B, positions, rank) with more dimensions (B, up to positions, size), zero where there are none."""
    return torch.cat([role, functional.pad(more, (0, 0, 0, role.shape[1] - more.shape[1]))], -1)


def _pick(vectors: Tensor, place: Tensor) -> Tensor:
    return vectors.flatten(0, 1).index_select(0, place)


def _pairs(vectors: Vectors, pairs: Table, rows: Tensor | slice) -> Tensor:
    """Products of head and modifier, (rows, rank)."""
    return _pick(vectors.head, pairs.first[rows]) * _pick(vectors.modifier, pairs.second[rows])


def _triples(vectors: Vectors, pairs: Table, triples: Table, third: Tensor, rows: Tensor | slice) -> Tensor:
    """Products of head, modifier and a third word, (rows, rank)."""
    return _pairs(vectors, pairs, triples.first[rows]) * _pick(third, triples.second[rows])


def _score_table(table: Table, vectors: Vectors, make_rows: Callable[[slice], Tensor]) -> dict[str, Tensor]:
    """Multiply rows and columns, for a group of sentences at a time, and pick the parts."""
    if not table.flat:
        return {}
    columns = torch.cat([vectors.columns[kind] for kind in table.flat], 1).transpose(1, 2)  # (B, rank, width)
    cells = CELLS["cpu" if columns.device.type == "cpu" else "cuda"]
    size = max(1, cells // max(1, table.rows * table.width))
    scores: dict[str, list[Tensor]] = {kind: [] for kind in table.flat}
    for start in range(0, len(columns), size):
        end = min(start + size, len(columns))
        rows = make_rows(slice(start * table.rows, end * table.rows)).unflatten(0, (end - start, table.rows))
        product = torch.bmm(rows, columns[start:end]).flatten()
        for kind, flat in table.flat.items():
            entries = slice(*table.offsets[kind][[start, end]])
            scores[kind].append(product.index_select(0, flat[entries] - start * table.rows * table.width))
    return {kind: torch.cat(found) for kind, found in scores.items()}
