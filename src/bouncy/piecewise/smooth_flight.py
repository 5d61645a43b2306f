"""The bouncy particle on any piecewise differentiable density (Pakman 2017, section 2).

It moves in the coordinates themselves, with a velocity v that has length 1 in y / scale, and reflects in that metric.
A *leg* is the path from one bounce, wall, refreshment or end of a sweep to the next. Walls are the edges of cells and
hyperplanes n.y = c. Which side of each the particle is on is remembered, not computed, and the density is asked just
off a wall, never on it: a leg ends a margin before its wall, and after a crossing the next begins a margin behind it.

Two budgets, each Exp(1), pay for climbing and for the walls, as in `flight.py`.
"""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import implements, part
from bouncy._random import exponential, fill_sphere
from bouncy.piecewise.by_address import GRADIENT, OUTSIDE, failed, gradient, potential, report
from bouncy.piecewise.motion import settle, sweep
from bouncy.piecewise.products import products_leg
from bouncy.piecewise.rays import BUDGET, CURVE, DIFFERENCE, SLOPE, Ray, U, find_bounce, look, new_ray
from bouncy.piecewise.recorder import begin_sweep, end_sweep, leave_cells, record_crossing, record_leg
from bouncy.recorders.contract import BOUNCES, FLIPS, HITS, REFRESHMENTS
from bouncy.tolls.budget import Budget
from bouncy.tolls.contract import pay

Array = NDArray[np.float64]

# Distance from a wall at which the density is asked, relative to the sizes of what the distance is computed from.
_MARGIN = 2.0**-44
_LARGEST = 1e100


def _refresh_bounds(flight: Any) -> tuple[Any, Any]:
    rate = flight.refresh[REFRESH_RATE]
    return [0.0, rate], [inf, rate]


@part(
    "y", "v", "scale", "row", "side", "refresh", "rng",
    bounds={
        "y": lambda flight: (-_LARGEST, _LARGEST),
        "v": lambda flight: (-_LARGEST, _LARGEST),
        "scale": lambda flight: (1e-100, _LARGEST),
        "side": lambda flight: (-1.0, 1.0),
        "refresh": _refresh_bounds,
    },
)  # fmt: skip
class SmoothFlight(NamedTuple):
    """State of the particle."""

    y: Array  # (d,) where the leg began
    v: Array  # (d,) of length 1 in y / scale; zeros stand for a velocity that is yet to be drawn
    scale: Array  # (d,)
    row: NDArray[np.int64]  # (d,) the cell of each coordinate
    side: Array  # (m,) the sign of n.y - c for each wall
    refresh: Array  # (2,) see the indices below
    rng: NDArray[np.uint64]  # (4,)
    toll: Budget
    ray: Ray
    ones: Array  # (d,) slopes of the values x = y


# Indices into `refresh`: the time of the next refreshment, and their rate.
T_REFRESH, REFRESH_RATE = range(2)


def new_smooth_flight(
    y: Array, v: Array, scale: Array, row: NDArray[np.int64], side: Array, rate: float, rng: Any, toll: Budget
) -> SmoothFlight:
    """Return a particle at y; v has length 1. `settle` has to be called before it moves."""
    return SmoothFlight(
        y=y.copy(),
        v=v * scale,
        scale=scale.copy(),
        row=row.astype(np.int64),
        side=side.astype(np.float64),
        refresh=np.array([0.0, rate]),
        rng=rng,
        toll=toll,
        ray=new_ray(y.size),
        ones=np.ones(y.size),
    )


@implements(settle, SmoothFlight)
def _settle(flight, view, evaluations):
    leg, v = flight.ray.leg, flight.v
    if np.isnan(leg[BUDGET]):
        rate = flight.refresh[REFRESH_RATE]
        flight.refresh[T_REFRESH] = exponential(flight.rng) / rate if rate > 0.0 else inf
        leg[BUDGET] = exponential(flight.rng)
    moves = False
    for i in range(v.size):
        moves = moves or v[i] != 0.0
    if not moves:
        _draw_velocity(flight)
        leg[CURVE] = 1.0
    for i in range(v.size):
        _step_off_edges(flight, view, i)
    _look_here(flight, view, evaluations)


@helper
def _draw_velocity(flight):
    fill_sphere(flight.rng, flight.v)
    for i in range(flight.v.size):
        flight.v[i] *= flight.scale[i]


