from pathlib import Path

import pytest

import arbora
from arbora.decoders.kernels.threads import available_cores, get_num_threads, set_num_threads


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
    before = get_num_threads(), torch.get_num_threads()
    try:
        arbora.threads(3)
        assert (get_num_threads(), torch.get_num_threads()) == (3, 3)
        with pytest.raises(ValueError, match="at least 1"):
            arbora.threads(0)
    finally:
        set_num_threads(before[0])
        torch.set_num_threads(before[1])
