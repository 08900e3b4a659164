"""Options of `arbora export`."""

from __future__ import annotations

from arbora.cli.options import DECODER, CommandParser

DESCRIPTION = """\
Export a trained parser to a self-contained folder: graphs, settings, vocabulary and a model card, but no code.

`arbora predict` and `arbora.load` take the folder instead of a checkpoint. ONNX Runtime computes the scores, so torch
need not be installed. Exporting needs pip install "arbora[onnx]". For example:

  arbora export runs/mine/best.ckpt -o mine --evaluate test.conllu --license "CC BY-SA 4.0"
  arbora export runs/mine/best.ckpt -o exact --decoder tuned.yaml --precision fp32 --torch
  arbora predict mine test.conllu -o parsed.conllu
  arbora export runs/mine/best.ckpt -o arbora-gothic --package gothic --license CC-BY-SA-4.0 --language got

--package writes a Python package with the folder in it, or adds the folder to such a package: after
`pip install ./arbora-gothic`, `arbora predict gothic` finds the model by its name.
"""


def parser() -> CommandParser:
    """Make the parser of the command's arguments."""
    parser = CommandParser("export", DESCRIPTION)
    parser.add_argument(
        "model", help="checkpoint written by `arbora train`, or an exported folder to export with other options"
    )
    parser.add_argument("-o", "--output", required=True, help="folder to write; it must not exist yet")
    parser.add_argument(
        "--decoder",
        help=f"decoder to store instead of the parser's own: {DECODER}",
    )
    parser.add_argument(
        "--precision",
        choices=["fp32", "fp16", "int8"],
        default="int8",
        help="precision of the weights: fp32 as trained, fp16 (half of the size), or int8 (a quarter, and faster)",
    )
    parser.add_argument(
        "--torch",
        action="store_true",
        help="also store the weights for torch, for use on a GPU, for further training, and for parsers without ONNX "
        "graphs",
    )
    parser.add_argument(
        "--evaluate", metavar="TREEBANK", help="file with gold trees; accuracy and speed are written to the model card"
    )
    parser.add_argument(
        "--tokenizer",
        nargs=2,
        metavar=("TRAIN", "DEV"),
        help="train a tokenizer on a treebank, for a parser without one or to replace it",
    )
    parser.add_argument(
        "--lemmas",
        metavar="FILE",
        help="CoNLL-U file with words, universal tags and lemmas: words with these tags get these lemmas, as those of "
        "the training part do by default",
    )
    parser.add_argument(
        "--calibrate",
        metavar="TREEBANK",
        help="file with gold trees that the parser was not trained on: fit temperatures, by which --confidence "
        "divides the "
        "scores of arcs and labels, and store those that lower the calibration error on held-out sentences",
    )
    parser.add_argument(
        "--scripts",
        nargs="+",
        metavar="SCRIPT",
        help="scripts to keep, such as latin or greek: remove all pieces of a transformer with letters of "
        "other scripts",
    )
    parser.add_argument("--license", help="licence of the model, for the card; see what that of the treebank allows")
    parser.add_argument("--language", help="language of the model, for the card, such as en")
    parser.add_argument(
        "--package", metavar="NAME", help="write a Python package that contains the model under this name"
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing")
    return parser
