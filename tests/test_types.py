"""Types: mypy checks them strictly, but lets modules with kernels have untyped functions, which have to be kernels."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = [path for room in ROOT.glob("*/__init__.py") for path in room.parent.rglob("*.py")]


def untyped_functions(node: ast.AST) -> Iterator[str]:
    """Functions that lack a type somewhere, but for kernels and what is inside of them."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            if any("njit" in ast.unparse(decorator) for decorator in child.decorator_list):
                continue
            given = child.args
            arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs]
            arguments += [argument for argument in (given.vararg, given.kwarg) if argument is not None]
            untyped = [each for each in arguments if each.annotation is None and each.arg not in ("self", "cls")]
            if untyped or child.returns is None:
                yield f"{child.name}, line {child.lineno}"
        yield from untyped_functions(child)


@pytest.mark.slow
def test_types_are_found_outside_of_the_checkout(tmp_path: Path) -> None:
    code = "import arbora; from arbora.decoders import MST; reveal_type(MST()); reveal_type(arbora.load)"
    command = [sys.executable, "-m", "mypy", "--config-file=", "-c", code]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    assert 'Revealed type is "arbora.decoders.mst.MST"' in found
    assert "arbora.model.parser.Parser" in found


def test_everything_but_kernels_is_typed() -> None:
    found = {path: list(untyped_functions(ast.parse(path.read_text(encoding="utf-8")))) for path in SOURCES}
    assert not {str(path.relative_to(ROOT)): names for path, names in found.items() if names}


def test_an_untyped_function_is_found() -> None:
    kernel = "@numba.njit(**KERNEL)\ndef kernel(x):\n    def inner(y): ...\n"
    code = kernel + "def typed(x: int) -> int: ...\ndef bare(x) -> int: ...\n"
    assert list(untyped_functions(ast.parse(code))) == ["bare, line 5"]
