"""Bidirectional LSTMs that multiply 8-bit integers, over sequences without padding.

Hochreiter and Schmidhuber (1997), with forget gates. States lie between -1 and 1 and are kept as bytes with one scale,
which the next layer multiplies as they are. Products of bytes are exact, and sequences do not meet, so the states of a
sequence do not depend on the others of its batch.

    i, f, o = sigmoid(W x_t + U h_{t-1} + b),   g = tanh(W x_t + U h_{t-1} + b)
    c_t = f c_{t-1} + i g,   h_t = o tanh(c_t)

Time O(n size (inputs + size)) per sequence. All sequences take a step together, so that weights stay in the cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from llvmlite.binding import get_host_cpu_features  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from arbora.decoders.kernels.options import HELPER, KERNEL

MIDDLE, LARGEST = 128, 127
"""The byte that stands for 0, and how far others are from it."""

LANES = 16
"""Units whose gates are computed together; what one register holds."""

ROWS = 6
"""Sequences that take a step together. Their sums, four gates each, fill the registers of AVX-512."""

FAST: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract", "nsz"}}


class Bytes(NamedTuple):
    """Vectors of whole numbers."""

    rows: NDArray[np.uint8]  # (R, inputs), inputs a multiple of 4
    step: NDArray[np.float32]  # (R,) what 1 is worth


def to_bytes(vectors: NDArray[np.float32]) -> Bytes:
    """Round vectors (R, inputs), each by its largest number."""
    rows = np.full((len(vectors), _up(vectors.shape[1], 4)), MIDDLE, np.uint8)
    step = np.empty(len(vectors), np.float32)
    _round_rows(np.ascontiguousarray(vectors), rows, step)
    return Bytes(rows, step)


class ByteLSTM:
    """One bidirectional layer.

    Args:
        weights: `inputs` (2, 4, size, inputs) and `states` (2, 4, size, size), whole numbers for either direction and
            the gates input, forget, cell, output, with their scales `inputs.scale` and `states.scale` (2, 4, size); and
            `bias` (2, 4, size).
    """

    def __init__(self, weights: Mapping[str, NDArray[Any]]) -> None:
        self.size = weights["bias"].shape[2]
        scale = weights["inputs.scale"], weights["states.scale"] / np.float32(LARGEST), weights["bias"]
        self._directions = [
            _Weights(
                _packed(weights["inputs"][way]),
                _packed(weights["states"][way]),
                _blocks(-MIDDLE * weights["inputs"][way].sum(2, dtype=np.int32)),
                _blocks(-MIDDLE * weights["states"][way].sum(2, dtype=np.int32)),
                *(_blocks(values[way]) for values in scale),
            )
            for way in range(2)
        ]

    def __call__(
        self, inputs: Bytes, at: NDArray[np.int64], starts: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> Bytes:
        """States of all positions, forwards and backwards next to each other.

        Args:
            inputs: vectors that are read.
            at: (P,) which of them is read at each position.
            starts: (B,) where sequences begin.
            lengths: (B,) of them, at least 1.
        """
        states = np.empty((len(at), _up(2 * self.size, 4)), np.uint8)
        order = np.argsort(-lengths, kind="stable")
        places = starts[order], lengths[order]
        for way, weights in enumerate(self._directions):
            _read(*inputs, at, *places, bool(way), weights, self.size, states)
        return Bytes(states, np.full(len(at), 1 / LARGEST, np.float32))


class _Weights(NamedTuple):
    """Weights of a direction, in blocks of `LANES` units with the four gates of each next to each other."""

    inputs: NDArray[np.int8]  # (blocks, inputs / 4, 4, LANES, 4)
    states: NDArray[np.int8]  # (blocks, size / 4, 4, LANES, 4)
    inputs_start: NDArray[np.int32]  # (blocks, 4 LANES), what makes up for `MIDDLE`
    states_start: NDArray[np.int32]
    inputs_scale: NDArray[np.float32]
    states_scale: NDArray[np.float32]
    bias: NDArray[np.float32]


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def _blocks(values: NDArray[Any]) -> NDArray[Any]:
    """(4, size) of gates to (blocks, 4 LANES)."""
    padded = np.pad(values, ((0, 0), (0, -values.shape[1] % LANES)))
    return np.ascontiguousarray(padded.reshape(4, -1, LANES).transpose(1, 0, 2).reshape(-1, 4 * LANES))


def _packed(weight: NDArray[np.int8]) -> NDArray[np.int8]:
    """(4, size, inputs) to blocks."""
    size, inputs = weight.shape[1:]
    padded = np.pad(weight, ((0, 0), (0, -size % LANES), (0, -inputs % 4)))
    return np.ascontiguousarray(padded.reshape(4, -1, LANES, padded.shape[2] // 4, 4).transpose(1, 3, 0, 2, 4))


def _has_products_of_bytes() -> bool:
    """Return whether the CPU that numba compiles for adds four products of bytes in one instruction."""
    features = get_host_cpu_features()
    return bool(features.get("avx512vnni")) and not numba.config.CPU_NAME  # type: ignore[attr-defined]


def multiplication(rows: int, one_instruction: bool) -> Any:
    """A function that kernels call: rows of bytes times a block of weights.

    Args:
        rows: how many.
        one_instruction: use AVX-512 VNNI; the result is the same.
    """

    @intrinsic
    def multiply(context: Any, sums: Any, start: Any, left: Any, at: Any, first: Any, right: Any, block: Any) -> Any:
        """sums[r, gate, lane] = start[block, gate, lane] + left[at[first + r] ...] @ right[block, :, gate, lane]."""
        number = ir.IntType(64)
        lane, byte = ir.IntType(32), ir.IntType(8)
        lanes, bytes_ = ir.VectorType(lane, LANES), ir.VectorType(byte, 4 * LANES)

        def add_products(builder: Any, total: Any, one: Any, two: Any) -> Any:
            if one_instruction:
                kind = ir.FunctionType(lanes, [lanes] * 3)
                name = "llvm.x86.avx512.vpdpbusd.512"
                return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [total, one, two])
            wide = ir.VectorType(lane, 4 * LANES)
            ones, twos = (builder.bitcast(each, bytes_) for each in (one, two))
            products = builder.mul(builder.zext(ones, wide), builder.sext(twos, wide))
            for place in range(4):
                mask = ir.Constant(lanes, [4 * i + place for i in range(LANES)])
                total = builder.add(total, builder.shuffle_vector(products, ir.Constant(wide, ir.Undefined), mask))
            return total

        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            arrays = {i: context.make_array(signature.args[i])(context, builder, given[i]) for i in (0, 1, 2, 3, 5)}
            data = {i: array.data for i, array in arrays.items()}
            inputs = builder.extract_value(arrays[5].shape, 1)  # in groups of 4
            constant = lambda value: ir.Constant(number, value)  # noqa: E731
            sums = builder.bitcast(data[0], lanes.as_pointer())
            starts = builder.gep(builder.bitcast(data[1], lanes.as_pointer()), [builder.mul(given[6], constant(4))])
            block = builder.mul(builder.mul(given[6], inputs), constant(4))
            weights = builder.gep(builder.bitcast(data[5], lanes.as_pointer()), [block])
            places = [builder.add(given[4], constant(row)) for row in range(rows)]
            lefts = [builder.gep(data[2], [builder.load(builder.gep(data[3], [place]))]) for place in places]
            lefts = [builder.bitcast(left, lane.as_pointer()) for left in lefts]
            begin = [builder.load(builder.gep(starts, [constant(gate)]), align=4) for gate in range(4)]
            before, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
            builder.branch(loop)
            builder.position_at_end(loop)
            k = builder.phi(number)
            k.add_incoming(constant(0), before)
            totals = [[builder.phi(lanes) for _ in range(4)] for _ in range(rows)]
            first = builder.mul(k, constant(4))
            right = [
                builder.load(builder.gep(weights, [builder.add(first, constant(gate))]), align=1) for gate in range(4)
            ]
            for total, left in zip(totals, lefts):
                four = builder.load(builder.gep(left, [k]), align=1)
                one = builder.insert_element(ir.Constant(lanes, ir.Undefined), four, ir.Constant(lane, 0))
                one = builder.shuffle_vector(one, ir.Constant(lanes, ir.Undefined), ir.Constant(lanes, [0] * LANES))
                for gate in range(4):
                    total[gate].add_incoming(begin[gate], before)
                    new = add_products(builder, total[gate], one, right[gate])
                    total[gate].add_incoming(new, loop)
                    total[gate] = new
            following = builder.add(k, constant(1))
            k.add_incoming(following, loop)
            builder.cbranch(builder.icmp_signed("<", following, inputs), loop, after)
            builder.position_at_end(after)
            for row, total in enumerate(totals):
                for gate in range(4):
                    builder.store(total[gate], builder.gep(sums, [constant(4 * row + gate)]), align=4)
            return context.get_dummy_value()

        return types.void(sums, start, left, at, types.int64, right, types.int64), generate

    return multiply


_multiply_rows = multiplication(ROWS, _has_products_of_bytes())
_multiply_row = multiplication(1, _has_products_of_bytes())

HALF = np.float32(0.5)


@numba.njit(**HELPER, **FAST)
def tanh(x):
    """A quotient of polynomials, to 3e-7 or better."""
    x = min(max(x, np.float32(-7.9)), np.float32(7.9))
    s = x * x
    p = np.float32(-2.76076847742355e-16) * s + np.float32(2.00018790482477e-13)
    p = p * s + np.float32(-8.60467152213735e-11)
    p = p * s + np.float32(5.12229709037114e-08)
    p = p * s + np.float32(1.48572235717979e-05)
    p = p * s + np.float32(6.37261928875436e-04)
    p = p * s + np.float32(4.89352455891786e-03)
    q = np.float32(1.19825839466702e-06) * s + np.float32(1.18534705686654e-04)
    q = q * s + np.float32(2.26843463243900e-03)
    q = q * s + np.float32(4.89352518554385e-03)
    return x * p / q


@numba.njit(**HELPER, **FAST)
def sigmoid(x):
    return HALF + HALF * tanh(HALF * x)


@numba.njit(**HELPER, **FAST)
def _gate(gate, unit, row, block, read, remembered, step, weights):
    """W x + U h + b of a unit."""
    place, column = 4 * LANES * row + LANES * gate + unit, LANES * gate + unit
    of_inputs = np.float32(read[place]) * (step * weights.inputs_scale[block, column])
    return of_inputs + np.float32(remembered[place]) * weights.states_scale[block, column] + weights.bias[block, column]


@numba.njit(**KERNEL, **FAST)
def _read(rows, steps, at, starts, lengths, backwards, weights, size, states):
    """Fill in the states of one direction. Sequences come longest first."""
    count, blocks, inputs = len(lengths), len(weights.inputs), rows.shape[1]
    padded = LANES * blocks
    state = np.full((2, count + ROWS, padded), MIDDLE, np.uint8)
    cell = np.zeros((count + ROWS, padded), np.float32)
    read, remembered = np.empty(4 * LANES * ROWS, np.int32), np.empty(4 * LANES * ROWS, np.int32)
    position, left = np.zeros(count, np.int64), np.zeros(count + ROWS, np.int64)
    flat, column = rows.reshape(-1), size if backwards else 0
    state_at = np.arange(2 * (count + ROWS)) * padded
    going = count
    for t in range(lengths[0]):
        while lengths[going - 1] <= t:
            going -= 1
        for b in range(going):
            position[b] = starts[b] + (lengths[b] - 1 - t if backwards else t)
            left[b] = at[position[b]] * inputs
        old, new = t % 2, 1 - t % 2
        for block in range(blocks):
            for group in range(0, going, ROWS):
                there = min(ROWS, going - group)
                before = old * (count + ROWS) + group
                if there == 1:
                    _multiply_row(read, weights.inputs_start, flat, left, group, weights.inputs, block)
                    _multiply_row(
                        remembered, weights.states_start, state.reshape(-1), state_at, before, weights.states, block
                    )
                else:
                    _multiply_rows(read, weights.inputs_start, flat, left, group, weights.inputs, block)
                    _multiply_rows(
                        remembered, weights.states_start, state.reshape(-1), state_at, before, weights.states, block
                    )
                for row in range(there):
                    b = group + row
                    step = steps[at[position[b]]]
                    for unit in range(LANES):
                        i = _gate(0, unit, row, block, read, remembered, step, weights)
                        f = _gate(1, unit, row, block, read, remembered, step, weights)
                        g = _gate(2, unit, row, block, read, remembered, step, weights)
                        o = _gate(3, unit, row, block, read, remembered, step, weights)
                        u = LANES * block + unit
                        c = sigmoid(f) * cell[b, u] + sigmoid(i) * tanh(g)
                        cell[b, u] = c
                        h = np.float32(LARGEST) * sigmoid(o) * tanh(c)
                        state[new, b, u] = np.uint8(np.int32(h + np.float32(MIDDLE + 0.5)))
        for b in range(going):
            for u in range(size):
                states[position[b], column + u] = state[new, b, u]


@numba.njit(**KERNEL, error_model="numpy", fastmath={"nnan", "nsz", "reassoc"})
def _round_rows(vectors, rows, steps):
    for row in range(len(vectors)):
        largest = np.float32(1e-28)
        for k in range(vectors.shape[1]):
            largest = max(largest, abs(vectors[row, k]))
        steps[row] = largest / np.float32(LARGEST)
        per_step = np.float32(LARGEST) / largest
        for k in range(vectors.shape[1]):
            rows[row, k] = np.uint8(np.int32(vectors[row, k] * per_step + np.float32(MIDDLE + 0.5)))
