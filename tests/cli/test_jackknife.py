"""`arbora jackknife`: which sentences each parser is trained on, and which it tags."""

from pathlib import Path

import pytest

from arbora.cli import jackknife, main
from arbora.data.conll import read_conll

DEV = Path(__file__).parents[2] / "examples" / "treebank" / "dev.conllu"


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Commands, in place of which tags are replaced by the name of the run."""
    found: list[tuple[str, ...]] = []

    def arbora(*arguments: str) -> None:
        found.append(arguments)
        if arguments[0] == "predict":
            name, tagged = Path(arguments[1]).parent.name, []
            for line in Path(arguments[2]).read_text().splitlines():
                cells = line.split("\t")
                tagged.append("\t".join([*cells[:3], name, *cells[4:]]) if len(cells) == 10 else line)
            Path(arguments[4]).write_text("\n".join(tagged) + "\n")
        else:
            folder = Path(arguments[-1])
            folder.mkdir(exist_ok=True)

    monkeypatch.setattr(jackknife, "arbora", arbora)
    return found


def test_each_sentence_is_tagged_by_a_parser_that_has_not_seen_it(
    commands: list[tuple[str, ...]], tmp_path: Path
) -> None:
    command = ["jackknife", "--data.train", str(DEV), "--data.dev", str(DEV), "--run", str(tmp_path), "--folds", "3"]
    main([*command, "--config", "small"])
    gold, found = list(read_conll(DEV)), list(read_conll(tmp_path / "train.conllu"))
    assert [sentence.form for sentence in found] == [sentence.form for sentence in gold]
    assert [sentence.head for sentence in found] == [sentence.head for sentence in gold]
    for fold in (1, 2, 3):
        tagged = [s.form for s in found if s.upos[0] == f"fold{fold}"]
        others = [s.form for s in read_conll(tmp_path / f"fold{fold}" / "others.conllu")]
        assert 0 < len(tagged) < len(others) < len(gold)
        assert len(tagged) + len(others) == len(gold)
    assert all(sentence.upos[0] == "whole" for sentence in read_conll(tmp_path / "dev.conllu"))
    assert commands[0][:3] == ("train", "--config", "small")
    assert commands[-2][4] == str(DEV)
    done = len(commands)
    (tmp_path / "fold2" / "tagged.conllu").unlink()
    (tmp_path / "fold2" / "last.ckpt").touch()
    main([*command, "--config", "small"])  # resumes one fold
    assert commands[done] == ("train", "--config", str(tmp_path / "fold2" / "config.yaml"), "--ckpt_path", "last")
    assert len(commands) == done + 2


def test_too_many_folds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["jackknife", "--data.train", str(DEV), "--data.dev", str(DEV), "--run", str(tmp_path), "--folds", "1"])
    assert "--folds must lie in 2.." in capsys.readouterr().err
