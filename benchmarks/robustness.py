"""How much accuracy does a parser lose on lower-cased text, and on text with typing mistakes?

    python benchmarks/robustness.py english english-small --treebank ../treebanks/English-EWT/test.conllu

Parses the words of a treebank as they are, in lower case, and with mistakes in a share of the words of four letters and
more: two letters swapped, one left out, doubled, or replaced by a random one. Tags are predicted. Prints UAS and
LAS; with mistakes, the mean of several draws and their range.
"""

from __future__ import annotations

import argparse
import json
import random
import string
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from accuracy import arbora, revision

FIGURES = ("uas", "las")
SHORTEST = 4  # letters of a word that may get a mistake


def mistyped(form: str, rng: random.Random) -> str:
    """A word with one mistake behind its first letter."""
    place = rng.randrange(1, len(form) - 1)
    before, letter, after = form[:place], form[place], form[place + 1 :]
    return rng.choice(
        (
            before + after[0] + letter + after[1:],
            before + after,
            before + letter + letter + after,
            before + rng.choice(string.ascii_lowercase) + after,
        )
    )


def rewrite(source: Path, target: Path, change: Callable[[str], str]) -> None:
    """Copy a CoNLL-U file with other forms, without comments."""
    lines = []
    for line in source.read_text(encoding="utf-8").splitlines():
        fields = line.split("\t")
        if len(fields) == 10 and fields[0].isdigit():
            fields[1] = change(fields[1])
            line = "\t".join(fields)
        if not line.startswith("#") and (len(fields) == 1 or fields[0].isdigit()):
            lines.append(line)
    target.write_text("\n".join(lines) + "\n\n", encoding="utf-8")


def main() -> None:
    """Parse and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="names, folders or checkpoints")
    parser.add_argument("--treebank", type=Path, required=True, help="CoNLL-U file with gold trees")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.05, 0.1, 0.2], help="of words with mistakes")
    parser.add_argument("--draws", type=int, default=3)
    options = parser.parse_args()

    def typing(share: float, seed: int) -> Callable[[str], str]:
        rng = random.Random(seed)
        return lambda form: (
            mistyped(form, rng) if len(form) >= SHORTEST and form.isalpha() and rng.random() < share else form
        )

    texts: list[tuple[str, list[Callable[[str], str]]]] = [("as it is", [str]), ("lower case", [str.lower])]
    for share in options.shares:
        draws = [typing(share, seed) for seed in range(1, options.draws + 1)]
        texts.append((f"mistakes in {share:.0%} of the longer words", draws))
    print(f"| text, revision {revision()} | {' | '.join(f'{model}: UAS, LAS' for model in options.models)} |")
    print("|---" * (1 + len(options.models)) + "|")
    with TemporaryDirectory() as folder:
        gold, parsed = Path(folder) / "gold.conllu", Path(folder) / "parsed.conllu"
        for name, changes in texts:
            found: dict[str, list[list[float]]] = {model: [] for model in options.models}
            for change in changes:
                rewrite(options.treebank, gold, change)
                for model in options.models:
                    arbora("predict", model, gold, "--tags", "replace", "-o", parsed)
                    figures = json.loads(arbora("evaluate", gold, parsed, "--json")[0])
                    found[model].append([figures[figure] for figure in FIGURES])
            cells = [" / ".join(map(in_short, zip(*draws, strict=True))) for draws in found.values()]
            print(f"| {' | '.join([name, *cells])} |", flush=True)


def in_short(values: tuple[float, ...]) -> str:
    """A mean, with half of the range of several values."""
    mean = f"{sum(values) / len(values):.2f}"
    return mean if len(values) == 1 else f"{mean} ± {(max(values) - min(values)) / 2:.2f}"


if __name__ == "__main__":
    main()
