"""A spaCy component: a trained parser sets heads, labels, tags and lemmas of documents.

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("arbora", config={"model": "english"})

The model is a path or a name, as `arbora.load` takes it; unless given, it is the one that
`arbora predict` takes.

If sentence boundaries are set, each sentence is parsed separately. Otherwise the document is parsed as a single
sentence, and each root word starts a sentence; there is one root word unless the decoder allows several. The label
`root` becomes spaCy's `ROOT`. White space tokens are attached to the word before them. A parser with taggers sets
missing tags, morphology and lemmas. If the parser reads tags, earlier components must set them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from spacy.language import Language
from spacy.parts_of_speech import IDS
from spacy.tokens import Doc, Token

from arbora.data.conll import Sentence
from arbora.model.inference.batch_parser import ParsingSettings
from arbora.model.inference.results import ParsedSentence
from arbora.model.parser import Parser


class SpacyParser:
    """The component.

    Args:
        parser: parses the sentences of documents.
        name: of the component.
    """

    def __init__(self, parser: Parser, name: str = "arbora") -> None:
        self.parser = parser
        self.name = name

    def __call__(self, doc: Doc) -> Doc:
        """Parse one document."""
        annotate(doc, self.parser.parse(sentences_of_doc(doc)))
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Parse documents, `batch_size` at a time."""
        left = iter(stream)
        while docs := list(islice(left, batch_size)):
            of_docs = [sentences_of_doc(doc) for doc in docs]
            parsed = iter(self.parser.parse([sentence for sentences in of_docs for sentence in sentences]))
            for doc, sentences in zip(docs, of_docs, strict=True):
                annotate(doc, [next(parsed) for _ in sentences])
                yield doc


def annotate(doc: Doc, parsed: list[ParsedSentence]) -> None:
    """Set heads, labels and, by them, sentences of a document, and tags, morphology and lemmas where it has none.

    Args:
        doc: the document.
        parsed: each of its sentences, as `sentences_of_doc` gives them, with its tree.
    """
    if not len(doc):
        return
    head = np.arange(len(doc), dtype=np.int64)
    label = ["dep"] * len(doc)
    is_word = np.zeros(len(doc), dtype=bool)
    for tokens, tree in zip(words_of_doc(doc), parsed, strict=True):
        place = np.array([token.i for token in tokens])
        head[place] = np.where(tree.heads == 0, place, place[tree.heads - 1])
        is_word[place] = True
        _set_tags(tokens, tree)
        for i, h, name in zip(place.tolist(), tree.heads.tolist(), tree.labels):
            label[i] = "ROOT" if h == 0 and name == "root" else name
    words = np.flatnonzero(is_word)
    spaces = np.flatnonzero(~is_word)
    if len(words):
        head[spaces] = words[np.maximum(np.searchsorted(words, spaces) - 1, 0)]
    else:
        head[spaces] = 0
        label[0] = "ROOT"
    deps = [doc.vocab.strings.add(name) for name in label]
    values: Any = np.array([(head - np.arange(len(doc))).view(np.uint64), np.array(deps, np.uint64)]).T
    doc.from_array(["HEAD", "DEP"], values)


def _set_tags(tokens: list[Token], tree: ParsedSentence) -> None:
    """Set predicted tags of tokens that have none. spaCy accepts only universal tags that it knows."""
    for token, upos, xpos, feats, lemma in zip(tokens, tree.upos, tree.xpos, tree.feats, tree.lemmas):
        if not token.pos_ and upos in IDS:
            token.pos_ = upos
        if not token.tag_ and xpos != "_":
            token.tag_ = xpos
        if not token.has_morph() and "feats" in tree.tags:
            token.set_morph(feats)  # type: ignore[attr-defined]  # missing in its stubs
        if not token.lemma_ and lemma != "_":
            token.lemma_ = lemma


def words_of_doc(doc: Doc) -> list[list[Token]]:
    """Return the words of each sentence, without white space; all words if sentence boundaries are not set."""
    sentences = doc.sents if doc.has_annotation("SENT_START") else [doc]
    words = [[token for token in sentence if not token.is_space] for sentence in sentences]
    return [tokens for tokens in words if tokens]


def sentences_of_doc(doc: Doc) -> list[Sentence]:
    """Return sentences with the words, tags, features and lemmas of a document."""
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


@Language.factory(
    "arbora",
    assigns=[
        *("token.dep", "token.head", "token.is_sent_start", "doc.sents"),
        *("token.pos", "token.tag", "token.morph", "token.lemma"),
    ],
    requires=[],
    default_config={"model": None, "device": "cpu", "max_tokens": 2000, "max_length": 500},
)
def create(nlp: Language, name: str, model: str | None, device: str, max_tokens: int, max_length: int) -> SpacyParser:
    """Make the component.

    Args:
        nlp: pipeline of the component.
        name: its name in the pipeline.
        model: as `arbora.load` takes it.
        device: device for scoring, such as cpu, cuda, cuda:1, mps.
        max_tokens: size of a batch, in padded positions.
        max_length: number of words above which a sentence is parsed in a cheaper way.
    """
    from arbora.model.catalogue import find_model
    from arbora.model.loading import load

    parser = load(find_model(model), device=device)
    parser.settings = ParsingSettings(max_tokens, max_length)
    return SpacyParser(parser, name)
