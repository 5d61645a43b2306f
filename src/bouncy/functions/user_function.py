"""One function of a user, with an address: that of compiled code, or of a callback into Python.

Either is called with the address of (cache, data), each a tuple of one element or none, and with its other arguments as
words: an array is a pointer and a size, a number is itself.
"""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numba import njit, typeof, types
from numba.core.errors import NumbaError
from numba.core.registry import cpu_target
from numpy.typing import NDArray

from bouncy._compile import helper, without_memory
from bouncy._native import BAD_AT, FINE, RAISED, frozen_type, joined


class Argument(NamedTuple):
    """A kind of argument before cache and data.

    Attributes
    ----------
    kind : numba type
        What a compiled function gets.
    plain : dtype or None
        Of the read-only copy that plain Python gets of an array; None for numbers, and for arrays to write into.
    """

    kind: Any
    plain: Any = None

    @property
    def words(self) -> tuple[Any, ...]:
        """numba types of the words that it is passed as."""
        is_array = isinstance(self.kind, types.Array)
        return (types.CPointer(self.kind.dtype), types.int64) if is_array else (self.kind,)


# By the names that documentation gives them. Sums of spins do not overflow in int64.
_ARGUMENTS = {
    "s": Argument(types.Array(types.int8, 1, "C", readonly=True), np.int64),
    "i": Argument(types.int64),
    "y": Argument(types.Array(types.float64, 1, "C", readonly=True), np.float64),
    "v": Argument(types.Array(types.float64, 1, "C", readonly=True), np.float64),
    "horizon": Argument(types.float64),
    "out": Argument(types.Array(types.float64, 1, "C")),
}
_WORDS = {types.int64: ctypes.c_int64, types.float64: ctypes.c_double}
_ITEMS = {types.int8: ctypes.c_int8, types.float64: ctypes.c_double}


class Role(NamedTuple):
    """What a function is for, and how it is called.

    Attributes
    ----------
    parameters : tuple of str
        Names of its arguments before `data`; "cache" only counts where there is one.
    adapt : callable
        Makes, from the compiled function and from what returns its last arguments, a function of words.
    bad : callable or None
        Given what was written into `out`, (n,), says which entries cannot be; None if a number is returned instead.
    """

    parameters: tuple[str, ...]
    adapt: Callable[..., Any]
    bad: Callable[[NDArray[np.float64]], NDArray[np.bool_]] | None = None
    returns_number: bool = False

    @property
    def words(self) -> tuple[Any, ...]:
        """numba types of the words after the address of (cache, data)."""
        return tuple(word for name in self.parameters if name != "cache" for word in _ARGUMENTS[name].words)


