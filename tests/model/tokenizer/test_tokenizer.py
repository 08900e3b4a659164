import io
import os
from itertools import count, islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arbora.data.conll import ConllError, Sentence, Unparsed, read_conll
from arbora.data.text import Token, sentence_of, tokens_of, unescape
from arbora.model.tokenizer import kernel, tokenizer
from arbora.model.tokenizer.characters import Characters
from arbora.model.tokenizer.learning import figures_of, has_text, learn_tokenizer
from arbora.model.tokenizer.tokenizer import Tokenizer

EXAMPLES = Path(__file__).parents[3] / "examples" / "treebank"
RAW = """Dr. Hall   didn't see the
ferry. It left, he said.

He can't swim!Nobody can't.
"""


def annotated(text: str, is_new: bool) -> Sentence:
    """A sentence whose words are separated by spaces; `~` joins the tokens around it, `+` words of one token."""
    tokens = []
    for chunk in text.split():
        forms = chunk.split("~")
        for i, form in enumerate(forms):
            tokens.append(Token(form.replace("+", ""), form.split("+"), " " if i + 1 == len(forms) else ""))
    return sentence_of(tokens, ["# newpar"] if is_new else [], "x", 1)


@pytest.fixture(scope="module")
def learnt() -> Tokenizer:
    sentences = list(read_conll(EXAMPLES / "dev.conllu"))
    for i in range(60):
        sentences += [annotated("Dr. Hall did+n't see it~, he said~.", i % 3 == 0)]
        sentences += [annotated("Nobody ca+n't swim~!", False), annotated("Dr. Who is+n't here~.", False)]
    return learn_tokenizer(sentences, sentences)


def joined(sentences: list[Sentence]) -> str:
    """The text that sentences were made of."""
    text = ""
    for sentence in sentences:
        for line in sentence.lines:
            text += unescape(line.rpartition("SpacesBefore=")[2]) if "SpacesBefore=" in line else ""
        text += "".join(token.form + token.space for token in tokens_of(sentence))
    return text


def test_sentences_and_words(learnt: Tokenizer) -> None:
    sentences = learnt.split_text(RAW, "x")
    assert [[token.form for token in tokens_of(sentence)] for sentence in sentences] == [
        "Dr. Hall didn't see the ferry .".split(),
        "It left , he said .".split(),
        "He can't swim !".split(),
        "Nobody can't .".split(),
    ]
    assert sentences[0].form[:4] == ["Dr.", "Hall", "did", "n't"]
    assert sentences[3].form == ["Nobody", "ca", "n't", "."]
    assert [sentence.lines[:3] for sentence in sentences[:2]] == [
        ["# newpar", "# sent_id = 1", "# text = Dr. Hall didn't see the ferry."],
        ["# sent_id = 2", "# text = It left, he said.", "1\tIt" + "\t_" * 8],
    ]
    assert ["# newpar" in sentence.lines for sentence in sentences] == [True, False, True, False]
    assert [sentence.where() for sentence in sentences] == ["x:1", "x:2", "x:4", "x:4"]
    assert joined(sentences) == RAW


def test_the_format_is_valid(learnt: Tokenizer, tmp_path: Path) -> None:
    pytest.importorskip("udtools")
    from udtools import Validator

    sentences = learnt.split_text("\t " + RAW.replace("ferry", "\u2028ferry \xa0 |\\s _ #1 \x85"))
    contents = ""
    for sentence in sentences:
        n = len(sentence)
        contents += sentence.with_tree([0] + [1] * (n - 1), ["root"] + ["dep"] * (n - 1), tags={"upos": ["X"] * n})
    (tmp_path / "out.conllu").write_text(contents, encoding="utf-8", newline="\n")
    state = Validator(lang="ud", level=2, max_store=10).validate_files([str(tmp_path / "out.conllu")])
    assert state.passed(), str(state)


TEXTS = st.lists(st.text() | st.sampled_from(["n't. A", "Dr. ", "\n", "\n\n", "\r\n\r\n", " \n \n ", "\xa0", "a b. C"]))


@given(TEXTS)
def test_text_is_given_back_exactly(learnt: Tokenizer, pieces: list[str]) -> None:
    text = "".join(pieces).encode("utf-8", "ignore").decode()
    sentences = learnt.split_text(text)
    visible = text.removeprefix("\ufeff")
    assert joined(sentences) == (visible if visible.strip() else "")
    for sentence in sentences:
        text = "".join(token.form + " " * bool(token.space) for token in tokens_of(sentence)).rstrip(" ")
        assert f"# text = {text}" in sentence.lines
        assert not any(word != word.strip() or "\n" in word for word in sentence.form)


@given(TEXTS, st.integers(1, 50), st.integers(1, 50))
def test_pieces_do_not_matter(learnt: Tokenizer, pieces: list[str], window: int, line: int) -> None:
    text = ("".join(pieces) * 40).encode("utf-8", "ignore").decode()
    whole = [(s.lines, s.where()) for s in learnt.split_text(text, "x")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer, "WINDOW", window)
        patch.setattr(tokenizer, "LONGEST_LINE", line)
        assert [(s.lines, s.where()) for s in learnt.split_text(text, "x")] == whole


