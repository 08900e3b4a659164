"""`arbora evaluate`: compare a parsed file with its gold standard."""

import argparse
import json
from collections.abc import Sequence

from arbora.cli.console import plain_console
from arbora.evaluation import evaluate_files, figures_table

DESCRIPTION = """\
Compare parsed sentences with a gold standard: attachment scores with and without punctuation, content-word scores,
whole trees, non-projective arcs, and scores by sentence and arc length.

UAS, LAS and CLAS are those of the official Universal Dependencies evaluation: labels are compared without their
subtypes (acl:relcl counts as acl). Where it differs, LAS on full labels stands beside them.
Both files must have the same sentences and words."""

EPILOG = """\
examples:
  arbora evaluate gold.conllu system.conllu
  arbora evaluate gold.conllu system.conllu --json | jq .las"""


def main(arguments: Sequence[str]) -> None:
    """Run `arbora evaluate` with these arguments.

    Raises:
        ValueError: a file is invalid, or the two do not have the same words.
        OSError: a file cannot be opened.
    """
    parser = argparse.ArgumentParser(
        prog="arbora evaluate",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("gold", help="treebank with the right trees (.gz is read too)")
    parser.add_argument("system", help="the same sentences as parsed")
    parser.add_argument("--json", action="store_true", help="print all figures as JSON instead of tables")
    parser.add_argument(
        "--format",
        choices=["auto", "conllu", "conllx"],
        default="auto",
        help="of both files; auto looks at the first sentence (default: %(default)s)",
    )
    options = parser.parse_args(arguments)
    figures = evaluate_files(options.gold, options.system, format=options.format).figures()
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        plain_console().print(figures_table(figures))
