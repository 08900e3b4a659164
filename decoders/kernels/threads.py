"""Sentences spread over threads, the one way in which decoders run in parallel.

Kernels release the GIL, so plain Python threads run them side by side. Against numba's `parallel=True` this compiles in
a fraction of the time, leaves no pool behind (safe under fork and from several threads), and pays for no thread when
the batch is small. A sentence is decoded by only one thread, so the answers do not depend on the number of threads.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import numpy as np
from numpy.typing import NDArray

STEPS_PER_THREAD = 5_000_000
"""Work that repays a thread: with less, two threads took longer than one on a machine with two cores."""

GROUPS_PER_THREAD = 4


def available_cores(limit: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Cores that this process may use: those it may run on, or as many as a container has time for.

    Args:
        limit: file in which the kernel of Linux says how much time there is in a period.
    """
    cores: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    try:
        time, period = limit.read_text(encoding="ascii").split()
        return cores if time == "max" else max(1, min(cores, int(time) // int(period)))
    except (OSError, ValueError):
        return cores


_num_threads = available_cores()


def get_num_threads() -> int:
    """The most threads a decoder uses: at first `NUMBA_NUM_THREADS`, or the cores this process may use."""
    return _num_threads


def set_num_threads(count: int) -> None:
    """Set the most threads that a decoder uses, for the whole process.

    Args:
        count: at least 1; may exceed the number of cores.
    """
    global _num_threads
    if count < 1:
        raise ValueError(f"the number of threads must be at least 1, got {count}")
    _num_threads = count


def over_sentences(kernel: Callable[[NDArray[np.int64]], None], steps: NDArray[np.number]) -> None:
    """Call a kernel on groups of sentences that together make the batch, longest sentences first.

    Args:
        kernel: decodes the sentences whose numbers it is given; must release the GIL and write to no shared place.
        steps: (B,) about how many innermost steps each sentence takes.
    """
    total = float(steps.sum()) if _num_threads > 1 else 0.0
    threads = min(_num_threads, len(steps), int(total // STEPS_PER_THREAD))
    if threads <= 1:
        kernel(np.arange(len(steps)))
        return
    order = np.argsort(-steps, kind="stable")
    groups = GROUPS_PER_THREAD * threads
    edges = np.searchsorted(np.cumsum(steps[order]), total * np.arange(1, groups) / groups)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(kernel, (group for group in np.split(order, edges) if len(group))))
