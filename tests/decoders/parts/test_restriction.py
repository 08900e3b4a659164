"""Fewer candidate arcs: the same parts as if the arcs that were taken away had never been candidates."""

import brute_force
import numpy as np
import pytest

from arbora.decoders import Parts
from arbora.decoders.parts.kinds import KINDS
from arbora.decoders.parts.restriction import Restriction


def dense(lengths: list[int], kinds: tuple[str, ...], seed: int) -> tuple[dict, np.ndarray]:
    rng = np.random.default_rng(seed)
    N = max(lengths) + 1
    shape = (len(lengths), N, N)
    scores = {"arc": rng.normal(size=shape).astype(np.float32)}
    scores |= {
        kind: rng.normal(size=(len(lengths), *brute_force.dense_shape(kind, N))).astype(np.float32) for kind in kinds
    }
    return scores, rng.random(shape) < 0.7


@pytest.mark.parametrize("kinds", [(), ("sibling",), ("grand_sibling",), ("grand_grandparent",), tuple(KINDS)], ids=str)
def test_the_rest_is_as_if_arcs_had_been_masked(kinds):
    lengths = [5, 1, 4, 6]
    scores, mask = dense(lengths, kinds, seed=len(kinds))
    tags = np.random.default_rng(1).integers(0, 18, (4, 7))
    tags[:, 2] = brute_force.CONJUNCTION
    parts = Parts.from_dense(scores["arc"], lengths, mask, tags, **{kind: scores[kind] for kind in kinds})
    restriction = Restriction(parts)
    for chosen in ([0, 1, 2, 3], [2, 2, 0], [3], []):
        fewer = mask[chosen] & (np.random.default_rng(len(chosen)).random((len(chosen), 7, 7)) < 0.7)
        sentence = np.repeat(np.arange(len(chosen)), np.diff(parts.sentence_offsets)[chosen])
        arcs = parts.entries("arc", np.array(chosen, dtype=np.int64))
        left = restriction(fewer[sentence, parts.modifier[arcs], parts.head[arcs]], chosen)
        taken = {kind: score[chosen] for kind, score in scores.items()}
        expected = Parts.from_dense(
            taken.pop("arc"), [lengths[b] for b in chosen], fewer, tags[chosen] if chosen else None, **taken
        )
        assert left.kinds == expected.kinds
        for name in ("lengths", "head", "arc_score", "sentence_offsets", "modifier_offsets", "tags", *kinds):
            np.testing.assert_array_equal(getattr(left, name), getattr(expected, name), err_msg=name)


def test_another_number_of_arcs_is_refused():
    parts = Parts.from_dense(np.zeros((3, 3)))
    with pytest.raises(ValueError, match="one entry for each of 4 arcs"):
        Restriction(parts)([True])
