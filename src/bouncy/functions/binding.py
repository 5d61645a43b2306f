"""The functions of a user with their data: addresses to call them by, and what they raise when they fail."""

from __future__ import annotations

import ctypes
import functools
import inspect
import threading
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numba.core.errors import NumbaError, UnsupportedBytecodeError
from numpy.typing import NDArray

from bouncy._native import address_of, lay_out, pointer_to
from bouncy.functions.data import copy_arrays, freeze
from bouncy.functions.user_function import Role, UserFunction

# numba's message about a function that writes to a read-only array.
_WRITES = "Cannot modify readonly array"
# Begins the explanation of a failure that does not occur again as plain Python.
NOT_BY_PYTHON = "failed when compiled"


class SlowTargetWarning(UserWarning):
    """A function of a target could not be compiled and is called as plain Python."""


class Attached(NamedTuple):
    """Functions that can be called by address.

    Attributes
    ----------
    addresses : dict
        Of each function, by name.
    memory : ndarray of int64
        (cache, data) as compiled code expects it; its address is passed to each function.
    keep : object
        Must be kept alive as long as functions are called.
    errors : dict
        What functions that are called as plain Python raised first, by name.
    """

    addresses: dict[str, int]
    memory: NDArray[np.int64]
    keep: Any
    errors: dict[str, BaseException]


class Binding:
    """Functions of a user with their data, callable by address in this process.

    Functions are compiled on first use, and again after the target was sent to another process: addresses are valid in
    one process only.

    Parameters
    ----------
    roles : mapping
        What functions there are, by name.
    given : mapping
        The functions of a user, by name; None where there is none.
    cache, data : tuple
        Of one element or none.
    compile : bool
        Whether to compile at all.
    """

    def __init__(
        self,
        roles: Mapping[str, Role],
        given: Mapping[str, Callable[..., Any] | None],
        cache: tuple[Any, ...],
        data: tuple[Any, ...],
        compile: bool,
    ) -> None:
        self._functions = {
            name: UserFunction(name, roles[name], function, bool(cache), bool(data))
            for name, function in given.items()
            if function is not None
        }
        self._cache = cache
        self._data = data or ((None,) if any(function.takes_data for function in self._functions.values()) else ())
        self._compile = compile
        self._forget()

    def _forget(self) -> None:
        self._addresses: dict[str, int] | None = None
        self._compiled: list[Any] = []
        self._lock = threading.Lock()

    @property
    def roles(self) -> list[str]:
        """Names of the functions that were given."""
        return list(self._functions)

    def attach(self, cache: tuple[Any, ...], fault: NDArray[np.int64]) -> Attached:
        """Return addresses for a cache; plain Python is no longer called once `fault[0]` is not 0."""
        addresses, callbacks = dict(self._bind()), {}
        errors: dict[str, BaseException] = {}
        for name, function in self._functions.items():
            if name not in addresses:
                on_error = functools.partial(errors.setdefault, name)
                callbacks[name] = function.callback(cache, self._data, on_error, fault)
                addresses[name] = ctypes.cast(callbacks[name], ctypes.c_void_p).value or 0
        memory = lay_out((cache, self._data))
        return Attached(addresses, memory, (memory, callbacks, self), errors)

    def _bind(self) -> dict[str, int]:
        """Return the addresses of the functions that can be compiled, compiling them the first time."""
        with self._lock:
            if self._addresses is None:
                self._addresses, reasons = {}, {}
                for name, function in self._functions.items():
                    reason = self._try_to_compile(name, function)
                    if reason:
                        reasons[function.title] = reason
                if reasons and self._compile:
                    _warn_slow(reasons)
            return self._addresses

    def _try_to_compile(self, name: str, function: UserFunction) -> str | None:
        """Store the address of a function and return None, or return why there is none."""
        assert self._addresses is not None
        if not self._compile:
            return "compile=False"
        if not inspect.isfunction(function.plain):
            return f"it is of type {type(function.plain).__name__}, not a function written with def or lambda"
        try:
            adapter = function.compile(self._cache, self._data)
            pointer = pointer_to((self._cache, self._data))
            self._addresses[name] = address_of(adapter, pointer, *function.kind.words)
            self._compiled.append(adapter)
        except (NumbaError, UnsupportedBytecodeError) as error:
            if _WRITES in str(error):
                kept = " or ".join(
                    part for part in (*function.kind.parameters, "data") if part not in ("out", "cache", "i")
                )
                raise TypeError(
                    f"{function.title} must not write to {kept}, but numba finds that it does: {reason_of(error)}"
                ) from error
            return reason_of(error)
        return None

    # As plain Python

    def run_by_python(self, name: str, values: Mapping[str, Any], cache: tuple[Any, ...] = ()) -> Any:
        """Return the result of a function called as plain Python; `values` has its arguments by name."""
        return self._functions[name].call(values, cache, self._data)

    def __getstate__(self) -> dict[str, Any]:
        kept = self.__dict__.copy()
        for name in ("_addresses", "_compiled", "_lock"):
            del kept[name]
        return kept

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._cache = copy_arrays(self._cache)  # unpickled arrays may be read-only, or writable where they must not be
        freeze(self._data)
        self._forget()


def reason_of(error: Exception) -> str:
    """Return the line of numba's message that states the problem."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if _WRITES in line]
    telling += [line for line in lines if not line.startswith(("Failed in", "During:", "File "))]
    line = (telling or lines or [type(error).__name__])[0]
    return line.removesuffix("found for signature:").rstrip(" .")[:300]


def _warn_slow(reasons: dict[str, str]) -> None:
    what = "; ".join(f"{title}: {reason}" for title, reason in reasons.items())
    warnings.warn(
        f"called as plain Python, much slower than compiled code, because numba cannot compile {what}. Pass "
        "compile=False to turn this warning off",
        SlowTargetWarning,
        stacklevel=8,
    )
