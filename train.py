"""Train a parser: the same as `arbora train`."""

import sys

from arbora.cli import run_command

if __name__ == "__main__":
    run_command("train", sys.argv[1:])
