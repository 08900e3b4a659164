"""`benchmarks/gpu.py` runs on a CPU, and understands what a profiler of CUDA records."""

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch.autograd import DeviceType

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "benchmarks" / "gpu.py"))


def test_prints_a_row_for_each_encoder_and_order(script: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--device=cpu", "--words=300", "--max-tokens=150", "--size=8", "--layers=1"]
    script["main"]([*small, "--halves", "--orders", "1", "2"])
    header, rule, *rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    names = [name.strip() for name in header.strip("|").split("|")]
    assert rule.count("---") == len(names)
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [row[:2] for row in cells] == [[encoder, order] for encoder in ("LSTM", "SRU") for order in "12"]
    for row in cells:
        assert len(row) == len(names)
        for name, cell in zip(names, row, strict=True):
            if "words/s" in name or "memory" in name:
                assert int(cell.replace(",", "")) > 0


def event(name: str, start: float, end: float, device: DeviceType = DeviceType.CUDA) -> SimpleNamespace:
    return SimpleNamespace(name=name, device_type=device, time_range=SimpleNamespace(start=start, end=end))


def test_copies_waits_and_the_share_of_the_device(script: dict[str, Any]) -> None:
    passed = script["Passed"](seconds=1e-3, decoding=2e-4, batches=2)
    passed.add_events(
        [
            event("gemm", 100, 300),
            event("Memcpy HtoD (Pinned -> Device)", 200, 400),  # on another stream
            event("Memcpy DtoH (Device -> Pageable)", 500, 600),
            event("Memcpy DtoD (Device -> Device)", 600, 700),
            event("cudaStreamSynchronize", 0, 900, DeviceType.CPU),
            event("aten::mm", 0, 900, DeviceType.CPU),
        ]
    )
    assert passed.cells(words=10, seconds=0.5) == ["20", "50%", "0.5 up, 0.5 down", "0.5", "20%"]
