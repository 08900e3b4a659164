"""How fast are training and parsing on this device, and what does the time go into?

Trains and parses a treebank with the sizes of `configs/full.yaml`, by encoder and order, after one pass that is not
timed. Prints one table. The bundled treebank is the default, so that tables from different machines can be compared.
For example:

    python benchmarks/gpu.py                                       # the GPU if there is one, otherwise the CPU
    python benchmarks/gpu.py --transformer xlm-roberta-base
    python benchmarks/gpu.py --halves
    python benchmarks/gpu.py --device cpu --words 2000 --size 50 --layers 1

On CUDA, a further pass is profiled: `device` is the share of time in which the device computes or copies, `copies` are
those up to the device and down to the host, and `waits` the calls in which the host waits for it; counts are per
training step and per parsed batch. `decoding` is the time in decoders relative to the time by the clock; while parsing,
it overlaps with scoring. `memory` is the largest amount of allocated memory of the device, or on a CPU of the process
so far.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, patch

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from arbora.data.batch import Batch
from arbora.data.conll import Sentence
from arbora.data.treebank import Treebank
from arbora.decoders import AD3, MST, Decoder, HillClimbing, Parts, Trees
from arbora.model.encoders.embeddings import Embeddings
from arbora.model.encoders.encoder import Encoder
from arbora.model.encoders.lstm import LSTM
from arbora.model.encoders.sru import SRU
from arbora.model.encoders.transformer import Transformer
from arbora.model.inference.batch_parser import BatchParser, ParsingSettings
from arbora.model.inference.stream import parse_sentences
from arbora.model.scorers.biaffine import Biaffine
from arbora.model.scorers.multilinear import Multilinear
from arbora.model.training import LightningParser

EXAMPLES = Path(__file__).parents[1] / "examples" / "treebank"
SECOND = ("grandparent", "sibling")
KINDS = {1: (), 2: SECOND, 3: (*SECOND, "any_sibling", "head_bigram", "grand_sibling", "tri_sibling")}
PRECISIONS = {"32": None, "bf16": torch.bfloat16}
COLUMNS = "encoder | order | training, words/s | device | copies | waits | decoding"
COLUMNS += " | parsing, words/s | device | copies | waits | decoding | memory, MB"


@dataclass
class Passed:
    """What was seen of one pass over the treebank."""

    seconds: float = 0.0  # by the clock
    decoding: float = 0.0  # in decoders
    batches: int = 0
    busy: float | None = None  # on the device; None if it was not profiled
    up: int = 0
    down: int = 0
    waits: int = 0
    _spans: list[tuple[float, float]] = field(default_factory=list)

    def add_events(self, events: Iterable[Any]) -> None:
        """Add what a profiler recorded: the time that the device is busy, copies and waits."""
        for event in events:
            if event.device_type == DeviceType.CUDA:
                self._spans.append((event.time_range.start, event.time_range.end))
                self.up += event.name.startswith("Memcpy HtoD")
                self.down += event.name.startswith("Memcpy DtoH")
            else:
                self.waits += event.name in ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
        self.busy, until = 0.0, 0.0
        for start, end in sorted(self._spans):
            self.busy += max(0.0, end - max(start, until)) / 1e6
            until = max(until, end)

    def cells(self, words: int, seconds: float) -> list[str]:
        """The cells of a table. Profiling slows a pass down, so speed is that of a pass that was not profiled."""
        per = [f"{count / max(self.batches, 1):.1f}" for count in (self.up, self.down, self.waits)]
        seen = self.busy is not None
        return [
            f"{words / seconds:,.0f}",
            f"{self.busy / self.seconds:.0%}" if self.busy is not None else "–",
            f"{per[0]} up, {per[1]} down" if seen else "–",
            per[2] if seen else "–",
            f"{self.decoding / self.seconds:.0%}",
        ]


@contextmanager
def timing(passed: Passed, device: torch.device, profiled: bool) -> Iterator[None]:
    """Time a pass, the decoders in it, and the device if asked for."""
    decode = Decoder.__call__

    def timed(decoder: Decoder, parts: Parts, *rest: Any, **options: Any) -> Trees:
        started = time.perf_counter()
        try:
            return decode(decoder, parts, *rest, **options)
        finally:
            passed.decoding += time.perf_counter() - started

    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with (
        profile(activities=activities) if profiled else nullcontext() as profiler,
        patch.object(Decoder, "__call__", timed),
    ):
        synchronize(device)
        started = time.perf_counter()
        yield
        synchronize(device)
        passed.seconds = time.perf_counter() - started
    if profiler is not None:
        passed.add_events(profiler.events())


def synchronize(device: torch.device) -> None:
    """Wait until the device has done everything."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak_memory(device: torch.device) -> float:
    """Largest allocated memory in MB: of the device since the last row, or of the process so far."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def train(model: LightningParser, batches: list[Batch[Any]], precision: torch.dtype | None) -> Callable[[Passed], None]:
    """Make a function that takes a training step with each batch."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=model.optimization.lr, fused=True)

    def run(passed: Passed) -> None:
        model.train()
        for index, batch in enumerate(batches):
            optimizer.zero_grad()
            with torch.autocast(model.device.type, precision, enabled=precision is not None):
                loss = model.training_step(batch, index)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
        passed.batches = len(batches)

    return run


