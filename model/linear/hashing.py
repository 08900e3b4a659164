"""Features of parts as places in one table of weights, hashed on the fly.

The hash of a feature is a sum of 32-bit numbers, one for each word of the part and one for the order of the words; its
first bits are a place in the table. The number of a word in a role depends on the template, and is computed once for
each word of a sentence: a part then costs one addition per template and word, and nothing is stored for it. Rows and
columns are those of `Parts.places`, so that what the words of a row add up to is shared by all parts of the row.

A feature of a label is a place counted from that of the feature of its arc: the scores of all labels are next to each
other, and read together.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from arbora.data.batch import Batch
from arbora.decoders import Parts
from arbora.decoders.kernels.options import HELPER, KERNEL
from arbora.decoders.kernels.threads import over_sentences
from arbora.decoders.parts.kinds import HIGHER_ORDER
from arbora.decoders.parts.tree_features import (
    CROSSINGS,
    LENGTHS,
    NEIGHBOURS,
    PUNCTUATION,
    TAG_NUMBERS,
    TAILS,
    VALENCIES,
)
from arbora.model.linear.templates import ARC_BETWEEN, ARC_FEATS, COLUMNS, PARTS, ROLES, Atom, parse

Ints = NDArray[np.int64]
Arcs = tuple[Ints, NDArray[np.int32], NDArray[np.int32]]
"""Offsets of the arcs of each sentence (B+1,), their heads and modifiers (A,)."""

Hashes = NDArray[np.uint32]

FAST = {"reassoc", "contract", "nsz"}  # sums in any order
NONE, OUTSIDE = np.uint64(1 << 40), np.uint64(1 << 41)
"""Codes of START and END (of a left side; that of a right side is the next), and of words beyond the sentence."""

EXTRA = 2
"""Positions behind the words of a sentence: START and END of both sides."""

DISTANCES = 8
TAG_BITS, GROUPS, COUNTS = 64, 3, 4
"""Features between two words: tags, and numbers 0..3 of words of some groups of tags."""

VERBS = (TAG_NUMBERS["VERB"], TAG_NUMBERS["AUX"])
CONJUNCTIONS = (TAG_NUMBERS["CCONJ"], TAG_NUMBERS["SCONJ"])
SHARES = 11
"""Entries of the share of words on the last path."""

TABLES = {
    "valency": VALENCIES * VALENCIES,
    "span": LENGTHS * TAILS,
    "neighbours": NEIGHBOURS * NEIGHBOURS,
    "crossing": CROSSINGS,
    "right_branching": SHARES,
}
"""Sizes of the tables of tree features."""


class Words(NamedTuple):
    """Words of a batch as numbers. Each sentence has n + 1 + `EXTRA` positions, one sentence after the other."""

    lengths: Ints  # (B,)
    starts: Ints  # (B+1,)
    codes: NDArray[np.uint64]  # (positions, columns)
    feats: NDArray[np.uint64]  # (positions, F) single features
    feat_counts: Ints  # (positions,)
    tags: NDArray[np.uint8]  # (W,) universal tags of words as `Parts` numbers them
    tag_bits: NDArray[np.uint64]  # (positions,) one bit for the tag
    before: NDArray[np.int32]  # (positions, groups) words of groups of tags up to this one


class ArcHashes(NamedTuple):
    """Hashes of the words of a batch as heads and modifiers."""

    words: Words
    roles: Hashes  # (2, positions, T)
    shape: Hashes  # (2 DISTANCES, T) of direction and distance
    between_roles: Hashes  # (2, positions, T)
    between: Hashes  # (elements, T)
    feat_roles: Hashes  # (2, positions, T)
    feats: Hashes  # (2, positions, F, T)


class PartHashes(NamedTuple):
    """Hashes of the words of a batch in the parts of a kind, and which words these are."""

    row_offsets: Ints  # (B+1,)
    rows: NDArray[np.int32]  # (R, roles) words
    row_roles: Hashes  # (roles, positions, T)
    row_shape: Hashes  # (8, T) of the order of the words
    columns: Hashes  # (positions or numbers, T)
    column_starts: Ints  # (B,) where the columns of each sentence start
    column_shape: Hashes  # (8, T)
    part_offsets: Ints  # (B+1,)
    places: Ints  # (P,) row << bits | column, rows counted from the first of the sentence
    bits: int
    first_extra: int  # column of START of left sides


def salt(*names: object) -> np.uint64:
    """A 64-bit number for a name, always the same."""
    digest = blake2b("|".join(map(str, names)).encode(), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


class Atoms(NamedTuple):
    """Atoms of the templates of a kind, as kernels read them: (atoms,) arrays."""

    templates: int
    template: Ints
    role: Ints
    column: Ints
    offset: Ints
    salt: NDArray[np.uint64]

    @classmethod
    def of(cls, name: str, templates: Sequence[str], letters: str) -> Atoms:
        """Parse templates.

        Args:
            name: goes into the hashes.
            templates: of a kind of parts.
            letters: of its words.
        """
        found: list[tuple[int, Atom, np.uint64]] = []
        for t, template in enumerate(templates):
            found += [(t, atom, salt(name, template, *atom)) for atom in parse(template, letters)[0]]
        numbers = np.array([(t, *atom) for t, atom, _ in found], np.int64).reshape(-1, 4).T
        template, role, column, offset = np.ascontiguousarray(numbers)
        return cls(len(templates), template, role, column, offset, np.array([s for *_, s in found], np.uint64))

    def hash(self, words: Words, roles: int) -> Hashes:
        """(roles, positions, T) hashes of all words in the first roles."""
        hashes = np.zeros((roles, words.starts[-1], self.templates), np.uint32)
        over_sentences(lambda bs: _hash_words(bs, words, *self[1:], hashes), 3.0 * len(self.salt) * words.lengths)
        return hashes

    def hash_numbers(self, size: int) -> Hashes:
        """(size, T) hashes of numbers."""
        hashes = np.zeros((size, self.templates), np.uint32)
        column = COLUMNS.index("number")
        for t, c, s in zip(self.template, self.column, self.salt, strict=True):
            if c == column:
                hashes[:, t] += _mix.py_func(np.arange(size, dtype=np.uint64), s)  # only kernels call helpers
        return hashes


def _shapes(name: str, templates: Sequence[str], size: int, distances: int = 1) -> Hashes:
    """(size * distances, T) hashes of shapes, those of templates without `distance` the same for all distances."""
    with_distance = ["distance" in template for template in templates]
    rows = [
        [
            salt(name, template, "shape", code // distances, code % distances if far else 0)
            for template, far in zip(templates, with_distance, strict=True)
        ]
        for code in range(size * distances)
    ]
    return (np.array(rows, np.uint64).reshape(size * distances, -1) >> np.uint64(32)).astype(np.uint32)


class ArcFeatures:
    """Features of arcs.

    Args:
        name: of the set, which goes into the hashes.
        templates: of head and modifier.
        more: add what is between the two words, and pairs of features.
    """

    def __init__(self, name: str, templates: Sequence[str], more: bool = True) -> None:
        between, feats = (ARC_BETWEEN, ARC_FEATS) if more else ((), ())
        self.atoms = Atoms.of(name, templates, ROLES["arc"])
        self.shape = _shapes(name, templates, 2, DISTANCES)
        self.between_atoms = Atoms.of(f"{name} between", between, ROLES["arc"])
        self.between = _shapes(f"{name} between", between, TAG_BITS + GROUPS * COUNTS)
        self.feat_atoms = Atoms.of(f"{name} feats", feats, ROLES["arc"])
        self.feat_salts = np.array([[salt(name, t, "feat", r) for t in feats] for r in "hm"], np.uint64).reshape(2, -1)

    def hash(self, words: Words) -> ArcHashes:
        """Hash the words of a batch."""
        feats = np.zeros((2, *words.feats.shape, self.feat_salts.shape[1]), np.uint32)
        _hash_feats(words.feats, words.feat_counts, self.feat_salts, feats)
        return ArcHashes(
            words,
            self.atoms.hash(words, 2),
            self.shape,
            self.between_atoms.hash(words, 2),
            self.between,
            self.feat_atoms.hash(words, 2),
            feats,
        )


class PartFeatures:
    """Features of a kind of parts, or of a tree feature.

    Args:
        kind: of parts.
    """

    def __init__(self, kind: str) -> None:
        self.kind, letters = kind, ROLES[kind]
        self.roles = len(letters) - 1
        self.atoms = Atoms.of(kind, PARTS[kind], letters)
        self.row_shape = _shapes(kind, PARTS[kind], 8)
        self.numbers = self.atoms.hash_numbers(TABLES[kind]) if kind in TABLES else None
        self.column_shape = _shapes(f"{kind} column", PARTS[kind], 8)
        if self.numbers is not None:
            self.column_shape[:] = 0  # a number is not before or after a word

    def hash(self, words: Words, parts: Parts, rows: Rows) -> PartHashes:
        """Hash the words of a batch, and list the rows of its parts.

        Args:
            words: of the batch.
            parts: its candidate arcs, with tags where tree features are scored.
            rows: of these.
        """
        row_offsets, row_words = rows[self.kind]
        places, bits = rows.places(self.kind)
        hashes = self.atoms.hash(words, self.roles + (self.numbers is None))
        columns = hashes[self.roles] if self.numbers is None else self.numbers
        starts = words.starts[:-1] if self.numbers is None else np.zeros(len(words.lengths), np.int64)
        return PartHashes(
            row_offsets,
            row_words,
            hashes[: self.roles],
            self.row_shape,
            columns,
            starts,
            self.column_shape,
            parts.part_offsets(self.kind),
            places,
            bits,
            rows.first_extra if self.numbers is None else 1 << 62,
        )


class Rows:
    """Words of the rows of parts, and where each part is found, by kind.

    Args:
        parts: candidate arcs.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        longest = int(parts.lengths.max(initial=0))
        self.first_extra = longest + 1
        self.bits = int(longest + 1 + EXTRA).bit_length()
        self._rows: dict[str, tuple[Ints, NDArray[np.int32]]] = {}
        self._places: dict[str, Ints] = {}

    def __getitem__(self, kind: str) -> tuple[Ints, NDArray[np.int32]]:
        """Return the offsets of the rows of each sentence (B+1,), and the words of all rows (R, roles)."""
        key = HIGHER_ORDER[kind].rows if kind in HIGHER_ORDER else kind
        if key not in self._rows:
            find = {"arc": self._arcs, "sibling": self._triples, "grandparent": self._triples}.get(key, self._features)
            self._rows[key] = find(key)
        return self._rows[key]

    def places(self, kind: str) -> tuple[Ints, int]:
        """Place of each part (row << bits | column), and the bits."""
        if kind in HIGHER_ORDER:
            if kind not in self._places:
                base = np.zeros(len(self.parts.lengths), np.int64)
                self._places[kind] = self.parts.places(kind, base, 1 << self.bits, self.first_extra)
            return self._places[kind], self.bits
        offsets, lengths = self.parts.part_offsets(kind), self.parts.lengths.astype(np.int64)
        counts = np.diff(offsets)
        entry = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
        if kind == "right_branching":
            n = np.repeat(lengths, counts)
            return (SHARES - 1) * (1 + entry) // (n + 1), TABLES[kind].bit_length()
        size: Any = TABLES[kind] if kind in TABLES else np.repeat(lengths + 1, counts)
        bits = TABLES[kind].bit_length() if kind in TABLES else self.bits
        return entry // size << bits | entry % size, bits

    def _arcs(self, _: str) -> tuple[Ints, NDArray[np.int32]]:
        parts = self.parts
        offsets = parts.sentence_offsets + 2 * (parts.word_offsets + np.arange(len(parts.word_offsets)))
        rows = np.empty((offsets[-1], 2), np.int32)
        _list_arcs(parts.lengths, parts.sentence_offsets, parts.head, parts.modifier, offsets, rows)
        return offsets, rows

    def _triples(self, kind: str) -> tuple[Ints, NDArray[np.int32]]:
        (arc_offsets, arcs), (places, bits), offsets = self[kind], self.places(kind), self.parts.part_offsets(kind)
        rows = np.empty((offsets[-1], 3), np.int32)
        order = (0, 2, 1) if kind == "sibling" else (1, 0, 2)  # head, inner, outer; modifier, head, grandparent
        _list_triples(self.parts.lengths, arc_offsets, arcs, offsets, places, bits, self.first_extra, order, rows)
        return offsets, rows

    def _features(self, kind: str) -> tuple[Ints, NDArray[np.int32]]:
        parts, sentences = self.parts, np.arange(len(self.parts.lengths) + 1)
        positions = 1 + np.arange(parts.word_offsets[-1]) - np.repeat(parts.word_offsets[:-1], parts.lengths)
        if kind == "right_branching":
            return sentences, np.zeros((len(parts.lengths), 1), np.int32)
        if kind in ("valency", "span"):
            return parts.word_offsets, positions[:, None].astype(np.int32)
        if kind in ("neighbours", "crossing"):
            return parts.sentence_offsets, np.stack([parts.modifier, parts.head], 1)
        size = np.repeat(parts.lengths.astype(np.int64) + 1, parts.lengths)  # rows of a conjunction
        counts = np.where(np.diff(parts.block_offsets(kind)) > 0, size, 0)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        second = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
        return offsets[parts.word_offsets], np.stack([np.repeat(positions, counts), second], 1).astype(np.int32)


