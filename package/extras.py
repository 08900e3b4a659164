"""Optional dependencies: which extra installs a module that is missing."""

from __future__ import annotations

import re
from importlib.metadata import requires


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """Explain in one line which extra to install, or return None if no extra has the module."""
    module = (error.name or "").partition(".")[0]
    for requirement in requires("arbora") or []:
        found = re.match(r"([\w.-]+).*;.*\bextra == ['\"]([\w-]+)['\"]", requirement)
        if found and found[1].replace("-", "_").lower() == module:
            return f'the package {module} is not installed: pip install "arbora[{found[2]}]"'
    return None
