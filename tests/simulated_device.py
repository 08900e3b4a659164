"""An accelerator that is not there: tensors that say they are on a device while their numbers live on the CPU.

Within `with SimulatedDevice() as device`, modules and batches can be moved to `DEVICE`. Every operation that mixes
devices raises an error, as on a GPU, and so does reading a tensor of the device as numpy. Operations give the numbers
of the CPU. Threads that are started inside see the device too. What crosses between device and host is counted, and so
are operations for which the host has to wait. The device can refuse large tensors, and take time for its operations,
which run after one another while the host goes on, until it reads a result. `autocast` casts as CUDA does.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
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

LOWER = {"linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "conv1d", "lstm", "scaled_dot_product_attention"}
"""Functions that run in lower precision within `autocast`."""

FULL = {"softmax", "log_softmax", "logsumexp", "sum", "exp", "log", "cumsum", "layer_norm", "cross_entropy"}
"""Functions that run in fp32 there."""


PRODUCT = re.compile(r"/arbora/model/(?!tensors)")
"""Files in which crossings are located."""


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
        return _run(func, args, kwargs or {}, None)


class Crossings(Counter[str]):
    """Counts of what happened: `up` to the device, `down` to the host, `bytes up`, `bytes down`, `waits`; and where.

    Waits are operations other than copies after which the host waits for the device. A round is a copy down that is
    followed by a copy up, so the device waits for the host.
    """

    _last = "up"

    def add(self, what: str, amount: int = 0) -> None:
        """Count something at the place in the product that the call came from."""
        self[what] += 1
        if amount:
            self[f"bytes {what}"] += amount
            self["rounds"] += self._last == "down" and what == "up"
            self._last = what
        frame = sys._getframe()
        while frame.f_back is not None and not PRODUCT.search(file := frame.f_code.co_filename):
            frame = frame.f_back
        self[f"{what} in {file.rpartition('/model/')[2]}:{frame.f_lineno}"] += 1


def _is_on(device: object) -> bool:
    return device is not None and torch.device(device).type == DEVICE.type  # type: ignore[arg-type]


def _run(func: Any, args: Any, kwargs: dict[str, Any], device: SimulatedDevice | None) -> Any:
    name = func.name().partition("::")[2].partition(".")[0]
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    here = [tensor for tensor in tensors if isinstance(tensor, OnDevice)]
    copies = name in ("_to_copy", "copy_", "lift_fresh", "_copy_from")
    hosted = [leaf for place in ON_HOST.get(name, ()) if place < len(args) for leaf in tree_leaves(args[place])]
    if "index" in name and here and tensors[0] is here[0]:
        hosted += tensors[1:]  # indices on the host are copied up
    strangers = [t for t in tensors if not isinstance(t, OnDevice) and t.dim() and not any(t is h for h in hosted)]
    if device is not None and "index" in name and here:
        for _ in (tensor for tensor in tensors[1:] if not isinstance(tensor, OnDevice) and tensor.dim()):
            device.seen.add("up", _.nbytes)
    if here and strangers and not copies:
        raise RuntimeError(f"{name} mixes devices: {[tuple(tensor.shape) for tensor in strangers]} on the host")
    to_device = bool(here)
    if kwargs.get("device") is not None:
        to_device = _is_on(kwargs["device"])
        kwargs = {**kwargs, "device": torch.device("cpu")}
    kwargs = {key: value for key, value in kwargs.items() if key != "pin_memory"}
    found = func(*tree_map(_numbers, args), **tree_map(_numbers, kwargs))
    if device is not None:
        device.account(name, args, tensors, found, bool(here), to_device)
    if func._schema.name.endswith("_") and isinstance(args[0], torch.Tensor):
        return args[0]
    if name in ("_pack_padded_sequence", "_pad_packed_sequence"):  # the second result stays on the host
        return (_on_device(found[0]) if here else found[0], found[1])
    return tree_map(_on_device, found) if to_device else found


def _numbers(value: Any) -> Any:
    return value.numbers if isinstance(value, OnDevice) else value


def _on_device(value: Any) -> Any:
    return OnDevice(value) if isinstance(value, torch.Tensor) and not isinstance(value, OnDevice) else value


class _Functions(TorchFunctionMode):
    """Makers of tensors from data, which build them below the reach of a dispatch mode, and casts of `autocast`."""

    def __init__(self, device: SimulatedDevice) -> None:
        super().__init__()
        self.device = device

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.new_tensor:
            device = kwargs.pop("device", args[0].device)
            return torch.tensor(args[1], dtype=kwargs.pop("dtype", args[0].dtype), **kwargs).to(device)
        if func in (torch.tensor, torch.as_tensor) and _is_on(kwargs.get("device")):
            device = kwargs.pop("device")
            return func(*args, **kwargs).to(device)
        if func is torch.Tensor.tolist and isinstance(args[0], OnDevice):
            return args[0].cpu().tolist()
        name = getattr(func, "__name__", "").strip("_").removeprefix("r")
        if self.device.lower is not None and name in LOWER | FULL:
            wanted = self.device.lower if name in LOWER else torch.float32

            def cast(value: Any) -> Any:
                small = isinstance(value, OnDevice) and value.is_floating_point() and value.dtype != torch.float64
                return value.to(wanted) if small else value

            args, kwargs = tree_map(cast, args), tree_map(cast, kwargs)
        return func(*args, **kwargs)


class _Dispatch(TorchDispatchMode):
    def __init__(self, device: SimulatedDevice) -> None:
        super().__init__()
        self.device = device

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {}, self.device)


class SimulatedDevice:
    """A context in which `DEVICE` is there; `seen` counts what crosses, `largest` is the size of the largest tensor.

    Args:
        limit: most bytes of a tensor; larger ones are refused.
        seconds: time of each operation.
    """

    def __init__(self, limit: float = float("inf"), seconds: float = 0.0) -> None:
        self.seen = Crossings()
        self.limit = limit
        self.largest = 0
        self.busy = 0.0  # seconds of all operations
        self.seconds = seconds
        self.lower: torch.dtype | None = None
        self._free_at = 0.0  # when all operations will be done

    @contextmanager
    def autocast(self, dtype: torch.dtype) -> Iterator[None]:
        """Run products in a lower precision, as `torch.autocast` does on CUDA."""
        self.lower = dtype
        yield
        self.lower = None

    def account(
        self, name: str, args: Any, tensors: list[torch.Tensor], found: Any, here: bool, to_device: bool
    ) -> None:
        """Count an operation, refuse what it allocates, and take its time."""
        made = max((leaf.nbytes for leaf in tree_leaves(found) if isinstance(leaf, torch.Tensor)), default=0)
        self.largest = max(self.largest, made if to_device else 0)
        if to_device and made > self.limit:
            raise torch.OutOfMemoryError(f"the device is out of memory. Tried to allocate {made} bytes.")
        if to_device and self.seconds:
            self._free_at = max(self._free_at, time.perf_counter()) + self.seconds
            self.busy += self.seconds
        if name == "copy_":
            source, target = isinstance(args[1], OnDevice), isinstance(args[0], OnDevice)
        else:
            source, target = here, to_device
        crosses = name in ("_to_copy", "copy_") and source != target
        if crosses:
            self.seen.add("up" if target else "down", tensors[-1].nbytes if name == "copy_" else found.nbytes)
        masks = "index" in name and any(t.dtype in (torch.bool, torch.uint8) for t in tensors[1:])
        masks &= not (name.startswith("index_put") and tensors[-1].numel() == 1)  # filled without finding the places
        waits = here and (name in WAITS or masks or name == "repeat_interleave")
        if waits:
            self.seen.add("waits")
        if self.seconds and (waits or (crosses and source)):
            time.sleep(max(0.0, self._free_at - time.perf_counter()))

    def __enter__(self) -> SimulatedDevice:
        self._modes = _Dispatch(self), _Functions(self)
        for mode in self._modes:
            mode.__enter__()
        self._run_thread = threading.Thread.run
        run, device = self._run_thread, self

        def run_inside(thread: threading.Thread) -> None:
            with _Dispatch(device), _Functions(device):
                run(thread)

        threading.Thread.run = run_inside  # type: ignore[method-assign]
        return self

    def __exit__(self, *error: Any) -> None:
        threading.Thread.run = self._run_thread  # type: ignore[method-assign]
        for mode in reversed(self._modes):
            mode.__exit__(*error)
