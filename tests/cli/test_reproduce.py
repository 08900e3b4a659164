import json
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from arbora.cli import main, train
from arbora.data.conll import read_conll
from arbora.reproduction import BUDGETS

EXAMPLES = Path(__file__).parents[2] / "examples" / "treebank"


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUDGETS, "quick", replace(BUDGETS["quick"], epochs=1, limit=6, trials=2, folds=0))


def run(*arguments: str | Path, treebank: Path = EXAMPLES) -> None:
    main(["reproduce", "greedy", "--treebank", str(treebank), "--budget", "quick", *map(str, arguments)])


def failure(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[object, str]:
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", *map(str, arguments)])
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return stopped.value.code, error


class Trainings:
    """Counts what is trained, and may stop it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started: list[str] = []
        self.stop_at: str | None = None
        self.arguments: list[list[str]] = []
        really = train.main

        def count(arguments: list[str]) -> None:
            name = Path(arguments[2]).parent.name
            self.started.append(name)
            self.arguments.append(list(arguments))
            if name == self.stop_at:
                raise KeyboardInterrupt
            really(arguments)

        monkeypatch.setattr(train, "main", count)


def test_a_run_that_was_interrupted_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trainings, folder = Trainings(monkeypatch), tmp_path / "run"
    trainings.stop_at = "second-1"
    with pytest.raises(SystemExit) as stopped:
        run("--run", folder)
    assert stopped.value.code == 130
    assert "run the same command again to resume" in capsys.readouterr().err
    assert trainings.started == ["first-1", "second-1"]

    trainings.stop_at = None
    run("--run", folder, "--json")
    printed = capsys.readouterr()
    others = [f"{order}_{search}-1" for order in ("first", "second") for search in ("basic", "greedy")]
    assert trainings.started == ["first-1", "second-1", "second-1", *others]
    assert "training second, seed 1" in printed.err
    report = json.loads(printed.out)
    assert report == json.loads((folder / "report.json").read_text(encoding="utf-8"))

    (folder / "steps" / "own-first-1.json").unlink()
    kept = (folder / "steps" / "own-second-1.json").stat().st_mtime_ns
    run("--run", folder)
    assert len(trainings.started) == 7
    assert (folder / "steps" / "own-second-1.json").stat().st_mtime_ns == kept
    printed = capsys.readouterr()
    assert printed.out == (folder / "report.md").read_text(encoding="utf-8")
    assert "own-first, seed 1" in printed.err

    assert _other(capsys, folder, "--seed", "2") == f"{folder} is a run with seeds [1], not [2]: give another --run"
    assert "budget.epochs 1, not 3" in _other(capsys, folder, "--epochs", "3")
    assert "budget.limit 6, not 5" in _other(capsys, folder, "--limit", "5")

    (folder / "models" / "first-1" / "finished.json").unlink()
    run("--run", folder, "--quiet")
    assert trainings.arguments[-1][-2:] == ["--ckpt_path", "last"]


def _other(capsys: pytest.CaptureFixture[str], folder: Path, *options: str) -> str:
    code, error = failure(
        capsys, "greedy", "--treebank", EXAMPLES, "--budget", "quick", "--run", folder, "--quiet", *options
    )
    assert code == 1
    return error.removeprefix("arbora reproduce: ").strip()


def test_trained_parsers_are_taken(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An untrained parser of first order serves as all: there are no parts of second order then."""
    trainings = Trainings(monkeypatch)
    run("--run", tmp_path / "run", "--models", *[checkpoint] * 6, "--seed", "7", "--json", "--quiet")
    assert trainings.started == []
    report = json.loads(capsys.readouterr().out)
    assert report["settings"]["models"]["second"] == str(checkpoint)
    assert list(report["results"]) == ["7"]
    assert "training: none; seeds 7" in "\n".join(report["about"])
    first, second = (report["results"]["7"][f"same-{order}"]["decoders"]["exact"] for order in ("first", "second"))
    assert first["accuracy"] == second["accuracy"]


def test_the_limit_is_of_each_part(tmp_path: Path, checkpoint: Path) -> None:
    run("--run", tmp_path / "run", "--models", *[checkpoint] * 6, "--quiet", "--limit", "4")
    some = list(read_conll(tmp_path / "run" / "treebank" / "test.conllu"))
    assert [s.form for s in some] == [s.form for s in islice(read_conll(EXAMPLES / "test.conllu"), 4)]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["chess", "--treebank", "x"], 2, "invalid choice: 'chess'"),
        (["greedy"], 2, "--treebank"),
        (["greedy", "--treebank", "nowhere"], 1, "--treebank nowhere is not a folder"),
        (["greedy", "--treebank", "EMPTY"], 1, "train.conllu: No such file"),
        (["greedy", "--treebank", "GOOD", "--epochs", "0"], 1, "--epochs must be positive, got 0"),
        (["vine", "--treebank", "GOOD", "--pruner-epochs", "0"], 1, "--pruner-epochs must be positive, got 0"),
        (["vine", "--treebank", "GOOD", "--pruner", "band=0"], 1, "pruner.band must be at least 1, got 0"),
        (["vine", "--treebank", "GOOD", "--pruner", "bend=3"], 1, "unexpected keyword argument 'bend'"),
        (["vine", "--treebank", "GOOD", "--pruner", "stages=3"], 1, "stages and filter cannot be set"),
        (["greedy", "--treebank", "GOOD", "--seed", "-1"], 1, "--seed must not be negative"),
        (
            ["greedy", "--treebank", "GOOD", "--model", "third=x"],
            1,
            "greedy has no parser third; choose from first, second, first_basic",
        ),
        (["greedy", "--treebank", "GOOD", "--models", "x"], 1, "6 files in this order: first, second, first_basic"),
        (["greedy", "--treebank", "GOOD", "--model", "first=nowhere.ckpt"], 1, "nowhere.ckpt"),
        (["greedy", "--summary", "EMPTY"], 1, "has no report.json: finish the run first"),
        (["ad3", "--summary", "EMPTY"], 1, "--summary: ad3 has no table over treebanks"),
        (["greedy", "--summary", "EMPTY", "--treebank", "GOOD"], 2, "not allowed with argument"),
        (["greedy", "--treebank", "GOOD", "--run", "FULL"], 1, "has other files than those of a reproduction"),
    ],
)
def test_mistakes_end_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    for name in ("EMPTY", "FULL"):
        (tmp_path / name).mkdir()
    (tmp_path / "FULL" / "thesis.tex").write_text("x")
    places: dict[str, Any] = {"EMPTY": tmp_path / "EMPTY", "FULL": tmp_path / "FULL", "GOOD": EXAMPLES}
    found, error = failure(capsys, *(places.get(argument, argument) for argument in arguments))
    assert found == code
    assert message in error


def test_one_parser_does_not_serve_several_seeds(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--treebank", EXAMPLES, "--budget", "full", "--model", f"first={checkpoint}"]
    code, error = failure(capsys, "greedy", *options)
    assert code == 1
    assert "--budget full trains 3 parsers" in error


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", "--help"])
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    for part in ("greedy", "hill-climbing", "ad3", "vine", "quick", "arbora reproduce greedy --treebank", "report.md"):
        assert part in printed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["vine", "--scores", "linear", "--pruner", "error=0.1"], "--pruner sets the pruners of networks"),
        (["greedy", "--scores", "linear", "--model", "first=NETWORK"], "not a linear model: give --scores networks"),
    ],
)
def test_what_linear_scores_do_not_take(
    options: list[str], message: str, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [option.replace("NETWORK", str(checkpoint)) for option in options]
    assert message in failure(capsys, *given, "--treebank", EXAMPLES)[1]
