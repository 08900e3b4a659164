"""A component of spaCy pipelines: heads and labels of documents from a trained parser.

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("arbora", config={"model": "runs/mine/best.ckpt"})

Sentences that are known before are parsed each by itself. Otherwise a document is parsed whole, and its sentences are
the trees below each root, one unless the decoder finds trees with several. The label `root` becomes spaCy's `ROOT`.
White space tokens are left to the word before them. What the parser reads beside words, such as tags, must be set
before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc

from arbora.model.inference.pipeline import Pipeline, words_of_doc
from arbora.model.inference.stream import Parsed, Parsing


class SpacyParser:
    """The component.

    Args:
        pipeline: what parses.
        name: of the component.
    """

    def __init__(self, pipeline: Pipeline, name: str = "arbora") -> None:
        self.pipeline = pipeline
        self.name = name

    def __call__(self, doc: Doc) -> Doc:
        """Parse one document."""
        annotate(doc, self.pipeline(doc))
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Parse documents, `batch_size` at a time."""
        left = iter(stream)
        while docs := list(islice(left, batch_size)):
            for doc, parsed in zip(docs, self.pipeline(docs), strict=True):
                annotate(doc, parsed)
                yield doc


def annotate(doc: Doc, parsed: list[Parsed]) -> None:
    """Set heads, labels and, by them, sentences of a document.

    Args:
        doc: the document.
        parsed: what was found for each of its sentences, as `Pipeline` gives it.
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


@Language.factory(
    "arbora",
    assigns=["token.dep", "token.head", "token.is_sent_start", "doc.sents"],
    requires=[],
    default_config={"device": "cpu", "max_tokens": 4000, "max_length": 500},
)
def create(nlp: Language, name: str, model: str, device: str, max_tokens: int, max_length: int) -> SpacyParser:
    """Make the component.

    Args:
        nlp: the pipeline that it is for.
        name: its name in the pipeline.
        model: a checkpoint that `arbora train` wrote, or a folder that was exported.
        device: where to score, such as cpu, cuda, cuda:1, mps.
        max_tokens: size of a batch, in positions when padded.
        max_length: words of a sentence above which it is parsed in a lighter way.
    """
    from arbora.model import load

    return SpacyParser(Pipeline(load(model).to(device), Parsing(max_tokens, max_length)), name)
