"""Columns of parsed sentences: what the input has, and what is predicted."""

from dataclasses import replace
from pathlib import Path

import pytest

from arbora.data.conll import Sentence, read_conll
from arbora.model import Parser, load
from arbora.model.inference.batch_parser import ParsingSettings

FIXTURES = Path(__file__).parents[2] / "fixtures"
TAGS = ("upos", "xpos", "feats", "lemma")


@pytest.fixture
def parser(tagger: Path) -> Parser:
    return load(tagger)


def with_policy(parser: Parser, policy: str) -> Parser:
    parser.settings = ParsingSettings(tags=policy)  # type: ignore[arg-type]
    return parser


def load_with(parser: Parser, known_lemmas: list[str]) -> Parser:
    parser.backend.vocabulary = replace(parser.vocabulary, known_lemmas=known_lemmas)
    return Parser(parser.backend, parser.decoder)


def written(text: str) -> Sentence:
    import io

    return next(iter(read_conll(io.StringIO(text), trees=False)))


def test_missing_tags_are_filled_in_and_others_stay(parser: Parser) -> None:
    words = ["The", "dog", "barked", "."]
    predicted = parser.parse(words)
    assert all("_" not in column for column in (predicted.upos, predicted.xpos, predicted.lemmas))
    sentence = Sentence.from_words(words)
    sentence.upos = ["_", "XX", "_", "_"]
    sentence.feats = ["_", "Odd=Yes", "_", "_"]
    sentence.lemma = ["a", "b", "c", "d"]
    found = parser.parse(sentence)
    assert found.upos == [predicted.upos[0], "XX", *predicted.upos[2:]]
    assert found.xpos == predicted.xpos
    assert found.feats == sentence.feats  # a sentence with features somewhere has them all
    assert found.lemmas == sentence.lemma


def test_tags_are_replaced_or_kept(parser: Parser) -> None:
    sentences = list(read_conll(FIXTURES / "treebank.conllu"))
    words = [Sentence.from_words(sentence.form) for sentence in sentences]
    for sentence, alone in zip(sentences, words):
        kept = with_policy(parser, "keep").parse(sentence)
        assert not kept.tags
        replaced = with_policy(parser, "replace").parse(sentence)
        predicted = parser.parse(alone)
        assert (replaced.upos, replaced.feats, replaced.lemmas) == (predicted.upos, predicted.feats, predicted.lemmas)
        assert (kept.upos, kept.feats, kept.lemmas) == (sentence.upos, sentence.feats, sentence.lemma)


@pytest.mark.parametrize("policy", ["fill", "replace", "keep"])
@pytest.mark.parametrize("file", ["treebank.conllu", "treebank.conllx"])
def test_text_has_the_tags_and_everything_else_of_the_input(parser: Parser, policy: str, file: str) -> None:
    for sentence in read_conll(FIXTURES / file):
        parsed = with_policy(parser, policy).parse(sentence)
        again = written(parsed.text)
        assert (again.upos, again.xpos, again.feats, again.lemma) == (
            parsed.upos,
            parsed.xpos,
            parsed.feats,
            parsed.lemmas,
        )
        assert again.head == parsed.heads.tolist()
        for before, after in zip(sentence.lines, again.lines, strict=True):
            if before.split("\t")[0].isdigit():
                assert before.split("\t")[:2] + before.split("\t")[8:] == after.split("\t")[:2] + after.split("\t")[8:]
            else:
                assert before == after


def test_only_predicted_tags_have_probabilities(parser: Parser) -> None:
    sentence = Sentence.from_words(["The", "dog"])
    sentence.upos = ["DET", "_"]
    first, second = (line.split("\t")[9] for line in parser.parse(sentence, probabilities=True).text.splitlines()[:2])
    assert [entry.partition("=")[0] for entry in second.split("|")] == [
        *("ArcProb", "LabelProb", "UposProb", "XposProb", "FeatsProb", "LemmaProb")
    ]
    assert "UposProb" not in first
    assert "XposProb" in first
    assert "UposProb" not in parser.parse(sentence).text


def test_known_lemmas_take_precedence_over_rules(parser: Parser) -> None:
    sentence = Sentence.from_words(["The", "dog"])
    sentence.upos = ["DET", "NOUN"]
    by_rule = load_with(parser, []).parse(sentence, probabilities=True)
    again = load_with(parser, ["The\tDET\tthe-known", f"dog\tNOUN\t{by_rule.lemmas[1]}"])
    found = again.parse(sentence, probabilities=True)
    assert found.lemmas == ["the-known", by_rule.lemmas[1]]
    first, second = found.text.splitlines()[:2]
    assert "LemmaProb" not in first  # the probability of another lemma
    assert "LemmaProb" in second
    sentence.lemma = ["_", "given"]
    assert again.parse(sentence).lemmas == ["the-known", "given"]


def test_a_token_list_of_conllu(parser: Parser) -> None:
    pytest.importorskip("conllu")
    parsed = parser.parse(["The", "dog", "barked"])
    tokens = parsed.to_conllu()
    assert [token["form"] for token in tokens] == ["The", "dog", "barked"]
    assert [token["upos"] for token in tokens] == parsed.upos
    assert [token["lemma"] for token in tokens] == parsed.lemmas
    assert [token["head"] for token in tokens] == parsed.heads.tolist()
    assert parser.parse(tokens).heads.tolist() == parsed.heads.tolist()
    with pytest.raises(ValueError, match="CoNLL-X"):
        parser.parse(next(iter(read_conll(FIXTURES / "treebank.conllx", format="conllx")))).to_conllu()


def test_an_unknown_policy_is_named() -> None:
    with pytest.raises(ValueError, match="tags must be one of fill, replace, keep, got 'drop'"):
        ParsingSettings(tags="drop")  # type: ignore[arg-type]
