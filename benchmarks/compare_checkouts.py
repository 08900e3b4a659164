"""Do two checkouts decode alike, how fast is each, and how long does each compile?

Every decoder runs on saved scores (folders of `arbora compare --save-parts`) in both checkouts, each with its own
interpreter. Trees, scores, bounds, certificates and counters must be the same, bit for bit; the exit code is 1 if any
differ. One line is printed per folder, order and decoder, with the number of sentences in which each of these differs.
`heads 22 (0 certified), score 22 (15 higher)`: 22 trees differ, none of them certified in both checkouts, and 15 of the
new ones score higher.

    python benchmarks/compare_checkouts.py OLD NEW --parts A.parts B.parts
    python benchmarks/compare_checkouts.py OLD NEW --parts A.parts --decoders 'MST()' 'AD3(max_iterations=50)' --runs 15
    python benchmarks/compare_checkouts.py OLD NEW --parts A.parts --runs 0 --compile 3

OLD and NEW are checkouts with an environment in `.venv`, or interpreters. Runs alternate between the two, with the
first one swapped each time; times are CPU time of one thread, and `new/old` is the median of the ratios of the pairs,
with its quartiles. `--compile` starts each decoder several times with an empty cache of kernels, on two sentences, and
shows the median CPU time of the first call in seconds, import excluded. Decoders are written as in Python. Do not
compare decoders that are limited by the clock: they do not give the same trees twice.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

DECODERS = [
    "MST()",
    "Eisner()",
    "Projective()",
    "VineCascade()",
    "Greedy()",
    "Greedy(beam=4)",
    "HillClimbing()",
    "AD3()",
    "Subgradient()",
    "BranchAndBound(max_nodes=20)",
]
ORDERS = {1: (), 2: ("grandparent", "sibling", "any_sibling", "head_bigram"), 3: ("grand_sibling", "tri_sibling")}
LEAST_SECONDS = 0.1
"""A decoder that takes less runs several times in one timed run."""


def compare() -> int:
    """Compare two checkouts; 1 if they differ anywhere."""
    arguments = _arguments()
    workers = [Worker(path, arguments.limit) for path in (arguments.old, arguments.new)]
    different = False
    rows = []
    print(f"{'parts':<20} {'order':<5} {'decoder':<32} {'results':<28} {'old ms':>8} {'new ms':>8}  new/old")
    for folder in arguments.parts:
        for order in arguments.orders:
            for decoder in arguments.decoders:
                case = {"folder": str(Path(folder).resolve()), "order": order, "decoder": decoder}
                row = {**case, "results": _same(workers, case)}
                if row["results"] == "skip":
                    continue
                different |= row["results"] != "same"
                if "failed" not in row["results"] and arguments.runs:
                    row |= _time(workers, case, arguments.runs)
                rows.append(row)
                _print(row)
    highest = {row["decoder"]: row for row in rows}
    for row in highest.values() if arguments.compile else ():
        case = {name: row[name] for name in ("folder", "order", "decoder")}
        rows.append({**case, "results": "compile", **_compile(arguments, case)})
        _print(rows[-1])
    if arguments.output:
        Path(arguments.output).write_text(json.dumps(rows, indent=1) + "\n")
    return int(different)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="checkout or interpreter to compare with")
    parser.add_argument("new", help="checkout or interpreter")
    parser.add_argument("--parts", nargs="+", required=True, help="folders of `arbora compare --save-parts`")
    parser.add_argument("--decoders", nargs="+", default=DECODERS, help="such as 'AD3(max_iterations=50)'")
    parser.add_argument("--orders", nargs="+", type=int, default=[1, 2, 3], choices=ORDERS)
    parser.add_argument("--limit", type=int, default=300, help="sentences of each folder, spread over their lengths")
    parser.add_argument("--runs", type=int, default=5, help="timed runs of each checkout, 0 for none")
    parser.add_argument("--compile", type=int, default=0, help="cold starts of each checkout per decoder, 0 for none")
    parser.add_argument("-o", "--output", help="JSON file for the figures")
    return parser.parse_args()


def _print(row: dict[str, Any]) -> None:
    name = f"{Path(row['folder']).stem:<20} {row['order']:<5} {row['decoder']:<32} {row['results']:<28}"
    if "old" not in row:
        print(name, flush=True)
        return
    unit = 1000 if row["results"] != "compile" else 1
    old, new = (unit * statistics.median(row[side]) for side in ("old", "new"))
    ratios = np.quantile(np.array(row["new"]) / np.array(row["old"]), [0.5, 0.25, 0.75])
    end = "s" if unit == 1 else ""
    print(f"{name} {old:8.1f} {new:8.1f}{end}  {ratios[0]:.3f} ({ratios[1]:.3f}–{ratios[2]:.3f})", flush=True)


def _same(workers: list[Worker], case: dict[str, Any]) -> str:
    """`same`, or what differs and in how many sentences."""
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder) / f"{number}.npz") for number in range(2)]
        answers = [worker.ask({**case, "file": file}) for worker, file in zip(workers, files)]
        if any(answer.get("skip") for answer in answers):
            return "skip"
        for side, answer in zip(("old", "new"), answers):
            if "error" in answer:
                return f"{side} failed: {answer['error']}"
        old, new = (dict(np.load(file)) for file in files)
    differences = []
    for name in sorted(old.keys() & new.keys()):
        # Widths may differ, and NaN is equal to itself.
        unequal = old[name] != new[name] if old[name].shape == new[name].shape else np.ones(1, bool)
        if old[name].dtype.kind == "f" and unequal.shape == old[name].shape:
            unequal &= ~(np.isnan(old[name]) & np.isnan(new[name]))
        where = unequal.reshape(len(unequal), -1).any(1)
        if where.any():
            detail = ""
            if name == "heads" and where.shape == old["certified"].shape == new["certified"].shape:
                detail = f" ({(where & old['certified'] & new['certified']).sum()} certified)"
            elif name == "score" and where.shape == old[name].shape:
                detail = f" ({(new[name] > old[name]).sum()} higher)"
            differences.append(f"{name} {where.sum()}{detail}")
    differences += sorted(old.keys() ^ new.keys())
    return ", ".join(differences) or "same"


def _time(workers: list[Worker], case: dict[str, Any], runs: int) -> dict[str, list[float]]:
    """CPU seconds of each run of each checkout."""
    once = max(worker.ask(case)["seconds"] for worker in workers)
    case = {**case, "repeats": int(min(max(1, LEAST_SECONDS / once), 1000))}
    seconds: tuple[list[float], list[float]] = ([], [])
    for run in range(runs):
        for side in (0, 1) if run % 2 == 0 else (1, 0):
            seconds[side].append(workers[side].ask(case)["seconds"])
    return {"old": seconds[0], "new": seconds[1]}


def _compile(arguments: argparse.Namespace, case: dict[str, Any]) -> dict[str, list[float]]:
    """CPU seconds of the first call with nothing compiled."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for start in range(arguments.compile):
        for side in (0, 1) if start % 2 == 0 else (1, 0):
            with tempfile.TemporaryDirectory() as cache:
                worker = Worker((arguments.old, arguments.new)[side], 2, cache)
                seconds[side].append(worker.ask(case).get("seconds", float("nan")))
                worker.stop()
    return {"old": seconds[0], "new": seconds[1]}


