"""The `data` and `cache` of a user: numbers and arrays, in tuples nested to any depth."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bouncy._memory import aligned_copy

# Type codes of the numbers that numba can use.
_DTYPES = frozenset("?bhilqBHILQfdFD")


def read_data(value: Any) -> Any:
    """Return a read-only copy of arrays and numbers."""
    return freeze(_read("data", value))


def read_cache(value: Any) -> Any:
    """Return a copy of an array or a tuple of arrays."""
    cache = _read("cache", value)
    for k, leaf in enumerate(leaves(cache)):
        if not isinstance(leaf, np.ndarray):
            raise TypeError(f"cache must be an array or a tuple of arrays, got {leaf!r} as its element {k}")
    return cache


def freeze(value: Any) -> Any:
    """Make arrays read-only, in place, and return the value they are in."""
    for leaf in leaves(value):
        if isinstance(leaf, np.ndarray):
            leaf.flags.writeable = False
    return value


def copy_arrays(value: Any) -> Any:
    """Return a copy of nested tuples with writable copies of their arrays."""
    if isinstance(value, np.ndarray):
        return aligned_copy(value)
    return _rebuilt(value, [copy_arrays(item) for item in value])


def leaves(value: Any) -> list[Any]:
    """Return the elements of nested tuples in one list."""
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, tuple) else [value]


def _read(name: str, value: Any) -> Any:
    """Return a copy of an array, a number or a tuple of these that compiled code can use."""
    if isinstance(value, tuple):
        return _rebuilt(value, [_read(f"{name}[{k}]", item) for k, item in enumerate(value)])
    if isinstance(value, bool | int | float | complex | np.number | np.bool_):
        return _read_number(name, value)
    if not isinstance(value, np.ndarray | list):
        raise TypeError(
            f"{name} must be an array, a number or a tuple of these, got {type(value).__name__}"
            + ("; pass (M.indptr, M.indices, M.data)" if hasattr(value, "tocsr") else "")
        )
    return _read_array(name, value)


def _read_number(name: str, value: Any) -> Any:
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, np.generic) or (isinstance(number, int) and not -(2**63) <= number < 2**63):
        raise TypeError(
            f"{name} must be a number that 64 bits can hold, got {value!r:.60} of type {type(value).__name__}"
        )
    return number


def _read_array(name: str, value: Any) -> NDArray[Any]:
    if np.ma.isMaskedArray(value):
        raise TypeError(f"{name} must be a plain array, got a masked array: fill its masked entries first")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise TypeError(f"{name} must be a rectangular array of numbers, got {value!r:.60}") from error
    if array.dtype.char not in _DTYPES:
        raise TypeError(f"{name} must hold numbers (bool, int, float or complex of up to 64 bits), got {array.dtype}")
    return aligned_copy(array.astype(array.dtype.newbyteorder("="), copy=False))


def _rebuilt(value: tuple[Any, ...], items: list[Any]) -> Any:
    """Return a tuple of the same kind, named or not, with other elements."""
    return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
