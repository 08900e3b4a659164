"""The readers under atheris, which looks for inputs that reach new code: `python -m tests.fuzz.reader_coverage`.

Arguments are those of libFuzzer; a folder among them keeps the inputs that it found. Needs `pip install atheris`.
"""

import sys

import atheris
import numpy as np

with atheris.instrument_imports(include=["arbora.data"]):
    from tests.fuzz.reader import check_text, check_treebank


def test_one_input(data: bytes) -> None:
    """Read one input in all ways."""
    check_treebank(data[1:], np.random.default_rng(data[0] if data else 0))
    check_text(data[1:])


if __name__ == "__main__":
    atheris.Setup(sys.argv, test_one_input)
    atheris.Fuzz()
