"""Parts of higher order against their definition: the arcs that are in a tree, and those that are not."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations

import brute_force
import numpy as np
import pytest
from brute_force import PARTS, Tree, Words, can_fire, dense_shape, fired, fires
from hypothesis import given, settings
from hypothesis import strategies as st

from arbora.decoders import Parts
from arbora.decoders.parts.kinds import COMMON, HIGHER_ORDER
from arbora.decoders.parts.layout import any_sibling_at, sibling_at, tri_sibling_at

KINDS = tuple(HIGHER_ORDER)

every_kind = pytest.mark.parametrize("kind", KINDS)


@dataclass
class Instance:
    """A batch: candidate arcs, a tree and dense scores of each sentence. What must never be read is NaN.

    Scores are multiples of 1/8, so that sums in float64 are exact and do not depend on the order.
    """

    lengths: list[int]
    masks: list[np.ndarray]  # (n+1, n+1) each
    trees: list[Tree]
    mask: np.ndarray = field(repr=False)  # (B, N, N)
    arc: np.ndarray = field(repr=False)  # (B, N, N)
    higher: dict[str, np.ndarray] = field(repr=False)  # (B, N, N, N) or (B, N, N, N, N)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def heads(self) -> np.ndarray:
        """(B, N) the trees, as decoders return them."""
        heads = np.full(self.mask.shape[:2], -1)
        for b, tree in enumerate(self.trees):
            heads[b, : len(tree)] = tree
        return heads

    def parts(self, *kinds: str) -> Parts:
        return Parts.from_dense(self.arc, self.lengths, self.mask, **{kind: self.higher[kind] for kind in kinds})

    def alone(self, b: int, *kinds: str) -> Parts:
        """One of the sentences, without padding."""
        N = self.lengths[b] + 1
        higher = {kind: self.higher[kind][b][(slice(N),) * (self.higher[kind].ndim - 1)] for kind in kinds}
        return Parts.from_dense(self.arc[b, :N, :N], mask=self.masks[b], **higher)

    def oracle(self, b: int, *kinds: str) -> float:
        """Score of a sentence's tree, by definition."""
        N = self.lengths[b] + 1
        higher = {kind: self.higher[kind][b][(slice(N),) * (self.higher[kind].ndim - 1)] for kind in kinds}
        return brute_force.score(self.trees[b], self.masks[b], self.arc[b, :N, :N], **higher)

    @classmethod
    def of(cls, masks: list[np.ndarray], trees: list[Tree], padding: int = 0, seed: int = 0) -> "Instance":
        """With random scores."""
        rng = np.random.default_rng(seed)
        B, N = len(masks), max(map(len, masks)) + padding
        mask = np.zeros((B, N, N), dtype=bool)
        arc = np.full((B, N, N), np.nan, dtype=np.float32)
        higher = {kind: np.full((B, *dense_shape(kind, N)), np.nan, np.float32) for kind in KINDS}
        for b, candidates in enumerate(masks):
            mask[b, : len(candidates), : len(candidates)] = candidates
            arc[b, mask[b]] = rng.integers(-64, 65, size=mask[b].sum()) / 8
            for kind, listed in brute_force.parts(candidates, KINDS).items():
                for words, _, _ in listed:
                    higher[kind][b][words] = rng.integers(-64, 65) / 8
        return cls([len(candidates) - 1 for candidates in masks], masks, trees, mask, arc, higher)


@st.composite
def instances(draw, max_sentences: int = 3, feasible: bool = False) -> Instance:
    """Sentences of up to five words; unless feasible, trees may have arcs that are no candidates."""
    masks, trees = [], []
    for _ in range(draw(st.integers(1, max_sentences))):
        n = draw(st.integers(1, 5))
        law = draw(st.sampled_from(["all", "some", "few"]))
        tree = draw(st.sampled_from(brute_force.trees(n, single_root=draw(st.booleans()))))
        bits = st.integers(0, 2 ** ((n + 1) ** 2) - 1)
        cells = {"all": -1, "some": draw(bits), "few": draw(bits) & draw(bits)}[law]
        mask = np.array([cells >> place & 1 for place in range((n + 1) ** 2)], dtype=bool).reshape(n + 1, n + 1)
        mask[0] = False
        np.fill_diagonal(mask, False)
        if feasible or draw(st.booleans()):
            mask[np.arange(1, n + 1), tree[1:]] = True
        masks.append(mask)
        trees.append(tree)
    return Instance.of(masks, trees, draw(st.integers(0, 1)), draw(st.integers(0, 99)))


