"""Options of `arbora export`."""

from __future__ import annotations

from arbora.cli.options import DECODER, CommandParser

DESCRIPTION = """\
Write a trained parser into a folder of its own: graphs, settings, vocabulary and a model card, no code.

`arbora predict` takes the folder in place of a checkpoint, as `arbora.load` does; ONNX Runtime computes the scores, and
torch need not be installed. Exporting needs pip install "arbora[onnx]". For example:

  arbora export runs/mine/best.ckpt -o mine --evaluate test.conllu --license "CC BY-SA 4.0"
  arbora export runs/mine/best.ckpt -o exact --decoder tuned.yaml --precision fp32 --torch
  arbora predict mine test.conllu -o parsed.conllu
  arbora export runs/mine/best.ckpt -o arbora-gothic --package gothic --license CC-BY-SA-4.0 --language got

--package writes a Python distribution around the folder, or adds the folder to one that was written before: after
`pip install ./arbora-gothic`, `arbora predict gothic` finds it by name.
"""


def parser() -> CommandParser:
    """Make the parser of the command's arguments."""
    parser = CommandParser("export", DESCRIPTION)
    parser.add_argument("model", help="checkpoint that `arbora train` wrote, or a folder to export otherwise")
    parser.add_argument("-o", "--output", required=True, help="folder to write, which must not be there yet")
    parser.add_argument(
        "--decoder",
        help=f"another decoder to keep than the parser's own: {DECODER}",
    )
    parser.add_argument(
        "--precision",
        choices=["fp32", "fp16", "int8"],
        default="int8",
        help="of weights: fp32 as trained, fp16 in half of the size, int8 in a quarter, and faster (default: int8)",
    )
    parser.add_argument(
        "--torch",
        action="store_true",
        help="add the weights for torch, to run on a GPU, tune or train on, or where a parser has no ONNX graphs",
    )
    parser.add_argument("--evaluate", metavar="TREEBANK", help="part with trees; accuracy and speed go into the card")
    parser.add_argument(
        "--tokenizer",
        nargs=2,
        metavar=("TRAIN", "DEV"),
        help="train a tokenizer on a treebank, for a parser that has none or should have another",
    )
    parser.add_argument(
        "--calibrate",
        metavar="TREEBANK",
        help="part with trees that the parser was not trained on: fit temperatures of arcs and of labels, by which "
        "--confidence then divides scores, and keep those that help on the half that they were not fitted to",
    )
    parser.add_argument(
        "--scripts",
        nargs="+",
        metavar="SCRIPT",
        help="leave out pieces of a transformer with letters of other scripts than these, such as latin or greek",
    )
    parser.add_argument("--license", help="of the model, for the card; mind that of the treebank")
    parser.add_argument("--language", help="of the model, for the card, such as en")
    parser.add_argument("--package", metavar="NAME", help="write a package that brings the model along under this name")
    parser.add_argument("--quiet", action="store_true", help="print nothing")
    return parser
