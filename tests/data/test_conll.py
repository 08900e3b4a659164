import io
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import conllu
import pytest
from hypothesis import given
from hypothesis import strategies as st
from treebanks import development_parts

from arbora.data.conll import ConllError, Sentence, open_output, read_conll

ROOT = Path(__file__).parents[2]
CONLLU = ROOT / "tests" / "fixtures" / "treebank.conllu"
CONLLX = ROOT / "tests" / "fixtures" / "treebank.conllx"
TREEBANKS = development_parts()


def read(text: str, **options) -> list[Sentence]:
    return list(read_conll(io.StringIO(text), name="x", **options))


def write(sentences: list[Sentence]) -> str:
    return "".join(sentence.with_tree(sentence.head, sentence.deprel) for sentence in sentences)


def block(heads: list[object], *, before: tuple[str, ...] = ()) -> str:
    """Return a sentence with these heads as CoNLL-U."""
    words = [f"{i}\tw{i}\t_\t_\t_\t_\t{head}\tdep\t_\t_" for i, head in enumerate(heads, 1)]
    return "\n".join([*before, *words]) + "\n\n"


def extra(identifier: str) -> str:
    """Return the line of a range or an empty node."""
    return identifier + "\tw" + "\t_" * 8


def test_columns_of_a_sentence() -> None:
    sentence = next(read_conll(CONLLU))
    assert len(sentence) == 11
    assert sentence.form[:3] == ["The", "baker", "sold"]
    assert sentence.lemma[2] == "sell"
    assert sentence.upos[:3] == ["DET", "NOUN", "VERB"]
    assert sentence.xpos[2] == "VBD"
    assert sentence.feats[2] == "Tense=Past|VerbForm=Fin"
    assert sentence.head == [2, 3, 0, 5, 3, 3, 10, 10, 10, 5, 3]
    assert sentence.deprel[9] == "acl:relcl"
    assert sentence.lines[0] == "# newdoc id = fixture"
    assert sentence.word_line == list(range(3, 14))
    assert (sentence.source, sentence.line_number) == (str(CONLLU), 1)


def test_ranges_and_empty_nodes_are_not_words() -> None:
    _, with_node, with_range, *_ = read_conll(CONLLU)
    assert with_node.form == ["Mara", "plays", "the", "cello", "and", "Tom", "the", "harp", "."]
    assert with_node.lines[with_node.word_line[6]].startswith("7\tthe\t")
    assert with_range.form == ["Ben", "did", "n't", "see", "the", "ferry", "."]
    assert "2-3\tdidn't" in with_range.lines[3]


def test_space_inside_a_form() -> None:
    assert list(read_conll(CONLLU))[3].form[2] == "10 000"


def test_where_names_the_line() -> None:
    second = list(read_conll(CONLLU, name="file.conllu"))[1]
    lines = CONLLU.read_text(encoding="utf-8").split("\n")
    assert second.where() == f"file.conllu:{lines.index('# sent_id = empty-node') + 1}"
    number = int(second.where(7).removeprefix("file.conllu:"))
    assert lines[number - 1].startswith("7\tthe\t")


@pytest.mark.parametrize("path", [CONLLU, CONLLX])
def test_round_trip_is_exact(path: Path) -> None:
    assert write(list(read_conll(path))) == path.read_text(encoding="utf-8")


def test_with_tree_changes_two_columns() -> None:
    sentence = list(read_conll(CONLLU))[2]
    written = sentence.with_tree([0] * 7, ["new"] * 7).split("\n")
    assert written[-2:] == ["", ""]
    for old, new in zip(sentence.lines, written, strict=False):
        if old[0] == "#" or "-" in old.split("\t")[0]:
            assert new == old
        else:
            before, after = old.split("\t"), new.split("\t")
            assert after[6:8] == ["0", "new"]
            assert after[:6] + after[8:] == before[:6] + before[8:]


def test_with_tree_needs_a_head_for_every_word() -> None:
    sentence = next(read_conll(CONLLU))
    with pytest.raises(ValueError, match="shorter"):
        sentence.with_tree([0], ["root"])