def read_words(batch: Batch[Any], tag_numbers: NDArray[np.uint8]) -> Words:
    """Pack the words of a batch.

    Args:
        batch: of sentences.
        tag_numbers: universal tag of each index of `upos`, as `Parts` numbers them.
    """
    lengths = np.asarray(batch.lengths, np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths + 1 + EXTRA)])
    codes = np.empty((starts[-1], len(COLUMNS)), np.uint64)
    feats = np.zeros((starts[-1], batch.feats.shape[2]), np.uint64)
    feat_counts = np.zeros(starts[-1], np.int64)
    tags, tag_bits = np.zeros(lengths.sum(), np.uint8), np.zeros(starts[-1], np.uint64)
    before = np.zeros((starts[-1], GROUPS), np.int32)
    words = Words(lengths, starts, codes, feats, feat_counts, tags, tag_bits, before)
    columns = np.stack([batch.words, batch.lemmas, batch.upos, batch.xpos])
    _read_words(words, columns, np.ascontiguousarray(batch.feats), tag_numbers)
    return words


def arcs_of(parts: Parts) -> Arcs:
    """Candidate arcs as scorers take them."""
    return parts.sentence_offsets, parts.head, parts.modifier


def score_arcs(
    arcs: ArcHashes, offsets: Ints, head: NDArray[np.int32], modifier: NDArray[np.int32], weights: NDArray[np.float32]
) -> NDArray[np.float32]:
    """(A,) scores of arcs; those of sentence b are `offsets[b]:offsets[b + 1]`."""
    scores = np.empty(len(head), np.float32)
    steps = 2.0 * arcs.shape.shape[1] * np.diff(offsets)
    over_sentences(lambda bs: _score_arcs(bs, arcs, offsets, head, modifier, weights, scores), steps)
    return scores


