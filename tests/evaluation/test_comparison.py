"""Figures of decoders on the same scores, and scores kept in a folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from arbora.data.conll import Sentence, read_conll
from arbora.decoders import AD3, MST, BranchAndBound, Decoder, Eisner, Parts, Trees
from arbora.decoders.parts.kinds import HIGHER_ORDER
from arbora.decoders.parts.tree_features import TAG_NUMBERS
from arbora.evaluation import Evaluation, comparison, saved, studies, trials
from arbora.evaluation.comparison import Best, Gold
from arbora.evaluation.memory import peak_memory
from arbora.evaluation.saved import ScoredTreebank
from arbora.evaluation.trials import Found, Times, Variant

KINDS = tuple(HIGHER_ORDER)

FIXTURE = Path(__file__).parents[1] / "fixtures" / "treebank.conllu"
LABELS = ["root", "nsubj", "nsubj:pass", "obl", "punct", "det"]


def scores(
    kinds: Sequence[str] = (), seed: int = 0, batches: int = 3, copies: int = 4, keep: float = 1.0
) -> ScoredTreebank:
    """The fixture's sentences several times over, with random scores."""
    rng = np.random.default_rng(seed)
    sentences = [
        replace(sentence, line_number=sentence.line_number + 1000 * copy)
        for copy in range(copies)
        for sentence in read_conll(FIXTURE)
    ]
    order = rng.permutation(len(sentences))
    parts, labels = [], []
    for places in np.array_split(order, batches):
        lengths = np.array([len(sentences[place]) for place in places])
        size = int(lengths.max()) + 1
        mask = rng.random((len(places), size, size)) < keep
        for b, place in enumerate(places):
            mask[b, np.arange(1, lengths[b] + 1), sentences[place].head] = True
        one = Parts.from_dense(rng.normal(size=(len(places), size, size)), lengths, mask)
        if "coordination" in kinds:
            one = one.with_tags([TAG_NUMBERS.get(tag, 0) for place in places for tag in sentences[place].upos])
        sizes = {kind: int(one.part_offsets(kind)[-1]) for kind in kinds}  # type: ignore[arg-type]
        higher = {kind: rng.normal(size=(size,)).astype(np.float32) for kind, size in sizes.items()}
        parts.append(one.with_scores(**higher) if higher else one)
        labels.append(rng.integers(0, len(LABELS), len(one.head)).astype(np.int32))
    about = {"model": "x.ckpt", "file": "dev.conllu", "scoring": {"seconds": [2.0, 1.0, 3.0], "words": 100}}
    return ScoredTreebank(sentences, parts, order, labels, LABELS, about)


def no_times(scored: ScoredTreebank, count: int) -> list[Times]:
    return [Times([0.5, 0.25], scored.words, np.full(len(scored.sentences), 0.001), 1000) for _ in range(count)]


def figures(scored: ScoredTreebank, variants: Sequence[Variant], **options: Any) -> dict[str, Any]:
    found = [trials.decode(variant.decoder, scored) for variant in variants]
    return comparison.report(variants, found, no_times(scored, len(variants)), scored, draws=100, **options)


@dataclass(frozen=True)
class Choosy(Decoder):
    """Finds the best tree by arcs, but not for sentences with some number of words."""

    takes: ClassVar[frozenset[str]] = frozenset()
    refused: int = 0
    single_root: bool = True

    def decode(self, parts: Parts) -> Trees:
        if (parts.lengths == self.refused).any():
            b = int(np.argmax(parts.lengths == self.refused))
            raise ValueError(f"sentence {b}: no tree of {self.refused} words")
        return MST(self.single_root)(parts)


@dataclass(frozen=True)
class Broken(Decoder):
    """Returns what it should not."""

    how: str = ""
    single_root: bool = True

    def decode(self, parts: Parts) -> Trees:
        trees = MST(self.single_root)(parts)
        heads, score = trees.heads.copy(), trees.score.copy()
        if self.how == "cycle":
            heads[:, 1], heads[:, 2] = 2, 1
        elif self.how == "score":
            score += 1
        elif self.how == "outside":
            heads[:, 1] = heads.shape[1]
        elif self.how == "shape":
            heads = heads[:, :-1]
        elif self.how == "crash":
            raise ZeroDivisionError("division by zero")
        return replace(trees, heads=heads, score=score)


