"""The distribution: what it holds, what it needs, and how it behaves where little is installed."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import packages_distributions, version
from pathlib import Path
from types import ModuleType

import pytest

import arbora
from arbora.cli import COMMANDS
from arbora.configs import config_names, find_config
from arbora.extras import missing_extra

ROOT = Path(__file__).parents[1]
TREEBANK = ROOT / "examples" / "treebank"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {name: extra for name, extra in PROJECT["optional-dependencies"].items() if name not in ("benchmark", "test")}


def run(*command: str | Path, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("COV_", "PYTHON"))}
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=variables | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def succeed(*command: str | Path, cwd: Path | None = None, **environment: str) -> str:
    done = run(*command, cwd=cwd, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tracked(*folders: str) -> set[str]:
    """Files of the repository, or of a source distribution, below some folders."""
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *folders, cwd=ROOT)
    if listed.returncode != 0:
        pytest.skip("not a checkout of the repository")
    return {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}


def modules(folder: Path) -> set[str]:
    """Files of a package, relative to it, without those that running it makes."""
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def setup_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("setup_script", ROOT / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# The root package


def test_version_is_that_of_the_distribution() -> None:
    assert arbora.__version__ == version("arbora") == PROJECT["version"]


def test_subpackages_are_imported_when_used() -> None:
    code = "import sys, arbora; assert {name for name in sys.modules if 'arbora.' in name} == {'arbora.extras'}"
    code += "; arbora.decoders.MST; arbora.data; assert 'torch' not in sys.modules"
    succeed(sys.executable, "-c", code)
    assert set(dir(arbora)) == {"__version__", "load", "threads"} | {
        path.parent.name for path in ROOT.glob("*/__init__.py") if path.parent.name != "package"
    }
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = arbora.nonsense


# Configurations by name


def test_configurations_have_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"second_order", "pruners/local"} <= set(config_names())
    assert find_config("second_order").samefile(ROOT / "configs" / "second_order.yaml")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "second_order").write_text("of my own")
    assert find_config("second_order").samefile(tmp_path / "second_order")
    with pytest.raises(ValueError, match="no configuration 'third': give the path of a file, or one of demo, full,"):
        find_config("third")


# What is missing is named in one line

WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

class Without(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Without())
"""

LIGHT = WITHOUT.format(
    missing={re.split(r"[<>=]", each)[0].replace("-", "_") for extra in EXTRAS.values() for each in extra}
)


