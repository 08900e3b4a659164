"""`arbora warmup`: compile the kernels of decoders before their first use."""

import argparse
import time
from collections.abc import Sequence

import numpy as np

from arbora.decoders import Parts
from arbora.decoders.pruning import prune
from arbora.evaluation.variants import decoder_classes, parse_decoders

DESCRIPTION = """\
Compile the kernels of decoders in advance, for example in a container image or once for all jobs of a cluster. Kernels
that are already compiled are not compiled again. They are stored in the package, or in the folder that NUMBA_CACHE_DIR
names, and are valid for this kind of processor."""


def main(arguments: Sequence[str]) -> None:
    """Run `arbora warmup` with these arguments.

    Raises:
        ValueError: there is no such decoder.
    """
    parser = argparse.ArgumentParser(prog="arbora warmup", description=DESCRIPTION)
    parser.add_argument("decoders", nargs="*", help="decoders, such as mst ad3 (default: all)")
    names = parser.parse_args(arguments).decoders or list(decoder_classes())
    for variant in parse_decoders(",".join(names)):
        start = time.perf_counter()
        arc = np.random.default_rng(0).normal(size=(2, 14, 14))  # enough heads to run a cascade to its end
        arcs = Parts.from_dense(arc)
        variant.decoder(arcs)
        scores = {kind: np.zeros(len(arcs.words(kind)), np.float32) for kind in variant.decoder.takes}
        variant.decoder(arcs.with_scores(**scores))
        prune(arc, [13, 13])
        print(f"{variant.name}: {time.perf_counter() - start:.1f} s", flush=True)