@helper
def _step_off_edges(flight, view, i):
    """Move a coordinate that is on an edge, or beyond it by rounding, into its cell."""
    lower, upper = view.lower[flight.row[i]], view.upper[flight.row[i]]
    margin = _MARGIN * (abs(flight.y[i]) + flight.scale[i])
    if flight.y[i] < lower + margin:
        flight.y[i] = lower + margin
    elif flight.y[i] > upper - margin:
        flight.y[i] = upper - margin


@helper
def _look_here(flight, view, evaluations):
    """Compute U and its slope where the particle is."""
    ray = flight.ray
    ray.room[0] = 4.0 * DIFFERENCE
    ray.leg[U], ray.leg[SLOPE] = look(ray, flight.y, flight.v, view, 0.0, evaluations)
    if ray.leg[U] == inf:
        report(view.fault, view.where, OUTSIDE, flight.y)


@implements(sweep, SmoothFlight)
def _sweep(flight, view, recorder, sweep_time):
    events, evaluations, refresh = recorder.open_events, recorder.evaluations, flight.refresh
    ray, y, v = flight.ray, flight.y, flight.v
    remaining = sweep_time
    begin_sweep(recorder, flight.ones, sweep_time)
    while remaining > 0.0:
        wall, t_wall, margin = _next_wall(flight, view)
        end = min(remaining, refresh[T_REFRESH])
        meets = t_wall - margin <= end
        if meets:
            end = max(t_wall - margin, 0.0)
        refreshes = not meets and end == refresh[T_REFRESH]
        t, bounces = find_bounce(ray, y, v, view, flight.rng, end, meets or refreshes, evaluations)
        if failed(view):
            return False
        _finish_leg(flight, recorder, t)
        remaining -= t
        refresh[T_REFRESH] = max(refresh[T_REFRESH] - t, 0.0)
        if bounces:
            events[BOUNCES] += 1.0
            if view.gradient == 0:
                _gradient_by_differences(flight, view, evaluations)
            _reflect(flight, ray.g)
            ray.leg[SLOPE] = -ray.leg[SLOPE]
        elif meets:
            events[HITS] += 1.0
            events[FLIPS] += _meet_wall(flight, view, recorder, wall, t_wall + margin - t)
        elif refreshes:
            events[REFRESHMENTS] += 1.0
            _draw_velocity(flight)
            refresh[T_REFRESH] = exponential(flight.rng) / refresh[REFRESH_RATE]
            ray.leg[BUDGET] = exponential(flight.rng)
            _turn(flight, view, evaluations)
    if view.bound != 0 and ray.leg[U] != ray.leg[U]:
        ray.leg[U] = potential(view, y, evaluations)
    leave_cells(recorder, flight.row)
    end_sweep(recorder, y, -ray.leg[U])
    return not failed(view)


@helper
def _finish_leg(flight, recorder, t):
    """Record all paths up to time t, and move y there."""
    y, v = flight.y, flight.v
    products_leg(recorder.products, y, v, t)
    record_leg(recorder, y, v, t)
    for i in range(y.size):
        y[i] += v[i] * t


@helper
def _turn(flight, view, evaluations):
    """Compute the slope of U along a velocity that is new, at a place where the gradient is known."""
    ray = flight.ray
    if view.gradient == 0:
        _look_here(flight, view, evaluations)
        return
    slope = 0.0
    for i in range(flight.v.size):
        slope -= flight.v[i] * ray.g[i]
    if not abs(slope) < inf:
        report(view.fault, view.where, GRADIENT, flight.y)
    ray.leg[SLOPE] = slope


@helper
def _reflect(flight, n):
    """Reflect the velocity off a surface whose normal is n: v -= 2 (v.n) S n / n.S n, S the squares of the scale."""
    v, scale = flight.v, flight.scale
    along = square = 0.0
    for i in range(v.size):
        along += v[i] * n[i]
        square += scale[i] * n[i] * (scale[i] * n[i])
    factor = 2.0 * along / square if square > 0.0 else 0.0
    norm = 0.0
    for i in range(v.size):
        v[i] -= factor * scale[i] * (scale[i] * n[i])
        norm += (v[i] / scale[i]) * (v[i] / scale[i])
    # One Newton step towards length 1 keeps rounding from building up.
    factor = 1.5 - 0.5 * norm
    for i in range(v.size):
        v[i] *= factor


# Walls: those of coordinate i are number i, hyperplanes follow.


