"""Eight numbers at a time, for loops that LLVM does not vectorise, or whose rows are too short for how it does.

A kernel holds them in a variable, as it holds a number, which becomes one register or several, as the CPU has them:

    best = load(x, i)  ...  best = larger(best, add(fill(value), load(y, j)))  ...  store(x, i, best)

Nothing is reordered, and -inf is as good as any number.
"""

from collections.abc import Callable
from typing import Any

import numba
import numba.extending
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.core.datamodel.models import PrimitiveModel
from numba.extending import register_model
from numba.np.arrayobj import make_array

from arbora.decoders.kernels.options import ALLOCATING

LANES = 8

intrinsic: Callable[[Callable[..., Any]], Callable[..., Any]] = numba.extending.intrinsic
"""numba's own type is that of what it is given, not of what it makes."""

VECTOR = ir.VectorType(ir.DoubleType(), LANES)


class LanesType(types.Type):
    """Type of eight numbers, in double precision."""

    def __init__(self) -> None:
        super().__init__("Lanes")


lanes = LanesType()


@register_model(LanesType)
class LanesModel(PrimitiveModel):
    """Their representation in LLVM."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, VECTOR)


def _place(context: Any, builder: Any, signature: Any, arguments: Any) -> tuple[Any, Any]:
    """Pointer to the lanes of a flat array from an index on, and their type in memory."""
    array = make_array(signature.args[0])(context, builder, arguments[0])
    there = ir.VectorType(array.data.type.pointee, LANES)
    return builder.bitcast(builder.gep(array.data, [arguments[1]]), there.as_pointer()), there


def _fill(builder: Any, value: Any) -> Any:
    """A number in all lanes."""
    first = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(ir.IntType(32), LANES), None))


@intrinsic
def load(typing: Any, array: Any, index: Any) -> Any:
    """Elements index..index + 7 of a flat array of floating-point numbers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place, there = _place(context, builder, signature, arguments)
        value = builder.load(place, align=array.dtype.bitwidth // 8)
        return value if there == VECTOR else builder.fpext(value, VECTOR)

    return lanes(array, types.intp), generate


@intrinsic
def store(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Set elements index..index + 7 of a flat array of doubles."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], _place(context, builder, signature, arguments)[0], align=8)
        return context.get_dummy_value()

    return types.none(array, types.intp, lanes), generate


@intrinsic
def fill(typing: Any, value: Any) -> Any:
    """A number in all lanes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _fill(builder, arguments[0])

    return lanes(types.float64), generate


@intrinsic
def lane(typing: Any, value: Any, number: Any) -> Any:
    """One lane in all lanes; fast in a loop over `range(LANES)`, which LLVM unrolls."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _fill(builder, builder.extract_element(*arguments))

    return lanes(lanes, types.intp), generate


@intrinsic
def add(typing: Any, x: Any, y: Any) -> Any:
    """Sums by lanes."""
    return lanes(lanes, lanes), lambda context, builder, signature, arguments: builder.fadd(*arguments)


@intrinsic
def larger(typing: Any, x: Any, y: Any) -> Any:
    """The larger by lanes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *arguments), *arguments)

    return lanes(lanes, lanes), generate


@numba.njit(**ALLOCATING)
def aligned(count):
    """An array of so many doubles whose blocks of lanes do not straddle lines of the CPU's cache."""
    room = np.empty(count + LANES)
    start = -(room.ctypes.data // room.itemsize) % LANES
    return room[start : start + count]
