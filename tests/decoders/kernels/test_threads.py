"""The way over threads: each sentence once, whatever their number; and how many threads there are."""

from pathlib import Path

import numpy as np
import pytest

import arbora
from arbora.decoders.kernels.threads import (
    STEPS_PER_THREAD,
    available_cores,
    get_num_threads,
    over_sentences,
    set_num_threads,
)


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


@pytest.mark.parametrize(
    ("contents", "cores"), [("max 100000", 8), ("250000 100000", 2), ("50000 100000", 1), ("nonsense", 8)]
)
def test_a_container_has_the_cores_that_it_has_time_for(
    contents: str, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("numba.config.NUMBA_NUM_THREADS", 8)
    (tmp_path / "cpu.max").write_text(contents)
    assert available_cores(tmp_path / "cpu.max") == cores
    assert available_cores(tmp_path / "absent") == 8


def test_threads_are_set_for_all() -> None:
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    try:
        arbora.threads(3)
        assert (get_num_threads(), torch.get_num_threads()) == (3, 3)
        with pytest.raises(ValueError, match="at least 1"):
            arbora.threads(0)
    finally:
        torch.set_num_threads(before)
