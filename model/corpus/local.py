"""Workers that are processes of this machine.

Workers are forked from a process that has loaded the model and nothing else (a fork server). They share its memory and
start at once, also when they replace a worker that died. On systems without fork, each worker loads the model itself.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from arbora.model.corpus import preload
from arbora.model.corpus.driver import Event
from arbora.model.corpus.plan import Task
from arbora.model.corpus.shard import ShardParser, WorkerSettings, can_share


class LocalEngine:
    """Runs workers as processes.

    Args:
        settings: of the workers.
        gpus: share of a GPU for each, or several; 0 to leave the choice to the device.
    """

    def __init__(self, settings: WorkerSettings, gpus: float = 0.0) -> None:
        self.settings, self.gpus = settings, gpus
        self.workers: dict[int, tuple[BaseProcess, Connection]] = {}
        forks = "forkserver" in multiprocessing.get_all_start_methods()
        self.context: Any = multiprocessing.get_context("forkserver" if forks else "spawn")
        if forks:
            self.context.set_forkserver_preload([preload.__name__])

    def start(self, worker: int) -> None:
        """Start a worker, which reports when it is ready."""
        ours, theirs = self.context.Pipe()
        arguments = (theirs, self.settings, visible_gpus(worker, self.gpus))
        process = self.context.Process(target=_work, args=arguments, name=f"worker {worker}", daemon=True)
        if can_share(self.settings):
            # For the fork server, which starts with the first worker.
            os.environ[preload.MODEL] = f"{self.settings.digest}:{self.settings.model}"
        try:
            process.start()
        finally:
            os.environ.pop(preload.MODEL, None)
        theirs.close()
        self.workers[worker] = (process, ours)

    def submit(self, worker: int, task: Task) -> None:
        """Give a shard to an idle worker."""
        with suppress(OSError):  # it has died; `events` will report it
            self.workers[worker][1].send(task)

    def events(self, seconds: float) -> Iterator[Event]:
        """Return messages of workers, after waiting at most this long."""
        ready = set(wait([connection for _, connection in self.workers.values()], seconds))
        for worker, (_, connection) in list(self.workers.items()):
            if connection in ready:
                try:
                    yield Event(worker, *connection.recv())
                except (EOFError, OSError):
                    yield Event(worker, "lost", self._bury(worker))

    def _bury(self, worker: int) -> str:
        process, connection = self.workers.pop(worker)
        connection.close()
        process.join()
        code = process.exitcode or 0
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"

    def close(self) -> None:
        """End all workers."""
        for process, _ in self.workers.values():
            process.kill()
        for worker in list(self.workers):
            self._bury(worker)


def visible_gpus(worker: int, gpus: float) -> str | None:
    """Return the GPUs for a worker as a value of CUDA_VISIBLE_DEVICES; None for all."""
    first, last = math.floor(worker * gpus + 1e-9), math.ceil((worker + 1) * gpus - 1e-9)
    return ",".join(map(str, range(first, last))) if gpus else None


def _work(connection: Connection, settings: WorkerSettings, gpus: str | None) -> None:
    """Parse incoming shards until the driver is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # left to the driver
    if gpus is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus
    parser = ShardParser(settings)
    with suppress(EOFError, OSError):
        connection.send(parser.load())
        while True:
            for message in parser.run(connection.recv()):
                connection.send(message)
