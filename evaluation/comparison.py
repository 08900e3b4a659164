"""Comparison of decoders on exactly the same scores.

`decode` finds trees, `measure` takes times, and `report` combines the figures.

- Figures of accuracy are those of `Evaluation`, on the sentences for which a decoder found a tree.
- The best known score of a sentence is that of the best tree that any of the decoders found, and the best bound is the
  lowest bound. Decoders for trees with one root are compared separately from decoders for several roots. Bounds of
  projective decoders are not used, because they hold only for projective trees.
- Differences to a reference decoder have intervals by the paired bootstrap over sentences (Koehn, 2004, "Statistical
  significance tests for machine translation evaluation"): all decoders are drawn the same sentences.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from arbora.decoders import AD3, Decoder, HillClimbing, Parts, Subgradient, Trees
from arbora.decoders.dual.ad3 import RelaxedTrees
from arbora.decoders.k_best import k_best
from arbora.decoders.parts.kinds import ranges_of
from arbora.evaluation.figures import Evaluation
from arbora.evaluation.memory import peak_memory
from arbora.evaluation.saved import ScoredTreebank

LENGTHS = {name: int(re.match(r"\d+", name)[0]) for name in Evaluation().figures()["sentence_length"]}  # type: ignore[index]
"""Groups of sentences by length, given by their shortest length."""

SAME = 1e-6
"""Scores with a smaller relative difference count as equal."""

RESTARTS = (1, 2, 5, 10, 20, 50, 100, 200)
"""Numbers of climbs for which hill-climbing is evaluated."""

RANKS = (1, 2, 5, 10, 50)
"""Values of k for which the best of the k best trees is reported."""

LATENCIES = 2000
"""Maximum number of sentences that are timed one by one."""

SHORTEST = 0.05
"""Minimum seconds of a timed run: faster decoders decode all sentences several times in a row."""

_CHUNK = 1 << 22  # numbers drawn at a time
_SHOWN = 20  # failures listed for a decoder

Advance = Callable[[int], None]
"""Progress callback, called with a number of sentences."""


@dataclass(frozen=True)
class Variant:
    """A decoder with its name in the report."""

    name: str
    decoder: Decoder


@dataclass(frozen=True)
class Failure:
    """A sentence for which a decoder found no tree: its index in the file, from 0, and the reason."""

    sentence: int
    reason: str


@dataclass
class Found:
    """Results of a decoder for all sentences, in the order of the file."""

    heads: NDArray[np.int32]  # (W,) head of each word, -1 in sentences for which it failed
    label: NDArray[np.int32]  # (W,) label of each word, likewise
    score: NDArray[np.float64]  # (S,) exact scores of the trees, NaN where it failed
    bound: NDArray[np.float64]  # (S,) NaN where there is none
    certified: NDArray[np.bool_]  # (S,) whether the tree is proved to be the best
    counters: dict[str, NDArray[np.int64]] = field(default_factory=dict)  # (S,) each, by name
    failures: list[Failure] = field(default_factory=list)  # by sentence
    retried: set[int] = field(default_factory=set)  # numbers of the batches that failed as a whole
    # (S,) whether the solution of the decoder's relaxation is a tree; None if it solves no relaxation.
    integral: NDArray[np.bool_] | None = None

    @property
    def ok(self) -> NDArray[np.bool_]:
        """(S,) where there is a tree."""
        return ~np.isnan(self.score)


def decode(decoder: Decoder, scored: ScoredTreebank, advance: Advance | None = None) -> Found:
    """Find the trees of all sentences. If a batch fails, its sentences are decoded one by one.

    Args:
        decoder: any decoder.
        scored: the sentences.
        advance: for progress.
    """
    sentences, words = len(scored.sentences), scored.words
    offsets = np.concatenate([[0], np.cumsum(scored.lengths)])
    found = Found(
        heads=np.full(words, -1, np.int32),
        label=np.full(words, -1, np.int32),
        score=np.full(sentences, np.nan),
        bound=np.full(sentences, np.nan),
        certified=np.zeros(sentences, np.bool_),
    )
    for number, (parts, places, label) in enumerate(zip(scored.batches, scored.places(), scored.label, strict=True)):
        for chosen, trees, reason in _attempts(decoder, parts):
            if len(chosen) < len(parts.lengths) or trees is None:
                found.retried.add(number)
            if trees is None:
                found.failures.append(Failure(int(places[chosen[0]]), reason))
                continue
            some = parts if len(chosen) == len(parts.lengths) else parts.subset(chosen)
            flat, at = _words(trees.heads, some), ranges_of(offsets[places[chosen]], some.lengths)
            found.heads[at] = flat
            arcs = some.only().active(trees.heads)["arc"]
            if len(chosen) < len(parts.lengths):
                arcs = parts.entries("arc", chosen)[arcs]
            found.label[at] = label[arcs]
            where = places[chosen]
            found.score[where] = trees.score
            found.certified[where] = trees.certified
            if trees.bound is not None:
                found.bound[where] = trees.bound
            if isinstance(trees, RelaxedTrees):
                if found.integral is None:
                    found.integral = np.zeros(sentences, np.bool_)
                found.integral[where] = trees.integral
            for name, counts in trees.counters.items():
                found.counters.setdefault(name, np.zeros(sentences, np.int64))[where] = counts
        if advance is not None:
            advance(len(places))
    found.failures.sort(key=lambda failure: failure.sentence)
    return found


def _attempts(decoder: Decoder, parts: Parts) -> Iterator[tuple[NDArray[np.int64], Trees | None, str]]:
    """Decode the sentences of a batch at once, or one by one if that fails. Yields trees, or reasons for failures."""
    every = np.arange(len(parts.lengths))
    trees, reason = _attempt(decoder, parts)
    if trees is not None:
        yield every, trees, ""
    elif len(every) == 1:
        yield every, None, reason
    else:
        for b in every:
            alone = every[b : b + 1]
            yield alone, *_attempt(decoder, parts.subset(alone))


def _attempt(decoder: Decoder, parts: Parts) -> tuple[Trees | None, str]:
    try:
        trees = decoder(parts)
        _check(parts, trees)
        return trees, ""
    except Exception as error:  # an error in one decoder must not end the comparison of the others
        return None, _reason(error)


def _reason(error: Exception) -> str:
    """Return the message of an error in one line."""
    reason = " ".join(str(error).split())
    reason = re.sub(r"^sentence 0: ", "", reason)  # it was alone
    return reason if isinstance(error, ValueError) else f"{type(error).__name__}: {reason}"


def _check(parts: Parts, trees: Trees) -> None:
    """Raise an error unless each result is a tree of candidate arcs with the score that the decoder gives."""
    heads = np.asarray(trees.heads)
    if heads.shape != parts.empty_trees().shape:
        raise ValueError(f"the decoder returned heads of shape {heads.shape}")
    position = np.arange(heads.shape[1])
    inside = (position > 0) & (position <= parts.lengths[:, None])
    if not ((heads >= 0) == inside).all() or (heads > parts.lengths[:, None]).any():
        raise ValueError("the decoder returned heads outside of the sentence")
    ancestor = np.where(inside, heads, 0)
    for _ in range(int(heads.shape[1]).bit_length()):
        ancestor = np.take_along_axis(ancestor, ancestor, axis=1)
    if ancestor.any():
        raise ValueError("the decoder returned a cycle")
    if not np.isfinite(parts.only().score(heads)).all():
        raise ValueError("the decoder returned an arc that is not a candidate")
    exact = parts.score(heads)  # -inf if a forbidden part fires
    if not np.allclose(exact, trees.score, rtol=SAME, atol=SAME):
        raise ValueError("the decoder returned a tree with a wrong score")


def _words(heads: NDArray[np.int32], parts: Parts) -> NDArray[np.int32]:
    position = np.arange(heads.shape[1])
    flat: NDArray[np.int32] = heads[(position > 0) & (position <= parts.lengths[:, None])]
    return flat


@dataclass
class Times:
    """Times of a decoder, in seconds."""

    total: list[float]  # seconds of each run over all sentences in batches
    words: int  # number of words in these sentences
    alone: NDArray[np.float64]  # (S,) for a sentence by itself, NaN where that was not measured
    memory: int | None  # peak of additional memory in bytes; None if the system does not report it
    failures: list[str] = field(default_factory=list)  # reasons why runs failed; failed runs are not in `total`


def measure(
    variants: Sequence[Variant],
    found: Sequence[Found],
    scored: ScoredTreebank,
    repeats: int,
    seed: int = 0,
    advance: Advance | None = None,
) -> list[Times]:
    """Time decoders that have been run before, on the sentences for which they find a tree.

    Runs over all sentences alternate between decoders, so that a busy moment of the machine does not affect only one of
    them. Then sentences are decoded one by one, with the same number of repetitions. Runs that fail are reported and
    left out; the others continue.

    Args:
        variants: the decoders.
        found: results of `decode` for each decoder.
        scored: the sentences.
        repeats: number of runs of each decoder.
        seed: of the choice of sentences that are timed one by one, where they are many.
        advance: for progress.
    """
    batches = [_kept(variant.decoder, one, scored) for variant, one in zip(variants, found, strict=True)]
    times = [
        Times([], int(scored.lengths[one.ok].sum()), np.full(len(scored.sentences), np.nan), None) for one in found
    ]
    for _ in range(repeats):
        for variant, kept, entry in zip(variants, batches, times, strict=True):
            _time_run(variant.decoder, kept, entry)
            if advance is not None:
                advance(len(scored.sentences))
    rng = np.random.default_rng(seed)
    chosen = np.zeros(len(scored.sentences), np.bool_)
    chosen[rng.permutation(len(chosen))[:LATENCIES]] = True
    for parts, places in zip(scored.batches, scored.places(), strict=True):
        for b in np.flatnonzero(chosen[places]):
            alone, place = parts.subset([b]), places[b]
            alone.layout  # noqa: B018 - made here, since it is made once for all decoders
            for variant, one, entry in zip(variants, found, times, strict=True):
                if one.ok[place]:
                    _time_alone(variant.decoder, alone, repeats, int(place), entry)
        if advance is not None:
            advance(len(places) * len(variants))
    return times


def _time_run(decoder: Decoder, batches: Sequence[Parts], times: Times) -> None:
    """Time all batches, and see what memory they take the first time."""
    passes, seconds = 0, 0.0
    try:
        with peak_memory() as memory:
            started = time.perf_counter()
            while passes == 0 or seconds < SHORTEST:
                for parts in batches:
                    decoder(parts)
                passes += 1
                seconds = time.perf_counter() - started
    except Exception as error:  # as in `_attempt`
        times.failures.append(_reason(error))
        return
    if not times.total:
        times.memory = memory.bytes
    times.total.append(seconds / passes)


def _time_alone(decoder: Decoder, parts: Parts, repeats: int, place: int, times: Times) -> None:
    """Time one sentence some times, and keep the median."""
    runs = []
    try:
        for _ in range(repeats):
            started = time.perf_counter()
            decoder(parts)
            runs.append(time.perf_counter() - started)
    except Exception as error:  # as in `_attempt`
        times.failures.append(_reason(error))
        return
    times.alone[place] = statistics.median(runs)


def _kept(decoder: Decoder, found: Found, scored: ScoredTreebank) -> list[Parts]:
    """Yield the batches without the sentences that have no tree."""
    kept = []
    for number, (parts, places) in enumerate(zip(scored.batches, scored.places(), strict=True)):
        if number not in found.retried:
            kept.append(parts)
            continue
        there = np.flatnonzero(found.ok[places])
        rest = parts.subset(there)
        if len(there) and _attempt(decoder, rest)[0] is not None:
            kept.append(rest)
        else:
            kept += [parts.subset([b]) for b in there]
    return kept


class Gold:
    """Gold trees, and the correctness of other trees.

    Args:
        scored: the sentences.
    """

    def __init__(self, scored: ScoredTreebank) -> None:
        self.sentences, self.labels, self.lengths = scored.sentences, scored.labels, scored.lengths
        self.sentence = np.repeat(np.arange(len(self.lengths)), self.lengths)  # (W,) of each word
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        self.heads = np.array([head for sentence in scored.sentences for head in sentence.head], np.int32)
        self.label_names = [label for sentence in scored.sentences for label in sentence.deprel]
        number: dict[str, int] = {}
        bare = [number.setdefault(name.split(":")[0], len(number)) for name in scored.labels]
        self._bare_label = np.array([*bare, -1], np.int64)  # the last is that of words without a tree
        self._label = np.array([number.get(name.split(":")[0], -2) for name in self.label_names], np.int64)
        self.score, self.roots = np.full(len(self.lengths), -np.inf), self._per_sentence(self.heads == 0)
        for parts, places in zip(scored.batches, scored.places(), strict=True):
            self.score[places] = parts.score(self.trees(parts, places))

    def trees(self, parts: Parts, places: NDArray[np.int64]) -> NDArray[np.int32]:
        """(B, N) gold trees of the sentences of a batch, given their places in the file."""
        trees = parts.empty_trees()
        for b, place in enumerate(places):
            trees[b, 1 : self.lengths[place] + 1] = self.heads[self.offsets[place] : self.offsets[place + 1]]
        return trees

    def right(self, found: Found) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """(W,) whether heads are correct, and whether heads and labels are; labels without their subtypes."""
        heads = found.heads == self.heads
        return heads, heads & (self._bare_label[found.label] == self._label)

    def _per_sentence(self, words: NDArray[np.bool_]) -> NDArray[np.int64]:
        return np.bincount(self.sentence, weights=words, minlength=len(self.lengths)).astype(np.int64)

    def counts(self, found: Found) -> NDArray[np.int64]:
        """(2, S) words with the correct head, and with correct head and label; 0 in sentences without a tree."""
        return np.stack([self._per_sentence(right) for right in self.right(found)])

    def evaluation(self, found: Found) -> dict[str, Any]:
        """Return figures of `Evaluation`, on the sentences that have a tree."""
        evaluation = Evaluation()
        for i in np.flatnonzero(found.ok):
            words = slice(self.offsets[i], self.offsets[i + 1])
            labels = [self.labels[label] for label in found.label[words]]
            evaluation.add(self.sentences[i], found.heads[words].tolist(), labels)
        return evaluation.figures()


@dataclass(frozen=True)
class Best:
    """Best known score (-inf for none) and bound (inf for none) of each sentence."""

    score: NDArray[np.float64]
    bound: NDArray[np.float64]

    @classmethod
    def known(cls, variants: Sequence[Variant], found: Sequence[Found], single_root: bool) -> Best:
        """Return the best known values for trees with one root, or with any number of roots."""
        score = np.full(len(found[0].score), -np.inf)
        bound = np.full(len(score), np.inf)
        for variant, one in zip(variants, found, strict=True):
            decoder = variant.decoder
            if decoder.single_root or not single_root:
                score = np.fmax(score, one.score)
            if not decoder.projective and (single_root or not decoder.single_root):
                bound = np.fmin(bound, one.bound)
        return cls(score, bound)

    def reached(self, score: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return whether scores are the best known ones."""
        with np.errstate(invalid="ignore"):
            return score >= self.score - SAME * (1 + np.abs(self.score))

    def wrong_bounds(self) -> NDArray[np.bool_]:
        """Return whether the score of a tree contradicts a bound."""
        with np.errstate(invalid="ignore"):
            return self.score > self.bound + SAME * (1 + np.abs(self.score))


