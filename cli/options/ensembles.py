"""Options of commands that parse with an ensemble: a parser, and the trees of another one."""

from arbora.cli.options import CommandParser

GAMMA = "1.0,0.25"


def add_ensemble_options(parser: CommandParser) -> None:
    """Add `--ensemble` and `--ensemble-gamma` to the options of a command."""
    parser.add_argument(
        "--ensemble",
        help="the same sentences parsed by another parser; parts of its trees get a higher score",
    )
    parser.add_argument(
        "--ensemble-gamma",
        "--ensemble.gamma",
        default=GAMMA,
        help=f"score added to parts of first, second and third order (default: {GAMMA})",
    )
