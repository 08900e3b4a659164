"""Options of `arbora analyse`."""

from __future__ import annotations

from arbora.cli.options import CommandParser

OPTIMA = """\
Count the local optima of each sentence under a parser's arc scores, and measure how often climbing finds the best tree.

A local optimum is a tree that cannot be improved by changing a single head; hill-climbing ends in one. A sentence of
n words has between 1 and 2^(n-1) local optima; if there are few, a few random restarts find the best tree. Only arc
scores are used, even if the parser scores other parts, because then both the number of optima and the best tree can be
computed exactly. Two tables are printed:

- by length: the number of sentences, their mean length, how many have a single local optimum, and percentiles of the
  number of local optima (50% of the sentences have at most the number in the column 50%, and so on);
- the share of sentences for which climbing finds the best tree, from random trees that are drawn with equal
  probability (uniform) or by their arc scores (first-order); then the same only for sentences with several optima.

For example:

  arbora analyse optima runs/mine/best.ckpt test.conllu
  arbora analyse optima runs/mine/best.ckpt test.conllu --dense --restarts 10 --csv optima.csv
"""

DOUBT = """\
Rank the sentences and words of a file by the errors that a parser expects to make, so that annotators start where it
pays.

The expected errors of a sentence are the sum, over its words, of the probability that the head is wrong. This is 1
minus the marginal probability of the arc among all trees, under arc scores. The margin is the distance in score to the
second-best tree, with all parts. If the file has gold trees, the probabilities of arcs, and of arcs with their labels,
are compared with them: expected calibration error (ECE), a calibration curve, and the share of all errors that are
among the most doubtful 10 % of the words; then the same with temperatures that are fitted to this file, as
`arbora export --calibrate` does. For example:

  arbora analyse doubt runs/mine/best.ckpt new.conllu --csv words.csv
"""


def parser(what: str) -> CommandParser | None:
    """Make the parser of one of the analyses; None if there is none of this name."""
    return {"optima": optima_parser, "doubt": doubt_parser}[what]() if what in ("optima", "doubt") else None


def optima_parser() -> CommandParser:
    """Make the parser of `arbora analyse optima`."""
    parser = CommandParser("analyse optima", OPTIMA)
    parser.add_argument("model", help="checkpoint written by `arbora train`")
    parser.add_argument(
        "file", help="sentences, in CoNLL-U or CoNLL-X, without or with trees (not used); - for standard input"
    )
    parser.add_argument("--dense", action="store_true", help="use all arcs, including those that the parser prunes")
    parser.add_argument("--limit", type=int, default=10_000, help="stop counting local optima at this number")
    parser.add_argument("--restarts", type=int, default=300, help="number of climbs per sentence")
    parser.add_argument(
        "--patience",
        type=int,
        help="climb until this many climbs have found no better tree, instead of a fixed number of climbs",
    )
    parser.add_argument("--seed", type=int, default=0, help="random seed of the starting trees")
    parser.add_argument(
        "--single-root",
        action="store_true",
        help="climb only among trees with a single root word; local optima are still counted among all trees even so",
    )
    parser.add_argument("--csv", help="write the figures of each sentence to this file; - for standard output")
    parser.add_argument("--json", help="write tables and figures of each sentence to this file; - for standard output")
    parser.add_argument("--max-tokens", type=int, default=4000, help="size of a batch, in padded positions")
    parser.add_argument("--device", default="auto", help="device for scoring: auto, cpu, cuda, cuda:1, mps")
    parser.add_argument("--quiet", action="store_true", help="print no progress on standard error")
    return parser


def doubt_parser() -> CommandParser:
    """Make the parser of `arbora analyse doubt`."""
    parser = CommandParser("analyse doubt", DOUBT)
    parser.add_argument("model", help="checkpoint that `arbora train` wrote, or a folder that was exported")
    parser.add_argument("file", help="sentences, in CoNLL-U or CoNLL-X; - for standard input")
    parser.add_argument("--top", type=int, default=20, help="sentences to print (default: 20)")
    parser.add_argument("--csv", help="file for all words, most doubtful first; - for standard output")
    parser.add_argument("--json", help="file for all sentences and the calibration; - for standard output")
    parser.add_argument("--max-tokens", type=int, default=4000, help="size of a batch, in padded positions")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps; only for scoring")
    return parser
