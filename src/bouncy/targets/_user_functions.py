"""One function of a user, with an address: that of compiled code, or of a callback into Python.

Either is called with the address of (cache, data), each a tuple of one element or none, and with spins as a pointer
and a size (see `by_address.Linked`).
"""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, typeof, types
from numba.core.errors import NumbaError
from numba.core.registry import cpu_target
from numpy.typing import NDArray

from bouncy._compile import helper, without_memory
from bouncy._native import array_at, dereference, frozen_type, joined, read_only
from bouncy.targets.by_address import ARGUMENTS, BAD_AT, FINE, RAISED, as_number, as_status
from bouncy.targets.contract import costs_to_means

# Arguments of each function before `data`; the cache only where there is one.
PARAMETERS = {
    "flip_cost": ("s", "i", "cache"),
    "log_prob": ("s",),
    "init": ("s", "cache"),
    "on_flip": ("s", "i", "cache"),
    "conditional_means": ("s", "out", "cache"),
}
_RETURN_NUMBERS = ("flip_cost", "log_prob")
_KINDS = {
    "s": types.Array(types.int8, 1, "C", readonly=True),
    "i": types.int64,
    "out": types.Array(types.float64, 1, "C"),
}
# A conditional mean may leave [-1, 1] by rounding.
_TOLERANCE = 1e-9


class UserFunction:
    """A function of a target that a user wrote.

    Parameters
    ----------
    role : str
        Name of the argument of `Custom` that it was given as.
    function : callable
        Plain, or already compiled by numba.
    has_cache, has_data : bool
        Whether the target has them.
    """

    def __init__(self, role: str, function: Callable[..., Any], has_cache: bool, has_data: bool) -> None:
        if not callable(function):
            raise TypeError(f"{role} must be a function, got {function!r:.60} of type {type(function).__name__}")
        self.role = role
        self.given = function
        self.plain: Callable[..., Any] = getattr(function, "py_func", function)
        self.name: str = getattr(self.plain, "__name__", type(self.plain).__name__)
        self.takes_cache = has_cache and "cache" in PARAMETERS[role]
        # A function that requires data gets None where there is none.
        self.takes_data = has_data
        self.takes_data = has_data or (not self._accepts(0) and self._accepts(1))
        if not self._accepts(0):
            raise TypeError(
                f"{self.title} will be called as {role}({', '.join(self.parameters)}), but its signature is "
                f"{self.name}{inspect.signature(self.plain)}"
            )

    @property
    def title(self) -> str:
        """Name of the function in messages."""
        return self.role if self.name in (self.role, "<lambda>") else f"{self.role} ({self.name})"

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the arguments that it is called with."""
        names = tuple(name for name in PARAMETERS[self.role] if name != "cache" or self.takes_cache)
        return (*names, "data") if self.takes_data else names

    @property
    def returns_number(self) -> bool:
        return self.role in _RETURN_NUMBERS

    def _accepts(self, more: int) -> bool:
        """Say whether it can be called with its parameters and some more."""
        try:
            inspect.signature(self.plain).bind(*[None] * (len(self.parameters) + more))
        except TypeError:
            return False
        except ValueError:  # built-in functions need not have a signature
            return True
        return True

    # As plain Python

    def call(self, s: NDArray[np.int8], site: int, cache: tuple[Any, ...], data: tuple[Any, ...], out: Any) -> Any:
        """Return the result of a call as plain Python; `site` and `out` are used by the functions that take them."""
        spins = s.astype(np.int64)  # a copy, which may be kept, of a type whose sums do not overflow
        spins.flags.writeable = False
        first = {"s": spins, "i": site, "out": out}
        arguments = [first[name] for name in self.parameters if name in first]
        return self.plain(*arguments, *self._last(cache, data))

    def _last(self, cache: tuple[Any, ...], data: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments after s, i and out."""
        return (cache if self.takes_cache else ()) + (data if self.takes_data else ())

    def callback(
        self,
        cache: tuple[Any, ...],
        data: tuple[Any, ...],
        on_error: Callable[[BaseException], Any],
        fault: NDArray[np.int64],
    ) -> Any:
        """Return a ctypes object that calls the function as plain Python, and passes its exceptions to `on_error`.

        After a fault it fails without a call, so that stopping a chain does not wait for slow functions.
        """
        failure = np.nan if self.returns_number else RAISED

        def answer(s: int, d: int, *rest: int) -> Any:
            spins = np.ctypeslib.as_array((ctypes.c_int8 * d).from_address(s))
            if self.role != "conditional_means":
                value = self.call(spins, rest[0] if rest else -1, cache, data, None)
                return float(value) if self.returns_number else FINE
            means = np.full(d, np.nan)
            self.call(spins, -1, cache, data, means)
            np.ctypeslib.as_array((ctypes.c_double * d).from_address(rest[0]))[:] = means
            bad = np.flatnonzero(~(np.abs(means) <= 1.0 + _TOLERANCE))
            return BAD_AT + int(bad[0]) if bad.size else FINE

        def called(_part: Any, *arguments: Any) -> Any:
            try:
                return answer(*arguments) if fault[0] == FINE else failure
            except BaseException as error:
                on_error(error)
                return failure

        result = ctypes.c_double if self.returns_number else ctypes.c_int64
        words = [ctypes.c_int64 if kind is types.int64 else ctypes.c_void_p for kind in ARGUMENTS[self.role]]
        return ctypes.CFUNCTYPE(result, ctypes.c_void_p, *words)(called)

    # Compiled

    def compile(self, cache: tuple[Any, ...], data: tuple[Any, ...]) -> dict[str, Any]:
        """Return adapters that call the function, compiled for (cache, data), by the functions that they stand for.

        Costs serve for conditional means too. Raises `NumbaError` if the function cannot be compiled.
        """
        function = self._dispatcher()
        kinds: list[Any] = [_KINDS[name] for name in self.parameters if name in _KINDS]
        kinds += [typeof(item) for item in self._last(cache, ())]
        kinds += [frozen_type(typeof(item)) for item in (data if self.takes_data else ())]
        signature: Any = types.Dispatcher(function).get_call_type(cpu_target.typing_context, tuple(kinds), {})
        self._check_result(signature.return_type)
        if any(compiled.lifted for compiled in function.overloads.values()):
            raise NumbaError("it uses objmode, out of which compiled code cannot raise")
        last = _LAST[self.takes_cache, self.takes_data]
        adapters = {self.role: _ADAPT[self.role](function, last)}
        if self.role == "flip_cost":
            adapters["conditional_means"] = _adapt_costs(function, last)
        return {role: without_memory(adapter) for role, adapter in adapters.items()}

    def _dispatcher(self) -> Any:
        """Return the function for numba to compile, with the options that it came with if it was compiled before.

        It is compiled again in any case, to be inlined: its arguments are many words, and to pass them on would take
        longer than most functions do.
        """
        given = getattr(self.given, "targetoptions", {"error_model": "numpy"})
        options = {name: value for name, value in given.items() if name != "nopython"}
        return njit(**{**options, "nogil": True, "forceinline": True})(self.plain)

    def _check_result(self, kind: Any) -> None:
        if self.returns_number and not isinstance(kind, types.Integer | types.Float | types.Boolean):
            raise TypeError(
                f"{self.title} must return a number on every path, but numba finds that it returns {_in_words(kind)}"
                + ("; has it a return statement?" if isinstance(kind, types.NoneType) else "")
            )


