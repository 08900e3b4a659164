"""`arbora tune --pruner`: tune the thresholds of a pruning cascade on a development part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast, get_args

import torch
from rich.table import Table

from arbora.data.batch import batch_of, cut
from arbora.data.conll import Sentence
from arbora.decoders.vine.searches import Criterion
from arbora.evaluation.table import plain_table
from arbora.model.network import Network
from arbora.model.pruners.vine import CascadePruner
from arbora.model.storage.checkpoint import FILES, KEY, OF_TRAINING, describe, pack_files, pack_tokenizer
from arbora.model.storage.weights import read_parser


def parse_criterion(text: str) -> tuple[Criterion, float]:
    """A criterion and the share that may be lost, from `sentences=0.2` or `arcs=0.002`.

    Raises:
        ValueError: it is neither.
    """
    name, _, share = text.partition("=")
    try:
        error = float(share)
    except ValueError:
        error = -1.0
    if name not in get_args(Criterion) or not 0 <= error <= 1:
        raise ValueError(f"--pruner {text}: give sentences=SHARE or arcs=SHARE, such as sentences=0.2 or arcs=0.002")
    return cast(Criterion, name), error


@torch.no_grad()
def tune_pruner(
    parser: Network, sentences: Sequence[Sentence], criterion: Criterion, error: float, max_tokens: int
) -> Table:
    """Tune the alpha of each stage of a parser's cascade, and print the figures of the pruned arcs.

    Raises:
        ValueError: the parser has no cascade with stages to tune.
    """
    cascade = parser.pruner
    if not isinstance(cascade, CascadePruner) or not cascade.learnt:
        raise ValueError("--pruner: the model has no pruning cascade to tune; train a model with --model.pruner Vine")
    parser.eval()
    before = cascade.alpha.tolist()
    batches = [
        parser.score(batch_of([sentences[place] for place in places], parser.vocabulary)).pruner_scores
        for places in cut([len(sentence) for sentence in sentences], max_tokens)
    ]
    cascade.settings = replace(cascade.settings, criterion=criterion, error=error)
    parser.settings["pruner"] = cascade.settings
    cascade.tune(batches, parser.decoder, lambda value, _: value)
    cascade.watch()
    for words in batches:
        cascade.candidates(words, words.lengths, parser.decoder)
    figures = cascade.figures(lambda value, _: value)
    figures_of = ("arcs per word", "gold arcs lost", "sentences with a loss", "oracle UAS")
    table = plain_table("stage", "alpha before", "alpha", *figures_of)
    for stage in cascade.stages:
        alphas = ["", ""]
        if stage in cascade.learnt:
            number = cascade.learnt.index(stage)
            alphas = [f"{before[number]:.4g}", f"{float(cascade.alpha[number]):.4g}"]
        shares = [f"{figures[f'{stage}/{name}']:.2f} %" for name in ("error", "sentence_error", "oracle_UAS")]
        table.add_row(stage, *alphas, f"{figures[f'{stage}/arcs_per_word']:.2f}", *shares)
    return table


def write_tuned(source: str, parser: Network, target: Path) -> None:
    """Write the parser's checkpoint or folder as a new checkpoint with the new thresholds."""
    stored = read_parser(source)
    training = {name: stored.training[name] for name in OF_TRAINING if name in stored.training}
    settings = stored.settings | {"pruner": parser.settings["pruner"]} | training
    weights = stored.weights | {"pruner.alpha": cast(CascadePruner, parser.pruner).alpha.cpu()}
    checkpoint: dict[str, Any] = {"state_dict": weights, KEY: describe(settings, stored.vocabulary)}
    checkpoint.update(pack_tokenizer(stored.tokenizer))
    with stored.unpacked() as folder:
        if folder is not None:
            checkpoint[FILES] = pack_files(folder)
    partial = target.with_name(f"{target.name}.partial")
    torch.save(checkpoint, partial)
    partial.replace(target)
