"""Memory that begins at a cache line, so that the speed of a loop does not depend on where an array happens to lie."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_LINE = 64


def aligned_empty(*shape: int, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Return an uninitialised array, of float64 unless told otherwise, whose first entry begins a cache line."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    raw = np.empty(size + _LINE, np.uint8)
    begin = -raw.ctypes.data % _LINE
    return raw[begin : begin + size].view(dtype).reshape(shape)


def aligned_copy(array: NDArray[Any]) -> NDArray[Any]:
    """Return a C-contiguous copy whose first entry begins a cache line."""
    copy = aligned_empty(*array.shape, dtype=array.dtype)
    copy[...] = array
    return copy
