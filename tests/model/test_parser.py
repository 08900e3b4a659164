import inspect
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import conllu
import pytest

from arbora.data.conll import Sentence, read_conll
from arbora.model import Parser, load
from arbora.model.inference.batch_parser import ParsingSettings
from arbora.model.inference.results import ParsedSentence
from arbora.model.inference.stream import parse_sentences

EXAMPLES = Path(__file__).parents[2] / "examples" / "treebank"


@pytest.fixture(scope="module")
def parser(checkpoint: Path) -> Parser:
    return load(checkpoint)


@pytest.fixture(scope="module")
def treebank() -> list[Sentence]:
    return list(read_conll(EXAMPLES / "dev.conllu"))[:60]


def plain(parsed: ParsedSentence) -> tuple[list[int], list[str]]:
    return parsed.heads.tolist(), parsed.labels


def test_one_sentence_of_words(parser: Parser) -> None:
    words = "The dog barked .".split()
    parsed = parser.parse(words)
    assert parsed.sentence.form == words
    assert len(parsed.heads) == len(parsed.labels) == 4
    assert parsed.certified is True
    assert isinstance(parsed.score, float)
    assert parsed.arc_probability is None
    assert plain(parser.parse(tuple(words))) == plain(parser.parse(iter(words))) == plain(parsed)  # type: ignore
    (same,) = parse_sentences(parser.batch_parser(), [Sentence.from_words(words)])
    assert plain(same) == plain(parsed)
    assert same.score == parsed.score


def test_several_sentences(parser: Parser) -> None:
    first, second = ["A", "dog"], ["It", "rained", "."]
    found = parser.parse([first, second])
    assert [plain(parsed) for parsed in found] == [plain(parser.parse(first)), plain(parser.parse(second))]
    assert parser.parse([]) == []
    assert [parsed.sentence.line_number for parsed in found] == [1, 2]


def test_sentences_and_token_lists(parser: Parser, treebank: list[Sentence]) -> None:
    text = (EXAMPLES / "dev.conllu").read_text(encoding="utf-8")
    token_lists = conllu.parse(text)[: len(treebank)]
    expected = list(parse_sentences(parser.batch_parser(), treebank))
    assert [plain(parsed) for parsed in parser.parse(treebank)] == [plain(parsed) for parsed in expected]
    assert [parsed.text for parsed in parser.parse(token_lists)] == [parsed.text for parsed in expected]
    assert parser.parse(treebank[3]).sentence is treebank[3]
    assert parser.parse(token_lists[3]).text == expected[3].text


def test_probabilities_on_request(parser: Parser, treebank: list[Sentence]) -> None:
    for parsed in parser.parse(treebank[:5], probabilities=True):
        assert parsed.arc_probability is not None
        assert parsed.label_probability is not None
        assert len(parsed.arc_probability) == len(parsed.label_probability) == len(parsed.sentence)


def test_text(parser: Parser) -> None:
    first, second = parser("The dog barked. It rained, didn't it?")
    assert first.sentence.form == ["The", "dog", "barked", "."]
    assert plain(first) == plain(parser.parse(["The", "dog", "barked", "."]))
    assert second.sentence.form[-1] == "?"
    assert parser("") == parser(" \n ") == []


def test_a_stream_of_texts(parser: Parser) -> None:
    texts = ["", "The dog barked. It rained.", " ", "\n", "Yes.", ""] * 3

    def lazily() -> Iterator[str]:
        yield from texts

    expected = [[plain(parsed) for parsed in parser(text)] for text in texts]
    assert [[plain(parsed) for parsed in found] for found in parser.pipe(lazily())] == expected
    assert list(map(len, expected[:6])) == [0, 2, 0, 0, 1, 0]
    assert list(parser.pipe([])) == []


def test_text_without_a_tokenizer(parser: Parser) -> None:
    parser = Parser(parser.backend, parser.decoder)
    for call in (lambda: parser("Yes."), lambda: parser.pipe(["Yes."])):
        with pytest.raises(ValueError, match=r"no tokenizer: give words .* --tokenizer TRAIN DEV"):
            call()


@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        ("The dog barked .", TypeError, r"got a string: call parser\(text\) for text"),
        ([[]], ValueError, "at least one word"),
        ([["a"], []], ValueError, "at least one word"),
        (["a", ""], ValueError, "must not be empty"),
        ([["a"], "b"], TypeError, r"call parser.pipe\(texts\) for texts"),
        ([["a"], ["b", 3]], TypeError, "got list"),
        ([None], TypeError, "got NoneType"),
        (7, TypeError, "got int"),
    ],
)
def test_what_is_no_sentence(parser: Parser, what: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as raised:
        parser.parse(what)  # type: ignore[call-overload]
    assert "\n" not in str(raised.value)


def test_what_is_no_text(parser: Parser) -> None:
    with pytest.raises(TypeError, match="got list: call parser.parse for lists of words"):
        parser(["The", "dog"])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"<text>: this is CoNLL-U.*parser.parse\(conllu.parse\(text\)\)"):
        parser("1\tThe\tthe\tDET\t_\t_\t0\troot\t_\t_\n")
    with pytest.raises(TypeError, match=r"for a single text call parser\(text\)"):
        parser.pipe("The dog barked.")
    with pytest.raises(TypeError, match="got int"):
        parser.pipe(7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="got NoneType"):
        list(parser.pipe(["Yes.", None]))  # type: ignore[list-item]


def test_signatures_say_what_is_taken() -> None:
    assert list(inspect.signature(Parser.__call__).parameters) == ["self", "text", "probabilities"]
    assert list(inspect.signature(Parser.pipe).parameters) == ["self", "texts", "probabilities"]
    wishes = ["probabilities", "heads", "labels", "forbid", "k_best"]
    assert list(inspect.signature(Parser.parse).parameters) == ["self", "sentences", *wishes]


@pytest.mark.parametrize("max_tokens", [20, 4000])
def test_threads_find_the_same(parser: Parser, treebank: list[Sentence], max_tokens: int) -> None:
    parser = Parser(parser.backend, parser.decoder, ParsingSettings(max_tokens=max_tokens))
    jobs = [treebank[i : i + 9] for i in range(0, len(treebank), 3)]
    alone = [[parsed.as_text(scores=True) for parsed in parser.parse(job, probabilities=True)] for job in jobs]
    with ThreadPoolExecutor(6) as threads:
        together = list(threads.map(lambda job: parser.parse(job, probabilities=True), jobs))
    assert [[parsed.as_text(scores=True) for parsed in found] for found in together] == alone


def test_torch_stays_behind_the_backend() -> None:
    code = "import sys, arbora.model.parser, arbora.model.storage.settings; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
