"""Features of whole trees against their definition, which reads them off the tree."""

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise

import brute_force
import numpy as np
import pytest
from brute_force import PARTS, Tree, Words, dense_shape, fired
from hypothesis import given, settings
from hypothesis import strategies as st

from arbora.decoders import AD3, MST, BranchAndBound, Decoder, Eisner, Greedy, HillClimbing, Parts, Subgradient
from arbora.decoders.parts.kinds import COMMON, KINDS, TREE_FEATURES
from arbora.decoders.parts.tree_features import (
    AFTER,
    PUNCTUATION,
    TAG_NUMBERS,
    TAGS,
    crossing_at,
    span_at,
    tail_of,
    valency_at,
)
from arbora.decoders.trees import rerank

every_feature = pytest.mark.parametrize("kind", TREE_FEATURES)


@dataclass
class Batch:
    """Candidate arcs, a tree and tables of scores of each sentence.

    Scores are multiples of 1/8, so that sums in float64 are exact and do not depend on the order.
    """

    masks: list[np.ndarray]  # (n+1, n+1) each
    trees: list[Tree]
    arc: np.ndarray = field(repr=False)  # (B, N, N)
    mask: np.ndarray = field(repr=False)  # (B, N, N)
    tags: np.ndarray  # (B, N)
    tables: dict[str, np.ndarray] = field(repr=False)  # (B, ...)

    @classmethod
    def of(cls, masks: list[np.ndarray], trees: list[Tree], kinds=TREE_FEATURES, seed: int = 0) -> "Batch":
        rng = np.random.default_rng(seed)
        N = max(map(len, masks))
        mask = np.zeros((len(masks), N, N), dtype=bool)
        for b, candidates in enumerate(masks):
            mask[b, : len(candidates), : len(candidates)] = candidates
        arc = rng.integers(-64, 65, size=mask.shape) / 8
        tables = {kind: rng.integers(-64, 65, size=(len(masks), *dense_shape(kind, N))) / 8 for kind in kinds}
        return cls(masks, trees, arc, mask, draw_tags(rng, mask.shape[:2]), tables)

    @property
    def heads(self) -> np.ndarray:
        heads = np.full(self.mask.shape[:2], -1)
        for b, tree in enumerate(self.trees):
            heads[b, : len(tree)] = tree
        return heads

    @property
    def parts(self) -> Parts:
        return Parts.from_dense(self.arc, [len(mask) - 1 for mask in self.masks], self.mask, self.tags, **self.tables)

    def fired(self, b: int) -> dict[str, list[Words]]:
        """By definition."""
        return fired(self.trees[b], self.masks[b], self.tables, tuple(self.tags[b].tolist()))

    def score(self, b: int) -> float:
        """By definition."""
        arcs = [(m, h) for m, h in enumerate(self.trees[b]) if m > 0]
        total = sum(self.arc[b][arc] if self.masks[b][arc] else -np.inf for arc in arcs)
        for kind, cells in self.fired(b).items():
            total += sum(self.tables[kind][b][cell] for cell in cells)
        return float(total)


