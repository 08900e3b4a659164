from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from arbora.data.conll import Sentence, read_conll
from arbora.model import load
from arbora.model.inference.pipeline import Pipeline
from arbora.model.inference.stream import Parsed, Parsing, parse

EXAMPLES = Path(__file__).parents[3] / "examples" / "treebank"


@pytest.fixture(scope="module")
def pipeline(checkpoint: Path) -> Pipeline:
    return Pipeline(load(checkpoint))


@pytest.fixture(scope="module")
def treebank() -> list[Sentence]:
    return list(read_conll(EXAMPLES / "dev.conllu"))[:60]


def plain(parsed: Parsed) -> tuple[list[int], list[str]]:
    return parsed.heads.tolist(), parsed.labels


def test_one_sentence_of_words(pipeline: Pipeline) -> None:
    words = "The dog barked .".split()
    parsed = pipeline(words)
    assert parsed.sentence.form == words
    assert len(parsed.heads) == len(parsed.labels) == 4
    assert parsed.certified is True
    assert isinstance(parsed.score, float)
    assert parsed.arc_probability is None
    assert plain(pipeline(tuple(words))) == plain(pipeline(iter(words))) == plain(parsed)
    assert plain(pipeline.parser(words)) == plain(parsed)
    (same,) = parse(pipeline.parser, [Sentence.from_words(words)])
    assert plain(same) == plain(parsed)
    assert same.score == parsed.score


def test_several_sentences(pipeline: Pipeline) -> None:
    first, second = ["A", "dog"], ["It", "rained", "."]
    found = pipeline([first, second])
    assert [plain(parsed) for parsed in found] == [plain(pipeline(first)), plain(pipeline(second))]
    assert pipeline([]) == []
    assert [parsed.sentence.line_number for parsed in found] == [1, 2]


def test_sentences_and_conllu(pipeline: Pipeline, treebank: list[Sentence]) -> None:
    text = (EXAMPLES / "dev.conllu").read_text(encoding="utf-8")
    expected = list(parse(pipeline.parser, read_conll(EXAMPLES / "dev.conllu")))
    assert [parsed.text for parsed in pipeline(text)] == [parsed.text for parsed in expected]
    assert [plain(parsed) for parsed in pipeline(treebank)] == [plain(parsed) for parsed in expected[: len(treebank)]]
    assert pipeline(treebank[3]).sentence is treebank[3]
    assert pipeline("") == []


def test_probabilities_on_request(pipeline: Pipeline, treebank: list[Sentence]) -> None:
    for parsed in pipeline(treebank[:5], probabilities=True):
        assert parsed.arc_probability is not None
        assert parsed.label_probability is not None
        assert len(parsed.arc_probability) == len(parsed.label_probability) == len(parsed.sentence)


@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        ("The dog barked .", ValueError, "split"),
        ("1\tonly\tthree\n\n", ValueError, "<text>:1: 3 columns"),
        ([[]], ValueError, "at least one word"),
        ([["a"], []], ValueError, "at least one word"),
        (["a", ""], ValueError, "must not be empty"),
        ([["a"], "b"], TypeError, "got str"),
        ([["a"], ["b", 3]], TypeError, "got list"),
        ([None], TypeError, "got NoneType"),
        (7, TypeError, "got int"),
    ],
)
def test_what_is_no_sentence(pipeline: Pipeline, what: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        pipeline(what)


@pytest.mark.parametrize("max_tokens", [20, 4000])
def test_threads_find_the_same(pipeline: Pipeline, treebank: list[Sentence], max_tokens: int) -> None:
    pipeline = Pipeline(pipeline.parser, Parsing(max_tokens=max_tokens))
    jobs = [treebank[i : i + 9] for i in range(0, len(treebank), 3)]
    alone = [[parsed.as_text(scores=True) for parsed in pipeline(job, probabilities=True)] for job in jobs]
    with ThreadPoolExecutor(6) as threads:
        together = list(threads.map(lambda job: pipeline(job, probabilities=True), jobs))
    assert [[parsed.as_text(scores=True) for parsed in found] for found in together] == alone