def test_accuracy_is_that_of_evaluate() -> None:
    scored = scores(["sibling"])
    (row,) = figures(scored, [Variant("mst", MST())])["decoders"]
    evaluation = Evaluation()
    for parts, places, label in zip(scored.batches, scored.places(), scored.label, strict=True):
        heads = MST()(parts).heads
        for b, place in enumerate(places):
            sentence, tree = scored.sentences[place], heads[b]
            names = []
            for m in range(1, len(sentence) + 1):
                (arc,) = [
                    k
                    for k in range(parts.sentence_offsets[b], parts.sentence_offsets[b + 1])
                    if (parts.modifier[k], parts.head[k]) == (m, tree[m])
                ]
                names.append(LABELS[label[arc]])
            evaluation.add(sentence, tree[1 : len(sentence) + 1].tolist(), names)
    assert row["accuracy"] == evaluation.figures()
    assert row["failures"] == {"count": 0, "first": []}
    lengths = row["accuracy"]["sentence_length"]
    for group, by_length in zip(figures(scored, [Variant("m", MST())])["lengths"], row["by_length"], strict=True):
        assert by_length["uas"] == lengths[group["name"]]["uas"]
        assert by_length["las"] == lengths[group["name"]]["las"]


def test_search_figures_by_hand() -> None:
    scored = scores(["grandparent"], seed=2)
    variants = [Variant("mst", MST()), Variant("best", BranchAndBound()), Variant("eisner", Eisner())]
    result = figures(scored, variants, reference=1)
    rows = {row["name"]: row for row in result["decoders"]}
    best = np.concatenate([BranchAndBound()(parts).score for parts in scored.batches])
    mst = np.concatenate([MST()(parts).score for parts in scored.batches])
    assert rows["best"]["search"]["best"] == rows["best"]["search"]["certified"] == 100
    assert rows["best"]["search"]["gap_to_best"] == pytest.approx(0, abs=1e-9)
    assert rows["mst"]["search"]["mean_score"] == pytest.approx(mst.mean())
    assert rows["mst"]["search"]["best"] == pytest.approx(100 * (mst > best - 1e-6).mean())
    assert rows["mst"]["search"]["gap_to_bound"] == pytest.approx((best - mst).mean(), rel=1e-4)
    assert rows["mst"]["search"]["certified"] == 0
    assert rows["best"]["search"]["gold_scores_more"] == 0
    assert rows["best"]["against_reference"]["shared_arcs"] == 100
    assert result["reference"] == "best"
    assert result["warnings"] == []

    gold = np.concatenate([sentence.head for sentence in scored.sentences])
    here, there = (trials.decode(v.decoder, scored).heads for v in variants[:2])
    against = rows["mst"]["against_reference"]
    assert against["shared_arcs"] == pytest.approx(100 * (here == there).mean())
    assert against["gold_here_alone"] == pytest.approx(100 * ((here == gold) & (there != gold)).mean())
    assert against["gold_there_alone"] == pytest.approx(100 * ((here != gold) & (there == gold)).mean())
    difference = rows["mst"]["accuracy"]["uas"] - rows["best"]["accuracy"]["uas"]
    assert against["uas"]["difference"] == pytest.approx(difference)
    assert against["uas"]["low"] <= difference <= against["uas"]["high"]


def test_speed_is_the_median_of_runs_with_that_of_scoring() -> None:
    scored = scores()
    (row,) = figures(scored, [Variant("mst", MST())])["decoders"]
    rate = row["speed"]["words_per_second"]
    assert (rate["low"], rate["high"]) == (2 * scored.words, 4 * scored.words)
    assert row["speed"]["with_scoring"] == pytest.approx(1 / (2.0 / 100 + 0.375 / scored.words))
    assert (row["speed"]["median_ms"], row["speed"]["memory_mb"]) == (1.0, 0.001)


