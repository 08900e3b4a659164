from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
import yaml
from parsing import score

from arbora.cli import main
from arbora.cli.scoring import Pass
from arbora.data.conll import read_conll
from arbora.data.vocabulary import Vocabulary
from arbora.decoders import AD3, MST, Eisner, Greedy, HillClimbing, Parts, Trees, VineCascade
from arbora.decoders.kernels.threads import get_num_threads, set_num_threads
from arbora.decoders.names import decoder_classes, find_decoder, named_decoders, read_decoders
from arbora.evaluation import evaluate_files, saved, studies, trials
from arbora.model import network
from arbora.model.encoders.embeddings import Embeddings
from arbora.model.encoders.sru import SRU
from arbora.model.loading import load_network
from arbora.model.network import Network
from arbora.model.pruners.settings import Shared
from arbora.model.scorers.biaffine import Biaffine
from arbora.model.scorers.multilinear import Multilinear
from arbora.model.training import LightningParser

ROOT = Path(__file__).parents[2]
FIXTURE = ROOT / "tests" / "fixtures" / "treebank.conllu"
DEV = ROOT / "examples" / "treebank" / "dev.conllu"


@pytest.fixture(autouse=True)
def same_threads() -> Iterator[None]:
    before = get_num_threads(), torch.get_num_threads()
    yield
    set_num_threads(before[0])
    torch.set_num_threads(before[1])


