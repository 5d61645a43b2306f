"""A density given by functions, as compiled loops see it: addresses of log p, of its gradient and of a bound.

One loop serves all densities. Where there is no gradient, differences of log p take its place.
"""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper, kernel
from bouncy._dispatch import part
from bouncy._native import (
    FINE,
    array_at,
    as_number,
    as_status,
    call_number,
    call_status,
    dereference,
    keep_apart,
    read_only,
)
from bouncy.functions.user_function import Role
from bouncy.targets.contract import TargetError

Array = NDArray[np.float64]

# Values of `fault[0]` other than FINE: a function that failed, or what event times cannot be found for.
LOG_PROB, GRADIENT, BOUND, OUTSIDE, JUMP, NOT_CONVEX, MISMATCH, ROUGH, BOUND_TOO_LOW, STOPPED = range(1, 11)
# Indices of counted evaluations.
OF_LOG_PROB, OF_GRADIENT, OF_BOUND = range(3)


@part()
class DensityView(NamedTuple):
    """The functions of a density, and where it may jump. An address of 0 stands for a function that is not given."""

    log_prob: int  # float64(part, y, d)
    gradient: int  # int64(part, y, d, out, d)
    bound: int  # float64(part, y, d, v, d, horizon)
    part: int
    convex: int  # 1 where -log p is convex on each cell
    fault: NDArray[np.int64]  # (1,) what failed; its base owns the memory at the addresses
    where: Array  # (d,) the place at which it failed
    first: NDArray[np.int64]  # (d + 1,) and so on: the cells, whose values are the coordinates themselves
    lower: Array  # (n,)
    upper: Array  # (n,)
    slope: Array  # (n,) ones
    shift: Array  # (n,) zeros
    normals: Array  # (m, d) of the walls
    offsets: Array  # (m,)

    def failure(self) -> TargetError | None:
        """Return the error of what failed, or None."""
        if self.fault[0] == FINE:
            return None
        if self.fault[0] == STOPPED:
            return TargetError("the chain was stopped", "none", None, self.where.copy())
        error: TargetError = self.fault.base.explain(int(self.fault[0]), self.where.copy())  # type: ignore[union-attr]
        return error

    def stop(self) -> None:
        """Stop a loop that runs in another thread; plain Python functions are not called any more."""
        self.fault[0] = STOPPED

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the target that the view is of: addresses are valid in one process only."""
        return _view_of, (self.fault.base.target,)  # type: ignore[union-attr]


def _view_of(target: Any) -> DensityView:
    view: DensityView = target.view()
    return view


def _adapt_log_prob(function, last):
    def log_prob(pointer, y, d):
        return as_number(float(function(read_only(array_at(y, d)), *last(dereference(pointer)))))

    return log_prob


def _adapt_gradient(function, last):
    def gradient(pointer, y, d, out, n):
        function(read_only(array_at(y, d)), array_at(out, n), *last(dereference(pointer)))
        return as_status(np.int64(FINE))

    return gradient


def _adapt_bound(function, last):
    def bound(pointer, y, d, v, n, horizon):
        place, velocity = read_only(array_at(y, d)), read_only(array_at(v, n))
        return as_number(float(function(place, velocity, horizon, *last(dereference(pointer)))))

    return bound


def _is_not_finite(out: Array) -> NDArray[np.bool_]:
    return ~np.isfinite(out)


ROLES = {
    "log_prob": Role(("y",), _adapt_log_prob, returns_number=True),
    "gradient": Role(("y", "out"), _adapt_gradient, bad=_is_not_finite),
    "bound": Role(("y", "v", "horizon"), _adapt_bound, returns_number=True),
}


# What a loop does with a view. A failure is noted in `fault`, and what is returned then is not used.


@helper
def potential(view, y, evaluations):
    """Return U(y) = -log p(y), +inf outside of the support."""
    evaluations[OF_LOG_PROB] += 1
    value = call_number(view.log_prob, view.part, y)
    if not value < inf:  # also true of NaN
        report(view.fault, view.where, LOG_PROB, y)
    return -value


@helper
def gradient(view, y, out, evaluations):
    """Write the gradient of log p at y into `out`."""
    evaluations[OF_GRADIENT] += 1
    if call_status(view.gradient, view.part, y, out) != FINE:
        report(view.fault, view.where, GRADIENT, y)


@helper
def rate_bound(view, y, v, horizon, evaluations):
    """Return the user's bound on dU/dt from y on, along v, over a time."""
    evaluations[OF_BOUND] += 1
    value = call_number(view.bound, view.part, y, v, horizon)
    if not 0.0 <= value < inf:
        report(view.fault, view.where, BOUND, y)
    return value


@helper
def failed(view):
    """Return whether something failed, so that the loop must stop."""
    return view.fault[0] != FINE


@kernel
def report(fault, where, what, y):
    """Note what failed, and where, unless something failed before."""
    keep_apart()
    if fault[0] == FINE:
        fault[0] = what
        for i in range(y.size):
            where[i] = y[i]


@kernel
def log_probs(view, rows, out, evaluations):
    """Write log p of each row, (n, d), into `out`, (n,), until something fails."""
    for k in range(rows.shape[0]):
        out[k] = -potential(view, rows[k], evaluations)
        if failed(view):
            break


@kernel
def gradients(view, rows, out, evaluations):
    """Write the gradient of log p at each row, (n, d), into `out`, (n, d), until something fails."""
    for k in range(rows.shape[0]):
        gradient(view, rows[k], out[k], evaluations)
        if failed(view):
            break
