"""Check an installation: the command runs, a decoder finds a tree, and a model parses. Needs no extras."""

import subprocess
import sys

import numpy as np

import arbora
from arbora.decoders import MST, Parts

shown = subprocess.run(
    [sys.executable, "-m", "arbora.cli", "--version"], check=True, capture_output=True, text=True
).stdout
assert shown == f"arbora {arbora.__version__}\n", shown
subprocess.run([sys.executable, "-m", "arbora.cli", "--help"], check=True, stdout=subprocess.DEVNULL)
trees = MST()(Parts.from_dense(np.arange(9.0).reshape(1, 3, 3)))
assert trees.heads[0].tolist() == [-1, 2, 0], trees.heads
parsed = subprocess.run(
    [sys.executable, "-m", "arbora.cli", "predict", "english", "--input", "raw", "--quiet"],
    input="The dog barked.\n",
    check=True,
    capture_output=True,
    text=True,
).stdout
heads = [line.split("\t")[6] for line in parsed.splitlines() if line[:1].isdigit()]
assert heads == ["2", "3", "0", "3"], parsed
print(f"arbora {arbora.__version__} works in {sys.prefix}")
