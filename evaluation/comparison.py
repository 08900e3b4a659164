"""Figures that compare decoders on exactly the same scores, from what `trials` found and measured.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arbora.decoders import Decoder, Parts
from arbora.evaluation.figures import Evaluation
from arbora.evaluation.saved import ScoredTreebank
from arbora.evaluation.trials import SAME, Found, Times, Variant

LENGTHS = {name: int(re.match(r"\d+", name)[0]) for name in Evaluation().figures()["sentence_length"]}  # type: ignore[index]
"""Groups of sentences by length, given by their shortest length."""

_CHUNK = 1 << 22  # numbers drawn at a time
_SHOWN = 20  # failures listed for a decoder


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
                "speed": speed(time_, scoring),
                "counters": {name: mean(counts[ok[d]]) for name, counts in one.counters.items()},
                "by_length": by_length(one, time_, known, gold, right[d]),
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
        "mean_score": mean(score),
        "best": share(best.reached(found.score)[ok]),
        "gap_to_best": mean((best.score - found.score)[ok]),
        "gap_to_bound": mean((best.bound - found.score)[bounded]),
        "bounded": int(bounded.sum()),
        "certified": share(found.certified[ok]),
        "gold_scores_more": share(above[ok]),
        "integral": None if found.integral is None else share(found.integral[ok]),
        "open_gap": mean((found.bound - found.score)[ok & ~found.certified & np.isfinite(found.bound)]),
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
        "scores_more": share(higher[both_ok]),
        "scores_less": share(lower[both_ok]),
        "shared_arcs": share((found.heads == reference.heads)[common]),
        "gold_here_alone": share((head & ~other_head)[common]),
        "gold_there_alone": share((~head & other_head)[common]),
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


def speed(times: Times, scoring: Mapping[str, Any]) -> dict[str, Any]:
    """Return figures of speed, with that of scoring if it is known."""
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


def by_length(
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
                "mean_score": mean(found.score[chosen]),
                "best": share(best.reached(found.score)[chosen]),
                "gap_to_best": mean((best.score - found.score)[chosen]),
                "certified": share(found.certified[chosen]),
                "mean_ms": None if not len(alone) else 1000 * float(alone.mean()),
                "median_ms": _percentile(alone, 50),
                "p99_ms": _percentile(alone, 99),
                "iterations": None if iterations is None else mean(iterations[chosen]),
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


def mean(values: NDArray[Any]) -> float | None:
    """Return the mean; None without values."""
    return float(values.mean()) if len(values) else None


def share(values: NDArray[np.bool_]) -> float | None:
    """Return how many percent are true; None without values."""
    return 100 * int(np.count_nonzero(values)) / len(values) if len(values) else None


def _percentile(seconds: NDArray[np.float64], percent: float) -> float | None:
    """In milliseconds."""
    return float(1000 * np.percentile(seconds, percent)) if len(seconds) else None


def spread(values: Sequence[float]) -> dict[str, float] | None:
    """Return median, minimum and maximum of some values."""
    if not values:
        return None
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}
