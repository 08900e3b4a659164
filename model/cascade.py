"""The vine cascade as a pruner: light scorers, each of which leaves fewer arcs for the next.

Rush and Petrov (2012), "Vine pruning for efficient multi-pass dependency parsing". `arbora.decoders.cascade` has the
search; here are the scorers of its stages, on the parser's own encoder, and what they learn by. The last pass is the
parser itself, with any decoder: `model.pruner: Vine` and `model.decoder: Projective` are the parser of the paper, and
`configs/vine_cascade.yaml` trains it. The paper's other pruners are some of the stages:

    LENGTHDICTIONARY    stages: [dictionary]
    FIRSTONLY           stages: [dictionary, first]
    FIRSTANDSECOND      stages: [dictionary, first, second]
    VINECASCADE         stages: [dictionary, vine, first, second]
    VINEPOSTERIOR       the same with filter: posterior

The stages, for n words and a band of b: `dictionary`, O(n^2) lookups, or O(n b) before the vine; `vine`, O(n b^2), with
scores for n b close arcs and 4 n outer ones; `first` and `second`, O(A n) for the A arcs that are left, with scores for
these alone.

What an arc is worth in a stage is a number of at most 1, its strength: (M - mean) / (max - mean) of max-marginals M, so
that it is kept if its strength is at least alpha, or else its probability. Alpha is hence tuned without a search: it is
a quantile of the strengths of gold arcs.

Differs from the paper:
- The stages are trained together, beside the parser, where the paper trains one after the other. What a stage is given
  is what is left before it, and the gold tree.
- Gold trees that cross are replaced by the projective tree that has most of their arcs.
- Alpha of the loss stays as it is set. That of pruning is tuned on the development part after each epoch, each stage
  on what the stages before it left with the alpha they had, and is put to use in the next epoch: a checkpoint has the
  alpha with which it was evaluated. It may fall below 0: where few arcs are left, the mean is no low threshold.
- With `posterior` the second stage stays with max-marginals, as there are no probabilities of siblings to learn by.
- For decoders that are not projective more heads are added, see `Vine`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from arbora.data.batch import Batch
from arbora.data.vocabulary import PAD, UNKNOWN, Vocabulary
from arbora.decoders import Decoder, Eisner, Parts
from arbora.decoders import cascade as search
from arbora.decoders import vine as vines
from arbora.decoders.cascade import LengthDictionary
from arbora.decoders.projective import log_marginals, max_marginals
from arbora.decoders.pruning import oracle, prune
from arbora.decoders.vine import Indices
from arbora.model import losses
from arbora.model.biaffine import ArcScorer, Biaffine, Projection
from arbora.model.multilinear import Multilinear, PartScorer, Vectors
from arbora.model.pruner import Pruner, Pruning

StageName = Literal["dictionary", "vine", "first", "second"]
Filter = Literal["max_marginal", "posterior"]

STAGES: tuple[StageName, ...] = ("dictionary", "vine", "first", "second")
LEARNT: tuple[StageName, ...] = STAGES[1:]

ANY_LENGTH = 1 << 30
TOLERANCE = 1e-6
"""Arcs this little weaker than alpha are kept."""


@dataclass(frozen=True)
class Vine(Pruner):
    """A cascade of vine, first-order and second-order pruning by max-marginals (Rush and Petrov, 2012).

    Its losses do not reach the encoder, so that a pruner changes nothing else in the parser. A projective tree is
    always left. Decoders that are not projective get more heads, by the marginals of a scorer as `Shared` has it: what
    crosses is what a projective cascade loses.

    Args:
        max_heads: for decoders that are not projective, most heads of a word by this scorer, beside that in its best
            tree; projective ones do not get them.
        ratio: of these, heads less probable than this times the word's most probable one are left out.
        stages: some of dictionary, vine, first, second, in this order.
        band: words from a close head to its modifier, at most; arcs of tags that were not seen together go as far too.
        filter: what stages learn and prune by; `posterior` is for vine and first.
        alpha: of vine, first and second, in the filter loss, and in pruning until it is tuned: 0 prunes arcs below the
            mean, 1 all but the best tree; with `posterior`, the least probability of an arc. Unless given, 0.6 each,
            or 0.001 with `posterior`.
        error: alpha is tuned so that each stage loses at most this share of the gold arcs of the development part
            that are projective; null leaves alpha as it is.
        tags: those that the dictionary knows words by. Sentences with unknown tags are left alone by it.
        vine_size: size of the vectors that score close arcs and outer ones.
        arc_size: size of those that score arcs in `first` and `second`.
        sibling_rank: size of those that score siblings in `second`.
        dropout: on all of these; one mask for all words of a sentence.
        scorer: of the heads for decoders that are not projective; labels are not scored.
    """

    max_heads: int = 3
    ratio: float = 1e-3
    stages: tuple[StageName, ...] = STAGES
    band: int = 3
    filter: Filter = "max_marginal"
    alpha: tuple[float, float, float] | None = None
    error: float | None = 0.002
    tags: Literal["upos", "xpos"] = "upos"
    vine_size: int = 32
    arc_size: int = 50
    sibling_rank: int = 16
    dropout: float = 0.2
    scorer: Biaffine = Biaffine(arc=100)  # noqa: RUF009 - settings are frozen

    def __post_init__(self) -> None:
        super().__post_init__()
        stages = tuple(self.stages)
        if not stages or stages != tuple(stage for stage in STAGES if stage in stages):
            raise ValueError(f"pruner.stages must be some of {', '.join(STAGES)}, in this order, got {stages}")
        object.__setattr__(self, "stages", stages)
        if self.band < 1:
            raise ValueError(f"pruner.band must be at least 1, got {self.band}")
        shares = [*(self.alpha or ()), *(() if self.error is None else (self.error,))]
        if not all(0 <= share <= 1 for share in shares):
            raise ValueError(f"pruner.alpha and pruner.error must be in 0..1, got {self.alpha} and {self.error}")

    def build(self, vocabulary: Vocabulary, inputs: int, files: Path | None = None) -> Pruning:
        return Cascade(self, vocabulary, inputs)


class VineScorer(nn.Module):
    """Scores of a vine: for a word m and its close head h = m + d,  x_m U x_h + u x_h + v_d x_m,  and outer arcs by the
    vector of the one word that is known.
    """

    def __init__(self, inputs: int, band: int, size: int, dropout: float) -> None:
        super().__init__()
        self.band = band
        self.head = Projection(inputs, size, dropout)
        self.modifier = Projection(inputs, size, dropout)
        self.weight = nn.Parameter(torch.zeros(size + 1, size))
        self.of_modifier = nn.Linear(size, 2 * band + 2)  # distances of close heads, and outer heads of both sides
        self.of_head = nn.Linear(size, 2)  # outer modifiers of both sides
        nn.init.zeros_(self.of_modifier.weight)
        nn.init.zeros_(self.of_head.weight)

    def forward(self, vectors: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Scores as `Indices` has them, from words (B, N, inputs); nothing here is larger than B N band size."""
        b = self.band
        head, modifier = self.head(vectors), self.modifier(vectors)  # (B, N, size)
        near = F.pad(head, (0, 0, b, b)).unfold(1, 2 * b + 1, 1)  # (B, N, size, 2b + 1), a view
        rows = modifier @ self.weight[:-1] + self.weight[-1]
        products = (rows[:, :, None] @ near).squeeze(2)  # (B, N, 2b + 1)
        products = torch.cat([products[..., :b], products[..., b + 1 :]], -1)
        distances, outer_head = self.of_modifier(modifier).split([2 * b, 2], -1)
        position = torch.arange(vectors.shape[1], device=vectors.device)
        node = position <= lengths[:, None]
        word = node & (position > 0)
        return (products + distances)[word].float(), outer_head[word].float(), self.of_head(head)[node].float()