class UserFunction:
    """A function of a target that a user wrote.

    Parameters
    ----------
    name : str
        Name of the argument that it was given as.
    role : Role
        What it is for.
    function : callable
        Plain, or already compiled by numba.
    has_cache, has_data : bool
        Whether the target has them.
    """

    def __init__(self, name: str, role: Role, function: Callable[..., Any], has_cache: bool, has_data: bool) -> None:
        if not callable(function):
            raise TypeError(f"{name} must be a function, got {function!r:.60} of type {type(function).__name__}")
        self.role = name
        self.kind = role
        self.given = function
        self.plain: Callable[..., Any] = getattr(function, "py_func", function)
        self.name: str = getattr(self.plain, "__name__", type(self.plain).__name__)
        self.takes_cache = has_cache and "cache" in role.parameters
        # A function that requires data gets None where there is none.
        self.takes_data = has_data
        self.takes_data = has_data or (not self._accepts(0) and self._accepts(1))
        if not self._accepts(0):
            raise TypeError(
                f"{self.title} will be called as {name}({', '.join(self.parameters)}), but its signature is "
                f"{self.name}{inspect.signature(self.plain)}"
            )

    @property
    def title(self) -> str:
        """Name of the function in messages."""
        return self.role if self.name in (self.role, "<lambda>") else f"{self.role} ({self.name})"

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the arguments that it is called with."""
        names = tuple(name for name in self.kind.parameters if name != "cache" or self.takes_cache)
        return (*names, "data") if self.takes_data else names

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

    def call(self, values: Mapping[str, Any], cache: tuple[Any, ...], data: tuple[Any, ...]) -> Any:
        """Return the result of a call as plain Python; `values` has at least the arguments that it takes, by name."""
        arguments = [_plain(name, values[name]) for name in self.parameters if name in _ARGUMENTS]
        return self.plain(*arguments, *self._last(cache, data))

    def _last(self, cache: tuple[Any, ...], data: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the last arguments."""
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
        failure = np.nan if self.kind.returns_number else RAISED
        names = [name for name in self.kind.parameters if name != "cache"]

        def answer(words: tuple[Any, ...]) -> Any:
            values = dict(_from_words(names, words))
            out, d = values.get("out"), values[names[0]].size
            if out is not None:
                values["out"] = np.full(d, np.nan)
            value = self.call(values, cache, data)
            if self.kind.returns_number:
                return float(value)
            if out is None or self.kind.bad is None:
                return FINE
            out[:d] = values["out"]  # which may be longer
            bad = np.flatnonzero(self.kind.bad(values["out"]))
            return BAD_AT + int(bad[0]) if bad.size else FINE

        def called(_part: Any, *words: Any) -> Any:
            try:
                return answer(words) if fault[0] == FINE else failure
            except BaseException as error:
                on_error(error)
                return failure

        result = ctypes.c_double if self.kind.returns_number else ctypes.c_int64
        words: list[Any] = [_WORDS.get(word, ctypes.c_void_p) for word in self.kind.words]
        return ctypes.CFUNCTYPE(result, ctypes.c_void_p, *words)(called)

    # Compiled

    def compile(self, cache: tuple[Any, ...], data: tuple[Any, ...]) -> Any:
        """Return an adapter that calls the function, compiled for (cache, data).

        Raises `NumbaError` if the function cannot be compiled.
        """
        function = self._dispatcher()
        kinds: list[Any] = [_ARGUMENTS[name].kind for name in self.parameters if name in _ARGUMENTS]
        kinds += [typeof(item) for item in self._last(cache, ())]
        kinds += [frozen_type(typeof(item)) for item in (data if self.takes_data else ())]
        signature: Any = types.Dispatcher(function).get_call_type(cpu_target.typing_context, tuple(kinds), {})
        self._check_result(signature.return_type)
        if any(compiled.lifted for compiled in function.overloads.values()):
            raise NumbaError("it uses objmode, out of which compiled code cannot raise")
        last = _LAST[self.takes_cache, self.takes_data]
        return without_memory(self.kind.adapt(function, last))

    def _dispatcher(self) -> Any:
        """Return the function for numba to compile, with the options that it came with if it was compiled before.

        It is compiled again in any case, to be inlined: its arguments are many words, and to pass them on would take
        longer than most functions do.
        """
        given = getattr(self.given, "targetoptions", {"error_model": "numpy"})
        options = {name: value for name, value in given.items() if name != "nopython"}
        return njit(**{**options, "nogil": True, "forceinline": True})(self.plain)

    def _check_result(self, kind: Any) -> None:
        if self.kind.returns_number and not isinstance(kind, types.Integer | types.Float | types.Boolean):
            raise TypeError(
                f"{self.title} must return a number on every path, but numba finds that it returns {_in_words(kind)}"
                + ("; has it a return statement?" if isinstance(kind, types.NoneType) else "")
            )


def _in_words(kind: Any) -> str:
    return f"{kind.type} on some paths and None on others" if isinstance(kind, types.Optional) else str(kind)


def _plain(name: str, value: Any) -> Any:
    """Return an argument for plain Python: of an array that must not be written to, a copy, which may be kept."""
    dtype = _ARGUMENTS[name].plain
    if dtype is None:
        return value
    copy = np.array(value, dtype)
    copy.flags.writeable = False
    return copy


def _from_words(names: list[str], words: tuple[Any, ...]) -> list[tuple[str, Any]]:
    """Return the arguments that some words stand for, with their names; arrays share the memory of the caller."""
    found, rest = [], iter(words)
    for name in names:
        kind = _ARGUMENTS[name].kind
        value = next(rest)
        if isinstance(kind, types.Array):
            value = np.ctypeslib.as_array((_ITEMS[kind.dtype] * next(rest)).from_address(value))
        found.append((name, value))
    return found


# The last arguments, from (cache, data)


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
