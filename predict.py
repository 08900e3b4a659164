"""Parse with a trained parser: the same as `arbora predict`."""

import sys

from arbora.cli import run_command

if __name__ == "__main__":
    run_command("predict", sys.argv[1:])