some_kinds = st.sets(st.sampled_from(KINDS)).map(lambda kinds: [kind for kind in KINDS if kind in kinds])


def words_by_sentence(parts: Parts, kind: str, entries: np.ndarray | None = None) -> list[list[Words]]:
    """Words of the parts of a type, or of some of them, for each sentence."""
    words, offsets = parts.words(kind), parts.part_offsets(kind)
    entries = np.arange(len(words)) if entries is None else entries
    return [
        [tuple(words[e].tolist()) for e in entries[(offsets[b] <= entries) & (entries < offsets[b + 1])]]
        for b in range(len(parts.lengths))
    ]


def assert_same_parts(one: Parts, other: Parts) -> None:
    """Bit for bit."""
    assert one.kinds == other.kinds
    for name, array in (one.layout._asdict() | one.wide._asdict()).items():
        there = other.layout if hasattr(other.layout, name) else other.wide
        np.testing.assert_array_equal(array, getattr(there, name), strict=True, err_msg=name)


def test_kinds():
    """Those of the enumeration, of which all decoders take some; four words make a kind of third order."""
    assert KINDS == PARTS
    assert COMMON == brute_force.KINDS
    assert all(len(dense_shape(name, 1)) == kind.order + 1 == len(kind.roles) for name, kind in HIGHER_ORDER.items())


@given(instance=instances())
def test_words_are_those_of_the_definition(instance):
    """Parts that fire in no tree, because arcs make a cycle or a word has two heads, may be there or not."""
    parts = instance.parts()
    for kind in KINDS:
        words = parts.words(kind)
        assert words.shape == (parts.part_offsets(kind)[-1], len(dense_shape(kind, 1)))
        for found, mask in zip(words_by_sentence(parts, kind), instance.masks):
            listed = brute_force.parts(mask, [kind])[kind]
            assert Counter(found) <= Counter(words for words, _, _ in listed)
            assert Counter(found) >= Counter(words for words, present, _ in listed if can_fire(present))


@settings(max_examples=200)
@given(instance=instances(), kinds=some_kinds)
def test_active_parts_are_those_of_the_definition(instance, kinds):
    parts = instance.parts(*kinds)
    assert list(parts.kinds) == kinds
    active = parts.active(instance.heads)
    assert set(active) == {"arc", *kinds}
    for kind in kinds:
        assert (np.diff(active[kind]) > 0).all()
        found = words_by_sentence(parts, kind, active[kind])
        assert sum(map(len, found)) == len(active[kind])
        for b, (mask, tree) in enumerate(zip(instance.masks, instance.trees)):
            listed = brute_force.parts(mask, [kind])[kind]
            assert Counter(found[b]) == Counter(words for words, *arcs in listed if fires(*arcs, tree))


@settings(max_examples=200)
@given(instance=instances(), kinds=some_kinds)
def test_score_is_that_of_the_definition(instance, kinds):
    expected = [instance.oracle(b, *kinds) for b in range(len(instance))]
    for heads in (instance.heads, instance.heads.astype(np.int8)):
        assert instance.parts(*kinds).score(heads).tolist() == expected
    uses_other_arcs = [
        any(not mask[m, h] for m, h in enumerate(tree[1:], 1)) for mask, tree in zip(instance.masks, instance.trees)
    ]
    assert np.isneginf(expected).tolist() == uses_other_arcs


@given(instance=instances(feasible=True), kinds=some_kinds, seed=st.integers(0, 99))
def test_score_is_the_sum_over_active_parts(instance, kinds, seed):
    """Also when entries with the same words score differently, as the two sides of a head without modifiers may."""
    rng = np.random.default_rng(seed)
    parts = instance.parts()
    scores = {kind: rng.integers(-64, 65, size=parts.part_offsets(kind)[-1]) / 8 for kind in kinds}
    parts = parts.with_scores(**scores)
    expected = np.zeros(len(instance))
    for kind, entries in parts.active(instance.heads).items():
        offsets = parts.sentence_offsets if kind == "arc" else parts.part_offsets(kind)
        sentence = np.searchsorted(offsets, entries, side="right") - 1
        np.add.at(expected, sentence, parts.arc_score[entries] if kind == "arc" else scores[kind][entries])
    assert parts.score(instance.heads).tolist() == expected.tolist()