class Roles(NamedTuple):
    """Words as an arc stage has them."""

    modifier: Tensor  # (B, N, size)
    head: Tensor  # (B, N, size)
    siblings: Vectors | None


class CandidateScorer(nn.Module):
    """Scores x_m U x_h + u x_h of candidate arcs alone, and of their siblings if asked for."""

    def __init__(self, inputs: int, size: int, dropout: float, sibling_rank: int | None = None) -> None:
        super().__init__()
        self.head = Projection(inputs, size, dropout)
        self.modifier = Projection(inputs, size, dropout)
        self.weight = nn.Parameter(torch.zeros(size + 1, size))
        siblings = None if sibling_rank is None else Multilinear(("sibling",), sibling_rank, dropout)
        self.siblings = None if siblings is None else PartScorer(inputs, siblings)

    def forward(self, vectors: Tensor) -> Roles:
        """Words (B, N, inputs) in their roles."""
        rows = self.modifier(vectors) @ self.weight[:-1] + self.weight[-1]
        return Roles(rows, self.head(vectors), None if self.siblings is None else self.siblings(vectors))

    def score(self, roles: Roles, parts: Parts) -> tuple[Tensor, ...]:
        """Scores of candidate arcs, (A,), and of siblings."""
        device, N = roles.head.device, roles.head.shape[1]
        first = search.sentence_of_arcs(parts) * N
        m, h = (torch.from_numpy(first + words).to(device) for words in (parts.modifier, parts.head))
        arcs = (roles.modifier.flatten(0, 1).index_select(0, m) * roles.head.flatten(0, 1).index_select(0, h)).sum(-1)
        if self.siblings is None or roles.siblings is None:
            return (arcs.float(),)
        scores = self.siblings.score(roles.siblings, self.siblings.places(parts, device))
        return arcs.float(), scores["sibling"].float()


