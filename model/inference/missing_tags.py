"""Check for input without the tags that a parser reads."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from arbora.data.conll import Sentence, Unparsed
from arbora.data.vocabulary import Vocabulary

logger = logging.getLogger("arbora")

COLUMNS = {"upos": "upos", "xpos": "xpos", "feats": "feats", "lemmas": "lemma"}
"""Attributes of `Sentence` with the columns that a parser may read, by their names in the vocabulary."""

SHARE = 0.1
"""If at least this share of words has no tag, the column counts as missing."""

ENOUGH = 100
"""In any language with features, at least one of this many words has some."""


@dataclass
class MissingTags:
    """Warns once, or refuses the input, if columns that a parser reads are empty.

    Without tags, a parser that was trained with gold tags finds poor trees, and nothing in its output shows why.

    Args:
        vocabulary: of the parser.
        tags: columns that it reads besides words.
    """

    vocabulary: Vocabulary
    tags: tuple[str, ...]
    _warned: bool = field(default=False, init=False)

    def check(self, entries: Iterable[Sentence | Unparsed], strict: bool = False) -> None:
        """Look at some sentences.

        Args:
            entries: sentences; other entries are ignored.
            strict: raise an error instead of logging a warning.

        Raises:
            ValueError: columns are empty, if `strict`.
        """
        if not self.tags or (self._warned and not strict):
            return
        sentences = [entry for entry in entries if isinstance(entry, Sentence)]
        words = sum(map(len, sentences))
        empty = {
            tag: sum(getattr(sentence, COLUMNS[tag]).count("_") for sentence in sentences)
            for tag in self.tags
            if getattr(self.vocabulary, tag)[:1] not in ([], ["_"])  # otherwise, the column was also empty in training
        }
        missing = [tag for tag, count in empty.items() if tag != "feats" and count >= SHARE * words]
        if empty.get("feats") == words and (missing or words >= ENOUGH):  # words may have no features
            missing.append("feats")
        if not missing or not words:
            return
        shares = [f"{COLUMNS[tag].upper()} for {100 * empty[tag] / words:.0f} % of the words" for tag in missing]
        message = f"{sentences[0].where()}: columns that this parser reads are empty: {', '.join(shares)}"
        if strict:
            raise ValueError(f"{message}; tag the text first, or use a parser that reads only words")
        logger.warning("%s; its trees will be much worse than with tags", message)
        self._warned = True
