"""`arbora push`: upload an exported parser to Hugging Face's hub."""

from __future__ import annotations

from collections.abc import Sequence

from arbora.cli.options import CommandParser
from arbora.model.catalogue import find_model, push

DESCRIPTION = """\
Upload an exported folder to Hugging Face's hub; afterwards, it can be used as `hf:owner/name`. First log in with
`hf auth login`, or set HF_TOKEN. Needs pip install "arbora[hub]". For example:

  arbora push greek owner/arbora-greek
  arbora predict hf:owner/arbora-greek test.conllu"""


def main(arguments: Sequence[str]) -> None:
    """Run `arbora push` with these arguments."""
    parser = CommandParser("push", DESCRIPTION)
    parser.add_argument("model", help="folder of `arbora export`, or the name of an installed model")
    parser.add_argument("repository", help="owner/name on the hub; created if it does not exist")
    parser.add_argument("--private", action="store_true", help="if the repository is created, make it private")
    options = parser.parse_args(arguments)
    print(push(find_model(options.model), options.repository, options.private))
