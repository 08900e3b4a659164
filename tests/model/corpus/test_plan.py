import gzip
import io
from hashlib import blake2b
from pathlib import Path
from typing import cast

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arbora.data.conll import Sentence, Unparsed, conll_entries
from arbora.data.text import text_entries
from arbora.model.corpus.pieces import PieceEnd, boundary, read_piece
from arbora.model.corpus.plan import Input, Piece, Plan, find_inputs, make_plan
from arbora.model.parser import Parser

SENTENCE = "1\tword\t" + "\t".join("_" * 8) + "\n\n"


def write(folder: Path, **contents: str) -> None:
    for name, text in contents.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def test_files_folders_patterns_and_lists_give_each_file_once(tmp_path: Path) -> None:
    write(tmp_path, b_conllu=SENTENCE, sub__a_conllu_gz=SENTENCE, sub___hidden=SENTENCE, c_conllu=SENTENCE)
    (tmp_path / "list.txt").write_text(f"{tmp_path}/c.conllu\n\n{tmp_path}/b.conllu\n", encoding="utf-8")
    out = str(tmp_path / "out")
    names = [entry.name for entry in find_inputs([f"{tmp_path}/*.conllu", str(tmp_path / "sub")], "auto", out)]
    assert names == ["b.conllu", "c.conllu", "sub/a.conllu"]
    listed = find_inputs([f"@{tmp_path}/list.txt", f"{tmp_path}/b.conllu"], "auto", out)
    assert [entry.name for entry in listed] == ["c.conllu", "b.conllu"]
    memory = fsspec.filesystem("memory")
    memory.pipe("/corpus/far.conllu", SENTENCE.encode())
    (far,) = find_inputs(["memory://corpus"], "auto", out)
    assert (far.url, far.name, far.size) == ("memory:///corpus/far.conllu", "far.conllu", len(SENTENCE))


@pytest.mark.parametrize(
    ("inputs", "error"),
    [
        (["notes.txt"], "notes.txt: unknown file type; give --input text"),
        (["a.conllu", "a.conllu.gz"], "a.conllu.gz: its output would have the same name as that of .*a.conllu; rename"),
        (["."], "an input must not be in the output folder"),
        (["nothing*"], "there are no files in .*nothing"),
        (["a.parquet.gz"], "a compressed Parquet file; decompress it"),
    ],
)
def test_inputs_that_are_refused(tmp_path: Path, inputs: list[str], error: str) -> None:
    write(
        tmp_path, notes_txt="A .\n", a_conllu=SENTENCE, a_conllu_gz=SENTENCE, a_parquet_gz="x", out__b_conllu=SENTENCE
    )
    with pytest.raises(ValueError, match=error):
        find_inputs([str(tmp_path / name) for name in inputs], "auto", str(tmp_path / "out"))


def test_small_files_share_a_shard_and_large_ones_are_cut() -> None:
    sizes = {"a.conllu": 40, "b.conllu": 30, "c.conllu": 250, "d.conllu.gz": 500, "e.jsonl": 5, "f.jsonl": 0}
    formats = {".jsonl": "jsonl"}
    inputs = [Input(name, name, formats.get(Path(name).suffix, "auto"), size, "") for name, size in sizes.items()]
    plan = make_plan(inputs, 100)
    assert [[tuple(piece[:3]) for piece in shard] for shard in plan.shards] == [
        [(0, 0, 40), (1, 0, 30)],
        [(2, 0, 83)],
        [(2, 83, 166)],
        [(2, 166, 250)],
        [(3, 0, 500)],
        [(4, 0, 5), (5, 0, 0)],
    ]
    assert [plan.task(shard).output for shard in (0, 5)] == ["0000000.conllu", "0000005.jsonl"]
    assert plan.digest() == make_plan(inputs, 100).digest() != make_plan(inputs, 50).digest()


def test_the_plan_says_which_input_changed() -> None:
    old, new = Input("a", "a", "auto", 1, "1"), Input("b", "b", "auto", 1, "1")
    before = {"inputs": [list(old)]}
    assert Plan([old._replace(changed="2")], []).difference(before) == "the input a was changed"
    assert Plan([old, new], []).difference(before) == "the input b was added"
    assert Plan([], []).difference(before) == "the input a was removed"
    assert "--shard-size" in Plan([old], []).difference(before)


@given(
    st.lists(st.sampled_from(["1\tä\t_\t_\t_\t_\t_\t_\t_\t_", "# b", "", " ", "1\tx"]), max_size=12),
    st.sampled_from(["\n", "\r\n"]),
    st.integers(1, 40),
    st.sampled_from(["auto", "text"]),
)
def test_pieces_have_every_sentence_once(lines: list[str], end: str, shard_size: int, format: str) -> None:
    contents = end.join(lines).encode()
    fsspec.filesystem("memory").pipe("/pieces.conllu", contents)
    plan = make_plan(find_inputs(["memory://pieces.conllu"], format, "memory://out"), shard_size)
    found, ends = [], list[PieceEnd]()
    digest = blake2b()
    for shard in range(len(plan.shards)):
        for item in (
            item
            for source, piece in plan.task(shard).inputs
            for item in read_piece(source, piece, "", digest, cast(Parser, None))
        ):
            if isinstance(item, Sentence | Unparsed):
                found.append(item.lines)
            else:
                assert isinstance(item, PieceEnd)
                ends.append(item)
    stream = io.StringIO(contents.decode("utf-8"), newline="\n")
    try:
        if format == "text":
            whole = [entry.lines for entry in text_entries(stream)]
        else:
            whole = [entry.lines for entry in conll_entries(stream, trees=False)]
    except ValueError:
        whole = []
    assert [line for lines in found for line in lines] == [line for lines in whole for line in lines]
    assert found == whole
    assert [e.start for e in ends] == [0, *(e.end for e in ends[:-1])]
    assert ends[-1].end == len(contents)
    assert digest.hexdigest() == blake2b(contents).hexdigest()


def test_a_cut_at_the_start_of_a_line_is_a_boundary() -> None:
    file = io.BytesIO(b"ab\ncd\n\nef\n")
    assert [boundary(file, i, False) for i in (0, 1, 3, 4, 9, 10)] == [0, 3, 3, 6, 10, 10]
    assert [boundary(file, i, True) for i in (0, 1, 6, 7, 10)] == [0, 7, 7, 10, 10]


def test_an_input_that_changed_is_refused(tmp_path: Path) -> None:
    write(tmp_path, a_conllu=SENTENCE)
    (source,) = find_inputs([str(tmp_path / "a.conllu")], "auto", str(tmp_path / "out"))
    write(tmp_path, a_conllu=SENTENCE * 2)
    with pytest.raises(ValueError, match="a.conllu: changed since the run began"):
        list(read_piece(source, Piece(0, 0, source.size, source.size), "text", blake2b(), cast(Parser, None)))
