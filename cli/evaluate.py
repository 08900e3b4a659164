"""`arbora evaluate`: compare a parsed file with its gold standard."""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from arbora.cli.console import plain_console
from arbora.cli.options import CommandParser
from arbora.evaluation import DifferentWordsError, aligned_scores, aligned_table, evaluate_files, figures_table

DESCRIPTION = """\
Compare parsed sentences with gold trees: attachment scores with and without punctuation, content-word scores,
complete trees, non-projective arcs, and scores by sentence and arc length.

UAS, LAS and CLAS are computed as in the official Universal Dependencies evaluation: labels are compared without their
subtypes (acl:relcl counts as acl). LAS on full labels is also printed if it differs.

Tokens, sentences, words, tags, lemmas and trees are also scored as in the CoNLL 2018 shared task (F1). The words of the
two files may differ, as they do after `arbora predict --input raw`; then only these scores are printed. Both files must
have the same text."""

EPILOG = """\
examples:
  arbora evaluate gold.conllu system.conllu
  arbora evaluate gold.conllu system.conllu --json | jq .las"""


def main(arguments: Sequence[str]) -> None:
    """Run `arbora evaluate` with these arguments.

    Raises:
        ValueError: a file is invalid, or the two do not have the same text.
        OSError: a file cannot be opened.
    """
    parser = CommandParser("evaluate", DESCRIPTION, epilog=EPILOG)
    parser.add_argument("gold", help="treebank with gold trees (may be .gz)")
    parser.add_argument("system", help="the same sentences, parsed")
    parser.add_argument("--json", action="store_true", help="print all figures as JSON instead of tables")
    parser.add_argument(
        "--format", choices=["auto", "conllu", "conllx"], default="auto", help="auto looks at the first sentence"
    )
    options = parser.parse(arguments)
    figures: dict[str, Any] = {}
    with suppress(DifferentWordsError):
        figures = evaluate_files(options.gold, options.system, format=options.format).figures()
    aligned = aligned_scores(options.gold, options.system, format=options.format)
    if options.json:
        print(json.dumps(figures | {"aligned": aligned}, indent=2))
        return
    console = plain_console()
    if figures:
        console.print(figures_table(figures), "")
    console.print(aligned_table(aligned))
