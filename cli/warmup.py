"""`arbora warmup`: compile the kernels of decoders before their first use."""

import time
from collections.abc import Sequence

import numpy as np

from arbora.cli.options.warmup import parser
from arbora.decoders import Parts
from arbora.decoders.names import decoder_classes, named_decoders
from arbora.decoders.pruning import prune


def main(arguments: Sequence[str]) -> None:
    """Run `arbora warmup` with these arguments.

    Raises:
        ValueError: there is no such decoder.
    """
    names = parser().parse(arguments).decoders or list(decoder_classes())
    for name, decoder in named_decoders(",".join(names)).items():
        start = time.perf_counter()
        arc = np.random.default_rng(0).normal(size=(2, 14, 14))  # enough heads to run a cascade to its end
        arcs = Parts.from_dense(arc)
        decoder(arcs)
        scores = {kind: np.zeros(len(arcs.words(kind)), np.float32) for kind in decoder.takes}
        decoder(arcs.with_scores(**scores))
        prune(arc, [13, 13])
        print(f"{name}: {time.perf_counter() - start:.1f} s", flush=True)
