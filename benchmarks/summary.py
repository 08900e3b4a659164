"""What do several runs of `benchmarks/accuracy.py` say together?

Averages runs of one treebank and configuration over their seeds, with the spread, and shows where configurations
differ: by length of sentences, and on non-projective arcs. For example:

    python benchmarks/summary.py runs/first-1 runs/first-2 runs/second-1 runs/second-2
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

LENGTHS = ("1-10", "11-20", "21-30", "31-40", "41-50", "51+")


def spread(values: list[float]) -> str:
    """Mean, and the values themselves."""
    return f"{mean(values):.2f} ({', '.join(f'{value:.2f}' for value in values)})"


def main() -> None:
    """Print two tables."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("runs", nargs="+", type=Path, help="folders of runs, with figures.json in them")
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for run in options.parse_args().runs:
        summary = json.loads((run / "figures.json").read_text(encoding="utf-8"))
        groups[summary["treebank"], summary["config"]].append(summary["figures"])
    print("| treebank | configuration | UAS | LAS | CLAS |\n|---|---|---|---|---|")
    for (treebank, config), found in groups.items():
        cells = " | ".join(spread([figures[name] for figures in found]) for name in ("uas", "las", "clas"))
        print(f"| {treebank} | {config} | {cells} |")
    print(f"\n| treebank | configuration | {' | '.join(LENGTHS)} | non-projective P | R |")
    print("|---|---|" + "---|" * (len(LENGTHS) + 2))
    for (treebank, config), found in groups.items():
        by_length = [
            [figures["sentence_length"][length]["uas"] for figures in found if length in figures["sentence_length"]]
            for length in LENGTHS
        ]
        cells = " | ".join(f"{mean(values):.2f}" if values else "–" for values in by_length)
        crossing = [mean(figures["non_projective"][name] or 0 for figures in found) for name in ("precision", "recall")]
        print(f"| {treebank} | {config} | {cells} | {crossing[0]:.1f} | {crossing[1]:.1f} |")


if __name__ == "__main__":
    main()
