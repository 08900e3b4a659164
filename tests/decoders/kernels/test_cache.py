"""The cache of compiled kernels, in a copy of the package with three modules more: caller, helper, constants."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import arbora
from arbora.decoders.kernels import cache

PROBE = {
    "constants": "STEP = 1\n",
    "helper": (
        "import numba\nfrom arbora.decoders.kernels.options import HELPER\nfrom arbora.probe.constants import STEP\n"
        "@numba.njit(**HELPER)\ndef add(x):\n    return x + STEP\n"
    ),
    "caller": (
        "import numba\nfrom arbora.decoders.kernels.options import KERNEL\nfrom arbora.probe import (\n    helper,\n)\n"
        "@numba.njit(**KERNEL)\ndef double(x):\n    return 2 * helper.add(x)\n"
    ),
    "other": (
        "import numba\nfrom arbora.decoders.kernels.options import KERNEL\n"
        "@numba.njit(**KERNEL)\ndef double(x):\n    return 3 * x\n"
    ),
}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder to import the package and its probe from, with nothing compiled."""
    package = tmp_path / "site" / "arbora"
    shutil.copytree(Path(cache.__file__).parents[1], package / "decoders", ignore=shutil.ignore_patterns("__pycache__"))
    for module in Path(arbora.__file__).parent.glob("*.py"):
        shutil.copyfile(module, package / module.name)
    (package / "probe").mkdir()
    (package / "probe" / "__init__.py").touch()
    for name, source in PROBE.items():
        (package / "probe" / f"{name}.py").write_text(source)
    return package.parent


def run(site: Path, module: str = "caller", **environment: str) -> tuple[str, int, str]:
    """Return the result of `double(1)`, how often machine code was saved in the cache, and stderr."""
    code = f"from arbora.probe import {module}; print('result', {module}.double(1))"
    base = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    environment = base | {"PYTHONPATH": str(site), "NUMBA_DEBUG_CACHE": "1"} | environment
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=site, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    match = re.search("^result (.*)$", done.stdout, re.MULTILINE)
    assert match, done.stdout
    return match[1], len(re.findall("data saved", done.stdout)), done.stderr


def test_a_compiled_kernel_runs_without_what_compiles_kernels(site: Path) -> None:
    code = "import sys; from arbora.probe import caller; print(caller.double(1), 'numba.np.arraymath' in sys.modules)"
    run(site)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    environment["PYTHONPATH"] = str(site)
    printed = subprocess.run([sys.executable, "-c", code], env=environment, cwd=site, capture_output=True, text=True)
    assert printed.stdout == "4 False\n", printed.stderr


def edit(site: Path, module: str, old: str, new: str) -> None:
    path = site / "arbora" / "probe" / f"{module}.py"
    path.write_text(path.read_text().replace(old, new))


def test_kernels_are_compiled_once(site: Path) -> None:
    assert run(site)[:2] == ("4", 1)
    assert run(site)[:2] == ("4", 0)


@pytest.mark.parametrize(
    ("module", "old", "new", "expected"),
    [
        ("helper", "x + STEP", "x - STEP", "0"),
        ("constants", "STEP = 1", "STEP = 2", "6"),
        ("caller", "2 *", "5 *", "10"),
    ],
)
def test_a_change_in_any_file_that_a_kernel_depends_on_is_noticed(
    site: Path, module: str, old: str, new: str, expected: str
) -> None:
    run(site)
    assert run(site, "other")[:2] == ("3", 1)
    edit(site, module, old, new)
    result, saved, _ = run(site)
    assert (result, saved > 0) == (expected, True)
    assert run(site, "other")[:2] == ("3", 0)  # depends on none of them


def test_a_class_that_moves_to_another_module(site: Path) -> None:
    """The index of a kernel names the classes of its arguments."""
    kernel = "@numba.njit(**KERNEL)\ndef double_pair(pair):\n    return 2 * pair.x\n"
    kernel += "def double(x):\n    return double_pair(Pair(x))\n"
    imports = "import numba\nfrom typing import NamedTuple\nfrom arbora.decoders.kernels.options import KERNEL\n"
    pair = "class Pair(NamedTuple):\n    x: int\n"
    caller = site / "arbora" / "probe" / "caller.py"
    caller.write_text(imports + pair + kernel)
    assert run(site)[:2] == ("2", 1)
    (site / "arbora" / "probe" / "pairs.py").write_text("from typing import NamedTuple\n" + pair)
    caller.write_text(imports + "from arbora.probe.pairs import Pair\n\n" + kernel)
    assert run(site)[:2] == ("2", 1)


def test_settings_of_the_compiler_are_noticed(site: Path) -> None:
    run(site)
    assert run(site, NUMBA_BOUNDSCHECK="1")[1] > 0


def test_a_copy_at_another_path_has_its_kernels(site: Path) -> None:
    run(site)
    copy = site.with_name("copy")
    shutil.copytree(site, copy)
    shutil.rmtree(site)
    assert run(copy)[:2] == ("4", 0)


def test_numba_cache_dir_comes_first(site: Path, tmp_path: Path) -> None:
    assert run(site, NUMBA_CACHE_DIR=str(tmp_path / "cache"))[:2] == ("4", 1)
    assert len(list((tmp_path / "cache").rglob("*.nbc"))) == 1
    assert not list(site.rglob("*.nbc"))


def block(site: Path) -> None:
    """Make the package's own folder unusable, also for a superuser, whom no permission stops."""
    own = site / "arbora" / "decoders" / "kernels" / "__pycache__"
    shutil.rmtree(own, ignore_errors=True)
    own.touch()


def test_the_user_s_cache_is_next(site: Path, tmp_path: Path) -> None:
    block(site)
    for saved in (1, 0):
        assert run(site, XDG_CACHE_HOME=str(tmp_path / "cache")) == ("4", saved, "")


def test_without_a_writable_folder_one_line_warns(site: Path, tmp_path: Path) -> None:
    block(site)
    for environment in ({"XDG_CACHE_HOME": "/dev/null"}, {"XDG_CACHE_HOME": "~/cache"}):
        result, saved, errors = run(site, **environment)
        assert (result, saved) == ("4", 0)
        assert len(errors.splitlines()) == 1
        assert "NUMBA_CACHE_DIR" in errors
    assert not (site / "~").exists()


@pytest.mark.parametrize("where", ["user", "temporary"])
def test_kernels_of_a_read_only_package_are_copied(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "kernel.nbi").write_text("index")
    (own / "kernel.1.nbc").write_text("code")
    usable = cache.is_writable
    monkeypatch.setattr(cache, "is_writable", lambda folder: where == "user" and folder != own and usable(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache.numba.config, "CACHE_DIR", "")  # type: ignore[attr-defined]
    folder = cache.find_folder(own)
    assert folder is not None
    assert folder != own
    assert sorted(file.name for file in folder.iterdir()) == ["kernel.1.nbc", "kernel.nbi"]
    assert (tmp_path / "cache" in folder.parents) == (where == "user")
    assert not caplog.records


@pytest.mark.parametrize("folder", ["decoders", "model"])
def test_kernels_take_their_options_from_one_place(folder: str) -> None:
    """Written out by hand, they would ask for a cache where no folder is writable."""
    sources = {path: path.read_text() for path in (Path(cache.__file__).parents[2] / folder).rglob("*.py")}
    assert sources
    assert [str(path) for path, source in sources.items() if re.search(r"jit\([^*)\n]*cache=", source)] == []
