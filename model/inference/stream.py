"""Streams of sentences that are parsed or scored with bounded memory. Parsed sentences keep their order.

A stream is cut into windows, and a window into batches of similar length. Several things go on at the same time, in
threads with short queues between them: reading and batching; scoring, decoding and labelling batches, as many at a time
as the backend says; making results of them; and what the caller does with these. A batch that does not fit into memory
is halved, and later batches are smaller. A batch that fails for another reason is parsed sentence by sentence, so that
a bad sentence takes no other with it. A window is done in a few seconds, so that an interrupted run loses no more than
that; a tree does not depend on the window and the batch that its sentence was in. Sentences above a limit go through
`long_sentences`, each by itself.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from arbora.data.batch import Batch, cut
from arbora.data.conll import Sentence, Unparsed
from arbora.decoders import Parts
from arbora.memory import is_out_of_memory
from arbora.model.inference import long_sentences
from arbora.model.inference.batch_parser import BatchParser, LabelledTrees
from arbora.model.inference.long_sentences import LONGEST
from arbora.model.inference.results import ParsedSentence, naming_sentences, parsed_sentences, unparsed

logger = logging.getLogger("arbora")

WINDOW = 20
"""Maximum number of batches in a window. Large windows have more sentences of similar length: on Gothic-PROIEL, a word
takes 1.21 positions of padded batches; with 8 instead of 20 it takes 1.31, with 1 it takes 2.04."""

FIRST_WINDOW = 4
"""Number of batches in the first window, before the time for a window is known."""

SECONDS_PER_WINDOW = 3.0
"""Target time of a window: slower windows are followed by smaller ones, faster windows by larger ones."""

BATCHES_AHEAD = 4
"""Batches that wait to be parsed, that are parsed, and that wait for the caller, at most."""


class Candidates(NamedTuple):
    """Sentences of one batch, and their scored parts."""

    sentences: list[Sentence]
    parts: Parts


def parse_sentences(
    parser: BatchParser, sentences: Iterable[Sentence], threads: bool = True
) -> Iterator[ParsedSentence]:
    """Parse a stream of sentences.

    Args:
        parser: parses their batches.
        sentences: only a few windows are read ahead, so memory does not grow with their number.
        threads: read, score and decode at the same time.

    Raises:
        ValueError: a sentence cannot be parsed, for example because its scores are NaN; the message names it.
    """
    with closing((parse_windows if threads else parse_directly)(parser, sentences)) as windows:
        for window in windows:
            for entry in window:
                if isinstance(entry, Unparsed):
                    raise entry.error
                yield entry


def parse_windows(
    parser: BatchParser, entries: Iterable[Sentence | Unparsed], report: Callable[[int], None] | None = None
) -> Generator[list[ParsedSentence | Unparsed], None, None]:
    """Parse a stream, window by window; an entry that cannot be parsed stays in its place.

    Args:
        parser: parses their batches.
        entries: sentences, and entries that are passed through.
        report: progress callback, called with the number of words of each finished batch, possibly long before its
            window is finished.
    """
    pace = _Pace(parser.settings.max_tokens)
    batched = _Ahead(_batched(parser, entries, pace), BATCHES_AHEAD)
    at_once = parser.backend.at_once
    scoring = threading.Semaphore(at_once)
    with ThreadPoolExecutor(max(2, at_once), "arbora-parsing") as pool:  # where one is scored, another is decoded

        def submit(batch: _Batch) -> Future[LabelledTrees]:
            return pool.submit(_parse, parser, scoring, batch)

        labelled = _Ahead(_labelled(parser, batched, submit, pace), BATCHES_AHEAD)
        try:
            yield from _whole_windows(labelled, pace, report)
        finally:
            for stage in (batched, labelled):
                stage.close()
            labelled.join(5.0)
            batched.join(1.0)  # it may wait for a terminal or a pipe
            pool.shutdown(wait=False, cancel_futures=True)


def parse_directly(
    parser: BatchParser, entries: Iterable[Sentence | Unparsed]
) -> Generator[list[ParsedSentence | Unparsed], None, None]:
    """Parse without threads, one batch after the other, which is faster for a single batch."""
    pace = _Pace(parser.settings.max_tokens)
    return _whole_windows(_labelled(parser, _batched(parser, entries, pace), partial(_at_once, parser), pace), pace)


def score_sentences(parser: BatchParser, sentences: Iterable[Sentence]) -> Iterator[Candidates]:
    """Score a stream of sentences without decoding, so that decoders can be compared on the same scores.

    Args:
        parser: scores their batches; if it prunes, it keeps a tree for its decoder.
        sentences: one window is read at a time. Within a window, the longest sentences come first.
    """
    max_tokens = parser.settings.max_tokens
    for window in _windows(sentences, lambda: WINDOW * max_tokens):
        _check_tags(parser, window)
        for positions in cut([len(sentence) for sentence in window], max_tokens):
            chosen = [window[i] for i in positions]
            with naming_sentences(chosen):
                parts = parser.score(parser.batch_of(chosen)).parts
            yield Candidates(chosen, parts)


@dataclass(slots=True)
class _Batch:
    """Some sentences of a window that are being parsed."""

    window: list[Sentence | Unparsed]
    results: list[ParsedSentence | Unparsed | None]  # of the whole window
    positions: list[int]  # of the batch's sentences in the window
    batch: Batch[Any] | None  # None where there is none, or where making it failed
    is_long: bool
    last: bool  # of the window

    @property
    def sentences(self) -> list[Sentence]:
        return [sentence for i in self.positions if isinstance(sentence := self.window[i], Sentence)]


@dataclass
class _Pace:
    """Size of batches, adapted to the memory, and of windows, adapted so that a window takes a few seconds."""

    max_tokens: int
    batches: int = field(default_factory=lambda: min(FIRST_WINDOW, WINDOW))
    _started: float = field(default_factory=time.perf_counter)
    _warned: bool = False

    def window_done(self) -> None:
        """Set the size of the next windows by the time that the last one took."""
        now = time.perf_counter()
        seconds, self._started = now - self._started, now
        if seconds > SECONDS_PER_WINDOW:
            self.batches = max(1, self.batches // 2)
        elif seconds < SECONDS_PER_WINDOW / 2:
            self.batches = min(WINDOW, 2 * self.batches)

    def out_of_memory(self, positions: int) -> None:
        """Make later batches smaller than one that did not fit; give a warning the first time."""
        if not self._warned:
            logger.warning(
                "not enough memory for a batch of %d positions: batches are halved until they fit", positions
            )
        self._warned = True
        self.max_tokens = max(1, min(self.max_tokens, positions // 2))


def _check_tags(parser: BatchParser, window: Sequence[Sentence | Unparsed]) -> None:
    if parser.missing_tags is not None:
        parser.missing_tags.check(window, parser.settings.strict)


def _batched(parser: BatchParser, entries: Iterable[Sentence | Unparsed], pace: _Pace) -> Iterator[_Batch]:
    """The first stage: windows of entries, cut into batches."""
    settings = parser.settings
    for window in _windows(entries, lambda: pace.batches * pace.max_tokens):
        _check_tags(parser, window)
        results: list[ParsedSentence | Unparsed | None] = [None] * len(window)
        short, long = list[int](), list[int]()
        for i, entry in enumerate(window):
            if isinstance(entry, Unparsed):
                results[i] = entry
            elif len(entry) > LONGEST:
                results[i] = unparsed(entry, f"a sentence can have at most {LONGEST} words, got {len(entry)}")
            else:
                (long if len(entry) > settings.max_length else short).append(i)
        groups = deque(_cut(window, short, pace.max_tokens) or ([] if long else [[]]))
        alone = deque([i] for i in long)
        while groups or alone:
            is_long = not groups
            positions = (groups or alone).popleft()
            if not is_long:  # batches may have become smaller in the meantime
                positions, *rest = _cut(window, positions, pace.max_tokens) or [[]]
                groups.extendleft(reversed(rest))
            made = _Batch(window, results, positions, None, is_long, not (groups or alone))
            try:
                made.batch = parser.batch_of(made.sentences) if positions else None
            except Exception:
                logger.debug("a batch could not be built; trying its sentences one by one", exc_info=True)
            yield made


def _cut(window: Sequence[Sentence | Unparsed], positions: list[int], max_tokens: int) -> list[list[int]]:
    """Cut some sentences of a window, given by their positions, into batches."""
    return [[positions[i] for i in group] for group in cut([len(window[i]) for i in positions], max_tokens)]


Submit = Callable[["_Batch"], Future[LabelledTrees]]
"""Starts parsing a batch."""


def _parse(parser: BatchParser, scoring: AbstractContextManager[object], batch: _Batch) -> LabelledTrees:
    assert batch.batch is not None
    with scoring:
        candidates = parser.score(batch.batch, batch.is_long)
    best = parser.decode(candidates)
    with scoring:
        return parser.label(best)


def _at_once(parser: BatchParser, batch: _Batch) -> Future[LabelledTrees]:
    future: Future[LabelledTrees] = Future()
    try:
        future.set_result(_parse(parser, nullcontext(), batch))
    except Exception as error:
        future.set_exception(error)
    return future


def _labelled(parser: BatchParser, batches: Iterable[_Batch], submit: Submit, pace: _Pace) -> Iterator[_Batch]:
    """The second stage: batches are parsed, and their results made when they come to the front."""
    waiting: deque[tuple[_Batch, Future[LabelledTrees] | None]] = deque()
    failure: Exception | None = None
    ahead = max(BATCHES_AHEAD, parser.backend.at_once + 2)
    try:
        for batch in batches:
            waiting.append((batch, None if batch.batch is None else submit(batch)))
            while len(waiting) > ahead or (waiting and _is_done(waiting[0][1])):
                yield _finish(parser, *waiting.popleft(), submit, pace)
    except Exception as error:  # of reading: batches that were begun come first
        failure = error
    while waiting:
        yield _finish(parser, *waiting.popleft(), submit, pace)
    if failure is not None:
        raise failure


def _is_done(labelled: Future[LabelledTrees] | None) -> bool:
    return labelled is None or labelled.done()


def _finish(
    parser: BatchParser, batch: _Batch, labelled: Future[LabelledTrees] | None, submit: Submit, pace: _Pace
) -> _Batch:
    """Fill in the results of a batch, from its trees, in halves, or by parsing its sentences one by one."""
    sentences = batch.sentences
    found: Sequence[ParsedSentence | Unparsed] | None = None
    too_large = False
    if labelled is not None:
        try:
            found = _results(parser, sentences, labelled.result())
        except Exception as error:
            too_large = is_out_of_memory(error) and len(sentences) > 1
            logger.debug("a batch could not be parsed; trying parts of it", exc_info=True)
            error.with_traceback(None)  # whose frames keep what is in memory
    if too_large:
        assert batch.batch is not None
        pace.out_of_memory(batch.batch.words.size)
        middle = len(sentences) // 2
        for positions in (batch.positions[:middle], batch.positions[middle:]):
            half = _Batch(batch.window, batch.results, positions, None, batch.is_long, last=False)
            half.batch = parser.batch_of(half.sentences)
            _finish(parser, half, submit(half), submit, pace)
        batch.batch = None
        return batch
    if found is None:
        found = [parse_alone(parser, sentence, batch.is_long) for sentence in sentences]
    for i, entry in zip(batch.positions, found, strict=True):
        batch.results[i] = entry
        if batch.is_long and isinstance(entry, ParsedSentence):
            logger.warning(
                "%s: %d words, more than %d: parsed with MST by arc scores only, among the best %d heads of each word",
                *(entry.sentence.where(), len(entry.sentence), parser.settings.max_length, long_sentences.HEADS),
            )
    batch.batch = None
    return batch


def _results(parser: BatchParser, sentences: Sequence[Sentence], labelled: LabelledTrees) -> list[ParsedSentence]:
    return parsed_sentences(sentences, labelled, parser.backend.vocabulary, parser.settings.tags)


def _whole_windows(
    batches: Iterable[_Batch], pace: _Pace, report: Callable[[int], None] | None = None
) -> Generator[list[ParsedSentence | Unparsed], None, None]:
    """The last stage. Batches arrive in their original order, so the last one completes a window."""
    for batch in batches:
        if report is not None:
            report(sum(len(sentence) for sentence in batch.sentences))
        if batch.last:
            pace.window_done()
            yield [entry for entry in batch.results if entry is not None]


def parse_alone(parser: BatchParser, sentence: Sentence, is_long: bool) -> ParsedSentence | Unparsed:
    """Parse one sentence, whose batch could not be parsed."""
    try:
        candidates = parser.score(parser.batch_of([sentence]), is_long)
        return _results(parser, [sentence], parser.label(parser.decode(candidates)))[0]
    except Exception as error:
        return unparsed(sentence, error)


Entry = TypeVar("Entry", Sentence, Sentence | Unparsed)
Item = TypeVar("Item")


def _windows(entries: Iterable[Entry], words_of_window: Callable[[], int]) -> Iterator[list[Entry]]:
    """Cut a stream into windows. If reading fails, the entries before are given first, then the error is raised."""
    window: list[Entry] = []
    words = 0
    failure: Exception | None = None
    try:
        for entry in entries:
            window.append(entry)
            words += len(entry)
            if words >= words_of_window():
                yield window
                window, words = [], 0
    except Exception as error:
        failure = error
    if window:
        yield window
    if failure is not None:
        raise failure


@dataclass
class _Ahead(Generic[Item]):
    """An iterator that a thread runs up to `most` items ahead of its consumer. Its errors are raised in order."""

    items: Iterator[Item]
    most: int
    _ready: deque[Item] = field(default_factory=deque)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _ended: bool = False  # the iterator has ended
    _closed: bool = False  # the consumer has stopped
    _error: BaseException | None = None

    def __post_init__(self) -> None:
        # A daemon, because reading from a terminal or a pipe may never end.
        self._thread = threading.Thread(target=self._run, name="arbora-ahead", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for item in self.items:
                with self._changed:
                    self._changed.wait_for(lambda: self._closed or len(self._ready) < self.most)
                    if self._closed:
                        return
                    self._ready.append(item)
                    self._changed.notify_all()
        except BaseException as error:
            self._error = error
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._ended or self._closed)
            if self._closed:
                raise StopIteration
            if self._ready:
                item = self._ready.popleft()
                self._changed.notify_all()
                return item
        if self._error is not None:
            raise self._error
        raise StopIteration

    def close(self) -> None:
        """Make the thread, and everybody who waits for it, end."""
        with self._changed:
            self._closed = True
            self._ready.clear()
            self._changed.notify_all()

    def join(self, seconds: float) -> None:
        """Wait for the thread, but not for long."""
        self._thread.join(seconds)
