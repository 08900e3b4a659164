"""A trained parser in Python: text or words in, trees out.

    parser = arbora.load("runs/mine/best.ckpt")
    tree = parser.parse("The dog barked .".split())
    print(tree.heads, tree.labels, tree.score, tree.certified)

A parser may be called from several threads at a time.
"""

from __future__ import annotations

import io
import re
import sys
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

from arbora.data.conll import Sentence, read_conll
from arbora.data.vocabulary import Vocabulary
from arbora.decoders import Decoder
from arbora.decoders.names import find_decoder, name_of
from arbora.model.inference.backend import Backend
from arbora.model.inference.batch_parser import BatchParser, ParsingSettings
from arbora.model.inference.missing_tags import MissingTags
from arbora.model.inference.results import ParsedSentence
from arbora.model.inference.stream import parse_sentences
from arbora.model.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from conllu import TokenList

NO_TOKENIZER = (
    "this parser has no tokenizer: give words (parser.parse, or --input text), or add a tokenizer with "
    "`arbora export MODEL -o FOLDER --tokenizer TRAIN DEV`"
)


class Parser:
    """A parser that takes text or words.

    Args:
        backend: computes scores.
        decoder: finds trees. `parser.decoder` may be replaced at any time, also by a name: `"ad3(max_iterations=50)"`,
            a file of `arbora tune`, or `"own"` for the decoder given here.
        settings: sizes of batches, and the length above which sentences are parsed in a cheaper way.
        tokenizer: splits text into words; without it, the input must be words.
    """

    def __init__(
        self,
        backend: Backend,
        decoder: Decoder,
        settings: ParsingSettings = ParsingSettings(),  # noqa: B008 - settings are frozen
        tokenizer: Tokenizer | None = None,
    ) -> None:
        self.backend = backend
        self.own_decoder = decoder
        self.decoder = decoder
        self.settings = settings
        self._tokenizer = tokenizer
        self._missing_tags = MissingTags(backend.vocabulary, backend.tags)

    def __repr__(self) -> str:
        return f"Parser({type(self.backend).__name__}, {name_of(self.decoder)}, {len(self.vocabulary.labels)} labels)"

    @property
    def decoder(self) -> Decoder:
        """Finds trees."""
        return self._decoder

    @decoder.setter
    def decoder(self, decoder: Decoder | str) -> None:
        self._decoder = find_decoder(decoder, self.own_decoder) if isinstance(decoder, str) else decoder

    @property
    def vocabulary(self) -> Vocabulary:
        """Words, characters, tags and labels that the parser knows."""
        return self.backend.vocabulary

    @property
    def tags(self) -> tuple[str, ...]:
        """Columns that the parser reads besides words; raw text does not have them."""
        return self.backend.tags

    @property
    def predicts(self) -> tuple[str, ...]:
        """Columns that the parser predicts besides heads and labels: some of upos, xpos, feats and lemmas."""
        return self.backend.predicts

    @property
    def has_tokenizer(self) -> bool:
        """Return whether it takes text."""
        return self._tokenizer is not None

    @property
    def tokenizer(self) -> Tokenizer:
        """Tokenizer of the parser, which splits text into words.

        Raises:
            ValueError: the parser has none.
        """
        if self._tokenizer is None:
            raise ValueError(NO_TOKENIZER)
        return self._tokenizer

    def __call__(self, text: str, *, probabilities: bool = False) -> list[ParsedSentence]:
        """Split a text into sentences and words, and parse it.

        Args:
            text: running text.
            probabilities: compute probabilities of arcs and labels; see `ParsingSettings`.

        Returns:
            One entry for each sentence; none if the text has no words.

        Raises:
            TypeError: it is not a string.
            ValueError: the parser has no tokenizer, or a sentence cannot be parsed.
        """
        settings = replace(self.settings, probabilities=probabilities or self.settings.probabilities)
        return self._parse(_split(text, self.tokenizer), settings)

    def pipe(self, texts: Iterable[str], *, probabilities: bool = False) -> Iterator[list[ParsedSentence]]:
        """Parse a stream of texts, in order.

        Sentences of several texts are parsed together, so results may come some time after their texts were read.

        Args:
            texts: any number of texts; memory does not grow with it.
            probabilities: compute probabilities of arcs and labels.

        Returns:
            For each text, a list with one entry for each of its sentences.

        Raises:
            TypeError: one of them is not a string.
            ValueError: the parser has no tokenizer, or a sentence cannot be parsed.
        """
        if isinstance(texts, str) or not isinstance(texts, Iterable):
            what = "for a single text call parser(text)" if isinstance(texts, str) else f"got {type(texts).__name__}"
            raise TypeError(f"parser.pipe takes an iterable of texts; {what}")
        return self._pipe(texts, self.tokenizer, probabilities)

    def _pipe(
        self, texts: Iterable[str], tokenizer: Tokenizer, probabilities: bool
    ) -> Generator[list[ParsedSentence], None, None]:
        sizes: deque[int] = deque()  # sentences of each text that was read

        def sentences() -> Iterator[Sentence]:
            for number, text in enumerate(texts, 1):
                found = _split(text, tokenizer, f"<text {number}>")
                sizes.append(len(found))
                yield from found

        current = list[ParsedSentence]()
        with closing(parse_sentences(self.batch_parser(probabilities), sentences())) as parsed:  # type: ignore[type-var]
            for entry in parsed:
                while not sizes[0]:
                    sizes.popleft()
                    yield []
                current.append(entry)
                if len(current) == sizes[0]:
                    sizes.popleft()
                    yield current
                    current = []
        while sizes:
            sizes.popleft()
            yield []

    @overload
    def parse(
        self,
        sentences: list[str] | Sentence | TokenList,
        *,
        probabilities: bool = False,
        heads: Mapping[int, int] | None = None,
        labels: Mapping[int, str] | None = None,
        forbid: Iterable[tuple[int, int]] = (),
        k_best: int = 1,
    ) -> ParsedSentence: ...

    @overload
    def parse(
        self,
        sentences: Iterable[list[str] | tuple[str, ...] | Sentence | TokenList],
        *,
        probabilities: bool = False,
        k_best: int = 1,
    ) -> list[ParsedSentence]: ...

    def parse(
        self,
        sentences: Any,
        *,
        probabilities: bool = False,
        heads: Mapping[int, int] | None = None,
        labels: Mapping[int, str] | None = None,
        forbid: Iterable[tuple[int, int]] = (),
        k_best: int = 1,
    ) -> ParsedSentence | list[ParsedSentence]:
        """Parse sentences whose words are known.

        Args:
            sentences: one sentence or an iterable of several. A sentence is a list of words, a token list of the
                package `conllu`, or a `Sentence` of `arbora.data.conll`.
            probabilities: compute probabilities of arcs and labels; see `ParsingSettings`.
            heads: for a single sentence, required heads, as `{3: 2}` for word 3 with head 2. Words are counted from 1,
                and 0 is the root.
            labels: for a single sentence, required labels, as `{3: "obj"}`.
            forbid: for a single sentence, arcs that must not be in the tree, each as (word, head).
            k_best: number of trees to find; `alternatives` of the first tree has the others.

        Returns:
            The parse of a single sentence, or a list for several.

        Raises:
            TypeError: the argument is of another type; the message names the right call.
            ValueError: a sentence is malformed or cannot be parsed, or no tree agrees with what is given.
        """
        settings = replace(self.settings, probabilities=probabilities or self.settings.probabilities, k_best=k_best)
        forbidden = tuple(forbid)
        if heads or labels or forbidden:
            sentence = constrained(sentences, heads or {}, labels or {}, forbidden)
            return self._parse([sentence], replace(settings, keep_heads=True))[0]
        if isinstance(sentences, Sentence) or _is_of(sentences, "conllu", "TokenList"):
            return self._parse([_as_sentence(sentences, 1)], settings)[0]
        if isinstance(sentences, str):
            raise TypeError(
                "parser.parse takes lists of words, got a string: call parser(text) for text, "
                "or parser.parse(conllu.parse(text)) for CoNLL-U"
            )
        if not isinstance(sentences, Iterable) or _is_of(sentences, "spacy.tokens", "Doc"):
            raise TypeError(_refusal(sentences))
        entries: list[Any] = list(sentences)
        if entries and all(isinstance(entry, str) for entry in entries):
            return self._parse([Sentence.from_words(entries)], settings)[0]
        return self._parse([_as_sentence(entry, number) for number, entry in enumerate(entries, 1)], settings)

    def check(self) -> None:
        """Parse one word, so that a parser that does not work fails once and not for every sentence.

        Raises:
            ValueError: it cannot be parsed.
        """
        parser = self.batch_parser()
        try:
            parser(parser.batch_of([Sentence.from_words(["."])]))
        except ValueError as error:
            raise ValueError(f"this parser does not work with these settings: {error}") from error

    def batch_parser(self, probabilities: bool = False) -> BatchParser:
        """Return the parser of batches, which scores, decodes and labels them."""
        settings = replace(self.settings, probabilities=probabilities or self.settings.probabilities)
        return BatchParser(self.backend, self.decoder, settings, self._missing_tags)

    def _parse(self, sentences: Sequence[Sentence], settings: ParsingSettings) -> list[ParsedSentence]:
        parser = BatchParser(self.backend, self.decoder, settings, self._missing_tags)
        words = sum(len(sentence) for sentence in sentences)
        return list(parse_sentences(parser, sentences, threads=words > 2 * settings.max_tokens))


