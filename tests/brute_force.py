"""Every tree of a short sentence and every part of it, by enumeration: the answer that decoders are tested against.

Shares no code with the decoders. A tree is a tuple of heads whose place 0, the root's, holds -1. A part is the words
that index its dense scores, the arcs (h, m) that are in a tree in which it fires, and the arcs that are not. The head
itself stands for START and END among the words.
"""

from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import combinations, pairwise, product

import numpy as np

Tree = tuple[int, ...]
Words = tuple[int, ...]
Arc = tuple[int, int]
Part = tuple[Words, frozenset[Arc], frozenset[Arc]]

KINDS = ("grandparent", "sibling", "any_sibling", "head_bigram", "grand_sibling", "tri_sibling")


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


def parts(mask: np.ndarray) -> dict[str, list[Part]]:
    """Every part of each type among candidate arcs, `mask[m, h]`; row 0 and the diagonal are not read.

    Parts whose present arcs make a cycle are listed too: `can_fire` tells them.
    """
    return _parts(len(mask), np.asarray(mask, dtype=bool).tobytes())


@lru_cache(maxsize=64)
def _parts(size: int, mask_bytes: bytes) -> dict[str, list[Part]]:
    mask = np.frombuffer(mask_bytes, dtype=bool).reshape(size, size)
    heads = {m: [h for h in range(size) if h != m and mask[m, h]] for m in range(1, size)}
    found: dict[str, list[Part]] = {kind: [] for kind in KINDS}

    def add(kind: str, words: Words, present: Iterable[Arc], absent: Iterable[Arc] = ()) -> None:
        found[kind].append((words, frozenset(present), frozenset(absent)))

    for m in heads:
        for h in heads[m]:
            for g in heads.get(h, ()):
                add("grandparent", (m, h, g), [(g, h), (h, m)])
        if m >= 2:
            for before, h in product(heads[m - 1], heads[m]):
                add("head_bigram", (m, h, before), [(before, m - 1), (h, m)])
    for h in range(size):
        left = [m for m in range(h - 1, 0, -1) if h in heads[m]]
        right = [m for m in range(h + 1, size) if h in heads[m]]
        for first, second in combinations(left + right, 2):
            add("any_sibling", (h, first, second), [(h, first), (h, second)])
        for modifiers in [left, right] if h > 0 else [right]:
            side = [h, *modifiers, h]  # START and END around them
            for i, j in combinations(range(len(side)), 2):
                present = {(h, side[k]) for k in (i, j) if 0 < k < len(side) - 1}
                absent = {(h, m) for m in side[i + 1 : j]}
                add("sibling", (h, side[i], side[j]), present, absent)
                for g in heads.get(h, ()):
                    add("grand_sibling", (g, h, side[i], side[j]), {(g, h)} | present, absent)
            for i, j, k in combinations(range(len(side)), 3):
                present = {(h, side[place]) for place in (i, j, k) if 0 < place < len(side) - 1}
                absent = {(h, m) for m in side[i + 1 : j] + side[j + 1 : k]}
                add("tri_sibling", (h, side[i], side[j], side[k]), present, absent)
    return found


def can_fire(present: Iterable[Arc]) -> bool:
    """Whether no two of these arcs make a cycle."""
    return not any((m, h) in present for h, m in present)


def fires(present: frozenset[Arc], absent: frozenset[Arc], heads: Tree) -> bool:
    """Whether a tree has all arcs of one set and none of the other."""
    arcs = {(h, m) for m, h in enumerate(heads) if m > 0}
    return present <= arcs and not absent & arcs


