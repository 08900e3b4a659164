"""Losses of a batch, each summed over its sentences.

All take `arc` (B, N, N), `[b, m, h]`, the gold `heads` (B, N) and the `lengths` (B,) of the sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from arbora.decoders import Constraints, Decoder, Parts, RelaxedTrees
from arbora.decoders.dual.shares import share_changes
from arbora.decoders.trees import is_projective
from arbora.model.tensors import download, upload


def head_cross_entropy(arc: Tensor, heads: Tensor) -> Tensor:
    """Sum the negative log-likelihood of each word's head, independently of other words."""
    return F.cross_entropy(arc.flatten(0, 1), heads.flatten(), ignore_index=-1, reduction="sum")


IMPOSSIBLE = -1e8
"""Log-likelihood below which no tree agrees: arcs that are left out count with -1e9 among projective trees."""


def crf(arc: Tensor, heads: Tensor, lengths: Tensor, single_root: bool, projective: bool) -> tuple[Tensor, Tensor]:
    """Negative log-likelihood of the gold tree among all (projective) trees.

    If words have no gold head (-1), it is the likelihood of all trees that agree with the other heads. A gold tree that
    is not among the trees summed over (because arcs cross, or because of several root words) has no likelihood; such a
    sentence adds nothing. Heads and lengths are needed on the host.

    Returns:
        The loss, and the number of sentences whose gold tree is outside.
    """
    from arbora.model.crf import log_partition  # imports torch_struct, which parsing does not need

    known, sizes = heads.cpu().numpy(), lengths.cpu().numpy()
    whole = (known >= 0).sum(1) == sizes
    inside = np.ones_like(whole)
    if single_root:
        roots = (known == 0).sum(1)
        inside &= (roots == 1) | ((roots == 0) & ~whole)
    if projective:
        inside &= is_projective(known)
    outside = arc.new_full((), np.sum(~inside))
    rows = np.flatnonzero(inside)
    if not len(rows):
        return (arc[:, 1:, 0] * 0).sum(), outside
    partial = np.flatnonzero(~whole[rows])
    heads, lengths, chosen, some = upload([known[rows], sizes[rows], rows, partial], arc.device)
    arc = arc if inside.all() else arc.index_select(0, chosen)
    gold = tree_score(arc.double(), heads)
    if len(partial):
        agreeing = _agreeing(arc[some], heads[some], renumbered=not projective)
        gold = gold.index_put((some,), log_partition(agreeing, lengths[some], single_root, projective))
    likelihood = gold - log_partition(arc, lengths, single_root, projective)
    there = likelihood > IMPOSSIBLE  # else no projective tree agrees
    return -likelihood.where(there, 0.0).sum().float(), outside + (~there).sum()


def _agreeing(arc: Tensor, heads: Tensor, renumbered: bool) -> Tensor:
    """(B, N, N) scores with -inf for arcs that gold heads exclude.

    If words may be renumbered, word 1 is swapped with the gold root word, or with the first word that has no head. The
    sum over trees with a single root requires that all other words can be reached from word 1.
    """
    position = torch.arange(heads.shape[1], device=heads.device)
    excluded = (heads >= 0)[..., None] & (heads[..., None] != position)
    arc = arc.masked_fill(excluded, -torch.inf)
    if not renumbered:
        return arc
    first = torch.where((heads == 0).any(1), (heads == 0).int().argmax(1), (heads[:, 1:] < 0).int().argmax(1) + 1)
    order = position.repeat(len(heads), 1)
    order[:, 1] = first
    order.scatter_(1, first[:, None], 1)
    rows = torch.arange(len(heads), device=heads.device)[:, None, None]
    return arc[rows, order[:, :, None], order[:, None]]


