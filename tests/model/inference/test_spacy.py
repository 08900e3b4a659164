from pathlib import Path

import pytest

spacy = pytest.importorskip("spacy", reason='needs pip install "arbora[spacy]"')

from spacy.tokens import Doc  # noqa: E402

from arbora.data.conll import Sentence  # noqa: E402
from arbora.model import Parser, load  # noqa: E402
from arbora.model.inference.spacy import SpacyParser, annotate, sentences_of_doc  # noqa: E402


@pytest.fixture
def nlp(checkpoint: Path):  # type: ignore[no-untyped-def]
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("arbora", config={"model": str(checkpoint)})
    return nlp


@pytest.fixture(scope="module")
def parser(checkpoint: Path) -> Parser:
    return load(checkpoint)


def trees(doc: Doc) -> list[list[tuple[int, str]]]:
    """Head and label of each word, sentence by sentence, as in CoNLL-U."""
    return [
        [
            (0 if token.head == token else token.head.i - sentence.start + 1, token.dep_.replace("ROOT", "root"))
            for token in sentence
        ]
        for sentence in doc.sents
    ]


def test_heads_and_labels_are_those_of_the_parser(nlp, parser: Parser) -> None:  # type: ignore[no-untyped-def]
    doc = nlp("The dog barked. It rained all night, and nobody slept.")
    sentences = [[token.text for token in sentence] for sentence in doc.sents]
    assert [words[0] for words in sentences] == ["The", "It"]
    expected = [list(zip(parsed.heads.tolist(), parsed.labels)) for parsed in parser.parse(sentences)]
    assert trees(doc) == expected
    assert doc.has_annotation("DEP")
    assert [token.dep_ for token in doc if token.head == token] == ["ROOT", "ROOT"]


def test_batches_find_the_same(nlp) -> None:  # type: ignore[no-untyped-def]
    texts = ["The dog barked.", "", "  ", "It rained. A cat slept.", "Yes"] * 5
    alone = [nlp(text) for text in texts]
    together = list(nlp.pipe(texts, batch_size=4))
    assert [doc.text for doc in together] == texts
    assert [trees(doc) for doc in together if len(doc)] == [trees(doc) for doc in alone if len(doc)]


def test_white_space_is_left_to_the_word_before(nlp) -> None:  # type: ignore[no-untyped-def]
    doc = nlp("\n\nThe  dog \t barked.\n\n")
    spaces = [token for token in doc if token.is_space]
    assert spaces
    assert all(not token.head.is_space for token in spaces)
    first, *others = spaces
    assert first.head.text == "The"
    assert all(token.head.i < token.i for token in others)
    words = [token for token in doc if not token.is_space]
    assert all(not token.head.is_space for token in words)


def test_sentences_are_those_of_the_tree_unless_known_before(parser: Parser) -> None:
    nlp = spacy.blank("en")
    doc = SpacyParser(parser)(nlp("The dog barked. It rained."))
    assert len(list(doc.sents)) == 1
    assert sum(token.head == token for token in doc) == 1


def test_tags_of_the_document_are_read(parser: Parser) -> None:
    doc = Doc(
        spacy.blank("en").vocab,
        words=["Dogs", "bark"],
        pos=["NOUN", "VERB"],
        tags=["NNS", "VBP"],
        lemmas=["dog", "bark"],
        morphs=["Number=Plur", ""],
    )
    (parsed,) = parser.parse(sentences_of_doc(doc))
    sentence = parsed.sentence
    assert (sentence.upos, sentence.xpos, sentence.lemma) == (["NOUN", "VERB"], ["NNS", "VBP"], ["dog", "bark"])
    assert sentence.feats == ["Number=Plur", "_"]
    assert sentence.lines[0] == "1\tDogs\tdog\tNOUN\tNNS\tNumber=Plur\t_\t_\t_\t_"
    tagged = Sentence.from_words(["Dogs", "bark"])
    tagged.upos = ["NOUN", "VERB"]
    assert parsed.score == parser.parse(tagged).score
    for documents in (doc, [doc, doc]):
        with pytest.raises(TypeError, match=r'call nlp.add_pipe\("arbora"'):
            parser.parse(documents)  # type: ignore[call-overload]


def test_a_document_keeps_what_else_it_has(parser: Parser) -> None:
    doc = Doc(spacy.blank("en").vocab, words=["A", "dog"], pos=["DET", "NOUN"], ents=["O", "B-PET"])
    annotate(doc, parser.parse(sentences_of_doc(doc)))
    assert [token.pos_ for token in doc] == ["DET", "NOUN"]
    assert [entity.text for entity in doc.ents] == ["dog"]


def test_the_factory_is_an_entry_point() -> None:
    from importlib.metadata import entry_points

    found = entry_points(group="spacy_factories", name="arbora")
    if not found:
        pytest.skip("arbora was installed before it had this entry point: install it again")
    assert {entry.value for entry in found} == {"arbora.model.inference.spacy:create"}


def test_a_pipeline_is_made_again_from_its_configuration(nlp) -> None:  # type: ignore[no-untyped-def]
    again = spacy.blank("en").from_config(nlp.config)
    assert trees(again("A dog barked.")) == trees(nlp("A dog barked."))


def test_a_missing_model_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.ckpt"):
        spacy.blank("en").add_pipe("arbora", config={"model": "absent.ckpt"})


def test_tags_and_lemmas_are_set_where_there_are_none(tagger: Path) -> None:
    parser = load(tagger)
    words = ["The", "dogs", "barked", "."]
    parsed = parser.parse(words)
    doc = Doc(spacy.blank("en").vocab, words, pos=["DET", "", "", ""], lemmas=["", "", "bark", ""])
    annotate(doc, [parser.parse(sentence) for sentence in sentences_of_doc(doc)])
    assert [token.pos_ for token in doc] == ["DET", *parsed.upos[1:]]
    assert [token.tag_ for token in doc] == parsed.xpos
    assert [str(token.morph) or "_" for token in doc] == parsed.feats
    lemmas = ["the", parsed.lemmas[1], "bark", parsed.lemmas[3]]  # the first is known with the given tag
    assert [token.lemma_ for token in doc] == lemmas