class _Search(ABC):
    """The search of one stage over a batch."""

    scores: tuple[Tensor, ...]
    posterior: bool

    @property
    @abstractmethod
    def sentences(self) -> Sequence[NDArray[np.int64]]:
        """The sentence of each score, in the shapes of `scores`."""

    @abstractmethod
    def fires(self, trees: NDArray[np.integer]) -> Sequence[NDArray[np.bool_]]:
        """Which scores projective trees (B, N) add up, in the shapes of `scores`."""

    @abstractmethod
    def threshold(self, *scores: NDArray[np.floating]) -> tuple[NDArray[np.float64], Sequence[NDArray[np.float64]]]:
        """(B,) thresholds, or log-partitions, and their gradients."""

    @abstractmethod
    def strength(self, trees: NDArray[np.integer]) -> NDArray[np.float64]:
        """(B, N) strengths of the arcs of trees; -inf where there is no arc, or no projective tree that has it."""

    def loss(self, trees: NDArray[np.integer]) -> Tensor:
        """Filter loss, or negative log-likelihood, of projective trees (B, N), summed over sentences."""
        margin = 0.0 if self.posterior else 1.0
        return losses.margins(self.scores, self.sentences, self.fires(trees), self.threshold, margin)

    def numbers(self) -> list[NDArray[np.float32]]:
        """Scores without gradients."""
        return [score.detach().float().cpu().numpy() for score in self.scores]