def test_a_text_without_an_end_is_cut(learnt: Tokenizer) -> None:
    resource = pytest.importorskip("resource")

    class Endless(io.TextIOBase):
        """One line of letters."""

        characters = 0

        def readline(self, size: int | None = -1) -> str:  # type: ignore[override]
            assert size is not None
            assert size > 0
            self.characters += size
            return "a" * size

    stream = Endless()
    first = next(learnt.read(stream, name="x"))
    assert set(first.form) == {"a" * tokenizer.LONGEST_TOKEN}
    assert len(first) <= tokenizer.LONGEST_SENTENCE
    assert stream.characters < 4 * tokenizer.LONGEST_TOKEN * tokenizer.LONGEST_SENTENCE
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert sum(1 for _ in islice(learnt.read(Endless(), name="x"), 20)) == 20  # up to 20 MB
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


def test_sentences_come_while_the_stream_is_open(learnt: Tokenizer) -> None:
    reading, writing = os.pipe()
    with open(reading, encoding="utf-8") as stream, open(writing, "w", encoding="utf-8") as writer:
        writer.write("It rained. A dog slept.\n\nHe ")
        writer.flush()
        os.set_blocking(reading, True)
        writer.write("left.\n")
        writer.flush()
        sentences = learnt.read(stream, name="x")
        assert next(sentences).form == ["It", "rained", "."]  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["", " \n\n", "\ufeff"])
def test_no_words(learnt: Tokenizer, text: str) -> None:
    assert learnt.split_text(text) == []
    with pytest.raises(ConllError, match="x:1: the text is empty"):
        list(learnt.read(io.StringIO(text), name="x"))


def test_lines_that_are_not_utf8(learnt: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes("It rained.\ncafé slept\nHe left.\n".encode("latin-1"))
    first, second, third = learnt.read(path, numbers=count(5))
    assert isinstance(second, Unparsed)
    assert "latin.txt:2: byte 0xe9 is not UTF-8" in str(second.error)
    assert len(second) == 2
    assert isinstance(first, Sentence)
    assert isinstance(third, Sentence)
    assert first.lines[1] == "# sent_id = 5"
    assert third.lines[:2] == ["# newpar", "# sent_id = 6"]
    with pytest.raises(ConllError, match="not UTF-8"):
        learnt.split_text("a\udcff")


def test_contents_give_the_same_tokenizer(learnt: Tokenizer) -> None:
    again = Tokenizer.from_contents(learnt.contents)
    assert again.contents == learnt.contents
    assert [s.lines for s in again.split_text(RAW)] == [s.lines for s in learnt.split_text(RAW)]


def test_contents_that_are_no_tokenizer(learnt: Tokenizer) -> None:
    pickled = io.BytesIO()
    np.savez(pickled, tokens=np.array([print], object))
    for contents in (b"", b"PK", pickled.getvalue(), learnt.contents[:1000]):
        with pytest.raises(Exception, match=".") as raised:
            Tokenizer.from_contents(contents)
        assert not isinstance(raised.value, AssertionError)


def test_tokens_with_spaces() -> None:
    sentences = [
        sentence_of(
            [Token(f"{i} 000", [f"{i} 000"], " "), Token("men", ["men"], ""), Token(".", ["."], " ")], [], "x", 1
        )
        for i in range(1, 60)
    ]
    learnt = learn_tokenizer(sentences, sentences)
    assert learnt.spaces
    (found,) = learnt.split_text("77 000 men.")
    assert found.form == ["77 000", "men", "."]
    (found,) = learnt.split_text("77\n000 men.")
    assert found.form == ["77", "000", "men", "."]


def test_a_treebank_is_learnt() -> None:
    train, dev = (list(read_conll(EXAMPLES / f"{part}.conllu")) for part in ("train", "dev"))
    assert has_text(train)
    tokens, sentences = figures_of(learn_tokenizer(train, dev), dev)
    assert tokens > 99.9
    assert sentences > 99
    assert not has_text([Sentence.from_words(["a"])])


def test_the_same_tokenizer_every_time() -> None:
    sentences = list(read_conll(EXAMPLES / "dev.conllu"))[:50]
    assert learn_tokenizer(sentences, sentences).contents == learn_tokenizer(sentences, sentences).contents


def test_characters() -> None:
    text = "  Éa \t9 .\u0301日"
    characters = Characters.of(text)
    assert "".join(text[i] for i in characters.place) == "Éa9.\u0301日"
    assert [chr(code) for code in characters.lower] == list("éa9.\u0301日")
    assert characters.gap.tolist() == [2, 0, 2, 1, 0, 0]
    assert len(set(characters.kind.tolist())) == 6


def test_nothing_looks_further_than_it_may(learnt: Tokenizer) -> None:
    """Neither text beyond `REACH` characters nor the end of the text read so far changes a boundary."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        text = "".join(rng.choice(list("aB.,! "), 400))
        other = text[:300] + "".join(rng.choice(list("xY-'? "), 100))
        found = [learnt.split(Characters.of(each), is_end=False)[0] for each in (text, other)]
        known = len(Characters.of(text[:300]).place) - kernel.REACH
        assert known > 100
        assert found[0][:known].tolist() == found[1][:known].tolist()
