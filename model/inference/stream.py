"""Sentences in, parsed or scored sentences out, with bounded memory; parsed ones in order.

A stream is cut into windows, and a window into batches of similar length. Four things go on at the same time, in
threads with short queues between them: reading and batching; scoring, and then labels; decoding; and what the caller
does with what is done. A batch that fails is parsed sentence by sentence, so that a bad sentence takes no other with
it. Windows and batches depend on the sentences alone, so that a run over the same sentences gives the same numbers to
the last bit.

Sentences above a limit are parsed in a lighter way: by arcs alone, of which the best `LIGHT_HEADS` heads of each word
are kept, with `MST`. Beyond `LIGHT_POSITIONS` arcs are scored in blocks, so that memory grows with n and not with n²,
but for what `MST` takes for cycles that it contracts.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from arbora.data.batch import Batch, collate, cut, encode
from arbora.data.conll import Sentence, Unparsed
from arbora.decoders import MST, Parts, Trees
from arbora.decoders.ensemble import favour_trees
from arbora.decoders.pruning import arc_marginals
from arbora.model.parser import Parser

logger = logging.getLogger("arbora")

WINDOW = 20
"""Batches that are read ahead, so that sentences of similar length come together. On sentences of Gothic-PROIEL a word
takes 1.21 positions of the padded batches; with 8 in place of 20 it takes 1.31, with 1 it takes 2.04."""

BATCHES_AHEAD = 4
"""Batches that wait for scoring, for decoding, and for the caller, at most."""

DECODING_THREADS = 2
"""Batches that are decoded at a time; each of them is spread over threads again, where that pays."""

LIGHT_HEADS = 64
"""Heads of a word that are kept in a sentence above the limit, beside the root and the word before."""

LIGHT_POSITIONS = 4000
"""Positions of such a sentence whose arcs are scored at a time: a longer one is scored in blocks of half as many words
and half as many heads, with four times the work, since the scorer also scores words and heads among themselves."""

LIGHT_CELLS = 4_000_000
"""Scores of arcs from which the best are picked at a time."""

LONGEST = 20_000
"""Words of the longest sentence that is parsed at all: cycles may take 8 n² bytes."""


class Parsed(NamedTuple):
    """A sentence of n words with what the parser found."""

    sentence: Sentence
    heads: NDArray[np.int32]  # (n,) 0..n
    labels: list[str]
    score: float
    certified: bool = False  # whether no other tree of candidate arcs, projective for such decoders, scores more
    arc_probability: NDArray[np.float64] | None = None  # (n,) of each word's arc, if asked for
    label_probability: NDArray[np.float64] | None = None  # (n,) of each word's label, given its arc

    @property
    def text(self) -> str:
        """The sentence in the format in which it was read, HEAD and DEPREL replaced, and probabilities in MISC."""
        return self.as_text()

    def as_text(self, scores: bool = False) -> str:
        """The same, and on request with comments.

        Args:
            scores: write `# arbora_score` and `# arbora_certified`.
        """
        comments = {"arbora_score": f"{self.score:.4f}", "arbora_certified": str(self.certified).lower()}
        misc = None
        if self.arc_probability is not None and self.label_probability is not None:
            misc = [
                {"ArcProb": f"{arc:.4f}", "LabelProb": f"{label:.4f}"}
                for arc, label in zip(self.arc_probability.tolist(), self.label_probability.tolist())
            ]
        return self.sentence.with_tree(self.heads.tolist(), self.labels, comments if scores else None, misc)


class Candidates(NamedTuple):
    """Sentences of one batch, and what a decoder finds their trees among."""

    sentences: list[Sentence]
    parts: Parts


@dataclass(frozen=True)
class Parsing:
    """Settings of parsing a stream.

    Args:
        max_tokens: size of a batch, in positions of the padded batch.
        max_length: words of a sentence above which it is parsed in a lighter way: by arcs alone.
        gamma: how much more parts of first, second and third order score that are in the trees which the sentences have
            already, those of another parser (an ensemble). Unless given, these trees are not looked at.
        probabilities: compute the marginal probability of each word's arc, among all trees under the arc scores (with
            one root if the decoder finds such), and that of its label, given the arc. Parts of higher order do not
            count in them. In sentences above `max_length` each word's heads are taken by themselves, not as trees.
    """

    max_tokens: int = 4000
    max_length: int = 500
    gamma: tuple[float, ...] = ()
    probabilities: bool = False

    def __post_init__(self) -> None:
        for name in ("max_tokens", "max_length"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")


def parse(
    parser: Parser,
    sentences: Iterable[Sentence],
    max_tokens: int = 4000,
    gamma: Sequence[float] = (),
    max_length: int = 500,
    probabilities: bool = False,
) -> Iterator[Parsed]:
    """Parse a stream of sentences.

    Args:
        parser: a trained parser; it is used on the device where it is.
        sentences: read as far as a few windows of batches need, so memory does not grow with their number.
        max_tokens: as in `Parsing`, like all that follow.
        gamma: likewise.
        max_length: likewise.
        probabilities: likewise.

    Raises:
        ValueError: a sentence cannot be parsed, as when its scores are not numbers; the message names it.
    """
    settings = Parsing(max_tokens, max_length, tuple(gamma), probabilities)
    with closing(parse_windows(parser, sentences, settings)) as windows:
        for window in windows:
            for entry in window:
                if isinstance(entry, Unparsed):
                    raise entry.error
                yield entry


def parse_windows(
    parser: Parser,
    entries: Iterable[Sentence | Unparsed],
    settings: Parsing,
    report: Callable[[int], None] | None = None,
) -> Generator[list[Parsed | Unparsed], None, None]:
    """Parse a stream, window by window; what cannot be parsed stays in its place.

    Where windows start and end depends on the entries and on `max_tokens`, so that after some of them a stream that
    goes on with the others gives the same results.

    Args:
        parser: a trained parser; it is used on the device where it is.
        entries: sentences, and what is handed through.
        settings: how.
        report: called with the number of words of each batch that is done, which may be long before its window is.
    """
    parser.eval()
    batched = _Ahead(_batched(parser, entries, settings), BATCHES_AHEAD)
    with ThreadPoolExecutor(DECODING_THREADS, "arbora-decoding") as decoding:
        labelled = _Ahead(_labelled(parser, batched, settings, decoding.submit), BATCHES_AHEAD)
        try:
            yield from _whole_windows(labelled, report)
        finally:
            for stage in (batched, labelled):
                stage.close()
            labelled.join(5.0)
            batched.join(1.0)  # it may wait for a terminal or a pipe
            decoding.shutdown(wait=False, cancel_futures=True)


def parse_directly(
    parser: Parser, entries: Iterable[Sentence | Unparsed], settings: Parsing
) -> Generator[list[Parsed | Unparsed], None, None]:
    """The same without threads: each batch is done before the next is begun, as pays for one batch alone."""
    parser.eval()
    return _whole_windows(_labelled(parser, _batched(parser, entries, settings), settings, _at_once))


@dataclass(slots=True)
class _Batch:
    """Some sentences of a window, on their way."""

    window: list[Sentence | Unparsed]
    results: list[Parsed | Unparsed | None]  # of the whole window
    positions: list[int]  # of the batch's sentences in the window
    batch: Batch | None  # None where there is none, or where making it failed
    light: bool
    last: bool  # of the window

    @property
    def sentences(self) -> list[Sentence]:
        return [sentence for i in self.positions if isinstance(sentence := self.window[i], Sentence)]


class _Scored(NamedTuple):
    vectors: Tensor  # (B, N, size)
    parts: Parts
    arc: NDArray[np.float32] | None  # (B, N, N), if marginals are asked for
    light: bool


class _Decoded(NamedTuple):
    vectors: Tensor
    trees: Trees
    arc_probability: NDArray[np.float64] | None  # (B, N)


def _batched(parser: Parser, entries: Iterable[Sentence | Unparsed], settings: Parsing) -> Iterator[_Batch]:
    """The first stage: windows of what is read, cut into batches."""
    for window in _windows(entries, settings.max_tokens):
        results: list[Parsed | Unparsed | None] = [None] * len(window)
        short, long = list[int](), list[int]()
        for i, entry in enumerate(window):
            if isinstance(entry, Unparsed):
                results[i] = entry
            elif len(entry) > LONGEST:
                results[i] = _unparsed(entry, f"{len(entry)} words are too many for a sentence: at most {LONGEST}")
            else:
                (long if len(entry) > settings.max_length else short).append(i)
        groups = [[short[i] for i in group] for group in cut([len(window[i]) for i in short], settings.max_tokens)]
        light = [[i] for i in long]
        for number, positions in enumerate([*groups, *light] or [[]], 1):
            is_light, last = number > len(groups), number == max(1, len(groups) + len(light))
            made = _Batch(window, results, positions, None, is_light, last)
            try:
                made.batch = _collate(parser, made.sentences) if positions else None
            except Exception:
                logger.debug("a batch could not be made, and is tried sentence by sentence", exc_info=True)
            yield made


def _labelled(
    parser: Parser, batches: Iterable[_Batch], settings: Parsing, submit: Callable[..., Future[_Decoded]]
) -> Iterator[_Batch]:
    """The second stage: batches are scored, and labelled when they are decoded, which `submit` starts."""
    waiting: deque[tuple[_Batch, Future[_Decoded] | None]] = deque()
    for batch in batches:
        waiting.append((batch, _begin(parser, batch, settings, submit)))
        while len(waiting) > BATCHES_AHEAD or (waiting and _is_done(waiting[0][1])):
            yield _finish(parser, *waiting.popleft(), settings)
    while waiting:
        yield _finish(parser, *waiting.popleft(), settings)


def _is_done(decoded: Future[_Decoded] | None) -> bool:
    return decoded is None or decoded.done()


def _begin(
    parser: Parser, batch: _Batch, settings: Parsing, submit: Callable[..., Future[_Decoded]]
) -> Future[_Decoded] | None:
    """Score a batch and have it decoded; None where that fails."""
    if batch.batch is None:
        return None
    try:
        return submit(_decode, parser, _score(parser, batch.batch, settings, batch.light), settings)
    except Exception:
        logger.debug("a batch could not be scored, and is tried sentence by sentence", exc_info=True)
        return None


def _finish(parser: Parser, batch: _Batch, decoded: Future[_Decoded] | None, settings: Parsing) -> _Batch:
    """Fill in the results of a batch, from what was decoded or sentence by sentence."""
    sentences = batch.sentences
    found: Sequence[Parsed | Unparsed] | None = None
    if decoded is not None:
        try:
            found = _label(parser, sentences, decoded.result(), settings)
        except Exception:
            logger.debug("a batch could not be parsed, and is tried sentence by sentence", exc_info=True)
    if found is None:
        found = [_parse_alone(parser, sentence, settings, batch.light) for sentence in sentences]
    for i, entry in zip(batch.positions, found, strict=True):
        batch.results[i] = entry
        if batch.light and isinstance(entry, Parsed):
            logger.warning(
                "%s: %d words, more than %d: parsed by arcs alone, the best %d heads of each word, with MST",
                *(entry.sentence.where(), len(entry.sentence), settings.max_length, LIGHT_HEADS),
            )
    batch.batch = None
    return batch


def _whole_windows(
    batches: Iterable[_Batch], report: Callable[[int], None] | None = None
) -> Generator[list[Parsed | Unparsed], None, None]:
    """The last stage. Batches come in the order in which they were made, so the last one makes a window whole."""
    for batch in batches:
        if report is not None:
            report(sum(len(sentence) for sentence in batch.sentences))
        if batch.last:
            yield [entry for entry in batch.results if entry is not None]


def _parse_alone(parser: Parser, sentence: Sentence, settings: Parsing, light: bool) -> Parsed | Unparsed:
    try:
        scored = _score(parser, _collate(parser, [sentence]), settings, light)
        return _label(parser, [sentence], _decode(parser, scored, settings), settings)[0]
    except Exception as error:
        return _unparsed(sentence, error)


def _unparsed(sentence: Sentence, error: Exception | str) -> Unparsed:
    reason = re.sub(r"^sentence 0: ", "", " ".join(str(error).split()))
    if isinstance(error, Exception) and not isinstance(error, ValueError):
        reason = f"{type(error).__name__}: {reason}"
    named = ValueError(f"{sentence.where()}: {reason}")
    named.__cause__ = error if isinstance(error, Exception) else None
    return Unparsed(sentence.lines, sentence.source, sentence.line_number, named)


@torch.no_grad()
def _score(parser: Parser, batch: Batch, settings: Parsing, light: bool) -> _Scored:
    batch = batch.to(parser.device)
    if light:
        vectors = parser.encoder(batch)
        parts = _light_parts(parser, vectors, batch.heads.cpu().numpy()[0] if settings.gamma else None)
        arc = None
    else:
        vectors, arcs = parser.encode(batch, all_arcs=settings.probabilities)
        parts = parser.candidates(vectors, arcs, batch, keep_heads=bool(settings.gamma))
        arc = arcs.cpu().numpy() if arcs is not None and settings.probabilities else None
    if settings.gamma:
        parts = favour_trees(parts, batch.heads.cpu().numpy(), settings.gamma)
    return _Scored(vectors, parts, arc, light)


def _decode(parser: Parser, scored: _Scored, settings: Parsing) -> _Decoded:
    """Find trees, and probabilities of their arcs."""
    vectors, parts, arc, light = scored
    single_root = parser.decoder.single_root
    trees = MST(single_root=single_root)(parts) if light else parser.decoder(parts)
    if light:  # the best of the arcs that were kept, not of all
        trees = Trees(trees.heads, trees.score, None, np.zeros(1, dtype=np.bool_))
    probability = None
    if settings.probabilities and light:
        probability = _head_probabilities(parts, trees.heads)
    elif arc is not None:
        marginals = arc_marginals(arc, parts.lengths, single_root)
        probability = np.take_along_axis(marginals, trees.heads.clip(min=0)[..., None].astype(np.int64), 2)[..., 0]
    return _Decoded(vectors, trees, probability)


@torch.no_grad()
def _label(parser: Parser, sentences: Sequence[Sentence], decoded: _Decoded, settings: Parsing) -> list[Parsed]:
    vectors, trees, arc_probability = decoded
    heads = torch.from_numpy(trees.heads).long().to(vectors.device)
    label, chance = parser.best_labels(vectors, heads, settings.probabilities)
    names = np.array(parser.vocabulary.labels, object)[label.cpu().numpy()]
    label_probability = None if chance is None else chance.cpu().numpy()
    found = []
    for b, sentence in enumerate(sentences):
        words = slice(1, len(sentence) + 1)
        found.append(
            Parsed(
                sentence,
                trees.heads[b, words],
                names[b, words].tolist(),
                float(trees.score[b]),
                bool(trees.certified[b]),
                None if arc_probability is None else arc_probability[b, words],
                None if label_probability is None else label_probability[b, words],
            )
        )
    return found


def _light_parts(parser: Parser, vectors: Tensor, keep: NDArray[np.int64] | None) -> Parts:
    """Arcs of one long sentence from the best heads of each word, the root, the word before, and a head to keep.

    The root and the words before make a chain, so that there is a tree, with a single root too.
    """
    size = vectors.shape[1]
    heads, scores, counts = list[Tensor](), list[Tensor](), list[Tensor]()
    for start, block in _arc_blocks(parser, vectors):
        words = torch.arange(start, start + len(block), device=vectors.device)
        row = torch.arange(len(block), device=vectors.device)
        kept = torch.zeros_like(block, dtype=torch.bool)
        kept.scatter_(1, block.topk(min(LIGHT_HEADS, size - 1), 1).indices, True)
        kept[:, 0] = True
        kept[row, words - 1] = True
        if keep is not None:
            there = torch.from_numpy(keep).to(vectors.device)[words]
            kept[row[there >= 0], there[there >= 0]] = True
        kept[row, words] = False
        heads.append(kept.nonzero()[:, 1].cpu())
        scores.append(block[kept].cpu())
        counts.append(kept.sum(1).cpu())
    offsets = np.concatenate([[0], np.cumsum(torch.cat(counts).numpy())])
    return Parts(
        lengths=np.array([size - 1], np.int32),
        head=torch.cat(heads).numpy().astype(np.int32),
        arc_score=torch.cat(scores).numpy(),
        sentence_offsets=offsets[[0, -1]],
        modifier_offsets=offsets,
    )


def _arc_blocks(parser: Parser, vectors: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Scores of the arcs of one sentence, some words at a time: the first of them, and scores (words, N)."""
    size = vectors.shape[1]
    if size <= LIGHT_POSITIONS:
        arc = parser.arc(vectors, torch.tensor([size - 1], device=vectors.device))[0]
        step = max(1, LIGHT_CELLS // size)
        yield from ((start, arc[start : start + step]) for start in range(1, size, step))
        return
    half = LIGHT_POSITIONS // 2
    for start in range(1, size, half):
        words = vectors[:, start : start + half]
        among = []
        for first in range(0, size, half):
            both = torch.cat([words, vectors[:, first : first + half]], 1)
            arc = parser.arc(both, torch.tensor([both.shape[1] - 1], device=vectors.device))
            among.append(arc[0, : words.shape[1], words.shape[1] :])
        block = torch.cat(among, 1)
        row = torch.arange(len(block), device=vectors.device)
        block[row, start + row] = -torch.inf
        yield start, block


def _head_probabilities(parts: Parts, heads: NDArray[np.int32]) -> NDArray[np.float64]:
    """(1, N) probability of each word's head among its candidates, each word by itself."""
    starts = parts.modifier_offsets[:-1]
    score = parts.arc_score.astype(np.float64)
    word = parts.modifier - 1
    weight = np.exp(score - np.maximum.reduceat(score, starts)[word])
    share = weight / np.add.reduceat(weight, starts)[word]
    found = np.zeros(heads.shape)
    chosen = parts.head == heads[0, parts.modifier]
    found[0, parts.modifier[chosen]] = share[chosen]
    return found


def score(parser: Parser, sentences: Iterable[Sentence], max_tokens: int = 4000) -> Iterator[Candidates]:
    """Score a stream of sentences without decoding, so that decoders can be tried on the same scores.

    Args:
        parser: a trained parser; where it prunes, it keeps a tree for the decoder that it has.
        sentences: read as far as a window of batches needs. Within a window, the longest come first.
        max_tokens: size of a batch, in positions of the padded batch.
    """
    parser.eval()
    for window in _windows(sentences, max_tokens):
        for positions in cut([len(sentence) for sentence in window], max_tokens):
            chosen = [window[i] for i in positions]
            with naming(chosen):
                parts = parser.score(_collate(parser, chosen).to(parser.device))
            yield Candidates(chosen, parts)


@contextmanager
def naming(sentences: Sequence[Sentence]) -> Iterator[None]:
    """Say in what file a batch stands of which something is wrong."""
    try:
        yield
    except ValueError as error:
        where = ", ".join(sentence.where() for sentence in sentences[:3])
        raise ValueError(f"{where}{', ...' if len(sentences) > 3 else ''}: {error}") from error


Entry = TypeVar("Entry", Sentence, Sentence | Unparsed)
Item = TypeVar("Item")


def _windows(entries: Iterable[Entry], max_tokens: int) -> Iterator[list[Entry]]:
    window: list[Entry] = []
    words = 0
    for entry in entries:
        window.append(entry)
        words += len(entry)
        if words >= WINDOW * max_tokens:
            yield window
            window, words = [], 0
    if window:
        yield window


def _collate(parser: Parser, sentences: Sequence[Sentence]) -> Batch:
    """A batch on the CPU."""
    encoded = [encode(sentence, parser.vocabulary) for sentence in sentences]
    return collate(encoded, range(len(sentences)), parser.vocabulary)


def _at_once(function: Callable[..., _Decoded], *arguments: object) -> Future[_Decoded]:
    future: Future[_Decoded] = Future()
    try:
        future.set_result(function(*arguments))
    except Exception as error:
        future.set_exception(error)
    return future


@dataclass
class _Ahead(Generic[Item]):
    """An iterator that a thread runs ahead of whoever takes from it, by `most` items. What it raises comes in order."""

    items: Iterator[Item]
    most: int
    _ready: deque[Item] = field(default_factory=deque)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _ended: bool = False  # nothing more will come
    _closed: bool = False  # nothing more will be taken
    _error: BaseException | None = None

    def __post_init__(self) -> None:
        # A daemon: reading from a terminal or a pipe may never end.
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
        """Let the thread end, and whoever waits for it."""
        with self._changed:
            self._closed = True
            self._ready.clear()
            self._changed.notify_all()

    def join(self, seconds: float) -> None:
        """Wait for the thread, but not for long."""
        self._thread.join(seconds)
