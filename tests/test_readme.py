"""What the README and the tutorials show runs, in a folder that has the files they name."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from arbora.cli import COMMANDS

ROOT = Path(__file__).parents[1]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
QUICK = "--trainer.max_epochs 1 --data.sample 10 --model.encoder.init_args.size 8"
"""Added to commands that would train for long."""


def blocks(page: Path) -> list[tuple[str, str]]:
    """Blocks of code with their languages."""
    return re.findall(r"```(bash|python)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def commands(block: str) -> list[str]:
    """Calls of arbora with their pipes; without installation, and without those that leave something out (`...`)."""
    lines = block.replace("\\\n", " ").splitlines()
    calls = [line.partition("  #")[0].strip() for line in lines if re.search(r"(^|\| )arbora ", line)]
    return [
        f"{call} {QUICK}" if call.startswith("arbora train --config") else call for call in calls if "..." not in call
    ]


@pytest.fixture
def folder(tmp_path: Path, tagger: Path) -> Path:
    """Models, treebanks and text under the names that the pages use."""
    from untrained import save_untrained

    from arbora.model.scorers.multilinear import Multilinear

    sentences = (ROOT / "examples" / "treebank" / "dev.conllu").read_text(encoding="utf-8").split("\n\n")
    treebank = "\n\n".join(sentences[:10]) + "\n\n"
    (tmp_path / "UD_Greek-GDT").mkdir()
    files = [f"{name}{part}.conllu" for name in ("", "el-", "tr-") for part in ("dev", "test")]
    files += [f"{where}el_gdt-ud-{part}.conllu" for where in ("", "UD_Greek-GDT/") for part in ("train", "dev", "test")]
    for name in files:
        (tmp_path / name).write_text(treebank, encoding="utf-8")
    (tmp_path / "article.txt").write_text("The dog barked. It was late.\n", encoding="utf-8")
    for run in ("second", "turkish"):
        (tmp_path / "runs" / run).mkdir(parents=True)
    save_untrained(tmp_path / "runs" / "second" / "best.ckpt", parts=Multilinear(rank=4))
    (tmp_path / "runs" / "turkish" / "best.ckpt").write_bytes(tagger.read_bytes())
    return tmp_path


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", *(pytest.param(page, marks=pytest.mark.slow) for page in TUTORIALS)],
    ids=lambda p: p.stem,
)
def test_what_a_page_shows_runs(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    if page.stem == "compare":  # another page trains this parser
        (folder / "runs" / "greek").mkdir()
        (folder / "runs" / "greek" / "best.ckpt").write_bytes((folder / "runs" / "turkish" / "best.ckpt").read_bytes())
    variables = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    names = {"__name__": page.stem}
    ran = 0
    for language, block in blocks(page):
        if language == "python":
            exec(compile(block, page.name, "exec"), names)
            ran += 1
        else:
            for command in commands(block):
                script = ["bash", "-euo", "pipefail", "-c", command]
                done = subprocess.run(script, env=variables, capture_output=True, text=True, check=False)
                assert done.returncode == 0, f"{command}\n{done.stderr}"
                ran += 1
    assert ran


def test_the_readme_prints_a_tree(capsys: pytest.CaptureFixture[str]) -> None:
    code = next(block for language, block in blocks(ROOT / "README.md") if language == "python")
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert "['The', 'dog', 'barked', '.'] ['DET', 'NOUN', 'VERB', 'PUNCT'] [2 3 0 3]" in capsys.readouterr().out


def test_commands_and_files_exist() -> None:
    bash = "\n".join(block for language, block in blocks(ROOT / "README.md") if language == "bash")
    named = re.findall(r"^arbora ([\w-]+)", bash, re.MULTILINE)
    assert named
    assert set(named) <= set(COMMANDS)
    targets = re.findall(r"^make (\w+)", bash, re.MULTILINE)
    assert {"demo", "test"} <= set(targets)
    assert all(f"\n{target}:" in (ROOT / "Makefile").read_text(encoding="utf-8") for target in targets)
    tutorial = (ROOT / "docs" / "tutorials" / "train.md").read_text(encoding="utf-8")
    configurations = set(re.findall(r"`(\w+\.yaml)`", tutorial)) - {"config.yaml"}  # of a run
    assert configurations == {path.name for path in (ROOT / "configs").rglob("*.yaml")}
    links = re.findall(r"\]\(([^)h][^)]*)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert all((ROOT / link).exists() for link in links)
