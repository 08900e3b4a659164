"""Resuming `arbora predict`: what a run depends on, what it has read, and where it writes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib.metadata import version
from typing import Any, TextIO

from arbora.data.conll import Sentence, Unparsed, open_output
from arbora.data.partial import Mark, Output, open_partial
from arbora.decoders import Decoder
from arbora.model.inference.results import ParsedSentence
from arbora.model.storage.digest import digest_of_model
from arbora.model.storage.settings import to_plain


def is_regular(output: str | None) -> bool:
    """Return whether an output is or will be a file; pipes and devices are written to directly."""
    return output not in (None, "-") and (not os.path.exists(output) or os.path.isfile(output))


@contextmanager
def open_target(output: str | None, identity: Mapping[str, Any], resume: bool) -> Iterator[Output]:
    """Open the output of a run.

    Args:
        output: a file, which is complete or absent after the run, or a pipe or device; None is standard output.
        identity: everything that the output depends on besides the input, by name.
        resume: resume an interrupted run, which must have had the same identity.
    """
    if not is_regular(output):
        with open_output(output) as stream:
            yield _Direct(stream)
        return
    assert output is not None
    with open_partial(output, identity, resume) as target:
        yield target


def identity_of_run(
    model: str, decoder: Decoder | None, gamma: tuple[float, ...], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return everything that the output depends on, besides the input.

    Args:
        model: checkpoint or folder.
        decoder: the one that is used; None is the model's own.
        gamma: of an ensemble.
        options: others, by name.
    """
    return {
        "version of arbora": version("arbora"),
        "model": digest_of_model(model),
        "decoder": to_plain(decoder),
        "ensemble": gamma,
        **options,
    }


class InputDigest:
    """Digest of the entries read so far, by which a resumed run recognises its input.

    Args:
        with_heads: include the heads of sentences, which are those of another parser.
    """

    def __init__(self, with_heads: bool) -> None:
        self._digest = blake2b()
        self._with_heads = with_heads

    def add(self, entry: Sentence | ParsedSentence | Unparsed) -> None:
        """Add an entry: its lines, and the heads of another parser."""
        read = entry.sentence if isinstance(entry, ParsedSentence) else entry
        heads = f"{read.head}\n" if self._with_heads and isinstance(read, Sentence) else ""
        self._digest.update(("\n".join(read.lines) + "\n\n" + heads).encode("utf-8", "surrogateescape"))

    def skip(self, entries: Iterator[Sentence | Unparsed], done: Mark, output: str) -> None:
        """Skip the entries that an interrupted run has parsed.

        Raises:
            ValueError: they are not those of that run.
        """
        skipped = 0
        for skipped, entry in enumerate(entries, 1):
            self.add(entry)
            if skipped == done.entries:
                break
        if skipped < done.entries or self.hexdigest() != done.input:
            raise ValueError(
                f"cannot resume {output}: the input is not that of the interrupted run, which had read "
                f"{done.entries:,} sentences; start again without --resume"
            )

    def hexdigest(self) -> str:
        """The digest so far."""
        return self._digest.hexdigest()


@dataclass
class _Direct:
    """An output that cannot be resumed."""

    stream: TextIO
    done: Mark = field(default_factory=Mark)

    def write(self, text: str) -> None:
        self.stream.write(text)

    def mark(self, entries: int, words: int, parsed: int, unparsed: int, input: str) -> None:
        self.stream.flush()
