"""The driver gives shards to workers until all are committed or set aside.

If a shard fails or its worker dies, any worker may try it again. After several failures it is set aside, while the
others are parsed. The driver keeps no state that matters: committed shards are found in the output folder, so a driver
that was killed is simply started again.
"""

from __future__ import annotations

import os
import socket
import statistics
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from arbora.model.corpus.folder import Folder
from arbora.model.corpus.plan import Plan, Task

SECONDS_BETWEEN_STATUS = 5.0

STRAGGLER = 2.0
"""The summary lists shards that take at least this many times the median time per byte."""

HOPELESS = 10
"""The run stops if this many shards were set aside and none was committed."""

STILLBORN = 5
"""The run stops if this many workers in a row die before they have loaded the model."""


class Event(NamedTuple):
    """A message of a worker, or its end. Kinds and values are those of `shard.Message`, or the reason for its loss."""

    worker: int
    kind: Literal["ready", "broken", "words", "committed", "failed", "lost"]
    value: Any


class Engine(Protocol):
    """Starts workers and talks to them."""

    def start(self, worker: int) -> None:
        """Start a worker, which reports when it is ready."""

    def submit(self, worker: int, task: Task) -> None:
        """Give a shard to an idle worker."""

    def events(self, seconds: float) -> Iterable[Event]:
        """Return messages of workers, after waiting at most this long. Lost workers are not started again."""

    def close(self) -> None:
        """End all workers."""


@dataclass
class Worker:
    """State of a worker in the driver; a worker that replaces a lost one continues its counts."""

    place: str = ""
    task: Task | None = None
    idle: bool = False
    began: float = 0.0  # with the shard
    words_of_shard: int = 0
    words: int = 0  # of committed shards
    shards: int = 0
    seconds: float = 0.0  # that committed shards took
    lost: int = 0  # times


