import bz2
import errno
import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import fsspec
import pytest
from corpora import EXAMPLES, FailingMST, begin, outputs, parse_here

from arbora.cli import main
from arbora.data.compression import _zstd
from arbora.data.conll import read_conll
from arbora.model.corpus.folder import MERGED, RUN, SHARDS, WRITTEN, Folder
from arbora.model.corpus.merge import merge, write_manifest
from arbora.model.corpus.shard import ShardParser

TEXT = "A dog barked . It rained , didn't it ?"


@pytest.fixture(scope="module")
def predicted(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("predicted") / "dev.conllu"
    main(["predict", str(checkpoint), str(EXAMPLES / "dev.conllu"), "-o", str(path), "--quiet"])
    return path.read_bytes()


@pytest.mark.parametrize("cpus", [1, 2])
@pytest.mark.parametrize("shard_size", [20_000, 10**9])
def test_shards_have_the_bytes_of_predict(
    checkpoint: Path, tmp_path: Path, predicted: bytes, shard_size: int, cpus: int
) -> None:
    folder, plan, settings = begin([EXAMPLES / "dev.conllu"], tmp_path / "out", checkpoint, shard_size, cpus=cpus)
    records = parse_here(plan, settings)
    assert outputs(folder) == predicted
    counts = write_manifest(folder, plan)
    assert (counts["bytes"], counts["words"]) == (len(predicted), sum(map(len, read_conll(EXAMPLES / "dev.conllu"))))
    assert len(records) == len((tmp_path / "out" / "manifest.jsonl").read_text(encoding="utf-8").splitlines())
    assert records[0]["versions"]["numba"]


def test_compressed_inputs_and_file_systems_elsewhere(checkpoint: Path, predicted: bytes) -> None:
    memory = fsspec.filesystem("memory")
    contents = (EXAMPLES / "dev.conllu").read_bytes()
    compressors = {
        "": bytes,
        ".gz": gzip.compress,
        ".xz": lzma.compress,
        ".bz2": bz2.compress,
        ".zst": _zstd().compress,
    }
    for i, (ending, compress) in enumerate(compressors.items()):
        memory.pipe(f"/in/{i}.conllu{ending}", compress(contents))
    folder, plan, settings = begin(["memory://in"], "memory://out", checkpoint, 30_000)
    parse_here(plan, settings)
    write_manifest(folder, plan)
    assert merge(folder, plan) == 5
    assert [memory.cat_file(f"/out/{MERGED}/{i}.conllu") == predicted for i in range(5)] == [True] * 5
    with folder.one_driver("status.json"):
        folder.write_json("status.json", {"state": "running", "updated": 2e10})
        with pytest.raises(ValueError, match="another run is writing memory://out"), folder.one_driver("status.json"):
            pass
    folder.remove(*WRITTEN)
    assert folder.committed() == {}


def test_files_that_share_a_shard_are_merged_into_their_own(checkpoint: Path, tmp_path: Path) -> None:
    for name, text in {"a.txt": "One dog .\n", "b.txt": "\n", "c/d.txt": "Two dogs\nbark .\n"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    inputs = [tmp_path / name for name in ("a.txt", "b.txt", "c")]
    folder, plan, settings = begin(inputs, tmp_path / "out", checkpoint, 10**6, "text")
    assert len(parse_here(plan, settings)) == 1
    merge(folder, plan)
    merged = [tmp_path / "out" / MERGED / f"{name}.conllu" for name in ("a.txt", "b.txt", "c/d.txt")]
    assert [s.form for s in read_conll(merged[2])] == [["Two", "dogs"], ["bark", "."]]
    assert merged[1].read_bytes() == b""
    assert b"".join(path.read_bytes() for path in merged) == outputs(folder)
    (tmp_path / "out" / SHARDS / "0000000.conllu").write_bytes(b"damaged")
    with pytest.raises(ValueError, match="0000000.conllu: changed since it was committed"):
        merge(folder, plan)


def test_rows_of_json_keep_their_columns(checkpoint: Path, tmp_path: Path) -> None:
    rows: list[Any] = [{"id": i, "body": TEXT, "ä": [None, 1.5]} for i in range(5)]
    rows[2]["body"] = " "
    rows[3]["half"] = "\ud800"
    lines = [json.dumps(row, ensure_ascii=False) if i != 3 else json.dumps(row) for i, row in enumerate(rows)]
    bad = ["{broken", "[1]", '{"body": 3}', '{"body": "A .", "conllu": ""}']
    (tmp_path / "a.jsonl").write_text("\n".join([*lines[:2], *bad, "", *lines[2:]]) + "\n", encoding="utf-8")
    for shard_size in (60, 10**6):
        out = tmp_path / f"out{shard_size}"
        folder, plan, settings = begin([tmp_path / "a.jsonl"], out, checkpoint, shard_size, column="body")
        records = parse_here(plan, settings)
        written = outputs(folder).decode("utf-8").splitlines()
        assert written[2:6] == bad
        parsed = [json.loads(line) for line in written[:2] + written[6:]]
        assert [{name: row[name] for name in row if name != "conllu"} for row in parsed] == rows
        assert [row["conllu"].count("# text = ") for row in parsed] == [2, 2, 0, 2, 2]
        assert sum(record["unparsed"] for record in records) == 4
        errors = [error for record in records for error in record["errors"]]
        assert "a.jsonl" in errors[0]
        assert "not JSON" in errors[0]
        assert "no text in 'body'; name the column with --column" in errors[2]
    folder, plan, settings = begin(
        [tmp_path / "a.jsonl"], tmp_path / "skip", checkpoint, 10**6, column="body", on_error="skip"
    )
    parse_here(plan, settings)
    assert outputs(folder).decode("utf-8").splitlines() == written[:2] + written[6:]


def test_rows_of_parquet_keep_their_columns(checkpoint: Path, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pa.table({"id": range(7), "text": [TEXT, None, "", *[TEXT] * 4]})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    parquet.write_table(table.slice(0, 0), tmp_path / "b.parquet")
    for shard_size in (1, 10**6):
        out = tmp_path / f"out{shard_size}"
        folder, plan, settings = begin([tmp_path / "a.parquet", tmp_path / "b.parquet"], out, checkpoint, shard_size)
        assert len(plan.shards) == (5 if shard_size == 1 else 2)
        parse_here(plan, settings)
        merge(folder, plan)
        merged = parquet.read_table(out / MERGED / "a.parquet")
        assert merged.drop_columns("conllu").equals(table)
        counts = [text and text.count("# text = ") for text in merged["conllu"].to_pylist()]
        assert counts == [2, None, "", 2, 2, 2, 2]
        assert parquet.read_table(out / MERGED / "b.parquet").num_rows == 0
    folder, plan, settings = begin([tmp_path / "a.parquet"], tmp_path / "other", checkpoint, 10**6, column="body")
    worker = ShardParser(settings)
    worker.load()
    assert list(worker.run(plan.task(0))) == [
        ("failed", (f"{tmp_path}/a.parquet: there is no column 'body'; there are id, text", False))
    ]
    assert folder.committed() == {}


def test_a_poisoned_sentence_takes_no_other_with_it(checkpoint: Path, tmp_path: Path, predicted: bytes) -> None:
    lengths = [len(s) for s in read_conll(EXAMPLES / "dev.conllu")]
    poison = FailingMST(words=lengths[0])
    folder, plan, settings = begin([EXAMPLES / "dev.conllu"], tmp_path / "out", checkpoint, 10**6, decoder=poison)
    (record,) = parse_here(plan, settings)
    assert record["unparsed"] == lengths.count(lengths[0]) < len(lengths)
    assert record["errors"][0] == f"{EXAMPLES / 'dev.conllu'}:1: poison"
    original = (EXAMPLES / "dev.conllu").read_text(encoding="utf-8").split("\n\n")
    for length, before, after, good in zip(
        lengths, original, *(contents.decode("utf-8").split("\n\n") for contents in (outputs(folder), predicted))
    ):
        assert after == (before if length == lengths[0] else good)


def test_a_full_disk_leaves_nothing_behind(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, plan, settings = begin([EXAMPLES / "dev.conllu"], tmp_path / "out", checkpoint, 10**6)
    worker = ShardParser(settings)
    worker.load()

    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("arbora.model.corpus.folder.os.fsync", full)
    assert list(worker.run(plan.task(0)))[-1] == ("failed", ("[Errno 28] No space left on device", True))
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == [tmp_path / "out" / RUN]


def test_a_worker_of_an_older_run_commits_nothing(checkpoint: Path, tmp_path: Path) -> None:
    folder, plan, settings = begin([EXAMPLES / "dev.conllu"], tmp_path / "out", checkpoint, 10**6)
    worker = ShardParser(settings)
    worker.load()
    folder.write_json(RUN, {"run": "another"})
    kind, (reason, full) = list(worker.run(plan.task(0)))[-1]
    assert (kind, full) == ("failed", False)
    assert "another run has begun in this folder" in reason
    assert folder.committed() == {}


def test_a_model_that_is_another_or_none_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    _, _, settings = begin([EXAMPLES / "dev.conllu"], tmp_path / "out", checkpoint, 10**6)
    kind, reason = ShardParser(settings.__class__(settings.model, "other", "test", settings.output)).load()
    assert kind == "broken"
    assert "is not the model of this run; put the same one on all machines" in reason
    (tmp_path / "damaged.ckpt").write_bytes(b"no model")
    _, _, settings = begin([EXAMPLES / "dev.conllu"], tmp_path / "out", tmp_path / "damaged.ckpt", 10**6)
    assert ShardParser(settings).load()[0] == "broken"


def test_a_damaged_file_of_a_run_is_named(tmp_path: Path) -> None:
    (tmp_path / RUN).write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match="run.json: damaged; give --replace"):
        Folder(str(tmp_path)).read_json(RUN)
