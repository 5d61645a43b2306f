"""Checks on what a user passes, made once in the Python layer so that compiled loops may assume clean input.

Each checker returns the value in the one form the rest of the package uses, or raises `TypeError` (wrong kind of
thing) or `ValueError` (right kind, wrong value) with a message that says what was got and what is expected.
"""

from __future__ import annotations

import math
import os
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def check_count(name: str, value: Any, minimum: int = 1) -> int:
    """Return `value` as an int that is at least `minimum`; floats and bools are refused."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer >= {minimum}, got {value!r} of type {type(value).__name__}")
    if value < minimum:
        raise ValueError(f"{name} must be an integer >= {minimum}, got {value}")
    return int(value)


def check_nonnegative(name: str, value: Any) -> float:
    """Return `value` as a finite float that is not negative."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a finite number >= 0, got {value!r:.60} of type {type(value).__name__}")
    if not _is_finite(value) or value < 0:
        raise ValueError(f"{name} must be a finite number >= 0, got {value!r:.60}")
    return float(value)


def check_finite(name: str, value: Any) -> float:
    """Return `value` as a finite float."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a finite number, got {value!r:.60} of type {type(value).__name__}")
    if not _is_finite(value):
        raise ValueError(f"{name} must be a finite number, got {value!r:.60}")
    return float(value)


def _is_finite(value: Real) -> bool:
    """Say whether a number is finite as a float, which a large integer need not be."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def check_positive(name: str, value: Any) -> float:
    """Return `value` as a finite float above zero."""
    number = check_finite(name, value)
    if number <= 0.0:
        raise ValueError(f"{name} must be a finite number > 0, got {value}")
    return number


def check_flag(name: str, value: Any) -> bool:
    """Return `value` as a bool; anything that is merely true or false in a condition is refused."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r:.60} of type {type(value).__name__}")
    return bool(value)


def check_path(path: Any) -> str:
    """Return a path as text."""
    place = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(place, str) or "\0" in place:
        raise TypeError(f"path must be a path as text or pathlib.Path, got {path!r:.60} of type {type(path).__name__}")
    return place


def check_real_array(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """Return a float64, C-contiguous copy of an array of finite real numbers, of any shape."""
    array = _as_array(name, value)
    check_real_dtype(name, array.dtype)
    with np.errstate(over="ignore"):  # what does not fit in a float64 becomes inf and is named below
        array = np.array(array, dtype=np.float64, order="C")
    index = first_true(~np.isfinite(array))
    if index is not None:
        raise ValueError(f"{name} must be finite, got {entry(name, index, array[index])}")
    return array


def check_real_dtype(name: str, dtype: np.dtype[Any]) -> None:
    """Raise unless `dtype` is an integer or floating type; bool, complex, object and text are refused."""
    if dtype.kind not in "iuf":
        raise TypeError(f"{name} must hold real numbers (an integer or float dtype), got dtype {dtype}")


def check_spins(s: ArrayLike, d: int, name: str = "s") -> NDArray[np.int8]:
    """Return spins of shape (..., d) as a C-contiguous int8 array; int8 input is not copied.

    Entries must be exactly -1 or +1, in an integer or floating dtype.
    """
    array = _as_array(name, s)
    if array.dtype.kind not in "iuf":
        raise TypeError(
            f"{name} must hold spins -1/+1 in an integer or float dtype, got dtype {array.dtype}"
            + ("; convert booleans b with 2 * b.astype(int) - 1" if array.dtype.kind == "b" else "")
        )
    if array.ndim == 0 or array.shape[-1] != d:
        raise ValueError(f"{name} must have shape (..., {d}), one entry per site, got shape {array.shape}")
    index = first_true(np.abs(array) != 1)
    if index is not None:
        raise ValueError(
            f"{name} must hold spins -1/+1, got {entry(name, index, array[index])}; convert 0/1 values b with 2 * b - 1"
        )
    return np.ascontiguousarray(array, dtype=np.int8)


def as_seed_sequence(seed: Any) -> np.random.SeedSequence:
    """Return the seed sequence that `seed` stands for: None (fresh entropy), an int >= 0 or a `SeedSequence`.

    A `SeedSequence` is copied, so that spawning from the result leaves the caller's object as it was and the same
    argument always gives the same streams.
    """
    if isinstance(seed, np.random.SeedSequence):
        return np.random.SeedSequence(
            seed.entropy,
            spawn_key=seed.spawn_key,
            pool_size=seed.pool_size,
            n_children_spawned=seed.n_children_spawned,
        )
    if seed is None:
        return np.random.SeedSequence()
    if isinstance(seed, bool | np.bool_) or not isinstance(seed, Integral):
        raise TypeError(
            f"seed must be None, an integer >= 0 or a numpy SeedSequence, got {seed!r:.60} of type "
            f"{type(seed).__name__}"
        )
    return np.random.SeedSequence(check_count("seed", seed, minimum=0))


def first_true(mask: NDArray[np.bool_]) -> tuple[int, ...] | None:
    """Return the index of the first True entry in C order, or None."""
    if not mask.any():
        return None
    return tuple(int(k) for k in np.unravel_index(int(np.argmax(mask)), mask.shape))


def entry(name: str, index: tuple[int, ...], value: Any) -> str:
    """Return text such as `M[0, 3] = nan` that names one entry of an array."""
    where = f"[{', '.join(map(str, index))}]" if index else ""
    return f"{name}{where} = {value}"


def _as_array(name: str, value: ArrayLike) -> NDArray[Any]:
    if np.ma.isMaskedArray(value):
        raise TypeError(f"{name} must be a plain array, got a masked array: fill its masked entries first")
    try:
        return np.asarray(value)
    except ValueError as error:
        raise TypeError(f"{name} must be a rectangular array of real numbers, got {value!r:.60}") from error
