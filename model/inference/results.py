"""Results of parsing: a sentence with its tree, or with the reason why there is none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arbora.data.conll import Sentence, Unparsed
from arbora.data.vocabulary import Vocabulary
from arbora.model.inference.batch_parser import LabelledTrees


class ParsedSentence(NamedTuple):
    """A sentence of n words with its tree."""

    sentence: Sentence
    heads: NDArray[np.int32]  # (n,) 0..n
    labels: list[str]
    score: float
    certified: bool = False  # whether the tree is provably optimal within the decoder's search space
    arc_probability: NDArray[np.float64] | None = None  # (n,) of each word's arc, if asked for
    label_probability: NDArray[np.float64] | None = None  # (n,) of each word's label, given its arc

    @property
    def text(self) -> str:
        """The sentence in the format in which it was read, HEAD and DEPREL replaced, and probabilities in MISC."""
        return self.as_text()

    def as_text(self, scores: bool = False) -> str:
        """The same, on request with comments.

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


def parsed_sentences(
    sentences: Sequence[Sentence], found: LabelledTrees, vocabulary: Vocabulary
) -> list[ParsedSentence]:
    """The sentences of a batch, each with its tree."""
    trees = found.trees
    names = np.array(vocabulary.labels, object)[found.labels]
    parsed = []
    for b, sentence in enumerate(sentences):
        words = slice(1, len(sentence) + 1)
        parsed.append(
            ParsedSentence(
                sentence,
                trees.heads[b, words],
                names[b, words].tolist(),
                float(trees.score[b]),
                bool(trees.certified[b]),
                None if found.arc_probability is None else found.arc_probability[b, words],
                None if found.label_probability is None else found.label_probability[b, words],
            )
        )
    return parsed


def unparsed(sentence: Sentence, error: Exception | str) -> Unparsed:
    """A sentence that cannot be parsed, with an error that names it."""
    reason = re.sub(r"^sentence 0: ", "", " ".join(str(error).split()))
    if isinstance(error, Exception) and not isinstance(error, ValueError):
        reason = f"{type(error).__name__}: {reason}"
    named = ValueError(f"{sentence.where()}: {reason}")
    named.__cause__ = error if isinstance(error, Exception) else None
    return Unparsed(sentence.lines, sentence.source, sentence.line_number, named)


@contextmanager
def naming_sentences(sentences: Sequence[Sentence]) -> Iterator[None]:
    """Add the place of a batch's sentences to errors that something in them causes."""
    try:
        yield
    except ValueError as error:
        where = ", ".join(sentence.where() for sentence in sentences[:3])
        raise ValueError(f"{where}{', ...' if len(sentences) > 3 else ''}: {error}") from error
