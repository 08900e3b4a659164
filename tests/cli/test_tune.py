import builtins
import io
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
import yaml
from parsing import parse
from rich.console import Console

from arbora.cli import main
from arbora.cli.tune import DevBatch, Setup, score_dev, search_space, tune
from arbora.data.batch import batch_of
from arbora.data.conll import read_conll
from arbora.decoders import AD3, MST, Decoder, Greedy, HillClimbing, Parts, Projective, Trees
from arbora.evaluation import evaluate_files
from arbora.model.inference.batch_parser import BatchParser, ParsingSettings
from arbora.model.inference.stream import score_sentences
from arbora.model.loading import load_network
from arbora.model.pruners.settings import Shared, Vine
from arbora.model.pruners.vine import CascadePruner
from arbora.model.scorers.biaffine import Biaffine
from arbora.model.training import LightningParser

pytest.importorskip("optuna")

ROOT = Path(__file__).parents[2]
FIXTURE = ROOT / "tests" / "fixtures" / "treebank.conllu"
ONE_CLIMB = Setup(HillClimbing(restarts=1, best_first=False))


def run(*arguments: str | Path) -> None:
    main(["tune", *map(str, arguments)])


def failure(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[object, str]:
    with pytest.raises(SystemExit) as stopped:
        run(*arguments)
    return stopped.value.code, capsys.readouterr().err


@pytest.fixture(scope="module")
def batches(checkpoint: Path, small: Path) -> list[DevBatch]:
    network = load_network(checkpoint)
    scorer = BatchParser(network, network.decoder, ParsingSettings(max_tokens=150))
    return score_dev(scorer, list(read_conll(small)), None, Console(quiet=True))


def test_scores_are_those_that_parsing_decodes(checkpoint: Path, small: Path, batches: list[DevBatch]) -> None:
    parser = load_network(checkpoint)
    assert len(batches) > 1
    found = {}
    for batch in batches:
        trees = parser.decoder(batch.parts)
        found |= {s.line_number: heads[1 : len(s) + 1].tolist() for s, heads in zip(batch.sentences, trees.heads)}
    assert found == {p.sentence.line_number: p.heads.tolist() for p in parse(parser, read_conll(small))}


def test_predict_takes_the_file(checkpoint: Path, small: Path, tmp_path: Path) -> None:
    tuned, parsed = tmp_path / "tuned.yaml", tmp_path / "parsed.conllu"
    given = ["--decoder", "HillClimbing", "--decoder.restarts", "1", "--decoder.best_first", "false"]
    search = ["--search", "restarts=2:9:log", "start=uniform,first_order", "temperature=0.5:2"]
    run(*given, *search, checkpoint, small, "--trials", "6", "--objective", "score", "-o", tuned)
    text = tuned.read_text(encoding="utf-8")
    settings = yaml.safe_load(text)["init_args"]
    assert 2 <= settings["restarts"] <= 9  # more climbs never score less, and one is seldom enough
    assert settings["best_first"] is False
    notes = {line[2:].split(":")[0]: line for line in text.splitlines() if line.startswith("# ")}
    assert str(checkpoint) in notes["model"]
    assert str(small) in notes["development part"]
    assert "trials 6" in text
    assert "restarts=1," in notes["before"]

    main(["predict", str(checkpoint), str(small), "--quiet", "--decoder", str(tuned), "-o", str(parsed)])
    uas = evaluate_files(small, parsed).figures()["uas"]
    assert notes["UAS"].endswith(f"before, {uas:.2f} after")
    decoder = HillClimbing(**settings)
    parser = load_network(checkpoint)
    parser.decoder = decoder
    assert [list(s.head) for s in read_conll(parsed)] == [p.heads.tolist() for p in parse(parser, read_conll(small))]


def test_the_file_is_a_start_too(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    search = ["--search", "patience=1:5", "--trials", "1", "--quiet"]
    run(checkpoint, FIXTURE, "--decoder=HillClimbing", "--decoder.patience=7", *search, "-o", tmp_path / "a.yaml")
    assert capsys.readouterr() == ("", "")
    run(checkpoint, FIXTURE, "--decoder", tmp_path / "a.yaml", "--decoder.seed=3", *search)
    printed = capsys.readouterr()
    settings = yaml.safe_load(printed.out)["init_args"]
    assert (settings["patience"], settings["seed"]) == (7, 3)
    assert printed.err == ""


def test_the_decoder_trained_with_is_where_it_starts(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(checkpoint, FIXTURE, "--search", "single_root=true,false", "--trials", "3")
    assert yaml.safe_load(capsys.readouterr().out)["class_path"] == "MST"


@pytest.mark.parametrize("objective", ["uas", "score"])
def test_never_worse_than_the_start(batches: list[DevBatch], objective: Any) -> None:
    space = search_space(["restarts=1:6", "temperature=0.5:2", "seed=0:9"], ONE_CLIMB)
    trials = tune([_as_found(batch) for batch in batches], ONE_CLIMB, space, 8, objective)
    values = [getattr(trial, objective) for trial in trials]
    (first,) = [trial for trial in trials if trial.number == 0]
    assert first.setup == ONE_CLIMB
    assert values == sorted(values, reverse=True)
    assert values[0] > getattr(first, objective)
    assert len({trial.setup for trial in trials}) == len(trials) > 1
    assert all(1 <= t.setup["restarts"] <= 6 and 0.5 <= t.setup["temperature"] <= 2 for t in trials if t.number)


def _as_found(batch: DevBatch) -> DevBatch:
    """The same scores, with the trees that score best as the right ones: a better search has a better UAS."""
    heads = MST()(batch.parts).heads
    return batch._replace(gold=np.where(heads >= 0, heads, -2))


def test_same_seed_same_trials(batches: list[DevBatch]) -> None:
    space = search_space(["restarts=1:6", "temperature=0.5:2:log", "start=uniform,first_order"], ONE_CLIMB)
    runs = [
        [(t.number, t.setup, t.uas, t.score) for t in tune(batches, ONE_CLIMB, space, 14, seed=seed)]
        for seed in (1, 1, 2)
    ]
    assert runs[0] == runs[1] != runs[2]


def test_a_start_outside_of_the_search_is_tried_first(batches: list[DevBatch]) -> None:
    start = Setup(HillClimbing(restarts=None, patience=3, best_first=False))
    trials = tune(batches, start, search_space(["restarts=1:2"], start), 4, "score")
    assert next(trial.setup for trial in trials if trial.number == 0) == start


def test_of_equal_trials_less_work(batches: list[DevBatch]) -> None:
    start = Setup(HillClimbing(patience=50))  # begins with the best tree, and there are only arcs
    trials = tune(batches, start, search_space(["patience=1:40"], start), 6)
    assert len({trial.uas for trial in trials}) == 1
    patience = [trial.setup["patience"] for trial in trials]
    assert patience == sorted(patience)
    assert patience[-1] == 50


def test_settings_are_decoded_once(batches: list[DevBatch], monkeypatch: pytest.MonkeyPatch) -> None:
    decode, decoded = MST.__call__, []

    def recorded(self: MST, parts: Parts) -> Trees:
        decoded.append((self.single_root, id(parts)))
        return decode(self, parts)

    monkeypatch.setattr(MST, "__call__", recorded)
    trials = tune(batches, Setup(MST()), search_space(["single_root=true,false"], Setup(MST())), 12)
    assert len(trials) == 2
    assert len(decoded) == len(set(decoded)) == 1 + 2 * len(batches)  # one to compile


def test_an_interrupt_keeps_what_is_done(batches: list[DevBatch], monkeypatch: pytest.MonkeyPatch) -> None:
    decode, calls = HillClimbing.__call__, []

    def interrupted(self: HillClimbing, parts: Parts) -> Trees:
        calls.append(self)
        if len(set(calls)) == 4:
            raise KeyboardInterrupt
        return decode(self, parts)

    monkeypatch.setattr(HillClimbing, "__call__", interrupted)
    trials = tune(batches, ONE_CLIMB, search_space(["temperature=0.5:2"], ONE_CLIMB), 10)
    assert sorted(trial.number for trial in trials) == [0, 1, 2]


@pytest.mark.parametrize(
    ("search", "message"),
    [
        (["fly=1:2"], "--search fly: HillClimbing has no such setting; choose from restarts=null, patience=30"),
        (["patience"], "--search patience: write name=low:high"),
        (["patience=5:1"], "--search patience=5:1: the range is empty"),
        (["patience=5:5"], "the range is empty"),
        (["patience=1:2.5"], "patience takes whole numbers, got 1 and 2.5"),
        (["patience=0:5"], "patience must be an integer from 1 to 2147483647, got 0"),
        (["temperature=a:b"], "temperature takes numbers, got a and b"),
        (["temperature=1:inf"], "both numbers must be finite"),
        (["temperature=-1:2:log"], "above 0, got -1"),
        (["temperature=1:2:ln"], "low:high:log"),
        (["temperature=1:2", "temperature=3:4"], "--search temperature is given twice"),
        (["start=1:2"], "start is not a number; list its values, as start=uniform,first_order,best"),
        (["best_first=0:1"], "list its values, as best_first=true,false"),
        (["best_first=true"], "nothing to search"),
        (["seed=1,1"], "nothing to search"),
        (["best_first=true,maybe"], "best_first does not take 'maybe'"),
        (["start=uniform,first"], "start does not take 'first'"),
        (["patience=1,0"], "patience must be an integer from 1 to 2147483647, got 0"),
    ],
)
def test_what_cannot_be_searched(search: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        search_space(search, Setup(HillClimbing()))


def test_values_have_the_types_of_the_settings() -> None:
    space = search_space(
        ["restarts=3,null", "start=best,uniform", "best_first=false,true", "patience=1:9:log", "temperature=1:2"],
        Setup(HillClimbing()),
    )
    assert space["restarts"].choices == (3, None)
    assert space["start"].choices == ("best", "uniform")
    assert space["best_first"].choices == (False, True)
    assert (space["patience"].low, space["patience"].high, space["patience"].log) == (1, 9, True)
    assert type(space["patience"].high) is int
    assert type(space["temperature"].high) is float


def test_what_a_pruner_depends_on_is_not_searched() -> None:
    with pytest.raises(ValueError, match="single_root: the pruner's candidates depend on it"):
        search_space(["single_root=true,false"], Setup(HillClimbing()), pruned=True)
    with pytest.raises(
        ValueError, match="MST has no settings that are searched by default; name some with --search: none"
    ):
        search_space([], Setup(MST()), pruned=True)


@pytest.fixture(scope="module")
def other(checkpoint: Path, small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another parser's trees of the thirty sentences: right ones for half of them."""
    path = tmp_path_factory.mktemp("other") / "other.conllu"
    gold = list(read_conll(small))
    trees = [
        s.head if number % 2 else found.heads.tolist()
        for number, (s, found) in enumerate(zip(gold, parse(load_network(checkpoint), gold)))
    ]
    path.write_text("".join(s.with_tree(head, s.deprel) for s, head in zip(gold, trees)), encoding="utf-8")
    return path


def test_an_ensemble_is_tuned_stage_by_stage(checkpoint: Path, small: Path, other: Path, tmp_path: Path) -> None:
    tuned, parsed = tmp_path / "tuned.yaml", tmp_path / "parsed.conllu"
    greedy = ["--decoder", "Greedy", "--decoder.beam", "1", "--decoder.improvements", "0"]
    stages = ["--search", "alpha=0:2.5", "beta=0.2:0.5", "--then", "gamma_1=0.5:50"]
    stages += ["--then", "beam=2:3", "improvements=1:2"]
    run(checkpoint, small, "--ensemble", other, *greedy, *stages, "--trials", "4", "-o", tuned)
    text = tuned.read_text(encoding="utf-8")
    notes = {line[2:].split(":")[0]: line for line in text.splitlines() if line.startswith("# ")}
    assert "alpha=0:2.5 beta=0.2:0.5, then gamma_1=0.5:50, then beam=2:3 improvements=1:2" in notes["search"]
    assert text.count("# tried: ") == 3
    gamma = re.search(r"--ensemble.gamma (\S+);", notes["ensemble"])[1]
    ensemble = ["--ensemble", str(other), "--ensemble.gamma", gamma]
    main(["predict", str(checkpoint), str(small), "--quiet", "--decoder", str(tuned), "-o", str(parsed), *ensemble])
    uas = evaluate_files(small, parsed).figures()["uas"]
    before, after = re.findall(r"[0-9.]+", notes["UAS"])
    assert float(after) == pytest.approx(uas, abs=0.01)
    assert float(after) >= float(before)


def test_by_default_only_gammas_of_orders_that_the_decoder_takes_are_searched() -> None:
    gamma = (1.0, 0.25, 0.1)
    assert list(search_space([], Setup(MST(), gamma))) == ["gamma_1"]
    assert {"gamma_1", "gamma_2", "gamma_3"} <= set(search_space([], Setup(Greedy(), gamma)))


def test_gammas_need_an_ensemble() -> None:
    with pytest.raises(ValueError, match="--search gamma_1: no --ensemble is given"):
        search_space(["gamma_1=0:1"], Setup(Greedy()))
    with pytest.raises(ValueError, match=r"--search gamma_3: --ensemble.gamma has 2 numbers"):
        search_space(["gamma_3=0:1"], Setup(Greedy(), (1.0, 0.25)))
    assert list(search_space(["gamma_2=0:1", "alpha=0:1"], Setup(Greedy(), (1.0, 0.25)))) == ["gamma_2", "alpha"]


def test_a_parser_that_prunes(
    checkpoint: Path, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = load_network(checkpoint)
    torch.manual_seed(0)
    parser = LightningParser(
        plain.vocabulary, plain.settings["encoder"], plain.settings["scorer"], pruner=Shared(max_heads=2)
    )
    contents: dict[str, object] = {"state_dict": parser.state_dict()}
    parser.on_save_checkpoint(contents)
    torch.save(contents, tmp_path / "pruning.ckpt")
    code, message = failure(capsys, tmp_path / "pruning.ckpt", small, "--search", "single_root=true,false")
    assert code == 1
    assert "pruner" in message

    pruned_for: list[Decoder] = []
    monkeypatch.setattr(
        "arbora.cli.tune.score_sentences",
        lambda parser, *rest: pruned_for.append(parser.decoder) or score_sentences(parser, *rest),
    )
    decoder = ["--decoder", "HillClimbing", "--decoder.single_root", "false"]
    run(tmp_path / "pruning.ckpt", small, *decoder, "--search", "seed=0:3", "--trials", "2")
    assert pruned_for == [HillClimbing(single_root=False)]


@pytest.mark.parametrize("criterion", ["sentences=0.5", "arcs=0.05"])
def test_thresholds_of_a_cascade(criterion: str, checkpoint: Path, small: Path, tmp_path: Path) -> None:
    plain = load_network(checkpoint)
    torch.manual_seed(0)
    pruner = Vine(stages=("first",), arc_size=6, scorer=Biaffine(8))
    settings = {name: plain.settings[name] for name in ("encoder", "scorer")}
    parser = LightningParser(plain.vocabulary, **settings, pruner=pruner, decoder=Projective())
    for weight in cast(CascadePruner, parser.pruner).scorers.parameters():
        torch.nn.init.normal_(weight)
    contents: dict[str, object] = {"state_dict": parser.state_dict()}
    parser.on_save_checkpoint(contents)
    torch.save(contents, tmp_path / "before.ckpt")
    run(tmp_path / "before.ckpt", small, "--pruner", criterion, "-o", tmp_path / "after.ckpt")
    after = load_network(tmp_path / "after.ckpt").eval()
    name, share = criterion.split("=")
    assert after.settings["pruner"] == replace(pruner, criterion=name, error=float(share))
    cascade = cast(CascadePruner, after.pruner)
    cascade.watch()
    after.score(batch_of(list(read_conll(small)), after.vocabulary)).parts(after.decoder)
    lost = cascade.figures(lambda value, _: value)["first/sentence_error" if name == "sentences" else "first/error"]
    assert 0 < lost <= 100 * float(share)
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--pruner", "words=0.1", "-o", "x.ckpt"], 1, "--pruner words=0.1: give sentences=SHARE or arcs=SHARE"),
        (["--pruner", "arcs=2", "-o", "x.ckpt"], 1, "--pruner arcs=2: give"),
        (["--pruner", "arcs=0.1"], 1, "name it with --output"),
        (["--pruner", "arcs=0.1", "-o", "x.ckpt"], 1, "the model has no pruning cascade"),
        (["--decoder", "Absent", "--search", "a=1:2"], 1, "unknown decoder Absent; choose from ad3"),
        ([], 1, "MST has no settings that are searched by default; name some with --search: single_root=true"),
        (["--search", "fly=1:2"], 1, "--search fly: MST has no such setting"),
        (["--search", "single_root=0:1"], 1, "list its values"),
        (["--search", "single_root=true,false", "--trials", "0"], 1, "--trials must be positive"),
        (["--search", "single_root=true,false", "--max-tokens", "0"], 1, "--max-tokens must be positive"),
        (["--search", "single_root=true,false", "--seed", "-1"], 1, "--seed must lie in 0.."),
        (["--search", "single_root=true,false", "-o", "absent/out.yaml"], 1, "absent"),
    ],
)
def test_mistakes_end_in_a_line(
    checkpoint: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    found, printed = failure(capsys, checkpoint, FIXTURE, *arguments)
    assert found == code
    assert message in printed
    assert printed.count("\n") == 1


def test_trees_are_needed(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    blind = "1\tRain\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(blind))
    code, message = failure(
        capsys, checkpoint, "-", "--search", "single_root=true,false", "-o", tmp_path / "tuned.yaml"
    )
    assert code == 1
    assert "<stdin>:1: " in message
    assert "word 1 has no head" in message
    assert not list(tmp_path.iterdir())


def test_optuna_is_needed(
    checkpoint: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    imported = builtins.__import__

    def without_optuna(name: str, *rest: Any) -> Any:
        if name.split(".")[0] == "optuna":
            raise ModuleNotFoundError(name, name=name)
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_optuna)
    code, message = failure(capsys, checkpoint, FIXTURE, "--search", "single_root=true,false")
    assert code == 1
    assert 'pip install "arbora[tune]"' in message


@pytest.mark.parametrize("decoder", [HillClimbing(), Greedy(), AD3()], ids=lambda decoder: type(decoder).__name__)
def test_default_ranges_contain_the_default_values(decoder: Decoder) -> None:
    setup = Setup(decoder)
    space = search_space([], setup)
    assert space
    for name, distribution in space.items():
        if setup[name] is not None:
            assert distribution._contains(distribution.to_internal_repr(setup[name])), name
