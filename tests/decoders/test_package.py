"""The decoders as a package: light to import, and chosen on a command line."""

import subprocess
import sys

import pytest
from jsonargparse import auto_cli

from arbora.decoders import MST, Decoder, Eisner, VineCascade


def test_torch_is_not_imported():
    code = "import sys, arbora.decoders; assert 'torch' not in sys.modules; assert 'arbora.model' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def parse(decoder: Decoder) -> Decoder:
    """Parse something.

    Args:
        decoder: searches the tree.
    """
    return decoder


def test_chosen_on_the_command_line(capsys):
    def chosen(*arguments: str) -> Decoder:
        return auto_cli(parse, args=list(arguments), as_positional=False)

    assert chosen("--decoder", "MST", "--decoder.single_root", "false") == MST(single_root=False)
    assert chosen("--decoder", "arbora.decoders.Eisner") == Eisner()
    assert chosen("--decoder", "VineCascade", "--decoder.vine_alpha", "null") == VineCascade(vine_alpha=None)
    with pytest.raises(SystemExit):
        chosen("--decoder.help", "Eisner")
    assert "allow exactly one modifier of the root" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(SystemExit):
        chosen("--decoder", "MST", "--decoder.roots", "1")
