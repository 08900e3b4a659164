import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from parsing import score

from arbora.cli import main
from arbora.cli.analyse import Measured, measure, summarise
from arbora.data.conll import read_conll
from arbora.decoders import MST, Decoder, HillClimbing, Parts
from arbora.decoders.hill_climbing.optima import count_optima
from arbora.model.inference.stream import Candidates, score_sentences
from arbora.model.loading import load_network
from arbora.model.pruners.settings import Shared
from arbora.model.scorers.multilinear import Multilinear
from arbora.model.training import LightningParser

ROOT = Path(__file__).parents[2]
FIXTURE = ROOT / "tests" / "fixtures" / "treebank.conllu"
DEV = ROOT / "examples" / "treebank" / "dev.conllu"


def run(*arguments: str | Path) -> None:
    main(["analyse", "optima", *map(str, arguments)])


def failure(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[object, str]:
    with pytest.raises(SystemExit) as stopped:
        main(["analyse", *map(str, arguments)])
    return stopped.value.code, capsys.readouterr().err


def pruning(checkpoint: Path, path: Path, decoder: Decoder) -> Path:
    """The untrained parser with a pruner and scores of siblings."""
    plain = load_network(checkpoint)
    torch.manual_seed(0)
    parser = LightningParser(
        plain.vocabulary,
        plain.settings["encoder"],
        plain.settings["scorer"],
        decoder=decoder,
        parts=Multilinear(kinds=("sibling",), rank=4),
        pruner=Shared(max_heads=2, ratio=0),
        loss=("hinge",),
    )
    contents: dict[str, object] = {"state_dict": parser.state_dict()}
    parser.on_save_checkpoint(contents)
    torch.save(contents, path)
    return path


def test_figures_of_each_sentence(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, data = tmp_path / "optima.csv", tmp_path / "optima.json"
    run(checkpoint, DEV, "--limit", "50", "--restarts", "3", "--csv", table, "--json", data, "--max-tokens", "300")
    printed = capsys.readouterr().out
    sentences = list(read_conll(DEV))
    rows = list(csv.DictReader(table.open(encoding="utf-8")))
    assert [int(row["line"]) for row in rows] == [sentence.line_number for sentence in sentences]
    assert [int(row["words"]) for row in rows] == list(map(len, sentences))

    expected = {}
    for batch in score(
        load_network(checkpoint), sentences, max_tokens=300
    ):  # random trees depend on the last bit of scores
        counts, trees = count_optima(batch.parts, 50), MST(single_root=False)(batch.parts)
        climbed = HillClimbing(restarts=3, best_first=False, single_root=False)(batch.parts)
        for b, sentence in enumerate(batch.sentences):
            expected[sentence.line_number] = counts[b], trees.score[b], climbed.score[b]
    for row in rows:
        count, best, uniform = expected[int(row["line"])]
        assert int(row["optima"]) == count
        assert float(row["best"]) == best
        assert float(row["uniform"]) == uniform
        assert bool(int(row["uniform_found"])) == (float(row["uniform"]) == pytest.approx(float(row["best"]), rel=1e-9))

    read = json.loads(data.read_text(encoding="utf-8"))
    assert [entry["optima"] for entry in read["sentences"]] == [int(row["optima"]) for row in rows]
    assert read["settings"]["limit"] == 50
    everything = read["groups"][0]
    assert (everything["length"], everything["sentences"]) == ("all", len(sentences))
    share = 100 * np.mean([entry["first_order_found"] for entry in read["sentences"]])
    assert everything["found"]["first_order"] == pytest.approx(share)
    assert f"{len(sentences):,} sentences" in printed
    assert "≥ 50" in printed  # scores are random
    assert "found by 3 climbs; any number of words at the root" in printed
    assert sorted(tmp_path.iterdir()) == [table, data]


def entry(words: int, optima: int, uniform: float = 1.0, first_order: float = 1.0) -> Measured:
    return Measured(1, words, 2 * words, optima, 1.0, uniform, 7, first_order, 9)


def test_groups() -> None:
    short = [entry(3, 1) for _ in range(7)] + [entry(15, 5, uniform=0.5), entry(10, 100)]
    groups = {group.length: group for group in summarise([*short, entry(16, 2000, first_order=0.9)])}
    assert list(groups) == ["all", "1-15", "16+", "1-5", "6-10", "11-15", "16-20"]
    everything = groups["all"]
    assert everything.optima == {"50%": 1, "70%": 1, "90%": 100, "95%": 2000, "99%": 2000, "most": 2000}
    assert (everything.sentences, everything.several, everything.one) == (10, 3, 70.0)
    assert (everything.mean_length, everything.arcs) == (6.2, 2.0)
    assert everything.found == {"uniform": 90.0, "first_order": 90.0}
    assert everything.found_of_several == pytest.approx({"uniform": 200 / 3, "first_order": 200 / 3})
    assert everything.restarts == {"uniform": 7, "first_order": 9}
    assert groups["1-5"].found_of_several == {"uniform": None, "first_order": None}
    assert groups["16+"].found == {"uniform": 100.0, "first_order": 0.0}


def test_climbing_does_not_start_from_the_best_tree() -> None:
    """Three climbs find the best of 2^11 optima only where they are helped."""
    words = np.arange(13.0)
    arc = np.minimum.outer(words, words) + 1e-3 * np.random.default_rng(0).random((40, 13, 13))
    sentences = list(read_conll(DEV))[:1] * 40
    starts: Any = ("uniform", "first_order")
    climbs = {start: HillClimbing(restarts=3, start=start, best_first=False, single_root=False) for start in starts}
    measured = list(measure(Candidates(sentences, Parts.from_dense(arc)), climbs, 10_000))
    assert {entry.optima for entry in measured} == {2048}
    assert sum(entry.found("uniform") for entry in measured) < 20
    assert {entry.uniform_restarts for entry in measured} == {3}


def test_pruned_and_dense(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = pruning(checkpoint, tmp_path / "pruning.ckpt", HillClimbing(single_root=False))
    scored: list[Parts] = []
    kept_for: list[Decoder] = []

    def recorded(batch: Candidates, *rest: Any) -> Any:
        scored.append(batch.parts)
        return measure(batch, *rest)

    monkeypatch.setattr("arbora.cli.analyse.measure", recorded)
    monkeypatch.setattr(
        "arbora.cli.analyse.score_sentences",
        lambda parser, *rest: kept_for.append(parser.decoder) or score_sentences(parser, *rest),
    )
    most = {}
    for name, arguments in {"pruned": [], "dense": ["--dense"], "single": ["--single-root"]}.items():
        scored.clear()
        run(model, FIXTURE, "--restarts", "2", *arguments)
        assert not any(parts.kinds for parts in scored)
        most[name] = max(int(np.diff(parts.modifier_offsets).max()) for parts in scored)
    assert most["pruned"] <= 3 < most["dense"]
    assert [decoder.single_root for decoder in kept_for] == [False, False, True]
    printed = capsys.readouterr().out
    assert "all arcs" in printed
    assert "one word at the root" in printed


def test_standard_output_is_for_the_figures(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(checkpoint, FIXTURE, "--csv", "-", "--patience", "4", "--seed", "3", "--quiet")
    printed = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(printed.out)))
    assert len(rows) == len(list(read_conll(FIXTURE)))
    assert all(int(row["uniform_restarts"]) >= 5 for row in rows)
    assert "climbs, patience 4" in printed.err
    assert "Climbs of a sentence: " in printed.err


def test_trees_are_not_needed(
    checkpoint: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("1\tRain\t_\t_\t_\t_\t_\t_\t_\t_\n\n"))
    run(checkpoint, "-", "--quiet")
    printed = capsys.readouterr()
    assert "1 sentences, 1 words" in printed.out
    assert printed.err == ""


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--limit", "0"], 1, "--limit must be positive, got 0"),
        (["--max-tokens", "0"], 1, "--max-tokens must be positive"),
        (["--restarts", "0"], 1, "restarts must be an integer from 1"),
        (["--patience", "0"], 1, "patience must be an integer from 1"),
        (["--csv", "absent/out.csv"], 1, "absent"),
        (["--csv", "-", "--json", "-"], 1, "--csv and --json cannot both be -"),
        (["--fly"], 2, "--fly"),
    ],
)
def test_mistakes_end_in_a_line(
    checkpoint: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    found, printed = failure(capsys, "optima", checkpoint, FIXTURE, *arguments)
    assert found == code
    assert message in printed
    assert printed.count("\n") == 1


def test_nothing_is_left_of_a_failure(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.conllu").touch()
    kept = tmp_path / "kept.csv"
    kept.write_text("as it was")
    code, message = failure(capsys, "optima", checkpoint, tmp_path / "empty.conllu", "--csv", kept)
    assert code == 1
    assert "empty.conllu" in message
    assert kept.read_text() == "as it was"
    assert len(list(tmp_path.iterdir())) == 2


def test_what_can_be_analysed(capsys: pytest.CaptureFixture[str]) -> None:
    code, message = failure(capsys, "fly")
    assert (code, message) == (2, "arbora analyse: unknown analysis 'fly'; choose from doubt, optima\n")
    with pytest.raises(SystemExit) as stopped:
        main(["analyse", "--help"])
    assert stopped.value.code == 0
    assert "optima" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        main(["analyse"])
    assert stopped.value.code == 2


def test_help_says_what_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run("--help")
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    assert "A local optimum is a tree that cannot be improved by changing a single head" in printed
    assert "--dense" in printed


def test_doubt(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words, data = tmp_path / "words.csv", tmp_path / "doubt.json"
    main(["analyse", "doubt", str(checkpoint), str(DEV), "--csv", str(words), "--json", str(data), "--top", "3"])
    out = capsys.readouterr().out
    assert "Sentences by expected wrong heads" in out
    assert "Calibration" in out
    report = json.loads(data.read_text(encoding="utf-8"))
    expected = [entry["expected_errors"] for entry in report["sentences"]]
    assert expected == sorted(expected, reverse=True)
    assert all(entry["margin"] is None or entry["margin"] >= 0 for entry in report["sentences"])
    with words.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(entry["words"] for entry in report["sentences"])
    assert sum(1 - float(row["arc_probability"]) for row in rows) == pytest.approx(sum(expected), rel=1e-2)
    found = report["calibration"]
    for name in ("arcs", "arcs and labels"):
        assert found["after"][name]["ece"] <= found["before"][name]["ece"] + 1  # random weights are far too sure


def test_doubt_without_gold(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.conllu").write_text("1\tA" + "\t_" * 8 + "\n2\tdog" + "\t_" * 8 + "\n\n", encoding="utf-8")
    main(["analyse", "doubt", str(checkpoint), str(tmp_path / "in.conllu")])
    assert "Calibration" not in capsys.readouterr().out
