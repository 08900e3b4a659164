"""Inputs of a corpus, and the shards into which they are cut.

A plan is made from names and sizes only, except for the footers of Parquet files. Plain files are cut at regular
distances; the worker moves both ends of its piece to the next end of a sentence, a row or a paragraph, in the same way
for both neighbours (`pieces.boundary`). A compressed file is one piece, because it can only be read from its beginning,
and a Parquet file is cut between row groups. Small files share a shard.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple

import fsspec
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from arbora.data.compression import is_compressed

FORMATS = dict.fromkeys((".conllu", ".conllx", ".conll"), "auto") | {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
"""Formats of inputs by the ending of their names; `auto` is CoNLL-U or CoNLL-X, by content."""

OUTPUTS = {"jsonl": ".jsonl", "parquet": ".parquet"}
"""Endings of outputs by the format of inputs; all others become CoNLL-U, or stay CoNLL-X."""

DIGEST = 20
"""Bytes of a digest."""

_TIMES = ("mtime", "LastModified", "last_modified", "updated", "created", "ETag")
"""Entries in which file systems give the time of the last change; the first one found is used."""


class Input(NamedTuple):
    """A file of a corpus."""

    url: str
    name: str  # of its merged output
    format: str  # auto, conllu, conllx, text, raw, jsonl or parquet
    size: int
    changed: str  # when; empty if the file system does not say

    def check_unchanged(self) -> None:
        """Raise an error if a file has changed since the plan was made."""
        fs, path = url_to_fs(self.url)
        info = fs.info(path)
        if (info["size"], _changed(info)) != (self.size, self.changed):
            raise ValueError(f"{self.url}: changed since the run began; give --replace to parse everything again")


class Piece(NamedTuple):
    """A piece of an input: bytes, or row groups of a Parquet file."""

    input: int
    start: int
    end: int
    size: int  # in bytes


class Task(NamedTuple):
    """A shard, with everything needed to read it."""

    shard: int
    inputs: list[tuple[Input, Piece]]

    @property
    def size(self) -> int:
        """Bytes of its pieces, compressed or not."""
        return sum(piece.size for _, piece in self.inputs)

    @property
    def output(self) -> str:
        """Name of the file that is written."""
        return f"{self.shard:07}{OUTPUTS.get(self.inputs[0][0].format, '.conllu')}"


@dataclass(frozen=True)
class Plan:
    """Shards of a corpus."""

    inputs: list[Input]
    shards: list[list[Piece]]

    def task(self, shard: int) -> Task:
        """Return a shard by its number."""
        return Task(shard, [(self.inputs[piece.input], piece) for piece in self.shards[shard]])

    def to_json(self) -> bytes:
        """Return the plan as JSON; equal plans have equal JSON."""
        contents = {"inputs": self.inputs, "shards": self.shards}
        return json.dumps(contents, separators=(",", ":")).encode() + b"\n"

    def digest(self) -> str:
        """Return a digest of the plan, and so of the names, sizes and times of its inputs."""
        return blake2b(self.to_json(), digest_size=DIGEST).hexdigest()

    def difference(self, before: dict[str, Any]) -> str:
        """Name one difference to the inputs of another plan, as read from JSON."""
        now = {entry.url: tuple(entry) for entry in self.inputs}
        then = {entry[0]: tuple(entry) for entry in before["inputs"]}
        for url in now.keys() | then.keys():
            if now.get(url) != then.get(url):
                what = "changed" if url in now and url in then else "added" if url in now else "removed"
                return f"the input {url} was {what}"
        return "the inputs were given in another order, or another --shard-size"


def find_inputs(given: Sequence[str], format: str, output: str) -> list[Input]:
    """Find the files of a corpus. Folders and patterns are expanded in order of name, and each file counts once.

    Args:
        given: files, folders, patterns, and `@FILE` for a list of them, one per line; local or URLs of fsspec.
        format: format of all files; `auto` to decide by their names.
        output: the output folder, which must not contain inputs.

    Raises:
        ValueError: there are no files, or the format of a file is unknown.
    """
    output_fs, root = url_to_fs(output)
    found: dict[str, tuple[str, Any]] = {}
    for fs, path, info in _files(given):
        url = path if isinstance(fs, LocalFileSystem) else fs.unstrip_protocol(path)
        if type(fs) is type(output_fs) and path.startswith(root + "/"):
            raise ValueError(f"{url}: an input must not be in the output folder; give another --output")
        found[url] = (path, info)
    if not found:
        raise ValueError(f"there are no files in {', '.join(given)}")
    split = [url.split("/") for url in found]
    folders = [parts[:-1] for parts in split]
    common = next((i for i, level in enumerate(zip(*folders)) if len(set(level)) > 1), min(map(len, folders)))
    inputs = []
    names: dict[str, str] = {}
    for parts, (url, (path, info)) in zip(split, found.items()):
        name = "/".join(parts[common:])
        name = os.path.splitext(name)[0] if is_compressed(name) else name
        kind = FORMATS.get(os.path.splitext(name)[1].lower(), "") if format == "auto" else format
        if not kind:
            raise ValueError(f"{url}: unknown file type; give --input text, raw, conllu or jsonl")
        if kind == "parquet" and is_compressed(path):
            raise ValueError(f"{url}: a compressed Parquet file; decompress it, Parquet compresses its columns itself")
        name += ".conllu" if kind in ("text", "raw") else ""
        if name in names:
            raise ValueError(f"{url}: its output would have the same name as that of {names[name]}; rename one")
        names[name] = url
        inputs.append(Input(url, name, kind, info["size"], _changed(info)))
    return inputs


def make_plan(inputs: list[Input], shard_size: int) -> Plan:
    """Cut inputs into shards.

    Args:
        inputs: from `find_inputs`.
        shard_size: maximum number of bytes of a shard, for inputs that can be cut.
    """
    shards: list[list[Piece]] = []
    room, last = 0, ""
    for number, entry in enumerate(inputs):
        kind = OUTPUTS.get(entry.format, ".conllu")
        for start, end, size in _cuts(entry, shard_size):
            if kind != last or kind == ".parquet" or size > room:
                shards.append([])
                room, last = shard_size, kind
            shards[-1].append(Piece(number, start, end, size))
            room -= size
    return Plan(inputs, shards)


def _cuts(entry: Input, shard_size: int) -> Iterator[tuple[int, int, int]]:
    """Yield start, end and bytes of the pieces of an input."""
    if entry.format != "parquet":
        count = 1 if is_compressed(entry.url) else max(1, -(-entry.size // shard_size))
        yield from (
            (start, end, end - start) for start, end in pairwise(entry.size * i // count for i in range(count + 1))
        )
        return
    from arbora.model.corpus.pieces import open_parquet

    with open_parquet(entry) as file:
        sizes = [file.metadata.row_group(i).total_byte_size for i in range(file.num_row_groups)]
    start = size = 0
    for i, more in enumerate(sizes):
        if size and size + more > shard_size:
            yield start, i, size
            start, size = i, 0
        size += more
    yield start, len(sizes), size


def _files(given: Sequence[str]) -> Iterator[tuple[Any, str, Any]]:
    """Yield file system, path and facts of each file."""
    for name in given:
        if name.startswith("@"):
            with fsspec.open(name[1:], "rt", encoding="utf-8") as lines:
                yield from _files([line.strip() for line in lines if line.strip()])
            continue
        fs, path = url_to_fs(name)
        if any(character in path for character in "*?["):
            listed = {each: info for each, info in fs.glob(path, detail=True).items() if info["type"] == "file"}
        elif (info := fs.info(path))["type"] == "file":
            listed = {path: info}
        else:
            listed = fs.find(path, detail=True)
            listed = {each: facts for each, facts in listed.items() if "/." not in each.removeprefix(path)}
        if not listed:
            raise ValueError(f"there are no files in {name}")
        for each in sorted(listed):
            yield fs, each, listed[each]


def _changed(info: dict[str, Any]) -> str:
    """Return the time of the last change in seconds, since listings of some file systems round it differently."""
    name = next((name for name in _TIMES if info.get(name) is not None), "")
    value = info.get(name, "")
    value = value.timestamp() if isinstance(value, datetime) else value
    return str(int(value) if isinstance(value, float) and name != "mtime" else value)
