"""`python -m arbora.cli`: the command `arbora`."""

from arbora.cli import main

main()
