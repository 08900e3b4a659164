"""Trained models by name.

A name such as `english` is looked up in `$ARBORA_MODELS` (folders of model folders, separated as in `$PATH`), in the
user's data folder, and among installed packages, in this order. A package is found through its entry points of the
group `arbora.models`: each names a model and the module whose folder has a folder of that name. The module is not
imported, so that finding a model runs no code. `hf:owner/name` is a model on Hugging Face's hub.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from arbora.extras import importing_extra
from arbora.model.storage.files import is_linear
from arbora.model.storage.folder import CONFIG, Config, read_config

GROUP = "arbora.models"
VARIABLE = "ARBORA_MODELS"
DEFAULT = "english-small"
HUB = "hf:"


class Model(NamedTuple):
    """A model that has a name."""

    name: str
    folder: Path
    source: str  # where it was found

    def config(self) -> Config:
        """What its folder says."""
        return read_config(self.folder)

    def size(self) -> int:
        """Bytes of its files."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())


def user_folder() -> Path:
    """Where a user keeps models."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return base / "arbora" / "models"


def known_models() -> dict[str, Model]:
    """All models that can be found by name; if several have the same name, the first one."""
    found: dict[str, Model] = {}
    for model in _models():
        found.setdefault(model.name, model)
    return dict(sorted(found.items()))


def _models() -> Iterator[Model]:
    folders = [(Path(part), f"${VARIABLE}") for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]
    for parent, source in [*folders, (user_folder(), str(user_folder()))]:
        for folder in sorted(parent.iterdir()) if parent.is_dir() else ():
            if (folder / CONFIG).is_file():
                yield Model(folder.name, folder, source)
    for entry in entry_points(group=GROUP):
        if (found := _folder_of(entry)) is not None:
            package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value
            yield Model(entry.name, found, package)


def _folder_of(entry: EntryPoint) -> Path | None:
    """The folder of a packaged model, if it is there; only top-level modules are found without importing anything."""
    spec = find_spec(entry.value) if entry.value.isidentifier() else None
    for location in spec.submodule_search_locations or () if spec is not None else ():
        if (Path(location) / entry.name / CONFIG).is_file():
            return Path(location) / entry.name
    return None


def is_model(given: str) -> bool:
    """Whether an argument is a model and not a file to parse; a file is to be parsed unless it is a checkpoint."""
    path = Path(given)
    if given == "-" or (path.exists() and not path.is_dir() and not path.is_file()):
        return False
    if not path.is_file() or path.suffix == ".ckpt" or given in known_models():
        return True
    with open(path, "rb") as file:
        return file.read(2) == b"PK" or is_linear(path)


def find_model(given: str | Path | None) -> Path:
    """The checkpoint or folder that a path, a name or `hf:owner/name` stands for; None is the default.

    Raises:
        ValueError: it stands for nothing, or for two things.
    """
    if given is None:
        return default_model().folder
    if not isinstance(given, str):
        return given
    if given.startswith(HUB):
        return _download(given)
    path, is_name = Path(given), given == Path(given).name
    model = known_models().get(given) if is_name else None
    here = path.is_file() or (path / CONFIG).is_file()
    if model is not None and here and not path.samefile(model.folder):
        raise ValueError(
            f"{given} is a model of {model.source} and also a file or folder here: write ./{given} for the latter"
        )
    if model is not None:
        return model.folder
    if path.exists() or not is_name or path.suffix == ".ckpt":
        return path
    raise ValueError(unknown(given))


def default_model() -> Model:
    """The model to use if none is named: `english-small` if it is installed, or else the first one.

    Raises:
        ValueError: there is none.
    """
    known = known_models()
    if not known:
        raise ValueError(f"name a model: a checkpoint, or a folder of `arbora export`. {_names()}")
    return known.get(DEFAULT) or next(iter(known.values()))


def unknown(given: str) -> str:
    """The message for an unknown name."""
    return f"there is no model, file or folder {given}. {_names()}"


def _names() -> str:
    names = ", ".join(known_models())
    how = "pip install ./models/arbora-english brings one for English; `arbora export` makes others"
    return f"There are the models {names} (`arbora models`)" if names else f"No models are installed: {how}"


def _hub() -> Any:
    with importing_extra():
        import huggingface_hub.errors
        import huggingface_hub.utils
    huggingface_hub.utils.disable_progress_bars()  # type: ignore[attr-defined]
    return huggingface_hub


def _download(given: str) -> Path:
    """The folder of a model on the hub, in its cache."""
    hub = _hub()
    repository, _, revision = given.removeprefix(HUB).partition("@")
    try:
        folder = Path(hub.snapshot_download(repository, revision=revision or None))
    except (hub.errors.HfHubHTTPError, hub.errors.HFValidationError, OSError) as error:
        raise ValueError(f"{given}: {_first_line(error)}") from None
    if not (folder / CONFIG).is_file():
        raise ValueError(f"{given}: not a parser of `arbora export`: it has no {CONFIG}")
    return folder


def push(folder: Path, repository: str, private: bool = False) -> str:
    """Upload the folder of a model to the hub, and return its address."""
    read_config(folder)
    hub = _hub()
    try:
        api = hub.HfApi()
        api.create_repo(repository, private=private, exist_ok=True)
        api.upload_folder(repo_id=repository, folder_path=folder, commit_message="Upload a parser of Arbora")
    except (hub.errors.HfHubHTTPError, hub.errors.HFValidationError, OSError) as error:
        raise ValueError(f"{repository}: {_first_line(error)}") from None
    return f"{HUB}{repository}"


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
