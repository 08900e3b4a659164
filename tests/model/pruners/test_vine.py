"""The vine cascade as a pruner: losses, learning, what survives, memory."""

import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any, cast

import brute_force
import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from fitting import fit
from hypothesis import given
from hypothesis import strategies as st
from parsing import parse_batch
from torch import Tensor
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode

from arbora.data.batch import Batch, batch_of
from arbora.data.conll import Sentence
from arbora.data.vocabulary import UNKNOWN, Vocabulary
from arbora.decoders import MST, Decoder, Eisner, HillClimbing, Parts, Projective
from arbora.decoders.projective.feasibility import has_tree
from arbora.decoders.projective.marginals import sibling_max_marginals
from arbora.decoders.pruning import prune
from arbora.decoders.vine.candidates import restrict, sentence_of_arcs, with_trees
from arbora.decoders.vine.searches import (
    ArcSearch,
    Criterion,
    Filter,
    Judgement,
    VineSearch,
    largest_alpha,
    projectivise,
    weakest,
)
from arbora.decoders.vine.structures import existing, slot
from arbora.decoders.vine.thresholds import sibling_indices, sibling_thresholds
from arbora.model.encoders.embeddings import Embeddings
from arbora.model.encoders.sru import SRU
from arbora.model.loading import load_network
from arbora.model.network import NetworkScores
from arbora.model.pruners.settings import NoPruning, PrunerSettings, Vine
from arbora.model.pruners.stages import CandidateScorer, StageName, VineScorer, stage_loss
from arbora.model.pruners.vine import CascadePruner, Words
from arbora.model.scorers.biaffine import ArcScorer, Biaffine, Nodes
from arbora.model.scorers.multilinear import Multilinear
from arbora.model.tensors import to_tensors
from arbora.model.training import LightningParser, Optimization

SMALL = SRU(Embeddings(words=20, characters=10, upos=5), size=16, layers=1, dropout=0.1)
SIZES: dict[str, Any] = {"vine_size": 6, "arc_size": 6, "sibling_rank": 4, "dropout": 0.0, "scorer": Biaffine(8)}

LEARNT: tuple[StageName, ...] = ("vine", "first", "second")

COMPARATORS = {
    "LENGTHDICTIONARY": Vine(stages=("dictionary",), **SIZES),
    "LOCALSHORT": Vine(stages=("dictionary", "local_short"), **SIZES),
    "LOCAL": Vine(stages=("dictionary", "local"), **SIZES),
    "FIRSTONLY": Vine(stages=("dictionary", "first"), **SIZES),
    "FIRSTANDSECOND": Vine(stages=("dictionary", "first", "second"), **SIZES),
    "VINECASCADE": Vine(**SIZES),
    "pairs of siblings": Vine(second_filters="siblings", **SIZES),
    "VINEPOSTERIOR": Vine(filter="posterior", **SIZES),
    "vine by odds": Vine(filter="odds", **SIZES),
    "vine alone": Vine(stages=("vine",), **SIZES),
    "the parser's vectors": Vine(vectors="parser", **SIZES),
    "VINEOWN": Vine(stages=("dictionary", "vine", "own"), **SIZES),
    "own before second": Vine(stages=("vine", "own", "second"), filter="posterior", **SIZES),
}


def build(vocabulary: Vocabulary, pruner: Vine, decoder: Decoder, parts: Multilinear | None = None) -> LightningParser:
    pl.seed_everything(1, verbose=False)
    return LightningParser(
        vocabulary,
        SMALL,
        Biaffine(30, 20, dropout=0),
        parts=parts,
        pruner=pruner,
        decoder=decoder,
        loss=("cross_entropy", "hinge"),
        optimization=Optimization(lr=1e-2, warmup=0, decay=False),
    )


def prepared(parser: LightningParser, batch: Batch) -> Words:
    vectors, arc = parser(batch)
    return cascade_of(parser).prepare(vectors, batch, NetworkScores(parser, batch, vectors, arc).arc_scores)


def cascade_of(parser: LightningParser) -> CascadePruner:
    assert isinstance(parser.pruner, CascadePruner)
    return parser.pruner


def scramble(module: torch.nn.Module, seed: int, scale: float = 1.0) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_(scale * torch.randn(weight.shape, generator=generator))


def arcs_of(parts: Parts) -> set[tuple[int, int, int]]:
    return set(zip(sentence_of_arcs(parts).tolist(), parts.modifier.tolist(), parts.head.tolist()))


LENGTHS = np.array([5, 3, 1])
TREES = np.array([[-1, 2, 0, 5, 5, 2], [-1, 0, 1, 1, -1, -1], [-1, 0, -1, -1, -1, -1]])