def draw_tags(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Tags at random, half of them conjunctions and punctuation."""
    special = rng.choice([brute_force.CONJUNCTION, brute_force.PUNCTUATION], size=shape)
    return np.where(rng.random(shape) < 0.5, special, rng.integers(0, 18, size=shape))


def draw_tree(rng: np.random.Generator, n: int, near: int, single_root: bool) -> Tree:
    """A random tree: words in random order, each under one of the last `near` before it, or under the root."""
    heads = [-1] * (n + 1)
    order = (rng.permutation(n) + 1).tolist()
    for place, m in enumerate(order):
        above = order[max(0, place - near) : place]
        heads[m] = int(rng.choice(above if above and single_root else [0, *above]))
    return tuple(heads)


every = st.just(TREE_FEATURES)
some_kinds = st.sets(st.sampled_from(list(KINDS))).map(lambda kinds: [kind for kind in KINDS if kind in kinds])


@st.composite
def batches(draw, kinds=every, feasible: bool = False) -> Batch:
    """Sentences of up to 14 words; unless feasible, trees may have arcs that are no candidates."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    masks, trees = [], []
    for _ in range(draw(st.integers(1, 3))):
        n = draw(st.one_of(st.integers(1, 6), st.integers(7, 14)))
        tree = draw_tree(rng, n, draw(st.sampled_from([1, 2, 14])), draw(st.booleans()))
        mask = rng.random((n + 1, n + 1)) < draw(st.sampled_from([1.0, 0.6, 0.2]))
        np.fill_diagonal(mask, False)
        if feasible or draw(st.booleans()):
            mask[np.arange(1, n + 1), tree[1:]] = True
        masks.append(mask)
        trees.append(tree)
    return Batch.of(masks, trees, draw(kinds), draw(st.integers(0, 99)))


def by_sentence(parts: Parts, kind: str, entries: np.ndarray) -> list[list[Words]]:
    """Words of some entries of a type, for each sentence."""
    words, offsets = parts.words(kind), parts.part_offsets(kind)  # type: ignore[arg-type]
    return [
        [tuple(words[e].tolist()) for e in entries[(start <= entries) & (entries < end)]]
        for start, end in pairwise(offsets)
    ]


def test_kinds():
    assert TREE_FEATURES == brute_force.FEATURES
    assert (*PARTS, *TREE_FEATURES) == tuple(KINDS)


@given(batch=batches())
def test_active_features_are_those_of_the_definition(batch):
    parts = batch.parts
    assert parts.kinds == TREE_FEATURES
    active = parts.active(batch.heads)
    found = {kind: by_sentence(parts, kind, active[kind]) for kind in TREE_FEATURES}
    for kind in TREE_FEATURES:
        assert (np.diff(active[kind]) > 0).all()
    for b in range(len(batch.trees)):
        for kind, cells in batch.fired(b).items():
            assert Counter(found[kind][b]) == Counter(cells)


@given(batch=batches(some_kinds))
def test_score_is_that_of_the_definition(batch):
    """With whichever kinds of parts next to them."""
    assert batch.parts.score(batch.heads).tolist() == [batch.score(b) for b in range(len(batch.trees))]


@given(batch=batches(some_kinds, feasible=True))
def test_score_is_the_sum_over_active_entries(batch):
    parts = batch.parts
    expected = np.zeros(len(batch.trees))
    for kind, entries in parts.active(batch.heads).items():
        offsets = parts.sentence_offsets if kind == "arc" else parts.part_offsets(kind)  # type: ignore[arg-type]
        score = parts.arc_score if kind == "arc" else getattr(parts, kind)
        np.add.at(expected, np.searchsorted(offsets, entries, side="right") - 1, score[entries])
    assert parts.score(batch.heads).tolist() == expected.tolist()


@given(batch=batches(some_kinds), data=st.data())
def test_subset_is_as_packed_from_its_sentences(batch, data):
    chosen = data.draw(st.lists(st.integers(0, len(batch.trees) - 1), min_size=1, max_size=4))
    some = batch.parts.subset(chosen)
    tables = {kind: table[chosen] for kind, table in batch.tables.items()}
    expected = replace(
        batch,
        masks=[batch.masks[b] for b in chosen],
        arc=batch.arc[chosen],
        mask=batch.mask[chosen],
        tags=batch.tags[chosen],
        tables=tables,
    ).parts
    assert some.kinds == expected.kinds
    for name, array in (some.layout._asdict() | some.wide._asdict()).items():
        there = expected.layout if hasattr(expected.layout, name) else expected.wide
        np.testing.assert_array_equal(array, getattr(there, name), strict=True, err_msg=name)
    assert some.score(batch.heads[chosen]).tolist() == [batch.score(b) for b in chosen]


@settings(max_examples=10)
@given(batch=batches())
def test_words_list_every_entry_of_a_table(batch):
    """All that may ever fire, each once, and arcs that are no candidates left out."""
    parts = batch.parts
    for b, mask in enumerate(batch.masks):
        n = len(mask) - 1
        words = range(1, n + 1)
        places = range(n + 1)
        conjunctions = [c for c in words if batch.tags[b, c] == brute_force.CONJUNCTION]
        arcs = [(m, h) for m in words for h in places if mask[m, h]]
        pairs = [(c, x, y) for c in conjunctions for x in places for y in places]
        expected = {
            "valency": [(h, left, right) for h in words for left in range(6) for right in range(6)],
            "span": [(h, length, tail) for h in words for length in range(5) for tail in range(3)],
            "neighbours": [(*arc, left, right) for arc in arcs for left in range(20) for right in range(20)],
            "crossing": [(*arc, number) for arc in arcs for number in range(7)],
            "right_branching": [(length,) for length in places],
            "coordination": pairs,
            "conjunct": pairs,
        }
        for kind, listed in expected.items():
            start, end = parts.part_offsets(kind)[b : b + 2]  # type: ignore[arg-type]
            assert [tuple(row) for row in parts.words(kind)[start:end].tolist()] == listed  # type: ignore[arg-type]


def test_ranges():
    """Return the places at which the entries of a table change."""
    assert [span_at.py_func(2, size, 1) - 30 for size in (1, 2, 4, 5, 6, 500)] == [1, 4, 10, 13, 13, 13]
    assert [valency_at.py_func(2, left, 1) - 72 for left in (0, 1, 4, 5, 6, 99)] == [1, 7, 25, 31, 31, 31]
    counts = [1, 2, 5, 6, 10, 11, 99]
    assert [crossing_at.py_func(3, count) - 21 for count in counts] == [0, 1, 4, 5, 5, 6, 6]
    assert [tail_of.py_func(tag) for tag in (0, PUNCTUATION, AFTER)] == [0, 1, 2]


def test_tags():
    assert len(TAGS) == 17
    assert TAG_NUMBERS["CCONJ"] == brute_force.CONJUNCTION
    assert TAG_NUMBERS["PUNCT"] == brute_force.PUNCTUATION
    assert AFTER == brute_force.AFTER


def test_worked_example():
    """Apples, pears and (plums): 2 and 6 are punctuation, 4 is the conjunction, 3 and 5 hang from 1."""
    tree = (-1, 0, 3, 1, 5, 1, 1)
    tags = (0, 8, 13, 8, 5, 8, 13)
    found = brute_force.features(tree, tags)
    assert found["valency"] == [(1, 0, 2), (2, 0, 0), (3, 0, 0), (4, 0, 0), (5, 1, 0), (6, 0, 0)]
    assert found["span"] == [(1, 4, 2), (2, 0, 0), (3, 1, 0), (4, 0, 0), (5, 1, 1), (6, 0, 2)]
    assert found["neighbours"][2] == (3, 1, 8, 5)
    assert found["crossing"] == []
    assert found["coordination"] == [(4, 5, 1)]
    assert found["conjunct"] == [(4, 5, 0), (4, 1, 0)]
    assert found["right_branching"] == [(3,)]  # 1, 5 and 4, without the punctuation after 5
    crossed = brute_force.features((-1, 2, 0, 5, 2, 2, 0), tags)
    assert crossed["crossing"] == [(3, 5, 0), (4, 2, 0)]  # the arcs from 5 to 3 and from 2 to 4


@every_feature
def test_no_tree(kind):
    """Heads that make a cycle, heads out of range, no heads at all: no error, and -inf where arcs are missing."""
    mask = np.ones((5, 5), dtype=bool)
    mask[1, 0] = False
    parts = Parts.from_dense(np.zeros((5, 5)), mask=mask, **{kind: np.ones(dense_shape(kind, 5))})
    for heads in ([-1, 2, 1, 4, 3], [-1, 2, 3, 1, 1], [-1, 2, 1, 0, 1]):
        assert np.isfinite(parts.score([heads])).all()
    for heads in ([-1, 0, 1, 1, 1], [-1, -1, -1, -1, -1], [-1, 7, 7, 7, 7], [-1, 0, 0, 0, 0]):
        assert np.isneginf(parts.score([heads])).all()


@every_feature
def test_no_sentences(kind):
    parts = Parts.from_dense(np.empty((0, 4, 4)), **{kind: np.empty((0, *dense_shape(kind, 4)))})
    heads = parts.empty_trees()
    assert len(parts.words(kind)) == len(parts.score(heads)) == len(parts.active(heads)[kind]) == 0


# What decoders do with features.


@pytest.mark.parametrize("decoder", [Greedy(), AD3(), Subgradient(), BranchAndBound()], ids=lambda d: type(d).__name__)
def test_decoders_refuse_what_they_do_not_search_by(decoder: Decoder):
    assert decoder.takes >= set(COMMON)
    assert not decoder.first_order_only
    kinds = ("sibling", "inner_sibling_grandchild", "span", "crossing")
    parts = Parts.from_dense(np.zeros((3, 3)), **{kind: np.zeros(dense_shape(kind, 3)) for kind in kinds})
    message = f"{type(decoder).__name__} does not search by inner_sibling_grandchild, span, crossing: HillClimbing does"
    with pytest.raises(ValueError, match=message):
        decoder(parts)


@pytest.mark.parametrize("decoder", [MST(), Eisner()], ids=["MST", "Eisner"])
def test_decoders_of_arcs_look_at_nothing_else(decoder: Decoder):
    assert decoder.first_order_only
    arc = np.random.default_rng(0).normal(size=(2, 6, 6))
    tables = {kind: np.ones((2, *dense_shape(kind, 6))) for kind in TREE_FEATURES}
    plain, scored = decoder(Parts.from_dense(arc)), decoder(Parts.from_dense(arc, **tables))
    np.testing.assert_array_equal(plain.heads, scored.heads)
    assert (scored.score > plain.score).all()
    assert plain.certified.all()
    assert not scored.certified.any()


def test_hill_climbing_takes_all():
    assert HillClimbing.takes == set(KINDS)


@given(batch=batches(some_kinds, feasible=True), count=st.integers(1, 4), seed=st.integers(0, 99))
def test_rerank_takes_the_tree_that_scores_best(batch, count, seed):
    rng = np.random.default_rng(seed)
    batch.mask[:] = True
    parts = Parts.from_dense(batch.arc, [len(mask) - 1 for mask in batch.masks], **batch.tables)
    several = [np.pad(batch.heads, [(0, 0), (0, 1)], constant_values=-1)]
    for _ in range(count - 1):
        heads = np.full_like(batch.heads, -1)
        for b, tree in enumerate(batch.trees):
            heads[b, : len(tree)] = draw_tree(rng, len(tree) - 1, 3, False)
        several.append(heads)
    scores = np.array([parts.score(heads) for heads in several])
    best = rerank(parts, several)
    assert best.score.tolist() == scores.max(0).tolist() == parts.score(best.heads).tolist()
    assert best.counters["choice"].tolist() == scores.argmax(0).tolist()
    assert best.heads.shape == parts.empty_trees().shape
    assert best.bound is None
    assert not best.certified.any()


def test_rerank_of_decoders():
    """Trees that decoders find without features, weighed with them; trees with arcs that are no candidates lose."""
    rng = np.random.default_rng(1)
    arc, mask = rng.normal(size=(20, 9, 9)), np.ones((20, 9, 9), dtype=bool)
    plain = Parts.from_dense(arc, mask=mask)
    parts = plain.with_scores(span=rng.normal(size=plain.part_offsets("span")[-1]))
    several = [MST()(plain), Eisner()(plain), HillClimbing(patience=3)(parts)]
    best = rerank(parts, several)
    assert (best.score == np.max([parts.score(trees.heads) for trees in several], axis=0)).all()
    assert len(np.unique(best.counters["choice"])) > 1
    nowhere = np.zeros_like(best.heads)
    nowhere[:, 1:] = np.arange(1, 9)
    assert (rerank(parts, [nowhere, best]).counters["choice"] == 1).all()
    with pytest.raises(ValueError, match="there are no trees to choose from"):
        rerank(parts, [])
