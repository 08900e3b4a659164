"""A reproduction as a folder: parsers are trained into it, and what each step found is kept, so that an interrupted
run can be resumed.

    RUN/settings.json          what was asked for; other settings are refused
    RUN/treebank/*.conllu      the sentences, where they are limited
    RUN/models/NAME-SEED/      as `arbora train` writes it; `finished.json` stands there when training is done
    RUN/steps/NAME-SEED.json   figures of a step
    RUN/report.md, report.json
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import yaml
from numpy.typing import NDArray

from arbora.cli import train, train_linear
from arbora.cli.scoring import Pass
from arbora.data.conll import Sentence, open_output, read_conll
from arbora.decoders import MST
from arbora.decoders.kernels.threads import get_num_threads, set_num_threads
from arbora.evaluation.saved import ScoredTreebank
from arbora.model.inference.batch_parser import BatchParser, ParsingSettings
from arbora.model.inference.stream import score_sentences
from arbora.model.loading import load_backend
from arbora.reproduction import parsers
from arbora.reproduction.published import Source
from arbora.reproduction.report import Report, Table, arbora_version, machine, read_json, write_json

Part = Literal["train", "dev", "test"]
PARTS: tuple[Part, ...] = ("train", "dev", "test")
Scores = Literal["networks", "linear"]
SETTINGS = "settings.json"
FINISHED = "finished.json"
SCORES = {"networks": "networks", "linear": "linear models, learnt with MIRA"}
KEPT = 3
"""Parsers whose scores are kept in memory."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Budget:
    """Amount of training and data.

    Args:
        epochs: of training.
        pruner_epochs: of training a pruner for a trained parser.
        limit: sentences of each part; None for all.
        seeds: parsers of each kind, each with a seed of its own.
        repeats: runs that are timed, after one that is not.
        restarts: most climbs of hill-climbing.
        patience: climbs without a better tree after which hill-climbing stops.
        trials: settings of greedy search that are tried on the development part.
        folds: samples of the training part to learn from with little supervision, for each seed.
        sample: sentences of such a sample.
    """

    epochs: int = parsers.EPOCHS
    pruner_epochs: int = 5
    limit: int | None = None
    seeds: int = 1
    repeats: int = 3
    restarts: int = 3000
    patience: int = 300
    trials: int = 60
    folds: int = 2
    sample: int = 500


BUDGETS = {
    "quick": Budget(
        epochs=5, pruner_epochs=2, limit=500, repeats=1, restarts=300, patience=100, trials=30, folds=1, sample=100
    ),
    "normal": Budget(),
    "full": Budget(seeds=3),
}


@dataclass(frozen=True)
class Settings:
    """A request: everything that figures depend on.

    Args:
        paper: its name.
        treebank: folder with train.conllu, dev.conllu and test.conllu.
        budget: how much is done.
        seeds: of training, one parser of each kind for each.
        models: trained parsers by name, to use instead of training.
        threads: of scoring and decoding.
        device: for scoring.
        longest: words of the longest sentences that are parsed without pruning at second and third order.
        pruner: settings of all pruners that are learnt, besides those that make them what they are.
        scores: of networks, or of linear models.
    """

    paper: str
    treebank: str
    budget: Budget
    seeds: tuple[int, ...] = (1,)
    models: Mapping[str, str] = field(default_factory=dict)
    threads: int = 1
    device: str = "auto"
    longest: int = 100
    pruner: Mapping[str, Any] = field(default_factory=dict)
    scores: Scores = "networks"

    def plain(self) -> dict[str, Any]:
        """As plain data, with checksums of files and the version of this package."""
        files = {part: _checksum(Path(self.treebank) / f"{part}.conllu") for part in PARTS}
        models = {name: _checksum(Path(path)) for name, path in self.models.items()}
        found = asdict(self) | {"seeds": list(self.seeds), "models": dict(self.models), "pruner": dict(self.pruner)}
        return found | {"checksums": files | models, "version": arbora_version()}


def _checksum(path: Path) -> str:
    """Return the digest of a file, or of the files of an exported folder."""
    found = hashlib.sha256()
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        with file.open("rb") as stream:
            found.update(hashlib.file_digest(stream, "sha256").digest())
    return found.hexdigest()


