import csv
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from parsing import parse_batch

from arbora.cli import main
from arbora.cli.train import TrainCLI
from arbora.cli.train_arguments import spelled_out
from arbora.data.batch import Batch
from arbora.data.conll import read_conll
from arbora.data.treebank import Treebank
from arbora.decoders import Projective
from arbora.evaluation import non_projective_arcs
from arbora.model.loading import load_network
from arbora.model.pruners.vine import CascadePruner
from arbora.model.training import LightningParser

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "treebank"
SMALL = [
    "--model.encoder.size=10",
    "--model.encoder.layers=1",
    "--model.encoder.embeddings.words=8",
    "--model.encoder.embeddings.characters=6",
    "--model.scorer.arc=10",
    "--model.scorer.label=10",
    "--trainer.accelerator=cpu",
    "--trainer.enable_progress_bar=false",
    "--trainer.enable_model_summary=false",
]
SETTINGS = [
    f"--data.train={EXAMPLES / 'train.conllu'}",
    f"--data.dev={EXAMPLES / 'dev.conllu'}",
    "--data.sample=60",
    "--data.max_tokens=300",
    "--model.encoder=SRU",
    *SMALL,
]


def train(run: Path, *arguments: str) -> None:
    main(["train", *SETTINGS, f"--run={run}", *arguments])


def weights(run: Path, name: str = "last.ckpt") -> dict[str, torch.Tensor]:
    return torch.load(run / name, weights_only=True)["state_dict"]


def test_a_resumed_run_ends_with_the_same_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    step = LightningParser.training_step

    def killed_in_third_epoch(self: LightningParser, batch: Batch, index: int) -> torch.Tensor:
        if (self.trainer.current_epoch, index) == (2, 1):
            raise ValueError("killed")
        return step(self, batch, index)

    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(whole, "--trainer.max_epochs=4")
    printed = capsys.readouterr().out
    figures = r"UAS \d+\.\d\d LAS \d+\.\d\d LAS \(full labels\) \d+\.\d\d"
    for epoch in range(1, 5):
        shown = r"UAS \d+\.\d\d LAS \d+\.\d\d \(best( in \d)?\)"
        line = rf"^epoch {epoch}/4: loss \d+\.\d\d, {shown}, [\d,]+ words/s, \d\d:\d\d left$"
        found = re.search(line, printed, re.MULTILINE)
        assert found
        assert len(found[0]) <= 80
    assert re.search(rf"^best: epoch [1-4] of 4, dev {figures}$", printed, re.MULTILINE)
    assert re.search(r"^dev LAS was (still|not) rising", printed, re.MULTILINE)
    assert f"next: arbora predict {whole}/best.ckpt" in printed
    for noise in ("Sanity", "v_num", "FLOPs"):
        assert noise not in printed

    with monkeypatch.context() as patch:
        patch.setattr(LightningParser, "training_step", killed_in_third_epoch)
        with pytest.raises(SystemExit):
            train(parts, "--trainer.max_epochs=4")
    assert "killed" in capsys.readouterr().err
    stopped = weights(parts)
    with pytest.raises(SystemExit):
        train(parts, "--trainer.max_epochs=4")
    assert "already has a run" in capsys.readouterr().err
    train(parts, "--trainer.max_epochs=4", f"--ckpt_path={parts / 'last.ckpt'}")

    expected, found = weights(whole), weights(parts)
    assert all(torch.equal(expected[name], found[name]) for name in expected)
    assert not all(torch.equal(stopped[name], found[name]) for name in expected)


def test_an_interrupted_run_says_how_to_resume_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    step = LightningParser.training_step
    before = signal.getsignal(signal.SIGINT)
    for epoch, message in enumerate(["nothing to resume", f"{tmp_path / '1'}/config.yaml --ckpt_path last"]):

        def interrupted(self: LightningParser, batch: Batch, index: int, epoch: int = epoch) -> torch.Tensor:
            if self.trainer.current_epoch == epoch:
                raise KeyboardInterrupt
            return step(self, batch, index)

        monkeypatch.setattr(LightningParser, "training_step", interrupted)
        with pytest.raises(SystemExit) as stopped:
            train(tmp_path / str(epoch), "--trainer.max_epochs=2")
        signal.signal(signal.SIGINT, before)  # which Lightning ignores from then on
        assert stopped.value.code == 130
        assert message in capsys.readouterr().err