def score_labels(
    arcs: ArcHashes,
    offsets: Ints,
    head: NDArray[np.int32],
    modifier: NDArray[np.int32],
    weights: NDArray[np.float32],
    labels: int,
) -> NDArray[np.float32]:
    """(A, L) scores of the labels of arcs."""
    scores = np.zeros((len(head), labels), np.float32)
    steps = 0.3 * labels * arcs.shape.shape[1] * np.diff(offsets)
    over_sentences(lambda bs: _score_labels(bs, arcs, offsets, head, modifier, weights, scores), steps)
    return scores


def score_parts(hashes: PartHashes, words: Words, weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """(P,) scores of all parts of a kind."""
    scores = np.empty(len(hashes.places), np.float32)
    steps = 2.0 * hashes.columns.shape[1] * np.diff(hashes.part_offsets)
    over_sentences(lambda bs: _score_parts(bs, words, hashes, weights, scores), steps)
    return scores


def arc_places(arcs: ArcHashes, head: NDArray[np.int32], modifier: NDArray[np.int32], size: int) -> tuple[Ints, Ints]:
    """Places of the features of arcs of a single sentence, one arc after the other, and how many each has."""
    places = np.empty(len(head) * most_hashes.py_func(arcs), np.int64)
    offsets = np.zeros(len(head) + 1, np.int64)
    _list_arc_places(arcs, head, modifier, size, places, offsets)
    return places[: offsets[-1]], np.diff(offsets)


def part_places(words: Words, parts: PartHashes, entries: Ints, size: int) -> Ints:
    """(entries, T) places of the features of parts of a single sentence."""
    places = np.empty((len(entries), parts.columns.shape[1]), np.int64)
    _list_part_places(words, parts, entries, size, places)
    return places


@numba.njit(**HELPER)
def _mix(code, salted):
    """32 bits that depend on all bits of two numbers (the last steps of SplitMix64)."""
    x = (np.uint64(code) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(salted)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.uint32((x ^ (x >> np.uint64(31))) >> np.uint64(32))


@numba.njit(**HELPER)
def place_of(hashed, size):
    """Place of a feature among weights: the first bits of its hash, where the size is a power of two."""
    return np.uint64(np.uint32(hashed)) * np.uint64(size) >> np.uint64(32)


@numba.njit(**KERNEL)
def _read_words(words, columns, feats, tag_numbers):
    for b in range(len(words.lengths)):
        n, start = words.lengths[b], words.starts[b]
        for p in range(n + 1):
            at = start + p
            for c in range(4):
                words.codes[at, c] = columns[c, b, p]
            whole, count = np.uint64(0), 0
            for f in range(feats.shape[2]):
                if feats[b, p, f] > 0:
                    words.feats[at, count] = feats[b, p, f]
                    whole += np.uint64(_mix(feats[b, p, f], np.uint64(0)))
                    count += 1
            words.codes[at, 4] = whole
            words.codes[at, 5] = 0
            words.feat_counts[at] = count
            upos = columns[2, b, p]
            tag = tag_numbers[upos]
            words.tag_bits[at] = np.uint64(1) << np.uint64(upos % TAG_BITS)
            if p > 0:
                words.tags[at - (1 + EXTRA) * b - 1] = tag
                for group in range(GROUPS):
                    words.before[at, group] = words.before[at - 1, group]
                words.before[at, 0] += tag == VERBS[0] or tag == VERBS[1]
                words.before[at, 1] += tag == PUNCTUATION
                words.before[at, 2] += tag == CONJUNCTIONS[0] or tag == CONJUNCTIONS[1]
        for side in range(EXTRA):
            words.codes[start + n + 1 + side, :] = NONE + np.uint64(side)


@numba.njit(**KERNEL)
def _hash_words(sentences, words, template, role, column, offset, salts, hashes):
    """Add up the atoms of each template and role; roles beyond those of `hashes` are left out."""
    for b in sentences:
        n, start = words.lengths[b], words.starts[b]
        for a in range(len(template)):
            r, t, c = role[a], template[a], column[a]
            if r >= hashes.shape[0]:
                continue
            for p in range(n + 1 + EXTRA):
                near = p + offset[a]
                if p > n:
                    code = words.codes[start + p, c]
                else:
                    code = words.codes[start + near, c] if 0 <= near <= n else OUTSIDE
                hashes[r, start + p, t] += _mix(code, salts[a])


@numba.njit(**KERNEL)
def _hash_feats(feats, counts, salts, hashes):
    for r in range(2):
        for p in range(len(counts)):
            for f in range(counts[p]):
                for t in range(salts.shape[1]):
                    hashes[r, p, f, t] = _mix(feats[p, f], salts[r, t])


@numba.njit(**HELPER)
def _distance(d):
    """0..7: 1, 2, 3, 4, 5-6, 7-10, 11-20, more."""
    return d - 1 if d <= 4 else 4 + (d > 6) + (d > 10) + (d > 20)


@numba.njit(**HELPER)
def hash_arc(arcs, b, h, m, hashes):
    """Write the hashes of the features of an arc, and return how many there are."""
    words = arcs.words
    head, modifier = np.uint64(words.starts[b] + h), np.uint64(words.starts[b] + m)
    right = np.uint64(h < m)
    outer = max(h, m) > words.lengths[b]  # an arc of a vine, of which one word is known
    shape = right * np.uint64(DISTANCES) + np.uint64(0 if outer else _distance(abs(h - m)))
    count = np.uint64(arcs.shape.shape[1])
    for t in range(count):
        hashes[t] = arcs.roles[0, head, t] + arcs.roles[1, modifier, t] + arcs.shape[shape, t]
    if outer:
        return count
    low, high = min(head, modifier), max(head, modifier)
    for t in range(np.uint64(arcs.between.shape[1])):
        both = arcs.between_roles[0, head, t] + arcs.between_roles[1, modifier, t] + np.uint32(right)
        seen = np.uint64(0)
        for p in range(low + np.uint64(1), high):
            seen |= words.tag_bits[p]
        element = np.uint64(0)
        while seen:
            if seen & np.uint64(1):
                hashes[count] = both + arcs.between[element, t]
                count += np.uint64(1)
            seen >>= np.uint64(1)
            element += np.uint64(1)
        for group in range(GROUPS):
            between = words.before[high, group] - words.before[low, group]
            if high > low:
                between -= words.before[high, group] - words.before[high - np.uint64(1), group]
            place = TAG_BITS + group * COUNTS + min(between, COUNTS - 1)
            hashes[count] = both + arcs.between[place, t]
            count += np.uint64(1)
    for t in range(np.uint64(arcs.feats.shape[3])):
        both = arcs.feat_roles[0, head, t] + arcs.feat_roles[1, modifier, t] + np.uint32(right)
        for i in range(np.uint64(words.feat_counts[head])):
            for j in range(np.uint64(words.feat_counts[modifier])):
                hashes[count] = both + arcs.feats[0, head, i, t] + arcs.feats[1, modifier, j, t]
                count += np.uint64(1)
    return count


@numba.njit(**HELPER)
def most_hashes(arcs):
    """Return the maximum number of features of an arc."""
    between = (TAG_BITS + GROUPS) * arcs.between.shape[1]
    return arcs.shape.shape[1] + between + arcs.feats.shape[2] ** 2 * arcs.feats.shape[3]


@numba.njit(**KERNEL, fastmath=FAST)
def _score_arcs(sentences, arcs, offsets, head, modifier, weights, scores):
    hashes = np.empty(most_hashes(arcs), np.uint32)
    size = len(weights)
    for b in sentences:
        for k in range(offsets[b], offsets[b + 1]):
            count = hash_arc(arcs, b, head[k], modifier[k], hashes)
            total = np.float32(0)
            for f in range(count):
                total += weights[place_of(hashes[f], size)]
            scores[k] = total


@numba.njit(**KERNEL)
def _score_labels(sentences, arcs, offsets, head, modifier, weights, scores):
    """Weights have as many places as labels behind the last that a feature can have."""
    hashes = np.empty(most_hashes(arcs), np.uint32)
    labels = np.uint64(scores.shape[1])
    size = len(weights) - scores.shape[1]
    for b in sentences:
        for k in range(offsets[b], offsets[b + 1]):
            count = hash_arc(arcs, b, head[k], modifier[k], hashes)
            row = scores[k]
            for f in range(count):
                place = place_of(hashes[f], size)
                for label in range(labels):
                    row[label] += weights[place + label]


@numba.njit(**KERNEL)
def _list_arcs(lengths, sentence_offsets, head, modifier, offsets, rows):
    """Words of arcs, and behind them those of the END of each side."""
    for b in range(len(lengths)):
        n, row = lengths[b], offsets[b]
        for k in range(sentence_offsets[b], sentence_offsets[b + 1]):
            rows[row, 0], rows[row, 1] = head[k], modifier[k]
            row += 1
        for side in range(2 * (n + 1)):
            rows[row, 0], rows[row, 1] = side // 2, n + 1 + side % 2
            row += 1


@numba.njit(**HELPER)
def _column(place, bits, first_extra, n):
    """Position of the column of a place."""
    column = place & ((1 << bits) - 1)
    return column - first_extra + n + 1 if column >= first_extra else column


@numba.njit(**KERNEL)
def _list_triples(lengths, arc_offsets, arcs, offsets, places, bits, first_extra, order, rows):
    for b in range(len(lengths)):
        for e in range(offsets[b], offsets[b + 1]):
            row = arc_offsets[b] + (places[e] >> bits)
            rows[e, order[0]], rows[e, order[1]] = arcs[row, 0], arcs[row, 1]
            rows[e, order[2]] = _column(places[e], bits, first_extra, lengths[b])


@numba.njit(**HELPER)
def _row_shape(rows, row):
    """Order of the words of a row."""
    shape = np.int64(0)
    if rows.shape[1] > 1:
        shape += np.int64(rows[row, 0] < rows[row, 1])
    if rows.shape[1] > 2:
        shape += 2 * (rows[row, 0] < rows[row, 2]) + 4 * (rows[row, 1] < rows[row, 2])
    return np.uint64(shape)


@numba.njit(**HELPER)
def _column_shape(rows, row, column):
    """Return which words of a row come before the column."""
    shape = np.int64(0)
    for r in range(rows.shape[1]):
        shape += np.int64(rows[row, r] < column) << r
    return np.uint64(shape)


@numba.njit(**KERNEL, fastmath=FAST)
def _score_parts(sentences, words, parts, weights, scores):
    templates, size = np.uint64(parts.columns.shape[1]), len(weights)
    most = 0
    for b in sentences:
        most = max(most, parts.row_offsets[b + 1] - parts.row_offsets[b])
    sums = np.empty((most, parts.columns.shape[1]), np.uint32)
    for b in sentences:
        n, first_row = words.lengths[b], parts.row_offsets[b]
        for row in range(first_row, parts.row_offsets[b + 1]):
            shape = _row_shape(parts.rows, row)
            total = sums[row - first_row]
            total[:] = parts.row_shape[shape]
            for r in range(parts.rows.shape[1]):
                word = np.uint64(words.starts[b] + parts.rows[row, r])
                for t in range(templates):
                    total[t] += parts.row_roles[r, word, t]
        for e in range(parts.part_offsets[b], parts.part_offsets[b + 1]):
            place = np.uint64(parts.places[e] >> parts.bits)
            column = _column(parts.places[e], parts.bits, parts.first_extra, n)
            shape = _column_shape(parts.rows, np.uint64(first_row) + place, column)
            at = np.uint64(parts.column_starts[b] + column)
            score = np.float32(0)
            for t in range(templates):
                hashed = sums[place, t] + parts.columns[at, t] + parts.column_shape[shape, t]
                score += weights[place_of(hashed, size)]
            scores[e] = score


# Places of the features of a few arcs or parts of one sentence, as learning needs them.


@numba.njit(**KERNEL)
def _list_arc_places(arcs, head, modifier, size, features, offsets):
    """Write the places of the features of arcs of the first sentence; offsets (A+1,) say which are whose."""
    hashes = np.empty(most_hashes(arcs), np.uint32)
    offsets[0] = 0
    for k in range(len(head)):
        count = np.int64(hash_arc(arcs, 0, head[k], modifier[k], hashes))
        for f in range(count):
            features[offsets[k] + f] = place_of(hashes[f], size)
        offsets[k + 1] = offsets[k] + count


@numba.njit(**KERNEL)
def _list_part_places(words, parts, entries, size, features):
    """Write the places of the features of parts of the first sentence, (entries, T)."""
    for i in range(len(entries)):
        place = parts.places[entries[i]]
        row = place >> parts.bits
        column = _column(place, parts.bits, parts.first_extra, words.lengths[0])
        shapes = _row_shape(parts.rows, row), _column_shape(parts.rows, row, column)
        for t in range(parts.columns.shape[1]):
            hashed = parts.row_shape[shapes[0], t] + parts.column_shape[shapes[1], t]
            hashed += parts.columns[parts.column_starts[0] + column, t]
            for r in range(parts.rows.shape[1]):
                hashed += parts.row_roles[r, words.starts[0] + parts.rows[row, r], t]
            features[i, t] = place_of(hashed, size)


@numba.njit(**KERNEL)
def climb(places, gradient, rate, squares, weights):
    """A step of AdaGrad up a gradient."""
    for f in range(len(places)):
        place, g = places[f], gradient[f]
        squares[place] += g * g
        weights[place] += rate * g / np.sqrt(squares[place])
