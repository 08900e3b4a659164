"""Compile the kernels of every decoder into the cache of the installed package, so that no first use has to wait."""

import time
from collections.abc import Iterator
from inspect import isabstract

import numpy as np

from arbora.decoders import Decoder, Parts
from arbora.decoders.pruning import prune


def concrete(parent: type[Decoder]) -> Iterator[type[Decoder]]:
    for kind in parent.__subclasses__():
        yield from concrete(kind)
        if not isabstract(kind):
            yield kind


def main() -> None:
    """Decode two small sentences with every decoder, by arcs and by all parts that it takes."""
    random = np.random.default_rng(0)
    arc = random.normal(size=(2, 6, 6))
    arcs = Parts.from_dense(arc)
    for decoder in sorted(concrete(Decoder), key=lambda kind: kind.__name__):
        start = time.perf_counter()
        scores = {kind: random.normal(size=len(arcs.words(kind))) for kind in decoder.takes}
        for single_root in (True, False):
            decoder(single_root=single_root)(arcs)
            decoder(single_root=single_root)(arcs.with_scores(**scores))
        print(f"{decoder.__name__}: {time.perf_counter() - start:.0f} s", flush=True)
    prune(arc, [5, 5])


if __name__ == "__main__":
    main()