def test_from_words() -> None:
    sentence = Sentence.from_words(["#", "a b"])
    assert sentence.head == [-1, -1]
    assert sentence.with_tree([0, 1], ["root", "dep"]) == (
        "1\t#\t_\t_\t_\t_\t0\troot\t_\t_\n2\ta b\t_\t_\t_\t_\t1\tdep\t_\t_\n\n"
    )


@pytest.mark.parametrize("words", [[], [""], ["a\tb"], ["a\nb"], ["a\r"]])
def test_from_words_refuses_what_cannot_be_written(words: list[str]) -> None:
    with pytest.raises(ValueError, match="word"):
        Sentence.from_words(words)


# Formats


def test_conllx_is_recognised_and_may_have_several_roots() -> None:
    first, second = read_conll(CONLLX)
    assert first.head == [2, 3, 0, 0]
    assert (first.upos[0], first.xpos[1], first.deprel[3]) == ("ART", "NN", "PUNC")
    assert second.line_number == 6


def test_blind_file_gains_two_columns() -> None:
    (sentence,) = read("1\tab\tab\tN\tNN\t_\n2\tc\tc\tV\tVV\t_\n", trees=False)
    assert sentence.head == [-1, -1]
    assert sentence.deprel == ["_", "_"]
    assert sentence.with_tree([2, 0], ["SB", "ROOT"]) == "1\tab\tab\tN\tNN\t_\t2\tSB\n2\tc\tc\tV\tVV\t_\t0\tROOT\n\n"


def test_conllx_of_ten_columns_keeps_phead() -> None:
    text = "1\ta\t_\t_\t_\t_\t0\tROOT\t0\tROOT\n\n"
    (sentence,) = read(text, format="conllx")
    assert sentence.with_tree([0], ["X"]) == "1\ta\t_\t_\t_\t_\t0\tX\t0\tROOT\n\n"


@pytest.mark.parametrize("line", ["# text = a", extra("1-2"), extra("0.1")])
def test_conllx_has_words_only(line: str) -> None:
    with pytest.raises(ConllError, match=r"x:1: .*CoNLL-X"):
        read(block([0, 1], before=(line,)), format="conllx")


def test_unknown_format() -> None:
    with pytest.raises(ValueError, match="'conll'"):
        read(block([0]), format="conll")


# Sources


def test_crlf_byte_order_mark_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "windows.conllu"
    text = CONLLU.read_text(encoding="utf-8")
    path.write_bytes(b"\xef\xbb\xbf\r\n" + text.replace("\n\n", "\n \n\n\n").replace("\n", "\r\n").encode())
    assert write(list(read_conll(path))) == text


def test_missing_blank_line_at_the_end() -> None:
    assert write(read(block([0]).rstrip("\n"))) == block([0])


def test_long_values_are_not_echoed_whole(tmp_path: Path) -> None:
    path = tmp_path / "long.conllu"
    path.write_text("9" * 5000 + "\ta" + "\t_" * 8 + "\n\n")
    with pytest.raises(ConllError, match="ID 9999") as error:
        list(read_conll(path))
    assert len(str(error.value)) < 300


def test_closed_standard_streams_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    monkeypatch.setattr("sys.stdout", None)
    with pytest.raises(ValueError, match="standard input is closed"):
        list(read_conll("-"))
    with pytest.raises(ValueError, match="standard output is closed"), open_output(None):
        pass


def test_standard_input_is_utf8_whatever_the_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CONLLU.read_bytes()), encoding="ascii"))
    sentences = list(read_conll("-"))
    assert sentences[0].where() == "<stdin>:1"
    assert write(sentences) == CONLLU.read_text(encoding="utf-8")


def test_text_stream_stays_open() -> None:
    with open(CONLLU, encoding="utf-8") as stream:
        assert {sentence.source for sentence in read_conll(stream)} == {str(CONLLU)}
        assert not stream.closed


