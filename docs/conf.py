"""Settings of the documentation site: `make docs` builds it into `build/docs`.

Pages of commands are generated from the commands' own help, those of configurations from the files, and the list of
source files from their docstrings, into `docs/reference/generated`, so that they cannot go out of date.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import arbora
from arbora.cli import COMMANDS
from arbora.configs import config_names, find_config

DOCS = Path(__file__).parent
GENERATED = DOCS / "reference" / "generated"

project = "Arbora"
author = "the Arbora developers"
version = release = arbora.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["*.py"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
default_role = "code"
"""Docstrings write names in single backticks."""

html_theme = "furo"
html_show_copyright = False
html_title = f"Arbora {version}"
html_static_path: list[str] = []
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f6f50", "color-brand-content": "#1f6f50"},
    "dark_css_variables": {"color-brand-primary": "#6fcf9f", "color-brand-content": "#6fcf9f"},
}
copybutton_exclude = ".linenos, .gp"


def help_of(command: list[str]) -> str:
    """Return the help text of a command, as wide as a page."""
    environment = os.environ | {"COLUMNS": "96"}
    run = subprocess.run(
        [sys.executable, "-m", "arbora.cli", *command, "--help"],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )
    return run.stdout.rstrip()


def write_commands() -> None:
    """One page per command, with its help."""
    more = {"train": [["train", "fit"]], "analyse": [["analyse", "optima"], ["analyse", "doubt"]]}
    commands = [call for name in COMMANDS for call in [[name], *more.get(name, [])]]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        helps = list(pool.map(help_of, commands))
    pages: dict[str, str] = {}
    for command, text in zip(commands, helps):
        title = f"# `arbora {command[0]}`\n" if command[0] not in pages else f"## `arbora {' '.join(command)}`\n"
        pages[command[0]] = pages.get(command[0], "") + f"{title}\n```text\n{text}\n```\n\n"
    for name, text in pages.items():
        write_if_changed(GENERATED / f"command_{name.replace('-', '_')}.md", text)


def write_configurations() -> None:
    """One page with all configurations."""
    introduction = "`arbora train --config NAME` takes these files; each lists what differs from the defaults."
    files = [(name, Path(find_config(name)).read_text(encoding="utf-8").rstrip()) for name in config_names()]
    sections = [f"## `{name}`\n\n```yaml\n{contents}\n```\n" for name, contents in files]
    write_if_changed(GENERATED / "configurations.md", "\n".join([f"# Configurations\n\n{introduction}\n", *sections]))


def write_modules() -> None:
    """One page with the first sentence of the docstring of every module, by package."""
    root = DOCS.parent
    text = "# Source files\n\nThe first sentence of each file's docstring.\n"
    for package in ("data", "decoders", "model", "evaluation", "cli", "service", "reproduction"):
        folder = ""
        for path in sorted((root / package).rglob("*.py"), key=lambda path: (path.parent, path.name)):
            if path.name == "__init__.py":
                continue
            if str(path.parent.relative_to(root)) != folder:
                folder = str(path.parent.relative_to(root))
                text += f"\n## `{folder}/`\n\n"
            about = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            sentence = " ".join(about.partition("\n\n")[0].split())
            text += f"- `{path.name}`: {sentence}\n"
    write_if_changed(GENERATED / "modules.md", text)


def write_if_changed(path: Path, text: str) -> None:
    """Write a page only if it differs, so that a second build is quick."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


write_commands()
write_configurations()
write_modules()
