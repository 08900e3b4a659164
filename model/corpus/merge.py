"""The manifest of a finished run, and one output per input."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from itertools import chain, groupby
from operator import itemgetter
from typing import IO, Any

from arbora.model.corpus.folder import MANIFEST, MERGED, SHARDS, Folder
from arbora.model.corpus.plan import DIGEST, Input, Plan

READ_AT_ONCE = 1000
"""Records that are read at once: remote file systems answer many requests in parallel."""


def write_manifest(folder: Folder, plan: Plan) -> Counter[str]:
    """Write the records of all shards, which must be committed, into one file.

    Returns:
        Words, sentences, sentences that could not be parsed, and bytes of the outputs.
    """
    counts: Counter[str] = Counter()
    with folder.create(MANIFEST) as file:
        for record in _records(folder, len(plan.shards)):
            counts.update({name: record[name] for name in ("words", "sentences", "unparsed", "bytes")})
            file.write(json.dumps(record, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n")
    return counts


def _records(folder: Folder, shards: int) -> Iterator[dict[str, Any]]:
    for first in range(0, shards, READ_AT_ONCE):
        numbers = range(first, min(first + READ_AT_ONCE, shards))
        paths = [folder.path(f"{SHARDS}/{number:07}.json") for number in numbers]
        contents = folder.fs.cat(paths)
        for path in paths:
            yield json.loads(contents[path])


def merge(folder: Folder, plan: Plan) -> int:
    """Write one output per input, and return their number. Shards are not changed.

    Raises:
        ValueError: the output of a shard is not the one that was committed.
    """
    for source, parts in groupby(_outputs(folder, plan), itemgetter(0)):
        with folder.create(f"{MERGED}/{source.name}") as file:
            if source.format == "parquet":
                _join_row_groups(file, (data for _, data in parts))
            else:
                file.writelines(data for _, data in parts)
    return len(plan.inputs)


def _outputs(folder: Folder, plan: Plan) -> Iterator[tuple[Input, bytes]]:
    """Yield the output of each piece, in the order of inputs."""
    for task, record in zip(map(plan.task, range(len(plan.shards))), _records(folder, len(plan.shards))):
        data = folder.fs.cat_file(folder.path(f"{SHARDS}/{task.output}"))
        if blake2b(data, digest_size=DIGEST).hexdigest() != record["output"]:
            raise ValueError(
                f"{folder.url}/{SHARDS}/{task.output}: changed since it was committed; "
                "remove it and run the same command again"
            )
        start = 0
        for (source, _), entry in zip(task.inputs, record["pieces"], strict=True):
            yield source, data[start : start + entry["bytes"]]
            start += entry["bytes"]


def _join_row_groups(file: IO[bytes], parts: Iterator[bytes]) -> None:
    import pyarrow.parquet as pq

    sources = (pq.ParquetFile(io.BytesIO(data)) for data in parts)
    first = next(sources)
    with pq.ParquetWriter(file, first.schema_arrow) as writer:
        for source in chain([first], sources):
            for group in range(source.num_row_groups):
                writer.write_table(source.read_row_group(group))
