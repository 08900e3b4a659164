"""Bidirectional LSTMs that learn faster on a CPU: the same numbers as those of `torch.nn.LSTM`, up to rounding.

On packed sequences torch takes the gradient of the weights at each step, as a product of small matrices whose result is
as large as the weights. Here the gradients of the gates are kept, and one product at the end gives that of the weights.
What a step computes for each number is one pass over memory. Time O(n size (inputs + size)), memory of seven states per
position.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from arbora.decoders.kernels.options import KERNEL
from arbora.model.inference.byte_lstm import FAST, sigmoid, tanh
from arbora.model.layers import WIDE, factor, multiply, product, sum_of_products, whole

ONE = np.float32(1)


class Packed(NamedTuple):
    """Sequences of different lengths, packed longest first without a copy between host and device."""

    sequences: PackedSequence
    order: Tensor  # (B,) of the sequences

    @classmethod
    def of(cls, vectors: Tensor, lengths: Tensor, on_host: NDArray[np.integer]) -> Packed:
        """Pack sequences (B, N, size) of these lengths (B,), which are needed on both sides."""
        order = lengths.argsort(descending=True, stable=True)
        sizes = torch.from_numpy(-np.sort(-on_host))
        return cls(pack_padded_sequence(vectors.index_select(0, order), sizes, batch_first=True), order)

    def padded(self, size: int) -> Tensor:
        """(B, size, ...) vectors in the original order."""
        found: Tensor = pad_packed_sequence(self.sequences, batch_first=True, total_length=size)[0]
        return found.index_select(0, self.order.argsort())


class FastLSTM(nn.LSTM):
    """A bidirectional layer over packed sequences. Its gradients are computed here on a CPU, and by torch elsewhere."""

    def states(self, packed: PackedSequence) -> PackedSequence:
        """States of all positions, (P, 2 size)."""
        data = packed.data
        ours = torch.is_grad_enabled() and data.device.type == "cpu" and data.dtype == torch.float32
        if not ours or (torch.is_autocast_enabled("cpu") and not WIDE):
            states: PackedSequence = self(packed)[0]
            return states
        sizes = packed.batch_sizes.tolist()
        found = []
        for backwards, end in enumerate(("", "_reverse")):
            names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            weights = [getattr(self, f"{name}_l0{end}") for name in names]
            found.append(_Recurrence.apply(data, *weights, sizes, bool(backwards)))
        return packed._replace(data=torch.cat(found, 1))

    def last_states(self, packed: Packed, lengths: Tensor) -> Tensor:
        """(B, 2 size) the last states of either direction of sequences of these lengths (B,)."""
        states, count = self.states(packed.sequences).data, len(lengths)
        lengths, row = lengths[packed.order], torch.arange(count, device=lengths.device)
        step = torch.arange(len(packed.sequences.batch_sizes), device=lengths.device)
        sizes = (lengths > step[:, None]).sum(1)
        starts = sizes.cumsum(0) - sizes
        last = states.index_select(0, starts[lengths - 1] + row)[:, : self.hidden_size]
        both = torch.cat([last, states[:count, self.hidden_size :]], 1)
        return both.index_select(0, packed.order.argsort())


class _Recurrence(torch.autograd.Function):
    """One direction: from inputs (P, inputs), step by step, to states (P, size)."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")  # type: ignore[untyped-decorator]
    def forward(
        ctx: Any,
        data: Tensor,
        of_inputs: Tensor,
        of_states: Tensor,
        bias: Tensor,
        more_bias: Tensor,
        sizes: list[int],
        backwards: bool,
    ) -> Tensor:
        size, positions = of_states.shape[1], len(data)
        gates = product(data, of_inputs, bias + more_bias)
        states, before, cells, cells_before = (data.new_empty(positions, size) for _ in range(4))
        state, cell = data.new_zeros(whole(sizes[0]), size), np.zeros((sizes[0], size), np.float32)
        arrays = [numbers.numpy() for numbers in (gates, state, before, cells_before, cells, states)]
        columns = factor(of_states.t().contiguous().t())
        for start, count in _steps(sizes, backwards):
            _step(multiply(state[: whole(count)], columns).numpy(), cell, *arrays, start, count)
        ctx.save_for_backward(data, of_inputs, of_states, gates, before, cells, cells_before)
        ctx.order = sizes, backwards
        return states

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        data, of_inputs, of_states, gates, before, cells, cells_before = ctx.saved_tensors
        sizes, backwards = ctx.order
        room = gates.new_empty(len(gates) + whole(sizes[0]), gates.shape[1])  # more than are read of the last step
        of_gates = room[: len(gates)]
        arrays = [numbers.numpy() for numbers in (grads[0].contiguous(), gates, cells, cells_before, of_gates)]
        of_cell = np.zeros((sizes[0], cells.shape[1]), np.float32)
        of_state, known = data.new_zeros(1, cells.shape[1]), 1
        rows = factor(of_states.t())
        for start, count in reversed(_steps(sizes, backwards)):
            _step_back(of_state.numpy(), known, of_cell, *arrays, start, count)
            of_state, known = multiply(room[start : start + whole(count)], rows), count
        of_bias = of_gates.sum(0)
        of_data = product(of_gates, of_inputs.t()) if ctx.needs_input_grad[0] else None
        of_weights = (sum_of_products(of_gates, numbers) for numbers in (data, before))
        return of_data, *of_weights, of_bias, of_bias, None, None


