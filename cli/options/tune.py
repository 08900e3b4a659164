"""Options of `arbora tune`."""

from __future__ import annotations

from arbora.cli.options import DECODER, CommandParser
from arbora.cli.options.ensembles import add_ensemble_options

DESCRIPTION = """\
Find good settings of a decoder on a development part, and write them to a file for `arbora predict --decoder`.

The part is scored once and all scores are kept in memory; each trial only decodes. The first trial is the decoder as
given, so the result is never worse. Among equally good trials, the one with lower integers wins, because it is usually
faster; then the earlier one. Ctrl-C ends the search early. For example:

  arbora tune runs/mine/best.ckpt dev.conllu --decoder HillClimbing \\
      --search patience=1:300:log start=uniform,first_order --trials 60 -o tuned.yaml
  arbora predict runs/mine/best.ckpt test.conllu --decoder tuned.yaml -o parsed.conllu

Each --then starts another stage of the search, from the best result of the stage before. With --ensemble, gamma_1 to
gamma_3 can be searched, too: the scores added to parts of first to third order that are in another parser's trees. For
example, tune greedy search and its ensemble as in the paper: first alpha and beta, with a beam of one and without
improvements, then the ensemble, then beam and improvements:

  arbora tune runs/mine/best.ckpt dev.conllu --ensemble other_parser.conllu \\
      --decoder Greedy --decoder.beam 1 --decoder.improvements 0 --search alpha=0:2.5 beta=0.2:0.5 \\
      --then gamma_1=0.5:1.5 gamma_2=0.2:0.3 --then beam=1:5 improvements=0:10 -o tuned.yaml

Tune the thresholds of a pruning cascade (this needs no search):

  arbora tune runs/mine/best.ckpt dev.conllu --pruner sentences=0.2 -o tuned.ckpt

The resulting figures on the development part are optimistic: report figures on another part.
"""


def parser() -> CommandParser:
    """Make the parser of the command's arguments."""
    parser = CommandParser("tune", DESCRIPTION)
    parser.add_argument("model", help="checkpoint written by `arbora train`")
    parser.add_argument("dev", help="treebank to tune on, with gold trees")
    parser.add_argument("-o", "--output", help="YAML file to write (default: standard output)")
    parser.add_argument(
        "--decoder",
        default="own",
        help=f"start of the search: {DECODER}",
    )
    parser.add_argument(
        "--search",
        action="append",
        metavar="NAME=LOW:HIGH",
        help="settings to search, one or more: name=low:high for numbers, name=low:high:log to search their logarithm, "
        "name=a,b,c to list values (default: all settings of the decoder, and gammas, around their values)",
    )
    parser.add_argument(
        "--then",
        action="append",
        metavar="NAME=LOW:HIGH",
        help="settings to search in the next stage; may be given several times",
    )
    add_ensemble_options(parser)
    parser.add_argument(
        "--pruner",
        metavar="CRITERION=SHARE",
        help="tune the thresholds of the model's pruning cascade only, and write a checkpoint with them to --output; "
        "sentences=0.2 lets each stage lose a gold arc in 20 %% of the sentences, arcs=0.002 0.2 %% of the gold arcs",
    )
    parser.add_argument("--trials", type=int, default=60, help="trials of each stage, including its start")
    parser.add_argument(
        "--objective",
        choices=["uas", "score"],
        default="uas",
        help="uas: words with the gold head; score: mean model score of a tree, which measures the quality of the "
        "search without gold heads",
    )
    parser.add_argument("--seed", type=int, default=0, help="random seed of the search")
    parser.add_argument("--max-tokens", type=int, default=4000, help="size of a batch, in padded positions")
    parser.add_argument("--device", default="auto", help="device for scoring: auto, cpu, cuda, cuda:1, mps")
    parser.add_argument("--quiet", action="store_true", help="print no progress on standard error")
    return parser