def _split(text: object, tokenizer: Tokenizer, name: str = "<text>") -> list[Sentence]:
    """Split a text into sentences."""
    if not isinstance(text, str):
        raise TypeError(f"a text must be a string, got {type(text).__name__}: call parser.parse for lists of words")
    if re.search(r"^\d+\t[^\t\n]*\t", text, re.MULTILINE):
        raise ValueError(f"{name}: this is CoNLL-U, not running text: call parser.parse(conllu.parse(text))")
    return tokenizer.split_text(text, name)


def _as_sentence(entry: object, number: int) -> Sentence:
    if isinstance(entry, Sentence):
        return entry
    if _is_of(entry, "conllu", "TokenList"):
        text = entry.serialize()  # type: ignore[attr-defined]
        return next(iter(read_conll(io.StringIO(text, newline="\n"), trees=False, name=f"<sentence {number}>")))
    if isinstance(entry, (list, tuple)) and all(isinstance(word, str) for word in entry):
        return Sentence.from_words(entry, line_number=number)
    raise TypeError(_refusal(entry))


def constrained(
    words: object, heads: Mapping[int, int], labels: Mapping[int, str], forbid: tuple[tuple[int, int], ...]
) -> Sentence:
    """A single sentence with what is known of its tree, and nothing else.

    Args:
        words: the sentence, as `Parser.parse` takes it.
        heads: head that words must have, by word.
        labels: label that words must have, by word.
        forbid: arcs that must not be in the tree, each as (word, head).
    """
    try:
        sentence = _as_sentence(words, 1)
    except TypeError:
        raise TypeError("heads, labels and forbid are for a single sentence: parse the others one by one") from None
    n = len(sentence)
    for word, head in (*heads.items(), *forbid, *((word, 0) for word in labels)):
        if not (1 <= word <= n and 0 <= head <= n):
            raise ValueError(f"word {word} with head {head}: the sentence has words 1 to {n}, and 0 is the root")
    places = range(1, n + 1)
    return replace(
        sentence,
        head=[heads.get(word, -1) for word in places],
        deprel=[labels.get(word, "_") for word in places],
        forbidden=forbid,
    )


def _refusal(what: object) -> str:
    """Return an error message that names the right call for an argument that is not a sentence."""
    if _is_of(what, "spacy.tokens", "Doc"):
        return 'parser.parse takes lists of words: for documents of spaCy call nlp.add_pipe("arbora", config={...})'
    if isinstance(what, str):
        return "parser.parse takes either words or sentences, not both in one list: call parser.pipe(texts) for texts"
    return f"parser.parse takes lists of words, token lists of conllu or a Sentence, got {type(what).__name__}"


def _is_of(what: object, module: str, name: str) -> bool:
    """Return whether an object's class is from another package, without importing that package."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(what, getattr(loaded, name))