class Worker:
    """A process of one checkout that answers requests, one line of JSON each."""

    def __init__(self, checkout: str, limit: int, cache: str | None = None) -> None:
        path = Path(checkout)
        python = path / ".venv" / "bin" / "python" if path.is_dir() else path
        environment = {**os.environ, "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        if cache:
            environment["NUMBA_CACHE_DIR"] = cache
        self._process = subprocess.Popen(
            [str(python.absolute()), __file__, "--worker", str(limit)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=tempfile.gettempdir(),
        )

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"{self._process.args}: ended with code {self._process.wait()}")  # type: ignore[str-bytes-safe]
        answer: dict[str, Any] = json.loads(line)
        return answer

    def stop(self) -> None:
        """End the process."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def work(limit: int) -> None:
    """Answer requests of `compare` in the checkout of this interpreter."""
    from arbora import decoders
    from arbora.evaluation.saved import load

    opened: dict[tuple[str, int], list[Any]] = {}
    restricted: dict[tuple[Any, ...], list[Any]] = {}
    for line in sys.stdin:
        request = json.loads(line)
        folder, order = request["folder"], request["order"]
        try:
            if not (decoder := _build(decoders, request["decoder"])):
                raise ValueError("this checkout has no such decoder")
            if folder not in opened:
                scored = load(folder)
                # Batches are sorted by length: regular steps give all lengths their share.
                step = max(1, len(scored.sentences) // limit)
                chosen = np.zeros(len(scored.sentences), bool)
                chosen[scored.position[::step][:limit]] = True
                opened[folder] = scored.subset(chosen).batches
            wanted = [kind for number, kinds in ORDERS.items() if number <= order for kind in kinds]
            key = (folder, *(kind for kind in wanted if kind in opened[folder][0].kinds and kind in decoder.takes))
            if order > 1 and not set(key) & set(ORDERS[order]):
                answer: dict[str, Any] = {"skip": True}  # the decoder has no parts of this order: the same as before
            else:
                if key not in restricted:
                    restricted[key] = [parts.only(*key[1:]) for parts in opened[folder]]
                start = time.process_time()
                for _ in range(request.get("repeats", 1)):
                    found = [decoder(parts) for parts in restricted[key]]
                answer = {"seconds": (time.process_time() - start) / request.get("repeats", 1)}
                if "file" in request:
                    np.savez(request["file"], **_results(found))
        except Exception as error:  # continue with the next decoder
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


def _build(decoders: Any, text: str) -> Any:
    """A decoder written as a call with literal settings; None if there is none of the name."""
    call = ast.parse(text, mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
        raise ValueError(f"write a decoder as 'AD3(max_iterations=50)', not {text}")
    kind = getattr(decoders, call.func.id, None)
    return kind and kind(**{setting.arg: ast.literal_eval(setting.value) for setting in call.keywords if setting.arg})


def _results(found: list[Any]) -> dict[str, Any]:
    """All arrays with one entry or row per sentence that trees have, by name."""
    results: dict[str, list[Any]] = {}
    width = max(trees.heads.shape[1] for trees in found)
    for trees in found:
        columns = {**vars(trees), **trees.counters}
        for name, column in columns.items():
            if name != "seconds" and isinstance(column, np.ndarray) and column.shape[:1] == trees.score.shape:
                filled = (
                    np.pad(column, ((0, 0), (0, width - column.shape[1])), constant_values=-1)
                    if column.ndim == 2
                    else column
                )
                results.setdefault(name, []).append(filled)
    return {name: np.concatenate(columns) for name, columns in results.items()}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(int(sys.argv[2]))
    else:
        sys.exit(compare())
