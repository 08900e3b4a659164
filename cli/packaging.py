"""Python distributions of models, which `arbora export --package` writes.

    arbora-gothic/pyproject.toml
    arbora-gothic/README.md
    arbora-gothic/arbora_gothic/__init__.py     empty
    arbora-gothic/arbora_gothic/gothic/         the folder of the model

Entry points of the group `arbora.models` name the models; `arbora.model.catalogue` finds them.
"""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from arbora.model.catalogue import GROUP
from arbora.model.storage.folder import CONFIG

PROJECT = "pyproject.toml"
NAME = r"[a-z0-9]+(-[a-z0-9]+)*"


@contextmanager
def new_model(package: Path, name: str, license: str | None) -> Iterator[Path]:
    """Add a model to a package; the block writes it to the folder that it gets.

    Args:
        package: folder of the distribution, which is named like it.
        name: of the model.
        license: of the models of the package.

    Raises:
        ValueError: a name or the licence cannot stand in a package, or the folder is something else.
    """
    for what, given in (("--package", name), ("the name of the folder --output", package.resolve().name)):
        if not re.fullmatch(NAME, given):
            raise ValueError(
                f"{what}, {given}, must consist of lower-case letters and digits, with single hyphens between them"
            )
    if license is not None and not re.fullmatch(r"[\w.+-]+( (AND|OR|WITH) [\w.+-]+)*", license):
        raise ValueError(f"--license {license}: give an SPDX identifier, such as CC-BY-SA-4.0")
    if package.exists() and any(package.iterdir()) and not (package / PROJECT).is_file():
        raise ValueError(f"{package} exists and is not a package of models: give another --output")
    new = not package.exists()
    module = package / _module(package)
    module.mkdir(parents=True, exist_ok=True)
    try:
        yield module / name
    except BaseException:
        if new:
            shutil.rmtree(package)
        raise
    (module / "__init__.py").touch()
    _write_project(package, license)


def _write_project(package: Path, license: str | None) -> None:
    """Write `pyproject.toml` for the models that are in the module of a package; its version stays as it is."""
    name, module = package.resolve().name, _module(package)
    models = sorted(path.parent.name for path in (package / module).glob(f"*/{CONFIG}"))
    path, version = package / PROJECT, "0.1.0"
    if path.is_file():
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        version, license = project.get("version", version), license or project.get("license")
    lines = [
        "[build-system]",
        'requires = ["setuptools>=77"]',
        'build-backend = "setuptools.build_meta"',
        "",
        "[project]",
        f'name = "{name}"',
        f'version = "{version}"',
        f'description = "Models of the dependency parser Arbora: {", ".join(models)}"',
        'requires-python = ">=3.11"',
        *([f"license = {json.dumps(license)}"] if license else []),
        "",
        f'[project.entry-points."{GROUP}"]',
        *(f'{model} = "{module}"' for model in models),
        "",
        "[tool.setuptools]",
        f'packages = ["{module}"]',
        "",
        "[tool.setuptools.package-data]",
        f'{module} = ["**/*"]',
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _module(package: Path) -> str:
    return package.resolve().name.replace("-", "_")
