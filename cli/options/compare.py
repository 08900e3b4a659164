"""Options of `arbora compare`."""

from __future__ import annotations

from arbora.cli.options import CommandParser

DESCRIPTION = """\
Run many decoders on exactly the same scores, and write a report: accuracy, model score, certificates, speed, memory,
confidence intervals of differences, and drawings of the sentences on which decoders disagree.

  arbora compare english dev.conllu --decoders mst,eisner,greedy,hill_climbing,ad3 -o report
  arbora compare runs/mine/best.ckpt dev.conllu --decoders "ad3,ad3(max_iterations=50),hill_climbing(patience=300)"

The report is a folder. Open index.html, which needs no network. report.json has all figures, report.csv the table,
lengths.csv a line for each decoder and sentence length, and sentences.csv a line for each sentence and decoder.
Scores can be saved and used again without the model:

  arbora compare runs/mine/best.ckpt dev.conllu --save-parts scores
  arbora compare scores --decoders branch_and_bound,ad3 -o report

Several models, each before its treebank, give a matrix of decoders and treebanks with means, and a report each:

  arbora compare runs/el/best.ckpt el-dev.conllu runs/tr/best.ckpt tr-dev.conllu -o reports

Give the settings of decoders in brackets, or in a YAML file with a name for each decoder (--variants):

  - name: patient
    class_path: HillClimbing
    init_args: {patience: 300}

Columns:
  best       sentences (%) with the best score that any of the decoders found
  gap        mean distance of a tree's score to the lowest upper bound that any of the decoders found
  certified  sentences (%) whose tree is proved to be the best in the decoder's search space
  integral   sentences (%) for which the solution of AD3's relaxation is a tree
  SARC       arcs (%) shared with the reference decoder: the first one, unless --reference names another
  gold       words (%) with the gold head from this decoder only / from the reference only
  higher     gold higher: sentences (%) whose gold tree scores more than the tree found
  ±UAS       difference to the reference, with a 95 % confidence interval (paired bootstrap over sentences)
"""

DECODERS = "mst,eisner,greedy,hill_climbing,ad3"


def parser() -> CommandParser:
    """Make the parser of the command's arguments."""
    parser = CommandParser("compare", DESCRIPTION)
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="INPUT",
        help="trained parser and treebank with gold trees, or a folder written by --save-parts; several for a matrix",
    )
    parser.add_argument("-o", "--output", help="folder for the report; an existing report is replaced")
    parser.add_argument("--decoders", metavar="LIST", help=f"decoders, separated by commas (default: own,{DECODERS})")
    parser.add_argument("--variants", metavar="FILE", help="YAML file with further decoders")
    parser.add_argument("--reference", metavar="NAME", help="decoder with which the others are compared")
    parser.add_argument("--save-parts", metavar="DIR", help="save the scores in this folder")
    parser.add_argument(
        "--full",
        action="store_true",
        help="also compare numbers of restarts of hill-climbing, AD3 with the subgradient method, and settings of "
        "the pruner; takes several times as long",
    )
    parser.add_argument("--k-best", type=int, help="find the k best trees with each decoder; report the best UAS")
    parser.add_argument("--repeats", type=int, default=3, help="timed runs, after one untimed run (default: 3)")
    parser.add_argument("--draws", type=int, default=1000, help="samples of the bootstrap (default: 1000)")
    parser.add_argument("--limit", type=int, help="use only the first N sentences")
    parser.add_argument("--words", metavar="MIN-MAX", help="use only sentences of this length, such as 20-30 or 40-")
    parser.add_argument("--first-order", action="store_true", help="decode by arc scores only")
    parser.add_argument("--max-heads", type=int, help="change this setting of the model's pruner")
    parser.add_argument("--ratio", type=float, help="change this setting of the model's pruner; 0 turns it off")
    parser.add_argument("--threads", type=int, default=1, help="threads for scoring and decoding (default: 1)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the bootstrap (default: 0)")
    parser.add_argument(
        "--max-tokens", type=int, default=4000, help="size of a batch in padded positions (default: 4000)"
    )
    parser.add_argument("--device", default="auto", help="device for scoring: auto, cpu, cuda, cuda:1, mps")
    parser.add_argument("--quiet", action="store_true", help="print no progress on standard error")
    return parser