def arrays(scores: Sequence[Tensor]) -> tuple[np.ndarray, ...]:
    return tuple(score.detach().float().numpy() for score in scores)


def loss_of(stage: str, scorer: torch.nn.Module, vectors: Tensor, judgement: Judgement, alpha: float = 0.4) -> Tensor:
    if isinstance(scorer, VineScorer):
        found = scorer(Nodes.padded(vectors), LENGTHS)
        allowed = existing(LENGTHS, scorer.band)
        allowed.close[1, 0] = False
        return stage_loss(VineSearch(arrays(found), LENGTHS, allowed, alpha, judgement, True), found, TREES)
    assert isinstance(scorer, CandidateScorer)
    mask = np.random.default_rng(0).random((3, 6, 6)) < 0.8
    parts = with_trees(Parts.from_dense(np.zeros((3, 6, 6)), LENGTHS, mask), TREES)
    found = scorer.score(scorer(vectors), Nodes.padded(vectors).starts, parts)
    return stage_loss(ArcSearch(arrays(found), parts, alpha, judgement, True), found, TREES)


def scorer_of(stage: str) -> torch.nn.Module:
    torch.manual_seed(0)
    if stage == "vine":
        scorer: torch.nn.Module = VineScorer(4, 2, 3, 0.0)
    else:
        scorer = CandidateScorer(4, 3, 0.0, 2 if stage == "second" else None)
    scramble(scorer, 3, 0.7)
    return scorer.double()


