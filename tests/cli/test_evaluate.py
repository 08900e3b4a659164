"""The command prints tables and JSON."""

import json
from pathlib import Path

import pytest

from arbora.cli import evaluate

GOLD = """\
1\tthe\tthe\tDET\t_\t_\t2\tdet\t_\t_
2\tman\tman\tNOUN\t_\t_\t0\troot\t_\t_
3\twho\twho\tPRON\t_\t_\t4\tnsubj\t_\t_
4\twaits\twait\tVERB\t_\t_\t2\tacl:relcl\t_\t_
"""


def run(*arguments: object) -> None:
    evaluate.main([str(argument) for argument in arguments])


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    gold, system = tmp_path / "gold.conllu", tmp_path / "system.conllu"
    gold.write_text(GOLD + "\n")
    system.write_text(GOLD.replace("acl:relcl", "acl").replace("2\tdet", "4\tdet") + "\n")
    return gold, system


def test_json(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    run(*files, "--json")
    figures = json.loads(capsys.readouterr().out)
    assert (figures["uas"], figures["las"], figures["las_full"]) == (75, 75, 50)


def test_tables_fit_eighty_columns(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    run(*files)
    output = capsys.readouterr().out
    assert "75.00" in output
    assert "LAS (full labels)" in output
    assert max(map(len, output.splitlines())) <= 80


def test_full_labels_only_where_they_differ(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    run(files[0], files[0])
    assert "LAS (full labels)" not in capsys.readouterr().out


def test_other_words(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    files[1].write_text(GOLD.replace("2\tman", "2\tm", 1).replace("3\twho", "3\tanwho", 1) + "\n")
    run(*files)
    output = capsys.readouterr().out
    assert output.split()[:4] == ["F1", "precision", "recall", "Tokens"]
    assert output.split()[4:7] == ["50.00"] * 3
    assert "non-projective" not in output
    run(*files, "--json")
    assert list(json.loads(capsys.readouterr().out)) == ["aligned"]


def test_format(files: tuple[Path, Path]) -> None:
    with pytest.raises(SystemExit):
        run(*files, "--format", "xml")


def test_missing_file(files: tuple[Path, Path]) -> None:
    with pytest.raises(FileNotFoundError):
        run(files[0], files[0].with_name("missing.conllu"))
