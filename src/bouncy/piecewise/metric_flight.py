"""The bouncy particle of a dense Gaussian in a box: it moves in the metric of the covariance.

With the precision P and the covariance C, velocities have v'P v = 1 and are uniform there, and

    v -= 2 (v.g) C g / (g.C g),    v -= 2 v_i C[:, i] / C_ii

reflect off the gradient g and off a wall of x_i. This is the particle in the coordinates in which the covariance is the
identity, so that correlations do not slow it down. Its state between two events is, with x less the mean,

    x = C g,    g = P x,    Q = P v,    dU/dt = v.g + v.Q t.

A bounce adds multiples of x to v and of g to Q; a wall adds a multiple of C[:, i] to v, and changes Q_i alone: O(d) for
both. A refreshment and the end of a sweep take products with matrices, O(d^2).
"""

from __future__ import annotations

from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import implements, part
from bouncy._random import exponential, fill_sphere
from bouncy.clocks.contract import LONGEST
from bouncy.piecewise.box import Box, multiply_root, place_inside
from bouncy.piecewise.coupling import multiply
from bouncy.piecewise.events import climbed, time_to_spend
from bouncy.piecewise.expectations import record_laws
from bouncy.piecewise.motion import settle, sweep
from bouncy.piecewise.products import products_leg
from bouncy.piecewise.recorder import begin_sweep, end_sweep, leave_cells, record_leg
from bouncy.recorders.contract import BOUNCES, HITS, REFRESHMENTS

Array = NDArray[np.float64]
# Largest numbers that are accepted of a state: their squares do not overflow.
_LARGEST = 1e100


def _leg_bounds(flight: Any) -> tuple[Any, Any]:
    rate = flight.leg[REFRESH_RATE]
    return np.array([0.0, 0.0, rate]), np.array([LONGEST, inf, rate])


def _speeds(flight: Any) -> tuple[Any, Any]:
    """Return bounds of velocities, twice as wide as they need be: v_i^2 <= C_ii."""
    fastest = 2.0 * np.sqrt(np.diagonal(flight.box.covariance))
    return -fastest, fastest


def _moderate(flight: Any) -> tuple[float, float]:
    return -_LARGEST, _LARGEST


@part(
    "y", "row", "x", "v", "g", "Q", "leg", "rng",
    bounds={
        "x": lambda flight: (np.maximum(flight.box.lower, -_LARGEST), np.minimum(flight.box.upper, _LARGEST)),
        "v": _speeds,
        "leg": _leg_bounds,
        **dict.fromkeys(("y", "g", "Q"), _moderate),
    },
)  # fmt: skip
class MetricFlight(NamedTuple):
    """State of the particle."""

    y: Array  # (d,) where the last sweep ended, in scaled coordinates
    row: NDArray[np.int64]  # (d,) cells, of which each coordinate has one
    x: Array  # (d,) deviation from the mean
    v: Array  # (d,) NaN before the first one is drawn
    g: Array  # (d,)
    Q: Array  # (d,)
    leg: Array  # (3,) see the indices below
    rng: NDArray[np.uint64]  # (4,)
    box: Box
    values: Array  # (d,) scratch
    hit: Array  # (d,) scratch


# Indices into `leg`: the budget for climbing, the time until the next refreshment, and their rate.
BUDGET, T_REFRESH, REFRESH_RATE = range(3)


def new_metric_flight(
    box: Box, y: Array, v: Array, row: NDArray[np.int64], rate: float, rng: NDArray[np.uint64]
) -> MetricFlight:
    """Return a particle at y whose velocity is root'v, for a v of length 1, and that is refreshed at a rate.

    `settle` has to be called before it moves.
    """
    x, g, Q, values, hit = np.zeros((5, y.size))
    leg = np.array([np.nan, np.nan, rate])
    return MetricFlight(y / box.scale, row.astype(np.int64), x, v @ box.root, g, Q, leg, rng, box, values, hit)


@implements(settle, MetricFlight)
def _settle(flight, view, evaluations):
    leg = flight.leg
    place_inside(flight.box, flight.y, flight.x)
    if np.isnan(flight.v[0]):
        _draw_velocity(flight)
    if np.isnan(leg[BUDGET]):
        leg[T_REFRESH] = _time_to_refresh(leg, flight.rng)
        leg[BUDGET] = exponential(flight.rng)
    _compute_anew(flight, view)


@helper
def _draw_velocity(flight):
    fill_sphere(flight.rng, flight.hit)
    multiply_root(flight.box, flight.hit, flight.v)


