"""A message on the terminal while the kernels of a decoder are compiled, which happens only once."""

import logging
import sys

DECODERS = {
    "mst": ("MST", 4),
    "projective.eisner": ("Eisner", 6),
    "projective": ("Projective", 10),
    "vine": ("VineCascade", 15),
    "greedy": ("Greedy", 30),
    "hill_climbing": ("HillClimbing", 30),
    "dual.subgradient": ("Subgradient", 20),
    "dual": ("AD3", 25),
}
"""Names of decoders and their approximate seconds of compilation, by the modules of their kernels."""


def announce_compiling() -> None:
    """Print a message whenever kernels of a decoder are compiled, if standard error is a terminal."""
    if sys.stderr is not None and sys.stderr.isatty():
        logger = logging.getLogger("arbora.kernels")
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        logger.addHandler(_Announcement())


class _Announcement(logging.Handler):
    """Prints the first record of each decoder. Records of `arbora.kernels` have the module of a kernel."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        module = str(record.args[0]).partition("arbora.decoders.")[2] if isinstance(record.args, tuple) else ""
        for prefix, (name, seconds) in DECODERS.items():
            if f"{module}.".startswith(f"{prefix}."):
                if name not in self._shown:
                    self._shown.add(name)
                    print(f"compiling {name} (once, about {seconds} s)", file=sys.stderr, flush=True)
                return
