import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from parsing import batch_parser, parse

from arbora.data.batch import batch_of
from arbora.data.conll import Sentence, Unparsed, read_conll
from arbora.decoders import MST, Decoder, Parts, Trees
from arbora.decoders.marginals import arc_marginals
from arbora.model import network
from arbora.model.inference import long_sentences, stream
from arbora.model.inference.batch_parser import ParsingSettings
from arbora.model.inference.results import ParsedSentence
from arbora.model.inference.stream import parse_directly, parse_windows
from arbora.model.loading import load_network
from arbora.model.network import Network
from arbora.model.scorers import biaffine
from arbora.model.tensors import to_tensors

EXAMPLES = Path(__file__).parents[3] / "examples" / "treebank"


@pytest.fixture
def parser(checkpoint: Path) -> Network:
    return load_network(checkpoint)


@pytest.fixture(scope="module")
def treebank() -> list[Sentence]:
    return list(read_conll(EXAMPLES / "dev.conllu"))[:80]


def spoil(parser: Network, word: str) -> None:
    """Make all scores of sentences with a word NaN."""
    table = parser.encoder.input.columns["words"].weight  # type: ignore[union-attr, index]
    table.data[parser.vocabulary.index["words"][word]] = torch.nan


@dataclass(frozen=True)
class Slow(Decoder):
    """MST that takes its time, now more and now less."""

    single_root: bool = True

    def decode(self, parts: Parts) -> Trees:
        time.sleep(random.random() / 50)
        return MST()(parts)


def test_overlap_changes_nothing(parser: Network, treebank: list[Sentence]) -> None:
    settings = {"max_tokens": 100, "probabilities": True}
    direct = [entry for window in parse_directly(batch_parser(parser, **settings), treebank) for entry in window]
    parser.decoder = Slow()
    overlapped = [entry for window in parse_windows(batch_parser(parser, **settings), treebank) for entry in window]
    assert [entry.sentence for entry in overlapped if isinstance(entry, ParsedSentence)] == treebank
    assert [entry.text for entry in overlapped] == [entry.text for entry in direct]


def test_a_stream_can_go_on_between_windows(
    parser: Network, treebank: list[Sentence], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "WINDOW", 3)
    settings = {"max_tokens": 60, "probabilities": True}
    windows = list(parse_windows(batch_parser(parser, **settings), treebank))
    assert len(windows) > 3
    done = len(windows[0]) + len(windows[1])
    rest = list(parse_windows(batch_parser(parser, **settings), treebank[done:]))
    texts = [
        [entry.as_text(scores=True) for entry in window if isinstance(entry, ParsedSentence)] for window in windows
    ]
    assert [[e.as_text(scores=True) for e in window if isinstance(e, ParsedSentence)] for window in rest] == texts[2:]


def test_what_is_no_sentence_stays_in_its_place(parser: Network, treebank: list[Sentence]) -> None:
    bad = Unparsed(["x"], "x", 1, ValueError("x"))
    (found,) = parse_windows(batch_parser(parser), [bad, treebank[0], bad, bad, treebank[1], bad])
    assert [entry is bad for entry in found] == [True, False, True, True, False, True]
    assert list(parse_windows(batch_parser(parser), [bad])) == [[bad]]
    assert list(parse_windows(batch_parser(parser), [])) == []


def test_a_bad_sentence_takes_no_other_with_it(parser: Network, treebank: list[Sentence]) -> None:
    expected = [entry.text for entry in parse(parser, treebank)]
    word = next(form for form in treebank[7].form if form.lower() in parser.vocabulary.words).lower()
    spoil(parser, word)
    found = [entry for window in parse_windows(batch_parser(parser), treebank) for entry in window]
    bad = [i for i, sentence in enumerate(treebank) if word in map(str.lower, sentence.form)]
    assert 7 in bad
    assert len(bad) < len(treebank)
    assert [i for i, entry in enumerate(found) if isinstance(entry, Unparsed)] == bad
    for i, entry in enumerate(found):
        if isinstance(entry, Unparsed):
            assert str(entry.error).startswith(f"{treebank[i].where()}: ")
            assert "nan" in str(entry.error)
            assert entry.lines == treebank[i].lines
        else:
            assert entry.text == expected[i]


@dataclass(frozen=True)
class Fails(Decoder):
    """MST that does not like sentences of some length."""

    length: int = 0
    single_root: bool = True

    def decode(self, parts: Parts) -> Trees:
        if self.length in parts.lengths:
            raise IndexError("a bug")
        return MST()(parts)


def test_a_decoder_that_fails(parser: Network, treebank: list[Sentence]) -> None:
    parser.decoder = Fails(len(treebank[3]))
    found = [entry for window in parse_windows(batch_parser(parser), treebank) for entry in window]
    assert [isinstance(entry, Unparsed) for entry in found] == [len(s) == len(treebank[3]) for s in treebank]
    with pytest.raises(ValueError, match=r"dev.conllu:\d+: IndexError: a bug"):
        list(parse(parser, treebank))


def test_errors_of_reading_come_behind_what_was_read(parser: Network, treebank: list[Sentence]) -> None:
    def broken() -> Iterator[Sentence]:
        yield from treebank
        raise OSError("unplugged")

    done: list[ParsedSentence | Unparsed] = []
    with pytest.raises(OSError, match="unplugged"):
        done.extend(
            entry for window in parse_windows(batch_parser(parser, max_tokens=20), broken()) for entry in window
        )
    assert len(done) == len(treebank)