def parse(model: LightningParser, sentences: list[Sentence], max_tokens: int) -> Callable[[Passed], None]:
    """Make a function that parses the sentences, as `arbora predict` does."""

    def run(passed: Passed) -> None:
        parser = CountingParser(model.eval(), model.decoder, ParsingSettings(max_tokens))
        for _ in parse_sentences(parser, sentences):
            pass
        passed.batches = parser.batches[0]

    return run


@dataclass(frozen=True)
class CountingParser(BatchParser):
    """Counts batches."""

    batches: list[int] = field(default_factory=lambda: [0])

    def score(self, batch: Batch[Any], is_long: bool = False) -> Any:
        self.batches[0] += 1
        return super().score(batch, is_long)


def measure(run: Callable[[Passed], None], words: int, device: torch.device) -> list[str]:
    """Cells of three passes: the first compiles, the second is timed, and on CUDA a third is profiled."""
    for number in range(2 + (device.type == "cuda")):
        passed = Passed()
        with timing(passed, device, profiled=number == 2):
            run(passed)
        if number == 1:
            seconds = passed.seconds
    return passed.cells(words, seconds)


def table(asked: argparse.Namespace, treebank: Treebank, sentences: list[Sentence]) -> Iterator[str]:
    """Give the rows of the table."""
    device = torch.device(asked.device)
    embeddings = Embeddings(words=100, characters=100, upos=100)
    encoders: list[Encoder] = [kind(embeddings, size=asked.size, layers=asked.layers) for kind in (LSTM, SRU)]
    encoders += [Transformer(name) for name in asked.transformer]
    words = sum(map(len, sentences))
    yield f"| {COLUMNS} |"
    yield "|" + "---|" * (COLUMNS.count("|") + 1)
    for encoder in encoders:
        for order in asked.orders:
            torch.manual_seed(1)
            if device.type == "cuda":
                torch.cuda.reset_peak_memory_stats(device)
            settings: dict[str, Any] = {"loss": ["crf"], "decoder": MST()}
            if order > 1:
                settings = {"loss": ["cross_entropy", "hinge"], "decoder": AD3(max_iterations=100)}
                settings |= {"parts": Multilinear(KINDS[order], 128), "training_decoder": HillClimbing(start="best")}
                settings["halves"] = asked.halves
            scorer = Biaffine(min(500, asked.size), min(100, asked.size))
            model = LightningParser(treebank.vocabulary, encoder, scorer, **settings).to(device)
            model.log = model.log_dict = MagicMock()  # type: ignore[method-assign]
            try:
                cells = measure(train(model, list(treebank.train_dataloader()), asked.dtype), words, device)
                cells += measure(parse(model, sentences, 4 * asked.max_tokens), words, device)
                cells.append(f"{peak_memory(device):,.0f}")
            except torch.OutOfMemoryError:
                cells = ["out of memory", *["–"] * (COLUMNS.count("|") - 2)]
            name = encoder.name if isinstance(encoder, Transformer) else type(encoder).__name__
            yield "| " + " | ".join([name, str(order), *cells]) + " |"


def main(arguments: list[str] | None = None) -> None:
    """Measure and print a table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--treebank", default=EXAMPLES / "train.conllu", help="CoNLL-U file (default: the bundled one)"
    )
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options.add_argument("--orders", type=int, nargs="+", default=[1, 2, 3], choices=KINDS)
    options.add_argument("--transformer", nargs="+", default=[], help="transformers to measure, too")
    options.add_argument(
        "--precision", choices=PRECISIONS, default="bf16", help="precision of training; parsing uses 32"
    )
    options.add_argument("--halves", action="store_true", help="train with model.halves at second and third order")
    options.add_argument("--words", type=int, default=25_000, help="words to train on and to parse (default: 25,000)")
    options.add_argument("--max-tokens", type=int, default=5000, help="positions of a training batch (default: 5,000)")
    options.add_argument("--size", type=int, default=400, help="size of LSTM and SRU (default: 400)")
    options.add_argument("--layers", type=int, default=3, help="their layers (default: 3)")
    asked = options.parse_args(arguments)
    asked.dtype = PRECISIONS[asked.precision]
    treebank = Treebank(str(asked.treebank), max_tokens=asked.max_tokens)
    sentences, words = list[Sentence](), 0
    for sentence in treebank.sentences("train"):
        if words < asked.words:
            sentences.append(sentence)
            words += len(sentence)
    treebank.sentences("train")[:] = sentences
    cuda = torch.device(asked.device).type == "cuda"
    name = torch.cuda.get_device_name(asked.device) if cuda else platform.processor() or platform.machine()
    print(f"device: {asked.device} ({name}), torch {torch.__version__}, CUDA {torch.version.cuda}")
    print(f"host: {os.cpu_count()} cores, {torch.get_num_threads()} threads, load {os.getloadavg()[0]:.1f}")
    print(f"{len(sentences):,} sentences, {words:,} words of {Path(asked.treebank).name}; {asked.layers} layers of")
    print(f"{asked.size}, batches of {asked.max_tokens}, precision {asked.precision}{', halves' * asked.halves}\n")
    for row in table(asked, treebank, sentences):
        print(row, flush=True)


if __name__ == "__main__":
    main()
