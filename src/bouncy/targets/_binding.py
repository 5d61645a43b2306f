"""The functions of a user with their data: a view that calls them by address, and errors for failures."""

from __future__ import annotations

import ctypes
import functools
import inspect
import threading
import warnings
from typing import Any

import numpy as np
from numba.core.errors import NumbaError, UnsupportedBytecodeError
from numpy.typing import NDArray

from bouncy._native import address_of, lay_out, pointer_to
from bouncy.targets._data import copy_arrays, freeze, leaves
from bouncy.targets._user_functions import UserFunction
from bouncy.targets.by_address import ARGUMENTS, NAMES, Linked, Memory, link
from bouncy.targets.contract import TargetError, shown

# numba's message about a function that writes to a read-only array.
_WRITES = "Cannot modify readonly array"
# Begins the explanation of a failure that does not occur again as plain Python.
_NOT_BY_PYTHON = "failed when compiled"


class SlowTargetWarning(UserWarning):
    """A function of a target could not be compiled and is called as plain Python."""


class Binding:
    """Functions of a user with their data, callable by address in this process.

    Functions are compiled on first use, and again after the target was sent to another process: addresses are valid in
    one process only.
    """

    def __init__(
        self, functions: list[UserFunction], cache: tuple[Any, ...], data: tuple[Any, ...], compile: bool
    ) -> None:
        self._functions = {function.role: function for function in functions}
        self._cache = cache
        self._data = data or ((None,) if any(function.takes_data for function in functions) else ())
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

    def run_by_python(self, role: str, s: NDArray[np.int8], site: int) -> Any:
        """Return the result of a function called as plain Python, with the cache that `init` makes."""
        return self._functions[role].call(s, site, self._new_cache(s), self._data, None)

    def _new_cache(self, s: NDArray[np.int8]) -> tuple[Any, ...]:
        cache: tuple[Any, ...] = copy_arrays(self._cache)
        if cache:
            self._functions["init"].call(s, -1, cache, self._data, None)
        return cache

    def view(self, d: int, cache: tuple[Any, ...] | None = None) -> Linked:
        """Return a view with a cache of its own."""
        cache = copy_arrays(self._cache if cache is None else cache)
        addresses, callbacks = dict(self._bind()), {}
        errors: dict[str, BaseException] = {}
        fault = np.zeros(2, np.int64)
        for role, function in self._functions.items():
            if role not in addresses:
                callbacks[role] = function.callback(
                    cache, self._data, functools.partial(errors.setdefault, role), fault
                )
                addresses[role] = _address(callbacks[role])
        memory = lay_out((cache, self._data))
        owner = Memory(
            keep=(memory, callbacks),
            caches=leaves(cache),
            recipe=(self.view, (d, cache)),
            explain=functools.partial(self._explain, errors=errors),
            fault=fault,
        )
        return link(addresses, memory, owner, d)

    def _bind(self) -> dict[str, int]:
        """Return the addresses of the functions that can be compiled, compiling them the first time."""
        with self._lock:
            if self._addresses is None:
                self._addresses, reasons = {}, {}
                for role, function in self._functions.items():
                    reason = self._try_to_compile(role, function)
                    if reason:
                        reasons[function.title] = reason
                if reasons and self._compile:
                    _warn_slow(reasons)
            return self._addresses

    def _try_to_compile(self, role: str, function: UserFunction) -> str | None:
        """Store the address of a function and return None, or return why there is none."""
        assert self._addresses is not None
        if not self._compile:
            return "compile=False"
        if not inspect.isfunction(function.plain):
            return f"it is of type {type(function.plain).__name__}, not a function written with def or lambda"
        try:
            for done, adapter in function.compile(self._cache, self._data).items():
                if done == role or done not in self._functions:
                    pointer = pointer_to((self._cache, self._data))
                    self._addresses[done] = address_of(adapter, pointer, *ARGUMENTS[done])
                    self._compiled.append(adapter)
        except (NumbaError, UnsupportedBytecodeError) as error:
            if _WRITES in str(error):
                raise TypeError(
                    f"{function.title} must not write to s or data, but numba finds that it does: {_reason(error)}"
                ) from error
            return _reason(error)
        return None

    # Failures

    def _explain(self, code: int, site: int, s: NDArray[np.int8], errors: dict[str, BaseException]) -> TargetError:
        """Return the error for a function that failed, calling it once more to see what it raises."""
        # Default conditional means come from costs, and costs without a function from values of log p.
        function = self._functions.get(NAMES[code]) or self._functions.get("flip_cost") or self._functions["log_prob"]
        cause, what = errors.get(function.role), ""
        errors.clear()
        if cause is None:
            cause, what, site = self._ask_again(function, site, s)
        if cause is not None:
            what = f"raised {type(cause).__name__}: {cause}"
        about = f" for site {site}" if site >= 0 else ""
        error = TargetError(
            f"{function.title} {what}{about} at s = {shown(s)}", function.role, site if site >= 0 else None, s
        )
        error.__cause__ = cause
        return error

    def _ask_again(
        self, function: UserFunction, site: int, s: NDArray[np.int8]
    ) -> tuple[BaseException | None, str, int]:
        """Return what a function raises as plain Python, or what is wrong with its result, and the site."""
        # One call computes all costs, and does not tell which of them raised.
        for i in range(s.size) if site < 0 and function.role == "flip_cost" else [site]:
            cause, what = self._ask_by_python(function, i, s)
            if cause is not None or not what.startswith(_NOT_BY_PYTHON):
                return cause, what, i
        return cause, what, site

    def _ask_by_python(
        self, function: UserFunction, site: int, s: NDArray[np.int8]
    ) -> tuple[BaseException | None, str]:
        out = np.full(s.size, np.nan)
        before = s.copy()
        if function.role == "on_flip":
            before[site] *= -1
        try:
            cache = copy_arrays(self._cache) if function.role == "init" else self._new_cache(before)
            value = function.call(s, site, cache, self._data, out)
        except Exception as error:
            return error, ""
        return None, _bad_mean(out) if function.role == "conditional_means" else _bad_value(function, value)

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


def _address(callback: Any) -> int:
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert address is not None
    return address


def _bad_value(function: UserFunction, value: Any) -> str:
    if function.role == "flip_cost":
        expected, is_bad = "a finite cost, or +inf where the flipped state has probability zero", not value > -np.inf
    elif function.role == "log_prob":
        expected, is_bad = "a finite number, or -inf where p(s) = 0", not value < np.inf
    else:
        return f"{_NOT_BY_PYTHON}, although it does not as plain Python with a new cache"
    if is_bad:
        return f"returned {value} (expected {expected})"
    return f"{_NOT_BY_PYTHON} (expected {expected}), although as plain Python it returns {value}"


def _bad_mean(out: NDArray[np.float64]) -> str:
    bad = np.flatnonzero(~(np.abs(out) <= 1.0))
    if bad.size == 0:
        return f"{_NOT_BY_PYTHON}, although it does not as plain Python"
    return f"wrote out[{bad[0]}] = {out[bad[0]]} (expected a mean between -1 and 1)"


def _reason(error: Exception) -> str:
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
        stacklevel=7,
    )
