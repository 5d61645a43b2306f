"""Functions of a user: compiled or not, called by address, and asked again when they fail."""

from __future__ import annotations

import ctypes
import functools
import inspect
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, typeof, types
from numba.core.errors import NumbaError, UnsupportedBytecodeError
from numba.core.registry import cpu_target
from numpy.typing import NDArray

from bouncy._compile import without_memory
from bouncy.targets._adapters import ROLES, SIGNATURES, Role, adapt_costs, callback, picker, spins_for_python
from bouncy.targets._data import copy_arrays, freeze, leaves
from bouncy.targets._native import address_of, frozen_type, lay_out, pointer_to
from bouncy.targets.contract import TargetError, shown
from bouncy.targets.linked import COST, FLIP, LOG_PROB, MEANS, RESYNC, Linked, Memory

# What numba says of a function that writes to what it must not write to.
_WRITES = "Cannot modify readonly array"
# How the explanation begins of a failure that cannot be repeated.
_NOT_BY_PYTHON = "failed when compiled"
_KINDS = {
    "s": types.Array(types.int8, 1, "C", readonly=True),
    "i": types.int64,
    "out": types.Array(types.float64, 1, "C"),
}


class SlowTargetWarning(UserWarning):
    """A function of a target could not be compiled and is called as plain Python."""


