"""Every tree of a short sentence, by enumeration: the answer that decoders are tested against.

Shares no code with the decoders. A tree is a tuple of heads whose place 0, the root's, holds -1.
"""

from functools import cache
from itertools import product

import numpy as np

Tree = tuple[int, ...]


def reaches_root(heads: Tree) -> bool:
    """Whether every word leads to the root, that is, whether the heads make a tree."""
    for m in range(1, len(heads)):
        seen = set()
        while m != 0:
            if m in seen:
                return False
            seen.add(m)
            m = heads[m]
    return True


def is_projective(heads: Tree) -> bool:
    """Whether no two arcs cross, those of the root included."""
    arcs = [(min(h, m), max(h, m)) for m, h in enumerate(heads) if m > 0]
    return not any(a < c < b < d for a, b in arcs for c, d in arcs)


def is_single_root(heads: Tree) -> bool:
    """Whether exactly one word hangs from the root."""
    return heads[1:].count(0) == 1


@cache
def trees(n: int, single_root: bool = False, projective: bool = False) -> list[Tree]:
    """All trees of n words, in the order of their heads."""
    if single_root:
        return [heads for heads in trees(n, projective=projective) if is_single_root(heads)]
    if projective:
        return [heads for heads in trees(n) if is_projective(heads)]
    return [heads for choice in product(range(n + 1), repeat=n) if reaches_root(heads := (-1, *choice))]


def tree_score(heads: Tree, arc: np.ndarray) -> float:
    """Sum of the scores of a tree's arcs, `arc[m, h]`."""
    return sum(float(arc[m, h]) for m, h in enumerate(heads) if m > 0)


def best_score(arc: np.ndarray, single_root: bool = False, projective: bool = False) -> float:
    """Score of the best tree, -inf if there is none."""
    return max(tree_score(heads, arc) for heads in trees(len(arc) - 1, single_root, projective))