@given(instance=instances())
def test_each_side_has_its_own_block(instance):
    """START with END has the same words on both sides of a head, but not the same entry."""
    parts = instance.parts("sibling", "grand_sibling")
    layout = parts.layout
    active = parts.active(instance.heads)
    words = parts.words("sibling")
    empty = Counter(
        int(np.searchsorted(layout.sibling_offsets, e, side="right")) - 1
        for e in active["sibling"]
        if len(set(words[e].tolist())) == 1
    )
    words = parts.words("grand_sibling")
    grand = Counter(
        int(np.searchsorted(layout.grand_sibling_offsets, e, side="right")) - 1
        for e in active["grand_sibling"]
        if len(set(words[e, 1:].tolist())) == 1
    )
    arc_of = {}
    for b in range(len(instance)):
        for k in range(parts.sentence_offsets[b], parts.sentence_offsets[b + 1]):
            arc_of[b, int(parts.head[k]), int(parts.modifier[k])] = k
    expected, expected_grand = [], []
    for b, (mask, tree) in enumerate(zip(instance.masks, instance.trees)):
        node = int(parts.word_offsets[b]) + b
        for h in range(len(tree)):
            modifiers = [m for m in range(1, len(tree)) if tree[m] == h and mask[m, h]]
            for right in range(h == 0, 2):
                if not any((m > h) == right for m in modifiers):
                    expected.append(2 * (node + h) + right)
                    if (arc := arc_of.get((b, tree[h], h))) is not None:
                        expected_grand.append(2 * arc + right)
    assert empty == Counter(expected)
    assert grand == Counter(expected_grand)


@given(instance=instances())
def test_sides_go_outward(instance):
    layout = instance.parts().layout
    for b, mask in enumerate(instance.masks):
        for h in range(len(mask)):
            node = layout.word_offsets[b] + b + h
            left = [m for m in range(h - 1, 0, -1) if mask[m, h]]
            right = [m for m in range(h + 1, len(mask)) if mask[m, h]]
            for side, modifiers in ((2 * node, left), (2 * node + 1, right)):
                arcs = layout.outward[layout.side_offsets[side] : layout.side_offsets[side + 1]]
                assert layout.modifier[arcs].tolist() == modifiers
                assert (layout.head[arcs] == h).all()
                assert layout.rank[arcs].tolist() == list(range(1, len(modifiers) + 1))


