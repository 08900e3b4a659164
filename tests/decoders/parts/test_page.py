"""The page about parts in docs/."""

import re
from pathlib import Path

import pytest

from arbora.decoders.parts.kinds import KINDS

PAGE = (Path(__file__).parents[3] / "docs" / "parts.md").read_text(encoding="utf-8")


def test_table_lists_every_kind() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*) \|$", PAGE, re.MULTILINE)
    assert [name for name, _, _ in rows] == list(KINDS)
    for name, order, roles in rows:
        kind = KINDS[name]
        assert order == (str(kind.order) if kind.order else "tree")
        assert tuple(roles.split("; ")) == kind.roles


def test_example_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    code = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert code is not None
    exec(compile(code[1], "parts.md", "exec"), {})
    printed = capsys.readouterr().out
    for line in re.findall(r"^print\(.*\)  # (.*)$", code[1], re.MULTILINE):
        assert line in printed
