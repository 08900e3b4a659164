"""An accelerator that is not there: tensors that say they are on a device while their numbers live on the CPU.

Within `with SimulatedDevice() as device`, modules and batches can be moved to `DEVICE`. Every operation that mixes
devices raises an error, as on a GPU, and so does reading a tensor of the device as numpy. Operations give the numbers
of the CPU. Threads that are started inside see the device too. What crosses between device and host is counted, and so
are operations for which the host has to wait.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = torch.device("lazy", 0)
"""A kind of device that has a name, and no backend that would have to be installed."""

ON_HOST = {"_pack_padded_sequence": (1,), "_pad_packed_sequence": (1,), "lstm": (1,)}
"""Operations that want some of their arguments on the host."""

WAITS = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "equal"}
"""Operations whose result has a size or a value that the host needs."""


class OnDevice(torch.Tensor):
    """A tensor on `DEVICE`."""

    numbers: torch.Tensor

    @staticmethod
    def __new__(cls, data: torch.Tensor) -> OnDevice:
        """Wrap a tensor of the CPU."""
        found: OnDevice = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            data.size(),
            strides=data.stride(),
            storage_offset=data.storage_offset(),
            dtype=data.dtype,
            device=DEVICE,
            requires_grad=data.requires_grad,
        )
        found.numbers = data
        return found

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"OnDevice({self.numbers})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {}, Crossings())


class Crossings(Counter[str]):
    """Counts by what happened: `up` to the device, `down` to the host, `bytes up`, `bytes down`, `waits`."""


def _is_on(device: object) -> bool:
    return device is not None and torch.device(device).type == DEVICE.type  # type: ignore[arg-type]


def _run(func: Any, args: Any, kwargs: dict[str, Any], seen: Crossings) -> Any:
    name = func.name().partition("::")[2].partition(".")[0]
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    here = [tensor for tensor in tensors if isinstance(tensor, OnDevice)]
    copies = name in ("_to_copy", "copy_", "lift_fresh", "_copy_from")
    hosted = [leaf for place in ON_HOST.get(name, ()) if place < len(args) for leaf in tree_leaves(args[place])]
    if "index" in name and here and tensors[0] is here[0]:
        hosted += tensors[1:]  # indices on the host are copied up
    strangers = [t for t in tensors if not isinstance(t, OnDevice) and t.dim() and not any(t is h for h in hosted)]
    if here and strangers and not copies:
        raise RuntimeError(f"{name} mixes devices: {[tuple(tensor.shape) for tensor in strangers]} on the host")
    to_device = bool(here)
    if kwargs.get("device") is not None:
        to_device = _is_on(kwargs["device"])
        kwargs = {**kwargs, "device": torch.device("cpu")}
    kwargs = {key: value for key, value in kwargs.items() if key != "pin_memory"}
    found = func(*tree_map(_numbers, args), **tree_map(_numbers, kwargs))
    _count(name, args, tensors, found, bool(here), to_device, seen)
    if func._schema.name.endswith("_") and isinstance(args[0], torch.Tensor):
        return args[0]
    if name in ("_pack_padded_sequence", "_pad_packed_sequence"):  # the second result stays on the host
        return (_on_device(found[0]) if here else found[0], found[1])
    return tree_map(_on_device, found) if to_device else found


def _numbers(value: Any) -> Any:
    return value.numbers if isinstance(value, OnDevice) else value


def _on_device(value: Any) -> Any:
    return OnDevice(value) if isinstance(value, torch.Tensor) and not isinstance(value, OnDevice) else value


def _count(
    name: str, args: Any, tensors: list[torch.Tensor], found: Any, here: bool, to_device: bool, seen: Crossings
) -> None:
    if name == "copy_":
        source, target = isinstance(args[1], OnDevice), isinstance(args[0], OnDevice)
    else:
        source, target = here, to_device
    if name in ("_to_copy", "copy_") and source != target:
        way = "up" if target else "down"
        seen[way] += 1
        seen[f"bytes {way}"] += tensors[-1].nbytes if name == "copy_" else found.nbytes
    masks = "index" in name and any(t.dtype in (torch.bool, torch.uint8) for t in tensors[1:])
    sizes = name == "repeat_interleave" and here
    if here and (name in WAITS or masks or sizes):
        seen["waits"] += 1
        seen[f"waits: {name}"] += 1


class _Functions(TorchFunctionMode):
    """Makers of tensors from data, which build them below the reach of a dispatch mode."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.new_tensor:
            device = kwargs.pop("device", args[0].device)
            return torch.tensor(args[1], dtype=kwargs.pop("dtype", args[0].dtype), **kwargs).to(device)
        if func in (torch.tensor, torch.as_tensor) and _is_on(kwargs.get("device")):
            device = kwargs.pop("device")
            return func(*args, **kwargs).to(device)
        return func(*args, **kwargs)


class _Dispatch(TorchDispatchMode):
    def __init__(self, seen: Crossings) -> None:
        super().__init__()
        self.seen = seen

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {}, self.seen)


class SimulatedDevice:
    """A context in which `DEVICE` is there; `seen` counts what crosses."""

    def __init__(self) -> None:
        self.seen = Crossings()

    def __enter__(self) -> SimulatedDevice:
        self._modes = _Dispatch(self.seen), _Functions()
        for mode in self._modes:
            mode.__enter__()
        self._run_thread = threading.Thread.run
        run, seen = self._run_thread, self.seen

        def run_inside(thread: threading.Thread) -> None:
            with _Dispatch(seen), _Functions():
                run(thread)

        threading.Thread.run = run_inside  # type: ignore[method-assign]
        return self

    def __exit__(self, *error: Any) -> None:
        threading.Thread.run = self._run_thread  # type: ignore[method-assign]
        for mode in reversed(self._modes):
            mode.__exit__(*error)
