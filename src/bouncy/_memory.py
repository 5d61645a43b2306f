"""Memory that begins at a cache line, so that the speed of a loop does not depend on where an array happens to lie."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_LINE = 64


def aligned_empty(*shape: int) -> NDArray[np.float64]:
    """Return an uninitialised array of float64 whose first entry begins a cache line."""
    size = math.prod(shape) * 8
    raw = np.empty(size + _LINE, np.uint8)
    begin = -raw.ctypes.data % _LINE
    return raw[begin : begin + size].view(np.float64).reshape(shape)


def aligned_copy(array: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a C-contiguous copy whose first entry begins a cache line."""
    copy = aligned_empty(*array.shape)
    copy[...] = array
    return copy
