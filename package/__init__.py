"""Arbora: a graph-based dependency parser.

`arbora.load(path)` reads a trained parser. Subpackages are imported when they are first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from arbora.extras import importing_extra

if TYPE_CHECKING:
    from arbora import cli, configs, data, decoders, evaluation, model, reproduction, service
    from arbora.model.loading import load

__version__ = version("arbora")

__all__ = ["__version__", "cli", "configs", "data", "decoders", "evaluation", "load", "model", "reproduction"]
__all__ += ["service", "threads"]


def threads(count: int) -> None:
    """Set the number of threads of decoders, of torch, and of ONNX Runtime in parsers that are loaded afterwards.

    Args:
        count: at least 1. By default, one for each core that the process may use.
    """
    from arbora.decoders.kernels.threads import set_num_threads

    set_num_threads(count)
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(count)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'arbora' has no attribute {name!r}")
    with importing_extra():
        return import_module("arbora.model").load if name == "load" else import_module(f"arbora.{name}")


def __dir__() -> list[str]:
    return __all__
