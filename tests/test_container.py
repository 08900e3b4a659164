"""The steps of the Dockerfile, as a shell script."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="a shell script")
def test_the_script_installs_the_light_size_and_compiles_kernels(tmp_path: Path) -> None:
    source, environment = tmp_path / "source", tmp_path / "environment"
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").replace("**/", "").split()
    shutil.copytree(ROOT, source, symlinks=True, ignore=shutil.ignore_patterns(*ignored))
    done = subprocess.run(
        [source / "container" / "install.sh", source, environment], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^arbora \S+ works in \S*environment$", done.stdout, re.MULTILINE)
    installed = {path.name for path in environment.glob("lib/python*/site-packages/*")}
    assert {"arbora", "numba"} <= installed
    assert not {"torch", "pytorch_lightning", "tensorboard"} & installed
    shutil.rmtree(source)

    # The kernels of a decoder are found compiled.
    (compiled,) = environment.glob("lib/python*/site-packages/arbora/decoders/kernels/__pycache__/compiled")
    assert list(compiled.glob("*.nbi"))
    before = {path: path.stat().st_mtime_ns for path in compiled.iterdir()}
    code = "import numpy as np; from arbora.decoders import *; AD3()(Parts.from_dense(np.zeros((1, 4, 4))))"
    subprocess.run([environment / "bin" / "python", "-c", code], check=True, cwd=tmp_path)
    assert {path: path.stat().st_mtime_ns for path in compiled.iterdir()} == before  # nothing was compiled again


def test_the_dockerfile_runs_the_script_and_no_other_steps() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("RUN")] == [
        "RUN /source/container/install.sh /source /opt/arbora",
        "RUN useradd --create-home arbora",
    ]
    assert lines.index("USER arbora") < lines.index('ENTRYPOINT ["arbora"]')
