"""LSTMs that learn faster, against those of torch."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from arbora.model.encoders.recurrence import FastLSTM, Packed


@pytest.mark.parametrize("lengths", [[1], [5, 5, 5], [3, 7, 1, 4, 7, 2], [*range(1, 39)]])
def test_states_and_gradients_are_those_of_torch(lengths: list[int]) -> None:
    torch.manual_seed(0)
    layer = FastLSTM(6, 19, batch_first=True, bidirectional=True)
    vectors = torch.randn(len(lengths), max(lengths), 6, requires_grad=True)
    of_states, of_last = torch.randn(len(lengths), max(lengths), 38), torch.randn(len(lengths), 38)
    packed = pack_padded_sequence(vectors, torch.tensor(lengths), batch_first=True, enforce_sorted=False)

    def with_gradients(states: Tensor, last: Tensor) -> list[Tensor]:
        loss = (states * of_states).sum() + (last * of_last).sum()
        return [states, last, *torch.autograd.grad(loss, [vectors, *layer.parameters()], retain_graph=True)]

    packed_states, (hidden, _) = nn.LSTM.forward(layer, packed)
    expected = with_gradients(
        pad_packed_sequence(packed_states, batch_first=True)[0], hidden.transpose(0, 1).flatten(1)
    )
    count = torch.tensor(lengths)
    ours = Packed.of(vectors, count, count.numpy())
    padded = ours._replace(sequences=layer.states(ours.sequences)).padded(max(lengths))
    found = with_gradients(padded, layer.last_states(ours, count))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    with torch.no_grad():  # by torch itself
        torch.testing.assert_close(layer.last_states(ours, count), expected[1])


def test_states_and_gradients_in_mixed_precision() -> None:
    torch.manual_seed(0)
    layer = FastLSTM(6, 19, batch_first=True, bidirectional=True)
    vectors, count = torch.randn(6, 7, 6, requires_grad=True), torch.tensor([3, 7, 1, 4, 7, 2])
    packed = Packed.of(vectors, count, count.numpy()).sequences

    def with_gradients() -> list[Tensor]:
        states = layer.states(packed).data
        loss = (states.float() * torch.linspace(-1, 1, states.numel()).view_as(states)).sum()
        return [states.float(), *torch.autograd.grad(loss, [vectors, *layer.parameters()], retain_graph=True)]

    expected = with_gradients()
    with torch.autocast("cpu", torch.bfloat16):
        found = with_gradients()
    assert not torch.equal(found[0], expected[0])
    for one, other in zip(found, expected, strict=True):
        assert (one - other).norm() < 0.02 * other.norm()