@helper
def _time_to_refresh(leg, rng):
    return exponential(rng) / leg[REFRESH_RATE] if leg[REFRESH_RATE] > 0.0 else inf


@helper
def _compute_anew(flight, view):
    """Compute what is kept up to date from x and v, whose length rounding must not change."""
    multiply(view.coupling, flight.x, flight.g)
    multiply(view.coupling, flight.v, flight.Q)
    square = 0.0
    for i in range(flight.v.size):
        square += flight.v[i] * flight.Q[i]
    factor = 1.0 / sqrt(square)
    for i in range(flight.v.size):
        flight.v[i] *= factor
        flight.Q[i] *= factor


@implements(sweep, MetricFlight)
def _sweep(flight, view, recorder, sweep_time):
    leg, events, values = flight.leg, recorder.open_events, flight.values
    _write_values(flight)
    begin_sweep(recorder, flight.box.scale, sweep_time)
    remaining = sweep_time
    while remaining > 0.0:
        i, t_wall, b, c = _look_ahead(flight)
        t_bounce = time_to_spend(b, c, leg[BUDGET])
        t = min(t_wall, t_bounce, leg[T_REFRESH], remaining)
        leg[BUDGET] = max(leg[BUDGET] - climbed(b, c, t), 0.0)
        products_leg(recorder.products, values, flight.v, t)
        record_leg(recorder, values, flight.v, t)
        _move(flight, t)
        remaining -= t
        leg[T_REFRESH] -= t
        if t == t_wall:
            _reflect_off_wall(flight, i)
            events[HITS] += 1.0
        elif t == t_bounce:
            _reflect(flight)
            leg[BUDGET] = exponential(flight.rng)
            events[BOUNCES] += 1.0
        elif leg[T_REFRESH] <= 0.0:
            _draw_velocity(flight)
            multiply(view.coupling, flight.v, flight.Q)
            leg[T_REFRESH] = _time_to_refresh(leg, flight.rng)
            leg[BUDGET] = exponential(flight.rng)
            events[REFRESHMENTS] += 1.0
        _write_values(flight)
    leave_cells(recorder, flight.row)
    _compute_anew(flight, view)
    energy = 0.0
    for i in range(values.size):
        flight.y[i] = values[i] / flight.box.scale[i]
        energy += 0.5 * flight.x[i] * flight.g[i]
    has_laws = record_laws(recorder.expectations, recorder, view, values, flight.g, sweep_time)
    end_sweep(recorder, values, -energy)
    return has_laws


@helper
def _write_values(flight):
    for i in range(flight.x.size):
        flight.values[i] = flight.box.mean[i] + flight.x[i]


@helper
def _look_ahead(flight):
    """Return the coordinate that meets a wall first and the time until then, inf if none does; dU/dt and its rate."""
    x, v, g, Q, hit = flight.x, flight.v, flight.g, flight.Q, flight.hit
    b = c = 0.0
    for i in range(x.size):
        ahead = flight.box.upper[i] if v[i] > 0.0 else flight.box.lower[i]
        hit[i] = (ahead - x[i]) / v[i] if v[i] != 0.0 else inf
        b += v[i] * g[i]
        c += v[i] * Q[i]
    first, soonest = 0, inf
    for i in range(x.size):
        if hit[i] < soonest:
            first, soonest = i, hit[i]
    return first, soonest, b, c


@helper
def _move(flight, t):
    """Move on by a time."""
    x, v, g, Q = flight.x, flight.v, flight.g, flight.Q
    for i in range(x.size):
        # Rounding must not carry a coordinate out of the box.
        x[i] = min(max(x[i] + v[i] * t, flight.box.lower[i]), flight.box.upper[i])
        g[i] += Q[i] * t


@helper
def _reflect_off_wall(flight, i):
    """Put coordinate i on the wall that it meets, and reflect off it: v_i is inverted."""
    v, column, speed = flight.v, flight.box.covariance[i], flight.v[i]
    kick = 2.0 * speed / column[i]
    for j in range(v.size):
        v[j] -= kick * column[j]
    flight.x[i] = flight.box.upper[i] if speed > 0.0 else flight.box.lower[i]
    v[i] = -speed
    flight.Q[i] -= kick


@helper
def _reflect(flight):
    """Reflect off the gradient."""
    x, v, g, Q = flight.x, flight.v, flight.g, flight.Q
    along = square = 0.0
    for i in range(v.size):
        along += v[i] * g[i]
        square += g[i] * x[i]
    factor = 2.0 * along / square if square > 0.0 else 0.0
    for i in range(v.size):
        v[i] -= factor * x[i]
        Q[i] -= factor * g[i]