class Driver:
    """Runs some shards of a plan.

    Args:
        folder: of the output.
        plan: of the corpus.
        shards: numbers of the shards to parse; committed shards are skipped.
        tries: attempts at a shard before it is set aside.
        status: name of the status file.
    """

    def __init__(self, folder: Folder, plan: Plan, shards: Sequence[int], tries: int, status: str) -> None:
        self.folder, self.plan, self.tries, self.status = folder, plan, tries, status
        committed = folder.committed()
        self.waiting = deque(shard for shard in shards if shard not in committed)
        self.skipped = len(shards) - len(self.waiting)
        self.total = len(shards)
        self.workers: list[Worker] = []
        self.size = sum(plan.task(shard).size for shard in self.waiting)  # bytes to parse
        self.size_done = 0
        self.failures: Counter[int] = Counter()
        self.aside: dict[int, str] = {}
        self.counts = Counter(words=0, sentences=0, unparsed=0, shards=0)
        self.paces: list[tuple[float, int, float, str]] = []  # seconds per byte, shard, seconds, worker
        self.stillborn = 0
        self.state = "done"
        self.started = time.time()
        self.ended: float | None = None
        self.written = 0.0  # when the status was

    def words_in_all(self) -> float | None:
        """Estimate the words of all shards that this run parses, from the words per byte so far."""
        return self.counts["words"] * self.size / self.size_done if self.size_done else None

    def run(self, engine: Engine, workers: int, advance: Callable[[int], None], warn: Callable[[str], None]) -> None:
        """Parse the shards.

        Args:
            engine: runs the workers; it is closed at the end.
            workers: maximum number of workers to start.
            advance: progress callback, called with numbers of words, which are negative after the loss of a worker.
            warn: called with messages about the input and about shards that are set aside.

        Raises:
            ValueError: workers cannot load the model, or nothing can be parsed.
            OSError: the disk of the output is full.
        """
        self.engine, self.advance, self.warn = engine, advance, warn
        self.workers = [Worker() for _ in range(min(workers, len(self.waiting)))]
        self.state = "running"
        try:
            for number in range(len(self.workers)):
                self.engine.start(number)
            while self.waiting or any(worker.task for worker in self.workers):
                self._write_status(SECONDS_BETWEEN_STATUS)
                for event in self.engine.events(1.0):
                    self._take(event)
                for number, worker in enumerate(self.workers):
                    if worker.idle and self.waiting:
                        worker.task = self.plan.task(self.waiting.popleft())
                        worker.idle, worker.began = False, time.time()
                        self.engine.submit(number, worker.task)
            self.state = "incomplete" if self.aside else "done"
        except BaseException as error:
            self.state = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            raise
        finally:
            self.engine.close()
            self.ended = time.time()
            self._write_status()

    def _take(self, event: Event) -> None:
        worker, value = self.workers[event.worker], event.value
        if event.kind == "ready":
            worker.place, worker.idle, self.stillborn = value, True, 0
        elif event.kind == "broken":
            raise ValueError(value)
        elif event.kind == "words":
            self._count_words(worker, value)
        elif event.kind == "committed":
            self._commit(worker, value)
        elif event.kind == "lost":
            self._lose(event.worker, value)
        else:
            reason, full = value
            if full:
                raise OSError(f"{self.folder.url}: {reason}; free some space and run the same command again")
            self._fail(worker, reason)
            worker.idle = True

    def _count_words(self, worker: Worker, words: int) -> None:
        before, worker.words_of_shard = worker.words_of_shard, words
        self.advance(words - before)

    def _commit(self, worker: Worker, record: dict[str, Any]) -> None:
        assert worker.task is not None
        self._count_words(worker, record["words"])
        size, seconds = worker.task.size, time.time() - worker.began
        self.size_done += size
        self.counts.update({name: record[name] for name in ("words", "sentences", "unparsed")}, shards=1)
        self.paces.append((seconds / max(size, 1), worker.task.shard, seconds, worker.place))
        worker.words += record["words"]
        worker.shards += 1
        worker.seconds += seconds
        worker.task, worker.words_of_shard, worker.idle = None, 0, True
        for message in [*(f"warning: {each}" for each in record["warnings"]), *record["errors"]]:
            self.warn(message)

    def _fail(self, worker: Worker, reason: str) -> None:
        """Try the shard of a worker again later, or set it aside."""
        assert worker.task is not None
        shard = worker.task.shard
        self._count_words(worker, 0)
        worker.task = None
        self.failures[shard] += 1
        if self.failures[shard] < self.tries:
            self.waiting.append(shard)
            return
        source, piece = self.plan.task(shard).inputs[0]
        where = f"shard {shard} ({source.url}@{piece.start})"
        self.aside[shard] = f"{where} is set aside after {self.tries} tries: {reason}"
        self.warn(self.aside[shard])
        if len(self.aside) >= HOPELESS and not self.counts["shards"]:
            raise ValueError(f"none of the first {len(self.aside)} shards could be parsed; the last: {reason}")

    def _lose(self, number: int, reason: str) -> None:
        """Handle the loss of a worker; start another one if there is work left."""
        worker = self.workers[number]
        worker.lost += 1
        if worker.task is not None:
            self._fail(worker, f"its worker was lost ({reason})")
        elif not worker.idle:
            self.stillborn += 1
            if self.stillborn >= STILLBORN:
                raise ValueError(f"workers stopped before they had loaded the model: {reason}")
        worker.idle = False
        self.engine.start(number)

    def _write_status(self, every: float = 0.0) -> None:
        if time.time() - self.written >= every:
            self.written = time.time()
            with suppress(OSError):  # nothing depends on it
                self.folder.write_json(self.status, self.summary())

    def summary(self) -> dict[str, Any]:
        """Return the progress of the run as plain data."""
        seconds = (self.ended or time.time()) - self.started
        words = self.counts["words"] + sum(worker.words_of_shard for worker in self.workers)
        rate, expected = words / max(seconds, 1e-9), self.words_in_all()
        return {
            "state": self.state,
            "updated": time.time(),
            "driver": f"{socket.gethostname()}:{os.getpid()}",
            "seconds": round(seconds, 3),
            "seconds_left": None if expected is None or not words else round(max(0.0, expected - words) / rate),
            "words": words,
            "sentences": self.counts["sentences"],
            "unparsed": self.counts["unparsed"],
            "words_per_second": round(rate, 1),
            "shards": {
                "all": self.total,
                "committed_before": self.skipped,
                "committed": self.counts["shards"],
                "set_aside": len(self.aside),
            },
            "set_aside": list(self.aside.values()),
            "workers": [
                {
                    "worker": worker.place,
                    "shard": worker.task and worker.task.shard,
                    "shards": worker.shards,
                    "words": worker.words + worker.words_of_shard,
                    "seconds": round(worker.seconds, 3),
                    "words_per_second": round(worker.words / worker.seconds, 1) if worker.seconds else None,
                    "lost": worker.lost,
                }
                for worker in self.workers
            ],
            "stragglers": self._stragglers(),
        }

    def _stragglers(self) -> list[dict[str, Any]]:
        """List the slowest shards among those that took much longer than others of their size."""
        if len(self.paces) < 3:
            return []
        median = statistics.median(pace for pace, *_ in self.paces)
        slow = sorted((each for each in self.paces if each[0] > STRAGGLER * median), reverse=True)
        return [{"shard": shard, "seconds": round(took, 3), "worker": place} for _, shard, took, place in slow[:5]]
