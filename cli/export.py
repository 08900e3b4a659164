"""`arbora export`: a trained parser as a folder that needs nothing else."""

from __future__ import annotations

import os
import shutil
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml
from rich.console import Console
from rich.table import Table

from arbora.cli.card import model_card
from arbora.cli.console import plain_console
from arbora.cli.doubt import parsed_batches
from arbora.cli.options.export import parser
from arbora.cli.packaging import new_model
from arbora.cli.parsing_options import chosen_decoder
from arbora.data.batch import Batch
from arbora.data.conll import Sentence, read_conll
from arbora.data.text import text_of
from arbora.data.vocabulary import known_lemmas
from arbora.decoders import Decoder
from arbora.evaluation import Evaluation, aligned_scores
from arbora.evaluation.calibration import helpful_temperatures
from arbora.evaluation.table import number_text, plain_table
from arbora.model.inference.backend import Backend, BatchScores
from arbora.model.inference.batch_parser import BatchParser, ParsingSettings
from arbora.model.inference.stream import parse_sentences
from arbora.model.linear.backend import LinearModel
from arbora.model.linear.storage import read_linear, to_bytes
from arbora.model.loading import Runtime, load, load_network
from arbora.model.parser import Parser
from arbora.model.storage.files import is_linear, made_with
from arbora.model.storage.folder import (
    CARD,
    FILES,
    GRAPHS,
    TOKENIZER,
    WEIGHTS,
    Config,
    plain_settings,
    read_config,
    write_config,
    write_folder,
)
from arbora.model.tokenizer.learning import has_text, learn_tokenizer

if TYPE_CHECKING:
    from arbora.model.network import Network

TOLERANCE = 1e-4
"""Most by which scores of graphs may differ from those of torch."""

SHAPES = ((1,), (2, 1), (7, 30, 3, 12), (60,))
"""Lengths of sentences in the batches on which they are compared."""


def main(arguments: Sequence[str]) -> None:
    """Run `arbora export` with these arguments."""
    options = parser().parse(arguments)
    console = plain_console(quiet=options.quiet)
    output = Path(options.output)
    place = nullcontext(output) if options.package is None else new_model(output, options.package, options.license)
    with place as target, _new_folder(target) as folder:
        config = export(options, folder, console)
    console.print(_sizes(target))
    if config.figures:
        console.print(_accuracy(config))
    if config.temperature:
        console.print("temperatures of arcs and of labels: " + ", ".join(f"{t:.2f}" for t in config.temperature))


def export(options: Namespace, folder: Path, console: Console) -> Config:
    """Write the parser that the options name into an empty folder, load it again, and compare the two.

    Raises:
        ValueError: what was written does not score as the parser does.
    """
    source = Path(options.model)
    model: Network | LinearModel
    if is_linear(source):
        model, training, _ = read_linear(source)
    else:
        from arbora.model.storage.weights import read_parser

        model, training = load_network(source), read_parser(source).training | _run_facts(source, console)
    if (decoder := chosen_decoder(options, model.decoder)) is not None:
        has_parts = bool(model.part_features) if isinstance(model, LinearModel) else model.parts is not None
        if has_parts and decoder.first_order_only:
            name = type(decoder).__name__
            raise ValueError(f"--decoder {name} does not look at the higher-order parts that this parser scores")
        model.decoder = decoder
    if options.scripts:
        keep_scripts(model, options.scripts)
    if options.tokenizer:
        train, dev = (list(read_conll(file, trees=False)) for file in options.tokenizer)
        model.tokenizer = learn_tokenizer(train, dev)
    if options.lemmas:
        if "lemmas" not in model.predicts:
            raise ValueError("--lemmas needs a parser that predicts lemmas")
        model.vocabulary = replace(model.vocabulary, known_lemmas=known_lemmas(read_conll(options.lemmas, trees=False)))
    gold = list(read_conll(options.evaluate)) if options.evaluate else []
    dev = list(read_conll(options.calibrate)) if options.calibrate else []
    earlier = read_config(source) if source.is_dir() else None
    config = Config(
        settings=_settings(model),
        precision=options.precision,
        training=training,
        made_with=dict(made_with()),
        license=options.license or (earlier.license if earlier else None),
        temperature=earlier.temperature if earlier else None,
    )
    if options.language is not None:
        config.training["language"] = options.language
    loaded: dict[str, Parser] = {}
    if isinstance(model, LinearModel):
        weights = to_bytes(model, config.training, options.precision, vocabulary=False)
        files = {WEIGHTS: weights} | ({TOKENIZER: model.tokenizer.contents} if model.tokenizer is not None else {})
        write_folder(folder, config, _vocabulary(model), files)
        loaded["linear"] = load(folder)
    else:
        loaded |= _write_network(model, folder, config, options.torch, console)
    if dev:
        config.temperature = calibrate(next(iter(loaded.values())), dev)
        write_config(folder, config)
    if gold:
        own = "linear" if isinstance(model, LinearModel) else "torch"
        rows = [("as trained", own, "fp32", Parser(model, model.decoder, tokenizer=model.tokenizer))]
        rows += [("exported", runtime, options.precision, each) for runtime, each in loaded.items()]
        for what, runtime, precision, each in rows:
            entry = {"parser": what, "runtime": runtime, "precision": precision, "treebank": _short(options.evaluate)}
            config.figures.append(entry | evaluate(each, gold))
            if model.tokenizer is not None and has_text(gold):
                config.figures[-1]["raw"] = evaluate_text(each, options.evaluate)
        write_config(folder, config)
    name = options.package or Path(options.output).name
    (folder / CARD).write_text(model_card(name, config, model), encoding="utf-8")
    return config


