"""The cache of compiled kernels: its folder, and the check whether an entry is stale.

numba stamps a cached kernel with the content of the kernel's own file. But its machine code also contains the kernels
that it calls and the constants that it reads, which are in other files, so changes there would go unnoticed. Kernels of
this package are therefore stamped with the content of their own file and of every file of the package that it imports,
directly or indirectly. Importing this module makes numba do so.

The stamp depends on content only, so that a copy of an environment at another path finds its kernels compiled.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import logging
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numba
from numba.core import caching, dispatcher
from numba.core.caching import CacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator
from numba.core.runtime.nrt import rtsys
from numba.misc.appdirs import AppDirs

PACKAGE = __name__.partition(".")[0]
OWN_FOLDER = Path(__file__).resolve().parent / "__pycache__" / "compiled"
"""Folder in the package, so that a copy of the environment includes it."""

IMPORT = re.compile(r"^(?:from\s+([\w.]+)\s+import\s+(\([^)]*\)|.*)|import\s+([\w.]+))", re.MULTILINE)
"""An import at the top level of a module. Imports inside functions come too late to be part of a kernel."""

logger = logging.getLogger("arbora")
kernels = logging.getLogger("arbora.kernels")
"""Logger of the modules whose kernels are not in the cache."""


def is_writable(folder: Path) -> bool:
    """Return whether files can be created in a folder, which is created if it does not exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def find_folder(own: Path = OWN_FOLDER) -> Path | None:
    """Folder of compiled kernels: the first that is writable, or None.

    `NUMBA_CACHE_DIR` comes first, then the package's own folder, then the user's cache, with a subfolder for each place
    where the package is installed. In a container that can only be read, kernels that were compiled when it was built
    are copied to a temporary folder.

    Args:
        own: folder in the package.
    """
    name = hashlib.sha256(str(own).encode()).hexdigest()[:16]
    chosen = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    if chosen and is_writable(folder := Path(chosen) / f"{PACKAGE}-{name}"):
        return folder
    if is_writable(own):
        return own
    users = Path(AppDirs(PACKAGE, appauthor=False).user_cache_dir) / name
    if users.is_absolute() and is_writable(users):  # without a home it is relative: "~/.cache"
        _copy_compiled(own, users)
        return users
    try:
        temporary = Path(tempfile.mkdtemp(prefix=f"{PACKAGE}-")) if any(own.glob("*.nbi")) else None
    except OSError:
        temporary = None
    if temporary is None:
        logger.warning(
            "no folder for compiled kernels is writable, so every run compiles them again, which takes minutes: "
            "set NUMBA_CACHE_DIR to a writable folder"
        )
        return None
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    _copy_compiled(own, temporary)
    return temporary


def _copy_compiled(source: Path, target: Path) -> None:
    for file in source.glob("*.nb[ci]"):
        if not (target / file.name).exists():
            shutil.copyfile(file, target / file.name)


# By module, with its spec: a module that is reloaded gets another one.
_sources: dict[str, tuple[ModuleSpec | None, bytes, list[str]]] = {}
_stamps: dict[str, tuple[ModuleSpec | None, str]] = {}


def _find_spec(name: str) -> ModuleSpec | None:
    """Spec of a module, or None if a name is not that of a module."""
    if name in sys.modules:
        return sys.modules[name].__spec__
    package = _find_spec(name.rpartition(".")[0]) if "." in name else None
    return importlib.util.find_spec(name) if package and package.submodule_search_locations else None


def _read_source(name: str, spec: Any) -> tuple[bytes, list[str]]:
    """Hash of a module's source, and what it imports from the package: modules, and names that may be modules.

    Read once, soon after the module is loaded, since its file may be edited before another module imports it.
    """
    if name not in _sources or _sources[name][0] is not spec:
        source = spec.loader.get_data(spec.origin)
        imports = []
        for start, names, module in IMPORT.findall(source.decode()):
            start = importlib.util.resolve_name(start or module, spec.parent)
            if start.partition(".")[0] == PACKAGE:
                imports += [start, *(f"{start}.{part}" for part in re.findall(r"\w+", names))]
        _sources[name] = spec, hashlib.sha256(source).digest(), imports
    return _sources[name][1:]


def source_stamp(name: str) -> str:
    """Hash of the sources of a module and of all modules of the package that it imports, directly or through others."""
    own = _find_spec(name)
    if name in _stamps and _stamps[name][0] is own:
        return _stamps[name][1]
    sources: dict[str, bytes] = {}
    remaining, seen = [name], {name}
    while remaining:
        module = remaining.pop()
        if spec := _find_spec(module):
            sources[module], imports = _read_source(module, spec)
            remaining += set(imports) - seen
            seen.update(imports)
    stamp = hashlib.sha256(repr(_compiler_settings()).encode())
    for module in sorted(sources):
        stamp.update(module.encode() + sources[module])
    _stamps[name] = own, stamp.hexdigest()
    return _stamps[name][1]


def _compiler_settings() -> list[Any]:
    """Settings by which numba compiles the same source to other machine code, and which its own cache overlooks."""
    return [getattr(numba.config, name, None) for name in ("BOUNDSCHECK", "OPT", "DEBUGINFO_DEFAULT")]


class PackageLocator(_CacheLocator):
    """Names the folder, the files and the stamp of one kernel of the package to numba."""

    folder: Path | None = find_folder()

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        self._py_file = file  # numba's warnings name it
        self._function = function

    def get_cache_path(self) -> str:
        return str(self.folder)

    def get_source_stamp(self) -> str:
        return source_stamp(self._function.__module__)

    def get_disambiguator(self) -> str:
        # All modules share the folder, and numba puts only the last part of a module's name in those of its files.
        return f"{self._function.__module__}-{self._function.__code__.co_firstlineno}"

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> PackageLocator | None:
        """Locator of a kernel, or None if it is not one of this package."""
        return cls(function, file) if function.__module__.partition(".")[0] == PACKAGE and cls.folder else None


class Index(IndexDataCacheFile):
    """Index of the machine code of a kernel.

    It names the classes of the kernel's arguments. Where one of them has moved to another module, the index cannot be
    read and is stale.
    """

    def load(self, key: Any) -> Any:
        data = super().load(key)
        if data is None and PACKAGE in self._index_name:
            kernels.debug("%s is not compiled yet", self._index_name.split("-")[1])
        return data

    def _load_index(self) -> dict[Any, Any]:
        try:
            return dict(super()._load_index())
        except (AttributeError, ImportError):
            return {}


class KernelCache(FunctionCache):
    """The cache of one kernel.

    Before it loads machine code, numba imports whatever it can compile, which takes longer than all the rest. Only
    compiling needs that, and asks for it then. Kernels that run need numba's memory management.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Machine code for these types of arguments, or None."""
        if not isinstance(self._impl.locator, PackageLocator):
            return super().load_overload(sig, target_context)
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


CacheImpl._locator_classes.insert(0, PackageLocator)
dispatcher.FunctionCache = KernelCache  # type: ignore[attr-defined]
caching.IndexDataCacheFile = Index  # type: ignore[misc]