@dataclass
class _VineSearch(_Search):
    scores: tuple[Tensor, ...]
    lengths: NDArray[np.int64]
    allowed: Indices
    alpha: float
    posterior: bool
    single_root: bool

    @cached_property
    def strengths(self) -> Indices:
        """Strength of each arc of the vine."""
        vine = self._vine(*self.numbers())
        if self.posterior:
            return Indices(*map(_possible, vines.log_marginals(vine, self.single_root)[1]))
        best, marginals = vines.max_marginals(vine, self.single_root)
        means = search.thresholds(_flat(marginals), _flat(self.sentences), best, 0.0)
        return Indices(*(_strength(m, best[s], means[s]) for m, s in zip(marginals, self.sentences)))

    @cached_property
    def sentences(self) -> Indices:
        return search.sentences_of_vine(self.lengths, self.allowed)

    def fires(self, trees: NDArray[np.integer]) -> Indices:
        return vines.image(trees, self.lengths, self._band)

    def threshold(self, *scores: NDArray[np.floating]) -> tuple[NDArray[np.float64], Indices]:
        if self.posterior:
            return vines.log_marginals(self._vine(*scores), self.single_root)
        return search.vine_thresholds(self._vine(*scores), self.alpha, self.single_root)

    def strength(self, trees: NDArray[np.integer]) -> NDArray[np.float64]:
        """An arc beyond the band is as strong as the weaker of its outer arcs."""
        n = self.lengths
        sentence, m = np.nonzero(np.arange(trees.shape[1]) <= n[:, None])
        w, node = np.arange(len(m) - len(n)), np.flatnonzero(m > 0)
        sentence, m = sentence[node], m[node]
        h = trees[sentence, m]
        right = (h > m).astype(np.int64)
        near = np.abs(h - m) <= self._band
        head = node - m + np.maximum(h, 0)
        close = self.strengths.close[w, np.where(near, vines.slot(h - m, self._band), 0)]
        far = np.minimum(self.strengths.outer_head[w, right], self.strengths.outer_modifier[head, 1 - right])
        found = np.full(trees.shape, -np.inf)
        found[sentence, m] = np.where(h < 0, -np.inf, np.where(near, close, far))
        return found

    @property
    def _band(self) -> int:
        return self.allowed.close.shape[1] // 2

    def _vine(self, *scores: NDArray[np.floating]) -> vines.Vine:
        limited = (np.where(allowed, score, -np.inf) for score, allowed in zip(scores, self.allowed))
        return vines.Vine(self.lengths.astype(np.int32), *(score.astype(np.float32) for score in limited))


@dataclass
class _ArcSearch(_Search):
    scores: tuple[Tensor, ...]  # of arcs, and of siblings if there are two
    parts: Parts
    alpha: float
    posterior: bool
    single_root: bool

    @cached_property
    def strengths(self) -> NDArray[np.float64]:
        """(A,) strength of each arc."""
        if self.posterior:
            return _possible(log_marginals(self._candidates, self.single_root)[1])
        marginals, (sentence, *_) = max_marginals(self._candidates, self.single_root), self.sentences
        best = np.full(len(self.parts.lengths), -np.inf)
        np.maximum.at(best, sentence, marginals)
        return _strength(marginals, best[sentence], search.thresholds(marginals, sentence, best, 0.0)[sentence])

    @cached_property
    def sentences(self) -> list[NDArray[np.int64]]:
        offsets = [self.parts.sentence_offsets, *(self.parts.part_offsets(kind) for kind in self._kinds)]
        return [np.repeat(np.arange(len(starts) - 1), np.diff(starts)) for starts in offsets]

    def fires(self, trees: NDArray[np.integer]) -> list[NDArray[np.bool_]]:
        active = self._candidates.active(trees)
        fires = [np.zeros(len(score), dtype=np.bool_) for score in self.scores]
        for array, kind in zip(fires, ("arc", *self._kinds)):
            array[active[kind]] = True
        return fires

    def threshold(self, *scores: NDArray[np.floating]) -> tuple[NDArray[np.float64], Sequence[NDArray[np.float64]]]:
        if self.posterior:
            logz, probabilities = log_marginals(self._scored(*scores), self.single_root)
            return logz, (probabilities,)
        values, gradients = search.arc_thresholds(self._scored(*scores), self.alpha, self.single_root)
        return values, [gradients[kind] for kind in ("arc", *self._kinds)]

    def strength(self, trees: NDArray[np.integer]) -> NDArray[np.float64]:
        found = np.full(trees.shape, -np.inf)
        arcs = self.parts.active(trees)["arc"]
        found[self.sentences[0][arcs], self.parts.modifier[arcs]] = self.strengths[arcs]
        return found

    @property
    def _kinds(self) -> tuple[Literal["sibling"], ...]:
        return ("sibling",) if len(self.scores) > 1 else ()

    @cached_property
    def _candidates(self) -> Parts:
        return self._scored(*self.numbers())

    def _scored(self, *scores: NDArray[np.floating]) -> Parts:
        return self.parts.with_scores(**dict(zip(("arc_score", *self._kinds), scores)))


