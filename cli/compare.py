"""`arbora compare`: run many decoders on the same scores of a trained parser, and write a report.

If a folder of scores is given instead of a parser, torch and the model are not imported.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console

from arbora.cli.console import counting_bar, plain_console
from arbora.cli.options import check_least
from arbora.cli.options.compare import DECODERS, parser
from arbora.data.conll import Sentence, read_conll
from arbora.decoders import MST, Decoder
from arbora.decoders.kernels.threads import set_num_threads
from arbora.decoders.names import OWN, find_decoder, name_of, named_decoders, read_decoders
from arbora.evaluation import comparison, saved, studies, trials
from arbora.evaluation.matrix import Compared, matrix_table, write_matrix
from arbora.evaluation.report import MARK, WHAT, comparison_table, write_report
from arbora.evaluation.saved import ScoredTreebank
from arbora.evaluation.trials import Variant

if TYPE_CHECKING:
    from arbora.cli.scoring import Pass
    from arbora.model.inference.backend import Backend


def main(arguments: Sequence[str]) -> None:
    """Run `arbora compare` with these arguments."""
    options = _options(arguments)
    _variants(options, MST())  # names what is wrong before a model is loaded
    if options.output is not None:
        saved.check_replaceable(options.output, MARK, WHAT)
    if options.save_parts is not None:
        saved.check_replaceable(options.save_parts, saved.ABOUT, saved.KIND)
    set_num_threads(options.threads)
    console = plain_console(stderr=True, quiet=options.quiet)
    started = time.perf_counter()
    with ExitStack() as stack:
        folder = None
        if options.output is not None and len(options.pairs) > 1:
            folder = stack.enter_context(saved.new_folder(options.output, MARK, WHAT))
        compared: list[Compared] = []
        for each in _named(options.pairs):
            options.model, options.file = options.pairs[len(compared)]
            with _Steps(console) as steps:
                report, rows = _report(options, steps)
            place = options.output if folder is None else folder / each.folder
            if place is not None:
                write_report(report, rows, place)
            compared.append(each._replace(report=report))
        if folder is not None:
            write_matrix(compared, folder)
    if options.output is not None:
        console.print(f"wrote {Path(options.output) / 'index.html'} after {time.perf_counter() - started:.0f} s")
    wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 200  # a file has room for whole tables
    plain_console(width=wide).print(comparison_table(report) if len(compared) == 1 else matrix_table(compared))


def _named(pairs: Sequence[tuple[str, str | None]]) -> list[Compared]:
    """Name the comparisons by treebank, and by model where a treebank has several."""
    treebanks = [Path(file or model).name.partition(".")[0] for model, file in pairs]
    models = [Path(model) for model, _ in pairs]
    names = [path.parent.name if path.suffix == ".ckpt" else path.name for path in models]
    several = len(set(treebanks)) < len(treebanks)
    if len(set(zip(names, treebanks))) < len(pairs):
        raise ValueError("two comparisons have the same names of model and treebank; rename a folder or file")
    folders = ["-".join([name, treebank] if several else [treebank]) for name, treebank in zip(names, treebanks)]
    return [Compared(name * several, treebank, folder, {}) for name, treebank, folder in zip(names, treebanks, folders)]


def _report(options: argparse.Namespace, steps: _Steps) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """Compare on the scores of one model for one treebank: the report, and rows of its table of sentences."""
    backend, own = _model(options)
    variants = _variants(options, own)
    names = [variant.name for variant in variants]
    if options.reference is not None and options.reference not in names:
        raise ValueError(f"--reference {options.reference} is not one of the decoders: {', '.join(names)}")
    reference = names.index(options.reference) if options.reference is not None else 0
    scored = _scored(options, backend, variants, steps)
    if options.first_order:
        scored = scored.first_order()
    return _compare(scored, variants, reference, options, steps)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    options = parser().parse(arguments)
    options.command = shlex.join(["arbora", "compare", *arguments])
    check_least(options, repeats=1, draws=1, limit=1, k_best=1, threads=1, max_tokens=1, max_heads=1, seed=0)
    if options.ratio is not None and not 0 <= options.ratio <= 1:
        raise ValueError(f"--ratio must lie in 0..1, got {options.ratio}")
    options.lengths = _lengths(options.words)
    options.pairs = list(_pairs(options.inputs))
    if any(file is None for _, file in options.pairs) and (options.max_heads is not None or options.ratio is not None):
        raise ValueError("--max-heads and --ratio need the model, not a folder of scores")
    if options.save_parts is not None and (len(options.pairs) > 1 or options.pairs[0][1] is None):
        raise ValueError("--save-parts keeps the scores of one model for one treebank")
    return options


def _pairs(inputs: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Pairs of a model and the treebank after it; a folder of scores contains its own treebank."""
    left = iter(inputs)
    for name in left:
        if saved.is_saved(name):
            yield name, None
        elif (file := next(left, None)) is None:
            raise ValueError(f"{name} is not a folder of scores: give a treebank after it")
        elif saved.is_saved(file):
            raise ValueError(f"{file} is a folder of scores: give a treebank after {name}")
        else:
            yield name, file


