"""What does it cost to score higher-order parts, in time and memory, beside scoring arcs, and how does it grow?

Batches of 3,000 words in sentences of one length, 10 candidate heads a word, word vectors of 400, arcs by a biaffine
scorer of size 300, parts of rank 64; one thread. Times are medians; those of parts are ratios to scoring the arcs.

- `forward`: projections and scores of all parts.
- `+ backward`: the same with gradients of all scores.
- `learning`: forward without gradients, and then the gradient of a hinge loss, which concerns few parts.
- `build`: making `Parts` and the places of all parts, as a share of the time of `forward`.
- `memory`: growth of the largest resident set over forward and backward, in a process of its own.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import torch

from arbora.decoders import MST, Parts
from arbora.decoders.parts import KINDS, Kind
from arbora.decoders.pruning import prune
from arbora.model.biaffine import ArcScorer, Biaffine
from arbora.model.multilinear import Multilinear, PartScorer

WORDS, SIZE, HEADS = 3000, 400, 10
ORDERS: dict[str, tuple[Kind, ...]] = {
    "second order": ("grandparent", "sibling"),
    "all of second order": KINDS[:4],
    "all of third order": KINDS,
}


def seconds(run: Callable[[], object], repeats: int = 9) -> float:
    """Median time of the processor for a call, after a first one."""
    run()
    times = []
    for _ in range(repeats):
        started = time.process_time()
        run()
        times.append(time.process_time() - started)
    return statistics.median(times)


def megabytes() -> float:
    """The largest resident set so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(n: int, order: str | None) -> dict[str, float]:
    """Times in seconds and memory in megabytes, of arcs without an order, else of parts."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    lengths = np.full(WORDS // n, n)
    scores = np.random.default_rng(1).normal(size=(len(lengths), n + 1, n + 1)).astype(np.float32)
    mask = prune(scores, lengths, HEADS, ratio=0.0)
    vectors = torch.randn(len(lengths), n + 1, SIZE, requires_grad=True)
    if order is None:
        arc = ArcScorer(SIZE, Biaffine())
        before = megabytes()
        figures = {
            "forward": seconds(lambda: arc(vectors, torch.from_numpy(lengths)).detach()),
            "+ backward": seconds(lambda: arc(vectors, torch.from_numpy(lengths))[:, 1:, 0].sum().backward()),
        }
        return figures | {"memory": megabytes() - before}

    scorer = PartScorer(SIZE, Multilinear(ORDERS[order]))
    parts = Parts.from_dense(scores, lengths, mask)
    places = scorer.places(parts, vectors.device)
    with torch.no_grad():
        first = {kind: score.numpy() for kind, score in scorer.score(scorer(vectors), places).items()}
    tree = MST()(parts).heads
    active = {kind: torch.from_numpy(entries) for kind, entries in parts.with_scores(**first).active(tree).items()}

    def build() -> None:
        scorer.places(Parts.from_dense(scores, lengths, mask), vectors.device)

    def forward() -> None:
        with torch.no_grad():
            scorer.score(scorer(vectors), places)

    def backward() -> None:
        torch.stack([score.sum() for score in scorer.score(scorer(vectors), places).values()]).sum().backward()

    def learn() -> None:
        roles = scorer(vectors)
        with torch.no_grad():
            scorer.score(roles.detach(), places)
        some = [scorer.score_some(roles, places, kind, active[kind]).sum() for kind in scorer.kinds]
        torch.stack(some).sum().backward()

    before = megabytes()
    figures = {"forward": seconds(forward), "learning": seconds(learn), "+ backward": seconds(backward)}
    figures["memory"] = megabytes() - before
    return figures | {"build": seconds(build)}


def main() -> None:
    """Print a table."""
    print(f"torch {torch.__version__}, {WORDS} words a batch, {HEADS} heads a word, one thread")
    print("| n | parts scored | forward | + backward | learning | build | memory |\n|---|---|---|---|---|---|---|")
    for n in (25, 50, 100, 200):
        arcs = {}
        for order in (None, *ORDERS):
            with ProcessPoolExecutor(1, get_context("spawn")) as fresh:
                found = fresh.submit(measure, n, order).result()
            if order is None:
                arcs = found
                times = f"{1e3 * found['forward']:.1f} ms | {1e3 * found['+ backward']:.1f} ms | | "
            else:
                ratios = (found["forward"] / arcs["forward"], found["+ backward"] / arcs["+ backward"])
                learning = found["learning"] / arcs["+ backward"]
                times = f"{ratios[0]:.2f} | {ratios[1]:.2f} | {learning:.2f} | {found['build'] / found['forward']:.2f}"
            print(f"| {n} | {order or 'arcs'} | {times} | {found['memory']:.0f} MB |", flush=True)


if __name__ == "__main__":
    main()
