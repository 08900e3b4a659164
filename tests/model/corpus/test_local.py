import os
import signal
import sys
from pathlib import Path

import pytest
from corpora import EXAMPLES, DeadlyMST, begin, outputs, parse_here

from arbora.data.conll import read_conll
from arbora.model.corpus.driver import Driver
from arbora.model.corpus.local import LocalEngine, visible_gpus

needs_kill = pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")


@needs_kill
def test_a_killed_worker_is_replaced_and_nothing_is_lost(checkpoint: Path, tmp_path: Path) -> None:
    folder, plan, settings = begin([EXAMPLES / "dev.conllu"], tmp_path / "here", checkpoint, 40_000)
    parse_here(plan, settings)
    expected = outputs(folder)
    folder, plan, settings = begin([EXAMPLES / "dev.conllu"], tmp_path / "out", checkpoint, 40_000)
    driver = Driver(folder, plan, range(len(plan.shards)), 3, "status.json")
    victims: list[str] = []

    def kill(words: int) -> None:
        if words > 0 and not victims:
            (place,) = {worker.place for worker in driver.workers if worker.words_of_shard}
            victims.append(place)
            os.kill(int(place.rpartition(":")[2]), signal.SIGKILL)

    driver.run(LocalEngine(settings), 2, kill, pytest.fail)
    assert victims
    assert sum(worker.lost for worker in driver.workers) == 1
    assert outputs(folder) == expected


@needs_kill
def test_a_shard_that_always_kills_its_worker_is_set_aside_and_the_rest_is_parsed(
    checkpoint: Path, tmp_path: Path
) -> None:
    first, *others = (EXAMPLES / "dev.conllu").read_text(encoding="utf-8").split("\n\n")[:9]
    for name, sentences in {"a": [first], "b": others[:4], "c": others[4:]}.items():
        (tmp_path / f"{name}.conllu").write_text("\n\n".join(sentences) + "\n\n", encoding="utf-8")
    words = len(next(iter(read_conll(tmp_path / "a.conllu"))))
    deadly = [name for name in "abc" if any(len(s) == words for s in read_conll(tmp_path / f"{name}.conllu"))]
    inputs = [tmp_path / f"{name}.conllu" for name in "abc"]
    folder, plan, settings = begin(inputs, tmp_path / "out", checkpoint, 1000, decoder=DeadlyMST(words=words))
    driver = Driver(folder, plan, range(len(plan.shards)), 2, "status.json")
    messages: list[str] = []
    driver.run(LocalEngine(settings), 2, lambda words: None, messages.append)
    assert "a.conllu@0) is set aside after 2 tries: its worker was lost (killed by SIGKILL)" in "".join(messages)
    assert 0 < len(driver.aside) < len(plan.shards)
    assert len(folder.committed()) == len(plan.shards) - len(driver.aside)
    assert {plan.task(shard).inputs[0][0].name[0] for shard in driver.aside} == set(deadly)


def test_workers_share_gpus() -> None:
    assert [visible_gpus(worker, 0.5) for worker in range(4)] == ["0", "0", "1", "1"]
    assert [visible_gpus(worker, 2) for worker in range(2)] == ["0,1", "2,3"]
    assert visible_gpus(3, 0) is None
