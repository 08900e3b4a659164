"""Makes more training text for `english-small`: sentences of a treebank in which some words are exchanged.

A word of an open class gives way to another word of the treebank with the same tags, features and case. How many words
of a sentence change is drawn for each copy of it. Heads and labels are left out: `english` predicts them.

    python exchange_words.py train.conllu COPIES SEED > exchanged.conllu
"""

from __future__ import annotations

import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator

from conllu import parse_incr

OPEN = ("ADJ", "ADV", "NOUN", "PROPN", "VERB")
SHARE = 0.5  # at most this share of the open words of a sentence is exchanged

Word = dict[str, str]


def sentences(file: str) -> Iterator[list[Word]]:
    """Yield words with their columns as they stand in the file; `part` marks words of a multiword token."""
    with open(file, encoding="utf-8") as lines:
        for sentence in parse_incr(lines, field_parsers={"feats": lambda line, i: line[i]}):
            inside = {
                n
                for token in sentence
                if isinstance(token["id"], tuple) and token["id"][1] == "-"
                for n in range(token["id"][0], token["id"][2] + 1)
            }
            yield [dict(token, part=token["id"] in inside) for token in sentence if isinstance(token["id"], int)]


def group(word: Word) -> tuple[str, ...]:
    case = "lower" if word["form"].islower() else "title" if word["form"].istitle() else "other"
    return word["upos"], word["xpos"], word["feats"], case


def main(file: str, copies: int, seed: int) -> None:
    rng = random.Random(seed)
    treebank = list(sentences(file))
    seen: dict[tuple[str, ...], Counter[tuple[str, str]]] = defaultdict(Counter)
    for word in (word for words in treebank for word in words if not word["part"]):
        seen[group(word)][word["form"], word["lemma"]] += 1
    pools = {key: (list(words), [count**0.5 for count in words.values()]) for key, words in seen.items()}
    for copy in range(copies):
        for number, words in enumerate(treebank):
            share = rng.uniform(0, SHARE)
            print(f"# sent_id = exchanged-{copy}-{number}")
            for i, word in enumerate(words, 1):
                form, lemma = word["form"], word["lemma"]
                if word["upos"] in OPEN and not word["part"] and rng.random() < share:
                    form, lemma = rng.choices(*pools[group(word)])[0]
                print(i, form, lemma, word["upos"], word["xpos"], word["feats"], "_", "_", "_", "_", sep="\t")
            print()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
