"""Options of commands that parse files: how to parse, and on which device."""

from __future__ import annotations

from typing import get_args

from jsonargparse import Namespace

from arbora.cli.arguments import CommandParser
from arbora.decoders import Decoder
from arbora.model.inference.batch_parser import ParsingSettings, TagPolicy


def add_parsing_options(parser: CommandParser) -> None:
    """Add the options to those of a command."""
    parser.add_argument(
        "--decoder",
        type=Decoder | None,
        sub_configs=True,
        help="use another decoder than in training, e.g. Eisner, or a file written by `arbora tune`",
    )
    parser.add_argument(
        "--tags",
        choices=get_args(TagPolicy),
        default="fill",
        help="if the parser predicts tags, features and lemmas: fill in those that are _ in the input, replace "
        "all, or keep those of the input (default: fill)",
    )
    parser.add_argument(
        "--treebank",
        help="if the parser was trained on several treebanks, parse as in this one (default: the first)",
    )
    parser.add_argument(
        "--confidence",
        action="store_true",
        help="write ArcProb and LabelProb to MISC: the marginal probability of the word's arc, by arc scores "
        "only, and the probability of its label, given the arc; also UposProb, XposProb, FeatsProb and LemmaProb for "
        "predicted tags",
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
        help="refuse input without the tags that the parser reads, instead of a warning",
    )
    parser.add_argument("--max-tokens", type=int, default=4000, help="size of a batch, in padded positions")
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


def parsing_settings(options: Namespace) -> ParsingSettings:
    """Return the settings of parsing, if the options can be combined."""
    for name in ("max_tokens", "max_length"):
        if getattr(options, name) < 1:
            raise ValueError(f"--{name.replace('_', '-')} must be positive, got {getattr(options, name)}")
    if options.runtime == "onnx" and options.device not in ("auto", "cpu"):
        raise ValueError(f"--runtime onnx runs on the CPU, not on --device {options.device}")
    return ParsingSettings(
        options.max_tokens,
        options.max_length,
        probabilities=options.confidence,
        strict=options.strict,
        tags=options.tags,
        treebank=options.treebank,
    )
