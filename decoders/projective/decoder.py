"""Exact decoding over projective trees, by arcs, siblings and grandparents.

The search uses the given kinds among `grandparent`, `sibling` and `grand_sibling`, in the charts of `siblings` and
`grandparents`, whose time and memory depend on the candidate arcs. Without such kinds, it may also use `Eisner`.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from arbora.decoders.kernels.threads import over_sentences
from arbora.decoders.parts.batch import Parts
from arbora.decoders.projective import grandparents, siblings
from arbora.decoders.projective.eisner import Eisner, check_found, take_best_heads
from arbora.decoders.projective.semirings import ALONE
from arbora.decoders.trees import Decoder, Trees

DENSE = 0.2
"""For arcs only: if at least this share of arcs are candidates, the chart of all arcs is faster."""


@dataclass(frozen=True)
class Projective(Decoder):
    """Best projective tree under arcs and the given kinds among siblings, grandparents and grand-siblings.

    `bound` and `certified` of its trees refer to projective trees: no projective tree scores more. Parts of other kinds
    are refused.

    Args:
        single_root: allow exactly one modifier of the root.
    """

    projective: ClassVar[bool] = True
    takes: ClassVar[frozenset[str]] = frozenset({"grandparent", "sibling", "grand_sibling"})
    single_root: bool = True

    def decode(self, parts: Parts) -> Trees:
        if not parts.kinds and len(parts.head) > DENSE * np.square(parts.lengths, dtype=np.int64).sum():
            return Eisner(self.single_root).decode(parts)
        heads, score, _ = search(parts, self.single_root, False, False)
        if not parts.kinds:
            take_best_heads(parts, self.single_root, heads, np.empty(len(score), dtype=np.bool_))
        return Trees(heads, score, bound=score, certified=np.ones(len(score), dtype=np.bool_))


def search(
    parts: Parts, single_root: bool, log: bool, with_marginals: bool
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
    """Return best trees (without marginals), scores or log-sums (B,), and marginals of arcs (A,) if asked for."""
    Projective(single_root).check(parts)
    parts.require_finite("a projective chart")
    heads = parts.empty_trees()
    goal = np.empty(len(parts.lengths))
    marginals = np.empty(len(parts.head) if with_marginals else 0)
    layout = parts.layout
    higher = parts.grandparent is not None or parts.grand_sibling is not None
    run = (grandparents if higher else siblings).run
    arcs = np.diff(parts.sentence_offsets).astype(np.float64)
    mode = log if log or with_marginals else ALONE
    over_sentences(
        lambda bs: run(bs, layout, single_root, mode, with_marginals, goal, heads, marginals),
        arcs * parts.lengths * (10 if log else 1) * (arcs / parts.lengths if higher else 1),
    )
    check_found(parts, goal > -np.inf, single_root)
    return heads, goal, marginals
