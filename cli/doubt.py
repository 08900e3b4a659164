"""`arbora analyse doubt`: where a parser expects to be wrong, and how well its probabilities match the gold trees."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
from rich.table import Table

from arbora.cli.console import plain_console
from arbora.cli.options.analyse import doubt_parser
from arbora.data.batch import batch_of, cut
from arbora.data.conll import Sentence, open_output, read_conll
from arbora.evaluation.calibration import TOP, Probabilities, Scores, compare_with_gold
from arbora.evaluation.table import plain_table
from arbora.model.inference.batch_parser import BatchParser, ParsingSettings
from arbora.model.inference.results import ParsedSentence, naming_sentences, parsed_sentences
from arbora.model.loading import load


def parsed_batches(parser: BatchParser, sentences: Sequence[Sentence]) -> Iterator[tuple[list[ParsedSentence], Scores]]:
    """Parse sentences; each batch comes with the scores that its probabilities are computed from."""
    vocabulary = parser.backend.vocabulary
    for positions in cut([len(sentence) for sentence in sentences], parser.settings.max_tokens):
        some = [sentences[i] for i in positions]
        with naming_sentences(some):
            batch = batch_of(some, vocabulary)
            candidates = parser.score(batch)
            found = parser.label(parser.decode(candidates))
        assert candidates.arcs is not None
        heads, words = found.heads.astype(np.int64), found.heads >= 0
        yield (
            parsed_sentences(some, found, vocabulary, "keep"),
            Scores(
                candidates.arcs,
                np.asarray(batch.lengths),
                heads,
                np.asarray(batch.heads),
                candidates.scores.label_scores(heads, words),
                found.labels[words],
                np.asarray(batch.labels)[words],
                parser.decoder.single_root,
            ),
        )


def _probabilities(tree: ParsedSentence) -> tuple[Probabilities, Probabilities]:
    """(n,) of heads, and of labels."""
    assert tree.arc_probability is not None
    assert tree.label_probability is not None
    return tree.arc_probability, tree.label_probability


def _expected_errors(tree: ParsedSentence) -> float:
    """Wrong heads that are expected."""
    return float((1 - _probabilities(tree)[0]).sum())


def _margin(tree: ParsedSentence) -> float:
    """Distance in score to the second-best tree."""
    return tree.score - tree.alternatives[0].score if tree.alternatives else np.inf


def doubt(arguments: Sequence[str]) -> None:
    """Run `arbora analyse doubt` with these arguments."""
    options = doubt_parser().parse(arguments)
    if options.csv is not None and options.csv == options.json:
        raise ValueError(f"--csv and --json cannot both be {options.csv}")
    model = load(options.model, device=options.device)
    settings = ParsingSettings(options.max_tokens, probabilities=True, k_best=2, tags="keep")
    sentences = list(read_conll(options.file, trees=False))
    with ExitStack() as files:
        csv_file, json_file = (
            None if path is None else files.enter_context(open_output(path)) for path in (options.csv, options.json)
        )
        found = list(parsed_batches(BatchParser(model.backend, model.decoder, settings), sentences))
        ranked = sorted((tree for trees, _ in found for tree in trees), key=_expected_errors, reverse=True)
        every = [scores for _, scores in found]
        annotated = all(-1 not in sentence.head for sentence in sentences)
        report = compare_with_gold(every, model.backend.temperature) if annotated else None
        if csv_file is not None:
            writer = csv.writer(csv_file, lineterminator="\n")
            writer.writerow(["where", "word", "form", "head", "label", "arc_probability", "label_probability"])
            writer.writerows(_words(ranked))
        if json_file is not None:
            entries = [
                {
                    "where": tree.sentence.where(),
                    "words": len(tree.sentence),
                    "expected_errors": _expected_errors(tree),
                    "margin": _margin(tree) if tree.alternatives else None,
                }
                for tree in ranked
            ]
            json.dump({"sentences": entries, "calibration": report}, json_file, indent=1)
    out = plain_console(stderr="-" in (options.csv, options.json))
    out.print(_sentence_table(ranked[: options.top]))
    if report is not None:
        out.print()
        out.print(_calibration_table(report))


def _words(ranked: Sequence[ParsedSentence]) -> list[list[Any]]:
    rows = [
        [tree.sentence.where(word), word, form, int(head), label, f"{arc:.4f}", f"{of_label:.4f}"]
        for tree in ranked
        for word, (form, head, label, arc, of_label) in enumerate(
            zip(tree.sentence.form, tree.heads, tree.labels, *_probabilities(tree)), 1
        )
    ]
    return sorted(rows, key=lambda row: float(row[5]))


def _sentence_table(ranked: Sequence[ParsedSentence]) -> Table:
    columns = ("where", "words", "expected", "margin", "most doubtful words")
    table = plain_table(*columns, title="Sentences by expected wrong heads")
    for tree in ranked:
        arc, _ = _probabilities(tree)
        words = np.argsort(arc, kind="stable")[:3].tolist()
        worst = ", ".join(f"{word + 1} {tree.sentence.form[word]} ({arc[word]:.2f})" for word in words)
        figures = f"{_expected_errors(tree):.2f}", f"{_margin(tree):.2f}"
        table.add_row(tree.sentence.where(), str(len(tree.sentence)), *figures, worst)
    return table


def _calibration_table(report: dict[str, dict[str, Any]]) -> Table:
    title = "Calibration; the curve is mean probability / right (%) by probability"
    table = plain_table("of", "temperatures", "ECE (%)", f"errors in the top {TOP:.0%}", "curve", title=title)
    for when, figures in report.items():
        temperatures = ", ".join(f"{value:.2f}" for value in figures["temperature"].values())
        for name in ("arcs", "arcs and labels"):
            points = " ".join(f"{mean:.0f}/{share:.0f}" for mean, share, _ in figures[name]["curve"])
            label = f"{temperatures} ({'own' if when == 'before' else 'fitted'})"
            table.add_row(name, label, f"{figures[name]['ece']:.2f}", f"{figures[name]['top']:.1f}", points)
    return table
