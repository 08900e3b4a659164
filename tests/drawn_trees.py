"""Trees to draw, for hypothesis."""

from hypothesis import strategies as st


@st.composite
def trees(draw: st.DrawFn, length: int | None = None) -> list[int]:
    """Heads of trees of any shape, with one root or several, of so many words or of up to twelve."""
    n = draw(st.integers(1, 12)) if length is None else length
    order = draw(st.permutations(range(1, n + 1)))
    heads = [0] * n
    for i, word in enumerate(order):
        heads[word - 1] = draw(st.sampled_from([0, *order[:i]])) if i else 0
    return heads