def _lengths(text: str | None) -> tuple[int, float]:
    """Fewest and most words of a sentence."""
    if text is None:
        return 1, float("inf")
    match = re.fullmatch(r"([0-9]+)(-([0-9]*))?", text)
    if match:
        first = int(match[1])
        last = first if match[2] is None else int(match[3]) if match[3] else float("inf")
        if 1 <= first <= last:
            return first, last
    raise ValueError(f"--words {text}: give a range of lengths, such as 20-30 or 40-")


def _model(options: argparse.Namespace) -> tuple[Backend | None, Decoder | None]:
    """Return the backend, unless scores are saved, and the parser's own decoder, if it is known."""
    if options.file is None:
        name = saved.load(options.model).about.get("decoder")
        return None, None if name is None else find_decoder(name)
    from arbora.model.loading import load_backend
    from arbora.model.storage.digest import digest_of_model

    options.digest = digest_of_model(options.model)
    backend = load_backend(options.model, device=options.device, threads=options.threads)
    return backend, backend.decoder


def _variants(options: argparse.Namespace, own: Decoder | None) -> list[Variant]:
    """The decoders to compare; unless they are named, the parser's own and some others."""
    found: dict[str, Decoder] = {}
    if options.decoders is not None:
        found = named_decoders(options.decoders, own)
    elif options.variants is None:
        found = {} if own is None else {OWN: own}
        found |= {name: decoder for name, decoder in named_decoders(DECODERS).items() if decoder != own}
    if options.variants is not None:
        more = read_decoders(options.variants)
        if twice := next((name for name in more if name in found), None):
            raise ValueError(f"two decoders are named {twice}; give one another name in --variants")
        found |= more
    return [Variant(name, decoder) for name, decoder in found.items()]


def _scored(
    options: argparse.Namespace,
    backend: Backend | None,
    variants: Sequence[Variant],
    steps: _Steps,
) -> ScoredTreebank:
    """Scores from the folder, or from the model; with `--save-parts`, by way of the folder to write."""
    if backend is None:
        scored = saved.load(options.model)
        low, high = options.lengths
        chosen = (scored.lengths >= low) & (scored.lengths <= high)
        chosen &= np.cumsum(chosen) <= (options.limit or len(chosen))
        if not chosen.any():
            raise ValueError(f"{options.model}: no sentences{_of_words(options)}")
        return scored if chosen.all() else scored.subset(chosen)
    from arbora.cli.scoring import Pass

    low, high = options.lengths
    asked = (sentence for sentence in read_conll(options.file) if low <= len(sentence) <= high)
    sentences = list(islice(asked, options.limit))
    if not sentences:
        raise ValueError(f"{options.file}: no sentences{_of_words(options)}")
    run = Pass.of(
        backend,
        max_tokens=options.max_tokens,
        single_root=any(variant.decoder.single_root for variant in variants),
        projective=options.save_parts is not None or any(variant.decoder.projective for variant in variants),
        pruning=options.full or options.save_parts is not None,
    )
    _set_pruner(run, options)
    if options.save_parts is None:
        return _score(run, sentences, options, steps)
    with saved.new_folder(options.save_parts, saved.ABOUT, saved.KIND) as place:
        writer = saved.Writer(place)
        with steps("scoring", len(sentences)) as advance:
            for batch in run(sentences):
                writer.add(*batch)
                advance(len(batch.position))
        about = _about(run, sentences, options, steps)
        writer.finish(sentences, run.labels, about)
    return saved.load(options.save_parts)


def _of_words(options: argparse.Namespace) -> str:
    return "" if options.words is None else f" of {options.words} words"


def _set_pruner(run: Pass, options: argparse.Namespace) -> None:
    """Change the settings of the parser's pruner."""
    pruner = run.backend.pruner
    for name in ("max_heads", "ratio"):
        value = getattr(options, name)
        if value is None:
            continue
        if not hasattr(pruner, name):
            raise ValueError(f"--{name.replace('_', '-')}: the pruner of {options.model} has no such setting")
        setattr(pruner, name, value)


