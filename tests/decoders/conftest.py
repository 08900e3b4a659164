from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from typing import Any

import numpy as np
import pytest

from arbora.decoders.kernels import threads


@pytest.fixture
def same_for_any_threads(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], Any]:
    """Compute something with 1, 2 and 8 threads, check that it is the same bit for bit, and return it."""
    monkeypatch.setattr(threads, "STEPS_PER_THREAD", 100)  # threads even for little work
    monkeypatch.setattr(threads, "_num_threads", threads.get_num_threads())  # restored afterwards

    def compute(function: Callable[[], Any]) -> Any:
        results = []
        for count in (1, 2, 8):
            threads.set_num_threads(count)
            results.append(function())
        for other in results[1:]:
            _assert_same(other, results[0])
        return results[0]

    return compute


def _assert_same(got: Any, expected: Any) -> None:
    assert type(got) is type(expected)
    if isinstance(got, np.ndarray):
        np.testing.assert_array_equal(got, expected)
    elif is_dataclass(got):
        _assert_same(vars(got), vars(expected))
    elif isinstance(got, Mapping):
        assert got.keys() == expected.keys()
        for name in got.keys() - {"seconds"}:
            _assert_same(got[name], expected[name])
    elif isinstance(got, Iterable) and not isinstance(got, str):
        for one, other in zip(got, expected, strict=True):
            _assert_same(one, other)
    else:
        assert got == expected
