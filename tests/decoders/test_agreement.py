"""All decoders on the same scores: a certificate means that nobody scores higher, and a bound holds for everybody.

Scores lean towards the gold trees of treebanks, so that lengths, crossing arcs and the shape of trees are real ones.
"""

from pathlib import Path

import numpy as np
import pytest
from treebanks import development_parts

from arbora.data.conll import read_conll
from arbora.decoders import MST, Eisner, Greedy, HillClimbing, Parts, Projective, Trees, VineCascade
from arbora.decoders.dual.ad3 import AD3
from arbora.decoders.dual.branch_and_bound import BranchAndBound
from arbora.decoders.dual.subgradient import Subgradient

ROOT = Path(__file__).parents[2]
FILES = [ROOT / "examples" / "treebank" / "dev.conllu"]
FILES += development_parts()

ORDERS: dict[str, tuple[str, ...]] = {
    "arcs": (),
    "second": ("grandparent", "sibling"),
    "third": ("grandparent", "sibling", "grand_sibling", "tri_sibling"),
    "all": ("grandparent", "sibling", "any_sibling", "head_bigram", "grand_sibling", "tri_sibling"),
}
PROJECTIVE_ORDERS: dict[str, tuple[str, ...]] = {
    "arcs": (),
    "siblings": ("sibling",),
    "second": ("grandparent", "sibling"),
    "third": ("grandparent", "sibling", "grand_sibling"),
}
DECODERS = {
    "mst": MST(),
    "greedy": Greedy(),
    "hill-climbing": HillClimbing(patience=20),
    "ad3": AD3(),
    "few iterations": AD3(max_iterations=5),
    "all arcs kept": AD3(drop_arcs=False, max_iterations=100),
    "subgradient": Subgradient(max_iterations=50),
    "branch and bound": BranchAndBound(max_nodes=20),
}
PROJECTIVE_DECODERS = {
    "projective": Projective(),
    "cascade": VineCascade(),
    "all sentences": VineCascade(few=0),
    "sharp": VineCascade(few=0, band=2, vine_alpha=0.9, first_alpha=0.9, second_alpha=0.9),
    "blunt": VineCascade(few=0, vine_alpha=-1.0, first_alpha=0.0, second_alpha=0.0),
}


def leaning(path: Path, kinds: tuple[str, ...], sentences: int = 40, most: int = 30, heads: int = 5) -> Parts:
    """Scores of some sentences, higher for gold arcs and parts of gold trees, and a few candidate heads per word."""
    trees = [sentence.head for sentence in read_conll(path) if len(sentence) <= most][::7][:sentences]
    rng = np.random.default_rng(0)
    size = max(map(len, trees)) + 1
    gold = np.full((len(trees), size), -1)
    for b, tree in enumerate(trees):
        gold[b, 1 : len(tree) + 1] = tree
    arc = 1.5 * rng.normal(size=(len(trees), size, size))
    b, m = np.nonzero(gold >= 0)
    arc[b, m, gold[b, m]] += 4
    lengths = (gold >= 0).sum(1)
    beyond = np.arange(size) > lengths[:, None]
    arc[np.broadcast_to(beyond[:, None], arc.shape)] = -np.inf
    arc[:, np.arange(size), np.arange(size)] = -np.inf
    mask = arc >= np.sort(arc, axis=2)[:, :, -heads, None]
    mask[b, m, gold[b, m]] = True
    mask[b, m, Eisner()(Parts.from_dense(arc, lengths)).heads[b, m]] = True  # a tree for projective decoders
    parts = Parts.from_dense(arc, lengths, mask)
    scores = {kind: rng.normal(0, 0.5, parts.part_offsets(kind)[-1]).astype(np.float32) for kind in kinds}
    parts = parts.with_scores(**scores)
    for kind, entries in parts.active(gold).items():
        if kind != "arc":
            scores[kind][entries] += 0.5
    return parts.with_scores(**scores)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_nobody_scores_higher(path, order):
    parts = leaning(path, ORDERS[order])
    found: dict[str, Trees] = {name: decoder(parts) for name, decoder in DECODERS.items()}
    score = np.stack([trees.score for trees in found.values()])
    best = score.max(0)
    slack = 2e-6 * (1 + np.abs(best))
    for name, trees in found.items():
        np.testing.assert_allclose(trees.score, parts.score(trees.heads), err_msg=name)
        assert (best <= trees.score + slack)[trees.certified].all(), f"{name} certified a tree that is not the best"
        if trees.bound is not None:
            assert (best <= trees.bound + slack).all(), f"{name} has a bound below the score of a tree"
    proved = found["branch and bound"].certified
    assert proved.mean() > 0.9
    assert (found["branch and bound"].score + slack >= best)[proved].all()
    assert (found["hill-climbing"].score + slack >= best).mean() > 0.9


@pytest.mark.parametrize("order", PROJECTIVE_ORDERS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_no_projective_tree_scores_higher(path, order):
    """Certificates of projective decoders refer to projective trees."""
    parts = leaning(path, PROJECTIVE_ORDERS[order], heads=10)
    found = {name: decoder(parts) for name, decoder in PROJECTIVE_DECODERS.items()}
    best = found["projective"].score
    slack = 2e-6 * (1 + np.abs(best))
    for name, trees in found.items():
        np.testing.assert_allclose(trees.score, parts.score(trees.heads), err_msg=name)
        assert (trees.score <= best + slack).all(), name
        assert (best <= trees.score + slack)[trees.certified].all(), f"{name} certified a tree that is not the best"
        assert (best <= trees.bound + slack).all(), f"{name} has a bound below the score of a tree"
    assert (found["cascade"].score + slack >= best).mean() > 0.8
    if order == "arcs":
        assert found["blunt"].certified.mean() > 0.5
