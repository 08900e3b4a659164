"""The models of the service."""

from __future__ import annotations

from collections.abc import Mapping

from arbora.model.parser import Parser


class Models:
    """The models that requests can name.

    Args:
        parsers: by name; the first one is taken where a request names none.
    """

    def __init__(self, parsers: Mapping[str, Parser]) -> None:
        if not parsers:
            raise ValueError("a service needs at least one model")
        self.parsers = dict(parsers)
        self.default = next(iter(self.parsers))

    def find(self, name: str | None) -> tuple[str, Parser]:
        """A model and its name; where `name` is None, the default.

        Raises:
            KeyError: there is none of that name.
        """
        name = name or self.default
        if name not in self.parsers:
            raise KeyError(f"there is no model {name[:80]!r}, but {', '.join(self.parsers)}")
        return name, self.parsers[name]
