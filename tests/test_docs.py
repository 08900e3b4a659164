"""The pages of the documentation: their Python runs, and their links lead somewhere. `make docs` builds the site."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "generated" not in path.parts)
RUNNABLE = ["extend.md", "parts.md", "tutorials/own_scores.md"]
"""Pages whose snippets need neither a model nor a file; those of a page build on each other."""


def python_of(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("name", RUNNABLE)
def test_snippets_print_what_their_comments_say(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "snippets"}
    source = "\n".join(python_of(DOCS / name))
    exec(compile(source, name, "exec"), namespace)
    printed = capsys.readouterr().out.splitlines()
    expected = re.findall(r"^print\(.*?\)  # (.*)$", source, re.MULTILINE)
    assert expected
    assert [line for line in expected if line not in printed] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?![a-z]+:|#)([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (page.parent / target).exists() and "generated" not in target]
    assert missing == []


def test_every_page_is_in_the_table_of_contents() -> None:
    listed = set()
    for page in (DOCS / "index.md", DOCS / "decoders" / "index.md", DOCS / "results.md"):
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            entries = [line for line in tree.splitlines() if line and not line.startswith(":")]
            listed |= {(page.parent / f"{entry}.md").resolve() for entry in entries}
    assert {page for page in PAGES if page.resolve() not in listed} <= {DOCS / "index.md"}


def test_pictures_of_decoders_are_what_their_script_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs" / "decoders").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(DOCS / "decoder_pictures.py"), run_name="__main__")
    drawn = sorted(tmp_path.rglob("*.svg"))
    assert [path.name for path in drawn] == sorted(path.name for path in (DOCS / "decoders").glob("*.svg"))
    for path in drawn:
        assert path.read_bytes() == (DOCS / "decoders" / path.name).read_bytes()
        assert f"]({path.name})" in (DOCS / "decoders" / path.with_suffix(".md").name).read_text(encoding="utf-8")
