"""What does each pruner of a vine cascade leave, by both criteria, and what does a cascade cost?

    python benchmarks/pruning.py CHECKPOINT TREEBANK [--trials] [--speed]

CHECKPOINT is a projective parser of third order, trained on the treebank: `arbora train --config vine_cascade
--model.pruner Shared`. Its encoder reads the treebank once, and each pruner then learns from these vectors, which do
not change. Prints for the test part the pruning efficiency (PE), 100 (1 - |A| / n^2), the oracle UAS and alpha, tuned
on the development part so that a stage loses a gold arc in 20 % of the sentences, or 0.2 % of the gold arcs:

1. one stage behind the dictionary: LOCALSHORT, and the vine by filter loss, likelihood and odds;
2. whole cascades, trained together and stage by stage;
3. with `--trials`, instead, other ways to learn the vine by filter loss;
4. with `--speed`, CPU time per word on one thread of all that comes after the encoder, for third order behind cascades
   next to first order without pruning, in turn, medians; and where the time goes.
"""

import argparse
import copy
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from arbora.data.conll import read_conll
from arbora.decoders.kernels.threads import set_num_threads
from arbora.decoders.vine.searches import Criterion
from arbora.model.loading import load_network
from arbora.model.network import Network, NetworkScores
from arbora.model.pruners.settings import Vine
from arbora.model.pruners.vine import CascadePruner
from arbora.model.scorers.biaffine import ArcScorer, Biaffine
from arbora.reproduction.report import machine
from arbora.reproduction.vine import time_stages
from arbora.reproduction.vine_setups import Reader, Setup

CRITERIA: dict[Criterion, float] = {"sentences": 0.2, "arcs": 0.002}


@dataclass(frozen=True)
class Trial:
    """Settings of a pruner, and how it learns."""

    pruner: Mapping[str, Any] = field(default_factory=dict)
    epochs: float = 1.0  # times those of the others
    optimizer: type[torch.optim.Optimizer] = torch.optim.AdamW
    rate: float = 2e-3
    decay: float = 0.01


def vine(**more: Any) -> dict[str, Any]:
    """Settings of the vine behind the dictionary."""
    return {"stages": ("dictionary", "vine"), **more}


CASCADE = ("dictionary", "vine", "first", "second")
STAGES = {
    "LOCALSHORT": Trial({"stages": ("dictionary", "local_short")}),
    "vine, filter loss": Trial(vine()),
    "vine, posterior": Trial(vine(filter="posterior")),
    "vine, odds": Trial(vine(filter="odds")),
    "LOCALSHORT, parser's vectors": Trial({"stages": ("dictionary", "local_short"), "vectors": "parser"}),
    "vine, filter loss, parser's vectors": Trial(vine(vectors="parser")),
    "vine, odds, parser's vectors": Trial(vine(filter="odds", vectors="parser")),
}
CASCADES = {
    "VINECASCADE": Trial({"stages": CASCADE, "second_filters": "siblings", "stagewise": True}),
    "VINECASCADE, learnt together": Trial({"stages": CASCADE, "second_filters": "siblings"}),
    "VINECASCADE, parser's vectors": Trial(
        {"stages": CASCADE, "second_filters": "siblings", "stagewise": True, "vectors": "parser"}
    ),
    "VINECASCADE, without second": Trial({"stages": CASCADE[:3], "stagewise": True}),
    "VINECASCADE, without second, parser's vectors": Trial(
        {"stages": CASCADE[:3], "stagewise": True, "vectors": "parser"}
    ),
    "VINEODDS": Trial({"stages": CASCADE, "filter": "odds"}),
    "VINEOWN": Trial({"stages": ("dictionary", "vine", "own"), "filter": "odds", "vine_size": 16}),
}
TRIALS = {
    **{f"vine, SGD, rate {rate:g}": Trial(vine(), 1, torch.optim.SGD, rate, 1e-4) for rate in (0.1, 0.5)},
    **{f"vine, SGD, lambda {decay:g}": Trial(vine(), 1, torch.optim.SGD, 0.1, decay) for decay in (0.0, 1e-2)},
    **{f"vine, decay {decay:g}": Trial(vine(), decay=decay) for decay in (0.0, 0.3, 3.0)},
    "vine, vectors of 128": Trial(vine(vine_size=128)),
    "vine, no dropout": Trial(vine(dropout=0.0)),
    "vine, band 5": Trial(vine(band=5)),
    "vine, alpha 0.9": Trial(vine(alpha=(0.9,))),
    "vine, three times the epochs": Trial(vine(), 3),
    "LOCALSHORT, vectors of 128": Trial({"stages": ("dictionary", "local_short"), "vine_size": 128}),
}


