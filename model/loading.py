"""Loading trained parsers."""

from __future__ import annotations

from pathlib import Path
from types import NoneType
from typing import Literal

import torch

from arbora.data.vocabulary import Vocabulary
from arbora.decoders import Decoder
from arbora.model.encoders.encoder import Encoder
from arbora.model.network import Network
from arbora.model.parser import Parser
from arbora.model.pruners.settings import PrunerSettings
from arbora.model.scorers.biaffine import Biaffine
from arbora.model.scorers.multilinear import Multilinear
from arbora.model.scorers.taggers import Taggers
from arbora.model.scorers.tree_features import TreeFeatures
from arbora.model.storage.checkpoint import naming_file
from arbora.model.storage.folder import CONFIG, VOCABULARY, WEIGHTS, read_parser

Runtime = Literal["torch", "onnx"]

SETTINGS: dict[str, type | tuple[type, ...]] = {
    "encoder": Encoder,
    "scorer": Biaffine,
    "parts": (Multilinear, NoneType),
    "features": (TreeFeatures, NoneType),
    "pruner": (PrunerSettings, NoneType),
    "decoder": Decoder,
    "taggers": (Taggers, NoneType),
}
"""Types of the settings of a network, which are checked because a file may say anything."""


def load(path: str | Path, runtime: Runtime = "torch", device: str = "cpu") -> Parser:
    """Load a trained parser, ready to parse.

    Args:
        path: a checkpoint that `arbora train` wrote, or a folder that `arbora export` wrote.
        runtime: what computes the scores: `torch`, or `onnx` where the folder was exported with ONNX.
        device: where to score: `cpu`, `cuda`, `cuda:1`, `mps`, or `auto` for the accelerator of the machine, if there
            is one. ONNX runs on the CPU.

    Raises:
        ValueError: the file is not a parser, or a damaged one, or there is no such device.
    """
    if runtime == "onnx" and device not in ("auto", "cpu"):
        raise ValueError(f"the runtime onnx runs on the CPU, not on {device}")
    network = load_network(path, runtime).to(find_device("cpu" if runtime == "onnx" else device))
    return Parser(network, network.decoder)


def load_network(path: str | Path, runtime: Runtime = "torch") -> Network:
    """Load the network of a trained parser, on the CPU and in evaluation mode.

    Args:
        path: as for `load`.
        runtime: likewise.
    """
    path = Path(path)
    stored = read_parser(path)
    file = {name: path / name if path.is_dir() else path for name in (CONFIG, WEIGHTS, VOCABULARY)}
    with naming_file(file[VOCABULARY]):
        vocabulary = Vocabulary.from_dict(stored.vocabulary)
    with naming_file(file[CONFIG]), stored.unpacked() as files:
        for name, value in stored.settings.items():
            if name not in SETTINGS or not isinstance(value, SETTINGS[name]):
                raise ValueError(f"settings: {name} is not a setting of a parser, or of the wrong type")
        network = Network(vocabulary, **stored.settings, files=files)
    with naming_file(file[WEIGHTS]):
        network.load_state_dict(stored.weights)
    if runtime == "onnx":
        from arbora.model.storage.onnx import attach

        attach(network, path)
    return network.eval()


def set_scoring_threads(threads: int) -> None:
    """Let a CPU score with so many threads."""
    torch.set_num_threads(threads)


def find_device(name: str) -> torch.device:
    """A device by its name; `auto` is the accelerator of the machine, if it has one."""
    if name == "auto":
        # Unless told to check, torch returns the kind that it was built for, with a driver or not.
        return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {name}: {str(error).splitlines()[0]}") from None