@pytest.fixture(scope="module")
def second_order(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A parser of second order that was never trained, but prunes and parses."""
    pl.seed_everything(0, verbose=False)
    encoder = SRU(Embeddings(words=8, characters=8, upos=4), size=8, layers=1)
    parser = LightningParser(
        Vocabulary.of(read_conll(DEV)),
        encoder,
        Biaffine(8, 8),
        parts=Multilinear(("grandparent", "sibling"), rank=8),
        pruner=Shared(max_heads=3),
        decoder=AD3(),
        loss=("hinge",),
    )
    for weight in (*parser.parameters(),):
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.5)
    for module in parser.modules():
        if isinstance(module, torch.nn.Embedding) and module.padding_idx is not None:
            torch.nn.init.zeros_(module.weight[module.padding_idx])
    contents: dict[str, object] = {"state_dict": parser.state_dict()}
    parser.on_save_checkpoint(contents)
    path = tmp_path_factory.mktemp("model") / "second.ckpt"
    torch.save(contents, path)
    return path


@pytest.fixture(scope="module")
def exported(second_order: Path) -> Path:
    """The same, exported: graphs in int8, and no weights for torch."""
    folder = second_order.parent / "exported"
    main(["export", str(second_order), "--quiet", "-o", str(folder)])
    return folder


def run(*arguments: str | Path) -> None:
    main(["compare", "--quiet", "--repeats", "1", "--draws", "20", *map(str, arguments)])


def failure(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[object, str]:
    with pytest.raises(SystemExit) as stopped:
        run(*arguments)
    return stopped.value.code, capsys.readouterr().err


def read_report(folder: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return report


def lasting(report: dict[str, Any]) -> dict[str, Any]:
    """A report without what differs from run to run."""
    kept: dict[str, Any] = json.loads(json.dumps(report))
    del kept["about"]["made"], kept["about"]["machine"]["load"], kept["about"]["command"]
    for decoder in kept["decoders"]:
        del decoder["speed"]
        for row in decoder["by_length"]:
            del row["mean_ms"], row["median_ms"], row["p99_ms"]
    return kept


@pytest.mark.parametrize("order", ["checkpoint", "second_order", "exported"])
def test_figures_are_those_of_predict_and_evaluate(
    order: str, small: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    model: Path = request.getfixturevalue(order)
    run(model, small, "--decoders", "mst,ad3(max_iterations=20,drop_arcs=false)", "-o", tmp_path / "report")
    report = read_report(tmp_path / "report")
    decoders = [["MST"], ["AD3", "--decoder.max_iterations=20", "--decoder.drop_arcs=false"]]
    for row, decoder in zip(report["decoders"], decoders, strict=True):
        parsed = tmp_path / f"{decoder[0]}.conllu"
        main(["predict", str(model), str(small), "--quiet", "--decoder", *decoder, "-o", str(parsed)])
        assert row["accuracy"] == evaluate_files(small, parsed).figures()


def test_an_exported_parser_is_compared_analysed_and_tuned_by_its_graphs(
    exported: Path, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pruner may be changed, and parts left out."""
    run(exported, small, "--decoders", "mst", "--full", "--max-heads", "2", "-o", tmp_path / "report")
    about = read_report(tmp_path / "report")["about"]
    assert about["pruner"] == {"max_heads": 2, "ratio": 1e-4, "projective_kept": False}
    assert about["arcs_per_word"] <= 3  # two heads, and those of the pruner's best tree
    assert about["scoring"]["device"] == "cpu"
    main(["analyse", "optima", str(exported), str(small), "--dense", "--restarts", "2"])
    assert "all arcs" in capsys.readouterr().out
    main(["tune", str(exported), str(small), "--quiet", "--trials", "2", "-o", str(tmp_path / "tuned.yaml")])
    assert "AD3" in (tmp_path / "tuned.yaml").read_text(encoding="utf-8")


def test_the_report_is_a_folder(
    checkpoint: Path, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(checkpoint, small, "--decoders", "mst,Eisner,greedy", "--reference", "eisner", "-o", tmp_path / "report")
    folder = tmp_path / "report"
    assert sorted(path.name for path in folder.iterdir()) == [
        "index.html",
        "lengths.csv",
        "report.csv",
        "report.json",
        "sentences.csv",
    ]
    report = read_report(folder)
    assert [row["name"] for row in report["decoders"]] == ["mst", "eisner", "greedy"]
    assert report["reference"] == "eisner"
    with (folder / "report.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["uas"]) for row in rows] == [row["accuracy"]["uas"] for row in report["decoders"]]
    rate = report["about"]["scoring"]["words_per_second"]
    assert float(rows[0]["words_per_second_scoring_alone"]) == rate["median"]
    assert 0 < rate["low"] <= rate["median"] <= rate["high"]
    with (folder / "lengths.csv").open(encoding="utf-8") as file:
        lengths = list(csv.DictReader(file))
    assert [row["length"] for row in lengths if row["decoder"] == "mst"] == [g["name"] for g in report["lengths"]]
    assert sum(int(row["sentences"]) for row in lengths) == 3 * 30
    assert all(float(row["median_ms"]) <= float(row["p99_ms"]) for row in lengths)
    with (folder / "sentences.csv").open(encoding="utf-8") as file:
        sentences = list(csv.DictReader(file))
    assert len(sentences) == 3 * 30
    right = sum(int(row["right_heads"]) for row in sentences if row["decoder"] == "mst")
    assert right == round(report["decoders"][0]["accuracy"]["uas"] * report["about"]["words"] / 100)
    printed = capsys.readouterr().out
    assert f"{report['decoders'][1]['accuracy']['uas']:.2f}" in printed
    assert "against eisner, the reference" in printed
    assert f"scoring only: {rate['median']:,.0f} words per second" in printed

    before = (folder / "report.json").read_text(encoding="utf-8")
    run(checkpoint, small, "--decoders", "mst", "-o", folder)
    assert (folder / "report.json").read_text(encoding="utf-8") != before
    assert list(tmp_path.iterdir()) == [folder]


def test_kept_scores_give_the_same_figures_without_torch(second_order: Path, small: Path, tmp_path: Path) -> None:
    decoders = ["--decoders", "mst,eisner,ad3,hill_climbing(patience=3)", "--reference=ad3"]
    run(second_order, small, *decoders, "--save-parts", tmp_path / "scores", "-o", tmp_path / "one")
    arguments = [
        "compare",
        tmp_path / "scores",
        *decoders,
        "--quiet",
        "--draws=20",
        "--repeats=1",
        "-o",
        tmp_path / "two",
    ]
    code = "import sys; sys.modules['torch'] = None; from arbora.cli import main; main(sys.argv[1:]); "
    code += "assert 'arbora.model' not in sys.modules"
    subprocess.run([sys.executable, "-c", code, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)
    one, two = read_report(tmp_path / "one"), read_report(tmp_path / "two")
    assert lasting(one) == lasting(two)
    assert one["about"]["parts"] == ["grandparent", "sibling"]
    assert one["about"]["scoring"] == two["about"]["scoring"]

    loaded = saved.load(tmp_path / "scores")
    found = trials.decode(AD3(), loaded)
    (row,) = [row for row in one["decoders"] if row["name"] == "ad3"]
    gold = np.concatenate([sentence.head for sentence in read_conll(small)])
    assert row["accuracy"]["uas"] == 100 * int((found.heads == gold).sum()) / len(gold)
    assert row["search"]["mean_score"] == found.score.mean()

    run(tmp_path / "scores", "--decoders", "mst", "--limit", "5", "-o", tmp_path / "few")
    assert read_report(tmp_path / "few")["about"]["sentences"] == 5


def test_sentences_of_some_length_and_arcs_alone(second_order: Path, small: Path, tmp_path: Path) -> None:
    sentences = [sentence for sentence in read_conll(small) if 8 <= len(sentence) <= 12]
    assert 4 < len(sentences) < 30
    run(second_order, small, "--decoders=mst", "--save-parts", tmp_path / "scores")
    options = ["--decoders=mst,ad3", "--words=8-12", "--limit=4", "--first-order"]
    for place in ([second_order, small], [tmp_path / "scores"]):
        run(*place, *options, "-o", tmp_path / "report")
        report = read_report(tmp_path / "report")
        assert report["about"]["words"] == sum(map(len, sentences[:4]))
        assert (report["about"]["lengths"], report["about"]["parts"]) == ("8-12", [])
        assert report["decoders"][0]["search"]["best"] == 100  # by arcs alone, this is exact
        assert report["decoders"][0]["speed"]["with_scoring"] is None


def test_the_pruner_is_told_otherwise(second_order: Path, small: Path, tmp_path: Path) -> None:
    arcs = []
    for options in (["--max-heads=2"], ["--max-heads=2", "--ratio=0"], ["--ratio=0.9"]):
        run(second_order, small, "--decoders=mst", "--limit=10", *options, "-o", tmp_path / "report")
        about = read_report(tmp_path / "report")["about"]
        arcs.append(about["arcs_per_word"])
        if "--max-heads=2" in options:
            assert about["pruner"]["max_heads"] == 2
    assert arcs[0] <= arcs[1]
    assert arcs[2] < 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--words", "9-3"], "--words 9-3: give a range of lengths"),
        (["--words", "few"], "--words few: give a range of lengths"),
        (["--words", "4000-"], "no sentences of 4000- words"),
        (["--ratio", "2"], "--ratio must lie in 0..1"),
        (["--max-heads", "0"], "--max-heads must be positive"),
        (["--max-heads", "3"], "--max-heads: "),
    ],
)
def test_what_cannot_be_asked_of_a_first_order_parser(
    checkpoint: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    code, printed = failure(capsys, checkpoint, FIXTURE, "--decoders=mst", *arguments)
    assert code == 1
    assert message in printed
    assert printed.count("\n") == 1


def test_scores_are_those_that_tune_and_predict_see(second_order: Path, small: Path) -> None:
    scored = Pass.of(load_network(second_order), 200, single_root=True, projective=False, pruning=False)
    sentences = list(read_conll(small))
    ours = {place: (batch.parts, b) for batch in scored(sentences) for b, place in enumerate(batch.position)}
    assert sorted(ours) == list(range(30))
    where = {id(sentence): i for i, sentence in enumerate(sentences)}
    for chosen, parts in score(load_network(second_order), sentences, max_tokens=200):
        for b, sentence in enumerate(chosen):
            mine, place = ours[where[id(sentence)]]
            one, other = mine.subset([place]), parts.subset([b])
            np.testing.assert_array_equal(one.head, other.head)
            np.testing.assert_allclose(one.arc_score, other.arc_score, rtol=1e-4, atol=1e-4)
            assert one.sibling is not None
            assert other.sibling is not None
            np.testing.assert_allclose(one.sibling, other.sibling, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("order", ["checkpoint", "second_order"])
def test_labels_of_all_candidates_are_those_of_trees_with_them(
    order: str, small: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    parser = load_network(request.getfixturevalue(order))
    run_ = Pass.of(parser, 200, single_root=True, projective=True, pruning=False)
    for position, batch in run_._batches(list(read_conll(small))[:12]):
        assert position
        scores, parts = run_._score(batch)
        label = scores.arc_labels(parts)
        monkeypatch.setattr(network, "LABEL_CELLS", 1)
        np.testing.assert_array_equal(scores.arc_labels(parts), label)
        monkeypatch.undo()
        most = int(np.diff(parts.modifier_offsets).max())
        for k in range(most):  # the k-th candidate of each word
            heads = np.zeros((len(parts.lengths), int(parts.lengths.max()) + 1), np.int64)
            sentence = np.repeat(np.arange(len(parts.lengths)), parts.lengths)
            arc = np.minimum(parts.modifier_offsets[:-1] + k, parts.modifier_offsets[1:] - 1)
            heads[sentence, parts.modifier[arc]] = parts.head[arc]
            expected = scores.labels(heads)
            np.testing.assert_array_equal(label[arc], expected[sentence, parts.modifier[arc]])


def test_every_decoder_has_a_tree_among_few_candidates(
    second_order: Path, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(studies, "RESTARTS", (1, 3))
    run(second_order, small, "--decoders", "mst,eisner", "--full", "-o", tmp_path / "report")
    report = read_report(tmp_path / "report")
    assert [row["failures"]["count"] for row in report["decoders"]] == [0, 0]
    assert report["about"]["pruner"] == {"max_heads": 3, "ratio": 1e-4, "projective_kept": True}
    pruning = report["analyses"]["pruning"]
    by_heads = sorted((row for row in pruning if row["ratio"] == 1e-4), key=lambda row: row["max_heads"])
    for name in ("arcs_per_word", "oracle_uas"):
        values = [row[name] for row in by_heads]
        assert values == sorted(values)
        assert values[0] < values[-1]
    assert len(report["analyses"]["restarts"]) == 2 * len(studies.RESTARTS)
    assert [method["name"] for method in report["analyses"]["dual"]["methods"]] == ["ad3", "subgradient"]


def test_a_sentence_that_a_decoder_cannot_do(
    checkpoint: Path, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    decode = Greedy.__call__
    unlucky = next(read_conll(small))

    def moody(self: Greedy, parts: Parts) -> Trees:
        if (parts.lengths == len(unlucky)).any():
            raise ValueError("sentence 0: not today")
        return decode(self, parts)

    monkeypatch.setattr(Greedy, "__call__", moody)
    run(checkpoint, small, "--decoders", "mst,greedy", "-o", tmp_path / "report")
    mst, greedy = read_report(tmp_path / "report")["decoders"]
    failed = greedy["failures"]
    assert mst["sentences"] == 30 == greedy["sentences"] + failed["count"]
    assert failed["first"][0] == {"sentence": 1, "where": unlucky.where(), "why": "not today"}
    assert greedy["accuracy"]["sentences"] == greedy["sentences"]
    printed = " ".join(capsys.readouterr().out.split())
    assert f"it failed on {failed['count']}" in printed
    assert "not today" in printed


def test_a_decoder_that_fails_only_when_it_is_timed(
    checkpoint: Path, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    decode = Greedy.__call__
    calls: list[int] = []

    def tiring(self: Greedy, parts: Parts) -> Trees:
        calls.append(len(parts.lengths))
        if sum(calls) > 30:
            raise MemoryError("worn out")
        return decode(self, parts)

    monkeypatch.setattr(Greedy, "__call__", tiring)
    run(checkpoint, small, "--decoders", "greedy,mst", "-o", tmp_path / "report")
    greedy, mst = read_report(tmp_path / "report")["decoders"]
    assert (greedy["sentences"], greedy["failures"]["count"]) == (30, 0)
    assert greedy["accuracy"]["uas"] is not None
    assert greedy["speed"]["words_per_second"] is None
    assert greedy["speed"]["failures"] == {"count": 31, "first": "MemoryError: worn out"}
    assert mst["speed"]["failures"] == {"count": 0, "first": None}
    assert mst["speed"]["words_per_second"]["median"] > 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "greedy failed in 31 timing runs" in printed
    assert "MemoryError: worn out" in printed


def test_names_in_any_spelling() -> None:
    written = "mst, AD3(max_iterations=50),hill_climbing( patience=300 , start = first_order),HillClimbing"
    found = named_decoders(written)
    assert list(found) == [
        "mst",
        "ad3(max_iterations=50)",
        "hill_climbing(patience=300, start=first_order)",
        "hill_climbing",
    ]
    expected = [MST(), AD3(max_iterations=50), HillClimbing(patience=300, start="first_order"), HillClimbing()]
    assert list(found.values()) == expected
    assert find_decoder("hill-climbing(restarts=null)") == HillClimbing(restarts=None)
    assert find_decoder("mst(single_root=false)") == MST(single_root=False)
    assert {"mst", "eisner", "greedy", "hill_climbing", "ad3", "subgradient", "branch_and_bound"} <= set(
        decoder_classes()
    )
    assert find_decoder("vine_cascade(first_alpha=null)") == VineCascade(first_alpha=None)


def test_a_decoder_is_known_once_it_is_a_subclass() -> None:
    @dataclass(frozen=True)
    class NewlyMade(MST):
        """One more."""

    assert decoder_classes()["newly_made"] is NewlyMade
    assert find_decoder("newly_made(single_root=false)") == NewlyMade(single_root=False)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("fly", "unknown decoder fly; choose from ad3"),
        ("mst,,fly", "unknown decoder fly"),
        ("", "the list of decoders is empty"),
        ("mst(", "write names separated by commas"),
        ("ad3(iterations=3)", "AD3 has no setting iterations; choose from single_root, rho"),
        ("ad3(max_iterations)", "write settings as name=value, not max_iterations"),
        (
            "ad3(max_iterations=few)",
            "ad3(max_iterations=few): max_iterations must be an integer from 0 to 2147483647, got 'few'",
        ),
        ("ad3(rho=-1)", "rho must be a finite number above 0, or None, got -1.0"),
        ("ad3(rho=1,rho=2)", "rho is there twice"),
        ("mst,MST", "two decoders are named mst"),
    ],
)
def test_decoders_that_are_not(
    checkpoint: Path, capsys: pytest.CaptureFixture[str], written: str, message: str
) -> None:
    code, printed = failure(capsys, checkpoint, FIXTURE, "--decoders", written)
    assert code == 1
    assert message in printed
    assert printed.count("\n") == 1


def test_variants_of_a_file(checkpoint: Path, small: Path, tmp_path: Path) -> None:
    path = tmp_path / "variants.yaml"
    entries = [
        {"name": "patient", "class_path": "HillClimbing", "init_args": {"patience": 3, "temperature": 2}},
        {"class_path": "arbora.decoders.mst.MST", "init_args": {"single_root": False}},
        {"name": "plain", "class_path": "arbora.decoders.Eisner"},
    ]
    path.write_text(yaml.safe_dump(entries), encoding="utf-8")
    found = read_decoders(path)
    assert list(found) == ["patient", "mst", "plain"]
    expected = [HillClimbing(patience=3, temperature=2.0), MST(single_root=False), Eisner()]
    assert list(found.values()) == expected
    run(checkpoint, small, "--variants", path, "--decoders", "ad3", "--reference=plain", "-o", tmp_path / "report")
    assert [row["name"] for row in read_report(tmp_path / "report")["decoders"]] == ["ad3", "patient", "mst", "plain"]


def test_the_variants_of_the_benchmarks_are_decoders() -> None:
    files = sorted((ROOT / "benchmarks" / "decoders").glob("*.yaml"))
    assert [path.stem for path in files] == ["ad3", "greedy"]
    for path in files:
        found = read_decoders(path)
        assert len(set(found.values())) == len(found) > 5


def test_the_file_of_tune_is_one(checkpoint: Path, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    tuned = tmp_path / "tuned.yaml"
    search = ["--search", "patience=2:5", "--trials", "1", "--quiet", "-o", str(tuned)]
    main(["tune", str(checkpoint), str(FIXTURE), "--decoder", "HillClimbing", *search])
    ((name, decoder),) = read_decoders(tuned).items()
    assert name == "hill_climbing"
    assert isinstance(decoder, HillClimbing)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "not YAML"),
        ("3", "must be a list of decoders"),
        ("[]", "must be a list of decoders"),
        ("- {class_path: os.system}", "unknown decoder os.system"),
        ("- {class_path: MST, color: red}", "entry 1 has color"),
        ("- {name: x}", "entry 1 must have a class_path"),
        ("- {class_path: MST, init_args: {single_root: maybe}}", "single_root must be True or False"),
        ("- {class_path: AD3, init_args: {max_iterations: 1.5}}", "max_iterations must be an integer"),
    ],
)
def test_variants_that_are_not(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "variants.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(message)):
        read_decoders(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--repeats", "0"], "--repeats must be positive"),
        (["--limit", "0"], "--limit must be positive"),
        (["--threads", "0"], "--threads must be positive"),
        (["--seed", "-1"], "--seed must not be negative"),
        (["--reference", "ad4"], "--reference ad4 is not one of the decoders: own, eisner"),
        (["--variants", "absent.yaml"], "absent.yaml: No such file"),
        (["--device", "abacus"], "device abacus"),
    ],
)
def test_mistakes_end_in_a_line(
    checkpoint: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    code, printed = failure(capsys, checkpoint, FIXTURE, *arguments)
    assert code == 1
    assert message in printed
    assert printed.count("\n") == 1


def test_what_is_compared_must_be_there(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "is not a folder of scores: give a treebank after it" in failure(capsys, checkpoint)[1]
    assert "is not a folder of scores" in failure(capsys, tmp_path)[1]
    assert "No such file" in failure(capsys, checkpoint, tmp_path / "absent.conllu")[1]
    (tmp_path / "empty.conllu").write_text("")
    assert "empty.conllu" in failure(capsys, checkpoint, tmp_path / "empty.conllu")[1]
    code, message = failure(capsys, checkpoint, FIXTURE, "--fly")
    assert code == 2
    assert message == "arbora compare: unrecognized arguments: --fly; `arbora compare --help` lists the options\n"

    (tmp_path / "notes.txt").write_text("mine")
    monkeypatch.setattr(Network, "forward", lambda *_: pytest.fail("scored before looking at the folder"))
    for option in ("-o", "--save-parts"):
        code, message = failure(capsys, checkpoint, FIXTURE, option, tmp_path)
        assert code == 1
        assert "exists and does not hold" in message
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_options_may_stand_anywhere(checkpoint: Path, tmp_path: Path) -> None:
    run("--decoders", "mst", checkpoint, "--limit", "3", FIXTURE, "-o", tmp_path / "report")
    assert read_report(tmp_path / "report")["about"]["sentences"] == 3


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "compare" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["compare", "--help"])
    printed = capsys.readouterr().out
    for text in ("--save-parts", "ad3(max_iterations=50)", "class_path: HillClimbing", "certified", "--full"):
        assert text in printed


def test_names_are_not_read_as_markup(
    checkpoint: Path, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "[red]" / "a[/x]"
    folder.mkdir(parents=True)
    treebank, variants = folder / "[b]dev.conllu", folder / "variants.yaml"
    treebank.write_bytes(small.read_bytes())
    variants.write_text("- name: '[red]mine[/x]'\n  class_path: MST\n")
    run(checkpoint, treebank, "--variants", variants, "-o", folder / "report")
    printed = capsys.readouterr().out
    assert "[red]mine[/x]" in printed
    assert "a[/x]/[b]dev.conllu" in printed


def test_k_best_and_minimum_risk(checkpoint: Path, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    decoders = "mst,eisner,minimum_risk,minimum_risk(decoder=MST, k=3)"
    main(["compare", str(checkpoint), str(small), "--decoders", decoders, "--k-best", "5", "-o", str(tmp_path / "r")])
    assert "UAS of the best tree among the k best" in capsys.readouterr().out
    report = json.loads((tmp_path / "r" / "report.json").read_text(encoding="utf-8"))
    uas = {entry["name"]: entry["accuracy"]["uas"] for entry in report["decoders"]}
    assert {row["name"] for row in report["analyses"]["k_best"]} == set(uas)
    rows = [row for row in report["analyses"]["k_best"] if row["name"] == "mst"]
    assert [row["k"] for row in rows] == [1, 2, 5]
    assert rows[0]["oracle_uas"] == pytest.approx(uas["mst"])
    assert rows[0]["oracle_uas"] < rows[1]["oracle_uas"] < rows[2]["oracle_uas"]
    assert rows[2]["certified"] == 100
    assert len(uas) == 4


def test_several_models_and_treebanks_make_a_matrix(
    checkpoint: Path, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.conllu"
    other.write_text("\n\n".join(small.read_text(encoding="utf-8").split("\n\n")[:12]) + "\n\n", encoding="utf-8")
    report = tmp_path / "report"
    run(checkpoint, small, checkpoint, other, "--decoders", "own,eisner", "-o", report)
    content = json.loads((report / "report.json").read_text(encoding="utf-8"))
    single = [read_report(report / name) for name in (small.stem, "other")]
    for row, decoders in zip(content["matrix"], zip(*(one["decoders"] for one in single)), strict=True):
        uas = [decoder["accuracy"]["uas"] for decoder in decoders]
        assert row["uas"] == {small.stem: uas[0], "other": uas[1], "mean": pytest.approx(sum(uas) / 2)}
    page = (report / "index.html").read_text(encoding="utf-8")
    assert f'href="{small.stem}/index.html"' in page
    assert f"{single[1]['decoders'][1]['accuracy']['las']:,.2f}" in page
    assert "mean" in capsys.readouterr().out
    assert (report / "matrix.csv").read_text(encoding="utf-8").startswith("model,decoder,")
    _, message = failure(capsys, checkpoint, small, checkpoint, small, "--decoders", "mst")
    assert "two comparisons have the same names" in message


def test_own_is_the_decoder_of_the_parser_and_is_kept_with_its_scores(
    checkpoint: Path, small: Path, tmp_path: Path
) -> None:
    own = load_network(checkpoint).decoder
    kept = ["--save-parts", tmp_path / "scores", "-o", tmp_path / "report"]
    run(checkpoint, small, "--decoders", "own,eisner", *kept, "--draws", "10")
    decoders = read_report(tmp_path / "report")["decoders"]
    assert decoders[0]["name"] == "own"
    assert decoders[0]["decoder"] == type(own).__name__
    run(tmp_path / "scores", "--decoders", "own,eisner", "-o", tmp_path / "again", "--draws", "10")
    again = read_report(tmp_path / "again")
    assert [row["name"] for row in again["decoders"]] == ["own", "eisner"]
    assert again["decoders"][0]["accuracy"] == decoders[0]["accuracy"]
    assert again["about"]["command"].startswith("arbora compare ")
    assert again["about"]["digest"] == read_report(tmp_path / "report")["about"]["digest"]
    words = {row["name"]: row["words"] for row in again["errors"]["label"]}
    assert sum(words.values()) == again["about"]["words"]
