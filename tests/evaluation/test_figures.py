"""Figures against counts by hand, against the official evaluation, and against what must always hold."""

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from udtools import udeval

from arbora.data.conll import ConllError, Sentence, read_conll
from arbora.evaluation import Evaluation, evaluate_files, non_projective_arcs

TREEBANK = Path(__file__).parents[2] / "examples" / "treebank"
LABELS = ["nsubj", "nsubj:pass", "acl", "acl:relcl", "case", "punct", "obj", "aux:pass", "det"]


def sentence(forms: str, heads: Sequence[int], labels: str, upos: str = "") -> Sentence:
    form = forms.split()
    blank = ["_"] * len(form)
    return Sentence(
        form=form,
        lemma=blank,
        upos=upos.split() or blank,
        xpos=blank,
        feats=blank,
        head=list(heads),
        deprel=labels.split(),
        lines=[],
        word_line=list(range(len(form))),
        source="gold.conllu",
        line_number=1,
    )


def random_tree(generator: random.Random, n: int) -> list[int]:
    """A tree with one root: words join in random order, each below one that has joined before."""
    order = generator.sample(range(1, n + 1), n)
    heads = [0] * n
    for i, word in enumerate(order[1:], 1):
        heads[word - 1] = generator.choice(order[:i])
    return heads


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Sentence, list[int], list[str]]:
    """A sentence of invented words with a gold tree, and another tree that shares some of its arcs."""
    n = draw(st.integers(1, 9))
    generator = random.Random(draw(st.integers(0, 1 << 32)))
    labels = [generator.choice(LABELS) for _ in range(n)]
    gold = sentence(
        " ".join(generator.choice(["da", "x2", ",", "--"]) for _ in range(n)),
        random_tree(generator, n),
        " ".join(labels),
        " ".join(generator.choice(["NOUN", "PUNCT"]) for _ in range(n)),
    )
    heads = draw(st.sampled_from([gold.head, random_tree(generator, n)]))
    return gold, heads, [generator.choice([label, generator.choice(LABELS)]) for label in labels]


def evaluation_of(items: Sequence[tuple[Sentence, list[int], list[str]]]) -> Evaluation:
    evaluation = Evaluation()
    for gold, heads, labels in items:
        evaluation.add(gold, heads, labels)
    return evaluation


def test_figures_counted_by_hand() -> None:
    gold = sentence(
        "dogs that bark , sleep +", [5, 3, 1, 5, 0, 5], "nsubj nsubj acl:relcl punct root dep", "N P V PUNCT V S"
    )
    # wrong: "dogs" (its arc with "bark" is turned round), "bark" (head and so all else), label subtypes of "that"
    figures = evaluation_of(
        [(gold, [3, 3, 5, 5, 0, 1], ["nsubj", "nsubj:pass", "acl", "punct", "root", "dep"])]
    ).figures()

    assert (figures["sentences"], figures["words"]) == (1, 6)
    assert figures["uas"] == figures["las"] == pytest.approx(100 * 3 / 6)
    assert figures["las_full"] == pytest.approx(100 * 2 / 6)
    assert figures["clas"] == pytest.approx(100 * 2 / 5)  # "that" and "sleep" of all but the comma
    assert figures["undirected_uas"] == pytest.approx(100 * 4 / 6)
    assert figures["root"] == 100
    assert figures["tree_unlabelled"] == figures["tree_labelled"] == 0
    assert figures["without_punct_upos"]["words"] == 5
    assert figures["without_punct_upos"]["uas"] == pytest.approx(100 * 2 / 5)
    assert figures["without_punct_form"]["words"] == 4  # nor is "+" a word
    assert figures["without_punct_form"]["las_full"] == pytest.approx(100 * 1 / 4)
    assert figures["sentence_length"]["1-10"]["words"] == 6
    assert {bucket: scores["words"] for bucket, scores in figures["arc_length"].items() if scores["words"]} == {
        "root": 1,
        "1": 3,
        "2": 1,
        "3-6": 1,
    }
    assert figures["arc_length"]["2"]["uas"] == 0


def test_non_projective_arcs_are_found_and_right() -> None:
    gold = sentence("what do you think he saw", [6, 4, 4, 0, 6, 4], "obj aux nsubj root nsubj ccomp")
    # 1 <- 6 passes over 2, 3, 4. The system misses it, and has 5 <- 3 over 4 instead.
    missed = evaluation_of([(gold, [4, 4, 4, 0, 3, 4], gold.deprel)]).figures()["non_projective"]
    assert missed == {"gold": 1, "system": 1, "precision": 0, "recall": 0, "f1": 0}
    exact = evaluation_of([(gold, gold.head, gold.deprel)]).figures()["non_projective"]
    assert exact == {"gold": 1, "system": 1, "precision": 100, "recall": 100, "f1": 100}


def test_an_arc_over_a_distant_descendant_is_projective() -> None:
    # 3 hangs on 5, and 5 on 1: so 3 descends from 1, and only the arc from 5 to 3 passes over a stranger, 4.
    heads = np.array([0, 1, 5, 1, 1])
    assert non_projective_arcs(heads, np.array([5])).tolist() == [False, False, True, False, False]


