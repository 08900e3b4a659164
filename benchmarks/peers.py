"""How fast do Arbora and supar train and parse, on one file, in one run?

Both parsers have embeddings of words (100), an LSTM over letters (32 to 200), a BiLSTM of two layers (200) and biaffine
scorers (300 for arcs, 100 for labels), and nothing else: no tags. Each trains on the first sentences of a treebank for
some epochs, in batches of about the same number of positions, and then parses a file, from file to file. Each side runs
in a process of its own, and they take turns, so that all of them meet the same machine. Arbora parses with torch, as
supar does, and as exported with int8. Printed are words per second by the clock and by the processor, medians of the
rounds, and ratios to the peer.

supar 1.1.4 is on PyPI. It does not declare all that it imports, so give it an environment of its own:

    python -m venv peers
    peers/bin/pip install torch transformers nltk dill tqdm
    peers/bin/pip install --no-deps supar==1.1.4

    python benchmarks/peers.py train.conllu dev.conllu --peer peers/bin/python
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

FIGURES = ("training", "parsing, torch", "parsing, int8")


class Clock:
    """Words per second of a block of code, by the clock and by the processor."""

    def __enter__(self) -> Clock:
        self.started = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self.started[0], time.process_time() - self.started[1]

    def speed(self, words: int) -> list[float]:
        return [words / seconds for seconds in self.seconds]


def measure_supar(asked: argparse.Namespace, folder: Path) -> dict[str, list[float]]:
    """Speeds of the peer."""
    import torch
    from supar import BiaffineDependencyParser
    from supar.utils import Dataset

    torch.set_num_threads(asked.threads)
    sizes = {"n_embed": 100, "n_feat_embed": 200, "n_char_embed": 32, "n_char_hidden": 200, "n_lstm_hidden": 200}
    sizes |= {"n_lstm_layers": 2, "n_arc_mlp": 300, "n_rel_mlp": 100}
    settings = {"encoder": "lstm", "feat": ["char"], "embed": None, "build": True, "train": asked.train}
    parser = BiaffineDependencyParser.build(str(folder / "model"), **settings, **sizes)
    parser.args.update({"clip": 5.0, "update_steps": 1, "partial": False, "punct": True, "prob": False})
    parser.transform.train()
    data = Dataset(parser.transform, asked.train).build(asked.max_tokens, 32, True)
    parser.optimizer = torch.optim.Adam(parser.model.parameters(), 2e-3, (0.9, 0.9), 1e-12)
    parser.scheduler = torch.optim.lr_scheduler.ExponentialLR(parser.optimizer, 0.75 ** (1 / 5000))
    with Clock() as training:
        for _ in range(asked.epochs):
            parser._train(data.loader)
    found = {"training": training.speed(asked.epochs * words_of(asked.train))}
    parse = {"pred": str(folder / "out.conllu"), "tree": True, "proj": False, "verbose": False}
    parser.predict(asked.train, **parse)
    with Clock() as parsing:
        parser.predict(asked.file, **parse)
    return found | {"parsing, torch": parsing.speed(words_of(asked.file))}


def measure_arbora(asked: argparse.Namespace, folder: Path) -> dict[str, list[float]]:
    """Speeds of ours."""
    import torch
    from parsing import side_by_side

    import arbora
    from arbora.cli import main as run
    from arbora.data.conll import read_conll, valid
    from arbora.data.treebank import Treebank
    from arbora.model.encoders.embeddings import Embeddings
    from arbora.model.encoders.lstm import LSTM
    from arbora.model.training import LightningParser

    torch.set_num_threads(asked.threads)
    arbora.threads(asked.threads)
    treebank = Treebank(asked.train, max_tokens=asked.max_tokens)
    encoder = LSTM(Embeddings(words=100, characters=200, character_network="lstm"), size=200, layers=2)
    model = LightningParser(treebank.vocabulary, encoder)
    model.log = model.log_dict = lambda *_, **__: None  # type: ignore[method-assign, assignment]
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3, fused=True)
    loader = treebank.train_dataloader()
    with Clock() as training:
        for _ in range(asked.epochs):
            for index, batch in enumerate(loader):
                optimizer.zero_grad()
                model.training_step(batch, index).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
                optimizer.step()
    found = {"training": training.speed(asked.epochs * words_of(asked.train))}
    contents: dict[str, Any] = {"state_dict": model.state_dict()}
    model.on_save_checkpoint(contents)
    torch.save(contents, folder / "model.ckpt")
    run(["export", str(folder / "model.ckpt"), "-o", str(folder / "int8"), "--quiet"])
    for name, path in (("parsing, torch", folder / "model.ckpt"), ("parsing, int8", folder / "int8")):
        parser = arbora.load(path, threads=asked.threads).batch_parser()
        side_by_side(parser, valid(read_conll(asked.train, trees=False)), str(folder / "out.conllu"))  # compiles
        with Clock() as parsing:
            side_by_side(parser, valid(read_conll(asked.file, trees=False)), str(folder / "out.conllu"))
        found[name] = parsing.speed(words_of(asked.file))
    return found


SIDES: dict[str, Callable[[argparse.Namespace, Path], dict[str, list[float]]]] = {
    "arbora": measure_arbora,
    "supar": measure_supar,
}


def words_of(path: str) -> int:
    """Words of a file of CoNLL-U."""
    with open(path, encoding="utf-8") as lines:
        return sum(line.split("\t", 1)[0].isdigit() for line in lines)


def write_first(source: str, target: Path, sentences: int) -> None:
    """Copy the first sentences of a file, without multiword tokens and empty nodes, which the peer cannot read."""
    with open(source, encoding="utf-8") as lines, open(target, "w", encoding="utf-8") as output:
        blocks = "".join(line for line in lines if not line.startswith("#")).strip().split("\n\n")
        for block in islice(blocks, sentences):
            rows = [line for line in block.split("\n") if line.split("\t", 1)[0].isdigit()]
            output.write("\n".join(rows) + "\n\n")


def find_peer(python: str | None) -> str | None:
    """The interpreter of the peer's environment, or None with a line that says what is missing."""
    if python is None:
        print(f"no --peer: only Arbora is measured.\n{(__doc__ or '').split('supar 1.1.4')[1]}")
        return None
    tried = subprocess.run([python, "-c", "import supar"], capture_output=True, text=True)
    if tried.returncode:
        print(f"{python} cannot import supar ({tried.stderr.strip().splitlines()[-1]}): only Arbora is measured")
        return None
    return python


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("train", help="CoNLL-U file to train on")
    options.add_argument("file", help="CoNLL-U file to parse")
    options.add_argument("--peer", metavar="PYTHON", help="interpreter of an environment that has supar")
    options.add_argument("--sentences", type=int, default=500, help="first sentences to train on (default: 500)")
    options.add_argument("--epochs", type=int, default=3, help="over these (default: 3)")
    options.add_argument("--max-tokens", type=int, default=1500, help="positions of a training batch (default: 1500)")
    options.add_argument("--threads", type=int, default=1, help="threads of each side (default: 1)")
    options.add_argument("--rounds", type=int, default=3, help="runs of each side (default: 3)")
    options.add_argument("--side", choices=list(SIDES), help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.side:
        with tempfile.TemporaryDirectory() as folder:
            print("\n" + json.dumps(SIDES[asked.side](asked, Path(folder))))
        return
    pythons = {"arbora": sys.executable}
    if peer := find_peer(asked.peer):
        pythons["supar"] = peer
    found: dict[str, list[dict[str, list[float]]]] = {side: [] for side in pythons}
    environment = os.environ | {"OMP_NUM_THREADS": str(asked.threads)}
    with tempfile.TemporaryDirectory() as folder:
        train, file = Path(folder, "train.conllu"), Path(folder, "file.conllu")
        write_first(asked.train, train, asked.sentences)
        write_first(asked.file, file, sys.maxsize)
        same = [f"--{name}={getattr(asked, name.replace('-', '_'))}" for name in ("epochs", "max-tokens", "threads")]
        for _ in range(asked.rounds):
            for side, python in pythons.items():
                command = [python, __file__, str(train), str(file), "--side", side, *same]
                run = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, env=environment)
                found[side].append(json.loads(run.stdout.strip().splitlines()[-1]))
        counts = f"{words_of(str(train)):,} words to train on, {words_of(str(file)):,} to parse"
    print(f"{counts}; {asked.threads} thread(s), {asked.rounds} rounds, load {os.getloadavg()[0]:.1f}")
    show(found)


def show(found: dict[str, list[dict[str, list[float]]]]) -> None:
    """Print a table of medians, and ratios to the peer; int8 is set against the peer's torch."""

    def median(side: str, figure: str, way: int) -> float | None:
        speeds = [run[figure][way] for run in found.get(side, []) if figure in run]
        return statistics.median(speeds) if speeds else None

    print("| | words/s: Arbora | supar | ratio | words per CPU second: Arbora | supar | ratio |")
    print("|---|---|---|---|---|---|---|")
    for figure in FIGURES:
        cells = []
        for way in range(2):
            ours = median("arbora", figure, way)
            peer = median("supar", figure.replace("int8", "torch"), way)
            ratio = f"{ours / peer:.2f}" if ours and peer else "–"
            cells += ["–" if speed is None else f"{speed:,.0f}" for speed in (ours, peer)] + [ratio]
        print(f"| {figure} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
