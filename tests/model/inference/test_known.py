"""Parsing when something is known, or wanted: given heads and labels, forbidden arcs, several trees, unique labels."""

from collections import Counter

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from parsing import batch_parser, parse

from arbora.data.batch import batch_of
from arbora.data.conll import Sentence
from arbora.data.vocabulary import Vocabulary
from arbora.decoders import AD3, MST, Decoder, Eisner, HillClimbing
from arbora.decoders.marginals import arc_marginals
from arbora.model.encoders.embeddings import Embeddings
from arbora.model.encoders.sru import SRU
from arbora.model.network import Network
from arbora.model.parser import Parser
from arbora.model.pruners.settings import Shared
from arbora.model.scorers.biaffine import Biaffine
from arbora.model.scorers.multilinear import Multilinear

WORDS = "The dog that barked saw a cat .".split()


def network(vocabulary: Vocabulary, decoder: Decoder, parts: bool, max_heads: int = 2) -> Network:
    pl.seed_everything(0, verbose=False)
    kinds = ("grandparent", "sibling", "tri_sibling")
    found = Network(
        vocabulary,
        SRU(Embeddings(words=8, characters=8, upos=4), size=8, layers=1),
        Biaffine(8, 8),
        parts=Multilinear(kinds, rank=4) if parts else None,
        pruner=Shared(max_heads=max_heads) if parts else None,
        decoder=decoder,
    )
    torch.nn.init.normal_(found.arc.weight)
    torch.nn.init.normal_(found.label.weight)
    return found.eval()


@pytest.fixture(scope="module")
def parser(vocabulary: Vocabulary) -> Parser:
    model = network(vocabulary, MST(), parts=False)
    return Parser(model, model.decoder)


def with_half_of_its_heads(sentence: Sentence, seed: int) -> Sentence:
    known = np.random.default_rng(seed).random(len(sentence)) < 0.5
    head = [h if k else -1 for h, k in zip(sentence.head, known)]
    return Sentence(**{name: getattr(sentence, name) for name in Sentence.__dataclass_fields__} | {"head": head})


@pytest.mark.parametrize("decoder", [AD3(), HillClimbing(), MST(), Eisner()], ids=lambda d: type(d).__name__)
def test_known_heads_survive_pruning(vocabulary, sentences, decoder):
    """The pruner leaves two heads per word, and knows nothing of the gold trees."""
    model = network(vocabulary, decoder, parts=not isinstance(decoder, MST | Eisner))
    known = [with_half_of_its_heads(sentence, i) for i, sentence in enumerate(sentences)]
    free = list(parse(model, known))
    for sentence, parsed, other in zip(known, parse(model, known, keep_heads=True), free, strict=True):
        given = [(m, h) for m, h in enumerate(sentence.head) if h >= 0]
        assert all(parsed.heads[m] == h for m, h in given)
        assert parsed.labels != other.labels or not given
        assert (parsed.heads == 0).sum() == 1


def test_nothing_known_changes_nothing(vocabulary, sentences):
    model = network(vocabulary, AD3(), parts=True)
    words = [Sentence.from_words(sentence.form) for sentence in sentences]
    kept = parse(model, words, keep_heads=True)
    for one, other in zip(parse(model, words), kept, strict=True):
        np.testing.assert_array_equal(one.heads, other.heads)
        assert one.certified == other.certified


def test_known_sentences_do_not_change_others_of_the_batch(vocabulary, sentences):
    model = network(vocabulary, AD3(), parts=True)
    words = [Sentence.from_words(sentence.form) for sentence in sentences]
    mixed = [sentences[0], *words[1:]]
    for one, other in zip(
        list(parse(model, words, keep_heads=True))[1:], list(parse(model, mixed, keep_heads=True))[1:], strict=True
    ):
        np.testing.assert_array_equal(one.heads, other.heads)


def test_heads_labels_and_forbidden_arcs(parser: Parser):
    free = parser.parse(WORDS)
    parsed = parser.parse(
        WORDS, heads={3: 8, 8: 1}, labels={3: "obj", 5: "unheard:of"}, forbid=[(2, int(free.heads[1]))]
    )
    assert parsed.heads[2] == 8
    assert parsed.heads[7] == 1
    assert parsed.heads[1] != free.heads[1]
    assert parsed.labels[2] == "obj"
    assert parsed.labels[4] == "unheard:of"
    assert parsed.certified
    assert parsed.score < free.score


