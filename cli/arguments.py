"""Changes to jsonargparse: help that keeps its line breaks, errors of one line."""

import re
import sys
from argparse import RawDescriptionHelpFormatter
from typing import Any, NoReturn

from jsonargparse import ArgumentParser, DefaultHelpFormatter

from arbora.cli import one_line
from arbora.decoders import Decoder


class HelpFormat(DefaultHelpFormatter, RawDescriptionHelpFormatter):
    """Keeps the line breaks of a description, and so its examples."""


class OneLineErrors(ArgumentParser):
    """Ends with one line that says what is wrong, instead of the usage and the types that were tried."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=HelpFormat, **options)

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Print the message and exit with code 2."""
        text = " ".join(str(message).split())
        unknown = re.search(r'key "[\w.]*(decoder|encoder|pruner)":.* import path string: (\S+)', text)
        if unknown:
            what, name = unknown.groups()
            kinds: list[type[Any]] = _base_class(what).__subclasses__()
            kinds += [kind for parent in kinds for kind in parent.__subclasses__()]
            names = sorted(kind.__name__ for kind in kinds if not kind.__subclasses__())
            text = f"there is no {what} {name}; choose from {', '.join(names)}"
        text = one_line(text)
        command = " ".join(word for word in self.prog.split() if word != "[options]")
        print(f"{command}: {text}; `{command} --help` lists the options", file=sys.stderr)
        sys.exit(2)


def _base_class(what: str) -> type[Any]:
    """Names of decoders, encoders or pruners. Only training has the latter two, and it imports torch anyway."""
    if what == "decoder":
        return Decoder
    from arbora.model.encoders.encoder import Encoder
    from arbora.model.pruners.settings import PrunerSettings

    return Encoder if what == "encoder" else PrunerSettings
