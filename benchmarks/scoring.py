"""What does it cost to score higher-order parts, in time and memory, next to scoring arcs, and how does it grow?

Batches of 3,000 words in sentences of one length, 10 candidate heads per word, word vectors of 400, arcs by a biaffine
scorer of size 300, parts of rank 64; one thread. Times
are medians of the processor's, taken in turn; those of parts are ratios to scoring the arcs.

- `forward`: projections and scores of all parts.
- `+ backward`: the same with gradients of all scores.
- `learning`: forward without gradients, and then the gradient of a hinge loss, which concerns few parts.
- `build`: making `Parts` and the places of all parts, which only gradients need, as a share of the time of `forward`.
- `memory`: growth of the largest resident set over forward / forward and backward, in a process of its own.
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
from arbora.decoders.parts.kinds import COMMON
from arbora.decoders.pruning import prune
from arbora.model.scorers.biaffine import ArcScorer, Biaffine
from arbora.model.scorers.multilinear import Multilinear, PartScorer

WORDS, SIZE, HEADS = 3000, 400, 10
ORDERS: dict[str, tuple[str, ...]] = {
    "second order": ("grandparent", "sibling"),
    "all of second order": COMMON[:4],
    "all of third order": COMMON,
}


def seconds(runs: dict[str, Callable[[], object]], repeats: int = 9) -> dict[str, float]:
    """Median time of the processor for each of some calls, made in turn, after a first round."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats + 1):
        for name, run in runs.items():
            started = time.process_time()
            run()
            times[name].append(time.process_time() - started)
    return {name: statistics.median(found[1:]) for name, found in times.items()}


def megabytes() -> float:
    """The largest resident set so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(n: int, order: str) -> dict[str, float]:
    """Times in seconds and memory in megabytes."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    lengths = np.full(WORDS // n, n)
    scores = np.random.default_rng(1).normal(size=(len(lengths), n + 1, n + 1)).astype(np.float32)
    mask = prune(scores, lengths, HEADS, ratio=0.0)
    vectors = torch.randn(len(lengths), n + 1, SIZE, requires_grad=True)
    arc = ArcScorer(SIZE, Biaffine())
    scorer = PartScorer(SIZE, Multilinear(ORDERS[order]))
    parts = Parts.from_dense(scores, lengths, mask)
    places = scorer.places(parts, vectors.device)

    def arcs() -> None:
        with torch.no_grad():
            arc(vectors, torch.from_numpy(lengths))

    def arcs_backward() -> None:
        arc(vectors, torch.from_numpy(lengths))[:, 1:, 0].sum().backward()

    def build() -> None:
        made = scorer.places(Parts.from_dense(scores, lengths, mask), vectors.device)
        assert made.pairs.rows
        assert len(made.triples) == len(scorer.triples)

    def forward() -> dict[str, torch.Tensor]:
        with torch.no_grad():
            return scorer.score(scorer(vectors), places)

    def backward() -> None:
        torch.stack([score.sum() for score in scorer.score(scorer(vectors), places).values()]).sum().backward()

    scored = parts.with_scores(**{kind: score.numpy() for kind, score in forward().items()})
    active = {kind: torch.from_numpy(entries) for kind, entries in scored.active(MST()(parts).heads).items()}

    def learn() -> None:
        roles = scorer(vectors)
        with torch.no_grad():
            scorer.score(roles.detach(), places)
        some = [scorer.score_some(roles, places, kind, active[kind]).sum() for kind in scorer.kinds]
        torch.stack(some).sum().backward()

    arcs_backward()
    before = megabytes()
    forward()
    memory = megabytes()
    backward()
    figures = {"memory": memory - before, "memory, backward": megabytes() - before}
    runs = {"arcs": arcs, "forward": forward, "build": build, "learning": learn}
    return figures | seconds(runs | {"arcs, backward": arcs_backward, "backward": backward})


def main() -> None:
    """Print a table."""
    print(f"torch {torch.__version__}, {WORDS} words per batch, {HEADS} heads per word, one thread")
    print("| n | parts scored | arcs | forward | arcs, + backward | + backward | learning | build | memory |")
    print("|---|---|---|---|---|---|---|---|---|")
    for n in (25, 50, 100, 200):
        for order in ORDERS:
            with ProcessPoolExecutor(1, get_context("spawn")) as fresh:
                found = fresh.submit(measure, n, order).result()
            cells = (
                str(n),
                order,
                f"{1e3 * found['arcs']:.0f} ms",
                f"{found['forward'] / found['arcs']:.2f}",
                f"{1e3 * found['arcs, backward']:.0f} ms",
                f"{found['backward'] / found['arcs, backward']:.2f}",
                f"{found['learning'] / found['arcs, backward']:.2f}",
                f"{found['build'] / found['forward']:.2f}",
                f"{found['memory']:.0f} / {found['memory, backward']:.0f} MB",
            )
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
