"""Options of `arbora warmup`."""

from arbora.cli.options import CommandParser

DESCRIPTION = """\
Compile the kernels of decoders in advance, for example in a container image or once for all jobs of a cluster. Kernels
that are already compiled are not compiled again. They are stored in the package, or in the folder that NUMBA_CACHE_DIR
names, and are valid for this kind of processor."""


def parser() -> CommandParser:
    """Make the parser of the command's arguments."""
    parser = CommandParser("warmup", DESCRIPTION)
    parser.add_argument("decoders", nargs="*", help="decoders, such as mst ad3 (default: all)")
    return parser
