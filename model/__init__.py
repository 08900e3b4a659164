"""The neural model: encoders, scorers, losses, and the parser that joins them to a decoder.

`Parser` and `load` are imported when they are first used, so that modules that do without torch do not import it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arbora.model.loading import load
    from arbora.model.parser import Parser

__all__ = ["Parser", "load"]


def __getattr__(name: str) -> Any:
    if name == "load":
        from arbora.model.loading import load

        return load
    if name == "Parser":
        from arbora.model.parser import Parser

        return Parser
    raise AttributeError(f"module 'arbora.model' has no attribute {name!r}")
