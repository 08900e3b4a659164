import pytest
import torch

from arbora.model.loading import find_device


def test_a_machine_without_a_driver_parses_on_its_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def built_for_cuda(check_available: bool = False) -> torch.device | None:
        return None if check_available else torch.device("cuda")

    monkeypatch.setattr(torch.accelerator, "current_accelerator", built_for_cuda)
    assert find_device("auto") == torch.device("cpu")
