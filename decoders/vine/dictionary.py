"""Length dictionary: the longest arcs seen between words of two tags, the first stage of a pruning cascade.

Rush and Petrov (2012), section 5: LENGTHDICTIONARY. Differs from the paper: the two sides of a head may differ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from arbora.decoders.kernels.options import FILLING
from arbora.decoders.parts.layout import LEFT, RIGHT
from arbora.decoders.vine.structures import Indices


@dataclass(frozen=True, eq=False)
class LengthDictionary:
    """The longest arcs seen between words of two tags.

    Args:
        longest: (T, T, 2) words from head to modifier at most, `[head tag, modifier tag, side]`, where the side says
            whether the modifier is to the left or to the right of its head. At least 1 everywhere, so that the tree
            in which each word is the head of the next is always left.
    """

    longest: NDArray[np.int32]

    def vine(self, lengths: ArrayLike, tags: NDArray[np.integer], band: int) -> Indices:
        """Return the arcs of the vine that the dictionary leaves: outer ones if any tag allows an arc beyond the band.

        Args:
            lengths: (B,) words of each sentence.
            tags: (W+B,) of each node, the roots among them.
            band: of the vine.
        """
        n = np.asarray(lengths, dtype=np.int64)
        words = int(n.sum())
        left = Indices(*(np.empty(shape, np.bool_) for shape in ((words, 2 * band), (words, 2), (len(tags), 2))))
        by_modifier, by_head = self.longest.max(0) > band, self.longest.max(1) > band
        _look_up(n, np.ascontiguousarray(tags, np.int64), band, self.longest, by_modifier, by_head, left)
        return left


@numba.njit(**FILLING)
def _look_up(lengths, tags, band, longest, by_modifier, by_head, left):
    """Fill in what `LengthDictionary.vine` gives; whether words of a tag have arcs beyond the band is known."""
    close, outer_head, outer_modifier = left
    w = node = 0
    for n in lengths:
        for m in range(n + 1):
            tag = tags[node + m]
            outer_modifier[node + m, 0], outer_modifier[node + m, 1] = by_head[tag, 0], by_head[tag, 1]
            if m > 0:
                outer_head[w, 0], outer_head[w, 1] = by_modifier[tag, 1], by_modifier[tag, 0]
                for d in range(1, band + 1):
                    close[w, band - d] = d <= m and d <= longest[tags[node + m - d], tag, RIGHT]
                    close[w, band + d - 1] = m + d <= n and d <= longest[tags[node + m + d], tag, LEFT]
                w += 1
        node += n + 1
