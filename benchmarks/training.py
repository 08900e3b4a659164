"""How fast does a configuration train, by size of batch and number of threads?

Times whole training steps (forward, backward, clipping, update) on the first batches of a treebank, after a warm-up.
Speeds are words per second of processor time, which other programs disturb least.
For example:

    python benchmarks/training.py ../treebanks/Turkish-IMST/train.conllu --config configs/small.yaml
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from itertools import islice
from pathlib import Path
from unittest.mock import MagicMock

import torch
import yaml
from jsonargparse import ArgumentParser

from arbora import decoders
from arbora.data.treebank import Treebank
from arbora.model.training import LightningParser


def build(config: Path, train: str, max_tokens: int) -> tuple[Treebank, LightningParser]:
    """The treebank and the model of a configuration."""
    settings = yaml.safe_load(config.read_text(encoding="utf-8"))
    for name in decoders.__all__:  # whose classes configurations name
        getattr(decoders, name)
    parser = ArgumentParser()
    parser.add_class_arguments(Treebank, "data")
    parser.add_class_arguments(LightningParser, "model")
    parser.link_arguments("data.vocabulary", "model.vocabulary", apply_on="instantiate")
    data = settings.get("data", {}) | {"train": train, "max_tokens": max_tokens}
    made = parser.instantiate(parser.parse_object({"data": data, "model": settings.get("model", {})}))
    return made.data, made.model


def words_per_second(treebank: Treebank, model: LightningParser, steps: int, repeats: int, mixed: bool) -> list[float]:
    """Speed of each repetition of the same steps."""
    model.train()
    model.log = model.log_dict = MagicMock()  # type: ignore[method-assign]
    optimizer = torch.optim.AdamW(model.parameters(), lr=model.optimization.lr, fused=True)
    batches = list(islice(treebank.train_dataloader(), steps))
    words = sum(int(batch.lengths.sum()) for batch in batches)
    speeds = []
    for _ in range(repeats + 1):
        started = time.process_time()
        for index, batch in enumerate(batches):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
                loss = model.training_step(batch, index)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
        speeds.append(words / (time.process_time() - started))
    return speeds[1:]


def main() -> None:
    """Measure and print a table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("train", help="CoNLL-U file")
    options.add_argument("--config", type=Path, required=True)
    options.add_argument("--max-tokens", type=int, nargs="+", default=[500, 1500], help="sizes of batches")
    options.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    options.add_argument("--steps", type=int, default=15, help="batches of each repetition (default: 15)")
    options.add_argument("--repeats", type=int, default=3, help="timed repetitions (default: 3)")
    options.add_argument("--bf16", action="store_true", help="as with `--trainer.precision bf16-mixed`")
    asked = options.parse_args()
    waiting = os.environ.get("OMP_WAIT_POLICY", "not set")
    print(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, torch {torch.__version__}, OMP_WAIT_POLICY {waiting}"
    )
    print("| positions of a batch | threads | words/s, median (least to most) |")
    print("|---|---|---|")
    for max_tokens in asked.max_tokens:
        treebank, model = build(asked.config, asked.train, max_tokens)
        for threads in asked.threads:
            torch.set_num_threads(threads)
            speeds = words_per_second(treebank, model, asked.steps, asked.repeats, asked.bf16)
            spread = f"({min(speeds):,.0f} to {max(speeds):,.0f})"
            print(f"| {max_tokens} | {threads} | {statistics.median(speeds):,.0f} {spread} |", flush=True)


if __name__ == "__main__":
    main()
