"""Trials of decoders on exactly the same scores: `decode` finds trees, `measure` takes times."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from arbora.decoders import Decoder, Parts, Trees
from arbora.decoders.dual.ad3 import RelaxedTrees
from arbora.decoders.parts.kinds import ranges_of
from arbora.evaluation.memory import peak_memory
from arbora.evaluation.saved import ScoredTreebank

SAME = 1e-6
"""Scores with a smaller relative difference count as equal."""

LATENCIES = 2000
"""Maximum number of sentences that are timed one by one."""

SHORTEST = 0.05
"""Minimum seconds of a timed run: faster decoders decode all sentences several times in a row."""

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
    clock: Callable[[], float] = time.perf_counter,
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
        clock: of sentences one by one; `time.process_time` where all is done by one thread on a busy machine.
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
                    _time_alone(variant.decoder, alone, repeats, int(place), entry, clock)
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


def _time_alone(
    decoder: Decoder, parts: Parts, repeats: int, place: int, times: Times, clock: Callable[[], float]
) -> None:
    """Time one sentence some times, and keep the median."""
    runs = []
    try:
        for _ in range(repeats):
            started = clock()
            decoder(parts)
            runs.append(clock() - started)
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


def seconds_of(decoder: Decoder, found: Found, scored: ScoredTreebank) -> float | None:
    """Time one run of a decoder over all sentences for which it finds a tree; None if it fails."""
    times = Times([], 0, np.empty(0), None)
    _time_run(decoder, _kept(decoder, found, scored), times)
    return times.total[0] if times.total else None
