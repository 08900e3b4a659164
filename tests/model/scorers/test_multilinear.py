from itertools import combinations

import numpy as np
import pytest
import torch

from arbora.decoders import Parts
from arbora.decoders.kernels import threads
from arbora.decoders.parts.kinds import HIGHER_ORDER
from arbora.decoders.pruning import prune
from arbora.model.scorers import multilinear
from arbora.model.scorers.biaffine import Nodes
from arbora.model.scorers.multilinear import Multilinear, PartScorer

KINDS = tuple(HIGHER_ORDER)

RANK, INPUTS = 5, 7


def scorer_of(kinds: tuple[str, ...]) -> PartScorer:
    torch.manual_seed(0)
    scorer = PartScorer(INPUTS, Multilinear(kinds, RANK, dropout=0)).double()
    for weight in scorer.weight.values():
        torch.nn.init.normal_(weight)
    return scorer


def parts_of(lengths: list[int], max_heads: int = 4) -> Parts:
    arc = np.random.default_rng(0).normal(size=(len(lengths), max(lengths) + 1, max(lengths) + 1))
    return Parts.from_dense(arc, lengths, prune(arc, lengths, max_heads, 0.0))


def inputs(parts: Parts) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    shape = (len(parts.lengths), int(parts.lengths.max()) + 1, INPUTS)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def by_definition(scorer: PartScorer, vectors: torch.Tensor, parts: Parts, kind: str) -> list[float]:
    """Scores of all parts of a type, one after the other, from their words."""
    roles = scorer.project(vectors).unflatten(-1, (-1, RANK)).unbind(2)
    column = roles[3 + len(scorer.triples) + scorer.kinds.index(kind)]
    offsets = parts.part_offsets(kind)
    found = []
    left_first: dict[tuple[int, ...], int] = {}  # START with END comes for the left side, then for the right one
    for entry, words in enumerate(parts.words(kind).tolist()):
        b = int(np.searchsorted(offsets, entry, side="right")) - 1
        third, h, m, other = {
            "grandparent": lambda m, h, g: (None, h, m, g),
            "head_bigram": lambda m, h, p: (None, h, m, p),
            "sibling": lambda h, s, m: (None, h, m, s),
            "any_sibling": lambda h, s, m: (None, h, m, s),
            "grand_sibling": lambda g, h, s, m: (s, h, m, g),
            "tri_sibling": lambda h, t, s, m: (s, h, m, t),
            "grand_grandparent": lambda m, h, g, above: (g, h, m, above),
            "inner_sibling_grandchild": lambda h, s, m, c: (s, h, m, c),
            "outer_sibling_grandchild": lambda h, s, m, c: (s, h, m, c),
        }[kind](*words)
        on_side = [m] if HIGHER_ORDER[kind].rows != "sibling" else [m, third]
        if kind in ("sibling", "any_sibling", "tri_sibling"):
            on_side.append(other)
        on_side = [w for w in on_side if w != h]
        if on_side:
            side = int(on_side[0] > h)
        else:
            times = left_first[(b, *words)] = left_first.get((b, *words), -1) + 1
            side = 1 if h == 0 else times
        product = roles[side][b, h] * (roles[2][b, m] if m != h else scorer.end[side])
        if third is not None:
            role = roles[3 + scorer.triples.index(HIGHER_ORDER[kind].rows)]
            is_start = HIGHER_ORDER[kind].rows == "sibling" and third == h
            product = product * (scorer.inner_start[side] if is_start else role[b, third])
        is_start = kind in ("sibling", "tri_sibling") and other == h
        product = product * (scorer.start[kind][side] if is_start else column[b, other]) * scorer.weight[kind]
        found.append(product.sum().item())
    return found


@pytest.mark.parametrize("kinds", [*combinations(KINDS, 1), ("grandparent", "sibling"), KINDS], ids="-".join)
def test_scores_are_sums_of_products(kinds: tuple[str, ...]) -> None:
    parts = parts_of([5, 1, 7, 2])
    scorer = scorer_of(kinds)
    vectors = inputs(parts)
    roles, places = scorer(vectors), scorer.places(parts, vectors.device)
    scores = scorer.score(roles, places)
    with torch.no_grad():
        alone = scorer.score(roles, places)  # by the kernel
    assert tuple(scores) == tuple(alone) == kinds
    for kind, score in scores.items():
        torch.testing.assert_close(alone[kind], score)
        np.testing.assert_allclose(score.detach().numpy(), by_definition(scorer, vectors, parts, kind), atol=1e-5)
        some = torch.tensor(np.random.default_rng(2).permutation(len(score))[:20])
        torch.testing.assert_close(scorer.score_some(roles, places, kind, some), score[some])


@torch.no_grad()
@pytest.mark.parametrize(
    ("kinds", "attachment"),
    [*((kinds, 0) for kinds in combinations(KINDS, 1)), (KINDS, 0), (KINDS, 4)],
)
def test_padding_changes_no_score(kinds: tuple[str, ...], attachment: int) -> None:
    parts = parts_of([5, 1, 7, 2])
    scorer = PartScorer(INPUTS, Multilinear(kinds, RANK, dropout=0, attachment=attachment)).double()
    for number, weight in enumerate(scorer.parameters()):
        weight.normal_(generator=torch.Generator().manual_seed(number))
    vectors, places = inputs(parts), scorer.places(parts, torch.device("cpu"))
    packed = Nodes.packed(vectors, torch.from_numpy(parts.lengths).long()).vectors
    assert packed.shape == (1, 19, INPUTS)
    alone = scorer.score(scorer(packed), places)
    for kind, score in scorer.score(scorer(vectors), places).items():
        torch.testing.assert_close(alone[kind], score)


