"""Export a trained parser: the same as `arbora export`."""

import sys

from arbora.cli import run_command

if __name__ == "__main__":
    run_command("export", sys.argv[1:])