def _score(run: Pass, sentences: list[Sentence], options: argparse.Namespace, steps: _Steps) -> ScoredTreebank:
    batches = []
    with steps("scoring", len(sentences)) as advance:
        for batch in run(sentences):
            batches.append(batch)
            advance(len(batch.position))
    return ScoredTreebank(
        sentences,
        [batch.parts for batch in batches],
        np.concatenate([batch.position for batch in batches]),
        [batch.label for batch in batches],
        run.labels,
        _about(run, sentences, options, steps),
    )


def _about(run: Pass, sentences: list[Sentence], options: argparse.Namespace, steps: _Steps) -> dict[str, Any]:
    with steps("timing scores", options.repeats * len(sentences)) as advance:
        seconds = run.seconds(sentences, options.repeats, advance)
    return {
        "model": str(options.model),
        "file": str(options.file),
        "decoder": name_of(run.backend.decoder),
        "digest": options.digest,
        "scoring": {
            "seconds": seconds,
            "words": sum(map(len, sentences)),
            "device": run.device,
            "threads": options.threads,
        },
        "pruner": run.pruner,
        "pruning": run.pruning_rows(),
    }


def _compare(
    scored: ScoredTreebank, variants: Sequence[Variant], reference: int, options: argparse.Namespace, steps: _Steps
) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """Return the report, and the rows of a table with one row for each sentence and decoder."""
    total = len(scored.sentences)
    found = []
    for variant in variants:
        with steps(variant.name, total) as advance:
            found.append(trials.decode(variant.decoder, scored, advance))
    with steps("timing", len(variants) * total * (options.repeats + 1)) as advance:
        times = trials.measure(variants, found, scored, options.repeats, options.seed, advance)
    analyses: dict[str, Any] = {"restarts": None, "dual": None, "pruning": scored.about.get("pruning"), "k_best": None}
    if options.k_best is not None:
        with steps("k best", len(variants) * total) as advance:
            analyses["k_best"] = studies.k_best_rows(variants, scored, options.k_best, advance)
    if options.full:
        best = comparison.Best.known(variants, found, single_root=True).score
        with steps("restarts", 2 * len(studies.RESTARTS) * total) as advance:
            analyses["restarts"] = studies.restarts(scored, best, advance)
        with steps("AD3 and subgradient", 2 * total * (options.repeats + 2)) as advance:
            analyses["dual"] = studies.dual_decomposition(scored, options.repeats, advance)
    figures = comparison.report(variants, found, times, scored, reference, options.draws, options.seed)
    about = {
        "model": scored.about.get("model"),
        "file": scored.about.get("file"),
        "sentences": total,
        "lengths": options.words,
        "words": scored.words,
        "arcs_per_word": scored.arcs / scored.words,
        "parts": list(scored.batches[0].kinds),
        "scoring": _scoring(scored),
        "pruner": scored.about.get("pruner"),
        "threads": options.threads,
        "repeats": options.repeats,
        "draws": options.draws,
        "seed": options.seed,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": options.command,
        "digest": scored.about.get("digest"),
        "machine": {
            "cpu": cpu_name(),
            "system": f"{platform.system()} {platform.machine()}",
            "cores": os.cpu_count(),
            "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
            "python": platform.python_version(),
            **{package: version(package) for package in ("arbora", "numpy", "numba")},
        },
    }
    report = {"what": WHAT, "about": about, **figures, "analyses": analyses}
    return report, comparison.sentence_rows(variants, found, times, scored)


def cpu_name() -> str:
    """Name of the processor's model, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    found = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(found, platform.processor() or platform.machine())


def _scoring(scored: ScoredTreebank) -> dict[str, Any] | None:
    """Time that scoring took, and words per second."""
    scoring = scored.about.get("scoring")
    if not scoring:
        return None
    return {**scoring, "words_per_second": comparison.spread([scoring["words"] / each for each in scoring["seconds"]])}


class _Steps:
    """Progress bars, one for each step."""

    def __init__(self, console: Console) -> None:
        self._progress = counting_bar(console)

    def __enter__(self) -> _Steps:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    @contextmanager
    def __call__(self, what: str, total: int) -> Iterator[Callable[[int], None]]:
        task = self._progress.add_task(what, total=total)
        yield lambda count: self._progress.advance(task, count)
        self._progress.remove_task(task)
