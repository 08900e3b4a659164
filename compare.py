"""Compare decoders on the same scores: the same as `arbora compare`."""

import sys

from arbora.cli import run_command

if __name__ == "__main__":
    run_command("compare", sys.argv[1:])
