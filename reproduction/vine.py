"""Rush and Petrov (2012), "Vine pruning for efficient multi-pass dependency parsing": tables 1 to 3, figures 1 and 6.

A projective parser of each order is trained: arcs; arcs and siblings; arcs, siblings, grandparents and grand-siblings.
Then every way to prune is learnt for it, all else being frozen, so that set-ups of one order differ by their pruner
alone. These parsers are lean: scorers start from a narrow layer above the encoder, and have small vectors. Products of
matrices for each word, which no pruner can save, would otherwise take most of the time. One more parser is the
baseline, the usual deep biaffine of first order, as in `small_tagged.yaml`.

VINECASCADE and VINEPOSTERIOR have a dictionary and a vine before the first order, a first-order stage more before the
second, and a second-order stage more before the third.

Time is what comes after the encoder, in batches on the CPU: all scoring of arcs, parts and stages, and decoding. It is
CPU time if there is one thread, which other work on the machine disturbs least. Set-ups take turns with each other and
with the baseline without pruning, to which speeds are relative; the lean first order without pruning is timed, too. The
encoder, which the paper does not have, takes the same time in all of them; it is timed apart, and counts in the column
of the whole parser.

Besides the paper's set-ups there are VINEODDS, which learns as VINEPOSTERIOR does and prunes by max-marginals, and
VINEOWN, which prunes what the vine leaves by the parser's own scores of arcs, see `arbora.model.pruners.stages`. Alpha
is tuned so that a stage loses a gold arc in 20 % of the sentences of the development part, which is what the paper's
figures fit; each set-up appears twice, the second time tuned so that a stage loses 0.2 % of the gold arcs.
"""

from __future__ import annotations

import copy
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from arbora.data.conll import Sentence, read_conll
from arbora.model.loading import load_network
from arbora.model.network import Network, NetworkScores
from arbora.model.pruners.vine import CascadePruner
from arbora.reproduction import parsers, published
from arbora.reproduction.report import NOTHING, Table, cited, number, over
from arbora.reproduction.run import Paper, Run, Settings
from arbora.reproduction.vine_setups import (
    DENSE_TOKENS,
    DISTANCES,
    MAX_TOKENS,
    NO_LIMIT,
    Encoded,
    PrecomputedVectors,
    Reader,
    Setup,
    by_distance,
    now,
    time_in_turn,
)

ORDERS = {"first": 1, "second": 2, "third": 3}

BASELINE = "baseline"

MODELS = {
    BASELINE: parsers.projective([]),
    "first": parsers.lean([]),
    "second": parsers.lean(["sibling"]),
    "third": parsers.lean(["grandparent", "sibling", "grand_sibling"]),
}

CASCADE = {
    1: ("dictionary", "vine"),
    2: ("dictionary", "vine", "first"),
    3: ("dictionary", "vine", "first", "second"),
}
"""Stages of the vine cascade before each order."""

NOPRUNE, DICTIONARY, VINECASCADE = "NOPRUNE", "LENGTHDICTIONARY", "VINECASCADE"
TIMED = (VINECASCADE, "VINEODDS", "VINEOWN")
"""Set-ups that are timed stage by stage, by length, and by the size of batches."""

LENGTHS = (10, 20, 50, 100, 200)
"""Words of what is timed by length: pieces of the text of the test part, wherever its sentences end."""

PIECES = 4000
"""Words of these pieces, about, for each length."""

BATCHES = (1000, 2000, 4000, 8000)
DENSE_BATCHES = (125, 250, 500)
"""Positions of a batch in what is timed by its size; the latter where all parts of third order are scored."""

UNPRUNED = {BASELINE: "baseline, no pruning", "first": "first order, no pruning", "third": "third order, no pruning"}
"""Unpruned parsers that are timed by the size of batches."""

TAGS = ("ADJ", "NOUN", "VERB")
"""Tags of figure 1."""

STRICTER = 0.002
"""Share of gold arcs that a stage may lose in the second row of a set-up; in the first it is 20 % of the sentences."""


