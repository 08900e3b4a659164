"""Arbora: a graph-based dependency parser.

`arbora.load(path)` reads a trained parser. Subpackages are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arbora import cli, data, decoders, evaluation, model, reproduction
    from arbora.model.parser import load

__version__ = version("arbora")

__all__ = ["__version__", "cli", "data", "decoders", "evaluation", "load", "model", "reproduction"]


def __getattr__(name: str) -> Any:
    if name == "load":
        from arbora.model.parser import load

        return load
    if name in __all__:
        return import_module(f"arbora.{name}")
    raise AttributeError(f"module 'arbora' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