def test_one_sentence_fails_and_the_rest_stands() -> None:
    scored = scores()
    counts = np.bincount(scored.lengths)
    refused = int(np.flatnonzero((counts > 0) & (counts < len(scored.sentences)))[0])
    gone = np.flatnonzero(scored.lengths == refused)
    variants = [Variant("mst", MST()), Variant("choosy", Choosy(refused))]
    result = figures(scored, variants)
    whole, choosy = result["decoders"]
    assert whole["sentences"] == len(scored.sentences)
    assert choosy["sentences"] == len(scored.sentences) - len(gone)
    assert choosy["failures"]["count"] == len(gone)
    assert choosy["failures"]["first"][0] == {
        "sentence": int(gone[0]) + 1,
        "where": scored.sentences[gone[0]].where(),
        "why": f"no tree of {refused} words",
    }
    assert choosy["against_reference"]["sentences"] == choosy["sentences"]
    assert choosy["against_reference"]["shared_arcs"] == 100
    assert choosy["against_reference"]["uas"] == {"difference": 0, "low": 0, "high": 0}

    kept = Evaluation()
    found = trials.decode(MST(), scored)
    offsets = np.concatenate([[0], np.cumsum(scored.lengths)])
    for i in np.flatnonzero(scored.lengths != refused):
        words = slice(offsets[i], offsets[i + 1])
        kept.add(scored.sentences[i], found.heads[words].tolist(), [LABELS[k] for k in found.label[words]])
    assert choosy["accuracy"] == kept.figures()

    again = [trials.decode(variant.decoder, scored) for variant in variants]
    times = trials.measure(variants, again, scored, repeats=2)
    assert times[1].words == scored.words - refused * len(gone)
    assert np.isnan(times[1].alone).sum() == len(gone)
    assert not np.isnan(times[0].alone).any()
    rows = list(comparison.sentence_rows(variants, again, times, scored))
    assert [row["failure"] for row in rows if row["failure"]] == [f"no tree of {refused} words"] * len(gone)
    assert sum(row["right_heads"] or 0 for row in rows if row["decoder"] == "mst") == round(
        whole["accuracy"]["uas"] * scored.words / 100
    )


def test_a_decoder_that_fails_on_all_sentences_is_there_without_figures() -> None:
    scored = scores(["valency"])
    variants = [Variant("mst", MST()), Variant("ad3", AD3())]
    result = figures(scored, variants)
    row = result["decoders"][1]
    assert row["sentences"] == 0
    assert row["failures"]["count"] == len(scored.sentences)
    assert "AD3 does not search by valency" in row["failures"]["first"][0]["why"]
    assert row["accuracy"]["uas"] is None
    assert row["against_reference"]["uas"] == {"difference": None, "low": None, "high": None}
    json.dumps(result, allow_nan=False)
    times = trials.measure(variants, [trials.decode(v.decoder, scored) for v in variants], scored, repeats=1)
    assert (times[1].words, np.isnan(times[1].alone).all()) == (0, True)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("cycle", "the decoder returned a cycle"),
        ("score", "the decoder returned a tree with a wrong score"),
        ("outside", "the decoder returned heads outside of the sentence"),
        ("shape", "the decoder returned heads of shape"),
        ("crash", "ZeroDivisionError: division by zero"),
    ],
)
def test_trees_are_not_taken_on_trust(how: str, why: str) -> None:
    scored = scores()
    found = trials.decode(Broken(how), scored)
    assert found.failures[0].reason.startswith(why)
    assert (found.ok == [not any(f.sentence == i for f in found.failures) for i in range(len(found.ok))]).all()


@dataclass(frozen=True)
class Lonely(Decoder):
    """Takes one sentence at a time alone."""

    takes: ClassVar[frozenset[str]] = frozenset()
    single_root: bool = True

    def decode(self, parts: Parts) -> Trees:
        if len(parts.lengths) > 1:
            raise MemoryError("too much")
        return MST(self.single_root)(parts)


def test_a_batch_that_is_too_large_is_timed_in_pieces() -> None:
    scored = scores()
    variants = [Variant("mst", MST()), Variant("lonely", Lonely())]
    found = [trials.decode(variant.decoder, scored) for variant in variants]
    assert found[1].failures == []
    np.testing.assert_array_equal(found[0].heads, found[1].heads)
    np.testing.assert_array_equal(found[0].label, found[1].label)
    times = trials.measure(variants, found, scored, repeats=2)
    assert [len(entry.total) for entry in times] == [2, 2]
    assert times[1].words == scored.words


@dataclass(frozen=True)
class Tiring(Decoder):
    """Finds trees so many times, and then no more until it has slept."""

    takes: ClassVar[frozenset[str]] = frozenset()
    calls: ClassVar[list[int]] = []
    fails: tuple[int, ...] = ()
    single_root: bool = True

    def decode(self, parts: Parts) -> Trees:
        self.calls.append(len(parts.lengths))
        if len(self.calls) in self.fails:
            raise ValueError("sentence 0: too tired")
        return MST(self.single_root)(parts)


