"""What the pruners of linear models leave, and how fast each stage of parsing is.

Prints accuracy, the best possible UAS, arcs per word and speed for each model, and the share of time of each stage of a
vine cascade. CPU time is from indexed sentences to trees, the median of some runs in turn. For example:

    arbora train --model linear --linear.kinds "[grandparent,sibling,grand_sibling]" \\
        --linear.stages "[vine,first,second]" --data UD_Greek-GDT --run runs/vine
    arbora train --model linear --linear.order 3 --data UD_Greek-GDT --run runs/marginals
    python benchmarks/linear_vine.py UD_Greek-GDT/test.conllu runs/vine/best.ckpt runs/marginals/best.ckpt
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median

from arbora.data.conll import read_conll
from arbora.decoders.kernels.threads import set_num_threads
from arbora.model.linear.pruners import LinearCascade
from arbora.model.linear.storage import read_linear
from arbora.reproduction.vine_linear import Setup, batches
from arbora.reproduction.vine_setups import figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("treebank", type=Path, help="file with gold trees")
    parser.add_argument("models", type=Path, nargs="+", help="checkpoints of linear models")
    parser.add_argument("--repeats", type=int, default=3, help="runs that are timed (default: 3)")
    options = parser.parse_args()
    set_num_threads(1)
    sentences = list(read_conll(options.treebank))
    models = {str(path): read_linear(path).model for path in options.models}
    setups = [Setup(name, model, batches(model, sentences)) for name, model in models.items()]
    rows = [figures(setup.decoded(), sentences) for setup in setups]  # compiles, too
    times: list[list[float]] = [[] for _ in setups]
    for _ in range(options.repeats):
        for setup, seconds in zip(setups, times):
            seconds.append(setup.seconds())
    for setup, row, seconds in zip(setups, rows, times):
        oracle = f"oracle {row['oracle_uas']:.2f} (projective) {row['oracle_uas_of_all_trees']:.2f} (all trees)"
        speed = f"{row['words'] / median(seconds):,.0f} words per CPU second"
        print(f"{setup.name}: UAS {row['uas']:.2f}, {oracle}, {row['arcs_per_word']:.2f} arcs per word, {speed}")
        if isinstance(setup.model.pruner, LinearCascade):
            stages = setup.stages(options.repeats)
            shares = (f"{name} {100 * seconds / sum(stages.values()):.1f} %" for name, seconds in stages.items())
            print(f"  time by stage: {', '.join(shares)}")


if __name__ == "__main__":
    main()