def test_a_stream_that_is_left_leaves_no_threads(parser: Network, treebank: list[Sentence]) -> None:
    def endless() -> Iterator[Sentence]:
        while True:
            yield from treebank

    before = set(threading.enumerate())  # a service of another test may be running
    left = parse(parser, endless(), max_tokens=60)
    next(left)
    assert any(thread.name.startswith("arbora") for thread in set(threading.enumerate()) - before)
    left.close()  # type: ignore[attr-defined]
    for thread in set(threading.enumerate()) - before:
        thread.join(60)  # on a busy machine, what it does may outlast the stream
        assert not thread.is_alive()


def test_probabilities_are_those_of_the_arcs_and_labels(parser: Network, treebank: list[Sentence]) -> None:
    for single_root in (True, False):
        parser.decoder = MST(single_root=single_root)
        for entry in parse(parser, treebank[:20], probabilities=True):
            n = len(entry.sentence)
            batch = to_tensors(batch_of([entry.sentence], parser.vocabulary))
            with torch.no_grad():
                vectors, arc = parser(batch)
                heads = torch.tensor([[-1, *entry.heads.tolist()]])
                scores = parser.label(vectors, heads.clamp(min=0))[0, 1:]
            marginals = arc_marginals(arc.numpy(), [n], single_root)[0]
            assert entry.arc_probability is not None
            assert entry.label_probability is not None
            np.testing.assert_allclose(entry.arc_probability, marginals[np.arange(1, n + 1), entry.heads], atol=1e-5)
            for m in range(n):
                allowed = parser.vocabulary.allowed_labels[int(entry.heads[m] == 0)]
                chances = scores[m, torch.from_numpy(allowed)].double().softmax(0)
                assert entry.label_probability[m] == pytest.approx(float(chances.max()), abs=1e-5)
            text = entry.text
            assert text.count("|ArcProb=") + text.count("\tArcProb=") == text.count("|LabelProb=") == n


def test_scores_and_probabilities_are_written_once(parser: Network, treebank: list[Sentence]) -> None:
    (first,) = parse(parser, treebank[:1], probabilities=True)
    text = first.as_text(scores=True)
    assert f"# arbora_score = {first.score:.4f}\n# arbora_certified = true\n1\t" in text
    sentence = next(read_conll_text(text))
    (again,) = parse(parser, [sentence], probabilities=True)
    assert again.as_text(scores=True) == text


def read_conll_text(text: str) -> Iterator[Sentence]:
    import io

    return read_conll(io.StringIO(text))


@pytest.mark.parametrize("positions", [5, 12, 4000])
def test_the_light_way_is_first_order_search(
    parser: Network,
    treebank: list[Sentence],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    positions: int,
) -> None:
    expected = list(parse(parser, treebank))
    monkeypatch.setattr(network, "BLOCK_CELLS", 50)  # a few words at a time
    monkeypatch.setattr(network, "BLOCK_POSITIONS", positions)
    monkeypatch.setitem(biaffine.LABELLED, "cpu", 5)
    found = list(parse(parser, treebank, max_length=4, probabilities=True))
    for full, light in zip(expected, found, strict=True):
        assert light.heads.tolist() == full.heads.tolist()
        assert light.labels == full.labels
        assert light.score == pytest.approx(full.score, abs=1e-3)
        assert light.arc_probability is not None
        assert ((light.arc_probability > 0) & (light.arc_probability <= 1)).all()
        assert light.certified == (len(light.sentence) <= 4)
    warned = [record.getMessage() for record in caplog.records]
    assert len(warned) == sum(len(sentence) > 4 for sentence in treebank)
    assert warned[0].startswith("examples") or "dev.conllu:" in warned[0]


def test_few_heads_still_make_a_tree(
    parser: Network, treebank: list[Sentence], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_sentences, "HEADS", 1)
    for single_root in (True, False):
        parser.decoder = MST(single_root=single_root)
        for entry in parse(parser, treebank, max_length=1):
            assert not single_root or (entry.heads == 0).sum() == 1
            for word in range(1, len(entry.heads) + 1):
                for _ in range(len(entry.heads)):
                    word = entry.heads[word - 1] if word else 0
                assert word == 0


def test_the_light_way_in_an_ensemble(
    parser: Network, treebank: list[Sentence], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_sentences, "HEADS", 1)
    found = parse(parser, treebank, gamma=(1000.0,), max_length=1)
    assert [entry.heads.tolist() for entry in found] == [sentence.head for sentence in treebank]


def test_a_sentence_of_too_many_words(
    parser: Network, treebank: list[Sentence], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "LONGEST", 10)
    found = [entry for window in parse_windows(batch_parser(parser), treebank) for entry in window]
    assert [isinstance(entry, Unparsed) for entry in found] == [len(sentence) > 10 for sentence in treebank]
    assert any("at most" in str(entry.error) for entry in found if isinstance(entry, Unparsed))


LONG = """
import resource, sys
from arbora.model import load
parser = load(sys.argv[1])
words = [f"w{i % 50}" for i in range(int(sys.argv[2]))]
parser.parse([words[:100] for _ in range(40)], probabilities=True)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
entry = parser.parse(words, probabilities=True)
assert len(entry.heads) == len(words) and (entry.heads == 0).sum() == 1
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_long_sentence_takes_little_memory(checkpoint: Path) -> None:
    command = [sys.executable, "-c", LONG, str(checkpoint), "3000"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    kilobytes = int(run.stdout) * (1 if sys.platform == "linux" else 1 / 1024)
    assert kilobytes < 200_000  # a matrix of float64 would take 72,000, and all parts of second order far more
    assert "3000 words" in run.stderr


@pytest.mark.parametrize("wrong", [{"max_tokens": 0}, {"max_length": -1}])
def test_settings_are_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ParsingSettings(**wrong)  # type: ignore[arg-type]
