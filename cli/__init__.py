"""The command `arbora`."""

from __future__ import annotations

import atexit
import gc
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec

from arbora import __version__
from arbora.cli.compiling import announce_compiling
from arbora.cli.train_arguments import spelled_out
from arbora.configs import is_linear_asked_for
from arbora.extras import missing_extra
from arbora.memory import is_out_of_memory

COMMANDS = {
    "train": "train a parser on a treebank (also: train validate, train test)",
    "jackknife": "predict the tags of a training part, to train on",
    "predict": "parse a file or text with a trained parser",
    "models": "list the models that are installed",
    "parse-corpus": "parse many files in shards, on one machine or a Ray cluster",
    "export": "export a trained parser to a self-contained folder",
    "push": "upload an exported parser to Hugging Face's hub",
    "evaluate": "compare parsed sentences with gold trees",
    "draw": "draw the trees of a file, as text, SVG or HTML",
    "tune": "find a decoder's settings on a development part",
    "compare": "run many decoders on the same scores, and write a report",
    "reproduce": "reproduce a paper's tables next to its published figures: train, measure, print",
    "serve": "start an HTTP service, and a page to look at trees",
    "warmup": "compile the kernels of decoders before their first use",
    "analyse": "analyse a parser's scores (analyse doubt: expected errors; analyse optima: local optima)",
}

NESTED = ("analyse", "train")
"""Commands whose first argument says which help is meant."""

USAGE = "\n".join(
    [
        "usage: arbora COMMAND ...",
        "       arbora --version",
        "",
        "A graph-based dependency parser.",
        "",
        *(f"  {name:12} {what}" for name, what in COMMANDS.items()),
        "",
        "`arbora COMMAND --help` explains a command. To try Arbora with the sentences that come with the source:",
        "",
        "  arbora train --config demo",
        "  arbora predict runs/demo/best.ckpt examples/treebank/test.conllu -o parsed.conllu",
        "  arbora evaluate examples/treebank/test.conllu parsed.conllu",
    ]
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command. A user's mistake prints one line and gives exit code 1; ARBORA_DEBUG=1 adds the traceback."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments and arguments[0] in COMMANDS:
        run_command(arguments[0], arguments[1:])
        return
    with _errors_in_one_line("arbora"):
        if not arguments or arguments[0] in ("-h", "--help"):
            print(USAGE)
            sys.exit(0 if arguments else 2)
        if arguments[0] == "--version":
            print(f"arbora {__version__}")
            return
        print(f"arbora: unknown command {arguments[0]!r}; the commands are {', '.join(COMMANDS)}", file=sys.stderr)
        sys.exit(2)


def run_command(name: str, arguments: Sequence[str]) -> None:
    """Run one command. Its module is imported only now, so that `evaluate`, `draw` and others do not import torch."""
    announce_compiling()
    with _errors_in_one_line(f"arbora {name}"):
        if {"-h", "--help"} & set(arguments):
            print_help(name, arguments)
        module = name.replace("-", "_")
        if name == "train":
            arguments = spelled_out(arguments)
            module = "train_linear" if is_linear_asked_for(arguments) else "train"
        _collect_less_garbage()
        import_module(f"arbora.cli.{module}").main(arguments)


def _collect_less_garbage() -> None:
    """Search for garbage less often, and not at the end of the process.

    Importing torch makes a million objects that stay. Searching all of them again and again takes a third of the time
    of a short command.
    """
    gc.set_threshold(20_000, 20, 20)
    atexit.register(gc.freeze)


def print_help(name: str, arguments: Sequence[str]) -> None:
    """Print the help of a command and leave, if its options are in a module of their own, which imports little."""
    options = f"arbora.cli.options.{name.replace('-', '_')}"
    if find_spec(options) and (parser := import_module(options).parser(*arguments[:1] if name in NESTED else ())):
        parser.print_help()
        sys.exit(0)


@contextmanager
def _errors_in_one_line(command: str) -> Iterator[None]:
    try:
        try:
            with _one_interrupt():
                yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # now, since a closed pipe at the end of the process would be a traceback
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except (ValueError, OSError, ModuleNotFoundError, MemoryError, RuntimeError) as error:
        line = _line(error)
        if line is None or os.environ.get("ARBORA_DEBUG") == "1":
            raise
        print(f"{command}: {line}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print(f"{command}: interrupted", file=sys.stderr)
        sys.exit(130)


@contextmanager
def _one_interrupt() -> Iterator[None]:
    """Give the first Ctrl-C a second to clean up undisturbed; another one after that ends the process at once.

    A second interrupt in the middle of cleaning up would leave threads running, and abort the interpreter.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    began: float | None = None

    def interrupt(*_: object) -> None:
        nonlocal began
        if began is None:
            began = time.monotonic()
            raise KeyboardInterrupt
        if time.monotonic() - began > 1:
            os._exit(130)

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        if began is None:
            signal.signal(signal.SIGINT, before)


def _line(error: Exception) -> str | None:
    """Explain a user's mistake in one line. None if the error is a bug of the program."""
    if isinstance(error, ModuleNotFoundError):
        return missing_extra(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError | RuntimeError):
        text = " ".join(str(error).split())
        if isinstance(error, RuntimeError) and not (is_out_of_memory(error) or "overflow" in text.lower()):
            return None
        asked = re.search(r"tried to allocate [\d.]+ \w+", text, re.I)
        details = f" ({asked[0].lower()})" if asked else ""
        return f"not enough memory{details}: choose a smaller model or smaller batches"
    return one_line(str(error))


def one_line(text: str) -> str:
    """Reduce a message to one line, without the alternative types that jsonargparse tried for an optional setting."""
    text = " ".join(text.split())
    tried = re.search(r"any of the Union subtypes .*?Errors: - (.*?) Given value type:", text)
    reasons = [reason for reason in tried[1].split(" - ") if "<class 'NoneType'>" not in reason] if tried else []
    return reasons[0] if len(reasons) == 1 else text