@pytest.mark.parametrize(
    ("stage", "judgement"),
    [
        *product(("vine", "first", "second"), ("max_marginal", "posterior", "odds")),
        ("vine", "classifier"),
        ("first", "classifier"),
    ],
)
def test_losses_have_exact_gradients(stage: str, judgement: Judgement) -> None:
    scorer = scorer_of(stage)
    vectors = torch.randn(3, 6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    names, weights = zip(*((name, weight.detach().requires_grad_()) for name, weight in scorer.named_parameters()))

    class Loss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scorer = scorer

        def forward(self) -> Tensor:
            return loss_of(stage, self.scorer, vectors, judgement)

    module = Loss()

    def loss(*weights: Tensor) -> Tensor:
        by_name = {f"scorer.{name}": weight for name, weight in zip(names, weights)}
        return functional_call(module, by_name, ()).double()  # type: ignore[no-any-return]

    assert loss(*weights) > 0.5
    # Scores are float32, hence the wide steps.
    assert torch.autograd.gradcheck(loss, weights, eps=2e-3, atol=1e-2, rtol=1e-2, check_undefined_grad=False)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_filter_loss_is_that_of_all_trees(alpha: float) -> None:
    n = 4
    arc = torch.randn(1, n + 1, n + 1, generator=torch.Generator().manual_seed(5))
    parts = Parts.from_dense(arc.numpy())
    trees = brute_force.trees(n, True, True)
    scores = np.array([brute_force.tree_score(tree, arc[0].numpy()) for tree in trees])
    best: list[float] = []
    for m, h in zip(parts.modifier, parts.head):
        with_arc = [score for score, tree in zip(scores, trees) if tree[m] == h]
        best += [max(with_arc)] if with_arc else []
    threshold = alpha * scores.max() + (1 - alpha) * np.mean(best)
    for tree, score in list(zip(trees, scores))[:20]:
        search = ArcSearch((parts.arc_score,), parts, alpha, "max_marginal", True)
        found = stage_loss(search, (torch.from_numpy(parts.arc_score),), np.array([tree]))
        assert float(found) == pytest.approx(max(0.0, 1 + threshold - score), abs=1e-4)


def test_losses_do_not_reach_the_encoder(vocabulary: Vocabulary, batch: Batch) -> None:
    parser = build(vocabulary, Vine(**SIZES), Projective())
    cascade = cascade_of(parser)
    words = prepared(parser, batch)
    cascade.loss(words, batch, parser.decoder).backward()
    assert all(weight.grad is None for weight in parser.encoder.parameters())
    learnt = {name.split(".")[0] for name, weight in cascade.named_parameters() if weight.grad is not None}
    assert learnt == {"scorers", "arc"}


@pytest.mark.parametrize(
    "decoder", [Projective(), HillClimbing(start="best")], ids=lambda decoder: type(decoder).__name__
)
@pytest.mark.parametrize("filtered", ["max_marginal", "posterior"])
def test_ten_sentences_are_learnt(filtered: Filter, decoder: Decoder, vocabulary: Vocabulary, batch: Batch) -> None:
    parser = build(vocabulary, Vine(filter=filtered, dropout=0), decoder, Multilinear(rank=8, dropout=0))
    trainer = fit(parser, batch, 60)
    found = parse_batch(parser.eval(), batch)
    assert (torch.from_numpy(found.heads) == batch.heads)[batch.is_word].float().mean() > 0.95
    figures = {name: float(value) for name, value in trainer.callback_metrics.items()}
    for stage in cascade_of(parser).stages:
        assert 1 <= figures[f"dev/pruner/{stage}/arcs_per_word"] <= 11
        assert 0 <= figures[f"dev/pruner/{stage}/error"] <= 5
        assert figures[f"dev/pruner/{stage}/oracle_UAS"] > 90
    errors = [figures[f"dev/pruner/{stage}/error"] for stage in cascade_of(parser).stages]
    assert all(after - before <= 0.2 + 1e-6 for before, after in pairwise(errors))
    assert ("dev/pruner/all/error" in figures) == (not decoder.projective)
    assert figures["dev/pruner/vine/arcs_per_word"] < figures["dev/pruner/dictionary/arcs_per_word"]
    cascade = cascade_of(parser)
    assert (cascade.alpha != torch.tensor(list(cascade.loss_alpha.values()))).all()  # tuned


@pytest.mark.parametrize("name", COMPARATORS)
def test_pruners_of_the_paper(name: str, vocabulary: Vocabulary, batch: Batch) -> None:
    parser = build(vocabulary, COMPARATORS[name], Projective(), Multilinear(("sibling",), rank=4))
    fit(parser, batch, 3)
    parser.eval()
    projective = parse_batch(parser, batch)
    assert has_tree(projective.parts).all()
    assert projective.parts.kinds == ("sibling",)
    parser.decoder = HillClimbing()
    assert arcs_of(parse_batch(parser, batch).parts) >= arcs_of(projective.parts)


def test_stages_start_from_the_vectors_of_the_parser_and_leave_them_alone(vocabulary: Vocabulary, batch: Batch) -> None:
    parser = build(vocabulary, Vine(vectors="parser", **SIZES), Projective()).eval()
    cascade = cascade_of(parser)
    scramble(cascade.scorers, 1)
    cascade.loss(prepared(parser, batch), batch, parser.decoder).backward()
    assert all(weight.grad is None for weight in (*parser.arc.parameters(), *parser.encoder.parameters()))
    first = cast(CandidateScorer, cascade.scorers["first"]).arc
    assert first.weight.grad is not None
    assert set(first.state_dict()) == {"weight"}
    parser.arc.weight = torch.nn.Parameter(first.weight.detach())
    with torch.no_grad():
        vectors, _ = parser(batch)
        scores = NetworkScores(parser, batch, vectors)
        parts = scores.parts(Projective())
        own = first.score_candidates(scores.pruner_scores.roles["first"].arc, scores.arc_scores.nodes.starts, parts)
    np.testing.assert_allclose(own.numpy(), parts.arc_score, rtol=1e-5)


def test_dictionary_leaves_arcs_as_long_as_those_seen(vocabulary: Vocabulary, batch: Batch) -> None:
    parser = build(vocabulary, Vine(stages=("dictionary",), band=1, **SIZES), Projective())
    fit(parser, batch, 1)
    parts = parse_batch(parser.eval(), batch).parts
    gold, tags = batch.heads.numpy(), batch.upos.numpy()
    longest: dict[tuple[int, int, bool], int] = {}
    for b, m in zip(*np.nonzero(gold >= 0)):
        h = gold[b, m]
        pair = (tags[b, h], tags[b, m], m > h)
        longest[pair] = max(longest.get(pair, 0), abs(m - h))
    expected = {
        (b, m, h)
        for b, n in enumerate(batch.lengths.tolist())
        for m in range(1, n + 1)
        for h in range(n + 1)
        if h != m and abs(m - h) <= longest.get((tags[b, h], tags[b, m], m > h), 1)
    }
    assert arcs_of(parts) == expected


def test_dictionary_leaves_sentences_with_unknown_tags_alone(vocabulary: Vocabulary, batch: Batch) -> None:
    parser = build(vocabulary, Vine(stages=("dictionary",), band=1, **SIZES), Projective())
    fit(parser, batch, 1)
    upos = batch.upos.clone()
    upos[0, 1] = UNKNOWN
    counts = np.diff(parse_batch(parser.eval(), replace(batch, upos=upos)).parts.sentence_offsets)
    assert counts[0] == batch.lengths[0] ** 2
    np.testing.assert_array_equal(counts[1:], np.diff(parse_batch(parser, batch).parts.sentence_offsets)[1:])


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("filtered", ["max_marginal", "posterior", "odds"])
def test_a_tree_survives_any_weights(filtered: Filter, single_root: bool, vocabulary: Vocabulary, batch: Batch) -> None:
    decoders: list[Decoder] = [
        Projective(single_root),
        Eisner(single_root),
        MST(single_root),
        HillClimbing(single_root=single_root),
    ]
    words = ["one"], ["a", "b"], [*"abcdefghijklmnopqrstuvwxyz"]
    others = to_tensors(batch_of([Sentence.from_words(each) for each in words], vocabulary))
    pruner = Vine(filter=filtered, alpha=(1.0, 1.0, 1.0), stages=LEARNT, max_heads=1, ratio=1.0, **SIZES)
    parser = build(vocabulary, pruner, Projective()).eval()
    for seed in range(4):
        scramble(cascade_of(parser), seed, 3.0)
        for alpha in (0.0, 0.5, 1.0):
            cascade_of(parser).alpha.fill_(alpha)
            for decoder, given_batch in product(decoders, (batch, others)):
                parser.decoder = decoder
                found = parse_batch(parser, given_batch)
                assert has_tree(found.parts, single_root).all()
                assert np.isfinite(found.trees.score).all()
                if single_root:
                    assert ((found.heads == 0).sum(1) == 1).all()


def test_every_stage_keeps_gold_trees_in_training(vocabulary: Vocabulary, batch: Batch) -> None:
    parser = build(vocabulary, Vine(alpha=(1.0, 1.0, 1.0), **SIZES), Projective())
    cascade = cascade_of(parser)
    scramble(cascade, 0)
    words = prepared(parser, batch)
    gold = batch.heads.numpy()
    assert np.isfinite(cascade.candidates(words, words.lengths, parser.decoder, gold).score(gold)).all()
    outcomes, trees = cascade._learn(words, True)
    for outcome in outcomes.values():
        assert np.isfinite(outcome.parts.score(trees)).all()
    assert not np.isfinite(parse_batch(parser.eval(), batch).parts.score(trees)).all()


def test_decoders_that_are_not_projective_get_likely_heads(vocabulary: Vocabulary, batch: Batch) -> None:
    parser = build(vocabulary, Vine(max_heads=2, **SIZES), MST()).eval()
    scramble(cascade_of(parser), 0)
    vectors, _ = parser(batch)
    scores = cascade_of(parser)(vectors, batch).detach().numpy()
    likely = prune(scores, batch.lengths.numpy(), 2, 1e-3)
    crossing = arcs_of(parse_batch(parser, batch).parts)
    parser.decoder = Eisner()
    assert crossing == arcs_of(parse_batch(parser, batch).parts) | set(zip(*(i.tolist() for i in np.nonzero(likely))))


def test_candidates_do_not_depend_on_other_sentences(
    vocabulary: Vocabulary, batch: Batch, sentences: list[Sentence]
) -> None:
    parser = build(vocabulary, Vine(**SIZES), Projective())
    fit(parser, batch, 3)
    together = parse_batch(parser.eval(), batch).parts
    for b, sentence in enumerate(sentences[:4]):
        alone = parse_batch(parser, to_tensors(batch_of([sentence], vocabulary))).parts
        np.testing.assert_array_equal(alone.head, together.subset([b]).head)


@torch.no_grad()
@pytest.mark.parametrize("kinds", [(), ("grandparent", "sibling", "grand_sibling")])
def test_arcs_score_the_same_when_all_are_scored(kinds: tuple[Any, ...], vocabulary: Vocabulary, batch: Batch) -> None:
    parser = build(vocabulary, Vine(**SIZES), Projective(), Multilinear(kinds) if kinds else None)
    fit(parser, batch, 20)
    parser.eval()
    scores = parser.score(batch)
    sparse = scores.parts(parser.decoder)
    assert scores.arc_scores.dense is None
    scores = parser.score(batch)
    scores.arcs()
    dense = scores.parts(parser.decoder)
    assert scores.arc_scores.dense is not None
    np.testing.assert_array_equal(sparse.head, dense.head)
    for kind in ("arc_score", *kinds):
        np.testing.assert_allclose(getattr(sparse, kind), getattr(dense, kind), rtol=1e-4, atol=1e-5)
    scores = parser.score(batch)
    scores.parts(MST())
    assert scores.arc_scores.dense is not None


def test_few_arcs_score_as_many_do() -> None:
    scorer = ArcScorer(5, Biaffine(arc=7, dropout=0)).double()
    scramble(scorer, 0)
    vectors = torch.randn(2, 20, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    m, h = torch.tensor([3, 7, 25, 39]), torch.tensor([0, 8, 39, 20])
    expected = (lambda roles: roles[0] @ roles[1].transpose(1, 2))(scorer.roles(vectors)).flatten()
    every = (
        torch.arange(40).repeat_interleave(20),
        torch.arange(20).repeat(40) + torch.arange(2).repeat_interleave(400) * 20,
    )
    torch.testing.assert_close(scorer.score_some(scorer.roles(vectors), *every), expected.float())
    torch.testing.assert_close(scorer.score_some(scorer.roles(vectors), m, h), expected[m * 20 + h % 20].float())


def saved(parser: LightningParser, path: Path) -> Path:
    contents: dict[str, object] = {"state_dict": parser.state_dict()}
    parser.on_save_checkpoint(contents)
    torch.save(contents, path)
    return path


def test_a_pruner_for_a_trained_parser(vocabulary: Vocabulary, batch: Batch, tmp_path: Path) -> None:
    quick = Optimization(lr=1e-2, warmup=0, decay=False)
    first = LightningParser(vocabulary, SMALL, Biaffine(30, 20), decoder=Projective(), optimization=quick)
    fit(first, batch, 30)
    path = saved(first, tmp_path / "first.ckpt")
    second = LightningParser(vocabulary, trained=str(path), pruner=Vine(dropout=0), optimization=quick)
    assert second.settings["encoder"] == SMALL
    assert isinstance(second.decoder, Projective)
    start = {name: weight.clone() for name, weight in second.state_dict().items()}
    fit(second, batch, 40)
    changed = {name.split(".")[0] for name, weight in second.state_dict().items() if not weight.equal(start[name])}
    assert changed == {"pruner"}
    again = load_network(saved(second, tmp_path / "second.ckpt"))
    found, before = parse_batch(again, batch), parse_batch(first.eval(), batch)
    assert len(found.parts.head) < len(before.parts.head) / 2
    agree = (found.heads == before.heads)[np.asarray(batch.is_word)].mean()
    assert agree > 0.9
    torch.testing.assert_close(again(batch)[1], first(batch)[1])


@pytest.mark.parametrize(
    ("pruner", "message"), [(None, "give one as model.pruner"), (NoPruning(), "has no weights to train")]
)
def test_trained_parsers_want_a_pruner_that_learns(
    pruner: PrunerSettings | None, message: str, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    path = saved(LightningParser(vocabulary, SMALL), tmp_path / "first.ckpt")
    with pytest.raises(ValueError, match=message):
        LightningParser(vocabulary, trained=str(path), pruner=pruner)
    with pytest.raises(ValueError, match="another training part"):
        LightningParser(Vocabulary.of([Sentence.from_words(["a"])]), trained=str(path), pruner=Vine())


def test_everything_is_left(vocabulary: Vocabulary, batch: Batch) -> None:
    parser = LightningParser(vocabulary, SMALL, pruner=NoPruning(), decoder=Projective()).eval()
    assert len(parse_batch(parser, batch).parts.head) == int((batch.lengths**2).sum())
    assert "pruner" not in {name.split(".")[0] for name in parser.state_dict()}


def test_checkpoint_round_trip(vocabulary: Vocabulary, batch: Batch, tmp_path: Path) -> None:
    parser = build(vocabulary, Vine(**SIZES), Projective())
    fit(parser, batch, 25)
    again = load_network(saved(parser, tmp_path / "model.ckpt"))
    assert again.settings == parser.settings
    before, after = parse_batch(parser.eval(), batch), parse_batch(again, batch)
    np.testing.assert_array_equal(before.parts.head, after.parts.head)
    np.testing.assert_array_equal(before.trees.heads, after.trees.heads)
    torch.testing.assert_close(again.pruner.alpha, cascade_of(parser).alpha)  # type: ignore[union-attr]
    torch.testing.assert_close(again.pruner.longest, cascade_of(parser).longest)  # type: ignore[union-attr]


class Largest(TorchDispatchMode):
    """Remembers the size of the largest tensor made."""

    numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for tensor in found if isinstance(found, (tuple, list)) else [found]:
            if isinstance(tensor, Tensor):
                self.numbers = max(self.numbers, tensor.numel())
        return found


def test_the_vine_has_no_matrix_of_words() -> None:
    n, band, size = 4000, 3, 4
    scorer = VineScorer(5, band, size, 0.0)
    scramble(scorer, 0)
    with Largest() as largest, torch.no_grad():
        scores = scorer(Nodes.padded(torch.randn(1, n + 1, 5)), np.array([n]))
    assert largest.numbers <= 2 * (n + 2 * band + 1) * size * (2 * band + 1) < n * n / 50
    lengths = np.array([n])
    search = VineSearch(arrays(scores), lengths, existing(lengths, band), 0.6, "max_marginal", True)
    tracemalloc.start()
    assert np.isfinite(search.strengths.close[10:-10]).all()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * n


def test_close_scores_are_those_of_the_biaffine() -> None:
    scorer = VineScorer(4, 2, 3, 0.0)
    scramble(scorer, 1)
    vectors = torch.randn(3, 6, 4, generator=torch.Generator().manual_seed(2))
    close, outer_head, outer_modifier = scorer(Nodes.padded(vectors), LENGTHS)
    assert (len(close), len(outer_head), len(outer_modifier)) == (9, 9, 12)
    head, modifier = scorer.head(vectors), scorer.modifier(vectors)
    of_modifier = scorer.of_modifier(modifier)
    for b, m, h, word in [(0, 1, 0, 0), (0, 2, 4, 1), (0, 5, 3, 4), (1, 1, 3, 5), (1, 2, 1, 6), (2, 1, 0, 8)]:
        place = int(slot(h - m, 2))
        expected = (modifier[b, m] @ scorer.weight[:-1] + scorer.weight[-1]) @ head[b, h] + of_modifier[b, m, place]
        torch.testing.assert_close(close[word, place], expected)


def test_padding_changes_no_score() -> None:
    vectors, lengths = torch.randn(3, 6, 4, generator=torch.Generator().manual_seed(2)), torch.from_numpy(LENGTHS)
    padded, packed = Nodes.padded(vectors), Nodes.packed(vectors, lengths)
    assert packed.vectors.shape == (1, 12, 4)
    vine, exists = VineScorer(4, 2, 3, 0.0), existing(LENGTHS, 2)
    scramble(vine, 1)
    with torch.no_grad():  # by a kernel
        alone = vine(packed, LENGTHS)
    for one, other, there in zip(vine(padded, LENGTHS), alone, exists, strict=True):
        torch.testing.assert_close(one[torch.from_numpy(there)], other[torch.from_numpy(there)])
    scorer = CandidateScorer(4, 3, 0.0, 2)
    scramble(scorer, 3)
    parts = Parts.from_dense(np.zeros((3, 6, 6)), LENGTHS)
    with torch.no_grad():
        both = [scorer.score(scorer(nodes.vectors), nodes.starts, parts) for nodes in (padded, packed)]
    for one, other in zip(*both, strict=True):
        torch.testing.assert_close(one, other)


@torch.no_grad()
def test_arcs_are_kept_if_they_are_as_strong_as_alpha(vocabulary: Vocabulary, batch: Batch) -> None:
    parser = build(vocabulary, Vine(stages=LEARNT, band=1, **SIZES), Projective()).eval()
    cascade = cascade_of(parser)
    scramble(cascade, 2)
    cascade.alpha.fill_(-100.0)  # all arcs of any tree
    vectors, arc = parser(batch)
    words = cascade.prepare(vectors, batch, NetworkScores(parser, batch, vectors, arc).arc_scores)
    trees = projectivise(batch.heads.numpy(), words.lengths, True, arc.numpy)
    for number, stage in enumerate(LEARNT):
        search = cascade.run(words, True)[stage].search
        assert search is not None
        strength = search.strength(trees)
        assert np.nanmax(strength) <= 1  # NaN where there is no arc
        cascade.alpha[number] = alpha = float(np.quantile(strength[strength > -np.inf], 0.3))
        parts = cascade.run(words, True)[stage].parts
        left = np.zeros(trees.shape, dtype=np.bool_)
        arcs = parts.active(trees)["arc"]
        left[sentence_of_arcs(parts)[arcs], parts.modifier[arcs]] = True
        strong = strength >= alpha - 1e-6
        assert strong.any()
        assert not strong[strength > -np.inf].all()
        assert (left >= strong).all()
        if stage != "vine":  # after which a tree may have to be restored
            np.testing.assert_array_equal(left, strong)


@given(st.lists(st.floats(-2, 1), min_size=1, max_size=50), st.floats(0, 1))
def test_alpha_is_the_largest_that_loses_few_arcs(strengths: list[float], error: float) -> None:
    array = np.array(strengths)
    alpha = largest_alpha(array, error, 0.5)
    assert (array < alpha).sum() <= error * len(array)
    for larger in array[array > alpha]:
        assert (array < larger).sum() > error * len(array)
    assert largest_alpha(np.empty(0), error, 0.5) == 0.5


def test_own_scores_drop_heads_that_are_unlikely_beside_the_best(vocabulary: Vocabulary, batch: Batch) -> None:
    parser = build(vocabulary, Vine(stages=("vine", "own"), band=2, filter="odds", **SIZES), Projective())
    fit(parser, batch, 20)
    cascade, alpha = cascade_of(parser.eval()), 0.05
    cascade.alpha = torch.tensor([1e-6, alpha])
    with torch.no_grad():
        _, arc = parser(batch)
        outcomes = cascade.run(prepared(parser, batch), True)
    before, after = outcomes["vine"].parts, outcomes["own"].parts
    score = arc.numpy()[sentence_of_arcs(before), before.modifier, before.head]
    word = before.word_offsets[sentence_of_arcs(before)] + before.modifier
    best = np.array([score[word == w].max() for w in word])
    likely = arcs_of(before)
    likely = {one for one, keep in zip(sorted(likely), score >= best + np.log(alpha)) if keep}
    assert len(likely) < len(before.head)
    assert likely <= arcs_of(after) <= arcs_of(before)
    assert has_tree(after).all()
    with_tree = has_tree(restrict(before, score >= best + np.log(alpha)))
    assert {one for one in arcs_of(after) if with_tree[one[0]]} == {one for one in likely if with_tree[one[0]]}
    words = prepared(parser, batch)
    with torch.no_grad():
        left = cascade.candidates(words, batch.lengths.numpy(), parser.decoder)
    assert cascade.scores_candidates(parser.decoder)  # they are not computed again
    expected = arc.numpy()[sentence_of_arcs(left), left.modifier, left.head]
    np.testing.assert_allclose(left.arc_score, expected, atol=1e-4)
    np.testing.assert_array_equal(parser.score(batch).parts(parser.decoder).head, left.head)


@torch.no_grad()
def test_pairs_of_siblings_support_the_last_pass(vocabulary: Vocabulary, batch: Batch) -> None:
    """Pairs below the threshold over pairs are forbidden there, and an arc is left with one of its pairs."""
    pruner = Vine(stages=("second",), alpha=(0.5,), second_filters="siblings", **SIZES)
    parser = build(vocabulary, pruner, Projective(), Multilinear(("grandparent", "sibling"), 4)).eval()
    cascade = cascade_of(parser)
    scramble(cascade, 3)
    words = prepared(parser, batch)
    search = cascade.run(words, True)["second"].search
    assert isinstance(search, ArcSearch)
    candidates = search.parts.with_scores(**dict(zip(("arc_score", "sibling"), search.scores)))
    arcs, pairs = sibling_max_marginals(candidates)
    counted, sentence = sibling_indices(candidates)
    limits = sibling_thresholds(candidates, 0.5)[0]
    lost = pairs[counted] < limits[sentence] - 1e-6
    assert 0 < lost.sum() < len(lost)
    parts = cascade.candidates(words, words.lengths, parser.decoder)
    assert arcs_of(parts) == arcs_of(restrict(candidates, arcs >= limits[sentence_of_arcs(candidates)] - 1e-6))
    kept = restrict(
        candidates.with_scores(sibling=np.where(counted, pairs, np.inf).clip(-1e30, 1e30)),
        arcs >= limits[sentence_of_arcs(candidates)] - 1e-6,
        ("sibling",),
    )
    of_sentence = np.repeat(np.arange(len(limits)), np.diff(kept.part_offsets("sibling")))
    np.testing.assert_array_equal(parts.sibling, np.where(kept.sibling < limits[of_sentence] - 1e-4, -np.inf, 0))
    scored = parser.score(batch).parts(parser.decoder)
    np.testing.assert_array_equal(np.isinf(scored.sibling), np.isinf(parts.sibling))
    assert np.isfinite(parser.decoder(scored).score).all()


@torch.no_grad()
def test_odds_are_those_of_the_best_trees(vocabulary: Vocabulary, batch: Batch) -> None:
    arc = torch.randn(1, 5, 5, generator=torch.Generator().manual_seed(5)).numpy()
    parts = Parts.from_dense(arc)
    scores = {tree: brute_force.tree_score(tree, arc[0]) for tree in brute_force.trees(4, True, True)}
    found = ArcSearch((parts.arc_score,), parts, 0.0, "odds", True).strengths
    for m, h, strength in zip(parts.modifier, parts.head, found):
        with_arc = [score for tree, score in scores.items() if tree[m] == h]
        expected = np.exp(max(with_arc) - max(scores.values())) if with_arc else -np.inf
        assert strength == pytest.approx(expected, rel=1e-5)


@torch.no_grad()
@pytest.mark.parametrize(("criterion", "error"), [("arcs", 0.1), ("sentences", 0.4)])
def test_tuned_stages_lose_what_they_may(
    criterion: Criterion, error: float, vocabulary: Vocabulary, batch: Batch
) -> None:
    parser = build(vocabulary, Vine(stages=("first",), error=error, criterion=criterion, **SIZES), Projective()).eval()
    cascade = cascade_of(parser)
    scramble(cascade, 2)
    words = prepared(parser, batch)
    cascade.tune([words], parser.decoder, lambda value, _: value)
    trees = cascade._trees(words, True)
    gold = (batch.heads.numpy() >= 0) & (batch.heads.numpy() == trees)

    def lost(alpha: float) -> float:
        cascade.alpha.fill_(alpha)
        parts = cascade.candidates(words, words.lengths, parser.decoder)
        left = np.zeros(trees.shape, dtype=np.bool_)
        arcs = parts.active(trees)["arc"]
        left[sentence_of_arcs(parts)[arcs], parts.modifier[arcs]] = True
        gone = gold & ~left
        return float(gone.sum() / gold.sum() if criterion == "arcs" else gone.any(1).mean())

    alpha = float(cascade.alpha)
    assert 0 < lost(alpha) <= error
    assert lost(alpha + 1e-3) > error


def test_gold_arcs_of_no_tree_count_as_lost() -> None:
    strengths = np.array([[np.nan, 0.5, -np.inf, 0.2], [np.nan, np.nan, 0.4, 0.9], [np.nan, 0.7, 0.6, 0.1]])
    counted = np.array([[False, True, True, True], [False, True, True, True], [False, True, True, False]])
    np.testing.assert_array_equal(np.sort(weakest(strengths, counted, "arcs")), [-np.inf, 0.2, 0.4, 0.5, 0.6, 0.7, 0.9])
    np.testing.assert_array_equal(weakest(strengths, counted, "sentences"), [-np.inf, 0.4, 0.6])
    assert largest_alpha(weakest(strengths, counted, "sentences"), 1 / 3, 9.0) == 0.4  # the one that is lost anyway
    assert largest_alpha(weakest(strengths, counted, "sentences"), 0.0, 9.0) == 0.4  # no more than that
    assert largest_alpha(weakest(strengths, counted, "sentences"), 0.7, 9.0) == 0.6
    assert largest_alpha(np.array([-np.inf]), 0.5, 9.0) == 9.0


def test_stages_learn_one_after_the_other(vocabulary: Vocabulary, batch: Batch) -> None:
    parser = build(vocabulary, Vine(stagewise=True, **SIZES), Projective())
    cascade = cascade_of(parser)
    assert cascade.phases == 3
    for phase, stage in enumerate(LEARNT):
        cascade.start_phase(phase)
        cascade.zero_grad()
        scramble(cascade, phase)
        cascade.loss(prepared(parser, batch), batch, parser.decoder).backward()
        learning = {
            name.split(".")[1]
            for name, weight in cascade.named_parameters()
            if name.startswith("scorers.") and weight.grad is not None
        }
        assert learning == {stage}


def test_a_dictionary_of_both_sides(vocabulary: Vocabulary, batch: Batch) -> None:
    longest = []
    for directed in (True, False):
        parser = build(vocabulary, Vine(stages=("dictionary",), directed=directed, **SIZES), Projective())
        cascade = cascade_of(parser)
        words = prepared(parser, batch)
        cascade.loss(words, batch, parser.decoder)
        longest.append(cascade._dictionary(words)[0].longest)
    seen = cascade.longest.numpy().max(-1) > 0
    assert (longest[0] != longest[1]).any()
    np.testing.assert_array_equal(longest[1][..., 0], longest[1][..., 1])
    np.testing.assert_array_equal(longest[1][seen][:, 0], cascade.longest.numpy()[seen].max(-1))


@pytest.mark.parametrize("single_root", [True, False])
def test_projectivised_trees_keep_most_arcs(single_root: bool) -> None:
    n = 4
    scores = np.random.default_rng(0).normal(size=(1, n + 1, n + 1))
    np.einsum("bii->bi", scores)[:] = -np.inf
    allowed = set(brute_force.trees(n, single_root, True))
    for tree in brute_force.trees(n):
        (found,) = projectivise(np.array([tree]), np.array([n]), single_root, lambda: scores)
        assert tuple(found) in allowed
        common = max(sum(a == b for a, b in zip(tree, other)) for other in allowed)
        assert sum(found == np.array(tree)) == common


def test_words_without_a_head_get_one() -> None:
    scores = np.zeros((1, 4, 4))
    scores[0, 2, 3] = 1
    (found,) = projectivise(np.array([[-1, 0, -1, 1]]), np.array([3]), True, lambda: scores)
    assert found.tolist() == [-1, 0, 3, 1]


@pytest.mark.parametrize(
    "settings",
    [
        {"stages": ()},
        {"stages": ("first", "vine")},
        {"stages": ("third",)},
        {"band": 0},
        {"alpha": (0.5, 1.5, 0.5)},
        {"error": -0.1},
        {"max_heads": 0},
    ],
    ids=lambda settings: str(*settings),
)
def test_senseless_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="pruner"):
        Vine(**settings)
