"""Hashed features against a slow definition, word by word and template by template."""

import numpy as np
import pytest

from arbora.data.batch import batch_of
from arbora.data.conll import Sentence
from arbora.data.vocabulary import Vocabulary
from arbora.decoders import Parts
from arbora.decoders.parts.kinds import HIGHER_ORDER, KINDS, TREE_FEATURES
from arbora.model.linear.backend import Linear, LinearModel
from arbora.model.linear.hashing import SHARES, arcs_of, part_places, salt, score_arcs, score_parts
from arbora.model.linear.templates import ARC, ARC_BETWEEN, ARC_FEATS, COLUMNS, PARTS, ROLES, parse

M64 = (1 << 64) - 1
TAGS = ("NOUN", "VERB", "PUNCT", "CCONJ", "ADJ")


def sentence(n: int, seed: int) -> Sentence:
    rng = np.random.default_rng(seed)
    heads = [0 if m == 1 else int(rng.integers(1, m)) for m in range(1, n + 1)]
    feats = [["_", "Case=Nom", "Case=Acc|Number=Sing"][k] for k in rng.integers(3, size=n)]
    upos = ["CCONJ", *(TAGS[k] for k in rng.integers(len(TAGS), size=n - 1))]
    words = [f"w{k}" for k in rng.integers(6, size=n)]
    return Sentence(
        form=words,
        lemma=[word.upper() for word in words],
        upos=upos,
        xpos=[tag.lower() for tag in upos],
        feats=feats,
        head=heads,
        deprel=["root" if h == 0 else f"l{h % 3}" for h in heads],
        lines=[],
        word_line=[],
        source="drawn",
        line_number=1,
    )


@pytest.fixture(scope="module")
def model() -> LinearModel:
    sentences = [sentence(n, n) for n in (1, 2, 5, 8, 9)]
    vocabulary = Vocabulary.of(sentences, 1)
    rng = np.random.default_rng(0)
    settings = Linear(kinds=tuple(KINDS), bits=14, pruner_bits=12)
    from arbora.decoders import HillClimbing

    size = (1 << 14) + len(vocabulary.labels)
    weights = rng.normal(size=size).astype(np.float32)
    pruner = rng.normal(size=1 << 12).astype(np.float32)
    return LinearModel(vocabulary, settings, HillClimbing(), weights, pruner)


def mix(code: int, salted: int) -> int:
    x = ((code + 1) * 0x9E3779B97F4A7C15 & M64) ^ salted
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & M64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & M64
    return (x ^ (x >> 31)) >> 32


class Slow:
    """Features of one sentence by their definition."""

    def __init__(self, model: LinearModel, one: Sentence) -> None:
        self.n = len(one.form)
        self.model = model
        self.batch = batch_of([one], model.vocabulary)
        self.feats = [[int(f) for f in row if f > 0] for row in self.batch.feats[0]]

    def code(self, position: int, column: str, offset: int = 0) -> int:
        if column == "number":
            return position
        if position > self.n:
            return (1 << 40) + position - self.n - 1
        position += offset
        if not 0 <= position <= self.n:
            return 1 << 41
        if column == "feats":
            return sum(mix(f, 0) for f in self.feats[position])
        name = {"form": "words", "lemma": "lemmas"}.get(column, column)
        return int(getattr(self.batch, name)[0, position])

    def words(self, name: str, template: str, letters: str, positions: list[int]) -> int:
        return sum(
            mix(self.code(positions[atom.role], COLUMNS[atom.column], atom.offset), int(salt(name, template, *atom)))
            for atom in parse(template, letters)[0]
        )

    def score(self, hashes: list[int]) -> float:
        weights = self.model.weights
        return float(sum(np.float64(weights[(h % (1 << 32)) * len(weights) >> 32]) for h in hashes))

    def arc(self, h: int, m: int) -> list[int]:
        d, right = abs(h - m), int(h < m)
        bins = d - 1 if d <= 4 else 4 + (d > 6) + (d > 10) + (d > 20)
        hashes = []
        for template in ARC:
            far = bins if "distance" in template else 0
            hashes.append(
                self.words("arc", template, "hm", [h, m]) + (int(salt("arc", template, "shape", right, far)) >> 32)
            )
        tags = [int(tag) for tag in self.batch.upos[0]]
        numbers = [int(self.model.tag_numbers[tag]) for tag in tags]
        between = range(min(h, m) + 1, max(h, m))
        groups = ({4, 16}, {13}, {5, 14})
        counts = [min(3, sum(numbers[p] in group for p in between)) for group in groups]
        elements = sorted({tags[p] for p in between}) + [64 + 4 * g + count for g, count in enumerate(counts)]
        for template in ARC_BETWEEN:
            both = self.words("arc between", template, "hm", [h, m]) + right
            hashes += [both + (int(salt("arc between", template, "shape", e, 0)) >> 32) for e in elements]
        for template in ARC_FEATS:
            both = self.words("arc feats", template, "hm", [h, m]) + right
            for i in self.feats[h]:
                for j in self.feats[m]:
                    pair = zip((i, j), "hm", strict=True)
                    hashes.append(both + sum(mix(f, int(salt("arc", template, "feat", r))) for f, r in pair))
        return hashes

    def part(self, kind: str, row: list[int], column: int) -> list[int]:
        order = 0
        pairs = [(0, 1), (0, 2), (1, 2)] if len(row) == 3 else [(0, 1)] if len(row) == 2 else []
        for bit, (a, b) in enumerate(pairs):
            order += (row[a] < row[b]) << bit
        later = sum((word < column) << r for r, word in enumerate(row))
        hashes = []
        for template in PARTS[kind]:
            hashed = self.words(kind, template, ROLES[kind], [*row, column])
            hashed += int(salt(kind, template, "shape", order, 0)) >> 32
            if "number" not in template:
                hashed += int(salt(f"{kind} column", template, "shape", later, 0)) >> 32
            hashes.append(hashed)
        return hashes


