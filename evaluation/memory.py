"""Memory that a piece of work takes, as far as the system tells."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_PROCESS = Path("/proc/self")


@dataclass
class Memory:
    """Bytes beyond those in use before the work, at their peak; None where the system does not tell."""

    bytes: int | None = None


@contextmanager
def peak_memory() -> Iterator[Memory]:
    """Measure the peak of resident memory within the block. Only on Linux can a process reset its peak."""
    memory = Memory()
    before = _reset()
    yield memory
    if before is not None:
        memory.bytes = max(0, _status("VmHWM") - before)


def _reset() -> int | None:
    """Give freed memory back, so that taking it again counts, set the peak to what is in use, and return that."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    try:
        (_PROCESS / "clear_refs").write_text("5")
        return _status("VmRSS")
    except (OSError, ValueError):
        return None


def _status(name: str) -> int:
    """A figure of /proc/self/status, in bytes."""
    for line in (_PROCESS / "status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"/proc/self/status has no {name}")
