import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from arbora.cli import main
from arbora.data.conll import read_conll
from arbora.decoders import MST, Eisner
from arbora.evaluation import non_projective_arcs

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
    assert "trained with upos" in capsys.readouterr().err


def test_raw_text_is_split_into_sentences(checkpoint: Path, tmp_path: Path) -> None:
    pytest.importorskip("syntok")
    (tmp_path / "text").write_text("A dog barked. It rained, didn't it?\n", encoding="utf-8")
    predict(checkpoint, tmp_path / "text", "--input", "raw", "-o", tmp_path / "out")
    assert [s.form[-1] for s in read_conll(tmp_path / "out")] == [".", "?"]


def test_a_sentence_is_drawn(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    predict(checkpoint, "--sentence", "The cat sat .")
    drawn = capsys.readouterr().out
    assert all(word in drawn for word in ("The", "cat", "sat", ".", "root"))


def test_bad_input_leaves_the_old_output_alone(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "in.conllu", tmp_path / "out.conllu"
    good = FIXTURE.read_text(encoding="utf-8")
    source.write_text(good + "1\tonly three\tcolumns\n\n" + good, encoding="utf-8")
    target.write_text("precious", encoding="utf-8")
    code, message = failure(capsys, checkpoint, source, "-o", target)
    assert code == 1
    assert f"in.conllu:{len(good.splitlines()) + 1}: " in message
    assert message.count("\n") == 1
    assert target.read_text(encoding="utf-8") == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.conllu", "out.conllu"]

    predict(checkpoint, source, "-o", target, "--skip-invalid")
    assert len(list(read_conll(target))) == 2 * len(list(read_conll(FIXTURE)))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["absent.conllu"], 1, "absent.conllu: No such file or directory"),
        ([FIXTURE, "-o", "absent/out.conllu"], 1, "absent"),
        ([FIXTURE, "--decoder", "Absent"], 2, "Absent"),
        ([FIXTURE, "--device", "nonsense"], 1, "--device nonsense"),
        ([FIXTURE, "--max-tokens", "0"], 1, "--max-tokens must be positive"),
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


def test_a_file_that_is_no_checkpoint(capsys: pytest.CaptureFixture[str]) -> None:
    code, message = failure(capsys, FIXTURE, FIXTURE)
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
    assert asked == [False, True]


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
        ("\n\n".join(sentences[1:]), "other.conllu:1: other words than .*dev.conllu:1"),
    ):
        other.write_text(changed, encoding="utf-8")
        with pytest.raises(SystemExit):
            main([*predict, "-o", str(alone), "--ensemble", str(other)])
        assert re.search(message, capsys.readouterr().err)
    for gamma in ("", "1,x", "nan", "1,2,3,4"):
        with pytest.raises(SystemExit):
            main([*predict, "-o", str(alone), "--ensemble", str(gold), "--ensemble.gamma", gamma])
        assert "one to three numbers" in capsys.readouterr().err