@pytest.mark.parametrize("J", range(6))
def test_addresses_fill_a_block(J):
    """In the order of the table, without a gap."""
    pairs = list(combinations(range(J + 2), 2))
    assert [sibling_at.py_func(J, i, j) for i, j in pairs] == list(range((J + 1) * (J + 2) // 2))
    pairs = list(combinations(range(J), 2))
    assert [any_sibling_at.py_func(J, i, j) for i, j in pairs] == list(range(J * (J - 1) // 2))
    triples = sorted(combinations(range(J + 2), 3), key=lambda triple: (triple[1], triple[0], triple[2]))
    assert [tri_sibling_at.py_func(J, *triple) for triple in triples] == list(range(J * (J + 1) * (J + 2) // 6))


@given(instance=instances(max_sentences=4), kinds=some_kinds)
def test_batch_is_each_sentence_alone(instance, kinds):
    together = instance.parts(*kinds)
    active = together.active(instance.heads)
    for b, tree in enumerate(instance.trees):
        alone = instance.alone(b, *kinds)
        assert alone.score([tree])[0] == together.score(instance.heads)[b]
        for kind in kinds:
            start, end = together.part_offsets(kind)[b : b + 2]
            np.testing.assert_array_equal(alone.words(kind), together.words(kind)[start:end])
            np.testing.assert_array_equal(getattr(alone, kind), getattr(together, kind)[start:end])
            here = active[kind][(start <= active[kind]) & (active[kind] < end)]
            np.testing.assert_array_equal(alone.active([tree])[kind], here - start)


@given(instance=instances(max_sentences=4), kinds=some_kinds, data=st.data())
def test_subset_is_as_packed_from_its_sentences(instance, kinds, data):
    chosen = data.draw(st.lists(st.integers(0, len(instance) - 1), max_size=5))
    higher = {kind: instance.higher[kind][chosen] for kind in kinds}
    expected = Parts.from_dense(
        instance.arc[chosen], [instance.lengths[b] for b in chosen], instance.mask[chosen], **higher
    )
    assert_same_parts(instance.parts(*kinds).subset(np.array(chosen, dtype=int)), expected)


@given(instance=instances(), kinds=some_kinds)
def test_scores_can_be_set_afterwards(instance, kinds):
    parts, full = instance.parts(), instance.parts(*kinds)
    scored = parts.with_scores(**{kind: getattr(full, kind).astype(np.float64) for kind in kinds})
    assert_same_parts(scored, full)
    assert parts.kinds == ()
    assert parts.score(instance.heads).tolist() == [instance.oracle(b) for b in range(len(instance))]


@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=3), seed=st.integers(0, 99))
def test_mask_of_ones_is_no_mask(lengths, seed):
    rng = np.random.default_rng(seed)
    N = max(lengths) + 1
    arc = rng.normal(size=(len(lengths), N, N))
    higher = {kind: rng.normal(size=(len(lengths), *dense_shape(kind, N))) for kind in KINDS}
    plain = Parts.from_dense(arc, lengths, **higher)
    masked = Parts.from_dense(arc, lengths, np.ones_like(arc, dtype=bool), **higher)
    assert_same_parts(plain, masked)
    heads = np.tile(np.arange(-1, N - 1), (len(lengths), 1))
    assert plain.score(heads).tolist() == masked.score(heads).tolist()


# A scorer holds one matrix for each sentence. Here its cells hold what their rows and columns stand for.


@dataclass(frozen=True)
class Start:
    side: int


@dataclass(frozen=True)
class End:
    h: int
    side: int


@settings(max_examples=200)
@given(instance=instances(), data=st.data())
def test_places_in_the_matrices_of_a_scorer(instance, data):
    parts = instance.parts()
    longest = max(instance.lengths)
    start = data.draw(st.integers(longest + 1, longest + 3), label="start")
    stride = data.draw(st.integers(start + 2, start + 4), label="stride")

    def gathered(kind: str, rows: list[list]) -> list[tuple[int, object, object]]:
        """(sentence, row, column) of each part, matrices being laid out in some order with gaps between them."""
        base, end = np.empty(len(instance), dtype=np.int64), 0
        for b in data.draw(st.permutations(range(len(instance))), label="order"):
            base[b] = end + data.draw(st.integers(0, 3), label="gap")
            end = base[b] + len(rows[b]) * stride
        cells: list = [None] * end
        for b, n in enumerate(instance.lengths):
            columns = {**{h: h for h in range(n + 1)}, start: Start(0), start + 1: Start(1)}
            for r, row in enumerate(rows[b]):
                for column, meaning in columns.items():
                    cells[base[b] + r * stride + column] = (b, row, meaning)
        return [cells[place] for place in parts.places(kind, base, stride, start).tolist()]

    arcs = [
        [(int(parts.head[k]), int(parts.modifier[k])) for k in range(*parts.sentence_offsets[b : b + 2])]
        + [End(h, side) for h in range(instance.lengths[b] + 1) for side in (0, 1)]
        for b in range(len(instance))
    ]

    def sides(h: int, *words: int | Start | End) -> set[int]:
        """Sides of a head that START, END and the words are on."""
        return {word.side if isinstance(word, (Start, End)) else int(word > h) for word in words}

    found: dict[str, list[tuple]] = {kind: gathered(kind, arcs) for kind in KINDS if HIGHER_ORDER[kind].rows == "arc"}
    siblings = []
    for _, row, inner in found["sibling"]:
        h, outer = (row.h, row) if isinstance(row, End) else row
        siblings.append((h, inner, outer))
    pairs = [siblings[slice(*parts.part_offsets("sibling")[b : b + 2])] for b in range(len(instance))]
    found |= {kind: gathered(kind, pairs) for kind in KINDS if HIGHER_ORDER[kind].rows == "sibling"}
    chains = [(m, h, g) for _, (h, m), g in found["grandparent"]]
    chains_of = [chains[slice(*parts.part_offsets("grandparent")[b : b + 2])] for b in range(len(instance))]
    found |= {kind: gathered(kind, chains_of) for kind in KINDS if HIGHER_ORDER[kind].rows == "grandparent"}

    words: dict[str, list[tuple]] = {
        "grandparent": chains,
        "sibling": siblings,
        "any_sibling": [(h, first, second) for _, (h, second), first in found["any_sibling"]],
        "head_bigram": [(m, h, before) for _, (h, m), before in found["head_bigram"]],
        "grand_sibling": [(g, *pair) for _, pair, g in found["grand_sibling"]],
        "tri_sibling": [(h, innermost, *pair) for _, (h, *pair), innermost in found["tri_sibling"]],
        "grand_grandparent": [(*chain, top) for _, chain, top in found["grand_grandparent"]],
    }
    for kind in ("inner_sibling_grandchild", "outer_sibling_grandchild"):
        words[kind] = [(*pair, child) for _, pair, child in found[kind]]
    for kind in KINDS:
        offsets = parts.part_offsets(kind)
        assert [b for b, _, _ in found[kind]] == np.repeat(np.arange(len(instance)), np.diff(offsets)).tolist()
        for labels, plain in zip(words[kind], parts.words(kind).tolist(), strict=True):
            h = labels[1] if kind == "grand_sibling" else labels[0]
            assert plain == [h if isinstance(word, (Start, End)) else word for word in labels]
    for kind, h in (("sibling", 0), ("grand_sibling", 1), ("tri_sibling", 0)):
        assert all(len(sides(*labels[h:])) == 1 for labels in words[kind])
    # START with END: the left one comes first, and the root has only the right one.
    empty = [
        (b, row.h, row.side) for b, row, inner in found["sibling"] if isinstance(inner, Start) and isinstance(row, End)
    ]
    assert empty == [
        (b, h, side) for b, n in enumerate(instance.lengths) for h in range(n + 1) for side in range(h == 0, 2)
    ]


def test_forty_words():
    """Pruned to about ten heads per word, against what is read off the tree."""
    n, B = 40, 3
    rng = np.random.default_rng(0)
    batches = []
    for _ in range(4):
        heads = np.full((B, n + 1), -1)
        for b in range(B):
            order = rng.permutation(n) + 1
            for place, m in enumerate(order):
                heads[b, m] = rng.choice([0, *order[max(0, place - 4) : place]])
        batches.append(heads)
    mask = rng.random((B, n + 1, n + 1)) < 0.2
    for heads in batches[:3]:  # the last trees have arcs that are no candidates
        for b in range(B):
            mask[b, np.arange(1, n + 1), heads[b, 1:]] = True
    arc = rng.integers(-64, 65, size=mask.shape) / 8
    higher = {
        kind: rng.integers(-64, 65, size=(B, *dense_shape(kind, n + 1)), dtype=np.int8) / np.float32(8)
        for kind in KINDS
    }
    parts = Parts.from_dense(arc, mask=mask, **higher)
    for heads in batches:
        expected = []
        active = parts.active(heads)
        found = {kind: words_by_sentence(parts, kind, active[kind]) for kind in KINDS}
        for b in range(B):
            tree = tuple(heads[b].tolist())
            total = sum(arc[b, m, h] if mask[b, m, h] else -np.inf for m, h in enumerate(tree) if m > 0)
            for kind, listed in fired(tree, mask[b], KINDS).items():
                assert Counter(found[kind][b]) == Counter(listed)
                total += sum(float(higher[kind][b][words]) for words in listed)
            expected.append(total)
        assert parts.score(heads).tolist() == expected
        assert np.isneginf(expected).all() == (heads is batches[-1])


@every_kind
def test_number_of_threads_does_not_matter(kind, same_for_any_threads):
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 13, size=50)
    arc = np.where(rng.random((50, 13, 13)) < 0.6, rng.normal(size=(50, 13, 13)), -np.inf)
    same_for_any_threads(lambda: Parts.from_dense(arc, lengths).words(kind))


@every_kind
def test_no_sentences(kind):
    parts = Parts.from_dense(np.empty((0, 4, 4)), **{kind: np.empty((0, *dense_shape(kind, 4)))})
    heads = parts.empty_trees()
    assert len(parts.words(kind)) == len(parts.score(heads)) == len(parts.active(heads)[kind]) == 0


@pytest.mark.parametrize("last", [False, True])
def test_sentence_without_candidates(last):
    """It has sides without modifiers all the same, and no tree."""
    masks = [np.ones((3, 3), dtype=bool), np.zeros((3, 3), dtype=bool)]
    trees = [(-1, 0, 1), (-1, 0, 1)]
    instance = Instance.of(masks if last else masks[::-1], trees)
    parts = instance.parts(*KINDS)
    assert words_by_sentence(parts, "sibling")[last] == [(0, 0, 0), *[(1, 1, 1)] * 2, *[(2, 2, 2)] * 2]
    assert np.isneginf(parts.score(instance.heads)).tolist() == [not last, last]
    assert len(words_by_sentence(parts, "sibling", parts.active(instance.heads)["sibling"])[last]) == 5
