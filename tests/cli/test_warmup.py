"""`arbora warmup`, and the line that says what is compiled."""

import io
import logging
import os
import subprocess
import sys

import pytest

from arbora.cli.compiling import DECODERS, announce_compiling
from arbora.cli.warmup import main
from arbora.decoders import MinimumRisk
from arbora.decoders.names import decoder_classes


def test_named_decoders_are_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    main(["MST", "eisner"])
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == ["mst", "eisner"]


def test_a_decoder_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown decoder viterbi"):
        main(["viterbi"])


def test_a_decoder_is_announced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", screen)
    logger = logging.getLogger("arbora.kernels")
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "propagate", True)
    announce_compiling()
    for module in ("parts.layout", "mst", "mst", "projective.eisner", "dual.subgradient", "dual.ad3"):
        logger.debug("%s is not compiled yet", f"arbora.decoders.{module}")
    logger.setLevel(logging.NOTSET)
    assert [line.split()[1] for line in screen.getvalue().splitlines()] == ["MST", "Eisner", "Subgradient", "AD3"]


def test_every_decoder_with_kernels_has_a_name_to_announce() -> None:
    for kind in decoder_classes().values():
        package, _, module = kind.__module__.partition("arbora.decoders.")
        if not package and kind is not MinimumRisk:  # it searches by the kernels of others
            assert any(f"{module}.".startswith(f"{prefix}.") for prefix in DECODERS)


def test_nothing_is_printed_without_a_terminal(tmp_path) -> None:
    command = [sys.executable, "-m", "arbora.cli", "warmup", "mst"]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert list(tmp_path.rglob("*.nbc"))