def light(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command as in an installation without extras."""
    return run(sys.executable, "-c", f"{LIGHT}\nfrom arbora.cli import main\nmain(sys.argv[1:])", *arguments)


def test_decoders_need_numpy_and_numba_only() -> None:
    others = set(packages_distributions()) - {"numpy", "numba", "llvmlite", "arbora", "_distutils_hack"}
    succeed(sys.executable, "-c", WITHOUT.format(missing=others) + "import arbora.decoders")


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_help_without_extras_or_name_what_they_need(command: str) -> None:
    done = light(command, "--help")
    if done.returncode != 0:
        assert command not in ("evaluate", "draw", "compare")
        line = rf'arbora {command}: the package \w+ is not installed: pip install "arbora\[train\]"\n'
        assert re.fullmatch(line, done.stderr)
        assert done.returncode == 1


def test_parsing_without_extras_names_what_it_needs(checkpoint: Path) -> None:
    done = light("predict", checkpoint, TREEBANK / "test.conllu")
    assert done.returncode == 1
    assert re.fullmatch(
        r'arbora predict: the package \w+ is not installed: pip install "arbora\[train\]"\n', done.stderr
    )


def test_evaluating_and_drawing_without_extras() -> None:
    file = TREEBANK / "test.conllu"
    done = light("evaluate", file, file)
    assert "100.00" in done.stdout, done.stderr
    done = light("draw", file, "--sentences", "1")
    assert done.stdout, done.stderr


def test_a_missing_extra_is_named_in_python(checkpoint: Path) -> None:
    code = f"{LIGHT}\nimport arbora; arbora.load(sys.argv[1])"
    last = run(sys.executable, "-c", code, checkpoint).stderr.splitlines()[-1]
    assert re.fullmatch(r'ModuleNotFoundError: the package \w+ is not installed: pip install "arbora\[train\]"', last)


def test_the_tokenizer_works_without_extras() -> None:
    code = """
from arbora.data.conll import read_conll
from arbora.model.tokenizer.learning import learn_tokenizer
from arbora.model.tokenizer.tokenizer import Tokenizer
sentences = list(read_conll(sys.argv[1]))
tokenizer = Tokenizer.from_contents(learn_tokenizer(sentences, sentences).contents)
print(*tokenizer.split_text("It rained. A dog slept.")[1].form)
"""
    done = run(sys.executable, "-c", f"{LIGHT}{code}", TREEBANK / "dev.conllu")
    assert done.stdout == "A dog slept .\n", done.stderr


def test_every_extra_is_found_by_its_modules() -> None:
    for extra, requirements in EXTRAS.items():
        for requirement in requirements:
            module = re.split(r"[<>=;]", requirement)[0].replace("-", "_")
            advice = missing_extra(ModuleNotFoundError(name=f"{module}.inner"))
            assert advice == f'the package {module} is not installed: pip install "arbora[{extra}]"'
    assert missing_extra(ModuleNotFoundError(name="nonsense")) is None
    assert missing_extra(ModuleNotFoundError("no name")) is None


# The command itself


def test_version_on_the_command_line() -> None:
    assert succeed(sys.executable, "-m", "arbora.cli", "--version") == f"arbora {arbora.__version__}\n"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGPIPE")
@pytest.mark.parametrize("arguments", ["--help", "draw --help", f"draw {TREEBANK / 'train.conllu'}"])
def test_a_closed_pipe_is_no_error(arguments: str) -> None:
    reader = "import os, sys; os.close(0)"
    command = f'"{sys.executable}" -m arbora.cli {arguments} | "{sys.executable}" -c "{reader}"'
    assert run("sh", "-c", command).stderr == ""


# Wheel and source distribution


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A wheel that was built from a source distribution, and the latter.

    They are built in a copy: other processes of the tests may do the same, or compile kernels, in the meantime.
    """
    folder, copy = tmp_path_factory.mktemp("distributions"), tmp_path_factory.mktemp("source") / "arbora"
    made = shutil.ignore_patterns(
        ".*_cache", ".venv", ".git", ".hypothesis", ".coverage*", "__pycache__", "runs", "links"
    )
    shutil.copytree(ROOT, copy, symlinks=True, ignore=made)
    succeed(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, copy)
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source


@pytest.fixture(scope="module")
def installed(distributions: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of an environment with nothing but the wheel, and the dependencies of the one that runs the tests."""
    folder = tmp_path_factory.mktemp("elsewhere")
    succeed(sys.executable, "-m", "venv", "--without-pip", folder / "env")
    python = folder / "env" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    site = Path(succeed(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    with zipfile.ZipFile(distributions[0]) as wheel:
        wheel.extractall(site)
    others = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (site / "others.pth").write_text("\n".join(others), encoding="utf-8")  # paths only: no editable installation
    return python


def test_the_source_distribution_is_complete(distributions: tuple[Path, Path]) -> None:
    with tarfile.open(distributions[1]) as source:
        held = {name.partition("/")[2] for name in source.getnames() if source.getmember(name).isfile()}
    made = {"PKG-INFO", "setup.cfg", "links/arbora.egg-info/SOURCES.txt"}
    assert held - made == {name for name in tracked() if not name.startswith((".gitignore", "models/"))}


def test_the_wheel_is_the_tree(installed: Path, tmp_path: Path) -> None:
    code = "import arbora, pathlib; print(pathlib.Path(arbora.__file__).parent)"
    folder = Path(succeed(installed, "-c", code, cwd=tmp_path).strip())
    assert ROOT not in folder.parents
    rooms = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert modules(folder) == {name.removeprefix("package/") for name in tracked(*rooms)}


def test_the_wheel_has_no_relative_links(distributions: tuple[Path, Path], setup_script: ModuleType) -> None:
    with zipfile.ZipFile(distributions[0]) as wheel:
        (name,) = [name for name in wheel.namelist() if name.endswith("METADATA")]
        metadata = wheel.read(name).decode("utf-8")
    assert "Description-Content-Type: text/markdown" in metadata
    assert "# Arbora" in metadata
    assert not re.findall(r"\]\((?!https?:)[^)]*\)", metadata)
    text = "![tree](docs/a.svg) see [b](docs/b.md) and [c](https://c.org)"
    assert setup_script.standalone(text, None) == " see b and [c](https://c.org)"
    assert setup_script.standalone(text, "https://d.org/e") == (
        "![tree](https://d.org/e/raw/HEAD/docs/a.svg) see [b](https://d.org/e/blob/HEAD/docs/b.md) and [c](https://c.org)"
    )


def test_the_wheel_works(installed: Path, checkpoint: Path, tmp_path: Path) -> None:
    def arbora_command(*arguments: str | Path) -> str:
        return succeed(installed, "-m", "arbora.cli", *arguments, cwd=tmp_path)

    assert arbora_command("--version") == f"arbora {arbora.__version__}\n"
    assert all(command in arbora_command("--help") for command in COMMANDS)
    code = "import numpy as np; from arbora.decoders import MST, Parts\n"
    code += "print(MST()(Parts.from_dense(np.arange(9.0).reshape(1, 3, 3))).heads[0].tolist())"
    assert succeed(installed, "-c", code, cwd=tmp_path) == "[-1, 2, 0]\n"
    parsed = tmp_path / "parsed.conllu"
    arbora_command("predict", checkpoint, TREEBANK / "test.conllu", "-o", parsed)
    assert "UAS" in arbora_command("evaluate", TREEBANK / "test.conllu", parsed)