def learn(parser: Network, trial: Trial, train: Reader, dev: Reader, epochs: int) -> None:
    """Give a trained parser a pruner that learns from vectors that do not change."""
    torch.manual_seed(1)
    settings = Vine(**{"directed": False, "criterion": "sentences", "error": 0.2, **trial.pruner})
    cascade = settings.build(parser.vocabulary, train.parser.encoder.size, scorer=parser.settings["scorer"])
    assert isinstance(cascade, CascadePruner)
    parser.requires_grad_(False).eval()
    parser.pruner = cascade
    batches, epochs = train.read(max_tokens=1000).batches, round(trial.epochs * epochs)
    for phase in range(cascade.phases):
        cascade.start_phase(phase)
        options = {"betas": (0.9, 0.95)} if trial.optimizer is torch.optim.AdamW else {}
        optimizer = trial.optimizer(cascade.parameters(), lr=trial.rate, weight_decay=trial.decay, **options)  # type: ignore[call-arg]
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, epochs * len(batches))
        for _ in range(epochs):
            cascade.train()
            for place in torch.randperm(len(batches)).tolist():
                _, batch, wide = batches[place]
                scores = NetworkScores(parser, batch, parser.encoder.narrow(wide)).pruner_scores
                loss = cascade.loss(scores, batch, parser.decoder) / batch.lengths.sum()
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(cascade.parameters(), 5.0)
                optimizer.step()
                schedule.step()
            cascade.eval()
            dev.tune(parser, "sentences", CRITERIA["sentences"])


def report(name: str, setup: Setup, test: Reader, dev: Reader) -> None:
    """Print a row: PE, oracle and alpha by both criteria; leaves the pruner tuned by sentences."""
    cells = []
    for criterion, error in reversed(CRITERIA.items()):
        dev.tune(setup.parser, criterion, error)
        found = setup.figures(test.sentences)
        alpha = ", ".join(f"{value:.2g}" for value in setup.parser.pruner.alpha.tolist())  # type: ignore[union-attr]
        cell = f"{found['efficiency']:.1f} / {found['oracle_uas']:.1f} / {alpha} | {found['arcs_per_word']:.2f}"
        cells.append(f"{cell} | {found['uas']:.2f}")
    print(f"| {name} | {' | '.join(reversed(cells))} |", flush=True)


def time_setups(setups: dict[str, Setup], repeats: int) -> None:
    """Print microseconds per word, all set-ups in turn, and those of stages."""
    seconds: dict[str, list[float]] = {name: [] for name in setups}
    for _ in range(repeats + 1):
        for name, setup in setups.items():
            seconds[name].append(setup.seconds())
    median = {name: statistics.median(times[1:]) for name, times in seconds.items()}
    for name, setup in setups.items():
        micro = 1e6 / setup.encoded.words
        line = f"| {name} | {micro * median[name]:.2f} | {micro * min(seconds[name][1:]):.2f} to "
        line += f"{micro * max(seconds[name][1:]):.2f} | {next(iter(median.values())) / median[name]:.2f} |"
        stages = {} if setup.parser.pruner is None else time_stages(setup, repeats)
        print(line, ", ".join(f"{stage} {micro * time:.2f}" for stage, time in stages.items()), "|", flush=True)


def main() -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", help="trained parser")
    parser.add_argument("treebank", type=Path, help="folder with train.conllu, dev.conllu and test.conllu")
    parser.add_argument("--epochs", type=int, default=5, help="of each pruner, or of each stage (default: 5)")
    parser.add_argument("--trials", action="store_true", help="learn the vine in other ways, and nothing else")
    parser.add_argument("--speed", action="store_true", help="time whole cascades")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only rows of these names")
    parser.add_argument("--repeats", type=int, default=7, help="timed runs, after one that is not (default: 7)")
    options = parser.parse_args()
    set_num_threads(1)
    torch.set_num_threads(1)
    print(f"{machine()}; {options.treebank.name}, {options.epochs} epochs\n")
    encoder = load_network(options.checkpoint)
    train, dev, test = (
        Reader(encoder, list(read_conll(options.treebank / f"{part}.conllu"))) for part in ("train", "dev", "test")
    )
    print(
        "| | by sentences: PE / oracle / alpha | arcs per word | by arcs: PE / oracle / alpha | arcs per word | UAS |"
    )
    setups: dict[str, Setup] = {}
    for name, trial in (TRIALS if options.trials else STAGES | CASCADES).items():
        if options.only is None or name in options.only:
            setups[name] = Setup.of(name, load_network(options.checkpoint), test.read())
            learn(setups[name].parser, trial, train, dev, options.epochs)
            report(name, setups[name], test, dev)
    if options.speed:
        third = {name: setups[name] for name in CASCADES if name in setups}
        if "VINECASCADE" in third:
            by_arcs = copy.deepcopy(third["VINECASCADE"])
            dev.tune(by_arcs.parser, "arcs", CRITERIA["arcs"])
            third["VINECASCADE, by arcs"] = by_arcs
        firsts = {}
        for size in (None, Biaffine().arc):
            first = load_network(options.checkpoint)
            first.parts = first.pruner = None
            if size is not None:  # time does not depend on what it has learnt
                first.encoder.narrow = torch.nn.Identity()
                first.arc = ArcScorer(test.read().batches[0][2].shape[-1], Biaffine(arc=size))
            name = f"first order{'' if size is None else f', vectors of {size}'}, no pruning"
            firsts[name] = Setup.of(name, first, test.read())
        print("\n| | µs per word | least to most | speed | of that |")
        time_setups(firsts | third, options.repeats)


if __name__ == "__main__":
    main()