def test_a_timing_run_that_fails_is_left_out_and_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "SHORTEST", 0)
    scored = scores(batches=3)
    # Three calls find the trees, then come three runs of three batches: the second run ends at its first batch.
    variants = [Variant("tiring", Tiring(fails=(7,))), Variant("mst", MST())]
    Tiring.calls.clear()
    found = [trials.decode(variant.decoder, scored) for variant in variants]
    times = trials.measure(variants, found, scored, repeats=3)
    assert [len(entry.total) for entry in times] == [2, 3]
    assert times[0].failures == ["too tired"]
    assert not np.isnan(times[0].alone).any()
    assert times[0].memory is None or times[0].memory >= 0
    rows = comparison.report(variants, found, times, scored, draws=10)["decoders"]
    assert rows[0]["speed"]["failures"] == {"count": 1, "first": "too tired"}
    assert rows[0]["speed"]["words_per_second"]["median"] > 0

    # One sentence cannot be timed by itself: it alone has no time.
    Tiring.calls.clear()
    variants = [Variant("tiring", Tiring(fails=(8,))), Variant("mst", MST())]
    times = trials.measure(variants, found, scored, repeats=2)
    assert np.isnan(times[0].alone).sum() == 1
    assert len(times[0].total) == 2
    assert not np.isnan(times[1].alone).any()


def test_quick_decoders_are_timed_over_several_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    scored = scores(batches=1)
    variants = [Variant("tiring", Tiring())]
    found = [trials.decode(Tiring(), scored)]
    monkeypatch.setattr(trials, "SHORTEST", 4.5)
    monkeypatch.setattr(trials, "LATENCIES", 0)
    monkeypatch.setattr(trials.time, "perf_counter", lambda: next(clock))
    Tiring.calls.clear()
    (times,) = trials.measure(variants, found, scored, repeats=2)
    assert times.total == [1.0, 1.0]  # five passes of a second each
    assert len(Tiring.calls) == 10


def test_figures_of_relaxations_and_of_scores_beside_the_reference() -> None:
    scored = scores(["grandparent", "sibling"], seed=4)
    variants = [Variant("ad3", AD3(max_iterations=3)), Variant("mst", MST()), Variant("best", BranchAndBound())]
    found = [trials.decode(variant.decoder, scored) for variant in variants]
    rows = comparison.report(variants, found, no_times(scored, 3), scored, draws=10)["decoders"]
    trees = [AD3(max_iterations=3)(parts) for parts in scored.batches]
    integral, certified, bound, score = (
        np.concatenate([getattr(one, name) for one in trees]) for name in ("integral", "certified", "bound", "score")
    )
    assert rows[0]["search"]["integral"] == pytest.approx(100 * integral.mean())
    assert not certified.all()
    assert rows[0]["search"]["open_gap"] == pytest.approx((bound - score)[~certified].mean())
    assert rows[1]["search"]["integral"] is None
    reference, other = found[0].score, found[1].score
    assert (reference > other + 1e-6).any()
    assert rows[1]["against_reference"]["scores_less"] == pytest.approx(100 * (other < reference - 1e-6).mean())
    assert rows[1]["against_reference"]["scores_more"] == pytest.approx(100 * (other > reference + 1e-6).mean())
    assert rows[0]["against_reference"]["scores_more"] == rows[0]["against_reference"]["scores_less"] == 0


def test_some_sentences_of_a_treebank() -> None:
    scored = scores(["grandparent"], batches=3)
    chosen = np.zeros(len(scored.sentences), np.bool_)
    chosen[[1, 4, 5, 9]] = True
    some = scored.subset(chosen)
    assert [sentence.line_number for sentence in some.sentences] == [
        sentence.line_number for sentence, there in zip(scored.sentences, chosen) if there
    ]
    whole, part = trials.decode(AD3(), scored), trials.decode(AD3(), some)
    np.testing.assert_array_equal(part.score, whole.score[chosen])
    words = np.repeat(chosen, scored.lengths)
    np.testing.assert_array_equal(part.heads, whole.heads[words])
    np.testing.assert_array_equal(part.label, whole.label[words])
    arcs = scored.first_order()
    assert arcs.batches[0].kinds == ()
    np.testing.assert_array_equal(trials.decode(MST(), arcs).heads, trials.decode(MST(), scored).heads)
    assert arcs.about["scoring"] is None


