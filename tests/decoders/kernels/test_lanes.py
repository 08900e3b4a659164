"""Eight numbers at a time do what one does."""

import numba
import numpy as np

from arbora.decoders.kernels.lanes import LANES, add, aligned, fill, lane, larger, load, store
from arbora.decoders.kernels.options import KERNEL


@numba.njit(**{**KERNEL, "cache": False})
def _combine(x, single, i, value, out):
    """Row by row: x, singles, x + value, the larger of both, and each lane of x in all lanes."""
    own = load(x, i)
    store(out, 0, own)
    store(out, LANES, load(single, i))
    store(out, 2 * LANES, add(own, fill(value)))
    store(out, 3 * LANES, larger(own, fill(value)))
    for t in range(LANES):
        store(out, (4 + t) * LANES, lane(own, t))


@numba.njit(**{**KERNEL, "cache": False})
def _new(count):
    return aligned(count)


def test_each_lane_is_on_its_own() -> None:
    x = np.array([9.0, -1.5, np.inf, -np.inf, 0.1, 2.0, 3.0, -4.0, 5.0, 6.0])
    single, out = x.astype(np.float32), np.full((4 + LANES, LANES), np.nan)
    _combine(x, single, 1, -np.inf, out.reshape(-1))
    own = x[1 : 1 + LANES]
    np.testing.assert_array_equal(out[:2], [own, single[1 : 1 + LANES]])
    np.testing.assert_array_equal(out[4:], np.repeat(own[:, None], LANES, axis=1))
    np.testing.assert_array_equal(out[3], own)
    _combine(x, single, 1, 0.25, out.reshape(-1))
    np.testing.assert_array_equal(out[2], own + 0.25)
    np.testing.assert_array_equal(out[3], np.maximum(own, 0.25))


def test_blocks_do_not_straddle_lines() -> None:
    for count in (1, 8, 1001):
        assert len(array := _new(count)) == count
        assert array.ctypes.data % (8 * LANES) == 0
