"""Readers of treebanks and text on valid files, damaged files and bytes of any kind.

A valid file must be read as what it was made of, and written back byte for byte. Of any other input a reader must give
sentences that are sound, or an error of one line that names the place. Nothing may be lost: the lines of all entries
together are those of the file.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np

from arbora.data.conll import Sentence, Unparsed, conll_entries, read_conll
from arbora.data.text import text_entries
from arbora.model.tokenizer.learning import learn_tokenizer
from arbora.model.tokenizer.tokenizer import Tokenizer
from tests import brute_force

INPUTS = 100
Generator = np.random.Generator

FORMS = [
    "the",
    "a b",
    "naïve",
    "日本",
    "👩‍👩‍👧",
    "e\u0301",
    "_",
    "\u00a0",
    "#",
    "1",
    "x" * 300,
    "\u200b",
    "\u2028",
    "\x85",
]
FIELDS = ["_", "NOUN", "Case=Nom|Number=Sing", "|", "a=b=c", "\u00a0", "0", "-1", "\x0b", "\x1c"]
SNIPPETS = [
    b"",
    b"\t",
    b"\n",
    b"\n\n",
    b"\r\n",
    b"\r",
    b"\x00",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\x0c",
    b"#",
]
SNIPPETS += [b"1", b"0", b"-1", b"1-2", b"1.1", b"99999999999999999999", b"1" * 5000, b"_", b" ", "\u2028".encode()]
SNIPPETS += ["\u0661".encode(), b"1e3", b"+1", b"1_0", b"# sent_id = 1\n"]


def draw_treebank(rng: Generator) -> tuple[bytes, list[dict[str, list[str]]], bool]:
    """A valid file, the columns that it was made of, and whether it is CoNLL-X."""
    conllx = bool(rng.random() < 0.3)
    lines, sentences = [], []
    for _ in range(rng.integers(1, 5)):
        n = int(rng.integers(1, 6))
        trees = brute_force.trees(n)
        heads = trees[rng.integers(len(trees))][1:]
        columns = {"form": [str(rng.choice(FORMS)) for _ in range(n)], "head": [str(h) for h in heads]}
        columns["deprel"] = [str(rng.choice(["nsubj", "root", "acl:relcl", "_"])) for _ in range(n)]
        if not conllx:
            lines += ["# text = " + " ".join(columns["form"])] * int(rng.integers(3)) + ["#"] * int(rng.integers(2))
        at = 0
        for m in range(1, n + 1):
            if not conllx and m > at and m < n and rng.random() < 0.2:
                at = int(rng.integers(m + 1, n + 1))
                lines.append("\t".join([f"{m}-{at}", "form", *["_"] * 8]))
            others = [str(rng.choice(FIELDS)) for _ in range(4)]
            row = [str(m), columns["form"][m - 1], *others, columns["head"][m - 1], columns["deprel"][m - 1]]
            lines.append("\t".join([*row, "_", str(rng.choice(["_", "SpaceAfter=No"])) if not conllx else "_"]))
            for empty in range(int(rng.random() < 0.1) if not conllx else 0):
                lines.append("\t".join([f"{m}.{empty + 1}", "empty", *["_"] * 8]))
        lines.append("")
        sentences.append(columns)
    return "".join(f"{line}\n" for line in lines).encode(), sentences, conllx


def damage(data: bytes, rng: Generator) -> bytes:
    """The file with some bytes replaced, inserted, removed or repeated."""
    for _ in range(rng.integers(1, 6)):
        start = int(rng.integers(len(data) + 1))
        end = min(len(data), start + int(rng.choice([0, 1, 1, 5, 50])))
        piece = [SNIPPETS[rng.integers(len(SNIPPETS))], data[start:end] * 2, rng.bytes(3), b""][rng.integers(4)]
        data = data[:start] + piece + data[end:]
    return data


def entries_of(read: Callable[..., Iterator[Sentence | Unparsed]], data: bytes, **settings: object) -> list:
    """All entries, or the one error that a reader raised; anything but an error of one line is a failure."""
    stream = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", errors="surrogateescape", newline="\n")
    found: list[Sentence | Unparsed | ValueError] = []
    try:
        found += read(stream, name="file", **settings)
    except ValueError as error:
        found.append(error)
    for entry in found:
        error = entry.error if isinstance(entry, Unparsed) else entry
        if isinstance(error, ValueError):
            message = str(error)
            assert message.startswith("file:"), message
            assert len(message.splitlines()) == 1, message
            assert len(message) < 400, message
    return found


def check_sentence(sentence: Sentence, trees: bool) -> None:
    """Check properties of every sentence that a reader returns."""
    n = len(sentence)
    assert n > 0
    columns = (sentence.form, sentence.lemma, sentence.upos, sentence.xpos, sentence.feats, sentence.deprel)
    assert all(len(column) == n for column in columns)
    assert all(column and "\t" not in column and "\n" not in column for column in sentence.form)
    assert len(sentence.head) == len(sentence.word_line) == n
    assert all(-1 <= head <= n for head in sentence.head)
    if trees:
        assert all(head >= 0 for head in sentence.head)
        assert brute_force.reaches_root((-1, *sentence.head)), sentence.head
    "".join(sentence.lines).encode()  # no lone surrogates


def check_treebank(data: bytes, rng: Generator) -> None:
    """Any bytes as a treebank."""
    trees = bool(rng.random() < 0.5)
    found = entries_of(conll_entries, data, trees=trees, single_root=bool(rng.random() < 0.3))
    for entry in found:
        if isinstance(entry, Sentence):
            check_sentence(entry, trees)
    if not any(isinstance(entry, ValueError) for entry in found):
        text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
        lines = [line.removesuffix("\r") for line in text.split("\n")]
        kept = [line for entry in found for line in entry.lines]
        assert [line for line in kept if line.strip()] == [line for line in lines if line.strip()]


def check_valid(data: bytes, sentences: list[dict[str, list[str]]], conllx: bool) -> None:
    """A file that is valid, against the columns that it was made of."""
    found = entries_of(conll_entries, data, format="conllx" if conllx else "conllu")
    assert len(found) == len(sentences)
    written = ""
    for sentence, columns in zip(found, sentences):
        assert isinstance(sentence, Sentence), sentence
        assert sentence.form == columns["form"]
        assert [str(head) for head in sentence.head] == columns["head"]
        assert sentence.deprel == columns["deprel"]
        written += sentence.with_tree(sentence.head, sentence.deprel)
    assert written.encode() == data


@cache
def example_tokenizer() -> Tokenizer:
    """A tokenizer that was learnt from the bundled treebank."""
    sentences = list(read_conll(Path(__file__).parents[2] / "examples" / "treebank" / "dev.conllu"))
    return learn_tokenizer(sentences, sentences)


def check_text(data: bytes) -> int:
    """Any bytes as text, one sentence per line and raw. Returns the number of inputs read."""
    for read in (text_entries, example_tokenizer().read):
        for entry in entries_of(read, data):
            if isinstance(entry, Sentence):
                check_sentence(entry, trees=False)
    return 2


def run_round(rng: Generator, counts: Counter[str]) -> None:
    """Read some files of each kind, and count them."""
    for _ in range(INPUTS // 5):
        data, sentences, conllx = draw_treebank(rng)
        damaged = damage(data, rng)
        check_valid(data, sentences, conllx)
        check_treebank(damaged, rng)
        check_treebank(rng.bytes(int(rng.integers(100))), rng)
        counts["inputs"] += 3 + check_text(damaged)
