"""Low-rank multilinear scores of parts with three and four words.

A part's score is the sum, over `rank` dimensions, of a product of vectors, one for each word in its role:

    grandparent(g, h, m)       = sum_r  head(h) modifier(m)  grandparent(g)
    sibling(h, s, m)           = sum_r  head(h) modifier(m)  sibling(s)
    grand_sibling(g, h, s, m)  = sum_r  head(h) modifier(m)  inner(s)  grand(g)
    tri_sibling(h, t, s, m)    = sum_r  head(h) modifier(m)  inner(s)  tri(t)

and likewise for `any_sibling` and `head_bigram`. Every part has an arc (h, m), or END in place of m; its product of two
vectors is made once, as a row, and shared by all types of second order. Rows times the vectors of all words is one
matrix product a sentence, from which the parts that exist are picked; types of third order do the same with rows for
three words. That computes more than is needed, yet takes a fraction of the time of fetching the vectors of every part.
A head has one vector for each side, as the sum would not know left from right otherwise.

Lei et al. (2014), "Low-rank tensors for scoring dependency structures", for the form; Wang et al. (2019) for its use
with neural encoders.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from arbora.decoders.layout import row_words
from arbora.decoders.parts import FOUR_WORDS, KINDS, Kind, Parts
from arbora.model.biaffine import Projection

CELLS = {"cpu": 250_000, "cuda": 20_000_000}
"""Most cells of a matrix product that are held at a time; sentences are taken in groups that stay below. A group that
stays in a CPU's cache took 0.6 of the time of a whole batch; a GPU wants much work at a time."""

WITH_START = ("sibling", "tri_sibling")


@dataclass(frozen=True)
class Multilinear:
    """Settings of the scorers of higher-order parts.

    Args:
        kinds: types of parts that are scored.
        rank: size of the vector of a word in each role.
        dropout: on these vectors; one mask for all words of a sentence.
    """

    kinds: tuple[Kind, ...] = ("grandparent", "sibling")
    rank: int = 64
    dropout: float = 0.33

    def __post_init__(self) -> None:
        kinds = tuple(kind for kind in KINDS if kind in self.kinds)
        if not kinds or len(kinds) != len(self.kinds):
            raise ValueError(f"parts.kinds must be some of {', '.join(KINDS)}, each once, got {', '.join(self.kinds)}")
        object.__setattr__(self, "kinds", kinds)


@dataclass
class Vectors:
    """Vectors of a batch's words in their roles; all (B, positions, rank)."""

    head: Tensor  # 2N positions: both sides of position 0, then of 1, ...
    modifier: Tensor  # N + 2: words, then END left and right
    inner: Tensor | None  # N + 2: words, then START left and right
    columns: dict[Kind, Tensor]  # N, or N + 2 with START left and right

    def detach(self) -> Vectors:
        """The same without gradients."""
        inner = None if self.inner is None else self.inner.detach()
        columns = {kind: column.detach() for kind, column in self.columns.items()}
        return Vectors(self.head.detach(), self.modifier.detach(), inner, columns)


@dataclass
class Table:
    """Where the parts of second, or of third order are in the products of rows and columns; on the scorer's device."""

    rows: int  # of each sentence
    first: Tensor  # (B * rows,) position of a row's head in `Vectors.head`, or the row of a triple in the other table
    second: Tensor  # (B * rows,) position of its modifier in `Vectors.modifier`, or of its inner sibling
    width: int  # columns
    column: dict[Kind, int]  # first column of each type
    flat: dict[Kind, Tensor]  # (P,) `(b * rows + row) * width + column` of each part
    offsets: dict[Kind, NDArray[np.int64]]  # (B+1,) parts of each sentence


@dataclass
class Places:
    """Where the words of all parts of a batch are."""

    pairs: Table  # rows are arcs (h, m), and END of each side
    triples: Table | None  # rows are entries of `sibling`


