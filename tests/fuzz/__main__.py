"""Random inputs for as long as you like: `python -m tests.fuzz --what decoders --minutes 60`, from a checkout.

Every round draws its inputs from the seed and its own number. A failure prints the command that runs that round again.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from importlib import import_module

import numpy as np

HANG_SECONDS = 300.0
"""CPU time after which a round is said to hang: rounds take about a second, the first minutes if kernels compile."""

Round = Callable[[np.random.Generator, Counter[str]], None]


def main() -> int:
    """Run rounds until the time is over, a round fails, or so many are done; 1 if any failed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--what", choices=["decoders", "reader", "cli"], required=True)
    parser.add_argument("--minutes", type=float, default=1.0, help="stop after so many (default: %(default)s)")
    parser.add_argument("--rounds", type=int, help="stop after so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first round")
    parser.add_argument("--keep-going", action="store_true", help="report failures and continue")
    options = parser.parse_args()

    run_round: Round = import_module(f"tests.fuzz.{options.what}").run_round
    counts: Counter[str] = Counter()
    end = time.monotonic() + 60 * options.minutes
    number, failures = options.first, 0
    while time.monotonic() < end and (options.rounds is None or number - options.first < options.rounds):
        again = f"python -m tests.fuzz --what {options.what} --seed {options.seed} --first {number} --rounds 1"
        done = threading.Event()
        threading.Thread(target=_watch, args=(done, time.process_time(), again), daemon=True).start()
        try:
            run_round(np.random.default_rng([options.seed, number]), counts)
        except Exception:
            traceback.print_exc()
            failures += 1
            print(f"failed; to run it again: {again}", file=sys.stderr, flush=True)
            if not options.keep_going:
                break
        finally:
            done.set()
        number += 1
    total = ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))
    print(f"{options.what}: {number - options.first} rounds, {failures} failed; {total}")
    return int(failures > 0)


def _watch(done: threading.Event, start: float, again: str) -> None:
    """End the process if a round hangs. Kernels release the GIL, so this thread goes on."""
    while not done.wait(1):
        if time.process_time() - start > HANG_SECONDS:
            print(f"no end after {HANG_SECONDS:.0f} seconds; to run it again: {again}", file=sys.stderr, flush=True)
            os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
