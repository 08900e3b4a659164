"""Parsing with a network, for tests."""

from collections.abc import Iterable, Iterator
from typing import Any

from arbora.data.batch import Batch
from arbora.data.conll import Sentence
from arbora.model.inference.batch_parser import BatchParser, LabelledTrees, ParsingSettings
from arbora.model.inference.results import ParsedSentence
from arbora.model.inference.stream import Candidates, parse_sentences, score_sentences
from arbora.model.network import Network


def batch_parser(network: Network, **settings: Any) -> BatchParser:
    """The steps of parsing, with the decoder that the network was trained with."""
    return BatchParser(network, network.decoder, ParsingSettings(**settings))


def parse_batch(network: Network, batch: Batch[Any]) -> LabelledTrees:
    """The best trees of a batch."""
    return batch_parser(network)(batch)


def parse(network: Network, sentences: Iterable[Sentence], **settings: Any) -> Iterator[ParsedSentence]:
    """Parse a stream of sentences."""
    return parse_sentences(batch_parser(network, **settings), sentences)


def score(network: Network, sentences: Iterable[Sentence], **settings: Any) -> Iterator[Candidates]:
    """Score a stream of sentences."""
    return score_sentences(batch_parser(network, **settings), sentences)
