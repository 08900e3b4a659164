import re
from pathlib import Path

import pytest

from arbora.cli import COMMANDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("code", blocks("python"), ids=lambda code: code.split("\n")[0])
def test_python_runs(
    code: str, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runs" / "demo").mkdir(parents=True)
    (tmp_path / "runs" / "demo" / "best.ckpt").write_bytes(checkpoint.read_bytes())
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert capsys.readouterr().out


def test_commands_and_files_exist() -> None:
    commands = re.findall(r"^arbora ([\w-]+)", "\n".join(blocks("bash")), re.MULTILINE)
    assert commands
    assert set(commands) <= set(COMMANDS)
    targets = re.findall(r"^make (\w+)", "\n".join(blocks("bash")), re.MULTILINE)
    assert {"demo", "test"} <= set(targets)
    assert all(f"\n{target}:" in (ROOT / "Makefile").read_text(encoding="utf-8") for target in targets)
    tutorial = (ROOT / "docs" / "tutorials" / "train.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+\.yaml)`", tutorial)) - {"config.yaml"}  # of a run
    assert named == {path.name for path in (ROOT / "configs").rglob("*.yaml")}
    links = re.findall(r"\]\(([^)h][^)]*)\)", README)
    assert all((ROOT / link).exists() for link in links)
