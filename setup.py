"""Build the distribution. Everything that is not about folders is in `pyproject.toml`.

The folders at the top level are the subpackages of `arbora`, and `package/` is its root. Links turn them into the usual
tree of packages: `links/arbora` is `package/`, `package/cli` is `cli/`, and so on. They are created here, not kept in
the repository, because Windows needs junctions instead. An editable installation puts the folder `links` on Python's
path, so type checkers find the packages as well.

Packages are found, not listed: every folder with an `__init__.py` is installed.
"""

import os
import re
import tomllib
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parent
LINKS = ROOT / "links"
PACKAGE = ROOT / "package"


def link_folders() -> None:
    """Create the links, and replace those that lead elsewhere."""
    LINKS.mkdir(exist_ok=True)
    rooms = [path.parent for path in ROOT.glob("*/__init__.py") if path.parent != PACKAGE]
    for path in PACKAGE.iterdir():
        if not path.exists():  # the link to a folder that was removed
            path.unlink()
    _link(LINKS / "arbora", PACKAGE)
    for room in rooms:
        _link(PACKAGE / room.name, room)


def _link(path: Path, folder: Path) -> None:
    if path.exists() and path.samefile(folder):
        return
    if os.name == "nt":
        import _winapi

        if os.path.lexists(path):
            path.rmdir()
        _winapi.CreateJunction(str(folder), str(path))
    else:
        path.unlink(missing_ok=True)
        path.symlink_to(os.path.relpath(folder, path.parent), target_is_directory=True)


def standalone(text: str, repository: str | None) -> str:
    """Markdown whose relative links lead to the repository, or become plain text if it has no address."""

    def replace(match: re.Match[str]) -> str:
        mark, name, target = match.groups()
        if repository is None:
            return "" if mark else name
        return f"{mark}[{name}]({repository}/{'raw' if mark else 'blob'}/HEAD/{target})"

    return re.sub(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)]*)\)", replace, text)


if __name__ == "__main__":
    link_folders()
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    setup(
        packages=find_packages("links"),
        package_dir={"": "links"},
        long_description=standalone(readme, settings["project"].get("urls", {}).get("Repository")),
        long_description_content_type="text/markdown",
    )