class Outcome(NamedTuple):
    """What a stage did with a batch."""

    parts: Parts  # candidate arcs that are left; their scores do not matter
    search: _Search | None  # the dictionary has none


@dataclass
class Words:
    """A batch as the stages have it."""

    vectors: Tensor  # (B, N, inputs), without gradients
    batch: Batch
    vine: tuple[Tensor, Tensor, Tensor] | None
    roles: dict[StageName, Roles]
    dense: Tensor | None = None  # (B, N, N), once asked for
    learning: tuple[dict[StageName, Outcome], NDArray[np.int64]] | None = None  # see `Cascade._learn`

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(B,) words of each sentence."""
        return self.batch.lengths.cpu().numpy()


@dataclass
class Watch:
    """What stages leave of a part of a treebank, as it is parsed."""

    counts: dict[StageName, NDArray[np.int64]]  # arcs; projective gold arcs, those left; crossing ones; oracle; words
    strengths: dict[StageName, list[NDArray[np.float64]]]  # of projective gold arcs that got as far


class Cascade(Pruning):
    """The stages of a cascade, built."""

    learns = True

    def __init__(self, settings: Vine, vocabulary: Vocabulary, inputs: int) -> None:
        super().__init__(settings)
        self.settings = settings
        self.stages = settings.stages
        posterior = settings.filter == "posterior"
        self.posterior: dict[StageName, bool] = {stage: posterior and stage != "second" for stage in LEARNT}
        given = settings.alpha or tuple(0.001 if self.posterior[stage] else 0.6 for stage in LEARNT)
        self.loss_alpha = dict(zip(LEARNT, given))
        self.register_buffer("alpha", torch.tensor(given))  # of pruning, by `LEARNT`
        self.register_buffer("next_alpha", torch.tensor(given))  # once training goes on
        self.alpha: Tensor
        self.next_alpha: Tensor
        if "dictionary" in self.stages:
            size = vocabulary.size(settings.tags)
            self.register_buffer("longest", torch.zeros(size, size, 2, dtype=torch.int32))  # 0 for what was not seen
            self.longest: Tensor
        self.vine = None
        if "vine" in self.stages:
            self.vine = VineScorer(inputs, settings.band, settings.vine_size, settings.dropout)
        self.scorers = nn.ModuleDict()
        for stage, rank in (("first", None), ("second", settings.sibling_rank)):
            if stage in self.stages:
                self.scorers[stage] = CandidateScorer(inputs, settings.arc_size, settings.dropout, rank)
        self.arc = ArcScorer(inputs, settings.scorer)
        self._watch: Watch | None = None

    def forward(self, vectors: Tensor, batch: Batch) -> Tensor:
        """Scores of all arcs, (B, N, N), by which decoders that are not projective get more heads."""
        scores: Tensor = self.arc(vectors.detach(), batch.lengths)
        return scores

    def prepare(self, vectors: Tensor, batch: Batch) -> Words:
        """The words of a batch as all stages need them; nothing here is n x n."""
        vectors = vectors.detach()
        vine = None if self.vine is None else self.vine(vectors, batch.lengths)
        roles = {cast(StageName, stage): scorer(vectors) for stage, scorer in self.scorers.items()}
        return Words(vectors, batch, vine, roles)

    def mask(
        self, scores: Any, lengths: NDArray[np.integer], decoder: Decoder, keep: NDArray[np.integer] | None = None
    ) -> NDArray[np.bool_]:
        """Candidate arcs (B, N, N) for a decoder.

        Args:
            scores: `Words`, from `prepare`.
            lengths: (B,) words of each sentence.
            decoder: says whether trees have one root, and whether they may cross.
            keep: (B, N) heads that are kept too. In training every stage keeps the heads of the batch.
        """
        words: Words = scores
        if self.training and keep is not None:
            outcomes = self._learn(words, decoder.single_root)[0]
        else:
            with torch.no_grad():
                outcomes = self._run(words, decoder.single_root)
        if self._watch is not None and not self.training:
            self._count(self._watch, words, outcomes, decoder.single_root)
        if decoder.projective:
            size = words.vectors.shape[1]
            mask = np.zeros((len(lengths), size, size), dtype=np.bool_)
            if keep is not None:
                sentence, m = np.nonzero(keep >= 0)
                mask[sentence, m, keep[sentence, m]] = True
        else:
            dense = self._dense(words).detach().cpu().numpy()
            mask = prune(dense, lengths, self.max_heads, self.ratio, decoder.single_root, False, keep)
        parts = outcomes[self.stages[-1]].parts
        mask[search.sentence_of_arcs(parts), parts.modifier, parts.head] = True
        return mask

    def loss(self, scores: Any, batch: Batch, decoder: Decoder) -> Tensor:
        """Losses of all stages, and cross-entropy of the scores of all arcs, summed over sentences."""
        outcomes, trees = self._learn(scores, decoder.single_root)
        total = losses.head_cross_entropy(self._dense(scores), batch.heads)
        for outcome in outcomes.values():
            if outcome.search is not None:
                total = total + outcome.search.loss(trees)
        return total

    def _learn(self, words: Words, single_root: bool) -> tuple[dict[StageName, Outcome], NDArray[np.int64]]:
        """What the stages do when each keeps the gold trees, and these, made projective."""
        if words.learning is None:
            self.alpha.copy_(self.next_alpha)
            if "dictionary" in self.stages:
                self._see_lengths(words.batch)
            heads = words.batch.heads.cpu().numpy()
            trees = projectivise(heads, words.lengths, single_root, self._dense(words).detach().cpu().numpy())
            words.learning = self._run(words, single_root, trees), trees
        return words.learning

    def _dense(self, words: Words) -> Tensor:
        if words.dense is None:
            words.dense = self(words.vectors, words.batch)
        return words.dense

    def _see_lengths(self, batch: Batch) -> None:
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
        longest = np.where(seen > 0, seen, self.settings.band).astype(np.int32)
        longest[PAD, PAD] = ANY_LENGTH
        tags = getattr(words.batch, self.settings.tags).cpu().numpy()
        node = np.arange(tags.shape[1]) <= words.lengths[:, None]
        unknown = (node & ((tags == UNKNOWN) | (tags == PAD))).any(1)
        return LengthDictionary(longest), np.where(unknown[:, None], PAD, tags)[node]

    def _run(self, words: Words, single_root: bool, gold: NDArray[np.int64] | None = None) -> dict[StageName, Outcome]:
        """Let each stage prune what those before it left; there is a projective tree in what each of them leaves.

        Args:
            words: the batch.
            single_root: whether trees have exactly one modifier of the root.
            gold: (B, N) projective trees that all stages keep.
        """
        lengths, band = words.lengths, self.settings.band
        in_gold = None if gold is None else vines.image(gold, lengths, band)
        dictionary, tags = self._dictionary(words) if "dictionary" in self.stages else (None, None)
        kept = vines.existing(lengths, band)
        if dictionary is not None and tags is not None:
            kept = _both(np.logical_and, kept, dictionary.vine(lengths, tags, band))
        if in_gold is not None:
            kept = _both(np.logical_or, kept, in_gold)
        outcomes: dict[StageName, Outcome] = {}
        if words.vine is not None:
            if dictionary is not None and self._watch is not None:  # all arcs: only if someone looks at them
                outcomes["dictionary"] = Outcome(search.expand(kept, lengths, dictionary, tags, single_root), None)
            found = _VineSearch(words.vine, lengths, kept, self.loss_alpha["vine"], self.posterior["vine"], single_root)
            kept = Indices(*(strength >= self._cut("vine") for strength in found.strengths))
            if in_gold is not None:
                kept = _both(np.logical_or, kept, in_gold)
        parts = add_arcs(search.expand(kept, lengths, dictionary, tags, single_root), gold)
        if words.vine is not None:
            outcomes["vine"] = Outcome(parts, found)
        elif dictionary is not None:
            outcomes["dictionary"] = Outcome(parts, None)
        for stage, roles in words.roles.items():
            scores = cast(CandidateScorer, self.scorers[stage]).score(roles, parts)
            arcs = _ArcSearch(scores, parts, self.loss_alpha[stage], self.posterior[stage], single_root)
            parts = search.restrict(parts, arcs.strengths >= self._cut(stage))
            if arcs.posterior:  # a word may have lost all of its heads; otherwise the best tree is left
                parts = search.restore(parts, single_root)
            parts = add_arcs(parts, gold)
            outcomes[stage] = Outcome(parts, arcs)
        return outcomes

    def _cut(self, stage: StageName) -> float:
        return float(self.alpha[LEARNT.index(stage)]) - TOLERANCE

    def watch(self) -> None:
        counts: dict[StageName, NDArray[np.int64]] = {stage: np.zeros(7, dtype=np.int64) for stage in self.stages}
        self._watch = Watch(counts, {stage: [] for stage in self.stages})

    def _count(self, watch: Watch, words: Words, outcomes: dict[StageName, Outcome], single_root: bool) -> None:
        gold = words.batch.heads.cpu().numpy()
        trees = projectivise(gold, words.lengths, single_root, self._dense(words).detach().cpu().numpy())
        projective = (gold >= 0) & (gold == trees)
        crossing = (gold >= 0) & ~projective
        for stage, (parts, found) in outcomes.items():
            left = np.zeros(gold.shape, dtype=np.bool_)
            arcs = parts.active(gold)["arc"]
            left[search.sentence_of_arcs(parts)[arcs], parts.modifier[arcs]] = True
            counts = [len(parts.head), projective.sum(), (projective & left).sum(), crossing.sum()]
            counts += [(crossing & left).sum(), oracle(parts, gold, single_root).sum(), words.lengths.sum()]
            watch.counts[stage] += np.array(counts)
            if found is not None:
                strength = found.strength(trees)[projective]
                watch.strengths[stage].append(strength[strength > -np.inf])

    def figures(self, reduce: Callable[[Tensor, str], Tensor], tune: bool) -> dict[str, float]:
        """What stages left since `watch`, by stage; alpha is tuned by it for when training goes on.

        Args:
            reduce: takes the `sum` or the `mean` of a tensor over devices.
            tune: whether to tune alpha.
        """
        if self._watch is None:
            return {}
        figures: dict[str, float] = {}
        error, device = self.settings.error, self.alpha.device
        for stage, counts in self._watch.counts.items():
            arcs, projective, left, crossing, crossing_left, right, words = reduce(
                torch.from_numpy(counts).to(device), "sum"
            ).tolist()
            figures[f"{stage}/arcs_per_word"] = arcs / max(words, 1)
            figures[f"{stage}/error"] = 100 * (1 - left / max(projective, 1))
            if crossing:
                figures[f"{stage}/crossing_error"] = 100 * (1 - crossing_left / crossing)
            figures[f"{stage}/oracle_UAS"] = 100 * right / max(words, 1)
            if stage in LEARNT:
                number = LEARNT.index(stage)
                if tune and error is not None:
                    own = largest_alpha(self._watch.strengths[stage], error, float(self.alpha[number]))
                    self.next_alpha[number] = reduce(torch.tensor(own, device=device), "mean")
                figures[f"{stage}/alpha"] = float(self.alpha[number])
        self._watch = None
        return figures


def largest_alpha(strengths: Sequence[NDArray[np.float64]], error: float, otherwise: float) -> float:
    """The largest alpha, up to 1, at which a stage loses at most a share of some arcs.

    Args:
        strengths: of the arcs.
        error: the share.
        otherwise: alpha if there are no arcs.
    """
    ascending = np.sort(np.concatenate([*strengths, np.empty(0)]))
    if len(ascending) == 0:
        return otherwise
    return float(ascending[min(int(error * len(ascending)), len(ascending) - 1)].clip(max=1))


def projectivise(
    heads: NDArray[np.int64], lengths: NDArray[np.int64], single_root: bool, scores: NDArray[np.floating]
) -> NDArray[np.int64]:
    """Projective trees with as many of the arcs of other trees as there can be; of such trees the likeliest.

    Args:
        heads: (B, N) trees, or parts of trees, where -1 stands for no head.
        lengths: (B,) words of each sentence.
        single_root: whether trees have exactly one modifier of the root.
        scores: (B, N, N) of arcs, -inf where there is none.
    """
    annotated = (heads >= 0).sum(1) == lengths
    proper = annotated & losses.is_projective(torch.from_numpy(heads)).numpy()
    if single_root:
        proper &= (heads == 0).sum(1) == 1
    rest = np.flatnonzero(~proper)
    if len(rest) == 0:
        return heads
    likely = np.exp(scores[rest] - scores[rest].max(-1, keepdims=True))
    arcs = likely / likely.sum(-1, keepdims=True) / (2 * heads.shape[1])  # less than one arc, all words together
    sentence, m = np.nonzero(heads[rest] >= 0)
    arcs[sentence, m, heads[rest][sentence, m]] += 1
    trees = heads.copy()
    found = Eisner(single_root)(Parts.from_dense(arcs, lengths[rest])).heads
    trees[rest, : found.shape[1]] = found
    return trees


def add_arcs(parts: Parts, heads: NDArray[np.integer] | None) -> Parts:
    """Candidate arcs, all scored 0, with those of trees (B, N) among them."""
    if heads is None:
        return parts
    size = heads.shape[1]
    sentence, m = np.nonzero(heads >= 0)
    word = parts.word_offsets[search.sentence_of_arcs(parts)] + parts.modifier - 1
    more = parts.word_offsets[sentence] + m - 1
    keys = np.unique(np.concatenate([word * size + parts.head, more * size + heads[sentence, m]]))
    offsets = np.searchsorted(keys, np.arange(parts.word_offsets[-1] + 1) * size)
    scores = np.zeros(len(keys), dtype=np.float32)
    return Parts(parts.lengths, (keys % size).astype(np.int32), scores, offsets[parts.word_offsets], offsets)


def _strength(
    marginals: NDArray[np.float64], best: NDArray[np.float64], mean: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(M - mean) / (max - mean), and exactly 1 for M = max, also where all are equal."""
    return 1 - (best - marginals) / np.maximum(best - mean, 1e-9 * (1 + np.abs(best)))


def _possible(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities as strengths: -inf for arcs of no tree."""
    return np.where(probability > 0, probability, -np.inf)


def _flat(indices: Sequence[NDArray]) -> NDArray:
    return np.concatenate([array.ravel() for array in indices])


def _both(combine: Callable[..., NDArray[np.bool_]], one: Indices, other: Indices) -> Indices:
    return Indices(*(combine(a, b) for a, b in zip(one, other)))