@dataclass(frozen=True)
class Paper:
    """A paper whose tables are reproduced.

    Args:
        name: on the command line.
        source: where its figures are from.
        models: what to train, by name: the settings of `model` in a configuration, or settings of linear models.
        measure: takes a run, a seed, and the trained parsers; what it finds, as plain data by the names of steps.
        tables: takes what was found for each seed, and the run.
        summary: tables over several treebanks; takes what was found for each seed, by treebank.
    """

    name: str
    source: Source
    models: Mapping[str, dict[str, Any]]
    measure: Callable[[Run, int, Mapping[str, Path]], dict[str, Any]]
    tables: Callable[[Sequence[dict[str, Any]], Run], list[Table]]
    summary: Callable[[Mapping[str, Sequence[dict[str, Any]]]], list[Table]] | None = None


class Run:
    """The folder of a reproduction.

    Args:
        folder: new, or that of a run with the same settings.
        settings: what is asked for.
        say: is told what is going on.

    Raises:
        ValueError: the folder holds something else, or a run with other settings.
    """

    def __init__(self, folder: Path, settings: Settings, say: Say | None = None) -> None:
        self.folder = folder
        self.settings = settings
        self.say = say or _nothing
        self._scored: dict[tuple[Path, Part], ScoredTreebank] = {}
        asked = settings.plain()
        if (folder / SETTINGS).exists():
            _check_same(folder, read_json(folder / SETTINGS), asked)
        elif folder.exists() and any(folder.iterdir()):
            raise ValueError(f"{folder} has other files than those of a reproduction: give another --run")
        for part in PARTS:  # what is wrong with a file is found before anything is written
            for _ in read_conll(Path(settings.treebank) / f"{part}.conllu"):
                pass
        for name in ("steps", "models"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        write_json(folder / SETTINGS, asked)

    def file(self, part: Part) -> Path:
        """The sentences of a part, as many as are asked for; for parsers that are trained already, all to train on.

        What is learnt for a trained parser must see the words that this has seen.
        """
        whole, limit = Path(self.settings.treebank) / f"{part}.conllu", self.settings.budget.limit
        if limit is None or (part == "train" and self.settings.models):
            return whole
        some = self.folder / "treebank" / whole.name
        if not some.exists():
            some.parent.mkdir(exist_ok=True)
            with open_output(some) as output:
                for sentence in islice(read_conll(whole), limit):
                    output.write(sentence.with_tree(sentence.head, sentence.deprel))
        return some

    def sample(self, seed: int, fold: int) -> Path:
        """Sentences of the training part that are drawn at random, as many as the budget has for a sample."""
        path = self.folder / "treebank" / f"sample{fold}-{seed}.conllu"
        if not path.exists():
            every = list(read_conll(self.file("train")))
            drawn = np.random.default_rng([seed, fold]).permutation(len(every))[: self.settings.budget.sample]
            path.parent.mkdir(exist_ok=True)
            with open_output(path) as output:
                for i in sorted(drawn.tolist()):
                    output.write(every[i].with_tree(every[i].head, every[i].deprel))
        return path

    @cached_property
    def test(self) -> list[Sentence]:
        """Sentences on which figures are measured."""
        return list(read_conll(self.file("test")))

    def step(self, name: str, seed: int, compute: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of a step, as plain data; it is computed once for a run.

        Args:
            name: of the step.
            seed: of the parsers that it looks at.
            compute: takes the run and the arguments.
            arguments: of `compute`.
        """
        path = self.folder / "steps" / f"{name}-{seed}.json"
        if not path.exists():
            self.say(f"{name}, seed {seed}")
            started = time.perf_counter()
            write_json(path, compute(self, *arguments))
            self.say(f"{name}, seed {seed}: {time.perf_counter() - started:.0f} s")
        return read_json(path)

    def model(self, name: str, seed: int, settings: Mapping[str, Any], train: Path | None = None) -> Path:
        """A trained parser: that of the user, the one that was trained before, or a new one.

        Args:
            name: of the parser.
            seed: of training.
            settings: what stands under `model` in a configuration, or settings of a linear model.
            train: sentences to train on, instead of the training part.
        """
        if name in self.settings.models:
            return Path(self.settings.models[name])
        return self._trained(name, seed, settings, self.settings.budget.epochs, train) / "best.ckpt"

    def pruner(self, name: str, seed: int, parser: Path, settings: Mapping[str, Any]) -> Path:
        """A trained parser with a pruner that is learnt for it, all else being frozen.

        It is the one of the last epoch: accuracy hardly depends on the pruner, and says nothing of how much it prunes.
        Stages that are trained one after the other have all epochs each.

        Args:
            name: of the parser with this pruner.
            seed: of training.
            parser: the trained one.
            settings: of the pruner.
        """
        arguments = settings["init_args"]
        scored = [stage for stage in arguments["stages"] if stage not in ("dictionary", "own")]
        epochs = self.settings.budget.pruner_epochs * (len(scored) if arguments.get("stagewise") else 1)
        return self._trained(name, seed, {"trained": str(parser), "pruner": settings}, epochs) / "last.ckpt"

    def _trained(
        self, name: str, seed: int, settings: Mapping[str, Any], epochs: int, sentences: Path | None = None
    ) -> Path:
        """The folder of a training that is done, now or before."""
        folder = self.folder / "models" / f"{name}-{seed}"
        if (folder / FINISHED).exists():
            return folder
        data: dict[str, Any] = {part: str(self.file(part)) for part in PARTS}
        if sentences is not None:
            data["train"] = str(sentences)
        if self.settings.scores == "linear":
            learning = {**settings.get("learning", {}), "epochs": epochs, "seed": seed}
            data.pop("test")
            configuration = {"model": "linear", "run": str(folder), "data": data, **settings, "learning": learning}
        else:
            configuration = {
                "seed_everything": seed,
                "run": str(folder),
                "model": settings,
                "data": data | {"max_tokens": parsers.MAX_TOKENS, "seed": seed},
                "trainer": {
                    "max_epochs": epochs,
                    "enable_model_summary": False,
                    "enable_progress_bar": sys.stderr.isatty(),
                    "num_sanity_val_steps": 0,  # a pruner that has learnt nothing leaves too much for third order
                },
            }
        folder.mkdir(parents=True, exist_ok=True)
        asked = folder / "asked.yaml"
        with open_output(asked) as output:
            output.write(yaml.safe_dump(configuration, sort_keys=False))
        goes_on = ["--ckpt_path", "last"] if (folder / "last.ckpt").exists() else []
        self.say(f"{'going on with' if goes_on else 'training'} {name}, seed {seed}, epochs: {epochs}")
        started = time.perf_counter()
        with redirect_stdout(sys.stderr):
            trainer = train_linear if self.settings.scores == "linear" else train
            trainer.main(["fit", "--config", str(asked), *goes_on])
        seconds = time.perf_counter() - started
        write_json(folder / FINISHED, {"seconds": round(seconds, 1)})
        self.say(f"trained {name}, seed {seed}: {seconds:.0f} s")
        return folder

    def score(self, model: Path, part: Part = "test") -> ScoredTreebank:
        """A part with scores of a parser, and for the test part the time that they take; kept for a few parsers."""
        if (model, part) not in self._scored:
            if len(self._scored) >= KEPT:
                self._scored.clear()
            self._scored[model, part] = self._score(model, part)
        return self._scored[model, part]

    def _score(self, model: Path, part: Part) -> ScoredTreebank:
        sentences = self.test if part == "test" else list(read_conll(self.file(part)))
        with self.threads():
            run = Pass.of(
                load_backend(model, device=self.settings.device, threads=self.settings.threads),
                max_tokens=4000,
                single_root=True,
                projective=False,
                pruning=False,
            )
            batches = list(run(sentences))
            seconds = run.seconds(sentences, self.settings.budget.repeats, _nothing) if part == "test" else []
        scoring = {"seconds": seconds, "words": sum(map(len, sentences)), "threads": self.settings.threads}
        return ScoredTreebank(
            sentences,
            [batch.parts for batch in batches],
            np.concatenate([batch.position for batch in batches]),
            [batch.label for batch in batches],
            run.labels,
            {"model": str(model), "scoring": scoring},
        )

    def score_with_trees(self, model: Path, trees: NDArray[np.int32], scored: ScoredTreebank) -> ScoredTreebank:
        """Scores of sentences whose candidates include given trees, as in `arbora predict --ensemble`; without labels.

        Args:
            model: the parser that scores.
            trees: heads of all words, as another parser found them.
            scored: the sentences, with the time that scoring takes.
        """
        ends = np.cumsum(scored.lengths)[:-1]
        guided = [replace(s, head=heads.tolist()) for s, heads in zip(scored.sentences, np.split(trees, ends))]
        place = {sentence.line_number: i for i, sentence in enumerate(guided)}
        with self.threads():
            backend = load_backend(model, device=self.settings.device, threads=self.settings.threads)
            parser = BatchParser(backend, MST(), ParsingSettings(max_tokens=4000, gamma=(0.0,)))
            batches = list(score_sentences(parser, guided))
        position = [place[sentence.line_number] for batch in batches for sentence in batch.sentences]
        label = [np.zeros(len(batch.parts.head), np.int32) for batch in batches]
        parts = [batch.parts for batch in batches]
        return ScoredTreebank(scored.sentences, parts, np.array(position), label, ["_"], scored.about)

    @contextmanager
    def threads(self) -> Iterator[None]:
        """Score and decode with the threads that are asked for, and train with those that there were."""
        before = torch.get_num_threads(), get_num_threads()
        torch.set_num_threads(self.settings.threads)
        set_num_threads(self.settings.threads)
        try:
            yield
        finally:
            torch.set_num_threads(before[0])
            set_num_threads(before[1])


def _nothing(_: object) -> None:
    """Progress callback that does nothing."""


def _check_same(folder: Path, kept: dict[str, Any], asked: dict[str, Any]) -> None:
    """Refuse other settings. Files may have other names: their checksums are compared."""
    for name, value in asked.items():
        before = kept.get(name)
        if name in ("treebank", "models") or before == value:
            continue
        if isinstance(value, dict) and isinstance(before, dict):
            name, before, value = next(
                (f"{name}.{key}", before.get(key), value.get(key))
                for key in {**before, **value}
                if before.get(key) != value.get(key)
            )
        raise ValueError(f"{folder} is a run with {name} {before}, not {value}: give another --run")


def padded(heads: NDArray[np.int32], scored: ScoredTreebank) -> list[NDArray[np.int32]]:
    """Heads of all words, in the order of the file, as trees of each batch (B, N)."""
    offsets = np.concatenate([[0], np.cumsum(scored.lengths)])
    trees = []
    for parts, places in zip(scored.batches, scored.places(), strict=True):
        batch = parts.empty_trees()
        for b, place in enumerate(places):
            batch[b, 1 : scored.lengths[place] + 1] = heads[offsets[place] : offsets[place + 1]]
        trees.append(batch)
    return trees


def reproduce(paper: Paper, run: Run, command: str) -> Report:
    """Train, measure, and write the report of a paper.

    Args:
        paper: which.
        run: where.
        command: that was given, for the report.
    """
    settings, budget = run.settings, run.settings.budget
    results = []
    for seed in settings.seeds:
        models = {name: run.model(name, seed, its) for name, its in paper.models.items()}
        results.append(paper.measure(run, seed, models))
    words = sum(map(len, run.test))
    some = "" if budget.limit is None else f", the first {budget.limit:,} sentences of each part"
    training = f"{budget.epochs} epoch{'s' * (budget.epochs > 1)}"
    if set(paper.models) <= set(settings.models):
        training = "none"
    about = [
        f"`{command}`",
        f"paper: {paper.source.citation}. Columns marked (paper) are its own figures: {paper.source.data}; "
        f"{paper.source.machine}. All others are ours.",
        f"treebank: {Path(settings.treebank).name}{some}; figures are of the test part, {len(run.test):,} sentences, "
        f"{words:,} words, all tokens unless a column says otherwise",
        f"scores: {SCORES[settings.scores]}",
        f"training: {training}; seeds {', '.join(map(str, settings.seeds))}; scoring and decoding on "
        f"{settings.threads} thread{'s' * (settings.threads > 1)}, medians of {budget.repeats}",
        *(f"trained before: {name}, {path}" for name, path in settings.models.items()),
        f"arbora {arbora_version()}; {machine()}",
    ]
    report = Report(
        f"{paper.name}, {Path(settings.treebank).name}",
        about,
        paper.tables(results, run),
        settings.plain(),
        {str(seed): result for seed, result in zip(settings.seeds, results)},
    )
    report.write(run.folder)
    return report
