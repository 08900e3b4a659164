"""Options of commands that parse files: how to parse, and on which device."""

from arbora.cli.options import DECODER, CommandParser


def add_parsing_options(parser: CommandParser) -> None:
    """Add the options to those of a command."""
    parser.add_argument(
        "--decoder",
        help=f"decoder to use instead of the parser's own: {DECODER}",
    )
    parser.add_argument(
        "--tags",
        choices=["fill", "replace", "keep"],
        default="fill",
        help="if the parser predicts tags, features and lemmas: fill in those that are _ in the input, replace "
        "all, or keep those of the input (default: fill)",
    )
    parser.add_argument(
        "--treebank",
        help="if the parser was trained on several treebanks, follow the annotation of this one (default: the first)",
    )
    parser.add_argument(
        "--confidence",
        action="store_true",
        help="write probabilities to MISC: ArcProb (marginal probability of the arc, from arc scores only), "
        "LabelProb (of the "
        "label, given the arc), and UposProb, XposProb, FeatsProb and LemmaProb of predicted tags",
    )
    parser.add_argument(
        "--scores",
        action="store_true",
        help="write comments: arbora_score, the tree's score, and arbora_certified, whether the tree is provably"
        " optimal within the decoder's search space",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="refuse input without the tags that the parser reads, instead of giving a warning",
    )
    parser.add_argument("--max-tokens", type=int, default=2000, help="size of a batch, in padded positions")
    parser.add_argument(
        "--max-length",
        type=int,
        default=500,
        help="parse longer sentences in a cheaper way, with a warning: by arc scores only, with MST on the 64 best "
        "heads of each word, and with probabilities computed for each word separately (default: 500 words)",
    )
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps")
    parser.add_argument(
        "--runtime",
        choices=["torch", "onnx"],
        help="compute scores with torch, or with onnx (exported folders, on the CPU only); by default, onnx if "
        "possible",
    )
    parser.add_argument("--quiet", action="store_true", help="print no progress on standard error, only errors")