def test_a_refuted_bound_is_told() -> None:
    scored = scores()
    variants = [Variant("mst", MST()), Variant("wrong", MST())]
    found = [trials.decode(variant.decoder, scored) for variant in variants]
    found[1].bound[2] -= 1
    result = comparison.report(variants, found, no_times(scored, 2), scored, draws=10)
    assert len(result["warnings"]) == 1
    assert scored.sentences[2].where() in result["warnings"][0]
    assert "the bound of wrong" in result["warnings"][0]


def test_trees_with_several_roots_are_measured_among_themselves() -> None:
    scored = scores(seed=3)
    variants = [Variant("one", MST()), Variant("several", MST(single_root=False)), Variant("projective", Eisner())]
    found = [trials.decode(variant.decoder, scored) for variant in variants]
    assert (found[1].score > found[0].score + 1e-6).any()
    one, several = Best.known(variants, found, True), Best.known(variants, found, False)
    np.testing.assert_array_equal(one.score, found[0].score)
    np.testing.assert_array_equal(several.score, found[1].score)
    np.testing.assert_array_equal(one.bound, found[0].score)
    np.testing.assert_array_equal(several.bound, found[1].score)
    assert not one.wrong_bounds().any()
    assert not several.wrong_bounds().any()


def test_results_are_in_the_order_of_the_file() -> None:
    scored = scores(["grandparent", "sibling"])
    found = trials.decode(AD3(max_iterations=3), scored)
    gold = Gold(scored)
    for parts, places in zip(scored.batches, scored.places(), strict=True):
        trees = AD3(max_iterations=3)(parts)
        for b, place in enumerate(places):
            words = slice(gold.offsets[place], gold.offsets[place + 1])
            np.testing.assert_array_equal(found.heads[words], trees.heads[b, 1 : parts.lengths[b] + 1])
            assert found.score[place] == trees.score[b]
            assert found.counters["iterations"][place] == trees.counters["iterations"][b]


def test_disagreements_hold_each_tree_once() -> None:
    scored = scores(["grandparent"])
    variants = [Variant("a", MST()), Variant("b", AD3()), Variant("c", MST())]
    found = [trials.decode(variant.decoder, scored) for variant in variants]
    gold = Gold(scored)
    entries = comparison.disagreements(found, gold)
    offsets = np.concatenate([[0], np.cumsum(scored.lengths)])
    different = [
        i + 1
        for i in range(len(scored.sentences))
        if (found[0].heads[offsets[i] : offsets[i + 1]] != found[1].heads[offsets[i] : offsets[i + 1]]).any()
    ]
    wrong = set((gold.sentence[~gold.right(found[0])[1]] + 1).tolist())
    assert [entry["number"] for entry in entries] == sorted({*different, *wrong})
    assert different
    for entry in entries:
        assert entry["upos"] == scored.sentences[entry["number"] - 1].upos
        if entry["number"] not in different:
            assert entry["tree"] == [0, 0, 0]
            continue
        assert entry["tree"] == [0, 1, 0]
        i = entry["number"] - 1
        assert entry["trees"][1]["heads"] == found[1].heads[offsets[i] : offsets[i + 1]].tolist()
        assert entry["trees"][1]["score"] == found[1].score[i]
        assert entry["gold"]["heads"] == scored.sentences[i].head


def test_errors_count_every_word_once() -> None:
    scored = scores(["grandparent"])
    found = [trials.decode(decoder, scored) for decoder in (MST(), AD3())]
    gold = Gold(scored)
    right = gold.right(found[1])[1]
    tables = comparison.errors(found, gold, 1)
    labels = [label.partition(":")[0] for label in gold.label_names]
    assert {row["name"]: row["words"] for row in tables["label"]} == {name: labels.count(name) for name in set(labels)}
    for row in tables["label"]:
        own = np.array([label == row["name"] for label in labels])
        assert row["wrong"] == int(np.count_nonzero(own & ~right))
        assert row["las"][1] == pytest.approx(100 * np.count_nonzero(own & right) / np.count_nonzero(own))
    assert sum(row["words"] for row in tables["upos"]) == scored.words
    assert [row["wrong"] for row in tables["label"]] == sorted((row["wrong"] for row in tables["label"]), reverse=True)


