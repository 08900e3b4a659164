"""The vine cascade as a pruner: a sequence of light scorers, each of which leaves fewer arcs for the next.

Rush and Petrov (2012), "Vine pruning for efficient multi-pass dependency parsing". `arbora.decoders.vine`
has the search; this module has the scorers of its stages, on the parser's own encoder, and their losses. The last pass
is the parser itself, with any decoder: `model.pruner: Vine` and `model.decoder: Projective` are the parser of the
paper, and `configs/vine_cascade.yaml` trains it. The paper's other pruners have some of the stages:

    LENGTHDICTIONARY    stages: [dictionary]
    LOCALSHORT          stages: [dictionary, local_short]
    LOCAL               stages: [dictionary, local]
    FIRSTONLY           stages: [dictionary, first]
    FIRSTANDSECOND      stages: [dictionary, first, second]
    VINECASCADE         stages: [dictionary, vine, first, second]
    VINEPOSTERIOR       the same with filter: posterior

VINEOWN is not in the paper. It is the fastest:

    VINEOWN             stages: [dictionary, vine, own]

where `own` uses the parser's own scores of the arcs that the vine leaves, which the last pass needs anyway. `NoPruning`
is NOPRUNE. `configs/pruners/` has a file for each of them, which can be added to any other configuration. With
`model.trained` they are trained for a parser that is already trained.

The stages, for n words and a band of b: `dictionary`, O(n^2) lookups, or O(n b) before the next two; `local_short`,
O(n b), and `vine`, O(n b^2), with scores for n b close arcs and 4 n outer ones; `local` and `own`, O(A), `first` and
`second`, O(A n), with scores only for the A arcs that are left. `arbora.model.pruners.stages` says how
arcs are judged. For projective decoders the parser itself scores no other arcs either: nothing is n x n.

Alpha of a stage, the least strength of an arc that is kept, is tuned without a search: it is a quantile of the
strengths of gold arcs. That is done before each evaluation on the development part, stage after stage, each on what the
stages before it leave with their new alpha, so that none loses more than `error` of the gold arcs that it is given, or
of the sentences: the paper's criterion, with `error: 0.2`.

Differs from the paper:
- The stages are trained together, next to the parser or after it; with `stagewise`, one after the other as in the
  paper. What a stage is given is what is left before it, and the gold tree. AdamW takes the place of subgradient
  descent; its decay of weights, `model.optimization.weight_decay`, that of the paper's penalty.
- `second` judges candidate arcs. With `second_filters: siblings` it judges pairs (h, s, m) as in the paper, where s may
  be START; pairs that it drops are forbidden in the last pass. What ends a side is no index: it follows its arc.
- Gold arcs count as lost by the stage that drops them, and crossing ones do not count.
- Gold trees that cross are replaced by the projective tree that has most of their arcs.
- Alpha of the loss stays as it is set; that of pruning may fall below 0: where few arcs are left, the mean is no low
  threshold.
- For decoders that are not projective more heads are added, see `Vine`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from arbora.data.batch import Batch
from arbora.data.vocabulary import PAD, UNKNOWN, Vocabulary
from arbora.decoders import Decoder, Parts
from arbora.decoders.pruning import oracle, prune
from arbora.decoders.vine.candidates import expand, restore, sentence_of_arcs, with_trees
from arbora.decoders.vine.dictionary import LengthDictionary
from arbora.decoders.vine.searches import (
    ArcSearch,
    Judgement,
    Search,
    VineSearch,
    largest_alpha,
    projectivise,
    weakest,
)
from arbora.decoders.vine.structures import Indices, existing, image, slot
from arbora.model import losses
from arbora.model.pruners.marginal import MarginalPruner, Reduce
from arbora.model.pruners.stages import CandidateScorer, Roles, StageName, VineScorer, stage_loss
from arbora.model.scorers.biaffine import ArcScorer, ArcScores, Biaffine
from arbora.model.tensors import download

if TYPE_CHECKING:  # settings build this module, and so import it
    from arbora.model.pruners.settings import Vine

OF_VINE: tuple[StageName, ...] = ("local_short", "vine")

START: dict[Judgement, float] = {
    "max_marginal": 0.6,
    "posterior": 0.001,
    "odds": 0.001,
    "classifier": 0.01,
    "heads": 0.001,
}
"""Alpha before it is tuned."""

ANY_LENGTH = 1 << 30
TOLERANCE = 1e-6
"""Arcs weaker than alpha by this share of it are kept."""


@dataclass
class Outcome:
    """Results of a stage on a batch."""

    leave: Callable[[], Parts]
    search: Search | None  # the dictionary has none
    scores: tuple[Tensor, ...] = ()  # of the search, with their gradients

    @cached_property
    def parts(self) -> Parts:
        """Candidate arcs that are left, made when they are first asked for; behind `own` with the parser's scores."""
        return self.leave()


