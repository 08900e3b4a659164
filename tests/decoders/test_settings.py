"""Settings of decoders: each number has a range, and a wrong value is refused in one line, wherever it comes from."""

import math
from dataclasses import fields
from typing import get_args, get_type_hints

import numpy as np
import pytest
import yaml

from arbora.decoders import AD3, BranchAndBound, Greedy, HillClimbing, Subgradient, VineCascade
from arbora.decoders.names import decoder_classes, named_decoders, read_decoders

WRONG = [
    (AD3, "rho", math.inf),
    (AD3, "rho", -math.inf),
    (AD3, "rho", math.nan),
    (AD3, "rho", 0.0),
    (AD3, "rho", "abc"),
    (AD3, "rho", 2**2000),
    (AD3, "max_iterations", 1.5),
    (AD3, "max_iterations", -5),
    (AD3, "max_iterations", 2**40),
    (AD3, "max_iterations", True),
    (AD3, "tolerance", -1e-9),
    (AD3, "single_root", 2),
    (Subgradient, "step", -1.0),
    (Subgradient, "max_iterations", -1),
    (BranchAndBound, "max_nodes", 0),
    (BranchAndBound, "max_nodes", 2**70),
    (BranchAndBound, "rho", math.nan),
    (BranchAndBound, "seconds", -1.0),
    (BranchAndBound, "max_iterations", None),
    (Greedy, "beam", 2**40),
    (Greedy, "beam", 0),
    (Greedy, "alpha", math.inf),
    (Greedy, "beta", 1.5),
    (Greedy, "improvements", -1),
    (HillClimbing, "restarts", 0),
    (HillClimbing, "patience", 0),
    (HillClimbing, "temperature", 0.0),
    (HillClimbing, "seed", 2**70),
    (VineCascade, "band", 0),
    (VineCascade, "few", math.nan),
    (VineCascade, "vine_alpha", 1.5),
]


def name(value: object) -> str:
    return getattr(value, "__name__", str(value)[:10])


@pytest.mark.parametrize(("kind", "name", "value"), WRONG, ids=name)
def test_python(kind, name, value):
    with pytest.raises(ValueError, match=rf"^{kind.__name__}: {name} must be .*, got .*$") as error:
        kind(**{name: value})
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 160


@pytest.mark.parametrize(("kind", "name", "value"), [case for case in WRONG if case[2] is not True], ids=name)
def test_yaml_and_command_line(kind, name, value, tmp_path):
    """YAML and the command line may read true as 1, but nothing else gets past them."""
    path = tmp_path / "decoders.yaml"
    path.write_text(yaml.safe_dump([{"class_path": kind.__name__, "init_args": {name: value}}]))
    text = f"{kind.__name__}({name}={yaml.safe_dump(value).split()[0]})"
    for refuse in (lambda: read_decoders(path), lambda: named_decoders(text)):
        with pytest.raises(ValueError, match=f"{name} must be ") as error:
            refuse()
        assert "\n" not in str(error.value)


def test_numbers_of_numpy_and_whole_floats():
    """Kernels are compiled for plain numbers."""
    decoder = AD3(np.bool_(False), rho=1, max_iterations=np.int32(7), tolerance=np.float32(0.5))
    assert [type(value) for value in vars(decoder).values()][:5] == [bool, float, int, bool, float]
    assert decoder == AD3(False, rho=1.0, max_iterations=7, tolerance=0.5)


def test_every_number_has_a_range():
    for kind in decoder_classes().values():
        if not kind.__module__.startswith("arbora."):  # decoders of other tests
            continue
        hints = get_type_hints(kind)
        for item in fields(kind):
            if {int, float} & {hints[item.name], *get_args(hints[item.name])}:
                assert "range" in item.metadata, f"{kind.__name__}.{item.name}"