def bootstrap(
    right: NDArray[np.int64], ok: NDArray[np.bool_], lengths: NDArray[np.int64], reference: int, draws: int, seed: int
) -> NDArray[np.float64]:
    """Compute 95 % confidence intervals of differences in accuracy to a reference, in percent.

    Args:
        right: (D, 2, S) correct words of each decoder, by heads, and by heads and labels.
        ok: (D, S) whether a decoder has a tree. It is compared on the sentences for which the reference has a tree,
            too.
        lengths: (S,) words.
        reference: which of the decoders is the reference.
        draws: number of samples of S sentences, with replacement.
        seed: of the draws.

    Returns:
        (D, 2, 2) lower and upper limits; NaN if there is nothing to compare.
    """
    common = ok & ok[reference]  # (D, S)
    differences = (right - right[reference]) * common[:, None]  # (D, 2, S)
    words = common * lengths  # (D, S)
    size = len(lengths)
    rng = np.random.default_rng(seed)
    drawn = []
    rows = max(1, _CHUNK // max(1, size))
    for start in range(0, draws, rows):
        times = rng.multinomial(size, np.full(size, 1 / size), size=min(rows, draws - start)).astype(np.float64)
        top = np.einsum("rs,dks->rdk", times, differences, optimize=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            drawn.append(100 * top / (times @ words.T)[:, :, None])
    every = np.concatenate(drawn)  # (draws, D, 2)
    out = np.full((len(right), 2, 2), np.nan)
    for d in range(len(right)):
        values = every[~np.isnan(every[:, d]).any(axis=1), d]
        if len(values):
            out[d] = np.percentile(values, [2.5, 97.5], axis=0).T
    return out


def report(
    variants: Sequence[Variant],
    found: Sequence[Found],
    times: Sequence[Times],
    scored: ScoredTreebank,
    reference: int = 0,
    draws: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """Return all figures, ready for JSON; None is a missing value.

    Args:
        variants: the decoders.
        found: results of `decode` for each decoder.
        times: results of `measure` for each decoder.
        scored: the sentences.
        reference: index of the decoder with which the others are compared.
        draws: samples of the bootstrap.
        seed: seed of the bootstrap.
    """
    gold = Gold(scored)
    best = {mode: Best.known(variants, found, mode) for mode in (True, False)}
    right = np.stack([gold.counts(one) for one in found])
    ok = np.stack([one.ok for one in found])
    intervals = bootstrap(right, ok, scored.lengths, reference, draws, seed)
    scoring = scored.about.get("scoring") or {}
    decoders = []
    for d, (variant, one, time_) in enumerate(zip(variants, found, times, strict=True)):
        known = best[variant.decoder.single_root]
        decoders.append(
            {
                "name": variant.name,
                "decoder": type(variant.decoder).__name__,
                "settings": settings_of(variant.decoder),
                "sentences": int(ok[d].sum()),
                "words": int(scored.lengths[ok[d]].sum()),
                "failures": _failures(one, scored),
                "accuracy": gold.evaluation(one),
                "search": _search(one, known, gold, variant.decoder),
                "against_reference": _against(one, found[reference], gold, intervals[d]),
                "speed": _speed(time_, scoring),
                "counters": {name: _mean(counts[ok[d]]) for name, counts in one.counters.items()},
                "by_length": _by_length(one, time_, known, gold, right[d]),
            }
        )
    return {
        "reference": variants[reference].name,
        "warnings": _warnings(variants, found, best, scored),
        "lengths": [
            {"name": name, "sentences": int(group.sum()), "words": int(scored.lengths[group].sum())}
            for name, group in _groups(scored.lengths)
        ],
        "decoders": decoders,
        "errors": errors(found, gold, reference),
        "sentences": disagreements(found, gold),
    }


def settings_of(decoder: Decoder) -> dict[str, Any]:
    """Return the settings of a decoder by name; nested decoders as Python prints them."""
    values: dict[str, Any] = (
        {item.name: getattr(decoder, item.name) for item in fields(decoder)} if is_dataclass(decoder) else {}
    )
    return {name: repr(value) if isinstance(value, Decoder) else value for name, value in values.items()}


def _failures(found: Found, scored: ScoredTreebank) -> dict[str, Any]:
    listed = [
        {"sentence": failure.sentence + 1, "where": scored.sentences[failure.sentence].where(), "why": failure.reason}
        for failure in found.failures[:_SHOWN]
    ]
    return {"count": len(found.failures), "first": listed}


def _search(found: Found, best: Best, gold: Gold, decoder: Decoder) -> dict[str, Any]:
    ok = found.ok
    score = found.score[ok]
    bounded = ok & np.isfinite(best.bound)
    legal = ok & ((gold.roots == 1) | (not decoder.single_root))
    with np.errstate(invalid="ignore"):
        above = legal & (gold.score > found.score + SAME * (1 + np.abs(found.score)))
    return {
        "mean_score": _mean(score),
        "best": _share(best.reached(found.score)[ok]),
        "gap_to_best": _mean((best.score - found.score)[ok]),
        "gap_to_bound": _mean((best.bound - found.score)[bounded]),
        "bounded": int(bounded.sum()),
        "certified": _share(found.certified[ok]),
        "gold_scores_more": _share(above[ok]),
        "integral": None if found.integral is None else _share(found.integral[ok]),
        "open_gap": _mean((found.bound - found.score)[ok & ~found.certified & np.isfinite(found.bound)]),
    }


def _against(found: Found, reference: Found, gold: Gold, interval: NDArray[np.float64]) -> dict[str, Any]:
    common = (found.ok & reference.ok)[gold.sentence]  # words of sentences where both have a tree
    (head, both), (other_head, other_both) = gold.right(found), gold.right(reference)
    both_ok = found.ok & reference.ok
    same = SAME * (1 + np.abs(reference.score))
    with np.errstate(invalid="ignore"):
        higher, lower = found.score > reference.score + same, found.score < reference.score - same
    figures: dict[str, Any] = {
        "sentences": int(both_ok.sum()),
        "scores_more": _share(higher[both_ok]),
        "scores_less": _share(lower[both_ok]),
        "shared_arcs": _share((found.heads == reference.heads)[common]),
        "gold_here_alone": _share((head & ~other_head)[common]),
        "gold_there_alone": _share((~head & other_head)[common]),
    }
    for k, (name, one, other) in enumerate((("uas", head, other_head), ("las", both, other_both))):
        low, high = (None if np.isnan(end) else float(end) for end in interval[k])
        more = int(one[common].sum()) - int(other[common].sum())
        figures[name] = {
            "difference": 100 * more / int(common.sum()) if common.any() else None,
            "low": low,
            "high": high,
        }
    return figures


def _speed(times: Times, scoring: Mapping[str, Any]) -> dict[str, Any]:
    decoding = [times.words / seconds for seconds in times.total if times.words and seconds > 0]
    together = None
    if scoring.get("seconds") and decoding:
        each = statistics.median(scoring["seconds"]) / scoring["words"] + statistics.median(times.total) / times.words
        together = 1 / each
    alone = times.alone[~np.isnan(times.alone)]
    return {
        "seconds": times.total,
        "words_per_second": spread(decoding),
        "with_scoring": together,
        "median_ms": _percentile(alone, 50),
        "p99_ms": _percentile(alone, 99),
        "memory_mb": None if times.memory is None else times.memory / 1e6,
        "failures": {"count": len(times.failures), "first": times.failures[0] if times.failures else None},
    }


def _by_length(
    found: Found, times: Times, best: Best, gold: Gold, right: NDArray[np.int64]
) -> list[dict[str, Any] | None]:
    """Return figures of each group of sentences; None for a group without trees."""
    rows: list[dict[str, Any] | None] = []
    for _, group in _groups(gold.lengths):
        chosen = group & found.ok
        if not chosen.any():
            rows.append(None)
            continue
        words = int(gold.lengths[chosen].sum())
        alone = times.alone[chosen & ~np.isnan(times.alone)]
        iterations = found.counters.get("iterations")
        rows.append(
            {
                "sentences": int(chosen.sum()),
                "mean_length": words / int(chosen.sum()),
                "uas": 100 * int(right[0][chosen].sum()) / words,
                "las": 100 * int(right[1][chosen].sum()) / words,
                "mean_score": _mean(found.score[chosen]),
                "best": _share(best.reached(found.score)[chosen]),
                "gap_to_best": _mean((best.score - found.score)[chosen]),
                "certified": _share(found.certified[chosen]),
                "median_ms": _percentile(alone, 50),
                "p99_ms": _percentile(alone, 99),
                "iterations": None if iterations is None else _mean(iterations[chosen]),
            }
        )
    return rows


def _groups(lengths: NDArray[np.int64]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    number = np.searchsorted(list(LENGTHS.values()), lengths, side="right") - 1
    for k, name in enumerate(LENGTHS):
        if (number == k).any():
            yield name, number == k


def _warnings(
    variants: Sequence[Variant], found: Sequence[Found], best: Mapping[bool, Best], scored: ScoredTreebank
) -> list[str]:
    """Return errors: certificates that another decoder refutes."""
    messages = []
    for mode in {variant.decoder.single_root for variant in variants}:
        known = best[mode]
        for i in np.flatnonzero(known.wrong_bounds()):
            names = ", ".join(v.name for v, one in zip(variants, found) if one.bound[i] == known.bound[i])
            where, score, bound = scored.sentences[i].where(), known.score[i], known.bound[i]
            messages.append(f"{where}: a tree scores {score:.6f}, above {bound:.6f}, the bound of {names}")
    return messages[:_SHOWN]


def errors(found: Sequence[Found], gold: Gold, reference: int) -> dict[str, list[dict[str, Any]]]:
    """Accuracy by label and by part of speech of the gold trees, most errors of the reference first.

    Returns:
        Under `label` and `upos`, rows of a name, words, LAS of each decoder in percent, and wrong words of the
        reference. Words of sentences for which a decoder found no tree count as wrong.
    """
    right = [gold.right(one)[1] for one in found]
    names = {
        "label": [name.partition(":")[0] for name in gold.label_names],
        "upos": [tag for sentence in gold.sentences for tag in sentence.upos],
    }
    tables: dict[str, list[dict[str, Any]]] = {}
    for key, of_words in names.items():
        kinds, number = np.unique(of_words, return_inverse=True)
        words = np.bincount(number)
        counts = [np.bincount(number, weights=one, minlength=len(kinds)) for one in right]
        rows = [
            {
                "name": str(kind),
                "words": int(words[k]),
                "las": [float(100 * one[k] / words[k]) for one in counts],
                "wrong": int(words[k] - counts[reference][k]),
            }
            for k, kind in enumerate(kinds)
        ]
        tables[key] = sorted(rows, key=lambda row: (-row["wrong"], row["name"]))
    return tables


def disagreements(found: Sequence[Found], gold: Gold) -> list[dict[str, Any]]:
    """Sentences for which decoders found different or wrong trees, for a reader to look at.

    Each has its distinct trees, `tree` says which one each decoder found (None where it failed), and `score` of each
    tree. Labels of trees and of gold are names.
    """
    right = np.all([gold.right(one)[1] for one in found], axis=0)
    entries = []
    for i, sentence in enumerate(gold.sentences):
        words = slice(gold.offsets[i], gold.offsets[i + 1])
        trees: dict[bytes, int] = {}
        which: list[int | None] = []
        kept: list[dict[str, Any]] = []
        for one in found:
            if not one.ok[i]:
                which.append(None)
                continue
            heads = one.heads[words]
            number = trees.setdefault(heads.tobytes(), len(trees))
            if number == len(kept):
                labels = [gold.labels[label] for label in one.label[words]]
                kept.append({"heads": heads.tolist(), "labels": labels, "score": float(one.score[i])})
            which.append(number)
        if len(kept) > 1 or not right[words].all():
            score = float(gold.score[i])
            entries.append(
                {
                    "number": i + 1,
                    "where": sentence.where(),
                    "words": sentence.form,
                    "upos": sentence.upos,
                    "gold": {
                        "heads": list(sentence.head),
                        "labels": list(sentence.deprel),
                        "score": score if np.isfinite(score) else None,
                    },
                    "trees": kept,
                    "tree": which,
                }
            )
    return entries


def sentence_rows(
    variants: Sequence[Variant], found: Sequence[Found], times: Sequence[Times], scored: ScoredTreebank
) -> Iterator[dict[str, Any]]:
    """Return a row for each sentence and decoder; None is a missing value."""
    gold = Gold(scored)
    right = [gold.counts(one) for one in found]
    reasons = [{failure.sentence: failure.reason for failure in one.failures} for one in found]
    for i, sentence in enumerate(scored.sentences):
        for variant, one, time_, (heads, labels), why in zip(variants, found, times, right, reasons, strict=True):
            there = bool(one.ok[i])
            iterations = one.counters.get("iterations")
            yield {
                "sentence": i + 1,
                "where": sentence.where(),
                "words": len(sentence),
                "decoder": variant.name,
                "score": float(one.score[i]) if there else None,
                "bound": None if np.isnan(one.bound[i]) else float(one.bound[i]),
                "certified": int(one.certified[i]) if there else None,
                "right_heads": int(heads[i]) if there else None,
                "right_labels": int(labels[i]) if there else None,
                "milliseconds": None if np.isnan(time_.alone[i]) else 1000 * float(time_.alone[i]),
                "iterations": int(iterations[i]) if there and iterations is not None else None,
                "failure": why.get(i),
            }


def restarts(scored: ScoredTreebank, best: NDArray[np.float64], advance: Advance | None = None) -> list[dict[str, Any]]:
    """Evaluate hill-climbing with growing numbers of climbs, from both kinds of random starting trees.

    Args:
        scored: the sentences.
        best: (S,) best known scores.
        advance: for progress.
    """
    rows: list[dict[str, Any]] = []
    every: list[Found] = []
    gold = Gold(scored)
    starts: tuple[Literal["uniform", "first_order"], ...] = ("uniform", "first_order")
    for start in starts:
        for count in RESTARTS:
            decoder = HillClimbing(restarts=count, start=start, best_first=False)
            found = decode(decoder, scored, advance)
            times = Times([], 0, np.empty(0), None)
            _time_run(decoder, _kept(decoder, found, scored), times)
            seconds = times.total[0] if times.total else None
            best = np.fmax(best, found.score)
            every.append(found)
            rows.append({"start": start, "restarts": count, "sentences": int(found.ok.sum()), "seconds": seconds})
    for row, one in zip(rows, every, strict=True):
        ok = one.ok
        words = int(scored.lengths[ok].sum())
        row["mean_score"] = _mean(one.score[ok])
        row["best"] = _share(Best(best, best).reached(one.score)[ok])
        row["gap_to_best"] = _mean((best - one.score)[ok])
        row["uas"] = 100 * int(gold.counts(one)[0].sum()) / words if words else None
    return rows


def k_best_rows(
    variants: Sequence[Variant], scored: ScoredTreebank, most: int, advance: Advance | None = None
) -> list[dict[str, Any]]:
    """Evaluate the best of the k best trees, by decoder and k.

    Args:
        variants: the decoders.
        scored: the sentences.
        most: the largest k.
        advance: for progress.

    Returns:
        For each decoder and each k of `RANKS` up to `most`: the UAS of the tree among the k best that is closest to the
        gold tree, the percentage of certified trees, and CPU milliseconds per sentence for `most` trees.
    """
    gold = Gold(scored)
    rows: list[dict[str, Any]] = []
    ranks = sorted({k for k in RANKS if k < most} | {most})
    for variant in variants:
        right = np.zeros((len(scored.sentences), most), np.int64)  # words with the right head in the tree of each rank
        there, proved = np.zeros((2, *right.shape), np.bool_)
        seconds = 0.0
        for parts, places in zip(scored.batches, scored.places(), strict=True):
            started = time.process_time()
            ranked = k_best(variant.decoder, parts, most, on_error="skip")
            seconds += time.process_time() - started
            trees = gold.trees(parts, places)
            for rank, one in enumerate(ranked):
                right[places, rank] = ((one.heads == trees) & (one.heads >= 0)).sum(1)
                there[places, rank], proved[places, rank] = one.score > -np.inf, one.certified
            if advance is not None:
                advance(len(places))
        rows += [
            {
                "name": variant.name,
                "k": k,
                "oracle_uas": 100 * int(right[:, :k].max(1).sum()) / scored.words,
                "certified": _share(proved[:, :k][there[:, :k]]),
                "milliseconds": 1000 * seconds / len(scored.sentences),
            }
            for k in ranks
        ]
    return rows


def dual_decomposition(scored: ScoredTreebank, repeats: int, advance: Advance | None = None) -> dict[str, Any]:
    """Compare AD3 with the subgradient method: certified sentences, iterations, and time.

    Args:
        scored: the sentences.
        repeats: of timing.
        advance: for progress.

    Returns:
        For each method, figures by length, and the share of sentences that are certified after some numbers of
        iterations.
    """
    methods = [Variant("ad3", AD3()), Variant("subgradient", Subgradient())]
    found = [decode(method.decoder, scored, advance) for method in methods]
    times = measure(methods, found, scored, repeats, advance=advance)
    gold, best = Gold(scored), Best.known(methods, found, True)
    curves = []
    for method, one, time_ in zip(methods, found, times, strict=True):
        ok = one.ok
        iterations = one.counters.get("iterations", np.zeros(len(ok), np.int64))
        at = sorted({0, 1, 2, 5, 10, 20, 50, 100, 200, 500} | {int(iterations[ok].max(initial=0))})
        curves.append(
            {
                "name": method.name,
                "settings": settings_of(method.decoder),
                "sentences": int(ok.sum()),
                "iterations": at,
                "certified": [_share((one.certified & (iterations <= most))[ok]) for most in at],
                "mean_iterations": _mean(iterations[ok]),
                "words_per_second": _speed(time_, {})["words_per_second"],
                "by_length": _by_length(one, time_, best, gold, gold.counts(one)),
            }
        )
    return {"methods": curves}


def _mean(values: NDArray[Any]) -> float | None:
    return float(values.mean()) if len(values) else None


def _share(values: NDArray[np.bool_]) -> float | None:
    """In percent."""
    return 100 * int(np.count_nonzero(values)) / len(values) if len(values) else None


def _percentile(seconds: NDArray[np.float64], percent: float) -> float | None:
    """In milliseconds."""
    return float(1000 * np.percentile(seconds, percent)) if len(seconds) else None


def spread(values: Sequence[float]) -> dict[str, float] | None:
    """Return median, minimum and maximum of some values."""
    if not values:
        return None
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}