def hinge(
    arc: Tensor,
    heads: Tensor,
    parts: Parts,
    decoder: Decoder,
    score_some: Callable[[str, Tensor], Tensor] | None = None,
    completion: NDArray[np.integer] | None = None,
) -> tuple[Tensor, Tensor]:
    """Structured hinge, max_y [s(y) + cost(y)] - s(gold), where cost counts wrong heads (Taskar et al., 2004).

    Any decoder can search for the best tree, on scores without gradients. If it returns a tree that scores less than
    the gold tree, it has found no violation, and the sentence adds nothing. If the decoder cannot return the gold tree
    (for example, a projective decoder and crossing arcs), the gold parts are still raised if another tree violates the
    margin.

    Words without a gold head (-1) cost nothing. The gold tree is then the best tree that agrees with the other heads
    (a latent hinge). The same decoder finds it; if it finds none, the caller's completion is used.

    If the decoder gives the shares of parts in the solution of a relaxation (`AD3(fractional=True)`), this solution
    replaces the tree: scores of parts and costs of wrong arcs are weighted by their shares. The loss is then at least
    as large as for any tree, so no violation is missed because of search errors.

    Args:
        arc: (B, N, N).
        heads: (B, N) gold heads, all of them candidates in `parts`; -1 for none. They are needed on the host.
        parts: of the batch, scored.
        decoder: searches for the best tree.
        score_some: gives differentiable scores of some parts of a kind, by their numbers.
        completion: (B, N) trees of candidates that agree with the gold heads; needed if some are missing.

    Returns:
        The loss, and the number of sentences with a violation.
    """
    known = heads.cpu().numpy()
    sentence = np.repeat(np.arange(len(known)), np.diff(parts.sentence_offsets))
    known_head = known[sentence, parts.modifier]
    wrong = (known_head != parts.head) & (known_head >= 0)
    gold = known
    if completion is not None:
        gold = completion.astype(np.int64)
        partial = np.flatnonzero((known >= 0).sum(1) < parts.lengths)
        best = decoder(Constraints(known[partial]).apply(parts.subset(partial)), on_error="skip").heads
        found_some = (best[:, 1:2] >= 0).any(1)
        gold[partial[found_some], : best.shape[1]] = best[found_some]
    trees = decoder(parts.with_scores(arc_score=parts.arc_score + wrong))
    shares = trees.shares if isinstance(trees, RelaxedTrees) else {}
    in_gold = parts.active(gold) if shares or score_some is not None else {}
    if shares:
        entries, change = share_changes(*shares["arc"], in_gold["arc"])
        places = [index[entries].astype(np.int64) for index in (sentence, parts.modifier, parts.head)]
        arrays = [*places, wrong[entries], change]
    else:
        arrays = [trees.heads.astype(np.int64), gold, known >= 0]
    if score_some is not None:
        in_found = shares or {kind: (fired, np.ones(len(fired))) for kind, fired in parts.active(trees.heads).items()}
        for kind in parts.kinds:
            entries, change = share_changes(*in_found[kind], in_gold[kind])
            arrays += [entries, change, np.searchsorted(parts.part_offsets(kind), entries, side="right") - 1]
    there = iter(upload(arrays, arc.device))
    if shares:
        b, m, h, cost, signed = islice(there, 5)
        margin = arc.new_zeros(len(arc)).index_add(0, b, signed.to(arc) * (arc[b, m, h] + cost.to(arc)))
    else:
        found, right, annotated = islice(there, 3)
        margin = tree_score(arc, found) - tree_score(arc, right) + ((found != right) & annotated).sum(1)
    for kind, numbers, signed, b in zip(parts.kinds, there, there, there):
        assert score_some is not None
        margin = margin.index_add(0, b, signed.to(margin) * score_some(kind, numbers).to(margin.dtype))
    return margin.clamp(min=0).sum(), (margin > 0).sum()


Threshold = Callable[..., tuple[NDArray[np.float64], Sequence[NDArray[np.float64]]]]
"""Computes (B,) values t from scores, and their gradients in the shapes of the scores."""


def margins(
    scores: Sequence[Tensor],
    sentences: Sequence[NDArray[np.int64]],
    gold: Sequence[NDArray[np.bool_]],
    threshold: Threshold,
    margin: float,
) -> Tensor:
    """max(0, margin + t - s(gold)), summed over sentences, where t is computed without torch.

    With the threshold of a pruning stage for t and a margin of 1 this is the filter loss (Weiss and Taskar, 2010), with
    the log-partition and no margin the negative log-likelihood.

    Args:
        scores: scores of all arcs or parts, in any shapes.
        sentences: the sentence of each score, in the same shapes.
        gold: mask of the arcs or parts of the gold trees, in the same shapes.
        threshold: computes t from scores.
        margin: by which gold trees should score above t.
    """
    loss: Tensor = _Margins.apply(sentences, gold, threshold, margin, *scores)  # type: ignore[no-untyped-call]
    return loss


class _Margins(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        sentences: Sequence[NDArray[np.int64]],
        gold: Sequence[NDArray[np.bool_]],
        threshold: Threshold,
        margin: float,
        *scores: Tensor,
    ) -> Tensor:
        numbers = download([score.double() for score in scores])
        value, gradients = threshold(*numbers)
        loss = value + margin
        for score, sentence, fires in zip(numbers, sentences, gold):
            loss -= np.bincount(sentence[fires], score[fires], minlength=len(loss))
        violated = loss > 0
        changes = [
            (violated[sentence] * (gradient - fires)).astype(np.float32)
            for sentence, gradient, fires in zip(sentences, gradients, gold)
        ]
        there = upload(changes, scores[0].device)
        ctx.save_for_backward(*(change.to(score) for change, score in zip(there, scores)))
        return scores[0].new_full((), loss[violated].sum())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return (None,) * 4 + tuple(gradients[0] * change for change in ctx.saved_tensors)


def tree_score(arc: Tensor, heads: Tensor) -> Tensor:
    """(B,) first-order scores of trees; differentiable."""
    picked = arc.gather(2, heads.clamp(min=0)[..., None]).squeeze(2)
    return picked.where(heads >= 0, 0.0).sum(1)