def learnt(order: int) -> dict[str, dict[str, Any]]:
    """Pruners that are learnt for a parser of an order, by the paper's names."""
    found = {
        "LOCALSHORT": parsers.vine(("dictionary", "local_short")),
        "LOCAL": parsers.vine(("dictionary", "local")),
        "FIRSTONLY": parsers.vine(("dictionary", "first")),
    }
    if order == 3:
        found["FIRSTANDSECOND"] = parsers.vine(("dictionary", "first", "second"))
    found["VINEPOSTERIOR"] = parsers.vine(CASCADE[order], "posterior")
    found["VINEODDS"] = parsers.vine(CASCADE[order], "odds")
    found["VINEOWN"] = parsers.vine(("dictionary", "vine", "own"), "odds", vine_size=16)
    found[VINECASCADE] = parsers.vine(CASCADE[order])
    return found


def with_settings(pruner: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """A pruner with settings that the user gave."""
    return pruner | {"init_args": pruner["init_args"] | dict(more)}


def setups(order: int) -> list[str]:
    """All of table 1 for an order."""
    both = [row for name in learnt(order) for row in (name, stricter(name))]
    return [NOPRUNE, DICTIONARY, *both]


def timed() -> list[str]:
    """Set-ups that are timed in detail, by both criteria."""
    return [row for name in TIMED for row in (name, stricter(name))]


def stricter(name: str) -> str:
    """Name of a set-up that is tuned by gold arcs."""
    return f"{name}, {100 * STRICTER:g} % of arcs"


def measure(run: Run, seed: int, bases: Mapping[str, Path]) -> dict[str, Any]:
    """Train pruners, and time them."""
    found: dict[str, Any] = {}
    checkpoints: dict[str, Path] = {}
    for name, order in ORDERS.items():
        checkpoints = {
            setup: run.pruner(f"{name}-{setup.lower()}", seed, bases[name], with_settings(pruner, run.settings.pruner))
            for setup, pruner in learnt(order).items()
        }
        found[name] = run.step(f"setups-{name}", seed, compare, bases, name, checkpoints)
        found[f"lengths-{name}"] = run.step(f"growth-{name}", seed, by_length, bases, name, checkpoints)
    found["batches"] = run.step("batches", seed, by_batch, bases, checkpoints)  # of third order
    return found


def dictionary_alone(parser: Network, cascade: CascadePruner) -> None:
    """Let a parser prune by the dictionary of a cascade that was learnt, which is all that there is to learn of it."""
    settings = replace(cascade.settings, stages=("dictionary",), alpha=None)
    pruning = settings.build(parser.vocabulary, parser.encoder.size)
    assert isinstance(pruning, CascadePruner)
    pruning.longest.copy_(cascade.longest)
    parser.pruner = pruning


def load_setup(name: str, base: Path, checkpoints: Mapping[str, Path], dev: Reader | None = None) -> Network:
    """The parser of a set-up; the stricter ones are tuned on the development part."""
    learnt_name = name.partition(",")[0]
    if learnt_name in checkpoints:
        parser = load_network(checkpoints[learnt_name])
        if name != learnt_name:
            assert dev is not None
            dev.tune(parser, "arcs", STRICTER)
        return parser
    parser = load_network(base)
    if name == NOPRUNE:
        parser.pruner = None
    else:
        cascade = load_network(checkpoints[VINECASCADE]).pruner
        assert isinstance(cascade, CascadePruner)
        dictionary_alone(parser, cascade)
    return parser


def reader_of_dev(run: Run, base: Path) -> Reader:
    """Encodes the development part for a parser."""
    return Reader(load_network(base), list(read_conll(run.file("dev"))))


def compare(run: Run, bases: Mapping[str, Path], order: str, checkpoints: Mapping[str, Path]) -> dict[str, Any]:
    """Tables 1 and 2 for an order."""
    longest, higher = run.settings.longest, ORDERS[order] > 1
    limited = higher and longest < max(map(len, run.test))
    with run.threads():
        reader = Reader(load_network(bases[order]), run.test)
        dev = reader_of_dev(run, bases[order])
        setups_ = []
        for name in setups(ORDERS[order]):
            dense = higher and name in (NOPRUNE, DICTIONARY)
            encoded = reader.read(longest if higher and name == NOPRUNE else NO_LIMIT, dense)
            parser = load_setup(name, bases[order], checkpoints, dev)
            setups_.append(Setup.of(name, parser, encoded))
        unpruned = {name: Reader(load_network(bases[name]), run.test) for name in (BASELINE, "first")}
        firsts = {
            name: Setup.of(name, load_setup(NOPRUNE, bases[name], {}), own.read()) for name, own in unpruned.items()
        }
        rows = {setup.name: setup.figures(run.test) for setup in setups_}
        baseline = firsts[BASELINE].figures(run.test)
        most = {setup.name: longest if limited and setup.name == NOPRUNE else NO_LIMIT for setup in setups_}
        times: dict[str, dict[str, list[float]]] = {
            setup.name: {name: [] for name in ("seconds", *firsts)} for setup in setups_
        }
        encoder: dict[int, list[float]] = {limit: [] for limit in most.values()}
        for _ in range(run.settings.budget.repeats):
            for limit, seconds in encoder.items():
                seconds.append(reader.seconds(reader.read(limit)))
            for setup in setups_:  # each right after those that it is compared with
                for name, first in firsts.items():
                    times[setup.name][name].append(first.seconds(unpruned[name].read(most[setup.name])))
                times[setup.name]["seconds"].append(setup.seconds())
        more = {name: {"longest": limit if limit < NO_LIMIT else None} for name, limit in most.items()}
        found = {name: row | more[name] | times[name] | {"encoder": encoder[most[name]]} for name, row in rows.items()}
        stages = {
            setup.name: time_stages(setup, run.settings.budget.repeats)
            for setup in setups_
            if setup.name.startswith(TIMED)
        }
    return {"setups": found, "stages": stages, "baseline": baseline}


def time_stages(setup: Setup, repeats: int) -> dict[str, float]:
    """Table 2: seconds of each stage of a cascade, and of the last pass; the medians of some runs.

    What a stage takes is what a cascade that ends with it takes beyond one that ends before. The dictionary has no time
    of its own: a vine asks it about close arcs only. The arcs that a vine leaves are made by what comes next, in time
    that follows their number.
    """
    parser, cascade = setup.parser, setup.parser.pruner
    assert isinstance(cascade, CascadePruner)
    prefixes = []
    for count in range(1, len(cascade.learnt) + 1):
        prefix = copy.copy(cascade)
        prefix.learnt = cascade.learnt[:count]
        prefix.stages = cascade.stages[: cascade.stages.index(prefix.learnt[-1]) + 1]
        prefixes.append(prefix)
    runs: dict[str, list[float]] = {name: [] for name in (*cascade.learnt, "scores", "decoding")}
    with torch.no_grad():
        for _ in range(repeats + 1):
            found = dict.fromkeys(runs, 0.0)
            for _, batch, vectors in setup.encoded.batches:
                cast(PrecomputedVectors, parser.encoder).take(vectors, batch)
                words, before = parser.encoder(batch), 0.0
                for stage, prefix in zip(cascade.learnt, prefixes):
                    started = now()
                    prepared = prefix.prepare(words, batch, NetworkScores(parser, batch, words).arc_scores)
                    prefix.run(prepared, parser.decoder.single_root)
                    seconds = now() - started
                    found[stage] += seconds - before
                    before = seconds
                started = now()
                parts = parser.score(batch).parts(parser.decoder)
                scored = now()
                parser.decoder(parts)
                found["decoding"] += now() - scored
                found["scores"] += scored - started - before
            for name, seconds in found.items():
                runs[name].append(seconds)
    return {name: max(0.0, statistics.median(seconds[1:])) for name, seconds in runs.items()}


def pieces(sentences: Sequence[Sentence], words: int, length: int) -> list[Sentence]:
    """About this many words of the text of some sentences, in pieces of equal length without trees."""
    columns: dict[str, list[str]] = {name: [] for name in ("form", "lemma", "upos", "xpos", "feats")}
    for sentence in sentences:
        for name, column in columns.items():
            column += getattr(sentence, name)
    count = min(max(1, words // length), len(columns["form"]) // length)
    found = []
    for start in range(0, count * length, length):
        cut_out: dict[str, Any] = {name: column[start : start + length] for name, column in columns.items()}
        found.append(replace(Sentence.from_words(cut_out["form"]), **cut_out))
    return found


def by_length(run: Run, bases: Mapping[str, Path], order: str, checkpoints: Mapping[str, Path]) -> dict[str, Any]:
    """Figure 6: milliseconds per sentence by its length, without pruning and with cascades, and of the vine only."""
    found: dict[str, Any] = {}
    with run.threads():
        parser, dev = load_network(bases[order]), reader_of_dev(run, bases[order])
        for name in (NOPRUNE, *timed()):
            dense = ORDERS[order] > 1 and name == NOPRUNE
            setup = Setup.of(name, load_setup(name, bases[order], checkpoints, dev), Encoded([]))
            points: dict[str, list[dict[str, float]]] = {name: []}
            for n in LENGTHS:
                several = pieces(run.test, DENSE_TOKENS if dense else PIECES, n)
                if not several or (dense and n > run.settings.longest):
                    continue
                encoded = Reader(parser, several).read(dense=dense)
                setup.seconds(encoded)
                seconds = [setup.seconds(encoded) for _ in range(run.settings.budget.repeats)]
                points[name].append(_point(n, statistics.median(seconds), len(several)))
                if name != NOPRUNE:
                    stages = time_stages(replace(setup, encoded=encoded), run.settings.budget.repeats)
                    points.setdefault(f"{name}, vine alone", []).append(_point(n, stages["vine"], len(several)))
            for what, its in points.items():
                found[what] = {"points": its, "exponent": exponent(its)}
    return found


def by_batch(run: Run, bases: Mapping[str, Path], checkpoints: Mapping[str, Path]) -> dict[str, Any]:
    """Seconds by the size of batches, of unpruned parsers and of third order with cascades, on the same sentences."""
    longest = run.settings.longest
    with run.threads():
        dev = reader_of_dev(run, bases["third"])
        readers = {name: Reader(load_network(bases[name]), run.test) for name in (BASELINE, "first", "third")}
        sides = {UNPRUNED[name]: (name, NOPRUNE) for name in readers} | {name: ("third", name) for name in timed()}
        timers: dict[str, dict[str, Callable[[], float]]] = {}
        for side, (base, name) in sides.items():
            setup = Setup.of(side, load_setup(name, bases[base], checkpoints, dev), Encoded([]))
            dense = (base, name) == ("third", NOPRUNE)
            timers[side] = {}
            for size in DENSE_BATCHES if dense else BATCHES:
                encoded = readers[base].read(longest, dense, size)
                timers[side][str(size)] = partial(setup.seconds, encoded)
        seconds = time_in_turn(timers, run.settings.budget.repeats)
    return {"seconds": seconds, "words": sum(n for n in map(len, run.test) if n <= longest), "longest": longest}


def _point(n: int, seconds: float, sentences: int) -> dict[str, float]:
    return {"words": n, "sentences": sentences, "milliseconds": 1000 * seconds / sentences}


def exponent(points: Sequence[Mapping[str, float]]) -> float | None:
    """p of the least-squares fit time ~ n^p; None with fewer than two lengths."""
    if len(points) < 2:
        return None
    logs = np.log([[point["words"], point["milliseconds"]] for point in points])
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])


def tables(results: Sequence[dict[str, Any]], run: Run) -> list[Table]:
    """Tables 1 to 3, figures 1 and 6, and time by the size of batches."""
    ones = [_table_1(results, name, order, run.settings) for name, order in ORDERS.items()]
    threes = summary({Path(run.settings.treebank).name: results})
    return [*ones, _table_2(results), *threes, figure_1(results, run), figure_6(results), best_batches(results)]


def _median(values: Sequence[float]) -> float:
    return statistics.median(values)


def _rate(row: dict[str, Any]) -> float:
    """Words per second after the encoder."""
    return float(row["words"] / _median(row["seconds"]))


def _speed(result: dict[str, Any], setup: str, than: str = BASELINE, whole: bool = False) -> float:
    """Relative to an unpruned parser of first order, the baseline or the lean one, on the same sentences."""
    row = result["setups"][setup]
    encoder = _median(row["encoder"]) if whole else 0.0
    return (_median(row[than]) + encoder) / (_median(row["seconds"]) + encoder)


def _table_1(results: Sequence[dict[str, Any]], name: str, order: int, settings: Settings) -> Table:
    found = [result[name] for result in results]
    longest = found[0]["setups"][NOPRUNE]["longest"]
    rows = []
    for setup in setups(order):
        paper = published.VINE_TABLE_1[order].get(setup, {})
        entries = [result["setups"][setup] for result in found]
        limited = entries[0]["longest"] is not None
        spread = [f"{min(e['seconds']):.2f} to {max(e['seconds']):.2f}" for e in entries]
        rows.append(
            [
                f"{setup}, ≤ {longest} words" if limited else setup,
                number([_speed(result, setup) for result in found]),
                cited(paper.get("speed")),
                number([_speed(result, setup, "first") for result in found]),
                number([_speed(result, setup, whole=True) for result in found]),
                number([_rate(entry) for entry in entries], 0),
                "; ".join(spread),
                over(entries, "efficiency", digits=1),
                cited(paper.get("efficiency"), 1),
                over(entries, "oracle_uas", digits=1),
                cited(paper.get("oracle_uas"), 1),
                over(entries, "uas"),
                over(entries, "without_punctuation"),
                cited(paper.get("uas"), 1),
            ]
        )
    columns = [
        "",
        "speed",
        "(paper)",
        "to lean",
        "with encoder",
        "words/s",
        "seconds",
        "PE",
        "(paper)",
        "oracle",
        "(paper)",
        "UAS",
    ]
    columns += ["without punctuation", "(paper)"]
    notes = [
        "speed: relative to the unpruned baseline, the deep biaffine of first order, on the same sentences, of all "
        f"that comes after the encoder; the baseline has {over([result['baseline'] for result in found], 'uas')} UAS",
        "to lean: relative to the unpruned lean first order; with encoder: of the whole parser; words/s and seconds "
        "(least to most) are of what comes after the encoder",
        "PE: pruning efficiency, 100 (1 - |A| / n²); oracle: UAS of the projective tree among the arcs that are left "
        "with most gold arcs, below 100 without pruning where gold arcs cross",
        *([f"NOPRUNE has the sentences of at most {longest} words only"] if longest else []),
        f"{published.VINE.note}; of its table, the text at hand has the figures shown here alone",
    ]
    if more := ", ".join(f"{name} {value}" for name, value in settings.pruner.items()):
        notes.append(f"pruners are learnt with {more}")
    if order == 3:
        notes.append(f"the paper in words: {published.VINE_SECTION_6[0]}")
    return Table(f"Table 1: ways to prune, {name} order", columns, rows, notes)


def _table_2(results: Sequence[dict[str, Any]]) -> Table:
    names = {"vine": "dictionary and vine", "first": "first", "own": "own", "second": "second"}
    names |= {"scores": "last pass, scores", "decoding": "last pass, decoding"}
    rows = []
    for name, setup in product(ORDERS, timed()):
        found = [result[name]["stages"][setup] for result in results]
        shares = [{stage: 100 * s / sum(stages.values()) for stage, s in stages.items()} for stages in found]
        cells = [over(shares, stage, digits=1) for stage in names]
        seconds = number([sum(stages.values()) for stages in found])
        rows.append([f"{name} order, {setup}", *cells, seconds])
    notes = [
        "shares in % of the time after the encoder; scores are of arcs and parts that are left",
        f"the paper in words: {published.VINE_SECTION_6[1]}; the text at hand has no figures of its table 2",
    ]
    return Table("Table 2: time of each stage", ["", *names.values(), "seconds"], rows, notes)


def summary(treebanks: Mapping[str, Sequence[dict[str, Any]]]) -> list[Table]:
    """Table 3: unpruned parsers and cascades by treebank, of networks or linear models."""
    rows = []
    for treebank, results in treebanks.items():
        for name in ORDERS:
            found = [result[name] for result in results]
            for setup in (NOPRUNE, *timed()):
                if setup not in found[0]["setups"]:
                    continue
                entries = [result["setups"][setup] for result in found]
                limited = f", ≤ {entries[0]['longest']} words" if entries[0]["longest"] else ""
                speeds = number([_speed(result, setup) for result in found])
                rate = number([_rate(entry) for entry in entries], 0)
                rows.append([f"{treebank}, {name} order, {setup}{limited}", over(entries, "uas"), speeds, rate])
    for language, (uas, rate_) in published.VINE_TABLE_3.items():
        cells = [cited(uas, 1), NOTHING, cited(rate_, 0)]
        rows.append([f"{language}, third order, VINECASCADE (paper)", *cells])
    notes = [
        "ours: speed and words per second as in table 1; all words count, as in the paper's other treebanks",
        "paper: CoNLL-X, UAS and tokens per second as table 3 of Martins et al. (2013) cites them; the text at hand "
        "has no other figures of its table 3",
    ]
    return [Table("Table 3: other treebanks", ["", "UAS", "speed", "words/s"], rows, notes)]


def figure_1(results: Sequence[dict[str, Any]], run: Run) -> Table:
    """Arcs by the distance of their words: gold arcs of common tags, and what the third-order cascade leaves."""
    counts = {"all": np.zeros(len(DISTANCES))} | {tag: np.zeros(len(DISTANCES)) for tag in TAGS}
    for sentence in run.test:
        heads, places, tags = np.array(sentence.head), np.arange(1, len(sentence) + 1), np.array(sentence.upos)
        for tag, count in counts.items():
            chosen = (tags == tag) | (tag == "all")
            count += by_distance(heads[chosen], places[chosen])
    names = (VINECASCADE, stricter(VINECASCADE))
    rows = []
    for i, group in enumerate(DISTANCES):
        cells = [number(100 * count[i] / count.sum() if count.any() else None, 1) for count in counts.values()]
        for name in names:
            for kind in ("arcs_by_distance", "gold_by_distance"):
                every = results[0]["first"]["setups"][NOPRUNE][kind][i]
                left = [result["third"]["setups"][name][kind][i] for result in results]
                cells.append(number([100 * count / every for count in left] if every else None, 1))
        rows.append([group, *cells])
    columns = ["distance", *counts, *(f"{name}: {what}" for name in names for what in ("arcs left", "gold left"))]
    notes = [
        "gold arcs of the test part in %, all and by the tag of the modifier, by the distance of their words; in the "
        "paper, of the development part",
        "arcs left, gold left: % of all arcs and of the gold arcs of this distance that the third-order cascade leaves",
    ]
    return Table("Figure 1: arcs by distance", columns, rows, notes)


def figure_6(results: Sequence[dict[str, Any]], what: str = "after the encoder") -> Table:
    """Time by length, of what is timed."""
    rows = []
    for name in ORDERS:
        for setup in results[0][f"lengths-{name}"]:
            found = [result[f"lengths-{name}"][setup] for result in results]
            by_words = [{point["words"]: point["milliseconds"] for point in entry["points"]} for entry in found]
            cells = [over(by_words, n, digits=3) for n in LENGTHS]
            rows.append([f"{name} order, {setup}", *cells, over(found, "exponent")])
    notes = [
        f"milliseconds per sentence {what}, in batches of one length: pieces of the test part's text, "
        "wherever its sentences end; p of the fit t ~ n^p",
        f"the paper in words: {published.VINE_SECTION_6[2]}",
    ]
    columns = ["", *(f"{n} words" for n in LENGTHS), "p"]
    return Table("Figure 6: time by length", columns, rows, notes)


def best_batches(results: Sequence[dict[str, Any]], what: str = "after the encoder") -> Table:
    """Time by the size of batches, and ratios to unpruned parsers, each with its best size."""
    found = [result["batches"] for result in results]
    sides = found[0]["seconds"]
    best = [{side: min(map(_median, one["seconds"][side].values())) for side in sides} for one in found]
    unpruned = [side for side in UNPRUNED.values() if side in sides]
    sizes = list(dict.fromkeys(size for side in sides.values() for size in side))
    rows = []
    for side in sides:
        cells = []
        for size in sizes:
            there = [(_median(one["seconds"][side].get(size, [np.nan])), one["words"]) for one in found]
            cells.append(number([1e6 * seconds / words for seconds, words in there]))
        cells += [number([one[other] / one[side] for one in best]) for other in unpruned]
        rows.append([side if side in unpruned else f"third order, {side}", *cells])
    columns = ["", *(f"{size} positions" for size in sizes), *(f"to {side}" for side in unpruned)]
    notes = [
        f"microseconds per word {what}, on the sentences of at most {found[0]['longest']} words; to: speed relative to "
        "an unpruned parser, each with its best size",
        f"the other tables have batches of {MAX_TOKENS} positions, and of {DENSE_TOKENS} where all parts are scored",
        f"the paper in words: {published.VINE_SECTION_6[0]}",
    ]
    return Table("Time by size of batches", columns, rows, notes)


PAPER = Paper("vine", published.VINE, MODELS, measure, tables, summary)
