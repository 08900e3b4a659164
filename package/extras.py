"""Optional dependencies: which extra installs a module that is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import requires


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """Explain in one line which extra to install, or return None if no extra has the module."""
    module = (error.name or "").partition(".")[0]
    for requirement in requires("arbora") or []:
        found = re.match(r"([\w.-]+).*;.*\bextra == ['\"]([\w-]+)['\"]", requirement)
        if found and found[1].replace("-", "_").lower() == module:
            return f'the package {module} is not installed: pip install "arbora[{found[2]}]"'
    return None


@contextmanager
def importing_extra() -> Iterator[None]:
    """Name the extra in the error that is raised if a module imported in the block is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (advice := missing_extra(error)) is None:
            raise
        raise ModuleNotFoundError(advice, name=error.name) from None