@helper
def _next_wall(flight, view):
    """Return the wall that is met first, the time, and the time that its margin takes."""
    y, v, scale = flight.y, flight.v, flight.scale
    d = y.size
    wall, time, margin = -1, inf, 0.0
    for i in range(d):
        ahead = view.upper[flight.row[i]] if v[i] > 0.0 else view.lower[flight.row[i]]
        t = (ahead - y[i]) / v[i] if v[i] != 0.0 else inf
        if t < time:
            wall, time = i, t
    if wall >= 0:
        ahead = view.upper[flight.row[wall]] if v[wall] > 0.0 else view.lower[flight.row[wall]]
        margin = _MARGIN * (abs(ahead) + abs(y[wall]) + scale[wall]) / abs(v[wall])
    for k in range(view.offsets.size):
        normal = view.normals[k]
        place, speed, size = -view.offsets[k], 0.0, abs(view.offsets[k])
        for i in range(d):
            place += normal[i] * y[i]
            speed += normal[i] * v[i]
            size += abs(normal[i]) * (abs(y[i]) + scale[i])
        if speed * flight.side[k] < 0.0 and -place / speed < time:
            wall, time, margin = d + k, -place / speed, _MARGIN * size / abs(speed)
    return wall, max(time, 0.0), margin


@helper
def _meet_wall(flight, view, recorder, wall, ahead):
    """Cross a wall, a time `ahead`, and return 1, or reflect off it and return 0."""
    ray, y, v, evaluations = flight.ray, flight.y, flight.v, recorder.evaluations
    d = y.size
    for i in range(d):
        ray.point[i] = y[i] + v[i] * ahead
    beyond = potential(view, ray.point, evaluations)
    passed = False
    if not failed(view):
        passed, flight.toll.purse[0] = pay(flight.toll, flight.toll.purse[0], beyond - ray.leg[U], wall)
    if passed:
        for i in range(d):
            y[i] = ray.point[i]
        if wall < d:
            row = flight.row[wall]
            flight.row[wall] = row + 1 if v[wall] > 0.0 else row - 1
            record_crossing(recorder, wall, row, 1.0, 0.0)
        else:
            flight.side[wall - d] = -flight.side[wall - d]
        ray.leg[U] = beyond
        if view.gradient != 0:
            gradient(view, y, ray.g, evaluations)
    elif wall < d:
        v[wall] = -v[wall]
    else:
        _reflect(flight, view.normals[wall - d])
    _turn(flight, view, evaluations)
    return 1.0 if passed else 0.0


# Without a gradient


@helper
def _gradient_by_differences(flight, view, evaluations):
    """Write the gradient of log p at y by central differences, one-sided ones near walls, into that of the ray."""
    ray, y = flight.ray, flight.y
    point = ray.point
    for i in range(y.size):
        point[i] = y[i]
    for i in range(y.size):
        e = DIFFERENCE * flight.scale[i]
        up, down = _room(flight, view, i, e)
        if up >= e and down >= e:
            ray.g[i] = (_shifted(view, point, i, -e, evaluations) - _shifted(view, point, i, e, evaluations)) / (
                2.0 * e
            )
            continue
        if down > up:
            e, up = -e, down
        if up < 2.0 * abs(e):
            e *= 0.4 * up / abs(e)
        one, two = _shifted(view, point, i, e, evaluations), _shifted(view, point, i, 2.0 * e, evaluations)
        ray.g[i] = (3.0 * ray.leg[U] - 4.0 * one + two) / (2.0 * e)


@helper
def _shifted(view, point, i, e, evaluations):
    """Return U at a point with one coordinate shifted."""
    kept = point[i]
    point[i] = kept + e
    u = potential(view, point, evaluations)
    point[i] = kept
    return u


@helper
def _room(flight, view, i, e):
    """Return how far coordinate i can go up and down without meeting a wall, up to 4 e."""
    y = flight.y
    up, down = min(view.upper[flight.row[i]] - y[i], 4.0 * e), min(y[i] - view.lower[flight.row[i]], 4.0 * e)
    for k in range(view.offsets.size):
        normal = view.normals[k]
        if normal[i] != 0.0:
            place = -view.offsets[k]
            for j in range(y.size):
                place += normal[j] * y[j]
            distance = max(place * flight.side[k], 0.0) / abs(normal[i])
            if normal[i] * flight.side[k] < 0.0:
                up = min(up, distance)
            else:
                down = min(down, distance)
    return up, down
