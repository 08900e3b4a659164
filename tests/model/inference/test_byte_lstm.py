"""LSTMs by products of bytes, against the recurrence written out."""

from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from arbora.model.inference.byte_lstm import LANES, ByteLSTM, multiplication, to_bytes

WIDTH = 4 * LANES


def random_weights(size: int, inputs: int) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(size)
    shape = (2, 4, size)
    return {
        "inputs": rng.integers(-127, 128, (*shape, inputs)).astype(np.int8),
        "states": rng.integers(-127, 128, (*shape, size)).astype(np.int8),
        "inputs.scale": (0.01 * rng.random(shape)).astype(np.float32),
        "states.scale": (0.02 * rng.random(shape)).astype(np.float32),
        "bias": rng.normal(size=shape).astype(np.float32),
    }


def written_out(weights: dict[str, NDArray[Any]], way: int, inputs: NDArray[np.float64]) -> NDArray[np.float64]:
    """States (n, size) of one sequence in one direction, as whole numbers, from inputs (n, inputs)."""
    state = cell = np.zeros(weights["bias"].shape[2])
    found = []
    for vector in inputs[::-1] if way else inputs:
        read = weights["inputs"][way] @ vector * weights["inputs.scale"][way]
        remembered = weights["states"][way] @ state * weights["states.scale"][way] / 127
        i, f, g, o = read + remembered + weights["bias"][way]
        opened, kept, out = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
        cell = kept * cell + opened * np.tanh(g)
        state = np.floor(127 * out * np.tanh(cell) + 0.5)
        found.append(state)
    return np.array(found[::-1] if way else found)


@pytest.mark.parametrize(("size", "inputs"), [(1, 1), (9, 13), (16, 4), (33, 20)])
def test_states_are_those_of_the_recurrence(size: int, inputs: int) -> None:
    weights = random_weights(size, inputs)
    vectors = np.random.default_rng(1).normal(size=(30, inputs)).astype(np.float32)
    read = to_bytes(vectors)
    whole = read.rows[:, :inputs].astype(np.float64) - 128
    np.testing.assert_allclose(whole * read.step[:, None], vectors, atol=np.abs(vectors).max() / 250)
    at = np.random.default_rng(2).integers(0, 30, 40)
    lengths = np.array([3, 1, 12, 1, 7, 2, 9, 5])
    starts = np.cumsum(lengths) - lengths
    states = ByteLSTM(weights)(read, at, starts, lengths).rows
    for start, length in zip(starts, lengths):
        places = at[start : start + length]
        for way in range(2):
            expected = written_out(weights, way, whole[places] * read.step[places, None].astype(np.float64))
            found = states[start : start + length, way * size : (way + 1) * size].astype(np.int64) - 128
            assert np.abs(found - expected).max() <= 1  # where the last digit of a sum decides
            assert (found != expected).mean() < 0.05


def test_states_do_not_depend_on_other_sequences() -> None:
    layer, lengths = ByteLSTM(random_weights(20, 12)), np.arange(1, 20)
    read = to_bytes(np.random.default_rng(3).normal(size=(lengths.sum(), 12)).astype(np.float32))
    starts = np.cumsum(lengths) - lengths
    together = layer(read, np.arange(len(read.rows)), starts, lengths).rows
    for start, length in zip(starts, lengths):
        alone = layer(read, np.arange(start, start + length), np.zeros(1, np.int64), np.array([length])).rows
        assert (alone == together[start : start + length]).all()


@pytest.mark.parametrize("rows", [1, 3])
def test_cpus_without_the_instruction_give_the_same(rows: int) -> None:
    rng = np.random.default_rng(4)
    left = rng.integers(0, 256, 100).astype(np.uint8)
    right = rng.integers(-128, 128, (2, 5, 4, LANES, 4)).astype(np.int8)
    start, at = rng.integers(-1000, 1000, (2, WIDTH)).astype(np.int32), np.array([7, 60, 22, 80])
    expected = np.array([left[place : place + 20] for place in at[1 : 1 + rows]]).astype(np.int64)
    expected = start[1] + (expected @ right[1].transpose(0, 3, 1, 2).reshape(20, WIDTH).astype(np.int64))
    multiply = multiplication(rows, one_instruction=False)

    @numba.njit
    def call(sums: Any, start: Any, left: Any, at: Any, right: Any) -> None:
        multiply(sums, start, left, at, 1, right, 1)

    sums = np.zeros(rows * WIDTH, np.int32)
    call(sums, start, left, at, right)
    assert (sums.reshape(rows, WIDTH) == expected).all()
