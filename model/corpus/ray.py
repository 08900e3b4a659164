"""Workers that are actors of a Ray cluster.

Ray places the workers and detects when they or their nodes die. Only the driver retries shards, so that attempts are
counted in the same way for all engines.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from arbora.extras import importing_extra
from arbora.model.corpus.driver import Event
from arbora.model.corpus.plan import Task
from arbora.model.corpus.shard import ShardParser, WorkerSettings

OBJECT_STORE = 100 * 2**20
"""Object memory in bytes of a cluster that is started here; shards and records are small."""


class RayEngine:
    """Runs workers as actors.

    Args:
        settings: of the workers.
        gpus: share of a GPU for each worker.
        address: address of a running cluster, `auto` for the one of this machine; None to start one here.
        workers: number of workers that a cluster started here has CPUs for; 0 for all CPUs of the machine.
    """

    def __init__(self, settings: WorkerSettings, gpus: float, address: str | None, workers: int) -> None:
        if address and _has_token():
            os.environ.setdefault("RAY_AUTH_MODE", "token")  # clusters without authentication ignore it
        with importing_extra():
            import ray
        self.ray: Any = ray
        self.was_running = ray.is_initialized()
        if not self.was_running:
            here: dict[str, Any] = {"object_store_memory": OBJECT_STORE, "include_dashboard": False}
            if workers:
                here["num_cpus"] = max(workers * settings.cpus, os.cpu_count() or 1)
            try:
                ray.init(address, logging_level=logging.ERROR, log_to_driver=False, **({} if address else here))
            except (ConnectionError, ray.exceptions.AuthenticationError):
                raise ValueError(
                    f"no Ray cluster at {address} accepts this machine; if one runs there, copy ~/.ray/auth_token from "
                    "its head node or set RAY_AUTH_TOKEN to what `ray get-auth-token` prints there"
                ) from None
        options = {"num_cpus": settings.cpus, "num_gpus": gpus, "max_restarts": 0, "max_task_retries": 0}
        self.actor = ray.remote(ShardParser).options(**options)
        self.settings = settings
        self.actors: dict[int, Any] = {}
        self.waiting: dict[Any, int] = {}  # workers by what they are asked for

    @property
    def capacity(self) -> int:
        """Number of workers for which the cluster has CPUs now."""
        return max(1, int(self.ray.cluster_resources().get("CPU", 1)) // self.settings.cpus)

    def start(self, worker: int) -> None:
        """Start a worker, which reports when it is ready; it may first wait for free CPUs of the cluster."""
        self.actors[worker] = self.actor.remote(self.settings)
        self.waiting[self.actors[worker].load.remote()] = worker

    def submit(self, worker: int, task: Task) -> None:
        """Give a shard to an idle worker."""
        self.waiting[self.actors[worker].run.options(num_returns="streaming").remote(task)] = worker

    def events(self, seconds: float) -> Iterator[Event]:
        """Return messages of workers, after waiting at most this long."""
        ready, _ = self.ray.wait(list(self.waiting), timeout=seconds, fetch_local=False)
        for asked in ready:
            worker = self.waiting[asked]
            try:
                kind, value = self.ray.get(next(asked) if hasattr(asked, "__next__") else asked)
            except self.ray.exceptions.RayError as error:
                kind, value = "lost", " ".join(str(error).split())
                self.ray.kill(self.actors.pop(worker))
            if kind != "words":
                del self.waiting[asked]
            yield Event(worker, kind, value)

    def close(self) -> None:
        """End all workers, and Ray if it was started here."""
        for actor in self.actors.values():
            self.ray.kill(actor)
        if not self.was_running:
            self.ray.shutdown()


def _has_token() -> bool:
    """Return whether Ray finds the token of a cluster on this machine."""
    return (
        "RAY_AUTH_TOKEN" in os.environ
        or Path(os.environ.get("RAY_AUTH_TOKEN_PATH", "~/.ray/auth_token")).expanduser().exists()
    )
