"""Scores of differing tokenizations against those of the official evaluation."""

import io
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from udtools import udeval

from arbora.data.conll import ConllError
from arbora.data.text import Token, sentence_of
from arbora.evaluation import aligned_scores

NAMES = "Tokens Sentences Words UPOS XPOS UFeats AllTags Lemmas UAS LAS CLAS MLAS BLEX".split()
LABELS = ["nsubj", "nsubj:pass", "case", "det", "aux", "obj", "punct", "cop", "root"]
FEATS = ["_", "Case=Nom|Number=Sing", "Number=Sing|Foo=Bar", "Foo=Bar"]


def annotated(text: str, generator: random.Random) -> str:
    """CoNLL-U of a text, with random sentences, tokens, multiword tokens, tags and trees."""
    pieces, start = list[str](), 0
    while start < len(text):
        tokens = list[Token]()
        for _ in range(generator.randint(1, 6)):
            end = min(len(text), start + generator.choice([1, 1, 2, 2, 3, 5]))
            form = text[start:end]
            words = [form]
            if generator.random() < 0.35:
                words = generator.choices([form, *form, "a", "B"], k=generator.randint(2, 3))
            tokens.append(Token(form, words, " "))
            start = end
            if start == len(text):
                break
        sentence = sentence_of(tokens, [], "x", 1)
        n = len(sentence)
        order = generator.sample(range(1, n + 1), n)
        heads = [0] * n
        for i, word in enumerate(order[1:], 1):
            heads[word - 1] = generator.choice(order[:i])
        for i in sentence.word_line:
            columns = sentence.lines[i].split("\t")
            columns[2:6] = [generator.choice(values) for values in (["_", "a", "b"], ["X", "Y"], ["p", "q"], FEATS)]
            sentence.lines[i] = "\t".join(columns)
        pieces.append(sentence.with_tree(heads, generator.choices(LABELS, k=n)))
    return "".join(pieces)


@given(st.text("ab", min_size=1, max_size=60), st.integers(0, 1 << 32))
def test_official_scores(tmp_path_factory: pytest.TempPathFactory, text: str, seed: int) -> None:
    generator = random.Random(seed)
    folder = tmp_path_factory.mktemp("aligned")
    written = [annotated(text, generator) for _ in range(2)]
    if generator.random() < 0.2:
        written[1] = written[0]
    for name, contents in zip(("gold", "system"), written):
        (folder / name).write_text(contents, encoding="utf-8")
    expected = udeval.evaluate(*(udeval.load_conllu(io.StringIO(each), "x", {}) for each in written))
    found = aligned_scores(folder / "gold", folder / "system")
    assert list(found) == [name.lower() for name in NAMES]
    for name in NAMES:
        for value in ("f1", "precision", "recall"):
            assert found[name.lower()][value] == pytest.approx(100 * getattr(expected[name], value), abs=1e-9), name


def test_another_text(tmp_path: Path) -> None:
    generator = random.Random(0)
    for name, text in (("gold", "abba"), ("system", "abab")):
        (tmp_path / name).write_text(annotated(text, generator), encoding="utf-8")
    with pytest.raises(
        ConllError, match=r"gold:\d+ and .*system:\d+: the text continues with 'ba' and 'ab'; give files"
    ):
        aligned_scores(tmp_path / "gold", tmp_path / "system")
