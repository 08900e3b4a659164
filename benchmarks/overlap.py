"""How much time is saved because decoders search while a device computes?

Runs on the simulated device of the tests, on which every operation takes the same time, and with a decoder that takes a
fixed time for each sentence, so the figures say what overlaps and not how fast anything is. Parsing: batches one after
the other against the stream of `arbora predict`. Training with hinge, without gradients: whole batches against
`--model.halves true`, where an operation takes half as long for half a batch, or as long as for a whole one. The times
only sleep, so that other programs disturb little. For example:

    python benchmarks/overlap.py
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import MagicMock

import torch

from arbora.data.batch import batch_of
from arbora.data.conll import Sentence, read_conll
from arbora.data.vocabulary import Vocabulary
from arbora.decoders import MST, Decoder, Parts, Trees
from arbora.model.encoders.embeddings import Embeddings
from arbora.model.encoders.lstm import LSTM
from arbora.model.inference.batch_parser import BatchParser, ParsingSettings
from arbora.model.inference.stream import parse_directly, parse_windows
from arbora.model.scorers.biaffine import Biaffine
from arbora.model.training import LightningParser

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests"))
from simulated_device import DEVICE, SimulatedDevice  # noqa: E402


@dataclass(frozen=True)
class Slow(Decoder):
    """MST that takes its time."""

    seconds: float = 0.0  # for each sentence
    single_root: bool = True

    def decode(self, parts: Parts) -> Trees:
        time.sleep(self.seconds * len(parts.lengths))
        return MST(self.single_root)(parts)


def measure(what: str, run: Callable[[], object], device: SimulatedDevice, decoding: float) -> None:
    """Print a row."""
    device.busy = 0.0
    started = time.perf_counter()
    run()
    seconds = time.perf_counter() - started
    print(f"| {what} | {device.busy:.1f} | {decoding:.1f} | {seconds:.1f} |", flush=True)


def main() -> None:
    """Measure and print a table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sentences", type=int, default=48, help="sentences of a batch (default: 48)")
    options.add_argument("--batches", type=int, default=4, help="batches to parse (default: 4)")
    options.add_argument("--operation", type=float, default=0.004, help="seconds of an operation (default: 0.004)")
    options.add_argument("--search", type=float, default=0.06, help="seconds of a search (default: 0.06)")
    asked = options.parse_args()
    sentences: list[Sentence] = []
    for sentence in read_conll(ROOT / "examples" / "treebank" / "train.conllu"):
        if len(sentence) == 12 and len(sentences) < asked.sentences:
            sentences.append(sentence)
    decoder = Slow(asked.search)
    torch.manual_seed(1)
    embeddings = Embeddings(words=8, characters=8)
    vocabulary = Vocabulary.of(sentences)
    model = LightningParser(
        vocabulary, LSTM(embeddings, size=8, layers=1), Biaffine(8, 8), decoder=decoder, loss=["hinge"]
    )
    model.log = model.log_dict = MagicMock()  # type: ignore[method-assign]
    batch = batch_of(sentences, vocabulary)
    parser = BatchParser(model, decoder, ParsingSettings(13 * asked.sentences))
    BatchParser(model.eval(), MST())(batch)  # compiles
    print("| | device, s | decoding, s | clock, s |\n|---|---|---|---|")
    with SimulatedDevice() as device:
        model.to(DEVICE)
        device.seconds = asked.operation
        decoding = asked.search * asked.sentences
        for what, stream in (("parsing, one after the other", parse_directly), ("parsing, stream", parse_windows)):
            run = lambda: deque(stream(parser, sentences * asked.batches), 0)  # noqa: B023, E731
            measure(what, run, device, decoding * asked.batches)
        for what, halves, share in (
            ("a training step, whole", False, 1.0),
            ("in halves, half the time for an operation", True, 0.5),
            ("in halves, the same time for an operation", True, 1.0),
        ):
            model.halves, device.seconds = halves, share * asked.operation
            measure(what, lambda: model.training_step(batch, 0).item(), device, decoding)


if __name__ == "__main__":
    main()