def keep_scripts(model: Network | LinearModel, scripts: Sequence[str]) -> None:
    """Leave pieces of a transformer out that have letters of other scripts."""
    keep = getattr(model.encoder, "keep_scripts", None) if not isinstance(model, LinearModel) else None
    if keep is None:
        raise ValueError("--scripts needs a parser with a transformer")
    keep(scripts)


def _settings(model: Network | LinearModel) -> dict[str, Any]:
    if isinstance(model, LinearModel):
        return plain_settings({"linear": model.settings, "decoder": model.decoder})
    settings = model.settings | {"decoder": model.decoder}
    if isinstance(name := getattr(settings["encoder"], "name", None), str) and Path(name).is_absolute():
        settings["encoder"] = replace(settings["encoder"], name=_short(name))  # its files are in the folder
    return plain_settings(settings)


def _vocabulary(model: Network | LinearModel) -> dict[str, Any]:
    """The vocabulary without what is never looked up, such as words for a transformer."""
    unread = [] if "lemmas" in model.predicts else ["known_lemmas"]
    if isinstance(model, LinearModel):
        return model.vocabulary.as_dict() | {name: [] for name in unread}
    from arbora.model.pruners.settings import Shared

    columns = getattr(model.settings["encoder"], "embeddings", None)
    if model.settings["pruner"] is None or isinstance(model.settings["pruner"], Shared):
        unread += [name for name in ("words", "lemmas") if columns is not None and not getattr(columns, name)]
    return model.vocabulary.as_dict() | {name: [] for name in unread}


def _write_network(model: Network, folder: Path, config: Config, torch: bool, console: Console) -> dict[str, Parser]:
    """Write a network, and load it again with each runtime."""
    from arbora.model.storage.onnx import Unsupported, export_graphs, facts_for_graphs
    from arbora.model.storage.weights import packed_file

    files: dict[str, bytes] = {}
    try:
        files = {f"{GRAPHS}{name}.onnx": graph for name, graph in export_graphs(model, config.precision).items()}
        config.onnx = facts_for_graphs(model)
    except Unsupported as error:
        if not torch:
            raise ValueError(f"{error}: give --torch") from None
        console.print(f"warning: {error}; the folder has no ONNX graphs")
    if torch:
        files[WEIGHTS] = packed_file(model.state_dict(), config.precision)
    if model.tokenizer is not None:
        files[TOKENIZER] = model.tokenizer.contents
    model.save_files(folder / FILES)
    write_folder(folder, config, _vocabulary(model), files)
    available: dict[Runtime, bool] = {"onnx": config.onnx is not None, "torch": torch}
    runtimes = [runtime for runtime, there in available.items() if there]
    loaded: dict[str, Parser] = {runtime: load(folder, runtime, threads=1) for runtime in runtimes}
    if config.onnx is not None and config.precision == "fp32":
        _compare(model, loaded["onnx"].backend)
    return loaded


def calibrate(parser: Parser, gold: Sequence[Sentence]) -> list[float]:
    """Temperatures of arcs and of labels, 1 where none helps."""
    settings = ParsingSettings(max_tokens=1000, probabilities=True)
    batches = parsed_batches(BatchParser(parser.backend, parser.decoder, settings), gold)
    return list(helpful_temperatures([scores for _, scores in batches]))


def evaluate(parser: Parser, gold: Sequence[Sentence]) -> dict[str, Any]:
    """Accuracy and speed on sentences with their trees."""
    steps = parser.batch_parser()
    list(parse_sentences(steps, islice(gold, 20)))  # compiles what is then timed
    evaluation = Evaluation()
    started = time.perf_counter()
    for found in parse_sentences(steps, gold):
        evaluation.add(found.sentence, found.heads.tolist(), found.labels)
    seconds = time.perf_counter() - started
    figures = evaluation.figures()
    kept = {name: figures[name] for name in ("sentences", "words", "uas", "las", "clas")}
    return kept | {"words_per_second": round(figures["words"] / seconds)}


