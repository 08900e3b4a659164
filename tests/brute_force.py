"""Every tree of a short sentence and every part of it, by enumeration: the answer that decoders are tested against.

Shares no code with the decoders. A tree is a tuple of heads whose place 0, the root's, holds -1. A part is the words
that index its dense scores, the arcs (h, m) that are in a tree in which it fires, and the arcs that are not. The head
itself stands for START and END among the words. A feature of whole trees is read off the tree: the words and numbers
that index its table of scores.
"""

import math
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import combinations, pairwise, product

import numpy as np

Tree = tuple[int, ...]
Words = tuple[int, ...]
Arc = tuple[int, int]
Part = tuple[Words, frozenset[Arc], frozenset[Arc]]

KINDS = ("grandparent", "sibling", "any_sibling", "head_bigram", "grand_sibling", "tri_sibling")
"""Types of parts that all decoders of higher order take."""

PARTS = (*KINDS, "grand_grandparent", "inner_sibling_grandchild", "outer_sibling_grandchild")
"""All kinds of parts."""

FEATURES = (
    "valency",
    "span",
    "neighbours",
    "crossing",
    "right_branching",
    "coordination",
    "conjunct",
)

CONJUNCTION, PUNCTUATION, BEFORE, AFTER = 5, 13, 18, 19
"""Tags: those of words are 0..17."""

CROSSINGS = [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 10), (11, math.inf)]


def dense_shape(kind: str, N: int) -> tuple[int, ...]:
    """Shape of the scores of a type for a sentence with N positions."""
    shapes: dict[str, tuple[int, ...]] = {
        **{part: (N,) * (3 if part in KINDS[:4] else 4) for part in PARTS},
        "valency": (N, 6, 6),
        "span": (N, 5, 3),
        "neighbours": (N, N, 20, 20),
        "crossing": (N, N, 7),
        "right_branching": (N,),
        "coordination": (N, N, N),
        "conjunct": (N, N, N),
    }
    return shapes[kind]


def reaches_root(heads: Tree) -> bool:
    """Return whether every word leads to the root, that is, whether the heads make a tree."""
    for m in range(1, len(heads)):
        seen = set()
        while m != 0:
            if m in seen:
                return False
            seen.add(m)
            m = heads[m]
    return True


def is_projective(heads: Tree) -> bool:
    """Return whether no two arcs cross, those of the root included."""
    arcs = [(min(h, m), max(h, m)) for m, h in enumerate(heads) if m > 0]
    return not any(a < c < b < d for a, b in arcs for c, d in arcs)


def is_single_root(heads: Tree) -> bool:
    """Return whether exactly one word hangs from the root."""
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


def parts(mask: np.ndarray, kinds: Iterable[str] = KINDS) -> dict[str, list[Part]]:
    """Every part of some types among candidate arcs, `mask[m, h]`; row 0 and the diagonal are not read.

    Parts whose present arcs are never in a tree together are listed too: `can_fire` tells them.
    """
    found = _parts(len(mask), np.asarray(mask, dtype=bool).tobytes())
    return {kind: found[kind] for kind in kinds}


@lru_cache(maxsize=64)
def _parts(size: int, mask_bytes: bytes) -> dict[str, list[Part]]:
    mask = np.frombuffer(mask_bytes, dtype=bool).reshape(size, size)
    heads = {m: [h for h in range(size) if h != m and mask[m, h]] for m in range(1, size)}
    found: dict[str, list[Part]] = {kind: [] for kind in PARTS}

    def add(kind: str, words: Words, present: Iterable[Arc], absent: Iterable[Arc] = ()) -> None:
        found[kind].append((words, frozenset(present), frozenset(absent)))

    for m in heads:
        for h in heads[m]:
            for g in heads.get(h, ()):
                add("grandparent", (m, h, g), [(g, h), (h, m)])
                for top in heads.get(g, ()):
                    add("grand_grandparent", (m, h, g, top), [(top, g), (g, h), (h, m)])
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
                if len(present) == 2:
                    for name, s in (("inner", side[i]), ("outer", side[j])):
                        for c in (m for m in heads if s in heads[m]):
                            words = (h, side[i], side[j], c)
                            add(f"{name}_sibling_grandchild", words, {(s, c)} | present, absent)
                for g in heads.get(h, ()):
                    add("grand_sibling", (g, h, side[i], side[j]), {(g, h)} | present, absent)
            for i, j, k in combinations(range(len(side)), 3):
                present = {(h, side[place]) for place in (i, j, k) if 0 < place < len(side) - 1}
                absent = {(h, m) for m in side[i + 1 : j] + side[j + 1 : k]}
                add("tri_sibling", (h, side[i], side[j], side[k]), present, absent)
    return found


def can_fire(present: Iterable[Arc]) -> bool:
    """Return whether these arcs give no word two heads, and make no cycle."""
    arcs = list(present)
    head = {m: h for h, m in arcs}
    reached = list(head)
    for _ in arcs:  # as many steps up as there are arcs lead out of any tree
        reached = [head[m] for m in reached if m in head]
    return len(head) == len(arcs) and not any(m in head for m in reached)


def fires(present: frozenset[Arc], absent: frozenset[Arc], heads: Tree) -> bool:
    """Return whether a tree has all arcs of one set and none of the other."""
    arcs = {(h, m) for m, h in enumerate(heads) if m > 0}
    return present <= arcs and not absent & arcs


