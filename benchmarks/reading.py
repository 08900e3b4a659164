"""How many tokens per second does our reader of CoNLL-U read, and how many the package conllu?

Usage: python benchmarks/reading.py FILE.conllu [FILE.conllu ...]

The work is not the same: conllu also takes FEATS, DEPS and MISC apart, which ours leaves as strings; ours also checks
every tree and keeps the raw lines.
"""

import argparse
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version

import conllu

from arbora.data.conll import read_conll


def count_arbora(path: str) -> int:
    return sum(len(sentence) for sentence in read_conll(path))


def count_conllu(path: str) -> int:
    tokens = 0
    with open(path, encoding="utf-8") as stream:
        for sentence in conllu.parse_incr(stream):
            tokens += sum(isinstance(token["id"], int) for token in sentence)
    return tokens


def speeds(count: Callable[[str], int], path: str, repeat: int) -> tuple[int, list[float]]:
    """Return the tokens of a file and, for each time it is read, tokens per second."""
    tokens = count(path)
    rates = []
    for _ in range(repeat):
        start = time.perf_counter()
        count(path)
        rates.append(tokens / (time.perf_counter() - start))
    return tokens, rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="+", help="treebank in CoNLL-U")
    parser.add_argument("--repeat", type=int, default=5, help="how often each file is read")
    args = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, {platform.system()}, Python {platform.python_version()}")
    print(f"arbora {version('arbora')}, conllu {version('conllu')}; median of {args.repeat} (slowest to fastest)")
    for path in args.path:
        print(path)
        for name, count in {"arbora": count_arbora, "conllu": count_conllu}.items():
            tokens, rates = speeds(count, path, args.repeat)
            median, low, high = statistics.median(rates), min(rates), max(rates)
            print(f"  {name:8} {tokens:9,} tokens {median:11,.0f} tokens/s ({low:,.0f} to {high:,.0f})")


if __name__ == "__main__":
    main()
