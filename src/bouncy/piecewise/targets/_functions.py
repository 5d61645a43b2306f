"""The functions of a user's density, and errors for their failures."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numba import typeof
from numpy.typing import NDArray

from bouncy.functions.binding import NOT_BY_PYTHON, Binding, SlowTargetWarning
from bouncy.piecewise.by_address import (
    BOUND,
    BOUND_TOO_LOW,
    GRADIENT,
    JUMP,
    LOG_PROB,
    MISMATCH,
    NOT_CONVEX,
    OUTSIDE,
    ROLES,
    ROUGH,
)
from bouncy.targets.contract import TargetError, shown

Array = NDArray[np.float64]

_NAMES = {LOG_PROB: "log_prob", GRADIENT: "gradient", BOUND: "bound"}
# What cannot be sampled, and what to do about it. The place follows.
_PROBLEMS = {
    OUTSIDE: "log p is -inf where the particle is; where parameters of a scheme change, it must stay finite. This was",
    JUMP: "log p jumps, or becomes -inf, where no edge or wall is named: name it in edges= or walls=. This was",
    NOT_CONVEX: "-log p is not convex as convex=True says, or log_prob and gradient do not agree "
    "(bouncy.testing.check_target tells). This was",
    MISMATCH: "log_prob and gradient do not agree, or are computed in single precision, or log p has kinks beside each "
    "other that no edge names (bouncy.testing.check_target tells). This was",
    ROUGH: "log p is too rough for events to be found in thousands of evaluations. This was",
    BOUND_TOO_LOW: "bound returned less than -v.gradient is within its horizon. This was",
}


class DensityBinding(Binding):
    """Functions of a user that make up a density."""

    def __init__(self, given: Mapping[str, Callable[..., Any] | None], data: tuple[Any, ...], compile: bool) -> None:
        super().__init__(ROLES, given, (), data, compile)

    def given(self, data: Any) -> DensityBinding:
        """Return the same functions with other data of the same types."""
        if not self._data:
            raise ValueError("this density was given no data, so that there is nothing to replace")
        old, new = typeof(self._data[0]), typeof(data)
        if old != new:
            raise TypeError(f"data must have the types of those that the density was built with, {old}, got {new}")
        other = copy.copy(self)
        other._data = (data,)
        other._addresses, other._compiled, other._lock = self._bind(), self._compiled, self._lock
        return other

    def warn_of_differences(self) -> None:
        """Warn where there is no gradient."""
        if "gradient" not in self._functions:
            warnings.warn(
                "without gradient(y, out, data) differences of log_prob take its place: three evaluations for each "
                "point of a ray and 2 d at each bounce. Give the gradient, by hand or from an automatic one, or use "
                "the sampler 'metropolis', which needs none",
                SlowTargetWarning,
                stacklevel=5,
            )

    def explainer(self, errors: dict[str, BaseException]) -> Callable[[int, Array], TargetError]:
        """Return a function that returns the error for what failed at a place."""
        return partial(self._explain, errors=errors)

    def _explain(self, code: int, y: Array, errors: dict[str, BaseException]) -> TargetError:
        if code in _PROBLEMS:
            return TargetError(f"{_PROBLEMS[code]} at y = {shown(y)}", "log_prob", None, y)
        function = self._functions[_NAMES[code]]
        cause, what, site = errors.get(function.role), "", None
        errors.clear()
        if cause is None:
            cause, what, site = self._ask_by_python(function.role, y)
        if cause is not None:
            what = f"raised {type(cause).__name__}: {cause}"
        error = TargetError(f"{function.title} {what} at y = {shown(y)}", function.role, site, y)
        error.__cause__ = cause
        return error

    def _ask_by_python(self, role: str, y: Array) -> tuple[BaseException | None, str, int | None]:
        """Return what a function raises as plain Python, or what is wrong with its result, and the variable."""
        out = np.full(y.size, np.nan)
        values = {"y": y, "out": out, "v": np.zeros(y.size), "horizon": 1.0}
        try:
            with np.errstate(all="ignore"):
                value = self.run_by_python(role, values)
        except Exception as error:
            return error, "", None
        if role == "gradient":
            bad = np.flatnonzero(~np.isfinite(out))
            if bad.size:
                return None, f"wrote out[{bad[0]}] = {out[bad[0]]} (expected a finite number)", int(bad[0])
            return None, f"{NOT_BY_PYTHON}, or wrote no finite number, although it does as plain Python", None
        expected = "a finite number, or -inf where p(y) = 0" if role == "log_prob" else "a finite number >= 0"
        if role == "bound" or not value < np.inf:
            return None, f"returned {value} (expected {expected})", None
        return None, f"{NOT_BY_PYTHON} (expected {expected}), although as plain Python it returns {value}", None
