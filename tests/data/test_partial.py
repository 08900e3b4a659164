from pathlib import Path

import pytest

from arbora.data.partial import Mark, open_partial

SETTINGS = {"model": "a", "sizes": (1, 2)}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def start(path: Path) -> None:
    """Write three pieces, the last behind the mark, and be interrupted."""
    with pytest.raises(KeyboardInterrupt), open_partial(path, SETTINGS) as output:  # noqa: PT012
        output.write("one\n")
        output.write("zwei é\n")
        output.mark(2, 5, 2, 0, "digest")
        output.write("lost")
        raise KeyboardInterrupt


def test_whole_output(tmp_path: Path) -> None:
    with open_partial(tmp_path / "out", SETTINGS) as output:
        assert output.done == Mark()
        output.write("one \udcff\n")
        output.mark(1, 2, 1, 0, "")
        assert names(tmp_path) == ["out.partial", "out.partial.json"]
    assert (tmp_path / "out").read_bytes() == b"one \xff\n"
    assert names(tmp_path) == ["out"]


def test_going_on(tmp_path: Path) -> None:
    path = tmp_path / "out"
    start(path)
    assert names(tmp_path) == ["out.partial", "out.partial.json"]
    with open_partial(path, SETTINGS, resume=True) as output:
        assert (output.done.entries, output.done.words, output.done.parsed, output.done.input) == (2, 5, 2, "digest")
        output.write("three\n")
        output.mark(3, 6, 3, 0, "digest of more")
    assert path.read_text(encoding="utf-8") == "one\nzwei é\nthree\n"
    assert names(tmp_path) == ["out"]


def test_going_on_twice(tmp_path: Path) -> None:
    path = tmp_path / "out"
    start(path)
    with pytest.raises(OSError, match="full"), open_partial(path, SETTINGS, resume=True) as output:  # noqa: PT012
        output.write("three\n")
        output.mark(3, 6, 3, 0, "")
        output.write("lost again")
        raise OSError("the disk is full")
    with open_partial(path, SETTINGS, resume=True) as output:
        assert output.done.entries == 3
    assert path.read_text(encoding="utf-8") == "one\nzwei é\nthree\n"


def test_starting_anew(tmp_path: Path) -> None:
    path = tmp_path / "out"
    start(path)
    with open_partial(path, {"model": "b"}) as output:
        assert output.done == Mark()
        output.write("other\n")
    assert path.read_text(encoding="utf-8") == "other\n"
    assert names(tmp_path) == ["out"]


def test_nothing_stays_of_a_run_that_did_nothing(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("precious")
    with pytest.raises(ValueError, match="at once"), open_partial(tmp_path / "out", SETTINGS) as output:  # noqa: PT012
        output.write("x")
        output.mark(1, 0, 0, 1, "")
        raise ValueError("at once")
    assert names(tmp_path) == ["out"]
    assert (tmp_path / "out").read_text() == "precious"


@pytest.mark.parametrize("settings", [{"model": "b", "sizes": [1, 2]}, {"sizes": [1, 2]}, {**SETTINGS, "model": None}])
def test_other_settings_are_refused(tmp_path: Path, settings: dict[str, object]) -> None:
    path = tmp_path / "out"
    start(path)
    with pytest.raises(ValueError, match="another model"), open_partial(path, settings, resume=True):
        raise AssertionError
    with open_partial(path, SETTINGS, resume=True):  # nothing was lost
        pass
    assert path.read_text(encoding="utf-8") == "one\nzwei é\n"


@pytest.mark.parametrize(
    "journal", ["", "{}", "[]", '{"format": 1, "settings": {}, "done": {"x": 1}}', '{"format": 99}']
)
def test_a_strange_journal_is_refused(tmp_path: Path, journal: str) -> None:
    start(tmp_path / "out")
    (tmp_path / "out.partial.json").write_text(journal)
    with pytest.raises(ValueError, match="not a journal"), open_partial(tmp_path / "out", SETTINGS, resume=True):
        raise AssertionError


def test_two_runs_do_not_write_to_one_file(tmp_path: Path) -> None:
    with open_partial(tmp_path / "out", SETTINGS) as output:
        output.write("first\n")
        with pytest.raises(ValueError, match="another run"), open_partial(tmp_path / "out", SETTINGS):
            raise AssertionError
    assert (tmp_path / "out").read_text() == "first\n"


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="create it first"), open_partial(tmp_path / "no" / "out", SETTINGS):
        raise AssertionError