def evaluate_text(parser: Parser, treebank: str) -> dict[str, float]:
    """F1 of words, tags and trees in the raw text of a treebank."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "parsed.conllu")
        trees = parser(text_of(read_conll(treebank)))
        file.write_text("".join(tree.as_text(scores=False) for tree in trees), encoding="utf-8")
        return {name: score["f1"] for name, score in aligned_scores(treebank, file).items()}


def _compare(model: Network, backend: Backend) -> None:
    """Refuse graphs that do not score as the network does."""
    from arbora.model.storage.onnx import sample_batch

    for lengths in SHAPES:
        batch = sample_batch(model.vocabulary, lengths)
        difference = largest_difference(model.score(batch), backend.score(batch), batch, model.decoder)
        if not difference < TOLERANCE:
            raise ValueError(f"the ONNX graphs differ from the parser by {difference:.1e}, more than {TOLERANCE:.0e}")


def largest_difference(one: BatchScores, two: BatchScores, batch: Batch[Any], decoder: Decoder) -> float:
    """By how much the scores of two backends differ at most; infinite where one is finite and the other is not."""
    parts, others = one.parts(decoder), two.parts(decoder)
    pairs = [(one.arcs()[batch.is_word], two.arcs()[batch.is_word])]
    pairs += [(getattr(parts, kind), getattr(others, kind)) for kind in ("arc_score", *parts.kinds)]
    heads = np.where(batch.is_word, 0, -1)
    pairs.append((np.exp(one.label_scores(heads, batch.is_word)), np.exp(two.label_scores(heads, batch.is_word))))
    pairs += [(of.probability, two.tags(True)[name].probability) for name, of in one.tags(True).items()]
    largest = 0.0
    for first, second in pairs:
        finite = np.isfinite(first)
        if first.shape != second.shape or (finite != np.isfinite(second)).any():
            return float("inf")
        difference = np.abs(first[finite] - second[finite]) / np.abs(first[finite]).clip(min=1)
        largest = max(largest, float(difference.max(initial=0)))
    return largest


@contextmanager
def _new_folder(target: Path) -> Iterator[Path]:
    """A temporary folder next to the target, renamed to it if the block succeeds, and removed otherwise."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ValueError(f"{target} already exists: remove it, or give another --output")
    if not target.resolve().parent.is_dir():
        raise ValueError(f"cannot write {target}: there is no folder {target.parent}; create it first")
    temporary = target.resolve().with_name(f".{target.resolve().name}.{os.getpid()}.tmp")
    temporary.mkdir()
    try:
        yield temporary
        temporary.replace(target.resolve())
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _run_facts(source: Path, console: Console) -> dict[str, Any]:
    """Facts out of the `config.yaml` that a run has next to its checkpoints: treebank, seed and the like."""
    path = source.parent / "config.yaml"
    if source.is_dir() or not path.is_file():
        return {}
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError):
        console.print(f"warning: {path} is not YAML; the card will not say what the parser was trained on")
        return {}
    data = config.get("data") if isinstance(config, dict) else None
    if not isinstance(data, dict):
        return {}
    facts: dict[str, Any] = {}
    for name in ("train", "dev", "vectors"):
        given = data.get(name)
        files: list[Any] = given if isinstance(given, list) else [given]
        if all(isinstance(file, str) for file in files):
            facts[name] = ", ".join(map(_short, files))
    model = config.get("model")
    if isinstance(model, dict) and isinstance(start := model.get("start"), str):
        first = _run_facts(Path(start), console) if Path(start).is_file() else {}
        facts["start"] = f"{_short(start)}, trained on {first.get('train', 'what is not known')}"
        facts |= {"vectors": first["vectors"]} if "vectors" in first else {}
    encoder = model.get("encoder") if isinstance(model, dict) else None
    arguments = encoder.get("init_args") if isinstance(encoder, dict) else None
    if isinstance(arguments, dict) and isinstance(arguments.get("name"), str):
        facts["transformer"] = _short(arguments["name"])
    for name in ("sample", "max_length", "min_frequency"):
        if isinstance(data.get(name), int):
            facts[name] = data[name]
    if "sample" in facts:
        facts["fold"] = data.get("fold")
    if isinstance(config.get("seed_everything"), int):
        facts["seed"] = config["seed_everything"]
    return facts


def _short(path: str) -> str:
    """The name of a file with its folder, which identifies a treebank but shows no other paths of the machine."""
    return "/".join(Path(path).parts[-2:]).lstrip("/")


def _sizes(folder: Path) -> Table:
    table = plain_table("", "", left=0)
    table.show_header, table.columns[1].justify = False, "left"
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    for path in files:
        table.add_row(f"{path.stat().st_size:,}", path.relative_to(folder).as_posix())
    table.add_row(f"{sum(path.stat().st_size for path in files):,}", f"bytes in {folder}", style="bold")
    return table


def _accuracy(config: Config) -> Table:
    table = plain_table("", "runtime", "weights", "UAS", "LAS", "CLAS", "LAS lost", "words/s", left=3)
    reference = config.figures[0]["las"]
    for row in config.figures:
        figures = (number_text(row[name]) for name in ("uas", "las", "clas"))
        lost = f"{reference - row['las']:.2f}"
        speed = f"{row['words_per_second']:,}"
        table.add_row(row["parser"], row["runtime"], row["precision"], *figures, lost, speed)
    return table
