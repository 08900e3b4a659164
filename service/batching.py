"""Batching of requests: they are gathered, scored and decoded in threads, and answered sentence by sentence.

A request is cut into groups of sentences of similar length, each about a batch. Requests with one group left are short:
those that ask for the same are joined in one batch. Short requests alternate with the groups of long ones, which take
turns, so that a long text delays a short one only by the batches that are being parsed. Decoding has two lanes: one for
the model's own decoder, and one for other decoders and several trees, which may take much longer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

from arbora.data.batch import cut
from arbora.data.conll import Sentence, Unparsed
from arbora.decoders import Decoder
from arbora.model.inference.batch_parser import BatchParser, CandidateTrees, ParsingSettings
from arbora.model.inference.results import ParsedSentence, parsed_sentences
from arbora.model.inference.stream import parse_alone
from arbora.model.parser import Parser
from arbora.service.limits import Limits
from arbora.service.metrics import Metrics

logger = logging.getLogger("arbora.service")

WINDOW = 16
"""Batches among whose sentences those of similar length are put together, at most; the first windows are smaller, so
that the first sentences of a long text are answered soon."""

AHEAD = 3
"""Batches of a lane that are scored and not yet decoded, at most."""

ENOUGH = 2
"""Share of a full batch, as its divisor, for which a second thread scores while a first one does. Fewer words wait for
it, and become a larger batch."""

UNREAD = 8
"""Batches of answers that a client has not taken, after which its request waits."""


class Overloaded(Exception):
    """The queue is full.

    Args:
        seconds: after which there may be room.
    """

    def __init__(self, seconds: int) -> None:
        super().__init__(f"too many words are waiting; try again in {seconds} s")
        self.seconds = seconds


class Outcome(NamedTuple):
    """What a decoder found for a sentence."""

    parsed: ParsedSentence | Unparsed
    milliseconds: float  # of decoding and labelling: the batch's, shared out by words


@dataclass(eq=False)
class Job:
    """A request on its way.

    Args:
        name: of the model.
        parser: the model.
        decoders: each finds the trees of all sentences, from the same scores.
        settings: of parsing.
        sentences: to be parsed.
        deliver: called with the job, numbers of sentences and their outcomes, one for each decoder; in another thread.
    """

    name: str
    parser: Parser
    decoders: tuple[Decoder, ...]
    settings: ParsingSettings
    sentences: Sequence[Sentence]
    deliver: Callable[[Job, list[int], list[list[Outcome]]], None]
    lengths: list[int] = field(default_factory=list)  # of the sentences
    unread: int = 0  # words that were delivered and not yet taken by the client; kept by the event loop
    held: int = 0  # of the queue
    groups: deque[list[int]] = field(default_factory=deque)
    arrived: float = 0.0
    cancelled: bool = False

    def read(self, sentences: Sequence[Sentence]) -> None:
        """Set the sentences."""
        self.sentences, self.lengths = sentences, [len(sentence.form) for sentence in sentences]

    @property
    def factor(self) -> int:
        """Times that each sentence is decoded."""
        return len(self.decoders) * self.settings.k_best

    @property
    def special(self) -> bool:
        """Whether it asks for more than the tree that the model finds by itself."""
        return self.factor > 1 or self.decoders[0] is not self.parser.decoder

    def asks_as(self, other: Job) -> bool:
        """Whether sentences of both can be in one batch."""
        own, others = (self.name, self.decoders, self.settings), (other.name, other.decoders, other.settings)
        return own == others and self.is_long == other.is_long

    @property
    def is_long(self) -> bool:
        """Whether the next sentence is one that is parsed by itself, by arcs only."""
        return self.lengths[self.groups[0][0]] > self.settings.max_length

    def words(self, numbers: Sequence[int]) -> int:
        """Words of some sentences."""
        return sum([self.lengths[i] for i in numbers])


@dataclass
class _Batch:
    """Sentences of one or several jobs that are parsed together."""

    places: list[tuple[Job, int]]
    special: bool
    is_long: bool

    @property
    def sentences(self) -> list[Sentence]:
        return [job.sentences[i] for job, i in self.places]

    @property
    def words(self) -> int:
        return sum([job.lengths[i] for job, i in self.places])


class Scheduler:
    """Parses jobs, a batch at a time.

    Args:
        limits: sizes of batches and of the queue.
        metrics: counts what it does.
        threads: batches that may be scored at a time.
    """

    def __init__(self, limits: Limits, metrics: Metrics, threads: int = 1) -> None:
        self.limits, self.metrics = limits, metrics
        self.queued = 0  # words
        self._jobs: list[Job] = []
        self._changed = threading.Condition()
        self._room = {False: AHEAD, True: AHEAD}  # of the lanes, special or not
        self._short_first = True
        self._scoring = 0  # threads that do
        self._closed = False
        self._rate = 5_000.0  # words per second, of late
        # Of two batches that are decoded at a time, the one that is labelled has the interpreter.
        self._lanes = {False: ThreadPoolExecutor(2, "arbora-decoding"), True: ThreadPoolExecutor(1, "arbora-special")}
        self._threads = [threading.Thread(target=self._run, name="arbora-scoring", daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    @property
    def works(self) -> bool:
        """Whether it takes jobs."""
        return all(thread.is_alive() for thread in self._threads) and not self._closed

    @property
    def waiting(self) -> int:
        """Jobs of which sentences are not in a batch yet."""
        with self._changed:
            return sum(bool(job.groups) for job in self._jobs)

    def reserve(self, job: Job, words: int) -> None:
        """Hold a place in the queue for a job, or change the size of the place that it has.

        Raises:
            Overloaded: there is not so much room.
        """
        with self._changed:
            if words > job.held and self.queued + words - job.held > self.limits.queue:
                raise Overloaded(max(1, round(self.queued / self._rate)))
            self.queued += words - job.held
            job.held = words

    def start(self, job: Job) -> None:
        """Put a job that has its place into the queue."""
        job.groups.extend(_groups(job, _size(job, self.limits)))
        job.arrived = time.monotonic()
        with self._changed:
            self._jobs.append(job)
            self._changed.notify_all()

    def cancel(self, job: Job) -> None:
        """Forget a job; what is under way of it is not delivered."""
        with self._changed:
            job.cancelled = True
            job.groups.clear()
            self.queued -= job.held
            job.held = 0
            self._changed.notify_all()

    def taken(self, job: Job, words: int) -> None:
        """Note that a client took this many words of its answer."""
        with self._changed:
            job.unread -= words
            self._changed.notify_all()

    def close(self) -> None:
        """Stop when all jobs are done."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        for lane in self._lanes.values():
            lane.shutdown(cancel_futures=True)

    def _run(self) -> None:
        while (batches := self._wait()) is not None:
            for number, batch in enumerate(batches):
                if number:
                    self._enter(batch.special)
                self._score(batch)
            with self._changed:
                self._scoring -= 1
                self._changed.notify_all()

    def _enter(self, special: bool) -> None:
        """Wait for room in a lane, and take it."""
        with self._changed:
            self._changed.wait_for(lambda: self._room[special])
            self._room[special] -= 1

    def _wait(self) -> list[_Batch] | None:
        """The next batches, to be scored by this thread, with room for the first; None when there will be none."""
        with self._changed:
            while True:
                self._jobs = [job for job in self._jobs if job.groups]
                if self._closed and not self._jobs:
                    return None
                picked, seconds = self._pick(time.monotonic())
                if picked:
                    self._scoring += 1
                    self._room[picked[0][0].special] -= 1
                    break
                self._changed.wait(seconds)
        places = [(job, i) for job, numbers in picked for i in numbers]
        lengths = [job.lengths[i] for job, i in places]
        job = picked[0][0]
        is_long = lengths[0] > job.settings.max_length
        groups = [list(range(len(places)))]
        if len(picked) > 1 and not job.special:  # of the other lane, several batches would have to wait for each other
            groups = cut(lengths, self.limits.batch)
        return [_Batch([places[i] for i in group], job.special, is_long) for group in groups]

    def _pick(self, now: float) -> tuple[list[tuple[Job, list[int]]], float | None]:
        """Groups of jobs for the next batch, or the seconds until there may be some, None if only a change can help."""
        most = UNREAD * self.limits.batch
        ready = [job for job in self._jobs if self._room[job.special] and job.unread <= most]
        short, long = [job for job in ready if len(job.groups) == 1], [job for job in ready if len(job.groups) > 1]
        if short and (self._short_first or not long):
            first = short[0]
            joined, words = list[Job](), 0
            for job in short:
                if words < _size(first, self.limits) and job.asks_as(first):
                    joined.append(job)
                    words += job.words(job.groups[0])
            left: float | None = first.arrived + self.limits.gather / 1000 - now
            if self._scoring and not long:
                left = 0.0 if words >= _size(first, self.limits) // ENOUGH else None
            if words >= _size(first, self.limits) or (left is not None and left <= 0):
                self._short_first = False
                return [(job, job.groups.popleft()) for job in joined], None
            if not long:
                return [], left
        if not long:
            return [], None
        job = long[0]
        self._jobs.remove(job)
        self._jobs.append(job)  # behind the others: long ones take turns
        self._short_first = True
        return [(job, job.groups.popleft())], None

    def _score(self, batch: _Batch) -> None:
        job = batch.places[0][0]
        started = time.perf_counter()
        candidates: CandidateTrees | None = None
        try:
            # Of a tree that is projective and has one root, all decoders can find it: pruning must leave such a one.
            strictest = max(job.decoders, key=lambda decoder: (decoder.projective, decoder.single_root))
            scorer = BatchParser(job.parser.backend, strictest, job.settings)
            if not all(job.cancelled for job, _ in batch.places):
                candidates = scorer.score(scorer.batch_of(batch.sentences), batch.is_long)
        except Exception:
            logger.debug("a batch could not be scored, and is tried sentence by sentence", exc_info=True)
        self.metrics.add("arbora_scoring_seconds_total", time.perf_counter() - started)
        self._lanes[batch.special].submit(self._finish, batch, candidates, started)

    def _finish(self, batch: _Batch, candidates: CandidateTrees | None, started: float) -> None:
        try:
            self._deliver(batch, self._decode(batch, candidates))
        except Exception:
            logger.exception("a batch could not be delivered")
        words = batch.words
        with self._changed:
            self._room[batch.special] += 1
            for job, i in batch.places:
                share = min(job.held, job.lengths[i] * job.factor)
                job.held -= share
                self.queued -= share
            seconds = max(1e-6, time.perf_counter() - started)
            self._rate += 0.1 * (words * job.factor / seconds - self._rate)
            self._changed.notify_all()
        self.metrics.observe("arbora_batch_words", words)
        self.metrics.add("arbora_words_total", words, model=job.name)

    def _decode(self, batch: _Batch, candidates: CandidateTrees | None) -> list[list[Outcome]]:
        """Outcomes of all sentences of a batch, by decoder."""
        found = []
        job, sentences, words = batch.places[0][0], batch.sentences, batch.words
        for decoder in job.decoders:
            if all(other.cancelled for other, _ in batch.places):
                break
            parser = BatchParser(job.parser.backend, decoder, job.settings)
            started = time.perf_counter()
            results: Sequence[ParsedSentence | Unparsed] | None = None
            if candidates is not None:
                try:
                    labelled = parser.label(parser.decode(candidates))
                    results = parsed_sentences(sentences, labelled, job.parser.vocabulary, job.settings.tags)
                except Exception:
                    logger.debug("a batch could not be parsed, and is tried sentence by sentence", exc_info=True)
            if results is None:
                results = [parse_alone(parser, sentence, batch.is_long) for sentence in sentences]
            seconds = time.perf_counter() - started
            self.metrics.add("arbora_decoding_seconds_total", seconds, decoder=type(decoder).__name__)
            shares = (1000 * seconds * len(sentence) / words for sentence in sentences)
            found.append([Outcome(*one) for one in zip(results, shares, strict=True)])
        return found

    def _deliver(self, batch: _Batch, found: list[list[Outcome]]) -> None:
        """Give each job what is its own."""
        if len(found) < len(batch.places[0][0].decoders):
            return  # nobody waits for it
        mine: dict[int, tuple[Job, list[int], list[list[Outcome]]]] = {}
        for place, (job, i) in enumerate(batch.places):
            _, numbers, outcomes = mine.setdefault(id(job), (job, [], []))
            numbers.append(i)
            outcomes.append([by_decoder[place] for by_decoder in found])
        for job, numbers, outcomes in mine.values():
            if not job.cancelled:
                job.deliver(job, numbers, outcomes)


def _size(job: Job, limits: Limits) -> int:
    """Positions of a batch; fewer where decoding may take long, so that others wait less."""
    return max(1, limits.batch // 4) if job.special else limits.batch


def _groups(job: Job, size: int) -> list[list[int]]:
    """Numbers of the sentences of a job in groups, each for one batch with a limited number of positions."""
    longest = max(job.lengths)
    if longest <= job.settings.max_length and len(job.lengths) * (longest + 1) <= size:
        return [list(range(len(job.lengths)))]
    groups, window, words, batches = list[list[int]](), list[int](), 0, 1
    alone = []
    for i, length in enumerate(job.lengths):
        if length > job.settings.max_length:
            alone.append([i])
            continue
        window.append(i)
        words += length + 1
        if words >= batches * size or i == len(job.lengths) - 1:
            groups += _cut(job, window, size)
            window, words, batches = [], 0, min(WINDOW, 2 * batches)
    return groups + (_cut(job, window, size) if window else []) + alone


def _cut(job: Job, window: list[int], size: int) -> list[list[int]]:
    return [[window[k] for k in group] for group in cut([job.lengths[i] for i in window], size)]
