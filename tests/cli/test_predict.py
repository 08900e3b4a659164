import gzip
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arbora.cli import main
from arbora.cli.progress import Reading, progress_text
from arbora.data.conll import Unparsed, conll_entries, read_conll
from arbora.decoders import MST, Eisner
from arbora.evaluation import non_projective_arcs
from arbora.model.inference import stream
from arbora.model.loading import load_network
from arbora.model.parser import Parser

ROOT = Path(__file__).parents[2]
FIXTURE = ROOT / "tests" / "fixtures" / "treebank.conllu"
CONLLX = ROOT / "tests" / "fixtures" / "treebank.conllx"


def predict(*arguments: str | Path) -> None:
    main(["predict", *map(str, arguments)])


def failure(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[object, str]:
    with pytest.raises(SystemExit) as stopped:
        predict(*arguments)
    return stopped.value.code, capsys.readouterr().err


def columns_but_the_tree(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    words = [line.split("\t") for line in lines]
    return ["\t".join(c[:6] + c[8:]) if len(c) > 1 and c[0].isdigit() else line for c, line in zip(words, lines)]


@pytest.mark.parametrize("source", [FIXTURE, CONLLX])
def test_only_heads_and_labels_change(checkpoint: Path, tmp_path: Path, source: Path) -> None:
    target = tmp_path / "out"
    predict(checkpoint, source, "-o", target)
    assert columns_but_the_tree(target) == columns_but_the_tree(source)
    parsed = list(read_conll(target, single_root=True))
    assert [s.head for s in parsed] != [s.head for s in read_conll(source)]


def test_arguments_come_in_any_order(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("A dog barked .\n", encoding="utf-8")
    written = []
    for order in (
        ["text", "-o", "out", "--input", "text", "--quiet"],
        ["-o", "out", "--input=text", "text", "--quiet"],
        ["--quiet", "--input", "text", "text", "-o", "out"],
    ):
        predict(
            checkpoint,
            *(
                tmp_path / word if word in ("text", "out") and order[i - 1] != "--input" else word
                for i, word in enumerate(order)
            ),
        )
        written.append((tmp_path / "out").read_text(encoding="utf-8"))
        (tmp_path / "out").unlink()
    assert len(set(written)) == 1


def test_several_files_and_standard_input(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    predict(checkpoint, FIXTURE, FIXTURE, "--quiet")
    twice = capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.StringIO(FIXTURE.read_text(encoding="utf-8")))
    predict(checkpoint, "--quiet")
    printed = capsys.readouterr()
    assert printed.out * 2 == twice
    assert printed.err == ""


def test_the_decoder_can_be_another(checkpoint: Path, tmp_path: Path) -> None:
    examples = ROOT / "examples" / "treebank" / "dev.conllu"
    crossing = {}
    for name in ("MST", "Eisner"):
        predict(checkpoint, examples, "-o", tmp_path / name, "--decoder", name)
        crossing[name] = sum(
            non_projective_arcs(np.array(s.head), np.array([len(s)])).sum()
            for s in read_conll(tmp_path / name, single_root=True)
        )
    assert crossing["MST"] > crossing["Eisner"] == 0


def test_text_is_split_at_blanks(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("A  dog barked .\n\nIt rained\n", encoding="utf-8")
    predict(checkpoint, tmp_path / "text", "--input", "text", "-o", tmp_path / "out")
    assert [s.form for s in read_conll(tmp_path / "out")] == [["A", "dog", "barked", "."], ["It", "rained"]]
    assert "text:1: columns that this parser reads are empty: UPOS for 100 % of the words" in capsys.readouterr().err


def test_missing_tags_are_named_or_refused(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    untagged = re.sub(r"(?m)^(\d+\t[^\t]*\t[^\t]*)\t[^\t]*", r"\1\t_", FIXTURE.read_text(encoding="utf-8"))
    (tmp_path / "in").write_text(untagged, encoding="utf-8")
    predict(checkpoint, tmp_path / "in", "-o", tmp_path / "out", "--quiet")
    warning = capsys.readouterr().err
    assert warning.count("UPOS for 100 % of the words") == 1
    predict(checkpoint, FIXTURE, "-o", tmp_path / "tagged", "--strict")
    assert "are empty" not in capsys.readouterr().err
    for arguments in ([tmp_path / "in", "-o", tmp_path / "refused"], ["--sentence", "A dog ."]):
        code, message = failure(capsys, checkpoint, *arguments, "--strict")
        assert code == 1
        assert "UPOS for 100 % of the words; tag the text first" in message
    assert not (tmp_path / "refused").exists()


def test_raw_text_is_split_into_sentences(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("A dog barked. It rained, didn't it?\n", encoding="utf-8")
    predict(checkpoint, tmp_path / "text", "--input", "raw", "-o", tmp_path / "out")
    assert [s.form[-1] for s in read_conll(tmp_path / "out")] == [".", "?"]


def test_predictions_from_raw_text_are_valid(tagger: Path, tmp_path: Path) -> None:
    from udtools import Validator

    (tmp_path / "one").write_text("A dog barked.  It rained.\n\nHe left.\n", encoding="utf-8")
    (tmp_path / "two").write_text("It rained.", encoding="utf-8")
    predict(tagger, tmp_path / "one", tmp_path / "two", "--input", "raw", "-o", tmp_path / "out")
    sentences = list(read_conll(tmp_path / "out"))
    assert sum("# newpar" in sentence.lines for sentence in sentences) == 3
    state = Validator(lang="ud", level=2, max_store=10).validate_files([str(tmp_path / "out")])
    assert state.passed(), str(state)


def test_a_sentence_is_drawn(checkpoint: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    predict(checkpoint, "--sentence", "The cat sat .")
    drawn = capsys.readouterr().out
    predict(checkpoint, "--sentence", "The cat sat .", "-o", tmp_path / "out")
    assert (tmp_path / "out").read_text(encoding="utf-8") == drawn
    assert all(word in drawn for word in ("The", "cat", "sat", ".", "root"))


def spoilt(path: Path) -> tuple[Path, int]:
    """A file with a malformed sentence between good ones, and where it is."""
    good = FIXTURE.read_text(encoding="utf-8")
    path.write_text(good + "1\tonly three\tcolumns\n\n" + good, encoding="utf-8")
    return path, len(good.splitlines()) + 1


def test_bad_input_leaves_the_old_output_alone(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (source, line), target = spoilt(tmp_path / "in.conllu"), tmp_path / "out.conllu"
    target.write_text("precious", encoding="utf-8")
    code, message = failure(capsys, checkpoint, source, "-o", target, "--on-error", "stop")
    assert code == 1
    assert f"in.conllu:{line}: " in message
    assert message.count("\n") == 1
    assert target.read_text(encoding="utf-8") == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.conllu", "out.conllu"]


@pytest.mark.parametrize("on_error", ["copy", "skip"])
def test_a_bad_sentence_does_not_lose_the_rest(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], on_error: str
) -> None:
    (source, line), target = spoilt(tmp_path / "in.conllu"), tmp_path / "out.conllu"
    predict(checkpoint, FIXTURE, "-o", tmp_path / "good")
    capsys.readouterr()
    code, message = failure(capsys, checkpoint, source, "-o", target, "--quiet", "--on-error", on_error)
    assert code == 1
    assert f"in.conllu:{line}: 3 columns" in message
    assert message.count("\n") == 2
    good = (tmp_path / "good").read_text(encoding="utf-8")
    between = "1\tonly three\tcolumns\n\n" if on_error == "copy" else ""
    assert target.read_text(encoding="utf-8") == good + between + good


def test_bytes_that_are_not_utf8_are_copied(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = b"1\ta\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
    bad = good.replace(b"a", b"\xff\xe9")
    (tmp_path / "in").write_bytes(good + bad + good)
    code, message = failure(capsys, checkpoint, tmp_path / "in", "-o", tmp_path / "out")
    assert code == 1
    assert "in:3: byte 0xff is not UTF-8" in message
    assert (tmp_path / "out").read_bytes().split(b"\n\n")[1] + b"\n\n" == bad
    for kind, text in (("text", b"a b\nc \xff\nd\n"), ("raw", b"A b.\n\nc \xff\n\nD.\n")):
        (tmp_path / "in").write_bytes(text)
        code, message = failure(capsys, checkpoint, tmp_path / "in", "-o", tmp_path / "out", "--input", kind)
        assert code == 1
        assert "byte 0xff is not UTF-8" in message
        assert b"2\t\xff\t_\t_\t_\t_\t_\t_\t_\t_\n\n" in (tmp_path / "out").read_bytes()


def test_an_empty_file_does_not_lose_the_others(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").write_text("\n", encoding="utf-8")
    predict(checkpoint, FIXTURE, FIXTURE, "-o", tmp_path / "twice")
    capsys.readouterr()
    code, message = failure(capsys, checkpoint, FIXTURE, tmp_path / "empty", FIXTURE, "-o", tmp_path / "out")
    assert code == 1
    assert "empty:1: the file is empty" in message
    assert (tmp_path / "out").read_text(encoding="utf-8") == (tmp_path / "twice").read_text(encoding="utf-8")
    code, message = failure(capsys, checkpoint, tmp_path / "empty", "-o", tmp_path / "none")
    assert (code, message.count("\n")) == (1, 1)
    assert not (tmp_path / "none").exists()


def test_many_bad_sentences_are_not_all_shown(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").write_text("1\tx\n\n" * 100 + FIXTURE.read_text(encoding="utf-8"), encoding="utf-8")
    code, message = failure(capsys, checkpoint, tmp_path / "in", "-o", tmp_path / "out")
    assert code == 1
    assert message.count("2 columns") == 20
    assert "100 sentences could not be parsed" in message


def test_a_file_without_a_valid_sentence_is_copied_as_it_says(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").write_text("Plain text .\n\nMore of it .\n", encoding="utf-8")
    code, message = failure(capsys, checkpoint, tmp_path / "in", "-o", tmp_path / "out")
    assert code == 1
    assert "in:1: spaces where tabs are expected" in message
    assert "none of the 2 sentences could be parsed; they were copied unchanged" in message
    assert (tmp_path / "out").read_text() == "Plain text .\n\nMore of it .\n\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_scores_that_are_not_numbers(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_network(checkpoint)
    monkeypatch.setattr("arbora.cli.predict.load", lambda *arguments: Parser(model, model.decoder))
    source = tmp_path / "in"
    source.write_text("A dog barked .\nThe clock stood .\nIt rained .\n", encoding="utf-8")
    word = model.vocabulary.index["words"]["clock"]
    model.encoder.input.columns["words"].weight.data[word] = torch.nan  # type: ignore[union-attr, index]
    code, message = failure(capsys, checkpoint, source, "-o", tmp_path / "out", "--input", "text", "--quiet")
    assert code == 1
    assert re.search(r"in:2: .*nan.* \(copied unchanged\)", message)
    heads = [sentence.head for sentence in read_conll(tmp_path / "out", trees=False)]
    assert heads[1] == [-1] * 4
    assert min(*heads[0], *heads[2]) == 0
    model.arc.weight.data.fill_(torch.nan)
    code, message = failure(capsys, checkpoint, source, "--input", "text")
    assert (code, message.count("\n")) == (1, 1)
    assert "this parser does not work" in message


def test_confidence_and_scores(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain, full = tmp_path / "plain", tmp_path / "full"
    predict(checkpoint, FIXTURE, "-o", plain)
    predict(checkpoint, FIXTURE, "-o", full, "--confidence", "--scores")
    text = full.read_text(encoding="utf-8")
    words = sum(len(sentence) for sentence in read_conll(FIXTURE))
    probabilities = [float(number) for number in re.findall(r"(?:Arc|Label)Prob=([0-9.]+)", text)]
    assert len(probabilities) == 2 * words
    assert all(0 < number <= 1 for number in probabilities)
    assert len(re.findall(r"^# arbora_score = -?\d+\.\d+\n# arbora_certified = true$", text, re.M)) == 5
    bare = re.sub(r"^# arbora_.*\n", "", re.sub(r"\|?ArcProb=[0-9.]+\|LabelProb=[0-9.]+", "", text), flags=re.M)
    assert re.sub(r"\t$", "\t_", bare, flags=re.M) == plain.read_text(encoding="utf-8")
    predict(checkpoint, full, "-o", tmp_path / "again", "--confidence", "--scores")
    assert (tmp_path / "again").read_text(encoding="utf-8") == text
    capsys.readouterr()
    for arguments, message in (([CONLLX, "--scores"], "CoNLL-X"), ([FIXTURE, "--draw", "--confidence"], "--draw")):
        assert message in failure(capsys, checkpoint, *arguments)[1]


def test_a_long_sentence_is_named(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").write_text("a b\n" + "c " * 9 + "\n", encoding="utf-8")
    predict(checkpoint, tmp_path / "in", "--input", "text", "-o", tmp_path / "out", "--max-length", "8", "--quiet")
    message = capsys.readouterr().err
    assert "in:2: 9 words, more than 8" in message
    assert message.count("\n") == 2  # the other is about the missing tags
    assert [len(sentence) for sentence in read_conll(tmp_path / "out", single_root=True)] == [2, 9]


@pytest.fixture
def long_file(tmp_path: Path) -> Path:
    path = tmp_path / "long.conllu"
    examples = (ROOT / "examples" / "treebank" / "dev.conllu").read_text(encoding="utf-8").split("\n\n")[:80]
    path.write_text(("\n\n".join(examples) + "\n\n1\tbroken\n\n") * 3, encoding="utf-8")
    return path


SMALL_WINDOWS = ["--max-tokens", "120", "--confidence", "--scores", "--quiet"]
RUN = """
import random, sys, time
import arbora.cli.predict, arbora.model.inference.stream
arbora.model.inference.stream.WINDOW = 1
mark = arbora.data.partial._Partial.mark
def slow(*arguments):
    mark(*arguments)
    time.sleep(random.random() / 10)
arbora.data.partial._Partial.mark = slow
arbora.cli.main(sys.argv[1:])
"""


def test_a_killed_run_goes_on(
    checkpoint: Path,
    long_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "WINDOW", 1)
    undisturbed, target = tmp_path / "undisturbed", tmp_path / "out"
    assert failure(capsys, checkpoint, long_file, "-o", undisturbed, *SMALL_WINDOWS)[0] == 1
    journal = tmp_path / "out.partial.json"
    sizes = [0]
    for resume in ([], ["--resume"]):
        command = ["predict", str(checkpoint), str(long_file), "-o", str(target), *SMALL_WINDOWS, *resume]
        run = subprocess.Popen([sys.executable, "-c", RUN, *command], stderr=subprocess.DEVNULL)
        while run.poll() is None and (not journal.exists() or done(journal) <= sizes[-1]):
            time.sleep(0.01)
        time.sleep(random.random() / 2)
        run.kill()
        assert run.wait() == -signal.SIGKILL
        assert not target.exists()
        sizes.append(done(journal))
    assert sizes[0] < sizes[1] < sizes[2] < len(undisturbed.read_bytes())

    parsed = []
    decode = MST.__call__
    monkeypatch.setattr(MST, "__call__", lambda self, parts: parsed.extend(parts.lengths) or decode(self, parts))
    code, message = failure(capsys, checkpoint, long_file, "-o", target, *SMALL_WINDOWS, "--resume")
    assert code == 1
    assert "3 sentences could not be parsed" in message
    assert target.read_bytes() == undisturbed.read_bytes()
    words = sum(line[:1].isdigit() and line.count("\t") == 9 for line in long_file.read_text().splitlines())
    assert 1 < sum(parsed) < words
    assert sorted(path.name for path in tmp_path.iterdir()) == ["long.conllu", "out", "undisturbed"]


def done(journal: Path) -> int:
    return int(json.loads(journal.read_text(encoding="utf-8"))["done"]["size"])


@pytest.fixture
def interrupted(
    checkpoint: Path,
    long_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """Output of a run that was stopped in the middle."""
    monkeypatch.setattr(stream, "WINDOW", 1)
    target = tmp_path / "out"
    code, message = failure(capsys, checkpoint, long_file, "-o", target, *SMALL_WINDOWS, "--on-error", "stop")
    assert code == 1
    assert "--resume continues" in message
    assert (tmp_path / "out.partial").exists()
    return target


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("input", "the input is not that of the interrupted run"),
        ("shorter", "the input is not that of the interrupted run"),
        ("model", "had another model"),
        ("decoder", "had another decoder"),
        ("setting", "had another --max-length"),
        ("partial", "was changed"),
        ("truncated", "was changed"),
        ("journal", "is not a journal"),
    ],
)
def test_another_run_is_not_gone_on_with(
    checkpoint: Path,
    long_file: Path,
    interrupted: Path,
    capsys: pytest.CaptureFixture[str],
    change: str,
    message: str,
    tmp_path: Path,
) -> None:
    arguments: list[str | Path] = [long_file, "-o", interrupted, *SMALL_WINDOWS, "--on-error", "stop", "--resume"]
    partial, model = tmp_path / "out.partial", checkpoint
    text = long_file.read_text(encoding="utf-8")
    if change == "input":
        long_file.write_text(text.replace("\tdog\t", "\thound\t"), encoding="utf-8")
    elif change == "shorter":
        long_file.write_text(text[: text.index("\n\n") + 2], encoding="utf-8")
    elif change == "model":
        model = tmp_path / "other.ckpt"
        contents = torch.load(checkpoint, weights_only=True)
        contents["state_dict"]["arc.weight"] += 1
        torch.save(contents, model)
    elif change == "decoder":
        arguments += ["--decoder", "Eisner"]
    elif change == "setting":
        arguments += ["--max-length", "7"]
    elif change == "partial":
        partial.write_bytes(b"x" + partial.read_bytes()[1:])
    elif change == "truncated":
        partial.write_bytes(partial.read_bytes()[:10])
    else:
        (tmp_path / "out.partial.json").write_text("{", encoding="utf-8")
    before = partial.read_bytes()
    code, printed = failure(capsys, model, *arguments)
    assert code == 1
    assert message in printed
    assert printed.startswith("arbora predict: cannot resume")
    assert printed.count("\n") == 1
    assert before.startswith(partial.read_bytes())
    assert len(partial.read_bytes()) > 5


def test_a_mended_input_is_gone_on_with(
    checkpoint: Path, long_file: Path, interrupted: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    mended = long_file.read_text(encoding="utf-8").replace("1\tbroken\n", "1\tmended" + "\t_" * 8 + "\n")
    long_file.write_text(mended, encoding="utf-8")
    predict(checkpoint, long_file, "-o", interrupted, *SMALL_WINDOWS, "--on-error", "stop", "--resume")
    predict(checkpoint, long_file, "-o", tmp_path / "anew", *SMALL_WINDOWS)
    assert interrupted.read_text(encoding="utf-8") == (tmp_path / "anew").read_text(encoding="utf-8")


def test_resuming_nothing_starts_anew(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], long_file: Path, interrupted: Path
) -> None:
    predict(checkpoint, FIXTURE, "-o", tmp_path / "other", "--resume")
    predict(checkpoint, FIXTURE, "-o", interrupted)  # without --resume, nothing is gone on with
    assert interrupted.read_text(encoding="utf-8") == (tmp_path / "other").read_text(encoding="utf-8")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["long.conllu", "other", "out"]
    for output in ([], ["-o", "-"], ["-o", "/dev/null"]):
        assert "--resume needs the output file" in failure(capsys, checkpoint, FIXTURE, *output, "--resume")[1]


def test_what_was_read_before_the_input_broke_is_kept(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "WINDOW", 1)
    examples = (ROOT / "examples" / "treebank" / "dev.conllu").read_bytes()
    packed = gzip.compress(examples)
    source, target = tmp_path / "in.conllu.gz", tmp_path / "out"
    source.write_bytes(packed[: len(packed) // 2])
    code, message = failure(capsys, checkpoint, source, "-o", target, *SMALL_WINDOWS)
    assert code == 1
    assert "damaged file" in message
    source.write_bytes(packed)
    predict(checkpoint, source, "-o", target, *SMALL_WINDOWS, "--resume")
    predict(checkpoint, ROOT / "examples" / "treebank" / "dev.conllu", "-o", tmp_path / "whole", *SMALL_WINDOWS)
    assert target.read_bytes() == (tmp_path / "whole").read_bytes()


def test_pipes(checkpoint: Path) -> None:
    command = [sys.executable, "-m", "arbora.cli", "predict", str(checkpoint), "-", "--input", "text"]
    run = subprocess.run(command, input="Ein Hündchen bellte .\nJa !\n".encode(), capture_output=True, check=True)
    found = list(read_conll(io.StringIO(run.stdout.decode()), single_root=True))
    assert [sentence.form for sentence in found] == [["Ein", "Hündchen", "bellte", "."], ["Ja", "!"]]
    assert b"parsed 2 sentences, 6 words" in run.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((0, 0, 0.0, None), "0 words, 0 words/s"),
        ((5000, 5000, 2.0, None), "5,000 words, 2,500 words/s"),
        ((5000, 4000, 2.0, 15000.0), "5,000 words, 2,000 words/s, 0:00:05 left"),
        ((1, 1, 1.0, 7262.0), "1 words, 1 words/s, 2:01:01 left"),
        ((9, 9, 1.0, 7.0), "9 words, 9 words/s, 0:00:00 left"),
    ],
)
def test_progress(arguments: tuple[int, int, float, float | None], expected: str) -> None:
    assert progress_text(*arguments) == expected


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_words_in_all_are_estimated(tmp_path: Path, suffix: str) -> None:
    examples = (ROOT / "examples" / "treebank" / "dev.conllu").read_bytes()
    path = tmp_path / f"in{suffix}"
    path.write_bytes(gzip.compress(examples * 9) if suffix else examples * 9)
    reading = Reading([str(path), str(path)], conll_entries)
    words = 0
    for number, entry in enumerate(reading):
        words += len(entry)
        if number == 1500:
            half = reading.words_in_all()
    assert half is not None
    assert reading.words_in_all() == pytest.approx(words, rel=0.01)
    if not suffix:
        assert half == pytest.approx(words, rel=0.2)


def lines_of_conllu() -> st.SearchStrategy[bytes]:
    column = st.sampled_from(
        ["_", "", "a", "0", "1", "2", "3", "1-2", "1.1", "0.1", "x=y|z", "²", "\u2028", "\ufeff", "é"]
    )
    row = st.lists(column, min_size=1, max_size=11).map("\t".join)
    word = st.builds(lambda i, form, head: f"{i}\t{form}\t_\t_\t_\t_\t{head}\t_\t_\t_", *(3 * [column]))
    text = st.text(st.characters(codec="utf-8"), max_size=8)
    line = (row | word | word | st.just("") | text.map("# {}".format) | text).map(str.encode)
    end = st.sampled_from([b"\n", b"\n", b"\r\n", b"\n\n"])
    return st.lists(st.tuples(line | st.binary(max_size=6), end).map(b"".join), max_size=25).map(b"".join)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=lines_of_conllu(),
    good=st.booleans(),
    kind=st.sampled_from(["auto", "conllu", "conllx", "text", "raw"]),
    on_error=st.sampled_from(["copy", "skip", "stop"]),
)
def test_no_file_makes_it_crash(
    checkpoint: Path, tmp_path_factory: pytest.TempPathFactory, data: bytes, good: bool, kind: str, on_error: str
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    data += b"\n\n" + FIXTURE.read_bytes() if good else b""
    (folder / "in").write_bytes(data)
    code: object = 0
    try:
        predict(checkpoint, folder / "in", "-o", folder / "out", "--input", kind, "--on-error", on_error)
    except SystemExit as stopped:
        code = stopped.code
    assert code in (0, 1)
    if on_error == "copy" and kind in ("auto", "conllu") and good:
        written = list(conll_entries(folder / "out", trees=False))
        assert len(written) == len(list(conll_entries(folder / "in", trees=False)))
        assert code == int(any(isinstance(entry, Unparsed) for entry in written))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["absent.conllu"], 1, "absent.conllu: No such file or directory"),
        ([FIXTURE, "-o", "absent/out.conllu"], 1, "absent"),
        ([FIXTURE, "--decoder", "Absent"], 1, "unknown decoder Absent; choose from ad3"),
        ([FIXTURE, "--device", "nonsense"], 1, "device nonsense"),
        ([FIXTURE, "--max-tokens", "0"], 1, "--max-tokens must be positive"),
        ([FIXTURE, "--max-length", "0"], 1, "--max-length must be positive"),
        ([FIXTURE, "absent.conllu"], 1, "absent.conllu: No such file or directory"),
        ([FIXTURE, "--on-error", "panic"], 2, "panic"),
        (["--sentence", " "], 1, "no words"),
        ([FIXTURE, "--sentence", "a b"], 1, "either files or --sentence"),
    ],
)
def test_mistakes_end_in_a_message(
    checkpoint: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    found, printed = failure(capsys, checkpoint, *arguments)
    assert found == code
    assert message in printed
    assert "Traceback" not in printed


def test_a_file_that_is_no_checkpoint(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "broken.ckpt").write_bytes(FIXTURE.read_bytes())
    code, message = failure(capsys, tmp_path / "broken.ckpt", FIXTURE)
    assert code == 1
    assert message.startswith("arbora predict: ")
    assert "not a checkpoint" in message


@pytest.mark.parametrize(("arguments", "code"), [([], 2), (["--help"], 0), (["fly"], 2)])
def test_the_command_itself(arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    printed = capsys.readouterr()
    assert stopped.value.code == code
    assert "predict" in printed.out + printed.err


def test_settings_of_the_decoder(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(MST, "__call__", lambda self, parts: asked.append(self.single_root) or Eisner()(parts))
    for value in ("false", "true"):
        predict(checkpoint, FIXTURE, "-o", tmp_path / "out", "--decoder=MST", f"--decoder.single_root={value}")
    assert asked == [False, False, True, True]  # each of them on one word first


def test_an_ensemble_leans_towards_the_other_trees(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gold = ROOT / "examples" / "treebank" / "dev.conllu"
    alone, weak, strong = (tmp_path / f"{name}.conllu" for name in ("alone", "weak", "strong"))
    predict = ["predict", str(checkpoint), str(gold), "--quiet"]
    main([*predict, "-o", str(alone)])
    main([*predict, "-o", str(weak), "--ensemble", str(gold), "--ensemble.gamma", "0"])
    main([*predict, "-o", str(strong), "--ensemble", str(gold), "--ensemble.gamma", "1000"])
    assert weak.read_text() == alone.read_text()
    heads = [[sentence.head for sentence in read_conll(file)] for file in (gold, strong)]
    assert heads[0] == heads[1]

    capsys.readouterr()
    sentences = gold.read_text(encoding="utf-8").split("\n\n")
    other = tmp_path / "other.conllu"
    for changed, message in (
        ("\n\n".join(sentences[:3]) + "\n\n", "dev.conllu:.*fewer sentences"),
        ("\n\n".join([*sentences[:-1], *sentences]), "other.conllu:.*more sentences"),
        ("\n\n".join(sentences[1:]), "other.conllu:1: the words differ from those at .*dev.conllu:1"),
    ):
        other.write_text(changed, encoding="utf-8")
        with pytest.raises(SystemExit):
            main([*predict, "-o", str(alone), "--ensemble", str(other)])
        assert re.search(message, capsys.readouterr().err)
    for gamma in ("", "1,x", "nan", "1,2,3,4"):
        with pytest.raises(SystemExit):
            main([*predict, "-o", str(alone), "--ensemble", str(gold), "--ensemble.gamma", gamma])
        assert "one to three numbers" in capsys.readouterr().err


def test_closed_standard_streams_end_in_one_line(checkpoint: Path) -> None:
    for redirection, message in (("<&-", "standard input is closed"), (f"{FIXTURE} >&-", "standard output is closed")):
        command = f"{sys.executable} -m arbora.cli predict {checkpoint} {redirection}"
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
        assert done.returncode == 1
        assert message in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("policy", ["fill", "replace", "keep"])
def test_tags_are_filled_in_replaced_or_kept(tagger: Path, tmp_path: Path, policy: str) -> None:
    text = FIXTURE.read_text(encoding="utf-8")
    blind = tmp_path / "blind.conllu"
    blind.write_text(re.sub(r"(?m)^(\d+\t[^\t]+)(\t[^\t]+){4}\t", r"\1\t_\t_\t_\t_\t", text), encoding="utf-8")
    found = {}
    for source in (FIXTURE, blind):
        predict(tagger, source, "--tags", policy, "-o", tmp_path / "out", "--quiet")
        columns = [(s.lemma, s.upos, s.xpos, s.feats) for s in read_conll(tmp_path / "out")]
        found[source] = columns
        assert [s.form for s in read_conll(tmp_path / "out")] == [s.form for s in read_conll(FIXTURE)]
    gold = [(s.lemma, s.upos, s.xpos, s.feats) for s in read_conll(FIXTURE)]
    empty = [tuple(["_"] * len(s) for _ in range(4)) for s in read_conll(FIXTURE)]
    if policy == "keep":
        assert found == {FIXTURE: gold, blind: empty}
    elif policy == "replace":
        assert found[FIXTURE] == found[blind] != empty
    else:
        assert "_" not in found[blind][0][1]
        lemmas = [(old, new) for o, n in zip(gold, found[FIXTURE]) for old, new in zip(o[0] + o[1], n[0] + n[1])]
        assert all(old in (new, "_") for old, new in lemmas)


def test_tags_of_a_parser_without_taggers_cannot_be_replaced(
    checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, message = failure(capsys, checkpoint, FIXTURE, "--tags", "replace")
    assert "predicts no tags; train it with --model.taggers" in message


def test_confidence_covers_tags(tagger: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("A dog barked .\n", encoding="utf-8")
    predict(tagger, tmp_path / "text", "--input", "text", "--confidence", "-o", tmp_path / "out", "--quiet")
    misc = (tmp_path / "out").read_text(encoding="utf-8").splitlines()[0].split("\t")[9]
    assert re.fullmatch(
        r"ArcProb=\S+\|LabelProb=\S+\|UposProb=\S+\|XposProb=\S+\|FeatsProb=\S+\|LemmaProb=0\.\d+", misc
    )


def half_annotated(path: Path) -> Path:
    """The fixture without every other head and label."""
    lines = FIXTURE.read_text(encoding="utf-8").splitlines()
    for i, line in enumerate(lines):
        columns = line.split("\t")
        if columns[0].isdigit() and int(columns[0]) % 2:
            lines[i] = "\t".join([*columns[:6], "_", "_", *columns[8:]])
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_keep_heads(checkpoint: Path, tmp_path: Path) -> None:
    source, target = half_annotated(tmp_path / "half.conllu"), tmp_path / "out.conllu"
    predict(checkpoint, source, "-o", target, "--keep", "heads", "--decoder=MST", "--decoder.single_root=false")
    for known, parsed in zip(read_conll(source, trees=False), read_conll(target), strict=True):
        assert "_" not in parsed.deprel
        for word, (head, label) in enumerate(zip(known.head, known.deprel)):
            assert word % 2 == 0 or (head, label) == (parsed.head[word], parsed.deprel[word])


def test_a_contradiction_is_reported_and_the_rest_goes_on(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def sentence(*heads: str) -> str:
        return "\n".join(f"{i}\tw\t_\t_\t_\t_\t{head}\t_\t_\t_" for i, head in enumerate(heads, 1)) + "\n\n"

    source, target = tmp_path / "in.conllu", tmp_path / "out.conllu"
    source.write_text(sentence("_", "1", "_") + sentence("2", "1", "_") + sentence("_", "_"), encoding="utf-8")
    code, err = failure(capsys, checkpoint, source, "-o", target, "--keep", "heads")
    assert code == 1
    assert "in.conllu:5: the heads given to words 1, 2 make a cycle; give one of them another head (copied" in err
    parsed = list(read_conll(target, trees=False))
    assert parsed[1].head == [2, 1, -1]
    assert parsed[0].head[1] == 1
    assert -1 not in parsed[0].head + parsed[2].head


def test_k_best(checkpoint: Path, tmp_path: Path) -> None:
    from udtools.validator import Validator

    target = tmp_path / "out.conllu"
    predict(checkpoint, ROOT / "examples" / "treebank" / "dev.conllu", "-o", target, "--k-best", "3")
    text = target.read_text(encoding="utf-8")
    ids = re.findall(r"^# sent_id = (\S+)$", text, re.MULTILINE)
    assert len(set(ids)) == len(ids)
    assert ids[:3] == [ids[0], f"{ids[0]}/2", f"{ids[0]}/3"]
    assert re.findall(r"^# arbora_rank = (\d)$", text, re.MULTILINE)[:4] == ["1", "2", "3", "1"]
    probabilities = [float(value) for value in re.findall(r"^# arbora_probability = (\S+)$", text, re.MULTILINE)]
    assert sum(probabilities[:3]) == pytest.approx(1, abs=1e-3)
    trees = list(read_conll(target, single_root=True))
    assert len({tuple(tree.head) for tree in trees[:3]}) == 3
    state = Validator(lang="ud", level=2).validate_files([str(target)])
    assert state.passed(), str(state)


def test_documents_begin_once(checkpoint: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = tmp_path / "in.conllu"
    source.write_text("# newdoc id = d\n# sent_id = s\n1\tA\t_\t_\t_\t_\t_\t_\t_\t_\n2\tdog" + "\t_" * 8 + "\n\n")
    predict(checkpoint, source, "--k-best", "5", "--scores", "--quiet")
    out = capsys.readouterr().out
    assert out.count("newdoc") == 1
    assert re.findall(r"# sent_id = (\S+)", out) == ["s", "s/2"]  # two words have two trees with one root
    assert out.count("arbora_certified = true") == 2


def test_k_best_drawn(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    predict(checkpoint, "--sentence", "A dog barked .", "--k-best", "2")
    first, second = capsys.readouterr().out.split("# rank 2")
    assert "# rank 1 · score" in first
    assert "*" not in first
    assert "*" in second


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--k-best", "0"], "--k-best must be positive, got 0"),
        (["--keep", "heads", "--ensemble", "x"], "give one of them"),
        ([CONLLX, "--k-best", "2"], "need CoNLL-U"),
        (["--unique", "nosuch"], "no label nosuch"),
    ],
)
def test_wrong_wishes(
    checkpoint: Path, capsys: pytest.CaptureFixture[str], options: list[str | Path], message: str
) -> None:
    files = [] if isinstance(options[0], Path) else [FIXTURE]
    _, err = failure(capsys, checkpoint, *files, *options)
    assert message in err


def test_text_in_a_file_named_txt_is_recognised(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, conll = tmp_path / "in.txt", tmp_path / "conll.txt"
    text.write_text("A dog barked .\nIt rained .\n", encoding="utf-8")
    predict(checkpoint, text, "-o", tmp_path / "out.conllu")
    assert f"{text} is not CoNLL; it is read as" in capsys.readouterr().err
    assert [s.form[-1] for s in read_conll(tmp_path / "out.conllu")] == [".", "."]
    conll.write_bytes(FIXTURE.read_bytes())
    predict(checkpoint, conll, "-o", tmp_path / "same.conllu")
    assert "is not CoNLL" not in capsys.readouterr().err
    assert len(list(read_conll(tmp_path / "same.conllu"))) == len(list(read_conll(FIXTURE)))


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals")
def test_a_terminal_is_answered_line_by_line(checkpoint: Path) -> None:
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "arbora.cli", "predict", str(checkpoint), "--input", "text"]
    with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        os.close(theirs)
        os.write(ours, b"A dog barked .\n\n")
        assert process.stdout is not None
        drawn = ""
        while "barked" not in drawn:  # the answer comes before the input ends
            drawn += process.stdout.readline()
        os.write(ours, b"It rained .\n\x04")
        rest, said = process.communicate()
        os.close(ours)
    assert process.returncode == 0
    assert "rained" in rest
    assert "type one sentence per line, words separated by spaces; Ctrl-D ends" in said
