"""Corpora in shards, for tests: a plan and its workers without the command line."""

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from arbora.decoders import MST, Parts, Trees
from arbora.model.corpus.folder import RUN, SHARDS, Folder
from arbora.model.corpus.plan import Plan, find_inputs, make_plan
from arbora.model.corpus.shard import ShardParser, WorkerSettings
from arbora.model.storage.digest import digest_of_model

EXAMPLES = Path(__file__).parents[1] / "examples" / "treebank"


def begin(
    inputs: Sequence[str | Path],
    output: str | Path,
    model: Path,
    shard_size: int,
    format: str = "auto",
    **settings: Any,
) -> tuple[Folder, Plan, WorkerSettings]:
    """Plan a run, as the command does."""
    folder = Folder(str(output))
    plan = make_plan(find_inputs([str(name) for name in inputs], format, str(output)), shard_size)
    folder.write_json(RUN, {"run": "test"})
    return folder, plan, WorkerSettings(str(model), digest_of_model(model), "test", str(output), **settings)


def parse_here(plan: Plan, settings: WorkerSettings) -> list[dict[str, Any]]:
    """Parse all shards in this process."""
    worker = ShardParser(settings)
    assert worker.load()[0] == "ready"
    records = []
    for shard in range(len(plan.shards)):
        kind, value = list(worker.run(plan.task(shard)))[-1]
        assert kind == "committed", value
        records.append(value)
    return records


def outputs(folder: Folder) -> bytes:
    """The outputs of committed shards, one after the other."""
    return b"".join(
        folder.fs.cat_file(folder.path(f"{SHARDS}/{name}")) for _, name in sorted(folder.committed().items())
    )


@dataclass(frozen=True)
class DeadlyMST(MST):
    """Kills its process on sentences of so many words."""

    words: int = 0

    def decode(self, parts: Parts) -> Trees:
        if np.any(parts.lengths == self.words):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().decode(parts)


@dataclass(frozen=True)
class FailingMST(DeadlyMST):
    """Raises an error on sentences of so many words."""

    def decode(self, parts: Parts) -> Trees:
        if np.any(parts.lengths == self.words):
            raise ValueError("poison")
        return MST.decode(self, parts)