def bootstrap_of(
    right: list[list[int]], lengths: list[int], ok: list[list[bool]] | None = None, seed: int = 0
) -> NDArray[np.float64]:
    counts = np.array(right)[:, None].repeat(2, axis=1)
    there = np.ones(counts[:, 0].shape, np.bool_) if ok is None else np.array(ok)
    return comparison.bootstrap(counts, there, np.array(lengths), 0, 2000, seed)[:, 0]


def test_the_bootstrap_is_paired_and_seeded() -> None:
    rng = np.random.default_rng(1)
    lengths = rng.integers(5, 30, 400)
    base = rng.binomial(lengths, 0.9)
    more = np.minimum(lengths, base + rng.binomial(1, 0.1, 400))
    ends = bootstrap_of([base.tolist(), more.tolist(), base.tolist()], lengths.tolist())
    np.testing.assert_array_equal(ends[0], 0)
    np.testing.assert_array_equal(ends[2], 0)
    difference = 100 * (more - base).sum() / lengths.sum()
    assert 0 < ends[1, 0] < difference < ends[1, 1]
    deviation = 100 * np.sqrt(400) * (more - base - difference / 100 * lengths).std() / lengths.sum()
    assert ends[1, 1] - ends[1, 0] == pytest.approx(2 * 1.96 * deviation, rel=0.1)
    again = bootstrap_of([base.tolist(), more.tolist(), base.tolist()], lengths.tolist())
    np.testing.assert_array_equal(ends, again)
    other = bootstrap_of([base.tolist(), more.tolist(), base.tolist()], lengths.tolist(), seed=1)
    assert (other[1] != ends[1]).any()


def test_the_bootstrap_leaves_out_what_one_lacks() -> None:
    ok = [[True, True, True], [True, False, True], [False, False, False]]
    ends = bootstrap_of([[5, 5, 5], [5, 0, 5], [0, 0, 0]], [10, 10, 10], ok)
    np.testing.assert_array_equal(ends[1], 0)
    assert np.isnan(ends[2]).all()


