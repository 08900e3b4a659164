"""`arbora analyse doubt`: where a parser expects to be wrong, and how well its probabilities match what is."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from arbora.cli.arguments import CommandParser
from arbora.cli.console import plain_console
from arbora.data.batch import batch_of, cut
from arbora.data.conll import Sentence, open_output, read_conll
from arbora.decoders.marginals import arc_marginals
from arbora.model.inference.batch_parser import BatchParser, ParsingSettings
from arbora.model.inference.results import naming_sentences
from arbora.model.loading import load

DOUBT = """\
Rank the sentences and words of a file by the errors that a parser expects to make, so that annotators start where it
pays.

The expected errors of a sentence are the sum, over its words, of the probability that the head is wrong: 1 less its
marginal probability among all trees, under arc scores. The margin is the distance in score to the second-best tree, by
all parts. If the file has gold trees, the probabilities are compared with what is right, for arcs, and for arcs with
their labels: expected calibration error (ECE), a curve, and the share of all errors among the tenth of the words that
are the most doubtful; then the same after dividing scores by a temperature, fitted to this file. For example:

  arbora analyse doubt runs/mine/best.ckpt new.conllu --csv words.csv
"""

BINS = 10
"""Of the curve of calibration, equally wide."""

TOP = 0.1
"""Share of words that are looked at first."""

Probabilities = NDArray[np.float64]


class Doubt(NamedTuple):
    """Doubts about the tree of one sentence."""

    sentence: Sentence
    heads: NDArray[np.int64]  # (n,)
    labels: list[str]
    arc: Probabilities  # (n,) probability of each head
    label: Probabilities  # (n,) of each label, given the head
    margin: float  # to the second-best tree, inf if there is no other

    @property
    def errors(self) -> float:
        """Wrong heads that are expected."""
        return float((1 - self.arc).sum())


@dataclass
class Scores:
    """Scores of a batch that probabilities are computed from, at any temperature."""

    arcs: NDArray[np.float32]  # (B, N, N)
    lengths: NDArray[np.int64]
    heads: NDArray[np.int64]  # (B, N) of the trees that were found
    gold: NDArray[np.int64]  # (B, N)
    label_scores: Probabilities  # (W, L) log-probabilities, sentence after sentence
    labels: NDArray[np.int64]  # (W,) of the trees that were found
    gold_labels: NDArray[np.int64]  # (W,) -1 for those that the parser does not know
    single_root: bool

    def arc(self, temperature: float, heads: NDArray[np.int64]) -> Probabilities:
        """(W,) probabilities of heads."""
        marginals = arc_marginals(self.arcs / temperature, self.lengths, self.single_root)
        found: Probabilities = np.take_along_axis(marginals, heads.clip(min=0)[..., None], 2)[self.heads >= 0][:, 0]
        return found

    def label(self, temperature: float, labels: NDArray[np.int64]) -> Probabilities:
        """(W,) probabilities of labels, given the heads that were found."""
        scaled = self.label_scores / temperature
        scaled -= scaled.max(1, keepdims=True)
        found: Probabilities = np.exp(scaled[np.arange(len(labels)), labels]) / np.exp(scaled).sum(1)
        return found


class Calibration(NamedTuple):
    """How well probabilities match what is right."""

    ece: float  # percent
    top: float  # percent of all errors that are among the most doubtful words
    curve: list[tuple[float, float, int]]  # mean probability, share that is right, words, both in percent


def calibration(probability: Probabilities, right: NDArray[np.bool_]) -> Calibration:
    """Compare probabilities (W,) with what is right (W,)."""
    number = np.minimum((probability * BINS).astype(np.int64), BINS - 1)
    curve, gap = [], 0.0
    for k in np.unique(number).tolist():
        here = number == k
        mean, share, words = float(probability[here].mean()), float(right[here].mean()), int(here.sum())
        curve.append((100 * mean, 100 * share, words))
        gap += words * abs(mean - share)
    doubtful = np.argsort(probability, kind="stable")[: max(1, round(TOP * len(right)))]
    wrong = int(np.count_nonzero(~right))
    return Calibration(100 * gap / len(right), 100 * int(np.count_nonzero(~right[doubtful])) / max(1, wrong), curve)


def fit_temperature(loss: Callable[[float], float]) -> float:
    """The temperature from 1/16 to 16 with the least loss, by golden-section search over its logarithm."""
    low, high, ratio = -np.log(16), np.log(16), (np.sqrt(5) - 1) / 2
    points = [high - ratio * (high - low), low + ratio * (high - low)]
    values = [loss(float(np.exp(point))) for point in points]
    while high - low > 0.02:
        if values[0] < values[1]:
            high, points = points[1], [points[1] - ratio * (points[1] - low), points[0]]
            values = [loss(float(np.exp(points[0]))), values[0]]
        else:
            low, points = points[0], [points[1], points[0] + ratio * (high - points[0])]
            values = [values[1], loss(float(np.exp(points[1])))]
    return float(np.exp((low + high) / 2))


def doubts(parser: BatchParser, sentences: Sequence[Sentence]) -> Iterator[tuple[Doubt, Scores]]:
    """Parse sentences; those of a batch come with the same scores."""
    vocabulary = parser.backend.vocabulary
    names = np.array(vocabulary.labels, object)
    for positions in cut([len(sentence) for sentence in sentences], parser.settings.max_tokens):
        some = [sentences[i] for i in positions]
        with naming_sentences(some):
            batch = batch_of(some, vocabulary)
            candidates = parser.score(batch)
            found = parser.label(parser.decode(candidates))
        assert candidates.arcs is not None
        assert found.arc_probability is not None
        assert found.label_probability is not None
        heads, words = found.heads.astype(np.int64), found.heads >= 0
        scores = Scores(
            candidates.arcs,
            np.asarray(batch.lengths),
            heads,
            np.asarray(batch.heads),
            candidates.scores.label_scores(heads, words),
            found.labels[words],
            np.asarray(batch.labels)[words],
            parser.decoder.single_root,
        )
        second = found.others[0].trees.score
        for b, sentence in enumerate(some):
            place = slice(1, len(sentence) + 1)
            margin = float(found.trees.score[b] - second[b])
            arc, label = found.arc_probability[b, place], found.label_probability[b, place]
            yield Doubt(sentence, heads[b, place], names[found.labels[b, place]].tolist(), arc, label, margin), scores


def compare_with_gold(every: Sequence[Scores]) -> dict[str, dict[str, Any]]:
    """Calibration of arcs, and of arcs with labels, before and after a temperature that is fitted to each."""
    gold_heads = [scores.gold[scores.heads >= 0] for scores in every]
    heads = [scores.heads[scores.heads >= 0] for scores in every]
    right = np.concatenate([one == other for one, other in zip(heads, gold_heads)])
    both = right & np.concatenate([scores.labels == scores.gold_labels for scores in every])

    def arc_loss(temperature: float) -> float:
        return -float(sum(np.log(s.arc(temperature, s.gold).clip(min=1e-12)).sum() for s in every))

    def label_loss(temperature: float) -> float:
        return -float(
            sum(
                np.log(
                    s.label(temperature, s.gold_labels.clip(min=0))[(s.gold_labels >= 0) & (h == g)].clip(1e-12)
                ).sum()
                for s, h, g in zip(every, heads, gold_heads)
            )
        )

    fitted = {"arc": fit_temperature(arc_loss), "label": fit_temperature(label_loss)}
    report: dict[str, dict[str, Any]] = {"temperature": fitted}
    for when, (of_arc, of_label) in {"before": (1.0, 1.0), "after": (fitted["arc"], fitted["label"])}.items():
        arc = np.concatenate([scores.arc(of_arc, scores.heads) for scores in every])
        label = np.concatenate([scores.label(of_label, scores.labels) for scores in every])
        found = {"arcs": calibration(arc, right), "arcs and labels": calibration(arc * label, both)}
        report[when] = {name: one._asdict() for name, one in found.items()}
    return report


def doubt(arguments: Sequence[str]) -> None:
    """Run `arbora analyse doubt` with these arguments."""
    parser = CommandParser(prog="arbora analyse doubt", description=DOUBT)
    parser.add_argument("model", help="checkpoint that `arbora train` wrote, or a folder that was exported")
    parser.add_argument("file", help="sentences, in CoNLL-U or CoNLL-X; - for standard input")
    parser.add_argument("--top", type=int, default=20, help="sentences to print (default: 20)")
    parser.add_argument("--csv", help="file for all words, most doubtful first; - for standard output")
    parser.add_argument("--json", help="file for all sentences and the calibration; - for standard output")
    parser.add_argument("--max-tokens", type=int, default=4000, help="size of a batch, in positions when padded")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps; only for scoring")
    options = parser.parse_args(parser.positionals_first(arguments))
    if options.csv is not None and options.csv == options.json:
        raise ValueError(f"--csv and --json cannot both be {options.csv}")
    model = load(options.model, device=options.device)
    settings = ParsingSettings(options.max_tokens, probabilities=True, k_best=2, tags="keep")
    sentences = list(read_conll(options.file, trees=False))
    with ExitStack() as files:
        csv_file, json_file = (
            None if path is None else files.enter_context(open_output(path)) for path in (options.csv, options.json)
        )
        found = list(doubts(BatchParser(model.backend, model.decoder, settings), sentences))
        ranked = sorted((entry for entry, _ in found), key=lambda entry: -entry.errors)
        every = list({id(scores): scores for _, scores in found}.values())
        annotated = all(-1 not in sentence.head for sentence in sentences)
        report = compare_with_gold(every) if annotated else None
        if csv_file is not None:
            writer = csv.writer(csv_file, lineterminator="\n")
            writer.writerow(["where", "word", "form", "head", "label", "arc_probability", "label_probability"])
            writer.writerows(_words(ranked))
        if json_file is not None:
            entries = [
                {
                    "where": entry.sentence.where(),
                    "words": len(entry.sentence),
                    "expected_errors": entry.errors,
                    "margin": entry.margin if np.isfinite(entry.margin) else None,
                }
                for entry in ranked
            ]
            json.dump({"sentences": entries, "calibration": report}, json_file, indent=1)
    out = plain_console(stderr="-" in (options.csv, options.json))
    out.print(_sentence_table(ranked[: options.top]))
    if report is not None:
        out.print()
        out.print(_calibration_table(report))


def _words(ranked: Sequence[Doubt]) -> list[list[Any]]:
    rows = [
        [entry.sentence.where(word), word, form, int(head), label, f"{arc:.4f}", f"{of_label:.4f}"]
        for entry in ranked
        for word, (form, head, label, arc, of_label) in enumerate(
            zip(entry.sentence.form, entry.heads, entry.labels, entry.arc, entry.label), 1
        )
    ]
    return sorted(rows, key=lambda row: float(row[5]))


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    return table


def _sentence_table(ranked: Sequence[Doubt]) -> Table:
    table = _table("Sentences by expected wrong heads", "where", "words", "expected", "margin", "most doubtful words")
    for entry in ranked:
        words = np.argsort(entry.arc, kind="stable")[:3].tolist()
        worst = ", ".join(f"{word + 1} {entry.sentence.form[word]} ({entry.arc[word]:.2f})" for word in words)
        table.add_row(
            entry.sentence.where(), str(len(entry.sentence)), f"{entry.errors:.2f}", f"{entry.margin:.2f}", worst
        )
    return table


def _calibration_table(report: dict[str, dict[str, Any]]) -> Table:
    fitted = report["temperature"]
    title = f"Calibration; fitted temperatures {fitted['arc']:.2f} of arcs, {fitted['label']:.2f} of labels"
    curve = ", as mean probability / right (%) by probability"
    table = _table(title + curve, "of", "temperature", "ECE (%)", f"errors in the top {TOP:.0%}", "curve")
    for when, label in (("before", "1"), ("after", "fitted")):
        for name, figures in report[when].items():
            points = " ".join(f"{mean:.0f}/{share:.0f}" for mean, share, _ in figures["curve"])
            table.add_row(name, label, f"{figures['ece']:.2f}", f"{figures['top']:.1f}", points)
    return table
