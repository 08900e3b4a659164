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
        help="another decoder than the one trained with, e.g. Eisner, or a file of `arbora tune`",
    )
    parser.add_argument(
        "--tags",
        choices=get_args(TagPolicy),
        default="fill",
        help="tags, features and lemmas of a parser that predicts them: fill in those that are _ in the input, replace "
        "all, or keep the input's as they are (default: fill)",
    )
    parser.add_argument(
        "--treebank",
        help="treebank to parse like, of several that the parser was trained on (default: the first of them)",
    )
    parser.add_argument(
        "--confidence",
        action="store_true",
        help="write ArcProb and LabelProb to MISC: the probability of a word's arc among all trees, by the scores of "
        "arcs only, whatever else the model scores, and that of its label, given the arc; also UposProb, XposProb, "
        "FeatsProb and LemmaProb of predicted tags",
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
        help="refuse input without the tags that the parser reads, in place of a warning",
    )
    parser.add_argument("--max-tokens", type=int, default=4000, help="size of a batch, in positions when padded")
    parser.add_argument(
        "--max-length",
        type=int,
        default=500,
        help="words of a sentence above which it is parsed in a lighter way, with a warning: by arcs only, with MST "
        "on the best 64 heads of each word; probabilities are then of each word's heads by themselves (default: 500)",
    )
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps")
    parser.add_argument(
        "--runtime",
        choices=["torch", "onnx"],
        help="what computes the scores: torch, or onnx for a folder of `arbora export`, only on the CPU; unless given, "
        "onnx where that is possible",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error; errors are still there")


def parsing_settings(options: Namespace) -> ParsingSettings:
    """Return the settings of parsing, if the options go together."""
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
