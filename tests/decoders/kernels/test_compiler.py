"""Elements of arrays in kernels: constants below 0 count from the end, other indices below 0 are errors."""

import numba
import numpy as np
import pytest

from arbora.decoders.kernels.options import KERNEL


@numba.njit(**{**KERNEL, "cache": False})
def _corners(row, table):
    table[-1, 0] = row[-2]
    return row[-1], table[0, -1]


@numba.njit(**{**KERNEL, "cache": False, "boundscheck": True})
def _element(row, i):
    return row[i]


def test_constant_indices_below_zero_count_from_the_end() -> None:
    row, table = np.array([1.0, 2.0, 3.0]), np.array([[4.0, 5.0], [6.0, 7.0]])
    assert _corners(row, table) == (3.0, 5.0)
    assert table.tolist() == [[4.0, 5.0], [2.0, 7.0]]


@pytest.mark.parametrize("i", [-1, -3, 3])
def test_other_indices_outside_are_found_by_the_check_of_bounds(i: int) -> None:
    row = np.array([1.0, 2.0, 3.0])
    assert _element(row, 2) == 3.0
    with pytest.raises(IndexError):
        _element(row, i)