class PartScorer(nn.Module):
    """Scores of the parts that candidate arcs make."""

    def __init__(self, inputs: int, settings: Multilinear) -> None:
        super().__init__()
        self.kinds = settings.kinds
        self.rank = settings.rank
        self.triples = any(kind in FOUR_WORDS for kind in self.kinds)
        roles = 3 + self.triples + len(self.kinds)
        self.project = Projection(inputs, roles * self.rank, settings.dropout)
        self.end = nn.Parameter(torch.randn(2, self.rank) * 0.1)
        self.inner_start = nn.Parameter(torch.randn(2, self.rank) * 0.1) if self.triples else None
        starts = {kind: nn.Parameter(torch.randn(2, self.rank) * 0.1) for kind in self.kinds if kind in WITH_START}
        self.start = nn.ParameterDict(starts)
        # Zeros, so that training starts from the first-order model; products of vectors near zero would hardly learn.
        self.weight = nn.ParameterDict({kind: nn.Parameter(torch.zeros(self.rank)) for kind in self.kinds})

    def forward(self, vectors: Tensor) -> Vectors:
        """Words (B, N, inputs) in their roles."""
        B, N, _ = vectors.shape
        roles = self.project(vectors).unflatten(-1, (-1, self.rank)).unbind(2)
        head = torch.stack(roles[:2], 2).reshape(B, 2 * N, self.rank)
        inner = _append(roles[3], self.inner_start) if self.inner_start is not None else None
        columns: dict[Kind, Tensor] = {}
        for kind, role in zip(self.kinds, roles[3 + self.triples :], strict=True):
            column = _append(role, self.start[kind]) if kind in WITH_START else role
            columns[kind] = column * self.weight[kind]
        return Vectors(head, _append(roles[2], self.end), inner, columns)

    def places(self, parts: Parts, device: torch.device) -> Places:
        """Look up where the words of all parts are."""
        B, N = len(parts.lengths), int(parts.lengths.max(initial=0)) + 1
        sentence = np.arange(B)
        rows = int((np.diff(parts.sentence_offsets) + 2 * (parts.lengths + 1)).max(initial=0))
        head, modifier = np.zeros((2, B, rows), np.int64)
        row_words(parts.layout, head, modifier)
        head += 2 * N * sentence[:, None]
        modifier += (N + 2) * sentence[:, None]
        second_order = tuple(kind for kind in self.kinds if kind not in FOUR_WORDS)
        pairs = self._table(parts, second_order, rows, head, modifier, device)
        if not self.triples:
            return Places(pairs, None)
        offsets = parts.part_offsets("sibling")
        counts = np.diff(offsets)
        triples = int(counts.max(initial=0))
        row, inner = np.zeros((2, B * triples), np.int64)
        into = np.arange(offsets[-1]) + np.repeat(sentence * triples - offsets[:-1], counts)
        place = parts.places("sibling", sentence * rows * (N + 2), N + 2, N)
        row[into], inner[into] = np.divmod(place, N + 2)
        inner += (N + 2) * np.repeat(sentence, triples)
        third_order = tuple(kind for kind in self.kinds if kind in FOUR_WORDS)
        return Places(pairs, self._table(parts, third_order, triples, row, inner, device))

    @staticmethod
    def _table(
        parts: Parts,
        kinds: tuple[Kind, ...],
        rows: int,
        first: NDArray[np.int64],
        second: NDArray[np.int64],
        device: torch.device,
    ) -> Table:
        N = int(parts.lengths.max(initial=0)) + 1
        column: dict[Kind, int] = {}
        width = 0
        for kind in kinds:
            column[kind] = width
            width += N + 2 * (kind in WITH_START)
        base = np.arange(len(parts.lengths)) * rows * width
        flat = {kind: parts.places(kind, base + column[kind], width, N) for kind in kinds}
        return Table(
            rows=rows,
            first=torch.from_numpy(first.reshape(-1)).to(device),
            second=torch.from_numpy(second.reshape(-1)).to(device),
            width=width,
            column=column,
            flat={kind: torch.from_numpy(place).to(device) for kind, place in flat.items()},
            offsets={kind: parts.part_offsets(kind) for kind in kinds},
        )

    def score(self, vectors: Vectors, places: Places) -> dict[Kind, Tensor]:
        """Scores of all parts, (P,) for each type."""
        pairs, triples = places.pairs, places.triples
        scores = _score_table(pairs, vectors, lambda rows: _pairs(vectors, pairs, rows))
        if triples is not None:
            scores |= _score_table(triples, vectors, lambda rows: _triples(vectors, pairs, triples, rows))
        return {kind: scores[kind] for kind in self.kinds}

    def score_some(self, vectors: Vectors, places: Places, kind: Kind, entries: Tensor) -> Tensor:
        """Scores of a few parts of one type, by their numbers; equal to those of `score`."""
        table = places.triples if kind in FOUR_WORDS else places.pairs
        assert table is not None
        flat = table.flat[kind][entries]
        row = flat.div(table.width, rounding_mode="floor")
        column = vectors.columns[kind]
        place = row.div(table.rows, rounding_mode="floor") * column.shape[1] + flat % table.width - table.column[kind]
        rows = _triples(vectors, places.pairs, table, row) if kind in FOUR_WORDS else _pairs(vectors, table, row)
        return (rows * _pick(column, place)).sum(-1)


def _append(role: Tensor, more: Tensor) -> Tensor:
    """Vectors of words (B, N, rank) and, behind them, START or END of both sides."""
    return torch.cat([role, more.to(role.dtype).expand(len(role), -1, -1)], 1)


def _pick(vectors: Tensor, place: Tensor) -> Tensor:
    return vectors.flatten(0, 1).index_select(0, place)


def _pairs(vectors: Vectors, pairs: Table, rows: Tensor | slice) -> Tensor:
    """Products of head and modifier, (rows, rank)."""
    return _pick(vectors.head, pairs.first[rows]) * _pick(vectors.modifier, pairs.second[rows])


def _triples(vectors: Vectors, pairs: Table, triples: Table, rows: Tensor | slice) -> Tensor:
    """Products of head, modifier and inner sibling, (rows, rank)."""
    assert vectors.inner is not None
    return _pairs(vectors, pairs, triples.first[rows]) * _pick(vectors.inner, triples.second[rows])


def _score_table(table: Table, vectors: Vectors, make_rows: Callable[[slice], Tensor]) -> dict[Kind, Tensor]:
    """Multiply rows and columns, for a group of sentences at a time, and pick the parts."""
    if not table.flat:
        return {}
    columns = torch.cat([vectors.columns[kind] for kind in table.flat], 1).transpose(1, 2)  # (B, rank, width)
    cells = CELLS["cpu" if columns.device.type == "cpu" else "cuda"]
    size = max(1, cells // max(1, table.rows * table.width))
    scores: dict[Kind, list[Tensor]] = {kind: [] for kind in table.flat}
    for start in range(0, len(columns), size):
        end = min(start + size, len(columns))
        rows = make_rows(slice(start * table.rows, end * table.rows)).unflatten(0, (end - start, table.rows))
        product = torch.bmm(rows, columns[start:end]).flatten()
        for kind, flat in table.flat.items():
            entries = slice(*table.offsets[kind][[start, end]])
            scores[kind].append(product.index_select(0, flat[entries] - start * table.rows * table.width))
    return {kind: torch.cat(found) for kind, found in scores.items()}