def test_the_log_says_what_evaluate_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Labels without subtypes are compared even where the training part does not have the subtype."""
    run, gold, parsed = tmp_path / "run", tmp_path / "gold.conllu", tmp_path / "parsed.conllu"
    text = (EXAMPLES / "dev.conllu").read_text(encoding="utf-8")
    gold.write_text(text.replace("\tnsubj\t", "\tnsubj:unseen\t").replace("\tdet\t", "\tunseen\t"), encoding="utf-8")
    train(run, "--trainer.max_epochs=1")
    capsys.readouterr()
    main(["train", "test", f"--config={run / 'config.yaml'}", f"--data.test={gold}"])
    found = re.search(r"test: UAS (\S+) LAS (\S+) LAS \(full labels\) (\S+)", capsys.readouterr().out)
    assert found
    main(["predict", str(run / "best.ckpt"), str(gold), "-o", str(parsed), "--quiet"])
    capsys.readouterr()
    main(["evaluate", str(gold), str(parsed), "--json"])
    figures = json.loads(capsys.readouterr().out)
    assert figures["las"] > figures["las_full"]
    assert [f"{figures[name]:.2f}" for name in ("uas", "las", "las_full")] == list(found.groups())


def test_a_folder_of_universal_dependencies_is_taken_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "UD_Greek-GDT"
    folder.mkdir()
    for name in ("el_gdt-ud-train.conllu", "el_gdt-ud-dev.conllu", "el_gdt-ud-test.conllu", "README.md"):
        (folder / name).touch()
    (folder / "not-to-release").mkdir()
    parts = [f"--data.{part}={folder}/el_gdt-ud-{part}.conllu" for part in ("train", "dev", "test")]
    assert spelled_out(["--data", str(folder), "--run", "x"]) == [*parts, "--run", "x"]
    assert spelled_out([f"--data={folder}"]) == parts
    (folder / "el_gdt-ud-dev.conllu").unlink()
    with pytest.raises(ValueError, match="there is no file whose name ends in dev.conllu"):
        spelled_out(["--data", str(folder)])
    for name in ("a-ud-dev.conllu", "b-ud-dev.conllu"):
        (folder / name).touch()
    with pytest.raises(ValueError, match="several files for dev: a-ud-dev.conllu, b-ud-dev.conllu; name one"):
        spelled_out(["--data", str(folder)])


def test_decoders_are_named_as_everywhere(tmp_path: Path) -> None:
    assert spelled_out(["--model.decoder", "ad3(max_iterations=50)"])[:2] == ["--model.decoder", "AD3"]
    assert "--model.decoder.max_iterations=50" in spelled_out(["--model.decoder=ad3(max_iterations=50)"])
    assert "--model.training_decoder.rho=null" in spelled_out(["--model.training_decoder", "AD3"])


def test_a_run_leaves_logs_configuration_and_a_checkpoint_that_loads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(tmp_path / "run", "--trainer.max_epochs=1", "--model.decoder=Eisner", "--model.loss=[hinge, cross_entropy]")
    run = tmp_path / "run"
    (log,) = run.glob("logs/version_0/metrics.csv")
    with log.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {"dev/LAS", "dev/LAS_full", "dev/UAS", "train/hinge", "train/violations", "train/label"} <= set(rows[0])
    assert list(run.glob("logs/version_0/events.out.tfevents.*"))
    parser = load_network(run / "best.ckpt")
    assert type(parser.decoder).__name__ == "Eisner"
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["model"]["encoder"]["init_args"]["size"] == 10
    capsys.readouterr()
    best = next(float(row["dev/LAS"]) for row in rows if row["dev/LAS"])
    for more in ([], ["--ckpt_path=best"], [f"--ckpt_path={run / 'last.ckpt'}"]):
        main(["train", "validate", f"--config={run / 'config.yaml'}", *more])
        assert re.search(
            rf"^dev: UAS \d+\.\d\d LAS {best:.2f} LAS \(full labels\)", capsys.readouterr().out, re.MULTILINE
        )


def test_another_encoder_cannot_be_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(tmp_path / "run", "--trainer.max_epochs=1")
    with pytest.raises(SystemExit) as stopped:
        train(tmp_path / "run", "--model.encoder.size=12", "--ckpt_path=last")
    assert stopped.value.code == 1
    assert "--model.encoder differs from the checkpoint" in capsys.readouterr().err


def test_another_training_part_cannot_be_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(tmp_path / "run", "--trainer.max_epochs=1")
    with pytest.raises(SystemExit) as stopped:
        train(tmp_path / "run", "--data.fold=3", f"--ckpt_path={tmp_path / 'run' / 'last.ckpt'}")
    assert stopped.value.code == 1
    assert "another training part" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--data.train=absent.conllu"], 1, "absent.conllu: No such file or directory"),
        (["--data.sample=1000000"], 1, "data.sample is 1000000"),
        (["--model.decoder=Absent"], 1, "unknown decoder Absent; choose from ad3"),
        (["--model.losses=hinge"], 2, "losses"),
        (["--ckpt_path=last"], 1, "last.ckpt: No such file or directory"),
        ([f"--ckpt_path={EXAMPLES / 'dev.conllu'}", f"--run={EXAMPLES}"], 1, "dev.conllu: not a checkpoint"),
        (["--ckpt_path=elsewhere/last.ckpt"], 1, "resumed in its own folder: give --run elsewhere"),
        (["--trainer.devices=0"], 1, "devices"),
        (["--model.encoder.dropout=1.5"], 1, "dropout must be"),
        (["--data.fold=-1"], 1, "data.fold must be at least 0"),
        ([f"--data.dev={ROOT / 'README.md'}"], 1, "README.md:1: "),
        (["--model.loss=[squared]"], 2, "squared"),
    ],
)
def test_mistakes_end_in_a_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        train(tmp_path, *arguments)
    printed = capsys.readouterr()
    assert stopped.value.code == code
    assert message in printed.err
    assert "Traceback" not in printed.err
    assert not any(tmp_path.iterdir())


CONFIGS = [path for path in sorted((ROOT / "configs").rglob("*.yaml")) if path.stem != "linear"]  # has its own tests


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_every_config_is_valid(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["arbora"])
    monkeypatch.setattr(TrainCLI, "instantiate_classes", lambda self: sys.exit(0))
    with pytest.raises(SystemExit) as stopped:
        TrainCLI(
            LightningParser,
            Treebank,
            args=["fit", f"--config={config}", f"--run={tmp_path}"],
            auto_configure_optimizers=False,
        )
    assert stopped.value.code == 0


def test_configurations_have_names(capsys: pytest.CaptureFixture[str]) -> None:
    def printed(*arguments: str) -> str:
        with pytest.raises(SystemExit):
            main(["train", *arguments, "--print_config"])
        return capsys.readouterr().out

    small, local = (str(ROOT / "configs" / name) for name in ("small.yaml", "pruners/local.yaml"))
    assert printed("--config", "small", "--config=pruners/local") == printed("-c", small, "--config", local)
    assert printed("-c", "small") != printed("-c", "demo") != ""


FIXTURE = ROOT / "tests" / "fixtures" / "treebank.conllu"
CASCADE = ROOT / "configs" / "vine_cascade.yaml"
CUT = [*SMALL, "--model.parts.rank=8"]


def made(run: Path, monkeypatch: pytest.MonkeyPatch, *configs: Path) -> LightningParser:
    """The parser that `arbora train` makes of some files, not trained."""
    parsers: list[LightningParser] = []
    monkeypatch.setattr(TrainCLI, "_run_subcommand", lambda self, _: parsers.append(self.model))
    laid = [f"--config={config}" for config in configs]
    main(["train", *laid, *CUT, f"--data.train={FIXTURE}", f"--data.dev={FIXTURE}", f"--run={run}"])
    (parser,) = parsers
    return parser


@pytest.mark.parametrize("config", sorted((ROOT / "configs" / "pruners").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_pruner_is_made(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = yaml.safe_load(config.read_text())["model"]["pruner"]
    parser = made(tmp_path, monkeypatch, CASCADE, config)
    assert isinstance(parser.decoder, Projective)  # the file below is still there
    pruner = parser.settings["pruner"]
    assert type(pruner).__name__ == written["class_path"]
    for name, value in written.get("init_args", {}).items():
        found = getattr(pruner, name)
        assert (list(found) if isinstance(found, tuple) else found) == value
    if isinstance(parser.pruner, CascadePruner):
        assert list(parser.pruner.scorers) == [stage for stage in pruner.stages if stage not in ("dictionary", "own")]
        assert len(parser.pruner.alpha) == len(pruner.learnt)


@pytest.mark.parametrize(
    ("settings", "code", "message"),
    [
        ({"stages": ["dictionary", "third"]}, 2, "third"),
        ({"stages": ["first", "vine"]}, 1, "pruner.stages must be some of"),
        ({"stages": ["vine", "first"], "alpha": [0.5]}, 1, "pruner.alpha must be one number for each of vine, first"),
        ({"filter": "marginal"}, 2, "marginal"),
        ({"bend": 3}, 2, "bend"),
    ],
    ids=["unknown stage", "order of stages", "too few alphas", "unknown filter", "unknown setting"],
)
def test_a_pruner_that_cannot_be_made_is_refused(
    settings: dict[str, object],
    code: int,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = tmp_path / "wrong.yaml"
    config.write_text(yaml.safe_dump({"model": {"pruner": {"class_path": "Vine", "init_args": settings}}}))
    with pytest.raises(SystemExit) as stopped:
        made(tmp_path, monkeypatch, CASCADE, config)
    assert stopped.value.code == code
    assert message in capsys.readouterr().err


def test_a_parser_with_a_cascade_is_trained_and_parses_by_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, parsed = tmp_path / "run", tmp_path / "parsed.conllu"
    short = ["--data.sample=40", "--data.max_tokens=300", "--trainer.max_epochs=1", f"--run={run}"]
    files = [f"--data.train={EXAMPLES / 'train.conllu'}", f"--data.dev={FIXTURE}"]
    main(["train", f"--config={CASCADE}", *CUT, *files, *short])
    parser = load_network(run / "best.ckpt")
    assert isinstance(parser.pruner, CascadePruner)
    assert parser.pruner.longest.any()  # of the training part
    with open(next(run.glob("logs/*/metrics.csv")), encoding="utf-8") as file:
        logged = set(next(csv.reader(file)))
    for stage in parser.pruner.stages:
        assert {f"dev/pruner/{stage}/{figure}" for figure in ("arcs_per_word", "error", "oracle_UAS")} <= logged
    assert {"train/hinge", "train/pruner", "dev/pruner/vine/crossing_error"} <= logged
    assert "dev/pruner/all/error" not in logged  # the decoder is projective

    main(["predict", str(run / "best.ckpt"), str(FIXTURE), "-o", str(parsed), "--decoder=VineCascade"])
    gold, found = list(read_conll(FIXTURE)), list(read_conll(parsed, single_root=True))
    assert [sentence.form for sentence in found] == [sentence.form for sentence in gold]
    lengths = np.array([len(sentence) for sentence in found])
    heads, gold_heads = (np.concatenate([sentence.head for sentence in part]) for part in (found, gold))
    assert non_projective_arcs(gold_heads, lengths).any()
    assert not non_projective_arcs(heads, lengths).any()
    capsys.readouterr()
    main(["evaluate", str(FIXTURE), str(parsed)])
    assert "UAS" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("step", "advice"),
    [
        (
            "training_step",
            "lower data.max_tokens, now 300; with half of it, --trainer.accumulate_grad_batches 2 leaves",
        ),
        ("validation_step", "lower data.max_eval_tokens, now 4000"),
    ],
)
def test_out_of_memory(
    step: str, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")

    monkeypatch.setattr(LightningParser, step, fail)
    with pytest.raises(SystemExit):
        train(tmp_path / "run", "--trainer.max_epochs=1")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"arbora train: not enough memory on cpu: {advice}")


@pytest.mark.slow
def test_two_devices_train_alike_and_see_every_dev_sentence_once(tmp_path: Path) -> None:
    arguments = [*SETTINGS, f"--run={tmp_path}", "--trainer.max_epochs=2", "--trainer.devices=2"]
    command = [sys.executable, "-m", "arbora.cli", "train", *arguments, "--trainer.strategy=ddp"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run(command, check=True, cwd=tmp_path, env=environment, timeout=300)
    saved = torch.load(tmp_path / "best.ckpt", weights_only=True)
    logged = next(
        float(state["best_model_score"]) for name, state in saved["callbacks"].items() if "ModelCheckpoint" in name
    )
    parser = load_network(tmp_path / "best.ckpt")
    treebank = Treebank(str(EXAMPLES / "train.conllu"), str(EXAMPLES / "dev.conllu"), sample=60)
    right = words = 0
    for batch in treebank.val_dataloader():
        found = parse_batch(parser, batch)
        correct = batch.is_word & (found.heads == batch.heads) & (found.labels == batch.labels)
        right, words = right + int(correct.sum()), words + int(batch.is_word.sum())
    assert words == sum(len(sentence) for sentence in treebank.sentences("dev"))
    assert logged == pytest.approx(100 * right / words, abs=1e-3)


@pytest.mark.parametrize("encoder", ["SRU", "LSTM"])
def test_mixed_precision(tmp_path: Path, encoder: str) -> None:
    more = [f"--model.encoder={encoder}", "--model.loss=[crf, hinge]", "--trainer.precision=bf16-mixed"]
    train(tmp_path / "run", "--trainer.max_epochs=1", *more)
    assert all(weight.isfinite().all() for weight in weights(tmp_path / "run").values())


HIGHER_ORDER = [
    "--model.parts.kinds=[grandparent, sibling, grand_sibling]",
    "--model.parts.rank=8",
    "--model.decoder=HillClimbing",
    "--model.decoder.start=best",
    "--model.loss=[cross_entropy, hinge]",
    "--trainer.max_epochs=1",
]


def test_higher_order_is_trained_pruned_and_parsed_with(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    train(first, *HIGHER_ORDER, "--trainer.precision=bf16-mixed")
    frozen = ["--model.pruner=Frozen", f"--model.pruner.checkpoint={first / 'best.ckpt'}", "--model.pruner.max_heads=3"]
    train(second, *HIGHER_ORDER, *frozen)
    (first / "best.ckpt").unlink()
    for run in (first, second):
        with open(next(run.glob("logs/*/metrics.csv")), encoding="utf-8") as file:
            logged = set(next(csv.reader(file)))
        assert {"train/hinge", "train/violations", "dev/oracle_UAS", "dev/arcs_per_word"} <= logged
        assert ("train/pruner" in logged) == (run == first)
    for decoder in ([], ["--decoder=MST"], ["--decoder=Eisner"]):
        parsed = tmp_path / "parsed.conllu"
        main(["predict", str(second / "best.ckpt"), str(EXAMPLES / "dev.conllu"), "-o", str(parsed), *decoder])
        main(["evaluate", str(EXAMPLES / "dev.conllu"), str(parsed)])


@pytest.mark.parametrize("script", ["train.py", "predict.py"])
def test_scripts_at_the_top_are_the_commands(script: str) -> None:
    command = [sys.executable, str(ROOT / script), "--help"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert f"usage: arbora {script.removesuffix('.py')}" in printed