def _steps(sizes: list[int], backwards: bool) -> list[tuple[int, int]]:
    """First position of each step, and how many there are, in the order in which steps are taken."""
    steps = [(end - count, count) for end, count in zip(np.cumsum(sizes).tolist(), sizes)]
    return steps[::-1] if backwards else steps


@numba.njit(**KERNEL, **FAST)
def _step(more, cell, gates, state, before, cells_before, cells, states, start, count):
    """Gates i, f, g, o by inputs, with `more` by states, to how open they are; c = f c + i g; h = o tanh(c)."""
    size = cell.shape[1]
    for row in range(count):
        at = start + row
        for u in range(size):
            i, f = sigmoid(gates[at, u] + more[row, u]), sigmoid(gates[at, size + u] + more[row, size + u])
            g = tanh(gates[at, 2 * size + u] + more[row, 2 * size + u])
            o = sigmoid(gates[at, 3 * size + u] + more[row, 3 * size + u])
            c = f * cell[row, u] + i * g
            gates[at, u], gates[at, size + u], gates[at, 2 * size + u], gates[at, 3 * size + u] = i, f, g, o
            before[at, u], cells_before[at, u] = state[row, u], cell[row, u]
            cell[row, u] = c
            cells[at, u] = c
            h = o * tanh(c)
            state[row, u] = h
            states[at, u] = h


@numba.njit(**KERNEL, **FAST)
def _step_back(of_state, known, of_cell, grad, gates, cells, cells_before, of_gates, start, count):
    """Gradients of gates before they were opened; that of the cell becomes that of the cell before.

    Of the states, the first `known` have a gradient by the step that came before.
    """
    size = cells.shape[1]
    for row in range(count):
        at, place = start + row, min(row, known - 1)
        there = np.float32(row < known)
        for u in range(size):
            i, f, g, o = gates[at, u], gates[at, size + u], gates[at, 2 * size + u], gates[at, 3 * size + u]
            t = tanh(cells[at, u])
            h = grad[at, u] + there * of_state[place, u]
            c = of_cell[row, u] + h * o * (ONE - t * t)
            of_gates[at, u] = c * g * i * (ONE - i)
            of_gates[at, size + u] = c * cells_before[at, u] * f * (ONE - f)
            of_gates[at, 2 * size + u] = c * i * (ONE - g * g)
            of_gates[at, 3 * size + u] = h * t * o * (ONE - o)
            of_cell[row, u] = c * f