@pytest.mark.parametrize("kinds", [(), ("grandparent", "sibling"), (*KINDS, "valency", "coordination")])
def test_scores_survive_a_folder(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    scored = scores(kinds, copies=2, keep=0.3 if len(kinds) > 2 else 1.0)
    saved.save(scored, tmp_path / "scores")
    assert saved.is_saved(tmp_path / "scores")
    loaded = saved.load(tmp_path / "scores")
    assert loaded.sentences == scored.sentences
    assert (loaded.labels, loaded.about) == (scored.labels, scored.about)
    np.testing.assert_array_equal(loaded.position, scored.position)
    for one, other in zip(scored.batches, loaded.batches, strict=True):
        assert one.kinds == other.kinds
        for name in ("lengths", "head", "arc_score", "sentence_offsets", "modifier_offsets", "tags", *one.kinds):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        mapped = other.arc_score
        while isinstance(mapped.base, np.ndarray):
            mapped = mapped.base
        assert isinstance(mapped, np.memmap)
        assert other.arc_score.flags.writeable  # read-only arrays are of another type to kernels
    for one_label, other_label in zip(scored.label, loaded.label, strict=True):
        np.testing.assert_array_equal(one_label, other_label)
    decoder = AD3() if len(kinds) == 2 else MST()
    before, after = trials.decode(decoder, scored), trials.decode(decoder, loaded)
    np.testing.assert_array_equal(before.heads, after.heads)
    np.testing.assert_array_equal(before.score, after.score)
    np.testing.assert_array_equal(before.label, after.label)


def test_what_is_mapped_does_not_change_the_folder(tmp_path: Path) -> None:
    saved.save(scores(), tmp_path / "scores")
    before = (tmp_path / "scores" / "arc_score.npy").read_bytes()
    saved.load(tmp_path / "scores").batches[0].arc_score[:] = 0
    assert (tmp_path / "scores" / "arc_score.npy").read_bytes() == before


def test_the_first_sentences_alone() -> None:
    scored = scores(["sibling"])
    few = scored.subset(np.arange(len(scored.sentences)) < 7)
    assert few.sentences == scored.sentences[:7]
    all_trees, trees = trials.decode(AD3(), scored), trials.decode(AD3(), few)
    np.testing.assert_array_equal(trees.score, all_trees.score[:7])
    np.testing.assert_array_equal(trees.heads, all_trees.heads[: few.words])
    np.testing.assert_array_equal(trees.label, all_trees.label[: few.words])


def test_folders_that_are_not_whole(tmp_path: Path) -> None:
    folder = tmp_path / "scores"

    def broken(message: str) -> None:
        with pytest.raises(ValueError, match=message):
            saved.load(folder)
        saved.save(scores(["sibling"]), folder)

    saved.save(scores(["sibling"]), folder)
    (folder / "head.npy").unlink()
    broken("head.npy: No such file")
    np.save(folder / "arc_score.npy", np.zeros(3, np.float32))
    broken("arc_score.npy ends too early")
    np.save(folder / "label.npy", np.append(np.load(folder / "label.npy"), np.int32(0)))
    broken("label.npy has more entries")
    np.save(folder / "label.npy", np.full_like(np.load(folder / "label.npy"), 99))
    broken("needs the number of one of the labels")
    np.save(folder / "arc_score.npy", np.load(folder / "arc_score.npy").astype(np.float64))
    broken("must hold one row of float32")
    np.save(folder / "head.npy", np.array([{"a": 1}], object), allow_pickle=True)
    broken("allow_pickle|pickle|Python objects")
    (folder / "about.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match="about.json is incomplete"):
        saved.load(folder)
    (folder / "about.json").write_text("[", encoding="utf-8")
    with pytest.raises(ValueError, match="scores"):
        saved.load(folder)


def test_a_folder_is_replaced_only_when_the_new_one_is_whole(tmp_path: Path) -> None:
    folder = tmp_path / "scores"
    saved.save(scores(), folder)
    before = sorted((path.name, path.read_bytes()) for path in folder.iterdir())

    def stopped() -> None:
        with saved.new_folder(folder, saved.ABOUT, saved.KIND) as place:
            (place / "half").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert sorted((path.name, path.read_bytes()) for path in folder.iterdir()) == before
    assert list(tmp_path.iterdir()) == [folder]
    saved.save(scores(["sibling"]), folder)
    assert saved.load(folder).batches[0].kinds == ("sibling",)
    assert list(tmp_path.iterdir()) == [folder]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match="exists and does not hold arbora scores"):
        saved.save(scores(), tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.tex").exists()


def test_batches_and_sentences_must_fit() -> None:
    scored = scores()
    with pytest.raises(ValueError, match="name each sentence once"):
        replace(scored, position=scored.position * 0)
    with pytest.raises(ValueError, match="same numbers of words"):
        replace(scored, sentences=[Sentence.from_words(["a"])] * len(scored.sentences))


def test_more_restarts_score_no_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies, "RESTARTS", (1, 4, 16))
    scored = scores(["grandparent"])
    best = trials.decode(BranchAndBound(), scored).score
    rows = studies.restarts(scored, best)
    assert [(row["start"], row["restarts"]) for row in rows] == [
        (start, count) for start in ("uniform", "first_order") for count in (1, 4, 16)
    ]
    for start in ("uniform", "first_order"):
        share = [row["best"] for row in rows if row["start"] == start]
        assert share == sorted(share)
        assert share[0] < share[-1]
    assert all(row["gap_to_best"] >= -1e-9 for row in rows)


def test_dual_methods_by_length_and_iterations() -> None:
    scored = scores(["grandparent"])
    methods = studies.dual_decomposition(scored, repeats=1)["methods"]
    assert [method["name"] for method in methods] == ["ad3", "subgradient"]
    for method in methods:
        assert method["certified"] == sorted(method["certified"])
        shares = [row["certified"] * row["sentences"] for row in method["by_length"]]
        assert sum(shares) / len(scored.sentences) == pytest.approx(method["certified"][-1])


def test_memory_is_that_of_the_block() -> None:
    with peak_memory() as small:
        pass
    with peak_memory() as large:
        np.ones(4_000_000)
    if large.bytes is None:
        pytest.skip("this system does not tell")
    assert large.bytes > 30_000_000
    assert small.bytes is not None
    assert small.bytes < 10_000_000


def test_found_knows_where_it_has_a_tree() -> None:
    empty = np.zeros(0, np.int32)
    found = Found(empty, empty, np.array([1.0, np.nan]), np.full(2, np.nan), np.zeros(2, np.bool_))
    assert found.ok.tolist() == [True, False]