def fired(
    heads: Tree, mask: np.ndarray, kinds: Iterable[str] = KINDS, tags: Tree | None = None
) -> dict[str, list[Words]]:
    """Words of the parts and features that fire in a tree, read off the tree, for sentences of any length.

    Arcs of the tree that are no candidates count as not being there. Tags are by position, 0 unless given.
    """
    size = len(heads)
    head = {m: heads[m] for m in range(1, size) if mask[m, heads[m]]}
    found: dict[str, list[Words]] = {kind: [] for kind in PARTS}
    found |= features(tuple(head.get(m, -1) for m in range(size)), tags)
    found["grand_grandparent"] = [
        (m, h, head[h], head[head[h]]) for m, h in head.items() if h in head and head[h] in head
    ]
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
            for inner, outer in pairwise(modifiers):
                for name, s in (("inner", inner), ("outer", outer)):
                    children = [c for c in head if head[c] == s]
                    found[f"{name}_sibling_grandchild"] += [(h, inner, outer, c) for c in children]
            if h in head:
                found["grand_sibling"] += [(head[h], h, *pair) for pair in pairwise(side)]
    return {kind: found[kind] for kind in kinds}


@lru_cache(maxsize=10_000)
def features(heads: Tree, tags: Tree | None = None) -> dict[str, list[Words]]:
    """Features that fire in a tree, in which words may be without a head, -1; tags are by position, 0 unless given."""
    n = len(heads) - 1
    tag = {m: tags[m] if tags else 0 for m in range(1, n + 1)} | {0: BEFORE, n + 1: AFTER}
    head = {m: h for m, h in enumerate(heads) if h >= 0}

    def above(m: int) -> list[int]:
        return [m, *above(head[m])] if m in head else [m]

    below = {h: [m for m in range(1, n + 1) if h in above(m)] for h in range(1, n + 1)}
    found: dict[str, list[Words]] = {kind: [] for kind in FEATURES}
    for h in range(1, n + 1):
        counted = [m for m in head if head[m] == h and tag[m] != PUNCTUATION]
        found["valency"].append((h, min(5, sum(m < h for m in counted)), min(5, sum(m > h for m in counted))))
        first, last = min(below[h]), max(below[h])
        tail = {PUNCTUATION: 1, AFTER: 2}.get(tag[last + 1], 0)
        found["span"].append((h, min(5, last - first + 1) - 1, tail))
        if h in head:
            found["neighbours"].append((h, head[h], tag[first - 1], tag[last + 1]))
    for m, h in head.items():
        outside = [x for x in range(min(h, m) + 1, max(h, m)) if x in head and not min(h, m) <= head[x] <= max(h, m)]
        found["crossing"] += [
            (m, h, number) for number, (least, most) in enumerate(CROSSINGS) if least <= len(outside) <= most
        ]
        if tag[m] == CONJUNCTION and m < h and h in head and head[h] < m:
            found["coordination"].append((m, h, head[h]))
            if head[h] in head:
                found["conjunct"] += [(m, conjunct, head[head[h]]) for conjunct in (h, head[h])]
    path = [0]
    while modifiers := [m for m in head if head[m] == path[-1] and tag[m] != PUNCTUATION]:
        path.append(max(modifiers))
    found["right_branching"].append((len(path) - 1,))
    return found


def score(heads: Tree, mask: np.ndarray, arc: np.ndarray, tags: Tree | None = None, **higher: np.ndarray) -> float:
    """Score of a tree of up to seven words, -inf if it uses an arc that is no candidate.

    Args:
        heads: the tree.
        mask: (N, N) candidate arcs, `mask[m, h]`.
        arc: (N, N) scores, `arc[m, h]`.
        tags: by position, 0 unless given.
        higher: scores by type, such as (N, N, N) or (N, N, N, N), indexed by words as `fired` has them.
    """
    return float(scores([heads], mask, arc, tags, **higher)[0])


def scores(
    several: list[Tree], mask: np.ndarray, arc: np.ndarray, tags: Tree | None = None, **higher: np.ndarray
) -> np.ndarray:
    """(T,) the `score` of each of several trees of one sentence, all at once."""
    mask = np.asarray(mask, dtype=bool)
    words, heads = np.arange(1, len(mask)), np.array(several)[:, 1:]  # (n,), (T, n)
    total = np.where(mask[words, heads], np.asarray(arc, dtype=np.float64)[words, heads], -np.inf).sum(1)
    used = (1 << ((words - 1) * len(mask) + heads)).sum(1)[:, None]  # (T, 1) arcs of each tree, as bits
    for kind, dense in higher.items():
        if kind in FEATURES:
            table = np.asarray(dense, dtype=np.float64)
            there = [tuple(h if m > 0 and mask[m, h] else -1 for m, h in enumerate(tree)) for tree in several]
            total += [sum(table[cell] for cell in features(tree, tags)[kind]) for tree in there]
            continue
        cells, present, absent = _bits(kind, len(mask), mask.tobytes())
        here = ((used & present) == present) & ((used & absent) == 0)  # (T, P)
        total += here @ np.asarray(dense, dtype=np.float64)[tuple(cells)]
    return total


@lru_cache(maxsize=512)
def _bits(kind: str, size: int, mask_bytes: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Parts of a type that can fire: words (3 or 4, P), and present and absent arcs (P,) as bits."""
    listed = [part for part in _parts(size, mask_bytes)[kind] if can_fire(part[1])]
    width = len(dense_shape(kind, size))
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
