"""Arrays that users give, as the numpy arrays that `Parts` holds.

Tensors of torch are detached and brought to the CPU without importing torch. Masked entries of scores become -inf.
Nothing is lost on the way: what does not fit the type of the array is reported or refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def as_array(values: Any, masked: float | bool | None = None) -> NDArray[Any]:
    """A numpy array of any number type.

    Args:
        values: array, nested lists, masked array, or a tensor of torch.
        masked: what masked entries become; None to refuse them.
    """
    if type(values) is np.ndarray:
        return values
    if hasattr(values, "detach") and hasattr(values, "cpu"):
        tensor = values.detach().cpu()
        try:
            return np.asarray(tensor.numpy())
        except TypeError:  # numpy has no bfloat16
            return np.asarray(tensor.float().numpy())
    if isinstance(values, np.ma.MaskedArray):
        if masked is None:
            if np.ma.is_masked(values):
                raise ValueError("a masked array of integers must not have masked entries")
            return np.asarray(values.data)
        if not isinstance(masked, bool) and values.dtype.kind != "f":
            values = values.astype(np.float64)
        return np.asarray(values.filled(masked))
    return np.asarray(values)


def as_float32(array: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.bool_] | None]:
    """Scores as float32, and which of them are too large for it; None if none is."""
    if array.dtype == np.float32:
        return np.ascontiguousarray(array), None
    try:
        with np.errstate(over="raise"):
            return np.ascontiguousarray(array, dtype=np.float32), None
    except FloatingPointError:
        with np.errstate(over="ignore"):
            scores = np.ascontiguousarray(array, dtype=np.float32)
        return scores, np.isinf(scores) & ~np.isinf(array)


def as_integers(name: str, values: Any, dtype: type[np.signedinteger[Any]]) -> NDArray[Any]:
    """Integers of some type.

    Raises:
        ValueError: there are numbers that are not integers, or that are too large.
    """
    array = as_array(values)
    if array.dtype.kind not in "iu" and array.size:
        raise ValueError(f"{name} must be integers, got {array.dtype}")
    integers = np.ascontiguousarray(array, dtype=dtype)
    if array.dtype != integers.dtype and not np.array_equal(integers, array):
        raise ValueError(f"{name} must fit {np.dtype(dtype).name}, got {array[integers != array][0]}")
    return integers
