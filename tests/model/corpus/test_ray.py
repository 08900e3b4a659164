"""Real Ray clusters of several nodes, on this machine."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from corpora import EXAMPLES, DeadlyMST, begin, outputs, parse_here

from arbora.data.conll import read_conll
from arbora.model.corpus.driver import Driver
from arbora.model.corpus.ray import RayEngine

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")]
SHARD_SIZE = 40_000


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))  # workers import the decoders of the tests
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": 80 * 2**20})
    nodes.added = [nodes.add_node(num_cpus=1, object_store_memory=80 * 2**20) for _ in range(2)]
    nodes.connect()
    yield nodes
    ray.shutdown()
    nodes.shutdown()


def run(
    model: Path, out: Path, disturb: Callable[[Driver], None], workers: int = 2, **settings: Any
) -> tuple[Driver, bytes, list[str]]:
    """Parse on a cluster; `disturb` is called once, when the first words are parsed."""
    folder, plan, worker_settings = begin([EXAMPLES / "dev.conllu"], out, model, SHARD_SIZE, **settings)
    driver = Driver(folder, plan, range(len(plan.shards)), 3, "status.json")
    calls = iter([disturb])
    messages: list[str] = []
    engine = RayEngine(worker_settings, 0.0, None, workers)
    driver.run(engine, workers, lambda words: next(calls, lambda _: None)(driver), messages.append)
    return driver, outputs(folder), messages


@pytest.fixture
def expected(checkpoint: Path, tmp_path: Path) -> bytes:
    folder, plan, settings = begin([EXAMPLES / "dev.conllu"], tmp_path / "here", checkpoint, SHARD_SIZE)
    parse_here(plan, settings)
    return outputs(folder)


def test_a_node_that_is_lost_loses_nothing(checkpoint: Path, tmp_path: Path, cluster: Any, expected: bytes) -> None:
    lost: list[object] = []

    def remove_node(driver: Driver) -> None:
        lost.append(cluster.added[0])
        cluster.remove_node(cluster.added[0], allow_graceful=False)
        cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)

    driver, written, messages = run(checkpoint, tmp_path / "out", remove_node)
    assert lost
    assert sum(worker.lost for worker in driver.workers) == 1
    assert written == expected
    assert messages == []


def test_a_killed_actor_loses_nothing(checkpoint: Path, tmp_path: Path, cluster: Any, expected: bytes) -> None:
    def kill(driver: Driver) -> None:
        (place,) = {worker.place for worker in driver.workers if worker.words_of_shard}
        os.kill(int(place.rpartition(":")[2]), signal.SIGKILL)

    driver, written, messages = run(checkpoint, tmp_path / "out", kill)
    assert sum(worker.lost for worker in driver.workers) == 1
    assert written == expected
    assert messages == []


def test_a_shard_that_always_kills_its_actor_is_set_aside(
    checkpoint: Path, tmp_path: Path, cluster: Any, expected: bytes
) -> None:
    lengths = [len(s) for s in read_conll(EXAMPLES / "dev.conllu")]
    rare = min(set(lengths), key=lengths.count)
    driver, written, messages = run(checkpoint, tmp_path / "out", lambda driver: None, decoder=DeadlyMST(words=rare))
    assert 0 < len(messages) == len(driver.aside) < driver.total
    assert "is set aside after 3 tries: its worker was lost" in messages[0]
    assert len(driver.folder.committed()) == driver.total - len(driver.aside)
    assert 0 < len(written) < len(expected)


def test_a_cluster_of_ray_start_is_joined_by_its_address_and_token(
    checkpoint: Path, tmp_path: Path, expected: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    token = tmp_path / "head" / ".ray" / "auth_token"
    token.parent.mkdir(parents=True)
    token.write_text("0123456789abcdef" * 4, encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "no_token").mkdir()
    home = {name: os.environ | {"HOME": str(tmp_path / name)} for name in ("head", "no_token")}
    ray = Path(sys.executable).with_name("ray")
    head = [ray, "start", "--head", "--block", "--port", address.rpartition(":")[2], "--num-cpus", "2"]
    head += ["--include-dashboard", "false", "--object-store-memory", str(80 * 2**20)]
    run = [sys.executable, "-m", "arbora.cli", "parse-corpus", str(checkpoint), str(EXAMPLES / "dev.conllu"), "--quiet"]
    run += ["--shard-size", str(SHARD_SIZE), "--engine", "ray", "--address", address, "-o", str(tmp_path / "out")]
    with subprocess.Popen(head, env=home["head"], stdout=subprocess.DEVNULL, start_new_session=True) as cluster:
        try:
            refused = subprocess.run(run, env=home["no_token"], capture_output=True, text=True)
            joined = subprocess.run(run, env=home["head"], capture_output=True, text=True)
        finally:
            os.killpg(cluster.pid, signal.SIGTERM)
    assert refused.returncode == 1
    assert "accepts this machine; if one runs there, copy ~/.ray/auth_token from its head node" in refused.stderr
    assert joined.returncode == 0, joined.stderr
    written = sorted((tmp_path / "out" / "shards").glob("*.conllu"))
    assert b"".join(path.read_bytes() for path in written) == expected