def fired(heads: Tree, mask: np.ndarray) -> dict[str, list[Words]]:
    """Words of the parts that fire in a tree, read off the tree, for sentences of any length.

    Arcs of the tree that are no candidates count as not being there.
    """
    size = len(heads)
    head = {m: heads[m] for m in range(1, size) if mask[m, heads[m]]}
    found: dict[str, list[Words]] = {kind: [] for kind in KINDS}
    found["grandparent"] = [(m, h, head[h]) for m, h in head.items() if h in head]
    found["head_bigram"] = [(m, h, head[m - 1]) for m, h in head.items() if m - 1 in head]
    for h in range(size):
        left = [m for m in range(h - 1, 0, -1) if head.get(m) == h]
        right = [m for m in range(h + 1, size) if head.get(m) == h]
        found["any_sibling"] += [(h, first, second) for first, second in combinations(left + right, 2)]
        for modifiers in [left, right] if h > 0 else [right]:
            side = [h, *modifiers, h]
            found["sibling"] += [(h, *pair) for pair in pairwise(side)]
            found["tri_sibling"] += [(h, *triple) for triple in zip(side, side[1:], side[2:])]
            if h in head:
                found["grand_sibling"] += [(head[h], h, *pair) for pair in pairwise(side)]
    return found


def score(heads: Tree, mask: np.ndarray, arc: np.ndarray, **higher: np.ndarray) -> float:
    """Score of a tree of up to seven words, -inf if it uses an arc that is no candidate.

    Args:
        heads: the tree.
        mask: (N, N) candidate arcs, `mask[m, h]`.
        arc: (N, N) scores, `arc[m, h]`.
        higher: (N, N, N) or (N, N, N, N) scores by type of parts, indexed by their words.
    """
    return float(scores([heads], mask, arc, **higher)[0])


def scores(several: list[Tree], mask: np.ndarray, arc: np.ndarray, **higher: np.ndarray) -> np.ndarray:
    """(T,) the `score` of each of several trees of one sentence, all at once."""
    mask = np.asarray(mask, dtype=bool)
    words, heads = np.arange(1, len(mask)), np.array(several)[:, 1:]  # (n,), (T, n)
    total = np.where(mask[words, heads], np.asarray(arc, dtype=np.float64)[words, heads], -np.inf).sum(1)
    used = (1 << ((words - 1) * len(mask) + heads)).sum(1)[:, None]  # (T, 1) arcs of each tree, as bits
    for kind, dense in higher.items():
        cells, present, absent = _bits(kind, len(mask), mask.tobytes())
        here = ((used & present) == present) & ((used & absent) == 0)  # (T, P)
        total += here @ np.asarray(dense, dtype=np.float64)[tuple(cells)]
    return total


@lru_cache(maxsize=512)
def _bits(kind: str, size: int, mask_bytes: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Parts of a type that can fire: words (3 or 4, P), and present and absent arcs (P,) as bits."""
    listed = [part for part in _parts(size, mask_bytes)[kind] if can_fire(part[1])]
    width = 4 if kind in ("grand_sibling", "tri_sibling") else 3
    words = np.array([words for words, _, _ in listed], dtype=np.int64).reshape(-1, width)

    def bits(arcs: frozenset[Arc]) -> int:
        return sum(1 << ((m - 1) * size + h) for h, m in arcs)

    present = np.array([bits(arcs) for _, arcs, _ in listed], dtype=np.int64)
    absent = np.array([bits(arcs) for _, _, arcs in listed], dtype=np.int64)
    return words.T, present, absent


def best_score(
    arc: np.ndarray,
    single_root: bool = False,
    projective: bool = False,
    mask: np.ndarray | None = None,
    **higher: np.ndarray,
) -> float:
    """Score of the best tree, -inf if there is none.

    Args:
        arc: (N, N) scores, `arc[m, h]`; -inf forbids an arc.
        single_root: only trees in which one word hangs from the root.
        projective: only projective trees.
        mask: (N, N) candidate arcs, all that do not score -inf unless given.
        higher: scores of higher-order parts as in `score`.
    """
    candidates = np.asarray(arc) > -np.inf if mask is None else (np.asarray(arc) > -np.inf) & mask
    return float(scores(trees(len(arc) - 1, single_root, projective), candidates, arc, **higher).max())