def test_first_sentence_comes_before_the_end_is_read() -> None:
    taken = 0

    def endless() -> Iterator[str]:
        nonlocal taken
        while True:
            taken += 1
            yield from block([0, 1]).splitlines(keepends=True)

    sentences = read_conll(endless(), name="x")  # type: ignore[arg-type]
    for count in range(1, 100):
        assert len(next(sentences)) == 2
        assert taken <= count + 1


# Errors


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (block([0, 1]).replace("2\tw2\t_", "2\tw2"), "x:2: 9 columns where 10 are expected"),
        (block([0, 1]).replace("\t", "  "), "x:1: spaces where tabs are expected"),
        (block([0, 1]).replace("2\tw2", "3\tw2"), "x:2: ID 3 where 2 is expected"),
        (block([0, 1]).replace("1\tw1", "0\tw1"), "x:1: ID 0 where 1 is expected"),
        (block([0, 1]).replace("2\tw2", "two\tw2"), "x:2: ID 'two' is not an integer"),
        (block([0, 1]).replace("2\tw2", "2²\tw2"), "x:2: ID 2² where 2 is expected"),
        (block([0]).rstrip("\n") + "\n" + block([0]), "x:2: ID 1 where 2 is expected"),
        (block([0, 1]).replace("w2", ""), "x:2: FORM is empty"),
        (block([0, 1], before=("# a comment", extra("2-3"))), "x:2: range 2-3 does not fit"),
        (block([0, 1], before=(extra("1-3"),)), "x:1: range 1-3 does not fit"),
        (block([0, 1, 1], before=(extra("1-2"), extra("1-3"))), "x:2: range 1-3 does not fit"),
        (block([0, 1], before=(extra("1-"),)), "x:1: ID '1-' is not an integer"),
        (block([0, 1], before=(extra("1.1"),)), "x:1: empty node 1.1 is out of order; expected 0.1"),
        (block([0, 1], before=(extra("0.2"),)), "x:1: empty node 0.2 is out of order; expected 0.1"),
        (block([0, 1], before=(extra("0.01"),)), "x:1: ID '0.01' is not an integer"),
        ("# only a comment\n\n" + block([0]), "x:1: comments without words"),
        (extra("0.1") + "\n\n", "x:1: a sentence without words"),
        (block([0, 3]), "x:2: head '3' of word 2 is out of range; expected 0 to 2"),
        (block([0, -1]), "x:2: head '-1' of word 2 is out of range"),
        (block([0, "9" * 5000]), "of word 2 is out of range"),
        (block([0, "one"]), "x:2: head 'one' of word 2 is not an integer"),
        (block([0, "01"]), "x:2: head '01' of word 2 is not an integer"),
        (block([0, ""]), "x:2: head '' of word 2 is not an integer"),
        (block([0, "_"]), "x:2: word 2 has no head"),
        (block([0, 2]), "x:2: word 2 is its own head"),
        (block([0, 3, 4, 2, 4]), "x:2: words 2, 3, 4 form a cycle"),
        (block([0, 1, 5, 3, 4], before=("# a", "# b")), "x:5: words 3, 4, 5 form a cycle"),
        (block([0]) + block([2, 1]), "x:3: no root"),
        (block([0, 1]).replace("1\tdep", "1\t"), "x:2: DEPREL is empty"),
        ("\n \n\n", "x:1: the file is empty"),
        ("", "x:1: the file is empty"),
        ("\ufeff", "x:1: the file is empty"),
    ],
)
def test_errors_name_the_line(text: str, message: str) -> None:
    with pytest.raises(ConllError) as caught:
        read(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "; " in str(caught.value)


def test_several_roots() -> None:
    text = block([0, 1, 0, 0])
    assert read(text)[0].head == [0, 1, 0, 0]
    with pytest.raises(ConllError, match=r"x:3: 3 roots \(words 1, 3, 4\)"):
        read(text, single_root=True)


def test_prediction_input_needs_no_tree() -> None:
    sentences = read(block(["_", "_"]) + block([2, 1]) + block([1]), trees=False)
    assert [sentence.head for sentence in sentences] == [[-1, -1], [2, 1], [1]]


@pytest.mark.parametrize("head", [2, "x", ""])
def test_prediction_input_has_no_malformed_heads(head: object) -> None:
    with pytest.raises(ConllError, match="of word 1 is"):
        read(block([head]), trees=False)


def test_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "latin.conllu"
    path.write_bytes(block([0]).encode() + "# comment\n1\té".encode("latin-1") + b"\t_" * 4 + b"\t0\tr\t_\t_\n")
    with pytest.raises(ConllError, match=r"latin\.conllu:4: byte 0xe9 is not UTF-8"):
        list(read_conll(path))
    with open(path, encoding="utf-8") as stream, pytest.raises(ConllError, match="not UTF-8"):
        list(read_conll(stream))


def test_skip_invalid(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    path = tmp_path / "mixed.conllu"
    good, cycle = block([0, 1]).encode(), block([0, 3, 2]).encode()
    path.write_bytes(b"junk\n\n" + good + cycle + good.replace(b"w2", b"\xff") + b"1\n2\n\n" + good)
    with caplog.at_level(logging.WARNING, logger="arbora"):
        sentences = list(read_conll(path, skip_invalid=True))
    assert write(sentences).encode() == good + good
    (record,) = caplog.records
    assert "skipped 4 of 6 sentences" in record.message
    assert f"{path}:1: 1 columns" in record.message


def test_skip_invalid_finds_the_format_behind_an_invalid_sentence() -> None:
    text = CONLLX.read_text(encoding="utf-8")
    assert write(read("1\tw\n\n" + text, skip_invalid=True)) == text


def test_skip_invalid_with_nothing_left() -> None:
    with pytest.raises(ConllError, match=r"x:1: no root.*none of the 2 sentences"):
        read(block([1]) * 2, skip_invalid=True)


# Any input


forms = st.text(st.characters(codec="utf-8", exclude_characters="\t\n\r"), min_size=1)


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[str], list[int]]:
    """Draw words, and a tree by attaching them in a random order to what is in it already."""
    words = draw(st.lists(forms, min_size=1, max_size=12))
    heads = [0] * len(words)
    attached = [0]
    for word in draw(st.permutations(range(1, len(words) + 1))):
        heads[word - 1] = draw(st.sampled_from(attached))
        attached.append(word)
    return words, heads


@given(trees(), st.lists(st.from_regex(r"#[^\t\r\n]*", fullmatch=True).filter(str.isascii), max_size=2))
def test_any_tree_survives(tree: tuple[list[str], list[int]], comments: list[str]) -> None:
    words, heads = tree
    text = "".join(f"{line}\n" for line in comments) + Sentence.from_words(words).with_tree(heads, words)
    (sentence,) = read(text)
    assert (sentence.form, sentence.head, sentence.deprel) == (words, heads, words)
    assert write([sentence]) == text


@given(st.lists(st.integers(0, 7), min_size=1, max_size=7))
def test_heads_are_accepted_exactly_if_every_word_reaches_the_root(heads: list[int]) -> None:
    def reaches_root(word: int) -> bool:
        for _ in heads:
            word = heads[word - 1] if 0 < word <= len(heads) else word
        return word == 0

    if all(reaches_root(word) for word in range(1, len(heads) + 1)):
        assert read(block(list(heads)))[0].head == heads
    else:
        with pytest.raises(ConllError):
            read(block(list(heads)))


def assert_read_or_refused(data: bytes, trees: bool, skip_invalid: bool) -> None:
    """Read and write data, which may raise a ConllError and nothing else."""
    stream = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", errors="surrogateescape", newline="\n")
    with suppress(ConllError):
        for sentence in read_conll(stream, trees=trees, skip_invalid=skip_invalid):
            assert len(sentence.form) == len(sentence.head) == len(sentence.deprel) == len(sentence.word_line) > 0
            assert sentence.with_tree(sentence.head, sentence.deprel).encode().endswith(b"\n\n")


@given(st.binary(), st.booleans(), st.booleans())
def test_garbage_is_refused_politely(data: bytes, trees: bool, skip_invalid: bool) -> None:
    assert_read_or_refused(data, trees, skip_invalid)


@given(st.data(), st.booleans(), st.booleans())
def test_damaged_treebank_is_refused_politely(data: st.DataObject, trees: bool, skip_invalid: bool) -> None:
    lines = CONLLU.read_bytes().split(b"\n")
    for _ in range(data.draw(st.integers(1, 3))):
        line = data.draw(st.integers(0, len(lines) - 1))
        columns = lines[line].split(b"\t")
        column = data.draw(st.integers(0, len(columns) - 1))
        columns[column] = data.draw(st.sampled_from([b"", b"_", b"0", b"3", b"2-3", b"2.1", b"-1"]) | st.binary())
        lines[line] = b"\t".join(columns)
    assert_read_or_refused(b"\n".join(lines), trees, skip_invalid)


# A second reader


def assert_same_as_conllu(path: Path) -> None:
    with open(path, encoding="utf-8") as stream:
        for ours, theirs in zip(read_conll(path), conllu.parse_incr(stream), strict=True):
            words = [token for token in theirs if isinstance(token["id"], int)]
            assert ours.form == [word["form"] for word in words]
            assert ours.lemma == [word["lemma"] for word in words]
            assert ours.upos == [word["upos"] for word in words]
            assert ours.xpos == [word["xpos"] or "_" for word in words]
            assert ours.head == [word["head"] for word in words]
            assert ours.deprel == [word["deprel"] for word in words]
            comments = [line.removeprefix("# ") for line in ours.lines if line.startswith("#")]
            assert comments == [f"{key} = {value}" if value else key for key, value in theirs.metadata.items()]


def test_agrees_with_conllu() -> None:
    assert_same_as_conllu(CONLLU)


@pytest.mark.skipif(not TREEBANKS, reason="no treebanks: set ARBORA_TREEBANKS to their folder")
@pytest.mark.parametrize("path", TREEBANKS, ids=lambda path: path.parent.name)
def test_agrees_with_conllu_on_treebanks(path: Path) -> None:
    assert_same_as_conllu(path)


# Output


def test_output_appears_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "out.conllu"
    path.write_text("old")
    with open_output(path) as stream:
        stream.write("né\r\n")
        assert path.read_text() == "old"
    assert path.read_bytes() == "né\r\n".encode()
    assert list(tmp_path.iterdir()) == [path]


def test_output_is_left_as_it_was_on_error(tmp_path: Path) -> None:
    path = tmp_path / "out.conllu"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), open_output(path) as stream:
        stream.write(str(1 / 0))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("path", [None, "-"])
