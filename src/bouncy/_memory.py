"""Memory: where arrays begin, so that the speed of a loop does not depend on it; views to read; how much is left."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

Matrix = TypeVar("Matrix")

_LINE = 64
# Available memory that is assumed where the system does not report it.
_UNKNOWN = 4 << 30


def aligned_empty(*shape: int, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Return an uninitialised array, of float64 unless told otherwise, whose first entry begins a cache line."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    raw = np.empty(size + _LINE, np.uint8)
    begin = -raw.ctypes.data % _LINE
    return raw[begin : begin + size].view(dtype).reshape(shape)


def aligned_zeros(*shape: int, dtype: Any = np.float64) -> NDArray[Any]:
    """Return zeros, the first of which begins a cache line."""
    array = aligned_empty(*shape, dtype=dtype)
    array[...] = 0
    return array


def aligned_copy(array: NDArray[Any]) -> NDArray[Any]:
    """Return a C-contiguous copy whose first entry begins a cache line."""
    copy = aligned_empty(*array.shape, dtype=array.dtype)
    copy[...] = array
    return copy


def read_only(array: Matrix) -> Matrix:
    """Return a view of an array, or of a sparse matrix in compressed rows, that cannot be written to."""
    given: Any = array
    if hasattr(given, "indptr"):
        parts = tuple(read_only(getattr(given, name)) for name in ("data", "indices", "indptr"))
        return type(given)(parts, shape=given.shape)  # type: ignore[no-any-return]
    view = given.view()
    view.flags.writeable = False
    return view  # type: ignore[no-any-return]


def available_memory() -> int:
    """Return how many bytes this process may still take, of what the machine or its container has left."""
    found = [_machine_left(), _container_left()]
    return min((size for size in found if size is not None), default=_UNKNOWN)


def memory_left() -> int | None:
    """Return the most that this process could still take, swap included; None where the system does not report it."""
    found = [_machine_left(), _container_left()]
    known = [size for size in found if size is not None]
    return min(known) + (_machine_left("SwapFree") or 0) if known else _physical_memory()


def _machine_left(name: str = "MemAvailable") -> int | None:
    try:
        text = Path("/proc/meminfo").read_text("ascii")
        return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(f"{name}:"))
    except (OSError, StopIteration, ValueError):
        return None


def _container_left() -> int | None:
    group = Path("/sys/fs/cgroup")
    try:
        limit, used = (int((group / f"memory.{name}").read_text("ascii")) for name in ("max", "current"))
        parts = dict(line.split() for line in (group / "memory.stat").read_text("ascii").splitlines())
        # Files that were read are kept in memory only as long as nothing else needs it.
        return max(limit - used + int(parts.get("inactive_file", 0)), 0)
    except (OSError, ValueError):  # there is none, or its limit is the word "max"
        return None


def _physical_memory() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