def candidates(model: LinearModel, sentences: list[Sentence], seed: int) -> tuple[Parts, object]:
    batch = batch_of(sentences, model.vocabulary)
    scores = model.score(batch)
    N = batch.words.shape[1]
    rng = np.random.default_rng(seed)
    mask = rng.random((len(sentences), N, N)) < 0.6
    mask[:, :, 0] = True
    parts = Parts.from_dense(np.zeros(mask.shape, np.float32), batch.lengths, mask).with_tags(scores.words.tags)
    return parts, scores


def roles_of(parts: Parts, kind: str, n: int) -> list[tuple[list[int], int]]:
    """Row and column of each part of a single sentence, by `Parts.words`."""
    found = []
    for words in parts.words(kind).tolist():
        if kind in HIGHER_ORDER:
            record = HIGHER_ORDER[kind]
            by_role = dict(zip(record.roles, words, strict=True))
            column = next(role for role in record.roles if role not in record.row_roles)
            found.append(([by_role[role] for role in record.row_roles], by_role[column]))
        elif kind == "right_branching":
            found.append(([0], (SHARES - 1) * (1 + words[0]) // (n + 1)))
        elif kind == "valency":
            found.append((words[:1], words[1] * 6 + words[2]))
        elif kind == "span":
            found.append((words[:1], words[1] * 3 + words[2]))
        elif kind == "neighbours":
            found.append((words[:2], words[2] * 20 + words[3]))
        else:
            found.append((words[:2], words[2]))
    return found


def test_arcs(model: LinearModel) -> None:
    one = sentence(9, 3)
    parts, scores = candidates(model, [one], 1)
    slow = Slow(model, one)
    expected = [slow.score(slow.arc(h, m)) for h, m in zip(parts.head.tolist(), parts.modifier.tolist(), strict=True)]
    found = score_arcs(scores.arc_hashes, *arcs_of(parts), model.weights)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def sides(parts: Parts, kind: str, n: int) -> list[tuple[list[int], int]]:
    """As `roles_of`, with START and END as positions behind the words, where the head stands for them."""
    found = []
    outward, side_offsets, _ = parts.sides
    for h in range(n + 1):
        for right in range(h == 0, 2):
            start, end = side_offsets[2 * h + right], side_offsets[2 * h + right + 1]
            extra = n + 1 + right
            modifiers = [extra, *parts.modifier[outward[start:end]].tolist(), extra]
            J = end - start
            if kind == "sibling":
                found += [([h, modifiers[j]], modifiers[i]) for i in range(J + 1) for j in range(i + 1, J + 2)]
            else:
                found += [
                    ([h, modifiers[b], modifiers[c]], modifiers[a])
                    for b in range(1, J + 1)
                    for a in range(b)
                    for c in range(b + 1, J + 2)
                ]
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_parts(model: LinearModel, kind: str) -> None:
    one = sentence(7, 5)
    parts, scores = candidates(model, [one], 2)
    slow = Slow(model, one)
    hashes = scores.part_hashes(parts)[kind]
    found = score_parts(hashes, scores.words, model.weights)
    if kind in ("sibling", "tri_sibling"):
        rows = sides(parts, kind, 7)
    elif kind == "grand_sibling":
        pairs = sides(parts, "sibling", 7)
        rows = []
        for k in range(len(parts.head)):
            own = [([r[0], i, r[1]], int(parts.head[k])) for r, i in pairs if r[0] == parts.modifier[k]]
            rows += own
    else:
        rows = roles_of(parts, kind, 7)
    assert len(rows) == len(found) > 0
    expected = [slow.score(slow.part(kind, row, column)) for row, column in rows]
    np.testing.assert_allclose(found, expected, atol=1e-4)
    entries = np.arange(len(found))[:: max(1, len(found) // 50)]
    features = part_places(scores.words, hashes, entries, len(model.weights))
    assert features.shape[1] == len(PARTS[kind])
    np.testing.assert_allclose(model.weights[features].sum(1), found[entries], atol=1e-4)


def test_batch_does_not_matter(model: LinearModel) -> None:
    sentences = [sentence(n, n) for n in (8, 1, 5)]
    together = model.score(batch_of(sentences, model.vocabulary)).parts(model.decoder)
    for b, one in enumerate(sentences):
        alone = model.score(batch_of([one], model.vocabulary)).parts(model.decoder)
        for name in ("head", "arc_score", *TREE_FEATURES, *HIGHER_ORDER):
            np.testing.assert_array_equal(getattr(together.subset([b]), name), getattr(alone, name), name)
