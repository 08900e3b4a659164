"""Answers of the API: outcomes as JSON or CoNLL-U, given back in the order of the sentences."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from arbora.data.conll import Sentence, Unparsed
from arbora.model.inference.results import ParsedSentence
from arbora.service.batching import Job, Outcome, Scheduler

Render = Callable[[int, list[Outcome]], bytes]
"""Makes bytes of a sentence's number, from 0, and its outcomes."""


class Answer:
    """Results of a job, rendered in the thread that finds them, and read in order by the coroutine that made it.

    Args:
        render: makes the bytes of a sentence.
        stream: let the job wait while what was found is not read.
    """

    def __init__(self, render: Render, stream: bool) -> None:
        self._render = render
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._found: dict[int, bytes] = {}
        self._next = self._ready = 0  # sentences that were read, and those that can be
        self._changed = asyncio.Event()

    def deliver(self, job: Job, numbers: list[int], outcomes: list[list[Outcome]]) -> None:
        """Take outcomes, from any thread."""
        rendered = {i: self._render(i, outcome) for i, outcome in zip(numbers, outcomes, strict=True)}
        self._loop.call_soon_threadsafe(self._arrived, job, rendered)

    def _arrived(self, job: Job, rendered: dict[int, bytes]) -> None:
        self._found |= rendered
        first = self._ready
        while self._ready in self._found:
            self._ready += 1
        if self._ready > first:
            job.unread += job.words(range(first, self._ready)) if self._stream else 0
            self._changed.set()

    async def pieces(self, job: Job, scheduler: Scheduler) -> AsyncIterator[bytes]:
        """The sentences, several at a time, as they are found."""
        while self._next < len(job.sentences):
            await self._changed.wait()
            self._changed.clear()
            first, self._next = self._next, self._ready
            yield b"".join([self._found.pop(i) for i in range(first, self._next)])
            if self._stream:
                scheduler.taken(job, job.words(range(first, self._next)))

    async def whole(self, job: Job, scheduler: Scheduler) -> bytes:
        """All sentences."""
        return b"".join([piece async for piece in self.pieces(job, scheduler)])


def as_json(names: Sequence[str], sentences: Sequence[Sentence], with_conllu: bool, end: str) -> Render:
    """Render sentences as JSON.

    Args:
        names: of the decoders.
        sentences: of the request.
        with_conllu: add each tree as CoNLL-U.
        end: written after each sentence.
    """

    def render(i: int, outcomes: list[Outcome]) -> bytes:
        sentence, trees = sentences[i], list[dict[str, Any]]()
        shown: ParsedSentence | None = None
        for name, (parsed, milliseconds) in zip(names, outcomes, strict=True):
            if isinstance(parsed, Unparsed):
                trees.append({"decoder": name, "error": str(parsed.error)})
                continue
            shown = shown or parsed
            for tree in (parsed, *parsed.alternatives):
                trees.append(_tree(name, tree, milliseconds, with_conllu))
        columns = {name: getattr(shown or sentence, name) for name in ("upos", "xpos", "feats")}
        entry = {
            "number": i + 1,
            "text": next((line[9:] for line in sentence.lines if line.startswith("# text = ")), None),
            "words": sentence.form,
            "lemmas": shown.lemmas if shown else sentence.lemma,
            **columns,
            "trees": trees,
        }
        if shown and shown.tag_probability:
            entry["tag_probabilities"] = shown.tag_probability
        return (json.dumps(entry, ensure_ascii=False, allow_nan=False) + end).encode("utf-8", "replace")

    return render


def _tree(name: str, tree: ParsedSentence, milliseconds: float, with_conllu: bool) -> dict[str, Any]:
    entry = {
        "decoder": name,
        "rank": tree.rank,
        "heads": tree.heads.tolist(),
        "labels": tree.labels,
        "score": _finite(tree.score),
        "bound": _finite(tree.bound),
        "certified": tree.certified,
        "milliseconds": round(milliseconds, 3),
    }
    if tree.arc_probability is not None and tree.label_probability is not None:
        entry["arc_probabilities"] = _rounded(tree.arc_probability)
        entry["label_probabilities"] = _rounded(tree.label_probability)
    if tree.probability is not None:
        entry["share"] = round(tree.probability, 6)
    if with_conllu:
        entry["conllu"] = tree.text
    return entry


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _rounded(values: NDArray[Any]) -> list[float]:
    return [round(value, 6) for value in values.tolist()]


def as_conllu(scores: bool) -> Render:
    """Render sentences as CoNLL-U, those that could not be parsed without a tree and with a comment that says why.

    Args:
        scores: write comments with scores and certificates.
    """

    def render(_: int, outcomes: list[Outcome]) -> bytes:
        parsed = outcomes[0].parsed
        if isinstance(parsed, Unparsed):
            reason = " ".join(str(parsed.error).split())
            return f"# arbora_error = {reason}\n{parsed.text}".encode("utf-8", "replace")
        trees = (parsed, *parsed.alternatives)
        return "".join([tree.as_text(scores) for tree in trees]).encode("utf-8", "replace")

    return render