def test_the_constraints_of_the_tree_change_nothing(parser: Parser):
    free = parser.parse(WORDS, probabilities=True)
    heads = dict(enumerate(free.heads.tolist(), 1))
    parsed = parser.parse(WORDS, heads=heads, labels=dict(enumerate(free.labels, 1)), probabilities=True)
    np.testing.assert_array_equal(parsed.heads, free.heads)
    assert parsed.labels == free.labels
    assert parsed.score == pytest.approx(free.score)
    np.testing.assert_allclose(parsed.arc_probability, 1.0)
    np.testing.assert_allclose(parsed.label_probability, free.label_probability, rtol=1e-4)


def test_probabilities_are_those_of_trees_that_agree(parser: Parser, vocabulary: Vocabulary):
    """P(arc | known) = P(arc and known) / P(known), where the numerator is the change of the log-partition."""
    parsed = parser.parse(WORDS, heads={2: 5}, probabilities=True)
    arcs = parser.backend.score(batch_of([Sentence.from_words(WORDS)], vocabulary)).arcs().astype(np.float64)
    masked = arcs.copy()
    masked[0, 2] = -200
    masked[0, 2, 5] = 0
    marginals = arc_marginals(masked, [8])[0]
    np.testing.assert_allclose(parsed.arc_probability, marginals[np.arange(1, 9), parsed.heads], atol=1e-6)


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ({"heads": {2: 3, 3: 2}}, "<text>:1: the heads given to words 2, 3 make a cycle"),
        ({"heads": {2: 0, 3: 0}}, "words 2 and 3 both have the required head 0"),
        ({"forbid": [(2, h) for h in range(9)]}, "word 2 has no head left"),
        ({"heads": {9: 1}}, "the sentence has words 1 to 8"),
        ({"labels": {0: "obj"}}, "the sentence has words 1 to 8"),
    ],
)
def test_contradictions_are_refused(parser: Parser, known, reason):
    with pytest.raises(ValueError, match=reason):
        parser.parse(WORDS, **known)


def test_constraints_are_for_one_sentence(parser: Parser):
    with pytest.raises(TypeError, match="for a single sentence"):
        parser.parse([WORDS, WORDS], heads={1: 2})


@pytest.mark.parametrize("parts", [False, True])
def test_several_trees(vocabulary, sentences, parts):
    model = network(vocabulary, AD3() if parts else MST(), parts)
    best = list(parse(model, sentences))
    for parsed, first in zip(parse(model, sentences, k_best=4, probabilities=True), best, strict=True):
        np.testing.assert_array_equal(parsed.heads, first.heads)
        trees = [parsed, *parsed.alternatives]
        assert [tree.rank for tree in trees] == [1, 2, 3, 4]
        assert len({tuple(tree.heads.tolist()) for tree in trees}) == 4
        scores = [tree.score for tree in trees]
        assert scores == sorted(scores, reverse=True)
        assert sum(tree.probability for tree in trees) == pytest.approx(1)
        assert trees[1].probability / trees[0].probability == pytest.approx(np.exp(scores[1] - scores[0]))
        assert trees[1].arc_probability is not None


def test_long_sentences(parser: Parser):
    model = parser.backend
    words = [f"w{i}" for i in range(100)]
    sentence = Sentence.from_words(words)
    sentence.head[:4] = [7, 1, 2, 0]
    sentence.head[50] = 0
    (refused,) = batch_parser_windows(model, sentence)
    assert "words 4 and 51 are both" in str(refused.error) or "no tree" in str(refused.error)
    sentence.head[50] = -1
    (parsed,) = parse(model, [sentence], keep_heads=True, max_length=50, k_best=3)
    assert parsed.heads[:4].tolist() == [7, 1, 2, 0]
    assert (parsed.heads == 0).sum() == 1
    assert [tree.heads[:4].tolist() for tree in parsed.alternatives] == [[7, 1, 2, 0]] * 2


def batch_parser_windows(model, sentence):
    from arbora.model.inference.stream import parse_directly

    return next(parse_directly(batch_parser(model, keep_heads=True, max_length=50), [sentence]))


def test_unique_labels(vocabulary, sentences):
    model = network(vocabulary, MST(), parts=False)
    labels = [label for label in vocabulary.labels if label in vocabulary.inner_labels][:4]
    unique = tuple(label for label in labels if ":" not in label)
    free = list(parse(model, sentences))
    found = list(parse(model, sentences, unique=unique, probabilities=True))

    def repeated(results):
        counts = Counter(
            (i, int(head), label.split(":")[0])
            for i, parsed in enumerate(results)
            for head, label in zip(parsed.heads, parsed.labels)
        )
        return [key for key, count in counts.items() if count > 1 and key[2] in unique]

    assert repeated(free)
    assert not repeated(found)
    for one, other in zip(free, found, strict=True):
        np.testing.assert_array_equal(one.heads, other.heads)
    with pytest.raises(ValueError, match="no label nosuch"):
        list(parse(model, sentences, unique=("nosuch",)))
