"""The bundled treebank is what its generator writes, and is what its docstring says."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from arbora.data.conll import Sentence, read_conll
from arbora.decoders import HillClimbing
from arbora.evaluation import non_projective_arcs
from arbora.evaluation.saved import load

EXAMPLES = Path(__file__).parent.parent / "examples"
SIZES = {"train": 2000, "dev": 300, "test": 300}


@pytest.fixture(scope="module")
def splits() -> dict[str, list[Sentence]]:
    return {
        split: list(read_conll(EXAMPLES / "treebank" / f"{split}.conllu", format="conllu", single_root=True))
        for split in SIZES
    }


def test_the_generator_writes_the_files_byte_for_byte(tmp_path: Path) -> None:
    subprocess.run([sys.executable, EXAMPLES / "generate.py", "--output", tmp_path], check=True)
    for split in SIZES:
        written = (tmp_path / f"{split}.conllu").read_bytes()
        assert written == (EXAMPLES / "treebank" / f"{split}.conllu").read_bytes()


def test_sizes_and_lengths(splits: dict[str, list[Sentence]]) -> None:
    assert {split: len(sentences) for split, sentences in splits.items()} == SIZES
    assert all(3 <= len(sentence.form) <= 30 for sentences in splits.values() for sentence in sentences)
    assert sum(file.stat().st_size for file in (EXAMPLES / "treebank").iterdir()) < 2_000_000


def test_every_split_has_non_projective_sentences(splits: dict[str, list[Sentence]]) -> None:
    for sentences in splits.values():
        crossing = [
            non_projective_arcs(np.array(sentence.head), np.array([len(sentence.head)])).any() for sentence in sentences
        ]
        assert 0.1 <= np.mean(crossing) <= 0.25


def test_function_words_and_punctuation_have_no_modifiers(splits: dict[str, list[Sentence]]) -> None:
    leaves = {"case", "cc", "mark", "det", "punct", "aux", "aux:pass", "cop"}
    for sentence in splits["train"]:
        assert not leaves & {sentence.deprel[head - 1] for head in sentence.head if head}, sentence.where()


def test_words_unseen_in_training(splits: dict[str, list[Sentence]]) -> None:
    known = {form.lower() for sentence in splits["train"] for form in sentence.form}
    for split in ("dev", "test"):
        forms = [form.lower() for sentence in splits[split] for form in sentence.form]
        assert 0.06 <= np.mean([form not in known for form in forms]) <= 0.1


def test_no_sentence_occurs_twice(splits: dict[str, list[Sentence]]) -> None:
    sentences = [tuple(sentence.form) for part in splits.values() for sentence in part]
    assert len(set(sentences)) == len(sentences)


def test_a_model_of_ones_own_learns_through_hill_climbing_and_its_scores_can_be_compared(tmp_path: Path) -> None:
    command = [sys.executable, EXAMPLES / "own_model.py", EXAMPLES / "treebank", "-o", tmp_path / "scores"]
    run = subprocess.run([*command, "--sentences", "60", "--epochs", "4"], capture_output=True, text=True, check=True)
    losses = [float(line.split()[3]) for line in run.stdout.splitlines() if line.startswith("epoch")]
    assert losses[-1] < 0.9 * losses[0]
    scored = load(tmp_path / "scores")
    dev = list(read_conll(EXAMPLES / "treebank" / "dev.conllu"))[:60]
    assert [sentence.form for sentence in scored.sentences] == [sentence.form for sentence in dev]
    assert [sentence.head for sentence in scored.sentences] == [sentence.head for sentence in dev]
    (parts,) = scored.batches
    assert parts.kinds == ("sibling",)
    uas = float(run.stdout.partition("HillClimbing: UAS ")[2].partition(",")[0])
    trees = HillClimbing(restarts=4)(parts)
    right = [list(heads[1 : len(s) + 1]) for heads, s in zip(trees.heads, dev)]
    same = sum(a == b for found, s in zip(right, dev) for a, b in zip(found, s.head))
    assert uas == pytest.approx(100 * same / sum(map(len, dev)), abs=0.01)
