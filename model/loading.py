"""Loading trained parsers. Backends are imported only when they are needed."""

from __future__ import annotations

from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal

from arbora.data.vocabulary import Vocabulary
from arbora.decoders import Decoder
from arbora.decoders.kernels.threads import get_num_threads
from arbora.extras import importing_extra
from arbora.model.catalogue import find_model
from arbora.model.parser import Parser
from arbora.model.storage.files import is_linear, naming_file
from arbora.model.storage.folder import (
    CONFIG,
    FILES,
    GRAPHS,
    VOCABULARY,
    WEIGHTS,
    read_config,
    read_file,
    read_tokenizer,
    read_vocabulary,
)
from arbora.model.storage.settings import from_plain

if TYPE_CHECKING:
    import torch

    from arbora.model.inference.onnx_backend import OnnxBackend
    from arbora.model.linear.backend import LinearModel
    from arbora.model.network import Network

Runtime = Literal["torch", "onnx"]


def load(path: str | Path, runtime: Runtime | None = None, device: str = "cpu", threads: int | None = None) -> Parser:
    """Load a trained parser, ready to parse.

    Args:
        path: checkpoint written by `arbora train`, folder written by `arbora export`, name of an installed model, such
            as `english`, or `hf:owner/name` for one on the hub.
        runtime: compute scores with `torch`, or with `onnx` (exported folders only). By default, `onnx` if possible.
        device: device for scoring: `cpu`, `cuda`, `cuda:1`, `mps`, or `auto` for the accelerator of the machine, if
            there is one. ONNX runs on the CPU.
        threads: number of threads that score a batch on a CPU. By default, the number set by `arbora.threads`, or one
            for each core.

    Raises:
        ValueError: the file is not a parser or is damaged, or there is no such device.
    """
    backend = load_backend(path, runtime, device, threads)
    return Parser(backend, backend.decoder, tokenizer=backend.tokenizer)


def load_backend(
    path: str | Path, runtime: Runtime | None = None, device: str = "cpu", threads: int | None = None
) -> Network | LinearModel | OnnxBackend:
    """Load what computes the scores of a trained parser; the arguments are those of `load`."""
    path = find_model(path)
    backend = _load_backend(path, runtime, device, threads)
    if path.is_dir() and (temperature := read_config(path).temperature):
        backend.temperature = temperature[0], temperature[1]
    return backend


def _load_backend(
    path: Path, runtime: Runtime | None, device: str, threads: int | None
) -> Network | LinearModel | OnnxBackend:
    if is_linear(path):
        if runtime is not None or device not in ("auto", "cpu"):
            raise ValueError(f"{path}: a linear model always runs on the CPU: give neither runtime nor device")
        from arbora.model.linear.storage import read_linear

        return read_linear(path).model
    if runtime is None:
        has_graphs = path.is_dir() and device in ("auto", "cpu") and bool(read_config(path).graphs())
        runtime = "onnx" if has_graphs else "torch"
    if runtime == "onnx":
        if device not in ("auto", "cpu"):
            raise ValueError(f"the runtime onnx runs on the CPU, not on {device}")
        return _load_graphs(path, threads or get_num_threads())
    with importing_extra():
        network = load_network(path).to(find_device(device))
    if threads is not None:
        set_scoring_threads(threads)
    return network


def _load_graphs(folder: Path, threads: int) -> OnnxBackend:
    if not folder.is_dir():
        raise ValueError(f"{folder}: a checkpoint has no ONNX graphs; `arbora export` makes a folder that does")
    from arbora.model.inference.onnx_backend import OnnxBackend, Pieces, PrunerFacts

    config = read_config(folder)
    if config.onnx is None:
        raise ValueError(f"{folder}: has no ONNX graphs that run without torch; export the parser again")
    graphs = {name: read_file(folder, f"{GRAPHS}{name}.onnx", config) for name in config.graphs()}
    with naming_file(folder / VOCABULARY):
        vocabulary = Vocabulary.from_dict(read_vocabulary(folder, config))
    with naming_file(folder / CONFIG):
        decoder = from_plain(config.settings["decoder"])
        if not isinstance(decoder, Decoder):
            raise ValueError("settings: decoder is not a decoder")
        facts = config.onnx
        pruner = PrunerFacts(**facts["pruning"]) if facts["pruning"] else None
        pieces = None
        if "pieces" in facts:
            pieces = Pieces(read_file(folder, f"{FILES}encoder/tokenizer.json", config), **facts["pieces"])
        columns = {name: tuple(facts[name]) for name in ("tags", "predicts", "kinds")}
        backend = OnnxBackend(vocabulary, graphs, decoder, **columns, pruner=pruner, pieces=pieces, threads=threads)
    backend.tokenizer = read_tokenizer(folder, config)
    return backend


def load_network(path: str | Path) -> Network:
    """Load the network of a trained parser, on the CPU and in evaluation mode.

    Args:
        path: as for `load`; an exported folder must have weights for torch.
    """
    from arbora.model.network import Network
    from arbora.model.storage.weights import read_parser

    path = find_model(path)
    if is_linear(path):
        raise ValueError(f"{path}: a linear model, but a neural one is needed")
    stored = read_parser(path)
    file = {name: path / name if path.is_dir() else path for name in (CONFIG, WEIGHTS, VOCABULARY)}
    with naming_file(file[VOCABULARY]):
        vocabulary = Vocabulary.from_dict(stored.vocabulary)
    with naming_file(file[CONFIG]), stored.unpacked() as files:
        _check_settings(stored.settings)
        network = Network(vocabulary, **stored.settings, files=files)
    with naming_file(file[WEIGHTS]):
        network.load_state_dict(stored.weights)
    network.tokenizer = stored.tokenizer
    return network.eval()


def _check_settings(settings: dict[str, Any]) -> None:
    """Check the types of settings, because a file may contain anything."""
    from arbora.model.encoders.encoder import Encoder
    from arbora.model.pruners.settings import PrunerSettings
    from arbora.model.scorers.biaffine import Biaffine
    from arbora.model.scorers.multilinear import Multilinear
    from arbora.model.scorers.taggers import Taggers
    from arbora.model.scorers.tree_features import TreeFeatures

    types: dict[str, type | tuple[type, ...]] = {
        "encoder": Encoder,
        "scorer": Biaffine,
        "parts": (Multilinear, NoneType),
        "features": (TreeFeatures, NoneType),
        "pruner": (PrunerSettings, NoneType),
        "decoder": Decoder,
        "taggers": (Taggers, NoneType),
    }
    for name, value in settings.items():
        if name not in types or not isinstance(value, types[name]):
            raise ValueError(f"settings: {name} is not a setting of a parser, or of the wrong type")


def set_scoring_threads(threads: int) -> None:
    """Set the number of threads that score on a CPU."""
    import torch

    torch.set_num_threads(threads)


def find_device(name: str) -> torch.device:
    """Return a device by its name; `auto` is the accelerator of the machine, if it has one."""
    import torch

    if name == "auto":
        # Without a check, torch returns the device type that it was built for, even without a driver.
        return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {name}: {str(error).splitlines()[0]}") from None