def test_output_to_standard_output(path: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    with open_output(path) as stream:
        stream.write("né\n")
    assert capsys.readouterr().out == "né\n"


def test_output_into_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="there is no folder"), open_output(tmp_path / "missing" / "out.conllu"):
        pass


def test_output_onto_a_folder(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError), open_output(tmp_path):
        pass


@pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="needs /dev/fd")
def test_output_into_a_pipe() -> None:
    reading, writing = os.pipe()
    with open_output(f"/dev/fd/{writing}") as stream:
        stream.write("né")
    os.close(writing)
    with open(reading, encoding="utf-8") as stream:
        assert stream.read() == "né"


def rows(*heads: str) -> io.StringIO:
    return io.StringIO("".join(f"{i}\tw\t_\t_\t_\t_\t{head}\tx\t_\t_\n" for i, head in enumerate(heads, 1)) + "\n")


def test_part_of_a_tree() -> None:
    (sentence,) = read_conll(rows("2", "_", "_", "3"), partial=True)
    assert sentence.head == [2, -1, -1, 3]
    with pytest.raises(ConllError, match="words 1, 2 form a cycle"):
        list(read_conll(rows("2", "1", "_"), partial=True))
    with pytest.raises(ConllError, match="2 roots"):
        list(read_conll(rows("0", "0", "_"), partial=True, single_root=True))
    with pytest.raises(ConllError, match="no root"):
        list(read_conll(rows("2", "3", "1"), partial=True))
    with pytest.raises(ConllError, match="word 2 has no head"):
        list(read_conll(rows("2", "_", "_")))