def _in_words(kind: Any) -> str:
    return f"{kind.type} on some paths and None on others" if isinstance(kind, types.Optional) else str(kind)


# Arguments after s, i and out, from (cache, data)


@helper
def _nothing(part):
    return ()


@helper
def _cache(part):
    return joined(part[0], ())


@helper
def _data(part):
    return joined((), part[1])


@helper
def _cache_and_data(part):
    return joined(part[0], part[1])


# by (takes cache, takes data)
_LAST = {(False, False): _nothing, (True, False): _cache, (False, True): _data, (True, True): _cache_and_data}


# Adapters: from the arguments by address to those of a user's function


@helper
def _not_negative(i):
    """Return a site unchanged but known to be >= 0, which skips the wraparound check of indices."""
    return np.int64(np.uint32(i))


def _adapt_flip_cost(function, last):
    def flip_cost(pointer, s, d, i):
        return as_number(float(function(read_only(array_at(s, d)), _not_negative(i), *last(dereference(pointer)))))

    return flip_cost


def _adapt_log_prob(function, last):
    def log_prob(pointer, s, d):
        return as_number(float(function(read_only(array_at(s, d)), *last(dereference(pointer)))))

    return log_prob


def _adapt_init(function, last):
    def init(pointer, s, d):
        function(read_only(array_at(s, d)), *last(dereference(pointer)))
        return as_status(np.int64(FINE))

    return init


def _adapt_on_flip(function, last):
    def on_flip(pointer, s, d, i):
        function(read_only(array_at(s, d)), _not_negative(i), *last(dereference(pointer)))
        return as_status(np.int64(FINE))

    return on_flip


def _adapt_conditional_means(function, last):
    def conditional_means(pointer, s, d, out, n):
        means = array_at(out, d)
        function(read_only(array_at(s, d)), means, *last(dereference(pointer)))
        for i in range(d):
            if not abs(means[i]) <= 1.0 + _TOLERANCE:  # also true of NaN
                return as_status(np.int64(BAD_AT + i))
        return as_status(np.int64(FINE))

    return conditional_means


def _adapt_costs(function, last):
    """Return an adapter that computes the default conditional means, the costs of all flips in one call."""

    def conditional_means(pointer, s, d, out, n):
        spins = array_at(s, d)
        values = array_at(out, n)
        arguments = last(dereference(pointer))
        # Two loops, as an exit from the first would keep it from being vectorised.
        for i in range(d):
            values[i] = function(read_only(spins), i, *arguments)
        for i in range(d):
            if not values[i] > -np.inf:  # also true of NaN
                return as_status(np.int64(BAD_AT + i))
        costs_to_means(values, spins)
        return as_status(np.int64(FINE))

    return conditional_means


_ADAPT = {
    "flip_cost": _adapt_flip_cost,
    "log_prob": _adapt_log_prob,
    "init": _adapt_init,
    "on_flip": _adapt_on_flip,
    "conditional_means": _adapt_conditional_means,
}
