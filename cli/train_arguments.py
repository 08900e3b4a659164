"""Shorthands in the arguments of `arbora train`, replaced by what its parsers accept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path

from arbora.configs import find_config

SUBCOMMANDS = ("fit", "validate", "test")
DECODERS = ("--decoder", "--model.decoder", "--model.training_decoder")
PARTS = ("train", "dev", "test")


def spelled_out(arguments: Sequence[str]) -> list[str]:
    """Replace names of configurations and a folder after `--data` by files, and decoders by their settings."""
    found: list[str] = []
    left = iter(arguments)
    for argument in left:
        name, equals, value = argument.partition("=")
        if name not in ("-c", "--config", "--data", *DECODERS):
            found.append(argument)
            continue
        value = value if equals else next(left, "")
        if name in ("-c", "--config"):
            found += [name, str(find_config(value))]
        elif name == "--data":
            found += _files(value) if Path(value).is_dir() else [name, value]
        else:
            found += _decoder(name, value)
    return found


def _files(folder: str) -> Iterator[str]:
    """Find the parts of a folder of Universal Dependencies by their names."""
    for part in PARTS:
        files = sorted(Path(folder).glob(f"*{part}.conllu*")) or sorted(Path(folder).glob(f"*-{part}-*.conllu*"))
        if len(files) > 1:
            names = ", ".join(file.name for file in files)
            raise ValueError(f"--data {folder}: several files for {part}: {names}; name one with --data.{part}")
        if not files and part != "test":
            raise ValueError(f"--data {folder}: there is no file whose name ends in {part}.conllu")
        yield from (f"--data.{part}={file}" for file in files)


def _decoder(option: str, text: str) -> list[str]:
    """Write a decoder that a user names as its class and settings."""
    if text in ("null", "None") or text.startswith("{"):
        return [option, text]
    from arbora.decoders.names import find_decoder

    decoder = find_decoder(text)
    chosen = [(item.name, getattr(decoder, item.name)) for item in fields(decoder)]  # type: ignore[arg-type]
    settings = [f"{option}.{name}={'null' if value is None else value}" for name, value in chosen]
    return [option, type(decoder).__name__, *settings]


def join_files(arguments: Sequence[str]) -> list[str]:
    """Turn `--from` into a setting, and several files after `--data.train` into a list."""
    joined: list[str] = []
    files: list[str] | None = None
    for argument in [*arguments, "--"]:
        if files is not None and not argument.startswith("-"):
            files.append(argument)
            continue
        if files:
            joined.append(files[0] if len(files) == 1 else json.dumps(files))
        files = [] if argument == "--data.train" else None
        joined.append("--model.start" + argument[6:] if re.match("--from(=|$)", argument) else argument)
    return joined[:-1]
