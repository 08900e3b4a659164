"""The vine cascade of linear models: its features, the gradient of the filter loss, and what stages leave."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arbora.data.batch import collate, index_sentences
from arbora.data.conll import read_conll
from arbora.data.vocabulary import Vocabulary
from arbora.decoders import Projective
from arbora.decoders.projective.feasibility import has_tree
from arbora.decoders.vine.structures import existing, slot
from arbora.model.linear import pruners
from arbora.model.linear.backend import Linear, LinearModel
from arbora.model.linear.hashing import score_arcs
from arbora.model.linear.mira import Learning, Mira
from arbora.model.linear.pruners import LinearCascade, train_pruner, vine_arcs
from arbora.model.linear.storage import read_linear, to_bytes, write_linear

CASCADE: dict[str, Any] = {"stages": ("vine", "first", "second"), "kinds": ("grandparent", "sibling"), "band": 2}


SENTENCES = list(read_conll(Path(__file__).parents[3] / "examples" / "treebank" / "dev.conllu"))[:12]
SMALL = Learning(epochs=4, step=0.1, folds=2)


def model(pruner_bits: int = 16) -> LinearModel:
    settings = Linear(bits=16, pruner_bits=pruner_bits, **CASCADE)
    return LinearModel(Vocabulary.of(SENTENCES, 1), settings)


def cascade_of(linear: LinearModel) -> LinearCascade:
    assert isinstance(linear.pruner, LinearCascade)
    return linear.pruner


def test_arcs_of_the_vine() -> None:
    lengths = np.array([4, 1, 3])
    there, lists = existing(lengths, 2), vine_arcs(lengths, 2)
    pairs = [np.stack([head, modifier], 1).reshape(*each.shape, 2) for (_, head, modifier), each in zip(lists, there)]
    for (offsets, head, _), each in zip(lists, there):
        assert offsets[-1] == len(head) == each.size
    word = node = 0
    for n in lengths:
        for m in range(n + 1):
            np.testing.assert_array_equal(pairs[2][node], [[m, n + 1], [m, n + 2]])
            node += 1
            if m == 0:
                continue
            np.testing.assert_array_equal(pairs[1][word], [[n + 1, m], [n + 2, m]])
            for d in (-2, -1, 1, 2):
                at = int(slot(d, 2))
                assert tuple(pairs[0][word, at]) == ((m + d, m) if there.close[word, at] else (0, m))
            word += 1


def test_outer_arcs_depend_on_one_word_and_the_side() -> None:
    linear = model()
    (sentence,) = index_sentences([max(SENTENCES, key=len)], linear.vocabulary)
    n, changed = len(sentence), sentence.columns.copy()
    changed[:, 4:] = changed[:, 3:4]
    batch = collate([sentence, replace(sentence, columns=changed)], linear.vocabulary)
    weights = np.random.default_rng(1).normal(size=1 << 16).astype(np.float32)
    head, modifier = np.tile([n + 1, n + 2, 1, 1, 5], 2), np.tile([1, 1, n + 1, n + 2, 1], 2)
    arcs = np.array([0, 5, 10]), head.astype(np.int32), modifier.astype(np.int32)
    one, two = score_arcs(linear.score(batch).pruner_hashes, *arcs, weights).reshape(2, 5)
    assert len(set(one.tolist())) == 5
    np.testing.assert_array_equal(one[:4], two[:4])
    assert one[4] != two[4]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_filter_loss_has_the_gradient_of_its_steps(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    linear = model(pruner_bits=12)
    cascade = cascade_of(linear)
    cascade.weights[:] = np.random.default_rng(number).normal(size=cascade.weights.shape)
    cascade.alphas[:] = -0.5
    sentence = next(s for s in index_sentences(SENTENCES, linear.vocabulary) if 6 <= len(s) <= 12)
    gradient, settings = np.zeros(cascade.weights.shape[1]), replace(SMALL, pruner_epochs=1)
    tree = pruners._projective_tree(sentence, True)

    def record(places: np.ndarray, values: np.ndarray, *_: object) -> None:
        np.add.at(gradient, places, values)

    def loss() -> float:
        scores = linear.score(collate([sentence], linear.vocabulary))
        left = cascade.candidates(scores, True, tree, number)
        search = cascade.search(number, scores, left, settings.alpha, True)
        gold = sum(score[fires].sum(dtype=np.float64) for score, fires in zip(search.scores, search.fires(tree)))
        return float(1 + search.threshold(*search.scores)[0][0] - gold)

    monkeypatch.setattr(pruners, "climb", record)
    pruners._train_stage(linear, cascade, number, [sentence], settings, None)
    assert loss() > 0
    direction = np.random.default_rng(9).choice([-1.0, 1.0], size=gradient.shape) * (gradient != 0)
    before, step, found = cascade.weights[number].copy(), 1e-4, []
    for sign in (1, -1):
        cascade.weights[number] = before + sign * step * direction
        found.append(loss())
    assert (found[0] - found[1]) / (2 * step) == pytest.approx(-gradient @ direction, rel=2e-2, abs=0.1)


def test_stages_prune_and_leave_trees() -> None:
    linear = model()
    indexed = index_sentences(SENTENCES, linear.vocabulary)
    found: dict[str, list[float]] = {}
    linear.pruner = train_pruner(
        linear, indexed, SMALL, indexed, lambda what, _, loss: found.setdefault(what, []).append(loss)
    )
    assert [name.split(",")[0] for name in found] == ["vine", "first", "second"]
    assert found["vine, filter loss"][-1] < found["vine, filter loss"][0]
    cascade = cascade_of(linear)
    batch = collate(indexed, linear.vocabulary)
    scores = linear.score(batch)
    counts = []
    for until in range(4):
        parts = cascade.candidates(scores, True, until=until)
        assert has_tree(parts, True).all()
        counts.append(len(parts.head))
        kept = cascade.candidates(scores, True, batch.heads, until=until)
        words = batch.heads >= 0
        assert len(kept.active(batch.heads)["arc"]) == words.sum()
    assert counts == sorted(counts, reverse=True)
    assert counts[1] < counts[0] / 2


def test_learns_behind_a_cascade_and_is_stored(tmp_path: Path) -> None:
    linear = model()
    assert linear.decoder == Projective()
    indexed = index_sentences(SENTENCES, linear.vocabulary)
    linear.pruner = train_pruner(linear, indexed, SMALL, indexed)
    mira = Mira(linear, indexed, linear.decoder, SMALL)
    losses = [mira.train_epoch(epoch) for epoch in range(4)]
    assert losses[-1] < 0.2 * losses[0]
    averaged = mira.averaged()
    write_linear(tmp_path / "best.ckpt", to_bytes(averaged, {}))
    stored = read_linear(tmp_path / "best.ckpt").model
    np.testing.assert_array_equal(cascade_of(stored).alphas, cascade_of(linear).alphas)
    batch = collate(mira.sentences, linear.vocabulary)
    one, two = (each.score(batch).parts(each.decoder) for each in (averaged, stored))
    np.testing.assert_array_equal(one.head, two.head)
    np.testing.assert_array_equal(one.sibling, two.sibling)


def test_stages_in_order() -> None:
    with pytest.raises(ValueError, match="some of vine, first, second, in this order, got first, vine"):
        Linear(stages=("first", "vine"))
