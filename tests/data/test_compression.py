import bz2
import gzip
import lzma
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from arbora.data.compression import InputText
from arbora.data.conll import ConllError, open_output, read_conll
from arbora.data.partial import open_partial

CONLLU = Path(__file__).parents[1] / "fixtures" / "treebank.conllu"
DECOMPRESS = {
    ".gz": gzip.decompress,
    ".xz": lzma.decompress,
    ".bz2": bz2.decompress,
    ".zst": lambda data: zstd.decompress(data),
}
endings = pytest.mark.parametrize("ending", DECOMPRESS)


@endings
def test_output_is_compressed_by_its_name_and_read_back(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"out.conllu{ending}"
    text = CONLLU.read_text(encoding="utf-8")
    with open_output(path) as output:
        output.write(text)
    assert DECOMPRESS[ending](path.read_bytes()).decode() == text
    with InputText(path) as stream:
        assert stream.read() == text
        assert stream.position == path.stat().st_size
    assert len(list(read_conll(path))) == len(list(read_conll(CONLLU)))
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@endings
def test_a_file_that_was_cut_off_is_one_clear_error(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"in.conllu{ending}"
    with open_output(path) as output:
        output.write(CONLLU.read_text(encoding="utf-8") * 50)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ConllError, match=r"in\.conllu.*damaged"):
        list(read_conll(path))


@endings
def test_a_resumed_run_continues_a_compressed_file(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"out{ending}"
    with pytest.raises(ValueError, match="stop"), open_partial(path, {}) as output:  # noqa: PT012
        output.write("first ä\n")
        output.mark(1, 1, 1, 0, "")
        output.write("lost\n")
        raise ValueError("stop")
    with open_partial(path, {}, resume=True) as output:
        assert output.done.entries == 1
        output.write("second\n")
    assert DECOMPRESS[ending](path.read_bytes()).decode() == "first ä\nsecond\n"


def test_a_missing_package_for_zst_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    with pytest.raises(ValueError, match=r"pip install backports\.zstd"), open_output(tmp_path / "out.zst"):
        pass
    with pytest.raises(ValueError, match=r"pip install backports\.zstd"), open_partial(tmp_path / "out.zst", {}):
        pass
    assert not list(tmp_path.iterdir())


def test_a_symbolic_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    with open_output(link) as output:
        output.write("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    with open_partial(link, {}) as partial:
        partial.write("newer")
    assert link.is_symlink()
    assert target.read_text() == "newer"
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["folder", "link", "target"]