class Learning(NamedTuple):
    """Results of all stages on a batch of the training part."""

    outcomes: dict[StageName, Outcome]  # when each keeps the gold trees
    trees: NDArray[np.int64]  # (B, N) these, made projective


@dataclass
class Words:
    """A batch as the stages have it."""

    vectors: Tensor  # (B, N, inputs), without gradients
    batch: Batch[Tensor]
    arc_scores: ArcScores  # the parser's
    of_vine: dict[StageName, tuple[Tensor, Tensor, Tensor]]  # scores, as `Indices` has them
    roles: dict[StageName, Roles]
    dense: Tensor | None = None  # (B, N, N), once asked for
    learning: Learning | None = None  # likewise

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(B,) words of each sentence."""
        return self.batch.on_host.lengths


@dataclass
class Watch:
    """Counts of what the stages leave of a part of a treebank during parsing."""

    counts: dict[str, NDArray[np.int64]] = field(default_factory=dict)  # by stage, see `CascadePruner._count`

    def add(self, stage: str, counts: Sequence[int]) -> None:
        """Add what a stage left of a batch."""
        self.counts[stage] = self.counts.get(stage, np.zeros(len(counts), np.int64)) + np.array(counts)


class CascadePruner(MarginalPruner):
    """The stages of a cascade, built."""

    def __init__(self, settings: Vine, vocabulary: Vocabulary, inputs: int, scorer: Biaffine) -> None:
        super().__init__(settings)
        self.settings = settings
        self.stages, self.learnt = settings.stages, settings.learnt
        self.reads_tags = "dictionary" in self.stages
        given = settings.alpha or tuple(START[settings.judgement(stage)] for stage in self.learnt)
        self.loss_alpha = dict(zip(self.learnt, given))
        self.register_buffer("alpha", torch.tensor(given))  # of pruning, by `learnt`
        self.alpha: Tensor
        if "dictionary" in self.stages:
            size = vocabulary.size(settings.tags)
            self.register_buffer("longest", torch.zeros(size, size, 2, dtype=torch.int32))  # 0 for what was not seen
            self.longest: Tensor
        self.scorers = nn.ModuleDict()
        vine_size, arc_size = settings.vine_size, settings.arc_size
        if projected := settings.vectors == "parser":
            vine_size = arc_size = scorer.arc
        for stage in self.learnt:
            if stage in OF_VINE:
                self.scorers[stage] = VineScorer(inputs, settings.band, vine_size, settings.dropout, projected)
            elif stage != "own":
                rank = settings.sibling_rank if stage == "second" else None
                self.scorers[stage] = CandidateScorer(inputs, arc_size, settings.dropout, rank, projected)
        self.arc = ArcScorer(inputs, settings.scorer)
        self._watch: Watch | None = None
        self.learning: tuple[str, ...] = tuple(self.scorers)  # stages, at present

    @property
    def tunes(self) -> bool:  # type: ignore[override]
        return bool(self.learnt) and self.settings.error is not None

    def forward(self, vectors: Tensor, batch: Batch[Tensor]) -> Tensor:
        """Scores of all arcs, (B, N, N), by which decoders that are not projective get more heads."""
        scores: Tensor = self.arc(vectors.detach(), batch.lengths)
        return scores

    def is_sparse(self, decoder: Decoder) -> bool:
        return decoder.projective and bool(self.learnt)

    def scores_candidates(self, decoder: Decoder, keep: NDArray[np.integer] | None = None) -> bool:
        return self.stages[-1] == "own" and decoder.projective and keep is None

    def prepare(self, vectors: Tensor, batch: Batch[Tensor], arc_scores: ArcScores) -> Words:
        """The words of a batch as all stages need them; nothing here is n x n."""
        of_vine: dict[StageName, tuple[Tensor, Tensor, Tensor]] = {}
        roles: dict[StageName, Roles] = {}
        words = arc_scores.words if self.settings.vectors == "parser" else None
        for stage in self.learnt:
            if stage in OF_VINE:
                of_vine[stage] = self.scorers[stage](arc_scores.nodes, batch.on_host.lengths, words)
            elif stage != "own":
                roles[stage] = self.scorers[stage](arc_scores.nodes.vectors, words)
        return Words(vectors.detach(), batch, arc_scores, of_vine, roles)

    def candidates(
        self, scores: Any, lengths: NDArray[np.integer], decoder: Decoder, keep: NDArray[np.integer] | None = None
    ) -> Parts:
        """Candidate arcs for a decoder, a projective tree among them. In training every stage keeps the gold trees."""
        words: Words = scores
        if self.training and keep is not None:
            outcomes = self._learn(words, decoder.single_root).outcomes
        else:
            with torch.no_grad():
                outcomes = self.run(words, decoder.single_root)
        parts = with_trees(outcomes[self.stages[-1]].parts, keep)
        if not decoder.projective:
            dense = self._dense(words).detach().cpu().numpy()
            mask = prune(dense, lengths, self.max_heads, self.ratio, decoder.single_root, False)
            mask[sentence_of_arcs(parts), parts.modifier, parts.head] = True
            parts = Parts.from_dense(dense, lengths, mask)
        if self._watch is not None and not self.training:
            left: dict[str, Parts] = {stage: outcome.parts for stage, outcome in outcomes.items()}
            self._count(words, left if decoder.projective else left | {"all": parts}, decoder.single_root)
        return parts

    def loss(self, scores: Any, batch: Batch[Tensor], decoder: Decoder) -> Tensor:
        """Losses of all stages, and cross-entropy of the scores of all arcs, summed over sentences."""
        outcomes, trees = self._learn(scores, decoder.single_root)
        total = losses.head_cross_entropy(self._dense(scores), batch.heads)
        for stage, outcome in outcomes.items():
            if outcome.search is not None and stage in self.learning:
                total = total + stage_loss(outcome.search, outcome.scores, trees)
        return total

    @property
    def phases(self) -> int:  # type: ignore[override]
        return max(1, len(self.scorers)) if self.settings.stagewise else 1

    def start_phase(self, phase: int) -> None:
        self.learning = (tuple(self.scorers)[phase],) if self.settings.stagewise else tuple(self.scorers)

    def _learn(self, words: Words, single_root: bool) -> Learning:
        if words.learning is None:
            if "dictionary" in self.stages:
                self._see_lengths(words.batch)
            trees = self._trees(words, single_root)
            words.learning = Learning(self.run(words, single_root, trees), trees)
        return words.learning

    def _trees(self, words: Words, single_root: bool) -> NDArray[np.int64]:
        """(B, N) gold trees, made projective."""
        gold = words.batch.on_host.heads
        return projectivise(gold, words.lengths, single_root, lambda: self._dense(words).detach().cpu().numpy())

    def _dense(self, words: Words) -> Tensor:
        if words.dense is None:
            words.dense = self(words.vectors, words.batch)
        return words.dense

    def _see_lengths(self, batch: Batch[Tensor]) -> None:
        """Add the arcs of a batch of the training part to the dictionary."""
        tags: Tensor = getattr(batch, self.settings.tags)
        sentence, m = (batch.heads >= 0).nonzero(as_tuple=True)
        h = batch.heads[sentence, m]
        place = (tags[sentence, h] * len(self.longest) + tags[sentence, m]) * 2 + (m > h)
        self.longest.view(-1).scatter_reduce_(0, place, (m - h).abs().to(self.longest.dtype), "amax")
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.all_reduce(self.longest, torch.distributed.ReduceOp.MAX)

    def _dictionary(self, words: Words) -> tuple[LengthDictionary, NDArray[np.int64]]:
        """The dictionary, and the tag of each node.

        In a sentence with unknown tags every tag counts as padding, arcs of which have any length.
        """
        seen = self.longest.cpu().numpy()
        if not self.settings.directed:
            seen = np.broadcast_to(seen.max(-1, keepdims=True), seen.shape)
        longest = np.where(seen > 0, seen, self.settings.band).astype(np.int32)
        longest[PAD, PAD] = ANY_LENGTH
        tags = getattr(words.batch, self.settings.tags).cpu().numpy()
        node = np.arange(tags.shape[1]) <= words.lengths[:, None]
        unknown = (node & ((tags == UNKNOWN) | (tags == PAD))).any(1)
        return LengthDictionary(longest), np.where(unknown[:, None], PAD, tags)[node]

    def run(
        self,
        words: Words,
        single_root: bool,
        gold: NDArray[np.int64] | None = None,
        until: StageName | None = None,
    ) -> dict[StageName, Outcome]:
        """Let each stage prune what those before it left; there is a projective tree in what each of them leaves.

        Args:
            words: the batch.
            single_root: whether trees have exactly one modifier of the root.
            gold: (B, N) projective trees that all stages keep.
            until: the last stage to run.
        """
        lengths, band = words.lengths, self.settings.band
        in_gold = None if gold is None else image(gold, lengths, band)
        dictionary, tags = self._dictionary(words) if "dictionary" in self.stages else (None, None)
        kept = existing(lengths, band)
        if dictionary is not None and tags is not None:
            kept = _both(np.logical_and, kept, dictionary.vine(lengths, tags, band))
        if in_gold is not None:
            kept = _both(np.logical_or, kept, in_gold)

        def arcs_of(kept: Indices) -> Parts:
            return with_trees(expand(kept, lengths, dictionary, tags, single_root), gold)

        left = Outcome(partial(arcs_of, kept), None)
        outcomes: dict[StageName, Outcome] = {} if dictionary is None else {"dictionary": left}
        for stage, cut in zip(self.learnt, self.alpha.cpu().tolist()):
            alpha, judgement = self.loss_alpha[stage], self.settings.judgement(stage)
            cut -= TOLERANCE * abs(cut)
            tensors: tuple[Tensor, ...]
            if stage in OF_VINE:
                tensors = words.of_vine[stage]
                found = VineSearch(_arrays(tensors), lengths, kept, alpha, judgement, single_root)
                kept = Indices(*(strength >= cut for strength in found.strengths))
                if in_gold is not None:
                    kept = _both(np.logical_or, kept, in_gold)
                left = Outcome(partial(arcs_of, kept), found, tensors)
                if stage == "local_short" and "vine" in self.learnt:
                    kept.close[:, slot(-1, band)] = True  # each word the head of the next: a structure is left
            else:
                if stage == "own":
                    tensors = (torch.from_numpy(words.arc_scores(left.parts)),)
                else:
                    scorer = cast(CandidateScorer, self.scorers[stage])
                    tensors = scorer.score(words.roles[stage], words.arc_scores.nodes.starts, left.parts)
                filters = self.settings.second_filters
                arcs = ArcSearch(_arrays(tensors), left.parts, alpha, judgement, single_root, filters)
                parts = arcs.supported(cut)
                if judgement not in ("max_marginal", "odds"):  # else the best tree is left
                    parts = restore(parts, single_root, left.parts.with_scores(arc_score=arcs.scores[0]))
                left = Outcome(partial(with_trees, parts, gold), arcs, tensors)
            outcomes[stage] = left
            if stage == until:
                break
        return outcomes

    @torch.no_grad()
    def tune(self, batches: Sequence[Any], decoder: Decoder, reduce: Reduce) -> None:
        """Set alpha of stage after stage, each as high as may be; devices take the mean of what each finds."""
        error = self.settings.error
        if error is None:
            return
        every: list[tuple[Words, NDArray[np.int64], NDArray[np.bool_]]] = []
        for words in batches:
            trees, gold = self._trees(words, decoder.single_root), words.batch.on_host.heads
            every.append((words, trees, (gold >= 0) & (gold == trees)))
        before = self.alpha.cpu().tolist()
        for number, stage in enumerate(self.learnt):
            strengths = [np.empty(0)]
            for words, trees, projective in every:
                found = self.run(words, decoder.single_root, until=stage)[stage].search
                assert found is not None
                strengths.append(weakest(found.strength(trees), projective, self.settings.criterion))
            own = largest_alpha(np.concatenate(strengths), error, before[number])
            self.alpha[number] = reduce(torch.tensor(own, device=self.alpha.device), "mean")

    def watch(self) -> None:
        self._watch = Watch()

    def _count(self, words: Words, left: dict[str, Parts], single_root: bool) -> None:
        """Count arcs; projective gold arcs and those left; crossing ones likewise; the oracle; words; sentences."""
        assert self._watch is not None
        gold = words.batch.on_host.heads
        projective = (gold >= 0) & (gold == self._trees(words, single_root))
        crossing = (gold >= 0) & ~projective
        for stage, parts in left.items():
            there = np.zeros(gold.shape, dtype=np.bool_)
            arcs = parts.active(gold)["arc"]
            there[sentence_of_arcs(parts)[arcs], parts.modifier[arcs]] = True
            counts = [len(parts.head), projective.sum(), (projective & there).sum(), crossing.sum()]
            right = oracle(parts, gold, single_root, projective=stage != "all").sum()
            counts += [(crossing & there).sum(), right, words.lengths.sum()]
            counts += [(projective & ~there).any(1).sum(), len(gold)]
            self._watch.add(stage, counts)

    def figures(self, reduce: Reduce) -> dict[str, float]:
        """Return figures since `watch`: arcs per word, shares of gold arcs and of sentences lost, and the oracle.

        `all` is what decoders that are not projective get.
        """
        if self._watch is None:
            return {}
        figures: dict[str, float] = {}
        for stage, own in self._watch.counts.items():
            counts = reduce(torch.from_numpy(own).to(self.alpha.device), "sum").tolist()
            arcs, projective, left, crossing, crossing_left, right, words, losing, sentences = counts
            figures[f"{stage}/arcs_per_word"] = arcs / max(words, 1)
            figures[f"{stage}/error"] = 100 * (1 - left / max(projective, 1))
            figures[f"{stage}/sentence_error"] = 100 * losing / max(sentences, 1)
            if crossing:
                figures[f"{stage}/crossing_error"] = 100 * (1 - crossing_left / crossing)
            figures[f"{stage}/oracle_UAS"] = 100 * right / max(words, 1)
        for stage, alpha in zip(self.learnt, self.alpha.cpu().tolist()):
            figures[f"{stage}/alpha"] = alpha
        self._watch = None
        return figures


def _both(combine: Callable[..., NDArray[np.bool_]], one: Indices, other: Indices) -> Indices:
    return Indices(*(combine(a, b) for a, b in zip(one, other)))


def _arrays(scores: Sequence[Tensor]) -> tuple[NDArray[np.float32], ...]:
    return tuple(download([score.float() for score in scores]))
