"""The functions of a user's target of spins: a view that calls them by address, and errors for failures."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bouncy.functions.binding import NOT_BY_PYTHON, Binding
from bouncy.functions.data import copy_arrays, leaves
from bouncy.functions.user_function import UserFunction
from bouncy.targets.by_address import NAMES, Linked, Memory, link
from bouncy.targets.contract import TargetError, shown


class SpinBinding(Binding):
    """Functions of a user that make up a target of spins."""

    def view(self, d: int, cache: tuple[Any, ...] | None = None) -> Linked:
        """Return a view with a cache of its own."""
        cache = copy_arrays(self._cache if cache is None else cache)
        fault = np.zeros(2, np.int64)
        attached = self.attach(cache, fault)
        owner = Memory(
            fault,
            keep=attached.keep,
            caches=leaves(cache),
            recipe=(self.view, (d, cache)),
            explain=functools.partial(self._explain, errors=attached.errors),
        )
        return link(attached.addresses, attached.memory, owner, d)

    def run_at(self, name: str, s: NDArray[np.int8], site: int) -> Any:
        """Return the result of a function called as plain Python, with the cache that `init` makes."""
        return self.run_by_python(name, {"s": s, "i": site, "out": None}, self._new_cache(s))

    def _new_cache(self, s: NDArray[np.int8]) -> tuple[Any, ...]:
        cache: tuple[Any, ...] = copy_arrays(self._cache)
        if cache:
            self.run_by_python("init", {"s": s}, cache)
        return cache

    # Failures

    def _explain(self, code: int, site: int, s: NDArray[np.int8], errors: dict[str, BaseException]) -> TargetError:
        """Return the error for a function that failed, calling it once more to see what it raises."""
        # Costs without a function come from values of log p.
        function = self._functions.get(NAMES[code]) or self._functions["log_prob"]
        cause, what = errors.get(function.role), ""
        errors.clear()
        if cause is None:
            cause, what = self._ask_by_python(function, site, s)
        if cause is not None:
            what = f"raised {type(cause).__name__}: {cause}"
        about = f" for site {site}" if site >= 0 else ""
        error = TargetError(
            f"{function.title} {what}{about} at s = {shown(s)}", function.role, site if site >= 0 else None, s
        )
        error.__cause__ = cause
        return error

    def _ask_by_python(
        self, function: UserFunction, site: int, s: NDArray[np.int8]
    ) -> tuple[BaseException | None, str]:
        out = np.full(s.size, np.nan)
        before = s.copy()
        if function.role == "on_flip":
            before[site] *= -1
        try:
            cache = copy_arrays(self._cache) if function.role == "init" else self._new_cache(before)
            value = self.run_by_python(function.role, {"s": s, "i": site, "out": out}, cache)
        except Exception as error:
            return error, ""
        return None, _bad_mean(out) if function.role == "conditional_means" else _bad_value(function, value)


def _bad_value(function: UserFunction, value: Any) -> str:
    if function.role == "flip_cost":
        expected, is_bad = "a finite cost, or +inf where the flipped state has probability zero", not value > -np.inf
    elif function.role == "log_prob":
        expected, is_bad = "a finite number, or -inf where p(s) = 0", not value < np.inf
    else:
        return f"{NOT_BY_PYTHON}, although it does not as plain Python with a new cache"
    if is_bad:
        return f"returned {value} (expected {expected})"
    return f"{NOT_BY_PYTHON} (expected {expected}), although as plain Python it returns {value}"


def _bad_mean(out: NDArray[np.float64]) -> str:
    bad = np.flatnonzero(~(np.abs(out) <= 1.0))
    if bad.size == 0:
        return f"{NOT_BY_PYTHON}, although it does not as plain Python"
    return f"wrote out[{bad[0]}] = {out[bad[0]]} (expected a mean between -1 and 1)"
