"""Parsing from Python: words, sentences, CoNLL-U or spaCy documents in, trees out.

    parser = arbora.model.load("runs/mine/best.ckpt")
    tree = parser("The dog barked .".split())
    print(tree.heads, tree.labels, tree.score, tree.certified)

A parser called in this way is a `Pipeline` with default settings. It may be called from several threads at a time: that
changes nothing in the parser.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeGuard, overload

from arbora.data.conll import Sentence, Unparsed, read_conll
from arbora.model.inference.stream import Parsed, Parsing, parse_directly, parse_windows
from arbora.model.parser import Parser

if TYPE_CHECKING:
    from spacy.tokens import Doc, Token


@dataclass(frozen=True)
class Pipeline:
    """A parser that takes what users have.

    Args:
        parser: a trained parser; it is used on the device where it is, with the decoder that it has.
        settings: sizes of batches, and the limit above which a sentence is parsed in a lighter way.
    """

    parser: Parser
    settings: Parsing = Parsing()  # noqa: RUF009 - settings are frozen

    @overload
    def __call__(self, what: Sentence | list[str], *, probabilities: bool = False) -> Parsed: ...

    @overload
    def __call__(
        self, what: str | list[Sentence] | list[list[str]], *, probabilities: bool = False
    ) -> list[Parsed]: ...

    @overload
    def __call__(self, what: object, *, probabilities: bool = False) -> Any: ...

    def __call__(self, what: object, *, probabilities: bool = False) -> Any:
        """Parse one sentence or several.

        Args:
            what: a sentence, as a list of words or as a `Sentence`; several of them; CoNLL-U as a string; a spaCy
                document, each of its sentences by itself where they are known, and without its white space; several.
            probabilities: compute those of arcs and labels too; `Parsing` says what they mean.

        Returns:
            What was found for a single sentence; a list for several, for CoNLL-U and for a document; a list of lists
            for several documents.

        Raises:
            ValueError: there is something that is no sentence, or that cannot be parsed.
            TypeError: it is none of these.
        """
        if isinstance(what, str):
            return self._parse(_from_conllu(what), probabilities)
        if isinstance(what, Sentence):
            return self._parse([what], probabilities)[0]
        if is_doc(what):
            return self._parse(sentences_of_doc(what), probabilities)
        entries: list[Any] = list(what) if isinstance(what, Iterable) else [what]
        if entries and all(isinstance(entry, str) for entry in entries):
            return self._parse([Sentence.from_words(entries)], probabilities)[0]
        if entries and all(is_doc(entry) for entry in entries):
            of_docs = [sentences_of_doc(doc) for doc in entries]
            found = iter(self._parse([sentence for sentences in of_docs for sentence in sentences], probabilities))
            return [[next(found) for _ in sentences] for sentences in of_docs]
        return self._parse([_as_sentence(entry, number) for number, entry in enumerate(entries, 1)], probabilities)

    def _parse(self, sentences: Sequence[Sentence], probabilities: bool) -> list[Parsed]:
        settings = replace(self.settings, probabilities=probabilities or self.settings.probabilities)
        words = sum(len(sentence) for sentence in sentences)
        run = parse_windows if words > 2 * settings.max_tokens else parse_directly
        found = list[Parsed]()
        with closing(run(self.parser, sentences, settings)) as windows:
            for window in windows:
                for entry in window:
                    if isinstance(entry, Unparsed):
                        raise entry.error
                    found.append(entry)
        return found


def _from_conllu(text: str) -> list[Sentence]:
    if not text.strip():
        return []
    if "\t" not in text:
        raise ValueError("a string must be CoNLL-U; give words as a list, such as text.split()")
    return list(read_conll(io.StringIO(text, newline="\n"), trees=False, name="<text>"))


def _as_sentence(entry: object, number: int) -> Sentence:
    if isinstance(entry, Sentence):
        return entry
    if isinstance(entry, (list, tuple)) and all(isinstance(word, str) for word in entry):
        return Sentence.from_words(entry, line_number=number)
    raise TypeError(f"a sentence is a list of words, a Sentence or a spaCy Doc, got {type(entry).__name__}")


def is_doc(what: object) -> TypeGuard[Doc]:
    """Whether something is a document of spaCy, which is not imported for the answer."""
    tokens = sys.modules.get("spacy.tokens")
    return tokens is not None and isinstance(what, tokens.Doc)


def words_of_doc(doc: Doc) -> list[list[Token]]:
    """The words of each sentence of a document, white space left out; all words where sentences are not known."""
    sentences = doc.sents if doc.has_annotation("SENT_START") else [doc]
    words = [[token for token in sentence if not token.is_space] for sentence in sentences]
    return [tokens for tokens in words if tokens]


def sentences_of_doc(doc: Doc) -> list[Sentence]:
    """Sentences with the words of a document and with the tags, features and lemmas that it has."""
    return [_sentence(tokens, number) for number, tokens in enumerate(words_of_doc(doc), 1)]


def _sentence(tokens: list[Token], number: int) -> Sentence:
    columns = [
        (
            " ".join(token.text.split()),
            token.lemma_ or "_",
            token.pos_ or "_",
            token.tag_ or "_",
            str(token.morph) or "_",
        )
        for token in tokens
    ]
    sentence = Sentence.from_words([form for form, *_ in columns], "<doc>", number)
    sentence.form, sentence.lemma, sentence.upos, sentence.xpos, sentence.feats = map(list, zip(*columns))
    sentence.lines = [
        "\t".join([str(i), *(" ".join(column.split()) for column in row), "_", "_", "_", "_"])
        for i, row in enumerate(columns, 1)
    ]
    return sentence
