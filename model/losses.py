"""Losses of a batch, each summed over its sentences.

All take `arc` (B, N, N), `[b, m, h]`, the gold `heads` (B, N) and the `lengths` (B,) of the sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from arbora.decoders import Decoder, Parts, RelaxedTrees


def head_cross_entropy(arc: Tensor, heads: Tensor) -> Tensor:
    """Negative log-likelihood of each word's head by itself."""
    annotated = heads >= 0
    return F.cross_entropy(arc[annotated], heads[annotated], reduction="sum")


def crf(arc: Tensor, heads: Tensor, lengths: Tensor, single_root: bool, projective: bool) -> tuple[Tensor, Tensor]:
    """Negative log-likelihood of the gold tree among all (projective) trees.

    A gold tree outside of the set that is summed over (one that crosses, or has several roots) has no likelihood: such
    sentences add nothing.

    Returns:
        The loss, and the number of sentences whose gold tree is outside.
    """
    from arbora.model.crf import log_partition  # and with it torch_struct, which parsing does without

    inside = torch.ones_like(lengths, dtype=torch.bool)
    if single_root:
        inside &= (heads == 0).sum(1) == 1
    if projective:
        inside &= is_projective(heads)
    outside = (~inside).sum()
    if not inside.any():
        return (arc[:, 1:, 0] * 0).sum(), outside
    arc, heads, lengths = arc[inside], heads[inside], lengths[inside]
    likelihood = tree_score(arc.double(), heads) - log_partition(arc, lengths, single_root, projective)
    return -likelihood.sum().float(), outside


def hinge(
    arc: Tensor,
    heads: Tensor,
    parts: Parts,
    decoder: Decoder,
    score_some: Callable[[str, Tensor], Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Structured hinge, max_y [s(y) + cost(y)] - s(gold), where cost counts wrong heads (Taskar et al., 2004).

    Any decoder may search the best tree, on scores without gradients. One that returns a tree which scores below the
    gold tree has found no violation, and that sentence adds nothing. A gold tree that the decoder cannot return (one
    that crosses, for a projective decoder) still pulls its parts up wherever another tree comes within the margin.

    A decoder that gives the shares of parts in the solution of a relaxation (`AD3(fractional=True)`) puts this solution
    in place of the tree: a part scores, and a wrong arc costs, by its share. That margin is no less than the margin to
    any tree, so that it has no violation hidden by a search which failed.

    Args:
        arc: (B, N, N).
        heads: (B, N) gold heads, all of them candidates in `parts`.
        parts: of the batch, scored.
        decoder: searches the best tree.
        score_some: differentiable scores of those parts of a type that are asked for by their numbers.

    Returns:
        The loss, and the number of sentences with a violation.
    """
    gold = heads.cpu().numpy()
    sentence = np.repeat(np.arange(len(gold)), np.diff(parts.sentence_offsets))
    wrong = gold[sentence, parts.modifier] != parts.head
    trees = decoder(parts.with_scores(arc_score=parts.arc_score + wrong))
    shares = trees.shares if isinstance(trees, RelaxedTrees) else {}
    in_gold = parts.active(gold) if shares or score_some is not None else {}
    if shares:
        entries, change = _changes(*shares["arc"], in_gold["arc"])
        b, m, h = (
            torch.from_numpy(index[entries]).long().to(arc.device) for index in (sentence, parts.modifier, parts.head)
        )
        cost = torch.from_numpy(wrong[entries]).to(arc)
        margin = arc.new_zeros(len(arc)).index_add(0, b, torch.from_numpy(change).to(arc) * (arc[b, m, h] + cost))
    else:
        found = torch.from_numpy(trees.heads).long().to(arc.device)
        margin = tree_score(arc, found) - tree_score(arc, heads) + (found != heads).sum(1)
    if score_some is not None:
        in_found = shares or {kind: (fired, np.ones(len(fired))) for kind, fired in parts.active(trees.heads).items()}
        for kind in parts.kinds:
            entries, change = _changes(*in_found[kind], in_gold[kind])
            of_sentence = np.searchsorted(parts.part_offsets(kind), entries, side="right") - 1
            scores = score_some(kind, torch.from_numpy(entries).to(arc.device)).to(margin.dtype)
            signed = torch.from_numpy(change).to(margin) * scores
            margin = margin.index_add(0, torch.from_numpy(of_sentence).to(arc.device), signed)
    return margin.clamp(min=0).sum(), (margin > 0).sum()


def _changes(
    found: NDArray[np.int64], share: NDArray[np.float64], gold: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Parts whose share in what was found is not that in the gold tree, and by how much it is larger; all ascend."""
    place = np.searchsorted(found, gold)
    both = place < len(found)
    both[both] = found[place[both]] == gold[both]
    change = share.copy()
    change[place[both]] -= 1
    apart = np.abs(change) > 1e-9
    missed = gold[~both]
    return np.concatenate([found[apart], missed]), np.concatenate([change[apart], -np.ones(len(missed))])


Threshold = Callable[..., tuple[NDArray[np.float64], Sequence[NDArray[np.float64]]]]
"""From scores to (B,) values t, and their gradients in the shapes of the scores."""


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
        scores: of all that trees are made of, in any shapes.
        sentences: the sentence of each score, in the same shapes.
        gold: what gold trees are made of, likewise; of what is there at all.
        threshold: from scores to t.
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
        numbers = [score.detach().double().cpu().numpy() for score in scores]
        value, gradients = threshold(*numbers)
        loss = value + margin
        for score, sentence, fires in zip(numbers, sentences, gold):
            loss -= np.bincount(sentence[fires], score[fires], minlength=len(loss))
        violated = loss > 0
        ctx.save_for_backward(
            *(
                torch.from_numpy(violated[sentence] * (gradient - fires)).to(score)
                for score, sentence, gradient, fires in zip(scores, sentences, gradients, gold)
            )
        )
        return scores[0].new_tensor(loss[violated].sum())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return (None,) * 4 + tuple(gradients[0] * change for change in ctx.saved_tensors)


def tree_score(arc: Tensor, heads: Tensor) -> Tensor:
    """(B,) first-order scores of trees; differentiable."""
    picked = arc.gather(2, heads.clamp(min=0)[..., None]).squeeze(2)
    return picked.where(heads >= 0, 0.0).sum(1)


def is_projective(heads: Tensor) -> Tensor:
    """(B,) whether no two arcs of a tree cross, arcs from the root included; -1 stands for no head."""
    position = torch.arange(heads.shape[1], device=heads.device)
    left, right = torch.minimum(heads, position), torch.maximum(heads, position)
    starts_inside = (left[:, :, None] < left[:, None]) & (left[:, None] < right[:, :, None])
    crosses = starts_inside & (right[:, :, None] < right[:, None])
    both = (heads >= 0)[:, :, None] & (heads >= 0)[:, None]
    return ~(crosses & both).any(2).any(1)
