"""Write the invented English-like treebank of this folder, the same bytes every time.

    python examples/generate.py                  # rewrites examples/treebank/{train,dev,test}.conllu
    python examples/generate.py --output elsewhere  # to another folder

The sentences are drawn by `grammar.py` from the words of `lexicon.py`.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from pathlib import Path

from grammar import Grammar, Word

SIZES = {"train": 2000, "dev": 300, "test": 300}
LENGTHS = range(3, 31)


def text(words: Sequence[Word]) -> str:
    """The sentence as it is written."""
    return "".join(word.form if i == 0 or word.glued else " " + word.form for i, word in enumerate(words))


def conllu(words: Sequence[Word], name: str) -> str:
    """The sentence in CoNLL-U, with a capital at its beginning."""
    words[0].form = words[0].form[0].upper() + words[0].form[1:]
    place = {id(word): i for i, word in enumerate(words, 1)}
    lines = [f"# sent_id = {name}", f"# text = {text(words)}"]
    for i, word in enumerate(words, 1):
        head = place[id(word.head)] if word.head else 0
        misc = "SpaceAfter=No" if i < len(words) and words[i].glued else "_"
        fields = [i, word.form, word.lemma, word.upos, word.xpos, word.feats, head, word.deprel, "_", misc]
        lines.append("\t".join(map(str, fields)))
    return "\n".join(lines) + "\n\n"


def treebank(seed: int) -> dict[str, str]:
    """The three files of the treebank; no sentence occurs twice.

    Args:
        seed: of the random choices.

    Returns:
        The text of `train`, `dev` and `test`.
    """
    seen: set[str] = set()
    files = {}
    for split, size in SIZES.items():
        grammar = Grammar(random.Random(f"{seed} {split}"), held_out=split != "train")
        sentences: list[str] = []
        while len(sentences) < size:
            words = grammar.sentence()
            if len(words) in LENGTHS and text(words) not in seen:
                seen.add(text(words))
                sentences.append(conllu(words, f"{split}-{len(sentences) + 1}"))
        files[split] = "".join(sentences)
    return files


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(
        description="Write the invented English-like treebank: train, dev and test in CoNLL-U.",
        epilog="example: python examples/generate.py --seed 7 --output another",
    )
    parser.add_argument("--seed", type=int, default=1, help="another seed, another treebank (default: %(default)s)")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(__file__).parent / "treebank",
        help="folder to write to (default: treebank/ next to this script)",
    )
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    for split, content in treebank(args.seed).items():
        (args.output / f"{split}.conllu").write_text(content, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
