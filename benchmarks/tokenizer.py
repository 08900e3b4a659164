"""How well and how fast does the tokenizer split raw text, and how does its speed compare with that of `str.split`?

python benchmarks/tokenizer.py FOLDER      # with train.conllu, dev.conllu and test.conllu
"""

import argparse
import io
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from arbora.data.conll import Sentence, read_conll
from arbora.data.text import tokens_of
from arbora.evaluation import aligned_scores
from arbora.model.tokenizer.learning import learn_tokenizer

RUNS = 5


def text_of(sentences: list[Sentence]) -> str:
    """The raw text of a treebank, with a blank line between paragraphs."""
    pieces = list[str]()
    for sentence in sentences:
        if pieces and any(line.startswith(("# newpar", "# newdoc")) for line in sentence.lines):
            pieces.append("\n\n")
        pieces += (token.form + token.space for token in tokens_of(sentence))
    return "".join(pieces)


def split_at_spaces(text: str) -> Iterator[list[str]]:
    """The simplest tokenizer: one sentence per line."""
    return (line.split() for line in io.StringIO(text))


def seconds(run: Callable[[], object]) -> float:
    """CPU time of a run, the median of several."""
    times = []
    for _ in range(RUNS):
        started = time.process_time()
        run()
        times.append(time.process_time() - started)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="with train.conllu, dev.conllu and test.conllu")
    parser.add_argument("--part", default="test", help="part to evaluate on")
    options = parser.parse_args()
    train, dev, gold = (list(read_conll(options.folder / f"{part}.conllu")) for part in ("train", "dev", options.part))
    learn_tokenizer(dev[:20], dev[:20])  # compiles
    started = time.process_time()
    tokenizer = learn_tokenizer(train, dev)
    print(
        f"{platform.machine()}, Python {platform.python_version()}; "
        f"training {time.process_time() - started:.1f} s of CPU time"
    )
    text = text_of(gold)
    with TemporaryDirectory() as folder:
        system = Path(folder, "system.conllu")
        with system.open("w", encoding="utf-8", newline="\n") as file:
            for sentence in tokenizer.split_text(text):
                n = len(sentence)
                file.write(sentence.with_tree([0] + [1] * (n - 1), ["root"] + ["dep"] * (n - 1)))
        scores = aligned_scores(options.folder / f"{options.part}.conllu", system)
    print(", ".join(f"{name} {scores[name]['f1']:.2f}" for name in ("tokens", "sentences", "words")), "F1")
    text *= max(1, 2_000_000 // len(text))
    words = sum(len(sentence) for sentence in tokenizer.split_text(text))
    ours = seconds(lambda: list(tokenizer.read(io.StringIO(text, newline="\n"), name="text", numbers=count(1))))
    plain = seconds(lambda: list(split_at_spaces(text)))
    print(
        f"{words / ours:,.0f} words per second, {ours / plain:.1f} times as long as str.split; "
        f"{len(tokenizer.contents):,} bytes"
    )


if __name__ == "__main__":
    main()
