"""Requests of the API: their schema, and the sentences in them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from arbora.data.conll import Sentence, read_conll
from arbora.model.inference.batch_parser import ParsingSettings, TagPolicy
from arbora.model.inference.missing_tags import MissingTags
from arbora.model.parser import Parser, constrained
from arbora.service.decoders import SettingValue
from arbora.service.http import Problem
from arbora.service.limits import Limits

Format = Literal["json", "jsonl", "conllu"]
Number = Annotated[int, Field(ge=0, le=1_000_000)]


class DecoderChoice(BaseModel):
    """A decoder with settings."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=1_000, examples=["ad3"])
    settings: dict[str, SettingValue] = Field(default={}, examples=[{"max_iterations": 50}])


class Known(BaseModel):
    """What is known of the tree of a sentence. Words are counted from 1, and 0 is the root."""

    model_config = ConfigDict(extra="forbid")

    sentence: Number = Field(default=1, description="number of the sentence, from 1")
    heads: dict[Number, Number] = Field(default={}, description="the head that words must have, by word")
    labels: dict[Number, str] = Field(default={}, description="the label that words must have, by word")
    forbid: list[tuple[Number, Number]] = Field(default=[], description="arcs that must not be in the tree: word, head")


class ParseRequest(BaseModel):
    """Text or sentences to parse, in exactly one of `text`, `sentences` and `conllu`."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"text": "The dog barked."}]})

    text: str | None = Field(default=None, description="running text")
    sentences: list[list[str]] | None = Field(default=None, description="sentences as lists of words")
    conllu: str | None = Field(default=None, description="sentences as CoNLL-U, for parsers that read tags")
    model: str | None = Field(default=None, description="a name from /v1/models; by default, the first")
    decoders: list[str | DecoderChoice] = Field(
        default=[],
        description="names from /v1/decoders, such as `mst` or `ad3(max_iterations=50)`; by default, the model's",
    )
    k_best: int = Field(default=1, ge=1, description="number of trees per sentence and decoder")
    confidence: bool = Field(default=False, description="compute probabilities of arcs, labels and tags")
    tags: TagPolicy = Field(
        default="fill", description="predict missing tags (fill), all tags (replace), or none (keep)"
    )
    keep_heads: bool = Field(default=False, description="keep the heads and labels of the CoNLL-U")
    unique: list[str] = Field(default=[], description="labels that a head may have at most once, subtypes included")
    known: list[Known] = Field(default=[], description="heads, labels and arcs that are known")
    with_conllu: bool = Field(default=False, description="add each tree as CoNLL-U to the JSON")
    format: Format | None = Field(
        default=None, description="format of the answer; by default, chosen by the header Accept"
    )

    def settings(self) -> ParsingSettings:
        """Settings of parsing."""
        return ParsingSettings(
            probabilities=self.confidence,
            tags=self.tags,
            keep_heads=self.keep_heads or bool(self.known),
            k_best=self.k_best,
            unique=tuple(self.unique),
        )

    def estimate(self) -> int:
        """About how many words there are, before they are looked for."""
        if self.sentences is not None:
            return sum(map(len, self.sentences))
        return estimate_words(self.text or "") if self.conllu is None else self.conllu.count("\n") + 1

    def read(self, parser: Parser) -> list[Sentence]:
        """The sentences, with what is known of them.

        Raises:
            ValueError: there are none, or some are malformed.
        """
        given = [name for name in ("text", "sentences", "conllu") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give one of text, sentences and conllu, got {' and '.join(given) or 'none of them'}")
        if self.text is not None:
            sentences = parser.tokenizer.split_text(self.text)
        elif self.conllu is not None:
            sentences = read_conllu(self.conllu)
        else:
            words = self.sentences or []
            sentences = [Sentence.from_words(one, f"sentence {i}") for i, one in enumerate(words, 1)]
        if not sentences:
            raise ValueError(f"{given[0]} contains no words")
        if self.known and not self.keep_heads:
            sentences = [without_tree(sentence) for sentence in sentences]
        for known in self.known:
            if not 1 <= known.sentence <= len(sentences):
                raise ValueError(
                    f"known: sentence {known.sentence} does not exist; the sentences are 1 to {len(sentences)}"
                )
            i, (sentence, arcs) = known.sentence - 1, (sentences[known.sentence - 1], tuple(known.forbid))
            heads = {m: h for m, h in enumerate(sentence.head, 1) if h >= 0} | known.heads
            labels = {m: label for m, label in enumerate(sentence.deprel, 1) if label != "_"} | known.labels
            sentences[i] = constrained(sentence, heads, labels, sentence.forbidden + arcs)
        return sentences


def estimate_words(text: str) -> int:
    """About how many words a text has."""
    return len(text) // 5 + 1


def read_conllu(text: str) -> list[Sentence]:
    """The sentences of CoNLL-U; `_` is a legal head.

    Raises:
        ValueError: they are malformed.
    """
    stream = io.StringIO(text, newline="\n")
    return list(read_conll(stream, format="conllu", trees=False, name="conllu"))


def without_tree(sentence: Sentence) -> Sentence:
    """The sentence, with nothing known of its heads and labels."""
    return replace(sentence, head=[-1] * len(sentence), deprel=["_"] * len(sentence))


def check_words(words: int, factor: int, limits: Limits) -> None:
    """Refuse a request with too many words, each counted once per tree.

    Raises:
        Problem: they are too many.
    """
    if words * factor > limits.words:
        times = f" times {factor} trees of each" if factor > 1 else ""
        raise Problem(413, f"{words} words{times} are too many: at most {limits.words} in a request; send it in parts")


def check_lengths(lengths: Sequence[int], limits: Limits) -> None:
    """Refuse sentences that are too long.

    Raises:
        ValueError: one of them is.
    """
    for number, length in enumerate(lengths, 1):
        if length > limits.sentence:
            raise ValueError(f"sentence {number} has {length} words; at most {limits.sentence} are parsed here")


def warnings(parser: Parser, sentences: Sequence[Sentence]) -> list[str]:
    """Advice about the input: columns that the parser reads and that are empty."""
    try:
        MissingTags(parser.vocabulary, parser.tags).check(sentences, strict=True)
    except ValueError as error:
        return [str(error)]
    return []
