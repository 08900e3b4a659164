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
from arbora.model.layers import multiply, product, sum_of_products, whole

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
        if not ours or torch.is_autocast_enabled("cpu"):
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
        state, cell = data.new_zeros(whole(sizes[0]), size), data.new_zeros(sizes[0], size)
        columns = of_states.t().contiguous().t()
        for some, count in _steps(sizes, backwards):
            before[some], cells_before[some] = state[:count], cell[:count]
            more = multiply(state[: whole(count)], columns).numpy()
            _step(more, gates[some].numpy(), cell.numpy(), cells[some].numpy(), states[some].numpy())
            state[:count] = states[some]
        ctx.save_for_backward(data, of_inputs, of_states, gates, before, cells, cells_before)
        ctx.order = sizes, backwards
        return states

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        data, of_inputs, of_states, gates, before, cells, cells_before = ctx.saved_tensors
        sizes, backwards = ctx.order
        grad = grads[0].contiguous().numpy()
        room = gates.new_empty(len(gates) + whole(sizes[0]), gates.shape[1])  # more than are read of the last step
        of_gates = room[: len(gates)]
        of_state, of_cell = (data.new_zeros(sizes[0], cells.shape[1]) for _ in range(2))
        for some, count in reversed(_steps(sizes, backwards)):
            arrays = (gates[some].numpy(), cells[some].numpy(), cells_before[some].numpy())
            _step_back(grad[some], *arrays, of_state.numpy(), of_cell.numpy(), of_gates[some].numpy())
            of_state[:count] = multiply(room[some.start : some.start + whole(count)], of_states.t())[:count]
        of_bias = of_gates.sum(0)
        of_data = product(of_gates, of_inputs.t()) if ctx.needs_input_grad[0] else None
        of_weights = (sum_of_products(of_gates, numbers) for numbers in (data, before))
        return of_data, *of_weights, of_bias, of_bias, None, None


def _steps(sizes: list[int], backwards: bool) -> list[tuple[slice, int]]:
    """Positions of each step, and how many there are, in the order in which steps are taken."""
    ends = np.cumsum(sizes).tolist()
    steps = [(slice(end - count, end), count) for end, count in zip(ends, sizes)]
    return steps[::-1] if backwards else steps


@numba.njit(**KERNEL, **FAST)
def _step(more, gates, cell, cells, states):
    """Gates i, f, g, o by inputs, with `more` by states, to how open they are; c = f c + i g; h = o tanh(c)."""
    size = cell.shape[1]
    for row in range(len(gates)):
        for u in range(size):
            i, f = sigmoid(gates[row, u] + more[row, u]), sigmoid(gates[row, size + u] + more[row, size + u])
            g = tanh(gates[row, 2 * size + u] + more[row, 2 * size + u])
            o = sigmoid(gates[row, 3 * size + u] + more[row, 3 * size + u])
            c = f * cell[row, u] + i * g
            gates[row, u], gates[row, size + u], gates[row, 2 * size + u], gates[row, 3 * size + u] = i, f, g, o
            cell[row, u] = c
            cells[row, u] = c
            states[row, u] = o * tanh(c)


@numba.njit(**KERNEL, **FAST)
def _step_back(grad, gates, cells, cells_before, of_state, of_cell, of_gates):
    """Gradients of gates before they were opened; that of the cell becomes that of the cell before."""
    size = cells.shape[1]
    for row in range(len(gates)):
        for u in range(size):
            i, f, g, o = gates[row, u], gates[row, size + u], gates[row, 2 * size + u], gates[row, 3 * size + u]
            t = tanh(cells[row, u])
            h = grad[row, u] + of_state[row, u]
            c = of_cell[row, u] + h * o * (ONE - t * t)
            of_gates[row, u] = c * g * i * (ONE - i)
            of_gates[row, size + u] = c * cells_before[row, u] * f * (ONE - f)
            of_gates[row, 2 * size + u] = c * i * (ONE - g * g)
            of_gates[row, 3 * size + u] = h * t * o * (ONE - o)
            of_cell[row, u] = c * f
