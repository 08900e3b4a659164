"""The way over threads: each sentence once, whatever their number."""

import numpy as np
import pytest

from arbora.decoders.kernels.threads import STEPS_PER_THREAD, get_num_threads, over_sentences, set_num_threads


@pytest.fixture(autouse=True)
def _restore_threads():
    before = get_num_threads()
    yield
    set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("batch", [0, 1, 5, 1000])
def test_each_sentence_once(threads, batch):
    set_num_threads(threads)
    visits = np.zeros(batch, dtype=int)

    def kernel(sentences):
        visits[sentences] += 1

    over_sentences(kernel, np.random.default_rng(batch).uniform(0, STEPS_PER_THREAD, size=batch))
    assert (visits == 1).all()


def test_small_batches_stay_in_order_on_one_thread():
    calls = []
    over_sentences(calls.append, np.full(3, 10.0))
    assert [call.tolist() for call in calls] == [[0, 1, 2]]


def test_errors_reach_the_caller():
    set_num_threads(2)

    def kernel(sentences):
        raise RuntimeError("in a kernel")

    with pytest.raises(RuntimeError, match="in a kernel"):
        over_sentences(kernel, np.full(4, 10.0 * STEPS_PER_THREAD))


def test_refuses_no_threads():
    with pytest.raises(ValueError, match="at least 1, got 0"):
        set_num_threads(0)