def test_groups_of_sentences_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = parts_of([6, 3, 9, 4, 1])
    scorer = scorer_of(KINDS)
    vectors = inputs(parts)
    places = scorer.places(parts, vectors.device)
    whole = scorer.score(scorer(vectors), places)
    monkeypatch.setitem(multilinear.CELLS, "cpu", 1)
    for kind, score in scorer.score(scorer(vectors), places).items():
        torch.testing.assert_close(score, whole[kind])


@torch.no_grad()
def test_threads_and_precision_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = parts_of([6, 3, 9, 4, 1])
    scorer = scorer_of(KINDS)
    places = scorer.places(parts, torch.device("cpu"))
    exact = scorer.score(scorer(inputs(parts)), places)
    single = scorer.float()(inputs(parts).float())
    whole = scorer.score(single, places)
    monkeypatch.setattr(threads, "STEPS_PER_THREAD", 1)
    monkeypatch.setattr(threads, "_num_threads", 4)
    for kind, score in scorer.score(single, places).items():
        assert score.equal(whole[kind])
        torch.testing.assert_close(score, exact[kind].float(), rtol=1e-3, atol=1e-4)


@torch.no_grad()
def test_what_is_not_a_number_stays_so() -> None:
    parts = parts_of([4])
    scorer = scorer_of(("sibling",))
    vectors = inputs(parts)
    vectors[0, 2] = torch.nan
    scores = scorer.score(scorer(vectors), scorer.places(parts, vectors.device))["sibling"]
    assert scores.isnan().any()
    assert not scores.isnan().all()


@pytest.mark.parametrize("kind", KINDS)
def test_gradient(kind: str) -> None:
    parts = parts_of([3, 2], max_heads=2)
    scorer = scorer_of((kind,))
    vectors = inputs(parts).requires_grad_()
    places = scorer.places(parts, vectors.device)
    weights = torch.randn(int(parts.part_offsets(kind)[-1]), dtype=torch.float64)

    def total(vectors: torch.Tensor) -> torch.Tensor:
        return (scorer.score(scorer(vectors), places)[kind] * weights).sum()

    assert torch.autograd.gradcheck(total, vectors)
    some = torch.arange(len(weights))
    one, other = (
        torch.autograd.grad(score @ weights, vectors)[0]
        for score in (
            scorer.score(scorer(vectors), places)[kind],
            scorer.score_some(scorer(vectors), places, kind, some),
        )
    )
    torch.testing.assert_close(one, other)


def test_a_new_scorer_leaves_the_first_order_model_as_it_is_and_can_learn() -> None:
    parts = parts_of([5, 4])
    torch.manual_seed(3)
    scorer = PartScorer(INPUTS, Multilinear(KINDS, RANK, dropout=0)).double()
    vectors = inputs(parts)
    scores = scorer.score(scorer(vectors), scorer.places(parts, vectors.device))
    assert not any(score.any() for score in scores.values())
    torch.stack([score.square().sum() + score.sum() for score in scores.values()]).sum().backward()
    for kind in KINDS:
        assert scorer.weight[kind].grad is not None
        assert scorer.weight[kind].grad.abs().min() > 0


@pytest.mark.parametrize("kinds", [(), ("cousin",), ("sibling", "sibling")])
def test_unknown_types_are_refused(kinds: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="some of grandparent"):
        Multilinear(kinds)


def test_kinds_are_kept_in_one_order() -> None:
    assert Multilinear(("tri_sibling", "grandparent")).kinds == ("grandparent", "tri_sibling")


def test_attachment_looks_at_grandparents_through_gates() -> None:
    parts = parts_of([5, 3])
    torch.manual_seed(0)
    scorer = PartScorer(INPUTS, Multilinear(KINDS, RANK, dropout=0, attachment=4)).double()
    assert scorer.attachment is not None
    torch.nn.init.normal_(scorer.attachment.weight)  # and all other weights are zero
    vectors = inputs(parts)
    places = scorer.places(parts, vectors.device)
    scores = scorer.score(scorer(vectors), places)
    assert [kind for kind, score in scores.items() if score.any()] == ["grandparent"]
    left, right, modifier, above = scorer.attachment.project(vectors).unflatten(-1, (4, 4)).unbind(2)
    gate = torch.sigmoid(scorer.attachment.gate(vectors))
    offsets = parts.part_offsets("grandparent")
    for entry, (m, h, g) in enumerate(parts.words("grandparent").tolist()):
        b = int(np.searchsorted(offsets, entry, side="right")) - 1
        product = (right if m > h else left)[b, h] * modifier[b, m] * above[b, g] * scorer.attachment.weight
        expected = gate[b, m, 0] * product[:2].sum() + gate[b, h, 1] * product[2:].sum()
        torch.testing.assert_close(scores["grandparent"][entry], expected)
    some = torch.arange(0, len(scores["grandparent"]), 3)
    again = scorer.score_some(scorer(vectors), places, "grandparent", some)
    torch.testing.assert_close(again, scores["grandparent"][some])


def test_senseless_attachments_are_refused() -> None:
    for kinds, size in ((("sibling",), 4), (("grandparent",), 3)):
        with pytest.raises(ValueError, match=r"parts\.attachment"):
            Multilinear(kinds, attachment=size)  # type: ignore[arg-type]
