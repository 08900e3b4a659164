"""Where are the errors of a parser?

Compares a parsed file with its gold standard, word by word: forms that the training part has and others, right and
wrong tags, lengths of sentences, and labels. For example:

    python benchmarks/errors.py TREEBANK/train.conllu TREEBANK/test.conllu runs/NAME/test.conllu
"""

from __future__ import annotations

import argparse
from bisect import bisect_left
from collections import defaultdict

from arbora.data.conll import read_conll

LENGTHS = (10, 20, 30)
NAMES = ("1 to 10 words", "11 to 20 words", "21 to 30 words", "31 words or more")
SMALLEST = 0.01


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("train", "gold", "parsed"):
        parser.add_argument(name, help="CoNLL-U file")
    options = parser.parse_args()
    known = {form.lower() for sentence in read_conll(options.train) for form in sentence.form}
    found: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    for gold, parsed in zip(read_conll(options.gold), read_conll(options.parsed), strict=True):
        length = NAMES[bisect_left(LENGTHS, len(gold))]
        for i, form in enumerate(gold.form):
            base = gold.deprel[i].partition(":")[0]
            head = gold.head[i] == parsed.head[i]
            both = head and base == parsed.deprel[i].partition(":")[0]
            tagged = (gold.upos[i], gold.feats[i]) == (parsed.upos[i], parsed.feats[i])
            groups = (
                "all",
                "form in the training part" if form.lower() in known else "another form",
                "right UPOS and FEATS" if tagged else "wrong UPOS or FEATS",
                length,
                f"`{base}`",
            )
            for group in groups:
                found[group].append((head, both))
    words = len(found["all"])
    errors = sum(not both for _, both in found["all"])
    print("| words | share | UAS | LAS | share of LAS errors |\n|---|---|---|---|---|")
    for group, each in sorted(found.items(), key=lambda item: (item[0].startswith("`"), -len(item[1]))):
        if len(each) >= SMALLEST * words:
            uas, las = (100 * sum(right) / len(each) for right in zip(*each))
            share = sum(not both for _, both in each) / max(errors, 1)
            print(f"| {group} | {len(each) / words:.1%} | {uas:.1f} | {las:.1f} | {share:.1%} |")


if __name__ == "__main__":
    main()