class UserFunction:
    """A function in its role, and what it is called with.

    Parameters
    ----------
    role : str
        Name of the argument of `Custom` that it was given as.
    function : callable
        Plain, or already compiled by numba.
    has_cache, has_data : bool
        What there is beside the spins.
    """

    def __init__(self, role: str, function: Callable[..., Any], has_cache: bool, has_data: bool) -> None:
        if not callable(function):
            raise TypeError(f"{role} must be a function, got {function!r:.60} of type {type(function).__name__}")
        self._role = role
        self.given = function
        self.plain: Callable[..., Any] = getattr(function, "py_func", function)
        self.name: str = getattr(self.plain, "__name__", type(self.plain).__name__)
        self.takes_cache = has_cache and "cache" in self.role.arguments
        # A function that insists on data gets None where there is none.
        self.takes_data = has_data
        self.takes_data = has_data or (not self._accepts(0) and self._accepts(1))
        if not self._accepts(0):
            raise TypeError(
                f"{self.title} will be called as {role}({', '.join(self.parameters)}), but its signature is "
                f"{self.name}{inspect.signature(self.plain)}"
            )

    @property
    def role(self) -> Role:
        return ROLES[self._role]

    @property
    def title(self) -> str:
        """What the function is called in messages."""
        role = self.role.name
        return role if self.name in (role, "<lambda>") else f"{role} ({self.name})"

    @property
    def parameters(self) -> tuple[str, ...]:
        """What it is called with."""
        names = tuple(name for name in self.role.arguments if name != "cache" or self.takes_cache)
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

    def last(self, cache: tuple[Any, ...], data: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments that come after the spins, and the site or what is written to."""
        return (cache if self.takes_cache else ()) + (data if self.takes_data else ())

    def compile(self, cache: tuple[Any, ...], data: tuple[Any, ...]) -> dict[int, Any]:
        """Return adapters that call the function, compiled for (cache, data), by the code of what they do.

        Costs serve for conditional means too. Raises `NumbaError` if the function cannot be compiled.
        """
        function = self._dispatcher()
        kinds: list[Any] = [_KINDS[name] for name in self.parameters if name in _KINDS]
        kinds += [typeof(item) for item in self.last(cache, ())]
        kinds += [frozen_type(typeof(item)) for item in (data if self.takes_data else ())]
        signature: Any = types.Dispatcher(function).get_call_type(cpu_target.typing_context, tuple(kinds), {})
        self._check_result(signature.return_type)
        if any(compiled.lifted for compiled in function.overloads.values()):
            raise NumbaError("it uses objmode, out of which compiled code cannot raise")
        arguments = function, picker(self.takes_cache, self.takes_data)
        adapters = {self.role.code: self.role.adapter(*arguments)}
        if self.role.code == COST:
            adapters[MEANS] = adapt_costs(*arguments)
        return {code: without_memory(adapter) for code, adapter in adapters.items()}

    def _dispatcher(self) -> Any:
        """Return the function for numba to compile, with the options that it came with if it was compiled before.

        It is compiled again in any case, to be inlined: its arguments are many words, and to hand them over would take
        longer than most functions do.
        """
        given = getattr(self.given, "targetoptions", {"error_model": "numpy"})
        options = {name: value for name, value in given.items() if name != "nopython"}
        return njit(**{**options, "nogil": True, "forceinline": True})(self.plain)

    def _check_result(self, kind: Any) -> None:
        if self.role.returns_number and not isinstance(kind, types.Integer | types.Float | types.Boolean):
            raise TypeError(
                f"{self.title} must return a number on every path, but numba finds that it returns {_in_words(kind)}"
                + ("; has it a return statement?" if isinstance(kind, types.NoneType) else "")
            )


class Binding:
    """Functions of a user with their data, ready to be called by address in this process.

    Functions are compiled when that is needed for the first time, and again after the target was sent to another
    process: addresses do not travel.
    """

    def __init__(
        self, functions: list[UserFunction], cache: tuple[Any, ...], data: tuple[Any, ...], compile: bool
    ) -> None:
        self._functions = {function.role.code: function for function in functions}
        self._cache = cache
        self._data = data or ((None,) if any(function.takes_data for function in functions) else ())
        self._compile = compile
        self._forget()

    def _forget(self) -> None:
        self._addresses: dict[int, int] | None = None
        self._compiled: list[Any] = []
        self._lock = threading.Lock()

    @property
    def names(self) -> list[str]:
        """The roles for which there are functions."""
        return [function.role.name for function in self._functions.values()]

    def run_by_python(self, role: str, s: NDArray[np.int8], site: int) -> Any:
        """Return what a function gives when it is not compiled, with the cache that `init` makes."""
        return self._call_plain(self._functions[ROLES[role].code], s, site, self._new_cache(s), None)

    def _new_cache(self, s: NDArray[np.int8]) -> tuple[Any, ...]:
        cache: tuple[Any, ...] = copy_arrays(self._cache)
        if cache:
            self._call_plain(self._functions[RESYNC], s, -1, cache, None)
        return cache

    def _call_plain(
        self, function: UserFunction, s: NDArray[np.int8], site: int, cache: tuple[Any, ...], out: Any
    ) -> Any:
        first = {"s": spins_for_python(s), "i": site, "out": out}
        arguments = [first[name] for name in function.parameters if name in first]
        return function.plain(*arguments, *function.last(cache, self._data))

    def view(self, d: int, cache: tuple[Any, ...] | None = None) -> Linked:
        """Return a view with a cache of its own."""
        cache = copy_arrays(self._cache if cache is None else cache)
        addresses, callbacks = dict(self._bind()), {}
        errors: dict[int, BaseException] = {}
        fault = np.zeros(2, np.int64)
        for code, function in self._functions.items():
            if code not in addresses:
                call = function.role.caller(function.plain, function.last(cache, self._data))
                callbacks[code] = callback(function.role, call, functools.partial(errors.setdefault, code), fault)
                addresses[code] = _address(callbacks[code])
        memory = lay_out((cache, self._data))
        owner = Memory(
            keep=(memory, callbacks),
            caches=leaves(cache),
            recipe=(self.view, (d, cache)),
            explain=functools.partial(self._explain, errors=errors),
            fault=fault,
        )
        return Linked(
            **{field: addresses.get(code, 0) for field, code in _FIELDS.items()},
            part=memory.ctypes.data,
            judges=1,
            fault=np.asarray(owner),
            where=np.zeros(d, np.int8),
            walk=np.zeros(d, np.int8),
        )

    def _bind(self) -> dict[int, int]:
        """Return the addresses of the functions that can be compiled, compiling them where that was not done yet."""
        with self._lock:
            if self._addresses is None:
                self._addresses, reasons = {}, {}
                for code, function in self._functions.items():
                    reason = self._try_to_compile(code, function)
                    if reason:
                        reasons[function.title] = reason
                if reasons and self._compile:
                    _warn_slow(reasons)
            return self._addresses

    def _try_to_compile(self, code: int, function: UserFunction) -> str | None:
        """Note the address of a function and return None, or return why there is none."""
        assert self._addresses is not None
        if not self._compile:
            return "compile=False"
        if not inspect.isfunction(function.plain):
            return f"it is of type {type(function.plain).__name__}, not a function written with def or lambda"
        try:
            for done, adapter in function.compile(self._cache, self._data).items():
                if done == code or done not in self._functions:
                    signature = SIGNATURES[done]
                    self._addresses[done] = address_of(adapter, pointer_to((self._cache, self._data)), *signature)
                    self._compiled.append(adapter)
        except (NumbaError, UnsupportedBytecodeError) as error:
            if _WRITES in str(error):
                raise TypeError(
                    f"{function.title} must not write to s or data, but numba finds that it does: {_reason(error)}"
                ) from error
            return _reason(error)
        return None

    def _explain(self, code: int, site: int, s: NDArray[np.int8], errors: dict[int, BaseException]) -> TargetError:
        """Return the error for a function that failed, calling it once more to see what it raises."""
        # Without conditional means it is the costs behind them that fail, without costs the values of log p.
        function = self._functions.get(code) or self._functions.get(COST) or self._functions[LOG_PROB]
        cause, what = errors.get(function.role.code), ""
        errors.clear()
        if cause is None:
            cause, what, site = self._ask_again(function, site, s)
        if cause is not None:
            what = f"raised {type(cause).__name__}: {cause}"
        about = f" for site {site}" if site >= 0 else ""
        error = TargetError(
            f"{function.title} {what}{about} at s = {shown(s)}", function.role.name, site if site >= 0 else None, s
        )
        error.__cause__ = cause
        return error

    def _ask_again(
        self, function: UserFunction, site: int, s: NDArray[np.int8]
    ) -> tuple[BaseException | None, str, int]:
        """Return what a function raises when run by Python, or what is wrong with what it returns, and the site."""
        # Where all costs are asked for, nobody knows which of them raised.
        for i in range(s.size) if site < 0 and function.role.code == COST else [site]:
            cause, what = self._ask_by_python(function, i, s)
            if cause is not None or not what.startswith(_NOT_BY_PYTHON):
                return cause, what, i
        return cause, what, site

    def _ask_by_python(
        self, function: UserFunction, site: int, s: NDArray[np.int8]
    ) -> tuple[BaseException | None, str]:
        code, out = function.role.code, np.full(s.size, np.nan)
        before = s.copy()
        if code == FLIP:
            before[site] *= -1
        try:
            cache = copy_arrays(self._cache) if code == RESYNC else self._new_cache(before)
            value = self._call_plain(function, s, site, cache, out)
        except Exception as error:
            return error, ""
        return None, _bad_mean(out) if code == MEANS else _bad_value(function, value)

    def __getstate__(self) -> dict[str, Any]:
        kept = self.__dict__.copy()
        for name in ("_addresses", "_compiled", "_lock"):
            del kept[name]
        return kept

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._cache = copy_arrays(self._cache)  # what travelled may be read-only, or the other way round
        freeze(self._data)
        self._forget()


_FIELDS = {"cost": COST, "flip": FLIP, "means": MEANS, "log_prob": LOG_PROB, "resync": RESYNC}


def _in_words(kind: Any) -> str:
    return f"{kind.type} on some paths and None on others" if isinstance(kind, types.Optional) else str(kind)


def _address(callback: Any) -> int:
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert address is not None
    return address


def _bad_value(function: UserFunction, value: Any) -> str:
    if function.role.code == COST:
        expected, is_bad = "a finite cost, or +inf where the flipped state has probability zero", not value > -np.inf
    elif function.role.code == LOG_PROB:
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
    """Return the line of numba's message that says what is wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if _WRITES in line]
    telling += [line for line in lines if not line.startswith(("Failed in", "During:", "File "))]
    line = (telling or lines or [type(error).__name__])[0]
    return line.removesuffix("found for signature:").rstrip(" .")[:300]


def _warn_slow(reasons: dict[str, str]) -> None:
    what = "; ".join(f"{title}: {reason}" for title, reason in reasons.items())
    warnings.warn(
        f"called as plain Python, much slower than compiled code, because numba cannot compile {what}. Pass "
        "compile=False to be spared this warning",
        SlowTargetWarning,
        stacklevel=6,
    )
