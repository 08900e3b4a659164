"""Random trees that benchmarks take for gold ones."""

import numpy as np


def projective_tree(n: int, rng: np.random.Generator) -> list[int]:
    """Random projective single-root tree: a random word heads a span, and what is left and right of it hangs below."""
    heads = [-1] * (n + 1)
    spans = [(1, n, 0)]
    while spans:
        first, last, head = spans.pop()
        m = int(rng.integers(first, last + 1))
        heads[m] = head
        spans += [(low, high, m) for low, high in ((first, m - 1), (m + 1, last)) if low <= high]
    return heads
