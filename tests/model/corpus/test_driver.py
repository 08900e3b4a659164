from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from arbora.model.corpus.driver import HOPELESS, STILLBORN, Driver, Event
from arbora.model.corpus.folder import Folder
from arbora.model.corpus.plan import Input, Plan, Task, make_plan

RECORD = {"words": 10, "sentences": 1, "unparsed": 0, "errors": [], "warnings": []}


class Scripted:
    """An engine whose workers answer as a function says."""

    def __init__(self, answer: Callable[[Task], list[tuple[Any, Any]]], stillborn: bool = False) -> None:
        self.answer, self.stillborn = answer, stillborn
        self.pending: deque[Event] = deque()
        self.started: list[int] = []
        self.tasks: list[int] = []
        self.closed = False

    def start(self, worker: int) -> None:
        self.started.append(worker)
        self.pending.append(
            Event(worker, "lost", "out of memory") if self.stillborn else Event(worker, "ready", "here:1")
        )

    def submit(self, worker: int, task: Task) -> None:
        self.tasks.append(task.shard)
        self.pending.extend(Event(worker, kind, value) for kind, value in self.answer(task))

    def events(self, seconds: float) -> Iterator[Event]:
        yield self.pending.popleft()

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(str(tmp_path))


def plan_of(shards: int) -> Plan:
    return make_plan([Input("in.conllu", "in.conllu", "auto", shards, "")], 1)


def drive(folder: Folder, engine: Scripted, shards: int = 4, workers: int = 2) -> tuple[Driver, list[str], int]:
    driver = Driver(folder, plan_of(shards), range(shards), 3, "status.json")
    messages: list[str] = []
    advanced: list[int] = []
    try:
        driver.run(engine, workers, advanced.append, messages.append)
    finally:
        assert engine.closed
    return driver, messages, sum(advanced)


def test_a_shard_that_always_kills_its_worker_is_set_aside(folder: Folder) -> None:
    def answer(task: Task) -> list[tuple[str, Any]]:
        return (
            [("words", 7), ("lost", "killed by SIGKILL")] if task.shard == 1 else [("words", 5), ("committed", RECORD)]
        )

    engine = Scripted(answer)
    driver, messages, words = drive(folder, engine)
    assert sorted(engine.tasks) == [0, 1, 1, 1, 2, 3]
    assert len(engine.started) == 2 + 3
    reason = "is set aside after 3 tries: its worker was lost (killed by SIGKILL)"
    assert messages == list(driver.aside.values()) == [f"shard 1 (in.conllu@1) {reason}"]
    status = folder.read_json("status.json")
    assert words == status["words"] == 30
    assert status["state"] == "incomplete"
    assert status["shards"] == {"all": 4, "committed_before": 0, "committed": 3, "set_aside": 1}
    assert sum(worker["lost"] for worker in status["workers"]) == 3


def test_a_shard_that_fails_once_is_tried_again(folder: Folder) -> None:
    failures = iter([True])

    def answer(task: Task) -> list[tuple[str, Any]]:
        return [("failed", ("timeout", False))] if next(failures, False) else [("committed", RECORD)]

    driver, messages, _ = drive(folder, Scripted(answer))
    assert (driver.aside, messages) == ({}, [])
    assert folder.read_json("status.json")["state"] == "done"


def test_committed_shards_are_skipped(folder: Folder) -> None:
    for shard, names in {0: (".json", ".conllu"), 1: (".json",), 2: (".conllu",)}.items():
        for name in names:
            with folder.create(f"shards/{shard:07}{name}") as file:
                file.write(b"{}")
    engine = Scripted(lambda task: [("committed", RECORD)])
    driver, _, _ = drive(folder, engine)
    assert sorted(engine.tasks) == [1, 2, 3]
    assert driver.skipped == 1


def test_messages_about_sentences_are_passed_on(folder: Folder) -> None:
    record = RECORD | {"errors": ["in:1: poison"], "warnings": ["no tags"], "unparsed": 1}
    driver, messages, _ = drive(folder, Scripted(lambda task: [("committed", record)]), shards=1)
    assert messages == ["warning: no tags", "in:1: poison"]
    assert driver.counts["unparsed"] == 1


def test_runs_that_cannot_succeed_stop(folder: Folder) -> None:
    with pytest.raises(OSError, match="disk full; free some space and run the same command again"):
        drive(folder, Scripted(lambda task: [("failed", ("disk full", True))]))
    assert folder.read_json("status.json")["state"] == "failed"
    with pytest.raises(ValueError, match="no such model"):
        drive(folder, Scripted(lambda task: [("broken", "no such model")]))
    engine = Scripted(lambda task: [("failed", ("no tags", False))])
    with pytest.raises(ValueError, match=f"none of the first {HOPELESS} shards could be parsed; the last: no tags"):
        drive(folder, engine, shards=50)
    engine = Scripted(lambda task: [], stillborn=True)
    with pytest.raises(ValueError, match="workers stopped before they had loaded the model: out of memory"):
        drive(folder, engine)
    assert len(engine.started) <= STILLBORN + 2


def test_stragglers_are_listed(folder: Folder) -> None:
    driver = Driver(folder, plan_of(4), range(4), 3, "status.json")
    driver.paces = [(1.0, 0, 1.0, "a"), (1.1, 1, 1.1, "a"), (5.0, 2, 5.0, "b"), (0.9, 3, 0.9, "a")]
    assert driver.summary()["stragglers"] == [{"shard": 2, "seconds": 5.0, "worker": "b"}]