@given(st.lists(st.integers(1, 8), min_size=1, max_size=5), st.integers(0, 1 << 32))
def test_non_projective_arcs_by_the_definition(lengths: list[int], seed: int) -> None:
    generator = random.Random(seed)
    trees = [random_tree(generator, n) for n in lengths]
    expected = []
    for tree in trees:
        ancestors: dict[int, set[int]] = {}
        for word in range(1, len(tree) + 1):
            path, head = {word, 0}, word
            while head := tree[head - 1]:
                path.add(head)
            ancestors[word] = path
        for modifier, head in enumerate(tree, 1):
            between = range(min(head, modifier) + 1, max(head, modifier))
            expected.append(any(head not in ancestors[word] for word in between))
    found = non_projective_arcs(np.concatenate([np.array(tree) for tree in trees]), np.array(lengths))
    assert found.tolist() == expected


def test_a_cycle_is_refused() -> None:
    with pytest.raises(ValueError, match="cycle"):
        non_projective_arcs(np.array([0, 3, 2]), np.array([3]))


@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_the_official_evaluation(tmp_path: Path, seed: int) -> None:
    generator = random.Random(seed)
    gold, system = TREEBANK / "dev.conllu", tmp_path / "system.conllu"
    with system.open("w", encoding="utf-8") as stream:
        for item in read_conll(gold):
            n = len(item.form)
            heads = item.head if generator.random() < 0.5 else random_tree(generator, n)
            labels = [generator.choice([label, label, generator.choice(LABELS)]) for label in item.deprel]
            stream.write(item.with_tree(heads, labels))
    figures = evaluate_files(gold, system).figures()
    official = udeval.evaluate(udeval.load_conllu_file(gold), udeval.load_conllu_file(system))
    for ours, theirs in (("uas", "UAS"), ("las", "LAS"), ("clas", "CLAS")):
        assert figures[ours] == pytest.approx(100 * official[theirs].f1, abs=1e-9)
    assert figures["las_full"] < figures["las"]


@given(st.lists(pairs(), min_size=1, max_size=6))
def test_gold_against_itself_is_perfect(items: list[tuple[Sentence, list[int], list[str]]]) -> None:
    figures = evaluation_of([(gold, gold.head, gold.deprel) for gold, _, _ in items]).figures()

    def check(values: dict) -> None:
        for name, value in values.items():
            if isinstance(value, dict):
                check(value)
            elif name not in ("sentences", "words", "gold", "system"):
                assert value in (100, None), name

    check(figures)
    assert figures["uas"] == figures["tree_labelled"] == figures["root"] == 100


@given(st.lists(pairs(), min_size=1, max_size=6))
def test_what_bounds_what(items: list[tuple[Sentence, list[int], list[str]]]) -> None:
    figures = evaluation_of(items).figures()
    assert figures["las_full"] <= figures["las"] <= figures["uas"] <= figures["undirected_uas"]
    assert figures["tree_labelled"] <= figures["tree_unlabelled"]
    for buckets in (figures["sentence_length"], figures["arc_length"]):
        assert sum(scores["words"] for scores in buckets.values()) == figures["words"]


@given(st.lists(pairs(), min_size=1, max_size=6), st.integers(0, 6))
def test_evaluations_add_up(items: list[tuple[Sentence, list[int], list[str]]], cut: int) -> None:
    together = evaluation_of(items)
    parts = evaluation_of(items[:cut]) + evaluation_of(items[cut:])
    assert parts.figures() == together.figures()
    assert Evaluation(together.counts).figures() == together.figures()


def test_more_sentences_than_a_block() -> None:
    gold = sentence("a b", [2, 0], "det root")
    figures = evaluation_of([(gold, [2, 0], ["det", "root"]), (gold, [0, 1], ["det", "root"])] * 700).figures()
    assert (figures["sentences"], figures["words"], figures["uas"], figures["undirected_uas"]) == (1400, 2800, 50, 75)


def test_nothing_to_count() -> None:
    figures = Evaluation().figures()
    assert figures["words"] == 0
    assert figures["uas"] is None


@pytest.mark.parametrize(("heads", "labels"), [([0], ["root"]), ([0, 1], ["root"]), ([0, 3], ["root", "x"])])
def test_a_tree_of_other_size_is_refused(heads: list[int], labels: list[str]) -> None:
    with pytest.raises(ValueError, match=r"gold\.conllu:1"):
        Evaluation().add(sentence("a b", [0, 1], "root x"), heads, labels)


LINE = "{}\t{}\t_\t_\t_\t_\t{}\tdep\t_\t_\n"
ONE, TWO = LINE.format(1, "da", 0), LINE.format(2, "do", 1)


@pytest.mark.parametrize(
    ("gold", "system", "message"),
    [
        (ONE + TWO, ONE + LINE.format(2, "du", 1), r"gold\S*:2 and \S*system\S*:2: word 2 is 'do' and 'du'"),
        (ONE + TWO, ONE, r"gold\S*:1 and \S*system\S*:1: 2 words and 1 words"),
        (ONE + "\n" + ONE, ONE, r"gold\S*:3: \S*system\S* ends before this sentence, after 1"),
        (ONE, ONE + "\n" + ONE, r"system\S*:3: \S*gold\S* ends before this sentence, after 1"),
    ],
)
def test_files_of_other_words_are_refused(tmp_path: Path, gold: str, system: str, message: str) -> None:
    (tmp_path / "gold.conllu").write_text(gold + "\n")
    (tmp_path / "system.conllu").write_text(system + "\n")
    with pytest.raises(ConllError, match=message) as error:
        evaluate_files(tmp_path / "gold.conllu", tmp_path / "system.conllu")
    assert "\n" not in str(error.value)
